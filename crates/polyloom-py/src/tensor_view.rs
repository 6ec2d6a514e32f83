//! Views of the arguments of ops: read once and compared with the keys of plans, without making a Python object.

use crate::array::ArrayBase;
use crate::torch_tensor;
use numpy::npyffi;
use polyloom::DeviceId;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

/// The package that a tensor is of, which results are of too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum TensorPackage {
    NumPy,
    Polyloom,
    Torch,
}

/// An argument as a call sees it.
pub(crate) enum TensorView<'a> {
    /// A tensor.
    Tensor(TensorFields<'a>),
    /// A Python `float`.
    Float(f64),
    /// A Python `int` of 64 bits.
    Int(i64),
    /// Any other object.
    Other,
}

/// Says where a tensor's elements lie, and of which type they are.
pub(crate) struct TensorFields<'a> {
    pub(crate) package: TensorPackage,
    /// The device in whose memory they are.
    pub(crate) device: DeviceId,
    /// The number of the element type: NumPy's, or that of DLPack.
    pub(crate) type_number: i32,
    /// True if elements are in this machine's byte order, at addresses that are multiples of their size.
    pub(crate) is_plain: bool,
    /// The address of the element whose indices are all 0.
    pub(crate) address: usize,
    pub(crate) extents: &'a [i64],
    /// In bytes, of NumPy's arrays; in elements of others.
    pub(crate) strides: &'a [i64],
}

/// Reads an argument. What is made on the way and has to live as long is put into `held`.
///
/// # Safety
///
/// `arg` is a live object, and stays so during `'a`, in which no Python code runs and the GIL is held.
#[inline]
pub(crate) unsafe fn view_of<'a>(
    py: Python<'_>,
    arg: *mut ffi::PyObject,
    held: &mut smallvec::SmallVec<[Py<PyAny>; 4]>,
) -> TensorView<'a> {
    // SAFETY: passed on to the caller.
    unsafe {
        if npyffi::PyArray_CheckExact(py, arg) != 0 {
            return TensorView::Tensor(fields_of(arg.cast(), TensorPackage::NumPy, DeviceId::Cpu));
        }
        if ffi::PyFloat_CheckExact(arg) != 0 {
            return TensorView::Float(ffi::PyFloat_AsDouble(arg));
        }
        if ffi::PyLong_CheckExact(arg) != 0 {
            let mut overflow: c_int = 0;
            let value = ffi::PyLong_AsLongLongAndOverflow(arg, &raw mut overflow);
            return if overflow == 0 { TensorView::Int(value) } else { TensorView::Other };
        }
        let object = Borrowed::from_ptr(py, arg);
        if let Ok(array) = object.cast::<ArrayBase>() {
            let array = array.get();
            if array.element().is_some() {
                return TensorView::Other;
            }
            return TensorView::Tensor(fields_of(array.object().cast(), TensorPackage::Polyloom, array.device()));
        }
        if torch_tensor::is_tensor(&object) {
            return torch_tensor::view_of(&object, held);
        }
        TensorView::Other
    }
}

/// Reads a NumPy array, which says how elements lie in the memory of a device.
///
/// # Safety
///
/// As [`view_of`].
#[inline]
unsafe fn fields_of<'a>(
    array: *mut npyffi::PyArrayObject,
    package: TensorPackage,
    device: DeviceId,
) -> TensorFields<'a> {
    // SAFETY: a live array's fields and descriptor are valid, and extents and strides are as many as it says.
    unsafe {
        let array = &(*array).fields;
        let [extents, strides] = match usize::try_from(array.nd) {
            Ok(n @ 1..) => {
                [array.dimensions, array.strides].map(|first| std::slice::from_raw_parts(first.cast::<i64>(), n))
            }
            _ => [&[][..]; 2],
        };
        let descr = &(*array.descr).fields;
        let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        TensorFields {
            package,
            device,
            type_number: descr.type_num,
            is_plain: array.flags & npyffi::NPY_ARRAY_ALIGNED != 0 && descr.byteorder as u8 != foreign,
            address: array.data as usize,
            extents,
            strides,
        }
    }
}
