//! What a folder holds for certain: the chunks that are finished, and the settings that they were made with.
//!
//! Files are written under temporary names, synced, renamed, and then listed here, which is itself replaced in one step.
//! What is not listed was not finished and is removed when the run goes on, so that a run may be killed at any moment.

use super::chunk::SPLITS;
use super::settings::Settings;
use crate::statistics::{Histogram, Statistics};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "manifest.json";

/// The list of what is finished.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the run was asked for.
    pub settings: Settings,
    /// The chunks, in order.
    pub chunks: Vec<Chunk>,
    /// Whether the run is finished.
    pub is_finished: bool,
}

/// The files of a range of indices.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// The first index.
    pub first: u64,
    /// The index after the last.
    pub end: u64,
    /// The files.
    pub files: Vec<FileRecord>,
    /// What its rows are made of.
    pub statistics: Statistics,
    /// Kernels that were not taken, by reason.
    pub rejects: Histogram,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its path in the folder.
    pub path: String,
    /// How many rows or records it has.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of its bytes, as hexadecimal digits.
    pub blake3: String,
}

impl Manifest {
    /// The manifest of a folder, if it has one.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not one.
    pub fn read(folder: &Path) -> io::Result<Option<Manifest>> {
        let text = match fs::read(folder.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&text).map(Some).map_err(io::Error::other)
    }

    /// Replaces the manifest of a folder in one step.
    ///
    /// # Errors
    ///
    /// If that cannot be done; the old one is still there then.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        replace(folder, NAME, &text)
    }

    /// The index that the next chunk may begin with.
    pub fn next(&self) -> u64 {
        self.chunks.last().map_or(self.settings.first, |chunk| chunk.end)
    }

    /// Notes that there will be no more.
    pub(crate) fn finish(&mut self, folder: &Path) -> io::Result<()> {
        self.is_finished = true;
        self.write(folder)
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.statistics.rows).sum()
    }

    /// What all rows are made of.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.chunks.iter().for_each(|chunk| sum.merge(&chunk.statistics));
        sum
    }

    /// Kernels that were not taken, by reason.
    pub fn rejects(&self) -> Histogram {
        let mut sum = Histogram::new();
        for (reason, n) in self.chunks.iter().flat_map(|chunk| &chunk.rejects) {
            *sum.entry(reason.clone()).or_default() += n;
        }
        sum
    }

    /// The parts that there are files of, in order.
    pub(crate) fn splits(&self) -> Vec<&'static str> {
        let is_there = |name: &str| {
            let prefix = format!("data/{name}-");
            self.chunks.iter().flat_map(|chunk| &chunk.files).any(|file| file.path.starts_with(&prefix))
        };
        SPLITS.iter().map(|(name, _)| *name).filter(|name| is_there(name)).collect()
    }

    /// Removes what a run that was interrupted has left in the folders for files: all that is not listed.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read or a file not removed.
    pub fn clean(&self, folder: &Path, inner: &[&str]) -> io::Result<()> {
        let listed: Vec<PathBuf> =
            self.chunks.iter().flat_map(|chunk| &chunk.files).map(|file| folder.join(&file.path)).collect();
        for inner in inner {
            let entries = match fs::read_dir(folder.join(inner)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let path = entry?.path();
                if path.is_file() && !listed.contains(&path) {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }
}

/// Replaces a file in one step.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = TemporaryFile::create(folder, name)?;
    file.write_all(bytes)?;
    file.finish()?;
    Ok(())
}

/// A file that has its name only once it is complete; dropped before that, it is removed.
pub(crate) struct TemporaryFile {
    folder: PathBuf,
    path: String,
    temporary: PathBuf,
    file: io::BufWriter<File>,
    hash: blake3::Hasher,
    bytes: u64,
    is_finished: bool,
}

impl TemporaryFile {
    /// A file that will have this path in the folder, whose own folder must exist.
    pub(crate) fn create(folder: &Path, path: &str) -> io::Result<TemporaryFile> {
        let temporary = folder.join(format!("{path}.tmp"));
        let file = io::BufWriter::with_capacity(1 << 16, File::create(&temporary)?);
        Ok(TemporaryFile {
            folder: folder.to_owned(),
            path: path.to_owned(),
            temporary,
            file,
            hash: blake3::Hasher::new(),
            bytes: 0,
            is_finished: false,
        })
    }

    /// Gives the file its name, once all of it is on the disk.
    pub(crate) fn finish(mut self) -> io::Result<FileRecord> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let path = self.folder.join(&self.path);
        fs::rename(&self.temporary, &path)?;
        self.is_finished = true;
        // The name is in the folder, which is a file of its own.
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        let hash = self.hash.finalize().to_hex().to_string();
        Ok(FileRecord { path: self.path.clone(), rows: 0, bytes: self.bytes, blake3: hash })
    }
}

impl io::Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // It is not listed, so it does no harm if it stays.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
