//! The interface to a database, and opening one.

use crate::migration::{self, SchemaState};
use crate::sql::SqlStore;
use crate::sql::engine::SqlEngine;
use crate::sql::postgres::PostgresEngine;
use crate::sql::sqlite::{FileAccess, SqliteEngine};
use crate::{
    BestPathQuery, ContentHash, DatabaseLocation, GraphRecord, ImplementationRecord, MeasuredPath, StoreError,
    StoreListing, StoreRecord, TraceRecord, WorkloadRecord,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A connection to a benchmark database, of one process and one thread: each thread opens its own. After a fork the
/// child's calls open a connection of the child's.
pub trait Store: StoreListing + Send {
    /// Writes records in one transaction: all of them are in the database when this returns, or none. What is there
    /// already is not written again.
    ///
    /// # Errors
    ///
    /// If a record is not valid, refers to one that is neither in the database nor before it, or the database fails.
    fn put(&mut self, records: &[StoreRecord]) -> Result<PutCounts, StoreError>;

    /// Returns the graphs whose bits or whose mathematics have a hash.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn graphs_of(&mut self, hash: &ContentHash) -> Result<Vec<GraphRecord>, StoreError>;

    /// Returns an implementation of a graph.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn implementation(
        &mut self,
        graph: &ContentHash,
        hash: &ContentHash,
    ) -> Result<Option<ImplementationRecord>, StoreError>;

    /// Returns measurements with their samples, the newest first.
    ///
    /// # Errors
    ///
    /// If the database fails, or samples are damaged.
    fn traces(&mut self, filter: &TraceFilter) -> Result<Vec<TraceRecord>, StoreError>;

    /// Returns what is measured of a graph with a workload in the query's environment, the newest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn measured(&mut self, query: &BestPathQuery, workload: &ContentHash) -> Result<Vec<MeasuredPath>, StoreError>;

    /// Returns workloads of the query's graph that have been measured in its environment, the newest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn measured_workloads(&mut self, query: &BestPathQuery) -> Result<Vec<WorkloadRecord>, StoreError>;

    /// Returns environments in which the query's graph and workload have been measured, the newest measurement first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn measured_environments(&mut self, query: &BestPathQuery) -> Result<Vec<ContentHash>, StoreError>;

    /// Reads all records of one state of the database, each after those it refers to.
    ///
    /// # Errors
    ///
    /// If the database fails, or the callback does.
    fn for_each_record(
        &mut self,
        each: &mut dyn FnMut(StoreRecord) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Counts the rows of each table.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn counts(&mut self) -> Result<BTreeMap<&'static str, u64>, StoreError>;

    /// Returns a number that is another one after another connection has written measurements. Numbers of one connection can be
    /// compared, and this connection's own writes need not change it. It costs much less than a look-up.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn change_mark(&mut self) -> Result<i64, StoreError>;

    /// Counts the statements that this connection has run, from its opening on.
    fn n_statements(&self) -> u64;

    /// Returns which migrations the database has had.
    ///
    /// # Errors
    ///
    /// If the database fails, or was made by a newer program.
    fn schema(&mut self) -> Result<SchemaState, StoreError>;

    /// Reads everything and compares it with its hashes, checksums and summaries. The callback gets how many traces of
    /// how many are read.
    ///
    /// # Errors
    ///
    /// If the database fails in a way that keeps this from going on. What is found wrong is in the report.
    fn check(&mut self, each: &mut dyn FnMut(u64, u64)) -> Result<CheckReport, StoreError>;

    /// Adds work, and returns how many jobs are new or wait again.
    ///
    /// # Errors
    ///
    /// If a workload or environment is not in the database, or the database fails.
    fn add_jobs(&mut self, jobs: &[JobRequest]) -> Result<u64, StoreError>;

    /// Takes up to `n` jobs of an environment for so long: first those whose worker is gone, then the most urgent.
    /// Databases are not fair to workers, so that a worker takes several at once.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn lease(
        &mut self,
        environment: &ContentHash,
        owner: &str,
        n: usize,
        duration: Duration,
    ) -> Result<Vec<Job>, StoreError>;

    /// Keeps a job for so long from now.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] if it has passed to another worker; if the database fails.
    fn heartbeat(&mut self, job: &Job, duration: Duration) -> Result<(), StoreError>;

    /// Gives a job back.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseLost`] if it has passed to another worker; if the database fails.
    fn finish(&mut self, job: &Job, outcome: &LeaseOutcome) -> Result<(), StoreError>;

    /// Counts jobs by their state, of an environment or of all.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn job_counts(&mut self, environment: Option<&ContentHash>) -> Result<JobCounts, StoreError>;
}

/// Counts what has been put.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PutCounts {
    /// Records that were not in the database.
    pub n_new: u64,
    /// Records that were.
    pub n_known: u64,
}

