//! Reductions and scans: their values against float64, and their order against another program of it.

use crate::support::{apply, check_close, numbers, tensor};
use polyloom_ir::Scalar::{BF16, Bool, F16, F32, F64, I8, U8};

/// The sum in the documented order: by a stack of blocks, where the evaluator makes rounds of pairs, and with lanes that
/// are summed one after another.
fn ordered_sum(row: &[f32]) -> f32 {
    let block_sum = |block: &[f32]| {
        let mut lanes: Vec<f32> =
            (0..32).map(|lane| block.iter().skip(lane).step_by(32).fold(0.0, |sum, x| sum + x)).collect();
        while lanes.len() > 1 {
            let upper = lanes.split_off(lanes.len() / 2);
            lanes = lanes.iter().zip(upper).map(|(a, b)| a + b).collect();
        }
        lanes[0]
    };
    // Each entry is the sum of 2^level blocks; equal levels are added at once, as bits carry in a counter.
    let mut stack: Vec<(u32, f32)> = Vec::new();
    for block in row.chunks(4096) {
        let (mut level, mut sum) = (0, block_sum(block));
        while let Some((_, before)) = stack.pop_if(|(other, _)| *other == level) {
            sum += before;
            level += 1;
        }
        stack.push((level, sum));
    }
    let rest = stack.into_iter().rev().map(|(_, sum)| sum).reduce(|later, earlier| earlier + later);
    rest.unwrap_or(0.0)
}

#[test]
fn sums_are_in_the_documented_order() {
    for n in [0, 1, 2, 31, 32, 33, 100, 4095, 4096, 4097, 8192, 12289, 5 * 4096 + 1, 7 * 4096] {
        let values: Vec<f32> = numbers(n).iter().map(|x| (x / 3.0) as f32).collect();
        let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let got = apply("sum %0", &[tensor(F32, &[n as u64], &wide)]);
        assert_eq!(got.bits, [u64::from(ordered_sum(&values).to_bits())], "{n}");
        let exact: f64 = wide.iter().sum();
        let magnitude: f64 = wide.iter().map(|x| x.abs()).sum();
        assert!((got.numbers()[0] - exact).abs() <= 3e-7 * magnitude, "{n}");
    }
}

#[test]
fn the_order_is_that_of_indices_whatever_the_axes() {
    let values: Vec<f64> = numbers(3 * 50 * 2).iter().map(|x| f64::from((x / 3.0) as f32)).collect();
    let x = tensor(F32, &[3, 50, 2], &values);
    let got = apply("sum %0, axes=(0, 1)", std::slice::from_ref(&x));
    for last in 0..2 {
        let row: Vec<f32> = values.iter().skip(last).step_by(2).map(|&x| x as f32).collect();
        assert_eq!(got.bits[last], u64::from(ordered_sum(&row).to_bits()));
    }
    let kept = apply("sum %0, axes=(0, 1), keepdims=true", std::slice::from_ref(&x));
    assert_eq!((kept.extents, kept.bits), (vec![1, 1, 2], got.bits));
    assert_eq!(apply("sum %0, axes=()", std::slice::from_ref(&x)).bits, x.bits);
}

#[test]
fn a_sum_starts_from_positive_zero_as_in_numpy() {
    assert_eq!(apply("sum %0", &[tensor(F32, &[2], &[-0.0, -0.0])]).bits, [0]);
    assert_eq!(apply("sum %0", &[tensor(F32, &[2], &[-0.0, 0.0])]).bits, [0]);
    assert_eq!(apply("sum %0", &[tensor(F32, &[0], &[])]).bits, [0]);
    assert_eq!(apply("prod %0", &[tensor(F32, &[0], &[])]).numbers(), [1.0]);
}

#[test]
fn small_types_are_summed_in_wide_ones() {
    assert_eq!(apply("sum %0", &[tensor(I8, &[3], &[100.0, 100.0, -1.0])]).numbers(), [199.0]);
    assert_eq!(apply("sum %0", &[tensor(Bool, &[3], &[1.0, 1.0, 0.0])]).numbers(), [2.0]);
    assert_eq!(apply("prod %0", &[tensor(U8, &[2], &[200.0, 200.0])]).numbers(), [40000.0]);
    assert_eq!(apply("sum %0", &[tensor(F16, &[3000], &[1.0; 3000])]).numbers(), [3000.0]);
    assert_eq!(apply("mean %0", &[tensor(F16, &[200], &[1000.0; 200])]).numbers(), [1000.0]);
    assert_eq!(apply("sum %0", &[tensor(BF16, &[300], &[1.0; 300])]).numbers(), [300.0]);
}

