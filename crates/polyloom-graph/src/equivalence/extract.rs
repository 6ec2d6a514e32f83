//! Extraction: the cheapest graph among all that laws lead to, where what is used twice is paid for once.
//!
//! The method is the greedy one for shared nodes of the extraction gym (`faster-greedy-dag`): each class keeps, for its best
//! node so far, the set of classes that are computed with it; a node's cost is that of the union of its operands' sets. Classes
//! whose operands became cheaper are looked at again. It is not always the least, which is as hard as covering sets.

use super::EquivalenceLimits;
use super::egraph::{NO_OP, TermNode, to_id};
use super::saturate::{TermEGraph, saturate};
use crate::builder::GraphBuilder;
use crate::canonical::{IdentityOptions, IdentityStrength, TermHead, canonicalise, restore_term};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType, TensorValue};
use crate::op::TensorOp;
use egg::Id;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// The cost of computing one op: its operands' types and its own.
pub type TermCost<'c> = &'c dyn Fn(TensorOp, &[TensorType], &TensorType) -> f64;

/// Returns the cheapest graph found that is equal to a graph over the real numbers, with its cost. Values that are used twice
/// count once. Laws are applied for two thirds of [`EquivalenceLimits::time`], and the cheapest graph is looked for in the rest, after
/// which the graph's canonical form is returned.
///
/// # Errors
///
/// Those of [`canonicalise`] and of building ops, which verified graphs do not meet.
///
/// ```
/// use polyloom_graph::equivalence::{EquivalenceLimits, best_variant};
/// use polyloom_graph::parse_graph;
/// use std::time::Duration;
///
/// let limits = EquivalenceLimits { time: Duration::from_secs(60), ..Default::default() };
/// let text = "%x = input \"x\" : f32[64]\n%y = input \"y\" : f32[64]\n%z = input \"z\" : f32[64]\n\
///     %a = multiply %x, %z\n%b = multiply %y, %z\n%r = add %a, %b\nreturn %r";
/// let (variant, cost) = best_variant(&parse_graph(text).unwrap(), limits, &|_, _, _| 1.0)?;
/// assert_eq!((cost, variant.values.len()), (2.0, 5));
/// # Ok::<(), polyloom_graph::GraphError>(())
/// ```
pub fn best_variant(graph: &Graph, limits: EquivalenceLimits, cost: TermCost<'_>) -> Result<(Graph, f64), GraphError> {
    let deadline = Instant::now().checked_add(limits.time);
    let form = canonicalise(graph, IdentityOptions::of(IdentityStrength::Mathematics))?;
    let unknown = GraphError::UnknownValue(TensorId(0));
    let of_laws = EquivalenceLimits { time: limits.time * 2 / 3, ..limits };
    let Ok(saturated) = saturate(&[&form], of_laws, false, false) else { return Err(unknown) };
    let egraph = &saturated.runner.egraph;
    let choices = choose(egraph, cost, deadline);
    let mut builder = GraphBuilder::new();
    let mut ids: FxHashMap<Id, TensorId> = FxHashMap::default();
    let names: Vec<String> = graph.inputs().map(|(name, _)| name.to_owned()).collect();
    // All inputs stay, in order.
    for (place, (ty, _)) in form.inputs().enumerate() {
        let input = builder.input(&names[place], ty.dtype, graph_type(graph, place).shape)?;
        let head = TermHead::Input(place as u32);
        let class = egraph
            .classes()
            .find(|class| class.nodes.iter().any(|node| node.kind == NO_OP && *egraph.analysis.head(node) == head));
        if let Some(class) = class {
            ids.insert(class.id, input);
        }
    }
    let outputs: Vec<Id> = saturated.outputs[0].iter().map(|&output| egraph.find(to_id(output))).collect();
    let mut total = 0.0;
    let mut counted: FxHashSet<Id> = FxHashSet::default();
    for &output in &outputs {
        let is_chosen = ids.contains_key(&output) || choices.contains_key(&output);
        if !is_chosen || !build(egraph, &choices, output, &mut builder, &mut ids)? {
            // The time was up, or choices that were made before others got cheaper lead in a circle.
            let graph = form.to_graph()?;
            let cost = cost_of(&graph, cost);
            return Ok((graph, cost));
        }
        if let Some(choice) = choices.get(&output) {
            total += choice.costs.iter().filter(|(id, _)| counted.insert(**id)).map(|(_, cost)| cost).sum::<f64>();
        }
    }
    let outputs: Vec<TensorId> = outputs.iter().map(|output| ids[output]).collect();
    Ok((builder.finish(&outputs)?, total))
}

fn graph_type(graph: &Graph, place: usize) -> TensorType {
    graph
        .inputs()
        .nth(place)
        .map(|(_, ty)| ty.clone())
        .unwrap_or_else(|| TensorType { dtype: polyloom_ir::Scalar::F32, shape: crate::shape::Shape::SCALAR })
}

/// The best node of a class, with all classes that are computed with it and what each costs.
#[derive(Clone)]
struct Choice {
    node: TermNode,
    costs: Rc<FxHashMap<Id, f64>>,
    total: f64,
}

