//! This module tells Python and the command line of paths: candidates with their times, what is chosen and why; and profiles of everything
//! that the database knows.

use crate::array_library::{PyArrays, without_warnings};
use crate::fused_calls::FusedCalls;
use crate::group_plan::GroupPlan;
use crate::path_choice::{
    DEFAULT_POLICY, RUNNER, costs, database, explore, list_candidates, obstacle, path_choice, policy_of, registry,
    settings,
};
use crate::session;
use polyloom::FloatMode;
use polyloom::fusion::plan_options;
use polyloom::graph::cost::MachineCosts;
use polyloom::graph::path::PathLimits;
use polyloom::planner::store::{ContentHash, StoreError, TraceFilter, TraceRecord};
use polyloom::planner::{
    DatabaseAccess, OfflineProgress, OfflineSettings, PathCandidate, PathPolicy, PlannedComputation, PlannerDatabase,
    PolicyMode, calibrate, costs_file, describe_path, profile_offline,
};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

/// The traces of a workload that a report reads at most.
const MAX_TRACES: u64 = 400;

/// Warns that the database cannot be used, once for each reason.
pub(crate) fn warn(py: Python<'_>, database: &PlannerDatabase, error: &StoreError) {
    if !database.is_news(error) {
        return;
    }
    let text = format!("paths are chosen without the benchmark database: {error}");
    let Ok(text) = CString::new(text) else { return };
    // A warning that is an error does not end a call that can go on.
    let _ = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1);
}

/// Describes the candidates of a plan as JSON.
pub(crate) fn describe(py: Python<'_>, calls: &FusedCalls, plan: &Arc<GroupPlan>, n_paths: usize) -> PyResult<Value> {
    let number = calls.policy();
    let policy = policy_of(number).unwrap_or(PathPolicy {
        mode: PolicyMode::Heuristic,
        tolerance: None,
        backends: None,
        budget: Duration::ZERO,
    });
    let Some(computation) = plan.computation() else {
        return Ok(json!({"name": calls.name, "why": "the graph has no canonical form", "candidates": []}));
    };
    let choice = if number == DEFAULT_POLICY { None } else { Some(path_choice(py, plan, number)?) };
    let database = database(py)?;
    let limits = PathLimits { n_paths, ..PathLimits::default() };
    let mut list = list_candidates(py, &computation, &policy, limits)?;
    let (environment, policy_id) = (database.fingerprint(), settings(policy.budget).policy.id());
    let traces = newest_traces(py, database, &computation, environment, &policy_id);
    for trace in &traces {
        if list.paths.iter().all(|path| path.hash != trace.implementation)
            && let Some(path) = stored_path(database, &computation, trace)
        {
            list.paths.push(path);
        }
    }
    // The search ends after a time, so that it need not come to the path that was chosen before.
    if let Some(path) = choice.as_ref().and_then(|choice| choice.decision.path.as_ref())
        && list.paths.iter().all(|each| each.hash != path.hash)
    {
        list.paths.push(path.clone());
    }
    list.paths.sort_by(|a, b| {
        b.is_default.cmp(&a.is_default).then(a.predicted_ns.total_cmp(&b.predicted_ns)).then(a.hash.cmp(&b.hash))
    });
    let chosen = choice.as_ref().and_then(|choice| choice.decision.path.as_ref()).map(|path| path.hash);
    let why = match &choice {
        _ if obstacle(plan).is_some() && choice.is_none() => obstacle(plan).map(|reason| reason.to_string()),
        None => Some("the default policy runs the default path".to_owned()),
        Some(choice) => Some(choice.decision.reason.to_string()),
    };
    let candidate = |path: &PathCandidate| {
        let trace = traces.iter().find(|trace| trace.implementation == path.hash);
        let median = trace.and_then(|trace| median(&trace.samples));
        json!({
            "path": describe_path(&path.verified),
            "hash": path.hash.to_string(),
            "recipe": path.record.recipe,
            "backends": path.verified.recipe.backends().iter().map(|backend| backend.name()).collect::<Vec<_>>(),
            "n_steps": path.verified.recipe.steps.len(),
            "keeps_bits": path.keeps_bits(),
            "is_default": path.is_default,
            "is_chosen": if path.is_default { chosen.is_none() } else { chosen == Some(path.hash) },
            "predicted_ns": path.predicted_ns.is_finite().then_some(path.predicted_ns),
            "measured_ns": median.map(|picoseconds| picoseconds as f64 / 1e3),
            "n_samples": trace.map(|trace| trace.samples.len()),
            "error": trace.and_then(|trace| trace.error),
            "status": trace.map_or("not measured", |trace| trace.status.name()),
            "reason": trace.and_then(|trace| trace.reason.clone()),
        })
    };
    let inputs: Vec<String> = computation
        .workload()
        .arguments
        .iter()
        .map(|argument| {
            let extents: Vec<String> = argument.shape.iter().map(u64::to_string).collect();
            format!("{}[{}]", argument.dtype, extents.join(", "))
        })
        .collect();
    Ok(json!({
        "name": calls.name,
        "graph": computation.hash().to_string(),
        "program": computation.known.to_string(),
        "inputs": inputs,
        "environment": environment.to_string(),
        "database": database.location().map(|location| location.to_string()),
        "stopped": format!("{:?}", list.stopped),
        "why": why,
        "candidates": list.paths.iter().map(candidate).collect::<Vec<_>>(),
    }))
}

