//! Conversions between scalar types.
//!
//! 16-bit floats are held as their bits. binary16 is converted by the processor where it can; bfloat16 always by
//! integer arithmetic, because the processor's instruction flushes subnormals.

use super::arith::ArithContext;
use crate::ir::*;
use polyloom_ir::Scalar;

/// Converts every lane of `value`.
pub(crate) fn cast(arith: &ArithContext<'_, '_>, value: Val, from: Scalar, to: Scalar) -> Val {
    let ir = arith.ir;
    let ty = arith.ty(to, value);
    let zero = || ir.zero(ir.type_of(value));
    match (from, to) {
        _ if from == to => value,
        (Scalar::Bool, _) if to.is_half() => {
            let one = if to == Scalar::F16 { 0x3c00 } else { 0x3f80 };
            ir.select(value, ir.int_const(ty, one), ir.zero(ty))
        }
        (Scalar::Bool, _) if to.is_float() => ir.uitofp(value, ty),
        (Scalar::Bool, _) => ir.zext(value, ty),
        (_, Scalar::Bool) if from.is_half() => {
            let magnitude = ir.and(value, ir.int_const(ir.type_of(value), 0x7fff));
            ir.icmp(NE, magnitude, zero())
        }
        (_, Scalar::Bool) if from.is_float() => ir.fcmp(UNE, value, zero()),
        (_, Scalar::Bool) => ir.icmp(NE, value, zero()),
        _ if from.is_half() => {
            let wide = half_to_f32(arith, value, from);
            cast(arith, wide, Scalar::F32, to)
        }
        (Scalar::F32, _) if to.is_half() => f32_to_half(arith, value, to),
        (Scalar::F64, _) if to.is_half() => f32_to_half(arith, f64_to_odd_f32(arith, value), to),
        _ if to.is_half() => {
            let exact = cast(arith, value, from, Scalar::F64);
            cast(arith, exact, Scalar::F64, to)
        }
        (Scalar::F32, Scalar::F64) => ir.fpext(value, ty),
        (Scalar::F64, Scalar::F32) => ir.fptrunc(value, ty),
        _ if from.is_float() && ir.n_lanes(value) > 1 && !arith.processor.is_gpu => {
            float_lanes_to_int(ir, value, ty, to)
        }
        _ if from.is_float() => {
            let name = if to.is_signed_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            ir.intrinsic(name, &[ty, ir.type_of(value)], &[value])
        }
        _ if to.is_float() && from.is_signed_int() => ir.sitofp(value, ty),
        _ if to.is_float() => ir.uitofp(value, ty),
        _ if to.bits() < from.bits() => ir.trunc(value, ty),
        _ if to.bits() == from.bits() => value,
        _ if from.is_signed_int() => ir.sext(value, ty),
        _ => ir.zext(value, ty),
    }
}

/// Converts floats to the nearest integers toward zero, saturating, and NaN to zero. LLVM 22 takes vectors apart for its
/// own operation.
fn float_lanes_to_int(ir: &IrEmitter<'_>, value: Val, ty: Ty, to: Scalar) -> Val {
    let float = ir.type_of(value);
    let (is_signed, bits) = (to.is_signed_int(), to.bits());
    // Powers of two are exact.
    let end = 2f64.powi(bits as i32 - i32::from(is_signed));
    let least = ir.float_const(float, if is_signed { -end } else { 0.0 });
    let above = ir.fcmp(OGE, value, ir.float_const(float, end));
    let within = ir.and(ir.fcmp(OGE, value, least), ir.not(above));
    let safe = ir.select(within, value, ir.zero(float));
    let most = u64::MAX >> (64 - bits + u32::from(is_signed));
    let converted = if is_signed { ir.fptosi(safe, ty) } else { ir.fptoui(safe, ty) };
    let bounded = ir.select(above, ir.int_const(ty, most), converted);
    match is_signed {
        true => ir.select(ir.fcmp(OLT, value, least), ir.int_const(ty, 1 << (bits - 1)), bounded),
        false => bounded,
    }
}

