//! Putting records: each statement finds the rows it refers to by their hashes.

use super::engine::SqlEngine;
use super::first;
use crate::record::{canonical_json, json, recipe_hash};
use crate::{
    ContentHash, EnvironmentRecord, GraphRecord, ImplementationRecord, PathIdentity, PutCounts, SampleSummary,
    StoreError, StoreRecord, TraceRecord, WorkloadRecord, samples,
};

const HAS_GRAPH: &str = "SELECT 1 FROM canonical_graphs WHERE bits_hash = ?1";

pub(super) fn put(engine: &mut impl SqlEngine, records: &[StoreRecord]) -> Result<PutCounts, StoreError> {
    let mut counts = PutCounts::default();
    for record in records {
        let is_new = match record {
            StoreRecord::Graph(graph) => put_graph(engine, graph)?,
            StoreRecord::Implementation(implementation) => put_implementation(engine, implementation)?,
            StoreRecord::Workload(workload) => put_workload(engine, workload)?,
            StoreRecord::Environment(environment) => put_environment(engine, environment)?,
            StoreRecord::Trace(trace) => put_trace(engine, trace)?,
        };
        *(if is_new { &mut counts.n_new } else { &mut counts.n_known }) += 1;
    }
    Ok(counts)
}

fn exists(engine: &mut impl SqlEngine, sql: &'static str, hashes: &[&ContentHash]) -> Result<bool, StoreError> {
    let parameters: Vec<_> = hashes.iter().map(|hash| (*hash).into()).collect();
    Ok(first(engine, sql, &parameters, |_| Ok(()))?.is_some())
}

fn refer_to_graph(engine: &mut impl SqlEngine, graph: &ContentHash) -> Result<(), StoreError> {
    match exists(engine, HAS_GRAPH, &[graph])? {
        true => Ok(()),
        false => Err(StoreError::MissingReference { what: "graph", hash: *graph }),
    }
}

fn put_graph(engine: &mut impl SqlEngine, graph: &GraphRecord) -> Result<bool, StoreError> {
    // Graphs of the same mathematics have the same text of it.
    let text = "SELECT mathematics_text FROM canonical_graphs WHERE mathematics_hash = ?1 LIMIT 1";
    let known = first(engine, text, &[(&graph.mathematics).into()], |row| Ok(row.text(0)? == graph.mathematics_text))?;
    if known == Some(false) {
        return Err(StoreError::HashCollision { what: "the mathematics", hash: graph.mathematics });
    }
    let insert = "INSERT INTO canonical_graphs (bits_hash, mathematics_hash, canonical_text, mathematics_text) \
                  VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let values =
        [(&graph.bits).into(), (&graph.mathematics).into(), (&*graph.text).into(), (&*graph.mathematics_text).into()];
    if engine.execute(insert, &values)? == 1 {
        return Ok(true);
    }
    let same = "SELECT canonical_text, mathematics_hash FROM canonical_graphs WHERE bits_hash = ?1";
    let is_same = first(engine, same, &[(&graph.bits).into()], |row| {
        Ok(row.text(0)? == graph.text && row.hash(1)? == graph.mathematics)
    })?;
    match is_same {
        Some(false) => Err(StoreError::HashCollision { what: "graph", hash: graph.bits }),
        _ => Ok(false),
    }
}

fn put_implementation(engine: &mut impl SqlEngine, record: &ImplementationRecord) -> Result<bool, StoreError> {
    let recipe = canonical_json(&record.recipe)?;
    let hash = recipe_hash(record.recipe_version, &recipe);
    let identity = match record.identity {
        PathIdentity::Bits => "bits",
        PathIdentity::Mathematics => "mathematics",
    };
    let insert = "INSERT INTO implementations (graph_id, recipe_hash, recipe_version, identity, is_default, recipe) \
                  SELECT id, ?2, ?3, ?4, ?5, ?6 FROM canonical_graphs WHERE bits_hash = ?1 ON CONFLICT DO NOTHING";
    let version = i64::from(record.recipe_version);
    let values = [
        (&record.graph).into(),
        (&hash).into(),
        version.into(),
        identity.into(),
        record.is_default.into(),
        (&*recipe).into(),
    ];
    if engine.execute(insert, &values)? == 1 {
        return Ok(true);
    }
    refer_to_graph(engine, &record.graph)?;
    // A path that is a default anywhere is one, so that merging databases in any order gives the same.
    let raise = "UPDATE implementations SET is_default = 1 WHERE is_default = 0 AND recipe_hash = ?2 AND graph_id = \
                 (SELECT id FROM canonical_graphs WHERE bits_hash = ?1)";
    if record.is_default {
        engine.execute(raise, &[(&record.graph).into(), (&hash).into()])?;
    }
    Ok(false)
}

