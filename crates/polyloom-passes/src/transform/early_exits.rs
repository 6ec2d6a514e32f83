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

use crate::edit::Replacements;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Span, Type, Value, ValueData, ValueDef};
use smallvec::SmallVec;

/// How deep a chain of early exits may nest: each adds a level of regions.
const MAX_NESTING: usize = 32;

/// Turns breaks out of blocks into branches where nothing needs to be duplicated for it.
pub fn early_exits(func: &mut Function) {
    let mut replaced = Replacements::default();
    visit(func, func.body, &mut replaced);
    if replaced.any() {
        replaced.apply_to_region(func, func.body);
    }
}

fn visit(func: &mut Function, region: Region, replaced: &mut Replacements) {
    for index in 0..func.regions[region].insts.len() {
        let inst = func.regions[region].insts[index];
        if func.insts[inst].op == Op::Block {
            let types: SmallVec<[Type; 4]> = func.insts[inst].results.iter().map(|&v| func.ty(v)).collect();
            let body = func.insts[inst].regions[0];
            tail(func, body, inst, &types, replaced, MAX_NESTING);
        }
        for inner in 0..func.insts[inst].regions.len() {
            visit(func, func.insts[inst].regions[inner], replaced);
        }
    }
}

/// Rewrites a region whose end is the end of `block`: values it yields are the block's.
fn tail(func: &mut Function, region: Region, block: Inst, types: &[Type], replaced: &mut Replacements, nesting: usize) {
    let leaves = |func: &Function, region: Region| {
        func.terminator(region).filter(|&last| func.insts[last].imm == Imm::Target(block))
    };
    if let Some(last) = leaves(func, region) {
        become_yield(func, last);
    }
    let exit = func.regions[region].insts.iter().position(|&inst| {
        let data = &func.insts[inst];
        data.op == Op::If && data.regions.iter().any(|&side| leaves(func, side).is_some())
    });
    let Some(index) = exit.filter(|_| nesting > 0) else { return };
    let branch = func.regions[region].insts[index];
    let rest = func.regions[region].insts.split_off(index + 1);
    let sides = func.insts[branch].regions.clone();
    for &side in &sides {
        if let Some(last) = leaves(func, side) {
            become_yield(func, last);
        } else if let Some(last) = func.terminator(side)
            && func.insts[last].op == Op::Yield
        {
            // The only side that goes on to the rest: what it yielded is what the rest sees.
            let results = func.insts[branch].results.clone();
            for (index, result) in results.into_iter().enumerate() {
                replaced.set(result, func.insts[last].operands[index]);
            }
            func.regions[side].insts.pop();
            func.regions[side].insts.extend_from_slice(&rest);
        }
    }
    func.insts[branch].results.clear();
    for (index, &ty) in types.iter().enumerate() {
        let value: Value = func.values.push(ValueData { ty, def: ValueDef::Result(branch, index as u32) });
        func.insts[branch].results.push(value);
    }
    let results: SmallVec<[Value; 4]> = func.insts[branch].results.iter().copied().collect();
    let end = func.make_inst(Op::Yield, results, &[], Imm::None, Span::NONE);
    func.regions[region].insts.push(end);
    for &side in &sides {
        tail(func, side, block, types, replaced, nesting - 1);
    }
}

fn become_yield(func: &mut Function, inst: Inst) {
    func.insts[inst].op = Op::Yield;
    func.insts[inst].imm = Imm::None;
}
