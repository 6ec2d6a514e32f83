//! Prefixes: the nodes of a form up to one, each given to a kernel, with what that costs so far.
//!
//! A group that is planned is one kernel or several. Its stages estimate how many: elementwise nodes stay in the stage of their operands, a
//! reduction stays with reductions over the same rows, and a product or a scan begins a stage. What crosses from one stage to another, or
//! leaves the group, is written and read. That is an estimate for the search alone; a finished path is predicted by its plans.

use super::form::{FormNode, NodeRole, PathForm};
use crate::backend::{Backend, Residence};
use crate::cost::{BackendCosts, MachineCosts};
use crate::registry::KernelForm;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The earlier groups that are looked at for one that reads what a node reads.
const MAX_SIBLINGS: usize = 12;

/// The rates of a machine, each backend's found at once.
pub(super) struct SearchCosts {
    pub(super) machine: MachineCosts,
    backends: BTreeMap<Backend, BackendCosts>,
}

impl SearchCosts {
    pub(super) fn new(machine: MachineCosts) -> SearchCosts {
        let backends = Backend::ALL.into_iter().map(|backend| (backend, machine.backend(backend))).collect();
        SearchCosts { machine, backends }
    }

    fn of(&self, backend: Backend) -> &BackendCosts {
        &self.backends[&backend]
    }
}

/// The kernel that a node is given to: one of its choices, in a group that there is or in a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PathMove {
    pub(super) choice: u16,
    pub(super) join: Option<u32>,
}

/// A group under construction.
#[derive(Clone, Debug)]
pub(super) struct PathGroup {
    pub(super) backend: Backend,
    pub(super) form: KernelForm,
    pub(super) choice: u16,
    /// The values that it reads from elsewhere.
    reads: Vec<u32>,
    /// The groups that it waits for, however long the way, as bits.
    needs: Vec<u64>,
    n_stages: u32,
    memory_ns: f64,
    element_ns: f64,
    product_ns: f64,
}

impl PathGroup {
    fn needs(&self, group: u32) -> bool {
        self.needs.get(group as usize / 64).is_some_and(|word| word >> (group % 64) & 1 == 1)
    }

    fn total_ns(&self, costs: &SearchCosts) -> f64 {
        let launches = f64::from(self.n_stages) * costs.of(self.backend).launch_ns;
        launches + self.memory_ns.max(self.element_ns) + self.product_ns
    }
}

/// The state of a value that has been computed, or is an input.
#[derive(Clone, Copy, Debug, Default)]
struct ValueState {
    /// The residences that it is at, as bits.
    residences: u8,
    /// True if it is in memory, rather than in registers of the group that computes it.
    is_written: bool,
    stage: u16,
    /// The rows that its stage reduces along, 0 if it does not.
    rows: u64,
    has_product: bool,
}

/// The nodes up to one, given to kernels.
#[derive(Clone, Debug)]
pub(super) struct PathPrefix {
    pub(super) ns: f64,
    /// The group of each node.
    pub(super) group_of: Vec<u32>,
    pub(super) groups: Vec<Arc<PathGroup>>,
    /// The copies: value, from, to.
    pub(super) copies: Vec<(u32, Residence, Residence)>,
    values: Vec<ValueState>,
}

/// The effects of a move.
struct MoveEffects {
    group: PathGroup,
    state: ValueState,
    fetched: Fetches,
}

/// The effects of bringing values to where they are read.
struct Fetches {
    /// The cost of the prefix with them.
    ns: f64,
    copies: Vec<(u32, Residence, Residence)>,
    /// The values that are written to memory for it.
    writes: Vec<u32>,
    /// The groups that write them.
    writers: Vec<(u32, PathGroup)>,
}

impl Fetches {
    fn new(ns: f64) -> Fetches {
        Fetches { ns, copies: Vec::new(), writes: Vec::new(), writers: Vec::new() }
    }
}

