//! The expressions that components of composites, and composites of components, are.

use crate::typed_ast::{ComponentIndex, ExprKind, ExprType, TypedExpr};
use polyloom_ir::{AxisExtent, Composite, Op, Scalar, Span, Type};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The value of an index that is a constant.
pub(super) fn constant_index(index: &TypedExpr) -> Option<i128> {
    match (&index.kind, index.ty.as_value()) {
        (ExprKind::Const(bits), Some(Type::Scalar(ty))) => Some(integer(*bits, ty)),
        _ => None,
    }
}

/// The value that bits are as an integer of a type.
pub(super) fn integer(bits: u64, ty: Scalar) -> i128 {
    let unused = 128 - ty.bits();
    let signed = (i128::from(bits) << unused) >> unused;
    if ty.is_signed_int() { signed } else { i128::from(bits) }
}

/// A composite of its components.
pub(super) fn construct(composite: Composite, components: Vec<TypedExpr>, span: Span) -> TypedExpr {
    let kind = ExprKind::Op { op: Op::Construct, args: components, updates: smallvec![] };
    TypedExpr::new(kind, ExprType::Value(composite.into()), span)
}

pub(super) fn axis_extent(name: Arc<str>, axis: u8, extent: u16) -> AxisExtent {
    AxisExtent { name, axis, extent }
}

/// A composite captured from outside.
pub(super) fn composite_constant(bits: &[u64], composite: Composite, span: Span) -> TypedExpr {
    construct(composite, bits.iter().map(|&bits| TypedExpr::constant(bits, composite.elem(), span)).collect(), span)
}

/// One component of a composite; of an array's element, no more than it is loaded.
pub(super) fn component(base: TypedExpr, composite: Composite, index: ComponentIndex, span: Span) -> TypedExpr {
    let ty = ExprType::scalar(composite.elem());
    if let ExprKind::Load(mut element) = base.kind {
        element.indices.extend(inner_indices(composite, index, span));
        return TypedExpr::new(ExprKind::Load(element), ty, span);
    }
    TypedExpr::new(ExprKind::Component(Box::new(base), Box::new(index)), ty, span)
}

/// The indices that a component has after those of an array's element. What counts components of a matrix in row-major
/// order is in a variable, not in an array.
pub(super) fn inner_indices(composite: Composite, place: ComponentIndex, span: Span) -> SmallVec<[TypedExpr; 2]> {
    let constant = |index: u16| TypedExpr::constant(index.into(), Scalar::I32, span);
    match (&composite.shape()[..], place) {
        (&[_, n_cols], ComponentIndex::Is(place)) => smallvec![constant(place / n_cols), constant(place % n_cols)],
        (_, ComponentIndex::Is(place)) => smallvec![constant(place)],
        (_, ComponentIndex::At(indices)) => indices,
        (_, ComponentIndex::Flat(place)) => smallvec![place],
    }
}
