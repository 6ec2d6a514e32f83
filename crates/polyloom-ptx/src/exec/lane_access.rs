//! An access of some lanes of a warp to one region of memory, as the checks and counters see it.

use super::registers::LANES;
use crate::decode::op::{DecodedInst, MemoryOrder};
/// Describes what an access does, for the checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    Read,
    Write,
    Atomic,
    /// The source or destination of `cp.async`.
    AsyncRead,
    AsyncWrite,
}

/// Says which region the lanes of a group go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessRegion {
    Global(usize),
    Shared,
    /// The shared memory of another block of the cluster, by its rank.
    Peer(u32),
    Local,
    Param,
    /// Outside of all memory, where that is let pass.
    Nowhere,
}

/// Bytes that are nowhere, for each lane: as many as an access may have.
pub(super) const NOWHERE_BYTES: usize = 32;

/// Lanes whose accesses go to one region, at these offsets.
pub(crate) struct LaneGroup {
    pub(crate) lanes: u32,
    pub(crate) place: AccessRegion,
    pub(crate) offsets: [usize; LANES],
}

/// One access of some lanes, as checks and counters see it.
pub(crate) struct LaneAccess<'a> {
    pub(crate) inst: &'a DecodedInst,
    pub(crate) kind: AccessKind,
    pub(crate) group: &'a LaneGroup,
    /// Bytes a lane.
    pub(crate) size: u32,
    pub(crate) order: MemoryOrder,
    /// Holds what is stored, value by value, and the bytes of each.
    pub(crate) stored: Option<(&'a [[u64; LANES]], usize)>,
    /// A bit for each byte of a lane that is read to be copied, if at all.
    pub(crate) copied: u32,
}
