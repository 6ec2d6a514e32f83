//! What every pure scalar op computes: the definition that all back ends follow and constant folding uses.
//!
//! Values are bits, zero-extended to `u64`; a `bool` is 0 or 1. Every op is total: no operand makes it fail. A NaN
//! that arithmetic produces is the canonical quiet one, and only NaN-ness may be relied on. Arithmetic on 16-bit
//! floats is done in `f32` and rounded after every operation (`fma` in `f64`).
//!
//! Library ops are defined by [`crate::math`] in terms of these. Three of them, `floordiv`, `mod` of floats and
//! `copysign`, are here as well, for the interpreter and for constants; tests hold both definitions together.

mod half;
mod number;

pub use half::{bf16_from_f64, bf16_to_f32, f16_from_f64, f16_to_f32};
use number::{BF16, F16, FloatOps, IntegerOps, NumberOps, ScalarBits};

use crate::op::{Op, OpGroup};
use crate::types::{Scalar, Type};

/// The function that computes an op on one combination of types.
#[derive(Clone, Copy, Debug)]
pub enum OpEvaluator {
    /// Of one operand.
    Unary(fn(u64) -> u64),
    /// Of two.
    Binary(fn(u64, u64) -> u64),
    /// Of three.
    Ternary(fn(u64, u64, u64) -> u64),
}

/// Evaluates a pure op of the table on scalars: operand types, operand bits, result type.
///
/// `None` if the op is not one of these (constants, calls and thread indices depend on more than their operands;
/// all but three library ops are defined by [`crate::math`] alone), or if the operands do not fit it.
///
/// ```
/// use polyloom_ir::{Op, Type, eval::eval};
/// let seven_halves = eval(Op::Div, &[Type::I32, Type::I32], &[7, 2], Type::I32);
/// assert_eq!(seven_halves, Some(3));
/// ```
pub fn eval(op: Op, operand_types: &[Type], operands: &[u64], result: Type) -> Option<u64> {
    match (evaluator(op, operand_types, result)?, operands) {
        (OpEvaluator::Unary(f), &[x]) => Some(f(x)),
        (OpEvaluator::Binary(f), &[a, b]) => Some(f(a, b)),
        (OpEvaluator::Ternary(f), &[a, b, c]) => Some(f(a, b, c)),
        _ => None,
    }
}

/// The function behind [`eval`], for callers that evaluate an op many times.
pub fn evaluator(op: Op, operand_types: &[Type], result: Type) -> Option<OpEvaluator> {
    let result = result.as_scalar()?;
    let operand = operand_types.last()?.as_scalar()?;
    let evaluator = evaluator_of(op, operand, result)?;
    let (n_operands, alike) = match (op, evaluator) {
        (Op::Select, _) if operand_types[0] != Type::BOOL => return None,
        (Op::Select, _) => (3, &operand_types[1..]),
        (_, OpEvaluator::Unary(_)) => (1, operand_types),
        (_, OpEvaluator::Binary(_)) => (2, operand_types),
        (_, OpEvaluator::Ternary(_)) => (3, operand_types),
    };
    let fits = operand_types.len() == n_operands && alike.iter().all(|&ty| ty == Type::Scalar(operand));
    let result_fits = match op {
        Op::Cast => true,
        Op::Bitcast => operand.bits() == result.bits(),
        _ if op.info().group == OpGroup::Comparison => result == Scalar::Bool,
        _ => result == operand,
    };
    (fits && result_fits).then_some(evaluator)
}

/// Expands to the instance of a generic function for a scalar type, or `None` for a type outside the class.
macro_rules! instance {
    (int $scalar:expr, $function:ident) => {
        match $scalar {
            Scalar::I8 => $function::<i8>,
            Scalar::I16 => $function::<i16>,
            Scalar::I32 => $function::<i32>,
            Scalar::I64 => $function::<i64>,
            Scalar::U8 => $function::<u8>,
            Scalar::U16 => $function::<u16>,
            Scalar::U32 => $function::<u32>,
            Scalar::U64 => $function::<u64>,
            _ => return None,
        }
    };
    (float $scalar:expr, $function:ident) => {
        match $scalar {
            Scalar::F16 => $function::<F16>,
            Scalar::BF16 => $function::<BF16>,
            Scalar::F32 => $function::<f32>,
            Scalar::F64 => $function::<f64>,
            _ => return None,
        }
    };
    (number $scalar:expr, $function:ident) => {
        match $scalar {
            Scalar::F16 => $function::<F16>,
            Scalar::BF16 => $function::<BF16>,
            Scalar::F32 => $function::<f32>,
            Scalar::F64 => $function::<f64>,
            _ => instance!(int $scalar, $function),
        }
    };
    (scalar $scalar:expr, $function:ident) => {
        match $scalar {
            Scalar::Bool => $function::<bool>,
            _ => instance!(number $scalar, $function),
        }
    };
}

