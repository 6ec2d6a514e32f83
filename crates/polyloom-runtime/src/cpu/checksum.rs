//! A checksum of memory at the speed of memory: whether somebody has written to an array meanwhile.
//!
//! It finds accidents, not forgeries. In each of its lanes a word is mixed in by steps that can be undone, so that a
//! change of any one word changes the sum; changes of several cancel by a chance of 2^-64.
//!
//! The memory is that of arrays which others may be writing to at this moment, as threads of Python do whose libraries
//! let go of its lock. So it is read as atomics are, once each, and nothing is concluded from a part of it: what is
//! written meanwhile counts or does not.

use super::pool::{Sleepers, num_threads, with_helpers};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes that a thread reads at a time. The sum depends on it.
const CHUNK: usize = 256 << 10;
/// Fewer bytes are not worth waking a thread for.
const LEAST_PER_HELPER: usize = 1 << 20;
/// Products that are under way at the same time.
const N_LANES: usize = 8;
const BLOCK: usize = N_LANES * size_of::<u64>();
/// 2^64 over the golden ratio, which is odd.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of the bytes from an address on, with the help of other threads where these are many. If somebody writes
/// to them meanwhile, it is that of bytes of which each was there at some moment.
///
/// # Safety
///
/// The bytes must stay allocated meanwhile. Rust code may write to them only as atomics are written, or by launches.
pub unsafe fn checksum(address: usize, n_bytes: usize) -> u64 {
    let n_chunks = n_bytes.div_ceil(CHUNK);
    let sums: Vec<AtomicU64> = (0..n_chunks).map(|_| AtomicU64::new(0)).collect();
    let next = AtomicUsize::new(0);
    let look = || {
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some(sum) = sums.get(chunk) else { return };
            let first = chunk * CHUNK;
            let n_bytes = CHUNK.min(n_bytes - first);
            let first = address + first;
            // SAFETY: within the bytes that the caller vouches for, whose address is a multiple of so much.
            let found = unsafe {
                match first {
                    _ if first.is_multiple_of(8) => of_chunk(first, n_bytes, |at| at_8(at)),
                    _ if first.is_multiple_of(4) => of_chunk(first, n_bytes, |at| at_4(at)),
                    _ => of_chunk(first, n_bytes, |at| at_1(at)),
                }
            };
            sum.store(found, Ordering::Relaxed);
        }
    };
    with_helpers((num_threads() - 1).min(n_bytes / LEAST_PER_HELPER), Sleepers::Wake, &look, look);
    sums.into_iter().fold(n_bytes as u64, |total, sum| mixed(total, sum.into_inner()))
}

/// The sum of the bytes from an address on, of which `word` reads eight.
///
/// # Safety
///
/// They are valid for atomic reads, and so are words for `word` at multiples of 8 from the address on.
unsafe fn of_chunk(address: usize, n_bytes: usize, word: impl Fn(usize) -> u64) -> u64 {
    let mut lanes: [u64; N_LANES] = std::array::from_fn(|lane| lane as u64);
    let n_blocks = n_bytes / BLOCK;
    for block in 0..n_blocks {
        let first = address + block * BLOCK;
        for (number, lane) in lanes.iter_mut().enumerate() {
            *lane = mixed(*lane, word(first + 8 * number));
        }
    }
    let mut last = [0; BLOCK];
    for (byte, at) in last.iter_mut().zip(address + n_blocks * BLOCK..address + n_bytes) {
        // SAFETY: the caller says that these are valid.
        *byte = unsafe { AtomicU8::from_ptr(at as *mut u8) }.load(Ordering::Relaxed);
    }
    let (words, _) = last.as_chunks::<8>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = mixed(*lane, u64::from_le_bytes(*word));
    }
    lanes.into_iter().fold(0, mixed)
}

/// Eight bytes at an address that is a multiple of eight.
///
/// # Safety
///
/// They are valid for atomic reads.
#[inline]
unsafe fn at_8(address: usize) -> u64 {
    // SAFETY: the caller says so.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Relaxed).to_le()
}

/// Eight bytes at an address that is a multiple of four.
///
/// # Safety
///
/// They are valid for atomic reads.
#[inline]
unsafe fn at_4(address: usize) -> u64 {
    // SAFETY: the caller says so.
    let half = |at: usize| unsafe { AtomicU32::from_ptr(at as *mut u32) }.load(Ordering::Relaxed).to_le();
    u64::from(half(address)) | u64::from(half(address + 4)) << 32
}

/// Eight bytes at any address.
///
/// # Safety
///
/// They are valid for atomic reads.
#[inline]
unsafe fn at_1(address: usize) -> u64 {
    // SAFETY: the caller says so.
    let byte = |at: usize| unsafe { AtomicU8::from_ptr(at as *mut u8) }.load(Ordering::Relaxed);
    u64::from_le_bytes(std::array::from_fn(|number| byte(address + number)))
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
    fn the_sum_is_the_same_at_any_address() {
        let bytes: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
        let expected = of(&bytes);
        for shift in 0..9 {
            let mut moved = vec![0xff; shift];
            moved.extend(&bytes);
            assert_eq!(of(&moved[shift..]), expected, "{shift} bytes further");
        }
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
