//! Measures identities: terms hashed a second, the time of an answer about equivalence, and that of a search for a subgraph.
//!
//! `cargo run --release -p polyloom-graph --example identity`

use polyloom_graph::canonical::{IdentityOptions, IdentityStrength, canonicalise};
use polyloom_graph::equivalence::{Equivalence, EquivalenceLimits};
use polyloom_graph::pattern::{MatchOverlap, Pattern, PatternIndex};
use polyloom_graph::{Graph, GraphBuilder, Shape, TensorId, TensorOp, parse_graph};
use polyloom_ir::Scalar;
use std::time::{Duration, Instant};

/// Builds a graph of many elementwise values, each of two of those before it.
fn wide_graph(n: usize, ops: &[TensorOp]) -> Graph {
    let mut b = GraphBuilder::new();
    let mut values: Vec<TensorId> =
        (0..4).filter_map(|i| b.input(&format!("x{i}"), Scalar::F32, Shape::of(&[64, 64])).ok()).collect();
    let mut state = 1u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    while values.len() < n {
        let recent = values.len().min(64);
        let mut pick = || values[values.len() - 1 - below(recent)].into();
        let operands = [pick(), pick()];
        if let Ok(value) = b.op(ops[below(ops.len())], &operands, &[]) {
            values.push(value);
        }
    }
    let last = values[values.len() - 64..].to_vec();
    b.finish(&last).unwrap_or_default()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    equivalence();
    patterns();
    let ops = [TensorOp::Add, TensorOp::Multiply, TensorOp::Maximum, TensorOp::Subtract, TensorOp::Hypot];
    for n in [1_000, 1_000_000] {
        let graph = wide_graph(n, &ops);
        for strength in [IdentityStrength::Bits, IdentityStrength::Mathematics] {
            let times = (0..3).map(|_| {
                let start = Instant::now();
                let form = canonicalise(&graph, IdentityOptions::of(strength)).map(|form| form.hash());
                std::hint::black_box(form.ok());
                start.elapsed()
            });
            let time = median(times.collect()).as_secs_f64();
            println!("{strength:?} of {n} values: {:.2} ms, {:.2} million a second", time * 1e3, n as f64 / time / 1e6);
        }
    }
}

const INPUTS: &str = "%a = input \"a\" : f64[4, 6]\n%b = input \"b\" : f64[4, 6]\n%c = input \"c\" : f64[4, 6]\n\
    %w = input \"w\" : f64[6, 6]\n%v = input \"v\" : f64[6, 3]\n%s = input \"s\" : f64[]\n%n = input \"n\" : i32[5]\n%m = input \"m\" : i32[5]\n";

fn equivalence() {
    let text = include_str!("../tests/main/equivalence.txt");
    let graph = |side: &str| {
        let lines: Vec<&str> = side.split(';').map(str::trim).collect();
        let (last, before) = lines.split_last()?;
        let before: String = before.iter().map(|line| format!("{line}\n")).collect();
        parse_graph(&format!("{INPUTS}{before}%r = {last}\nreturn %r")).ok()
    };
    let (mut times, mut n_equal, mut n_different, mut unknown, mut wrong) = (Vec::new(), 0, 0, Vec::new(), 0);
    for line in text.lines().filter(|line| line.starts_with(['=', '!'])) {
        let Some((left, right)) = line[2..].split_once(" <=> ") else { continue };
        let (Some(a), Some(b)) = (graph(left), graph(right)) else { continue };
        let start = Instant::now();
        let answer = a.equivalent(&b, EquivalenceLimits::default());
        times.push(start.elapsed());
        match answer {
            Ok(Equivalence::Equal { .. }) => {
                n_equal += 1;
                wrong += usize::from(line.starts_with('!'));
            }
            Ok(Equivalence::Different(_)) => {
                n_different += 1;
                wrong += usize::from(line.starts_with('='));
            }
            _ => unknown.push(line),
        }
    }
    let n = times.len();
    let most = times.iter().max().copied().unwrap_or_default();
    println!(
        "{n} pairs: {n_equal} equal, {n_different} different, {} unknown, {wrong} wrong; median {:.2} ms, most {:.1} ms",
        unknown.len(),
        median(times).as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3
    );
    unknown.iter().for_each(|line| println!("  unknown: {line}"));
}

/// Patterns of one op each.
const PATTERNS: &[&str] = &[
    "gelu %x",
    "gelu %x, approximate=\"tanh\"",
    "silu %x",
    "sigmoid %x",
    "softplus %x",
    "leaky_relu %x, negative_slope=0.1",
    "clip %x, 0.0, 6.0",
    "softmax %m",
    "softmax %m, axis=0",
    "log_softmax %m",
    "logsumexp %m, axes=(1)",
    "layer_norm %m",
    "layer_norm %m, %g, %h",
    "rms_norm %m",
    "rms_norm %m, %g",
    "mean %m, axes=(1)",
    "var %m, axes=(1)",
    "std %m, axes=(0)",
    "norm %m, axes=(1)",
    "linear %m, %k, %h",
];

fn patterns() {
    let mut b = GraphBuilder::new();
    let mut values: Vec<TensorId> = Vec::new();
    values.extend(b.input("x", Scalar::F32, Shape::of(&[8, 16])));
    let blocks =
        [TensorOp::Gelu, TensorOp::Silu, TensorOp::Softmax, TensorOp::LayerNorm, TensorOp::RmsNorm, TensorOp::Softplus];
    let others = [TensorOp::Add, TensorOp::Multiply, TensorOp::Maximum];
    let mut step = 0;
    loop {
        let last = values[values.len() - 1];
        let before = values[values.len().saturating_sub(3)];
        values.extend(b.op(blocks[step % blocks.len()], &[last.into()], &[]));
        values.extend(b.op(others[step % others.len()], &[values[values.len() - 1].into(), before.into()], &[]));
        step += 1;
        if step % 100 == 0 {
            let Ok(graph) = b.clone().finish(&values[values.len() - 1..]) else { return };
            let start = Instant::now();
            let Ok(index) = PatternIndex::new(&graph) else { return };
            let indexed = start.elapsed();
            if index.graph().values.len() < 10_000 {
                continue;
            }
            println!(
                "{} values, brought into form in {:.1} ms",
                index.graph().values.len(),
                indexed.as_secs_f64() * 1e3
            );
            let mut most = Duration::ZERO;
            for body in PATTERNS {
                let inputs = [("x", "f64[]"), ("m", "f64[n, k]"), ("g", "f64[k]"), ("h", "f64[k]"), ("k", "f64[k, k]")];
                let used = inputs.iter().filter(|(name, _)| body.contains(&format!("%{name}")));
                let inputs: String = used.map(|(name, ty)| format!("%{name} = input \"{name}\" : {ty}\n")).collect();
                let Ok(graph) = parse_graph(&format!("{inputs}%r = {body}\nreturn %r")) else { continue };
                let Ok(pattern) = Pattern::new(&graph) else { continue };
                let start = Instant::now();
                let n = index.find(&pattern, MatchOverlap::All).len();
                let time = start.elapsed();
                most = most.max(time);
                println!("  {body}: {n} in {:.2} ms", time.as_secs_f64() * 1e3);
            }
            println!("{} patterns, the slowest in {:.2} ms", PATTERNS.len(), most.as_secs_f64() * 1e3);
            return;
        }
    }
}
