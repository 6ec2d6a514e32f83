//! Python numbers on their way to typed constants.
//!
//! A literal or a captured Python number has no machine type of its own: it takes that of what it meets. Until then it
//! is a [`PythonNumber`].

use polyloom_ir::Scalar;
use polyloom_ir::eval::{bf16_from_f64, bf16_to_f32, f16_from_f64, f16_to_f32};
use std::fmt;

/// A Python number without a machine type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PythonNumber {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

impl PythonNumber {
    /// The type it has when nothing else decides: `int32` or `float32`.
    pub fn default_scalar(self) -> Scalar {
        match self {
            PythonNumber::Int(_) => Scalar::I32,
            PythonNumber::Float(_) => Scalar::F32,
        }
    }

    /// Returns true if a value of type `to` may be written as this number: integers where any number is, floats where a
    /// float is.
    pub fn adapts_to(self, to: Scalar) -> bool {
        match self {
            PythonNumber::Int(_) => to != Scalar::Bool,
            PythonNumber::Float(_) => to.is_float(),
        }
    }

    /// The bits of the number as a constant of type `to`; `None` if it is out of the type's range.
    pub fn fit(self, to: Scalar) -> Option<u64> {
        match self {
            PythonNumber::Int(value) if to.is_int() => {
                let bits = to.bits();
                let fits = if to.is_signed_int() {
                    let limit = 1i128 << (bits - 1);
                    (-limit..limit).contains(&value)
                } else {
                    (0..1i128 << bits).contains(&value)
                };
                fits.then_some(value as u64 & (u64::MAX >> (64 - bits)))
            }
            PythonNumber::Int(_) | PythonNumber::Float(_) => {
                let bits = self.convert(to);
                let finite = match self {
                    PythonNumber::Int(_) => true,
                    PythonNumber::Float(value) => value.is_finite(),
                };
                (!finite || !is_infinite(bits, to)).then_some(bits)
            }
        }
    }

    /// The bits of the number converted to `to` as `cast` converts: integers wrap, floats truncate and saturate.
    pub fn convert(self, to: Scalar) -> u64 {
        let mask = u64::MAX >> (64 - to.bits());
        match (self, to) {
            (PythonNumber::Int(value), Scalar::Bool) => (value != 0).into(),
            (PythonNumber::Float(value), Scalar::Bool) => (value != 0.0).into(),
            (PythonNumber::Int(value), Scalar::F64) => (value as f64).to_bits(),
            (PythonNumber::Int(value), Scalar::F32) => (value as f32).to_bits().into(),
            (PythonNumber::Int(value), Scalar::F16 | Scalar::BF16) => half_bits(value as f64, to),
            (PythonNumber::Int(value), _) => value as u64 & mask,
            (PythonNumber::Float(value), Scalar::F64) => value.to_bits(),
            (PythonNumber::Float(value), Scalar::F32) => (value as f32).to_bits().into(),
            (PythonNumber::Float(value), Scalar::F16 | Scalar::BF16) => half_bits(value, to),
            (PythonNumber::Float(value), Scalar::I8) => value as i8 as u64 & mask,
            (PythonNumber::Float(value), Scalar::I16) => value as i16 as u64 & mask,
            (PythonNumber::Float(value), Scalar::I32) => value as i32 as u64 & mask,
            (PythonNumber::Float(value), Scalar::I64) => value as i64 as u64,
            (PythonNumber::Float(value), Scalar::U8) => (value as u8).into(),
            (PythonNumber::Float(value), Scalar::U16) => (value as u16).into(),
            (PythonNumber::Float(value), Scalar::U32) => (value as u32).into(),
            (PythonNumber::Float(value), Scalar::U64) => value as u64,
        }
    }
}

impl fmt::Display for PythonNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PythonNumber::Int(value) => write!(f, "{value}"),
            PythonNumber::Float(value) => write!(f, "{value:?}"),
        }
    }
}

fn is_infinite(bits: u64, ty: Scalar) -> bool {
    match ty {
        Scalar::F64 => f64::from_bits(bits).is_infinite(),
        Scalar::F32 => f32::from_bits(bits as u32).is_infinite(),
        Scalar::F16 => f16_to_f32(bits as u16).is_infinite(),
        Scalar::BF16 => bf16_to_f32(bits as u16).is_infinite(),
        _ => false,
    }
}

/// A double rounded once to a 16-bit float.
fn half_bits(value: f64, to: Scalar) -> u64 {
    if to == Scalar::F16 { f16_from_f64(value).into() } else { bf16_from_f64(value).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_fits_exactly_the_range_of_its_type() {
        assert_eq!(PythonNumber::Int(255).fit(Scalar::U8), Some(255));
        assert_eq!(PythonNumber::Int(256).fit(Scalar::U8), None);
        assert_eq!(PythonNumber::Int(-1).fit(Scalar::U8), None);
        assert_eq!(PythonNumber::Int(-128).fit(Scalar::I8), Some(0x80));
        assert_eq!(PythonNumber::Int(-129).fit(Scalar::I8), None);
        assert_eq!(PythonNumber::Int(i64::MAX.into()).fit(Scalar::I64), Some(i64::MAX as u64));
        assert_eq!(PythonNumber::Int(1 << 63).fit(Scalar::I64), None);
        assert_eq!(PythonNumber::Int(u64::MAX.into()).fit(Scalar::U64), Some(u64::MAX));
        assert_eq!(PythonNumber::Float(1e300).fit(Scalar::F32), None);
        assert_eq!(PythonNumber::Float(f64::INFINITY).fit(Scalar::F32), Some(0x7f80_0000));
        assert_eq!(PythonNumber::Int(65519).fit(Scalar::F16), Some(0x7bff));
        assert_eq!(PythonNumber::Int(65520).fit(Scalar::F16), None);
    }
}
