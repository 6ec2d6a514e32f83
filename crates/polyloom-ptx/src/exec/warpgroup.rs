//! Products of a warp group, whose factors lie in shared memory as matrix descriptors say (PTX ISA 9.0 §9.7.15.5).

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion};
use super::registers::{LANES, lanes_of};
use super::warp::WarpRun;
use crate::decode::element_bits;
use crate::decode::op::{DecodedInst, FactorSource, WarpGroupProduct};
use crate::decode::types::PtxType;
use crate::number::arithmetic::{canonical, fma};
use crate::number::half::{bf16_to_f32, f16_from_f32, f16_to_f32};
use crate::number::narrow::{E4M3, E5M2, widen};
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use crate::tensor_map::TensorSwizzle;

/// Rows of the result that a warp computes.
const ROWS: usize = 16;
/// Bytes that lie next to each other however a matrix lies.
const PIECE: u32 = 16;
/// Rows, or columns, of pieces that a descriptor's strides lead from and to.
const EIGHT: u32 = 8;

/// Where a matrix lies in shared memory.
struct MatrixDescriptor {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: TensorSwizzle,
}

impl MatrixDescriptor {
    fn of(word: u64) -> MatrixDescriptor {
        let bytes = |shift: u32| (word >> shift & 0x3fff) << 4;
        let swizzle = match word >> 62 {
            0 => TensorSwizzle::None,
            1 => TensorSwizzle::B128,
            2 => TensorSwizzle::B64,
            _ => TensorSwizzle::B32,
        };
        MatrixDescriptor { start: bytes(0), leading: bytes(16), stride: bytes(32), swizzle }
    }

    /// Pieces that lie next to each other in a line of the swizzle.
    fn line(&self) -> u32 {
        match self.swizzle {
            TensorSwizzle::None => 1,
            TensorSwizzle::B32 => 2,
            TensorSwizzle::B64 => 4,
            TensorSwizzle::B128 => 8,
        }
    }

    /// The address of a piece of one row (or, of B, column), of which the elements of two pieces are summed over.
    fn along_k(&self, row: u32, piece: u32) -> u64 {
        let to_next = if self.swizzle == TensorSwizzle::None { self.leading } else { PIECE.into() };
        let of_row = u64::from(row % EIGHT * self.line() * PIECE) + u64::from(row / EIGHT) * self.stride;
        self.placed(of_row + u64::from(piece) * to_next)
    }

    /// The address of a piece of several rows (or columns) at one place `k` of the sum.
    fn across_k(&self, piece: u32, k: u32) -> u64 {
        let (between_lines, between_eights) = match self.swizzle {
            TensorSwizzle::None => (self.stride, self.leading),
            _ => (self.leading, self.stride),
        };
        let of_k = u64::from(k % EIGHT * self.line() * PIECE) + u64::from(k / EIGHT) * between_eights;
        self.placed(of_k + u64::from(piece % self.line() * PIECE) + u64::from(piece / self.line()) * between_lines)
    }

    fn placed(&self, offset: u64) -> u64 {
        self.swizzle.place((self.start + offset) as usize) as u64
    }
}

/// Elements of a piece.
fn per_piece(ty: PtxType) -> u32 {
    8 * PIECE / if ty == PtxType::Tf32 { 32 } else { element_bits(ty) }
}

/// An element among the bytes of a piece or the bits of a register. Floats are as they are in f32, integers exact.
fn element(bytes: &[u8], index: usize, ty: PtxType) -> f64 {
    let half = || u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
    match ty {
        PtxType::F16 => f16_to_f32(half()).into(),
        PtxType::Bf16 => bf16_to_f32(half()).into(),
        PtxType::Tf32 => {
            let word = u32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap_or_default());
            f32::from_bits(word & !0x1fff).into()
        }
        PtxType::E4m3 => widen(bytes[index].into(), E4M3),
        PtxType::E5m2 => widen(bytes[index].into(), E5M2),
        PtxType::S(8) => f64::from(bytes[index] as i8),
        PtxType::B1 => f64::from(bytes[index / 8] >> (index % 8) & 1),
        _ => f64::from(bytes[index]),
    }
}

