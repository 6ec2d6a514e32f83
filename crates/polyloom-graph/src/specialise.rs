//! Specialisation: numbers in the place of symbolic extents.

use crate::attribute::AttributeValue;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef};
use crate::shape::{Dim, Shape};
use crate::verify::verify;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The numbers that symbols stand for.
pub type SymbolValues = FxHashMap<Arc<str>, u64>;

/// Returns the graph with numbers for its symbols. Symbols without a number stay.
///
/// # Errors
///
/// [`GraphError::Invalid`] if an op has no result at these extents, such as `max` over an axis that is now empty.
pub fn specialise(graph: &Graph, symbols: &SymbolValues) -> Result<Graph, GraphError> {
    let mut graph = graph.clone();
    for value in &mut graph.values {
        substitute(&mut value.ty.shape, symbols);
        if let TensorDef::Op { attributes, .. } = &mut value.def {
            for attribute in &mut attributes.0 {
                if let AttributeValue::Shape(shape) = attribute {
                    substitute(shape, symbols);
                }
            }
        }
    }
    verify(&graph)?;
    Ok(graph)
}

fn substitute(shape: &mut Shape, symbols: &SymbolValues) {
    for dim in &mut shape.0 {
        if let Dim::Symbol(name) = dim
            && let Some(&extent) = symbols.get(name)
        {
            *dim = Dim::Static(extent);
        }
    }
}
