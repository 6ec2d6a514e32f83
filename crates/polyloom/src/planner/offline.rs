//! Profiling what the database knows and has not measured, job by job.
//!
//! Graphs and workloads enter the database when functions run. A worker makes a job of each pair that has no measurement in its
//! environment, takes jobs by leases, and gives them back, so that several workers share the work and one that is killed loses one job,
//! which another one has after the lease.

use super::candidates::candidates;
use super::computation::{PlannedComputation, symbols_between};
use super::database::{DatabaseAccess, PlannerDatabase};
use super::profile::{ProfileSettings, profile, recipe_of, traces_of};
use crate::executor::ArrayLibrary;
use crate::session::Session;
use polyloom_graph::cost::MachineCosts;
use polyloom_graph::path::PathLimits;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::{KernelRegistry, Layout, Shape, TensorDef, parse_graph};
use polyloom_store::{
    ContentHash, ImplementationRecord, Job, JobRequest, LeaseOutcome, StoreError, StoreRecord, WorkloadRecord,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::{Duration, Instant};

/// The time for which a worker that says nothing keeps a job.
const LEASE: Duration = Duration::from_secs(60);
/// A job that workers were lost with so often is given up.
const MAX_ATTEMPTS: u32 = 3;

/// Says what a worker is to do.
#[derive(Clone, Debug)]
pub struct OfflineSettings {
    /// Says how each computation is profiled.
    pub profile: ProfileSettings,
    /// The bounds of the search for candidates.
    pub limits: PathLimits,
    /// The time for all; no job begins after it.
    pub budget: Option<Duration>,
    /// The beginnings of hashes of the graphs to take; all if there are none.
    pub graphs: Vec<String>,
    /// The options of plans.
    pub options: PlanOptions,
    /// True to take paths that differ by rounding too.
    pub allows_rounding: bool,
}

/// Says how far a worker has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OfflineProgress {
    /// The jobs that this worker has done.
    pub n_done: u64,
    /// The jobs that failed here.
    pub n_failed: u64,
    /// The jobs that wait.
    pub n_waiting: u64,
    /// The measurements that were written.
    pub n_traces: u64,
    /// Describes the job that begins.
    pub current: String,
}

/// A computation as the database knows it.
pub type StoredComputation = (ImplementationRecord, WorkloadRecord);

/// Restores a computation from its default implementation and a workload; none if this program does not read them.
pub fn stored_computation(
    implementation: &ImplementationRecord,
    workload: &WorkloadRecord,
    options: PlanOptions,
) -> Option<PlannedComputation> {
    let recipe = recipe_of(&implementation.recipe)?;
    let program = parse_graph(&recipe.program).ok()?;
    let mut known = program.clone();
    let mut arguments = workload.arguments.iter();
    let mut layouts = Vec::new();
    for value in known.values.iter_mut().filter(|value| matches!(value.def, TensorDef::Input(_))) {
        let argument = arguments.next()?;
        value.ty.shape = Shape::of(&argument.shape);
        layouts.push(layout_of(&argument.layout, &argument.shape)?);
    }
    let symbols = symbols_between(&program, &known)?;
    let computation = PlannedComputation::of_symbols(&program, &symbols, options).ok()?;
    let computation = PlannedComputation { layouts, ..computation };
    (computation.hash() == implementation.graph).then_some(computation)
}

fn layout_of(text: &str, extents: &[u64]) -> Option<Layout> {
    if text == "c" {
        return Some(Layout::dense(extents));
    }
    let list = text.strip_prefix("strides [")?.strip_suffix(']')?;
    let strides: Vec<i64> =
        list.split(',').map(|stride| stride.trim().parse().ok()).collect::<Option<_>>().unwrap_or_default();
    (strides.len() == extents.len()).then(|| Layout { extents: extents.to_vec(), strides, offset: 0 })
}

/// Holds what there is in the database for a worker.
#[derive(Default)]
struct DatabaseContents {
    defaults: FxHashMap<ContentHash, ImplementationRecord>,
    workloads: Vec<WorkloadRecord>,
    measured: FxHashSet<(ContentHash, ContentHash)>,
}