fn half_to_f32(arith: &ArithContext<'_, '_>, bits: Val, from: Scalar) -> Val {
    let ir = arith.ir;
    let lanes = ir.n_lanes(bits);
    let (word, float) = (ir.lanes(ir.int(32), lanes), ir.lanes(ir.f32(), lanes));
    let wide = ir.zext(bits, word);
    if from == Scalar::BF16 {
        return ir.bitcast(ir.shl(wide, ir.int_const(word, 16)), float);
    }
    if arith.processor.has_half_conversions {
        return ir.fpext(ir.bitcast(bits, ir.lanes(ir.half(), lanes)), float);
    }
    // Exponent and fraction moved to their binary32 places mean 2^-112 times the value, subnormals included; the
    // product is exact. Infinities and NaNs have the largest exponent in both formats.
    let moved = ir.shl(ir.and(wide, ir.int_const(word, 0x7fff)), ir.int_const(word, 13));
    let finite = ir.fmul(ir.bitcast(moved, float), ir.float_const(float, 2f64.powi(112)));
    let special = ir.icmp(UGE, moved, ir.int_const(word, 0x7c00 << 13));
    let special_bits = ir.or(moved, ir.int_const(word, 0x7f80_0000));
    let magnitude = ir.select(special, special_bits, ir.bitcast(finite, word));
    let sign = ir.shl(ir.and(wide, ir.int_const(word, 0x8000)), ir.int_const(word, 16));
    ir.bitcast(ir.or(magnitude, sign), float)
}

fn f32_to_half(arith: &ArithContext<'_, '_>, value: Val, to: Scalar) -> Val {
    let ir = arith.ir;
    let lanes = ir.n_lanes(value);
    let (word, short) = (ir.lanes(ir.int(32), lanes), ir.lanes(ir.int(16), lanes));
    if to == Scalar::F16 && arith.processor.has_half_conversions {
        return ir.bitcast(ir.fptrunc(value, ir.lanes(ir.half(), lanes)), short);
    }
    let constant = |bits| ir.int_const(word, bits);
    let bits = ir.bitcast(value, word);
    let nan = ir.fcmp(UNO, value, value);
    // Adding half of the last place kept, less one if that place is even, makes the carry round to nearest even.
    let round = |bits, dropped: u64| {
        let odd = ir.and(ir.lshr(bits, constant(dropped)), constant(1));
        let bias = ir.add(odd, constant((1 << (dropped - 1)) - 1));
        ir.lshr(ir.add(bits, bias), constant(dropped))
    };
    if to == Scalar::BF16 {
        let rounded = ir.trunc(round(bits, 16), short);
        return ir.select(nan, ir.int_const(short, 0x7fc0), rounded);
    }
    let magnitude = ir.and(bits, constant(0x7fff_ffff));
    let normal = round(ir.sub(magnitude, constant(112 << 23)), 13);
    // Adding 0.5 lets the processor round at the last place of binary16's subnormals, 2^-24.
    let float = ir.type_of(value);
    let half = ir.float_const(float, 0.5);
    let shifted = ir.fadd(ir.bitcast(magnitude, float), half);
    let subnormal = ir.sub(ir.bitcast(shifted, word), ir.bitcast(half, word));
    let is_small = ir.icmp(ULT, magnitude, constant(113 << 23));
    let is_large = ir.icmp(UGE, magnitude, constant(0x4780_0000));
    let finite = ir.select(is_small, subnormal, normal);
    let finite = ir.select(is_large, constant(0x7c00), finite);
    let result = ir.select(nan, constant(0x7e00), finite);
    let sign = ir.and(ir.lshr(bits, constant(16)), constant(0x8000));
    ir.trunc(ir.or(result, sign), short)
}

/// Rounds to odd: toward zero, with the last bit set if anything was lost. Rounding that again to a format with at
/// least two bits less gives what one rounding would have (Boldo and Melquiond, "When double rounding is odd", 2005).
fn f64_to_odd_f32(arith: &ArithContext<'_, '_>, value: Val) -> Val {
    let ir = arith.ir;
    let lanes = ir.n_lanes(value);
    let (word, float) = (ir.lanes(ir.int(32), lanes), ir.lanes(ir.f32(), lanes));
    let nearest = ir.fptrunc(value, float);
    let back = ir.fpext(nearest, ir.type_of(value));
    let magnitude = |x| ir.unary_intrinsic("llvm.fabs", x);
    let away = ir.fcmp(OGT, magnitude(back), magnitude(value));
    let toward = ir.fcmp(OLT, magnitude(back), magnitude(value));
    let bits = ir.bitcast(nearest, word);
    let one = ir.int_const(word, 1);
    let truncated = ir.select(away, ir.sub(bits, one), bits);
    let odd = ir.select(ir.or(away, toward), ir.or(truncated, one), truncated);
    ir.bitcast(odd, float)
}
