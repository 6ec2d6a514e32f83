//! Powers and roots: `pow`, `rsqrt`, `cbrt`, `hypot`.

use super::exponential::{exp_of_sum, exp2_of_power, ln_2, two_sum};
use super::inverse_trigonometric::rough_reciprocal;
use super::logarithm::{MantissaSplit, split};
use crate::expression::Expr;
use crate::types::Scalar;

/// `1 / sqrt(x)`: the quotient `r`, corrected by half of `1 - x r^2`.
pub(super) fn rsqrt(x: Expr<'_>) -> Expr<'_> {
    let r = 1.0 / x.sqrt();
    let product = x * r;
    let product_rest = x.fma(r, -product);
    let residual = (-product_rest).fma(r, (-product).fma(r, 1.0));
    let corrected = (r * 0.5).fma(residual, r);
    // The quotient stands where its correction is NaN, because zero and infinity give that on the way.
    corrected.eq(corrected).select(corrected, r)
}

/// `(1 - h)^(-1/3)` on ±0.319: `fpminimax((1 - x)^(-1/3), [|0,…,4|], [|D…|], [-0.319;0.319], relative)`, error 2^-15.
const INVERSE_CUBE_ROOT: [f64; 5] =
    [1.000005360907342, 0.3328777493976439, 0.2213944935704563, 0.19021662804327058, 0.16366201578590142];

/// Cube root.
///
/// Dividing the bits of `a` by -3 gives `y`, the inverse cube root within a tenth; with `h = 1 - a y^3` a polynomial
/// of `h` corrects it, and in `f64` another. A last step of Newton's for the root `a y^2` itself has its residual
/// from exact products.
pub(super) fn cbrt<'g>(x: Expr<'g>) -> Expr<'g> {
    let magnitude = x.abs();
    let wide = x.is_f64();
    let (smallest_normal, up, down) = if wide {
        (f64::MIN_POSITIVE, 2f64.powi(54), 2f64.powi(-18))
    } else {
        (f64::from(f32::MIN_POSITIVE), 2f64.powi(24), 2f64.powi(-8))
    };
    let subnormal = magnitude.lt(smallest_normal);
    let a = subnormal.select(magnitude * up, magnitude);
    // 1365 / 2^12 and 5592405 / 2^24 are nearly a third.
    let (third, offset) = if wide {
        ((a.bits() >> 24) * 5_592_405, 0x553c_9c00_0000_0000)
    } else {
        ((a.bits() >> 12) * 1365, 0x548f_8aaa)
    };
    let y = (third.constant(offset) - third).float_from_bits();
    let defect = |y: Expr<'g>| (-(a * y)).fma(y * y, 1.0);
    let y = y * defect(y).polynomial(&INVERSE_CUBE_ROOT);
    let y = if wide {
        let h = defect(y);
        (y * h).fma(h.polynomial(&[1.0 / 3.0, 2.0 / 9.0]), y)
    } else {
        y
    };
    let y_square = y * y;
    let root = a * y_square;
    let square = root * root;
    let square_rest = root.fma(root, -square);
    let residual = (-square_rest).fma(root, (-square).fma(root, a));
    let root = (y_square * (1.0 / 3.0)).fma(residual, root);
    let root = subnormal.select(root * down, root).copysign(x);
    magnitude.lt(f64::INFINITY).select(root, x)
}

/// `sqrt(x^2 + y^2)`, from exact squares of operands scaled by a power of two.
pub(super) fn hypot<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let (a, b) = (x.abs(), y.abs());
    let swapped = b.gt(a);
    let [larger, smaller] = [swapped.select(b, a), swapped.select(a, b)];
    let (far, factor) = if x.is_f64() { (2f64.powi(500), 2f64.powi(600)) } else { (2f64.powi(60), 2f64.powi(100)) };
    let one = x.constant(1.0);
    let (large, small) = (larger.gt(far), larger.lt(1.0 / far));
    let pick =
        |if_large: f64, if_small: f64| large.select(x.constant(if_large), small.select(x.constant(if_small), one));
    let scale = pick(1.0 / factor, factor);
    let [p, q] = [larger * scale, smaller * scale];
    let [p_square, q_square] = [p * p, q * q];
    let (sum, sum_rest) = two_sum(p_square, q_square);
    let rest = sum_rest + (p.fma(p, -p_square) + q.fma(q, -q_square));
    let root = sum.sqrt();
    let residual = (-root).fma(root, sum) + rest;
    let root = (rough_reciprocal(root) * 0.5).fma(residual, root);
    let infinite = a.eq(f64::INFINITY) | b.eq(f64::INFINITY);
    infinite.select(x.constant(f64::INFINITY), root * pick(factor, 1.0 / factor))
}

