//! Elementwise ops: operands are not repeated before them, views that only order elements come after them, and operands of
//! commutative ops are ordered.

use super::fold;
use super::function;
use super::options::IdentityStrength;
use super::term::{
    TermHead, TermId, TermOperands, TermStore, broadcast_type, integer, push_number, push_scalar, push_term, real,
    sort_operands,
};
use super::types::TypeId;
use super::view::{broadcast_to, changes_ones_alone, permute, reshape, without_repetition};
use crate::attribute::{AttributeValue, Attributes};
use crate::op::TensorOp;
use polyloom_ir::Scalar;
use smallvec::smallvec;

pub(super) fn make<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    mut operands: TermOperands,
    attributes: Attributes,
    ty: TypeId,
) -> TermId {
    let dtype = store.types().get(ty).dtype;
    let bare: TermOperands = operands.iter().map(|&operand| without_repetition(store, operand)).collect();
    if bare != operands
        && let Some(of_bare) = broadcast_type(store, &bare, dtype)
    {
        let of_bare = make(store, op, bare, attributes, of_bare);
        return broadcast_to(store, of_bare, ty);
    }
    if let Some((view, inner)) = shared_view(store, &operands)
        && store.spend()
    {
        operands = inner;
        if let Some(of_inner) = broadcast_type(store, &operands, dtype) {
            let inside = make(store, op, operands, attributes, of_inner);
            let shape = store.types().get(ty).shape.clone();
            return match view {
                SharedView::Reshape => reshape(store, inside, shape),
                SharedView::Permute(axes) => permute(store, inside, &axes),
            };
        }
    }
    make_bare(store, op, operands, attributes, ty)
}

enum SharedView {
    Reshape,
    Permute(Vec<usize>),
}

/// Returns the view that all operands with axes are, and what they are views of.
fn shared_view<S: TermStore>(store: &S, operands: &[TermId]) -> Option<(SharedView, TermOperands)> {
    let has_axes = |id: &&TermId| store.ty(**id).shape.rank() > 0;
    let first = *operands.iter().find(has_axes)?;
    let op = [TensorOp::Reshape, TensorOp::Permute].into_iter().find(|&op| store.has_op(first, op))?;
    let (first_attributes, first_inner) = store.op_term(first, op)?;
    let (outer, inner) = (store.type_id(first), store.type_id(first_inner[0]));
    let mut views = TermOperands::new();
    for operand in operands {
        if !has_axes(&operand) {
            views.push(*operand);
            continue;
        }
        let (attributes, of_operand) = store.op_term(*operand, op)?;
        let is_alike = attributes == first_attributes
            && store.types().have_one_shape(store.type_id(*operand), outer)
            && store.types().have_one_shape(store.type_id(of_operand[0]), inner);
        views.push(of_operand[0]);
        if !is_alike {
            return None;
        }
    }
    let (outer, inner) = (&store.types().get(outer).shape, &store.types().get(inner).shape);
    let view = match op {
        // Over the reals, axes of extent 1 go to the operands instead.
        TensorOp::Reshape if store.strength() == IdentityStrength::Mathematics && changes_ones_alone(outer, inner) => {
            return None;
        }
        TensorOp::Reshape => SharedView::Reshape,
        _ => SharedView::Permute(first_attributes.0[0].axes()),
    };
    Some((view, views))
}

/// Adds an op whose operands are not repeated.
fn make_bare<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    mut operands: TermOperands,
    attributes: Attributes,
    ty: TypeId,
) -> TermId {
    // One direction of each comparison is enough.
    let op = match op {
        TensorOp::Greater => TensorOp::Less,
        TensorOp::GreaterEqual => TensorOp::LessEqual,
        op => {
            return make_directed(store, op, operands, attributes, ty);
        }
    };
    operands.reverse();
    make_directed(store, op, operands, attributes, ty)
}

fn make_directed<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    mut operands: TermOperands,
    attributes: Attributes,
    ty: TypeId,
) -> TermId {
    let dtype = store.types().get(ty).dtype;
    if let Some(folded) = fold::fold(store, op, &operands, dtype) {
        return broadcast_to(store, folded, ty);
    }
    if let Some(simpler) = simplify(store, op, &operands, ty) {
        return broadcast_to(store, simpler, ty);
    }
    if store.strength() == IdentityStrength::Mathematics
        && let Some(normal) = function::make(store, op, &operands, dtype)
    {
        return broadcast_to(store, normal, ty);
    }
    if op.is_commutative() {
        sort_operands(store, &mut operands);
    }
    push_term(store, op, operands, attributes, ty)
}

