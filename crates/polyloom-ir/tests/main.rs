//! What the crate promises, tested through its public interface.

mod text;
mod uniformity;
mod verify;
