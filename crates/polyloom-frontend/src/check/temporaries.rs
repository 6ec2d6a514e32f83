//! Values that are held in variables while the expressions that use them are evaluated.

use crate::typed_ast::{AssignTarget, ExprKind, Locals, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::Span;
use smallvec::smallvec;

/// Values held in variables, for the expression that uses them.
#[derive(Clone, Default)]
pub(super) struct Temporaries {
    values: Vec<(Locals, TypedExpr)>,
}

impl Temporaries {
    /// Adds a value and the variables that hold it.
    pub(super) fn push(&mut self, locals: Locals, value: TypedExpr) {
        self.values.push((locals, value));
    }

    /// Statements that give the variables their values.
    pub(super) fn statements(self, span: Span) -> impl Iterator<Item = TypedStmt> {
        self.values.into_iter().map(move |(locals, value)| {
            let targets = locals.into_iter().map(AssignTarget::Local).collect();
            TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![value] }, span }
        })
    }

    /// The expression, evaluated while the variables hold their values.
    pub(super) fn around(self, body: TypedExpr) -> TypedExpr {
        self.values.into_iter().rev().fold(body, |body, (locals, value)| {
            let (ty, span) = (body.ty.clone(), body.span);
            TypedExpr::new(ExprKind::Let { locals, value: Box::new(value), body: Box::new(body) }, ty, span)
        })
    }
}
