//! Atomic updates of elements that no other thread updates.
//!
//! `a[i] += x` is atomic in HIR. Where every update of an array is of an element of the thread's own, it is a load, an
//! operation and a store, which vectors of threads do together and which need no exclusive access.
//!
//! An array's elements are the threads' own if it overlaps no other array nor itself, and if for each axis of the
//! launch there is an axis of the array that all stores and updates index by the same multiple of the thread's
//! coordinate, plus a constant: two threads then differ in one of these indices.
//!
//! If no two threads of the processor share what is updated, an update need only be of another element in every thread
//! that executes it together with this one: one of an element beside the thread's own is plain as well.
//!
//! Design: `docs/design/atomic-updates.md`.

use crate::CodeVariant;
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::{Builder, FuncId, Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::borrow::Cow;

/// For each axis of the launch, which axis of an array is indexed by the coordinate along it, times what, plus what.
type OwnAxes = SmallVec<[(usize, i64, i64); 4]>;

/// The module with plain code in place of the kernel's atomic updates of elements that are a thread's own.
pub fn with_private_updates<'m>(module: &'m Module, kernel: FuncId, variant: &CodeVariant) -> Cow<'m, Module> {
    let Some(func) = module.functions.get(kernel) else { return Cow::Borrowed(module) };
    let private: Vec<Value> = func
        .params()
        .iter()
        .enumerate()
        .filter(|&(index, &param)| {
            // A kernel whose threads are blocks updates an element of a block's own by each thread of the block.
            !func.metadata.by_block
                && func.ty(param).as_array().is_some()
                && variant.facts.array(index).disjoint
                && is_private(func, param, usize::from(variant.launch_rank))
        })
        .map(|(_, &param)| param)
        .collect();
    let apart = if variant.facts.alone { updates_apart(func, variant) } else { FxHashSet::default() };
    if private.is_empty() && apart.is_empty() {
        return Cow::Borrowed(module);
    }
    let mut module = module.clone();
    let func = &mut module.functions[kernel];
    rewrite(func, func.body, &|func, inst| private.contains(&func.insts[inst].operands[0]) || apart.contains(&inst));
    Cow::Owned(module)
}

/// Returns true if an array is updated, and every store and update of it is of an element of the thread's own.
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

/// Updates that are of another element in every thread: for each axis of the launch, an index is a multiple of the
/// thread's coordinate plus a constant. Indices that count from an axis' end have been made others before.
fn updates_apart(func: &Function, variant: &CodeVariant) -> FxHashSet<Inst> {
    let mut apart = FxHashSet::default();
    func.walk(func.body, &mut |inst, data| {
        let Some(array) = data.op.combination().and_then(|_| func.param_index(data.operands[0])) else { return };
        let facts = variant.facts.array(array);
        if !facts.contiguous || !facts.disjoint || func.ty(data.operands[0]).as_array().is_none() {
            return;
        }
        let indices = &data.operands[1..data.operands.len() - 1];
        let has = |axis: u8| indices.iter().any(|&index| multiple(func, index, axis).is_some());
        if (0..variant.launch_rank).all(has) {
            apart.insert(inst);
        }
    });
    apart
}

/// For each axis of the launch the first index that follows from the coordinate along it alone.
fn own_axes(func: &Function, indices: &[Value], launch_rank: usize) -> Option<OwnAxes> {
    let along = |axis: usize| {
        let mut found = indices.iter().enumerate();
        found.find_map(|(at, &index)| multiple(func, index, axis as u8).map(|(factor, offset)| (at, factor, offset)))
    };
    (0..launch_rank).map(along).collect()
}

/// A multiple of the thread's coordinate along an axis, plus a constant: both, if no two threads of a launch have the
/// same. Modulo 2^32, odd multiples of different coordinates differ, and so do those of twice these, since coordinates
/// are less than 2^31.
fn multiple(func: &Function, index: Value, axis: u8) -> Option<(i64, i64)> {
    let (of, factor, rest) = AffineSum::of(func, index).along_one_axis()?;
    (of == axis && factor % 4 != 0).then_some((factor, rest.as_const()?))
}

/// Returns what an atomic update does to the old value.
fn rewrite(func: &mut Function, region: Region, is_plain: &dyn Fn(&Function, Inst) -> bool) {
    for inst in std::mem::take(&mut func.regions[region].insts) {
        let data = &func.insts[inst];
        match data.op.combination() {
            Some(op) if is_plain(func, inst) => update(func, region, inst, op),
            _ => func.regions[region].insts.push(inst),
        }
        for inner in 0..func.insts[inst].regions.len() {
            rewrite(func, func.insts[inst].regions[inner], is_plain);
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
