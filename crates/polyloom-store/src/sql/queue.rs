//! The queue of work: leases with an end, and a token that grows with each, so that a worker that was thought lost
//! cannot finish what another has taken over.

use super::engine::{SqlEngine, SqlRow};
use super::read::{from_json, graph};
use super::{all, first};
use crate::{ContentHash, Job, JobCounts, JobRequest, LeaseOutcome, StoreError, WorkloadRecord};
use std::time::Duration;

/// The statements of a lease: they pick rows and take them. Where rows have locks of their own, those that another
/// worker is taking are skipped.
macro_rules! lease_statements {
    ($lock:literal) => {
        (
            concat!(
                "WITH picked AS (SELECT id FROM leases WHERE environment_id = ?1 AND state = 'leased' \
                 AND leased_until < ?2 AND n_attempts < max_attempts ORDER BY leased_until LIMIT ?3",
                $lock,
                ") UPDATE leases SET owner = ?4, leased_until = ?5, token = token + 1, n_attempts = n_attempts + 1 \
                 WHERE id IN (SELECT id FROM picked) RETURNING id"
            ),
            concat!(
                "WITH picked AS (SELECT id FROM leases WHERE environment_id = ?1 AND state = 'waiting' \
                 ORDER BY priority DESC, id LIMIT ?2",
                $lock,
                ") UPDATE leases SET state = 'leased', owner = ?3, leased_until = ?4, token = token + 1, \
                 n_attempts = n_attempts + 1 WHERE id IN (SELECT id FROM picked) RETURNING id"
            ),
        )
    };
}

/// The statements of a lease where the writer has the whole file.
#[cfg(test)]
pub(super) const LEASE_STATEMENTS: (&str, &str) = lease_statements!("");

