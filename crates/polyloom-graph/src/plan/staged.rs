//! Rows that wait in the shared memory of a GPU's multiprocessor, so that several passes read each input once.
//!
//! Values that several passes need of a row, or a reduction that one warp combines in order, have a slot: an input is copied
//! there before the first pass, and an expression is kept there by the pass that computes it first. The threads of a
//! block go over a row side by side, and one warp adds up each block of 4,096 elements, so that sums have the order of
//! [`crate::reference`].

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source};
use super::group::{DraftReduction, DraftSpace, KernelDraft};
use super::merge::MergedAxes;
use super::reduction::{RowForm, accumulator, is_order_free};
use super::spill::SpilledExpression;
use super::translate::TranslatedGraph;
use crate::layout::Layout;
use crate::reference::{BLOCK_LENGTH, N_LANES};
use polyloom_ir::{Arch, Scalar};
use rustc_hash::{FxHashMap, FxHashSet};

/// The shared memory of a block, at most. Two blocks of so much fit on multiprocessors of most architectures.
const MAX_SHARED_BYTES: u64 = 96 * 1024;
/// The longest row that a warp has by itself.
const MAX_WARP_ROW: u64 = 1024;
/// The rows of a block whose warps have one each.
const N_WARP_ROWS: u8 = 4;
/// The most warps that share a row.
const MAX_WARPS: u64 = 16;
/// The operations that the warp that adds up elements rather does itself, while the others wait.
const MAX_CHAIN_FLOPS: u64 = 4;

/// The threads of a block whose rows wait in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StagedRows {
    /// The rows of a block: one, unless a warp has a row.
    pub(super) rows: u8,
    /// The warps that share a row: a power of two.
    pub(super) warps: u8,
    /// The elements that a slot has room for.
    pub(super) capacity: u32,
}

impl StagedRows {
    fn of_length(length: u64) -> StagedRows {
        let warps = (length / MAX_WARP_ROW).next_power_of_two().min(MAX_WARPS);
        let rows = if warps == 1 { N_WARP_ROWS } else { 1 };
        // Rows of similar lengths have equal bodies.
        let step = (length.next_power_of_two() / 8).max(N_LANES as u64);
        StagedRows { rows, warps: warps as u8, capacity: length.next_multiple_of(step) as u32 }
    }

    pub(super) fn n_threads(self) -> u32 {
        u32::from(self.rows) * u32::from(self.warps) * N_LANES as u32
    }

    /// Returns the most blocks of elements that a row has.
    pub(super) fn n_blocks(self) -> u32 {
        self.capacity.div_ceil(BLOCK_LENGTH as u32)
    }

    /// Returns the first byte of each slot, and the one after the last.
    pub(super) fn slot_starts(self, slots: &[Scalar]) -> Vec<u32> {
        let mut starts = vec![0];
        for dtype in slots {
            let n_bytes = u32::from(self.rows) * self.capacity * dtype.bytes();
            starts.push(starts.last().copied().unwrap_or(0) + n_bytes.next_multiple_of(16));
        }
        starts
    }
}

/// Says which values wait in the slots of a kernel's rows.
#[derive(Clone, Debug)]
pub(super) struct RowSlots {
    pub(super) rows: StagedRows,
    pub(super) dtypes: Vec<Scalar>,
    /// The inputs that are copied, with their slots.
    pub(super) inputs: Vec<(ExpressionId, u16)>,
    /// The expressions that a pass keeps, with their slots.
    pub(super) kept: Vec<(ExpressionId, usize, u16)>,
    /// The passes after which each slot is free.
    last: Vec<usize>,
}

