//! A parsed source file, kept and shared between the compilations of its kernels.
//!
//! A file is parsed once. [`SourceUnit`] owns the syntax tree and an index of every function definition in it, nested
//! ones included, with what its decorators make of it. Decorators are recognised by the file's own imports, so
//! `@loom.kernel`, `@wp.func` and `from polyloom import kernel as k; @k` all work without running any Python.

use crate::adjoints::adjoint_name;
use crate::dotted_path::dotted;
use crate::error::CompileError;
use crate::function_info::{FunctionInfo, FunctionRole};
use crate::loom::program::LoomProgram;
use crate::loom::{ElaboratedFunction, ImportLoader, LoomUnit, PACKAGE};
use crate::package_names::{PACKAGES, package_members};
use polyloom_ir::{Code, Diagnostic, FileId, SourceFile, SourceMap, Span};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_python_parser::{LexicalErrorType, Mode, ParseErrorType, ParseOptions, Parsed};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Text longer than this is not read.
const MAX_BYTES: usize = 16 << 20;

/// The deepest nesting of expressions and blocks that is parsed, so that every recursion over a syntax tree, its
/// destructor's included, is bounded by it.
const MAX_TREE_DEPTH: u32 = 1000;

/// The operators in a row, as in a sum, that take as much of that as one level, because recursions over a tree take
/// little for one of these, and what takes more is written as a loop over them.
const LEVEL: u32 = 5;

/// A parsed file.
#[derive(Debug)]
pub struct SourceUnit {
    file: SourceFile,
    body: ast::Suite,
    functions: Vec<FunctionInfo>,
    /// The imports of the module, under `None`, and of each function with any, by the offset of its definition.
    imports: FxHashMap<Option<u32>, ScopeImports>,
    /// Holds what it has beside these if it is `.loom`.
    loom: Option<LoomSource>,
}

/// Holds what a `.loom` file has beside its nodes.
#[derive(Debug)]
struct LoomSource {
    unit: LoomUnit,
    functions: Vec<ElaboratedFunction>,
}

/// The names that one scope imports.
#[derive(Debug, Default)]
struct ScopeImports {
    /// The dotted path each stands for.
    paths: FxHashMap<String, String>,
    /// The first of the names of the package.
    package: Option<String>,
}

impl SourceUnit {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// The first syntax errors of the file, as [`Code::Syntax`]; [`Code::Limit`] if it is too long or too deeply
    /// nested.
    pub fn parse(file: SourceFile) -> Result<Arc<SourceUnit>, CompileError> {
        let mut sources = SourceMap::new();
        let id = sources.add(file.clone());
        let fail = |diagnostics| Err(CompileError { diagnostics, sources });
        if file.text.len() > MAX_BYTES {
            let message = format!("the file is longer than {} MiB", MAX_BYTES >> 20);
            let diagnostic = Diagnostic::error(Code::Limit, Span::new(id, 0, 0), message)
                .help("move the kernels to a file without tables of data, or split the file");
            return fail(vec![diagnostic]);
        }
        if is_too_deep(&file.text) {
            let at = depth_exceeded_at(&file.text);
            let span = Span::new(id, at, at);
            let diagnostic = Diagnostic::error(Code::Limit, span, "the code is nested too deeply")
                .help("split it: assign parts of long expressions to variables, and use fewer `elif` and inner blocks");
            return fail(vec![diagnostic]);
        }
        let parsed = ruff_python_parser::parse_unchecked(&file.text, ParseOptions::from(Mode::Module));
        let diagnostics = syntax_errors(id, &file.text, &parsed);
        let Some(parsed) = parsed.try_into_module() else { return fail(diagnostics) };
        if !diagnostics.is_empty() {
            return fail(diagnostics);
        }
        let mut body = parsed.into_suite();
        let mut index = SourceIndex {
            file: &file,
            functions: Vec::new(),
            imports: FxHashMap::default(),
            enclosing: Vec::new(),
            scopes: Vec::new(),
        };
        index.imports(None, &body);
        index.statements(&body);
        let SourceIndex { functions, imports, .. } = index;
        crate::adjoints::name_adjoints(&mut body, &functions);
        Ok(Arc::new(SourceUnit { file, body, functions, imports, loom: None }))
    }

