//! Tokens to a syntax tree, by recursive descent.
//!
//! A text with errors still gives a tree: what cannot be read becomes [`ExprKind::Error`] or is left out, and reading goes
//! on with the next line, so that one run reports all mistakes. At most one error is reported for each line, because
//! those after it mostly follow from it.
//!
//! Blocks stand between braces, or after a colon: in the same line, or indented deeper than the line of the colon.
//! Inside brackets lines do not matter; elsewhere a statement ends with its line, unless an operator ends the line.

mod expression;
mod item;
mod statement;

use super::lexer::{LexedText, range};
use super::syntax::{Block, Expr, ExprKind, Ident, LoomFile};
use super::token::{Keyword, LoomComment, LoomToken, TokenKind};
use polyloom_ir::Code;
use ruff_text_size::{Ranged, TextRange};

/// The deepest nesting of expressions and blocks, so that every recursion over a tree is bounded.
pub(super) const MAX_DEPTH: u32 = 150;

/// Operators in a row, each of which is one level of a tree.
pub(super) const MAX_CHAIN: u32 = 500;

/// Errors beyond this are not reported, because most of them follow from those before.
const MAX_ERRORS: usize = 20;

/// A mistake in a text.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) code: Code,
    pub(crate) range: TextRange,
    pub(crate) message: String,
    pub(crate) help: String,
    /// Another place that matters, with a phrase.
    pub(crate) label: Option<(TextRange, String)>,
}

