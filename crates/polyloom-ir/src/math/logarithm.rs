//! Logarithms.
//!
//! `x` is split as `2^k (1 + f)` with `1 + f` between the square roots of 1/2 and 2. The logarithm is the sum of
//! `k log 2` and `f`, each times a constant that is 1 for the natural one, and a small rest. That sum keeps its
//! rounding error, so the result is hardly worse than correctly rounded.

use super::exponential::two_sum;
use crate::expression::Expr;
use crate::types::Scalar;

/// The constants of one base.
struct LogBase {
    /// `1 / ln(base)` in two parts; the first is 1 for the natural logarithm.
    reciprocal: (f64, f64),
    /// `ln 2 / ln(base)` in two parts, the first short enough for its product with an exponent to be exact.
    log_2: (f64, f64),
    /// f32: `fpminimax(log(1 + x) / log(base), [|2,…,10|], [|SG…|], [-0.2929;0.4143], relative, x / log(base))`,
    /// from the coefficient of `x^2` on; errors 2^-27.8, 2^-27.7, 2^-27.7.
    rest_f32: [f64; 9],
}

/// The natural logarithm's constants.
fn natural(x: Expr<'_>) -> LogBase {
    LogBase {
        reciprocal: (1.0, 0.0),
        log_2: super::exponential::ln_2(x),
        rest_f32: [
            -0.49999988,
            0.33333325,
            -0.250016,
            0.20002,
            -0.16608758,
            0.14181222,
            -0.13244773,
            0.12908475,
            -0.07622485,
        ],
    }
}

fn binary(x: Expr<'_>) -> LogBase {
    LogBase {
        reciprocal: if x.is_f64() {
            (1.4426950408889634, 2.0355273740931033e-17)
        } else {
            (f64::from(1.442695_f32), 1.925963e-08)
        },
        log_2: (1.0, 0.0),
        rest_f32: [
            -0.72134733,
            0.4808982,
            -0.36069787,
            0.2885702,
            -0.23959629,
            0.20454213,
            -0.1911548,
            0.18654412,
            -0.110189386,
        ],
    }
}

fn decimal(x: Expr<'_>) -> LogBase {
    LogBase {
        reciprocal: if x.is_f64() {
            (0.4342944819032518, 1.098319650216765e-17)
        } else {
            (f64::from(0.4342945_f32), -1.010305e-08)
        },
        log_2: if x.is_f64() { (0.3010299956640665, -8.532344317057107e-14) } else { (0.30103302, -3.0243555e-06) },
        rest_f32: [
            -0.21714719,
            0.1447648,
            -0.108580746,
            0.08686753,
            -0.07212757,
            0.061587166,
            -0.057543665,
            0.05607567,
            -0.033073943,
        ],
    }
}

