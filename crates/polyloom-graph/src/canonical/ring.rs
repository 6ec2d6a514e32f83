//! Laws over the real numbers that need no search: sums and products are flat, with one coefficient for each term, quotients
//! are products with reciprocals, and every function that others express is written with them.
//!
//! A law here holds wherever both sides are defined and goes in one direction, so that terms have one form whatever they came
//! from. Laws of which neither side is the better one are in [`crate::equivalence`].

use super::elementwise::broadcast_shape;
use super::fold::{apply_real, snap};
use super::reduction;
use super::term::{Term, TermHead, TermId, TermStore, integer, number_term, real};
use super::view::{broadcast, reshape, without_repetition};
use crate::attribute::Attributes;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use std::f64::consts::{LN_2, LN_10};

/// The most terms of a flat sum or product. Longer ones stay as they were written, so that a chain of sums costs no square of
/// its length.
const MOST_OPERANDS: usize = 64;

/// The factor before a term.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Coefficient {
    Real(f64),
    /// An integer, modulo the size of its type.
    Integer(i128),
}

impl Coefficient {
    pub(crate) fn of(dtype: Scalar, value: i8) -> Coefficient {
        if dtype.is_float() { Coefficient::Real(value.into()) } else { Coefficient::Integer(value.into()) }
    }

    fn add(self, other: Coefficient) -> Coefficient {
        match (self, other) {
            (Coefficient::Real(a), Coefficient::Real(b)) => Coefficient::Real(snap(a + b)),
            (Coefficient::Integer(a), Coefficient::Integer(b)) => Coefficient::Integer(a.wrapping_add(b)),
            (other, _) => other,
        }
    }

    fn multiply(self, other: Coefficient, dtype: Scalar) -> Coefficient {
        match (self, other) {
            (Coefficient::Real(a), Coefficient::Real(b)) => Coefficient::Real(snap(a * b)),
            (Coefficient::Integer(a), Coefficient::Integer(b)) => {
                Coefficient::Integer(wrapped(a.wrapping_mul(b), dtype))
            }
            (other, _) => other,
        }
    }

    fn is(self, number: i8) -> bool {
        match self {
            Coefficient::Real(value) => value == f64::from(number),
            Coefficient::Integer(value) => value == number.into(),
        }
    }

    fn is_finite(self) -> bool {
        !matches!(self, Coefficient::Real(value) if !value.is_finite())
    }
}

/// Returns an integer modulo the size of a type, as a value of it.
fn wrapped(value: i128, dtype: Scalar) -> i128 {
    let modulus = 1i128 << dtype.bits();
    let rest = value.rem_euclid(modulus);
    if dtype.is_signed_int() && rest >= modulus / 2 { rest - modulus } else { rest }
}

pub(crate) fn coefficient(store: &impl TermStore, id: TermId) -> Option<Coefficient> {
    real(store, id).map(Coefficient::Real).or_else(|| integer(store, id).map(Coefficient::Integer))
}

pub(crate) fn push_coefficient<S: TermStore>(store: &mut S, dtype: Scalar, value: Coefficient) -> TermId {
    let term = match value {
        Coefficient::Real(value) => number_term(store, dtype, value),
        Coefficient::Integer(value) => {
            let bits = (value as u64) & (u64::MAX >> (64 - dtype.bits()));
            Term {
                head: TermHead::Constant(bits),
                operands: Vec::new(),
                ty: TensorType { dtype, shape: Shape::SCALAR },
            }
        }
    };
    store.push(term)
}

/// Adds a constant of a float type.
pub(crate) fn number<S: TermStore>(store: &mut S, dtype: Scalar, value: f64) -> TermId {
    push_coefficient(store, dtype, Coefficient::Real(value))
}

/// Adds an op of operands that broadcast, with no further rules.
pub(crate) fn push_op<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    mut operands: Vec<TermId>,
    dtype: Scalar,
) -> Option<TermId> {
    let shape = broadcast_shape(store, &operands)?;
    if op.is_commutative() {
        operands.sort_by(|&a, &b| store.compare(a, b));
    }
    Some(store.push(Term { head: TermHead::Op(op, Attributes::default()), operands, ty: TensorType { dtype, shape } }))
}

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
    let mut all = Vec::new();
    for &operand in operands {
        match store.op_term(operand, op) {
            Some((_, inner)) if inner.len() + all.len() < MOST_OPERANDS => all.extend(inner),
            _ => all.push(operand),
        }
    }
    all.sort_by(|&a, &b| store.compare(a, b));
    if op.is_idempotent() {
        all.dedup();
    }
    if all.len() == 1 {
        return Some(all[0]);
    }
    push_op(store, op, all, dtype)
}

