//! Products of matrices: the ascending chain of fused multiply-adds, and NumPy's rules for vectors and batches.

use crate::support::{apply, check_close, numbers, tensor};
use polyloom_ir::Scalar::{Bool, F16, F32, F64, I8};

/// The definition, written once more with Rust's own `mul_add`.
fn chain(a: &[f64], b: &[f64], [rows, length, columns]: [usize; 3]) -> Vec<f64> {
    let element = |i: usize, j: usize| {
        (0..length).fold(0.0f32, |sum, k| (a[i * length + k] as f32).mul_add(b[k * columns + j] as f32, sum))
    };
    (0..rows).flat_map(|i| (0..columns).map(move |j| f64::from(element(i, j)))).collect()
}

#[test]
fn an_element_is_the_ascending_chain() {
    for [rows, length, columns] in [[1, 1, 1], [3, 7, 5], [2, 100, 3], [5, 0, 2], [0, 3, 2], [1, 33, 1]] {
        // Divided by 3, so that products are rounded.
        let a: Vec<f64> = numbers(rows * length).iter().map(|x| f64::from((x / 3.0) as f32)).collect();
        let b: Vec<f64> = numbers(length * columns).iter().rev().map(|x| f64::from((x / 7.0) as f32)).collect();
        let inputs =
            [tensor(F32, &[rows as u64, length as u64], &a), tensor(F32, &[length as u64, columns as u64], &b)];
        let want = chain(&a, &b, [rows, length, columns]);
        assert_eq!(apply("matmul %0, %1", &inputs).numbers(), want, "{rows} {length} {columns}");
    }
}

#[test]
fn vectors_and_batches_are_those_of_numpy() {
    let (row, matrix) = (tensor(F64, &[2], &[1.0, 2.0]), tensor(F64, &[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(apply("matmul %0, %1", &[row.clone(), matrix.clone()]).numbers(), [7.0, 10.0]);
    assert_eq!(apply("matmul %0, %1", &[matrix.clone(), row.clone()]).numbers(), [5.0, 11.0]);
    assert_eq!(apply("matmul %0, %1", &[row.clone(), row.clone()]).numbers(), [5.0]);
    let batch = tensor(F64, &[2, 1, 1, 2], &[1.0, 0.0, 0.0, 2.0]);
    let other = tensor(F64, &[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
    let product = apply("matmul %0, %1", &[batch, other.clone()]);
    assert_eq!((product.extents.clone(), product.numbers()), (vec![2, 2, 1, 1], vec![1.0, 3.0, 4.0, 8.0]));
    assert_eq!(apply("matmul %0, %1", &[row, other]).numbers(), [5.0, 11.0]);
}

#[test]
fn other_types_are_accumulated_as_documented() {
    // 2049 is no float16, so that a sum in 16 bits would stay at 2048.
    let half = [tensor(F16, &[1, 3], &[2048.0, 1.0, 1.0]), tensor(F16, &[3, 1], &[1.0, 1.0, 1.0])];
    assert_eq!(apply("matmul %0, %1", &half).numbers(), [2050.0]);
    let bytes = [tensor(I8, &[1, 2], &[100.0, 100.0]), tensor(I8, &[2, 1], &[1.0, 1.0])];
    assert_eq!(apply("matmul %0, %1", &bytes).numbers(), [-56.0]);
    let truths = [tensor(Bool, &[1, 2], &[1.0, 1.0]), tensor(Bool, &[2, 1], &[1.0, 1.0])];
    assert_eq!(apply("matmul %0, %1", &truths).numbers(), [1.0]);
}

#[test]
fn attention_is_softmax_of_scores_times_values() {
    let (n_queries, n_keys, width) = (5, 70, 3);
    let numbers = |n: usize| -> Vec<f64> { numbers(n).iter().map(|x| x / 5.0).collect() };
    let (q, k, v) = (numbers(n_queries * width), numbers(n_keys * width), numbers(n_keys * 2));
    let inputs = [
        tensor(F64, &[n_queries as u64, width as u64], &q),
        tensor(F64, &[n_keys as u64, width as u64], &k),
        tensor(F64, &[n_keys as u64, 2], &v),
    ];
    for is_causal in [false, true] {
        let mut want = Vec::new();
        for i in 0..n_queries {
            let n_seen = if is_causal { i + 1 + n_keys - n_queries } else { n_keys };
            let score =
                |j: usize| (0..width).map(|d| q[i * width + d] * k[j * width + d]).sum::<f64>() / (width as f64).sqrt();
            let weights: Vec<f64> = (0..n_seen).map(|j| score(j).exp()).collect();
            let total: f64 = weights.iter().sum();
            want.extend((0..2).map(|c| (0..n_seen).map(|j| weights[j] * v[2 * j + c]).sum::<f64>() / total));
        }
        let op = format!("attention %0, %1, %2, causal={is_causal}");
        check_close(&op, &apply(&op, &inputs), &want, 1e-12);
    }
}
