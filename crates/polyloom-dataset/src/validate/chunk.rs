//! The files of a chunk: each is what the manifest lists, and together they are what a run leaves. Every index of the
//! chunk has a row or a reason for having none, keys are those of the rows, and no row is like an earlier one.

use super::row::{ExaminedRow, look_at};
use super::{ValidationFinding, ValidationReport};
use crate::produce::{
    ChunkFiles, DUPLICATE, DatasetManifest, FOLDERS, FileFormat, FileRecord, GIVEN_UP, Lines, MANIFEST, MOST_BARREN,
    NEARLY_ALIKE, ProduceSettings, RejectRecord, RowEncoder, RowKeys, SPLITS, categories, drafts, read_chunk_keys,
    read_lines, split_name,
};
use crate::proof::{ProofLevel, Reason};
use crate::repeats::{KEYS_AT_A_TIME, Located, repeats};
use crate::similarity::BandSketch;
use crate::statistics::{Histogram, OpCounts, RowStatistics};
use crate::tools::ColumnTools;
use crate::verify::KernelVerifier;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;

/// Number of rows that are in memory at a time, and so how many threads may have something to do.
pub(super) const BATCH: usize = 256;

/// Says how many of many findings of a kind are told one by one.
const TOLD: usize = 100;

/// Looks at one chunk after the other.
pub(super) struct ChunkExaminer<'a> {
    pub(super) folder: &'a Path,
    pub(super) manifest: &'a DatasetManifest,
    pub(super) tools: ColumnTools<'a>,
    pub(super) verifiers: Vec<KernelVerifier>,
    /// Is told how many rows have been looked at, and of how many.
    pub(super) observe: &'a mut dyn FnMut(u64, u64),
    /// Says which rows a run would have taken that leaves out what too many are nearly like.
    pub(super) sketch: Option<BandSketch>,
    pub(super) quality: ValidationReport,
    pub(super) statistics: RowStatistics,
    pub(super) op_counts: OpCounts,
    /// The index after the last that has a row.
    pub(super) after_last_row: u64,
}

/// Describes what the files of a chunk have told so far.
#[derive(Default)]
struct SeenRows {
    /// Keys of rows that have not been seen, by part of the data set, the next one last; none if they cannot be held
    /// against rows.
    keys: Option<[Vec<RowKeys>; SPLITS.len()]>,
    /// Indices that have a row, with the number of the kernel that it is of those that the index gives.
    rows: BTreeMap<u64, Option<usize>>,
    /// Indices that have a reason for having none.
    without: BTreeSet<u64>,
    /// Number of kernels of an index were rejected.
    rejected: BTreeMap<u64, usize>,
    n_rows: u64,
    reasons: Histogram,
}

