//! Calls of native functions with plain arguments: Python's own numbers, and dense arrays of NumPy that do not overlap.
//!
//! Their words go into a block on the stack. Whatever else an argument is, right or wrong, is left to the way that all
//! arguments go, before anything has run.

use crate::numpy_array::has_type;
use numpy::npyffi;
use polyloom::{NativeFunction, Scalar, Type};
use pyo3::ffi;
use pyo3::prelude::*;
use std::mem::MaybeUninit;

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

/// Tells what a call with plain arguments came to.
pub(crate) enum PlainCall {
    /// The function's value, or `None`: a new reference, or null if Python has no memory for it.
    Value(*mut ffi::PyObject),
    /// The status of a failed check.
    Failed(i32),
}

/// The words of a block while they are filled in. They stay where they are: moving them would take longer than the call.
struct PlainWords {
    words: [MaybeUninit<u64>; MAX_WORDS],
    len: usize,
}

impl PlainWords {
    #[inline]
    fn push(&mut self, word: u64) {
        self.words[self.len].write(word);
        self.len += 1;
    }

    #[inline]
    fn as_slice(&self) -> &[u64] {
        // SAFETY: the first `len` words have been written.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

/// Numbers that have plain objects of Python.
fn is_plain_number(scalar: Scalar) -> bool {
    !scalar.is_half()
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
    /// has run. No code of Python's runs, and nothing is raised.
    ///
    /// # Safety
    ///
    /// The caller holds the objects and the GIL.
    #[inline]
    pub(crate) unsafe fn call(&self, function: &NativeFunction, args: &[*mut ffi::PyObject]) -> Option<PlainCall> {
        if args.len() != self.params.len() {
            return None;
        }
        let mut words = PlainWords { words: [MaybeUninit::uninit(); MAX_WORDS], len: 0 };
        let mut spans: [MaybeUninit<ArraySpan>; MAX_ARRAYS] = [MaybeUninit::uninit(); MAX_ARRAYS];
        let mut n_spans = 0;
        for (&arg, param) in args.iter().zip(&self.params) {
            match *param {
                // SAFETY: the caller holds the object.
                PlainParam::Number(scalar) => words.push(unsafe { number_bits(arg, scalar) }?),
                PlainParam::Array { elem, ndim, is_written } => {
                    // SAFETY: as above.
                    let span = unsafe { push_array(arg, (elem, ndim, is_written), &mut words) }?;
                    // SAFETY: the spans before this one have been written.
                    let before: &[ArraySpan] = unsafe { std::slice::from_raw_parts(spans.as_ptr().cast(), n_spans) };
                    if before.iter().any(|other| span.meets(other)) {
                        return None;
                    }
                    spans[n_spans].write(span);
                    n_spans += 1;
                }
            }
        }
        let mut result = 0u64;
        if let Some(scalar) = self.result {
            [&raw mut result as u64, 1, scalar.bytes().into()].into_iter().for_each(|word| words.push(word));
        }
        // SAFETY: the block is complete: each argument was checked against its parameter, and the caller holds it.
        let status = unsafe { function.try_words(words.as_slice()) }?;
        if status != 0 {
            return Some(PlainCall::Failed(status));
        }
        // SAFETY: the caller holds the GIL. The function has stored its result.
        Some(PlainCall::Value(unsafe {
            match self.result {
                None => ffi::Py_NewRef(ffi::Py_None()),
                Some(scalar) => plain_object((&raw const result).read_volatile(), scalar),
            }
        }))
    }
}

impl ArraySpan {
    /// True if one of two arrays may be written and both have an element in the same memory.
    #[inline]
    fn meets(&self, other: &ArraySpan) -> bool {
        (self.is_written || other.is_written) && self.begin < other.end && other.begin < self.end
    }
}

/// A number as an object of Python's own: a new reference, or null if there is no memory for it. The number is in the
/// lowest bytes.
///
/// # Safety
///
/// The caller holds the GIL.
#[inline]
unsafe fn plain_object(bits: u64, scalar: Scalar) -> *mut ffi::PyObject {
    let unused = 64 - 8 * scalar.bytes();
    // SAFETY: the caller's promise.
    unsafe {
        match scalar {
            Scalar::F32 => ffi::PyFloat_FromDouble(f32::from_bits(bits as u32).into()),
            Scalar::F64 => ffi::PyFloat_FromDouble(f64::from_bits(bits)),
            Scalar::Bool => ffi::PyBool_FromLong((bits & 1) as _),
            scalar if scalar.is_signed_int() => ffi::PyLong_FromLongLong((bits << unused) as i64 >> unused),
            _ => ffi::PyLong_FromUnsignedLongLong(bits << unused >> unused),
        }
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
            Scalar::Bool => match arg {
                arg if arg == ffi::Py_True() => Some(1),
                arg if arg == ffi::Py_False() => Some(0),
                _ => None,
            },
            _ => {
                if ffi::PyLong_CheckExact(arg) == 0 {
                    return None;
                }
                let mut overflow = 0;
                let value = ffi::PyLong_AsLongLongAndOverflow(arg, &raw mut overflow);
                if overflow != 0 {
                    return None;
                }
                let unused = 64 - scalar.bits();
                let fits = match scalar.is_signed_int() {
                    true => value << unused >> unused == value,
                    false => value >= 0 && (value as u64) << unused >> unused == value as u64,
                };
                fits.then_some(value as u64 & (u64::MAX >> unused))
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
    arg: *mut ffi::PyObject,
    (elem, ndim, is_written): (Scalar, u8, bool),
    words: &mut PlainWords,
) -> Option<ArraySpan> {
    // SAFETY: the object is alive, and is an array of NumPy where its fields are read.
    unsafe {
        if npyffi::PyArray_CheckExact(Python::assume_attached(), arg) == 0 {
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
        strides.iter().for_each(|&stride| words.push(stride));
        let begin = array.data as u64;
        Some(ArraySpan { begin, end: begin + bytes, is_written })
    }
}