    /// Reads a `.loom` file; `load` reads the files that it imports.
    ///
    /// # Errors
    ///
    /// All that is wrong with its syntax, with the names and scopes of its functions, and with its parallel loops.
    pub fn parse_loom(file: SourceFile, load: ImportLoader<'_>) -> Result<Arc<SourceUnit>, CompileError> {
        crate::loom::read(file, load, &mut Vec::new())
    }

    /// Makes the unit of a `.loom` file that has been elaborated.
    pub(crate) fn of_loom(
        file: SourceFile,
        body: Vec<Stmt>,
        functions: Vec<ElaboratedFunction>,
        unit: LoomUnit,
    ) -> Arc<SourceUnit> {
        let infos = functions.iter().map(|function| {
            let line = file.position(function.start).line;
            FunctionInfo {
                name: function.name.clone(),
                role: Some(function.role),
                decorator: Some(0),
                of: None,
                adjoints: Vec::new(),
                start: function.start,
                first_line: line,
                def_line: line,
                enclosing: Vec::new(),
                sees_itself: true,
            }
        });
        let infos = infos.collect();
        let paths = [(PACKAGE.to_owned(), PACKAGES[0].to_owned())].into_iter().collect();
        let imports = [(None, ScopeImports { paths, package: Some("loom".to_owned()) })].into_iter().collect();
        let loom = Some(LoomSource { unit, functions });
        Arc::new(SourceUnit { file, body: body.into_iter().collect(), functions: infos, imports, loom })
    }

    /// Returns what it has beside its nodes if it is `.loom`.
    pub(crate) fn loom(&self) -> Option<&LoomUnit> {
        self.loom.as_ref().map(|loom| &loom.unit)
    }

    /// Returns what is known of a function of a `.loom` file.
    pub(crate) fn loom_function(&self, function: usize) -> Option<&ElaboratedFunction> {
        self.loom.as_ref()?.functions.get(function)
    }

    /// The kernels and computations of a `.loom` file, in the order of the text; none of a Python file.
    pub fn programs(&self) -> &[LoomProgram] {
        self.loom.as_ref().map_or(&[], |loom| &loom.unit.programs)
    }

    /// The kernel or computation of a `.loom` file that launches the function with this index.
    pub fn program_of(&self, function: usize) -> Option<&LoomProgram> {
        self.programs().iter().find(|program| program.functions().contains(&function))
    }

    /// Returns true if it is `.loom`.
    pub fn is_loom(&self) -> bool {
        self.loom.is_some()
    }

    /// The names that a `.loom` file gives to those that import it.
    pub(crate) fn loom_names(&self) -> Vec<String> {
        let functions =
            self.functions.iter().filter(|f| f.role == Some(FunctionRole::Func)).map(|f| f.name.to_string());
        let others = self.body.iter().filter_map(|stmt| match stmt {
            Stmt::ClassDef(class) => Some(class.name.to_string()),
            Stmt::Assign(assign) => assign.targets.first()?.as_name_expr().map(|name| name.id.to_string()),
            _ => None,
        });
        functions.chain(others).collect()
    }

    /// The names of the structs that a `.loom` file declares, or imports by name.
    pub fn struct_names(&self) -> Vec<String> {
        let own = |unit: &SourceUnit| {
            let classes = unit.body.iter().filter_map(|stmt| match stmt {
                Stmt::ClassDef(class) => Some(class.name.to_string()),
                _ => None,
            });
            classes.collect::<Vec<_>>()
        };
        let imported = self.loom().into_iter().flat_map(|loom| &loom.names);
        let imported = imported.filter(|(name, from)| own(from).contains(name)).map(|(name, _)| name.clone());
        imported.chain(own(self)).collect()
    }

    /// The text and its name.
    pub fn file(&self) -> &SourceFile {
        &self.file
    }

