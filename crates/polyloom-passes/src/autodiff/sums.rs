//! Sums that leave their loops: what each iteration adds to one element is added up in a carried value, and to memory
//! once, after the loop.
//!
//! The reverse of `x[i]` in a loop that does not change `i` is such a sum. It leaves if its array is only added to in
//! the loop: nothing there then sees how far it has come. What a loop that does not run, or a branch that is not taken,
//! would add to need not be an element: a sum is added only where one of its parts would have been.
//!
//! Design: `docs/design/gradient-sums.md`.

use super::constants::zero;
use crate::transform::licm;
use cranelift_entity::EntitySet;
use polyloom_ir::{
    Builder, CallEffects, Function, Imm, Inst, InstData, Op, Region, Scalar, Type, Value, ValueData, ValueDef,
};
use smallvec::SmallVec;

/// An array and the indices of an element of it.
pub(super) type Place = SmallVec<[Value; 4]>;

pub(super) type Values = SmallVec<[Value; 8]>;

/// Moves sums out of the loops of a backward kernel; gives whether there are any in loops.
pub(super) fn leave_loops(func: &mut Function) -> bool {
    let mut any = false;
    func.walk(func.body, &mut |_, data| {
        any |= data.op == Op::ForRange && data.regions.iter().any(|&region| has_sums(func, region));
    });
    if any {
        // Indices that a loop does not change are outside of it then.
        licm::licm(func, &CallEffects::default());
        visit(func, func.body);
    }
    any
}

/// Returns true if an instruction adds to an element and does nothing else, because what was there before, nobody asks.
pub(super) fn is_sum(func: &Function, data: &InstData) -> bool {
    data.op == Op::AtomicAdd
        && data.imm == Imm::None
        && func.param_index(data.operands[0]).is_some()
        // A component of an element is left to itself.
        && func.ty(data.operands[0]).as_any_array().is_some_and(|(elem, ndim)| {
            data.operands.len() == usize::from(ndim) + 2 && func.ty(data.operands[data.operands.len() - 1]) == elem
        })
}

fn has_sums(func: &Function, region: Region) -> bool {
    let mut found = false;
    func.walk(region, &mut |_, data| found |= is_sum(func, data));
    found
}

/// Inner loops first, because what leaves them may leave the loop around them as well.
fn visit(func: &mut Function, region: Region) {
    let mut index = 0;
    while let Some(&inst) = func.regions[region].insts.get(index) {
        for inner in func.insts[inst].regions.clone() {
            visit(func, inner);
        }
        if func.insts[inst].op == Op::ForRange {
            let sums = sums(func, inst);
            if !sums.is_empty() {
                let behind = func.regions[region].insts.split_off(index + 1);
                carry(func, region, inst, &sums);
                let insts = &mut func.regions[region].insts;
                index = insts.len() - 1;
                insts.extend(behind);
            }
        }
        index += 1;
    }
}

/// Describes what a loop adds to, whatever the iteration.
pub(super) struct LoopSum {
    pub(super) place: Place,
    /// True if it is in a branch, so that an iteration need not add to it.
    pub(super) is_conditional: bool,
}

/// The elements that a loop adds to in every iteration, of arrays that it does nothing else with.
fn sums(func: &Function, inst: Inst) -> Vec<LoopSum> {
    let body = func.insts[inst].regions[0];
    let mut inside = EntitySet::new();
    let mut used = EntitySet::new();
    let mut leaves = false;
    inside.extend(func.regions[body].params.iter().copied());
    func.walk(body, &mut |_, data| {
        leaves |= data.op.info().is_terminator() && data.op != Op::Yield;
        inside.extend(data.results.iter().copied());
        used.extend(data.operands.iter().copied());
        for &region in &data.regions {
            inside.extend(func.regions[region].params.iter().copied());
        }
    });
    let mut found: Vec<LoopSum> = Vec::new();
    // Counted by ones, as loops of the reverse sweep are, a loop runs if it begins below its end.
    if leaves || func.as_const(func.insts[inst].operands[2]) != Some(1) {
        return found;
    }
    let adds = |data: &InstData| is_sum(func, data) && !data.results.iter().any(|&result| used.contains(result));
    let mut touched = EntitySet::new();
    func.walk(body, &mut |_, data| {
        if !adds(data) && data.op != Op::Dim {
            touched.extend(data.operands.iter().copied());
        }
    });
    let mut pending: Vec<Region> = vec![body];
    while let Some(region) = pending.pop() {
        for &inner in &func.regions[region].insts {
            let data = &func.insts[inner];
            if data.op == Op::If {
                pending.extend(&data.regions);
            }
            let Some((_, place)) = data.operands.split_last() else { continue };
            if !adds(data) || touched.contains(place[0]) || place.iter().any(|&operand| inside.contains(operand)) {
                continue;
            }
            match found.iter_mut().find(|sum| sum.place[..] == *place) {
                Some(sum) => sum.is_conditional &= region != body,
                None => found.push(LoopSum { place: place.into(), is_conditional: region != body }),
            }
        }
    }
    found
}

