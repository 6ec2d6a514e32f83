//! What both databases do alike.

use crate::database::TestDatabase;
use crate::records::{environment, failed, graph, hash, implementation, trace, with_traces, workload, world};
use polyloom_store::{
    BestPath, BestPathCache, BestPathKey, BestPathQuery, ChoiceReason, ContentHash, Job, JobCounts, JobRequest,
    JobState, JobSummary, LeaseOutcome, MeasuredPath, PathIdentity, PathVerdict, PutCounts, Store, StoreError,
    StoreRecord, TextCursor, TraceFilter, TraceStatus, TunerFormat, WorkloadSummary, best_path, create,
    export_for_tuners, export_jsonl, import_jsonl, migrate, open, open_read_only, rank_paths,
};
use std::collections::BTreeSet;
use std::time::Duration;

macro_rules! suite {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::database::TestDatabase::sqlite());
            })*
        }

        mod postgres {
            $(#[test]
            fn $name() {
                if let Some(database) = crate::database::TestDatabase::postgres() {
                    super::$name(&database);
                }
            })*
        }
    };
}

suite!(
    records_come_back_as_they_were,
    a_record_is_put_once,
    all_records_of_a_call_are_put_or_none,
    one_hash_has_one_text,
    what_contradicts_itself_is_refused,
    the_best_path_beats_the_default,
    stale_code_is_not_chosen,
    ranked_paths_agree_with_the_choice,
    what_a_database_holds_is_listed,
    jobs_are_listed_by_state,
    rounding_is_allowed_by_the_caller_alone,
    the_nearest_workload_is_marked,
    another_environment_gives_hints,
    answers_are_kept_until_they_are_forgotten,
    a_first_look_up_takes_three_statements_in_a_large_database,
    what_others_write_changes_the_mark,
    jobs_are_leased_by_urgency_and_once,
    lost_workers_lose_their_jobs,
    jobs_are_tried_again_and_repeated,
    workers_share_the_queue,
    merging_gives_each_record_once,
    wrong_lines_are_named,
    files_for_tuners_have_what_their_schemas_require,
    migrations_run_once,
    other_schemas_are_refused,
    a_check_finds_what_is_planted,
    a_store_to_read_does_not_write,
);

fn filter(workload: Option<ContentHash>, environment: Option<ContentHash>) -> TraceFilter {
    TraceFilter { graph: hash("matmul"), workload, environment, limit: None }
}

