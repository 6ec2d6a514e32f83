//! Which accesses come before which: what each thread knows of the others (PTX ISA 9.0 §8, memory consistency model).
//!
//! A barrier of the whole block begins a new phase, before which all threads of the block know everything. Within a
//! phase, a thread's clock counts its releases, and what it has learnt by warp synchronisation, partial barriers and
//! acquire patterns is kept by thread. Of other blocks a thread knows whole phases, and single threads up to a clock.

use crate::decode::op::{Order, Scope};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Who, and when by its own time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) block: u32,
    pub(super) thread: u16,
    pub(super) phase: u32,
    pub(super) clock: u32,
}

/// What a thread has learnt.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Knowledge {
    /// Of these blocks, all phases before.
    blocks: FxHashMap<u32, u32>,
    /// Of these threads, all up to that phase and clock.
    threads: FxHashMap<(u32, u16), (u32, u32)>,
}

impl Knowledge {
    fn learn(&mut self, other: &Knowledge) {
        for (block, phase) in &other.blocks {
            let known = self.blocks.entry(*block).or_insert(0);
            *known = (*known).max(*phase);
        }
        for (thread, time) in &other.threads {
            let known = self.threads.entry(*thread).or_insert((0, 0));
            *known = (*known).max(*time);
        }
    }

    fn knows(&self, stamp: Stamp) -> bool {
        self.blocks.get(&stamp.block).is_some_and(|phase| stamp.phase < *phase)
            || self.threads.get(&(stamp.block, stamp.thread)).is_some_and(|time| (stamp.phase, stamp.clock) <= *time)
    }
}

/// What somebody gave away with a write, and how far it reaches.
#[derive(Clone, Debug)]
pub(super) struct Published {
    knowledge: Arc<Knowledge>,
    scope: Scope,
    block: u32,
}

/// What was published at addresses.
pub(super) type Board = FxHashMap<u64, Vec<Published>>;

/// Whether an operation of `scope` in one block reaches another block, or its own.
pub(super) fn reaches(scope: Scope, from: u32, to: u32) -> bool {
    from == to || scope >= Scope::Device
}

#[derive(Clone, Default)]
struct ThreadTime {
    clock: u32,
    knowledge: Arc<Knowledge>,
    /// What the last fence lets later writes publish.
    fenced: Option<(Arc<Knowledge>, Scope)>,
    /// What relaxed reads have seen published, which the next fence acquires.
    seen: Vec<Published>,
}

/// The time of one block.
pub(super) struct BlockTime {
    block: u32,
    phase: u32,
    threads: Vec<ThreadTime>,
}

impl BlockTime {
    pub(super) fn new(block: u32, threads: usize) -> Self {
        BlockTime { block, phase: 1, threads: vec![ThreadTime { clock: 1, ..ThreadTime::default() }; threads] }
    }

    /// Now, for a thread.
    pub(super) fn stamp(&self, thread: usize) -> Stamp {
        let clock = self.threads[thread].clock;
        Stamp { block: self.block, thread: thread as u16, phase: self.phase, clock }
    }

    /// Whether what happened at `stamp` comes before what `thread` does now.
    pub(super) fn is_before(&self, stamp: Stamp, thread: usize) -> bool {
        let here = stamp.block == self.block;
        here && (stamp.phase < self.phase || usize::from(stamp.thread) == thread)
            || self.threads[thread].knowledge.knows(stamp)
    }

    /// What a thread can give away: what it knows, its block's past phases, and itself until now.
    pub(super) fn release(&mut self, thread: usize) -> Arc<Knowledge> {
        let stamp = self.stamp(thread);
        let mut knowledge = Knowledge::clone(&self.threads[thread].knowledge);
        knowledge.blocks.insert(self.block, self.phase);
        knowledge.threads.insert((self.block, stamp.thread), (stamp.phase, stamp.clock));
        self.threads[thread].clock += 1;
        Arc::new(knowledge)
    }

    fn learn(&mut self, thread: usize, other: &Knowledge) {
        let known = &mut self.threads[thread].knowledge;
        Arc::make_mut(known).learn(other);
    }

    /// Threads of a warp, or those at a partial barrier, come to know what each of them did, and what is `given` to
    /// them.
    pub(super) fn join(&mut self, threads: &[usize], given: &[Arc<Knowledge>]) {
        let mut all = Knowledge::default();
        given.iter().for_each(|given| all.learn(given));
        for thread in threads {
            let released = self.release(*thread);
            all.learn(&released);
        }
        // Of the own block, past phases are known anyhow.
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
        let mut all = Knowledge::default();
        for thread in &self.threads {
            if !thread.knowledge.blocks.is_empty() || !thread.knowledge.threads.is_empty() {
                all.learn(&thread.knowledge);
            }
        }
        let block = self.block;
        all.threads.retain(|(of, _), _| *of != block);
        let all = Arc::new(all);
        for thread in &mut self.threads {
            thread.knowledge = Arc::clone(&all);
        }
        self.phase += 1;
    }

    pub(super) fn fence(&mut self, thread: usize, scope: Scope) {
        for published in std::mem::take(&mut self.threads[thread].seen) {
            if reaches(scope, published.block, self.block) {
                self.learn(thread, &published.knowledge);
            }
        }
        let released = self.release(thread);
        self.threads[thread].fenced = Some((released, scope));
    }

    /// A strong access of a place: takes what is published there if it reads, and publishes if it writes.
    pub(super) fn strong(&mut self, board: &mut Board, address: u64, thread: usize, order: Order, how: (bool, bool)) {
        let (reads, writes) = how;
        if reads {
            let found: Vec<Published> = board.get(&address).cloned().unwrap_or_default();
            for published in found {
                let both = reaches(published.scope, published.block, self.block)
                    && reaches(order.scope, published.block, self.block);
                if !both {
                    continue;
                }
                if order.acquire {
                    self.learn(thread, &published.knowledge);
                } else {
                    let seen = &mut self.threads[thread].seen;
                    // A loop that waits sees the same again and again.
                    if !seen.iter().any(|each| Arc::ptr_eq(&each.knowledge, &published.knowledge)) {
                        seen.push(published);
                    }
                }
            }
        }
        if writes {
            let entry = board.entry(address).or_default();
            // A read-modify-write continues what others published; a plain write ends it.
            if !reads {
                entry.clear();
            }
            let published = if order.release {
                Some((self.release(thread), order.scope))
            } else {
                self.threads[thread].fenced.clone().map(|(knowledge, scope)| (knowledge, scope.min(order.scope)))
            };
            if let Some((knowledge, scope)) = published {
                entry.push(Published { knowledge, scope, block: self.block });
                compact(entry);
            }
        }
    }
}

/// Keeps a place's list short: entries of the same block and scope are one.
fn compact(entries: &mut Vec<Published>) {
    const MOST: usize = 8;
    if entries.len() <= MOST {
        return;
    }
    let mut kept: Vec<Published> = Vec::new();
    for entry in entries.drain(..) {
        match kept
            .iter_mut()
            .find(|each| each.scope == entry.scope && (entry.scope >= Scope::Device || each.block == entry.block))
        {
            Some(each) => Arc::make_mut(&mut each.knowledge).learn(&entry.knowledge),
            None => kept.push(entry),
        }
    }
    *entries = kept;
}
