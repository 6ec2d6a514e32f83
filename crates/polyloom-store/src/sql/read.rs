//! Reading records, and what look-ups need of them.

use super::engine::{SqlEngine, SqlRow, SqlValue};
use super::{all, first};
use crate::{
    BestPathQuery, ContentHash, EnvironmentRecord, GraphRecord, ImplementationRecord, MeasuredPath, PathIdentity,
    StoreError, StoreRecord, TraceFilter, TraceRecord, TraceStatus, WorkloadRecord, samples,
};
use std::collections::BTreeMap;

/// Workloads and environments that are compared with a query's.
const MAX_NEIGHBOURS: i64 = 4096;
/// Rows that are held at a time while all are read.
const PAGE_ROWS: i64 = 256;

/// Finds what is measured. The indexes that it uses are those of the test `look_ups_use_indexes`.
pub(crate) const MEASURED: &str = "SELECT i.recipe_hash, i.is_default, i.identity, t.code_hash, t.session, t.status, \
    t.median_ps, t.mad_ps, t.n_samples, t.error, t.measured_at, \
    CASE WHEN EXISTS (SELECT 1 FROM benchmark_traces x WHERE x.status = 'wrong' \
    AND x.implementation_id = t.implementation_id AND x.code_hash = t.code_hash AND x.workload_id = t.workload_id) \
    THEN CAST(1 AS BIGINT) ELSE CAST(0 AS BIGINT) END \
    FROM canonical_graphs g \
    JOIN workloads w ON w.graph_id = g.id AND w.workload_hash = ?2 \
    JOIN environments e ON e.fingerprint = ?3 \
    JOIN benchmark_traces t ON t.workload_id = w.id AND t.environment_id = e.id AND t.policy = ?4 \
    JOIN implementations i ON i.id = t.implementation_id \
    WHERE g.bits_hash = ?1 ORDER BY t.measured_at DESC, t.id DESC";

pub(crate) const MEASURED_WORKLOADS: &str = "SELECT w.arguments FROM canonical_graphs g \
    JOIN workloads w ON w.graph_id = g.id \
    JOIN environments e ON e.fingerprint = ?2 \
    WHERE g.bits_hash = ?1 AND EXISTS (SELECT 1 FROM benchmark_traces t \
    WHERE t.workload_id = w.id AND t.environment_id = e.id AND t.policy = ?3) ORDER BY w.id DESC LIMIT ?4";

pub(crate) const MEASURED_ENVIRONMENTS: &str = "SELECT e.fingerprint, max(t.measured_at) AS newest \
    FROM canonical_graphs g \
    JOIN workloads w ON w.graph_id = g.id AND w.workload_hash = ?2 \
    JOIN benchmark_traces t ON t.workload_id = w.id AND t.policy = ?3 \
    JOIN environments e ON e.id = t.environment_id \
    WHERE g.bits_hash = ?1 GROUP BY e.fingerprint ORDER BY newest DESC, e.fingerprint LIMIT ?4";

/// A query of traces with all that refers to other tables by hashes; the check reads the columns after `runner`. Traces are joined
/// by their workload, because no index has them by their graph.
macro_rules! traces_where {
    ($condition:literal) => {
        concat!(
            "SELECT t.id, g.bits_hash, i.recipe_hash, w.workload_hash, e.fingerprint, t.policy, t.code_hash, t.session, \
             t.status, t.reason, t.warm_ups, t.samples, t.error, t.observations, t.measured_at, t.runner, t.trace_hash, \
             t.n_samples, t.median_ps, t.mad_ps \
             FROM canonical_graphs g \
             JOIN workloads w ON w.graph_id = g.id \
             JOIN benchmark_traces t ON t.workload_id = w.id \
             JOIN implementations i ON i.id = t.implementation_id \
             JOIN environments e ON e.id = t.environment_id WHERE ",
            $condition
        )
    };
}

