//! The files of a chunk: rows by split, what was rejected, and the keys by which rows are told from those to come.

use super::manifest::{Chunk, FileRecord, Manifest, TemporaryFile};
use super::settings::Settings;
use super::work::{Done, Key};
use crate::row::{Row, Selected};
use serde::Serialize;
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The folders that files are in.
pub(super) const FOLDERS: [&str; 3] = ["data", "rejects", "keys"];

/// Parts of a data set, and how many of a hundred structures are in each.
const SPLITS: [(&str, u128); 3] = [("train", 90), ("validation", 5), ("test", 5)];

/// A chunk that is being written.
pub(super) struct OpenChunk<'a> {
    folder: PathBuf,
    settings: &'a Settings,
    number: usize,
    chunk: Chunk,
    splits: [Option<Writer>; SPLITS.len()],
    rejects: Option<Writer>,
    keys: Writer,
}

/// A file and how many rows it has.
struct Writer {
    file: TemporaryFile,
    rows: u64,
}

impl Writer {
    fn create(folder: &Path, path: &str) -> io::Result<Writer> {
        Ok(Writer { file: TemporaryFile::create(folder, path)?, rows: 0 })
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, value)?;
        self.file.write_all(b"\n")?;
        self.rows += 1;
        Ok(())
    }

    fn finish(self) -> io::Result<FileRecord> {
        Ok(FileRecord { rows: self.rows, ..self.file.finish()? })
    }
}

impl<'a> OpenChunk<'a> {
    pub(super) fn new(folder: &Path, settings: &'a Settings, number: usize, first: u64) -> io::Result<OpenChunk<'a>> {
        Ok(OpenChunk {
            folder: folder.to_owned(),
            settings,
            number,
            chunk: Chunk { first, ..Chunk::default() },
            splits: [const { None }; SPLITS.len()],
            rejects: None,
            keys: Writer::create(folder, &format!("keys/{number:05}.bin"))?,
        })
    }

    pub(super) fn n_rows(&self) -> u64 {
        self.keys.rows
    }

    /// Adds what came of an index.
    pub(super) fn add(&mut self, done: &Done, is_new: bool) -> io::Result<()> {
        for rejected in &done.rejects {
            let record = json!({
                "index": done.index,
                "category": rejected.program.category.name(),
                "reason": rejected.reject.reason.name(),
                "detail": rejected.reject.detail,
                "python_source": rejected.program.source,
            });
            let (folder, number) = (&self.folder, self.number);
            let writer = match &mut self.rejects {
                Some(writer) => writer,
                none => none.insert(Writer::create(folder, &format!("rejects/{number:05}.jsonl"))?),
            };
            writer.line(&record)?;
            *self.chunk.rejects.entry(rejected.reject.reason.name().to_owned()).or_default() += 1;
        }
        match &done.row {
            Some((key, row)) if is_new => self.add_row(*key, row),
            Some(_) => {
                self.reject("duplicate");
                Ok(())
            }
            None => {
                self.reject(if done.is_known { "duplicate" } else { "given_up" });
                Ok(())
            }
        }
    }

    fn reject(&mut self, reason: &str) {
        *self.chunk.rejects.entry(reason.to_owned()).or_default() += 1;
    }

    fn add_row(&mut self, key: Key, row: &Row) -> io::Result<()> {
        let structure = row.metadata.as_ref().map(|metadata| metadata.hashes.structure.as_str()).unwrap_or_default();
        let split = split(structure);
        let (name, _) = SPLITS[split];
        let (folder, number) = (&self.folder, self.number);
        let writer = match &mut self.splits[split] {
            Some(writer) => writer,
            none => {
                let extension = self.settings.format.extension();
                none.insert(Writer::create(folder, &format!("data/{name}-{number:05}.{extension}"))?)
            }
        };
        writer.line(&Selected { row, columns: &self.settings.columns })?;
        self.keys.file.write_all(&key.to_le_bytes())?;
        self.keys.rows += 1;
        *self.chunk.categories.entry(row.category.clone()).or_default() += 1;
        Ok(())
    }

    /// Gives the files their names and lists them.
    pub(super) fn finish(self, manifest: &mut Manifest, end: u64, is_last: bool) -> io::Result<()> {
        let mut chunk = self.chunk;
        chunk.end = end;
        let writers = self.splits.into_iter().flatten().chain(self.rejects).chain([self.keys]);
        chunk.files = writers.map(Writer::finish).collect::<io::Result<_>>()?;
        manifest.chunks.push(chunk);
        manifest.is_finished = is_last;
        manifest.write(&self.folder)
    }
}

/// The part of the data set that a structure belongs to, wherever and whenever it is generated.
fn split(structure: &str) -> usize {
    let mut at = u128::from_str_radix(structure, 16).unwrap_or_default() % 100;
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
    SPLITS[split(structure)].0
}

/// The keys of all rows of a folder.
pub(super) fn read_keys(manifest: &Manifest, folder: &Path) -> io::Result<HashSet<Key>> {
    let mut keys = HashSet::new();
    for file in manifest.chunks.iter().flat_map(|chunk| &chunk.files).filter(|file| file.path.starts_with("keys/")) {
        let bytes = fs::read(folder.join(&file.path))?;
        if blake3::hash(&bytes).to_hex().as_str() != file.blake3 {
            return Err(io::Error::other(format!("{} is not what the manifest says", file.path)));
        }
        keys.extend(bytes.as_chunks::<16>().0.iter().map(|key| Key::from_le_bytes(*key)));
    }
    Ok(keys)
}