/// Reads a file. The tree is whole only if there are no errors.
pub(crate) fn parse(text: &str, lexed: &LexedText) -> (LoomFile, Vec<SyntaxError>) {
    let errors = lexed.errors.iter().map(|error| SyntaxError {
        code: Code::Syntax,
        range: error.range,
        message: error.message.clone(),
        help: error.help.to_owned(),
        label: None,
    });
    let mut parser = Parser {
        text,
        tokens: &lexed.tokens,
        comments: &lexed.comments,
        at: 0,
        brackets: 0,
        depth: 0,
        n_blocks: 0,
        statement_start: 0,
        half_taken: usize::MAX,
        errors: errors.collect(),
        has_given_up: false,
        layout: Vec::new(),
        angles: Vec::new(),
        words: Vec::new(),
    };
    let items = parser.items();
    let Parser { mut errors, layout, angles, words, .. } = parser;
    errors.sort_by_key(|error| error.range.start());
    let mut last = None;
    errors.retain(|error| {
        let at = error.range.start().to_usize();
        let is_new_line = last.is_none_or(|last| text.get(last..at).is_some_and(|between| between.contains('\n')));
        if is_new_line {
            last = Some(at);
        }
        is_new_line
    });
    errors.truncate(MAX_ERRORS);
    (LoomFile { items, layout, angles, words }, errors)
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: &'a [LoomToken],
    comments: &'a [LoomComment],
    at: usize,
    /// The number of open brackets, inside which lines do not end statements.
    brackets: u32,
    depth: u32,
    n_blocks: u32,
    /// The index of the token that begins the statement.
    statement_start: usize,
    /// The index of a `>>` whose first half has closed a type.
    half_taken: usize,
    errors: Vec<SyntaxError>,
    /// True after [`Parser::give_up`]: what follows from that is no error of the text.
    has_given_up: bool,
    layout: Vec<(u32, u32)>,
    angles: Vec<u32>,
    words: Vec<u32>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> LoomToken {
        self.ahead(0)
    }

    /// The token after so many others; past the end, the last.
    fn ahead(&self, n: usize) -> LoomToken {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> TokenKind {
        self.token().kind
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.kind() == TokenKind::Keyword(keyword)
    }

    /// True if the next token belongs to the same statement.
    fn continues(&self) -> bool {
        let is_first = self.at == self.statement_start;
        self.kind() != TokenKind::End && (self.brackets > 0 || is_first || !self.token().begins_line)
    }

    fn bump(&mut self) -> LoomToken {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn take(&mut self, symbol: &str) -> Option<LoomToken> {
        (self.kind().is(symbol) && self.continues()).then(|| self.bump())
    }

    fn take_keyword(&mut self, keyword: Keyword) -> Option<LoomToken> {
        (self.is_keyword(keyword) && self.continues()).then(|| self.bump())
    }

    /// The end of what has been read.
    fn end(&self) -> usize {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].range.end().to_usize())
    }

    /// The range from an offset to the end of what has been read.
    fn since(&self, start: TextRange) -> TextRange {
        range(start.start().to_usize(), self.end())
    }

    fn text_of(&self, range: TextRange) -> &'a str {
        self.text.get(range.start().to_usize()..range.end().to_usize()).unwrap_or_default()
    }

    fn error(&mut self, code: Code, range: TextRange, message: impl Into<String>, help: impl Into<String>) {
        if !self.has_given_up {
            self.errors.push(SyntaxError { code, range, message: message.into(), help: help.into(), label: None });
        }
    }

    /// Says that something else should stand at the next token, or at the end of the line before it.
    fn expected(&mut self, what: &str, help: &str) {
        let token = self.token();
        let (place, found) = match token.kind {
            TokenKind::End => (range(self.end(), self.end()), "the text ends".to_owned()),
            _ if !self.continues() => (range(self.end(), self.end()), "the line ends".to_owned()),
            TokenKind::Keyword(_) => (token.range, format!("the word `{}` stands", self.text_of(token.range))),
            _ => (token.range, format!("`{}` stands", self.text_of(token.range))),
        };
        self.error(Code::Syntax, place, format!("{found} where {what} is expected"), help);
    }

    /// Takes a symbol, or says that it is missing.
    fn expect(&mut self, symbol: &str, help: &str) -> bool {
        let found = self.take(symbol).is_some();
        if !found {
            self.expected(&format!("`{symbol}`"), help);
        }
        found
    }

    fn ident(&mut self, what: &str, help: &str) -> Option<Ident> {
        let token = self.token();
        if token.kind == TokenKind::Name && self.continues() {
            self.bump();
            return Some(Ident { name: self.text_of(token.range).to_owned(), range: token.range });
        }
        if let TokenKind::Keyword(_) = token.kind
            && self.continues()
        {
            let word = self.text_of(token.range);
            self.error(
                Code::Syntax,
                token.range,
                format!("`{word}` is a word of the language and no name"),
                format!("choose another name: `{word}_`"),
            );
            self.bump();
            return Some(Ident { name: format!("{word}_"), range: token.range });
        }
        self.expected(what, help);
        None
    }

    /// Runs a part of the parser a level deeper, or gives up on the rest of the text if it is too deep.
    fn deeper<T>(&mut self, otherwise: T, read: impl FnOnce(&mut Parser<'a>) -> T) -> T {
        if self.depth >= MAX_DEPTH {
            self.give_up();
            return otherwise;
        }
        self.depth += 1;
        let made = read(self);
        self.depth -= 1;
        made
    }

    /// Reports that the text is nested too deeply, and reads no more of it.
    fn give_up(&mut self) {
        let at = self.token().range;
        let help = "split it: hold parts of long expressions in `let`, and move inner blocks to functions";
        self.error(Code::Limit, at, "the code is nested too deeply", help);
        self.at = self.tokens.len() - 1;
        self.brackets = 0;
        self.has_given_up = true;
    }

    /// Goes to the next line or the end of the block, past whatever stands before it in this line.
    fn skip_line(&mut self) {
        self.brackets = 0;
        let mut braces = 0u32;
        while self.kind() != TokenKind::End {
            let token = self.token();
            if braces == 0 && (token.begins_line || token.kind.is("}") || token.kind.is(";")) {
                return;
            }
            match token.kind {
                TokenKind::Symbol("{") => braces += 1,
                TokenKind::Symbol("}") => braces -= 1,
                _ => {}
            }
            self.bump();
        }
    }

    /// The column of the line in which the token with this index stands.
    fn line_column(&self, token: usize) -> u32 {
        let first = self.tokens[..=token].iter().rev().find(|token| token.begins_line);
        first.map_or(0, |token| token.column)
    }

    /// Notes that the next token begins a statement or an item.
    fn note_layout(&mut self) {
        self.layout.push((self.token().range.start().to_u32(), self.n_blocks));
    }

    /// Notes that the next token is a bracket of a type.
    fn note_angle(&mut self) {
        self.angles.push(self.token().range.start().to_u32());
    }

    /// Takes a name that is a word of the language here.
    fn bump_word(&mut self) -> LoomToken {
        self.words.push(self.token().range.start().to_u32());
        self.bump()
    }

    /// A block, whose header began at the token with this index.
    fn block(&mut self, header: usize) -> Block {
        self.brackets = 0;
        // A brace may stand in a line of its own.
        if !(self.kind().is("{") || self.continues() && self.kind().is(":")) {
            let help = match self.kind() {
                TokenKind::Symbol("=") => "compare with `==`",
                _ => "write `{ … }`, or `:` and an indented block",
            };
            self.expected("the block, `{` or `:`,", help);
            // The parser skips what precedes the block in this line.
            while self.continues() && !self.kind().is("{") && !self.kind().is(":") && !self.kind().is("}") {
                self.bump();
            }
            if !self.continues() || self.kind().is("}") {
                return Block::default();
            }
        }
        let opening = self.bump();
        self.n_blocks += 1;
        let block = self.deeper(Block::default(), |parser| match opening.kind.is("{") {
            true => parser.braced(opening),
            false => parser.indented(header),
        });
        self.n_blocks -= 1;
        block
    }

    fn braced(&mut self, opening: LoomToken) -> Block {
        let mut statements = Vec::new();
        loop {
            while self.kind().is(";") {
                self.bump();
            }
            if self.kind().is("}") {
                self.bump();
                return Block { statements };
            }
            if self.kind() == TokenKind::End {
                self.error(Code::Syntax, opening.range, "`{` is never closed", "close the block with `}`");
                return Block { statements };
            }
            let before = self.at;
            statements.extend(self.statement());
            self.end_statement();
            if self.at == before {
                self.bump();
            }
        }
    }

    /// The statements after a colon.
    fn indented(&mut self, header: usize) -> Block {
        let mut statements = Vec::new();
        if !self.token().begins_line {
            // They stand in the line of the colon.
            while self.continues() && !self.kind().is("}") {
                let before = self.at;
                statements.extend(self.statement());
                self.end_statement();
                while !self.token().begins_line && self.kind().is(";") {
                    self.bump();
                }
                if self.at == before {
                    self.bump();
                }
            }
            return Block { statements };
        }
        let outer = self.line_column(header);
        let column = self.token().column;
        if column <= outer || self.kind() == TokenKind::End || self.kind().is("}") {
            let colon = self.tokens[self.at - 1].range;
            let help = "indent its statements deeper than this line, or write `{ }` for an empty one";
            self.error(Code::Syntax, colon, "the block after `:` has no statements", help);
            return Block { statements };
        }
        loop {
            let token = self.token();
            if token.kind == TokenKind::End || token.kind.is("}") {
                return Block { statements };
            }
            if token.begins_line && token.column <= outer {
                return Block { statements };
            }
            if token.begins_line && token.column != column {
                let help = format!("indent it by {column} columns, as the statements before it");
                self.error(Code::Syntax, token.range, "this line is indented like no line of its block", help);
            }
            let before = self.at;
            statements.extend(self.statement());
            self.end_statement();
            while self.kind().is(";") {
                self.bump();
            }
            if self.at == before {
                self.bump();
            }
        }
    }

    /// Checks that a statement ends where it ends, and passes over what stands after it in its line.
    fn end_statement(&mut self) {
        self.brackets = 0;
        let token = self.token();
        if token.begins_line || token.kind == TokenKind::End || token.kind.is("}") || token.kind.is(";") {
            return;
        }
        let help = match token.kind {
            TokenKind::Symbol("=") => "compare with `==`; assign on a line of its own",
            TokenKind::Keyword(Keyword::If) => "write `if c then a else b` to choose a value",
            TokenKind::Symbol("&&" | "||" | "!") => "write `and`, `or` and `not`",
            TokenKind::Keyword(Keyword::For) => "write `for`, `serial for`, `reduce for` or `scan for`",
            TokenKind::Name if self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::Name => {
                "declare variables by `let` and `var`: `var x = 0.0`, `var x: f32`"
            }
            _ => "write one statement in a line, or `;` between two",
        };
        let text = self.text_of(token.range);
        self.error(Code::Syntax, token.range, format!("`{text}` stands where the statement should end"), help);
        self.skip_line();
    }

    fn rejected(&self, at: TextRange) -> Expr {
        Expr { kind: ExprKind::Error, range: at }
    }
}

impl Ranged for LoomToken {
    fn range(&self) -> TextRange {
        self.range
    }
}
