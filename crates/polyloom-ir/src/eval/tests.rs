//! The ops against wide arithmetic: exhaustively for 8 bits, at the edges and at random for the rest.

use super::*;
use crate::generate::Random;

fn binary(op: Op, ty: Scalar, a: u64, b: u64) -> u64 {
    eval(op, &[ty.into(), ty.into()], &[a, b], ty.into()).unwrap_or_else(|| panic!("{} on {ty}", op.name()))
}

fn unary(op: Op, ty: Scalar, x: u64) -> u64 {
    eval(op, &[ty.into()], &[x], ty.into()).unwrap_or_else(|| panic!("{} on {ty}", op.name()))
}

fn cast(x: u64, from: Scalar, to: Scalar) -> u64 {
    eval(Op::Cast, &[from.into()], &[x], to.into()).unwrap_or_else(|| panic!("{from} to {to}"))
}

fn compare(op: Op, ty: Scalar, a: u64, b: u64) -> bool {
    eval(op, &[ty.into(), ty.into()], &[a, b], Type::BOOL) == Some(1)
}

fn fma(ty: Scalar, operands: [u64; 3]) -> u64 {
    eval(Op::Fma, &[ty.into(); 3], &operands, ty.into()).unwrap()
}

/// The integer that bits stand for.
fn integer(ty: Scalar, bits: u64) -> i128 {
    let sign = 1i128 << (ty.bits() - 1);
    let value = i128::from(bits);
    if ty.is_signed_int() && value >= sign { value - 2 * sign } else { value }
}

/// The bits of an integer taken modulo 2 to the width.
fn wrap(ty: Scalar, value: i128) -> u64 {
    value.rem_euclid(1 << ty.bits()) as u64
}

/// Operands of a type: all of them for 8 bits, else the edges and some at random.
fn operands(ty: Scalar) -> Vec<u64> {
    let mask = u64::MAX >> (64 - ty.bits());
    if ty.bits() == 8 {
        return (0..=255).collect();
    }
    let sign = 1u64 << (ty.bits() - 1);
    let mut values = vec![0, 1, 2, 3, 7, u64::from(ty.bits()) - 1, u64::from(ty.bits()), u64::from(ty.bits()) + 1];
    values.extend([sign - 1, sign, sign + 1, mask - 6, mask - 2, mask - 1, mask]);
    let mut random = Random::new(u64::from(ty.bits()));
    for shift in 0..60 {
        values.push((random.bits() >> (shift % ty.bits())) & mask);
    }
    values
}

#[test]
fn integers_match_wide_arithmetic() {
    let floor = |a: i128, b: i128| a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0);
    let shift_right = |a: i128, count: u128| if count > 100 { if a < 0 { -1 } else { 0 } } else { a >> count };
    for ty in Scalar::ALL.into_iter().filter(|ty| ty.is_int()) {
        let values = operands(ty);
        for &a_bits in &values {
            let a = integer(ty, a_bits);
            assert_eq!(unary(Op::Neg, ty, a_bits), wrap(ty, -a));
            assert_eq!(unary(Op::Abs, ty, a_bits), wrap(ty, a.abs()));
            assert_eq!(unary(Op::Invert, ty, a_bits), wrap(ty, -1 - a));
            for &b_bits in &values {
                let b = integer(ty, b_bits);
                let count = u128::from(b_bits);
                let expected = [
                    (Op::Add, a + b),
                    (Op::Sub, a - b),
                    (Op::Mul, a.wrapping_mul(b)),
                    (Op::Div, if b == 0 { 0 } else { a / b }),
                    (Op::Mod, if b == 0 { a } else { a % b }),
                    (Op::FloorDiv, if b == 0 { 0 } else { floor(a, b) }),
                    (Op::Min, a.min(b)),
                    (Op::Max, a.max(b)),
                    (Op::BitAnd, a & b),
                    (Op::BitOr, a | b),
                    (Op::BitXor, a ^ b),
                    (Op::Lshift, if count >= u128::from(ty.bits()) { 0 } else { a << count }),
                    (Op::Rshift, shift_right(a, count)),
                ];
                for (op, value) in expected {
                    assert_eq!(binary(op, ty, a_bits, b_bits), wrap(ty, value), "{a} {} {b} in {ty}", op.name());
                }
                let ordered = [(Op::Eq, a == b), (Op::Ne, a != b), (Op::Lt, a < b), (Op::Le, a <= b)];
                for (op, value) in ordered.into_iter().chain([(Op::Gt, a > b), (Op::Ge, a >= b)]) {
                    assert_eq!(compare(op, ty, a_bits, b_bits), value, "{a} {} {b} in {ty}", op.name());
                }
            }
        }
    }
}

