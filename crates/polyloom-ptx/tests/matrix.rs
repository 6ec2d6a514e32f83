//! Matrix instructions against products computed here, by the fragment tables of the ISA manual.

use crate::device::{array, launch, values};
use crate::instructions::random;
use rustc_apfloat::ieee::Single;
use rustc_apfloat::{Float, FloatConvert};

/// f16 bits of a small integer.
fn half(x: i32) -> u32 {
    let magnitude = x.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let exponent = 31 - magnitude.leading_zeros();
    let fraction = (magnitude << (10 - exponent)) & 0x3ff;
    (if x < 0 { 0x8000 } else { 0 }) | (exponent + 15) << 10 | fraction
}

fn brain(x: i32) -> u32 {
    (x as f32).to_bits() >> 16
}

/// A small integer in a format of eight bits, so many of them the fraction's.
fn eighth<const FRACTION: u32>(x: i32) -> u32 {
    let magnitude = x.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let exponent = 31 - magnitude.leading_zeros();
    let fraction = (magnitude << FRACTION >> exponent) & ((1 << FRACTION) - 1);
    let bias = (1 << (6 - FRACTION)) - 1;
    (if x < 0 { 0x80 } else { 0 }) | (exponent + bias) << FRACTION | fraction
}

fn entry(i: usize, j: usize, seed: usize) -> i32 {
    ((i * 7 + j * 13 + seed * 5 + i * j) % 9) as i32 - 4
}

/// Runs a kernel whose lanes load their fragments from `in`, `words` a lane, and store theirs to `out`, four a lane.
fn fragments(body: &str, words: usize, input: &[u32]) -> Vec<u32> {
    let registers: String = (0..words).map(|i| format!("ld.global.u32 %r{i}, [%rd1+{}];\n", 4 * i)).collect();
    let text = format!(
        ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 in, .param .u64 out) {{\n.reg .b32 %r<32>, %t, %d<4>;\n\
         .reg .b64 %rd<4>;\n.shared .align 16 .b8 tile[2048];\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %t, %tid.x;\n\
         mul.wide.u32 %rd3, %t, {stride};\nadd.u64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd3, %t, 16;\nadd.u64 %rd2, %rd2, %rd3;\n\
         {registers}{body}\nst.global.v4.u32 [%rd2], {{%d0, %d1, %d2, %d3}};\nret;\n}}\n",
        stride = 4 * words
    );
    values(&launch(&text, "k", 1, 32, vec![array(input), array(&[0u32; 128])])[1])
}

/// The accumulator of `m16n8`: registers of lane `4 g + t` are (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
fn accumulator(lane: usize, register: usize) -> (usize, usize) {
    (lane / 4 + 8 * (register / 2), lane % 4 * 2 + register % 2)
}

/// Returns what lanes have of the factors of `m16n8kK`, whose elements of `bits` bits are given.
fn factors(k: usize, bits: usize, a: impl Fn(usize, usize) -> u32, b: impl Fn(usize, usize) -> u32) -> Vec<u32> {
    let each = 32 / bits;
    let mut input = Vec::new();
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        for register in 0..16 * k / each / 32 {
            let row = g + 8 * (register % 2);
            let column = register / 2 * 4 * each + t * each;
            input.push((0..each).fold(0, |word, i| word | a(row, column + i) << (bits * i)));
        }
        for register in 0..8 * k / each / 32 {
            let row = register * 4 * each + t * each;
            input.push((0..each).fold(0, |word, i| word | b(row + i, g) << (bits * i)));
        }
    }
    input
}

