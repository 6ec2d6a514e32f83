//! The memory of results: NumPy arrays over buffers of the pool, which get it back when the array dies.

use crate::device::DeviceMemory;
use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use polyloom::{DeviceId, PoolBuffer, Scalar, buffer_pool};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Results of fewer bytes are NumPy's own memory, which it keeps at hand itself.
const LEAST_POOLED_BYTES: u64 = 32 << 10;

/// Says what NumPy's array keeps alive: a buffer of the pool.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct PoolMemory {
    buffer: PoolBuffer,
}

#[pymethods]
impl PoolMemory {
    /// The bytes that the buffer takes of the pool.
    #[getter]
    fn n_bytes(&self) -> u64 {
        self.buffer.n_bytes()
    }
}

/// Says how an array is made: its element type, extents, and bytes.
pub(crate) struct ArrayForm {
    /// NumPy's element type.
    pub(crate) descr: Py<PyAny>,
    pub(crate) extents: smallvec::SmallVec<[npy_intp; 4]>,
    /// In bytes; none of a dense array.
    pub(crate) strides: Option<smallvec::SmallVec<[npy_intp; 4]>>,
    pub(crate) n_bytes: u64,
}

/// NumPy's element type for a scalar type.
pub(crate) fn descr_of(py: Python<'_>, dtype: Scalar) -> PyResult<Py<PyAny>> {
    let class = py.import("polyloom._scalars")?.getattr("_BY_NAME")?.get_item(dtype.python_name())?;
    Ok(class.getattr("numpy")?.unbind())
}

/// Makes a dense array, whose elements are whatever its memory holds; gives its address too.
///
/// # Errors
///
/// `MemoryError`.
#[inline]
pub(crate) fn new_array<'py>(py: Python<'py>, form: &ArrayForm) -> PyResult<(Bound<'py, PyAny>, usize)> {
    if form.n_bytes < LEAST_POOLED_BYTES {
        let array = make(py, form, null_mut(), 0)?;
        // SAFETY: it is an array.
        let address = unsafe { (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.data as usize };
        return Ok((array, address));
    }
    let no_memory = || PyMemoryError::new_err(format!("there is no memory for a result of {} bytes", form.n_bytes));
    let buffer = buffer_pool().take(form.n_bytes).ok_or_else(no_memory)?;
    let address = buffer.address();
    let memory = Bound::new(py, PoolMemory { buffer })?;
    let array = make(py, form, address.cast(), npyffi::NPY_ARRAY_CARRAY)?;
    set_base(py, &array, memory.into_any())?;
    Ok((array, address as usize))
}

/// Makes the NumPy array that says how a dense array lies in new memory of a device; gives the memory too.
///
/// # Errors
///
/// `DeviceError` if the device has no memory left.
pub(crate) fn new_device_array<'py>(
    py: Python<'py>,
    device: DeviceId,
    form: &ArrayForm,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, DeviceMemory>)> {
    let memory = Bound::new(py, DeviceMemory::allocate(py, device, form.n_bytes as usize)?)?;
    let address = memory.get().address() as *mut c_void;
    let array = make(py, form, address, npyffi::NPY_ARRAY_CARRAY)?;
    // Without elements there is no address, and NumPy has made memory of its own.
    if !address.is_null() {
        set_base(py, &array, memory.clone().into_any())?;
    }
    Ok((array, memory))
}

/// An uninitialised dense array in memory of the pool, for results of kernels.
#[pyfunction]
pub(crate) fn new_result<'py>(
    py: Python<'py>,
    shape: Vec<npy_intp>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let item: u64 = dtype.getattr("itemsize")?.extract()?;
    let n_bytes = shape.iter().try_fold(item, |n, &extent| n.checked_mul(u64::try_from(extent).ok()?));
    let n_bytes = n_bytes.ok_or_else(|| PyValueError::new_err(format!("{shape:?} is no shape of an array")))?;
    let form = ArrayForm { descr: dtype.clone().unbind(), extents: shape.into(), strides: None, n_bytes };
    new_array(py, &form).map(|(array, _)| array)
}

/// Makes an array over memory that `base` keeps alive.
pub(crate) fn view_of<'py>(
    form: &ArrayForm,
    address: usize,
    is_writable: bool,
    base: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = base.py();
    let flags = if is_writable { npyffi::NPY_ARRAY_WRITEABLE } else { 0 };
    let array = make(py, form, address as *mut c_void, flags)?;
    set_base(py, &array, base)?;
    Ok(array)
}

#[inline]
fn make<'py>(py: Python<'py>, form: &ArrayForm, data: *mut c_void, flags: c_int) -> PyResult<Bound<'py, PyAny>> {
    let strides = form.strides.as_ref().map_or(null_mut(), |strides| strides.as_ptr().cast_mut());
    // SAFETY: the element type is a live descriptor, of which NumPy takes a reference, and extents and strides are as
    // many as it is told; it reads both alone.
    unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type);
        let descr = form.descr.clone_ref(py).into_ptr();
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr.cast(),
            form.extents.len() as c_int,
            form.extents.as_ptr().cast_mut(),
            strides,
            data,
            flags,
            null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)
    }
}

fn set_base<'py>(py: Python<'py>, array: &Bound<'py, PyAny>, base: Bound<'py, PyAny>) -> PyResult<()> {
    // SAFETY: `array` is an array without a base, and NumPy takes the reference.
    let status = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) };
    if status < 0 { Err(PyErr::fetch(py)) } else { Ok(()) }
}

/// The figures of the pool of memory for results and temporaries on the host.
#[pyfunction]
pub(crate) fn memory_report(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let report = buffer_pool().report();
    let figures = PyDict::new(py);
    figures.set_item("limit", report.limit)?;
    figures.set_item("idle", report.idle)?;
    figures.set_item("used", report.used)?;
    figures.set_item("peak", report.peak)?;
    figures.set_item("n_allocated", report.n_allocated)?;
    figures.set_item("n_reused", report.n_reused)?;
    Ok(figures)
}

/// Gives idle memory of that pool back to the system.
#[pyfunction]
pub(crate) fn release_memory(py: Python<'_>) {
    py.detach(|| buffer_pool().release());
}