#[test]
fn reductions_along_axes_are_those_of_numpy() {
    let x = tensor(F64, &[2, 3], &[1.0, -2.0, 3.0, 4.0, 0.0, -6.0]);
    for (op, want) in [
        ("sum %0, axes=(0)", &[5.0, -2.0, -3.0][..]),
        ("prod %0, axes=(1)", &[-6.0, -0.0]),
        ("max %0, axes=(0)", &[4.0, 0.0, 3.0]),
        ("min %0", &[-6.0]),
        ("mean %0, axes=(1)", &[2.0 / 3.0, -2.0 / 3.0]),
        ("argmax %0", &[3.0]),
        ("argmax %0, axis=1", &[2.0, 0.0]),
        ("argmin %0, axis=0", &[0.0, 0.0, 1.0]),
        ("all %0, axes=(1)", &[1.0, 0.0]),
        ("any %0, axes=(0)", &[1.0, 1.0, 1.0]),
        ("var %0, axes=(0)", &[2.25, 1.0, 20.25]),
        ("var %0, axes=(0), correction=1", &[4.5, 2.0, 40.5]),
        ("std %0, axes=(0)", &[1.5, 1.0, 4.5]),
        ("norm %0, axes=(1)", &[14f64.sqrt(), 52f64.sqrt()]),
        ("cumsum %0, axis=1", &[1.0, -1.0, 2.0, 4.0, 4.0, -2.0]),
        ("cumsum %0, axis=0", &[1.0, -2.0, 3.0, 5.0, -2.0, -3.0]),
        ("cumprod %0, axis=1", &[1.0, -2.0, -6.0, 4.0, 0.0, -0.0]),
        ("cummax %0, axis=1", &[1.0, 1.0, 3.0, 4.0, 4.0, 4.0]),
        ("cummin %0, axis=0", &[1.0, -2.0, 3.0, 1.0, -2.0, -6.0]),
        ("scan %0, axis=1", &[1.0, -1.0, 2.0, 4.0, 4.0, -2.0]),
        ("scan %0, axis=1, combine=\"multiply\"", &[1.0, -2.0, -6.0, 4.0, 0.0, -0.0]),
        ("scan %0, axis=1, combine=\"maximum\"", &[1.0, 1.0, 3.0, 4.0, 4.0, 4.0]),
        ("scan %0, axis=0, combine=\"minimum\"", &[1.0, -2.0, 3.0, 1.0, -2.0, -6.0]),
        ("linear_recurrence %0, %0, axis=1", &[1.0, -4.0, -9.0, 4.0, 0.0, -6.0]),
        ("linear_recurrence 2.0, %0, axis=0", &[1.0, -2.0, 3.0, 6.0, -4.0, 0.0]),
    ] {
        check_close(op, &apply(op, std::slice::from_ref(&x)), want, 1e-15);
    }
    let one = tensor(F64, &[1], &[3.0]);
    check_close("var", &apply("var %0, correction=1", std::slice::from_ref(&one)), &[f64::NAN], 0.0);
    check_close("var", &apply("var %0, correction=2", &[one]), &[f64::NAN], 0.0);
    let empty = tensor(F64, &[2, 0], &[]);
    check_close("mean", &apply("mean %0, axes=(1)", std::slice::from_ref(&empty)), &[f64::NAN; 2], 0.0);
    check_close("any", &apply("any %0, axes=(1)", std::slice::from_ref(&empty)), &[0.0; 2], 0.0);
    check_close("all", &apply("all %0, axes=(1)", &[empty]), &[1.0; 2], 0.0);
}

#[test]
fn nan_is_the_largest_and_the_smallest() {
    let nan = f64::NAN;
    for values in [[nan, 1.0, 2.0], [1.0, nan, 2.0], [1.0, 2.0, nan]] {
        let place = values.iter().position(|x| x.is_nan()).unwrap() as f64;
        let x = [tensor(F32, &[3], &values)];
        check_close("max", &apply("max %0", &x), &[nan], 0.0);
        check_close("min", &apply("min %0", &x), &[nan], 0.0);
        assert_eq!(apply("argmax %0", &x).numbers(), [place]);
        assert_eq!(apply("argmin %0", &x).numbers(), [place]);
    }
    for values in [[-0.0, 0.0], [0.0, -0.0]] {
        let x = [tensor(F32, &[2], &values)];
        assert_eq!((apply("max %0", &x).bits[0], apply("min %0", &x).bits[0]), (0, 0x8000_0000));
        assert_eq!(apply("argmax %0", &x).numbers(), [0.0]);
    }
}

#[test]
fn running_extrema_are_nan_from_the_first_one_on() {
    let x = [tensor(F32, &[4], &[1.0, f64::NAN, 2.0, 3.0])];
    check_close("cummax", &apply("cummax %0, axis=0", &x), &[1.0, f64::NAN, f64::NAN, f64::NAN], 0.0);
    check_close("cummin", &apply("cummin %0, axis=0", &x), &[1.0, f64::NAN, f64::NAN, f64::NAN], 0.0);
    let zeros = [tensor(F32, &[3], &[0.0, -0.0, 0.0])];
    assert_eq!(apply("cummin %0, axis=0", &zeros).bits, [0, 0x8000_0000, 0x8000_0000]);
    assert_eq!(apply("cummax %0, axis=0", &zeros).bits, [0; 3]);
}

#[test]
fn a_recurrence_starts_with_its_first_summand() {
    let factors = tensor(F64, &[3], &[f64::INFINITY, 0.5, 2.0]);
    let summands = tensor(F64, &[3], &[-0.0, 1.0, 3.0]);
    let states = apply("linear_recurrence %0, %1, axis=0", &[factors, summands]);
    assert_eq!(states.numbers(), [-0.0, 1.0, 5.0]);
    assert!(states.numbers()[0].is_sign_negative());
}

#[test]
fn scans_carry_from_block_to_block() {
    let n = 3 * 4096 + 5;
    let values: Vec<f32> = numbers(n).iter().map(|x| (x / 3.0) as f32).collect();
    let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
    let got = apply("cumsum %0, axis=0", &[tensor(F32, &[n as u64], &wide)]);
    let mut carry = None;
    for (block, results) in values.chunks(4096).zip(got.bits.chunks(4096)) {
        let mut chain = block[0];
        let mut last = 0.0;
        for (k, &result) in results.iter().enumerate() {
            if k > 0 {
                chain += block[k];
            }
            last = carry.map_or(chain, |carry: f32| carry + chain);
            assert_eq!(result, u64::from(last.to_bits()));
        }
        carry = Some(last);
    }
    assert!(apply("cumsum %0, axis=1", &[tensor(F32, &[2, 0], &[])]).bits.is_empty());
    assert_eq!(apply("cumsum %0, axis=0", &[tensor(F32, &[1], &[-0.0])]).bits, [0x8000_0000]);
}
