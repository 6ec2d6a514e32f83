//! Devices and their memory as Python objects.

use crate::detached::Detached;
use crate::errors::device_error;
use crate::numpy_array::extents;
use crate::sim_settings;
use crate::waits::warn_of_waits;
use numpy::npyffi;
use polyloom::{
    Arch, ArrayLayout, Device as _, DeviceBuffer, DeviceFailure, DeviceId, SimDevice, UnknownArch, WARP_SIZE,
    cuda_device, cuda_devices, queue,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicU64, Ordering};

/// The device that is used where none is named: 0 for the CPU, 1 for the simulator, 2 and more for GPUs. Every launch
/// reads it.
static DEFAULT: AtomicU64 = AtomicU64::new(0);

/// The device of this name.
///
/// # Errors
///
/// If no device has such a name. Whether there is one is another matter.
pub(crate) fn named(name: &str) -> PyResult<DeviceId> {
    DeviceId::from_name(name).ok_or_else(|| {
        let known = "devices are 'cpu', 'sim:0', the simulator of a GPU, and GPUs: 'cuda:0' and so on";
        PyValueError::new_err(format!("device '{name}' is not available: {known}"))
    })
}

/// The device that is used where none is named.
#[inline]
pub(crate) fn default() -> DeviceId {
    match DEFAULT.load(Ordering::Relaxed) {
        0 => DeviceId::Cpu,
        1 => DeviceId::Simulator,
        number => DeviceId::Cuda((number - 2) as u32),
    }
}

/// Its name.
#[pyfunction]
pub(crate) fn default_device() -> String {
    default().to_string()
}

/// Makes a device the one that is used where none is named.
#[pyfunction]
pub(crate) fn set_default_device(name: &str) -> PyResult<()> {
    let number = match named(name)? {
        DeviceId::Cpu => 0,
        DeviceId::Simulator => 1,
        DeviceId::Cuda(number) => u64::from(number) + 2,
    };
    DEFAULT.store(number, Ordering::Relaxed);
    Ok(())
}

/// The name of a device as it is spelled in full: `cuda:0` for `cuda`.
///
/// # Errors
///
/// `ValueError` if no device has such a name, and `DeviceError` if this machine does not have it.
#[pyfunction]
pub(crate) fn check_device(py: Python<'_>, name: &str) -> PyResult<String> {
    let device = named(name)?;
    if let DeviceId::Cuda(number) = device {
        py.detach(|| cuda_device(number)).map_err(|failure| device_error(py, &failure))?;
    }
    Ok(device.to_string())
}

/// The names of this machine's CUDA devices.
///
/// # Errors
///
/// `DeviceError` if there is no driver, or it fails.
#[pyfunction]
#[pyo3(name = "cuda_devices")]
pub(crate) fn cuda_devices_of_machine(py: Python<'_>) -> PyResult<Vec<String>> {
    let devices = py.detach(cuda_devices).map_err(|failure| device_error(py, &failure))?;
    Ok(devices.into_iter().map(|properties| properties.id).collect())
}

/// Returns true if kernels run on a GPU here.
#[pyfunction]
pub(crate) fn gpu_available(py: Python<'_>) -> bool {
    py.detach(polyloom::gpu_available)
}

/// Describes this build and this machine, as JSON.
#[pyfunction]
pub(crate) fn environment(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(polyloom::environment);
    serde_json::to_string(&found).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// A GPU architecture, without a name the one that the simulator has: its number, and what it has room for.
#[pyfunction]
#[pyo3(signature = (name = None))]
pub(crate) fn architecture<'py>(py: Python<'py>, name: Option<&str>) -> PyResult<(u16, Bound<'py, PyDict>)> {
    let arch: Arch = match name {
        Some(name) => name.parse().map_err(|error: UnknownArch| PyValueError::new_err(error.to_string()))?,
        None => sim_settings::SimSettings::get().arch,
    };
    let limits = arch.limits();
    let found = PyDict::new(py);
    found.set_item("warp_size", WARP_SIZE)?;
    found.set_item("max_threads_per_block", limits.threads_per_block)?;
    found.set_item("max_block_dim", limits.block_dim)?;
    found.set_item("max_grid_dim", limits.grid_dim)?;
    found.set_item("max_static_shared_memory_per_block", limits.static_shared_bytes)?;
    found.set_item("max_shared_memory_per_block", limits.opt_in_shared_bytes)?;
    found.set_item("shared_memory_per_multiprocessor", limits.multiprocessor_shared_bytes)?;
    found.set_item("reserved_shared_memory_per_block", limits.reserved_shared_bytes)?;
    found.set_item("max_threads_per_multiprocessor", limits.threads_per_multiprocessor)?;
    found.set_item("max_blocks_per_multiprocessor", limits.blocks_per_multiprocessor)?;
    found.set_item("registers_per_multiprocessor", limits.registers)?;
    found.set_item("max_registers_per_thread", limits.registers_per_thread)?;
    Ok((arch.number(), found))
}

