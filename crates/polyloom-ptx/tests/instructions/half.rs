//! f16 and bf16, against `rustc_apfloat`.

use super::{check, evaluate, pairs, random};
use rustc_apfloat::ieee::{BFloat, Half};
use rustc_apfloat::{Float, Round};

fn samples() -> Vec<u64> {
    let mut all =
        vec![0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x0400, 0x03ff, 0x3f80];
    all.extend(random(40, 20).iter().map(|x| x & 0xffff));
    all
}

/// A result's bits, with PTX's one NaN.
fn bits<F: Float>(value: F) -> u64 {
    if value.is_nan() { 0x7fff } else { value.to_bits() as u64 }
}

fn arithmetic<F: Float>(ty: &str) {
    let [a, b] = pairs(&samples());
    let c: Vec<u64> = random(a.len(), 21).iter().map(|x| x & 0xffff).collect();
    let float = |value: u64| F::from_bits((value & 0xffff).into());
    let round = Round::NearestTiesToEven;
    type Expected<F> = fn(F, F, Round) -> F;
    let table: [(&str, Expected<F>); 3] = [
        ("add", |a, b, round| a.add_r(b, round).value),
        ("sub", |a, b, round| a.sub_r(b, round).value),
        ("mul", |a, b, round| a.mul_r(b, round).value),
    ];
    for (name, expected) in table {
        check(&format!("{name}.rn.{ty} %d, %a, %b;"), "b16", &[("b16", &a), ("b16", &b)], |row| {
            bits(expected(float(row[0]), float(row[1]), round))
        });
        // Two at once: the second pair is the first with its operands exchanged.
        let packed = |x: &[u64], y: &[u64]| -> Vec<u64> { x.iter().zip(y).map(|(x, y)| x | y << 16).collect() };
        let (ab, ba) = (packed(&a, &b), packed(&b, &a));
        check(&format!("{name}.rn.{ty}x2 %d, %a, %b;"), "b32", &[("b32", &ab), ("b32", &ba)], |row| {
            let part = |shift: u32| bits(expected(float(row[0] >> shift), float(row[1] >> shift), round)) << shift;
            part(0) | part(16)
        });
    }
    check(&format!("fma.rn.{ty} %d, %a, %b, %c;"), "b16", &[("b16", &a), ("b16", &b), ("b16", &c)], |row| {
        bits(float(row[0]).mul_add_r(float(row[1]), float(row[2]), round).value)
    });
    check(&format!("fma.rn.relu.{ty} %d, %a, %b, %c;"), "b16", &[("b16", &a), ("b16", &b), ("b16", &c)], |row| {
        let result = float(row[0]).mul_add_r(float(row[1]), float(row[2]), round).value;
        if result.is_negative() && !result.is_nan() { 0 } else { bits(result) }
    });
    // What tensors hold out of their bounds makes a product nothing; other NaNs stay.
    let mut marked = a.clone();
    marked.iter_mut().step_by(3).for_each(|x| *x = 0x7ff7);
    let columns: [(&str, &[u64]); 3] = [("b16", &marked), ("b16", &b), ("b16", &c)];
    let flipped: [(&str, &[u64]); 3] = [("b16", &b), ("b16", &marked), ("b16", &c)];
    let guarded = |row: &[u64], relu: bool| {
        if row[0] == 0x7ff7 || row[1] == 0x7ff7 {
            return 0;
        }
        let result = float(row[0]).mul_add_r(float(row[1]), float(row[2]), round).value;
        if relu && result.is_negative() && !result.is_nan() { 0 } else { bits(result) }
    };
    check(&format!("fma.rn.oob.{ty} %d, %a, %b, %c;"), "b16", &columns, |row| guarded(row, false));
    check(&format!("fma.rn.oob.relu.{ty} %d, %a, %b, %c;"), "b16", &flipped, |row| guarded(row, true));
    let pairs = columns.map(|(_, column)| column.iter().map(|x| x | x << 16 ^ 0x8000_0000).collect::<Vec<u64>>());
    let operands: Vec<(&str, &[u64])> = pairs.iter().map(|column| ("b32", &column[..])).collect();
    check(&format!("fma.rn.oob.{ty}x2 %d, %a, %b, %c;"), "b32", &operands, |row| {
        let part = |shift: u32| guarded(&[0, 1, 2].map(|at: usize| row[at] >> shift & 0xffff), false) << shift;
        part(0) | part(16)
    });
    check(&format!("max.{ty} %d, %a, %b;"), "b16", &[("b16", &a), ("b16", &b)], |row| {
        let (x, y) = (float(row[0]), float(row[1]));
        match (x.is_nan(), y.is_nan()) {
            (true, _) => bits(y),
            (_, true) => bits(x),
            _ if x.is_zero() && y.is_zero() => bits(if x.is_negative() { y } else { x }),
            _ => bits(if x > y { x } else { y }),
        }
    });
    check(&format!("neg.{ty} %d, %a;"), "b16", &[("b16", &a)], |row| row[0] ^ 0x8000);
    check(&format!("abs.{ty} %d, %a;"), "b16", &[("b16", &a)], |row| row[0] & 0x7fff);
}