fn records_come_back_as_they_were(database: &TestDatabase) {
    let mut store = database.create();
    let mut late = trace(8, 1024, "slow", 70);
    (late.error, late.policy) = (None, "cold; flush=256 MiB".to_owned());
    let wrong = failed(trace(16, 1024, "fast", 50), TraceStatus::Wrong);
    let traces = [trace(0, 512, "fast", 100), trace(8, 1024, "fast", 90), late, wrong];
    let records = with_traces(traces.clone());
    assert_eq!(store.put(&records).unwrap(), PutCounts { n_new: 13, n_known: 0 });
    assert_eq!(store.graphs_of(&hash("matmul")).unwrap(), [graph("matmul")]);
    assert_eq!(store.graphs_of(&hash("mathematics")).unwrap(), [graph("matmul"), graph("matmul, other bits")]);
    let recipe = store.implementation(&hash("matmul"), &implementation(8).hash().unwrap()).unwrap().unwrap();
    assert_eq!(recipe.recipe, r#"{"backend":"CPU_NATIVE","kernels":[{"tier":"llvm","tile":8}]}"#);
    assert_eq!((recipe.recipe_version, recipe.is_default), (1, false));
    assert_eq!(store.implementation(&hash("matmul"), &hash("none")).unwrap(), None);
    let [first, second, third, fourth] = &traces;
    let found = |store: &mut dyn Store, filter: &TraceFilter| store.traces(filter).unwrap();
    let newest_first = [fourth, third, second, first].map(Clone::clone);
    assert_eq!(found(&mut *store, &filter(None, None)), newest_first);
    assert_eq!(found(&mut *store, &filter(Some(workload(512).hash()), None)), std::slice::from_ref(first));
    let slow = environment("slow").fingerprint;
    assert_eq!(found(&mut *store, &filter(None, Some(slow))), std::slice::from_ref(third));
    assert_eq!(found(&mut *store, &filter(Some(workload(512).hash()), Some(slow))), []);
    assert_eq!(found(&mut *store, &TraceFilter { limit: Some(1), ..filter(None, None) }), std::slice::from_ref(fourth));
    let counts = store.counts().unwrap();
    let of = |table: &str| counts[table];
    assert_eq!((of("canonical_graphs"), of("implementations"), of("environments")), (2, 3, 2));
    assert_eq!((of("workloads"), of("benchmark_traces"), of("leases")), (2, 4, 0));
    let mut n_seen = 0;
    let report = store.check(&mut |n, all| n_seen = n.max(all)).unwrap();
    assert_eq!((report.problems, n_seen), (vec![], 4));
}

fn a_record_is_put_once(database: &TestDatabase) {
    let mut store = database.create();
    let records = with_traces([trace(0, 512, "fast", 100)]);
    store.put(&records).unwrap();
    assert_eq!(store.put(&records).unwrap(), PutCounts { n_new: 0, n_known: 10 });
    // The same recipe in another spelling; what is a default anywhere is one.
    let mut other = implementation(8);
    (other.recipe, other.is_default) = (other.recipe.replace(' ', "\n"), true);
    assert_eq!(store.put(&[other.clone().into()]).unwrap().n_known, 1);
    let found = store.implementation(&other.graph, &other.hash().unwrap()).unwrap().unwrap();
    assert!(found.is_default);
    store.put(&[implementation(8).into()]).unwrap();
    assert!(store.implementation(&other.graph, &other.hash().unwrap()).unwrap().unwrap().is_default);
    // The same measurement at another time is another.
    let again = polyloom_store::TraceRecord { measured_at: 5, ..trace(0, 512, "fast", 100) };
    assert_eq!(store.put(&[again.into()]).unwrap().n_new, 1);
}

fn all_records_of_a_call_are_put_or_none(database: &TestDatabase) {
    let mut store = database.create();
    let refers = |records: &[StoreRecord], store: &mut dyn Store| match store.put(records) {
        Err(StoreError::MissingReference { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refers(&[graph("new").into(), implementation(0).into()], &mut *store), "graph");
    assert_eq!(store.counts().unwrap()["canonical_graphs"], 0);
    assert_eq!(refers(&[trace(0, 512, "fast", 1).into()], &mut *store), "graph");
    store.put(&[graph("matmul").into()]).unwrap();
    assert_eq!(refers(&[trace(0, 512, "fast", 1).into()], &mut *store), "implementation");
    store.put(&[implementation(0).into()]).unwrap();
    assert_eq!(refers(&[trace(0, 512, "fast", 1).into()], &mut *store), "workload");
    store.put(&[workload(512).into()]).unwrap();
    assert_eq!(refers(&[trace(0, 512, "fast", 1).into()], &mut *store), "environment");
    store.put(&[environment("fast").into(), trace(0, 512, "fast", 1).into()]).unwrap();
}

fn one_hash_has_one_text(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&world()).unwrap();
    let collides = |record: polyloom_store::GraphRecord, store: &mut dyn Store| {
        matches!(store.put(&[record.into()]), Err(StoreError::HashCollision { .. }))
    };
    let right = graph("matmul");
    assert!(collides(polyloom_store::GraphRecord { text: "other".to_owned(), ..right.clone() }, &mut *store));
    assert!(collides(polyloom_store::GraphRecord { mathematics: hash("other"), ..right.clone() }, &mut *store));
    let mathematics_text = "other".to_owned();
    assert!(collides(polyloom_store::GraphRecord { bits: hash("third"), mathematics_text, ..right }, &mut *store));
}

fn what_contradicts_itself_is_refused(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&world()).unwrap();
    let right = trace(0, 512, "fast", 100);
    let mut changes = vec![right.clone(); 7];
    changes[0].samples.clear();
    changes[1].reason = Some("none".to_owned());
    changes[2].status = TraceStatus::Wrong;
    changes[3].policy.clear();
    changes[4].error = Some(f64::NAN);
    changes[5].samples[3] = u64::MAX;
    changes[6].session = "a\0b".to_owned();
    for change in changes {
        let outcome = store.put(&[change.clone().into()]);
        assert!(matches!(outcome, Err(StoreError::InvalidRecord { .. })), "{change:?}: {outcome:?}");
    }
    let no_json = polyloom_store::ImplementationRecord { recipe: "{".to_owned(), ..implementation(0) };
    assert!(matches!(store.put(&[no_json.into()]), Err(StoreError::InvalidRecord { .. })));
}

fn query(n: u64, model: &str) -> BestPathQuery {
    BestPathQuery {
        graph: hash("matmul"),
        workload: workload(n),
        environment: environment(model).fingerprint,
        policy: "hot-1".to_owned(),
        identity: PathIdentity::Bits,
        max_error: None,
    }
}

fn best(store: &mut dyn Store, query: &BestPathQuery) -> BestPath {
    best_path(store, query, &mut |_, _| true).unwrap()
}

fn tile(recipe: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(recipe).unwrap();
    value["kernels"][0]["tile"].as_u64().unwrap()
}

/// The tile of what is measured here.
fn measured_tile(path: &BestPath) -> u64 {
    match path {
        BestPath::Measured(choice) => tile(&choice.implementation.recipe),
        other => panic!("{other:?}"),
    }
}

fn the_best_path_beats_the_default(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&with_traces([trace(8, 512, "fast", 50)])).unwrap();
    assert_eq!(best(&mut *store, &query(512, "fast")), BestPath::Unknown);
    store.put(&[trace(0, 512, "fast", 100).into(), trace(16, 512, "fast", 120).into()]).unwrap();
    let BestPath::Measured(choice) = best(&mut *store, &query(512, "fast")) else { panic!() };
    assert_eq!(tile(&choice.implementation.recipe), 8);
    assert!(
        matches!(choice.reason, ChoiceReason::Wins { ratio } if (0.45..0.55).contains(&ratio)),
        "{:?}",
        choice.reason
    );
    // Another policy is another question.
    let cold = BestPathQuery { policy: "cold-1".to_owned(), ..query(512, "fast") };
    assert_eq!(best(&mut *store, &cold), BestPath::Unknown);
    // A planted wrong path is not executed, however fast, and wherever it was found out.
    let mut wrong = failed(trace(8, 512, "slow", 50), TraceStatus::Wrong);
    wrong.policy = "cold-1".to_owned();
    store.put(&[wrong.into()]).unwrap();
    assert_eq!(measured_tile(&best(&mut *store, &query(512, "fast"))), 0);
}

