//! Bytes that several host threads may read and write at once, as threads of a GPU do.
//!
//! All of the crate's `unsafe` is here. Every access is checked against the region's length and its own alignment, is
//! of 1, 2, 4 or 8 bytes, and is an atomic of that size on the host. So races of accesses of one size, and of any with
//! reads alone, are defined in Rust as well. Races of different sizes over the same bytes, one of them a write, Rust's
//! memory model does not define: a kernel that has such gets some mixture of the bytes, as from the host's own
//! instructions, and nothing outside the region is touched.

#![expect(unsafe_code, reason = "memory that threads share without locks")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds what regions are aligned to on the host. More than allocators give anyhow would have them write all zeros at
/// once.
const HOST_ALIGN: usize = 16;

/// Whoever accesses 16 bytes at once holds this.
static SIXTEEN: Mutex<()> = Mutex::new(());

/// Keeps others that do so as well from accesses of 16 bytes at once. Smaller ones may come in between.
pub(crate) fn at_once() -> MutexGuard<'static, ()> {
    SIXTEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of bytes.
pub(crate) struct MemoryRegion {
    bytes: *mut u8,
    length: usize,
    /// True if the region gives its bytes back; those of a host that lends them are not the region's to free.
    is_owned: bool,
    /// Kept by a region whose bytes are a part of another one's.
    _whole: Option<Arc<MemoryRegion>>,
}

// SAFETY: the memory belongs to the region alone, or is lent to it for as long as it lives, and is only touched through
// atomics.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for MemoryRegion {}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: `new` allocated it with this layout, and it is freed once.
            unsafe { dealloc(self.bytes, Self::layout(self.length).expect("checked by `new`")) };
        }
    }
}

/// Memory of the host's that kernels are to see at the address it has there: managed memory, and host memory that is
/// registered with the device.
pub struct HostMemory {
    region: MemoryRegion,
    given: Range<usize>,
}

impl HostMemory {
    /// Says how many bytes around what is lent a region takes in, so that it begins and ends with whole words.
    const ALIGN: usize = 16;

    /// Lends `length` bytes at `address`; `None` if no addresses are as high.
    ///
    /// # Safety
    ///
    /// The bytes, and those around them up to multiples of 16, can be read and written until what this is mapped into
    /// has let go of it: when it is freed and no launch runs any more. Whoever else accesses them meanwhile does so as
    /// with memory that threads share.
    pub unsafe fn new(address: *mut u8, length: usize) -> Option<HostMemory> {
        let skew = address.addr() % Self::ALIGN;
        let end = skew.checked_add(length)?.checked_next_multiple_of(Self::ALIGN)?;
        address.addr().checked_add(end)?;
        let region = MemoryRegion { bytes: address.wrapping_sub(skew), length: end, is_owned: false, _whole: None };
        Some(HostMemory { region, given: skew..skew + length })
    }

    /// The address of its first byte.
    pub fn address(&self) -> u64 {
        (self.region.bytes.addr() + self.given.start) as u64
    }

    /// Returns the region, and where in it the bytes are that are lent.
    pub(super) fn into_parts(self) -> (u64, MemoryRegion, Range<usize>) {
        (self.region.bytes.addr() as u64, self.region, self.given)
    }
}

impl MemoryRegion {
    fn layout(length: usize) -> Option<Layout> {
        Layout::from_size_align(length.max(1), HOST_ALIGN).ok()
    }

    /// `length` zeroed bytes, which the host gives as they are touched, or `None` if it has not as many.
    pub(crate) fn new(length: usize) -> Option<MemoryRegion> {
        let layout = Self::layout(length)?;
        // SAFETY: the layout's size is not zero.
        let bytes = unsafe { alloc_zeroed(layout) };
        (!bytes.is_null()).then_some(MemoryRegion { bytes, length, is_owned: true, _whole: None })
    }

