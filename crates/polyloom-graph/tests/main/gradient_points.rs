//! Gradients at points where there is none in the strict sense or a product would be 0 times infinity, and what gradients refuse.

use crate::gradients::float_inputs;
use crate::support::{check_close, graph, numbers, op_text, tensor};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{Graph, TensorId, decompose, gradient, value_and_gradient, verify};
use polyloom_ir::Scalar::{BF16, F16, F32, F64, I32};

const INFINITY: f64 = f64::INFINITY;

/// Returns the gradients of the sum of the output.
fn gradients_of(graph: &Graph, inputs: &[DenseTensor]) -> Vec<DenseTensor> {
    let gradients = gradient(graph, &float_inputs(graph)).unwrap();
    verify(&gradients).unwrap();
    let output = evaluate(graph, inputs).unwrap().remove(0);
    let ones = tensor(output.dtype, &output.extents, &vec![1.0; output.bits.len()]);
    evaluate(&gradients, &[inputs, &[ones]].concat()).unwrap_or_else(|error| panic!("{gradients}\n{error}"))
}

/// Checks the gradient by the first operand, a vector, of the sum of an op's result.
#[track_caller]
fn check(op: &str, x: &[f64], want: &[f64]) {
    let inputs = [tensor(F64, &[x.len() as u64], x)];
    let got = gradients_of(&graph(&op_text(op, &inputs)), &inputs).remove(0);
    check_close(op, &got, want, 1e-12);
}

/// Checks the gradients by both operands, vectors, of the sum of an op's result.
#[track_caller]
fn check_two(op: &str, [a, b]: [&[f64]; 2], want: [&[f64]; 2]) {
    let inputs = [a, b].map(|x| tensor(F64, &[x.len() as u64], x));
    let got = gradients_of(&graph(&op_text(op, &inputs)), &inputs);
    check_close(op, &got[0], want[0], 1e-12);
    check_close(op, &got[1], want[1], 1e-12);
}

#[test]
fn kinks_are_those_of_the_table() {
    check("relu %0", &[-1.0, 0.0, 2.0], &[0.0, 0.0, 1.0]);
    check("leaky_relu %0, negative_slope=0.25", &[-1.0, 0.0, 2.0], &[0.25, 0.25, 1.0]);
    check("absolute %0", &[-1.0, 0.0, 2.0], &[-1.0, 0.0, 1.0]);
    check("clip %0, -1.0, 2.0", &[-2.0, -1.0, 0.0, 2.0, 3.0], &[0.0, 1.0, 1.0, 1.0, 0.0]);
    check("clip 0.5, %0, 2.0", &[0.0, 0.5, 1.0, 3.0], &[0.0, 0.0, 1.0, 0.0]);
    check("clip 0.5, 1.0, %0", &[0.0, 1.0, 3.0], &[1.0, 0.0, 0.0]);
    check_two("maximum %0, %1", [&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]], [&[0.0, 1.0, 1.0], &[1.0, 0.0, 0.0]]);
    check_two("minimum %0, %1", [&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]], [&[1.0, 1.0, 0.0], &[0.0, 0.0, 1.0]]);
    check_two("copysign %0, %1", [&[0.0, -0.0, -2.0], &[-1.0, -1.0, 0.0]], [&[-1.0, 1.0, -1.0], &[0.0; 3]]);
    check_two("atan2 %0, %1", [&[0.0, 0.0], &[0.0, 2.0]], [&[0.0, 0.5], &[0.0, 0.0]]);
    check_two("hypot %0, %1", [&[0.0, 0.0], &[0.0, 2.0]], [&[0.0, 0.0], &[0.0, 1.0]]);
    check("sqrt %0", &[0.0, 4.0], &[INFINITY, 0.25]);
    check("softplus %0", &[0.0], &[0.5]);
}

#[test]
fn powers_of_zero() {
    for (exponent, want) in [("0.0", [0.0, 0.0]), ("1.0", [1.0, 1.0]), ("2.0", [0.0, 6.0]), ("3", [0.0, 27.0])] {
        check(&format!("power %0, {exponent}"), &[0.0, 3.0], &want);
    }
    check("power %0, 0.5", &[0.0, 4.0], &[INFINITY, 0.25]);
    let log = 2.0 * 2f64.ln();
    check_two(
        "power %0, %1",
        [&[0.0, 0.0, 0.0, 2.0], &[0.0, 1.0, 2.0, 1.0]],
        [&[0.0, 1.0, 0.0, 1.0], &[0.0, 0.0, 0.0, log]],
    );
    // A negative base has a slope by itself, and none by the exponent.
    check_two("power %0, %1", [&[-2.0], &[3.0]], [&[12.0], &[f64::NAN]]);
}

