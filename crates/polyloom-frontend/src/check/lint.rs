//! The lint: warnings where a kernel does something else than its text means in Python.
//!
//! Kernels do what Warp's do. Where that differs from Python silently, a reader who knows Python is misled;
//! `FrontendOptions::lint` asks for a warning there. It leaves alone what cannot differ as far as the checker sees, such as
//! `i % 4` of a thread's number.

use super::function::FunctionChecker;
use crate::number::PythonNumber;
use crate::typed_ast::{ExprKind, LocalId, TypedExpr};
use polyloom_ir::{Code, Diagnostic, Op, Scalar, Span, Type};
use ruff_python_ast as ast;

impl FunctionChecker<'_, '_, '_> {
    fn differs(&mut self, span: Span, message: &str, help: &str) {
        // Readers of `.loom` do not take it for Python.
        if !self.unit.is_loom() {
            self.report(Diagnostic::warning(Code::DiffersFromPython, span, message).help(help));
        }
    }

    /// Warns of a binary operator.
    pub(super) fn lint_operator(&mut self, op: Op, left: &TypedExpr, right: &TypedExpr, span: Span) {
        if !self.compilation.options.lint {
            return;
        }
        let are_ints = is_int(left) && is_int(right);
        let never_negative = self.is_never_negative(left) && self.is_never_negative(right);
        match op {
            Op::Div if are_ints => self.differs(
                span,
                "`/` of integers gives an integer, the truncated quotient; Python's gives a float",
                "write `a // b` for an integer, rounded down as in Python, or `float(a) / float(b)`",
            ),
            Op::Mod if !never_negative => self.differs(
                span,
                "the remainder has the sign of the left operand; Python's has that of the right one",
                if are_ints {
                    "write `a - a // b * b` for Python's"
                } else {
                    "write `a - floor(a / b) * b` for Python's"
                },
            ),
            _ => {}
        }
    }

    /// Warns of `and` or `or` whose value is used.
    pub(super) fn lint_logic(&mut self, logic: &ast::ExprBoolOp, terms: &[TypedExpr], span: Span) {
        // A term that is not bool has been converted.
        let converted = |term: &TypedExpr| matches!(term.kind, ExprKind::Cast(_));
        let literal = logic.values.iter().any(ast::Expr::is_number_literal_expr);
        if self.compilation.options.lint && !self.deciding && (literal || terms.iter().any(converted)) {
            let (message, help) = match logic.op {
                ast::BoolOp::Or => ("`or` gives a bool; Python's gives an operand", "write `a if a != 0 else b`"),
                ast::BoolOp::And => ("`and` gives a bool; Python's gives an operand", "write `b if a != 0 else a`"),
            };
            self.differs(span, message, help);
        }
    }

    /// Warns of Python's `round`.
    pub(super) fn lint_round(&mut self, span: Span) {
        if self.compilation.options.lint {
            self.differs(
                span,
                "`round` takes halves away from zero; Python's takes them to the even neighbour",
                "write `rint(x)` for Python's",
            );
        }
    }

    /// Warns of another name for an array of the kernel's own.
    pub(super) fn lint_copy(&mut self, span: Span) {
        if self.compilation.options.lint {
            self.differs(
                span,
                "this copies the array, of which Python would have two names",
                "use the array by its own name, or copy its elements in a loop if a copy is meant",
            );
        }
    }

    /// Notes what a variable is assigned.
    pub(super) fn lint_assigned(&mut self, local: LocalId, value: &TypedExpr) {
        if self.compilation.options.lint {
            let is_counting = self.is_never_negative(value);
            self.set_counting(local, is_counting);
        }
    }

    /// Notes what a loop counts.
    pub(super) fn lint_counter(&mut self, counter: LocalId, start: &TypedExpr, stop: &TypedExpr, step: &TypedExpr) {
        if self.compilation.options.lint {
            let upwards = self.is_never_negative(start) && self.is_never_negative(step);
            let ends_at_zero = super::component_expr::constant_index(stop) == Some(-1);
            let downwards = self.is_never_negative(start) && (ends_at_zero || self.is_never_negative(stop));
            self.set_counting(counter, upwards || downwards);
        }
    }

    /// Notes whether a variable is never negative as far as assigned yet.
    fn set_counting(&mut self, local: LocalId, is_counting: bool) {
        // Once it may be negative it stays so, because it may be read in the next iteration of a loop.
        let known = self.counting.entry(local).or_insert(true);
        *known &= is_counting;
    }

    pub(super) fn is_never_negative(&self, expr: &TypedExpr) -> bool {
        if let Some(value) = expr.number() {
            return match value {
                PythonNumber::Int(value) => value >= 0,
                PythonNumber::Float(value) => value >= 0.0,
            };
        }
        if expr.ty.as_value().and_then(Type::as_scalar).is_some_and(Scalar::is_unsigned_int) {
            return true;
        }
        match &expr.kind {
            ExprKind::Tid(_) | ExprKind::Dim(..) => true,
            ExprKind::OpWith { imm: polyloom_ir::Imm::Axis(_), .. } => true,
            ExprKind::Const(_) => super::component_expr::constant_index(expr).is_some_and(|value| value >= 0),
            ExprKind::Local(local) => self.counting.get(local) == Some(&true),
            ExprKind::Cast(x) => self.is_never_negative(x),
            ExprKind::Op { op, args, .. } => {
                let keeps = matches!(
                    op,
                    Op::Add | Op::Mul | Op::Div | Op::FloorDiv | Op::Mod | Op::Min | Op::Max | Op::Rshift | Op::BitAnd
                );
                keeps && args.iter().all(|arg| self.is_never_negative(arg))
            }
            _ => false,
        }
    }
}

fn is_int(expr: &TypedExpr) -> bool {
    match expr.untyped() {
        Some(number) => matches!(number, PythonNumber::Int(_)),
        None => expr.ty.as_value().and_then(Type::as_scalar).is_some_and(Scalar::is_int),
    }
}
