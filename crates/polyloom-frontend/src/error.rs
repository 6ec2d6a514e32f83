//! The error of every entry point: all diagnostics of a program with the sources they point into.

use polyloom_ir::{Diagnostic, SourceMap, diagnostic};
use std::fmt;

/// A rejected program.
#[derive(Debug, Clone)]
pub struct CompileError {
    /// Holds what is wrong with it: at least one error, and the warnings found on the way, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The files the spans point into.
    pub sources: SourceMap,
}

impl CompileError {
    /// All diagnostics as text, with source lines and carets.
    pub fn render(&self, color: bool) -> String {
        self.diagnostics.iter().map(|d| diagnostic::render(d, &self.sources, color)).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for CompileError {}