/// Splits a term into its coefficient and what it is multiplied with.
fn split<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> (Coefficient, TermId) {
    let one = Coefficient::of(dtype, 1);
    let Some((_, mut factors)) = store.op_term(x, TensorOp::Multiply) else { return (one, x) };
    let Some((place, value)) =
        factors.iter().enumerate().find_map(|(place, &id)| Some((place, coefficient(store, id)?)))
    else {
        return (one, x);
    };
    factors.remove(place);
    match &factors[..] {
        [] => (one, x),
        &[only] => (value, only),
        _ => push_op(store, TensorOp::Multiply, factors, dtype).map_or((one, x), |rest| (value, rest)),
    }
}

/// Adds a term times its coefficient.
fn scaled<S: TermStore>(store: &mut S, value: Coefficient, x: TermId, dtype: Scalar) -> Option<TermId> {
    if value.is(1) {
        return Some(x);
    }
    let mut factors = match store.op_term(x, TensorOp::Multiply) {
        Some((_, factors)) => factors,
        None => vec![x],
    };
    factors.push(push_coefficient(store, dtype, value));
    push_op(store, TensorOp::Multiply, factors, dtype)
}

/// Adds a sum of terms with coefficients: like terms are one.
pub(crate) fn sum<S: TermStore>(store: &mut S, terms: &[(Coefficient, TermId)], dtype: Scalar) -> Option<TermId> {
    let ids: Vec<TermId> = terms.iter().map(|&(_, id)| id).collect();
    let shape = broadcast_shape(store, &ids)?;
    let mut constant = Coefficient::of(dtype, 0);
    let mut flat: Vec<(Coefficient, TermId)> = Vec::new();
    for &(factor, term) in terms {
        let term = without_repetition(store, term);
        let parts = match store.op_term(term, TensorOp::Add) {
            Some((_, parts)) if parts.len() + flat.len() < MOST_OPERANDS => parts,
            _ => vec![term],
        };
        for part in parts {
            let part = without_repetition(store, part);
            if let Some(value) = coefficient(store, part) {
                constant = constant.add(factor.multiply(value, dtype));
                continue;
            }
            let (own, rest) = split(store, part, dtype);
            let rest = without_repetition(store, rest);
            flat.push((factor.multiply(own, dtype), rest));
        }
    }
    flat.sort_by(|a, b| store.compare(a.1, b.1));
    let mut merged: Vec<(Coefficient, TermId)> = Vec::with_capacity(flat.len());
    for (factor, term) in flat {
        match merged.last_mut() {
            Some((own, last)) if *last == term => *own = own.add(factor),
            _ => merged.push((factor, term)),
        }
    }
    if let Coefficient::Integer(_) = constant {
        for (factor, _) in &mut merged {
            if let Coefficient::Integer(value) = factor {
                *value = wrapped(*value, dtype);
            }
        }
        if let Coefficient::Integer(value) = &mut constant {
            *value = wrapped(*value, dtype);
        }
    }
    merged.retain(|(factor, _)| !factor.is(0));
    if !constant.is_finite() || merged.iter().any(|(factor, _)| !factor.is_finite()) {
        return unreduced_sum(store, terms, dtype);
    }
    let mut operands = Vec::with_capacity(merged.len() + 1);
    for (factor, term) in merged {
        operands.push(scaled(store, factor, term, dtype)?);
    }
    if !constant.is(0) || operands.is_empty() {
        operands.push(push_coefficient(store, dtype, constant));
    }
    let result = match &operands[..] {
        &[only] => only,
        _ => push_op(store, TensorOp::Add, operands, dtype)?,
    };
    Some(broadcast(store, result, shape))
}

