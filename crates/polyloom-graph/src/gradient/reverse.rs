//! Reverse mode: cotangents go from the outputs back to the inputs, op by op.

use super::OutputCotangent;
use super::expression::{TensorExpr, TensorExprBuilder};
use super::parts::{SlicePart, joined};
use super::query::GradientQuery;
use super::rules::gradient_rule;
use crate::attribute::AttributeValue;
use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType, TensorValue};
use crate::op::{DtypeClass, DtypeRule, GradientRule, TensorOp};
use polyloom_ir::Scalar;
use std::cell::Cell;

/// The cotangent of a value, of which the contributions so far are added.
#[derive(Clone, Copy)]
struct ValueCotangent<'g> {
    value: TensorExpr<'g>,
    /// True if elements may be 0 because an op took another operand.
    may_be_untaken: bool,
}

/// Holds what ops have contributed to the cotangent of a value so far.
#[derive(Clone, Default)]
struct ValueContributions<'g> {
    whole: Option<ValueCotangent<'g>>,
    /// Those of slices, which are joined when all are known.
    parts: Vec<SlicePart<'g>>,
    has_untaken_parts: bool,
}

impl<'g> ValueContributions<'g> {
    fn add(&mut self, contribution: ValueCotangent<'g>) {
        self.whole = Some(self.whole.map_or(contribution, |sum| ValueCotangent {
            value: sum.value + contribution.value,
            may_be_untaken: sum.may_be_untaken || contribution.may_be_untaken,
        }));
    }

    /// Returns their sum, given the type of the value; `None` if there are none.
    fn sum(&mut self, ty: &TensorType) -> Option<ValueCotangent<'g>> {
        if let Some(value) = joined(&std::mem::take(&mut self.parts), ty) {
            self.add(ValueCotangent { value, may_be_untaken: self.has_untaken_parts });
        }
        self.whole
    }
}

/// Appends the cotangents of inputs to a graph whose ops have a gradient rule or none, and returns them after its outputs.
pub(super) fn append_gradients(
    graph: &Graph,
    wrt: &[TensorId],
    seeds: &[OutputCotangent],
) -> Result<(GraphBuilder, Vec<TensorId>), GraphError> {
    let is_active = find_active(graph, wrt);
    let builder = TensorExprBuilder::new(GraphBuilder::continue_graph(graph.clone()));
    let mut gradients = Vec::with_capacity(wrt.len());
    {
        let mut cotangents = seed(graph, seeds, &builder)?;
        for (id, value) in graph.iter().collect::<Vec<_>>().into_iter().rev() {
            let index = id.0 as usize;
            let (true, TensorDef::Op { op, operands, attributes }) = (is_active[index], &value.def) else { continue };
            let Some(cotangent) = cotangents[index].sum(&value.ty) else { continue };
            if let Some(part) = SlicePart::of_slice(*op, &attributes.0, cotangent.value) {
                let sliced = &mut cotangents[operands[0].0 as usize];
                sliced.parts.push(part);
                sliced.has_untaken_parts |= cotangent.may_be_untaken;
                continue;
            }
            let contributions = contribute(*op, &builder, id, operands, &attributes.0, cotangent)?;
            for (&operand, contribution) in operands.iter().zip(contributions) {
                if let (true, Some(contribution)) = (is_active[operand.0 as usize], contribution) {
                    cotangents[operand.0 as usize].add(contribution);
                }
            }
        }
        for &id in wrt {
            let value = graph.value(id).ok_or(GraphError::UnknownValue(id))?;
            let cotangent = cotangents[id.0 as usize].sum(&value.ty).map(|cotangent| cotangent.value);
            gradients.push(cotangent.unwrap_or_else(|| builder.filled(&value.ty, 0.0)).id());
        }
    }
    Ok((builder.finish()?, gradients))
}

