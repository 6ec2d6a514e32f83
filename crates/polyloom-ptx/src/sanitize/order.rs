//! Which accesses come before which: what each thread knows of the others (PTX ISA 9.0 §8, memory consistency model).
//!
//! A barrier of the whole block begins a new phase, before which all threads of the block know everything. Within a
//! phase, a thread's clock counts its releases, and what it has learnt by warp synchronisation, partial barriers and
//! acquire patterns is kept by thread. Of other blocks a thread knows whole phases, and single threads up to a clock.

use crate::decode::op::{MemoryOrder, OrderScope};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Who, and when by its own time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThreadStamp {
    pub(super) block: u32,
    pub(super) thread: u16,
    pub(super) phase: u32,
    pub(super) clock: u32,
}

/// Describes what a thread has learnt.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct VectorClock {
    /// Phases of these blocks that are over.
    blocks: FxHashMap<u32, u32>,
    /// Phase and clock up to which these threads are known.
    threads: FxHashMap<(u32, u16), (u32, u32)>,
}

impl VectorClock {
    fn learn(&mut self, other: &VectorClock) {
        for (block, phase) in &other.blocks {
            let known = self.blocks.entry(*block).or_insert(0);
            *known = (*known).max(*phase);
        }
        for (thread, time) in &other.threads {
            let known = self.threads.entry(*thread).or_insert((0, 0));
            *known = (*known).max(*time);
        }
    }

    fn knows(&self, stamp: ThreadStamp) -> bool {
        self.blocks.get(&stamp.block).is_some_and(|phase| stamp.phase < *phase)
            || self.threads.get(&(stamp.block, stamp.thread)).is_some_and(|time| (stamp.phase, stamp.clock) <= *time)
    }
}

/// Describes what several threads know together.
#[derive(Clone, Default)]
struct GatheredClock {
    all: VectorClock,
    /// Knowledge that it has, of the last that came, so that that of many threads is one.
    recent: VecDeque<Arc<VectorClock>>,
}

impl GatheredClock {
    fn learn(&mut self, other: &Arc<VectorClock>) {
        const MOST: usize = 8;
        if self.recent.iter().any(|known| Arc::ptr_eq(known, other)) {
            return;
        }
        if self.recent.len() == MOST {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(other));
        self.all.learn(other);
    }
}

/// Describes what those that arrive at an mbarrier give to those that wait.
#[derive(Default)]
pub(super) struct MBarrierTime {
    /// The present one included of all phases until now.
    gathered: GatheredClock,
    /// Holds what each thread of a block knew when it arrived in the present phase, and in the last that is over.
    arrived: FxHashMap<(u32, usize), Arc<VectorClock>>,
    gave: FxHashMap<(u32, usize), Arc<VectorClock>>,
    /// Clock of the phases that are over.
    over: Arc<VectorClock>,
}

impl MBarrierTime {
    /// The present phase ends.
    pub(super) fn complete(&mut self) {
        self.over = Arc::new(self.gathered.all.clone());
        self.gathered.recent.clear();
        self.gathered.recent.push_back(Arc::clone(&self.over));
        self.gave = std::mem::take(&mut self.arrived);
    }
}

/// Describes what somebody gave away with a write, and how far it reaches.
#[derive(Clone, Debug)]
pub(super) struct ReleasedClock {
    knowledge: Arc<VectorClock>,
    scope: OrderScope,
    block: u32,
}

/// Describes what was published at addresses.
pub(super) type Board = FxHashMap<u64, Vec<ReleasedClock>>;

/// Returns true if an operation of `scope` in one block reaches another block, or its own, where clusters have so many
/// blocks.
pub(super) fn reaches(scope: OrderScope, from: u32, to: u32, cluster_blocks: u32) -> bool {
    match scope {
        _ if from == to => true,
        OrderScope::Block => false,
        OrderScope::Cluster => from / cluster_blocks == to / cluster_blocks,
        OrderScope::Device | OrderScope::System => true,
    }
}

#[derive(Clone, Default)]
struct ThreadTime {
    clock: u32,
    knowledge: Arc<VectorClock>,
    /// Holds what the last fence lets later writes publish.
    fenced: Option<(Arc<VectorClock>, OrderScope)>,
    /// Holds what relaxed reads have seen published, which the next fence acquires.
    seen: Vec<ReleasedClock>,
}

/// The time of one block.
pub(super) struct BlockTime {
    block: u32,
    /// Blocks of a cluster.
    cluster_blocks: u32,
    phase: u32,
    threads: Vec<ThreadTime>,
}