    /// Every function definition, in the order of the text.
    pub fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// The indices of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = usize> {
        self.functions.iter().enumerate().filter(|(_, f)| f.role == Some(FunctionRole::Kernel)).map(|(i, _)| i)
    }

    /// The last function of this name, as Python's own binding rules have it; decorated functions come first.
    pub fn find(&self, name: &str) -> Option<usize> {
        let last =
            |decorated: bool| self.functions.iter().rposition(|f| &*f.name == name && (f.role.is_some() || !decorated));
        last(true).or_else(|| last(false))
    }

    /// The function whose `def` or first decorator is on this line.
    pub fn at_line(&self, line: u32) -> Option<usize> {
        let find = |line_of: fn(&FunctionInfo) -> u32| {
            let index = self.functions.partition_point(|f| line_of(f) < line);
            self.functions.get(index).filter(|f| line_of(f) == line).map(|_| index)
        };
        find(|f| f.first_line).or_else(|| find(|f| f.def_line))
    }

    /// The function whose definition, decorators included, starts at this offset.
    pub(crate) fn function_starting_at(&self, start: u32) -> Option<usize> {
        self.functions.binary_search_by_key(&start, |f| f.start).ok()
    }

    /// The statements of the file.
    pub(crate) fn body(&self) -> &[Stmt] {
        &self.body
    }

    /// The dotted path that a name stands for, `numpy` for `np`, if the function that starts at `scope`, or the module,
    /// imports it.
    pub(crate) fn import(&self, scope: Option<u32>, name: &str) -> Option<&str> {
        self.imports.get(&scope)?.paths.get(name).map(String::as_str)
    }

    /// Every name that the function that starts at `scope`, or the module, imports.
    pub(crate) fn imports(&self, scope: Option<u32>) -> impl Iterator<Item = &str> {
        self.imports.get(&scope).into_iter().flat_map(|imports| imports.paths.keys().map(String::as_str))
    }

    /// The name by which a function knows the package, if it does.
    pub(crate) fn package(&self, function: usize) -> Option<&str> {
        let enclosing = self.functions.get(function).map_or(&[][..], |f| &f.enclosing);
        let mut scopes = enclosing.iter().rev().copied().map(Some).chain([None]);
        scopes.find_map(|scope| self.imports.get(&scope)?.package.as_deref())
    }

    /// The syntax tree of a function.
    pub(crate) fn definition(&self, function: usize) -> Option<&ast::StmtFunctionDef> {
        self.definition_at(self.functions.get(function)?.start)
    }

    /// The definition that starts at this offset.
    pub(crate) fn definition_at(&self, start: u32) -> Option<&ast::StmtFunctionDef> {
        find_definition(&self.body, start)
    }

    /// The text of a range.
    pub(crate) fn text(&self, range: TextRange) -> &str {
        self.file.text.get(range.start().to_usize()..range.end().to_usize()).unwrap_or_default()
    }
}

/// Syntax errors beyond this are not reported, because most of them follow from those before.
const MAX_SYNTAX_ERRORS: usize = 5;

/// Returns what is wrong with a text: one error for each line, up to the first bracket that is never closed, since
/// everything after that is misread.
fn syntax_errors(file: FileId, text: &str, parsed: &Parsed<ast::Mod>) -> Vec<Diagnostic> {
    let errors = parsed.errors();
    if errors.is_empty() {
        return Vec::new();
    }
    let unclosed = unclosed_bracket(parsed);
    let mut diagnostics = Vec::new();
    let mut last = None;
    for error in errors {
        let at = error.location.start().to_usize();
        let is_new_line = last.is_none_or(|last| text.get(last..at).is_some_and(|between| between.contains('\n')));
        let is_before = unclosed.is_none_or(|bracket| error.location.start() < bracket.start());
        if is_before && is_new_line && diagnostics.len() < MAX_SYNTAX_ERRORS {
            diagnostics.push(syntax_error(file, error));
            last = Some(at);
        }
    }
    if let Some(bracket) = unclosed
        && diagnostics.len() < MAX_SYNTAX_ERRORS
    {
        let span = Span::new(file, bracket.start().to_u32(), bracket.end().to_u32());
        let character = text.get(bracket.start().to_usize()..bracket.end().to_usize()).unwrap_or_default();
        let message = format!("`{character}` is never closed");
        diagnostics.push(Diagnostic::error(Code::Syntax, span, message).help("close the bracket"));
    }
    diagnostics
}

/// The first bracket that is open where another kind is closed, or at the end.
fn unclosed_bracket(parsed: &Parsed<ast::Mod>) -> Option<TextRange> {
    let mut open: Vec<(TokenKind, TextRange)> = Vec::new();
    for token in parsed.tokens() {
        let closing = match token.kind() {
            TokenKind::Lpar => TokenKind::Rpar,
            TokenKind::Lsqb => TokenKind::Rsqb,
            TokenKind::Lbrace => TokenKind::Rbrace,
            kind @ (TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace) => {
                match open.pop() {
                    Some((closing, bracket)) if closing != kind => return Some(bracket),
                    _ => {}
                }
                continue;
            }
            _ => continue,
        };
        open.push((closing, token.range()));
    }
    open.first().map(|(_, bracket)| *bracket)
}

