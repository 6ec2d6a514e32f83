//! `wgmma`: products of warp groups, against loops over matrices that are laid out by the manual's canonical layouts.

use crate::device::{array, try_launch, values};
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers};

/// Where a matrix descriptor has its matrix: the layouts of PTX ISA 9.0 §9.7.15.5.1, in bytes.
#[derive(Clone, Copy)]
struct Layout {
    /// 0, 32, 64 or 128.
    swizzle: usize,
    leading: usize,
    stride: usize,
    /// Rows (of B: columns) lie next to each other, not what is summed over.
    is_across: bool,
}

impl Layout {
    /// The byte of element `at` of the sum in row `row`, both counted in bytes along whatever lies next to each other.
    fn place(self, row: usize, at: usize, size: usize) -> usize {
        let line = self.swizzle.max(16);
        let plain = match (self.is_across, self.swizzle) {
            (false, 0) => row % 8 * 16 + row / 8 * self.stride + at * size / 16 * self.leading + at * size % 16,
            (false, _) => row % 8 * line + row / 8 * self.stride + at * size,
            (true, 0) => at % 8 * 16 + at / 8 * self.leading + row * size / 16 * self.stride + row * size % 16,
            (true, _) => at % 8 * line + at / 8 * self.stride + row * size / line * self.leading + row * size % line,
        };
        let mask = [0, 1, 3, 7][self.swizzle.checked_ilog2().map_or(0, |log| log as usize - 4)];
        plain ^ (plain >> 7 & mask) << 4
    }

    fn descriptor(self, start: usize) -> u64 {
        let swizzle = match self.swizzle {
            0 => 0,
            128 => 1,
            64 => 2,
            _ => 3u64,
        };
        let bytes = |n: usize| (n as u64 & 0x3ffff) >> 4;
        bytes(start) | bytes(self.leading) << 16 | bytes(self.stride) << 32 | swizzle << 62
    }
}

/// A kernel of one warp group that copies `n_bytes` of shared memory from `input`, multiplies, and stores each thread's
/// registers of the result. `%rd8` and `%rd9` are the descriptors, relative to the start of shared memory.
fn kernel(instruction: &str, n_registers: usize, n_bytes: usize, [a, b]: [u64; 2]) -> String {
    let sums: Vec<String> = (0..n_registers).map(|i| format!("%d{i}")).collect();
    let each = |f: &dyn Fn(usize) -> String| (0..n_registers).map(f).collect::<String>();
    format!(
        ".version 8.0\n.target sm_90a\n.visible .entry k(.param .u64 input, .param .u64 out) {{\n\
         .reg .b32 %r<32>; .reg .b32 %d<{}>; .reg .b32 %a<4>; .reg .b64 %rd<16>; .reg .pred %p<4>;\n.shared .align 1024 .b8 all[{n_bytes}];\n\
         ld.param.u64 %rd0, [input];\nld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.u32 %r2, all;\n\
         C: setp.ge.u32 %p0, %r1, {n_bytes};\n@%p0 bra D;\ncvt.u64.u32 %rd2, %r1;\nadd.u64 %rd2, %rd0, %rd2;\nld.global.u32 %r3, [%rd2];\n\
         add.u32 %r4, %r2, %r1;\nst.shared.u32 [%r4], %r3;\nadd.u32 %r1, %r1, 512;\nbra C;\nD: bar.sync 0;\nfence.proxy.async;\n\
         cvt.u64.u32 %rd3, %r2;\nshr.u64 %rd3, %rd3, 4;\nmov.b64 %rd8, {a};\nadd.u64 %rd8, %rd8, %rd3;\nmov.b64 %rd9, {b};\nadd.u64 %rd9, %rd9, %rd3;\n\
         {}wgmma.fence.sync.aligned;\nsetp.ne.u32 %p1, 1, 0;\n{}\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n\
         mul.wide.u32 %rd4, %r0, {};\nadd.u64 %rd1, %rd1, %rd4;\n{}ret;\n}}\n",
        n_registers,
        each(&|i| format!("mov.b32 %d{i}, 0;\n")),
        instruction.replace("SUMS", &format!("{{{}}}", sums.join(", "))),
        4 * n_registers,
        each(&|i| format!("st.global.b32 [%rd1+{}], %d{i};\n", 4 * i)),
    )
}

