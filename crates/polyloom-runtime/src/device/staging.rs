//! Arrays of the host in a device's memory, for the time of a launch.
//!
//! Arrays that are in the device's memory anyway stay as they are. Arrays that overlap on the host overlap there: their
//! memory becomes one allocation. What lies between the elements of an array with strides is never looked at, since
//! other threads may write it meanwhile, and is zero on the device.

use super::layout::{ArrayLayout, RowLayout};
use super::{DeviceFailure, Queue};
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

/// An array on the host that a launch is given.
#[derive(Clone, Debug)]
pub struct HostArray {
    /// The place where its elements are.
    pub layout: ArrayLayout,
    /// True if they are copied back after the launch.
    pub is_written: bool,
}

/// Says where on the device a run of the host's memory goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StagedPlacement {
    /// As far from a multiple of 16 bytes as on the host, because what is aligned on the host is so there, and nothing
    /// else depends on where the host has it.
    AsOnHost,
    /// At a multiple of 256 bytes, as somebody who allocates on the device has it.
    Exact,
}

impl StagedPlacement {
    /// Returns how far past a multiple of 256 bytes such a run of the host's memory goes.
    fn skew(self, host: &Range<u64>) -> u8 {
        match self {
            StagedPlacement::AsOnHost => (host.start % 16) as u8,
            StagedPlacement::Exact => 0,
        }
    }
}

/// A run of the host's memory and where it is on the device.
struct StagedRun {
    host: Range<u64>,
    start: u64,
}

/// The arrays of a launch on the device.
pub struct StagedArrays<'a> {
    queue: &'a dyn Queue,
    blocks: Vec<StagedRun>,
    arrays: Vec<HostArray>,
}

impl Drop for StagedArrays<'_> {
    fn drop(&mut self) {
        for block in &self.blocks {
            // SAFETY: it is this one's allocation, which nobody is given longer than this is there.
            unsafe { self.queue.free(block.start) };
        }
    }
}