fn syntax_error(file: FileId, error: &ruff_python_parser::ParseError) -> Diagnostic {
    let span = Span::new(file, error.location.start().to_u32(), error.location.end().to_u32());
    let mut message = error.error.to_string();
    if let Some(first) = message.get(..1) {
        // Messages are phrases: `Expected ')'` becomes `expected ')'`.
        let lower = first.to_lowercase();
        message.replace_range(..1, &lower);
    }
    let help = match error.error {
        ParseErrorType::Lexical(LexicalErrorType::Eof) => "close the bracket or quote that is open",
        ParseErrorType::Lexical(LexicalErrorType::UnclosedStringError) => "close the string with a quote",
        ParseErrorType::Lexical(LexicalErrorType::IndentationError) => "indent the line as the lines around it",
        _ => "Python does not take it either: look at this place and at what stands just before it",
    };
    Diagnostic::error(Code::Syntax, span, message).help(help)
}

/// True if the nesting of the text exceeds [`MAX_TREE_DEPTH`].
///
/// The depth of an expression's tree is at most what [`ExpressionDepth`] adds up of its tokens, without knowing which
/// operators bind tighter. The parameters of a `lambda` stand between it and its colon as in brackets, and a `yield`,
/// which takes a list of values without brackets, is one that only the end of those around it closes. Short texts
/// cannot be too deep by a margin that matters and skip the scan.
fn is_too_deep(text: &str) -> bool {
    if text.len() <= MAX_TREE_DEPTH as usize {
        return false;
    }
    let mut lexer = ruff_python_parser::lexer::lex(text, Mode::Module);
    let mut blocks = 0u32;
    // The expression of the statement, and those in its open brackets.
    let mut open = vec![ExpressionDepth::default()];
    // A sign after an operand is an operator, and else a prefix.
    let mut is_operand = false;
    loop {
        let kind = lexer.next_token();
        let was_operand = std::mem::replace(&mut is_operand, ends_operand(kind));
        match kind {
            TokenKind::EndOfFile => return false,
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Newline | TokenKind::Semi => {
                open.clear();
                open.push(ExpressionDepth::default());
            }
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => push(&mut open, ExpressionOpening::Bracket),
            TokenKind::Lambda => push(&mut open, ExpressionOpening::Lambda),
            TokenKind::Yield => push(&mut open, ExpressionOpening::Yield),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => while !close(&mut open) {},
            TokenKind::Colon if innermost(&mut open).opening == ExpressionOpening::Lambda => _ = close(&mut open),
            TokenKind::Comma => innermost(&mut open).restart(),
            TokenKind::Name | TokenKind::Int | TokenKind::Float | TokenKind::String | TokenKind::Comment => {}
            TokenKind::NonLogicalNewline => {}
            TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::DoubleSlash
            | TokenKind::Percent
            | TokenKind::At
            | TokenKind::Vbar
            | TokenKind::Amper
            | TokenKind::CircumFlex
            | TokenKind::LeftShift
            | TokenKind::RightShift
                if was_operand =>
            {
                let expression = innermost(&mut open);
                expression.chain = expression.chain.max(std::mem::take(&mut expression.operand)) + 1;
            }
            TokenKind::And | TokenKind::Or => {
                let expression = innermost(&mut open);
                expression.end_operands();
                expression.inside += LEVEL * std::mem::take(&mut expression.negations);
                expression.kinds |= if kind == TokenKind::And { 1 } else { 2 };
            }
            TokenKind::Less
            | TokenKind::Greater
            | TokenKind::LessEqual
            | TokenKind::GreaterEqual
            | TokenKind::EqEqual
            | TokenKind::NotEqual => {
                let expression = innermost(&mut open);
                expression.end_operands();
                expression.kinds |= 4;
            }
            TokenKind::Not => innermost(&mut open).negations += 1,
            TokenKind::Plus | TokenKind::Minus | TokenKind::Tilde | TokenKind::DoubleStar | TokenKind::Dot => {
                innermost(&mut open).operand += LEVEL;
            }
            _ => innermost(&mut open).rest += 1,
        }
        if innermost(&mut open).depth() + LEVEL * blocks > LEVEL * MAX_TREE_DEPTH {
            return true;
        }
    }
}

