//! The files of a chunk: each is what the manifest lists, and together they are what a run leaves. Every index of the
//! chunk has a row or a reason for having none, keys are those of the rows, and no row is like an earlier one.

use super::row::{Looked, look_at};
use super::{Finding, MANIFEST, Quality};
use crate::produce::{
    Chunk, FOLDERS, FileRecord, Format, Keys, Lines, Manifest, RejectRecord, SPLITS, is_file_name, read_chunk_keys,
    read_lines, split_name,
};
use crate::repeats::{KEYS_AT_A_TIME, Located, repeats};
use crate::similarity::Sketch;
use crate::statistics::{Histogram, OpCounts, Statistics};
use crate::tools::Tools;
use crate::verify::{Level, Verifier};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

/// How many rows are in memory at a time, and so how many threads may have something to do.
pub(super) const BATCH: usize = 256;

/// How many of many findings of a kind are told one by one.
const TOLD: usize = 100;

/// Looks at one chunk after the other.
pub(super) struct Examiner<'a> {
    pub(super) folder: &'a Path,
    pub(super) manifest: &'a Manifest,
    pub(super) tools: Tools<'a>,
    pub(super) verifiers: Vec<Verifier>,
    /// Is told how many rows have been looked at, and of how many.
    pub(super) observe: &'a mut dyn FnMut(u64, u64),
    /// Which rows a run would have taken that leaves out what too many are nearly like.
    pub(super) sketch: Option<Sketch>,
    pub(super) quality: Quality,
    pub(super) statistics: Statistics,
    pub(super) op_counts: OpCounts,
}

/// What the files of a chunk have told so far.
#[derive(Default)]
struct Seen {
    /// Keys of rows that have not been seen, by part of the data set, the next one last; none if the keys cannot be read.
    keys: Option<[Vec<Keys>; SPLITS.len()]>,
    /// Indices that have a row, or a reason for having none.
    indices: BTreeSet<u64>,
    rows: u64,
    rejects: Histogram,
}

