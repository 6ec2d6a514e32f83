//! PTX as text: tokens, syntax tree, parser and printer.
//!
//! Nothing here knows what an instruction does: an opcode is a name with modifiers, an operand one of a few shapes. So
//! the parser and printer take instructions the simulator cannot run, and `decode` alone says what those are.

pub mod ast;
mod constant;
mod lexer;
mod parser;
mod print;
mod statement;

pub(crate) use parser::parse;

/// Says how deep blocks and parentheses may nest, because the parser recurses, and its input may come from anywhere.
pub(crate) const MAX_DEPTH: usize = 64;

/// Number of errors a parse reports before it gives up.
pub(crate) const MAX_ERRORS: usize = 20;
