//! The tests of tensor graphs, in one binary.

mod accuracy;
mod decision;
mod decomposition;
mod errors;
mod fake_device;
mod gradient_points;
mod gradients;
mod matmul;
mod measuring;
mod promotion;
mod reductions;
mod scalars;
mod shapes;
mod support;
mod table;
mod text;
mod tuning;
mod values;
