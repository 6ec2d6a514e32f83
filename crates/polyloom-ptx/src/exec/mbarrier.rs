//! `mbarrier`: phases that end when all arrivals and bytes that were expected have come (PTX ISA 9.0 §9.7.13.15).
//!
//! The 64 bits of the object are the machine's. Here bit 63 is the parity of the phase, bits 0 to 19 the count each
//! phase begins with, bits 20 to 39 what is still to arrive, bits 40 to 62 the bytes still to come, plus 2^22.

use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::AccessKind;
use super::registers::lanes_of;
use super::warp::WarpRun;
use crate::decode::op::{AnySource, DecodedInst, MBarrier, MBarrierKind};
use crate::memory::window;
use crate::report::Finding;
use crate::syntax::ast::StateSpace;

const COUNT: u64 = (1 << 20) - 1;
const PHASE: u64 = 1 << 63;
const BYTES: u64 = (1 << 23) - 1;
const NO_BYTES: u64 = 1 << 22;

/// Returns what is still to arrive in the phase of a state.
pub(crate) fn pending(state: u64) -> u32 {
    (state >> 20 & COUNT) as u32
}

fn pack(phase: u64, expected: u64, pending: u64, bytes: u64) -> u64 {
    phase | (bytes & BYTES) << 40 | (pending & COUNT) << 20 | expected & COUNT
}

/// A barrier after `arrived` arrivals, of which `dropped` do not come again, and `bytes` more (or fewer) to come.
fn advance(state: u64, arrived: u64, dropped: u64, bytes: i64) -> u64 {
    let expected = (state & COUNT).wrapping_sub(dropped) & COUNT;
    let left = (state >> 20 & COUNT).wrapping_sub(arrived) & COUNT;
    let bytes = (state >> 40 & BYTES).wrapping_add_signed(bytes) & BYTES;
    if left == 0 && bytes == NO_BYTES {
        pack(state & PHASE ^ PHASE, expected, expected, NO_BYTES)
    } else {
        pack(state & PHASE, expected, left, bytes)
    }
}

/// Returns true if an update of a barrier ends its phase.
fn ends_phase(before: u64, after: u64) -> bool {
    (before ^ after) & PHASE != 0
}

impl BlockState {
    /// What the checks know an mbarrier by: its place in the cluster's shared memory, whether its address was generic
    /// or not.
    fn mbarrier_key(&self, context: &GridContext<'_>, (space, address): (Option<StateSpace>, u64)) -> u64 {
        let address = address.wrapping_sub(if space.is_none() { window::base(StateSpace::Shared) } else { 0 });
        let named = window::rank(address).filter(|_| context.cluster_blocks > 1);
        window::of_rank(address, named.unwrap_or(self.rank))
    }
}

impl WarpRun {
    pub(super) fn mbarrier(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        barrier: &MBarrier,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let addresses = self.addresses(&barrier.address);
        for lane in lanes_of(lanes) {
            let place = (barrier.space, addresses[lane]);
            let key = block.mbarrier_key(context, place);
            let alone = 1 << lane;
            match &barrier.kind {
                MBarrierKind::Init(count) => {
                    let count = u64::from(count.get(&self.registers)[lane]);
                    self.update_one(context, block, inst, place, (lane, AccessKind::Write), |_| {
                        pack(0, count, count, NO_BYTES)
                    })?;
                    block.observe_mbarrier(key);
                }
                MBarrierKind::Invalidate => {
                    self.update_one(context, block, inst, place, (lane, AccessKind::Write), |_| 0)?;
                    block.observe_mbarrier(key);
                }
                MBarrierKind::Arrive { state, count, expected, drop } => {
                    let count = u64::from(count.get(&self.registers)[lane]);
                    let bytes = expected.as_ref().map_or(0, |bytes| i64::from(bytes.get(&self.registers)[lane]));
                    let dropped = if *drop { count } else { 0 };
                    let update = |state| advance(state, count, dropped, bytes);
                    let before = self.update_one(context, block, inst, place, (lane, AccessKind::Atomic), update)?;
                    let completes = ends_phase(before, update(before));
                    block.observe_mbarrier_arrival(key, Some((self.index, lane)), completes);
                    self.write(*state, &[before; 32], alone);
                }
                MBarrierKind::ArriveAfterCopies { counts } => {
                    // Copies are done when they begin. An arrival that adds itself to those expected changes nothing.
                    let arrived = u64::from(*counts);
                    let kind = (lane, AccessKind::Atomic);
                    let update = |state| advance(state, arrived, 0, 0);
                    let before = self.update_one(context, block, inst, place, kind, update)?;
                    let completes = ends_phase(before, update(before));
                    block.observe_mbarrier_arrival(key, Some((self.index, lane)), completes);
                    block.observe_copies_arrive(self.index, lane, key, before & PHASE != 0);
                }
                MBarrierKind::ExpectBytes(bytes) => {
                    let bytes = i64::from(bytes.get(&self.registers)[lane]);
                    self.count_bytes(context, block, inst, place, lane, bytes)?;
                }
                MBarrierKind::CompleteBytes(bytes) => {
                    let bytes = -i64::from(bytes.get(&self.registers)[lane]);
                    self.count_bytes(context, block, inst, place, lane, bytes)?;
                }
                MBarrierKind::Test { done, state, parity } => {
                    let now = self.update_one(context, block, inst, place, (lane, AccessKind::Read), |state| state)?;
                    let asked = match state {
                        AnySource::Word(source) => u64::from(source.get(&self.registers)[lane]),
                        AnySource::Double(source) => source.get(&self.registers)[lane],
                    };
                    let asked = if *parity { asked << 63 } else { asked & PHASE };
                    let over = now & PHASE != asked;
                    if over {
                        block.observe_phase_end(self.index, lane, key, asked != 0);
                    }
                    self.registers.set_predicate(*done, if over { !0 } else { 0 }, alone);
                }
            }
        }
        Ok(())
    }
    /// So many bytes more, or fewer, are to come in the phase.
    fn count_bytes(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        place: (Option<StateSpace>, u64),
        lane: usize,
        bytes: i64,
    ) -> Result<(), Box<Finding>> {
        let update = |state| advance(state, 0, 0, bytes);
        let before = self.update_one(context, block, inst, place, (lane, AccessKind::Atomic), update)?;
        let key = block.mbarrier_key(context, place);
        block.observe_mbarrier_arrival(key, None, ends_phase(before, update(before)));
        Ok(())
    }
    /// A bulk copy of a lane is done: the barrier gets its bytes, and those that wait for the phase what it wrote.
    pub(super) fn complete_copy(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        place: (Option<StateSpace>, u64),
        (lane, size): (usize, u32),
    ) -> Result<(), Box<Finding>> {
        let update = |state| advance(state, 0, 0, -i64::from(size));
        let before = self.update_one(context, block, inst, place, (lane, AccessKind::Atomic), update)?;
        let (barrier, completes) = (block.mbarrier_key(context, place), ends_phase(before, update(before)));
        block.observe_bulk_phase(self.index, lane, barrier, before & PHASE != 0);
        block.observe_mbarrier_arrival(barrier, Some((self.index, lane)), completes);
        Ok(())
    }
}
