//! Variables, functions and calls in the forms the ISA manual shows.

use crate::device::{array, launch, module, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{LaunchRequest, Module, Simulator};

fn run(head: &str, body: &str) -> Vec<u32> {
    let text = kernel(body).replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    values(&launch(&text, "k", 1, 32, vec![array(&[0u32; 32]), array(&[0u32; 32])])[0])
}

#[test]
fn functions_of_register_parameters() {
    // The ISA manual's example of a function, with a predicate besides.
    let head = ".func (.reg .u32 %res) inc_ptr (.reg .u32 %ptr, .reg .u32 %inc, .reg .pred %twice) {\n\
                add.u32 %res, %ptr, %inc;\n@%twice add.u32 %res, %res, %inc;\nret;\n}";
    let body = "and.b32 %r2, %r0, 1;\nsetp.eq.u32 %p0, %r2, 0;\ncall (%r1), inc_ptr, (%r0, 4, %p0);\nst.global.u32 [%rd0], %r1;";
    let expected: Vec<u32> = (0..32).map(|t| t + if t % 2 == 0 { 8 } else { 4 }).collect();
    assert_eq!(run(head, body), expected);
}

#[test]
fn functions_of_memory_parameters() {
    // A struct of a byte, a word and two doubles, taken and given back in `.param` space.
    let head = ".func (.param .align 8 .b8 out[24]) swap (.param .align 8 .b8 in[24]) {\n.reg .b32 %x;\n.reg .b64 %y, %z;\n\
                ld.param.u8 %x, [in];\nst.param.b8 [out], %x;\nld.param.b32 %x, [in+4];\nadd.u32 %x, %x, 1;\nst.param.b32 [out+4], %x;\n\
                ld.param.b64 %y, [in+8];\nld.param.b64 %z, [in+16];\nst.param.b64 [out+8], %z;\nst.param.b64 [out+16], %y;\nret;\n}";
    let body = "{\n.param .align 8 .b8 a[24];\n.param .align 8 .b8 r[24];\nst.param.b8 [a], 7;\nst.param.b32 [a+4], %r0;\n\
                st.param.b64 [a+8], 100;\nst.param.b64 [a+16], 2000;\ncall.uni (r), swap, (a);\nld.param.u8 %r1, [r];\n\
                ld.param.b32 %r2, [r+4];\nld.param.b64 %rd5, [r+8];\nld.param.b64 %rd6, [r+16];\n}\nmul.lo.u64 %rd5, %rd5, 2;\n\
                add.u64 %rd5, %rd5, %rd6;\ncvt.u32.u64 %r3, %rd5;\nadd.u32 %r3, %r3, %r2;\nadd.u32 %r3, %r3, %r1;\nst.global.u32 [%rd0], %r3;";
    let expected: Vec<u32> = (0..32).map(|t| 2 * 2000 + 100 + t + 1 + 7).collect();
    assert_eq!(run(head, body), expected);
}

#[test]
fn lanes_call_different_functions() {
    let head = ".func (.param .b32 r) one (.param .b32 a) {\n.reg .b32 %x;\nld.param.b32 %x, [a];\nadd.u32 %x, %x, 1;\nst.param.b32 [r], %x;\nret;\n}\n\
                .func (.param .b32 r) two (.param .b32 a) {\n.reg .b32 %x;\nld.param.b32 %x, [a];\nmul.lo.u32 %x, %x, 10;\n\
                st.param.b32 [r], %x;\nret;\n}\n.global .u64 functions[2] = {one, two};";
    let body = "and.b32 %r1, %r0, 1;\nmul.wide.u32 %rd5, %r1, 8;\nmov.u64 %rd6, functions;\nadd.u64 %rd6, %rd6, %rd5;\n\
                ld.global.u64 %rd7, [%rd6];\n{\n.param .b32 a;\n.param .b32 r;\nst.param.b32 [a], %r0;\n\
                P: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (r), %rd7, (a), P;\nld.param.b32 %r2, [r];\n}\n\
                st.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|t| if t % 2 == 0 { t + 1 } else { t * 10 }).collect();
    assert_eq!(run(head, body), expected);
}

#[test]
fn variables_and_their_initial_values() {
    let head = ".const .align 4 .b8 bytes[8] = {1, 2, 3, 4, 0xff};\n.const .f32 scale = 2.5;\n.global .align 8 .u16 grid[2][3] = {{1, 2}, {3, 4, 5}};\n\
                .global .u64 address = grid;\n.global .s32 negative = -(3 + 4) * 2;\n.global .align 4 .b32 zeros[4];";
    let body = "ld.const.u8 %r1, [bytes+4];\nld.const.u8 %r2, [bytes+7];\nadd.u32 %r1, %r1, %r2;\nld.const.f32 %r3, [scale];\n\
                cvt.rni.u32.f32 %r3, %r3;\nadd.u32 %r1, %r1, %r3;\nld.global.u64 %rd5, [address];\nld.global.u16 %h0, [%rd5+6];\n\
                ld.u16 %h1, [%rd5+4];\ncvt.u32.u16 %r4, %h0;\ncvt.u32.u16 %r5, %h1;\nshl.b32 %r4, %r4, 10;\nadd.u32 %r1, %r1, %r4;\n\
                add.u32 %r1, %r1, %r5;\nld.global.s32 %r6, [negative];\nadd.s32 %r1, %r1, %r6;\nld.global.b32 %r7, [zeros+12];\n\
                add.u32 %r1, %r1, %r7;\nst.global.u32 [%rd0], %r1;";
    // 255 + 0 + 2 (2.5 to even) + 3 << 10 + 0 - 14 + 0
    assert_eq!(run(head, body), [255 + 2 + 3 * 1024 - 14; 32]);
}

#[test]
fn bytes_of_addresses_are_initial_values() {
    // As LLVM writes a packed struct of a byte and a pointer: the pointer byte by byte.
    let masked: Vec<String> = (0..8).map(|byte| format!("0x{:X}(generic(word)+4)", 0xffu64 << (8 * byte))).collect();
    let head =
        format!(".global .align 4 .b32 word[2] = {{5, 77}};\n.global .b8 packed[9] = {{1, {}}};", masked.join(", "));
    let load: String = (0..8)
        .map(|byte| {
            format!(
                "ld.global.u8 %rd6, [packed+{}];\nshl.b64 %rd6, %rd6, {};\nor.b64 %rd5, %rd5, %rd6;\n",
                byte + 1,
                8 * byte
            )
        })
        .collect();
    let body = format!("mov.u64 %rd5, 0;\n{load}ld.u32 %r1, [%rd5];\nst.global.u32 [%rd0], %r1;");
    assert_eq!(run(&head, &body), [77; 32]);
    let text = kernel("").replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    let printed = module(&text).to_string();
    assert_eq!(module(&printed).to_string(), printed);
    assert!(printed.contains("0xff00(generic(word)+4)"), "{printed}");
}

#[test]
fn vectors_of_registers() {
    let body = ".reg .v4 .b32 %v;\nmov.b32 %v.x, %r0;\nmov.b32 %v.y, 2;\nmov.b32 %v.z, 3;\nmov.b32 %v.w, 4;\nld.param.u64 %rd4, [other];\n\
                setp.ne.u32 %p0, %r0, 5;\n@%p0 ret;\nst.global.v4.b32 [%rd4], %v;\n.reg .v2 .b32 %u;\nld.global.v2.b32 %u, [%rd4+8];\n\
                add.u32 %r1, %u.x, %u.y;\nst.global.u32 [%rd0], %r1;";
    let mut expected = vec![0; 32];
    expected[5] = 7;
    assert_eq!(run("", body), expected);
}

#[test]
fn calls_return_to_where_they_came_from() {
    // For each two calls each, paths of calls are thousands, and frames are used again.
    let head = ".func (.reg .u32 %f) fib (.reg .u32 %n) {\n.reg .u32 %a, %b;\n.reg .pred %p;\nmov.u32 %f, %n;\n\
                setp.lt.u32 %p, %n, 2;\n@%p ret;\nsub.u32 %a, %n, 1;\ncall (%b), fib, (%a);\nsub.u32 %a, %n, 2;\n\
                call (%f), fib, (%a);\nadd.u32 %f, %f, %b;\nret;\n}";
    let body = "and.b32 %r1, %r0, 3;\nadd.u32 %r1, %r1, 15;\ncall (%r2), fib, (%r1);\nst.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|t| [610, 987, 1597, 2584][t % 4]).collect();
    assert_eq!(run(head, body), expected);
}

#[test]
fn offsets_before_a_variable_wrap_and_are_refused_outside_of_it() {
    // An address may be counted from before a variable; an access may not be there.
    let body = ".local .align 4 .b32 mine[4];\nst.local.u32 [mine+4], %r0;\nmov.u64 %rd5, mine+-16;\ncvta.local.u64 %rd5, %rd5;\n\
                ld.u32 %r1, [%rd5+20];\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run("", body), (0..32).collect::<Vec<u32>>());
    let head = ".func (.param .b32 r) f (.param .b32 p) {\n.reg .b32 %x;\nld.param.b32 %x, [p+-8];\nst.param.b32 [r], %x;\nret;\n}";
    let body = "{\n.param .b32 p;\n.param .b32 r;\nst.param.b32 [p], 7;\ncall (r), f, (p);\nld.param.b32 %r1, [r];\n}";
    let text = kernel(body).replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    let simulator = Simulator::default();
    let errors = simulator.load(&module(&text)).expect("it loads").kernel("k").err().expect("it is refused");
    assert_eq!(errors[0].message, "`p` has 4 bytes, byte -8 is none of them");
}

#[test]
fn memory_has_an_end() {
    let simulator = Simulator::default();
    // What no launch touches is not the host's to give, and what the device does not have nobody's.
    let huge = 256 << 30;
    assert_eq!(simulator.memory().alloc(huge, 4), Err(polyloom_ptx::MemoryError::OutOfMemory(huge)));
    let head: String = (0..40).map(|index| format!(".global .b8 x{index}[2147483647];\n")).collect();
    let text = kernel("").replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    assert!(matches!(simulator.load(&module(&text)), Err(polyloom_ptx::LoadError::Memory(_))));
    let fewer = kernel("").replacen(".visible .entry", ".global .b8 x[2147483647];\n.visible .entry", 1);
    assert!(simulator.load(&module(&fewer)).is_ok());
}

#[test]
fn a_heap_that_could_not_be_had_is_asked_for_again() {
    let body = "{\n.param .b64 n;\n.param .b64 r;\nst.param.b64 [n], 4;\ncall (r), malloc, (n);\n\
                ld.param.b64 %rd5, [r];\n}\nst.global.u64 [%rd0], %rd5;";
    let head = ".extern .func (.param .b64 r) malloc (.param .b64 n);";
    let text = kernel(body).replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    let simulator = Simulator::default();
    let kernel =
        simulator.load(&module(&text)).expect("it loads").kernel("k").unwrap_or_else(|error| panic!("{error:?}"));
    let memory = simulator.memory();
    let out = memory.alloc(8, 8).expect("memory");
    let params = [out.to_le_bytes().to_vec(), out.to_le_bytes().to_vec()];
    let block = || {
        kernel
            .launch(&LaunchRequest { arch: 90, params: &params, ..LaunchRequest::default() })
            .unwrap_or_else(|fault| panic!("{fault}"));
        let mut address = [0; 8];
        memory.read(out, &mut address).expect("inside");
        u64::from_le_bytes(address)
    };
    // The host gives none of it, since nothing touches it; a heap takes 64 MiB of addresses.
    let sizes = std::iter::repeat_n(1 << 30, 64).chain(std::iter::repeat_n(32 << 20, 32));
    let taken: Vec<u64> = sizes.filter_map(|size| memory.alloc(size, 256).ok()).collect();
    assert_eq!(block(), 0);
    taken.iter().for_each(|address| memory.free(*address).expect("allocated"));
    assert_ne!(block(), 0);
}

#[test]
fn parameters_of_kernels_are_not_written() {
    let launch = LaunchRequest::default();
    let body = "mov.u64 %rd5, out;\ncvta.param.u64 %rd5, %rd5;\nst.u32 [%rd5], 1;";
    let fault =
        try_launch(&kernel(body), "k", vec![array(&[0u32; 1]), array(&[0u32; 1])], launch).expect_err("a fault");
    assert_eq!(fault.findings[0].kind, polyloom_ptx::FindingKind::OutOfBounds);
    assert!(fault.findings[0].message.starts_with("a parameter of the kernel, at 0x"), "{fault}");
}

#[test]
fn modules_run_on_what_they_are_for() {
    let refusal = |target: &str, arch: u32| {
        let text = format!(".version 8.8\n.target {target}\n.visible .entry k() {{\nret;\n}}");
        let loaded = Simulator::default().load(&module(&text)).expect("it loads");
        let launch = LaunchRequest { arch, ..LaunchRequest::default() };
        let fault = loaded.kernel("k").expect("it decodes").launch(&launch).err()?;
        Some(fault.findings[0].message.clone())
    };
    // Later devices run what is for no device in particular; `a` runs on one, `f` on a family.
    for (target, arch) in [("sm_52", 75), ("sm_80", 80), ("sm_80", 121), ("sm_90a", 90), ("sm_100f", 103)] {
        assert_eq!(refusal(target, arch), None, "{target} on {arch}");
    }
    for (target, arch) in [("sm_90", 89), ("sm_90a", 75), ("sm_90a", 100), ("sm_100f", 110), ("sm_103f", 100)] {
        let message = format!("the module is for {target}, the device is sm_{arch}");
        assert_eq!(refusal(target, arch), Some(message));
    }
}

#[test]
fn wrong_instructions_are_named_with_their_places() {
    let simulator = Simulator::default();
    let body = "add.u32 %r1, %r2;\nadd.u32 %rd1, %r2, %r3;\nmul.u32 %r1, %r2, %r3;\nfrob.b32 %r1, %r2;\nadd.f32.quick %r1, %r2, %r3;\n\
                mov.b32 %r1, %nothing;\nbra NOWHERE;\nst.param.b32 [out], %r1;\nld.global.b32 %r1, [tile];\nadd.u32 5, %r1, %r2;";
    let errors = simulator.load(&module(&kernel(body))).expect("it loads").kernel("k").err().expect("it is refused");
    let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`add` takes 3 operands, not 2",
            "`%rd1` has 64 bits, an operand of type `.u32` has 32",
            "an integer product needs `.lo`, `.hi` or `.wide`",
            "the simulator has no instruction `frob`",
            "the simulator has no `.quick` for `add`",
            "`%nothing` is not declared",
            "`.param` cannot be written",
            "`tile` is in `.shared`, not in `.global`",
            "`5` is no register to write to",
            "there is no label `NOWHERE`",
        ]
    );
    assert_eq!(errors[0].position.line, 11);
}