/// Adds a sum as it is, because its coefficients are no numbers.
fn unreduced_sum<S: TermStore>(store: &mut S, terms: &[(Coefficient, TermId)], dtype: Scalar) -> Option<TermId> {
    let mut operands = Vec::with_capacity(terms.len());
    for &(factor, term) in terms {
        if factor.is(1) {
            operands.push(term);
        } else {
            let factor = push_coefficient(store, dtype, factor);
            operands.push(push_op(store, TensorOp::Multiply, vec![factor, term], dtype)?);
        }
    }
    if let &[only] = &operands[..] {
        return Some(only);
    }
    push_op(store, TensorOp::Add, operands, dtype)
}

/// Adds a product: one coefficient, one exponential, and the other factors.
pub(crate) fn product<S: TermStore>(store: &mut S, factors: &[TermId], dtype: Scalar) -> Option<TermId> {
    let shape = broadcast_shape(store, factors)?;
    let mut value = Coefficient::of(dtype, 1);
    let mut flat: Vec<TermId> = Vec::new();
    let mut exponents: Vec<(Coefficient, TermId)> = Vec::new();
    for &factor in factors {
        let factor = without_repetition(store, factor);
        let parts = match store.op_term(factor, TensorOp::Multiply) {
            Some((_, parts)) if parts.len() + flat.len() < MOST_OPERANDS => parts,
            _ => vec![factor],
        };
        for part in parts {
            let part = without_repetition(store, part);
            if let Some(own) = coefficient(store, part) {
                value = value.multiply(own, dtype);
            } else if let Some((_, exponent)) = store.op_term(part, TensorOp::Exp) {
                exponents.push((Coefficient::of(dtype, 1), exponent[0]));
            } else {
                flat.push(part);
            }
        }
    }
    if !value.is_finite() {
        return push_op(store, TensorOp::Multiply, factors.to_vec(), dtype);
    }
    if value.is(0) {
        let zero = push_coefficient(store, dtype, value);
        return Some(broadcast(store, zero, shape));
    }
    if !exponents.is_empty() {
        let exponent = sum(store, &exponents, dtype)?;
        let exponential = exp(store, exponent, dtype)?;
        match real(store, without_repetition(store, exponential)) {
            Some(own) => value = value.multiply(Coefficient::Real(own), dtype),
            None => flat.push(without_repetition(store, exponential)),
        }
    }
    let result = match &flat[..] {
        [] => push_coefficient(store, dtype, value),
        // A coefficient goes into a sum.
        &[only] if !value.is(1) && store.has_op(only, TensorOp::Add) => sum(store, &[(value, only)], dtype)?,
        &[only] => scaled(store, value, only, dtype)?,
        _ => {
            if !value.is(1) {
                flat.push(push_coefficient(store, dtype, value));
            }
            push_op(store, TensorOp::Multiply, flat, dtype)?
        }
    };
    Some(broadcast(store, result, shape))
}

/// Adds an exponential.
pub(crate) fn exp<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let bare = without_repetition(store, x);
    if let Some(value) = real(store, bare) {
        let value = number(store, dtype, apply_real(TensorOp::Exp, value));
        return Some(broadcast(store, value, store.ty(x).shape.clone()));
    }
    push_op(store, TensorOp::Exp, vec![x], dtype)
}

/// Adds a reciprocal, as a quotient of 1.
pub(crate) fn reciprocal<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    if let Some(inner) = reciprocal_of(store, x) {
        return Some(inner);
    }
    if let Some(value) = real(store, x).filter(|&value| value != 0.0) {
        return Some(number(store, dtype, snap(1.0 / value)));
    }
    if let Some((_, factors)) = store.op_term(x, TensorOp::Multiply)
        && store.spend()
    {
        let reciprocals: Option<Vec<TermId>> = factors.iter().map(|&factor| reciprocal(store, factor, dtype)).collect();
        return product(store, &reciprocals?, dtype);
    }
    if let Some((_, exponent)) = store.op_term(x, TensorOp::Exp) {
        let negated = sum(store, &[(Coefficient::Real(-1.0), exponent[0])], dtype)?;
        return exp(store, negated, dtype);
    }
    let one = number(store, dtype, 1.0);
    push_op(store, TensorOp::Divide, vec![one, x], dtype)
}

/// Returns what a term is the reciprocal of.
pub(crate) fn reciprocal_of<S: TermStore>(store: &S, x: TermId) -> Option<TermId> {
    let (_, operands) = store.op_term(x, TensorOp::Divide)?;
    (real(store, operands[0]) == Some(1.0)).then_some(operands[1])
}

