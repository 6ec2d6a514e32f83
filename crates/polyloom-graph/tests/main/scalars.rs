//! Elementwise ops against float64 and integers, edge values included.

use crate::support::{apply, check_close, numbers, tensor};
use polyloom_ir::Scalar::{self, Bool, F16, F32, F64, I8, I32, U8};

type Binary = fn(f64, f64) -> f64;
type Unary = fn(f64) -> f64;

fn floor_mod(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

#[test]
fn functions_of_two_numbers_are_those_of_numpy() {
    let ops: [(&str, Binary); 17] = [
        ("add", |a, b| a + b),
        ("subtract", |a, b| a - b),
        ("multiply", |a, b| a * b),
        ("divide", |a, b| a / b),
        ("floor_divide", |a, b| (a / b).floor()),
        ("remainder", floor_mod),
        ("maximum", |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }),
        ("minimum", |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }),
        ("copysign", f64::copysign),
        ("hypot", f64::hypot),
        ("atan2", f64::atan2),
        ("equal", |a, b| f64::from(u8::from(a == b))),
        ("not_equal", |a, b| f64::from(u8::from(a != b))),
        ("less", |a, b| f64::from(u8::from(a < b))),
        ("less_equal", |a, b| f64::from(u8::from(a <= b))),
        ("greater", |a, b| f64::from(u8::from(a > b))),
        ("greater_equal", |a, b| f64::from(u8::from(a >= b))),
    ];
    let mut values = numbers(9);
    values.extend([0.0, 1.0, -1.0, f64::INFINITY, f64::NAN]);
    let n = values.len() as u64;
    for (name, reference) in ops {
        let op = format!("{name} %0, %1");
        // A quotient by an infinity has NumPy's own rule, which its own test below looks at.
        let is_quotient = matches!(name, "floor_divide" | "remainder");
        let values: Vec<f64> = values.iter().copied().filter(|x| !is_quotient || x.is_finite() && *x != 0.0).collect();
        let n = if is_quotient { values.len() as u64 } else { n };
        let want: Vec<f64> = values.iter().flat_map(|&a| values.iter().map(move |&b| reference(a, b))).collect();
        for (dtype, tolerance) in [(F32, 1e-6), (F64, 1e-14)] {
            let inputs = [tensor(dtype, &[n, 1], &values), tensor(dtype, &[n], &values)];
            check_close(&op, &apply(&op, &inputs), &want, tolerance);
        }
    }
}

