//! Text to tokens.
//!
//! Nothing is lost: every byte is in a token, in a comment or is space between these, which is what `polyloom fmt`
//! relies on. Lines and columns stay with the tokens, because blocks may be made by indentation; the parser looks at
//! them where that matters, and nowhere inside brackets.

use super::token::{KEYWORDS, LoomComment, LoomToken, SYMBOLS, TokenKind};
use ruff_text_size::{TextRange, TextSize};

/// A text as tokens, the last of which is [`TokenKind::End`], and comments.
pub(crate) struct LexedText {
    pub(crate) tokens: Vec<LoomToken>,
    pub(crate) comments: Vec<LoomComment>,
    /// Holds what is no token, each with what to say of it.
    pub(crate) errors: Vec<LexicalError>,
}

/// A piece of text that is no token.
pub(crate) struct LexicalError {
    pub(crate) range: TextRange,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

/// The range of a text between two offsets.
pub(crate) fn range(start: usize, end: usize) -> TextRange {
    TextRange::new(TextSize::new(start as u32), TextSize::new(end.max(start) as u32))
}

/// Splits a text into tokens.
pub(crate) fn lex(text: &str) -> LexedText {
    let mut lexer = Lexer {
        text,
        at: 0,
        line_start: 0,
        begins_line: true,
        lexed: LexedText { tokens: Vec::new(), comments: Vec::new(), errors: Vec::new() },
    };
    while lexer.at < text.len() {
        lexer.step();
    }
    // The end begins a line of its own, so that it ends every block.
    lexer.begins_line = true;
    lexer.line_start = text.len();
    lexer.push(TokenKind::End, text.len());
    lexer.lexed
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line_start: usize,
    begins_line: bool,
    lexed: LexedText,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        // Of others it says nothing, and would take time with the square of a line's length.
        let column = if self.begins_line { self.text.get(self.line_start..start).map_or(0, columns) } else { 0 };
        let token = LoomToken { kind, range: range(start, self.at), begins_line: self.begins_line, column };
        self.lexed.tokens.push(token);
        self.begins_line = false;
    }

    fn error(&mut self, start: usize, message: String, help: &'static str) {
        let range = range(start, self.at);
        self.lexed.errors.push(LexicalError { range, message, help });
    }

    fn step(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        match first {
            '\n' => {
                self.at += 1;
                self.line_start = self.at;
                self.begins_line = true;
            }
            ' ' | '\t' | '\r' | '\u{feff}' => self.at += first.len_utf8(),
            '/' if rest.starts_with("//") => self.comment(),
            '"' => self.string(),
            '0'..='9' => self.number(),
            _ if first == '_' || first.is_alphabetic() => {
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                let word = &rest[..length];
                let keyword = KEYWORDS.iter().find(|(text, _)| *text == word);
                let kind = keyword.map_or(TokenKind::Name, |(_, keyword)| TokenKind::Keyword(*keyword));
                self.at += length;
                self.push(kind, start);
            }
            _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    self.push(TokenKind::Symbol(symbol), start);
                }
                None => {
                    self.at += first.len_utf8();
                    let help = match first {
                        '#' => "comments begin with `//`",
                        '\'' => "texts stand in double quotes",
                        '?' => "write `if c then a else b` to choose a value",
                        _ => "remove it",
                    };
                    self.error(start, format!("`{first}` has no meaning here"), help);
                    self.push(TokenKind::Unknown, start);
                }
            },
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find('\n').unwrap_or(rest.len());
        let is_doc = rest.starts_with("///") && !rest.starts_with("////");
        let end = start + rest[..length].trim_end().len();
        self.at += length;
        let comment = LoomComment { range: range(start, end), is_doc, begins_line: self.begins_line };
        self.lexed.comments.push(comment);
    }

    fn string(&mut self) {
        let start = self.at;
        let characters = self.text.get(start..).unwrap_or_default().char_indices().skip(1);
        let mut escaped = false;
        for (index, character) in characters {
            match character {
                '\n' => {
                    self.at += index;
                    self.error(start, "this text is never closed".to_owned(), "close it with a quote in its line");
                    return self.push(TokenKind::Text, start);
                }
                '"' if !escaped => {
                    self.at += index + 1;
                    return self.push(TokenKind::Text, start);
                }
                _ => escaped = character == '\\' && !escaped,
            }
        }
        self.at = self.text.len();
        self.error(start, "this text is never closed".to_owned(), "close it with a quote in its line");
        self.push(TokenKind::Text, start);
    }

    /// Digits with `_` among them, a fraction, an exponent, and a type of which it is at once: `1.0f64`.
    fn number(&mut self) {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let run = |from: usize, is_digit: fn(u8) -> bool| {
            let length = bytes[from..].iter().position(|b| !is_digit(*b) && *b != b'_');
            length.map_or(bytes.len(), |length| from + length)
        };
        let decimal = |b: u8| b.is_ascii_digit();
        let mut kind = TokenKind::Int;
        let prefix = self.rest().get(..2).unwrap_or_default().to_ascii_lowercase();
        match &*prefix {
            "0x" => self.at = run(start + 2, |b| b.is_ascii_hexdigit()),
            "0b" | "0o" => self.at = run(start + 2, decimal),
            _ => {
                self.at = run(start, decimal);
                // `0..n` is a range, and `a.0` no number of its own.
                if self.rest().starts_with('.') && !self.rest().starts_with("..") {
                    kind = TokenKind::Float;
                    self.at = run(self.at + 1, decimal);
                }
                let exponent = self.rest().as_bytes();
                if matches!(exponent.first(), Some(b'e' | b'E')) {
                    let sign = usize::from(matches!(exponent.get(1), Some(b'+' | b'-')));
                    if exponent.get(1 + sign).is_some_and(u8::is_ascii_digit) {
                        kind = TokenKind::Float;
                        self.at = run(self.at + 1 + sign, decimal);
                    }
                }
            }
        }
        let rest = self.rest();
        let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let suffix = rest[..length].to_owned();
        self.at += length;
        if !suffix.is_empty() && super::types::scalar(&suffix).is_none() {
            let help = "a number may end with its type: `1.0f32`, `1u8`";
            self.error(start, format!("`{suffix}` is no type of a number"), help);
        }
        self.push(kind, start);
    }
}

/// The number of columns that a beginning of a line takes; a tab goes on to the next multiple of eight.
fn columns(text: &str) -> u32 {
    text.chars().fold(0, |column, c| if c == '\t' { (column / 8 + 1) * 8 } else { column + 1 })
}
