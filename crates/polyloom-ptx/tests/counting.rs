//! Counters, against counts made by hand.

use crate::device::{array, try_launch, value};
use crate::sync::kernel;
use polyloom_ptx::{Counters, InstClass, LaunchRequest, Limiter};

fn counters(body: &str, threads: u32) -> Counters {
    let launch = LaunchRequest { block: [threads, 1, 1], counters: true, ..LaunchRequest::default() };
    let args = vec![array(&[0u32; 1024]), array(&[0u32; 1024])];
    let (_, report) = try_launch(&kernel(body), "k", args, launch).expect("it runs");
    report.counters.expect("they were asked for")
}

#[test]
fn sectors_of_global_memory() {
    // 32 words in a row are four sectors.
    let one = counters("st.global.u32 [%rd0], 1;", 32);
    assert_eq!((one.global_stores, one.global_sectors, one.global_bytes), (1, 4, 128));
    assert_eq!(one.coalescing(), Some(1.0));
    // With 32 bytes between words each has a sector of its own.
    let apart = counters(
        "ld.param.u64 %rd4, [other];\nmul.wide.u32 %rd5, %r0, 32;\nadd.u64 %rd4, %rd4, %rd5;\nld.global.u32 %r2, [%rd4];",
        32,
    );
    assert_eq!((apart.global_loads, apart.global_sectors), (1, 32));
    assert_eq!(apart.coalescing(), Some(0.125));
    // What all lanes name is used once: 4 bytes of 32.
    let shared = counters("ld.param.u64 %rd4, [other];\nld.global.u32 %r2, [%rd4];", 32);
    assert_eq!((shared.global_sectors, shared.global_bytes), (1, 4));
    // Four lanes each read the same 16 bytes.
    let overlapping = counters(
        "ld.param.u64 %rd4, [other];\nand.b32 %r1, %r0, 28;\nmul.wide.u32 %rd5, %r1, 4;\nadd.u64 %rd4, %rd4, %rd5;\n\
         ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4];",
        32,
    );
    assert_eq!((overlapping.global_sectors, overlapping.global_bytes), (4, 128));
}

#[test]
fn banks_of_shared_memory() {
    let access = |factor: u32| {
        counters(
            &format!(
                "mov.u32 %r8, tile;\nmul.lo.u32 %r9, %r0, {factor};\nadd.u32 %r8, %r8, %r9;\nst.shared.u32 [%r8], 1;"
            ),
            32,
        )
    };
    assert_eq!((access(4).shared_accesses, access(4).shared_conflicts), (1, 0));
    assert_eq!(access(8).shared_conflicts, 1);
    assert_eq!(access(64).shared_conflicts, 15);
    assert_eq!(access(128).shared_conflicts, 31);
    assert_eq!(access(132).shared_conflicts, 0);
    // All at one word is a broadcast.
    assert_eq!(access(0).shared_conflicts, 0);
}

#[test]
fn copies_and_matrices_are_one_access_of_the_warp() {
    // 32 words in a row; as many, but of 16 bytes.
    let copies = |size: u32| {
        counters(
            &format!(
                "ld.param.u64 %rd4, [other];\nmul.wide.u32 %rd5, %r0, {size};\nadd.u64 %rd4, %rd4, %rd5;\nmov.u32 %r8, tile;\n\
                 mul.lo.u32 %r9, %r0, {size};\nadd.u32 %r8, %r8, %r9;\ncp.async.ca.shared.global [%r8], [%rd4], {size};"
            ),
            32,
        )
    };
    for (size, sectors) in [(4, 4), (16, 16)] {
        let count = copies(size);
        assert_eq!((count.global_loads, count.global_sectors), (1, sectors));
        assert_eq!((count.coalescing(), count.shared_accesses, count.shared_conflicts), (Some(1.0), 1, 0));
    }
    // Rows of eight halves, at so many bytes from each other: eight go at once, and as many as share banks do not.
    let rows = |stride: u32, instruction: &str| {
        counters(
            &format!("mov.u32 %r8, tile;\nmul.lo.u32 %r9, %r0, {stride};\nadd.u32 %r8, %r8, %r9;\n{instruction}"),
            32,
        )
    };
    let four = "{%r2, %r3, %r4, %r5}";
    let load = format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {four}, [%r8];");
    let store = format!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r8], {four};");
    for instruction in [&load, &store] {
        for (stride, conflicts) in [(16, 0), (32, 4), (64, 12), (128, 28), (80, 0)] {
            let count = rows(stride, instruction);
            assert_eq!((count.shared_accesses, count.shared_conflicts), (1, conflicts), "{stride} of {instruction}");
        }
    }
    // Rows of 16 f32: 64 bytes, two sectors each, whether they follow each other or not.
    for stride in [16, 20, 32] {
        let count = counters(
            &format!(
                "ld.param.u64 %rd4, [other];\nwmma.load.c.sync.aligned.row.m16n16k16.global.f32 \
                 {{%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}}, [%rd4], {stride};"
            ),
            32,
        );
        assert_eq!((count.global_loads, count.global_bytes), (1, 1024));
        // Every other row of those 80 bytes apart begins in the middle of a sector.
        assert_eq!(count.global_sectors, if stride == 20 { 40 } else { 32 }, "{stride}");
    }
}

