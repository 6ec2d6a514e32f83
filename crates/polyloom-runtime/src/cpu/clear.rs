//! Memory set to zero by all threads: one core alone writes slower than memory takes it.

use super::pool::{Sleepers, num_threads, with_helpers};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a thread clears at a time.
const CHUNK: usize = 256 << 10;
/// Fewer bytes are not worth waking a thread for.
const LEAST_PER_HELPER: usize = 1 << 20;

/// Sets the bytes from an address on to zero, with the help of other threads where these are many.
///
/// # Safety
///
/// The bytes must be valid for writes, and nobody else may access them meanwhile.
pub unsafe fn clear_memory(address: usize, n_bytes: usize) {
    let next = AtomicUsize::new(0);
    let clear = || {
        loop {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= n_bytes {
                return;
            }
            // SAFETY: within the bytes that the caller vouches for; each chunk is one thread's.
            unsafe { std::ptr::write_bytes((address + first) as *mut u8, 0, CHUNK.min(n_bytes - first)) };
        }
    };
    with_helpers((num_threads() - 1).min(n_bytes / LEAST_PER_HELPER), Sleepers::Wake, &clear, clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_and_no_others_become_zero() {
        for n_bytes in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * LEAST_PER_HELPER + 3] {
            let mut bytes = vec![7u8; n_bytes + 2];
            // SAFETY: all but the first and the last byte.
            unsafe { clear_memory(bytes.as_mut_ptr() as usize + 1, n_bytes) };
            assert_eq!((bytes[0], bytes[n_bytes + 1]), (7, 7));
            assert!(bytes[1..=n_bytes].iter().all(|&byte| byte == 0), "{n_bytes}");
        }
    }
}
