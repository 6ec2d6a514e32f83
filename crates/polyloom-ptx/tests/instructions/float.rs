//! f32 and f64 arithmetic: Rust's own where it rounds to the nearest, `rustc_apfloat` for f32 in other directions (the
//! simulator computes that differently), and neighbours for f64.

use super::{check, evaluate, pairs, random};
use rustc_apfloat::ieee::Single;
use rustc_apfloat::{Float, Round};

const NAN: u64 = 0x7fff_ffff;

const MODES: [(&str, Round); 4] = [
    ("rn", Round::NearestTiesToEven),
    ("rz", Round::TowardZero),
    ("rm", Round::TowardNegative),
    ("rp", Round::TowardPositive),
];

fn singles() -> Vec<u64> {
    let mut all: Vec<u64> = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        3.0,
        0.1,
        -0.1,
        1e-38,
        1e-45,
        -1e-45,
        1e38,
        3.4e38,
        -3.4e38,
        1e20,
        16777216.0,
        16777217.0,
        8388608.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::EPSILON,
    ]
    .iter()
    .map(|x| x.to_bits().into())
    .collect();
    all.extend(random(12, 7).iter().map(|x| x & 0xffff_ffff));
    all
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// A result's bits, with PTX's one NaN.
fn bits(x: f32) -> u64 {
    if x.is_nan() { NAN } else { x.to_bits().into() }
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}

fn exact(operation: &str, round: Round, row: &[u64]) -> f32 {
    let [a, b, c] = [0, 1, 2].map(|at| Single::from_bits(u128::from(row.get(at).copied().unwrap_or(0) as u32)));
    let result = match operation {
        "add" => a.add_r(b, round).value,
        "sub" => a.sub_r(b, round).value,
        "mul" => a.mul_r(b, round).value,
        "div" => a.div_r(b, round).value,
        "rcp" => Single::from_bits(0x3f80_0000).div_r(a, round).value,
        _ => a.mul_add_r(b, c, round).value,
    };
    f32::from_bits(result.to_bits() as u32)
}

#[test]
fn every_direction() {
    let [a, b] = pairs(&singles());
    let c: Vec<u64> =
        random(a.len(), 8).iter().zip(&b).map(|(x, b)| if x % 3 == 0 { *b } else { x & 0xffff_ffff }).collect();
    for (mode, round) in MODES {
        for name in ["add", "sub", "mul", "div"] {
            check(&format!("{name}.{mode}.f32 %d, %a, %b;"), "f32", &[("f32", &a), ("f32", &b)], |row| {
                bits(exact(name, round, row))
            });
        }
        check(&format!("fma.{mode}.f32 %d, %a, %b, %c;"), "f32", &[("f32", &a), ("f32", &b), ("f32", &c)], |row| {
            bits(exact("fma", round, row))
        });
        check(&format!("rcp.{mode}.f32 %d, %a;"), "f32", &[("f32", &a)], |row| bits(exact("rcp", round, row)));
    }
}

#[test]
fn fma_rounds_once() {
    let [a, b, c] = [9, 10, 11].map(|seed| random(20_000, seed));
    // Exponents near each other, so that the sum cancels or carries.
    let near = |x: &u64, spread: u64| (x & 0x807f_ffff) | (127 - spread / 2 + (x >> 33) % spread) << 23;
    let a: Vec<u64> = a.iter().map(|x| near(x, 8)).collect();
    let b: Vec<u64> = b.iter().map(|x| near(x, 8)).collect();
    let c: Vec<u64> = c.iter().map(|x| near(x, 60)).collect();
    check("fma.rn.f32 %d, %a, %b, %c;", "f32", &[("f32", &a), ("f32", &b), ("f32", &c)], |row| {
        bits(single(row[0]).mul_add(single(row[1]), single(row[2])))
    });
}

#[test]
fn roots_are_rounded_in_every_direction() {
    let a: Vec<u64> = singles().into_iter().chain(random(500, 12).iter().map(|x| x & 0x7fff_ffff)).collect();
    for (mode, _) in MODES {
        check(&format!("sqrt.{mode}.f32 %d, %a;"), "f32", &[("f32", &a)], |row| {
            let x = single(row[0]);
            let nearest = x.sqrt();
            if !nearest.is_finite() || nearest == 0.0 {
                return bits(nearest);
            }
            // 48 bits of a square are exact in f64.
            let above = f64::from(nearest) * f64::from(nearest) > f64::from(x);
            let below = f64::from(nearest) * f64::from(nearest) < f64::from(x);
            u64::from(match mode {
                "rz" | "rm" if above => nearest.to_bits() - 1,
                "rp" if below => nearest.to_bits() + 1,
                _ => nearest.to_bits(),
            })
        });
    }
}

#[test]
fn flushing_and_saturating() {
    let [a, b] = pairs(&singles());
    let operands: [(&str, &[u64]); 2] = [("f32", &a), ("f32", &b)];
    check("add.ftz.f32 %d, %a, %b;", "f32", &operands, |row| {
        bits(flushed(flushed(single(row[0])) + flushed(single(row[1]))))
    });
    check("mul.ftz.f32 %d, %a, %b;", "f32", &operands, |row| {
        bits(flushed(flushed(single(row[0])) * flushed(single(row[1]))))
    });
    check("add.sat.f32 %d, %a, %b;", "f32", &operands, |row| {
        let sum = single(row[0]) + single(row[1]);
        if sum.is_nan() { 0 } else { bits(sum.clamp(0.0, 1.0) + 0.0) }
    });
}

