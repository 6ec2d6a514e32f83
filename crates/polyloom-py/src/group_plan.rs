//! A plan of a group for values of certain types, with what its results are made of.

use crate::array::ArrayBase;
use crate::array_library::{PyArrays, PyKernel, own_result, without_warnings};
use crate::device::DeviceMemory;
use crate::external_key::{ExternalKey, RunValues};
use crate::interruptible::interruptible;
use crate::launch_run::queue_of;
use crate::op_errors::fusion_error;
use crate::result_memory::{ArrayForm, descr_of, new_array, new_device_array, view_of};
use crate::result_package::{MAX_ARRAY_AXES, device_array, in_package};
use crate::sim_settings::{SimSettings, note_launch};
use crate::tensor_view::{TensorPackage, TensorView};
use crate::torch_tensor;
use polyloom::executor::{BoundPath, ExecutablePath, OutputPlace, PathError};
use polyloom::fusion::{BoundFusion, FusedPlan, FusionError, RunNumber};
use polyloom::graph::op::TensorKernelKind;
use polyloom::graph::plan::{BufferKind, PlanExplanation, PlanOptions, PlanOutput, explain};
use polyloom::graph::{Graph, Layout, TensorDef, TensorId};
use polyloom::planner::{PathDecision, PlannedComputation};
use polyloom::{DeviceId, LaunchOptions, Scalar};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{ffi, intern};
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Bound plans that are kept for the next calls: one for each thread that calls at once, as far as there are not more.
const MAX_IDLE: usize = 4;

/// A plan with the key of the values that it is for.
pub(crate) struct GroupPlan {
    keys: Vec<ExternalKey>,
    /// None of values that the group refuses.
    compiled: Option<CompiledGroup>,
    /// Holds what policies have decided, by their numbers.
    choices: Mutex<PolicyChoices>,
    /// Says how far measuring in the background has come: [`NOT_EXPLORED`], [`EXPLORING`] or [`EXPLORED`].
    exploration: AtomicU8,
}

const NOT_EXPLORED: u8 = 0;
const EXPLORING: u8 = 1;
const EXPLORED: u8 = 2;

/// Choices by the numbers of policies, of which there is mostly one.
type PolicyChoices = SmallVec<[(u32, Arc<PlanChoice>); 1]>;

/// Holds what a policy has decided for a plan.
pub(crate) struct PlanChoice {
    pub(crate) decision: PathDecision,
    /// The path, unless it is the plan itself.
    pub(crate) path: Option<ChosenPath>,
    /// The state of the database that it was made at; [`PlanChoice::FINAL`] if it stays.
    pub(crate) generation: u64,
}

impl PlanChoice {
    /// The generation of a choice that no measurement changes.
    pub(crate) const FINAL: u64 = u64::MAX;
}

/// A path that runs in the place of a plan.
pub(crate) struct ChosenPath {
    path: Arc<ExecutablePath<PyKernel>>,
    idle: Mutex<Vec<BoundPath<PyKernel>>>,
}

impl ChosenPath {
    pub(crate) fn new(path: Arc<ExecutablePath<PyKernel>>) -> ChosenPath {
        ChosenPath { path, idle: Mutex::default() }
    }

    /// The path, which others may run too.
    pub(crate) fn path(&self) -> &Arc<ExecutablePath<PyKernel>> {
        &self.path
    }
}

/// Holds what a plan is made of: the graph of the calls, where the elements of its inputs lie, and the options.
pub(crate) struct PlannedGraph {
    pub(crate) graph: Graph,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) options: PlanOptions,
}

/// Says where results are: the package of their arrays, their device, and which inputs are in its memory.
pub(crate) struct ResultPlacement {
    pub(crate) package: TensorPackage,
    pub(crate) device: DeviceId,
    pub(crate) is_resident: Vec<bool>,
}

struct CompiledGroup {
    source: PlannedGraph,
    /// The source as the planner knows it; none if it has no canonical form.
    computation: OnceLock<Option<Arc<PlannedComputation>>>,
    plan: Arc<FusedPlan>,
    idle: Mutex<Vec<BoundFusion>>,
    placement: ResultPlacement,
    buffers: Vec<ResultBuffer>,
    results: Vec<GroupResult>,
}

