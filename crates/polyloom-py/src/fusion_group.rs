//! `FusionGroup`: the calls of a rewritten function that run as one, as Python has them.

use crate::code_forms::{gpu_target, llvm_form, text_of_all};
use crate::external_key::ObjectGuard;
use crate::fused_calls::FusedCalls;
use crate::group_calls::{GroupCall, OperandSource};
use crate::group_plan::GroupPlan;
use crate::numpy_calls::{NumpyCall, in_numpy};
use crate::op_errors::{fusion_error, graph_error};
use crate::path_choice::pin;
use crate::path_report::{describe, measure_now};
use crate::staged_calls::{CallSource, Callee, StageForm, StagedCalls};
use crate::tensor_graph::TensorGraph;
use polyloom::graph::TensorOp;
use polyloom::graph::plan::KernelSummary;
use polyloom::{EmitOptions, FloatMode, Form};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit, ffi};
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of ops that run as one.
///
/// Parameters
/// ----------
/// name : str
///     The name, in errors and profiles.
/// calls : list
///     Of each call the op's name, or a function such as a `polyloom.op`, its operands by position, and those by name. An
///     operand is `("in", i)`, a value that the group is given; `("call", j)`, the result of call j; `("const", value)`, a
///     literal; or `("list", [...])`. A call of NumPy has a fourth part: the callee, its own operands by position and by name,
///     and whether the result is a view.
/// outputs : list of int
///     The calls whose results are given.
/// guards : list, optional
///     What must hold: `(holder, name, object)` says that the name in a dictionary, or in the namespace of an object, is
///     still this very object; with `None` for the name, that a cell still has it.
/// float_mode : str
///     `"strict"`, `"contract"` or `"fast"`.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct FusionGroup {
    name: String,
    calls: GroupBody,
    n_externals: usize,
    n_calls: usize,
    /// For each output whether NumPy gives a number where it has no axes; empty if none is of NumPy.
    numpy_outputs: Vec<bool>,
    guards: Vec<ObjectGuard>,
    n_runs: AtomicU64,
}

