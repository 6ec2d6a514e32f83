//! Calls of ops that run as one: from Python's values to a plan, which is found again by their types.
//!
//! A call whose plan is known looks at each value once, compares, makes the memory of the results, and launches. It
//! allocates nothing else and runs no Python code. Any other call infers types, plans, and compiles.

use crate::boundary::guarded;
use crate::external_key::{ExternalKey, RunValues};
use crate::graph_trace::{GraphTrace, TraceState, innermost_trace, traced};
use crate::group_calls::{CallBuilder, ExternalType, GroupCall, OperandSource, literal};
use crate::group_plan::{GroupPlan, PlannedGraph, ResultPlacement};
use crate::numpy_calls::{check_operand, has_plain_errors};
use crate::op_errors::{fusion_error, graph_error};
use crate::path_choice::{
    DEFAULT_POLICY, PROCESS_POLICY, give_up, is_interrupt, note_workload, path_choice, process_policy,
};
use crate::recorded_tasks::run_recorded;
use crate::session;
use crate::sim_settings::SimSettings;
use crate::tensor_operand::plain_tensor;
use crate::tensor_view::{TensorPackage, TensorView, view_of};
use crate::value_types::{ExternalUse, MixedDevices, ValueTypes};
use polyloom::fusion::{evaluate_at, plan_options};
use polyloom::graph::reference::DenseTensor;
use polyloom::graph::{Graph, Layout, TensorOp, TensorOperand};
use polyloom::tensor_op::OpParameterRole;
use polyloom::{DeviceId, FloatMode};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that are kept of a group, those that were used last.
const MAX_PLANS: usize = 64;

/// Values that calls up to one have been checked with: a group that runs at its last call is checked at each call before.
struct CheckedValues {
    call: usize,
    keys: Vec<ExternalKey>,
}

/// Calls that run as one.
pub(crate) struct FusedCalls {
    pub(crate) name: String,
    pub(crate) calls: Vec<GroupCall>,
    outputs: Vec<usize>,
    /// True if some calls are of NumPy.
    has_numpy: bool,
    externals: Vec<ExternalUse>,
    float_mode: FloatMode,
    /// The plan that was used last is the first.
    plans: Mutex<Vec<Arc<GroupPlan>>>,
    /// The values that were checked last are at the end.
    checked: Mutex<Vec<CheckedValues>>,
    pub(crate) n_hits: AtomicU64,
    pub(crate) n_misses: AtomicU64,
    /// The number of the policy by which paths are chosen, or that of the process.
    policy: AtomicU32,
}

/// Says what the calls are for certain values.
struct ValueGraph {
    graph: Graph,
    keys: Vec<ExternalKey>,
    /// The values that are the inputs, in their order.
    tensors: Vec<usize>,
    layouts: Vec<Layout>,
    package: TensorPackage,
    device: DeviceId,
    is_resident: Vec<bool>,
}

impl FusedCalls {
    pub(crate) fn new(
        name: String,
        calls: Vec<GroupCall>,
        outputs: Vec<usize>,
        n_externals: usize,
        float_mode: FloatMode,
    ) -> FusedCalls {
        let mut externals = vec![ExternalUse::default(); n_externals];
        for call in &calls {
            call.visit_externals(&mut |index, role| match role {
                OpParameterRole::Attribute(_) => externals[index].is_attribute = true,
                _ => externals[index].is_tensor = true,
            });
        }
        let (n_hits, n_misses) = (AtomicU64::new(0), AtomicU64::new(0));
        let (plans, checked) = (Mutex::default(), Mutex::default());
        let has_numpy = calls.iter().any(|call| call.numpy.is_some());
        let policy = AtomicU32::new(PROCESS_POLICY);
        FusedCalls { name, calls, outputs, has_numpy, externals, float_mode, plans, checked, n_hits, n_misses, policy }
    }

    /// Says by which policy paths are chosen.
    pub(crate) fn set_policy(&self, policy: u32) {
        self.policy.store(policy, Ordering::Relaxed);
    }

    /// The policy by which paths are chosen.
    #[inline]
    pub(crate) fn policy(&self) -> u32 {
        match self.policy.load(Ordering::Relaxed) {
            PROCESS_POLICY => process_policy(),
            policy => policy,
        }
    }

