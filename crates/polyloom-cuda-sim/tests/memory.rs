//! Memory: of the device, managed, pinned, registered, of pools; copies and fills in all forms.

use crate::driver::start;
use crate::kernels::{SAXPY, download, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::c_void;
use std::mem::MaybeUninit;

const NO_STREAM: sys::CUstream = std::ptr::null_mut();

fn attribute<T: Default>(which: sys::CUpointer_attribute, address: u64) -> Result<T, CUresult> {
    let mut value = T::default();
    // SAFETY: the attribute is of that type.
    match unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), which, address) } {
        CUresult::CUDA_SUCCESS => Ok(value),
        error => Err(error),
    }
}

#[test]
fn managed_memory_has_one_address_on_both_sides() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let mut address = 0u64;
    // SAFETY: the memory is used as what it is, and freed once.
    unsafe {
        sys::cuMemAllocManaged(&mut address, 4096, 1).result().unwrap();
        let values = std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut::<f32>(address as usize), 8);
        values[..4].copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        launch(saxpy, (1, 32), NO_STREAM, &[&3f32, &address, &(address + 16), &4u32]).unwrap();
        result::ctx::synchronize().unwrap();
        let values = std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<f32>(address as usize), 8);
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 3.0, 6.0, 9.0, 12.0]);
        use sys::CUpointer_attribute as A;
        assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, address), Ok(1));
        assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_HOST_POINTER, address), Ok(address));
        assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 100), Ok(address));
        sys::cuMemPrefetchAsync(address, 4096, 0, NO_STREAM).result().unwrap();
        assert_eq!(download::<f32>(address, 1), [1.0]);
        result::free_sync(address).unwrap();
        assert_eq!(
            attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        );
    }
}

#[test]
fn kernels_reach_pinned_and_registered_memory() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    // Registered memory need not begin at a page.
    let mut own = [0f32; 37];
    own[1..5].copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    let (start, bytes) = (own[1..].as_mut_ptr(), 16);
    // SAFETY: the memory outlives its registration.
    unsafe {
        let pinned = result::malloc_host(64, 0).unwrap();
        std::ptr::write_bytes(pinned.cast::<u8>(), 0, 64);
        sys::cuMemHostRegister_v2(start.cast(), bytes, 0).result().unwrap();
        let again = sys::cuMemHostRegister_v2(start.cast(), bytes, 0);
        assert_eq!(again, CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        let mut device = 0;
        sys::cuMemHostGetDevicePointer_v2(&mut device, start.cast(), 0).result().unwrap();
        launch(saxpy, (1, 32), NO_STREAM, &[&2f32, &device, &(pinned as u64), &4u32]).unwrap();
        result::ctx::synchronize().unwrap();
        assert_eq!(std::slice::from_raw_parts(pinned.cast::<f32>(), 4), [2.0, 4.0, 6.0, 8.0]);
        sys::cuMemHostUnregister(start.cast()).result().unwrap();
        assert_eq!(sys::cuMemHostUnregister(start.cast()), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        result::free_host(pinned).unwrap();
        assert_eq!(result::free_host(pinned).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn addresses_say_what_they_are_of() {
    start();
    let memory = upload(&[0u32; 100]);
    use sys::CUpointer_attribute as A;
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 8), Ok(2));
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, memory), Ok(0));
    assert_eq!(attribute::<i32>(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), Ok(0));
    assert_eq!(attribute::<usize>(A::CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory + 8), Ok(400));
    let on_stack = 0u32;
    let stranger = (&raw const on_stack).addr() as u64;
    assert_eq!(
        attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, stranger),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    let (mut kind, mut managed) = (7u32, 7u32);
    let mut numbers = [A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, A::CU_POINTER_ATTRIBUTE_IS_MANAGED];
    let mut outs: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut managed).cast()];
    // SAFETY: the attributes are of these types.
    unsafe { sys::cuPointerGetAttributes(2, numbers.as_mut_ptr(), outs.as_mut_ptr(), stranger) }.result().unwrap();
    assert_eq!((kind, managed), (0, 0));
    let (mut base, mut size) = (0, 0);
    // SAFETY: the pointers are to this function's variables.
    unsafe { sys::cuMemGetAddressRange_v2(&mut base, &mut size, memory + 40) }.result().unwrap();
    assert_eq!((base, size), (memory, 400));
}

