//! Tests of the facade and of the workspace as a whole.

mod policy;
