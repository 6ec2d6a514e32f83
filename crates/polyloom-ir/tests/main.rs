//! What the crate promises, tested through its public interface.

mod random_module;
mod text;
mod verify;
