//! Canonical forms: the arena of their terms, and graphs made of them.

use super::definition::{Definition, DefinitionId, DefinitionTable};
use super::fold::apply_real;
use super::merkle::{GraphHash, MerkleHasher};
use super::options::{ConstantPrecision, IdentityOptions, IdentityStrength};
use super::term::{Term, TermHead, TermId, TermOperands, TermStore};
use super::types::{TypeId, TypeTable};
use crate::attribute::Attributes;
use crate::builder::{GraphBuilder, convert};
use crate::error::GraphError;
use crate::graph::{Graph, TensorId, TensorType};
use crate::op::TensorOp;
use crate::shape::Dim;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use polyloom_ir::Scalar;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::BuildHasher;

/// The most looks at operands of operands for one op.
const MOST_LOOKS: u32 = 256;

/// The canonical form of a graph.
#[derive(Clone, Debug)]
pub struct CanonicalGraph {
    options: IdentityOptions,
    orders_products: bool,
    terms: Vec<DefinedTerm>,
    definitions: DefinitionTable,
    types: TypeTable,
    hashes: Vec<GraphHash>,
    /// The beginnings of the hashes, by which terms are ordered, close together.
    prefixes: Vec<u64>,
    /// The terms by their definitions, so that a hash is computed once.
    by_definition: HashTable<TermId>,
    hasher: MerkleHasher,
    /// The looks that rules may still take at operands of operands.
    n_looks: Cell<u32>,
    /// The types of all inputs, and their terms.
    inputs: Vec<(TensorType, TermId)>,
    pub(super) outputs: Vec<TermId>,
}

/// A term as it is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DefinedTerm {
    definition: DefinitionId,
    operands: TermOperands,
}

impl TermStore for CanonicalGraph {
    fn strength(&self) -> IdentityStrength {
        self.options.strength
    }

    fn orders_products(&self) -> bool {
        self.orders_products
    }

    fn types(&self) -> &TypeTable {
        &self.types
    }

    fn types_mut(&mut self) -> &mut TypeTable {
        &mut self.types
    }

    fn type_id(&self, id: TermId) -> TypeId {
        self.definition(id).ty
    }

    fn has_op(&self, id: TermId, op: TensorOp) -> bool {
        matches!(self.head(id), TermHead::Op(other, _) if *other == op)
    }

    fn operands_of(&self, id: TermId, op: TensorOp) -> Option<TermOperands> {
        self.has_op(id, op).then(|| TermOperands::from_slice(self.operands(id)))
    }

    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, TermOperands)> {
        match self.head(id) {
            TermHead::Op(other, attributes) if *other == op => {
                Some((attributes.clone(), TermOperands::from_slice(self.operands(id))))
            }
            _ => None,
        }
    }

    fn constant_bits(&self, id: TermId) -> Option<u64> {
        match self.head(id) {
            TermHead::Constant(bits) | TermHead::Real(bits) => Some(*bits),
            _ => None,
        }
    }

    fn push(&mut self, mut term: Term) -> TermId {
        if let TermHead::Constant(bits) | TermHead::Real(bits) = &mut term.head
            && self.options.constants == ConstantPrecision::Bucketed
        {
            let dtype = self.types.get(term.ty).dtype;
            if dtype.is_float() {
                *bits = bucketed(*bits, dtype, self.options.strength);
            }
        }
        let definition = self.definitions.intern(Definition { head: term.head, ty: term.ty });
        let term = DefinedTerm { definition, operands: term.operands };
        let terms = &self.terms;
        let code = FxBuildHasher.hash_one(&term);
        let is_equal = |id: &TermId| terms[id.0 as usize] == term;
        let code_of = |id: &TermId| FxBuildHasher.hash_one(&terms[id.0 as usize]);
        match self.by_definition.entry(code, is_equal, code_of) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(place) => {
                let id = TermId(terms.len() as u32);
                place.insert(id);
                let hashes = &self.hashes;
                let operands = term.operands.iter().map(|operand| &hashes[operand.0 as usize]);
                let hash = self.hasher.hash_term(definition, &self.definitions, &self.types, operands);
                self.hashes.push(hash);
                self.prefixes.push(hash.prefix());
                self.terms.push(term);
                id
            }
        }
    }

    fn compare(&self, a: TermId, b: TermId) -> Ordering {
        let [a, b] = [a, b].map(|id| id.0 as usize);
        self.prefixes[a].cmp(&self.prefixes[b]).then_with(|| self.hashes[a].cmp(&self.hashes[b]))
    }

    fn spend(&self) -> bool {
        let left = self.n_looks.get();
        self.n_looks.set(left.saturating_sub(1));
        left > 0
    }

    fn axis_of_symbol(&self, symbol: &str) -> Option<(TermId, usize)> {
        let of_input = |(ty, id): &(TensorType, TermId)| {
            let is_symbol = |dim: &Dim| matches!(dim, Dim::Symbol(name) if &**name == symbol);
            ty.shape.0.iter().position(is_symbol).map(|axis| (*id, axis))
        };
        self.inputs.iter().find_map(of_input)
    }
}

