//! Lists for people: pages of rows with counts.

use super::engine::{SqlEngine, SqlRow, SqlValue};
use super::read::{environment_row, from_json, graph, implementation_of};
use super::{SqlStore, all, first};
use crate::{
    ContentHash, EnvironmentRecord, EnvironmentSummary, GraphSummary, ImplementationRecord, JobState, JobSummary,
    MeasurementPlace, SessionSummary, StoreError, StoreListing, TextCursor, WorkloadSummary,
};

/// A query of graphs with counts. The inner query picks them, so that nothing is counted for those that are left out.
macro_rules! graphs {
    ($picked:literal) => {
        concat!(
            "SELECT g.bits_hash, g.mathematics_hash, g.canonical_text, g.mathematics_text, \
             (SELECT count(*) FROM implementations i WHERE i.graph_id = g.id), \
             (SELECT count(*) FROM workloads w WHERE w.graph_id = g.id), \
             (SELECT count(*) FROM workloads w JOIN benchmark_traces t ON t.workload_id = w.id WHERE w.graph_id = g.id), \
             (SELECT max(t.measured_at) FROM workloads w JOIN benchmark_traces t ON t.workload_id = w.id \
             WHERE w.graph_id = g.id) FROM (",
            $picked,
            ") g ORDER BY g.id DESC"
        )
    };
}

/// A query of workloads with where they were measured. The inner query picks them.
macro_rules! workloads {
    ($picked:literal) => {
        concat!(
            "SELECT w.workload_hash, w.arguments, e.fingerprint, t.policy, count(t.id), \
             sum(CASE WHEN t.status <> 'ok' THEN 1 ELSE 0 END), max(t.measured_at) AS newest FROM (",
            $picked,
            ") w LEFT JOIN benchmark_traces t ON t.workload_id = w.id \
             LEFT JOIN environments e ON e.id = t.environment_id \
             GROUP BY w.id, w.workload_hash, w.arguments, e.fingerprint, t.policy \
             ORDER BY w.id DESC, newest DESC, e.fingerprint, t.policy"
        )
    };
}

fn graph_summary(row: &dyn SqlRow) -> Result<GraphSummary, StoreError> {
    Ok(GraphSummary {
        graph: graph(row, 0)?,
        n_implementations: row.count(4)?,
        n_workloads: row.count(5)?,
        n_traces: row.count(6)?,
        measured_at: row.integer_or_null(7)?,
    })
}