fn end(now: i64, duration: Duration) -> i64 {
    now.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

pub(super) fn add(engine: &mut impl SqlEngine, jobs: &[JobRequest]) -> Result<u64, StoreError> {
    let insert = "INSERT INTO leases (workload_id, environment_id, policy, priority, state, n_attempts, max_attempts, \
                  token, created_at) SELECT w.id, e.id, ?4, ?5, 'waiting', 0, ?6, 0, ?7 FROM canonical_graphs g \
                  JOIN workloads w ON w.graph_id = g.id AND w.workload_hash = ?2 \
                  JOIN environments e ON e.fingerprint = ?3 WHERE g.bits_hash = ?1 ON CONFLICT DO NOTHING";
    let reopen = "UPDATE leases SET state = 'waiting', n_attempts = 0, owner = NULL, finished_at = NULL, reason = NULL, \
                  priority = ?5, max_attempts = ?6 WHERE state IN ('done', 'failed') AND policy = ?4 \
                  AND workload_id = (SELECT w.id FROM workloads w JOIN canonical_graphs g ON g.id = w.graph_id \
                  WHERE g.bits_hash = ?1 AND w.workload_hash = ?2) \
                  AND environment_id = (SELECT id FROM environments WHERE fingerprint = ?3)";
    let known = "SELECT (SELECT count(*) FROM workloads w JOIN canonical_graphs g ON g.id = w.graph_id \
                 WHERE g.bits_hash = ?1 AND w.workload_hash = ?2), \
                 (SELECT count(*) FROM environments WHERE fingerprint = ?3)";
    let now = engine.now()?;
    let mut n_added = 0;
    for job in jobs {
        let max_attempts = i64::from(job.max_attempts.max(1));
        let values = [
            (&job.graph).into(),
            (&job.workload).into(),
            (&job.environment).into(),
            (&*job.policy).into(),
            job.priority.into(),
            max_attempts.into(),
            now.into(),
        ];
        let n = engine.execute(insert, &values)?;
        n_added += n;
        if n > 0 {
            continue;
        }
        let found = first(engine, known, &values[..3], |row| Ok((row.count(0)?, row.count(1)?)))?;
        match found {
            Some((0, _)) => return Err(StoreError::MissingReference { what: "workload", hash: job.workload }),
            Some((_, 0)) => return Err(StoreError::MissingReference { what: "environment", hash: job.environment }),
            _ if job.is_repeated => n_added += engine.execute(reopen, &values[..6])?,
            _ => {}
        }
    }
    Ok(n_added)
}

pub(super) fn lease<E: SqlEngine>(
    engine: &mut E,
    environment: &ContentHash,
    owner: &str,
    n: usize,
    duration: Duration,
) -> Result<Vec<Job>, StoreError> {
    let (take_over, take) =
        if E::LOCKS_ROWS { lease_statements!(" FOR UPDATE SKIP LOCKED") } else { lease_statements!("") };
    let id = "SELECT id FROM environments WHERE fingerprint = ?1";
    let Some(environment) = first(engine, id, &[environment.into()], |row| row.integer(0))? else {
        return Ok(Vec::new());
    };
    let now = engine.now()?;
    let give_up = "UPDATE leases SET state = 'failed', leased_until = NULL, finished_at = ?2, reason = 'the worker was lost \
                   in the last attempt that it may have' WHERE environment_id = ?1 AND state = 'leased' \
                   AND leased_until < ?2 AND n_attempts >= max_attempts";
    engine.execute(give_up, &[environment.into(), now.into()])?;
    let until = end(now, duration);
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let taken_over = [environment.into(), now.into(), n.into(), owner.into(), until.into()];
    let mut taken = all(engine, take_over, &taken_over, |row| row.integer(0))?;
    let left = n - taken.len() as i64;
    if left > 0 {
        let waiting = [environment.into(), left.into(), owner.into(), until.into()];
        taken.extend(all(engine, take, &waiting, |row| row.integer(0))?);
    }
    let job = "SELECT l.id, l.token, l.n_attempts, l.policy, g.bits_hash, g.mathematics_hash, g.canonical_text, \
               g.mathematics_text, w.arguments, l.priority FROM leases l JOIN workloads w ON w.id = l.workload_id \
               JOIN canonical_graphs g ON g.id = w.graph_id WHERE l.id = ?1";
    let mut jobs = Vec::with_capacity(taken.len());
    for id in taken {
        jobs.extend(first(engine, job, &[id.into()], |row| Ok((row.integer(9)?, leased(row)?)))?);
    }
    // Updates return rows in no order.
    jobs.sort_by_key(|(priority, job)| (std::cmp::Reverse(*priority), job.id));
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

fn leased(row: &dyn SqlRow) -> Result<Job, StoreError> {
    let graph = graph(row, 4)?;
    let workload = WorkloadRecord { graph: graph.bits, arguments: from_json(row, 8)? };
    Ok(Job {
        id: row.integer(0)?,
        token: row.integer(1)?,
        n_attempts: row.count(2)?,
        policy: row.text(3)?.to_owned(),
        graph,
        workload,
    })
}

fn held(job: &Job, n_rows: u64) -> Result<(), StoreError> {
    if n_rows == 1 { Ok(()) } else { Err(StoreError::LeaseLost { job: job.id }) }
}

pub(super) fn heartbeat(engine: &mut impl SqlEngine, job: &Job, duration: Duration) -> Result<(), StoreError> {
    let until = end(engine.now()?, duration);
    let sql = "UPDATE leases SET leased_until = ?3 WHERE id = ?1 AND token = ?2 AND state = 'leased'";
    held(job, engine.execute(sql, &[job.id.into(), job.token.into(), until.into()])?)
}

pub(super) fn finish(engine: &mut impl SqlEngine, job: &Job, outcome: &LeaseOutcome) -> Result<(), StoreError> {
    let key = [job.id.into(), job.token.into()];
    let now = engine.now()?;
    let n_rows = match outcome {
        LeaseOutcome::Done => {
            let sql = "UPDATE leases SET state = 'done', leased_until = NULL, finished_at = ?3, reason = NULL \
                       WHERE id = ?1 AND token = ?2 AND state = 'leased'";
            engine.execute(sql, &[key[0], key[1], now.into()])?
        }
        LeaseOutcome::Failed { reason } => {
            let sql = "UPDATE leases SET state = CASE WHEN n_attempts < max_attempts THEN 'waiting' ELSE 'failed' END, \
                       leased_until = NULL, finished_at = ?3, reason = ?4 \
                       WHERE id = ?1 AND token = ?2 AND state = 'leased'";
            engine.execute(sql, &[key[0], key[1], now.into(), reason.as_str().into()])?
        }
        LeaseOutcome::Returned => {
            let sql = "UPDATE leases SET state = 'waiting', leased_until = NULL, n_attempts = n_attempts - 1 \
                       WHERE id = ?1 AND token = ?2 AND state = 'leased'";
            engine.execute(sql, &key)?
        }
    };
    held(job, n_rows)
}

pub(super) fn counts(engine: &mut impl SqlEngine, environment: Option<&ContentHash>) -> Result<JobCounts, StoreError> {
    let mut counts = JobCounts::default();
    let mut read = |row: &dyn SqlRow| {
        let n = row.count(1)?;
        match row.text(0)? {
            "waiting" => counts.n_waiting = n,
            "leased" => counts.n_leased = n,
            "done" => counts.n_done = n,
            _ => counts.n_failed = n,
        }
        Ok(())
    };
    match environment {
        None => engine.query("SELECT state, count(*) FROM leases GROUP BY state", &[], &mut read)?,
        Some(environment) => {
            let sql = "SELECT l.state, count(*) FROM leases l JOIN environments e ON e.id = l.environment_id \
                       WHERE e.fingerprint = ?1 GROUP BY l.state";
            engine.query(sql, &[environment.into()], &mut read)?;
        }
    }
    Ok(counts)
}
