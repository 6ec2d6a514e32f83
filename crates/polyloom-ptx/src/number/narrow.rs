//! Rounding an exact value to a narrower floating-point format, in any mode.

use super::Rounding;

/// A binary interchange format, or one like it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) exponent_bits: u32,
    pub(crate) fraction_bits: u32,
    /// `e4m3` has no infinities and one NaN a sign; its largest exponent holds numbers.
    pub(crate) finite: bool,
}

pub(crate) const F16: Format = Format { exponent_bits: 5, fraction_bits: 10, finite: false };
pub(crate) const BF16: Format = Format { exponent_bits: 8, fraction_bits: 7, finite: false };
pub(crate) const TF32: Format = Format { exponent_bits: 8, fraction_bits: 10, finite: false };
pub(crate) const F32: Format = Format { exponent_bits: 8, fraction_bits: 23, finite: false };
pub(crate) const E4M3: Format = Format { exponent_bits: 4, fraction_bits: 3, finite: true };
pub(crate) const E5M2: Format = Format { exponent_bits: 5, fraction_bits: 2, finite: false };

impl Format {
    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    /// The NaN that PTX gives: all bits set but the sign.
    pub(crate) fn nan(self) -> u64 {
        self.sign_bit() - 1
    }

    /// The bits of infinity; for `e4m3` those of its NaN.
    fn infinity(self) -> u64 {
        if self.finite { self.nan() } else { ((1 << self.exponent_bits) - 1) << self.fraction_bits }
    }

    /// The bits of the largest number.
    pub(crate) fn largest(self) -> u64 {
        self.infinity() - 1
    }
}

/// The bits of `x` in `format`. `x` is exact, or was rounded to odd, which rounds the same way afterwards as long as
/// the format has two bits fewer (Boldo and Melquiond, "When double rounding is odd", 2005).
pub(crate) fn narrow(x: f64, format: Format, rounding: Rounding) -> u64 {
    let negative = x.is_sign_negative();
    let sign = if negative { format.sign_bit() } else { 0 };
    if x.is_nan() {
        return format.nan();
    }
    if x.is_infinite() {
        return sign | format.infinity();
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
    let (kept, rest, half) = if dropped > 63 {
        (0, 1, 2)
    } else {
        (significand >> dropped, significand & ((1 << dropped) - 1), 1 << (dropped - 1))
    };
    let away = match rounding {
        Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
        Rounding::NearestAway => rest >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
    };
    let field = if exponent >= smallest { ((exponent - smallest) as u64) << format.fraction_bits } else { 0 };
    // A kept leading one adds one to the exponent's field, which `field` is one short of.
    let result = field + kept + u64::from(away);
    if result < format.infinity() {
        return sign | result;
    }
    let to_infinity = match rounding {
        Rounding::Nearest | Rounding::NearestAway => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    sign | if to_infinity { format.infinity() } else { format.largest() }
}

/// The value that `bits` stand for in `format`, exact.
pub(crate) fn widen(bits: u64, format: Format) -> f64 {
    let negative = bits & format.sign_bit() != 0;
    let bits = bits & (format.sign_bit() - 1);
    let fraction = (bits & ((1 << format.fraction_bits) - 1)) as f64;
    let exponent = (bits >> format.fraction_bits) as i32;
    let unit = f64::exp2(f64::from(-(format.fraction_bits as i32)));
    let bias = (1 << (format.exponent_bits - 1)) - 1;
    let value = if bits > format.infinity() || format.finite && bits == format.infinity() {
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