pub(crate) const TRACES_OF_GRAPH: &str =
    traces_where!("g.bits_hash = ?1 ORDER BY t.measured_at DESC, t.id DESC LIMIT ?2");
pub(crate) const TRACES_OF_WORKLOAD: &str =
    traces_where!("g.bits_hash = ?1 AND w.workload_hash = ?2 ORDER BY t.measured_at DESC, t.id DESC LIMIT ?3");
pub(crate) const TRACES_IN_ENVIRONMENT: &str =
    traces_where!("g.bits_hash = ?1 AND e.fingerprint = ?2 ORDER BY t.measured_at DESC, t.id DESC LIMIT ?3");
pub(crate) const TRACES_OF_WORKLOAD_IN_ENVIRONMENT: &str = traces_where!(
    "g.bits_hash = ?1 AND w.workload_hash = ?2 AND e.fingerprint = ?3 ORDER BY t.measured_at DESC, t.id DESC LIMIT ?4"
);
pub(super) const TRACE_PAGE: &str = traces_where!("t.id > ?1 ORDER BY t.id LIMIT ?2");

fn identity(row: &dyn SqlRow, column: usize) -> Result<PathIdentity, StoreError> {
    match row.text(column)? {
        "bits" => Ok(PathIdentity::Bits),
        "mathematics" => Ok(PathIdentity::Mathematics),
        _ => Err(row.wrong(column, "is no identity")),
    }
}

fn status(row: &dyn SqlRow, column: usize) -> Result<TraceStatus, StoreError> {
    TraceStatus::from_name(row.text(column)?).ok_or_else(|| row.wrong(column, "is no status"))
}

pub(super) fn graph(row: &dyn SqlRow, column: usize) -> Result<GraphRecord, StoreError> {
    Ok(GraphRecord {
        bits: row.hash(column)?,
        mathematics: row.hash(column + 1)?,
        text: row.text(column + 2)?.to_owned(),
        mathematics_text: row.text(column + 3)?.to_owned(),
    })
}

pub(super) fn from_json<T: serde::de::DeserializeOwned>(row: &dyn SqlRow, column: usize) -> Result<T, StoreError> {
    serde_json::from_str(row.text(column)?).map_err(|error| row.wrong(column, &format!("cannot be read: {error}")))
}

pub(super) fn graphs_of(engine: &mut impl SqlEngine, hash: &ContentHash) -> Result<Vec<GraphRecord>, StoreError> {
    let sql = "SELECT bits_hash, mathematics_hash, canonical_text, mathematics_text FROM canonical_graphs \
               WHERE bits_hash = ?1 OR mathematics_hash = ?1 ORDER BY id";
    all(engine, sql, &[hash.into()], |row| graph(row, 0))
}

pub(super) fn implementation(
    engine: &mut impl SqlEngine,
    graph: &ContentHash,
    hash: &ContentHash,
) -> Result<Option<ImplementationRecord>, StoreError> {
    let sql = "SELECT i.recipe, i.recipe_version, i.identity, i.is_default FROM canonical_graphs g \
               JOIN implementations i ON i.graph_id = g.id AND i.recipe_hash = ?2 WHERE g.bits_hash = ?1";
    first(engine, sql, &[graph.into(), hash.into()], |row| implementation_of(row, *graph, 0))
}

pub(super) fn implementation_of(
    row: &dyn SqlRow,
    graph: ContentHash,
    column: usize,
) -> Result<ImplementationRecord, StoreError> {
    let version = row.integer(column + 1)?;
    Ok(ImplementationRecord {
        graph,
        recipe: row.text(column)?.to_owned(),
        recipe_version: u32::try_from(version).map_err(|_| row.wrong(column + 1, "is no version"))?,
        identity: identity(row, column + 2)?,
        is_default: row.integer(column + 3)? != 0,
    })
}

