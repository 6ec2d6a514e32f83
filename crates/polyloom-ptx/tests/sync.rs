//! Barriers, warp instructions, atomics and shuffles, in hand-written PTX.

use crate::device::{Arg, array, launch, try_launch, value, values};
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers};

/// A kernel of one output, whose registers are `%r0` to `%r31`, `%rd0` to `%rd15`, `%p0` to `%p7`; `%r0` is the
/// thread's index and `%rd0` the address of its word of the output.
pub(crate) fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(.param .u64 out, .param .u64 other) {{\n\
         .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .pred %p<8>; .reg .b16 %h<8>;\n.shared .align 16 .b8 tile[4096];\n\
         mov.u32 %r0, %tid.x;\nld.param.u64 %rd0, [out];\nmul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd0, %rd0, %rd1;\n\
         {body}\nret;\n}}\n"
    )
}

/// Returns what a block of `threads` leaves in the output; the checks find nothing.
fn run(threads: u32, body: &str) -> Vec<u32> {
    let args = || vec![array(&vec![0u32; threads as usize]), array(&[0u32; 64])];
    let out = launch(&kernel(body), "k", 1, threads, args());
    let launch = LaunchRequest { block: [threads, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let (checked, _) = try_launch(&kernel(body), "k", args(), launch).unwrap_or_else(|fault| panic!("{fault}\n{body}"));
    assert_eq!(out, checked);
    values(&out[0])
}

#[test]
fn shuffles_clamp_as_the_manual_says() {
    // The pseudo-code of `shfl.sync` in the ISA manual.
    fn source(mode: &str, lane: u32, b: u32, c: u32) -> (u32, bool) {
        let (bval, cval, mask) = ((b & 31) as i32, (c & 31) as i32, (c >> 8 & 31) as i32);
        let lane = lane as i32;
        let max_lane = (lane & mask) | (cval & !mask);
        let min_lane = lane & mask;
        let (j, pval) = match mode {
            "up" => (lane - bval, lane - bval >= max_lane),
            "down" => (lane + bval, lane + bval <= max_lane),
            "bfly" => (lane ^ bval, lane ^ bval <= max_lane),
            _ => {
                let j = min_lane | (bval & !mask);
                (j, j <= max_lane)
            }
        };
        if pval { (j as u32, true) } else { (lane as u32, false) }
    }
    for mode in ["up", "down", "bfly", "idx"] {
        for b in [0, 1, 3, 8, 31] {
            for width in [32u32, 16, 8, 2] {
                let c = (32 - width) << 8 | if mode == "up" { 0 } else { 31 };
                let body = format!(
                    "mul.lo.u32 %r1, %r0, 100;\nshfl.sync.{mode}.b32 %r2|%p0, %r1, {b}, {c}, -1;\nselp.u32 %r3, 1, 0, %p0;\n\
                     add.u32 %r2, %r2, %r3;\nst.global.u32 [%rd0], %r2;"
                );
                let expected: Vec<u32> = (0..32)
                    .map(|lane| {
                        let (from, inside) = source(mode, lane, b, c);
                        from * 100 + u32::from(inside)
                    })
                    .collect();
                assert_eq!(run(32, &body), expected, "{mode} {b} {width}");
            }
        }
    }
}

#[test]
fn members_of_a_divergent_warp_shuffle_apart() {
    // Odd and even lanes, in branches of their own, sum within themselves.
    let body = "and.b32 %r1, %r0, 1;\nsetp.eq.u32 %p0, %r1, 1;\nmov.u32 %r5, 0;\n@%p0 bra ODD;\n\
                redux.sync.add.u32 %r5, %r0, 0x55555555;\nbra DONE;\n\
                ODD:\nredux.sync.add.u32 %r5, %r0, 0xaaaaaaaa;\n\
                DONE:\nst.global.u32 [%rd0], %r5;";
    let expected: Vec<u32> = (0..32).map(|lane| if lane % 2 == 0 { 240 } else { 256 }).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn lanes_wait_for_the_others_of_their_mask() {
    // Lanes come to the same instruction one after the other, out of a loop of as many rounds as their index.
    let body = "mov.u32 %r1, %r0;\nLOOP:\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 bra OUT;\nsub.u32 %r1, %r1, 1;\nbra LOOP;\n\
                OUT:\nvote.sync.ballot.b32 %r2, 1, -1;\nst.global.u32 [%rd0], %r2;";
    let body = body.replace("vote.sync.ballot.b32 %r2, 1", "setp.ge.u32 %p1, %r0, 0;\nvote.sync.ballot.b32 %r2, %p1");
    assert_eq!(run(32, &body), vec![u32::MAX; 32]);
    // Exited lanes are not waited for.
    let body = "setp.lt.u32 %p0, %r0, 10;\n@%p0 ret;\nvote.sync.ballot.b32 %r2, !%p0, -1;\nst.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 10 { 0 } else { u32::MAX << 10 }).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn warp_barriers_meet_at_different_instructions() {
    let body = "setp.lt.u32 %p0, %r0, 16;\n@%p0 bra LOW;\nbar.warp.sync -1;\nmov.u32 %r1, 7;\nbra DONE;\n\
                LOW:\nbar.warp.sync -1;\nmov.u32 %r1, 5;\nDONE:\nst.global.u32 [%rd0], %r1;";
    let expected: Vec<u32> = (0..32).map(|lane| if lane < 16 { 5 } else { 7 }).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn votes() {
    let body = "setp.lt.u32 %p0, %r0, 32;\nvote.sync.all.pred %p1, %p0, -1;\nvote.sync.any.pred %p2, !%p0, -1;\n\
                vote.sync.uni.pred %p3, %p0, -1;\nsetp.eq.u32 %p4, %r0, 3;\nvote.sync.any.pred %p5, %p4, -1;\n\
                vote.sync.uni.pred %p6, %p4, -1;\nactivemask.b32 %r9;\nelect.sync %r10|%p7, -1;\n\
                selp.u32 %r1, 1, 0, %p1;\nselp.u32 %r2, 2, 0, %p2;\nselp.u32 %r3, 4, 0, %p3;\nselp.u32 %r4, 8, 0, %p5;\n\
                selp.u32 %r5, 16, 0, %p6;\nselp.u32 %r6, 32, 0, %p7;\nor.b32 %r1, %r1, %r2;\nor.b32 %r1, %r1, %r3;\n\
                or.b32 %r1, %r1, %r4;\nor.b32 %r1, %r1, %r5;\nor.b32 %r1, %r1, %r6;\nand.b32 %r9, %r9, 0x100;\n\
                or.b32 %r1, %r1, %r9;\nst.global.u32 [%rd0], %r1;";
    let mut expected = vec![1 | 4 | 8 | 0x100; 32];
    expected[0] |= 32;
    assert_eq!(run(32, body), expected);
}

#[test]
fn matches() {
    let body = "shr.u32 %r1, %r0, 2;\nmatch.any.sync.b32 %r2, %r1, -1;\nmatch.all.sync.b32 %r3|%p0, %r1, -1;\n\
                match.all.sync.b32 %r4|%p1, 9, -1;\nadd.u32 %r2, %r2, %r3;\nselp.u32 %r5, 1, 0, %p0;\nadd.u32 %r2, %r2, %r5;\n\
                and.b32 %r4, %r4, 0x80000000;\nxor.b32 %r2, %r2, %r4;\nst.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|lane| (0xfu32 << (lane / 4 * 4)) ^ 0x8000_0000).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn barriers_reduce() {
    let body = "and.b32 %r1, %r0, 3;\nsetp.eq.u32 %p0, %r1, 0;\nbar.red.popc.u32 %r2, 0, %p0;\n\
                bar.red.and.pred %p1, 0, %p0;\nbar.red.or.pred %p2, 1, %p0;\nbarrier.red.popc.u32 %r3, 2, 96, !%p0;\n\
                selp.u32 %r4, 1000, 0, %p1;\nselp.u32 %r5, 2000, 0, %p2;\nadd.u32 %r2, %r2, %r4;\nadd.u32 %r2, %r2, %r5;\n\
                shl.b32 %r3, %r3, 16;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%rd0], %r2;";
    assert_eq!(run(96, body), vec![2000 + 24 + (72 << 16); 96]);
}

#[test]
fn producers_arrive_and_consumers_wait() {
    // The second warp writes and arrives; the first waits for it at a barrier of 64.
    let body = "mov.u32 %r8, tile;\nmul.lo.u32 %r9, %r0, 4;\nadd.u32 %r8, %r8, %r9;\nsetp.ge.u32 %p0, %r0, 32;\n@%p0 bra WRITE;\n\
                bar.sync 3, 64;\nld.shared.u32 %r1, [%r8+128];\nst.global.u32 [%rd0], %r1;\nret;\n\
                WRITE:\nadd.u32 %r1, %r0, 500;\nst.shared.u32 [%r8], %r1;\nbar.arrive 3, 64;";
    let expected: Vec<u32> = (0..64).map(|t| if t < 32 { t + 532 } else { 0 }).collect();
    assert_eq!(run(64, body), expected);
}

#[test]
fn a_barrier_nobody_else_reaches_is_a_deadlock() {
    let body = "setp.lt.u32 %p0, %r0, 32;\n@%p0 bra OTHER;\nbar.sync 1, 64;\nret;\nOTHER:\nbar.sync 2, 64;";
    let launch = LaunchRequest { block: [64, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(&kernel(body), "k", vec![Arg::Fresh(256), Arg::Fresh(4)], launch).expect_err("a deadlock");
    assert_eq!(fault.findings[0].kind, FindingKind::Deadlock);
    assert_eq!(fault.findings[0].threads.len(), 32);
}

#[test]
fn lanes_that_waited_go_on_with_the_one_they_waited_for() {
    // Lane 0 spins until the others have set a flag; they then wait for it at the first of several shuffles.
    let body = "ld.param.u64 %rd2, [other];\nmov.u32 %r1, %r0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra OTHERS;\n\
                LOOP:\natom.global.or.b32 %r2, [%rd2], 0;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra LOOP;\nbra JOIN;\n\
                OTHERS:\natom.global.exch.b32 %r2, [%rd2], 1;\n\
                JOIN:\nshfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;\nadd.u32 %r1, %r1, %r3;\n\
                shfl.sync.bfly.b32 %r3, %r1, 8, 31, -1;\nadd.u32 %r1, %r1, %r3;\n\
                shfl.sync.bfly.b32 %r3, %r1, 4, 31, -1;\nadd.u32 %r1, %r1, %r3;\n\
                shfl.sync.bfly.b32 %r3, %r1, 2, 31, -1;\nadd.u32 %r1, %r1, %r3;\n\
                shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run(32, body), [496; 32]);
}

#[test]
fn two_paths_of_a_warp_may_wait_for_another_block() {
    // Lanes 0 and 1 of block 0 each wait for a flag of their own, which block 1 sets.
    let body = "ld.param.u64 %rd2, [other];\nmov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p0, %r1, 1;\n@%p0 bra SET;\n\
                setp.eq.u32 %p1, %r0, 1;\n@%p1 bra SECOND;\n\
                WAIT1:\nld.volatile.global.u32 %r2, [%rd2];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT1;\nbra DONE;\n\
                SECOND:\nWAIT2:\nld.volatile.global.u32 %r2, [%rd2+4];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT2;\n\
                DONE:\nst.global.u32 [%rd0], %r2;\nret;\n\
                SET:\nst.volatile.global.u32 [%rd2], 7;\nst.volatile.global.u32 [%rd2+4], 8;";
    let rounds = std::sync::atomic::AtomicU32::new(0);
    let interrupt = || rounds.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 10_000;
    let launch = LaunchRequest { grid: [2, 1, 1], block: [2, 1, 1], interrupt: &interrupt, ..LaunchRequest::default() };
    let (out, _) = try_launch(&kernel(body), "k", vec![array(&[0u32; 2]), array(&[0u32; 2])], launch).expect("it ends");
    assert_eq!(values::<u32>(&out[0]), [7, 8]);
}

#[test]
fn lanes_may_name_different_barriers() {
    // Even threads of both warps meet at barrier 1, odd ones at 2; what is reduced there is theirs.
    let body = "and.b32 %r1, %r0, 1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r0, 16;\nsetp.eq.u32 %p1, %r1, 1;\n\
                and.pred %p0, %p0, %p1;\nbarrier.red.popc.u32 %r2, %r1, 32, %p0;\nst.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..64).map(|thread| if thread % 2 == 0 { 8 } else { 0 }).collect();
    assert_eq!(run(64, body), expected);
}

#[test]
fn blocks_have_sixteen_barriers() {
    let simulator = polyloom_ptx::Simulator::default();
    let loaded = simulator.load(&crate::device::module(&kernel("bar.sync 15;\nbar.sync 16;"))).expect("it loads");
    let errors = loaded.kernel("k").err().expect("it is refused");
    assert_eq!(errors.iter().map(|each| &*each.message).collect::<Vec<_>>(), ["a block has barriers 0 to 15, not 16"]);
    let launch = LaunchRequest { block: [32, 1, 1], ..LaunchRequest::default() };
    let args = vec![Arg::Fresh(128), Arg::Fresh(4)];
    let fault = try_launch(&kernel("mov.u32 %r1, 16;\nbarrier.sync %r1;"), "k", args, launch).expect_err("a fault");
    assert_eq!(fault.findings[0].message, "a block has barriers 0 to 15, not 16");
}

#[test]
fn one_member_reduces_to_itself_prepared() {
    // The identity of the other members is none of its: magnitudes and the one NaN are.
    let reduced = |modifiers: &str, value: &str| {
        run(1, &format!("mov.b32 %r1, {value};\nredux.sync.{modifiers}.f32 %r2, %r1, 1;\nst.global.b32 [%rd0], %r2;"))
            [0]
    };
    assert_eq!(reduced("min.abs", "0fC0000000"), 2f32.to_bits());
    assert_eq!(reduced("max.NaN", "0fFFC00001"), 0x7fff_ffff);
    assert_eq!(reduced("min", "0fC0000000"), (-2f32).to_bits());
}

#[test]
fn spinning_ends_when_the_caller_says_so() {
    let body = "LOOP:\nld.volatile.global.u32 %r1, [%rd0];\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 bra LOOP;";
    let asked = std::sync::atomic::AtomicU32::new(0);
    let interrupt = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20;
    let launch = LaunchRequest {
        grid: [3, 1, 1],
        block: [32, 1, 1],
        interrupt: &interrupt,
        threads: 2,
        ..LaunchRequest::default()
    };
    let args = vec![array(&[0u32; 32]), Arg::Fresh(4)];
    let fault = try_launch(&kernel(body), "k", args, launch).expect_err("it is interrupted");
    assert_eq!(fault.findings[0].kind, FindingKind::Interrupted);
}

#[test]
fn traps_name_their_thread() {
    let body = "setp.ne.u32 %p0, %r0, 5;\n@%p0 bra FINE;\ntrap;\nFINE:";
    let launch = LaunchRequest { block: [32, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(&kernel(body), "k", vec![Arg::Fresh(128), Arg::Fresh(4)], launch).expect_err("a trap");
    let finding = &fault.findings[0];
    assert_eq!((finding.kind, finding.threads.len(), finding.threads[0].thread), (FindingKind::Trap, 1, [5, 0, 0]));
}

/// One atomic by all threads of two warps on one place: what is there at the end, and the sorted old values.
fn atomic(operation: &str, bits: u32, start: u64, operand: &str) -> (u64, Vec<u64>) {
    let body = format!(
        ".reg .b{bits} %old;\nld.param.u64 %rd4, [other];\ncvt.u64.u32 %rd8, %r0;\nmov.u32 %r8, %r0;\n\
         cvt.rn.f32.u32 %r9, %r0;\ncvt.rn.f64.u32 %rd9, %r0;\natom.global.{operation} %old, [%rd4], {operand};\n\
         red.global.{reduction} [%rd4+8], {operand};\nadd.u64 %rd4, %rd4, 16;\nmul.wide.u32 %rd1, %r0, 8;\n\
         add.u64 %rd4, %rd4, %rd1;\nst.global.b{bits} [%rd4], %old;",
        reduction = if operation.starts_with("exch") || operation.starts_with("cas") { "add.u32" } else { operation },
    );
    let body = if operation.starts_with("exch") || operation.starts_with("cas") {
        body.lines().filter(|line| !line.trim().starts_with("red.")).collect::<Vec<_>>().join("\n")
    } else {
        body
    };
    let mut memory = vec![0u64; 2 + 64];
    memory[..2].fill(start);
    let out = launch(&kernel(&body), "k", 1, 64, vec![array(&[0u32; 64]), array(&memory)]);
    let found: Vec<u64> = values(&out[1]);
    let mut old = found[2..].to_vec();
    old.sort_unstable();
    if !operation.starts_with("exch") && !operation.starts_with("cas") {
        assert_eq!(found[0], found[1], "atom and red of {operation}");
    }
    (found[0], old)
}

#[test]
fn atomics() {
    let (sum, old) = atomic("add.u32", 32, 5, "1");
    assert_eq!((sum, old), (69, (5..69).collect()));
    assert_eq!(atomic("add.u64", 64, u64::MAX, "%rd8").0, 2015);
    assert_eq!(atomic("min.u32", 32, 40, "%r8").0, 0);
    assert_eq!(atomic("max.u32", 32, 40, "%r8").0, 63);
    assert_eq!(atomic("min.s32", 32, 0xffff_fff0, "%r8").0, 0xffff_fff0);
    assert_eq!(atomic("max.s64", 64, u64::MAX, "%rd8").0, 63);
    assert_eq!(atomic("and.b32", 32, 0xff, "%r8").0, 0);
    assert_eq!(atomic("or.b64", 64, 0x100, "%rd8").0, 0x13f);
    assert_eq!(atomic("xor.b32", 32, 7, "%r8").0, 7);
    // Wrapping counters: 64 steps modulo 10 and modulo 10 downwards.
    assert_eq!(atomic("inc.u32", 32, 0, "9").0, 4);
    assert_eq!(atomic("dec.u32", 32, 0, "9").0, 6);
    assert_eq!(
        atomic("exch.b32", 32, 77, "%r8").1.iter().sum::<u64>() + atomic("exch.b32", 32, 77, "%r8").0,
        77 + 2016
    );
    assert_eq!(atomic("cas.b32", 32, 0, "0, 9").0, 9);
    assert_eq!(f32::from_bits(atomic("add.f32", 32, 1f32.to_bits().into(), "%r9").0 as u32), 2017.0);
    assert_eq!(f64::from_bits(atomic("add.f64", 64, 1f64.to_bits(), "%rd9").0), 2017.0);
}

#[test]
fn half_atomics() {
    let body = "ld.param.u64 %rd4, [other];\nmov.b16 %h0, 0x3c00;\natom.global.add.noftz.f16 %h1, [%rd4], %h0;\n\
                mov.b32 %r1, 0x3f803f80;\nred.global.add.noftz.bf16x2 [%rd4+4], %r1;\nmov.b32 %r2, 0x40003c00;\n\
                atom.global.add.noftz.f16x2 %r3, [%rd4+8], %r2;";
    let out = launch(&kernel(body), "k", 1, 32, vec![array(&[0u32; 32]), array(&[0u32; 4])]);
    assert_eq!(values::<u32>(&out[1])[..3], [0x5000, 0x4200_4200, 0x5400_5000]);
}

#[test]
fn mbarriers_count_arrivals_and_bytes() {
    let body = "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [tile], 33;\nREADY:\nbar.sync 0;\n\
                mov.u32 %r8, tile;\nmul.lo.u32 %r9, %r0, 4;\nadd.u32 %r8, %r8, %r9;\nadd.u32 %r1, %r0, 9;\nst.shared.u32 [%r8+16], %r1;\n\
                mbarrier.arrive.shared.b64 %rd8, [tile];\n@%p0 bra WAIT;\nmbarrier.arrive.expect_tx.shared.b64 _, [tile], 64;\n\
                mbarrier.complete_tx.shared.b64 [tile], 64;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p1, [tile], 0;\n@!%p1 bra WAIT;\n\
                sub.u32 %r2, 31, %r0;\nmul.lo.u32 %r2, %r2, 4;\nmov.u32 %r3, tile;\nadd.u32 %r3, %r3, %r2;\n\
                ld.shared.u32 %r4, [%r3+16];\nmbarrier.test_wait.shared.b64 %p2, [tile], %rd8;\nselp.u32 %r5, 100, 0, %p2;\n\
                add.u32 %r4, %r4, %r5;\nst.global.u32 [%rd0], %r4;";
    let expected: Vec<u32> = (0..32).map(|t| 31 - t + 9 + 100).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn special_registers() {
    let body = "mov.u32 %r1, %tid.y;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %ctaid.z;\nmov.u32 %r4, %nctaid.z;\nmov.u32 %r5, %laneid;\n\
                mov.u32 %r6, %warpid;\nmov.u32 %r7, %lanemask_lt;\nmov.u32 %r8, %lanemask_ge;\nmov.u32 %r9, %dynamic_smem_size;\n\
                ld.param.u64 %rd4, [other];\nmad.lo.u32 %r10, %r1, %r2, %r0;\nmul.wide.u32 %rd5, %r10, 32;\nadd.u64 %rd4, %rd4, %rd5;\n\
                st.global.v4.u32 [%rd4], {%r3, %r4, %r5, %r6};\nst.global.v4.u32 [%rd4+16], {%r7, %r8, %r9, %r2};";
    let launch =
        LaunchRequest { grid: [1, 1, 2], block: [20, 3, 1], dynamic_shared_bytes: 48, ..LaunchRequest::default() };
    let args = vec![array(&[0u32; 64]), array(&[0u32; 60 * 8])];
    let (out, _) = try_launch(&kernel(body), "k", args, launch).expect("it runs");
    for (thread, row) in (0u32..).zip(values::<u32>(&out[1]).chunks(8)) {
        let lane = thread % 32;
        assert_eq!(row[1..4], [2, lane, thread / 32], "{thread}");
        assert_eq!(row[4..], [(1 << lane) - 1, u32::MAX << lane, 48, 20], "{thread}");
    }
}

#[test]
fn vectors_of_special_registers_and_memory_mapped_accesses() {
    let body = "ld.param.u64 %rd4, [other];\nmov.v4.u32 {%r1, %r2, %r3, %r4}, %tid;\nmov.v4.u32 {%r5, %r6, %r7, %r8}, %ntid;\n\
                st.global.v4.u32 [%rd4], {%r1, %r2, %r3, %r4};\nst.global.v4.u32 [%rd4+16], {%r5, %r6, %r7, %r8};\n\
                ld.mmio.relaxed.sys.global.u32 %r9, [%rd4+20];\nst.mmio.relaxed.sys.global.u32 [%rd4+28], %r9;\n\
                mov.pred %p1, %is_explicit_cluster;\n@%p1 st.global.u32 [%rd4], 7;";
    let launch = LaunchRequest { block: [1, 3, 1], ..LaunchRequest::default() };
    let body = format!("mov.u32 %r1, %tid.y;\nsetp.ne.u32 %p0, %r1, 2;\n@%p0 ret;\n{body}");
    let args = vec![array(&[0u32; 1]), array(&[9u32; 8])];
    let (out, _) = try_launch(&kernel(&body), "k", args, launch).expect("it runs");
    assert_eq!(values::<u32>(&out[1]), [0, 2, 0, 0, 1, 3, 1, 3]);
}

#[test]
fn branch_tables_and_value_parameters() {
    let body = "and.b32 %r1, %r0, 3;\nTARGETS: .branchtargets A, B, C, A;\nbrx.idx %r1, TARGETS;\nA:\nmov.u32 %r2, 10;\nbra DONE;\n\
                B:\nmov.u32 %r2, 20;\nbra DONE;\nC:\nmov.u32 %r2, 30;\nDONE:\nst.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|t| [10, 20, 30, 10][t % 4]).collect();
    assert_eq!(run(32, body), expected);
}

#[test]
fn a_launch_must_fit_the_kernel() {
    let text = ".version 8.0\n.target sm_80\n.visible .entry k(.param .u32 a) .reqntid 64, 1, 1 { .shared .b8 x[40000]; ret; }";
    let refused = |launch: LaunchRequest<'_>, args: Vec<Arg>| {
        let fault = try_launch(text, "k", args, launch).expect_err("it does not fit");
        fault.findings[0].message.clone()
    };
    let fine = LaunchRequest { block: [64, 1, 1], ..LaunchRequest::default() };
    assert_eq!(refused(fine, vec![]), "the kernel has 1 parameters, not 0");
    assert_eq!(refused(fine, vec![value(1u64)]), "parameter 0 (`a`) has 4 bytes, not 8");
    let small = LaunchRequest { block: [32, 1, 1], ..fine };
    assert_eq!(refused(small, vec![value(1u32)]), "the kernel requires blocks of (64, 1, 1), not (32, 1, 1)");
    let large = LaunchRequest { block: [2000, 1, 1], ..fine };
    let message = "a block has at most 1024 threads, (1024, 1024, 64) along its axes, not ";
    assert_eq!(refused(large, vec![value(1u32)]), format!("{message}(2000, 1, 1)"));
    // As many threads as 64 bits count, and none.
    let wrapped = LaunchRequest { block: [1 << 31, 1 << 31, 4], ..fine };
    assert_eq!(refused(wrapped, vec![value(1u32)]), format!("{message}(2147483648, 2147483648, 4)"));
    let high = LaunchRequest { grid: [1, 65536, 1], ..fine };
    let message = "a grid has at most (2147483647, 65535, 65535) blocks along its axes, not (1, 65536, 1)";
    assert_eq!(refused(high, vec![value(1u32)]), message);
}

#[test]
fn copies_arrive_at_mbarriers() {
    let body = "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra READY;\nmbarrier.init.shared.b64 [tile], 32;\nREADY:\nbar.sync 0;\n\
                ld.param.u64 %rd4, [other];\nmul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd4, %rd4, %rd5;\nmov.u32 %r8, tile;\n\
                shl.b32 %r9, %r0, 2;\nadd.u32 %r8, %r8, %r9;\ncp.async.ca.shared.global [%r8+16], [%rd4], 4;\n\
                cp.async.mbarrier.arrive.noinc.shared.b64 [tile];\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p1, [tile], 0;\n\
                @!%p1 bra WAIT;\nmov.u32 %r10, tile;\nsub.u32 %r10, %r10, %r9;\nld.shared.u32 %r1, [%r10+140];\nst.global.u32 [%rd0], %r1;";
    let x: Vec<u32> = (0..32).map(|i| i * i + 1).collect();
    let launch = LaunchRequest { block: [32, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let args = vec![array(&[0u32; 32]), array(&x)];
    let (out, _) = try_launch(&kernel(body), "k", args, launch).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(values::<u32>(&out[0]), x.into_iter().rev().collect::<Vec<_>>());
}
