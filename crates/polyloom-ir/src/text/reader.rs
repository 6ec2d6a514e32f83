//! Walking the tokens of HIR text: the pieces of the grammar that stand in many places.

use super::lexer::{HirToken, TokenKind, lex, unquote};
use crate::diagnostic::{Code, Diagnostic};
use crate::entity::{FuncId, Inst};
use crate::span::{FileId, Span};
use crate::types::{AddressSpace, Composite, Scalar, Type};
use rustc_hash::FxHashMap;

/// An error has been reported and its construct given up.
pub(super) struct SyntaxFailure;

pub(super) type Parsed<T> = Result<T, SyntaxFailure>;

/// Names another function in one of these ways.
pub(super) enum CalleeUse {
    Call(Inst),
    Gradient,
    Replay,
}

/// Says where the reading of a text stands.
pub(super) struct HirReader<'t> {
    pub(super) text: &'t str,
    pub(super) file: FileId,
    pub(super) tokens: Vec<HirToken>,
    pub(super) at: usize,
    pub(super) errors: Vec<Diagnostic>,
    /// The first function of each name.
    pub(super) functions: FxHashMap<String, FuncId>,
    /// Functions that name others and the names of these, resolved at the end of the module.
    pub(super) calls: Vec<(FuncId, CalleeUse, String, Span)>,
}

impl<'t> HirReader<'t> {
    pub(super) fn new(text: &'t str, file: FileId) -> HirReader<'t> {
        let (errors, calls) = (Vec::new(), Vec::new());
        HirReader { text, file, tokens: lex(text), at: 0, errors, functions: FxHashMap::default(), calls }
    }

    pub(super) fn peek(&self) -> HirToken {
        self.tokens[self.at]
    }

    /// The current token, and a step to the next; the end of the text is never passed.
    pub(super) fn next(&mut self) -> HirToken {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    pub(super) fn str(&self, token: HirToken) -> &'t str {
        &self.text[token.start as usize..token.end as usize]
    }

    pub(super) fn span(&self, token: HirToken) -> Span {
        Span::new(self.file, token.start, token.end)
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.errors.push(Diagnostic::error(Code::HirSyntax, span, message));
    }

    pub(super) fn fail<T>(&mut self, token: HirToken, message: impl Into<String>) -> Parsed<T> {
        self.error(self.span(token), message);
        Err(SyntaxFailure)
    }

    pub(super) fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let token = self.peek();
        let found = match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            TokenKind::Unknown if self.str(token).starts_with(['"', '@']) => {
                "a string without its closing quote".to_owned()
            }
            _ => format!("`{}`", self.str(token)),
        };
        self.fail(token, format!("expected {what}, found {found}"))
    }

    pub(super) fn eat(&mut self, mark: &'static str) -> bool {
        let found = self.peek().kind == TokenKind::Mark(mark);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: &'static str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let token = self.peek();
        let found = token.kind == TokenKind::Word && self.str(token) == word;
        self.at += usize::from(found);
        found
    }

    pub(super) fn kind(&mut self, kind: TokenKind, what: &str) -> Parsed<HirToken> {
        if self.peek().kind == kind { Ok(self.next()) } else { self.expected(what) }
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Parsed<T> {
        let token = self.kind(TokenKind::Number, what)?;
        match self.str(token).parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fail(token, format!("`{}` is not {what}", self.str(token))),
        }
    }

    pub(super) fn string(&mut self, what: &str) -> Parsed<String> {
        let token = self.kind(TokenKind::Str, what)?;
        self.unquoted(token, self.str(token))
    }

    fn unquoted(&mut self, token: HirToken, text: &str) -> Parsed<String> {
        match unquote(text) {
            Some(text) => Ok(text),
            None => self.fail(token, "malformed escape in a string"),
        }
    }

    /// A word or a string.
    pub(super) fn name(&mut self, what: &str) -> Parsed<String> {
        let token = self.peek();
        match token.kind {
            TokenKind::Word => {
                self.next();
                Ok(self.str(token).to_owned())
            }
            TokenKind::Str => self.string(what),
            _ => self.expected(what),
        }
    }

    pub(super) fn function_name(&mut self) -> Parsed<(String, Span)> {
        let token = self.kind(TokenKind::Func, "`@` and a function's name")?;
        let text = &self.str(token)[1..];
        let name = if text.starts_with('"') { self.unquoted(token, text)? } else { text.to_owned() };
        Ok((name, self.span(token)))
    }

    pub(super) fn ty(&mut self) -> Parsed<Type> {
        if self.eat_word("array") {
            self.expect("<")?;
            let elem = self.value_ty()?;
            self.expect(",")?;
            let ndim = self.number("a number of dimensions")?;
            let space = if self.eat(",") { self.space()? } else { AddressSpace::Global };
            self.expect(">")?;
            return Ok(match elem {
                Type::Composite(elem) => Type::CompositeArray { elem, ndim, space },
                elem => Type::Array { elem: elem.as_scalar().unwrap_or(Scalar::F32), ndim, space },
            });
        }
        self.value_ty()
    }

    fn space(&mut self) -> Parsed<AddressSpace> {
        let token = self.kind(TokenKind::Word, "an address space")?;
        match AddressSpace::from_name(self.str(token)) {
            Some(space) => Ok(space),
            None => self.fail(token, format!("`{}` is not an address space", self.str(token))),
        }
    }

    /// A scalar or a composite.
    fn value_ty(&mut self) -> Parsed<Type> {
        let composite = ["vec", "mat", "quat", "transform"].into_iter().find(|word| self.eat_word(word));
        let Some(composite) = composite else { return Ok(Type::Scalar(self.scalar()?)) };
        self.expect("<")?;
        let elem = self.scalar()?;
        let composite = match composite {
            "vec" => {
                self.expect(",")?;
                Composite::Vector { elem, len: self.number("a number of components")? }
            }
            "mat" => {
                self.expect(",")?;
                let rows = self.number("a number of rows")?;
                self.expect(",")?;
                Composite::Matrix { elem, rows, cols: self.number("a number of columns")? }
            }
            "quat" => Composite::Quaternion { elem },
            _ => Composite::Transform { elem },
        };
        self.expect(">")?;
        Ok(Type::Composite(composite))
    }

    fn scalar(&mut self) -> Parsed<Scalar> {
        let token = self.kind(TokenKind::Word, "a type")?;
        match Scalar::from_name(self.str(token)) {
            Some(scalar) => Ok(scalar),
            None => self.fail(token, format!("`{}` is not a type", self.str(token))),
        }
    }

    /// `!…`, or the span of the text from token number `first` to the last one read.
    pub(super) fn source(&mut self, first: usize) -> Parsed<Span> {
        let own = Span::new(self.file, self.tokens[first].start, self.tokens[self.at.max(first + 1) - 1].end);
        if !self.eat("!") {
            return Ok(own);
        }
        if self.eat_word("none") {
            return Ok(Span::NONE);
        }
        let token = self.peek();
        let file: u32 = self.number("a file's number")?;
        self.expect(":")?;
        let start = self.number("a byte offset")?;
        self.expect("..")?;
        let end = self.number("a byte offset")?;
        // The largest number is refused, because maps reserve that handle.
        if file == u32::MAX {
            return self.fail(token, "this file number is reserved");
        }
        Ok(Span::new(FileId::from_u32(file), start, end))
    }
}
