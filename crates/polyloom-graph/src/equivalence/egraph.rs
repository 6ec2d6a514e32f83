//! The e-graph: classes of equal terms, as a store that terms are made in.

use crate::attribute::Attributes;
use crate::canonical::{CanonicalGraph, HeadHasher, IdentityStrength, Term, TermHead, TermId, TermStore};
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::Dim;
use egg::{Analysis, DidMerge, EGraph, Id, Language};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::cmp::Ordering;

/// A node: the number of its definition and type, and its operands' classes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct TermNode {
    /// The op's place in the table, or [`NO_OP`].
    pub(super) kind: u16,
    pub(super) head: u32,
    pub(super) operands: Vec<Id>,
}

/// The kind of what is no op.
pub(super) const NO_OP: u16 = u16::MAX;

impl Language for TermNode {
    type Discriminant = u16;

    fn discriminant(&self) -> u16 {
        self.kind
    }

    fn matches(&self, other: &TermNode) -> bool {
        self.head == other.head && self.operands.len() == other.operands.len()
    }

    fn children(&self) -> &[Id] {
        &self.operands
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.operands
    }
}

/// What is known of a class: its type, by a head that has it, and its value if that is constant.
#[derive(Clone, Debug)]
pub(super) struct ClassFacts {
    head: u32,
    constant: Option<u64>,
}

/// The definitions of nodes, each once.
#[derive(Debug, Default)]
pub(super) struct TermAnalysis {
    pub(super) heads: Vec<(TermHead, TensorType)>,
    by_hash: FxHashMap<[u8; 32], u32>,
    hasher: HeadHasher,
    /// The inputs in order.
    inputs: Vec<(TensorType, Id)>,
    /// True if a class has been shown to be two numbers, so that a law was used where it does not hold.
    pub(super) is_contradicted: bool,
}

impl TermAnalysis {
    fn head(&mut self, head: TermHead, ty: TensorType) -> u32 {
        let term = Term { head, operands: Vec::new(), ty };
        let hash = self.hasher.hash(&term);
        let next = self.heads.len() as u32;
        let found = *self.by_hash.entry(hash).or_insert(next);
        if found == next {
            self.heads.push((term.head, term.ty));
        }
        found
    }
}

impl Analysis<TermNode> for TermAnalysis {
    type Data = ClassFacts;

    fn make(egraph: &mut EGraph<TermNode, TermAnalysis>, node: &TermNode, _: Id) -> ClassFacts {
        let constant = match egraph.analysis.heads[node.head as usize].0 {
            TermHead::Constant(bits) | TermHead::Real(bits) => Some(bits),
            _ => None,
        };
        ClassFacts { head: node.head, constant }
    }

    fn merge(&mut self, a: &mut ClassFacts, b: ClassFacts) -> DidMerge {
        match (a.constant, b.constant) {
            (Some(x), Some(y)) if x != y && !are_close(x, y) => self.is_contradicted = true,
            _ => {}
        }
        let gains = a.constant.is_none() && b.constant.is_some();
        let gives = b.constant.is_none() && a.constant.is_some();
        a.constant = a.constant.or(b.constant);
        DidMerge(gains, gives)
    }
}

/// Returns true for numbers that rounding may have parted.
fn are_close(x: u64, y: u64) -> bool {
    let (x, y) = (f64::from_bits(x), f64::from_bits(y));
    (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-30)
}

/// The e-graph while terms are made in it.
#[derive(Debug)]
pub(super) struct EGraphStore<'e> {
    pub(super) egraph: &'e mut EGraph<TermNode, TermAnalysis>,
    n_looks: Cell<u32>,
}

/// The most looks at operands of operands for one use of a law. Classes may hold themselves, so that without a bound rules
/// would not end.
const MOST_LOOKS: u32 = 64;

