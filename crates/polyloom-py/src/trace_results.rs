//! Gives what a trace is for: the values of a traced function, its gradients and its tangents, all of them one plan.
//!
//! The plan is found again by the trace's graph, before anything is differentiated, and by the layouts of its inputs.

use crate::boundary::guarded;
use crate::external_key::RunValues;
use crate::graph_trace::{GraphTrace, TraceState, TracedBase, innermost_trace, traced};
use crate::group_plan::{GroupPlan, PlannedGraph, ResultPlacement};
use crate::op_errors::{fusion_error, graph_error};
use crate::session;
use crate::sim_settings::SimSettings;
use crate::tensor_operand::plain_tensor;
use crate::tensor_view::{TensorView, view_of};
use crate::value_types::{ExternalUse, ValueTypes};
use polyloom::FloatMode;
use polyloom::fusion::plan_options;
use polyloom::graph::{
    Graph, GraphError, OutputCotangent, TensorId, prune, split_gradient, value_and_gradient_from, value_and_tangent,
};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};

/// Plans that are kept, those that were used last.
const MAX_PLANS: usize = 256;

/// Says what is computed of a trace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum TraceRequest {
    /// The outputs from number `first` on, and the gradients of the output 0, which is one number.
    Gradient { first: usize },
    /// The outputs, and what the way back needs, which takes so many bytes at most.
    Forward { max_bytes: u64 },
    /// The gradients of all outputs, given what `Forward` has kept, and their cotangents.
    Backward { max_bytes: u64 },
    /// The outputs and their tangents, given those of the inputs.
    Tangent,
}

/// A plan with what it has been made of.
struct TracePlan {
    graph: Arc<Graph>,
    wrt: Vec<TensorId>,
    request: TraceRequest,
    float_mode: FloatMode,
    plan: Arc<GroupPlan>,
    last_used: u64,
}

/// The plans by the hashes of their graphs.
#[derive(Default)]
struct TracePlans {
    plans: FxHashMap<u64, Vec<TracePlan>>,
    n_plans: usize,
    clock: u64,
    n_hits: u64,
    n_misses: u64,
}

static PLANS: Mutex<Option<TracePlans>> = Mutex::new(None);

fn with_plans<T>(work: impl FnOnce(&mut TracePlans) -> T) -> T {
    work(PLANS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Computes what is asked for of a trace.
///
/// Parameters
/// ----------
/// trace : GraphTrace
///     The trace.
/// outputs : list
///     Tensors of it: the results of the function.
/// wrt : list
///     The inputs that the function is differentiated by.
/// request : str
///     `"gradient"`: the outputs from number `first` on, then the gradients of output 0, which is one number.
///     `"forward"`: the outputs, then what is kept for the way back. `"backward"`: the gradients, given what has been kept, then the
///     cotangents of the outputs that are floats. `"tangent"`: the outputs, then the tangents of those that are floats, given the
///     tangents of `wrt`.
/// given : list
///     What the request is given, each of the type and shape of its tensor.
/// first : int
///     The first output that is given back.
/// max_bytes : int
///     The most bytes that are kept for the way back.
/// name : str
///     The function, for errors.
/// float_mode : str
///     `"strict"`, `"contract"` or `"fast"`.
/// explains : bool
///     Give lines of text about the plan instead, and run nothing.
///
/// Returns
/// -------
/// list
///     Arrays; tensors of another trace, if inputs are ones.
#[pyfunction]
#[pyo3(signature = (trace, outputs, wrt, request, given, first, max_bytes, name, float_mode, explains = false))]
#[expect(clippy::too_many_arguments, reason = "the parameters are Python's")]
pub(crate) fn trace_results<'py>(
    py: Python<'py>,
    trace: &Bound<'py, GraphTrace>,
    outputs: Vec<Bound<'py, TracedBase>>,
    wrt: Vec<Bound<'py, TracedBase>>,
    request: &str,
    given: Vec<Bound<'py, PyAny>>,
    first: usize,
    max_bytes: u64,
    name: &str,
    float_mode: &str,
    explains: bool,
) -> PyResult<Bound<'py, PyList>> {
    let request = match request {
        "gradient" => TraceRequest::Gradient { first },
        "forward" => TraceRequest::Forward { max_bytes },
        "backward" => TraceRequest::Backward { max_bytes },
        "tangent" => TraceRequest::Tangent,
        _ => return Err(PyValueError::new_err(format!("'{request}' is no request"))),
    };
    let float_mode = FloatMode::from_name(float_mode)
        .ok_or_else(|| PyValueError::new_err(format!("'{float_mode}' is no float mode")))?;
    let outputs: Vec<TensorId> = outputs.iter().map(|output| output.get().id()).collect();
    let wrt: Vec<TensorId> = wrt.iter().map(|input| input.get().id()).collect();
    let run = trace.get().with_state(|state| {
        let graph = state.graph(&outputs).map_err(|error| graph_error(&error))?;
        let mut args: Vec<Bound<'py, PyAny>> = state.inputs.iter().map(|input| input.bind(py).clone()).collect();
        for value in &given {
            args.push(plain_tensor(py, value)?);
        }
        let numbers = state.numbers.iter().map(|number| number.bind(py).clone()).collect();
        Ok(TraceRun { name, graph, wrt, request, float_mode, args, numbers })
    })?;
    guarded(|| match innermost_trace(&run.args) {
        Some(_) if explains => Err(PyValueError::new_err("a plan is explained outside of functions that are traced")),
        None if explains => run.explain(py),
        Some(outer) => run.inline(&outer),
        None => run.run(py),
    })
}

