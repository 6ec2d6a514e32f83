//! Checking expressions: the dispatch over syntax, and fitting values to the types they must have.

use super::function::FunctionChecker;
use super::scope::number;
use crate::number::PythonNumber;
use crate::typed_ast::{ExprKind, ExprType, Locals, TypedExpr};
use polyloom_ir::{Code, Scalar, Span, Type};
use ruff_python_ast as ast;

/// Expressions and statements nested deeper than this are not checked. Operators in a row are no nesting.
pub(super) const MAX_DEPTH: u32 = 200;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// An expression; a number keeps waiting for its type.
    pub(super) fn expr(&mut self, expr: &'a ast::Expr) -> TypedExpr {
        if self.depth >= MAX_DEPTH {
            let span = self.span(expr);
            return self.reject(
                Code::Limit,
                span,
                "the code is nested too deeply",
                "split it: assign parts of long expressions to variables, and use fewer `elif` and inner blocks",
            );
        }
        if !self.spend(1, expr) {
            return TypedExpr::error(self.span(expr));
        }
        self.depth += 1;
        let checked = self.expr_inner(expr);
        self.depth -= 1;
        checked
    }

    fn expr_inner(&mut self, expr: &'a ast::Expr) -> TypedExpr {
        let span = self.span(expr);
        match expr {
            ast::Expr::NumberLiteral(literal) => self.number_literal(literal, span),
            ast::Expr::BooleanLiteral(literal) => TypedExpr::constant(literal.value.into(), Scalar::Bool, span),
            ast::Expr::Name(name) => self.name(name),
            ast::Expr::Attribute(attribute) => self.attribute(attribute, span),
            ast::Expr::Subscript(subscript) => self.subscript(subscript, span),
            ast::Expr::Call(call) => self.call(call, span),
            ast::Expr::BinOp(binary) => self.binary(binary),
            ast::Expr::UnaryOp(unary) => self.unary(unary, span),
            ast::Expr::BoolOp(logic) => self.bool_op(logic, span),
            ast::Expr::Compare(compare) => self.compare(compare, span),
            ast::Expr::Tuple(tuple) => self.tuple_value(tuple, span),
            ast::Expr::If(conditional) => self.conditional(conditional, span),
            _ => self.unsupported_expr(expr, span),
        }
    }

    fn number_literal(&mut self, literal: &ast::ExprNumberLiteral, span: Span) -> TypedExpr {
        match &literal.value {
            ast::Number::Int(value) => match value.as_u64() {
                Some(value) => number(PythonNumber::Int(value.into()), span),
                None => self.reject(
                    Code::ConstantRange,
                    span,
                    "this integer fits no type",
                    "the largest integer type is `uint64`; write a float such as `1.0e30`",
                ),
            },
            ast::Number::Float(value) => number(PythonNumber::Float(*value), span),
            ast::Number::Complex { .. } => self.reject(
                Code::Unsupported,
                span,
                "complex numbers are not supported",
                "use two variables for the real and the imaginary part",
            ),
        }
    }

    /// An expression with one value of a type: a number takes `int32` or `float32`.
    pub(super) fn value(&mut self, expr: &'a ast::Expr) -> TypedExpr {
        let checked = self.expr(expr);
        self.settle(checked)
    }

    /// Gives a number its default type and rejects what is not one value.
    pub(super) fn settle(&mut self, expr: TypedExpr) -> TypedExpr {
        match &expr.ty {
            ExprType::Number => {
                let scalar = expr.untyped().map_or(Scalar::I32, PythonNumber::default_scalar);
                self.adapt(expr, scalar.into())
            }
            ExprType::Values(types) => {
                let count = types.len();
                let span = expr.span;
                let functions = &self.compilation.program.functions;
                let function = expr.called().and_then(|function| functions.get(function.0 as usize));
                let (message, help) = match function {
                    Some(function) if count == 0 => (
                        format!("`{}` returns nothing", function.name),
                        "write a `return` with a value in it, or call it on a line of its own",
                    ),
                    _ if count == 0 => ("this call gives no value".to_owned(), "call it on a line of its own"),
                    _ => (format!("this gives {count} values where one is needed"), "unpack it: `a, b = …`"),
                };
                self.reject(Code::TypeMismatch, span, message, help)
            }
            ExprType::Struct(_) | ExprType::StructArray { .. } => match expr.ty.full() {
                Some(ty) => self.no_single_value(ty, expr.span),
                None => expr,
            },
            ExprType::Value(_) | ExprType::Error => expr,
        }
    }

    /// A number as a constant of a type it adapts to, which the caller has made sure of.
    pub(super) fn adapt(&mut self, expr: TypedExpr, ty: Type) -> TypedExpr {
        let Some(scalar) = ty.as_scalar().filter(|_| expr.is_waiting()) else { return expr };
        let Some(value) = expr.number() else { return self.adapt_parts(expr, scalar) };
        match value.fit(scalar) {
            Some(bits) => TypedExpr::constant(bits, scalar, expr.span),
            None => {
                let help = match value {
                    PythonNumber::Int(value) => {
                        let wider = [Scalar::I32, Scalar::I64, Scalar::U64]
                            .into_iter()
                            .find(|s| *s != scalar && PythonNumber::Int(value).fit(*s).is_some());
                        match wider {
                            // Alone it would have been an `int32`; elsewhere its neighbours decide the type.
                            Some(wider) if scalar == Scalar::I32 => {
                                format!("write `{}({value})`", self.type_text(wider))
                            }
                            Some(_) => format!(
                                "convert what it meets to a wider type, or write `{}({value})` to make it wrap",
                                self.type_text(scalar)
                            ),
                            None => "no integer type holds it; use a float".to_owned(),
                        }
                    }
                    PythonNumber::Float(_) if scalar == Scalar::F32 => {
                        format!("write `{}({value})`", self.type_text(Scalar::F64))
                    }
                    PythonNumber::Float(_) => "convert what it meets to a wider type, such as `float`".to_owned(),
                };
                let message = format!("{value} does not fit {}", scalar.python_name());
                self.reject(Code::ConstantRange, expr.span, message, help)
            }
        }
    }

    /// A value that must have this type because of `reason` (`the function's annotation`).
    pub(super) fn expect_value(&mut self, expr: TypedExpr, ty: Type, code: Code, reason: &str) -> TypedExpr {
        if let (ExprKind::View { .. }, true) = (&expr.kind, expr.ty == ExprType::Value(ty)) {
            return self.not_kept(&expr);
        }
        match &expr.ty {
            ExprType::Error => expr,
            ExprType::Number => {
                let fits = ty.as_scalar().is_some_and(|s| expr.untyped().is_some_and(|n| n.adapts_to(s)));
                if fits {
                    // A conversion would not help, because it is what the number meets that is too narrow.
                    let wider = match (expr.number(), ty) {
                        (Some(PythonNumber::Int(_)), Type::I32) => Some(Scalar::I64),
                        (Some(PythonNumber::Float(_)), Type::F32) => Some(Scalar::F64),
                        _ => None,
                    };
                    if let (Some(value), Some(scalar), Some(wider)) = (expr.number(), ty.as_scalar(), wider)
                        && !expr.fits(scalar)
                        && expr.fits(wider)
                    {
                        let name = scalar.python_name();
                        let help =
                            format!("{reason} is {name}: give it a wider type, such as `{}`", self.type_text(wider));
                        return self.reject(
                            Code::ConstantRange,
                            expr.span,
                            format!("{value} does not fit {name}"),
                            help,
                        );
                    }
                    return self.adapt(expr, ty);
                }
                let given = expr.untyped().map_or(Scalar::I32, PythonNumber::default_scalar);
                self.mismatch(&expr, given.into(), ty, code, reason)
            }
            ExprType::Value(given) if *given == ty => expr,
            ExprType::Value(given) => {
                let given = *given;
                self.mismatch(&expr, given, ty, code, reason)
            }
            ExprType::Struct(_) | ExprType::StructArray { .. } => match expr.ty.full() {
                Some(given) => self.struct_mismatch(given, ty.into(), code, reason, expr.span),
                None => expr,
            },
            ExprType::Values(_) => self.settle(expr),
        }
    }

    fn mismatch(&mut self, expr: &TypedExpr, given: Type, wanted: Type, code: Code, reason: &str) -> TypedExpr {
        if wanted.as_any_array().is_none()
            && let Some(rejected) = self.too_few_indices(expr)
        {
            return rejected;
        }
        let message = match code {
            Code::ReturnMismatch => self.wrong_result(&[given.python_name()]),
            _ => format!("this is {}, but {reason} is {}", given.python_name(), wanted.python_name()),
        };
        let help = match (given, wanted) {
            (Type::Scalar(_), Type::Scalar(wanted)) => self.conversion_help(expr, wanted),
            (Type::Scalar(_), Type::Composite(wanted)) => {
                format!("make one of it: `{}(…)`", wanted.python_name())
            }
            (Type::Composite(_), Type::Scalar(_)) => "write one of its components, or its `length`".to_owned(),
            (Type::Composite(_), Type::Composite(_)) => "both must have one shape and one element type".to_owned(),
            (_, Type::Composite(_)) | (Type::CompositeArray { .. }, Type::Scalar(_)) => {
                "index the array to get an element".to_owned()
            }
            (Type::Composite(_) | Type::Scalar(_), Type::CompositeArray { .. })
            | (Type::Composite(_), Type::Array { .. }) => "write an array here, not an element".to_owned(),
            (Type::CompositeArray { .. }, _) | (_, Type::CompositeArray { .. }) => {
                "use an array of these elements and dimensions, or change the annotation".to_owned()
            }
            (Type::Array { .. }, Type::Scalar(_)) => "index the array to get an element".to_owned(),
            (Type::Scalar(_), Type::Array { .. }) => "write an array here, not a number or an element".to_owned(),
            (Type::Array { ndim: given, .. }, Type::Array { ndim: wanted, .. }) if given != wanted => {
                let dimensions = if given == 1 { "1 dimension".to_owned() } else { format!("{given} dimensions") };
                format!("the array has {dimensions} instead of {wanted}: use another, or change the annotation")
            }
            (Type::Array { .. }, Type::Array { .. }) => {
                "the elements have another type: use another array, or change the annotation".to_owned()
            }
        };
        self.reject(code, expr.span, message, help)
    }

    /// A value as a bool: `x != 0`. An array is true if it has elements, as it has not where a launch is given `None`.
    pub(super) fn truth(&mut self, expr: TypedExpr) -> TypedExpr {
        let span = expr.span;
        if let Some(value) = expr.number() {
            return TypedExpr::constant(value.convert(Scalar::Bool), Scalar::Bool, span);
        }
        match expr.ty {
            ExprType::BOOL | ExprType::Error => expr,
            ExprType::Value(Type::Scalar(_)) => TypedExpr::new(ExprKind::Cast(Box::new(expr)), ExprType::BOOL, span),
            ExprType::Value(Type::Array { .. } | Type::CompositeArray { .. }) => {
                let extents = self.extents_of(&expr, span).into_iter();
                let is_some = |extent| TypedExpr::new(ExprKind::Cast(Box::new(extent)), ExprType::BOOL, span);
                let terms = extents.map(is_some).collect();
                TypedExpr::new(ExprKind::Logic { all: true, terms, assigns: Locals::new() }, ExprType::BOOL, span)
            }
            ExprType::Value(composite) => {
                let message = format!("{} is not a condition", composite.python_name());
                self.reject(Code::TypeMismatch, span, message, "compare a component, or its `length`")
            }
            ExprType::Number => {
                let settled = self.settle(expr);
                self.truth(settled)
            }
            ExprType::Values(_) | ExprType::Struct(_) | ExprType::StructArray { .. } => self.settle(expr),
        }
    }

    /// A condition.
    pub(super) fn condition(&mut self, expr: &'a ast::Expr) -> TypedExpr {
        let outer = std::mem::replace(&mut self.deciding, true);
        let checked = self.expr(expr);
        self.deciding = outer;
        self.truth(checked)
    }

    /// Converts a value, as `float64(x)` does.
    pub(super) fn convert(&mut self, expr: TypedExpr, to: Scalar, span: Span) -> TypedExpr {
        if let Some(value) = expr.number() {
            return TypedExpr::constant(value.convert(to), to, span);
        }
        let expr = if expr.is_waiting() {
            // In its own kind of number it is computed in the type asked for, so that `float64(min(0.1, 0.2))` is
            // exact.
            let own = expr.untyped().map_or(Scalar::I32, PythonNumber::default_scalar);
            let exact = own.is_float() == to.is_float() && expr.fits(to);
            self.adapt(expr, if exact { to } else { own }.into())
        } else {
            expr
        };
        match expr.ty {
            ExprType::Value(Type::Scalar(from)) if from == to => TypedExpr { span, ..expr },
            ExprType::Value(Type::Scalar(_)) => {
                TypedExpr::new(ExprKind::Cast(Box::new(expr)), ExprType::scalar(to), span)
            }
            ExprType::Value(array) => {
                let message = format!("{} cannot be converted to {}", array.python_name(), to.python_name());
                self.reject(Code::TypeMismatch, expr.span, message, "index the array to get an element")
            }
            _ => self.settle(expr),
        }
    }
}
