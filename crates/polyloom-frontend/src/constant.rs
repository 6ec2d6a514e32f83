//! The values of constant expressions outside kernels, as Python computes them.
//!
//! Module-level constants of a file, defaults of parameters and decorator arguments are read with it. What it cannot
//! compute is `None`: the value is known only when the program runs.

use crate::builtin_function::BuiltinFunction;
use crate::dotted_path::dotted;
use crate::environment::CapturedMeaning;
use crate::members;
use crate::number::PythonNumber;
use polyloom_ir::{Composite, Op, Scalar};
use ruff_python_ast::{self as ast, CmpOp, Expr, Operator, UnaryOp};

/// The value of an expression, if it is a constant; `lookup` says what names mean.
pub(crate) fn evaluate(expr: &Expr, lookup: &dyn Fn(&[&str]) -> Option<CapturedMeaning>) -> Option<CapturedMeaning> {
    let eval = |e: &Expr| evaluate(e, lookup);
    match expr {
        Expr::NumberLiteral(literal) => match &literal.value {
            ast::Number::Int(value) => Some(CapturedMeaning::Int(value.as_u64()?.into())),
            ast::Number::Float(value) => Some(CapturedMeaning::Float(*value)),
            ast::Number::Complex { .. } => None,
        },
        Expr::BooleanLiteral(literal) => Some(CapturedMeaning::Bool(literal.value)),
        Expr::StringLiteral(text) => Some(CapturedMeaning::Text(text.value.to_str().into())),
        Expr::Name(_) | Expr::Attribute(_) => {
            let path = dotted(expr)?;
            lookup(&path).or_else(|| match path[..] {
                [name] => members::python_builtin(name),
                _ => None,
            })
        }
        Expr::UnaryOp(unary) => {
            let operand = eval(&unary.operand)?;
            if unary.op == UnaryOp::Not {
                return Some(CapturedMeaning::Bool(!truth(&operand)?));
            }
            match (unary.op, number(&operand)?) {
                (UnaryOp::USub, PythonNumber::Int(value)) => Some(CapturedMeaning::Int(value.checked_neg()?)),
                (UnaryOp::USub, PythonNumber::Float(value)) => Some(CapturedMeaning::Float(-value)),
                (UnaryOp::Invert, PythonNumber::Int(value)) => Some(CapturedMeaning::Int(!value)),
                (UnaryOp::UAdd, value) => Some(captured(value)),
                _ => None,
            }
        }
        Expr::BinOp(binary) => {
            let (left, right) = (eval(&binary.left)?, eval(&binary.right)?);
            arithmetic(binary.op, number(&left)?, number(&right)?).map(captured)
        }
        Expr::BoolOp(logic) => {
            let mut last = None;
            for value in &logic.values {
                let value = eval(value)?;
                let decided = truth(&value)? == (logic.op == ast::BoolOp::Or);
                last = Some(value);
                if decided {
                    break;
                }
            }
            last
        }
        Expr::Compare(compare) => {
            let mut left = number(&eval(&compare.left)?)?;
            for (op, right) in compare.ops.iter().zip(&compare.comparators) {
                let right = number(&eval(right)?)?;
                if !holds(*op, left, right)? {
                    return Some(CapturedMeaning::Bool(false));
                }
                left = right;
            }
            Some(CapturedMeaning::Bool(true))
        }
        Expr::If(conditional) => {
            let branch = if truth(&eval(&conditional.test)?)? { &conditional.body } else { &conditional.orelse };
            eval(branch)
        }
        Expr::Named(named) => eval(&named.value),
        Expr::Call(call) => call_value(call, lookup),
        _ => None,
    }
}

/// Tells whether a value is true.
pub(crate) fn truth(value: &CapturedMeaning) -> Option<bool> {
    match value {
        CapturedMeaning::Text(text) => Some(!text.is_empty()),
        other => match number(other)? {
            PythonNumber::Int(value) => Some(value != 0),
            PythonNumber::Float(value) => Some(value != 0.0),
        },
    }
}

