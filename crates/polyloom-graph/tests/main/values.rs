//! Values of composite ops and of movement against float64 computed here.

use crate::support::{apply, check_close, numbers, op_text, tensor};
use polyloom_graph::reference::evaluate;
use polyloom_graph::{TensorOp, parse_graph};
use polyloom_ir::Scalar::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

const EDGES: [f64; 8] = [0.0, -0.0, 1.0, -2.5, 40.0, -40.0, f64::INFINITY, f64::NAN];

type Reference = fn(f64) -> f64;

fn erf(x: f64) -> f64 {
    // The series converges for what the test asks for; beyond, the function is 1 to the last place.
    if x.abs() > 5.5 || x.is_nan() {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn activations_are_their_formulas() {
    let references: [(&str, Reference); 9] = [
        ("relu %0", |x| if x > 0.0 || x.is_nan() { x } else { 0.0 }),
        ("leaky_relu %0, negative_slope=0.25", |x| if x > 0.0 { x } else { 0.25 * x }),
        ("gelu %0", |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        ("gelu %0, approximate=\"tanh\"", |x| {
            0.5 * x * (1.0 + (0.7978845608028654 * (x + 0.044715 * x * x * x)).tanh())
        }),
        ("silu %0", |x| x / (1.0 + (-x).exp())),
        ("sigmoid %0", |x| 1.0 / (1.0 + (-x).exp())),
        ("softplus %0", |x| if x > 30.0 { x } else { x.exp().ln_1p() }),
        ("square %0", |x| x * x),
        ("reciprocal %0", |x| 1.0 / x),
    ];
    let values: Vec<f64> = numbers(50).into_iter().chain(EDGES).collect();
    for (op, reference) in references {
        let want: Vec<f64> = values.iter().map(|&x| reference(x)).collect();
        let n = [values.len() as u64];
        check_close(op, &apply(op, &[tensor(F32, &n, &values)]), &want, 2e-6);
        check_close(op, &apply(op, &[tensor(F64, &n, &values)]), &want, 1e-13);
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

#[test]
fn normalisations_are_their_formulas() {
    let x = numbers(3 * 7);
    let [weight, bias] = [numbers(7), numbers(14)[7..].to_vec()];
    let rows = |f: &dyn Fn(&[f64]) -> Vec<f64>| x.chunks(7).flat_map(f).collect::<Vec<f64>>();
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    let square = |row: &[f64]| row.iter().map(|x| x * x).collect::<Vec<f64>>();
    let standard = |row: &[f64]| {
        let less: Vec<f64> = row.iter().map(|x| x - mean(row)).collect();
        let root = (mean(&square(&less)) + 1e-5).sqrt();
        less.iter().map(|x| x / root).collect::<Vec<f64>>()
    };
    let affine = |row: Vec<f64>| (0..7).map(|i| row[i] * weight[i] + bias[i]).collect::<Vec<f64>>();
    let inputs = [tensor(F32, &[3, 7], &x), tensor(F32, &[7], &weight), tensor(F32, &[7], &bias)];
    let check = |op: &str, n: usize, want: &[f64]| check_close(op, &apply(op, &inputs[..n]), want, 5e-6);
    check("softmax %0", 1, &rows(&softmax));
    check("log_softmax %0, axis=1", 1, &rows(&|row| softmax(row).iter().map(|x| x.ln()).collect()));
    check("layer_norm %0", 1, &rows(&standard));
    check("layer_norm %0, %1, %2", 3, &rows(&|row| affine(standard(row))));
    let rms = |row: &[f64]| {
        let root = (mean(&square(row)) + 1e-6).sqrt();
        (0..7).map(|i| row[i] / root * weight[i]).collect::<Vec<f64>>()
    };
    check("rms_norm %0, %1", 2, &rows(&rms));
    check("logsumexp %0, axes=(1)", 1, &rows(&|row| vec![row.iter().map(|x| x.exp()).sum::<f64>().ln()]));
    check("norm %0, axes=(1)", 1, &rows(&|row| vec![square(row).iter().sum::<f64>().sqrt()]));
    // Groups of two channels with three places each are rows of six.
    let x = numbers(2 * 4 * 3);
    let channel = [1.0, 2.0, -1.0, 0.5];
    let want: Vec<f64> = x.chunks(6).flat_map(standard).collect();
    let want: Vec<f64> = want.iter().enumerate().map(|(i, v)| v * channel[i / 3 % 4]).collect();
    let inputs = [tensor(F32, &[2, 4, 3], &x), tensor(F32, &[4], &channel)];
    check_close("group_norm", &apply("group_norm %0, %1, groups=2", &inputs), &want, 5e-6);
}

#[test]
fn softmax_keeps_to_its_axis_and_survives_large_numbers() {
    let x = tensor(F32, &[2, 2], &[1000.0, 0.0, 1000.0, 1.0]);
    check_close(
        "softmax",
        &apply("softmax %0, axis=0", std::slice::from_ref(&x)),
        &[0.5, 1.0 / (1.0 + 1f64.exp()), 0.5, 1.0 / (1.0 + (-1f64).exp())],
        1e-6,
    );
    let infinite = tensor(F32, &[2], &[f64::NEG_INFINITY, f64::NEG_INFINITY]);
    check_close("logsumexp", &apply("logsumexp %0", &[infinite]), &[f64::NEG_INFINITY], 0.0);
    assert!(apply("softmax %0", &[tensor(F32, &[2, 0], &[])]).bits.is_empty());
    // In 16 bits the sum of squares would be infinite.
    let large = tensor(Scalar::F16, &[2], &[300.0, 400.0]);
    check_close("norm", &apply("norm %0", &[large]), &[500.0], 0.0);
}

#[test]
fn cross_entropy_is_the_negative_logarithm_at_the_target() {
    let x = numbers(2 * 3);
    let loss = |row: usize, class: usize| -softmax(&x[row * 3..row * 3 + 3])[class].ln();
    let inputs = [tensor(F32, &[2, 3], &x), tensor(I32, &[2], &[2.0, 0.0])];
    let both = [loss(0, 2), loss(1, 0)];
    check_close("none", &apply("cross_entropy %0, %1, reduction=\"none\"", &inputs), &both, 1e-5);
    check_close("sum", &apply("cross_entropy %0, %1, reduction=\"sum\"", &inputs), &[both[0] + both[1]], 1e-5);
    check_close("mean", &apply("cross_entropy %0, %1", &inputs), &[(both[0] + both[1]) / 2.0], 1e-5);
    let outside = [inputs[0].clone(), tensor(I32, &[2], &[2.0, -100.0])];
    check_close("outside", &apply("cross_entropy %0, %1, reduction=\"none\"", &outside), &[both[0], 0.0], 1e-5);
    // The classes are axis 1 and places follow.
    let inputs = [tensor(F64, &[1, 3, 2], &[x[0], x[3], x[1], x[4], x[2], x[5]]), tensor(I32, &[1, 2], &[2.0, 0.0])];
    check_close("places", &apply("cross_entropy %0, %1, reduction=\"none\"", &inputs), &both, 1e-12);
}

#[test]
fn movement_puts_elements_where_numpy_does() {
    let x = [tensor(F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tensor(F32, &[2, 1], &[7.0, 8.0])];
    for (op, want) in [
        ("reshape %0, shape=(3, 2)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]),
        ("permute %0, axes=(1, 0)", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        ("transpose %0", &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]),
        ("slice %0, starts=(1, 2), sizes=(2, 2), steps=(-1, -2)", &[6.0, 4.0, 3.0, 1.0]),
        ("flip %0, axes=(0)", &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]),
        ("flip %0", &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
        ("broadcast_to %1, shape=(2, 2, 2)", &[7.0, 7.0, 8.0, 8.0, 7.0, 7.0, 8.0, 8.0]),
        ("concat %0, %1, axis=1", &[1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0]),
        ("stack %1, %1, axis=1", &[7.0, 7.0, 8.0, 8.0]),
        ("stack %1, %1", &[7.0, 8.0, 7.0, 8.0]),
        ("pad %1, widths=(1, 0, 0, 2), value=9", &[9.0, 9.0, 9.0, 7.0, 9.0, 9.0, 8.0, 9.0, 9.0]),
        ("tile %1, repeats=(2, 3)", &[7.0, 7.0, 7.0, 8.0, 8.0, 8.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0]),
        ("tile %0, repeats=(1, 2)", &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]),
        ("iota shape=(2, 3), axis=1", &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
        ("iota shape=(2, 3), axis=0", &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
    ] {
        assert_eq!(apply(op, &x).numbers(), want, "{op}");
    }
    let padded = apply("pad %0, widths=(0, 1), value=NaN", &[tensor(F32, &[1], &[1.0])]);
    check_close("pad", &padded, &[1.0, f64::NAN], 0.0);
    let one = apply("slice %1, starts=(1, 0), sizes=(1, 1), steps=(9223372036854775807, -9223372036854775808)", &x);
    assert_eq!(one.numbers(), [8.0]);
    assert!(apply("flip %0", &[tensor(F32, &[0, 3], &[])]).bits.is_empty());
}

#[test]
fn random_numbers_are_those_of_a_seed_and_an_index() {
    let rand = apply("rand 42, shape=(1000)", &[]).numbers();
    assert_eq!(rand, apply("rand 42, shape=(10, 100)", &[]).numbers());
    assert_ne!(rand, apply("rand 43, shape=(1000)", &[]).numbers());
    assert!(rand.iter().all(|x| (0.0..1.0).contains(x)));
    let mean = rand.iter().sum::<f64>() / 1000.0;
    assert!((mean - 0.5).abs() < 0.03, "{mean}");
    let randn = apply("randn 7, shape=(1000), dtype=f64", &[]).numbers();
    let square = randn.iter().map(|x| x * x).sum::<f64>() / 1000.0;
    assert!((square - 1.0).abs() < 0.15, "{square}");
}

#[test]
fn dropout_zeroes_by_its_seed_and_scales_the_rest() {
    let ones = tensor(F32, &[1000], &[1.0; 1000]);
    let kept = apply("dropout %0, 42, p=0.75", std::slice::from_ref(&ones)).numbers();
    let rand = apply("rand 42, shape=(1000)", &[]).numbers();
    for (kept, random) in kept.iter().zip(rand) {
        assert_eq!(*kept, if random >= 0.75 { 4.0 } else { 0.0 });
    }
    assert_eq!(apply("dropout %0, 42, p=0", std::slice::from_ref(&ones)).numbers(), [1.0; 1000]);
    assert_eq!(apply("dropout %0, 42, p=1", &[ones]).numbers(), [0.0; 1000]);
}

#[test]
fn indices_tell_which_elements_are_taken_and_added_to() {
    let x = tensor(F32, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let index = tensor(I32, &[4, 1], &[2.0, -1.0, 0.0, 9.0]);
    let taken = apply("gather %0, %1, axis=0", &[x.clone(), index.clone()]);
    assert_eq!((taken.extents.clone(), taken.numbers()), (vec![4, 2], vec![5.0, 6.0, 5.0, 6.0, 1.0, 2.0, 5.0, 6.0]));
    let many = tensor(I32, &[2, 2], &[0.0, 1.0, 2.0, 0.0]);
    let taken = apply("take %0, %1, axis=0", &[x.clone(), many.clone()]);
    assert_eq!((taken.extents.clone(), taken.numbers()), (vec![2, 2, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 2.0]));
    let taken = apply("take %0, %1, axis=1", &[x.clone(), tensor(I32, &[1, 2], &[1.0, -2.0])]);
    assert_eq!((taken.extents.clone(), taken.numbers()), (vec![3, 1, 2], vec![2.0, 1.0, 4.0, 3.0, 6.0, 5.0]));
    assert_eq!(apply("embedding %0, %1", &[x.clone(), many]).extents, [2, 2, 2]);
    let updates = tensor(F32, &[4, 2], &[10.0, 20.0, 1.0, 2.0, 0.5, 0.25, 100.0, 100.0]);
    let sums = apply("scatter_add %0, %1, %2, axis=0", &[x, index, updates]);
    assert_eq!(sums.numbers(), [1.5, 2.25, 3.0, 4.0, 16.0, 28.0]);
    let hot = apply("one_hot %0, classes=3", &[tensor(I32, &[3], &[1.0, -1.0, 3.0])]);
    assert_eq!(hot.numbers(), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

/// Sorts are those of the numbers themselves, with -0.0 before 0.0 and NaN after all.
#[test]
fn sorts_have_the_order_of_the_numbers() {
    let floats = [0.0, -1.5, f64::NAN, f64::INFINITY, -0.0, 2.0, f64::NEG_INFINITY, -1.5, 0.0, f64::NAN, -0.0, 96.0];
    let integers = [5.0, 3.0, 127.0, 0.0, 3.0, 100.0, 5.0, 1.0, 0.0, 64.0, 5.0, 2.0];
    for dtype in [F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool] {
        let values = match dtype {
            Bool => integers.map(|x| f64::from(u8::from(x > 4.0))),
            _ if dtype.is_float() => floats,
            _ if dtype.is_signed_int() => integers.map(|x| x - 50.0),
            _ => integers,
        };
        let x = tensor(dtype, &[12], &values);
        let before = |a: &usize, b: &usize| {
            let [a, b] = [a, b].map(|place: &usize| (values[*place].is_nan(), values[*place]));
            a.0.cmp(&b.0).then(if a.0 { std::cmp::Ordering::Equal } else { a.1.total_cmp(&b.1) })
        };
        let mut order: Vec<usize> = (0..12).collect();
        for descending in [false, true] {
            order.sort_by(|a, b| if descending { before(b, a) } else { before(a, b) }.then(a.cmp(b)));
            let index: Vec<f64> = order.iter().map(|&place| place as f64).collect();
            let text = format!("descending={descending}");
            assert_eq!(
                apply(&format!("argsort %0, {text}"), std::slice::from_ref(&x)).numbers(),
                index,
                "{dtype} {text}"
            );
            let sorted = apply(&format!("sort %0, {text}"), std::slice::from_ref(&x));
            let want: Vec<u64> = order.iter().map(|&place| x.bits[place]).collect();
            assert_eq!(sorted.bits, want, "{dtype} {text}");
            let top = apply(&format!("topk_indices %0, k=5, largest={descending}"), std::slice::from_ref(&x));
            assert_eq!(top.numbers(), index[..5], "{dtype} {text}");
        }
    }
    let x = tensor(I32, &[2, 3], &[5.0, 1.0, 3.0, 4.0, 2.0, 6.0]);
    assert_eq!(apply("sort %0, axis=0", std::slice::from_ref(&x)).numbers(), [4.0, 1.0, 3.0, 5.0, 2.0, 6.0]);
    assert_eq!(apply("sort %0", std::slice::from_ref(&x)).numbers(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    assert_eq!(apply("sort %0", &[tensor(F32, &[3, 0], &[])]).extents, [3, 0]);
    let bits = apply("bitcast %0, dtype=u16", &[tensor(F16, &[4], &[1.0, -2.0, -f64::NAN, 0.0])]);
    assert_eq!(bits.bits, [0x3c00, 0xc000, 0x7e00, 0]);
}

/// Few of many are found without a sort of all, with the same result: of equal elements the first ones.
#[test]
fn few_of_many_are_the_first_of_all_sorted() {
    for (n, k, dtype) in
        [(1024, 1, F32), (1031, 16, F32), (4999, 3, I8), (2048, 7, BF16), (1100, 17, F32), (1500, 5, F64)]
    {
        // A multiplicative generator: many values are equal, in places that no pattern has.
        let mut state = 12345u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % 101
        };
        let values: Vec<f64> = (0..n)
            .map(|_| match draw() {
                100 if dtype.is_float() => f64::NAN,
                99 if dtype.is_float() => -0.0,
                drawn => drawn as f64 - 50.0,
            })
            .collect();
        for (extents, axis) in [([1, n], 1), ([n, 1], 0), ([1, n], -1)] {
            let x = tensor(dtype, &extents, &values);
            for largest in [false, true] {
                let text = format!("%0, axis={axis}");
                let all = apply(&format!("argsort {text}, descending={largest}"), std::slice::from_ref(&x));
                let few = apply(&format!("topk_indices {text}, k={k}, largest={largest}"), std::slice::from_ref(&x));
                assert_eq!(few.bits, all.bits[..k], "{dtype}, {k} of {n}, {largest}");
            }
        }
    }
    let rows = tensor(F32, &[2, 2048], &(0..4096).map(|i| f64::from(i * 7919 % 4093)).collect::<Vec<_>>());
    for text in ["%0, k=4", "%0, k=1, axis=0"] {
        let few = apply(&format!("topk_indices {text}"), std::slice::from_ref(&rows));
        let order = text.replace("k=4", "descending=true").replace("k=1", "descending=true");
        let all = apply(&format!("argsort {order}"), std::slice::from_ref(&rows));
        let want: Vec<u64> = match few.extents[..] {
            [2, 4] => [&all.bits[..4], &all.bits[2048..2052]].concat(),
            _ => all.bits[..2048].to_vec(),
        };
        assert_eq!(few.bits, want);
    }
}

/// Every op is evaluated, so that none of the table lacks an evaluator or a decomposition.
#[test]
fn every_op_has_a_value() {
    for info in TensorOp::all() {
        let n_tensors = info.signature.tensors.len();
        let attributes: &str = match info.name {
            "cumsum" | "cumprod" | "cummax" | "cummin" | "scan" | "linear_recurrence" => ", axis=0",
            "reshape" | "broadcast_to" => ", shape=(2, 2)",
            "permute" => ", axes=(1, 0)",
            "slice" => ", starts=(0, 0), sizes=(1, 1), steps=(1, 1)",
            "pad" => ", widths=(0, 0, 0, 0)",
            "tile" => ", repeats=(1, 1)",
            "cast" => ", dtype=f64",
            "bitcast" => ", dtype=i32",
            "topk_indices" => ", k=1",
            "group_norm" => ", groups=1",
            "contract" => ", a_labels=(0, 1), b_labels=(1, 2), labels=(0, 2)",
            "gather" | "take" | "scatter_add" => ", axis=0",
            "one_hot" => ", classes=3",
            "einsum" => ", equation=\"ij->ji\"",
            "max_pool2d" | "avg_pool2d" => ", size=(2)",
            "windows" => ", axes=(0), sizes=(2), steps=(1), dilations=(1)",
            "iota" | "rand" | "randn" => ", shape=(2, 2)",
            _ => "",
        };
        let operands: Vec<&str> = match info.name {
            "layer_norm" | "rms_norm" | "group_norm" | "cross_entropy" => {
                std::iter::once("%0").chain(std::iter::repeat_n("%1", n_tensors - 1)).collect()
            }
            "conv1d" | "conv2d" => vec!["%2", "%2"],
            "linear" => vec!["%0", "%0", "%1"],
            "einsum" => vec!["%0"],
            "gather" => vec!["%0", "%3"],
            "take" | "embedding" => vec!["%0", "1"],
            "scatter_add" => vec!["%0", "1", "%0"],
            "one_hot" => vec!["%3"],
            "dropout" => vec!["%0", "1"],
            "rand" | "randn" => vec!["1"],
            _ => vec!["%0"; n_tensors],
        };
        let text = format!("{} {}{attributes}", info.name, operands.join(", "));
        let text = text.replace(" , ", " ");
        // Classes, bits and counts are integers.
        let dtypes = if info.name == "cross_entropy" { [F32, I32] } else { [F32, F32] };
        let values = [0.0, 0.5, 0.25, 1.0].map(|x: f64| x.round());
        let image: &[u64] = if info.name == "conv1d" { &[1, 1, 4] } else { &[1, 1, 2, 2] };
        let image = tensor(dtypes[0], image, &values);
        let inputs = [
            tensor(dtypes[0], &[2, 2], &values),
            tensor(dtypes[1], &[2], &[1.0, 0.0]),
            image,
            tensor(I32, &[2, 1], &[1.0, 0.0]),
        ];
        let integer = if info.name == "sort_keys" { U32 } else { I32 };
        let as_integers = [tensor(integer, &[2, 2], &values), inputs[1].clone(), inputs[2].clone(), inputs[3].clone()];
        let inputs = if parse_graph(&op_text(&text, &inputs)).is_ok() { inputs } else { as_integers };
        let graph = parse_graph(&op_text(&text, &inputs)).unwrap_or_else(|error| panic!("{text}: {error}"));
        let result = evaluate(&graph, &inputs).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0);
        let ty = &graph.value(graph.outputs[0]).unwrap().ty;
        assert_eq!(Some(result.bits.len() as u64), ty.shape.n_elements(), "{text}");
        assert_eq!(result.dtype, ty.dtype, "{text}");
    }
}
