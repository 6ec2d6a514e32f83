//! The files of a chunk: rows by split, what was rejected, and the keys by which rows are told from those to come.

use super::journal::{ChunkJournal, JournalBatch, JournalRow};
use super::manifest::{ChunkFiles, DatasetManifest, FileRecord, TemporaryFile, read_file};
use super::settings::{DedupKey, FileFormat, ProduceSettings};
use super::sink::RowSink;
use super::work::{IndexOutcome, IndexResult, Key, MadeRow, RejectedKernel};
use super::{DUPLICATE, GIVEN_UP};
use crate::KernelHashes;
use crate::generate::DatasetProgram;
use crate::row::{Row, SelectedColumns};
use crate::similarity::Bands;
use crate::statistics::{OpCounts, RowStatistics};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The folders that files are in.
pub(crate) const FOLDERS: [&str; 3] = ["data", "rejects", "keys"];

/// Parts of a data set, and how many of a hundred structures are in each.
pub(crate) const SPLITS: [(&str, u128); 3] = [("train", 90), ("validation", 5), ("test", 5)];

/// Returns true if a path is that of a file of a chunk.
pub(crate) fn is_file_name(path: &str) -> bool {
    let Some((folder, name)) = path.split_once('/') else { return false };
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let number = match folder {
        "data" => {
            let is_known = [FileFormat::Jsonl, FileFormat::JsonlZstd, FileFormat::Parquet]
                .iter()
                .any(|f| f.extension() == extension);
            let mut numbers = SPLITS.iter().filter_map(|(split, _)| stem.strip_prefix(split)?.strip_prefix('-'));
            numbers.next().filter(|_| is_known)
        }
        "rejects" => Some(stem).filter(|_| extension == "jsonl"),
        _ => Some(stem).filter(|_| folder == "keys" && extension == "bin"),
    };
    number.is_some_and(|digits| digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A chunk that is being written.
pub(crate) struct OpenChunk<'a> {
    folder: PathBuf,
    settings: &'a ProduceSettings,
    number: u64,
    chunk: ChunkFiles,
    splits: [Option<RowSink>; SPLITS.len()],
    rejects: Option<RowSink>,
    keys: TemporaryFile,
    statistics: RowStatistics,
    op_counts: OpCounts,
    journal: Option<ChunkJournal>,
    /// Holds what was added since the last batch went to the journal.
    batch: JournalBatch,
}

impl<'a> OpenChunk<'a> {
    pub(crate) fn new(
        folder: &Path,
        settings: &'a ProduceSettings,
        number: u64,
        first: u64,
    ) -> io::Result<OpenChunk<'a>> {
        Ok(OpenChunk {
            folder: folder.to_owned(),
            settings,
            number,
            chunk: ChunkFiles { first, ..ChunkFiles::default() },
            splits: [const { None }; SPLITS.len()],
            rejects: None,
            keys: TemporaryFile::create(folder, &format!("keys/{number:05}.bin"))?,
            statistics: RowStatistics::default(),
            op_counts: OpCounts::default(),
            journal: None,
            batch: JournalBatch { first, end: first, ..JournalBatch::default() },
        })
    }

    /// A chunk with a journal, to which what an interrupted run has left in that is added again. `take` is given the
    /// keys of those rows.
    pub(super) fn with_journal(
        folder: &Path,
        settings: &'a ProduceSettings,
        number: u64,
        first: u64,
        mut take: impl FnMut(&RowKeys),
    ) -> io::Result<OpenChunk<'a>> {
        let mut open = OpenChunk::new(folder, settings, number, first)?;
        let (journal, batches) = ChunkJournal::open(folder, number, first)?;
        for batch in batches {
            open = open.with_nvrtc(batch.nvrtc.as_deref());
            for record in &batch.rejects {
                open.reject(record)?;
            }
            for row in &batch.rows {
                open.add_line(&row.keys, row.line.as_bytes())?;
                take(&row.keys);
            }
            open.statistics.merge(&batch.statistics);
            open.chunk.end = batch.end;
        }
        let end = open.chunk.end.max(first);
        open.batch = JournalBatch { first: end, end, ..JournalBatch::default() };
        open.journal = Some(journal);
        Ok(open)
    }

    /// The index after the last that was added.
    pub(super) fn end(&self) -> u64 {
        self.batch.end
    }

    /// Returns the number of rows it has.
    pub(super) fn rows(&self) -> u64 {
        self.chunk.rows
    }

    /// Writes what the journal has not been given yet.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if self.batch.end > self.batch.first {
            self.batch.nvrtc.clone_from(&self.chunk.nvrtc);
            journal.write(&self.batch)?;
            self.batch = JournalBatch { first: self.batch.end, end: self.batch.end, ..JournalBatch::default() };
        }
        Ok(())
    }

    /// Notes the version of NVRTC that compiles the CUDA C++ of the rows to come: that of all rows, only if it compiled
    /// those that are there.
    pub(crate) fn with_nvrtc(mut self, version: Option<&str>) -> OpenChunk<'a> {
        let is_of_all = self.chunk.rows == 0 || self.chunk.nvrtc.as_deref() == version;
        self.chunk.nvrtc = version.filter(|_| is_of_all).map(str::to_owned);
        self
    }

    /// Returns which chunk of the data set it is.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Adds what came of an index; `refused` says why its row is not taken.
    pub(super) fn add(&mut self, done: &IndexResult, refused: Option<&'static str>) -> io::Result<()> {
        self.add_index(done, refused)?;
        self.chunk.end = done.index + 1;
        self.batch.end = self.chunk.end;
        if self.journal.as_ref().is_some_and(ChunkJournal::is_due) { self.save() } else { Ok(()) }
    }

    fn add_index(&mut self, done: &IndexResult, refused: Option<&'static str>) -> io::Result<()> {
        let index = done.index;
        for rejected in &done.rejects {
            self.reject(&RejectRecord::of_kernel(index, rejected))?;
        }
        let dedup = self.settings.dedup;
        match (&done.outcome, refused) {
            (IndexOutcome::Row(made), None) => {
                let MadeRow { row, keys, op_counts } = &**made;
                let line = serde_json::to_vec(&SelectedColumns { row, columns: &self.settings.columns })?;
                self.count(row, op_counts);
                return self.add_line(keys, &line);
            }
            (IndexOutcome::Row(made), Some(DUPLICATE)) => {
                return self.reject(&RejectRecord::duplicate(index, made.keys.key(dedup)));
            }
            (IndexOutcome::Known(key) | IndexOutcome::Failed(key, _), Some(_)) => {
                return self.reject(&RejectRecord::duplicate(index, *key));
            }
            (_, Some(reason)) => return self.reject(&RejectRecord::of_index(index, reason)),
            (IndexOutcome::Failed(_, rejected), None) => self.reject(&RejectRecord::of_kernel(index, rejected))?,
            (IndexOutcome::Known(_) | IndexOutcome::Nothing, None) => {}
        }
        // A kernel of a file has said already why it is rejected, so that there is no other for its index.
        match self.settings.source {
            Some(_) => Ok(()),
            None => self.reject(&RejectRecord::of_index(index, GIVEN_UP)),
        }
    }

    /// Adds what keeps a kernel or an index from being a row.
    pub(crate) fn reject(&mut self, record: &RejectRecord) -> io::Result<()> {
        let (folder, number) = (&self.folder, self.number);
        let writer = match &mut self.rejects {
            Some(writer) => writer,
            none => {
                none.insert(RowSink::create(folder, &format!("rejects/{number:05}.jsonl"), FileFormat::Jsonl, &[])?)
            }
        };
        *self.chunk.rejects.entry(record.reason.clone()).or_default() += 1;
        if self.journal.is_some() {
            self.batch.rejects.push(record.clone());
        }
        writer.line(&serde_json::to_vec(record)?)
    }

    /// Adds a row that is written already.
    pub(crate) fn add_line(&mut self, keys: &RowKeys, line: &[u8]) -> io::Result<()> {
        let split = keys.split();
        let (name, _) = SPLITS[split];
        let (folder, number) = (&self.folder, self.number);
        let writer = match &mut self.splits[split] {
            Some(writer) => writer,
            none => {
                let ProduceSettings { format, columns, .. } = self.settings;
                let path = format!("data/{name}-{number:05}.{}", format.extension());
                none.insert(RowSink::create(folder, &path, *format, columns)?)
            }
        };
        writer.line(line)?;
        self.chunk.rows += 1;
        if self.journal.is_some() {
            let line = String::from_utf8(line.to_vec()).map_err(io::Error::other)?;
            self.batch.rows.push(JournalRow { keys: *keys, line });
        }
        self.keys.write_all(&keys.to_bytes())
    }

    /// Counts a row for the statistics.
    pub(crate) fn count(&mut self, row: &Row, op_counts: &OpCounts) {
        if self.journal.is_some() {
            self.batch.statistics.add(row);
            self.batch.statistics.add_ops(op_counts);
        }
        self.statistics.add(row);
        self.op_counts.merge(op_counts);
    }

    /// Sets the index after the last that was looked at.
    pub(crate) fn set_end(&mut self, end: u64) {
        self.chunk.end = end;
    }

    /// Gives the files their names and lists them.
    pub(crate) fn finish(self, manifest: &mut DatasetManifest, is_last: bool) -> io::Result<()> {
        let mut chunk = self.chunk;
        let mut statistics = self.statistics;
        statistics.add_ops(&self.op_counts);
        let sinks = self.splits.into_iter().flatten().chain(self.rejects);
        chunk.files = sinks.map(RowSink::finish).collect::<io::Result<_>>()?;
        chunk.files.push(FileRecord { rows: chunk.rows, ..self.keys.finish()? });
        manifest.statistics.merge(&statistics);
        manifest.chunks.push(chunk);
        manifest.is_finished = is_last;
        manifest.write(&self.folder)?;
        self.journal.map_or(Ok(()), ChunkJournal::remove)
    }
}

