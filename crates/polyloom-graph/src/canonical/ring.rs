//! Laws over the real numbers that need no search: sums and products are flat, with one coefficient for each term, quotients
//! are products with reciprocals, and every function that others express is written with them.
//!
//! A law here holds wherever both sides are defined and goes in one direction, so that terms have one form whatever they came
//! from. Laws of which neither side is the better one are in [`crate::equivalence`].

use super::coefficient::{Coefficient, coefficient, number, push_coefficient, wrapped};
use super::fold::{apply_real, snap};
use super::term::{TermId, TermOperands, TermStore, broadcast_type, push_term, real, sort_operands};
use super::types::TypeId;
use super::view::{broadcast_to, reshape, without_repetition};
use crate::attribute::Attributes;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::Shape;
use polyloom_ir::Scalar;
use smallvec::{SmallVec, smallvec};

/// The most terms of a flat sum or product. Longer ones stay as they were written, so that a chain of sums costs no square of
/// its length.
pub(super) const MOST_OPERANDS: usize = 64;

/// Adds an op of operands that broadcast, with no further rules.
pub(crate) fn push_op<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    mut operands: TermOperands,
    dtype: Scalar,
) -> Option<TermId> {
    let ty = broadcast_type(store, &operands, dtype)?;
    if op.is_commutative() {
        sort_operands(store, &mut operands);
    }
    Some(push_term(store, op, operands, Attributes::default(), ty))
}

/// Splits a term into its coefficient and what it is multiplied with.
pub(super) fn split<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> (Coefficient, TermId) {
    let one = Coefficient::of(dtype, 1);
    let Some(mut factors) = store.operands_of(x, TensorOp::Multiply) else { return (one, x) };
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
    let mut factors = match store.operands_of(x, TensorOp::Multiply) {
        Some(factors) => factors,
        None => smallvec![x],
    };
    factors.push(push_coefficient(store, dtype, value));
    push_op(store, TensorOp::Multiply, factors, dtype)
}

/// A term of a sum: a coefficient, what it is before, and both together where there is such a term.
struct SumTerm {
    factor: Coefficient,
    rest: TermId,
    whole: Option<TermId>,
}

/// Adds a sum of terms with coefficients: like terms are one.
pub(crate) fn sum<S: TermStore>(store: &mut S, terms: &[(Coefficient, TermId)], dtype: Scalar) -> Option<TermId> {
    let types: SmallVec<[TypeId; 4]> = terms.iter().map(|&(_, id)| store.type_id(id)).collect();
    let ty = store.types_mut().broadcast(types, dtype)?;
    let mut constant = Coefficient::of(dtype, 0);
    let mut flat: SmallVec<[SumTerm; 8]> = SmallVec::new();
    for &(factor, term) in terms {
        let term = without_repetition(store, term);
        let parts = match store.operands_of(term, TensorOp::Add) {
            Some(parts) if parts.len() + flat.len() < MOST_OPERANDS => parts,
            _ => smallvec![term],
        };
        for part in parts {
            let part = without_repetition(store, part);
            if let Some(value) = coefficient(store, part) {
                constant = constant.add(factor.multiply(value, dtype));
                continue;
            }
            let (own, inner) = split(store, part, dtype);
            let rest = without_repetition(store, inner);
            let factor = factor.multiply(own, dtype);
            flat.push(SumTerm { factor, rest, whole: (factor == own && rest == inner).then_some(part) });
        }
    }
    flat.sort_by(|a, b| store.compare(a.rest, b.rest));
    flat.dedup_by(|next, kept| {
        let is_like = next.rest == kept.rest;
        if is_like {
            kept.factor = kept.factor.add(next.factor);
            kept.whole = None;
        }
        is_like
    });
    if let Coefficient::Integer(value) = &mut constant {
        for term in &mut flat {
            if let Coefficient::Integer(value) = &mut term.factor {
                *value = wrapped(*value, dtype);
            }
        }
        *value = wrapped(*value, dtype);
    }
    flat.retain(|term| !term.factor.is(0));
    if !constant.is_finite() || flat.iter().any(|term| !term.factor.is_finite()) {
        return unreduced_sum(store, terms, dtype);
    }
    let mut operands = TermOperands::with_capacity(flat.len() + 1);
    for SumTerm { factor, rest, whole } in flat {
        operands.push(match whole {
            Some(whole) => whole,
            None => scaled(store, factor, rest, dtype)?,
        });
    }
    if !constant.is(0) || operands.is_empty() {
        operands.push(push_coefficient(store, dtype, constant));
    }
    let result = match &operands[..] {
        &[only] => only,
        _ => push_op(store, TensorOp::Add, operands, dtype)?,
    };
    Some(broadcast_to(store, result, ty))
}

/// Adds a sum as it is, because its coefficients are no numbers.
fn unreduced_sum<S: TermStore>(store: &mut S, terms: &[(Coefficient, TermId)], dtype: Scalar) -> Option<TermId> {
    let mut operands = TermOperands::with_capacity(terms.len());
    for &(factor, term) in terms {
        if factor.is(1) {
            operands.push(term);
        } else {
            let factor = push_coefficient(store, dtype, factor);
            operands.push(push_op(store, TensorOp::Multiply, smallvec![factor, term], dtype)?);
        }
    }
    if let &[only] = &operands[..] {
        return Some(only);
    }
    push_op(store, TensorOp::Add, operands, dtype)
}

