//! The e-graph: classes of equal terms, as a store that terms are made in.

use crate::attribute::Attributes;
use crate::canonical::{
    CanonicalGraph, Definition, DefinitionId, DefinitionTable, IdentityStrength, Term, TermHead, TermId, TermOperands,
    TermStore, TypeId, TypeTable,
};
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
    pub(super) definition: DefinitionId,
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
        self.definition == other.definition && self.operands.len() == other.operands.len()
    }

    fn children(&self) -> &[Id] {
        &self.operands
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.operands
    }
}

/// Holds the facts of a class: its type, and its value if that is constant.
#[derive(Clone, Debug)]
pub(super) struct ClassFacts {
    ty: TypeId,
    constant: Option<u64>,
}

/// Holds the language of nodes and the facts of all classes together.
#[derive(Debug, Default)]
pub(super) struct TermAnalysis {
    definitions: DefinitionTable,
    types: TypeTable,
    /// The inputs in order.
    inputs: Vec<(TensorType, Id)>,
    /// True if a class has been shown to be two numbers, so that a law was used where it does not hold.
    pub(super) is_contradicted: bool,
}

impl TermAnalysis {
    pub(super) fn head(&self, node: &TermNode) -> &TermHead {
        &self.definitions.get(node.definition).head
    }

    pub(super) fn ty(&self, node: &TermNode) -> &TensorType {
        self.types.get(self.definitions.get(node.definition).ty)
    }
}

impl Analysis<TermNode> for TermAnalysis {
    type Data = ClassFacts;

    fn make(egraph: &mut EGraph<TermNode, TermAnalysis>, node: &TermNode, _: Id) -> ClassFacts {
        let Definition { head, ty } = egraph.analysis.definitions.get(node.definition);
        let constant = match head {
            TermHead::Constant(bits) | TermHead::Real(bits) => Some(*bits),
            _ => None,
        };
        ClassFacts { ty: *ty, constant }
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
            let ty = self.types_mut().intern(form.ty(id));
            let operands = form.operands(id).iter().map(|operand| ids[operand]).collect();
            let mut term = Term { head: form.head(id).clone(), operands, ty };
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
    pub(super) fn op_terms(&self, class: TermId, op: TensorOp) -> Vec<(Attributes, TermOperands)> {
        let nodes = self.egraph[to_id(class)].nodes.iter().filter(|node| node.kind == op as u16);
        nodes.filter_map(|node| self.of_node(node)).collect()
    }

    /// Returns the operands of each node of an op in a class.
    pub(super) fn operands_of_each(&self, class: TermId, op: TensorOp) -> Vec<Vec<TermId>> {
        let nodes = self.egraph[to_id(class)].nodes.iter().filter(|node| node.kind == op as u16);
        nodes.map(|node| self.operands(node).collect()).collect()
    }

    pub(super) fn of_node(&self, node: &TermNode) -> Option<(Attributes, TermOperands)> {
        let TermHead::Op(_, attributes) = self.egraph.analysis.head(node) else { return None };
        Some((attributes.clone(), self.operands(node).collect()))
    }

    fn operands<'n>(&'n self, node: &'n TermNode) -> impl Iterator<Item = TermId> + 'n {
        node.operands.iter().map(|&id| from_id(self.egraph.find(id)))
    }

    pub(super) fn type_of(&self, node: &TermNode) -> TypeId {
        self.egraph.analysis.definitions.get(node.definition).ty
    }

    fn node_of(&self, id: TermId, op: TensorOp) -> Option<&TermNode> {
        self.egraph[to_id(id)].nodes.iter().find(|node| node.kind == op as u16)
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

    fn types(&self) -> &TypeTable {
        &self.egraph.analysis.types
    }

    fn types_mut(&mut self) -> &mut TypeTable {
        &mut self.egraph.analysis.types
    }

    fn type_id(&self, id: TermId) -> TypeId {
        self.egraph[to_id(id)].data.ty
    }

    fn has_op(&self, id: TermId, op: TensorOp) -> bool {
        self.node_of(id, op).is_some()
    }

    fn operands_of(&self, id: TermId, op: TensorOp) -> Option<TermOperands> {
        self.node_of(id, op).map(|node| self.operands(node).collect())
    }

    fn op_term(&self, id: TermId, op: TensorOp) -> Option<(Attributes, TermOperands)> {
        self.of_node(self.node_of(id, op)?)
    }

    fn constant_bits(&self, id: TermId) -> Option<u64> {
        self.egraph[to_id(id)].data.constant
    }

    fn push(&mut self, term: Term) -> TermId {
        let kind = match &term.head {
            TermHead::Op(op, _) => *op as u16,
            _ => NO_OP,
        };
        let definition = self.egraph.analysis.definitions.intern(Definition { head: term.head, ty: term.ty });
        let operands = term.operands.into_iter().map(to_id).collect();
        from_id(self.egraph.add(TermNode { kind, definition, operands }))
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
