//! What derivatives flow through: values that depend on active parameters, and how arrays are accessed.

use super::Request;
use super::rules::derivative;
use super::sweep::Array;
use crate::analysis::range::{Index, possibly_negative_indices};
use cranelift_entity::EntitySet;
use polyloom_ir::op::{Derivative, Effect};
use polyloom_ir::{Function, Imm, Inst, Op, Region, Type, Value, ValueDef};
use smallvec::SmallVec;

/// The values that depend on an active parameter, so that a derivative with respect to them may matter.
pub(super) fn active_values(func: &Function, is_active: &[bool]) -> EntitySet<Value> {
    let mut active = EntitySet::with_capacity(func.values.len());
    for (&param, _) in func.params().iter().zip(is_active).filter(|(_, active)| **active) {
        active.insert(param);
    }
    // Loops feed their results back to their beginning.
    while visit(func, func.body, &mut active) {}
    active
}

/// Adds the active values of a region; gives whether there were any new ones.
fn visit(func: &Function, region: Region, active: &mut EntitySet<Value>) -> bool {
    let mut grows = false;
    for &inst in &func.regions[region].insts {
        let data = &func.insts[inst];
        match data.op {
            Op::If | Op::ForRange | Op::While | Op::Block => {
                let n_bounds = if data.op == Op::ForRange { 3 } else { 0 };
                for (slot, &result) in data.results.iter().enumerate() {
                    let mut flows_in: SmallVec<[Value; 4]> = SmallVec::new();
                    let carries = matches!(data.op, Op::ForRange | Op::While);
                    if carries {
                        flows_in.push(data.operands[n_bounds + slot]);
                    }
                    // Early exits have brought it there.
                    flows_in.push(result);
                    let ends = data.regions.iter().skip(usize::from(data.op == Op::While));
                    for &inner in ends {
                        let last = func.terminator(inner).map(|last| &func.insts[last]);
                        flows_in.extend(last.filter(|last| last.op == Op::Yield).map(|last| last.operands[slot]));
                    }
                    if flows_in.iter().any(|&value| active.contains(value)) {
                        grows |= active.insert(result);
                        if carries {
                            for &inner in &data.regions {
                                let params = &func.regions[inner].params;
                                grows |= active.insert(params[params.len() - data.results.len() + slot]);
                            }
                        }
                    }
                }
                for &inner in &data.regions {
                    grows |= visit(func, inner, active);
                }
            }
            Op::Break | Op::Continue => {
                let Imm::Target(target) = data.imm else { continue };
                for (&value, &result) in data.operands.iter().zip(&func.insts[target].results) {
                    grows |= active.contains(value) && active.insert(result);
                }
            }
            _ => {
                let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&operand| func.ty(operand)).collect();
                let flows = data.op == Op::Call || !matches!(derivative(data.op, &types), Derivative::Zero);
                if flows && data.operands.iter().any(|&operand| active.contains(operand)) {
                    for &result in &data.results {
                        if func.ty(result).is_float() {
                            grows |= active.insert(result);
                        }
                    }
                }
            }
        }
    }
    grows
}

/// How the kernel accesses each of its parameters.
pub(super) fn arrays(func: &Function, request: &Request) -> Vec<Array> {
    let is_own = own_elements(func, request);
    let mut loaded = vec![false; is_own.len()];
    let mut stored = vec![false; is_own.len()];
    func.walk(func.body, &mut |_, data| {
        for param in data.operands.iter().filter_map(|&operand| func.param_index(operand)) {
            loaded[param] |= data.op.info().effect == Effect::Read;
        }
        if let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) {
            stored[param] |= data.op == Op::ArrayStore;
        }
    });
    let is_extremum = extrema(func);
    let of = |param: usize| Array {
        adjoint: None,
        is_replayed: loaded[param] && stored[param],
        is_private: is_own[param],
        is_extremum: is_extremum[param],
    };
    (0..is_own.len()).map(of).collect()
}

/// By parameter: whether the kernel does nothing with the array but one of `atomic_min` and `atomic_max`.
pub(super) fn extrema(func: &Function) -> Vec<bool> {
    let mut ops: Vec<Option<Op>> = vec![None; func.params().len()];
    let mut is_one = vec![true; ops.len()];
    func.walk(func.body, &mut |_, data| {
        let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) else { return };
        if data.op != Op::Dim {
            is_one[param] &= ops[param].is_none_or(|op| op == data.op);
            ops[param] = Some(data.op);
        }
    });
    let is_extremum = |op: Option<Op>| matches!(op, Some(Op::AtomicMin | Op::AtomicMax));
    ops.into_iter().zip(is_one).map(|(op, is_one)| is_one && is_extremum(op)).collect()
}

