//! Arrays, their copies, and textures and surfaces of them, through the C functions.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{download, function, launch, load, upload};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::mem::MaybeUninit;

const NO_STREAM: sys::CUstream = std::ptr::null_mut();
const FLOAT: sys::CUarray_format = sys::CUarray_format::CU_AD_FORMAT_FLOAT;

/// `out[i]` becomes the four channels at (x, y) = (i % 4 + 0.5, i / 4 + 0.5), or the word at byte 4 (i % 4) of row i / 4.
/// `put` writes thread numbers there.
const KERNELS: &str = "
    .version 7.1
    .target sm_80
    .address_size 64
    .visible .entry sample(.param .u64 texture, .param .u64 out) {
        .reg .b32 %r<4>; .reg .f32 %f<8>; .reg .b64 %rd<4>;
        ld.param.u64 %rd0, [texture]; ld.param.u64 %rd1, [out];
        mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 3; shr.u32 %r2, %r0, 2;
        cvt.rn.f32.u32 %f0, %r1; cvt.rn.f32.u32 %f1, %r2;
        add.f32 %f0, %f0, 0f3F000000; add.f32 %f1, %f1, 0f3F000000;
        tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd0, {%f0, %f1}];
        mul.wide.u32 %rd2, %r0, 16; add.u64 %rd3, %rd1, %rd2;
        st.global.v4.f32 [%rd3], {%f2, %f3, %f4, %f5};
        ret;
    }
    .visible .entry fetch(.param .u64 texture, .param .u64 out) {
        .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
        ld.param.u64 %rd0, [texture]; ld.param.u64 %rd1, [out];
        mov.u32 %r0, %tid.x;
        tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%r0}];
        mul.wide.u32 %rd2, %r0, 16; add.u64 %rd3, %rd1, %rd2;
        st.global.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};
        ret;
    }
    .visible .entry put(.param .u64 surface) {
        .reg .b32 %r<4>; .reg .b64 %rd<2>;
        ld.param.u64 %rd0, [surface];
        mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 3; shl.b32 %r1, %r1, 2; shr.u32 %r2, %r0, 2;
        sust.b.2d.b32.trap [%rd0, {%r1, %r2}], %r0;
        ret;
    }";

fn array_of(description: sys::CUDA_ARRAY3D_DESCRIPTOR) -> Result<sys::CUarray, CUresult> {
    let mut array = std::ptr::null_mut();
    // SAFETY: the pointers are to this function's variables.
    match unsafe { sys::cuArray3DCreate_v2(&mut array, &description) } {
        CUresult::CUDA_SUCCESS => Ok(array),
        error => Err(error),
    }
}

fn description(
    extents: [usize; 3],
    format: sys::CUarray_format,
    n_channels: u32,
    flags: u32,
) -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    let [width, height, depth] = extents;
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Depth: depth,
        Format: format,
        NumChannels: n_channels,
        Flags: flags,
    }
}

fn array(extents: [usize; 3], n_channels: u32, flags: u32) -> sys::CUarray {
    array_of(description(extents, FLOAT, n_channels, flags)).unwrap()
}

/// A resource that is an array.
fn of_array(array: sys::CUarray) -> sys::CUDA_RESOURCE_DESC {
    // SAFETY: the union is of plain words.
    let mut resource = unsafe { MaybeUninit::<sys::CUDA_RESOURCE_DESC>::zeroed().assume_init() };
    resource.res.array.hArray = array;
    resource
}

fn plain_texture() -> sys::CUDA_TEXTURE_DESC {
    // SAFETY: all zeros are a wrapping, unfiltered texture by counted texels.
    let mut texture = unsafe { MaybeUninit::<sys::CUDA_TEXTURE_DESC>::zeroed().assume_init() };
    texture.addressMode = [sys::CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3];
    texture
}

fn texture(resource: &sys::CUDA_RESOURCE_DESC, texture: &sys::CUDA_TEXTURE_DESC) -> Result<u64, CUresult> {
    let mut object = 0;
    // SAFETY: the pointers are to what they say, or null.
    match unsafe { sys::cuTexObjectCreate(&mut object, resource, texture, std::ptr::null()) } {
        CUresult::CUDA_SUCCESS => Ok(object),
        error => Err(error),
    }
}

fn surface(array: sys::CUarray) -> Result<u64, CUresult> {
    let mut object = 0;
    // SAFETY: as above.
    match unsafe { sys::cuSurfObjectCreate(&mut object, &of_array(array)) } {
        CUresult::CUDA_SUCCESS => Ok(object),
        error => Err(error),
    }
}

