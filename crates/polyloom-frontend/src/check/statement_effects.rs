//! Statements that the statement being checked has around it.

use crate::typed_ast::TypedStmt;
use ruff_text_size::TextRange;

/// Describes what a statement has around it.
#[derive(Default)]
pub(super) struct StatementEffects {
    /// The call that the statement is, or assigns the result of.
    pub(super) call: Option<TextRange>,
    /// Executed before and after it.
    pub(super) before: Vec<TypedStmt>,
    pub(super) after: Vec<TypedStmt>,
}
