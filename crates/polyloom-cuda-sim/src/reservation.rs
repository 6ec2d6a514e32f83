//! Addresses of the host that nothing of it will have, for the device's memory: so an address says which of the two it
//! is of, and a program that reads device memory on the host is stopped by the system, as it is with a GPU.

#![expect(unsafe_code, reason = "addresses are reserved by a call of the system")]

use std::ops::Range;

/// Sizes that are tried: a process may have been given a limit.
const SIZES: [u64; 3] = [1 << 40, 1 << 37, 1 << 35];

/// Addresses that the host leaves alone; where the system gives none, those that the simulator has anyway.
pub(crate) fn reserve() -> Range<u64> {
    let start = SIZES.iter().find_map(|size| Some((map(*size)?, *size)));
    start.map_or((0x20 << 40)..(0x21 << 40), |(start, size)| start..start + size)
}

fn map(size: u64) -> Option<u64> {
    let (access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at whatever address, which nobody can access.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size as usize, access, flags, -1, 0) };
    (start != libc::MAP_FAILED).then(|| start.addr() as u64)
}
