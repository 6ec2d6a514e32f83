//! The accuracy verifier: right paths pass, whatever their order of sums, and planted wrong ones do not.

use crate::support::{graph, numbers, op_text, tensor};
use polyloom_graph::measure::MeasurementStatus;
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::verify_accuracy::{
    AccuracyPolicy, AccuracyRequirement, AccuracyVerdict, GoldenReference, InputDistribution, InputDomain,
    golden_outputs, make_inputs, widen,
};
use polyloom_graph::{Graph, TensorOp};
use polyloom_ir::Scalar::{self, BF16, Bool, F16, F32, F64, I32, I64, U8};

fn prepare(graph: &Graph, requirement: AccuracyRequirement) -> GoldenReference {
    GoldenReference::prepare(graph, &AccuracyPolicy::of(requirement)).unwrap_or_else(|error| panic!("{graph}\n{error}"))
}

/// Verifies a path that evaluates another graph on the same inputs.
fn verify_graph(reference: &GoldenReference, path: &Graph) -> AccuracyVerdict {
    reference.verify(&mut |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
        outputs.clone_from_slice(&evaluate(path, inputs).map_err(|error| error.to_string())?);
        Ok(())
    })
}

/// Verifies a path that evaluates the graph itself and then changes the first output.
fn verify_changed(text: &str, requirement: AccuracyRequirement, change: impl Fn(&mut DenseTensor)) -> AccuracyVerdict {
    let graph = graph(text);
    prepare(&graph, requirement).verify(&mut |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
        outputs.clone_from_slice(&evaluate(&graph, inputs).map_err(|error| error.to_string())?);
        change(&mut outputs[0]);
        Ok(())
    })
}

#[track_caller]
fn check_status(verdict: &AccuracyVerdict, status: MeasurementStatus) {
    assert_eq!(verdict.status, status, "{:?}", verdict.reason);
    assert_eq!(verdict.reason.is_some(), status != MeasurementStatus::Ok);
    assert_eq!(verdict.failure().map(|failure| failure.status), verdict.reason.as_ref().map(|_| status));
}

/// Ops of floats, with the extents of their operands.
const FLOAT_OPS: &[(&str, &[&[u64]])] = &[
    ("divide %0, %1", &[&[40], &[40]]),
    ("power %0, %1", &[&[40], &[40]]),
    ("remainder %0, %1", &[&[40], &[40]]),
    ("floor_divide %0, %1", &[&[40], &[40]]),
    ("maximum %0, %1", &[&[4, 1], &[1, 5]]),
    ("atan2 %0, %1", &[&[40], &[40]]),
    ("hypot %0, %1", &[&[40], &[40]]),
    ("sqrt %0", &[&[40]]),
    ("log %0", &[&[40]]),
    ("log1p %0", &[&[40]]),
    ("exp %0", &[&[40]]),
    ("expm1 %0", &[&[40]]),
    ("sin %0", &[&[40]]),
    ("tan %0", &[&[40]]),
    ("acos %0", &[&[40]]),
    ("acosh %0", &[&[40]]),
    ("atanh %0", &[&[40]]),
    ("tanh %0", &[&[40]]),
    ("erf %0", &[&[40]]),
    ("erfc %0", &[&[40]]),
    ("gelu %0", &[&[40]]),
    ("softplus %0", &[&[40]]),
    ("round %0", &[&[40]]),
    ("less %0, %1", &[&[40], &[40]]),
    ("sum %0, axes=(1)", &[&[3, 300]]),
    ("prod %0, axes=(0)", &[&[12, 5]]),
    ("mean %0", &[&[6, 50]]),
    ("var %0, axes=(1)", &[&[4, 64]]),
    ("max %0, axes=(1)", &[&[5, 9]]),
    ("argmax %0, axis=1", &[&[5, 9]]),
    ("softmax %0", &[&[4, 33]]),
    ("log_softmax %0", &[&[4, 33]]),
    ("logsumexp %0", &[&[4, 33]]),
    ("layer_norm %0", &[&[4, 33]]),
    ("rms_norm %0", &[&[4, 33]]),
    ("cumsum %0, axis=0", &[&[40, 3]]),
    ("cummax %0, axis=0", &[&[20, 3]]),
    ("linear_recurrence %0, %1, axis=0", &[&[20, 3], &[20, 3]]),
    ("sort %0", &[&[3, 20]]),
    ("argsort %0", &[&[3, 20]]),
    ("matmul %0, %1", &[&[5, 30], &[30, 4]]),
    ("einsum %0, %1, equation=\"bij,bkj->bik\"", &[&[2, 3, 8], &[2, 4, 8]]),
    ("attention %0, %1, %2", &[&[3, 4], &[6, 4], &[6, 5]]),
    ("conv2d %0, %1", &[&[1, 2, 5, 5], &[3, 2, 3, 3]]),
    ("pad %0, widths=(1, 2), value=0.3", &[&[6]]),
    ("flip %0", &[&[6]]),
    ("concat %0, %1", &[&[6], &[3]]),
    ("cast %0, dtype=i32", &[&[40]]),
    ("where %0, %1, %2", &[&[8], &[8], &[8]]),
];

