//! `legalize_half`: arithmetic on `f16` and `bf16` becomes arithmetic on `f32`.
//!
//! Both types are defined that way: an operation is computed in `f32` (`fma` in `f64`) and rounded to 16 bits. After
//! this pass only conversions to and from `f32`, constants, memory and selection know the types, so back ends need no
//! more than those.

use super::normalize_indices::one;
use polyloom_ir::function::Operands;
use polyloom_ir::op::{Lowering, OpGroup};
use polyloom_ir::{Builder, Function, Inst, Op, Region, Scalar, Type, Value};
use smallvec::smallvec;

/// Replaces arithmetic on 16-bit floats.
pub fn legalize_half(func: &mut Function) {
    if func.values.values().any(|value| is_half(value.ty)) {
        let body = func.body;
        region(func, body);
    }
}

fn is_half(ty: Type) -> bool {
    ty.as_scalar().is_some_and(Scalar::is_half)
}

fn region(func: &mut Function, out: Region) {
    let capacity = func.regions[out].insts.len() + 8;
    let insts = std::mem::replace(&mut func.regions[out].insts, Vec::with_capacity(capacity));
    for inst in insts {
        if is_arithmetic(func, inst) {
            rewrite(func, inst, out);
        }
        func.regions[out].insts.push(inst);
        for index in 0..func.insts[inst].regions.len() {
            region(func, func.insts[inst].regions[index]);
        }
    }
}

fn is_arithmetic(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    if data.op.info().lowering == Lowering::Library {
        // `expand_library` turns these into `f32` calls.
        return false;
    }
    let group = matches!(data.op.info().group, OpGroup::Arithmetic | OpGroup::Comparison | OpGroup::Math);
    let single = data.results.len() == 1;
    single && (group || data.op == Op::Cast) && data.operands.iter().chain(&data.results).any(|&v| is_half(func.ty(v)))
}

/// Appends to `out` what `inst` needs before it, and makes it the last step: its result keeps its type.
fn rewrite(func: &mut Function, inst: Inst, out: Region) {
    let data = &func.insts[inst];
    let (op, operands, span) = (data.op, data.operands.clone(), data.span);
    let result = func.ty(data.results[0]);
    let mut builder = Builder::new(func);
    builder.switch_to(out);
    builder.set_span(span);
    if op == Op::Cast {
        let source = cast_source(&mut builder, operands[0], result);
        func.insts[inst].operands = smallvec![source];
        return;
    }
    let wide = if op == Op::Fma { Scalar::F64 } else { Scalar::F32 };
    let widened: Operands =
        operands.iter().map(|&v| if is_half(builder.func.ty(v)) { widen(&mut builder, v, wide) } else { v }).collect();
    if !is_half(result) {
        func.insts[inst].operands = widened;
        return;
    }
    let mut value = one(&mut builder, op, &widened, wide.into());
    if wide == Scalar::F64 {
        value = round_to_odd(&mut builder, value);
    }
    let data = &mut func.insts[inst];
    data.op = Op::Cast;
    data.operands = smallvec![value];
}

fn widen(builder: &mut Builder<'_>, value: Value, to: Scalar) -> Value {
    let single = builder.cast(value, Scalar::F32);
    builder.cast(single, to)
}

/// The `f32` operand, or for a wide result the operand, from which one cast gives what a cast of `value` gives.
fn cast_source(builder: &mut Builder<'_>, value: Value, result: Type) -> Value {
    let from = builder.func.ty(value);
    if is_half(from) {
        // The cast to `f32` is exact, whatever follows.
        return if result == Type::F32 { value } else { builder.cast(value, Scalar::F32) };
    }
    match from {
        Type::F32 => value,
        Type::F64 => round_to_odd(builder, value),
        Type::Scalar(Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64) => {
            let double = builder.cast(value, Scalar::F64);
            round_to_odd(builder, double)
        }
        // At most 16 bits: exact in `f32`.
        _ => builder.cast(value, Scalar::F32),
    }
}

/// The `f64` value rounded to an `f32` with an odd last bit unless it is exact, because rounding that to 16 bits gives
/// what rounding the `f64` at once would. (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008, theorem 1; `f32` has 13 and 16 more
/// digits than the two types, two suffice.)
fn round_to_odd(builder: &mut Builder<'_>, value: Value) -> Value {
    let nearest = builder.cast(value, Scalar::F32);
    let back = builder.cast(nearest, Scalar::F64);
    let size = one(builder, Op::Abs, &[value], Type::F64);
    let back_size = one(builder, Op::Abs, &[back], Type::F64);
    // With a NaN neither holds, so that its bits stay what they are.
    let too_large = one(builder, Op::Gt, &[back_size, size], Type::BOOL);
    let too_small = one(builder, Op::Lt, &[back_size, size], Type::BOOL);
    let bits = builder.bitcast(nearest, Scalar::U32);
    let [zero, unit, minus_unit] = [0, 1, -1].map(|n| builder.const_int(Scalar::U32, n));
    let up = one(builder, Op::Select, &[too_small, unit, zero], Type::U32);
    let step = one(builder, Op::Select, &[too_large, minus_unit, up], Type::U32);
    // The number is one of the two neighbours of the exact one, so that a step from an even one reaches the odd one; an
    // odd one stays.
    let stepped = one(builder, Op::Add, &[bits, step], Type::U32);
    let last = one(builder, Op::BitAnd, &[bits, unit], Type::U32);
    let is_odd = one(builder, Op::Eq, &[last, unit], Type::BOOL);
    let odd = one(builder, Op::Select, &[is_odd, bits, stepped], Type::U32);
    builder.bitcast(odd, Scalar::F32)
}
