//! The buffers of a plan.

use crate::plan::expression::{ExpressionKind, Source};
use crate::plan::group::KernelDraft;
use crate::plan::translate::TranslatedGraph;
use crate::plan::{BufferKind, PlanBuffer};
use rustc_hash::{FxHashMap, FxHashSet};

/// The buffers of a plan, those of stored values as they are needed.
pub(super) struct PlanBuffers {
    pub(super) buffers: Vec<PlanBuffer>,
    of_stored: FxHashMap<u32, usize>,
    /// The kernels that load a stored value from memory.
    readers: FxHashMap<u32, FxHashSet<usize>>,
}

impl PlanBuffers {
    pub(super) fn new(graph: &TranslatedGraph) -> PlanBuffers {
        let input = |(index, ty): (usize, &crate::graph::TensorType)| PlanBuffer {
            dtype: ty.dtype,
            n_elements: ty.shape.n_elements().unwrap_or(0),
            kind: BufferKind::Input(index),
        };
        let buffers = graph.inputs.iter().enumerate().map(input).collect();
        PlanBuffers { buffers, of_stored: FxHashMap::default(), readers: FxHashMap::default() }
    }

    pub(super) fn note_reads(&mut self, graph: &TranslatedGraph, index: usize, draft: &KernelDraft) {
        graph.arena.visit(&draft.roots(), |id| {
            if let ExpressionKind::Load(Source::Stored(stored), _)
            | ExpressionKind::Gather { source: Source::Stored(stored), .. }
            | ExpressionKind::Combined { source: stored, .. } = &graph.arena.get(id).kind
            {
                self.readers.entry(*stored).or_default().insert(index);
            }
        });
    }

    /// Returns true if a value that a kernel computes is read by others, or is an output.
    pub(super) fn is_needed(&self, graph: &TranslatedGraph, stored: u32, draft: usize) -> bool {
        let is_read = self.readers.get(&stored).is_some_and(|readers| readers.iter().any(|&reader| reader != draft));
        is_read || graph.stored[stored as usize].is_output
    }

    pub(super) fn buffer(&mut self, graph: &TranslatedGraph, source: Source) -> usize {
        let stored = match source {
            Source::Input(index) => return index as usize,
            Source::Stored(stored) => stored,
        };
        *self.of_stored.entry(stored).or_insert_with(|| {
            let value = &graph.stored[stored as usize];
            let kind = if value.is_output { BufferKind::Output } else { BufferKind::Temporary };
            self.buffers.push(PlanBuffer { dtype: value.dtype, n_elements: value.extents.iter().product(), kind });
            self.buffers.len() - 1
        })
    }
}