/// `fma` of all triples of `edges`, of random bits, and of products half way between two numbers with little added.
fn fused<F: Float>(ty: &str, edges: &[u64], three_halves: u64) {
    let mut columns: [Vec<u64>; 3] = Default::default();
    let mut add = |row: [u64; 3]| columns.iter_mut().zip(row).for_each(|(column, x)| column.push(x & 0xffff));
    for a in edges {
        for b in edges {
            edges.iter().for_each(|c| add([*a, *b, *c]));
        }
    }
    random(60_000, 22).chunks_exact(3).for_each(|row| add([row[0], row[1], row[2]]));
    for a in random(1000, 23) {
        [0, 0x8000, 1, 0x8001].into_iter().for_each(|c| add([a, three_halves, c]));
    }
    let [a, b, c] = &columns;
    let expected = |a: u64, b: u64, c: u64| {
        let [a, b, c] = [a, b, c].map(|x| F::from_bits((x & 0xffff).into()));
        bits(a.mul_add_r(b, c, Round::NearestTiesToEven).value)
    };
    check(&format!("fma.rn.{ty} %d, %a, %b, %c;"), "b16", &[("b16", a), ("b16", b), ("b16", c)], |row| {
        expected(row[0], row[1], row[2])
    });
    // The upper halves are of the rows from the end.
    let packed = columns.each_ref().map(|column| -> Vec<u64> {
        column.iter().zip(column.iter().rev()).map(|(low, high)| low | high << 16).collect()
    });
    let operands = packed.each_ref().map(|column| ("b32", column.as_slice()));
    check(&format!("fma.rn.{ty}x2 %d, %a, %b, %c;"), "b32", &operands, |row| {
        let part = |shift: u32| expected(row[0] >> shift, row[1] >> shift, row[2] >> shift) << shift;
        part(0) | part(16)
    });
}

#[test]
fn half_precision() {
    arithmetic::<Half>("f16");
    let edges = [0, 1, 2, 0x3ff, 0x400, 0x401, 0x1400, 0x3bff, 0x3c00, 0x3c01, 0x3e00, 0x5bff, 0x7bff, 0x7c00, 0x7e01];
    fused::<Half>("f16", &edges.map(|x| [x, x | 0x8000]).concat(), 0x3e00);
}

#[test]
fn brain_floats() {
    arithmetic::<BFloat>("bf16");
    // Products of these leave the range of f32 at either end.
    let edges =
        [0, 1, 2, 0x7f, 0x80, 0x81, 0x1f80, 0x3f7f, 0x3f80, 0x3f81, 0x3fc0, 0x4080, 0x7f00, 0x7f7f, 0x7f80, 0x7fc1];
    fused::<BFloat>("bf16", &edges.map(|x| [x, x | 0x8000]).concat(), 0x3fc0);
}

#[test]
fn every_half_widens_and_narrows_again() {
    let all: Vec<u64> = (0..0x1_0000).collect();
    check("{.reg .f32 %x;\ncvt.f32.f16 %x, %a;\ncvt.rn.f16.f32 %d, %x;}", "b16", &[("b16", &all)], |row| {
        if row[0] & 0x7fff > 0x7c00 { 0x7fff } else { row[0] }
    });
    check("cvt.f32.f16 %d, %a;", "b32", &[("b16", &all)], |row| {
        let mut loses = false;
        let wide: rustc_apfloat::ieee::Single =
            rustc_apfloat::FloatConvert::convert(Half::from_bits(row[0].into()), &mut loses).value;
        if wide.is_nan() { 0x7fff_ffff } else { wide.to_bits() as u64 }
    });
}

#[test]
fn halves_and_single_floats_mix() {
    let one = |x: f32| u64::from(x.to_bits());
    let small = f32::exp2(-30.0);
    // 1.5, -2 and 1 in either format; what is computed of them is rounded once, as asked.
    for (ty, [x, y, unit]) in [("f16", [0x3e00, 0xc000, 0x3c00]), ("bf16", [0x3fc0, 0xc000, 0x3f80])] {
        let sum = |name: &str, a: u64, c: f32| {
            evaluate(&format!("{name}.f32.{ty} %d, %a, %b;"), "f32", &[("b16", &[a]), ("f32", &[one(c)])])[0]
        };
        assert_eq!(sum("add", x, 2.25), one(3.75));
        assert_eq!(sum("sub.rn", x, 2.25), one(-0.75));
        assert_eq!(sum("add.rn", unit, small), one(1.0));
        assert_eq!(sum("add.rp", unit, small), one(1.0f32.next_up()));
        assert_eq!(sum("add.rz.sat", x, 2.0), one(1.0));
        let columns: [(&str, &[u64]); 3] = [("b16", &[x]), ("b16", &[y]), ("f32", &[one(small)])];
        assert_eq!(evaluate(&format!("fma.rn.f32.{ty} %d, %a, %b, %c;"), "f32", &columns), [one(-3.0)]);
        assert_eq!(evaluate(&format!("fma.rp.f32.{ty} %d, %a, %b, %c;"), "f32", &columns), [one((-3.0f32).next_up())]);
    }
}
