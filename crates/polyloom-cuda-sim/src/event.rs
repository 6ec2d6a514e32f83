//! Events: when a stream has got somewhere.
//!
//! Work is done by the time that the call which submits it returns, so that an event is over once it is recorded.

use crate::abi::Handle;
use crate::order::StreamClock;
use crate::registry::Registry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An event.
pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    state: Mutex<EventState>,
}

/// All events.
pub(crate) static EVENTS: Registry<Event> = Registry::new();

/// Describes the last recording of an event.
#[derive(Clone, Default)]
pub(crate) struct EventState {
    /// Holds the time of it.
    pub(crate) recorded: Option<Instant>,
    /// Holds the work that came before it.
    pub(crate) clock: StreamClock,
    /// If it was while a stream was captured, the capture and the nodes before it.
    pub(crate) captured: Option<(u64, Vec<Handle>)>,
}

impl Event {
    pub(crate) const DISABLE_TIMING: u32 = 2;
    /// It may be shared, and has no time.
    pub(crate) const INTERPROCESS: u32 = 4;

    pub(crate) fn new(context: Handle, flags: u32) -> Event {
        Event { context, flags, state: Mutex::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, EventState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