#[test]
fn functions_of_one_number_are_those_of_libm() {
    let ops: [(&str, Unary); 27] = [
        ("negative", |x| -x),
        ("absolute", f64::abs),
        ("sign", |x| if x == 0.0 || x.is_nan() { x + 0.0 } else { x.signum() }),
        ("sqrt", f64::sqrt),
        ("rsqrt", |x| 1.0 / x.sqrt()),
        ("cbrt", f64::cbrt),
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("asinh", f64::asinh),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("trunc", f64::trunc),
        ("round", f64::round_ties_even),
    ];
    let mut values = numbers(40);
    values.extend([0.0, 0.5, -1.5, 2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    for (name, reference) in ops {
        let want: Vec<f64> = values.iter().map(|&x| reference(x)).collect();
        let op = format!("{name} %0");
        check_close(&op, &apply(&op, &[tensor(F32, &[values.len() as u64], &values)]), &want, 1e-6);
        check_close(&op, &apply(&op, &[tensor(F64, &[values.len() as u64], &values)]), &want, 1e-14);
    }
}

#[track_caller]
fn check(op: &str, dtype: Scalar, inputs: &[&[f64]], want: &[f64]) {
    let inputs: Vec<_> = inputs.iter().map(|values| tensor(dtype, &[values.len() as u64], values)).collect();
    let got = apply(op, &inputs).numbers();
    let is_same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    assert!(got.len() == want.len() && got.iter().zip(want).all(is_same), "{op}: {got:?}, should be {want:?}");
}

#[test]
fn edge_values_are_those_of_numpy() {
    let nan = f64::NAN;
    let inf = f64::INFINITY;
    // The results are NumPy 2.4's.
    check(
        "floor_divide %0, %1",
        F64,
        &[&[7.0, -7.0, 7.0, -7.0, 1.0, 0.0, 0.7], &[2.0, 2.0, -2.0, -2.0, 0.0, 0.0, 0.1]],
        &[3.0, -4.0, -4.0, 3.0, inf, nan, 6.0],
    );
    check(
        "remainder %0, %1",
        F64,
        &[&[7.0, -7.0, 7.0, -7.0, 1.0, -4.0, -1.0], &[2.0, 2.0, -2.0, -2.0, 0.0, 2.0, inf]],
        &[1.0, 1.0, -1.0, -1.0, nan, 0.0, inf],
    );
    check(
        "floor_divide %0, %1",
        I32,
        &[&[7.0, -7.0, 7.0, -7.0, 5.0], &[2.0, 2.0, -2.0, -2.0, 0.0]],
        &[3.0, -4.0, -4.0, 3.0, 0.0],
    );
    check(
        "remainder %0, %1",
        I32,
        &[&[7.0, -7.0, 7.0, -7.0, 5.0], &[2.0, 2.0, -2.0, -2.0, 0.0]],
        &[1.0, 1.0, -1.0, -1.0, 0.0],
    );
    check("remainder %0, %1", U8, &[&[7.0, 200.0], &[0.0, 7.0]], &[0.0, 4.0]);
    check(
        "power %0, %1",
        I32,
        &[&[3.0, -2.0, 0.0, 2.0, 10.0], &[4.0, 3.0, 0.0, -1.0, 9.0]],
        &[81.0, -8.0, 1.0, 0.0, 1e9],
    );
    check("power %0, %1", U8, &[&[3.0, 2.0], &[5.0, 8.0]], &[243.0, 0.0]);
    check("power %0, %1", F64, &[&[2.0, -2.0, nan, 0.0], &[3.0, 2.0, 0.0, -1.0]], &[8.0, 4.0, 1.0, inf]);
    check("absolute %0", I8, &[&[-128.0, 5.0]], &[-128.0, 5.0]);
    check("sign %0", F32, &[&[-0.0, -3.0, nan]], &[0.0, -1.0, nan]);
    check("maximum %0, %1", F32, &[&[nan, 1.0, 2.0], &[1.0, nan, 3.0]], &[nan, nan, 3.0]);
    check("clip %0, -1, 1", F32, &[&[-2.0, 0.5, 2.0, nan]], &[-1.0, 0.5, 1.0, nan]);
    check("clip %0, 3, 1", F32, &[&[2.0]], &[1.0]);
    check("left_shift %0, %1", I8, &[&[1.0, 1.0, 1.0], &[3.0, 7.0, 8.0]], &[8.0, -128.0, 0.0]);
    check("right_shift %0, %1", I8, &[&[-8.0, -1.0], &[1.0, 100.0]], &[-4.0, -1.0]);
    check("invert %0", U8, &[&[1.0]], &[254.0]);
    check("round %0", F32, &[&[0.5, 1.5, -2.5]], &[0.0, 2.0, -2.0]);
    check("floor %0", I32, &[&[-3.0]], &[-3.0]);
    check("cast %0, dtype=u8", F32, &[&[3.9, -1.0, 300.0, nan]], &[3.0, 0.0, 255.0, 0.0]);
    check("cast %0, dtype=bool", F32, &[&[0.0, -0.0, nan, 0.5]], &[0.0, 0.0, 1.0, 1.0]);
    check("isnan %0", F16, &[&[nan, inf, 0.0]], &[1.0, 0.0, 0.0]);
    check("isinf %0", F32, &[&[nan, -inf, 0.0]], &[0.0, 1.0, 0.0]);
    check("isfinite %0", I32, &[&[7.0]], &[1.0]);
    check("logical_and %0, %1", F32, &[&[0.0, nan, 2.0], &[1.0, 1.0, 0.0]], &[0.0, 1.0, 0.0]);
    check("logical_xor %0, 1", I32, &[&[0.0, 2.0]], &[1.0, 0.0]);
    check("logical_not %0", I32, &[&[0.0, 2.0]], &[1.0, 0.0]);
    check("where %0, %1, -1.0", F32, &[&[0.0, 2.0], &[5.0, 6.0]], &[-1.0, 6.0]);
}

#[test]
fn bool_is_added_and_compared_as_numpy_does() {
    let (a, b) = (&[0.0, 0.0, 1.0, 1.0], &[0.0, 1.0, 0.0, 1.0]);
    for (op, want) in [
        ("add %0, %1", [0.0, 1.0, 1.0, 1.0]),
        ("multiply %0, %1", [0.0, 0.0, 0.0, 1.0]),
        ("maximum %0, %1", [0.0, 1.0, 1.0, 1.0]),
        ("minimum %0, %1", [0.0, 0.0, 0.0, 1.0]),
        ("less %0, %1", [0.0, 1.0, 0.0, 0.0]),
        ("bitwise_xor %0, %1", [0.0, 1.0, 1.0, 0.0]),
        ("power %0, %1", [1.0, 0.0, 1.0, 1.0]),
        ("absolute %0", *a),
        ("invert %0", [1.0, 1.0, 0.0, 0.0]),
    ] {
        let op_of = |op: &str| apply(op, &[tensor(Bool, &[4], a), tensor(Bool, &[4], b)]).numbers();
        assert_eq!(op_of(op), want, "{op}");
    }
}

#[test]
fn elementwise_ops_are_defined_for_every_type_that_is_accepted() {
    use polyloom_graph::op::{OpDefinition, scalar_function};
    use polyloom_graph::{TensorDef, TensorOp, parse_graph};
    use polyloom_ir::{Module, verify_module};
    for info in TensorOp::all().filter(|info| matches!(info.definition, OpDefinition::Scalar(_))) {
        let mut n_accepted = 0;
        for dtype in Scalar::ALL {
            let operands = vec!["%0"; info.signature.tensors.len()].join(", ");
            let attributes = match info.op {
                TensorOp::Cast => ", dtype=f32".to_owned(),
                TensorOp::Bitcast => format!(", dtype=u{}", dtype.bits()),
                _ => String::new(),
            };
            let input = tensor(dtype, &[3], &[0.0, 1.0, 2.0]);
            let text = format!("{} {operands}{attributes}", info.name);
            let Ok(graph) = parse_graph(&crate::support::op_text(&text, std::slice::from_ref(&input))) else {
                continue;
            };
            n_accepted += 1;
            assert_eq!(apply(&text, &[input]).bits.len(), 3, "{text} {dtype}");
            // The function is HIR as the verifier wants it, so that kernels may be made of it.
            let value = graph.value(graph.outputs[0]).unwrap();
            let TensorDef::Op { op, operands, .. } = &value.def else { panic!("{graph}") };
            let dtypes: Vec<Scalar> = operands.iter().map(|&id| graph.value(id).unwrap().ty.dtype).collect();
            let function = scalar_function(*op, &dtypes, value.ty.dtype).unwrap().unwrap();
            let mut module = Module::new();
            module.functions.push(function);
            verify_module(&module).unwrap_or_else(|errors| panic!("{text} {dtype}: {errors:?}"));
        }
        assert!(n_accepted >= 9, "{} takes {n_accepted} types", info.name);
    }
}
