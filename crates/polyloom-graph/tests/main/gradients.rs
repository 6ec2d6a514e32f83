//! Gradients of every op against central differences in float64, to second order.

use crate::support::{body_text, check_close, graph, numbers, op_text, tensor};
use polyloom_graph::op::GradientRule;
use polyloom_graph::plan::{BufferKind, PlanOptions, plan};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{
    Graph, Layout, TensorDef, TensorId, TensorOp, decompose, gradient, has_gradient_rule, parse_graph, verify,
};
use polyloom_ir::Scalar::{self, BF16, F16, F32, F64};
use std::collections::BTreeSet;

/// Says where the operands of a case lie.
#[derive(Clone, Copy, PartialEq)]
enum Domain {
    /// On both sides of 0.
    Any,
    /// Above 0.
    Positive,
    /// Between -1 and 1.
    Unit,
    /// Above 1.
    AboveOne,
}
use Domain::{AboveOne, Any, Positive, Unit};

/// An op with the shapes of its operands, which are floats.
type GradientCase = (&'static str, &'static [&'static [u64]], Domain);

const CASES: &[GradientCase] = &[
    ("add %0, %1", &[&[2, 3], &[2, 3]], Any),
    ("add %0, %1", &[&[2, 1], &[3]], Any),
    ("add %0, %0", &[&[3]], Any),
    ("subtract %0, %1", &[&[3], &[2, 1, 1]], Any),
    ("subtract 2.0, %0", &[&[3]], Any),
    ("multiply %0, %1", &[&[2, 3], &[]], Any),
    ("multiply %0, %1", &[&[1, 3], &[2, 1]], Any),
    ("multiply %0, %0", &[&[3]], Any),
    ("divide %0, %1", &[&[2, 3], &[3]], Positive),
    ("divide %0, %1", &[&[1], &[2, 2]], Any),
    ("remainder %0, %1", &[&[2, 3], &[3]], Any),
    ("power %0, %1", &[&[2, 3], &[3]], Positive),
    ("power %0, %1", &[&[], &[3]], Positive),
    ("power %0, 2.0", &[&[3]], Any),
    ("power %0, 3", &[&[3]], Any),
    ("power %0, 1.0", &[&[3]], Any),
    ("power %0, 0.0", &[&[3]], Any),
    ("power %0, -0.5", &[&[3]], Positive),
    ("power 2.0, %0", &[&[3]], Any),
    ("negative %0", &[&[3]], Any),
    ("absolute %0", &[&[5]], Any),
    ("square %0", &[&[5]], Any),
    ("reciprocal %0", &[&[5]], Any),
    ("maximum %0, %1", &[&[2, 3], &[3]], Any),
    ("minimum %0, %1", &[&[2, 1], &[3]], Any),
    ("clip %0, %1, %2", &[&[2, 3], &[3], &[]], Any),
    ("clip %0, -1.0, 2.0", &[&[6]], Any),
    ("copysign %0, %1", &[&[2, 3], &[3]], Any),
    ("sqrt %0", &[&[3]], Positive),
    ("rsqrt %0", &[&[3]], Positive),
    ("cbrt %0", &[&[3]], Any),
    ("exp %0", &[&[3]], Any),
    ("exp2 %0", &[&[3]], Any),
    ("expm1 %0", &[&[3]], Any),
    ("log %0", &[&[3]], Positive),
    ("log2 %0", &[&[3]], Positive),
    ("log10 %0", &[&[3]], Positive),
    ("log1p %0", &[&[3]], Positive),
    ("sin %0", &[&[3]], Any),
    ("cos %0", &[&[3]], Any),
    ("tan %0", &[&[3]], Unit),
    ("asin %0", &[&[3]], Unit),
    ("acos %0", &[&[3]], Unit),
    ("atan %0", &[&[3]], Any),
    ("atan2 %0, %1", &[&[2, 3], &[3]], Any),
    ("sinh %0", &[&[3]], Any),
    ("cosh %0", &[&[3]], Any),
    ("tanh %0", &[&[3]], Any),
    ("asinh %0", &[&[3]], Any),
    ("acosh %0", &[&[3]], AboveOne),
    ("atanh %0", &[&[3]], Unit),
    ("erf %0", &[&[3]], Any),
    ("erfc %0", &[&[3]], Any),
    ("hypot %0, %1", &[&[2, 3], &[3]], Any),
    ("where true, %0, %1", &[&[2, 3], &[3]], Any),
    ("cast %0, dtype=f64", &[&[3]], Any),
    ("relu %0", &[&[6]], Any),
    ("leaky_relu %0, negative_slope=0.25", &[&[6]], Any),
    ("gelu %0", &[&[4]], Any),
    ("gelu %0, approximate=\"tanh\"", &[&[4]], Any),
    ("silu %0", &[&[4]], Any),
    ("sigmoid %0", &[&[4]], Any),
    ("softplus %0", &[&[4]], Any),
    ("sum %0", &[&[2, 3]], Any),
    ("sum %0, axes=(-1)", &[&[2, 3]], Any),
    ("sum %0, axes=(0, 2), keepdims=true", &[&[2, 2, 2]], Any),
    ("sum %0, axes=()", &[&[3]], Any),
    ("prod %0", &[&[2, 3]], Any),
    ("prod %0, axes=(-1), keepdims=true", &[&[2, 3]], Any),
    ("prod %0, axes=(0, 2)", &[&[2, 2, 2]], Any),
    ("max %0", &[&[2, 3]], Any),
    ("max %0, axes=(0, -1)", &[&[2, 2, 2]], Any),
    ("min %0, axes=(1), keepdims=true", &[&[2, 3]], Any),
    ("mean %0", &[&[2, 3]], Any),
    ("mean %0, axes=(0)", &[&[2, 3]], Any),
    ("var %0, axes=(-1), correction=1", &[&[2, 3]], Any),
    ("var %0, keepdims=true", &[&[2, 3]], Any),
    ("std %0, axes=(0)", &[&[3, 2]], Any),
    ("std %0, correction=1", &[&[3]], Any),
    ("logsumexp %0, axes=(-1)", &[&[2, 3]], Any),
    ("logsumexp %0, axes=(0), keepdims=true", &[&[2, 3]], Any),
    ("norm %0", &[&[2, 3]], Any),
    ("norm %0, axes=(-1)", &[&[2, 3]], Any),
    ("softmax %0", &[&[2, 3]], Any),
    ("softmax %0, axis=0", &[&[2, 3]], Any),
    ("log_softmax %0", &[&[2, 3]], Any),
    ("log_softmax %0, axis=0", &[&[2, 1, 2]], Any),
    ("layer_norm %0, %1, %2", &[&[2, 3], &[3], &[3]], Any),
    ("layer_norm %0, axis=0", &[&[2, 2]], Any),
    ("rms_norm %0, %1", &[&[2, 3], &[3]], Any),
    ("group_norm %0, %1, %2, groups=2", &[&[1, 4, 2], &[4], &[4]], Any),
    ("cross_entropy %0, 1", &[&[3]], Any),
    ("cumsum %0, axis=-1", &[&[2, 3]], Any),
    ("cumsum %0, axis=0", &[&[2, 2]], Any),
    ("cumprod %0, axis=-1", &[&[2, 3]], Any),
    ("cumprod %0, axis=0", &[&[3]], Any),
    ("cummax %0, axis=-1", &[&[2, 4]], Any),
    ("cummin %0, axis=0", &[&[3, 2]], Any),
    ("scan %0, axis=0, combine=\"multiply\"", &[&[4]], Any),
    ("linear_recurrence %0, %1, axis=-1", &[&[2, 4], &[2, 4]], Any),
    ("linear_recurrence %0, %1, axis=0", &[&[1], &[4, 2]], Any),
    ("reshape %0, shape=(3, 2)", &[&[2, 3]], Any),
    ("permute %0, axes=(2, 0, 1)", &[&[2, 1, 3]], Any),
    ("transpose %0", &[&[2, 3]], Any),
    ("transpose %0, axis1=0, axis2=-1", &[&[2, 1, 3]], Any),
    ("slice %0, starts=(0, 1), sizes=(2, 2), steps=(1, 1)", &[&[2, 4]], Any),
    ("slice %0, starts=(1, 4), sizes=(2, 2), steps=(-1, -3)", &[&[2, 6]], Any),
    ("slice %0, starts=(2), sizes=(3), steps=(2)", &[&[8]], Any),
    ("slice %0, starts=(1, 1), sizes=(1, 2), steps=(-7, 2)", &[&[2, 4]], Any),
    ("flip %0", &[&[2, 3]], Any),
    ("flip %0, axes=(-1)", &[&[2, 3]], Any),
    ("broadcast_to %0, shape=(2, 3, 2)", &[&[3, 1]], Any),
    ("concat %0, %1, %0, axis=-1", &[&[2, 1], &[2, 2]], Any),
    ("concat %0", &[&[2, 1]], Any),
    ("stack %0, %1, axis=-1", &[&[2], &[2]], Any),
    ("pad %0, widths=(1, 0, 0, 2), value=3", &[&[2, 2]], Any),
    ("tile %0, repeats=(2, 3)", &[&[2, 1]], Any),
    ("dropout %0, 42, p=0.5", &[&[8]], Any),
    ("dropout %0, 42, p=1", &[&[3]], Any),
    ("matmul %0, %1", &[&[2, 3], &[3, 2]], Any),
    ("matmul %0, %1", &[&[3], &[3]], Any),
    ("matmul %0, %1", &[&[3], &[3, 2]], Any),
    ("matmul %0, %1", &[&[2, 3], &[3]], Any),
    ("matmul %0, %1", &[&[2], &[2, 2, 3]], Any),
    ("matmul %0, %1", &[&[2, 2, 3], &[3]], Any),
    ("matmul %0, %1", &[&[2, 2, 2], &[2, 3]], Any),
    ("matmul %0, %1", &[&[2, 3], &[2, 3, 1]], Any),
    ("matmul %0, %1", &[&[2, 1, 2, 2], &[2, 2, 1]], Any),
    ("contract %0, %1, a_labels=(0, 1, 2), b_labels=(2, 3, 0), labels=(3, 0, 1)", &[&[2, 2, 3], &[3, 2, 2]], Any),
    ("contract %0, %1, a_labels=(0, 1), b_labels=(0, 1), labels=()", &[&[2, 3], &[2, 3]], Any),
    ("einsum %0, %1, equation=\"bij,bjk->bki\"", &[&[2, 2, 3], &[2, 3, 2]], Any),
    ("einsum %0, %1, %2, equation=\"ij,jk,k\"", &[&[2, 3], &[3, 2], &[2]], Any),
    ("einsum %0, equation=\"ij->j\"", &[&[2, 3]], Any),
    ("attention %0, %1, %2", &[&[2, 3, 2], &[2, 4, 2], &[2, 4, 3]], Any),
    ("attention %0, %1, %2, causal=true, scale=0.5", &[&[3, 2], &[3, 2], &[3, 2]], Any),
    ("attention %0, %1, %2, causal=true", &[&[2, 2, 2], &[3, 2], &[2, 3, 1]], Any),
    ("linear %0, %1, %2", &[&[2, 3], &[4, 3], &[4]], Any),
    ("linear %0, %1", &[&[3], &[2, 3]], Any),
    ("windows %0, axes=(0), sizes=(2), steps=(2), dilations=(2)", &[&[7, 2]], Any),
    ("windows %0, axes=(1, 0), sizes=(2, 2), steps=(1, 2), dilations=(1, 1)", &[&[4, 3]], Any),
    ("contiguous %0", &[&[2, 3]], Any),
    ("gather %0, %i, axis=0", &[&[3, 2]], Any),
    ("gather %0, %i, axis=1", &[&[3, 4]], Any),
    ("take %0, 2, axis=1", &[&[2, 3, 2]], Any),
    ("take %0, -1, axis=0", &[&[3, 2]], Any),
    ("take %0, 7, axis=0", &[&[3, 2]], Any),
    ("embedding %0, 1", &[&[3, 2]], Any),
    ("scatter_add %0, 1, %1, axis=0", &[&[3, 2], &[4, 2]], Any),
    ("scatter_add %0, 5, %1, axis=1", &[&[2, 3], &[2, 2]], Any),
    ("sort %0", &[&[2, 5]], Any),
    ("sort %0, axis=0, descending=true", &[&[4, 3]], Any),
    ("conv1d %0, %1, %2", &[&[2, 2, 5], &[3, 2, 2], &[3]], Any),
    ("conv1d %0, %1, stride=(2), padding=(1, 0), dilation=(2), groups=2", &[&[1, 2, 6], &[4, 1, 2]], Any),
    ("conv2d %0, %1, %2, padding=(1)", &[&[1, 2, 3, 3], &[2, 2, 3, 2], &[2]], Any),
    ("conv2d %0, %1, stride=(2, 3), padding=(2, 1)", &[&[1, 1, 4, 5], &[2, 1, 2, 2]], Any),
    ("conv2d %0, %1, padding=(3)", &[&[1, 1, 2, 2], &[1, 1, 2, 2]], Any),
    ("max_pool2d %0, size=(2)", &[&[2, 4, 4]], Any),
    ("max_pool2d %0, size=(3, 2), stride=(2), padding=(1)", &[&[1, 4, 5]], Any),
    ("avg_pool2d %0, size=(2, 3), stride=(1)", &[&[1, 3, 4]], Any),
    ("avg_pool2d %0, size=(3), stride=(2), padding=(1)", &[&[4, 4]], Any),
    ("avg_pool2d %0, size=(3), stride=(2), padding=(1), count_padding=true", &[&[4, 4]], Any),
    // The slope of these is 0.
    ("floor_divide %0, %1", &[&[2, 3], &[3]], Any),
    ("sign %0", &[&[3]], Any),
    ("floor %0", &[&[3]], Any),
    ("ceil %0", &[&[3]], Any),
    ("trunc %0", &[&[3]], Any),
    ("round %0", &[&[3]], Any),
];

/// Returns numbers of a domain that are no whole numbers or halves, where ops have kinks, nor equal.
fn values(n: usize, domain: Domain) -> Vec<f64> {
    let spread = numbers(n).into_iter().enumerate().map(|(index, x)| x + 0.0013 + index as f64 * 0.0001);
    let mapped = spread.map(|x| match domain {
        Any => x,
        Positive => x.abs() + 0.5,
        Unit => x / 5.5,
        AboveOne => x.abs() + 1.5,
    });
    mapped.collect()
}

/// Returns the graph of an op and operands for it. No two operands begin with the same numbers.
fn case_graph(case: GradientCase) -> (Graph, Vec<DenseTensor>) {
    typed_case_graph(case, F64)
}

fn typed_case_graph((op, shapes, domain): GradientCase, dtype: Scalar) -> (Graph, Vec<DenseTensor>) {
    let mut text = String::new();
    let n_elements = |shape: &[u64]| shape.iter().product::<u64>() as usize;
    let mut rest = values(shapes.iter().map(|shape| n_elements(shape)).sum(), domain).into_iter();
    let mut inputs = Vec::new();
    for (index, &shape) in shapes.iter().enumerate() {
        text += &format!("%{index} = input \"x{index}\" : {dtype}{shape:?}\n");
        inputs.push(tensor(dtype, shape, &rest.by_ref().take(n_elements(shape)).collect::<Vec<f64>>()));
    }
    (graph(&body_text(&text, op)), inputs)
}

/// Returns the inputs that are floats.
pub(crate) fn float_inputs(graph: &Graph) -> Vec<TensorId> {
    let is_float_input =
        |id: &TensorId| graph.value(*id).is_some_and(|v| matches!(v.def, TensorDef::Input(_)) && v.ty.dtype.is_float());
    graph.iter().map(|(id, _)| id).filter(is_float_input).collect()
}

/// Makes cotangents for the outputs of a graph: numbers that tell elements apart.
fn cotangents(graph: &Graph, inputs: &[DenseTensor]) -> Vec<DenseTensor> {
    let outputs = evaluate(graph, inputs).unwrap();
    let floats = outputs.into_iter().filter(|output| output.dtype.is_float());
    let cotangent = |output: DenseTensor| {
        let numbers = (0..output.bits.len()).map(|index| 0.75 - 0.375 * (index % 5) as f64).collect::<Vec<f64>>();
        tensor(output.dtype, &output.extents, &numbers)
    };
    floats.map(cotangent).collect()
}

/// Returns the sum of outputs times cotangents, whose derivative a gradient is.
fn objective(graph: &Graph, inputs: &[DenseTensor], cotangents: &[DenseTensor]) -> f64 {
    let outputs = evaluate(graph, inputs).unwrap().into_iter().filter(|output| output.dtype.is_float());
    let products = outputs.zip(cotangents).map(|(output, cotangent)| {
        output.numbers().iter().zip(cotangent.numbers()).map(|(x, cotangent)| x * cotangent).sum::<f64>()
    });
    products.sum()
}

/// Checks the gradients by all float inputs against central differences, and returns the graph of gradients with its inputs.
fn check_gradient(graph: &Graph, inputs: &[DenseTensor]) -> (Graph, Vec<DenseTensor>) {
    let wrt = float_inputs(graph);
    let gradients = gradient(graph, &wrt).unwrap_or_else(|error| panic!("{graph}\n{error}"));
    verify(&gradients).unwrap_or_else(|error| panic!("{gradients}\n{error}"));
    let cotangents = cotangents(graph, inputs);
    let all_inputs: Vec<DenseTensor> = inputs.iter().chain(&cotangents).cloned().collect();
    let results = evaluate(&gradients, &all_inputs).unwrap();
    for ((input_idx, input), result) in inputs.iter().enumerate().zip(&results) {
        assert_eq!((result.dtype, &result.extents), (input.dtype, &input.extents), "{gradients}");
        for (element, got) in result.numbers().into_iter().enumerate() {
            let shifted = |step: f64| {
                let mut inputs = inputs.to_vec();
                let mut numbers = input.numbers();
                numbers[element] += step;
                inputs[input_idx] = tensor(F64, &input.extents, &numbers);
                objective(graph, &inputs, &cotangents)
            };
            let want = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let is_close = (got - want).abs() <= 2e-6 * want.abs().max(1.0);
            assert!(
                is_close,
                "{graph}\ninput {input_idx} {input:?}, element {element}: {got}, not {want}\n{gradients}"
            );
        }
    }
    (gradients, all_inputs)
}

#[test]
fn gradients_are_central_differences() {
    for &case in CASES {
        let (graph, inputs) = case_graph(case);
        check_gradient(&graph, &inputs);
    }
}

#[test]
fn gradients_have_gradients() {
    for &case in CASES {
        let (graph, inputs) = case_graph(case);
        let (gradients, inputs) = check_gradient(&graph, &inputs);
        check_gradient(&gradients, &inputs);
    }
}

#[test]
fn products_of_zeros_have_second_derivatives() {
    for x in [[2.0, 0.0, 3.0, 0.5], [0.0, 0.0, 3.0, 0.5], [0.0, -1.0, 0.0, 0.0]] {
        for (extents, op) in [(&[2, 2][..], "prod %0"), (&[4], "cumprod %0, axis=0")] {
            let inputs = [tensor(F64, extents, &x)];
            let (gradients, inputs) = check_gradient(&graph(&op_text(op, &inputs)), &inputs);
            check_gradient(&gradients, &inputs);
        }
    }
}

/// A network with a loss: contributions are added, and what relu leaves out meets normalisation.
#[test]
fn networks_have_gradients() {
    let text = "%x = input \"x\" : f64[3, 2]\n%w = input \"w\" : f64[2, 4]\n%b = input \"b\" : f64[4]\n\
        %v = input \"v\" : f64[4, 4]\n%h = matmul %x, %w\n%i = add %h, %b\n%r = relu %i\n%n = layer_norm %r, %b\n\
        %k = matmul %n, %v\n%t = transpose %k\n%s = matmul %k, %t\n%p = softmax %s\n%q = matmul %p, %r\n\
        %z = multiply %q, %b\n%l = log_softmax %z\n%y = mean %l\nreturn %y, %q";
    let extents: [&[u64]; 4] = [&[3, 2], &[2, 4], &[4], &[4, 4]];
    let mut rest = values(6 + 8 + 4 + 16, Unit).into_iter();
    let input = |extents: &&[u64]| {
        let n = extents.iter().product::<u64>() as usize;
        tensor(F64, extents, &rest.by_ref().take(n).collect::<Vec<f64>>())
    };
    let inputs: Vec<DenseTensor> = extents.iter().map(input).collect();
    let (gradients, inputs) = check_gradient(&graph(text), &inputs);
    check_gradient(&gradients, &inputs);
}

#[test]
fn gradients_have_plans() {
    for &case in CASES {
        let (graph, inputs) = case_graph(case);
        let gradients = gradient(&graph, &float_inputs(&graph)).unwrap();
        let inputs = [inputs.clone(), cotangents(&graph, &inputs)].concat();
        let layouts: Vec<Layout> = inputs.iter().map(|input| Layout::dense(&input.extents)).collect();
        let plan = plan(&gradients, &layouts, &PlanOptions::default());
        for kernel in plan.unwrap_or_else(|error| panic!("{gradients}\n{error}")).kernels {
            kernel.body.function().unwrap_or_else(|error| panic!("{gradients}\n{error:?}"));
        }
    }
}

#[test]
fn decomposed_graphs_have_the_same_gradients() {
    // A sort is made of the bits of its operand, which have no gradient.
    for &case in CASES.iter().filter(|(op, ..)| !op.starts_with("sort ")) {
        let (graph, inputs) = case_graph(case);
        let simple = decompose(&graph).unwrap();
        check_gradient(&simple, &inputs);
    }
}

#[test]
fn narrow_floats_have_the_gradients_of_wide_ones() {
    for &case in CASES {
        for (dtype, tolerance) in [(F32, 1e-4), (F16, 0.02), (BF16, 0.1)] {
            let (graph, inputs) = typed_case_graph(case, dtype);
            let all_inputs = [inputs.clone(), cotangents(&graph, &inputs)].concat();
            let gradients = gradient(&graph, &float_inputs(&graph)).unwrap();
            verify(&gradients).unwrap_or_else(|error| panic!("{gradients}\n{error}"));
            let widened = |x: &DenseTensor| tensor(F64, &x.extents, &x.numbers());
            let wide = gradient(&case_graph(case).0, &float_inputs(&graph)).unwrap();
            let want = evaluate(&wide, &all_inputs.iter().map(widened).collect::<Vec<_>>()).unwrap();
            for ((got, want), input) in evaluate(&gradients, &all_inputs).unwrap().iter().zip(want).zip(&inputs) {
                assert_eq!(got.dtype, input.dtype);
                let scale = want.numbers().iter().fold(1.0, |scale: f64, x| scale.max(x.abs()));
                let scaled = |x: &DenseTensor| x.numbers().iter().map(|x| x / scale).collect::<Vec<f64>>();
                check_close(case.0, &tensor(F64, &got.extents, &scaled(got)), &scaled(&want), tolerance);
            }
        }
    }
}

/// Extents that are symbols give the same gradients as numbers, for all ops that take symbols.
#[test]
fn graphs_of_symbols_have_gradients() {
    let mut n_symbolic = 0;
    for &case in CASES {
        let (fixed, inputs) = case_graph(case);
        let symbol = |extent: &u64| if *extent < 2 { extent.to_string() } else { format!("n{extent}") };
        let input = |(index, shape): (usize, &&[u64])| {
            let extents: Vec<String> = shape.iter().map(symbol).collect();
            format!("%{index} = input \"x{index}\" : f64[{}]\n", extents.join(", "))
        };
        let text: String = case.1.iter().enumerate().map(input).collect();
        // Ops such as `pad` need the number.
        let Ok(symbolic) = polyloom_graph::parse_graph(&body_text(&text, case.0)) else { continue };
        n_symbolic += 1;
        let all_inputs = [inputs.clone(), cotangents(&fixed, &inputs)].concat();
        let results = |graph: &Graph| evaluate(&gradient(graph, &float_inputs(graph)).unwrap(), &all_inputs).unwrap();
        for (symbolic, fixed) in results(&symbolic).iter().zip(results(&fixed)) {
            check_close(case.0, symbolic, &fixed.numbers(), 1e-12);
        }
    }
    assert!(n_symbolic > 100, "{n_symbolic}");
}

/// Each entry says what its gradient is, and cases cover every op that gives floats of floats.
#[test]
fn every_op_has_the_gradient_that_its_entry_states() {
    let covered: BTreeSet<&str> = CASES.iter().filter_map(|(op, ..)| op.split(' ').next()).collect();
    for info in TensorOp::all() {
        let name = info.name;
        assert_eq!(has_gradient_rule(info.op), info.gradient == GradientRule::Rule, "{name}");
        assert!(info.gradient != GradientRule::OfDecomposition || info.is_composite(), "{name}");
        let kinks = info.kinks.unwrap_or("0.");
        assert!(kinks.ends_with('.') && (info.kinks.is_none() || info.gradient != GradientRule::Zero), "{name}");
        let is_constant = info.gradient == GradientRule::Zero;
        assert!(covered.contains(name) || is_constant, "`{name}` has a gradient, and no case here");
    }
}

/// Ops whose gradient is zero have float results only if they are constant in pieces or depend on no float.
#[test]
fn gradients_that_are_zero_stop() {
    const FLOATS: &str = "floor_divide sign floor ceil trunc round rand randn iota element_count";
    for info in TensorOp::all().filter(|info| info.gradient == GradientRule::Zero) {
        let is_known = FLOATS.split(' ').any(|name| name == info.name);
        let operands = ["%0"].repeat(info.signature.tensors.len()).join(", ");
        let text = format!("%0 = input \"x\" : f64[2]\n%1 = {} {operands}\nreturn %1", info.name);
        let result = polyloom_graph::parse_graph(&text).map(|graph| graph.value(graph.outputs[0]).unwrap().ty.dtype);
        assert!(is_known || !result.is_ok_and(|dtype| dtype.is_float()), "{}", info.name);
    }
}

/// No buffer has more than the weights of a block of queries.
#[test]
fn the_gradient_of_attention_has_no_matrix_of_all_weights() {
    let n = 1024;
    let text = format!(
        "%q = input \"q\" : f32[{n}, 64]\n%k = input \"k\" : f32[{n}, 64]\n%v = input \"v\" : f32[{n}, 64]\n\
         %y = attention %q, %k, %v, causal=true\nreturn %y"
    );
    let graph = gradient(&parse_graph(&text).unwrap(), &[0, 1, 2].map(TensorId)).unwrap();
    let layouts = vec![Layout::dense(&[n, 64]); 4];
    let planned = plan(&graph, &layouts, &PlanOptions::default()).unwrap();
    let of_temporaries = planned.buffers.iter().filter(|buffer| buffer.kind == BufferKind::Temporary);
    let largest = of_temporaries.map(|buffer| buffer.n_elements).max();
    assert_eq!(largest, Some(128 * n));
}
