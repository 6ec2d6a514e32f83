//! What a folder holds for certain: the chunks that are finished, and the settings that they were made with.
//!
//! Files are written under temporary names, synced, renamed, and then listed here, which is itself replaced in one step.
//! What is not listed was not finished and is removed when the run goes on, so that a run may be killed at any moment.

use super::file_names::{FOLDERS, TEMPORARY, is_file_name};
use super::journal::ChunkJournal;
use super::row_keys::SPLITS;
use super::settings::ProduceSettings;
use crate::statistics::{Histogram, RowStatistics};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "manifest.json";

/// The list of what is finished.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetManifest {
    /// Holds what the run was asked for.
    pub settings: ProduceSettings,
    /// Holds what the rows of all chunks are made of.
    pub statistics: RowStatistics,
    /// The chunks, in order. There may be thousands, and the file is written anew for each, so that they hold little.
    pub chunks: Vec<ChunkFiles>,
    /// True if the run is finished.
    pub is_finished: bool,
}

/// The files of a range of indices.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChunkFiles {
    /// The first index.
    pub first: u64,
    /// The index after the last.
    pub end: u64,
    /// Number of rows it has.
    pub rows: u64,
    /// The files.
    pub files: Vec<FileRecord>,
    /// Kernels that were not taken, by reason.
    pub rejects: Histogram,
    /// The version of NVRTC that has compiled the CUDA C++ of all rows, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvrtc: Option<String>,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its path in the folder.
    pub path: String,
    /// Number of rows or records it has.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of its bytes, as hexadecimal digits.
    pub blake3: String,
}

