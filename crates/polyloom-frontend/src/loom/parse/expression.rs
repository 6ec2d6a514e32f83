//! Expressions and types.

use super::{MAX_CHAIN, Parser};
use crate::loom::syntax::{Argument, BinaryOp, CompareOp, Expr, ExprKind, Ident, TypeArgument, TypeExpr, UnaryOp};
use crate::loom::token::{Keyword, TokenKind};
use polyloom_ir::Code;
use ruff_text_size::TextRange;

/// Binary operators that bind alike, loosest first. Comparisons are looser, unary operators and `**` tighter.
const LEVELS: [&[(&str, BinaryOp)]; 6] = [
    &[("|", BinaryOp::Or)],
    &[("^", BinaryOp::Xor)],
    &[("&", BinaryOp::And)],
    &[("<<", BinaryOp::Lshift), (">>", BinaryOp::Rshift)],
    &[("+", BinaryOp::Add), ("-", BinaryOp::Sub)],
    &[("*", BinaryOp::Mul), ("/", BinaryOp::Div), ("%", BinaryOp::Mod)],
];

/// The level of sums, which bounds of types and ranges are.
const SUM: usize = 4;

const COMPARISONS: [(&str, CompareOp); 6] = [
    ("<", CompareOp::Lt),
    ("<=", CompareOp::Le),
    (">", CompareOp::Gt),
    (">=", CompareOp::Ge),
    ("==", CompareOp::Eq),
    ("!=", CompareOp::Ne),
];

impl<'a> Parser<'a> {
    /// An expression: `if … then … else …`, or conditions with `or`, `and`, `not`.
    pub(super) fn expr(&mut self) -> Expr {
        let at = self.token().range;
        let rejected = self.rejected(at);
        self.deeper(rejected, Parser::choice)
    }

    fn choice(&mut self) -> Expr {
        let start = self.token().range;
        if self.take_keyword(Keyword::If).is_none() {
            return self.logic(false);
        }
        let cond = self.logic(false);
        let usage = "write `if c then a else b`";
        if self.take_keyword(Keyword::Then).is_none() {
            self.expected("`then`", usage);
            return self.rejected(start);
        }
        let then = self.expr();
        if self.take_keyword(Keyword::Else).is_none() {
            self.expected("`else`", usage);
            return self.rejected(start);
        }
        let otherwise = self.expr();
        Expr { kind: ExprKind::Select(Box::new([cond, then, otherwise])), range: self.since(start) }
    }

    /// Terms between `or` or, tighter, between `and`.
    fn logic(&mut self, all: bool) -> Expr {
        let start = self.token().range;
        let term = |parser: &mut Self| if all { parser.negation() } else { parser.logic(true) };
        let first = term(self);
        let (word, symbol) = if all { (Keyword::And, "&&") } else { (Keyword::Or, "||") };
        let mut terms = vec![first];
        loop {
            if self.kind().is(symbol) && self.continues() {
                let (at, written) = (self.token().range, if all { "and" } else { "or" });
                self.error(Code::Syntax, at, format!("`{symbol}` is no operator"), format!("write `{written}`"));
            } else if !(self.is_keyword(word) && self.continues()) {
                break;
            }
            self.bump_operator();
            terms.push(term(self));
        }
        match terms.len() {
            1 => terms.swap_remove(0),
            _ => Expr { kind: ExprKind::Logic(all, terms), range: self.since(start) },
        }
    }

    fn negation(&mut self) -> Expr {
        let start = self.token().range;
        if self.kind().is("!") && self.continues() {
            self.error(Code::Syntax, start, "`!` is no operator", "write `not`");
            self.bump();
            return self.negated(start);
        }
        match self.take_keyword(Keyword::Not) {
            Some(_) => self.negated(start),
            None => self.comparison(),
        }
    }

