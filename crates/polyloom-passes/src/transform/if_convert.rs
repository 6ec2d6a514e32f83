//! `if_convert`: a small `if` becomes `where`.
//!
//! Where both sides of an `if` only compute a few cheap values, computing both is faster than branching on every
//! machine there is, and leaves straight-line code to the passes that follow and to the vectoriser. Every op is
//! total, so this changes no bit.

use super::fold::append_simplified;
use crate::edit::ValueReplacements;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Inst, Op, Region};
use smallvec::SmallVec;

/// The most a side may cost, in simple instructions.
const MAX_COST: u32 = 8;
/// The most values an `if` may give, because each becomes a `where`.
const MAX_RESULTS: usize = 4;

/// Turns small pure `if`s into `where`s.
pub fn if_convert(func: &mut Function) {
    if !func.insts.values().any(|data| data.op == Op::If) {
        return;
    }
    let mut replaced = ValueReplacements::default();
    let body = func.body;
    region(func, body, &mut replaced);
}

fn region(func: &mut Function, out: Region, replaced: &mut ValueReplacements) {
    let capacity = func.regions[out].insts.len();
    let insts = std::mem::replace(&mut func.regions[out].insts, Vec::with_capacity(capacity));
    for inst in insts {
        replaced.apply(&mut func.insts[inst].operands);
        for index in 0..func.insts[inst].regions.len() {
            region(func, func.insts[inst].regions[index], replaced);
        }
        if func.insts[inst].op == Op::If && is_small(func, inst) {
            convert(func, inst, out, replaced);
        } else {
            func.regions[out].insts.push(inst);
        }
    }
}

fn is_small(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    (1..=MAX_RESULTS).contains(&data.results.len())
        && data.regions.iter().all(|&side| {
            let Some((&last, insts)) = func.regions[side].insts.split_last() else { return false };
            let cost = insts.iter().try_fold(0, |sum, &inst| Some(sum + cost(func, inst)?));
            func.insts[last].op == Op::Yield && cost.is_some_and(|cost| cost <= MAX_COST)
        })
}

/// Returns what an instruction costs, in simple ones; `None` if it may not be executed in vain.
fn cost(func: &Function, inst: Inst) -> Option<u32> {
    let data = &func.insts[inst];
    let on_float = data.operands.first().and_then(|&v| func.ty(v).as_scalar()).is_some_and(|s| s.is_float());
    match data.op {
        Op::Const => Some(0),
        Op::Sqrt => Some(5),
        Op::Div if on_float => Some(4),
        Op::Div | Op::Mod | Op::FloorDiv | Op::Call => None,
        op if op.info().is_pure() && op.info().group != OpGroup::Random => Some(1),
        _ => None,
    }
}

fn convert(func: &mut Function, inst: Inst, out: Region, replaced: &mut ValueReplacements) {
    let cond = func.insts[inst].operands[0];
    let mut yielded: [SmallVec<[_; 4]>; 2] = Default::default();
    for (index, yielded) in yielded.iter_mut().enumerate() {
        let side = func.insts[inst].regions[index];
        let mut insts = std::mem::take(&mut func.regions[side].insts);
        if let Some(last) = insts.pop() {
            yielded.extend(func.insts[last].operands.iter().copied());
        }
        func.regions[out].insts.append(&mut insts);
    }
    let (results, span) = (func.insts[inst].results.clone(), func.insts[inst].span);
    for (index, result) in results.into_iter().enumerate() {
        let ty = func.ty(result);
        let operands: SmallVec<[_; 4]> = [cond, yielded[0][index], yielded[1][index]].as_slice().into();
        let select = func.make_inst(Op::Select, operands, &[ty], Imm::None, span);
        let name = func.value_names[result].clone();
        let value = append_simplified(func, select, out);
        if value == func.insts[select].results.first().copied().unwrap_or(value) && name.is_some() {
            func.value_names[value] = name;
        }
        replaced.set(result, value);
    }
}
