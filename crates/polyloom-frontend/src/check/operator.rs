//! Arithmetic and bit operators.
//!
//! Both operands have one type. A number without a type takes that of the other operand; two of them are computed as
//! Python does where Python and kernels agree, and stay numbers.

use super::call::type_of;
use super::function::FunctionChecker;
use super::overload::ActualArgument;
use super::scope::number;
use crate::environment::CapturedMeaning;
use crate::members::operator_text;
use crate::number::PythonNumber;
use crate::typed_ast::{ExprKind, ExprType, TypedExpr, UpdateOp, takes};
use polyloom_ir::{Code, Composite, CompositeKind, Op, Scalar, Span, Type};
use ruff_python_ast::{self as ast, Operator, UnaryOp};
use smallvec::smallvec;

/// Literal exponents up to this are multiplications for floats…
const MAX_FLOAT_POWER: u32 = 4;
/// … and for integers, whose products are exact modulo 2^n in any order.
const MAX_INT_POWER: u32 = 64;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// A binary operator. A sum of many terms nests to the left in the tree, but not in what it means, so that its length
    /// is no depth.
    pub(super) fn binary(&mut self, binary: &'a ast::ExprBinOp) -> TypedExpr {
        let mut operators = vec![binary];
        let mut first = &*binary.left;
        while let ast::Expr::BinOp(inner) = first {
            if !self.spend(1, inner) {
                return TypedExpr::error(self.span(inner));
            }
            operators.push(inner);
            first = &inner.left;
        }
        let first = self.expr(first);
        operators.into_iter().rev().fold(first, |left, binary| {
            let right = self.expr(&binary.right);
            let span = self.span(binary);
            self.binary_op(binary.op, left, right, span)
        })
    }

    /// A binary operator on checked operands.
    pub(super) fn binary_op(&mut self, operator: Operator, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
        let op = match operator {
            Operator::Add => Op::Add,
            Operator::Sub => Op::Sub,
            Operator::Mult => Op::Mul,
            Operator::Div => Op::Div,
            Operator::FloorDiv => Op::FloorDiv,
            Operator::Mod => Op::Mod,
            Operator::Pow => return self.power(left, right, span),
            Operator::LShift => Op::Lshift,
            Operator::RShift => Op::Rshift,
            Operator::BitAnd => Op::BitAnd,
            Operator::BitOr => Op::BitOr,
            Operator::BitXor => Op::BitXor,
            Operator::MatMult
                if is_composite(&left) && is_composite(&right) && (is_matrix(&left) || is_matrix(&right)) =>
            {
                Op::Mul
            }
            Operator::MatMult => {
                return self.reject(
                    Code::Unsupported,
                    span,
                    "`@` takes a matrix and another, or a matrix and a vector",
                    format!(
                        "write the product of arrays as a loop over the elements, and that of vectors as `{}.dot(a, b)`",
                        self.package()
                    ),
                );
            }
        };
        if left.ty.is_struct() || right.ty.is_struct() {
            return self.struct_operator(op, left, right, span);
        }
        self.lint_operator(op, &left, &right, span);
        if let (Some(a), Some(b)) = (left.number(), right.number())
            && let Some(value) = fold(op, a, b)
        {
            return match value {
                Ok(value) => number(value, span),
                Err(TooLarge) => self.reject(
                    Code::ConstantRange,
                    span,
                    "this constant is too large",
                    "the largest integer type is `uint64`; write a float such as `1.0e30`",
                ),
            };
        }
        if let (Some(a), Some(b)) = (left.untyped(), right.untyped())
            && (takes(op, a.default_scalar()) || takes(op, b.default_scalar()))
        {
            let kind = ExprKind::Op { op, args: vec![left, right], updates: smallvec![] };
            return TypedExpr::new(kind, ExprType::Number, span);
        }
        if [&left, &right].into_iter().any(is_composite) {
            return self.composite_op(op, left, right, span);
        }
        let Some((left, right, scalar)) = self.same_type(op, left, right, span) else { return TypedExpr::error(span) };
        let ty = ExprType::scalar(scalar);
        TypedExpr::new(ExprKind::Op { op, args: vec![left, right], updates: smallvec![] }, ty, span)
    }

    /// An operator of which an operand is a struct: a call of the program's function of the op's name, as in Warp.
    fn struct_operator(&mut self, op: Op, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
        let name = op.name();
        let Some(CapturedMeaning::Function(handles)) = self.environment.lookup(&[name]) else {
            let [a, b] = [&left, &right].map(type_of);
            let of = if left.ty.is_struct() { &a } else { &b };
            let message = format!("`{}` is not defined for {of}", operator_text(op));
            let help =
                format!("write one of its fields, or define `@{}.func def {name}(a: {a}, b: {b})`", self.package());
            return self.reject(Code::TypeMismatch, span, message, help);
        };
        if left.is_error() || right.is_error() {
            return TypedExpr::error(span);
        }
        let actuals = [left, right].map(|operand| (None, ActualArgument::Value(operand), None));
        self.user_call(&handles, name, Some(actuals.into_iter().collect()), span)
    }

    /// An operator of which an operand is a composite.
    pub(super) fn composite_op(&mut self, op: Op, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
        if left.is_error() || right.is_error() {
            return TypedExpr::error(span);
        }
        let elem = |expr: &TypedExpr| expr.ty.as_value().and_then(Type::as_composite).map(Composite::elem);
        let elem = elem(&left).or_else(|| elem(&right));
        let typed = |checker: &mut Self, expr: TypedExpr| match (expr.untyped(), elem) {
            (Some(value), Some(elem)) if value.adapts_to(elem) => checker.adapt(expr, elem.into()),
            _ => checker.settle(expr),
        };
        let (left, right) = (typed(self, left), typed(self, right));
        let (Some(left_type), Some(right_type)) = (left.ty.as_value(), right.ty.as_value()) else {
            return TypedExpr::error(span);
        };
        let results = op.info().signatures.iter().find_map(|s| s.result_types(&[left_type, right_type]));
        match results.as_deref() {
            Some(&[result]) => {
                let kind = ExprKind::Op { op, args: vec![left, right], updates: smallvec![] };
                TypedExpr::new(kind, ExprType::Value(result), span)
            }
            _ => {
                self.operand_mismatch(op, &left, left_type, &right, right_type, span);
                TypedExpr::error(span)
            }
        }
    }

    /// Gives both operands of `op` one type that the op takes, or reports why they have none.
    pub(super) fn same_type(
        &mut self,
        op: Op,
        left: TypedExpr,
        right: TypedExpr,
        span: Span,
    ) -> Option<(TypedExpr, TypedExpr, Scalar)> {
        if left.is_error() || right.is_error() {
            return None;
        }
        let (left, right) = match (left.untyped(), right.untyped()) {
            (Some(a), Some(b)) => {
                let scalar = match (a, b) {
                    (PythonNumber::Int(_), PythonNumber::Int(_)) => Scalar::I32,
                    _ => Scalar::F32,
                };
                (self.adapt(left, scalar.into()), self.adapt(right, scalar.into()))
            }
            (Some(value), None) => {
                let right = self.settle(right);
                let left = self.adapt_to_other(op, left, value, &right, span)?;
                (left, right)
            }
            (None, Some(value)) => {
                let left = self.settle(left);
                let right = self.adapt_to_other(op, right, value, &left, span)?;
                (left, right)
            }
            (None, None) => (self.settle(left), self.settle(right)),
        };
        let (left_type, right_type) = (left.ty.as_value()?, right.ty.as_value()?);
        if let (Type::Scalar(a), Type::Scalar(b)) = (left_type, right_type)
            && a == b
        {
            if takes(op, a) {
                return Some((left, right, a));
            }
            self.not_defined(op, a, span);
            return None;
        }
        self.operand_mismatch(op, &left, left_type, &right, right_type, span);
        None
    }

    fn adapt_to_other(
        &mut self,
        op: Op,
        expr: TypedExpr,
        value: PythonNumber,
        other: &TypedExpr,
        span: Span,
    ) -> Option<TypedExpr> {
        let other_type = other.ty.as_value()?;
        if let Type::Scalar(scalar) = other_type
            && value.adapts_to(scalar)
        {
            return Some(self.adapt(expr, other_type)).filter(|e| !e.is_error());
        }
        let own = Type::Scalar(value.default_scalar());
        if expr.span.start <= other.span.start {
            self.operand_mismatch(op, &expr, own, other, other_type, span);
        } else {
            self.operand_mismatch(op, other, other_type, &expr, own, span);
        }
        None
    }

    pub(super) fn not_defined(&mut self, op: Op, scalar: Scalar, span: Span) {
        let help = match scalar {
            Scalar::Bool => "convert it: `int(x)`".to_owned(),
            _ if op == Op::BitXor => "for a power write `x ** y`; `^` is exclusive or, of integers".to_owned(),
            _ if scalar.is_float() => "convert it to an integer: `int(x)`".to_owned(),
            _ => "convert it to a float: `float(x)`".to_owned(),
        };
        let message = format!("`{}` is not defined for {}", operator_text(op), scalar.python_name());
        self.reject(Code::TypeMismatch, span, message, help);
    }

    fn operand_mismatch(
        &mut self,
        op: Op,
        left: &TypedExpr,
        left_ty: Type,
        right: &TypedExpr,
        right_ty: Type,
        span: Span,
    ) {
        self.operand_shows_type(left, right_ty);
        self.operand_shows_type(right, left_ty);
        if self.too_few_indices(left).or_else(|| self.too_few_indices(right)).is_some() {
            return;
        }
        let message =
            format!("`{}` cannot combine {} and {}", operator_text(op), left_ty.python_name(), right_ty.python_name());
        let help = match (left_ty, right_ty) {
            (Type::Scalar(a), Type::Scalar(b)) => {
                // The operand to convert is the one whose type holds less.
                let rank = |s: Scalar| (s.is_float(), s.bits());
                if rank(a) < rank(b) { self.conversion_help(left, b) } else { self.conversion_help(right, a) }
            }
            _ if left_ty.as_any_array().or_else(|| right_ty.as_any_array()).is_some() => {
                "index the array to get an element".to_owned()
            }
            (Type::Composite(_), Type::Composite(_)) => {
                format!(
                    "the shapes and element types of both must fit: write the product of components as `{}.cw_mul(a, b)`",
                    self.package()
                )
            }
            (Type::Composite(c), Type::Scalar(s)) | (Type::Scalar(s), Type::Composite(c)) => {
                let scalar = if left_ty.as_scalar().is_some() { left } else { right };
                match op {
                    Op::Mul | Op::Div if s != c.elem() => self.conversion_help(scalar, c.elem()),
                    Op::Add | Op::Sub if c.shape().len() == 1 && c.kind() == CompositeKind::Vector => {
                        let number = match s == c.elem() {
                            true => self.text_of(scalar.span).to_owned(),
                            false => self.conversion(scalar, c.elem()),
                        };
                        format!("make a vector of the scalar: `{}`", self.splat(c, &number))
                    }
                    Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => {
                        "compare its components, one by one".to_owned()
                    }
                    _ => "a vector or matrix is multiplied or divided by a scalar of its element type".to_owned(),
                }
            }
            _ => "a vector or matrix is scaled by a scalar of its element type".to_owned(),
        };
        let diagnostic = polyloom_ir::Diagnostic::error(Code::TypeMismatch, span, message)
            .label(left.span, left_ty.python_name())
            .label(right.span, right_ty.python_name())
            .help(help);
        self.report(diagnostic);
    }

    /// A vector all of whose components are this scalar, as source text.
    fn splat(&self, vector: Composite, number: &str) -> String {
        let name = vector.python_name();
        if Composite::from_python_name(&name).is_some() {
            return format!("{}.{name}({number})", self.package());
        }
        let elem = self.type_text(vector.elem());
        format!("{}.vector({number}, length={}, dtype={elem})", self.package(), vector.n_components())
    }

    /// `left ** right`.
    pub(super) fn power(&mut self, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
        if left.is_error() || right.is_error() {
            return TypedExpr::error(span);
        }
        if let (Some(a), Some(b)) = (left.number(), right.number()) {
            match (a, b) {
                (PythonNumber::Int(base), PythonNumber::Int(exponent @ 0..)) => {
                    let value = u32::try_from(exponent).ok().and_then(|e| base.checked_pow(e));
                    return match value {
                        Some(value) => number(PythonNumber::Int(value), span),
                        None => self.reject(
                            Code::ConstantRange,
                            span,
                            "this constant is too large",
                            "the largest integer type is `uint64`; write a float such as `1.0e30`",
                        ),
                    };
                }
                _ => {
                    let float = |n| match n {
                        PythonNumber::Int(value) => value as f64,
                        PythonNumber::Float(value) => value,
                    };
                    return number(PythonNumber::Float(float(a).powf(float(b))), span);
                }
            }
        }
        // `x ** 2`: a small integer exponent.
        if let Some(PythonNumber::Int(exponent)) = right.number() {
            let left = self.settle(left);
            let Some(ty) = left.ty.as_value() else { return TypedExpr::error(span) };
            if let Some(scalar) = ty.as_scalar() {
                let limit = if scalar.is_float() { MAX_FLOAT_POWER } else { MAX_INT_POWER };
                match u32::try_from(exponent) {
                    Ok(power) if power <= limit && scalar != Scalar::Bool => {
                        return TypedExpr::new(ExprKind::Power(Box::new(left), power), ExprType::Value(ty), span);
                    }
                    _ if scalar.is_int() => return self.integer_power(&left, span),
                    _ => {}
                }
            }
            return self.power_op(left, right, span);
        }
        self.power_op(left, right, span)
    }

    fn power_op(&mut self, left: TypedExpr, right: TypedExpr, span: Span) -> TypedExpr {
        let integer = |e: &TypedExpr| e.ty.as_value().and_then(Type::as_scalar).is_some_and(Scalar::is_int);
        if integer(&left) && (integer(&right) || right.number().is_some()) {
            return self.integer_power(&left, span);
        }
        let Some((left, right, scalar)) = self.same_type(Op::Pow, left, right, span) else {
            return TypedExpr::error(span);
        };
        let op = ExprKind::Op { op: Op::Pow, args: vec![left, right], updates: smallvec![] };
        TypedExpr::new(op, ExprType::scalar(scalar), span)
    }

    fn integer_power(&mut self, base: &TypedExpr, span: Span) -> TypedExpr {
        let help = format!("convert the base: `{}`, or multiply in a loop", self.conversion(base, Scalar::F32));
        self.reject(Code::TypeMismatch, span, "an integer can only be raised to a small constant power", help)
    }

    pub(super) fn unary(&mut self, unary: &'a ast::ExprUnaryOp, span: Span) -> TypedExpr {
        let operand = self.expr(&unary.operand);
        if operand.is_error() {
            return TypedExpr::error(span);
        }
        if unary.op == UnaryOp::Not {
            let operand = self.truth(operand);
            if operand.is_error() {
                return TypedExpr::error(span);
            }
            return op1(Op::Not, operand, Scalar::Bool, span);
        }
        if let Some(value) = operand.number() {
            let value = match (unary.op, value) {
                (UnaryOp::UAdd, value) => Some(value),
                (UnaryOp::USub, PythonNumber::Int(value)) => value.checked_neg().map(PythonNumber::Int),
                (UnaryOp::USub, PythonNumber::Float(value)) => Some(PythonNumber::Float(-value)),
                (UnaryOp::Invert, PythonNumber::Int(value)) => Some(PythonNumber::Int(!value)),
                _ => None,
            };
            if let Some(value) = value {
                return number(value, span);
            }
        }
        if unary.op == UnaryOp::USub && operand.is_waiting() {
            let kind = ExprKind::Op { op: Op::Neg, args: vec![operand], updates: smallvec![] };
            return TypedExpr::new(kind, ExprType::Number, span);
        }
        let operand = self.settle(operand);
        let Some(ty) = operand.ty.as_value() else { return TypedExpr::error(span) };
        if let Some(composite) = ty.as_composite() {
            let op = match unary.op {
                UnaryOp::UAdd => Some(Op::Pos),
                UnaryOp::USub => Some(Op::Neg),
                UnaryOp::Invert if composite.elem().is_int() => Some(Op::Invert),
                _ => None,
            };
            if let Some(op) = op.filter(|_| composite.elem() != Scalar::Bool) {
                let kind = ExprKind::Op { op, args: vec![operand], updates: smallvec![] };
                return TypedExpr::new(kind, ExprType::Value(ty), span);
            }
        }
        let Some(scalar) = ty.as_scalar() else {
            let message = format!("`{}` is not defined for {}", unary.op.as_str(), ty.python_name());
            return self.reject(Code::TypeMismatch, span, message, "index the array to get an element");
        };
        match unary.op {
            UnaryOp::UAdd if scalar != Scalar::Bool => TypedExpr { span, ..operand },
            UnaryOp::USub if scalar != Scalar::Bool => op1(Op::Neg, operand, scalar, span),
            UnaryOp::Invert if scalar.is_int() => op1(Op::Invert, operand, scalar, span),
            operator => {
                let message = format!("`{}` is not defined for {}", operator.as_str(), scalar.python_name());
                let help = match (operator, scalar) {
                    (UnaryOp::Invert, Scalar::Bool) => "write `not x`".to_owned(),
                    _ => self.conversion_help(&operand, Scalar::I32),
                };
                self.reject(Code::TypeMismatch, span, message, help)
            }
        }
    }

    /// Returns what an augmented assignment to an array element does, and the right operand with the element's type.
    pub(super) fn update(
        &mut self,
        operator: Operator,
        element: &TypedExpr,
        value: TypedExpr,
        span: Span,
    ) -> Option<(UpdateOp, TypedExpr)> {
        let combined = self.binary_op(operator, element.clone(), value, span);
        match combined.kind {
            ExprKind::Op { op, mut args, .. } => args.pop().map(|value| (UpdateOp::Op(op), value)),
            ExprKind::Power(_, power) => {
                Some((UpdateOp::Power(power), TypedExpr::constant(power.into(), Scalar::I32, span)))
            }
            _ => None,
        }
    }
}