impl BlockTime {
    /// The time of a block, by its number in the order of clusters of so many blocks.
    pub(super) fn new((block, cluster_blocks): (u32, u32), threads: usize) -> Self {
        BlockTime {
            block,
            cluster_blocks,
            phase: 1,
            threads: vec![ThreadTime { clock: 1, ..ThreadTime::default() }; threads],
        }
    }

    /// Returns true if an operation of `scope` in one block reaches another.
    pub(super) fn reaches(&self, scope: OrderScope, from: u32, to: u32) -> bool {
        reaches(scope, from, to, self.cluster_blocks)
    }

    /// Now, for a thread.
    pub(super) fn stamp(&self, thread: usize) -> ThreadStamp {
        let clock = self.threads[thread].clock;
        ThreadStamp { block: self.block, thread: thread as u16, phase: self.phase, clock }
    }

    /// Returns true if what happened at `stamp` comes before what `thread` does now.
    pub(super) fn is_before(&self, stamp: ThreadStamp, thread: usize) -> bool {
        let here = stamp.block == self.block;
        here && (stamp.phase < self.phase || usize::from(stamp.thread) == thread)
            || self.threads[thread].knowledge.knows(stamp)
    }

    /// Returns what a thread can give away: what it knows, its block's past phases, and itself until now.
    pub(super) fn release(&mut self, thread: usize) -> Arc<VectorClock> {
        let stamp = self.stamp(thread);
        let mut knowledge = VectorClock::clone(&self.threads[thread].knowledge);
        knowledge.blocks.insert(self.block, self.phase);
        knowledge.threads.insert((self.block, stamp.thread), (stamp.phase, stamp.clock));
        self.threads[thread].clock += 1;
        Arc::new(knowledge)
    }

    fn learn(&mut self, thread: usize, other: &VectorClock) {
        let known = &mut self.threads[thread].knowledge;
        Arc::make_mut(known).learn(other);
    }

    /// Adds what a thread can give away to what others gave. Takes no longer than a step where threads know the same.
    fn give(&mut self, thread: usize, gathered: &mut GatheredClock) {
        let stamp = self.stamp(thread);
        gathered.learn(&self.threads[thread].knowledge);
        gathered.all.blocks.insert(self.block, self.phase);
        gathered.all.threads.insert((self.block, stamp.thread), (stamp.phase, stamp.clock));
        self.threads[thread].clock += 1;
    }

    /// A thread arrives at an mbarrier. `completes` tells that this ends the phase.
    pub(super) fn arrive(&mut self, mbarrier: &mut MBarrierTime, thread: usize, completes: bool) {
        mbarrier.arrived.insert((self.block, thread), Arc::clone(&self.threads[thread].knowledge));
        self.give(thread, &mut mbarrier.gathered);
        if completes {
            mbarrier.complete();
        }
    }

    /// A thread sees that a phase of an mbarrier is over, so that it knows what those that arrived knew.
    pub(super) fn wait(&mut self, mbarrier: &MBarrierTime, thread: usize) {
        let known = &mut self.threads[thread].knowledge;
        // Who arrived itself, and has learnt nothing since, gets no less than it has.
        let is_less = mbarrier.gave.get(&(self.block, thread)).is_some_and(|given| Arc::ptr_eq(given, known));
        if is_less {
            *known = Arc::clone(&mbarrier.over);
        } else if !Arc::ptr_eq(known, &mbarrier.over) {
            Arc::make_mut(known).learn(&mbarrier.over);
        }
    }

    /// Threads of a warp, or those at a partial barrier, come to know what each of them did, and what is `given` to
    /// them.
    pub(super) fn join(&mut self, threads: &[usize], given: &[Arc<VectorClock>]) {
        let mut gathered = GatheredClock::default();
        given.iter().for_each(|given| gathered.learn(given));
        threads.iter().for_each(|thread| self.give(*thread, &mut gathered));
        let mut all = gathered.all;
        // Past phases of the own block are left out, since they are known anyhow.
        all.blocks.remove(&self.block);
        let phase = self.phase;
        let block = self.block;
        all.threads.retain(|(of, _), (then, _)| *of != block || *then == phase);
        let all = Arc::new(all);
        for thread in threads {
            self.threads[*thread].knowledge = Arc::clone(&all);
        }
    }