impl<'a> StagedArrays<'a> {
    /// Copies arrays to the device.
    ///
    /// # Errors
    ///
    /// When the device has no memory for them.
    ///
    /// # Safety
    ///
    /// The memory of all arrays is valid to read, and nobody writes it meanwhile.
    pub unsafe fn new(
        queue: &'a dyn Queue,
        arrays: Vec<HostArray>,
        placement: StagedPlacement,
    ) -> Result<StagedArrays<'a>, DeviceFailure> {
        let merged = merged_spans(arrays.iter().map(|array| array.layout.span()).collect());
        let mut staged = StagedArrays { queue, blocks: Vec::new(), arrays };
        for host in merged {
            let n_bytes = host.end - host.start;
            let start = queue.alloc(n_bytes as usize, placement.skew(&host))?;
            staged.blocks.push(StagedRun { host: host.clone(), start });
            let layouts = staged.arrays.iter().map(|array| &array.layout);
            let inside = layouts.filter(|layout| host.contains(&layout.span().start));
            // SAFETY: the caller vouches for the elements of the arrays.
            let bytes = unsafe { block_bytes(&host, inside) };
            // SAFETY: the allocation has as many bytes.
            unsafe { queue.write(RowLayout::one(start, n_bytes), &bytes)? };
        }
        Ok(staged)
    }

    /// The address on the device of an array, by its number; `None` if it has no elements.
    pub fn address(&self, array: usize) -> Option<u64> {
        self.on_device(self.arrays.get(array)?.layout.base)
    }

    fn on_device(&self, host: u64) -> Option<u64> {
        let block = self.blocks.iter().find(|block| block.host.contains(&host))?;
        Some(block.start + (host - block.host.start))
    }

    /// Returns true if some array was brought here.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_arrays(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Copies the elements of arrays that the kernel writes back to the host.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// Their memory is valid to write, and nobody else accesses it meanwhile.
    pub unsafe fn copy_back(&self) -> Result<(), DeviceFailure> {
        for HostArray { layout, .. } in self.arrays.iter().filter(|array| array.is_written) {
            let span = layout.span();
            let Some(device) = self.on_device(span.start).filter(|_| !span.is_empty()) else { continue };
            let n_bytes = (span.end - span.start) as usize;
            if layout.is_one_run() {
                // SAFETY: these are the elements of the array, which the caller vouches for.
                let bytes = unsafe { std::slice::from_raw_parts_mut(span.start as *mut u8, n_bytes) };
                // SAFETY: the array is in a block, and in the block's allocation as far from its beginning.
                unsafe { self.queue.read(device, bytes)? };
                continue;
            }
            // One copy from the device, because many small ones take longer.
            let mut bytes = vec![0; n_bytes];
            // SAFETY: as above.
            unsafe { self.queue.read(device, &mut bytes)? };
            layout.without_repeats().runs(&mut |to, length| -> Result<(), DeviceFailure> {
                // SAFETY: the run is of elements of the array, which the caller vouches for.
                let run = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, length as usize) };
                run.copy_from_slice(&bytes[(to - span.start) as usize..][..run.len()]);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The runs of memory that these make together, in order: those that overlap are one, and those of nothing none.
fn merged_spans(mut spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
    spans.retain(|span| !span.is_empty());
    spans.sort_by_key(|span| span.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// The bytes of a block of the host's memory that are elements of arrays inside it; the others are zero.
///
/// # Safety
///
/// The elements are valid to read, and nobody writes them for as long as the result is used.
unsafe fn block_bytes<'a>(
    block: &Range<u64>,
    arrays: impl Iterator<Item = &'a ArrayLayout> + Clone,
) -> Cow<'static, [u8]> {
    let n_bytes = (block.end - block.start) as usize;
    if arrays.clone().any(|array| array.is_one_run() && array.span() == *block) {
        // SAFETY: these are the elements of that array, which the caller vouches for.
        return Cow::Borrowed(unsafe { std::slice::from_raw_parts(block.start as *const u8, n_bytes) });
    }
    let mut bytes = vec![0; n_bytes];
    for array in arrays {
        let Ok(()) = array.without_repeats().runs(&mut |from, length| -> Result<(), Infallible> {
            // SAFETY: the run is of elements of the array, which the caller vouches for.
            let run = unsafe { std::slice::from_raw_parts(from as *const u8, length as usize) };
            bytes[(from - block.start) as usize..][..run.len()].copy_from_slice(run);
            Ok(())
        });
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elements_are_read() {
        let host: Vec<u8> = (1..=24).collect();
        let base = host.as_ptr() as u64;
        let layout = |offset: u64, extents: &[u64], strides: &[i64]| ArrayLayout {
            base: base + offset,
            elem_bytes: 2,
            extents: extents.into(),
            strides: strides.into(),
        };
        let check = |arrays: &[ArrayLayout], expect: &[u8], is_copied: bool| {
            // SAFETY: all elements are in `host`, which nobody writes.
            let bytes = unsafe { block_bytes(&(base..base + expect.len() as u64), arrays.iter()) };
            assert_eq!(*bytes, *expect);
            assert_eq!(matches!(bytes, Cow::Owned(_)), is_copied, "{arrays:?}");
        };
        check(&[layout(0, &[3], &[4])], &[1, 2, 0, 0, 5, 6, 0, 0, 9, 10], true);
        let (backwards, row) = (layout(10, &[2], &[-10]), layout(4, &[2], &[2]));
        check(&[backwards, row], &[1, 2, 0, 0, 5, 6, 7, 8, 0, 0, 11, 12], true);
        // As many elements as fit into the block, but one of them twice.
        check(&[layout(0, &[2, 2], &[0, 6])], &[1, 2, 0, 0, 0, 0, 7, 8], true);
        // 2^31 elements that are one take no longer than one.
        let repeated = layout(0, &[1 << 31, 2], &[0, 2]);
        assert_eq!(repeated.without_repeats().extents[..], [1, 2]);
        check(&[repeated, layout(6, &[1], &[2])], &[1, 2, 3, 4, 0, 0, 7, 8], true);
        check(&[layout(0, &[4], &[2]), layout(2, &[1], &[2])], &[1, 2, 3, 4, 5, 6, 7, 8], false);
    }
}
