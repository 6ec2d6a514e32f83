//! Launches without the GIL that Python's signal handlers can stop.

use crate::print;
use polyloom::LaunchOptions;
use pyo3::prelude::*;
use std::cell::Cell;

/// Runs a launch without the GIL, with options by which Python's signal handlers can stop it. Gives its result and the
/// exception that a handler raised meanwhile.
///
/// # Errors
///
/// What writing to `sys.stdout` raised meanwhile.
pub(crate) fn interruptible<R>(
    py: Python<'_>,
    launch: impl FnOnce(&LaunchOptions<'_>) -> R,
) -> PyResult<(R, Option<PyErr>)> {
    let interrupt: Cell<Option<PyErr>> = Cell::new(None);
    let unshared = UnsharedRef((&interrupt, launch));
    let (result, raised) = py
        .detach(move || {
            let unshared = unshared;
            let UnsharedRef((interrupt, launch)) = unshared;
            // Asked some fifty times a second.
            let interrupted = || {
                if print::has_raised() {
                    return true;
                }
                let signals = Python::attach(|py| py.check_signals());
                signals.map_err(|error| interrupt.set(Some(error))).is_err()
            };
            let options = LaunchOptions { interrupted: Some(&interrupted), ..LaunchOptions::default() };
            UnsharedRef(print::capture(|| launch(&options)))
        })
        .0;
    match raised {
        Some(raised) => Err(raised),
        None => Ok((result, interrupt.take())),
    }
}

/// Lets a reference into the closure that runs without the GIL, on this very thread.
struct UnsharedRef<T>(T);
// SAFETY: `Python::detach` runs its closure on the calling thread, so nothing is sent anywhere.
unsafe impl<T> Send for UnsharedRef<T> {}