#[test]
fn modifiers_an_instruction_does_not_have_are_refused() {
    let refused = |instruction: &str| {
        let simulator = Simulator::default();
        let loaded = simulator.load(&module(&kernel(instruction))).expect("it loads");
        loaded.kernel("k").err().unwrap_or_else(|| panic!("{instruction} is accepted"))[0].message.clone()
    };
    for (instruction, message) in [
        ("add.sat.u32 %r1, %r2, %r3;", "`add` has no `.sat` with `.u32`"),
        ("mad.lo.sat.s32 %r1, %r2, %r3, %r4;", "`mad` has no `.sat` with `.s32`"),
        ("add.lo.u32 %r1, %r2, %r3;", "the simulator has no `.lo` for `add`"),
        ("min.cc.u32 %r1, %r2, %r3;", "the simulator has no `.cc` for `min`"),
        ("div.approx.f64 %rd1, %rd2, %rd3;", "`div` has no type `.f64`"),
        ("add.approx.f32 %r1, %r2, %r3;", "the simulator has no `.approx` for `add`"),
        ("add.sat.f64 %rd1, %rd2, %rd3;", "the simulator has no `.sat` for `add`"),
        ("div.rn.sat.f32 %r1, %r2, %r3;", "the simulator has no `.sat` for `div`"),
        ("min.rn.f32 %r1, %r2, %r3;", "the simulator has no `.rn` for `min`"),
        ("add.NaN.f32 %r1, %r2, %r3;", "the simulator has no `.NaN` for `add`"),
        ("fence.proxy.alias.quick;", "the simulator has no `.quick` for `fence`"),
        ("fence.mbarrier_init.release.gpu;", "`fence.mbarrier_init` needs `.release.cluster`"),
        ("barrier.cluster.wait.quick;", "the simulator has no `.quick` for `barrier`"),
        (
            "movmatrix.sync.aligned.m8n8.b16 %r1, %r2;",
            "the simulator has `movmatrix.sync.aligned.m8n8.trans.b16` alone",
        ),
        ("createpolicy.L3.b64 %rd1, 1.0;", "the simulator has no `.L3` for `createpolicy`"),
        ("prefetch.global.L4 [%rd0];", "the simulator has no `.L4` for `prefetch`"),
        ("griddepcontrol.pause;", "the simulator has no `.pause` for `griddepcontrol`"),
    ] {
        assert_eq!(refused(instruction), message, "{instruction}");
    }
    // As the ISA manual spells them.
    let fine = "fence.proxy.alias;\nfence.proxy.async.shared::cta;\nfence.proxy.tensormap::generic.release.gpu;\n\
                fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\ncreatepolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd5, 1.0;\n\
                prefetch.global.L2 [%rd0];\nprefetch.global.L2::evict_last [%rd0];\nprefetchu.L1 [%rd0];\n\
                discard.global.L2 [%rd0], 128;\napplypriority.global.L2::evict_normal [%rd0], 128;\ngriddepcontrol.wait;\npmevent 1;\n\
                pmevent.mask 3;\nst.global.u32 [%rd0], 1;";
    assert_eq!(run("", fine), [1; 32]);
}