fn evaluator_of(op: Op, operand: Scalar, result: Scalar) -> Option<OpEvaluator> {
    use OpEvaluator::{Binary, Ternary, Unary};
    Some(match op {
        Op::Add => Binary(instance!(number operand, add)),
        Op::Sub => Binary(instance!(number operand, sub)),
        Op::Mul => Binary(instance!(number operand, mul)),
        Op::Div => Binary(instance!(number operand, div)),
        Op::FloorDiv => Binary(instance!(number operand, floordiv)),
        Op::Mod => Binary(instance!(number operand, modulo)),
        Op::Min => Binary(instance!(number operand, min)),
        Op::Max => Binary(instance!(number operand, max)),
        Op::Neg => Unary(instance!(number operand, neg)),
        Op::Abs => Unary(instance!(number operand, abs)),

        Op::Eq => Binary(instance!(scalar operand, eq)),
        Op::Ne => Binary(instance!(scalar operand, ne)),
        Op::Lt => Binary(instance!(number operand, lt)),
        Op::Le => Binary(instance!(number operand, le)),
        Op::Gt => Binary(instance!(number operand, gt)),
        Op::Ge => Binary(instance!(number operand, ge)),

        Op::BitAnd if !operand.is_float() => Binary(|a, b| a & b),
        Op::BitOr if !operand.is_float() => Binary(|a, b| a | b),
        Op::BitXor if !operand.is_float() => Binary(|a, b| a ^ b),
        Op::Not if operand == Scalar::Bool => Unary(|x| x ^ 1),
        Op::Invert => Unary(instance!(int operand, invert)),
        Op::Lshift => Binary(instance!(int operand, lshift)),
        Op::Rshift => Binary(instance!(int operand, rshift)),

        Op::Sqrt => Unary(instance!(float operand, sqrt)),
        Op::Floor => Unary(instance!(float operand, floor)),
        Op::Ceil => Unary(instance!(float operand, ceil)),
        Op::Trunc => Unary(instance!(float operand, trunc)),
        Op::Rint => Unary(instance!(float operand, rint)),
        Op::Copysign => Binary(instance!(float operand, copysign)),
        Op::Fma => Ternary(instance!(float operand, fma)),

        Op::Select => Ternary(|cond, a, b| if cond != 0 { a } else { b }),
        Op::Bitcast => Unary(|x| x),
        Op::Cast if operand == result => Unary(|x| x),
        Op::Cast => Unary(instance!(scalar operand, cast_from)(result)),
        _ => return None,
    })
}

fn cast_from<S: ScalarBits>(to: Scalar) -> fn(u64) -> u64 {
    match to {
        Scalar::Bool => cast::<S, bool>,
        Scalar::I8 => cast::<S, i8>,
        Scalar::I16 => cast::<S, i16>,
        Scalar::I32 => cast::<S, i32>,
        Scalar::I64 => cast::<S, i64>,
        Scalar::U8 => cast::<S, u8>,
        Scalar::U16 => cast::<S, u16>,
        Scalar::U32 => cast::<S, u32>,
        Scalar::U64 => cast::<S, u64>,
        Scalar::F16 => cast::<S, F16>,
        Scalar::BF16 => cast::<S, BF16>,
        Scalar::F32 => cast::<S, f32>,
        Scalar::F64 => cast::<S, f64>,
    }
}

fn cast<S: ScalarBits, D: ScalarBits>(x: u64) -> u64 {
    D::from_wide(S::get(x).to_wide()).put()
}

macro_rules! unary {
    ($($name:ident: $class:ident),*) => {
        $(fn $name<T: $class>(x: u64) -> u64 {
            T::get(x).$name().put()
        })*
    };
}

macro_rules! binary {
    ($($name:ident: $class:ident),*) => {
        $(fn $name<T: $class>(a: u64, b: u64) -> u64 {
            T::get(a).$name(T::get(b)).put()
        })*
    };
}

macro_rules! comparison {
    ($($name:ident $operator:tt),*) => {
        $(fn $name<T: ScalarBits>(a: u64, b: u64) -> u64 {
            u64::from(T::get(a) $operator T::get(b))
        })*
    };
}

unary!(neg: NumberOps, abs: NumberOps, sqrt: FloatOps, floor: FloatOps, ceil: FloatOps, trunc: FloatOps, rint: FloatOps);
unary!(invert: IntegerOps);
binary!(add: NumberOps, sub: NumberOps, mul: NumberOps, div: NumberOps, floordiv: NumberOps, modulo: NumberOps, min: NumberOps, max: NumberOps);
binary!(lshift: IntegerOps, rshift: IntegerOps, copysign: FloatOps);
comparison!(eq ==, ne !=, lt <, le <=, gt >, ge >=);

fn fma<T: FloatOps>(a: u64, b: u64, c: u64) -> u64 {
    T::get(a).fma(T::get(b), T::get(c)).put()
}

#[cfg(test)]
mod tests;
