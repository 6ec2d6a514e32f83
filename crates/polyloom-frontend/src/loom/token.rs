//! The tokens of `.loom`.

use ruff_text_size::TextRange;

/// A token with its place in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoomToken {
    pub(crate) kind: TokenKind,
    pub(crate) range: TextRange,
    /// True if it is the first of its line.
    pub(crate) begins_line: bool,
    /// The number of columns before it, if it begins its line; otherwise 0.
    pub(crate) column: u32,
}

/// Describes what a token is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TokenKind {
    Name,
    Int,
    Float,
    Text,
    /// One of [`KEYWORDS`].
    Keyword(Keyword),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// Characters that begin no token.
    Unknown,
    End,
}

macro_rules! keywords {
    ($($variant:ident = $text:literal,)*) => {
        /// A word with a meaning of its own.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Keyword { $($variant,)* }

        /// The keywords as they are written.
        pub(crate) const KEYWORDS: &[(&str, Keyword)] = &[$(($text, Keyword::$variant),)*];
    };
}

keywords! {
    And = "and",
    Assert = "assert",
    Break = "break",
    Compute = "compute",
    Const = "const",
    Continue = "continue",
    Elif = "elif",
    Else = "else",
    False = "false",
    Fn = "fn",
    For = "for",
    From = "from",
    If = "if",
    Import = "import",
    In = "in",
    Kernel = "kernel",
    Let = "let",
    Not = "not",
    Or = "or",
    Return = "return",
    Serial = "serial",
    Struct = "struct",
    Then = "then",
    True = "true",
    Var = "var",
    While = "while",
}

/// Operators and brackets, so that no one stands before a longer one that begins with it.
pub(crate) const SYMBOLS: &[&str] = &[
    "**=", "<<=", ">>=", "..=", "->", "..", "**", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=",
    "&=", "|=", "^=", "&&", "||", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=", "(", ")", "[", "]", "{",
    "}", ",", ":", ";", ".", "@", "!",
];

impl TokenKind {
    /// Returns true if it is this operator or bracket.
    pub(crate) fn is(self, symbol: &str) -> bool {
        matches!(self, TokenKind::Symbol(text) if text == symbol)
    }

    /// Returns true if an expression may end with it.
    pub(crate) fn ends_operand(self) -> bool {
        match self {
            TokenKind::Name | TokenKind::Int | TokenKind::Float | TokenKind::Text => true,
            TokenKind::Keyword(word) => matches!(word, Keyword::True | Keyword::False),
            TokenKind::Symbol(text) => matches!(text, ")" | "]" | "}"),
            TokenKind::Unknown | TokenKind::End => false,
        }
    }
}

/// A comment, which no token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoomComment {
    pub(crate) range: TextRange,
    /// True for `///`, which describes what follows.
    pub(crate) is_doc: bool,
    /// True if nothing stands before it in its line.
    pub(crate) begins_line: bool,
}
