//! How an array lies in memory, and which runs of bytes it is made of.

use smallvec::SmallVec;
use std::convert::Infallible;
use std::ops::Range;

/// Rows of bytes, all of one length and equally far apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowLayout {
    /// The place where the first begins.
    pub address: u64,
    /// The bytes of a row, at least one.
    pub length: u64,
    /// Bytes from the beginning of one to that of the next, at least `length`.
    pub pitch: u64,
    /// Says how many there are, at least one.
    pub n: u64,
}

impl RowLayout {
    /// A single row.
    pub fn one(address: u64, length: u64) -> RowLayout {
        RowLayout { address, length, pitch: length, n: 1 }
    }

    /// The bytes of all.
    pub fn n_bytes(&self) -> u64 {
        self.length * self.n
    }

    /// Returns where each begins.
    pub(crate) fn addresses(self) -> impl Iterator<Item = u64> {
        (0..self.n).map(move |number| self.address + number * self.pitch)
    }
}

/// An array's elements, in whichever memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayLayout {
    /// Address of the element with all indices 0.
    pub base: u64,
    /// Size of an element.
    pub elem_bytes: u64,
    /// Elements along each axis.
    pub extents: SmallVec<[u64; 4]>,
    /// Bytes from one to the next along each axis.
    pub strides: SmallVec<[i64; 4]>,
}

