//! Inlining: the values of one graph in another.

use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};

impl GraphBuilder {
    /// Appends the values of a graph, given what its inputs are, and returns its outputs. Numbers that are given at each run count
    /// from `first_number` on.
    ///
    /// # Errors
    ///
    /// [`GraphError::UnknownValue`] if there are fewer inputs than the graph has, and [`GraphError::Invalid`] if one is of another type.
    ///
    /// ```
    /// use polyloom_graph::{GraphBuilder, Shape, parse_graph};
    /// use polyloom_ir::Scalar;
    ///
    /// let square = parse_graph("%x = input \"x\" : f32[3]\n%y = multiply %x, %x\nreturn %y").unwrap();
    /// let mut b = GraphBuilder::new();
    /// let x = b.input("a", Scalar::F32, Shape::of(&[3]))?;
    /// let once = b.inline(&square, &[x], 0)?;
    /// let twice = b.inline(&square, &once, 0)?;
    /// assert_eq!(b.finish(&twice)?.values.len(), 3);
    /// # Ok::<(), polyloom_graph::GraphError>(())
    /// ```
    pub fn inline(
        &mut self,
        graph: &Graph,
        inputs: &[TensorId],
        first_number: u32,
    ) -> Result<Vec<TensorId>, GraphError> {
        let mut inputs = inputs.iter();
        let mut new_ids: Vec<TensorId> = Vec::with_capacity(graph.values.len());
        let renamed = |new_ids: &[TensorId], id: TensorId| {
            new_ids.get(id.0 as usize).copied().ok_or(GraphError::UnknownValue(id))
        };
        for (id, value) in graph.iter() {
            let def = match &value.def {
                TensorDef::Input(name) => {
                    let &input = inputs.next().ok_or(GraphError::UnknownValue(id))?;
                    let given = self.ty(input)?;
                    if *given != value.ty {
                        let reason = format!("`{name}` is {}, and {given} is given", value.ty);
                        return Err(GraphError::Invalid { value: id, reason });
                    }
                    new_ids.push(input);
                    continue;
                }
                TensorDef::Op { op, operands, attributes } => {
                    let operands = operands.iter().map(|&operand| renamed(&new_ids, operand));
                    TensorDef::Op {
                        op: *op,
                        operands: operands.collect::<Result<_, _>>()?,
                        attributes: attributes.clone(),
                    }
                }
                TensorDef::Number(index) => TensorDef::Number(index + first_number),
                TensorDef::Constant(bits) => TensorDef::Constant(*bits),
            };
            new_ids.push(self.push(value.ty.clone(), def));
        }
        graph.outputs.iter().map(|&output| renamed(&new_ids, output)).collect()
    }
}
