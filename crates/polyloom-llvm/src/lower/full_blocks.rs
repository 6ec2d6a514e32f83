//! Kernels whose threads are blocks of known extents: code for blocks that have all their threads.
//!
//! The last block of a launch may have fewer. In code for the others every loop over threads has a known end, so that
//! LLVM unrolls them and what they have in common is computed and loaded once.

use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::ArgFacts;
use polyloom_ir::{Function, Inst, Op, Type, Value, ValueDef};
use rustc_hash::FxHashMap;

/// The values that a kernel computes from the number of a block's threads.
pub(crate) struct FullBlocks {
    /// The number of the block's threads, 64 bits wide, and what it is in a full block.
    count: Value,
    n_threads: u64,
    /// For each end of a loop over a row of threads, the block's extent along it.
    row_ends: FxHashMap<Value, Value>,
}

impl FullBlocks {
    /// `None` if the extents of blocks are not known, or the kernel is no loop over blocks.
    pub(crate) fn of(func: &Function, facts: &ArgFacts) -> Option<FullBlocks> {
        if !func.metadata.by_block || facts.scalars.is_empty() {
            return None;
        }
        // A kernel of blocks begins with what leaves blocks without threads: `if count <= 0: return`.
        let branch = func.regions[func.body].insts.iter().find(|&&inst| func.insts[inst].op == Op::If)?;
        let (op, operands) = computed(func, func.insts[*branch].operands[0])?;
        let (&count, Some(0)) = (operands.first()?, func.as_const(*operands.get(1)?)) else { return None };
        let (min, limits) = computed(func, count)?;
        if op != Op::Le || min != Op::Min || func.ty(count) != Type::I64 {
            return None;
        }
        let n_threads = limits.iter().find_map(|&limit| known(func, facts, limit))?;
        let mut row_ends = FxHashMap::default();
        func.walk(func.body, &mut |inst: Inst, data| {
            let (Op::Min, &[a, b]) = (data.op, &data.operands[..]) else { return };
            let is_left = |value: Value| match computed(func, value) {
                Some((Op::Sub, operands)) => {
                    matches!(computed(func, operands[0]), Some((Op::Cast, of)) if of[0] == count)
                }
                _ => false,
            };
            let is_extent = |value: Value| func.param_index(value).is_some_and(|param| facts.scalar(param).is_some());
            for (left, extent) in [(a, b), (b, a)] {
                if is_left(left) && is_extent(extent) {
                    row_ends.insert(func.insts[inst].results[0], extent);
                }
            }
        });
        Some(FullBlocks { count, n_threads, row_ends })
    }
}

impl FunctionLowering<'_, '_> {
    /// Lowers the smaller of two numbers of threads to what it is in a full block; `None` for other values. Code for full blocks is
    /// left where the block proves to be none.
    pub(super) fn end_in_full_block(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let Some(full_blocks) = self.full_blocks else { return Ok(None) };
        let result = self.func.insts[inst].results[0];
        if let Some(&extent) = full_blocks.row_ends.get(&result) {
            return self.rep(extent).map(Some);
        }
        if result != full_blocks.count {
            return Ok(None);
        }
        let count = self.lower_pure_op(inst)?;
        let (ir, count) = (self.ir, self.base(count)?);
        let n_threads = ir.i64_const(full_blocks.n_threads as i64);
        let (has_fewer, is_full) = (ir.block(c"has_fewer"), ir.block(c"full_block"));
        ir.cond_br_unlikely(ir.icmp(NE, count, n_threads), has_fewer, is_full);
        ir.switch_to(has_fewer);
        if let Some(bail_out) = &self.bail_out {
            ir.br(bail_out.target);
        }
        ir.switch_to(is_full);
        Ok(Some(ValueRep::Uniform(n_threads)))
    }

    /// Returns the smaller of two constant integers, which ends of loops over some of the threads are; LLVM would fold it
    /// after loops have been lowered.
    pub(super) fn least_constant(&self, inst: Inst) -> Result<Option<ValueRep>> {
        let data = &self.func.insts[inst];
        if !self.scalar_of(data.results[0])?.is_signed_int() {
            return Ok(None);
        }
        let constant = |value: Value| -> Result<Option<(Val, i64)>> {
            let ValueRep::Uniform(value) = self.rep(value)? else { return Ok(None) };
            Ok(self.ir.as_int_const(value).map(|n| (value, n)))
        };
        let (a, b) = (constant(data.operands[0])?, constant(data.operands[1])?);
        Ok(a.zip(b).map(|(a, b)| ValueRep::Uniform(if a.1 <= b.1 { a.0 } else { b.0 })))
    }
}

fn computed(func: &Function, value: Value) -> Option<(Op, &[Value])> {
    let ValueDef::Result(inst, _) = func.values[value].def else { return None };
    Some((func.insts[inst].op, &func.insts[inst].operands))
}

/// A product of block extents.
fn known(func: &Function, facts: &ArgFacts, value: Value) -> Option<u64> {
    if let Some(param) = func.param_index(value) {
        return facts.scalar(param).map(u64::from);
    }
    match computed(func, value)? {
        (Op::Cast, operands) => known(func, facts, operands[0]),
        (Op::Mul, operands) => known(func, facts, operands[0])?.checked_mul(known(func, facts, operands[1])?),
        _ => None,
    }
}