#[test]
fn minima_and_maxima() {
    let zero = |x: f32| if x.is_sign_negative() { -1 } else { 1 };
    let less = |a: f32, b: f32| a < b || a == b && zero(a) < zero(b);
    let [a, b] = pairs(&singles());
    let operands: [(&str, &[u64]); 2] = [("f32", &a), ("f32", &b)];
    for (name, larger) in [("min", false), ("max", true)] {
        let pick = move |x: f32, y: f32| if less(x, y) != larger { x } else { y };
        check(&format!("{name}.f32 %d, %a, %b;"), "f32", &operands, |row| {
            let (x, y) = (single(row[0]), single(row[1]));
            match (x.is_nan(), y.is_nan()) {
                (true, true) => NAN,
                (true, false) => bits(y),
                (false, true) => bits(x),
                _ => bits(pick(x, y)),
            }
        });
        check(&format!("{name}.NaN.f32 %d, %a, %b;"), "f32", &operands, |row| {
            let (x, y) = (single(row[0]), single(row[1]));
            if x.is_nan() || y.is_nan() { NAN } else { bits(pick(x, y)) }
        });
    }
}

#[test]
fn doubles() {
    let mut all: Vec<u64> =
        [0.0f64, -0.0, 1.0, -1.5, 0.1, 1e-308, 5e-324, 1e308, f64::INFINITY, f64::NEG_INFINITY, 3.0]
            .iter()
            .map(|x| x.to_bits())
            .collect();
    all.extend(random(14, 13).iter().map(|x| x & 0xc00f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000));
    let [a, b] = pairs(&all);
    let operands: [(&str, &[u64]); 2] = [("f64", &a), ("f64", &b)];
    type Expected = fn(f64, f64) -> f64;
    let table: [(&str, Expected, Expected); 4] = [
        (
            "add",
            |a, b| a + b,
            |a, b| {
                // The rounding error of a sum, exact (Knuth).
                let s = a + b;
                let t = s - a;
                (a - (s - t)) + (b - t)
            },
        ),
        (
            "sub",
            |a, b| a - b,
            |a, b| {
                let s = a - b;
                let t = s - a;
                (a - (s - t)) + (-b - t)
            },
        ),
        ("mul", |a, b| a * b, |a, b| a.mul_add(b, -(a * b))),
        ("div", |a, b| a / b, |a, b| (-(a / b)).mul_add(b, a) * b.signum()),
    ];
    for (name, rounded, error) in table {
        let nearest = evaluate(&format!("{name}.rn.f64 %d, %a, %b;"), "f64", &operands);
        let [zero, down, up] =
            ["rz", "rm", "rp"].map(|mode| evaluate(&format!("{name}.{mode}.f64 %d, %a, %b;"), "f64", &operands));
        for row in 0..a.len() {
            let (x, y) = (f64::from_bits(a[row]), f64::from_bits(b[row]));
            let expected = rounded(x, y);
            let found = f64::from_bits(nearest[row]);
            assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(), "{name} {x} {y}");
            let rest = error(x, y);
            // Where nothing over- or underflows, the error says which neighbour each direction is.
            if !(1e-280..1e280).contains(&expected.abs()) || !rest.is_finite() || x.abs() < 1e-200 || y.abs() < 1e-200 {
                continue;
            }
            let below = if rest < 0.0 { expected.next_down() } else { expected };
            let above = if rest > 0.0 { expected.next_up() } else { expected };
            assert_eq!(f64::from_bits(down[row]), below, "{name}.rm {x} {y}");
            assert_eq!(f64::from_bits(up[row]), above, "{name}.rp {x} {y}");
            assert_eq!(f64::from_bits(zero[row]), if expected > 0.0 { below } else { above }, "{name}.rz {x} {y}");
        }
    }
    check("fma.rn.f64 %d, %a, %b, %a;", "f64", &operands, |row| {
        let [x, y] = [row[0], row[1]].map(f64::from_bits);
        let expected = x.mul_add(y, x);
        if expected.is_nan() { evaluate_nan("fma.rn.f64 %d, %a, %b, %a;", row) } else { expected.to_bits() }
    });
}

/// Any NaN will do for f64.
fn evaluate_nan(instruction: &str, row: &[u64]) -> u64 {
    let found = evaluate(instruction, "f64", &[("f64", &row[..1]), ("f64", &row[1..])])[0];
    assert!(f64::from_bits(found).is_nan());
    found
}