/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` in powers of `s^2`, for `s` up to 0.1716: `fpminimax` with `[|0,…,7|]` in
/// `D`, `[1e-9;0.02944]` for `x = s^2`, relative; error 2^-54.
const ATANH_REST: [f64; 8] = [
    0.6666666666666666,
    0.40000000000005326,
    0.28571428569168367,
    0.22222222656631338,
    0.18181773615115976,
    0.1538722014549862,
    0.13246550326506729,
    0.13288083278800583,
];

/// `2^k (1 + f)`, a positive finite number.
pub(super) struct MantissaSplit<'g> {
    pub(super) k: Expr<'g>,
    pub(super) f: Expr<'g>,
}

/// The split of a positive finite number; anything else gives a split of no meaning.
pub(super) fn split(x: Expr<'_>) -> MantissaSplit<'_> {
    let (word, mantissa_bits, one, sqrt_half) = if x.is_f64() {
        (Scalar::U64, 52, 1f64.to_bits() as i64, std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64)
    } else {
        let sqrt_half = std::f32::consts::FRAC_1_SQRT_2.to_bits();
        (Scalar::U32, 23, i64::from(1f32.to_bits()), i64::from(sqrt_half))
    };
    let (smallest_normal, bias) =
        if x.is_f64() { (f64::MIN_POSITIVE, 1023.0) } else { (f64::from(f32::MIN_POSITIVE), 127.0) };
    let up = mantissa_bits + 1;
    let subnormal = x.lt(smallest_normal);
    let normal = subnormal.select(x * 2f64.powi(up as i32), x);
    // With the mantissa of sqrt(1/2) taken off, the exponent field counts `k`.
    let offset = normal.bitcast(word) + (one - sqrt_half);
    let mantissa = (offset & ((1 << mantissa_bits) - 1)) + sqrt_half;
    // An exponent field as the mantissa of 2^23 (2^52) becomes that number plus the exponent.
    let shift = 2f64.powi(mantissa_bits as i32);
    let shift_bits = if x.is_f64() { shift.to_bits() as i64 } else { i64::from((shift as f32).to_bits()) };
    let exponent = ((offset >> mantissa_bits) | shift_bits).float_from_bits();
    let k = exponent - subnormal.select(x.constant(shift + bias + up as f64), shift + bias);
    MantissaSplit { k, f: mantissa.float_from_bits() - 1.0 }
}

/// The logarithm of a split number, plus a small `correction`.
fn logarithm<'g>(split: MantissaSplit<'g>, base: &LogBase, correction: Option<Expr<'g>>) -> Expr<'g> {
    let (sum, rest) = logarithm_sum(split, base, correction);
    sum + rest
}

/// Works like [`logarithm`], the main part and a small rest.
fn logarithm_sum<'g>(
    MantissaSplit { k, f }: MantissaSplit<'g>,
    base: &LogBase,
    correction: Option<Expr<'g>>,
) -> (Expr<'g>, Expr<'g>) {
    let scaled = |value: Expr<'g>| if base.reciprocal.0 == 1.0 { value } else { value * base.reciprocal.0 };
    let linear = scaled(f);
    let mut extra = correction;
    if base.reciprocal.0 != 1.0 {
        let product_error = f.fma(base.reciprocal.0, -linear);
        extra = Some(f.fma(base.reciprocal.1, product_error));
    }
    if base.log_2.1 != 0.0 {
        extra = Some(extra.map_or_else(|| k * base.log_2.1, |extra| k.fma(base.log_2.1, extra)));
    }
    let square = f * f;
    // What the logarithm of 1 + f has beyond `linear`, and all else that is small.
    let rest = if f.is_f64() {
        let s = f / (f + 2.0);
        let s_square = s * s;
        let half_square = square * 0.5;
        let rest = scaled(s.fma(s_square.fma(s_square.polynomial(&ATANH_REST), half_square), -half_square));
        extra.map_or(rest, |extra| rest + extra)
    } else {
        let rest = f.polynomial(&base.rest_f32);
        extra.map_or_else(|| square * rest, |extra| square.fma(rest, extra))
    };
    let whole = if base.log_2.0 == 1.0 { k } else { k * base.log_2.0 };
    // `two_sum` takes them in this order, because `whole` is zero or greater than `linear`.
    let (sum, sum_rest) = two_sum(whole, linear);
    (sum, sum_rest + rest)
}

/// The logarithm `value` of `x`, with the special cases of C: `-inf` at zero, NaN below.
fn special<'g>(x: Expr<'g>, zero: f64, value: Expr<'g>) -> Expr<'g> {
    let outside = x.eq(zero).select(x.constant(f64::NEG_INFINITY), f64::NAN);
    let value = x.gt(zero).select(value, outside);
    x.eq(f64::INFINITY).select(x, value)
}

/// Natural logarithm.
pub(super) fn log(x: Expr<'_>) -> Expr<'_> {
    special(x, 0.0, logarithm(split(x), &natural(x), None))
}

/// Natural logarithm of a positive finite number, as a rounded value and its error.
pub(super) fn log_positive(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let (sum, rest) = logarithm_sum(split(x), &natural(x), None);
    two_sum(sum, rest)
}

/// Base-2 logarithm.
pub(super) fn log2(x: Expr<'_>) -> Expr<'_> {
    special(x, 0.0, logarithm(split(x), &binary(x), None))
}

/// Base-10 logarithm.
pub(super) fn log10(x: Expr<'_>) -> Expr<'_> {
    special(x, 0.0, logarithm(split(x), &decimal(x), None))
}

/// `log(1 + x)`.
pub(super) fn log1p(x: Expr<'_>) -> Expr<'_> {
    special(x, -1.0, log1p_sum(x, None, None).copysign(x))
}

/// `log((1 + x + rest) 2^doublings)` of a positive finite number; `rest` is a rounding error of `x`.
///
/// It is the logarithm of the rounded sum `2^k (1 + f)`, whose rounding error, scaled by `2^-k`, is added to `f`. For
/// `k = 0` that gives `f = x` exactly; else it leaves an error in its turn, by which the result is corrected.
pub(super) fn log1p_sum<'g>(x: Expr<'g>, rest: Option<Expr<'g>>, doublings: Option<Expr<'g>>) -> Expr<'g> {
    let sum = x + 1.0;
    let error = x - (sum - 1.0);
    let error = rest.map_or(error, |rest| error + rest);
    let MantissaSplit { k, f } = split(sum);
    // The power ends at 2^-60, because it would soon be subnormal and the error is of no account there.
    let error = error * power_of_minus(k.lt(60.0).select(k, 60.0));
    let corrected = f + error;
    let left = error - (corrected - f);
    let k = doublings.map_or(k, |doublings| k + doublings);
    logarithm(MantissaSplit { k, f: corrected }, &natural(x), Some((-corrected).fma(left, left)))
}

/// `2^-k` for an integer `k` of small magnitude.
fn power_of_minus(k: Expr<'_>) -> Expr<'_> {
    // Adding 2^23 (2^52) and the exponent bias puts the biased exponent in the low bits of the sum.
    let (shift, bias, mantissa_bits) =
        if k.is_f64() { (2f64.powi(52), 1023.0, 52) } else { (2f64.powi(23), 127.0, 23) };
    (((shift + bias) - k).bits() << mantissa_bits).float_from_bits()
}
