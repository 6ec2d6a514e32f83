//! The golden reference: a graph in which all floats have become `float64`, evaluated.

use super::wide_evaluator;
use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};
use crate::op::TensorOp;
use crate::reference::{DenseTensor, evaluate};
use polyloom_ir::Scalar;

/// Returns the type that a type is widened to.
pub(super) fn widened(dtype: Scalar) -> Scalar {
    if dtype.is_float() { Scalar::F64 } else { dtype }
}

/// Returns a tensor with its floats widened, which changes no value.
pub(super) fn widen_tensor(tensor: &DenseTensor) -> DenseTensor {
    let to = widened(tensor.dtype);
    if to == tensor.dtype {
        return tensor.clone();
    }
    let bits = tensor.bits.iter().map(|&bits| crate::builder::convert(tensor.dtype, bits, to)).collect();
    DenseTensor { dtype: to, extents: tensor.extents.clone(), bits }
}

/// Returns the graph with `float64` in place of all floats: inputs, constants, which keep their values, and ops.
///
/// Two kinds of ops are about bits of narrower types, and stay so: `bitcast`, and random numbers, which are drawn and then widened.
///
/// # Errors
///
/// Those of building a graph, which a verified one does not meet.
///
/// ```
/// let graph = polyloom_graph::parse_graph("%x = input \"x\" : f16[n]\n%y = softmax %x\nreturn %y")?;
/// let wide = polyloom_graph::verify_accuracy::widen(&graph)?;
/// assert_eq!(wide.value(wide.outputs[0]).unwrap().ty.to_string(), "f64[n]");
/// # Ok::<(), polyloom_graph::GraphError>(())
/// ```
pub fn widen(graph: &Graph) -> Result<Graph, GraphError> {
    widen_values(graph).map(|(graph, _)| graph)
}

/// Widens a graph. Returns it with the type that each of its values had, if it is the result of an op of the given graph.
pub(super) fn widen_values(graph: &Graph) -> Result<(Graph, Vec<Option<Scalar>>), GraphError> {
    let mut builder = GraphBuilder::new();
    let mut new_ids: Vec<TensorId> = Vec::with_capacity(graph.values.len());
    let mut own_dtypes: Vec<Option<Scalar>> = Vec::new();
    for (id, value) in graph.iter() {
        let dtype = widened(value.ty.dtype);
        let new_id = match &value.def {
            TensorDef::Input(name) => builder.input(name, dtype, value.ty.shape.clone())?,
            TensorDef::Constant(bits) => builder.constant(dtype, crate::builder::convert(value.ty.dtype, *bits, dtype)),
            TensorDef::Number(index) => builder.given_number(dtype, *index),
            TensorDef::Op { op, operands, attributes } => {
                let mut new_operands: Vec<TensorOperand> = Vec::with_capacity(operands.len());
                for &operand in operands {
                    let mut new = *new_ids.get(operand.0 as usize).ok_or(GraphError::UnknownValue(operand))?;
                    if *op == TensorOp::Bitcast {
                        new = builder.cast(new, graph.values[operand.0 as usize].ty.dtype)?;
                    }
                    new_operands.push(new.into());
                }
                let is_about_bits = matches!(op, TensorOp::Bitcast | TensorOp::Rand | TensorOp::Randn);
                let widen_attribute = |attribute: &AttributeValue| match attribute {
                    AttributeValue::Dtype(dtype) if !is_about_bits => AttributeValue::Dtype(widened(*dtype)),
                    other => other.clone(),
                };
                let result = builder.op_with(*op, &new_operands, attributes.0.iter().map(widen_attribute).collect())?;
                builder.cast(result, dtype)?
            }
        };
        let ty = builder.ty(new_id)?;
        if ty.dtype != dtype || ty.shape != value.ty.shape {
            return Err(GraphError::Invalid { value: id, reason: format!("it is {ty} when it is widened") });
        }
        new_ids.push(new_id);
        own_dtypes.resize(new_id.0 as usize + 1, None);
        if matches!(value.def, TensorDef::Op { .. }) {
            own_dtypes[new_id.0 as usize] = Some(value.ty.dtype);
        }
    }
    let outputs = graph.outputs.iter().map(|output| new_ids.get(output.0 as usize).copied());
    let outputs: Vec<TensorId> =
        outputs.collect::<Option<_>>().ok_or_else(|| GraphError::Evaluation("an output is no value".to_owned()))?;
    Ok((builder.finish(&outputs)?, own_dtypes))
}

/// Returns true if the graph computes in `float64` somewhere.
fn has_f64(graph: &Graph) -> bool {
    graph.values.iter().any(|value| value.ty.dtype == Scalar::F64)
}

/// Evaluates a graph of known extents in `float64`, or, if it computes in `float64` itself, in pairs of them that are rounded at the end.
///
/// # Errors
///
/// [`GraphError::Evaluation`] if the inputs are not those of the graph.
///
/// ```
/// use polyloom_graph::reference::DenseTensor;
/// use polyloom_graph::verify_accuracy::golden_outputs;
/// use polyloom_ir::Scalar;
///
/// let graph = polyloom_graph::parse_graph("%x = input \"x\" : f32[3]\n%y = sum %x\nreturn %y").unwrap();
/// let x = DenseTensor::of_numbers(Scalar::F32, &[3], &[1e8, 1.0, -1e8]).unwrap();
/// assert_eq!(golden_outputs(&graph, &[x]).unwrap()[0].numbers(), [1.0]);
/// ```
pub fn golden_outputs(graph: &Graph, inputs: &[DenseTensor]) -> Result<Vec<DenseTensor>, GraphError> {
    let wide = widen(graph)?;
    let inputs: Vec<DenseTensor> = inputs.iter().map(widen_tensor).collect();
    if has_f64(graph) { wide_evaluator::evaluate(&wide, &inputs) } else { evaluate(&wide, &inputs) }
}
