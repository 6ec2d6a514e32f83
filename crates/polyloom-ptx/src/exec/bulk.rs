//! `cp.async.bulk`: a lane copies a run of bytes, or reduces with it. The copy is done when it begins; the checks know
//! until when the program may not count on that.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion, LaneAccess, LaneGroup};
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{AsyncAccess, AsyncAccessKind, BulkCopy, BulkEnd, DecodedInst, MemoryOrder, OrderScope};
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
        for lane in lanes_of(lanes) {
            let size = sizes[lane];
            if !size.is_multiple_of(PIECE) {
                let message = format!("a bulk copy of {size} bytes, which is no multiple of {PIECE}");
                return Err(self.finding(context, block, inst, FindingKind::Misaligned, &message, 1 << lane));
            }
            // Where a mask names blocks, each gets the bytes at the same place, and its mbarrier there is told.
            let ranks =
                blocks.map(|blocks| lanes_of(blocks[lane] & 0xffff).map(|rank| rank as u32).collect::<Vec<_>>());
            let targets: Vec<Option<u32>> = ranks.map_or(vec![None], |ranks| ranks.into_iter().map(Some).collect());
            for rank in targets {
                let of_rank = |address| rank.map_or(address, |rank| context.map_shared(address, rank, false));
                let mut to = to;
                to[lane] = of_rank(to[lane]);
                if size > 0 {
                    self.bulk_bytes(context, block, inst, copy, (to, from), (lane, size, masks[lane]))?;
                }
                if let BulkEnd::MBarrier(address) = &copy.end {
                    let place = (Some(StateSpace::Shared), of_rank(self.addresses(address)[lane]));
                    self.complete_copy(context, block, inst, place, (lane, size))?;
                }
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
            self.observe_run(context, block, inst, group, (lane, size as usize), (kind, order))?;
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
    /// A lane's run of bytes is about to be accessed.
    pub(super) fn observe_run(
        &self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        group: &LaneGroup,
        (lane, n_bytes): (usize, usize),
        (kind, order): (AccessKind, MemoryOrder),
    ) -> Result<(), Box<Finding>> {
        if context.counting {
            block.observe_rows(context, group.place, kind, &[group.offsets[lane]], n_bytes);
        }
        if !context.observing {
            return Ok(());
        }
        // The checks see pieces that are aligned to their sizes.
        let size = (group.offsets[lane] | n_bytes | PIECE as usize).trailing_zeros();
        let size = 1 << size;
        let mut piece = LaneGroup { lanes: 1 << lane, place: group.place, offsets: group.offsets };
        for _ in 0..n_bytes / size {
            let access = LaneAccess { inst, kind, group: &piece, size: size as u32, order, stored: None, copied: 0 };
            block.check(context, self, &access)?;
            piece.offsets[lane] += size;
        }
        Ok(())
    }

    /// `st.async` and `red.async`
    pub(super) fn async_access(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        access: &AsyncAccess,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        match &access.access {
            AsyncAccessKind::Store(store) => self.store(context, block, inst, store, lanes)?,
            AsyncAccessKind::Update(atomic) => self.atomic(context, block, inst, atomic, lanes)?,
        }
        let barriers = self.addresses(&access.barrier);
        for lane in lanes_of(lanes) {
            let place = (Some(StateSpace::Shared), barriers[lane]);
            self.complete_copy(context, block, inst, place, (lane, access.n_bytes))?;
        }
        Ok(())
    }
}
