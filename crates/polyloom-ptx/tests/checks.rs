//! What the checks find, and what they do not: each kernel with a bug has a twin without it.

use crate::device::{Arg, array, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{Finding, FindingKind, LaunchRequest, Sanitizers};

/// Returns what a launch of two blocks of 64 finds; the output has a word for each thread, the other array 256.
fn findings(body: &str) -> Vec<Finding> {
    let launch = LaunchRequest {
        grid: [2, 1, 1],
        block: [64, 1, 1],
        dynamic_shared_bytes: 256,
        sanitize: Sanitizers::ALL,
        ..LaunchRequest::default()
    };
    // Each block has its own words of the output.
    let body = format!(
        "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd1, %r1, 256;\nadd.u64 %rd0, %rd0, %rd1;\nld.param.u64 %rd4, [other];\n\
         mov.u32 %r8, tile;\nshl.b32 %r9, %r0, 2;\nadd.u32 %r8, %r8, %r9;\nmov.u32 %r10, tile;\nxor.b32 %r11, %r9, 128;\n\
         add.u32 %r10, %r10, %r11;\nmov.u32 %r12, tile;\nxor.b32 %r11, %r9, 4;\nadd.u32 %r12, %r12, %r11;\n{body}"
    );
    let args = vec![Arg::Fresh(512), array(&[0u32; 256])];
    match try_launch(&kernel(&body), "k", args, launch) {
        Ok(_) => Vec::new(),
        Err(fault) => fault.findings,
    }
}

/// The bug is found, and nothing unrelated; the twin has none.
fn check(kind: FindingKind, wrong: &str, right: &str) {
    let found = findings(wrong);
    assert!(found.iter().any(|finding| finding.kind == kind), "{kind:?} is not found in\n{wrong}");
    for finding in &found {
        // Who reads too early may read what is not written yet.
        let follows = kind == FindingKind::Race && finding.kind == FindingKind::Uninitialised;
        assert!(finding.kind == kind || follows, "{finding}\n{wrong}");
        assert!(finding.site.is_some());
    }
    let found = findings(right);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{texts:#?}\n{right}");
}

#[test]
fn missing_barrier() {
    let write = "st.shared.u32 [%r8], %r0;\n";
    let read = "ld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;";
    check(FindingKind::Race, &format!("{write}{read}"), &format!("{write}bar.sync 0;\n{read}"));
}

#[test]
fn missing_second_barrier() {
    let round = "st.shared.u32 [%r8], %r0;\nbar.sync 0;\nld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;\n";
    check(FindingKind::Race, &format!("{round}{round}"), &format!("{round}bar.sync 0;\n{round}"));
}

#[test]
fn lanes_of_a_warp_need_a_warp_barrier() {
    let write = "st.shared.u32 [%r8], %r0;\n";
    let read = "ld.shared.u32 %r2, [%r12];\nst.global.u32 [%rd0], %r2;";
    check(FindingKind::Race, &format!("{write}{read}"), &format!("{write}bar.warp.sync -1;\n{read}"));
    // A warp barrier does not order different warps.
    let read = "ld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;";
    check(
        FindingKind::Race,
        &format!("{write}bar.warp.sync -1;\n{read}"),
        &format!("{write}barrier.sync 3, 64;\n{read}"),
    );
}

#[test]
fn updates_have_to_be_atomic() {
    check(
        FindingKind::Race,
        "ld.global.u32 %r2, [%rd4];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%rd4], %r2;",
        "red.global.add.u32 [%rd4], 1;",
    );
    // Of different blocks, atomics of one block's scope are not enough.
    check(FindingKind::Race, "red.relaxed.cta.global.add.u32 [%rd4], 1;", "red.relaxed.gpu.global.add.u32 [%rd4], 1;");
    // An atomic and a plain access race as well.
    check(
        FindingKind::Race,
        "red.global.add.u32 [%rd4], 1;\nld.global.u32 %r2, [%rd4];\nst.global.u32 [%rd0], %r2;",
        "red.global.add.u32 [%rd4], 1;\nld.relaxed.gpu.global.u32 %r2, [%rd4];\nst.global.u32 [%rd0], %r2;",
    );
}

#[test]
fn reads_of_other_blocks_and_of_many_threads_are_remembered() {
    // All blocks read a word that one thread of block 1 writes.
    let read = "ld.global.u32 %r2, [%rd4];\nst.global.u32 [%rd0], %r2;\nadd.u32 %r3, %r0, %r1;\nsetp.ne.u32 %p0, %r3, 1;\n\
                setp.ne.u32 %p1, %r1, 1;\nor.pred %p0, %p0, %p1;\n@%p0 ret;\n";
    check(FindingKind::Race, &format!("{read}st.global.u32 [%rd4], 5;"), &format!("{read}st.global.u32 [%rd4+4], 5;"));
    // A warp reads a word; its writer is ordered after the first two lanes alone.
    let read = "setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [tile], 3;\nbar.sync 0;\nld.shared.u32 %r2, [tile];\n\
                st.global.u32 [%rd0], %r2;\n";
    let write = "setp.gt.u32 %p1, %r0, 1;\n@%p1 ret;\nbar.warp.sync 3;\n@%p0 st.shared.u32 [tile], 4;";
    check(FindingKind::Race, &format!("{read}{write}"), &format!("{read}bar.sync 0;\n{write}"));
}

#[test]
fn only_one_block_of_two_threads_writes() {
    // One thread a block: the second block overwrites what the first has read.
    let text = kernel(
        "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd0, %rd0, %rd1;\nld.param.u64 %rd4, [other];\n\
         ld.global.u32 %r2, [%rd4];\nst.global.u32 [%rd0], %r2;\nsetp.eq.u32 %p0, %r1, 1;\n@%p0 st.global.u32 [%rd4], 5;",
    );
    let launch = LaunchRequest { grid: [2, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let fault = try_launch(&text, "k", vec![Arg::Fresh(8), array(&[0u32])], launch).expect_err("a race");
    let finding = &fault.findings[0];
    assert_eq!((finding.kind, finding.threads.len()), (FindingKind::Race, 2));
    assert_eq!([finding.threads[0].block[0], finding.threads[1].block[0]], [1, 0]);
}

#[test]
fn barriers_in_memory_begin_with_a_write() {
    // Whoever arrives has to know that the barrier has begun.
    let init = "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [tile], 64;\nREADY:\n";
    let arrive = "mbarrier.arrive.shared.b64 %rd8, [tile];\nWAIT:\nmbarrier.try_wait.shared.b64 %p1, [tile], %rd8;\n@!%p1 bra WAIT;";
    let right = format!("{init}bar.sync 0;\n{arrive}");
    assert!(findings(&right).is_empty());
    let found = findings("mbarrier.arrive.shared.b64 %rd8, [tile];");
    assert!(found.iter().any(|finding| finding.kind == FindingKind::Uninitialised));
}

#[test]
fn copies_are_waited_for_at_their_mbarrier() {
    let copy = "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [tile+2048], 64;\nREADY:\nbar.sync 0;\n\
                mul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd4, %rd5;\ncp.async.ca.shared.global [%r8], [%rd5], 4;\n";
    let wait = "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p1, [tile+2048], 0;\n@!%p1 bra WAIT;\n";
    let read = "ld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;";
    let tracked = format!("{copy}cp.async.mbarrier.arrive.noinc.shared.b64 [tile+2048];\n");
    // An arrival of the thread alone says nothing of its copies; nor does one without a wait.
    let alone = format!("{copy}mbarrier.arrive.shared.b64 %rd8, [tile+2048];\n{wait}{read}");
    check(FindingKind::MissingAsyncWait, &alone, &format!("{tracked}{wait}{read}"));
    check(FindingKind::MissingAsyncWait, &format!("{tracked}bar.sync 0;\n{read}"), &format!("{tracked}{wait}{read}"));
    // Without `.noinc` the arrival is one more than those expected.
    let both = format!(
        "{copy}cp.async.mbarrier.arrive.shared.b64 [tile+2048];\nmbarrier.arrive.shared.b64 %rd8, [tile+2048];\n"
    );
    assert!(findings(&format!("{both}{wait}{read}")).is_empty());
}

#[test]
fn rows_of_matrices_are_aligned() {
    let rows = "mov.u32 %r8, tile;\nand.b32 %r9, %r0, 31;\nmul.lo.u32 %r9, %r9, 16;\nadd.u32 %r8, %r8, %r9;\n\
                st.shared.v4.u32 [%r8], {%r0, %r0, %r0, %r0};\nst.shared.u32 [tile+512], 0;\nbar.sync 0;\n";
    let load = |offset: u32| {
        let from = format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2, %r3, %r4, %r5}}, [%r8+{offset}];");
        format!("setp.ge.u32 %p0, %r0, 32;\n@%p0 ret;\n{}{from}", rows.replace("bar.sync 0", "bar.warp.sync -1"))
    };
    check(FindingKind::Misaligned, &load(4), &load(0));
    let store = |stride: u32| {
        let zeros = ["%r2"; 8].join(", ");
        format!(
            "setp.ge.u32 %p0, %r0, 32;\n@%p0 ret;\nmov.u32 %r2, 0;\nwmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [tile], {{{zeros}}}, {stride};"
        )
    };
    check(FindingKind::Misaligned, &store(18), &store(20));
}

#[test]
fn writing_different_values_to_one_place() {
    check(FindingKind::Race, "st.global.u32 [%rd4], %r0;", "st.global.u32 [%rd4], 7;");
    check(
        FindingKind::Race,
        "add.u64 %rd4, %rd4, 1;\nst.global.u8 [%rd4], %r0;",
        "cvt.u64.u32 %rd5, %r9;\nadd.u64 %rd4, %rd4, %rd5;\nshl.b32 %r3, %r1, 8;\ncvt.u64.u32 %rd5, %r3;\nadd.u64 %rd4, %rd4, %rd5;\n\
         st.global.u8 [%rd4+1], %r0;\nst.global.u8 [%rd4], %r0;",
    );
}

/// Block 0 publishes a value and a flag, block 1 waits for the flag and reads the value.
fn message(publish: &str, wait: &str) -> String {
    format!(
        "setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nsetp.eq.u32 %p1, %r1, 1;\n@%p1 bra READER;\nst.global.u32 [%rd4], 42;\n\
         {publish}\nret;\nREADER:\nWAIT:\n{wait}\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT;\nFENCE\nld.global.u32 %r3, [%rd4];\n\
         st.global.u32 [%rd0], %r3;"
    )
}

#[test]
fn flags_need_release_and_acquire() {
    let plain = message("st.relaxed.gpu.global.u32 [%rd4+64], 1;", "ld.relaxed.gpu.global.u32 %r2, [%rd4+64];");
    let ordered = message("st.release.gpu.global.u32 [%rd4+64], 1;", "ld.acquire.gpu.global.u32 %r2, [%rd4+64];");
    check(FindingKind::Race, &plain.replace("FENCE", ""), &ordered.replace("FENCE", ""));
    let fenced = message(
        "fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd4+64], 1;",
        "ld.relaxed.gpu.global.u32 %r2, [%rd4+64];",
    );
    check(FindingKind::Race, &fenced.replace("FENCE", ""), &fenced.replace("FENCE", "fence.acq_rel.gpu;"));
    // A fence for the block alone does not reach the other.
    check(
        FindingKind::Race,
        &fenced.replace("FENCE", "fence.acq_rel.gpu;").replacen("fence.acq_rel.gpu", "fence.acq_rel.cta", 1),
        &fenced.replace("FENCE", "membar.gl;"),
    );
}

#[test]
fn uninitialised_memory() {
    let read = "ld.shared.u32 %r2, [%r8];\nst.global.u32 [%rd0], %r2;";
    check(FindingKind::Uninitialised, read, &format!("st.shared.u32 [%r8], 1;\n{read}"));
    // A byte of a word.
    let read = "ld.shared.u8 %r2, [%r8+1];\nst.global.u32 [%rd0], %r2;";
    check(
        FindingKind::Uninitialised,
        &format!("st.shared.u8 [%r8], 1;\n{read}"),
        &format!("st.shared.u16 [%r8], %r0;\n{read}"),
    );
    // The byte that nobody wrote is named, not the first of the access.
    let found = findings("st.shared.u8 [tile], 1;\nst.shared.u16 [tile+2], 2;\nld.shared.u32 %r2, [tile];");
    assert!(found[0].message.starts_with("nobody wrote byte 1 of `tile`"), "{}", found[0]);
    // What pads a struct may be copied, with the byte beside it, but no more.
    let bytes = "{%h0, %h1, %h2, %h3}";
    let copy = format!(
        "st.shared.u8 [%r8], 1;\nld.shared.v4.u8 {bytes}, [%r8];\nst.global.v4.u8 [%rd0], {bytes};\ncvt.u32.u16 %r2, %h0;"
    );
    check(FindingKind::Uninitialised, &format!("{copy}\ncvt.u32.u16 %r3, %h3;"), &copy);
    let read = "ld.global.u32 %r2, [%rd0];\nst.global.u32 [%rd0], %r2;";
    check(FindingKind::Uninitialised, read, &format!("st.global.u32 [%rd0], 0;\n{read}"));
}

#[test]
fn divergent_barriers() {
    check(
        FindingKind::DivergentBarrier,
        "setp.lt.u32 %p0, %r0, 16;\n@!%p0 bra OVER;\nbar.sync 0;\nOVER:\nst.global.u32 [%rd0], 1;",
        "setp.lt.u32 %p0, %r0, 16;\n@!%p0 bra OVER;\nst.global.u32 [%rd0], 1;\nOVER:\nbar.sync 0;",
    );
    check(
        FindingKind::DivergentBarrier,
        "setp.lt.u32 %p0, %r0, 32;\n@%p0 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 0;\nDONE:",
        "setp.lt.u32 %p0, %r0, 32;\n@%p0 bra OTHER;\nst.global.u32 [%rd0], 1;\nbra DONE;\nOTHER:\nst.global.u32 [%rd0], 2;\n\
         DONE:\nbar.sync 0;",
    );
    // No barrier waits for threads that have ended, whether they did so before others reached it or not.
    let some = "st.global.u32 [%rd0], 1;\nsetp.lt.u32 %p0, %r0, 40;\n";
    for right in [
        format!("{some}@!%p0 ret;\nbar.sync 0;\nst.global.u32 [%rd0], 2;"),
        format!("{some}@!%p0 bra OVER;\nbar.sync 0;\nst.global.u32 [%rd0], 2;\nOVER:"),
        format!("{some}@!%p0 bra OVER;\nbar.sync 0;\nret;\nOVER:\nst.global.u32 [%rd0], 2;"),
    ] {
        let texts: Vec<String> = findings(&right).iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{texts:#?}\n{right}");
    }
}

#[test]
fn lanes_are_named_by_their_masks() {
    for (wrong, right) in [
        ("bar.warp.sync 1;", "bar.warp.sync -1;"),
        ("shfl.sync.idx.b32 %r2, %r0, 0, 31, 0xffff;", "shfl.sync.idx.b32 %r2, %r0, 0, 31, -1;"),
        ("vote.sync.ballot.b32 %r2, 1, 3;", "vote.sync.ballot.b32 %r2, 1, -1;"),
        ("match.any.sync.b32 %r2, 7, 1;", "match.any.sync.b32 %r2, 7, -1;"),
        ("redux.sync.add.s32 %r2, 1, 15;", "redux.sync.add.s32 %r2, 1, -1;"),
    ] {
        check(FindingKind::NotMember, wrong, right);
    }
    // A shuffle of the lower half of a warp that reads the upper; what is out of its range is no lane's.
    let half = |shuffle: &str| {
        format!("and.b32 %r3, %r0, 16;\nsetp.ne.u32 %p0, %r3, 0;\n@%p0 ret;\nshfl.sync.{shuffle}, 0xffff;")
    };
    check(FindingKind::NotMember, &half("idx.b32 %r2, %r0, 20, 31"), &half("idx.b32 %r2, %r0, 10, 31"));
    check(FindingKind::NotMember, &half("down.b32 %r2, %r0, 8, 31"), &half("down.b32 %r2, %r0, 8, 4111"));
    let found = findings(&half("idx.b32 %r2, %r0, 20, 31"));
    assert_eq!(found[0].message, "the value is of lane 20, which the mask 0xffff does not name");
    assert_eq!(found[0].threads.len(), 16);
}

#[test]
fn lanes_that_have_exited_have_nothing_to_give() {
    let last = |instruction: &str| {
        format!("mov.u32 %r3, 0;\nsetp.gt.u32 %p0, %r0, 15;\n@%p0 ret;\n{instruction}\nst.global.u32 [%rd0], %r3;")
    };
    let shuffle = |from: u32| last(&format!("shfl.sync.idx.b32 %r3, %r0, {from}, 31, -1;"));
    check(FindingKind::ExitedLane, &shuffle(20), &shuffle(10));
    check(
        FindingKind::ExitedLane,
        &last("shfl.sync.down.b32 %r3, %r0, 8, 31, -1;"),
        &last("redux.sync.add.u32 %r3, %r0, -1;"),
    );
    // Lanes that have exited may be named by a mask: nobody waits for them (PTX ISA 9.0 §9.7.13.9).
    let none = last("vote.sync.ballot.b32 %r3, %p0, -1;\nmatch.any.sync.b32 %r4, %r0, -1;\nadd.u32 %r3, %r3, %r4;");
    check(FindingKind::ExitedLane, &shuffle(31), &none);
    // What is not used is read by nobody: chosen against by a predicate or `selp`, after some arithmetic or none.
    let guarded = last(
        "vote.sync.ballot.b32 %r5, 1, -1;\nadd.u32 %r6, %r0, 8;\nshr.u32 %r6, %r5, %r6;\nand.b32 %r6, %r6, 1;\nsetp.ne.u32 %p1, %r6, 0;\n\
         shfl.sync.down.b32 %r7, %r0, 8, 31, -1;\nadd.u32 %r4, %r0, %r7;\nselp.b32 %r3, %r4, %r0, %p1;\n\
         shfl.sync.down.b32 %r7, %r3, 8, 31, -1;\n@%p1 add.u32 %r3, %r3, %r7;",
    )
    .replace("ballot.b32 %r5, 1,", "ballot.b32 %r5, !%p0,");
    let unguarded = guarded.replace("selp.b32 %r3, %r4, %r0, %p1", "mov.b32 %r3, %r4");
    check(FindingKind::ExitedLane, &unguarded, &guarded);
    let around = last(
        "mov.u32 %r3, %r0;\nmov.u32 %r4, 16;\nL: shfl.sync.down.b32 %r5, %r3, %r4, 31, -1;\nadd.u32 %r3, %r3, %r5;\n\
                       shr.u32 %r4, %r4, 1;\nsetp.ne.u32 %p1, %r4, 0;\n@%p1 bra L;",
    );
    check(FindingKind::ExitedLane, &around, &around.replace("31, -1", "0x101f, -1").replace("%r4, 16", "%r4, 8"));
    // What a block does not have cannot be read either, and matrices are of whole warps.
    let launch = |body: &str| {
        let launch = LaunchRequest { block: [16, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
        let outcome = try_launch(&kernel(body), "k", vec![Arg::Fresh(64), Arg::Fresh(4)], launch);
        outcome.err().map(|fault| fault.findings[0].to_string())
    };
    let message = launch("shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;\nst.global.u32 [%rd0], %r1;").expect("a finding");
    assert!(
        message.contains("exited lane in kernel `k`: the value is of lane 16, which the block does not have"),
        "{message}"
    );
    let message = launch("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;").expect("a finding");
    assert!(
        message.contains("all lanes of a warp execute it, but for lane 16, which the block does not have"),
        "{message}"
    );
}

#[test]
fn different_barriers_are_named() {
    let found =
        findings("setp.lt.u32 %p0, %r0, 16;\n@%p0 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 0;\nDONE:");
    let [finding] = found.as_slice() else { panic!("one finding, not {found:#?}") };
    let places = [&finding.site, &finding.other].map(|site| site.as_ref().expect("a place").position.line);
    assert_eq!(places[1], places[0] + 3);
    let first = finding.threads.iter().map(|thread| thread.thread[0]).collect::<Vec<u32>>();
    assert_eq!(first, [16, 0]);
    let text = finding.to_string();
    assert!(text.contains("reach different barriers, 48 this one and 16 another, by thread (16, 0, 0)"), "{text}");
}

/// The barrier at line 7 of the source is divergent; the twin has it at a line of its own.
fn plant(wrong: &str, right: &str) {
    let text = |body: &str| format!("{}.file 1 \"planted.py\"\n", kernel(body));
    let found = |body: &str| {
        let launch = LaunchRequest { block: [64, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
        match try_launch(&text(body), "k", vec![array(&[0u32; 64]), array(&[0u32; 64])], launch) {
            Ok(_) => Vec::new(),
            Err(fault) => fault.findings,
        }
    };
    let findings = found(wrong);
    assert!(!findings.is_empty(), "nothing is found in\n{wrong}");
    for finding in findings {
        assert_eq!(finding.kind, FindingKind::DivergentBarrier, "{finding}\n{wrong}");
        let (file, line, _) = finding.site.and_then(|site| site.source).expect("it has a line");
        assert_eq!((file.as_str(), line), ("planted.py", 7), "{wrong}");
    }
    let texts: Vec<String> = found(right).iter().map(ToString::to_string).collect();
    assert!(texts.is_empty(), "{texts:#?}\n{right}");
}

#[test]
fn planted_divergent_barriers() {
    // Behind a branch that half a warp takes; in a loop of uneven length; two barriers for two branches.
    let half = "setp.lt.u32 %p0, %r0, 16;\n";
    plant(
        &format!("{half}@!%p0 bra OVER;\n.loc 1 7 1\nbar.sync 0;\n.loc 1 9 1\nOVER:\nst.global.u32 [%rd0], 1;"),
        &format!("{half}@!%p0 bra OVER;\nst.global.u32 [%rd0], 2;\nOVER:\n.loc 1 7 1\nbar.sync 0;"),
    );
    let rounds = |most: &str| {
        format!(
            "mov.u32 %r1, 0;\n{most}\nLOOP:\n.loc 1 7 1\nbar.sync 0;\n.loc 1 8 1\nadd.u32 %r1, %r1, 1;\n\
             setp.le.u32 %p1, %r1, %r2;\n@%p1 bra LOOP;\nst.global.u32 [%rd0], %r1;"
        )
    };
    plant(&rounds("shr.u32 %r2, %r0, 5;"), &rounds("mov.u32 %r2, 1;"));
    plant(
        &format!("{half}@%p0 bra OTHER;\n.loc 1 7 1\nbar.sync 0;\nbra DONE;\nOTHER:\n.loc 1 7 5\nbar.sync 0;\nDONE:"),
        &format!("{half}@%p0 bra OTHER;\nst.global.u32 [%rd0], 1;\nOTHER:\n.loc 1 7 1\nbar.sync 0;"),
    );
}

#[test]
fn asynchronous_copies_are_waited_for() {
    let copy = "mul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd4, %rd5;\ncp.async.ca.shared.global [%r8], [%rd5], 4;\n\
                cp.async.commit_group;\n";
    let read = "ld.shared.u32 %r2, [%r8];\nst.global.u32 [%rd0], %r2;";
    check(FindingKind::MissingAsyncWait, &format!("{copy}{read}"), &format!("{copy}cp.async.wait_group 0;\n{read}"));
    check(
        FindingKind::MissingAsyncWait,
        &format!("{copy}cp.async.wait_group 1;\n{read}"),
        &format!("{copy}cp.async.wait_all;\n{read}"),
    );
    // Nor may be written before what is copied, neither there nor where it comes from.
    for (write, message) in [
        (
            "st.shared.u32 [%r8], 9;\n",
            "of `tile` (4096 bytes) is written before thread (0, 0, 0) of block (0, 0, 0) waits for its `cp.async`",
        ),
        (
            "st.global.u32 [%rd5], 9;\n",
            "is written before thread (0, 0, 0) of block (0, 0, 0) waits for the `cp.async` that reads it",
        ),
    ] {
        let one = "setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nsetp.ne.u32 %p0, %r1, 0;\n@%p0 ret;\n";
        let wait = "cp.async.wait_group 0;\n";
        let wrong = format!("{one}{copy}{write}{wait}{read}");
        check(FindingKind::MissingAsyncWait, &wrong, &format!("{one}{copy}{wait}{write}{read}"));
        assert!(findings(&wrong)[0].message.contains(message), "{}", findings(&wrong)[0]);
    }
    // Others' copies need a barrier after the wait.
    let read = "ld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;";
    check(
        FindingKind::Race,
        &format!("{copy}cp.async.wait_group 0;\n{read}"),
        &format!("{copy}cp.async.wait_group 0;\nbar.sync 0;\n{read}"),
    );
}

#[test]
fn bounds_and_alignment_of_every_space() {
    let far = "mov.u32 %r2, 6000;\nst.shared.u32 [%r2], 1;";
    check(FindingKind::OutOfBounds, far, "st.shared.u32 [%r8], 1;");
    check(FindingKind::Misaligned, "st.shared.u32 [%r8+2], 1;", "st.shared.u32 [%r8], 1;");
    check(FindingKind::Misaligned, "ld.global.v2.u32 {%r2, %r3}, [%rd4+4];", "ld.global.v2.u32 {%r2, %r3}, [%rd4+8];");
    check(
        FindingKind::OutOfBounds,
        ".local .align 4 .b8 mine[16];\nmov.u32 %r2, 64;\ncvt.u64.u32 %rd5, %r2;\nst.local.u32 [%rd5], 1;",
        ".local .align 4 .b8 mine[16];\nst.local.u32 [mine+12], 1;",
    );
    check(FindingKind::OutOfBounds, "mov.u64 %rd5, 0;\nld.u32 %r2, [%rd5];", "ld.u32 %r2, [%rd4];");
    check(FindingKind::OutOfBounds, "st.global.u32 [%rd4+1024], 1;", "st.global.u32 [%rd4+1020], 1;");
    check(FindingKind::OutOfBounds, "st.global.u32 [%rd4+-4], 1;", "ld.global.u32 %r2, [%rd4];");
}

#[test]
fn accesses_that_go_wrong_unchecked_read_zeros_and_write_nothing() {
    // Each leaves something in %r2, with the words 100, 101, … in the other array; what it is, by thread.
    type Expected = fn(u32) -> u32;
    let over_the_end = "mul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd4, %rd5;\n";
    let cases: &[(&str, Expected)] = &[
        ("mov.u32 %r2, 5;\nld.global.u32 %r2, [%rd4+1024];", |_| 0),
        ("mov.u64 %rd5, 0;\nmov.u32 %r2, 5;\nld.u32 %r2, [%rd5];", |_| 0),
        // Lanes of one warp inside and outside.
        (&format!("{over_the_end}ld.global.u32 %r2, [%rd5+960];"), |thread| if thread < 16 { 340 + thread } else { 0 }),
        // Partly outside is outside.
        ("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4+1020];", |_| 352),
        ("ld.global.v2.u32 {%r2, %r3}, [%rd4+1028];", |_| 0),
        ("st.global.u32 [%rd4+-4], 1;\nld.global.u32 %r2, [%rd4+-4];", |_| 0),
        ("st.shared.u32 [%r8+8192], 7;\nld.shared.u32 %r2, [%r8+8192];", |_| 0),
        ("atom.global.add.u32 %r3, [%rd4+2048], 7;\natom.global.add.u32 %r2, [%rd4+2048], 7;", |_| 0),
        (
            ".local .align 4 .b8 mine[16];\nmov.u64 %rd5, mine;\nst.local.u32 [%rd5+64], 3;\nld.local.u32 %r2, [%rd5+64];",
            |_| 0,
        ),
        ("cp.async.ca.shared.global [%r8], [%rd4+4096], 4;\ncp.async.wait_all;\nld.shared.u32 %r2, [%r8];", |_| 0),
        // A parameter stays what it was.
        (
            "mov.b64 %rd5, other;\ncvta.param.u64 %rd5, %rd5;\nst.u64 [%rd5], 3;\nld.param.u64 %rd6, [other];\n\
             ld.global.u32 %r2, [%rd6];",
            |_| 100,
        ),
        // Addresses are rounded down.
        ("ld.global.u32 %r2, [%rd4+6];", |_| 101),
        ("st.shared.u32 [%r8+3], %r0;\nld.shared.u32 %r2, [%r8];", |thread| thread),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2, %r3, %r4, %r5, %r6, %r7, %r14, %r15}, [%rd4+4096];",
            |_| 0,
        ),
    ];
    for names in ["none", "no-bounds,no-alignment", "all,no-bounds,no-alignment"] {
        let sanitize = names.parse().expect("names of checks");
        for (body, expected) in cases {
            let launch = LaunchRequest { block: [64, 1, 1], sanitize, ..LaunchRequest::default() };
            let other: Vec<u32> = (100..356).collect();
            let body = format!(
                "ld.param.u64 %rd4, [other];\nmov.u32 %r8, tile;\nshl.b32 %r9, %r0, 2;\nadd.u32 %r8, %r8, %r9;\n\
                 {body}\nst.global.u32 [%rd0], %r2;"
            );
            let result = try_launch(&kernel(&body), "k", vec![Arg::Fresh(256), array(&other)], launch);
            let (arrays, _) = result.unwrap_or_else(|fault| panic!("{names}: {fault}\n{body}"));
            assert_eq!(values::<u32>(&arrays[0]), (0..64).map(expected).collect::<Vec<_>>(), "{names}\n{body}");
            assert_eq!(values::<u32>(&arrays[1]), other, "{names}\n{body}");
        }
    }
}

#[test]
fn one_of_bounds_and_alignment_is_found_without_the_other() {
    let (far, crooked) = ("ld.global.u32 %r2, [%rd0+4096];", "ld.global.u32 %r2, [%rd0+2];");
    for (names, body, kind) in [
        ("no-alignment", far, Some(FindingKind::OutOfBounds)),
        ("no-bounds", crooked, Some(FindingKind::Misaligned)),
        ("no-alignment", crooked, None),
        ("no-bounds", far, None),
        ("races", far, Some(FindingKind::OutOfBounds)),
        ("races", crooked, Some(FindingKind::Misaligned)),
    ] {
        let launch = LaunchRequest { sanitize: names.parse().expect("names of checks"), ..LaunchRequest::default() };
        let result = try_launch(&kernel(body), "k", vec![array(&[0u32; 2]), array(&[0u32])], launch);
        assert_eq!(result.err().map(|fault| fault.findings[0].kind), kind, "{names}: {body}");
    }
}

#[test]
fn freed_memory_is_named_as_such() {
    use polyloom_ptx::{Module, Simulator};
    let simulator = Simulator::default();
    let loaded = simulator.load(&Module::parse(&kernel("ld.global.u32 %r2, [%rd0];")).expect("it parses"));
    let kernel = loaded.expect("it loads").kernel("k").expect("it decodes");
    let address = simulator.memory().alloc(128, 4).expect("memory");
    simulator.memory().free(address).expect("it was allocated");
    assert!(simulator.memory().free(address).is_err());
    let params = [address.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()];
    let fault = kernel.launch(&LaunchRequest { params: &params, ..LaunchRequest::default() }).expect_err("a fault");
    assert!(fault.findings[0].message.contains("128-byte allocation"), "{}", fault.findings[0]);
    assert!(fault.findings[0].message.ends_with("that was freed"), "{}", fault.findings[0]);
}

#[test]
fn arriving_at_a_barrier_is_not_waiting_for_it() {
    // The lower warp writes, both come to the barrier, the upper reads; and the other way round.
    let body = |lower: &str, upper: &str| {
        format!(
            "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra UPPER;\nst.shared.u32 [%r8], %r0;\n{lower}\nbra DONE;\n\
             UPPER:\n{upper}\nld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;\nDONE:"
        )
    };
    let [waits, arrives] = ["bar.sync 1, 64;", "bar.arrive 1, 64;"];
    check(FindingKind::Race, &body(waits, arrives), &body(waits, waits));
    check(FindingKind::Race, &body(arrives, ""), &body(arrives, waits));
    // What is written after arriving is not ordered by the barrier.
    let late = body(&format!("{arrives}\nst.shared.u32 [%r8], 5;"), waits);
    check(FindingKind::Race, &late, &body(&format!("st.shared.u32 [%r8], 5;\n{arrives}"), waits));
}

#[test]
fn phases_of_mbarriers_order_those_that_wait_for_them() {
    // Everybody writes, arrives, and reads what a thread of the other warp wrote.
    let round = |wait: &str| {
        format!(
            "setp.eq.u32 %p0, %r0, 0;\n@%p0 mbarrier.init.shared.b64 [tile+512], 64;\nbar.sync 0;\nst.shared.u32 [%r8], %r0;\n\
             mbarrier.arrive.shared.b64 %rd5, [tile+512];\n{wait}ld.shared.u32 %r2, [%r10];\nst.global.u32 [%rd0], %r2;"
        )
    };
    let wait = "W: mbarrier.try_wait.shared.b64 %p1, [tile+512], %rd5;\n@!%p1 bra W;\n";
    check(FindingKind::Race, &round(""), &round(wait));
    // A look at the barrier that finds it not over orders nothing.
    check(FindingKind::Race, &round("mbarrier.test_wait.shared.b64 %p1, [tile+512], %rd5;\n"), &round(wait));
}

#[test]
fn races_between_blocks_come_before_those_within_one() {
    // All threads write a word of shared memory and one of global memory, each its own number.
    let body = "st.shared.u32 [tile], %r0;\nmad.lo.u32 %r2, %r1, 64, %r0;\nst.global.u32 [%rd4], %r2;\nld.shared.u32 %r3, [%r10];\n\
                st.global.u32 [%rd0], %r3;";
    let found = findings(body);
    let races: Vec<&Finding> = found.iter().filter(|finding| finding.kind == FindingKind::Race).collect();
    let between = |finding: &Finding| finding.threads[0].block != finding.threads[1].block;
    assert!(races.len() > 1, "{races:?}");
    assert_eq!(races.iter().filter(|race| between(race)).count(), 1, "{races:?}");
    assert!(between(&found[0]) && found[0].message.contains("not ordered after a write"), "{}", found[0]);
}
