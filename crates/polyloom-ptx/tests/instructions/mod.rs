//! Each instruction against what it should compute, on values at the edges and random ones.

mod bits;
mod convert;
mod float;
mod half;
mod integer;
mod packed;
mod select;

use crate::device::{array, launch, values};

/// Values of integers where things happen.
pub(crate) const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7f_ffff,
    0x80_0000,
    0xff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x1234_5678_9abc_def0,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

/// Numbers that look random and are the same each time (Steele and others' SplitMix64, 2014).
pub(crate) fn random(count: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    (0..count).map(|_| next()).collect()
}

/// Pairs of all values with all values.
pub(crate) fn pairs(of: &[u64]) -> [Vec<u64>; 2] {
    let all = of.iter().flat_map(|a| of.iter().map(move |b| (*a, *b)));
    let (a, b): (Vec<_>, Vec<_>) = all.unzip();
    [a, b]
}

/// Triples of every fourth value or so, with all of the first.
pub(crate) fn triples(of: &[u64]) -> [Vec<u64>; 3] {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for (i, a) in of.iter().enumerate() {
        for (j, b) in of.iter().enumerate().skip(i % 3).step_by(3) {
            for c in of.iter().skip((i + j) % 3).step_by(3) {
                all[0].push(*a);
                all[1].push(*b);
                all[2].push(*c);
            }
        }
    }
    all
}

/// Returns what one instruction makes of columns of operands. It is written with `%d`, `%a`, `%b`, `%c`; a type of
/// `pred` stands for the lowest bit. `also` is a second result, of 32 bits.
pub(crate) fn evaluate(instruction: &str, result: &str, operands: &[(&str, &[u64])]) -> Vec<u64> {
    let count = operands[0].1.len();
    let mut text = String::from(".version 8.6\n.target sm_100\n.visible .entry k(.param .u64 out");
    for index in 0..operands.len() {
        text += &format!(", .param .u64 in{index}");
    }
    text += ") {\n.reg .b64 %base, %offset;\n.reg .b32 %t, %n;\n.reg .pred %q;\n";
    let register =
        |ty: &str| if ty == "pred" { "pred".to_owned() } else { format!("b{}", ty.trim_matches(char::is_alphabetic)) };
    text += &format!(".reg .{} %d;\n", register(result));
    text += "mov.u32 %t, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmul.lo.u32 %n, %t, %n;\nmov.u32 %t, %tid.x;\nadd.u32 %t, %t, %n;\nmul.wide.u32 %offset, %t, 8;\n";
    for (index, (ty, _)) in operands.iter().enumerate() {
        let name = ["a", "b", "c", "e"][index];
        let ty = register(ty);
        text += &format!(".reg .{ty} %{name};\nld.param.u64 %base, [in{index}];\nadd.u64 %base, %base, %offset;\n");
        if ty == "pred" {
            text += &format!("ld.global.b32 %t, [%base];\nsetp.ne.b32 %{name}, %t, 0;\n");
        } else {
            text += &format!("ld.global.{ty} %{name}, [%base];\n");
        }
    }
    text += &format!("{instruction}\nld.param.u64 %base, [out];\nadd.u64 %base, %base, %offset;\n");
    if result == "pred" {
        text += "selp.b32 %t, 1, 0, %d;\nst.global.b32 [%base], %t;\n";
    } else {
        text += &format!("st.global.{} [%base], %d;\n", register(result));
    }
    text += "ret;\n}\n";
    let block = 256;
    let padded = count.next_multiple_of(block);
    let mut args = vec![array(&vec![0u64; padded])];
    for (_, column) in operands {
        let mut column = column.to_vec();
        column.resize(padded, 0);
        args.push(array(&column));
    }
    let mut out: Vec<u64> = values(&launch(&text, "k", (padded / block) as u32, block as u32, args)[0]);
    out.truncate(count);
    out
}

/// Compares an instruction with a function of its operands.
pub(crate) fn check(instruction: &str, result: &str, operands: &[(&str, &[u64])], expected: impl Fn(&[u64]) -> u64) {
    let found = evaluate(instruction, result, operands);
    for (row, found) in found.iter().enumerate() {
        let given: Vec<u64> = operands.iter().map(|(_, column)| column[row]).collect();
        let wanted = expected(&given);
        assert_eq!(*found, wanted, "{instruction} of {given:x?}: {found:#x}, not {wanted:#x}");
    }
}
