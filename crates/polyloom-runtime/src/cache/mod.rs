//! The cache of compiled code.
//!
//! Entries are addressed by everything the code depends on: the kernel's HIR, the back end with its version, CPU and
//! options, the variant, and this crate's version. So an entry never has to be invalidated, only forgotten. The memory
//! cache is asked first and is bounded; the disk cache is shared by all processes. A cache never causes an error: what
//! cannot be read is a miss, what cannot be written is not kept.

mod disk;

use crate::background::{self, JobKind};
use crate::fork::{PerProcess, without_fork};
use crate::processor::Processor;
use disk::DiskCache;
use polyloom_codegen::{Backend, CodeObject, CodeVariant, LoadedCode};
use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Object bytes kept in memory.
const MEMORY_BYTES: usize = 64 << 20;
/// Object bytes kept on disk unless `POLYLOOM_CACHE_BYTES` says otherwise.
const DISK_BYTES: u64 = 1 << 30;

/// Address of an entry.
pub(crate) type CacheKey = [u8; 32];

/// Why the environment asks for no cache there could be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CacheError {
    /// `POLYLOOM_CACHE` is neither of its values.
    #[error("POLYLOOM_CACHE is `{value}`; it may be 0 or 1")]
    Switch {
        /// Holds what it is.
        value: String,
    },
    /// `POLYLOOM_CACHE_BYTES` is no number of bytes.
    #[error("POLYLOOM_CACHE_BYTES is `{value}`; it must be a number of bytes")]
    Size {
        /// Holds what it is.
        value: String,
    },
}

/// Compiled code in memory and, optionally, on disk.
pub struct CodeCache {
    disk: Option<Arc<DiskCache>>,
    memory: PerProcess<Mutex<MemoryCache>>,
}

#[derive(Default)]
struct MemoryCache {
    entries: FxHashMap<CacheKey, CacheEntry>,
    n_bytes: usize,
    /// Counts uses, to tell which entry was used last.
    clock: u64,
}

struct CacheEntry {
    object: Arc<CodeObject>,
    /// The code, if some kernel still has it.
    loaded: Option<Weak<dyn LoadedCode>>,
    used: u64,
}

/// Describes what the cache has of an entry.
pub(crate) enum CacheLookup {
    /// Code that some kernel is using.
    Loaded(Arc<dyn LoadedCode>),
    /// An object to load.
    Object(Arc<CodeObject>),
}

impl CodeCache {
    /// A cache in memory only.
    pub fn in_memory() -> CodeCache {
        CodeCache { disk: None, memory: PerProcess::new() }
    }

    /// A cache that also keeps up to `max_bytes` in files under `directory`, which is made when first needed.
    pub fn in_directory(directory: impl Into<PathBuf>, max_bytes: u64) -> CodeCache {
        CodeCache { disk: Some(Arc::new(DiskCache::new(directory.into(), max_bytes))), memory: PerProcess::new() }
    }

    /// The cache that the environment asks for: on disk in `POLYLOOM_CACHE_DIR`, by default `polyloom` in the user's
    /// cache directory, with at most `POLYLOOM_CACHE_BYTES`; in memory only with `POLYLOOM_CACHE=0`, or where there is
    /// no home directory.
    ///
    /// # Errors
    ///
    /// If a variable has a value without meaning.
    pub fn from_env() -> Result<CodeCache, CacheError> {
        CodeCache::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<CodeCache, CacheError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        // Otherwise a relative one would put a cache into every folder that a program is started from.
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let value = |name: &str| variable(name).map(|value| value.to_string_lossy().trim().to_owned());
        let is_on = match value("POLYLOOM_CACHE").as_deref() {
            None | Some("1") => true,
            Some("0") => false,
            Some(value) => return Err(CacheError::Switch { value: value.to_owned() }),
        };
        let max_bytes = match value("POLYLOOM_CACHE_BYTES") {
            None => DISK_BYTES,
            Some(value) => value.parse().map_err(|_| CacheError::Size { value })?,
        };
        let directory = variable("POLYLOOM_CACHE_DIR").map(PathBuf::from).or_else(|| {
            let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
            Some(caches?.join("polyloom"))
        });
        Ok(match directory.filter(|_| is_on) {
            Some(directory) => CodeCache::in_directory(directory, max_bytes),
            None => CodeCache::in_memory(),
        })
    }

    /// Returns where entries are kept on disk, if they are.
    pub fn directory(&self) -> Option<&Path> {
        self.disk.as_ref().map(|disk| disk.directory())
    }

    fn memory(&self) -> MutexGuard<'_, MemoryCache> {
        self.memory.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what there is under `key`.
    pub(crate) fn get(&self, key: &CacheKey) -> Option<CacheLookup> {
        {
            let mut memory = self.memory();
            memory.clock += 1;
            let clock = memory.clock;
            if let Some(entry) = memory.entries.get_mut(key) {
                entry.used = clock;
                let loaded = entry.loaded.as_ref().and_then(Weak::upgrade);
                return Some(loaded.map_or_else(|| CacheLookup::Object(entry.object.clone()), CacheLookup::Loaded));
            }
        }
        let object = Arc::new(CodeObject { bytes: self.disk.as_ref()?.read(key)? });
        self.memory().insert(*key, object.clone());
        Some(CacheLookup::Object(object))
    }

    /// Returns true if something is under `key`, as far as can be told without reading it.
    pub(crate) fn contains(&self, key: &CacheKey) -> bool {
        self.memory().entries.contains_key(key) || self.disk.as_ref().is_some_and(|disk| disk.contains(key))
    }

