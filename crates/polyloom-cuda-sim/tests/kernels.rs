//! Kernels: launches in all forms, what they find in memory, and what they print.

use crate::driver::{in_child, is_child, library, start};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CString, c_void};

/// `out[i] = a * x[i] + out[i]` for `i < n`.
pub(crate) const SAXPY: &str = "
    .version 7.1
    .target sm_80
    .address_size 64
    .visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 out, .param .u32 n) {
        .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
        mad.lo.u32 %r4, %r2, %r3, %r1;
        ld.param.u32 %r5, [n];
        setp.ge.u32 %p, %r4, %r5;
        @%p ret;
        ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out];
        mul.wide.u32 %rd3, %r4, 4;
        add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
        ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5];
        fma.rn.f32 %f3, %f1, %f2, %f3;
        st.global.f32 [%rd5], %f3;
        ret;
    }
";

/// A module of this text.
pub(crate) fn load(text: &str) -> sys::CUmodule {
    let text = CString::new(text).unwrap();
    // SAFETY: the text ends in a zero byte.
    unsafe { result::module::load_data(text.as_ptr().cast()) }.unwrap()
}

pub(crate) fn function(module: sys::CUmodule, name: &str) -> sys::CUfunction {
    // SAFETY: the module is loaded.
    unsafe { result::module::get_function(module, CString::new(name).unwrap()) }.unwrap()
}

/// Device memory with these numbers.
pub(crate) fn upload<T: Copy>(values: &[T]) -> u64 {
    // SAFETY: there is room for as many.
    unsafe {
        let memory = result::malloc_sync(size_of_val(values)).unwrap();
        result::memcpy_htod_sync(memory, values).unwrap();
        memory
    }
}

pub(crate) fn download<T: Copy + Default>(memory: u64, n: usize) -> Vec<T> {
    let mut values = vec![T::default(); n];
    // SAFETY: there are as many.
    unsafe { result::memcpy_dtoh_sync(&mut values, memory) }.unwrap();
    values
}

/// Launches a function with these parameters, by pointers to them.
pub(crate) fn launch(
    function: sys::CUfunction,
    (grid, block): (u32, u32),
    stream: sys::CUstream,
    params: &[&dyn Pointed],
) -> Result<(), cudarc::driver::DriverError> {
    let mut pointers: Vec<*mut c_void> = params.iter().map(|param| (**param).pointer()).collect();
    // SAFETY: the parameters are those of the function.
    unsafe { result::launch_kernel(function, (grid, 1, 1), (block, 1, 1), 0, stream, &mut pointers) }
}

pub(crate) trait Pointed {
    fn pointer(&self) -> *mut c_void;
}

impl<T: Copy> Pointed for T {
    fn pointer(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

const NO_STREAM: sys::CUstream = std::ptr::null_mut();

#[test]
fn a_kernel_computes_with_parameters_by_pointers() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let n = 1000u32;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (x, out) = (upload(&x), upload(&vec![1f32; n as usize]));
    launch(saxpy, (4, 256), NO_STREAM, &[&2f32, &x, &out, &n]).unwrap();
    let found: Vec<f32> = download(out, n as usize);
    assert!(found.iter().enumerate().all(|(i, value)| *value == 2.0 * i as f32 + 1.0));
}

#[test]
fn parameters_may_come_in_a_buffer() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let (x, out) = (upload(&[1f32, 2.0, 3.0]), upload(&[0f32; 3]));
    // As the kernel has them: 4 bytes, 4 of padding, 8, 8 and 4.
    let mut buffer = Vec::new();
    buffer.extend(10f32.to_le_bytes());
    buffer.extend([0; 4]);
    buffer.extend(x.to_le_bytes());
    buffer.extend(out.to_le_bytes());
    buffer.extend(3u32.to_le_bytes());
    let mut length = buffer.len();
    let mut extra: [*mut c_void; 5] = [
        std::ptr::without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(2),
        (&raw mut length).cast(),
        std::ptr::null_mut(),
    ];
    // SAFETY: the buffer has the parameters of the function.
    unsafe {
        let none = std::ptr::null_mut();
        sys::cuLaunchKernel(saxpy, 1, 1, 1, 32, 1, 1, 0, NO_STREAM, none, extra.as_mut_ptr()).result().unwrap();
    }
    assert_eq!(download::<f32>(out, 3), [10.0, 20.0, 30.0]);
}

