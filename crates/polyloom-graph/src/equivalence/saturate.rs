//! Equality saturation: laws are applied to all terms of both graphs until they meet, nothing new comes, or a bound is hit.

use super::egraph::{EGraphStore, NO_OP, TermAnalysis, TermNode, from_id, to_id};
use super::law::{Law, LawSite, laws};
use super::proof::{ProofStep, steps_of};
use super::{EquivalenceLimit, EquivalenceLimits};
use crate::attribute::Attributes;
use crate::builder::GraphBuilder;
use crate::canonical::{
    CanonicalGraph, TermHead, TermId, TermOperands, TermStore, TypeId, broadcast, infer_and_make, make, restore_term,
};
use crate::error::GraphError;
use crate::graph::{Graph, TensorId};
use crate::op::TensorOp;
use egg::{
    Applier, BackoffScheduler, EGraph, Id, PatternAst, Rewrite, Runner, SearchMatches, Searcher, StopReason, Subst,
    Symbol, Var,
};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::time::Instant;

/// The most nodes of one op in a class that a law looks at in a round.
const MOST_NODES: usize = 6;

pub(super) type TermEGraph = EGraph<TermNode, TermAnalysis>;

/// Finds the classes with a node of some ops.
struct ClassesOf {
    ops: Vec<TensorOp>,
}

impl Searcher<TermNode, TermAnalysis> for ClassesOf {
    fn search_eclass_with_limit(
        &self,
        egraph: &TermEGraph,
        eclass: Id,
        _: usize,
    ) -> Option<SearchMatches<'_, TermNode>> {
        let has_node = egraph[eclass].nodes.iter().any(|node| self.ops.iter().any(|&op| op as u16 == node.kind));
        has_node.then(|| SearchMatches { eclass, substs: vec![Subst::default()], ast: None })
    }

    fn search_with_limit(&self, egraph: &TermEGraph, limit: usize) -> Vec<SearchMatches<'_, TermNode>> {
        let mut classes: Vec<Id> =
            self.ops.iter().filter_map(|&op| egraph.classes_for_op(&(op as u16))).flatten().collect();
        // The order must not depend on a hash map's.
        classes.sort_unstable();
        classes.dedup();
        classes
            .into_iter()
            .take(limit)
            .filter_map(|class| self.search_eclass_with_limit(egraph, class, limit))
            .collect()
    }

    fn vars(&self) -> Vec<Var> {
        Vec::new()
    }
}

/// Applies a law to the nodes of a class, or makes them anew by the rules of canonical forms if there is none.
struct LawApplier {
    law: Option<&'static Law>,
    bound: SearchBound,
}

/// The bounds that `egg` looks at after all uses of a law in a round, which laws look at before each, because a round may be long.
#[derive(Clone, Copy)]
struct SearchBound {
    deadline: Option<Instant>,
    nodes: usize,
}

impl SearchBound {
    fn is_hit(self, egraph: &TermEGraph) -> bool {
        egraph.total_size() > self.nodes || self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }
}

impl Applier<TermNode, TermAnalysis> for LawApplier {
    fn apply_one(
        &self,
        egraph: &mut TermEGraph,
        class: Id,
        _: &Subst,
        _: Option<&PatternAst<TermNode>>,
        name: Symbol,
    ) -> Vec<Id> {
        if self.bound.is_hit(egraph) {
            return Vec::new();
        }
        let ops: Vec<u16> = self.law.map_or(Vec::new(), |law| law.ops.iter().map(|&op| op as u16).collect());
        let is_meant = |node: &&TermNode| node.kind != NO_OP && (ops.is_empty() || ops.contains(&node.kind));
        let nodes: Vec<TermNode> = egraph[class].nodes.iter().filter(is_meant).take(MOST_NODES).cloned().collect();
        let mut united = Vec::new();
        for node in nodes {
            for equal in apply_to_node(egraph, self.law, &node) {
                if egraph.find(to_id(equal)) != egraph.find(class) && egraph.union_trusted(class, to_id(equal), name) {
                    united.push(class);
                }
            }
        }
        united
    }
}

/// Returns terms that a law says are equal to a node, of its type.
fn apply_to_node(egraph: &mut TermEGraph, law: Option<&'static Law>, node: &TermNode) -> Vec<TermId> {
    let TermHead::Op(op, _) = *egraph.analysis.head(node) else { return Vec::new() };
    let mut store = EGraphStore::new(egraph);
    let ty = store.type_of(node);
    let Some((attributes, operands)) = store.of_node(node) else { return Vec::new() };
    let found = match law {
        Some(law) => {
            let ty = store.types().get(ty).clone();
            let mut site = LawSite { store: &mut store, op, attributes, operands: operands.into_vec(), ty };
            (law.apply)(&mut site)
        }
        None => remade(&mut store, op, operands, attributes, ty).into_iter().collect(),
    };
    found.into_iter().filter_map(|term| of_type(&mut store, term, ty)).collect()
}