/// One side of a copy of rows of an array, or of dense rows of the host's.
enum Side<'a> {
    Array(sys::CUarray, [usize; 2]),
    From(&'a [f32], usize),
    To(&'a mut [f32], usize),
}

/// Copies so many bytes of so many rows.
fn copy_rows(from: Side<'_>, to: Side<'_>, width: usize, height: usize) -> CUresult {
    use sys::CUmemorytype::{CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_HOST};
    let mut zeroed = MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
    // SAFETY: the struct is of plain numbers, and the types of memory are written before they are read.
    let copy = unsafe { &mut *zeroed.as_mut_ptr() };
    (copy.WidthInBytes, copy.Height) = (width, height);
    match from {
        Side::Array(array, [x, y]) => {
            copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
            (copy.srcArray, copy.srcXInBytes, copy.srcY) = (array, x, y);
        }
        Side::From(values, pitch) => {
            copy.srcMemoryType = CU_MEMORYTYPE_HOST;
            (copy.srcHost, copy.srcPitch) = (values.as_ptr().cast(), pitch);
        }
        Side::To(..) => unreachable!("nothing is copied from there"),
    }
    match to {
        Side::Array(array, [x, y]) => {
            copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
            // An array has a pitch of its own, whatever this is.
            (copy.dstArray, copy.dstXInBytes, copy.dstY, copy.dstPitch) = (array, x, y, 1);
        }
        Side::To(values, pitch) => {
            copy.dstMemoryType = CU_MEMORYTYPE_HOST;
            (copy.dstHost, copy.dstPitch) = (values.as_mut_ptr().cast(), pitch);
        }
        Side::From(..) => unreachable!("nothing is copied there"),
    }
    // SAFETY: the rows are inside what they are of.
    unsafe { sys::cuMemcpy2D_v2(copy) }
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|number| number as f32).collect()
}

