//! The journal of a chunk that is being written, so that a run which is killed loses little of it.
//!
//! A file of rows cannot be gone on with: its compressor holds back some of what it was given. So whatever is added to an
//! open chunk also goes to a journal, and a resumed run adds it again instead of generating it. A journal is a sequence of
//! frames, each a length, a BLAKE3 hash and a compressed batch, because a frame that was cut off must not be taken for a
//! whole one. Batches are written only after [`PERIOD`], so that fast runs, which finish a chunk sooner, pay nothing.

use super::file_names::TEMPORARY;
use super::reject_record::RejectRecord;
use super::row_keys::RowKeys;
use crate::statistics::RowStatistics;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Says how long a batch grows. A run that is killed loses what was made since the last one was written.
const PERIOD: Duration = Duration::from_secs(10);
/// The level of compression: a journal is short-lived, so that speed counts.
const ZSTD_LEVEL: i32 = 1;
/// The longest payload of a frame that a run writes: `PERIOD` at ten times today's rate. Longer lengths are damage.
const LONGEST_PAYLOAD: u64 = 1 << 30;
const HASH_BYTES: usize = 32;

/// Describes what was added to a chunk between two indices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct JournalBatch {
    /// The first index.
    pub(super) first: u64,
    /// The index after the last.
    pub(super) end: u64,
    /// The version of NVRTC that compiled the CUDA C++ of all its rows.
    pub(super) nvrtc: Option<String>,
    pub(super) rows: Vec<JournalRow>,
    pub(super) rejects: Vec<RejectRecord>,
    /// Statistics of the rows, their ops included.
    pub(super) statistics: RowStatistics,
}

/// A row as it was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JournalRow {
    pub(super) keys: RowKeys,
    /// A line of JSON.
    pub(super) line: String,
}

/// The journal of one chunk.
pub(super) struct ChunkJournal {
    path: PathBuf,
    /// Present once a batch was written or found.
    file: Option<File>,
    last_write: Instant,
}

impl ChunkJournal {
    /// The path of the journal of a chunk, in the data set's folder. It ends as temporary files do, since it never
    /// becomes a part of the data set.
    pub(super) fn path_of(number: u64) -> String {
        format!("keys/{number:05}.journal{TEMPORARY}")
    }

    /// The journal of a chunk that begins with the index `first`, with the batches that an earlier run has left in it.
    /// What comes after the last whole batch is cut off.
    pub(super) fn open(folder: &Path, number: u64, first: u64) -> io::Result<(ChunkJournal, Vec<JournalBatch>)> {
        let path = folder.join(ChunkJournal::path_of(number));
        let mut journal = ChunkJournal { path, file: None, last_write: Instant::now() };
        let is_file = match fs::symlink_metadata(&journal.path) {
            Ok(found) => found.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((journal, Vec::new())),
            Err(error) => return Err(error),
        };
        if !is_file {
            return Err(io::Error::other(format!("{} is no file that a run writes", ChunkJournal::path_of(number))));
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&journal.path)?;
        let mut reader = BufReader::new(&mut file);
        let (mut batches, mut whole, mut next) = (Vec::new(), 0, first);
        while let Some((batch, n_bytes)) = read_frame(&mut reader) {
            if batch.first != next || batch.end <= next {
                break;
            }
            next = batch.end;
            whole += n_bytes;
            batches.push(batch);
        }
        drop(reader);
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        journal.file = Some(file);
        Ok((journal, batches))
    }

    /// True if the batch that is growing should be written.
    pub(super) fn is_due(&self) -> bool {
        self.last_write.elapsed() >= PERIOD
    }

    /// Writes a batch and waits until it is on the disk.
    pub(super) fn write(&mut self, batch: &JournalBatch) -> io::Result<()> {
        let payload = zstd::encode_all(&serde_json::to_vec(batch)?[..], ZSTD_LEVEL)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        let hash = blake3::hash(&payload);
        let length = (payload.len() as u64).to_le_bytes();
        file.write_all(&[&length[..], hash.as_bytes(), &payload].concat())?;
        file.sync_data()?;
        self.last_write = Instant::now();
        Ok(())
    }

    /// Removes the journal of a chunk whose files are complete.
    pub(super) fn remove(self) -> io::Result<()> {
        match self.file {
            Some(_) => fs::remove_file(&self.path),
            None => Ok(()),
        }
    }
}

/// The next batch with the length of its frame; `None` at the end, or where a frame is not whole.
fn read_frame(reader: &mut impl Read) -> Option<(JournalBatch, u64)> {
    let (mut length, mut hash) = ([0; 8], [0; HASH_BYTES]);
    reader.read_exact(&mut length).ok()?;
    reader.read_exact(&mut hash).ok()?;
    let length = u64::from_le_bytes(length);
    let mut payload = Vec::new();
    reader.take(length.min(LONGEST_PAYLOAD)).read_to_end(&mut payload).ok()?;
    if payload.len() as u64 != length || *blake3::hash(&payload).as_bytes() != hash {
        return None;
    }
    let batch = serde_json::from_slice(&zstd::decode_all(&payload[..]).ok()?).ok()?;
    Some((batch, (8 + HASH_BYTES) as u64 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: u64, end: u64) -> JournalBatch {
        JournalBatch { first, end, rejects: vec![RejectRecord::of_index(first, "given_up")], ..JournalBatch::default() }
    }

    #[test]
    fn whole_batches_are_found_and_the_rest_is_cut_off() {
        let folder = std::env::temp_dir().join(format!("polyloom-journal-{}", std::process::id()));
        fs::create_dir_all(folder.join("keys")).expect("it can be made");
        let ends = |first| -> Vec<u64> {
            let (_, batches) = ChunkJournal::open(&folder, 0, first).expect("it can be read");
            batches.iter().map(|batch| batch.end).collect()
        };
        assert!(ends(5).is_empty());
        let (mut journal, _) = ChunkJournal::open(&folder, 0, 5).expect("it can be made");
        for (first, end) in [(5, 9), (9, 12), (12, 20)] {
            journal.write(&batch(first, end)).expect("it can be written");
        }
        let path = folder.join(ChunkJournal::path_of(0));
        let bytes = fs::read(&path).expect("it is there");
        assert_eq!(ends(5), [9, 12, 20]);
        // Cut anywhere, or with a byte changed, it has the batches before.
        let frame = bytes.len() / 3;
        for (n_bytes, expected) in [(frame - 1, &[][..]), (2 * frame + 3, &[9, 12]), (bytes.len() - 1, &[9, 12])] {
            fs::write(&path, &bytes[..n_bytes]).expect("it can be written");
            assert_eq!(ends(5), expected);
        }
        let mut changed = bytes.clone();
        changed[frame + 60] ^= 1;
        fs::write(&path, &changed).expect("it can be written");
        assert_eq!(ends(5), [9]);
        assert_eq!(fs::metadata(&path).expect("it is there").len() as usize, frame);
        // It is of another chunk, or of another range.
        assert!(ends(6).is_empty());
        let _ = fs::remove_dir_all(&folder);
    }
}