/// A buffer for results.
struct ResultBuffer {
    form: ArrayForm,
}

/// A result.
struct GroupResult {
    dtype: Scalar,
    form: ArrayForm,
    memory: ResultMemory,
    /// In bytes, of the element whose indices are all 0.
    offset: i64,
    is_writable: bool,
}

/// Says where a result is.
enum ResultMemory {
    /// In a buffer; `is_whole` if it is the array that is made for it.
    Buffer { index: usize, is_whole: bool },
    /// In the memory of a value. A result that is not a view is copied from there.
    External { index: usize, is_view: bool },
}

/// The arrays that are made for results, and on a device their memory.
#[derive(Default)]
struct ResultArrays<'py> {
    arrays: SmallVec<[Bound<'py, PyAny>; 2]>,
    memory: SmallVec<[Bound<'py, DeviceMemory>; 2]>,
}

/// The bound plan of a call; it goes back when the call is over.
struct TakenPlan<'a> {
    compiled: &'a CompiledGroup,
    bound: Option<BoundFusion>,
}

impl Drop for TakenPlan<'_> {
    fn drop(&mut self) {
        let Some(mut bound) = self.bound.take() else { return };
        bound.release_temporaries();
        // A forked child has a simulator of its own.
        if self.compiled.placement.device == DeviceId::Simulator {
            return;
        }
        let mut idle = self.compiled.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(bound);
        }
    }
}

impl GroupPlan {
    /// Makes a plan of values that the group refuses.
    pub(crate) fn refused(keys: Vec<ExternalKey>) -> GroupPlan {
        GroupPlan { keys, compiled: None, choices: Mutex::default(), exploration: AtomicU8::new(NOT_EXPLORED) }
    }

    /// Makes a plan. `tensors` says which values the inputs are.
    ///
    /// # Errors
    ///
    /// `TypeError` of a result on a device that no array there can be.
    pub(crate) fn new(
        py: Python<'_>,
        name: &str,
        keys: Vec<ExternalKey>,
        source: PlannedGraph,
        plan: FusedPlan,
        tensors: &[usize],
        placement: ResultPlacement,
    ) -> PyResult<GroupPlan> {
        let graph = &source.graph;
        let mut buffers = Vec::new();
        let mut results: Vec<GroupResult> = Vec::new();
        for (output, &value) in plan.outputs().iter().zip(&graph.outputs) {
            let buffer = &plan.buffers()[output.buffer];
            let users = plan.outputs().iter().filter(|other| other.buffer == output.buffer).count();
            let bytes = i64::from(buffer.dtype.bytes());
            let is_dense = output.layout.is_dense();
            let (n_axes, device) = (output.layout.extents.len(), placement.device);
            if device != DeviceId::Cpu && n_axes > MAX_ARRAY_AXES {
                let message = format!("`{name}`: a result has {n_axes} axes, and arrays on '{device}' have 1 to 4");
                return Err(PyTypeError::new_err(message));
            }
            let memory = match buffer.kind {
                BufferKind::Input(input) => {
                    ResultMemory::External { index: tensors[input], is_view: is_view(graph, value) }
                }
                BufferKind::Output => {
                    let is_whole = users == 1
                        && is_dense
                        && output.layout.offset == 0
                        && output.layout.n_elements() == buffer.n_elements;
                    ResultMemory::Buffer { index: plan.output_number(output.buffer), is_whole }
                }
                BufferKind::Temporary => return Err(PyRuntimeError::new_err("a result is in a temporary buffer")),
            };
            results.push(GroupResult {
                dtype: buffer.dtype,
                form: form_of(py, buffer.dtype, output, is_dense)?,
                memory,
                offset: output.layout.offset * bytes,
                is_writable: !repeats_elements(output),
            });
        }
        for (number, buffer) in plan.output_buffers().enumerate() {
            let n_bytes = buffer.n_elements * u64::from(buffer.dtype.bytes());
            let extents = SmallVec::from_slice(&[buffer.n_elements as isize]);
            let mut form = ArrayForm { descr: descr_of(py, buffer.dtype)?, extents, strides: None, n_bytes };
            let whole = results.iter().find(
                |result| matches!(result.memory, ResultMemory::Buffer { index, is_whole: true } if index == number),
            );
            if let Some(whole) = whole {
                form.extents.clone_from(&whole.form.extents);
            }
            buffers.push(ResultBuffer { form });
        }
        let plan = Arc::new(plan);
        let (idle, computation) = (Mutex::default(), OnceLock::new());
        let compiled = CompiledGroup { source, computation, plan, idle, placement, buffers, results };
        let exploration = AtomicU8::new(NOT_EXPLORED);
        Ok(GroupPlan { keys, compiled: Some(compiled), choices: Mutex::default(), exploration })
    }

