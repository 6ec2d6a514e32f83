//! Records to put into databases.

use polyloom_store::{
    ContentHash, CpuFacts, EnvironmentRecord, GraphRecord, ImplementationRecord, MachineFacts, PathIdentity,
    StoreRecord, TraceObservations, TraceRecord, TraceStatus, WorkloadArgument, WorkloadRecord,
};

pub(crate) fn hash(text: &str) -> ContentHash {
    ContentHash::of(text.as_bytes())
}

pub(crate) fn graph(text: &str) -> GraphRecord {
    GraphRecord {
        bits: hash(text),
        mathematics: hash("mathematics"),
        text: text.to_owned(),
        mathematics_text: "sum of products".to_owned(),
    }
}

pub(crate) fn implementation(tile: u32) -> ImplementationRecord {
    ImplementationRecord {
        graph: hash("matmul"),
        recipe: format!(r#"{{"kernels": [{{"tile": {tile}, "tier": "llvm"}}], "backend": "CPU_NATIVE"}}"#),
        recipe_version: 1,
        identity: PathIdentity::Bits,
        is_default: tile == 0,
    }
}

pub(crate) fn workload(n: u64) -> WorkloadRecord {
    let argument = WorkloadArgument { dtype: "float32".to_owned(), shape: vec![n, n], layout: "c".to_owned() };
    WorkloadRecord { graph: hash("matmul"), arguments: vec![argument.clone(), argument] }
}

pub(crate) fn environment(model: &str) -> EnvironmentRecord {
    let cpu = CpuFacts { model: model.to_owned(), n_usable_threads: 8, ..CpuFacts::default() };
    MachineFacts { cpu, ..MachineFacts::default() }.into()
}

/// A measurement of about `nanoseconds` of the implementation with this tile.
pub(crate) fn trace(tile: u32, n: u64, model: &str, nanoseconds: u64) -> TraceRecord {
    TraceRecord {
        graph: hash("matmul"),
        implementation: implementation(tile).hash().unwrap(),
        workload: workload(n).hash(),
        environment: environment(model).fingerprint,
        policy: "hot-1".to_owned(),
        code_hash: hash(&format!("code {tile}")),
        session: "monday".to_owned(),
        status: TraceStatus::Ok,
        reason: None,
        warm_ups: vec![3_000 * nanoseconds, 1_500 * nanoseconds],
        samples: (0..30).map(|i| 1_000 * nanoseconds + nanoseconds * (i * 7 % 11)).collect(),
        error: Some(1.25e-7),
        observations: TraceObservations { load: Some([0.5, 1.0]), ..TraceObservations::default() },
        measured_at: 1_700_000_000_000_000 + i64::from(tile),
        runner: "polyloom 0.1.0".to_owned(),
    }
}

pub(crate) fn failed(mut trace: TraceRecord, status: TraceStatus) -> TraceRecord {
    trace.status = status;
    trace.reason = Some(format!("it is {}", status.name()));
    trace.samples.clear();
    trace.measured_at += 1_000;
    trace
}

/// A graph with three implementations, two workloads and two environments.
pub(crate) fn world() -> Vec<StoreRecord> {
    let mut records = vec![graph("matmul").into(), graph("matmul, other bits").into()];
    records.extend([0, 8, 16].map(|tile| implementation(tile).into()));
    records.extend([512, 1024].map(|n| workload(n).into()));
    records.extend(["fast", "slow"].map(|model| environment(model).into()));
    records
}

pub(crate) fn with_traces(traces: impl IntoIterator<Item = TraceRecord>) -> Vec<StoreRecord> {
    world().into_iter().chain(traces.into_iter().map(StoreRecord::from)).collect()
}
