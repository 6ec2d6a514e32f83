//! Builtins and operators of Python values: `loom.dot(a, b)` outside kernels.

use crate::capture::capture;
use crate::composite::CompositeType;
use crate::errors::argument_type_error;
use crate::session;
use polyloom::frontend::CapturedMeaning;
use polyloom::{Bits, CallError, Composite, Scalar, Type, is_function_of_values, scalar_bits};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use smallvec::{SmallVec, smallvec};

/// A Python number takes the type of what it meets.
enum ScalarArgument {
    Typed(Type, Bits),
    Int(i128),
    Float(f64),
}

/// The result of a builtin, or of an operator between two values. Among the arguments of a builtin may be scalar types;
/// keywords have constants.
#[pyfunction]
#[pyo3(signature = (callee, args, keywords = None))]
pub(crate) fn call_builtin(
    py: Python<'_>,
    callee: &str,
    args: Vec<Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let is_builtin = callee.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_builtin && !is_function_of_values(callee) {
        let message = format!("polyloom.{callee} is a function of the kernel language: call it inside a kernel");
        return Err(PyTypeError::new_err(message));
    }
    let mut values: Vec<ScalarArgument> = Vec::with_capacity(args.len());
    let mut texts: SmallVec<[String; 4]> = SmallVec::new();
    for arg in &args {
        let arg = plain(arg)?;
        texts.push(match value(&arg) {
            // How large a matrix is belongs to its type.
            Some(ScalarArgument::Int(n)) if callee == "identity" => n.to_string(),
            Some(value) => {
                values.push(value);
                format!("x{}", values.len() - 1)
            }
            None => scalar_type(&arg).ok_or_else(|| misfit(callee, &arg))?,
        });
    }
    let mut named = None;
    for (name, arg) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
        let arg = plain(&arg)?;
        if let CapturedMeaning::Type(scalar) = capture(&arg) {
            named = Some(scalar);
        }
        let name = name.extract::<String>()?;
        let text = match value(&arg) {
            // What the type of the result depends on.
            _ if matches!(&*name, "dtype" | "length" | "shape" | "n") => {
                scalar_type(&arg).or_else(|| extents(&arg)).ok_or_else(|| misfit(callee, &arg))?
            }
            Some(value) => {
                values.push(value);
                format!("x{}", values.len() - 1)
            }
            None => return Err(misfit(callee, &arg)),
        };
        texts.push(format!("{name}={text}"));
    }
    let expression = match (is_builtin, &texts[..]) {
        (false, [a, b]) => format!("{a} {callee} {b}"),
        _ => format!("polyloom.{callee}({})", texts.join(", ")),
    };
    let typed = values.iter().find_map(|value| match value {
        ScalarArgument::Typed(Type::Scalar(scalar), _) => Some(*scalar),
        ScalarArgument::Typed(ty, _) => Some(ty.as_composite()?.elem()),
        _ => None,
    });
    let typed = named.or(typed);
    let float = typed.filter(|scalar| scalar.is_float()).unwrap_or(Scalar::F32);
    let has_float = values.iter().any(|value| matches!(value, ScalarArgument::Float(_)));
    // `sin(1)` is of a float.
    let ints = match typed {
        Some(scalar) if scalar != Scalar::Bool => [scalar, scalar],
        _ if has_float => [float, float],
        _ => [Scalar::I32, float],
    };
    let mut result = Err(CallError::NoValue);
    for int in ints {
        let values = arguments(&values, int, float).map_err(|error| unfit(py, callee, &args, error))?;
        result = session()?.call(&expression, &values);
        if !matches!(result, Err(CallError::Arguments(_))) {
            break;
        }
    }
    let results = result.map_err(|error| match error {
        CallError::Arguments(message) if message.starts_with("no overload of") => no_overload(callee, &message),
        CallError::NoValue | CallError::Arguments(_) => PyTypeError::new_err(error.to_string()),
        CallError::Failed(message) => PyRuntimeError::new_err(message),
    })?;
    let mut values =
        results.iter().map(|(ty, bits)| python_value(py, callee, *ty, bits)).collect::<PyResult<Vec<_>>>()?;
    if values.len() > 1 {
        return Ok(PyTuple::new(py, values)?.into_any().unbind());
    }
    values.pop().ok_or_else(|| PyTypeError::new_err(CallError::NoValue.to_string()))
}

/// The error of arguments that a builtin does not take, in Warp's words.
fn no_overload(callee: &str, message: &str) -> PyErr {
    let types = message.split_once('(').map_or("", |(_, types)| types.trim_end_matches(')'));
    argument_type_error(format!("Couldn't find a function '{callee}' compatible with the arguments '{types}'"))
}

