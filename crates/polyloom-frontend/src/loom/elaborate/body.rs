//! Statements and expressions of one function.
//!
//! Blocks are scopes. In the nodes a function has one namespace, so that a name that is declared again gets a number;
//! messages say it as the text does.

use super::FileElaboration;
use super::staged::StagedAccess;
use crate::loom::python_nodes as node;
use crate::loom::syntax::{
    Argument, BinaryOp, Block, CompareOp, Expr, ExprKind, ForLoop, Ident, Stmt, StmtKind, UnaryOp,
};
use crate::loom::types;
use polyloom_ir::Code;
use ruff_python_ast::{self as ast, ExprContext, Identifier};
use ruff_text_size::{TextRange, TextSize};
use rustc_hash::{FxHashMap, FxHashSet};

/// Describes what a name of a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LocalKind {
    Let,
    Var,
    Index,
    Param,
    Reference,
    Extent,
    /// Set by statements outside the parallel loop.
    Outer,
}

#[derive(Clone, Debug)]
pub(super) struct LocalName {
    /// The name in the nodes.
    pub(super) node: String,
    pub(super) kind: LocalKind,
    range: TextRange,
}

/// Says where a block runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyContext {
    /// In a function that others call.
    Function,
    /// In each iteration of a parallel loop.
    Iteration,
    /// In a thread that the kernel asks for its number.
    Thread,
    /// Once, between parallel loops.
    Once,
}

/// The elaboration of one function's statements.
pub(super) struct BodyElaboration<'e, 'a> {
    pub(super) file: &'e mut FileElaboration<'a>,
    context: BodyContext,
    scopes: Vec<FxHashMap<String, LocalName>>,
    /// Every name the nodes have, because none may stand for two things.
    used: FxHashSet<String>,
    /// The number of indices of each loop around, innermost last.
    loops: Vec<usize>,
    /// Names of variables that statements outside this loop set.
    outside: FxHashMap<String, TextRange>,
    /// The types of variables that later stages name, by where they are declared.
    pub(super) kept: FxHashMap<TextRange, ast::Expr>,
    /// Accesses to arrays that the block has staged, by where they begin.
    pub(super) staged: FxHashMap<TextSize, StagedAccess>,
    /// The number of axes of parameters and results, where it is known.
    pub(super) axes: FxHashMap<String, usize>,
    /// Names in the nodes of what may be a part of an array.
    pub(super) views: FxHashSet<String>,
    /// The name of what says that the thread has an iteration, while threads without one compute along.
    pub(super) guard: Option<String>,
}

impl<'e, 'a> BodyElaboration<'e, 'a> {
    pub(super) fn new(
        file: &'e mut FileElaboration<'a>,
        context: BodyContext,
        outside: FxHashMap<String, TextRange>,
    ) -> BodyElaboration<'e, 'a> {
        let scopes = vec![FxHashMap::default()];
        let (used, loops, staged) = (FxHashSet::default(), Vec::new(), FxHashMap::default());
        let (kept, axes, views) = (FxHashMap::default(), FxHashMap::default(), FxHashSet::default());
        BodyElaboration { file, context, scopes, used, loops, outside, kept, staged, axes, views, guard: None }
    }

    fn error(&mut self, code: Code, range: TextRange, message: impl Into<String>, help: impl Into<String>) {
        self.file.error(code, range, message, help);
    }