fn of_type(store: &mut EGraphStore<'_>, term: TermId, ty: TypeId) -> Option<TermId> {
    if store.type_id(term) == ty {
        return Some(term);
    }
    let (own, ty) = (store.ty(term), store.types().get(ty));
    let fits = own.dtype == ty.dtype && own.shape.broadcast(&ty.shape).as_ref() == Some(&ty.shape);
    let shape = ty.shape.clone();
    fits.then(|| broadcast(store, term, shape))
}

/// Makes a node anew, from what is now known of its operands.
fn remade(
    store: &mut EGraphStore<'_>,
    op: TensorOp,
    operands: TermOperands,
    attributes: Attributes,
    ty: TypeId,
) -> Option<TermId> {
    if operands.len() <= 2 || !op.is_associative() {
        return Some(make(store, op, operands, attributes, ty));
    }
    let mut chain = operands[0];
    for &operand in &operands[1..] {
        chain = infer_and_make(store, op, smallvec![chain, operand], attributes.0.clone())?;
    }
    Some(chain)
}

/// Returns the laws as rules of the e-graph.
fn rules(bound: SearchBound) -> Vec<Rewrite<TermNode, TermAnalysis>> {
    let of_law = |law: &'static Law| {
        Rewrite::new(law.name, ClassesOf { ops: law.ops.to_vec() }, LawApplier { law: Some(law), bound })
    };
    let all = TensorOp::all().map(|info| info.op).collect();
    let normal = Rewrite::new("normal form", ClassesOf { ops: all }, LawApplier { law: None, bound });
    // A rule without variables has none that is unbound.
    std::iter::once(normal).chain(laws().map(of_law)).filter_map(Result::ok).collect()
}

