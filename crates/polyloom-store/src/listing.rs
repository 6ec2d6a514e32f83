//! Lists of what a database holds, for people who look at it. Look-ups need none of them: those are in [`Store`].

use crate::{ContentHash, EnvironmentRecord, GraphRecord, ImplementationRecord, StoreError, WorkloadArgument};

/// Lists rows in pages, with counts of what belongs to each.
pub trait StoreListing {
    /// Returns graphs, those that came last first; at most `limit` from `offset` on.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn graph_page(&mut self, offset: u64, limit: u64) -> Result<Vec<GraphSummary>, StoreError>;

    /// Returns one graph, by its `bits`, with what belongs to it.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn graph_summary(&mut self, graph: &ContentHash) -> Result<Option<GraphSummary>, StoreError>;

    /// Reads the canonical texts of graphs and the recipes of their default paths, with the `bits` of the graph, as far as they
    /// came after those that the cursor has passed. Whoever keeps an index of them reads each once.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn for_each_new_text(
        &mut self,
        cursor: &mut TextCursor,
        each: &mut dyn FnMut(ContentHash, &str),
    ) -> Result<(), StoreError>;

    /// Returns the recipes of a graph with the number of their measurements, defaults first; at most `limit`.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn implementations_of(
        &mut self,
        graph: &ContentHash,
        limit: u64,
    ) -> Result<Vec<(ImplementationRecord, u64)>, StoreError>;

    /// Returns the workloads of a graph, those that came last first, each with where it has been measured; at most
    /// `limit` from `offset` on.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn workloads_of(
        &mut self,
        graph: &ContentHash,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<WorkloadSummary>, StoreError>;

    /// Returns one workload of a graph with where it has been measured.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn workload(&mut self, graph: &ContentHash, workload: &ContentHash) -> Result<Option<WorkloadSummary>, StoreError>;

    /// Returns the sessions that the last `n_traces` measurements belong to, the newest first.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn newest_sessions(&mut self, n_traces: u64) -> Result<Vec<SessionSummary>, StoreError>;

    /// Returns an environment, by its fingerprint.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn environment(&mut self, fingerprint: &ContentHash) -> Result<Option<EnvironmentRecord>, StoreError>;

    /// Returns the environments with the number of their measurements and the time of the newest, for which all measurements
    /// are counted.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn environments(&mut self) -> Result<Vec<EnvironmentSummary>, StoreError>;

    /// Returns jobs in a state, those that came last first; at most `limit` from `offset` on.
    ///
    /// # Errors
    ///
    /// If the database fails.
    fn jobs(&mut self, state: JobState, offset: u64, limit: u64) -> Result<Vec<JobSummary>, StoreError>;
}

/// Remembers which texts have been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextCursor {
    /// The number of the last graph.
    pub(crate) graph: i64,
    /// The number of the last recipe.
    pub(crate) implementation: i64,
}

/// A graph with counts of what belongs to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphSummary {
    /// The graph.
    pub graph: GraphRecord,
    /// Counts its recipes.
    pub n_implementations: u64,
    /// Counts its workloads.
    pub n_workloads: u64,
    /// Counts its measurements.
    pub n_traces: u64,
    /// The time of the newest of them, in microseconds since 1970.
    pub measured_at: Option<i64>,
}

/// A workload with where it has been measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadSummary {
    /// Its hash.
    pub hash: ContentHash,
    /// The arguments in the graph's order.
    pub arguments: Vec<WorkloadArgument>,
    /// Says where and by which policies, the newest first.
    pub places: Vec<MeasurementPlace>,
}

/// An environment and a policy, in which a workload has been measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasurementPlace {
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The measurement policy.
    pub policy: String,
    /// Counts the measurements.
    pub n_traces: u64,
    /// Counts those that are not `ok`.
    pub n_failed: u64,
    /// The time of the newest, in microseconds since 1970.
    pub measured_at: i64,
}

/// The measurements of a session of one workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSummary {
    /// Its name.
    pub session: String,
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The workload's hash.
    pub workload: ContentHash,
    /// The arguments.
    pub arguments: Vec<WorkloadArgument>,
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The model of its CPU.
    pub cpu: String,
    /// The model of its first GPU.
    pub gpu: Option<String>,
    /// The measurement policy.
    pub policy: String,
    /// Counts the measurements.
    pub n_traces: u64,
    /// Counts those that are not `ok`.
    pub n_failed: u64,
    /// The time of the newest, in microseconds since 1970.
    pub measured_at: i64,
}

/// An environment with counts of what was measured there.
#[derive(Clone, PartialEq, Debug)]
pub struct EnvironmentSummary {
    /// The environment.
    pub environment: EnvironmentRecord,
    /// Counts its measurements.
    pub n_traces: u64,
    /// The time of the newest, in microseconds since 1970.
    pub measured_at: Option<i64>,
}

/// The state of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JobState {
    /// Nobody has it.
    Waiting,
    /// A worker has it, or is gone.
    Leased,
    /// It is done.
    Done,
    /// It is given up.
    Failed,
}

impl JobState {
    /// All of them, in the order of a job's life.
    pub const ALL: [JobState; 4] = [JobState::Leased, JobState::Waiting, JobState::Failed, JobState::Done];

    /// Returns the name that the database has for it.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Leased => "leased",
            JobState::Done => "done",
            JobState::Failed => "failed",
        }
    }
}

/// A job as it stands. Times are microseconds since 1970, by the clock of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSummary {
    /// Its number in the database.
    pub id: i64,
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The workload's hash.
    pub workload: ContentHash,
    /// The arguments.
    pub arguments: Vec<WorkloadArgument>,
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The measurement policy.
    pub policy: String,
    /// Larger is more urgent.
    pub priority: i64,
    /// Counts its leases.
    pub n_attempts: u64,
    /// It is given up after so many.
    pub max_attempts: u64,
    /// The worker that has it, or had it last.
    pub owner: Option<String>,
    /// The end of the lease.
    pub leased_until: Option<i64>,
    /// When it was added.
    pub created_at: i64,
    /// When it was done or given up.
    pub finished_at: Option<i64>,
    /// Says why it failed last.
    pub reason: Option<String>,
}
