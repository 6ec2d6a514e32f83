//! Terms: the values of canonical forms, and where they are kept.
//!
//! The same rules make terms for hashes and for the e-graph of [`crate::equivalence`]: [`TermStore`] is what they need of either.

use super::form::IdentityStrength;
use crate::attribute::Attributes;
use crate::builder::convert;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::Shape;
use polyloom_ir::Scalar;
use std::cmp::Ordering;

/// A term, by its place in a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct TermId(pub(crate) u32);

/// The definition of a term, without its operands.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TermHead {
    /// An argument, by its place.
    Input(u32),
    /// A scalar, by the bits of its type.
    Constant(u64),
    /// A scalar of a float type as a real number, by the bits of an `f64`. It is not rounded to its type.
    Real(u64),
    /// A number that is given at each run, by its place.
    Number(u32),
    /// An op. `add`, `multiply`, `maximum`, `minimum` and the logical ops may have more than two operands.
    Op(TensorOp, Attributes),
}

/// A term.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Term {
    pub(crate) head: TermHead,
    pub(crate) operands: Vec<TermId>,
    pub(crate) ty: TensorType,
}

/// The arena of terms, which keeps each once.
pub(crate) trait TermStore {
    /// Returns the identity whose rules terms obey.
    fn strength(&self) -> IdentityStrength;

    /// Returns true if products of matrices become contractions whose operands are ordered. The order depends on what the
    /// operands are, so that a search for subgraphs does without it.
    fn orders_products(&self) -> bool;

    fn ty(&self, id: TermId) -> &TensorType;

    /// Returns true if a term is the result of an op, or is known to be equal to one.
    fn has_op(&self, id: TermId, op: TensorOp) -> bool;

    /// Returns the attributes and operands of a term that is the result of an op.
    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, Vec<TermId>)>;

    /// Returns the bits of a constant or real number.
    fn constant_bits(&self, id: TermId) -> Option<u64>;

    /// Adds a term, unless it is there.
    fn push(&mut self, term: Term) -> TermId;

    /// Orders terms, independently of the order that they were added in if this is for a hash.
    fn compare(&self, a: TermId, b: TermId) -> Ordering;

    /// Returns true if a rule may look further into operands of operands, as often as the bound on that allows for one op.
    /// Without the bound, rules that go into all terms of a sum would take time that is exponential in the depth of a graph
    /// whose values are shared.
    fn spend(&self) -> bool;

    /// Returns the first input with an axis whose extent is a symbol, and the axis.
    fn axis_of_symbol(&self, symbol: &str) -> Option<(TermId, usize)>;
}

/// Returns the value of a constant that is a float.
pub(crate) fn real(store: &impl TermStore, id: TermId) -> Option<f64> {
    let dtype = store.ty(id).dtype;
    if !dtype.is_float() {
        return None;
    }
    let bits = store.constant_bits(id)?;
    Some(f64::from_bits(match store.strength() {
        IdentityStrength::Bits => convert(dtype, bits, Scalar::F64),
        IdentityStrength::Mathematics => bits,
    }))
}

/// Returns the value of a constant that is an integer.
pub(crate) fn integer(store: &impl TermStore, id: TermId) -> Option<i128> {
    let dtype = store.ty(id).dtype;
    let bits = if dtype.is_int() { store.constant_bits(id)? } else { return None };
    Some(if dtype.is_unsigned_int() { bits.into() } else { (convert(dtype, bits, Scalar::I64) as i64).into() })
}

/// Returns the term of a float constant.
pub(crate) fn number_term(store: &impl TermStore, dtype: Scalar, value: f64) -> Term {
    let head = match store.strength() {
        IdentityStrength::Mathematics if dtype.is_float() => TermHead::Real(canonical_real(value)),
        _ => TermHead::Constant(convert(Scalar::F64, value.to_bits(), dtype)),
    };
    Term { head, operands: Vec::new(), ty: TensorType { dtype, shape: Shape::SCALAR } }
}

/// Returns the bits of a real number: those of the canonical NaN for all NaNs, and of 0.0 for -0.0.
pub(super) fn canonical_real(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
