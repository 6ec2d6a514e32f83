//! Reduction of an angle by multiples of π/2.
//!
//! Angles up to a limit: Cody and Waite's method with π/2 in three parts. The product of the multiple's number `n`
//! with the first part is subtracted exactly, since the difference has few bits; the second part is so short that its
//! product with any `n` below the limit is a float, hence the rounding error of its subtraction is one too
//! (Fast2Sum, whose first operand is a multiple of the last place of the second).
//!
//! Larger angles: Payne and Hanek's method. An angle is an integer times a power of two, `m 2^e`. The bits of 2/π that
//! decide `m 2^e 2/π` modulo 4 to enough places are a window of its binary expansion that begins at a place given by
//! `e`. HIR has no tables, so the window's words are picked by selects.

use super::exponential::{nearest_integer, two_sum};
use crate::expression::{Expr, ExprBuilder};
use crate::op::Op;
use crate::types::Scalar;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// An angle less a multiple of π/2.
#[derive(Clone, Copy)]
pub(super) struct ReducedAngle<'g> {
    /// The remainder, in ±π/4 (a little more where the multiple was rounded the other way), rounded.
    pub(super) r: Expr<'g>,
    /// Holds what rounding took from `r`, negated: the remainder is `r - excess`.
    pub(super) excess: Expr<'g>,
    /// The multiple's number in the low two bits, modulo 4; the higher bits are of no meaning.
    pub(super) quadrant: Expr<'g>,
}

/// π/2 in three parts, all positive so that the remainder of -0 is -0, and the largest angle they serve.
fn cody_waite(x: Expr<'_>) -> ([f64; 3], f64) {
    if x.is_f64() {
        ([FRAC_PI_2, 6.12323399409214e-17, 1.6446256936324258e-26], 26_353_588.0)
    } else {
        ([1.5707963, 7.5495336e-08, 2.563344e-12], 3216.0)
    }
}

/// Any angle, reduced. NaN and infinities give NaN.
pub(super) fn reduce(x: Expr<'_>) -> ReducedAngle<'_> {
    let (parts, limit) = cody_waite(x);
    let builder = x.builder();
    let near = reduce_near(x, parts);
    let far = !x.abs().le(limit);
    let [r, excess, quadrant] = builder.branch(
        far,
        || {
            let [r, excess, quadrant] = builder.ops(Op::ReduceAngle, &[x]);
            [r, excess, quadrant.cast(near.quadrant.scalar())]
        },
        || [near.r, near.excess, near.quadrant],
    );
    ReducedAngle { r, excess, quadrant }
}

/// An angle of a few turns, reduced.
pub(super) fn reduce_small(x: Expr<'_>) -> ReducedAngle<'_> {
    reduce_near(x, cody_waite(x).0)
}

fn reduce_near<'g>(x: Expr<'g>, [high, middle, low]: [f64; 3]) -> ReducedAngle<'g> {
    let n = nearest_integer(x, FRAC_2_PI);
    let exact = n.float.fma(-high, x);
    let r = n.float.fma(-middle, exact);
    let excess = n.float.fma(low, n.float.fma(middle, r - exact));
    ReducedAngle { r, excess, quadrant: n.low_bits }
}

/// The reduction of angles past the limit, as an op of its own, so that the sine, the cosine and the tangent share it.
pub(super) fn reduce_far<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let x = x[0];
    let (r, excess, quadrant) = if x.is_f64() { reduce_far_f64(x) } else { reduce_far_f32(x) };
    let negative = x.lt(0.0);
    let sign = |e: Expr<'g>| negative.select(-e, e);
    let finite = x.abs().lt(f64::INFINITY);
    vec![finite.select(sign(r), f64::NAN), sign(excess), sign(quadrant)]
}

/// The window of four words that begins at word `index` of `words`.
fn window<'g>(builder: &'g ExprBuilder, word: Scalar, words: &[u64], index: Expr<'g>) -> [Expr<'g>; 4] {
    let mut candidates: Vec<Expr<'g>> = words.iter().map(|&bits| builder.int(word, bits as i64)).collect();
    let n_positions = words.len() - 3;
    // One bit of the index at a time, from the highest, halves the candidates.
    for bit in (0..n_positions.ilog2() + 1).rev() {
        let step = 1 << bit;
        let skip = (index & step as i64).ne(0);
        let n_left = candidates.len().min(step + 3);
        candidates = (0..n_left)
            .map(|i| candidates.get(i + step).map_or(candidates[i], |&skipped| skip.select(skipped, candidates[i])))
            .collect();
    }
    std::array::from_fn(|i| candidates[i])
}