impl ChunkExaminer<'_> {
    /// Looks at all chunks.
    pub(super) fn chunks(&mut self) {
        let mut next = self.manifest.settings.first;
        let n_chunks = self.manifest.chunks.len();
        for (number, chunk) in self.manifest.chunks.iter().enumerate() {
            let is_next = self.manifest.settings.next_index(next) == Some(chunk.first);
            if is_next && self.ends_well(chunk, number + 1 == n_chunks) {
                self.chunk(chunk);
            } else {
                let what = format!("indices {} to {} are not what comes next", chunk.first, last(chunk));
                self.found(MANIFEST, what);
            }
            next = next.max(chunk.end);
        }
    }

    /// Returns true if a chunk ends with its files, or with the run.
    fn ends_well(&self, chunk: &ChunkFiles, is_last: bool) -> bool {
        let settings = &self.manifest.settings;
        let n = settings.indices_per_chunk;
        chunk.first < chunk.end
            && last(chunk) / n == chunk.first / n
            && settings.end.is_none_or(|end| chunk.end <= end)
            && (is_last || chunk.end.is_multiple_of(n))
    }

    /// Returns true if a finished run has all that it was asked for, or has found no more.
    pub(super) fn is_whole(&self) -> bool {
        let DatasetManifest { settings, .. } = self.manifest;
        let next = self.manifest.next();
        let is_barren = settings.end.is_none() && next.saturating_sub(self.after_last_row) >= MOST_BARREN;
        settings.next_index(next).is_none()
            || settings.count.is_some_and(|count| is_barren || self.quality.rows >= count)
    }

    /// Looks at all there is in the files of a chunk.
    fn chunk(&mut self, chunk: &ChunkFiles) {
        let settings = &self.manifest.settings;
        let of = format!("of indices {} to {}", chunk.first, last(chunk));
        if chunk.nvrtc.is_some() && !(settings.nvrtc && settings.verify == ProofLevel::Full) {
            self.found(MANIFEST, "says that NVRTC compiled rows that it did not".to_owned());
        }
        let names = self.names(chunk.first / settings.indices_per_chunk);
        let files: Vec<&FileRecord> = chunk.files.iter().filter(|file| self.is_listed(file, &names)).collect();
        let can_be_read = files.len() == chunk.files.len();
        let keys = can_be_read.then(|| read_chunk_keys(chunk, self.folder).ok()).flatten();
        let mut seen = SeenRows { keys: keys.as_deref().map(by_part), ..SeenRows::default() };
        if let Some(keys) = &keys {
            if !keys.is_sorted_by_key(|keys| keys.index) {
                self.found(MANIFEST, format!("keys {of} are not in order"));
            }
            self.likeness(keys, &of);
        }
        for file in files {
            if file.path.starts_with("data/") {
                self.rows(file, &mut seen);
            } else if file.path.starts_with("rejects/") {
                self.rejects(file, chunk, &mut seen);
            } else if keys.as_ref().is_some_and(|keys| keys.len() as u64 != file.rows) {
                self.found(&file.path, "does not have a key for each row".to_owned());
            }
        }
        self.together(chunk, &seen, &of);
        if let Some((&index, _)) = seen.rows.last_key_value() {
            self.after_last_row = index.saturating_add(1);
        }
    }

    /// Finds faults of a chunk's files taken together.
    fn together(&mut self, chunk: &ChunkFiles, seen: &SeenRows, of: &str) {
        let left = seen.keys.iter().flatten().map(Vec::len).sum::<usize>();
        if left > 0 {
            self.found(MANIFEST, format!("{left} keys {of} are of no row"));
        }
        if seen.reasons != chunk.rejects {
            self.found(MANIFEST, format!("rejects {of} are others"));
        }
        if seen.n_rows != chunk.rows {
            self.found(MANIFEST, format!("lists {} rows {of}, and there are {}", chunk.rows, seen.n_rows));
        }
        let range = chunk.first..chunk.end;
        let all: BTreeSet<u64> = seen.rows.keys().chain(&seen.without).copied().collect();
        if let Some(index) = all.iter().chain(seen.rejected.keys()).find(|index| !range.contains(index)) {
            self.found(MANIFEST, format!("index {index} is not one {of}"));
        }
        if let Some(index) = seen.without.iter().find(|index| seen.rows.contains_key(index)) {
            self.found(MANIFEST, format!("index {index} has a row and a reason for having none"));
        }
        let n_rejected = |index| seen.rejected.get(index).copied().unwrap_or(0);
        let generated = seen.rows.iter().filter_map(|(index, draft)| Some((index, (*draft)?)));
        for (index, draft) in generated.filter(|(index, draft)| n_rejected(index) != *draft).take(TOLD) {
            let what =
                format!("index {index} has {} rejected kernels, and the row is of kernel {draft}", n_rejected(index));
            self.found(MANIFEST, what);
        }
        let there = all.range(range.clone());
        let n_lost = range.end - range.start - there.clone().count() as u64;
        // Up to the first that is missing, they are the range.
        let n_before = there.zip(range.clone()).take_while(|(index, expected)| *index == expected).count() as u64;
        let (index, what) = (range.start + n_before, "neither a row nor a reason for having none");
        match n_lost {
            0 => {}
            1 => self.found(MANIFEST, format!("index {index} has {what}")),
            n => self.found(MANIFEST, format!("index {index} and {} more have {what}", n - 1)),
        }
    }

    /// Checks that a run that limits nearly alike rows would have taken all of these.
    fn likeness(&mut self, keys: &[RowKeys], of: &str) {
        let Some(sketch) = &mut self.sketch else { return };
        let refused: Vec<u64> = keys.iter().filter(|keys| !sketch.take(&keys.bands)).map(|keys| keys.index).collect();
        if let [index, ..] = refused[..] {
            let n = refused.len();
            self.found(MANIFEST, format!("{n} rows {of} are nearly like too many before them: that of {index} first"));
        }
    }

    /// Returns true if a file is there to be read. That it is called otherwise, or its bytes are others, is found.
    fn is_listed(&mut self, file: &FileRecord, names: &[String]) -> bool {
        let path = self.folder.join(&file.path);
        let length = path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
        let Some(length) = length else {
            self.found(&file.path, "is no file of a data set, or is gone".to_owned());
            return false;
        };
        if !names.contains(&file.path) {
            self.found(&file.path, format!("is not what a file of this chunk is called: {}", names.join(", ")));
        }
        let mut hash = blake3::Hasher::new();
        let is_same = length == file.bytes
            && match File::open(&path).and_then(|mut open| io::copy(&mut open, &mut hash)) {
                Err(error) => {
                    self.found(&file.path, format!("cannot be read: {error}"));
                    return false;
                }
                Ok(_) => hash.finalize().to_hex().as_str() == file.blake3,
            };
        if !is_same {
            self.found(&file.path, "is not the file that the manifest lists".to_owned());
        }
        true
    }

    /// Returns what the files of a chunk are called.
    fn names(&self, number: u64) -> Vec<String> {
        let [data, rejects, keys] = FOLDERS;
        let extension = self.manifest.settings.format.extension();
        let splits = SPLITS.iter().map(|(split, _)| format!("{data}/{split}-{number:05}.{extension}"));
        splits.chain([format!("{rejects}/{number:05}.jsonl"), format!("{keys}/{number:05}.bin")]).collect()
    }

    /// Looks at the rows of a file.
    fn rows(&mut self, file: &FileRecord, seen: &mut SeenRows) {
        let split = SPLITS.iter().position(|(split, _)| file.path.starts_with(&format!("data/{split}-")));
        let split = split.unwrap_or_default();
        let mut n_rows = 0;
        let settings = &self.manifest.settings;
        let mut again = RowEncoder::new(blake3::Hasher::new(), settings.format, &settings.columns);
        for batch in batches(read_lines(&self.folder.join(&file.path), self.manifest.settings.format)) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.found(&file.path, format!("cannot be read after row {n_rows}: {error}"));
                    break;
                }
            };
            again = again.and_then(|mut again| {
                batch.iter().try_for_each(|line| again.line(line))?;
                Ok(again)
            });
            for looked in look_at(&batch, self.manifest, &self.tools, &mut self.verifiers) {
                n_rows += 1;
                self.row(file, n_rows, split, looked, seen);
            }
            (self.observe)(self.quality.rows, self.manifest.rows());
        }
        seen.n_rows += n_rows;
        if n_rows != file.rows {
            self.found(&file.path, format!("has {n_rows} rows, the manifest says {}", file.rows));
        }
        self.written_again(file, again);
    }

    /// Checks that a file is what a run makes of the lines in it, where nothing else is wrong with it.
    fn written_again(&mut self, file: &FileRecord, again: io::Result<RowEncoder<blake3::Hasher>>) {
        let hash = again.and_then(RowEncoder::finish).map(|hash| hash.finalize().to_hex());
        let is_same = hash.is_ok_and(|hash| hash.as_str() == file.blake3);
        if !is_same && !self.quality.findings.iter().any(|found| found.file == file.path) {
            self.found(&file.path, "is not what a run writes of these lines".to_owned());
        }
    }

    fn row(&mut self, file: &FileRecord, line: u64, split: usize, looked: ExaminedRow, seen: &mut SeenRows) {
        let ExaminedRow { row, mut wrong, gives, draft } = looked;
        let quality = &mut self.quality;
        quality.rows += 1;
        *quality.categories.entry(row.category.clone()).or_default() += 1;
        self.statistics.add(&row);
        if let Some((keys, op_counts)) = &gives {
            self.op_counts.merge(op_counts);
            if let Some(expected) = &mut seen.keys
                && expected[split].pop().as_ref() != Some(keys)
            {
                wrong.push("is not the row whose key stands in its place".to_owned());
                // The keys are given up, because after a row too many, or one too few, all are in the wrong place.
                seen.keys = None;
            }
            if seen.rows.insert(keys.index, draft).is_some() {
                wrong.push(format!("is not the only row of index {}", keys.index));
            }
        }
        if let Some(metadata) = &row.metadata {
            let split = split_name(&metadata.hashes.structure);
            if !file.path.starts_with(&format!("data/{split}-")) {
                wrong.push(format!("belongs to the part `{split}`"));
            }
            *quality.levels.entry(metadata.verified).or_default() += u64::from(wrong.is_empty());
            quality.with_backward += u64::from(metadata.has_backward);
            if let Some(compiler) = &metadata.cuda_compiler {
                *quality.cuda_compilers.entry(compiler.clone()).or_default() += 1;
            }
        }
        for what in wrong {
            quality.add(ValidationFinding { file: file.path.clone(), line, id: row.id.clone(), what });
        }
    }

    /// Looks at why kernels are no rows.
    fn rejects(&mut self, file: &FileRecord, chunk: &ChunkFiles, seen: &mut SeenRows) {
        match self.read_rejects(file, chunk, seen) {
            Ok(n) if n == file.rows => {}
            Ok(n) => self.found(&file.path, format!("has {n} records, the manifest says {}", file.rows)),
            Err(error) => self.found(&file.path, format!("cannot be read: {error}")),
        }
    }

    fn read_rejects(&mut self, file: &FileRecord, chunk: &ChunkFiles, seen: &mut SeenRows) -> io::Result<u64> {
        let ProduceSettings { source, excluded, seed, .. } = &self.manifest.settings;
        let categories = if source.is_none() { categories(&self.manifest.settings).ok() } else { None };
        let (mut n, mut before) = (0, chunk.first);
        // The kernels of the index that is looked at.
        let mut kernels = None;
        let mut again = RowEncoder::new(blake3::Hasher::new(), FileFormat::Jsonl, &[])?;
        for line in read_lines(&self.folder.join(&file.path), FileFormat::Jsonl)? {
            let line = line?;
            again.line(&line)?;
            let record: RejectRecord = serde_json::from_slice(&line)?;
            n += 1;
            let is_of_index = [DUPLICATE, NEARLY_ALIKE, GIVEN_UP].contains(&&*record.reason);
            let is_known = is_of_index || Reason::is_name(&record.reason);
            if !is_known
                || is_of_index != record.category.is_none()
                || record.index < before
                || record.key().is_some() != (record.reason == DUPLICATE)
                || serde_json::to_vec(&record)? != line
            {
                self.found(&file.path, format!("line {n} is not what a run writes there"));
            }
            if record.reason == Reason::Excluded.name() && excluded.is_none() {
                self.found(&file.path, format!("line {n} is of a kernel to leave out, and the manifest has none"));
            }
            before = record.index;
            // A kernel that was generated is rejected for another of its index; one of a file, or an index, for good.
            if is_of_index || source.is_some() {
                if !seen.without.insert(record.index) {
                    self.found(&file.path, format!("line {n} is the second of index {}", record.index));
                }
            } else {
                *seen.rejected.entry(record.index).or_default() += 1;
                if let Some(categories) = &categories {
                    if kernels.as_ref().is_none_or(|(index, _)| *index != record.index) {
                        kernels = Some((record.index, drafts(categories, *seed, record.index)));
                    }
                    let kernel = kernels.as_mut().and_then(|(_, kernels)| kernels.next());
                    if !kernel.is_some_and(|kernel| record.is_of(&kernel)) {
                        let index = record.index;
                        self.found(&file.path, format!("line {n} is not of what seed {seed} and index {index} give"));
                    }
                }
            }
            *seen.reasons.entry(record.reason).or_default() += 1;
        }
        self.written_again(file, Ok(again));
        Ok(n)
    }

    /// Finds rows that are like earlier ones, by their keys.
    pub(super) fn repeats(&mut self) -> io::Result<()> {
        let ProduceSettings { dedup, format, .. } = self.manifest.settings;
        let chunks: Vec<Located<'_>> = self.manifest.chunks.iter().map(|chunk| (self.folder, chunk)).collect();
        let repeats: BTreeMap<u64, u64> =
            repeats(&chunks, dedup, KEYS_AT_A_TIME).map_err(|(_, error)| error)?.into_iter().collect();
        let told: Vec<(u64, u64)> = repeats.iter().map(|(&repeat, &first)| (repeat, first)).take(TOLD).collect();
        let wanted = told.iter().flat_map(|&(repeat, first)| [repeat, first]).collect();
        let places = places(&chunks, format, &wanted)?;
        for (repeat, first) in told {
            if let (Some((path, line)), Some((of, at))) = (places.get(&repeat), places.get(&first)) {
                let what = format!("is the same as row {at} of {of}");
                self.quality.add(ValidationFinding { file: path.clone(), line: *line, id: String::new(), what });
            }
        }
        if repeats.len() > TOLD {
            self.found(MANIFEST, format!("{} more rows are the same as others", repeats.len() - TOLD));
        }
        Ok(())
    }

    /// Notes what is wrong with a file as a whole.
    pub(super) fn found(&mut self, file: &str, what: String) {
        self.quality.add(ValidationFinding { file: file.to_owned(), line: 0, id: String::new(), what });
    }
}

