//! The error function, its complement and its inverse.

use super::exponential::{exp_normal, exp_sum, two_sum};
use super::inverse_trigonometric::rough_reciprocal;
use super::logarithm::log_positive;
use crate::expression::Expr;
use crate::types::Scalar;

/// `erf(x) / x - 1` in powers of `x^2`. f32: `fpminimax(erf(x), [|1,3,…,15|], [|SG…|], [1e-20;1.25], relative, x)`,
/// error 2^-29.4.
const ERF_F32: [f64; 8] =
    [0.12837917, -0.3761263, 0.11283664, -0.026859848, 0.005208346, -0.0008333733, 0.0001036838, -7.5287894e-06];
/// As [`ERF_F32`], `[|1,…,25|]` in `D` on `[1e-20;1]`: error 2^-56.3.
const ERF_F64: [f64; 13] = [
    0.1283791670955126,
    -0.37612638903183876,
    0.11283791670958741,
    -0.026866170645619147,
    0.005223977629091198,
    -0.0008548327189331384,
    0.00012055337767440446,
    -1.4925738251937505e-05,
    1.6463083045841479e-06,
    -1.637059564594631e-07,
    1.4786264738928297e-08,
    -1.1829509212430793e-09,
    6.68303076629848e-11,
];
/// `-log(erfc(x)) - x`. f32, but for the subtraction:
/// `fpminimax(-log(erfc(x)), [|0,…,8|], [|SG…|], [1;4.05], relative)`, error 2^-29.3.
const LOG_ERFC_F32: [f64; 9] = [
    -0.00031290288,
    1.1302054 - 1.0,
    0.6318721,
    0.11003808,
    -0.026397819,
    0.0047515053,
    -0.00059508806,
    4.585375e-05,
    -1.626714e-06,
];
/// As [`LOG_ERFC_F32`], `[|0,…,23|]` in `D` on `[1;6]`: error 2^-55.2.
const LOG_ERFC_F64: [f64; 24] = [
    -1.6389481162183066e-08,
    1.1283794546794659 - 1.0,
    0.6366177039318999,
    0.1027813034414265,
    -0.01915318124727755,
    -0.00015785119421064312,
    0.0016146580764176807,
    -0.0004879805408239079,
    -7.702711765365846e-05,
    0.00014886030405214285,
    -8.625860863459345e-05,
    3.422183085465091e-05,
    -1.0554358514045524e-05,
    2.6404367265453547e-06,
    -5.44552564608693e-07,
    9.295327278297455e-08,
    -1.3087548765676813e-08,
    1.5055205169127783e-09,
    -1.392513615865195e-10,
    1.0104912099164135e-11,
    -5.539179686615025e-13,
    2.1557890240648513e-14,
    -5.3066894529162e-16,
    6.208980096849951e-18,
];

