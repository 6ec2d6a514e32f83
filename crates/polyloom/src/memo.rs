//! Values that are made once for each key while a kernel lives: code for a device, backward kernels.

use polyloom_runtime::PerProcess;
use std::sync::{Arc, Mutex, PoisonError};

/// Values by key, each made when it is first asked for. Whoever waits for one keeps nobody from the others.
///
/// A forked child makes them anew, because another thread of its parent may have been at one, and devices do not survive a
/// fork either.
pub(crate) struct Memo<K, V> {
    entries: PerProcess<Entries<K, V>>,
}

type Entries<K, V> = Mutex<Vec<(K, Slot<V>)>>;

/// A value, or none yet.
type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo { entries: PerProcess::new() }
    }
}

impl<K: Clone + PartialEq, V> Memo<K, V> {
    /// Returns the value of a key, which `make` makes if there is none yet. After an error it is asked again.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub(crate) fn get_or_make<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let mut value = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*value {
            return Ok(made.clone());
        }
        let made = Arc::new(make()?);
        *value = Some(made.clone());
        Ok(made)
    }

    fn slot(&self, key: &K) -> Slot<V> {
        let mut entries = self.entries.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = entries.iter().find(|(known, _)| known == key) {
            return slot.clone();
        }
        let slot = Slot::default();
        entries.push((key.clone(), slot.clone()));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::Memo;

    #[test]
    fn a_value_is_made_once_and_an_error_is_not_kept() {
        let memo = Memo::<u8, u8>::default();
        assert_eq!(memo.get_or_make(&1, || Err("not yet")), Err("not yet"));
        assert_eq!(memo.get_or_make(&1, || Ok::<_, &str>(7)).as_deref(), Ok(&7));
        assert_eq!(memo.get_or_make(&1, || Err("never asked")).as_deref(), Ok(&7));
        assert_eq!(memo.get_or_make(&2, || Ok::<_, &str>(8)).as_deref(), Ok(&8));
    }
}
