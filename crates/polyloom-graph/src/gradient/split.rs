//! Gradients in two runs: the way there, which gives what the way back needs beside the outputs, and the way back.
//!
//! Of what the way back needs, views, casts and cheap elementwise ops are computed again from what is there anyway; the rest is given
//! by the way there. Where that is more memory than allowed, those values are computed again that take the least time a byte.

use super::{OutputCotangent, differentiate};
use crate::attribute::Attributes;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType, TensorValue};
use crate::op::{TensorKernelKind, TensorOp};
use rustc_hash::FxHashSet;

/// The operations for an element from which on it is rather kept than computed again, as between kernels of a plan.
const MIN_FLOPS: u64 = 16;
/// The rounds in which values are dropped that are too many bytes; then nothing is kept.
const MAX_ROUNDS: usize = 32;

/// A graph and its gradient as two graphs.
#[derive(Clone, Debug)]
pub struct SplitGradient {
    /// Gives the outputs, then what is kept for the other graph. Its inputs are those of the graph.
    pub forward: Graph,
    /// Gives the gradients. Its inputs are those of the graph, what is kept, and the cotangents of the outputs that are floats.
    pub backward: Graph,
}

/// Returns a graph and its gradients by some inputs as two graphs. What one keeps for the other takes `max_bytes` at most; values of
/// symbolic extents are not counted.
///
/// # Errors
///
/// As [`crate::gradient()`].
///
/// ```
/// use polyloom_graph::{TensorId, parse_graph, split_gradient};
///
/// let graph = parse_graph("%x = input \"x\" : f32[8]\n%y = exp %x\n%z = tanh %y\n%s = sum %z\nreturn %s").unwrap();
/// let split = split_gradient(&graph, &[TensorId(0)], u64::MAX).unwrap();
/// // What `tanh` gives is kept, and `exp` is cheap enough to be computed again.
/// assert_eq!(split.forward.outputs.len(), 2);
/// let split = split_gradient(&graph, &[TensorId(0)], 31).unwrap();
/// assert_eq!(split.forward.outputs.len(), 1);
/// ```
pub fn split_gradient(graph: &Graph, wrt: &[TensorId], max_bytes: u64) -> Result<SplitGradient, GraphError> {
    let (n_inputs, n_outputs) = (graph.inputs().count(), graph.outputs.len());
    let joint = differentiate(graph, wrt, &vec![OutputCotangent::Given; n_outputs], true)?;
    let is_input = |(_, value): &(TensorId, &TensorValue)| matches!(value.def, TensorDef::Input(_));
    let inputs: Vec<TensorId> = joint.iter().filter(is_input).map(|(id, _)| id).collect();
    let (own, cotangents) = inputs.split_at(n_inputs);
    let (outputs, gradients) = joint.outputs.split_at(n_outputs);
    let kept = KeptValues::find(&joint, cotangents, gradients, max_bytes);

    let mut forward = extract(&joint, own, &[outputs, &kept].concat())?;
    copy_shared(&mut forward, n_outputs);
    let backward = extract(&joint, &[own, &kept, cotangents].concat(), gradients)?;
    Ok(SplitGradient { forward, backward })
}

/// Finds the values that the way back is given.
struct KeptValues<'g> {
    joint: &'g Graph,
    /// True for values that depend on cotangents.
    is_back: Vec<bool>,
    /// The operations for an element that computing a value again takes, from values that are not worth it.
    flops: Vec<u64>,
}

