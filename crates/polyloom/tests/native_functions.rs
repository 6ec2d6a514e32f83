//! Kernels and functions of values as C functions.

use polyloom::{
    ArgBlock, Defaults, Kernel, LaunchOptions, NativeArray, NativeCallError, NativeFunction, Scalar, Session,
    SourceFile, SourceUnit, has_llvm,
};
use std::ffi::c_void;
use std::sync::Arc;

const SOURCE: &str = "
import polyloom as loom

@loom.kernel
def scale(x: loom.array(dtype=float), y: loom.array(dtype=float), a: float):
    i = loom.tid()
    y[i] = a * x[i] + loom.sin(x[i])

@loom.kernel
def rotate(q: loom.quat, v: loom.array(dtype=loom.vec3), w: loom.array2d(dtype=float)):
    i, j = loom.tid()
    w[i, j] = loom.quat_rotate(q, v[i])[j] + w[i, j]

@loom.kernel
def total(x: loom.array(dtype=loom.float64), out: loom.array(dtype=loom.float64)):
    s = loom.float64(0.0)
    for i in range(x.shape[0]):
        s += x[i]
    out[0] = s

@loom.func
def notional(price: float, quantity: loom.int32) -> float:
    return price * float(quantity)

@loom.func
def small(a: loom.int8, b: loom.int8) -> loom.int8:
    return a - b

@loom.func
def is_between(x: float, low: float, high: float) -> bool:
    return low <= x and x <= high

@loom.func
def split(v: loom.vec3, s: float):
    return s * v, loom.length(v)

@loom.func
def quotient(a: loom.int32, b: loom.int32) -> loom.int32:
    assert b != 0, \"b is not 0\"
    return a // b

@loom.kernel
def narrowed(a: loom.float16, out: loom.array(dtype=loom.float16)):
    out[0] = a

@loom.kernel
def prints(x: loom.array(dtype=float)):
    print(x[loom.tid()])

