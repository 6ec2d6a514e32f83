//! Canonical forms: what they hold, and how graphs become them.

use super::fold::apply_real;
use super::merkle::{GraphHash, MerkleHasher};
use super::normal;
use super::term::{Term, TermHead, TermId, TermStore, canonical_real};
use crate::attribute::{AttributeValue, Attributes};
use crate::builder::{GraphBuilder, convert};
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

/// The identity that a canonical form is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum IdentityStrength {
    /// That of bits: what has the same one computes the same bits, NaN being equal to NaN.
    Bits,
    /// That of the mathematics: what has the same one is equal over the real numbers, where both are defined.
    Mathematics,
}

/// The precision that float constants are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum ConstantPrecision {
    /// By their bits.
    #[default]
    Exact,
    /// By their sign and a quarter of an octave of their magnitude, so that graphs that differ in a learning rate or an epsilon
    /// share a hash. It serves statistics alone: such graphs do not compute the same.
    Bucketed,
}

/// The differences that a canonical form keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IdentityOptions {
    /// The identity.
    pub strength: IdentityStrength,
    /// The precision of float constants.
    pub constants: ConstantPrecision,
}

impl IdentityOptions {
    /// Returns the options of an identity with constants as they are.
    pub fn of(strength: IdentityStrength) -> IdentityOptions {
        IdentityOptions { strength, constants: ConstantPrecision::Exact }
    }
}

/// The most looks at operands of operands for one op.
pub(crate) const MOST_LOOKS: u32 = 256;

/// The canonical form of a graph.
#[derive(Clone, Debug)]
pub struct CanonicalGraph {
    options: IdentityOptions,
    orders_products: bool,
    terms: Vec<Term>,
    hashes: Vec<GraphHash>,
    by_hash: FxHashMap<GraphHash, TermId>,
    hasher: MerkleHasher,
    /// The looks that rules may still take at operands of operands.
    n_looks: Cell<u32>,
    /// The types of all inputs, and their terms.
    inputs: Vec<(TensorType, TermId)>,
    outputs: Vec<TermId>,
}

impl TermStore for CanonicalGraph {
    fn strength(&self) -> IdentityStrength {
        self.options.strength
    }

    fn orders_products(&self) -> bool {
        self.orders_products
    }

    fn ty(&self, id: TermId) -> &TensorType {
        &self.terms[id.0 as usize].ty
    }

