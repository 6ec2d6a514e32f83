//! The names of a function's text that its surroundings give a meaning.
//!
//! An environment that is to keep what names mean when a function is defined asks here which names those are.
//!
//! Design: `docs/design/names-and-instances.md`.

use crate::dotted_path::dotted;
use crate::source::SourceUnit;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast};
use rustc_hash::FxHashSet;

/// The names that a function takes from outside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FreeNames {
    /// Each name, and each name with the attributes that follow it: of `cfg.k.x`, `cfg`, `cfg.k` and `cfg.k.x`. Not
    /// those that static expressions alone name.
    pub paths: Vec<String>,
    /// The names in the arguments of calls of something named `static`, whose values Python computes with.
    pub in_static: Vec<String>,
}

impl SourceUnit {
    /// The names that a function of this file takes from outside: all that its text has and does not set, those of its
    /// decorators and annotations included.
    pub fn free_names(&self, function: usize) -> FreeNames {
        let Some(def) = self.definition(function) else { return FreeNames::default() };
        let mut own = OwnNames(def.parameters.iter().map(|p| p.name().as_str()).collect());
        own.visit_body(&def.body);
        let mut finder =
            FreeNameFinder { own: own.0, seen: FxHashSet::default(), n_static: 0, found: FreeNames::default() };
        for decorator in &def.decorator_list {
            finder.visit_decorator(decorator);
        }
        finder.visit_parameters(&def.parameters);
        if let Some(returns) = &def.returns {
            finder.visit_annotation(returns);
        }
        finder.visit_body(&def.body);
        finder.found
    }

    /// Returns true if a definition is from an earlier run of text that now defines the function with this index anew,
    /// and defines the other below it: then that will be defined anew too.
    pub fn will_define_again(&self, function: usize, other: &SourceUnit, other_function: usize) -> bool {
        if std::ptr::eq(self, other) {
            return other_function > function;
        }
        let Some(info) = self.functions().get(function) else { return false };
        other.functions().iter().take(other_function).any(|earlier| earlier.name == info.name)
    }
}

/// The names that a function sets.
struct OwnNames<'a>(FxHashSet<&'a str>);

impl<'a> Visitor<'a> for OwnNames<'a> {
    fn visit_expr(&mut self, expr: &'a ast::Expr) {
        if let ast::Expr::Name(name) = expr
            && name.ctx.is_store()
        {
            self.0.insert(name.id.as_str());
        }
        visitor::walk_expr(self, expr);
    }
}

struct FreeNameFinder<'a> {
    own: FxHashSet<&'a str>,
    seen: FxHashSet<String>,
    /// Calls of `static` around the expression.
    n_static: usize,
    found: FreeNames,
}

impl FreeNameFinder<'_> {
    fn note(&mut self, path: &[&str]) {
        if self.own.contains(path[0]) {
            return;
        }
        if self.n_static > 0 {
            if !self.found.in_static.iter().any(|known| known == path[0]) {
                self.found.in_static.push(path[0].to_owned());
            }
            return;
        }
        for end in 1..=path.len() {
            let prefix = path[..end].join(".");
            if self.seen.insert(prefix.clone()) {
                self.found.paths.push(prefix);
            }
        }
    }
}

impl<'a> Visitor<'a> for FreeNameFinder<'a> {
    fn visit_expr(&mut self, expr: &'a ast::Expr) {
        if let Some(path) = dotted(expr) {
            self.note(&path);
            return;
        }
        let ast::Expr::Call(call) = expr else { return visitor::walk_expr(self, expr) };
        let is_static = dotted(&call.func).is_some_and(|path| path.last() == Some(&"static"));
        self.visit_expr(&call.func);
        self.n_static += usize::from(is_static);
        self.visit_arguments(&call.arguments);
        self.n_static -= usize::from(is_static);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::SourceFile;

    fn unit(text: &str) -> std::sync::Arc<SourceUnit> {
        SourceUnit::parse(SourceFile::new("test.py", text, 1)).unwrap()
    }

    #[test]
    fn names_that_are_not_set_are_free() {
        let unit = unit(
            "@loom.func\ndef f(x: T, k: int = K) -> R:\n    y = x.shape[cfg.k.x] + g(x)\n    \
             for i in range(loom.static(len(W))):\n        y += f'{Z}' if i else W[i]\n    return y\n",
        );
        let found = unit.free_names(0);
        let expected = [
            "loom",
            "loom.func",
            "K",
            "T",
            "int",
            "R",
            "cfg",
            "cfg.k",
            "cfg.k.x",
            "g",
            "range",
            "loom.static",
            "Z",
            "W",
        ];
        assert_eq!(found.paths, expected);
        assert_eq!(found.in_static, ["len", "W"]);
    }

    #[test]
    fn text_that_runs_again_defines_what_is_below_again() {
        let first = unit("def f(): return g()\ndef g(): return 1\n");
        let edited = unit("def f(): return g()\ndef g(): return 2\n");
        assert!(first.will_define_again(0, &first, 1) && !first.will_define_again(1, &first, 0));
        assert!(edited.will_define_again(0, &first, 1) && !edited.will_define_again(1, &first, 0));
        assert!(!unit("def h(): return g()\n").will_define_again(0, &first, 1));
    }
}