impl WarpRun {
    pub(super) fn warp_group_product(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        product: &WarpGroupProduct,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        if lanes != u32::MAX {
            let message = format!("all lanes of a warp execute it, and {} do", lanes.count_ones());
            return Err(self.finding(context, block, inst, FindingKind::ExitedLane, &message, lanes));
        }
        let [result, a_type, b_type] = product.types;
        let (n, k) = (product.n as usize, product.k as usize);
        let first_row = self.index % 4 * ROWS as u32;
        let a = match &product.a {
            FactorSource::Shared(descriptor) => {
                let of = (descriptor.get(&self.registers)[0], product.transposes[0]);
                self.factor(context, block, inst, of, (first_row, ROWS as u32, product.k), a_type)?
            }
            FactorSource::Registers(words) => {
                let words: Vec<[u64; LANES]> = words.iter().map(|word| self.values(word)).collect();
                rows_of_registers(&words, k, a_type)
            }
        };
        let of = (product.b.get(&self.registers)[0], product.transposes[1]);
        let b = self.factor(context, block, inst, of, (0, product.n, product.k), b_type)?;
        let accumulates = product.accumulates.mask(&self.registers);
        let before: Vec<[u64; LANES]> = product.sources.iter().map(|source| self.values(source)).collect();
        let sign = |negates: bool| if negates { -1.0 } else { 1.0 };
        let (of_a, of_b) = (sign(product.negates[0]), sign(product.negates[1]));
        let mut after = vec![[0u64; LANES]; product.sums.len()];
        let each = if result == PtxType::F16 { 2 } else { 1 };
        for lane in 0..LANES {
            for index in 0..product.sums.len() * each {
                let (register, part) = (index / each, index % each);
                // Four elements of each eight columns: two of a row, and two of the row eight below.
                let of_eight = index % 4;
                let (row, column) = (lane / 4 + of_eight / 2 * 8, index / 4 * 8 + lane % 4 * 2 + of_eight % 2);
                let word = before[register][lane] as u32;
                let starts = accumulates >> lane & 1 != 0;
                let (row, column) = (&a[row * k..][..k], &b[column * k..][..k]);
                let bits = match result {
                    PtxType::S(32) => {
                        let start = if starts { f64::from(word as i32) } else { 0.0 };
                        // Exact, because a sum of integers is far below 2^53.
                        let sum = row.iter().zip(column).fold(start, |sum, (x, y)| sum + x * y);
                        if product.saturates { sum as i32 as u32 } else { sum as i64 as u32 }
                    }
                    _ => {
                        let old = match result {
                            PtxType::F16 => f16_to_f32((word >> (16 * part)) as u16),
                            _ => f32::from_bits(word),
                        };
                        let start = if starts { old } else { 0.0 };
                        let terms = row.iter().zip(column);
                        let sum = terms.fold(start, |sum, (x, y)| fma((of_a * x) as f32, (of_b * y) as f32, sum));
                        match result {
                            PtxType::F16 => u32::from(f16_from_f32(sum)) << (16 * part),
                            _ => canonical(sum).to_bits(),
                        }
                    }
                };
                after[register][lane] |= u64::from(bits);
            }
        }
        debug_assert_eq!(b.len(), n * k);
        for (destination, values) in product.sums.iter().zip(&after) {
            self.write(*destination, values, lanes);
        }
        Ok(())
    }

    /// Rows of A, or columns of B, from `first` on, each with the elements that are summed over, from shared memory.
    fn factor(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        (descriptor, is_across): (u64, bool),
        (first, count, k): (u32, u32, u32),
        ty: PtxType,
    ) -> Result<Vec<f64>, Box<Finding>> {
        let descriptor = MatrixDescriptor::of(descriptor);
        let per_piece = per_piece(ty);
        let mut elements = vec![0.0; (count * k) as usize];
        let pieces: Vec<(u32, u32)> = match is_across {
            false => (0..count).flat_map(|row| (0..k / per_piece).map(move |piece| (row, piece))).collect(),
            true => (0..count / per_piece).flat_map(|piece| (0..k).map(move |at| (piece, at))).collect(),
        };
        for (row, at) in pieces {
            let address = match is_across {
                false => descriptor.along_k(first + row, at),
                true => descriptor.across_k(first / per_piece + row, at),
            };
            let bytes = self.piece(context, block, inst, address)?;
            for index in 0..per_piece {
                let (row, at) = match is_across {
                    false => (row, at * per_piece + index),
                    true => (row * per_piece + index, at),
                };
                elements[(row * k + at) as usize] = element(&bytes, index as usize, ty);
            }
        }
        Ok(elements)
    }

    /// Sixteen bytes of the block's shared memory, as its first lane reads them.
    fn piece(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        address: u64,
    ) -> Result<[u8; PIECE as usize], Box<Finding>> {
        let (space, addresses) = (Some(StateSpace::Shared), [address; LANES]);
        let group = self.locate(context, block, inst, space, &addresses, 1, (PIECE, PIECE), AccessEffect::Read)?;
        self.observe_run(context, block, inst, &group, (0, PIECE as usize), (AccessKind::Read, WEAK))?;
        let mut bytes = [0; PIECE as usize];
        if group.place != AccessRegion::Nowhere {
            self.region(context, block, group.place).read(group.offsets[0], &mut bytes);
        }
        Ok(bytes)
    }
}

/// Sixteen rows of A in four registers: the rows of a lane's quad and those eight below, each in two halves of k.
fn rows_of_registers(words: &[[u64; LANES]], k: usize, ty: PtxType) -> Vec<f64> {
    let each = per_piece(ty) as usize / 4;
    let mut elements = vec![0.0; ROWS * k];
    for lane in lanes_of(u32::MAX) {
        for (register, words) in words.iter().enumerate() {
            let bytes = (words[lane] as u32).to_le_bytes();
            let row = lane / 4 + register % 2 * 8;
            for index in 0..each {
                let at = register / 2 * 4 * each + lane % 4 * each + index;
                elements[row * k + at] = element(&bytes, index, ty);
            }
        }
    }
    elements
}
