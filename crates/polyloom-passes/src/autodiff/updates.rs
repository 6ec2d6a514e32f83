//! Atomic updates of elements that no other thread touches: a load and a store, which have a derivative where what an
//! atomic update gives has none.
//!
//! `a[i] += x` is an atomic update in HIR, whoever else may come to the element. Sums that nothing reads stay: their
//! reverse is a load.

use super::Request;
use super::activity::own_elements;
use crate::edit::Replacements;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Type, Value};
use smallvec::SmallVec;

/// Rewrites the updates of arrays that each thread has elements of its own of, where the kernel reads them as well.
pub(super) fn own_updates(func: &mut Function, request: &Request) {
    let is_own = own_elements(func, request);
    let mut is_read = vec![false; func.params().len()];
    let mut used: Vec<Value> = Vec::new();
    func.walk(func.body, &mut |_, data| used.extend(data.operands.iter().copied()));
    func.walk(func.body, &mut |_, data| {
        let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) else { return };
        let is_sum = matches!(data.op, Op::AtomicAdd | Op::AtomicSub);
        let is_used = data.results.iter().any(|result| used.contains(result));
        is_read[param] |= data.op != Op::Dim && (!is_sum || is_used);
    });
    let wanted: Vec<bool> = is_own.iter().zip(&is_read).map(|(own, read)| *own && *read).collect();
    rewrite(func, &wanted);
}

/// Rewrites the updates of these arrays, of which no two threads touch one element.
pub(super) fn as_loads_and_stores(func: &mut Function, arrays: &[Value]) {
    let wanted: Vec<bool> = func.params().iter().map(|param| arrays.contains(param)).collect();
    rewrite(func, &wanted);
}

/// Rewrites the updates of parameters.
fn rewrite(func: &mut Function, wanted: &[bool]) {
    if wanted.contains(&true) {
        let mut replaced = Replacements::default();
        visit(func, func.body, wanted, &mut replaced);
        replaced.apply_to_region(func, func.body);
    }
}

/// What an update combines the element and the value by.
fn combined_by(op: Op) -> Option<Op> {
    Some(match op {
        Op::AtomicAdd => Op::Add,
        Op::AtomicSub => Op::Sub,
        Op::AtomicMin => Op::Min,
        Op::AtomicMax => Op::Max,
        _ => return None,
    })
}

fn visit(func: &mut Function, region: Region, wanted: &[bool], replaced: &mut Replacements) {
    let old = std::mem::take(&mut func.regions[region].insts);
    let mut new: Vec<Inst> = Vec::with_capacity(old.len());
    for inst in old {
        let data = func.insts[inst].clone();
        for &inner in &data.regions {
            visit(func, inner, wanted, replaced);
        }
        let rewritten = combined_by(data.op).and_then(|op| {
            let param = func.param_index(data.operands[0]).filter(|&param| wanted[param])?;
            let (elem, ndim) = func.ty(func.params()[param]).as_any_array()?;
            // An update of a component of an element stays.
            let is_whole = data.operands.len() == usize::from(ndim) + 2;
            // There is no `min` of matrices.
            let exists = op.info().signatures.iter().any(|signature| signature.result_types(&[elem, elem]).is_some());
            (is_whole && exists).then_some((op, elem))
        });
        let Some((op, elem)) = rewritten else {
            new.push(inst);
            continue;
        };
        let Some((&value, place)) = data.operands.split_last() else { continue };
        let mut make = |func: &mut Function, op: Op, operands: &[Value], results: &[Type]| {
            let inst = func.make_inst(op, SmallVec::from_slice(operands), results, Imm::None, data.span);
            new.push(inst);
            func.insts[inst].results.first().copied()
        };
        let Some(before) = make(func, Op::ArrayLoad, place, &[elem]) else { continue };
        let Some(after) = make(func, op, &[before, value], &[elem]) else { continue };
        let stored: SmallVec<[Value; 6]> = place.iter().copied().chain([after]).collect();
        make(func, Op::ArrayStore, &stored, &[]);
        replaced.set(data.results[0], before);
    }
    func.regions[region].insts = new;
}
