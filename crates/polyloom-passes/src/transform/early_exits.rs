//! `early_exits`: an early return of an inlined function becomes a branch.
//!
//! Inlining turns
//!
//! ```text
//! if x > 0: return x
//! return 0
//! ```
//!
//! into a block that one side of an `if` breaks out of. What follows the `if` is then the other side's alone and moves
//! there, and the break becomes a `yield`:
//!
//! ```text
//! block ^0 { if c { break ^0 x } else { yield }  rest  yield w }
//! block    { r = if c { yield x } else { rest  yield w }  yield r }
//! ```
//!
//! A block that loses its last break this way is spliced by `fold`, and a small `if` becomes a `where`.

use crate::edit::ValueReplacements;
use polyloom_ir::{Function, Imm, Inst, MAX_REGION_DEPTH, Op, Region, Span, Type, Value, ValueData, ValueDef};
use smallvec::SmallVec;

/// Number of early exits of one block become branches, because each adds a level of regions.
const MAX_EXITS: usize = 32;
/// Says how deep regions may come to nest. Beyond, blocks stay.
const MAX_NESTING: usize = MAX_REGION_DEPTH - 16;

/// Turns breaks out of blocks into branches where nothing needs to be duplicated for it.
pub fn early_exits(func: &mut Function) {
    let mut replaced = ValueReplacements::default();
    visit(func, func.body, 1, &mut replaced);
    if replaced.any() {
        replaced.apply_to_region(func, func.body);
    }
}

/// `depth` counts the regions around `region`, and it.
fn visit(func: &mut Function, region: Region, depth: usize, replaced: &mut ValueReplacements) {
    for index in 0..func.regions[region].insts.len() {
        let inst = func.regions[region].insts[index];
        if func.insts[inst].op == Op::Block {
            let types: SmallVec<[Type; 4]> = func.insts[inst].results.iter().map(|&v| func.ty(v)).collect();
            let body = func.insts[inst].regions[0];
            BlockTail { block: inst, types: &types, replaced, n_exits: 0 }.region(func, body, depth + 1);
        }
        for inner in 0..func.insts[inst].regions.len() {
            visit(func, func.insts[inst].regions[inner], depth + 1, replaced);
        }
    }
}

/// A block being taken apart.
struct BlockTail<'a> {
    block: Inst,
    types: &'a [Type],
    replaced: &'a mut ValueReplacements,
    n_exits: usize,
}

impl BlockTail<'_> {
    fn leaves(&self, func: &Function, region: Region) -> Option<Inst> {
        func.terminator(region).filter(|&last| func.insts[last].imm == Imm::Target(self.block))
    }

    /// Rewrites a region whose end is the end of the block, so that values it yields are the block's.
    fn region(&mut self, func: &mut Function, region: Region, depth: usize) {
        if let Some(last) = self.leaves(func, region) {
            become_yield(func, last);
        }
        let exit = func.regions[region].insts.iter().position(|&inst| {
            let data = &func.insts[inst];
            data.op == Op::If && data.regions.iter().any(|&side| self.leaves(func, side).is_some())
        });
        let Some(index) = exit else { return };
        let height = func.regions[region].insts[index + 1..].iter().map(|&inst| height(func, inst)).max();
        if self.n_exits == MAX_EXITS || depth + 1 + height.unwrap_or(0) > MAX_NESTING {
            return;
        }
        self.n_exits += 1;
        let branch = func.regions[region].insts[index];
        let rest = func.regions[region].insts.split_off(index + 1);
        let sides = func.insts[branch].regions.clone();
        for &side in &sides {
            if let Some(last) = self.leaves(func, side) {
                become_yield(func, last);
            } else if let Some(last) = func.terminator(side)
                && func.insts[last].op == Op::Yield
            {
                // The only side that goes on to the rest, so that what it yielded is what the rest sees.
                let results = func.insts[branch].results.clone();
                for (index, result) in results.into_iter().enumerate() {
                    self.replaced.set(result, func.insts[last].operands[index]);
                }
                func.regions[side].insts.pop();
                func.regions[side].insts.extend_from_slice(&rest);
            }
        }
        func.insts[branch].results.clear();
        for (index, &ty) in self.types.iter().enumerate() {
            let value: Value = func.values.push(ValueData { ty, def: ValueDef::Result(branch, index as u32) });
            func.insts[branch].results.push(value);
        }
        let results: SmallVec<[Value; 4]> = func.insts[branch].results.iter().copied().collect();
        let end = func.make_inst(Op::Yield, results, &[], Imm::None, Span::NONE);
        func.regions[region].insts.push(end);
        for &side in &sides {
            self.region(func, side, depth + 1);
        }
    }
}

/// Returns how deep the regions of an instruction nest.
fn height(func: &Function, inst: Inst) -> usize {
    let regions = func.insts[inst].regions.iter();
    let insts = regions.map(|&region| func.regions[region].insts.iter().map(|&inst| height(func, inst)).max());
    insts.map(|inner| 1 + inner.unwrap_or(0)).max().unwrap_or(0)
}

fn become_yield(func: &mut Function, inst: Inst) {
    func.insts[inst].op = Op::Yield;
    func.insts[inst].imm = Imm::None;
}