#[test]
fn arrays_say_what_they_are() {
    start();
    let plain = sys::CUDA_ARRAY_DESCRIPTOR { Width: 7, Height: 3, Format: FLOAT, NumChannels: 2 };
    let mut array = std::ptr::null_mut();
    // SAFETY: the pointers are to this function's variables.
    unsafe {
        sys::cuArrayCreate_v2(&mut array, &plain).result().unwrap();
        let mut found = sys::CUDA_ARRAY_DESCRIPTOR {
            Width: 0,
            Height: 0,
            Format: sys::CUarray_format::CU_AD_FORMAT_HALF,
            NumChannels: 0,
        };
        sys::cuArrayGetDescriptor_v2(&mut found, array).result().unwrap();
        assert_eq!((found.Width, found.Height, found.Format, found.NumChannels), (7, 3, FLOAT, 2));
        let mut found = description([1; 3], FLOAT, 1, 8);
        sys::cuArray3DGetDescriptor_v2(&mut found, array).result().unwrap();
        assert_eq!((found.Width, found.Height, found.Depth, found.Flags), (7, 3, 0, 0));
        sys::cuArrayDestroy(array).result().unwrap();
        assert_eq!(sys::cuArrayDestroy(array), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(sys::cuArray3DGetDescriptor_v2(&mut found, array), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(sys::cuArrayCreate_v2(&mut array, std::ptr::null()), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn arrays_that_cannot_be() {
    start();
    const LAYERED: u32 = 1;
    let error = |extents, n_channels, flags| array_of(description(extents, FLOAT, n_channels, flags)).unwrap_err();
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(error([0, 0, 0], 1, 0), invalid);
    assert_eq!(error([4, 0, 3], 1, 0), invalid, "planes of no rows");
    assert_eq!(error([4, 4, 0], 3, 0), invalid, "three channels");
    assert_eq!(error([131_073, 0, 0], 1, 0), invalid);
    assert_eq!(error([16_385, 2, 2], 1, 0), invalid);
    assert_eq!(error([4, 4, 2049], 1, LAYERED), invalid);
    assert_eq!(error([4, 0, 0], 1, LAYERED), invalid, "no layers");
    assert_eq!(error([4, 4, 0], 1, 0x8000), invalid, "an unknown flag");
    assert_eq!(error([4, 4, 6], 1, 4), CUresult::CUDA_ERROR_NOT_SUPPORTED, "a cube map");
    let mut planes = description([4, 4, 0], FLOAT, 1, 0);
    planes.Format = sys::CUarray_format::CU_AD_FORMAT_NV12;
    assert_eq!(array_of(planes).unwrap_err(), CUresult::CUDA_ERROR_NOT_SUPPORTED);
    // 16,384 by 16,384 by 16,384 texels of 16 bytes are more than there is.
    assert_eq!(error([16_384, 16_384, 16_384], 4, 0), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let layers = array_of(description([4, 0, 3], FLOAT, 1, LAYERED)).unwrap();
    // SAFETY: it is destroyed once.
    unsafe { sys::cuArrayDestroy(layers) }.result().unwrap();
}

#[test]
fn rows_go_to_arrays_and_back() {
    start();
    let (here, there) = (array([5, 3, 0], 1, 0), array([5, 3, 0], 1, 0));
    let values = numbers(18);
    // Rows of six floats, of which an array takes five.
    assert_eq!(copy_rows(Side::From(&values, 24), Side::Array(here, [0, 0]), 20, 3), CUresult::CUDA_SUCCESS);
    // A part from one array to another.
    assert_eq!(copy_rows(Side::From(&[0.0; 15], 20), Side::Array(there, [0, 0]), 20, 3), CUresult::CUDA_SUCCESS);
    assert_eq!(copy_rows(Side::Array(here, [4, 1]), Side::Array(there, [8, 0]), 8, 2), CUresult::CUDA_SUCCESS);
    let mut back = vec![9.0; 15];
    assert_eq!(copy_rows(Side::Array(there, [0, 0]), Side::To(&mut back, 20), 20, 3), CUresult::CUDA_SUCCESS);
    assert_eq!(back, [0.0, 0.0, 7.0, 8.0, 0.0, 0.0, 0.0, 13.0, 14.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(copy_rows(Side::From(&values, 24), Side::Array(here, [4, 0]), 20, 3), invalid, "past the end of rows");
    assert_eq!(copy_rows(Side::From(&values, 24), Side::Array(here, [0, 1]), 20, 3), invalid, "past the last row");
    assert_eq!(copy_rows(Side::From(&values, 24), Side::Array(here, [0, 0]), 6, 3), invalid, "half a texel");
    assert_eq!(copy_rows(Side::From(&values, 24), Side::Array(here, [usize::MAX - 3, 0]), 20, 3), invalid);
    // SAFETY: each is destroyed once.
    unsafe {
        sys::cuArrayDestroy(here).result().unwrap();
        sys::cuArrayDestroy(there).result().unwrap();
    }
    let gone = copy_rows(Side::From(&values, 24), Side::Array(here, [0, 0]), 20, 3);
    assert_eq!(gone, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn planes_go_to_arrays_in_streams_and_graphs() {
    start();
    use sys::CUmemorytype::{CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
    let (values, cube) = (numbers(24), array([3, 2, 4], 1, 0));
    let device = upload(&[9f32; 24]);
    let mut zeroed = [MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed(); 2];
    // SAFETY: all structs are plain numbers, and the planes are inside what they are of.
    unsafe {
        let copy = &mut *zeroed[0].as_mut_ptr();
        (copy.srcMemoryType, copy.dstMemoryType) = (CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY);
        (copy.srcHost, copy.srcPitch, copy.srcHeight, copy.dstArray) = (values.as_ptr().cast(), 12, 2, cube);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (12, 2, 4);
        sys::cuMemcpy3D_v2(copy).result().unwrap();
        // The later column of the inner planes, in a graph.
        let copy = &mut *zeroed[1].as_mut_ptr();
        (copy.srcMemoryType, copy.dstMemoryType) = (CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE);
        (copy.srcArray, copy.srcXInBytes, copy.srcZ) = (cube, 8, 1);
        (copy.dstDevice, copy.dstPitch, copy.dstHeight) = (device, 4, 2);
        (copy.WidthInBytes, copy.Height, copy.Depth) = (4, 2, 2);
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        result::stream::begin_capture(stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        sys::cuMemcpy3DAsync_v2(copy, stream).result().unwrap();
        let graph = result::stream::end_capture(stream).unwrap();
        let mut executable = std::ptr::null_mut();
        sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0).result().unwrap();
        assert_eq!(download::<f32>(device, 4), [9.0; 4]);
        sys::cuGraphLaunch(executable, stream).result().unwrap();
        assert_eq!(download::<f32>(device, 5), [8.0, 11.0, 14.0, 17.0, 9.0]);
        copy.srcZ = 3;
        assert_eq!(sys::cuMemcpy3D_v2(copy), CUresult::CUDA_ERROR_INVALID_VALUE);
        (copy.srcZ, copy.srcLOD) = (0, 1);
        assert_eq!(sys::cuMemcpy3D_v2(copy), CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuArrayDestroy(cube).result().unwrap();
        // What the graph copies is gone.
        assert_eq!(sys::cuGraphLaunch(executable, stream), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn bytes_of_rows_are_copied_by_offsets() {
    start();
    let (row, other, square) = (array([6, 0, 0], 1, 0), array([6, 0, 0], 1, 0), array([6, 2, 0], 1, 0));
    let (values, device) = (numbers(6), upload(&[20f32, 21.0, 22.0]));
    let mut back = [0f32; 6];
    // SAFETY: the arrays and the memory have as many bytes.
    unsafe {
        sys::cuMemcpyHtoA_v2(row, 0, values.as_ptr().cast(), 24).result().unwrap();
        sys::cuMemcpyDtoA_v2(row, 8, device, 8).result().unwrap();
        sys::cuMemcpyAtoA_v2(other, 0, row, 4, 20).result().unwrap();
        sys::cuMemcpyHtoAAsync_v2(other, 20, values.as_ptr().cast(), 4, NO_STREAM).result().unwrap();
        sys::cuMemcpyAtoHAsync_v2(back.as_mut_ptr().cast(), other, 0, 24, NO_STREAM).result().unwrap();
        assert_eq!(back, [1.0, 20.0, 21.0, 4.0, 5.0, 0.0]);
        sys::cuMemcpyAtoH_v2(back.as_mut_ptr().cast(), row, 0, 24).result().unwrap();
        assert_eq!(back, [0.0, 1.0, 20.0, 21.0, 4.0, 5.0]);
        sys::cuMemcpyAtoD_v2(device, row, 16, 8).result().unwrap();
        assert_eq!(download::<f32>(device, 3), [4.0, 5.0, 22.0]);
        let error = sys::cuMemcpyHtoA_v2(row, 4, values.as_ptr().cast(), 24);
        assert_eq!(error, CUresult::CUDA_ERROR_INVALID_VALUE);
        let error = sys::cuMemcpyHtoA_v2(square, 0, values.as_ptr().cast(), 24);
        assert_eq!(error, CUresult::CUDA_ERROR_INVALID_VALUE, "an array of two axes");
    }
}

#[test]
fn kernels_fetch_from_arrays() {
    start();
    let image = array([4, 2, 0], 2, 0);
    let values = numbers(16);
    assert_eq!(copy_rows(Side::From(&values, 32), Side::Array(image, [0, 0]), 32, 2), CUresult::CUDA_SUCCESS);
    let object = texture(&of_array(image), &plain_texture()).unwrap();
    let (sample, out) = (function(load(KERNELS), "sample"), upload(&[0f32; 32]));
    launch(sample, (1, 8), NO_STREAM, &[&object, &out]).unwrap();
    let expected: Vec<f32> =
        (0..8).flat_map(|texel| [2.0 * texel as f32, 2.0 * texel as f32 + 1.0, 0.0, 1.0]).collect();
    assert_eq!(download::<f32>(out, 32), expected);
    // SAFETY: the pointers are to this function's variables, and the objects are ended once.
    unsafe {
        let mut resource = MaybeUninit::<sys::CUDA_RESOURCE_DESC>::zeroed().assume_init();
        sys::cuTexObjectGetResourceDesc(&mut resource, object).result().unwrap();
        assert_eq!((resource.resType, resource.res.array.hArray), (sys::CUresourcetype::CU_RESOURCE_TYPE_ARRAY, image));
        let mut found = MaybeUninit::<sys::CUDA_TEXTURE_DESC>::zeroed().assume_init();
        sys::cuTexObjectGetTextureDesc(&mut found, object).result().unwrap();
        assert_eq!(found.addressMode, plain_texture().addressMode);
        let mut view = MaybeUninit::<sys::CUDA_RESOURCE_VIEW_DESC>::zeroed().assume_init();
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        assert_eq!(sys::cuTexObjectGetResourceViewDesc(&mut view, object), invalid, "it has no view");
        assert_eq!(sys::cuSurfObjectDestroy(object), invalid, "it is no surface");
        assert_eq!(sys::cuSurfObjectGetResourceDesc(&mut resource, object), invalid);
        sys::cuTexObjectDestroy(object).result().unwrap();
        assert_eq!(sys::cuTexObjectDestroy(object), invalid);
    }
}

#[test]
fn textures_read_plain_memory_and_fractions() {
    start();
    let memory = upload(&[0u8, 51, 255, 102, 204, 153, 0, 0]);
    let bytes = sys::CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8;
    // SAFETY: the union is of plain words.
    let mut linear = unsafe { MaybeUninit::<sys::CUDA_RESOURCE_DESC>::zeroed().assume_init() };
    linear.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
    linear.res.linear = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
        devPtr: memory,
        format: bytes,
        numChannels: 2,
        sizeInBytes: 6,
    };
    let (fetch, out) = (function(load(KERNELS), "fetch"), upload(&[9f32; 16]));
    let fetched = |description: &sys::CUDA_TEXTURE_DESC| {
        let object = texture(&linear, description).unwrap();
        launch(fetch, (1, 4), NO_STREAM, &[&object, &out]).unwrap();
        download::<f32>(out, 16)
    };
    let found = fetched(&plain_texture());
    assert_eq!(found, [0.0, 0.2, 0.0, 1.0, 1.0, 0.4, 0.0, 1.0, 0.8, 0.6, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let mut integers = plain_texture();
    integers.flags = 1;
    let bits: Vec<u32> = fetched(&integers).into_iter().map(f32::to_bits).collect();
    assert_eq!(bits, [0, 51, 0, 1, 255, 102, 0, 1, 204, 153, 0, 1, 0, 0, 0, 1]);
    // Rows of memory, 32 bytes apart.
    let rows = upload(&numbers(16));
    // SAFETY: as above.
    let mut pitched = unsafe { MaybeUninit::<sys::CUDA_RESOURCE_DESC>::zeroed().assume_init() };
    pitched.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
    pitched.res.pitch2D = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_4 {
        devPtr: rows,
        format: FLOAT,
        numChannels: 1,
        width: 4,
        height: 2,
        pitchInBytes: 32,
    };
    let object = texture(&pitched, &plain_texture()).unwrap();
    let out = upload(&[0f32; 32]);
    launch(function(load(KERNELS), "sample"), (1, 8), NO_STREAM, &[&object, &out]).unwrap();
    let firsts: Vec<f32> = download::<f32>(out, 32).into_iter().step_by(4).collect();
    assert_eq!(firsts, [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]);
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    pitched.res.pitch2D.pitchInBytes = 16;
    assert_eq!(texture(&pitched, &plain_texture()), invalid, "a pitch that is no multiple of 32");
    linear.res.linear.devPtr = memory + 1;
    assert_eq!(texture(&linear, &plain_texture()), invalid, "an address that is no multiple of 512");
    linear.res.linear.devPtr = 512;
    assert_eq!(texture(&linear, &plain_texture()), invalid, "an address of nothing");
}

#[test]
fn textures_that_cannot_be() {
    start();
    let image = array_of(description([4, 2, 0], sys::CUarray_format::CU_AD_FORMAT_SIGNED_INT16, 1, 0)).unwrap();
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    let with = |change: &dyn Fn(&mut sys::CUDA_TEXTURE_DESC)| {
        let mut description = plain_texture();
        change(&mut description);
        texture(&of_array(image), &description)
    };
    let linear = sys::CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
    assert!(with(&|texture| texture.filterMode = linear).is_ok());
    assert_eq!(
        with(&|texture| (texture.filterMode, texture.flags) = (linear, 1)),
        invalid,
        "integers are not filtered"
    );
    assert_eq!(with(&|texture| texture.flags = 0x100), invalid);
    assert_eq!(with(&|texture| texture.flags = 0x10), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED), "sRGB");
    let mut levels = of_array(image);
    levels.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    assert_eq!(texture(&levels, &plain_texture()), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    assert_eq!(texture(&of_array(std::ptr::null_mut()), &plain_texture()), Err(CUresult::CUDA_ERROR_INVALID_HANDLE));
    // SAFETY: null pointers are refused before anything is read.
    unsafe {
        let none = sys::cuTexObjectCreate(&mut 0, std::ptr::null(), &plain_texture(), std::ptr::null());
        assert_eq!(none, CUresult::CUDA_ERROR_INVALID_VALUE);
        let view = MaybeUninit::<sys::CUDA_RESOURCE_VIEW_DESC>::zeroed().assume_init();
        let viewed = sys::cuTexObjectCreate(&mut 0, &of_array(image), &plain_texture(), &view);
        assert_eq!(viewed, CUresult::CUDA_ERROR_NOT_SUPPORTED);
        // Texture references have gone from CUDA 12.
        let name = c"image";
        let missing = sys::cuModuleGetTexRef(&mut std::ptr::null_mut(), load(KERNELS), name.as_ptr());
        assert_eq!(missing, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    assert_eq!(surface(image), invalid, "the array was not made for surfaces");
}

#[test]
fn kernels_write_to_arrays() {
    start();
    let image = array([4, 2, 0], 1, 2);
    let object = surface(image).unwrap();
    launch(function(load(KERNELS), "put"), (1, 8), NO_STREAM, &[&object]).unwrap();
    let mut back = vec![0f32; 8];
    assert_eq!(copy_rows(Side::Array(image, [0, 0]), Side::To(&mut back, 16), 16, 2), CUresult::CUDA_SUCCESS);
    assert_eq!(back.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), (0..8).collect::<Vec<u32>>());
    // SAFETY: the pointers are to this function's variables, and the objects are ended once.
    unsafe {
        let mut resource = MaybeUninit::<sys::CUDA_RESOURCE_DESC>::zeroed().assume_init();
        sys::cuSurfObjectGetResourceDesc(&mut resource, object).result().unwrap();
        assert_eq!(resource.res.array.hArray, image);
        sys::cuSurfObjectDestroy(object).result().unwrap();
    }
}

#[test]
fn what_is_outside_of_a_surface_ends_the_launch() {
    if !is_child() {
        let told =
            in_child("textures::what_is_outside_of_a_surface_ends_the_launch", &[("POLYLOOM_GPU_SANITIZE", "all")]);
        assert!(told.contains("access outside of a surface in kernel `put`: 4 bytes at byte 0 of row 2"), "{told}");
        return;
    }
    start();
    let object = surface(array([4, 2, 0], 1, 2)).unwrap();
    let ended = launch(function(load(KERNELS), "put"), (1, 12), NO_STREAM, &[&object]).unwrap_err();
    assert_eq!(ended.0, CUresult::CUDA_ERROR_LAUNCH_FAILED);
}

#[test]
fn fetches_from_what_has_gone_are_illegal() {
    if !is_child() {
        let told = in_child("textures::fetches_from_what_has_gone_are_illegal", &[("POLYLOOM_GPU_SANITIZE", "all")]);
        assert!(told.contains("the texture 0x") && told.contains("that was freed"), "{told}");
        return;
    }
    start();
    let image = array([4, 2, 0], 1, 0);
    let object = texture(&of_array(image), &plain_texture()).unwrap();
    // SAFETY: it is destroyed once.
    unsafe { sys::cuArrayDestroy(image) }.result().unwrap();
    let out = upload(&[0f32; 32]);
    let ended = launch(function(load(KERNELS), "sample"), (1, 8), NO_STREAM, &[&object, &out]).unwrap_err();
    assert_eq!(ended.0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn arrays_go_with_their_context() {
    if !is_child() {
        in_child("textures::arrays_go_with_their_context", &[]);
        return;
    }
    start();
    let free = result::mem_get_info().unwrap().0;
    let mut own = std::ptr::null_mut();
    // SAFETY: the context is made, used and ended here.
    unsafe {
        sys::cuCtxCreate_v2(&mut own, 0, 0).result().unwrap();
        let image = array([64, 64, 0], 4, 0);
        let object = texture(&of_array(image), &plain_texture()).unwrap();
        assert_eq!(result::mem_get_info().unwrap().0, free - 64 * 64 * 16);
        sys::cuCtxDestroy_v2(own).result().unwrap();
        start();
        assert_eq!(result::mem_get_info().unwrap().0, free);
        assert_eq!(sys::cuArrayDestroy(image), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(sys::cuTexObjectDestroy(object), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

#[test]
fn the_device_has_limits_of_textures() {
    start();
    let device = result::device::get(0).unwrap();
    use sys::CUdevice_attribute as A;
    // SAFETY: the device is the driver's.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) }.unwrap();
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH), 131_072);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH), 131_072);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT), 65_536);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH), 16_384);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH), 32_768);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS), 2048);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT), 65_536);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH), 16_384);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT), 32);
    assert_eq!(attribute(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH), 0, "there are none");
    let mut most = 0;
    // SAFETY: the pointer is to this function's variable.
    unsafe {
        sys::cuDeviceGetTexture1DLinearMaxWidth(&mut most, FLOAT, 1, device).result().unwrap();
        assert_eq!(most, 1 << 28);
        let error = sys::cuDeviceGetTexture1DLinearMaxWidth(&mut most, FLOAT, 3, device);
        assert_eq!(error, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}