#[test]
fn approximations_are_within_their_bounds() {
    let a: Vec<u64> = (0..4000).map(|i| (0.01f32 + i as f32 * 0.003).to_bits().into()).collect();
    type Exact = fn(f64) -> f64;
    // Names, exact functions, and the ISA's bounds: relative, or absolute where `true`.
    let table: [(&str, Exact, f64, bool); 9] = [
        ("rcp.approx.f32", |x| 1.0 / x, f64::exp2(-23.0), false),
        ("sqrt.approx.f32", f64::sqrt, f64::exp2(-23.0), false),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt(), f64::exp2(-22.9), false),
        ("sin.approx.f32", |x| x.sin(), f64::exp2(-20.5), true),
        ("cos.approx.f32", |x| x.cos(), f64::exp2(-20.5), true),
        ("ex2.approx.f32", f64::exp2, f64::exp2(-22.5), false),
        ("lg2.approx.f32", f64::log2, f64::exp2(-22.0), true),
        ("tanh.approx.f32", f64::tanh, f64::exp2(-11.0), false),
        ("ex2.approx.ftz.f32", f64::exp2, f64::exp2(-22.5), false),
    ];
    for (name, exact, bound, absolute) in table {
        let found = evaluate(&format!("{name} %d, %a;"), "f32", &[("f32", &a)]);
        for (x, y) in a.iter().zip(found) {
            let (x, y) = (f64::from(single(*x)), f64::from(single(y)));
            let error = (y - exact(x)).abs() / if absolute { 1.0 } else { exact(x).abs() };
            assert!(error <= bound, "{name} of {x}: {y}");
        }
    }
}

#[test]
fn approximations_at_the_ends_of_their_ranges() {
    let cases: [(&str, f32, f32); 16] = [
        ("rcp.approx.f32", 0.0, f32::INFINITY),
        ("rcp.approx.f32", -0.0, f32::NEG_INFINITY),
        ("rcp.approx.f32", f32::INFINITY, 0.0),
        ("sqrt.approx.f32", -0.0, -0.0),
        ("sqrt.approx.f32", -1.0, f32::NAN),
        ("rsqrt.approx.f32", 0.0, f32::INFINITY),
        ("rsqrt.approx.f32", -0.0, f32::NEG_INFINITY),
        ("rsqrt.approx.f32", f32::INFINITY, 0.0),
        ("sin.approx.f32", f32::INFINITY, f32::NAN),
        ("sin.approx.f32", -0.0, -0.0),
        ("cos.approx.f32", 0.0, 1.0),
        ("ex2.approx.f32", f32::NEG_INFINITY, 0.0),
        ("ex2.approx.f32", f32::INFINITY, f32::INFINITY),
        ("lg2.approx.f32", 0.0, f32::NEG_INFINITY),
        ("lg2.approx.f32", -1.0, f32::NAN),
        ("tanh.approx.f32", f32::NEG_INFINITY, -1.0),
    ];
    for (name, x, expected) in cases {
        let found = evaluate(&format!("{name} %d, %a;"), "f32", &[("f32", &[x.to_bits().into()])]);
        assert_eq!(found, [bits(expected)], "{name} of {x}");
    }
}

#[test]
fn approximate_quotients_of_large_divisors() {
    let limit = f32::exp2(126.0);
    let [least, beyond, most] = [limit, f32::from_bits(limit.to_bits() + 1), f32::MAX];
    // `.approx` is within 2 ulp for divisors up to 2^126, and zero, or NaN of infinity, beyond; `.full` everywhere.
    let cases = [
        ("approx", limit, least, 1.0),
        ("approx", limit, -least, -1.0),
        ("approx", limit, beyond, 0.0),
        ("approx", most, -most, -0.0),
        ("approx", f32::INFINITY, beyond, f32::NAN),
        ("approx", f32::INFINITY, least, f32::INFINITY),
        ("full", limit, least, 1.0),
        ("full", most, most, 1.0),
        ("full", f32::INFINITY, most, f32::INFINITY),
    ];
    for (name, a, b, expected) in cases {
        let operands: [(&str, &[u64]); 2] = [("f32", &[a.to_bits().into()]), ("f32", &[b.to_bits().into()])];
        let found = evaluate(&format!("div.{name}.f32 %d, %a, %b;"), "f32", &operands);
        assert_eq!(found, [bits(expected)], "{a} / {b} with .{name}");
    }
}

#[test]
fn properties_and_signs() {
    let all = singles();
    for (name, expected) in [
        ("finite", f32::is_finite as fn(f32) -> bool),
        ("infinite", f32::is_infinite),
        ("number", |x: f32| !x.is_nan()),
        ("notanumber", f32::is_nan),
        ("normal", f32::is_normal),
        ("subnormal", f32::is_subnormal),
    ] {
        check(&format!("testp.{name}.f32 %d, %a;"), "pred", &[("f32", &all)], |row| expected(single(row[0])).into());
    }
    let [a, b] = pairs(&all);
    check("copysign.f32 %d, %a, %b;", "f32", &[("f32", &a), ("f32", &b)], |row| {
        row[1] & 0x7fff_ffff | row[0] & 0x8000_0000
    });
    check("neg.f32 %d, %a;", "f32", &[("f32", &a)], |row| row[0] & 0xffff_ffff ^ 0x8000_0000);
    check("abs.f32 %d, %a;", "f32", &[("f32", &a)], |row| row[0] & 0x7fff_ffff);
}