impl RowSlots {
    /// Finds the slots of a kernel; nothing if its rows are better loaded by each pass.
    pub(super) fn find(
        graph: &TranslatedGraph,
        draft: &KernelDraft,
        axes: &MergedAxes,
        spilled: &[SpilledExpression],
        gpu: Option<Arch>,
    ) -> Option<RowSlots> {
        let arch = gpu?;
        let DraftSpace::Rows(space) = &draft.space else { return None };
        let &[length] = &axes.inner[..] else { return None };
        if space.form != RowForm::Block || arch < Arch::of_number(80)? || length > MAX_SHARED_BYTES {
            return None;
        }
        let arena = &graph.arena;
        let rows = StagedRows::of_length(length);
        let mut slots = RowSlots { rows, dtypes: Vec::new(), inputs: Vec::new(), kept: Vec::new(), last: Vec::new() };
        let needed = passes_of(arena, draft, spilled);
        let of_passes = |id: ExpressionId| needed.get(&id).copied().unwrap_or(0);
        let reducing = draft.reductions.iter().fold(0u64, |passes, reduction| passes | 1 << reduction.pass.min(63));
        let mut loads = Vec::new();
        let mut has_several = !spilled.is_empty();
        arena.visit(&draft.roots(), |id| {
            let passes = of_passes(id);
            let is_input = matches!(&arena.get(id).kind, ExpressionKind::Load(source, layout)
                if is_dense_row(axes, layout) && !is_computed(draft, *source));
            if is_input && (passes.count_ones() > 1 || passes & reducing != 0) {
                has_several |= passes.count_ones() > 1;
                loads.push((id, passes));
            }
        });
        if !has_several {
            return None;
        }
        for (id, passes) in loads {
            let slot = slots.take(arena.dtype(id), last_of(passes));
            slots.inputs.push((id, slot));
        }
        let mut kept: Vec<(ExpressionId, usize, usize)> =
            spilled.iter().map(|each| (each.expression, each.pass, last_of(of_passes(each.expression)))).collect();
        for reduction in &draft.reductions {
            let is_kept = |id: ExpressionId| kept.iter().any(|&(other, ..)| other == id);
            let [operand] = reduction.operands[..] else { continue };
            if slots.is_in_order(graph, reduction) && !is_kept(operand) && !slots.is_near(arena, axes, operand, &kept) {
                kept.push((operand, reduction.pass, reduction.pass));
            }
        }
        kept.sort_by_key(|&(_, pass, _)| pass);
        for (id, pass, last) in kept.iter().copied() {
            // An element takes the place of one that is no longer needed, whose last reader is the same thread.
            let all_kept = draft
                .reductions
                .iter()
                .filter(|reduction| reduction.pass == pass && slots.is_in_order(graph, reduction))
                .all(|reduction| kept.iter().any(|&(other, ..)| reduction.operands[..] == [other]));
            let is_free_in_pass = rows.warps == 1 || all_kept;
            let slot = slots.take_free(arena.dtype(id), if is_free_in_pass { pass + 1 } else { pass }, last);
            slots.kept.push((id, pass, slot));
        }
        let n_bytes = rows.slot_starts(&slots.dtypes).last().copied().unwrap_or(0);
        (u64::from(n_bytes) <= MAX_SHARED_BYTES).then_some(slots)
    }

    /// Returns the slot of what an input's load, or an expression that an earlier pass has kept, gives.
    pub(super) fn slot_of(&self, id: ExpressionId, at: usize) -> Option<(u16, usize)> {
        let input = self.inputs.iter().find(|(other, _)| *other == id).map(|&(_, slot)| (slot, 0));
        let kept = self.kept.iter().find(|&&(other, pass, _)| other == id && pass < at);
        input.or_else(|| kept.map(|&(_, pass, slot)| (slot, pass + 1)))
    }

    /// Returns the slot that a reduction's operand is added up from, if the same pass keeps it.
    pub(super) fn slot_of_operand(&self, graph: &TranslatedGraph, reduction: &DraftReduction) -> Option<u16> {
        let [operand] = reduction.operands[..] else { return None };
        let is_own = |&&(id, pass, _): &&(ExpressionId, usize, u16)| id == operand && pass == reduction.pass;
        let kept = self.kept.iter().find(is_own)?;
        self.is_in_order(graph, reduction).then_some(kept.2)
    }

