//! Plans say what they have chosen, and why.

use crate::support::graph;
use polyloom_graph::Layout;
use polyloom_graph::plan::{PlanOptions, explain, plan};

/// Checks the choices in the plan of a graph over dense inputs.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let graph = graph(text);
    let layouts: Vec<Layout> =
        graph.inputs().map(|(_, ty)| Layout::dense(&ty.shape.as_static().expect("known extents"))).collect();
    let explained = explain(&graph, &layouts, &PlanOptions::default()).unwrap();
    let decisions: Vec<String> = explained.decisions.iter().map(ToString::to_string).collect();
    assert_eq!(decisions, expected);
}

#[test]
fn kernels_store_what_is_dear_and_compute_again_what_is_cheap() {
    let text = |op: &str| {
        format!(
            "%0 = input \"a\" : f32[300, 400]\n%1 = {op} %0\n\
             %2 = sum %1, axes=(1)\n%3 = cumsum %1, axis=1\nreturn %2, %3"
        )
    };
    // 480,000 bytes are an array. Apart, both kernels read the input, and together one does.
    check(
        &text("negative"),
        &[
            "negative computed by each kernel: 1 operation an element, a store and loads count 16",
            "kernel 1 apart from kernel 0: 1.4 MB, together 961.2 kB, but a scan, or a sum by indices, is a kernel of its own",
        ],
    );
    // One kernel stores what two load. With the first of these it would still store it, for the other.
    check(
        &text("erf"),
        &[
            "erf stored for several kernels: 30 operations an element, a store and loads count 16",
            "kernel 1 apart from kernel 0: 1.4 MB, together 961.2 kB, but one goes over rows, the other over elements",
            "kernel 2 apart from kernel 0: 1.9 MB, together 1.4 MB, but a scan, or a sum by indices, is a kernel of its own",
        ],
    );
}

/// The parts of a row that is combined in parts have all its elements, which are stored once nevertheless.
#[test]
fn what_several_kernels_need_is_stored_once() {
    for (extents, axes) in [("10000, 64", "0"), ("1000000", "0")] {
        let graph = graph(&format!(
            "%0 = input \"x\" : f32[{extents}]\n%1 = sigmoid %0\n%2 = var %1, axes=({axes})\nreturn %2"
        ));
        let layouts: Vec<Layout> =
            graph.inputs().map(|(_, ty)| Layout::dense(&ty.shape.as_static().expect("known extents"))).collect();
        let n: u64 = layouts[0].extents.iter().product();
        let planned = plan(&graph, &layouts, &PlanOptions::default()).unwrap();
        assert!(planned.buffers.iter().any(|buffer| buffer.n_elements == n), "{extents}");
        assert!(planned.buffers.iter().all(|buffer| buffer.n_elements <= n), "{extents}");
    }
}