fn stale_code_is_not_chosen(database: &TestDatabase) {
    let mut store = database.create();
    let traces = [trace(0, 512, "fast", 100), trace(8, 512, "fast", 50), trace(16, 512, "fast", 70)];
    store.put(&with_traces(traces)).unwrap();
    let mut asked = Vec::new();
    let path = best_path(&mut *store, &query(512, "fast"), &mut |_, measured| {
        asked.push(measured.code_hash);
        measured.code_hash != hash("code 8")
    });
    assert_eq!(measured_tile(&path.unwrap()), 16);
    assert_eq!(asked, [hash("code 8"), hash("code 16")]);
    let none = best_path(&mut *store, &query(512, "fast"), &mut |_, _| false).unwrap();
    assert_eq!(none, BestPath::Unknown);
}

fn ranked_paths_agree_with_the_choice(database: &TestDatabase) {
    let mut store = database.create();
    let mut rounds = implementation(32);
    rounds.identity = PathIdentity::Mathematics;
    let traces =
        [trace(0, 512, "fast", 100), trace(8, 512, "fast", 50), failed(trace(16, 512, "fast", 10), TraceStatus::Wrong)];
    store.put(&with_traces(traces)).unwrap();
    store.put(&[rounds.into(), trace(32, 512, "fast", 40).into()]).unwrap();
    let mut ranked = |query: &BestPathQuery, stale: &str| {
        let is_current = &mut |_: &_, measured: &MeasuredPath| measured.code_hash != hash(stale);
        let best = best_path(&mut *store, query, is_current).unwrap();
        let paths = rank_paths(&mut *store, query, is_current).unwrap();
        let chosen = paths.iter().find(|path| matches!(path.verdict, PathVerdict::Chosen(_))).unwrap();
        assert_eq!(measured_tile(&best), tile(&chosen.implementation.recipe));
        paths.iter().map(|path| (tile(&path.implementation.recipe), path.verdict)).collect::<Vec<_>>()
    };
    let [wins, loses] = [ranked(&query(512, "fast"), ""), ranked(&query(512, "fast"), "code 8")];
    assert!(matches!(wins[0], (8, PathVerdict::Chosen(ChoiceReason::Wins { .. }))), "{wins:?}");
    let others = [(0, PathVerdict::Default), (32, PathVerdict::NotAllowed), (16, PathVerdict::Wrong)];
    assert_eq!(wins[1..], others);
    assert_eq!(loses[0], (0, PathVerdict::Chosen(ChoiceReason::DefaultStands)));
    assert_eq!(loses[3], (8, PathVerdict::Stale));
    let any = ranked(&BestPathQuery { identity: PathIdentity::Mathematics, ..query(512, "fast") }, "");
    assert!(matches!(any[0], (32, PathVerdict::Chosen(_))) && any[1] == (8, PathVerdict::Slower), "{any:?}");
}

