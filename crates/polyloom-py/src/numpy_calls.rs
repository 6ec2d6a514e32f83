//! Calls of NumPy in groups: what makes sure that a group gives what NumPy gives.
//!
//! Types and shapes of results are NumPy's own, because each new plan asks NumPy: the very callee is called with small arrays
//! of the types at hand. Values are those of the ops, which the table of forms takes on trust, and tests compare.

use crate::group_calls::OperandSource;
use crate::op_attributes::AxisSlice;
use polyloom::Scalar;
use polyloom::graph::{TensorOp, TensorOperand, TensorType};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};
use std::sync::Mutex;

/// A call as the program has it.
pub(crate) struct NumpyCall {
    pub(crate) callee: Py<PyAny>,
    pub(crate) args: Vec<OperandSource>,
    pub(crate) keywords: Vec<(String, OperandSource)>,
    /// True if the result shares memory with an argument in NumPy, or may.
    pub(crate) is_view: bool,
}

/// An operand as [`NumpyCall::check`] looks at it.
pub(crate) enum NumpyOperand<'py> {
    /// A tensor, which is the result of a call or not.
    Tensor(TensorType, bool),
    Object(Bound<'py, PyAny>),
    List(Vec<NumpyOperand<'py>>),
}

fn helpers(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "polyloom._fusion_numpy"))
}

impl NumpyOperand<'_> {
    fn stand_in<'py>(&self, py: Python<'py>, is_view: bool) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            NumpyOperand::Tensor(ty, is_result) => {
                let extents = ty.shape.as_static().ok_or_else(|| PyTypeError::new_err("has an unknown shape"))?;
                let helpers = helpers(py)?;
                helpers.call_method1("stand_in", (ty.dtype.python_name(), extents, *is_result, is_view))?
            }
            NumpyOperand::Object(object) => object.clone().unbind().into_bound(py),
            NumpyOperand::List(items) => {
                let items = items.iter().map(|item| item.stand_in(py, is_view)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, items)?.into_any()
            }
        })
    }
}

