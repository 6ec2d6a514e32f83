//! Forms of a graph: variants that are equal to it, each with some composite ops whole and the others taken apart.

use super::{PathRequest, PathVariant};
use crate::backend::{Backend, Residence};
use crate::cost::{MachineCosts, NodeWork, StepTime, monolithic_time};
use crate::decompose::decompose_values;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId};
use crate::op::{TensorKernelKind, TensorOp};
use crate::prune::{prune, used_values};
use crate::recipe::ProgramReaders;
use crate::registry::{KernelEntry, KernelForm, KernelRegistry, KernelSignature};
use crate::specialise::specialise;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The composite ops of a variant of which all choices are tried; of more, none, all, and one at a time.
const MAX_FREE_COMPOSITES: usize = 6;

/// A graph whose nodes are to be given to backends.
pub(super) struct PathForm {
    /// The graph, with symbols.
    pub(super) program: Graph,
    /// The same values with known extents.
    pub(super) known: Graph,
    pub(super) text: Arc<str>,
    pub(super) keeps_bits: bool,
    pub(super) values: Vec<FormValue>,
    pub(super) nodes: Vec<FormNode>,
    /// The values that each composite op which was taken apart has become.
    pub(super) parts: Vec<Vec<u32>>,
    pub(super) readers: ProgramReaders,
    /// The predicted times of groups, by backend and nodes.
    pub(super) group_times: FxHashMap<(Backend, Vec<u32>), StepTime>,
}

/// The facts about a value.
#[derive(Clone, Debug)]
pub(super) struct FormValue {
    pub(super) n_bytes: u64,
    /// True for constants and numbers, which every kernel has in itself.
    pub(super) is_everywhere: bool,
    pub(super) input: Option<Residence>,
    pub(super) is_output: bool,
    /// The place of its node, if it is an op.
    pub(super) node: Option<u32>,
    /// The place of the last node that reads it.
    pub(super) last_reader: Option<u32>,
}

/// The role of a node within a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeRole {
    View,
    Elementwise,
    /// Along axes with this hash.
    Reduction(u64),
    Product,
    /// A scan, a sort or a sum by indices: a kernel of its own.
    Alone,
}

/// The facts about a node, and who can compute it.
#[derive(Clone, Debug)]
pub(super) struct FormNode {
    pub(super) id: u32,
    /// The operands that are not everywhere, each once.
    pub(super) operands: Vec<u32>,
    pub(super) role: NodeRole,
    pub(super) work: NodeWork,
    pub(super) choices: Vec<KernelChoice>,
}

/// A kernel that a node may be given to.
#[derive(Clone, Debug)]
pub(super) struct KernelChoice {
    pub(super) backend: Backend,
    pub(super) form: KernelForm,
    pub(super) name: Arc<str>,
    pub(super) keeps_bits: bool,
    /// The time as a kernel of its own.
    pub(super) alone: StepTime,
}

/// The forms that are still to be looked at, in the order in which they are.
pub(super) struct FormQueue {
    pending: VecDeque<(usize, Vec<TensorId>)>,
    seen: Vec<Arc<str>>,
}

impl FormQueue {
    pub(super) fn new(request: &PathRequest) -> FormQueue {
        let mut by_size: Vec<Vec<(usize, Vec<TensorId>)>> = Vec::new();
        for (index, variant) in request.variants.iter().enumerate() {
            for (rank, chosen) in subsets(&variant.graph).into_iter().enumerate() {
                if by_size.len() <= rank {
                    by_size.push(Vec::new());
                }
                by_size[rank].push((index, chosen));
            }
        }
        FormQueue { pending: by_size.into_iter().flatten().collect(), seen: Vec::new() }
    }

    /// Returns the next form for which every node has a kernel.
    pub(super) fn next(
        &mut self,
        request: &PathRequest,
        registry: &KernelRegistry,
        costs: &MachineCosts,
    ) -> Result<Option<PathForm>, GraphError> {
        while let Some((index, chosen)) = self.pending.pop_front() {
            let form = PathForm::new(&request.variants[index], &chosen, request, registry, costs)?;
            if let Some(form) = form.filter(|form| !self.seen.contains(&form.text)) {
                self.seen.push(form.text.clone());
                return Ok(Some(form));
            }
        }
        Ok(None)
    }
}

/// Returns the sets of composite ops to take apart: none, all, and then others, small ones first.
fn subsets(graph: &Graph) -> Vec<Vec<TensorId>> {
    let is_composite = |id: &TensorId| matches!(graph.value(*id).map(|v| &v.def), Some(TensorDef::Op { op, .. }) if op.info().is_composite());
    let all: Vec<TensorId> = graph.iter().map(|(id, _)| id).filter(is_composite).collect();
    let mut sets = vec![Vec::new()];
    if all.is_empty() {
        return sets;
    }
    sets.push(all.clone());
    if all.len() <= MAX_FREE_COMPOSITES {
        let mut masks: Vec<u32> = (1..(1 << all.len()) - 1).collect();
        masks.sort_by_key(|mask| mask.count_ones());
        let chosen = |mask: u32| all.iter().enumerate().filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, &id)| id);
        sets.extend(masks.into_iter().map(|mask| chosen(mask).collect()));
    } else {
        sets.extend(all.iter().map(|&one| vec![one]));
        sets.extend(all.iter().map(|one| all.iter().copied().filter(|other| other != one).collect()));
    }
    sets
}

