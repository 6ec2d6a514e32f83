//! Clusters of several blocks: their special registers, shared memory of other blocks, the barrier, asynchronous stores
//! and copies between blocks, and what the checks find.

use crate::device::{array, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers};

/// Runs two clusters of so many blocks of 32 threads with all checks; `%r31` is the rank, and `%rd0` the place of a
/// thread among those of the whole grid.
fn run(n_blocks: u32, body: &str) -> Result<Vec<u32>, Vec<(FindingKind, String)>> {
    let begin = "mov.u32 %r31, %cluster_ctarank;\nmov.u32 %r30, %ctaid.x;\nmul.wide.u32 %rd2, %r30, 128;\nadd.u64 %rd0, %rd0, %rd2;\n";
    let text = kernel(&format!("{begin}{body}"));
    let plain = LaunchRequest {
        grid: [2 * n_blocks, 1, 1],
        block: [32, 1, 1],
        cluster: Some([n_blocks, 1, 1]),
        ..LaunchRequest::default()
    };
    let args = || vec![array(&vec![0u32; 64 * n_blocks as usize]), array(&[7u32; 64])];
    let checked = LaunchRequest { sanitize: Sanitizers::ALL, ..plain };
    match try_launch(&text, "k", args(), checked) {
        Ok((out, _)) => {
            let several = LaunchRequest { threads: 2, ..plain };
            let (again, _) = try_launch(&text, "k", args(), several).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(out[0], again[0]);
            Ok(values(&out[0]))
        }
        Err(fault) => Err(fault.findings.into_iter().map(|finding| (finding.kind, finding.message)).collect()),
    }
}

const SYNC: &str = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
/// The address of the next block's `tile`, in `%r20`.
const NEXT: &str = "mov.u32 %r21, %cluster_nctarank;\nadd.u32 %r22, %r31, 1;\nrem.u32 %r22, %r22, %r21;\nmov.u32 %r23, tile;\n\
                    mapa.shared::cluster.u32 %r20, %r23, %r22;\n";

#[test]
fn registers_say_where_a_block_is() {
    let names = [
        "%cluster_ctaid.x",
        "%cluster_ctaid.y",
        "%cluster_nctaid.x",
        "%cluster_nctaid.y",
        "%clusterid.x",
        "%clusterid.y",
        "%nclusterid.x",
        "%nclusterid.y",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%ctaid.x",
        "%ctaid.y",
    ];
    let mut body =
        "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;\nmov.u32 %r3, %nctaid.x;\nmad.lo.u32 %r1, %r2, %r3, %r1;\n\
                    mul.wide.u32 %rd2, %r1, 64;\nadd.u64 %rd0, %rd0, %rd2;\n"
            .to_owned();
    for (at, name) in names.iter().enumerate() {
        body += &format!("mov.u32 %r4, {name};\nst.global.u32 [%rd0+{}], %r4;\n", 4 * at);
    }
    let launch = LaunchRequest { grid: [4, 6, 1], cluster: Some([2, 3, 1]), ..LaunchRequest::default() };
    let (out, _) =
        try_launch(&kernel(&body), "k", vec![array(&[0u32; 24 * 16]), array(&[0u32])], launch).expect("it runs");
    for (block, found) in values::<u32>(&out[0]).chunks_exact(16).enumerate() {
        let (x, y) = (block as u32 % 4, block as u32 / 4);
        let expected = [x % 2, y % 3, 2, 3, x / 2, y / 3, 2, 2, x % 2 + 2 * (y % 3), 6, x, y];
        assert_eq!(found[..12], expected, "block {block}");
    }
}

#[test]
fn blocks_see_each_others_shared_memory() {
    // Each thread reads what its twin of the next block wrote, by an address of shared memory and by a generic one.
    let body = format!(
        "shl.b32 %r8, %r0, 2;\nmov.u32 %r9, tile;\nadd.u32 %r9, %r9, %r8;\nmad.lo.u32 %r10, %r31, 100, %r0;\nst.shared.u32 [%r9], %r10;\n\
         {SYNC}{NEXT}add.u32 %r20, %r20, %r8;\nld.shared::cluster.u32 %r11, [%r20];\n\
         mov.u64 %rd4, tile;\ncvta.shared.u64 %rd4, %rd4;\nmapa.u64 %rd5, %rd4, %r22;\ncvt.u64.u32 %rd6, %r8;\nadd.u64 %rd5, %rd5, %rd6;\n\
         ld.u32 %r12, [%rd5];\nadd.u32 %r11, %r11, %r12;\ngetctarank.shared::cluster.u32 %r13, %r20;\ngetctarank.u64 %r14, %rd5;\n\
         getctarank.shared::cluster.u32 %r15, %r9;\nmad.lo.u32 %r11, %r13, 1000, %r11;\nmad.lo.u32 %r11, %r14, 10000, %r11;\n\
         mad.lo.u32 %r11, %r15, 100000, %r11;\nst.global.u32 [%rd0], %r11;\n{SYNC}"
    );
    let expected = |n: u32| -> Vec<u32> {
        let of = |i: u32| {
            let (rank, lane) = (i / 32 % n, i % 32);
            let next = (rank + 1) % n;
            2 * (100 * next + lane) + 11_000 * next + 100_000 * rank
        };
        (0..64 * n).map(of).collect()
    };
    for n in [1, 2, 4, 8] {
        assert_eq!(run(n, &body).expect("no findings"), expected(n), "clusters of {n}");
    }
}

