//! Which instructions can only run when threads have gone past a barrier.

use crate::decode::op::{CallTarget, DecodedOp, DecodedProgram};

/// For each instruction, whether it may follow the one at `site` and that cannot run again after it.
pub(super) fn past(program: &DecodedProgram, site: u32) -> Vec<bool> {
    let mut successors = vec![Vec::new(); program.code.len()];
    // A return leads behind every call, because calls of a function are not told apart.
    let is_call = |op: &DecodedOp| matches!(op, DecodedOp::Call(_));
    let behind_calls: Vec<u32> =
        program.code.iter().filter(|inst| is_call(&inst.op)).map(|inst| inst.index + 1).collect();
    let kernel_end = program.functions.get(1).map_or(u32::MAX, |function| function.entry);
    for (inst, next) in program.code.iter().zip(&mut successors) {
        let falls_through = match &inst.op {
            DecodedOp::Branch(target) => {
                next.push(*target);
                false
            }
            DecodedOp::BranchTable { targets, .. } => {
                next.extend(targets);
                false
            }
            DecodedOp::Call(call) => {
                match &call.target {
                    CallTarget::Function(index) => next.push(program.functions[*index].entry),
                    CallTarget::Pointer(_) => next.extend(program.functions.iter().map(|function| function.entry)),
                    CallTarget::Host(_) => {}
                }
                true
            }
            DecodedOp::Return => {
                next.extend(behind_calls.iter().filter(|_| inst.index >= kernel_end));
                false
            }
            DecodedOp::Exit | DecodedOp::Trap => false,
            _ => true,
        };
        if falls_through || inst.guard.is_some() {
            next.push(inst.index + 1);
        }
        next.retain(|index| (*index as usize) < program.code.len());
    }
    let mut predecessors = vec![Vec::new(); program.code.len()];
    for (from, next) in (0..).zip(&successors) {
        next.iter().for_each(|to| predecessors[*to as usize].push(from));
    }
    let (after, before) = (reached(&successors, site), reached(&predecessors, site));
    after.into_iter().zip(before).map(|(after, before)| after && !before).collect()
}

fn reached(edges: &[Vec<u32>], from: u32) -> Vec<bool> {
    let mut found = vec![false; edges.len()];
    let mut left = vec![from];
    while let Some(at) = left.pop() {
        for to in &edges[at as usize] {
            if !std::mem::replace(&mut found[*to as usize], true) {
                left.push(*to);
            }
        }
    }
    found
}