impl PathPrefix {
    pub(super) fn empty(form: &PathForm) -> PathPrefix {
        let state = |value: &super::form::FormValue| ValueState {
            residences: value.input.map_or(0, |residence| 1 << residence as u8),
            is_written: true,
            ..ValueState::default()
        };
        PathPrefix {
            ns: 0.0,
            group_of: Vec::with_capacity(form.nodes.len()),
            groups: Vec::new(),
            copies: Vec::new(),
            values: form.values.iter().map(state).collect(),
        }
    }

    /// Returns the moves for the next node.
    pub(super) fn moves(&self, form: &PathForm) -> Vec<PathMove> {
        let node = &form.nodes[self.group_of.len()];
        let mut moves = Vec::new();
        for (index, choice) in node.choices.iter().enumerate() {
            let new = PathMove { choice: index as u16, join: None };
            moves.push(new);
            if choice.form == KernelForm::Monolithic {
                continue;
            }
            let mut joined: Vec<u32> = Vec::new();
            let producers = node.operands.iter().filter_map(|&operand| self.group_of_value(form, operand));
            let first = self.groups.len().saturating_sub(MAX_SIBLINGS);
            let reads_too = |group: &u32| node.operands.iter().any(|o| self.groups[*group as usize].reads.contains(o));
            let siblings = (first as u32..self.groups.len() as u32).rev().filter(reads_too);
            for group in producers.chain(siblings) {
                let own = &self.groups[group as usize];
                if own.backend == choice.backend && own.form == KernelForm::Fused && !joined.contains(&group) {
                    joined.push(group);
                    moves.push(PathMove { join: Some(group), ..new });
                }
            }
        }
        moves
    }

    fn group_of_value(&self, form: &PathForm, value: u32) -> Option<u32> {
        self.group_of.get(form.values[value as usize].node? as usize).copied()
    }

    /// Returns the cost of the prefix with a move for the next node; `None` if groups would wait for each other.
    pub(super) fn cost_of(&self, form: &PathForm, costs: &SearchCosts, chosen: PathMove) -> Option<f64> {
        self.effects(form, costs, chosen).map(|effects| effects.fetched.ns)
    }

    /// Returns the prefix with a move for the next node.
    pub(super) fn with(&self, form: &PathForm, costs: &SearchCosts, chosen: PathMove) -> Option<PathPrefix> {
        let effects = self.effects(form, costs, chosen)?;
        let node = &form.nodes[self.group_of.len()];
        let mut next = self.clone();
        next.take(effects.fetched);
        next.values[node.id as usize] = effects.state;
        let place = chosen.join.unwrap_or(next.groups.len() as u32);
        next.group_of.push(place);
        let has_grown = chosen.join.is_none_or(|group| self.groups[group as usize].needs != effects.group.needs);
        match chosen.join {
            Some(group) => next.groups[group as usize] = Arc::new(effects.group),
            None => next.groups.push(Arc::new(effects.group)),
        }
        if has_grown && chosen.join.is_some() {
            // Whoever waits for this group now waits for what it has come to wait for.
            let needs = next.groups[place as usize].needs.clone();
            for other in &mut next.groups {
                if other.needs(place) {
                    add_bits(&mut Arc::make_mut(other).needs, &needs);
                }
            }
        }
        Some(next)
    }

