//! Which addresses are given out, and which were given back.
//!
//! Runs of addresses never touch, and they go round: one that was given back is used again when all others have been.
//! So an access past the end of a run misses by a while, and one to a run that was given back does for as long.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Number of runs given back whose places are remembered.
const REMEMBERED: usize = 1024;

/// Describes what a run of addresses is for.
pub(super) trait AddressUse {
    /// Returns the number of bytes it has.
    fn n_bytes(&self) -> u64;

    /// Returns which addresses are somebody's of a run that begins at `start`; the others are padding.
    fn given(&self, start: u64) -> Range<u64> {
        start..start + self.n_bytes()
    }
}

impl AddressUse for u64 {
    fn n_bytes(&self) -> u64 {
        *self
    }
}

impl<T: AddressUse> AddressUse for Arc<T> {
    fn n_bytes(&self) -> u64 {
        (**self).n_bytes()
    }

    fn given(&self, start: u64) -> Range<u64> {
        (**self).given(start)
    }
}

/// Runs of addresses.
pub(super) struct AddressRuns<T> {
    live: BTreeMap<u64, T>,
    /// Holds what was given back last, for reports: the oldest in front.
    freed: VecDeque<Range<u64>>,
    /// The addresses that are handed out.
    span: Range<u64>,
    /// Says how far apart runs are kept.
    gap: u64,
    /// The place where the search for the next ones begins.
    next: u64,
    /// True if the search has begun anew, so that addresses of what was freed are used again.
    has_wrapped: bool,
}

impl<T: AddressUse> AddressRuns<T> {
    pub(super) fn new(span: Range<u64>, gap: u64) -> AddressRuns<T> {
        let next = span.start;
        AddressRuns { live: BTreeMap::new(), freed: VecDeque::new(), span, gap, next, has_wrapped: false }
    }

    /// The first gap at or after `from` for a run, with the distance that is kept to others.
    fn gap(&self, from: u64, length: u64, align: u64) -> Option<u64> {
        let clear = self.before(from).map_or(from, |(start, run)| from.max(start + run.n_bytes() + self.gap));
        let mut start = clear.checked_next_multiple_of(align)?;
        loop {
            let end = start.checked_add(length).filter(|end| *end < self.span.end)?;
            match self.live.range(start..).next() {
                Some((next, run)) if *next < end + self.gap => {
                    start = (next + run.n_bytes() + self.gap).checked_next_multiple_of(align)?;
                }
                _ => return Some(start),
            }
        }
    }

    /// Addresses for a run, a multiple of `align` the first. They are those that have been out of use for longest, so
    /// that an access to what was given back is noticed. They are taken when something is put there.
    pub(super) fn place(&mut self, length: u64, align: u64) -> Option<u64> {
        let ahead = self.gap(self.next, length, align);
        let start = ahead.or_else(|| self.gap(self.span.start, length, align))?;
        self.has_wrapped |= ahead.is_none();
        self.next = start + length + self.gap;
        if self.has_wrapped {
            self.freed.retain(|freed| freed.end <= start || freed.start >= start + length);
        }
        Some(start)
    }

    pub(super) fn put(&mut self, start: u64, run: T) {
        self.live.insert(start, run);
    }

    /// Gives the run back that begins at an address.
    pub(super) fn remove(&mut self, start: u64) -> Option<T> {
        let run = self.live.remove(&start)?;
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back(run.given(start));
        Some(run)
    }

    /// The run that begins last at or before an address.
    pub(super) fn before(&self, address: u64) -> Option<(u64, &T)> {
        self.live.range(..=address).next_back().map(|(start, run)| (*start, run))
    }

    /// All of them, by address.
    pub(super) fn runs(&self) -> impl Iterator<Item = &T> {
        self.live.values()
    }

    /// In words, where an address lies that may be in none; `named` says what a run is called.
    pub(super) fn describe(&self, address: u64, named: impl Fn(u64, &T) -> String) -> Option<String> {
        if let Some(Range { start, end }) = self.freed.iter().find(|freed| freed.contains(&address)) {
            return Some(format!("inside the {}-byte allocation at 0x{start:x} that was freed", end - start));
        }
        let around = self.live.range(..=address).rev().take(2).chain(self.live.range(address + 1..).take(1));
        let nearest = around.min_by_key(|(start, run)| {
            let given = run.given(**start);
            let (past, before) = (address.saturating_sub(given.end), given.start.saturating_sub(address));
            (!given.contains(&address), past.max(before), before)
        });
        let (start, run) = nearest?;
        let (given, name) = (run.given(*start), named(*start, run));
        Some(match address {
            _ if address < given.start => format!("{} bytes before {name}", given.start - address),
            _ if address >= given.end => format!("{} bytes past the end of {name}", address - given.end),
            _ => format!("{} bytes into {name}", address - given.start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: u64 = 4096;

    fn taken(addresses: &mut AddressRuns<u64>, length: u64) -> Option<u64> {
        let start = addresses.place(length, 256)?;
        addresses.put(start, length);
        Some(start)
    }

    #[test]
    fn addresses_go_round() {
        let mut addresses = AddressRuns::new(1 << 40..(1 << 40) + 16 * GAP, GAP);
        let kept = taken(&mut addresses, 100).unwrap();
        let mut last = kept;
        let mut n_steps_back = 0;
        for _ in 0..10 * REMEMBERED {
            let address = taken(&mut addresses, GAP).unwrap();
            assert!(address.abs_diff(kept) >= GAP && address != last, "0x{address:x} after 0x{last:x}");
            assert!(address + GAP < (1 << 40) + 16 * GAP);
            n_steps_back += u32::from(address < last);
            addresses.remove(address).unwrap();
            last = address;
        }
        assert!(n_steps_back > 100, "{n_steps_back}");
        assert!(addresses.freed.len() <= 16);
        assert!(addresses.describe(last, |_, _| String::new()).unwrap().contains("that was freed"));
    }

    #[test]
    fn where_all_are_taken_there_is_room_again_for_what_was_given_back() {
        let mut addresses = AddressRuns::new(0..8 * GAP, GAP);
        let all: Vec<u64> = (0..4).map(|_| taken(&mut addresses, GAP).unwrap()).collect();
        assert_eq!(taken(&mut addresses, GAP), None);
        addresses.remove(all[2]).unwrap();
        assert_eq!(taken(&mut addresses, GAP + 1), None);
        assert_eq!(taken(&mut addresses, GAP), Some(all[2]));
        assert!(!addresses.describe(all[2], |_, _| String::new()).unwrap().contains("freed"));
    }

    #[test]
    fn only_the_last_that_were_given_back_are_remembered() {
        let mut addresses = AddressRuns::new(0..1 << 40, GAP);
        let first = taken(&mut addresses, 8).unwrap();
        addresses.remove(first).unwrap();
        assert!(addresses.describe(first, |_, _| String::new()).unwrap().contains("that was freed"));
        for _ in 0..REMEMBERED {
            let address = taken(&mut addresses, 8).unwrap();
            addresses.remove(address).unwrap();
        }
        assert_eq!(addresses.freed.len(), REMEMBERED);
        assert!(addresses.describe(first, |_, _| String::new()).is_none());
    }
}
