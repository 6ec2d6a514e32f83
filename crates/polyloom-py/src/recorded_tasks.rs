//! The tasks that take the launches of a thread: whatever may use what launches write waits for them.

use pyo3::prelude::*;
use std::cell::RefCell;

thread_local! {
    /// Holds the object of `polyloom.tasks` that takes the launches of this thread.
    static TAKEN_BY: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// Has tasks take the launches of this thread, or none.
#[pyfunction]
#[pyo3(signature = (tasks))]
pub(crate) fn set_recording_tasks(tasks: Option<Py<PyAny>>) {
    let before = TAKEN_BY.replace(tasks);
    drop(before);
}

/// Returns the tasks that take the launches of this thread.
#[pyfunction]
pub(crate) fn recording_tasks(py: Python<'_>) -> Option<Py<PyAny>> {
    TAKEN_BY.with_borrow(|tasks| tasks.as_ref().map(|tasks| tasks.clone_ref(py)))
}

/// Runs the tasks that this thread has recorded.
#[pyfunction]
pub(crate) fn run_recorded_tasks(py: Python<'_>) -> PyResult<()> {
    run_recorded(py)
}

/// Runs the tasks that this thread has recorded, before something that is none and may use what they write.
#[inline]
pub(crate) fn run_recorded(py: Python<'_>) -> PyResult<()> {
    match recording_tasks(py) {
        Some(tasks) => tasks.call_method0(py, "wait").map(drop),
        None => Ok(()),
    }
}
