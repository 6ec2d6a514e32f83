//! Subgraphs: what is found, and that replacements compute what was there.

use crate::random_graphs::{Random, disguised};
use crate::support::{graph, numbers, tensor};
use polyloom_graph::pattern::{MatchOverlap, Pattern, PatternIndex};
use polyloom_graph::reference::evaluate;
use polyloom_graph::{Graph, TensorDef, decompose, verify};
use std::fmt::Write;

/// Ops as patterns, and graphs that hold them so many times.
const CASES: &[(&str, &str, usize)] = &[
    ("%x = input \"x\" : f64[]\n%r = gelu %x", "%a = gelu %x\n%b = gelu %a\n%r = add %b, %x", 2),
    (
        "%x = input \"x\" : f64[]\n%r = gelu %x, approximate=\"tanh\"",
        "%a = gelu %x, approximate=\"tanh\"\n%b = gelu %x\n%r = add %a, %b",
        1,
    ),
    ("%x = input \"x\" : f64[]\n%r = silu %x", "%a = silu %x\n%r = multiply %a, %y", 1),
    ("%x = input \"x\" : f64[]\n%r = sigmoid %x", "%a = silu %x\n%b = sigmoid %y\n%r = multiply %a, %b", 2),
    ("%x = input \"x\" : f64[]\n%r = softplus %x", "%r = softplus %x", 1),
    ("%x = input \"x\" : f64[]\n%r = relu %x", "%a = softplus %x\n%r = relu %a", 2),
    (
        "%x = input \"x\" : f64[]\n%l = input \"l\" : f64[]\n%h = input \"h\" : f64[]\n%r = clip %x, %l, %h",
        "%a = maximum %x, %y\n%r = minimum 2.0, %a",
        1,
    ),
    ("%x = input \"x\" : f64[n, k]\n%r = softmax %x", "%a = softmax %x\n%b = softmax %y, axis=0\n%r = add %a, %b", 1),
    ("%x = input \"x\" : f64[n, k]\n%r = log_softmax %x", "%r = log_softmax %x", 1),
    (
        "%x = input \"x\" : f64[n, k]\n%r = layer_norm %x",
        "%a = layer_norm %x\n%b = layer_norm %y, epsilon=1e-3\n%r = add %a, %b",
        1,
    ),
    (
        "%x = input \"x\" : f64[n, k]\n%w = input \"w\" : f64[k]\n%b = input \"b\" : f64[k]\n%r = layer_norm %x, %w, %b",
        "%g = slice %x, starts=(0, 0), sizes=(1, 6), steps=(1, 1)\n%h = reshape %g, shape=(6)\n%a = layer_norm %x, %h, %h\n%r = layer_norm %a",
        1,
    ),
    ("%x = input \"x\" : f64[n, k]\n%r = rms_norm %x", "%a = rms_norm %x\n%r = rms_norm %a", 2),
    (
        "%x = input \"x\" : f64[n, k]\n%r = mean %x, axes=(1)",
        "%a = mean %x, axes=(1)\n%b = mean %y, axes=(0)\n%c = sum %b\n%r = add %a, %c",
        1,
    ),
    (
        "%q = input \"q\" : f64[n, d]\n%k = input \"k\" : f64[m, d]\n%v = input \"v\" : f64[m, c]\n%t = transpose %k\n%p = matmul %q, %t\n\
         %s = multiply %p, 0.5\n%e = softmax %s\n%r = matmul %e, %v",
        "%k = transpose %y\n%s = matmul %x, %k\n%h = multiply 0.5, %s\n%m = max %h, axes=(1), keepdims=true\n%d = subtract %h, %m\n%e = exp %d\n\
         %t = sum %e, axes=(1), keepdims=true\n%i = divide 1, %t\n%p = multiply %i, %e\n%r = matmul %p, %x",
        1,
    ),
];

fn target(body: &str) -> Graph {
    graph(&format!("%x = input \"x\" : f32[4, 6]\n%y = input \"y\" : f32[4, 6]\n{body}\nreturn %r"))
}

