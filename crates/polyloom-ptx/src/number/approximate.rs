//! The approximate functions of f32: `sin.approx`, `ex2.approx` and so on (PTX ISA 9.0 §9.7.3).
//!
//! The ISA bounds their errors and leaves their bits to the machine. Here each is computed in f64 by the host's
//! library and rounded once, which is within every bound (the tightest is 1 ulp, of `rcp.approx`), and is not what a
//! GPU gives bit by bit. Results at the ends of the ranges are the ISA's.

/// `rcp.approx`
pub(crate) fn reciprocal(x: f32) -> f32 {
    1.0 / x
}

/// `div.approx`: zero for divisors beyond 2^126, as the ISA says.
pub(crate) fn quotient(a: f32, b: f32) -> f32 {
    let large = b.abs() > f32::from_bits(0x7e80_0000) && b.is_finite();
    if large && a.is_infinite() {
        f32::NAN
    } else if large {
        0.0 * a * b.signum()
    } else {
        a / b
    }
}

/// `rsqrt.approx`
pub(crate) fn reciprocal_root(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// `sin.approx`
pub(crate) fn sine(x: f32) -> f32 {
    f64::from(x).sin() as f32
}

/// `cos.approx`
pub(crate) fn cosine(x: f32) -> f32 {
    f64::from(x).cos() as f32
}

/// `ex2.approx`
pub(crate) fn power_of_two(x: f32) -> f32 {
    f64::from(x).exp2() as f32
}

/// `lg2.approx`
pub(crate) fn logarithm(x: f32) -> f32 {
    f64::from(x).log2() as f32
}

/// `tanh.approx`
pub(crate) fn tangent(x: f32) -> f32 {
    f64::from(x).tanh() as f32
}

/// `rcp.approx.ftz.f64`: the upper half of the result, the lower being zero.
pub(crate) fn gross_reciprocal(x: f64) -> f64 {
    upper(1.0 / flush(x))
}

/// `rsqrt.approx.ftz.f64`: as `gross_reciprocal`.
pub(crate) fn gross_reciprocal_root(x: f64) -> f64 {
    upper(1.0 / flush(x).sqrt())
}

fn flush(x: f64) -> f64 {
    if x.is_subnormal() { 0.0f64.copysign(x) } else { x }
}

fn upper(x: f64) -> f64 {
    if x.is_nan() { x } else { flush(f64::from_bits(x.to_bits() & !0xffff_ffff)) }
}