/// Adds a natural logarithm. Exponentials and positive numbers leave it, which changes nothing about where it is defined.
pub(crate) fn log<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let factors = match store.op_term(x, TensorOp::Multiply) {
        Some((_, factors)) => factors,
        None => vec![x],
    };
    let one = Coefficient::Real(1.0);
    let mut terms: Vec<(Coefficient, TermId)> = Vec::new();
    let mut rest: Vec<TermId> = Vec::new();
    for factor in factors {
        if let Some((_, exponent)) = store.op_term(factor, TensorOp::Exp) {
            terms.push((one, exponent[0]));
        } else if let Some(value) = real(store, factor).filter(|&value| value > 0.0) {
            let value = number(store, dtype, snap(apply_real(TensorOp::Log, value)));
            terms.push((one, value));
        } else {
            rest.push(factor);
        }
    }
    if let &[only] = &rest[..]
        && store.spend()
        && let Some(inner) = reciprocal_of(store, only)
    {
        let logarithm = log(store, inner, dtype)?;
        terms.push((Coefficient::Real(-1.0), logarithm));
    } else if !rest.is_empty() {
        let inside = if rest.len() == 1 { rest[0] } else { push_op(store, TensorOp::Multiply, rest, dtype)? };
        terms.push((one, push_op(store, TensorOp::Log, vec![inside], dtype)?));
    }
    if let &[(factor, only)] = &terms[..]
        && factor == one
        && store.has_op(only, TensorOp::Log)
    {
        return Some(only);
    }
    let result = sum(store, &terms, dtype)?;
    Some(broadcast(store, result, store.ty(x).shape.clone()))
}

pub(crate) fn sqrt<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    if let Some((_, exponent)) = store.op_term(x, TensorOp::Exp) {
        let half = sum(store, &[(Coefficient::Real(0.5), exponent[0])], dtype)?;
        return exp(store, half, dtype);
    }
    if let Some(inner) = reciprocal_of(store, x)
        && store.spend()
    {
        let root = sqrt(store, inner, dtype)?;
        return reciprocal(store, root, dtype);
    }
    if let Some(value) = real(store, x).filter(|&value| value >= 0.0) {
        return Some(number(store, dtype, value.sqrt()));
    }
    push_op(store, TensorOp::Sqrt, vec![x], dtype)
}

/// Returns the negative of a term whose coefficient, or that of its first term, is below 0.
fn positive_form<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let mut first = x;
    if let Some((_, terms)) = store.op_term(x, TensorOp::Add) {
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
            push_op(store, op, vec![x], dtype)
        }
        (TensorOp::Cos, _) => {
            let x = positive_form(store, x, dtype).unwrap_or(x);
            push_op(store, op, vec![x], dtype)
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
                let value = push_op(store, op, vec![positive], dtype)?;
                sum(store, &[(Coefficient::Real(-1.0), value)], dtype)
            }
            None => push_op(store, op, vec![x], dtype),
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
        return Some(broadcast(store, one, store.ty(base).shape.clone()));
    }
    if exponent <= 8.0 && exponent.fract() == 0.0 {
        return product(store, &vec![base; exponent as usize], dtype);
    }
    if exponent == 0.5 { sqrt(store, base, dtype) } else { None }
}

/// Adds a reduction by the laws over the reals: sums are linear, what does not change along the axes leaves them, and maxima go
/// through functions that grow. Returns `None` if there is no law for it.
pub(super) fn reduce<S: TermStore>(store: &mut S, op: TensorOp, x: TermId, axes: &[usize]) -> Option<TermId> {
    let TensorType { dtype, shape } = store.ty(x).clone();
    if !dtype.is_float() || shape.0.contains(&Dim::Static(0)) {
        return None;
    }
    let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape.0[axis].clone());
    let kept = Shape(kept.collect());
    let inner = without_repetition(store, x);
    let result = match op {
        TensorOp::Sum => sum_along(store, inner, &shape, axes, dtype)?,
        TensorOp::Max | TensorOp::Min => extremum_along(store, op, inner, &shape, axes, dtype)?,
        _ => return None,
    };
    Some(broadcast(store, result, kept))
}

