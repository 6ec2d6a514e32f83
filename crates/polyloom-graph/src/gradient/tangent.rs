//! Forward mode by transposition: the gradient of a gradient by its cotangents.
//!
//! The gradient of a function is linear in the cotangents, `transpose(J) @ c`. So its own gradient by `c`, with the cotangent `t`, is
//! `J @ t`, whatever `c` is, and no op needs a second rule. One rule looks at `c`: where the slope of a value that was not taken is NaN,
//! its product with a cotangent of 0 is 0. So `c` is 1.

use super::{OutputCotangent, differentiate};
use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};
use crate::prune::prune;

/// Returns the graph that computes the outputs of a graph, then how each output that is a float moves as some inputs do.
///
/// Its inputs are those of the graph, then the tangent of each input of `wrt`.
///
/// # Errors
///
/// As [`crate::gradient()`].
///
/// ```
/// use polyloom_graph::reference::{DenseTensor, evaluate};
/// use polyloom_graph::{TensorId, parse_graph, value_and_tangent};
/// use polyloom_ir::Scalar::F32;
///
/// let graph = parse_graph("%x = input \"x\" : f32[n]\n%y = square %x\nreturn %y").unwrap();
/// let both = value_and_tangent(&graph, &[TensorId(0)]).unwrap();
/// let [x, tangent] = [[1.0, 3.0], [1.0, 0.5]].map(|numbers| DenseTensor::of_numbers(F32, &[2], &numbers).unwrap());
/// assert_eq!(evaluate(&both, &[x, tangent]).unwrap()[1].numbers(), [2.0, 3.0]);
/// ```
pub fn value_and_tangent(graph: &Graph, wrt: &[TensorId]) -> Result<Graph, GraphError> {
    let n_inputs = graph.inputs().count();
    let n_values = graph.outputs.len();
    let transposed = differentiate(graph, wrt, &vec![OutputCotangent::Given; n_values], true)?;
    let cotangents: Vec<TensorId> = input_ids(&transposed).skip(n_inputs).collect();
    let seeds = [vec![OutputCotangent::Zero; n_values], vec![OutputCotangent::Given; wrt.len()]].concat();
    let moved = differentiate(&transposed, &cotangents, &seeds, true)?;
    let mut builder = GraphBuilder::new();
    let mut inputs = Vec::new();
    for (number, (name, ty)) in moved.inputs().enumerate() {
        let is_cotangent = (n_inputs..n_inputs + cotangents.len()).contains(&number);
        inputs.push(match is_cotangent {
            false => builder.input(name, ty.dtype, ty.shape.clone())?,
            true => {
                let one = builder.number(ty.dtype, 1.0);
                builder.op(crate::TensorOp::BroadcastTo, &[one.into()], &[("shape", ty.shape.clone().into())])?
            }
        });
    }
    let outputs = builder.inline(&moved, &inputs, 0)?;
    let kept = [&outputs[..n_values], &outputs[n_values + wrt.len()..]].concat();
    prune(&builder.finish(&kept)?)
}

fn input_ids(graph: &Graph) -> impl Iterator<Item = TensorId> {
    graph.iter().filter(|(_, value)| matches!(value.def, TensorDef::Input(_))).map(|(id, _)| id)
}
