//! Which work of streams comes before which, and races between streams: two accesses of one place, one a write, by work
//! that nothing orders.
//!
//! Work runs in the call that submits it, so that a missing wait has no effect here; on a GPU it may. Each stream counts its
//! work and knows how much of the other streams' comes before what it does next: by events, by the default stream, or
//! because the host has waited. Kept only where races are checked. At most [`MOST`] pieces of work are remembered, the latest.

use crate::driver::Driver;
use crate::stream::Stream;
use polyloom_ptx::CodeSite;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pieces of work that are remembered.
const MOST: usize = 1024;

/// How much of the work of each stream is over, by the numbers of streams.
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
    /// Who accesses it: a kernel with its line, or a copy.
    pub(crate) who: String,
}

struct PastWork {
    stream: u64,
    count: u64,
    accesses: Vec<MemoryAccess>,
}

#[derive(Default)]
struct OrderState {
    streams: BTreeMap<u64, StreamClock>,
    /// What the host has waited for.
    host: StreamClock,
    past: VecDeque<PastWork>,
}

/// The order of the work of all streams.
#[derive(Default)]
pub(crate) struct StreamOrder {
    state: Mutex<OrderState>,
}

thread_local! {
    /// What the work that runs accesses, while somebody wants to know.
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

    /// Work that accesses memory has run in a stream. The default stream comes after blocking ones, and they after it.
    pub(crate) fn ran(&self, driver: &Driver, stream: &Stream, accesses: Vec<MemoryAccess>) {
        let blocking: Vec<u64> = driver
            .streams
            .all()
            .iter()
            .filter(|other| other.context == stream.context && other.flags & Stream::NON_BLOCKING == 0)
            .map(|other| other.id)
            .collect();
        let mut state = self.state();
        let OrderState { streams, host, past } = &mut *state;
        let mut clock = streams.get(&stream.id).cloned().unwrap_or_default();
        clock.learn(host);
        let is_blocking = stream.flags & Stream::NON_BLOCKING == 0;
        let default = driver.contexts.get(stream.context).map(|context| context.stream.id);
        for other in blocking.iter().filter(|other| is_blocking && **other != stream.id) {
            // A blocking stream waits for the default stream alone.
            if (stream.is_default || Ok(*other) == default)
                && let Some(other) = streams.get(other)
            {
                clock.learn(other);
            }
        }
        let count = clock.0.get(&stream.id).copied().unwrap_or(0) + 1;
        past.retain(|work| !host.knows(work.stream, work.count));
        for work in past.iter().filter(|work| !clock.knows(work.stream, work.count)) {
            if let Some((earlier, later)) = conflict(&work.accesses, &accesses) {
                report(driver, (work.stream, earlier), (stream.id, later));
            }
        }
        clock.0.insert(stream.id, count);
        streams.insert(stream.id, clock);
        if past.len() == MOST {
            past.pop_front();
        }
        past.push_back(PastWork { stream: stream.id, count, accesses });
    }

    /// What comes before the next work of a stream.
    pub(crate) fn clock(&self, stream: &Stream) -> StreamClock {
        self.state().streams.get(&stream.id).cloned().unwrap_or_default()
    }

    /// What a stream does next comes after something.
    pub(crate) fn wait(&self, stream: &Stream, clock: &StreamClock) {
        self.state().streams.entry(stream.id).or_default().learn(clock);
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

fn report(driver: &Driver, (first, earlier): (u64, &MemoryAccess), (second, later): (u64, &MemoryAccess)) {
    let verb = |access: &MemoryAccess| if access.writes { "writes" } else { "reads" };
    let at = earlier.range.start.max(later.range.start);
    let whole = driver.memory.device.allocation_at(at);
    let place = whole.map_or_else(String::new, |whole| {
        format!("byte {} of the {}-byte allocation at 0x{:x}", at - whole.start, whole.end - whole.start, whole.start)
    });
    driver.journal.noted(&format!(
        "data race between streams: {} {} {place} in stream {second}, and {} {} it in stream {first}: nothing orders the two; \
         record an event after the one and have the other stream wait for it",
        later.who,
        verb(later),
        earlier.who,
        verb(earlier),
    ));
}

/// True if the program asked for races.
pub(crate) fn is_checked(driver: &Driver) -> bool {
    driver.configuration.sanitize.races
}