impl DatasetManifest {
    /// The manifest of a folder, if it has one.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not one.
    pub fn read(folder: &Path) -> io::Result<Option<DatasetManifest>> {
        let text = match read_file(&folder.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let manifest: DatasetManifest = serde_json::from_slice(&text)?;
        manifest.make_sense()?;
        Ok(Some(manifest))
    }

    /// A manifest may be anybody's, because whoever reads one relies on what is checked here.
    fn make_sense(&self) -> io::Result<()> {
        let refuse = |what: String| Err(io::Error::other(format!("is no manifest: {what}")));
        if self.settings.indices_per_chunk == 0 || self.settings.shard.is_some_and(|shard| shard.number >= shard.of) {
            return refuse("its settings have files, or parts, of which there are none".to_owned());
        }
        let mut names = HashSet::new();
        for file in self.chunks.iter().flat_map(|chunk| &chunk.files) {
            if !is_file_name(&file.path) {
                return refuse(format!("`{}` is no file of a data set", file.path));
            }
            if !names.insert(&file.path) {
                return refuse(format!("`{}` is in it twice", file.path));
            }
        }
        Ok(())
    }

    /// A data set without rows, which is in the folder.
    pub(crate) fn begun(settings: &ProduceSettings, folder: &Path) -> io::Result<DatasetManifest> {
        let (settings, statistics) = (settings.clone(), RowStatistics::default());
        let manifest = DatasetManifest { settings, statistics, chunks: Vec::new(), is_finished: false };
        manifest.write(folder)?;
        Ok(manifest)
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

    /// Returns the number of rows there are.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.rows))
    }

    /// Kernels that were not taken, by reason.
    pub fn rejects(&self) -> Histogram {
        let mut sum = Histogram::new();
        for (reason, n) in self.chunks.iter().flat_map(|chunk| &chunk.rejects) {
            let all: &mut u64 = sum.entry(reason.clone()).or_default();
            *all = all.saturating_add(*n);
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

    /// Removes what a run that was interrupted has left in the folders for files: what has the name of such a file and is
    /// not listed. The journal of the chunk `resumed` stays.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read or a file not removed.
    pub(crate) fn clean(&self, folder: &Path, resumed: Option<u64>) -> io::Result<()> {
        let kept = resumed.map(ChunkJournal::path_of);
        for path in self.unlisted(folder)? {
            let name = path.strip_suffix(TEMPORARY).unwrap_or(&path);
            let is_journal = name.strip_suffix(".journal").is_some_and(|stem| is_file_name(&format!("{stem}.bin")));
            if (is_journal || is_file_name(name)) && kept.as_ref() != Some(&path) {
                fs::remove_file(folder.join(path))?;
            }
        }
        Ok(())
    }

    /// Returns what is in the folders for files and is not listed.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read.
    pub(crate) fn unlisted(&self, folder: &Path) -> io::Result<Vec<String>> {
        let listed: HashSet<&str> =
            self.chunks.iter().flat_map(|chunk| &chunk.files).map(|file| file.path.as_str()).collect();
        let found = FOLDERS.iter().map(|inner| Ok((inner, names(&folder.join(inner))?)));
        let found: Vec<(&&str, Vec<String>)> = found.collect::<io::Result<_>>()?;
        let paths =
            found.into_iter().flat_map(|(inner, names)| names.into_iter().map(move |name| format!("{inner}/{name}")));
        let mut unlisted: Vec<String> = paths.filter(|path| !listed.contains(path.as_str())).collect();
        unlisted.sort_unstable();
        Ok(unlisted)
    }

    /// Refuses to go on with chunks that are not those of a run up to an index, and with files that are not there or have
    /// another checksum.
    ///
    /// # Errors
    ///
    /// Which chunk or file it is.
    pub(crate) fn check(&self, folder: &Path) -> io::Result<()> {
        let mut next = self.settings.first;
        for chunk in &self.chunks {
            if self.settings.next_index(next) != Some(chunk.first) || chunk.end <= chunk.first {
                let what = format!("{NAME} lists index {} after {next}: put back what was written", chunk.first);
                return Err(io::Error::other(what));
            }
            next = chunk.end;
        }
        if self.statistics.rows != self.rows() {
            let what = format!("{NAME} lists {} rows and has statistics of {}", self.rows(), self.statistics.rows);
            return Err(io::Error::other(format!("{what}: put back what was written")));
        }
        for file in self.chunks.iter().flat_map(|chunk| &chunk.files) {
            file.check(folder)?;
        }
        Ok(())
    }
}

impl FileRecord {
    /// Refuses a file that is not what it was.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or has changed.
    pub(crate) fn check(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(&self.path);
        let named = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(error.kind(), format!("{} is gone: put it back", self.path)),
            kind => io::Error::new(kind, format!("{}: {error}", self.path)),
        };
        let found = fs::metadata(&path).map_err(named)?;
        if !found.is_file() || found.len() != self.bytes {
            return Err(self.changed());
        }
        let mut hash = blake3::Hasher::new();
        io::copy(&mut File::open(&path).map_err(named)?, &mut hash).map_err(named)?;
        if hash.finalize().to_hex().as_str() == self.blake3 { Ok(()) } else { Err(self.changed()) }
    }

    pub(crate) fn changed(&self) -> io::Error {
        io::Error::other(format!("{} is not what the manifest says: put back what was written", self.path))
    }
}

/// The longest text that a file beside the rows may be.
const LONGEST_TEXT: u64 = 1 << 28;

/// Returns what a file holds that is one, and no pipe or device, and not longer than any that a run writes beside rows.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    match found.is_file() && found.len() <= LONGEST_TEXT {
        true => fs::read(path),
        false => Err(io::Error::other("is no file that a run writes")),
    }
}

/// Returns what is in a folder; nothing if there is none.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Says how long a run waits for another that may be about to end, as one that was killed is.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder that one run writes to, as long as this is there.
pub(crate) struct FolderLock {
    _held: Option<File>,
}

impl FolderLock {
    /// Nothing if another run writes to the folder and goes on with that. Where folders cannot be locked, nobody is kept
    /// out.
    pub(crate) fn of(folder: &Path) -> Option<FolderLock> {
        let file = File::open(folder.join(FOLDERS[0])).ok();
        let begun = Instant::now();
        while let Some(Err(TryLockError::WouldBlock)) = file.as_ref().map(File::try_lock) {
            if begun.elapsed() >= PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(FolderLock { _held: file })
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
        let temporary = folder.join(format!("{path}{TEMPORARY}"));
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
        // The folder is put on the disk as well, because the name is in it.
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
            // It is not listed, so that it does no harm if it stays.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