#[test]
fn constants_are_not_written() {
    let text = kernel("cvta.const.u64 %rd5, table;\nst.u32 [%rd5], 1;").replacen(
        ".visible",
        ".const .u32 table = 5;\n.visible",
        1,
    );
    let fault =
        try_launch(&text, "k", vec![array(&[0u32]), array(&[0u32])], LaunchRequest::default()).expect_err("a fault");
    assert!(fault.findings[0].message.starts_with("constant memory at 0x7f"), "{fault}");
}

#[test]
fn more_registers_than_there_is_memory_for_are_refused() {
    let text =
        |count: u64| kernel("st.global.u32 [%rd0], 1;").replacen("%h<8>", &format!("%h<8>; .reg .b64 %x<{count}>"), 1);
    for (count, message) in
        [(2_000_000_000u64, "more than 1048576 registers"), (4_294_967_295, "more than 1048576 registers")]
    {
        let loaded = Simulator::default().load(&module(&text(count))).expect("it loads");
        let errors = loaded.kernel("k").err().expect("it is refused");
        assert_eq!((errors[0].message.as_str(), errors[0].position.line), (message, 5), "{count}");
    }
    // 2^20 registers of 8 bytes for each of 1024 threads are 8 GiB; for one warp they are there.
    let args = || vec![array(&[0u32; 1024]), array(&[0u32; 1])];
    let launch = LaunchRequest { block: [1024, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(&text(1_000_000), "k", args(), launch).expect_err("too many");
    assert_eq!(fault.findings[0].kind, polyloom_ptx::FindingKind::InvalidLaunch);
    assert!(fault.findings[0].message.ends_with("bytes of the host, at most 1073741824"), "{fault}");
    assert!(try_launch(&text(1_000_000), "k", args(), LaunchRequest::default()).is_ok());
}

#[test]
fn frames_of_calls_are_freed() {
    // Each call has a kilobyte of registers and 16 bytes of local memory a thread; a thousand deep, a hundred times,
    // they would be 3 GiB and 50 MiB if any of them stayed.
    let head = ".func (.param .b32 r) down (.param .b32 n) {\n.reg .b64 %wide<128>;\n.reg .b32 %x;\n.reg .pred %p;\n.local .align 8 .b64 mine;\n\
                ld.param.b32 %x, [n];\nsetp.eq.u32 %p, %x, 0;\n@%p bra END;\nsub.u32 %x, %x, 1;\n{\n.param .b32 a;\n.param .b32 b;\n\
                st.param.b32 [a], %x;\ncall (b), down, (a);\nld.param.b32 %x, [b];\n}\nadd.u32 %x, %x, 1;\nEND:\nst.param.b32 [r], %x;\nret;\n}";
    let body = "mov.u32 %r3, 0;\nmov.u32 %r4, 0;\nAGAIN:\n{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], 1000;\ncall (b), down, (a);\n\
                ld.param.b32 %r2, [b];\n}\nadd.u32 %r4, %r4, %r2;\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p0, %r3, 100;\n@%p0 bra AGAIN;\n\
                st.global.u32 [%rd0], %r4;";
    let before = resident_bytes();
    assert_eq!(run(head, body), [100_000; 32]);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes stayed");
}

/// Memory of this process, where the host says; otherwise none.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Variables that no kernel uses do not stand in the way of those that do without.
#[test]
fn textures_are_no_obstacle() {
    let text = |body: &str| {
        format!(
            ".version 8.0\n.target sm_80, texmode_independent\n.address_size 64\n.global .texref t, many[4];\n\
             .global .samplerref s = {{ addr_mode_0 = clamp_to_edge, filter_mode = nearest }};\n.global .surfref u;\n\
             .global .attribute(.unified(19, 95)) .f32 f;\n.func .attribute(.unified(0xAB, 0xCD)) g() {{ ret; }}\n\
             .visible .entry k(.param .u64 out) {{\n.reg .b64 %rd<2>;\nld.param.u64 %rd0, [out];\n{body}ret;\n}}\n"
        )
    };
    let out = launch(&text("st.global.u32 [%rd0], 5;\n"), "k", 1, 1, vec![array(&[0u32])]);
    assert_eq!(values::<u32>(&out[0]), [5]);
    let printed = module(&text("")).to_string();
    assert_eq!(module(&printed).to_string(), printed);
    let loaded = Simulator::default().load(&module(&text("mov.u64 %rd1, t;\n"))).expect("it loads");
    let errors = loaded.kernel("k").err().expect("it uses a texture");
    let message = "`t` is a variable of a texture: the simulator has textures and surfaces by handles in registers";
    assert_eq!(errors[0].message, message);
}

/// Functions have variables of their own, whatever their names.
#[test]
fn variables_of_functions() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .global .u32 x[];\n.visible .global .u32 x[2] = {1, 2};\n\
                .func f(.reg .b64 %o) {\n.reg .b32 %a; .global .u32 x = 3; ld.global.u32 %a, [x]; st.global.u32 [%o+4], %a; ret;\n}\n\
                .func g(.reg .b64 %o) {\n.reg .b32 %a; .global .u32 x = 4; ld.global.u32 %a, [x]; st.global.u32 [%o+8], %a; ret;\n}\n\
                .visible .entry k(.param .u64 out) {\n.reg .b64 %o; .reg .b32 %a;\nld.param.u64 %o, [out];\n\
                ld.global.u32 %a, [x+4];\nst.global.u32 [%o], %a;\ncall f, (%o);\ncall g, (%o);\nret;\n}\n";
    let out = launch(text, "k", 1, 1, vec![array(&[0u32; 3])]);
    assert_eq!(values::<u32>(&out[0]), [2, 3, 4]);
}

#[test]
fn vectors_are_moved() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {\n.reg .b64 %o;\n\
                .reg .v2 .u32 v, w; .reg .b32 %a, %b; .reg .b16 %h<4>; .reg .v4 .f32 f; .reg .v2 .b64 d; .reg .pred p, q;\n\
                .reg .b32 %c, %d;\nld.param.u64 %o, [out];\n\
                mov.v2.u32 v, {1, 2};\nmov.v2.u32 w, v;\nst.global.v2.u32 [%o], w;\n\
                mov.v2.u32 {%a, %b}, v;\nmov.v2.u32 {%a, %b}, {%b, %a};\nst.global.v2.u32 [%o+8], {%a, %b};\n\
                mov.v2.u32 {_, %b}, 7;\nst.global.u32 [%o+16], %b;\nmov.v4.f32 f, {.5, 2., 1.0+2.0, 0f3f800000};\n\
                st.global.f32 [%o+20], f.z;\nmov.v2.b64 d, {5, 6};\nst.global.u64 [%o+24], d.y;\n\
                mov.v4.u16 {%h0, %h1, %h2, %h3}, %ntid;\nst.global.v4.u16 [%o+32], {%h0, %h1, %h2, %h3};\n\
                mov.u16 %h0, %nctaid.x;\nst.global.u16 [%o+40], %h0;\nmov.u16 %h0, %tid.w;\nst.global.u16 [%o+42], %h0;\n\
                mov.u32 %a, 0;\nisspacep.shared p, %a;\nisspacep.global q, %a;\nselp.u32 %c, 1, 0, p;\nselp.u32 %d, 1, 0, q;\n\
                st.global.v2.u32 [%o+48], {%c, %d};\nret;\n}\n";
    let launch = LaunchRequest { grid: [3, 1, 1], block: [1, 1, 1], ..LaunchRequest::default() };
    let (out, _) = try_launch(text, "k", vec![array(&[0u32; 14])], launch).expect("it runs");
    let expected = [1, 2, 2, 1, 7, 3f32.to_bits(), 6, 0, 0x0001_0001, 1, 3, 0, 0, 1];
    assert_eq!(values::<u32>(&out[0]), expected);
}

