//! `cp.async.bulk` of one dimension, its mbarriers and groups, and what the checks find in its use.

use crate::device::{Arg, array, module, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers, Simulator};

/// `ptx/nvrtc_barriers.cu`, for compute_90.
const TEXT: &str = include_str!("ptx/nvrtc_barriers.ptx");

/// The parts that most kernels here are made of: `%p0` tells thread 0, which sets the mbarrier at `tile+1024` up, and
/// `%rd4` is the other array.
const BEGIN: &str = "ld.param.u64 %rd4, [other];\nsetp.eq.u32 %p0, %r0, 0;\nmov.u32 %r9, 1024;\nshl.b32 %r8, %r0, 2;\n\
                     mov.u32 %r10, tile;\nadd.u32 %r8, %r8, %r10;\n@%p0 mbarrier.init.shared.b64 [tile+1024], 1;\nbar.sync 0;\n";
const EXPECT: &str = "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+1024], %r9;\n";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared.b64 %p1, [tile+1024], 0;\n@!%p1 bra W;\n";
const COPY: &str =
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd4], %r9, [tile+1024];\n";
/// Of what is copied, another thread's word.
const READ: &str = "xor.b32 %r11, %r8, 128;\nld.shared.u32 %r2, [%r11];\nst.global.u32 [%rd0], %r2;\n";
const GROUP: &str = "cp.async.bulk.commit_group;\n";

