//! Copies of tiles of tensors, between global memory, where a tensor map says how a tensor lies, and shared memory,
//! where a tile lies without gaps. A copy is done when it begins, as other asynchronous copies are.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion, LaneGroup};
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{BulkEnd, DecodedInst, MemoryOrder, OrderScope, TensorCopy};
use crate::decode::tensor_update;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use crate::tensor_map::{TENSOR_MAP_BYTES, TensorMap, TensorSwizzle};

/// Bytes that swizzles move as a whole.
const PIECE: usize = 16;
/// Bytes of a line of shared memory, to multiples of which tiles are aligned.
const LINE: u32 = 128;

/// A run of bytes of a tile that lies in the tensor.
struct TensorRun {
    /// Where it begins in global memory.
    address: u64,
    /// Where it begins among the bytes of the tile.
    offset: usize,
    n_bytes: usize,
}

/// The runs of a tile that begins at these coordinates.
fn runs(map: &TensorMap, coordinates: &[i32]) -> Vec<TensorRun> {
    let counts = map.counts();
    let size = map.element.n_bytes() as usize;
    let is_inside = |axis: usize, at: i64| (0..map.extents[axis] as i64).contains(&at);
    let place = |axis: usize, index: u32| i64::from(coordinates[axis]) + i64::from(index) * i64::from(map.steps[axis]);
    let n_rows: u32 = counts[1..].iter().product();
    let mut runs = Vec::new();
    for row in 0..n_rows {
        let (mut rest, mut start, mut inside) = (row, map.address, true);
        for (axis, count) in counts.iter().enumerate().skip(1) {
            let at = place(axis, rest % count);
            rest /= count;
            inside &= is_inside(axis, at);
            start = start.wrapping_add_signed(at.wrapping_mul(map.strides[axis - 1] as i64));
        }
        if !inside {
            continue;
        }
        for index in (0..counts[0]).filter(|index| is_inside(0, place(0, *index))) {
            let address = start.wrapping_add_signed(place(0, index) * size as i64);
            let offset = (row * counts[0] + index) as usize * size;
            match runs.last_mut() {
                Some(TensorRun { address: first, offset: begin, n_bytes })
                    if *first + *n_bytes as u64 == address && *begin + *n_bytes == offset =>
                {
                    *n_bytes += size;
                }
                _ => runs.push(TensorRun { address, offset, n_bytes: size }),
            }
        }
    }
    runs
}