#[test]
fn pointers_in_structs_are_followed() {
    start();
    // `*(*node).value += 1`, and the next of the list.
    let text = "
        .version 7.1
        .target sm_80
        .address_size 64
        .visible .entry walk(.param .u64 list) {
            .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<3>;
            ld.param.u64 %rd1, [list];
            next:
            setp.eq.u64 %p, %rd1, 0;
            @%p ret;
            ld.u64 %rd2, [%rd1];
            ld.u32 %r1, [%rd2];
            add.u32 %r1, %r1, 1;
            st.u32 [%rd2], %r1;
            ld.u64 %rd1, [%rd1+8];
            bra next;
        }";
    let walk = function(load(text), "walk");
    let (a, b) = (upload(&[5u32]), upload(&[7u32]));
    let last = upload(&[b, 0u64]);
    let first = upload(&[a, last]);
    launch(walk, (1, 1), NO_STREAM, &[&first]).unwrap();
    assert_eq!((download::<u32>(a, 1), download::<u32>(b, 1)), (vec![6], vec![8]));
}

#[test]
fn functions_say_what_they_take() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    use sys::CUfunction_attribute as A;
    // SAFETY: the function is of a live module.
    let attribute = |which| unsafe { result::function::get_function_attribute(saxpy, which) }.unwrap();
    assert_eq!(attribute(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_eq!(attribute(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    assert_eq!(attribute(A::CU_FUNC_ATTRIBUTE_PTX_VERSION), 71);
    assert_eq!(attribute(A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 48 << 10);
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the pointers are to this function's variables.
    unsafe {
        let out = 2;
        sys::cuFuncGetParamInfo(saxpy, out, &mut offset, &mut size).result().unwrap();
        assert_eq!((offset, size), (16, 8));
        let mut blocks = 0;
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, saxpy, 256, 0).result().unwrap();
        assert_eq!(blocks, 6, "sm_86 has 1536 threads");
        let (mut grid, mut block) = (0, 0);
        sys::cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, saxpy, None, 0, 0).result().unwrap();
        assert_eq!((grid * block) % 1536, 0, "{grid} blocks of {block}");
    }
}

#[test]
fn dynamic_shared_memory_has_to_be_allowed() {
    start();
    let text = "
        .version 7.1
        .target sm_80
        .address_size 64
        .extern .shared .align 4 .b8 all[];
        .visible .entry last(.param .u64 out, .param .u32 at) {
            .reg .b32 %r<4>; .reg .b64 %rd<2>;
            ld.param.u32 %r1, [at];
            mov.u32 %r2, all;
            add.u32 %r2, %r2, %r1;
            st.shared.u32 [%r2], 9;
            ld.shared.u32 %r3, [%r2];
            ld.param.u64 %rd1, [out];
            st.global.u32 [%rd1], %r3;
            ret;
        }";
    let last = function(load(text), "last");
    let (out, bytes) = (upload(&[0u32]), 64u32 << 10);
    let at = bytes - 4;
    let mut params = [out.pointer(), at.pointer()];
    // SAFETY: the parameters are those of the function.
    let mut run = || unsafe { result::launch_kernel(last, (1, 1, 1), (1, 1, 1), bytes, NO_STREAM, &mut params) };
    assert_eq!(run().unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
    // SAFETY: the function is of a live module.
    unsafe {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        result::function::set_function_attribute(last, attribute, bytes as i32).unwrap();
        let most = result::function::set_function_attribute(last, attribute, 200 << 10);
        assert_eq!(most.unwrap_err().0, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    run().unwrap();
    assert_eq!(download::<u32>(out, 1), [9]);
}

#[test]
fn what_kernels_print_comes_when_the_device_is_waited_for() {
    if !is_child() {
        let text = in_child("kernels::what_kernels_print_comes_when_the_device_is_waited_for", &[]);
        let (before, after) = text.split_once("waiting\n").expect("the test says when it waits");
        assert!(!before.contains("thread") && after.contains("thread 0\nthread 1\n"), "{text}");
        return;
    }
    start();
    let text = "
        .version 7.1
        .target sm_80
        .address_size 64
        .extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
        .global .align 1 .b8 format[11] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 10, 0};
        .visible .entry speak() {
            .local .align 8 .b8 values[8];
            .reg .b32 %r<3>; .reg .b64 %rd<4>;
            mov.u32 %r1, %tid.x;
            st.local.u32 [values], %r1;
            mov.u64 %rd1, values;
            cvta.local.u64 %rd2, %rd1;
            mov.u64 %rd3, format;
            cvta.global.u64 %rd3, %rd3;
            { .param .b64 p0; .param .b64 p1; .param .b32 r;
              st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd2;
              call.uni (r), vprintf, (p0, p1); }
            ret;
        }";
    launch(function(load(text), "speak"), (1, 2), NO_STREAM, &[]).unwrap();
    println!("waiting");
    result::ctx::synchronize().unwrap();
}

/// Thread 0 of each block of a cluster loads its rows of a tile of four columns, and gives them to the next block's
/// shared memory; the next block writes them to its rows of `out`.
const RING: &str = "
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry ring(.param .align 64 .b8 map[128], .param .u64 out) {
        .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
        .shared .align 128 .b8 tile[256];
        .shared .align 8 .b64 bar;
        mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %ctaid.x;
        add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2;
        mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
        mbarrier.init.shared.b64 [bar], 1;
        mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;
        shl.b32 %r5, %r3, 1; mov.u32 %r6, 0;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r6, %r5}], [bar];
        W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
        @!%p1 bra W;
        mov.u32 %r7, tile; mapa.shared::cluster.u32 %r8, %r7, %r4;
        ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [tile];
        st.shared::cluster.v4.u32 [%r8+128], {%r9, %r10, %r11, %r12};
        ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [tile+16];
        st.shared::cluster.v4.u32 [%r8+144], {%r9, %r10, %r11, %r12};
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r3, 32; add.u64 %rd2, %rd2, %rd3;
        ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [tile+128];
        st.global.v4.u32 [%rd2], {%r9, %r10, %r11, %r12};
        ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [tile+144];
        st.global.v4.u32 [%rd2+16], {%r9, %r10, %r11, %r12};
        ret;
    }
";

#[test]
fn clusters_and_tensor_maps() {
    if !is_child() {
        let told = in_child(
            "kernels::clusters_and_tensor_maps",
            &[("POLYLOOM_GPU_ARCH", "sm_90"), ("POLYLOOM_GPU_SANITIZE", "all")],
        );
        assert!(told.contains("not all multiples of 16"), "{told}");
        return;
    }
    start();
    let device = result::device::get(0).unwrap();
    let mut has_clusters = 0;
    // SAFETY: the place of the result is there.
    let asked = unsafe {
        sys::cuDeviceGetAttribute(
            &mut has_clusters,
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
            device,
        )
    };
    assert_eq!((asked, has_clusters), (CUresult::CUDA_SUCCESS, 1));
    let values: Vec<u32> = (0..32).collect();
    let (tensor, out) = (upload(&values), upload(&[0u32; 32]));
    let encode = |row_bytes: u64| {
        // SAFETY: the map has 128 bytes that are all written, and the lists have as many numbers as there are axes.
        unsafe {
            let mut map = std::mem::zeroed::<sys::CUtensorMap>();
            let done = sys::cuTensorMapEncodeTiled(
                &mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
                2,
                std::ptr::with_exposed_provenance_mut(tensor as usize),
                [4u64, 8].as_ptr(),
                [row_bytes].as_ptr(),
                [4u32, 2].as_ptr(),
                [1u32, 1].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            );
            (done, map)
        }
    };
    assert_eq!(encode(12).0, CUresult::CUDA_ERROR_INVALID_VALUE);
    let (done, map) = encode(16);
    assert_eq!(done, CUresult::CUDA_SUCCESS);
    let ring = function(load(RING), "ring");
    let launch = |n_blocks: u32| {
        let mut pointers = [map.pointer(), out.pointer()];
        // SAFETY: the attribute's union is of plain words.
        let mut attribute = unsafe { std::mem::zeroed::<sys::CUlaunchAttribute>() };
        attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = n_blocks;
        attribute.value.clusterDim.y = 1;
        attribute.value.clusterDim.z = 1;
        // SAFETY: all fields are set that matter.
        let mut configuration = unsafe { std::mem::zeroed::<sys::CUlaunchConfig>() };
        (configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ) = (4, 1, 1);
        (configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ) = (1, 1, 1);
        (configuration.attrs, configuration.numAttrs) = (&raw mut attribute, 1);
        // SAFETY: the parameters are those of the function.
        unsafe { sys::cuLaunchKernelEx(&configuration, ring, pointers.as_mut_ptr(), std::ptr::null_mut()) }
    };
    for n_blocks in [4, 2] {
        assert_eq!(launch(n_blocks), CUresult::CUDA_SUCCESS);
        let expected: Vec<u32> = (0..32)
            .map(|i| {
                let (block, at) = (i / 8, i % 8);
                let before = block / n_blocks * n_blocks + (block + n_blocks - 1) % n_blocks;
                8 * before + at
            })
            .collect();
        assert_eq!(download::<u32>(out, 32), expected, "clusters of {n_blocks}");
    }
    assert_eq!(launch(16), CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
    // Attributes of later drivers are none of this one's, so that programs take the way that it has.
    // SAFETY: the function has this type.
    let set_attribute =
        unsafe { library().get::<unsafe extern "C" fn(sys::CUfunction, u32, i32) -> u32>(b"cuFuncSetAttribute") };
    // SAFETY: the function is there.
    let later = unsafe { (set_attribute.unwrap())(ring, 17, 3) };
    assert_eq!(later, CUresult::CUDA_ERROR_INVALID_VALUE as u32);
    assert_eq!(launch(3), CUresult::CUDA_ERROR_INVALID_VALUE);
}
