//! `insert_checks`: what checked mode checks.
//!
//! Before an access to an array element, a `check` per axis that the index, counted from the end if negative, lies
//! within the array, as does the last of several elements; the access then uses the index counted from the start.
//! Before an integer division, a `check` that the divisor is not zero. Both carry the span of what they guard. The
//! definitions of library ops are not checked: they are right for every operand.

use super::normalize_indices::{extent, one, wrap};
use crate::analysis::range::{AccessedElement, Index, accessed, possibly_negative_indices};
use polyloom_ir::{AxisExtent, Builder, CheckKind, Function, Imm, Inst, Op, Region, Scalar, Span, Type, Value};

/// Inserts the checks of indices of composites and of arrays in variables, which are gone after `scalarise`.
pub fn insert_component_checks(func: &mut Function) {
    if func.insts.values().any(|data| data.op == Op::WrapIndex) {
        component_region(func, func.body);
    }
}

fn component_region(func: &mut Function, out: Region) {
    for inst in std::mem::take(&mut func.regions[out].insts) {
        if let Imm::Extent(of) = &func.insts[inst].imm {
            let of = of.clone();
            check_component(func, out, inst, of);
        }
        func.regions[out].insts.push(inst);
        for inner in 0..func.insts[inst].regions.len() {
            component_region(func, func.insts[inst].regions[inner]);
        }
    }
}

fn check_component(func: &mut Function, out: Region, inst: Inst, of: AxisExtent) {
    let (index, span) = (func.insts[inst].operands[0], func.insts[inst].span);
    let unsigned = func.ty(index).as_scalar().is_some_and(Scalar::is_unsigned_int);
    let mut builder = Builder::new(func);
    builder.switch_to(out);
    builder.set_span(span);
    let index = builder.cast(index, Scalar::I64);
    let extent = builder.const_int(Scalar::I64, of.extent.into());
    // A signed index may be from `-extent` on, so moved by that it is below twice the extent.
    let (place, end) = match unsigned {
        true => (index, extent),
        false => (
            one(&mut builder, Op::Add, &[index, extent], Type::I64),
            builder.const_int(Scalar::I64, 2 * i64::from(of.extent)),
        ),
    };
    let (place, end) = (builder.cast(place, Scalar::U64), builder.cast(end, Scalar::U64));
    let inside = one(&mut builder, Op::Lt, &[place, end], Type::BOOL);
    let kind = CheckKind::Bounds { array: of.name, axis: of.axis, unsigned };
    builder.inst(Op::Check, &[inside, index, extent], &[], Imm::Check(kind));
}

/// Inserts the checks of array elements and divisors.
pub fn insert_checks(func: &mut Function) {
    let negative = possibly_negative_indices(func);
    let body = func.body;
    region(func, body, &negative, &mut 0);
}

fn region(func: &mut Function, out: Region, negative: &[Index], next: &mut usize) {
    let capacity = func.regions[out].insts.len() + 8;
    let insts = std::mem::replace(&mut func.regions[out].insts, Vec::with_capacity(capacity));
    for inst in insts {
        for element in accessed(func, inst) {
            for axis in 0..element.n_indices {
                let may_wrap = negative.get(*next) == Some(&(inst, element.first + axis));
                *next += usize::from(may_wrap);
                check_index(func, out, inst, element, axis, may_wrap);
            }
        }
        if matches!(func.insts[inst].op, Op::Div | Op::Mod | Op::FloorDiv) {
            check_divisor(func, out, inst);
        }
        func.regions[out].insts.push(inst);
        for inner in 0..func.insts[inst].regions.len() {
            region(func, func.insts[inst].regions[inner], negative, next);
        }
    }
}

fn check_index(func: &mut Function, out: Region, inst: Inst, element: AccessedElement, axis: u8, may_wrap: bool) {
    let AccessedElement { array, first, n_indices, count } = element;
    let operand = (first + axis) as usize;
    let (index, span) = (func.insts[inst].operands[operand], func.insts[inst].span);
    let param = func.params().iter().position(|&p| p == array);
    let name = param.map_or_else(|| func.value_names[array].clone(), |p| func.param_names.get(p).cloned());
    let from_start = if may_wrap { wrap(func, out, array, axis, index, span) } else { index };
    func.insts[inst].operands[operand] = from_start;
    let unsigned = func.ty(index).as_scalar().is_some_and(Scalar::is_unsigned_int);
    let kind = CheckKind::Bounds { array: name.unwrap_or_default(), axis, unsigned };
    check_inside(func, out, (array, axis), (index, from_start), kind.clone(), span);
    if count > 1 && axis + 1 == n_indices {
        // The last element of several.
        let mut builder = Builder::new(func);
        builder.switch_to(out);
        builder.set_span(span);
        let (wide, distance) =
            (builder.cast(from_start, Scalar::I64), builder.const_int(Scalar::I64, i64::from(count) - 1));
        let last = one(&mut builder, Op::Add, &[wide, distance], Type::I64);
        check_inside(func, out, (array, axis), (last, last), kind, span);
    }
}

/// Checks that an index, counted from the start, is inside; `shown` is what a report says of it.
fn check_inside(
    func: &mut Function,
    out: Region,
    (array, axis): (Value, u8),
    (shown, from_start): (Value, Value),
    kind: CheckKind,
    span: Span,
) {
    let is_wide = func.ty(from_start).as_scalar().is_some_and(|scalar| scalar.bits() == 64);
    let mut builder = Builder::new(func);
    builder.switch_to(out);
    builder.set_span(span);
    let extent = extent(&mut builder, array, axis);
    // Neither is negative but for an index before the array's start, which as an unsigned number lies past its end,
    // because one comparison checks both sides.
    let distance = if is_wide { Scalar::U64 } else { Scalar::U32 };
    let (place, end) = (builder.cast(from_start, distance), builder.cast(extent, distance));
    let inside = one(&mut builder, Op::Lt, &[place, end], Type::BOOL);
    let (shown, extent) = (builder.cast(shown, Scalar::I64), builder.cast(extent, Scalar::I64));
    builder.inst(Op::Check, &[inside, shown, extent], &[], Imm::Check(kind));
}

fn check_divisor(func: &mut Function, out: Region, inst: Inst) {
    let data = &func.insts[inst];
    let (&[dividend, divisor], span) = (&data.operands[..], data.span) else { return };
    let Some(scalar) = func.ty(divisor).as_scalar().filter(|scalar| scalar.is_int()) else { return };
    if func.as_const(divisor).is_some_and(|bits| bits != 0) {
        return;
    }
    let mut builder = Builder::new(func);
    builder.switch_to(out);
    builder.set_span(span);
    let zero = builder.const_int(scalar, 0);
    let is_nonzero = one(&mut builder, Op::Ne, &[divisor, zero], Type::BOOL);
    let dividend = builder.cast(dividend, Scalar::I64);
    let zero = builder.const_int(Scalar::I64, 0);
    builder.inst(Op::Check, &[is_nonzero, dividend, zero], &[], Imm::Check(CheckKind::Division));
}