/// Strings are cut off and padded as C does.
#[test]
fn strings_are_printed_in_their_width() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n\
                .global .align 1 .b8 format[22] = {37, 46, 50, 115, 124, 37, 54, 46, 51, 115, 124, 37, 45, 53, 115, 124, 37, 115, 10, 0};\n\
                .global .align 1 .b8 word[5] = {84, 114, 117, 101, 0};\n\
                .visible .entry k() {\n.local .align 8 .b8 values[32]; .reg .b64 %a, %w; .reg .b64 %f;\n\
                mov.u64 %w, word;\ncvta.global.u64 %w, %w;\nst.local.u64 [values], %w;\nst.local.u64 [values+8], %w;\n\
                st.local.u64 [values+16], %w;\nst.local.u64 [values+24], %w;\nmov.u64 %a, values;\ncvta.local.u64 %a, %a;\n\
                mov.u64 %f, format;\ncvta.global.u64 %f, %f;\n{\n.param .b64 f; .param .b64 a; .param .b32 r;\n\
                st.param.b64 [f], %f;\nst.param.b64 [a], %a;\ncall.uni (r), vprintf, (f, a);\n}\nret;\n}\n";
    let printed = std::sync::Mutex::new(String::new());
    let print = |text: &str| printed.lock().expect("no panics").push_str(text);
    try_launch(text, "k", vec![], LaunchRequest { print: &print, ..LaunchRequest::default() }).expect("it runs");
    // `%.2s|%6.3s|%-5s|%s`
    assert_eq!(printed.into_inner().expect("no panics"), "Tr|   Tru|True |True\n");
}

