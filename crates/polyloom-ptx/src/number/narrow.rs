//! Rounding an exact value to a narrower floating-point format, in any mode.

use super::Rounding;

/// A binary interchange format, or one like it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NarrowFormat {
    pub(crate) exponent_bits: u32,
    pub(crate) fraction_bits: u32,
    pub(crate) top: TopExponent,
}

/// Describes what the codes of the largest exponent stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopExponent {
    /// Infinity and NaNs, as in IEEE's formats.
    Infinity,
    /// Numbers, and with all bits set a NaN.
    Nan,
    /// Numbers alone. A NaN becomes the largest of them, as does what is beyond it.
    Number,
}

pub(crate) const F16: NarrowFormat = NarrowFormat { exponent_bits: 5, fraction_bits: 10, top: TopExponent::Infinity };
pub(crate) const BF16: NarrowFormat = NarrowFormat { exponent_bits: 8, fraction_bits: 7, top: TopExponent::Infinity };
pub(crate) const TF32: NarrowFormat = NarrowFormat { exponent_bits: 8, fraction_bits: 10, top: TopExponent::Infinity };
pub(crate) const F32: NarrowFormat = NarrowFormat { exponent_bits: 8, fraction_bits: 23, top: TopExponent::Infinity };
pub(crate) const E4M3: NarrowFormat = NarrowFormat { exponent_bits: 4, fraction_bits: 3, top: TopExponent::Nan };
pub(crate) const E5M2: NarrowFormat = NarrowFormat { exponent_bits: 5, fraction_bits: 2, top: TopExponent::Infinity };
pub(crate) const E3M2: NarrowFormat = NarrowFormat { exponent_bits: 3, fraction_bits: 2, top: TopExponent::Number };
pub(crate) const E2M3: NarrowFormat = NarrowFormat { exponent_bits: 2, fraction_bits: 3, top: TopExponent::Number };
pub(crate) const E2M1: NarrowFormat = NarrowFormat { exponent_bits: 2, fraction_bits: 1, top: TopExponent::Number };

impl NarrowFormat {
    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// The NaN that PTX gives: all bits set but the sign.
    pub(crate) fn nan(self) -> u64 {
        self.sign_bit() - 1
    }

    /// The bits after those of the largest number: infinity's, or the NaN's, or none of a number's.
    fn infinity(self) -> u64 {
        match self.top {
            TopExponent::Infinity => ((1 << self.exponent_bits) - 1) << self.fraction_bits,
            TopExponent::Nan => self.nan(),
            TopExponent::Number => self.sign_bit(),
        }
    }

    /// The bits of the largest number.
    pub(crate) fn largest(self) -> u64 {
        self.infinity() - 1
    }

    /// Returns the code that a value too large becomes.
    fn overflow(self) -> u64 {
        if self.top == TopExponent::Number { self.largest() } else { self.infinity() }
    }

    /// `.satfinite`: the bits of a number or infinity, the latter made the largest number of its sign.
    pub(crate) fn saturated(self, bits: u64) -> u64 {
        let sign = self.sign_bit();
        if bits & (sign - 1) > self.largest() { bits & sign | self.largest() } else { bits }
    }
}

/// The bits of `x` in `format`. `x` is exact, or was rounded to odd, which rounds the same way afterwards as long as
/// the format has two bits fewer (Boldo and Melquiond, "When double rounding is odd", 2005).
pub(crate) fn narrow(x: f64, format: NarrowFormat, rounding: Rounding) -> u64 {
    let negative = x.is_sign_negative();
    let away = |kept: u64, rest: u64, dropped: u32| {
        let half = 1 << (dropped - 1);
        match rounding {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        }
    };
    let to_infinity = match rounding {
        Rounding::Nearest | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    narrow_by(x, format, to_infinity, away)
}

/// As `narrow`, `random` of `width` bits added to the first bits that are dropped (`.rs`).
pub(crate) fn narrow_randomly(x: f64, format: NarrowFormat, (random, width): (u32, u32)) -> u64 {
    narrow_by(x, format, true, |_, rest, dropped| ((rest >> (dropped - width)) + u64::from(random)) >> width != 0)
}

/// Tells whether the magnitude is rounded up, `away` says from the bits that are kept, those that are dropped, and how
/// many the latter are.
#[inline]
fn narrow_by(x: f64, format: NarrowFormat, to_infinity: bool, away: impl FnOnce(u64, u64, u32) -> bool) -> u64 {
    let sign = if x.is_sign_negative() { format.sign_bit() } else { 0 };
    if x.is_nan() {
        return format.nan();
    }
    if x.is_infinite() {
        return sign | format.overflow();
    }
    if x == 0.0 {
        return sign;
    }
    let bits = x.to_bits() & !(1 << 63);
    let (mut exponent, mut significand) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1));
    if exponent == -1023 {
        let shift = significand.leading_zeros() - 11;
        significand <<= shift;
        exponent = -1022 - shift as i32;
    } else {
        significand |= 1 << 52;
    }
    let smallest = 2 - (1 << (format.exponent_bits - 1));
    let dropped = 52 - format.fraction_bits + (smallest - exponent).max(0) as u32;
    // Far below the smallest number all that counts is that there is something.
    let (kept, rest, dropped) =
        if dropped > 63 { (0, 1, 63) } else { (significand >> dropped, significand & ((1 << dropped) - 1), dropped) };
    let field = if exponent >= smallest { ((exponent - smallest) as u64) << format.fraction_bits } else { 0 };
    // A kept leading one adds one to the exponent's field, which `field` is one short of.
    let result = field + kept + u64::from(away(kept, rest, dropped));
    if result < format.infinity() {
        return sign | result;
    }
    sign | if to_infinity { format.overflow() } else { format.largest() }
}

/// The value that `bits` stand for in `format`, exact.
pub(crate) fn widen(bits: u64, format: NarrowFormat) -> f64 {
    let negative = bits & format.sign_bit() != 0;
    let bits = bits & (format.sign_bit() - 1);
    let fraction = (bits & ((1 << format.fraction_bits) - 1)) as f64;
    let exponent = (bits >> format.fraction_bits) as i32;
    let unit = f64::exp2(f64::from(-(format.fraction_bits as i32)));
    let bias = (1 << (format.exponent_bits - 1)) - 1;
    let value = if bits > format.infinity() || format.top == TopExponent::Nan && bits == format.infinity() {
        f64::NAN
    } else if bits == format.infinity() {
        f64::INFINITY
    } else if exponent == 0 {
        fraction * unit * f64::exp2(f64::from(1 - bias))
    } else {
        (1.0 + fraction * unit) * f64::exp2(f64::from(exponent - bias))
    };
    if negative { -value } else { value }
}