/// Describes how deep the tree of an expression is at most, as far as its tokens have been read, in parts of a level:
/// an operator in a row, which has those before it as its left operand, counts as one part, and anything else as
/// [`LEVEL`].
#[derive(Clone, Copy, Default)]
struct ExpressionDepth {
    opening: ExpressionOpening,
    /// The depth at which it stands.
    around: u32,
    /// The operand that is being read: brackets and what stands in them, prefixes, powers and attributes. An operator
    /// after it ends them.
    operand: u32,
    /// The operators in a row before that, with the deepest of their operands.
    chain: u32,
    /// The deepest of what stands side by side: operands of comparisons, and expressions between commas.
    inside: u32,
    /// Each `not`, which `and` and `or` end.
    negations: u32,
    /// Says which of `and`, `or` and comparisons there are: a level each, however many operands they have.
    kinds: u8,
    /// Holds what nests to the end of the expression, such as `else`.
    rest: u32,
}

/// Describes what opens an expression in another.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ExpressionOpening {
    /// A bracket, which closes it; the statement itself.
    #[default]
    Bracket,
    /// Up to its colon.
    Lambda,
    /// Up to the end of that around it.
    Yield,
}

impl ExpressionDepth {
    /// The depth of its own tree.
    fn own(&self) -> u32 {
        self.inside.max(self.chain).max(self.operand) + LEVEL * self.outer()
    }

    /// The levels that whatever comes next is in.
    fn outer(&self) -> u32 {
        self.negations + self.kinds.count_ones() + self.rest
    }

    fn depth(&self) -> u32 {
        self.around.saturating_add(self.own())
    }

    /// Ends what stands between comparisons, `and` and `or`.
    fn end_operands(&mut self) {
        let operands = std::mem::take(&mut self.chain).max(std::mem::take(&mut self.operand));
        self.inside = self.inside.max(operands);
    }

    /// Begins the next of several expressions side by side.
    fn restart(&mut self) {
        let (opening, around, inside) = (self.opening, self.around, self.own());
        *self = ExpressionDepth { opening, around, inside, ..ExpressionDepth::default() };
    }
}

fn push(open: &mut Vec<ExpressionDepth>, opening: ExpressionOpening) {
    let outer = innermost(open);
    let around = outer.around.saturating_add(LEVEL * (outer.outer() + 1) + outer.operand);
    open.push(ExpressionDepth { opening, around, ..ExpressionDepth::default() });
}

/// Closes the innermost open expression, which is a part of the operand around it; true if a bracket has opened it.
fn close(open: &mut Vec<ExpressionDepth>) -> bool {
    // More brackets may close than have opened, because the text need not be a program.
    if open.len() < 2 {
        innermost(open).operand += LEVEL;
        return true;
    }
    let closed = open.pop().unwrap_or_default();
    let outer = innermost(open);
    match closed.opening {
        // A call, subscript or parenthesis that has closed still is one level of a chain such as `f()()()`.
        ExpressionOpening::Bracket | ExpressionOpening::Yield => {
            outer.operand = outer.operand.max(closed.own()) + LEVEL
        }
        ExpressionOpening::Lambda => {
            outer.inside = outer.inside.max(closed.own());
            outer.rest += 1;
        }
    }
    closed.opening == ExpressionOpening::Bracket
}

fn innermost(open: &mut Vec<ExpressionDepth>) -> &mut ExpressionDepth {
    if open.is_empty() {
        open.push(ExpressionDepth::default());
    }
    let last = open.len() - 1;
    &mut open[last]
}

/// True for tokens that an operand may end with.
fn ends_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd
            | TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::True
            | TokenKind::False
            | TokenKind::None
            | TokenKind::Ellipsis
    )
}

/// Returns the length of the shortest prefix of a text that is too deep. It scans the text, because the lexer reports no
/// places of tokens.
fn depth_exceeded_at(text: &str) -> u32 {
    let (mut fits, mut exceeds) = (0, text.len());
    while exceeds - fits > 1 {
        let middle = text.floor_char_boundary(fits + (exceeds - fits) / 2);
        if middle == fits {
            break;
        }
        if is_too_deep(&text[..middle]) { exceeds = middle } else { fits = middle }
    }
    fits as u32
}