/// `erf(x) / x - 1` near zero.
fn near_ratio(magnitude: Expr<'_>) -> Expr<'_> {
    (magnitude * magnitude).polynomial(if magnitude.is_f64() { &ERF_F64 } else { &ERF_F32 })
}

/// Error function: a polynomial near zero, and from 1 to where the result is 1 the
/// complement of an exponential.
pub(super) fn erf(x: Expr<'_>) -> Expr<'_> {
    let magnitude = x.abs();
    let near = magnitude.fma(near_ratio(magnitude), magnitude);
    let last = if x.is_f64() { 6.0 } else { 4.0 };
    let limited = magnitude.gt(last).select(x.constant(last), magnitude);
    let others = limited.polynomial(if x.is_f64() { &LOG_ERFC_F64 } else { &LOG_ERFC_F32 });
    // Near 1, where it matters, `others` is less than 1.
    let (exponent, rest) = two_sum(limited, others);
    let far = 1.0 - exp_normal(-exponent, -rest);
    magnitude.lt(1.0).select(near, far).copysign(x)
}

/// `(1 + 2 x) e^(x^2) erfc(x)` in powers of `q = (x - 2) / (x + 2)`. f32: `fpminimax` with `[|0,…,11|]` in `SG`,
/// `[-1;0.671]`, relative; error 2^-27.2. The mapping to `q` is M. M. Shepherd and J. G. Laframboise's, "Chebyshev
/// approximation of (1 + 2x) exp(x²) erfc x", Mathematics of Computation 36, 1981.
const ERFC_F32: [f64; 12] = [
    1.2769784,
    -0.09276381,
    -0.16603021,
    0.16405085,
    -0.054220844,
    -0.0080300765,
    0.008721696,
    0.0012535956,
    -0.0014448676,
    -0.00040940664,
    0.00018675391,
    8.975226e-05,
];
/// As [`ERFC_F32`], `[|0,…,24|]` in `D`, the first in `DD`, on `[-1;0.863]`: error 2^-54.07.
const ERFC_F64: [f64; 25] = [
    1.2769783815525289,
    -0.0927638265857464,
    -0.16603039761531357,
    0.16405128003348998,
    -0.054220000990563406,
    -0.008034015084036672,
    0.008722653840264676,
    0.0012713389893550954,
    -0.001456813502282535,
    -0.0004543410009151693,
    0.0002063638830567397,
    0.00015103976557512662,
    -1.493867480630132e-06,
    -3.6423567006857705e-05,
    -1.3543995679729943e-05,
    3.7045041042836827e-06,
    5.334302572483617e-06,
    1.5302722798077e-06,
    -8.552661983974674e-07,
    -8.896010457199145e-07,
    -1.1339109196403304e-07,
    2.0401802628633677e-07,
    7.955352428727335e-08,
    -1.818833798726153e-08,
    -1.094759501536006e-08,
];
/// Holds what the first of [`ERFC_F64`] lacks.
const ERFC_F64_REST: f64 = -6.623956326199316e-17;

/// The complementary error function scaled up, and the exponential that it was computed from.
struct ErfcTail<'g> {
    /// `2^scale e^(-a^2)`.
    exponential: Expr<'g>,
    /// `2^scale erfc(a)`, rounded.
    value: Expr<'g>,
    /// Holds what `value` lacks.
    rest: Expr<'g>,
}

/// The power of two by which a [`ErfcTail`] is scaled up, so that none of its parts is subnormal where `erfc` is not zero.
fn tail_scale(x: Expr<'_>) -> i64 {
    if x.is_f64() { 512 } else { 64 }
}

/// `e^(-a^2) p(q) / (1 + 2 a)` for a non-negative `a`, scaled up by 2 to the power [`tail_scale`].
///
/// Every factor is a rounded value with a rest.
fn tail(a: Expr<'_>) -> ErfcTail<'_> {
    let square = a * a;
    let square_rest = a.fma(a, -square);
    let (exponential, rest) = exp_sum(-square, -tail_scale(a));
    let exponential_rest = (-square_rest).fma(exponential, rest);
    let (first, first_rest, others): (f64, f64, &[f64]) =
        if a.is_f64() { (ERFC_F64[0], ERFC_F64_REST, &ERFC_F64[1..]) } else { (ERFC_F32[0], 0.0, &ERFC_F32[1..]) };
    let q = (a - 2.0) / (a + 2.0);
    let (numerator, numerator_rest) = two_sum(a.constant(first), q.fma(q.polynomial(others), first_rest));
    let denominator = a.fma(2.0, 1.0);
    let denominator_rest = a.fma(2.0, 1.0 - denominator);
    let quotient = numerator / denominator;
    let residual = (-quotient).fma(denominator, numerator) + (-quotient).fma(denominator_rest, numerator_rest);
    let quotient_rest = residual * rough_reciprocal(denominator);
    let value = exponential * quotient;
    let rest = exponential.fma(quotient, -value) + exponential.fma(quotient_rest, exponential_rest * quotient);
    ErfcTail { exponential, value, rest }
}

/// Complementary error function: the [`tail`] of `|x|`, or what that lacks to 2 for a negative `x`. It is scaled up
/// until the end, which then rounds once.
pub(super) fn erfc(x: Expr<'_>) -> Expr<'_> {
    let magnitude = x.abs();
    // Where the result is zero.
    let last = if x.is_f64() { 27.3 } else { 10.1 };
    let ErfcTail { value, rest, .. } = tail(magnitude.gt(last).select(x.constant(last), magnitude));
    let tail = (value + rest) * 2f64.powi(-tail_scale(x) as i32);
    let far = x.lt(0.0).select(2.0 - tail, tail);
    // Near zero, 1 - erf(x).
    let linear = 1.0 - x;
    let near = linear + (-x).fma(near_ratio(magnitude), (1.0 - linear) - x);
    magnitude.lt(0.7).select(near, far)
}

/// `erfinv(x) / x` for `w = -log(1 - x^2)` up to 6.25, in powers of `w - 3.125`. This and the next four interpolate in
/// Chebyshev points, computed with mpmath in 200 bits. For `f32`: error 2^-27.0.
const CENTRAL_F32: [f64; 12] = [
    1.6536545680743835,
    0.24015818177853077,
    -0.006033710641958821,
    -0.0007406977485896982,
    0.0001867818531635598,
    -1.3888332951186868e-05,
    -1.3863968794003408e-06,
    4.2610125519443354e-07,
    -2.4902560095825105e-08,
    -4.662827472240805e-09,
    6.676776081480337e-10,
    2.357528333465035e-12,
];
/// As [`CENTRAL_F32`] for `f64`: error 2^-54.5.
const CENTRAL_F64: [f64; 26] = [
    1.6536545626831027,
    0.2401581824255883,
    -0.006033670871426909,
    -0.0007407025341544301,
    0.0001867342080200925,
    -1.3882523394637344e-05,
    -1.3654691764135042e-06,
    4.234788178266526e-07,
    -2.907039074871087e-08,
    -4.112661266924503e-09,
    1.051223070748762e-09,
    -5.4142609576164565e-11,
    -1.2978692479994892e-11,
    2.6303859148085384e-12,
    -8.074665167507013e-14,
    -3.998852309540432e-14,
    6.525767922399858e-15,
    -4.417003393665373e-17,
    -1.226305743260548e-16,
    1.5992591736199305e-17,
    6.396664855709971e-19,
    -3.7848217521105335e-19,
    1.8739434875095462e-20,
    4.357475280244854e-21,
    -3.3795536525485224e-22,
    -1.9123778045391186e-23,
];
/// `erfinv(x) / x` for the root of `w` from 2.5 to 4, in powers of what it has over 3.25. For `f32`: error 2^-28.9.
const TAIL_F32: [f64; 10] = [
    3.0838856059231405,
    1.0052589684577558,
    0.0053713212093162935,
    -0.0037512768086153166,
    0.002485620195022507,
    -0.0016872723525769616,
    0.000982682595474375,
    -0.00036038249087117137,
    -3.7471700003254784e-05,
    8.074691057693325e-05,
];
/// As [`TAIL_F32`] for `f64`: error 2^-55.5.
const TAIL_F64: [f64; 22] = [
    3.0838856104922208,
    1.0052589676941652,
    0.005370914553555193,
    -0.003751208508212327,
    0.002491442097947516,
    -0.001688275535921936,
    0.000953289341795833,
    -0.00035503780550499826,
    2.4031510350318603e-05,
    6.828703766281446e-05,
    -4.732066388775043e-05,
    1.2465490012885596e-05,
    2.9325103785542764e-06,
    -3.987383279152877e-06,
    1.4817686493076977e-06,
    -2.3768438869458365e-08,
    -2.4575721605517875e-07,
    1.2617019273822622e-07,
    -2.069721217948336e-08,
    -1.1037793186805448e-08,
    7.602734181548034e-09,
    -1.4414402902576647e-09,
];
/// As [`TAIL_F64`] for roots from 4 to 6.01, in powers of what they have over 5.005: error 2^-55.1.
const FAR_TAIL_F64: [f64; 20] = [
    4.854957900238093,
    1.0102990615820382,
    -0.00014193339544522695,
    -0.00021351512338654336,
    7.550492675128718e-05,
    -1.9546509361777832e-05,
    4.491456269530717e-06,
    -9.83923754960966e-07,
    2.2604437966253399e-07,
    -6.614254712913234e-08,
    2.8194596342017484e-08,
    -1.4751155109736391e-08,
    7.594969142024519e-09,
    -3.4430263554276845e-09,
    1.287231415420947e-09,
    -3.7522868357508166e-10,
    7.102805722293302e-11,
    1.2988926704797566e-11,
    -1.9908101014283553e-11,
    5.859522879691852e-12,
];

/// `erfinv(x) / x` near 0 in powers of `x^2`: its series, the first term in two parts.
const NEAR_ZERO_F64: [f64; 9] = [
    0.886226925452758,
    -3.8332932499128993e-17,
    0.2320136665346545,
    0.12755617530559796,
    0.08655212924154754,
    0.06495961774538542,
    0.05173128198461637,
    0.04283672065179735,
    0.036465929308531625,
];
/// The place where the terms left out of [`NEAR_ZERO_F64`] no longer count.
const NEAR_ZERO_LIMIT: f64 = 0.0625;

/// The polynomial of `variable - middle` as a rounded value and a rest, where the variable has a rest too.
fn polynomial_sum<'g>(variable: Expr<'g>, rest: Expr<'g>, middle: f64, coefficients: &[f64]) -> [Expr<'g>; 2] {
    let (offset, offset_rest) = two_sum(variable.constant(-middle), variable);
    let slope = offset.polynomial(&coefficients[1..]);
    let product = offset * slope;
    let product_rest = (offset_rest + rest).fma(coefficients[1], offset.fma(slope, -product));
    let (sum, sum_rest) = two_sum(variable.constant(coefficients[0]), product);
    [sum, sum_rest + product_rest]
}

/// Inverse error function: `x` times a function of `w = -log(1 - x^2)`, which is a polynomial of `w`, or farther out
/// of its root.
pub(super) fn erfinv(x: Expr<'_>) -> Expr<'_> {
    let value = if x.is_f64() { erfinv_f64(x) } else { erfinv_f32(x) };
    let magnitude = x.abs();
    let outside = magnitude.eq(1.0).select(x.constant(f64::INFINITY), f64::NAN).copysign(x);
    magnitude.lt(1.0).select(value, outside)
}

/// `1 - x^2`, rounded once where it is small.
fn one_minus_square(x: Expr<'_>) -> Expr<'_> {
    let t = 1.0 - x.abs();
    (-t).fma(t, t + t)
}

/// In `f64`, as `w` must be known better than `f32` can hold it.
fn erfinv_f32(x: Expr<'_>) -> Expr<'_> {
    let x = x.cast(Scalar::F64);
    let (w, _) = log_positive(one_minus_square(x));
    let w = -w;
    let central = (w - 3.125).polynomial(&CENTRAL_F32);
    let tail = (w.sqrt() - 3.25).polynomial(&TAIL_F32);
    (w.lt(6.25).select(central, tail) * x).cast(Scalar::F32)
}

fn erfinv_f64(x: Expr<'_>) -> Expr<'_> {
    let (w, w_rest) = log_positive(one_minus_square(x));
    let (w, w_rest) = (-w, -w_rest);
    let root = w.sqrt();
    let root_rest = ((-root).fma(root, w) + w_rest) * (rough_reciprocal(root) * 0.5);
    let central = polynomial_sum(w, w_rest, 3.125, &CENTRAL_F64);
    let tail = polynomial_sum(root, root_rest, 3.25, &TAIL_F64);
    let far_tail = polynomial_sum(root, root_rest, 5.005, &FAR_TAIL_F64);
    let (is_central, is_tail) = (w.lt(6.25), root.lt(4.0));
    let square = x * x;
    let near_zero =
        [x.constant(NEAR_ZERO_F64[0]), square.fma(square.polynomial(&NEAR_ZERO_F64[2..]), NEAR_ZERO_F64[1])];
    let is_near_zero = x.abs().lt(NEAR_ZERO_LIMIT);
    let [ratio, rest] = std::array::from_fn(|i| {
        let far = is_central.select(central[i], is_tail.select(tail[i], far_tail[i]));
        is_near_zero.select(near_zero[i], far)
    });
    // The rest of the first term is negative, and so a zero's sign is lost on the way.
    x.fma(ratio, x * rest).copysign(x)
}

/// Inverse complementary error function: near 1 by [`erfinv`], else by Halley's method on `erfc(y) = x`, from the
/// approximation 26.2.23 of M. Abramowitz and I. A. Stegun's "Handbook of Mathematical Functions".
pub(super) fn erfcinv(x: Expr<'_>) -> Expr<'_> {
    if !x.is_f64() {
        return erfcinv(x.cast(Scalar::F64)).cast(Scalar::F32);
    }
    let builder = x.builder();
    let is_upper = x.gt(1.0);
    // Exact where the result is used.
    let smaller = is_upper.select(2.0 - x, x);
    let inside = smaller.gt(0.0).select(smaller, 0.5);
    let (log, log_rest) = log_positive(inside);
    let t = ((std::f64::consts::LN_2 - (log + log_rest)) * 2.0).sqrt();
    let numerator = t.polynomial(&[2.515517, 0.802853, 0.010328]);
    let denominator = t.polynomial(&[1.0, 1.432788, 0.189269, 0.001308]);
    let first = (t - numerator / denominator) * std::f64::consts::FRAC_1_SQRT_2;
    // All of a step is scaled up, because a subnormal slope or error would be a bad one.
    let target = inside * 2f64.powi(tail_scale(x) as i32);
    // Far out the approximation is rough.
    let [y] = builder.for_range(0, builder.int(Scalar::I32, 3), 1, [first], |_, [y]| {
        let ErfcTail { exponential, value, rest } = tail(y);
        let step = ((value - target) + rest) / (exponential * std::f64::consts::FRAC_2_SQRT_PI);
        [y + step / (1.0 + y * step)]
    });
    let y = is_upper.select(-y, y);
    let value = smaller.gt(0.3).select(erfinv(1.0 - x), y);
    let end = is_upper.select(x.constant(f64::NEG_INFINITY), f64::INFINITY);
    smaller.ge(0.0).select(smaller.eq(0.0).select(end, value), f64::NAN)
}