fn float_graph(op: &str, extents: &[&[u64]], dtype: Scalar) -> Graph {
    let inputs: Vec<DenseTensor> = extents
        .iter()
        .map(|extents| tensor(dtype, extents, &vec![1.0; extents.iter().product::<u64>() as usize]))
        .collect();
    graph(&op_text(op, &inputs))
}

#[test]
fn the_definition_is_right_in_every_type() {
    for dtype in [F32, F64, F16, BF16] {
        for (op, extents) in FLOAT_OPS {
            let graph = float_graph(op, extents, dtype);
            for requirement in [AccuracyRequirement::Bits, AccuracyRequirement::Mathematics] {
                let verdict = verify_graph(&prepare(&graph, requirement), &graph);
                assert_eq!(verdict.status, MeasurementStatus::Ok, "{op} {dtype}: {:?}", verdict.reason);
            }
        }
    }
}

#[test]
fn golden_references_have_more_digits_than_the_definition() {
    for (op, extents) in FLOAT_OPS {
        // Discontinuous ops may fall on the other side.
        if ["floor_divide", "remainder", "round", "cast", "arg", "less"].iter().any(|name| op.starts_with(name)) {
            continue;
        }
        let graph = float_graph(op, extents, F64);
        for distribution in [InputDistribution::Normal, InputDistribution::Uniform, InputDistribution::Ties] {
            let inputs = make_inputs(&graph, distribution, InputDomain::Unit, 3).unwrap();
            let [wide, narrow] = [golden_outputs(&graph, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap()];
            for (&wide, &narrow) in wide[0].numbers().iter().zip(&narrow[0].numbers()) {
                let is_close = wide == narrow
                    || (wide - narrow).abs() <= 1e-11 * wide.abs().max(1e-3)
                    || wide.is_nan() && narrow.is_nan();
                assert!(is_close, "{op} of {distribution}: {wide} and {narrow}");
            }
        }
    }
}

#[test]
fn other_orders_of_sums_are_right() {
    let text = "%x = input \"x\" : f32[4, 5000]\n%y = sum %x, axes=(1)\nreturn %y";
    let reference = prepare(&graph(text), AccuracyRequirement::Mathematics);
    type Order = fn(&[f32]) -> f32;
    let orders: [Order; 3] = [
        |row| row.iter().sum(),
        |row| row.iter().rev().sum(),
        |row| row.iter().map(|&x| f64::from(x)).sum::<f64>() as f32,
    ];
    for order in orders {
        let verdict = reference.verify(&mut sum_rows(order));
        check_status(&verdict, MeasurementStatus::Ok);
        assert!(verdict.max_error < 1e-5, "{}", verdict.max_error);
    }
    let wrong: [Order; 4] = [
        |row| row[..4999].iter().sum(),
        |row| row.iter().map(|x| half::truncate(*x)).sum(),
        |row| row.iter().step_by(2).sum::<f32>() * 2.0,
        |_| 0.0,
    ];
    for order in wrong {
        check_status(&reference.verify(&mut sum_rows(order)), MeasurementStatus::Wrong);
    }
}

mod half {
    /// Drops the bits that a `bfloat16` lacks.
    pub(super) fn truncate(x: f32) -> f32 {
        f32::from_bits(x.to_bits() & 0xffff_0000)
    }
}

fn sum_rows(order: fn(&[f32]) -> f32) -> impl FnMut(&[DenseTensor], &mut [DenseTensor]) -> Result<(), String> {
    move |inputs, outputs| {
        let x: Vec<f32> = inputs[0].bits.iter().map(|&bits| f32::from_bits(bits as u32)).collect();
        let length = x.len() / outputs[0].bits.len();
        outputs[0].bits = x.chunks(length).map(|row| order(row).to_bits().into()).collect();
        Ok(())
    }
}

#[test]
fn rewrites_over_the_reals_are_right_and_near_misses_are_not() {
    let three = "%a = input \"a\" : f32[20]\n%b = input \"b\" : f32[20]\n%c = input \"c\" : f32[20]\n";
    let two = "%x = input \"x\" : f32[6, 40]\n";
    let matrices = "%a = input \"a\" : f32[6, 40]\n%b = input \"b\" : f32[40, 5]\n";
    let pairs = [
        (
            three,
            "%s = add %a, %b\n%r = multiply %s, %c\nreturn %r",
            "%s = multiply %a, %c\n%t = multiply %b, %c\n%r = add %s, %t\nreturn %r",
            true,
        ),
        (
            three,
            "%s = add %a, %b\n%r = multiply %s, %c\nreturn %r",
            "%s = multiply %a, %c\n%r = add %s, %b\nreturn %r",
            false,
        ),
        (three, "%s = add %a, %b\n%r = add %s, %c\nreturn %r", "%s = add %b, %c\n%r = add %s, %a\nreturn %r", true),
        (
            three,
            "%s = subtract %a, %b\n%r = subtract %s, %c\nreturn %r",
            "%s = subtract %b, %c\n%r = subtract %a, %s\nreturn %r",
            false,
        ),
        (
            two,
            "%r = softmax %x\nreturn %r",
            "%m = max %x, axes=(1), keepdims=true\n%d = subtract %x, %m\n%e = exp %d\n%s = sum %e, axes=(1), keepdims=true\n%i = reciprocal %s\n%r = multiply %e, %i\nreturn %r",
            true,
        ),
        // Without the maximum it overflows.
        (
            two,
            "%r = softmax %x\nreturn %r",
            "%e = exp %x\n%s = sum %e, axes=(1), keepdims=true\n%r = divide %e, %s\nreturn %r",
            false,
        ),
        (two, "%r = gelu %x\nreturn %r", "%r = gelu %x, approximate=\"tanh\"\nreturn %r", false),
        (two, "%r = var %x, axes=(1)\nreturn %r", "%r = var %x, axes=(1), correction=1\nreturn %r", false),
        (
            two,
            "%r = tanh %x\nreturn %r",
            "%d = add %x, %x\n%s = sigmoid %d\n%e = multiply %s, 2.0\n%r = subtract %e, 1.0\nreturn %r",
            false,
        ),
        (matrices, "%r = matmul %a, %b\nreturn %r", "%r = einsum %a, %b, equation=\"ij,jk->ik\"\nreturn %r", true),
        (
            matrices,
            "%m = matmul %a, %b\n%r = transpose %m\nreturn %r",
            "%t = transpose %b\n%u = transpose %a\n%r = matmul %t, %u\nreturn %r",
            true,
        ),
        (
            matrices,
            "%r = matmul %a, %b\nreturn %r",
            "%h = cast %a, dtype=f16\n%w = cast %h, dtype=f32\n%r = matmul %w, %b\nreturn %r",
            false,
        ),
    ];
    for (inputs, target, path, is_right) in pairs {
        let (target, path) = (graph(&format!("{inputs}{target}")), graph(&format!("{inputs}{path}")));
        let verdict = verify_graph(&prepare(&target, AccuracyRequirement::Mathematics), &path);
        let status = if is_right { MeasurementStatus::Ok } else { MeasurementStatus::Wrong };
        assert_eq!(verdict.status, status, "{target}{path}{:?}", verdict.reason);
    }
}

#[test]
fn one_wrong_element_is_found_and_named() {
    let text = "%a = input \"a\" : f32[3, 50]\n%b = input \"b\" : f32[50, 4]\n%r = matmul %a, %b\nreturn %r";
    // 1 part in 1,000 of one element.
    let change = |output: &mut DenseTensor| {
        output.bits[6] = u64::from((f32::from_bits(output.bits[6] as u32) * 1.001).to_bits())
    };
    let verdict = verify_changed(text, AccuracyRequirement::Mathematics, change);
    check_status(&verdict, MeasurementStatus::Wrong);
    let worst = verdict.worst.as_ref().unwrap();
    assert_eq!((worst.output, &worst.indices[..]), (0, &[1, 2][..]));
    let reason = verdict.reason.unwrap();
    assert!(
        reason.starts_with("element [1, 2] of output 0 is ") && reason.contains("on inputs of distribution"),
        "{reason}"
    );
    // The last bit is no error but for paths that keep bits.
    let change = |output: &mut DenseTensor| output.bits[6] ^= 1;
    check_status(&verify_changed(text, AccuracyRequirement::Mathematics, change), MeasurementStatus::Ok);
    check_status(&verify_changed(text, AccuracyRequirement::Bits, change), MeasurementStatus::Wrong);
}

#[test]
fn elements_that_are_not_written_are_found() {
    for dtype in [F32, F64, F16, BF16, I32, I64, U8, Bool] {
        let graph = graph(&format!("%x = input \"x\" : {dtype}[30]\n%y = flip %x\nreturn %y"));
        for requirement in [AccuracyRequirement::Bits, AccuracyRequirement::Mathematics] {
            let verdict =
                prepare(&graph, requirement).verify(&mut |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
                    let result = evaluate(&graph, inputs).map_err(|error| error.to_string())?.remove(0);
                    // All but the last.
                    outputs[0].bits[..29].copy_from_slice(&result.bits[..29]);
                    Ok(())
                });
            check_status(&verdict, MeasurementStatus::Wrong);
            let reason = verdict.reason.unwrap();
            assert!(reason.contains("element [29] of output 0 was not written"), "{dtype}: {reason}");
        }
    }
}

