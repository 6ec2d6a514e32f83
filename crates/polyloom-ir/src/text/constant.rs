//! Constants as text: decimal where reading it back gives the same bits, else `0x` and the bits.

use crate::eval::{bf16_from_f64, bf16_to_f32, f16_from_f64, f16_to_f32};
use crate::types::Scalar;
use std::fmt::{self, Display};

/// A constant of a type, by its zero-extended bits; displays as it stands in HIR text.
///
/// ```
/// use polyloom_ir::Scalar;
/// use polyloom_ir::text::{TypedConstant, parse_constant};
///
/// assert_eq!(TypedConstant(Some(Scalar::F32), 0x3fc00000).to_string(), "1.5");
/// assert_eq!(parse_constant(Scalar::F32, "1.5"), Some(0x3fc00000));
/// assert_eq!(parse_constant(Scalar::U8, "256"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypedConstant(
    /// The type; without one, bits.
    pub Option<Scalar>,
    /// The bits.
    pub u64,
);

/// The quiet NaN with no payload, which alone is spelled `nan`.
fn canonical_nan(ty: Scalar) -> Option<u64> {
    match ty {
        Scalar::F16 => Some(0x7e00),
        Scalar::BF16 => Some(0x7fc0),
        Scalar::F32 => Some(0x7fc0_0000),
        Scalar::F64 => Some(0x7ff8_0000_0000_0000),
        _ => None,
    }
}

impl Display for TypedConstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.1;
        match self.0 {
            Some(ty) if ty.bits() < 64 && bits >> ty.bits() != 0 => write!(f, "0x{bits:x}"),
            Some(ty) if canonical_nan(ty) == Some(bits) => f.write_str("nan"),
            Some(Scalar::Bool) => write!(f, "{}", bits != 0),
            // A 16-bit float is written as an `f32`, because the shortest decimal that gives an `f32` also gives the
            // 16-bit float it was widened from.
            Some(Scalar::F16) if !f16_to_f32(bits as u16).is_nan() => write!(f, "{:?}", f16_to_f32(bits as u16)),
            Some(Scalar::BF16) if !bf16_to_f32(bits as u16).is_nan() => write!(f, "{:?}", bf16_to_f32(bits as u16)),
            Some(Scalar::F32) if !f32::from_bits(bits as u32).is_nan() => {
                write!(f, "{:?}", f32::from_bits(bits as u32))
            }
            Some(Scalar::F64) if !f64::from_bits(bits).is_nan() => write!(f, "{:?}", f64::from_bits(bits)),
            Some(ty) if ty.is_signed_int() => {
                let shift = 64 - ty.bits();
                write!(f, "{}", ((bits << shift) as i64) >> shift)
            }
            Some(ty) if ty.is_unsigned_int() => write!(f, "{bits}"),
            _ => write!(f, "0x{bits:x}"),
        }
    }
}

/// The bits of a constant of this type: a decimal that fits it, `inf`, `nan`, or any bits as `0x…`.
pub fn parse_constant(ty: Scalar, text: &str) -> Option<u64> {
    if let Some(bits) = parse_bits(text) {
        return Some(bits);
    }
    match ty {
        _ if text == "nan" => canonical_nan(ty),
        Scalar::Bool => text.parse::<bool>().ok().map(u64::from),
        Scalar::F16 => half(text, f16_from_f64, f16_to_f32),
        Scalar::BF16 => half(text, bf16_from_f64, bf16_to_f32),
        Scalar::F32 => decimal::<f32>(text).map(|x| x.to_bits().into()),
        Scalar::F64 => decimal::<f64>(text).map(f64::to_bits),
        _ => integer(ty, text),
    }
}

/// The bits that `0x…` gives.
pub(super) fn parse_bits(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// A finite decimal number, or an infinity spelled `inf`.
fn decimal<T: std::str::FromStr + Copy + Into<f64>>(text: &str) -> Option<T> {
    let value = text.parse::<T>().ok()?;
    let wide: f64 = value.into();
    (wide.is_finite() || text.trim_start_matches('-') == "inf").then_some(value)
}

/// A decimal number rounded to a 16-bit float type.
fn half(text: &str, round: fn(f64) -> u16, widen: fn(u16) -> f32) -> Option<u64> {
    let value: f64 = decimal(text)?;
    let bits = round(value);
    (widen(bits).is_finite() == value.is_finite()).then_some(bits.into())
}

/// A decimal integer that fits the type.
fn integer(ty: Scalar, text: &str) -> Option<u64> {
    let value: i128 = text.parse().ok()?;
    let bits = ty.bits();
    let (min, max) =
        if ty.is_signed_int() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    (min..=max).contains(&value).then_some(value as u64 & (u64::MAX >> (64 - bits)))
}
