//! Which variables are certainly set at a point of a function.

use crate::typed_ast::{LocalId, Locals};
use smallvec::SmallVec;

/// A set of variables.
#[derive(Clone, Default, Debug)]
pub(super) struct LocalSet(SmallVec<[u64; 2]>);

impl LocalSet {
    pub(super) fn insert(&mut self, local: LocalId) {
        let word = local.0 as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (local.0 % 64);
    }

    pub(super) fn contains(&self, local: LocalId) -> bool {
        self.0.get(local.0 as usize / 64).is_some_and(|word| word >> (local.0 % 64) & 1 != 0)
    }

    pub(super) fn union_with(&mut self, other: &LocalSet) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    pub(super) fn intersect_with(&mut self, other: &LocalSet) {
        self.0.truncate(other.0.len());
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// The members in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = LocalId> {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let rest = |word: &u64| Some(word & word.wrapping_sub(1)).filter(|rest| *rest != 0);
            let words = std::iter::successors(Some(*word).filter(|word| *word != 0), rest);
            words.map(move |word| LocalId(i as u32 * 64 + word.trailing_zeros()))
        })
    }

    /// The members that satisfy `keep`, in order.
    pub(super) fn select(&self, keep: impl Fn(LocalId) -> bool) -> Locals {
        self.iter().filter(|local| keep(*local)).collect()
    }
}

/// Describes what is known at a point of a function.
#[derive(Clone, Debug)]
pub(super) struct FlowState {
    /// The variables set on every path to it.
    pub(super) set: LocalSet,
    /// True if there is a path to it.
    pub(super) reachable: bool,
}

impl FlowState {
    /// Nothing is set, and the point is reached.
    pub(super) fn start() -> FlowState {
        FlowState { set: LocalSet::default(), reachable: true }
    }

    /// A point that is never reached.
    pub(super) fn never() -> FlowState {
        FlowState { set: LocalSet::default(), reachable: false }
    }

    /// Adds the paths of another point to this one's.
    pub(super) fn join(&mut self, other: &FlowState) {
        if !self.reachable {
            *self = other.clone();
        } else if other.reachable {
            self.set.intersect_with(&other.set);
        }
    }
}

/// The loop a statement is in.
#[derive(Debug)]
pub(super) struct LoopFlow {
    /// The paths that leave it by `break`.
    pub(super) breaks: FlowState,
    /// The paths that start its next iteration by `continue`.
    pub(super) continues: FlowState,
    /// True if there is a `break`, reachable or not.
    pub(super) has_break: bool,
}