#[test]
fn a_second_run_is_checked_too() {
    let graph = graph("%x = input \"x\" : f32[8]\n%y = exp %x\nreturn %y");
    let mut n_runs = 0;
    let verdict = prepare(&graph, AccuracyRequirement::Mathematics).verify(
        &mut |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
            outputs.clone_from_slice(&evaluate(&graph, inputs).map_err(|error| error.to_string())?);
            n_runs += 1;
            if n_runs % 2 == 0 {
                outputs[0].bits[0] = 0;
            }
            Ok(())
        },
    );
    check_status(&verdict, MeasurementStatus::Wrong);
}

#[test]
fn paths_that_fail_are_failures() {
    let reference = prepare(&graph("%x = input \"x\" : f32[8]\n%y = exp %x\nreturn %y"), AccuracyRequirement::Bits);
    let verdict = reference.verify(&mut |_: &[DenseTensor], _: &mut [DenseTensor]| Err("out of memory".to_owned()));
    check_status(&verdict, MeasurementStatus::Failed);
    assert_eq!(verdict.reason.as_deref(), Some("out of memory, on inputs of distribution normal and seed 1"));
    let verdict = reference.verify(&mut |_: &[DenseTensor], outputs: &mut [DenseTensor]| {
        outputs[0].bits.pop();
        Ok(())
    });
    check_status(&verdict, MeasurementStatus::Failed);
}