/// Why a kernel is no row, or an index has none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectRecord {
    pub(crate) index: u64,
    pub(crate) reason: String,
    /// Holds what tells the kernel from others, if it is a duplicate: its hash, as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    python_source: Option<String>,
}

impl RejectRecord {
    /// An index without a row.
    pub(crate) fn of_index(index: u64, reason: &str) -> RejectRecord {
        RejectRecord {
            index,
            reason: reason.to_owned(),
            key: None,
            category: None,
            origin: None,
            detail: None,
            python_source: None,
        }
    }

    /// An index whose kernel a row is like.
    pub(crate) fn duplicate(index: u64, key: Key) -> RejectRecord {
        RejectRecord { key: Some(format!("{key:032x}")), ..RejectRecord::of_index(index, DUPLICATE) }
    }

    fn of_kernel(index: u64, rejected: &RejectedKernel) -> RejectRecord {
        let RejectedKernel { category, origin, source, reject } = rejected;
        RejectRecord {
            category: Some(category.to_string()),
            origin: origin.clone(),
            detail: Some(reject.detail.clone()),
            python_source: source.clone(),
            ..RejectRecord::of_index(index, reject.reason.name())
        }
    }

    /// Returns true if it is of this kernel.
    pub(crate) fn is_of(&self, program: &DatasetProgram) -> bool {
        let (category, source) = (self.category.as_deref(), self.python_source.as_deref());
        (category, source) == (Some(&*program.category), Some(&*program.source))
    }