/// Returns what loading and decoding a kernel with this head and body says.
fn refused(head: &str, body: &str) -> Vec<String> {
    let text = kernel(body).replacen(".visible .entry", &format!("{head}\n.visible .entry"), 1);
    let module = match Module::parse(&text) {
        Ok(module) => module,
        Err(errors) => return errors.into_iter().map(|error| error.message).collect(),
    };
    let loaded = Simulator::default().load(&module).expect("it loads");
    loaded.kernel("k").err().expect("it is refused").into_iter().map(|error| error.message).collect()
}

#[test]
fn vectors_have_two_or_four_elements() {
    let eight = "mov.v8.u16 {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}, {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7};";
    assert_eq!(refused("", eight), ["the simulator has no `.v8` for `mov`"]);
    assert_eq!(refused("", ".reg .v8 .b16 %v;"), ["a variable has one type, not both `.v8` and `.b16`"]);
    assert_eq!(refused("", ".reg .b32 .b16 %v;"), ["a variable has one type, not both `.b32` and `.b16`"]);
}

#[test]
fn functions_of_vectors() {
    // Of words and of halves, as parameters and as results.
    let head = ".func (.reg .v2 .u32 o) swap (.reg .v2 .u32 i, .reg .u32 more) {\nadd.u32 o.x, i.y, more;\nmov.u32 o.y, i.x;\nret;\n}\n\
                .func (.reg .b16 o) last (.reg .v4 .b16 i) {\nmov.b16 o, i.w;\nret;\n}";
    let body = ".reg .v2 .u32 %v<3>;\n.reg .v4 .b16 %w;\nmov.u32 %v1.x, %r0;\nmov.u32 %v1.y, 100;\ncall (%v2), swap, (%v1, 7);\n\
                mul.lo.u32 %r1, %v2.x, 1000;\nadd.u32 %r1, %r1, %v2.y;\nmov.b16 %w.x, 1;\nmov.b16 %w.y, 2;\nmov.b16 %w.z, 3;\n\
                mov.b16 %w.w, 4;\ncall (%h1), last, (%w);\ncvt.u32.u16 %r2, %h1;\nmul.lo.u32 %r2, %r2, 1000000;\n\
                add.u32 %r1, %r1, %r2;\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run(head, body), (0..32).map(|t| 4_107_000 + t).collect::<Vec<u32>>());
    let wants = |call: &str| refused(head, &format!(".reg .v2 .u32 %v;\n.reg .v4 .b16 %w;\n{call}")).join("\n");
    assert_eq!(wants("call (%v), swap, (%r1, 7);"), "`%r1` is no vector of 2 registers");
    assert_eq!(wants("call (%v), swap, (%w, 7);"), "`%w` is no vector of 2 registers");
    assert_eq!(wants("call (%v), swap, (%v, %v);"), "`%v` is a vector, the function wants no such");
}

