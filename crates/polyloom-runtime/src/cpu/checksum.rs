//! A checksum of memory at the speed of memory: whether somebody has written to an array meanwhile.
//!
//! It finds accidents, not forgeries. In each of its lanes a word is mixed in by steps that can be undone, so that a
//! change of any one word changes the sum; changes of several cancel by a chance of 2^-64.

use super::pool::{num_threads, with_helpers};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a thread looks at at a time. The sum depends on it.
const CHUNK: usize = 256 << 10;
/// Fewer bytes are not worth waking a thread for.
const LEAST_PER_HELPER: usize = 1 << 20;
/// Products that are under way at the same time.
const N_LANES: usize = 8;
const BLOCK: usize = N_LANES * size_of::<u64>();
/// 2^64 over the golden ratio, which is odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of the bytes from an address on, with the help of other threads where these are many.
///
/// # Safety
///
/// The bytes must be valid for reads, and nobody may write to them meanwhile.
pub unsafe fn checksum(address: usize, n_bytes: usize) -> u64 {
    let n_chunks = n_bytes.div_ceil(CHUNK);
    let sums: Vec<AtomicU64> = (0..n_chunks).map(|_| AtomicU64::new(0)).collect();
    let next = AtomicUsize::new(0);
    let look = || {
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some(sum) = sums.get(chunk) else { return };
            let first = chunk * CHUNK;
            // SAFETY: within the bytes that the caller vouches for.
            let bytes =
                unsafe { std::slice::from_raw_parts((address + first) as *const u8, CHUNK.min(n_bytes - first)) };
            sum.store(of_chunk(bytes), Ordering::Relaxed);
        }
    };
    with_helpers((num_threads() - 1).min(n_bytes / LEAST_PER_HELPER), &look, look);
    sums.into_iter().fold(n_bytes as u64, |total, sum| mixed(total, sum.into_inner()))
}

fn of_chunk(bytes: &[u8]) -> u64 {
    let mut lanes: [u64; N_LANES] = std::array::from_fn(|lane| lane as u64);
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        mix(&mut lanes, block);
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    mix(&mut lanes, &last);
    lanes.into_iter().fold(0, mixed)
}

#[inline]
fn mix(lanes: &mut [u64; N_LANES], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<8>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = mixed(*lane, u64::from_le_bytes(*word));
    }
}

/// Without the rotation, what differs in the highest bit would differ in no other for ever, and two changed signs of
/// `float64` would cancel.
#[inline]
fn mixed(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        // SAFETY: the bytes of a slice.
        unsafe { checksum(bytes.as_ptr() as usize, bytes.len()) }
    }

    #[test]
    fn any_bit_and_the_length_count() {
        for n_bytes in [1, 7, 8, 63, 64, 65, 200] {
            let mut bytes: Vec<u8> = (0..n_bytes).map(|at| at as u8).collect();
            let before = of(&bytes);
            for bit in 0..8 * n_bytes {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(of(&bytes), before, "bit {bit} of {n_bytes} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(of(&bytes), before);
            bytes.push(0);
            assert_ne!(of(&bytes), before);
        }
        assert_eq!(of(&[]), of(&[]));
    }

    #[test]
    fn changes_of_several_words_do_not_cancel() {
        for n in [16, 20_000, 400_000] {
            let mut values = vec![1.0f64; n];
            let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
            let before = of(&bytes(&values));
            // Signs, two and all of them, and an exchange.
            values[0] = -1.0;
            values[8] = -1.0;
            assert_ne!(of(&bytes(&values)), before);
            values.fill(-1.0);
            assert_ne!(of(&bytes(&values)), before);
            values.fill(1.0);
            values[3] = 2.0;
            let one_way = of(&bytes(&values));
            values.swap(3, n - 5);
            assert_ne!(of(&bytes(&values)), one_way);
        }
    }
}
