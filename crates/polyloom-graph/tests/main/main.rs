//! The tests of tensor graphs, in one binary.

mod decision;
mod decomposition;
mod errors;
mod gradient_points;
mod gradients;
mod matmul;
mod promotion;
mod reductions;
mod scalars;
mod shapes;
mod support;
mod table;
mod text;
mod values;