/// Returns the newest trace of each implementation; none if the database fails, of which a warning is given.
fn newest_traces(
    py: Python<'_>,
    database: &PlannerDatabase,
    computation: &PlannedComputation,
    environment: ContentHash,
    policy: &str,
) -> Vec<TraceRecord> {
    let filter = TraceFilter {
        graph: computation.hash(),
        workload: Some(computation.workload().hash()),
        environment: Some(environment),
        limit: Some(MAX_TRACES),
    };
    let found = py.detach(|| database.with_store(DatabaseAccess::Look, |store| store.traces(&filter)));
    let found = match found {
        Ok(found) => found.unwrap_or_default(),
        Err(error) => {
            warn(py, database, &error);
            return Vec::new();
        }
    };
    let mut newest: Vec<TraceRecord> = Vec::new();
    for trace in found.into_iter().filter(|trace| trace.policy == policy) {
        if newest.iter().all(|each| each.implementation != trace.implementation) {
            newest.push(trace);
        }
    }
    newest
}

fn stored_path(
    database: &PlannerDatabase,
    computation: &PlannedComputation,
    trace: &TraceRecord,
) -> Option<PathCandidate> {
    let hash = computation.hash();
    let found = database.with_store(DatabaseAccess::Look, |store| store.implementation(&hash, &trace.implementation));
    let record = found.ok()??.filter(|record| !record.is_default)?;
    let recipe = polyloom::graph::Recipe::from_json(&record.recipe).ok()?;
    PathCandidate::new(&recipe, f64::NAN, false).ok()
}

fn median(samples: &[u64]) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Measures the candidates of a plan by a policy, and returns how many traces were written.
pub(crate) fn measure_now(py: Python<'_>, plan: &GroupPlan, policy: u32, budget: f64, n_paths: usize) -> PyResult<u64> {
    let budget = Duration::try_from_secs_f64(budget).unwrap_or(Duration::from_secs(30));
    let policy =
        policy_of(policy).unwrap_or(PathPolicy { mode: PolicyMode::Fastest, tolerance: None, backends: None, budget });
    explore(py, plan, &PathPolicy { budget, ..policy }, n_paths)
}

/// Profiles what the benchmark database knows and has not measured in this environment.
///
/// Parameters
/// ----------
/// budget : float or None
///     The seconds after which no computation begins.
/// graphs : list of str
///     Beginnings of hashes of the graphs to take; all if it is empty.
/// per_graph : float
///     The seconds for one computation.
/// allows_rounding : bool
///     Take paths that differ by rounding too.
/// report : callable
///     It is given the jobs that are done, failed and waiting, the measurements, and the job that begins, before each candidate; false
///     ends the work.
///
/// Returns
/// -------
/// tuple of int
///     The jobs that are done, those that failed, and the measurements.
#[pyfunction]
#[pyo3(signature = (budget, graphs, per_graph, allows_rounding, report))]
pub(crate) fn profile_database(
    py: Python<'_>,
    budget: Option<f64>,
    graphs: Vec<String>,
    per_graph: f64,
    allows_rounding: bool,
    report: Bound<'_, PyAny>,
) -> PyResult<(u64, u64, u64)> {
    let duration =
        |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(|error| PyRuntimeError::new_err(error.to_string()));
    let database = database(py)?;
    let settings = OfflineSettings {
        profile: settings(duration(per_graph)?),
        limits: crate::path_choice::measured_limits(crate::path_choice::N_MEASURED),
        budget: budget.map(duration).transpose()?,
        graphs,
        options: plan_options(polyloom::DeviceId::Cpu, polyloom::Arch::DEFAULT, FloatMode::Strict),
        allows_rounding,
    };
    let (registry, costs) = (registry(py, None)?, costs(py)?);
    let mut raised = None;
    let session = session()?;
    let mut goes_on = |progress: &OfflineProgress| {
        let given = (progress.n_done, progress.n_failed, progress.n_waiting, progress.n_traces, &progress.current);
        let answer = py.check_signals().and_then(|()| report.call1(given)?.is_truthy());
        answer.unwrap_or_else(|error| {
            raised = Some(error);
            false
        })
    };
    let arrays = PyArrays::new(py);
    let done = without_warnings(py, || {
        profile_offline(session, &arrays, database, &registry, &costs, &settings, RUNNER, &mut goes_on)
    })?;
    match (raised, done) {
        (Some(error), _) => Err(error),
        (None, Ok(progress)) => Ok((progress.n_done, progress.n_failed, progress.n_traces)),
        (None, Err(error)) => Err(PyOSError::new_err(error.to_string())),
    }
}

/// Measures the rates of this machine, and writes them to the file that the cost model reads; returns its path and the rates as JSON.
#[pyfunction]
pub(crate) fn calibrate_machine(py: Python<'_>, report: Bound<'_, PyAny>) -> PyResult<(String, String)> {
    let database = database(py)?;
    let file = costs_file(&database.fingerprint());
    let file = file.ok_or_else(|| PyOSError::new_err("there is no home directory to keep the rates in"))?;
    let registry = registry(py, None)?;
    let options = plan_options(polyloom::DeviceId::Cpu, polyloom::Arch::DEFAULT, FloatMode::Strict);
    let session = session()?;
    let measured: Result<MachineCosts, String> = without_warnings(py, || {
        calibrate(session, &PyArrays::new(py), &registry, options, &mut |backend| {
            // Progress that cannot be shown is no reason to stop.
            let _ = report.call1((backend,));
        })
    })?;
    let text = measured.map_err(PyRuntimeError::new_err)?.to_json();
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // A reader never finds half a file.
    let partial = file.with_extension("partial");
    std::fs::write(&partial, &text)?;
    std::fs::rename(&partial, &file)?;
    Ok((file.display().to_string(), text))
}