/// A request to a trace, with the values of its inputs.
struct TraceRun<'a, 'py> {
    name: &'a str,
    graph: Arc<Graph>,
    wrt: Vec<TensorId>,
    request: TraceRequest,
    float_mode: FloatMode,
    args: Vec<Bound<'py, PyAny>>,
    numbers: Vec<Bound<'py, PyAny>>,
}

impl<'py> TraceRun<'_, 'py> {
    /// Adds what is asked for to the trace that the inputs are of.
    fn inline(&self, outer: &Bound<'py, GraphTrace>) -> PyResult<Bound<'py, PyList>> {
        let failed = |error: GraphError| graph_error(&error);
        let graph = requested(&self.graph, &self.wrt, &self.request).map_err(failed)?;
        let ids = outer.get().with_state(|state: &mut TraceState| {
            let mut inputs = Vec::with_capacity(self.args.len());
            for arg in &self.args {
                inputs.extend(state.operand(outer, arg)?);
            }
            let first_number = state.numbers.len() as u32;
            state.numbers.extend(self.numbers.iter().map(|number| number.clone().unbind()));
            state.builder.inline(&graph, &inputs, first_number).map_err(failed)
        })?;
        let results = ids.into_iter().map(|id| traced(outer, id)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(outer.py(), results)
    }

    /// Runs the plan of what is asked for.
    fn run(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let args: SmallVec<[*mut ffi::PyObject; 16]> =
            self.args.iter().chain(&self.numbers).map(Bound::as_ptr).collect();
        let mut values = RunValues::default();
        let plan = self.find_or_make(py, &args, &mut values)?;
        // SAFETY: `self` keeps the arguments alive, which the plan is for.
        let results = unsafe { plan.run(py, self.name, &args, &values)? };
        match results {
            None => Ok(PyList::empty(py)),
            Some(results) => match results.cast::<PyTuple>() {
                Ok(results) => PyList::new(py, results.iter()),
                Err(_) => PyList::new(py, [results]),
            },
        }
    }

    /// Explains the plan: its kernels with their sizes, and the choices of the planner with their costs.
    fn explain(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let args: SmallVec<[*mut ffi::PyObject; 16]> =
            self.args.iter().chain(&self.numbers).map(Bound::as_ptr).collect();
        let plan = self.find_or_make(py, &args, &mut RunValues::default())?;
        let lines = PyList::empty(py);
        if let Some(explained) = py.detach(|| plan.explain()) {
            let explained = explained.map_err(|error| fusion_error(py, self.name, &error, None))?;
            lines.append(explained.summary())?;
            for (number, kernel) in explained.kernels.iter().enumerate() {
                lines.append(format!("kernel {number}: {kernel}"))?;
            }
            for decision in &explained.decisions {
                lines.append(decision.to_string())?;
            }
        }
        Ok(lines)
    }

    /// Returns the plan, and notes the addresses and numbers of a run.
    fn find_or_make(
        &self,
        py: Python<'py>,
        args: &[*mut ffi::PyObject],
        values: &mut RunValues,
    ) -> PyResult<Arc<GroupPlan>> {
        let hash = self.graph.structure_hash();
        if let Some(plan) = self.find(py, hash, args, values) {
            return Ok(plan);
        }
        let plan = Arc::new(self.plan(py)?);
        let mut held = SmallVec::new();
        // SAFETY: the objects are alive, and the views are used up before Python code runs.
        let views: Vec<TensorView<'_>> = args.iter().map(|&arg| unsafe { view_of(py, arg, &mut held) }).collect();
        plan.take_values(&views, values);
        self.keep(hash, plan.clone());
        Ok(plan)
    }

    fn find(
        &self,
        py: Python<'py>,
        hash: u64,
        args: &[*mut ffi::PyObject],
        values: &mut RunValues,
    ) -> Option<Arc<GroupPlan>> {
        let mut held = SmallVec::new();
        // SAFETY: the objects are alive, and the views are used below alone, where no Python code runs.
        let views: SmallVec<[TensorView<'_>; 16]> =
            args.iter().map(|&arg| unsafe { view_of(py, arg, &mut held) }).collect();
        with_plans(|plans| {
            plans.clock += 1;
            let clock = plans.clock;
            let found = plans.plans.get_mut(&hash).into_iter().flatten().find(|each| {
                each.request == self.request
                    && each.float_mode == self.float_mode
                    && each.wrt == self.wrt
                    // SAFETY: as above.
                    && unsafe { each.plan.is_for(args, &views, values) }
                    && each.graph == self.graph
            });
            let plan = found.map(|each| {
                each.last_used = clock;
                each.plan.clone()
            });
            *(if plan.is_some() { &mut plans.n_hits } else { &mut plans.n_misses }) += 1;
            plan
        })
    }

    fn keep(&self, hash: u64, plan: Arc<GroupPlan>) {
        let dropped = with_plans(|plans| {
            let (graph, wrt, request) = (self.graph.clone(), self.wrt.clone(), self.request.clone());
            let last_used = plans.clock;
            let made = TracePlan { graph, wrt, request, float_mode: self.float_mode, plan, last_used };
            plans.plans.entry(hash).or_default().push(made);
            plans.n_plans += 1;
            if plans.n_plans <= MAX_PLANS {
                return Vec::new();
            }
            // Half of them go at once, so that it is not looked for the oldest each time.
            let mut times: Vec<u64> = plans.plans.values().flatten().map(|each| each.last_used).collect();
            times.sort_unstable();
            let limit = times[times.len() / 2];
            let mut dropped = Vec::new();
            for group in plans.plans.values_mut() {
                dropped.extend(group.extract_if(.., |each| each.last_used < limit));
            }
            plans.plans.retain(|_, group| !group.is_empty());
            plans.n_plans -= dropped.len();
            dropped
        });
        // Plans hold objects, which are dropped without the lock.
        drop(dropped);
    }

    fn plan(&self, py: Python<'py>) -> PyResult<GroupPlan> {
        let mut found = ValueTypes::default();
        let mut n_numbers = 0;
        for (index, object) in self.args.iter().chain(&self.numbers).enumerate() {
            let external = ExternalUse { is_tensor: true, is_attribute: false };
            found.push(py, index, object, external, true, &mut n_numbers)?;
        }
        if let Some(mixed) = found.mixed {
            let [first, other] = [mixed.first.0, mixed.other.0];
            return Err(PyValueError::new_err(format!(
                "`{}`: arrays are on device '{first}' and on device '{other}': bring all to one, by .to('{first}') or \
                 .to('{other}')",
                self.name
            )));
        }
        let device = found.device();
        let ValueTypes { keys, tensors, layouts, package, is_resident, .. } = found;
        let options = plan_options(device, SimSettings::get().arch, self.float_mode);
        let session = session()?;
        let (traced, wrt, request) = (&self.graph, &self.wrt, &self.request);
        let planned = py.detach(|| {
            let graph = requested(traced, wrt, request)?;
            let plan = session.fused_plan(&graph, &layouts, &options)?;
            Ok((graph, plan))
        });
        let (graph, plan) = planned.map_err(|error| fusion_error(py, self.name, &error, None))?;
        let placement = ResultPlacement { package, device, is_resident };
        let source = PlannedGraph { graph, layouts, options };
        GroupPlan::new(py, self.name, keys, source, plan, &tensors, placement)
    }
}

/// Returns the graph of what is asked for.
fn requested(graph: &Graph, wrt: &[TensorId], request: &TraceRequest) -> Result<Graph, GraphError> {
    let n_outputs = graph.outputs.len();
    let (mut derived, first) = match *request {
        TraceRequest::Gradient { first } => {
            let mut cotangents = vec![OutputCotangent::Zero; n_outputs];
            cotangents[..1].fill(OutputCotangent::One);
            (value_and_gradient_from(graph, wrt, &cotangents)?, first)
        }
        TraceRequest::Forward { max_bytes } => (split_gradient(graph, wrt, max_bytes)?.forward, 0),
        TraceRequest::Backward { max_bytes } => (split_gradient(graph, wrt, max_bytes)?.backward, 0),
        TraceRequest::Tangent => (value_and_tangent(graph, wrt)?, 0),
    };
    derived.outputs.drain(..first);
    prune(&derived)
}

/// The plans of traced functions: how often one was known, how often not, and their number.
#[pyfunction]
pub(crate) fn trace_plans() -> (u64, u64, usize) {
    with_plans(|plans| (plans.n_hits, plans.n_misses, plans.n_plans))
}
