//! The native base of `loom.array`: the NumPy array it owns, within reach of a launch without attribute look-ups.

use crate::composite::CompositeType;
use polyloom::Composite;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Base class of `polyloom.array`.
#[pyclass(subclass, frozen, module = "polyloom._native")]
pub(crate) struct ArrayBase {
    storage: Py<PyAny>,
    /// Whose components the last axes are, in an array of composites.
    element: Option<Composite>,
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (storage, element = None))]
    fn new(storage: Bound<'_, PyAny>, element: Option<&Bound<'_, CompositeType>>) -> PyResult<ArrayBase> {
        // SAFETY: `storage` is a live object.
        if unsafe { numpy::npyffi::PyArray_Check(storage.py(), storage.as_ptr()) } == 0 {
            return Err(PyTypeError::new_err("expected a NumPy array"));
        }
        Ok(ArrayBase { storage: storage.unbind(), element: element.map(|ty| ty.get().inner) })
    }

    /// The elements as a NumPy array that shares their memory.
    fn numpy(&self, py: Python<'_>) -> Py<PyAny> {
        self.storage.clone_ref(py)
    }
}

impl ArrayBase {
    /// The NumPy array, borrowed.
    pub(crate) fn object(&self) -> *mut ffi::PyObject {
        self.storage.as_ptr()
    }

    /// Whose components the last axes are.
    #[inline]
    pub(crate) fn element(&self) -> Option<Composite> {
        self.element
    }
}
