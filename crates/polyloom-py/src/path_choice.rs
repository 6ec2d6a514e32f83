//! Choosing paths for plans of groups: policies, the process's database, and what is measured in the background.
//!
//! A plan runs as it is unless a policy is set: calls compare one number. Under a policy, a plan's first call decides, and later ones
//! find what was decided in the plan. Whatever goes wrong with the database or a path, the plan itself runs.

use crate::array_library::{PyArrays, without_warnings};
use crate::group_plan::{ChosenPath, GroupPlan, PlanChoice};
use crate::path_report::warn;
use crate::session;
use crate::sim_settings::SimSettings;
use polyloom::DeviceId;
use polyloom::FloatMode;
use polyloom::executor::ExecutablePath;
use polyloom::fusion::plan_options;
use polyloom::graph::cost::MachineCosts;
use polyloom::graph::path::PathLimits;
use polyloom::graph::{Backend, KernelRegistry, parse_graph};
use polyloom::planner::store::{ContentHash, StoreError, StoreRecord};
use polyloom::planner::{
    CandidateList, DatabaseAccess, DecisionReason, PathCandidate, PathDecision, PathPolicy, PlannedComputation,
    PlannerDatabase, PolicyMode, ProfileSettings, candidates, choose_by_costs, choose_measured, compile_candidate,
    computations_of, default_recipe, machine_costs, profile, traces_of,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The policy that leaves every plan as it is.
pub(crate) const DEFAULT_POLICY: u32 = 0;
/// The number by which a function says that it follows the process's policy.
pub(crate) const PROCESS_POLICY: u32 = u32::MAX;

static PROCESS: AtomicU32 = AtomicU32::new(DEFAULT_POLICY);
/// The policies that have been made; the first has number 1.
static POLICIES: Mutex<Vec<PathPolicy>> = Mutex::new(Vec::new());
static DATABASE: LazyLock<PlannerDatabase> = LazyLock::new(PlannerDatabase::default);
/// True once nothing is to be measured any more, because the process ends.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// True if graphs and workloads enter the database as they are seen.
static RECORDS: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("POLYLOOM_RECORD").is_some_and(|value| !value.is_empty() && value != "0"));

/// The program that measures, with its version.
pub(crate) const RUNNER: &str = concat!("polyloom ", env!("CARGO_PKG_VERSION"));

/// The policy of the process.
#[inline]
pub(crate) fn process_policy() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Makes a policy, and returns its number; equal ones have one number.
#[pyfunction]
#[pyo3(signature = (mode, tolerance, backends, budget))]
pub(crate) fn path_policy(
    mode: &str,
    tolerance: Option<f64>,
    backends: Option<Vec<String>>,
    budget: f64,
) -> PyResult<u32> {
    let mode = match mode {
        "heuristic" => PolicyMode::Heuristic,
        "fastest" => PolicyMode::Fastest,
        "explore" => PolicyMode::Explore,
        _ => return Err(PyValueError::new_err(format!("{mode:?} is no policy"))),
    };
    let backend = |name: &String| {
        Backend::from_name(name).ok_or_else(|| PyValueError::new_err(format!("there is no backend {name:?}")))
    };
    let backends = backends.map(|names| names.iter().map(backend).collect::<PyResult<Vec<_>>>()).transpose()?;
    let budget = Duration::try_from_secs_f64(budget).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let policy = PathPolicy { mode, tolerance, backends, budget };
    let mut policies = POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = policies.iter().position(|each| *each == policy).unwrap_or_else(|| {
        policies.push(policy);
        policies.len() - 1
    });
    Ok(place as u32 + 1)
}

/// Sets the policy of the process by its number, and returns the one before.
#[pyfunction]
pub(crate) fn set_process_policy(policy: u32) -> u32 {
    PROCESS.swap(policy, Ordering::Relaxed)
}

/// Names another benchmark database, or with None the one that the environment names.
#[pyfunction]
#[pyo3(signature = (place))]
pub(crate) fn set_database(py: Python<'_>, place: Option<String>) {
    let location = place.map(|place| polyloom::planner::store::DatabaseLocation::parse(&place));
    py.detach(|| DATABASE.set_location(location));
}

/// The place of the benchmark database; None if there is none.
#[pyfunction]
pub(crate) fn database_place() -> Option<String> {
    DATABASE.location().map(|location| location.to_string())
}

/// Looks if another process has written measurements to the benchmark database, as a thread does every few seconds. True if it has.
#[pyfunction]
pub(crate) fn look_for_news(py: Python<'_>) -> bool {
    py.detach(|| DATABASE.look_for_news())
}

