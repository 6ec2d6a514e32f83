//! Variants: which facts are found, and how many variants there can be.

use crate::fake::{FakeBackend, kernel, saxpy, saxpy_source, source};
use polyloom_codegen::{ArrayFacts, LaunchContext};
use polyloom_ir::{Builder, Composite, CompositeKind, Function, FunctionKind, Imm, Op, Scalar, Type};
use polyloom_runtime::{
    ArgBlock, CpuDevice, CpuKernel, KernelParams, KernelSource, LaunchOptions, VariantInfo, launch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn view(kernel: &CpuKernel, args: &mut ArgBlock, base: *mut f32, extent: u64, stride: i64) {
    args.array(kernel.params(), Scalar::F32, base.cast(), &[extent], &[stride]).unwrap();
}

/// Returns what the last variant assumes after a launch of saxpy over views of one memory: offset, extent, stride of x
/// and y.
fn saxpy_facts(kernel: &CpuKernel, x: (usize, u64, i64), y: (usize, u64, i64)) -> [ArrayFacts; 2] {
    let mut memory = [0f32; 256];
    let base = memory.as_mut_ptr();
    let mut args = ArgBlock::new();
    // `wrapping_add`: an empty view may begin anywhere.
    view(kernel, &mut args, base.wrapping_add(x.0), x.1, x.2);
    view(kernel, &mut args, base.wrapping_add(y.0), y.1, y.2);
    args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
    // SAFETY: one thread, which the memory has elements for.
    unsafe { launch(kernel, &[1], &args, &LaunchOptions::default()) }.unwrap();
    let facts = kernel.variants().pop().unwrap().facts;
    [facts.array(0), facts.array(1)]
}

fn fresh() -> CpuKernel {
    kernel(saxpy, saxpy_source("saxpy")).1
}

#[test]
fn facts_of_dense_arrays_apart() {
    let [x, y] = saxpy_facts(&fresh(), (0, 32, 4), (32, 32, 4));
    let all = ArrayFacts {
        contiguous: true,
        aligned: false,
        disjoint: true,
        offsets_fit_i32: true,
        extents: [None; polyloom_ir::MAX_AXES],
    };
    assert_eq!((x, y), (all, all));
}

#[test]
fn a_stride_ends_contiguity() {
    let [x, y] = saxpy_facts(&fresh(), (0, 16, 8), (32, 32, 4));
    assert_eq!((x.contiguous, y.contiguous), (false, true));
    let [x, y] = saxpy_facts(&fresh(), (0, 1, 400), (32, 0, 400));
    assert_eq!((x.contiguous, y.contiguous), (true, true), "strides along short axes do not matter");
    let [x, _] = saxpy_facts(&fresh(), (31, 32, -4), (32, 32, 4));
    assert!(!x.contiguous);
}

#[test]
fn large_arrays_are_aligned_if_all_are() {
    for (x, y, extent, expect) in
        [(0, 0, 1 << 18, true), (0, 4, 1 << 18, false), (32, 0, 1 << 18, false), (0, 0, 1 << 10, false)]
    {
        let (_, kernel) = kernel(nothing, saxpy_source("saxpy"));
        let mut args = ArgBlock::new();
        // Nothing is accessed, so the memory need not be there.
        view(&kernel, &mut args, ((1u64 << 45) + x) as *mut f32, extent, 4);
        view(&kernel, &mut args, ((1u64 << 46) + y) as *mut f32, extent, 4);
        args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
        // SAFETY: nothing is accessed.
        unsafe { launch(&kernel, &[3], &args, &LaunchOptions::default()) }.unwrap();
        let facts = kernel.variants().pop().unwrap().facts;
        assert_eq!([0, 1].map(|array| facts.array(array).aligned), [expect; 2], "{x} {y} {extent}");
    }
}

#[test]
fn arrays_are_disjoint_unless_their_elements_may_meet() {
    for (x, y, disjoint) in [
        ((0, 32, 4), (31, 32, 4), false),
        ((0, 32, 4), (32, 32, 4), true),
        ((0, 32, 4), (0, 32, 4), false),
        ((63, 32, -4), (32, 32, 4), false),
        ((31, 32, -4), (32, 32, 4), true),
        // Interleaved, as fields of structs are.
        ((0, 32, 8), (1, 32, 8), true),
        ((0, 32, 8), (2, 32, 8), false),
        // The ranges meet though no element does.
        ((0, 2, 20), (1, 3, 8), false),
        ((0, 0, 4), (0, 32, 4), true),
    ] {
        let facts = saxpy_facts(&fresh(), x, y);
        assert_eq!(facts.map(|array| array.disjoint), [disjoint; 2], "{x:?} {y:?}");
    }
}

/// `sum = x[0] + y[0]`, which writes nothing but `out`.
#[test]
fn arrays_that_are_only_read_may_overlap() {
    let array = Type::array(Scalar::F32, 1);
    let mut sum = Function::new("sum", FunctionKind::Kernel, [("x", array), ("y", array), ("out", array)], &[]);
    let (x, y, out) = (sum.params()[0], sum.params()[1], sum.params()[2]);
    let mut build = Builder::new(&mut sum);
    let i = build.tid(0);
    let (a, b) = (build.op(Op::ArrayLoad, &[x, i]), build.op(Op::ArrayLoad, &[y, i]));
    let total = build.op(Op::Add, &[a, b]);
    build.inst(Op::ArrayStore, &[out, i, total], &[], Imm::None);
    build.return_(&[]);
    let (_, kernel) = kernel(nothing, source(sum));
    let mut memory = [0f32; 64];
    let base = memory.as_mut_ptr();
    let facts = |out: usize| {
        let mut args = ArgBlock::new();
        for offset in [0, 8, out] {
            view(&kernel, &mut args, base.wrapping_add(offset), 16, 4);
        }
        // SAFETY: nothing is accessed.
        unsafe { launch(&kernel, &[16], &args, &LaunchOptions::default()) }.unwrap();
        kernel.variants().pop().unwrap().facts.arrays.iter().map(|array| array.disjoint).collect::<Vec<_>>()
    };
    assert_eq!(facts(32), [true, true, true]);
    assert_eq!(facts(20), [true, false, false]);
}

unsafe extern "C" fn nothing(_: *const u8, _: *const LaunchContext, _: u64, _: u64) {}

#[test]
fn offsets_that_need_more_than_32_bits_are_noticed() {
    let (_, kernel) = kernel(nothing, saxpy_source("saxpy"));
    let facts = |stride: i64| {
        let mut args = ArgBlock::new();
        // Nothing is accessed, so the memory need not be there.
        view(&kernel, &mut args, (1u64 << 46) as *mut f32, 3, stride);
        view(&kernel, &mut args, (1u64 << 46) as *mut f32, 3, 4);
        args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
        // SAFETY: nothing is accessed.
        unsafe { launch(&kernel, &[3], &args, &LaunchOptions::default()) }.unwrap();
        kernel.variants().pop().unwrap().facts.array(0).offsets_fit_i32
    };
    assert!(facts((1 << 30) - 4));
    assert!(facts(-(1 << 30)));
    assert!(!facts(1 << 30));
    assert!(!facts(-(1 << 30) - 4));
}

/// `rows` is two-dimensional; a loop runs over `x`, which is not.
fn extents_kernel() -> CpuKernel {
    let types = [1, 2].map(|ndim| Type::array(Scalar::F32, ndim));
    let mut function = Function::new("extents", FunctionKind::Kernel, [("x", types[0]), ("rows", types[1])], &[]);
    let x = function.params()[0];
    let mut build = Builder::new(&mut function);
    let (low, high, step) = (build.const_int(Scalar::I32, 0), build.dim(x, 0), build.const_int(Scalar::I32, 1));
    let (_, body) = build.begin_for_range([low, high, step], &[]);
    let outer = build.switch_to(body);
    build.yield_(&[]);
    build.switch_to(outer);
    build.return_(&[]);
    kernel(nothing, source(function)).1
}

fn launch_extents(kernel: &CpuKernel, rank: usize, x: usize, rows: [usize; 2]) -> VariantInfo {
    let (mut memory_x, mut memory_rows) = (vec![0f32; x], vec![0f32; rows[0] * rows[1]]);
    let mut args = ArgBlock::new();
    args.slice(kernel.params(), &mut memory_x, &[x as u64]).unwrap();
    args.slice(kernel.params(), &mut memory_rows, &rows.map(|extent| extent as u64)).unwrap();
    let before = kernel.variants();
    // SAFETY: nothing is accessed.
    unsafe { launch(kernel, &[1, 1, 1, 1][..rank], &args, &LaunchOptions::default()) }.unwrap();
    let used = |variant: &VariantInfo| {
        before.iter().all(|b| b.facts != variant.facts || b.launches < variant.launches || b.launch_rank != rank as u8)
            && variant.launch_rank == rank as u8
    };
    kernel.variants().into_iter().rev().find(used).unwrap()
}

#[test]
fn small_extents_of_loops_and_rows_are_facts() {
    let kernel = extents_kernel();
    let facts = launch_extents(&kernel, 1, 8, [5, 3]).facts;
    assert_eq!(facts.array(0).extents, [Some(8), None, None, None, None, None]);
    assert_eq!(facts.array(1).extents, [None, Some(3), None, None, None, None]);
    let facts = launch_extents(&kernel, 1, 17, [5, 0]).facts;
    assert_eq!(facts.array(0).extents, [None; polyloom_ir::MAX_AXES], "17 is not small");
    assert_eq!(facts.array(1).extents, [None, Some(0), None, None, None, None]);
}

#[test]
fn components_of_any_number_of_arrays_are_facts() {
    const N_ARRAYS: usize = 40;
    let element = Composite::new(CompositeKind::Matrix, Scalar::F32, &[3, 20]).unwrap();
    let names: Vec<String> = (0..N_ARRAYS).map(|index| format!("array{index}")).collect();
    let params = names.iter().map(|name| (name.as_str(), Type::array(Scalar::F32, 3)));
    let mut function = Function::new("matrices", FunctionKind::Kernel, params.clone(), &[]);
    Builder::new(&mut function).return_(&[]);
    let params = KernelParams::new(params.map(|(name, ty)| (name.into(), ty)), vec![Some(element); N_ARRAYS]);
    let source = KernelSource { params, ..source(function) };
    let kernel = kernel(nothing, source).1;
    let mut args = ArgBlock::new();
    let mut memory = vec![0f32; 120];
    for _ in 0..N_ARRAYS {
        args.slice(kernel.params(), &mut memory, &[2, 3, 20]).unwrap();
    }
    // SAFETY: nothing is accessed.
    unsafe { launch(&kernel, &[1], &args, &LaunchOptions::default()) }.unwrap();
    for variant in kernel.variants() {
        assert_eq!(variant.facts.array(N_ARRAYS - 1).extents, [None, Some(3), Some(20), None, None, None]);
    }
}

#[test]
fn extents_stop_being_facts_when_they_vary_too_much() {
    let kernel = extents_kernel();
    for extent in 1..=16 {
        launch_extents(&kernel, 1, extent, [2, 20]);
    }
    let variants = kernel.variants();
    let with_extents = variants.iter().filter(|v| v.facts.array(0).extents[0].is_some()).count();
    assert_eq!(with_extents, 4);
    assert!(variants.len() <= 6, "{} variants", variants.len());
}

static ALL_LAUNCHED: AtomicBool = AtomicBool::new(false);
static CODE_LOADED: AtomicBool = AtomicBool::new(false);

#[test]
fn threads_that_need_new_variants_at_once_leave_room_for_every_rank() {
    // The first variant takes until every thread has looked how many there are.
    let backend = FakeBackend::gated("slow", nothing, &ALL_LAUNCHED, &CODE_LOADED);
    let kernel = &CpuKernel::new(Arc::new(CpuDevice::new(backend, None)), saxpy_source("saxpy"));
    // Dense and strided, with offsets of 32 bits and more.
    let views = [(3, 4), (3, 8), (1 << 30, 4), (3, 1 << 30)];
    let launch_views = |rank: usize, x: (u64, i64), y: (u64, i64)| {
        let mut args = ArgBlock::new();
        // Nothing is accessed, so the memory need not be there.
        view(kernel, &mut args, (1u64 << 45) as *mut f32, x.0, x.1);
        view(kernel, &mut args, (1u64 << 46) as *mut f32, y.0, y.1);
        args.scalar(kernel.params(), Scalar::F32, 0).unwrap();
        // SAFETY: nothing is accessed.
        unsafe { launch(kernel, &[1, 1, 1, 1][..rank], &args, &LaunchOptions::default()) }.map(drop)
    };
    std::thread::scope(|scope| {
        for x in views {
            for y in views {
                scope.spawn(move || launch_views(1, x, y).unwrap());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        ALL_LAUNCHED.store(true, Ordering::SeqCst);
    });
    for rank in 1..=4 {
        assert_eq!(launch_views(rank, (3, 4), (3, 4)), Ok(()), "rank {rank}");
    }
}

#[test]
fn there_is_an_end_to_variants_and_every_launch_finds_one() {
    let kernel = fresh();
    for x_stride in [4, 8] {
        for y_stride in [4, 8] {
            for (x, y) in [(0, 128), (1, 129), (0, 4), (1, 5)] {
                saxpy_facts(&kernel, (x, 8, x_stride), (y, 8, y_stride));
            }
        }
    }
    let extents = extents_kernel();
    for rank in 1..=4 {
        for extent in 1..20 {
            for row in [1, 2, 3, 40] {
                launch_extents(&extents, rank, extent, [4, row]);
            }
        }
    }
    for kernel in [kernel, extents] {
        let n = kernel.variants().len();
        assert!(n <= 16, "{n} variants");
    }
}