fn number(value: &CapturedMeaning) -> Option<PythonNumber> {
    match value {
        CapturedMeaning::Bool(value) => Some(PythonNumber::Int((*value).into())),
        CapturedMeaning::Int(value) => Some(PythonNumber::Int(*value)),
        CapturedMeaning::Float(value) => Some(PythonNumber::Float(*value)),
        _ => None,
    }
}

fn captured(value: PythonNumber) -> CapturedMeaning {
    match value {
        PythonNumber::Int(value) => CapturedMeaning::Int(value),
        PythonNumber::Float(value) => CapturedMeaning::Float(value),
    }
}

fn float(value: PythonNumber) -> f64 {
    match value {
        PythonNumber::Int(value) => value as f64,
        PythonNumber::Float(value) => value,
    }
}

fn arithmetic(op: Operator, left: PythonNumber, right: PythonNumber) -> Option<PythonNumber> {
    if let (PythonNumber::Int(a), PythonNumber::Int(b)) = (left, right) {
        let value = match op {
            Operator::Add => a.checked_add(b),
            Operator::Sub => a.checked_sub(b),
            Operator::Mult => a.checked_mul(b),
            Operator::FloorDiv if b != 0 => {
                let quotient = a.checked_div(b)?;
                Some(quotient - i128::from(a % b != 0 && (a < 0) != (b < 0)))
            }
            Operator::Mod if b != 0 => {
                let remainder = a.checked_rem(b)?;
                Some(if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder })
            }
            Operator::Pow if b >= 0 => a.checked_pow(u32::try_from(b).ok()?),
            Operator::LShift => {
                let count = u32::try_from(b).ok().filter(|c| *c < 127)?;
                a.checked_mul(1 << count)
            }
            Operator::RShift => Some(a >> u32::try_from(b).ok()?.min(127)),
            Operator::BitAnd => Some(a & b),
            Operator::BitOr => Some(a | b),
            Operator::BitXor => Some(a ^ b),
            Operator::Div | Operator::Pow if b != 0 => return float_arithmetic(op, left, right),
            _ => None,
        };
        return value.map(PythonNumber::Int);
    }
    float_arithmetic(op, left, right)
}

fn float_arithmetic(op: Operator, left: PythonNumber, right: PythonNumber) -> Option<PythonNumber> {
    let (a, b) = (float(left), float(right));
    let value = match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mult => a * b,
        Operator::Div if b != 0.0 => a / b,
        Operator::FloorDiv if b != 0.0 => (a / b).floor(),
        Operator::Mod if b != 0.0 => {
            let remainder = a % b;
            if remainder != 0.0 && (remainder < 0.0) != (b < 0.0) { remainder + b } else { remainder }
        }
        Operator::Pow => a.powf(b),
        _ => return None,
    };
    Some(PythonNumber::Float(value))
}

fn holds(op: CmpOp, left: PythonNumber, right: PythonNumber) -> Option<bool> {
    let order = match (left, right) {
        (PythonNumber::Int(a), PythonNumber::Int(b)) => Some(a.cmp(&b)),
        (a, b) => float(a).partial_cmp(&float(b)),
    };
    Some(match op {
        CmpOp::Eq => order.is_some_and(|o| o.is_eq()),
        CmpOp::NotEq => order.is_none_or(|o| o.is_ne()),
        CmpOp::Lt => order.is_some_and(|o| o.is_lt()),
        CmpOp::LtE => order.is_some_and(|o| o.is_le()),
        CmpOp::Gt => order.is_some_and(|o| o.is_gt()),
        CmpOp::GtE => order.is_some_and(|o| o.is_ge()),
        CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn => return None,
    })
}

