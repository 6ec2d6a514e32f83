//! Measures look-ups in a database of 10,000 tuned graphs: `cargo run --release -p polyloom-store --example
//! measure_look_ups [POSTGRES_URL]`. Prints medians; each graph is asked for once, so that no answer is in a cache.

use polyloom_store::{
    BestPath, BestPathCache, BestPathKey, BestPathQuery, ContentHash, DatabaseLocation, GraphRecord,
    ImplementationRecord, MachineFacts, PathIdentity, StoreRecord, TraceObservations, TraceRecord, TraceStatus,
    WorkloadArgument, WorkloadRecord, best_path, create, open,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const N_GRAPHS: u64 = 10_000;
const N_PATHS: u64 = 8;

fn graph(index: u64) -> GraphRecord {
    let text = format!("graph {index}: {}", "add(multiply(x, y), z); ".repeat(20));
    let bits = ContentHash::of(text.as_bytes());
    GraphRecord { bits, mathematics: bits, mathematics_text: text.clone(), text }
}

fn implementation(graph: &GraphRecord, index: u64) -> ImplementationRecord {
    let recipe = format!(r#"{{"backend":"CPU_NATIVE","kernels":[{{"tile":{index},"notes":"{}"}}]}}"#, "x".repeat(400));
    let (identity, is_default) = (PathIdentity::Bits, index == 0);
    ImplementationRecord { graph: graph.bits, recipe, recipe_version: 1, identity, is_default }
}

fn workload(graph: &GraphRecord, n: u64) -> WorkloadRecord {
    let argument = WorkloadArgument { dtype: "float32".to_owned(), shape: vec![n, 512], layout: "c".to_owned() };
    WorkloadRecord { graph: graph.bits, arguments: vec![argument; 3] }
}

fn records(index: u64, environment: ContentHash) -> Vec<StoreRecord> {
    let graph = graph(index);
    let workload = workload(&graph, 256);
    let mut records = vec![graph.clone().into(), workload.clone().into()];
    for path in 0..N_PATHS {
        let implementation = implementation(&graph, path);
        let trace = TraceRecord {
            graph: graph.bits,
            implementation: implementation.hash().expect("the recipe is JSON"),
            workload: workload.hash(),
            environment,
            policy: "hot-1".to_owned(),
            code_hash: graph.bits,
            session: "s".to_owned(),
            status: TraceStatus::Ok,
            reason: None,
            warm_ups: vec![60_000_000; 5],
            samples: (0..50).map(|i| 50_000_000 + (path * 7 % 5) * 3_000_000 + i * 7919 % 100_000).collect(),
            error: Some(0.0),
            observations: TraceObservations::default(),
            measured_at: index as i64,
            runner: "example".to_owned(),
        };
        records.extend([implementation.into(), trace.into()]);
    }
    records
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let location = match std::env::args().nth(1) {
        Some(url) => DatabaseLocation::parse(&url),
        None => DatabaseLocation::Sqlite(folder.path().join("benchmarks.db")),
    };
    let facts = MachineFacts::sniff();
    let environment = facts.fingerprint();
    let mut store = create(&location)?;
    store.put(&[polyloom_store::EnvironmentRecord::from(facts).into()])?;
    let begin = Instant::now();
    for batch in (0..N_GRAPHS).collect::<Vec<_>>().chunks(100) {
        let records: Vec<_> = batch.iter().flat_map(|index| records(*index, environment)).collect();
        store.put(&records)?;
    }
    let n_traces = N_GRAPHS * N_PATHS;
    println!("write, 1,800 records a transaction: {:?} a trace", begin.elapsed() / n_traces as u32);
    let mut singles = Vec::new();
    for record in records(N_GRAPHS, environment) {
        let begin = Instant::now();
        store.put(&[record])?;
        singles.push(begin.elapsed());
    }
    println!("write, one record a transaction:    {:?}", median(singles));
    drop(store);

    let query = |index: u64, n: u64| {
        let graph = graph(index);
        BestPathQuery {
            workload: workload(&graph, n),
            graph: graph.bits,
            environment,
            policy: "hot-1".to_owned(),
            identity: PathIdentity::Bits,
            max_error: None,
        }
    };
    let mut first = Vec::new();
    for index in 0..20 {
        let query = query(index * 401, 256);
        let begin = Instant::now();
        let mut store = open(&location)?;
        let path = best_path(&mut *store, &query, &mut |_, _| true)?;
        first.push(begin.elapsed());
        assert!(matches!(path, BestPath::Measured(_)));
    }
    println!("open and first answer:              {:?}", median(first));

    let mut store = open(&location)?;
    for (what, n) in [("answer, measured:                  ", 256), ("answer, nearest workload:          ", 300)] {
        let mut times = Vec::new();
        for index in (0..N_GRAPHS).step_by(5) {
            let query = query(index * 7919 % N_GRAPHS, n);
            let begin = Instant::now();
            black_box(best_path(&mut *store, &query, &mut |_, _| true)?);
            times.push(begin.elapsed());
        }
        println!("{what} {:?}", median(times));
    }

    let cache = BestPathCache::new();
    let queries: Vec<_> = (0..1000).map(|index| query(index, 256)).collect();
    let keys: Vec<_> = queries.iter().map(BestPathKey::new).collect();
    for (key, query) in keys.iter().zip(&queries) {
        cache.best_path(&mut *store, key, query, &mut |_, _| true)?;
    }
    let mut times = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        keys.iter().for_each(|key| assert!(black_box(cache.get(key)).is_some()));
        times.push(begin.elapsed() / keys.len() as u32);
    }
    println!("answer in the process's cache:      {:?}", median(times));
    Ok(())
}
