//! Tells of waits that memory makes necessary: a queue uses what another one has written.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_TOLD: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Holds what was told in this thread and nobody has taken.
    static WAITS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Says whether waits are told, for programs that want to know which there are.
pub fn tell_waits(wanted: bool) {
    IS_TOLD.store(wanted, Ordering::Relaxed);
}

/// Gives the waits of this thread that were told since the last call.
pub fn take_waits() -> Vec<String> {
    WAITS.take()
}

/// Tells of a wait, if somebody wants to know.
#[cfg(feature = "cuda")]
pub(crate) fn note_wait(describe: impl FnOnce() -> String) {
    if IS_TOLD.load(Ordering::Relaxed) {
        WAITS.with_borrow_mut(|waits| waits.push(describe()));
    }
}
