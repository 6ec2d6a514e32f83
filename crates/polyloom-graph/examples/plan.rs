//! Prints the kernels that a graph is planned to, given the graph's text on the standard input.
//!
//! `echo '%x = input "x" : f32[64, 1024]
//! %y = softmax %x
//! return %y' | cargo run -p polyloom-graph --example plan`

use polyloom_graph::plan::{PlanOptions, plan};
use polyloom_graph::{Layout, parse_graph};
use std::error::Error;
use std::io::Read;

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let graph = parse_graph(&text)?;
    let dense = |ty: &polyloom_graph::TensorType| ty.shape.as_static().map(|extents| Layout::dense(&extents));
    let layouts: Vec<Layout> =
        graph.inputs().map(|(_, ty)| dense(ty)).collect::<Option<_>>().ok_or("an input has no known extents")?;
    let planned = plan(&graph, &layouts, &PlanOptions::default())?;
    for kernel in &planned.kernels {
        println!("// {:?}, {:?}", kernel.grid, kernel.args);
        println!("{}", kernel.body.function()?);
    }
    Ok(())
}
