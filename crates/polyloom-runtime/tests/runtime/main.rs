//! Tests of the runtime through its public interface.
//!
//! Back ends here are [`fake`]: their machine code is Rust functions that know the argument block of the one kernel
//! they stand for, so that the runtime is tested apart from code generation.

mod arguments;
mod fake;
mod launches;