impl ArrayLayout {
    /// The bytes from its first to its last, or none; all addresses for an array that goes beyond them, so that it is in
    /// no memory.
    pub fn span(&self) -> Range<u64> {
        if self.extents.contains(&0) {
            return self.base..self.base;
        }
        let (mut low, mut high) = (i128::from(self.base), i128::from(self.base));
        for (&extent, &stride) in self.extents.iter().zip(&self.strides) {
            let reach = (i128::from(extent) - 1).saturating_mul(stride.into());
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        match (u64::try_from(low), u64::try_from(high.saturating_add(self.elem_bytes.into()))) {
            (Ok(low), Ok(high)) => low..high,
            _ => 0..u64::MAX,
        }
    }

    /// Returns the number of bytes its elements have; the greatest number if that is more.
    pub fn n_bytes(&self) -> u64 {
        self.extents.iter().fold(self.elem_bytes, |n, &extent| n.saturating_mul(extent))
    }

    /// Returns the number of axes that are outside of its runs, elements that follow each other in memory, and how many
    /// bytes a run has.
    fn run_axes(&self) -> (usize, u64) {
        // Inner axes that are dense belong to a run.
        let mut run = self.elem_bytes;
        let mut outer = self.extents.len();
        while outer > 0 && (self.strides[outer - 1] == run as i64 || self.extents[outer - 1] == 1) {
            outer -= 1;
            run *= self.extents[outer];
        }
        (outer, run)
    }

    /// Returns true if an element of this has bytes in common with one of another array in the same memory. Of large
    /// arrays whose elements lie between each other it may be true though none has.
    pub fn overlaps(&self, other: &ArrayLayout) -> bool {
        let (own, others) = (self.span(), other.span());
        if own.start >= others.end || others.start >= own.end || self.n_bytes() == 0 || other.n_bytes() == 0 {
            return false;
        }
        const MOST_RUNS: u64 = 4096;
        let n_runs = |array: &ArrayLayout| array.extents[..array.run_axes().0].iter().product::<u64>();
        if n_runs(self).saturating_add(n_runs(other)) > MOST_RUNS {
            return true;
        }
        let runs = |array: &ArrayLayout| {
            let mut runs = Vec::new();
            let Ok(()) = array.runs(&mut |address, length| -> Result<(), Infallible> {
                runs.push((address, address + length));
                Ok(())
            });
            runs.sort_unstable();
            runs
        };
        let (own, others) = (runs(self), runs(other));
        let mut next = 0;
        own.iter().any(|&(begin, end)| {
            while others.get(next).is_some_and(|&(_, other_end)| other_end <= begin) {
                next += 1;
            }
            others.get(next).is_some_and(|&(other_begin, _)| other_begin < end)
        })
    }

    /// Returns true if all elements follow each other in memory, from the first address on.
    pub fn is_one_run(&self) -> bool {
        self.run_axes().0 == 0
    }

    /// Returns true if each run of its elements begins and ends at a multiple of so many bytes, a power of 2.
    pub(crate) fn is_aligned(&self, n_bytes: u64) -> bool {
        let (outer, run) = self.run_axes();
        let steps = self.strides[..outer].iter().map(|stride| stride.unsigned_abs());
        [self.base, run].into_iter().chain(steps).all(|each| each.is_multiple_of(n_bytes))
    }

    /// The same elements from an address on, where they follow each other row by row.
    pub fn dense_at(&self, base: u64) -> ArrayLayout {
        let mut dense = ArrayLayout { base, ..self.clone() };
        let mut step = self.elem_bytes as i64;
        for (stride, &extent) in dense.strides.iter_mut().zip(&self.extents).rev() {
            *stride = step;
            step *= extent as i64;
        }
        dense
    }

    /// Calls `each` with its elements as rows, in the order of elements.
    pub(crate) fn rows<E>(&self, each: &mut impl FnMut(RowLayout) -> Result<(), E>) -> Result<(), E> {
        self.rows_with(self, &mut |rows, _| each(rows))
    }

    /// Calls `each` with its elements as rows and those of another array of the same extents, with elements of the same
    /// size, that belong to them.
    pub(crate) fn rows_with<E>(
        &self,
        other: &ArrayLayout,
        each: &mut impl FnMut(RowLayout, RowLayout) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.extents.contains(&0) {
            return Ok(());
        }
        let arrays = [self, other];
        let (mut length, mut outer) = (self.elem_bytes, self.extents.len());
        let follows = |axis: usize, length: u64| arrays.iter().all(|array| array.strides[axis] == length as i64);
        while outer > 0 && (self.extents[outer - 1] == 1 || follows(outer - 1, length)) {
            outer -= 1;
            length *= self.extents[outer];
        }
        // The next axis is that of the rows, unless they overlap or run backwards.
        let mut n = 1;
        let mut pitches = [length; 2];
        if outer > 0 && arrays.iter().all(|array| array.strides[outer - 1] >= length as i64) {
            outer -= 1;
            n = self.extents[outer];
            pitches = arrays.map(|array| array.strides[outer] as u64);
        }
        let n_calls: u64 = self.extents[..outer].iter().product();
        for number in 0..n_calls {
            let rows = |index: usize| {
                let (array, pitch) = (arrays[index], pitches[index]);
                RowLayout { address: array.address_of(number, outer), length, pitch, n }
            };
            each(rows(0), rows(1))?;
        }
        Ok(())
    }

    /// Address of the first element with these indices along the first axes, so many: `number` counts them row by row.
    fn address_of(&self, number: u64, n_axes: usize) -> u64 {
        let (mut rest, mut address) = (number, self.base);
        for axis in (0..n_axes).rev() {
            let index = rest % self.extents[axis];
            rest /= self.extents[axis];
            address = address.wrapping_add_signed((index as i64).wrapping_mul(self.strides[axis]));
        }
        address
    }

    /// The same memory, with each element of it once, so that an axis that goes nowhere has one index.
    pub fn without_repeats(&self) -> ArrayLayout {
        let mut once = self.clone();
        for (extent, &stride) in once.extents.iter_mut().zip(&self.strides) {
            if stride == 0 {
                *extent = (*extent).min(1);
            }
        }
        once
    }

    /// Calls `each` with address and length of each run of elements that follow each other in memory, row by row.
    ///
    /// # Errors
    ///
    /// The first of `each`.
    pub fn runs<E>(&self, each: &mut impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        let (outer, run) = self.run_axes();
        let n_runs: u64 = self.extents[..outer].iter().product();
        for number in 0..if run == 0 { 0 } else { n_runs } {
            each(self.address_of(number, outer), run)?;
        }
        Ok(())
    }
}
