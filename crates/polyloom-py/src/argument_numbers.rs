//! The bits of a number, or of a composite's components, that an argument is.

use crate::composite::{CompositeBase, CompositeType};
use crate::numpy_array::has_type;
use numpy::npyffi;
use polyloom::{Composite, Scalar, Type, scalar_bits};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple, PyType};
use smallvec::SmallVec;

/// The bits of a vector's, matrix's or quaternion's components.
pub(crate) fn components(arg: &Bound<'_, PyAny>, composite: Composite) -> PyResult<SmallVec<[u64; 16]>> {
    if let Ok(value) = arg.cast::<CompositeBase>()
        && value.get().composite() == composite
    {
        // SAFETY: the value holds the array.
        return unsafe { component_bits(value.get().object().cast(), composite) };
    }
    if let Some(bits) = numbers(arg, composite) {
        return Ok(bits);
    }
    let py = arg.py();
    let ty = CompositeType { inner: composite };
    let made = py.import("polyloom._composites")?.call_method1("argument", (ty, arg))?;
    let value = made.cast::<CompositeBase>()?.get();
    // SAFETY: as before.
    unsafe { component_bits(value.object().cast(), composite) }
}

/// The components as a tuple or list has them one by one, each a plain number; `None` for whatever else there is, right
/// or wrong. No Python code runs.
fn numbers(arg: &Bound<'_, PyAny>, composite: Composite) -> Option<SmallVec<[u64; 16]>> {
    let (elem, n) = (composite.elem(), composite.n_components());
    let bits = |item: Bound<'_, PyAny>| {
        // Those of `bfloat16` are rounded in Python, by way of `float32`.
        let plain = elem != Scalar::BF16 && is_plain(&item);
        plain.then(|| scalar_argument(&item, elem).ok()).flatten()
    };
    if let Ok(tuple) = arg.cast::<PyTuple>() {
        return if tuple.len() == n { tuple.iter().map(bits).collect() } else { None };
    }
    let list = arg.cast::<PyList>().ok()?;
    let bits: SmallVec<[u64; 16]> = list.iter().map(bits).collect::<Option<_>>()?;
    // Its length may change meanwhile.
    (bits.len() == n).then_some(bits)
}

/// Reads the components out of their array.
///
/// # Safety
///
/// `object` is a live NumPy array.
unsafe fn component_bits(object: *mut npyffi::PyArrayObject, composite: Composite) -> PyResult<SmallVec<[u64; 16]>> {
    let (elem, n) = (composite.elem(), composite.n_components());
    // SAFETY: a live array's fields are valid, and the extents are `nd` numbers.
    let (array, descr, shape) = unsafe {
        let array = &(*object).fields;
        let shape: &[npyffi::npy_intp] = match usize::try_from(array.nd) {
            Ok(nd @ 1..) => std::slice::from_raw_parts(array.dimensions, nd),
            _ => &[],
        };
        (array, &*array.descr, shape)
    };
    let is_dense = array.flags & npyffi::NPY_ARRAY_C_CONTIGUOUS != 0;
    if !is_dense || shape.iter().product::<npyffi::npy_intp>() != n as npyffi::npy_intp || !has_type(descr, elem) {
        return Err(PyValueError::new_err("has been given another shape or type in memory"));
    }
    let bytes = elem.bytes() as usize;
    // SAFETY: the array is dense and has `n` elements of `bytes` bytes.
    let memory = unsafe { std::slice::from_raw_parts(array.data.cast::<u8>(), n * bytes) };
    let bits = |element: &[u8]| match *element {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    };
    Ok(memory.chunks_exact(bytes).map(bits).collect())
}

/// A number, or the components of a composite as a tuple, as an object that stays what it is: a launch takes the same bits
/// of it.
pub(crate) fn number_object(py: Python<'_>, ty: Type, bits: &[u64]) -> PyResult<Py<PyAny>> {
    let number = |elem: Scalar, bits: u64| -> PyResult<Py<PyAny>> {
        let unused = 64 - elem.bits();
        Ok(match elem {
            Scalar::Bool => PyBool::new(py, bits != 0).to_owned().into_any().unbind(),
            elem if elem.is_float() => PyFloat::new(py, scalar_bits::to_f64(elem, bits)).into_any().unbind(),
            elem if elem.is_signed_int() => ((bits << unused) as i64 >> unused).into_py_any(py)?,
            _ => bits.into_py_any(py)?,
        })
    };
    match (ty, bits) {
        (Type::Scalar(scalar), &[bits]) => number(scalar, bits),
        (ty, bits) => {
            let elem = ty.as_composite().map_or(Scalar::F64, Composite::elem);
            let numbers: Vec<_> = bits.iter().map(|&bits| number(elem, bits)).collect::<PyResult<_>>()?;
            Ok(PyTuple::new(py, numbers)?.into_any().unbind())
        }
    }
}

