//! Memory and events that programs share by handles.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{download, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};

fn handle_of(memory: u64) -> sys::CUipcMemHandle {
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuIpcGetMemHandle(&mut handle, memory) }.result().unwrap();
    handle
}

fn opened(handle: sys::CUipcMemHandle) -> Result<u64, CUresult> {
    let mut address = 0;
    // SAFETY: the pointer is to this function's variable.
    match unsafe { sys::cuIpcOpenMemHandle_v2(&mut address, handle, 1) } {
        CUresult::CUDA_SUCCESS => Ok(address),
        error => Err(error),
    }
}

#[test]
fn handles_of_memory_are_opened_until_it_is_freed() {
    start();
    let memory = upload(&[1u32, 2, 3]);
    let handle = handle_of(memory + 4);
    assert_eq!(opened(handle), Ok(memory));
    assert_eq!(opened(handle), Ok(memory));
    assert_eq!(download::<u32>(memory, 3), [1, 2, 3]);
    // SAFETY: the memory is open twice, and freed once.
    unsafe {
        assert_eq!(sys::cuIpcCloseMemHandle(memory), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuIpcCloseMemHandle(memory), CUresult::CUDA_SUCCESS);
        assert_eq!(sys::cuIpcCloseMemHandle(memory), CUresult::CUDA_ERROR_INVALID_VALUE);
        result::free_sync(memory).unwrap();
    }
    assert_eq!(opened(handle), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    let nothing = sys::CUipcMemHandle { reserved: [0; 64] };
    assert_eq!(opened(nothing), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn handles_of_other_processes_are_refused_by_name() {
    if !is_child() {
        let said = in_child("sharing::handles_of_other_processes_are_refused_by_name", &[]);
        let told =
            "the program calls cuIpcOpenMemHandle with a handle of another process, which this driver does not have";
        assert_eq!(said.matches(told).count(), 1, "{said}");
        return;
    }
    start();
    let mut handle = handle_of(upload(&[0u32]));
    // The number of the process comes after the mark.
    handle.reserved[8] ^= 1;
    assert_eq!(opened(handle), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert_eq!(opened(handle), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
}

#[test]
fn events_that_may_be_shared_are_opened() {
    start();
    let (mut event, mut again, mut plain) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    let no_stream = std::ptr::null_mut();
    // SAFETY: the handles are live where they are used.
    unsafe {
        assert_eq!(sys::cuEventCreate(&mut plain, 4), CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuEventCreate(&mut event, 4 | 2).result().unwrap();
        sys::cuEventCreate(&mut plain, 2).result().unwrap();
        assert_eq!(sys::cuIpcGetEventHandle(&mut handle, plain), CUresult::CUDA_ERROR_INVALID_HANDLE);
        sys::cuIpcGetEventHandle(&mut handle, event).result().unwrap();
        sys::cuIpcOpenEventHandle(&mut again, handle).result().unwrap();
        assert_ne!(again, event);
        sys::cuEventRecord(event, no_stream).result().unwrap();
        sys::cuStreamWaitEvent(no_stream, again, 0).result().unwrap();
        // Either may go first.
        sys::cuEventDestroy_v2(event).result().unwrap();
        sys::cuEventSynchronize(again).result().unwrap();
        sys::cuEventDestroy_v2(again).result().unwrap();
        assert_eq!(sys::cuEventSynchronize(again), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}