/// Bytes of a CUDA device's memory that nothing uses.
#[pyfunction]
pub(crate) fn cuda_free_memory(py: Python<'_>, number: u32) -> PyResult<u64> {
    let free = || polyloom::device(DeviceId::Cuda(number))?.free_bytes();
    Ok(py.detach(free).map_err(|failure| device_error(py, &failure))?.unwrap_or(0))
}

/// What a device is and has room for, as JSON.
#[pyfunction]
pub(crate) fn device_properties(py: Python<'_>, name: &str) -> PyResult<String> {
    let properties = match named(name)? {
        DeviceId::Simulator => SimDevice::new(sim_settings::SimSettings::get().arch).properties(),
        device => {
            let found = py.detach(|| polyloom::device(device).map(|device| device.properties()));
            found.map_err(|failure| device_error(py, &failure))?
        }
    };
    serde_json::to_string(&properties).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Waits until a device has done all it was asked for; without a name, all that are in use.
#[pyfunction]
#[pyo3(signature = (name = None))]
pub(crate) fn synchronize(py: Python<'_>, name: Option<&str>) -> PyResult<()> {
    let device = name.map(named).transpose()?;
    py.detach(|| polyloom::synchronize(device)).map_err(|failure| device_error(py, &failure))
}

/// Memory of a device that arrays are in.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct DeviceMemory {
    buffer: Detached<DeviceBuffer>,
    /// Keeps memory that somebody else has allocated; all arrays over it share this object.
    #[expect(dead_code, reason = "it is only to live as long")]
    owner: Option<Py<PyAny>>,
}

#[pymethods]
impl DeviceMemory {
    /// So many bytes of a device's memory; with an address, those that somebody else has allocated there and keeps for
    /// as long as `owner` lives.
    #[new]
    #[pyo3(signature = (device, n_bytes, address = None, owner = None))]
    fn new(
        py: Python<'_>,
        device: &str,
        n_bytes: usize,
        address: Option<u64>,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<DeviceMemory> {
        let device = named(device)?;
        let made = py.detach(|| -> Result<DeviceBuffer, DeviceFailure> {
            let queue = queue(device)?;
            match address {
                None => DeviceBuffer::new(queue, n_bytes),
                // SAFETY: whoever offers memory by an address vouches for it, as Python's array interfaces have it.
                Some(address) => Ok(unsafe { DeviceBuffer::borrowed(queue, address, n_bytes) }),
            }
        });
        Ok(DeviceMemory { buffer: Detached::new(made.map_err(|failure| device_error(py, &failure))?), owner })
    }

    /// The name of the device.
    #[getter(device)]
    fn device_name(&self) -> String {
        self.device().to_string()
    }

    /// Returns where it begins on the device.
    #[getter]
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Returns the number of bytes there are.
    #[getter]
    fn n_bytes(&self) -> usize {
        self.buffer.n_bytes()
    }

    /// The elements of an array in this memory, which `layout` describes, as a NumPy array of the host's.
    pub(crate) fn read<'py>(&self, layout: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = layout.py();
        let array = layout_of(layout)?;
        let made = py.import("numpy")?.call_method1("empty", (layout.getattr("shape")?, layout.getattr("dtype")?))?;
        let (address, n_bytes) = memory_of(&made)?;
        py.detach(|| {
            // SAFETY: NumPy has just made the array, dense, of the shape and type whose bytes these are, and nobody
            // else knows it.
            let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, n_bytes) };
            self.buffer.read(&array, bytes)
        })
        .map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)?;
        Ok(made)
    }

    /// Copies the elements of an array in this memory to the place in memory of the host that the device shares, where
    /// they follow each other, and may return before. Gives false, and does nothing, if they do not follow each other here.
    fn read_later(&self, layout: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = layout.py();
        let array = layout_of(layout)?;
        let (address, _) = memory_of(to)?;
        // SAFETY: Python's side gives an array over shared memory of the same size, whose queues are remembered until it goes.
        let done = py.detach(|| unsafe { self.buffer.read_later(&array, address as *mut u8) });
        let done = done.map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)?;
        Ok(done)
    }

    /// Copies the elements of a dense array in memory of the host that the device shares to those of an array in this
    /// memory, of the same shape and type, and may return before.
    fn write_later(&self, layout: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = layout.py();
        let array = layout_of(layout)?;
        let (address, _) = memory_of(values)?;
        // SAFETY: as in `read_later`.
        let done = py.detach(|| unsafe { self.buffer.write_later(&array, address as *const u8) });
        done.map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)
    }

    /// Copies the elements of a dense NumPy array to those of an array in this memory, of the same shape and type.
    fn write(&self, layout: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = layout.py();
        let array = layout_of(layout)?;
        if !values.getattr("flags")?.getattr("c_contiguous")?.extract::<bool>()? {
            return Err(PyValueError::new_err("values that are copied to a device are dense"));
        }
        let (address, n_bytes) = memory_of(values)?;
        py.detach(|| {
            // SAFETY: the caller holds the array, which is dense and has so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, n_bytes) };
            self.buffer.write(&array, bytes)
        })
        .map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)
    }

    /// Sets each element of an array in this memory, which `layout` describes, to the one that a dense NumPy array
    /// holds.
    fn fill(&self, layout: &Bound<'_, PyAny>, element: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = layout.py();
        let array = layout_of(layout)?;
        let element: Vec<u8> = element.call_method0("tobytes")?.extract()?;
        py.detach(|| self.buffer.fill(&array, &element)).map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)
    }

    /// Has the current stream wait for those that use this memory.
    fn begin_use(&self, py: Python<'_>, is_written: bool) -> PyResult<()> {
        py.detach(|| self.buffer.begin_use(is_written)).map_err(|failure| device_error(py, &failure))
    }

    /// Sets all bytes to 0.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.buffer.clear()).map_err(|failure| device_error(py, &failure))
    }

    /// Copies the elements of an array in `other`, memory on the same device, to those of one in this, of the same
    /// shape and type.
    fn copy_from(
        &self,
        layout: &Bound<'_, PyAny>,
        other: &Bound<'_, DeviceMemory>,
        from: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, other) = (layout.py(), &other.get().buffer);
        let (to, from) = (layout_of(layout)?, layout_of(from)?);
        py.detach(|| self.buffer.copy_from(&to, other, &from)).map_err(|failure| device_error(py, &failure))?;
        warn_of_waits(py)
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes at 0x{:x} of {}>", self.buffer.n_bytes(), self.buffer.address(), self.device())
    }
}

