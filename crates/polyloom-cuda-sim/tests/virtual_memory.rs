//! Virtual memory: reserved addresses, memory without an address, and mappings.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{SAXPY, download, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};

const NO_STREAM: sys::CUstream = std::ptr::null_mut();
const PAGE: usize = 2 << 20;

fn properties() -> sys::CUmemAllocationProp {
    // SAFETY: all of it may be zero.
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties
}

fn reserved(n_bytes: usize) -> u64 {
    let mut address = 0;
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuMemAddressReserve(&mut address, n_bytes, 0, 0, 0) }.result().unwrap();
    address
}

fn made(n_bytes: usize) -> u64 {
    let mut memory = 0;
    // SAFETY: the pointers are to variables.
    unsafe { sys::cuMemCreate(&mut memory, n_bytes, &properties(), 0) }.result().unwrap();
    memory
}

fn allow(address: u64, n_bytes: usize, flags: sys::CUmemAccess_flags) -> CUresult {
    let access = sys::CUmemAccessDesc { location: properties().location, flags };
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuMemSetAccess(address, n_bytes, &access, 1) }
}

const READ_WRITE: sys::CUmemAccess_flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

#[test]
fn memory_grows_by_mapping_more_of_it() {
    if !is_child() {
        // Other tests of this process use memory too.
        in_child("virtual_memory::memory_grows_by_mapping_more_of_it", &[]);
        return;
    }
    start();
    let mut granularity = 0;
    let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: the pointers are to variables.
    unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &properties(), option) }.result().unwrap();
    assert_eq!(granularity, PAGE);
    let free = result::mem_get_info().unwrap().0;
    let address = reserved(4 * PAGE);
    assert!(address.is_multiple_of(PAGE as u64));
    let parts = [made(PAGE), made(PAGE)];
    assert_eq!(result::mem_get_info().unwrap().0, free - 2 * PAGE);
    // SAFETY: the addresses are reserved, and the handles are released once.
    unsafe {
        for (index, part) in parts.into_iter().enumerate() {
            sys::cuMemMap(address + (index * PAGE) as u64, PAGE, 0, part, 0).result().unwrap();
            sys::cuMemRelease(part).result().unwrap();
        }
        assert_eq!(sys::cuMemMap(address, PAGE, 0, parts[0], 0), CUresult::CUDA_ERROR_INVALID_VALUE);
        // Copies go over the border between the two, as kernels do.
        assert!(result::memset_d8_sync(address, 0, 2 * PAGE).is_err(), "nobody has allowed it");
        assert_eq!(allow(address, 2 * PAGE, READ_WRITE), CUresult::CUDA_SUCCESS);
        let border = address + PAGE as u64 - 16;
        result::memset_d8_sync(address, 0, 2 * PAGE).unwrap();
        result::memcpy_htod_sync(border, &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        let saxpy = function(load(SAXPY), "saxpy");
        launch(saxpy, (1, 32), NO_STREAM, &[&10f32, &border, &border, &8u32]).unwrap();
        assert_eq!(download::<f32>(border, 8), [11.0, 22.0, 33.0, 44.0, 55.0, 66.0, 77.0, 88.0]);
        assert!(result::memset_d8_sync(border, 0, PAGE + 32).is_err());
        // The memory goes with its last mapping.
        sys::cuMemUnmap(address, 2 * PAGE).result().unwrap();
        assert_eq!(result::mem_get_info().unwrap().0, free);
        assert!(result::memset_d8_sync(address, 0, 4).is_err());
        sys::cuMemAddressFree(address, 4 * PAGE).result().unwrap();
        assert_eq!(sys::cuMemAddressFree(address, 4 * PAGE), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn one_memory_is_at_two_addresses() {
    start();
    let (address, memory) = (reserved(2 * PAGE), made(2 * PAGE));
    let mut again = 0;
    // SAFETY: the addresses are reserved, and the handle is released as often as it is held.
    unsafe {
        sys::cuMemMap(address, PAGE, PAGE, memory, 0).result().unwrap();
        sys::cuMemMap(address + PAGE as u64, PAGE, PAGE, memory, 0).result().unwrap();
        assert_eq!(allow(address, 2 * PAGE, READ_WRITE), CUresult::CUDA_SUCCESS);
        result::memcpy_htod_sync(address, &[7u32, 8]).unwrap();
        assert_eq!(download::<u32>(address + PAGE as u64, 2), [7, 8]);
        sys::cuMemRetainAllocationHandle(&mut again, address as *mut std::ffi::c_void).result().unwrap();
        assert_eq!(again, memory);
        sys::cuMemRelease(memory).result().unwrap();
        sys::cuMemRelease(memory).result().unwrap();
        assert_eq!(sys::cuMemRelease(memory), CUresult::CUDA_ERROR_INVALID_VALUE);
        let (mut flags, location) = (0, properties().location);
        sys::cuMemGetAccess(&mut flags, &location, address).result().unwrap();
        assert_eq!(flags, 3);
        let none = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
        assert_eq!(allow(address, PAGE, none), CUresult::CUDA_SUCCESS);
        assert!(result::memset_d8_sync(address, 0, 4).is_err());
        assert_eq!(download::<u32>(address + PAGE as u64, 2), [7, 8]);
        // A mapping ends as a whole.
        assert_eq!(sys::cuMemUnmap(address, PAGE / 2), CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuMemUnmap(address, 2 * PAGE).result().unwrap();
        sys::cuMemAddressFree(address, 2 * PAGE).result().unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    start();
    let address = reserved(PAGE);
    let memory = made(PAGE);
    let mut other = 0;
    // SAFETY: the pointers are to variables.
    unsafe {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        assert_eq!(sys::cuMemAddressReserve(&mut other, PAGE / 2, 0, 0, 0), invalid);
        assert_eq!(sys::cuMemCreate(&mut other, 5, &properties(), 0), invalid);
        assert_eq!(sys::cuMemCreate(&mut other, 1 << 50, &properties(), 0), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(sys::cuMemMap(address, 2 * PAGE, 0, memory, 0), invalid);
        assert_eq!(sys::cuMemMap(address, PAGE, PAGE, memory, 0), invalid);
        assert_eq!(sys::cuMemMap(address + 8 * PAGE as u64, PAGE, 0, memory, 0), invalid);
        assert_eq!(allow(address, PAGE, READ_WRITE), invalid);
        let mut shared = properties();
        shared.requestedHandleTypes = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        assert_eq!(sys::cuMemCreate(&mut other, PAGE, &shared, 0), CUresult::CUDA_ERROR_NOT_SUPPORTED);
        sys::cuMemMap(address, PAGE, 0, memory, 0).result().unwrap();
        assert_eq!(sys::cuMemAddressFree(address, PAGE), invalid);
        // Memory that is mapped is not freed as if it were allocated.
        assert_eq!(allow(address, PAGE, READ_WRITE), CUresult::CUDA_SUCCESS);
        assert_eq!(result::free_sync(address).unwrap_err().0, invalid);
        sys::cuMemUnmap(address, PAGE).result().unwrap();
        sys::cuMemRelease(memory).result().unwrap();
        sys::cuMemAddressFree(address, PAGE).result().unwrap();
    }
}

#[test]
fn kernels_do_not_reach_what_nobody_allowed() {
    if !is_child() {
        let said = in_child("virtual_memory::kernels_do_not_reach_what_nobody_allowed", &[]);
        assert!(said.contains("saxpy"), "{said}");
        return;
    }
    start();
    let (address, memory, x) = (reserved(PAGE), made(PAGE), upload(&[1f32]));
    // SAFETY: the addresses are reserved.
    unsafe { sys::cuMemMap(address, PAGE, 0, memory, 0) }.result().unwrap();
    let saxpy = function(load(SAXPY), "saxpy");
    let error = launch(saxpy, (1, 1), NO_STREAM, &[&1f32, &x, &address, &1u32]).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}