/// Patterns are found in graphs of simple ops under other names, in another order, with commuted operands, and replaced.
#[test]
fn patterns_are_found_and_replaced() {
    for (place, &(pattern_text, body, expected)) in CASES.iter().enumerate() {
        let of_pattern = graph(&format!("{pattern_text}\nreturn %r"));
        let pattern = if pattern_text.contains("\"q\"") {
            let text = "%q = input \"q\" : f64[n, d]\n%k = input \"k\" : f64[m, d]\n%v = input \"v\" : f64[m, c]\n%r = attention %q, %k, %v, scale=0.5\nreturn %r";
            Pattern::with_replacement(&of_pattern, &graph(text)).unwrap()
        } else {
            Pattern::new(&of_pattern).unwrap()
        };
        let target = target(body);
        let inputs = [
            tensor(polyloom_ir::Scalar::F32, &[4, 6], &numbers(24)),
            tensor(polyloom_ir::Scalar::F32, &[4, 6], &numbers(48)[24..]),
        ];
        let want = evaluate(&target, &inputs).unwrap()[0].numbers();
        for seed in 0..4 {
            let hidden = disguised(&decompose(&target).unwrap(), &mut Random::new(seed));
            let index = PatternIndex::new(&hidden).unwrap();
            let found = index.find(&pattern, MatchOverlap::Disjoint);
            assert_eq!(found.len(), expected, "case {place}\n{}", index.graph());
            assert!(index.find(&pattern, MatchOverlap::All).len() >= expected);
            let replaced = index.replace(&found.iter().map(|found| (&pattern, found)).collect::<Vec<_>>()).unwrap();
            verify(&replaced).unwrap();
            let name = |graph: &Graph| graph.inputs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
            assert_eq!(name(&replaced), name(&hidden));
            let n_ops =
                |graph: &Graph| graph.values.iter().filter(|value| matches!(value.def, TensorDef::Op { .. })).count();
            assert!(n_ops(&replaced) < n_ops(index.graph()) || pattern_text.contains("relu"), "{replaced}");
            for (got, want) in evaluate(&replaced, &inputs).unwrap()[0].numbers().iter().zip(&want) {
                assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "case {place}: {got} {want}\n{replaced}");
            }
        }
    }
}

/// Matches that share values are all found, and one of them alone if they must not.
#[test]
fn disjoint_matches_share_nothing() {
    let pattern = Pattern::new(&graph("%x = input \"x\" : f64[]\n%y = input \"y\" : f64[]\n%z = input \"z\" : f64[]\n%a = add %x, %y\n%r = add %a, %z\nreturn %r")).unwrap();
    let index =
        PatternIndex::new(&target("%a = add %x, %y\n%b = add %a, %x\n%c = add %b, %y\n%d = add %c, %x\n%r = exp %d"))
            .unwrap();
    assert_eq!(index.find(&pattern, MatchOverlap::All).len(), 3);
    assert_eq!(index.find(&pattern, MatchOverlap::Disjoint).len(), 2);
}

/// A graph of 10,000 values is gone through once for a pattern.
#[test]
fn large_graphs_are_searched() {
    let mut text = String::new();
    for step in 0..1000 {
        let from = if step == 0 { "%x".to_owned() } else { format!("%s{}", step - 1) };
        writeln!(text, "%g{step} = gelu {from}\n%s{step} = add %g{step}, %y").unwrap();
    }
    let graph_text = format!("{text}%r = exp %s999");
    let index = PatternIndex::new(&target(&graph_text)).unwrap();
    let gelu = Pattern::new(&graph("%x = input \"x\" : f64[]\n%r = gelu %x\nreturn %r")).unwrap();
    assert_eq!(index.find(&gelu, MatchOverlap::Disjoint).len(), 1000);
}

#[test]
fn what_is_no_pattern_is_refused() {
    let refused = |text: &str| Pattern::new(&graph(text)).unwrap_err().to_string();
    assert_eq!(refused("%x = input \"x\" : f64[]\nreturn %x"), "a pattern computes something");
    assert_eq!(refused("%x = input \"x\" : f64[]\n%a = exp %x\nreturn %a, %x"), "a pattern has one output");
}
