//! Elementwise ops over the real numbers: each function is written by those that express it.

use super::coefficient::{Coefficient, coefficient, number};
use super::ring::{MOST_OPERANDS, exp, log, product, push_op, reciprocal, split, sqrt, sum};
use super::term::{TermId, TermOperands, TermStore, real, sort_operands};
use super::view::broadcast_to;
use crate::op::TensorOp;
use polyloom_ir::Scalar;
use smallvec::smallvec;
use std::f64::consts::{LN_2, LN_10};

/// Adds an elementwise op by the laws over the reals. Returns `None` if there is none for it.
pub(super) fn make<S: TermStore>(store: &mut S, op: TensorOp, operands: &[TermId], dtype: Scalar) -> Option<TermId> {
    if dtype != Scalar::Bool {
        let one = Coefficient::of(dtype, 1);
        let minus_one = Coefficient::of(dtype, -1);
        match (op, operands) {
            (TensorOp::Add, &[a, b]) => return sum(store, &[(one, a), (one, b)], dtype),
            (TensorOp::Subtract, &[a, b]) => return sum(store, &[(one, a), (minus_one, b)], dtype),
            (TensorOp::Negative, &[x]) => return sum(store, &[(minus_one, x)], dtype),
            (TensorOp::Multiply, &[a, b]) => return product(store, &[a, b], dtype),
            _ => {}
        }
    }
    if op.is_associative() {
        return flat(store, op, operands, dtype);
    }
    if !dtype.is_float() {
        return None;
    }
    function(store, op, operands, dtype)
}

/// Adds an associative op with all the operands of operands that are the same op.
fn flat<S: TermStore>(store: &mut S, op: TensorOp, operands: &[TermId], dtype: Scalar) -> Option<TermId> {
    let mut all = TermOperands::new();
    for &operand in operands {
        match store.operands_of(operand, op) {
            Some(inner) if inner.len() + all.len() < MOST_OPERANDS => all.extend(inner),
            _ => all.push(operand),
        }
    }
    sort_operands(store, &mut all);
    if op.is_idempotent() {
        all.dedup();
    }
    if all.len() == 1 {
        return Some(all[0]);
    }
    push_op(store, op, all, dtype)
}

