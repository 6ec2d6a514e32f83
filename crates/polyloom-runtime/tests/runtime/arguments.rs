//! Argument blocks: what fits a parameter and what is refused.

use crate::fake::saxpy_source;
use polyloom_ir::Scalar;
use polyloom_runtime::{ArgBlock, ArgError, KernelParams};

fn params() -> KernelParams {
    let source = saxpy_source("saxpy");
    KernelParams::of(&source.prepared.functions[source.prepared_kernel])
}

#[test]
fn a_block_is_packed_as_the_layout_says() {
    let params = params();
    let (mut x, mut y) = ([0f32; 6], [0f32; 3]);
    let mut args = ArgBlock::new();
    args.slice(&params, &mut x, &[6]).unwrap();
    args.array(&params, Scalar::F32, y.as_mut_ptr().cast(), &[3], &[-4]).unwrap();
    args.scalar(&params, Scalar::F32, 2.5f32.to_bits().into()).unwrap();
    let minus_four = -4i64 as u64;
    let expect = [x.as_ptr() as u64, 6, 4, y.as_ptr() as u64, 3, minus_four, 0x4020_0000];
    assert_eq!(args.words(), expect);
    assert_eq!(params.layout().size as usize, 8 * expect.len());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let params = params();
    let base = 4096 as *mut u8;
    let refused = |elem, base, shape: &[u64], strides: &[i64]| {
        ArgBlock::new().array(&params, elem, base, shape, strides).unwrap_err().to_string()
    };
    assert_eq!(
        refused(Scalar::F64, base, &[3], &[8]),
        "argument `x` must be array(dtype=float32), not array(dtype=float64)"
    );
    assert_eq!(refused(Scalar::F32, base, &[3, 3], &[12, 4]), "argument `x` must have 1 dimensions, not 2");
    assert_eq!(
        refused(Scalar::F32, base, &[1 << 31], &[4]),
        "argument `x` is too large: extent 2147483648 along axis 0 is more than int32 can index"
    );
    let outside = "argument `x` is too large: its strides reach outside the address space";
    assert_eq!(refused(Scalar::F32, base, &[1 << 30], &[-4]), outside);
    assert_eq!(refused(Scalar::F32, base, &[1 << 30], &[i64::MAX / 4]), outside);
    let misaligned = "argument `x` has elements that are not aligned to 4 bytes; pass a copy";
    assert_eq!(refused(Scalar::F32, 4097 as *mut u8, &[3], &[4]), misaligned);
    assert_eq!(refused(Scalar::F32, base, &[3], &[6]), misaligned);
    assert_eq!(
        ArgBlock::new().scalar(&params, Scalar::F32, 0).unwrap_err().to_string(),
        "argument `x` must be array(dtype=float32), not float32"
    );
}

#[test]
fn a_slice_must_have_as_many_elements_as_its_shape() {
    let error = ArgBlock::new().slice(&params(), &mut [0f32; 5], &[6]).unwrap_err();
    assert_eq!(error, ArgError::Length { name: "x".into(), elements: 5, wanted: 6 });
}

#[test]
fn an_empty_array_needs_no_memory() {
    let params = params();
    let mut args = ArgBlock::new();
    args.array(&params, Scalar::F32, std::ptr::null_mut(), &[0], &[4]).unwrap();
    args.slice(&params, &mut [0f32; 0], &[0]).unwrap();
    assert_eq!(args.len(), 2);
}

#[test]
fn a_block_takes_no_more_than_the_parameters() {
    let params = params();
    let mut args = ArgBlock::new();
    args.slice(&params, &mut [0f32; 1], &[1]).unwrap();
    args.slice(&params, &mut [0f32; 1], &[1]).unwrap();
    args.scalar(&params, Scalar::F32, 0).unwrap();
    assert_eq!(args.scalar(&params, Scalar::F32, 0), Err(ArgError::Count { given: 4, wanted: 3 }));
}

#[test]
fn fields_of_one_array_of_structs_do_not_overlap() {
    let params = params();
    // Structs of 16 bytes: of each array the address of the first element and the strides.
    let overlap = |x: (usize, i64), y: (usize, i64)| {
        let mut args = ArgBlock::new();
        for (address, stride) in [x, y] {
            args.array(&params, Scalar::F32, address as *mut u8, &[10], &[stride]).unwrap();
        }
        let [a, b] = args.footprints() else { panic!("two arrays") };
        assert_eq!(a.overlaps(b), b.overlaps(a));
        a.overlaps(b)
    };
    assert!(!overlap((4096, 16), (4100, 16)));
    assert!(!overlap((4096, 16), (4108 + 32, 16)));
    assert!(!overlap((4096 + 144, -16), (4100, 16)));
    assert!(overlap((4096, 16), (4096, 16)));
    assert!(overlap((4096, 16), (4096 + 32, 16)));
    assert!(overlap((4096 + 144, -16), (4096, 16)));
    // Another stride meets every field sooner or later, and a dense array all of them.
    assert!(overlap((4096, 16), (4100, 12)));
    assert!(overlap((4096, 4), (4100, 16)));
    assert!(!overlap((4096, 4), (4096 + 40, 16)));
}
