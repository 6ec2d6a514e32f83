//! State that does not survive `fork`.
//!
//! A forked child has one thread: worker threads are gone, and a mutex that another thread held stays locked for ever.
//! What involves threads or locks here is therefore kept [`PerProcess`]: the first use in a child makes a fresh one and
//! leaks what came from the parent, which nobody can safely touch or free. The locks of compilers are not ours to
//! renew, so compilers run [`without_fork`]: a fork waits until none is at work.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Says how long a fork waits for compilers. One that takes longer costs the child, perhaps, its compiler.
const FORK_PATIENCE: Duration = Duration::from_secs(30);

static GENERATION: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs between a process and the children it forks.
#[inline]
pub(crate) fn generation() -> u32 {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        register();
        REGISTERED.store(true, Ordering::Release);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Has forks call the handlers. Threads that come here at once each register them, so that none goes on before they are
/// there, and none waits for another, which a child forked meanwhile would do for ever; called twice they do no harm.
#[cold]
fn register() {
    #[cfg(unix)]
    // SAFETY: the child's handler only increments an atomic, which is async-signal-safe; the others run in a process
    // whose threads and locks are all there. If registration fails for want of memory, forked children share the
    // parent's generation, as without this module.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
    }
}

static WORK: PerProcess<ForkState> = PerProcess::new();

thread_local! {
    static IS_WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Describes what forks and compilers know of each other.
#[derive(Default)]
struct ForkState {
    state: Mutex<WorkState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkState {
    n_working: u32,
    n_forking: u32,
}

impl ForkState {
    fn lock(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does work that a forked child could not live with half done, so that no other thread forks meanwhile. Any number of
/// threads may work at once.
pub fn without_fork<T>(work: impl FnOnce() -> T) -> T {
    struct CompileGuard(&'static ForkState);

    impl Drop for CompileGuard {
        fn drop(&mut self) {
            IS_WORKING.set(false);
            self.0.lock().n_working -= 1;
            self.0.changed.notify_all();
        }
    }

    if IS_WORKING.get() {
        return work();
    }
    let shared = WORK.get();
    let mut state = shared.lock();
    while state.n_forking > 0 {
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.n_working += 1;
    drop(state);
    IS_WORKING.set(true);
    let _working = CompileGuard(shared);
    work()
}

#[cfg(unix)]
extern "C" fn before_fork() {
    // The thread's own work is left out, because one that forks in its midst would wait for itself.
    let own = u32::from(IS_WORKING.try_with(Cell::get).unwrap_or(false));
    let shared = WORK.get();
    let deadline = Instant::now() + FORK_PATIENCE;
    let mut state = shared.lock();
    state.n_forking += 1;
    while state.n_working > own {
        let patience = deadline.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            return;
        }
        state = shared.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
    }
}

#[cfg(unix)]
extern "C" fn in_parent() {
    let shared = WORK.get();
    shared.lock().n_forking -= 1;
    shared.changed.notify_all();
}

struct ForkStamped<T> {
    generation: u32,
    value: T,
}

/// A lazily made value that a forked child makes anew.
pub struct PerProcess<T> {
    current: AtomicPtr<ForkStamped<T>>,
}

// SAFETY: the cell hands out only `&T`, from any thread, and drops `T` on whichever thread drops the cell.
unsafe impl<T: Send + Sync> Send for PerProcess<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

impl<T: Default> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess { current: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process.
    pub fn get(&self) -> &T {
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
    fn renew(&self, stale: *mut ForkStamped<T>, generation: u32) -> &T {
        let fresh = Box::into_raw(Box::new(ForkStamped { generation, value: T::default() }));
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

impl<T: Default> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
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
    fn a_child_finds_no_work_half_done() {
        static FOREIGN: Mutex<()> = Mutex::new(());
        static IS_UNDER_WAY: AtomicBool = AtomicBool::new(false);
        let worker = std::thread::spawn(|| {
            without_fork(|| {
                let _half_done = FOREIGN.lock().unwrap();
                IS_UNDER_WAY.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(50));
            });
        });
        while !IS_UNDER_WAY.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // SAFETY: the child only tries to lock and leaves without running any destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let done = without_fork(|| FOREIGN.try_lock().is_ok());
            // SAFETY: ends the child.
            unsafe { libc::_exit(if done { 0 } else { 1 }) }
        }
        worker.join().unwrap();
        assert_eq!(without_fork(|| without_fork(|| 1)), 1, "work goes on in the parent");
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
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
