//! Shape rules on shapes with 0, 1, odd extents, symbols and broadcasting.

use crate::support::{graph, type_of};
use polyloom_graph::{GraphBuilder, Layout, Shape};
use polyloom_ir::Scalar;

#[test]
fn shapes_of_results_are_inferred() {
    for (op, types, want) in [
        ("add %0, %1", &["f32[2, 3]", "f32[3]"][..], "f32[2, 3]"),
        ("add %0, %1", &["f32[4, 1, 3]", "f32[2, 1]"], "f32[4, 2, 3]"),
        ("add %0, %1", &["f32[0, 3]", "f32[1, 3]"], "f32[0, 3]"),
        ("add %0, %1", &["f32[0]", "f32[1]"], "f32[0]"),
        ("add %0, %1", &["f32[]", "f32[7]"], "f32[7]"),
        ("add %0, %1", &["f32[n, 1]", "f32[1, m]"], "f32[n, m]"),
        ("where %0, %1, %2", &["bool[2, 1]", "f32[3]", "f32[]"], "f32[2, 3]"),
        ("clip %0, %1, 1.0", &["f32[2, 1]", "f32[3]"], "f32[2, 3]"),
        ("sum %0", &["f32[2, 3]"], "f32[]"),
        ("sum %0, axes=(1)", &["f32[2, 3]"], "f32[2]"),
        ("sum %0, axes=(-1, 0), keepdims=true", &["f32[2, 3, 5]"], "f32[1, 3, 1]"),
        ("sum %0, axes=()", &["f32[2, 3]"], "f32[2, 3]"),
        ("sum %0, axes=(0)", &["f32[0, 3]"], "f32[3]"),
        ("sum %0, axes=(1)", &["f32[n, m, 3]"], "f32[n, 3]"),
        ("max %0, axes=(1)", &["f32[0, 3]"], "f32[0]"),
        ("argmax %0", &["f32[2, 3]"], "i64[]"),
        ("argmax %0, axis=0, keepdims=true", &["f32[2, 3]"], "i64[1, 3]"),
        ("logsumexp %0, axes=(0)", &["f32[2, n]"], "f32[n]"),
        ("var %0, axes=(1), keepdims=true", &["f32[n, 3]"], "f32[n, 1]"),
        ("softmax %0", &["f32[3, 0]"], "f32[3, 0]"),
        ("cumsum %0, axis=-1", &["f32[3, 1]"], "f32[3, 1]"),
        ("layer_norm %0, %1", &["f32[n, 3]", "f32[3]"], "f32[n, 3]"),
        ("rms_norm %0, %1, axis=1", &["f32[n, 3, 5]", "f32[3, 5]"], "f32[n, 3, 5]"),
        ("group_norm %0, %1, %1, groups=3", &["f32[n, 6, m]", "f32[6]"], "f32[n, 6, m]"),
        ("contract %0, %1, a_labels=(0, 1), b_labels=(1, 2), labels=(2, 0)", &["f32[n, 6]", "f32[6, m]"], "f32[m, n]"),
        ("einsum %0, %1, equation=\"ij, kj\"", &["f32[n, 6]", "f32[3, 6]"], "f32[n, 3]"),
        ("attention %0, %1, %1", &["f32[b, n, 6]", "f32[m, 6]"], "f32[b, n, 6]"),
        ("linear %0, %1, %2", &["f32[n, 2, 6]", "f32[m, 6]", "f32[m]"], "f32[n, 2, m]"),
        ("conv1d %0, %1", &["f32[n, 4, 10]", "f32[6, 4, 3]"], "f32[n, 6, 8]"),
        ("conv2d %0, %1, stride=(2), padding=(1)", &["f32[n, 3, 8, 9]", "f32[4, 3, 3, 3]"], "f32[n, 4, 4, 5]"),
        ("max_pool2d %0, size=(2)", &["f32[n, 3, 8, 9]"], "f32[n, 3, 4, 4]"),
        ("windows %0, axes=(1), sizes=(3), steps=(2), dilations=(2)", &["f32[n, 9]"], "f32[n, 3, 3]"),
        ("cross_entropy %0, %1", &["f32[n, 5]", "i32[n]"], "f32[]"),
        ("cross_entropy %0, %1, reduction=\"none\"", &["f32[n, 5, 7]", "i32[n, 7]"], "f32[n, 7]"),
        ("cross_entropy %0, 2", &["f32[5]"], "f32[]"),
        ("reshape %0, shape=(-1)", &["f32[2, 3]"], "f32[6]"),
        ("reshape %0, shape=(3, -1)", &["f32[2, 3]"], "f32[3, 2]"),
        ("reshape %0, shape=(1, -1)", &["f32[n]"], "f32[1, n]"),
        ("reshape %0, shape=[m, n]", &["f32[n, 1, m]"], "f32[m, n]"),
        ("reshape %0, shape=(0, 7)", &["f32[3, 0]"], "f32[0, 7]"),
        ("reshape %0, shape=()", &["f32[1, 1]"], "f32[]"),
        ("permute %0, axes=(2, 0, -2)", &["f32[2, 3, n]"], "f32[n, 2, 3]"),
        ("transpose %0", &["f32[5, 2, 3]"], "f32[5, 3, 2]"),
        ("transpose %0, axis1=0", &["f32[5, 2, 3]"], "f32[3, 2, 5]"),
        ("slice %0, starts=(4, 0), sizes=[2, n], steps=(-2, 1)", &["f32[5, n]"], "f32[2, n]"),
        ("flip %0", &["f32[0, 3]"], "f32[0, 3]"),
        ("broadcast_to %0, shape=[n, 3]", &["f32[1]"], "f32[n, 3]"),
        ("broadcast_to %0, shape=(0, 3)", &["f32[1, 3]"], "f32[0, 3]"),
        ("concat %0, %1, %0, axis=-1", &["f32[2, 3]", "f32[2, 0]"], "f32[2, 6]"),
        ("concat %0, %1, axis=1", &["f32[n, 3]", "f32[n, 1]"], "f32[n, 4]"),
        ("stack %0, %0, axis=-1", &["f32[n, 3]"], "f32[n, 3, 2]"),
        ("stack %0, %0, %0", &["f32[]"], "f32[3]"),
        ("pad %0, widths=(0, 0, 1, 2)", &["f32[n, 0]"], "f32[n, 3]"),
        ("tile %0, repeats=(1, 3)", &["f32[n, 2]"], "f32[n, 6]"),
        ("tile %0, repeats=(0)", &["f32[2]"], "f32[0]"),
        ("rand %0, shape=[n, 2]", &["i64[]"], "f32[n, 2]"),
        ("randn 7, shape=(0, 2), dtype=f64", &[], "f64[0, 2]"),
        ("dropout %0, 7", &["f16[n]"], "f16[n]"),
        ("matmul %0, %1", &["f32[2, 3]", "f32[3, 5]"], "f32[2, 5]"),
        ("matmul %0, %1", &["f32[3]", "f32[3, 5]"], "f32[5]"),
        ("matmul %0, %1", &["f32[2, 3]", "f32[3]"], "f32[2]"),
        ("matmul %0, %1", &["f32[3]", "f32[3]"], "f32[]"),
        ("matmul %0, %1", &["f32[7, 1, 2, k]", "f32[4, k, 5]"], "f32[7, 4, 2, 5]"),
        ("matmul %0, %1", &["f32[2, 0]", "f32[0, 5]"], "f32[2, 5]"),
        ("iota axis=1, shape=(2, 3)", &[], "i64[2, 3]"),
        ("element_count %0, axes=(0)", &["f32[n, 3]"], "i64[]"),
    ] {
        assert_eq!(type_of(op, types), want, "{op} {types:?}");
    }
}

