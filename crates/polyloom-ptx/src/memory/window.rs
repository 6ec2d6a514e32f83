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
/// Handles of textures and surfaces begin here, so that an access of one as an address is to no memory.
pub(crate) const TEXTURES: u64 = 0x74 << SHIFT;
pub(crate) const SURFACES: u64 = 0x75 << SHIFT;
/// The place where allocations of global memory begin. Constants are global memory that only `.const` accesses are told
/// apart by.
pub(crate) const GLOBAL: u64 = 0x7f << SHIFT;

/// Bytes at the start of a block's shared memory that are the system's; the program's variables come after them, as on
/// GPUs since `sm_80`.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// The bit at which the number of a block among those of its cluster begins in an address of shared memory: zero for
/// the own block, and one more than its rank for every block in addresses that `mapa` gives.
const RANK_SHIFT: u32 = 24;
const RANK_BITS: u64 = 0xff << RANK_SHIFT;

/// The address of a byte of shared memory as that of the block of this rank.
pub(crate) fn of_rank(address: u64, rank: u32) -> u64 {
    address & !RANK_BITS | (u64::from(rank) + 1) << RANK_SHIFT & RANK_BITS
}

/// The rank of the block that an address of shared memory names, if it names one.
pub(crate) fn rank(address: u64) -> Option<u32> {
    ((address & RANK_BITS) >> RANK_SHIFT).checked_sub(1).map(|rank| rank as u32)
}

/// An address of shared memory that names no block.
pub(crate) fn without_rank(address: u64) -> u64 {
    address & !RANK_BITS
}

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
