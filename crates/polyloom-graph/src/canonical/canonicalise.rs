//! Graphs are brought into canonical form: one walk over the values, each of which goes through the rules of its op.

use super::form::CanonicalGraph;
use super::normal;
use super::options::{IdentityOptions, IdentityStrength};
use super::term::{Term, TermHead, TermId, TermOperands, TermStore, push_constant};
use crate::attribute::{AttributeValue, Attributes};
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::prune::used_values;
use crate::shape::{Dim, Shape};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// Brings a graph into canonical form.
///
/// # Errors
///
/// Those of [`decompose()`], and [`GraphError::UnknownValue`] for an operand defined after its use. A verified graph meets none
/// of them.
pub fn canonicalise(graph: &Graph, options: IdentityOptions) -> Result<CanonicalGraph, GraphError> {
    let is_composite = |def: &TensorDef| matches!(def, TensorDef::Op { op, .. } if op.info().is_composite());
    if graph.values.iter().any(|value| is_composite(&value.def)) {
        return canonicalise_simple(&decompose(graph)?, options, true);
    }
    canonicalise_simple(graph, options, true)
}

/// Brings a graph into the form that subgraphs are found in: that of the bits, with products as they are written.
pub(crate) fn search_form(graph: &Graph) -> Result<CanonicalGraph, GraphError> {
    canonicalise_simple(&decompose(graph)?, IdentityOptions::of(IdentityStrength::Bits), false)
}

/// Brings a graph of simple ops into canonical form.
fn canonicalise_simple(
    graph: &Graph,
    options: IdentityOptions,
    orders_products: bool,
) -> Result<CanonicalGraph, GraphError> {
    let is_used = used_values(graph)?;
    let symbols = symbol_names(graph);
    let mut canonical = CanonicalGraph::empty(options, orders_products, graph.values.len());
    let mut of_values: Vec<Option<TermId>> = Vec::with_capacity(graph.values.len());
    for (id, value) in graph.iter() {
        if !is_used[id.0 as usize] {
            of_values.push(None);
            continue;
        }
        let ty = rename_type(&value.ty, &symbols);
        let term = match &value.def {
            TensorDef::Input(_) => canonical.push_input(ty.into_owned()),
            TensorDef::Constant(bits) => push_constant(&mut canonical, ty.dtype, *bits),
            TensorDef::Number(place) => {
                let ty = canonical.types_mut().intern(&ty);
                canonical.push(Term { head: TermHead::Number(*place), operands: TermOperands::new(), ty })
            }
            TensorDef::Op { op, operands, attributes } => {
                let operand = |id: &TensorId| {
                    of_values.get(id.0 as usize).copied().flatten().ok_or(GraphError::UnknownValue(*id))
                };
                let operands = operands.iter().map(operand).collect::<Result<TermOperands, _>>()?;
                let attributes = rename_attributes(attributes, &symbols);
                let ty = canonical.types_mut().intern(&ty);
                canonical.renew_looks();
                normal::make(&mut canonical, *op, operands, attributes, ty)
            }
        };
        of_values.push(Some(term));
    }
    let output = |id: &TensorId| of_values.get(id.0 as usize).copied().flatten().ok_or(GraphError::UnknownValue(*id));
    canonical.outputs = graph.outputs.iter().map(output).collect::<Result<_, _>>()?;
    Ok(canonical)
}

/// New names of symbols: by the place of the first input that has them.
type SymbolNames = FxHashMap<Arc<str>, Arc<str>>;

fn symbol_names(graph: &Graph) -> SymbolNames {
    let mut names = SymbolNames::default();
    for (_, ty) in graph.inputs() {
        for dim in &ty.shape.0 {
            if let Dim::Symbol(name) = dim {
                let next = names.len();
                names.entry(name.clone()).or_insert_with(|| format!("s{next}").into());
            }
        }
    }
    names
}

fn rename_type<'t>(ty: &'t TensorType, symbols: &SymbolNames) -> Cow<'t, TensorType> {
    if symbols.is_empty() {
        return Cow::Borrowed(ty);
    }
    Cow::Owned(TensorType { dtype: ty.dtype, shape: rename_shape(&ty.shape, symbols) })
}

fn rename_shape(shape: &Shape, symbols: &SymbolNames) -> Shape {
    let rename = |dim: &Dim| match dim {
        // A symbol of no input, which no graph that runs has, keeps its name with a mark that no new name has.
        Dim::Symbol(name) => Dim::Symbol(symbols.get(name).cloned().unwrap_or_else(|| format!("'{name}").into())),
        other => other.clone(),
    };
    Shape(shape.0.iter().map(rename).collect())
}

fn rename_attributes(attributes: &Attributes, symbols: &SymbolNames) -> Attributes {
    if symbols.is_empty() {
        return attributes.clone();
    }
    let rename = |attribute: &AttributeValue| match attribute {
        AttributeValue::Shape(shape) => AttributeValue::Shape(rename_shape(shape, symbols)),
        other => other.clone(),
    };
    Attributes(attributes.0.iter().map(rename).collect())
}
