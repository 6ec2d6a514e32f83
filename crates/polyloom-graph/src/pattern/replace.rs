//! Replacement: the monolithic op, or whatever a pattern gives, in the place of what was matched.

use super::{Bindings, Pattern, PatternIndex, PatternMatch};
use crate::attribute::AttributeValue;
use crate::builder::{GraphBuilder, convert};
use crate::canonical::restore_term;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};
use crate::prune::prune;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;

impl PatternIndex {
    /// Returns the graph with replacements in the place of matches, which should be disjoint. Values within a match that others
    /// need stay. A match whose replacement does not take its inputs' types stays as it is.
    ///
    /// # Errors
    ///
    /// Those of building ops, which verified graphs do not meet.
    pub fn replace(&self, matches: &[(&Pattern, &PatternMatch)]) -> Result<Graph, GraphError> {
        let by_root: FxHashMap<TensorId, (&Pattern, &PatternMatch)> =
            matches.iter().map(|&(pattern, found)| (found.root, (pattern, found))).collect();
        let mut builder = GraphBuilder::new();
        let mut new_ids: FxHashMap<TensorId, TensorId> = FxHashMap::default();
        for term in self.form.order() {
            let old = self.ids[&term];
            let replaced = match by_root.get(&old) {
                Some((pattern, found)) => {
                    let inputs: Vec<TensorId> = found.inputs.iter().map(|input| new_ids[input]).collect();
                    let n_before = builder.n_values();
                    let built = build(&mut builder, &pattern.replacement, &inputs, &found.bindings);
                    let is_alike = |id: &TensorId| builder.ty(*id).is_ok_and(|ty| ty == self.type_of(term));
                    let built = built.ok().filter(is_alike);
                    if built.is_none() {
                        builder.truncate(n_before);
                    }
                    built
                }
                None => None,
            };
            let new = match replaced {
                Some(new) => new,
                None => {
                    let operands = self.form.operands(term);
                    let operands: Vec<TensorId> = operands.iter().map(|operand| new_ids[&self.ids[operand]]).collect();
                    restore_term(&mut builder, self.form.head(term), self.type_of(term), &operands)?
                }
            };
            new_ids.insert(old, new);
        }
        let outputs: Vec<TensorId> = self.graph.outputs.iter().map(|output| new_ids[output]).collect();
        let mut graph = prune(&builder.finish(&outputs)?)?;
        rename_inputs(&mut graph, &self.graph);
        Ok(graph)
    }
}

/// Gives inputs the names that they have in another graph.
pub(super) fn rename_inputs(graph: &mut Graph, named: &Graph) {
    let mut names = named.inputs().map(|(name, _)| name);
    for value in &mut graph.values {
        if let TensorDef::Input(name) = &mut value.def
            && let Some(other) = names.next()
        {
            *name = other.into();
        }
    }
}

/// Appends a replacement, in the types and extents that the pattern's stand for.
fn build(
    builder: &mut GraphBuilder,
    replacement: &Graph,
    inputs: &[TensorId],
    bindings: &Bindings,
) -> Result<TensorId, GraphError> {
    let float = bindings.float.unwrap_or(Scalar::F64);
    let dtype_of = |dtype: Scalar| if dtype == Scalar::F64 { float } else { dtype };
    // Symbols of canonical forms are named by place, as those of the replacement are found by.
    let mut names: Vec<&str> = Vec::new();
    for (_, ty) in replacement.inputs() {
        for dim in &ty.shape.0 {
            if let Dim::Symbol(name) = dim
                && !names.contains(&&**name)
            {
                names.push(name);
            }
        }
    }
    let dim_of = |dim: &Dim| match dim {
        Dim::Symbol(name) => {
            let place = names.iter().position(|other| *other == &**name).unwrap_or(names.len());
            bindings.dims.get(format!("s{place}").as_str()).cloned().unwrap_or_else(|| dim.clone())
        }
        dim => dim.clone(),
    };
    let mut given = inputs.iter();
    let mut ids: Vec<TensorId> = Vec::with_capacity(replacement.values.len());
    for (id, value) in replacement.iter() {
        let dtype = dtype_of(value.ty.dtype);
        let built = match &value.def {
            TensorDef::Input(_) => *given.next().ok_or(GraphError::UnknownValue(id))?,
            TensorDef::Constant(bits) => builder.constant(dtype, convert(value.ty.dtype, *bits, dtype)),
            TensorDef::Number(place) => builder.given_number(dtype, *place),
            TensorDef::Op { op, operands, attributes } => {
                let operands: Vec<_> = operands.iter().map(|operand| ids[operand.0 as usize].into()).collect();
                let attribute = |attribute: &AttributeValue| match attribute {
                    AttributeValue::Dtype(dtype) => AttributeValue::Dtype(dtype_of(*dtype)),
                    AttributeValue::Shape(shape) => AttributeValue::Shape(Shape(shape.0.iter().map(dim_of).collect())),
                    other => other.clone(),
                };
                builder.op_with(*op, &operands, attributes.0.iter().map(attribute).collect())?
            }
        };
        ids.push(built);
    }
    Ok(ids[replacement.outputs[0].0 as usize])
}
