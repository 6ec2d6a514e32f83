//! Loads and stores of matrices: each place in the registers is one access of the warp.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion, LaneAccess};
use super::registers::{LANES, RegisterWord, lanes_of, put};
use super::warp::WarpRun;
use crate::decode::op::{DecodedInst, DestRegister, MatrixAccess, RegisterPiece};
use crate::report::{Finding, FindingKind};
use std::ops::{BitAnd, BitOr, Shl};

/// Bytes of a matrix, at most.
const MAX_MATRIX: usize = 1024;

impl WarpRun {
    pub(super) fn matrix_access(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        access: &MatrixAccess,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let addresses = self.addresses(&access.address);
        let stride = match &access.stride {
            Some(stride) => *stride.get(&self.registers),
            None => [0; LANES],
        };
        let checks_alignment = context.launch.sanitize.alignment;
        let address = |lane: u8, (major, minor): (u32, u32)| {
            let size = u64::from(access.size);
            let start = u64::from(major) * u64::from(stride[usize::from(lane)]) * size;
            let row = addresses[usize::from(lane)].wrapping_add(start);
            let row = if checks_alignment { row } else { row & !u64::from(access.rows.align - 1) };
            row.wrapping_add(u64::from(minor) * size)
        };
        let rows: Vec<u64> = access.rows.starts.iter().map(|(lane, major)| address(*lane, (*major, 0))).collect();
        for (row, (lane, _)) in rows.iter().zip(&access.rows.starts) {
            let align = access.rows.align;
            if row & u64::from(align - 1) != 0 {
                let message = format!("a row of the matrix is at 0x{row:x}, no multiple of {align}");
                let mut finding = self.finding(context, block, inst, FindingKind::Misaligned, &message, 1 << lane);
                finding.address = Some(*row);
                return Err(finding);
            }
        }
        // Whole rows are loaded only where none is at fault, because faults of an access are found an element at a
        // time.
        if !context.observing
            && !access.store
            && self.load_rows(context, block, inst, access, lanes, (&addresses, &rows))
        {
            return Ok(());
        }
        let bits = access.size * 8;
        let kept = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut values = vec![[0u64; LANES]; access.registers.len()];
        if access.store {
            for (values, register) in values.iter_mut().zip(&access.registers) {
                match register {
                    DestRegister::Word(slot, _) => *values = u32::lanes(&self.registers, *slot).map(u64::from),
                    DestRegister::Double(slot) => *values = *u64::lanes(&self.registers, *slot),
                    DestRegister::Sink => {}
                }
            }
        }
        let kind = if access.store { AccessKind::Write } else { AccessKind::Read };
        let mut counts = context.counting;
        for elements in access.elements.chunk_by(|a, b| (a.register, a.bit) == (b.register, b.bit)) {
            let (register, bit) = (usize::from(elements[0].register), elements[0].bit);
            let mut places = [0; LANES];
            let mut left = 0;
            for element in elements {
                places[usize::from(element.lane)] = address(element.row_lane, (element.major, element.minor));
                left |= 1 << element.lane & lanes;
            }
            let parts = values[register].map(|value| value >> bit & kept);
            while left != 0 {
                let size = (access.size, access.size);
                let reach = if access.store { AccessEffect::Write } else { AccessEffect::Read };
                let group = self.locate(context, block, inst, access.space, &places, left, size, reach)?;
                left &= !group.lanes;
                if std::mem::take(&mut counts)
                    && !matches!(group.place, AccessRegion::Local | AccessRegion::Param | AccessRegion::Nowhere)
                {
                    let lane = group.lanes.trailing_zeros() as usize;
                    let start = places[lane].wrapping_sub(group.offsets[lane] as u64);
                    let offsets: Vec<usize> = rows.iter().map(|row| row.wrapping_sub(start) as usize).collect();
                    block.observe_rows(context, group.place, kind, &offsets, access.rows.size as usize);
                }
                if context.observing {
                    let stored = access.store.then_some((std::slice::from_ref(&parts), access.size as usize));
                    let part =
                        LaneAccess { inst, kind, group: &group, size: access.size, order: WEAK, stored, copied: 0 };
                    block.check(context, self, &part)?;
                }
                let region = self.region(context, block, group.place);
                for lane in lanes_of(group.lanes) {
                    if access.store {
                        region.store(group.offsets[lane], access.size, parts[lane]);
                    } else {
                        values[register][lane] |= region.load(group.offsets[lane], access.size) << bit;
                    }
                }
            }
        }
        if !access.store {
            for (values, register) in values.iter().zip(&access.registers) {
                self.write(*register, values, lanes);
            }
        }
        Ok(())
    }

