//! Integer arithmetic.

use super::{EDGES, check, evaluate, pairs, random, triples};

fn sign(value: u64, bits: u32) -> i128 {
    let shift = 64 - bits;
    (((value << shift) as i64) >> shift).into()
}

fn number(value: u64, ty: &str) -> i128 {
    let bits: u32 = ty[1..].parse().expect("a width");
    if ty.starts_with('s') { sign(value, bits) } else { i128::from(value & (u64::MAX >> (64 - bits))) }
}

fn low(value: i128, ty: &str) -> u64 {
    let bits: u32 = ty[1..].parse().expect("a width");
    value as u64 & (u64::MAX >> (64 - bits))
}

fn columns() -> [Vec<u64>; 2] {
    let [mut a, mut b] = pairs(EDGES);
    a.extend(random(300, 1));
    b.extend(random(300, 2));
    [a, b]
}

const TYPES: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

#[test]
fn two_operands() {
    let [a, b] = columns();
    type Expected = fn(i128, i128) -> i128;
    let table: [(&str, Expected); 8] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul.lo", |a, b| a.wrapping_mul(b)),
        ("min", |a, b| a.min(b)),
        ("max", |a, b| a.max(b)),
        ("div", |a, b| if b == 0 { -1 } else { a / b }),
        ("rem", |a, b| if b == 0 { a } else { a % b }),
        ("sad", |a, b| (a - b).abs() + 5),
    ];
    for ty in TYPES {
        for (name, expected) in table {
            let third = if name == "sad" { ", 5" } else { "" };
            check(&format!("{name}.{ty} %d, %a, %b{third};"), ty, &[(ty, &a), (ty, &b)], |row| {
                low(expected(number(row[0], ty), number(row[1], ty)), ty)
            });
        }
        check(&format!("neg.{} %d, %a;", ty.replace('u', "s")), ty, &[(ty, &a)], |row| low(-number(row[0], ty), ty));
        let signed = ty.replace('u', "s");
        check(&format!("abs.{signed} %d, %a;"), ty, &[(ty, &a)], |row| low(number(row[0], &signed).abs(), ty));
    }
}

#[test]
fn high_and_wide_products() {
    let [a, b] = columns();
    for ty in TYPES {
        let bits: u32 = ty[1..].parse().expect("a width");
        check(&format!("mul.hi.{ty} %d, %a, %b;"), ty, &[(ty, &a), (ty, &b)], |row| {
            let (a, b) = (number(row[0], ty), number(row[1], ty));
            // 64 bits unsigned overflow an i128.
            let high = if ty == "u64" { ((a as u128 * b as u128) >> 64) as i128 } else { (a * b) >> bits };
            low(high, ty)
        });
        if bits < 64 {
            let wide = format!("{}{}", &ty[..1], 2 * bits);
            check(&format!("mul.wide.{ty} %d, %a, %b;"), &wide, &[(ty, &a), (ty, &b)], |row| {
                low(number(row[0], ty) * number(row[1], ty), &wide)
            });
            check(&format!("mad.wide.{ty} %d, %a, %b, %c;"), &wide, &[(ty, &a), (ty, &b), (&wide, &a)], |row| {
                low(number(row[0], ty) * number(row[1], ty) + number(row[2], &wide), &wide)
            });
        }
    }
}

#[test]
fn products_and_sums() {
    let [a, b, c] = triples(EDGES);
    for ty in TYPES {
        let bits: u32 = ty[1..].parse().expect("a width");
        let operands: [(&str, &[u64]); 3] = [(ty, &a), (ty, &b), (ty, &c)];
        let numbers = |row: &[u64]| (number(row[0], ty), number(row[1], ty), number(row[2], ty));
        check(&format!("mad.lo.{ty} %d, %a, %b, %c;"), ty, &operands, |row| {
            let (a, b, c) = numbers(row);
            low(a.wrapping_mul(b).wrapping_add(c), ty)
        });
        if ty != "u64" {
            check(&format!("mad.hi.{ty} %d, %a, %b, %c;"), ty, &operands, |row| {
                let (a, b, c) = numbers(row);
                low(((a * b) >> bits) + c, ty)
            });
        }
    }
    check("mad.hi.sat.s32 %d, %a, %b, %c;", "s32", &[("s32", &a), ("s32", &b), ("s32", &c)], |row| {
        let [a, b, c] = [0, 1, 2].map(|at| sign(row[at], 32));
        low((((a * b) >> 32) + c).clamp(i32::MIN.into(), i32::MAX.into()), "s32")
    });
}

#[test]
fn saturation() {
    let [a, b] = columns();
    for (name, sum) in [("add", 1), ("sub", -1)] {
        check(&format!("{name}.sat.s32 %d, %a, %b;"), "s32", &[("s32", &a), ("s32", &b)], |row| {
            let exact = sign(row[0], 32) + sum * sign(row[1], 32);
            low(exact.clamp(i32::MIN.into(), i32::MAX.into()), "s32")
        });
    }
}

#[test]
fn products_of_24_bits() {
    let [a, b, c] = triples(EDGES);
    for ty in ["u32", "s32"] {
        let part = |value: u64| if ty == "s32" { sign(value, 24) } else { i128::from(value & 0xff_ffff) };
        for (name, shift) in [("lo", 0), ("hi", 16)] {
            check(&format!("mul24.{name}.{ty} %d, %a, %b;"), ty, &[(ty, &a), (ty, &b)], |row| {
                low((part(row[0]) * part(row[1])) >> shift, ty)
            });
            check(&format!("mad24.{name}.{ty} %d, %a, %b, %c;"), ty, &[(ty, &a), (ty, &b), (ty, &c)], |row| {
                low(((part(row[0]) * part(row[1])) >> shift) + i128::from(row[2] as u32), ty)
            });
        }
    }
}