fn what_a_database_holds_is_listed(database: &TestDatabase) {
    let mut store = database.create();
    let noisy = failed(trace(8, 512, "slow", 70), TraceStatus::TooNoisy);
    let newest = noisy.measured_at;
    store.put(&with_traces([trace(0, 512, "fast", 100), trace(8, 512, "fast", 50), noisy])).unwrap();
    let graphs = store.graph_page(0, 9).unwrap();
    assert_eq!((graphs[0].graph.clone(), graphs.len()), (graph("matmul, other bits"), 2));
    let summary = &graphs[1];
    assert_eq!(summary.graph, graph("matmul"));
    assert_eq!((summary.n_implementations, summary.n_workloads, summary.n_traces), (3, 2, 3));
    assert_eq!((summary.measured_at, graphs[0].measured_at), (Some(newest), None));
    assert_eq!(store.graph_page(1, 1).unwrap(), graphs[1..]);
    assert_eq!(store.graph_summary(&hash("matmul")).unwrap().as_ref(), Some(summary));
    assert_eq!(store.graph_summary(&hash("none")).unwrap(), None);

    // Texts are read once: those of graphs, and recipes of default paths alone.
    let mut cursor = TextCursor::default();
    let mut new_texts = |store: &mut dyn Store| {
        let mut texts = Vec::new();
        store.for_each_new_text(&mut cursor, &mut |bits, text| texts.push((bits, text.to_owned()))).unwrap();
        texts
    };
    let read = new_texts(&mut *store);
    let found: Vec<_> = read.iter().map(|(bits, text)| (*bits, text.contains("llvm"))).collect();
    assert_eq!(found, [(hash("matmul"), false), (hash("matmul, other bits"), false), (hash("matmul"), true)]);
    store.put(&[graph("sum").into()]).unwrap();
    assert_eq!(new_texts(&mut *store), [(hash("sum"), "sum".to_owned())]);
    assert_eq!(new_texts(&mut *store), []);

    let implementations = store.implementations_of(&hash("matmul"), 9).unwrap();
    let tiles: Vec<_> = implementations.iter().map(|(each, n)| (tile(&each.recipe), each.is_default, *n)).collect();
    assert_eq!(tiles, [(0, true, 1), (8, false, 2), (16, false, 0)]);
    assert_eq!(store.implementations_of(&hash("matmul"), 1).unwrap().len(), 1);

    let workloads = store.workloads_of(&hash("matmul"), 0, 9).unwrap();
    let places = |summary: &WorkloadSummary| {
        let places = summary.places.iter();
        places.map(|place| (place.environment, place.n_traces, place.n_failed)).collect::<Vec<_>>()
    };
    let [fast, slow] = ["fast", "slow"].map(|model| environment(model).fingerprint);
    assert_eq!(workloads.iter().map(|each| each.hash).collect::<Vec<_>>(), [1024, 512].map(|n| workload(n).hash()));
    assert_eq!((places(&workloads[0]), places(&workloads[1])), (Vec::new(), vec![(slow, 1, 1), (fast, 2, 0)]));
    assert_eq!(store.workload(&hash("matmul"), &workload(512).hash()).unwrap().as_ref(), Some(&workloads[1]));
    assert_eq!(store.workload(&hash("matmul"), &hash("none")).unwrap(), None);
    assert_eq!(store.workloads_of(&hash("matmul"), 1, 1).unwrap(), workloads[1..]);

    let sessions = store.newest_sessions(100).unwrap();
    let found: Vec<_> = sessions.iter().map(|each| (each.environment, each.n_traces, each.n_failed)).collect();
    assert_eq!(found, [(slow, 1, 1), (fast, 2, 0)]);
    assert_eq!((&*sessions[0].session, &*sessions[0].cpu, sessions[0].measured_at), ("monday", "slow", newest));
    assert_eq!(store.newest_sessions(1).unwrap().len(), 1);

    let environments = store.environments().unwrap();
    let found: Vec<_> = environments.iter().map(|each| (each.environment.fingerprint, each.n_traces)).collect();
    assert_eq!(found, [(fast, 2), (slow, 1)]);
    assert_eq!(store.environment(&slow).unwrap(), Some(environment("slow")));
    assert_eq!(store.environment(&hash("none")).unwrap(), None);
}

fn jobs_are_listed_by_state(database: &TestDatabase) {
    let mut store = database.create();
    queue(&mut *store, &[(1, 0), (2, 5), (3, 0)]);
    let leased = lease(&mut *store, 1, LONG);
    let found = store.jobs(JobState::Leased, 0, 9).unwrap();
    assert_eq!((found.len(), found[0].id, found[0].n_attempts), (1, leased[0].id, 1));
    assert!(found[0].owner.is_some() && found[0].leased_until > Some(found[0].created_at), "{found:?}");
    assert_eq!(found[0].arguments, workload(2).arguments);
    let sizes = |jobs: &[JobSummary]| jobs.iter().map(|job| job.arguments[0].shape[0]).collect::<Vec<_>>();
    assert_eq!(sizes(&store.jobs(JobState::Waiting, 0, 9).unwrap()), [3, 1]);
    assert_eq!(sizes(&store.jobs(JobState::Waiting, 1, 9).unwrap()), [1]);
    store.finish(&leased[0], &LeaseOutcome::Done).unwrap();
    let done = store.jobs(JobState::Done, 0, 9).unwrap();
    assert_eq!((done[0].id, done[0].finished_at.is_some()), (leased[0].id, true));
    assert_eq!(store.jobs(JobState::Failed, 0, 9).unwrap(), []);
}

fn rounding_is_allowed_by_the_caller_alone(database: &TestDatabase) {
    let mut store = database.create();
    let mut real = implementation(32);
    real.identity = PathIdentity::Mathematics;
    let records = with_traces([trace(0, 512, "fast", 100), trace(8, 512, "fast", 80)]);
    store.put(&records).unwrap();
    store.put(&[real.into(), trace(32, 512, "fast", 40).into()]).unwrap();
    assert_eq!(measured_tile(&best(&mut *store, &query(512, "fast"))), 8);
    let fast = BestPathQuery { identity: PathIdentity::Mathematics, ..query(512, "fast") };
    assert_eq!(measured_tile(&best(&mut *store, &fast)), 32);
    let tolerant = |max_error| BestPathQuery { max_error: Some(max_error), ..fast.clone() };
    assert_eq!(measured_tile(&best(&mut *store, &tolerant(1e-6))), 32);
    assert_eq!(measured_tile(&best(&mut *store, &tolerant(1e-8))), 8);
}

