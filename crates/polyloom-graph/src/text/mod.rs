//! The text form of graphs: one value a line.
//!
//! ```text
//! %0 = input "x" : f32[n, 3]
//! %1 = constant 2.0 : f32[]
//! %2 = multiply %0, %1 : f32[n, 3]
//! %3 = sum %2, axes=(1), keepdims=false : f32[n]
//! return %3
//! ```
//!
//! `Display` writes all attributes and types. A text to be read may leave out attributes that have defaults and types
//! of ops, and may have numbers for operands, which are Python numbers.

mod parse;
mod print;

pub use parse::parse_graph;
pub(crate) use parse::split_list;
pub(crate) use print::number_text;
