//! Atomic updates of elements that no other thread updates.
//!
//! `a[i] += x` is atomic in HIR. Where every update of an array is of an element of the thread's own, it is a load, an
//! operation and a store, which vectors of threads do together and which need no exclusive access.
//!
//! An array's elements are the threads' own if it overlaps no other array nor itself, and if for each axis of the
//! launch there is an axis of the array that all stores and updates index by the thread's coordinate: two threads then
//! differ in one of these indices.

use crate::Variant;
use polyloom_ir::{Builder, FuncId, Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value, ValueDef};
use smallvec::SmallVec;
use std::borrow::Cow;

/// By axis of the launch: which axis of an array is indexed by the coordinate along it.
type OwnAxes = SmallVec<[usize; 4]>;

/// The module with plain code in place of the kernel's atomic updates of elements that are a thread's own.
pub fn with_private_updates<'m>(module: &'m Module, kernel: FuncId, variant: &Variant) -> Cow<'m, Module> {
    let Some(func) = module.functions.get(kernel) else { return Cow::Borrowed(module) };
    let private: Vec<Value> = func
        .params()
        .iter()
        .enumerate()
        .filter(|&(index, &param)| {
            func.ty(param).as_array().is_some()
                && variant.facts.array(index).disjoint
                && is_private(func, param, usize::from(variant.launch_rank))
        })
        .map(|(_, &param)| param)
        .collect();
    if private.is_empty() {
        return Cow::Borrowed(module);
    }
    let mut module = module.clone();
    let func = &mut module.functions[kernel];
    rewrite(func, func.body, &private);
    Cow::Owned(module)
}

/// Whether an array is updated, and every store and update of it is of an element of the thread's own.
fn is_private(func: &Function, array: Value, launch_rank: usize) -> bool {
    let mut axes: Option<OwnAxes> = None;
    let mut is_private = true;
    let mut is_updated = false;
    func.walk(func.body, &mut |_, data| {
        if !is_private || !data.operands.contains(&array) {
            return;
        }
        match data.op {
            Op::ArrayLoad | Op::Dim => {}
            _ if data.op == Op::ArrayStore || data.op.combination().is_some() => {
                is_updated |= data.op != Op::ArrayStore;
                let indices = &data.operands[1..data.operands.len() - 1];
                let own = own_axes(func, indices, launch_rank);
                is_private = own.is_some_and(|own| *axes.get_or_insert_with(|| own.clone()) == own);
            }
            _ => is_private = false,
        }
    });
    is_private && is_updated
}

/// For each axis of the launch the first index that is the thread's coordinate along it.
fn own_axes(func: &Function, indices: &[Value], launch_rank: usize) -> Option<OwnAxes> {
    (0..launch_rank).map(|axis| indices.iter().position(|&index| is_coordinate(func, index, axis as u8))).collect()
}

/// Whether a value is the thread's coordinate along an axis. It is never negative, so nothing counts from an axis' end.
fn is_coordinate(func: &Function, value: Value, axis: u8) -> bool {
    let ValueDef::Result(inst, _) = func.values[value].def else { return false };
    let data = &func.insts[inst];
    match data.op {
        Op::Tid => data.imm == Imm::Axis(axis),
        Op::Cast => {
            let is_wide = func.ty(value).as_scalar().is_some_and(|to| to.is_int() && to.bits() >= 32);
            is_wide && is_coordinate(func, data.operands[0], axis)
        }
        _ => false,
    }
}

/// What an atomic update does to the old value.
fn rewrite(func: &mut Function, region: Region, private: &[Value]) {
    for inst in std::mem::take(&mut func.regions[region].insts) {
        let data = &func.insts[inst];
        match data.op.combination() {
            Some(op) if private.contains(&data.operands[0]) => update(func, region, inst, op),
            _ => func.regions[region].insts.push(inst),
        }
        for inner in 0..func.insts[inst].regions.len() {
            rewrite(func, func.insts[inst].regions[inner], private);
        }
    }
}

/// Appends the load that the atomic becomes, whose result is the old value, and what stores the new one.
fn update(func: &mut Function, region: Region, inst: Inst, op: Op) {
    let data = &mut func.insts[inst];
    data.op = Op::ArrayLoad;
    let Some(value) = data.operands.pop() else { return };
    let (span, old, mut operands) = (data.span, data.results[0], data.operands.clone());
    func.regions[region].insts.push(inst);
    let elem = func.ty(old).as_scalar().unwrap_or(Scalar::F32);
    let mut builder = Builder::new(func);
    builder.switch_to(region);
    builder.set_span(span);
    // Halves are computed in `f32`, as in all prepared HIR.
    let wide = if elem.is_half() { Scalar::F32 } else { elem };
    let (a, b) = (builder.cast(old, wide), builder.cast(value, wide));
    let new = builder.inst(op, &[a, b], &[Type::Scalar(wide)], Imm::None);
    let new = builder.func.insts[new].results[0];
    operands.push(builder.cast(new, elem));
    builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
}
