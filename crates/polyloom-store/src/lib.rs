//! The benchmark database: every measurement of every way to run a computation, and what follows from them.
//!
//! ```
//! use polyloom_store::{DatabaseLocation, GraphRecord, ContentHash, create};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let place = DatabaseLocation::Sqlite(folder.path().join("benchmarks.db"));
//! let mut store = create(&place).unwrap();
//! let text = "add(x, y)".to_owned();
//! let bits = ContentHash::of(text.as_bytes());
//! let graph = GraphRecord { bits, mathematics: bits, mathematics_text: text.clone(), text };
//! assert_eq!(store.put(&[graph.clone().into()]).unwrap().n_new, 1);
//! assert_eq!(store.graphs_of(&bits).unwrap(), [graph]);
//! ```
//!
//! A planner writes [records](StoreRecord) of graphs, recipes, workloads and measurements, and asks for the
//! [best path](best_path). Choices are derived from measurements and stored nowhere. The crate knows no planner: graphs
//! are texts and hashes to it, and recipes JSON.

#![forbid(unsafe_code)]

mod choice;
mod content_hash;
mod error;
mod exchange;
mod kernel_tuner;
mod listing;
mod location;
mod lookup;
mod machine;
mod migration;
mod record;
mod samples;
mod sql;
mod store;

pub use choice::{ChoiceReason, MeasuredPath, PathVerdict};
pub use content_hash::{ContentHash, ContentHashError};
pub use error::StoreError;
pub use exchange::{export_jsonl, import_jsonl};
pub use kernel_tuner::{TunerFile, TunerFormat, export_for_tuners};
pub use listing::{
    EnvironmentSummary, GraphSummary, JobState, JobSummary, MeasurementPlace, SessionSummary, StoreListing, TextCursor,
    WorkloadSummary,
};
pub use location::DatabaseLocation;
pub use lookup::{BestPath, BestPathCache, BestPathKey, BestPathQuery, PathChoice, RankedPath, best_path, rank_paths};
pub use machine::{CacheFacts, CpuFacts, GpuFacts, MachineFacts, SystemFacts};
pub use migration::SchemaState;
pub use record::{
    EnvironmentRecord, GraphRecord, ImplementationRecord, PathIdentity, StoreRecord, TraceObservations, TraceRecord,
    TraceStatus, WorkloadArgument, WorkloadRecord,
};
pub use samples::SampleSummary;
pub use store::{
    CheckReport, Job, JobCounts, JobRequest, LeaseOutcome, PutCounts, Store, TraceFilter, create, migrate, open,
    open_read_only,
};