/// Adds a reshape that inserts or drops axes of extent 1 before an elementwise op, so that what is inside of it meets what it
/// is combined with. Returns `None` for another term, or if an operand has not all its axes.
pub(super) fn reshape_operands<S: TermStore>(store: &mut S, x: TermId, shape: &Shape) -> Option<TermId> {
    let TensorType { dtype, shape: own } = store.ty(x).clone();
    const OPS: [TensorOp; 6] =
        [TensorOp::Multiply, TensorOp::Add, TensorOp::Exp, TensorOp::Divide, TensorOp::Log, TensorOp::Sqrt];
    let op = OPS.into_iter().find(|&op| store.has_op(x, op))?;
    let (_, operands) = store.op_term(x, op)?;
    let has_all_axes = |id: &TermId| store.ty(*id).shape == own || store.ty(*id).shape.rank() == 0;
    if !operands.iter().all(has_all_axes) {
        return None;
    }
    let reshaped: Vec<TermId> = operands
        .into_iter()
        .map(
            |operand| {
                if store.ty(operand).shape.rank() == 0 { operand } else { reshape(store, operand, shape.clone()) }
            },
        )
        .collect();
    let one = Coefficient::of(dtype, 1);
    match op {
        TensorOp::Multiply => product(store, &reshaped, dtype),
        TensorOp::Add => sum(store, &reshaped.into_iter().map(|term| (one, term)).collect::<Vec<_>>(), dtype),
        TensorOp::Exp => exp(store, reshaped[0], dtype),
        TensorOp::Log => log(store, reshaped[0], dtype),
        TensorOp::Sqrt => sqrt(store, reshaped[0], dtype),
        _ if real(store, reshaped[0]) == Some(1.0) => reciprocal(store, reshaped[1], dtype),
        _ => None,
    }
}

/// The places of axes in an operand that broadcasts to a shape: those along which it changes, and those of extent 1.
struct OperandAxes {
    changing: Vec<usize>,
    all: Vec<usize>,
    repeats: Vec<Dim>,
}

fn operand_axes(store: &impl TermStore, x: TermId, shape: &Shape, axes: &[usize]) -> OperandAxes {
    let own = &store.ty(x).shape;
    let n_new = shape.rank() - own.rank();
    let mut found = OperandAxes { changing: Vec::new(), all: Vec::new(), repeats: Vec::new() };
    for &axis in axes {
        match axis.checked_sub(n_new) {
            Some(own_axis) if own.0[own_axis] == shape.0[axis] => {
                found.all.push(own_axis);
                if shape.0[axis] != Dim::Static(1) {
                    found.changing.push(own_axis);
                }
            }
            Some(own_axis) => {
                found.all.push(own_axis);
                found.repeats.push(shape.0[axis].clone());
            }
            None => found.repeats.push(shape.0[axis].clone()),
        }
    }
    found
}

/// Drops axes of extent 1.
fn drop_axes<S: TermStore>(store: &mut S, x: TermId, axes: &[usize]) -> TermId {
    let own = &store.ty(x).shape;
    let kept = own.0.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| dim.clone());
    let shape = Shape(kept.collect());
    reshape(store, x, shape)
}

