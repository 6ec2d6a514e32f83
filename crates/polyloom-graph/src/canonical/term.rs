//! Terms: the values of canonical forms, and where they are kept.
//!
//! The same rules make terms for hashes and for the e-graph of [`crate::equivalence`]: [`TermStore`] is what they need of either.

use super::options::IdentityStrength;
use super::types::{TypeId, TypeTable};
use crate::attribute::Attributes;
use crate::builder::convert;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::Shape;
use polyloom_ir::Scalar;
use smallvec::SmallVec;
use std::cmp::Ordering;

/// A term, by its place in a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct TermId(pub(crate) u32);

/// The operands of a term, of which most have one or two.
pub(crate) type TermOperands = SmallVec<[TermId; 4]>;

/// The definition of a term, without its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) head: TermHead,
    pub(crate) operands: TermOperands,
    pub(crate) ty: TypeId,
}

/// The arena of terms, which keeps each once.
pub(crate) trait TermStore {
    /// Returns the identity whose rules terms obey.
    fn strength(&self) -> IdentityStrength;

    /// Returns true if products of matrices become contractions whose operands are ordered. The order depends on what the
    /// operands are, so that a search for subgraphs does without it.
    fn orders_products(&self) -> bool;

    fn types(&self) -> &TypeTable;

    fn types_mut(&mut self) -> &mut TypeTable;

    fn type_id(&self, id: TermId) -> TypeId;

    fn ty(&self, id: TermId) -> &TensorType {
        self.types().get(self.type_id(id))
    }

    /// Returns true if a term is the result of an op, or is known to be equal to one.
    fn has_op(&self, id: TermId, op: TensorOp) -> bool;

    /// Returns the operands of a term that is the result of an op.
    fn operands_of(&self, id: TermId, op: TensorOp) -> Option<TermOperands>;

    /// Returns the attributes and operands of a term that is the result of an op.
    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, TermOperands)>;

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

/// Adds the term of an op.
pub(crate) fn push_term<S: TermStore>(
    store: &mut S,
    op: TensorOp,
    operands: impl Into<TermOperands>,
    attributes: Attributes,
    ty: TypeId,
) -> TermId {
    store.push(Term { head: TermHead::Op(op, attributes), operands: operands.into(), ty })
}

/// Adds a type of an element type and a shape.
pub(crate) fn intern<S: TermStore>(store: &mut S, dtype: Scalar, shape: Shape) -> TypeId {
    store.types_mut().intern(&TensorType { dtype, shape })
}

/// Adds the type of an elementwise op of operands that broadcast. Returns `None` if they do not.
pub(super) fn broadcast_type<S: TermStore>(store: &mut S, operands: &[TermId], dtype: Scalar) -> Option<TypeId> {
    let types: SmallVec<[TypeId; 16]> = operands.iter().map(|&operand| store.type_id(operand)).collect();
    store.types_mut().broadcast(types, dtype)
}

/// Orders the operands of a commutative op.
pub(super) fn sort_operands(store: &impl TermStore, operands: &mut [TermId]) {
    // Equal operands are one term, so that an order that is not stable is the same.
    operands.sort_unstable_by(|&a, &b| store.compare(a, b));
}

/// Returns the value of a constant that is a float.
pub(crate) fn real(store: &impl TermStore, id: TermId) -> Option<f64> {
    let bits = store.constant_bits(id)?;
    let dtype = store.ty(id).dtype;
    if !dtype.is_float() {
        return None;
    }
    Some(f64::from_bits(match store.strength() {
        IdentityStrength::Bits => convert(dtype, bits, Scalar::F64),
        IdentityStrength::Mathematics => bits,
    }))
}

/// Returns the value of a constant that is an integer.
pub(crate) fn integer(store: &impl TermStore, id: TermId) -> Option<i128> {
    let bits = store.constant_bits(id)?;
    let dtype = store.ty(id).dtype;
    if !dtype.is_int() {
        return None;
    }
    Some(if dtype.is_unsigned_int() { bits.into() } else { (convert(dtype, bits, Scalar::I64) as i64).into() })
}

/// Adds a scalar without operands.
pub(super) fn push_scalar<S: TermStore>(store: &mut S, head: TermHead, dtype: Scalar) -> TermId {
    let ty = intern(store, dtype, Shape::SCALAR);
    store.push(Term { head, operands: TermOperands::new(), ty })
}

/// Adds a float constant.
pub(super) fn push_number<S: TermStore>(store: &mut S, dtype: Scalar, value: f64) -> TermId {
    let head = match store.strength() {
        IdentityStrength::Mathematics if dtype.is_float() => TermHead::Real(canonical_real(value)),
        _ => TermHead::Constant(convert(Scalar::F64, value.to_bits(), dtype)),
    };
    push_scalar(store, head, dtype)
}

/// Adds a constant: the canonical NaN for any NaN, and a real number where the identity is over those.
pub(super) fn push_constant<S: TermStore>(store: &mut S, dtype: Scalar, bits: u64) -> TermId {
    let head = match dtype.is_float() {
        false => TermHead::Constant(bits),
        true => {
            let value = f64::from_bits(convert(dtype, bits, Scalar::F64));
            match store.strength() {
                IdentityStrength::Mathematics => TermHead::Real(canonical_real(value)),
                IdentityStrength::Bits if value.is_nan() => {
                    TermHead::Constant(convert(Scalar::F64, f64::NAN.to_bits(), dtype))
                }
                IdentityStrength::Bits => TermHead::Constant(bits),
            }
        }
    };
    push_scalar(store, head, dtype)
}

/// Returns the bits of a real number: those of the canonical NaN for all NaNs, and of 0.0 for -0.0.
fn canonical_real(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