    /// Returns true if the group refuses the values.
    pub(crate) fn is_refused(&self) -> bool {
        self.compiled.is_none()
    }

    /// The kernels in the order of their launches; none if the group refuses the values.
    pub(crate) fn kernels(&self) -> Vec<Arc<polyloom::Kernel>> {
        self.compiled.iter().flat_map(|compiled| compiled.plan.kernels()).cloned().collect()
    }

    /// The graph that the plan is of; none of values that the group refuses.
    pub(crate) fn graph(&self) -> Option<&Graph> {
        self.compiled.as_ref().map(|compiled| &compiled.source.graph)
    }

    /// Returns what a policy has decided.
    #[inline]
    pub(crate) fn choice(&self, policy: u32) -> Option<Arc<PlanChoice>> {
        let choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        choices.iter().find(|(each, _)| *each == policy).map(|(_, choice)| choice.clone())
    }

    /// Notes what a policy has decided.
    pub(crate) fn choose(&self, policy: u32, choice: Arc<PlanChoice>) {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        choices.retain(|(each, _)| *each != policy);
        choices.push((policy, choice));
    }

    /// Forgets what has been decided, because something has been measured since.
    pub(crate) fn forget_choices(&self) {
        // They are dropped without the lock, because objects may run code when they die.
        let choices = std::mem::take(&mut *self.choices.lock().unwrap_or_else(PoisonError::into_inner));
        drop(choices);
    }

