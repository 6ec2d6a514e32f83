//! `cp.async`: which bytes of shared memory are on their way, and whose wait ends that.

use rustc_hash::FxHashMap;

/// The copies of a block.
#[derive(Default)]
pub(super) struct Copies {
    /// By word of shared memory: the thread and its group.
    pending: FxHashMap<u64, (usize, u32)>,
    /// The group each thread adds to now.
    groups: FxHashMap<usize, u32>,
}

impl Copies {
    pub(super) fn begin(&mut self, thread: usize, offset: u64, size: u32) {
        let group = self.groups.get(&thread).copied().unwrap_or(0);
        for word in offset / 4..(offset + u64::from(size)).div_ceil(4) {
            self.pending.insert(word, (thread, group));
        }
    }

    pub(super) fn commit(&mut self, thread: usize) {
        *self.groups.entry(thread).or_insert(0) += 1;
    }

    /// All but the last `left` groups of the thread are done, or, without a number, all copies, committed or not. Gives
    /// the offsets of the words.
    pub(super) fn wait(&mut self, thread: usize, left: Option<u32>) -> Vec<u64> {
        let now = self.groups.get(&thread).copied().unwrap_or(0);
        let mut done = Vec::new();
        self.pending.retain(|word, (of, group)| {
            let over = *of == thread && left.is_none_or(|left| group.saturating_add(left) < now);
            if over {
                done.push(word * 4);
            }
            !over
        });
        done
    }

    /// The thread whose copy to these bytes nobody waited for.
    pub(super) fn under_way(&self, offset: u64, size: u32) -> Option<usize> {
        if self.pending.is_empty() {
            return None;
        }
        (offset / 4..(offset + u64::from(size)).div_ceil(4))
            .find_map(|word| self.pending.get(&word).map(|(thread, _)| *thread))
    }
}