impl KeptValues<'_> {
    fn find(joint: &Graph, cotangents: &[TensorId], gradients: &[TensorId], max_bytes: u64) -> Vec<TensorId> {
        let mut search = KeptValues { joint, is_back: Vec::new(), flops: Vec::new() };
        for (id, value) in joint.iter() {
            let operands = value.operands();
            let is_back = cotangents.contains(&id) || operands.iter().any(|&operand| search.is_back(operand));
            search.is_back.push(is_back);
            let own = value_flops(value);
            let flops =
                operands.iter().filter(|&&operand| !search.is_dear(operand)).map(|operand| search.flops(*operand));
            search.flops.push(own.saturating_add(flops.fold(0, u64::saturating_add)));
        }
        let mut dropped = FxHashSet::default();
        for _ in 0..MAX_ROUNDS {
            let kept = search.needed(gradients, &dropped);
            let mut n_bytes: u64 = kept.iter().map(|&id| search.n_bytes(id)).fold(0, u64::saturating_add);
            if n_bytes <= max_bytes {
                return kept;
            }
            // Those that are found again in the least time for a byte go first.
            let mut by_value: Vec<TensorId> = kept;
            by_value.sort_by(|&a, &b| search.worth(a).total_cmp(&search.worth(b)));
            for id in by_value {
                if n_bytes <= max_bytes {
                    break;
                }
                n_bytes -= search.n_bytes(id);
                dropped.insert(id);
            }
        }
        Vec::new()
    }

    fn is_back(&self, id: TensorId) -> bool {
        self.is_back.get(id.0 as usize).copied().unwrap_or(false)
    }

    fn flops(&self, id: TensorId) -> u64 {
        self.flops.get(id.0 as usize).copied().unwrap_or(0)
    }

    fn is_dear(&self, id: TensorId) -> bool {
        self.flops(id) >= MIN_FLOPS
    }

    /// Returns the values that are kept, in ascending order, if some are not.
    fn needed(&self, gradients: &[TensorId], dropped: &FxHashSet<TensorId>) -> Vec<TensorId> {
        let mut is_needed = vec![false; self.joint.values.len()];
        gradients.iter().for_each(|id| is_needed[id.0 as usize] = true);
        let mut kept = Vec::new();
        for (id, value) in self.joint.iter().collect::<Vec<_>>().into_iter().rev() {
            if !is_needed[id.0 as usize] {
                continue;
            }
            if !self.is_back(id) && self.is_dear(id) && !dropped.contains(&id) {
                kept.push(id);
                continue;
            }
            value.operands().iter().for_each(|operand| is_needed[operand.0 as usize] = true);
        }
        kept.reverse();
        kept
    }

    fn n_bytes(&self, id: TensorId) -> u64 {
        let Some(TensorValue { ty, .. }) = self.joint.value(id) else { return 0 };
        ty.shape.n_elements().unwrap_or(0).saturating_mul(ty.dtype.bytes().into())
    }

    /// Returns the operations for a byte that keeping a value saves.
    fn worth(&self, id: TensorId) -> f64 {
        let Some(TensorValue { ty, def: TensorDef::Op { op, operands, attributes } }) = self.joint.value(id) else {
            return 0.0;
        };
        let types = operands.iter().filter_map(|&operand| self.joint.value(operand)).map(|value| value.ty.clone());
        let types: Vec<TensorType> = types.collect();
        let flops = op.cost(&types, &attributes.0, ty).map_or(0, |cost| cost.flops + cost.bytes_read);
        flops as f64 / self.n_bytes(id).max(1) as f64
    }
}

/// Returns the operations for an element that computing a value takes by itself. What is not elementwise is never worth it.
fn value_flops(value: &TensorValue) -> u64 {
    let TensorDef::Op { op, .. } = &value.def else { return 0 };
    match op.info().kind {
        TensorKernelKind::View => 0,
        TensorKernelKind::Elementwise => op.flops_per_element(),
        _ if *op == TensorOp::ElementCount => 0,
        _ => MIN_FLOPS,
    }
}

/// Returns the graph that computes some values of another, given others. Those that are given are its inputs, in their order.
fn extract(graph: &Graph, inputs: &[TensorId], outputs: &[TensorId]) -> Result<Graph, GraphError> {
    let mut is_used = vec![false; graph.values.len()];
    outputs.iter().for_each(|id| is_used[id.0 as usize] = true);
    let mut new_ids: Vec<Option<TensorId>> = vec![None; graph.values.len()];
    let mut extracted = Graph::default();
    for (number, id) in inputs.iter().enumerate() {
        let ty = graph.value(*id).ok_or(GraphError::UnknownValue(*id))?.ty.clone();
        new_ids[id.0 as usize] = Some(TensorId(number as u32));
        extracted.values.push(TensorValue { ty, def: TensorDef::Input(format!("x{number}").into()) });
    }
    for (id, value) in graph.iter().collect::<Vec<_>>().into_iter().rev() {
        if is_used[id.0 as usize] && new_ids[id.0 as usize].is_none() {
            value.operands().iter().for_each(|operand| is_used[operand.0 as usize] = true);
        }
    }
    for (id, value) in graph.iter() {
        if !is_used[id.0 as usize] || new_ids[id.0 as usize].is_some() {
            continue;
        }
        let mut value = value.clone();
        match &mut value.def {
            TensorDef::Input(_) => return Err(GraphError::UnknownValue(id)),
            TensorDef::Op { operands, .. } => {
                for operand in operands {
                    *operand = new_ids[operand.0 as usize].ok_or(GraphError::UnknownValue(*operand))?;
                }
            }
            _ => {}
        }
        new_ids[id.0 as usize] = Some(TensorId(extracted.values.len() as u32));
        extracted.values.push(value);
    }
    let renamed = outputs.iter().map(|&id| new_ids[id.0 as usize].ok_or(GraphError::UnknownValue(id)));
    extracted.outputs = renamed.collect::<Result<_, _>>()?;
    Ok(extracted)
}

/// Copies what is kept that an output shows too, because callers may write to outputs.
fn copy_shared(forward: &mut Graph, n_outputs: usize) {
    let shown: FxHashSet<TensorId> = forward.outputs[..n_outputs].iter().map(|&id| forward.viewed_value(id)).collect();
    for index in n_outputs..forward.outputs.len() {
        let kept = forward.outputs[index];
        if shown.contains(&kept) {
            let ty = forward.values[kept.0 as usize].ty.clone();
            let attributes = Attributes(Vec::new());
            let def = TensorDef::Op { op: TensorOp::Contiguous, operands: vec![kept], attributes };
            forward.outputs[index] = TensorId(forward.values.len() as u32);
            forward.values.push(TensorValue { ty, def });
        }
    }
}
