//! Parameters by reference: `def step(x: ref[float])` changes the caller's variable.
//!
//! Nothing is shared: a function hands the values of such parameters back as further results, and the call stores them
//! where they came from. Of a variable that is the variable itself. What is no variable, an array element or a
//! component, is read into one before the statement and written from it after the statement, which must then be the
//! call alone.
//!
//! Design: `docs/design/array-views.md`.

use super::function::FunctionChecker;
use super::statement_effects::StatementEffects;
use super::temporaries::Temporaries;
use crate::typed_ast::{AssignTarget, ExprKind, ExprType, StmtKind, Targets, TypedExpr, TypedStmt};
use polyloom_ir::{Code, Span};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextRange};
use smallvec::smallvec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Checks a statement, and puts what its arguments by reference need before and after it.
    pub(super) fn statement(&mut self, stmt: &'a ast::Stmt, out: &mut Vec<TypedStmt>) {
        let outer = std::mem::replace(
            &mut self.around,
            StatementEffects { call: call_of(stmt), ..StatementEffects::default() },
        );
        let at = out.len();
        self.one_statement(stmt, out);
        let around = std::mem::replace(&mut self.around, outer);
        out.splice(at..at, around.before);
        out.extend(around.after);
    }

    /// An argument for a parameter by reference: a variable, or a struct of such; `None` if it is rejected.
    pub(super) fn by_reference(
        &mut self,
        value: TypedExpr,
        source: Option<&'a ast::Expr>,
        parameter: &str,
        call: Span,
    ) -> Option<TypedExpr> {
        let is_place = |source: &&ast::Expr| {
            matches!(source, ast::Expr::Name(_) | ast::Expr::Attribute(_) | ast::Expr::Subscript(_))
        };
        let Some(source) = source.filter(is_place) else {
            return self.no_place(&value, parameter);
        };
        if is_variable(&value) {
            return Some(value);
        }
        if let ast::Expr::Name(_) = source {
            return self.no_place(&value, parameter);
        }
        let span = value.span;
        if self.around.call.map(|range| (range.start().to_u32(), range.end().to_u32())) != Some((call.start, call.end))
        {
            let message = format!("`{parameter}` is a reference, and this call is part of a larger expression");
            let help = "assign the argument to a variable, pass that, and assign it back";
            self.reject(Code::Unsupported, span, message, help);
            return None;
        }
        if self.has_effect(source) {
            let help = "assign the index to a variable first";
            self.reject(Code::Unsupported, span, "what is passed by reference would be computed twice", help);
            return None;
        }
        let held = self.held_reference(value, span);
        let mut targets = Targets::new();
        let stored = self.target(source, held.clone(), &mut targets)?;
        self.around.after.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![stored] }, span });
        Some(held)
    }

    /// A variable with the value of what is passed by reference, set before the statement.
    fn held_reference(&mut self, value: TypedExpr, span: Span) -> TypedExpr {
        let Some(ty) = value.ty.full() else { return TypedExpr::error(span) };
        let mut held = Temporaries::default();
        let leaves = if value.ty.is_struct() { self.leaves_of(value, &mut held) } else { vec![value] };
        let mut targets = Targets::new();
        let mut locals = Vec::with_capacity(leaves.len());
        for leaf in &leaves {
            let Some(ty) = leaf.ty.as_value() else { return TypedExpr::error(span) };
            let local = self.held_local(ty, span, span);
            targets.push(AssignTarget::Local(local));
            locals.push(TypedExpr::new(ExprKind::Local(local), ExprType::Value(ty), span));
        }
        let types = leaves.iter().filter_map(|leaf| leaf.ty.full()).collect();
        let stored = held.around(TypedExpr::new(ExprKind::Tuple(leaves), ExprType::Values(types), span));
        self.around.before.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![stored] }, span });
        match (ty.as_plain(), locals.pop()) {
            (Some(_), Some(local)) => local,
            (_, last) => {
                locals.extend(last);
                TypedExpr::new(ExprKind::Tuple(locals), ty.into(), span)
            }
        }
    }

    fn no_place(&mut self, value: &TypedExpr, parameter: &str) -> Option<TypedExpr> {
        if !value.is_error() {
            let message = format!("`{parameter}` is a reference, and this is nothing that can be assigned");
            let help = "pass a variable, an array element, a field or a component";
            self.reject(Code::TypeMismatch, value.span, message, help);
        }
        None
    }
}

/// Returns true if a value is that of a variable, or of a struct of variables.
fn is_variable(value: &TypedExpr) -> bool {
    match &value.kind {
        ExprKind::Local(_) => true,
        ExprKind::Tuple(leaves) => leaves.iter().all(is_variable),
        _ => false,
    }
}

/// The call that a statement is, or assigns the result of.
fn call_of(stmt: &ast::Stmt) -> Option<TextRange> {
    let value = match stmt {
        ast::Stmt::Expr(stmt) => &*stmt.value,
        ast::Stmt::Assign(stmt) => &*stmt.value,
        ast::Stmt::AnnAssign(stmt) => stmt.value.as_deref()?,
        _ => return None,
    };
    value.as_call_expr().map(Ranged::range)
}