#[test]
fn limits_are_those_of_the_compilers_table() {
    let text = ".version 9.0\n.target sm_75\n.visible .entry k() {\nret;\n}";
    let full = |arch: u32| {
        let launch = LaunchRequest { block: [256, 1, 1], counters: true, arch, ..LaunchRequest::default() };
        let (_, report) = try_launch(text, "k", vec![], launch).expect("it runs");
        report.counters.and_then(|counters| counters.occupancy).expect("it was asked for").warps
    };
    // 1536 threads of a multiprocessor of 8.6, 8.8 and 11.0, 2048 of 9.0, 1024 of 7.5; 9.1 counts as 9.0.
    assert_eq!([75, 86, 88, 90, 91, 110].map(full), [32, 48, 48, 64, 64, 48]);
}

#[test]
fn classes_and_divergence() {
    let count =
        counters("setp.lt.u32 %p0, %r0, 7;\n@%p0 bra LOW;\nadd.u32 %r1, %r0, 1;\nLOW:\nadd.f32 %r2, %r3, %r3;", 64);
    assert_eq!(count.divergent_branches, 1);
    assert_eq!(count.class(InstClass::Float), (2, 64));
    assert_eq!(count.class(InstClass::Compare), (2, 64));
    // The multiplication and addition of the address, and the sum in the branch not taken.
    assert_eq!(count.class(InstClass::Integer), (6, 2 * 64 + 57));
}

#[test]
fn a_move_is_one_instruction_whatever_it_moves() {
    let moves = |body: &str| counters(body, 32).class(InstClass::Move);
    let (warps, threads) = moves("");
    for source in ["%r0", "7", "%tid.x", "%laneid", "tile"] {
        assert_eq!(moves(&format!("mov.u32 %r8, {source};")), (warps + 1, threads + 32), "{source}");
    }
    let local = counters(".local .b32 place;\nmov.u64 %rd4, place;", 32).class(InstClass::Move);
    assert_eq!(local, (warps + 1, threads + 32));
    // An operand elsewhere takes a move of its own.
    assert_eq!(moves("cvt.u16.u32 %h0, %tid.x;"), (warps + 1, threads + 32));
}

#[test]
fn occupancy() {
    let text = ".version 8.0\n.target sm_80\n.visible .entry k(.param .u32 n) {\n.reg .b32 %r<4>;\n.shared .b8 tile[40000];\nmov.u32 %r0, tile;\nret;\n}";
    let launch = LaunchRequest { block: [256, 1, 1], counters: true, arch: 80, ..LaunchRequest::default() };
    let (_, report) = try_launch(text, "k", vec![value(1u32)], launch).expect("it runs");
    let occupancy = report.counters.and_then(|counters| counters.occupancy).expect("it was asked for");
    // 164 KiB hold four blocks of 40,000 bytes and one KiB each, which is 32 of 64 warps.
    assert_eq!((occupancy.blocks, occupancy.warps, occupancy.limiter), (4, 32, Limiter::Shared));
    assert_eq!(occupancy.fraction, 0.5);
}

/// 60 words that all wait for the end of a loop, and as many more that are used at once.
#[test]
fn registers() {
    let mut body = String::from("mov.b32 %n, 0;\n");
    for word in 0..60 {
        body += &format!("ld.global.u32 %a{word}, [%at+{}];\n", 4 * word);
        body += &format!("add.u32 %b{word}, %n, {word};\nst.global.u32 [%at], %b{word};\n");
    }
    body += "LOOP:\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 3;\n@%p bra LOOP;\n";
    for word in 0..60 {
        body += &format!("st.global.u32 [%at+{}], %a{word};\n", 4 * word);
    }
    let text = format!(
        ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 words) {{\n.reg .b32 %a<60>;\n.reg .b32 %b<60>;\n\
         .reg .b32 %n;\n.reg .b64 %at;\n.reg .pred %p;\nld.param.u64 %at, [words];\n{body}ret;\n}}"
    );
    let launch = LaunchRequest { block: [32, 1, 1], counters: true, arch: 80, ..LaunchRequest::default() };
    let (_, report) = try_launch(&text, "k", vec![array(&[0u32; 64])], launch).expect("it runs");
    let occupancy = report.counters.and_then(|counters| counters.occupancy).expect("it was asked for");
    // The words, the counter and the last sum, and eight to work with; the parameter need not be in a register.
    assert_eq!(occupancy.registers, 70);
}
