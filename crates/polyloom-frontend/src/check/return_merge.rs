//! The types that the returns of a function agree on.

use crate::structure::ValueType;
use crate::typed_ast::ExprType;
use polyloom_ir::Span;
use smallvec::SmallVec;

/// Describes what the returns of a function have in common.
pub(super) enum ReturnMerge {
    /// The types are fixed: a kernel's, or annotated.
    Declared(SmallVec<[ValueType; 2]>),
    /// The types follow from the returns.
    Inferred(Option<InferredReturns>),
}

/// Describes what the returns seen so far have said.
pub(super) struct InferredReturns {
    /// The first of them.
    pub(super) span: Span,
    /// A type for each result; [`ExprType::Number`] until a return with a type is met.
    pub(super) types: SmallVec<[ExprType; 2]>,
    /// True if some return gave a float without a type, for each result.
    pub(super) floats: SmallVec<[bool; 2]>,
}
