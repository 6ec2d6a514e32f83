//! `.loom`: Polyloom's own kernel language.
//!
//! ```text
//! .loom text ── lex ──► tokens ── parse ──► syntax tree ── elaborate ──► Python's syntax tree + programs
//!                                                                              │
//!                                                            check, lower ◄────┘  as of `.py` files
//! ```
//!
//! Loops are the algorithm. The outermost `for` of a kernel is launched over a grid, after [`parallel`] has proved that
//! its iterations do not meet; [`program`] says how large grids and results are for the arguments of a call.
//!
//! Design: `docs/design/loom.md`.

mod affine;
mod elaborate;
mod format;
mod from_python;
mod kind;
mod lexer;
mod parallel;
mod parse;
mod product;
pub(crate) mod program;
mod python_nodes;
mod reduction;
mod scan;
mod staging;
mod syntax;
mod token;
mod types;
mod unit;
mod wording;

pub(crate) use elaborate::{ANY, ElaboratedFunction};
pub use format::format_loom;
pub use from_python::loom_of_python;
pub(crate) use python_nodes::PACKAGE;
pub(crate) use types::scalar;
pub use unit::ImportLoader;
pub(crate) use unit::{LoomUnit, read};
pub(crate) use wording::in_loom;
