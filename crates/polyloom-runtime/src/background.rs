//! The one thread that works beside launches: it recompiles hot kernels and writes the code cache.
//!
//! When the process exits, compilations that have not begun are forgotten, the one under way is waited for, if not for
//! long, and pending writes are made. The waiting must come before the destructors of the compiler's own statics, or the
//! compilation under way loses the ground it stands on. Exit handlers run in the reverse order of registration, and a
//! compiler makes statics as it goes: a handler registered before its first compilation runs too late for that one.
//! Destructors of the exiting thread's locals run before any handler, so the main thread gets one of those when it makes
//! a device or first submits a job, and a program with an earlier end than `exit`, such as Python's, calls [`close`]
//! there. Where neither is so, handlers do what they can that are registered before the first job and after each of the
//! first ones: the statics of a compiler are made by the first compilation that needs them, which is rarely the first.
//!
//! A compilation that is still under way then is left behind: the process ends without the destructors, with the exit
//! status that it was given and with what C's streams hold written.

use crate::fork::PerProcess;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Describes what kind of work a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobKind {
    /// Worth nothing to a process that exits.
    Compile,
    /// Worth doing before the process exits.
    Write,
}

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait at most. More are dropped, because a dropped job costs speed and never correctness.
const MAX_JOBS: usize = 4096;
/// Says how long the process's exit waits for the thread: most compilations are done by then.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

static BACKGROUND: PerProcess<BackgroundCompiler> = PerProcess::new();

#[derive(Default)]
struct BackgroundCompiler {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<(JobKind, Job)>,
    has_thread: bool,
    is_busy: bool,
    /// The process exits, so that nothing more is compiled.
    is_closing: bool,
    /// Waiting for it has been given up once.
    is_abandoned: bool,
}

/// Has the main thread's end wait for the background thread, if this is the main thread.
pub(crate) fn arm() {
    // Fails in a thread whose locals are gone: one that is ending.
    let _ = AT_MAIN_THREAD_EXIT.try_with(|_| ());
}

/// Ends recompilation for good, before the process ends: forgets what has not begun and waits half a second for the rest.
/// Launches go on with the code they have. A compilation that is still under way when the process exits ends with it.
pub fn close() {
    let background = BACKGROUND.get();
    let patience = {
        let mut state = background.lock();
        state.is_closing = true;
        state.jobs.retain(|(kind, _)| *kind == JobKind::Write);
        if state.is_abandoned { Duration::ZERO } else { EXIT_PATIENCE }
    };
    background.wait_until(Some(Instant::now() + patience));
    let mut state = background.lock();
    if state.is_busy {
        state.is_abandoned = true;
        drop(state);
        exit_without_destructors();
    }
}

/// Has the exit of the process end it before destructors run that are registered by now, if a compilation is under way.
fn exit_without_destructors() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn on_exit(
                handler: extern "C" fn(libc::c_int, *mut libc::c_void),
                argument: *mut libc::c_void,
            ) -> libc::c_int;
        }
        extern "C" fn end(status: libc::c_int, _: *mut libc::c_void) {
            if BACKGROUND.get().lock().is_busy {
                // SAFETY: neither has preconditions; a null stream means all.
                unsafe {
                    libc::fflush(std::ptr::null_mut());
                    libc::_exit(status);
                }
            }
        }
        // SAFETY: the handler is a plain function of this library, which stays loaded until it has run.
        unsafe {
            on_exit(end, std::ptr::null_mut());
        }
    }
}

/// Has `job` done some time; gives whether it will be.
pub(crate) fn submit(kind: JobKind, job: impl FnOnce() + Send + 'static) -> bool {
    let background = BACKGROUND.get();
    arm();
    let mut state = background.lock();
    if !state.has_thread {
        register_exit();
        let builder = std::thread::Builder::new().name("polyloom-compiler".to_owned());
        // The stack is large, because optimisers recurse deeply.
        state.has_thread = builder.stack_size(16 << 20).spawn(|| background.work()).is_ok();
    }
    let wanted = kind == JobKind::Write || !state.is_closing;
    let accepted = state.has_thread && wanted && state.jobs.len() < MAX_JOBS;
    if accepted {
        state.jobs.push_back((kind, Box::new(job)));
        background.changed.notify_all();
    }
    accepted
}

/// Waits until everything submitted so far is done.
pub(crate) fn wait() {
    BACKGROUND.get().wait_until(None);
}

impl BackgroundCompiler {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some((_, job)) = state.jobs.pop_front() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_busy = true;
            drop(state);
            // A job that panics is a defect of a back end, so that the kernel keeps the code it has.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            if N_DONE.fetch_add(1, Ordering::Relaxed) < MAX_HANDLERS {
                register_exit();
            }
            state = self.lock();
            state.is_busy = false;
            self.changed.notify_all();
        }
    }

    fn wait_until(&self, deadline: Option<Instant>) {
        let mut state = self.lock();
        while state.is_busy || !state.jobs.is_empty() {
            let patience = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

extern "C" fn at_exit() {
    close();
}

/// The number of jobs that have been done.
static N_DONE: AtomicU32 = AtomicU32::new(0);
/// The number of jobs after which the exit handler is registered again.
const MAX_HANDLERS: u32 = 64;

/// Registers the exit handler, to run before those registered so far.
fn register_exit() {
    // SAFETY: the handler is a plain function of this library, which stays loaded until it has run.
    unsafe {
        libc::atexit(at_exit);
    }
}

thread_local! {
    static AT_MAIN_THREAD_EXIT: AtMainThreadExit = const { AtMainThreadExit };
}

struct AtMainThreadExit;

impl Drop for AtMainThreadExit {
    fn drop(&mut self) {
        if is_main_thread() {
            close();
        }
    }
}

/// Returns true if the process ends with this thread.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: neither has preconditions.
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn jobs_run_in_order_and_a_panic_ends_only_its_job() {
        let seen = Arc::new(AtomicU32::new(0));
        for i in 1..=3 {
            let seen = seen.clone();
            let job = move || {
                seen.store(seen.load(Ordering::SeqCst) * 10 + i, Ordering::SeqCst);
                if i == 2 {
                    std::panic::resume_unwind(Box::new("defect"));
                }
            };
            assert!(submit(JobKind::Compile, job));
        }
        wait();
        assert_eq!(seen.load(Ordering::SeqCst), 123);
    }
}
