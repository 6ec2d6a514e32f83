//! Warns of waits that arrays make necessary, while kernels are checked.

use crate::config::is_checking;
use pyo3::prelude::*;

/// Warns of the waits of this thread since the last call.
#[inline]
pub(crate) fn warn_of_waits(py: Python<'_>) -> PyResult<()> {
    if !is_checking() {
        return Ok(());
    }
    for wait in polyloom::take_waits() {
        py.import("polyloom._errors")?.call_method1("warn_of_wait", (wait,))?;
    }
    Ok(())
}