/// A composite made of numbers and of composites of the same components.
fn composite_value(composite: Composite, args: &[CapturedMeaning]) -> Option<CapturedMeaning> {
    let (elem, n) = (composite.elem(), composite.n_components());
    let mut bits: Vec<u64> = Vec::with_capacity(n);
    for arg in args {
        match arg {
            CapturedMeaning::CompositeConstant(part, of) if of.elem() == elem => bits.extend_from_slice(part),
            CapturedMeaning::Constant(value, scalar) if *scalar == elem => bits.push(*value),
            other => bits.push(number(other).filter(|number| number.adapts_to(elem))?.fit(elem)?),
        }
    }
    match bits.len() {
        0 if !matches!(composite, Composite::Transform { .. }) => bits.resize(n, 0),
        1 if matches!(composite, Composite::Vector { .. } | Composite::Matrix { .. }) => bits.resize(n, bits[0]),
        given if given != n => return None,
        _ => {}
    }
    Some(CapturedMeaning::CompositeConstant(bits.into(), composite))
}

fn call_value(call: &ast::ExprCall, lookup: &dyn Fn(&[&str]) -> Option<CapturedMeaning>) -> Option<CapturedMeaning> {
    let path = dotted(&call.func)?;
    if !call.arguments.keywords.is_empty() {
        return None;
    }
    let args: Vec<CapturedMeaning> = call.arguments.args.iter().map(|a| evaluate(a, lookup)).collect::<Option<_>>()?;
    let from_python = lookup(&path).is_none();
    let callee = match path[..] {
        [name] if from_python => members::python_builtin(name)?,
        _ => lookup(&path)?,
    };
    match (callee, &args[..]) {
        // Python's own `float(x)` is a Python float; the package's `float32(x)` has a type.
        (CapturedMeaning::Type(to), [x]) if from_python => match (to, number(x)?) {
            (Scalar::Bool, value) => Some(CapturedMeaning::Bool(float(value) != 0.0)),
            (Scalar::F32, value) => Some(CapturedMeaning::Float(float(value))),
            (_, PythonNumber::Int(value)) => Some(CapturedMeaning::Int(value)),
            (_, PythonNumber::Float(value)) if value.is_finite() => Some(CapturedMeaning::Int(value as i128)),
            _ => None,
        },
        (CapturedMeaning::Composite(composite), args) => composite_value(composite, args),
        (CapturedMeaning::Type(to), [x]) => Some(CapturedMeaning::Constant(number(x)?.convert(to), to)),
        (CapturedMeaning::Builtin(BuiltinFunction::Constant), [x]) => Some(x.clone()),
        (CapturedMeaning::Builtin(BuiltinFunction::Fold(op)), [first, rest @ ..]) => {
            let keep = |a: PythonNumber, b: PythonNumber| {
                let less = holds(CmpOp::Lt, b, a).unwrap_or(false);
                let more = holds(CmpOp::Gt, b, a).unwrap_or(false);
                if (op == Op::Min && less) || (op == Op::Max && more) { b } else { a }
            };
            let mut best = number(first)?;
            for value in rest {
                best = keep(best, number(value)?);
            }
            Some(captured(best))
        }
        (CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Abs)), [x]) => Some(match number(x)? {
            PythonNumber::Int(value) => CapturedMeaning::Int(value.checked_abs()?),
            PythonNumber::Float(value) => CapturedMeaning::Float(value.abs()),
        }),
        (CapturedMeaning::Builtin(BuiltinFunction::Op(op)), [x]) => {
            let x = float(number(x)?);
            Some(CapturedMeaning::Float(match op {
                Op::Sqrt => x.sqrt(),
                Op::Sin => x.sin(),
                Op::Cos => x.cos(),
                Op::Tan => x.tan(),
                Op::Asin => x.asin(),
                Op::Acos => x.acos(),
                Op::Atan => x.atan(),
                Op::Exp => x.exp(),
                Op::Log => x.ln(),
                Op::Log2 => x.log2(),
                Op::Log10 => x.log10(),
                Op::Radians => x.to_radians(),
                Op::Degrees => x.to_degrees(),
                _ => return None,
            }))
        }
        (CapturedMeaning::Builtin(BuiltinFunction::Op(Op::Pow)), [x, y]) => {
            arithmetic(Operator::Pow, number(x)?, number(y)?).map(captured)
        }
        _ => None,
    }
}
