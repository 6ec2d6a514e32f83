//! `FusionGroup`: the calls of a rewritten function that run as one, as Python has them.

use crate::external_key::ObjectGuard;
use crate::fused_calls::FusedCalls;
use crate::group_calls::{GroupCall, OperandSource};
use crate::op_errors::graph_error;
use polyloom::FloatMode;
use polyloom::graph::TensorOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit, ffi};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// Calls of ops that run as one.
///
/// Parameters
/// ----------
/// name : str
///     The name, in errors and profiles.
/// calls : list
///     Of each call the op's name, its operands by position, and those by name. An operand is `("in", i)`, a value that the
///     group is given; `("call", j)`, the result of call j; `("const", value)`, a literal; or `("list", [...])`.
/// outputs : list of int
///     The calls whose results are given.
/// guards : list, optional
///     What must hold: `(holder, name, object)` says that the name in a dictionary, or in the namespace of an object, is
///     still this very object; with `None` for the name, that a cell still has it.
/// float_mode : str
///     `"strict"`, `"contract"` or `"fast"`.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct FusionGroup {
    calls: FusedCalls,
    guards: Vec<ObjectGuard>,
}

#[pymethods]
impl FusionGroup {
    #[new]
    #[pyo3(signature = (name, calls, outputs, guards = None, float_mode = "strict"))]
    fn new(
        name: String,
        calls: &Bound<'_, PyAny>,
        outputs: Vec<usize>,
        guards: Option<&Bound<'_, PyAny>>,
        float_mode: &str,
    ) -> PyResult<FusionGroup> {
        let float_mode = FloatMode::from_name(float_mode)
            .ok_or_else(|| PyValueError::new_err(format!("'{float_mode}' is no float mode")))?;
        let mut n_externals = 0;
        let mut group_calls: Vec<GroupCall> = Vec::new();
        for call in calls.try_iter()? {
            let (op, args, kwargs): (String, Bound<'_, PyAny>, Bound<'_, PyDict>) = call?.extract()?;
            let op = TensorOp::from_name(&op).map_err(|error| graph_error(&error))?;
            let mut sources = OperandReader { n_calls: group_calls.len(), n_externals: &mut n_externals };
            let args = args.try_iter()?.map(|arg| sources.read(&arg?)).collect::<PyResult<Vec<_>>>()?;
            let mut keywords = Vec::new();
            for (name, value) in kwargs.iter() {
                keywords.push((name.extract::<String>()?, sources.read(&value)?));
            }
            group_calls.push(GroupCall::new(op, args, keywords)?);
        }
        if let Some(output) = outputs.iter().find(|&&output| output >= group_calls.len()) {
            return Err(PyValueError::new_err(format!("the group has no call {output}")));
        }
        let mut object_guards = Vec::new();
        for guard in guards.map(|guards| guards.try_iter()).transpose()?.into_iter().flatten() {
            let (holder, name, expected): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>, Bound<'_, PyAny>) =
                guard?.extract()?;
            object_guards.push(ObjectGuard::new(holder, name, expected)?);
        }
        let calls = FusedCalls::new(name, group_calls, outputs, n_externals, float_mode);
        Ok(FusionGroup { calls, guards: object_guards })
    }

    /// The results of the calls for these values: that of the one output, or a tuple. None if a guard does not hold, or the
    /// values are not ones that the calls take: nothing has run then.
    #[pyo3(signature = (*values))]
    fn __call__<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = values.py();
        if values.len() != self.calls.n_externals() {
            let (wanted, given) = (self.calls.n_externals(), values.len());
            return Err(PyTypeError::new_err(format!("the group takes {wanted} values, not {given}")));
        }
        if !self.guards.iter().all(|guard| guard.holds(py)) {
            return Ok(None);
        }
        let args: SmallVec<[*mut ffi::PyObject; 8]> = values.iter_borrowed().map(|value| value.as_ptr()).collect();
        // SAFETY: the tuple keeps them alive.
        unsafe { self.calls.run(py, &args, false) }
    }

    /// Whether a call would take these values, those of its operands that are not results of the group, as far as is
    /// known. Nothing runs.
    #[pyo3(signature = (call, *values))]
    fn check(&self, py: Python<'_>, call: usize, values: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
        if call >= self.calls.calls.len() {
            return Err(PyValueError::new_err(format!("the group has no call {call}")));
        }
        Ok(self.guards.iter().all(|guard| guard.holds(py)) && self.calls.check(py, call, &values)?)
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.calls.name
    }

    /// How often a plan was known, how often not, and the number of plans.
    fn cache_info(&self) -> (u64, u64, usize) {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.calls.n_hits), of(&self.calls.n_misses), self.calls.n_plans())
    }

    /// Forgets all plans.
    fn cache_clear(&self) {
        self.calls.clear();
    }

    /// The kernels for these values in HIR.
    #[pyo3(signature = (*values))]
    fn hir(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
        self.check_count(values.len())?;
        self.calls.hir(py, values)
    }

    /// The results by the evaluator that defines the ops, for tests: of each element type, extents, and bits.
    #[pyo3(signature = (*values))]
    fn _evaluate<'py>(&self, py: Python<'py>, values: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        self.check_count(values.len())?;
        let results = PyList::empty(py);
        for tensor in self.calls.evaluate(py, values)? {
            results.append((tensor.dtype.python_name(), tensor.extents, tensor.bits))?;
        }
        Ok(results)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.guards.iter().flat_map(ObjectGuard::objects).try_for_each(|object| visit.call(object))
    }
}

impl FusionGroup {
    fn check_count(&self, given: usize) -> PyResult<()> {
        let wanted = self.calls.n_externals();
        if given == wanted {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("the group takes {wanted} values, not {given}")))
    }
}

/// Reads operands of a call.
struct OperandReader<'a> {
    /// The calls before it.
    n_calls: usize,
    n_externals: &'a mut usize,
}

impl OperandReader<'_> {
    fn read(&mut self, operand: &Bound<'_, PyAny>) -> PyResult<OperandSource> {
        let (kind, value): (String, Bound<'_, PyAny>) = operand.extract()?;
        Ok(match &*kind {
            "in" => {
                let index: usize = value.extract()?;
                *self.n_externals = (*self.n_externals).max(index + 1);
                OperandSource::External(index)
            }
            "call" => match value.extract()? {
                index if index < self.n_calls => OperandSource::Call(index),
                index => return Err(PyValueError::new_err(format!("call {index} comes later"))),
            },
            "const" => OperandSource::Constant(value.unbind()),
            "list" => OperandSource::List(value.try_iter()?.map(|item| self.read(&item?)).collect::<PyResult<_>>()?),
            kind => return Err(PyValueError::new_err(format!("'{kind}' is no kind of operand"))),
        })
    }
}
