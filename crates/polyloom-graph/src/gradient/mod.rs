//! Gradients of graphs, as graphs.
//!
//! Each op states its gradient in the table ([`crate::op::GradientRule`]): a rule of [`rules`], that of its decomposition, or zero.
//! A gradient is made of the ops of the table, so that it is fused, planned and differentiated again as any graph.
//!
//! The pass ([`reverse`]) writes ops without a rule by simpler ones, goes back from the outputs, and leaves out what no gradient
//! needs.
//!
//! The gradient by an input is the sum over outputs of the cotangent times the derivative. Where that does not exist, the table
//! says what is taken for it. An operand that an op does not take, such as the other value of `where`, gets 0 even if what
//! is computed for it is infinite or NaN.

mod expression;
mod parts;
mod query;
mod reverse;
mod rules;
mod split;
mod tangent;

pub use rules::has_gradient_rule;
pub use split::{SplitGradient, split_gradient};
pub use tangent::value_and_tangent;

use crate::decompose::decompose_ops;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};
use crate::op::GradientRule;
use crate::prune::prune;

/// Says where the cotangent of an output comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputCotangent {
    /// It is an input of the gradient's graph.
    Given,
    /// It is 1 for each element.
    One,
    /// It is 0, so that nothing goes back from the output.
    Zero,
}

/// Returns the graph that computes the gradients by some inputs, one output for each, of the input's type.
///
/// Its inputs are those of the graph, then the cotangent of each output that is a float, in order. The gradient by an input that
/// no output depends on is zero.
///
/// # Errors
///
/// [`GraphError::Invalid`] if a value of `wrt` is no input, [`GraphError::Dtype`] if it is not a float.
///
/// ```
/// use polyloom_graph::reference::{DenseTensor, evaluate};
/// use polyloom_graph::{TensorId, gradient, parse_graph};
/// use polyloom_ir::Scalar::F32;
///
/// let graph = parse_graph("%x = input \"x\" : f32[n]\n%y = square %x\n%z = sum %y\nreturn %z").unwrap();
/// let gradient = gradient(&graph, &[TensorId(0)]).unwrap();
/// let x = DenseTensor::of_numbers(F32, &[3], &[1.0, 2.0, 4.0]).unwrap();
/// let cotangent = DenseTensor::of_numbers(F32, &[], &[1.0]).unwrap();
/// assert_eq!(evaluate(&gradient, &[x, cotangent]).unwrap()[0].numbers(), [2.0, 4.0, 8.0]);
/// ```
pub fn gradient(graph: &Graph, wrt: &[TensorId]) -> Result<Graph, GraphError> {
    differentiate(graph, wrt, &vec![OutputCotangent::Given; graph.outputs.len()], false)
}

/// Returns the graph that computes the outputs of a graph, then its gradients by some inputs as [`gradient()`] does.
///
/// # Errors
///
/// As [`gradient()`].
///
/// ```
/// use polyloom_graph::{TensorId, parse_graph, value_and_gradient};
///
/// let graph = parse_graph("%x = input \"x\" : f32[n]\n%y = exp %x\nreturn %y").unwrap();
/// let both = value_and_gradient(&graph, &[TensorId(0)]).unwrap();
/// let text = "%2 = input \"cotangent0\" : f32[n]\n%3 = multiply %2, %1 : f32[n]\nreturn %1, %3\n";
/// assert!(both.to_string().ends_with(text));
/// ```
pub fn value_and_gradient(graph: &Graph, wrt: &[TensorId]) -> Result<Graph, GraphError> {
    differentiate(graph, wrt, &vec![OutputCotangent::Given; graph.outputs.len()], true)
}

/// Returns the graph that computes the outputs of a graph, then its gradients by some inputs, given where the cotangent of each
/// output comes from. Those that are [`OutputCotangent::Given`], of outputs that are floats, are inputs after those of the graph.
///
/// # Errors
///
/// As [`gradient()`].
///
/// ```
/// use polyloom_graph::OutputCotangent::{One, Zero};
/// use polyloom_graph::{TensorId, parse_graph, value_and_gradient_from};
///
/// let graph = parse_graph("%x = input \"x\" : f32[n]\n%y = exp %x\n%z = sum %y\nreturn %z, %y").unwrap();
/// let both = value_and_gradient_from(&graph, &[TensorId(0)], &[One, Zero]).unwrap();
/// assert_eq!((both.inputs().count(), both.outputs.len()), (1, 3));
/// ```
pub fn value_and_gradient_from(
    graph: &Graph,
    wrt: &[TensorId],
    cotangents: &[OutputCotangent],
) -> Result<Graph, GraphError> {
    differentiate(graph, wrt, cotangents, true)
}

fn differentiate(
    graph: &Graph,
    wrt: &[TensorId],
    cotangents: &[OutputCotangent],
    keeps_values: bool,
) -> Result<Graph, GraphError> {
    let places: Vec<usize> = wrt.iter().map(|&id| input_place(graph, id)).collect::<Result<_, _>>()?;
    let graph = decompose_ops(graph, |op| op.info().gradient == GradientRule::OfDecomposition)?;
    // Decomposition keeps the order of inputs.
    let is_input = |id: &TensorId| matches!(graph.value(*id).map(|value| &value.def), Some(TensorDef::Input(_)));
    let inputs: Vec<TensorId> = graph.iter().map(|(id, _)| id).filter(is_input).collect();
    let wrt: Vec<TensorId> = places.iter().filter_map(|&place| inputs.get(place).copied()).collect();
    let (builder, gradients) = reverse::append_gradients(&graph, &wrt, cotangents)?;
    let outputs = if keeps_values { [graph.outputs, gradients].concat() } else { gradients };
    prune(&builder.finish(&outputs)?)
}

/// Returns the place among the inputs of one that has a gradient.
fn input_place(graph: &Graph, id: TensorId) -> Result<usize, GraphError> {
    let value = graph.value(id).ok_or(GraphError::UnknownValue(id))?;
    let TensorDef::Input(name) = &value.def else {
        let reason = "it is no input, and gradients are by inputs".to_owned();
        return Err(GraphError::Invalid { value: id, reason });
    };
    if !value.ty.dtype.is_float() {
        let reason = "but gradients are by floats".to_owned();
        return Err(GraphError::Dtype { op: "gradient", argument: name.to_string(), dtype: value.ty.dtype, reason });
    }
    let before = graph.iter().take_while(|&(other, _)| other < id);
    Ok(before.filter(|(_, value)| matches!(value.def, TensorDef::Input(_))).count())
}