/// Returns what 256 threads leave in the output, and what the checks find.
fn run(body: &str) -> Result<[Vec<u32>; 2], Vec<(FindingKind, String)>> {
    let other: Vec<u32> = (0..256).map(|i| 1000 + i).collect();
    let launch = LaunchRequest { block: [256, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let args = vec![array(&[0u32; 256]), array(&other)];
    match try_launch(&kernel(&format!("{BEGIN}{body}")), "k", args, launch) {
        Ok((out, _)) => Ok([values(&out[0]), values(&out[1])]),
        Err(fault) => Err(fault.findings.into_iter().map(|finding| (finding.kind, finding.message)).collect()),
    }
}

/// Returns what `run` finds, of the check for copies.
fn found(body: &str) -> Vec<String> {
    let all = run(body).err().unwrap_or_default();
    all.into_iter().filter(|(kind, _)| *kind == FindingKind::MissingAsyncWait).map(|(_, message)| message).collect()
}

#[test]
fn copies_to_shared_memory_end_the_phase_that_expects_their_bytes() {
    let expect: Vec<u32> = (0..256).map(|i| 1000 + (i ^ 32)).collect();
    for copy in [COPY.to_owned(), COPY.replace("cluster", "cta"), COPY.replace("%r9", "1024")] {
        assert_eq!(run(&format!("{EXPECT}{copy}{WAIT}{READ}")).expect("no findings")[0], expect, "{copy}");
        // The bytes may come before they are expected.
        assert_eq!(run(&format!("{copy}{EXPECT}{WAIT}{READ}")).expect("no findings")[0], expect, "{copy}");
    }
    let halves = "mov.u32 %r3, 512;\n@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%rd4], %r3, [tile+1024], %rd9;\n\
                  mov.b16 %h1, 1;\n@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile+512], [%rd4+512], %r3, [tile+1024], %h1;\n";
    assert_eq!(run(&format!("{EXPECT}{halves}{WAIT}{READ}")).expect("no findings")[0], expect);
    // Within shared memory.
    let within = format!(
        "st.shared.u32 [%r8+2048], %r0;\nbar.sync 0;\nfence.proxy.async;\n{EXPECT}\
         @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [tile+2048], %r9, [tile+1024];\n{WAIT}{READ}"
    );
    assert_eq!(run(&within).expect("no findings")[0], (0..256).map(|i| i ^ 32).collect::<Vec<u32>>());
}

#[test]
fn copies_from_shared_memory_and_reductions() {
    let fill = "st.shared.u32 [%r8], %r0;\nbar.sync 0;\nfence.proxy.async;\n";
    let after =
        |copy: &str| run(&format!("{fill}@%p0 {copy}\n{GROUP}cp.async.bulk.wait_group 0;\n")).expect("no findings");
    let [_, other] = after("cp.async.bulk.global.shared::cta.bulk_group [%rd4], [tile], %r9;");
    assert_eq!(other, (0..256).collect::<Vec<u32>>());
    let [_, other] = after("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd4+16], [tile], 16, %rd9;");
    assert_eq!(other[..9], [1000, 1001, 1002, 1003, 0, 1, 2, 3, 1008]);
    let [_, other] = after("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd4], [tile], %r9;");
    assert_eq!(other, (0..256).map(|i| 1000 + 2 * i).collect::<Vec<u32>>());
    let [_, other] = after("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.u64 [%rd4], [tile], 32;");
    assert_eq!(other[..9], [0, 1, 2, 3, 4, 5, 6, 7, 1008]);
    let [_, other] = after("cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32 [%rd4], [tile], 0;");
    assert_eq!(other, (1000..1256).collect::<Vec<u32>>());
    // 512 is 1 in bytes 1 of two words; masks name bytes of 16.
    let text = kernel(
        "ld.param.u64 %rd4, [other];\nmov.u32 %r1, 0x01020304;\nst.shared.v4.u32 [tile], {%r1, %r1, %r1, %r1};\nmov.b16 %h1, 0x8001;\n\
         cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd4], [tile], 16, %h1;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;",
    )
    .replace("sm_90", "sm_100");
    let (out, _) =
        try_launch(&text, "k", vec![array(&[0u32]), array(&[0u32; 4])], LaunchRequest::default()).expect("it runs");
    assert_eq!(values::<u32>(&out[1]), [4, 0, 0, 0x0100_0000]);
}

#[test]
fn what_is_copied_is_waited_for() {
    let message = "byte 128 of `tile` (4096 bytes) is read before anybody waits for its `cp.async.bulk`";
    assert_eq!(found(&format!("{EXPECT}{COPY}{READ}")), [message]);
    // One who waits for the phase is not all.
    let one = format!("{EXPECT}{COPY}@!%p0 bra READ;\n{WAIT}READ:\n{READ}");
    assert!(run(&one).expect_err("races").iter().any(|(kind, _)| *kind == FindingKind::Race));
    // What is read has to stay as it is until it has been read, and what is written comes later.
    let store = "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd4], [tile], %r9;\ncp.async.bulk.commit_group;\n";
    let fill = "st.shared.u32 [%r8], %r0;\nbar.sync 0;\nfence.proxy.async;\n";
    let again = "bar.sync 0;\nst.shared.u32 [%r8], 7;\n";
    let too_early = |body: &str| {
        let messages = found(body);
        let message = "of `tile` (4096 bytes) is written before thread (0, 0, 0) of block (0, 0, 0) waits for the \
                       `cp.async.bulk` that reads it";
        assert!(messages.len() == 1 && messages[0].ends_with(message), "{messages:?}");
    };
    too_early(&format!("{fill}{store}{again}"));
    assert!(run(&format!("{fill}{store}cp.async.bulk.wait_group.read 0;\n{again}")).is_ok());
    too_early(&format!("{fill}{store}cp.async.bulk.wait_group.read 1;\n{again}"));
    let back = "@%p0 ld.global.u32 %r2, [%rd4];\n@%p0 st.global.u32 [%rd0], %r2;\n";
    assert_eq!(found(&format!("{fill}{store}cp.async.bulk.wait_group.read 0;\n{back}")).len(), 1);
    assert!(run(&format!("{fill}{store}cp.async.bulk.wait_group 0;\n{back}")).is_ok());
    // Groups of `cp.async` are others.
    too_early(&format!("{fill}{store}cp.async.wait_all;\n{again}"));
}

#[test]
fn bulk_copies_are_of_pieces_of_16_bytes_inside_of_memory() {
    let wrong = |body: &str| run(body).expect_err("a finding").remove(0);
    let size = COPY.replace("%r9", "%r3");
    let (kind, message) = wrong(&format!("mov.u32 %r3, 40;\n{size}"));
    assert_eq!((kind, &*message), (FindingKind::Misaligned, "a bulk copy of 40 bytes, which is no multiple of 16"));
    let (kind, message) = wrong(&COPY.replace("[%rd4]", "[%rd4+8]"));
    assert!(kind == FindingKind::Misaligned && message.contains("no multiple of 16"), "{message}");
    let (kind, message) = wrong(&COPY.replace("[%rd4]", "[%rd4+16]"));
    assert!(kind == FindingKind::OutOfBounds && message.starts_with("1024 bytes at 0x"), "{message}");
    let (kind, message) = wrong(&COPY.replace("[tile]", "[tile+3088]"));
    assert!(kind == FindingKind::OutOfBounds && message.contains("byte 3088 of `tile`"), "{message}");
}

#[test]
fn other_bulk_copies_are_refused() {
    let cases = [
        (
            "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [tile], [tile], 16, [tile];",
            "no such state spaces",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%rd4], [tile], 40;",
            "a bulk copy is of a multiple of 16 bytes, not of 40",
        ),
        ("cp.async.bulk.wait_group %r1;", "`wait_group` needs a constant"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd4], [tile], 16;", "`.s64`"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd4], [tile], 16;", "`.f16`"),
        (
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b64 [tile], [tile], 16, [tile];",
            "`.b64`",
        ),
    ];
    for (line, expect) in cases {
        let errors = Simulator::default().load(&module(&kernel(line))).expect("it loads").kernel("k").err();
        let message = errors.expect("it is refused").remove(0).message;
        assert!(message.contains(expect), "{line}: {message}");
    }
}

#[test]
fn barriers_of_the_library() {
    let launch = |sanitize| LaunchRequest { grid: [2, 1, 1], block: [256, 1, 1], sanitize, ..LaunchRequest::default() };
    for sanitize in [Sanitizers::DEFAULT, Sanitizers::ALL] {
        let input: Vec<i32> = (0..512).collect();
        let args = vec![array(&input), array(&[0i32; 512])];
        let (out, _) = try_launch(TEXT, "bulk", args, launch(sanitize)).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(values::<i32>(&out[1]), (0..512).map(|i| i ^ 255).collect::<Vec<i32>>());
        let args = vec![array(&[0i32; 512]), Arg::Value(20i32.to_le_bytes().to_vec())];
        let (out, _) = try_launch(TEXT, "phases", args, launch(sanitize)).unwrap_or_else(|fault| panic!("{fault}"));
        let expect = (0..512).map(|i| 20 * ((i + 1) % 256) + 190).collect::<Vec<i32>>();
        assert_eq!(values::<i32>(&out[0]), expect);
    }
}