    fn effects(&self, form: &PathForm, costs: &SearchCosts, chosen: PathMove) -> Option<MoveEffects> {
        let node = &form.nodes[self.group_of.len()];
        let choice = &node.choices[chosen.choice as usize];
        let rates = costs.of(choice.backend);
        let residence = choice.backend.residence();
        let mut group = match chosen.join {
            Some(group) => (*self.groups[group as usize]).clone(),
            None => PathGroup {
                backend: choice.backend,
                form: choice.form,
                choice: chosen.choice,
                reads: Vec::new(),
                needs: Vec::new(),
                n_stages: 0,
                memory_ns: 0.0,
                element_ns: 0.0,
                product_ns: 0.0,
            },
        };
        let before = if chosen.join.is_some() { group.total_ns(costs) } else { 0.0 };
        let mut fetched = Fetches::new(self.ns);
        let mut state = ValueState { residences: 1 << residence as u8, ..ValueState::default() };
        let mut stage = 0;
        for &operand in &node.operands {
            let from = self.group_of_value(form, operand);
            if from.is_some() && from == chosen.join {
                stage = stage.max(self.stage_after(node, operand));
                continue;
            }
            if let Some(from) = from {
                if chosen.join.is_some_and(|own| self.groups[from as usize].needs(own)) {
                    return None;
                }
                add_bit(&mut group.needs, from);
                add_bits(&mut group.needs, &self.groups[from as usize].needs);
            }
            self.fetch(form, costs, operand, residence, &mut fetched);
            if choice.form == KernelForm::Fused && !group.reads.contains(&operand) {
                group.reads.push(operand);
                group.memory_ns += rates.memory_ns(form.values[operand as usize].n_bytes);
            }
        }
        if choice.form == KernelForm::Monolithic {
            group.n_stages = 1;
            group.memory_ns = choice.alone.memory_ns;
            group.element_ns = choice.alone.element_ns;
            group.product_ns = choice.alone.product_ns;
            state.is_written = true;
        } else {
            state.stage = stage;
            self.add_to_stage(form, node, rates, chosen.join, &mut group, &mut state, &mut fetched.writes);
        }
        fetched.ns += group.total_ns(costs) - before;
        Some(MoveEffects { group, state, fetched })
    }

    fn take(&mut self, fetched: Fetches) {
        self.ns = fetched.ns;
        for (group, writer) in fetched.writers {
            self.groups[group as usize] = Arc::new(writer);
        }
        for value in fetched.writes {
            self.values[value as usize].is_written = true;
        }
        for &(value, _, to) in &fetched.copies {
            self.values[value as usize].residences |= 1 << to as u8;
        }
        self.copies.extend(fetched.copies);
    }

    /// Makes an operand available at a residence.
    fn fetch(&self, form: &PathForm, costs: &SearchCosts, operand: u32, residence: Residence, fetched: &mut Fetches) {
        let state = &self.values[operand as usize];
        let n_bytes = form.values[operand as usize].n_bytes;
        if !state.is_written
            && let Some(from) = self.group_of_value(form, operand)
        {
            let known = fetched.writers.iter().position(|(group, _)| *group == from);
            let place = known.unwrap_or_else(|| {
                fetched.writers.push((from, (*self.groups[from as usize]).clone()));
                fetched.writers.len() - 1
            });
            let writer = &mut fetched.writers[place].1;
            let before = writer.total_ns(costs);
            writer.memory_ns += costs.of(writer.backend).memory_ns(n_bytes);
            fetched.ns += writer.total_ns(costs) - before;
            fetched.writes.push(operand);
        }
        if state.residences >> residence as u8 & 1 == 0 {
            let sources = Residence::ALL.into_iter().filter(|from| state.residences >> *from as u8 & 1 == 1);
            let timed = sources.map(|from| (costs.machine.transfer_ns(from, residence, n_bytes), from));
            if let Some((ns, from)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) {
                fetched.ns += ns;
                fetched.copies.push((operand, from, residence));
            }
        }
    }

    /// Returns the first stage of its own group in which a node can read an operand.
    fn stage_after(&self, node: &FormNode, operand: u32) -> u16 {
        let state = &self.values[operand as usize];
        let begins = match node.role {
            NodeRole::View | NodeRole::Elementwise => false,
            NodeRole::Reduction(rows) => state.has_product || state.rows != 0 && state.rows != rows,
            NodeRole::Product => true,
            NodeRole::Alone => state.rows != 0 || state.has_product,
        };
        state.stage + u16::from(begins)
    }

