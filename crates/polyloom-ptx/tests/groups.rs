//! Cooperative groups as NVRTC compiles them (`ptx/nvrtc_groups.cu`, for compute_80), and the parts of the machine they
//! stand on: the system's shared memory and the workspace of a grid.

use crate::device::{Arg, array, launch, try_launch, values};
use crate::sync::kernel;
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers};

const TEXT: &str = include_str!("ptx/nvrtc_groups.ptx");

/// Runs a kernel with the default checks, on several host threads, and with all checks.
fn run(name: &str, launch: LaunchRequest<'_>, args: impl Fn() -> Vec<Arg>) -> Vec<Vec<u8>> {
    let several = LaunchRequest { threads: 4, ..launch };
    let checked = LaunchRequest { sanitize: Sanitizers::ALL, ..launch };
    let [plain, several, checked] = [launch, several, checked].map(|launch| {
        let (arrays, _) = try_launch(TEXT, name, args(), launch).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        arrays
    });
    assert_eq!(plain, several);
    assert_eq!(plain, checked);
    plain
}

#[test]
fn the_program_does_not_have_the_systems_shared_memory() {
    let body = "mov.u32 %r1, %reserved_smem_offset_1;\nst.shared.u32 [tile], 7;\nst.shared.u32 [dynamic], 8;\n\
                st.shared.u32 [%r1], 0;\nld.shared.u32 %r2, [tile];\nld.shared.u32 %r3, [dynamic];\n\
                mad.lo.u32 %r2, %r2, 10, %r3;\nst.global.u32 [%rd0], %r2;";
    let launch = LaunchRequest { dynamic_shared_bytes: 16, sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let args = || vec![array(&[0u32]), array(&[0u32])];
    let (out, _) = try_launch(&kernel(body), "k", args(), launch).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(values::<u32>(&out[0]), [78]);
    // Who does not ask where it is may not access it.
    let fault = try_launch(&kernel("mov.u32 %r1, 12;\nst.shared.u32 [%r1], %r0;"), "k", args(), launch)
        .expect_err("out of bounds");
    let message = "4 bytes at 0xc of shared memory, byte 12 of the 1024 bytes that shared memory begins with and the \
                   system has; the block has 4112 bytes";
    assert_eq!((fault.findings[0].kind, &*fault.findings[0].message), (FindingKind::OutOfBounds, message));
}

#[test]
fn sizes_of_shared_memory_tell_the_program_from_the_system() {
    let names = ["%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size"];
    let reserved = ["begin", "end", "cap"].map(|name| format!("%reserved_smem_offset_{name}"));
    for (name, expect) in names.map(str::to_owned).into_iter().chain(reserved).zip([4096, 5120, 0, 0, 1024, 1024]) {
        let text = kernel(&format!("mov.u32 %r1, {name};\nst.shared.u32 [tile], %r1;\nst.global.u32 [%rd0], %r1;"));
        assert_eq!(
            values::<u32>(&launch(&text, "k", 1, 1, vec![array(&[0u32]), array(&[0u32])])[0]),
            [expect],
            "{name}"
        );
    }
}

#[test]
fn tiles_of_several_warps_reduce() {
    let input: Vec<i32> = (0..256).collect();
    let launch = LaunchRequest { block: [256, 1, 1], ..LaunchRequest::default() };
    let out = run("tile_sums", launch, || vec![array(&input), array(&[0i32; 512])]);
    let sums = (0..256).map(|thread| (0..64).map(|i| thread / 64 * 64 + i).sum());
    assert_eq!(values::<i32>(&out[1]), sums.chain(0..256).collect::<Vec<i32>>());
}

#[test]
fn tiles_of_several_warps_have_barriers() {
    let input: Vec<i32> = (0..256).map(|i| i * i).collect();
    let launch = LaunchRequest { block: [256, 1, 1], dynamic_shared_bytes: 1024, ..LaunchRequest::default() };
    let out = run("tile_reversal", launch, || vec![array(&input), array(&[0i32; 768])]);
    let expect = (0..3).flat_map(|round| input.iter().enumerate().map(move |(i, _)| (i, round)));
    let expect: Vec<i32> = expect.map(|(i, round)| input[i ^ 63] + round).collect();
    assert_eq!(values::<i32>(&out[1]), expect);
}

#[test]
fn cooperative_launches_have_barriers_of_the_grid() {
    let threads = 24 * 32;
    let launch = LaunchRequest { grid: [6, 2, 2], block: [8, 4, 1], cooperative: true, ..LaunchRequest::default() };
    let out = run("grid_sums", launch, || vec![array(&vec![0i32; threads]), array(&vec![0i32; threads])]);
    let sum = (1..=threads as i32).sum::<i32>();
    assert_eq!(values::<i32>(&out[1]), vec![sum * threads as i32; threads]);
    // They know that there is one.
    let valid = |cooperative| {
        let launch = LaunchRequest { grid: [2, 1, 1], cooperative, ..LaunchRequest::default() };
        values::<i32>(&run("grid_or_not", launch, || vec![array(&[7i32; 2])])[0])
    };
    assert_eq!([valid(true), valid(false)], [[1, 1], [0, 0]]);
}

#[test]
fn who_synchronises_the_grid_is_launched_cooperatively() {
    let args = || vec![array(&[0i32; 64]), array(&[0i32; 64])];
    let launch = LaunchRequest { grid: [2, 1, 1], block: [32, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(TEXT, "grid_sums", args(), launch).expect_err("a trap");
    let message = "`trap` was executed; the kernel asks for the workspace of a cooperative launch, to synchronise its grid: \
                   launch it as one";
    assert_eq!((fault.findings[0].kind, &*fault.findings[0].message), (FindingKind::Trap, message));
    let body = "mov.u32 %r1, %envreg1;\nmov.u32 %r2, %envreg2;\nmov.b64 %rd5, {%r2, %r1};\nld.u32 %r3, [%rd5+4];\n\
                st.global.u32 [%rd0], %r3;";
    let fault = try_launch(&kernel(body), "k", args(), LaunchRequest::default()).expect_err("no workspace");
    assert!(fault.findings[0].message.contains("a null pointer; the kernel asks for the workspace"), "{fault}");
}

/// Numba's compiler leaves the barrier of a grid to functions of CUDA's device run time.
#[test]
fn grids_synchronise_by_functions_of_the_run_time() {
    let text = |functions: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             {functions}\n\
             .visible .entry k(.param .u64 out, .param .u64 total) {{\n\
             .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p;\n.param .b32 s; .param .b64 h; .param .b32 f; .param .b32 e;\n\
             ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [total];\n\
             mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;\n\
             mul.wide.u32 %rd2, %r0, 4; add.u64 %rd3, %rd0, %rd2;\nst.global.u32 [%rd3], %r0;\n\
             mov.u32 %r3, 1; st.param.b32 [s], %r3; call.uni (h), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %rd4, [h];\n\
             mov.u32 %r4, 0; st.param.b64 [h], %rd4; st.param.b32 [f], %r4; call.uni (e), cudaCGSynchronize, (h, f);\n\
             ld.param.b32 %r5, [e];\n\
             sub.u32 %r6, 255, %r0; mul.wide.u32 %rd5, %r6, 4; add.u64 %rd6, %rd0, %rd5; ld.global.u32 %r7, [%rd6];\n\
             st.param.b64 [h], %rd4; st.param.b32 [f], %r4; call.uni (e), cudaCGSynchronize, (h, f);\n\
             add.u32 %r7, %r7, %r5; st.global.u32 [%rd3], %r7;\nret;\n}}\n"
        )
    };
    let declared = ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n\
                    .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);";
    let launch = LaunchRequest { grid: [4, 1, 1], block: [64, 1, 1], cooperative: true, ..LaunchRequest::default() };
    let args = || vec![array(&[0u32; 256]), array(&[0u32; 1])];
    // Each thread reads what another block wrote, and overwrites it when all have read.
    for launch in
        [launch, LaunchRequest { threads: 4, ..launch }, LaunchRequest { sanitize: Sanitizers::ALL, ..launch }]
    {
        let (out, _) = try_launch(&text(declared), "k", args(), launch).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(values::<u32>(&out[0]), (0..256).rev().collect::<Vec<u32>>());
    }
    let fault =
        try_launch(&text(declared), "k", args(), LaunchRequest { cooperative: false, ..launch }).expect_err("a trap");
    let message = fault.findings[0].to_string();
    assert!(message.contains("cudadevrt:27: trap") && message.contains("launch it as one"), "{message}");
    // A module may have such functions of its own.
    let own = ".func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope) { .reg .b64 %h; mov.u64 %h, 1; st.param.b64 [r], %h; ret; }\n\
               .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags) { .reg .b32 %r; mov.u32 %r, 1000; st.param.b32 [r], %r; ret; }";
    let (out, _) = try_launch(&text(own), "k", args(), launch).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(values::<u32>(&out[0])[255] >= 1000);
}