    /// Bytes of another region, which share them.
    pub(crate) fn part(whole: &Arc<MemoryRegion>, range: Range<usize>) -> Option<MemoryRegion> {
        let is_inside = range.start <= range.end && range.end <= whole.length && range.start.is_multiple_of(HOST_ALIGN);
        // SAFETY: the offset is at most the region's length.
        let bytes = is_inside.then(|| unsafe { whole.bytes.add(range.start) })?;
        Some(MemoryRegion { bytes, length: range.len(), is_owned: false, _whole: Some(Arc::clone(whole)) })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns where an access of `size` bytes, a power of two, at `offset` lies. Panics if that is outside or
    /// misaligned, because callers check first, to say what is wrong.
    #[inline]
    fn at(&self, offset: usize, size: usize) -> *mut u8 {
        let inside = offset <= self.length && size <= self.length - offset;
        assert!(inside && offset & (size - 1) == 0, "access outside a region");
        // SAFETY: `offset` is at most the region's length.
        unsafe { self.bytes.add(offset) }
    }

    #[inline]
    pub(crate) fn load8(&self, offset: usize) -> u8 {
        // SAFETY: `at` gives a pointer to a byte of the region, which lives as long as `self`.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }.load(Relaxed)
    }

    #[inline]
    pub(crate) fn store8(&self, offset: usize, value: u8) {
        // SAFETY: as in `load8`.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }.store(value, Relaxed);
    }

    #[inline]
    fn cell16(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: `at` gives an aligned pointer to two bytes of the region, which lives as long as `self`.
        unsafe { AtomicU16::from_ptr(self.at(offset, 2).cast()) }
    }

    #[inline]
    fn cell32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `at` gives an aligned pointer to four bytes of the region, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    #[inline]
    fn cell64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `at` gives an aligned pointer to eight bytes of the region, which lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    #[inline]
    pub(crate) fn load16(&self, offset: usize) -> u16 {
        self.cell16(offset).load(Relaxed)
    }

    #[inline]
    pub(crate) fn load32(&self, offset: usize) -> u32 {
        self.cell32(offset).load(Relaxed)
    }

    #[inline]
    pub(crate) fn load64(&self, offset: usize) -> u64 {
        self.cell64(offset).load(Relaxed)
    }

    #[inline]
    pub(crate) fn store16(&self, offset: usize, value: u16) {
        self.cell16(offset).store(value, Relaxed);
    }

    #[inline]
    pub(crate) fn store32(&self, offset: usize, value: u32) {
        self.cell32(offset).store(value, Relaxed);
    }

    #[inline]
    pub(crate) fn store64(&self, offset: usize, value: u64) {
        self.cell64(offset).store(value, Relaxed);
    }

    /// Loads `size` (1, 2, 4 or 8) bytes, zero-extended.
    #[inline]
    pub(crate) fn load(&self, offset: usize, size: u32) -> u64 {
        match size {
            1 => self.load8(offset).into(),
            2 => self.load16(offset).into(),
            4 => self.load32(offset).into(),
            _ => self.load64(offset),
        }
    }

    /// Stores the low `size` (1, 2, 4 or 8) bytes of `value`.
    #[inline]
    pub(crate) fn store(&self, offset: usize, size: u32, value: u64) {
        match size {
            1 => self.store8(offset, value as u8),
            2 => self.store16(offset, value as u16),
            4 => self.store32(offset, value as u32),
            _ => self.store64(offset, value),
        }
    }

    /// Replaces `size` (1, 2, 4 or 8) bytes by what `update` makes of them, at once, and gives what was there.
    pub(crate) fn update(&self, offset: usize, size: u32, update: impl Fn(u64) -> u64) -> u64 {
        match size {
            1 => {
                // SAFETY: as in `load8`.
                let cell = unsafe { AtomicU8::from_ptr(self.at(offset, 1)) };
                cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old.into()) as u8)).unwrap_or_else(|old| old).into()
            }
            2 => {
                let cell = self.cell16(offset);
                cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old.into()) as u16))
                    .unwrap_or_else(|old| old)
                    .into()
            }
            4 => {
                let cell = self.cell32(offset);
                cell.fetch_update(SeqCst, SeqCst, |old| Some(update(old.into()) as u32))
                    .unwrap_or_else(|old| old)
                    .into()
            }
            _ => self.cell64(offset).fetch_update(SeqCst, SeqCst, |old| Some(update(old))).unwrap_or_else(|old| old),
        }
    }

    /// Copies bytes in. Panics if they do not fit.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let (head, words, tail) = Self::split(offset, bytes.len());
        for (index, &byte) in bytes[..head].iter().enumerate() {
            self.store8(offset + index, byte);
        }
        for (index, word) in bytes[head..head + words].chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
            self.store64(offset + head + index * 8, word);
        }
        for (index, &byte) in bytes[bytes.len() - tail..].iter().enumerate() {
            self.store8(offset + head + words + index, byte);
        }
    }

    /// Copies bytes out. Panics if there are not as many.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let (head, words, tail) = Self::split(offset, bytes.len());
        for (index, byte) in bytes[..head].iter_mut().enumerate() {
            *byte = self.load8(offset + index);
        }
        for (index, word) in bytes[head..head + words].chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.load64(offset + head + index * 8).to_le_bytes());
        }
        let start = bytes.len() - tail;
        for (index, byte) in bytes[start..].iter_mut().enumerate() {
            *byte = self.load8(offset + head + words + index);
        }
    }

    /// Returns the number of bytes that come before the first aligned word, are in aligned words, and come after.
    fn split(offset: usize, length: usize) -> (usize, usize, usize) {
        let head = (offset.wrapping_neg() % 8).min(length);
        let words = (length - head) / 8 * 8;
        (head, words, length - head - words)
    }

    /// Sets all bytes.
    pub(crate) fn fill(&self, byte: u8) {
        let word = u64::from_le_bytes([byte; 8]);
        for offset in (0..self.length / 8 * 8).step_by(8) {
            self.store64(offset, word);
        }
        for offset in self.length / 8 * 8..self.length {
            self.store8(offset, byte);
        }
    }
}
