//! The verifier of recipes.
//!
//! A recipe that is accepted can run on a machine with its backends, with no further checks:
//!
//! 1. Its program is a well-formed graph, with a residence for each input.
//! 2. Each op that an output depends on is a node of one group, and no value is a node of two.
//! 3. A monolithic group has one node; a fused one is on a backend that plans kernels. Parameters are within their ranges.
//! 4. Groups do not wait for each other, and each comes after those whose results it reads.
//! 5. What a group reads is at the residence of its backend. A copy is of something that is there to where it is not.
//! 6. Each output is at the residence of outputs in the end.

use super::error::RecipeError;
use super::group::{is_scalar_source, operands_of};
use super::{KernelGroup, Recipe, RecipeStep};
use crate::backend::{Backend, Residence};
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::registry::{KernelForm, KernelRegistry, KernelSignature};
use crate::shape::Dim;
use crate::text::parse_graph;
use crate::verify::verify;
use rustc_hash::FxHashMap;

/// A recipe that has been verified, with its program.
#[derive(Clone, PartialEq, Debug)]
pub struct VerifiedRecipe {
    /// The recipe.
    pub recipe: Recipe,
    /// Its program.
    pub program: Graph,
}

/// Computed by no step.
const NOBODY: usize = usize::MAX;

impl Recipe {
    /// Verifies that the recipe can run on a machine that has its backends.
    ///
    /// # Errors
    ///
    /// All of [`RecipeError`] but those of reading, of another graph and of what this machine lacks.
    pub fn verify(&self) -> Result<VerifiedRecipe, RecipeError> {
        let program = parse_graph(&self.program)?;
        verify(&program)?;
        self.verify_steps(&program)?;
        Ok(VerifiedRecipe { recipe: self.clone(), program })
    }

    pub(crate) fn verify_steps(&self, program: &Graph) -> Result<(), RecipeError> {
        let n_inputs = program.inputs().count();
        if self.inputs.len() != n_inputs {
            return Err(RecipeError::InputCount { expected: n_inputs, found: self.inputs.len() });
        }
        let computed_by = self.computed_by(program)?;
        self.check_order(program, &computed_by)?;
        self.check_residences(program)
    }

    fn runs(&self) -> impl Iterator<Item = (usize, &KernelGroup)> {
        self.steps.iter().enumerate().filter_map(|(index, step)| match step {
            RecipeStep::Run(group) => Some((index, group)),
            RecipeStep::CopyTo { .. } => None,
        })
    }

    /// Returns the step that computes each value.
    fn computed_by(&self, program: &Graph) -> Result<Vec<usize>, RecipeError> {
        let mut computed_by = vec![NOBODY; program.values.len()];
        for (step, group) in self.runs() {
            check_group(step, group)?;
            for &node in &group.nodes {
                let node = TensorId(node);
                if !matches!(program.value(node).map(|value| &value.def), Some(TensorDef::Op { .. })) {
                    return Err(RecipeError::NoOp { step, node });
                }
                let first = std::mem::replace(&mut computed_by[node.0 as usize], step);
                if first != NOBODY {
                    return Err(RecipeError::ComputedTwice { node, first, second: step });
                }
            }
        }
        let mut is_needed = vec![false; program.values.len()];
        program.outputs.iter().for_each(|output| is_needed[output.0 as usize] = true);
        for index in (0..program.values.len()).rev() {
            let node = TensorId(index as u32);
            // What is computed for nobody needs its operands all the same.
            if !is_needed[index] && computed_by[index] == NOBODY {
                continue;
            }
            operands_of(program, node).iter().for_each(|operand| is_needed[operand.0 as usize] = true);
            if matches!(program.values[index].def, TensorDef::Op { .. }) && computed_by[index] == NOBODY {
                return Err(RecipeError::NotComputed { node });
            }
        }
        Ok(computed_by)
    }