fn the_nearest_workload_is_marked(database: &TestDatabase) {
    let mut store = database.create();
    let mut records = with_traces([trace(0, 512, "fast", 10), trace(8, 512, "fast", 5)]);
    records.extend([trace(0, 1024, "fast", 80).into(), trace(16, 1024, "fast", 40).into()]);
    store.put(&records).unwrap();
    let nearest = |store: &mut dyn Store, n| match best(store, &query(n, "fast")) {
        BestPath::Nearest { choice, workload, distance } => {
            (tile(&choice.implementation.recipe), workload.arguments[0].shape[0], distance)
        }
        other => panic!("{other:?}"),
    };
    let (tile, n, distance) = nearest(&mut *store, 600);
    assert_eq!((tile, n), (8, 512));
    assert!((distance - 4.0 * (601f64 / 513.0).ln()).abs() < 1e-9);
    assert_eq!(nearest(&mut *store, 4096).1, 1024);
    let mut other = query(600, "fast");
    other.workload.arguments[0].dtype = "float64".to_owned();
    assert_eq!(best(&mut *store, &other), BestPath::Unknown);
}

fn another_environment_gives_hints(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&with_traces([trace(0, 512, "slow", 10), trace(8, 512, "slow", 5)])).unwrap();
    let BestPath::Hint { choice, environment: hinted } = best(&mut *store, &query(512, "fast")) else { panic!() };
    assert_eq!((tile(&choice.implementation.recipe), hinted), (8, environment("slow").fingerprint));
    // What is measured here is the answer, though it is slower.
    store.put(&[trace(0, 512, "fast", 100).into()]).unwrap();
    assert_eq!(measured_tile(&best(&mut *store, &query(512, "fast"))), 0);
}

fn answers_are_kept_until_they_are_forgotten(database: &TestDatabase) {
    let mut store = database.create();
    let (cache, query) = (BestPathCache::new(), query(512, "fast"));
    let key = BestPathKey::new(&query);
    store.put(&with_traces([trace(0, 512, "fast", 100)])).unwrap();
    assert!(cache.get(&key).is_none());
    let ask = |store: &mut dyn Store| cache.best_path(store, &key, &query, &mut |_, _| true).unwrap();
    assert_eq!(measured_tile(&ask(&mut *store)), 0);
    store.put(&[trace(0, 512, "fast", 101).into(), trace(8, 512, "fast", 50).into()]).unwrap();
    assert_eq!(measured_tile(&cache.get(&key).unwrap()), 0);
    cache.clear();
    assert!(cache.get(&key).is_none());
    assert_eq!(measured_tile(&ask(&mut *store)), 8);
}

fn job(n: u64, priority: i64) -> JobRequest {
    JobRequest {
        graph: hash("matmul"),
        workload: workload(n).hash(),
        environment: environment("fast").fingerprint,
        policy: "hot-1".to_owned(),
        priority,
        max_attempts: 2,
        is_repeated: false,
    }
}

const LONG: Duration = Duration::from_secs(600);

fn lease(store: &mut dyn Store, n: usize, duration: Duration) -> Vec<Job> {
    store.lease(&environment("fast").fingerprint, "worker", n, duration).unwrap()
}

fn sizes(jobs: &[Job]) -> Vec<u64> {
    jobs.iter().map(|job| job.workload.arguments[0].shape[0]).collect()
}

fn queue(store: &mut dyn Store, jobs: &[(u64, i64)]) {
    store.put(&world()).unwrap();
    let workloads: Vec<StoreRecord> = jobs.iter().map(|(n, _)| workload(*n).into()).collect();
    store.put(&workloads).unwrap();
    let jobs: Vec<JobRequest> = jobs.iter().map(|(n, priority)| job(*n, *priority)).collect();
    assert_eq!(store.add_jobs(&jobs).unwrap(), jobs.len() as u64);
}

fn jobs_are_leased_by_urgency_and_once(database: &TestDatabase) {
    let mut store = database.create();
    queue(&mut *store, &[(1, 0), (2, 5), (3, 0), (4, 9)]);
    assert_eq!(store.add_jobs(&[job(1, 7)]).unwrap(), 0);
    assert!(matches!(store.add_jobs(&[job(77, 0)]), Err(StoreError::MissingReference { what: "workload", .. })));
    assert_eq!(store.lease(&environment("slow").fingerprint, "worker", 9, LONG).unwrap(), []);
    let first = lease(&mut *store, 3, LONG);
    assert_eq!(sizes(&first), [4, 2, 1]);
    assert_eq!((&*first[0].policy, &first[0].graph), ("hot-1", &graph("matmul")));
    assert_eq!(sizes(&lease(&mut *store, 3, LONG)), [3]);
    assert_eq!(lease(&mut *store, 3, LONG), []);
    store.finish(&first[0], &LeaseOutcome::Done).unwrap();
    let again = store.finish(&first[0], &LeaseOutcome::Done);
    assert!(matches!(again, Err(StoreError::LeaseLost { .. })), "{again:?}");
    let counts = JobCounts { n_waiting: 0, n_leased: 3, n_done: 1, n_failed: 0 };
    assert_eq!(store.job_counts(None).unwrap(), counts);
    assert_eq!(store.job_counts(Some(&environment("slow").fingerprint)).unwrap(), JobCounts::default());
}

