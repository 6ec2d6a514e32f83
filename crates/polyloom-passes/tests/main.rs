//! Tests of the passes: what goes in, what comes out, and that both compute the same.

mod library;
mod limits;
mod pipeline;
mod semantics;
