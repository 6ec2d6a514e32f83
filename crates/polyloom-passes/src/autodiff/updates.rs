//! Atomic updates of elements that no other thread touches: a load and a store, which have a derivative where what an
//! atomic update gives has none.
//!
//! `a[i] += x` is an atomic update in HIR, whoever else may come to the element. Sums that nothing reads stay: their
//! reverse is a load. Of updates that have no derivative, it is said here why.

use super::activity::own_elements;
use super::instructions::is_used;
use super::request::DerivativeRequest;
use crate::edit::ValueReplacements;
use polyloom_ir::{Builder, Function, Imm, Inst, Op, Region, Scalar, Type, Value};
use smallvec::SmallVec;

/// Has `atomic_min` and `atomic_max` of composites update their components, each of which has an extremum of its own.
pub(super) fn extrema_of_components(func: &mut Function) {
    // Before anything is moved, because what is used must be found wherever it is.
    let mut wholes = Vec::new();
    func.walk(func.body, &mut |inst, data| {
        if matches!(data.op, Op::AtomicMin | Op::AtomicMax) && !is_used(func, data.results[0]) {
            wholes.push(inst);
        }
    });
    in_components(func, func.body, &wholes);
}

fn in_components(func: &mut Function, region: Region, wholes: &[Inst]) {
    for inst in std::mem::take(&mut func.regions[region].insts) {
        for inner in func.insts[inst].regions.clone() {
            in_components(func, inner, wholes);
        }
        let data = func.insts[inst].clone();
        let whole = data.operands.last().and_then(|&value| func.ty(value).as_composite());
        let Some(composite) = whole.filter(|_| wholes.contains(&inst)) else {
            func.regions[region].insts.push(inst);
            continue;
        };
        let Some((&value, place)) = data.operands.split_last() else { continue };
        let (shape, elem) = (composite.shape(), Type::Scalar(composite.elem()));
        let n_columns = usize::from(shape[shape.len() - 1]);
        let mut builder = Builder::new(func);
        builder.switch_to(region);
        builder.set_span(data.span);
        for component in 0..composite.n_components() {
            let mut operands: SmallVec<[Value; 6]> = place.into();
            for &index in &[component / n_columns, component % n_columns][2 - shape.len()..] {
                operands.push(builder.const_int(Scalar::I32, index as i64));
            }
            let part = builder.inst(Op::Component, &[value], &[elem], Imm::Component(component as u16));
            operands.push(builder.func.insts[part].results[0]);
            builder.inst(data.op, &operands, &[elem], data.imm.clone());
        }
    }
}

/// For each parameter, whether each thread has elements of the array of its own and the kernel reads them as well as it
/// updates them.
pub(super) fn read_and_own(func: &Function, request: &DerivativeRequest) -> Vec<bool> {
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
    is_own.iter().zip(&is_read).map(|(own, read)| *own && *read).collect()
}

/// Rewrites the updates of these parameters, of which no two threads touch one element.
pub(super) fn as_loads_and_stores(func: &mut Function, wanted: &[bool]) {
    if wanted.contains(&true) {
        let mut replaced = ValueReplacements::default();
        visit(func, func.body, wanted, &mut replaced);
        replaced.apply_to_region(func, func.body);
    }
}

fn visit(func: &mut Function, region: Region, wanted: &[bool], replaced: &mut ValueReplacements) {
    let old = std::mem::take(&mut func.regions[region].insts);
    let mut new: Vec<Inst> = Vec::with_capacity(old.len());
    for inst in old {
        let data = func.insts[inst].clone();
        for &inner in &data.regions {
            visit(func, inner, wanted, replaced);
        }
        let rewritten = data.op.combination().and_then(|op| {
            func.param_index(data.operands[0]).filter(|&param| wanted[param])?;
            let (&value, place) = data.operands.split_last()?;
            // An element, or a component of one.
            let ty = func.ty(value);
            // There is no `min` of matrices.
            let exists = op.info().signatures.iter().any(|signature| signature.result_types(&[ty, ty]).is_some());
            exists.then_some((op, ty, value, place))
        });
        let Some((op, ty, value, place)) = rewritten else {
            new.push(inst);
            continue;
        };
        let mut make = |func: &mut Function, op: Op, operands: &[Value], results: &[Type]| {
            let inst = func.make_inst(op, SmallVec::from_slice(operands), results, Imm::None, data.span);
            new.push(inst);
            func.insts[inst].results.first().copied()
        };
        let Some(before) = make(func, Op::ArrayLoad, place, &[ty]) else { continue };
        let Some(after) = make(func, op, &[before, value], &[ty]) else { continue };
        let stored: SmallVec<[Value; 6]> = place.iter().copied().chain([after]).collect();
        make(func, Op::ArrayStore, &stored, &[]);
        replaced.set(data.results[0], before);
    }
    func.regions[region].insts = new;
}

/// Says why an atomic update whose result is used has no derivative, and what to do about it.
pub(super) fn used_update(op: Op) -> (String, &'static str) {
    let message = format!("what `{}` gives depends on the order of threads, and the kernel uses it", op.name());
    (message, "do the update in a kernel of its own, which stores what it gives in an array for this one to read")
}

/// Says why an atomic update of an active array has no derivative, and what to do about it.
pub(super) fn active_update(op: Op) -> (String, &'static str) {
    let message = format!("`{}` of an array that needs a gradient has no derivative", op.name());
    (message, "pass the array as one that needs no gradient, or update it by `atomic_add`")
}

/// Says why `atomic_min` and `atomic_max` have no derivative on an array that something else is done with as well.
pub(super) fn mixed_extremum(op: Op) -> (String, &'static str) {
    let message = format!(
        "`{}` of an element that the kernel may also use in another way: whose value it has in the end does not show \
         what came between",
        op.name()
    );
    (message, "use another array for the rest, or elements that constant indices tell apart")
}
