//! Comparison, selection and moves.

use super::{EDGES, check, pairs, random};

#[test]
fn integer_relations() {
    let [a, b] = pairs(EDGES);
    type Expected = fn(i128, i128) -> bool;
    let table: [(&str, Expected); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for ty in ["u16", "s16", "u32", "s32", "u64", "s64"] {
        let bits: u32 = ty[1..].parse().expect("a width");
        let number = |value: u64| -> i128 {
            let shift = 64 - bits;
            if ty.starts_with('s') {
                ((value << shift) as i64 >> shift).into()
            } else {
                (value << shift >> shift).into()
            }
        };
        for (name, expected) in table {
            check(&format!("setp.{name}.{ty} %d, %a, %b;"), "pred", &[(ty, &a), (ty, &b)], |row| {
                expected(number(row[0]), number(row[1])).into()
            });
        }
    }
    for (name, same) in [("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")] {
        let expected = table.iter().find(|(each, _)| *each == same).expect("in the table").1;
        check(&format!("setp.{name}.u32 %d, %a, %b;"), "pred", &[("u32", &a), ("u32", &b)], |row| {
            expected((row[0] as u32).into(), (row[1] as u32).into()).into()
        });
    }
}

#[test]
fn float_relations() {
    let values: Vec<u64> =
        [0.0f32, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, 1e-45].iter().map(|x| x.to_bits().into()).collect();
    let [a, b] = pairs(&values);
    type Expected = fn(f32, f32) -> bool;
    let table: [(&str, Expected); 14] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| !(a == b || a.is_nan() || b.is_nan())),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
        ("equ", |a, b| a == b || a.is_nan() || b.is_nan()),
        ("neu", |a, b| a != b),
        ("ltu", |a, b| a < b || a.is_nan() || b.is_nan()),
        ("leu", |a, b| a <= b || a.is_nan() || b.is_nan()),
        ("gtu", |a, b| a > b || a.is_nan() || b.is_nan()),
        ("geu", |a, b| a >= b || a.is_nan() || b.is_nan()),
        ("num", |a, b| !a.is_nan() && !b.is_nan()),
        ("nan", |a, b| a.is_nan() || b.is_nan()),
    ];
    let operands: [(&str, &[u64]); 2] = [("f32", &a), ("f32", &b)];
    for (name, expected) in table {
        let both = |row: &[u64]| expected(f32::from_bits(row[0] as u32), f32::from_bits(row[1] as u32));
        check(&format!("setp.{name}.f32 %d, %a, %b;"), "pred", &operands, |row| both(row).into());
        check(
            &format!("set.{name}.u32.f32 %d, %a, %b;"),
            "b32",
            &operands,
            |row| {
                if both(row) { 0xffff_ffff } else { 0 }
            },
        );
        check(
            &format!("set.{name}.f32.f32 %d, %a, %b;"),
            "b32",
            &operands,
            |row| {
                if both(row) { 0x3f80_0000 } else { 0 }
            },
        );
        let flushed = |x: u64| if f32::from_bits(x as u32).is_subnormal() { 0.0 } else { f32::from_bits(x as u32) };
        check(&format!("setp.{name}.ftz.f32 %d, %a, %b;"), "pred", &operands, |row| {
            expected(flushed(row[0]), flushed(row[1])).into()
        });
    }
}

#[test]
fn relations_combine_with_predicates() {
    let [a, b] = pairs(&[1, 2]);
    let [_, c] = pairs(&[0, 1]);
    let operands: [(&str, &[u64]); 3] = [("u32", &a), ("u32", &b), ("pred", &c)];
    for (name, expected) in
        [("and", (|a, b| a & b) as fn(bool, bool) -> bool), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)]
    {
        check(&format!("setp.lt.{name}.u32 %d, %a, %b, %c;"), "pred", &operands, |row| {
            expected(row[0] < row[1], row[2] != 0).into()
        });
        check(&format!("setp.lt.{name}.u32 %d, %a, %b, !%c;"), "pred", &operands, |row| {
            expected(row[0] < row[1], row[2] == 0).into()
        });
        // The second predicate has the negated relation.
        check(&format!("setp.lt.{name}.u32 %q|%d, %a, %b, %c;"), "pred", &operands, |row| {
            expected(row[0] >= row[1], row[2] != 0).into()
        });
    }
}

#[test]
fn selection() {
    let a = random(64, 40);
    let b = random(64, 41);
    let c: Vec<u64> = (0..64).map(|i| i % 2).collect();
    for (ty, kept) in [("b16", 0xffff), ("b32", 0xffff_ffff), ("b64", u64::MAX)] {
        check(&format!("selp.{ty} %d, %a, %b, %c;"), ty, &[(ty, &a), (ty, &b), ("pred", &c)], |row| {
            if row[2] != 0 { row[0] & kept } else { row[1] & kept }
        });
        check(&format!("slct.{ty}.s32 %d, %a, %b, %c;"), ty, &[(ty, &a), (ty, &b), ("s32", &a)], |row| {
            if row[2] as i32 >= 0 { row[0] & kept } else { row[1] & kept }
        });
    }
    let signs: Vec<u64> = [1.0f32, -1.0, 0.0, -0.0, f32::NAN].iter().map(|x| x.to_bits().into()).collect();
    check("slct.u32.f32 %d, 1, 2, %a;", "u32", &[("f32", &signs)], |row| {
        if f32::from_bits(row[0] as u32) >= 0.0 { 1 } else { 2 }
    });
}

#[test]
fn vectors_are_packed_and_taken_apart() {
    let a = random(64, 42);
    check("{.reg .b32 %l, %h;\nmov.b64 {%l, %h}, %a;\nmov.b64 %d, {%h, %l};}", "b64", &[("b64", &a)], |row| {
        row[0].rotate_left(32)
    });
    check(
        "{.reg .b16 %w<4>;\nmov.b64 {%w0, %w1, %w2, %w3}, %a;\nmov.b64 %d, {%w3, %w2, %w1, %w0};}",
        "b64",
        &[("b64", &a)],
        |row| (0..4).fold(0, |word, at| word | (row[0] >> (16 * at) & 0xffff) << (48 - 16 * at)),
    );
    check("{.reg .b16 %l;\nmov.b32 {%l, _}, %a;\nmov.b32 %d, {%l, %l};}", "b32", &[("b32", &a)], |row| {
        (row[0] & 0xffff) * 0x1_0001
    });
}