    /// Returns what tells the kernel from others, if it is a duplicate.
    pub(crate) fn key(&self) -> Option<Key> {
        Key::from_str_radix(self.key.as_deref()?, 16).ok()
    }
}

/// The part of the data set that a structure belongs to, wherever and whenever it is generated.
fn split(structure: Key) -> usize {
    let mut at = structure % 100;
    for (split, (_, share)) in SPLITS.iter().enumerate() {
        if at < *share {
            return split;
        }
        at -= share;
    }
    0
}

/// The name of the part of the data set that a structure belongs to.
pub(crate) fn split_name(structure: &str) -> &'static str {
    SPLITS[split(Key::from_str_radix(structure, 16).unwrap_or_default())].0
}

/// By which a row is told from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RowKeys {
    pub(super) exact: Key,
    pub(super) alpha: Key,
    pub(super) structure: Key,
    pub(crate) bands: Bands,
    pub(crate) index: u64,
}

impl RowKeys {
    const BYTES: usize = 88;

    pub(crate) fn of(hashes: &KernelHashes, bands: Bands, index: u64) -> RowKeys {
        let key = |digits: &str| Key::from_str_radix(digits, 16).unwrap_or_default();
        let KernelHashes { exact, alpha, structure } = hashes;
        RowKeys { exact: key(exact), alpha: key(alpha), structure: key(structure), bands, index }
    }

