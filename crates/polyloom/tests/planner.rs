//! The planner over a library of Rust: what is measured becomes traces, and choices follow from them.

use polyloom::Session;
use polyloom::executor::{ArrayLibrary, HostArray, HostArrays, LibraryCall, MeasuredPathRun, NodeKernel};
use polyloom::fusion::RunNumber;
use polyloom::planner::store::{DatabaseLocation, StoreRecord, TraceFilter, TraceStatus};
use polyloom::planner::{
    DatabaseAccess, DecisionReason, OfflineProgress, OfflineSettings, PathCandidate, PathPolicy, PlannedComputation,
    PlannerDatabase, PolicyMode, ProfileSettings, ProfiledPath, candidates, choose_by_costs, choose_measured,
    compile_candidate, default_recipe, parameter_variants, profile, profile_offline, stored_computation, traces_of,
};
use polyloom_graph::cost::MachineCosts;
use polyloom_graph::measure::MeasurementPolicy;
use polyloom_graph::path::PathLimits;
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::reference::DenseTensor;
use polyloom_graph::tune::TuningLimits;
use polyloom_graph::verify_accuracy::{InputDistribution, InputDomain, make_inputs};
use polyloom_graph::{Backend, KernelRegistry, Layout, Recipe, Residence, TensorOp, parse_graph};
use polyloom_ir::Scalar;
use std::sync::Barrier;
use std::time::Duration;

// The tests of the store know how to start a server.
#[path = "../../polyloom-store/tests/main/database.rs"]
#[allow(dead_code, reason = "those tests use more of it")]
mod database;

use database::TestDatabase;

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
    let mut all = paths.to_vec();
    let profiled = profile(&session, &FaultyArrays::default(), computation, &mut all, &settings(), &mut || true);
    // Points of a search are paths of their own, behind those that are given.
    profiled.unwrap().into_iter().filter(|each| each.candidate < paths.len()).collect()
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

/// Returns the results of a path on inputs that are the same for all paths.
fn results(session: &Session, computation: &PlannedComputation, path: &PathCandidate) -> Vec<DenseTensor> {
    let inputs = make_inputs(&computation.known, InputDistribution::Uniform, InputDomain::Reals, 3).unwrap();
    let library = FaultyArrays::default().with_inputs(inputs.iter().map(HostArray::of).collect());
    let inputs = computation.known.inputs().zip(&computation.layouts).zip(&library.arrays.inputs);
    let places: Vec<_> = inputs.map(|(((_, ty), layout), array)| (ty.dtype, layout.clone(), array.address())).collect();
    let (compiled, _) = compile_candidate(session, &library, computation, path).unwrap();
    let mut run = MeasuredPathRun::new(&library, &compiled, &places, &computation.output_types(), &[]).unwrap();
    run.results().unwrap()
}

/// Products, rows and attention, whose kernels have parameters.
const TUNABLE: [&str; 3] = [
    "%a = input \"a\" : f32[37, 65]\n%b = input \"b\" : f32[65, 70]\n%c = matmul %a, %b\n%d = relu %c\nreturn %d",
    "%a = input \"a\" : f32[9, 5000]\n%b = softmax %a\n%c = sum %b, axes=(0)\nreturn %b, %c",
    "%q = input \"q\" : f32[2, 70, 33]\n%k = input \"k\" : f32[2, 90, 33]\n%v = input \"v\" : f32[2, 90, 40]\n\
     %y = attention %q, %k, %v\nreturn %y",
];

fn computation_of(text: &str) -> PlannedComputation {
    let graph = parse_graph(text).unwrap();
    let layouts: Vec<Layout> = graph.inputs().map(|(_, ty)| Layout::dense(&ty.shape.as_static().unwrap())).collect();
    PlannedComputation::new(&graph, &layouts, PlanOptions::default()).unwrap()
}

fn default_path(computation: &PlannedComputation) -> PathCandidate {
    PathCandidate::new(&default_recipe(computation), 0.0, true).unwrap()
}

