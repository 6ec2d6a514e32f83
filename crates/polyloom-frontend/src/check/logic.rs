//! Comparisons, `and`, `or` and conditional expressions: what evaluates some operands only if needed.

use super::flow::LocalSet;
use super::function::FunctionChecker;
use super::operator::is_composite;
use crate::typed_ast::{ChainLink, ExprKind, ExprType, Locals, TypedExpr, takes};
use polyloom_ir::{Code, Op, Scalar, Span, Type};
use ruff_python_ast::{self as ast, BoolOp, CmpOp};
use smallvec::smallvec;

/// Chained comparisons of more operands nest too deeply when lowered. So would `and` and `or`, which are lowered by
/// halves from there on.
const MAX_NESTED: usize = 64;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Runs `check` and gives the variables it assigned: random states that operands update.
    pub(super) fn collecting<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> (T, Locals) {
        self.assigned.push(LocalSet::default());
        let result = check(self);
        let assigned = self.assigned.pop().unwrap_or_default();
        self.forget_constants(&assigned);
        if let Some(outer) = self.assigned.last_mut() {
            outer.union_with(&assigned);
        }
        (result, assigned.select(|_| true))
    }

    /// Checks operands of which each is evaluated only if those before it do not decide, so that lowered, each nests in
    /// the one before.
    fn nesting(
        &mut self,
        operands: &'a [ast::Expr],
        check: fn(&mut Self, &'a ast::Expr) -> TypedExpr,
    ) -> (Vec<TypedExpr>, Locals) {
        self.collecting(|c| {
            let depth = c.depth;
            let operand = |(place, operand): (usize, _)| {
                c.depth = depth + place.min(MAX_NESTED) as u32 + 1;
                check(c, operand)
            };
            let checked = operands.iter().enumerate().map(operand).collect();
            c.depth = depth;
            checked
        })
    }

    pub(super) fn bool_op(&mut self, logic: &'a ast::ExprBoolOp, span: Span) -> TypedExpr {
        let mut values = logic.values.iter();
        let mut terms: Vec<TypedExpr> = values.next().map(|first| self.condition(first)).into_iter().collect();
        let (rest, assigns) = self.nesting(values.as_slice(), Self::condition);
        terms.extend(rest);
        if terms.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        self.lint_logic(logic, &terms, span);
        TypedExpr::new(ExprKind::Logic { all: logic.op == BoolOp::And, terms, assigns }, ExprType::BOOL, span)
    }

    /// The operands of a comparison, an integer beside a float converted to its type, because Warp's comparisons are
    /// C++'s.
    fn float_operands(&mut self, left: TypedExpr, right: TypedExpr) -> (TypedExpr, TypedExpr) {
        let scalar = |expr: &TypedExpr| expr.ty.as_value().and_then(Type::as_scalar);
        match (scalar(&left), scalar(&right)) {
            (Some(a), Some(b)) if a.is_float() && b.is_int() => {
                let span = right.span;
                (left, self.convert(right, a, span))
            }
            (Some(a), Some(b)) if a.is_int() && b.is_float() => {
                let span = left.span;
                (self.convert(left, b, span), right)
            }
            _ => (left, right),
        }
    }

    pub(super) fn compare(&mut self, compare: &'a ast::ExprCompare, span: Span) -> TypedExpr {
        if compare.ops.len() > MAX_NESTED {
            let message = format!("more than {MAX_NESTED} operands in one comparison");
            return self.reject(Code::Limit, span, message, "join several comparisons by `and`");
        }
        let first = self.expr(&compare.left);
        let (rest, assigns) = self.nesting(&compare.comparators, Self::expr);
        // In a chain an operand gets its type first, since it stands in two comparisons and is evaluated once.
        let chained = rest.len() > 1;
        let mut operand = |expr: TypedExpr| if chained && expr.number().is_none() { self.settle(expr) } else { expr };
        let first = operand(first);
        let rest: Vec<TypedExpr> = rest.into_iter().map(operand).collect();
        let mut failed = false;
        let mut previous = first.clone();
        let mut links: Vec<ChainLink> = Vec::with_capacity(rest.len());
        let mut typed_first = None;
        for (i, (operator, right)) in compare.ops.iter().zip(rest).enumerate() {
            let op = match operator {
                CmpOp::Eq => Op::Eq,
                CmpOp::NotEq => Op::Ne,
                CmpOp::Lt => Op::Lt,
                CmpOp::LtE => Op::Le,
                CmpOp::Gt => Op::Gt,
                CmpOp::GtE => Op::Ge,
                CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn => {
                    let help = match operator {
                        CmpOp::Is | CmpOp::IsNot if compare.comparators[i].is_none_literal_expr() => {
                            "an array parameter that got `None` is false: `if x:`"
                        }
                        CmpOp::Is => "compare values with `==`",
                        CmpOp::IsNot => "compare values with `!=`",
                        _ => "compare with each value: `x == 1 or x == 2`",
                    };
                    let message = format!("`{}` is not supported", operator.as_str());
                    return self.reject(Code::Unsupported, span, message, help);
                }
            };
            let pair = Span::new(span.file, previous.span.start, right.span.end);
            if !chained && [&previous, &right].into_iter().any(is_composite) {
                return self.composite_op(op, previous, right, pair);
            }
            let next = right.clone();
            let (left, right) = match chained {
                true => (previous.clone(), right),
                false => self.float_operands(previous.clone(), right),
            };
            let (left, right) = match op {
                Op::Lt | Op::Le | Op::Gt | Op::Ge if is_bool(&left) && is_bool(&right) => {
                    // False comes before true.
                    let [left, right] = [left, right].map(|operand| {
                        let at = operand.span;
                        self.convert(operand, Scalar::I32, at)
                    });
                    (left, right)
                }
                _ => (left, right),
            };
            match self.same_type(op, left, right, pair) {
                Some((left, right, _)) => {
                    let waiting = previous.number().is_some();
                    if i == 0 {
                        typed_first = Some(left);
                        links.push(ChainLink { op, left: None, right });
                    } else {
                        links.push(ChainLink { op, left: waiting.then_some(left), right });
                    }
                }
                None => failed = true,
            }
            previous = next;
        }
        let (false, Some(first)) = (failed, typed_first) else { return TypedExpr::error(span) };
        if links.len() == 1
            && let Some(link) = links.pop()
        {
            let kind = ExprKind::Op { op: link.op, args: vec![first, link.right], updates: smallvec![] };
            return TypedExpr::new(kind, ExprType::BOOL, span);
        }
        TypedExpr::new(ExprKind::Chain { first: Box::new(first), rest: links, assigns }, ExprType::BOOL, span)
    }

    pub(super) fn conditional(&mut self, conditional: &'a ast::ExprIf, span: Span) -> TypedExpr {
        if let Some(taken) = self.choice(&conditional.test) {
            let chosen = if taken { &conditional.body } else { &conditional.orelse };
            return TypedExpr { span, ..self.expr(chosen) };
        }
        let cond = self.condition(&conditional.test);
        let ((then, otherwise), assigns) =
            self.collecting(|c| (c.expr(&conditional.body), c.expr(&conditional.orelse)));
        if [&cond, &then, &otherwise].into_iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        if then.ty.is_struct() || otherwise.ty.is_struct() {
            let Some(of) = self.struct_choice(&then, &otherwise) else { return TypedExpr::error(span) };
            let (then, otherwise) = (Box::new(then), Box::new(otherwise));
            let kind = ExprKind::If { cond: Box::new(cond), then, otherwise, assigns };
            return TypedExpr::new(kind, ExprType::Struct(of), span);
        }
        let (then, otherwise) = match (then.untyped(), otherwise.untyped()) {
            (Some(_), Some(_)) => {
                let (then, otherwise) = (Box::new(then), Box::new(otherwise));
                let kind = ExprKind::If { cond: Box::new(cond), then, otherwise, assigns };
                return TypedExpr::new(kind, ExprType::Number, span);
            }
            (Some(_), None) => {
                let otherwise = self.settle(otherwise);
                let then = self.branch_value(then, &otherwise);
                (then, otherwise)
            }
            _ => {
                let then = self.settle(then);
                let otherwise = self.branch_value(otherwise, &then);
                (then, otherwise)
            }
        };
        let Some(ty) = then.ty.as_value().filter(|_| !otherwise.is_error()) else { return TypedExpr::error(span) };
        if ty.as_any_array().is_some() {
            return self.reject(
                Code::Unsupported,
                span,
                "an array cannot be chosen by a condition",
                "use `if` and write the code for each array",
            );
        }
        let kind = ExprKind::If { cond: Box::new(cond), then: Box::new(then), otherwise: Box::new(otherwise), assigns };
        TypedExpr::new(kind, ExprType::Value(ty), span)
    }

    /// Gives the numbers of an expression whose type was still to come that type.
    pub(super) fn adapt_parts(&mut self, expr: TypedExpr, scalar: Scalar) -> TypedExpr {
        let ty = scalar.into();
        let kind = match expr.kind {
            ExprKind::If { cond, then, otherwise, assigns } => {
                let (then, otherwise) = (self.adapt(*then, ty), self.adapt(*otherwise, ty));
                if then.is_error() || otherwise.is_error() {
                    return TypedExpr::error(expr.span);
                }
                ExprKind::If { cond, then: Box::new(then), otherwise: Box::new(otherwise), assigns }
            }
            ExprKind::Op { op, args, updates } => {
                if !takes(op, scalar) {
                    self.not_defined(op, scalar, expr.span);
                    return TypedExpr::error(expr.span);
                }
                let args: Vec<TypedExpr> = args.into_iter().map(|arg| self.adapt(arg, ty)).collect();
                if args.iter().any(TypedExpr::is_error) {
                    return TypedExpr::error(expr.span);
                }
                ExprKind::Op { op, args, updates }
            }
            kind => kind,
        };
        TypedExpr::new(kind, ExprType::Value(ty), expr.span)
    }

    fn branch_value(&mut self, expr: TypedExpr, other: &TypedExpr) -> TypedExpr {
        match other.ty.as_value() {
            Some(ty) => self.expect_value(expr, ty, Code::TypeMismatch, "the other branch"),
            None => TypedExpr::error(expr.span),
        }
    }
}

fn is_bool(expr: &TypedExpr) -> bool {
    expr.ty.as_value().and_then(Type::as_scalar) == Some(Scalar::Bool)
}