@loom.kernel(block_dim=32)
def shares(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    tile = loom.shared_array(shape=32, dtype=float)
    i, t = loom.tid(), loom.thread_idx(0)
    tile[31 - t] = 0.0
    loom.sync_threads()
    tile[t] = x[i]
    loom.sync_threads()
    out[i] = tile[31 - t]
";

fn unit() -> Arc<SourceUnit> {
    SourceUnit::parse(SourceFile::new("native.py", SOURCE, 1)).unwrap()
}

fn kernel(session: &Session, name: &str) -> Arc<Kernel> {
    Arc::new(session.compile_file_kernel(&unit(), name).unwrap())
}

fn function(session: &Session, name: &str) -> NativeFunction {
    session.file_function(&unit(), name).unwrap()
}

fn dense(x: &mut [f32]) -> NativeArray<f32, 1> {
    NativeArray { data: x.as_mut_ptr(), shape: [x.len() as i64], strides: [4] }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn some_floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32).mul_add(0.37, -3.0)).collect()
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_kernel_is_called_with_extents_and_arrays_and_gives_the_bits_of_a_launch() {
    let session = Session::new().unwrap();
    let kernel = kernel(&session, "scale");
    let native = kernel.native_function().unwrap();
    native.prepare();
    let scale = native
        .typed::<unsafe extern "C" fn(i64, *const NativeArray<f32, 1>, *const NativeArray<f32, 1>, f32) -> i32>()
        .unwrap();
    for n in [0, 1, 2, 7, 16, 33, 1000] {
        let mut x = some_floats(n);
        let (mut called, mut launched) = (vec![0.0f32; n], vec![0.0f32; n]);
        let (from, to) = (dense(&mut x), dense(&mut called));
        // SAFETY: the arrays are alive, and as long as the launch.
        assert_eq!(unsafe { scale(n as i64, &from, &to, 1.5) }, 0);
        let mut args = ArgBlock::new();
        args.slice(kernel.params(), &mut x, &[n as u64]).unwrap();
        args.slice(kernel.params(), &mut launched, &[n as u64]).unwrap();
        args.scalar(kernel.params(), Scalar::F32, 1.5f32.to_bits().into()).unwrap();
        // SAFETY: as above.
        unsafe { kernel.launch(&[n as u64], &args, &LaunchOptions::default()) }.unwrap();
        assert_eq!(bits(&called), bits(&launched), "{n} elements");
        called.fill(0.0);
        let mut args = ArgBlock::new();
        args.slice(kernel.params(), &mut x, &[n as u64]).unwrap();
        args.slice(kernel.params(), &mut called, &[n as u64]).unwrap();
        args.scalar(kernel.params(), Scalar::F32, 1.5f32.to_bits().into()).unwrap();
        // SAFETY: as above; the block has the same arrays.
        unsafe { native.call(&[n as i64], &args) }.unwrap();
        assert_eq!(bits(&called), bits(&launched), "{n} elements in a block");
    }
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn strided_and_overlapping_arrays_run_the_code_for_any() {
    let session = Session::new().unwrap();
    let native = function(&session, "scale");
    let scale = native
        .typed::<unsafe extern "C" fn(i64, *const NativeArray<f32, 1>, *const NativeArray<f32, 1>, f32) -> i32>()
        .unwrap();
    let expect = |x: f32| 2.0 * x + (x as f64).sin() as f32;
    let mut memory = some_floats(200);
    let before = memory.clone();
    // Every third element backwards, into every second of what comes after.
    let from = NativeArray { data: &raw mut memory[90], shape: [31], strides: [-12] };
    let to = NativeArray { data: &raw mut memory[100], shape: [31], strides: [8] };
    // SAFETY: all elements are within `memory`.
    assert_eq!(unsafe { scale(31, &from, &to, 2.0) }, 0);
    for i in 0..31 {
        assert!((memory[100 + 2 * i] - expect(before[90 - 3 * i])).abs() < 1e-4);
        assert_eq!(memory[101 + 2 * i], before[101 + 2 * i], "elements between are left alone");
    }
    // An array shifted by one element onto itself: each thread in order sees what the one before has stored.
    let mut memory = [1.0f32; 50];
    let from = NativeArray { data: &raw mut memory[0], shape: [49], strides: [4] };
    let to = NativeArray { data: &raw mut memory[1], shape: [49], strides: [4] };
    // SAFETY: as above.
    assert_eq!(unsafe { scale(49, &from, &to, 0.5) }, 0);
    assert!((memory[1] - (0.5 + 1f32.sin())).abs() < 1e-6);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn composites_come_by_pointer_and_several_axes_as_several_extents() {
    let session = Session::new().unwrap();
    let native = function(&session, "rotate");
    type Rotate =
        unsafe extern "C" fn(i64, i64, *const f32, *const NativeArray<f32, 2>, *const NativeArray<f32, 2>) -> i32;
    let rotate = native.typed::<Rotate>().unwrap();
    // A quarter turn about the third axis takes the first to the second, and the second to the negative first.
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let q = [0.0, 0.0, half, half];
    let mut v = [1.0f32, 0.0, 0.0, 0.0, 2.0, 5.0];
    let mut w = [10.0f32; 6];
    let from = NativeArray { data: v.as_mut_ptr(), shape: [2, 3], strides: [12, 4] };
    let to = NativeArray { data: w.as_mut_ptr(), shape: [2, 3], strides: [12, 4] };
    // SAFETY: the arrays are alive.
    assert_eq!(unsafe { rotate(2, 3, q.as_ptr(), &from, &to) }, 0);
    for (value, expect) in w.iter().zip([10.0f32, 11.0, 10.0, 8.0, 10.0, 15.0]) {
        assert!((value - expect).abs() < 1e-5, "{w:?}");
    }
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_kernel_without_coordinates_is_called_without_extents_and_runs_once() {
    let session = Session::new().unwrap();
    let native = function(&session, "total");
    assert_eq!(native.signature().launch_rank, 0);
    let total =
        native.typed::<unsafe extern "C" fn(*const NativeArray<f64, 1>, *const NativeArray<f64, 1>) -> i32>().unwrap();
    let (mut x, mut out) = ([0.5f64, 0.25, 4.0], [0.0f64]);
    let from = NativeArray { data: x.as_mut_ptr(), shape: [3], strides: [8] };
    let to = NativeArray { data: out.as_mut_ptr(), shape: [1], strides: [8] };
    // SAFETY: the arrays are alive.
    assert_eq!(unsafe { total(&from, &to) }, 0);
    assert_eq!(out, [4.75]);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn functions_return_their_values() {
    let session = Session::new().unwrap();
    let notional = function(&session, "notional");
    let pointer = notional.typed::<unsafe extern "C" fn(f32, i32) -> f32>().unwrap();
    // SAFETY: here and below, the types are checked, and nothing but the results is written.
    assert_eq!(unsafe { pointer(2.5, -4) }, -10.0);
    let small = function(&session, "small");
    let pointer = small.typed::<unsafe extern "C" fn(i8, i8) -> i8>().unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { [pointer(3, 5), pointer(-100, 100)] }, [-2, 56]);
    let is_between = function(&session, "is_between");
    let pointer = is_between.typed::<unsafe extern "C" fn(f32, f32, f32) -> bool>().unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { [pointer(1.0, 0.0, 2.0), pointer(3.0, 0.0, 2.0)] }, [true, false]);
    let split = function(&session, "split");
    let pointer = split.typed::<unsafe extern "C" fn(*const f32, f32, *mut f32, *mut f32) -> i32>().unwrap();
    let (v, mut scaled, mut length) = ([2.0f32, 3.0, 6.0], [0.0f32; 3], 0.0f32);
    // SAFETY: as above; a vector has three components.
    assert_eq!(unsafe { pointer(v.as_ptr(), 0.5, scaled.as_mut_ptr(), &mut length) }, 0);
    assert_eq!((scaled, length), ([1.0, 1.5, 3.0], 7.0));
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_status_names_the_check_that_failed() {
    let session = Session::new().unwrap();
    session.set_defaults(Defaults { check: true, ..session.defaults() });
    let quotient = function(&session, "quotient");
    let pointer = quotient.typed::<unsafe extern "C" fn(i32, i32, *mut i32) -> i32>().unwrap();
    let mut result = 77;
    // SAFETY: the result has its memory.
    let [good, bad] = unsafe { [pointer(7, 2, &mut result), pointer(7, 0, &mut 0)] };
    assert_eq!((good, result), (0, 3));
    let report = quotient.site(bad).unwrap();
    assert!(report.message.contains("b is not 0") && report.message.contains("native.py"), "{}", report.message);
    assert!(quotient.site(0).is_none() && quotient.site(1000).is_none());
    let kernel = kernel(&session, "scale");
    let native = kernel.native_function().unwrap();
    let scale = native
        .typed::<unsafe extern "C" fn(i64, *const NativeArray<f32, 1>, *const NativeArray<f32, 1>, f32) -> i32>()
        .unwrap();
    let (mut x, mut y) = (some_floats(40), vec![0.0f32; 33]);
    let (from, to) = (dense(&mut x), dense(&mut y));
    // SAFETY: the kernel is checked, so it stays within the arrays.
    let status = unsafe { scale(40, &from, &to, 1.0) };
    let report = native.site(status).unwrap();
    assert!(report.message.contains("axis 0 of `y`"), "{}", report.message);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn what_is_seen_to_be_outside_of_an_array_is_refused_before_anything_runs() {
    let session = Session::new().unwrap();
    let native = function(&session, "scale");
    let (mut x, mut y) = (some_floats(40), vec![0.0f32; 33]);
    let mut args = ArgBlock::new();
    args.slice(native.params(), &mut x, &[40]).unwrap();
    args.slice(native.params(), &mut y, &[33]).unwrap();
    args.scalar(native.params(), Scalar::F32, 0).unwrap();
    // SAFETY: such a call is refused.
    let error = unsafe { native.call(&[40], &args) }.unwrap_err();
    assert!(matches!(error, NativeCallError::Launch(_)), "{error}");
    // SAFETY: as above.
    let error = unsafe { native.call(&[], &args) }.unwrap_err();
    assert_eq!(error.to_string(), "`scale` takes 1 extents, not 0");
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn other_types_are_refused() {
    let session = Session::new().unwrap();
    let native = function(&session, "notional");
    let check = |error: polyloom::CodegenError, expect: &str| assert_eq!(error.message, expect);
    check(
        native.typed::<unsafe extern "C" fn(f32) -> f32>().unwrap_err(),
        "`notional` has 2 parameters, not 1: price, quantity",
    );
    check(
        native.typed::<unsafe extern "C" fn(f32, i64) -> f32>().unwrap_err(),
        "`quantity` of `notional` is `i32`, not `i64`",
    );
    check(native.typed::<unsafe extern "C" fn(f32, i32) -> f64>().unwrap_err(), "`notional` returns f32, not f64");
    let native = function(&session, "total");
    type Total<T, const N: usize> = unsafe extern "C" fn(*const NativeArray<f64, 1>, *const NativeArray<T, N>) -> i32;
    native.typed::<Total<f64, 1>>().unwrap();
    check(
        native.typed::<Total<f32, 1>>().unwrap_err(),
        "`out` of `total` is `*const NativeArray<f64, 1>`, not `*const NativeArray<f32, 1>`",
    );
    check(
        native.typed::<Total<i64, 1>>().unwrap_err(),
        "`out` of `total` is `*const NativeArray<f64, 1>`, not `*const NativeArray<i64, 1>`",
    );
    check(
        native.typed::<Total<f64, 2>>().unwrap_err(),
        "`out` of `total` is `*const NativeArray<f64, 1>`, not `*const NativeArray<f64, 2>`",
    );
    // The elements of an array of vectors are their components, and 16-bit floats are their bits.
    let native = function(&session, "rotate");
    type Rotate<T> =
        unsafe extern "C" fn(i64, i64, *const f32, *const NativeArray<T, 2>, *const NativeArray<f32, 2>) -> i32;
    native.typed::<Rotate<f32>>().unwrap();
    check(
        native.typed::<Rotate<u32>>().unwrap_err(),
        "`v` of `rotate` is `*const NativeArray<f32, 2>`, not `*const NativeArray<u32, 2>`",
    );
    let native = function(&session, "narrowed");
    native.typed::<unsafe extern "C" fn(u16, *const NativeArray<u16, 1>) -> i32>().unwrap();
    check(
        native.typed::<unsafe extern "C" fn(u16, *const NativeArray<f32, 1>) -> i32>().unwrap_err(),
        "`out` of `narrowed` is `*const NativeArray<u16, 1>`, not `*const NativeArray<f32, 1>`",
    );
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn what_needs_a_runtime_is_refused() {
    let session = Session::new().unwrap();
    let error = session.file_function(&unit(), "prints").unwrap_err().to_string();
    assert!(error.contains("prints"), "{error}");
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn blocks_run_in_the_workspace_of_the_caller() {
    let session = Session::new().unwrap();
    let kernel = kernel(&session, "shares");
    let native = kernel.native_function().unwrap();
    let size = native.workspace_size();
    assert!(size >= 32 * 4, "{size}");
    type Shares = unsafe extern "C" fn(i64, *const NativeArray<f32, 1>, *const NativeArray<f32, 1>, *mut c_void) -> i32;
    let shares = native.typed::<Shares>().unwrap();
    let error =
        native.typed::<unsafe extern "C" fn(i64, *const NativeArray<f32, 1>, *const NativeArray<f32, 1>) -> i32>();
    assert_eq!(error.unwrap_err().message, "`shares` has 4 parameters, not 3: dim0, x, out, workspace");
    for n in [0, 1, 31, 32, 33, 100] {
        let mut x = some_floats(n);
        // Each block in reverse; threads that a block has beyond the last element read 0 there.
        let expect: Vec<f32> = (0..n).map(|i| x.get(i / 32 * 32 + 31 - i % 32).copied().unwrap_or(0.0)).collect();
        let mut memory = vec![0xffu8; size + 3];
        for at in 0..4 {
            let (mut called, mut in_block) = (vec![1.0f32; n], vec![1.0f32; n]);
            let (from, to) = (dense(&mut x), dense(&mut called));
            // SAFETY: the arrays are alive and as long as the launch, and the workspace has as many bytes.
            assert_eq!(unsafe { shares(n as i64, &from, &to, memory[at..].as_mut_ptr().cast()) }, 0);
            assert_eq!(called, expect, "{n} elements");
            let mut args = ArgBlock::new();
            args.slice(kernel.params(), &mut x, &[n as u64]).unwrap();
            args.slice(kernel.params(), &mut in_block, &[n as u64]).unwrap();
            // SAFETY: as above.
            unsafe { native.call_with(&[n as i64], &args, &mut memory[at..at + size]) }.unwrap();
            assert_eq!(in_block, expect, "{n} elements in a block");
            // SAFETY: such a call is refused.
            let error = unsafe { native.call(&[n as i64], &args) }.unwrap_err();
            assert!(matches!(error, NativeCallError::Workspace { given: 0, .. }), "{error}");
        }
    }
    assert_eq!(function(&session, "scale").workspace_size(), 0);
}

#[test]
fn promises_of_no_calls_are_refused_without_llvm() {
    let text = "
import polyloom as loom

@loom.kernel(critical_path=True)
def critical(x: loom.array(dtype=float)):
    x[0] = loom.sin(x[0])

@loom.kernel(inline_always=True)
def inlined(x: loom.array(dtype=float)):
    x[0] = loom.sin(x[0])

@loom.kernel(no_syscalls=True, no_allocation=True)
def silent(x: loom.array(dtype=float)):
    x[0] = loom.sin(x[0])
";
    let session = Session::new().unwrap();
    let unit = SourceUnit::parse(SourceFile::new("promised.py", text, 1)).unwrap();
    for (name, promise) in [("critical", Some("critical_path")), ("inlined", Some("inline_always")), ("silent", None)] {
        let kernel = session.compile_file_kernel(&unit, name).unwrap();
        match promise.filter(|_| !has_llvm()) {
            None => kernel.prepare().unwrap(),
            Some(promise) => {
                let error = kernel.prepare().unwrap_err().to_string();
                assert!(error.contains(&format!("`{promise}` holds of LLVM's code")), "{error}");
            }
        }
    }
}
