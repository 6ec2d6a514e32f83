//! The threads that help a launch.
//!
//! A launch makes an offer: a task that any worker may join until the launch withdraws it. The calling thread does the
//! same work meanwhile, so an offer that nobody takes costs a little and blocks nothing, and two launches at once never
//! wait for each other's chunks. Workers are started when first wanted and never end; each looks for work for a few
//! microseconds before it goes to sleep, since launches come in series.

use crate::fork::PerProcess;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// More threads than any machine has cores; a bound for mistyped numbers.
pub const MAX_THREADS: usize = 4096;

/// Number of times an idle worker looks for an offer before it sleeps, and a launch for its helpers to be done: some 20
/// µs.
const N_SPINS: u32 = 1000;
/// Number of sleepers a thread wakes: those wake the others, so that a launch on many cores starts in a few steps.
const N_WAKES: usize = 2;

static POOL: PerProcess<ThreadPool> = PerProcess::new();
static N_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of threads a launch may use, the calling one included: `POLYLOOM_NUM_THREADS`, or as many as
/// there are cores.
pub fn num_threads() -> usize {
    match N_THREADS.load(Ordering::Relaxed) {
        0 => {
            let n = threads_from_env().ok().flatten().unwrap_or_else(n_cores);
            // Another thread may have set it meanwhile.
            match N_THREADS.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => n,
                Err(set) => set,
            }
        }
        n => n,
    }
}

/// Sets how many threads a launch may use, the calling one included; at least 1, at most [`MAX_THREADS`]. 0 means as
/// many as there are cores.
pub fn set_num_threads(n: usize) {
    let n = if n == 0 { n_cores() } else { n.min(MAX_THREADS) };
    N_THREADS.store(n, Ordering::Relaxed);
}

/// Returns what `POLYLOOM_NUM_THREADS` says; its text if that is no number of threads.
pub(crate) fn threads_from_env() -> Result<Option<usize>, String> {
    let Some(value) = std::env::var_os("POLYLOOM_NUM_THREADS") else { return Ok(None) };
    let value = value.to_string_lossy();
    match value.trim() {
        "" => Ok(None),
        text => match text.parse() {
            Ok(n) if (1..=MAX_THREADS).contains(&n) => Ok(Some(n)),
            _ => Err(text.to_owned()),
        },
    }
}

/// Returns the number of cores the process may use, at most [`MAX_THREADS`]. Asking the system takes longer than a
/// small launch.
pub(super) fn n_cores() -> usize {
    static N_CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS)));
    *N_CORES
}

/// Says whether work is worth waking workers that sleep. Those that look for work join it in any case.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Sleepers {
    Wake,
    LetSleep,
}

/// Runs `own` on this thread while up to `n_helpers` workers run `task`. Returns when all that joined have left.
pub(crate) fn with_helpers<R>(
    n_helpers: usize,
    sleepers: Sleepers,
    task: &(dyn Fn() + Sync),
    own: impl FnOnce() -> R,
) -> R {
    if n_helpers == 0 {
        return own();
    }
    let pool = POOL.get();
    // SAFETY: only the lifetime changes. Workers call the task between `join` and `leave`; `WithdrawGuard` waits until no
    // one is between the two and lets no one join after, and it drops before `task` can, even if `own` panics.
    let task = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(task) };
    let places = n_helpers.min(MAX_THREADS) as u32;
    let offer = Arc::new(TaskOffer {
        task,
        state: AtomicU32::new(places * TaskOffer::PLACE),
        caller: std::thread::current(),
        core: core(),
    });
    let _withdraw = WithdrawGuard { pool, offer: &offer };
    pool.post(&offer, n_helpers, sleepers);
    own()
}

/// A task that workers may join.
struct TaskOffer {
    task: &'static (dyn Fn() + Sync),
    /// Joined workers in the low half, open places in the upper half. Withdrawing sets the places to 0 for ever.
    state: AtomicU32,
    caller: Thread,
    /// The core it was made on.
    core: Option<i32>,
}

/// The core this thread runs on, where that can be asked.
fn core() -> Option<i32> {
    #[cfg(target_os = "linux")]
    // SAFETY: has no preconditions.
    return Some(unsafe { libc::sched_getcpu() });
    #[cfg(not(target_os = "linux"))]
    None
}

impl TaskOffer {
    const PLACE: u32 = 1 << 16;
    const JOINED: u32 = TaskOffer::PLACE - 1;

    /// Takes a place; gives how many are left.
    fn join(&self) -> Option<usize> {
        let taken = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
            (state >= TaskOffer::PLACE).then(|| state - TaskOffer::PLACE + 1)
        });
        taken.ok().map(|before| (before / TaskOffer::PLACE - 1) as usize)
    }

    fn leave(&self) {
        // A caller that sees the last one gone may free the task, but not the offer, because the worker holds it.
        if self.state.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.unpark();
        }
    }

    fn withdraw(&self) {
        self.state.fetch_and(TaskOffer::JOINED, Ordering::Relaxed);
        for _ in 0..N_SPINS {
            if self.state.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        while self.state.load(Ordering::Acquire) != 0 {
            std::thread::park();
        }
    }
}