fn lost_workers_lose_their_jobs(database: &TestDatabase) {
    let mut store = database.create();
    queue(&mut *store, &[(1, 0), (2, 0)]);
    let lost = lease(&mut *store, 2, Duration::ZERO);
    // One of them lives, and says so in time.
    store.heartbeat(&lost[1], LONG).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let taken_over = lease(&mut *store, 2, Duration::ZERO);
    assert_eq!((taken_over[0].id, taken_over[0].n_attempts), (lost[0].id, 2));
    assert!(taken_over[0].token > lost[0].token && taken_over.len() == 1);
    // The first worker wakes up.
    assert!(matches!(store.heartbeat(&lost[0], LONG), Err(StoreError::LeaseLost { .. })));
    assert!(matches!(store.finish(&lost[0], &LeaseOutcome::Done), Err(StoreError::LeaseLost { .. })));
    store.finish(&lost[1], &LeaseOutcome::Done).unwrap();
    // It has been lost as often as it may be.
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(lease(&mut *store, 2, LONG), []);
    assert!(matches!(store.finish(&taken_over[0], &LeaseOutcome::Done), Err(StoreError::LeaseLost { .. })));
    let counts = JobCounts { n_waiting: 0, n_leased: 0, n_done: 1, n_failed: 1 };
    assert_eq!(store.job_counts(Some(&environment("fast").fingerprint)).unwrap(), counts);
}

fn jobs_are_tried_again_and_repeated(database: &TestDatabase) {
    let mut store = database.create();
    queue(&mut *store, &[(1, 0)]);
    let reason = "no compiler".to_owned();
    let leased = lease(&mut *store, 1, LONG);
    store.finish(&leased[0], &LeaseOutcome::Returned).unwrap();
    for attempt in [1, 2] {
        let leased = lease(&mut *store, 1, LONG);
        assert_eq!(leased[0].n_attempts, attempt);
        store.finish(&leased[0], &LeaseOutcome::Failed { reason: reason.clone() }).unwrap();
    }
    assert_eq!(lease(&mut *store, 1, LONG), []);
    assert_eq!(store.add_jobs(&[job(1, 0)]).unwrap(), 0);
    assert_eq!(store.add_jobs(&[JobRequest { is_repeated: true, ..job(1, 0) }]).unwrap(), 1);
    assert_eq!(lease(&mut *store, 1, LONG)[0].n_attempts, 1);
    // What is being done is not begun again.
    assert_eq!(store.add_jobs(&[JobRequest { is_repeated: true, ..job(1, 0) }]).unwrap(), 0);
}

fn workers_share_the_queue(database: &TestDatabase) {
    const N_JOBS: u64 = 120;
    let mut store = database.create();
    let jobs: Vec<(u64, i64)> = (1..=N_JOBS).map(|n| (n, 0)).collect();
    queue(&mut *store, &jobs);
    let location = database.location();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let location = location.clone();
            std::thread::spawn(move || {
                let mut store = open(&location).unwrap();
                let mut done = Vec::new();
                loop {
                    let jobs = lease(&mut *store, 3, LONG);
                    if jobs.is_empty() {
                        return done;
                    }
                    for job in jobs {
                        store.finish(&job, &LeaseOutcome::Done).unwrap();
                        done.push(job.id);
                    }
                }
            })
        })
        .collect();
    let done: Vec<i64> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    assert_eq!((done.len() as u64, done.iter().collect::<BTreeSet<_>>().len() as u64), (N_JOBS, N_JOBS));
    assert_eq!(store.job_counts(None).unwrap().n_done, N_JOBS);
}

fn exported(store: &mut dyn Store) -> String {
    let mut out = Vec::new();
    export_jsonl(store, &mut out, &mut |_| {}).unwrap();
    String::from_utf8(out).unwrap()
}

