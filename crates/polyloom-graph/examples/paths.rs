//! Measures the path generator on a graph of so many ops, 200 by default, and prints the first paths.
//!
//! `cargo run --release -p polyloom-graph --example paths -- 200`

use polyloom_graph::cost::MachineCosts;
use polyloom_graph::equivalence::{EquivalenceLimits, best_variant};
use polyloom_graph::path::{PathGenerator, PathLimits, PathRequest};
use polyloom_graph::plan::{PlanOptions, plan};
use polyloom_graph::{Backend, KernelRegistry, Layout, TensorOp, TensorType, parse_graph};
use std::error::Error;
use std::time::{Duration, Instant};

/// Returns the text of blocks like those of a transformer.
fn text(n_ops: usize) -> String {
    let mut text = String::new();
    text += "%0 = input \"x\" : f32[512, 256]\n%1 = input \"w\" : f32[256, 256]\n%2 = input \"b\" : f32[256]\n";
    for id in 3..n_ops + 3 {
        let before = if id == 3 { 0 } else { id - 1 };
        text += &match id % 10 {
            0 => format!("%{id} = linear %{before}, %1\n"),
            1 => format!("%{id} = add %{before}, %2\n"),
            2 => format!("%{id} = gelu %{before}\n"),
            3 => format!("%{id} = layer_norm %{before}\n"),
            4 => format!("%{id} = multiply %{before}, %2\n"),
            5 => format!("%{id} = softmax %{before}\n"),
            6 => format!("%{id} = tanh %{before}\n"),
            7 => format!("%{id} = add %{before}, %0\n"),
            8 => format!("%{id} = silu %{before}\n"),
            _ => format!("%{id} = subtract %{before}, %2\n"),
        };
    }
    format!("{text}return %{}\n", n_ops + 2)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let n_ops = std::env::args().nth(1).map_or(Ok(200), |argument| argument.parse())?;
    let graph = parse_graph(&text(n_ops))?;
    for backends in [
        &[Backend::CpuNative] as &[Backend],
        &[Backend::CpuNative, Backend::CpuNumpy],
        &[Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch],
        &[Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch, Backend::GpuTorch, Backend::GpuCuda],
    ] {
        let registry = KernelRegistry::with_backends(backends);
        let limits = PathLimits { n_paths: 8, time: Duration::from_secs(10), ..PathLimits::default() };
        let (mut firsts, mut all, mut forms) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..15 {
            let start = Instant::now();
            let request = PathRequest::new(graph.clone(), [0; 32]);
            let mut paths = PathGenerator::new(request, &registry, MachineCosts::default(), limits);
            let first = paths.next().ok_or("there is no path")?;
            firsts.push(start.elapsed());
            let rest: Vec<_> = paths.by_ref().collect();
            all.push(start.elapsed());
            if round == 0 {
                for path in std::iter::once(&first).chain(&rest) {
                    let backends: Vec<&str> = path.recipe.backends().iter().map(|backend| backend.name()).collect();
                    let (ns, n_groups) = (path.predicted.total_ns(), path.recipe.groups().count());
                    forms.push(format!("{:.0} µs, {n_groups} groups on {}", ns / 1e3, backends.join(" and ")));
                }
            }
        }
        let names: Vec<&str> = backends.iter().map(|backend| backend.name()).collect();
        println!("{n_ops} ops on {}:", names.join(", "));
        println!("  first path after {:?}, {} paths after {:?}", median(firsts), forms.len(), median(all));
        forms.iter().for_each(|form| println!("  {form}"));
    }
    let layouts: Vec<Layout> = graph
        .inputs()
        .map(|(_, ty)| Some(Layout::dense(&ty.shape.as_static()?)))
        .collect::<Option<_>>()
        .ok_or("symbols")?;
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        std::hint::black_box(plan(&graph, &layouts, &PlanOptions::default())?);
        times.push(start.elapsed());
    }
    println!("a plan of the whole graph takes {:?}", median(times));
    let elements = |ty: &TensorType| ty.shape.n_elements().unwrap_or(1) as f64;
    let cost = |op: TensorOp, operands: &[TensorType], result: &TensorType| {
        let flops = op.cost(operands, &[], result).map_or(0, |cost| cost.flops) as f64;
        flops + elements(result) + operands.iter().map(elements).sum::<f64>()
    };
    let limits =
        EquivalenceLimits { nodes: 2000, iterations: 8, time: Duration::from_millis(15), ..Default::default() };
    let mut times = Vec::new();
    let mut least = (0, 0.0);
    for _ in 0..15 {
        let start = Instant::now();
        let (variant, cost) = best_variant(&graph, limits, &cost)?;
        times.push(start.elapsed());
        least = (variant.values.len(), cost);
    }
    println!("a variant by the e-graph takes {:?}: {} values, cost {:.3e}", median(times), least.0, least.1);
    Ok(())
}
