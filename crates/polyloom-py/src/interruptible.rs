//! Launches without the GIL that Python's signal handlers can stop.

use crate::print;
use polyloom::LaunchOptions;
use pyo3::prelude::*;
use std::cell::Cell;

/// Runs a launch without the GIL, with options by which Python's signal handlers can stop it. Gives its result and the
/// exception that a handler raised meanwhile.
///
/// The launch and its result are `Send`, so that neither has to do with objects of Python, whose threads run meanwhile:
/// what such an object holds is read before.
///
/// # Errors
///
/// What writing to `sys.stdout` raised meanwhile.
pub(crate) fn interruptible<R: Send>(
    py: Python<'_>,
    launch: impl FnOnce(&LaunchOptions<'_>) -> R + Send,
) -> PyResult<(R, Option<PyErr>)> {
    let (result, raised, interrupt) = py.detach(move || {
        let interrupt: Cell<Option<PyErr>> = Cell::new(None);
        // Asked some fifty times a second.
        let interrupted = || {
            if print::has_raised() {
                return true;
            }
            let signals = Python::attach(|py| py.check_signals());
            signals.map_err(|error| interrupt.set(Some(error))).is_err()
        };
        let options = LaunchOptions { interrupted: Some(&interrupted), ..LaunchOptions::default() };
        let (result, raised) = print::capture(|| launch(&options));
        (result, raised, interrupt.take())
    });
    match raised {
        Some(raised) => Err(raised),
        None => Ok((result, interrupt)),
    }
}