fn merging_gives_each_record_once(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&with_traces([trace(0, 512, "fast", 100), trace(8, 512, "fast", 50)])).unwrap();
    // Another team's, in a file: half of it is the same.
    let other = TestDatabase::sqlite();
    let mut theirs = other.create();
    let failure = failed(trace(16, 1024, "slow", 9), TraceStatus::DoesNotCompile);
    theirs.put(&with_traces([trace(0, 512, "fast", 100), failure])).unwrap();
    let lines = exported(&mut *theirs);
    assert_eq!(lines.lines().next(), Some(r#"{"format":"polyloom-benchmarks","version":1}"#));
    let mut n_bytes = 0;
    let counts = import_jsonl(&mut *store, &mut lines.as_bytes(), &mut |n| n_bytes = n).unwrap();
    assert_eq!((counts, n_bytes), (PutCounts { n_new: 1, n_known: 10 }, lines.len() as u64));
    let counts = import_jsonl(&mut *store, &mut lines.as_bytes(), &mut |_| {}).unwrap();
    assert_eq!(counts, PutCounts { n_new: 0, n_known: 11 });
    assert_eq!(store.counts().unwrap()["benchmark_traces"], 3);
    // And the other way: both have the same then.
    import_jsonl(&mut *theirs, &mut exported(&mut *store).as_bytes(), &mut |_| {}).unwrap();
    let sorted = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    assert_eq!(sorted(exported(&mut *theirs)), sorted(exported(&mut *store)));
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

fn wrong_lines_are_named(database: &TestDatabase) {
    let mut store = database.create();
    let mut wrong = |text: &str| match import_jsonl(&mut *store, &mut text.as_bytes(), &mut |_| {}) {
        Err(StoreError::InvalidLine { line, reason }) => format!("{line}: {reason}"),
        other => panic!("{other:?}"),
    };
    assert!(wrong("").starts_with("1: the file is empty"));
    assert!(wrong("{}\n").starts_with("1: the file does not begin with"));
    assert!(wrong("{\"format\":\"polyloom-benchmarks\",\"version\":2}\n").contains("install a newer Polyloom"));
    let header = "{\"format\":\"polyloom-benchmarks\",\"version\":1}\n";
    assert!(wrong(&format!("{header}\n{{\"table\":\"choices\"}}")).starts_with("3: unknown variant `choices`"));
    let line = |record: StoreRecord| serde_json::to_string(&record).unwrap() + "\n";
    let lines = [graph("matmul").into(), environment("fast").into(), trace(0, 1, "fast", 1).into(), workload(1).into()];
    let text = header.to_owned() + &lines.map(line).concat();
    let found = wrong(&text);
    assert!(found.starts_with("4: the record refers to implementation "), "{found}");
    // What stands before the wrong line is kept.
    assert_eq!(store.counts().unwrap()["environments"], 1);
}

fn files_for_tuners_have_what_their_schemas_require(database: &TestDatabase) {
    let mut store = database.create();
    let mut cold = trace(0, 512, "fast", 100);
    cold.policy = "cold".to_owned();
    let broken = failed(trace(16, 512, "fast", 50), TraceStatus::DoesNotCompile);
    store.put(&with_traces([trace(0, 512, "fast", 100), trace(8, 512, "fast", 50), broken, cold])).unwrap();
    let mut files = |format| {
        let mut files = Vec::new();
        let n = export_for_tuners(&mut *store, format, &mut |file| {
            files.push(file);
            Ok(())
        });
        assert_eq!((n.unwrap(), files.len()), (2, 2));
        files.pop().unwrap().content
    };
    let cache = files(TunerFormat::KernelTunerCache);
    assert_eq!((&cache["schema_version"], &cache["device_name"]), (&"1.1.0".into(), &"fast".into()));
    assert_eq!(cache["problem_size"], serde_json::json!([512 * 512, 512 * 512]));
    assert_eq!(cache["tune_params_keys"], serde_json::json!(["implementation", "kernels.0.tile"]));
    assert_eq!(cache["tune_params"]["kernels.0.tile"], serde_json::json!([0, 8, 16]));
    let entries = cache["cache"].as_object().unwrap();
    let key = format!("{},8", implementation(8).hash().unwrap().short());
    assert_eq!((entries.len(), entries[&key]["kernels.0.tile"].as_u64()), (3, Some(8)));
    let required =
        ["time", "compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time", "timestamp"];
    for entry in entries.values() {
        assert!(required.iter().all(|name| entry.get(name).is_some()), "{entry}");
    }
    let time = entries[&key]["time"].as_f64().unwrap();
    assert!((time - 50.25e-6).abs() < 1e-9, "{time}");
    assert!(entries.values().any(|entry| entry["time"] == "CompilationFailedConfig"));
    let results = files(TunerFormat::T4Results);
    let results = results["results"].as_array().unwrap();
    let invalidities: Vec<&str> = results.iter().map(|result| result["invalidity"].as_str().unwrap()).collect();
    assert_eq!(invalidities, ["correct", "correct", "compile"]);
    assert!(results.iter().all(|result| result["times"]["runtimes"].is_array() && result["correctness"].is_number()));
}

fn migrations_run_once(database: &TestDatabase) {
    let location = database.location();
    assert!(matches!(open(&location), Err(StoreError::Missing { .. })));
    let makers: Vec<_> = (0..4)
        .map(|_| {
            let location = location.clone();
            std::thread::spawn(move || create(&location).map(|mut store| store.schema().unwrap()))
        })
        .collect();
    for maker in makers {
        let state = maker.join().unwrap().unwrap();
        assert_eq!(state.version, state.known);
    }
    assert_eq!(migrate(&location).unwrap(), 0);
    // A database that had the first migration alone.
    database.run("DROP TABLE leases; DELETE FROM schema_version WHERE version = 2;");
    assert!(matches!(open(&location), Err(StoreError::OlderSchema { found: 1, .. })));
    assert_eq!(migrate(&location).unwrap(), 1);
    queue(&mut *open(&location).unwrap(), &[(1, 0)]);
}

fn other_schemas_are_refused(database: &TestDatabase) {
    drop(database.create());
    database.run("UPDATE schema_version SET checksum = 'other' WHERE version = 1");
    let error = open(&database.location()).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::MigrationDiffers { version: 1, .. }), "{error}");
    database.run("INSERT INTO schema_version VALUES (99, 'future', '', 0)");
    for error in [open(&database.location()).map(|_| ()), create(&database.location()).map(|_| ())] {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("has schema 99, and this program knows 2: install a newer"), "{error}");
    }
}