impl DeviceMemory {
    /// Allocates so many bytes of a device's memory.
    pub(crate) fn allocate(py: Python<'_>, device: DeviceId, n_bytes: usize) -> PyResult<DeviceMemory> {
        let made = py.detach(|| DeviceBuffer::new(queue(device)?, n_bytes));
        Ok(DeviceMemory { buffer: Detached::new(made.map_err(|failure| device_error(py, &failure))?), owner: None })
    }

    #[inline]
    pub(crate) fn device(&self) -> DeviceId {
        self.buffer.device()
    }
}

/// Sets the elements of a dense NumPy array that may be written to zero, by all threads that launches may use.
#[pyfunction]
pub(crate) fn clear_memory(array: &Bound<'_, PyAny>) -> PyResult<()> {
    let flags = array.getattr("flags")?;
    if !flags.getattr("c_contiguous")?.extract::<bool>()? || !flags.getattr("writeable")?.extract::<bool>()? {
        return Err(PyValueError::new_err("memory that is cleared is that of a dense array that may be written"));
    }
    let (address, n_bytes) = memory_of(array)?;
    // SAFETY: the caller holds the array, which is dense and has so many bytes.
    array.py().detach(|| unsafe { polyloom::clear_memory(address, n_bytes) });
    Ok(())
}

/// The lowest address of a NumPy array's elements, and how many bytes there are from there to the end of the last; of
/// none, 0 and 0. The array itself is not looked into.
#[pyfunction]
pub(crate) fn span(array: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let (address, _) = memory_of(array)?;
    let itemsize: isize = array.getattr("itemsize")?.extract()?;
    // SAFETY: `memory_of` has seen that it is an array, which has as many strides as extents.
    let (extents, strides) = unsafe {
        let fields = &(*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields;
        let extents = extents(fields);
        (extents, if extents.is_empty() { &[] } else { std::slice::from_raw_parts(fields.strides, extents.len()) })
    };
    let (mut before, mut behind) = (0, itemsize);
    for (&extent, &stride) in extents.iter().zip(strides) {
        if extent == 0 {
            return Ok((0, 0));
        }
        let reach = stride * (extent - 1);
        before += reach.min(0);
        behind += reach.max(0);
    }
    Ok((address.wrapping_add_signed(before), (behind - before) as usize))
}

/// Address and size of what a NumPy array's elements take.
pub(crate) fn memory_of(array: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    // SAFETY: `array` is a live object.
    if unsafe { npyffi::PyArray_Check(array.py(), array.as_ptr()) } == 0 {
        return Err(PyTypeError::new_err("expected a NumPy array"));
    }
    // SAFETY: it is an array.
    let address = unsafe { (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.data } as usize;
    Ok((address, array.getattr("nbytes")?.extract()?))
}

/// Returns where a NumPy array says that its elements are.
pub(crate) fn layout_of(array: &Bound<'_, PyAny>) -> PyResult<ArrayLayout> {
    let (address, _) = memory_of(array)?;
    let (extents, strides): (Vec<u64>, Vec<i64>) =
        (array.getattr("shape")?.extract()?, array.getattr("strides")?.extract()?);
    Ok(ArrayLayout {
        base: address as u64,
        elem_bytes: array.getattr("itemsize")?.extract()?,
        extents: extents.into(),
        strides: strides.into(),
    })
}