    /// Returns which part of the data set the row belongs to.
    pub(crate) fn split(&self) -> usize {
        split(self.structure)
    }

    /// The one that counts.
    pub(crate) fn key(&self, dedup: DedupKey) -> Key {
        match dedup {
            DedupKey::Exact => self.exact,
            DedupKey::Alpha => self.alpha,
            DedupKey::Structure => self.structure,
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        let hashes = [self.exact, self.alpha, self.structure].into_iter().flat_map(Key::to_le_bytes);
        hashes.chain(self.bands.into_iter().chain([self.index]).flat_map(u64::to_le_bytes)).collect()
    }

    fn from_bytes(bytes: &[u8; RowKeys::BYTES]) -> RowKeys {
        let (hashes, bands) = bytes.split_at(48);
        let mut hashes = hashes.as_chunks::<16>().0.iter().map(|bytes| Key::from_le_bytes(*bytes));
        let mut hash = || hashes.next().unwrap_or_default();
        let mut numbers = bands.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut number = || numbers.next().unwrap_or_default();
        let (exact, alpha, structure) = (hash(), hash(), hash());
        let bands = [number(), number(), number(), number()];
        RowKeys { exact, alpha, structure, bands, index: number() }
    }
}

/// Hands over the keys of all rows of a folder.
pub(super) fn read_keys(manifest: &DatasetManifest, folder: &Path, mut take: impl FnMut(RowKeys)) -> io::Result<()> {
    for chunk in &manifest.chunks {
        read_chunk_keys(chunk, folder)?.into_iter().for_each(&mut take);
    }
    Ok(())
}

/// Returns the number of keys the files of a chunk hold.
pub(crate) fn count_chunk_keys(chunk: &ChunkFiles, folder: &Path) -> io::Result<u64> {
    let bytes = key_files(chunk).map(|file| Ok(fs::metadata(folder.join(&file.path))?.len()));
    Ok(bytes.sum::<io::Result<u64>>()? / RowKeys::BYTES as u64)
}

fn key_files(chunk: &ChunkFiles) -> impl Iterator<Item = &FileRecord> {
    chunk.files.iter().filter(|file| file.path.starts_with("keys/"))
}

/// The keys of the rows of a chunk, in order.
pub(crate) fn read_chunk_keys(chunk: &ChunkFiles, folder: &Path) -> io::Result<Vec<RowKeys>> {
    let mut keys = Vec::new();
    for file in key_files(chunk) {
        let bytes = read_file(&folder.join(&file.path))?;
        if blake3::hash(&bytes).to_hex().as_str() != file.blake3 || bytes.len() % RowKeys::BYTES != 0 {
            return Err(file.changed());
        }
        keys.extend(bytes.as_chunks::<{ RowKeys::BYTES }>().0.iter().map(RowKeys::from_bytes));
    }
    Ok(keys)
}
