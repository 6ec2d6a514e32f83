//! `cp.async`: which bytes are read and written by copies that are on their way, and whose wait ends that.

use rustc_hash::FxHashMap;

/// An mbarrier's address and the parity of a phase.
type Phase = (u64, bool);

/// The copies of a block.
#[derive(Default)]
pub(super) struct Copies {
    /// By word of shared memory, what is written.
    targets: FxHashMap<u64, Copy>,
    /// By word of global memory, what is read; of several copies of one word the last.
    sources: FxHashMap<u64, Copy>,
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
    /// A thread begins to write at an offset of shared memory.
    pub(super) fn write(&mut self, thread: usize, offset: u64, size: u32) {
        begin(&mut self.targets, self.groups.get(&thread).copied(), thread, (offset, size));
    }

    /// A thread begins to read at an address of global memory.
    pub(super) fn read(&mut self, thread: usize, address: u64, size: u32) {
        begin(&mut self.sources, self.groups.get(&thread).copied(), thread, (address, size));
    }

    pub(super) fn commit(&mut self, thread: usize) {
        *self.groups.entry(thread).or_insert(0) += 1;
    }

    /// All but the last `left` groups of the thread are done, or, without a number, all copies, committed or not. Gives
    /// the offsets of the words that they wrote.
    pub(super) fn wait(&mut self, thread: usize, left: Option<u32>) -> Vec<u64> {
        let now = self.groups.get(&thread).copied().unwrap_or(0);
        let over = |copy: &Copy| copy.thread == thread && left.is_none_or(|left| copy.group.saturating_add(left) < now);
        let mut done = Vec::new();
        self.targets.retain(|word, copy| {
            let over = over(copy);
            if over {
                done.push(word * 4);
            }
            !over
        });
        self.sources.retain(|_, copy| !over(copy));
        done
    }

    /// The phase does not end before the thread's copies are done.
    pub(super) fn bind(&mut self, thread: usize, phase: Phase) {
        let copies = self.targets.values_mut().chain(self.sources.values_mut());
        for copy in copies.filter(|copy| copy.thread == thread) {
            if !copy.phases.contains(&phase) {
                copy.phases.push(phase);
            }
        }
    }

    /// The phase has ended, and with it the copies that it waited for.
    pub(super) fn complete(&mut self, phase: Phase) {
        self.targets.retain(|_, copy| !copy.phases.contains(&phase));
        self.sources.retain(|_, copy| !copy.phases.contains(&phase));
    }

    /// The thread whose copy to these bytes of shared memory nobody waited for.
    pub(super) fn writer(&self, offset: u64, size: u32) -> Option<usize> {
        under_way(&self.targets, offset, size)
    }

    /// The thread whose copy of these bytes of global memory nobody waited for.
    pub(super) fn reader(&self, address: u64, size: u32) -> Option<usize> {
        under_way(&self.sources, address, size)
    }
}

fn words((start, size): (u64, u32)) -> std::ops::Range<u64> {
    start / 4..(start + u64::from(size)).div_ceil(4)
}

fn begin(pending: &mut FxHashMap<u64, Copy>, group: Option<u32>, thread: usize, bytes: (u64, u32)) {
    for word in words(bytes) {
        pending.insert(word, Copy { thread, group: group.unwrap_or(0), phases: Vec::new() });
    }
}

fn under_way(pending: &FxHashMap<u64, Copy>, start: u64, size: u32) -> Option<usize> {
    if pending.is_empty() {
        return None;
    }
    words((start, size)).find_map(|word| pending.get(&word).map(|copy| copy.thread))
}
