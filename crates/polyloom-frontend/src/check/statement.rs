//! Checking statements: blocks and branches.

use super::call::CallArgument;
use super::expression::MAX_DEPTH;
use super::flow::{FlowState, LocalSet};
use super::function::FunctionChecker;
use crate::builtin_function::BuiltinFunction;
use crate::typed_ast::{ExprKind, ExprType, StmtKind, TypedStmt};
use polyloom_ir::{Code, Diagnostic, Op, Span};
use ruff_python_ast as ast;
use smallvec::smallvec;

/// More branches of open `if` statements, each in the `else` of the one before, are not checked.
const MAX_ELIFS: u32 = 250;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Checks statements in order. What follows a `return`, `break` or `continue` is checked and left out.
    pub(super) fn block(&mut self, body: &'a [ast::Stmt], out: &mut Vec<TypedStmt>) {
        if self.depth >= MAX_DEPTH {
            if let Some(first) = body.first() {
                let span = self.span(first);
                self.reject(
                    Code::Limit,
                    span,
                    "the statement is nested too deeply",
                    "move the inner statements to a function",
                );
            }
            return;
        }
        self.depth += 1;
        let mut dropped = Vec::new();
        let mut ended = !self.flow.reachable;
        for (at, stmt) in body.iter().enumerate() {
            if !ended && !self.flow.reachable {
                ended = true;
                if self.chosen_end {
                    break;
                }
                let last = body.last().unwrap_or(stmt);
                let span = Span::new(self.file, self.span(stmt).start, self.span(last).end);
                self.report(
                    Diagnostic::warning(Code::UnreachableCode, span, "this code is never reached")
                        .help("remove it, or the statement above that leaves the block"),
                );
            }
            let out = if ended { &mut dropped } else { &mut *out };
            if let Some(choice) = self.array_choice(stmt, &body[at + 1..]) {
                self.choose_array(choice, &body[at + 1..], out);
                break;
            }
            self.statement(stmt, out);
        }
        self.depth -= 1;
    }

    pub(super) fn one_statement(&mut self, stmt: &'a ast::Stmt, out: &mut Vec<TypedStmt>) {
        let span = self.span(stmt);
        if !self.spend(1, stmt) {
            return;
        }
        match stmt {
            ast::Stmt::Assign(assign) => self.assign(assign, span, out),
            ast::Stmt::AugAssign(assign) => self.augmented(assign, span, out),
            ast::Stmt::AnnAssign(assign) => self.annotated(assign, span, out),
            ast::Stmt::If(branch) => {
                self.branch(&branch.test, &branch.body, &branch.elif_else_clauses, span, out);
            }
            ast::Stmt::For(for_) => self.for_loop(for_, span, out),
            ast::Stmt::While(while_) => self.while_loop(while_, span, out),
            ast::Stmt::Break(_) => self.leave_loop(span, true, out),
            ast::Stmt::Continue(_) => self.leave_loop(span, false, out),
            ast::Stmt::Return(return_) => self.return_statement(return_, out),
            ast::Stmt::Assert(assert) => self.assert(assert, span, out),
            ast::Stmt::Expr(expr) => self.expression_statement(&expr.value, span, out),
            ast::Stmt::Pass(_) => {}
            _ => self.unsupported_stmt(stmt),
        }
    }

    fn expression_statement(&mut self, expr: &'a ast::Expr, span: Span, out: &mut Vec<TypedStmt>) {
        // A docstring, or a stand-in for an empty block.
        if matches!(expr, ast::Expr::StringLiteral(_) | ast::Expr::EllipsisLiteral(_)) {
            return;
        }
        match self.called_builtin(expr) {
            Some((BuiltinFunction::Print, call)) => return self.print(call, span, out),
            Some((BuiltinFunction::Printf, call)) => return self.printf(call, span, out),
            Some((BuiltinFunction::Op(op), call)) => {
                if let Some((arguments, targets)) = outputs(op, call) {
                    let name = self.unit.text(ruff_text_size::Ranged::range(&*call.func));
                    let values =
                        arguments.iter().map(|arg| CallArgument { name: None, value: self.expr(arg) }).collect();
                    let value = self.op_call(op, values, name, span);
                    return self.unpack(targets, smallvec![value], span, out);
                }
            }
            _ => {}
        }
        let checked = self.expr(expr);
        match checked.ty {
            ExprType::Error => {}
            ExprType::Number if checked.number().is_some() => {}
            ExprType::Number => {
                let settled = self.settle(checked);
                out.push(TypedStmt { kind: StmtKind::Expr(settled), span });
            }
            _ => out.push(TypedStmt { kind: StmtKind::Expr(checked), span }),
        }
    }

    fn assert(&mut self, assert: &'a ast::StmtAssert, span: Span, out: &mut Vec<TypedStmt>) {
        let cond = self.condition(&assert.test);
        let message = match assert.msg.as_deref() {
            None => {
                let text = self.unit.text(ruff_text_size::Ranged::range(&*assert.test));
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            }
            Some(ast::Expr::StringLiteral(text)) => text.value.to_str().to_owned(),
            Some(other) => {
                let span = self.span(other);
                self.reject(
                    Code::Unsupported,
                    span,
                    "the message of an `assert` must be a string literal",
                    "write a plain string; print values with `print(…)` before the `assert`",
                );
                return;
            }
        };
        if !cond.is_error() {
            out.push(TypedStmt { kind: StmtKind::Assert { cond, message: message.into() }, span });
        }
    }

    /// `if`, and what `elif` makes of its `else`.
    pub(super) fn branch(
        &mut self,
        test: &'a ast::Expr,
        body: &'a [ast::Stmt],
        clauses: &'a [ast::ElifElseClause],
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) {
        if let Some(taken) = self.choice(test) {
            let was_reachable = self.flow.reachable;
            match (taken, clauses) {
                (true, _) => self.block(body, out),
                (false, []) => {}
                (false, [first, rest @ ..]) => {
                    let clause_span = self.span(first);
                    match &first.test {
                        Some(test) if self.n_elifs < MAX_ELIFS => {
                            self.n_elifs += 1;
                            self.branch(test, &first.body, rest, clause_span, out);
                            self.n_elifs -= 1;
                        }
                        Some(_) => self.too_many_branches(clause_span),
                        None => self.block(&first.body, out),
                    }
                }
            }
            self.chosen_end |= was_reachable && !self.flow.reachable;
            return;
        }
        let cond = self.condition(test);
        let known = match cond.kind {
            ExprKind::Const(bits) if !cond.is_error() => Some(bits != 0),
            _ => None,
        };
        let before = self.flow.clone();
        let enter = |taken: bool| if known == Some(!taken) { FlowState::never() } else { before.clone() };
        self.assigned.push(LocalSet::default());
        let (mut then, mut otherwise) = (Vec::new(), Vec::new());
        self.flow = enter(true);
        let scope = self.open_scope();
        self.block(body, &mut then);
        self.close_scope(scope);
        self.forget_assigned_constants();
        let after_then = std::mem::replace(&mut self.flow, enter(false));
        let scope = self.open_scope();
        match clauses {
            [] => {}
            [first, rest @ ..] => {
                let clause_span = self.span(first);
                match &first.test {
                    Some(test) if self.n_elifs < MAX_ELIFS => {
                        self.n_elifs += 1;
                        self.branch(test, &first.body, rest, clause_span, &mut otherwise);
                        self.n_elifs -= 1;
                    }
                    Some(_) => self.too_many_branches(clause_span),
                    None => self.block(&first.body, &mut otherwise),
                }
            }
        }
        self.close_scope(scope);
        self.flow.join(&after_then);
        let assigned = self.assigned.pop().unwrap_or_default();
        self.forget_constants(&assigned);
        if let Some(outer) = self.assigned.last_mut() {
            outer.union_with(&assigned);
        }
        if cond.is_error() {
            return;
        }
        let merged = assigned.select(|local| self.flow.set.contains(local));
        out.push(TypedStmt { kind: StmtKind::If { cond, then, otherwise, merged }, span });
    }

    fn too_many_branches(&mut self, span: Span) {
        let help = "split the branches over several `if` statements";
        self.reject(Code::Limit, span, "too many `elif` branches", help);
    }
}

/// The arguments of a call on its own that are what the op takes, and those behind them for what it gives, if that is
/// several values: `quat_to_axis_angle(q, axis, angle)` sets two variables.
fn outputs(op: Op, call: &ast::ExprCall) -> Option<(&[ast::Expr], &[ast::Expr])> {
    let signatures = &op.info().signatures;
    let mut fits = signatures.iter().map(|signature| (signature.params.len(), signature.results.len()));
    let n_given = call.arguments.args.len();
    let (n_params, _) = fits.find(|&(n_params, n_results)| n_results > 1 && n_params + n_results == n_given)?;
    (call.arguments.keywords.is_empty() && signatures.iter().all(|signature| signature.params.len() != n_given))
        .then(|| call.arguments.args.split_at(n_params))
}
