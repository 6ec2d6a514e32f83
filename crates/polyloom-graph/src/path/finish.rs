//! Finished paths as recipes.

use super::PathRequest;
use super::form::PathForm;
use super::prefix::PathPrefix;
use crate::backend::Residence;
use crate::graph::TensorDef;
use crate::recipe::{KernelGroup, KernelParameters, Recipe, RecipeIdentity, RecipeStep};
use crate::registry::KernelForm;
use rustc_hash::FxHashMap;

/// Returns the steps of a path: groups in an order in which each comes after those that it waits for, and copies before their first use.
pub(super) fn recipe(path: &PathPrefix, form: &PathForm, request: &PathRequest) -> Recipe {
    let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); path.groups.len()];
    for (node, &group) in form.nodes.iter().zip(&path.group_of) {
        nodes[group as usize].push(node.id);
    }
    let mut keeps_bits = form.keeps_bits;
    for (node, &group) in form.nodes.iter().zip(&path.group_of) {
        // The choice of a group that is planned is that of its first node, and all its nodes have the planner's.
        let own = &path.groups[group as usize];
        let choice = node.choices.iter().enumerate().find(|(index, choice)| match own.form {
            KernelForm::Monolithic => *index == own.choice as usize,
            KernelForm::Fused => choice.backend == own.backend && choice.form == KernelForm::Fused,
        });
        keeps_bits &= choice.is_none_or(|(_, choice)| choice.keeps_bits);
    }
    let copies = path.copies.iter().map(|&(value, from, to)| ((value, to), from)).collect();
    let mut writer =
        StepWriter { form, path, nodes, copies, steps: Vec::new(), is_written: vec![false; path.groups.len()] };
    for group in 0..path.groups.len() {
        writer.write_group(group);
    }
    for output in &form.program.outputs {
        writer.write_copy(output.0, request.outputs);
    }
    Recipe {
        version: Recipe::VERSION,
        graph: request.hash,
        identity: if keeps_bits { RecipeIdentity::Bits } else { RecipeIdentity::Mathematics },
        inputs: form.values.iter().filter_map(|value| value.input).collect(),
        outputs: request.outputs,
        program: form.text.to_string(),
        steps: writer.steps,
    }
}

struct StepWriter<'p> {
    form: &'p PathForm,
    path: &'p PathPrefix,
    nodes: Vec<Vec<u32>>,
    /// Says where copies that have not been made yet come from, by value and residence.
    copies: FxHashMap<(u32, Residence), Residence>,
    steps: Vec<RecipeStep>,
    is_written: Vec<bool>,
}

impl StepWriter<'_> {
    fn write_group(&mut self, group: usize) {
        // Groups wait for no cycle of groups, so that this ends.
        if std::mem::replace(&mut self.is_written[group], true) {
            return;
        }
        let own = self.path.groups[group].clone();
        let nodes = std::mem::take(&mut self.nodes[group]);
        let mut operands: Vec<u32> = Vec::new();
        for &node in &nodes {
            let Some(place) = self.form.values[node as usize].node else { continue };
            let read = &self.form.nodes[place as usize].operands;
            operands.extend(read.iter().filter(|&&operand| self.group_of(operand) != Some(group)));
        }
        for &operand in &operands {
            if let Some(from) = self.group_of(operand) {
                self.write_group(from);
            }
        }
        for &operand in &operands {
            self.write_copy(operand, own.backend.residence());
        }
        let kernel = nodes.first().and_then(|&node| self.form.values[node as usize].node);
        let kernel = kernel.map(|node| self.form.nodes[node as usize].choices[own.choice as usize].name.to_string());
        self.steps.push(RecipeStep::Run(KernelGroup {
            backend: own.backend,
            form: own.form,
            kernel: kernel.unwrap_or_default(),
            nodes,
            parameters: KernelParameters::default(),
        }));
    }

    fn group_of(&self, value: u32) -> Option<usize> {
        let node = self.form.values[value as usize].node?;
        Some(self.path.group_of[node as usize] as usize)
    }

    fn write_copy(&mut self, value: u32, to: Residence) {
        if let Some(from) = self.copies.remove(&(value, to)) {
            self.write_copy(value, from);
            self.steps.push(RecipeStep::CopyTo { value, from, to });
        }
    }
}

/// Returns true if another path does the same with fewer steps or in fewer words: a value is copied to another memory and back with nothing but views
/// between, or all parts of a composite op are in one plan, which takes it apart by itself.
pub(super) fn is_redundant(recipe: &Recipe, form: &PathForm) -> bool {
    let has_all = |group: &KernelGroup, parts: &Vec<u32>| {
        group.form == KernelForm::Fused && parts.iter().all(|part| group.nodes.binary_search(part).is_ok())
    };
    if recipe.groups().any(|group| form.parts.iter().any(|parts| has_all(group, parts))) {
        return true;
    }
    recipe.groups().any(|group| has_idle_detour(recipe, form, group))
}

fn has_idle_detour(recipe: &Recipe, form: &PathForm, group: &KernelGroup) -> bool {
    let is_view = |&node: &u32| matches!(&form.program.values[node as usize].def, TensorDef::Op { op, .. } if op.info().moves_by_index());
    if !group.nodes.iter().all(is_view) {
        return false;
    }
    let here = group.backend.residence().memory();
    let copies = || {
        recipe.steps.iter().filter_map(|step| match step {
            RecipeStep::CopyTo { value, from, to } => Some((*value, from.memory(), to.memory())),
            RecipeStep::Run(_) => None,
        })
    };
    let operands = group.nodes.iter().filter_map(|&node| form.values[node as usize].node);
    let operands = operands.flat_map(|node| &form.nodes[node as usize].operands);
    let sources = operands.flat_map(|&operand| copies().filter(move |&(value, ..)| value == operand));
    let back = |memory| copies().any(|(value, from, to)| group.nodes.contains(&value) && from == here && to == memory);
    sources.into_iter().any(|(_, from, to)| to == here && from != here && back(from))
}
