//! `cp.async` and `cp.async.bulk`: which bytes are read and written by copies that are on their way, and whose wait ends
//! that.

use rustc_hash::FxHashMap;

/// An mbarrier's address and the parity of a phase.
type Phase = (u64, bool);

/// The copies of a cluster. Threads have their numbers among those of all its blocks.
#[derive(Default)]
pub(super) struct PendingCopies {
    /// The write of each generic word.
    targets: FxHashMap<u64, PendingCopy>,
    /// The read of each word; the last of several copies of one word.
    sources: FxHashMap<u64, PendingCopy>,
    /// The group each thread adds to now, and the bulk group.
    groups: FxHashMap<usize, u32>,
    bulk_groups: FxHashMap<usize, u32>,
}

/// Describes what a copy's end is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyEnd {
    /// A group of `cp.async`, or the phase of an mbarrier at which the thread arrives for its copies.
    Group,
    BulkGroup,
    /// The phase of an mbarrier of a bulk copy.
    Phase,
}

struct PendingCopy {
    thread: usize,
    end: CopyEnd,
    group: u32,
    /// The phases of mbarriers that end after it is done.
    phases: Vec<Phase>,
}

/// A copy that nobody waited for, as reports have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CopyUnderWay {
    /// Who began it.
    pub(super) thread: usize,
    /// It writes what is asked about.
    pub(super) writes: bool,
    pub(super) is_bulk: bool,
    /// Others than that thread may wait for it.
    pub(super) of_phase: bool,
}

impl PendingCopies {
    /// A thread begins to write some bytes.
    pub(super) fn write(&mut self, thread: usize, bytes: (u64, u32), end: CopyEnd) {
        let group = self.group(thread, end);
        begin(&mut self.targets, bytes, || PendingCopy { thread, end, group, phases: Vec::new() });
    }

    /// A thread begins to read some bytes.
    pub(super) fn read(&mut self, thread: usize, bytes: (u64, u32), end: CopyEnd) {
        let group = self.group(thread, end);
        begin(&mut self.sources, bytes, || PendingCopy { thread, end, group, phases: Vec::new() });
    }

    fn group(&self, thread: usize, end: CopyEnd) -> u32 {
        let groups = if end == CopyEnd::Group { &self.groups } else { &self.bulk_groups };
        groups.get(&thread).copied().unwrap_or(0)
    }

    pub(super) fn commit(&mut self, thread: usize) {
        *self.groups.entry(thread).or_insert(0) += 1;
    }

    pub(super) fn commit_bulk(&mut self, thread: usize) {
        *self.bulk_groups.entry(thread).or_insert(0) += 1;
    }

    /// All but the last `left` groups of the thread are done, or, without a number, all copies, committed or not. Gives
    /// the addresses of the words that they wrote.
    pub(super) fn wait(&mut self, thread: usize, left: Option<u32>) -> Vec<u64> {
        let now = self.group(thread, CopyEnd::Group);
        let over = |copy: &PendingCopy| {
            let is_own = copy.thread == thread && copy.end == CopyEnd::Group;
            is_own && left.is_none_or(|left| copy.group.saturating_add(left) < now)
        };
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

    /// All but the last `left` bulk groups of the thread are done, or have been read.
    pub(super) fn wait_bulk(&mut self, thread: usize, left: u32, only_reads: bool) {
        let now = self.group(thread, CopyEnd::BulkGroup);
        let over = |copy: &PendingCopy| {
            let is_own = copy.thread == thread && copy.end == CopyEnd::BulkGroup;
            is_own && copy.group.saturating_add(left) < now
        };
        self.sources.retain(|_, copy| !over(copy));
        if !only_reads {
            self.targets.retain(|_, copy| !over(copy));
        }
    }

    /// The phase does not end before the thread's copies are done.
    pub(super) fn bind(&mut self, thread: usize, phase: Phase) {
        self.bind_those(phase, |copy| copy.thread == thread && copy.end == CopyEnd::Group);
    }

    /// The phase does not end before the bulk copy is done that the thread has just begun.
    pub(super) fn bind_bulk(&mut self, thread: usize, phase: Phase) {
        self.bind_those(phase, |copy| copy.thread == thread && copy.end == CopyEnd::Phase && copy.phases.is_empty());
    }

    fn bind_those(&mut self, phase: Phase, those: impl Fn(&PendingCopy) -> bool) {
        let copies = self.targets.values_mut().chain(self.sources.values_mut());
        for copy in copies.filter(|copy| those(copy)) {
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

    /// A copy that nobody waited for and that writes some of these bytes, or, if they are to be written, reads some.
    pub(super) fn find(&self, address: u64, size: u32, to_write: bool) -> Option<CopyUnderWay> {
        let writer = under_way(&self.targets, address, size).map(|copy| (copy, true));
        let reader = || under_way(&self.sources, address, size).filter(|_| to_write).map(|copy| (copy, false));
        let (copy, writes) = writer.or_else(reader)?;
        let is_bulk = copy.end != CopyEnd::Group;
        Some(CopyUnderWay { thread: copy.thread, writes, is_bulk, of_phase: copy.end == CopyEnd::Phase })
    }
}

fn words((start, size): (u64, u32)) -> std::ops::Range<u64> {
    start / 4..(start + u64::from(size)).div_ceil(4)
}

fn begin(pending: &mut FxHashMap<u64, PendingCopy>, bytes: (u64, u32), copy: impl Fn() -> PendingCopy) {
    for word in words(bytes) {
        pending.insert(word, copy());
    }
}

fn under_way(pending: &FxHashMap<u64, PendingCopy>, start: u64, size: u32) -> Option<&PendingCopy> {
    if pending.is_empty() {
        return None;
    }
    words((start, size)).find_map(|word| pending.get(&word))
}
