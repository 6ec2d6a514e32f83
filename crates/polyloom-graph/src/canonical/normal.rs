//! The rules that make terms: each op goes to the file of its kind. No rule but those over the real numbers changes a bit.

use super::form::constant_term;
use super::term::{Term, TermHead, TermId, TermStore};
use super::{contraction, elementwise, reduction, view};
use crate::attribute::{AttributeValue, Attributes};
use crate::builder::convert;
use crate::graph::TensorType;
use crate::infer::infer;
use crate::op::{OpDefinition, TensorOp};
use crate::promotion::OperandDtype;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;

/// Adds the term of an op whose type is known.
pub(crate) fn make<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    operands: Vec<TermId>,
    attributes: Attributes,
    ty: TensorType,
) -> TermId {
    match op {
        TensorOp::Contiguous => operands[0],
        TensorOp::Reshape | TensorOp::Permute | TensorOp::BroadcastTo | TensorOp::Slice | TensorOp::Flip => {
            view::make(store, op, operands[0], attributes, ty)
        }
        TensorOp::MatMul if store.orders_products() => contraction::of_matmul(store, operands[0], operands[1], ty),
        TensorOp::Contract if store.orders_products() => contraction::make(store, operands, &attributes, ty),
        TensorOp::Sum
        | TensorOp::Prod
        | TensorOp::Max
        | TensorOp::Min
        | TensorOp::All
        | TensorOp::Any
        | TensorOp::Argmax
        | TensorOp::Argmin => reduction::make(store, op, operands[0], attributes, ty),
        TensorOp::ElementCount => element_count(store, operands[0], attributes, ty),
        TensorOp::Concat if operands.len() == 1 => operands[0],
        TensorOp::Pad if store.ty(operands[0]).shape == ty.shape => operands[0],
        _ if matches!(op.info().definition, OpDefinition::Scalar(_)) => {
            elementwise::make(store, op, operands, attributes, ty)
        }
        _ => store.push(Term { head: TermHead::Op(op, attributes), operands, ty }),
    }
}

/// Adds the term of an op, of which the type is inferred. Returns `None` if the op does not take the operands.
pub(crate) fn infer_and_make<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    operands: Vec<TermId>,
    attributes: Vec<AttributeValue>,
) -> Option<TermId> {
    let dtypes: Vec<_> = operands.iter().map(|&id| OperandDtype::Strong(store.ty(id).dtype)).collect();
    let shapes: Vec<Shape> = operands.iter().map(|&id| store.ty(id).shape.clone()).collect();
    let inference = infer(op, &dtypes, &shapes, attributes).ok()?;
    Some(make(store, op, operands, inference.attributes, inference.ty))
}

/// Adds a number of elements: a constant, or the extent of an axis of an input, whatever tensor it was asked of.
fn element_count<S: TermStore>(store: &mut S, x: TermId, attributes: Attributes, ty: TensorType) -> TermId {
    let axes = axes_of(&attributes.0[0]);
    let dims: Vec<Dim> = axes.iter().map(|&axis| store.ty(x).shape.0[axis].clone()).collect();
    if let Some(count) = Shape(dims.clone()).n_elements() {
        let term = constant_term(store, ty.dtype, convert(Scalar::U64, count, ty.dtype));
        return store.push(term);
    }
    let mut dims = dims.iter().filter(|dim| **dim != Dim::Static(1));
    if let (Some(Dim::Symbol(symbol)), None) = (dims.next(), dims.next())
        && let Some((input, axis)) = store.axis_of_symbol(symbol)
    {
        let attributes = Attributes(vec![AttributeValue::Ints(vec![axis as i64]), attributes.0[1].clone()]);
        return store.push(Term { head: TermHead::Op(TensorOp::ElementCount, attributes), operands: vec![input], ty });
    }
    store.push(Term { head: TermHead::Op(TensorOp::ElementCount, attributes), operands: vec![x], ty })
}

/// Returns the axes of an attribute in canonical form.
pub(crate) fn axes_of(attribute: &AttributeValue) -> Vec<usize> {
    match attribute {
        AttributeValue::Ints(axes) => axes.iter().map(|&axis| axis as usize).collect(),
        AttributeValue::Int(axis) => vec![*axis as usize],
        _ => Vec::new(),
    }
}