#[test]
fn copies_of_rows_and_planes() {
    start();
    let host: Vec<u8> = (0..60).collect();
    let device = upload(&[0u8; 64]);
    // SAFETY: all structs are plain numbers, and the rows are inside what they are of.
    unsafe {
        // The inner 3 by 2 of rows of 6 bytes, to rows of 8.
        let mut zeroed = MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
        let copy = &mut *zeroed.as_mut_ptr();
        copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = host.as_ptr().cast();
        (copy.srcPitch, copy.srcXInBytes, copy.srcY) = (6, 1, 1);
        copy.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        (copy.dstDevice, copy.dstPitch) = (device, 8);
        (copy.WidthInBytes, copy.Height) = (3, 2);
        sys::cuMemcpy2D_v2(copy).result().unwrap();
        assert_eq!(download::<u8>(device, 16), [7, 8, 9, 0, 0, 0, 0, 0, 13, 14, 15, 0, 0, 0, 0, 0]);
        let mut zeroed = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
        let copy = &mut *zeroed.as_mut_ptr();
        copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = host.as_ptr().cast();
        (copy.srcPitch, copy.srcHeight, copy.srcZ) = (4, 5, 1);
        copy.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED;
        (copy.dstDevice, copy.dstPitch, copy.dstHeight) = (device, 2, 2);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (2, 2, 2);
        sys::cuMemcpy3D_v2(copy).result().unwrap();
        assert_eq!(download::<u8>(device, 8), [20, 21, 24, 25, 40, 41, 44, 45]);
    }
}

#[test]
fn fills_of_all_widths() {
    start();
    let memory = upload(&[0u8; 32]);
    // SAFETY: the memory is there.
    unsafe {
        sys::cuMemsetD8_v2(memory, 0xab, 4).result().unwrap();
        sys::cuMemsetD16_v2(memory + 4, 0x1234, 2).result().unwrap();
        sys::cuMemsetD32_v2(memory + 8, 0x0102_0304, 1).result().unwrap();
        sys::cuMemsetD2D8_v2(memory + 16, 8, 7, 2, 2).result().unwrap();
        assert_eq!(sys::cuMemsetD32_v2(memory + 1, 0, 1), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let expect = [0xab, 0xab, 0xab, 0xab, 0x34, 0x12, 0x34, 0x12, 4, 3, 2, 1];
    let found = download::<u8>(memory, 32);
    assert_eq!(found[..12], expect);
    assert_eq!(found[16..], [7, 7, 0, 0, 0, 0, 0, 0, 7, 7, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn unified_copies_find_out_their_direction() {
    start();
    let (host, mut back) = ([1u32, 2, 3], [0u32; 3]);
    let (a, b) = (upload(&[0u32; 3]), upload(&[0u32; 3]));
    // SAFETY: all are of twelve bytes.
    unsafe {
        sys::cuMemcpy(a, host.as_ptr().addr() as u64, 12).result().unwrap();
        sys::cuMemcpy(b, a, 12).result().unwrap();
        sys::cuMemcpyAsync(back.as_mut_ptr().addr() as u64, b, 12, NO_STREAM).result().unwrap();
    }
    assert_eq!(back, host);
}

#[test]
fn copies_past_the_end_are_refused() {
    start();
    let memory = upload(&[0u32; 4]);
    let mut back = [0u32; 5];
    // SAFETY: the call refuses what is not there.
    unsafe {
        assert_eq!(result::memcpy_dtoh_sync(&mut back, memory).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(result::memcpy_htod_sync(memory + 8, &back).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(result::free_sync(memory + 4).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
        result::free_sync(memory).unwrap();
        assert_eq!(result::free_sync(memory).unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn pools_count_what_is_in_use() {
    start();
    // SAFETY: the pool and its memory are used and ended here.
    unsafe {
        let mut properties: sys::CUmemPoolProps = std::mem::zeroed();
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.maxSize = 1 << 20;
        let mut pool = std::ptr::null_mut();
        sys::cuMemPoolCreate(&mut pool, &properties).result().unwrap();
        let number = |which| {
            let mut value = 0u64;
            sys::cuMemPoolGetAttribute(pool, which, (&raw mut value).cast()).result().unwrap();
            value
        };
        use sys::CUmemPool_attribute as A;
        let mut threshold = 4096u64;
        let release = A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, release, (&raw mut threshold).cast()).result().unwrap();
        assert_eq!(number(release), 4096);
        let (mut a, mut b) = (0, 0);
        sys::cuMemAllocFromPoolAsync(&mut a, 1000, pool, NO_STREAM).result().unwrap();
        sys::cuMemAllocFromPoolAsync(&mut b, 500, pool, NO_STREAM).result().unwrap();
        assert_eq!(number(A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1500);
        let more = sys::cuMemAllocFromPoolAsync(&mut 0, 1 << 20, pool, NO_STREAM);
        assert_eq!(more, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        sys::cuMemFreeAsync(a, NO_STREAM).result().unwrap();
        assert_eq!(number(A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 500);
        assert_eq!(number(A::CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1500);
        sys::cuMemFreeAsync(b, NO_STREAM).result().unwrap();
        sys::cuMemPoolDestroy(pool).result().unwrap();
        let mut default = std::ptr::null_mut();
        sys::cuDeviceGetDefaultMemPool(&mut default, 0).result().unwrap();
        assert_eq!(sys::cuMemPoolDestroy(default), CUresult::CUDA_ERROR_INVALID_VALUE);
        let mut c = 0;
        sys::cuMemAllocAsync(&mut c, 64, NO_STREAM).result().unwrap();
        sys::cuMemFreeAsync(c, NO_STREAM).result().unwrap();
    }
}