impl<'e> EGraphStore<'e> {
    pub(super) fn new(egraph: &'e mut EGraph<TermNode, TermAnalysis>) -> EGraphStore<'e> {
        EGraphStore { egraph, n_looks: Cell::new(MOST_LOOKS) }
    }

    /// Adds a canonical form, and returns its outputs.
    pub(super) fn add_form(&mut self, form: &CanonicalGraph) -> Vec<TermId> {
        let mut ids: FxHashMap<TermId, TermId> = FxHashMap::default();
        for id in form.order() {
            let mut term = form.term(id).clone();
            term.operands.iter_mut().for_each(|operand| *operand = ids[operand]);
            if let TermHead::Op(op, _) = &term.head
                && op.is_commutative()
            {
                term.operands.sort_unstable();
            }
            let pushed = self.push(term);
            ids.insert(id, pushed);
        }
        if self.egraph.analysis.inputs.is_empty() {
            self.egraph.analysis.inputs = form.inputs().map(|(ty, id)| (ty.clone(), to_id(ids[&id]))).collect();
        }
        form.outputs().iter().map(|output| ids[output]).collect()
    }

    /// Returns every term of a class that is the result of an op.
    pub(super) fn op_terms(&self, class: TermId, op: TensorOp) -> Vec<(Attributes, Vec<TermId>)> {
        let nodes = self.egraph[to_id(class)].nodes.iter().filter(|node| node.kind == op as u16);
        nodes.filter_map(|node| self.of_node(node)).collect()
    }

    pub(super) fn of_node(&self, node: &TermNode) -> Option<(Attributes, Vec<TermId>)> {
        let (TermHead::Op(_, attributes), _) = &self.egraph.analysis.heads[node.head as usize] else { return None };
        Some((attributes.clone(), node.operands.iter().map(|&id| from_id(self.egraph.find(id))).collect()))
    }

    pub(super) fn class(&self, id: TermId) -> TermId {
        from_id(self.egraph.find(to_id(id)))
    }
}

pub(super) fn to_id(id: TermId) -> Id {
    Id::from(id.0 as usize)
}

pub(super) fn from_id(id: Id) -> TermId {
    TermId(usize::from(id) as u32)
}

impl TermStore for EGraphStore<'_> {
    fn strength(&self) -> IdentityStrength {
        IdentityStrength::Mathematics
    }

    fn orders_products(&self) -> bool {
        true
    }

    fn ty(&self, id: TermId) -> &TensorType {
        &self.egraph.analysis.heads[self.egraph[to_id(id)].data.head as usize].1
    }

    fn has_op(&self, id: TermId, op: TensorOp) -> bool {
        self.egraph[to_id(id)].nodes.iter().any(|node| node.kind == op as u16)
    }

    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, Vec<TermId>)> {
        let node = self.egraph[to_id(id)].nodes.iter().find(|node| node.kind == op as u16)?;
        self.of_node(node)
    }

    fn constant_bits(&self, id: TermId) -> Option<u64> {
        self.egraph[to_id(id)].data.constant
    }

    fn push(&mut self, term: Term) -> TermId {
        let kind = match &term.head {
            TermHead::Op(op, _) => *op as u16,
            _ => NO_OP,
        };
        let head = self.egraph.analysis.head(term.head, term.ty);
        let operands = term.operands.into_iter().map(to_id).collect();
        from_id(self.egraph.add(TermNode { kind, head, operands }))
    }

    fn compare(&self, a: TermId, b: TermId) -> Ordering {
        self.class(a).cmp(&self.class(b))
    }

    fn spend(&self) -> bool {
        let left = self.n_looks.get();
        self.n_looks.set(left.saturating_sub(1));
        left > 0
    }

    fn axis_of_symbol(&self, symbol: &str) -> Option<(TermId, usize)> {
        let of_input = |(ty, id): &(TensorType, Id)| {
            let is_symbol = |dim: &Dim| matches!(dim, Dim::Symbol(name) if &**name == symbol);
            ty.shape.0.iter().position(is_symbol).map(|axis| (from_id(self.egraph.find(*id)), axis))
        };
        self.egraph.analysis.inputs.iter().find_map(of_input)
    }
}
