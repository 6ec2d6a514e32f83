//! Facts about HIR that passes and callers ask for. Analyses never change what they look at.

pub mod canonical;
pub mod exits;
pub mod launch_bounds;
pub mod range;
