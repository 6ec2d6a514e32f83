//! Tests of the facade and of the workspace as a whole.

mod examples;
mod policy;
mod stubs;
