//! Rows of elements that were just stored at known places: loads of them take the values from registers.
//!
//! Threads of a block that combine their values as a tree store and load ever shorter rows of a shared array. LLVM would
//! take a shorter row out of the longer one that was stored by way of a wide integer, element by element.

use super::{ExecMask, FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Inst, Op, Type};
use smallvec::SmallVec;

/// The rows that have been stored since the current block began, the last one last.
#[derive(Default)]
pub(super) struct StoredRows {
    rows: SmallVec<[StoredRow; 4]>,
}

#[derive(Clone, Copy)]
struct StoredRow {
    block: BasicBlock,
    array: usize,
    first: i64,
    n: u32,
    /// One element, or a vector of all.
    value: Val,
}

impl StoredRow {
    fn overlaps(&self, array: usize, first: i64, n: u32) -> bool {
        self.array == array && self.first < first + i64::from(n) && first < self.first + i64::from(self.n)
    }

    fn covers(&self, array: usize, first: i64, n: u32) -> bool {
        self.array == array && self.first <= first && first + i64::from(n) <= self.first + i64::from(self.n)
    }
}

impl FunctionLowering<'_, '_> {
    /// Returns the array, the first place, and the number of elements of an access to places that are known.
    fn known_row(&self, inst: Inst) -> Result<Option<(usize, i64, u32)>> {
        let operands = &self.func.insts[inst].operands;
        let is_row = matches!(self.func.ty(operands[0]), Type::Array { ndim: 1, .. });
        if self.arith.processor.is_gpu || self.exec != ExecMask::Full || !is_row {
            return Ok(None);
        }
        let (base, n) = match self.rep(operands[1])? {
            ValueRep::Affine { base, stride: 1 } => (base, self.lanes),
            ValueRep::Uniform(base) => (base, 1),
            _ => return Ok(None),
        };
        let array = self.array(operands[0])?;
        Ok(self.ir.as_int_const(base).filter(|&first| first >= 0).map(|first| (array, first, n)))
    }

    /// Returns what a load gives, if it has just been stored.
    pub(super) fn stored_row(&self, inst: Inst) -> Result<Option<ValueRep>> {
        if self.stored_rows.rows.is_empty() {
            return Ok(None);
        }
        let Some((array, first, n)) = self.known_row(inst)? else { return Ok(None) };
        let ir = self.ir;
        let last = self.stored_rows.rows.iter().rev().find(|row| row.overlaps(array, first, n));
        let Some(row) = last.filter(|row| row.covers(array, first, n) && row.block == ir.current()) else {
            return Ok(None);
        };
        let place = (first - row.first) as u32;
        Ok(Some(match (row.n, n) {
            (1, 1) => ValueRep::Uniform(row.value),
            (_, 1) => ValueRep::Uniform(ir.extract(row.value, ir.i64_const(place.into()))),
            (all, n) if all == n => ValueRep::Vector(row.value),
            _ => ValueRep::Vector(ir.shuffle(row.value, row.value, place..place + n)),
        }))
    }

    /// Forgets all, because something has been stored that may be in the same places.
    pub(super) fn forget_stored_rows(&mut self) {
        self.stored_rows.rows.clear();
    }

    /// Notes what an instruction does to memory. It has been lowered.
    pub(super) fn note_stored_row(&mut self, inst: Inst) -> Result<()> {
        let data = &self.func.insts[inst];
        if matches!(data.op.info().effect, OpEffect::Pure | OpEffect::Read) {
            return Ok(());
        }
        if data.op != Op::ArrayStore {
            self.forget_stored_rows();
            return Ok(());
        }
        let array = self.array(data.operands[0])?;
        let is_apart = |this: &Self, array: usize| this.array_arg(array).is_ok_and(|arg| arg.facts.disjoint);
        let row = self.known_row(inst)?;
        let mut rows = std::mem::take(&mut self.stored_rows.rows);
        rows.retain(|row| row.array == array || is_apart(self, row.array) || is_apart(self, array));
        match row {
            None => rows.retain(|row| row.array != array),
            Some((_, first, n)) => {
                let value = self.rep(*data.operands.last().unwrap_or(&data.operands[0]))?;
                let value = match value {
                    ValueRep::Uniform(value) if n == 1 => Some(value),
                    value if n > 1 => Some(self.vector(value)?),
                    _ => None,
                };
                match value {
                    Some(value) => rows.push(StoredRow { block: self.ir.current(), array, first, n, value }),
                    None => rows.retain(|row| !row.overlaps(array, first, n)),
                }
            }
        }
        self.stored_rows.rows = rows;
        Ok(())
    }
}
