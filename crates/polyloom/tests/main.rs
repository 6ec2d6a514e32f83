//! Tests of the facade and of the workspace as a whole.

mod artifacts;
mod backward;
mod bound_launch;
mod code_bytes;
mod embedding;
mod examples;
mod executor;
mod fusion_plans;
mod native_functions;
#[cfg(feature = "planner")]
mod planner;
mod plans;
mod policy;
mod stubs;
#[cfg(feature = "_compute")]
mod tasks;