/// By parameter: whether each thread has elements of the array of its own, and accesses no others. It has where, in
/// every access, the same indices are its own coordinates, along all axes of the launch.
pub(super) fn own_elements(func: &Function, request: &Request) -> Vec<bool> {
    type Places = SmallVec<[(usize, u8); 4]>;
    let mut own: Vec<Option<Places>> = vec![None; func.params().len()];
    func.walk(func.body, &mut |_, data| {
        if data.op == Op::Call {
            // Its gradient may add to any elements.
            let params = data.operands.iter().filter_map(|&operand| func.param_index(operand));
            params.for_each(|param| own[param] = Some(Places::new()));
            return;
        }
        let Some(param) = data.operands.first().and_then(|&array| func.param_index(array)) else { return };
        let n_values = match data.op {
            Op::ArrayLoad | Op::LoadReadonly => 0,
            Op::Dim => return,
            _ => 1,
        };
        let indices = &data.operands[1..data.operands.len().saturating_sub(n_values).max(1)];
        let here = indices.iter().enumerate();
        let here = here.filter_map(|(position, &index)| coordinate(func, index).map(|axis| (position, axis)));
        let here: Places = here.collect();
        own[param] = Some(match own[param].take() {
            None => here,
            Some(before) => before.into_iter().filter(|place| here.contains(place)).collect(),
        });
    });
    let rank = natural_rank(func).max(request.rank);
    let covers = |places: Places| (0..rank).all(|axis| places.iter().any(|&(_, of)| of == axis));
    let is_apart = |param: usize| !request.coinciding.get(param).copied().unwrap_or(false);
    own.into_iter().enumerate().map(|(param, places)| is_apart(param) && places.is_some_and(covers)).collect()
}

/// The stores that are to another element in every thread: for each axis of the launch, an index is the thread's
/// coordinate plus what is the same in all threads, and counts from the end of its axis in none.
pub(super) fn stores_apart(func: &Function, request: &Request) -> EntitySet<Inst> {
    let rank = natural_rank(func).max(request.rank);
    let mut apart = EntitySet::new();
    let negative = possibly_negative_indices(func);
    func.walk(func.body, &mut |inst, data| {
        if data.op != Op::ArrayStore {
            return;
        }
        let along = |axis: u8| {
            (1..data.operands.len() - 1).any(|operand| {
                shifted_coordinate(func, data.operands[operand]).is_some_and(|index| index.axis == axis)
                    && !counts_from_end(func, &negative, (inst, operand as u8))
            })
        };
        if (0..rank).all(along) {
            apart.insert(inst);
        }
    });
    apart
}

/// A value that is the thread's coordinate along an axis of the launch, but for a constant or a parameter.
#[derive(Clone, Copy)]
pub(super) struct Shifted {
    pub(super) axis: u8,
    /// What is added to the coordinate, or subtracted from it.
    pub(super) by: Option<(Op, Value)>,
}

pub(super) fn shifted_coordinate(func: &Function, value: Value) -> Option<Shifted> {
    if let Some(axis) = coordinate(func, value) {
        return Some(Shifted { axis, by: None });
    }
    let ValueDef::Result(inst, _) = func.values[value].def else { return None };
    let data = &func.insts[inst];
    let is_same = |value: Value| func.as_const(value).is_some() || func.param_index(value).is_some();
    let (base, by) = match (data.op, &data.operands[..]) {
        (Op::Add | Op::Sub, &[base, by]) if is_same(by) => (base, by),
        (Op::Add, &[by, base]) if is_same(by) => (base, by),
        _ => return None,
    };
    Some(Shifted { axis: coordinate(func, base)?, by: Some((data.op, by)) })
}

/// Whether an index, of those that may be `negative`, may count from the end of its axis: what a coordinate is added to
/// overflows in launches alone that are too long for an array.
pub(super) fn counts_from_end(func: &Function, negative: &[Index], (access, operand): Index) -> bool {
    let constant = |by: Value| func.as_const(by).map(|bits| i64::from(bits as u32 as i32));
    let may_be_below = |shifted: Shifted| match shifted.by {
        None => false,
        Some((Op::Sub, by)) => constant(by).is_none_or(|by| by > 0),
        Some((_, by)) => constant(by).is_none_or(|by| by < 0),
    };
    negative.contains(&(access, operand))
        && shifted_coordinate(func, func.insts[access].operands[usize::from(operand)]).is_none_or(may_be_below)
}

/// The axis of the launch that a value is the thread's coordinate along.
fn coordinate(func: &Function, value: Value) -> Option<u8> {
    let ValueDef::Result(inst, _) = func.values[value].def else { return None };
    let data = &func.insts[inst];
    match (data.op, &data.imm) {
        (Op::Tid, &Imm::Axis(axis)) => Some(axis),
        _ => None,
    }
}

/// How many coordinates the kernel asks for.
fn natural_rank(func: &Function) -> u8 {
    let mut rank = 1;
    func.walk(func.body, &mut |_, data| {
        if let (Op::Tid, &Imm::Axis(axis)) = (data.op, &data.imm) {
            rank = rank.max(axis + 1);
        }
    });
    rank
}
