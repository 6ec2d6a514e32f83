//! The names of a Python scope: which are its own, which it declares global or nonlocal, which it reads.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Pattern, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashSet;

/// The names of one function, lambda, class or comprehension.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeBindings {
    pub(crate) locals: FxHashSet<String>,
    pub(crate) globals: FxHashSet<String>,
    pub(crate) nonlocals: FxHashSet<String>,
    /// True if it has a `yield` of its own.
    pub(crate) is_generator: bool,
}

impl ScopeBindings {
    pub(crate) fn of_function(parameters: &ast::Parameters, body: &[Stmt]) -> ScopeBindings {
        let mut finder = BindingFinder { names: ScopeBindings::default(), in_comprehension: 0 };
        finder.names.locals.extend(parameters.iter().map(|parameter| parameter.name().to_string()));
        finder.visit_body(body);
        finder.finish()
    }

    pub(crate) fn of_lambda(lambda: &ast::ExprLambda) -> ScopeBindings {
        let mut finder = BindingFinder { names: ScopeBindings::default(), in_comprehension: 0 };
        let parameters = lambda.parameters.iter().flat_map(|parameters| parameters.iter());
        finder.names.locals.extend(parameters.map(|parameter| parameter.name().to_string()));
        finder.visit_expr(&lambda.body);
        finder.finish()
    }

    /// The scope of a class or module body.
    pub(crate) fn of_body(body: &[Stmt]) -> ScopeBindings {
        let mut finder = BindingFinder { names: ScopeBindings::default(), in_comprehension: 0 };
        finder.visit_body(body);
        finder.finish()
    }

    /// Returns the names that a loop binds, in the scope that it stands in.
    pub(crate) fn bound_by_loop(target: Option<&Expr>, body: &[Stmt]) -> FxHashSet<String> {
        let mut finder = BindingFinder { names: ScopeBindings::default(), in_comprehension: 0 };
        target.into_iter().for_each(|target| finder.visit_expr(target));
        finder.visit_body(body);
        finder.finish().locals
    }

    /// The scope of a comprehension, whose targets alone are its own.
    pub(crate) fn of_comprehension(generators: &[ast::Comprehension]) -> ScopeBindings {
        let mut finder = BindingFinder { names: ScopeBindings::default(), in_comprehension: 0 };
        for generator in generators {
            finder.visit_expr(&generator.target);
        }
        finder.finish()
    }
}

struct BindingFinder {
    names: ScopeBindings,
    /// Comprehensions around the node, whose targets are not names of the scope.
    in_comprehension: usize,
}

impl BindingFinder {
    fn bind(&mut self, name: &str) {
        self.names.locals.insert(name.to_owned());
    }

    fn finish(mut self) -> ScopeBindings {
        let ScopeBindings { locals, globals, nonlocals, .. } = &mut self.names;
        locals.retain(|name| !globals.contains(name) && !nonlocals.contains(name));
        self.names
    }
}

impl<'a> Visitor<'a> for BindingFinder {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                self.bind(&def.name);
                def.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                self.visit_parameters(&def.parameters);
            }
            Stmt::ClassDef(class) => {
                self.bind(&class.name);
                class.decorator_list.iter().for_each(|decorator| self.visit_decorator(decorator));
                class.arguments.iter().for_each(|arguments| self.visit_arguments(arguments));
            }
            Stmt::Import(_) | Stmt::ImportFrom(_) => {
                crate::source::imported(stmt).iter().for_each(|(name, _)| self.bind(name));
            }
            Stmt::Global(stmt) => self.names.globals.extend(stmt.names.iter().map(ToString::to_string)),
            Stmt::Nonlocal(stmt) => self.names.nonlocals.extend(stmt.names.iter().map(ToString::to_string)),
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if !name.ctx.is_load() && self.in_comprehension == 0 => self.bind(&name.id),
            Expr::Named(named) => {
                if let Expr::Name(name) = &*named.target {
                    self.bind(&name.id);
                }
                self.visit_expr(&named.value);
            }
            Expr::Lambda(lambda) => {
                lambda.parameters.iter().for_each(|parameters| self.visit_parameters(parameters));
            }
            Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) | Expr::Generator(_) => {
                self.in_comprehension += 1;
                visitor::walk_expr(self, expr);
                self.in_comprehension -= 1;
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                self.names.is_generator = true;
                visitor::walk_expr(self, expr);
            }
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_except_handler(&mut self, handler: &'a ast::ExceptHandler) {
        let ast::ExceptHandler::ExceptHandler(each) = handler;
        each.name.iter().for_each(|name| self.bind(name));
        visitor::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        match pattern {
            Pattern::MatchAs(each) => each.name.iter().for_each(|name| self.bind(name)),
            Pattern::MatchStar(each) => each.name.iter().for_each(|name| self.bind(name)),
            Pattern::MatchMapping(each) => each.rest.iter().for_each(|name| self.bind(name)),
            _ => {}
        }
        visitor::walk_pattern(self, pattern);
    }
}

/// The names that occur in a piece of a program, nested functions included.
#[derive(Default)]
pub(crate) struct UsedNames {
    pub(crate) loaded: FxHashSet<String>,
    pub(crate) nonlocals: FxHashSet<String>,
    /// Text that is left out.
    excluded: Vec<TextRange>,
}

impl UsedNames {
    pub(crate) fn of_body(body: &[Stmt], excluded: Vec<TextRange>) -> UsedNames {
        let mut used = UsedNames { excluded, ..UsedNames::default() };
        used.visit_body(body);
        used
    }

    pub(crate) fn of_expr(expr: &Expr) -> UsedNames {
        let mut used = UsedNames::default();
        used.visit_expr(expr);
        used
    }
}

impl<'a> Visitor<'a> for UsedNames {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.excluded.iter().any(|excluded| excluded.contains_range(stmt.range())) {
            return;
        }
        match stmt {
            Stmt::Nonlocal(nonlocal) => {
                self.nonlocals.extend(nonlocal.names.iter().map(ToString::to_string));
                self.loaded.extend(nonlocal.names.iter().map(ToString::to_string));
            }
            // The target of `x += 1` is read, though its context is that of a store.
            Stmt::AugAssign(augmented) => {
                if let Expr::Name(name) = &*augmented.target {
                    self.loaded.insert(name.id.to_string());
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Name(name) = expr
            && name.ctx.is_load()
        {
            self.loaded.insert(name.id.to_string());
        }
        visitor::walk_expr(self, expr);
    }
}
