//! Tests of the runtime through its public interface.
//!
//! Most back ends here are [`fake`]: their machine code is Rust functions that know the argument block of the one
//! kernel they stand for, so that the runtime is tested apart from code generation. `compiled` runs real code.

mod arguments;
mod caching;
mod candidates;
mod compiled;
mod concurrency;
mod fake;
mod launches;
mod printing;
mod tiers;
mod variants;
