//! Python objects as attributes of ops: axes, shapes, element types.

use polyloom::Scalar;
use polyloom::graph::op::AttributeKind;
use polyloom::graph::{AttributeValue, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString, PyTuple, PyType};

/// Limits of a slice along an axis, as Python's slices have them.
pub(crate) type AxisSlice = (Option<i64>, Option<i64>, i64);

/// Returns an object as an attribute of this kind.
///
/// # Errors
///
/// `TypeError` or `ValueError` with the end of a sentence that begins with the parameter's name.
pub(crate) fn attribute_of(kind: AttributeKind, value: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    let wrong = || {
        let given = value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("is {}, not {given}", kind.describe()))
    };
    Ok(match kind {
        AttributeKind::Bool => AttributeValue::Bool(flag(value).ok_or_else(wrong)?),
        AttributeKind::Int | AttributeKind::Axis => AttributeValue::Int(integer(value)?.ok_or_else(wrong)?),
        AttributeKind::Float if value.is_none() => AttributeValue::None,
        AttributeKind::Float => match integer(value) {
            Ok(Some(value)) => AttributeValue::Int(value),
            _ => AttributeValue::Float(value.extract::<f64>().map_err(|_| wrong())?),
        },
        AttributeKind::Ints if value.is_none() => AttributeValue::None,
        AttributeKind::Ints => AttributeValue::Ints(integers(value)?.ok_or_else(wrong)?),
        AttributeKind::OptionalAxis if value.is_none() => AttributeValue::None,
        AttributeKind::OptionalAxis => AttributeValue::Int(integer(value)?.ok_or_else(wrong)?),
        AttributeKind::Axes if value.is_none() => AttributeValue::None,
        AttributeKind::Axes => AttributeValue::Ints(integers(value)?.ok_or_else(wrong)?),
        AttributeKind::Text if value.is_none() => AttributeValue::None,
        AttributeKind::Text => AttributeValue::Text(value.cast::<PyString>().map_err(|_| wrong())?.to_str()?.into()),
        AttributeKind::Dtype => AttributeValue::Dtype(dtype_of(value)?),
        AttributeKind::Shape => {
            let extents = integers(value)?.ok_or_else(wrong)?;
            match extents.iter().all(|&extent| extent >= 0) {
                true => AttributeValue::Shape(Shape::of(&extents.iter().map(|&e| e as u64).collect::<Vec<_>>())),
                // One extent may be -1, which the op's rule replaces.
                false => AttributeValue::Ints(extents),
            }
        }
    })
}

/// Returns the widths of a padding: a number for all, a pair for all axes, or a pair for each axis, as in NumPy.
pub(crate) fn widths_of(value: &Bound<'_, PyAny>, rank: usize) -> PyResult<AttributeValue> {
    let pairs: Vec<[i64; 2]> = match integer(value)? {
        Some(width) => vec![[width; 2]; rank],
        None => {
            let mut pairs = Vec::new();
            let mut flat = Vec::new();
            for item in value.try_iter()? {
                let item = item?;
                match integer(&item)? {
                    Some(width) => flat.push(width),
                    None => pairs.push(<[i64; 2]>::try_from(integers(&item)?.unwrap_or_default()).map_err(|_| {
                        PyValueError::new_err("is a number, a pair of numbers, or a pair for each axis")
                    })?),
                }
            }
            match (&flat[..], pairs.is_empty()) {
                ([], _) => pairs,
                (&[before, after], true) if rank != 1 => vec![[before, after]; rank],
                (flat, true) if flat.len() == 2 * rank => flat.chunks(2).map(|pair| [pair[0], pair[1]]).collect(),
                _ => return Err(PyValueError::new_err("is a number, a pair of numbers, or a pair for each axis")),
            }
        }
    };
    let pairs = if pairs.len() == 1 { vec![pairs[0]; rank] } else { pairs };
    Ok(AttributeValue::Ints(pairs.concat()))
}

