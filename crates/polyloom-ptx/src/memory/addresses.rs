//! Which addresses are given out, and which were given back.
//!
//! Runs of addresses never touch, and they go round: one that was given back is used again when all others have been.
//! So an access past the end of a run misses by a while, and one to a run that was given back does for as long.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Of how many runs that were given back is known where they were.
const REMEMBERED: usize = 1024;

/// What a run of addresses is for.
pub(super) trait Extent {
    /// How many bytes it has.
    fn n_bytes(&self) -> u64;
}

impl Extent for u64 {
    fn n_bytes(&self) -> u64 {
        *self
    }
}

impl<T: Extent> Extent for Arc<T> {
    fn n_bytes(&self) -> u64 {
        (**self).n_bytes()
    }
}

/// Runs of addresses.
pub(super) struct Addresses<T> {
    live: BTreeMap<u64, T>,
    /// Address and length of what was given back last, for reports: the oldest in front.
    freed: VecDeque<(u64, u64)>,
    /// The addresses that are handed out.
    span: Range<u64>,
    /// How far apart runs are kept.
    gap: u64,
    /// Where the search for the next ones begins.
    next: u64,
    /// Whether the search has begun anew, so that addresses of what was freed are used again.
    has_wrapped: bool,
}

impl<T: Extent> Addresses<T> {
    pub(super) fn new(span: Range<u64>, gap: u64) -> Addresses<T> {
        let next = span.start;
        Addresses { live: BTreeMap::new(), freed: VecDeque::new(), span, gap, next, has_wrapped: false }
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

    /// Addresses for a run, a multiple of `align` the first: those that have been out of use for longest. They are
    /// taken when something is put there.
    pub(super) fn place(&mut self, length: u64, align: u64) -> Option<u64> {
        let ahead = self.gap(self.next, length, align);
        let start = ahead.or_else(|| self.gap(self.span.start, length, align))?;
        self.has_wrapped |= ahead.is_none();
        self.next = start + length + self.gap;
        if self.has_wrapped {
            self.freed.retain(|(freed, n_bytes)| freed + n_bytes <= start || *freed >= start + length);
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
        self.freed.push_back((start, run.n_bytes()));
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
        for (start, length) in &self.freed {
            if (*start..start + length).contains(&address) {
                return Some(format!("inside the {length}-byte allocation at 0x{start:x} that was freed"));
            }
        }
        let past = self.before(address).map(|(start, run)| (start, start + run.n_bytes(), run));
        let after = self.live.range(address..).next();
        match (past, after) {
            (Some((start, end, run)), _) if address < end => {
                Some(format!("{} bytes into {}", address - start, named(start, run)))
            }
            (Some((start, end, run)), next) if next.is_none_or(|(next, _)| address - end <= next - address) => {
                Some(format!("{} bytes past the end of {}", address - end, named(start, run)))
            }
            (_, Some((next, run))) => Some(format!("{} bytes before {}", next - address, named(*next, run))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: u64 = 4096;

    fn taken(addresses: &mut Addresses<u64>, length: u64) -> Option<u64> {
        let start = addresses.place(length, 256)?;
        addresses.put(start, length);
        Some(start)
    }

    #[test]
    fn addresses_go_round() {
        let mut addresses = Addresses::new(1 << 40..(1 << 40) + 16 * GAP, GAP);
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
        let mut addresses = Addresses::new(0..8 * GAP, GAP);
        let all: Vec<u64> = (0..4).map(|_| taken(&mut addresses, GAP).unwrap()).collect();
        assert_eq!(taken(&mut addresses, GAP), None);
        addresses.remove(all[2]).unwrap();
        assert_eq!(taken(&mut addresses, GAP + 1), None);
        assert_eq!(taken(&mut addresses, GAP), Some(all[2]));
        assert!(!addresses.describe(all[2], |_, _| String::new()).unwrap().contains("freed"));
    }

    #[test]
    fn only_the_last_that_were_given_back_are_remembered() {
        let mut addresses = Addresses::new(0..1 << 40, GAP);
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
