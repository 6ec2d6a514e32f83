//! Handles that callers hold, and what they stand for. A handle is used once: one that is given back stays invalid.

use crate::abi::Handle;
use crate::status::{CudaError, Outcome};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles are multiples of this, beginning above the numbers that the driver API gives a meaning.
const STEP: usize = 0x40;

/// A new handle, of whatever kind.
pub(crate) fn new_handle() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    0x1_0000 + STEP * NEXT.fetch_add(1, Relaxed)
}

/// All live objects of one kind.
pub(crate) struct Registry<T> {
    live: Mutex<BTreeMap<Handle, Arc<T>>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Registry<T> {
        Registry { live: Mutex::new(BTreeMap::new()) }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<Handle, Arc<T>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, handle: Handle, object: T) -> Arc<T> {
        let object = Arc::new(object);
        self.insert_shared(handle, Arc::clone(&object));
        object
    }

    /// Has a handle stand for an object that somebody else has too.
    pub(crate) fn insert_shared(&self, handle: Handle, object: Arc<T>) {
        self.live().insert(handle, object);
    }

    pub(crate) fn get(&self, handle: Handle) -> Outcome<Arc<T>> {
        self.live().get(&handle).cloned().ok_or(CudaError::INVALID_HANDLE)
    }

    pub(crate) fn remove(&self, handle: Handle) -> Outcome<Arc<T>> {
        self.live().remove(&handle).ok_or(CudaError::INVALID_HANDLE)
    }

    /// All of them, in the order in which they were made.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.live().values().cloned().collect()
    }

    /// The handles of those of which something is true.
    pub(crate) fn handles_where(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<Handle> {
        let live = self.live();
        live.iter().filter(|(_, object)| is_wanted(object)).map(|(handle, _)| *handle).collect()
    }

    /// Forgets those of which something is true.
    pub(crate) fn remove_if(&self, is_gone: impl Fn(&T) -> bool) {
        self.live().retain(|_, object| !is_gone(object));
    }
}
