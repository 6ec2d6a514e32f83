//! `cvt` in its directions and modes.

use super::{EDGES, check, evaluate, random};
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

const MODES: [(&str, Round); 4] = [
    ("rn", Round::NearestTiesToEven),
    ("rz", Round::TowardZero),
    ("rm", Round::TowardNegative),
    ("rp", Round::TowardPositive),
];

fn number(value: u64, ty: &str) -> i128 {
    let bits: u32 = ty[1..].parse().expect("a width");
    let shift = 64 - bits;
    if ty.starts_with('s') { ((value << shift) as i64 >> shift).into() } else { (value << shift >> shift).into() }
}

fn range(ty: &str) -> (i128, i128) {
    let bits: u32 = ty[1..].parse().expect("a width");
    if ty.starts_with('s') { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];

/// The register an integer is kept in; there are none of eight bits for arithmetic.
fn register(ty: &str) -> String {
    if ty.ends_with('8') { "b16".to_owned() } else { ty.to_owned() }
}

fn in_register(value: i128, ty: &str) -> u64 {
    let bits: u32 = register(ty)[1..].parse().expect("a width");
    value as u64 & (u64::MAX >> (64 - bits))
}

#[test]
fn integers_to_integers() {
    let mut values = EDGES.to_vec();
    values.extend(random(100, 30));
    for from in INTEGERS {
        for to in INTEGERS {
            let (source, target) = (register(from), register(to));
            let operands: [(&str, &[u64]); 1] = [(&source, &values)];
            check(&format!("cvt.{to}.{from} %d, %a;"), &target, &operands, |row| {
                in_register(number(number(row[0], from) as u64, to), to)
            });
            let ((least, most), (from_least, from_most)) = (range(to), range(from));
            // Assemblers refuse `.sat` where it has nothing to do.
            if least <= from_least && from_most <= most {
                continue;
            }
            check(&format!("cvt.sat.{to}.{from} %d, %a;"), &target, &operands, |row| {
                in_register(number(row[0], from).clamp(least, most), to)
            });
        }
    }
}

fn singles() -> Vec<u64> {
    let mut all: Vec<u64> = [
        0.0f32,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1e9,
        -1e9,
        2147483648.0,
        4294967296.0,
        1e19,
        -1e19,
        1e30,
        -1e30,
        127.5,
        128.0,
        255.5,
        65504.0,
        65519.9,
        65520.0,
        1e-5,
        6e-8,
        2.9e-8,
        3e-8,
        1e-45,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        32767.5,
        448.0,
        464.0,
        465.0,
        57344.0,
        61440.0,
        1e-3,
    ]
    .iter()
    .map(|x| x.to_bits().into())
    .collect();
    all.extend(random(300, 31).iter().map(|x| x & 0xffff_ffff));
    all.extend(random(300, 32).iter().map(|x| x & 0x807f_ffff | (110 + (x >> 40) % 34) << 23));
    all
}

#[test]
fn floats_to_integers() {
    type Round = fn(f64) -> f64;
    let modes: [(&str, Round); 4] =
        [("rni", f64::round_ties_even), ("rzi", f64::trunc), ("rmi", f64::floor), ("rpi", f64::ceil)];
    let singles = singles();
    let doubles: Vec<u64> =
        singles.iter().map(|x| (f64::from(f32::from_bits(*x as u32)) * 1.0000001).to_bits()).collect();
    for to in INTEGERS.iter().filter(|ty| !ty.ends_with('8')) {
        for (mode, round) in modes {
            for from in ["f32", "f64"] {
                let column = if from == "f32" { &singles } else { &doubles };
                check(&format!("cvt.{mode}.{to}.{from} %d, %a;"), to, &[(from, column)], |row| {
                    let x = if from == "f32" { f32::from_bits(row[0] as u32).into() } else { f64::from_bits(row[0]) };
                    if x.is_nan() {
                        let bits: u32 = to[1..].parse().expect("a width");
                        return if from == "f64" || bits == 64 { 1 << (bits - 1) } else { 0 };
                    }
                    let (least, most) = range(to);
                    in_register((round(x) as i128).clamp(least, most), to)
                });
            }
        }
    }
}

#[test]
fn integers_to_floats() {
    let mut values = EDGES.to_vec();
    values.extend(random(200, 33));
    for from in ["u32", "s32", "u64", "s64", "u16", "s16"] {
        for (mode, round) in MODES {
            let operands: [(&str, &[u64]); 1] = [(from, &values)];
            check(&format!("cvt.{mode}.f32.{from} %d, %a;"), "f32", &operands, |row| {
                Single::from_i128_r(number(row[0], from), round).value.to_bits() as u64
            });
            check(&format!("cvt.{mode}.f64.{from} %d, %a;"), "f64", &operands, |row| {
                Double::from_i128_r(number(row[0], from), round).value.to_bits() as u64
            });
            check(&format!("cvt.{mode}.f16.{from} %d, %a;"), "b16", &operands, |row| {
                Half::from_i128_r(number(row[0], from), round).value.to_bits() as u64
            });
        }
    }
}

fn narrowed<F: Float>(value: u64, round: Round) -> F
where
    Single: FloatConvert<F>,
{
    let mut loses = false;
    Single::from_bits((value as u32).into()).convert_r(round, &mut loses).value
}

#[test]
fn floats_to_narrower_floats() {
    let all = singles();
    let operands: [(&str, &[u64]); 1] = [("f32", &all)];
    let bits = |nan: bool, bits: u128| if nan { 0x7fff } else { bits as u64 };
    for (mode, round) in MODES {
        check(&format!("cvt.{mode}.f16.f32 %d, %a;"), "b16", &operands, |row| {
            let half: Half = narrowed(row[0], round);
            bits(half.is_nan(), half.to_bits())
        });
        if mode == "rn" || mode == "rz" {
            check(&format!("cvt.{mode}.bf16.f32 %d, %a;"), "b16", &operands, |row| {
                let half: BFloat = narrowed(row[0], round);
                bits(half.is_nan(), half.to_bits())
            });
            let reversed: Vec<u64> = all.iter().rev().copied().collect();
            check(&format!("cvt.{mode}.f16x2.f32 %d, %a, %b;"), "b32", &[("f32", &all), ("f32", &reversed)], |row| {
                let [high, low] = [row[0], row[1]].map(|x| {
                    let half: Half = narrowed(x, round);
                    bits(half.is_nan(), half.to_bits())
                });
                high << 16 | low
            });
        }
        let doubles: Vec<u64> =
            random(500, 34).iter().map(|x| x & 0x800f_ffff_ffff_ffff | (896 + (x >> 3) % 256) << 52).collect();
        check(&format!("cvt.{mode}.f32.f64 %d, %a;"), "f32", &[("f64", &doubles)], |row| {
            let mut loses = false;
            let single: Single = Double::from_bits(row[0].into()).convert_r(round, &mut loses).value;
            single.to_bits() as u64
        });
    }
    check("cvt.f64.f32 %d, %a;", "f64", &[("f32", &all[..28])], |row| {
        f64::from(f32::from_bits(row[0] as u32)).to_bits()
    });
}

#[test]
fn eight_bit_floats_saturate() {
    let all = singles();
    let zeros = vec![0u64; all.len()];
    let operands: [(&str, &[u64]); 2] = [("f32", &zeros), ("f32", &all)];
    let round = Round::NearestTiesToEven;
    check("cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", "b16", &operands, |row| {
        let x = f32::from_bits(row[1] as u32);
        let byte: Float8E5M2 = narrowed(row[1], round);
        match () {
            () if x.is_nan() => 0x7f,
            () if byte.is_infinite() => 0x7b | u64::from(x < 0.0) << 7,
            () => byte.to_bits() as u64,
        }
    });
    check("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", "b16", &operands, |row| {
        let x = f32::from_bits(row[1] as u32);
        let byte: Float8E4M3FN = narrowed(row[1], round);
        match () {
            () if x.is_nan() => 0x7f,
            () if byte.is_nan() || x.abs() > 448.0 => 0x7e | u64::from(x < 0.0) << 7,
            () => byte.to_bits() as u64,
        }
    });
}

#[test]
fn floats_to_integral_floats_and_saturation() {
    let all: Vec<u64> = singles().into_iter().filter(|x| !f32::from_bits(*x as u32).is_nan()).collect();
    let operands: [(&str, &[u64]); 1] = [("f32", &all)];
    for (mode, round) in
        [("rni", f32::round_ties_even as fn(f32) -> f32), ("rzi", f32::trunc), ("rmi", f32::floor), ("rpi", f32::ceil)]
    {
        check(&format!("cvt.{mode}.f32.f32 %d, %a;"), "f32", &operands, |row| {
            round(f32::from_bits(row[0] as u32)).to_bits().into()
        });
    }
    check("cvt.sat.f32.f32 %d, %a;", "f32", &operands, |row| {
        let x = f32::from_bits(row[0] as u32);
        if x > 0.0 { u64::from(x.min(1.0).to_bits()) } else { 0 }
    });
    check("cvt.rna.tf32.f32 %d, %a;", "b32", &operands, |row| {
        let x = row[0] as u32;
        // To 10 bits of fraction, ties away from zero.
        if x & 0x7fff_ffff >= 0x7f80_0000 { x.into() } else { u64::from(x.wrapping_add(0x1000) & !0x1fff) }
    });
    // What is beyond the largest number, 0x7f7fe000, becomes that.
    for mode in ["rna", "rn", "rz"] {
        let given = [0x7f80_0000, 0xff80_0000, 0x7f7f_ffff, 0x3f80_0000, 0x7fc0_0000];
        let found = evaluate(&format!("cvt.{mode}.satfinite.tf32.f32 %d, %a;"), "b32", &[("f32", &given)]);
        assert_eq!(found[..4], [0x7f7f_e000, 0xff7f_e000, 0x7f7f_e000, 0x3f80_0000], "{mode}");
        assert!(f32::from_bits(found[4] as u32).is_nan());
    }
    let packed = evaluate(
        "cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;",
        "b32",
        &[("s32", &[300, 0xffff_fff0]), ("s32", &[7, 255]), ("b32", &[0xaabb_ccdd, 0x1122])],
    );
    assert_eq!(packed, [0xccdd_ff07, 0x1122_00ff]);
    // Narrower ones move what was packed before by both.
    for (ty, a, b, expected) in [
        ("u4", -5i32, 9, 0xbbcc_dd09),
        ("s4", -100, 100, 0xbbcc_dd87),
        ("u2", -1, 5, 0xabbc_cdd3),
        ("s2", -7, 1, 0xabbc_cdd9),
    ] {
        let found = evaluate(
            &format!("cvt.pack.sat.{ty}.s32.b32 %d, %a, %b, %c;"),
            "b32",
            &[("s32", &[a as u32 as u64]), ("s32", &[b]), ("b32", &[0xaabb_ccdd])],
        );
        assert_eq!(found, [expected], "{ty}");
    }
}
