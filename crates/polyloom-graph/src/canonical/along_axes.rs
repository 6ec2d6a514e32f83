//! Laws of reductions over the real numbers: sums along axes are linear, what does not change along the axes leaves them, and maxima go
//! through functions that grow.

use super::coefficient::Coefficient;
use super::reduction;
use super::ring::{exp, product, split, sum};
use super::term::{TermId, TermStore};
use super::view::{broadcast, reshape, without_repetition};
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use smallvec::smallvec;

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
    if let Some(terms) = store.operands_of(x, TensorOp::Add) {
        let sums: Option<Vec<TermId>> =
            terms.into_iter().map(|term| sum_along(store, term, &own, &places.all, dtype)).collect();
        let sums: Vec<_> = sums?.into_iter().map(|term| (Coefficient::Real(1.0), term)).collect();
        return sum(store, &sums, dtype);
    }
    let factors = match store.operands_of(x, TensorOp::Multiply) {
        Some(factors) => factors,
        None => smallvec![x],
    };
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for factor in factors {
        if let Some(exponent) = store.operands_of(factor, TensorOp::Exp) {
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
    let terms = match store.operands_of(x, TensorOp::Add) {
        Some(terms) => terms,
        None => smallvec![x],
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
    if let Some(exponent) = store.operands_of(x, TensorOp::Exp) {
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