/// Returns true if an object is a number of Python's own, which nobody changes, or a tuple of such numbers.
pub(crate) fn is_constant(arg: &Bound<'_, PyAny>) -> bool {
    match arg.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.iter_borrowed().all(|item| is_plain(&item)),
        Err(_) => is_plain(arg),
    }
}

fn is_plain(number: &Bound<'_, PyAny>) -> bool {
    number.is_exact_instance_of::<PyFloat>()
        || number.is_exact_instance_of::<PyInt>()
        || number.is_exact_instance_of::<PyBool>()
}

pub(crate) fn scalar_argument(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyResult<u64> {
    if scalar.is_float() {
        let value = match arg.cast::<PyFloat>() {
            Ok(float) => float.value(),
            Err(_) => arg.extract::<f64>().map_err(|error| unfit(error, arg, scalar))?,
        };
        return Ok(scalar_bits::from_f64(scalar, value));
    }
    if scalar == Scalar::Bool {
        return match truth(arg)? {
            Some(value) => Ok(value.into()),
            // Programs pass flags, so that `options & Flag.SPRING` is an integer.
            None if arg.cast::<PyInt>().is_ok() => Ok(arg.is_truthy()?.into()),
            // An integer of NumPy's or of the package's; a float has none, and an array of several elements no one value.
            None => match arg.call_method0("__index__") {
                Ok(integer) => Ok(integer.is_truthy()?.into()),
                Err(_) => Err(mismatch(arg, scalar)),
            },
        };
    }
    let value: i128 = if arg.cast::<PyInt>().is_ok() {
        arg.extract().map_err(|error| unfit(error, arg, scalar))?
    } else if let Some(value) = truth(arg)? {
        value.into()
    } else if arg.hasattr("__index__")? {
        // Not `__int__`, which makes an integer of a float by dropping its fraction.
        arg.call_method0("__index__").and_then(|i| i.extract()).map_err(|error| unfit(error, arg, scalar))?
    } else {
        return Err(mismatch(arg, scalar));
    };
    // A negative number of the signed type of this width means the same bits of an unsigned one.
    let half = 1 << (scalar.bits() - 1);
    let is_signed = !scalar.is_signed_int() && (-half..0).contains(&value);
    scalar_bits::from_int(scalar, if is_signed { 2 * half + value } else { value })
        .ok_or_else(|| out_of_range(arg, scalar))
}

/// The value of Python's, NumPy's and the package's booleans.
fn truth(arg: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    static NUMPY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static CONSTANT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if let Ok(value) = arg.cast::<PyBool>() {
        return Ok(Some(value.is_true()));
    }
    let py = arg.py();
    if arg.is_instance(NUMPY.import(py, "numpy", "bool_")?)? {
        return arg.is_truthy().map(Some);
    }
    if arg.is_instance(CONSTANT.import(py, "polyloom._scalars", "TypedConstant")?)?
        && arg.get_type().getattr("name")?.extract::<&str>()? == "bool"
    {
        return arg.getattr("value")?.is_truthy().map(Some);
    }
    Ok(None)
}

/// Returns what a failed conversion to a number means for an argument.
fn unfit(error: PyErr, arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    let py = arg.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        return out_of_range(arg, scalar);
    }
    if error.is_instance_of::<PyTypeError>(py) {
        return mismatch(arg, scalar);
    }
    error
}

fn mismatch(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    PyTypeError::new_err(format!("must be {}, not {}", scalar.python_name(), type_name(arg)))
}

fn out_of_range(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    /// Digits of an integer that a message has room for.
    const SHOWN: usize = 40;
    // Python refuses to print integers of many thousand digits.
    let text = arg.str().map_or_else(|_| String::new(), |text| text.to_string());
    let shown = match text.len() {
        1..=SHOWN => text,
        _ => "a very large integer".to_owned(),
    };
    PyOverflowError::new_err(format!("is {shown}, which does not fit {}", scalar.python_name()))
}

pub(crate) fn type_name(arg: &Bound<'_, PyAny>) -> String {
    arg.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
