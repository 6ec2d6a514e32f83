//! Says where the elements of an array are, as gradients see them: tapes make several of these for each array of a launch.

use crate::device::{DeviceMemory, memory_of, span};
use numpy::npyffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

/// Base class of `polyloom._views.View`.
///
/// Parameters
/// ----------
/// storage : numpy.ndarray
///     The array, which says how the elements lie; on a device there is nothing behind it.
/// memory : DeviceMemory, optional
///     The memory of a device that they are in.
#[pyclass(subclass, frozen, module = "polyloom._native")]
pub(crate) struct ViewBase {
    #[pyo3(get)]
    storage: Py<PyAny>,
    #[pyo3(get)]
    memory: Option<Py<DeviceMemory>>,
    /// The address of the first byte.
    #[pyo3(get)]
    lo: usize,
    /// The address past the last byte.
    #[pyo3(get)]
    hi: usize,
    key: PyOnceLock<Py<PyTuple>>,
}

#[pymethods]
impl ViewBase {
    #[new]
    #[pyo3(signature = (storage, memory = None))]
    fn new(storage: Bound<'_, PyAny>, memory: Option<Py<DeviceMemory>>) -> PyResult<ViewBase> {
        let (lo, n_bytes) = span(&storage)?;
        Ok(ViewBase { storage: storage.unbind(), memory, lo, hi: lo + n_bytes, key: PyOnceLock::new() })
    }

    /// The name of the device.
    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match &self.memory {
            None => intern!(py, "cpu").clone(),
            Some(memory) => PyString::new(py, &memory.get().device().to_string()),
        }
    }

    /// Returns what two views of the same elements have in common: device, address, extents, strides and type.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let key = self.key.get_or_try_init(py, || {
            let storage = self.storage.bind(py);
            let (shape, strides) = (storage.getattr(intern!(py, "shape"))?, storage.getattr(intern!(py, "strides"))?);
            let name = storage.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "str"))?;
            Ok::<_, PyErr>((self.device(py), self.lo, shape, strides, name).into_pyobject(py)?.unbind())
        })?;
        Ok(key.bind(py).clone())
    }

    /// True if there are derivatives with respect to the elements.
    #[getter]
    fn is_float(&self, py: Python<'_>) -> PyResult<bool> {
        // SAFETY: `new` has seen that it is an array, whose descriptor is valid.
        let kind = unsafe {
            let array = self.storage.as_ptr().cast::<npyffi::PyArrayObject>();
            (*(*array).fields.descr).fields.kind as u8
        };
        match kind {
            b'f' => Ok(true),
            b'b' | b'i' | b'u' | b'c' => Ok(false),
            // Structs, and types that are not NumPy's own.
            _ => {
                let dtype = self.storage.bind(py).getattr(intern!(py, "dtype"))?;
                py.import("polyloom._memory")?.call_method1("is_float", (dtype,))?.extract()
            }
        }
    }

    /// True if the memory from the first to the last element has some of the other's.
    fn touches(&self, other: &Bound<'_, ViewBase>) -> bool {
        self.meets(other.get())
    }
}

impl ViewBase {
    /// [`ViewBase::touches`].
    pub(crate) fn meets(&self, other: &ViewBase) -> bool {
        self.lo < other.hi && other.lo < self.hi
    }
}

/// The address of the element of a NumPy array with all indices 0.
#[pyfunction]
pub(crate) fn address_of(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(memory_of(array)?.0)
}