impl PathForm {
    /// Makes a form; `None` if a node of it has no kernel.
    fn new(
        variant: &PathVariant,
        chosen: &[TensorId],
        request: &PathRequest,
        registry: &KernelRegistry,
        costs: &MachineCosts,
    ) -> Result<Option<PathForm>, GraphError> {
        let (program, origins) = decompose_values(&variant.graph, |id| chosen.binary_search(&id).is_ok())?;
        let (program, origins) = pruned(&program, &origins)?;
        let known = specialise(&program, &request.symbols)?;
        let mut values: Vec<FormValue> = Vec::with_capacity(program.values.len());
        let mut nodes: Vec<FormNode> = Vec::new();
        let mut inputs = request.inputs.iter();
        for (id, value) in program.iter() {
            let work = NodeWork::of(&known, id).ok_or_else(|| GraphError::Invalid {
                value: id,
                reason: format!("{} has no known extents, so that paths cannot be compared", value.ty),
            })?;
            let mut facts = FormValue {
                n_bytes: work.n_bytes,
                is_everywhere: matches!(value.def, TensorDef::Constant(_) | TensorDef::Number(_)),
                input: None,
                is_output: false,
                node: None,
                last_reader: None,
            };
            match &value.def {
                TensorDef::Input(_) => facts.input = Some(inputs.next().copied().unwrap_or(Residence::Numpy)),
                TensorDef::Op { op, operands, .. } => {
                    let choices = choices(&program, id, &work, variant, request, registry, costs);
                    if choices.is_empty() {
                        return Ok(None);
                    }
                    let place = nodes.len() as u32;
                    facts.node = Some(place);
                    let mut own: Vec<u32> = Vec::with_capacity(operands.len());
                    for operand in operands {
                        let read: &mut FormValue = &mut values[operand.0 as usize];
                        read.last_reader = Some(place);
                        if !read.is_everywhere && !own.contains(&operand.0) {
                            own.push(operand.0);
                        }
                    }
                    nodes.push(FormNode { id: id.0, operands: own, role: role(&known, id, *op), work, choices });
                }
                TensorDef::Constant(_) | TensorDef::Number(_) => {}
            }
            values.push(facts);
        }
        program.outputs.iter().for_each(|output| values[output.0 as usize].is_output = true);
        let mut parts: FxHashMap<TensorId, Vec<u32>> = FxHashMap::default();
        for (index, origin) in origins.iter().enumerate() {
            if let (Some(origin), Some(_)) = (origin, values[index].node) {
                parts.entry(*origin).or_default().push(index as u32);
            }
        }
        let text: Arc<str> = program.to_string().into();
        let parts = parts.into_values().collect();
        Ok(Some(PathForm {
            readers: ProgramReaders::of(&known),
            program,
            known,
            text,
            keeps_bits: variant.keeps_bits,
            values,
            nodes,
            parts,
            group_times: FxHashMap::default(),
        }))
    }
}

/// Removes what no output depends on, with the origins of what stays.
fn pruned(program: &Graph, origins: &[Option<TensorId>]) -> Result<(Graph, Vec<Option<TensorId>>), GraphError> {
    let is_used = used_values(program)?;
    let kept = origins.iter().zip(&is_used).filter(|(_, is_used)| **is_used).map(|(origin, _)| *origin);
    Ok((prune(program)?, kept.collect()))
}

fn choices(
    program: &Graph,
    id: TensorId,
    work: &NodeWork,
    variant: &PathVariant,
    request: &PathRequest,
    registry: &KernelRegistry,
    costs: &MachineCosts,
) -> Vec<KernelChoice> {
    let Some(signature) = KernelSignature::of(program, id) else { return Vec::new() };
    let is_allowed = |entry: &&KernelEntry| {
        (entry.backend.may_be_fastest() || request.allows_simulator)
            && (!request.needs_bits || entry.keeps_bits && variant.keeps_bits)
    };
    let choice = |entry: &KernelEntry| KernelChoice {
        backend: entry.backend,
        form: entry.form,
        name: entry.name.clone(),
        keeps_bits: entry.keeps_bits,
        alone: monolithic_time(entry.backend, work, costs),
    };
    registry.kernels(&signature).filter(is_allowed).map(choice).collect()
}

fn role(graph: &Graph, id: TensorId, op: TensorOp) -> NodeRole {
    let info = op.info();
    match info.kind {
        TensorKernelKind::View => NodeRole::View,
        TensorKernelKind::Elementwise => NodeRole::Elementwise,
        TensorKernelKind::Reduce => {
            let mut hasher = rustc_hash::FxHasher::default();
            if let Some(TensorDef::Op { operands, attributes, .. }) = graph.value(id).map(|value| &value.def) {
                // The axes are the first attribute; the rows of two reductions over one shape are then the same.
                let shape = operands.first().and_then(|&operand| graph.value(operand)).map(|value| &value.ty.shape);
                (shape, attributes.0.first().map(ToString::to_string)).hash(&mut hasher);
            }
            NodeRole::Reduction(hasher.finish())
        }
        TensorKernelKind::Matmul | TensorKernelKind::Conv2d | TensorKernelKind::Attention => NodeRole::Product,
        TensorKernelKind::Scan | TensorKernelKind::Sort => NodeRole::Alone,
        TensorKernelKind::Custom if op == TensorOp::ScatterAdd => NodeRole::Alone,
        TensorKernelKind::Custom => NodeRole::Elementwise,
    }
}