#[test]
fn carries() {
    let [a, b] = columns();
    // Sums and differences of 64 bits, made of 32.
    let halves = ".reg .b32 %al, %ah, %bl, %bh, %dl, %dh;\nmov.b64 {%al, %ah}, %a;\nmov.b64 {%bl, %bh}, %b;\n";
    let join = "\nmov.b64 %d, {%dl, %dh};";
    let operands: [(&str, &[u64]); 2] = [("u64", &a), ("u64", &b)];
    check(&format!("{halves}add.cc.u32 %dl, %al, %bl;\naddc.u32 %dh, %ah, %bh;{join}"), "u64", &operands, |row| {
        row[0].wrapping_add(row[1])
    });
    check(&format!("{halves}sub.cc.u32 %dl, %al, %bl;\nsubc.u32 %dh, %ah, %bh;{join}"), "u64", &operands, |row| {
        row[0].wrapping_sub(row[1])
    });
    // The upper half of a product of 64 bits: carries of `mad`.
    let product = "mul.lo.u32 %dl, %al, %bl;\nmul.hi.u32 %dh, %al, %bl;\nmad.lo.cc.u32 %dh, %al, %bh, %dh;\n\
                   madc.hi.u32 %dl, %al, %bh, 0;\nmad.lo.cc.u32 %dh, %ah, %bl, %dh;\nmadc.hi.cc.u32 %dl, %ah, %bl, %dl;\n\
                   addc.u32 %al, 0, 0;\nmad.lo.cc.u32 %dl, %ah, %bh, %dl;\nmadc.hi.u32 %dh, %ah, %bh, %al;";
    check(&format!("{halves}{product}{join}"), "u64", &operands, |row| {
        ((u128::from(row[0]) * u128::from(row[1])) >> 64) as u64
    });
    check("sub.cc.u64 %d, %a, %b;\nsubc.u64 %d, 0, 0;", "u64", &operands, |row| {
        0u64.wrapping_sub(u64::from(row[0] < row[1]))
    });
    // The carry of a difference is that nothing was borrowed, as NVRTC's division of 128 bits reads it.
    check("sub.cc.u64 %d, %a, %b;\naddc.u64 %d, 0, 0;", "u64", &operands, |row| u64::from(row[0] >= row[1]));
    check("add.cc.u64 %d, %a, %b;\nsubc.u64 %d, 0, 0;", "u64", &operands, |row| {
        u64::from(row[0].checked_add(row[1]).is_none()).wrapping_sub(1)
    });
}

#[test]
fn packed_halves() {
    let [a, b] = columns();
    let pair = |f: fn(i128, i128) -> i128, ty: &'static str| {
        move |row: &[u64]| {
            let part = |shift: u32| {
                low(f(number(row[0] >> shift & 0xffff, ty), number(row[1] >> shift & 0xffff, ty)), ty) << shift
            };
            part(0) | part(16)
        }
    };
    for (ty, element) in [("u16x2", "u16"), ("s16x2", "s16")] {
        let operands: [(&str, &[u64]); 2] = [("b32", &a), ("b32", &b)];
        check(&format!("add.{ty} %d, %a, %b;"), "b32", &operands, pair(|a, b| a + b, element));
        check(&format!("min.{ty} %d, %a, %b;"), "b32", &operands, pair(|a, b| a.min(b), element));
        check(&format!("max.{ty} %d, %a, %b;"), "b32", &operands, pair(|a, b| a.max(b), element));
    }
    let operands: [(&str, &[u64]); 2] = [("b32", &a), ("b32", &b)];
    check("max.relu.s16x2 %d, %a, %b;", "b32", &operands, pair(|a, b| a.max(b).max(0), "s16"));
}

#[test]
fn dot_products() {
    // The ISA's example, by hand: 1*1 + 2*2 + 3*3 + (-1)*4 + 100.
    let one = evaluate(
        "dp4a.s32.s32 %d, %a, %b, %c;",
        "s32",
        &[("s32", &[0xff03_0201]), ("s32", &[0x0403_0201]), ("s32", &[100])],
    );
    assert_eq!(one, [110]);
    let [a, b, c] = triples(EDGES);
    for (ta, tb) in [("u32", "u32"), ("s32", "u32"), ("u32", "s32"), ("s32", "s32")] {
        let operands: [(&str, &[u64]); 3] = [(ta, &a), (tb, &b), ("u32", &c)];
        let part = |value: u64, bits: u32, at: u32, ty: &str| {
            let field = value >> (bits * at) & ((1 << bits) - 1);
            if ty == "s32" { sign(field, bits) } else { field.into() }
        };
        check(&format!("dp4a.{ta}.{tb} %d, %a, %b, %c;"), "u32", &operands, |row| {
            let sum: i128 = (0..4).map(|at| part(row[0], 8, at, ta) * part(row[1], 8, at, tb)).sum();
            low(sum + i128::from(row[2] as u32), "u32")
        });
        for (name, first) in [("lo", 0), ("hi", 2)] {
            check(&format!("dp2a.{name}.{ta}.{tb} %d, %a, %b, %c;"), "u32", &operands, |row| {
                let sum: i128 = (0..2).map(|at| part(row[0], 16, at, ta) * part(row[1], 8, first + at, tb)).sum();
                low(sum + i128::from(row[2] as u32), "u32")
            });
        }
    }
}