#[test]
fn cooperative_launches_fit_the_multiprocessors() {
    let args = || vec![array(&[0u32; 1024]), array(&[0u32; 1])];
    let text = kernel("st.global.u32 [%rd0], %r0;");
    // sm_90 has 64 warps on each of 16 multiprocessors.
    let launch = |blocks| LaunchRequest {
        grid: [blocks, 1, 1],
        block: [1024, 1, 1],
        cooperative: true,
        ..LaunchRequest::default()
    };
    assert!(try_launch(&text, "k", args(), launch(32)).is_ok());
    let fault = try_launch(&text, "k", args(), launch(33)).expect_err("too many blocks");
    let message = "a cooperative launch has all its blocks at once: sm_90 holds 32 of these, 2 on each of 16 multiprocessors \
                   (limited by warps), not 33";
    assert_eq!((fault.findings[0].kind, &*fault.findings[0].message), (FindingKind::InvalidLaunch, message));
    let wide = LaunchRequest { dynamic_shared_bytes: 150_000, ..launch(17) };
    let fault = try_launch(&text, "k", args(), wide).expect_err("too much shared memory");
    assert!(
        fault.findings[0].message.contains("1 on each of 16 multiprocessors (limited by shared), not 17"),
        "{fault}"
    );
    assert!(try_launch(&text, "k", args(), LaunchRequest { cooperative: false, ..wide }).is_ok());
}
