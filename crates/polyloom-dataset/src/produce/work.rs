//! The kernel of an index, verified and written out, by as many threads as are asked for, in order.

use super::chunk::Keys;
use super::settings::Settings;
use crate::generate::{Category, Program, generate};
use crate::row::Row;
use crate::similarity::{Bands, bands};
use crate::statistics::OpCounts;
use crate::text::{Texts, hashes};
use crate::verify::{Reason, Reject, Verifier};
use crate::{Hashes, produce::Dedup};
use polyloom::Random;
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// How often a kernel is drawn anew before an index is given up.
const ATTEMPTS: usize = 50;
/// How far ahead of the last row taken threads may work.
const AHEAD: u64 = 256;

/// A structural hash, or another that tells rows from each other.
pub(crate) type Key = u128;

/// What came of an index.
pub(super) struct Done {
    pub(super) index: u64,
    /// The row; none if it is known already or every attempt was rejected.
    pub(super) made: Option<Box<Made>>,
    /// A row with its key was there before.
    pub(super) is_known: bool,
    /// The attempts that were rejected.
    pub(super) rejects: Vec<Rejected>,
}

/// A row, and by what it is told from others.
pub(super) struct Made {
    pub(super) row: Row,
    pub(super) hashes: Hashes,
    pub(super) bands: Bands,
    pub(super) op_counts: OpCounts,
}

impl Made {
    pub(super) fn keys(&self) -> Keys {
        Keys::of(&self.hashes, self.bands)
    }
}

/// A kernel that was not taken.
pub(super) struct Rejected {
    pub(super) program: Program,
    pub(super) reject: Box<Reject>,
}

/// What threads make rows by.
pub(super) struct Work<'a> {
    pub(super) settings: &'a Settings,
    pub(super) categories: Vec<Category>,
    pub(super) texts: Texts,
    /// The keys of the rows that have been taken.
    pub(super) known: &'a RwLock<HashSet<Key>>,
}

impl Work<'_> {
    /// What comes of an index. It depends on nothing else, but that a row which is known need not be written out.
    fn index(&self, verifier: &Verifier, index: u64) -> Done {
        let mut rejects = Vec::new();
        for program in drafts(&self.categories, self.settings.seed, index) {
            // A fault of the compiler must not end a long run: it is a reject like others, and stands in the statistics.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(verifier, &program, index)));
            match attempt.unwrap_or_else(|panic| Err(Reject::new(Reason::Panic, message(&*panic)))) {
                Ok(made) => return Done { index, is_known: made.is_none(), made: made.map(Box::new), rejects },
                Err(reject) => rejects.push(Rejected { program, reject }),
            }
        }
        Done { index, made: None, is_known: false, rejects }
    }

    fn attempt(&self, verifier: &Verifier, program: &Program, index: u64) -> Result<Option<Made>, Box<Reject>> {
        let kernel = verifier.compile(program)?;
        let hashes = hashes(program, &kernel);
        let key = key(&hashes, self.settings.dedup);
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return Ok(None);
        }
        verifier.verify(program, &kernel, self.settings.verify)?;
        let row = self.texts.row(program, &kernel, self.settings.verify, (self.settings.seed, index))?;
        Ok(Some(Made { row, hashes, bands: bands(&kernel), op_counts: OpCounts::of(&kernel) }))
    }

    /// Works on indices from `first`, and hands what comes of them to `take` in their order, until that is false or
    /// `end` is reached.
    ///
    /// # Errors
    ///
    /// Those of `take`, and of threads that cannot begin.
    pub(super) fn in_order<E: Send>(
        &self,
        first: u64,
        end: Option<u64>,
        verifiers: Vec<Verifier>,
        mut take: impl FnMut(Done) -> Result<bool, E>,
    ) -> Result<(), E> {
        let queue = Queue::default();
        queue.lock().next = first;
        queue.lock().taken = first;
        std::thread::scope(|scope| {
            for verifier in verifiers {
                let queue = &queue;
                scope.spawn(move || {
                    while let Some(index) = queue.draw(end) {
                        queue.give(self.index(&verifier, index));
                    }
                });
            }
            let _stop = StopWhenDropped(&queue);
            for index in first..end.unwrap_or(u64::MAX) {
                let Some(done) = queue.take(index) else { break };
                if !take(done)? {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// The kernels that are tried for an index, one after the other.
pub(crate) fn drafts(categories: &[Category], seed: u64, index: u64) -> impl Iterator<Item = Program> {
    let category = categories[(index % categories.len() as u64) as usize];
    let mut random = Random::new(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..ATTEMPTS).map(move |_| generate(category, random.bits()))
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic that says nothing")
}

/// What tells a row from others.
pub(crate) fn key(hashes: &Hashes, dedup: Dedup) -> Key {
    Keys::of(hashes, Bands::default()).key(dedup)
}

/// Indices to work on and what has come of them.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    taken: u64,
    done: BTreeMap<u64, Done>,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next index to work on.
    fn draw(&self, end: Option<u64>) -> Option<u64> {
        let mut state = self.lock();
        while !state.is_over && state.next >= state.taken + AHEAD {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_over || end.is_some_and(|end| state.next >= end) {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn give(&self, done: Done) {
        self.lock().done.insert(done.index, done);
        self.changed.notify_all();
    }

    /// What has come of an index, once it is there.
    fn take(&self, index: u64) -> Option<Done> {
        let mut state = self.lock();
        loop {
            if let Some(done) = state.done.remove(&index) {
                state.taken = index + 1;
                self.changed.notify_all();
                return Some(done);
            }
            if state.is_over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// However the taking ends, the threads end.
struct StopWhenDropped<'a>(&'a Queue);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}