impl NumpyCall {
    /// Checks that NumPy gives a result of the type that the op gives.
    ///
    /// # Errors
    ///
    /// `TypeError` if it does not, and what NumPy raises.
    pub(crate) fn check(
        &self,
        py: Python<'_>,
        result: &TensorType,
        args: &[NumpyOperand<'_>],
        keywords: &[(String, NumpyOperand<'_>)],
    ) -> PyResult<()> {
        let values = args.iter().map(|operand| operand.stand_in(py, self.is_view)).collect::<PyResult<Vec<_>>>()?;
        let values = PyList::new(py, values)?;
        let named = PyDict::new(py);
        for (name, operand) in keywords {
            named.set_item(name, operand.stand_in(py, self.is_view)?)?;
        }
        let found = helpers(py)?.call_method1("result_form", (self.callee.bind(py), values, named))?;
        let (name, extents): (String, Vec<u64>) = found.extract()?;
        let is_same_shape = match self.is_view {
            true => result.shape.as_static().is_some_and(|own| own == extents),
            false => result.shape.rank() == extents.len(),
        };
        match name == result.dtype.python_name() && is_same_shape {
            true => Ok(()),
            false => Err(PyTypeError::new_err("NumPy gives a result of another type")),
        }
    }
}

/// Checks what an op has in common with NumPy in certain cases alone.
///
/// # Errors
///
/// `TypeError` in the others.
pub(crate) fn check_case(
    op: TensorOp,
    operands: &[TensorOperand],
    types: &[Option<TensorType>],
    result: Scalar,
) -> PyResult<()> {
    let is_same = match op {
        // NumPy raises of negative powers of integers.
        TensorOp::Power if !result.is_float() => {
            matches!(operands.get(1), Some(TensorOperand::Int(power)) if *power >= 0)
        }
        // NumPy does not define what a number out of range becomes.
        TensorOp::Cast => {
            let is_float = types.first().is_some_and(|ty| ty.as_ref().is_some_and(|ty| ty.dtype.is_float()));
            !is_float || result.is_float() || result == Scalar::Bool
        }
        _ => true,
    };
    match is_same {
        true => Ok(()),
        false => Err(PyTypeError::new_err("NumPy gives another result")),
    }
}

/// Returns an error unless an object is exactly an array of NumPy, or a number.
pub(crate) fn check_operand(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    static GENERIC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let generic = GENERIC.get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("generic")?.unbind()))?;
    // SAFETY: `object` is a live object.
    let is_array = unsafe { numpy::npyffi::PyArray_CheckExact(py, object.as_ptr()) != 0 };
    let is_number = || {
        object.is_exact_instance_of::<PyFloat>()
            || object.is_exact_instance_of::<PyInt>()
            || object.is_instance_of::<PyBool>()
    };
    if is_array || is_number() || object.is_none() || object.is_instance(generic.bind(py))? {
        return Ok(());
    }
    Err(PyTypeError::new_err("is not exactly a NumPy array"))
}

/// Returns true if NumPy's floating-point errors are ignored or warned of, so that none of them raises or runs code.
pub(crate) fn has_plain_errors(py: Python<'_>) -> PyResult<bool> {
    static VARIABLE: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    static KNOWN: Mutex<Option<Py<PyAny>>> = Mutex::new(None);
    let variable = VARIABLE.get_or_init(py, || {
        let find = || py.import("numpy._core.umath")?.getattr("_extobj_contextvar");
        find().ok().map(Bound::unbind)
    });
    let state = match variable {
        Some(variable) => Some(variable.bind(py).call_method0(intern!(py, "get"))?),
        None => None,
    };
    if let (Some(state), Ok(known)) = (&state, KNOWN.lock())
        && known.as_ref().is_some_and(|known| known.is(state))
    {
        return Ok(true);
    }
    let is_plain: bool = helpers(py)?.call_method0("has_plain_errors")?.extract()?;
    if let (true, Some(state)) = (is_plain, state) {
        let old = KNOWN.lock().ok().and_then(|mut known| known.replace(state.unbind()));
        drop(old);
    }
    Ok(is_plain)
}

/// Returns a result as NumPy gives it: a number in place of an array without axes.
pub(crate) fn in_numpy<'py>(result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `result` is a live object, and a live array's fields are valid.
    let is_single = unsafe {
        numpy::npyffi::PyArray_Check(result.py(), result.as_ptr()) != 0
            && (*result.as_ptr().cast::<numpy::npyffi::PyArrayObject>()).fields.nd == 0
    };
    match is_single {
        true => result.get_item(PyTuple::empty(result.py())),
        false => Ok(result),
    }
}

/// Returns slices of the leading axes, as an index of literals has them, and the axes of the result: one of the sliced
/// array, or a new one of extent 1.
pub(crate) fn read_index(index: &Bound<'_, PyAny>, extents: &[u64]) -> PyResult<(Vec<AxisSlice>, Vec<Option<usize>>)> {
    let items: Vec<Bound<'_, PyAny>> = match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![index.clone()],
    };
    let py = index.py();
    let is_ellipsis = |item: &Bound<'_, PyAny>| item.is(py.Ellipsis());
    let n_taken = items.iter().filter(|item| !item.is_none() && !is_ellipsis(item)).count();
    let n_skipped = extents.len().checked_sub(n_taken).ok_or_else(|| PyTypeError::new_err("has too many indices"))?;
    if items.iter().filter(|item| is_ellipsis(item)).count() > 1 {
        return Err(PyTypeError::new_err("has several ellipses"));
    }
    let (mut slices, mut axes) = (Vec::new(), Vec::new());
    for item in &items {
        if item.is_none() {
            axes.push(None);
        } else if is_ellipsis(item) {
            for _ in 0..n_skipped {
                axes.push(Some(slices.len()));
                slices.push((None, None, 1));
            }
        } else if let Ok(at) = item.extract::<i64>() {
            let extent = extents[slices.len()] as i64;
            let at = if at < 0 { at + extent } else { at };
            if !(0..extent).contains(&at) {
                return Err(PyTypeError::new_err("is out of bounds"));
            }
            slices.push((Some(at), Some(at + 1), 1));
        } else {
            let [start, stop, step] =
                ["start", "stop", "step"].map(|name| item.getattr(name)?.extract::<Option<i64>>());
            axes.push(Some(slices.len()));
            slices.push((start?, stop?, step?.unwrap_or(1)));
        }
    }
    axes.extend((slices.len()..extents.len()).map(Some));
    Ok((slices, axes))
}