#[test]
fn a_missing_barrier_is_a_race_between_blocks() {
    let body = format!(
        "mov.u32 %r9, tile;\nst.shared.u32 [%r9], 5;\n{NEXT}ld.shared::cluster.u32 %r11, [%r20];\nst.global.u32 [%rd0], %r11;\n{SYNC}"
    );
    let found = run(2, &body).expect_err("it races");
    assert!(found.iter().any(|(kind, _)| *kind == FindingKind::Race), "{found:?}");
    // A relaxed arrival lets threads go on together, and orders no memory.
    let relaxed = SYNC.replace("release", "relaxed");
    let body = body.replacen(NEXT, &format!("{relaxed}{NEXT}"), 1);
    assert!(run(2, &body).expect_err("it races").iter().all(|(kind, _)| *kind == FindingKind::Race));
    assert!(run(2, &body.replace("relaxed", "release")).is_ok());
}

#[test]
fn remote_atomics_and_asynchronous_stores() {
    // Threads of all blocks count in block 0, whose thread 0 tells the sum.
    let body = format!(
        "mov.u32 %r9, tile;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%r9], 0;\n{SYNC}mapa.shared::cluster.u32 %r20, %r9, 0;\n\
         atom.relaxed.cluster.shared::cluster.add.u32 %r11, [%r20], 1;\n{SYNC}@%p0 ld.shared.u32 %r12, [%r9];\n@%p0 st.global.u32 [%rd0], %r12;\n"
    );
    let out = run(4, &body).expect("no findings");
    assert_eq!((out[0], out[32], out[128]), (128, 0, 128));
    // Each thread stores a word for its twin of the next block, and adds one to a counter there; both are waited for by an
    // mbarrier that expects 32 words, and 32 more.
    let exchange = |store: &str| {
        format!(
            "shl.b32 %r8, %r0, 2;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 mbarrier.init.shared.b64 [tile+1024], 1;\n@%p0 st.shared.u32 [tile+512], 0;\n\
             @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+1024], 256;\n{SYNC}{NEXT}add.u32 %r24, %r20, %r8;\nmad.lo.u32 %r10, %r31, 100, %r0;\n\
             add.u32 %r25, %r20, 1024;\nadd.u32 %r26, %r20, 512;\n{store}\n\
             red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r26], 1, [%r25];\n\
             W: mbarrier.try_wait.parity.shared.b64 %p1, [tile+1024], 0;\n@!%p1 bra W;\n\
             mov.u32 %r9, tile;\nadd.u32 %r9, %r9, %r8;\nld.shared.u32 %r11, [%r9];\nld.shared.u32 %r12, [tile+512];\nmad.lo.u32 %r11, %r12, 1000, %r11;\n\
             st.global.u32 [%rd0], %r11;\n{SYNC}"
        )
    };
    let out = run(2, &exchange("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r24], %r10, [%r25];"))
        .expect("no findings");
    let expected: Vec<u32> = (0..128).map(|i: u32| 32_000 + 100 * (1 - i / 32 % 2) + i % 32).collect();
    assert_eq!(out, expected);
}

#[test]
fn copies_go_to_other_blocks_and_to_several() {
    // Block 0 has a copy made for every block that the mask names, at the same place of each.
    let multicast = |mask: u32| {
        format!(
            "ld.param.u64 %rd4, [other];\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 mbarrier.init.shared.b64 [tile+1024], 1;\n\
             @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+1024], 128;\n{SYNC}setp.eq.u32 %p2, %r31, 0;\nand.pred %p2, %p2, %p0;\nmov.b16 %h1, {mask};\n\
             @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd4], 128, [tile+1024], %h1;\n\
             W: mbarrier.try_wait.parity.shared.b64 %p1, [tile+1024], 0;\n@!%p1 bra W;\n\
             shl.b32 %r8, %r0, 2;\nmov.u32 %r9, tile;\nadd.u32 %r9, %r9, %r8;\nld.shared.u32 %r11, [%r9];\nst.global.u32 [%rd0], %r11;\n{SYNC}"
        )
    };
    assert_eq!(run(2, &multicast(3)).expect("no findings"), [7; 128]);
    assert_eq!(run(4, &multicast(15)).expect("no findings"), [7; 256]);
    let found = run(2, &multicast(7)).expect_err("there is no third block");
    assert!(found.iter().any(|(_, message)| message.contains("block 2 of the cluster, which has 2")), "{found:?}");
    // Within the cluster's shared memory.
    let forward = format!(
        "shl.b32 %r8, %r0, 2;\nmov.u32 %r9, tile;\nadd.u32 %r10, %r9, %r8;\nmad.lo.u32 %r11, %r31, 100, %r0;\nst.shared.u32 [%r10+2048], %r11;\n\
         setp.eq.u32 %p0, %r0, 0;\n@%p0 mbarrier.init.shared.b64 [tile+1024], 1;\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [tile+1024], 128;\n\
         fence.proxy.async;\n{SYNC}{NEXT}add.u32 %r25, %r20, 1024;\n\
         @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r20], [tile+2048], 128, [%r25];\n\
         W: mbarrier.try_wait.parity.shared.b64 %p1, [tile+1024], 0;\n@!%p1 bra W;\nld.shared.u32 %r12, [%r10];\nst.global.u32 [%rd0], %r12;\n{SYNC}"
    );
    let expected: Vec<u32> = (0..128).map(|i: u32| 100 * (1 - i / 32 % 2) + i % 32).collect();
    assert_eq!(run(2, &forward).expect("no findings"), expected);
}

