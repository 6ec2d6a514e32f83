//! The cache of compiled code on disk.
//!
//! One file an entry, named by its key. A file is written under another name and renamed, so readers see all of it or
//! none; its header carries a checksum over key and content, so a file that was cut short, damaged or renamed is told
//! from a good one and removed. The time of last use is the file's modification time; when the files outgrow the
//! bound, the ones longest unused go.

use super::CacheKey;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// First bytes of a file: magic and version of this format.
const MAGIC: [u8; 8] = *b"PLcache1";
const HEADER_BYTES: usize = MAGIC.len() + 32;
/// Entries larger than this are not kept.
const MAX_ENTRY_BYTES: usize = 256 << 20;
/// Says how stale the time of last use may be, so that frequent use of an entry does not write each time.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);
/// Unfinished files this old are of writers that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of entries.
pub(crate) struct DiskCache {
    directory: PathBuf,
    max_bytes: u64,
    /// Bytes that may still be written before the directory is looked through again.
    allowance: AtomicU64,
}

impl DiskCache {
    pub(crate) fn new(directory: PathBuf, max_bytes: u64) -> DiskCache {
        DiskCache { directory, max_bytes, allowance: AtomicU64::new(0) }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Files lie in 256 folders, so that none grows large.
    fn path(&self, key: &CacheKey) -> PathBuf {
        let mut name = String::with_capacity(64);
        for byte in key {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        self.directory.join(&name[..2]).join(&name[2..])
    }

    pub(crate) fn contains(&self, key: &CacheKey) -> bool {
        self.path(key).is_file()
    }

    /// The content under `key`. A damaged file is removed.
    pub(crate) fn read(&self, key: &CacheKey) -> Option<Vec<u8>> {
        let path = self.path(key);
        // Otherwise a named pipe would keep whoever opens it waiting.
        if !path.is_file() {
            return None;
        }
        let file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        let mut bytes = Vec::with_capacity(metadata.len().min(MAX_ENTRY_BYTES as u64) as usize);
        (&file).take((HEADER_BYTES + MAX_ENTRY_BYTES) as u64).read_to_end(&mut bytes).ok()?;
        let intact = bytes.len() >= HEADER_BYTES
            && bytes[..MAGIC.len()] == MAGIC
            && bytes[MAGIC.len()..HEADER_BYTES] == checksum(key, &bytes[HEADER_BYTES..]);
        if !intact {
            let _ = fs::remove_file(&path);
            return None;
        }
        let now = SystemTime::now();
        if metadata.modified().is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > USE_RESOLUTION)) {
            // Fails for files of other users; those age.
            let _ = file.set_modified(now);
        }
        bytes.drain(..HEADER_BYTES);
        Some(bytes)
    }

    /// Keeps `content` under `key`, if it can be written.
    pub(crate) fn write(&self, key: &CacheKey, content: &[u8]) {
        let size = (HEADER_BYTES + content.len()) as u64;
        if content.len() > MAX_ENTRY_BYTES || size > self.max_bytes {
            return;
        }
        if self.allowance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size)).is_err() {
            self.make_room(size);
        }
        let path = self.path(key);
        let Some(folder) = path.parent() else { return };
        if make_directory(folder).is_err() {
            return;
        }
        let mut prefix = std::ffi::OsString::from(TEMPORARY);
        prefix.push(std::process::id().to_string());
        let Ok(mut file) = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder) else { return };
        let written = file
            .write_all(&MAGIC)
            .and_then(|()| file.write_all(&checksum(key, content)))
            .and_then(|()| file.write_all(content));
        if written.is_ok() {
            // The file is not flushed to the disk, because after a crash its checksum tells.
            let _ = file.persist(&path);
        }
    }

    pub(crate) fn remove(&self, key: &CacheKey) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Looks through the directory, removes what was longest unused until it is well below the bound, and sets the
    /// allowance anew.
    fn make_room(&self, size: u64) {
        let mut files = self.entries();
        files.sort_by_key(|file| file.used);
        let mut total = files.iter().map(|file| file.bytes).sum::<u64>() + size;
        let target = self.max_bytes - self.max_bytes / 8;
        if total > self.max_bytes {
            for file in &files {
                if total <= target {
                    break;
                }
                if fs::remove_file(&file.path).is_ok() {
                    total -= file.bytes;
                }
            }
        }
        // Other processes write too, so that we look again after a part of what is left.
        self.allowance.store(self.max_bytes.saturating_sub(total) / 4, Ordering::Relaxed);
    }

    fn entries(&self) -> Vec<EntryFile> {
        let mut files = Vec::new();
        let now = SystemTime::now();
        let folders = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|folder| folder.file_name().to_str().is_some_and(|name| name.len() == 2 && is_hex(name)));
        for file in folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten()) {
            let (Ok(metadata), name) = (file.metadata(), file.file_name()) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY) {
                if now.duration_since(used).is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(file.path());
                }
            } else if name.len() == 62 && is_hex(name) {
                files.push(EntryFile { path: file.path(), bytes: metadata.len(), used });
            }
        }
        files
    }
}

