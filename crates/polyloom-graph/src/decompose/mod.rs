//! Decomposition: composite ops become the simpler ops that define them, until only simple ones are left.

mod activation;
pub(crate) mod build;
pub(crate) mod contraction;
mod indexing;
mod loss;
mod movement;
mod normalisation;
mod sorting;
mod statistics;

use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, TensorOperand};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorValue};
use crate::op::{DtypeRule, TensorOp};
use polyloom_ir::Scalar;

/// A function that builds an op of simpler ones, given its operands and canonical attributes.
pub type Decomposition = fn(&mut GraphBuilder, &[TensorId], &[AttributeValue]) -> Result<TensorId, GraphError>;

/// Returns the decomposition of a composite op.
pub fn decomposition(op: TensorOp) -> Option<Decomposition> {
    Some(match op {
        TensorOp::Square => activation::square,
        TensorOp::Reciprocal => activation::reciprocal,
        TensorOp::Clip => activation::clip,
        TensorOp::Relu => activation::relu,
        TensorOp::LeakyRelu => activation::leaky_relu,
        TensorOp::Gelu => activation::gelu,
        TensorOp::Silu => activation::silu,
        TensorOp::Sigmoid => activation::sigmoid,
        TensorOp::Softplus => activation::softplus,
        TensorOp::Scan => statistics::scan,
        TensorOp::Mean => statistics::mean,
        TensorOp::Var => statistics::var,
        TensorOp::Std => statistics::std,
        TensorOp::Logsumexp => statistics::logsumexp,
        TensorOp::Norm => statistics::norm,
        TensorOp::Softmax => normalisation::softmax,
        TensorOp::LogSoftmax => normalisation::log_softmax,
        TensorOp::LayerNorm => normalisation::layer_norm,
        TensorOp::RmsNorm => normalisation::rms_norm,
        TensorOp::GroupNorm => normalisation::group_norm,
        TensorOp::CrossEntropy => loss::cross_entropy,
        TensorOp::Einsum => contraction::einsum,
        TensorOp::Linear => contraction::linear,
        TensorOp::Conv1d | TensorOp::Conv2d => contraction::convolution,
        TensorOp::MaxPool2d => contraction::max_pool2d,
        TensorOp::AvgPool2d => contraction::avg_pool2d,
        TensorOp::Take => indexing::take,
        TensorOp::Embedding => indexing::embedding,
        TensorOp::OneHot => indexing::one_hot,
        TensorOp::Transpose => movement::transpose,
        TensorOp::Stack => movement::stack,
        TensorOp::Tile => movement::tile,
        TensorOp::Dropout => movement::dropout,
        TensorOp::Sort => sorting::sort,
        TensorOp::Argsort => sorting::argsort,
        TensorOp::TopkIndices => sorting::topk_indices,
        _ => return None,
    })
}

/// Rewrites composite ops to simple ones.
///
/// A composite op of 16-bit floats whose type rule makes floats is computed in `float32` and rounded at the end, because a
/// sum of squares or exponentials soon leaves the range and precision of 16 bits.
///
/// # Errors
///
/// Those of building the simpler ops, which a verified graph does not meet.
pub fn decompose(graph: &Graph) -> Result<Graph, GraphError> {
    decompose_ops(graph, |_| true)
}

/// Rewrites the composite ops that are chosen to others, until none is left.
pub(crate) fn decompose_ops(graph: &Graph, is_chosen: impl Fn(TensorOp) -> bool) -> Result<Graph, GraphError> {
    let mut graph = graph.clone();
    // A decomposition uses composite ops that are simpler than its own op, so that this ends.
    while let Some((next, _)) = decompose_once(&graph, &|_, op| is_chosen(op))? {
        graph = next;
    }
    Ok(graph)
}

