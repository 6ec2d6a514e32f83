//! How many thread-instructions a second the simulator runs on one core:
//! `cargo run --release -p polyloom-ptx --example speed`.

use polyloom_ptx::{LaunchRequest, Module, Simulator};
use std::time::Instant;

/// A chain of `body`, in a loop of 1,000 rounds.
fn chain(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 out) {{\n.reg .b32 %r<16>;\n.reg .b16 %h<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n\
         .shared .align 16 .b8 tile[4096];\nld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, 4;\n\
         add.u64 %rd0, %rd0, %rd1;\ncvt.rn.f32.u32 %r1, %r0;\ncvt.rn.f16.f32 %h1, %r1;\nmov.b16 %h0, 0x3800;\nor.b32 %r11, %r0, 0x38003a00;\nmov.u32 %r8, tile;\nshl.b32 %r9, %r0, 2;\nadd.u32 %r8, %r8, %r9;\n\
         mov.b32 %r10, 0;\nLOOP:\n{body}\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p0, %r10, 1000;\n@%p0 bra LOOP;\n\
         st.global.b32 [%rd0], %r1;\nret;\n}}\n"
    )
}

fn main() {
    let cases = [
        (
            "integer",
            "mad.lo.u32 %r2, %r0, %r10, %r2;\nxor.b32 %r3, %r2, %r0;\nshl.b32 %r4, %r3, 3;\nadd.u32 %r5, %r4, %r3;",
        ),
        (
            "f32 add, mul",
            "add.f32 %r1, %r1, 0f3F800000;\nmul.f32 %r2, %r1, %r1;\nadd.f32 %r3, %r2, %r1;\nmul.f32 %r4, %r3, %r2;",
        ),
        (
            "f32 fma",
            "fma.rn.f32 %r1, %r1, 0f3F000000, 0f3F800000;\nfma.rn.f32 %r2, %r1, %r1, %r1;\nfma.rn.f32 %r3, %r2, %r1, %r1;",
        ),
        (
            "f16 add, mul",
            "add.rn.f16 %h1, %h1, %h0;\nmul.rn.f16 %h2, %h1, %h1;\nadd.rn.f16 %h3, %h2, %h1;\nmul.rn.f16 %h4, %h3, %h2;",
        ),
        ("f16 fma", "fma.rn.f16 %h1, %h1, %h0, %h0;\nfma.rn.f16 %h2, %h1, %h1, %h1;\nfma.rn.f16 %h3, %h2, %h1, %h1;"),
        (
            "bf16x2 fma",
            "fma.rn.bf16x2 %r1, %r1, %r11, %r11;\nfma.rn.bf16x2 %r2, %r1, %r1, %r1;\nfma.rn.bf16x2 %r3, %r2, %r1, %r1;",
        ),
        (
            "mma f16",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r4, %r5, %r6, %r7}, {%r11, %r11, %r11, %r11}, {%r11, %r11}, \
             {%r4, %r5, %r6, %r7};",
        ),
        (
            "wmma f16",
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, \
             {%r11, %r11, %r11, %r11, %r11, %r11, %r11, %r11}, {%r11, %r11, %r11, %r11, %r11, %r11, %r11, %r11}, \
             {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};",
        ),
        ("shared memory", "st.shared.b32 [%r8], %r1;\nld.shared.b32 %r2, [%r8];\nadd.f32 %r1, %r1, %r2;"),
        ("global memory", "ld.global.b32 %r2, [%rd0];\nadd.u32 %r2, %r2, 1;\nst.global.b32 [%rd0], %r2;"),
        (
            "mixed",
            "ld.global.b32 %r2, [%rd0];\nfma.rn.f32 %r1, %r2, %r2, %r1;\nmad.lo.u32 %r3, %r0, %r10, %r2;\nsetp.gt.u32 %p1, %r3, 7;\n\
          selp.b32 %r4, %r3, %r2, %p1;\nst.shared.b32 [%r8], %r4;",
        ),
        (
            "divergent",
            "and.b32 %r2, %r0, 1;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra EVEN;\nadd.f32 %r1, %r1, %r1;\nbra JOIN;\nEVEN:\nmul.f32 %r1, %r1, %r1;\nJOIN:",
        ),
    ];
    println!("{:16} {:>20} {:>12}", "kernel", "thread-instructions", "M/s");
    for (name, body) in cases {
        let simulator = Simulator::default();
        let module = Module::parse(&chain(body)).expect("the example's own text");
        let loaded = simulator.load(&module).expect("it has no variables");
        let kernel = loaded.kernel("k").expect("the example's own text");
        let out = simulator.memory().alloc(4096, 4).expect("four KiB");
        simulator.memory().fill(out, &[0], 4096).expect("inside");
        let params = [out.to_le_bytes().to_vec()];
        let launch = LaunchRequest { grid: [8, 1, 1], block: [256, 1, 1], params: &params, ..LaunchRequest::default() };
        let mut best = 0.0f64;
        let mut count = 0;
        for _ in 0..5 {
            let start = Instant::now();
            count = kernel.launch(&launch).expect("nothing is wrong").thread_instructions;
            best = best.max(count as f64 / start.elapsed().as_secs_f64());
        }
        println!("{name:16} {count:>20} {:>12.0}", best / 1e6);
    }
}