fn find_definition(body: &[Stmt], start: u32) -> Option<&ast::StmtFunctionDef> {
    let before = body.partition_point(|s| s.range().start().to_u32() <= start);
    let stmt = body.get(before.checked_sub(1)?)?;
    if let Stmt::FunctionDef(def) = stmt
        && def.range().start().to_u32() == start
    {
        return Some(def);
    }
    blocks_of(stmt).find_map(|block| find_definition(block, start))
}

/// The blocks of statements directly inside a statement.
pub(crate) fn blocks_of(stmt: &Stmt) -> impl Iterator<Item = &[Stmt]> {
    let mut blocks: Vec<&[Stmt]> = Vec::new();
    match stmt {
        Stmt::FunctionDef(s) => blocks.push(&s.body),
        Stmt::ClassDef(s) => blocks.push(&s.body),
        Stmt::If(s) => {
            blocks.push(&s.body);
            blocks.extend(s.elif_else_clauses.iter().map(|c| &*c.body));
        }
        Stmt::For(s) => blocks.extend([&*s.body, &*s.orelse]),
        Stmt::While(s) => blocks.extend([&*s.body, &*s.orelse]),
        Stmt::With(s) => blocks.push(&s.body),
        Stmt::Try(s) => {
            blocks.push(&s.body);
            blocks.extend(s.handlers.iter().map(|h| match h {
                ast::ExceptHandler::ExceptHandler(h) => &*h.body,
            }));
            blocks.extend([&*s.orelse, &*s.finalbody]);
        }
        Stmt::Match(s) => blocks.extend(s.cases.iter().map(|c| &*c.body)),
        _ => {}
    }
    blocks.into_iter()
}

struct SourceIndex<'a> {
    file: &'a SourceFile,
    functions: Vec<FunctionInfo>,
    imports: FxHashMap<Option<u32>, ScopeImports>,
    enclosing: Vec<u32>,
    /// The functions and classes around the statement, with whether it is a class.
    scopes: Vec<(u32, bool)>,
}