/// Checks `mma.sync.m16n8kK` with elements of `bits` bits, `each` made of small integers by `pack`.
fn product(instruction: &str, k: usize, bits: usize, pack: fn(i32) -> u32, integral: bool) {
    let each = 32 / bits;
    let (a_registers, b_registers) = (16 * k / each / 32, 8 * k / each / 32);
    let input = factors(k, bits, |row, at| pack(entry(row, at, 1)), |at, column| pack(entry(at, column, 2)));
    let list =
        |from: usize, count: usize| (from..from + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
    let start = if integral { "mov.b32 %t, 100;" } else { "mov.b32 %t, 0f42C80000;" };
    let body = format!(
        "{start}\n{instruction} {{%d0, %d1, %d2, %d3}}, {{{}}}, {{{}}}, {{%t, %t, %t, %t}};",
        list(0, a_registers),
        list(a_registers, b_registers)
    );
    let out = fragments(&body, a_registers + b_registers, &input);
    for lane in 0..32 {
        for register in 0..4 {
            let (row, column) = accumulator(lane, register);
            let sum: i32 = (0..k).map(|at| entry(row, at, 1) * entry(at, column, 2)).sum::<i32>() + 100;
            let expected = if integral { sum as u32 } else { (sum as f32).to_bits() };
            assert_eq!(out[lane * 4 + register], expected, "{instruction} ({row}, {column})");
        }
    }
}

#[test]
fn products_of_every_type() {
    let single = |x: i32| (x as f32).to_bits();
    product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, half, false);
    product("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 8, 16, half, false);
    product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, brain, false);
    product("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32, single, false);
    product("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32, single, false);
    product("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32, 8, |x| x as u32 & 0xff, true);
    product("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, 8, |x| x as u32 & 0xff, true);
    product("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", 32, 4, |x| x as u32 & 0xf, true);
    product("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 64, 4, |x| x as u32 & 0xf, true);
    product("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", 16, 8, eighth::<3>, false);
    product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, 8, eighth::<3>, false);
    product("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 8, eighth::<2>, false);
}

/// Checks that `mma.sync.m16n8kK` of elements of `bits` bits, taken of `source`, adds one product after the other.
fn rounded(ty: &str, k: usize, bits: usize, source: &[u64], widen: fn(u32) -> f32) {
    let kept = u32::MAX >> (32 - bits);
    let a = |row: usize, at: usize| source[(row * k + at) % source.len()] as u32 & kept;
    let b = |at: usize, column: usize| (source[(at * 8 + column) % source.len()] >> 32) as u32 & kept;
    let input = factors(k, bits, a, b);
    let (a_registers, b_registers) = (k * bits / 64, k * bits / 128);
    let list =
        |from: usize, count: usize| (from..from + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
    let start = 0x3f8c_cccd;
    let body = format!(
        "mov.b32 %t, {start};\nmma.sync.aligned.m16n8k{k}.row.col.f32.{ty}.{ty}.f32 {{%d0, %d1, %d2, %d3}}, {{{}}}, {{{}}}, \
         {{%t, %t, %t, %t}};",
        list(0, a_registers),
        list(a_registers, b_registers)
    );
    let out = fragments(&body, a_registers + b_registers, &input);
    for (index, found) in out.iter().enumerate() {
        let (row, column) = accumulator(index / 4, index % 4);
        let add = |sum: f32, at| widen(a(row, at)).mul_add(widen(b(at, column)), sum);
        let sum = (0..k).fold(f32::from_bits(start), add);
        let expected = if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() };
        assert_eq!(*found, expected, "{ty} k{k} ({row}, {column})");
    }
}

#[test]
fn each_product_is_added_and_rounded_in_order() {
    let half = |bits: u32| {
        let mut exact = false;
        let half = rustc_apfloat::ieee::Half::from_bits(bits.into());
        f32::from_bits(FloatConvert::<Single>::convert(half, &mut exact).value.to_bits() as u32)
    };
    let brain = |bits: u32| f32::from_bits(bits << 16);
    let tensor = |bits: u32| f32::from_bits(bits & !0x1fff);
    for seed in 0..8 {
        // Any bits, and numbers around one.
        let any = random(512, 70 + seed);
        let around = |mask: u64, one: u64| any.iter().map(|x| x & mask ^ one | (x >> 32 & mask ^ one) << 32).collect();
        let halves: Vec<u64> = around(0x93ff, 0x3c00);
        let brains: Vec<u64> = around(0x81ff, 0x3f80);
        let tensors: Vec<u64> = around(0x81ff_ffff, 0x3f80_0000);
        for source in [&any, &halves] {
            rounded("f16", 8, 16, source, half);
            rounded("f16", 16, 16, source, half);
        }
        for source in [&any, &brains] {
            rounded("bf16", 8, 16, source, brain);
            rounded("bf16", 16, 16, source, brain);
        }
        for source in [&any, &tensors] {
            rounded("tf32", 4, 32, source, tensor);
            rounded("tf32", 8, 32, source, tensor);
        }
    }
}

#[test]
fn four_products_of_quarters_of_a_warp() {
    // Elements of the quarter's matrices, which all differ: `seed` tells them apart.
    let element = |quarter: usize, i: usize, j: usize, seed: usize| entry(i, j, seed + 3 * quarter);
    let sum = |quarter: usize, row: usize, column: usize| {
        (0..4).map(|k| element(quarter, row, k, 1) * element(quarter, k, column, 2)).sum::<i32>() + 20
    };
    for (a_by_rows, b_by_rows) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut input = Vec::new();
        for lane in 0..32 {
            // The table of the manual, by lanes of a quarter: 0 to 3 and 16 to 19 of the first.
            let (quarter, t, upper) = (lane % 16 / 4, lane % 4, if lane < 16 { 0 } else { 4 });
            let a = |i: usize| if a_by_rows { (t + upper, i) } else { (i + upper, t) };
            let b = |i: usize| if b_by_rows { (t, i + upper) } else { (i, t + upper) };
            for (place, seed) in [(&a as &dyn Fn(usize) -> (usize, usize), 1), (&b, 2)] {
                for pair in [0, 2] {
                    let [low, high] = [pair, pair + 1].map(place);
                    let bits = |(i, j)| half(element(quarter, i, j, seed));
                    input.push(bits(low) | bits(high) << 16);
                }
            }
        }
        let order = |by_rows| if by_rows { "row" } else { "col" };
        let name = format!("mma.sync.aligned.m8n8k4.{}.{}", order(a_by_rows), order(b_by_rows));
        let halves = format!(
            "mov.b32 %t, 0x4d004d00;\n{name}.f16.f16.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%r0, %r1}}, {{%r2, %r3}}, \
             {{%t, %t, %t, %t}};"
        );
        let out = fragments(&halves, 4, &input);
        for lane in 0..32 {
            let (quarter, row) = (lane % 16 / 4, lane % 4 + if lane < 16 { 0 } else { 4 });
            for column in 0..8 {
                let found = out[lane * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
                assert_eq!(found, half(sum(quarter, row, column)), "{name} ({row}, {column}) of {quarter}");
            }
        }
        // Of eight singles a lane has, four at a time.
        for first in [0, 4] {
            let registers: Vec<String> = (0..8)
                .map(|i| if i / 4 * 4 == first { format!("%d{}", i % 4) } else { format!("%r{}", 8 + i) })
                .collect();
            let singles = format!(
                "mov.b32 %t, 0f41A00000;\n{name}.f32.f16.f16.f32 {{{}}}, {{%r0, %r1}}, {{%r2, %r3}}, \
                 {{%t, %t, %t, %t, %t, %t, %t, %t}};",
                registers.join(", ")
            );
            let out = fragments(&singles, 4, &input);
            for lane in 0..32usize {
                let (quarter, x) = (lane % 16 / 4, lane % 4);
                for i in first..first + 4 {
                    let row = (x & 1) + (i & 2) + if lane < 16 { 0 } else { 4 };
                    let column = (i & 4) + (lane & 2) + (i & 1);
                    let expected = (sum(quarter, row, column) as f32).to_bits();
                    assert_eq!(out[lane * 4 + i % 4], expected, "{name} ({row}, {column}) of {quarter}");
                }
            }
        }
    }
}

/// A bit of a matrix.
fn bit(i: usize, j: usize, seed: usize) -> u32 {
    (entry(i, j, seed) & 1) as u32
}

/// Returns what `and` or `xor` of a row and a column of bits counts, with 7 to begin with.
fn counted(xor: bool, k: usize, row: usize, column: usize) -> u32 {
    let both = |at| (bit(row, at, 1), bit(at, column, 2));
    7 + (0..k).map(both).map(|(a, b)| if xor { a ^ b } else { a & b }).sum::<u32>()
}

#[test]
fn products_of_single_bits() {
    // Each register is 32 bits of a row of A or a column of B, by the fragment tables of the ISA manual.
    let word = |of: &dyn Fn(usize) -> u32| (0..32).fold(0, |word, i| word | of(i) << i);
    for (m, k) in [(8, 128), (16, 128), (16, 256)] {
        let (a_registers, b_registers) = (m * k / 1024, k / 128);
        let mut input = Vec::new();
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for register in 0..a_registers {
                let (row, first) = if m == 8 { (g, 0) } else { (g + 8 * (register % 2), register / 2 * 128) };
                input.push(word(&|i| bit(row, first + 32 * t + i, 1)));
            }
            for register in 0..b_registers {
                input.push(word(&|i| bit(register * 128 + 32 * t + i, g, 2)));
            }
        }
        let list = |name: &str, from: usize, count: usize| {
            (from..from + count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ")
        };
        let results = m / 4;
        for operation in ["and", "xor"] {
            let body = format!(
                "mov.b32 %t, 7;\nmov.b32 %d2, 0;\nmov.b32 %d3, 0;\n\
                 mma.sync.aligned.m{m}n8k{k}.row.col.s32.b1.b1.s32.{operation}.popc {{{}}}, {{{}}}, {{{}}}, {{{}}};",
                list("d", 0, results),
                list("r", 0, a_registers),
                list("r", a_registers, b_registers),
                vec!["%t"; results].join(", ")
            );
            let out = fragments(&body, a_registers + b_registers, &input);
            for (lane, register) in (0..32).flat_map(|lane| (0..results).map(move |register| (lane, register))) {
                let (row, column) = accumulator(lane, register);
                let expected = counted(operation == "xor", k, row, column);
                assert_eq!(out[lane * 4 + register], expected, "m{m}k{k} {operation} ({row}, {column})");
            }
        }
    }
}

/// Matrices of 8 rows and 8 columns whose elements are `bits` wide, in rows and columns of 256 elements.
fn whole_narrow_matrices(instruction: &str, ty: &str, k: usize, bits: usize, expected: impl Fn(usize, usize) -> u32) {
    let text = format!(
        ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{\n.reg .b32 %r<8>, %s;\n\
         .reg .b64 %a, %b, %c;\nld.param.u64 %a, [a];\nld.param.u64 %b, [b];\nld.param.u64 %c, [c];\nmov.u32 %s, 256;\n\
         wmma.load.a.sync.aligned.row.m8n8k{k}.global.{ty} {{%r0}}, [%a], 256;\n\
         wmma.load.b.sync.aligned.col.m8n8k{k}.global.{ty} {{%r1}}, [%b], %s;\n\
         wmma.load.c.sync.aligned.row.m8n8k{k}.global.s32 {{%r2, %r3}}, [%c];\n\
         {instruction} {{%r2, %r3}}, {{%r0}}, {{%r1}}, {{%r2, %r3}};\n\
         wmma.store.d.sync.aligned.row.m8n8k{k}.global.s32 [%c], {{%r2, %r3}};\nret;\n}}\n"
    );
    let packed = |of: &dyn Fn(usize, usize) -> u32| -> Vec<u32> {
        let mut words = vec![0; 8 * 256 * bits / 32];
        for (line, at) in (0..8).flat_map(|line| (0..k).map(move |at| (line, at))) {
            let first = (line * 256 + at) * bits;
            words[first / 32] |= (of(line, at) & ((1 << bits) - 1)) << (first % 32);
        }
        words
    };
    let value = |i: usize, j: usize, seed: usize| if bits == 1 { bit(i, j, seed) } else { entry(i, j, seed) as u32 };
    let a = packed(&|row, at| value(row, at, 1));
    let b = packed(&|column, at| value(at, column, 2));
    let found: Vec<u32> = values(&launch(&text, "k", 1, 32, vec![array(&a), array(&b), array(&[7u32; 64])])[2]);
    for (at, found) in found.into_iter().enumerate() {
        assert_eq!(found, expected(at / 8, at % 8), "{instruction} ({}, {})", at / 8, at % 8);
    }
}

#[test]
fn whole_matrices_of_less_than_a_byte() {
    for operation in ["and", "xor"] {
        let instruction = format!("wmma.mma.{operation}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32");
        whole_narrow_matrices(&instruction, "b1", 128, 1, |row, column| counted(operation == "xor", 128, row, column));
    }
    let instruction = "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32";
    whole_narrow_matrices(instruction, "s4", 32, 4, |row, column| {
        (7 + (0..32).map(|at| entry(row, at, 1) * entry(at, column, 2)).sum::<i32>()) as u32
    });
}

#[test]
fn matrices_are_loaded_by_rows_and_transposed() {
    // Rows of 8 halves in shared memory; half (row, column) of matrix j is 100 j + 8 row + column.
    let store = "mov.u32 %t, %tid.x;\nshl.b32 %t, %t, 4;\nmov.u32 %r20, tile;\nadd.u32 %r20, %r20, %t;\n\
                 st.shared.v4.u32 [%r20], {%r0, %r1, %r2, %r3};\nbar.sync 0;\n";
    let input: Vec<u32> = (0..32)
        .flat_map(|lane| {
            let first = lane / 8 * 100 + lane % 8 * 8;
            (0..4).map(move |i| (first + 2 * i) | (first + 2 * i + 1) << 16)
        })
        .collect();
    for transposed in [false, true] {
        let modifier = if transposed { ".trans" } else { "" };
        let body = format!("{store}ldmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 {{%d0, %d1, %d2, %d3}}, [%r20];");
        let out = fragments(&body, 4, &input);
        for lane in 0..32u32 {
            for matrix in 0..4u32 {
                let element = |i: u32| {
                    let (row, column) = (lane / 4, lane % 4 * 2 + i);
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    matrix * 100 + row * 8 + column
                };
                assert_eq!(out[(lane * 4 + matrix) as usize], element(0) | element(1) << 16);
            }
        }
    }
}

/// `wmma`: loads, a product with the accumulator, and a store, in all shapes; `each` packs a small integer.
fn whole_matrices(
    shape: (usize, usize, usize),
    ty: &str,
    registers: (usize, usize),
    bytes: usize,
    pack: fn(i32) -> u32,
) {
    let (m, n, k) = shape;
    let name = format!("m{m}n{n}k{k}");
    let integral = ty == "s8";
    let result = if integral { "s32" } else { "f32" };
    let list =
        |from: usize, count: usize| (from..from + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
    let types = if ty == "f16" { "f32.f32".to_owned() } else { format!("{result}.{ty}.{ty}.{result}") };
    let text = format!(
        ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{\n.reg .b32 %r<32>;\n\
         .reg .b64 %a, %b, %c;\nld.param.u64 %a, [a];\nld.param.u64 %b, [b];\nld.param.u64 %c, [c];\n\
         wmma.load.a.sync.aligned.row.{name}.global.{ty} {{{a}}}, [%a], {k};\n\
         wmma.load.b.sync.aligned.col.{name}.global.{ty} {{{b}}}, [%b];\n\
         wmma.load.c.sync.aligned.row.{name}.global.{result} {{{c}}}, [%c], {n};\n\
         wmma.mma.sync.aligned.row.col.{name}.{types} {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};\n\
         wmma.store.d.sync.aligned.row.{name}.global.{result} [%c], {{{c}}}, {n};\nret;\n}}\n",
        a = list(0, registers.0),
        b = list(8, registers.1),
        c = list(16, 8),
    );
    let packed = |count: usize, value: &dyn Fn(usize) -> i32| -> Vec<u8> {
        (0..count).flat_map(|i| pack(value(i)).to_le_bytes()[..bytes].to_vec()).collect()
    };
    let a = packed(m * k, &|i| entry(i / k, i % k, 1));
    let b = packed(n * k, &|i| entry(i % k, i / k, 2));
    let out = |value: i32| if integral { value as u32 } else { (value as f32).to_bits() };
    let c: Vec<u32> = (0..m * n).map(|i| out(i as i32)).collect();
    let found: Vec<u32> = values(&launch(&text, "k", 1, 32, vec![array(&a), array(&b), array(&c)])[2]);
    for row in 0..m {
        for column in 0..n {
            let sum: i32 = (0..k).map(|at| entry(row, at, 1) * entry(at, column, 2)).sum();
            assert_eq!(found[row * n + column], out(sum + (row * n + column) as i32), "{name} {ty} ({row}, {column})");
        }
    }
}

#[test]
fn whole_matrices_of_every_shape() {
    for shape in [(16, 16, 16), (32, 8, 16), (8, 32, 16)] {
        whole_matrices(shape, "f16", (8, 8), 2, half);
        let (a, b) = (shape.0 / 4, shape.1 / 4);
        whole_matrices(shape, "bf16", (a, b), 2, brain);
        whole_matrices(shape, "s8", (a / 2, b / 2), 1, |x| x as u32 & 0xff);
    }
    whole_matrices((16, 16, 8), "tf32", (4, 4), 4, |x| (x as f32).to_bits());
}

#[test]
fn whole_matrices_of_doubles_name_their_rounding() {
    let text = ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {\n.reg .b64 %d<8>, %p;\n\
                ld.param.u64 %p, [a];\nwmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%d0}, [%p], 4;\n\
                ld.param.u64 %p, [b];\nwmma.load.b.sync.aligned.col.m8n8k4.global.f64 {%d1}, [%p], 4;\n\
                ld.param.u64 %p, [c];\nwmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%d2, %d3}, [%p], 8;\n\
                wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64 {%d2, %d3}, {%d0}, {%d1}, {%d2, %d3};\n\
                wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%p], {%d2, %d3}, 8;\nret;\n}\n";
    let a: Vec<f64> = (0..32).map(|i| entry(i / 4, i % 4, 1).into()).collect();
    let b: Vec<f64> = (0..32).map(|i| entry(i % 4, i / 4, 2).into()).collect();
    let c: Vec<f64> = (0..64).map(f64::from).collect();
    let found: Vec<f64> = values(&launch(text, "k", 1, 32, vec![array(&a), array(&b), array(&c)])[2]);
    for (at, found) in found.into_iter().enumerate() {
        let (row, column) = (at / 8, at % 8);
        let sum: i32 = (0..4).map(|k| entry(row, k, 1) * entry(k, column, 2)).sum();
        assert_eq!(found, f64::from(sum) + at as f64, "({row}, {column})");
    }
    // A thousandth is not seen in a sum of 2^60, but for its direction.
    for (mode, expected) in [("rz", 1u64 << 60), ("rm", 1 << 60), ("rp", (1 << 60) + 4 * 256)] {
        let (a, b) = (vec![0.001f64; 32], vec![1f64; 32]);
        let text = text.replace(".rn.", &format!(".{mode}."));
        let c = vec![f64::exp2(60.0); 64];
        let found: Vec<f64> = values(&launch(&text, "k", 1, 32, vec![array(&a), array(&b), array(&c)])[2]);
        assert_eq!(found, [expected as f64; 64], "{mode}");
    }
}

#[test]
fn matrices_are_stored_and_transposed() {
    // `stmatrix` is the inverse of `ldmatrix`, and `movmatrix` transposes in registers.
    let body = "mov.u32 %t, %tid.x;\nshl.b32 %t, %t, 4;\nmov.u32 %r20, tile;\nadd.u32 %r20, %r20, %t;\n\
                stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r20], {%r0, %r1, %r2, %r3};\nbar.sync 0;\n\
                ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%d0, %d1}, [%r20];\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %d2, %d0;\nmov.b32 %d3, 0;";
    let input: Vec<u32> = (0..128).map(|i| i * 0x1_0003).collect();
    let out = fragments(body, 4, &input);
    for lane in 0..32usize {
        // Transposed twice is as it was.
        assert_eq!(out[lane * 4 + 2], input[lane * 4]);
        let element = |matrix: usize, row: usize, column: usize| {
            input[(row * 4 + column / 2) * 4 + matrix] >> (column % 2 * 16) & 0xffff
        };
        for matrix in 0..2 {
            let (row, column) = (lane % 4 * 2, lane / 4);
            let expected = element(matrix, row, column) | element(matrix, row + 1, column) << 16;
            assert_eq!(out[lane * 4 + matrix], expected);
        }
    }
}
