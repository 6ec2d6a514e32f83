//! The calls of `static` in the text of functions.

use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::{CapturedMeaning, FunctionHandle};
use ruff_python_ast as ast;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_text_size::Ranged;

impl FunctionHandle {
    /// Computes the static expressions in its text that need nothing of its own, and so keeps what they are now; gives
    /// whether there are no others. What is wrong with them is reported when it is compiled.
    pub fn evaluate_static_expressions(&self) -> bool {
        let lookup = |path: &[&str]| self.environment.lookup(path);
        let Some(def) = self.unit.definition(self.function) else { return true };
        if !self.unit.text(def.range()).contains("static") {
            return true;
        }
        let (free, n_all) = static_expressions(def, &lookup);
        for expr in &free {
            let range = expr.range();
            self.environment.evaluate(self.unit.text(range), range.start().to_u32(), &[]);
        }
        free.len() == n_all
    }
}

/// The names an expression reads, each once.
pub(crate) fn names_in(expr: &ast::Expr) -> Vec<&str> {
    struct ExpressionNames<'a>(Vec<&'a str>);
    impl<'a> Visitor<'a> for ExpressionNames<'a> {
        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            if let ast::Expr::Name(name) = expr
                && !self.0.contains(&name.id.as_str())
            {
                self.0.push(name.id.as_str());
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut names = ExpressionNames(Vec::new());
    names.visit_expr(expr);
    names.0
}

/// Tells whether a call is one of `static`.
pub(crate) fn is_static(call: &ast::ExprCall, lookup: &dyn Fn(&[&str]) -> Option<CapturedMeaning>) -> bool {
    let is_named = |path: &[&str]| matches!(path.last(), Some(&"static"));
    let path = dotted(&call.func).filter(|path| is_named(path));
    path.is_some_and(|path| matches!(lookup(&path), Some(CapturedMeaning::Builtin(BuiltinFunction::Constant))))
}

/// The static expressions of a function that name no variable of it, and how many it has with those that do.
fn static_expressions<'a>(
    def: &'a ast::StmtFunctionDef,
    lookup: &dyn Fn(&[&str]) -> Option<CapturedMeaning>,
) -> (Vec<&'a ast::Expr>, usize) {
    struct StaticFinder<'a, 'l> {
        lookup: &'l dyn Fn(&[&str]) -> Option<CapturedMeaning>,
        own: Vec<&'a str>,
        found: Vec<&'a ast::Expr>,
    }
    impl<'a> Visitor<'a> for StaticFinder<'a, '_> {
        fn visit_expr(&mut self, expr: &'a ast::Expr) {
            match expr {
                ast::Expr::Call(call) if is_static(call, self.lookup) => {
                    self.found.extend(&call.arguments.args);
                    return;
                }
                ast::Expr::Name(name) if name.ctx.is_store() => self.own.push(name.id.as_str()),
                _ => {}
            }
            visitor::walk_expr(self, expr);
        }
    }
    let parameters = def.parameters.iter_non_variadic_params().map(|p| p.parameter.name.as_str());
    let mut finder = StaticFinder { lookup, own: parameters.collect(), found: Vec::new() };
    finder.visit_body(&def.body);
    let StaticFinder { own, mut found, .. } = finder;
    let n_all = found.len();
    found.retain(|expr| names_in(expr).iter().all(|name| !own.contains(name)));
    (found, n_all)
}