    pub(super) fn find(&self, name: &str) -> Option<&LocalName> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// Makes a name mean something from here on, and gives its name in the nodes.
    pub(super) fn declare(&mut self, ident: &Ident, kind: LocalKind) -> String {
        let name = &ident.name;
        if let Some(known) = self.scopes.last().and_then(|scope| scope.get(name))
            && !matches!(known.kind, LocalKind::Extent)
        {
            let message = format!("`{name}` is declared twice in this block");
            let help = match known.kind {
                LocalKind::Var => format!("assign to it: `{name} = …`; or choose another name"),
                _ => "choose another name".to_owned(),
            };
            self.error(Code::BadAssignment, ident.range, message, help);
        }
        let is_visible = self.find(name).is_some();
        let mut node = name.clone();
        // Indices of loops one after another may share a name, because they share a type.
        let is_taken = |this: &Self, node: &str| this.used.contains(node) && (kind != LocalKind::Index || is_visible);
        let mut n = 1;
        while is_taken(self, &node) || n > 1 && (self.file.globals.contains(node.as_str()) || self.used.contains(&node))
        {
            n += 1;
            node = format!("{name}_{n}");
        }
        if node != *name {
            self.file.made.renamed.insert(node.clone(), name.clone());
        }
        self.used.insert(node.clone());
        let made = LocalName { node: node.clone(), kind, range: ident.range };
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), made);
        }
        node
    }

    /// A name that the text does not have, for a value that the nodes need.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let mut node = wanted.to_owned();
        let mut n = 1;
        while self.used.contains(&node) || self.file.globals.contains(node.as_str()) || self.find(&node).is_some() {
            n += 1;
            node = format!("{wanted}_{n}");
        }
        self.used.insert(node.clone());
        node
    }

    pub(super) fn scoped<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(FxHashMap::default());
        let made = run(self);
        self.scopes.pop();
        made
    }

    /// The statements of a block, in a scope of their own.
    pub(super) fn block(&mut self, block: &Block) -> Vec<ast::Stmt> {
        self.scoped(|body| body.statements(&block.statements))
    }

    pub(super) fn statements(&mut self, statements: &[Stmt]) -> Vec<ast::Stmt> {
        let mut made = Vec::new();
        for statement in statements {
            self.statement(statement, &mut made);
        }
        made
    }

    /// A block that is not empty, as Python wants it.
    fn body(&mut self, block: &Block, range: TextRange) -> Vec<ast::Stmt> {
        let mut made = self.block(block);
        if made.is_empty() {
            made.push(node::pass(range));
        }
        made
    }

    pub(super) fn statement(&mut self, statement: &Stmt, out: &mut Vec<ast::Stmt>) {
        match self.guard.take() {
            Some(inside) => self.guarded(statement, inside, out),
            None => self.plain_statement(statement, out),
        }
    }

    pub(super) fn plain_statement(&mut self, statement: &Stmt, out: &mut Vec<ast::Stmt>) {
        let range = statement.range;
        match &statement.kind {
            StmtKind::Declare { is_var, targets, ty, value } => {
                self.declaration(*is_var, targets, ty.as_ref(), value.as_ref(), range, out);
            }
            StmtKind::Assign { targets, value } => {
                let value = self.expr(value);
                let targets: Option<Vec<ast::Expr>> = targets.iter().map(|target| self.target(target)).collect();
                let Some(mut targets) = targets else { return };
                let target = match targets.len() {
                    1 => targets.swap_remove(0),
                    _ => node::tuple(targets, range, ExprContext::Store),
                };
                out.push(node::assign(target, value, range));
            }
            StmtKind::Update { target, op, value } => {
                let value = self.expr(value);
                let Some(target) = self.target(target) else { return };
                out.push(node::update(target, operator(*op), value, range));
            }
            StmtKind::If { branches, otherwise } if branches.is_empty() => {
                otherwise.iter().for_each(|block| out.extend(self.block(block)));
            }
            StmtKind::If { branches, otherwise } => {
                let branches =
                    branches.iter().map(|(cond, block)| (self.expr(cond), self.body(block, range))).collect();
                let otherwise = otherwise.as_ref().map(|block| self.body(block, range));
                out.extend(node::branch(branches, otherwise, range));
            }
            StmtKind::For(inner) => out.extend(self.for_loop(inner, None, range)),
            StmtKind::While { cond, body } => {
                let cond = self.expr(cond);
                self.loops.push(1);
                let body = self.body(body, range);
                self.loops.pop();
                out.push(node::while_loop(cond, body, range));
            }
            StmtKind::Break => match self.loops.last() {
                Some(1) => out.push(node::break_loop(range)),
                Some(_) => {
                    let help = "write the loops one inside the other, so that it is clear which one ends";
                    self.error(Code::Unsupported, range, "`break` in a loop over several indices", help);
                }
                None if self.context == BodyContext::Iteration => {
                    let message = "`break` in a parallel loop: its iterations run in no order";
                    let help = "leave the iteration with `continue`, or write `serial for` to run them in order";
                    self.error(Code::Unsupported, range, message, help);
                }
                None => {
                    let help = "use it in `for` or `while`, or remove it";
                    self.error(Code::Syntax, range, "`break` outside a loop", help);
                }
            },
            StmtKind::Continue => match self.loops.last() {
                Some(_) => out.push(node::continue_loop(range)),
                // The iteration is a thread.
                None if self.context == BodyContext::Iteration => out.push(node::return_value(None, range)),
                None => {
                    let help = "use it in `for` or `while`, or remove it";
                    self.error(Code::Syntax, range, "`continue` outside a loop", help);
                }
            },
            StmtKind::Return(values) => self.return_statement(values, range, out),
            StmtKind::Assert { cond, message } => {
                let (cond, message) = (self.expr(cond), message.as_ref().map(|message| self.expr(message)));
                out.push(node::assert(cond, message, range));
            }
            StmtKind::Expr(value) => {
                if !matches!(value.kind, ExprKind::Call { .. } | ExprKind::Error) {
                    let help = "assign it to something, or remove it";
                    self.error(Code::Syntax, range, "this value is used for nothing", help);
                }
                let value = self.expr(value);
                out.push(node::expression(value, range));
            }
        }
    }

    fn return_statement(&mut self, values: &[Expr], range: TextRange, out: &mut Vec<ast::Stmt>) {
        match (self.context, values) {
            (BodyContext::Iteration, _) => {
                let message = "`return` in a parallel loop: no iteration ends the others";
                self.error(Code::Unsupported, range, message, "end this iteration with `continue`");
            }
            (BodyContext::Once, _) | (BodyContext::Thread, [_, ..]) => {
                let help = "store results in arrays: `y[i] = …`";
                self.error(Code::Unsupported, range, "a kernel returns nothing", help);
            }
            (_, []) => out.push(node::return_value(None, range)),
            (_, [only]) => {
                let value = self.expr(only);
                out.push(node::return_value(Some(value), range));
            }
            (_, several) => {
                let values = several.iter().map(|value| self.expr(value)).collect();
                let value = node::tuple(values, range, ExprContext::Load);
                out.push(node::return_value(Some(value), range));
            }
        }
    }

    fn declaration(
        &mut self,
        is_var: bool,
        targets: &[Ident],
        ty: Option<&crate::loom::syntax::TypeExpr>,
        value: Option<&Expr>,
        range: TextRange,
        out: &mut Vec<ast::Stmt>,
    ) {
        // The value is read before the names mean something new.
        let is_view = value.is_some_and(|value| self.is_view(value));
        let value = value.map(|value| self.expr(value));
        if let Some(ty) = ty.filter(|ty| FileElaboration::extents_of_type(ty).is_some() && value.is_none()) {
            let help = "write `let t = zeros(shape=4, dtype=f32)` for one of constant extents that belongs to the thread; arrays of a \
                        kernel are declared outside its loops";
            self.error(Code::Unsupported, ty.range, "an array is declared here by its type", help);
            return;
        }
        let annotation = ty.map(|ty| self.file.type_node(ty, false));
        let annotation = annotation.or_else(|| self.kept.get(&targets.first()?.range).cloned());
        let kind = if is_var { LocalKind::Var } else { LocalKind::Let };
        let mut names: Vec<ast::Expr> = Vec::new();
        for target in targets {
            let name = self.declare(target, kind);
            names.push(node::target(&name, target.range));
            if is_view {
                self.views.insert(name);
            }
        }
        let [_] = &names[..] else {
            if let Some(ty) = ty {
                let help = "declare names with types one by one";
                self.error(Code::Unsupported, ty.range, "a type of several names", help);
            }
            if let Some(value) = value {
                out.push(node::assign(node::tuple(names, range, ExprContext::Store), value, range));
            }
            return;
        };
        let name = names.swap_remove(0);
        match (annotation, value, ty) {
            (Some(annotation), Some(value), _) => out.push(node::annotated(name, annotation, Some(value), range)),
            (None, Some(value), _) => out.push(node::assign(name, value, range)),
            // A variable without a value begins with zeros.
            (Some(annotation), None, Some(ty)) => {
                let is_scalar = matches!(&ty.path[..], [only] if types::scalar(&only.name).is_some());
                let zero = match is_scalar {
                    true => vec![node::int(0, ty.range)],
                    false => Vec::new(),
                };
                let zero = node::call(annotation.clone(), zero, Vec::new(), ty.range);
                out.push(node::annotated(name, annotation, Some(zero), range));
            }
            _ => {}
        }
    }

    /// Returns true for a value that may be a part of an array: fewer subscripts than it has axes, or of unknown axes.
    fn is_view(&self, value: &Expr) -> bool {
        let Some(found) = super::root_of(value).and_then(|root| self.find(root)) else { return false };
        let (mut of, mut n_indices, mut is_element) = (value, 0, true);
        loop {
            match &of.kind {
                ExprKind::Index(inner, indices) => {
                    n_indices += indices.len();
                    is_element &= !indices.iter().any(|index| matches!(index.kind, ExprKind::Range(_)));
                    of = inner;
                }
                ExprKind::Member(inner, _) => {
                    n_indices = 0;
                    of = inner;
                }
                _ => break,
            }
        }
        match found.kind {
            LocalKind::Param | LocalKind::Reference => {
                !(is_element && of.as_name().and_then(|name| self.axes.get(name)) == Some(&n_indices))
            }
            _ => self.views.contains(&found.node),
        }
    }

    /// Returns true for a variable outside the parallel loop, of which the iteration has a copy.
    fn is_outside(&self, name: &str) -> bool {
        self.find(name).is_some_and(|found| found.kind == LocalKind::Outer)
    }

    /// Returns what an assignment writes; `None` if that is rejected.
    fn target(&mut self, target: &Expr) -> Option<ast::Expr> {
        match &target.kind {
            ExprKind::Name(name) => {
                let found = self.find(name).cloned();
                let range = target.range;
                let (message, help) = match found.as_ref().map(|found| found.kind) {
                    Some(LocalKind::Var | LocalKind::Reference) => {
                        let node = found.map(|found| found.node)?;
                        return Some(node::target(&node, range));
                    }
                    Some(LocalKind::Let) => (
                        format!("`{name}` is declared by `let` and keeps its value"),
                        format!("declare it by `var {name} = …`"),
                    ),
                    Some(LocalKind::Index) => (
                        format!("`{name}` counts the loop and cannot be assigned"),
                        "use a `var` of its own, or a `while` loop".to_owned(),
                    ),
                    Some(LocalKind::Param) => (
                        format!("`{name}` is a parameter and keeps its value"),
                        format!("copy it: `var {name}_ = {name}`; elements are assigned by index: `{name}[i] = …`"),
                    ),
                    Some(LocalKind::Extent) => (
                        format!("`{name}` is the extent of an array and keeps its value"),
                        "use a `var` of another name".to_owned(),
                    ),
                    Some(LocalKind::Outer) => {
                        self.assigned_outside(name, range);
                        return None;
                    }
                    None if self.outside.contains_key(name) => {
                        self.assigned_outside(name, range);
                        return None;
                    }
                    None if self.file.globals.contains(name.as_str()) => {
                        (format!("`{name}` is declared by the file and keeps its value"), "use a `var`".to_owned())
                    }
                    None => (format!("`{name}` is not declared"), format!("write `var {name} = …`")),
                };
                self.error(Code::BadAssignment, range, message, help);
                if let Some(found) = found
                    && let Some(error) = self.file.made.errors.last_mut()
                {
                    error.label = Some((found.range, "it is declared here".to_owned()));
                }
                None
            }
            ExprKind::Index(..) | ExprKind::Member(..) => {
                if let Some(root) = super::root_of(target).filter(|root| self.is_outside(root)) {
                    self.assigned_outside(root, target.range);
                    return None;
                }
                // An element of what `let` names may be assigned if that is a part of an array, which the checker knows.
                let mut made = self.expr(target);
                match &mut made {
                    ast::Expr::Subscript(subscript) => subscript.ctx = ExprContext::Store,
                    ast::Expr::Attribute(attribute) => attribute.ctx = ExprContext::Store,
                    _ => {}
                }
                Some(made)
            }
            ExprKind::Error => None,
            _ => {
                let help = "assign to a `var`, or to an element: `y[i] = …`";
                self.error(Code::BadAssignment, target.range, "this cannot be assigned", help);
                None
            }
        }
    }

    fn assigned_outside(&mut self, name: &str, range: TextRange) {
        let message = format!("`{name}` is a variable outside the parallel loop");
        let help =
            "declare it in the loop; or write `reduce for` to combine what iterations give, or `serial for`".to_owned();
        let outside = self.outside.get(name).copied();
        self.error(Code::Collision, range, message, help);
        if let (Some(outside), Some(error)) = (outside, self.file.made.errors.last_mut()) {
            error.label = Some((outside, "it is declared here".to_owned()));
        }
    }

    /// A loop whose iterations run in order. `iterations` stands for the range of the first index.
    pub(super) fn for_loop(
        &mut self,
        inner: &ForLoop,
        mut iterations: Option<ast::Expr>,
        range: TextRange,
    ) -> Option<ast::Stmt> {
        for annotation in &inner.annotations {
            self.file.check_loop_annotation(annotation);
        }
        self.loops.push(inner.indices.len());
        let made = self.scoped(|body| {
            let mut headers = Vec::new();
            for index in &inner.indices {
                // Bounds may name the indices before.
                let iter = iterations.take().unwrap_or_else(|| body.range(index));
                let counter = node::target(&body.declare(&index.name, LocalKind::Index), index.name.range);
                headers.push((counter, iter));
            }
            let mut statements = body.body(&inner.body, inner.header);
            while let Some((counter, iter)) = headers.pop() {
                statements = vec![node::for_loop(counter, iter, statements, range)];
            }
            statements.pop()
        });
        self.loops.pop();
        made
    }

    fn range(&mut self, index: &crate::loom::syntax::LoopIndex) -> ast::Expr {
        let range = index.start.range.cover(index.end.range);
        let (start, mut end) = (self.expr(&index.start), self.expr(&index.end));
        if index.is_inclusive {
            end = node::binary(end, ast::Operator::Add, node::int(1, index.end.range), index.end.range);
        }
        let is_from_zero = matches!(index.start.kind, ExprKind::Int(0, None));
        let arguments = match &index.step {
            None if is_from_zero => vec![end],
            None => vec![start, end],
            Some(step) => vec![start, end, self.expr(step)],
        };
        node::call(node::member("range", range), arguments, Vec::new(), range)
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> ast::Expr {
        let range = expr.range;
        match &expr.kind {
            ExprKind::Int(value, suffix) => typed_number(node::int(*value, range), suffix.as_deref(), range),
            ExprKind::Float(value, suffix) => typed_number(node::float(*value, range), suffix.as_deref(), range),
            ExprKind::Bool(value) => node::boolean(*value, range),
            ExprKind::Text(text) => node::text(text, range),
            ExprKind::Name(name) => self.name(name, range),
            ExprKind::Member(of, member) => node::attribute(self.expr(of), &member.name, member.range),
            ExprKind::Index(of, indices) => {
                if let Some(element) = self.staged_element(expr) {
                    return element;
                }
                let of = self.expr(of);
                let mut parts: Vec<ast::Expr> = indices.iter().map(|index| self.expr(index)).collect();
                let slice = match (parts.len(), indices.first(), indices.last()) {
                    (1, _, _) => parts.swap_remove(0),
                    (_, Some(first), Some(last)) => {
                        node::tuple(parts, first.range.cover(last.range), ExprContext::Load)
                    }
                    _ => node::int(0, range),
                };
                node::subscript(of, slice, range, ExprContext::Load)
            }
            ExprKind::Call { function, arguments, parentheses } => self.call(function, arguments, *parentheses, range),
            ExprKind::Unary(op, operand) => {
                let op = match op {
                    UnaryOp::Negate => ast::UnaryOp::USub,
                    UnaryOp::Plus => ast::UnaryOp::UAdd,
                    UnaryOp::Invert => ast::UnaryOp::Invert,
                    UnaryOp::Not => ast::UnaryOp::Not,
                };
                node::unary(op, self.expr(operand), range)
            }
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.expr(left), self.expr(right));
                node::binary(left, operator(*op), right, range)
            }
            ExprKind::Compare(first, rest) => {
                let first = self.expr(first);
                let rest = rest.iter().map(|(op, operand)| (comparison(*op), self.expr(operand))).collect();
                node::compare(first, rest, range)
            }
            ExprKind::Logic(all, terms) => {
                let op = if *all { ast::BoolOp::And } else { ast::BoolOp::Or };
                node::logic(op, terms.iter().map(|term| self.expr(term)).collect(), range)
            }
            ExprKind::Select(parts) => {
                let [cond, then, otherwise] = &**parts;
                let (cond, then, otherwise) = (self.expr(cond), self.expr(then), self.expr(otherwise));
                node::choice(cond, then, otherwise, range)
            }
            ExprKind::Range(bounds) => {
                let [start, end, step] = bounds.each_ref().map(|bound| bound.as_ref().map(|bound| self.expr(bound)));
                node::slice(start, end, step, range)
            }
            ExprKind::Spread(of) => node::starred(self.expr(of), range),
            ExprKind::Tuple(values) => {
                node::tuple(values.iter().map(|value| self.expr(value)).collect(), range, ExprContext::Load)
            }
            ExprKind::Error => node::int(0, range),
        }
    }

    pub(super) fn name(&mut self, name: &str, range: TextRange) -> ast::Expr {
        if let Some(found) = self.find(name) {
            return node::name(&found.node.clone(), range);
        }
        if let Some(outside) = self.outside.get(name).copied() {
            let message = format!("`{name}` is set by statements outside the parallel loop");
            let help = "declare it by `let` from integers and shapes, or in the loop";
            self.error(Code::UnknownName, range, message, help);
            if let Some(error) = self.file.made.errors.last_mut() {
                error.label = Some((outside, "it is declared here".to_owned()));
            }
        }
        match types::scalar(name) {
            Some(scalar) if !self.file.globals.contains(name) => node::member(scalar.python_name(), range),
            _ => node::name(name, range),
        }
    }

    fn call(&mut self, function: &Expr, arguments: &[Argument], parentheses: TextRange, range: TextRange) -> ast::Expr {
        // Python spells this by an operator, whose `//` begins a comment here.
        if function.as_name() == Some("floordiv")
            && let [left, right] = arguments
        {
            let (left, right) = (self.expr(&left.value), self.expr(&right.value));
            return node::binary(left, ast::Operator::FloorDiv, right, range);
        }
        for (at, argument) in arguments.iter().enumerate() {
            let root = super::root_of(&argument.value).filter(|root| self.is_outside(root));
            if let Some(root) = root
                && self.file.changes_variable(function, at, argument)
            {
                self.assigned_outside(root, argument.value.range);
            }
        }
        let function = self.expr(function);
        let (mut values, mut keywords) = (Vec::new(), Vec::new());
        for argument in arguments {
            let value = self.expr(&argument.value);
            match &argument.name {
                Some(name) => keywords.push((Identifier::new(name.name.as_str(), name.range), value)),
                None => values.push(value),
            }
        }
        node::call(function, values, keywords, parentheses)
    }
}

