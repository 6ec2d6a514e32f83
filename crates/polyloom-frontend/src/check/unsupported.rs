//! Constructs outside the kernel language, each with what to write instead.

use super::function::{FunctionChecker, NameMeaning};
use crate::typed_ast::TypedExpr;
use polyloom_ir::{Code, Span};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast};

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Rejects an expression that is not of the language.
    pub(super) fn unsupported_expr(&mut self, expr: &ast::Expr, span: Span) -> TypedExpr {
        let (what, help) = match expr {
            ast::Expr::ListComp(_) | ast::Expr::SetComp(_) | ast::Expr::DictComp(_) | ast::Expr::Generator(_) => {
                ("a comprehension", "write a `for` loop over `range(…)`")
            }
            ast::Expr::List(_) => ("a list", "use an array parameter, or one variable for each value"),
            ast::Expr::Dict(_) => ("a dictionary", "use an array parameter, or one variable for each value"),
            ast::Expr::Set(_) => ("a set", "use an array parameter, or one variable for each value"),
            ast::Expr::Lambda(_) => ("`lambda`", "define a function with `@loom.func` outside the kernel"),
            // Reported when the function begins.
            ast::Expr::Named(_) => {
                self.failed = true;
                return TypedExpr::error(span);
            }
            ast::Expr::Await(_) => ("`await`", "remove it: a kernel runs to its end"),
            ast::Expr::Yield(_) | ast::Expr::YieldFrom(_) => {
                ("`yield`", "write the values to an array that is a parameter")
            }
            ast::Expr::FString(_) | ast::Expr::TString(_) => {
                ("an f-string", "print values with `print(\"x =\", x)` or `loom.printf(\"x = %f\\n\", x)`")
            }
            ast::Expr::StringLiteral(_) | ast::Expr::BytesLiteral(_) => {
                ("a string", "strings can only be printed: `print(\"text\", x)`")
            }
            ast::Expr::NoneLiteral(_) => ("`None`", "use a number that stands for it, such as -1"),
            ast::Expr::EllipsisLiteral(_) => ("`...`", "write `pass` for an empty block"),
            ast::Expr::Starred(_) => ("`*`", "write each value by name"),
            ast::Expr::Slice(_) => ("a slice", "index single elements, in a loop if there are several"),
            _ => ("this expression", "write it with numbers, variables, operators and calls"),
        };
        let help = self.in_package(help);
        let message = match expr {
            ast::Expr::List(_) => self.in_package(
                "List constructs are not supported in kernels. Use vectors like `loom.vec3()` for small fixed-size \
                 collections, or `loom.zeros(shape=N, dtype=...)` for stack-allocated arrays.",
            ),
            ast::Expr::Dict(_) => "Construct `ast.Dict` not supported in kernels.".to_owned(),
            _ => format!("{what} is not supported in a kernel"),
        };
        self.reject(Code::Unsupported, span, message, help)
    }

    /// Rejects `:=` wherever it stands in a function: code that is not looked at, because a condition is known when
    /// the function is compiled, would hide that a name is the function's own.
    pub(super) fn refuse_assignment_expressions(&mut self, body: &'a [ast::Stmt]) {
        struct UnsupportedFinder<'a>(Vec<&'a ast::ExprNamed>);
        impl<'a> Visitor<'a> for UnsupportedFinder<'a> {
            fn visit_expr(&mut self, expr: &'a ast::Expr) {
                if let ast::Expr::Named(named) = expr {
                    self.0.push(named);
                }
                visitor::walk_expr(self, expr);
            }
        }
        let mut finder = UnsupportedFinder(Vec::new());
        finder.visit_body(body);
        for named in finder.0 {
            let span = self.span(named);
            self.reject(
                Code::Unsupported,
                span,
                "`:=` is not supported in a kernel",
                "assign the variable on a line of its own",
            );
            if let ast::Expr::Name(name) = &*named.target {
                self.names.insert(name.id.as_str(), NameMeaning::Poisoned);
            }
        }
    }

    /// Rejects a statement that is not of the language.
    pub(super) fn unsupported_stmt(&mut self, stmt: &'a ast::Stmt) {
        let span = self.span(stmt);
        // Otherwise uses of the name would only repeat the report.
        match stmt {
            ast::Stmt::FunctionDef(def) => drop(self.names.insert(def.name.as_str(), NameMeaning::Poisoned)),
            ast::Stmt::ClassDef(def) => drop(self.names.insert(def.name.as_str(), NameMeaning::Poisoned)),
            _ => {}
        }
        let (what, help, keyword) = match stmt {
            ast::Stmt::Try(_) => ("`try`", "check for the bad case with `if`", "try"),
            ast::Stmt::Raise(_) => ("`raise`", "use `assert`, or write an error code to an array", "raise"),
            ast::Stmt::With(_) => ("`with`", "write its body on its own", "with"),
            ast::Stmt::Match(_) => ("`match`", "write `if` and `elif`", "match"),
            ast::Stmt::Delete(_) => ("`del`", "remove it: variables need no deleting", "del"),
            ast::Stmt::Global(_) => ("`global`", "pass an array and write to it", "global"),
            ast::Stmt::Nonlocal(_) => ("`nonlocal`", "pass an array and write to it", "nonlocal"),
            ast::Stmt::Import(_) | ast::Stmt::ImportFrom(_) => ("`import`", "import at the top of the file", "import"),
            ast::Stmt::ClassDef(_) => ("a class", "use one variable for each field", "class"),
            ast::Stmt::FunctionDef(_) => ("a nested function", "define it outside with `@loom.func`", "def"),
            ast::Stmt::TypeAlias(_) => ("`type`", "define the type outside the kernel", "type"),
            _ => ("this statement", "write it with assignments, `if`, loops and calls", ""),
        };
        // A block's keyword stands for the block, so that the message does not show all of its lines.
        let text = self.unit.text(ruff_text_size::Ranged::range(stmt));
        let is_block = !keyword.is_empty() && text.starts_with(keyword) && text.contains('\n');
        let span = if is_block { Span::new(span.file, span.start, span.start + keyword.len() as u32) } else { span };
        let help = self.in_package(help);
        self.reject(Code::Unsupported, span, format!("{what} is not supported in a kernel"), help);
    }

    /// A help text with the name by which the file knows the package.
    fn in_package(&self, help: &str) -> String {
        help.replace("loom.", &format!("{}.", self.package()))
    }
}
