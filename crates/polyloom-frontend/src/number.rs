//! Python numbers on their way to typed constants.
//!
//! A literal or a captured Python number has no machine type of its own: it takes that of what it meets. Until then it
//! is a [`Number`].

use polyloom_ir::Scalar;
use std::fmt;

/// A Python number without a machine type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

impl Number {
    /// The type it has when nothing else decides: `int32` or `float32`.
    pub fn default_scalar(self) -> Scalar {
        match self {
            Number::Int(_) => Scalar::I32,
            Number::Float(_) => Scalar::F32,
        }
    }

    /// Whether a value of type `to` may be written as this number: integers where any number is, floats where a float is.
    pub fn adapts_to(self, to: Scalar) -> bool {
        match self {
            Number::Int(_) => to != Scalar::Bool,
            Number::Float(_) => to.is_float(),
        }
    }

    /// The bits of the number as a constant of type `to`; `None` if it is out of the type's range.
    pub fn fit(self, to: Scalar) -> Option<u64> {
        match self {
            Number::Int(value) if to.is_int() => {
                let bits = to.bits();
                let fits = if to.is_signed_int() {
                    let limit = 1i128 << (bits - 1);
                    (-limit..limit).contains(&value)
                } else {
                    (0..1i128 << bits).contains(&value)
                };
                fits.then_some(value as u64 & (u64::MAX >> (64 - bits)))
            }
            Number::Int(_) | Number::Float(_) => {
                let bits = self.convert(to);
                let finite = match self {
                    Number::Int(_) => true,
                    Number::Float(value) => value.is_finite(),
                };
                (!finite || !is_infinite(bits, to)).then_some(bits)
            }
        }
    }

    /// The bits of the number converted to `to` as `cast` converts: integers wrap, floats truncate and saturate.
    pub fn convert(self, to: Scalar) -> u64 {
        let mask = u64::MAX >> (64 - to.bits());
        match (self, to) {
            (Number::Int(value), Scalar::Bool) => (value != 0).into(),
            (Number::Float(value), Scalar::Bool) => (value != 0.0).into(),
            (Number::Int(value), Scalar::F64) => (value as f64).to_bits(),
            (Number::Int(value), Scalar::F32) => (value as f32).to_bits().into(),
            (Number::Int(value), Scalar::F16 | Scalar::BF16) => half_bits(value as f64, to),
            (Number::Int(value), _) => value as u64 & mask,
            (Number::Float(value), Scalar::F64) => value.to_bits(),
            (Number::Float(value), Scalar::F32) => (value as f32).to_bits().into(),
            (Number::Float(value), Scalar::F16 | Scalar::BF16) => half_bits(value, to),
            (Number::Float(value), Scalar::I8) => value as i8 as u64 & mask,
            (Number::Float(value), Scalar::I16) => value as i16 as u64 & mask,
            (Number::Float(value), Scalar::I32) => value as i32 as u64 & mask,
            (Number::Float(value), Scalar::I64) => value as i64 as u64,
            (Number::Float(value), Scalar::U8) => (value as u8).into(),
            (Number::Float(value), Scalar::U16) => (value as u16).into(),
            (Number::Float(value), Scalar::U32) => (value as u32).into(),
            (Number::Float(value), Scalar::U64) => value as u64,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Float(value) => write!(f, "{value:?}"),
        }
    }
}

/// Significand bits stored and exponent bits of a 16-bit float.
fn half_layout(to: Scalar) -> (u32, u32) {
    if to == Scalar::F16 { (10, 5) } else { (7, 8) }
}

fn is_infinite(bits: u64, ty: Scalar) -> bool {
    match ty {
        Scalar::F64 => f64::from_bits(bits).is_infinite(),
        Scalar::F32 => f32::from_bits(bits as u32).is_infinite(),
        Scalar::F16 | Scalar::BF16 => {
            let (significand, exponent) = half_layout(ty);
            bits & 0x7fff == ((1 << exponent) - 1) << significand
        }
        _ => false,
    }
}

/// A double rounded once, to nearest even, to a 16-bit float.
fn half_bits(value: f64, to: Scalar) -> u64 {
    let (significand, exponent) = half_layout(to);
    let sign = u64::from(value.is_sign_negative()) << 15;
    let infinity = ((1u64 << exponent) - 1) << significand;
    let magnitude = value.abs();
    if value.is_nan() {
        return infinity | 1 << (significand - 1);
    }
    let bias = (1i32 << (exponent - 1)) - 1;
    // The exponent of the value, not below that of the subnormals.
    let e = ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(1 - bias, bias + 1);
    // Dividing by a power of two is exact here, so there is one rounding.
    let ulps = magnitude / f64::from_bits(((e - significand as i32 + 1023) as u64) << 52);
    let rounded = ulps.round_ties_even() as u64;
    // A significand that rounded up to the next power of two carries into the exponent by itself.
    let bits = (((e + bias - 1) as u64) << significand).saturating_add(rounded);
    sign | bits.min(infinity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_fits_exactly_the_range_of_its_type() {
        assert_eq!(Number::Int(255).fit(Scalar::U8), Some(255));
        assert_eq!(Number::Int(256).fit(Scalar::U8), None);
        assert_eq!(Number::Int(-1).fit(Scalar::U8), None);
        assert_eq!(Number::Int(-128).fit(Scalar::I8), Some(0x80));
        assert_eq!(Number::Int(-129).fit(Scalar::I8), None);
        assert_eq!(Number::Int(i64::MAX.into()).fit(Scalar::I64), Some(i64::MAX as u64));
        assert_eq!(Number::Int(1 << 63).fit(Scalar::I64), None);
        assert_eq!(Number::Int(u64::MAX.into()).fit(Scalar::U64), Some(u64::MAX));
        assert_eq!(Number::Float(1e300).fit(Scalar::F32), None);
        assert_eq!(Number::Float(f64::INFINITY).fit(Scalar::F32), Some(0x7f80_0000));
        assert_eq!(Number::Int(65519).fit(Scalar::F16), Some(0x7bff));
        assert_eq!(Number::Int(65520).fit(Scalar::F16), None);
    }

    /// Bit patterns from NumPy: `np.float16(x).view(np.uint16)`.
    #[test]
    fn sixteen_bit_constants_round_as_numpy_does() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (0.1, 0x2e66),
            (-2.5, 0xc100),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (6.103515625e-05, 0x0400),
            (5.960464477539063e-08, 0x0001),
            (2.9802322387695312e-08, 0x0000),
            (2.980232238769532e-08, 0x0001),
            (1.00048828125, 0x3c00),
            (1.00146484375, 0x3c02),
            (1e300, 0x7c00),
        ] {
            assert_eq!(half_bits(value, Scalar::F16), bits, "{value}");
        }
        // The upper half of the float32 pattern, rounded to nearest even.
        for (value, bits) in [(1.0, 0x3f80), (3.140625, 0x4049), (1.00390625, 0x3f80), (1.01171875, 0x3f82)] {
            assert_eq!(half_bits(value, Scalar::BF16), bits, "{value}");
        }
    }
}
