//! The steps of sorts: a bitonic network whose comparators all leave the smaller key at the lower place.
//!
//! The first step of each merge compares keys with their mirror images, and the others with keys at a distance that halves each
//! time. Because no comparator points the other way, places after the end of a row act as if they held the greatest key, and
//! are left out.

use super::options::PlanOptions;
use crate::reference::N_LANES;
use polyloom_ir::Scalar;

/// The logarithm of the number of keys in a line, which a thread has in registers.
pub(super) const LINE_LOG2: u8 = 5;
/// The logarithm of the bytes of a chunk, which a block of threads has in shared memory.
const CHUNK_BYTES_LOG2: u8 = 14;
/// The most steps that a kernel does across chunks, on 8 keys in registers.
const MAX_STEPS: u8 = 3;
/// The number of neighbours in each of its runs that a block of threads goes over, in a kernel across chunks.
pub(super) const RUN_LOG2: u8 = 8;

/// The most keys of a row that a thread sorts by itself, by the bytes of all of them.
const MAX_COLUMN_BYTES: u64 = 1024;
/// The rows from which on threads have one each: fewer leave most lanes of vectors without work.
const MIN_COLUMNS: u64 = 8;
/// The most keys that a thread chooses, which it has in registers.
const MAX_CHOSEN: u64 = 16;
/// The logarithm of the number of neighbours in a column that a thread sorts in registers.
pub(super) const COLUMN_RUN_LOG2: u8 = 4;

/// The places of the keys of a sort in memory, and how many of them are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SortOrder {
    /// Rows lie along the last axis, and blocks of threads sort them.
    Rows,
    /// They lie along the first axis, so that each thread has one and neighbours load neighbours.
    Columns,
    /// They lie so, and only so many of the least keys of each are wanted, in order.
    Least(u8),
}

impl SortOrder {
    /// Chooses an order for rows of `n` keys, of which the first `n_read` are enough.
    pub(super) fn choose(n_rows: u64, n: u64, n_read: Option<u64>, dtype: Scalar, options: &PlanOptions) -> SortOrder {
        // A warp does what a block of threads does at once.
        if options.gpu.is_some() || n <= 1 << LINE_LOG2 {
            return SortOrder::Rows;
        }
        match n_read {
            Some(n_read @ 1..=MAX_CHOSEN) => SortOrder::Least(n_read as u8),
            _ if n_rows >= MIN_COLUMNS && n * u64::from(dtype.bytes()) <= MAX_COLUMN_BYTES => SortOrder::Columns,
            _ => SortOrder::Rows,
        }
    }

    /// Returns the number of keys of a row.
    pub(super) fn length(self, extents: &[u64]) -> u64 {
        let length = if self == SortOrder::Rows { extents.last() } else { extents.first() };
        length.copied().unwrap_or(1)
    }
}

/// The part of a sort that one kernel does, for each row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum SortStep {
    /// It sorts a row of so many keys, which a thread has in registers.
    InRegisters(u8),
    /// It sorts columns of at most `1 << n_log2` keys, each of which a thread has in shared memory.
    Columns { n_log2: u8 },
    /// It leaves so many of the least keys of a column at its beginning, in order.
    Least(u8),
    /// It sorts chunks.
    Chunks,
    /// It ends the merges of runs that are longer than a chunk.
    MergeChunks,
    /// It does some steps between keys that are a chunk or more apart.
    Across {
        /// True if the first step is the first of a merge.
        is_mirrored: bool,
        n_steps: u8,
        /// The logarithm of the distance of the last step.
        log2_width: u8,
    },
}

/// Returns the logarithm of the number of keys in a chunk.
pub(super) fn chunk_log2(dtype: Scalar) -> u8 {
    CHUNK_BYTES_LOG2 - dtype.bytes().trailing_zeros() as u8
}

