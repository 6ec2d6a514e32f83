//! Logic, shifts and bit fields.

use super::{EDGES, check, evaluate, pairs, random, triples};

#[test]
fn logic() {
    let [a, b] = pairs(EDGES);
    type Expected = fn(u64, u64) -> u64;
    let table: [(&str, Expected); 3] = [("and", |a, b| a & b), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)];
    for (ty, kept) in [("b16", 0xffff), ("b32", 0xffff_ffff), ("b64", u64::MAX)] {
        for (name, expected) in table {
            check(&format!("{name}.{ty} %d, %a, %b;"), ty, &[(ty, &a), (ty, &b)], |row| {
                expected(row[0], row[1]) & kept
            });
        }
        check(&format!("not.{ty} %d, %a;"), ty, &[(ty, &a)], |row| !row[0] & kept);
        check(&format!("cnot.{ty} %d, %a;"), ty, &[(ty, &a)], |row| u64::from(row[0] & kept == 0));
    }
    for (name, expected) in table {
        check(
            &format!("{name}.pred %d, %a, %b;"),
            "pred",
            &[("pred", &[0, 0, 1, 1]), ("pred", &[0, 1, 0, 1])],
            |row| expected(row[0], row[1]),
        );
    }
    check("not.pred %d, %a;", "pred", &[("pred", &[0, 1])], |row| 1 - row[0]);
}

#[test]
fn shifts_clamp() {
    let [a, b] = pairs(EDGES);
    for bits in [16u32, 32, 64] {
        let kept = u64::MAX >> (64 - bits);
        let by = |row: &[u64]| (row[1] as u32).min(bits);
        let (u, s) = (format!("u{bits}"), format!("s{bits}"));
        check(&format!("shl.b{bits} %d, %a, %b;"), &u, &[(&u, &a), ("u32", &b)], |row| {
            (u128::from(row[0]) << by(row)) as u64 & kept
        });
        check(&format!("shr.u{bits} %d, %a, %b;"), &u, &[(&u, &a), ("u32", &b)], |row| {
            (u128::from(row[0] & kept) >> by(row)) as u64
        });
        check(&format!("shr.s{bits} %d, %a, %b;"), &s, &[(&s, &a), ("u32", &b)], |row| {
            let value = (row[0] << (64 - bits)) as i64 >> (64 - bits);
            (i128::from(value) >> by(row)) as u64 & kept
        });
    }
}

#[test]
fn funnel_shifts() {
    let [a, b, c] = triples(EDGES);
    let operands: [(&str, &[u64]); 3] = [("b32", &a), ("b32", &b), ("b32", &c)];
    for (mode, amount) in [("clamp", (|c| c.min(32)) as fn(u32) -> u32), ("wrap", |c| c & 31)] {
        let both = |row: &[u64]| u64::from(row[1] as u32) << 32 | u64::from(row[0] as u32);
        check(&format!("shf.l.{mode}.b32 %d, %a, %b, %c;"), "b32", &operands, |row| {
            u64::from(((u128::from(both(row)) << amount(row[2] as u32)) >> 32) as u32)
        });
        check(&format!("shf.r.{mode}.b32 %d, %a, %b, %c;"), "b32", &operands, |row| {
            u64::from((both(row) >> amount(row[2] as u32)) as u32)
        });
    }
}

