//! The LLVM back end against the definition of HIR, and what its code looks like.

mod candidates;
mod code;
mod conformance;
mod gpu;
mod latency;
mod ops;
#[path = "../../../polyloom-ptx/tests/ptxas.rs"]
mod ptxas;
mod regressions;
mod simulator;