pub(super) fn is_composite(expr: &TypedExpr) -> bool {
    expr.ty.as_value().and_then(Type::as_composite).is_some()
}

fn is_matrix(expr: &TypedExpr) -> bool {
    matches!(expr.ty.as_value(), Some(Type::Composite(Composite::Matrix { .. })))
}

/// An operation of one operand.
pub(super) fn op1(op: Op, operand: TypedExpr, result: Scalar, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Op { op, args: vec![operand], updates: smallvec![] }, ExprType::scalar(result), span)
}

struct TooLarge;

/// An operation on two Python numbers; `None` where kernels define it differently (`/`, `//`, `%`) or it has no value.
fn fold(op: Op, a: PythonNumber, b: PythonNumber) -> Option<Result<PythonNumber, TooLarge>> {
    let float = |n: PythonNumber| match n {
        PythonNumber::Int(value) => value as f64,
        PythonNumber::Float(value) => value,
    };
    if let (PythonNumber::Int(a), PythonNumber::Int(b)) = (a, b) {
        let value = match op {
            Op::Add => a.checked_add(b),
            Op::Sub => a.checked_sub(b),
            Op::Mul => a.checked_mul(b),
            Op::BitAnd => Some(a & b),
            Op::BitOr => Some(a | b),
            Op::BitXor => Some(a ^ b),
            Op::Lshift => {
                let count = u32::try_from(b).ok()?;
                a.checked_mul(1i128.checked_shl(count).filter(|_| count < 127)?)
            }
            Op::Rshift => Some(a >> u32::try_from(b).ok()?.min(127)),
            _ => return None,
        };
        return Some(value.map(PythonNumber::Int).ok_or(TooLarge));
    }
    let (a, b) = (float(a), float(b));
    let value = match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div if b != 0.0 => a / b,
        _ => return None,
    };
    Some(Ok(PythonNumber::Float(value)))
}
