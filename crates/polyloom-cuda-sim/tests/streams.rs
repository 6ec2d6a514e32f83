//! Streams and events.

use crate::driver::{library, start};
use crate::kernels::{SAXPY, download, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn stream(flags: u32) -> sys::CUstream {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuStreamCreate(&mut stream, flags) }.result().unwrap();
    stream
}

fn event(flags: u32) -> sys::CUevent {
    let mut event = std::ptr::null_mut();
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuEventCreate(&mut event, flags) }.result().unwrap();
    event
}

#[test]
fn streams_wait_for_events_and_are_timed() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let (first, second) = (stream(1), stream(1));
    let (begin, end) = (event(0), event(0));
    let (x, y) = (upload(&vec![1f32; 4096]), upload(&vec![0f32; 4096]));
    // SAFETY: handles are live.
    unsafe {
        sys::cuEventRecord(begin, first).result().unwrap();
        launch(saxpy, (16, 256), first, &[&2f32, &x, &y, &4096u32]).unwrap();
        sys::cuEventRecord(end, first).result().unwrap();
        sys::cuStreamWaitEvent(second, end, 0).result().unwrap();
        launch(saxpy, (16, 256), second, &[&1f32, &y, &x, &4096u32]).unwrap();
        sys::cuStreamSynchronize(second).result().unwrap();
        assert_eq!(sys::cuEventQuery(end), CUresult::CUDA_SUCCESS);
        let mut milliseconds = 0.0;
        sys::cuEventElapsedTime(&mut milliseconds, begin, end).result().unwrap();
        assert!(milliseconds > 0.0);
        let never = event(0);
        assert_eq!(sys::cuEventElapsedTime(&mut milliseconds, begin, never), CUresult::CUDA_ERROR_INVALID_HANDLE);
        let untimed = event(2);
        sys::cuEventRecord(untimed, first).result().unwrap();
        assert_eq!(sys::cuEventElapsedTime(&mut milliseconds, begin, untimed), CUresult::CUDA_ERROR_INVALID_HANDLE);
        for event in [begin, end, never, untimed] {
            sys::cuEventDestroy_v2(event).result().unwrap();
        }
        assert_eq!(sys::cuEventRecord(end, first), CUresult::CUDA_ERROR_INVALID_HANDLE);
        sys::cuStreamDestroy_v2(first).result().unwrap();
        assert_eq!(sys::cuStreamSynchronize(first), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    assert_eq!(download::<f32>(x, 1), [3.0]);
}

static CALLS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn add(data: *mut c_void) {
    CALLS.fetch_add(data.addr() as u32, Relaxed);
}

#[test]
fn functions_of_the_host_run_in_order() {
    start();
    let stream = stream(0);
    // SAFETY: the function takes a number as its pointer.
    unsafe {
        sys::cuLaunchHostFunc(stream, Some(add), std::ptr::without_provenance_mut(5)).result().unwrap();
        sys::cuStreamSynchronize(stream).result().unwrap();
    }
    assert_eq!(CALLS.load(Relaxed), 5);
}

#[test]
fn values_in_memory_are_written_and_waited_for() {
    start();
    let stream = stream(0);
    let memory = upload(&[0u64, 0]);
    // SAFETY: the memory is there.
    unsafe {
        sys::cuStreamWriteValue64_v2(stream, memory, 0x1_0000_0007, 0).result().unwrap();
        sys::cuStreamWaitValue64_v2(stream, memory, 0x1_0000_0007, 1).result().unwrap();
        sys::cuStreamWaitValue32_v2(stream, memory, 6, 0).result().unwrap();
    }
    assert_eq!(download::<u64>(memory, 1), [0x1_0000_0007]);
}

#[test]
fn several_threads_use_streams_of_their_own() {
    start();
    let saxpy = function(load(SAXPY), "saxpy") as usize;
    let threads: Vec<_> = (0..4u32)
        .map(|number| {
            std::thread::spawn(move || {
                start();
                let stream = stream(1);
                let (x, y) = (upload(&vec![number as f32; 1000]), upload(&vec![0f32; 1000]));
                for _ in 0..20 {
                    launch(saxpy as sys::CUfunction, (4, 256), stream, &[&1f32, &x, &y, &1000u32]).unwrap();
                }
                // SAFETY: the stream is live, the memory is freed once.
                unsafe {
                    sys::cuStreamSynchronize(stream).result().unwrap();
                    let found = download::<f32>(y, 1000);
                    assert!(found.iter().all(|value| *value == 20.0 * number as f32), "{number}");
                    result::free_sync(x).unwrap();
                    result::free_sync(y).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// An entry point that no header of cudarc has.
macro_rules! symbol {
    ($name:literal as $signature:ty) => {{
        // SAFETY: the function has this signature.
        *unsafe { library().get::<$signature>($name.as_bytes()) }.unwrap()
    }};
}

type StreamId = unsafe extern "C" fn(sys::CUstream, *mut u64) -> CUresult;

#[test]
fn default_streams_of_threads_are_their_own() {
    start();
    const DEFAULT: sys::CUstream = std::ptr::null_mut();
    const OF_THREAD: sys::CUstream = std::ptr::without_provenance_mut(2);
    let ids = || {
        start();
        let by_thread = symbol!("cuStreamGetId_ptsz" as StreamId);
        let (mut own, mut named, mut legacy) = (0, 0, 0);
        // SAFETY: the pointers are to variables.
        unsafe {
            by_thread(DEFAULT, &mut own).result().unwrap();
            sys::cuStreamGetId(OF_THREAD, &mut named).result().unwrap();
            sys::cuStreamGetId(DEFAULT, &mut legacy).result().unwrap();
        }
        assert!(own == named && own != legacy);
        (own, legacy)
    };
    let (own, legacy) = ids();
    assert_eq!(ids(), (own, legacy));
    let (of_other, other_legacy) = std::thread::spawn(ids).join().unwrap();
    assert!(of_other != own && other_legacy == legacy);
}

#[test]
fn work_goes_to_the_default_stream_of_the_thread() {
    start();
    type Begin = unsafe extern "C" fn(sys::CUstream, sys::CUstreamCaptureMode) -> CUresult;
    type End = unsafe extern "C" fn(sys::CUstream, *mut sys::CUgraph) -> CUresult;
    type Fill = unsafe extern "C" fn(u64, u32, usize, sys::CUstream) -> CUresult;
    type Upload = unsafe extern "C" fn(u64, *const c_void, usize) -> CUresult;
    let begin = symbol!("cuStreamBeginCapture_v2_ptsz" as Begin);
    let end = symbol!("cuStreamEndCapture_ptsz" as End);
    let fill = symbol!("cuMemsetD32Async_ptsz" as Fill);
    let copy = symbol!("cuMemcpyHtoD_v2_ptds" as Upload);
    let (memory, default, mode) =
        (upload(&[0u32; 4]), std::ptr::null_mut(), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED);
    let mut graph = std::ptr::null_mut();
    // SAFETY: the memory is there, and the stream's capture is ended.
    unsafe {
        // That of the context is not captured.
        assert_eq!(sys::cuStreamBeginCapture_v2(default, mode), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        begin(default, mode).result().unwrap();
        fill(memory, 5, 4, default).result().unwrap();
        end(default, &mut graph).result().unwrap();
        let mut n = 0;
        sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut n).result().unwrap();
        assert_eq!((n, download::<u32>(memory, 4)), (1, vec![0; 4]));
        copy(memory, [1u32, 2].as_ptr().cast(), 8).result().unwrap();
        fill(memory + 8, 9, 1, default).result().unwrap();
        assert_eq!(download::<u32>(memory, 4), [1, 2, 9, 0]);
    }
}
