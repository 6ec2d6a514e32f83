//! Adjoints in the text of functions that carry derivatives.
//!
//! A function under `@func_grad(f)` takes what `f` takes and the adjoints of what `f` gives, and adds to `adjoint[x]`
//! for each of its parameters. To the checker, `adjoint[x]` is a variable of that name: a further parameter by
//! reference, which is zero at first and handed back at the end.

use crate::dotted_path::dotted;
use crate::function_info::{FunctionInfo, FunctionRole};
use ruff_python_ast::visitor::transformer::{self, Transformer};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};

/// The name of the variable that `adjoint[x]` is.
pub(crate) fn adjoint_name(parameter: &str) -> String {
    format!("adjoint[{parameter}]")
}

/// Returns what `x` is in the name `adjoint[x]`.
pub(crate) fn parameter_of(name: &str) -> Option<&str> {
    name.strip_prefix("adjoint[")?.strip_suffix(']')
}

/// The adjoints that a function names, such as `adjoint[x]`, and where.
pub(crate) fn adjoints_in(def: &ast::StmtFunctionDef) -> Vec<(&str, TextRange)> {
    struct Finder<'a>(Vec<(&'a str, TextRange)>);
    impl<'a> Visitor<'a> for Finder<'a> {
        fn visit_expr(&mut self, expr: &'a Expr) {
            if let Expr::Name(name) = expr
                && parameter_of(&name.id).is_some()
            {
                self.0.push((name.id.as_str(), name.range));
            }
            visitor::walk_expr(self, expr);
        }
    }
    let mut finder = Finder(Vec::new());
    finder.visit_body(&def.body);
    finder.0
}

/// Returns where a function gives something back by `return`.
pub(crate) fn first_returned(def: &ast::StmtFunctionDef) -> Option<TextRange> {
    struct Finder(Option<TextRange>);
    impl Visitor<'_> for Finder {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::Return(returned) = stmt
                && let (None, Some(value)) = (self.0, &returned.value)
            {
                self.0 = Some(value.range());
            }
            visitor::walk_stmt(self, stmt);
        }
    }
    let mut finder = Finder(None);
    finder.visit_body(&def.body);
    finder.0
}

/// Makes `adjoint[x]` a name, in functions that carry derivatives.
pub(crate) fn name_adjoints(body: &mut [Stmt], functions: &[FunctionInfo]) {
    let starts: Vec<u32> =
        functions.iter().filter(|f| f.role == Some(FunctionRole::Gradient)).map(|f| f.start).collect();
    if starts.is_empty() {
        return;
    }
    let namer = Namer { starts: &starts, is_inside: false };
    body.iter_mut().for_each(|stmt| namer.visit_stmt(stmt));
}

struct Namer<'a> {
    /// The place where the functions begin.
    starts: &'a [u32],
    is_inside: bool,
}

impl Transformer for Namer<'_> {
    fn visit_stmt(&self, stmt: &mut Stmt) {
        let is_gradient = matches!(stmt, Stmt::FunctionDef(def) if self.starts.contains(&def.range().start().to_u32()));
        transformer::walk_stmt(&Namer { starts: self.starts, is_inside: self.is_inside || is_gradient }, stmt);
    }

    fn visit_expr(&self, expr: &mut Expr) {
        if self.is_inside
            && let Expr::Subscript(subscript) = &*expr
            && dotted(&subscript.value).is_some_and(|path| path.last() == Some(&"adjoint"))
            && let Some(named) = named_adjoint(&subscript.slice, subscript)
        {
            *expr = named;
            return;
        }
        transformer::walk_expr(self, expr);
    }
}

/// The variable that the adjoint of a parameter is, or the field of it that `adjoint[x.field]` is.
fn named_adjoint(of: &Expr, subscript: &ast::ExprSubscript) -> Option<Expr> {
    let (ctx, range, node_index) = (subscript.ctx, subscript.range, subscript.node_index.clone());
    match of {
        Expr::Name(parameter) => {
            let id = ast::name::Name::new(adjoint_name(parameter.id.as_str()));
            Some(Expr::Name(ast::ExprName { id, ctx, range, node_index }))
        }
        Expr::Attribute(field) => {
            let value = Box::new(named_adjoint(&field.value, subscript)?);
            Some(Expr::Attribute(ast::ExprAttribute { value, attr: field.attr.clone(), ctx, range, node_index }))
        }
        _ => None,
    }
}
