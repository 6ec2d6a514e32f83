//! Calls of native functions with plain arguments: Python's own numbers, and dense arrays of NumPy that do not overlap.
//!
//! Their words go into a block on the stack. Whatever else an argument is, right or wrong, is left to the way that all
//! arguments go, before anything has run.

use crate::numpy_array::has_type;
use numpy::npyffi;
use polyloom::{NativeFunction, Scalar, Type};
use pyo3::ffi;
use pyo3::prelude::*;
use smallvec::SmallVec;

/// Most words of a block.
const MAX_WORDS: usize = 48;
/// Most arrays whose overlaps are looked for.
const MAX_ARRAYS: usize = 8;

/// A parameter that plain arguments fit.
#[derive(Clone, Copy)]
enum PlainParam {
    Number(Scalar),
    Array { elem: Scalar, ndim: u8, is_written: bool },
}

/// The parameters and the result of a function that plain arguments fit.
pub(crate) struct PlainSignature {
    params: Box<[PlainParam]>,
    result: Option<Scalar>,
}

/// The memory of an array, and whether the function may write it.
#[derive(Clone, Copy)]
struct ArraySpan {
    begin: u64,
    end: u64,
    is_written: bool,
}

/// Numbers that have plain objects of Python.
fn is_plain_number(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::I32 | Scalar::I64 | Scalar::F32 | Scalar::F64)
}

impl PlainSignature {
    /// The signature of a function; `None` if some argument or result of it is never plain.
    pub(crate) fn of(function: &NativeFunction) -> Option<PlainSignature> {
        let signature = function.signature();
        let result = match signature.results[..] {
            [] => None,
            [Type::Scalar(scalar)] if is_plain_number(scalar) => Some(scalar),
            _ => return None,
        };
        if signature.launch_rank != 0 || function.kernel().has_structs() {
            return None;
        }
        let plain = signature.params.iter().map(|param| match param.ty {
            Type::Scalar(scalar) if is_plain_number(scalar) => Some(PlainParam::Number(scalar)),
            Type::Array { elem, ndim, .. } => Some(PlainParam::Array { elem, ndim, is_written: param.is_written }),
            _ => None,
        });
        let params: Box<[PlainParam]> = plain.collect::<Option<_>>()?;
        let words = |param: &PlainParam| match param {
            PlainParam::Number(_) => 1,
            PlainParam::Array { ndim, .. } => 1 + 2 * usize::from(*ndim),
        };
        let n_arrays = params.iter().filter(|param| matches!(param, PlainParam::Array { .. })).count();
        let fits = params.iter().map(words).sum::<usize>() + 3 <= MAX_WORDS && n_arrays <= MAX_ARRAYS;
        fits.then_some(PlainSignature { params, result })
    }