impl Examiner<'_> {
    /// Looks at all there is in the files of a chunk that begins with this index at the earliest.
    pub(super) fn chunk(&mut self, chunk: &Chunk, earliest: u64) {
        let settings = &self.manifest.settings;
        let number = chunk.first / settings.indices_per_chunk;
        let last = chunk.end.saturating_sub(1);
        let are_of_run = (earliest..chunk.end).contains(&chunk.first)
            && last / settings.indices_per_chunk == number
            && settings.end.is_none_or(|end| chunk.end <= end)
            && settings.shard.is_none_or(|shard| number % shard.of == shard.number);
        if !are_of_run {
            self.found(MANIFEST, format!("indices {} to {last} are no chunk of this run", chunk.first));
            return;
        }
        if chunk.nvrtc.is_some() && !(settings.nvrtc && settings.verify == Level::Full) {
            self.found(MANIFEST, "says that NVRTC compiled rows that it did not".to_owned());
        }
        let files: Vec<&FileRecord> = chunk.files.iter().filter(|file| self.is_listed(file, number)).collect();
        let can_be_read = files.len() == chunk.files.len();
        let keys = can_be_read.then(|| read_chunk_keys(chunk, self.folder).ok()).flatten();
        let mut seen = Seen { keys: keys.as_deref().map(by_part), ..Seen::default() };
        if let Some(keys) = &keys {
            self.likeness(chunk, keys);
        }
        for file in files {
            if file.path.starts_with("data/") {
                self.rows(file, &mut seen);
            } else if file.path.starts_with("rejects/") {
                self.rejects(file, &mut seen);
            } else if keys.as_ref().is_some_and(|keys| keys.len() as u64 != file.rows) {
                self.found(&file.path, "does not have a key for each row".to_owned());
            }
        }
        let left = seen.keys.iter().flatten().map(Vec::len).sum::<usize>();
        if left > 0 {
            self.found(MANIFEST, format!("{left} keys of indices {} to {last} are of no row", chunk.first));
        }
        if seen.rejects != chunk.rejects {
            self.found(MANIFEST, format!("rejects of indices {} to {last} are others", chunk.first));
        }
        if seen.rows != chunk.rows {
            let what =
                format!("lists {} rows of indices {} to {last}, and there are {}", chunk.rows, chunk.first, seen.rows);
            self.found(MANIFEST, what);
        }
        let range = chunk.first..chunk.end;
        if let Some(index) = seen.indices.iter().find(|index| !range.contains(index)) {
            self.found(MANIFEST, format!("index {index} is not one of indices {} to {last}", chunk.first));
        }
        let there = seen.indices.range(range.clone());
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

    /// Whether a run that leaves out what too many are nearly like would have taken all rows.
    fn likeness(&mut self, chunk: &Chunk, keys: &[Keys]) {
        let Some(sketch) = &mut self.sketch else { return };
        let refused = keys.iter().filter(|keys| !sketch.take(&keys.bands)).map(|keys| keys.index);
        for index in refused.collect::<Vec<_>>() {
            let what = format!("index {index} has a row, and too many before it are nearly like that");
            self.found(&keys_path(chunk), what);
        }
    }

    /// Whether a file is there to be read, and called what it is to be. That its bytes are others is found.
    fn is_listed(&mut self, file: &FileRecord, number: u64) -> bool {
        let path = self.folder.join(&file.path);
        // A manifest may be anybody's.
        if !is_file_name(&file.path) || !path.metadata().is_ok_and(|found| found.is_file()) {
            self.found(&file.path, "is no file of a data set, or is gone".to_owned());
            return false;
        }
        if !self.names(number).contains(&file.path) {
            self.found(&file.path, format!("is not what a file of chunk {number} is called"));
        }
        let mut hash = blake3::Hasher::new();
        match File::open(&path).and_then(|mut open| io::copy(&mut open, &mut hash)) {
            Err(error) => {
                self.found(&file.path, format!("cannot be read: {error}"));
                return false;
            }
            Ok(bytes) if bytes != file.bytes || hash.finalize().to_hex().as_str() != file.blake3 => {
                self.found(&file.path, "is not the file that the manifest lists".to_owned());
            }
            Ok(_) => {}
        }
        true
    }

    /// What the files of a chunk are called.
    fn names(&self, number: u64) -> Vec<String> {
        let [data, rejects, keys] = FOLDERS;
        let extension = self.manifest.settings.format.extension();
        let splits = SPLITS.iter().map(|(split, _)| format!("{data}/{split}-{number:05}.{extension}"));
        splits.chain([format!("{rejects}/{number:05}.jsonl"), format!("{keys}/{number:05}.bin")]).collect()
    }

    /// Looks at the rows of a file.
    fn rows(&mut self, file: &FileRecord, seen: &mut Seen) {
        let split = SPLITS.iter().position(|(split, _)| file.path.starts_with(&format!("data/{split}-")));
        let split = split.unwrap_or_default();
        let mut n_rows = 0;
        for batch in batches(read_lines(&self.folder.join(&file.path), self.manifest.settings.format)) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.found(&file.path, format!("cannot be read after row {n_rows}: {error}"));
                    break;
                }
            };
            for looked in look_at(&batch, self.manifest, &self.tools, &mut self.verifiers) {
                n_rows += 1;
                self.row(file, n_rows, split, looked, seen);
            }
            (self.observe)(self.quality.rows, self.manifest.rows());
        }
        seen.rows += n_rows;
        if n_rows != file.rows {
            self.found(&file.path, format!("has {n_rows} rows, the manifest says {}", file.rows));
        }
    }

    fn row(&mut self, file: &FileRecord, line: u64, split: usize, looked: Looked, seen: &mut Seen) {
        let Looked { row, mut wrong, found } = looked;
        let quality = &mut self.quality;
        quality.rows += 1;
        *quality.categories.entry(row.category.clone()).or_default() += 1;
        self.statistics.add(&row);
        if let Some((keys, op_counts)) = &found {
            self.op_counts.merge(op_counts);
            if let Some(expected) = &mut seen.keys
                && expected[split].pop().as_ref() != Some(keys)
            {
                wrong.push("is not the row whose key stands in its place".to_owned());
                // After a row too many, or one too few, all are in the wrong place.
                seen.keys = None;
            }
            if !seen.indices.insert(keys.index) {
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
        }
        let finding = |what| Finding { file: file.path.clone(), line, id: row.id.clone(), what };
        quality.findings.extend(wrong.into_iter().map(finding));
    }

    /// Looks at why kernels are no rows.
    fn rejects(&mut self, file: &FileRecord, seen: &mut Seen) {
        let is_of_files = self.manifest.settings.source.is_some();
        let mut read = || -> io::Result<u64> {
            let mut n = 0;
            for line in read_lines(&self.folder.join(&file.path), Format::Jsonl)? {
                let record: RejectRecord = serde_json::from_slice(&line?)?;
                n += 1;
                // A kernel that was generated is rejected for another of its index; one of a file, or an index, for good.
                if record.category.is_none() || is_of_files {
                    seen.indices.insert(record.index);
                }
                *seen.rejects.entry(record.reason).or_default() += 1;
            }
            Ok(n)
        };
        match read() {
            Ok(n) if n == file.rows => {}
            Ok(n) => self.found(&file.path, format!("has {n} records, the manifest says {}", file.rows)),
            Err(error) => self.found(&file.path, format!("cannot be read: {error}")),
        }
    }

    /// Finds rows that are like earlier ones, by their keys.
    pub(super) fn repeats(&mut self) -> io::Result<()> {
        let settings = &self.manifest.settings;
        let chunks: Vec<Located<'_>> = self.manifest.chunks.iter().map(|chunk| (self.folder, chunk)).collect();
        let mut repeats: Vec<(u64, u64)> = repeats(&chunks, settings.dedup, KEYS_AT_A_TIME)?.into_iter().collect();
        repeats.sort_unstable();
        for &(repeat, first) in repeats.iter().take(TOLD) {
            let (Some((path, line)), Some((of, at))) =
                (place(&chunks, settings.format, repeat)?, place(&chunks, settings.format, first)?)
            else {
                continue;
            };
            let what = format!("is the same as row {at} of {of}");
            self.quality.findings.push(Finding { file: path, line, id: String::new(), what });
        }
        if repeats.len() > TOLD {
            self.found(MANIFEST, format!("{} more rows are the same as others", repeats.len() - TOLD));
        }
        Ok(())
    }

    /// Notes what is wrong with a file as a whole.
    pub(super) fn found(&mut self, file: &str, what: String) {
        self.quality.findings.push(Finding { file: file.to_owned(), line: 0, id: String::new(), what });
    }
}

