//! Who accessed which bytes last, and whether the next access is ordered after that.
//!
//! Memory is watched by words of four bytes, each with its last write and the reads since that no later read is ordered
//! after; words that are accessed in part are watched by byte. Lanes of a warp that read by one instruction are one
//! record. Of a word at most [`MAX_READS`] records are kept, more than a block has warps: where more read what nothing
//! orders, the oldest of the block with the most are forgotten, and a race with those alone is not found.

use super::order::{BlockTime, ThreadStamp};
use crate::decode::op::{MemoryOrder, OrderScope};
use crate::exec::registers::{LANES, lanes_of};
use rustc_hash::FxHashMap;

/// Words in a page of the table.
const PAGE: u64 = 64;
/// Pages of a table; with all of them it takes some 2 GiB of the host.
const MAX_PAGES: usize = if cfg!(test) { 8 } else { 1 << 19 };
/// Records of reads of a word.
const MAX_READS: usize = 64;

/// An access that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AccessRecord {
    /// The first of its threads.
    pub(super) stamp: ThreadStamp,
    /// Lanes of that thread's warp that did the same at the same time.
    lanes: u32,
    pub(super) inst: u32,
    pub(super) writes: bool,
    strong: bool,
    scope: OrderScope,
}

impl AccessRecord {
    pub(super) fn new(stamp: ThreadStamp, inst: u32, writes: bool, order: MemoryOrder) -> Self {
        let lanes = 1 << (usize::from(stamp.thread) % LANES);
        AccessRecord { stamp, lanes, inst, writes, strong: order.strong, scope: order.scope }
    }

    /// Two strong accesses are no race if each reaches the other's block (PTX ISA 9.0 §8.7.1, "morally strong").
    fn is_fine_with(&self, other: &AccessRecord, time: &BlockTime) -> bool {
        let (a, b) = (self.stamp.block, other.stamp.block);
        self.strong && other.strong && time.reaches(self.scope, a, b) && time.reaches(other.scope, a, b)
    }

    /// The record of its first thread that is not before what `thread` does now.
    fn unordered(&self, time: &BlockTime, thread: usize) -> Option<AccessRecord> {
        let warp = usize::from(self.stamp.thread) / LANES;
        lanes_of(self.lanes)
            .map(|lane| AccessRecord {
                stamp: ThreadStamp { thread: (warp * LANES + lane) as u16, ..self.stamp },
                ..*self
            })
            .find(|single| !time.is_before(single.stamp, thread))
    }

    /// Makes it stand for the read `other` of one lane, if that lane read at the same time already, or others of its
    /// warp by the same instruction.
    fn join(&mut self, other: &AccessRecord) -> bool {
        let warp = |record: &AccessRecord| usize::from(record.stamp.thread) / LANES;
        let stamp = ThreadStamp { thread: other.stamp.thread, ..self.stamp };
        let alike = AccessRecord { stamp, lanes: other.lanes, inst: other.inst, ..*self } == *other;
        let joins = warp(self) == warp(other) && alike && (self.inst == other.inst || self.lanes & other.lanes != 0);
        self.lanes |= if joins { other.lanes } else { 0 };
        joins
    }

    /// Returns true if whatever is ordered after the read `self`, or may race with it, is so with the earlier read
    /// `other`.
    fn covers(&self, other: &AccessRecord, time: &BlockTime, thread: usize) -> bool {
        let as_strong = !self.strong || other.strong && other.scope >= self.scope;
        as_strong && other.unordered(time, thread).is_none()
    }
}

/// Words that one instruction accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordAccess {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) inst: u32,
    pub(crate) writes: bool,
    /// True of atomics and other accesses that are no race among themselves.
    pub(crate) strong: bool,
}

#[derive(Clone, Default)]
enum ReadRecords {
    #[default]
    None,
    One(AccessRecord),
    Many(Vec<AccessRecord>),
}

impl ReadRecords {
    fn as_slice(&self) -> &[AccessRecord] {
        match self {
            ReadRecords::None => &[],
            ReadRecords::One(read) => std::slice::from_ref(read),
            ReadRecords::Many(all) => all,
        }
    }

    fn add(&mut self, record: AccessRecord, time: &BlockTime, thread: usize) {
        match self {
            ReadRecords::None => *self = ReadRecords::One(record),
            ReadRecords::One(read) => {
                if record.covers(read, time, thread) {
                    *read = record;
                } else if !read.join(&record) {
                    *self = ReadRecords::Many(vec![*read, record]);
                }
            }
            ReadRecords::Many(all) => {
                if all.iter_mut().rev().any(|read| read.join(&record)) {
                    return;
                }
                all.retain(|read| !record.covers(read, time, thread));
                if all.len() == MAX_READS {
                    let of_block = |block: u32| all.iter().filter(|read| read.stamp.block == block).count();
                    // The oldest comes last from the back, because `max_by_key` takes the last of equals.
                    let oldest = (0..all.len()).rev().max_by_key(|index| of_block(all[*index].stamp.block));
                    all.remove(oldest.unwrap_or(0));
                }
                all.push(record);
            }
        }
    }
}

#[derive(Clone, Default)]
struct ShadowCell {
    write: Option<AccessRecord>,
    reads: ReadRecords,
}