    /// Keeps an object; the disk is written in the background.
    pub(crate) fn put(&self, key: CacheKey, object: Arc<CodeObject>) {
        self.memory().insert(key, object.clone());
        if let Some(disk) = self.disk.clone() {
            background::submit(JobKind::Write, move || disk.write(&key, &object.bytes));
        }
    }

    /// Returns what `make` makes of the inputs that `parts` spell, from the cache if it has been made before.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    #[cfg(feature = "cuda")]
    pub(crate) fn artefact<E>(&self, parts: &[&str], make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let mut hasher = blake3::Hasher::new();
        for part in [env!("CARGO_PKG_VERSION"), env!("POLYLOOM_BUILD")].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let key = *hasher.finalize().as_bytes();
        if let Some(CacheLookup::Object(object)) = self.get(&key) {
            return Ok(object.bytes.clone());
        }
        let bytes = make()?;
        self.put(key, Arc::new(CodeObject { bytes: bytes.clone() }));
        Ok(bytes)
    }

    /// Remembers the code made from the object under `key`.
    pub(crate) fn loaded(&self, key: &CacheKey, code: &Arc<dyn LoadedCode>) {
        if let Some(entry) = self.memory().entries.get_mut(key) {
            entry.loaded = Some(Arc::downgrade(code));
        }
    }

    /// Forgets an entry that its back end does not understand.
    pub(crate) fn remove(&self, key: &CacheKey) {
        self.memory().remove(key);
        if let Some(disk) = &self.disk {
            disk.remove(key);
        }
    }
}

impl MemoryCache {
    fn insert(&mut self, key: CacheKey, object: Arc<CodeObject>) {
        self.remove(&key);
        self.clock += 1;
        self.n_bytes += object.bytes.len();
        self.entries.insert(key, CacheEntry { object, loaded: None, used: self.clock });
        while self.n_bytes > MEMORY_BYTES
            && let Some(oldest) = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key)
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.n_bytes -= entry.object.bytes.len();
        }
    }
}

/// The address of a kernel's code from a back end, for a variant.
pub(crate) fn key(kernel_hash: &[u8; 32], backend: &dyn Backend, variant: &CodeVariant) -> CacheKey {
    let mut hasher = blake3::Hasher::new();
    let mut text = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    text(env!("CARGO_PKG_VERSION"));
    text(env!("POLYLOOM_BUILD"));
    text(backend.name());
    text(&backend.fingerprint());
    hasher.update(kernel_hash);
    hasher.update(&[variant.launch_rank, variant.facts.alone.into()]);
    // No kernel has 0 lanes, so that it stands for the back end's choice.
    hasher.update(&variant.lanes.unwrap_or(0).to_le_bytes());
    for (param, value) in &variant.facts.scalars {
        hasher.update(&(*param as u64).to_le_bytes());
        hasher.update(&value.to_le_bytes());
    }
    hasher.update(&[0xFF]);
    for facts in &variant.facts.arrays {
        let flags = [facts.contiguous, facts.aligned, facts.disjoint, facts.offsets_fit_i32];
        hasher.update(&flags.map(u8::from));
        for extent in facts.extents {
            hasher.update(&extent.map_or(-1, i64::from).to_le_bytes());
        }
    }
    *hasher.finalize().as_bytes()
}

/// The address of what has been measured of a variant's candidates on this machine, which holds for no other.
pub(crate) fn samples_key(kernel_hash: &[u8; 32], backend: &dyn Backend, variant: &CodeVariant) -> CacheKey {
    let mut hasher = blake3::Hasher::new_keyed(&key(kernel_hash, backend, variant));
    // Another fork must not find the processor half read.
    let processor = without_fork(Processor::host);
    hasher.update(format!("samples of candidates on {processor:?}").as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where the cache is with these variables set, or why there is none.
    fn directory(variables: &[(&str, &str)]) -> Result<Option<PathBuf>, String> {
        let variable = |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
        let cache = CodeCache::from_variables(variable).map_err(|error| error.to_string())?;
        Ok(cache.directory().map(Path::to_owned))
    }

    #[test]
    fn where_the_environment_puts_the_cache() {
        let check = |variables: &[(&str, &str)], expect: Option<&str>| {
            assert_eq!(directory(variables), Ok(expect.map(PathBuf::from)), "{variables:?}");
        };
        check(&[], None);
        check(&[("HOME", "/home/me")], Some("/home/me/.cache/polyloom"));
        check(&[("HOME", "me")], None);
        check(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/tmp/c")], Some("/tmp/c/polyloom"));
        check(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "c")], Some("/home/me/.cache/polyloom"));
        check(&[("HOME", "/home/me"), ("POLYLOOM_CACHE_DIR", "/tmp/d")], Some("/tmp/d"));
        check(&[("HOME", "/home/me"), ("POLYLOOM_CACHE", "0")], None);
        check(&[("HOME", "/home/me"), ("POLYLOOM_CACHE", "1")], Some("/home/me/.cache/polyloom"));
    }

    #[test]
    fn variables_without_meaning_are_refused() {
        let refused = |name: &str, value: &str| directory(&[("HOME", "/home/me"), (name, value)]).unwrap_err();
        assert_eq!(refused("POLYLOOM_CACHE", "off"), "POLYLOOM_CACHE is `off`; it may be 0 or 1");
        let expect = "POLYLOOM_CACHE_BYTES is `1G`; it must be a number of bytes";
        assert_eq!(refused("POLYLOOM_CACHE_BYTES", "1G"), expect);
    }
}
