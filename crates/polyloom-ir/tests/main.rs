//! What the crate promises, tested through its public interface.

mod math;
mod text;
mod uniformity;
mod verify;
