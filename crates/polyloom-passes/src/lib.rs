//! Analyses and transformations of HIR.
//!
//! Between the front end and a back end a kernel goes through [`pipeline::prepare`]: checks are put in or assertions
//! taken out, library ops and calls are replaced by their definitions, negative indices are made explicit, and the
//! result is simplified. Each step is a [`FunctionPass`] of [`PASSES`], by whose names file tests run them one by one.
//!
//! Architecture invariant: nothing here knows a front end, a back end or the runtime. A pass takes verified HIR and
//! leaves verified HIR that computes the same bits. The exceptions say so: `insert_checks` and `strip_asserts` change
//! which launches end early, and `dce` drops loops that compute nothing, endless ones too.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod autodiff;
mod edit;
pub mod fusion;
pub mod pass;
pub mod pipeline;
pub mod text;
pub mod transform;

pub use analysis::canonical::{canonical_hash, structure_hash};
pub use pass::{FunctionPass, PASSES, PassContext};
pub use pipeline::{PipelineOptions, prepare, prepared};