/// Runs a product, and gives the rows of the result, whose elements `read` finds in the registers.
fn run(text: &str, input: &[u8], n: usize, per_register: usize, read: impl Fn(u32, usize) -> f64) -> Vec<Vec<f64>> {
    let n_registers = n / 2 / per_register;
    let launch = LaunchRequest { block: [128, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let args = vec![array(input), array(&vec![0u32; 128 * n_registers])];
    let (out, _) = try_launch(text, "k", args, launch).unwrap_or_else(|fault| panic!("{fault}"));
    let words: Vec<u32> = values(&out[1]);
    let mut rows = vec![vec![0.0; n]; 64];
    for thread in 0..128 {
        let (warp, lane) = (thread / 32, thread % 32);
        for index in 0..n / 2 {
            let row = 16 * warp + lane / 4 + index % 4 / 2 * 8;
            let column = index / 4 * 8 + lane % 4 * 2 + index % 2;
            rows[row][column] = read(words[thread * n_registers + index / per_register], index % per_register);
        }
    }
    rows
}

fn factors(n: usize, k: usize) -> (Vec<Vec<i32>>, Vec<Vec<i32>>) {
    let number = |i: usize, j: usize, by: usize| (i * by + j * 7 + i * j) as i32 % 9 - 4;
    let of = |rows: usize, by: usize| (0..rows).map(|i| (0..k).map(|j| number(i, j, by)).collect()).collect();
    (of(64, 5), of(n, 3))
}

fn product(a: &[Vec<i32>], b: &[Vec<i32>]) -> Vec<Vec<f64>> {
    let dot = |row: &Vec<i32>, column: &Vec<i32>| row.iter().zip(column).map(|(x, y)| f64::from(x * y)).sum();
    a.iter().map(|row| b.iter().map(|column| dot(row, column)).collect()).collect()
}

/// Lays a matrix out.
fn lay(into: &mut [u8], start: usize, layout: Layout, rows: &[Vec<i32>], bytes: &dyn Fn(i32) -> Vec<u8>) {
    for (i, row) in rows.iter().enumerate() {
        for (j, number) in row.iter().enumerate() {
            let element = bytes(*number);
            let at = start + layout.place(i, j, element.len());
            into[at..at + element.len()].copy_from_slice(&element);
        }
    }
}

/// The bits of a small integer in f16.
fn half(x: i32) -> Vec<u8> {
    let bits = match x.unsigned_abs() {
        0 => 0u16,
        n => {
            let exponent = n.ilog2();
            ((exponent + 15) as u16) << 10 | ((n << (10 - exponent)) as u16 & 0x3ff)
        }
    };
    (bits | if x < 0 { 0x8000 } else { 0 }).to_le_bytes().to_vec()
}

fn single(word: u32, _: usize) -> f64 {
    f32::from_bits(word).into()
}

#[test]
fn halves_in_all_layouts() {
    let (n, k) = (64, 16);
    let (a, b) = factors(n, k);
    let expected = product(&a, &b);
    let along = |swizzle: usize| Layout {
        swizzle,
        leading: if swizzle == 0 { 128 } else { 16 },
        stride: swizzle.max(32) * 8,
        is_across: false,
    };
    // Rows lie next to each other in lines of the swizzle: 64 rows of A take one line of 128 bytes, or several.
    let across = |swizzle: usize| match swizzle {
        0 => Layout { swizzle, leading: 128 * 8, stride: 128, is_across: true },
        _ => Layout { swizzle, leading: swizzle * 16, stride: swizzle * 8, is_across: true },
    };
    for swizzle in [0, 32, 64, 128] {
        for (a_layout, b_layout) in [
            (along(swizzle), along(swizzle)),
            (across(swizzle), along(0)),
            (along(128), across(swizzle)),
            (across(128), across(swizzle)),
        ] {
            let mut input = vec![0; 32768];
            lay(&mut input, 0, a_layout, &a, &half);
            lay(&mut input, 16384, b_layout, &b, &half);
            let ways = format!("{}, {}", u32::from(a_layout.is_across), u32::from(b_layout.is_across));
            let instruction =
                format!("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 SUMS, %rd8, %rd9, %p1, 1, 1, {ways};");
            let text = kernel(&instruction, n / 2, input.len(), [a_layout.descriptor(0), b_layout.descriptor(16384)]);
            assert_eq!(run(&text, &input, n, 1, single), expected, "swizzle {swizzle}, ways {ways}");
        }
    }
}

#[test]
fn other_types_and_negated_factors() {
    let along = Layout { swizzle: 32, leading: 16, stride: 256, is_across: false };
    let checked = |types: &str,
                   n: usize,
                   k: usize,
                   rest: &str,
                   bytes: &dyn Fn(i32) -> Vec<u8>,
                   per: usize,
                   read: &dyn Fn(u32, usize) -> f64,
                   sign: f64| {
        let (a, b) = factors(n, k);
        let expected: Vec<Vec<f64>> =
            product(&a, &b).into_iter().map(|row| row.into_iter().map(|x| sign * x).collect()).collect();
        let mut input = vec![0; 16384];
        lay(&mut input, 0, along, &a, bytes);
        lay(&mut input, 8192, along, &b, bytes);
        let instruction = format!("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} SUMS, %rd8, %rd9, %p1{rest};");
        let text = kernel(&instruction, n / 2 / per, input.len(), [along.descriptor(0), along.descriptor(8192)]);
        assert_eq!(run(&text, &input, n, per, read), expected, "{types}");
    };
    let bf16 = |x: i32| (x as f32).to_bits().to_le_bytes()[2..].to_vec();
    let f32_ = |x: i32| (x as f32).to_le_bytes().to_vec();
    let s8 = |x: i32| vec![x as i8 as u8];
    let integer = |word: u32, _: usize| f64::from(word as i32);
    checked("f32.bf16.bf16", 24, 16, ", 1, 1, 0, 0", &bf16, 1, &single, 1.0);
    checked("f32.bf16.bf16", 8, 16, ", -1, 1, 0, 0", &bf16, 1, &single, -1.0);
    checked("f32.tf32.tf32", 256, 8, ", 1, -1", &f32_, 1, &single, -1.0);
    checked("s32.s8.s8", 32, 32, "", &s8, 1, &integer, 1.0);
    // Halves of the result lie two in a register.
    let halves = |word: u32, index: usize| {
        let bits = (word >> (16 * index)) as u16;
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
        let size =
            if exponent == 0 { fraction * 2f64.powi(-24) } else { (1024.0 + fraction) * 2f64.powi(exponent - 25) };
        if bits >> 15 != 0 { -size } else { size }
    };
    checked("f16.f16.f16", 16, 16, ", 1, 1, 0, 0", &half, 2, &halves, 1.0);
}

#[test]
fn sums_go_on_and_rows_come_from_registers() {
    let (n, k) = (16, 16);
    let (a, b) = factors(n, k);
    let along = Layout { swizzle: 128, leading: 16, stride: 1024, is_across: false };
    let mut input = vec![0; 32768];
    lay(&mut input, 0, along, &a, &half);
    lay(&mut input, 16384, along, &b, &half);
    let descriptors = [along.descriptor(0), along.descriptor(16384)];
    let once = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 SUMS, %rd8, %rd9, %p1, 1, 1, 0, 0;";
    let of = |instruction: &str| run(&kernel(instruction, n / 2, input.len(), descriptors), &input, n, 1, single);
    let doubled: Vec<Vec<f64>> =
        product(&a, &b).into_iter().map(|row| row.into_iter().map(|x| 2.0 * x).collect()).collect();
    assert_eq!(of(&format!("{once}\n{once}")), doubled);
    // Without the predicate the sum begins anew.
    let anew = format!("{once}\nsetp.eq.u32 %p1, 1, 0;\n{once}");
    assert_eq!(of(&anew), product(&a, &b));
    // Ones in all rows of A: sums of columns.
    let ones = "mov.b32 %a0, 0x3c003c00;\nmov.b32 %a1, %a0;\nmov.b32 %a2, %a0;\nmov.b32 %a3, %a0;\n\
                wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 SUMS, {%a0, %a1, %a2, %a3}, %rd9, %p1, 1, 1, 0;";
    let sums: Vec<f64> = b.iter().map(|column| column.iter().map(|x| f64::from(*x)).sum()).collect();
    assert_eq!(of(ones), vec![sums; 64]);
    // One lane holds other numbers: k = 2 and 3 of row 8 (of each warp), counted from its quad.
    let one = format!(
        "setp.eq.u32 %p2, %r0, 1;\nmov.b32 %a0, 0;\nmov.b32 %a2, 0;\nmov.b32 %a3, 0;\nselp.b32 %a1, 0x40003c00, 0, %p2;\n{}",
        ones.split_once("mov.b32 %a3, %a0;\n").expect("the product").1
    );
    let mut expected = vec![vec![0.0; n]; 64];
    for (column, b) in b.iter().enumerate() {
        expected[8][column] = f64::from(b[2] + 2 * b[3]);
    }
    assert_eq!(of(&one), expected);
}

#[test]
fn what_is_wrong_is_said() {
    let errors = |instruction: &str| {
        let text = kernel(instruction, 8, 1024, [0, 0]);
        let simulator = polyloom_ptx::Simulator::default();
        let loaded = simulator.load(&polyloom_ptx::Module::parse(&text).expect("it parses")).expect("it loads");
        loaded.kernel("k").err().expect("it is refused")[0].message.clone()
    };
    let product = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 SUMS, %rd8, %rd9, %p1, 1, 1, 0, 0;";
    assert!(errors(&product.replace("n16", "n12")).contains("no such shape and types"));
    assert!(errors(&product.replace("k16", "k32")).contains("no such shape and types"));
    assert_eq!(errors(&product.replace("n16", "n32")), "the result has 16 registers, not 8");
    assert_eq!(errors(&product.replace("1, 1, 0, 0", "2, 1, 0, 0")), "operand 5 is one of -1 and 1");
    assert!(errors(&product.replace(".sync.aligned", "")).contains("needs `.sync.aligned`"));
    // B lies past the end of shared memory.
    let text = kernel(product, 8, 2048, [0, 4096 >> 4]);
    let launch = LaunchRequest { block: [128, 1, 1], ..LaunchRequest::default() };
    let fault =
        try_launch(&text, "k", vec![array(&[0u8; 2048]), array(&[0u32; 1024])], launch).expect_err("it is outside");
    assert_eq!(fault.findings[0].kind, FindingKind::OutOfBounds);
}