#[test]
fn slices_are_those_of_python() {
    for (slice, extent, want) in [
        ((None, None, 1), 5, vec![0, 1, 2, 3, 4]),
        ((Some(1), Some(4), 2), 5, vec![1, 3]),
        ((Some(-2), None, 1), 5, vec![3, 4]),
        ((None, Some(-2), 1), 5, vec![0, 1, 2]),
        ((None, None, -1), 5, vec![4, 3, 2, 1, 0]),
        ((Some(3), Some(0), -2), 5, vec![3, 1]),
        ((Some(100), None, -3), 5, vec![4, 1]),
        ((Some(-100), Some(2), 1), 5, vec![0, 1]),
        ((Some(4), Some(2), 1), 5, vec![]),
        ((Some(-100), None, -1), 5, vec![]),
        ((None, None, -1), 0, vec![]),
        ((None, Some(i64::MIN), -4), 5, vec![4, 0]),
    ] {
        let mut b = GraphBuilder::new();
        let x = b.input("x", Scalar::F32, Shape::of(&[extent])).unwrap();
        let y = b.slice(x, &[slice]).unwrap();
        let graph = b.finish(&[y]).unwrap();
        let values: Vec<f64> = (0..extent).map(|i| i as f64).collect();
        let x = crate::support::tensor(Scalar::F32, &[extent], &values);
        let got = polyloom_graph::reference::evaluate(&graph, &[x]).unwrap();
        assert_eq!(got[0].numbers(), want.iter().map(|&i| f64::from(i)).collect::<Vec<_>>(), "{slice:?}");
    }
}

#[test]
fn slices_of_symbolic_axes_are_refused_unless_whole() {
    let mut b = GraphBuilder::new();
    let x = b.input("x", Scalar::F32, Shape(vec!["n".into(), 4.into()])).unwrap();
    assert!(b.slice(x, &[(None, None, 1), (Some(1), None, 1)]).is_ok());
    let error = b.slice(x, &[(Some(1), None, 1)]).unwrap_err();
    assert_eq!(error.to_string(), "`slice`: `x` has shape [n, 4], of which axis 0 has no known extent to slice");
    assert!(b.slice(x, &[(None, None, 1), (None, None, 0)]).is_err());
    assert!(b.slice(x, &[(None, None, 1); 3]).is_err());
}

#[test]
fn layouts_know_when_they_are_dense() {
    let dense = Layout::dense(&[2, 1, 3]);
    assert!(dense.is_dense() && dense.permuted(&[1, 0, 2]).is_dense());
    assert!(!dense.permuted(&[2, 0, 1]).is_dense());
    assert!(!Layout::dense(&[3]).broadcast_to(&[2, 3]).is_dense());
    assert_eq!(Layout::dense(&[2, 3]).permuted(&[1, 0]).places().collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(Layout::dense(&[4]).sliced(&[3], &[2], &[-2]).places().collect::<Vec<_>>(), [3, 1]);
    assert_eq!(Layout::dense(&[2, 0]).places().count(), 0);
    assert_eq!(Layout::dense(&[]).places().collect::<Vec<_>>(), [0]);
}

#[test]
fn symbols_become_the_extents_of_the_inputs() {
    let graph = graph("%0 = input \"x\" : f32[n, m]\n%1 = mean %0, axes=(1)\n%2 = element_count %0\nreturn %1, %2");
    let x = crate::support::tensor(Scalar::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]);
    let got = polyloom_graph::reference::evaluate(&graph, &[x]).unwrap();
    assert_eq!((got[0].numbers(), got[1].numbers()), (vec![2.0, 6.0], vec![6.0]));
}
