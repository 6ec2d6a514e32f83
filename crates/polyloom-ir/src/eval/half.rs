//! Conversions between the 16-bit float formats and the wide ones, done on bits.
//!
//! Rounding is to nearest, ties to even, once, from `f64`: every `f32` and every product of two 16-bit floats is an
//! `f64`, so nothing is rounded twice. Subnormals are kept.

/// The value of an IEEE binary16.
pub fn f16_to_f32(bits: u16) -> f32 {
    const MANTISSA: u32 = 10;
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> MANTISSA) & 0x1f;
    let mantissa = u32::from(bits) & 0x3ff;
    let magnitude = match exponent {
        // Subnormals are multiples of 2^-24, exactly representable.
        0 => (mantissa as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
        0x1f => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 127 - 15) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The value of a bfloat16.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The binary16 nearest to a value; a NaN becomes the canonical one.
pub fn f16_from_f64(value: f64) -> u16 {
    narrow::<5, 10>(value)
}

/// The bfloat16 nearest to a value; a NaN becomes the canonical one.
pub fn bf16_from_f64(value: f64) -> u16 {
    narrow::<8, 7>(value)
}

fn narrow<const EXPONENT_BITS: u32, const MANTISSA_BITS: u32>(value: f64) -> u16 {
    let infinity = ((1u64 << EXPONENT_BITS) - 1) << MANTISSA_BITS;
    if value.is_nan() {
        return (infinity | 1 << (MANTISSA_BITS - 1)) as u16;
    }
    let bits = value.to_bits();
    let sign = (bits >> 63) << 15;
    let magnitude = bits & (u64::MAX >> 1);
    // The exponent that makes an f64 one unit in the target's exponent field.
    let bias_change = 1023 - ((1i64 << (EXPONENT_BITS - 1)) - 1);
    let exponent = (magnitude >> 52) as i64 - bias_change;
    let rounded = if exponent >= (1 << EXPONENT_BITS) - 1 {
        infinity
    } else {
        // Below the normal range the mantissa, with its leading one, is shifted further right.
        let (significand, shift) = match exponent {
            1.. => (((exponent as u64) << 52) | (magnitude & ((1 << 52) - 1)), 52 - MANTISSA_BITS),
            _ => ((1 << 52) | (magnitude & ((1 << 52) - 1)), (52 - MANTISSA_BITS as i64 + 1 - exponent).min(63) as u32),
        };
        let quotient = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1 << (shift - 1);
        // A carry out of the mantissa lands in the exponent, which is right; from the largest value it gives infinity.
        quotient + u64::from(rest > half || (rest == half && quotient & 1 == 1))
    };
    (sign | rounded) as u16
}
