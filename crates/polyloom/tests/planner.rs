//! The planner over a library of Rust: what is measured becomes traces, and choices follow from them.

use polyloom::Session;
use polyloom::executor::{ArrayLibrary, HostArray, HostArrays, LibraryCall, NodeKernel};
use polyloom::fusion::RunNumber;
use polyloom::planner::store::{DatabaseLocation, StoreRecord, TraceStatus};
use polyloom::planner::{
    DatabaseAccess, DecisionReason, OfflineSettings, PathCandidate, PathPolicy, PlannedComputation, PlannerDatabase,
    PolicyMode, ProfileSettings, ProfiledPath, candidates, choose_by_costs, choose_measured, compile_candidate,
    profile, profile_offline, stored_computation, traces_of,
};
use polyloom_graph::cost::MachineCosts;
use polyloom_graph::measure::MeasurementPolicy;
use polyloom_graph::path::PathLimits;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::{Backend, KernelRegistry, Layout, Residence, TensorOp, parse_graph};
use polyloom_ir::Scalar;
use std::time::Duration;

/// The evaluator, with a fault planted in one op of one backend.
#[derive(Clone, Default)]
struct FaultyArrays {
    arrays: HostArrays,
}

struct FaultyKernel {
    kernel: NodeKernel,
    is_wrong: bool,
}

impl ArrayLibrary for FaultyArrays {
    type Array = HostArray;
    type Kernel = FaultyKernel;
    type Error = String;

    fn kernel(&self, call: &LibraryCall<'_>) -> Result<FaultyKernel, String> {
        let is_wrong = call.backend == Backend::CpuTorch && call.op == TensorOp::Add;
        Ok(FaultyKernel { kernel: self.arrays.kernel(call)?, is_wrong })
    }

    fn with_inputs(&self, inputs: Vec<HostArray>) -> FaultyArrays {
        FaultyArrays { arrays: HostArrays { inputs } }
    }

    fn call(&self, kernel: &FaultyKernel, operands: &[HostArray], numbers: &[RunNumber]) -> Result<HostArray, String> {
        let result = self.arrays.call(&kernel.kernel, operands, numbers)?;
        if !kernel.is_wrong {
            return Ok(result);
        }
        let mut tensor = result.read();
        tensor.bits[0] ^= 1 << 20;
        Ok(HostArray::of(&tensor))
    }

    fn input(&self, index: usize) -> Result<HostArray, String> {
        self.arrays.input(index)
    }

    fn new_array(&self, dtype: Scalar, layout: &Layout) -> Result<(HostArray, usize), String> {
        self.arrays.new_array(dtype, layout)
    }

    fn copy_to(&self, array: &HostArray, dtype: Scalar, from: Residence, to: Residence) -> Result<HostArray, String> {
        self.arrays.copy_to(array, dtype, from, to)
    }

    fn dense(&self, array: &HostArray) -> Result<(HostArray, usize), String> {
        self.arrays.dense(array)
    }
}

fn computation(n: u64) -> PlannedComputation {
    let text = format!("%x = input \"x\" : f32[{n}, 24]\n%a = add %x, %x\n%b = multiply %a, %x\nreturn %b");
    let layouts = [Layout::dense(&[n, 24])];
    PlannedComputation::new(&parse_graph(&text).unwrap(), &layouts, PlanOptions::default()).unwrap()
}

fn registry() -> KernelRegistry {
    KernelRegistry::with_backends(&[Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch])
}

fn paths(computation: &PlannedComputation) -> Vec<PathCandidate> {
    let limits = PathLimits { n_paths: 8, ..PathLimits::default() };
    candidates(computation, &registry(), &MachineCosts::default(), limits, true).unwrap().paths
}

fn settings() -> ProfileSettings {
    let policy = MeasurementPolicy { max_samples: 12, min_samples: 8, ..ProfileSettings::default().policy };
    ProfileSettings { policy, ..ProfileSettings::default() }
}

fn profiled(computation: &PlannedComputation, paths: &[PathCandidate]) -> Vec<ProfiledPath> {
    let session = Session::new().unwrap();
    profile(&session, &FaultyArrays::default(), computation, paths, &settings(), &mut || true).unwrap()
}

fn policy(mode: PolicyMode) -> PathPolicy {
    PathPolicy { mode, tolerance: None, backends: None, budget: Duration::from_secs(5) }
}

#[test]
fn a_wrong_path_is_found_and_never_timed() {
    let computation = computation(50);
    let paths = paths(&computation);
    let profiled = profiled(&computation, &paths);
    assert_eq!(profiled.len(), paths.len());
    for each in &profiled {
        let recipe = &paths[each.candidate].verified.recipe;
        let text = recipe.to_json();
        let is_wrong = recipe.groups().any(|group| group.backend == Backend::CpuTorch && group.kernel == "add");
        match is_wrong {
            true => assert!(each.status == TraceStatus::Wrong && each.measurement.is_none(), "{text}: {each:?}"),
            false => assert!(matches!(each.status, TraceStatus::Ok | TraceStatus::TooNoisy), "{text}: {each:?}"),
        }
    }
    assert!(profiled.iter().any(|each| each.status == TraceStatus::Wrong));
}