/// `x` to the power `y`: the exponential of `y` times the logarithm of `|x|`, with C's special cases.
pub(super) fn pow<'g>(x: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let a = x.abs();
    let power = if x.is_f64() { pow_f64(a, y) } else { pow_f32(a, y) };
    // A negative base: the sign of an odd power, NaN for a fraction. (Infinities and large numbers are even.)
    let sign = if x.is_f64() { i64::MIN } else { i64::from(i32::MIN) };
    let whole = y.trunc().eq(y);
    let half = y * 0.5;
    let odd = whole & half.trunc().ne(half);
    let sign_bit = x.bits() & sign;
    let signed = (power.bits() | odd.select(sign_bit, 0)).float_from_bits();
    let undefined = !whole & x.lt(0.0) & a.lt(f64::INFINITY);
    let signed = undefined.select(x.constant(f64::NAN), signed);
    // One to any power, anything to the power zero, NaN included; -1 to the power of infinity.
    let one = x.eq(1.0) | y.eq(0.0) | (a.eq(1.0) & y.abs().eq(f64::INFINITY));
    one.select(x.constant(1.0), signed)
}

/// `log2(1 + f) / f`: `fpminimax(log2(1 + x), [|1,…,14|], [|D…|], [-0.2929;0.41422], relative)`, error 2^-38.5.
const LOG2: [f64; 14] = [
    1.4426950408865737,
    -0.7213475203275065,
    0.4808983488032505,
    -0.3606737931475461,
    0.28853879569814145,
    -0.24044643290471085,
    0.20610712346871127,
    -0.18043676866083938,
    0.16021668060788494,
    -0.142498432416183,
    0.13027526480126034,
    -0.13463002998418605,
    0.13251415286537752,
    -0.06974040315068082,
];

/// `a^y` in `f64`, which has room for the logarithm's digits and needs no care for the exponent's range.
fn pow_f32<'g>(a: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let MantissaSplit { k, f } = split(a.cast(Scalar::F64));
    let logarithm = f.fma(f.polynomial(&LOG2), k);
    let logarithm = infinite_logarithm(a, logarithm);
    exp2_of_power(y.cast(Scalar::F64) * logarithm).cast(Scalar::F32)
}

/// The logarithm, of zero and infinity too.
fn infinite_logarithm<'g>(a: Expr<'g>, logarithm: Expr<'g>) -> Expr<'g> {
    let logarithm = a.eq(0.0).select(logarithm.constant(f64::NEG_INFINITY), logarithm);
    a.lt(f64::INFINITY).select(logarithm, a.cast(Scalar::F64))
}

/// `(log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5` in powers of `s^2`, for `s` up to 0.1716: `fpminimax` with
/// `[|0,…,6|]` in `D`, `[1e-8;0.02944]` for `x = s^2`, relative; error 2^-50.4.
const ATANH_REST: [f64; 7] = [
    0.40000000000000024,
    0.28571428571340907,
    0.22222222270472053,
    0.18181808318959322,
    0.1538557084283212,
    0.13286062903313758,
    0.1291253232298465,
];

/// `a^y` by a logarithm in two floats, because its error is multiplied by up to 745.
fn pow_f64<'g>(a: Expr<'g>, y: Expr<'g>) -> Expr<'g> {
    let MantissaSplit { k, f } = split(a);
    // s = f / (2 + f)
    let (denominator, denominator_rest) = two_sum(f.constant(2.0), f);
    let s = f / denominator;
    let s_rest = (-s).fma(denominator_rest, (-s).fma(denominator, f)) / denominator;
    // Its cube.
    let square = s * s;
    let square_rest = s.fma(s, -square) + (s + s) * s_rest;
    let cube = square * s;
    let cube_rest = square.fma(s, -cube) + square.fma(s_rest, square_rest * s);
    // Times 2/3 + 2/5 s^2 + …
    let (two_thirds, two_thirds_rest) = (2.0 / 3.0, 3.700743415417188e-17);
    let (factor, factor_rest) = two_sum(s.constant(two_thirds), square * square.polynomial(&ATANH_REST));
    let factor_rest = factor_rest + two_thirds_rest;
    let cubic = cube * factor;
    let cubic_rest = cube.fma(factor, -cubic) + cube.fma(factor_rest, cube_rest * factor);
    // k ln 2 + 2 s + cubic
    let (ln_2, ln_2_rest) = ln_2(a);
    let (sum, rest) = two_sum(k * ln_2, s + s);
    let (sum, more_rest) = two_sum(sum, cubic);
    let rest = k.fma(ln_2_rest, (s_rest + s_rest) + (cubic_rest + (rest + more_rest)));
    let (logarithm, rest) = two_sum(sum, rest);
    let logarithm = infinite_logarithm(a, logarithm);
    let product = y * logarithm;
    exp_of_sum(product, y.fma(rest, y.fma(logarithm, -product)))
}