/// Adds the sum along axes of a term that broadcasts to a shape.
fn sum_along<S: TermStore>(store: &mut S, x: TermId, shape: &Shape, axes: &[usize], dtype: Scalar) -> Option<TermId> {
    let x = without_repetition(store, x);
    let places = operand_axes(store, x, shape, axes);
    let own = store.ty(x).shape.clone();
    if !store.spend() {
        let whole = if own == *shape { x } else { broadcast(store, x, shape.clone()) };
        return Some(reduction::push(store, TensorOp::Sum, whole, axes, dtype));
    }
    if !places.repeats.is_empty() {
        // So many times the sum along the axes that it has.
        let count = Shape(places.repeats).n_elements()?;
        let inner = if places.changing.is_empty() {
            drop_axes(store, x, &places.all)
        } else {
            let sum = sum_along(store, x, &own, &places.all, dtype)?;
            let dropped = (0..own.rank()).filter(|axis| !places.all.contains(axis)).map(|axis| own.0[axis].clone());
            broadcast(store, sum, Shape(dropped.collect()))
        };
        return sum(store, &[(Coefficient::Real(count as f64), inner)], dtype);
    }
    if let Some((_, terms)) = store.op_term(x, TensorOp::Add) {
        let sums: Option<Vec<TermId>> =
            terms.into_iter().map(|term| sum_along(store, term, &own, &places.all, dtype)).collect();
        let sums: Vec<_> = sums?.into_iter().map(|term| (Coefficient::Real(1.0), term)).collect();
        return sum(store, &sums, dtype);
    }
    let factors = match store.op_term(x, TensorOp::Multiply) {
        Some((_, factors)) => factors,
        None => vec![x],
    };
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for factor in factors {
        if let Some((_, exponent)) = store.op_term(factor, TensorOp::Exp) {
            let (constant, changing) = parted(store, exponent[0], &own, &places.all);
            if !constant.is_empty() && !changing.is_empty() {
                let one = Coefficient::Real(1.0);
                let with_one = |terms: Vec<TermId>| terms.into_iter().map(|term| (one, term)).collect::<Vec<_>>();
                let constant = sum(store, &with_one(constant), dtype)?;
                let constant = exp(store, constant, dtype)?;
                let changing = sum(store, &with_one(changing), dtype)?;
                outside.push(constant);
                inside.push(exp(store, changing, dtype)?);
                continue;
            }
        }
        let is_constant = operand_axes(store, factor, &own, &places.all).changing.is_empty();
        if is_constant { outside.push(factor) } else { inside.push(factor) }
    }
    if inside.is_empty() {
        // Nothing changes along an axis that the term has: all of its extents along it are 1.
        return Some(drop_axes(store, x, &places.all));
    }
    if outside.is_empty() {
        return Some(reduction::push_real(store, TensorOp::Sum, x, &places.all, dtype));
    }
    let rest = product(store, &inside, dtype)?;
    let sum = sum_along(store, rest, &own, &places.all, dtype)?;
    let mut factors = vec![sum];
    for factor in outside {
        let of_factor = operand_axes(store, factor, &own, &places.all).all;
        factors.push(drop_axes(store, factor, &of_factor));
    }
    product(store, &factors, dtype)
}

/// Parts the terms of a sum into those that do not change along axes and those that do.
fn parted(store: &impl TermStore, x: TermId, shape: &Shape, axes: &[usize]) -> (Vec<TermId>, Vec<TermId>) {
    let terms = match store.op_term(x, TensorOp::Add) {
        Some((_, terms)) => terms,
        None => vec![x],
    };
    terms.into_iter().partition(|&term| operand_axes(store, term, shape, axes).changing.is_empty())
}

/// Adds the maximum or minimum along axes of a term that broadcasts to a shape.
fn extremum_along<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    x: TermId,
    shape: &Shape,
    axes: &[usize],
    dtype: Scalar,
) -> Option<TermId> {
    let x = without_repetition(store, x);
    let places = operand_axes(store, x, shape, axes);
    if places.changing.is_empty() {
        return Some(drop_axes(store, x, &places.all));
    }
    let own = store.ty(x).shape.clone();
    if !store.spend() {
        let whole = if own == *shape { x } else { broadcast(store, x, shape.clone()) };
        return Some(reduction::push(store, op, whole, axes, dtype));
    }
    if let Some((_, exponent)) = store.op_term(x, TensorOp::Exp) {
        let extremum = extremum_along(store, op, exponent[0], &own, &places.all, dtype)?;
        return exp(store, extremum, dtype);
    }
    if let (Coefficient::Real(value), rest) = split(store, x, dtype)
        && rest != x
    {
        let other = if op == TensorOp::Max { TensorOp::Min } else { TensorOp::Max };
        let extremum = extremum_along(store, if value < 0.0 { other } else { op }, rest, &own, &places.all, dtype)?;
        return sum(store, &[(Coefficient::Real(value), extremum)], dtype);
    }
    let (constant, changing) = parted(store, x, &own, &places.all);
    if constant.is_empty() {
        return Some(reduction::push_real(store, op, x, &places.all, dtype));
    }
    let one = Coefficient::Real(1.0);
    let changing: Vec<_> = changing.into_iter().map(|term| (one, term)).collect();
    let changing = sum(store, &changing, dtype)?;
    let mut terms = vec![(one, extremum_along(store, op, changing, &own, &places.all, dtype)?)];
    for term in constant {
        let of_term = operand_axes(store, term, &own, &places.all).all;
        terms.push((one, drop_axes(store, term, &of_term)));
    }
    sum(store, &terms, dtype)
}
