//! Branches and loops.

mod branches;
mod loops;
mod series;

pub(super) use branches::branches;
pub(super) use loops::loops;