#[test]
fn functions_of_halves() {
    let head = ".func (.reg .b16 o) twice (.reg .b16 i) {\nadd.u16 o, i, i;\nret;\n}\n\
                .func (.reg .f16 o) negative (.reg .f16 i) {\nneg.f16 o, i;\nret;\n}";
    let body = ".reg .f16 %fh<2>;\ncvt.u16.u32 %h1, %r0;\nadd.u16 %h1, %h1, 40000;\ncall (%h2), twice, (%h1);\n\
                call (%h3), twice, (5);\nmov.b16 %fh1, 0x3c00;\ncall (%fh1), negative, (%fh1);\nmov.b16 %h4, %fh1;\n\
                cvt.u32.u16 %r1, %h2;\ncvt.u32.u16 %r2, %h3;\ncvt.u32.u16 %r3, %h4;\nadd.u32 %r1, %r1, %r2;\nshl.b32 %r3, %r3, 16;\n\
                or.b32 %r1, %r1, %r3;\nst.global.u32 [%rd0], %r1;";
    assert_eq!(run(head, body), (0..32).map(|t| 0xbc00 << 16 | (80000 - 65536 + 2 * t + 10)).collect::<Vec<u32>>());
    assert_eq!(refused(head, "call (%r1), twice, (%h1);"), ["`%r1` has 32 bits, an operand of type `.b16` has 16"]);
}

