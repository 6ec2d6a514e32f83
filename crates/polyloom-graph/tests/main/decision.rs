//! What plans say of their choices.

use crate::support::graph;
use polyloom_graph::Layout;
use polyloom_graph::plan::{PlanOptions, explain};

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
fn cheap_expressions_are_computed_by_each_kernel() {
    // Columns are combined in parts first, which rows are not.
    check(
        "%0 = input \"a\" : f32[300, 400]\n%1 = input \"b\" : f32[300, 400]\n%2 = add %0, %1\n\
         %3 = sum %2, axes=[0], keepdims=false\n%4 = sum %2, axes=[1], keepdims=false\nreturn %3, %4",
        &[
            "add computed by each kernel: 1 operations an element, a store and loads count 16",
            "kernel 1 apart from kernel 0: 1.0 MB, together 980.8 kB, but rows are combined in parts first",
            "kernel 2 apart from kernel 0: 1.9 MB, together 961.6 kB, but rows are combined in parts first",
        ],
    );
}