/// Says what a group runs.
enum GroupBody {
    /// All calls as one.
    Fused(FusedCalls),
    /// Some calls are of the program's own kernels.
    Staged(StagedCalls),
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
        let mut sources: Vec<CallSource> = Vec::new();
        for call in calls.try_iter()? {
            let call = call?;
            let (op, args, kwargs) = (call.get_item(0)?, call.get_item(1)?, call.get_item(2)?);
            let kwargs = kwargs.cast_into::<PyDict>()?;
            let of_numpy = if call.len()? > 3 { Some(call.get_item(3)?) } else { None };
            let callee = match op.extract::<String>() {
                Ok(name) => Callee::Op(TensorOp::from_name(&name).map_err(|error| graph_error(&error))?),
                Err(_) => Callee::Function(op.unbind()),
            };
            let mut reader = OperandReader { n_calls: sources.len(), n_externals: &mut n_externals };
            let args = args.try_iter()?.map(|arg| reader.read(&arg?)).collect::<PyResult<Vec<_>>>()?;
            let mut keywords = Vec::new();
            for (name, value) in kwargs.iter() {
                keywords.push((name.extract::<String>()?, reader.read(&value)?));
            }
            let numpy = of_numpy.map(|described| -> PyResult<NumpyCall> {
                type Described<'py> = (Bound<'py, PyAny>, Bound<'py, PyList>, Bound<'py, PyDict>, bool);
                let (callee, args, kwargs, is_view): Described<'_> = described.extract()?;
                let args = args.iter().map(|arg| reader.read(&arg)).collect::<PyResult<Vec<_>>>()?;
                let mut keywords = Vec::new();
                for (name, value) in kwargs.iter() {
                    keywords.push((name.extract::<String>()?, reader.read(&value)?));
                }
                Ok(NumpyCall { callee: callee.unbind(), args, keywords, is_view })
            });
            sources.push(CallSource { callee, args, keywords, numpy: numpy.transpose()? });
        }
        if let Some(output) = outputs.iter().find(|&&output| output >= sources.len()) {
            return Err(PyValueError::new_err(format!("the group has no call {output}")));
        }
        let mut object_guards = Vec::new();
        for guard in guards.map(|guards| guards.try_iter()).transpose()?.into_iter().flatten() {
            let (holder, name, expected): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>, Bound<'_, PyAny>) =
                guard?.extract()?;
            object_guards.push(ObjectGuard::new(holder, name, expected)?);
        }
        let n_calls = sources.len();
        let mut numpy_outputs: Vec<bool> = outputs.iter().map(|&output| sources[output].numpy.is_some()).collect();
        if !numpy_outputs.contains(&true) {
            numpy_outputs.clear();
        }
        let calls = if sources.iter().any(|call| matches!(call.callee, Callee::Function(_))) {
            if sources.iter().any(|call| call.numpy.is_some()) {
                return Err(PyTypeError::new_err("a group calls NumPy and kernels of the program"));
            }
            GroupBody::Staged(StagedCalls::new(&name, sources, outputs, float_mode)?)
        } else {
            let mut calls = Vec::with_capacity(n_calls);
            for CallSource { callee, args, keywords, numpy } in sources {
                if let Callee::Op(op) = callee {
                    calls.push(match numpy {
                        Some(numpy) => GroupCall::of_numpy(op, args, keywords, numpy)?,
                        None => GroupCall::new(op, args, keywords)?,
                    });
                }
            }
            GroupBody::Fused(FusedCalls::new(name.clone(), calls, outputs, n_externals, float_mode))
        };
        Ok(FusionGroup {
            name,
            calls,
            n_externals,
            n_calls,
            numpy_outputs,
            guards: object_guards,
            n_runs: AtomicU64::new(0),
        })
    }

    /// The results of the calls for these values: that of the one output, or a tuple. None if a guard does not hold, or the
    /// values are not ones that the calls take: nothing has run then.
    #[pyo3(signature = (*values))]
    fn __call__<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = values.py();
        self.check_count(values.len())?;
        if !self.guards.iter().all(|guard| guard.holds(py)) {
            return Ok(None);
        }
        let args: SmallVec<[*mut ffi::PyObject; 8]> = values.iter_borrowed().map(|value| value.as_ptr()).collect();
        let results = match &self.calls {
            // SAFETY: the tuple keeps them alive.
            GroupBody::Fused(calls) => unsafe { calls.run(py, &args, false) },
            GroupBody::Staged(calls) => calls.run(py, &values.iter().collect::<Vec<_>>()),
        }?;
        self.n_runs.fetch_add(u64::from(results.is_some()), Ordering::Relaxed);
        results.map(|results| self.in_numpy(results)).transpose()
    }

    /// Says how often the group has run.
    #[getter]
    fn n_runs(&self) -> u64 {
        self.n_runs.load(Ordering::Relaxed)
    }

    /// Returns true if the calls up to one would take these values, the first of the external ones, as far as is known.
    /// Nothing runs.
    #[pyo3(signature = (call, *values))]
    fn check(&self, py: Python<'_>, call: usize, values: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
        if call >= self.n_calls {
            return Err(PyValueError::new_err(format!("the group has no call {call}")));
        }
        if !self.guards.iter().all(|guard| guard.holds(py)) {
            return Ok(false);
        }
        match &self.calls {
            GroupBody::Fused(calls) => calls.check(py, call, &values),
            GroupBody::Staged(calls) => calls.check(py, call, &values),
        }
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Says how often a plan was known, how often not, and the number of plans.
    fn cache_info(&self) -> (u64, u64, usize) {
        self.fused().iter().fold((0, 0, 0), |(hits, misses, plans), calls| {
            let [n_hits, n_misses] = [&calls.n_hits, &calls.n_misses].map(|counter| counter.load(Ordering::Relaxed));
            (hits + n_hits, misses + n_misses, plans + calls.n_plans())
        })
    }

    /// Forgets all plans.
    fn cache_clear(&self) {
        self.fused().iter().for_each(|calls| calls.clear());
    }

    /// Returns true if the types of the values are known, from a call or because a form has been asked for.
    #[getter]
    fn is_planned(&self) -> bool {
        self.fused().iter().all(|calls| calls.last_plan().is_some())
    }

    /// The kernels for these values in HIR, or `prepared` for back ends. Without values they are those of the last call,
    /// here and in the other forms; several kernels each stand under a comment with their number and name.
    #[pyo3(signature = (*values, prepared = false))]
    fn hir(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>, prepared: bool) -> PyResult<String> {
        let form = if prepared { Form::HirPrepared } else { Form::Hir };
        self.text(py, values, form, &EmitOptions::default())
    }

    /// The kernels in LLVM IR, as `Kernel.llvm_ir` gives it: for the CPU, or for the GPU architecture that is named.
    #[pyo3(signature = (*values, optimized = true, arch = None))]
    fn llvm_ir(
        &self,
        py: Python<'_>,
        values: Vec<Bound<'_, PyAny>>,
        optimized: bool,
        arch: Option<&str>,
    ) -> PyResult<String> {
        let target = arch.map(|arch| gpu_target(Some(arch), None, None, false, false)).transpose()?;
        let (form, options) = llvm_form(optimized, target);
        self.text(py, values, form, &options)
    }

    /// The kernels as C++ that compiles by itself.
    #[pyo3(signature = (*values))]
    fn cpp(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
        self.text(py, values, Form::Cpp, &EmitOptions::default())
    }

    /// The kernels as CUDA C++ that compiles by itself, for NVRTC and nvcc.
    #[pyo3(signature = (*values))]
    fn cuda(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
        self.text(py, values, Form::Cuda, &EmitOptions::default())
    }

    /// The kernels' PTX for a GPU architecture, `sm_75` to `sm_121`, with the options of `Kernel.ptx`: each kernel is a
    /// module of its own.
    #[pyo3(signature = (*values, arch = None, ptx_version = None, dense = false, grid_stride = false))]
    fn ptx(
        &self,
        py: Python<'_>,
        values: Vec<Bound<'_, PyAny>>,
        arch: Option<&str>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
    ) -> PyResult<String> {
        let target = gpu_target(arch, None, ptx_version, dense, grid_stride)?;
        self.text(py, values, Form::Ptx, &EmitOptions::for_gpu(target))
    }

    /// The kernels' machine code for the CPU, as assembly text.
    #[pyo3(signature = (*values))]
    fn asm(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
        self.text(py, values, Form::Asm, &EmitOptions::default())
    }

    /// The graph of the calls for these values, or without values for those of the last call.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If an op does not take the values, or if the group calls kernels of the program.
    #[pyo3(signature = (*values))]
    fn tensor_graph(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<TensorGraph> {
        let plan = self.plan(py, self.one()?, values)?;
        let graph = plan.graph().cloned();
        Ok(TensorGraph { graph: graph.ok_or_else(|| PyTypeError::new_err("an op does not take the values"))? })
    }

    /// Returns what identifies the group: its calls in canonical form, with the element types and numbers of axes of the values.
    #[pyo3(signature = (*values))]
    fn _identity(&self, py: Python<'_>, values: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
        let mut text = String::new();
        match &self.calls {
            GroupBody::Fused(calls) => {
                text.push_str(&calls.canonical_text(py)?);
                self.plan(py, calls, values)?.write_types(py, &mut text)?;
            }
            GroupBody::Staged(calls) => {
                self.check_no_values(&values)?;
                for stage in calls.stages(py)? {
                    match stage {
                        StageForm::Fused(calls) => {
                            text.push_str(&calls.canonical_text(py)?);
                            calls.plan_for(py, Vec::new())?.write_types(py, &mut text)?;
                        }
                        StageForm::Kernel(kernel) => {
                            kernel.hash().iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
                            text.push('\n');
                        }
                    }
                }
            }
        }
        Ok(text)
    }

    /// The plan of the last call, as JSON: for each stage its `kernels` with name and size, the `decisions` of the
    /// planner with the costs that they compare, and the bytes that the ops would move one by one.
    fn _explanation(&self, py: Python<'_>) -> PyResult<String> {
        let mut stages = Vec::new();
        for calls in self.fused() {
            let Some(plan) = calls.last_plan() else { continue };
            let Some(explained) = py.detach(|| plan.explain()) else { continue };
            let explained = explained.map_err(|error| fusion_error(py, &self.name, &error, None))?;
            let summary = |kernel: &KernelSummary| json!({"name": kernel.name, "n_bytes": kernel.n_bytes, "text": kernel.to_string()});
            let kernels: Vec<_> = explained.kernels.iter().map(summary).collect();
            let decisions: Vec<_> = explained.decisions.iter().map(ToString::to_string).collect();
            stages.push(json!({
                "text": explained.summary(),
                "kernels": kernels,
                "decisions": decisions,
                "n_bytes_by_op": explained.n_bytes_by_op,
            }));
        }
        Ok(Value::Array(stages).to_string())
    }

    /// Says by which policy paths are chosen, by its number.
    fn _set_policy(&self, policy: u32) {
        self.fused().iter().for_each(|calls| calls.set_policy(policy));
    }

    /// The candidates of the plans that were used last, as JSON: a list with one entry for each stage.
    #[pyo3(signature = (n_paths = 16))]
    fn _paths(&self, py: Python<'_>, n_paths: usize) -> PyResult<String> {
        let mut stages = Vec::new();
        for calls in self.fused() {
            if let Some(plan) = calls.last_plan() {
                stages.push(describe(py, calls, &plan, n_paths)?);
            }
        }
        Ok(Value::Array(stages).to_string())
    }

    /// Measures the candidates of the plans that were used last, for so many seconds each, and returns how many were.
    #[pyo3(signature = (budget, n_paths = 16))]
    fn _measure_paths(&self, py: Python<'_>, budget: f64, n_paths: usize) -> PyResult<u64> {
        let mut n_traces = 0;
        for calls in self.fused() {
            if let Some(plan) = calls.last_plan() {
                n_traces += measure_now(py, &plan, calls.policy(), budget, n_paths)?;
            }
        }
        Ok(n_traces)
    }

    /// Makes the plans that were used last run a path, given as the JSON of its recipe, or without one their own. It stays
    /// until something is measured of them.
    #[pyo3(signature = (recipe = None))]
    fn _pin_path(&self, py: Python<'_>, recipe: Option<&str>) -> PyResult<()> {
        for calls in self.fused() {
            if let Some(plan) = calls.last_plan() {
                pin(py, &plan, calls.policy(), recipe)?;
            }
        }
        Ok(())
    }

    /// The results by the evaluator that defines the ops, for tests: of each element type, extents, and bits.
    #[pyo3(signature = (*values))]
    fn _evaluate<'py>(&self, py: Python<'py>, values: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        self.check_count(values.len())?;
        let results = PyList::empty(py);
        for tensor in self.one()?.evaluate(py, values)? {
            results.append((tensor.dtype.python_name(), tensor.extents, tensor.bits))?;
        }
        Ok(results)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.guards.iter().flat_map(ObjectGuard::objects).try_for_each(|object| visit.call(object))?;
        match &self.calls {
            GroupBody::Staged(calls) => calls.functions().try_for_each(|function| visit.call(function)),
            GroupBody::Fused(_) => Ok(()),
        }
    }
}