#[test]
fn wrong_uses_are_found() {
    let one = |n_blocks: u32, body: &str| run(n_blocks, body).expect_err("it is wrong").remove(0);
    let (kind, message) = one(2, "barrier.cluster.wait;");
    assert!(kind == FindingKind::DivergentBarrier && message.contains("has not arrived"), "{message}");
    let (kind, message) = one(2, "barrier.cluster.arrive;\nbarrier.cluster.arrive;");
    assert!(kind == FindingKind::DivergentBarrier && message.contains("again before"), "{message}");
    let (kind, message) =
        one(2, &format!("{NEXT}setp.eq.u32 %p0, %r31, 0;\n@%p0 ret;\nld.shared::cluster.u32 %r1, [%r20];\n"));
    assert!(
        kind == FindingKind::OutOfBounds && message.contains("block 0 of the cluster, whose threads have all exited"),
        "{message}"
    );
    let (kind, message) =
        one(2, "mov.u32 %r9, tile;\nmapa.shared::cluster.u32 %r20, %r9, 5;\nst.shared::cluster.u32 [%r20], 1;\n");
    assert!(kind == FindingKind::OutOfBounds && message.contains("block 5 of the cluster, which has 2"), "{message}");
    // Block 0 waits for the cluster, and block 1 for threads that it does not have.
    let (kind, _) = one(2, &format!("setp.eq.u32 %p0, %r31, 0;\n@!%p0 bar.sync 1, 64;\n{SYNC}"));
    assert_eq!(kind, FindingKind::Deadlock);
    // Threads that exit count as having come.
    assert!(run(2, &format!("setp.lt.u32 %p0, %r0, 7;\n@%p0 ret;\n{SYNC}")).is_ok());
}

#[test]
fn a_launch_must_have_whole_clusters() {
    let refused = |text: &str, launch: LaunchRequest<'_>| {
        let fault =
            try_launch(text, "k", vec![array(&[0u32; 64]), array(&[0u32])], launch).expect_err("it does not fit");
        fault.findings[0].message.clone()
    };
    let text = kernel("");
    let launch = LaunchRequest { grid: [6, 1, 1], cluster: Some([4, 1, 1]), ..LaunchRequest::default() };
    assert_eq!(refused(&text, launch), "a grid of (6, 1, 1) blocks is not made of clusters of (4, 1, 1)");
    let launch = LaunchRequest { grid: [64, 1, 1], cluster: Some([32, 1, 1]), ..LaunchRequest::default() };
    assert_eq!(refused(&text, launch), "a cluster of (32, 1, 1) blocks: there may be 1 to 16");
    let old = text.replace("sm_90", "sm_80");
    let launch = LaunchRequest { grid: [2, 1, 1], cluster: Some([2, 1, 1]), arch: 80, ..LaunchRequest::default() };
    assert_eq!(refused(&old, launch), "sm_80 has no clusters of several blocks; sm_90 has");
    let directed =
        |directive: &str| text.replace(".param .u64 other) {", &format!(".param .u64 other) {directive} {{"));
    let grid = |n: u32| LaunchRequest { grid: [n, 1, 1], ..LaunchRequest::default() };
    let required = directed(".explicitcluster .reqnctapercluster 2, 1, 1");
    assert!(refused(&required, grid(3)).contains("is not made of clusters of (2, 1, 1)"));
    let other = LaunchRequest { cluster: Some([4, 1, 1]), ..grid(4) };
    assert_eq!(refused(&required, other), "the kernel requires clusters of (2, 1, 1) blocks, not (4, 1, 1)");
    assert_eq!(
        refused(&directed(".explicitcluster"), grid(2)),
        "the kernel needs a launch that says how large clusters are"
    );
    let most = directed(".explicitcluster .maxclusterrank 2");
    assert_eq!(refused(&most, other), "a cluster of (4, 1, 1) blocks: there may be 1 to 2");
    assert!(try_launch(&required, "k", vec![array(&[0u32; 64]), array(&[0u32])], grid(4)).is_ok());
}
