//! Reads what DLPack capsules say of their memory: leave to write, and elements of `bfloat16`.
//!
//! DLPack has the type `bfloat16` and NumPy has not, so that such memory goes through NumPy as `uint16` with the
//! capsule's type code exchanged. The structs are those of DLPack 1.0 (`dlpack.h`), as far as they are read here.

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// `DLTensor`.
#[repr(C)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut c_void,
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    pub(crate) ndim: i32,
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct DlManagedTensor {
    major: u32,
    minor: u32,
    manager_context: *mut c_void,
    deleter: *const c_void,
    flags: u64,
    tensor: DlTensor,
}

const READ_ONLY: u64 = 1;
const UNSIGNED_INTEGER: u8 = 1;
const BFLOAT: u8 = 4;

/// Returns true if the capsule is of a DLPack older than 1.0, which has no way to say that memory is read-only.
pub(crate) fn is_unversioned(capsule: &Bound<'_, PyCapsule>) -> bool {
    // Used ones count as well, because whoever gives one capsule again and again gives one that NumPy has
    // used up by now.
    [UNVERSIONED, c"used_dltensor"].into_iter().any(|name| capsule.is_valid_checked(Some(name)))
}

/// Returns true if the capsule's memory may be written; `None` if somebody has consumed the capsule.
pub(crate) fn grants_writing(capsule: &Bound<'_, PyCapsule>) -> PyResult<Option<bool>> {
    if !capsule.is_valid_checked(Some(VERSIONED)) {
        return Ok(None);
    }
    let managed = capsule.pointer_checked(Some(VERSIONED))?.cast::<DlManagedTensor>();
    // SAFETY: a capsule of this name holds such a tensor, and nobody has consumed it.
    let managed = unsafe { managed.as_ref() };
    Ok(Some(managed.major == 1 && managed.flags & READ_ONLY == 0))
}

/// The tensor of a capsule that nobody has consumed.
fn tensor_of(capsule: &Bound<'_, PyAny>) -> PyResult<NonNull<DlTensor>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(if capsule.is_valid_checked(Some(VERSIONED)) {
        let managed = capsule.pointer_checked(Some(VERSIONED))?.cast::<DlManagedTensor>();
        // SAFETY: a capsule of this name holds such a tensor, of which this is a field.
        unsafe { NonNull::new_unchecked(&raw mut (*managed.as_ptr()).tensor) }
    } else if capsule.is_valid_checked(Some(UNVERSIONED)) {
        capsule.pointer_checked(Some(UNVERSIONED))?.cast::<DlTensor>()
    } else {
        return Err(PyValueError::new_err("this DLPack capsule has been used: each stands for one array, once"));
    })
}

/// Replaces the type of a capsule's elements, both of 16 bits; gives whether they were of the type to be replaced.
fn retype(capsule: &Bound<'_, PyAny>, from: u8, to: u8) -> PyResult<bool> {
    let tensor = tensor_of(capsule)?;
    // SAFETY: as above; the GIL is held, and the one who consumes the capsule comes after.
    let tensor = unsafe { &mut *tensor.as_ptr() };
    let is_from = tensor.code == from && tensor.bits == 16 && tensor.lanes == 1;
    if is_from {
        tensor.code = to;
    }
    Ok(is_from)
}

/// Makes a capsule of `bfloat16` one of `uint16`, for NumPy; gives whether it was one.
#[pyfunction]
pub(crate) fn dlpack_bfloat16_as_bits(capsule: &Bound<'_, PyAny>) -> PyResult<bool> {
    retype(capsule, BFLOAT, UNSIGNED_INTEGER)
}

/// Makes a capsule of `uint16`, which NumPy has given, one of `bfloat16`.
#[pyfunction]
pub(crate) fn dlpack_bits_as_bfloat16(capsule: &Bound<'_, PyAny>) -> PyResult<bool> {
    retype(capsule, UNSIGNED_INTEGER, BFLOAT)
}

/// DLPack's numbers of memory of a GPU (`kDLCUDA`), and of managed memory (`kDLCUDAManaged`).
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 13;

/// Makes a capsule that NumPy has given of memory that it takes for the host's one of memory of the GPU of a number.
#[pyfunction]
pub(crate) fn dlpack_on_cuda(capsule: &Bound<'_, PyAny>, number: i32, is_managed: bool) -> PyResult<()> {
    let tensor = tensor_of(capsule)?;
    // SAFETY: a capsule of this name holds such a tensor; the GIL is held, and the one who consumes the capsule comes after.
    let tensor = unsafe { &mut *tensor.as_ptr() };
    tensor.device_type = if is_managed { CUDA_MANAGED } else { CUDA };
    tensor.device_id = number;
    Ok(())
}

/// Describes the tensor of a capsule of memory of a GPU, which keeps the memory until it goes.
///
/// Returns
/// -------
/// tuple
///     Address, extents, strides in elements or None, the number of the element type with its bits, and the GPU's number.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python takes it apart at once")]
pub(crate) fn dlpack_of_cuda(capsule: &Bound<'_, PyAny>) -> PyResult<(u64, Vec<i64>, Option<Vec<i64>>, (u8, u8), i32)> {
    let tensor = tensor_of(capsule)?;
    // SAFETY: a capsule of this name holds such a tensor, and the GIL is held.
    let tensor = unsafe { tensor.as_ref() };
    if !matches!(tensor.device_type, CUDA | CUDA_MANAGED) || tensor.lanes != 1 {
        return Err(PyTypeError::new_err("this DLPack capsule is of no memory of a GPU with plain elements"));
    }
    let n = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: extents and, if they are there, strides are as many as the tensor has dimensions.
    let list = |first: *const i64| (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, n) }.to_vec());
    let address = tensor.data as u64 + tensor.byte_offset;
    let extents = list(tensor.shape).unwrap_or_default();
    Ok((address, extents, list(tensor.strides), (tensor.code, tensor.bits), tensor.device_id))
}

/// Why an object with `__dlpack__` is no argument.
pub(crate) fn unreadable(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let named = PyTypeError::new_err(format!("cannot be read through DLPack as CPU memory: {}", error.value(py)));
    named.set_cause(py, Some(error));
    named
}