    /// A barrier of all threads.
    pub(super) fn next_phase(&mut self) {
        let mut gathered = GatheredClock::default();
        self.threads.iter().for_each(|thread| gathered.learn(&thread.knowledge));
        let mut all = gathered.all;
        let block = self.block;
        all.threads.retain(|(of, _), _| *of != block);
        let all = Arc::new(all);
        for thread in &mut self.threads {
            thread.knowledge = Arc::clone(&all);
        }
        self.phase += 1;
    }

    pub(super) fn fence(&mut self, thread: usize, scope: OrderScope) {
        for published in std::mem::take(&mut self.threads[thread].seen) {
            if self.reaches(scope, published.block, self.block) {
                self.learn(thread, &published.knowledge);
            }
        }
        let released = self.release(thread);
        self.threads[thread].fenced = Some((released, scope));
    }

    /// A strong access of a place: takes what is published there if it reads, and publishes if it writes.
    pub(super) fn strong(
        &mut self,
        board: &mut Board,
        address: u64,
        thread: usize,
        order: MemoryOrder,
        how: (bool, bool),
    ) {
        let (reads, writes) = how;
        if reads {
            let found: Vec<ReleasedClock> = board.get(&address).cloned().unwrap_or_default();
            for published in found {
                let both = self.reaches(published.scope, published.block, self.block)
                    && self.reaches(order.scope, published.block, self.block);
                if !both {
                    continue;
                }
                if order.acquire {
                    self.learn(thread, &published.knowledge);
                } else {
                    let seen = &mut self.threads[thread].seen;
                    // Clocks seen before are not added, because a loop that waits sees the same again and again.
                    if !seen.iter().any(|each| Arc::ptr_eq(&each.knowledge, &published.knowledge)) {
                        seen.push(published);
                    }
                }
            }
        }
        if writes {
            let entry = board.entry(address).or_default();
            // A plain write clears the entry, because only a read-modify-write continues what others published.
            if !reads {
                entry.clear();
            }
            let published = if order.release {
                Some((self.release(thread), order.scope))
            } else {
                self.threads[thread].fenced.clone().map(|(knowledge, scope)| (knowledge, scope.min(order.scope)))
            };
            if let Some((knowledge, scope)) = published {
                entry.push(ReleasedClock { knowledge, scope, block: self.block });
                compact(entry);
            }
        }
    }
}

/// Keeps a place's list short, so that entries of the same block and scope are one.
fn compact(entries: &mut Vec<ReleasedClock>) {
    const MOST: usize = 8;
    if entries.len() <= MOST {
        return;
    }
    let mut kept: Vec<ReleasedClock> = Vec::new();
    for entry in entries.drain(..) {
        match kept
            .iter_mut()
            .find(|each| each.scope == entry.scope && (entry.scope >= OrderScope::Device || each.block == entry.block))
        {
            Some(each) => Arc::make_mut(&mut each.knowledge).learn(&entry.knowledge),
            None => kept.push(entry),
        }
    }
    *entries = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_meet_at_an_mbarrier_share_what_they_know() {
        // That takes a step for each, however many they are.
        let mut time = BlockTime::new((0, 1), 64);
        let mut mbarrier = MBarrierTime::default();
        for phase in 0..3 {
            let before = time.stamp(0);
            (0..64).for_each(|thread| time.arrive(&mut mbarrier, thread, thread == 63));
            assert!(!time.is_before(before, 1), "phase {phase}");
            (0..64).for_each(|thread| time.wait(&mbarrier, thread));
            assert!((0..64).all(|thread| time.is_before(before, thread)), "phase {phase}");
            let known = |thread: usize| &time.threads[thread].knowledge;
            assert!((1..64).all(|thread| Arc::ptr_eq(known(0), known(thread))), "phase {phase}");
            assert!(!time.is_before(time.stamp(0), 1), "phase {phase}");
        }
        // So do those that meet at a barrier then.
        time.join(&(0..32).collect::<Vec<_>>(), &[]);
        time.next_phase();
        assert!((1..64).all(|thread| Arc::ptr_eq(&time.threads[0].knowledge, &time.threads[thread].knowledge)));
    }

    #[test]
    fn who_has_learnt_something_since_it_arrived_keeps_it() {
        let mut time = BlockTime::new((0, 1), 3);
        let mut mbarrier = MBarrierTime::default();
        time.arrive(&mut mbarrier, 0, false);
        let late = time.stamp(2);
        time.join(&[0, 2], &[]);
        let early = time.stamp(1);
        time.arrive(&mut mbarrier, 1, true);
        time.wait(&mbarrier, 0);
        assert!(time.is_before(late, 0) && time.is_before(early, 0));
        assert!(!time.is_before(late, 1));
    }
}
