//! Equivalence: laws hold on the evaluator, and a corpus of pairs gets the right answers.

use crate::support::{graph, numbers, tensor};
use polyloom_graph::Graph;
use polyloom_graph::equivalence::law::{examples_applied, laws};
use polyloom_graph::equivalence::{Equivalence, EquivalenceLimits, best_variant};
use polyloom_graph::reference::evaluate;
use polyloom_ir::Scalar::F64;
use std::collections::BTreeSet;
use std::time::Duration;

/// Limits without time, so that answers are the same on every machine.
fn limits() -> EquivalenceLimits {
    EquivalenceLimits { time: Duration::from_secs(600), ..EquivalenceLimits::default() }
}

const LAW_INPUTS: &str = "%x = input \"x\" : f64[3, 4]\n%y = input \"y\" : f64[3, 4]\n%p = input \"p\" : f64[3, 4]\n\
    %w = input \"w\" : f64[4, 5]\n%s = input \"s\" : f64[]\n";

/// Each law applies to its examples, and what it gives is equal to them on the evaluator, on several inputs.
#[test]
fn laws_hold_on_the_evaluator() {
    let mut names = BTreeSet::new();
    for law in laws() {
        assert!(names.insert(law.name), "{} is there twice", law.name);
        assert!(law.statement.len() > 8 && !law.examples.is_empty(), "{}", law.name);
        for example in law.examples {
            let graph = graph(&format!("{LAW_INPUTS}{example}\nreturn %r"));
            let variants = examples_applied(law, &graph).unwrap();
            assert!(!variants.is_empty(), "`{}` does not apply to {graph}", law.name);
            for seed in 0..4usize {
                let drawn = |n: usize, skip: usize| numbers(n + 40 * seed + skip)[40 * seed + skip..].to_vec();
                let positive: Vec<f64> = drawn(12, 24).into_iter().map(|x| x.abs() + 0.125).collect();
                let inputs = [
                    tensor(F64, &[3, 4], &drawn(12, 0)),
                    tensor(F64, &[3, 4], &drawn(12, 12)),
                    tensor(F64, &[3, 4], &positive),
                    tensor(F64, &[4, 5], &drawn(20, 3)),
                    tensor(F64, &[], &drawn(1, 5)),
                ];
                let want = evaluate(&graph, &inputs).unwrap()[0].numbers();
                for variant in &variants {
                    let got = evaluate(variant, &inputs).unwrap()[0].numbers();
                    let scale = want.iter().fold(1.0, |scale: f64, x| scale.max(x.abs()));
                    for (got, want) in got.iter().zip(&want) {
                        let is_close = (got - want).abs() <= 1e-9 * scale;
                        assert!(is_close, "`{}`: {got}, not {want}\n{graph}\n{variant}", law.name);
                    }
                }
            }
        }
    }
    assert!(names.len() > 35, "{}", names.len());
}

const INPUTS: &str = "%a = input \"a\" : f64[4, 6]\n%b = input \"b\" : f64[4, 6]\n%c = input \"c\" : f64[4, 6]\n\
    %w = input \"w\" : f64[6, 6]\n%v = input \"v\" : f64[6, 3]\n%s = input \"s\" : f64[]\n%n = input \"n\" : i32[5]\n%m = input \"m\" : i32[5]\n";

fn pair_graph(body: &str) -> Graph {
    graph(&format!("{INPUTS}{body}\nreturn %r"))
}

/// Returns the pairs of `equivalence.txt`: are they equal, and the lines of both.
fn corpus() -> Vec<(bool, String, String)> {
    let text = include_str!("equivalence.txt");
    let body = |side: &str| {
        let lines: Vec<&str> = side.split(';').map(str::trim).collect();
        let (last, before) = lines.split_last().unwrap();
        let before: String = before.iter().map(|line| format!("{line}\n")).collect();
        format!("{before}%r = {last}")
    };
    let pair = |line: &str| {
        let (is_equal, rest) = line.split_once(' ').unwrap();
        let (left, right) = rest.split_once(" <=> ").unwrap_or_else(|| panic!("{line}"));
        (is_equal == "=", body(left), body(right))
    };
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(pair).collect()
}

/// No answer is wrong, and at most one in ten is unknown.
#[test]
fn the_corpus_gets_the_right_answers() {
    let corpus = corpus();
    let n_equal = corpus.iter().filter(|(is_equal, ..)| *is_equal).count();
    assert!(
        corpus.len() >= 200 && 2 * n_equal <= corpus.len() + 10 && 2 * n_equal >= corpus.len() - 10,
        "{n_equal} of {}",
        corpus.len()
    );
    let limits = limits();
    let mut unknown = Vec::new();
    for (is_equal, left, right) in &corpus {
        let (a, b) = (pair_graph(left), pair_graph(right));
        match a.equivalent(&b, limits).unwrap() {
            Equivalence::Equal { .. } => assert!(is_equal, "they are not equal:\n{left}\n\n{right}"),
            Equivalence::Different(found) => assert!(!is_equal, "they are equal:\n{left}\n\n{right}\n{found:?}"),
            Equivalence::Incomparable(reason) => panic!("{reason}\n{left}\n\n{right}"),
            Equivalence::Unknown(limit) => unknown.push(format!("{limit:?}\n{left}\n--\n{right}")),
        }
    }
    assert!(10 * unknown.len() <= corpus.len(), "{} of {}:\n{}", unknown.len(), corpus.len(), unknown.join("\n\n"));
    if std::env::var_os("POLYLOOM_SHOW").is_some() {
        println!("{} unknown of {}:\n{}", unknown.len(), corpus.len(), unknown.join("\n\n"));
    }
}

