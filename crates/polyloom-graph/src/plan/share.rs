//! Stores what several kernels would compute, each for itself, where loading it costs less.

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source, ViewMap};
use super::group::KernelDraft;
use super::translate::{ScatterTarget, StoredKind, StoredValue, TranslatedGraph};
use crate::layout::Layout;
use rustc_hash::{FxHashMap, FxHashSet};

/// The operations from which on an element is rather stored and loaded than computed by a second kernel.
pub(super) const MIN_FLOPS: u64 = 16;

/// Finds the dearest expressions that several kernels compute; `None` if there are none.
pub(super) fn find_shared(graph: &TranslatedGraph, drafts: &[KernelDraft]) -> Option<FxHashSet<ExpressionId>> {
    let shared = shared_expressions(graph, drafts, MIN_FLOPS);
    (!shared.is_empty()).then_some(shared)
}

/// Returns the expressions that several kernels compute and that take at least so many operations.
pub(super) fn shared_expressions(
    graph: &TranslatedGraph,
    drafts: &[KernelDraft],
    least: u64,
) -> FxHashSet<ExpressionId> {
    let mut users: FxHashMap<ExpressionId, u32> = FxHashMap::default();
    for draft in drafts {
        graph.arena.visit(&draft.roots(), |id| *users.entry(id).or_default() += 1);
    }
    let is_shared = |id: &ExpressionId| {
        let is_computed = matches!(graph.arena.get(*id).kind, ExpressionKind::Apply(..) | ExpressionKind::Random(..));
        users.get(id).is_some_and(|&n| n > 1) && is_computed && graph.arena.flops(*id) >= least
    };
    // Of expressions within each other, the outermost.
    let mut shared = FxHashSet::default();
    let mut seen = FxHashSet::default();
    let mut stack: Vec<ExpressionId> = drafts.iter().flat_map(KernelDraft::roots).collect();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        if is_shared(&id) && has_elements(&graph.arena, id) {
            shared.insert(id);
        } else if let ExpressionKind::Apply(_, operands) = &graph.arena.get(id).kind {
            stack.extend(operands);
        }
    }
    shared
}

/// Returns true if an expression depends on loads, and on no single element for all places.
fn has_elements(arena: &ExpressionArena, id: ExpressionId) -> bool {
    let mut found = false;
    arena.visit(&[id], |id| {
        found |= match &arena.get(id).kind {
            ExpressionKind::Load(_, layout) | ExpressionKind::Place(layout) | ExpressionKind::Gather { layout, .. } => {
                layout.strides.iter().zip(&layout.extents).any(|(&stride, &extent)| stride != 0 && extent > 1)
            }
            _ => false,
        };
    });
    found
}

/// Returns the graph with expressions stored before their first use, and loaded there.
pub(super) fn store_shared(graph: TranslatedGraph, shared: &FxHashSet<ExpressionId>) -> TranslatedGraph {
    let TranslatedGraph { arena, stored: old, outputs, inputs } = graph;
    let mut sharer = Sharer {
        arena,
        stored: Vec::new(),
        new_of: Vec::new(),
        shared,
        loads: FxHashMap::default(),
        rewritten: FxHashMap::default(),
    };
    for value in old {
        let value = sharer.rewrite(value);
        sharer.stored.push(value);
        sharer.new_of.push(sharer.stored.len() as u32 - 1);
    }
    let renamed = |(source, layout): (Source, Layout)| match source {
        Source::Stored(stored) => (Source::Stored(sharer.new_of[stored as usize]), layout),
        Source::Input(_) => (source, layout),
    };
    let outputs = outputs.into_iter().map(renamed).collect();
    TranslatedGraph { arena: sharer.arena, stored: sharer.stored, outputs, inputs }
}

struct Sharer<'s> {
    arena: ExpressionArena,
    stored: Vec<StoredValue>,
    /// The new places of stored values.
    new_of: Vec<u32>,
    shared: &'s FxHashSet<ExpressionId>,
    /// The stored values of shared expressions.
    loads: FxHashMap<ExpressionId, u32>,
    rewritten: FxHashMap<ExpressionId, ExpressionId>,
}