impl ShadowCell {
    /// Returns what the access races with, if anything; then it is remembered. `same` tells that it writes what another
    /// wrote.
    fn access(
        &mut self,
        time: &BlockTime,
        thread: usize,
        record: AccessRecord,
        same: impl Fn(&AccessRecord) -> bool,
    ) -> Option<AccessRecord> {
        let unordered = |other: &AccessRecord| {
            let fine = record.is_fine_with(other, time) || other.writes && record.writes && same(other);
            if fine { None } else { other.unordered(time, thread) }
        };
        let mut race = self.write.as_ref().and_then(unordered);
        if record.writes {
            // One with another block says more, because a barrier of the block is no remedy.
            let mut others = self.reads.as_slice().iter().filter_map(unordered).peekable();
            let is_far = |other: &AccessRecord| other.stamp.block != record.stamp.block;
            if !race.as_ref().is_some_and(is_far) {
                let first = others.peek().copied();
                race = others.find(is_far).or(race).or(first);
            }
            *self = ShadowCell { write: Some(record), reads: ReadRecords::None };
        } else {
            self.reads.add(record, time, thread);
        }
        race
    }
}

#[derive(Clone)]
enum ShadowWord {
    Whole(ShadowCell),
    Bytes(Box<[ShadowCell; 4]>),
}

impl Default for ShadowWord {
    fn default() -> Self {
        ShadowWord::Whole(ShadowCell::default())
    }
}

/// The words of some memory, by address.
#[derive(Default)]
pub(super) struct ShadowMemory {
    pages: FxHashMap<u64, Vec<ShadowWord>>,
}

impl ShadowMemory {
    /// Returns true if it has as many words as it may, so that accesses elsewhere cannot be watched.
    pub(super) fn is_full(&self) -> bool {
        self.pages.len() >= MAX_PAGES
    }

    fn word(&mut self, address: u64) -> &mut ShadowWord {
        let word = address / 4;
        let page = self.pages.entry(word / PAGE).or_insert_with(|| vec![ShadowWord::default(); PAGE as usize]);
        &mut page[(word % PAGE) as usize]
    }

    /// An access of bytes: what it races with and where. `same(at, other)` tells that byte `at` of what is written is
    /// what another wrote there.
    pub(super) fn access(
        &mut self,
        time: &BlockTime,
        thread: usize,
        (address, size): (u64, u32),
        record: AccessRecord,
        same: &dyn Fn(usize, &AccessRecord) -> bool,
    ) -> Option<(AccessRecord, u64)> {
        let mut race = None;
        let end = address + u64::from(size);
        let mut at = address;
        while at < end {
            let next = ((at / 4 + 1) * 4).min(end);
            let word = self.word(at);
            let whole = next - at == 4;
            if let (false, ShadowWord::Whole(cell)) = (whole, &*word) {
                *word = ShadowWord::Bytes(Box::new(std::array::from_fn(|_| cell.clone())));
            }
            let found = match word {
                ShadowWord::Whole(cell) => {
                    let bytes = (at - address) as usize..(next - address) as usize;
                    cell.access(time, thread, record, |other| bytes.clone().all(|byte| same(byte, other)))
                }
                ShadowWord::Bytes(cells) => (at..next).fold(None, |found, byte| {
                    let cell = &mut cells[(byte % 4) as usize];
                    let race = cell.access(time, thread, record, |other| same((byte - address) as usize, other));
                    found.or(race)
                }),
            };
            if race.is_none() {
                race = found.map(|record| (record, at));
            }
            at = next;
        }
        race
    }

    /// Returns the words that were accessed, sorted, each with its last write or else a read. Neighbours that one instruction
    /// accessed alike are one.
    pub(super) fn footprint(&self) -> Vec<WordAccess> {
        let mut numbers: Vec<u64> = self.pages.keys().copied().collect();
        numbers.sort_unstable();
        let mut found: Vec<WordAccess> = Vec::new();
        let words = numbers.iter().flat_map(|number| (number * PAGE..).zip(&self.pages[number]));
        for (word, accessed) in words {
            let of_cell = |cell: &ShadowCell| cell.write.or(cell.reads.as_slice().first().copied());
            let record = match accessed {
                ShadowWord::Whole(cell) => of_cell(cell),
                ShadowWord::Bytes(cells) => cells.iter().filter_map(of_cell).max_by_key(|record| record.writes),
            };
            let Some(AccessRecord { inst, writes, strong, .. }) = record else { continue };
            let access = WordAccess { start: 4 * word, end: 4 * word + 4, inst, writes, strong };
            match found.last_mut() {
                Some(last)
                    if last.end == access.start
                        && WordAccess { start: last.start, ..access } == WordAccess { end: access.end, ..*last } =>
                {
                    last.end = access.end;
                }
                _ => found.push(access),
            }
        }
        found
    }

    /// Forgets what was done with some bytes, which begin with a word.
    pub(super) fn forget(&mut self, address: u64, n_bytes: u64) {
        let words = address / 4..(address + n_bytes).div_ceil(4);
        for word in words {
            if let Some(page) = self.pages.get_mut(&(word / PAGE)) {
                page[(word % PAGE) as usize] = ShadowWord::default();
            }
        }
    }

    /// The last write of a word counts as made now, so that an asynchronous copy has ended.
    pub(super) fn written_now(&mut self, address: u64, stamp: ThreadStamp) {
        let touch = |cell: &mut ShadowCell| {
            if let Some(write) = &mut cell.write
                && write.stamp.thread == stamp.thread
                && write.stamp.block == stamp.block
            {
                write.stamp = stamp;
            }
        };
        match self.word(address) {
            ShadowWord::Whole(cell) => touch(cell),
            ShadowWord::Bytes(cells) => cells.iter_mut().for_each(touch),
        }
    }
}
