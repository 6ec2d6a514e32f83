//! `x := …` outside kernels: the expressions that bind names of the scope around them.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};

/// The `x := …` of a statement, but not of the statements in it, in the order of their evaluation; each with whether it
/// is evaluated, once, if the statement runs.
pub(crate) fn assignment_expressions(stmt: &Stmt) -> Vec<(&ast::ExprNamed, bool)> {
    let runs = !matches!(stmt, Stmt::While(_) | Stmt::Assert(_));
    let mut collector = WalrusCollector { found: Vec::new(), runs };
    visitor::walk_stmt(&mut collector, stmt);
    collector.found
}

struct WalrusCollector<'a> {
    found: Vec<(&'a ast::ExprNamed, bool)>,
    runs: bool,
}

impl WalrusCollector<'_> {
    fn maybe(&mut self, visit: impl FnOnce(&mut Self)) {
        let runs = std::mem::replace(&mut self.runs, false);
        visit(self);
        self.runs = runs;
    }
}

impl<'a> Visitor<'a> for WalrusCollector<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            // A name of its own.
            Expr::Lambda(_) => {}
            Expr::BoolOp(_)
            | Expr::If(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_)
            | Expr::Generator(_) => self.maybe(|this| visitor::walk_expr(this, expr)),
            Expr::Compare(compare) if compare.ops.len() > 1 => self.maybe(|this| visitor::walk_expr(this, expr)),
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                self.found.push((named, self.runs));
            }
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_elif_else_clause(&mut self, clause: &'a ast::ElifElseClause) {
        self.maybe(|this| visitor::walk_elif_else_clause(this, clause));
    }

    fn visit_match_case(&mut self, case: &'a ast::MatchCase) {
        self.maybe(|this| visitor::walk_match_case(this, case));
    }

    fn visit_body(&mut self, _: &'a [Stmt]) {}
}
