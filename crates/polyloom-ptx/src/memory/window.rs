//! Where the state spaces lie among generic addresses.
//!
//! PTX leaves the windows to the machine. They are far apart here and from small integers, so that a wrong address is
//! recognised as such, and a generic address says which space it is of by its upper bits alone.

use crate::syntax::ast::StateSpace;

const SHIFT: u32 = 40;
const SHARED: u64 = 0x70;
const LOCAL: u64 = 0x71;
const PARAM: u64 = 0x72;
/// Functions have addresses, but nothing to read there.
pub(crate) const FUNCTIONS: u64 = 0x73 << SHIFT;
/// The place where allocations of global memory begin. Constants are global memory that only `.const` accesses are told
/// apart by.
pub(crate) const GLOBAL: u64 = 0x7f << SHIFT;

/// Bytes at the start of a block's shared memory that are the system's; the program's variables come after them, as on
/// GPUs since `sm_80`.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// The generic address of the first byte of `space`; zero for spaces whose addresses are generic ones already.
pub(crate) fn base(space: StateSpace) -> u64 {
    match space {
        StateSpace::Shared => SHARED << SHIFT,
        StateSpace::Local => LOCAL << SHIFT,
        StateSpace::Param => PARAM << SHIFT,
        StateSpace::Global | StateSpace::Const | StateSpace::Reg => 0,
    }
}

/// The space a generic address is of.
pub(crate) fn space_of(address: u64) -> StateSpace {
    match address >> SHIFT {
        SHARED => StateSpace::Shared,
        LOCAL => StateSpace::Local,
        PARAM => StateSpace::Param,
        _ => StateSpace::Global,
    }
}
