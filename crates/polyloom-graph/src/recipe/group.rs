//! A group of nodes as a graph of its own.

use super::KernelGroup;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorValue};
use rustc_hash::FxHashMap;

/// The graph that a group computes, with what its inputs and outputs are in the program.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupGraph {
    /// The graph. Constants and numbers that nodes read are part of it.
    pub graph: Graph,
    /// The values of the program that are its inputs.
    pub inputs: Vec<TensorId>,
    /// The values of the program that are its outputs: those that are read elsewhere, or are outputs of the program.
    pub outputs: Vec<TensorId>,
}

impl KernelGroup {
    /// Returns the group as a graph of its own.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownValue`] if a node is no value of the program.
    pub fn graph(&self, program: &Graph) -> Result<GroupGraph, GraphError> {
        let nodes: Vec<TensorId> = self.nodes.iter().map(|&node| TensorId(node)).collect();
        let mut is_inside = vec![false; program.values.len()];
        for &node in &nodes {
            *is_inside.get_mut(node.0 as usize).ok_or(GraphError::UnknownValue(node))? = true;
        }
        let mut is_read = vec![false; program.values.len()];
        for (id, value) in program.iter() {
            if let TensorDef::Op { operands, .. } = &value.def
                && !is_inside[id.0 as usize]
            {
                operands.iter().for_each(|operand| is_read[operand.0 as usize] = true);
            }
        }
        program.outputs.iter().for_each(|output| is_read[output.0 as usize] = true);
        let mut extractor = Extractor { program, graph: Graph::default(), new_ids: FxHashMap::default() };
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        // Inputs come first, because those who call the graph count them.
        for &node in &nodes {
            for &operand in operands_of(program, node) {
                let is_outside = !is_inside[operand.0 as usize] && !is_scalar_source(program, operand);
                if is_outside && !extractor.new_ids.contains_key(&operand) {
                    inputs.push(operand);
                    let name = format!("v{}", operand.0);
                    extractor.push(operand, TensorDef::Input(name.into()))?;
                }
            }
        }
        for &node in &nodes {
            for &operand in operands_of(program, node) {
                if is_scalar_source(program, operand) && !extractor.new_ids.contains_key(&operand) {
                    let value = program.value(operand).ok_or(GraphError::UnknownValue(operand))?;
                    extractor.push(operand, value.def.clone())?;
                }
            }
            extractor.push_op(node)?;
            if is_read[node.0 as usize] {
                outputs.push(node);
            }
        }
        let Extractor { mut graph, new_ids, .. } = extractor;
        graph.outputs = outputs.iter().map(|output| new_ids[output]).collect();
        Ok(GroupGraph { graph, inputs, outputs })
    }
}

struct Extractor<'p> {
    program: &'p Graph,
    graph: Graph,
    new_ids: FxHashMap<TensorId, TensorId>,
}

impl Extractor<'_> {
    fn push(&mut self, id: TensorId, def: TensorDef) -> Result<(), GraphError> {
        let ty = self.program.value(id).ok_or(GraphError::UnknownValue(id))?.ty.clone();
        self.new_ids.insert(id, TensorId(self.graph.values.len() as u32));
        self.graph.values.push(TensorValue { ty, def });
        Ok(())
    }

    fn push_op(&mut self, node: TensorId) -> Result<(), GraphError> {
        let Some(TensorValue { def: TensorDef::Op { op, operands, attributes }, .. }) = self.program.value(node) else {
            return Err(GraphError::UnknownValue(node));
        };
        let renamed = |operand: &TensorId| self.new_ids.get(operand).copied().ok_or(GraphError::UnknownValue(*operand));
        let operands = operands.iter().map(renamed).collect::<Result<_, _>>()?;
        self.push(node, TensorDef::Op { op: *op, operands, attributes: attributes.clone() })
    }
}

/// Returns the operands of an op; nothing else has any.
pub(crate) fn operands_of(program: &Graph, id: TensorId) -> &[TensorId] {
    match program.value(id).map(|value| &value.def) {
        Some(TensorDef::Op { operands, .. }) => operands,
        _ => &[],
    }
}

/// Returns true for constants and numbers, which are everywhere.
pub(crate) fn is_scalar_source(program: &Graph, id: TensorId) -> bool {
    matches!(program.value(id).map(|value| &value.def), Some(TensorDef::Constant(_) | TensorDef::Number(_)))
}
