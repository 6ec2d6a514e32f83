//! State that does not survive `fork`.
//!
//! A forked child has one thread: worker threads are gone, and a mutex that another thread held stays locked for ever.
//! Whatever involves threads or locks is therefore kept [`PerProcess`]: the first use in a child makes a fresh one and
//! leaks what came from the parent, which nobody can safely touch or free.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and the children it forks.
fn generation() -> u32 {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Relaxed) && !REGISTERED.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        // SAFETY: the handler only increments an atomic, which is async-signal-safe. If registration fails for want of
        // memory, forked children share the parent's generation, as without this module.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    }
    GENERATION.load(Ordering::Relaxed)
}

struct Stamped<T> {
    generation: u32,
    value: T,
}

/// A lazily made value that a forked child makes anew.
pub(crate) struct PerProcess<T> {
    current: AtomicPtr<Stamped<T>>,
}

// SAFETY: the cell hands out only `&T`, from any thread, and drops `T` on whichever thread drops the cell.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> PerProcess<T> {
        PerProcess { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process.
    pub(crate) fn get(&self) -> &T {
        let generation = generation();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: a non-null pointer came from `Box::into_raw` below and is freed only by `drop`, or never.
        if let Some(stamped) = unsafe { current.as_ref() }
            && stamped.generation == generation
        {
            return &stamped.value;
        }
        self.renew(current, generation)
    }

    #[cold]
    fn renew(&self, stale: *mut Stamped<T>, generation: u32) -> &T {
        let fresh = Box::into_raw(Box::new(Stamped { generation, value: T::default() }));
        match self.current.compare_exchange(stale, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `fresh` is alive until `drop`. `stale` is leaked on purpose; see the module's documentation.
            Ok(_) => unsafe { &(*fresh).value },
            Err(winner) => {
                // SAFETY: nobody else has seen `fresh`; `winner` is as alive as any current value.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &(*winner).value
                }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        if current.is_null() {
            return;
        }
        // SAFETY: as in `get`; `&mut self` means that no borrow is left. A value of the parent process is leaked.
        unsafe {
            if (*current).generation == generation() {
                drop(Box::from_raw(current));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn the_value_is_made_once() {
        let cell: PerProcess<Mutex<u32>> = PerProcess::new();
        *cell.get().lock().unwrap() += 1;
        *cell.get().lock().unwrap() += 1;
        assert_eq!(*cell.get().lock().unwrap(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_child_can_lock_what_its_parent_holds() {
        let cell: PerProcess<Mutex<u32>> = PerProcess::new();
        let guard = cell.get().lock().unwrap();
        // SAFETY: the child only locks, compares and leaves without running any destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fresh = cell.get().try_lock().is_ok_and(|value| *value == 0);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if fresh { 0 } else { 1 }) }
        }
        assert!(child > 0);
        drop(guard);
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