fn choose(egraph: &TermEGraph, cost: TermCost<'_>, deadline: Option<Instant>) -> FxHashMap<Id, Choice> {
    let mut parents: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
    let mut waiting: VecDeque<Id> = VecDeque::new();
    let mut is_waiting: FxHashSet<Id> = FxHashSet::default();
    let mut classes: Vec<Id> = egraph.classes().map(|class| class.id).collect();
    // The order of classes decides between equal costs.
    classes.sort_unstable();
    for &class in &classes {
        for node in &egraph[class].nodes {
            for &operand in &node.operands {
                parents.entry(egraph.find(operand)).or_default().push(class);
            }
            if node.operands.is_empty() && is_waiting.insert(class) {
                waiting.push_back(class);
            }
        }
    }
    let mut choices: FxHashMap<Id, Choice> = FxHashMap::default();
    // Costs only fall, but sharing makes them fall late; the bound keeps that from taking long.
    let mut n_left = 64 * classes.len();
    while let Some(class) = waiting.pop_front() {
        is_waiting.remove(&class);
        if n_left == 0 || deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        n_left -= 1;
        let mut best = choices.get(&class).cloned();
        let mut is_better = false;
        for node in &egraph[class].nodes {
            let limit = best.as_ref().map_or(f64::INFINITY, |best| best.total - 1e-12 * best.total.abs());
            if let Some(choice) = choice_of(egraph, &choices, class, node, cost, limit) {
                best = Some(choice);
                is_better = true;
            }
        }
        if let (Some(best), true) = (best, is_better) {
            choices.insert(class, best);
            for &parent in parents.get(&class).into_iter().flatten() {
                if is_waiting.insert(parent) {
                    waiting.push_back(parent);
                }
            }
        }
    }
    choices
}

/// Returns a node as the choice of its class, if it costs less than a limit.
fn choice_of(
    egraph: &TermEGraph,
    choices: &FxHashMap<Id, Choice>,
    class: Id,
    node: &TermNode,
    cost: TermCost<'_>,
    limit: f64,
) -> Option<Choice> {
    let operands = node.operands.iter().map(|&operand| choices.get(&egraph.find(operand)));
    let mut sets: SmallVec<[&Choice; 4]> = operands.collect::<Option<_>>()?;
    let own = own_cost(egraph, node, cost);
    // A class that needs itself is no way to compute it. One that costs the limit with one of its operands needs no set of all.
    if sets.iter().any(|set| set.costs.contains_key(&class) || set.total + own >= limit) {
        return None;
    }
    sets.sort_by_key(|set| std::cmp::Reverse(set.costs.len()));
    let mut costs: FxHashMap<Id, f64> = sets.first().map_or_else(FxHashMap::default, |set| (*set.costs).clone());
    let mut total = sets.first().map_or(0.0, |set| set.total) + own;
    for set in sets.iter().skip(1) {
        for (&id, &cost) in set.costs.iter() {
            costs.entry(id).or_insert_with(|| {
                total += cost;
                cost
            });
        }
    }
    costs.insert(class, own);
    (total < limit).then(|| Choice { node: node.clone(), costs: Rc::new(costs), total })
}

fn own_cost(egraph: &TermEGraph, node: &TermNode, cost: TermCost<'_>) -> f64 {
    let TermHead::Op(op, _) = egraph.analysis.head(node) else { return 0.0 };
    let ty = egraph.analysis.ty(node);
    let type_of = |&operand: &Id| {
        let nodes = &egraph[egraph.find(operand)].nodes;
        egraph.analysis.ty(&nodes[0]).clone()
    };
    let types: Vec<TensorType> = node.operands.iter().map(type_of).collect();
    if types.len() > 2 && op.is_associative() {
        return (types.len() - 1) as f64 * cost(*op, &types[..2], ty);
    }
    cost(*op, &types, ty)
}

/// Returns the cost of a graph's ops.
fn cost_of(graph: &Graph, cost: TermCost<'_>) -> f64 {
    let of_value = |value: &TensorValue| match &value.def {
        TensorDef::Op { op, operands, .. } => {
            let types = operands.iter().filter_map(|&operand| graph.value(operand)).map(|operand| operand.ty.clone());
            cost(*op, &types.collect::<Vec<_>>(), &value.ty)
        }
        _ => 0.0,
    };
    graph.values.iter().map(of_value).sum()
}

/// Builds what is chosen for a class, and what that needs. Returns false if it needs itself.
fn build(
    egraph: &TermEGraph,
    choices: &FxHashMap<Id, Choice>,
    class: Id,
    builder: &mut GraphBuilder,
    ids: &mut FxHashMap<Id, TensorId>,
) -> Result<bool, GraphError> {
    let mut stack = vec![class];
    let mut is_open: FxHashSet<Id> = FxHashSet::default();
    while let Some(&class) = stack.last() {
        if ids.contains_key(&class) {
            stack.pop();
            continue;
        }
        let Some(choice) = choices.get(&class) else { return Err(GraphError::UnknownValue(TensorId(0))) };
        let operands: Vec<Id> = choice.node.operands.iter().map(|&operand| egraph.find(operand)).collect();
        let missing: Vec<Id> = operands.iter().copied().filter(|operand| !ids.contains_key(operand)).collect();
        if !missing.is_empty() {
            if !is_open.insert(class) {
                return Ok(false);
            }
            stack.extend(missing);
            continue;
        }
        let (head, ty) = (egraph.analysis.head(&choice.node), egraph.analysis.ty(&choice.node));
        let operands: Vec<TensorId> = operands.iter().map(|operand| ids[operand]).collect();
        let restored = restore_term(builder, head, ty, &operands)?;
        ids.insert(class, restored);
        is_open.remove(&class);
        stack.pop();
    }
    Ok(true)
}