impl CanonicalGraph {
    pub(super) fn empty(options: IdentityOptions, orders_products: bool, capacity: usize) -> CanonicalGraph {
        CanonicalGraph {
            options,
            orders_products,
            terms: Vec::with_capacity(capacity),
            definitions: DefinitionTable::default(),
            types: TypeTable::default(),
            hashes: Vec::with_capacity(capacity),
            prefixes: Vec::with_capacity(capacity),
            by_definition: HashTable::with_capacity(capacity),
            hasher: MerkleHasher::default(),
            n_looks: Cell::new(0),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds the next input.
    pub(super) fn push_input(&mut self, ty: TensorType) -> TermId {
        let head = TermHead::Input(self.inputs.len() as u32);
        let id = self.types.intern(&ty);
        let input = self.push(Term { head, operands: TermOperands::new(), ty: id });
        self.inputs.push((ty, input));
        input
    }

    /// Lets rules look at operands of operands again, for the next op.
    pub(super) fn renew_looks(&self) {
        self.n_looks.set(MOST_LOOKS);
    }

    /// Returns the hash of the outputs, with the types of the inputs and the version of the op set.
    pub fn hash(&self) -> GraphHash {
        let inputs: Vec<TensorType> = self.inputs.iter().map(|(ty, _)| ty.clone()).collect();
        let tag = 2 * self.options.strength as u8 + self.options.constants as u8;
        let outputs = self.outputs.iter().map(|output| &self.hashes[output.0 as usize]);
        MerkleHasher::default().hash_graph(tag, &inputs, outputs)
    }

    /// Returns the number of different values, those that no output depends on included.
    pub fn n_terms(&self) -> usize {
        self.terms.len()
    }

    fn definition(&self, id: TermId) -> &Definition {
        self.definitions.get(self.terms[id.0 as usize].definition)
    }

    pub(crate) fn head(&self, id: TermId) -> &TermHead {
        &self.definition(id).head
    }

    pub(crate) fn operands(&self, id: TermId) -> &[TermId] {
        &self.terms[id.0 as usize].operands
    }

    pub(crate) fn inputs(&self) -> impl ExactSizeIterator<Item = (&TensorType, TermId)> {
        self.inputs.iter().map(|(ty, id)| (ty, *id))
    }

    pub(crate) fn outputs(&self) -> &[TermId] {
        &self.outputs
    }

    pub(super) fn strength_and_constants(&self) -> IdentityOptions {
        self.options
    }

    /// Returns the terms that outputs depend on, each after its operands: those of an output in the order of a walk from it.
    pub(crate) fn order(&self) -> Vec<TermId> {
        let mut is_done = vec![false; self.terms.len()];
        let mut order = Vec::new();
        // A stack of our own, because graphs are deeper than the program's may be.
        let mut stack: Vec<(TermId, usize)> = Vec::new();
        let roots = self.inputs.iter().map(|(_, id)| *id).chain(self.outputs.iter().copied());
        for root in roots {
            if !is_done[root.0 as usize] {
                stack.push((root, 0));
            }
            while let Some((id, next)) = stack.pop() {
                if is_done[id.0 as usize] {
                    continue;
                }
                match self.terms[id.0 as usize].operands.get(next) {
                    Some(&operand) => {
                        stack.push((id, next + 1));
                        if !is_done[operand.0 as usize] {
                            stack.push((operand, 0));
                        }
                    }
                    None => {
                        is_done[id.0 as usize] = true;
                        order.push(id);
                    }
                }
            }
        }
        order
    }

    /// Returns the canonical form as a graph, with numbers rounded to their types. That of the bits computes the bits of the
    /// graph that it was made of.
    ///
    /// # Errors
    ///
    /// Those of building ops, which canonical forms of verified graphs do not meet.
    pub fn to_graph(&self) -> Result<Graph, GraphError> {
        let (builder, ids) = self.restore()?;
        let outputs: Vec<TensorId> = self.outputs.iter().map(|output| ids[output]).collect();
        builder.finish(&outputs)
    }

    /// Begins a graph with all terms that outputs depend on.
    pub(crate) fn restore(&self) -> Result<(GraphBuilder, FxHashMap<TermId, TensorId>), GraphError> {
        let mut builder = GraphBuilder::new();
        let mut ids: FxHashMap<TermId, TensorId> = FxHashMap::default();
        for id in self.order() {
            let operands: Vec<TensorId> = self.operands(id).iter().map(|operand| ids[operand]).collect();
            ids.insert(id, restore_term(&mut builder, self.head(id), self.ty(id), &operands)?);
        }
        Ok((builder, ids))
    }
}

/// Appends a term to a graph. Terms of more than two operands become chains.
pub(crate) fn restore_term(
    builder: &mut GraphBuilder,
    head: &TermHead,
    ty: &TensorType,
    operands: &[TensorId],
) -> Result<TensorId, GraphError> {
    Ok(match head {
        TermHead::Input(place) => builder.input(&format!("x{place}"), ty.dtype, ty.shape.clone())?,
        TermHead::Constant(bits) => builder.constant(ty.dtype, *bits),
        TermHead::Real(bits) => builder.number(ty.dtype, f64::from_bits(*bits)),
        TermHead::Number(place) => builder.given_number(ty.dtype, *place),
        TermHead::Op(op, attributes) => match operands {
            [first, rest @ ..] if rest.len() > 1 && op.is_associative() => {
                let mut chain = *first;
                for &operand in rest {
                    chain = builder.op_with(*op, &[chain.into(), operand.into()], attributes.0.clone())?;
                }
                chain
            }
            _ => {
                let operands: Vec<_> = operands.iter().map(|&operand| operand.into()).collect();
                builder.op_with(*op, &operands, attributes.0.clone())?
            }
        },
    })
}

/// Returns the bits of the number that stands for all of a sign and a quarter of an octave.
fn bucketed(bits: u64, dtype: Scalar, strength: IdentityStrength) -> u64 {
    let is_real = strength == IdentityStrength::Mathematics;
    let value = f64::from_bits(if is_real { bits } else { convert(dtype, bits, Scalar::F64) });
    if value == 0.0 || !value.is_finite() {
        return bits;
    }
    let quarter = (apply_real(TensorOp::Log2, value.abs()) * 4.0).round() / 4.0;
    let bucket = apply_real(TensorOp::Exp2, quarter).copysign(value);
    if is_real { bucket.to_bits() } else { convert(Scalar::F64, bucket.to_bits(), dtype) }
}