#[test]
fn reductions_choose_the_first_of_equal_elements() {
    check("max %0", &[1.0, 3.0, 3.0], &[0.0, 1.0, 0.0]);
    check("min %0", &[1.0, 1.0, 3.0], &[1.0, 0.0, 0.0]);
    check("max %0", &[-0.0, 0.0], &[1.0, 0.0]);
    let x = tensor(F64, &[2, 2, 2], &[1.0, 3.0, 4.0, 2.0, 3.0, 3.0, 4.0, 4.0]);
    for (op, want) in [
        ("max %0", [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("max %0, axes=(0, 2)", [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("max %0, axes=(0), keepdims=true", [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]),
        ("min %0, axes=(1, 2)", [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
    ] {
        let inputs = std::slice::from_ref(&x);
        check_close(op, &gradients_of(&graph(&op_text(op, inputs)), inputs)[0], &want, 0.0);
    }
}

#[test]
fn reductions_of_zeros_and_infinities() {
    check("norm %0", &[0.0, 0.0], &[0.0, 0.0]);
    check("norm %0", &[3.0, -4.0], &[0.6, -0.8]);
    check("std %0", &[2.0, 2.0, 2.0], &[0.0; 3]);
    check("prod %0", &[2.0, 4.0, 3.0], &[12.0, 6.0, 8.0]);
    check("prod %0", &[2.0, 0.0, 3.0], &[0.0, 6.0, 0.0]);
    check("prod %0", &[2.0, 0.0, 0.0], &[0.0, 0.0, 0.0]);
    check("prod %0", &[], &[]);
    check("cumprod %0, axis=0", &[2.0, 3.0], &[4.0, 2.0]);
    check("cumprod %0, axis=0", &[2.0, 0.0, 3.0, 0.0, 5.0], &[1.0, 8.0, 0.0, 0.0, 0.0]);
    check("cumprod %0, axis=0", &[0.0, 0.0, 3.0], &[1.0, 0.0, 0.0]);
    check("cummax %0, axis=0", &[1.0, 3.0, 3.0, 2.0, 4.0], &[1.0, 3.0, 0.0, 0.0, 1.0]);
    check("cummin %0, axis=0", &[1.0, -0.0, 0.0], &[1.0, 2.0, 0.0]);
    check("logsumexp %0", &[-INFINITY, 0.0], &[0.0, 1.0]);
    check("logsumexp %0", &[-INFINITY, -INFINITY], &[0.0, 0.0]);
    check("logsumexp %0", &[INFINITY, 0.0], &[f64::NAN, 0.0]);
    check("logsumexp %0", &[f64::NAN, 0.0], &[f64::NAN; 2]);
    check("softmax %0", &[-INFINITY, 0.0], &[0.0, 0.0]);
    check("log_softmax %0", &[1000.0, 0.0], &[-1.0, 1.0]);
    check("mean %0", &[], &[]);
}

#[test]
fn saturated_activations_have_no_nan() {
    check("sigmoid %0", &[-1000.0, 1000.0, 0.0], &[0.0, 0.0, 0.25]);
    check("softplus %0", &[-1000.0, 1000.0], &[0.0, 1.0]);
    check("silu %0", &[-1000.0, 1000.0], &[0.0, 1.0]);
    check("gelu %0", &[-1000.0, 1000.0], &[0.0, 1.0]);
    check("tanh %0", &[-1000.0, 1000.0], &[0.0, 0.0]);
    check("atan %0", &[1e200], &[0.0]);
}

/// Slopes near 0 have as many digits as others.
#[test]
fn small_slopes_have_all_digits() {
    for (op, x, want) in [
        ("expm1 %0", -40.0, (-40f64).exp()),
        ("acos %0", 1.0 - 1e-12, -707_106.781_186_724_3),
        ("log_softmax %0, axis=1", 1.0, 0.0),
        ("atan2 %0, 1e200", 1e200, 5e-201),
    ] {
        let inputs = [tensor(F64, &[1, 1], &[x])];
        let got = gradients_of(&graph(&op_text(op, &inputs)), &inputs)[0].numbers()[0];
        assert!((got - want).abs() <= 1e-4 * f64::abs(want), "{op}: {got}, not {want}");
    }
}

/// Says what is computed for the value that is not taken may be infinite, and so may its slope.
#[test]
fn values_that_are_not_taken_have_no_gradient() {
    let chosen = |body: &str| graph(&format!("%x = input \"x\" : f64[2]\n{body}\nreturn %r"));
    let bodies = [
        ("%c = greater %x, 0.0\n%a = log %x\n%r = where %c, %a, 0.0", [0.0, 0.5]),
        ("%c = greater %x, 0.0\n%a = rsqrt %x\n%b = exp %a\n%r = where %c, %b, %x", [1.0, -0.35852346413723957]),
        ("%c = greater %x, 0.0\n%a = divide 1.0, %x\n%b = multiply %a, %a\n%r = where %c, %b, 0.0", [0.0, -0.25]),
        (
            "%c = equal %x, 0.0\n%a = multiply %x, 1000.0\n%b = exp %a\n%d = expm1 %b\n%r = where %c, 0.0, %d",
            [0.0, INFINITY],
        ),
        ("%a = log %x\n%r = maximum %a, -1.0", [0.0, 0.5]),
        ("%a = divide -1.0, %x\n%s = reshape %a, shape=(1, 2)\n%b = maximum %s, -9.0\n%r = sum %b", [0.0, 0.25]),
        ("%c = greater %x, 0.0\n%a = power %x, -1.5\n%r = where %c, %a, 0.0", [0.0, -0.2651650429449553]),
    ];
    for (body, want) in bodies {
        let graph = chosen(body);
        let x = tensor(F64, &[2], &[0.0, 2.0]);
        check_close(body, &gradients_of(&graph, std::slice::from_ref(&x))[0], &want, 1e-12);
        if want[1].is_finite() {
            let cotangent = evaluate(&graph, std::slice::from_ref(&x)).unwrap().remove(0);
            let ones = tensor(F64, &cotangent.extents, &vec![1.0; cotangent.bits.len()]);
            let second = gradients_of(&gradient(&graph, &[TensorId(0)]).unwrap(), &[x, ones]);
            assert!(second.iter().all(|tensor| tensor.numbers().iter().all(|x| x.is_finite())), "{body}: {second:?}");
        }
    }
    let wrong = tensor(F64, &[2], &[INFINITY, f64::NAN]);
    let right = tensor(F64, &[2], &[1.0, 2.0]);
    let graph = graph(&op_text("where true, %0, %1", &[right.clone(), wrong.clone()]));
    let got = gradients_of(&graph, &[right, wrong]);
    assert_eq!([got[0].numbers(), got[1].numbers()], [[1.0, 1.0], [0.0, 0.0]]);
}

/// The cotangent of `x` is 0 where `x` is taken, and its derivative is not.
#[test]
fn second_derivatives_survive_cotangents_of_zero() {
    let text = "%x = input \"x\" : f64[1]\n%e = expm1 %x\n%c = less %x, 1.0\n%w = where %c, %e, 0.0\n%s = multiply %w, %w\n\
        return %s";
    let first = gradient(&graph(text), &[TensorId(0)]).unwrap();
    let second = gradients_of(&first, &[tensor(F64, &[1], &[0.0]), tensor(F64, &[1], &[1.0])]);
    assert_eq!(second[0].numbers(), [2.0]);
}

#[test]
fn dropout_keeps_what_it_kept() {
    let x = [tensor(F32, &[64], &[1.0; 64])];
    let graph = graph(&op_text("dropout %0, 7, p=0.75", &x));
    let kept = evaluate(&graph, &x).unwrap().remove(0);
    assert_eq!(gradients_of(&graph, &x), [kept]);
}

#[test]
fn classes_have_no_gradient_and_logits_do() {
    for (reduction, scale) in [("none", 1.0), ("sum", 1.0), ("mean", 0.5)] {
        let inputs = [tensor(F64, &[2, 3], &numbers(6)), tensor(I32, &[2], &[2.0, -100.0])];
        let graph = graph(&op_text(&format!("cross_entropy %0, %1, reduction=\"{reduction}\""), &inputs));
        let row = &numbers(6)[..3];
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        let softmax: Vec<f64> = row.iter().map(|x| x.exp() / sum).collect();
        // The second target is no class, so that its row has no loss.
        let want = [softmax[0], softmax[1], softmax[2] - 1.0, 0.0, 0.0, 0.0].map(|x| x * scale);
        check_close(reduction, &gradients_of(&graph, &inputs)[0], &want, 1e-12);
    }
}

#[test]
fn gradients_of_halves_are_computed_in_float32() {
    let x = numbers(8);
    for dtype in [F16, BF16] {
        let rounded = tensor(dtype, &[8], &x).numbers();
        for (op, slope) in [("tanh %0", (|x| 1.0 - x.tanh() * x.tanh()) as fn(f64) -> f64), ("square %0", |x| 2.0 * x)]
        {
            let got = gradients_of(&graph(&op_text(op, &[tensor(dtype, &[8], &x)])), &[tensor(dtype, &[8], &x)]);
            let want: Vec<f64> = rounded.iter().map(|&x| slope(x)).collect();
            assert_eq!(got[0].dtype, dtype);
            let tolerance = if dtype == F16 { 1e-3 } else { 8e-3 };
            check_close(op, &got[0], &want, tolerance);
        }
        let product = op_text("matmul %0, %1", &[tensor(dtype, &[2, 4], &x), tensor(dtype, &[4, 2], &x)]);
        assert!(!gradient(&graph(&product), &[TensorId(0)]).unwrap().to_string().contains("cast"));
    }
}

#[test]
fn gradients_have_the_types_of_inputs() {
    let text = "%a = input \"a\" : f32[n, 1]\n%b = input \"b\" : f64[k]\n%i = input \"i\" : i32[k]\n%c = add %a, %b\n\
        %d = multiply %c, %i\n%e = greater %d, 0.0\nreturn %d, %e, %a";
    let gradients = gradient(&graph(text), &[TensorId(1), TensorId(0)]).unwrap();
    let types = |graph: &Graph| graph.inputs().map(|(name, ty)| format!("{name}: {ty}")).collect::<Vec<String>>();
    assert_eq!(
        types(&gradients),
        ["a: f32[n, 1]", "b: f64[k]", "i: i32[k]", "cotangent0: f64[n, k]", "cotangent2: f32[n, 1]"]
    );
    let ty = |output: &TensorId| gradients.value(*output).unwrap().ty.to_string();
    assert_eq!(gradients.outputs.iter().map(ty).collect::<Vec<String>>(), ["f64[k]", "f32[n, 1]"]);
}

#[test]
fn values_come_before_gradients() {
    let text = "%x = input \"cotangent0\" : f64[2]\n%y = input \"y\" : f64[3]\n%z = square %x\nreturn %z, %x, %z";
    let both = value_and_gradient(&graph(text), &[TensorId(0), TensorId(1)]).unwrap();
    verify(&both).unwrap();
    let names: Vec<&str> = both.inputs().map(|(name, _)| name).collect();
    assert_eq!(names, ["cotangent0", "y", "cotangent0_", "cotangent1", "cotangent2"]);
    let two = |a, b| tensor(F64, &[2], &[a, b]);
    let inputs = [two(1.0, 3.0), tensor(F64, &[3], &[0.0; 3]), two(1.0, 1.0), two(0.5, 0.25), two(10.0, 0.0)];
    let results: Vec<Vec<f64>> = evaluate(&both, &inputs).unwrap().iter().map(DenseTensor::numbers).collect();
    assert_eq!(results[..3], [[1.0, 9.0], [1.0, 3.0], [1.0, 9.0]]);
    // 2 x (1 + 10) + 0.5, and 2 x (1 + 0) + 0.25; nothing depends on y.
    assert_eq!(results[3..], [vec![22.5, 6.25], vec![0.0; 3]]);
}

#[test]
fn unused_values_are_left_out() {
    let text = "%x = input \"x\" : f64[2]\n%y = input \"y\" : f64[2]\n%a = exp %y\n%r = add %x, %a\nreturn %r";
    let gradients = gradient(&graph(text), &[TensorId(0)]).unwrap();
    assert_eq!(gradients.values.len(), 3, "{gradients}");
    assert_eq!(decompose(&gradients).unwrap(), gradients);
}

#[test]
fn refusals_name_the_input() {
    let graph = graph("%x = input \"x\" : f32[2]\n%i = input \"i\" : i64[2]\n%r = add %x, %i\nreturn %r");
    let message = |id: u32| gradient(&graph, &[TensorId(id)]).unwrap_err().to_string();
    assert_eq!(message(1), "`gradient`: `i` is int64, but gradients are by floats");
    assert_eq!(message(3), "%3: it is no input, and gradients are by inputs");
    assert_eq!(message(9), "%9 is not defined before its use");
}
