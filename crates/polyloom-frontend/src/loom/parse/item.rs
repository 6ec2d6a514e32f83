//! Parses what a file declares.

use super::Parser;
use crate::loom::syntax::{
    Constant, FunctionItem, FunctionKeyword, Ident, Import, Item, Param, StructItem, TypeAlias, TypeExpr,
};
use crate::loom::token::{Keyword, TokenKind};
use polyloom_ir::Code;
use ruff_text_size::TextRange;

impl Parser<'_> {
    pub(super) fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while self.kind() != TokenKind::End {
            self.brackets = 0;
            self.statement_start = self.at;
            self.note_layout();
            let before = self.at;
            match self.kind() {
                TokenKind::Keyword(Keyword::Import) => items.extend(self.import().map(Item::Import)),
                TokenKind::Keyword(Keyword::From) => items.extend(self.import_names().map(Item::Import)),
                TokenKind::Keyword(Keyword::Const) => items.extend(self.constant().map(Item::Constant)),
                TokenKind::Keyword(Keyword::Struct) => items.extend(self.structure().map(Item::Struct)),
                TokenKind::Keyword(Keyword::Fn | Keyword::Kernel | Keyword::Compute) | TokenKind::Symbol("@") => {
                    items.extend(self.function());
                }
                TokenKind::Symbol(";") => _ = self.bump(),
                TokenKind::Name if self.is_alias() => items.extend(self.alias().map(Item::Alias)),
                _ => self.no_item(),
            }
            if !self.token().begins_line && self.kind() != TokenKind::End && !self.kind().is(";") {
                self.end_statement();
            }
            if self.at == before {
                self.bump();
            }
        }
        items
    }

    fn no_item(&mut self) {
        let token = self.token();
        let text = self.text_of(token.range);
        let (message, help) = match token.kind {
            TokenKind::Symbol("}") => ("`}` closes no block".to_owned(), "remove it, or open the block with `{`"),
            TokenKind::Name if matches!(text, "def" | "func" | "function" | "void") => (
                format!("`{text}` declares nothing"),
                "write `fn name(x: f32) -> f32 { … }`, or `kernel` for what is launched",
            ),
            TokenKind::Keyword(Keyword::Let | Keyword::Var) => {
                (format!("`{text}` stands outside functions"), "write `const NAME = value`")
            }
            _ => (
                format!("`{text}` begins no declaration"),
                "files hold `kernel`, `compute`, `fn`, `struct`, `const` and `import`",
            ),
        };
        self.error(Code::Syntax, token.range, message, help);
        // The lines that may follow from it, up to the next declaration, are passed over.
        loop {
            self.bump();
            let token = self.token();
            let is_declaration = matches!(
                token.kind,
                TokenKind::Keyword(
                    Keyword::Import
                        | Keyword::From
                        | Keyword::Const
                        | Keyword::Struct
                        | Keyword::Fn
                        | Keyword::Kernel
                        | Keyword::Compute
                )
            );
            if token.kind == TokenKind::End || token.begins_line && token.column == 0 && is_declaration {
                return;
            }
        }
    }

    fn path(&mut self) -> Option<(String, TextRange)> {
        let token = self.token();
        if token.kind != TokenKind::Text || !self.continues() {
            self.expected("the file in quotes", "write `import \"vectors.loom\"`");
            return None;
        }
        self.bump();
        let text = self.text_of(token.range);
        Some((text.trim_matches('"').to_owned(), token.range))
    }

    fn import(&mut self) -> Option<Import> {
        self.bump();
        let (path, path_range) = self.path()?;
        let is_as = self.kind() == TokenKind::Name && self.continues() && self.text_of(self.token().range) == "as";
        let alias = if is_as {
            self.bump_word();
            self.ident("a name", "write `import \"vectors.loom\" as v`")?
        } else {
            let file = path.rsplit('/').next().unwrap_or(&path);
            Ident { name: file.strip_suffix(".loom").unwrap_or(file).to_owned(), range: path_range }
        };
        Some(Import { path, path_range, alias: Some(alias), names: Vec::new() })
    }

    fn import_names(&mut self) -> Option<Import> {
        self.bump();
        let (path, path_range) = self.path()?;
        let usage = "write `from \"vectors.loom\" import length, normalise`";
        if self.take_keyword(Keyword::Import).is_none() {
            self.expected("`import`", usage);
            return None;
        }
        let mut names: Vec<Ident> = vec![self.ident("a name", usage)?];
        while self.take(",").is_some() {
            names.push(self.ident("a name", usage)?);
        }
        Some(Import { path, path_range, alias: None, names })
    }

    fn constant(&mut self) -> Option<Constant> {
        let start = self.bump().range;
        let usage = "write `const SIZE = 16` or `const G: f64 = 6.674e-11`";
        let name = self.ident("a name", usage)?;
        let ty = self.take(":").and_then(|_| self.type_expr());
        if !self.expect("=", usage) {
            return None;
        }
        let value = self.expr();
        Some(Constant { name, ty, value, range: self.since(start) })
    }

    /// Returns true at `type Name =`; `type` is a word of the language there alone.
    fn is_alias(&self) -> bool {
        self.text_of(self.token().range) == "type"
            && self.ahead(1).kind == TokenKind::Name
            && self.ahead(2).kind.is("=")
    }

    fn alias(&mut self) -> Option<TypeAlias> {
        let start = self.bump_word().range;
        let usage = "write `type Vec5 = vector<f32, 5>`";
        let name = self.ident("a name", usage)?;
        if !self.expect("=", usage) {
            return None;
        }
        let ty = self.type_expr()?;
        Some(TypeAlias { name, ty, range: self.since(start) })
    }

    fn structure(&mut self) -> Option<StructItem> {
        let header = self.at;
        let start = self.bump().range;
        let name = self.ident("a name", "write `struct Particle { position: vec3, mass: f32 }`")?;
        let mut fields = Vec::new();
        let is_braced = self.kind().is("{");
        if !(self.continues() && (is_braced || self.kind().is(":"))) {
            self.expected("the fields, `{` or `:`,", "write `struct Particle { position: vec3, mass: f32 }`");
            self.skip_line();
            return None;
        }
        let opening = self.bump();
        let outer = self.line_column(header);
        self.n_blocks += 1;
        loop {
            while self.kind().is(",") || self.kind().is(";") {
                self.bump();
            }
            let token = self.token();
            if is_braced && token.kind.is("}") {
                self.bump();
                break;
            }
            let is_after = token.begins_line && token.column <= outer || token.kind.is("}");
            if token.kind == TokenKind::End || !is_braced && is_after {
                if is_braced {
                    self.error(Code::Syntax, opening.range, "`{` is never closed", "close the struct with `}`");
                }
                break;
            }
            self.statement_start = self.at;
            if token.begins_line {
                self.note_layout();
            }
            let field = self.field();
            match field {
                Some(field) => fields.push(field),
                None => {
                    let before = self.at;
                    self.skip_line();
                    if self.at == before && !self.kind().is("}") {
                        self.bump();
                    }
                }
            }
        }
        self.n_blocks -= 1;
        Some(StructItem { name, fields, range: self.since(start) })
    }

    fn field(&mut self) -> Option<(Ident, TypeExpr)> {
        let usage = "write fields as `name: type`";
        let name = self.ident("a field", usage)?;
        if !self.expect(":", usage) {
            return None;
        }
        Some((name, self.type_expr()?))
    }

    /// A function with its annotations, which stand before it or after its parameters.
    fn function(&mut self) -> Option<Item> {
        let start = self.token().range;
        let mut annotations = self.annotations();
        if !annotations.is_empty() && self.token().begins_line {
            self.note_layout();
            self.statement_start = self.at;
        }
        let header = self.at;
        let keyword = match self.kind() {
            TokenKind::Keyword(Keyword::Fn) => FunctionKeyword::Fn,
            TokenKind::Keyword(Keyword::Kernel) => FunctionKeyword::Kernel,
            TokenKind::Keyword(Keyword::Compute) => FunctionKeyword::Compute,
            _ => {
                let at = annotations.first().map_or(start, |annotation| annotation.range);
                let help = "write it before a `kernel`, a `compute` or a `fn`, or after the parameters";
                self.error(Code::Syntax, at, "an annotation here belongs to no function", help);
                return None;
            }
        };
        let keyword_range = self.bump().range;
        let doc = self.doc_before(start);
        let name = match keyword {
            // A computation without a name is known by the kind that it asserts.
            FunctionKeyword::Compute if self.kind().is("(") => None,
            _ => self.ident("a name", "write `fn name(x: f32) -> f32 { … }` or `kernel name(x: array<f32, n>) { … }`"),
        };
        let generics = match self.kind().is("<") && self.continues() {
            true => self.generics(),
            false => Vec::new(),
        };
        let params = self.list("(", ")", Parser::param).into_iter().flatten().collect();
        let (mut results, mut returns) = (Vec::new(), Vec::new());
        // Results may stand in a line of their own.
        if self.kind().is("->") {
            self.bump();
            match keyword {
                FunctionKeyword::Fn => {
                    let in_parentheses = self.take("(").is_some();
                    self.brackets += u32::from(in_parentheses);
                    returns.extend(self.type_expr());
                    while self.take(",").is_some() {
                        returns.extend(self.type_expr());
                    }
                    if in_parentheses {
                        self.expect(")", "close the types with `)`");
                        self.brackets = self.brackets.saturating_sub(1);
                    }
                }
                FunctionKeyword::Kernel | FunctionKeyword::Compute => {
                    results.extend(self.result());
                    while self.take(",").is_some() {
                        // A list goes on in the next line after a comma.
                        self.statement_start = self.at;
                        results.extend(self.result());
                    }
                }
            }
        }
        annotations.extend(self.annotations());
        let body = self.block(header);
        let range = self.since(keyword_range);
        Some(Item::Function(Box::new(FunctionItem {
            doc,
            keyword,
            keyword_range,
            name,
            generics,
            params,
            results,
            returns,
            annotations,
            body,
            range,
        })))
    }

    fn generics(&mut self) -> Vec<(Ident, Option<Ident>)> {
        let usage = "write `fn f<T: Float>(x: T) -> T`";
        self.note_angle();
        self.bump();
        let mut generics = Vec::new();
        self.brackets += 1;
        while !self.kind().is(">") && self.kind() != TokenKind::End {
            let Some(name) = self.ident("a type variable", usage) else { break };
            let bound = self.take(":").and_then(|_| self.ident("`Float`, `Int` or `Scalar`", usage));
            generics.push((name, bound));
            if self.take(",").is_none() {
                break;
            }
        }
        self.note_angle();
        self.expect(">", usage);
        self.brackets = self.brackets.saturating_sub(1);
        generics
    }

    fn param(&mut self) -> Option<Param> {
        let name = self.ident("a parameter", "write `x: array<f32, n>`")?;
        if self.kind() == TokenKind::Name && self.continues() {
            let (param, at) = (self.text_of(self.token().range), self.token().range);
            let message = format!("the type of `{param}` stands before it");
            self.error(Code::Syntax, name.range.cover(at), message, format!("write types after names: `{param}: f32`"));
            self.bump();
        }
        let ty = self.take(":").and_then(|_| self.type_expr());
        Some(Param { name, ty })
    }

    fn result(&mut self) -> Option<Param> {
        let usage = "name the result: `-> y: array<f32, n>`";
        let name = self.ident("a result", usage)?;
        if !self.expect(":", usage) {
            return None;
        }
        Some(Param { name, ty: self.type_expr() })
    }

    /// The text of the `///` lines that stand directly before a declaration.
    fn doc_before(&self, at: TextRange) -> String {
        let before = self.comments.partition_point(|comment| comment.range.start() < at.start());
        let mut lines: Vec<&str> = Vec::new();
        let mut end = at.start();
        for comment in self.comments[..before].iter().rev() {
            let between = self.text_of(TextRange::new(comment.range.end(), end));
            if !comment.is_doc || !comment.begins_line || between.trim() != "" || between.matches('\n').count() > 1 {
                break;
            }
            let line = self.text_of(comment.range).trim_start_matches('/');
            lines.push(line.strip_prefix(' ').unwrap_or(line));
            end = comment.range.start();
        }
        lines.reverse();
        lines.join("\n")
    }
}
