//! Prints how long it takes to differentiate and to plan graphs of many ops: chains of elementwise ops, and an LSTM over sequences.
//! Times that grow faster than the number of ops show what is not linear.
//!
//! `cargo run --release -p polyloom-graph --example plan_time`

use polyloom_graph::OutputCotangent::One;
use polyloom_graph::plan::{PlanOptions, plan};
use polyloom_graph::{
    AttributeValue, Graph, GraphBuilder, GraphError, Layout, Shape, TensorId, TensorOp, value_and_gradient_from,
};
use polyloom_ir::Scalar::F32;
use std::time::{Duration, Instant};

const BATCH: u64 = 32;
const WIDTH: u64 = 128;

fn main() -> Result<(), GraphError> {
    for n in [250, 500, 1000, 2000] {
        report(&format!("chain of {n} ops"), &chain(n)?)?;
    }
    for n in [16, 32, 64, 128] {
        let graph = lstm(n)?;
        report(&format!("LSTM, {n} steps"), &graph)?;
        let wrt: Vec<TensorId> = (0..3).map(TensorId).collect();
        let started = Instant::now();
        let gradient = value_and_gradient_from(&graph, &wrt, &[One])?;
        println!("    differentiated in {:.2} ms", milliseconds(started.elapsed()));
        report(&format!("its gradient, {n} steps"), &gradient)?;
    }
    Ok(())
}

fn report(name: &str, graph: &Graph) -> Result<(), GraphError> {
    let extents = graph.inputs().filter_map(|(_, ty)| ty.shape.as_static());
    let layouts: Vec<Layout> = extents.map(|extents| Layout::dense(&extents)).collect();
    let options = PlanOptions::default();
    let mut best = Duration::MAX;
    let mut n_kernels = 0;
    for _ in 0..5 {
        let started = Instant::now();
        n_kernels = plan(graph, &layouts, &options)?.kernels.len();
        best = best.min(started.elapsed());
    }
    let started = Instant::now();
    let hash = std::hint::black_box(graph.structure_hash());
    let hashed = started.elapsed();
    println!(
        "{name}: {} values, {n_kernels} kernels, planned in {:.2} ms, hashed in {:.3} ms ({hash:016x})",
        graph.values.len(),
        milliseconds(best),
        milliseconds(hashed)
    );
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Builds a chain of sines and sums, which is too long for one expression.
fn chain(n: usize) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new();
    let x = b.input("x", F32, Shape::of(&[1000]))?;
    let mut y = x;
    for index in 0..n {
        y = match index % 2 {
            0 => b.op(TensorOp::Sin, &[y.into()], &[])?,
            _ => b.op(TensorOp::Add, &[y.into(), x.into()], &[])?,
        };
    }
    b.finish(&[y])
}

/// Builds the loss of an LSTM over a sequence, as `examples/fuse/lstm.py` has it.
fn lstm(n_steps: u64) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new();
    let input = b.input("input", F32, Shape::of(&[4 * WIDTH, 64]))?;
    let state = b.input("state", F32, Shape::of(&[4 * WIDTH, WIDTH]))?;
    let bias = b.input("bias", F32, Shape::of(&[4 * WIDTH]))?;
    let x = b.input("x", F32, Shape::of(&[n_steps, BATCH, 64]))?;
    let start = b.input("start", F32, Shape::of(&[BATCH, WIDTH]))?;
    let wanted = b.input("wanted", F32, Shape::of(&[BATCH, WIDTH]))?;
    let given = b.op(TensorOp::Linear, &[x.into(), input.into()], &[])?;
    let (mut h, mut c) = (start, start);
    for step in 0..n_steps {
        let now = b.slice(given, &[(Some(step as i64), Some(step as i64 + 1), 1)])?;
        let shape: AttributeValue = Shape::of(&[BATCH, 4 * WIDTH]).into();
        let now = b.op(TensorOp::Reshape, &[now.into()], &[("shape", shape)])?;
        let by_state = b.op(TensorOp::Linear, &[h.into(), state.into(), bias.into()], &[])?;
        let gates = b.op(TensorOp::Add, &[now.into(), by_state.into()], &[])?;
        let width = WIDTH as i64;
        let gate = |b: &mut GraphBuilder, index: i64, op: TensorOp| {
            let part = b.slice(gates, &[(None, None, 1), (Some(index * width), Some((index + 1) * width), 1)])?;
            b.op(op, &[part.into()], &[])
        };
        let keep = gate(&mut b, 0, TensorOp::Sigmoid)?;
        let forget = gate(&mut b, 1, TensorOp::Sigmoid)?;
        let update = gate(&mut b, 2, TensorOp::Tanh)?;
        let show = gate(&mut b, 3, TensorOp::Sigmoid)?;
        let kept = b.op(TensorOp::Multiply, &[forget.into(), c.into()], &[])?;
        let added = b.op(TensorOp::Multiply, &[keep.into(), update.into()], &[])?;
        c = b.op(TensorOp::Add, &[kept.into(), added.into()], &[])?;
        let shown = b.op(TensorOp::Tanh, &[c.into()], &[])?;
        h = b.op(TensorOp::Multiply, &[show.into(), shown.into()], &[])?;
    }
    let distance = b.op(TensorOp::Subtract, &[h.into(), wanted.into()], &[])?;
    let square = b.op(TensorOp::Square, &[distance.into()], &[])?;
    let loss = b.op(TensorOp::Mean, &[square.into()], &[])?;
    b.finish(&[loss])
}