    /// Runs the plan for values, or the path that the policy has chosen for it.
    ///
    /// # Errors
    ///
    /// As [`GroupPlan::run`].
    ///
    /// # Safety
    ///
    /// As [`GroupPlan::run`].
    #[inline]
    unsafe fn run_plan<'py>(
        &self,
        py: Python<'py>,
        plan: &Arc<GroupPlan>,
        args: &[*mut ffi::PyObject],
        values: &RunValues,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let policy = self.policy();
        if policy == DEFAULT_POLICY {
            // SAFETY: passed on to the caller.
            return unsafe { plan.run(py, &self.name, args, values) };
        }
        let choice = path_choice(py, plan, policy)?;
        match &choice.path {
            Some(path) => {
                // SAFETY: passed on to the caller.
                let run = unsafe { plan.run_path(py, &self.name, args, values, path) };
                match run {
                    Err(error) if !is_interrupt(py, &error) => {
                        give_up(py, plan, policy, &error);
                        // SAFETY: passed on to the caller.
                        unsafe { plan.run(py, &self.name, args, values) }
                    }
                    run => run,
                }
            }
            // SAFETY: passed on to the caller.
            None => unsafe { plan.run(py, &self.name, args, values) },
        }
    }

    /// The number of plans that are known.
    pub(crate) fn n_plans(&self) -> usize {
        self.plans().len()
    }

    /// Forgets all plans.
    pub(crate) fn clear(&self) {
        // They are dropped without the lock, because objects may run code when they die.
        let plans = std::mem::take(&mut *self.plans());
        let checked = std::mem::take(&mut *self.checked());
        drop((plans, checked));
    }

    fn plans(&self) -> std::sync::MutexGuard<'_, Vec<Arc<GroupPlan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checked(&self) -> std::sync::MutexGuard<'_, Vec<CheckedValues>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the calls up to one have been checked with such values.
    fn has_checked(&self, py: Python<'_>, call: usize, values: &[Bound<'_, PyAny>]) -> bool {
        let args: SmallVec<[*mut ffi::PyObject; 8]> = values.iter().map(Bound::as_ptr).collect();
        let mut held = SmallVec::new();
        // SAFETY: `values` keeps the objects alive. Views are used below alone, where no Python code runs.
        let views = unsafe { views_of(py, &args, &mut held) };
        let mut run = RunValues::default();
        let checked = self.checked();
        checked.iter().rev().any(|each| {
            let mut all = each.keys.iter().zip(&args).zip(&views);
            // SAFETY: as above.
            each.call == call
                && each.keys.len() == args.len()
                && all.all(|((key, &arg), view)| unsafe { key.matches(arg, view, &mut run) })
        })
    }

    /// Runs the calls, and gives their results; nothing if the values are refused and `raises` is false.
    ///
    /// # Errors
    ///
    /// Those of the ops, if `raises`; `MemoryError` and what a signal handler raised meanwhile in any case.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, as many as there are external values, and stay so until this returns.
    #[inline]
    pub(crate) unsafe fn run<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut ffi::PyObject],
        raises: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        run_recorded(py)?;
        guarded(|| {
            if self.has_numpy && !has_plain_errors(py)? {
                return Ok(None);
            }
            let mut values = RunValues::default();
            // SAFETY: passed on to the caller.
            unsafe {
                match self.find(py, args, &mut values) {
                    Some(plan) if !(raises && plan.is_refused()) => {
                        self.n_hits.fetch_add(1, Ordering::Relaxed);
                        self.run_plan(py, &plan, args, &values)
                    }
                    _ => self.run_new(py, args, raises),
                }
            }
        })
        .or_else(|error| if raises || is_not_refusal(py, &error) { Err(error) } else { Ok(None) })
    }

    /// Finds the plan for values.
    ///
    /// # Safety
    ///
    /// As [`FusedCalls::run`].
    #[inline]
    unsafe fn find(
        &self,
        py: Python<'_>,
        args: &[*mut ffi::PyObject],
        values: &mut RunValues,
    ) -> Option<Arc<GroupPlan>> {
        let mut held = SmallVec::new();
        // SAFETY: passed on to the caller. Views are used below alone, where no Python code runs.
        let views = unsafe { views_of(py, args, &mut held) };
        let mut plans = self.plans();
        // SAFETY: as above.
        let index = plans.iter().position(|plan| unsafe { plan.is_for(args, &views, values) })?;
        if index > 0 {
            plans[..=index].rotate_right(1);
        }
        Some(plans[0].clone())
    }

    /// Runs the calls on values for which there is no plan as they are.
    ///
    /// # Safety
    ///
    /// As [`FusedCalls::run`].
    #[cold]
    unsafe fn run_new<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut ffi::PyObject],
        raises: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // SAFETY: passed on to the caller.
        let objects: Vec<Bound<'py, PyAny>> =
            args.iter().map(|&arg| unsafe { Bound::from_borrowed_ptr(py, arg) }).collect();
        if let Some(trace) = innermost_trace(&objects) {
            // A group is left to the code as it is written, whose ops are added one by one.
            return if raises { self.trace(&trace, objects).map(Some) } else { Ok(None) };
        }
        let objects = self.plain_objects(py, objects)?;
        let args: SmallVec<[*mut ffi::PyObject; 8]> = objects.iter().map(Bound::as_ptr).collect();
        let mut values = RunValues::default();
        // SAFETY: `objects` keeps them alive.
        if let Some(plan) = unsafe { self.find(py, &args, &mut values) }
            && !plan.is_refused()
        {
            // SAFETY: as above.
            return unsafe { self.run_plan(py, &plan, &args, &values) };
        }
        self.n_misses.fetch_add(1, Ordering::Relaxed);
        let plan = match self.plan(py, &objects) {
            Ok(plan) => self.keep(plan),
            Err(error) => {
                // The next call with such values need not look at them for long.
                if !is_not_refusal(py, &error)
                    && let Ok(keys) = self.keys_of(py, &objects)
                {
                    self.keep(GroupPlan::refused(keys));
                }
                return Err(error);
            }
        };
        let mut held = SmallVec::new();
        // SAFETY: as above. The views end before what they borrow.
        let views = unsafe { views_of(py, &args, &mut held) };
        plan.take_values(&views, &mut values);
        drop(views);
        note_workload(py, &plan);
        // SAFETY: as above.
        unsafe { self.run_plan(py, &plan, &args, &values) }
    }

    /// Adds the calls to a trace.
    fn trace<'py>(
        &self,
        trace: &Bound<'py, GraphTrace>,
        objects: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = trace.py();
        let objects = self.plain_objects(py, objects)?;
        let id = trace.get().with_state(|state| {
            let (mut types, mut inputs) = (Vec::new(), Vec::new());
            for (index, (object, external)) in objects.iter().zip(&self.externals).enumerate() {
                let found = match external.is_tensor {
                    true => state.operand(trace, object).map_err(|error| self.named_error(py, index, error))?,
                    false => None,
                };
                let ty = match found {
                    Some(id) => {
                        ExternalType::Tensor(state.builder.ty(id).cloned().map_err(|error| graph_error(&error))?)
                    }
                    None => self.traced_number(state, object, *external),
                };
                types.push(ty);
                inputs.push(found);
            }
            let mut builder =
                CallBuilder::continue_graph(py, std::mem::take(&mut state.builder), &types, &objects, inputs);
            let done = self.calls.iter().try_for_each(|call| builder.push(call));
            let result = builder.results.get(self.outputs[0]).copied();
            state.builder = builder.builder;
            done.map(|()| result)
        })?;
        let id = id.ok_or_else(|| PyTypeError::new_err(format!("`{}` has no result", self.name)))?;
        traced(trace, id)
    }

    /// Returns the type of a value that is no tensor. A number is given at each run, so that one that differs from call to call, such as
    /// a rate, needs no plan of its own; exponents and small numbers are constants, because rules and kernels are simpler with them.
    fn traced_number(&self, state: &mut TraceState, object: &Bound<'_, PyAny>, external: ExternalUse) -> ExternalType {
        let Some(number) = literal(object) else { return ExternalType::Other };
        let has_power = self.calls.iter().any(|call| call.op == TensorOp::Power);
        let (is_float, is_small) = match number {
            TensorOperand::Float(value) => (true, (value * 2.0).abs() <= 4.0 && (value * 2.0).fract() == 0.0),
            TensorOperand::Int(value) => (false, value.unsigned_abs() <= 2),
            _ => return ExternalType::Number(number),
        };
        if has_power || is_small || external.is_attribute {
            return ExternalType::Number(number);
        }
        let index = state.numbers.len() as u32;
        state.numbers.push(object.clone().unbind());
        ExternalType::Number(TensorOperand::Number { index, is_float })
    }

    fn keep(&self, plan: GroupPlan) -> Arc<GroupPlan> {
        let plan = Arc::new(plan);
        let mut plans = self.plans();
        plans.insert(0, plan.clone());
        let oldest = if plans.len() > MAX_PLANS { plans.pop() } else { None };
        drop(plans);
        drop(oldest);
        plan
    }

    /// Brings values to tensors that plans take as they are: NumPy's scalars to arrays, and arrays in foreign byte order
    /// to copies.
    fn plain_objects<'py>(
        &self,
        py: Python<'py>,
        mut objects: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        for (index, (object, external)) in objects.iter_mut().zip(&self.externals).enumerate() {
            if self.has_numpy && external.is_tensor {
                check_operand(object)?;
            }
            if external.is_tensor && !external.is_attribute {
                *object = plain_tensor(py, object).map_err(|error| self.named_error(py, index, error))?;
            } else if object.cast::<PyType>().is_err() && object.hasattr(intern!(py, "tolist"))? {
                // NumPy's numbers and arrays as Python's.
                *object = object.call_method0(intern!(py, "tolist"))?;
            }
        }
        Ok(objects)
    }

    /// The error of a value with the first op and argument that it is of.
    fn named_error(&self, py: Python<'_>, external: usize, error: PyErr) -> PyErr {
        let argument = self.calls.iter().find_map(|call| Some((call.op, call.argument_name(external)?)));
        let Some((op, name)) = argument else { return error };
        let message = format!("`{}`: `{name}` {}", op.name(), error.value(py));
        match error.is_instance_of::<PyTypeError>(py) {
            true => PyTypeError::new_err(message),
            false if error.is_instance_of::<PyValueError>(py) => PyValueError::new_err(message),
            false => error,
        }
    }

    fn plan(&self, py: Python<'_>, objects: &[Bound<'_, PyAny>]) -> PyResult<GroupPlan> {
        let ValueGraph { graph, keys, tensors, layouts, package, device, is_resident } =
            self.graph(py, objects, true)?;
        let options = plan_options(device, SimSettings::get().arch, self.float_mode);
        let session = session()?;
        let plan = py.detach(|| session.fused_plan(&graph, &layouts, &options));
        let plan = plan.map_err(|error| fusion_error(py, &self.name, &error, None))?;
        let memory = ResultPlacement { package, device, is_resident };
        GroupPlan::new(py, &self.name, keys, PlannedGraph { graph, layouts, options }, plan, &tensors, memory)
    }

    /// Returns the keys of values.
    fn keys_of(&self, py: Python<'_>, objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<ExternalKey>> {
        self.types_of(py, objects, true).map(|types| types.keys)
    }

    /// Builds the graph of the calls for values. With `gives_numbers`, Python numbers are given at each run.
    fn graph(&self, py: Python<'_>, objects: &[Bound<'_, PyAny>], gives_numbers: bool) -> PyResult<ValueGraph> {
        let found = self.types_of(py, objects, gives_numbers)?;
        let device = found.device();
        let ValueTypes { types, keys, tensors, layouts, package, is_resident, .. } = found;
        let mut builder = CallBuilder::new(py, &types, objects)?;
        for call in &self.calls {
            builder.push(call)?;
        }
        if self.has_numpy && package != TensorPackage::NumPy {
            return Err(PyTypeError::new_err("is not an array of NumPy"));
        }
        self.check_placeless(&types, package, device)?;
        let graph = builder.finish(&self.outputs)?;
        Ok(ValueGraph { graph, keys, tensors, layouts, package, device, is_resident })
    }

    /// Refuses calls such as `iota(8)`, which are of no tensor, where the group would put their results elsewhere than they
    /// put them by themselves: in an array of NumPy.
    fn check_placeless(&self, types: &[ExternalType], package: TensorPackage, device: DeviceId) -> PyResult<()> {
        if package == TensorPackage::NumPy {
            return Ok(());
        }
        let mut is_placed: Vec<bool> = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let mut found = false;
            call.visit_sources(&mut |source| match source {
                OperandSource::External(index) => found |= matches!(types[*index], ExternalType::Tensor(_)),
                OperandSource::Call(earlier) => found |= is_placed[*earlier],
                OperandSource::Constant(_) | OperandSource::List(_) => {}
            });
            is_placed.push(found);
        }
        let unplaced = match device {
            DeviceId::Cpu => self.outputs.iter().copied().find(|&output| !is_placed[output]),
            _ => is_placed.iter().position(|is_placed| !is_placed),
        };
        match unplaced {
            None => Ok(()),
            Some(call) => {
                let name = self.calls[call].op.name();
                Err(PyTypeError::new_err(format!("`{name}` gives an array of NumPy here, beside others")))
            }
        }
    }

    /// Looks at the types of values.
    fn types_of(&self, py: Python<'_>, objects: &[Bound<'_, PyAny>], gives_numbers: bool) -> PyResult<ValueTypes> {
        let mut found = ValueTypes::default();
        let mut n_numbers = 0;
        for (index, (object, external)) in objects.iter().zip(&self.externals).enumerate() {
            found.push(py, index, object, *external, gives_numbers, &mut n_numbers)?;
        }
        match found.mixed {
            None => Ok(found),
            Some(mixed) => Err(self.mixed_devices(py, mixed)),
        }
    }

    /// The error of values on different devices, which names both arguments.
    fn mixed_devices(&self, py: Python<'_>, mixed: MixedDevices) -> PyErr {
        let MixedDevices { first: (device, first), other: (other_device, other) } = mixed;
        let beside = self.calls.iter().find_map(|call| Some((call.op, call.argument_name(first)?)));
        let beside = beside.map_or_else(String::new, |(op, name)| format!(", and `{name}` of `{}`", op.name()));
        let reason = format!(
            "is on device '{other_device}'{beside} on '{device}': bring both to one, by .to('{device}') or .to('{other_device}')"
        );
        self.named_error(py, other, PyValueError::new_err(reason))
    }

    /// Returns true if the calls up to this one would take these values, the first of the external ones, as far as is known.
    pub(crate) fn check<'py>(&self, py: Python<'py>, call: usize, values: &[Bound<'py, PyAny>]) -> PyResult<bool> {
        let check = || {
            if self.has_numpy && !has_plain_errors(py)? {
                return Err(PyTypeError::new_err("floating-point errors raise"));
            }
            if self.has_checked(py, call, values) {
                return Ok(());
            }
            let Some(keys) = self.infer_up_to(py, call, values)? else { return Ok(()) };
            let mut checked = self.checked();
            checked.push(CheckedValues { call, keys });
            let oldest = if checked.len() > MAX_PLANS * self.calls.len() { Some(checked.remove(0)) } else { None };
            drop(checked);
            // It is dropped without the lock, because objects may run code when they die.
            drop(oldest);
            Ok(())
        };
        match guarded(check) {
            Err(error) if is_not_refusal(py, &error) => Err(error),
            found => Ok(found.is_ok()),
        }
    }

    /// Infers the types of the calls up to one, and returns the keys of the values, if it depends on nothing else of them.
    fn infer_up_to<'py>(
        &self,
        py: Python<'py>,
        call: usize,
        values: &[Bound<'py, PyAny>],
    ) -> PyResult<Option<Vec<ExternalKey>>> {
        let mut objects = values.to_vec();
        objects.resize(self.externals.len(), py.None().into_bound(py));
        let mut uses = vec![ExternalUse::default(); self.externals.len()];
        for earlier in &self.calls[..=call] {
            earlier.visit_externals(&mut |index, _| uses[index] = self.externals[index]);
        }
        let mut found = ValueTypes::default();
        let mut n_numbers = 0;
        for (index, external) in uses.iter().enumerate() {
            if self.has_numpy && external.is_tensor {
                check_operand(&objects[index])?;
            }
            if external.is_tensor && !external.is_attribute {
                objects[index] = plain_tensor(py, &objects[index])?;
            }
            found.push(py, index, &objects[index], *external, true, &mut n_numbers)?;
            if external.is_tensor && found.types[index] == ExternalType::Other && !objects[index].is_none() {
                return Err(PyTypeError::new_err("is not a tensor or a number"));
            }
        }
        if let Some(mixed) = found.mixed {
            return Err(self.mixed_devices(py, mixed));
        }
        let mut builder = CallBuilder::new(py, &found.types, &objects)?;
        self.calls[..=call].iter().try_for_each(|earlier| builder.push(earlier))?;
        // A value that no call takes yet would be kept for the sake of its key.
        let is_taken = |external: &ExternalUse| external.is_tensor || external.is_attribute;
        found.keys.truncate(values.len());
        Ok(uses.iter().take(values.len()).all(is_taken).then_some(found.keys))
    }

    /// Evaluates the calls by the evaluator that defines them.
    ///
    /// # Errors
    ///
    /// As [`FusedCalls::run`].
    pub(crate) fn evaluate<'py>(&self, py: Python<'py>, objects: Vec<Bound<'py, PyAny>>) -> PyResult<Vec<DenseTensor>> {
        let objects = self.plain_objects(py, objects)?;
        let ValueGraph { graph, tensors, layouts, device, .. } = self.graph(py, &objects, false)?;
        if device != DeviceId::Cpu {
            return Err(PyValueError::new_err("the evaluator takes arrays in the host's memory"));
        }
        let mut held = SmallVec::new();
        let mut addresses = Vec::new();
        for &index in &tensors {
            // SAFETY: `objects` keeps it alive, and its address alone is used later.
            if let TensorView::Tensor(fields) = unsafe { view_of(py, objects[index].as_ptr(), &mut held) } {
                addresses.push(fields.address);
            }
        }
        // SAFETY: `objects` keeps the tensors alive, whose layouts these are.
        unsafe { evaluate_at(&graph, &layouts, &addresses) }.map_err(|error| graph_error(&error))
    }

    /// The plan for values, which becomes the one that was used last; without values, the one that was.
    ///
    /// # Errors
    ///
    /// As [`FusedCalls::run`], and if there are no values and there has been no call.
    pub(crate) fn plan_for(&self, py: Python<'_>, objects: Vec<Bound<'_, PyAny>>) -> PyResult<Arc<GroupPlan>> {
        if objects.is_empty() && !self.externals.is_empty() {
            return self.last_plan().ok_or_else(|| {
                PyValueError::new_err(format!(
                    "`{}` has not been called, so that the types of its values are not known: call the function, give \
                     the values, or annotate the parameters with types and shapes",
                    self.name
                ))
            });
        }
        let objects = self.plain_objects(py, objects)?;
        let args: SmallVec<[*mut ffi::PyObject; 8]> = objects.iter().map(Bound::as_ptr).collect();
        // SAFETY: `objects` keeps them alive.
        let known = unsafe { self.find(py, &args, &mut RunValues::default()) };
        match known.filter(|plan| !plan.is_refused()) {
            Some(plan) => Ok(plan),
            None => Ok(self.keep(self.plan(py, &objects)?)),
        }
    }

    /// The plan that was used last.
    pub(crate) fn last_plan(&self) -> Option<Arc<GroupPlan>> {
        self.plans().iter().find(|plan| !plan.is_refused()).cloned()
    }

    /// The calls in canonical form: the same for calls that differ in names of values, or in how arguments are passed.
    pub(crate) fn canonical_text(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = format!("{}\n", self.float_mode.name());
        for call in &self.calls {
            call.write_canonical(py, &mut text)?;
        }
        text.push_str(&format!("return {:?}\n", self.outputs));
        Ok(text)
    }
}

/// Takes views of values.
///
/// # Safety
///
/// As [`view_of`].
#[inline]
unsafe fn views_of<'a>(
    py: Python<'_>,
    args: &[*mut ffi::PyObject],
    held: &mut SmallVec<[Py<PyAny>; 4]>,
) -> SmallVec<[TensorView<'a>; 8]> {
    // SAFETY: passed on to the caller.
    args.iter().map(|&arg| unsafe { view_of(py, arg, held) }).collect()
}

/// Returns true of errors that are not about the arguments: interrupts and the like, a lack of memory, and faults of a
/// compilation or a device.
fn is_not_refusal(py: Python<'_>, error: &PyErr) -> bool {
    let is_about_arguments = error.is_instance_of::<pyo3::exceptions::PyTypeError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyValueError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyArithmeticError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyLookupError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyBufferError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyNotImplementedError>(py);
    !is_about_arguments
}