    #[allow(clippy::too_many_arguments, reason = "all of it is one node's place in a group")]
    fn add_to_stage(
        &self,
        form: &PathForm,
        node: &FormNode,
        rates: &BackendCosts,
        join: Option<u32>,
        group: &mut PathGroup,
        state: &mut ValueState,
        writes: &mut Vec<u32>,
    ) {
        let stage = state.stage;
        for &operand in &node.operands {
            let own = &self.values[operand as usize];
            if join.is_none() || self.group_of_value(form, operand) != join {
                continue;
            }
            let n_bytes = form.values[operand as usize].n_bytes;
            if own.stage == stage {
                state.rows = state.rows.max(own.rows);
                state.has_product |= own.has_product;
            } else {
                // The earlier stage leaves it in memory, and this one reads it there.
                let n_moves = if own.is_written { 1.0 } else { 2.0 };
                group.memory_ns += n_moves * rates.memory_ns(n_bytes);
                if !own.is_written {
                    writes.push(operand);
                }
            }
        }
        match node.role {
            NodeRole::Reduction(rows) => state.rows = rows,
            NodeRole::Product => state.has_product = true,
            // What comes after it is the next stage.
            NodeRole::Alone => state.rows = u64::MAX,
            NodeRole::View | NodeRole::Elementwise => {}
        }
        if node.role != NodeRole::View || form.values[node.id as usize].is_output {
            group.n_stages = group.n_stages.max(u32::from(stage) + 1);
        }
        let (element_ns, product_ns) = rates.node_ns(&node.work);
        group.element_ns += element_ns;
        group.product_ns += product_ns;
        if form.values[node.id as usize].is_output {
            group.memory_ns += rates.memory_ns(node.work.n_bytes);
            state.is_written = true;
        }
    }

    /// Brings the outputs to where they have to be.
    pub(super) fn finish(&mut self, form: &PathForm, costs: &SearchCosts, residence: Residence) {
        for output in form.program.outputs.iter().map(|output| output.0) {
            if !form.values[output as usize].is_everywhere {
                let mut fetched = Fetches::new(self.ns);
                self.fetch(form, costs, output, residence, &mut fetched);
                self.take(fetched);
            }
        }
    }

    /// Returns a hash of what the rest of the path can see: prefixes that have the same one are continued in the same ways, at costs that differ by no more than
    /// what arithmetic hides of the memory traffic of groups that are joined.
    pub(super) fn frontier(&self, form: &PathForm) -> u64 {
        let depth = self.group_of.len() as u32;
        let mut hasher = FxHasher::default();
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut live_groups: Vec<u32> = Vec::new();
        let live: Vec<u32> = (0..form.values.len() as u32)
            .filter(|&value| {
                let facts = &form.values[value as usize];
                let is_computed = facts.node.is_none_or(|node| node < depth) && !facts.is_everywhere;
                is_computed && (facts.is_output || facts.last_reader.is_some_and(|reader| reader >= depth))
            })
            .collect();
        let mut number = |group: u32, hasher: &mut FxHasher| {
            let next = numbers.len() as u32;
            let number = *numbers.entry(group).or_insert_with(|| {
                live_groups.push(group);
                next
            });
            number.hash(hasher);
        };
        for &value in &live {
            let state = &self.values[value as usize];
            (value, state.residences, state.is_written, state.stage, state.rows, state.has_product).hash(&mut hasher);
            if let Some(group) = self.group_of_value(form, value) {
                number(group, &mut hasher);
            }
            let first = self.groups.len().saturating_sub(MAX_SIBLINGS);
            for group in first..self.groups.len() {
                if self.groups[group].form == KernelForm::Fused && self.groups[group].reads.contains(&value) {
                    number(group as u32, &mut hasher);
                }
            }
        }
        for &group in &live_groups {
            let own = &self.groups[group as usize];
            (own.backend, own.form, own.n_stages).hash(&mut hasher);
            live_groups.iter().for_each(|&other| own.needs(other).hash(&mut hasher));
        }
        hasher.finish()
    }
}

fn add_bit(bits: &mut Vec<u64>, bit: u32) {
    let word = bit as usize / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (bit % 64);
}

fn add_bits(bits: &mut Vec<u64>, others: &[u64]) {
    if bits.len() < others.len() {
        bits.resize(others.len(), 0);
    }
    bits.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
}
