//! Transformations of HIR, one a file. [`crate::PASSES`] lists them.

pub mod blocks;
pub mod cpu_ops;
pub mod cse;
pub mod dce;
pub mod early_exits;
pub mod expand_library;
pub mod fold;
pub mod if_convert;
pub mod in_double;
pub mod inline;
pub mod insert_checks;
pub mod known_conditions;
pub mod legalize_half;
pub mod licm;
pub mod normalize_indices;
pub mod scalarise;
pub mod strip_asserts;