    fn negated(&mut self, start: TextRange) -> Expr {
        let rejected = self.rejected(start);
        let operand = self.deeper(rejected, Parser::negation);
        Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(operand)), range: self.since(start) }
    }

    fn comparison(&mut self) -> Expr {
        let start = self.token().range;
        let first = self.binary(0);
        let mut rest = Vec::new();
        while let Some((_, op)) = COMPARISONS.iter().find(|(symbol, _)| self.kind().is(symbol) && self.continues()) {
            self.bump_operator();
            rest.push((*op, self.binary(0)));
            if rest.len() > MAX_CHAIN as usize {
                self.give_up();
            }
        }
        match rest.len() {
            0 => first,
            _ => Expr { kind: ExprKind::Compare(Box::new(first), rest), range: self.since(start) },
        }
    }

    /// Operators of a level or tighter.
    fn binary(&mut self, level: usize) -> Expr {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let start = self.token().range;
        let mut left = self.binary(level + 1);
        let mut n_operators = 0;
        while let Some((_, op)) = operators.iter().find(|(symbol, _)| self.kind().is(symbol) && self.continues()) {
            self.refuse_increment();
            self.bump_operator();
            let right = self.binary(level + 1);
            let kind = ExprKind::Binary(*op, Box::new(left), Box::new(right));
            left = Expr { kind, range: self.since(start) };
            n_operators += 1;
            if n_operators > MAX_CHAIN {
                self.give_up();
            }
        }
        left
    }

    /// Takes an operator; its operand may stand in the next line.
    pub(super) fn bump_operator(&mut self) {
        self.bump();
        self.statement_start = self.at;
    }

    /// Reports `x++` and `x--`.
    fn refuse_increment(&mut self) {
        let (first, second, after) = (self.token(), self.ahead(1), self.ahead(2));
        let is_twice = (first.kind.is("+") || first.kind.is("-")) && second.kind == first.kind;
        let ends = after.begins_line || after.kind.is("}") || after.kind.is(";") || after.kind.is(")");
        if is_twice && ends && first.range.end() == second.range.start() {
            let symbol = self.text_of(first.range);
            let message = format!("`{symbol}{symbol}` is no operator");
            self.error(Code::Syntax, first.range.cover(second.range), message, format!("write `x {symbol}= 1`"));
            self.bump();
        }
    }

    /// A sum, as bounds are, which takes no comparison: `array<f32, n + 1>`.
    pub(super) fn sum(&mut self) -> Expr {
        let at = self.token().range;
        let rejected = self.rejected(at);
        self.deeper(rejected, |parser| match parser.is_keyword(Keyword::If) {
            true => parser.choice(),
            false => parser.binary(SUM),
        })
    }

    fn unary(&mut self) -> Expr {
        let start = self.token().range;
        let op = match self.kind() {
            _ if !self.continues() => None,
            TokenKind::Symbol("-") => Some(UnaryOp::Negate),
            TokenKind::Symbol("+") => Some(UnaryOp::Plus),
            TokenKind::Symbol("~") => Some(UnaryOp::Invert),
            _ => None,
        };
        let Some(op) = op else { return self.power() };
        self.bump();
        let rejected = self.rejected(start);
        let operand = self.deeper(rejected, Parser::unary);
        Expr { kind: ExprKind::Unary(op, Box::new(operand)), range: self.since(start) }
    }

    /// `a ** b`, from right to left, with signs in the exponent.
    fn power(&mut self) -> Expr {
        let start = self.token().range;
        let base = self.postfix();
        if !(self.kind().is("**") && self.continues()) {
            return base;
        }
        self.bump_operator();
        let rejected = self.rejected(start);
        let exponent = self.deeper(rejected, Parser::unary);
        Expr { kind: ExprKind::Binary(BinaryOp::Pow, Box::new(base), Box::new(exponent)), range: self.since(start) }
    }

    /// Calls, indices and members.
    fn postfix(&mut self) -> Expr {
        let start = self.token().range;
        let mut expr = self.primary();
        let mut n_parts = 0;
        loop {
            let token = self.token();
            if !self.continues() {
                return expr;
            }
            expr = match token.kind {
                TokenKind::Symbol("(") => {
                    let arguments = self.arguments();
                    let parentheses = self.since(token.range);
                    let kind = ExprKind::Call { function: Box::new(expr), arguments, parentheses };
                    Expr { kind, range: self.since(start) }
                }
                TokenKind::Symbol("[") => {
                    let indices = self.list("[", "]", Parser::index);
                    if indices.is_empty() {
                        let at = self.since(token.range);
                        self.error(Code::Syntax, at, "there is no index", "write one for each axis: `a[i, j]`");
                    }
                    Expr { kind: ExprKind::Index(Box::new(expr), indices), range: self.since(start) }
                }
                TokenKind::Symbol(".") => {
                    self.bump();
                    let Some(member) = self.ident("a member", "write its name after the point") else { return expr };
                    if matches!(expr.kind, ExprKind::Int(..) | ExprKind::Float(..)) {
                        let help = "multiply by `*`; a number may end with its type: `1.0f32`";
                        self.error(Code::Syntax, member.range, "a number has no members", help);
                    }
                    Expr { kind: ExprKind::Member(Box::new(expr), member), range: self.since(start) }
                }
                _ => return expr,
            };
            n_parts += 1;
            if n_parts > MAX_CHAIN {
                self.give_up();
            }
        }
    }

    /// Things between brackets with commas.
    pub(super) fn list<T>(&mut self, open: &str, close: &str, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let opening = self.token();
        let mut made = Vec::new();
        if !self.expect(open, "open it") {
            return made;
        }
        self.brackets += 1;
        loop {
            if self.take(close).is_some() {
                break;
            }
            let before = self.at;
            made.push(read(self));
            if self.take(",").is_some() {
                continue;
            }
            if self.take(close).is_some() {
                break;
            }
            // A token that begins a statement or ends a block in a line of its own is not between the brackets.
            let is_outside = self.token().begins_line
                && (self.kind().is("}") || self.kind().is("@") || matches!(self.kind(), TokenKind::Keyword(_)));
            if self.kind() == TokenKind::End || is_outside {
                let text = self.text_of(opening.range);
                self.error(Code::Syntax, opening.range, format!("`{text}` is never closed"), "close the bracket");
                break;
            }
            self.expected(&format!("`,` or `{close}`"), "separate them by commas");
            // The bracket is left alone at the next line that may be a statement of its own.
            if self.at == before || self.token().begins_line {
                break;
            }
            let mut open_brackets = 0u32;
            while self.kind() != TokenKind::End && !self.token().begins_line {
                match self.kind() {
                    TokenKind::Symbol("(" | "[" | "{") => open_brackets += 1,
                    kind if open_brackets == 0 && (kind.is(close) || kind.is(",")) => break,
                    TokenKind::Symbol(")" | "]" | "}") => open_brackets = open_brackets.saturating_sub(1),
                    _ => {}
                }
                self.bump();
            }
            if self.take(",").is_none() {
                self.take(close);
                break;
            }
        }
        self.brackets = self.brackets.saturating_sub(1);
        made
    }

    pub(super) fn arguments(&mut self) -> Vec<Argument> {
        self.list("(", ")", |parser| {
            let is_named = parser.kind() == TokenKind::Name && parser.ahead(1).kind.is("=");
            let name = match is_named {
                true => {
                    let name = parser.ident("a name", "name the argument");
                    parser.bump();
                    name
                }
                false => None,
            };
            let start = parser.token().range;
            if parser.take("*").is_some() {
                let value = Expr { kind: ExprKind::Spread(Box::new(parser.expr())), range: parser.since(start) };
                return Argument { name, value };
            }
            Argument { name, value: parser.expr() }
        })
    }

    /// An index, or a range of such.
    fn index(&mut self) -> Expr {
        let start = self.token().range;
        let first = match self.kind().is("..") {
            true => None,
            false => Some(Box::new(self.expr())),
        };
        if self.take("..").is_none() {
            return first.map_or_else(|| self.rejected(start), |first| *first);
        }
        let ends = self.kind().is(",") || self.kind().is("]") || self.is_step();
        let last = (!ends).then(|| Box::new(self.sum()));
        let step = self.step().map(Box::new);
        Expr { kind: ExprKind::Range([first, last, step]), range: self.since(start) }
    }

    /// Returns true at the word `step`, which is one of the language after a range alone.
    fn is_step(&self) -> bool {
        self.kind() == TokenKind::Name && self.continues() && self.text_of(self.token().range) == "step"
    }

    /// The step of a range, if it says one.
    pub(super) fn step(&mut self) -> Option<Expr> {
        self.is_step().then(|| {
            self.bump_word();
            self.sum()
        })
    }

    fn primary(&mut self) -> Expr {
        let token = self.token();
        if !self.continues() {
            self.expected(
                "a value",
                "write a number, a name or a call; an operator at the end of a line goes on in the next",
            );
            return self.rejected(token.range);
        }
        let kind = match token.kind {
            TokenKind::Int => self.integer(token.range),
            TokenKind::Float => self.float(token.range),
            TokenKind::Text => ExprKind::Text(unescape(self.text_of(token.range))),
            TokenKind::Keyword(Keyword::True) => ExprKind::Bool(true),
            TokenKind::Keyword(Keyword::False) => ExprKind::Bool(false),
            TokenKind::Name => ExprKind::Name(self.text_of(token.range).to_owned()),
            TokenKind::Unknown => ExprKind::Error,
            TokenKind::Symbol("(") => {
                let mut values = self.list("(", ")", Parser::expr);
                let is_tuple =
                    values.len() != 1 || self.tokens[..self.at].iter().rev().nth(1).is_some_and(|t| t.kind.is(","));
                if is_tuple {
                    return Expr { kind: ExprKind::Tuple(values), range: self.since(token.range) };
                }
                // The parentheses are part of no node, but the place of what stands in them is theirs.
                let inner = values.swap_remove(0);
                return Expr { kind: inner.kind, range: self.since(token.range) };
            }
            _ => {
                let help = match token.kind {
                    TokenKind::Symbol("[") => {
                        "`zeros(shape=3, dtype=f32)` makes an array, `vec3(1.0, 2.0, 3.0)` a vector"
                    }
                    _ => "write a number, a name or a call",
                };
                self.expected("a value", help);
                return self.rejected(token.range);
            }
        };
        self.bump();
        Expr { kind, range: token.range }
    }

    fn integer(&mut self, at: TextRange) -> ExprKind {
        let (digits, suffix) = split_suffix(self.text_of(at), true);
        let digits = digits.replace('_', "");
        let lower = digits.to_ascii_lowercase();
        let parsed = match lower.get(..2) {
            Some("0x") => u64::from_str_radix(&lower[2..], 16),
            Some("0b") => u64::from_str_radix(&lower[2..], 2),
            Some("0o") => u64::from_str_radix(&lower[2..], 8),
            _ => lower.parse(),
        };
        match parsed {
            Ok(value) => ExprKind::Int(value, suffix),
            Err(_) => {
                let help = "the largest integer type is `u64`; write a float such as `1.0e30`";
                self.error(Code::ConstantRange, at, "this number is no integer of 64 bits", help);
                ExprKind::Error
            }
        }
    }

    fn float(&mut self, at: TextRange) -> ExprKind {
        let (digits, suffix) = split_suffix(self.text_of(at), false);
        match digits.replace('_', "").parse() {
            Ok(value) => ExprKind::Float(value, suffix),
            Err(_) => {
                self.error(Code::Syntax, at, "this is no number", "write `1.5` or `1.5e-3`");
                ExprKind::Error
            }
        }
    }

    /// A type.
    pub(super) fn type_expr(&mut self) -> Option<TypeExpr> {
        self.deeper(None, Parser::read_type)
    }

    fn read_type(&mut self) -> Option<TypeExpr> {
        let start = self.token().range;
        let help = "types are `f32`, `i32`, `bool`, `vec3`, structs, and arrays such as `array<f32, n>`";
        let mut path: Vec<Ident> = vec![self.ident("a type", help)?];
        while self.take(".").is_some() {
            path.push(self.ident("a name", help)?);
        }
        let mut arguments = Vec::new();
        if self.kind().is("<") && self.continues() {
            arguments = self.type_arguments();
        }
        Some(TypeExpr { path, arguments, range: self.since(start) })
    }

    fn type_arguments(&mut self) -> Vec<TypeArgument> {
        self.note_angle();
        let opening = self.bump();
        self.brackets += 1;
        let mut arguments = Vec::new();
        loop {
            if self.close_angle() {
                break;
            }
            let is_type = self.kind() == TokenKind::Name && self.ahead(1).kind.is("<");
            let argument = match is_type {
                true => self.type_expr().map(TypeArgument::Type),
                false => Some(TypeArgument::Value(self.sum())),
            };
            let Some(argument) = argument else { break };
            let failed = matches!(&argument, TypeArgument::Value(Expr { kind: ExprKind::Error, .. }));
            arguments.push(argument);
            if failed || self.take(",").is_some() {
                if failed {
                    break;
                }
                continue;
            }
            if !self.close_angle() {
                self.expected("`,` or `>`", "close the type with `>`");
                if self.kind() == TokenKind::End {
                    self.error(Code::Syntax, opening.range, "`<` is never closed", "close the type with `>`");
                }
            }
            break;
        }
        self.brackets = self.brackets.saturating_sub(1);
        arguments
    }

    /// Takes `>`. Of `>>` and `>=`, which the types before a default or inside another end with, that is the first half.
    fn close_angle(&mut self) -> bool {
        if self.kind().is(">") || self.kind().is(">>") {
            self.note_angle();
        }
        if self.take(">").is_some() {
            return true;
        }
        if self.kind().is(">>") && self.half_taken != self.at {
            self.half_taken = self.at;
            return true;
        }
        if self.kind().is(">>") {
            self.bump();
            return true;
        }
        false
    }
}

/// A number's digits, and the type it ends with.
fn split_suffix(text: &str, is_integer: bool) -> (&str, Option<String>) {
    let is_hex = is_integer && text.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("0x"));
    let known = crate::loom::types::SCALARS.iter().map(|(name, _)| *name);
    let mut found = known.filter(|name| text.ends_with(name) && text.len() > name.len());
    match found.by_ref().max_by_key(|name| name.len()) {
        // `0xbf16` is a number.
        Some(suffix) if !is_hex || suffix.starts_with(['i', 'u']) => {
            (&text[..text.len() - suffix.len()], Some(suffix.to_owned()))
        }
        _ => (text, None),
    }
}

/// Returns what a text in quotes stands for.
fn unescape(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').unwrap_or(quoted);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('0') => text.push('\0'),
                Some(other) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    text
}
