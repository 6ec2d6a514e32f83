//! Constant expressions: values by hand, and those that ptxas puts into a table.

use crate::device::{array, launch, values};
use crate::instructions::random;
use crate::ptxas::ptxas;
use std::process::Command;

/// Holds what marks the table among an object's bytes.
const MARK: u64 = 0xdead_beef_cafe_babe;

/// A kernel that copies a table of these expressions, a thread each.
fn module(ty: &str, all: &[String]) -> String {
    format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.global .align 8 .{ty} table[{}] = {{{}}};\n\
         .visible .entry k(.param .u64 out) {{\n.reg .b64 %rd<4>; .reg .b32 %r0;\nmov.u32 %r0, %tid.x;\n\
         ld.param.u64 %rd0, [out];\nmad.wide.u32 %rd0, %r0, 8, %rd0;\nmov.u64 %rd1, table;\n\
         mad.wide.u32 %rd1, %r0, 8, %rd1;\nld.global.u64 %rd2, [%rd1];\nst.global.u64 [%rd0], %rd2;\nret;\n}}\n",
        all.len(),
        all.join(", ")
    )
}

fn simulated(ty: &str, all: &[String]) -> Vec<u64> {
    let out = launch(&module(ty, all), "k", 1, all.len() as u32, vec![array(&vec![0u64; all.len()])]);
    values(&out[0])
}

#[test]
fn operators_are_those_of_c() {
    let minus = |value: i64| value as u64;
    let table: &[(&str, u64)] = &[
        // Precedence and grouping.
        ("1<<1+2", 8),
        ("16>>1+1", 4),
        ("1|2^3", 1),
        ("1^3&1", 0),
        ("3&2==2", 1),
        ("1<2==1", 1),
        ("2>1>0", 1),
        ("100/5/2", 10),
        ("5-3-1", 1),
        ("1<<3>>1", 4),
        ("2&&0||1", 1),
        ("1||0&&0", 1),
        ("0?2:0?3:4", 4),
        ("1 ? -1 : 2 >> 1", minus(-1)),
        ("!5+1", 1),
        ("- -5", 5),
        ("(5 > 3) ? 7 : 9", 7),
        // Signed, unless a side is not.
        ("-7/2", minus(-3)),
        ("-8>>1", minus(-4)),
        ("(4-8)/4", minus(-1)),
        ("-7/2U", (u64::MAX - 6) / 2),
        ("-8U>>1", (u64::MAX - 7) >> 1),
        ("-8>>1U", minus(-4)),
        ("-1<0", 1),
        ("-1<1U", 0),
        ("0xffffffffffffffff>>63", 1),
        ("(.s64)0x8000000000000000>>63", minus(-1)),
        ("(.u64)-8>>1", (u64::MAX - 7) >> 1),
        ("~0/2", u64::MAX / 2),
        ("-7 % 4", (u64::MAX - 6) % 4),
        ("(1<2U)-2>>1", minus(-1)),
        ("WARP_SZ*2", 64),
        ("010+0b11+0X1fU", 42),
    ];
    let texts: Vec<String> = table.iter().map(|(text, _)| (*text).to_owned()).collect();
    for ((text, expected), found) in table.iter().zip(simulated("u64", &texts)) {
        assert_eq!(found, *expected, "{text}");
    }
    let floats =
        [("1.5+2.5*2.0", 6.5), ("-(1.5)", -1.5), (".5", 0.5), ("2.", 2.0), ("1.e-3", 1e-3), ("1.0/3.0", 1.0 / 3.0)];
    let texts: Vec<String> = floats.iter().map(|(text, _)| (*text).to_owned()).collect();
    let found: Vec<f64> = simulated("f64", &texts).into_iter().map(f64::from_bits).collect();
    assert_eq!(found, floats.map(|(_, value)| value));
}

/// A random expression that divides by no zero.
fn expression(depth: u32, choose: &mut impl FnMut(usize) -> usize) -> String {
    const LEAVES: &[&str] = &[
        "1",
        "2",
        "3",
        "7",
        "0",
        "0x10",
        "31",
        "-1",
        "-7",
        "0xffffffff",
        "4U",
        "0xffffffffffffffff",
        "-3",
        "WARP_SZ",
        "017",
    ];
    const OPERATORS: &[&str] =
        &["+", "-", "*", "/", " % ", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"];
    if depth == 0 || choose(5) == 0 {
        return LEAVES[choose(LEAVES.len())].to_owned();
    }
    match choose(10) {
        0 => format!("{}({})", ["-", "~", "!", "+"][choose(4)], expression(depth - 1, choose)),
        1 => format!("{}{}", ["(.s64)", "(.u64)"][choose(2)], expression(depth - 1, choose)),
        2 => {
            let [a, b, c] = [0; 3].map(|_| expression(depth - 1, choose));
            format!("({a} ? {b} : {c})")
        }
        _ => {
            let operator = OPERATORS[choose(OPERATORS.len())];
            let left = expression(depth - 1, choose);
            let right = match operator {
                "/" | " % " => ["2", "3", "5", "7U", "(-2)"][choose(5)].to_owned(),
                _ => expression(depth - 1, choose),
            };
            // Half of them lean on precedence.
            match (choose(2), right.starts_with(['-', '~', '!', '+'])) {
                (0, _) => format!("({left}){operator}({right})"),
                (_, true) => format!("{left}{operator}({right})"),
                (_, false) => format!("{left}{operator}{right}"),
            }
        }
    }
}

#[test]
fn ptxas_comes_to_the_same() {
    let Some(ptxas) = ptxas() else { return };
    let choices = random(1 << 16, 3);
    let mut next = choices.iter();
    let mut choose = |count: usize| (next.next().expect("enough choices") % count as u64) as usize;
    let mut all = vec![MARK.to_string()];
    all.extend((0..600).map(|_| expression(4, &mut choose)));
    let folder = std::env::temp_dir().join(format!("polyloom-constants-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, object) = (folder.join("table.ptx"), folder.join("table.cubin"));
    std::fs::write(&source, module("u64", &all)).expect("it is written");
    let output = Command::new(ptxas).arg("-arch=sm_90").arg("-o").arg(&object).arg(&source).output();
    let output = output.expect("ptxas runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).expect("it is there");
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let start = bytes.windows(8).position(|window| window == MARK.to_le_bytes()).expect("the table is in the object");
    let expected: Vec<u64> = values(&bytes[start..start + 8 * all.len()]);
    let found = simulated("u64", &all);
    for (text, (expected, found)) in all.iter().zip(expected.iter().zip(&found)) {
        assert_eq!(expected, found, "{text}");
    }
}