#[test]
fn fields() {
    // The pseudo-code of the ISA manual, bit by bit.
    fn bfe(a: u64, b: u64, c: u64, msb: i64, signed: bool) -> u64 {
        let (pos, len) = ((b & 0xff) as i64, (c & 0xff) as i64);
        let bit = |at: i64| a >> at & 1;
        let sign = if !signed || len == 0 { 0 } else { bit((pos + len - 1).min(msb)) };
        (0..=msb).fold(0, |d, i| {
            let value = if i < len && pos + i <= msb { bit(pos + i) } else { sign };
            d | value << i
        })
    }
    fn bfi(a: u64, b: u64, c: u64, d: u64, msb: i64) -> u64 {
        let (pos, len) = ((c & 0xff) as i64, (d & 0xff) as i64);
        let mut f = b;
        for i in (0..len).take_while(|i| pos + i <= msb) {
            f = f & !(1 << (pos + i)) | (a >> i & 1) << (pos + i);
        }
        f
    }
    let [a, b, c] = triples(EDGES);
    let d: Vec<u64> = random(a.len(), 3).iter().map(|value| value % 70).collect();
    for (ty, msb) in [("32", 31), ("64", 63)] {
        let kept = u64::MAX >> (63 - msb);
        for sign in ["u", "s"] {
            let operands: [(&str, &[u64]); 3] = [(ty, &a), ("u32", &b), ("u32", &c)];
            check(&format!("bfe.{sign}{ty} %d, %a, %b, %c;"), ty, &operands, |row| {
                bfe(row[0] & kept, row[1], row[2], msb, sign == "s")
            });
        }
        let operands: [(&str, &[u64]); 4] = [(ty, &a), (ty, &b), ("u32", &c), ("u32", &d)];
        check(&format!("bfi.b{ty} %d, %a, %b, %c, %e;"), ty, &operands, |row| {
            bfi(row[0] & kept, row[1] & kept, row[2], row[3], msb)
        });
    }
}

#[test]
fn counting() {
    let mut a = EDGES.to_vec();
    a.extend(random(200, 4));
    for bits in [32u32, 64] {
        let kept = u64::MAX >> (64 - bits);
        let ty = format!("b{bits}");
        let operands: [(&str, &[u64]); 1] = [(&ty, &a)];
        check(&format!("popc.b{bits} %d, %a;"), "u32", &operands, |row| (row[0] & kept).count_ones().into());
        check(&format!("clz.b{bits} %d, %a;"), "u32", &operands, |row| {
            ((row[0] & kept).leading_zeros() - (64 - bits)).into()
        });
        check(&format!("brev.b{bits} %d, %a;"), &ty, &operands, |row| (row[0] & kept).reverse_bits() >> (64 - bits));
        for sign in ["u", "s"] {
            let top = |value: u64| {
                let value = value & kept;
                let negative = sign == "s" && value >> (bits - 1) == 1;
                let value = if negative { !value & kept } else { value };
                if value == 0 { None } else { Some(63 - value.leading_zeros()) }
            };
            check(&format!("bfind.{sign}{bits} %d, %a;"), "u32", &operands, |row| {
                top(row[0]).map_or(0xffff_ffff, u64::from)
            });
            check(&format!("bfind.shiftamt.{sign}{bits} %d, %a;"), "u32", &operands, |row| {
                top(row[0]).map_or(0xffff_ffff, |at| u64::from(bits - 1 - at))
            });
        }
    }
}

#[test]
fn nth_set_bit() {
    // From the ISA's description: the nth set bit counted from the base, upwards or downwards.
    let cases: &[(u64, u64, i32, u64)] = &[
        (0b1011_0100, 0, 1, 2),
        (0b1011_0100, 2, 1, 2),
        (0b1011_0100, 3, 1, 4),
        (0b1011_0100, 0, 4, 7),
        (0b1011_0100, 0, 5, 0xffff_ffff),
        (0b1011_0100, 7, -2, 5),
        (0b1011_0100, 5, 0, 5),
        (0b1011_0100, 3, 0, 0xffff_ffff),
    ];
    for (mask, base, offset, expected) in cases {
        let found = evaluate(
            "fns.b32 %d, %a, %b, %c;",
            "u32",
            &[("b32", &[*mask]), ("u32", &[*base]), ("s32", &[u64::from(*offset as u32)])],
        );
        assert_eq!(found, [*expected], "fns of {mask:#b}, {base}, {offset}");
    }
}