    fn check_order(&self, program: &Graph, computed_by: &[usize]) -> Result<(), RecipeError> {
        let mut needs: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut late = None;
        for (step, group) in self.runs() {
            let of_step = needs.entry(step).or_default();
            for &operand in group.nodes.iter().flat_map(|&node| operands_of(program, TensorId(node))) {
                let from = computed_by[operand.0 as usize];
                if from != NOBODY && from != step {
                    of_step.push(from);
                    if from > step && late.is_none() {
                        late = Some((step, operand, from));
                    }
                }
            }
        }
        let Some((step, operand, computed_by)) = late else { return Ok(()) };
        // Steps that wait for each other can be in no order; others could be in another one.
        let mut stack = vec![computed_by];
        let mut seen: Vec<usize> = Vec::new();
        while let Some(next) = stack.pop() {
            if next == step {
                return Err(RecipeError::Cycle { first: step, second: computed_by });
            }
            if !seen.contains(&next) {
                seen.push(next);
                stack.extend(needs.get(&next).into_iter().flatten());
            }
        }
        Err(RecipeError::OutOfOrder { step, operand, computed_by })
    }

    fn check_residences(&self, program: &Graph) -> Result<(), RecipeError> {
        let mut residences: Vec<Vec<Residence>> = vec![Vec::new(); program.values.len()];
        let mut inputs = self.inputs.iter();
        for (id, value) in program.iter() {
            match &value.def {
                TensorDef::Input(_) => residences[id.0 as usize].extend(inputs.next()),
                TensorDef::Constant(_) | TensorDef::Number(_) => residences[id.0 as usize].extend(Residence::ALL),
                TensorDef::Op { .. } => {}
            }
        }
        for (step, each) in self.steps.iter().enumerate() {
            match each {
                RecipeStep::CopyTo { value, from, to } => {
                    let value = TensorId(*value);
                    let own = residences.get_mut(value.0 as usize);
                    let nothing = RecipeError::CopyOfNothing { step, value, residence: *from };
                    let own = own.filter(|own| own.contains(from)).ok_or(nothing)?;
                    if own.contains(to) {
                        return Err(RecipeError::RedundantCopy { step, value, residence: *to });
                    }
                    own.push(*to);
                }
                RecipeStep::Run(group) => {
                    let residence = group.backend.residence();
                    let GroupEnds { inputs, outputs } = group_ends(program, group);
                    if let Some(&operand) = inputs.iter().find(|id| !residences[id.0 as usize].contains(&residence)) {
                        return Err(RecipeError::MissingCopy { step, operand, residence });
                    }
                    outputs.iter().for_each(|output| residences[output.0 as usize].push(residence));
                }
            }
        }
        match program.outputs.iter().find(|output| !residences[output.0 as usize].contains(&self.outputs)) {
            Some(&output) => Err(RecipeError::OutputElsewhere { output, residence: self.outputs }),
            None => Ok(()),
        }
    }
}

fn check_group(step: usize, group: &KernelGroup) -> Result<(), RecipeError> {
    if group.nodes.is_empty() {
        return Err(RecipeError::Empty { step });
    }
    if group.form == KernelForm::Monolithic && group.nodes.len() > 1 {
        return Err(RecipeError::NotMonolithic { step, n_nodes: group.nodes.len() });
    }
    if group.form == KernelForm::Fused && !group.backend.plans_groups() {
        return Err(RecipeError::NotPlanned { step, backend: group.backend });
    }
    if let Some(pair) = group.nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(match pair[0] == pair[1] {
            true => RecipeError::ComputedTwice { node: TensorId(pair[0]), first: step, second: step },
            false => RecipeError::Unordered { step },
        });
    }
    match group.parameters.fault() {
        Some((parameter, reason)) => Err(RecipeError::Parameter { step, parameter, reason }),
        None => Ok(()),
    }
}

/// The values that a group reads from elsewhere, and those that it gives.
struct GroupEnds {
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
}