impl FusionGroup {
    /// Returns the calls that run as one, of each stage.
    fn fused(&self) -> Vec<&FusedCalls> {
        match &self.calls {
            GroupBody::Fused(calls) => vec![calls],
            GroupBody::Staged(calls) => calls.fused().collect(),
        }
    }

    fn text(
        &self,
        py: Python<'_>,
        values: Vec<Bound<'_, PyAny>>,
        form: Form,
        options: &EmitOptions,
    ) -> PyResult<String> {
        let mut kernels = Vec::new();
        match &self.calls {
            GroupBody::Fused(calls) => kernels.extend(self.plan(py, calls, values)?.kernels()),
            GroupBody::Staged(calls) => {
                self.check_no_values(&values)?;
                for stage in calls.stages(py)? {
                    match stage {
                        StageForm::Fused(calls) => kernels.extend(calls.plan_for(py, Vec::new())?.kernels()),
                        StageForm::Kernel(kernel) => kernels.push(kernel),
                    }
                }
            }
        }
        text_of_all(py, &kernels, form, options)
    }

    /// The plan for values, or without values that of the last call.
    fn plan(&self, py: Python<'_>, calls: &FusedCalls, values: Vec<Bound<'_, PyAny>>) -> PyResult<Arc<GroupPlan>> {
        if !values.is_empty() {
            self.check_count(values.len())?;
        }
        calls.plan_for(py, values)
    }

    /// Refuses values of a group in stages, because those of a later stage are known only once a kernel has run.
    fn check_no_values(&self, values: &[Bound<'_, PyAny>]) -> PyResult<()> {
        if values.is_empty() {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!(
            "`{}` calls kernels of the program between its ops: call the function, and then ask without values",
            self.name
        )))
    }

    /// Returns results as NumPy gives them.
    fn in_numpy<'py>(&self, results: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.numpy_outputs[..] {
            [] => Ok(results),
            [_] => in_numpy(results),
            outputs => {
                let results = results.cast_into::<PyTuple>()?;
                let py = results.py();
                let pairs = results.iter().zip(outputs);
                let results = pairs.map(|(result, is_numpy)| if *is_numpy { in_numpy(result) } else { Ok(result) });
                Ok(PyTuple::new(py, results.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
        }
    }

    fn one(&self) -> PyResult<&FusedCalls> {
        match &self.calls {
            GroupBody::Fused(calls) => Ok(calls),
            GroupBody::Staged(_) => Err(PyTypeError::new_err("the group calls kernels of the program between its ops")),
        }
    }

    fn check_count(&self, given: usize) -> PyResult<()> {
        let wanted = self.n_externals;
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
