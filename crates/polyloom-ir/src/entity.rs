//! The handles by which IR nodes name each other.
//!
//! Nodes never hold references to nodes: a [`Value`] is an index into its function's value arena, and so on.
//! Handles are only meaningful together with the function (or module) they came from.

use cranelift_entity::entity_impl;

/// An SSA value: a region parameter or the result of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction. Instructions that own regions also serve as the label that `break` and `continue` name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A list of instructions with parameters, ended by a terminator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(u32);
entity_impl!(Region, "region");

/// A function of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(u32);
entity_impl!(FuncId, "func");