#[test]
fn no_parameter_of_a_kernel_changes_a_bit() {
    let session = Session::new().unwrap();
    for text in TUNABLE {
        let computation = computation_of(text);
        let default = default_path(&computation);
        let expected = results(&session, &computation, &default);
        let variants = parameter_variants(&computation, &default, 12, 5);
        assert!(variants.len() >= 3, "{text}");
        for variant in variants {
            assert_eq!(results(&session, &computation, &variant), expected, "{}", variant.record.recipe);
        }
        // A recipe says what code runs, and how far its loops are unrolled.
        for parameters in [r#"{"tier":0}"#, r#"{"tier":1}"#, r#"{"unroll":4}"#, r#"{"tier":1,"unroll":8}"#] {
            let recipe =
                default.record.recipe.replace(r#""step":"run""#, &format!(r#""parameters":{parameters},"step":"run""#));
            let variant = PathCandidate::new(&Recipe::from_json(&recipe).unwrap(), 0.0, false).unwrap();
            assert_eq!(results(&session, &computation, &variant), expected, "{parameters}");
        }
    }
}

#[test]
fn a_recipe_chooses_the_tier_and_the_unrolling_of_its_kernels() {
    let session = Session::new().unwrap();
    let graph =
        parse_graph("%x = input \"x\" : f32[64, 50]\n%y = sum %x, axes=(1), keepdims=false\nreturn %y").unwrap();
    let layouts = [Layout::dense(&[64, 50])];
    let plan = |options: &PlanOptions| session.fused_plan(&graph, &layouts, options).unwrap();
    let hints = |options: &PlanOptions| plan(options).kernels().next().unwrap().function().metadata.clone();
    assert_eq!(
        hints(&PlanOptions { unroll: Some(4), ..PlanOptions::default() }).hints,
        [("unroll".into(), "4".into())]
    );
    assert_eq!(hints(&PlanOptions::default()).hints, []);
    // Rows are summed by the blocks of their plan; threads that know no blocks have those of the recipe.
    let of_blocks = PlanOptions { block_size: Some(64), ..PlanOptions::default() };
    assert_eq!(hints(&of_blocks).workgroup_size, hints(&PlanOptions::default()).workgroup_size);
    let square = parse_graph("%x = input \"x\" : f32[64, 50]\n%y = multiply %x, %x\nreturn %y").unwrap();
    let plan = session.fused_plan(&square, &layouts, &of_blocks).unwrap();
    assert_eq!(plan.kernels().next().unwrap().function().metadata.workgroup_size, Some([64, 1, 1]));
}

#[test]
fn tuned_parameters_are_kept_and_replayed() {
    let (_folder, database) = temporary_database();
    let session = Session::new().unwrap();
    let computation = computation_of(TUNABLE[0]);
    let mut paths = vec![default_path(&computation)];
    let tuning = TuningLimits { n_first_points: 6, n_points: 8, ..TuningLimits::default() };
    let settings = ProfileSettings { tuning, ..settings() };
    let library = FaultyArrays::default();
    let profiled = profile(&session, &library, &computation, &mut paths, &settings, &mut || true).unwrap();
    // Each point is a path whose measurement is kept as one of a search.
    let points: Vec<&ProfiledPath> = profiled.iter().filter(|each| each.is_of_search).collect();
    assert!((6..=8).contains(&points.len()) && paths.len() == 1 + points.len(), "{}", points.len());
    assert!(points.iter().all(|point| matches!(point.status, TraceStatus::Ok | TraceStatus::TooNoisy)), "{points:#?}");
    let policy = settings.policy.id();
    let traces = traces_of(&computation, &paths, &profiled, database.fingerprint(), &policy, "test");
    assert_eq!(traces.iter().filter(|trace| trace.policy == format!("{policy}-search")).count(), points.len());
    // A point that is the fastest is what runs, by its recipe.
    let tuned = paths.iter().skip(1).find(|path| path.record.recipe.contains("\"tile\"")).unwrap();
    put(
        &database,
        &computation,
        &[paths[0].clone(), tuned.clone()],
        &|path| if path.is_default { 100 } else { 50 } * 1000,
    );
    let chosen = choose(&database, &computation).unwrap().path.expect("the tuned path is the fastest");
    assert_eq!(chosen.record.recipe, tuned.record.recipe);
    assert_eq!(results(&session, &computation, &chosen), results(&session, &computation, &paths[0]));
    // Products of other extents whose plan has the same code take the parameters of the nearest ones.
    let other = computation_of(&TUNABLE[0].replace("37", "38"));
    let near = choose(&database, &other).unwrap();
    assert!(
        matches!(near.reason, DecisionReason::Nearest(_)) && near.path.unwrap().record.recipe == tuned.record.recipe
    );
}

/// A step of a wave, whose slices fix its extents.
fn wave(n: u64) -> String {
    let last = n - 1;
    format!(
        "%u = input \"u\" : f32[{n}, {n}]\n%a = slice %u, starts=({last}, 0), sizes=(1, {n}), steps=(1, 1)\n\
         %b = slice %u, starts=(0, 0), sizes=({last}, {n}), steps=(1, 1)\n%c = concat %a, %b, axis=0\n\
         %d = subtract %c, %u\n%s = sum %d, axes=(1)\nreturn %d, %s"
    )
}

#[test]
fn computations_of_fixed_extents_are_verified_at_smaller_ones() {
    let computation = computation_of(&wave(200));
    assert!(computation.symbols.is_empty(), "{}", computation.graph);
    let session = Session::new().unwrap();
    let settings = ProfileSettings { max_operations: 1 << 12, ..settings() };
    let limits = PathLimits { n_paths: 6, ..PathLimits::default() };
    let mut paths = candidates(&computation, &registry(), &MachineCosts::default(), limits, false).unwrap().paths;
    let library = FaultyArrays::default();
    let profiled = profile(&session, &library, &computation, &mut paths, &settings, &mut || true).unwrap();
    let of_numpy =
        profiled.iter().filter(|each| paths[each.candidate].verified.recipe.backends() == [Backend::CpuNumpy]);
    let of_numpy: Vec<_> = of_numpy.collect();
    assert!(!of_numpy.is_empty());
    for each in of_numpy {
        assert!(matches!(each.status, TraceStatus::Ok | TraceStatus::TooNoisy), "{each:?}");
        assert!(each.error.is_some_and(|error| error < 1e-5), "{each:?}");
    }
}

#[test]
fn workers_share_a_queue() {
    check_workers_share_a_queue(&TestDatabase::sqlite());
    if let Some(database) = TestDatabase::postgres() {
        check_workers_share_a_queue(&database);
    }
}

/// Two workers, each with a connection of its own, do each job of the database once between them.
fn check_workers_share_a_queue(place: &TestDatabase) {
    let worker = || {
        let database = PlannerDatabase::default();
        database.set_location(Some(place.location()));
        database
    };
    let sizes = [20, 24, 28, 32, 36, 40];
    let planned: Vec<PlannedComputation> = sizes.into_iter().map(computation).collect();
    let records: Vec<StoreRecord> = planned
        .iter()
        .flat_map(|planned| {
            let default = default_path(planned).record;
            [planned.graph_record().into(), planned.workload().into(), default.into()]
        })
        .collect();
    worker().with_store(DatabaseAccess::Write, |store| store.put(&records)).unwrap();
    let offline = OfflineSettings {
        profile: settings(),
        limits: PathLimits { n_paths: 2, ..PathLimits::default() },
        budget: None,
        graphs: vec![],
        options: PlanOptions::default(),
        allows_rounding: false,
    };
    let together = Barrier::new(2);
    let work = |name: &str| {
        let (database, session) = (worker(), Session::new().unwrap());
        let mut jobs: Vec<String> = Vec::new();
        let (library, costs) = (FaultyArrays::default(), MachineCosts::default());
        together.wait();
        let mut report = |progress: &OfflineProgress| {
            if !progress.current.is_empty() && jobs.last() != Some(&progress.current) {
                jobs.push(progress.current.clone());
            }
            true
        };
        let progress =
            profile_offline(&session, &library, &database, &registry(), &costs, &offline, name, &mut report).unwrap();
        (progress, jobs)
    };
    let work = &work;
    let [(first, of_first), (second, of_second)] = std::thread::scope(|scope| {
        let workers = ["first", "second"].map(|name| scope.spawn(move || work(name)));
        workers.map(|worker| worker.join().unwrap())
    });
    assert_eq!((first.n_done + second.n_done, first.n_failed + second.n_failed), (6, 0));
    assert_eq!(of_first.len() + of_second.len(), 6);
    assert!(of_first.iter().all(|job| !of_second.contains(job)), "{of_first:?} {of_second:?}");
    let mut store = place.create();
    let counts = store.job_counts(None).unwrap();
    assert_eq!((counts.n_done, counts.n_waiting, counts.n_leased), (6, 0, 0));
    for planned in &planned {
        let (workload, environment) = (Some(planned.workload().hash()), None);
        let filter = TraceFilter { graph: planned.hash(), workload, environment, limit: None };
        let traces = store.traces(&filter).unwrap();
        assert!(!traces.is_empty() && traces.iter().all(|trace| trace.runner == traces[0].runner));
    }
}

#[test]
fn what_other_processes_write_is_news() {
    let (folder, database) = temporary_database();
    let computation = computation(50);
    // A database that is not there has none, and has some once it is there.
    assert!(!database.look_for_news());
    let other = PlannerDatabase::default();
    other.set_location(Some(DatabaseLocation::Sqlite(folder.path().join("benchmarks.db"))));
    put(&other, &computation, &paths(&computation), &|_| 100_000);
    let before = database.generation();
    assert!(database.look_for_news() && database.generation() > before);
    assert!(!database.look_for_news());
    let before = database.generation();
    put(&other, &computation, &paths(&computation), &|path| if path.is_default { 100_000 } else { 50_000 });
    assert!(database.look_for_news() && database.generation() > before);
    assert!(!database.look_for_news());
}