/// A number of the type that it ends with.
fn typed_number(number: ast::Expr, suffix: Option<&str>, range: TextRange) -> ast::Expr {
    match suffix.and_then(types::scalar) {
        Some(scalar) => node::call(node::member(scalar.python_name(), range), vec![number], Vec::new(), range),
        None => number,
    }
}

fn operator(op: BinaryOp) -> ast::Operator {
    match op {
        BinaryOp::Add => ast::Operator::Add,
        BinaryOp::Sub => ast::Operator::Sub,
        BinaryOp::Mul => ast::Operator::Mult,
        BinaryOp::Div => ast::Operator::Div,
        BinaryOp::Mod => ast::Operator::Mod,
        BinaryOp::Pow => ast::Operator::Pow,
        BinaryOp::Lshift => ast::Operator::LShift,
        BinaryOp::Rshift => ast::Operator::RShift,
        BinaryOp::And => ast::Operator::BitAnd,
        BinaryOp::Or => ast::Operator::BitOr,
        BinaryOp::Xor => ast::Operator::BitXor,
    }
}

fn comparison(op: CompareOp) -> ast::CmpOp {
    match op {
        CompareOp::Lt => ast::CmpOp::Lt,
        CompareOp::Le => ast::CmpOp::LtE,
        CompareOp::Gt => ast::CmpOp::Gt,
        CompareOp::Ge => ast::CmpOp::GtE,
        CompareOp::Eq => ast::CmpOp::Eq,
        CompareOp::Ne => ast::CmpOp::NotEq,
    }
}