/// The first bits of 2/π after 32 zeros.
const TWO_OVER_PI_32: [u64; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

fn reduce_far_f32<'g>(x: Expr<'g>) -> (Expr<'g>, Expr<'g>, Expr<'g>) {
    let builder = x.builder();
    let wide = |e: Expr<'g>| e.cast(Scalar::U64);
    let magnitude = x.abs().bitcast(Scalar::U32);
    let mantissa = wide((magnitude & 0x7f_ffff) | 0x80_0000);
    // With e = field - 150, the window starts at the bit of weight 2^(1 - e), which is 31 + (e - 1) from the start.
    let start = (magnitude >> 23) - 120;
    let words = window(builder, Scalar::U32, &TWO_OVER_PI_32, start >> 5);
    let shift = wide(start & 31);
    let [first, second] = [[words[0], words[1]], [words[2], words[3]]].map(|[a, b]| (wide(a) << 32) | wide(b));
    let upper = (first << shift) | (second >> (-shift + 64));
    let lower = (second << shift) >> 32;
    // The angle in quarter turns modulo 4, in units of 2^-62.
    let turns = mantissa * upper + ((mantissa * lower) >> 32);
    let quadrant = (turns + (1 << 61)) >> 62;
    let fraction = (turns - (quadrant << 62)).bitcast(Scalar::I64);
    let exact = fraction.cast(Scalar::F64) * (FRAC_PI_2 * 2f64.powi(-62));
    let r = exact.cast(Scalar::F32);
    let excess = (r.cast(Scalar::F64) - exact).cast(Scalar::F32);
    (r, excess, quadrant.cast(Scalar::I32))
}

/// The first bits of 2/π after 64 zeros.
const TWO_OVER_PI_64: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

fn reduce_far_f64<'g>(x: Expr<'g>) -> (Expr<'g>, Expr<'g>, Expr<'g>) {
    let builder = x.builder();
    let magnitude = x.abs().bitcast(Scalar::U64);
    let mantissa = (magnitude & ((1 << 52) - 1)) | (1 << 52);
    // With e = field - 1075, the window starts at the bit of weight 2^(1 - e), which is 63 + (e - 1) from the start.
    let start = (magnitude >> 52) - (1075 - 62);
    let words = window(builder, Scalar::U64, &TWO_OVER_PI_64, start >> 6);
    let shift = start & 63;
    let [w0, w1, w2] = std::array::from_fn(|i| (words[i] << shift) | (words[i + 1] >> (-shift + 64)));
    // The angle in quarter turns modulo 4, in units of 2^-126, as two words.
    let middle = mantissa * w1;
    let low = middle + high_product(mantissa, w2);
    let carry = low.lt(middle).cast(Scalar::U64);
    let high = mantissa * w0 + high_product(mantissa, w1) + carry;
    let quadrant = (high + (1 << 61)) >> 62;
    let high = (high - (quadrant << 62)).bitcast(Scalar::I64);
    // The signed fraction as a sum of four exact floats, largest first, then of two.
    let unit = |words: i64| 2f64.powi(-62 - 32 * words as i32);
    let part = |word: Expr<'g>, place: i64| word.cast(Scalar::F64) * unit(place);
    let parts = [
        part(high >> 32, -1),
        part(high.bitcast(Scalar::U64) & 0xffff_ffff, 0),
        part(low >> 32, 1),
        part(low & 0xffff_ffff, 2),
    ];
    let (a, a_rest) = two_sum(parts[0], parts[1]);
    let (b, b_rest) = two_sum(parts[2], parts[3]);
    let (sum, sum_rest) = two_sum(a, a_rest + b);
    let sum_rest = sum_rest + b_rest;
    let product = sum * FRAC_PI_2;
    let rest = sum.fma(FRAC_PI_2, -product) + sum.fma(6.123233995736766e-17, sum_rest * FRAC_PI_2);
    let (r, rest) = two_sum(product, rest);
    (r, -rest, quadrant.cast(Scalar::I32))
}

/// The upper word of the product of two unsigned 64-bit words.
fn high_product<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let mask = 0xffff_ffff;
    let [(a_high, a_low), (b_high, b_low)] = [a, b].map(|e| (e >> 32, e & mask));
    let crossed = a_high * b_low + ((a_low * b_low) >> 32);
    let other = a_low * b_high + (crossed & mask);
    a_high * b_high + (crossed >> 32) + (other >> 32)
}