/// Puts the traces of a profile into a database, with times that the test says.
fn put(
    database: &PlannerDatabase,
    computation: &PlannedComputation,
    paths: &[PathCandidate],
    time_of: &dyn Fn(&PathCandidate) -> u64,
) {
    let profiled = profiled(computation, paths);
    let environment = database.environment();
    let policy = settings().policy.id();
    let mut traces = traces_of(computation, paths, &profiled, environment.fingerprint, &policy, "test");
    for (trace, each) in traces.iter_mut().zip(&profiled) {
        if matches!(trace.status, TraceStatus::Ok | TraceStatus::TooNoisy) {
            trace.session = "planted".to_owned();
            trace.status = TraceStatus::Ok;
            trace.reason = None;
            trace.samples = (0..30).map(|n| time_of(&paths[each.candidate]) + n % 3).collect();
        }
    }
    let mut records: Vec<StoreRecord> =
        vec![environment.into(), computation.graph_record().into(), computation.workload().into()];
    records.extend(paths.iter().map(|path| path.record.clone().into()));
    records.extend(traces.into_iter().map(StoreRecord::from));
    database.with_store(DatabaseAccess::Write, |store| store.put(&records)).unwrap();
}

fn temporary_database() -> (tempfile::TempDir, PlannerDatabase) {
    let folder = tempfile::tempdir().unwrap();
    let database = PlannerDatabase::default();
    database.set_location(Some(DatabaseLocation::Sqlite(folder.path().join("benchmarks.db"))));
    (folder, database)
}

/// Asks the database, with codes compared.
fn choose(database: &PlannerDatabase, computation: &PlannedComputation) -> Option<polyloom::planner::PathDecision> {
    let session = Session::new().unwrap();
    let policy = policy(PolicyMode::Fastest);
    let query = policy.query(computation, database.fingerprint(), &settings().policy.id());
    let found = database.with_store(DatabaseAccess::Look, |store| {
        choose_measured(store, database.cache(), &query, &policy, &mut |record, measured| {
            let recipe = polyloom_graph::Recipe::from_json(&record.recipe).unwrap();
            let candidate = PathCandidate::new(&recipe, 0.0, record.is_default).unwrap();
            let compiled = compile_candidate(&session, &FaultyArrays::default(), computation, &candidate);
            compiled.is_ok_and(|(_, code)| code == measured.code_hash)
        })
    });
    found.unwrap().flatten()
}

#[test]
fn the_fastest_right_path_is_chosen() {
    let (_folder, database) = temporary_database();
    let computation = computation(50);
    let paths = paths(&computation);
    assert!(choose(&database, &computation).is_none());
    // Paths that are wrong are the fastest of all, and one of NumPy's functions is faster than the default.
    let is_numpy = |path: &PathCandidate| path.verified.recipe.backends() == [Backend::CpuNumpy];
    put(&database, &computation, &paths, &|path| if is_numpy(path) { 50_000 } else { 100_000 });
    let decision = choose(&database, &computation).expect("it has been measured");
    let chosen = decision.path.expect("the default is beaten");
    assert!(is_numpy(&chosen), "{}", chosen.verified.recipe.to_json());
    assert!(matches!(decision.reason, DecisionReason::Measured(_)));
    // Another workload takes the nearest one's path, marked as such.
    let decision = choose(&database, &self::computation(60)).expect("a near workload has been measured");
    assert!(is_numpy(&decision.path.unwrap()) && matches!(decision.reason, DecisionReason::Nearest(_)));
}

#[test]
fn a_slow_path_never_replaces_the_default() {
    let (_folder, database) = temporary_database();
    let computation = computation(51);
    put(&database, &computation, &paths(&computation), &|path| if path.is_default { 100_000 } else { 900_000 });
    let decision = choose(&database, &computation).expect("it has been measured");
    assert!(decision.path.is_none());
}

#[test]
fn the_cost_model_chooses_where_nothing_is_measured() {
    let computation = computation(50);
    let limits = PathLimits::default();
    let mut costs = MachineCosts::default();
    let decide = |costs: &MachineCosts| {
        let list = candidates(&computation, &registry(), costs, limits, true).unwrap();
        choose_by_costs(&list, &policy(PolicyMode::Heuristic), &|_| true)
    };
    assert!(decide(&costs).path.is_none(), "one kernel is predicted to be the fastest");
    costs.backends.get_mut(&Backend::CpuNative).unwrap().launch_ns = 1e6;
    let chosen = decide(&costs).path.expect("launches of Polyloom have become slow");
    assert_eq!(chosen.verified.recipe.backends(), [Backend::CpuNumpy]);
}

#[test]
fn computations_of_the_database_are_profiled_once() {
    let (_folder, database) = temporary_database();
    let session = Session::new().unwrap();
    let planned = [computation(20), computation(33)];
    let mut records: Vec<StoreRecord> = vec![];
    for computation in &planned {
        let default = paths(computation).into_iter().find(|path| path.is_default).unwrap();
        let restored = stored_computation(&default.record, &computation.workload(), PlanOptions::default()).unwrap();
        assert_eq!((restored.known, restored.layouts), (computation.known.clone(), computation.layouts.clone()));
        records.extend([
            computation.graph_record().into(),
            computation.workload().into(),
            default.record.clone().into(),
        ]);
    }
    database.with_store(DatabaseAccess::Write, |store| store.put(&records)).unwrap();
    let offline = OfflineSettings {
        profile: settings(),
        limits: PathLimits { n_paths: 4, ..PathLimits::default() },
        budget: None,
        graphs: vec![],
        options: PlanOptions::default(),
        allows_rounding: false,
    };
    let work = || {
        let (library, costs) = (FaultyArrays::default(), MachineCosts::default());
        profile_offline(&session, &library, &database, &registry(), &costs, &offline, "test", &mut |_| true).unwrap()
    };
    let first = work();
    assert_eq!((first.n_done, first.n_failed), (2, 0));
    assert!(first.n_traces >= 4);
    assert_eq!((work().n_done, work().n_traces), (0, 0));
    assert!(choose(&database, &planned[1]).is_some());
}