impl SourceIndex<'_> {
    /// Collects the imports of the module, or of the function or class that starts at `scope`, but not those of
    /// functions and classes in it.
    fn imports(&mut self, scope: Option<u32>, body: &[Stmt]) {
        let mut paths = FxHashMap::default();
        SourceIndex::collect_imports(body, &mut paths);
        if !paths.is_empty() {
            let names = paths.iter().filter(|(_, path)| PACKAGES.contains(&path.as_str())).map(|(name, _)| name);
            let package = names.min().cloned();
            self.imports.insert(scope, ScopeImports { paths, package });
        }
    }

    fn collect_imports(body: &[Stmt], paths: &mut FxHashMap<String, String>) {
        for stmt in body {
            match stmt {
                Stmt::Import(_) | Stmt::ImportFrom(_) => paths.extend(imported(stmt)),
                // `kern = loom.kernel` is another name of it.
                Stmt::Assign(assign) => {
                    if let [Expr::Name(name)] = &assign.targets[..]
                        && let Some(path) = dotted(&assign.value)
                        && let Some(root) = paths.get(path[0])
                        && PACKAGES.contains(&root.as_str())
                        && path.len() == 2
                    {
                        paths.insert(name.id.to_string(), format!("{root}.{}", path[1]));
                    }
                }
                Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
                _ => blocks_of(stmt).for_each(|block| SourceIndex::collect_imports(block, paths)),
            }
        }
    }

    fn statements(&mut self, body: &[Stmt]) {
        for stmt in body {
            if let Stmt::FunctionDef(def) = stmt {
                let line = |offset: u32| self.file.position(offset).line;
                let start = def.range().start().to_u32();
                let decorators = def.decorator_list.iter().enumerate();
                let made = decorators.filter_map(|(index, d)| Some((self.role(&d.expression)?, index))).next();
                let role = made.map(|(role, _)| role);
                let is_custom = matches!(role, Some(FunctionRole::Gradient | FunctionRole::Replay));
                let parameters = def.parameters.iter_non_variadic_params().map(|p| p.parameter.name.as_str());
                let adjoints = match role {
                    Some(FunctionRole::Gradient) => parameters.map(|name| adjoint_name(name).into()).collect(),
                    _ => Vec::new(),
                };
                self.functions.push(FunctionInfo {
                    name: def.name.as_str().into(),
                    role,
                    decorator: made.map(|(_, index)| index),
                    of: made
                        .filter(|_| is_custom)
                        .and_then(|(_, index)| first_argument(&def.decorator_list[index].expression)),
                    adjoints,
                    start,
                    first_line: line(start),
                    def_line: line(def.name.range().start().to_u32()),
                    enclosing: self.enclosing.clone(),
                    sees_itself: !matches!(self.scopes.last(), Some((_, true))),
                });
                self.enclosing.push(start);
                self.scope(start, false, &def.body);
                self.enclosing.pop();
            } else if let Stmt::ClassDef(class) = stmt {
                self.scope(class.range().start().to_u32(), true, &class.body);
            } else {
                for block in blocks_of(stmt) {
                    self.statements(block);
                }
            }
        }
    }

    fn scope(&mut self, start: u32, is_class: bool, body: &[Stmt]) {
        self.imports(Some(start), body);
        self.scopes.push((start, is_class));
        self.statements(body);
        self.scopes.pop();
    }

    /// The path an imported name stands for in the innermost scope. Functions do not see the names of a class around
    /// them.
    fn import(&self, name: &str) -> Option<&String> {
        let scopes = self.scopes.iter().rev().enumerate();
        let seen = scopes.filter(|(i, (_, is_class))| *i == 0 || !is_class).map(|(_, (start, _))| Some(*start));
        seen.chain([None]).find_map(|scope| self.imports.get(&scope)?.paths.get(name))
    }

    fn role(&self, decorator: &Expr) -> Option<FunctionRole> {
        let target = match decorator {
            Expr::Call(call) => &*call.func,
            other => other,
        };
        let mut path = dotted(target)?;
        let Some(root) = self.import(path[0]) else {
            // In a notebook the import is in another cell. These are what they are called whatever the package is
            // called.
            return match path.last().copied() {
                Some("func_grad") => Some(FunctionRole::Gradient),
                Some("func_replay") => Some(FunctionRole::Replay),
                _ => None,
            };
        };
        path.remove(0);
        let full = root.split('.').chain(path).collect::<Vec<_>>();
        match full[..] {
            [package, "kernel"] if PACKAGES.contains(&package) => Some(FunctionRole::Kernel),
            [package, "func"] if PACKAGES.contains(&package) => Some(FunctionRole::Func),
            [package, "func_grad"] if PACKAGES.contains(&package) => Some(FunctionRole::Gradient),
            [package, "func_replay"] if PACKAGES.contains(&package) => Some(FunctionRole::Replay),
            _ => None,
        }
    }
}

/// The names that an import binds, each with the dotted path that it stands for.
pub(crate) fn imported(stmt: &Stmt) -> Vec<(String, String)> {
    match stmt {
        Stmt::Import(import) => {
            let bound = |alias: &ast::Alias| {
                let path = alias.name.as_str();
                match &alias.asname {
                    Some(name) => (name.to_string(), path.to_owned()),
                    // `import a.b` binds `a`.
                    None => {
                        let root = path.split('.').next().unwrap_or(path).to_owned();
                        (root.clone(), root)
                    }
                }
            };
            import.names.iter().map(bound).collect()
        }
        Stmt::ImportFrom(import) => {
            let dots = ".".repeat(import.level as usize);
            let module = import.module.as_ref().map_or("", |module| module.as_str());
            let bound = |alias: &ast::Alias| {
                let name = alias.asname.as_ref().unwrap_or(&alias.name);
                (name.to_string(), format!("{dots}{module}.{}", alias.name.as_str()))
            };
            let is_all = import.names.iter().any(|alias| alias.name.as_str() == "*");
            if is_all && PACKAGES.contains(&module) {
                let members = package_members().into_iter();
                let members = members.chain(["kernel", "func", "struct", "func_grad", "func_replay"]);
                return members.map(|name| (name.to_owned(), format!("{module}.{name}"))).collect();
            }
            import.names.iter().map(bound).collect()
        }
        _ => Vec::new(),
    }
}

/// The name that is a decorator's first argument, without what it is a member of.
fn first_argument(decorator: &Expr) -> Option<Arc<str>> {
    let Expr::Call(call) = decorator else { return None };
    let keyword = call.arguments.keywords.first().map(|keyword| &keyword.value);
    let path = dotted(call.arguments.args.first().or(keyword)?)?;
    path.last().map(|name| (*name).into())
}