    fn has_op(&self, id: TermId, op: TensorOp) -> bool {
        matches!(&self.terms[id.0 as usize].head, TermHead::Op(other, _) if *other == op)
    }

    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, Vec<TermId>)> {
        let term = &self.terms[id.0 as usize];
        match &term.head {
            TermHead::Op(other, attributes) if *other == op => Some((attributes.clone(), term.operands.clone())),
            _ => None,
        }
    }

    fn constant_bits(&self, id: TermId) -> Option<u64> {
        match self.terms[id.0 as usize].head {
            TermHead::Constant(bits) | TermHead::Real(bits) => Some(bits),
            _ => None,
        }
    }

    fn push(&mut self, mut term: Term) -> TermId {
        if let TermHead::Constant(bits) | TermHead::Real(bits) = &mut term.head
            && self.options.constants == ConstantPrecision::Bucketed
            && term.ty.dtype.is_float()
        {
            *bits = bucketed(*bits, term.ty.dtype, self.options.strength);
        }
        let hashes = &self.hashes;
        let hash = self.hasher.hash_term(&term, term.operands.iter().map(|operand| &hashes[operand.0 as usize]));
        let next = TermId(self.terms.len() as u32);
        let id = *self.by_hash.entry(hash).or_insert(next);
        if id == next {
            self.terms.push(term);
            self.hashes.push(hash);
        }
        id
    }

    fn compare(&self, a: TermId, b: TermId) -> Ordering {
        self.hashes[a.0 as usize].cmp(&self.hashes[b.0 as usize])
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
    fn empty(options: IdentityOptions, capacity: usize) -> CanonicalGraph {
        CanonicalGraph {
            options,
            orders_products: true,
            terms: Vec::with_capacity(capacity),
            hashes: Vec::with_capacity(capacity),
            by_hash: FxHashMap::with_capacity_and_hasher(capacity, Default::default()),
            hasher: MerkleHasher::default(),
            n_looks: Cell::new(0),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
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

    pub(crate) fn term(&self, id: TermId) -> &Term {
        &self.terms[id.0 as usize]
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
            let restored = restore_term(&mut builder, self.term(id), |operand| ids[&operand])?;
            ids.insert(id, restored);
        }
        Ok((builder, ids))
    }
}

/// Appends a term to a graph. Terms of more than two operands become chains.
pub(crate) fn restore_term(
    builder: &mut GraphBuilder,
    term: &Term,
    id_of: impl Fn(TermId) -> TensorId,
) -> Result<TensorId, GraphError> {
    let dtype = term.ty.dtype;
    Ok(match &term.head {
        TermHead::Input(place) => builder.input(&format!("x{place}"), dtype, term.ty.shape.clone())?,
        TermHead::Constant(bits) => builder.constant(dtype, *bits),
        TermHead::Real(bits) => builder.number(dtype, f64::from_bits(*bits)),
        TermHead::Number(place) => builder.given_number(dtype, *place),
        TermHead::Op(op, attributes) => {
            let operands: Vec<TensorId> = term.operands.iter().map(|&operand| id_of(operand)).collect();
            match &operands[..] {
                [first, rest @ ..] if rest.len() > 1 && op.is_associative() => {
                    let mut chain = *first;
                    for &operand in rest {
                        chain = builder.op_with(*op, &[chain.into(), operand.into()], attributes.0.clone())?;
                    }
                    chain
                }
                _ => {
                    let operands: Vec<_> = operands.into_iter().map(Into::into).collect();
                    builder.op_with(*op, &operands, attributes.0.clone())?
                }
            }
        }
    })
}

/// Brings a graph into canonical form.
///
/// # Errors
///
/// Those of [`decompose()`], and [`GraphError::UnknownValue`] for an operand defined after its use. A verified graph meets none
/// of them.
pub fn canonicalise(graph: &Graph, options: IdentityOptions) -> Result<CanonicalGraph, GraphError> {
    let is_composite =
        |def: &TensorDef| matches!(def, TensorDef::Op { op, .. } if crate::decompose::decomposition(*op).is_some());
    if graph.values.iter().any(|value| is_composite(&value.def)) {
        return canonicalise_simple(&decompose(graph)?, options, true);
    }
    canonicalise_simple(graph, options, true)
}

/// Brings a graph into the form that subgraphs are found in: that of the bits, with products as they are written.
pub(crate) fn search_form(graph: &Graph) -> Result<CanonicalGraph, GraphError> {
    canonicalise_simple(&decompose(graph)?, IdentityOptions::of(IdentityStrength::Bits), false)
}

/// Brings a graph of simple ops into canonical form.
fn canonicalise_simple(
    graph: &Graph,
    options: IdentityOptions,
    orders_products: bool,
) -> Result<CanonicalGraph, GraphError> {
    let is_used = used_values(graph)?;
    let symbols = symbol_names(graph);
    let renamed = |ty: &TensorType| TensorType { dtype: ty.dtype, shape: rename_shape(&ty.shape, &symbols) };
    let mut canonical = CanonicalGraph::empty(options, graph.values.len());
    canonical.orders_products = orders_products;
    let mut of_values: Vec<Option<TermId>> = Vec::with_capacity(graph.values.len());
    for (id, value) in graph.iter() {
        if !is_used[id.0 as usize] {
            of_values.push(None);
            continue;
        }
        let ty = renamed(&value.ty);
        let term = match &value.def {
            TensorDef::Input(_) => {
                let head = TermHead::Input(canonical.inputs.len() as u32);
                let input = canonical.push(Term { head, operands: Vec::new(), ty: ty.clone() });
                canonical.inputs.push((ty, input));
                input
            }
            TensorDef::Constant(bits) => {
                let term = constant_term(&canonical, ty.dtype, *bits);
                canonical.push(term)
            }
            TensorDef::Number(place) => {
                canonical.push(Term { head: TermHead::Number(*place), operands: Vec::new(), ty })
            }
            TensorDef::Op { op, operands, attributes } => {
                let operand = |id: &TensorId| {
                    of_values.get(id.0 as usize).copied().flatten().ok_or(GraphError::UnknownValue(*id))
                };
                let operands = operands.iter().map(operand).collect::<Result<Vec<TermId>, _>>()?;
                let attributes = rename_attributes(attributes, &symbols);
                canonical.n_looks.set(MOST_LOOKS);
                normal::make(&mut canonical, *op, operands, attributes, ty)
            }
        };
        of_values.push(Some(term));
    }
    let output = |id: &TensorId| of_values.get(id.0 as usize).copied().flatten().ok_or(GraphError::UnknownValue(*id));
    canonical.outputs = graph.outputs.iter().map(output).collect::<Result<_, _>>()?;
    Ok(canonical)
}

/// Returns the term of a constant: the canonical NaN for any NaN, and a real number where the identity is over those.
pub(super) fn constant_term(store: &impl TermStore, dtype: Scalar, bits: u64) -> Term {
    let ty = TensorType { dtype, shape: Shape::SCALAR };
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
    Term { head, operands: Vec::new(), ty }
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

/// Marks inputs and the values that outputs depend on.
fn used_values(graph: &Graph) -> Result<Vec<bool>, GraphError> {
    let mut is_used = vec![false; graph.values.len()];
    for &output in &graph.outputs {
        *is_used.get_mut(output.0 as usize).ok_or(GraphError::UnknownValue(output))? = true;
    }
    for (index, value) in graph.values.iter().enumerate().rev() {
        match &value.def {
            TensorDef::Input(_) => is_used[index] = true,
            TensorDef::Op { operands, .. } if is_used[index] => {
                for &operand in operands {
                    *is_used.get_mut(operand.0 as usize).ok_or(GraphError::UnknownValue(operand))? = true;
                }
            }
            _ => {}
        }
    }
    Ok(is_used)
}

/// New names of symbols: by the place of the first input that has them.
type SymbolNames = FxHashMap<Arc<str>, Arc<str>>;

fn symbol_names(graph: &Graph) -> SymbolNames {
    let mut names = SymbolNames::default();
    for (_, ty) in graph.inputs() {
        for dim in &ty.shape.0 {
            if let Dim::Symbol(name) = dim {
                let next = names.len();
                names.entry(name.clone()).or_insert_with(|| format!("s{next}").into());
            }
        }
    }
    names
}

fn rename_shape(shape: &Shape, symbols: &SymbolNames) -> Shape {
    if symbols.is_empty() {
        return shape.clone();
    }
    let rename = |dim: &Dim| match dim {
        // A symbol of no input, which no graph that runs has, keeps its name with a mark that no new name has.
        Dim::Symbol(name) => Dim::Symbol(symbols.get(name).cloned().unwrap_or_else(|| format!("'{name}").into())),
        other => other.clone(),
    };
    Shape(shape.0.iter().map(rename).collect())
}

fn rename_attributes(attributes: &Attributes, symbols: &SymbolNames) -> Attributes {
    if symbols.is_empty() {
        return attributes.clone();
    }
    let rename = |attribute: &AttributeValue| match attribute {
        AttributeValue::Shape(shape) => AttributeValue::Shape(rename_shape(shape, symbols)),
        other => other.clone(),
    };
    Attributes(attributes.0.iter().map(rename).collect())
}
