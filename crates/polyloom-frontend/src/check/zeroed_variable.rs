//! Variables that are zero where no path has set them.

use crate::structure::ValueType;
use polyloom_ir::{Diagnostic, Span};
use std::sync::Arc;

/// A variable that is read where some path has not set it.
#[derive(Debug, Clone)]
pub(super) struct ZeroedVariable {
    pub(super) name: Arc<str>,
    pub(super) ty: ValueType,
    /// The place where it is first set.
    pub(super) span: Span,
    /// Holds what the user is told.
    pub(super) warning: Diagnostic,
}