/// Applies the laws that keep every bit.
fn simplify<S: TermStore>(store: &mut S, op: TensorOp, operands: &[TermId], ty: TypeId) -> Option<TermId> {
    let dtype = store.types().get(ty).dtype;
    let is = |store: &S, id: TermId, number: i8| {
        real(store, id).is_some_and(|value| value.to_bits() == f64::from(number).to_bits())
            || integer(store, id) == Some(number.into())
    };
    let only = |store: &S, id: TermId, op: TensorOp| store.operands_of(id, op).map(|inner| inner[0]);
    match (op, operands) {
        (TensorOp::Multiply, &[a, b]) if is(store, b, 1) => Some(a),
        (TensorOp::Multiply, &[a, b]) if is(store, a, 1) => Some(b),
        (TensorOp::Divide, &[a, b]) if is(store, b, 1) => Some(a),
        // 0.0 would change the sign of -0.0, which -0.0 does not.
        (TensorOp::Add, &[a, b]) if is_neutral(store, b) => Some(a),
        (TensorOp::Add, &[a, b]) if is_neutral(store, a) => Some(b),
        (TensorOp::Subtract, &[a, b]) if is(store, b, 0) => Some(a),
        (TensorOp::Add, &[a, b]) if dtype != Scalar::Bool && store.strength() == IdentityStrength::Bits => {
            if a == b {
                let two = if dtype.is_float() {
                    push_number(store, dtype, 2.0)
                } else {
                    push_scalar(store, TermHead::Constant(2), dtype)
                };
                return Some(make_pair(store, TensorOp::Multiply, two, a, ty));
            }
            let negated = |store: &S, id| only(store, id, TensorOp::Negative);
            match (negated(store, a), negated(store, b)) {
                (_, Some(y)) => Some(make_pair(store, TensorOp::Subtract, a, y, ty)),
                (Some(y), None) => Some(make_pair(store, TensorOp::Subtract, b, y, ty)),
                (None, None) => None,
            }
        }
        (TensorOp::Subtract, &[a, b]) if store.strength() == IdentityStrength::Bits => {
            let y = only(store, b, TensorOp::Negative)?;
            Some(make_pair(store, TensorOp::Add, a, y, ty))
        }
        (TensorOp::Negative, &[x]) => only(store, x, TensorOp::Negative),
        (TensorOp::LogicalNot, &[x]) => only(store, x, TensorOp::LogicalNot),
        (TensorOp::Invert, &[x]) => only(store, x, TensorOp::Invert),
        (TensorOp::Absolute, &[x]) if store.has_op(x, TensorOp::Absolute) => Some(x),
        (TensorOp::Absolute, &[x]) if dtype.is_float() => {
            let y = only(store, x, TensorOp::Negative)?;
            let ty = store.type_id(y);
            Some(make_directed(store, TensorOp::Absolute, smallvec![y], Attributes::default(), ty))
        }
        (op, &[a, b]) if op.is_idempotent() && a == b => Some(a),
        (TensorOp::Where, &[_, a, b]) if a == b => Some(a),
        (TensorOp::Where, &[condition, a, b]) => {
            if let Some(bits) = store.constant_bits(condition) {
                return Some(if bits != 0 { a } else { b });
            }
            let inner = only(store, condition, TensorOp::LogicalNot).filter(|_| store.spend())?;
            Some(make(store, TensorOp::Where, smallvec![inner, b, a], Attributes::default(), ty))
        }
        (TensorOp::Cast, &[x]) => cast(store, x, dtype),
        (TensorOp::Bitcast, &[x]) if store.ty(x).dtype == dtype && !dtype.is_float() => Some(x),
        _ => None,
    }
}

fn make_pair<S: TermStore>(store: &mut S, op: TensorOp, a: TermId, b: TermId, ty: TypeId) -> TermId {
    make(store, op, smallvec![a, b], Attributes::default(), ty)
}

/// Returns true for what a sum of numbers loses without a change: -0.0 of floats, or any 0 over the reals.
fn is_neutral(store: &impl TermStore, id: TermId) -> bool {
    match (real(store, id), store.strength()) {
        (Some(value), IdentityStrength::Mathematics) => value == 0.0,
        (Some(value), IdentityStrength::Bits) => value.to_bits() == (-0.0f64).to_bits(),
        (None, _) => integer(store, id) == Some(0),
    }
}

/// Leaves out casts that change nothing, and those before another one that loses nothing.
fn cast<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let own = store.ty(x).dtype;
    if own == dtype {
        return Some(x);
    }
    let inner = store.operands_of(x, TensorOp::Cast)?;
    if !store.spend() {
        return None;
    }
    let first = store.ty(inner[0]).dtype;
    let is_real = store.strength() == IdentityStrength::Mathematics;
    let are_floats = first.is_float() && own.is_float() && dtype.is_float();
    // An integer that went through a float is cut off at the limits of its type, and one that did not wraps.
    let is_alike = first.is_float() || !own.is_float() || dtype.is_float();
    if (holds(own, first) && is_alike) || (is_real && are_floats) {
        let of_inner = store.type_id(inner[0]);
        let ty = store.types_mut().with_dtype(of_inner, dtype);
        let attributes = Attributes(vec![AttributeValue::Dtype(dtype)]);
        return Some(make(store, TensorOp::Cast, smallvec![inner[0]], attributes, ty));
    }
    None
}

/// Returns true if a type holds all values of another.
fn holds(wide: Scalar, narrow: Scalar) -> bool {
    let digits = |dtype: Scalar| match dtype {
        Scalar::F16 => 11,
        Scalar::BF16 => 8,
        Scalar::F32 => 24,
        Scalar::F64 => 53,
        _ => dtype.bits() - u32::from(dtype.is_signed_int()),
    };
    match (wide, narrow) {
        _ if wide == narrow => true,
        (Scalar::Bool, _) => false,
        (_, Scalar::Bool) => true,
        _ if narrow.is_float() && wide.is_float() => wide.bytes() > narrow.bytes(),
        _ if narrow.is_float() => false,
        // The largest binary16 is 65,504, so that 16 bits and more never fit.
        (Scalar::F16, _) => narrow.bits() <= 8,
        _ if wide.is_float() => digits(narrow) <= digits(wide),
        _ if wide.is_unsigned_int() && narrow.is_signed_int() => false,
        _ => digits(wide) >= digits(narrow),
    }
}