/// Proves that two canonical forms are equal.
///
/// # Errors
///
/// The limit that was hit.
pub(super) fn prove(
    a: &CanonicalGraph,
    b: &CanonicalGraph,
    limits: EquivalenceLimits,
) -> Result<Vec<ProofStep>, EquivalenceLimit> {
    if a.n_terms() + b.n_terms() > limits.nodes {
        return Err(EquivalenceLimit::Nodes);
    }
    let saturated = saturate(&[a, b], limits, false, true)?;
    if !saturated.meets() {
        return Err(saturated.limit());
    }
    // Explanations cost time, so that only what has been proved is gone through with them again.
    let explained = saturate(&[a, b], EquivalenceLimits { time: limits.time * 20, ..limits }, true, true)?;
    let mut egraph = explained.runner.egraph;
    let mut steps: Vec<ProofStep> = Vec::new();
    for (&x, &y) in explained.outputs[0].iter().zip(&explained.outputs[1]) {
        if egraph.find(to_id(x)) != egraph.find(to_id(y)) {
            return Err(EquivalenceLimit::Time);
        }
        let explanation = egraph.explain_id_equivalence(to_id(x), to_id(y));
        for step in steps_of(&explanation, &egraph.analysis) {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    Ok(steps)
}

/// An e-graph after saturation, with the outputs of each form that was put in.
pub(super) struct Saturated {
    pub(super) runner: Runner<TermNode, TermAnalysis>,
    pub(super) outputs: Vec<Vec<TermId>>,
}

impl Saturated {
    fn meets(&self) -> bool {
        !self.runner.egraph.analysis.is_contradicted && meets(&self.runner.egraph, &self.outputs)
    }

    fn limit(&self) -> EquivalenceLimit {
        match self.runner.stop_reason {
            Some(StopReason::NodeLimit(_)) => EquivalenceLimit::Nodes,
            Some(StopReason::IterationLimit(_)) => EquivalenceLimit::Iterations,
            Some(StopReason::TimeLimit(_)) => EquivalenceLimit::Time,
            _ => EquivalenceLimit::Saturated,
        }
    }
}

fn meets(egraph: &TermEGraph, outputs: &[Vec<TermId>]) -> bool {
    let class = |id: &TermId| from_id(egraph.find(to_id(*id)));
    outputs.windows(2).all(|pair| pair[0].iter().map(class).eq(pair[1].iter().map(class)))
}

/// Applies laws to forms of one interface.
pub(super) fn saturate(
    forms: &[&CanonicalGraph],
    limits: EquivalenceLimits,
    explains: bool,
    stops_when_equal: bool,
) -> Result<Saturated, EquivalenceLimit> {
    let bound = SearchBound { deadline: Instant::now().checked_add(limits.time), nodes: limits.nodes };
    let egraph = TermEGraph::new(TermAnalysis::default());
    let mut egraph =
        if explains { egraph.with_explanations_enabled().without_explanation_length_optimization() } else { egraph };
    let mut store = EGraphStore::new(&mut egraph);
    let outputs: Vec<Vec<TermId>> = forms.iter().map(|form| store.add_form(form)).collect();
    egraph.rebuild();
    let compared = outputs.clone();
    let runner = Runner::<TermNode, TermAnalysis>::new(TermAnalysis::default())
        .with_egraph(egraph)
        .with_node_limit(limits.nodes)
        .with_iter_limit(limits.iterations)
        .with_time_limit(limits.time)
        .with_scheduler(BackoffScheduler::default())
        .with_hook(move |runner| {
            let is_contradicted = runner.egraph.analysis.is_contradicted;
            let is_done = is_contradicted || stops_when_equal && meets(&runner.egraph, &compared);
            if is_done { Err("both meet".to_owned()) } else { Ok(()) }
        })
        .run(&rules(bound));
    Ok(Saturated { runner, outputs })
}

/// Returns the graphs that one use of a law makes of a form of one output.
pub(super) fn variants(form: &CanonicalGraph, law: &'static Law) -> Result<Vec<Graph>, GraphError> {
    let mut egraph = TermEGraph::new(TermAnalysis::default());
    let mut store = EGraphStore::new(&mut egraph);
    let root = store.add_form(form)[0];
    egraph.rebuild();
    let nodes: Vec<(Id, TermNode)> =
        egraph.classes().flat_map(|class| class.nodes.iter().map(|node| (class.id, node.clone()))).collect();
    let mut graphs = Vec::new();
    for (class, node) in nodes {
        if !law.ops.iter().any(|&op| op as u16 == node.kind) {
            continue;
        }
        for equal in apply_to_node(&mut egraph, Some(law), &node) {
            if egraph.find(to_id(equal)) != class {
                graphs.push(restored(&egraph, form, root, class, equal)?);
            }
        }
    }
    Ok(graphs)
}

/// Builds the graph in which a class is computed as another one. Classes have one node each.
fn restored(
    egraph: &TermEGraph,
    form: &CanonicalGraph,
    root: TermId,
    class: Id,
    instead: TermId,
) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new();
    let mut ids: FxHashMap<(Id, bool), TensorId> = FxHashMap::default();
    for (place, (ty, _)) in form.inputs().enumerate() {
        let input = builder.input(&format!("x{place}"), ty.dtype, ty.shape.clone())?;
        let head = TermHead::Input(place as u32);
        let is_input = |node: &TermNode| node.kind == NO_OP && *egraph.analysis.head(node) == head;
        if let Some(own) = egraph.classes().find(|class| class.nodes.iter().any(is_input)) {
            ids.extend([((own.id, false), input), ((own.id, true), input)]);
        }
    }
    // The replacement of the class may need the class itself, which is then computed as before.
    let mut stack = vec![(egraph.find(to_id(root)), false)];
    while let Some(&(id, is_inside)) = stack.last() {
        if ids.contains_key(&(id, is_inside)) {
            stack.pop();
            continue;
        }
        let replaces = id == class && !is_inside;
        let from = if replaces { egraph.find(to_id(instead)) } else { id };
        if let Some(&known) = ids.get(&(from, true)).filter(|_| replaces) {
            ids.insert((id, is_inside), known);
            continue;
        }
        let is_inside_now = is_inside || replaces;
        let node = &egraph[from].nodes[0];
        let operands: Vec<(Id, bool)> = node.operands.iter().map(|&id| (egraph.find(id), is_inside_now)).collect();
        let missing: Vec<(Id, bool)> = operands.iter().copied().filter(|operand| !ids.contains_key(operand)).collect();
        if !missing.is_empty() {
            stack.extend(missing);
            continue;
        }
        let (head, ty) = (egraph.analysis.head(node), egraph.analysis.ty(node));
        let operands: Vec<TensorId> = operands.iter().map(|operand| ids[operand]).collect();
        let built = restore_term(&mut builder, head, ty, &operands)?;
        ids.insert((id, is_inside), built);
        stack.pop();
    }
    builder.finish(&[ids[&(egraph.find(to_id(root)), false)]])
}
