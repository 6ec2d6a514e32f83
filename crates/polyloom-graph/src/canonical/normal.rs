//! The rules that make terms: each op goes to the file of its kind. No rule but those over the real numbers changes a bit.

use super::labels::labels_of;
use super::term::{TermId, TermOperands, TermStore, push_constant, push_term};
use super::types::TypeId;
use super::{contraction, elementwise, reduction, view};
use crate::attribute::{AttributeValue, Attributes};
use crate::builder::convert;
use crate::infer::infer;
use crate::op::{OpDefinition, TensorOp};
use crate::promotion::OperandDtype;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use smallvec::smallvec;

/// Adds the term of an op whose type is known.
pub(crate) fn make<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    operands: TermOperands,
    attributes: Attributes,
    ty: TypeId,
) -> TermId {
    let dtype = store.types().get(ty).dtype;
    match op {
        TensorOp::Contiguous => operands[0],
        TensorOp::Reshape | TensorOp::Permute | TensorOp::BroadcastTo | TensorOp::Slice | TensorOp::Flip => {
            view::make(store, op, operands[0], attributes, ty)
        }
        TensorOp::MatMul if store.orders_products() => contraction::of_matmul(store, operands[0], operands[1], dtype),
        TensorOp::Contract if store.orders_products() => {
            contraction::contract(store, [operands[0], operands[1]], labels_of(&attributes), dtype)
        }
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
        TensorOp::Pad if store.types().have_one_shape(store.type_id(operands[0]), ty) => operands[0],
        _ if matches!(op.info().definition, OpDefinition::Scalar(_)) => {
            elementwise::make(store, op, operands, attributes, ty)
        }
        _ => push_term(store, op, operands, attributes, ty),
    }
}

/// Adds the term of an op, of which the type is inferred. Returns `None` if the op does not take the operands.
pub(crate) fn infer_and_make<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    operands: TermOperands,
    attributes: Vec<AttributeValue>,
) -> Option<TermId> {
    let dtypes: Vec<_> = operands.iter().map(|&id| OperandDtype::Strong(store.ty(id).dtype)).collect();
    let shapes: Vec<Shape> = operands.iter().map(|&id| store.ty(id).shape.clone()).collect();
    let inference = infer(op, &dtypes, &shapes, attributes).ok()?;
    let ty = store.types_mut().intern(&inference.ty);
    Some(make(store, op, operands, inference.attributes, ty))
}

/// Adds a number of elements: a constant, or the extent of an axis of an input, whatever tensor it was asked of.
fn element_count<S: TermStore>(store: &mut S, x: TermId, attributes: Attributes, ty: TypeId) -> TermId {
    let axes = attributes.0[0].axes();
    let dims: Vec<Dim> = axes.iter().map(|&axis| store.ty(x).shape.0[axis].clone()).collect();
    if let Some(count) = Shape(dims.clone()).n_elements() {
        let dtype = store.types().get(ty).dtype;
        return push_constant(store, dtype, convert(Scalar::U64, count, dtype));
    }
    let mut dims = dims.iter().filter(|dim| **dim != Dim::Static(1));
    if let (Some(Dim::Symbol(symbol)), None) = (dims.next(), dims.next())
        && let Some((input, axis)) = store.axis_of_symbol(symbol)
    {
        let attributes = Attributes(vec![AttributeValue::Ints(vec![axis as i64]), attributes.0[1].clone()]);
        return push_term(store, TensorOp::ElementCount, smallvec![input], attributes, ty);
    }
    push_term(store, TensorOp::ElementCount, smallvec![x], attributes, ty)
}
