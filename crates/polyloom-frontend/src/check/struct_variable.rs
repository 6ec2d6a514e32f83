//! Variables that are structs, and the places in them and in arrays of structs.

use crate::structure::ValueType;
use crate::typed_ast::{LocalId, TypedExpr};
use polyloom_ir::Span;
use smallvec::SmallVec;
use std::sync::Arc;

/// A variable that is a struct or an array of structs.
pub(super) struct StructVariable {
    pub(super) name: Arc<str>,
    pub(super) ty: ValueType,
    /// The place where it is first assigned.
    pub(super) span: Span,
    /// Indexed by leaf; `None` for an array that it has not been given.
    pub(super) leaves: SmallVec<[Option<LocalId>; 8]>,
}

/// Something with a name that holds leaves: `s`, `s.pose`, `bodies[i]`, `bodies[i].pose.position`.
#[derive(Clone)]
pub(super) struct StructPlace {
    /// The variable it is in, by its index.
    pub(super) variable: usize,
    /// The first of its leaves among the variable's.
    pub(super) first: usize,
    /// The type of what it holds.
    pub(super) ty: ValueType,
    /// The indices of an element of an array of structs.
    pub(super) indices: Option<SmallVec<[TypedExpr; 2]>>,
    pub(super) span: Span,
}
