//! Transformations of HIR, one a file. [`crate::PASSES`] lists them.

pub mod dce;
pub mod expand_library;
pub mod inline;
pub mod normalize_indices;
pub mod strip_asserts;