/// The statements that this process has run over its connection to the benchmark database.
#[pyfunction]
pub(crate) fn n_database_statements(py: Python<'_>) -> u64 {
    py.detach(|| DATABASE.n_statements())
}

/// Ends what is measured in the background.
#[pyfunction]
pub(crate) fn stop_measuring() {
    STOP.store(true, Ordering::Relaxed);
}

/// Returns the policy of a number; none of the default's.
pub(crate) fn policy_of(number: u32) -> Option<PathPolicy> {
    let policies = POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
    policies.get((number as usize).checked_sub(1)?).cloned()
}

/// The database of the process, in the environment of its libraries.
pub(crate) fn database(py: Python<'_>) -> PyResult<&'static PlannerDatabase> {
    static IS_READY: OnceLock<()> = OnceLock::new();
    if IS_READY.get().is_none() {
        let found: BTreeMap<String, String> = py.import("polyloom._backends")?.call_method0("versions")?.extract()?;
        py.detach(|| DATABASE.set_libraries(found));
        IS_READY.get_or_init(|| ());
    }
    Ok(&DATABASE)
}

/// Returns the rates of this machine.
pub(crate) fn costs(py: Python<'_>) -> PyResult<MachineCosts> {
    let fingerprint = database(py)?.fingerprint();
    Ok(py.detach(|| machine_costs(&fingerprint)))
}

/// Returns the kernels that paths may have: of the backends that a policy names, or that are at hand.
pub(crate) fn registry(py: Python<'_>, backends: Option<&[Backend]>) -> PyResult<KernelRegistry> {
    let module = py.import("polyloom._backends")?;
    let names = backends.map(|backends| backends.iter().map(|backend| backend.name()).collect::<Vec<_>>());
    let found: Vec<String> = module.call_method1("at_hand", (names,))?.extract()?;
    let found: Vec<Backend> = found.iter().filter_map(|name| Backend::from_name(name)).collect();
    let mut registry = KernelRegistry::with_backends(&found);
    for entry in crate::path_kernels::registered() {
        if found.contains(&entry.backend) {
            registry.register(entry).map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
    }
    Ok(registry)
}

/// The measurement policy of the planner, and how computations are profiled.
pub(crate) fn settings(budget: Duration) -> ProfileSettings {
    ProfileSettings { budget, stop: Some(STOP.clone()), ..ProfileSettings::default() }
}

/// Returns what a policy has decided for a plan, and decides at the first call.
#[inline]
pub(crate) fn path_choice(py: Python<'_>, plan: &Arc<GroupPlan>, policy: u32) -> PyResult<Arc<PlanChoice>> {
    match plan.choice(policy) {
        Some(choice) if choice.generation == PlanChoice::FINAL || choice.generation == DATABASE.generation() => {
            Ok(choice)
        }
        known => decide(py, plan, policy, known.as_deref()),
    }
}

/// Decides, or decides again with what is known: most often that stays.
#[cold]
fn decide(py: Python<'_>, plan: &Arc<GroupPlan>, number: u32, known: Option<&PlanChoice>) -> PyResult<Arc<PlanChoice>> {
    let choice = match policy_of(number) {
        None => default_choice(DecisionReason::DefaultPredicted),
        Some(policy) => {
            if policy.mode != PolicyMode::Heuristic {
                DATABASE.keep_watching();
            }
            // All writes from here on are news to this decision.
            let generation = match policy.mode {
                PolicyMode::Heuristic => PlanChoice::FINAL,
                PolicyMode::Fastest | PolicyMode::Explore => DATABASE.generation(),
            };
            match choose_path(py, plan, &policy, known) {
                Ok(choice) => PlanChoice { generation, ..choice },
                Err(error) if is_interrupt(py, &error) => return Err(error),
                Err(error) => default_choice(DecisionReason::Failed(error.value(py).to_string())),
            }
        }
    };
    let choice = Arc::new(choice);
    plan.choose(number, choice.clone());
    Ok(choice)
}

/// Notes that a path has failed when it ran: the plan itself runs from then on.
pub(crate) fn give_up(py: Python<'_>, plan: &GroupPlan, policy: u32, error: &PyErr) {
    let reason = format!("the path that was chosen has failed: {}", error.value(py));
    plan.choose(policy, Arc::new(default_choice(DecisionReason::Failed(reason))));
}

/// Returns true of what is not about a path: interrupts, and a lack of memory.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py)
        || !error.is_instance_of::<pyo3::exceptions::PyException>(py)
}

fn default_choice(reason: DecisionReason) -> PlanChoice {
    let decision = PathDecision { path: None, measured: None, reason };
    PlanChoice { decision, path: None, generation: PlanChoice::FINAL }
}

/// Returns the reason why a plan has no other paths.
pub(crate) fn obstacle(plan: &GroupPlan) -> Option<DecisionReason> {
    match plan.device() {
        DeviceId::Cpu if plan.has_own_results() => None,
        DeviceId::Cpu => Some(DecisionReason::Views),
        _ => Some(DecisionReason::Device),
    }
}

fn choose_path(
    py: Python<'_>,
    plan: &Arc<GroupPlan>,
    policy: &PathPolicy,
    known: Option<&PlanChoice>,
) -> PyResult<PlanChoice> {
    if let Some(reason) = obstacle(plan) {
        return Ok(default_choice(reason));
    }
    let Some(computation) = plan.computation() else {
        return Ok(default_choice(DecisionReason::Failed("the graph has no canonical form".to_owned())));
    };
    let measured = match policy.mode {
        PolicyMode::Heuristic => None,
        PolicyMode::Fastest | PolicyMode::Explore => look_up(py, &computation, policy, known)?,
    };
    let is_settled = |decision: &PathDecision| matches!(decision.reason, DecisionReason::Measured(_));
    if policy.mode == PolicyMode::Explore && !measured.as_ref().is_some_and(|(decision, _)| is_settled(decision)) {
        if plan.begin_exploring() {
            let job = PathJob { plan: plan.clone(), policy: policy.clone() };
            py.import("polyloom._planner")?.call_method1("explore_later", (job,))?;
            return Ok(default_choice(DecisionReason::Exploring));
        }
        return Ok(default_choice(if plan.is_explored() {
            DecisionReason::Unsettled
        } else {
            DecisionReason::Exploring
        }));
    }
    let (decision, compiled) = match measured {
        Some(found) => found,
        None => match known.filter(|known| is_predicted(&known.decision)) {
            // Nothing is known now either.
            Some(known) => (known.decision.clone(), None),
            None => predict(py, &computation, policy)?,
        },
    };
    let generation = PlanChoice::FINAL;
    let Some(candidate) = &decision.path else { return Ok(PlanChoice { decision, path: None, generation }) };
    let is_known = |known: &&PlanChoice| known.decision.path.as_ref().is_some_and(|path| path.hash == candidate.hash);
    let path = match (compiled, known.filter(is_known).and_then(|known| known.path.as_ref())) {
        (Some(path), _) => path,
        (None, Some(known)) => known.path().clone(),
        (None, None) => compile(py, &computation, candidate)?.0,
    };
    Ok(PlanChoice { decision, path: Some(ChosenPath::new(path)), generation })
}

/// Returns the recipe of the path that `fastest` chooses by what is measured of a graph, over the backends that are native code on the CPU.
///
/// Parameters
/// ----------
/// graph : str
///     The graph in its text form, of known extents.
/// float_mode : str
///     `"strict"`, `"contract"` or `"fast"`.
///
/// Returns
/// -------
/// tuple
///     Whether something is measured; and the recipe as JSON, None where the plan that runs by itself is the fastest.
#[pyfunction]
pub(crate) fn measured_recipe(py: Python<'_>, graph: &str, float_mode: &str) -> PyResult<(bool, Option<String>)> {
    let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let mode = FloatMode::from_name(float_mode)
        .ok_or_else(|| PyValueError::new_err(format!("'{float_mode}' is no float mode")))?;
    let graph = parse_graph(graph).map_err(|error| wrong(&error))?;
    let backends = Some(vec![Backend::CpuNative]);
    let policy = PathPolicy { mode: PolicyMode::Fastest, tolerance: None, backends, budget: Duration::ZERO };
    let options = plan_options(DeviceId::Cpu, SimSettings::get().arch, mode);
    for (computation, _) in computations_of(&graph, options).map_err(|error| wrong(&error))? {
        if let Some((decision, _)) = look_up(py, &computation, &policy, None)?
            && matches!(decision.reason, DecisionReason::Measured(_) | DecisionReason::Nearest(_))
        {
            return Ok((true, decision.path.map(|path| path.record.recipe)));
        }
    }
    Ok((false, None))
}

fn is_predicted(decision: &PathDecision) -> bool {
    matches!(decision.reason, DecisionReason::Predicted { .. } | DecisionReason::DefaultPredicted)
}

type CompiledPath = Arc<ExecutablePath<crate::array_library::PyKernel>>;

/// Compiles a candidate; gives the hash of its code too.
pub(crate) fn compile(
    py: Python<'_>,
    computation: &PlannedComputation,
    candidate: &PathCandidate,
) -> PyResult<(CompiledPath, ContentHash)> {
    compile_candidate(session()?, &PyArrays::new(py), computation, candidate)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Asks the database. A failure of it is told once, and nothing is known.
fn look_up(
    py: Python<'_>,
    computation: &PlannedComputation,
    policy: &PathPolicy,
    known: Option<&PlanChoice>,
) -> PyResult<Option<(PathDecision, Option<CompiledPath>)>> {
    let database = database(py)?;
    let known = known.and_then(|known| known.decision.measured.as_ref());
    let query = policy.query(computation, database.fingerprint(), &settings(policy.budget).policy.id());
    let mut compiled: FxHashMap<ContentHash, CompiledPath> = FxHashMap::default();
    let found = database.with_store(DatabaseAccess::Look, |store| {
        choose_measured(store, database.cache(), &query, policy, &mut |record, measured| {
            let key = (measured.implementation, measured.code_hash);
            if known.is_some_and(|known| (known.implementation, known.code_hash) == key) {
                return true;
            }
            let candidate = polyloom::graph::Recipe::from_json(&record.recipe)
                .ok()
                .and_then(|recipe| PathCandidate::new(&recipe, f64::NAN, record.is_default).ok());
            let Some(candidate) = candidate else { return false };
            let Ok((path, code)) = compile(py, computation, &candidate) else { return false };
            compiled.insert(candidate.hash, path);
            code == measured.code_hash
        })
    });
    match found {
        Ok(decision) => Ok(decision.flatten().map(|decision| {
            let path = decision.path.as_ref().and_then(|path| compiled.remove(&path.hash));
            (decision, path)
        })),
        Err(error) => {
            warn(py, database, &error);
            Ok(None)
        }
    }
}

/// Chooses by predicted times.
fn predict(
    py: Python<'_>,
    computation: &PlannedComputation,
    policy: &PathPolicy,
) -> PyResult<(PathDecision, Option<CompiledPath>)> {
    let list = list_candidates(py, computation, policy, PathLimits::default())?;
    let wrong = known_failures(py, computation)?;
    // A path that may differ by rounding is not run with a tolerance before it has been measured.
    let may_run =
        |path: &PathCandidate| !wrong.contains(&path.hash) && (policy.tolerance.is_none() || path.keeps_bits());
    Ok((choose_by_costs(&list, policy, &may_run), None))
}

/// Returns the implementations that have failed for the computation's workload here.
fn known_failures(py: Python<'_>, computation: &PlannedComputation) -> PyResult<FxHashSet<ContentHash>> {
    let database = database(py)?;
    let policy = PathPolicy { mode: PolicyMode::Fastest, tolerance: None, backends: None, budget: Duration::ZERO };
    let query = policy.query(computation, database.fingerprint(), &settings(Duration::ZERO).policy.id());
    let found = database.with_store(DatabaseAccess::Look, |store| store.measured(&query, &query.workload.hash()));
    match found {
        Ok(measured) => {
            use polyloom::planner::store::TraceStatus::{Ok, TooNoisy};
            let failed = measured.unwrap_or_default().into_iter();
            let failed = failed.filter(|each| each.is_wrong || !matches!(each.status, Ok | TooNoisy));
            std::result::Result::Ok(failed.map(|each| each.implementation).collect())
        }
        Err(error) => {
            warn(py, database, &error);
            Ok(FxHashSet::default())
        }
    }
}

/// Lists the candidates of a computation.
pub(crate) fn list_candidates(
    py: Python<'_>,
    computation: &PlannedComputation,
    policy: &PathPolicy,
    limits: PathLimits,
) -> PyResult<CandidateList> {
    let registry = registry(py, policy.backends.as_deref())?;
    let (costs, needs_bits) = (costs(py)?, policy.needs_bits(computation));
    let list = py.detach(|| candidates(computation, &registry, &costs, limits, needs_bits));
    list.map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The paths of the search that are measured, unless a caller says otherwise.
pub(crate) const N_MEASURED: usize = 16;

/// The bounds of the search where candidates are going to be measured.
pub(crate) fn measured_limits(n_paths: usize) -> PathLimits {
    PathLimits { n_paths, ..PathLimits::default() }
}

/// Makes a plan run a path under a policy until something is measured of it: the recipe's, or the plan's own if there is no recipe.
pub(crate) fn pin(py: Python<'_>, plan: &Arc<GroupPlan>, policy: u32, recipe: Option<&str>) -> PyResult<()> {
    let failed = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    if policy == DEFAULT_POLICY {
        return Err(PyValueError::new_err("the default policy runs the default path"));
    }
    let Some(recipe) = recipe else {
        plan.choose(policy, Arc::new(default_choice(DecisionReason::Pinned)));
        return Ok(());
    };
    if let Some(reason) = obstacle(plan) {
        return Err(failed(&reason));
    }
    let computation = plan.computation().ok_or_else(|| PyValueError::new_err("the graph has no canonical form"))?;
    let recipe = polyloom::graph::Recipe::from_json(recipe).map_err(|error| failed(&error))?;
    let candidate = PathCandidate::new(&recipe, f64::NAN, false).map_err(|error| failed(&error))?;
    let (path, _) = compile(py, &computation, &candidate)?;
    let decision = PathDecision { path: Some(candidate), measured: None, reason: DecisionReason::Pinned };
    let path = Some(ChosenPath::new(path));
    plan.choose(policy, Arc::new(PlanChoice { decision, path, generation: PlanChoice::FINAL }));
    Ok(())
}

/// Measures the default of a plan and so many paths of the search, and writes what was found; returns the number of traces.
pub(crate) fn explore(py: Python<'_>, plan: &GroupPlan, policy: &PathPolicy, n_paths: usize) -> PyResult<u64> {
    let Some(computation) = plan.computation().filter(|_| obstacle(plan).is_none()) else { return Ok(0) };
    let database = database(py)?;
    let list = list_candidates(py, &computation, policy, measured_limits(n_paths))?;
    let mut paths: Vec<PathCandidate> =
        list.paths.into_iter().filter(|path| path.is_default || policy.allows(&path.verified.recipe)).collect();
    let settings = settings(policy.budget);
    let mut goes_on = || !STOP.load(Ordering::Relaxed);
    let session = session()?;
    let profiled = without_warnings(py, || {
        profile(session, &PyArrays::new(py), &computation, &mut paths, &settings, &mut goes_on)
    })?;
    let profiled = profiled.map_err(PyRuntimeError::new_err)?;
    if STOP.load(Ordering::Relaxed) {
        return Ok(0);
    }
    let environment = database.environment();
    let traces = traces_of(&computation, &paths, &profiled, environment.fingerprint, &settings.policy.id(), RUNNER);
    let n_traces = traces.len() as u64;
    let mut records: Vec<StoreRecord> =
        vec![environment.into(), computation.graph_record().into(), computation.workload().into()];
    let measured: FxHashSet<ContentHash> = traces.iter().map(|trace| trace.implementation).collect();
    records.extend(paths.iter().filter(|path| measured.contains(&path.hash)).map(|path| path.record.clone().into()));
    records.extend(traces.into_iter().map(StoreRecord::from));
    put(py, database, &records);
    plan.forget_choices();
    Ok(n_traces)
}

/// Writes records. A failure is told once.
fn put(py: Python<'_>, database: &PlannerDatabase, records: &[StoreRecord]) {
    let done: Result<_, StoreError> =
        py.detach(|| database.with_store(DatabaseAccess::Write, |store| store.put(records)));
    database.cache().clear();
    if let Err(error) = done {
        warn(py, database, &error);
    }
}

/// Writes the computation of a new plan to the database, if it keeps what it sees (`POLYLOOM_RECORD`).
#[inline]
pub(crate) fn note_workload(py: Python<'_>, plan: &GroupPlan) {
    if !*RECORDS || plan.is_refused() || obstacle(plan).is_some() {
        return;
    }
    let Some(computation) = plan.computation() else { return };
    let default = PathCandidate::new(&default_recipe(&computation), f64::NAN, true);
    let (Ok(default), Ok(database)) = (default, database(py)) else { return };
    let records = [
        database.environment().into(),
        computation.graph_record().into(),
        computation.workload().into(),
        default.record.into(),
    ];
    put(py, database, &records);
}

/// A plan that is to be measured in the background.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct PathJob {
    plan: Arc<GroupPlan>,
    policy: PathPolicy,
}

#[pymethods]
impl PathJob {
    /// Measures the paths of the plan; returns how many were.
    fn run(&self, py: Python<'_>) -> PyResult<u64> {
        let explored = explore(py, &self.plan, &self.policy, N_MEASURED);
        self.plan.end_exploring();
        self.plan.forget_choices();
        explored
    }
}