/// The last index of a chunk.
fn last(chunk: &ChunkFiles) -> u64 {
    chunk.end.saturating_sub(1)
}

/// The keys of the rows in each part of the data set, the first one last.
fn by_part(keys: &[RowKeys]) -> [Vec<RowKeys>; SPLITS.len()] {
    let mut parts = [const { Vec::new() }; SPLITS.len()];
    for keys in keys.iter().rev() {
        parts[keys.split()].push(*keys);
    }
    parts
}

/// The files and the lines of rows, by their numbers in the order of all indices.
fn places(
    chunks: &[Located<'_>],
    format: FileFormat,
    wanted: &BTreeSet<u64>,
) -> io::Result<BTreeMap<u64, (String, u64)>> {
    let mut places = BTreeMap::new();
    let mut number = 0;
    for (folder, chunk) in chunks {
        let mut lines = [0; SPLITS.len()];
        for keys in read_chunk_keys(chunk, folder)? {
            let split = keys.split();
            lines[split] += 1;
            if wanted.contains(&number) {
                let prefix = format!("data/{}-", SPLITS[split].0);
                let is_file =
                    |file: &&FileRecord| file.path.starts_with(&prefix) && file.path.ends_with(format.extension());
                let file = chunk.files.iter().find(is_file);
                places.extend(file.map(|file| (number, (file.path.clone(), lines[split]))));
            }
            number += 1;
        }
    }
    Ok(places)
}

/// Lines, so many at a time; an error is the last that there is.
fn batches(lines: io::Result<Lines>) -> impl Iterator<Item = io::Result<Vec<Vec<u8>>>> {
    let (mut lines, mut failed) = match lines {
        Ok(lines) => (Some(lines), None),
        Err(error) => (None, Some(error)),
    };
    std::iter::from_fn(move || {
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Some(line) = lines.as_mut().and_then(Iterator::next)
        {
            match line {
                Ok(line) => batch.push(line),
                Err(error) => (lines, failed) = (None, Some(error)),
            }
        }
        if batch.is_empty() { failed.take().map(Err) } else { Some(Ok(batch)) }
    })
}