    /// Returns true if one warp combines the elements of each block, in order.
    fn is_in_order(&self, graph: &TranslatedGraph, reduction: &DraftReduction) -> bool {
        let dtype = reduction.operands.first().map_or(Scalar::F32, |&operand| graph.arena.dtype(operand));
        self.rows.warps > 1 && !is_order_free(reduction.op) && accumulator(dtype).is_float()
    }

    /// Returns true if an expression takes little but what waits in slots before its pass.
    fn is_near(
        &self,
        arena: &ExpressionArena,
        axes: &MergedAxes,
        id: ExpressionId,
        kept: &[(ExpressionId, usize, usize)],
    ) -> bool {
        let mut is_near = arena.flops(id) <= MAX_CHAIN_FLOPS;
        arena.visit(&[id], |id| {
            let is_slot = self.inputs.iter().any(|&(other, _)| other == id);
            is_near &= !kept.iter().any(|&(other, ..)| other == id);
            is_near &= match &arena.get(id).kind {
                ExpressionKind::Load(_, layout) => is_slot || !varies(axes, layout),
                ExpressionKind::Gather { .. } | ExpressionKind::Random(..) | ExpressionKind::Combined { .. } => false,
                _ => true,
            };
        });
        is_near
    }

    fn take(&mut self, dtype: Scalar, last: usize) -> u16 {
        self.dtypes.push(dtype);
        self.last.push(last);
        self.dtypes.len() as u16 - 1
    }

    /// Takes a slot that no pass from this one on needs, or a new one.
    fn take_free(&mut self, dtype: Scalar, before: usize, last: usize) -> u16 {
        let is_free = |slot: &usize| self.dtypes[*slot] == dtype && self.last[*slot] < before;
        match (0..self.dtypes.len()).find(is_free) {
            Some(slot) => {
                self.last[slot] = last;
                slot as u16
            }
            None => self.take(dtype, last),
        }
    }
}

/// Returns the passes that compute each expression, as the bits of a number. What an earlier pass keeps is not computed.
fn passes_of(
    arena: &ExpressionArena,
    draft: &KernelDraft,
    spilled: &[SpilledExpression],
) -> FxHashMap<ExpressionId, u64> {
    let mut needed: FxHashMap<ExpressionId, u64> = FxHashMap::default();
    let reductions = draft.reductions.iter().map(|reduction| (reduction.pass, reduction.operands.clone()));
    let stores = draft.stores.iter().map(|store| (store.pass, vec![store.value]));
    for (pass, mut roots) in reductions.chain(stores) {
        let mut seen = FxHashSet::default();
        while let Some(id) = roots.pop() {
            if !seen.insert(id) {
                continue;
            }
            *needed.entry(id).or_default() |= 1u64 << pass.min(63);
            if spilled.iter().any(|each| each.expression == id && each.pass < pass) {
                continue;
            }
            match &arena.get(id).kind {
                ExpressionKind::Apply(_, operands) => roots.extend(operands),
                ExpressionKind::Gather { index, .. } => roots.push(*index),
                ExpressionKind::Random(_, seed, place) => roots.extend([seed, place]),
                _ => {}
            }
        }
    }
    needed
}

fn last_of(passes: u64) -> usize {
    (u64::BITS - 1 - passes.max(1).leading_zeros()) as usize
}

fn is_computed(draft: &KernelDraft, source: Source) -> bool {
    let Source::Stored(stored) = source else { return false };
    draft.reductions.iter().any(|reduction| reduction.stored == stored)
        || draft.stores.iter().any(|store| store.stored == stored)
}

fn varies(axes: &MergedAxes, layout: &Layout) -> bool {
    axes.strides(layout)[axes.outer.len()..].iter().any(|&stride| stride != 0)
}

/// Returns true if a row lies dense in memory and is another one for other coordinates.
fn is_dense_row(axes: &MergedAxes, layout: &Layout) -> bool {
    let strides = axes.strides(layout);
    let (outer, inner) = strides.split_at(axes.outer.len());
    inner == [1] && (outer.iter().any(|&stride| stride != 0) || outer.is_empty())
}
