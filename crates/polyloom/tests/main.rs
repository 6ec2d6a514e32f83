//! Tests of the facade and of the workspace as a whole.

mod backward;
mod bound_launch;
mod code_bytes;
mod embedding;
mod examples;
mod fusion_plans;
mod plans;
mod policy;
mod stubs;
