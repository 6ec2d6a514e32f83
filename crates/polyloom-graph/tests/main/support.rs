//! Short forms for tests: graphs as text, tensors as numbers.

use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{Graph, parse_graph, verify};
use polyloom_ir::Scalar;

/// Reads a graph, which must be well formed.
pub(crate) fn graph(text: &str) -> Graph {
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    verify(&graph).unwrap_or_else(|error| panic!("{graph}\n{error}"));
    graph
}

/// Makes a tensor.
pub(crate) fn tensor(dtype: Scalar, extents: &[u64], values: &[f64]) -> DenseTensor {
    DenseTensor::of_numbers(dtype, extents, values).unwrap()
}

/// Evaluates one op, written as in a graph with `%0`, `%1`, … for the inputs.
pub(crate) fn apply(op: &str, inputs: &[DenseTensor]) -> DenseTensor {
    evaluate(&graph(&op_text(op, inputs)), inputs).unwrap_or_else(|error| panic!("{op}: {error}")).remove(0)
}

/// Returns the text of a graph of one op, which may use `%i`, an index of shape `[1, 1]` that is 1.
pub(crate) fn op_text(op: &str, inputs: &[DenseTensor]) -> String {
    let input = |(index, input): (usize, &DenseTensor)| {
        format!("%{index} = input \"x{index}\" : {}{:?}\n", input.dtype, input.extents)
    };
    let inputs: String = inputs.iter().enumerate().map(input).collect();
    body_text(&inputs, op)
}

/// Returns the text of a graph of inputs and one op.
pub(crate) fn body_text(inputs: &str, op: &str) -> String {
    let index = "%k = constant 1 : i64[]\n%i = reshape %k, shape=[1, 1]\n";
    let index = if op.contains("%i") { index } else { "" };
    format!("{inputs}{index}%r = {op}\nreturn %r")
}

/// Returns the message of the graph of one op on inputs of these types, such as `f32[2, 3]`.
pub(crate) fn refusal(op: &str, types: &[&str]) -> String {
    match parse_graph(&typed_text(op, types)) {
        Ok(graph) => panic!("{graph}"),
        Err(error) => error.to_string(),
    }
}

/// Returns the type of the result of an op on inputs of these types.
pub(crate) fn type_of(op: &str, types: &[&str]) -> String {
    let graph = graph(&typed_text(op, types));
    graph.value(graph.outputs[0]).unwrap().ty.to_string()
}

fn typed_text(op: &str, types: &[&str]) -> String {
    let inputs: String = types.iter().enumerate().map(|(i, ty)| format!("%{i} = input \"x{i}\" : {ty}\n")).collect();
    format!("{inputs}%r = {op}\nreturn %r")
}

/// Checks numbers, NaN being equal to NaN.
#[track_caller]
pub(crate) fn check_close(op: &str, got: &DenseTensor, want: &[f64], tolerance: f64) {
    let got = got.numbers();
    assert_eq!(got.len(), want.len(), "{op}: {got:?} {want:?}");
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let is_close = got == want
            || got.is_nan() && want.is_nan()
            || (got - want).abs() <= tolerance * want.abs().max(1.0) && want.is_finite();
        assert!(is_close, "{op}: element {index} is {got}, should be {want}");
    }
}

/// Numbers that are easy to make and to tell apart, on both sides of 0.
pub(crate) fn numbers(n: usize) -> Vec<f64> {
    let mut state = 12345u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Few bits, so that the numbers are the same in all types.
        ((state >> 40) % 2048) as f64 / 256.0 - 4.0
    };
    (0..n).map(|_| next()).collect()
}
