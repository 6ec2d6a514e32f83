//! The planner: computations are known by what they compute, their paths measured, kept in the benchmark database, and chosen.
//!
//! ```text
//! Graph, layouts ──► PlannedComputation ── candidates ──► PathCandidate ── profile ──► TraceRecord ──► database
//!                          │                                                                              │
//!                          └────────────────────────── choose, by a PathPolicy ◄──────────────────────────┘
//! ```
//!
//! It stands between `polyloom-graph`, which describes paths and measures what implements a trait, and `polyloom-store`, which keeps
//! texts and hashes: neither knows the other. Paths run by [`crate::executor`]. Nothing here knows Python; libraries of arrays come
//! through [`crate::executor::ArrayLibrary`].
//!
//! Design: `docs/design/paths.md`, `recipes.md`, `measuring.md`, `benchmark-database.md` and `executor.md`.

mod calibrate;
mod candidates;
mod choose;
mod computation;
mod database;
mod fitting;
mod offline;
mod profile;
mod tuning;

pub use calibrate::{calibrate, costs_file, machine_costs};
pub use candidates::{CandidateList, PathCandidate, candidates, default_recipe, describe_path};
pub use choose::{DecisionReason, PathDecision, PathPolicy, PolicyMode, choose_by_costs, choose_measured};
pub use computation::PlannedComputation;
pub use database::{DatabaseAccess, PlannerDatabase};
pub use fitting::{computations_of, fit_recipe};
pub use offline::{OfflineProgress, OfflineSettings, StoredComputation, profile_offline, stored_computation};
pub use polyloom_store as store;
pub use profile::{CompiledCandidate, ProfileSettings, ProfiledPath, compile_candidate, profile, traces_of};
pub use tuning::parameter_variants;