    /// Calls the function; `None` if some argument is not plain, or an access would be outside of an array: then nothing
    /// has run.
    ///
    /// # Errors
    ///
    /// The status, if that is not 0.
    ///
    /// # Safety
    ///
    /// The caller holds the objects and the GIL.
    #[inline]
    pub(crate) unsafe fn call(
        &self,
        py: Python<'_>,
        function: &NativeFunction,
        args: &[*mut ffi::PyObject],
    ) -> Option<Result<Py<PyAny>, i32>> {
        if args.len() != self.params.len() {
            return None;
        }
        let mut words: SmallVec<[u64; MAX_WORDS]> = SmallVec::new();
        let mut spans: SmallVec<[ArraySpan; MAX_ARRAYS]> = SmallVec::new();
        for (&arg, param) in args.iter().zip(&self.params) {
            match *param {
                // SAFETY: the caller holds the object.
                PlainParam::Number(scalar) => words.push(unsafe { number_bits(arg, scalar) }?),
                PlainParam::Array { elem, ndim, is_written } => {
                    // SAFETY: as above.
                    spans.push(unsafe { push_array(py, arg, (elem, ndim, is_written), &mut words) }?);
                }
            }
        }
        let meets = |a: &ArraySpan, b: &ArraySpan| (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end;
        if spans.iter().enumerate().any(|(index, a)| spans[..index].iter().any(|b| meets(a, b))) {
            return None;
        }
        let mut result = 0u64;
        if let Some(scalar) = self.result {
            words.extend_from_slice(&[&raw mut result as u64, 1, scalar.bytes().into()]);
        }
        // SAFETY: the block is complete: each argument was checked against its parameter, and the caller holds it.
        let status = unsafe { function.try_words(&words) }?;
        if status != 0 {
            return Some(Err(status));
        }
        let Some(scalar) = self.result else { return Some(Ok(py.None())) };
        // SAFETY: the caller holds the GIL. The function has stored its result.
        let object = unsafe {
            let bits = (&raw const result).read_volatile();
            match scalar {
                Scalar::I32 => ffi::PyLong_FromLongLong((bits as i32).into()),
                Scalar::I64 => ffi::PyLong_FromLongLong(bits as i64),
                Scalar::F32 => ffi::PyFloat_FromDouble(f32::from_bits(bits as u32).into()),
                _ => ffi::PyFloat_FromDouble(f64::from_bits(bits)),
            }
        };
        // SAFETY: Python has made the object, or has no memory for it.
        unsafe { Bound::from_owned_ptr_or_opt(py, object) }.map(|object| Ok(object.unbind()))
    }
}

/// The bits of a plain number; `None` for what is none, or does not fit.
///
/// # Safety
///
/// The caller holds the object and the GIL.
#[inline]
unsafe fn number_bits(arg: *mut ffi::PyObject, scalar: Scalar) -> Option<u64> {
    // SAFETY: the object is alive, and is a number of the type that is asked for.
    unsafe {
        match scalar {
            Scalar::F32 | Scalar::F64 => {
                if ffi::PyFloat_CheckExact(arg) == 0 {
                    return None;
                }
                let value = ffi::PyFloat_AsDouble(arg);
                if scalar == Scalar::F64 {
                    return Some(value.to_bits());
                }
                let narrow = value as f32;
                (narrow.is_finite() || !value.is_finite()).then(|| narrow.to_bits().into())
            }
            _ => {
                if ffi::PyLong_CheckExact(arg) == 0 {
                    return None;
                }
                let mut overflow = 0;
                let value = ffi::PyLong_AsLongLongAndOverflow(arg, &raw mut overflow);
                if overflow != 0 {
                    return None;
                }
                match scalar {
                    Scalar::I64 => Some(value as u64),
                    _ => i32::try_from(value).ok().map(|value| value.cast_unsigned().into()),
                }
            }
        }
    }
}

/// Appends the words of a plain array; `None` for what is none.
///
/// # Safety
///
/// The caller holds the object and the GIL.
#[inline]
unsafe fn push_array(
    py: Python<'_>,
    arg: *mut ffi::PyObject,
    (elem, ndim, is_written): (Scalar, u8, bool),
    words: &mut SmallVec<[u64; MAX_WORDS]>,
) -> Option<ArraySpan> {
    // SAFETY: the object is alive, and is an array of NumPy where its fields are read.
    unsafe {
        if npyffi::PyArray_CheckExact(py, arg) == 0 {
            return None;
        }
        let array = &(*arg.cast::<npyffi::PyArrayObject>()).fields;
        let mut wanted = npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_ALIGNED;
        if is_written {
            wanted |= npyffi::NPY_ARRAY_WRITEABLE;
        }
        if array.nd != i32::from(ndim) || array.flags & wanted != wanted || !has_type(&*array.descr, elem) {
            return None;
        }
        let extents = std::slice::from_raw_parts(array.dimensions.cast::<u64>(), ndim.into());
        let strides = std::slice::from_raw_parts(array.strides.cast::<u64>(), ndim.into());
        let mut bytes = u64::from(elem.bytes());
        words.push(array.data as u64);
        for &extent in extents {
            if extent > i32::MAX as u64 {
                return None;
            }
            bytes = bytes.checked_mul(extent)?;
            words.push(extent);
        }
        words.extend_from_slice(strides);
        let begin = array.data as u64;
        Some(ArraySpan { begin, end: begin + bytes, is_written })
    }
}
