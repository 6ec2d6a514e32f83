//! Numbers as the bits of a scalar type, zero-extended, as constants and arguments carry them.

use polyloom_ir::eval::eval;
use polyloom_ir::{Op, Scalar, Type};

/// A float converted to `scalar`, rounded to nearest even; for integers as a cast in a kernel does it.
pub fn from_f64(scalar: Scalar, value: f64) -> u64 {
    match scalar {
        Scalar::F64 => value.to_bits(),
        Scalar::F32 => u64::from((value as f32).to_bits()),
        _ => eval(Op::Cast, &[Type::F64], &[value.to_bits()], scalar.into()).unwrap_or(0),
    }
}

/// An integer converted to `scalar`; `None` if it is an integer type that does not hold it.
pub fn from_int(scalar: Scalar, value: i128) -> Option<u64> {
    if scalar.is_float() {
        return Some(from_f64(scalar, value as f64));
    }
    if scalar == Scalar::Bool {
        return Some((value != 0).into());
    }
    let bits = scalar.bits();
    let (low, high) = match scalar.is_signed_int() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    (low..=high).contains(&value).then_some(value as u64 & (u64::MAX >> (64 - bits)))
}

/// A value of `scalar` as a float: exact, except for integers beyond 2^53.
pub fn to_f64(scalar: Scalar, bits: u64) -> f64 {
    f64::from_bits(eval(Op::Cast, &[scalar.into()], &[bits], Type::F64).unwrap_or(0))
}
