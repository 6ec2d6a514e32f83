//! Registers and memory of 128 bits, and elements of arrays as operands.

use crate::device::{array, launch, module, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{FindingKind, LaunchRequest, Module, Sanitizers, Simulator};

/// Returns what 32 threads leave in the output, with and without checks.
fn run(head: &str, body: &str) -> Vec<u32> {
    let text = kernel(body).replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    let args = || vec![array(&[0u32; 32]), array(&[0u32; 64])];
    let out = launch(&text, "k", 1, 32, args());
    let checks = LaunchRequest { block: [32, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let (checked, _) = try_launch(&text, "k", args(), checks).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    assert_eq!(out, checked);
    values(&out[0])
}

/// Why a body is refused.
fn refused(body: &str) -> String {
    let loaded = Simulator::default().load(&module(&kernel(body))).expect("it loads");
    loaded.kernel("k").err().unwrap_or_else(|| panic!("{body} is accepted"))[0].message.clone()
}

#[test]
fn halves_and_quarters_of_wide_registers() {
    let body = ".reg .b128 %q<3>;\ncvt.u64.u32 %rd2, %r0;\nmul.lo.u64 %rd3, %rd2, 1000;\nmov.b128 %q0, {%rd2, %rd3};\n\
                mov.b128 %q1, %q0;\nmul.wide.u32 %rd4, %r0, 16;\nmov.u64 %rd5, tile;\nadd.u64 %rd5, %rd5, %rd4;\n\
                st.shared.b128 [%rd5], %q1;\nld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%rd5];\nadd.u32 %r1, %r1, 1;\n\
                mov.b128 %q2, {%r3, %r4, %r1, %r2};\nmov.b128 {%rd6, %rd7}, %q2;\nmov.b128 {_, _, %r5, _}, %q2;\n\
                sub.u64 %rd6, %rd6, %rd7;\ncvt.u32.u64 %r6, %rd6;\nadd.u32 %r6, %r6, %r5;\nst.global.u32 [%rd0], %r6;";
    // 1000 t - (t + 1) + (t + 1)
    assert_eq!(run("", body), (0..32).map(|t| 1000 * t).collect::<Vec<u32>>());
    // Through parameters of functions.
    let head = ".func (.param .b128 r) swap (.param .b128 p) {\n.reg .b128 %q;\n.reg .b64 %x, %y;\nld.param.b128 %q, [p];\n\
                mov.b128 {%x, %y}, %q;\nmov.b128 %q, {%y, %x};\nst.param.b128 [r], %q;\nret;\n}";
    let body = ".reg .b128 %q;\ncvt.u64.u32 %rd2, %r0;\nmov.b128 %q, {%rd2, 7};\n{\n.param .b128 p;\n.param .b128 r;\n\
                st.param.b128 [p], %q;\ncall (r), swap, (p);\nld.param.b128 %q, [r];\n}\nmov.b128 {%rd2, %rd3}, %q;\n\
                mad.lo.u64 %rd2, %rd2, 100, %rd3;\ncvt.u32.u64 %r1, %rd2;\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run(head, body), (700..732).collect::<Vec<u32>>());
}

#[test]
fn wide_values_change_at_once() {
    // All threads of all blocks add (1, 3) to one pair; every pair that is seen is of the form (n, 3 n).
    let text = ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 out, .param .u64 bad) {\n.reg .b64 %o, %b, %x, %y, %z;\n\
                .reg .b128 %old, %new, %seen;\n.reg .pred %p;\nld.param.u64 %o, [out];\nld.param.u64 %b, [bad];\n\
                ld.relaxed.gpu.global.b128 %old, [%o];\nTRY:\nmov.b128 {%x, %y}, %old;\nmul.lo.u64 %z, %x, 3;\nsetp.ne.u64 %p, %z, %y;\n\
                @%p st.global.b64 [%b], 1;\nadd.u64 %x, %x, 1;\nadd.u64 %y, %y, 3;\nmov.b128 %new, {%x, %y};\n\
                atom.global.relaxed.gpu.cas.b128 %seen, [%o], %old, %new;\nmov.b128 {%x, %y}, %old;\nmov.b128 {%z, _}, %seen;\n\
                setp.ne.u64 %p, %x, %z;\nmov.b128 %old, %seen;\n@%p bra TRY;\nret;\n}\n";
    let out = launch(text, "k", 16, 64, vec![array(&[0u64; 2]), array(&[0u64])]);
    assert_eq!(values::<u64>(&out[0]), [1024, 3072]);
    assert_eq!(values::<u64>(&out[1]), [0]);
    // Each thread takes what another left, in both halves: nothing is lost and nothing comes twice.
    let body = ".reg .b128 %q, %old;\nld.param.u64 %rd4, [other];\nadd.u32 %r1, %r0, 1;\ncvt.u64.u32 %rd2, %r1;\n\
                shl.b64 %rd3, %rd2, 40;\nmov.b128 %q, {%rd2, %rd3};\natom.global.exch.b128 %old, [%rd4], %q;\n\
                mov.b128 {%rd5, %rd6}, %old;\nshr.u64 %rd6, %rd6, 40;\nadd.u64 %rd5, %rd5, %rd6;\ncvt.u32.u64 %r2, %rd5;\n\
                bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\nst.global.u32 [%rd0], %r2;\n@%p0 ret;\nld.global.b128 %old, [%rd4];\n\
                mov.b128 {%rd5, %rd6}, %old;\nst.global.b64 [%rd4+16], %rd5;";
    let out = launch(&kernel(body), "k", 1, 32, vec![array(&[0u32; 32]), array(&[0u64; 8])]);
    let mut taken: Vec<u32> = values(&out[0]);
    taken.push(2 * values::<u32>(&out[1])[4]);
    taken.sort_unstable();
    assert_eq!(taken, (0..33).map(|t| 2 * t).collect::<Vec<u32>>());
}

#[test]
fn wide_accesses_are_checked() {
    let fault = |body: &str| {
        let text = kernel(&format!(".reg .b128 %q;\nld.param.u64 %rd4, [other];\n{body}"));
        let launch = LaunchRequest { sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
        let fault = try_launch(&text, "k", vec![array(&[0u32; 4]), array(&[0u32; 8])], launch).expect_err("a fault");
        fault.findings[0].kind
    };
    assert_eq!(fault("ld.global.b128 %q, [%rd4+32];"), FindingKind::OutOfBounds);
    assert_eq!(fault("ld.global.b128 %q, [%rd4+8];"), FindingKind::Misaligned);
    assert_eq!(fault("mov.b128 %q, 1;\natom.global.exch.b128 %q, [%rd4+24], %q;"), FindingKind::Misaligned);
    assert_eq!(fault("ld.shared.b128 %q, [tile];\nmov.b128 {%rd5, _}, %q;"), FindingKind::Uninitialised);
    for (body, message) in [
        ("mov.b64 %rd2, %q;", "`%q` has 128 bits, an operand of type `.b64` has 64"),
        ("mov.b128 %q, %rd2;", "`%rd2` has 64 bits, an operand of type `.b128` has 128"),
        ("mov.b128 %q, {%r0, %r1};", "`%r0` has 32 bits, an operand of type `.b64` has 64"),
        ("ld.global.b128 %rd2, [%rd0];", "`%rd2` has 64 bits, an operand of type `.b128` has 128"),
        ("ld.global.v2.b128 {%q, %q}, [%rd0];", "2 registers of `.b128` are too many"),
        ("xor.b128 %q, %q, %q;", "`xor` has no type `.b128`"),
        ("atom.global.and.b128 %q, [%rd0], %q;", "`and` has no type `.b128`"),
        ("red.global.exch.b128 [%rd0], %q;", "`red.exch` has no type `.b128`"),
    ] {
        assert_eq!(refused(&format!(".reg .b128 %q;\n{body}")), message, "{body}");
    }
    let taken = ".func f (.reg .b128 %q) {\nret;\n}";
    let text = kernel("call f, (%r0);").replacen(".visible", &format!("{taken}\n.visible"), 1);
    let loaded = Simulator::default().load(&module(&text)).expect("it loads");
    let errors = loaded.kernel("k").err().expect("it is refused");
    assert_eq!(errors[0].message, "128 bits are passed in `.param`, not in a register");
}

#[test]
fn elements_of_arrays_are_operands() {
    let head = ".global .align 4 .b32 grid[3][4] = {{10, 11, 12, 13}, {20, 21, 22, 23}, {30, 31, 32, 33}};\n\
                .const .align 2 .b16 halves[3] = {7, 8, 9};";
    // The ISA manual's examples, `mov.u32 s, a[1]` and `ld.global.u32 s, a[N-1]`.
    let body = "mov.u64 %rd2, grid[5];\nld.global.u32 %r1, [%rd2];\nld.global.u32 %r2, grid[12-1];\nadd.u32 %r1, %r1, %r2;\n\
                ld.const.u16 %h0, halves[2];\ncvt.u32.u16 %r3, %h0;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run(head, body), [21 + 33 + 9; 32]);
    // An index in a register, of 32 and of 64 bits, in shared and local memory.
    let body = ".shared .align 4 .b32 words[40];\n.local .align 8 .b64 mine[4];\nst.shared.u32 words[%r0+2], %r0;\nbar.sync 0;\n\
                sub.u32 %r1, 31, %r0;\ncvt.u64.u32 %rd2, %r1;\nld.shared.u32 %r2, words[%rd2+2];\nst.local.b64 mine[2], %rd2;\n\
                mov.u32 %r3, 2;\nmov.u64 %rd3, mine[%r3];\nld.local.b64 %rd4, [%rd3];\ncvt.u32.u64 %r4, %rd4;\n\
                cvta.shared.u64 %rd5, words[2];\nld.u32 %r5, [%rd5+4];\nmov.u32 %r6, words[3];\nld.shared.u32 %r7, [%r6];\n\
                mad.lo.u32 %r2, %r2, 100, %r4;\nmad.lo.u32 %r2, %r5, 10000, %r2;\nmad.lo.u32 %r2, %r7, 20000, %r2;\n\
                st.global.u32 [%rd0], %r2;";
    assert_eq!(run("", body), (0..32).map(|t| 30000 + (31 - t) * 101).collect::<Vec<u32>>());
    for (body, message) in [
        ("mov.u64 %rd2, %rd1[2];", "`%rd1` is no array"),
        ("ld.param.u64 %rd2, out[0];", "`out` is no array"),
        ("ld.shared.u32 %r1, nothing[0];", "`nothing` is no array"),
        ("ld.global.u32 %r1, tile[3];", "`tile` is in `.shared`, not in `.global`"),
        ("ld.shared.u32 %r1, tile[%h0];", "`%h0` is no index: that is a register of 32 or 64 bits"),
        ("atom.shared.add.u32 %r1, tile[3], 1;", "`tile[3]` is no address"),
        ("add.u64 %rd2, %rd2, tile[3];", "`tile[3]` is no operand here"),
    ] {
        assert_eq!(refused(body), message, "{body}");
    }
    let text = kernel("ld.shared.u8 %h0, tile[%r0-1];\nld.shared.u8 %h0, tile[%r0];\nld.shared.u8 %h0, tile[2+3];");
    let printed = module(&text).to_string();
    for operand in ["tile[%r0-1]", "tile[%r0]", "tile[5]"] {
        assert!(printed.contains(operand), "{printed}");
    }
    assert_eq!(Module::parse(&printed).expect("it parses").to_string(), printed);
}
