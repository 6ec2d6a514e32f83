//! Ctrl-C: a run ends where it can be gone on with, and says so.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// The exit status of what Ctrl-C has ended.
pub(super) const STATUS: i32 = 130;

/// From now on Ctrl-C asks for an end; twice, it is the end.
pub(super) fn listen() {
    let ask = || {
        if IS_ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(STATUS);
        }
    };
    // An error is no failure, because Ctrl-C ends the process as ever where it cannot be listened to.
    let _ = ctrlc::set_handler(ask);
}

/// Whether an end is asked for.
pub(super) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}
