//! Loading the library, and calls that need no kernel.

use cudarc::driver::sys;
use cudarc::driver::{result, sys::CUresult};
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The library that is tested: cargo puts it beside the tests.
pub(crate) fn library() -> &'static libloading::os::unix::Library {
    static LIBRARY: OnceLock<libloading::os::unix::Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let names = [folder.join("libpolyloom_cuda_sim.so"), folder.join("../libpolyloom_cuda_sim.so")];
        let path: &PathBuf = names.iter().find(|path| path.exists()).expect("cargo builds the library");
        let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_GLOBAL;
        // SAFETY: the library has no initialisers.
        unsafe { libloading::os::unix::Library::open(Some(path), flags) }.unwrap()
    })
}

/// A thread with the primary context of the device as its current one.
pub(crate) fn start() {
    library();
    result::init().unwrap();
    let device = result::device::get(0).unwrap();
    // SAFETY: the device is the driver's, and its context stays.
    unsafe { result::ctx::set_current(result::primary_ctx::retain(device).unwrap()) }.unwrap();
}

/// Runs a test of this file's binary again, in a process of its own with these variables. Gives what it wrote.
pub(crate) fn in_child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("POLYLOOM_TEST_CHILD", "1");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

pub(crate) fn is_child() -> bool {
    std::env::var("POLYLOOM_TEST_CHILD").is_ok()
}

#[test]
fn the_library_is_found_under_the_name_of_the_driver() {
    library();
    // SAFETY: it is loaded already.
    let again = unsafe { libloading::os::unix::Library::open(Some("libcuda.so.1"), libloading::os::unix::RTLD_NOW) };
    // SAFETY: the symbol is only looked at.
    let symbol = |library: &libloading::os::unix::Library| unsafe { *library.get::<*const c_void>(b"cuInit").unwrap() };
    assert_eq!(symbol(&again.unwrap()), symbol(library()));
}

#[test]
fn names_that_the_driver_lacks_are_there_and_say_so() {
    start();
    // SAFETY: the function does not read what it is given.
    let error = unsafe { sys::cuMipmappedArrayDestroy(std::ptr::null_mut()) };
    assert_eq!(error, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    for name in ["cuTensorMapEncodeTiled", "cuImportExternalMemory", "cuMulticastCreate", "cuGraphDebugDotPrint"] {
        // SAFETY: the symbol is only looked at.
        assert!(unsafe { library().get::<*const c_void>(name.as_bytes()) }.is_ok(), "{name}");
    }
}

/// Programs that open the library themselves may ask for names without a version, which it has had from its first days.
#[test]
fn first_versions_have_their_names() {
    start();
    let names = [
        "cuCtxDestroy",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cuDevicePrimaryCtxRelease",
        "cuDevicePrimaryCtxReset",
        "cuDevicePrimaryCtxSetFlags",
        "cuEventDestroy",
        "cuGraphInstantiate",
        "cuLinkCreate",
        "cuLinkAddData",
        "cuLinkAddFile",
        "cuMemHostRegister",
        "cuStreamDestroy",
    ];
    for name in names {
        // SAFETY: the symbol is only looked at.
        assert!(unsafe { library().get::<*const c_void>(name.as_bytes()) }.is_ok(), "{name}");
    }
    let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
    // SAFETY: the function has this type, and the event is destroyed once.
    unsafe {
        let destroy = library().get::<unsafe extern "C" fn(sys::CUevent) -> CUresult>(b"cuEventDestroy").unwrap();
        assert_eq!(destroy(event), CUresult::CUDA_SUCCESS);
        assert_eq!(destroy(event), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn functions_are_found_by_name_and_version() {
    start();
    let find = |name: &CStr, version: i32| {
        let (mut function, mut status) =
            (std::ptr::null_mut(), sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS);
        // SAFETY: the pointers are to this function's variables.
        let error = unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &mut function, version, 0, &mut status) };
        assert_eq!(error, CUresult::CUDA_SUCCESS);
        (function.cast_const(), status as u32)
    };
    // SAFETY: the symbol is only looked at.
    let symbol = |name: &str| unsafe { *library().get::<*const c_void>(name.as_bytes()).unwrap() };
    assert_eq!(find(c"cuMemAlloc", 12080), (symbol("cuMemAlloc_v2"), 0));
    assert_eq!(find(c"cuStreamGetCaptureInfo", 12000), (symbol("cuStreamGetCaptureInfo_v2"), 0));
    assert_eq!(find(c"cuNoSuchThing", 12080), (std::ptr::null(), 1));
}

#[test]
fn errors_have_names_and_meanings() {
    library();
    let error = cudarc::driver::DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(error.error_name().unwrap(), c"CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(error.error_string().unwrap(), c"an illegal memory access was encountered");
}

#[test]
fn the_device_is_what_the_environment_says() {
    if !is_child() {
        let variables = [("POLYLOOM_GPU_ARCH", "sm_90"), ("POLYLOOM_GPU_MEMORY", "1073741824")];
        in_child("driver::the_device_is_what_the_environment_says", &variables);
        return;
    }
    start();
    let device = result::device::get(0).unwrap();
    // SAFETY: the device is the driver's.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) }.unwrap();
    use sys::CUdevice_attribute as A;
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 0);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 232_448);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(result::device::get_name(device).unwrap(), "Polyloom simulator, sm_90");
    // SAFETY: the device is the driver's.
    assert_eq!(unsafe { result::device::total_mem(device) }.unwrap(), 1 << 30);
    let (free, total) = result::mem_get_info().unwrap();
    assert_eq!((free, total), (1 << 30, 1 << 30));
    // SAFETY: the memory is freed once.
    unsafe {
        assert_eq!(result::malloc_sync(2 << 30).unwrap_err().0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let half = result::malloc_sync(1 << 29).unwrap();
        assert_eq!(result::mem_get_info().unwrap().0, 1 << 29);
        result::free_sync(half).unwrap();
    }
}

#[test]
fn contexts_are_a_stack_of_each_thread() {
    start();
    let current = || {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to this function's variable.
        unsafe { sys::cuCtxGetCurrent(&mut context) }.result().unwrap();
        context
    };
    let primary = current();
    assert!(!primary.is_null());
    let mut own = std::ptr::null_mut();
    // SAFETY: the context is made, used and ended here.
    unsafe {
        sys::cuCtxCreate_v2(&mut own, 0, 0).result().unwrap();
        assert_eq!(current(), own);
        let memory = result::malloc_sync(64).unwrap();
        let mut popped = std::ptr::null_mut();
        sys::cuCtxPopCurrent_v2(&mut popped).result().unwrap();
        assert_eq!((popped, current()), (own, primary));
        sys::cuCtxDestroy_v2(own).result().unwrap();
        // Its memory has gone with it.
        assert_eq!(result::free_sync(memory).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuCtxPushCurrent_v2(own), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    std::thread::spawn(move || {
        assert!(current().is_null());
        // SAFETY: nothing is written.
        assert_eq!(unsafe { sys::cuCtxSynchronize() }, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    })
    .join()
    .unwrap();
}