#[test]
fn what_is_passed_has_the_parameters_size() {
    let head = ".func f (.param .align 8 .b8 i[24]) {\nret;\n}\n.func g (.param .b32 i) {\nret;\n}\n.func h (.reg .u32 i) {\nret;\n}";
    assert_eq!(refused(head, "call f, (%rd1);"), ["the function wants 24 bytes, in a variable of `.param`"]);
    assert_eq!(refused(head, "call g, (%rd1);"), ["`%rd1` has 64 bits, an operand of type `.b32` has 32"]);
    let wide = "{\n.param .b64 a;\nst.param.b64 [a], 1;\ncall h, (a);\n}";
    assert_eq!(refused(head, wide), ["`a` has 8 bytes, the function wants 4"]);
}

#[test]
fn local_and_constant_variables_have_addresses_of_32_bits() {
    let head = ".const .align 4 .u32 first[2] = {5, 6};\n.const .align 8 .u32 second[3] = {7, 8, 9};\n.global .u32 short = second+4;\n\
                .global .u64 wide = second+4;\n.global .u64 anywhere = generic(second)+8;";
    let local = ".local .align 4 .b8 %d[16];\nmov.b32 %r1, %d;\nst.local.u32 [%r1], 9;\nmov.b32 %r2, %d+4;\nst.local.u32 [%r2], %r0;\n\
                 ld.local.u32 %r3, [%r1+4];\nld.local.u32 %r4, [%d];\ncvt.u64.u32 %rd5, %r2;\ncvta.local.u64 %rd5, %rd5;\n\
                 ld.u32 %r5, [%rd5];\nmad.lo.u32 %r4, %r4, 1000, %r3;\nmad.lo.u32 %r4, %r5, 100000, %r4;\nst.global.u32 [%rd0], %r4;";
    assert_eq!(run("", local), (0..32).map(|t| t * 100_000 + 9000 + t).collect::<Vec<u32>>());
    let constant = "mov.b32 %r1, first;\nld.const.u32 %r2, [%r1+4];\nmov.b32 %r1, second+4;\nld.const.u32 %r3, [%r1];\n\
                    ld.global.u32 %r1, [short];\nld.const.u32 %r4, [%r1+-4];\nld.global.u64 %rd5, [wide];\nld.const.u32 %r5, [%rd5];\n\
                    ld.global.u64 %rd6, [anywhere];\nld.u32 %r6, [%rd6];\ncvta.const.u64 %rd7, second;\nld.u32 %r7, [%rd7+4];\n\
                    cvta.to.const.u64 %rd8, %rd6;\nld.const.u32 %r8, [%rd8];\nmov.u64 %rd9, first;\nld.const.u32 %r9, [%rd9];\n\
                    isspacep.const %p1, %rd7;\nisspacep.global %p2, %rd7;\nisspacep.const %p3, %rd0;\n";
    let digits = (2..=9).fold("mov.u32 %r10, 0;\n".to_owned(), |text, register| {
        format!("{text}mad.lo.u32 %r10, %r10, 10, %r{register};\n")
    });
    let spaces = "selp.u32 %r11, 1, 0, %p1;\nselp.u32 %r12, 2, 0, %p2;\nselp.u32 %r13, 4, 0, %p3;\nmul.lo.u32 %r10, %r10, 10;\n\
                  add.u32 %r10, %r10, %r11;\nadd.u32 %r10, %r10, %r12;\nadd.u32 %r10, %r10, %r13;\nst.global.u32 [%rd0], %r10;";
    assert_eq!(run(head, &format!("{constant}{digits}{spaces}")), [687_898_951; 32]);
    let text =
        kernel("mov.u64 %rd5, first;\nld.u32 %r1, [%rd5];").replacen(".visible", &format!("{head}\n.visible"), 1);
    let fault =
        try_launch(&text, "k", vec![array(&[0u32]), array(&[0u32])], LaunchRequest::default()).expect_err("a fault");
    assert!(fault.findings[0].message.ends_with("which `cvta.const` makes generic ones"), "{fault}");
    assert_eq!(refused(head, "ld.global.u32 %r1, [first];"), ["`first` is in `.const`, not in `.global`"]);
    assert_eq!(refused(head, "ld.const.u32 %r1, [short];"), ["`short` is in `.global`, not in `.const`"]);
}