#[test]
fn proofs_tell_their_laws() {
    let a = pair_graph("%t = add %a, %b\n%r = multiply %t, %c");
    let b = pair_graph("%t = multiply %a, %c\n%u = multiply %c, %b\n%r = add %t, %u");
    let Equivalence::Equal { proof, has_same_bits, deviation } = a.equivalent(&b, limits()).unwrap() else { panic!() };
    assert!(!has_same_bits && !proof.is_empty());
    assert!(proof.iter().any(|step| step.law == "distribution" || step.law == "common factor"), "{proof:?}");
    let deviation = deviation.unwrap();
    assert!(deviation.n_elements == 48 && deviation.relative > 0.0 && deviation.relative < 1e-14, "{deviation:?}");
}

#[test]
fn counterexamples_are_inputs_on_which_graphs_differ() {
    let (a, b) = (pair_graph("%r = maximum %a, %b"), pair_graph("%r = maximum %a, %c"));
    let Equivalence::Different(found) = a.equivalent(&b, limits()).unwrap() else { panic!() };
    assert_ne!(found.values[0], found.values[1]);
    assert_eq!((found.inputs.len(), found.output), (8, 0));
    let narrow = pair_graph("%r = sum %a");
    assert!(matches!(a.equivalent(&narrow, limits()).unwrap(), Equivalence::Incomparable(_)));
}

/// A search that is cut off says by what.
#[test]
fn bounds_are_told() {
    use polyloom_graph::equivalence::EquivalenceLimit::{Iterations, Nodes, Trials};
    let a = pair_graph("%t = add %a, %b\n%u = multiply %t, %t\n%q = multiply %u, %t\n%r = multiply %q, %c");
    let b = pair_graph(
        "%t = add %a, %b\n%u = multiply %a, %a\n%q = multiply %a, %b\n%x = multiply %b, %b\n%k = add %u, %q\n%l = add %k, %q\n\
         %z = add %l, %x\n%y = multiply %z, %t\n%r = multiply %y, %c",
    );
    let unknown = |limits| match a.equivalent(&b, limits).unwrap() {
        Equivalence::Unknown(limit) => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown(EquivalenceLimits { iterations: 0, ..limits() }), Iterations);
    assert_eq!(unknown(EquivalenceLimits { nodes: 9, ..limits() }), Nodes);
    assert_eq!(unknown(EquivalenceLimits { elements: 1, ..limits() }), Trials);
    assert!(a.equivalent(&b, limits()).unwrap().is_equal());
}

/// Symbols and numbers that are given at each run are no hindrance.
#[test]
fn symbols_are_proved_for_all_extents() {
    let of =
        |body: &str| graph(&format!("%x = input \"x\" : f32[n, m]\n%y = input \"y\" : f32[n, m]\n{body}\nreturn %r"));
    let a = of("%t = add %x, %y\n%r = sum %t, axes=(1)");
    let b = of("%t = sum %x, axes=(1)\n%u = sum %y, axes=(1)\n%r = add %u, %t");
    let c = of("%t = sum %x, axes=(1)\n%u = sum %y, axes=(1)\n%r = subtract %t, %u");
    assert!(a.equivalent(&b, limits()).unwrap().is_equal());
    assert!(matches!(a.equivalent(&c, limits()).unwrap(), Equivalence::Different(_)));
}

/// Equal ways are found cheapest with what is shared counted once, and compute the same.
#[test]
fn the_cheapest_variant_shares_what_is_computed_twice() {
    let graph = pair_graph(
        "%t = multiply %a, %c\n%u = multiply %b, %c\n%q = add %t, %u\n%e = exp %q\n%f = exp %q\n%r = add %e, %f",
    );
    let (variant, cost) = best_variant(&graph, limits(), &|_, _, _| 1.0).unwrap();
    // A sum, a product, an exponential and its double.
    assert_eq!(cost, 4.0, "{variant}");
    let inputs: Vec<_> = graph
        .inputs()
        .map(|(_, ty)| {
            let extents = ty.shape.as_static().unwrap();
            tensor(ty.dtype, &extents, &numbers(extents.iter().product::<u64>() as usize))
        })
        .collect();
    let (want, got) = (evaluate(&graph, &inputs).unwrap(), evaluate(&variant, &inputs).unwrap());
    for (got, want) in got[0].numbers().iter().zip(want[0].numbers()) {
        assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "{got} {want}");
    }
    // A product of matrices that is cheaper in another grouping.
    let text = "%x = input \"x\" : f32[1, 64]\n%y = input \"y\" : f32[64, 64]\n%z = input \"z\" : f32[64, 64]\n%a = matmul %y, %z\n%r = matmul %x, %a\nreturn %r";
    let product = polyloom_graph::parse_graph(text).unwrap();
    let flops =
        |op: polyloom_graph::TensorOp, operands: &[polyloom_graph::TensorType], result: &polyloom_graph::TensorType| {
            op.cost(operands, &[], result).map_or(0.0, |cost| cost.flops as f64)
        };
    let (variant, cost) = best_variant(&product, limits(), &flops).unwrap();
    assert!(cost < 64.0 * 64.0 * 2.0 * 2.0 + 1.0, "{cost} {variant}");
}
