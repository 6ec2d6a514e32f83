//! Tests of the facade and of the workspace as a whole.

mod backward;
mod embedding;
mod examples;
mod policy;
mod stubs;
