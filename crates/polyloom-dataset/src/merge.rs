//! Putting the shards of a data set together: the rows are those of one run that made all chunks itself.
//!
//! Each shard has told its rows from each other. Here the keys of all are gone through first, a part of them at a time, for
//! rows that are like one of another shard; then the rows, in the order of their indices, which are read and written once.

use crate::produce::{
    ChunkFiles, DatasetManifest, DedupKey, FileFormat, Key, Lines, NEARLY_ALIKE, OpenChunk, ProduceError, RejectRecord,
    RowKeys, RunProgress, SPLITS, STATS, ShardNumber, claimed, describe, read_chunk_keys, read_file, read_lines,
};
use crate::proof::caught;
use crate::repeats::{KEYS_AT_A_TIME, repeats};
use crate::row::Row;
use crate::similarity::BandSketch;
use crate::statistics::OpCounts;
use crate::verify::KernelVerifier;
use polyloom::Arch;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The columns by which rows are counted.
const COUNTED: [&str; 4] = ["kernel_name", "category", "python_source", "metadata"];

/// The columns that shards need to be put together and these are not.
pub fn columns_to_merge_by(columns: &[String]) -> Vec<&'static str> {
    COUNTED.into_iter().filter(|name| !columns.iter().any(|column| column == name)).collect()
}

/// Writes the data set that finished shards make together to a folder, `count` rows of it if that is given. `observe` is
/// told how far it is after each chunk, and may end it.
///
/// # Errors
///
/// [`ProduceError`].
pub fn merge(
    shards: &[PathBuf],
    output: &Path,
    count: Option<u64>,
    observe: &mut dyn FnMut(&RunProgress) -> ControlFlow<()>,
) -> Result<(DatasetManifest, RunProgress), ProduceError> {
    let started = Instant::now();
    let mut manifests = Vec::new();
    for folder in shards {
        let manifest = DatasetManifest::read(folder).map_err(|error| file(folder, error))?;
        let missing = || ProduceError::Shards(format!("{} holds no data set", folder.display()));
        manifests.push((folder, manifest.ok_or_else(missing)?));
    }
    let chunks = in_order(&manifests)?;
    let Some((_, first)) = manifests.first() else {
        return Err(ProduceError::Shards("no shard is given".to_owned()));
    };
    let mut settings = first.settings.clone();
    let missing = columns_to_merge_by(&settings.columns);
    if !missing.is_empty() {
        let message = format!("shards cannot be put together without the columns {}", missing.join(", "));
        return Err(ProduceError::Shards(message));
    }
    // One run would have been asked for so many rows, or for these indices.
    let end = chunks.last().map_or(settings.first, |(_, chunk)| chunk.end);
    settings.first = manifests.iter().map(|(_, manifest)| manifest.settings.first).min().unwrap_or_default();
    (settings.shard, settings.count) = (None, count);
    settings.end = if count.is_none() || settings.source.is_some() { Some(end) } else { None };
    settings.check().map_err(ProduceError::Setting)?;
    let (_lock, found) = claimed(output)?;
    // One that was interrupted begins anew.
    if let Some(there) = found.filter(|there| there.is_finished || there.settings != settings) {
        let what = format!("a data set of {} rows", there.rows());
        return Err(ProduceError::InTheWay { folder: output.to_owned(), what });
    }
    let mut manifest = DatasetManifest::begun(&settings, output).map_err(|error| file(output, error))?;
    manifest.clean(output, None).map_err(|error| file(output, error))?;
    let n_rows = manifests.iter().fold(0, |sum: u64, (_, shard)| sum.saturating_add(shard.rows()));
    let sketch = settings.most_alike.zip(count).map(|(most, count)| BandSketch::new(most, count));
    for (folder, chunk) in &chunks {
        for of_shard in &chunk.files {
            of_shard.check(folder).map_err(|error| file(folder, error))?;
        }
    }
    let repeats = repeats(&chunks, settings.dedup, KEYS_AT_A_TIME).map_err(|(path, error)| file(&path, error))?;
    let (dedup, refused) = (settings.dedup, HashSet::new());
    let mut selection = RowSelection { dedup, repeats, sketch, refused, number: 0 };
    let mut progress =
        RunProgress { wanted: Some(count.map_or(n_rows, |count| count.min(n_rows))), ..RunProgress::default() };
    let verifier = KernelVerifier::new(Arch::DEFAULT)?;
    let number_of = |chunk: &ChunkFiles| chunk.first / settings.indices_per_chunk;
    let mut open: Option<OpenChunk<'_>> = None;
    for (position, (folder, chunk)) in chunks.iter().enumerate() {
        let (number, nvrtc) = (number_of(chunk), chunk.nvrtc.as_deref());
        let mut into = match open.take() {
            Some(open) => open.with_nvrtc(nvrtc),
            None => {
                let new = OpenChunk::new(output, &settings, number, chunk.first);
                new.map_err(|error| file(output, error))?.with_nvrtc(nvrtc)
            }
        };
        let mut merging = MergingChunk {
            folder,
            output,
            chunk,
            open: &mut into,
            selection: &mut selection,
            verifier: &verifier,
            format: settings.format,
        };
        let left = count.map(|count| count - progress.rows);
        let n_taken = merging.run(left)?;
        progress.rows += n_taken;
        (progress.made, progress.time) = (progress.rows, started.elapsed());
        if observe(&progress).is_break() {
            return Err(ProduceError::MergeInterrupted);
        }
        let is_last = count.is_some_and(|count| progress.rows >= count);
        // The chunk stays open, because a range of indices may end within it, and the next begin there.
        if !is_last && chunks.get(position + 1).is_some_and(|(_, next)| number_of(next) == number) {
            open = Some(into);
            continue;
        }
        into.finish(&mut manifest, is_last).map_err(|error| file(output, error))?;
        if is_last {
            break;
        }
    }
    if !manifest.is_finished {
        // As many rows as are wanted there are not.
        manifest.settings.end = Some(end);
        manifest.finish(output).map_err(|error| file(output, error))?;
    }
    progress.time = started.elapsed();
    // The time is that of the shards, because making the rows took that.
    let seconds = shards.iter().filter_map(|folder| seconds(folder)).sum::<f64>();
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    describe(&manifest, output, n_rows, time)?;
    Ok((manifest, progress))
}

