//! The verifier: the invariants of graphs.
//!
//! 1. Each operand is a value defined before its use, and each output is a value.
//! 2. Inputs have different names.
//! 3. Constants and numbers have no axes, constants and no bits above the width of their type.
//! 4. Operands have the types that the op's rule converts them to.
//! 5. The type of each value is the one that is inferred.
//! 6. Attributes are in canonical form.

use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::infer::infer;
use crate::promotion::OperandDtype;
use crate::shape::Shape;
use rustc_hash::FxHashSet;

/// Checks the invariants.
///
/// # Errors
///
/// The first that does not hold, as [`GraphError::Invalid`] or [`GraphError::UnknownValue`], or the error of the op that does
/// not take its operands.
pub fn verify(graph: &Graph) -> Result<(), GraphError> {
    let mut names: FxHashSet<&str> = FxHashSet::default();
    for (id, value) in graph.iter() {
        let invalid = |reason: String| Err(GraphError::Invalid { value: id, reason });
        match &value.def {
            TensorDef::Input(name) if !names.insert(name) => {
                return invalid(format!("there is an input `{name}` already"));
            }
            TensorDef::Input(_) => {}
            TensorDef::Constant(_) | TensorDef::Number(_) if value.ty.shape != Shape::SCALAR => {
                return invalid(format!("a constant or number has shape {}", value.ty.shape));
            }
            TensorDef::Number(_) => {}
            TensorDef::Constant(bits) => {
                if *bits > u64::MAX >> (64 - value.ty.dtype.bits()) {
                    return invalid(format!("{bits:#x} is wider than {}", value.ty.dtype));
                }
            }
            TensorDef::Op { op, operands, attributes } => {
                let types = operands.iter().map(|&operand| operand_type(graph, id, operand));
                let types: Vec<&TensorType> = types.collect::<Result<_, _>>()?;
                let dtypes: Vec<_> = types.iter().map(|ty| OperandDtype::Strong(ty.dtype)).collect();
                let shapes: Vec<Shape> = types.iter().map(|ty| ty.shape.clone()).collect();
                if attributes.0.len() != op.info().signature.attributes.len() {
                    let reason = format!("`{}` has {} attributes", op.name(), attributes.0.len());
                    return invalid(reason);
                }
                let inference = infer(*op, &dtypes, &shapes, attributes.0.clone())?;
                if let Some(index) = (0..types.len()).find(|&i| types[i].dtype != inference.operand_dtypes[i]) {
                    let (name, found) = (op.info().signature.tensor_name(index), types[index].dtype);
                    let expected = inference.operand_dtypes[index];
                    return invalid(format!("`{}`: `{name}` is {found}, not {expected}", op.name()));
                }
                if inference.ty != value.ty {
                    return invalid(format!("`{}` gives {}, not {}", op.name(), inference.ty, value.ty));
                }
                if inference.attributes != *attributes {
                    return invalid(format!("an attribute of `{}` is not in canonical form", op.name()));
                }
            }
        }
    }
    match graph.outputs.iter().find(|&&output| graph.value(output).is_none()) {
        Some(&output) => Err(GraphError::UnknownValue(output)),
        None => Ok(()),
    }
}

fn operand_type(graph: &Graph, user: TensorId, operand: TensorId) -> Result<&TensorType, GraphError> {
    let value = graph.value(operand).filter(|_| operand < user);
    value.map(|value| &value.ty).ok_or(GraphError::UnknownValue(operand))
}