/// Returns how often each axis is repeated; leading axes once if fewer are given.
pub(crate) fn repeats_of(value: &Bound<'_, PyAny>, rank: usize) -> PyResult<AttributeValue> {
    let given = integers(value)?.ok_or_else(|| PyTypeError::new_err("is an integer or one for each axis"))?;
    let n_missing = rank.saturating_sub(given.len());
    Ok(AttributeValue::Ints(std::iter::repeat_n(1, n_missing).chain(given).collect()))
}

/// Returns the slices of the leading axes. Each of the three is `None`, a number for the first axis, or a sequence.
pub(crate) fn slices_of(limits: [Option<&Bound<'_, PyAny>>; 3]) -> PyResult<Vec<AxisSlice>> {
    let mut parts: [Vec<Option<i64>>; 3] = Default::default();
    for (part, limit) in parts.iter_mut().zip(limits) {
        let Some(limit) = limit.filter(|limit| !limit.is_none()) else { continue };
        if let Some(one) = integer(limit)? {
            part.push(Some(one));
            continue;
        }
        for item in limit.try_iter()? {
            let item = item?;
            let value = if item.is_none() { None } else { integer(&item)? };
            if value.is_none() && !item.is_none() {
                return Err(PyTypeError::new_err("of a slice are integers or None"));
            }
            part.push(value);
        }
    }
    let n = parts.iter().map(Vec::len).max().unwrap_or(0);
    let at = |part: usize, axis: usize| parts[part].get(axis).copied().flatten();
    Ok((0..n).map(|axis| (at(0, axis), at(1, axis), at(2, axis).unwrap_or(1))).collect())
}

fn flag(value: &Bound<'_, PyAny>) -> Option<bool> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Some(flag.is_true());
    }
    let is_numpy = value.get_type().name().is_ok_and(|name| name == "bool" || name == "bool_");
    is_numpy.then(|| value.is_truthy().ok())?
}

/// Returns an integer; nothing of what is none.
fn integer(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.cast::<PyBool>().is_ok() || !value.hasattr("__index__")? || value.hasattr("shape")? && !is_scalar(value) {
        return Ok(None);
    }
    value.extract::<i64>().map(Some)
}

fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.getattr("ndim").and_then(|rank| rank.extract::<usize>()).is_ok_and(|rank| rank == 0)
}

/// Returns integers of a sequence, or a single one as a sequence.
fn integers(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i64>>> {
    if let Some(one) = integer(value)? {
        return Ok(Some(vec![one]));
    }
    let is_sequence = value.cast::<PyTuple>().is_ok() || value.cast::<PyList>().is_ok();
    if !is_sequence && (value.cast::<PyString>().is_ok() || !value.hasattr("__iter__")?) {
        return Ok(None);
    }
    let mut found = Vec::new();
    for item in value.try_iter()? {
        match integer(&item?)? {
            Some(one) => found.push(one),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// Returns the element type that an object names: NumPy's, Polyloom's, PyTorch's, or a name. Python's `float` and `int`
/// are what they are to NumPy, 64 bits wide.
pub(crate) fn dtype_of(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    let py = value.py();
    let own = py.import("polyloom._scalars")?.getattr("DType")?;
    let name: String = if value.is_instance(&own)? {
        value.getattr("name")?.extract()?
    } else if value.get_type().name()? == "dtype"
        && value.get_type().getattr("__module__")?.extract::<String>()? == "torch"
    {
        value.str()?.to_string().trim_start_matches("torch.").to_owned()
    } else if value.cast::<PyString>().is_ok_and(|name| name == "bfloat16") {
        "bfloat16".to_owned()
    } else {
        let described = py.import("numpy")?.getattr("dtype")?.call1((value,));
        described.map_err(|_| no_dtype(value))?.getattr("name")?.extract()?
    };
    Scalar::from_python_name(&name).ok_or_else(|| no_dtype(value))
}

fn no_dtype(value: &Bound<'_, PyAny>) -> PyErr {
    let what = match value.cast::<PyType>() {
        Ok(class) => class.name().map_or_else(|_| "a class".to_owned(), |name| name.to_string()),
        Err(_) => value.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string()),
    };
    PyTypeError::new_err(format!("is an element type such as np.float32, not {what}"))
}
