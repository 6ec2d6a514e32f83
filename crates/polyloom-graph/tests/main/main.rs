//! The tests of tensor graphs, in one binary.

mod accuracy;
mod costs;
mod decision;
mod decomposition;
mod drawing;
mod equivalence;
mod errors;
mod fake_device;
mod gradient_points;
mod gradients;
mod identity;
mod matmul;
mod measuring;
mod paths;
mod pattern;
mod promotion;
mod random_graphs;
mod recipes;
mod reductions;
mod scalars;
mod shapes;
mod support;
mod table;
mod text;
mod tuning;
mod values;
