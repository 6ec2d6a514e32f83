//! A function of a file with what it needs of the file, and nothing else: a file of its own.
//!
//! Names are followed from statement to statement, as the text has them. Whether the excerpt means what the file did is
//! for whoever compiles both to see: a name that is bound again in between, or by a loop, may tell them apart.

use crate::assignment_expressions::assignment_expressions;
use crate::dotted_path::dotted;
use crate::function_info::FunctionRole;
use crate::source::{SourceUnit, blocks_of};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

impl SourceUnit {
    /// The text of a function with the imports, functions, structs and constants that it needs, those of functions
    /// around it among them, without the rest of the file; empty if there is no such function.
    pub fn excerpt(&self, function: usize) -> String {
        let (Some(info), Some(def)) = (self.functions().get(function), self.definition(function)) else {
            return String::new();
        };
        let around = info.enclosing.iter().filter_map(|&start| self.definition_at(start));
        let mut scopes = vec![ExcerptScope { body: self.body(), parameters: None }];
        scopes.extend(around.map(|def| ExcerptScope { body: &def.body, parameters: Some(&def.parameters) }));
        let innermost = scopes.len() - 1;
        let mut excerpt = SourceExcerpt { unit: self, scopes, taken: BTreeMap::new(), seen: FxHashSet::default() };
        let mut wanted = excerpt.uses_of_function(function, def);
        wanted.extend(["__future__".to_owned()]);
        excerpt.take_names(innermost, wanted);
        // Definitions that the function replaces, or that replace it, are of no use to it.
        excerpt.taken.retain(|_, stmt| !matches!(stmt, Stmt::FunctionDef(other) if other.name == def.name));
        excerpt.write(innermost, def)
    }

    /// A text without the indentation of its first line.
    fn dedented(&self, range: TextRange) -> String {
        let text = &self.file().text;
        let start = range.start().to_usize();
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let before = &text[line_start..start];
        let indent = if before.trim().is_empty() { before.len() } else { 0 };
        let rest = text[range.end().to_usize()..].lines().next().unwrap_or_default();
        let comment = if rest.trim_start().starts_with('#') { rest.trim_end() } else { "" };
        let mut lines = self.text(range).lines();
        let mut dedented = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            let n_blanks = line.bytes().take(indent).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            dedented.push('\n');
            dedented.push_str(&line[n_blanks..]);
        }
        dedented + comment
    }
}

/// A module or function, as names are looked up in it.
struct ExcerptScope<'a> {
    body: &'a [Stmt],
    parameters: Option<&'a ast::Parameters>,
}

struct SourceExcerpt<'a> {
    unit: &'a SourceUnit,
    /// The module first.
    scopes: Vec<ExcerptScope<'a>>,
    /// Indexed by scope and offset.
    taken: BTreeMap<(usize, u32), &'a Stmt>,
    seen: FxHashSet<(usize, String)>,
}

impl<'a> SourceExcerpt<'a> {
    /// Takes all statements that give these names a meaning, and what these need.
    fn take_names(&mut self, scope: usize, names: Vec<String>) {
        let mut pending: Vec<(usize, String)> = names.into_iter().map(|name| (scope, name)).collect();
        while let Some((scope, name)) = pending.pop() {
            if !self.seen.insert((scope, name.clone())) {
                continue;
            }
            for scope in (0..=scope).rev() {
                let ExcerptScope { body, parameters } = self.scopes[scope];
                let binding: Vec<&Stmt> = body.iter().filter(|stmt| self.binds(stmt, &name)).collect();
                for stmt in &binding {
                    if self.taken.insert((scope, stmt.range().start().to_u32()), stmt).is_none() {
                        pending.extend(self.uses(stmt).into_iter().map(|name| (scope, name)));
                    }
                }
                if !binding.is_empty() || parameters.is_some_and(|parameters| parameters.includes(&name)) {
                    break;
                }
            }
        }
    }

