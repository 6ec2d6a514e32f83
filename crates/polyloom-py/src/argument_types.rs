//! The types that the arguments of generic kernels choose.

use crate::argument_numbers::type_name;
use crate::array::ArrayBase;
use crate::capture::capture;
use crate::dlpack::unreadable;
use crate::numpy_array::{extents, has_type};
use crate::structure;
use numpy::npyffi;
use polyloom::frontend::{CapturedMeaning, ParamType, TypePattern};
use polyloom::{Composite, CompositeKind, MAX_DIMS, Scalar, Type, ValueType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use smallvec::SmallVec;

/// The type of the parameter that an argument of a generic kernel makes of `wanted`.
///
/// # Errors
///
/// The end of a sentence that starts with the argument's name.
pub(crate) fn type_of(arg: &Bound<'_, PyAny>, wanted: ParamType) -> PyResult<ValueType> {
    match structure::type_of(arg) {
        Some(ty) => Ok(ty),
        None => plain_type_of(arg, wanted).map(ValueType::Plain),
    }
}

fn plain_type_of(arg: &Bound<'_, PyAny>, wanted: ParamType) -> PyResult<Type> {
    let py = arg.py();
    if arg.cast::<PyBool>().is_ok() {
        return Ok(Type::BOOL);
    }
    if arg.is_exact_instance_of::<PyFloat>() {
        return Ok(Type::F32);
    }
    if arg.cast::<PyInt>().is_ok() {
        return Ok(Type::I32);
    }
    let inner = match wanted {
        ParamType::GenericArray(pattern, _) => pattern,
        _ => TypePattern::Any,
    };
    // SAFETY: `arg` is a live object.
    if unsafe { npyffi::PyArray_Check(py, arg.as_ptr()) } != 0 {
        // SAFETY: it is an array.
        return unsafe { array_type(arg.as_ptr().cast(), None, inner) };
    }
    if let Ok(array) = arg.cast::<ArrayBase>() {
        // SAFETY: it is an array, which `arg` holds.
        return unsafe { array_type(array.get().object().cast(), array.get().element(), TypePattern::Any) };
    }
    match capture(arg) {
        CapturedMeaning::Constant(_, scalar) => return Ok(scalar.into()),
        CapturedMeaning::CompositeConstant(_, composite) => return Ok(composite.into()),
        _ => {}
    }
    let numpy = py.import("numpy")?;
    let converted = if arg.hasattr("__array_interface__")? {
        numpy.call_method1("asarray", (arg,))?
    } else if arg.hasattr("__dlpack__")? {
        let shared = py.import("polyloom._arrays")?.call_method1("shared", (arg,));
        shared.map_err(|error| unreadable(py, error))?
    } else {
        let message = format!("is of type {}, which says no type of kernels: it takes {wanted}", type_name(arg));
        return Err(PyTypeError::new_err(message));
    };
    // SAFETY: NumPy has made an array.
    unsafe { array_type(converted.as_ptr().cast(), None, inner) }
}

/// The type of an array whose elements are of this type, or of one that its last axes make if `inner` has any.
///
/// # Safety
///
/// `object` is a live NumPy array.
unsafe fn array_type(
    object: *mut npyffi::PyArrayObject,
    element: Option<Composite>,
    inner: TypePattern,
) -> PyResult<Type> {
    // SAFETY: a live array's descriptor is valid, and the extents are its own.
    let (descr, extents) = unsafe { (&*(*object).fields.descr, extents(&(*object).fields)) };
    // The bits of `bfloat16` are integers where NumPy has no such type.
    let scalars = Scalar::ALL.into_iter().filter(|scalar| *scalar != Scalar::BF16).chain([Scalar::BF16]);
    let Some(scalar) = scalars.into_iter().find(|scalar| has_type(descr, *scalar)) else {
        return Err(PyTypeError::new_err("has elements of no type of kernels"));
    };
    let n_inner = element.map_or(inner.n_inner_axes(), |element| element.shape().len());
    let rank = extents.len().saturating_sub(n_inner);
    let element = element.or_else(|| match inner {
        TypePattern::Composite { kind, .. } => {
            let shape: SmallVec<[i128; 2]> = extents[rank..].iter().map(|&extent| extent as i128).collect();
            let is_fixed = matches!(kind, CompositeKind::Quaternion | CompositeKind::Transform);
            Composite::new(kind, scalar, if is_fixed { &[] } else { &shape }).ok()
        }
        TypePattern::Any | TypePattern::Scalar(_) => None,
    });
    let element = element.map_or(Type::Scalar(scalar), Type::Composite);
    let ndim = u8::try_from(rank).ok().filter(|&ndim| (1..=MAX_DIMS).contains(&usize::from(ndim)));
    ndim.and_then(|ndim| Type::array_of(element, ndim)).ok_or_else(|| {
        PyTypeError::new_err(format!("has {rank} dimensions, and arrays of kernels have 1 to {MAX_DIMS}"))
    })
}