/// Returns how long the run took that made a shard, if its statistics say that.
fn seconds(folder: &Path) -> Option<f64> {
    let stats: serde_json::Value = serde_json::from_slice(&read_file(&folder.join(STATS)).ok()?).ok()?;
    stats["generation_time_seconds"].as_f64()
}

fn file(path: &Path, error: io::Error) -> ProduceError {
    ProduceError::File { path: path.to_owned(), error }
}

/// The chunks of all shards in the order of their indices, which must be those of one data set.
fn in_order<'a>(manifests: &'a [(&PathBuf, DatasetManifest)]) -> Result<Vec<(&'a Path, &'a ChunkFiles)>, ProduceError> {
    let mut chunks = Vec::new();
    for (folder, manifest) in manifests {
        let refuse = |what: String| Err(ProduceError::Shards(format!("{}: {what}", folder.display())));
        if !manifest.is_finished {
            return refuse("is not finished: go on with it by --resume first".to_owned());
        }
        let mut settings = manifest.settings.clone();
        let first = &manifests[0].1.settings;
        (settings.shard, settings.first, settings.end, settings.count) =
            (first.shard, first.first, first.end, first.count);
        let differences = first.differences(&settings);
        if !differences.is_empty() {
            return Err(ProduceError::OtherSettings { folder: folder.to_path_buf(), differences });
        }
        chunks.extend(manifest.chunks.iter().map(|chunk| (folder.as_path(), chunk)));
    }
    all_shards(manifests)?;
    chunks.sort_by_key(|(_, chunk)| chunk.first);
    let first = manifests.iter().map(|(_, manifest)| manifest.settings.first).min();
    if let (Some(first), Some((folder, chunk))) = (first, chunks.first())
        && first != chunk.first
    {
        let last = chunk.first.saturating_sub(1);
        let what = format!("indices {first} to {last} are missing before {}", folder.display());
        return Err(ProduceError::Shards(what));
    }
    for pair in chunks.windows(2) {
        let ((before, one), (after, other)) = (pair[0], pair[1]);
        if one.end != other.first {
            let what = if one.end < other.first { "missing" } else { "made twice" };
            let (low, high) = (one.end.min(other.first), one.end.max(other.first));
            return Err(ProduceError::Shards(format!(
                "indices {low} to {} are {what}, between {} and {}",
                high - 1,
                before.display(),
                after.display()
            )));
        }
    }
    Ok(chunks)
}

/// Refuses what is only some of the shards of a data set.
fn all_shards(manifests: &[(&PathBuf, DatasetManifest)]) -> Result<(), ProduceError> {
    let shards: Vec<Option<ShardNumber>> = manifests.iter().map(|(_, manifest)| manifest.settings.shard).collect();
    let Some(of) = shards.iter().flatten().map(|shard| shard.of).next() else { return Ok(()) };
    let refuse = |what: String| Err(ProduceError::Shards(what));
    let numbers: BTreeSet<u64> = shards.iter().flatten().map(|shard| shard.number).collect();
    if shards.iter().any(|shard| shard.is_none_or(|shard| shard.of != of)) {
        return refuse(format!("these are not the shards of one data set: one of them is of {of}"));
    }
    match (0..of).find(|number| !numbers.contains(number)) {
        Some(number) => refuse(format!("shard {number}/{of} is missing")),
        None => Ok(()),
    }
}