#[test]
fn three_operand_logic() {
    let [a, b, c] = triples(EDGES);
    let operands: [(&str, &[u64]); 3] = [("b32", &a), ("b32", &b), ("b32", &c)];
    for table in [0x00u64, 0x01, 0x96, 0xe8, 0xca, 0x1a, 0xff] {
        check(&format!("lop3.b32 %d, %a, %b, %c, {table};"), "b32", &operands, |row| {
            (0..32).fold(0, |word, bit| {
                let [a, b, c] = [0, 1, 2].map(|at: usize| row[at] >> bit & 1);
                word | (table >> (a * 4 + b * 2 + c) & 1) << bit
            })
        });
    }
}

#[test]
fn permutations() {
    let [a, b] = pairs(EDGES);
    let c: Vec<u64> = random(a.len(), 5);
    let operands: [(&str, &[u64]); 3] = [("b32", &a), ("b32", &b), ("b32", &c)];
    check("prmt.b32 %d, %a, %b, %c;", "b32", &operands, |row| {
        let bytes = u64::from(row[1] as u32) << 32 | u64::from(row[0] as u32);
        (0..4).fold(0, |word, at| {
            let selector = row[2] >> (4 * at);
            let byte = bytes >> (8 * (selector & 7)) & 0xff;
            let byte = if selector & 8 == 0 { byte } else { 0xff * (byte >> 7) };
            word | byte << (8 * at)
        })
    });
    // The table of modes in the ISA manual, for c = 0 to 3; digits are bytes of the result, highest first.
    for (mode, rows) in [
        ("f4e", [0x3210, 0x4321, 0x5432, 0x6543]),
        ("b4e", [0x5670, 0x6701, 0x7012, 0x0123]),
        ("rc8", [0x0000, 0x1111, 0x2222, 0x3333]),
        ("ecl", [0x3210, 0x3211, 0x3222, 0x3333]),
        ("ecr", [0x0000, 0x1110, 0x2210, 0x3210]),
        ("rc16", [0x1010, 0x3232, 0x1010, 0x3232]),
    ] {
        for (select, digits) in (0..).zip(rows) {
            let found = evaluate(
                &format!("prmt.b32.{mode} %d, %a, %b, {select};"),
                "b32",
                &[("b32", &[0x0302_0100]), ("b32", &[0x0706_0504])],
            );
            let expected = (0..4).fold(0u64, |word, at| word | (digits >> (4 * at) & 0xf) << (8 * at));
            assert_eq!(found, [expected], "prmt.{mode} with {select}");
        }
    }
}

#[test]
fn masks_and_extensions() {
    let [a, b] = pairs(&[0, 1, 4, 8, 31, 32, 33, 40]);
    let operands: [(&str, &[u64]); 2] = [("b32", &a), ("b32", &b)];
    check("bmsk.clamp.b32 %d, %a, %b;", "b32", &operands, |row| {
        (0..32).filter(|bit| (row[0]..row[0] + row[1]).contains(bit)).fold(0, |mask, bit| mask | 1 << bit)
    });
    check("bmsk.wrap.b32 %d, %a, %b;", "b32", &operands, |row| {
        let (start, count) = (row[0] & 31, row[1] & 31);
        (0..32).filter(|bit| (start..start + count).contains(bit)).fold(0, |mask, bit| mask | 1 << bit)
    });
    let values = random(b.len(), 6);
    let operands: [(&str, &[u64]); 2] = [("b32", &values), ("b32", &b)];
    check("szext.clamp.u32 %d, %a, %b;", "b32", &operands, |row| row[0] & ((1u64 << row[1].min(32)) - 1));
    check("szext.wrap.s32 %d, %a, %b;", "b32", &operands, |row| match row[1] as u32 & 31 {
        0 => 0,
        n => u64::from((((row[0] as u32) << (32 - n)) as i32 >> (32 - n)) as u32),
    });
}