#[test]
fn what_ptxas_refuses_is_refused_by_a_message_that_says_why() {
    let message = |body: &str| refused("", body).remove(0);
    let root = "`sqrt` of `.f64` takes a rounding such as `.rn`, not `.approx`";
    assert_eq!(message(".reg .f64 %fd<2>;\nsqrt.approx.f64 %fd1, %fd0;"), root);
    assert_eq!(message(".reg .f32 %f<2>;\nsin.f32 %f1, %f0;"), "`sin` of `.f32` takes `.approx`, which is missing");
    let vote = "`vote` without `.sync` is of targets before `sm_70`: write `vote.sync`";
    assert_eq!(message("vote.all.pred %p1, %p2;"), vote);
    let shuffle = "`shfl` without `.sync` is of targets before `sm_70`: write `shfl.sync`";
    assert_eq!(message("shfl.bfly.b32 %r1, %r2, 1, 31;"), shuffle);
    for space in ["local", "shared", "global", "const"] {
        assert_eq!(message(&format!(".{space} .b32 none[0];")), "`none` is an array of no elements");
        assert_eq!(message(&format!(".{space} .b32 none[];")), "`none` is an array of no elements");
    }
    let text = kernel("").replace(".param .u64 other", ".param .align 4 .b8 other[0]");
    assert_eq!(Module::parse(&text).expect_err("it is refused")[0].message, "`other` is an array of no elements");
}