#[test]
fn conditions_are_measured() {
    // The difference of neighbours is exact, and their quotient's digits are those of the sum before it.
    let text = |last: &str| {
        format!("%x = input \"x\" : f32[200]\n%s = add %x, 1000.0\n%t = subtract %s, 1000.0\n{last}\nreturn %r")
    };
    let bad = graph(&text("%r = multiply %t, 3.0"));
    let verdict = verify_graph(
        &prepare(&bad, AccuracyRequirement::Mathematics),
        &graph("%x = input \"x\" : f32[200]\n%r = multiply %x, 3.0\nreturn %r"),
    );
    check_status(&verdict, MeasurementStatus::Ok);
    // What cancels loses 10 bits, and a path may not lose as many where nothing cancels.
    let good = graph("%x = input \"x\" : f32[200]\n%r = multiply %x, 3.0\nreturn %r");
    let verdict = verify_graph(&prepare(&good, AccuracyRequirement::Mathematics), &bad);
    check_status(&verdict, MeasurementStatus::Wrong);
}

#[test]
fn jumps_are_allowed_where_rounding_decides() {
    let target = graph("%x = input \"x\" : f32[400]\n%s = multiply %x, 3.0\n%r = floor %s\nreturn %r");
    let other = graph("%x = input \"x\" : f32[400]\n%s = add %x, %x\n%t = add %s, %x\n%r = floor %t\nreturn %r");
    check_status(&verify_graph(&prepare(&target, AccuracyRequirement::Mathematics), &other), MeasurementStatus::Ok);
    let ceil = graph("%x = input \"x\" : f32[400]\n%s = multiply %x, 3.0\n%r = ceil %s\nreturn %r");
    check_status(&verify_graph(&prepare(&target, AccuracyRequirement::Mathematics), &ceil), MeasurementStatus::Wrong);
}

#[test]
fn integers_and_truth_values_are_exact() {
    let text = "%x = input \"x\" : i32[30]\n%y = input \"y\" : i32[30]\n%r = add %x, %y\nreturn %r";
    let change = |output: &mut DenseTensor| output.bits[3] ^= 1;
    check_status(&verify_changed(text, AccuracyRequirement::Mathematics, change), MeasurementStatus::Wrong);
    let text = "%x = input \"x\" : f32[30]\n%y = input \"y\" : f32[30]\n%r = less %x, %y\nreturn %r";
    check_status(&verify_changed(text, AccuracyRequirement::Mathematics, change), MeasurementStatus::Wrong);
    check_status(&verify_changed(text, AccuracyRequirement::Mathematics, |_| ()), MeasurementStatus::Ok);
}

