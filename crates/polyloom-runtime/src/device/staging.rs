//! Arrays of the host in a device's memory, for the time of a launch.
//!
//! Arrays that are in the device's memory anyway stay as they are. Arrays that overlap on the host overlap there: their
//! memory becomes one allocation. What lies between the elements of an array with strides is never looked at, since
//! other threads may write it meanwhile, and is zero on the device.

use super::layout::{Layout, Rows};
use super::{DeviceFailure, Memory};
use crate::args::{ArgBlock, Params};
use polyloom_codegen::ArgLayout;
use polyloom_ir::Type;
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

/// One array argument: its elements on the host.
struct HostArray {
    param: usize,
    layout: Layout,
}

/// A run of the host's memory and where it is on the device.
struct Block {
    host: Range<u64>,
    device: u64,
}

/// The arrays of a launch on the device.
pub(crate) struct Staged<'a> {
    memory: &'a dyn Memory,
    blocks: Vec<Block>,
    /// Of each parameter that is an array, its base address on the device.
    addresses: Vec<Option<u64>>,
    written: Vec<HostArray>,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        for block in &self.blocks {
            self.memory.free(block.device);
        }
    }
}

impl<'a> Staged<'a> {
    /// Copies the arrays to the device. `args` is complete for `params`; `written` says which arrays the kernel writes.
    ///
    /// # Safety
    ///
    /// The memory of all arrays is valid to read, and nobody writes it meanwhile.
    pub(crate) unsafe fn new(
        memory: &'a dyn Memory,
        params: &Params,
        args: &ArgBlock,
        written: &[bool],
    ) -> Result<Staged<'a>, DeviceFailure> {
        let arrays: Vec<HostArray> = host_arrays(params, args);
        let merged = merged_spans(arrays.iter().map(|array| array.layout.span()).collect());
        let mut staged =
            Staged { memory, blocks: Vec::new(), addresses: vec![None; params.len()], written: Vec::new() };
        for host in merged {
            let n_bytes = (host.end - host.start) as usize;
            let skew = skew(host.start);
            // Whole words: GPUs update an element of 8 bits together with what stands beside it.
            let device = memory.alloc((n_bytes + skew as usize).next_multiple_of(4))?;
            staged.blocks.push(Block { host: host.clone(), device });
            let inside = arrays.iter().map(|array| &array.layout).filter(|layout| host.contains(&layout.span().start));
            // SAFETY: the caller vouches for the elements of the arrays.
            let bytes = unsafe { block_bytes(&host, inside) };
            memory.write(Rows::one(device + skew, n_bytes as u64), &bytes)?;
        }
        for array in arrays {
            staged.addresses[array.param] = staged.on_device(array.layout.base);
            if written.get(array.param).copied().unwrap_or(false) {
                staged.written.push(array);
            }
        }
        Ok(staged)
    }

    /// The address on the device of the array that is this parameter; `None` if it has no elements.
    pub(crate) fn address(&self, param: usize) -> Option<u64> {
        self.addresses.get(param).copied().flatten()
    }

    fn on_device(&self, host: u64) -> Option<u64> {
        let block = self.blocks.iter().find(|block| block.host.contains(&host))?;
        Some(block.device + skew(block.host.start) + (host - block.host.start))
    }

    /// Whether some array was brought here.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_arrays(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Copies the elements of arrays that the kernel writes back to the host.
    ///
    /// # Safety
    ///
    /// Their memory is valid to write, and nobody else accesses it meanwhile.
    pub(crate) unsafe fn copy_back(&self) -> Result<(), DeviceFailure> {
        for HostArray { layout, .. } in &self.written {
            let span = layout.span();
            let Some(device) = self.on_device(span.start).filter(|_| !span.is_empty()) else { continue };
            let n_bytes = (span.end - span.start) as usize;
            if layout.is_one_run() {
                // SAFETY: these are the elements of the array, which the caller vouches for.
                let bytes = unsafe { std::slice::from_raw_parts_mut(span.start as *mut u8, n_bytes) };
                self.memory.read(device, bytes)?;
                continue;
            }
            // One copy from the device: many small ones take longer.
            let mut bytes = vec![0; n_bytes];
            self.memory.read(device, &mut bytes)?;
            layout.runs(&mut |to, length| -> Result<(), DeviceFailure> {
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
pub fn merged_spans(mut spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
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
unsafe fn block_bytes<'a>(block: &Range<u64>, arrays: impl Iterator<Item = &'a Layout> + Clone) -> Cow<'static, [u8]> {
    let n_bytes = (block.end - block.start) as usize;
    if arrays.clone().any(|array| array.is_one_run() && array.span() == *block) {
        // SAFETY: these are the elements of that array, which the caller vouches for.
        return Cow::Borrowed(unsafe { std::slice::from_raw_parts(block.start as *const u8, n_bytes) });
    }
    let mut bytes = vec![0; n_bytes];
    for array in arrays {
        let Ok(()) = array.runs(&mut |from, length| -> Result<(), Infallible> {
            // SAFETY: the run is of elements of the array, which the caller vouches for.
            let run = unsafe { std::slice::from_raw_parts(from as *const u8, length as usize) };
            bytes[(from - block.start) as usize..][..run.len()].copy_from_slice(run);
            Ok(())
        });
    }
    Cow::Owned(bytes)
}

/// How far into its allocation memory of the host goes: what is aligned there for the widest access is so here, and
/// nothing else depends on where the host has it.
fn skew(host: u64) -> u64 {
    host % 16
}

fn host_arrays(params: &Params, args: &ArgBlock) -> Vec<HostArray> {
    let array = |(param, ty): (usize, &Type)| {
        let Type::Array { elem, ndim, .. } = *ty else { return None };
        if args.is_resident(param) {
            return None;
        }
        let at = |offset: u32| args.words()[(params.layout().offsets[param] + offset) as usize / 8];
        let layout = Layout {
            base: at(0),
            elem_bytes: elem.bytes().into(),
            extents: (0..ndim).map(|axis| at(ArgLayout::extent(axis))).collect(),
            strides: (0..ndim).map(|axis| at(ArgLayout::stride(ndim, axis)) as i64).collect(),
        };
        Some(HostArray { param, layout })
    };
    params.types().iter().enumerate().filter_map(array).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elements_are_read() {
        let host: Vec<u8> = (1..=24).collect();
        let base = host.as_ptr() as u64;
        let layout = |offset: u64, extents: &[u64], strides: &[i64]| Layout {
            base: base + offset,
            elem_bytes: 2,
            extents: extents.into(),
            strides: strides.into(),
        };
        let check = |arrays: &[Layout], expect: &[u8], is_copied: bool| {
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
        check(&[layout(0, &[4], &[2]), layout(2, &[1], &[2])], &[1, 2, 3, 4, 5, 6, 7, 8], false);
    }
}
