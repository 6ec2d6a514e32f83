//! Tensor graphs and their one table of ops.
//!
//! A [`Graph`] holds values in SSA form: inputs, scalar constants and ops with attributes. A [`GraphBuilder`] makes one and
//! infers element types by NumPy's promotion and shapes by its broadcasting; [`verify()`] checks one; [`parse_graph`] and
//! `Display` are its text form; [`decompose()`] rewrites composite ops to simple ones; [`gradient()`] gives the graph of its gradients;
//! [`mod@reference`] defines what it computes, the order of each reduction included. What an op is, [`op`] says. Of the ways to run a
//! graph, [`mod@measure`] times them and chooses one, [`mod@tune`] finds a kernel's parameters, and [`verify_accuracy`] tells if a result is right.
//!
//! The crate knows HIR, whose scalar functions define elementwise ops, and no front end, back end or Python.
//!
//! ```
//! use polyloom_graph::{GraphBuilder, Shape, TensorOp};
//! use polyloom_ir::Scalar;
//!
//! let mut b = GraphBuilder::new();
//! let x = b.input("x", Scalar::F32, Shape(vec!["n".into(), 3.into()]))?;
//! let y = b.op(TensorOp::Multiply, &[x.into(), 2.0.into()], &[])?;
//! let total = b.op(TensorOp::Sum, &[y.into()], &[("axes", 1.into())])?;
//! let graph = b.finish(&[total])?;
//! assert_eq!(graph.value(total).unwrap().ty.to_string(), "f32[n]");
//! # Ok::<(), polyloom_graph::GraphError>(())
//! ```

#![forbid(unsafe_code)]

mod attribute;
mod backend;
mod builder;
pub mod canonical;
pub mod cost;
mod decompose;
pub mod drawing;
mod equation;
pub mod equivalence;
mod error;
mod gradient;
mod graph;
mod hash;
mod infer;
mod inline;
mod layout;
pub mod measure;
pub mod op;
pub mod path;
pub mod pattern;
pub mod plan;
pub mod promotion;
mod prune;
pub mod recipe;
pub mod reference;
pub mod registry;
mod rescale;
mod shape;
mod specialise;
mod text;
pub mod tune;
mod verify;
pub mod verify_accuracy;

pub use attribute::{AttributeValue, Attributes};
pub use backend::{Backend, MemorySpace, Residence};
pub use builder::{GraphBuilder, TensorOperand};
pub use decompose::{Decomposition, decompose, decomposition};
pub use error::GraphError;
pub use gradient::{
    OutputCotangent, SplitGradient, gradient, has_gradient_rule, split_gradient, value_and_gradient,
    value_and_gradient_from, value_and_tangent,
};
pub use graph::{Graph, TensorDef, TensorId, TensorType, TensorValue};
pub use layout::Layout;
pub use op::{TensorOp, TensorOpInfo};
pub use prune::prune;
pub use recipe::{Recipe, RecipeError};
pub use registry::{KernelRegistry, library_function};
pub use rescale::rescale;
pub use shape::{Dim, Shape};
pub use specialise::{SymbolValues, specialise};
pub use text::parse_graph;
pub use verify::verify;