impl WarpRun {
    pub(super) fn tensor_copy(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        copy: &TensorCopy,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let maps = self.addresses(&copy.map);
        let shared = self.addresses(&copy.shared);
        let coordinates: Vec<[u32; LANES]> = copy.coordinates.iter().map(|each| *each.get(&self.registers)).collect();
        let blocks = copy.blocks.as_ref().map(|blocks| *blocks.get(&self.registers));
        for lane in lanes_of(lanes) {
            let map = self.tensor_map(context, block, inst, &maps, lane)?;
            if map.extents.len() != coordinates.len() {
                let (has, given) = (map.extents.len(), coordinates.len());
                let message = format!("the tensor has {has} axes, the copy {given} coordinates");
                return Err(self.finding(context, block, inst, FindingKind::InvalidTensorMap, &message, 1 << lane));
            }
            let coordinates: Vec<i32> = coordinates.iter().map(|each| each[lane] as i32).collect();
            let ranks =
                blocks.map(|blocks| lanes_of(blocks[lane] & 0xffff).map(|rank| rank as u32).collect::<Vec<_>>());
            let targets: Vec<Option<u32>> = ranks.map_or(vec![None], |ranks| ranks.into_iter().map(Some).collect());
            for rank in targets {
                let of_rank = |address| rank.map_or(address, |rank| context.map_shared(address, rank, false));
                let tile = of_rank(shared[lane]);
                match &copy.end {
                    BulkEnd::Group => {
                        self.tile_to_tensor(context, block, inst, copy, &map, (lane, tile, &coordinates))?
                    }
                    BulkEnd::MBarrier(address) => {
                        self.tile_from_tensor(context, block, inst, &map, (lane, tile, &coordinates))?;
                        let place = (Some(StateSpace::Shared), of_rank(self.addresses(address)[lane]));
                        self.complete_copy(context, block, inst, place, (lane, map.tile_bytes()))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The map that lies at a lane's address.
    fn tensor_map(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        addresses: &[u64; LANES],
        lane: usize,
    ) -> Result<TensorMap, Box<Finding>> {
        let whole = (TENSOR_MAP_BYTES as u32, 64);
        let group = self.locate(context, block, inst, None, addresses, 1 << lane, whole, AccessEffect::Read)?;
        let mut bytes = [0; TENSOR_MAP_BYTES];
        if group.place != AccessRegion::Nowhere {
            self.region(context, block, group.place).read(group.offsets[lane], &mut bytes);
        }
        TensorMap::from_bytes(&bytes).ok_or_else(|| {
            let message = format!("what lies at 0x{:x} is no tensor map", addresses[lane]);
            self.finding(context, block, inst, FindingKind::InvalidTensorMap, &message, 1 << lane)
        })
    }

    /// Where a tile lies in shared memory.
    fn locate_tile(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        map: &TensorMap,
        (lane, tile): (usize, u64),
        kind: AccessKind,
    ) -> Result<LaneGroup, Box<Finding>> {
        let bytes = match map.swizzle {
            TensorSwizzle::None => map.tile_bytes(),
            // Pieces are exchanged within whole lines.
            _ => map.tile_bytes().next_multiple_of(LINE),
        };
        let effect = if kind == AccessKind::AsyncWrite { AccessEffect::Write } else { AccessEffect::Read };
        let space = Some(StateSpace::Shared);
        let group = self.locate(context, block, inst, space, &[tile; LANES], 1 << lane, (bytes, LINE), effect)?;
        self.observe_run(context, block, inst, &group, (lane, map.tile_bytes() as usize), (kind, WEAK))?;
        Ok(group)
    }

    fn tile_from_tensor(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        map: &TensorMap,
        (lane, tile, coordinates): (usize, u64, &[i32]),
    ) -> Result<(), Box<Finding>> {
        let size = map.element.n_bytes();
        let mut bytes = map.fill().to_le_bytes()[..size as usize].repeat((map.tile_bytes() / size) as usize);
        for run in runs(map, coordinates) {
            let (global, addresses) = (Some(StateSpace::Global), [run.address; LANES]);
            let whole = (run.n_bytes as u32, size);
            let group = self.locate(context, block, inst, global, &addresses, 1 << lane, whole, AccessEffect::Read)?;
            self.observe_run(context, block, inst, &group, (lane, run.n_bytes), (AccessKind::AsyncRead, WEAK))?;
            if group.place != AccessRegion::Nowhere {
                let into = &mut bytes[run.offset..run.offset + run.n_bytes];
                self.region(context, block, group.place).read(group.offsets[lane], into);
            }
        }
        let group = self.locate_tile(context, block, inst, map, (lane, tile), AccessKind::AsyncWrite)?;
        if group.place != AccessRegion::Nowhere {
            let (region, start) = (self.region(context, block, group.place), group.offsets[lane]);
            for (index, piece) in bytes.chunks(PIECE).enumerate() {
                region.write(map.swizzle.place(start + PIECE * index), piece);
            }
        }
        Ok(())
    }

    fn tile_to_tensor(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        copy: &TensorCopy,
        map: &TensorMap,
        (lane, tile, coordinates): (usize, u64, &[i32]),
    ) -> Result<(), Box<Finding>> {
        let size = map.element.n_bytes();
        let update = match copy.reduction.map(|operation| (operation, tensor_update(operation, map.element))) {
            None => None,
            Some((_, Some(update))) => Some(update),
            Some((operation, None)) => {
                let message = format!("the tensor has elements of {:?}, which have no `.{operation}`", map.element);
                return Err(self.finding(context, block, inst, FindingKind::InvalidTensorMap, &message, 1 << lane));
            }
        };
        let group = self.locate_tile(context, block, inst, map, (lane, tile), AccessKind::AsyncRead)?;
        let mut bytes = vec![0; map.tile_bytes() as usize];
        if group.place != AccessRegion::Nowhere {
            let (region, start) = (self.region(context, block, group.place), group.offsets[lane]);
            for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
                region.read(map.swizzle.place(start + PIECE * index), piece);
            }
        }
        let (kind, order) = match update.is_some() {
            true => (AccessKind::Atomic, MemoryOrder { strong: true, scope: OrderScope::Device, ..WEAK }),
            false => (AccessKind::AsyncWrite, WEAK),
        };
        for run in runs(map, coordinates) {
            let (global, addresses) = (Some(StateSpace::Global), [run.address; LANES]);
            let whole = (run.n_bytes as u32, size);
            let group = self.locate(context, block, inst, global, &addresses, 1 << lane, whole, AccessEffect::Write)?;
            self.observe_run(context, block, inst, &group, (lane, run.n_bytes), (kind, order))?;
            if group.place == AccessRegion::Nowhere {
                continue;
            }
            let (region, start) = (self.region(context, block, group.place), group.offsets[lane]);
            let from = &bytes[run.offset..run.offset + run.n_bytes];
            match &update {
                None => region.write(start, from),
                Some(update) => {
                    for (index, element) in from.chunks_exact(size as usize).enumerate() {
                        let mut value = [0; 8];
                        value[..element.len()].copy_from_slice(element);
                        let value = u64::from_le_bytes(value);
                        region.update(start + index * size as usize, size, |old| update(old, value, 0));
                    }
                }
            }
        }
        Ok(())
    }
}
