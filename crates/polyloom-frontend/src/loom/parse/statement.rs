//! Statements and their annotations.

use super::Parser;
use crate::loom::syntax::{Annotation, BinaryOp, Block, Expr, ExprKind, ForLoop, Ident, LoopIndex, Stmt, StmtKind};
use crate::loom::token::{Keyword, TokenKind};
use polyloom_ir::Code;

const UPDATES: [(&str, BinaryOp); 11] = [
    ("+=", BinaryOp::Add),
    ("-=", BinaryOp::Sub),
    ("*=", BinaryOp::Mul),
    ("/=", BinaryOp::Div),
    ("%=", BinaryOp::Mod),
    ("**=", BinaryOp::Pow),
    ("<<=", BinaryOp::Lshift),
    (">>=", BinaryOp::Rshift),
    ("&=", BinaryOp::And),
    ("|=", BinaryOp::Or),
    ("^=", BinaryOp::Xor),
];

impl Parser<'_> {
    /// A statement, unless nothing of it can be read.
    pub(super) fn statement(&mut self) -> Option<Stmt> {
        self.note_layout();
        let header = self.at;
        // A token that begins a statement continues none, whatever line it begins.
        self.statement_start = header;
        let start = self.token().range;
        let annotations = match self.kind().is("@") {
            true => self.annotations(),
            false => Vec::new(),
        };
        if self.at != header && self.token().begins_line {
            self.note_layout();
        }
        self.statement_start = self.at;
        let word = match self.kind() {
            TokenKind::Keyword(word) => Some(word),
            // `reduce` and `scan` are words of the language before `for` alone.
            TokenKind::Name if self.is_reduction() => Some(Keyword::For),
            _ => None,
        };
        if !annotations.is_empty() && !matches!(word, Some(Keyword::For | Keyword::Serial)) {
            let at = annotations[0].range;
            self.error(Code::Syntax, at, "an annotation here belongs to no loop", "write it before a `for`");
        }
        let kind = match word {
            Some(Keyword::Let | Keyword::Var) => self.declaration(),
            Some(Keyword::If) => self.branches(header),
            Some(Keyword::For | Keyword::Serial) => self.for_loop(annotations, header),
            Some(Keyword::While) => {
                self.bump();
                let cond = self.expr();
                StmtKind::While { cond, body: self.block(header) }
            }
            Some(Keyword::Break) => {
                self.bump();
                StmtKind::Break
            }
            Some(Keyword::Continue) => {
                self.bump();
                StmtKind::Continue
            }
            Some(Keyword::Return) => {
                self.bump();
                let has_value = self.continues() && !self.kind().is("}") && !self.kind().is(";");
                StmtKind::Return(if has_value { self.expressions() } else { Vec::new() })
            }
            Some(Keyword::Assert) => {
                self.bump();
                let cond = self.expr();
                let message = self.take(",").map(|_| self.expr());
                StmtKind::Assert { cond, message }
            }
            _ => self.expression_statement()?,
        };
        Some(Stmt { kind, range: self.since(start) })
    }

    fn declaration(&mut self) -> StmtKind {
        let is_var = self.bump().kind == TokenKind::Keyword(Keyword::Var);
        let usage = if is_var { "write `var x = 0.0`" } else { "write `let x = 0.0`" };
        let mut targets: Vec<Ident> = Vec::new();
        targets.extend(self.ident("a name", usage));
        while self.take(",").is_some() {
            targets.extend(self.ident("a name", usage));
        }
        let ty = self.take(":").and_then(|_| self.type_expr());
        let value = self.take("=").map(|_| self.value());
        // An array is declared by its type alone, and its elements are set later.
        let is_array = ty.as_ref().is_some_and(|ty| matches!(&ty.path[..], [only] if only.name == "array"));
        if value.is_none() && is_array {
        } else if value.is_none() && !is_var {
            self.expected("`=` and a value", "`let` gives a name a value: `let x = 0.0`");
        } else if value.is_none() && ty.is_none() {
            self.expected("`=` and a value, or `:` and a type,", "write `var x = 0.0` or `var x: f32`");
        }
        StmtKind::Declare { is_var, targets, ty, value }
    }

    /// One expression, or several with commas as a tuple.
    fn value(&mut self) -> Expr {
        let start = self.token().range;
        let mut values = self.expressions();
        match values.len() {
            1 => values.swap_remove(0),
            _ => Expr { kind: ExprKind::Tuple(values), range: self.since(start) },
        }
    }

    fn expressions(&mut self) -> Vec<Expr> {
        let mut values = vec![self.expr()];
        while self.take(",").is_some() {
            values.push(self.expr());
        }
        values
    }

    fn branches(&mut self, header: usize) -> StmtKind {
        self.bump();
        let cond = self.expr();
        let mut branches = vec![(cond, self.block(header))];
        let column = self.line_column(header);
        loop {
            // An `else` may begin a line: then it stands under its `if`, or in a block of braces.
            let token = self.token();
            let is_mine = !token.begins_line || token.column >= column;
            if is_mine && token.begins_line && matches!(token.kind, TokenKind::Keyword(Keyword::Elif | Keyword::Else)) {
                self.note_layout();
            }
            match token.kind {
                TokenKind::Keyword(Keyword::Elif) if is_mine => {
                    self.bump();
                }
                TokenKind::Keyword(Keyword::Else) if is_mine => {
                    self.bump();
                    if self.take_keyword(Keyword::If).is_none() {
                        let otherwise = Some(self.block(header));
                        return StmtKind::If { branches, otherwise };
                    }
                }
                _ => return StmtKind::If { branches, otherwise: None },
            }
            let cond = self.expr();
            branches.push((cond, self.block(header)));
        }
    }

    fn is_reduction(&self) -> bool {
        let next = self.ahead(1);
        next.kind == TokenKind::Keyword(Keyword::For)
            && !next.begins_line
            && matches!(self.text_of(self.token().range), "reduce" | "scan")
    }

    fn for_loop(&mut self, annotations: Vec<Annotation>, header: usize) -> StmtKind {
        let start = self.token().range;
        let is_serial = self.is_keyword(Keyword::Serial);
        let reduce = self.is_reduction().then_some(start);
        let is_scan = reduce.is_some() && self.text_of(start) == "scan";
        if reduce.is_some() {
            self.bump_word();
        } else if is_serial {
            self.bump();
        }
        if self.is_keyword(Keyword::For) {
            self.bump();
        } else {
            self.expected("`for`", "write `serial for i in 0..n { … }`");
        }
        let mut indices = Vec::new();
        while let Some(name) = self.ident("an index", "write `for i in 0..n`") {
            if self.take_keyword(Keyword::In).is_none() {
                self.expected("`in`", "write `for i in 0..n`");
                break;
            }
            let first = self.sum();
            let is_inclusive = self.kind().is("..=");
            if self.take("..").is_none() && self.take("..=").is_none() {
                let range = first.range;
                // `range(n)` is how Python says it.
                let text = match &first.kind {
                    ExprKind::Call { function, arguments, .. } if function.as_name() == Some("range") => {
                        arguments.first().map_or("n", |argument| self.text_of(argument.value.range))
                    }
                    _ => self.text_of(range),
                };
                let help = format!("write a range: `for {} in 0..{text}`", name.name);
                if matches!(first.kind, ExprKind::Error) {
                    break;
                }
                self.error(Code::Syntax, range, "a loop runs over a range", help);
                break;
            }
            let end = self.sum();
            let step = self.step();
            indices.push(LoopIndex { name, start: first, end, is_inclusive, step });
            if self.take(",").is_none() {
                break;
            }
        }
        let range = self.since(start);
        let body = self.block(header);
        if indices.is_empty() {
            return StmtKind::If { branches: Vec::new(), otherwise: Some(Block { statements: body.statements }) };
        }
        StmtKind::For(ForLoop { annotations, is_serial, reduce, is_scan, indices, body, header: range })
    }

    pub(super) fn annotations(&mut self) -> Vec<Annotation> {
        let mut annotations = Vec::new();
        while self.kind().is("@") {
            let start = self.bump().range;
            let Some(name) = self.annotation_name() else {
                self.expected("the name of an annotation", "write `@workgroup(16, 16)`");
                self.skip_line();
                continue;
            };
            let has_arguments = self.kind().is("(") && !self.token().begins_line;
            let arguments = if has_arguments { self.arguments() } else { Vec::new() };
            annotations.push(Annotation { name, arguments, range: self.since(start) });
        }
        annotations
    }

    /// The name of an annotation, which may be a keyword: `@kernel(matmul)`.
    fn annotation_name(&mut self) -> Option<Ident> {
        let token = self.token();
        if token.begins_line || !matches!(token.kind, TokenKind::Name | TokenKind::Keyword(_)) {
            return None;
        }
        self.bump();
        Some(Ident { name: self.text_of(token.range).to_owned(), range: token.range })
    }

    fn expression_statement(&mut self) -> Option<StmtKind> {
        let start = self.token();
        let is_value = matches!(start.kind, TokenKind::Name | TokenKind::Int | TokenKind::Float | TokenKind::Text)
            || matches!(start.kind, TokenKind::Symbol("(" | "-" | "+" | "~"))
            || matches!(start.kind, TokenKind::Keyword(Keyword::True | Keyword::False | Keyword::Not));
        if !is_value {
            let text = self.text_of(start.range);
            let (message, help) = match start.kind {
                TokenKind::Keyword(Keyword::Else | Keyword::Elif) => {
                    (format!("`{text}` belongs to no `if`"), "write it under the `if` that it belongs to")
                }
                TokenKind::Keyword(Keyword::Fn | Keyword::Kernel | Keyword::Compute | Keyword::Struct) => (
                    format!("`{text}` stands inside a function"),
                    "close the blocks before it: functions stand at the top of a file",
                ),
                TokenKind::Symbol("*" | "/" | "%" | "." | "==" | "<" | ">" | "|" | "&" | "^" | "**")
                | TokenKind::Keyword(Keyword::And | Keyword::Or) => (
                    format!("a line cannot begin with `{text}`"),
                    "put the operator at the end of the line before, or the expression in parentheses",
                ),
                TokenKind::Unknown => (format!("`{text}` begins no statement"), "remove it"),
                _ => (
                    format!("`{text}` begins no statement"),
                    "statements are declarations, assignments, calls, `if`, `for`, `while`",
                ),
            };
            self.error(Code::Syntax, start.range, message, help);
            self.bump();
            self.skip_line();
            return None;
        }
        let first = self.expr();
        if let Some((_, op)) = UPDATES.iter().find(|(symbol, _)| self.kind().is(symbol) && self.continues()) {
            self.bump_operator();
            return Some(StmtKind::Update { target: first, op: *op, value: self.expr() });
        }
        if !(self.continues() && (self.kind().is("=") || self.kind().is(","))) {
            return Some(StmtKind::Expr(first));
        }
        let mut targets = vec![first];
        while self.take(",").is_some() {
            targets.push(self.expr());
        }
        if !self.expect("=", "write `a, b = f(x)` to assign several values") {
            return None;
        }
        Some(StmtKind::Assign { targets, value: self.value() })
    }
}
