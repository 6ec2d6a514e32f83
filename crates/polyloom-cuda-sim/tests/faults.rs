//! Tests of what goes wrong: illegal accesses, checks that find something, limits, and failures that are planned.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{SAXPY, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};

const NO_STREAM: sys::CUstream = std::ptr::null_mut();

/// Every thread adds its number to one word, with nothing that orders them.
const RACE: &str = "
    .version 7.1
    .target sm_80
    .address_size 64
    .file 1 \"sums.py\"
    .visible .entry sum(.param .u64 out) {
        .reg .b32 %r<4>; .reg .b64 %rd<2>;
        .loc 1 7 0
        ld.param.u64 %rd1, [out];
        ld.global.u32 %r1, [%rd1];
        mov.u32 %r2, %ctaid.x;
        add.u32 %r2, %r2, 1;
        .loc 1 8 0
        add.u32 %r3, %r1, %r2;
        st.global.u32 [%rd1], %r3;
        ret;
    }";

#[test]
fn an_illegal_access_is_told_and_loses_the_device() {
    if !is_child() {
        let text = in_child("faults::an_illegal_access_is_told_and_loses_the_device", &[]);
        let told = "polyloom gpu: PTX line 15: out-of-bounds access in kernel `saxpy`: 4 bytes at 0x";
        assert!(text.contains(told) && text.contains("past the end of the 40-byte allocation"), "{text}");
        return;
    }
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let (x, y) = (upload(&[1f32; 10]), upload(&[1f32; 20]));
    let error = launch(saxpy, (1, 32), NO_STREAM, &[&1f32, &x, &y, &20u32]).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    // Nothing works any more, until the device is reset.
    assert_eq!(result::ctx::synchronize().unwrap_err().0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    // SAFETY: nothing is allocated.
    assert_eq!(unsafe { result::malloc_sync(4) }.unwrap_err().0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    // SAFETY: the context is not used any more.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(0) }.result().unwrap();
    start();
    upload(&[1f32]);
}

#[test]
fn checks_are_told_with_the_lines_of_the_source_and_the_program_goes_on() {
    if !is_child() {
        let report = std::env::temp_dir().join(format!("polyloom-report-{}", std::process::id()));
        let test = "faults::checks_are_told_with_the_lines_of_the_source_and_the_program_goes_on";
        let variables = [("POLYLOOM_GPU_SANITIZE", "all"), ("POLYLOOM_GPU_REPORT", report.to_str().unwrap())];
        let text = in_child(test, &variables);
        assert!(text.contains("polyloom gpu: sums.py:8: data race in kernel `sum`: write of byte 0"), "{text}");
        assert!(text.contains("of block (0, 0, 0) at sums.py:"), "{text}");
        let written = std::fs::read_to_string(&report).unwrap();
        std::fs::remove_file(&report).unwrap();
        let kernel: Vec<&str> = written.lines().next().unwrap().split('\t').collect();
        assert_eq!(kernel[..5], ["kernel", "sum", "1", "14", "14"], "{written}");
        assert!(written.lines().any(|line| line.starts_with("finding\tsums.py:8: data race")), "{written}");
        assert!(written.lines().any(|line| line == "missing\tcuMipmappedArrayDestroy\t2"), "{written}");
        return;
    }
    start();
    let sum = function(load(RACE), "sum");
    let out = upload(&[0u32]);
    launch(sum, (2, 1), NO_STREAM, &[&out]).unwrap();
    result::ctx::synchronize().unwrap();
    for _ in 0..2 {
        // SAFETY: the function does nothing.
        let error = unsafe { sys::cuMipmappedArrayDestroy(std::ptr::null_mut()) };
        assert_eq!(error, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
}

#[test]
fn memory_that_nobody_wrote_is_known_across_launches() {
    if !is_child() {
        let test = "faults::memory_that_nobody_wrote_is_known_across_launches";
        let text = in_child(test, &[("POLYLOOM_GPU_SANITIZE", "uninitialised")]);
        assert!(text.contains("nobody wrote byte 8 of the 12-byte allocation"), "{text}");
        return;
    }
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let out = upload(&[0f32; 3]);
    // SAFETY: the memory is the device's.
    let x = unsafe { result::malloc_sync(12) }.unwrap();
    let ones = upload(&[1f32; 2]);
    // SAFETY: both have eight bytes.
    unsafe { sys::cuMemcpyDtoD_v2(x, ones, 8) }.result().unwrap();
    launch(saxpy, (1, 2), NO_STREAM, &[&1f32, &x, &out, &2u32]).unwrap();
    launch(saxpy, (1, 3), NO_STREAM, &[&1f32, &x, &out, &3u32]).unwrap();
}

#[test]
fn a_launch_that_runs_too_long_is_ended() {
    if !is_child() {
        let test = "faults::a_launch_that_runs_too_long_is_ended";
        let text = in_child(test, &[("POLYLOOM_GPU_LIMIT", "1e6")]);
        assert!(text.contains("instruction limit in kernel `forever`"), "{text}");
        return;
    }
    start();
    let text = ".version 7.1\n.target sm_80\n.address_size 64\n.visible .entry forever() {\n\
                .reg .u32 %r; mov.u32 %r, 0;\nagain: add.u32 %r, %r, 1; bra again; }";
    let error = launch(function(load(text), "forever"), (1, 32), NO_STREAM, &[]).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
}

#[test]
fn failures_are_planned_by_the_environment() {
    if !is_child() {
        let test = "faults::failures_are_planned_by_the_environment";
        in_child(test, &[("POLYLOOM_GPU_FAIL", "cuMemAlloc:2=2,cuLaunchKernel:2=719")]);
        return;
    }
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    // SAFETY: the memory is the device's.
    unsafe {
        let first = result::malloc_sync(64).unwrap();
        assert_eq!(result::malloc_sync(64).unwrap_err().0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let third = result::malloc_sync(64).unwrap();
        launch(saxpy, (1, 1), NO_STREAM, &[&1f32, &first, &third, &0u32]).unwrap();
        let failed = launch(saxpy, (1, 1), NO_STREAM, &[&1f32, &first, &third, &0u32]);
        assert_eq!(failed.unwrap_err().0, CUresult::CUDA_ERROR_LAUNCH_FAILED);
        assert_eq!(result::free_sync(first).unwrap_err().0, CUresult::CUDA_ERROR_LAUNCH_FAILED);
    }
}

/// Two streams that share memory, as a test in a process of its own.
fn streams_share(with_event: bool) {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let (x, y, z) = (upload(&[1f32; 8]), upload(&[0f32; 8]), upload(&[0f32; 8]));
    let (mut first, mut second, mut event) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are to this function's variables, and handles are live.
    unsafe {
        sys::cuStreamCreate(&mut first, 1).result().unwrap();
        sys::cuStreamCreate(&mut second, 1).result().unwrap();
        sys::cuEventCreate(&mut event, 2).result().unwrap();
        // Both read the same, which is no race.
        launch(saxpy, (1, 8), first, &[&1f32, &x, &y, &8u32]).unwrap();
        launch(saxpy, (1, 8), second, &[&1f32, &x, &z, &8u32]).unwrap();
        if with_event {
            sys::cuEventRecord(event, first).result().unwrap();
            sys::cuStreamWaitEvent(second, event, 0).result().unwrap();
        }
        launch(saxpy, (1, 8), second, &[&1f32, &y, &z, &8u32]).unwrap();
        // The host waits, after which nothing runs beside.
        sys::cuStreamSynchronize(second).result().unwrap();
        sys::cuMemsetD32Async(z, 0, 8, first).result().unwrap();
    }
}

#[test]
fn a_missing_wait_between_streams_is_a_race() {
    let test = "faults::a_missing_wait_between_streams_is_a_race";
    if is_child() {
        return streams_share(false);
    }
    let text = in_child(test, &[("POLYLOOM_GPU_SANITIZE", "races")]);
    let told =
        "polyloom gpu: data race between streams: kernel `saxpy` at PTX line 15 reads byte 0 of the 32-byte allocation";
    assert!(text.contains(told) && text.contains("kernel `saxpy` at PTX line 17 writes it"), "{text}");
    assert_eq!(text.matches("polyloom gpu").count(), 1, "{text}");
}

#[test]
fn streams_that_wait_have_no_race() {
    if is_child() {
        return streams_share(true);
    }
    let text = in_child("faults::streams_that_wait_have_no_race", &[("POLYLOOM_GPU_SANITIZE", "races")]);
    assert!(!text.contains("polyloom gpu"), "{text}");
}