fn group_ends(program: &Graph, group: &KernelGroup) -> GroupEnds {
    let is_inside = |id: TensorId| group.nodes.binary_search(&id.0).is_ok();
    let mut inputs: Vec<TensorId> = Vec::new();
    for &operand in group.nodes.iter().flat_map(|&node| operands_of(program, TensorId(node))) {
        if !is_inside(operand) && !is_scalar_source(program, operand) && !inputs.contains(&operand) {
            inputs.push(operand);
        }
    }
    let mut outputs: Vec<TensorId> = program.outputs.iter().copied().filter(|&output| is_inside(output)).collect();
    for (id, _) in program.iter().filter(|(id, _)| !is_inside(*id)) {
        outputs.extend(operands_of(program, id).iter().copied().filter(|&operand| is_inside(operand)));
    }
    outputs.sort_unstable();
    outputs.dedup();
    GroupEnds { inputs, outputs }
}

impl VerifiedRecipe {
    /// Checks that the recipe is of a graph: that it has its hash, and takes and gives tensors of its types.
    ///
    /// # Errors
    ///
    /// [`RecipeError::OtherGraph`] and [`RecipeError::OtherInterface`].
    pub fn fits(&self, graph: &Graph, hash: &[u8; 32]) -> Result<(), RecipeError> {
        if self.recipe.graph != *hash {
            let digits = |hash: &[u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            return Err(RecipeError::OtherGraph { expected: digits(hash), found: digits(&self.recipe.graph) });
        }
        let types = |graph: &Graph| -> (Vec<TensorType>, Vec<TensorType>) {
            let outputs = graph.outputs.iter().filter_map(|&output| Some(graph.value(output)?.ty.clone()));
            (graph.inputs().map(|(_, ty)| ty.clone()).collect(), outputs.collect())
        };
        let ((own_inputs, own_outputs), (inputs, outputs)) = (types(&self.program), types(graph));
        if own_inputs.len() != inputs.len() || own_outputs.len() != outputs.len() {
            let count = |n: usize, m: usize| format!("{n} inputs and {m} outputs");
            let (own, other) = (count(own_inputs.len(), own_outputs.len()), count(inputs.len(), outputs.len()));
            return Err(RecipeError::OtherInterface(format!("it has {own}, not {other}")));
        }
        // A symbol of the program is whatever the graph has in its place, the same everywhere.
        let mut symbols: FxHashMap<&str, &Dim> = FxHashMap::default();
        let pairs = own_inputs.iter().zip(&inputs).chain(own_outputs.iter().zip(&outputs));
        for (own, other) in pairs {
            let dims = own.shape.0.iter().zip(&other.shape.0);
            let has_dims = dims.into_iter().all(|(own, other)| match own {
                Dim::Symbol(name) => *symbols.entry(name).or_insert(other) == other,
                Dim::Static(_) => own == other,
            });
            if own.dtype != other.dtype || own.shape.rank() != other.shape.rank() || !has_dims {
                return Err(RecipeError::OtherInterface(format!("it has {own} in the place of {other}")));
            }
        }
        Ok(())
    }

    /// Checks that a machine has the backends and the kernels. A recipe of another machine may need others.
    ///
    /// # Errors
    ///
    /// [`RecipeError::AbsentBackends`] with all that are absent, and [`RecipeError::AbsentKernel`].
    pub fn check_kernels(&self, registry: &KernelRegistry) -> Result<(), RecipeError> {
        let absent: Vec<Backend> =
            self.recipe.backends().into_iter().filter(|&backend| !registry.has(backend)).collect();
        if !absent.is_empty() {
            return Err(RecipeError::AbsentBackends(absent));
        }
        for group in self.recipe.groups() {
            for &node in &group.nodes {
                let node = TensorId(node);
                let is_there = KernelSignature::of(&self.program, node).is_some_and(|signature| {
                    let entry = registry.kernel(signature.op, group.backend, &group.kernel);
                    entry.is_some_and(|entry| entry.form == group.form && entry.pattern.matches(&signature))
                });
                if !is_there {
                    let (backend, kernel) = (group.backend, group.kernel.clone());
                    return Err(RecipeError::AbsentKernel { backend, kernel, node });
                }
            }
        }
        Ok(())
    }
}
