//! `cp.async.bulk`: a lane copies a run of bytes, or reduces with it. The copy is done when it begins; the checks know
//! until when the program may not count on that.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion, LaneAccess};
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{BulkCopy, BulkEnd, DecodedInst, MemoryOrder, OrderScope};
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;

/// Holds what sizes and addresses are multiples of.
const PIECE: u32 = 16;

impl WarpRun {
    pub(super) fn bulk_copy(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        copy: &BulkCopy,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let (to, from) = (self.addresses(&copy.to), self.addresses(&copy.from));
        let sizes = *copy.size.get(&self.registers);
        let blocks = copy.blocks.as_ref().map(|blocks| *blocks.get(&self.registers));
        let masks = copy.bytes.as_ref().map_or([u32::MAX; LANES], |bytes| *bytes.get(&self.registers));
        // A cluster is one block, the first of those that a mask may name.
        let is_meant = |lane: &usize| blocks.is_none_or(|blocks| blocks[*lane] & 1 != 0);
        for lane in lanes_of(lanes).filter(is_meant) {
            let size = sizes[lane];
            if !size.is_multiple_of(PIECE) {
                let message = format!("a bulk copy of {size} bytes, which is no multiple of {PIECE}");
                return Err(self.finding(context, block, inst, FindingKind::Misaligned, &message, 1 << lane));
            }
            if size > 0 {
                self.bulk_bytes(context, block, inst, copy, (to, from), (lane, size, masks[lane]))?;
            }
            if let BulkEnd::MBarrier(address) = &copy.end {
                let place = (Some(StateSpace::Shared), self.addresses(address)[lane]);
                self.complete_copy(context, block, inst, place, (lane, size))?;
            }
        }
        Ok(())
    }

    fn bulk_bytes(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        copy: &BulkCopy,
        (to, from): ([u64; LANES], [u64; LANES]),
        (lane, size, mask): (usize, u32, u32),
    ) -> Result<(), Box<Finding>> {
        let mut bytes = vec![0; size as usize];
        let whole = (size, PIECE);
        let source =
            self.locate(context, block, inst, Some(copy.from_space), &from, 1 << lane, whole, AccessEffect::Read)?;
        let target =
            self.locate(context, block, inst, Some(copy.to_space), &to, 1 << lane, whole, AccessEffect::Write)?;
        let updates = copy.reduction.is_some();
        let (kind, order) = match updates {
            true => (AccessKind::Atomic, MemoryOrder { strong: true, scope: OrderScope::Device, ..WEAK }),
            false => (AccessKind::AsyncWrite, WEAK),
        };
        for (group, kind, order) in [(&source, AccessKind::AsyncRead, WEAK), (&target, kind, order)] {
            if context.counting {
                block.observe_rows(context, group.place, kind, &[group.offsets[lane]], size as usize);
            }
            if !context.observing {
                continue;
            }
            let mut piece =
                super::lane_access::LaneGroup { lanes: 1 << lane, place: group.place, offsets: group.offsets };
            for _ in 0..size / PIECE {
                let access = LaneAccess { inst, kind, group: &piece, size: PIECE, order, stored: None, copied: 0 };
                block.check(context, self, &access)?;
                piece.offsets[lane] += PIECE as usize;
            }
        }
        if source.place != AccessRegion::Nowhere {
            self.region(context, block, source.place).read(source.offsets[lane], &mut bytes);
        }
        if target.place == AccessRegion::Nowhere {
            return Ok(());
        }
        let (region, start) = (self.region(context, block, target.place), target.offsets[lane]);
        match &copy.reduction {
            Some(reduction) => {
                let n_bytes = reduction.size as usize;
                for (index, element) in bytes.chunks_exact(n_bytes).enumerate() {
                    let mut value = [0; 8];
                    value[..n_bytes].copy_from_slice(element);
                    let value = u64::from_le_bytes(value);
                    region.update(start + index * n_bytes, reduction.size, |old| (reduction.update)(old, value, 0));
                }
            }
            None if mask & 0xffff == 0xffff => region.write(start, &bytes),
            None => {
                let kept = bytes.iter().enumerate().filter(|(at, _)| mask >> (at % PIECE as usize) & 1 != 0);
                kept.for_each(|(at, byte)| region.store8(start + at, *byte));
            }
        }
        Ok(())
    }
}
