//! Several components of a composite that are one value together.

use super::temporaries::Temporaries;
use crate::typed_ast::{ComponentIndex, ComponentOrdinal, TypedExpr};
use polyloom_ir::Composite;

/// Several components of a composite that are one together: a slice.
#[derive(Clone)]
pub(super) struct ComponentSlice {
    pub(super) base: TypedExpr,
    pub(super) composite: Composite,
    /// The components in the order of those of `part`.
    pub(super) places: Vec<ComponentIndex>,
    /// The composite type that the components form.
    pub(super) part: Composite,
    /// The variables that the indices were evaluated into.
    pub(super) held: Temporaries,
}

/// A part of a composite whose components follow each other there.
#[derive(Clone)]
pub(super) struct ComponentRange {
    /// The variable or array element.
    pub(super) base: TypedExpr,
    pub(super) whole: Composite,
    /// The first component.
    pub(super) first: ComponentOrdinal,
    /// The composite type that the components form.
    pub(super) part: Composite,
}