/// Says which rows of the shards are taken: those that one run would have taken.
struct RowSelection {
    dedup: DedupKey,
    /// First row with each key, by its number.
    repeats: HashMap<u64, u64>,
    sketch: Option<BandSketch>,
    /// The keys of rows that too many are nearly like, because what repeats them is like no row that is taken.
    refused: HashSet<Key>,
    /// The row that comes next.
    number: u64,
}

impl RowSelection {
    /// Why the next row is not taken.
    fn refuses_next(&mut self, keys: &RowKeys) -> Option<RejectRecord> {
        let (number, key) = (self.number, keys.key(self.dedup));
        self.number += 1;
        if self.repeats.contains_key(&number) && !self.refused.contains(&key) {
            return Some(RejectRecord::duplicate(keys.index, key));
        }
        if self.sketch.as_mut().is_some_and(|sketch| !sketch.take(&keys.bands)) {
            self.refused.insert(key);
            return Some(RejectRecord::of_index(keys.index, NEARLY_ALIKE));
        }
        None
    }

    /// Returns what one run would have said of what a shard has not taken: the row that is like it may be refused here.
    fn told(&self, record: RejectRecord) -> RejectRecord {
        match record.key().is_some_and(|key| self.refused.contains(&key)) {
            true => RejectRecord::of_index(record.index, NEARLY_ALIKE),
            false => record,
        }
    }
}

/// A chunk of a shard on its way into the data set.
struct MergingChunk<'a, 'b> {
    folder: &'a Path,
    output: &'a Path,
    chunk: &'a ChunkFiles,
    open: &'a mut OpenChunk<'b>,
    selection: &'a mut RowSelection,
    verifier: &'a KernelVerifier,
    format: FileFormat,
}

impl MergingChunk<'_, '_> {
    fn lines(&self, prefix: &str, format: FileFormat) -> Result<Option<Lines>, ProduceError> {
        let found = self.chunk.files.iter().find(|file| file.path.starts_with(prefix));
        found.map(|found| read_lines(&self.folder.join(&found.path), format)).transpose().map_err(self.unread())
    }

    fn unread(&self) -> impl Fn(io::Error) -> ProduceError + use<> {
        let folder = self.folder.to_owned();
        move |error| file(&folder, error)
    }

    /// Takes what is to be taken, no more than `most` rows, and gives how many rows that is.
    fn run(&mut self, most: Option<u64>) -> Result<u64, ProduceError> {
        let (unread, output) = (self.unread(), self.output);
        let unwritten = |error| file(output, error);
        let lost = || io::Error::other("the files do not hold the rows that their keys tell of");
        let mut rows = Vec::new();
        for (name, _) in SPLITS {
            rows.push(self.lines(&format!("data/{name}-"), self.format)?);
        }
        let mut rejects = self.lines("rejects/", FileFormat::Jsonl)?.into_iter().flatten().peekable();
        let (mut n_taken, mut end) = (0, self.chunk.end);
        let mut keys = read_chunk_keys(self.chunk, self.folder).map_err(&unread)?.into_iter().peekable();
        loop {
            let record: Option<RejectRecord> = match rejects.peek() {
                Some(Ok(line)) => Some(serde_json::from_slice(line).map_err(|error| unread(error.into()))?),
                Some(Err(_)) => return Err(unread(rejects.next().and_then(Result::err).unwrap_or_else(lost))),
                None => None,
            };
            // Rejects of an index come before its row.
            match (record, keys.peek()) {
                (Some(record), next) if next.is_none_or(|keys| record.index <= keys.index) => {
                    self.open.reject(&self.selection.told(record)).map_err(unwritten)?;
                    rejects.next();
                }
                (_, Some(_)) => {
                    let Some(keys) = keys.next() else { return Err(unread(lost())) };
                    let line = rows[keys.split()].as_mut().and_then(Iterator::next);
                    let line = line.ok_or_else(lost).flatten().map_err(&unread)?;
                    if let Some(record) = self.selection.refuses_next(&keys) {
                        self.open.reject(&record).map_err(unwritten)?;
                        continue;
                    }
                    self.count(&line).map_err(&unread)?;
                    self.open.add_line(&keys, &line).map_err(unwritten)?;
                    n_taken += 1;
                    if most.is_some_and(|most| n_taken >= most) {
                        end = keys.index.saturating_add(1);
                        break;
                    }
                }
                (_, None) => break,
            }
        }
        self.open.set_end(end);
        Ok(n_taken)
    }

    /// Counts a row. What is counted of ops stands in no column, so that the kernel is compiled for it.
    fn count(&mut self, line: &[u8]) -> io::Result<()> {
        let row: Row = serde_json::from_slice(line)?;
        let kernel = caught(|| self.verifier.compile(&row.kernel_name, &row.python_source));
        let kernel = kernel.map_err(|reject| io::Error::other(reject.detail))?;
        self.open.count(&row, &OpCounts::of(&kernel));
        Ok(())
    }
}
