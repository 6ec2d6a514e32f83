//! Counting how accesses use memory: sectors of global memory, banks of shared memory.

use crate::counters::Counters;
use crate::exec::GridContext;
use crate::exec::lane_access::{AccessKind, AccessRegion, LaneAccess};
use crate::exec::registers::{LANES, lanes_of};

/// Bytes that global memory moves at least.
const SECTOR: u64 = 32;
/// Banks of shared memory, four bytes wide each.
const BANKS: usize = 32;

pub(super) fn access(counters: &mut Counters, context: &GridContext<'_>, access: &LaneAccess<'_>) {
    let group = access.group;
    match group.place {
        AccessRegion::Global(index) => {
            let start = context.memory[index].address;
            let ends = |lane: usize| {
                let first = start + group.offsets[lane] as u64;
                (first, first + u64::from(access.size))
            };
            let mut spans = [(0, 0); LANES];
            let count = lanes_of(group.lanes).zip(&mut spans).map(|(lane, span)| *span = ends(lane)).count();
            global(counters, access.kind, &mut spans[..count]);
        }
        AccessRegion::Shared | AccessRegion::Peer(_) => {
            counters.shared_accesses += 1;
            // Accesses of 8 and 16 bytes go in halves and quarters of a warp.
            let lanes_at_once = LANES / (access.size as usize).div_ceil(4).clamp(1, 4);
            for first in (0..LANES).step_by(lanes_at_once) {
                let turn = (((1u64 << lanes_at_once) - 1) << first) as u32 & group.lanes;
                let starts = lanes_of(turn).map(|lane| group.offsets[lane]);
                counters.shared_conflicts += conflicts(starts, access.size as usize);
            }
        }
        AccessRegion::Local | AccessRegion::Param | AccessRegion::Nowhere => {}
    }
}

/// A matrix whose rows of `size` bytes begin at these offsets: one access. Shared memory is asked for as many pieces of
/// at most 16 bytes at once as its banks are wide.
pub(super) fn rows(
    counters: &mut Counters,
    context: &GridContext<'_>,
    place: AccessRegion,
    kind: AccessKind,
    (rows, size): (&[usize], usize),
) {
    match place {
        AccessRegion::Global(index) => {
            let start = context.memory[index].address;
            let ends = rows.iter().map(|row| (start + *row as u64, start + (row + size) as u64));
            global(counters, kind, &mut ends.collect::<Vec<_>>());
        }
        AccessRegion::Shared | AccessRegion::Peer(_) => {
            counters.shared_accesses += 1;
            let piece = size.min(16);
            let pieces: Vec<usize> = rows.iter().flat_map(|row| (*row..row + size).step_by(piece)).collect();
            for turn in pieces.chunks(4 * BANKS / piece) {
                counters.shared_conflicts += conflicts(turn.iter().copied(), piece);
            }
        }
        AccessRegion::Local | AccessRegion::Param | AccessRegion::Nowhere => {}
    }
}

/// One access of global memory, to bytes between these addresses. Bytes that several lanes name are used once.
fn global(counters: &mut Counters, kind: AccessKind, spans: &mut [(u64, u64)]) {
    spans.sort_unstable();
    let (mut next_byte, mut next_sector) = (0, 0);
    for (first, end) in spans {
        counters.global_bytes += end.saturating_sub(next_byte.max(*first));
        next_byte = next_byte.max(*end);
        let end_sector = end.div_ceil(SECTOR);
        counters.global_sectors += end_sector.saturating_sub(next_sector.max(*first / SECTOR));
        next_sector = next_sector.max(end_sector);
    }
    match kind {
        AccessKind::Write => counters.global_stores += 1,
        _ => counters.global_loads += 1,
    }
}

/// Passes beyond the first: the most different words that one bank is asked for, less one.
fn conflicts(starts: impl Iterator<Item = usize>, size: usize) -> u64 {
    let mut words: Vec<usize> = Vec::with_capacity(LANES);
    for offset in starts {
        words.extend(offset / 4..(offset + size).div_ceil(4));
    }
    words.sort_unstable();
    words.dedup();
    let mut banks = [0u64; BANKS];
    for word in words {
        banks[word % BANKS] += 1;
    }
    banks.iter().max().map_or(0, |most| most.saturating_sub(1))
}
