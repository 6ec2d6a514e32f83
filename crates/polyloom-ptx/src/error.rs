//! What is wrong with a PTX text, and where.

use std::fmt;

/// A place in PTX text, both counted from 1; columns count bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TextPosition {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One error in a PTX text: it does not parse, has no meaning, or uses what the simulator lacks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{position}: {message}")]
pub struct PtxError {
    /// Where.
    pub position: TextPosition,
    /// What, in one phrase.
    pub message: String,
}

impl PtxError {
    pub(crate) fn new(position: TextPosition, message: impl Into<String>) -> Self {
        PtxError { position, message: message.into() }
    }
}
