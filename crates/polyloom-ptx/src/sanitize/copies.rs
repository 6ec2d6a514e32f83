//! `cp.async`: which bytes of shared memory are on their way, and whose wait ends that.

use rustc_hash::FxHashMap;

/// An mbarrier's address and the parity of a phase.
type Phase = (u64, bool);

/// The copies of a block.
#[derive(Default)]
pub(super) struct Copies {
    /// By word of shared memory.
    pending: FxHashMap<u64, Copy>,
    /// The group each thread adds to now.
    groups: FxHashMap<usize, u32>,
}

struct Copy {
    thread: usize,
    group: u32,
    /// The phases of mbarriers that end after it is done.
    phases: Vec<Phase>,
}

impl Copies {
    pub(super) fn begin(&mut self, thread: usize, offset: u64, size: u32) {
        let group = self.groups.get(&thread).copied().unwrap_or(0);
        for word in offset / 4..(offset + u64::from(size)).div_ceil(4) {
            self.pending.insert(word, Copy { thread, group, phases: Vec::new() });
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
        self.pending.retain(|word, copy| {
            let over = copy.thread == thread && left.is_none_or(|left| copy.group.saturating_add(left) < now);
            if over {
                done.push(word * 4);
            }
            !over
        });
        done
    }

    /// The phase does not end before the thread's copies are done.
    pub(super) fn bind(&mut self, thread: usize, phase: Phase) {
        for copy in self.pending.values_mut().filter(|copy| copy.thread == thread) {
            if !copy.phases.contains(&phase) {
                copy.phases.push(phase);
            }
        }
    }

    /// The phase has ended, and with it the copies that it waited for.
    pub(super) fn complete(&mut self, phase: Phase) {
        self.pending.retain(|_, copy| !copy.phases.contains(&phase));
    }

    /// The thread whose copy to these bytes nobody waited for.
    pub(super) fn under_way(&self, offset: u64, size: u32) -> Option<usize> {
        if self.pending.is_empty() {
            return None;
        }
        (offset / 4..(offset + u64::from(size)).div_ceil(4))
            .find_map(|word| self.pending.get(&word).map(|copy| copy.thread))
    }
}