    /// Returns true the first time, when measuring in the background is to begin.
    pub(crate) fn begin_exploring(&self) -> bool {
        let (from, to) = (NOT_EXPLORED, EXPLORING);
        self.exploration.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes that measuring is over.
    pub(crate) fn end_exploring(&self) {
        self.exploration.store(EXPLORED, Ordering::Relaxed);
    }

    /// Returns true once measuring is over.
    pub(crate) fn is_explored(&self) -> bool {
        self.exploration.load(Ordering::Relaxed) == EXPLORED
    }

    /// The computation as the planner knows it; none if it has no canonical form, or the group refuses the values.
    pub(crate) fn computation(&self) -> Option<Arc<PlannedComputation>> {
        let compiled = self.compiled.as_ref()?;
        let make = || {
            let PlannedGraph { graph, layouts, options } = &compiled.source;
            PlannedComputation::new(graph, layouts, *options).ok().map(Arc::new)
        };
        compiled.computation.get_or_init(make).clone()
    }

    /// The device that it runs on.
    pub(crate) fn device(&self) -> DeviceId {
        self.compiled.as_ref().map_or(DeviceId::Cpu, |compiled| compiled.placement.device)
    }

    /// Returns true if each result is an array of its own, whole and dense, which paths make.
    pub(crate) fn has_own_results(&self) -> bool {
        let is_own = |result: &GroupResult| {
            matches!(result.memory, ResultMemory::Buffer { is_whole: true, .. }) && result.form.strides.is_none()
        };
        self.compiled.as_ref().is_some_and(|compiled| compiled.results.iter().all(is_own))
    }

    /// Runs a path in the place of the plan.
    ///
    /// # Errors
    ///
    /// As [`GroupPlan::run`], and what a library raises.
    ///
    /// # Safety
    ///
    /// As [`GroupPlan::run`]; the path is of this plan's computation.
    pub(crate) unsafe fn run_path<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        args: &[*mut ffi::PyObject],
        values: &RunValues,
        chosen: &ChosenPath,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(compiled) = &self.compiled else { return Ok(None) };
        let package = compiled.placement.package;
        let mut made: SmallVec<[Option<Bound<'py, PyAny>>; 2]> = SmallVec::new();
        let mut addresses: SmallVec<[usize; 4]> = SmallVec::new();
        for (result, place) in compiled.results.iter().zip(chosen.path.output_places()) {
            let (array, address) = match place {
                OutputPlace::Caller => {
                    let (array, address) = new_array(py, &result.form)?;
                    (Some(array), address)
                }
                OutputPlace::Array => (None, 0),
            };
            made.push(array);
            addresses.push(address);
        }
        let mut library = PyArrays::new(py);
        let is_native = chosen.path.is_native();
        if !is_native {
            // SAFETY: passed on to the caller.
            unsafe { self.fill_inputs(py, args, values, compiled, &mut library)? };
        }
        let idle = chosen.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bound = idle.unwrap_or_else(|| chosen.path.bind());
        let mut run = || {
            // SAFETY: inputs are alive and results were made for this run; numbers of elements are those of the path.
            unsafe { bound.run(&library, &values.addresses, &addresses, &values.numbers) }
        };
        let run = if is_native { run() } else { without_warnings(py, &mut run)? };
        let arrays = run.map_err(|error| path_error(py, name, error))?;
        let mut idle = chosen.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(bound);
        }
        drop(idle);
        let mut n_arrays = 0;
        let mut objects: SmallVec<[Bound<'py, PyAny>; 2]> = SmallVec::new();
        for (result, array) in compiled.results.iter().zip(made) {
            let array = match array {
                Some(array) => array,
                None => {
                    let missing = || PyRuntimeError::new_err("a path has not given a result");
                    let array = arrays.get(n_arrays).ok_or_else(missing)?;
                    // A function of a library may give what it was given.
                    let mut others = library.inputs.iter().chain(&arrays[..n_arrays]);
                    let is_shared = others.any(|other| other.is(array));
                    n_arrays += 1;
                    own_result(array, is_shared)?
                }
            };
            objects.push(in_package(array, package, result.dtype)?);
        }
        match objects.len() {
            1 => Ok(objects.pop()),
            _ => Ok(Some(PyTuple::new(py, objects)?.into_any())),
        }
    }

    /// Gives a library the inputs as arrays of NumPy, over the memory of the values.
    ///
    /// # Safety
    ///
    /// As [`GroupPlan::run`].
    unsafe fn fill_inputs<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut ffi::PyObject],
        values: &RunValues,
        compiled: &CompiledGroup,
        library: &mut PyArrays<'py>,
    ) -> PyResult<()> {
        let tensors = self.keys.iter().zip(args).filter(|(key, _)| matches!(key, ExternalKey::Tensor { .. }));
        let inputs = compiled.source.graph.inputs().zip(&compiled.source.layouts);
        for (((_, &arg), address), ((_, ty), layout)) in tensors.zip(&values.addresses).zip(inputs) {
            // SAFETY: passed on to the caller.
            let object = unsafe { Bound::from_borrowed_ptr(py, arg) };
            // SAFETY: as above.
            if unsafe { numpy::npyffi::PyArray_CheckExact(py, arg) } != 0 {
                library.inputs.push(object);
                continue;
            }
            let bytes = i64::from(ty.dtype.bytes());
            let form = ArrayForm {
                descr: descr_of(py, ty.dtype)?,
                extents: layout.extents.iter().map(|&extent| extent as isize).collect(),
                strides: Some(layout.strides.iter().map(|&stride| (stride * bytes) as isize).collect()),
                n_bytes: layout.n_elements() * bytes as u64,
            };
            library.inputs.push(view_of(&form, *address, true, object)?);
        }
        Ok(())
    }

    /// Explains the plan: its kernels with their sizes, and its choices with their estimates.
    pub(crate) fn explain(&self) -> Option<Result<PlanExplanation, FusionError>> {
        let PlannedGraph { graph, layouts, options } = &self.compiled.as_ref()?.source;
        Some(explain(graph, layouts, options).map_err(FusionError::from))
    }

    /// Appends the types of the values: of tensors the element type and the number of axes.
    pub(crate) fn write_types(&self, py: Python<'_>, text: &mut String) -> PyResult<()> {
        let Some(compiled) = &self.compiled else { return Ok(()) };
        let mut inputs = compiled.source.graph.inputs();
        for key in &self.keys {
            // Formatting into a string does not fail.
            let _ = match key {
                ExternalKey::Tensor { .. } => match inputs.next() {
                    Some((_, ty)) => write!(text, "{} of {} axes", ty.dtype.python_name(), ty.shape.rank()),
                    None => Ok(()),
                },
                ExternalKey::Number { is_float } => write!(text, "{}", if *is_float { "float" } else { "int" }),
                ExternalKey::Float(bits) => write!(text, "{:?}", f64::from_bits(*bits)),
                ExternalKey::Int(value) => write!(text, "{value}"),
                ExternalKey::Object(object) => write!(text, "{}", object.bind(py).repr()?),
            };
            text.push('\n');
        }
        Ok(())
    }

    /// Returns true if the plan is for these values; notes their addresses and numbers.
    ///
    /// # Safety
    ///
    /// The arguments are live objects, of which the views have just been taken.
    #[inline]
    pub(crate) unsafe fn is_for(
        &self,
        args: &[*mut ffi::PyObject],
        views: &[TensorView<'_>],
        run: &mut RunValues,
    ) -> bool {
        run.addresses.clear();
        run.numbers.clear();
        let mut all = self.keys.iter().zip(args).zip(views);
        // SAFETY: passed on to the caller.
        all.all(|((key, &arg), view)| unsafe { key.matches(arg, view, run) }) && self.is_for_simulator()
    }

    /// Returns false of a plan for a simulator of another architecture, which may have no such tensor cores.
    fn is_for_simulator(&self) -> bool {
        self.compiled.as_ref().is_none_or(|compiled| {
            let is_simulated = compiled.placement.device == DeviceId::Simulator;
            !is_simulated || compiled.source.options.gpu == Some(SimSettings::get().arch)
        })
    }

    /// Notes the addresses and numbers of values that the plan has been made for.
    pub(crate) fn take_values(&self, views: &[TensorView<'_>], run: &mut RunValues) {
        run.addresses.clear();
        run.numbers.clear();
        for (key, view) in self.keys.iter().zip(views) {
            match (key, view) {
                (ExternalKey::Tensor { .. }, TensorView::Tensor(fields)) => run.addresses.push(fields.address),
                (ExternalKey::Number { .. }, TensorView::Float(value)) => run.numbers.push(RunNumber::Float(*value)),
                (ExternalKey::Number { .. }, TensorView::Int(value)) => run.numbers.push(RunNumber::Int(*value)),
                _ => {}
            }
        }
    }

    /// Runs the plan; gives nothing if the group refuses the values.
    ///
    /// # Errors
    ///
    /// `MemoryError`, `OverflowError` of a number, and what a signal handler raised meanwhile.
    ///
    /// # Safety
    ///
    /// The plan [is for](GroupPlan::is_for) the arguments, which stay alive until this returns.
    pub(crate) unsafe fn run<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        args: &[*mut ffi::PyObject],
        values: &RunValues,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(compiled) = &self.compiled else { return Ok(None) };
        let device = compiled.placement.device;
        let mut made = ResultArrays::default();
        let mut addresses: SmallVec<[usize; 4]> = SmallVec::new();
        for buffer in &compiled.buffers {
            let (array, address) = match device {
                DeviceId::Cpu => new_array(py, &buffer.form)?,
                device => {
                    let (array, memory) = new_device_array(py, device, &buffer.form)?;
                    let address = memory.get().address() as usize;
                    made.memory.push(memory);
                    (array, address)
                }
            };
            made.arrays.push(array);
            addresses.push(address);
        }
        let idle = compiled.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bound = match (idle, device) {
            (Some(bound), _) => bound,
            (None, DeviceId::Cpu) => compiled.plan.bind(),
            (None, device) => compiled.plan.bind_to(queue_of(py, device)?, &compiled.placement.is_resident),
        };
        let mut taken = TakenPlan { compiled, bound: Some(bound) };
        let Some(bound) = taken.bound.as_mut() else { return Ok(None) };
        let placed = bound.place(&values.addresses, &addresses, &values.numbers);
        placed.map_err(|error| fusion_error(py, name, &error, None))?;
        // SAFETY: inputs are alive and results were made for this run; numbers of elements are those of the plan.
        let n_done = unsafe { bound.run_while_short() }.map_err(|error| fusion_error(py, name, &error, None))?;
        if n_done < bound.n_launches() {
            let bound = &*bound;
            let sim = (device == DeviceId::Simulator).then(|| SimSettings::get().options());
            let started = Instant::now();
            let (done, interrupt) = interruptible(py, |options| {
                let options = LaunchOptions { sim: sim.unwrap_or_default(), ..*options };
                // SAFETY: as above.
                unsafe { bound.run_from(n_done, &options) }
            })?;
            match &done {
                Ok(stats) => note_launch(Ok(stats.as_ref()), started.elapsed()),
                Err(FusionError::Launch { error, .. }) => note_launch(Err(error), started.elapsed()),
                Err(_) => {}
            }
            done.map_err(|error| fusion_error(py, name, &error, interrupt))?;
        }
        drop(taken);
        if let [result] = &compiled.results[..] {
            // SAFETY: passed on to the caller.
            return unsafe { result.object(py, compiled.placement.package, args, &made, &addresses) }.map(Some);
        }
        let mut objects: SmallVec<[Bound<'py, PyAny>; 4]> = SmallVec::new();
        for result in &compiled.results {
            // SAFETY: passed on to the caller.
            objects.push(unsafe { result.object(py, compiled.placement.package, args, &made, &addresses)? });
        }
        Ok(Some(PyTuple::new(py, objects)?.into_any()))
    }
}

impl GroupResult {
    /// Makes the object of a result.
    ///
    /// # Safety
    ///
    /// The arguments are live objects.
    #[inline]
    unsafe fn object<'py>(
        &self,
        py: Python<'py>,
        package: TensorPackage,
        args: &[*mut ffi::PyObject],
        made: &ResultArrays<'py>,
        addresses: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.memory {
            ResultMemory::Buffer { index, is_whole } => {
                let array = made.arrays[index].clone();
                let array = match is_whole {
                    true => array,
                    false => {
                        let address = addresses[index].wrapping_add_signed(self.offset as isize);
                        view_of(&self.form, address, self.is_writable, array)?
                    }
                };
                match made.memory.get(index) {
                    Some(memory) => device_array(array, memory, self.dtype),
                    None => in_package(array, package, self.dtype),
                }
            }
            ResultMemory::External { index, is_view } => {
                // SAFETY: passed on to the caller.
                let arg = unsafe { Bound::from_borrowed_ptr(py, args[index]) };
                self.of_external(&arg, is_view)
            }
        }
    }

    /// Makes a view of a value, or a copy of one.
    fn of_external<'py>(&self, arg: &Bound<'py, PyAny>, is_view: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = arg.py();
        let strides = self.form.strides.as_deref().map(<[isize]>::to_vec);
        let strides = strides.unwrap_or_else(|| dense_strides(&self.form.extents, self.dtype));
        if torch_tensor::is_tensor(arg) {
            let bytes = self.dtype.bytes() as i64;
            let extents: Vec<i64> = self.form.extents.iter().map(|&extent| extent as i64).collect();
            let in_elements: Vec<i64> = strides.iter().map(|&stride| stride as i64 / bytes).collect();
            if in_elements.iter().all(|&stride| stride >= 0) {
                let view = torch_tensor::strided_view(arg, &extents, &in_elements, self.offset / bytes)?;
                return if is_view { Ok(view) } else { view.call_method0("clone") };
            }
            // PyTorch knows no negative strides.
            let storage = arg.call_method0("numpy")?;
            let copy = self.over(&storage, &storage)?.call_method0("copy")?;
            return torch_tensor::of_numpy(copy, self.dtype);
        }
        if let Ok(array) = arg.cast::<ArrayBase>() {
            let storage = arg.getattr(intern!(py, "_storage"))?;
            let view = self.over(&storage, &storage)?;
            let n_axes = self.form.extents.len();
            if array.get().device() != DeviceId::Cpu {
                return of_device(array, view, is_view);
            }
            if !is_view || !(1..=MAX_ARRAY_AXES).contains(&n_axes) {
                return in_package(view.call_method0("copy")?, TensorPackage::Polyloom, self.dtype);
            }
            return array.call_method1("_view", (view,));
        }
        let view = self.over(arg, arg)?;
        if is_view { Ok(view) } else { view.call_method0("copy") }
    }

    /// Makes an array over the memory of a NumPy array.
    fn over<'py>(&self, storage: &Bound<'py, PyAny>, base: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: it is a live NumPy array.
        let fields = unsafe { &(*storage.as_ptr().cast::<numpy::npyffi::PyArrayObject>()).fields };
        let address = (fields.data as usize).wrapping_add_signed(self.offset as isize);
        let is_writable = self.is_writable && fields.flags & numpy::npyffi::NPY_ARRAY_WRITEABLE != 0;
        view_of(&self.form, address, is_writable, base.clone())
    }
}