    /// Returns true if a statement gives a name a meaning, or an attribute of what it names.
    fn binds(&self, stmt: &Stmt, name: &str) -> bool {
        let targets = |target: &Expr| is_target(target, name);
        let binds = match stmt {
            Stmt::Import(import) => import.names.iter().any(|alias| match &alias.asname {
                Some(bound) => bound == name,
                None => alias.name.split('.').next() == Some(name),
            }),
            Stmt::ImportFrom(import) => {
                import.module.as_deref() == Some(name) && name == "__future__"
                    || import.names.iter().any(|alias| alias.asname.as_ref().unwrap_or(&alias.name) == name)
            }
            Stmt::FunctionDef(def) => {
                let index = self.unit.function_starting_at(def.range().start().to_u32());
                let info = index.and_then(|index| self.unit.functions().get(index));
                let is_custom = |role| matches!(role, Some(FunctionRole::Gradient | FunctionRole::Replay));
                def.name.as_str() == name
                    || info.is_some_and(|info| is_custom(info.role) && info.of.as_deref() == Some(name))
            }
            Stmt::ClassDef(class) => class.name.as_str() == name,
            Stmt::Assign(assign) => assign.targets.iter().any(targets),
            Stmt::AnnAssign(assign) => targets(&assign.target),
            Stmt::AugAssign(assign) => targets(&assign.target),
            Stmt::For(stmt) => targets(&stmt.target),
            Stmt::With(stmt) => stmt.items.iter().filter_map(|item| item.optional_vars.as_deref()).any(targets),
            _ => false,
        };
        let is_scope = matches!(stmt, Stmt::FunctionDef(_) | Stmt::ClassDef(_));
        binds
            || assignment_expressions(stmt).iter().any(|(named, _)| targets(&named.target))
            || !is_scope && blocks_of(stmt).flatten().any(|inner| self.binds(inner, name))
    }

    /// The names that a statement asks for.
    fn uses(&self, stmt: &Stmt) -> Vec<String> {
        if let Stmt::FunctionDef(def) = stmt
            && let Some(index) = self.unit.function_starting_at(def.range().start().to_u32())
        {
            return self.uses_of_function(index, def);
        }
        let mut uses = NameUses::default();
        uses.visit_stmt(stmt);
        uses.names.into_iter().collect()
    }

    fn uses_of_function(&self, index: usize, def: &ast::StmtFunctionDef) -> Vec<String> {
        let free = self.unit.free_names(index);
        let mut in_annotations = NameUses::default();
        in_annotations.visit_parameters(&def.parameters);
        if let Some(returns) = &def.returns {
            in_annotations.visit_annotation(returns);
        }
        let names = free.paths.into_iter().filter(|path| !path.contains('.')).chain(free.in_static);
        names.chain(in_annotations.names).collect()
    }

    fn write(&self, innermost: usize, def: &ast::StmtFunctionDef) -> String {
        let mut parts: Vec<(StatementKind, String)> = Vec::new();
        let mut own = Some(def.range());
        let mut add = |kind, range| parts.push((kind, self.unit.dedented(range)));
        for (&(scope, start), stmt) in &self.taken {
            match own {
                Some(range) if stmt.range().contains_range(range) => own = None,
                Some(range) if scope == innermost && start > range.start().to_u32() => {
                    add(StatementKind::Definition, range);
                    own = None;
                }
                _ => {}
            }
            add(StatementKind::of(stmt), stmt.range());
        }
        if let Some(range) = own {
            add(StatementKind::Definition, range);
        }
        let mut text = String::new();
        let mut last = None;
        for (kind, part) in parts {
            text.push_str(match last {
                None => "",
                Some(last) if last == StatementKind::Definition || kind == StatementKind::Definition => "\n\n\n",
                Some(last) if last == kind => "\n",
                Some(_) => "\n\n",
            });
            text.push_str(&part);
            last = Some(kind);
        }
        text.push('\n');
        text
    }
}

/// Describes what tells how many empty lines stand between statements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatementKind {
    Import,
    Definition,
    Other,
}

impl StatementKind {
    fn of(stmt: &Stmt) -> StatementKind {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) => StatementKind::Import,
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => StatementKind::Definition,
            _ => StatementKind::Other,
        }
    }
}

/// Returns true if assigning to `target` changes what a name stands for.
fn is_target(target: &Expr, name: &str) -> bool {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().any(|target| is_target(target, name)),
        Expr::List(list) => list.elts.iter().any(|target| is_target(target, name)),
        Expr::Starred(starred) => is_target(&starred.value, name),
        Expr::Subscript(subscript) => is_target(&subscript.value, name),
        other => dotted(other).is_some_and(|path| path[0] == name),
    }
}