/// Puts the rows of workloads together, each of which has one place.
fn read_workloads(
    engine: &mut impl SqlEngine,
    sql: &'static str,
    parameters: &[SqlValue<'_>],
) -> Result<Vec<WorkloadSummary>, StoreError> {
    let mut workloads: Vec<WorkloadSummary> = Vec::new();
    engine.query(sql, parameters, &mut |row| {
        let hash = row.hash(0)?;
        if workloads.last().is_none_or(|last| last.hash != hash) {
            workloads.push(WorkloadSummary { hash, arguments: from_json(row, 1)?, places: Vec::new() });
        }
        // One that has never been measured has a row without a place.
        if let (Some(policy), Some(workload)) = (row.text_or_null(3)?, workloads.last_mut()) {
            workload.places.push(MeasurementPlace {
                environment: row.hash(2)?,
                policy: policy.to_owned(),
                n_traces: row.count(4)?,
                n_failed: row.count(5)?,
                measured_at: row.integer(6)?,
            });
        }
        Ok(())
    })?;
    Ok(workloads)
}

impl<E: SqlEngine> StoreListing for SqlStore<E> {
    fn graph_page(&mut self, offset: u64, limit: u64) -> Result<Vec<GraphSummary>, StoreError> {
        let sql = graphs!("SELECT * FROM canonical_graphs ORDER BY id DESC LIMIT ?1 OFFSET ?2");
        all(&mut self.engine, sql, &[limit.into(), offset.into()], graph_summary)
    }

    fn graph_summary(&mut self, graph: &ContentHash) -> Result<Option<GraphSummary>, StoreError> {
        let sql = graphs!("SELECT * FROM canonical_graphs WHERE bits_hash = ?1");
        first(&mut self.engine, sql, &[graph.into()], graph_summary)
    }

    fn for_each_new_text(
        &mut self,
        cursor: &mut TextCursor,
        each: &mut dyn FnMut(ContentHash, &str),
    ) -> Result<(), StoreError> {
        let graphs = "SELECT id, bits_hash, canonical_text FROM canonical_graphs WHERE id > ?1 ORDER BY id";
        self.engine.query(graphs, &[cursor.graph.into()], &mut |row| {
            each(row.hash(1)?, row.text(2)?);
            cursor.graph = row.integer(0)?;
            Ok(())
        })?;
        let recipes = "SELECT i.id, g.bits_hash, i.recipe FROM implementations i \
                       JOIN canonical_graphs g ON g.id = i.graph_id WHERE i.id > ?1 AND i.is_default = 1 ORDER BY i.id";
        self.engine.query(recipes, &[cursor.implementation.into()], &mut |row| {
            each(row.hash(1)?, row.text(2)?);
            cursor.implementation = row.integer(0)?;
            Ok(())
        })
    }

    fn implementations_of(
        &mut self,
        graph: &ContentHash,
        limit: u64,
    ) -> Result<Vec<(ImplementationRecord, u64)>, StoreError> {
        let sql = "SELECT i.recipe, i.recipe_version, i.identity, i.is_default, \
                   (SELECT count(*) FROM workloads w JOIN benchmark_traces t ON t.workload_id = w.id \
                   WHERE w.graph_id = g.id AND t.implementation_id = i.id) \
                   FROM canonical_graphs g JOIN implementations i ON i.graph_id = g.id \
                   WHERE g.bits_hash = ?1 ORDER BY i.is_default DESC, i.id LIMIT ?2";
        all(&mut self.engine, sql, &[graph.into(), limit.into()], |row| {
            Ok((implementation_of(row, *graph, 0)?, row.count(4)?))
        })
    }

    fn workloads_of(
        &mut self,
        graph: &ContentHash,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<WorkloadSummary>, StoreError> {
        let sql = workloads!(
            "SELECT x.id, x.workload_hash, x.arguments FROM canonical_graphs g JOIN workloads x ON x.graph_id = g.id \
             WHERE g.bits_hash = ?1 ORDER BY x.id DESC LIMIT ?2 OFFSET ?3"
        );
        read_workloads(&mut self.engine, sql, &[graph.into(), limit.into(), offset.into()])
    }

    fn workload(&mut self, graph: &ContentHash, workload: &ContentHash) -> Result<Option<WorkloadSummary>, StoreError> {
        let sql = workloads!(
            "SELECT x.id, x.workload_hash, x.arguments FROM canonical_graphs g JOIN workloads x ON x.graph_id = g.id \
             WHERE g.bits_hash = ?1 AND x.workload_hash = ?2"
        );
        Ok(read_workloads(&mut self.engine, sql, &[graph.into(), workload.into()])?.pop())
    }

    fn newest_sessions(&mut self, n_traces: u64) -> Result<Vec<SessionSummary>, StoreError> {
        // The primary key finds the last ones, which nothing else of the table is read for.
        let sql = "SELECT t.session, g.bits_hash, w.workload_hash, e.fingerprint, t.policy, t.status, t.measured_at, \
                   w.arguments, e.cpu, e.gpu FROM (SELECT graph_id, workload_id, environment_id, session, policy, status, \
                   measured_at, id FROM benchmark_traces ORDER BY id DESC LIMIT ?1) t \
                   JOIN canonical_graphs g ON g.id = t.graph_id JOIN workloads w ON w.id = t.workload_id \
                   JOIN environments e ON e.id = t.environment_id";
        let mut sessions: Vec<SessionSummary> = Vec::new();
        self.engine.query(sql, &[n_traces.into()], &mut |row| {
            let (session, policy) = (row.text(0)?, row.text(4)?);
            let (graph, workload, environment) = (row.hash(1)?, row.hash(2)?, row.hash(3)?);
            let is_of_it = |each: &&mut SessionSummary| {
                (each.graph, each.workload, each.environment) == (graph, workload, environment)
                    && each.session == session
                    && each.policy == policy
            };
            let n_failed = u64::from(row.text(5)? != "ok");
            let measured_at = row.integer(6)?;
            match sessions.iter_mut().rev().find(is_of_it) {
                Some(summary) => {
                    summary.n_traces += 1;
                    summary.n_failed += n_failed;
                    summary.measured_at = summary.measured_at.max(measured_at);
                }
                None => sessions.push(SessionSummary {
                    session: session.to_owned(),
                    graph,
                    workload,
                    arguments: from_json(row, 7)?,
                    environment,
                    cpu: row.text(8)?.to_owned(),
                    gpu: row.text_or_null(9)?.map(str::to_owned),
                    policy: policy.to_owned(),
                    n_traces: 1,
                    n_failed,
                    measured_at,
                }),
            }
            Ok(())
        })?;
        sessions.sort_by_key(|summary| std::cmp::Reverse(summary.measured_at));
        Ok(sessions)
    }

    fn environment(&mut self, fingerprint: &ContentHash) -> Result<Option<EnvironmentRecord>, StoreError> {
        let sql = "SELECT id, fingerprint, facts FROM environments WHERE fingerprint = ?1";
        first(&mut self.engine, sql, &[fingerprint.into()], environment_row)
    }

    fn environments(&mut self) -> Result<Vec<EnvironmentSummary>, StoreError> {
        let sql = "SELECT e.id, e.fingerprint, e.facts, t.n, t.newest FROM environments e LEFT JOIN \
                   (SELECT environment_id, count(*) AS n, max(measured_at) AS newest FROM benchmark_traces \
                   GROUP BY environment_id) t ON t.environment_id = e.id ORDER BY e.id";
        all(&mut self.engine, sql, &[], |row| {
            Ok(EnvironmentSummary {
                environment: environment_row(row)?,
                n_traces: row.integer_or_null(3)?.unwrap_or_default().unsigned_abs(),
                measured_at: row.integer_or_null(4)?,
            })
        })
    }

    fn jobs(&mut self, state: JobState, offset: u64, limit: u64) -> Result<Vec<JobSummary>, StoreError> {
        let sql = "SELECT l.id, g.bits_hash, w.workload_hash, w.arguments, e.fingerprint, l.policy, l.priority, \
                   l.n_attempts, l.max_attempts, l.owner, l.leased_until, l.created_at, l.finished_at, l.reason \
                   FROM leases l JOIN workloads w ON w.id = l.workload_id JOIN canonical_graphs g ON g.id = w.graph_id \
                   JOIN environments e ON e.id = l.environment_id WHERE l.state = ?1 ORDER BY l.id DESC LIMIT ?2 OFFSET ?3";
        all(&mut self.engine, sql, &[state.name().into(), limit.into(), offset.into()], |row| {
            Ok(JobSummary {
                id: row.integer(0)?,
                graph: row.hash(1)?,
                workload: row.hash(2)?,
                arguments: from_json(row, 3)?,
                environment: row.hash(4)?,
                policy: row.text(5)?.to_owned(),
                priority: row.integer(6)?,
                n_attempts: row.count(7)?,
                max_attempts: row.count(8)?,
                owner: row.text_or_null(9)?.map(str::to_owned),
                leased_until: row.integer_or_null(10)?,
                created_at: row.integer(11)?,
                finished_at: row.integer_or_null(12)?,
                reason: row.text_or_null(13)?.map(str::to_owned),
            })
        })
    }
}
