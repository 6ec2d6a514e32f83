//! The store over SQL: statements that both databases understand, written once, over engines that run them.
//!
//! Design: `docs/design/benchmark-database.md`.

pub(crate) mod engine;
pub(crate) mod postgres;
pub(crate) mod sqlite;

mod check;
mod listing;
mod queue;
mod read;
mod write;

use crate::migration::{self, SchemaState};
use crate::{
    BestPathQuery, CheckReport, ContentHash, GraphRecord, ImplementationRecord, Job, JobCounts, JobRequest,
    LeaseOutcome, MeasuredPath, PutCounts, Store, StoreError, StoreRecord, TraceFilter, TraceRecord, WorkloadRecord,
};
use engine::{SqlEngine, SqlRow, SqlValue};
use std::collections::BTreeMap;
use std::time::Duration;

/// Transactions that a database breaks off, because two would wait for each other, are tried again so often.
const MAX_ATTEMPTS: u32 = 5;

/// A store over an engine.
pub(crate) struct SqlStore<E> {
    engine: E,
}

impl<E: SqlEngine> SqlStore<E> {
    /// Takes an engine whose schema is that of this program.
    pub(crate) fn new(mut engine: E) -> Result<SqlStore<E>, StoreError> {
        migration::verify(&mut engine)?;
        Ok(SqlStore { engine })
    }

    fn transaction<T>(&mut self, mut body: impl FnMut(&mut E) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut attempt = 1;
        loop {
            self.engine.begin_write()?;
            match body(&mut self.engine).and_then(|value| self.engine.commit().map(|()| value)) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    self.engine.roll_back();
                    if !self.engine.is_to_be_retried(&error) || attempt == MAX_ATTEMPTS {
                        return Err(error);
                    }
                    attempt += 1;
                }
            }
        }
    }
}

/// Returns the first row that a query gives.
fn first<T>(
    engine: &mut impl SqlEngine,
    sql: &'static str,
    parameters: &[SqlValue<'_>],
    read: impl Fn(&dyn SqlRow) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut found = None;
    engine.query(sql, parameters, &mut |row| {
        if found.is_none() {
            found = Some(read(row)?);
        }
        Ok(())
    })?;
    Ok(found)
}

fn all<T>(
    engine: &mut impl SqlEngine,
    sql: &'static str,
    parameters: &[SqlValue<'_>],
    read: impl Fn(&dyn SqlRow) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    engine.query(sql, parameters, &mut |row| {
        found.push(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

impl<E: SqlEngine> Store for SqlStore<E> {
    fn put(&mut self, records: &[StoreRecord]) -> Result<PutCounts, StoreError> {
        records.iter().try_for_each(StoreRecord::verify)?;
        self.transaction(|engine| write::put(engine, records))
    }

    fn graphs_of(&mut self, hash: &ContentHash) -> Result<Vec<GraphRecord>, StoreError> {
        read::graphs_of(&mut self.engine, hash)
    }

    fn implementation(
        &mut self,
        graph: &ContentHash,
        hash: &ContentHash,
    ) -> Result<Option<ImplementationRecord>, StoreError> {
        read::implementation(&mut self.engine, graph, hash)
    }

    fn traces(&mut self, filter: &TraceFilter) -> Result<Vec<TraceRecord>, StoreError> {
        read::traces(&mut self.engine, filter)
    }

    fn measured(&mut self, query: &BestPathQuery, workload: &ContentHash) -> Result<Vec<MeasuredPath>, StoreError> {
        read::measured(&mut self.engine, query, workload)
    }

    fn measured_workloads(&mut self, query: &BestPathQuery) -> Result<Vec<WorkloadRecord>, StoreError> {
        read::measured_workloads(&mut self.engine, query)
    }

    fn measured_environments(&mut self, query: &BestPathQuery) -> Result<Vec<ContentHash>, StoreError> {
        read::measured_environments(&mut self.engine, query)
    }

    fn for_each_record(
        &mut self,
        each: &mut dyn FnMut(StoreRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.engine.begin_read()?;
        let outcome = read::for_each_record(&mut self.engine, each);
        self.engine.roll_back();
        outcome
    }

    fn counts(&mut self) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        read::counts(&mut self.engine)
    }

    fn change_mark(&mut self) -> Result<i64, StoreError> {
        self.engine.change_mark()
    }

    fn n_statements(&self) -> u64 {
        self.engine.n_statements()
    }

    fn schema(&mut self) -> Result<SchemaState, StoreError> {
        migration::state(&mut self.engine)
    }

    fn check(&mut self, each: &mut dyn FnMut(u64, u64)) -> Result<CheckReport, StoreError> {
        self.engine.begin_read()?;
        let report = check::check(&mut self.engine, each);
        self.engine.roll_back();
        report
    }

    fn add_jobs(&mut self, jobs: &[JobRequest]) -> Result<u64, StoreError> {
        self.transaction(|engine| queue::add(engine, jobs))
    }

    fn lease(
        &mut self,
        environment: &ContentHash,
        owner: &str,
        n: usize,
        duration: Duration,
    ) -> Result<Vec<Job>, StoreError> {
        self.transaction(|engine| queue::lease(engine, environment, owner, n, duration))
    }

    fn heartbeat(&mut self, job: &Job, duration: Duration) -> Result<(), StoreError> {
        self.transaction(|engine| queue::heartbeat(engine, job, duration))
    }

    fn finish(&mut self, job: &Job, outcome: &LeaseOutcome) -> Result<(), StoreError> {
        self.transaction(|engine| queue::finish(engine, job, outcome))
    }

    fn job_counts(&mut self, environment: Option<&ContentHash>) -> Result<JobCounts, StoreError> {
        queue::counts(&mut self.engine, environment)
    }
}