pub(super) fn measured(
    engine: &mut impl SqlEngine,
    query: &BestPathQuery,
    workload: &ContentHash,
) -> Result<Vec<MeasuredPath>, StoreError> {
    let parameters = [(&query.graph).into(), workload.into(), (&query.environment).into(), (&*query.policy).into()];
    all(engine, MEASURED, &parameters, |row| {
        Ok(MeasuredPath {
            implementation: row.hash(0)?,
            is_default: row.integer(1)? != 0,
            identity: identity(row, 2)?,
            code_hash: row.hash(3)?,
            session: row.text(4)?.to_owned(),
            status: status(row, 5)?,
            // A trace without samples has neither.
            median: row.integer_or_null(6)?.unwrap_or_default().unsigned_abs(),
            mad: row.integer_or_null(7)?.unwrap_or_default().unsigned_abs(),
            n_samples: row.count(8)?,
            error: row.real_or_null(9)?,
            measured_at: row.integer(10)?,
            is_wrong: row.integer(11)? != 0,
        })
    })
}

pub(super) fn measured_workloads(
    engine: &mut impl SqlEngine,
    query: &BestPathQuery,
) -> Result<Vec<WorkloadRecord>, StoreError> {
    let parameters =
        [(&query.graph).into(), (&query.environment).into(), (&*query.policy).into(), MAX_NEIGHBOURS.into()];
    all(engine, MEASURED_WORKLOADS, &parameters, |row| {
        Ok(WorkloadRecord { graph: query.graph, arguments: from_json(row, 0)? })
    })
}

pub(super) fn measured_environments(
    engine: &mut impl SqlEngine,
    query: &BestPathQuery,
) -> Result<Vec<ContentHash>, StoreError> {
    let workload = query.workload.hash();
    let parameters = [(&query.graph).into(), (&workload).into(), (&*query.policy).into(), MAX_NEIGHBOURS.into()];
    all(engine, MEASURED_ENVIRONMENTS, &parameters, |row| row.hash(0))
}

/// A trace with its number.
pub(super) fn trace(row: &dyn SqlRow) -> Result<(i64, TraceRecord), StoreError> {
    let samples = |column| {
        let samples = samples::decode(row.blob(column)?);
        samples
            .ok_or_else(|| row.wrong(column, &format!("of trace {} are damaged", row.integer(0).unwrap_or_default())))
    };
    Ok((
        row.integer(0)?,
        TraceRecord {
            graph: row.hash(1)?,
            implementation: row.hash(2)?,
            workload: row.hash(3)?,
            environment: row.hash(4)?,
            policy: row.text(5)?.to_owned(),
            code_hash: row.hash(6)?,
            session: row.text(7)?.to_owned(),
            status: status(row, 8)?,
            reason: row.text_or_null(9)?.map(str::to_owned),
            warm_ups: samples(10)?,
            samples: samples(11)?,
            error: row.real_or_null(12)?,
            observations: from_json(row, 13)?,
            measured_at: row.integer(14)?,
            runner: row.text(15)?.to_owned(),
        },
    ))
}

pub(super) fn traces(engine: &mut impl SqlEngine, filter: &TraceFilter) -> Result<Vec<TraceRecord>, StoreError> {
    let (graph, workload, environment) = (&filter.graph, filter.workload.as_ref(), filter.environment.as_ref());
    // Each has parameters of its own, because a condition on an absent one would hide the index of the other.
    let (sql, hashes) = match (workload, environment) {
        (None, None) => (TRACES_OF_GRAPH, vec![graph]),
        (Some(workload), None) => (TRACES_OF_WORKLOAD, vec![graph, workload]),
        (None, Some(environment)) => (TRACES_IN_ENVIRONMENT, vec![graph, environment]),
        (Some(workload), Some(environment)) => (TRACES_OF_WORKLOAD_IN_ENVIRONMENT, vec![graph, workload, environment]),
    };
    let limit = filter.limit.unwrap_or(i64::MAX.unsigned_abs());
    let parameters: Vec<SqlValue<'_>> =
        hashes.into_iter().map(SqlValue::from).chain(std::iter::once(limit.into())).collect();
    Ok(all(engine, sql, &parameters, trace)?.into_iter().map(|(_, trace)| trace).collect())
}