#[test]
fn float64_is_compared_with_more_than_float64() {
    let text = "%x = input \"x\" : f64[2, 2000]\n%y = sum %x, axes=(1)\nreturn %y";
    let reference = prepare(&graph(text), AccuracyRequirement::Mathematics);
    let mut path = |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
        let x = inputs[0].numbers();
        outputs[0].bits = x.chunks(2000).map(|row| row.iter().sum::<f64>().to_bits()).collect();
        Ok(())
    };
    let verdict = reference.verify(&mut path);
    check_status(&verdict, MeasurementStatus::Ok);
    assert!(verdict.max_error > 0.0 && verdict.max_error < 1e-13, "{}", verdict.max_error);
    // Sums in float32 are not good enough.
    let mut path = |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
        let x = inputs[0].numbers();
        let total = |row: &[f64]| f64::from(row.iter().map(|&x| x as f32).sum::<f32>()).to_bits();
        outputs[0].bits = x.chunks(2000).map(total).collect();
        Ok(())
    };
    check_status(&reference.verify(&mut path), MeasurementStatus::Wrong);
}

#[test]
fn inputs_are_made_to_the_signature_and_never_zero() {
    for &dtype in &Scalar::ALL {
        let graph = graph(&format!("%x = input \"x\" : {dtype}[1]\n%y = contiguous %x\nreturn %y"));
        for distribution in InputDistribution::ALL {
            for seed in 0..50 {
                let x = make_inputs(&graph, distribution, InputDomain::Reals, seed).unwrap().remove(0);
                assert!(x.numbers()[0] != 0.0, "{dtype} of {distribution}");
                assert_eq!(make_inputs(&graph, distribution, InputDomain::Reals, seed).unwrap()[0], x);
            }
        }
    }
    let text = "%x = input \"x\" : f32[7, 3]\n%i = input \"i\" : i32[2, 40]\n%j = permute %i, axes=(1, 0)\n%k = cast %j, dtype=i64\n%y = take %x, %k, axis=0\nreturn %y";
    let inputs = make_inputs(&graph(text), InputDistribution::Wide, InputDomain::Reals, 1).unwrap();
    assert!(inputs[1].numbers().iter().all(|index| (0.0..7.0).contains(index)), "{:?}", inputs[1].numbers());
    let text = "%x = input \"x\" : f32[n]\n%y = exp %x\nreturn %y";
    let error = make_inputs(&graph(text), InputDistribution::Wide, InputDomain::Reals, 1).unwrap_err();
    assert_eq!(error.to_string(), "input `x` is f32[n], of unknown extents");
}

#[test]
fn inputs_are_those_of_every_machine() {
    let graph = graph("%x = input \"x\" : f32[4]\n%n = input \"n\" : i32[4]\n%y = add %x, %n\nreturn %y");
    let inputs = make_inputs(&graph, InputDistribution::Normal, InputDomain::Reals, 1).unwrap();
    assert_eq!(
        inputs.iter().map(DenseTensor::numbers).collect::<Vec<_>>(),
        [
            [-0.03542272746562958, 0.7220569252967834, -0.6733377575874329, -0.4477328658103943],
            [-77.0, 89.0, -86.0, 38.0],
        ]
    );
}

#[test]
fn graphs_that_are_too_large_are_refused() {
    let graph = graph("%a = input \"a\" : f32[4096, 4096]\n%r = matmul %a, %a\nreturn %r");
    let error = GoldenReference::prepare(&graph, &AccuracyPolicy::of(AccuracyRequirement::Mathematics)).unwrap_err();
    assert!(error.to_string().contains("take smaller extents"), "{error}");
}

#[test]
fn widened_graphs_keep_what_is_about_bits() {
    let text = "%x = input \"x\" : f32[3]\n%b = bitcast %x, dtype=i32\n%y = bitcast %b, dtype=f32\n%z = multiply %y, 0.1\nreturn %z";
    let wide = widen(&graph(text)).unwrap();
    let x = tensor(F64, &[3], &[0.5, -2.0, 8.0]);
    // The constant is 0.1 as a float32.
    let tenth = f64::from(0.1f32);
    assert_eq!(evaluate(&wide, &[x]).unwrap()[0].numbers(), [0.5, -2.0, 8.0].map(|x| x * tenth));
    assert_eq!(numbers(3).len(), 3);
    assert!(TensorOp::all().count() > 100);
}
