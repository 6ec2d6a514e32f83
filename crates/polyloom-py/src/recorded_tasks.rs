//! Says whether launches of a thread wait as tasks, to whatever may use what they write.

use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static ARE_RECORDED: Cell<bool> = const { Cell::new(false) };
}

/// Says whether a graph takes the launches of this thread.
pub(crate) fn set_recorded(are_recorded: bool) {
    ARE_RECORDED.set(are_recorded);
}

/// Runs the tasks that this thread has recorded.
#[pyfunction]
pub(crate) fn run_recorded_tasks(py: Python<'_>) -> PyResult<()> {
    run_recorded(py)
}

/// Runs the tasks that this thread has recorded, before something that is none and may use what they write.
#[inline]
pub(crate) fn run_recorded(py: Python<'_>) -> PyResult<()> {
    match ARE_RECORDED.get() {
        true => py.import("polyloom._tasks")?.call_method0("run_recorded").map(drop),
        false => Ok(()),
    }
}