/// Makes an array of a part of one on a device, or a copy of the part; of one element without axes, a NumPy array.
fn of_device<'py>(
    array: &Bound<'py, ArrayBase>,
    part: Bound<'py, PyAny>,
    is_view: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    if part.getattr("ndim")?.extract::<usize>()? == 0 {
        return match array.get().memory() {
            Some(memory) => memory.get().read(&part),
            None => Ok(part),
        };
    }
    let view = array.call_method1("_view", (part,))?;
    if is_view { Ok(view) } else { py.import("polyloom._creation")?.call_method1("clone", (view,)) }
}

/// Returns the error of a path.
fn path_error(py: Python<'_>, name: &str, error: PathError<PyErr>) -> PyErr {
    match error {
        PathError::Library(error) => error,
        PathError::Fusion(error) => fusion_error(py, name, &error, None),
        error => PyRuntimeError::new_err(format!("`{name}`: {error}")),
    }
}

fn dense_strides(extents: &[isize], dtype: Scalar) -> Vec<isize> {
    let mut stride = dtype.bytes() as isize;
    let mut strides = vec![0; extents.len()];
    for axis in (0..extents.len()).rev() {
        strides[axis] = stride;
        stride *= extents[axis].max(1);
    }
    strides
}

fn form_of(py: Python<'_>, dtype: Scalar, output: &PlanOutput, is_dense: bool) -> PyResult<ArrayForm> {
    let bytes = dtype.bytes() as i64;
    let extents = output.layout.extents.iter().map(|&extent| extent as isize).collect();
    let strides = output.layout.strides.iter().map(|&stride| (stride * bytes) as isize).collect();
    let n_bytes = output.layout.n_elements() * u64::from(dtype.bytes());
    Ok(ArrayForm {
        descr: descr_of(py, dtype)?,
        extents,
        strides: if is_dense { None } else { Some(strides) },
        n_bytes,
    })
}

/// Returns true if several indices are of one element, so that the result is for reading alone.
fn repeats_elements(output: &PlanOutput) -> bool {
    let axes = output.layout.extents.iter().zip(&output.layout.strides);
    axes.into_iter().any(|(&extent, &stride)| extent > 1 && stride == 0)
}

/// Returns true if a value is an input seen through views, composite ones among them. A program makes chains of views of any
/// length.
fn is_view(graph: &Graph, id: TensorId) -> bool {
    let mut at = id;
    while let Some(TensorDef::Op { op, operands, .. }) = graph.value(at).map(|value| &value.def)
        && op.info().kind == TensorKernelKind::View
        && let Some(&operand) = operands.first()
    {
        at = operand;
    }
    at != id && is_input(graph, at)
}

fn is_input(graph: &Graph, id: TensorId) -> bool {
    matches!(graph.value(id).map(|value| &value.def), Some(TensorDef::Input(_)))
}