/// Withdraws an offer when dropped.
struct WithdrawGuard<'a> {
    pool: &'static ThreadPool,
    offer: &'a Arc<TaskOffer>,
}

impl Drop for WithdrawGuard<'_> {
    fn drop(&mut self) {
        self.pool.remove(self.offer);
        self.offer.withdraw();
    }
}

#[derive(Default)]
struct ThreadPool {
    state: Mutex<PoolState>,
    wake: Condvar,
    /// Length of the queue, for workers to look at without the lock.
    n_offers: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    offers: VecDeque<Arc<TaskOffer>>,
    n_workers: usize,
    n_sleeping: usize,
}

impl ThreadPool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&'static self, offer: &Arc<TaskOffer>, n_helpers: usize, sleepers: Sleepers) {
        let mut state = self.lock();
        while state.n_workers < n_helpers {
            let builder = std::thread::Builder::new().name("polyloom-worker".to_owned());
            // Without memory or rights for another thread, the launch has fewer helpers.
            let Ok(_) = builder.spawn(|| self.work()) else { break };
            state.n_workers += 1;
        }
        state.offers.push_back(offer.clone());
        self.n_offers.store(state.offers.len(), Ordering::Release);
        let n_wakes = if sleepers == Sleepers::Wake { state.n_sleeping.min(n_helpers).min(N_WAKES) } else { 0 };
        drop(state);
        self.wake_workers(n_wakes);
    }

    fn remove(&self, offer: &Arc<TaskOffer>) {
        let mut state = self.lock();
        state.offers.retain(|other| !Arc::ptr_eq(other, offer));
        self.n_offers.store(state.offers.len(), Ordering::Relaxed);
    }

    fn wake_workers(&self, n: usize) {
        for _ in 0..n {
            self.wake.notify_one();
        }
    }

    /// Joins the oldest offer with a place.
    fn join_any(&self, state: &mut PoolState) -> Option<(Arc<TaskOffer>, usize)> {
        loop {
            let offer = state.offers.front()?.clone();
            let joined = offer.join();
            if joined.is_none_or(|places| places == 0) {
                state.offers.pop_front();
                self.n_offers.store(state.offers.len(), Ordering::Relaxed);
            }
            if let Some(places) = joined {
                return Some((offer, places));
            }
        }
    }

    /// The life of a worker.
    fn work(&self) {
        let mut n_spins = 0;
        loop {
            if self.n_offers.load(Ordering::Acquire) == 0 && n_spins < N_SPINS {
                n_spins += 1;
                std::hint::spin_loop();
                continue;
            }
            let mut state = self.lock();
            let (offer, places) = loop {
                if let Some(joined) = self.join_any(&mut state) {
                    break joined;
                }
                state.n_sleeping += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.n_sleeping -= 1;
            };
            let n_wakes = state.n_sleeping.min(places).min(N_WAKES);
            drop(state);
            self.wake_workers(n_wakes);
            n_spins = 0;
            (offer.task)();
            offer.leave();
            // With more threads than cores, a worker may run on its caller's core. Looking for work there would only
            // keep the caller from making it.
            if core().is_some_and(|core| offer.core == Some(core)) {
                n_spins = N_SPINS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Counts to `n` with helpers, each number once.
    fn count(n: u64, n_helpers: usize) -> u64 {
        let (next, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        let task = || {
            while let i = next.fetch_add(1, Ordering::Relaxed)
                && i < n
            {
                sum.fetch_add(i, Ordering::Relaxed);
            }
        };
        with_helpers(n_helpers, Sleepers::Wake, &task, task);
        sum.into_inner()
    }

    #[test]
    fn helpers_and_caller_share_the_work() {
        for n_helpers in [0, 1, 3, 17] {
            assert_eq!(count(10_000, n_helpers), 10_000 * 9_999 / 2);
        }
    }

    #[test]
    fn launches_from_many_threads_are_apart() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..300 {
                        assert_eq!(count(n, 3), n * n.saturating_sub(1) / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_task_may_make_offers_itself() {
        let total = AtomicU64::new(0);
        let task = || {
            total.fetch_add(count(100, 2), Ordering::Relaxed);
        };
        with_helpers(2, Sleepers::Wake, &task, task);
        assert_eq!(total.load(Ordering::Relaxed) % 4950, 0);
        assert!(total.load(Ordering::Relaxed) >= 4950);
    }

    #[test]
    fn helpers_do_join() {
        let (caller, helped) = (std::thread::current().id(), AtomicU64::new(0));
        let task = || {
            if std::thread::current().id() != caller {
                helped.fetch_add(1, Ordering::Release);
            }
        };
        let wait = || {
            while helped.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
        };
        with_helpers(2, Sleepers::Wake, &task, wait);
        assert_eq!(helped.into_inner(), 2);
    }
}
