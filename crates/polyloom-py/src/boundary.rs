//! The boundary that no panic of the compiler crosses: it becomes a `polyloom.InternalError`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns what `work` gives; an `InternalError` if it panics.
#[inline]
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.unwrap_or_else(|_| Err(internal_error()))
}

#[cold]
fn internal_error() -> PyErr {
    let what = LAST_PANIC.take().unwrap_or_else(|| "a panic".to_owned());
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("polyloom._errors")?.getattr("InternalError")?;
            Ok(PyErr::from_value(class.call1((&what,))?))
        };
        make().unwrap_or_else(|_| PyRuntimeError::new_err(format!("internal error: {what}")))
    })
}

/// Has panics behind the boundary kept for the error they become, instead of printed.
pub(crate) fn keep_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        if DEPTH.get() == 0 {
            return print(panic);
        }
        let payload = panic.payload();
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
        let place = panic.location().map_or_else(String::new, |location| format!(" ({location})"));
        LAST_PANIC.set(Some(format!("{message}{place}")));
    }));
}

/// Panics behind the boundary, which nothing else is known to do: for tests of it.
#[pyfunction]
#[pyo3(name = "_panic")]
pub(crate) fn panic_for_tests(message: String) -> PyResult<()> {
    guarded(|| std::panic::panic_any(message))
}