/// The names in a statement, quoted annotations included.
#[derive(Default)]
struct NameUses {
    names: BTreeSet<String>,
    in_annotation: bool,
}

impl<'a> Visitor<'a> for NameUses {
    fn visit_annotation(&mut self, expr: &'a Expr) {
        self.in_annotation = true;
        visitor::walk_annotation(self, expr);
        self.in_annotation = false;
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) => {
                self.names.insert(name.id.to_string());
            }
            Expr::StringLiteral(text) if self.in_annotation => {
                let text = text.value.to_str();
                let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                self.names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::SourceFile;

    fn check(text: &str, function: &str, expected: &str) {
        let unit = SourceUnit::parse(SourceFile::new("test.py", text, 1)).unwrap();
        let excerpt = unit.excerpt(unit.find(function).unwrap());
        assert_eq!(excerpt, expected);
        // An excerpt is an excerpt of itself.
        let again = SourceUnit::parse(SourceFile::new("again.py", &*excerpt, 1)).unwrap();
        assert_eq!(again.excerpt(again.find(function).unwrap()), excerpt);
    }

    #[test]
    fn what_a_kernel_needs_comes_with_it() {
        check(
            "\"\"\"A file.\"\"\"\nimport os\nimport numpy as np\nimport warp as wp\n\nN = 4  # how many\nM = N + 1\nK = os.cpu_count()\n\n\
             @wp.struct\nclass P:\n    x: 'V'\n\nV = wp.vec3\n\n@wp.func\ndef g(p: P):\n    return p.x * float(M)\n\n\
             @wp.kernel\ndef other(x: wp.array(dtype=float)):\n    x[0] = 1.0\n\n\
             @wp.kernel\ndef k(p: wp.array(dtype=P), y: wp.array(dtype=V)):\n    i = wp.tid()\n    y[i] = g(p[i])\n\nprint(K)\n",
            "k",
            "import warp as wp\n\nN = 4  # how many\nM = N + 1\n\n\n@wp.struct\nclass P:\n    x: 'V'\n\n\nV = wp.vec3\n\n\n\
             @wp.func\ndef g(p: P):\n    return p.x * float(M)\n\n\n\
             @wp.kernel\ndef k(p: wp.array(dtype=P), y: wp.array(dtype=V)):\n    i = wp.tid()\n    y[i] = g(p[i])\n",
        );
    }

    #[test]
    fn what_is_below_and_what_differentiates_it_comes_too() {
        check(
            "import polyloom as loom\n\n@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = f(x[1])\n\n\
             @loom.func\ndef f(x: float):\n    return x\n\n\
             @loom.func_grad(f)\ndef of_f(x: float, adj: float):\n    loom.adjoint[x] += adj\n",
            "k",
            "import polyloom as loom\n\n\n@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = f(x[1])\n\n\n\
             @loom.func\ndef f(x: float):\n    return x\n\n\n\
             @loom.func_grad(f)\ndef of_f(x: float, adj: float):\n    loom.adjoint[x] += adj\n",
        );
    }

    #[test]
    fn kernels_in_functions_leave_them() {
        check(
            "import warp as wp\nS = 2.0\n\ndef make(n):\n    c = 3\n    T = wp.float32\n    d = c\n\n    @wp.kernel\n    \
             def k(x: wp.array(dtype=T)):\n        \"\"\"Adds.\n        And more.\"\"\"\n        x[0] += S * float(c)\n\n    return k\n",
            "k",
            "import warp as wp\n\nS = 2.0\nc = 3\nT = wp.float32\n\n\n@wp.kernel\n\
             def k(x: wp.array(dtype=T)):\n    \"\"\"Adds.\n    And more.\"\"\"\n    x[0] += S * float(c)\n",
        );
    }

    #[test]
    fn a_statement_that_holds_the_kernel_is_taken_once() {
        let text = "import warp as wp\n\nif wp:\n    N = 3\n\n    @wp.kernel\n    \
                    def k(x: wp.array(dtype=float)):\n        x[0] = float(N)\n";
        check(text, "k", text);
    }
}