/// Reads a table in pages by its numbers. `page` gives rows with a number larger than `?1`, at most `?2`.
pub(super) fn for_each_row<E: SqlEngine>(
    engine: &mut E,
    page: &'static str,
    each: &mut dyn FnMut(&dyn SqlRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut last = i64::MIN;
    loop {
        let mut n_rows = 0;
        engine.query(page, &[last.into(), PAGE_ROWS.into()], &mut |row| {
            (last, n_rows) = (row.integer(0)?, n_rows + 1);
            each(row)
        })?;
        if n_rows < PAGE_ROWS {
            return Ok(());
        }
    }
}

pub(super) const GRAPH_PAGE: &str = "SELECT id, bits_hash, mathematics_hash, canonical_text, mathematics_text \
    FROM canonical_graphs WHERE id > ?1 ORDER BY id LIMIT ?2";
pub(super) const IMPLEMENTATION_PAGE: &str = "SELECT i.id, g.bits_hash, i.recipe, i.recipe_version, i.identity, \
    i.is_default, i.recipe_hash FROM implementations i JOIN canonical_graphs g ON g.id = i.graph_id \
    WHERE i.id > ?1 ORDER BY i.id LIMIT ?2";
pub(super) const WORKLOAD_PAGE: &str = "SELECT w.id, g.bits_hash, w.arguments, w.workload_hash FROM workloads w \
    JOIN canonical_graphs g ON g.id = w.graph_id WHERE w.id > ?1 ORDER BY w.id LIMIT ?2";
pub(super) const ENVIRONMENT_PAGE: &str =
    "SELECT id, fingerprint, facts FROM environments WHERE id > ?1 ORDER BY id LIMIT ?2";

pub(super) fn implementation_row(row: &dyn SqlRow) -> Result<ImplementationRecord, StoreError> {
    implementation_of(row, row.hash(1)?, 2)
}

pub(super) fn workload_row(row: &dyn SqlRow) -> Result<WorkloadRecord, StoreError> {
    Ok(WorkloadRecord { graph: row.hash(1)?, arguments: from_json(row, 2)? })
}

pub(super) fn environment_row(row: &dyn SqlRow) -> Result<EnvironmentRecord, StoreError> {
    Ok(EnvironmentRecord { fingerprint: row.hash(1)?, facts: from_json(row, 2)? })
}

pub(super) fn for_each_record(
    engine: &mut impl SqlEngine,
    each: &mut dyn FnMut(StoreRecord) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for_each_row(engine, GRAPH_PAGE, &mut |row| each(graph(row, 1)?.into()))?;
    for_each_row(engine, IMPLEMENTATION_PAGE, &mut |row| each(implementation_row(row)?.into()))?;
    for_each_row(engine, WORKLOAD_PAGE, &mut |row| each(workload_row(row)?.into()))?;
    for_each_row(engine, ENVIRONMENT_PAGE, &mut |row| each(environment_row(row)?.into()))?;
    for_each_row(engine, TRACE_PAGE, &mut |row| each(trace(row)?.1.into()))
}

pub(super) fn counts(engine: &mut impl SqlEngine) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    const COUNTS: [(&str, &str); 6] = [
        ("canonical_graphs", "SELECT count(*) FROM canonical_graphs"),
        ("implementations", "SELECT count(*) FROM implementations"),
        ("environments", "SELECT count(*) FROM environments"),
        ("workloads", "SELECT count(*) FROM workloads"),
        ("benchmark_traces", "SELECT count(*) FROM benchmark_traces"),
        ("leases", "SELECT count(*) FROM leases"),
    ];
    let mut counts = BTreeMap::new();
    for (table, sql) in COUNTS {
        counts.insert(table, first(engine, sql, &[], |row| row.count(0))?.unwrap_or_default());
    }
    Ok(counts)
}
