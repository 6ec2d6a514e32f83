//! Where things are in source text.

use cranelift_entity::{PrimaryMap, entity_impl};
use std::sync::Arc;

/// A source file of a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);
entity_impl!(FileId, "file");

/// A range of bytes in a source file, carried from the parser to the machine code's trap tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of code that no source text stands for.
    pub const NONE: Span = Span { file: FileId(u32::MAX - 1), start: 0, end: 0 };

    /// A span in `file`.
    pub fn new(file: FileId, start: u32, end: u32) -> Span {
        Span { file, start, end }
    }

    /// Returns true if this is [`Span::NONE`].
    pub fn is_none(self) -> bool {
        self == Span::NONE
    }
}

/// One source text and the name it is reported under.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path as the user knows it.
    pub name: Arc<str>,
    /// The whole text. Lines end in line feeds, also where a carriage return alone ended them.
    pub text: Arc<str>,
    /// Line number of the first line of `text`, 1 for a whole file.
    pub first_line: u32,
    line_starts: Arc<[u32]>,
}

/// A 1-based line and column; columns count characters, as editors do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl SourceFile {
    /// A source file whose first line has number `first_line`.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>, first_line: u32) -> SourceFile {
        let text = with_line_feeds(text.into());
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1))
            .collect();
        SourceFile { name: name.into(), text, first_line, line_starts }
    }

    /// The position of a byte offset; offsets past the end give the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = (offset as usize).min(self.text.len());
        let line = self.line_starts.partition_point(|&s| s as usize <= offset) - 1;
        let start = self.line_starts[line] as usize;
        let column = self.text.get(start..offset).map_or(0, |s| s.chars().count());
        Position { line: self.first_line + line as u32, column: column as u32 + 1 }
    }
}

/// The text with a line feed for each carriage return that ends a line by itself, as Python reads it. Places in the
/// text stay what they are.
fn with_line_feeds(text: Arc<str>) -> Arc<str> {
    if !text.contains('\r') {
        return text;
    }
    let ends_line = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    text.char_indices().map(|(at, c)| if c == '\r' && ends_line(at) { '\n' } else { c }).collect::<String>().into()
}

/// The source files of one compilation.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    files: PrimaryMap<FileId, SourceFile>,
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file.
    pub fn add(&mut self, file: SourceFile) -> FileId {
        self.files.push(file)
    }

    /// Adds the files of another map, each once however often it is added. Gives for each, in order, its handle here, so
    /// that spans of the other map can be made spans of this one.
    pub fn merge(&mut self, other: &SourceMap) -> Vec<FileId> {
        let is_same = |a: &SourceFile, b: &SourceFile| {
            Arc::ptr_eq(&a.text, &b.text) && a.name == b.name && a.first_line == b.first_line
        };
        let merged = other.files.values().map(|file| {
            let known = self.files.iter().find(|(_, known)| is_same(known, file)).map(|(id, _)| id);
            known.unwrap_or_else(|| self.files.push(file.clone()))
        });
        merged.collect()
    }

    /// The file with this handle, if it is of this map.
    pub fn get(&self, file: FileId) -> Option<&SourceFile> {
        self.files.get(file)
    }

    /// File name and start position of a span, if it has one.
    pub fn locate(&self, span: Span) -> Option<(&str, Position)> {
        let file = self.get(span.file)?;
        Some((&file.name, file.position(span.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, SourceFile};

    #[test]
    fn lines_end_as_in_python() {
        let file = SourceFile::new("mac.py", "a\rb\r\nc\n\r\r\nd", 1);
        let lines: Vec<u32> = (0..10).map(|offset| file.position(offset).line).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 3, 3, 4, 5, 5]);
        assert_eq!(file.position(10), Position { line: 6, column: 1 });
        assert_eq!(file.text.lines().collect::<Vec<_>>(), ["a", "b", "c", "", "", "d"]);
    }
}
