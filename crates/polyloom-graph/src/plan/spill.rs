//! Keeps what several passes over a row need and what is dear to compute: one pass stores it, later ones load it.
//!
//! Where an output of the same kernel is of the same type and stored no earlier than the last of these passes, the elements
//! wait in its place, so that softmax, for one, needs no memory besides its output.

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source};
use super::group::{DraftSpace, DraftStore, KernelDraft};
use super::reduction::RowForm;
use super::translate::{StoredKind, StoredValue, TranslatedGraph};
use crate::layout::Layout;
use rustc_hash::{FxHashMap, FxHashSet};

/// The operations from which on an element is rather loaded than computed again.
pub(super) const MIN_FLOPS: u64 = 10;

/// An expression that a kernel stores for its own later passes.
#[derive(Clone, Debug)]
pub(super) struct SpilledExpression {
    pub(super) expression: ExpressionId,
    /// The pass that stores it.
    pub(super) pass: usize,
    /// Says where its elements wait: a stored value, and their places over the axes of the space.
    pub(super) stored: u32,
    pub(super) layout: Layout,
}

/// Finds what the passes of a kernel keep for later ones.
pub(super) fn spill(graph: &mut TranslatedGraph, draft: &KernelDraft) -> Vec<SpilledExpression> {
    let DraftSpace::Rows(space) = &draft.space else { return Vec::new() };
    let dear = expressions_of_passes(&graph.arena, draft, MIN_FLOPS);
    let all = [&space.outer[..], &space.inner[..]].concat();
    let mut hosts: Vec<&DraftStore> = draft.stores.iter().filter(|store| !store.is_of_row).collect();
    let mut spilled = Vec::new();
    for (expression, pass, last) in dear {
        let dtype = graph.arena.dtype(expression);
        let host = hosts.iter().position(|host| {
            let value = &graph.stored[host.stored as usize];
            value.is_output && value.dtype == dtype && host.pass >= last && host.value != expression
        });
        let (stored, layout) = match host {
            Some(place) => {
                let host = hosts.swap_remove(place);
                (host.stored, host.layout.clone())
            }
            None => {
                let kind = StoredKind::Elementwise(expression);
                graph.stored.push(StoredValue { dtype, extents: all.clone(), kind, is_output: false });
                (graph.stored.len() as u32 - 1, Layout::dense(&all))
            }
        };
        spilled.push(SpilledExpression { expression, pass, stored, layout });
    }
    spilled
}

/// Returns the expressions of elements that several passes need and that take at least so many operations, each with the
/// first of these passes and the last.
pub(super) fn expressions_of_passes(
    arena: &ExpressionArena,
    draft: &KernelDraft,
    least: u64,
) -> Vec<(ExpressionId, usize, usize)> {
    let DraftSpace::Rows(space) = &draft.space else { return Vec::new() };
    // An unrolled row is in registers.
    if space.form != RowForm::Block && space.form != RowForm::Loop {
        return Vec::new();
    }
    let needed = passes_of_elements(arena, draft);
    let mut dear: Vec<(ExpressionId, usize, usize)> = Vec::new();
    let mut roots = draft.roots();
    let mut seen = FxHashSet::default();
    while let Some(id) = roots.pop() {
        if !seen.insert(id) {
            continue;
        }
        let passes = needed.get(&id).copied().unwrap_or(0);
        let is_shared = passes.count_ones() > 1;
        if is_shared && arena.flops(id) >= least && !is_of_row(arena, draft, id) {
            let last = u64::BITS - 1 - passes.leading_zeros();
            dear.push((id, passes.trailing_zeros() as usize, last as usize));
            continue;
        }
        if let ExpressionKind::Apply(_, operands) = &arena.get(id).kind {
            roots.extend(operands);
        }
    }
    dear.sort_unstable();
    dear
}

/// Returns the passes that need each expression, as the bits of a number.
fn passes_of_elements(arena: &ExpressionArena, draft: &KernelDraft) -> FxHashMap<ExpressionId, u64> {
    let mut needed: FxHashMap<ExpressionId, u64> = FxHashMap::default();
    let reductions = draft.reductions.iter().map(|reduction| (reduction.pass, reduction.operands.clone()));
    let stores = draft.stores.iter().map(|store| (store.pass, vec![store.value]));
    for (pass, roots) in reductions.chain(stores) {
        arena.visit(&roots, |id| *needed.entry(id).or_default() |= 1u64.checked_shl(pass as u32).unwrap_or(0));
    }
    needed
}

/// Returns true if an expression is the same for all elements of a row.
fn is_of_row(arena: &ExpressionArena, draft: &KernelDraft, id: ExpressionId) -> bool {
    let n_outer = draft.space.outer().len();
    let mut is_same = true;
    arena.visit(&[id], |id| match &arena.get(id).kind {
        ExpressionKind::Load(source, layout) => {
            let is_total =
                matches!(source, Source::Stored(stored) if draft.reductions.iter().any(|r| r.stored == *stored));
            is_same &= is_total || layout.strides[n_outer..].iter().all(|&stride| stride == 0);
        }
        ExpressionKind::Place(layout) => is_same &= layout.strides[n_outer..].iter().all(|&stride| stride == 0),
        ExpressionKind::Gather { .. } | ExpressionKind::Combined { .. } => is_same = false,
        _ => {}
    });
    is_same
}
