//! Who accessed which bytes last, and whether the next access is ordered after that.
//!
//! Memory is watched by words of four bytes, each with its last write and two of the reads since; words that are
//! accessed in part are watched by byte. Two reads suffice to find a race of some read with a later write, whoever
//! makes that.

use super::order::{BlockTime, Stamp, reaches};
use crate::decode::op::{Order, Scope};
use rustc_hash::FxHashMap;

/// Words in a page of the table.
const PAGE: u64 = 64;

/// An access that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) stamp: Stamp,
    pub(super) inst: u32,
    pub(super) writes: bool,
    strong: bool,
    scope: Scope,
}

impl Record {
    pub(super) fn new(stamp: Stamp, inst: u32, writes: bool, order: Order) -> Self {
        Record { stamp, inst, writes, strong: order.strong, scope: order.scope }
    }

    /// Two strong accesses are no race if each reaches the other's block (PTX ISA 9.0 §8.7.1, "morally strong").
    fn is_fine_with(&self, other: &Record) -> bool {
        let (a, b) = (self.stamp.block, other.stamp.block);
        self.strong && other.strong && reaches(self.scope, a, b) && reaches(other.scope, a, b)
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Option<Record>,
    reads: [Option<Record>; 2],
}

impl Cell {
    /// What the access races with, if anything; then it is remembered. `same` tells that it writes what another wrote.
    fn access(
        &mut self,
        time: &BlockTime,
        thread: usize,
        record: Record,
        same: impl Fn(&Record) -> bool,
    ) -> Option<Record> {
        let unordered = |other: &Record| {
            let fine = time.is_before(other.stamp, thread) || record.is_fine_with(other);
            !(fine || other.writes && record.writes && same(other))
        };
        let mut race = self.write.filter(unordered);
        if record.writes {
            race = race.or_else(|| self.reads.into_iter().flatten().find(unordered));
            *self = Cell { write: Some(record), reads: [None; 2] };
            return race;
        }
        let free = self.reads.iter().position(|read| {
            read.is_none_or(|read| read.stamp.thread == record.stamp.thread || time.is_before(read.stamp, thread))
        });
        if let Some(free) = free {
            self.reads[free] = Some(record);
        }
        race
    }
}

#[derive(Clone)]
enum Word {
    Whole(Cell),
    Bytes(Box<[Cell; 4]>),
}

impl Default for Word {
    fn default() -> Self {
        Word::Whole(Cell::default())
    }
}

/// The words of some memory, by address.
#[derive(Default)]
pub(super) struct Shadow {
    pages: FxHashMap<u64, Vec<Word>>,
}

impl Shadow {
    fn word(&mut self, address: u64) -> &mut Word {
        let word = address / 4;
        let page = self.pages.entry(word / PAGE).or_insert_with(|| vec![Word::default(); PAGE as usize]);
        &mut page[(word % PAGE) as usize]
    }

    /// An access of bytes: what it races with and where. `same(at, other)` tells that byte `at` of what is written is
    /// what another wrote there.
    pub(super) fn access(
        &mut self,
        time: &BlockTime,
        thread: usize,
        (address, size): (u64, u32),
        record: Record,
        same: &dyn Fn(usize, &Record) -> bool,
    ) -> Option<(Record, u64)> {
        let mut race = None;
        let end = address + u64::from(size);
        let mut at = address;
        while at < end {
            let next = ((at / 4 + 1) * 4).min(end);
            let word = self.word(at);
            let whole = next - at == 4;
            if let (false, Word::Whole(cell)) = (whole, &*word) {
                *word = Word::Bytes(Box::new([*cell; 4]));
            }
            let found = match word {
                Word::Whole(cell) => {
                    let bytes = (at - address) as usize..(next - address) as usize;
                    cell.access(time, thread, record, |other| bytes.clone().all(|byte| same(byte, other)))
                }
                Word::Bytes(cells) => (at..next).fold(None, |found, byte| {
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

    /// The last write of a word counts as made now: an asynchronous copy has ended.
    pub(super) fn written_now(&mut self, address: u64, stamp: Stamp) {
        let touch = |cell: &mut Cell| {
            if let Some(write) = &mut cell.write
                && write.stamp.thread == stamp.thread
                && write.stamp.block == stamp.block
            {
                write.stamp = stamp;
            }
        };
        match self.word(address) {
            Word::Whole(cell) => touch(cell),
            Word::Bytes(cells) => cells.iter_mut().for_each(touch),
        }
    }
}
