//! The files of a chunk: rows by split, what was rejected, and the keys by which rows are told from those to come.

use super::manifest::{Chunk, FileRecord, Manifest, TemporaryFile};
use super::settings::{Dedup, Settings};
use super::work::{Done, Key, Made};
use crate::Hashes;
use crate::row::Selected;
use crate::similarity::Bands;
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The folders that files are in.
pub(super) const FOLDERS: [&str; 3] = ["data", "rejects", "keys"];

/// Parts of a data set, and how many of a hundred structures are in each.
pub(crate) const SPLITS: [(&str, u128); 3] = [("train", 90), ("validation", 5), ("test", 5)];

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

    /// Adds what came of an index; `refused` says why its row is not taken.
    pub(super) fn add(&mut self, done: &Done, refused: Option<&'static str>) -> io::Result<()> {
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
        match (&done.made, refused) {
            (Some(made), None) => self.add_row(made),
            (_, refused) => {
                self.reject(refused.unwrap_or("given_up"));
                Ok(())
            }
        }
    }

    fn reject(&mut self, reason: &str) {
        *self.chunk.rejects.entry(reason.to_owned()).or_default() += 1;
    }

    fn add_row(&mut self, made: &Made) -> io::Result<()> {
        let Made { row, hashes, .. } = made;
        let split = split(&hashes.structure);
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
        self.keys.file.write_all(&made.keys().to_bytes())?;
        self.keys.rows += 1;
        self.chunk.statistics.add(row, &made.op_counts);
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

/// By which a row is told from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    pub(super) exact: Key,
    pub(super) alpha: Key,
    pub(super) structure: Key,
    pub(super) bands: Bands,
}

impl Keys {
    const BYTES: usize = 80;

    pub(super) fn of(hashes: &Hashes, bands: Bands) -> Keys {
        let key = |digits: &str| Key::from_str_radix(digits, 16).unwrap_or_default();
        let Hashes { exact, alpha, structure } = hashes;
        Keys { exact: key(exact), alpha: key(alpha), structure: key(structure), bands }
    }

    /// The one that counts.
    pub(super) fn key(&self, dedup: Dedup) -> Key {
        match dedup {
            Dedup::Exact => self.exact,
            Dedup::Alpha => self.alpha,
            Dedup::Structure => self.structure,
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        let hashes = [self.exact, self.alpha, self.structure].into_iter().flat_map(Key::to_le_bytes);
        hashes.chain(self.bands.into_iter().flat_map(u64::to_le_bytes)).collect()
    }

    fn from_bytes(bytes: &[u8; Keys::BYTES]) -> Keys {
        let (hashes, bands) = bytes.split_at(48);
        let mut hashes = hashes.as_chunks::<16>().0.iter().map(|bytes| Key::from_le_bytes(*bytes));
        let mut hash = || hashes.next().unwrap_or_default();
        let mut keys = Keys { exact: hash(), alpha: hash(), structure: hash(), bands: Bands::default() };
        for (band, bytes) in keys.bands.iter_mut().zip(bands.as_chunks::<8>().0) {
            *band = u64::from_le_bytes(*bytes);
        }
        keys
    }
}

/// Hands over the keys of all rows of a folder.
pub(super) fn read_keys(manifest: &Manifest, folder: &Path, mut take: impl FnMut(Keys)) -> io::Result<()> {
    for file in manifest.chunks.iter().flat_map(|chunk| &chunk.files).filter(|file| file.path.starts_with("keys/")) {
        let bytes = fs::read(folder.join(&file.path))?;
        if blake3::hash(&bytes).to_hex().as_str() != file.blake3 {
            return Err(io::Error::other(format!("{} is not what the manifest says", file.path)));
        }
        bytes.as_chunks::<{ Keys::BYTES }>().0.iter().for_each(|bytes| take(Keys::from_bytes(bytes)));
    }
    Ok(())
}