/// The keys of the rows in each part of the data set, the first one last.
fn by_part(keys: &[Keys]) -> [Vec<Keys>; SPLITS.len()] {
    let mut parts = [const { Vec::new() }; SPLITS.len()];
    for keys in keys.iter().rev() {
        parts[keys.split()].push(*keys);
    }
    parts
}

fn keys_path(chunk: &Chunk) -> String {
    let keys = chunk.files.iter().find(|file| file.path.starts_with("keys/"));
    keys.map_or_else(String::new, |file| file.path.clone())
}

/// The file and the line of a row, by its number in the order of all indices.
fn place(chunks: &[Located<'_>], format: Format, number: u64) -> io::Result<Option<(String, u64)>> {
    let mut number = number as usize;
    for (folder, chunk) in chunks {
        let keys = read_chunk_keys(chunk, folder)?;
        let Some(found) = keys.get(number) else {
            number -= keys.len();
            continue;
        };
        let (name, _) = SPLITS[found.split()];
        let line = keys[..=number].iter().filter(|keys| keys.split() == found.split()).count() as u64;
        let is_file = |path: &str| path.starts_with(&format!("data/{name}-")) && path.ends_with(format.extension());
        let file = chunk.files.iter().find(|file| is_file(&file.path));
        return Ok(file.map(|file| (file.path.clone(), line)));
    }
    Ok(None)
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
