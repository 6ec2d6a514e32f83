//! Tracks which work of streams comes before which, and races between streams: two accesses of one place, one a write, by work
//! that nothing orders.
//!
//! Work runs in the call that submits it, so that a missing wait has no effect here; on a GPU it may. Each stream counts its
//! work and knows how much of the other streams' comes before what it does next: by events, by the default stream, or
//! because the host has waited. Kept only where races are checked. At most [`MOST`] pieces of work are remembered, the latest.

use polyloom_ptx::CodeSite;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pieces of work that are remembered.
const MOST: usize = 1024;

/// Counts the work of each stream that is over, by the numbers of streams.
#[derive(Clone, Default, Debug)]
pub(crate) struct StreamClock(BTreeMap<u64, u64>);

impl StreamClock {
    fn learn(&mut self, other: &StreamClock) {
        for (stream, count) in &other.0 {
            let known = self.0.entry(*stream).or_default();
            *known = (*known).max(*count);
        }
    }

    fn knows(&self, stream: u64, count: u64) -> bool {
        self.0.get(&stream).is_some_and(|known| *known >= count)
    }
}

/// Memory that a piece of work accesses.
#[derive(Clone, Debug)]
pub(crate) struct MemoryAccess {
    pub(crate) range: Range<u64>,
    pub(crate) writes: bool,
    pub(crate) is_atomic: bool,
    /// Names who accesses it: a kernel with its line, or a copy.
    pub(crate) who: String,
}

/// A stream, and those whose work comes before its own without an event.
pub(crate) struct StreamPlace<'a> {
    pub(crate) id: u64,
    pub(crate) before: &'a [u64],
}

/// Two accesses that nothing orders, each with its stream.
pub(crate) struct StreamRace {
    earlier: (u64, MemoryAccess),
    later: (u64, MemoryAccess),
}

struct PastWork {
    stream: u64,
    count: u64,
    accesses: Vec<MemoryAccess>,
}

#[derive(Default)]
struct OrderState {
    streams: BTreeMap<u64, StreamClock>,
    /// Holds what the host has waited for.
    host: StreamClock,
    past: VecDeque<PastWork>,
}

/// The order of the work of all streams.
#[derive(Default)]
pub(crate) struct StreamOrder {
    state: Mutex<OrderState>,
}

thread_local! {
    /// Records what the work that runs accesses, while somebody wants to know.
    static ACCESSES: RefCell<Option<Vec<MemoryAccess>>> = const { RefCell::new(None) };
}

/// True while accesses are wanted.
pub(crate) fn is_recording() -> bool {
    ACCESSES.with_borrow(Option::is_some)
}

/// Notes an access of the work that runs.
pub(crate) fn record(access: MemoryAccess) {
    ACCESSES.with_borrow_mut(|accesses| accesses.as_mut().map(|accesses| accesses.push(access)));
}

/// In words, a place in a kernel.
pub(crate) fn described(kernel: &str, site: &CodeSite) -> String {
    format!("kernel `{kernel}` at {site}")
}

/// Runs work and gives what it accesses.
pub(crate) fn recorded<R>(run: impl FnOnce() -> R) -> (R, Vec<MemoryAccess>) {
    // Work within work, as of a graph, is part of it.
    let outer = ACCESSES.replace(Some(Vec::new()));
    let result = run();
    let found = ACCESSES.replace(outer).unwrap_or_default();
    (result, found)
}

impl StreamOrder {
    fn state(&self) -> MutexGuard<'_, OrderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work that accesses memory has run in a stream. Gives the races that it is part of, the earlier access first.
    pub(crate) fn ran(&self, stream: StreamPlace<'_>, accesses: Vec<MemoryAccess>) -> Vec<StreamRace> {
        let mut state = self.state();
        let OrderState { streams, host, past } = &mut *state;
        let mut clock = streams.get(&stream.id).cloned().unwrap_or_default();
        clock.learn(host);
        for other in stream.before {
            if let Some(other) = streams.get(other) {
                clock.learn(other);
            }
        }
        let count = clock.0.get(&stream.id).copied().unwrap_or(0) + 1;
        past.retain(|work| !host.knows(work.stream, work.count));
        let unordered = past.iter().filter(|work| !clock.knows(work.stream, work.count));
        let races = unordered.filter_map(|work| {
            let (earlier, later) = conflict(&work.accesses, &accesses)?;
            Some(StreamRace { earlier: (work.stream, earlier.clone()), later: (stream.id, later.clone()) })
        });
        let races = races.collect();
        clock.0.insert(stream.id, count);
        streams.insert(stream.id, clock);
        if past.len() == MOST {
            past.pop_front();
        }
        past.push_back(PastWork { stream: stream.id, count, accesses });
        races
    }

    /// Returns what comes before the next work of a stream.
    pub(crate) fn clock(&self, stream: u64) -> StreamClock {
        self.state().streams.get(&stream).cloned().unwrap_or_default()
    }

    /// Orders what a stream does next after something.
    pub(crate) fn wait(&self, stream: u64, clock: &StreamClock) {
        self.state().streams.entry(stream).or_default().learn(clock);
    }

    /// The host has waited for something.
    pub(crate) fn host_waited(&self, clock: &StreamClock) {
        self.state().host.learn(clock);
    }

    /// The host has waited for everything.
    pub(crate) fn host_waited_for_all(&self) {
        let mut state = self.state();
        let OrderState { streams, host, past } = &mut *state;
        streams.values().for_each(|clock| host.learn(clock));
        past.clear();
    }
}

/// The first accesses of two pieces of work that are a race.
fn conflict<'a>(
    earlier: &'a [MemoryAccess],
    later: &'a [MemoryAccess],
) -> Option<(&'a MemoryAccess, &'a MemoryAccess)> {
    let clash = |a: &MemoryAccess, b: &MemoryAccess| {
        let touches = a.range.start < b.range.end && b.range.start < a.range.end;
        touches && (a.writes || b.writes) && !(a.is_atomic && b.is_atomic)
    };
    earlier.iter().find_map(|a| later.iter().find(|b| clash(a, b)).map(|b| (a, b)))
}

impl StreamRace {
    /// The first byte that both access.
    pub(crate) fn address(&self) -> u64 {
        self.earlier.1.range.start.max(self.later.1.range.start)
    }

    /// In words, with the place that both access.
    pub(crate) fn describe(&self, place: &str) -> String {
        let StreamRace { earlier: (first, earlier), later: (second, later) } = self;
        let verb = |access: &MemoryAccess| if access.writes { "writes" } else { "reads" };
        format!(
            "data race between streams: {} {} {place} in stream {second}, and {} {} it in stream {first}: nothing orders \
             the two; record an event after the one and have the other stream wait for it",
            later.who,
            verb(later),
            earlier.who,
            verb(earlier),
        )
    }
}
