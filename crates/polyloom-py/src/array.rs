//! The native base of `loom.array`: the NumPy array it owns, within reach of a launch without attribute look-ups.

use crate::composite::CompositeType;
use crate::device::DeviceMemory;
use crate::recorded_tasks::run_recorded;
use polyloom::{Composite, DeviceId};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Base class of `polyloom.array`.
///
/// Of an array in a device's memory the NumPy array only says how it lies there: address, extents and strides are the
/// device's. What it points at is not the host's to read, so nothing but views may be made of it.
#[pyclass(subclass, frozen, module = "polyloom._native")]
pub(crate) struct ArrayBase {
    storage: Py<PyAny>,
    /// Whose components the last axes are, in an array of composites.
    element: Option<Composite>,
    /// The memory of a device that the elements are in, unless they are in the host's.
    memory: Option<Py<DeviceMemory>>,
}

#[pymethods]
impl ArrayBase {
    #[new]
    #[pyo3(signature = (storage, element = None, memory = None))]
    fn new(
        storage: Bound<'_, PyAny>,
        element: Option<&Bound<'_, CompositeType>>,
        memory: Option<Py<DeviceMemory>>,
    ) -> PyResult<ArrayBase> {
        // SAFETY: `storage` is a live object.
        if unsafe { numpy::npyffi::PyArray_Check(storage.py(), storage.as_ptr()) } == 0 {
            return Err(PyTypeError::new_err("expected a NumPy array"));
        }
        Ok(ArrayBase { storage: storage.unbind(), element: element.map(|ty| ty.get().inner), memory })
    }

    /// The elements as a NumPy array: one that shares their memory or, of an array on a device, a copy.
    fn _elements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        run_recorded(py)?;
        let storage = self.storage.bind(py);
        match &self.memory {
            None => Ok(storage.clone()),
            Some(memory) => memory.bind(py).get().read(storage),
        }
    }

    /// The NumPy array that says how the elements lie in memory; on a device there is nothing behind it.
    #[getter]
    fn _storage(&self, py: Python<'_>) -> Py<PyAny> {
        self.storage.clone_ref(py)
    }

    /// The device's memory, unless the elements are in the host's.
    #[getter]
    fn _memory(&self, py: Python<'_>) -> Option<Py<DeviceMemory>> {
        self.memory.as_ref().map(|memory| memory.clone_ref(py))
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

    /// The device's memory, unless the elements are in the host's.
    pub(crate) fn memory(&self) -> Option<&Py<DeviceMemory>> {
        self.memory.as_ref()
    }

    /// Returns where the elements are.
    #[inline]
    pub(crate) fn device(&self) -> DeviceId {
        self.memory.as_ref().map_or(DeviceId::Cpu, |memory| memory.get().device())
    }
}
