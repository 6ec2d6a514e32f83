//! The files of a chunk: rows by split, what was rejected, and the keys by which rows are told from those to come.

use super::journal::{ChunkJournal, JournalBatch, JournalRow};
use super::manifest::{ChunkFiles, DatasetManifest, FileRecord, TemporaryFile};
use super::reject_record::{DUPLICATE, GIVEN_UP, RejectRecord};
use super::row_keys::{RowKeys, SPLITS};
use super::settings::{FileFormat, ProduceSettings};
use super::sink::RowSink;
use super::work::{IndexOutcome, IndexResult, MadeRow};
use crate::row::{Row, SelectedColumns};
use crate::statistics::{OpCounts, RowStatistics};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
