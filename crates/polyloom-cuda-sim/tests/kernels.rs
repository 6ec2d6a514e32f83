//! Kernels: launches in all forms, what they find in memory, and what they print.

use crate::driver::{in_child, is_child, start};
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
