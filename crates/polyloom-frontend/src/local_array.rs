//! Arrays of a function's own, whose extents are constants.

use crate::typed_ast::{ExprKind, ExprType, TypedExpr};
use polyloom_ir::{Composite, Op, Span, Type};
use smallvec::{SmallVec, smallvec};

/// An array of the kernel's own: what its elements are, and its extents.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LocalArray {
    pub(crate) elem: Type,
    pub(crate) shape: SmallVec<[u16; 4]>,
}

impl LocalArray {
    /// One of no elements, to stand for an array of this type that is not set.
    pub(crate) fn empty(array: Type) -> Option<LocalArray> {
        let (elem, ndim) = array.as_any_array()?;
        Some(LocalArray { elem, shape: smallvec![0; ndim.into()] })
    }

    /// The type of the variable that holds it, which has room for an element if there are none.
    pub(crate) fn vector(&self) -> Option<Composite> {
        let elem = self.elem.as_scalar().or_else(|| Some(self.elem.as_composite()?.elem()))?;
        let len = self.shape.iter().map(|&n| usize::from(n)).product::<usize>().max(1) * self.n_components();
        Some(Composite::Vector { elem, len: u16::try_from(len).ok()? })
    }

    /// The value of the variable that holds it where all elements are zero.
    pub(crate) fn zeros(&self, span: Span) -> Option<TypedExpr> {
        let vector = self.vector()?;
        let args = (0..vector.n_components()).map(|_| TypedExpr::constant(0, vector.elem(), span)).collect();
        let kind = ExprKind::Op { op: Op::Construct, args, updates: smallvec![] };
        Some(TypedExpr::new(kind, ExprType::Value(vector.into()), span))
    }

    pub(crate) fn n_components(&self) -> usize {
        self.elem.as_composite().map_or(1, Composite::n_components)
    }
}