/// Adds a product: one coefficient, one exponential, and the other factors.
pub(crate) fn product<S: TermStore>(store: &mut S, factors: &[TermId], dtype: Scalar) -> Option<TermId> {
    let ty = broadcast_type(store, factors, dtype)?;
    let mut value = Coefficient::of(dtype, 1);
    let mut flat = TermOperands::new();
    let mut exponents: SmallVec<[(Coefficient, TermId); 4]> = SmallVec::new();
    for &factor in factors {
        let factor = without_repetition(store, factor);
        let parts = match store.operands_of(factor, TensorOp::Multiply) {
            Some(parts) if parts.len() + flat.len() < MOST_OPERANDS => parts,
            _ => smallvec![factor],
        };
        for part in parts {
            let part = without_repetition(store, part);
            if let Some(own) = coefficient(store, part) {
                value = value.multiply(own, dtype);
            } else if let Some(exponent) = store.operands_of(part, TensorOp::Exp) {
                exponents.push((Coefficient::of(dtype, 1), exponent[0]));
            } else {
                flat.push(part);
            }
        }
    }
    if !value.is_finite() {
        return push_op(store, TensorOp::Multiply, factors.into(), dtype);
    }
    if value.is(0) {
        let zero = push_coefficient(store, dtype, value);
        return Some(broadcast_to(store, zero, ty));
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
    Some(broadcast_to(store, result, ty))
}

/// Adds an exponential.
pub(crate) fn exp<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let bare = without_repetition(store, x);
    if let Some(value) = real(store, bare) {
        let value = number(store, dtype, apply_real(TensorOp::Exp, value));
        return Some(broadcast_to(store, value, store.type_id(x)));
    }
    push_op(store, TensorOp::Exp, smallvec![x], dtype)
}

/// Adds a reciprocal, as a quotient of 1.
pub(crate) fn reciprocal<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    if let Some(inner) = reciprocal_of(store, x) {
        return Some(inner);
    }
    if let Some(value) = real(store, x).filter(|&value| value != 0.0) {
        return Some(number(store, dtype, snap(1.0 / value)));
    }
    if let Some(factors) = store.operands_of(x, TensorOp::Multiply)
        && store.spend()
    {
        let reciprocals: Option<TermOperands> =
            factors.iter().map(|&factor| reciprocal(store, factor, dtype)).collect();
        return product(store, &reciprocals?, dtype);
    }
    if let Some(exponent) = store.operands_of(x, TensorOp::Exp) {
        let negated = sum(store, &[(Coefficient::Real(-1.0), exponent[0])], dtype)?;
        return exp(store, negated, dtype);
    }
    let one = number(store, dtype, 1.0);
    push_op(store, TensorOp::Divide, smallvec![one, x], dtype)
}

/// Returns what a term is the reciprocal of.
pub(crate) fn reciprocal_of<S: TermStore>(store: &S, x: TermId) -> Option<TermId> {
    let operands = store.operands_of(x, TensorOp::Divide)?;
    (real(store, operands[0]) == Some(1.0)).then_some(operands[1])
}

/// Adds a natural logarithm. Exponentials and positive numbers leave it, which changes nothing about where it is defined.
pub(crate) fn log<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    let factors = match store.operands_of(x, TensorOp::Multiply) {
        Some(factors) => factors,
        None => smallvec![x],
    };
    let one = Coefficient::Real(1.0);
    let mut terms: SmallVec<[(Coefficient, TermId); 4]> = SmallVec::new();
    let mut rest = TermOperands::new();
    for factor in factors {
        if let Some(exponent) = store.operands_of(factor, TensorOp::Exp) {
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
        terms.push((one, push_op(store, TensorOp::Log, smallvec![inside], dtype)?));
    }
    if let &[(factor, only)] = &terms[..]
        && factor == one
        && store.has_op(only, TensorOp::Log)
    {
        return Some(only);
    }
    let result = sum(store, &terms, dtype)?;
    Some(broadcast_to(store, result, store.type_id(x)))
}

pub(crate) fn sqrt<S: TermStore>(store: &mut S, x: TermId, dtype: Scalar) -> Option<TermId> {
    if let Some(exponent) = store.operands_of(x, TensorOp::Exp) {
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
    push_op(store, TensorOp::Sqrt, smallvec![x], dtype)
}

/// Adds a reshape that inserts or drops axes of extent 1 before an elementwise op, so that what is inside of it meets what it
/// is combined with. Returns `None` for another term, or if an operand has not all its axes.
pub(super) fn reshape_operands<S: TermStore>(store: &mut S, x: TermId, shape: &Shape) -> Option<TermId> {
    let TensorType { dtype, shape: own } = store.ty(x).clone();
    const OPS: [TensorOp; 6] =
        [TensorOp::Multiply, TensorOp::Add, TensorOp::Exp, TensorOp::Divide, TensorOp::Log, TensorOp::Sqrt];
    let op = OPS.into_iter().find(|&op| store.has_op(x, op))?;
    let operands = store.operands_of(x, op)?;
    let has_all_axes = |id: &TermId| store.ty(*id).shape == own || store.ty(*id).shape.rank() == 0;
    if !operands.iter().all(has_all_axes) {
        return None;
    }
    let reshaped: TermOperands = operands
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
