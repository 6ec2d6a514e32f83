//! The search within a form: prefixes by depth, the cheapest first.
//!
//! A sweep takes the cheapest prefix of each depth, from the first node to the last, and continues it by every move. The first
//! sweep is a greedy path; each later one finds another, until no prefix is left: so the first path is there after one pass over the nodes,
//! and all of them in the end. Of prefixes with one frontier, as many as paths are asked for are continued: another one, which costs more than
//! all of those, is dominated by them.

use super::form::PathForm;
use super::prefix::{PathMove, PathPrefix, SearchCosts};
use crate::backend::Backend;
use crate::registry::KernelForm;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A prefix with a move, and what it costs with it.
struct Candidate {
    ns: f64,
    /// Its number, by which ties are broken the same way each time.
    serial: u64,
    parent: Arc<PathPrefix>,
    chosen: PathMove,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The greatest is the cheapest, because that is what a heap gives first.
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        other.ns.total_cmp(&self.ns).then(other.serial.cmp(&self.serial))
    }
}

/// The prefixes of a form that are still to be continued.
pub(super) struct FormSearch {
    pub(super) form: PathForm,
    /// The prefixes by the number of their nodes, less one.
    ladder: Vec<BinaryHeap<Candidate>>,
    /// The times that each frontier has been continued, by depth.
    continued: Vec<FxHashMap<u64, usize>>,
    n_candidates: usize,
    serial: u64,
}

impl FormSearch {
    pub(super) fn new(form: PathForm, costs: &SearchCosts) -> FormSearch {
        let n = form.nodes.len();
        let mut search = FormSearch {
            form,
            ladder: (0..n).map(|_| BinaryHeap::new()).collect(),
            continued: vec![FxHashMap::default(); n],
            n_candidates: 0,
            serial: 0,
        };
        let root = Arc::new(PathPrefix::empty(&search.form));
        search.continue_prefix(&root, costs);
        search
    }

    /// Returns the number of prefixes that wait to be continued.
    pub(super) fn n_candidates(&self) -> usize {
        self.n_candidates
    }

    /// Continues the cheapest prefix of each depth. Returns a path, if one was ended, and the number of prefixes that were continued.
    pub(super) fn sweep(&mut self, costs: &SearchCosts, n_paths: usize) -> (Option<PathPrefix>, usize) {
        let mut n_continued = 0;
        for depth in 0..self.ladder.len() {
            while let Some(candidate) = self.ladder[depth].pop() {
                self.n_candidates -= 1;
                let Some(prefix) = candidate.parent.with(&self.form, costs, candidate.chosen) else { continue };
                n_continued += 1;
                if depth + 1 == self.ladder.len() {
                    return (Some(prefix), n_continued);
                }
                let times = self.continued[depth].entry(prefix.frontier(&self.form)).or_default();
                *times += 1;
                if *times > n_paths {
                    continue;
                }
                self.continue_prefix(&Arc::new(prefix), costs);
                break;
            }
        }
        (None, n_continued)
    }

    fn continue_prefix(&mut self, prefix: &Arc<PathPrefix>, costs: &SearchCosts) {
        let depth = prefix.group_of.len();
        if depth == self.ladder.len() {
            return;
        }
        for chosen in prefix.moves(&self.form) {
            if let Some(ns) = prefix.cost_of(&self.form, costs, chosen) {
                self.serial += 1;
                let candidate = Candidate { ns, serial: self.serial, parent: prefix.clone(), chosen };
                self.ladder[depth].push(candidate);
                self.n_candidates += 1;
            }
        }
    }

    /// Returns the greedy path that stays on a backend wherever it has a kernel, and fuses nothing unless asked to.
    pub(super) fn uniform(&self, costs: &SearchCosts, backend: Backend, fuses: bool) -> Option<PathPrefix> {
        let mut prefix = PathPrefix::empty(&self.form);
        for node in &self.form.nodes {
            let has_own = node.choices.iter().any(|choice| choice.backend == backend);
            let is_allowed = |chosen: &PathMove| {
                let choice = &node.choices[chosen.choice as usize];
                let is_own = choice.backend == backend || !has_own;
                is_own && (fuses || chosen.join.is_none() || choice.form == KernelForm::Monolithic)
            };
            let moves = prefix.moves(&self.form).into_iter().filter(is_allowed);
            prefix.make_cheapest(&self.form, costs, moves)?;
        }
        Some(prefix)
    }
}