/// Returns for each value if it is a float that depends on one of the inputs other than by ops whose gradient is zero.
fn find_active(graph: &Graph, wrt: &[TensorId]) -> Vec<bool> {
    let mut is_active = vec![false; graph.values.len()];
    for (id, TensorValue { ty, def }) in graph.iter() {
        is_active[id.0 as usize] = match def {
            TensorDef::Op { op, operands, .. } => {
                let has_gradient = ty.dtype.is_float() && op.info().gradient != GradientRule::Zero;
                has_gradient && operands.iter().any(|operand| is_active[operand.0 as usize])
            }
            _ => wrt.contains(&id),
        };
    }
    is_active
}

/// Begins with the cotangents of the outputs that are floats: inputs that are added, or constants.
fn seed<'g>(
    graph: &Graph,
    seeds: &[OutputCotangent],
    builder: &'g TensorExprBuilder,
) -> Result<Vec<ValueContributions<'g>>, GraphError> {
    let mut cotangents: Vec<ValueContributions<'g>> = vec![ValueContributions::default(); graph.values.len()];
    for (number, (&output, &seed)) in graph.outputs.iter().zip(seeds).enumerate() {
        let ty = &graph.value(output).ok_or(GraphError::UnknownValue(output))?.ty;
        if !ty.dtype.is_float() {
            continue;
        }
        let given = match seed {
            OutputCotangent::Zero => continue,
            OutputCotangent::One => builder.filled(ty, 1.0),
            OutputCotangent::Given => {
                let mut name = format!("cotangent{number}");
                while graph.inputs().any(|(other, _)| other == name) {
                    name.push('_');
                }
                builder.input(&name, ty)?
            }
        };
        cotangents[output.0 as usize].add(ValueCotangent { value: given, may_be_untaken: false });
    }
    Ok(cotangents)
}

/// Builds what an op contributes to the cotangents of its operands.
fn contribute<'g>(
    op: TensorOp,
    builder: &'g TensorExprBuilder,
    result: TensorId,
    operands: &[TensorId],
    attributes: &'g [AttributeValue],
    cotangent: ValueCotangent<'g>,
) -> Result<Vec<Option<ValueCotangent<'g>>>, GraphError> {
    let Some(rule) = gradient_rule(op) else {
        let reason = format!("`{}` has no gradient rule", op.name());
        return Err(GraphError::Invalid { value: result, reason });
    };
    let r = builder.value(result);
    let half = Some(r.ty().dtype).filter(|dtype| dtype.is_half() && is_computed_wide(op));
    let widen = |x: TensorExpr<'g>| if half == Some(x.ty().dtype) { x.cast(Scalar::F32) } else { x };
    let query = GradientQuery {
        op,
        x: operands.iter().map(|&operand| widen(builder.value(operand))).collect(),
        attributes,
        r: widen(r),
        g: widen(cotangent.value),
        may_be_untaken: cotangent.may_be_untaken,
        has_untaken: Cell::new(false),
    };
    let contributions = rule(&query);
    let may_be_untaken = query.may_be_untaken || query.has_untaken.get();
    let fitted = operands.iter().zip(contributions).map(|(&operand, contribution)| {
        let ty = builder.value(operand).ty();
        let value = contribution?.fit(&ty.shape).cast(ty.dtype);
        Some(ValueCotangent { value, may_be_untaken })
    });
    Ok(fitted.collect())
}

/// Returns true for ops whose gradient is more than one operation: that of 16-bit floats is computed in `float32` and rounded
/// at the end, as their decomposition is. Products of matrices are not among them, because the hardware takes 16 bits.
fn is_computed_wide(op: TensorOp) -> bool {
    matches!(
        op.info().dtype_rule,
        DtypeRule::Float
            | DtypeRule::Quotient
            | DtypeRule::Summed
            | DtypeRule::Seeded
            | DtypeRule::Classes
            | DtypeRule::Promoted(DtypeClass::BoolAsInt8)
    )
}