impl Sharer<'_> {
    fn rewrite(&mut self, mut value: StoredValue) -> StoredValue {
        value.kind = match value.kind {
            // What is stored anyway serves the others as well.
            StoredKind::Elementwise(id) if self.shared.contains(&id) && !self.loads.contains_key(&id) => {
                let own = self.operands(id, &value.extents);
                self.loads.insert(id, self.stored.len() as u32);
                StoredKind::Elementwise(own)
            }
            StoredKind::Elementwise(id) => StoredKind::Elementwise(self.expression(id, &value.extents)),
            StoredKind::Reduction { op, operands, space } => {
                let extents = [&space.outer[..], &space.inner[..]].concat();
                let operands = operands.into_iter().map(|id| self.expression(id, &extents)).collect();
                StoredKind::Reduction { op, operands, space }
            }
            StoredKind::Scan { op, operands, extents, layout } => {
                let operands = operands.into_iter().map(|id| self.expression(id, &extents)).collect();
                StoredKind::Scan { op, operands, extents, layout }
            }
            StoredKind::Scattered { base, updates, extents, layout, target } => {
                let base = self.expression(base, &value.extents);
                let updates = self.expression(updates, &extents);
                let target = ScatterTarget { index: self.expression(target.index, &extents), ..target };
                StoredKind::Scattered { base, updates, extents, layout, target }
            }
            StoredKind::Sorted { base, order } => {
                StoredKind::Sorted { base: self.expression(base, &value.extents), order }
            }
            StoredKind::Assembled { parts, fill } => {
                let rewrite = |(id, layout): (ExpressionId, Layout)| (self.expression(id, &layout.extents), layout);
                StoredKind::Assembled { parts: parts.into_iter().map(rewrite).collect(), fill }
            }
        };
        value
    }

    /// Rewrites an expression: loads what is shared, after storing it.
    fn expression(&mut self, id: ExpressionId, extents: &[u64]) -> ExpressionId {
        if !self.shared.contains(&id) {
            if let Some(&rewritten) = self.rewritten.get(&id) {
                return rewritten;
            }
            let rewritten = self.operands(id, extents);
            self.rewritten.insert(id, rewritten);
            return rewritten;
        }
        let dtype = self.arena.dtype(id);
        let stored = match self.loads.get(&id) {
            Some(&stored) => stored,
            None => {
                let own = self.operands(id, extents);
                let (own, extents) = self.without_repeats(own, extents);
                self.stored.push(StoredValue { dtype, extents, kind: StoredKind::Elementwise(own), is_output: false });
                let stored = self.stored.len() as u32 - 1;
                self.loads.insert(id, stored);
                stored
            }
        };
        let layout = Layout::dense(&self.stored[stored as usize].extents).broadcast_to(extents);
        self.arena.intern(ExpressionKind::Load(Source::Stored(stored), layout), dtype)
    }

    /// Returns an expression over its elements alone, and their extents: in a reduction by parts, the elements of a row are
    /// repeated for each part.
    fn without_repeats(&mut self, id: ExpressionId, extents: &[u64]) -> (ExpressionId, Vec<u64>) {
        let mut sizes = vec![1; extents.len()];
        self.arena.visit(&[id], |id| {
            if let ExpressionKind::Load(_, layout)
            | ExpressionKind::Place(layout)
            | ExpressionKind::Gather { layout, .. }
            | ExpressionKind::Combined { layout, .. } = &self.arena.get(id).kind
            {
                let varying = (0..sizes.len()).filter(|&axis| layout.strides[axis] != 0);
                varying.for_each(|axis| sizes[axis] = extents[axis]);
            }
        });
        let (starts, steps) = (vec![0; sizes.len()], vec![1; sizes.len()]);
        match self.arena.view(id, &ViewMap::Slice { starts, sizes: sizes.clone(), steps }) {
            Some(once) => (once, sizes),
            None => (id, extents.to_vec()),
        }
    }

    /// Rewrites the operands of an expression.
    fn operands(&mut self, id: ExpressionId, extents: &[u64]) -> ExpressionId {
        let expression = self.arena.get(id).clone();
        let kind = match expression.kind {
            ExpressionKind::Load(Source::Stored(stored), layout) => {
                ExpressionKind::Load(Source::Stored(self.new_of[stored as usize]), layout)
            }
            ExpressionKind::Gather { source, layout, index, n, stride } => {
                let source = match source {
                    Source::Stored(stored) => Source::Stored(self.new_of[stored as usize]),
                    input @ Source::Input(_) => input,
                };
                ExpressionKind::Gather { source, layout, index: self.expression(index, extents), n, stride }
            }
            ExpressionKind::Combined { op, order, source, layout, n, distance } => {
                let source = self.new_of[source as usize];
                ExpressionKind::Combined { op, order, source, layout, n, distance }
            }
            ExpressionKind::Apply(op, operands) => ExpressionKind::Apply(
                op,
                operands.into_iter().map(|operand| self.expression(operand, extents)).collect(),
            ),
            ExpressionKind::Random(op, seed, place) => {
                let seed = self.expression(seed, extents);
                ExpressionKind::Random(op, seed, self.expression(place, extents))
            }
            other => other,
        };
        self.arena.intern(kind, expression.dtype)
    }
}