/// Says how names of unfinished files begin.
const TEMPORARY: &str = ".unfinished-";

struct EntryFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn checksum(key: &CacheKey, content: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new_keyed(key).update(content).finalize().as_bytes()
}

/// Code that processes execute is for its owner alone to write.
fn make_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(max_bytes: u64) -> (tempfile::TempDir, DiskCache) {
        let directory = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(directory.path().join("new"), max_bytes);
        (directory, cache)
    }

    #[test]
    fn what_is_written_is_read() {
        let (_directory, cache) = cache(1 << 20);
        let key = [7; 32];
        assert_eq!(cache.read(&key), None);
        assert!(!cache.contains(&key));
        for content in [&b""[..], b"code", &[0; 100_000]] {
            cache.write(&key, content);
            assert!(cache.contains(&key));
            assert_eq!(cache.read(&key).as_deref(), Some(content));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_named_pipe_is_a_miss_and_gives_way() {
        let (_directory, cache) = cache(1 << 20);
        let key = [7; 32];
        fs::create_dir_all(cache.path(&key).parent().unwrap()).unwrap();
        let path = std::ffi::CString::new(cache.path(&key).to_str().unwrap()).unwrap();
        // SAFETY: the path is a string that ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        assert!(!cache.contains(&key));
        assert_eq!(cache.read(&key), None);
        cache.write(&key, b"some code");
        assert_eq!(cache.read(&key).as_deref(), Some(&b"some code"[..]));
    }

    #[test]
    fn a_file_cut_short_anywhere_is_a_miss_and_goes() {
        let (_directory, cache) = cache(1 << 20);
        let key = [7; 32];
        cache.write(&key, b"some code");
        let whole = fs::read(cache.path(&key)).unwrap();
        for length in 0..whole.len() {
            fs::write(cache.path(&key), &whole[..length]).unwrap();
            assert_eq!(cache.read(&key), None, "{length} bytes");
            assert!(!cache.contains(&key));
        }
    }

    #[test]
    fn any_flipped_bit_is_a_miss() {
        let (_directory, cache) = cache(1 << 20);
        let key = [7; 32];
        cache.write(&key, b"some code");
        let whole = fs::read(cache.path(&key)).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(cache.path(&key), bytes).unwrap();
            assert_eq!(cache.read(&key), None, "bit {bit}");
        }
    }

    #[test]
    fn an_entry_under_another_name_is_a_miss() {
        let (_directory, cache) = cache(1 << 20);
        let (key, other) = ([7; 32], [8; 32]);
        cache.write(&key, b"code");
        cache.write(&other, b"other");
        fs::copy(cache.path(&key), cache.path(&other)).unwrap();
        assert_eq!(cache.read(&other), None);
    }

    #[test]
    fn the_longest_unused_go_first_when_the_bound_is_reached() {
        let (_directory, cache) = cache(10_000);
        let key = |i: u8| [i; 32];
        for i in 0..20 {
            cache.write(&key(i), &[i; 960]);
            if let Ok(file) = File::options().write(true).open(cache.path(&key(i))) {
                let used = SystemTime::now() - Duration::from_secs(1000 - u64::from(i));
                file.set_modified(used).unwrap();
            }
        }
        let total: u64 = cache.entries().iter().map(|file| file.bytes).sum();
        assert!(total <= 10_000, "{total} bytes");
        assert!(cache.contains(&key(19)) && cache.contains(&key(18)));
        assert!(!cache.contains(&key(0)) && !cache.contains(&key(1)));
    }

    #[test]
    fn what_does_not_fit_or_cannot_be_written_is_not_kept() {
        let (_directory, small) = cache(100);
        small.write(&[7; 32], &[0; 1000]);
        assert!(!small.contains(&[7; 32]));
        // A file where the directory should be.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"").unwrap();
        let cache = DiskCache::new(path, 1 << 20);
        cache.write(&[7; 32], b"code");
        assert_eq!(cache.read(&[7; 32]), None);
    }
}