fn function<S: TermStore>(store: &mut S, op: TensorOp, operands: &[TermId], dtype: Scalar) -> Option<TermId> {
    let real_one = Coefficient::Real(1.0);
    let &x = operands.first()?;
    match (op, operands) {
        (TensorOp::Divide, &[a, b]) => {
            let b = reciprocal(store, b, dtype)?;
            if real(store, a) == Some(1.0) {
                return Some(b);
            }
            product(store, &[a, b], dtype)
        }
        (TensorOp::Exp, _) => exp(store, x, dtype),
        (TensorOp::Exp2, _) => {
            let scaled = sum(store, &[(Coefficient::Real(LN_2), x)], dtype)?;
            exp(store, scaled, dtype)
        }
        (TensorOp::Expm1, _) => {
            let exponential = exp(store, x, dtype)?;
            let minus_one = number(store, dtype, -1.0);
            sum(store, &[(real_one, exponential), (real_one, minus_one)], dtype)
        }
        (TensorOp::Log, _) => log(store, x, dtype),
        (TensorOp::Log1p, _) => {
            let one = number(store, dtype, 1.0);
            let shifted = sum(store, &[(real_one, x), (real_one, one)], dtype)?;
            log(store, shifted, dtype)
        }
        (TensorOp::Log2, _) => {
            let logarithm = log(store, x, dtype)?;
            sum(store, &[(Coefficient::Real(1.0 / LN_2), logarithm)], dtype)
        }
        (TensorOp::Log10, _) => {
            let logarithm = log(store, x, dtype)?;
            sum(store, &[(Coefficient::Real(1.0 / LN_10), logarithm)], dtype)
        }
        (TensorOp::Sqrt, _) => sqrt(store, x, dtype),
        (TensorOp::Rsqrt, _) => {
            let root = sqrt(store, x, dtype)?;
            reciprocal(store, root, dtype)
        }
        (TensorOp::Hypot, &[a, b]) => {
            let squares = [product(store, &[a, a], dtype)?, product(store, &[b, b], dtype)?];
            let inside = sum(store, &squares.map(|square| (real_one, square)), dtype)?;
            sqrt(store, inside, dtype)
        }
        (TensorOp::Power, &[base, exponent]) => power(store, base, real(store, exponent)?, dtype),
        (TensorOp::Tan, _) => {
            let sine = function(store, TensorOp::Sin, &[x], dtype)?;
            let cosine = function(store, TensorOp::Cos, &[x], dtype)?;
            let reciprocal = reciprocal(store, cosine, dtype)?;
            product(store, &[sine, reciprocal], dtype)
        }
        (TensorOp::Sinh | TensorOp::Cosh, _) => {
            let negated = sum(store, &[(Coefficient::Real(-1.0), x)], dtype)?;
            let (up, down) = (exp(store, x, dtype)?, exp(store, negated, dtype)?);
            let half = Coefficient::Real(0.5);
            let other = Coefficient::Real(if op == TensorOp::Sinh { -0.5 } else { 0.5 });
            sum(store, &[(half, up), (other, down)], dtype)
        }
        (TensorOp::Erfc, _) => {
            let one = number(store, dtype, 1.0);
            let error_function = function(store, TensorOp::Erf, &[x], dtype)?;
            sum(store, &[(real_one, one), (Coefficient::Real(-1.0), error_function)], dtype)
        }
        (TensorOp::Absolute, _) => {
            if [TensorOp::Exp, TensorOp::Sqrt, TensorOp::Absolute].into_iter().any(|op| store.has_op(x, op)) {
                return Some(x);
            }
            if let (Coefficient::Real(value), rest) = split(store, x, dtype)
                && rest != x
                && store.spend()
            {
                let magnitude = function(store, TensorOp::Absolute, &[rest], dtype)?;
                return sum(store, &[(Coefficient::Real(value.abs()), magnitude)], dtype);
            }
            let x = positive_form(store, x, dtype).unwrap_or(x);
            push_op(store, op, smallvec![x], dtype)
        }
        (TensorOp::Cos, _) => {
            let x = positive_form(store, x, dtype).unwrap_or(x);
            push_op(store, op, smallvec![x], dtype)
        }
        // Odd functions.
        (
            TensorOp::Sin
            | TensorOp::Tanh
            | TensorOp::Erf
            | TensorOp::Asin
            | TensorOp::Atan
            | TensorOp::Asinh
            | TensorOp::Atanh
            | TensorOp::Cbrt,
            _,
        ) => match positive_form(store, x, dtype) {
            Some(positive) => {
                let value = push_op(store, op, smallvec![positive], dtype)?;
                sum(store, &[(Coefficient::Real(-1.0), value)], dtype)
            }
            None => push_op(store, op, smallvec![x], dtype),
        },
        _ => None,
    }
}

fn power<S: TermStore>(store: &mut S, base: TermId, exponent: f64, dtype: Scalar) -> Option<TermId> {
    if exponent < 0.0 {
        let positive = power(store, base, -exponent, dtype)?;
        return reciprocal(store, positive, dtype);
    }
    if exponent == 0.0 {
        let one = number(store, dtype, 1.0);
        return Some(broadcast_to(store, one, store.type_id(base)));
    }
    if exponent <= 8.0 && exponent.fract() == 0.0 {
        return product(store, &vec![base; exponent as usize], dtype);
    }
    if exponent == 0.5 { sqrt(store, base, dtype) } else { None }
}

/// Returns the negative of a term whose coefficient, or that of its first term, is below 0.
fn positive_form<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let mut first = x;
    if let Some(terms) = store.operands_of(x, TensorOp::Add) {
        // Terms are ordered by what they are with their coefficients, which differ between a sum and its negative: the least of what is
        // without them decides.
        let bare: Vec<(TermId, TermId)> = terms.iter().map(|&term| (split(store, term, dtype).1, term)).collect();
        first = bare.into_iter().min_by(|a, b| store.compare(a.0, b.0))?.1;
        if coefficient(store, first).is_some() {
            return None;
        }
    }
    let (value, _) = split(store, first, dtype);
    if !matches!(value, Coefficient::Real(value) if value < 0.0) {
        return None;
    }
    sum(store, &[(Coefficient::Real(-1.0), x)], dtype)
}