/// Rewrites the composite values that are chosen to simple ops, and leaves the others as they are. Returns for each value of the new graph
/// the chosen one that it is a part of.
pub(crate) fn decompose_values(
    graph: &Graph,
    is_chosen: impl Fn(TensorId) -> bool,
) -> Result<(Graph, Vec<Option<TensorId>>), GraphError> {
    let origin = |(id, value): (TensorId, &TensorValue)| {
        let is_composite = matches!(&value.def, TensorDef::Op { op, .. } if op.info().is_composite());
        (is_composite && is_chosen(id)).then_some(id)
    };
    let mut origins: Vec<Option<TensorId>> = graph.iter().map(origin).collect();
    let mut graph = graph.clone();
    while let Some((next, sources)) = decompose_once(&graph, &|id, _| origins[id.0 as usize].is_some())? {
        origins = sources.iter().map(|source| origins[source.0 as usize]).collect();
        graph = next;
    }
    Ok((graph, origins))
}

/// Rewrites each composite op that is chosen by its own decomposition, and returns for each new value the one that it is made for. Returns
/// `None` if there is none to rewrite.
fn decompose_once(
    graph: &Graph,
    is_chosen: &impl Fn(TensorId, TensorOp) -> bool,
) -> Result<Option<(Graph, Vec<TensorId>)>, GraphError> {
    let mut builder = GraphBuilder::new();
    let mut new_ids: Vec<TensorId> = Vec::with_capacity(graph.values.len());
    let mut sources: Vec<TensorId> = Vec::with_capacity(graph.values.len());
    let renamed =
        |new_ids: &[TensorId], id: TensorId| new_ids.get(id.0 as usize).copied().ok_or(GraphError::UnknownValue(id));
    let mut has_changed = false;
    for (id, value) in graph.iter() {
        let new_id = match &value.def {
            TensorDef::Input(name) => builder.input(name, value.ty.dtype, value.ty.shape.clone())?,
            TensorDef::Constant(bits) => builder.constant(value.ty.dtype, *bits),
            TensorDef::Number(index) => builder.given_number(value.ty.dtype, *index),
            TensorDef::Op { op, operands, attributes } => {
                let operands = operands.iter().map(|&operand| renamed(&new_ids, operand));
                let operands: Vec<TensorId> = operands.collect::<Result<_, _>>()?;
                match decomposition(*op).filter(|_| is_chosen(id, *op)) {
                    Some(decomposition) => {
                        has_changed = true;
                        expand(&mut builder, *op, decomposition, &operands, &attributes.0)?
                    }
                    None => {
                        let operands: Vec<TensorOperand> = operands.into_iter().map(TensorOperand::Value).collect();
                        builder.op_with(*op, &operands, attributes.0.clone())?
                    }
                }
            }
        };
        if *builder.ty(new_id)? != value.ty {
            let reason = format!("its decomposition is {}, not {}", builder.ty(new_id)?, value.ty);
            return Err(GraphError::Invalid { value: id, reason });
        }
        new_ids.push(new_id);
        sources.resize(builder.n_values(), id);
    }
    let outputs = graph.outputs.iter().map(|&output| renamed(&new_ids, output));
    let outputs: Vec<TensorId> = outputs.collect::<Result<_, _>>()?;
    let graph = builder.finish(&outputs)?;
    Ok(has_changed.then_some((graph, sources)))
}

fn expand(
    builder: &mut GraphBuilder,
    op: TensorOp,
    decomposition: Decomposition,
    operands: &[TensorId],
    attributes: &[AttributeValue],
) -> Result<TensorId, GraphError> {
    let is_computed =
        matches!(op.info().dtype_rule, DtypeRule::Float | DtypeRule::Quotient | DtypeRule::Seeded | DtypeRule::Classes);
    let dtype = operands.first().map(|&first| builder.ty(first).map(|ty| ty.dtype)).transpose()?;
    let Some(half) = dtype.filter(|dtype| dtype.is_half() && is_computed) else {
        return decomposition(builder, operands, attributes);
    };
    let mut widened = Vec::new();
    for &operand in operands {
        let is_half = builder.ty(operand)?.dtype == half;
        widened.push(if is_half { builder.cast(operand, Scalar::F32)? } else { operand });
    }
    let result = decomposition(builder, &widened, attributes)?;
    builder.cast(result, half)
}