/// An integer that does not fit what it meets: the error says of which call, as Warp does of arguments of several types.
fn unfit(py: Python<'_>, callee: &str, args: &[Bound<'_, PyAny>], error: PyErr) -> PyErr {
    let types: Vec<String> =
        args.iter().map(|arg| arg.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string())).collect();
    let message = format!(
        "{}: Couldn't find a function '{callee}' compatible with the arguments '{}'",
        error.value(py),
        types.join(", ")
    );
    let make = || -> PyResult<PyErr> {
        let class = py.import("polyloom._errors")?.getattr("ArgumentOverflowError")?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    make().unwrap_or_else(|error| error)
}

/// A value of the kernel language as one of Python.
fn python_value(py: Python<'_>, callee: &str, ty: Type, bits: &Bits) -> PyResult<Py<PyAny>> {
    match ty {
        Type::Scalar(scalar) => typed(py, scalar, bits[0]),
        Type::Composite(inner) => Ok(composite_value(py, inner, bits)?.unbind()),
        _ => Err(PyTypeError::new_err(format!("polyloom.{callee} gives an array: call it inside a kernel"))),
    }
}

/// A vector, matrix, quaternion or transform of these components.
pub(crate) fn composite_value<'py>(py: Python<'py>, inner: Composite, bits: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let numbers = bits.iter().map(|&bits| number(py, inner.elem(), bits)).collect::<PyResult<Vec<_>>>()?;
    let class = py.import("polyloom._composites")?.call_method1("class_of", (CompositeType { inner },))?;
    class.call1((numbers,))
}

/// `float` and `int` as the types they are in kernels.
fn plain<'py>(arg: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match arg.cast::<PyType>() {
        Ok(class) if class.getattr("__module__")?.extract::<String>()? == "builtins" => {
            arg.py().import("polyloom._scalars")?.call_method1("dtype_of", (class,))
        }
        _ => Ok(arg.clone()),
    }
}

fn value(arg: &Bound<'_, PyAny>) -> Option<ScalarArgument> {
    Some(match capture(arg) {
        CapturedMeaning::Bool(value) => ScalarArgument::Typed(Type::BOOL, smallvec![value.into()]),
        CapturedMeaning::Int(value) => ScalarArgument::Int(value),
        CapturedMeaning::Float(value) => ScalarArgument::Float(value),
        CapturedMeaning::Constant(bits, scalar) => ScalarArgument::Typed(scalar.into(), smallvec![bits]),
        CapturedMeaning::CompositeConstant(bits, composite) => {
            ScalarArgument::Typed(composite.into(), SmallVec::from_slice(&bits))
        }
        _ => return None,
    })
}

fn misfit(callee: &str, arg: &Bound<'_, PyAny>) -> PyErr {
    let given = arg.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("polyloom.{callee} takes numbers, vectors and matrices, not {given}"))
}

/// The text of a scalar type.
fn scalar_type(arg: &Bound<'_, PyAny>) -> Option<String> {
    match capture(arg) {
        CapturedMeaning::Type(scalar) => Some(format!("polyloom.{}", scalar.python_name())),
        _ => None,
    }
}

/// The text of an extent, or of several.
fn extents(arg: &Bound<'_, PyAny>) -> Option<String> {
    if let CapturedMeaning::Int(value) = capture(arg) {
        return Some(value.to_string());
    }
    let extents = arg.extract::<Vec<i64>>().ok()?;
    Some(format!("({})", extents.iter().map(|n| format!("{n},")).collect::<String>()))
}

/// The values, where integers without a type are of type `int` and floats of type `float`.
fn arguments(values: &[ScalarArgument], int: Scalar, float: Scalar) -> PyResult<SmallVec<[(Type, Bits); 4]>> {
    let typed = |value: &ScalarArgument| match value {
        ScalarArgument::Typed(ty, bits) => Ok((*ty, bits.clone())),
        ScalarArgument::Float(value) => Ok((float.into(), smallvec![scalar_bits::from_f64(float, *value)])),
        ScalarArgument::Int(value) => match scalar_bits::from_int(int, *value) {
            Some(bits) => Ok((int.into(), smallvec![bits])),
            None => Err(PyOverflowError::new_err(format!("{value} does not fit {}", int.python_name()))),
        },
    };
    values.iter().map(typed).collect()
}

/// A number with its type; `int32`, `float32` and `bool` are Python's own, as the values of such variables are.
fn typed(py: Python<'_>, scalar: Scalar, bits: u64) -> PyResult<Py<PyAny>> {
    let value = number(py, scalar, bits)?;
    match scalar {
        Scalar::Bool | Scalar::I32 | Scalar::F32 => Ok(value),
        _ => Ok(py.import("polyloom._scalars")?.getattr(scalar.python_name())?.call1((value,))?.unbind()),
    }
}

fn number(py: Python<'_>, scalar: Scalar, bits: u64) -> PyResult<Py<PyAny>> {
    let unused = 64 - scalar.bits();
    match scalar {
        Scalar::Bool => (bits != 0).into_py_any(py),
        _ if scalar.is_float() => scalar_bits::to_f64(scalar, bits).into_py_any(py),
        _ if scalar.is_signed_int() => (((bits << unused) as i64) >> unused).into_py_any(py),
        _ => bits.into_py_any(py),
    }
}