fn put_workload(engine: &mut impl SqlEngine, record: &WorkloadRecord) -> Result<bool, StoreError> {
    let insert = "INSERT INTO workloads (graph_id, workload_hash, arguments) SELECT id, ?2, ?3 FROM canonical_graphs \
                  WHERE bits_hash = ?1 ON CONFLICT DO NOTHING";
    let (hash, arguments) = (record.hash(), json(&record.arguments));
    if arguments.contains("\\u0000") {
        return Err(StoreError::InvalidRecord { reason: "a dtype or layout has the character 0".to_owned() });
    }
    if engine.execute(insert, &[(&record.graph).into(), (&hash).into(), (&*arguments).into()])? == 1 {
        return Ok(true);
    }
    refer_to_graph(engine, &record.graph)?;
    Ok(false)
}

fn put_environment(engine: &mut impl SqlEngine, record: &EnvironmentRecord) -> Result<bool, StoreError> {
    let insert =
        "INSERT INTO environments (fingerprint, cpu, gpu, facts) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let facts = &record.facts;
    // The names are for readers of the table.
    let clean = |name: &str| name.replace('\0', "");
    let (cpu, gpu) = (clean(&facts.cpu.model), facts.gpus.first().map(|gpu| clean(&gpu.name)));
    let text = json(facts);
    let values = [(&record.fingerprint).into(), (&*cpu).into(), gpu.as_deref().into(), (&*text).into()];
    Ok(engine.execute(insert, &values)? == 1)
}

fn put_trace(engine: &mut impl SqlEngine, trace: &TraceRecord) -> Result<bool, StoreError> {
    let insert = "INSERT INTO benchmark_traces (trace_hash, graph_id, implementation_id, workload_id, environment_id, \
                  policy, code_hash, session, status, measured_at, n_samples, n_outliers, min_ps, p05_ps, median_ps, \
                  p95_ps, max_ps, mean_ps, mad_ps, n_warm_ups, error, reason, runner, observations, warm_ups, samples) \
                  SELECT ?1, g.id, i.id, w.id, e.id, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
                  ?20, ?21, ?22, ?23, ?24, ?25, ?26 \
                  FROM canonical_graphs g \
                  JOIN implementations i ON i.graph_id = g.id AND i.recipe_hash = ?3 \
                  JOIN workloads w ON w.graph_id = g.id AND w.workload_hash = ?4 \
                  JOIN environments e ON e.fingerprint = ?5 \
                  WHERE g.bits_hash = ?2 ON CONFLICT DO NOTHING";
    let summary = SampleSummary::of(&trace.samples);
    let of = |value: fn(&SampleSummary) -> u64| summary.as_ref().map(value).into();
    let (hash, observations) = (trace.hash(), json(&trace.observations));
    let (warm_ups, samples) = (samples::encode(&trace.warm_ups), samples::encode(&trace.samples));
    let values = [
        (&hash).into(),
        (&trace.graph).into(),
        (&trace.implementation).into(),
        (&trace.workload).into(),
        (&trace.environment).into(),
        (&*trace.policy).into(),
        (&trace.code_hash).into(),
        (&*trace.session).into(),
        trace.status.name().into(),
        trace.measured_at.into(),
        (trace.samples.len() as u64).into(),
        of(|summary| summary.n_outliers),
        of(|summary| summary.min),
        of(|summary| summary.p05),
        of(|summary| summary.median),
        of(|summary| summary.p95),
        of(|summary| summary.max),
        of(|summary| summary.mean),
        of(|summary| summary.mad),
        (trace.warm_ups.len() as u64).into(),
        trace.error.into(),
        trace.reason.as_deref().into(),
        (&*trace.runner).into(),
        (&*observations).into(),
        (&*warm_ups).into(),
        (&*samples).into(),
    ];
    if engine.execute(insert, &values)? == 1 {
        return Ok(true);
    }
    if exists(engine, "SELECT 1 FROM benchmark_traces WHERE trace_hash = ?1", &[&hash])? {
        return Ok(false);
    }
    refer_to_graph(engine, &trace.graph)?;
    let graph = &trace.graph;
    let has_implementation = "SELECT 1 FROM implementations i JOIN canonical_graphs g ON g.id = i.graph_id \
                              WHERE g.bits_hash = ?1 AND i.recipe_hash = ?2";
    let has_workload = "SELECT 1 FROM workloads w JOIN canonical_graphs g ON g.id = w.graph_id \
                        WHERE g.bits_hash = ?1 AND w.workload_hash = ?2";
    let (what, hash) = if !exists(engine, has_implementation, &[graph, &trace.implementation])? {
        ("implementation", trace.implementation)
    } else if !exists(engine, has_workload, &[graph, &trace.workload])? {
        ("workload", trace.workload)
    } else {
        ("environment", trace.environment)
    };
    Err(StoreError::MissingReference { what, hash })
}
