//! A group of nodes as a graph of its own.

use super::KernelGroup;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorValue};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

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
        ProgramReaders::of(program).extract(program, &self.nodes)
    }
}

/// The nodes that read each value of a program, by which its groups are taken out of it in the time of their own size.
pub(crate) struct ProgramReaders {
    of_values: Vec<SmallVec<[u32; 4]>>,
    is_output: Vec<bool>,
}

impl ProgramReaders {
    pub(crate) fn of(program: &Graph) -> ProgramReaders {
        let mut readers = ProgramReaders {
            of_values: vec![SmallVec::new(); program.values.len()],
            is_output: vec![false; program.values.len()],
        };
        for (id, _) in program.iter() {
            for operand in operands_of(program, id) {
                readers.of_values[operand.0 as usize].push(id.0);
            }
        }
        program.outputs.iter().for_each(|output| readers.is_output[output.0 as usize] = true);
        readers
    }

    /// Returns nodes as a graph of their own.
    pub(crate) fn extract(&self, program: &Graph, nodes: &[u32]) -> Result<GroupGraph, GraphError> {
        if let Some(&unknown) = nodes.iter().find(|&&node| node as usize >= program.values.len()) {
            return Err(GraphError::UnknownValue(TensorId(unknown)));
        }
        let inside: FxHashSet<u32> = nodes.iter().copied().collect();
        let nodes: Vec<TensorId> = nodes.iter().map(|&node| TensorId(node)).collect();
        let mut extractor = Extractor { program, graph: Graph::default(), new_ids: FxHashMap::default() };
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        // Inputs come first, because those who call the graph count them.
        for &node in &nodes {
            for &operand in operands_of(program, node) {
                let is_outside = !inside.contains(&operand.0) && !is_scalar_source(program, operand);
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
            let place = node.0 as usize;
            if self.is_output[place] || self.of_values[place].iter().any(|reader| !inside.contains(reader)) {
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

/// Returns the operands of a value that there is.
pub(crate) fn operands_of(program: &Graph, id: TensorId) -> &[TensorId] {
    program.value(id).map_or(&[], TensorValue::operands)
}

/// Returns true for constants and numbers, which are everywhere.
pub(crate) fn is_scalar_source(program: &Graph, id: TensorId) -> bool {
    matches!(program.value(id).map(|value| &value.def), Some(TensorDef::Constant(_) | TensorDef::Number(_)))
}