/// Profiles what has not been measured in this environment, until nothing is left, the budget is used up, or `report` says no.
///
/// # Errors
///
/// If the database fails, or there is none.
#[expect(clippy::too_many_arguments, reason = "they are the parts of a worker, which are made in different places")]
pub fn profile_offline<L: ArrayLibrary>(
    session: &Session,
    library: &L,
    database: &PlannerDatabase,
    registry: &KernelRegistry,
    costs: &MachineCosts,
    settings: &OfflineSettings,
    runner: &str,
    report: &mut dyn FnMut(&OfflineProgress) -> bool,
) -> Result<OfflineProgress, StoreError> {
    let started = Instant::now();
    let environment = database.environment();
    let fingerprint = environment.fingerprint;
    let policy = settings.profile.policy.id();
    let owner = format!("{}-{}", std::process::id(), now_nanos());
    let contents = database.with_store(DatabaseAccess::Write, |store| {
        store.put(&[environment.clone().into()])?;
        let mut contents = DatabaseContents::default();
        store.for_each_record(&mut |record| {
            match record {
                StoreRecord::Implementation(each) if each.is_default => {
                    contents.defaults.insert(each.graph, each);
                }
                StoreRecord::Workload(each) => contents.workloads.push(each),
                StoreRecord::Trace(each) if each.environment == fingerprint && each.policy == policy => {
                    contents.measured.insert((each.graph, each.workload));
                }
                _ => {}
            }
            Ok(())
        })?;
        let is_wanted = |graph: &ContentHash| {
            let digits = graph.to_string();
            settings.graphs.is_empty() || settings.graphs.iter().any(|prefix| digits.starts_with(prefix.as_str()))
        };
        let unmeasured = contents.workloads.iter().filter(|workload| {
            contents.defaults.contains_key(&workload.graph)
                && !contents.measured.contains(&(workload.graph, workload.hash()))
                && is_wanted(&workload.graph)
        });
        let jobs: Vec<JobRequest> = unmeasured
            .map(|workload| JobRequest {
                graph: workload.graph,
                workload: workload.hash(),
                environment: fingerprint,
                policy: policy.clone(),
                priority: 0,
                max_attempts: MAX_ATTEMPTS,
                is_repeated: false,
            })
            .collect();
        store.add_jobs(&jobs)?;
        Ok(contents)
    })?;
    let mut progress = OfflineProgress::default();
    let Some(contents) = contents else { return Ok(progress) };
    let is_late = |started: &Instant| settings.budget.is_some_and(|budget| started.elapsed() >= budget);
    while !is_late(&started) {
        let leased = database.with_store(DatabaseAccess::Write, |store| {
            let jobs = store.lease(&fingerprint, &owner, 1, LEASE)?;
            Ok((jobs, store.job_counts(Some(&fingerprint))?))
        })?;
        let Some((mut jobs, counts)) = leased else { break };
        let Some(job) = jobs.pop() else { break };
        progress.n_waiting = counts.n_waiting;
        let shapes: Vec<String> =
            job.workload.arguments.iter().map(|argument| format!("{}{:?}", argument.dtype, argument.shape)).collect();
        progress.current = format!("{} on {}", job.graph.bits.short(), shapes.join(", "));
        if !report(&progress) {
            finish(database, &job, LeaseOutcome::Returned)?;
            break;
        }
        let mut is_stopped = false;
        let mut goes_on = || {
            let kept = database.with_store(DatabaseAccess::Write, |store| store.heartbeat(&job, LEASE));
            is_stopped = !report(&progress);
            kept.is_ok() && !is_stopped
        };
        let ran = run_job(session, library, database, registry, costs, settings, &contents, &job, runner, &mut goes_on);
        let outcome = match ran {
            // Measurements made before it was stopped are kept, and the rest is done another time.
            Ok(_) if is_stopped => LeaseOutcome::Returned,
            Ok(n_traces) => {
                progress.n_traces += n_traces;
                progress.n_done += 1;
                LeaseOutcome::Done
            }
            Err(reason) => {
                progress.n_failed += 1;
                LeaseOutcome::Failed { reason }
            }
        };
        finish(database, &job, outcome)?;
        if is_stopped {
            break;
        }
    }
    progress.current.clear();
    report(&progress);
    Ok(progress)
}

/// Gives a job back. One that has passed to another worker meanwhile is that one's.
fn finish(database: &PlannerDatabase, job: &Job, outcome: LeaseOutcome) -> Result<(), StoreError> {
    match database.with_store(DatabaseAccess::Write, |store| store.finish(job, &outcome)) {
        Err(StoreError::LeaseLost { .. }) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[expect(clippy::too_many_arguments, reason = "they are the parts of a worker and its job")]
fn run_job<L: ArrayLibrary>(
    session: &Session,
    library: &L,
    database: &PlannerDatabase,
    registry: &KernelRegistry,
    costs: &MachineCosts,
    settings: &OfflineSettings,
    contents: &DatabaseContents,
    job: &Job,
    runner: &str,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<u64, String> {
    let default = contents.defaults.get(&job.graph.bits).ok_or("its graph has no default implementation")?;
    let computation = stored_computation(default, &job.workload, settings.options);
    let computation = computation.ok_or("its graph was made by another version")?;
    let list = candidates(&computation, registry, costs, settings.limits, !settings.allows_rounding)
        .map_err(|error| error.to_string())?;
    let mut paths = list.paths;
    let profiled = profile(session, library, &computation, &mut paths, &settings.profile, goes_on)?;
    let policy = settings.profile.policy.id();
    let traces = traces_of(&computation, &paths, &profiled, database.fingerprint(), &policy, runner);
    let n_traces = traces.len() as u64;
    let measured: FxHashSet<ContentHash> = traces.iter().map(|trace| trace.implementation).collect();
    let records = paths.iter().filter(|path| measured.contains(&path.hash)).map(|path| path.record.clone().into());
    let records: Vec<StoreRecord> = records.chain(traces.into_iter().map(StoreRecord::from)).collect();
    database.with_store(DatabaseAccess::Write, |store| store.put(&records)).map_err(|error| error.to_string())?;
    database.cache().clear();
    Ok(n_traces)
}

fn now_nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
