//! Memory that the host and a device share as Python objects: pinned, registered and managed.

use crate::detached::Detached;
use crate::device::named;
use crate::errors::device_error;
use crate::queue::Queue;
use polyloom::{DeviceFailure, MemoryAdvice, SharedMemory};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// Memory of the host that copies of a device use while the host does something else, or that kernels use too. NumPy sees
/// its bytes.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct HostMemory {
    memory: Detached<Box<dyn SharedMemory>>,
    /// Keeps memory that somebody else has allocated.
    #[expect(dead_code, reason = "it is only to live as long")]
    owner: Option<Py<PyAny>>,
}

impl HostMemory {
    fn made(
        py: Python<'_>,
        owner: Option<Py<PyAny>>,
        make: impl FnOnce() -> Result<Box<dyn SharedMemory>, DeviceFailure> + Send,
    ) -> PyResult<HostMemory> {
        let memory = py.detach(make).map_err(|failure| device_error(py, &failure))?;
        Ok(HostMemory { memory: Detached::new(memory), owner })
    }
}

#[pymethods]
impl HostMemory {
    /// So many pinned bytes.
    #[classmethod]
    fn pinned(_class: &Bound<'_, PyType>, py: Python<'_>, device: &str, n_bytes: usize) -> PyResult<HostMemory> {
        let device = named(device)?;
        HostMemory::made(py, None, || polyloom::device(device)?.pin(n_bytes))
    }

    /// So many bytes that have one address on the host and the device.
    #[classmethod]
    fn managed(_class: &Bound<'_, PyType>, py: Python<'_>, device: &str, n_bytes: usize) -> PyResult<HostMemory> {
        let device = named(device)?;
        HostMemory::made(py, None, || polyloom::device(device)?.allocate_managed(n_bytes))
    }

    /// Pins the memory of a dense array, which `owner` is and keeps.
    #[classmethod]
    fn registered(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        device: &str,
        owner: Bound<'_, PyAny>,
    ) -> PyResult<HostMemory> {
        let device = named(device)?;
        if !owner.getattr("flags")?.getattr("c_contiguous")?.extract::<bool>()? {
            return Err(PyValueError::new_err("memory that is pinned is that of a dense array"));
        }
        let (address, n_bytes) = crate::device::memory_of(&owner)?;
        // SAFETY: the array keeps its memory in place, and this keeps the array.
        let make = move || unsafe { polyloom::device(device)?.register(address as u64, n_bytes) };
        HostMemory::made(py, Some(owner.unbind()), make)
    }

    /// The address of the first byte.
    #[getter]
    fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Its size.
    #[getter]
    fn n_bytes(&self) -> usize {
        self.memory.n_bytes()
    }

    /// Waits until the queues that write it have done so.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.memory.wait()).map_err(|failure| device_error(py, &failure))
    }

    /// Has managed memory come to the device, or to the host, in the order of a queue.
    fn prefetch(&self, py: Python<'_>, queue: &Bound<'_, Queue>, to_host: bool) -> PyResult<()> {
        let queue = &queue.get().queue;
        py.detach(|| self.memory.prefetch(&**queue, to_host)).map_err(|failure| device_error(py, &failure))
    }

    /// Tells how managed memory will be used: "read_mostly", "preferred" or "accessed".
    fn advise(&self, py: Python<'_>, advice: &str, is_set: bool) -> PyResult<()> {
        let advice = match advice {
            "read_mostly" => MemoryAdvice::ReadMostly,
            "preferred" => MemoryAdvice::PreferredHere,
            "accessed" => MemoryAdvice::AccessedHere,
            other => {
                let known = "'read_mostly', 'preferred' or 'accessed'";
                return Err(PyValueError::new_err(format!("advice on memory is {known}, not {other:?}")));
            }
        };
        py.detach(|| self.memory.advise(advice, is_set)).map_err(|failure| device_error(py, &failure))
    }

    /// The bytes, as NumPy sees them.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.memory.n_bytes(),))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.memory.address(), false))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}