fn a_check_finds_what_is_planted(database: &TestDatabase) {
    let mut store = database.create();
    store
        .put(&with_traces([trace(0, 512, "fast", 100), trace(8, 512, "fast", 50), trace(16, 512, "fast", 60)]))
        .unwrap();
    database.run("UPDATE benchmark_traces SET median_ps = 1 WHERE id = 1");
    database.run("UPDATE benchmark_traces SET session = 'tuesday' WHERE id = 2");
    database.run("UPDATE benchmark_traces SET samples = warm_ups, warm_ups = substr(warm_ups, 2) WHERE id = 3");
    database.run("UPDATE implementations SET recipe = '{}' WHERE id = 1");
    let problems = store.check(&mut |_, _| {}).unwrap().problems;
    let has = |words: &str| assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:?}");
    has("implementation 1: the hash is not that of its recipe");
    has("trace 1: the summary is not that of its samples");
    has("trace 2: the hash is not that of what it says");
    has("warm_ups of trace 3 are damaged");
    assert_eq!(problems.len(), 4);
    // What is damaged is an error for those who read it, and no panic.
    assert!(matches!(store.traces(&filter(None, None)), Err(StoreError::Damaged { .. })));
}

fn a_store_to_read_does_not_write(database: &TestDatabase) {
    assert!(matches!(open_read_only(&database.location()), Err(StoreError::Missing { .. })));
    database.create().put(&with_traces([trace(0, 512, "fast", 100)])).unwrap();
    let mut store = open_read_only(&database.location()).unwrap();
    assert_eq!(measured_tile(&best(&mut *store, &query(512, "fast"))), 0);
    let outcome = store.put(&[graph("new").into()]);
    assert!(matches!(outcome, Err(StoreError::ReadOnly { .. })), "{outcome:?}");
    assert_eq!(store.counts().unwrap()["canonical_graphs"], 2);
}

/// Copies of the world's `matmul` by other names, each with a default and a path that beats it.
fn tuned_graphs(n: usize) -> Vec<StoreRecord> {
    let mut records: Vec<StoreRecord> = vec![environment("fast").into()];
    for index in 0..n {
        let graph = hash(&format!("graph {index}"));
        let place = StoreRecord::from(polyloom_store::GraphRecord {
            bits: graph,
            text: format!("graph {index}"),
            ..crate::records::graph("matmul")
        });
        let workload = polyloom_store::WorkloadRecord { graph, ..workload(512) };
        records.extend([place, workload.clone().into()]);
        for (tile, time) in [(0, 100), (8, 50)] {
            let implementation = polyloom_store::ImplementationRecord { graph, ..implementation(tile) };
            let trace = polyloom_store::TraceRecord {
                graph,
                implementation: implementation.hash().unwrap(),
                workload: workload.hash(),
                ..trace(tile, 512, "fast", time)
            };
            records.extend([implementation.into(), trace.into()]);
        }
    }
    records
}

/// A process that runs one function opens the database and asks once. Of how many graphs the database knows, none is read but the
/// one that is asked for.
fn a_first_look_up_takes_three_statements_in_a_large_database(database: &TestDatabase) {
    let is_server = matches!(database, TestDatabase::Postgres { .. });
    let n_graphs = if is_server { 500 } else { 10_000 };
    let mut store = database.create();
    for records in tuned_graphs(n_graphs).chunks(6000) {
        store.put(&[vec![environment("fast").into()], records.to_vec()].concat()).unwrap();
    }
    assert_eq!(store.counts().unwrap()["canonical_graphs"], n_graphs as u64);
    let mut store = open(&database.location()).unwrap();
    let opening = store.n_statements();
    // A table of versions, and its rows.
    assert!(opening <= 2, "{opening} statements to open it");
    let graph = hash("graph 77");
    let query = BestPathQuery {
        graph,
        workload: polyloom_store::WorkloadRecord { graph, ..workload(512) },
        environment: environment("fast").fingerprint,
        policy: "hot-1".to_owned(),
        identity: PathIdentity::Bits,
        max_error: None,
    };
    let BestPath::Measured(choice) = best_path(&mut *store, &query, &mut |_, _| true).unwrap() else {
        panic!("it has been measured");
    };
    assert_eq!(choice.implementation.recipe, {
        let recipe = implementation(8);
        let found =
            store.implementation(&graph, &polyloom_store::ImplementationRecord { graph, ..recipe }.hash().unwrap());
        found.unwrap().unwrap().recipe
    });
    // What is measured, and the recipe that is chosen; the third is the test's.
    assert_eq!(store.n_statements() - opening, 3);
}

fn what_others_write_changes_the_mark(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&with_traces([trace(0, 512, "fast", 100)])).unwrap();
    let mut watch = open_read_only(&database.location()).unwrap();
    let first = watch.change_mark().unwrap();
    assert_eq!(watch.change_mark().unwrap(), first);
    store.traces(&filter(None, None)).unwrap();
    assert_eq!(watch.change_mark().unwrap(), first);
    store.put(&[trace(8, 512, "fast", 90).into()]).unwrap();
    assert_ne!(watch.change_mark().unwrap(), first);
}
