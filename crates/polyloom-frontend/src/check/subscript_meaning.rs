//! The meanings of subscripts and of the bases of targets.

use super::component_parts::{ComponentRange, ComponentSlice};
use super::struct_variable::StructPlace;
use crate::typed_ast::{ComponentIndex, ElementPlace, TypedExpr};
use polyloom_ir::{Composite, Type};
use ruff_python_ast as ast;

/// Describes what a subscript means.
pub(super) enum SubscriptMeaning {
    /// An array element, and its type.
    Element(ElementPlace, Type),
    /// A component of a composite.
    Component(TypedExpr, Composite, ComponentIndex),
    /// A row of a matrix.
    Row(TypedExpr, Composite, TypedExpr),
    /// Several components, which are a composite of their own.
    Parts(ComponentSlice),
    /// Several that follow each other.
    Run(ComponentRange),
    /// An element of an array of structs.
    Struct(StructPlace),
    /// A part of an array.
    View(TypedExpr),
}

/// One index of a subscript.
pub(super) enum SubscriptIndex<'a> {
    At(TypedExpr),
    Slice(&'a ast::ExprSlice),
}

/// Describes what is before the dot or the brackets of a target.
pub(super) enum TargetBase {
    Run(ComponentRange),
    Value(TypedExpr),
}
