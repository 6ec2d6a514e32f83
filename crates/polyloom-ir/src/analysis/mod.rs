//! Facts about HIR that the verifier, passes and back ends ask for. Analyses never change what they look at.
//!
//! Those that no more than passes need are in `polyloom-passes/src/analysis`.

pub mod affine;
pub mod effects;
pub mod interval;
pub mod range;
pub mod uniformity;