#[test]
fn division_rounds_as_documented() {
    let i32_of = |op, a: i32, b: i32| binary(op, Scalar::I32, u64::from(a as u32), u64::from(b as u32)) as u32 as i32;
    let cases = [
        // a, b, div, mod, floordiv
        (7, 2, 3, 1, 3),
        (-7, 2, -3, -1, -4),
        (7, -2, -3, 1, -4),
        (-7, -2, 3, -1, 3),
        (6, -2, -3, 0, -3),
        (5, 0, 0, 5, 0),
        (i32::MIN, -1, i32::MIN, 0, i32::MIN),
    ];
    for (a, b, quotient, remainder, floor) in cases {
        let computed = [Op::Div, Op::Mod, Op::FloorDiv].map(|op| i32_of(op, a, b));
        assert_eq!(computed, [quotient, remainder, floor], "{a}, {b}");
    }
}

#[test]
fn integer_casts_wrap() {
    let integers = || Scalar::ALL.into_iter().filter(|ty| ty.is_int());
    for from in integers() {
        for bits in operands(from) {
            let value = integer(from, bits);
            assert_eq!(cast(bits, from, Scalar::Bool), u64::from(value != 0));
            for to in integers() {
                assert_eq!(cast(bits, from, to), wrap(to, value), "{value} from {from} to {to}");
            }
        }
    }
}

#[test]
fn floats_become_integers_by_truncation_and_saturation() {
    let samples = [0.0, 0.5, 0.999, 1.5, 2.5, 127.9, 128.0, 255.5, 256.0, 32768.0, 65535.5, 2147483647.0, 4294967296.0]
        .into_iter()
        .chain([9.2e18, 9.3e18, 1.8e19, 1.9e19, 1e300, f64::INFINITY])
        .flat_map(|x: f64| [x, -x]);
    for x in samples {
        for to in Scalar::ALL.into_iter().filter(|ty| ty.is_int()) {
            let (low, high) = match ty_bounds(to) {
                (low, _) if x <= low as f64 => (low, low),
                (_, high) if x >= high as f64 => (high, high),
                _ => (x.trunc() as i128, x.trunc() as i128),
            };
            assert_eq!(low, high);
            assert_eq!(cast(x.to_bits(), Scalar::F64, to), wrap(to, low), "{x} to {to}");
        }
    }
    for nan in [f64::NAN, -f64::NAN] {
        assert_eq!(cast(nan.to_bits(), Scalar::F64, Scalar::I32), 0);
        assert_eq!(cast(nan.to_bits(), Scalar::F64, Scalar::U64), 0);
        assert_eq!(cast(nan.to_bits(), Scalar::F64, Scalar::Bool), 1);
    }
    assert_eq!(cast((-0.0f64).to_bits(), Scalar::F64, Scalar::Bool), 0);
}

fn ty_bounds(ty: Scalar) -> (i128, i128) {
    match ty.is_signed_int() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, (1 << ty.bits()) - 1),
    }
}