/// Has a loop carry sums, and adds them to memory behind it. The loop is the last instruction of `region`.
fn carry(func: &mut Function, region: Region, inst: Inst, sums: &[LoopSum]) {
    let body = func.insts[inst].regions[0];
    let span = func.insts[inst].span;
    func.regions[region].insts.pop();
    let mut builder = Builder::new(func);
    builder.switch_to(region);
    builder.set_span(span);
    let mut types: Vec<Type> = sums.iter().filter_map(|sum| elem_of(builder.func, sum)).collect();
    let mut initial: Values = types.iter().map(|&ty| zero(&mut builder, ty)).collect();
    // Behind the sums, whether there is anything in those that need not have been added to.
    for _ in sums.iter().filter(|sum| sum.is_conditional) {
        types.push(Type::Scalar(Scalar::Bool));
        initial.push(builder.const_bool(false));
    }
    builder.func.insts[inst].operands.extend(initial);
    let carried: Values = types.iter().map(|&ty| builder.func.add_region_param(body, ty)).collect();
    let next = taken_out(builder.func, body, sums, carried);
    extend_terminator(builder.func, body, &next);
    builder.func.regions[region].insts.push(inst);
    let results = add_results(builder.func, inst, &types);
    let mut flags = results[sums.len()..].iter();
    let [start, end] = [0, 1].map(|operand| builder.func.insts[inst].operands[operand]);
    for (sum, &value) in sums.iter().zip(&results) {
        let flag = if sum.is_conditional { flags.next() } else { None };
        let is_any = flag.copied().unwrap_or_else(|| builder.op(Op::Lt, &[start, end]));
        let regions = [builder.create_region(&[]), builder.create_region(&[])];
        builder.switch_to(regions[0]);
        let operands: Values = sum.place.iter().copied().chain([value]).collect();
        let ty = builder.func.ty(value);
        builder.inst(Op::AtomicAdd, &operands, &[ty], Imm::None);
        builder.yield_(&[]);
        builder.switch_to(regions[1]);
        builder.yield_(&[]);
        builder.switch_to(region);
        builder.region_inst(Op::If, &[is_any], &[], &regions);
    }
}

fn elem_of(func: &Function, sum: &LoopSum) -> Option<Type> {
    func.ty(sum.place[0]).as_any_array().map(|(elem, _)| elem)
}

/// Takes what is added to these elements out of a region. `values` are the sums so far, and whether there is anything
/// in those that are conditional; gives what they are at the region's end.
pub(super) fn taken_out(func: &mut Function, region: Region, sums: &[LoopSum], mut values: Values) -> Values {
    for inst in std::mem::take(&mut func.regions[region].insts) {
        let data = &func.insts[inst];
        if let (Op::AtomicAdd, Some((&value, place))) = (data.op, data.operands.split_last())
            && let Some(number) = sums.iter().position(|sum| sum.place[..] == *place)
        {
            let span = data.span;
            let mut builder = Builder::new(func);
            builder.switch_to(region);
            builder.set_span(span);
            values[number] = builder.op(Op::Add, &[values[number], value]);
            if sums[number].is_conditional {
                let flag = sums[..number].iter().filter(|sum| sum.is_conditional).count();
                values[sums.len() + flag] = builder.const_bool(true);
            }
            continue;
        }
        func.regions[region].insts.push(inst);
        if func.insts[inst].op != Op::If {
            continue;
        }
        let regions = func.insts[inst].regions.clone();
        let sides: SmallVec<[Values; 2]> =
            regions.iter().map(|&side| taken_out(func, side, sums, values.clone())).collect();
        let changed: SmallVec<[usize; 8]> =
            (0..values.len()).filter(|&slot| sides.iter().any(|side| side[slot] != values[slot])).collect();
        for (&side, found) in regions.iter().zip(&sides) {
            let more: Values = changed.iter().map(|&slot| found[slot]).collect();
            extend_terminator(func, side, &more);
        }
        let types: Vec<Type> = changed.iter().map(|&slot| func.ty(values[slot])).collect();
        for (&slot, result) in changed.iter().zip(add_results(func, inst, &types)) {
            values[slot] = result;
        }
    }
    values
}

/// Has a region yield more values.
pub(super) fn extend_terminator(func: &mut Function, region: Region, values: &[Value]) {
    if let Some(last) = func.terminator(region) {
        func.insts[last].operands.extend(values.iter().copied());
    }
}

/// Gives an instruction more results.
pub(super) fn add_results(func: &mut Function, inst: Inst, types: &[Type]) -> Values {
    let mut added = Values::new();
    for &ty in types {
        let index = func.insts[inst].results.len() as u32;
        let value = func.values.push(ValueData { ty, def: ValueDef::Result(inst, index) });
        func.insts[inst].results.push(value);
        added.push(value);
    }
    added
}
