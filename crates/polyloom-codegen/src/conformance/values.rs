//! Operand values: the edges of every type, and random ones.

use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::{Op, Scalar, Type, generate};

/// Random operands. A seed gives the same ones on every machine, so failures repeat.
pub struct RandomOperands(generate::Random);

impl RandomOperands {
    /// The operands of a seed.
    pub fn new(seed: u64) -> RandomOperands {
        RandomOperands(generate::Random::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A value of this type: any bits, or now and then one of moderate size.
    pub fn value(&mut self, ty: Scalar) -> u64 {
        let bits = self.bits();
        let narrow = bits & (u64::MAX >> (64 - ty.bits()));
        match ty {
            Scalar::F32 if bits >> 62 != 0 => (((bits >> 40) as i32 as f32) / 512.0 - 9000.0).to_bits().into(),
            Scalar::F64 if bits >> 62 != 0 => (((bits >> 20) as i64 as f64) / 4096.0 - 1e9).to_bits(),
            _ if ty.is_int() && bits >> 62 == 0 => (narrow & 0xff).wrapping_sub(64) & (u64::MAX >> (64 - ty.bits())),
            _ => narrow,
        }
    }

    /// `n` values of this type.
    pub fn values(&mut self, ty: Scalar, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.value(ty)).collect()
    }
}

/// The values of a type where things change: ends of ranges, zeros, subnormals, infinities, NaNs, halfway cases.
pub fn edges(ty: Scalar) -> Vec<u64> {
    let mask = u64::MAX >> (64 - ty.bits());
    let sign = 1u64 << (ty.bits() - 1);
    match ty {
        Scalar::Bool => vec![0, 1],
        Scalar::F16 => vec![
            0, sign, 0x3c00, 0xbc00, 0x3800, 0x3e00, 0xbe00, 0x4100, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
            0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x6400, 0x6401, 0x5bf8, 0x4248, 0x3555,
        ],
        Scalar::BF16 => vec![
            0, sign, 0x3f80, 0xbf80, 0x3f00, 0x3fc0, 0xbfc0, 0x4020, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f,
            0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x4300, 0x4f00, 0x5f00, 0x4049, 0x3eab,
        ],
        Scalar::F32 => {
            let numbers = [
                0.0,
                1.0,
                0.5,
                1.5,
                2.5,
                3.0,
                0.1,
                1e-3,
                127.5,
                255.5,
                1e6,
                8_388_609.0,
                16_777_217.0,
                65504.0,
                65519.9,
                65520.0,
                2_147_483_647.0,
                2_147_483_648.0,
                4_294_967_040.0,
                4_294_967_296.0,
                9.223_372e18,
                1.844_674_4e19,
                1e30,
                f32::MAX,
                f32::MIN_POSITIVE,
                5.960_464_5e-8,
                2.980_232_2e-8,
                6.103_515_6e-5,
                f32::EPSILON,
            ];
            let mut bits: Vec<u64> = numbers.iter().map(|x| u64::from(x.to_bits())).collect();
            bits.extend([
                1,
                2,
                0x007f_ffff,
                0x7f80_0000,
                0x7fc0_0000,
                0x7f80_0001,
                0x3f7f_ffff,
                0x477f_efff,
                0x3f80_8000,
            ]);
            with_signs(bits, sign)
        }
        Scalar::F64 => {
            let numbers = [
                0.0,
                1.0,
                0.5,
                1.5,
                2.5,
                3.0,
                0.1,
                1e-3,
                127.5,
                255.5,
                1e6,
                65504.0,
                65519.999,
                65520.0,
                2_147_483_647.0,
                2_147_483_647.5,
                2_147_483_648.0,
                4_294_967_295.5,
                4_294_967_296.0,
                4_503_599_627_370_497.5,
                9_007_199_254_740_993.0,
                9.223372036854775e18,
                9.223372036854776e18,
                1.8446744073709552e19,
                3.4028235e38,
                3.4028235677973366e38,
                1.1754943e-38,
                1e-45,
                7e-46,
                5.960464477539063e-8,
                2.9802322387695312e-8,
                2.980232238769532e-8,
                1.0009765625,
                1.00048828125,
                1.0004882812500002,
                1.00390625,
                1.0039062500000002,
                1e300,
                f64::MAX,
                f64::MIN_POSITIVE,
                f64::EPSILON,
            ];
            let mut bits: Vec<u64> = numbers.iter().map(|x: &f64| x.to_bits()).collect();
            bits.extend([
                1,
                2,
                0x000f_ffff_ffff_ffff,
                0x7ff0 << 48,
                0x7ff8 << 48,
                (0x7ff0 << 48) + 1,
                0x3fef_ffff_ffff_ffff,
            ]);
            with_signs(bits, sign)
        }
        _ => {
            let mut bits = Vec::new();
            for small in [0, 1, 2, 3, 5, 7, 8, 10, 16, 31, 32, 33, 63, 64, 65, 100] {
                bits.extend([small & mask, small.wrapping_neg() & mask]);
            }
            for high in [sign, sign - 1, sign + 1, mask, mask - 1, sign >> 1, mask / 3, mask / 10 * 7] {
                bits.push(high & mask);
            }
            bits.sort_unstable();
            bits.dedup();
            bits
        }
    }
}

fn with_signs(bits: Vec<u64>, sign: u64) -> Vec<u64> {
    bits.iter().flat_map(|&b| [b, b | sign]).collect()
}

/// The bits of a float type's infinity.
fn infinity(ty: Scalar) -> Option<u64> {
    match ty {
        Scalar::F16 => Some(0x7c00),
        Scalar::BF16 => Some(0x7f80),
        Scalar::F32 => Some(0x7f80_0000),
        Scalar::F64 => Some(0x7ff0 << 48),
        _ => None,
    }
}

fn magnitude(ty: Scalar, bits: u64) -> u64 {
    bits & (u64::MAX >> (65 - ty.bits()))
}

/// Returns true if these bits are a NaN of the type.
pub fn is_nan(ty: Scalar, bits: u64) -> bool {
    infinity(ty).is_some_and(|infinity| magnitude(ty, bits) > infinity)
}

/// The place of a finite float among the floats of its type: neighbours differ by one, both zeros have place 0.
pub fn ordinal(ty: Scalar, bits: u64) -> Option<i64> {
    let magnitude = magnitude(ty, bits);
    let finite = infinity(ty).is_some_and(|infinity| magnitude < infinity);
    let negative = bits >> (ty.bits() - 1) & 1 == 1;
    finite.then_some(if negative { -(magnitude as i64) } else { magnitude as i64 })
}

/// The value of a float.
pub fn to_f64(ty: Scalar, bits: u64) -> f64 {
    match evaluator(Op::Cast, &[ty.into()], Type::F64) {
        Some(OpEvaluator::Unary(cast)) => f64::from_bits(cast(bits)),
        _ => f64::from_bits(bits),
    }
}

/// Returns true if `1 / x` is a normal number of the type, whatever the rounding: `x` is at least the smallest normal
/// number and at most its inverse.
pub fn reciprocal_is_normal(ty: Scalar, x: u64) -> bool {
    let Some(infinity) = infinity(ty) else { return false };
    // The exponent field of infinity is all ones, that of 1 is half of it: an exponent and its negative add up to twice
    // that of 1.
    let lowest = infinity & infinity.wrapping_neg();
    (lowest..=infinity - 2 * lowest).contains(&magnitude(ty, x))
}

/// Returns true if two results are the same: equal bits, or NaNs of any kind.
pub fn same(ty: Scalar, a: u64, b: u64) -> bool {
    a == b || (is_nan(ty, a) && is_nan(ty, b))
}
