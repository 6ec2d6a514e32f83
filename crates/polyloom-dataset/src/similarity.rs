//! Kernels that are nearly alike: MinHash over the ops of a kernel with what they take.
//!
//! Two kernels are alike as far as they have the same shingles: an op, and the ops that its operands come from. Of the
//! shingles' hashes under each of 32 permutations the least is kept; these agree for two kernels with the probability
//! of the share of shingles that they have in common (Broder, "On the resemblance and containment of documents", 1997).
//! Four bands of eight agree in one band at least for nine of ten pairs with nine shingles of ten in common, and for one
//! of sixty with half of them. How many kernels had the same band is counted in a sketch of a fixed size (Cormode and
//! Muthukrishnan, "An improved data stream summary", 2005), which at ten million kernels counts one too many now and
//! then and never one too few.

use crate::text::functions;
use polyloom::{Kernel, Op};
use rustc_hash::{FxHashMap, FxHashSet};

const N_BANDS: usize = 4;
const ROWS: usize = 8;

/// The bands of a kernel.
pub(crate) type Bands = [u64; N_BANDS];

/// Mixes the bits of a number (the finaliser of SplitMix64).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The bands of a kernel.
pub(crate) fn bands(kernel: &Kernel) -> Bands {
    let mut least = [u64::MAX; N_BANDS * ROWS];
    for shingle in shingles(kernel) {
        for (row, least) in least.iter_mut().enumerate() {
            *least = (*least).min(mix(shingle ^ (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        }
    }
    let mut bands = [0; N_BANDS];
    for (band, rows) in bands.iter_mut().zip(least.chunks(ROWS)) {
        *band = rows.iter().fold(0, |hash, &row| mix(hash ^ row));
    }
    bands
}

/// An op with the ops that its operands come from, as a number, of a kernel and of what it calls.
fn shingles(kernel: &Kernel) -> FxHashSet<u64> {
    let mut shingles = FxHashSet::default();
    for function in functions(kernel) {
        let mut origins = FxHashMap::default();
        function.walk(function.body, &mut |_, data| {
            let origin = |value| origins.get(value).map_or(u64::MAX, |&op: &Op| op as u64);
            let hash = data.operands.iter().fold(mix(data.op as u64), |hash, operand| mix(hash ^ origin(operand)));
            shingles.insert(hash);
            origins.extend(data.results.iter().map(|&result| (result, data.op)));
        });
    }
    shingles
}

/// Describes how many kernels had each band.
pub(crate) struct BandSketch {
    /// As many for each of the bands, twice.
    counts: Vec<u8>,
    most: u8,
}

impl BandSketch {
    /// Most places for a band: 64 MiB in all.
    const MOST_PLACES: u64 = 1 << 23;
    /// Fewest.
    const FEWEST_PLACES: u64 = 1 << 14;

    /// A sketch that holds no more than `most` kernels that are nearly alike, of `n_rows` in all. Small sets do without
    /// most of the memory, because what is not touched is not cleared.
    pub(crate) fn new(most: u8, n_rows: u64) -> BandSketch {
        let n_places =
            n_rows.saturating_mul(4).clamp(BandSketch::FEWEST_PLACES, BandSketch::MOST_PLACES).next_power_of_two();
        BandSketch { counts: vec![0; n_places as usize * N_BANDS * 2], most }
    }

    /// Counts a kernel, unless there are too many like it.
    pub(crate) fn take(&mut self, bands: &Bands) -> bool {
        let is_full = |places: [usize; 2]| places.iter().all(|&place| self.counts[place] >= self.most);
        if (0..N_BANDS).any(|band| is_full(self.places(band, bands[band]))) {
            return false;
        }
        self.count(bands);
        true
    }

    /// Counts a kernel.
    pub(crate) fn count(&mut self, bands: &Bands) {
        for (band, &hash) in bands.iter().enumerate() {
            for place in self.places(band, hash) {
                self.counts[place] = self.counts[place].saturating_add(1);
            }
        }
    }

    fn places(&self, band: usize, hash: u64) -> [usize; 2] {
        let n_places = self.counts.len() / (2 * N_BANDS);
        let place = |row: usize, hash: u64| (2 * band + row) * n_places + hash as usize % n_places;
        [place(0, hash), place(1, mix(hash))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_holds_so_many_of_a_kind() {
        let mut sketch = BandSketch::new(3, 100);
        let kind = [1, 2, 3, 4];
        assert!((0..3).all(|_| sketch.take(&kind)));
        // One band in common is enough.
        assert!(!sketch.take(&kind) && !sketch.take(&[9, 9, 3, 9]));
        assert!(sketch.take(&[5, 6, 7, 8]));
    }
}
