//! Spans and errors of places in a file's text.

use crate::annotation::AnnotationError;
use polyloom_ir::{Diagnostic, FileId, Span};
use ruff_text_size::TextRange;

/// The span of a range of a file.
pub(super) fn span_of(file: FileId, range: TextRange) -> Span {
    Span::new(file, range.start().to_u32(), range.end().to_u32())
}

pub(super) fn error_of(file: FileId, error: AnnotationError) -> Diagnostic {
    Diagnostic::error(error.code, span_of(file, error.range), error.message).help(error.help)
}
