//! Decomposition ends in simple ops, keeps types, and gives what the formula in simple ops gives.

use crate::support::{graph, numbers, tensor};
use polyloom_graph::reference::evaluate;
use polyloom_graph::{TensorDef, TensorOp, decompose, decomposition, verify};
use polyloom_ir::Scalar::F32;

/// Checks that a composite op and its formula have the same bits.
#[track_caller]
fn check_same(composite: &str, formula: &str) {
    let text = |body: &str| format!("%x = input \"x\" : f32[n, 5]\n{body}\nreturn %r");
    let x = [tensor(F32, &[3, 5], &numbers(15))];
    let composite = graph(&text(composite));
    let simple = decompose(&composite).unwrap();
    verify(&simple).unwrap();
    let is_simple = |def: &TensorDef| match def {
        TensorDef::Op { op, .. } => decomposition(*op).is_none(),
        _ => true,
    };
    assert!(simple.values.iter().all(|value| is_simple(&value.def)), "{simple}");
    assert_eq!(decompose(&simple).unwrap(), simple);
    let want = evaluate(&graph(&text(formula)), &x).unwrap();
    assert_eq!(evaluate(&composite, &x).unwrap(), want);
    assert_eq!(evaluate(&simple, &x).unwrap(), want);
}

#[test]
fn composites_have_the_bits_of_their_formulas() {
    check_same("%r = relu %x", "%r = maximum %x, 0.0");
    check_same("%r = clip %x, -1, 2", "%a = maximum %x, -1\n%r = minimum %a, 2");
    check_same("%r = sigmoid %x", "%a = negative %x\n%b = exp %a\n%c = add %b, 1\n%r = divide 1.0, %c");
    check_same("%r = mean %x, axes=(1)", "%a = sum %x, axes=(1)\n%r = divide %a, 5");
    check_same("%r = norm %x", "%a = multiply %x, %x\n%b = sum %a\n%r = sqrt %b");
    check_same(
        "%r = softmax %x",
        "%a = max %x, axes=(1), keepdims=true\n%b = subtract %x, %a\n%c = exp %b\n\
         %d = sum %c, axes=(1), keepdims=true\n%e = divide 1.0, %d\n%r = multiply %c, %e",
    );
    check_same(
        "%r = var %x, axes=(0)",
        "%a = sum %x, axes=(0), keepdims=true\n%n = element_count %x, axes=(0), dtype=f32\n%b = divide %a, %n\n\
         %c = subtract %x, %b\n%d = multiply %c, %c\n%e = sum %d, axes=(0)\n%r = divide %e, %n",
    );
    check_same("%r = transpose %x", "%r = permute %x, axes=(1, 0)");
}

#[test]
fn halves_are_computed_in_float32() {
    let graph = graph("%0 = input \"x\" : f16[4]\n%1 = softmax %0\nreturn %1");
    let text = decompose(&graph).unwrap().to_string();
    assert!(text.contains("%1 = cast %0, dtype=f32 : f32[4]"), "{text}");
    assert!(text.contains("dtype=f16 : f16[4]\nreturn"), "{text}");
}

#[test]
fn composite_ops_and_no_others_have_a_decomposition() {
    for info in TensorOp::all() {
        assert_eq!(decomposition(info.op).is_some(), info.is_composite(), "{}", info.name);
    }
}
