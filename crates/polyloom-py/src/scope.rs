//! The objects of a live Python program that a function may look up when it is compiled.

use crate::function::Function;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

/// The objects of the program that a function may look up when it is compiled.
///
/// Whoever compiles the function owns its scope, a Python object, so that Python's garbage collection sees the cycles that
/// go through it: a module's names mean functions, whose scopes are the module's names. Each function has one of its own:
/// a reference that several would visit would be counted several times.
#[pyclass(frozen, weakref, module = "polyloom._native")]
pub(crate) struct Scope {
    pub(crate) globals: Py<PyDict>,
    /// The values of closure variables; of those that are not set yet, the cells themselves.
    pub(crate) cells: Py<PyDict>,
    /// The objects that static expressions computed later see.
    pub(crate) objects: Py<PyDict>,
    /// Functions that names meant when the function was defined, whose own scopes live as long.
    pub(crate) functions: Vec<Py<Function>>,
}

#[pymethods]
impl Scope {
    // There is no `__clear__`, because a cycle goes through a dictionary, which has one.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.globals)?;
        visit.call(&self.cells)?;
        visit.call(&self.objects)?;
        self.functions.iter().try_for_each(|function| visit.call(function))
    }
}