/// Returns the steps that sort rows of `n` keys.
pub(super) fn sort_steps(order: SortOrder, n: u64, dtype: Scalar) -> Vec<SortStep> {
    match order {
        SortOrder::Rows => {}
        SortOrder::Columns => {
            return vec![SortStep::Columns { n_log2: n.next_power_of_two().trailing_zeros() as u8 }];
        }
        SortOrder::Least(n_chosen) => return vec![SortStep::Least(n_chosen)],
    }
    if n <= 1 << LINE_LOG2 {
        return vec![SortStep::InRegisters(n as u8)];
    }
    let chunk = chunk_log2(dtype);
    let mut steps = vec![SortStep::Chunks];
    // Runs of `1 << sorted` keys become runs twice as long.
    for sorted in chunk.. {
        if 1u64.checked_shl(sorted.into()).is_none_or(|length| length >= n) {
            break;
        }
        let mut distance = sorted + 1;
        while distance > chunk {
            let n_steps = (distance - chunk).min(MAX_STEPS);
            let is_mirrored = distance == sorted + 1;
            distance -= n_steps;
            steps.push(SortStep::Across { is_mirrored, n_steps, log2_width: distance });
        }
        steps.push(SortStep::MergeChunks);
    }
    steps
}

impl SortStep {
    /// Returns the number that the kernel is given: of chunks, how often runs are merged; of steps across, the logarithm of the
    /// last distance.
    pub(super) fn number(self, length: u64, dtype: Scalar) -> i64 {
        match self {
            SortStep::Chunks => {
                let n_lines = length.min(1 << chunk_log2(dtype)).div_ceil(1 << LINE_LOG2);
                i64::from(n_lines.next_power_of_two().trailing_zeros())
            }
            SortStep::Across { log2_width, .. } => log2_width.into(),
            SortStep::InRegisters(_) | SortStep::Columns { .. } | SortStep::Least(_) | SortStep::MergeChunks => 0,
        }
    }

    pub(super) fn n_blocks(self, n_rows: u64, length: u64, dtype: Scalar) -> u64 {
        match self {
            SortStep::InRegisters(_) | SortStep::Columns { .. } | SortStep::Least(_) => n_rows.div_ceil(N_LANES as u64),
            SortStep::Chunks | SortStep::MergeChunks => n_rows * length.div_ceil(1 << chunk_log2(dtype)),
            SortStep::Across { n_steps, log2_width, .. } => {
                (n_rows * length.div_ceil(1 << (n_steps + log2_width))) << (log2_width - RUN_LOG2)
            }
        }
    }
}

/// Returns the pairs that sort `n` keys, in order: Batcher's odd-even merge sort.
pub(super) fn sorting_pairs(n: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut run = 1;
    while run < n {
        let mut distance = run;
        while distance > 0 {
            for first in (distance % run..n.saturating_sub(distance)).step_by(2 * distance) {
                for low in first..(first + distance).min(n - distance) {
                    if low / (2 * run) == (low + distance) / (2 * run) {
                        pairs.push((low, low + distance));
                    }
                }
            }
            distance /= 2;
        }
        run *= 2;
    }
    pairs
}

/// Returns the pairs that end a merge of `n` keys, a power of two: those at a distance that halves each time.
pub(super) fn merging_pairs(n: usize) -> Vec<(usize, usize)> {
    let distances =
        std::iter::successors(Some(n / 2), |distance| Some(distance / 2)).take_while(|&distance| distance > 0);
    distances.flat_map(|d| (0..n).filter(move |low| low & d == 0).map(move |low| (low, low + d))).collect()
}

#[cfg(test)]
mod tests {
    use super::{merging_pairs, sorting_pairs};

    /// A network that sorts all sequences of zeros and ones sorts everything.
    #[test]
    fn networks_sort_zeros_and_ones() {
        let apply = |pairs: &[(usize, usize)], mut keys: u32| {
            for &(low, high) in pairs {
                if keys >> low & 1 > keys >> high & 1 {
                    keys ^= 1 << low | 1 << high;
                }
            }
            keys
        };
        let is_sorted = |keys: u32, n: usize| (1..n).all(|place| keys >> (place - 1) & 1 <= keys >> place & 1);
        for n in 1..=16 {
            let pairs = sorting_pairs(n);
            assert!((0..1 << n).all(|keys| is_sorted(apply(&pairs, keys), n)), "{n}");
        }
        // A sorted run and, mirrored, another one.
        let runs = (0..=32u32).flat_map(|start| (0..=32 - start).map(move |length| (start, length)));
        let pairs = merging_pairs(32);
        for (start, length) in runs {
            let keys = (((1u64 << length) - 1) << start) as u32;
            assert!(is_sorted(apply(&pairs, keys), 32) && is_sorted(apply(&pairs, !keys), 32), "{start}, {length}");
        }
    }
}
