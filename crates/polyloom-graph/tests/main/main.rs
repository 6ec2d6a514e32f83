//! The tests of tensor graphs, in one binary.

mod costs;
mod decision;
mod decomposition;
mod errors;
mod gradient_points;
mod gradients;
mod matmul;
mod paths;
mod promotion;
mod recipes;
mod reductions;
mod scalars;
mod shapes;
mod support;
mod table;
mod text;
mod values;