#[test]
fn integers_become_the_nearest_float() {
    // 2^24 + 1 lies between two floats and goes to the even one; 2^24 + 3 to the next.
    assert_eq!(cast(16_777_217, Scalar::I32, Scalar::F32), 16_777_216f32.to_bits().into());
    assert_eq!(cast(16_777_219, Scalar::I32, Scalar::F32), 16_777_220f32.to_bits().into());
    // By way of f64 this would round twice, first down to the tie.
    let above_tie = (1u64 << 60) + (1 << 36) + 1;
    assert_eq!(cast(above_tie, Scalar::I64, Scalar::F32), u64::from(f32::from_bits(0x5d80_0001).to_bits()));
    assert_eq!(cast(u64::MAX, Scalar::U64, Scalar::F64), 18_446_744_073_709_551_616f64.to_bits());
    assert_eq!(cast(u64::MAX, Scalar::I64, Scalar::F64), (-1f64).to_bits());
    assert_eq!(cast(65519, Scalar::I32, Scalar::F16), 0x7bff);
    assert_eq!(cast(65520, Scalar::I32, Scalar::F16), 0x7c00);
    assert_eq!(cast(1, Scalar::Bool, Scalar::BF16), 0x3f80);
}

/// The value of a 16-bit float from its fields, as its format defines it.
fn half_value(bits: u16, exponent_bits: u32) -> f64 {
    let mantissa_bits = 15 - exponent_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = i32::from(bits & 0x7fff) >> mantissa_bits;
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ if exponent == (1 << exponent_bits) - 1 && mantissa == 0.0 => f64::INFINITY,
        _ if exponent == (1 << exponent_bits) - 1 => f64::NAN,
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[test]
fn half_floats_have_the_values_of_their_formats() {
    for (ty, exponent_bits) in [(Scalar::F16, 5), (Scalar::BF16, 8)] {
        for bits in 0..=u16::MAX {
            let expected = half_value(bits, exponent_bits);
            let wide = f64::from_bits(cast(bits.into(), ty, Scalar::F64));
            let single = f32::from_bits(cast(bits.into(), ty, Scalar::F32) as u32);
            assert!(wide.to_bits() == expected.to_bits() || (wide.is_nan() && expected.is_nan()), "{ty} {bits:#x}");
            assert!(f64::from(single) == expected || expected.is_nan(), "{ty} {bits:#x}");
            if !expected.is_nan() {
                assert_eq!(cast(wide.to_bits(), Scalar::F64, ty), bits.into());
                assert_eq!(cast(single.to_bits().into(), Scalar::F32, ty), bits.into());
            }
        }
    }
}

#[test]
fn half_floats_are_rounded_to_nearest_even_once() {
    for (ty, exponent_bits, infinity) in [(Scalar::F16, 5, 0x7c00u16), (Scalar::BF16, 8, 0x7f80)] {
        // Between each value and the next (the first past the largest is taken as if finite) lies one tie.
        for bits in 0..infinity {
            let low = half_value(bits, exponent_bits);
            let mut high = half_value(bits + 1, exponent_bits);
            if bits + 1 == infinity {
                high = low + (low - half_value(bits - 1, exponent_bits));
            }
            let tie = (low + high) / 2.0;
            let even = bits + (bits & 1);
            for (value, expected) in [(tie, even), (tie.next_down(), bits), (tie.next_up(), bits + 1)] {
                assert_eq!(cast(value.to_bits(), Scalar::F64, ty), u64::from(expected), "{value:e} to {ty}");
                assert_eq!(cast((-value).to_bits(), Scalar::F64, ty), u64::from(expected | 0x8000));
            }
        }
        for huge in [1e39, f64::MAX, f64::INFINITY] {
            assert_eq!(cast(huge.to_bits(), Scalar::F64, ty), u64::from(infinity));
        }
        for tiny in [0.0, f64::from_bits(1), f64::MIN_POSITIVE] {
            assert_eq!(cast(tiny.to_bits(), Scalar::F64, ty), 0);
        }
        let nan = cast(f64::NAN.to_bits(), Scalar::F64, ty) as u16;
        assert!(half_value(nan, exponent_bits).is_nan());
    }
}

#[test]
fn half_arithmetic_is_f32_arithmetic_rounded() {
    let mut random = Random::new(1);
    for ty in [Scalar::F16, Scalar::BF16] {
        for _ in 0..20_000 {
            let (a, b) = (random.bits() & 0xffff, random.bits() & 0xffff);
            let single = |x| cast(x, ty, Scalar::F32);
            for op in [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod, Op::FloorDiv, Op::Min, Op::Max, Op::Copysign] {
                let expected = cast(binary(op, Scalar::F32, single(a), single(b)), Scalar::F32, ty);
                assert_eq!(binary(op, ty, a, b), expected, "{a:#x} {} {b:#x} in {ty}", op.name());
            }
            for op in [Op::Neg, Op::Abs, Op::Sqrt, Op::Floor, Op::Ceil, Op::Trunc, Op::Rint] {
                let expected = cast(unary(op, Scalar::F32, single(a)), Scalar::F32, ty);
                assert_eq!(unary(op, ty, a), expected, "{} {a:#x} in {ty}", op.name());
            }
            let c = random.bits() & 0xffff;
            let wide = [a, b, c].map(|x| cast(x, ty, Scalar::F64));
            assert_eq!(fma(ty, [a, b, c]), cast(fma(Scalar::F64, wide), Scalar::F64, ty));
        }
    }
}

#[test]
fn fma_rounds_once() {
    // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24; the rounded square loses it.
    let x = 1.0f32 + 2f32.powi(-12);
    let c = -(1.0 + 2f32.powi(-11));
    assert_eq!(f32::from_bits(fma(Scalar::F32, [x, x, c].map(|v| v.to_bits().into())) as u32), 2f32.powi(-24));
    let x = 1.0 + 2f64.powi(-27);
    let c = -(1.0 + 2f64.powi(-26));
    assert_eq!(f64::from_bits(fma(Scalar::F64, [x, x, c].map(f64::to_bits))), 2f64.powi(-54));
}

#[test]
fn min_and_max_order_zeros_and_skip_nans() {
    let pair =
        |op, a: f32, b: f32| f32::from_bits(binary(op, Scalar::F32, a.to_bits().into(), b.to_bits().into()) as u32);
    for (a, b, low, high) in [
        (1.0, 2.0, 1.0f32, 2.0f32),
        (-0.0, 0.0, -0.0, 0.0),
        (0.0, -0.0, -0.0, 0.0),
        (f32::NAN, 1.0, 1.0, 1.0),
        (1.0, f32::NAN, 1.0, 1.0),
        (f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY),
    ] {
        assert_eq!(pair(Op::Min, a, b).to_bits(), low.to_bits(), "min({a}, {b})");
        assert_eq!(pair(Op::Max, a, b).to_bits(), high.to_bits(), "max({a}, {b})");
    }
    assert!(pair(Op::Min, f32::NAN, f32::NAN).is_nan());
}

#[test]
fn the_sign_of_a_nan_is_not_observed() {
    for nan in [f32::NAN, -f32::NAN] {
        for x in [2f32, -2.0] {
            assert_eq!(
                binary(Op::Copysign, Scalar::F32, x.to_bits().into(), nan.to_bits().into()),
                2f32.to_bits().into()
            );
        }
    }
}

#[test]
fn comparisons_with_nan_are_false_but_for_ne() {
    let (nan, one) = (f64::NAN.to_bits(), 1f64.to_bits());
    for (a, b) in [(nan, one), (one, nan), (nan, nan)] {
        for op in [Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
            assert!(!compare(op, Scalar::F64, a, b), "{}", op.name());
        }
        assert!(compare(Op::Ne, Scalar::F64, a, b));
    }
}

#[test]
fn rounding_functions_keep_the_sign_of_zero() {
    let f = |op, x: f64| f64::from_bits(unary(op, Scalar::F64, x.to_bits()));
    for (x, floor, ceil, trunc, rint) in [
        (2.5, 2.0, 3.0, 2.0, 2.0),
        (3.5, 3.0, 4.0, 3.0, 4.0),
        (-2.5, -3.0, -2.0, -2.0, -2.0),
        (-0.25, -1.0, -0.0, -0.0, -0.0),
        (0.25, 0.0, 1.0, 0.0, 0.0),
        (-0.0, -0.0, -0.0, -0.0, -0.0),
        (1e300, 1e300, 1e300, 1e300, 1e300),
    ] {
        let computed = [Op::Floor, Op::Ceil, Op::Trunc, Op::Rint].map(|op| f(op, x).to_bits());
        assert_eq!(computed, [floor, ceil, trunc, rint].map(f64::to_bits), "{x}");
    }
}

#[test]
fn float_remainder_is_exact() {
    let modulo = |a: f64, b: f64| f64::from_bits(binary(Op::Mod, Scalar::F64, a.to_bits(), b.to_bits()));
    assert_eq!(modulo(5.5, -2.0), 1.5);
    assert_eq!(modulo(-5.5, 2.0), -1.5);
    // 10^22 is an f64, and 10^22 = 10^15 * 10^7, so the remainder by 7 is that of integers.
    assert_eq!(modulo(1e22, 7.0), (10i128.pow(22) % 7) as f64);
    assert!(modulo(1.0, 0.0).is_nan() && modulo(f64::INFINITY, 2.0).is_nan());
    assert_eq!(modulo(-0.0, 3.0).to_bits(), (-0.0f64).to_bits());
}

#[test]
fn what_does_not_fit_is_none() {
    assert_eq!(eval(Op::Add, &[Type::I32, Type::I64], &[1, 1], Type::I32), None);
    assert_eq!(eval(Op::Add, &[Type::BOOL, Type::BOOL], &[1, 1], Type::BOOL), None);
    assert_eq!(eval(Op::Add, &[Type::I32], &[1], Type::I32), None);
    assert_eq!(eval(Op::BitAnd, &[Type::F32, Type::F32], &[1, 1], Type::F32), None);
    assert_eq!(eval(Op::Bitcast, &[Type::F32], &[1], Type::I64), None);
    assert_eq!(eval(Op::Lt, &[Type::I32, Type::I32], &[1, 1], Type::I32), None);
    assert_eq!(eval(Op::Sin, &[Type::F32], &[0], Type::F32), None);
    assert_eq!(eval(Op::Const, &[], &[], Type::F32), None);
    assert_eq!(eval(Op::Select, &[Type::I32, Type::F32, Type::F32], &[1, 2, 3], Type::F32), None);
    assert_eq!(eval(Op::Select, &[Type::BOOL, Type::F32, Type::F32], &[1, 2, 3], Type::F32), Some(2));
}

/// Every op that needs no more than its operands is evaluated on every type its signatures allow.
#[test]
fn every_native_scalar_op_has_a_definition() {
    use crate::op::{Lowering, OpEffect, TyPattern};
    for info in Op::all() {
        let depends_on_thread = matches!(info.group, OpGroup::Index | OpGroup::Control | OpGroup::Gpu);
        if info.effect != OpEffect::Pure || info.lowering != Lowering::Native || depends_on_thread {
            continue;
        }
        for signature in info.signatures.iter().filter(|signature| !signature.has_composites()) {
            let members = |class: Option<crate::op::TypeClass>| -> Vec<Scalar> {
                class.map_or_else(|| vec![Scalar::Bool], |class| class.members().collect())
            };
            for t in members(signature.var) {
                for u in members(signature.var2) {
                    let concrete = |pattern: &TyPattern| match pattern {
                        TyPattern::Var => t,
                        TyPattern::Var2 => u,
                        TyPattern::Is(scalar) => *scalar,
                        _ => panic!("{}", signature.text),
                    };
                    let operands: Vec<Type> = signature.params.iter().map(|p| concrete(&p.ty).into()).collect();
                    let result = concrete(&signature.results[0]);
                    let defined = evaluator(info.op, &operands, result.into()).is_some();
                    assert_eq!(defined, info.op != Op::Bitcast || t.bits() == u.bits(), "{} {operands:?}", info.name);
                }
            }
        }
    }
}
