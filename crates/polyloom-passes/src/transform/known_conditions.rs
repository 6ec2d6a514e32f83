//! `known_conditions`: in a branch, its condition is known.
//!
//! What was chosen by `where` on a condition is, on the side of an `if` where that condition holds, what it chose
//! there. `if`s that became `where`s leave such behind: an index that one side of a branch computes and another branch
//! on the same condition uses is then the index itself, of which the analyses know more than of a choice.

use polyloom_ir::{Function, Inst, Op, Region, Scalar, Type, Value, ValueDef};

/// Says how far back a condition is taken apart, and how many choices are looked through.
const MAX_DEPTH: u32 = 8;

/// Looks through choices whose conditions are known.
pub fn known_conditions(func: &mut Function) {
    let mut has = [false; 2];
    for data in func.insts.values() {
        has[0] |= data.op == Op::If;
        has[1] |= data.op == Op::Select;
    }
    if has == [true; 2] {
        let body = func.body;
        region(func, body, &mut Vec::new());
    }
}

fn region(func: &mut Function, region_: Region, known: &mut Vec<(Value, bool)>) {
    for index in 0..func.regions[region_].insts.len() {
        let inst = func.regions[region_].insts[index];
        if !known.is_empty() {
            for operand in 0..func.insts[inst].operands.len() {
                let chosen = chosen(func, func.insts[inst].operands[operand], known);
                func.insts[inst].operands[operand] = chosen;
            }
        }
        sides(func, inst, known);
    }
}

fn sides(func: &mut Function, inst: Inst, known: &mut Vec<(Value, bool)>) {
    let n_known = known.len();
    for (side, inner) in func.insts[inst].regions.clone().into_iter().enumerate() {
        if func.insts[inst].op == Op::If {
            assume(func, func.insts[inst].operands[0], side == 0, known, MAX_DEPTH);
        }
        region(func, inner, known);
        known.truncate(n_known);
    }
}

/// Adds what follows from a condition.
fn assume(func: &Function, condition: Value, truth: bool, known: &mut Vec<(Value, bool)>, depth: u32) {
    known.push((condition, truth));
    let ValueDef::Result(inst, _) = func.values[condition].def else { return };
    let data = &func.insts[inst];
    if depth == 0 || func.ty(condition) != Type::Scalar(Scalar::Bool) {
        return;
    }
    match (data.op, &data.operands[..]) {
        (Op::Not, &[x]) => assume(func, x, !truth, known, depth - 1),
        (Op::BitAnd, &[a, b]) if truth => [a, b].iter().for_each(|&part| assume(func, part, true, known, depth - 1)),
        (Op::BitOr, &[a, b]) if !truth => [a, b].iter().for_each(|&part| assume(func, part, false, known, depth - 1)),
        _ => {}
    }
}

/// The value that a value is where these conditions are known.
fn chosen(func: &Function, mut value: Value, known: &[(Value, bool)]) -> Value {
    for _ in 0..MAX_DEPTH {
        let ValueDef::Result(inst, _) = func.values[value].def else { break };
        let data = &func.insts[inst];
        let (Op::Select, &[condition, yes, no]) = (data.op, &data.operands[..]) else { break };
        let Some(&(_, truth)) = known.iter().find(|(of, _)| *of == condition) else { break };
        value = if truth { yes } else { no };
    }
    value
}