    /// Loads a matrix row by row, as all lanes do that agree where it is. Whether there was nothing against it.
    fn load_rows(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        access: &MatrixAccess,
        lanes: u32,
        (addresses, rows): (&[u64; LANES], &[u64]),
    ) -> bool {
        let size = access.rows.size as usize;
        let agreed = access.stride.as_ref().is_none_or(|stride| {
            let stride = stride.get(&self.registers);
            (0..LANES).all(|lane| (addresses[lane], stride[lane]) == (addresses[0], stride[0]))
        });
        if lanes != u32::MAX || !agreed || rows.len() > LANES || rows.len() * size > MAX_MATRIX {
            return false;
        }
        let mut starts = [0; LANES];
        starts[..rows.len()].copy_from_slice(rows);
        let all = u32::MAX >> (LANES - rows.len());
        let bytes = (access.rows.size, 1);
        let Ok(group) = self.locate(context, block, inst, access.space, &starts, all, bytes, AccessEffect::Read) else {
            return false;
        };
        if group.lanes != all || matches!(group.place, AccessRegion::Local | AccessRegion::Nowhere) {
            return false;
        }
        // Whole words are read of it, also at its end.
        let mut matrix = [0; MAX_MATRIX + 8];
        let region = self.region(context, block, group.place);
        for (offset, row) in group.offsets.iter().zip(matrix[..rows.len() * size].chunks_exact_mut(size)) {
            region.read(*offset, row);
        }
        for pieces in access.pieces.chunk_by(|a, b| a.register == b.register) {
            match access.registers[usize::from(pieces[0].register)] {
                DestRegister::Word(slot, 32) if pieces[0].consecutive => {
                    let (words, _) = matrix[usize::from(pieces[0].offsets[0])..].as_chunks();
                    let mut values = [0; LANES];
                    for (value, word) in values.iter_mut().zip(words) {
                        *value = u32::from_le_bytes(*word);
                    }
                    put(&mut self.registers, Some(slot), &values, lanes);
                }
                DestRegister::Word(slot, 32) => {
                    put(&mut self.registers, Some(slot), &assembled::<u32>(&matrix, pieces), lanes);
                }
                other => self.write(other, &assembled(&matrix, pieces), lanes),
            }
        }
        true
    }
}

/// A register, from the bytes of a matrix.
fn assembled<T: RegisterWord + Shl<u8, Output = T> + BitAnd<Output = T> + BitOr<Output = T>>(
    matrix: &[u8; MAX_MATRIX + 8],
    pieces: &[RegisterPiece],
) -> [T; LANES] {
    let mut values = [T::default(); LANES];
    for piece in pieces {
        let mut words = [T::default(); LANES];
        for (word, offset) in words.iter_mut().zip(&piece.offsets) {
            let bytes = matrix[usize::from(*offset)..].first_chunk().copied();
            *word = T::truncated(u64::from_le_bytes(bytes.unwrap_or_default()));
        }
        let kept = T::truncated(u64::MAX >> (64 - 8 * u32::from(piece.bytes)));
        for (value, word) in values.iter_mut().zip(words) {
            *value = *value | (word & kept) << piece.bit;
        }
    }
    values
}
