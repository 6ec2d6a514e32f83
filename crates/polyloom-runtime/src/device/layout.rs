//! How an array lies in memory, and which runs of bytes it is made of.

use smallvec::SmallVec;
use std::ops::Range;

/// An array's elements, in whichever memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Address of the element with all indices 0.
    pub base: u64,
    /// Size of an element.
    pub elem_bytes: u64,
    /// Elements along each axis.
    pub extents: SmallVec<[u64; 4]>,
    /// Bytes from one to the next along each axis.
    pub strides: SmallVec<[i64; 4]>,
}

impl Layout {
    /// The bytes from its first to its last, or none.
    pub fn span(&self) -> Range<u64> {
        if self.extents.contains(&0) {
            return self.base..self.base;
        }
        let (mut low, mut high) = (0i64, 0i64);
        for (&extent, &stride) in self.extents.iter().zip(&self.strides) {
            let reach = (extent as i64 - 1).wrapping_mul(stride);
            low = low.wrapping_add(reach.min(0));
            high = high.wrapping_add(reach.max(0));
        }
        self.base.wrapping_add_signed(low)..self.base.wrapping_add_signed(high).wrapping_add(self.elem_bytes)
    }

    /// How many bytes its elements have; the greatest number if that is more.
    pub fn n_bytes(&self) -> u64 {
        self.extents.iter().fold(self.elem_bytes, |n, &extent| n.saturating_mul(extent))
    }

    /// How many axes are outside of its runs, elements that follow each other in memory, and how many bytes a run has.
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

    /// Whether all elements follow each other in memory, from the first address on.
    pub(crate) fn is_one_run(&self) -> bool {
        self.run_axes().0 == 0
    }

    /// Calls `each` with address and length of each run of elements that follow each other in memory, row by row.
    pub(crate) fn runs<E>(&self, each: &mut impl FnMut(u64, u64) -> Result<(), E>) -> Result<(), E> {
        let (outer, run) = self.run_axes();
        let n_runs: u64 = self.extents[..outer].iter().product();
        for number in 0..if run == 0 { 0 } else { n_runs } {
            let (mut rest, mut address) = (number, self.base);
            for axis in (0..outer).rev() {
                let index = rest % self.extents[axis];
                rest /= self.extents[axis];
                address = address.wrapping_add_signed((index as i64).wrapping_mul(self.strides[axis]));
            }
            each(address, run)?;
        }
        Ok(())
    }
}