/// Says which measurements are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceFilter {
    /// Takes those of this graph, by its `bits`.
    pub graph: ContentHash,
    /// Takes those with this workload.
    pub workload: Option<ContentHash>,
    /// Takes those in this environment.
    pub environment: Option<ContentHash>,
    /// Takes at most so many; all if none.
    pub limit: Option<u64>,
}

/// Reports what a check has found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Counts the rows of each table.
    pub counts: BTreeMap<&'static str, u64>,
    /// Says what is wrong; the first hundred findings.
    pub problems: Vec<String>,
}

/// Work to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRequest {
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The workload's hash.
    pub workload: ContentHash,
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The measurement policy.
    pub policy: String,
    /// Larger is more urgent.
    pub priority: i64,
    /// A job that workers were lost with so often is given up.
    pub max_attempts: u32,
    /// True to have it done again where it is finished.
    pub is_repeated: bool,
}

/// A job that a worker has.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its number in the database.
    pub id: i64,
    /// The fencing token: who shows an older one has lost the job.
    pub token: i64,
    /// Counts the leases of it, this one among them.
    pub n_attempts: u64,
    /// The measurement policy.
    pub policy: String,
    /// The graph with its text.
    pub graph: GraphRecord,
    /// The arguments.
    pub workload: WorkloadRecord,
}

/// Says how a worker gives a job back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseOutcome {
    /// It is done.
    Done,
    /// It failed. It is tried again as often as it may be.
    Failed {
        /// Says why.
        reason: String,
    },
    /// The worker stops. The attempt does not count.
    Returned,
}

/// Counts jobs by their state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct JobCounts {
    /// Nobody has them.
    pub n_waiting: u64,
    /// A worker has them, or is gone.
    pub n_leased: u64,
    /// They are done.
    pub n_done: u64,
    /// They are given up.
    pub n_failed: u64,
}

/// Opens a database that is there.
///
/// # Errors
///
/// If there is none, it cannot be opened, or its schema is older or newer than this program's.
///
/// ```
/// use polyloom_store::{DatabaseLocation, StoreError, create, open};
///
/// let folder = tempfile::tempdir().unwrap();
/// let place = DatabaseLocation::Sqlite(folder.path().join("benchmarks.db"));
/// assert!(matches!(open(&place), Err(StoreError::Missing { .. })));
/// create(&place).unwrap();
/// assert_eq!(open(&place).unwrap().counts().unwrap()["benchmark_traces"], 0);
/// ```
pub fn open(location: &DatabaseLocation) -> Result<Box<dyn Store>, StoreError> {
    Ok(match location {
        DatabaseLocation::Sqlite(path) => Box::new(SqlStore::new(SqliteEngine::open(path, FileAccess::ReadWrite)?)?),
        DatabaseLocation::Postgres(url) => Box::new(SqlStore::new(PostgresEngine::open(url, false)?)?),
    })
}

/// Opens a database that is there, to read.
///
/// # Errors
///
/// They are those of [`open`].
pub fn open_read_only(location: &DatabaseLocation) -> Result<Box<dyn Store>, StoreError> {
    Ok(match location {
        DatabaseLocation::Sqlite(path) => Box::new(SqlStore::new(SqliteEngine::open(path, FileAccess::ReadOnly)?)?),
        DatabaseLocation::Postgres(url) => Box::new(SqlStore::new(PostgresEngine::open(url, true)?)?),
    })
}

/// Makes a database, or migrates one that is there, and opens it. A PostgreSQL server must have the database itself.
///
/// # Errors
///
/// If it cannot be made or migrated.
pub fn create(location: &DatabaseLocation) -> Result<Box<dyn Store>, StoreError> {
    Ok(match location {
        DatabaseLocation::Sqlite(path) => Box::new(migrate_and_verify(SqliteEngine::open(path, FileAccess::Create)?)?),
        DatabaseLocation::Postgres(url) => Box::new(migrate_and_verify(PostgresEngine::open(url, false)?)?),
    })
}

fn migrate_and_verify<E: SqlEngine>(mut engine: E) -> Result<SqlStore<E>, StoreError> {
    let known = engine.migrations().len() as i64;
    if migration::state(&mut engine)?.version < known {
        migration::migrate(&mut engine, known)?;
    }
    SqlStore::new(engine)
}

/// Brings a database that is there to this program's schema, and returns how many migrations that took.
///
/// # Errors
///
/// If there is none, or it cannot be migrated.
pub fn migrate(location: &DatabaseLocation) -> Result<i64, StoreError> {
    fn run(mut engine: impl SqlEngine) -> Result<i64, StoreError> {
        match migration::state(&mut engine)? {
            SchemaState { version: 0, .. } => Err(StoreError::Missing { location: engine.location() }),
            SchemaState { known, .. } => migration::migrate(&mut engine, known),
        }
    }
    match location {
        DatabaseLocation::Sqlite(path) => run(SqliteEngine::open(path, FileAccess::ReadWrite)?),
        DatabaseLocation::Postgres(url) => run(PostgresEngine::open(url, false)?),
    }
}
