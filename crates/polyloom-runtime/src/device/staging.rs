//! Arrays of the host in a device's memory, for the time of a launch.
//!
//! Arrays that are in the device's memory anyway stay as they are. Arrays that overlap on the host overlap there: runs of memory that touch become one allocation. What lies between the
//! elements of an array with strides is copied there too, but never back.

use super::layout::Layout;
use super::{DeviceFailure, Memory};
use crate::args::{ArgBlock, Params};
use polyloom_codegen::ArgLayout;
use polyloom_ir::Type;
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
        let mut spans: Vec<Range<u64>> =
            arrays.iter().map(|array| array.layout.span()).filter(|span| !span.is_empty()).collect();
        spans.sort_by_key(|span| span.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => merged.push(span),
            }
        }
        let mut staged =
            Staged { memory, blocks: Vec::new(), addresses: vec![None; params.len()], written: Vec::new() };
        for host in merged {
            let n_bytes = (host.end - host.start) as usize;
            let skew = skew(host.start);
            // Whole words: PTX updates 16-bit elements by exchanges of the word they are in.
            let device = memory.alloc((n_bytes + skew as usize).next_multiple_of(4))?;
            staged.blocks.push(Block { host: host.clone(), device });
            // SAFETY: the run is made of overlapping spans of arrays that the caller vouches for.
            let bytes = unsafe { std::slice::from_raw_parts(host.start as *const u8, n_bytes) };
            memory.write(device + skew, bytes)?;
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
        for array in &self.written {
            array.layout.runs(&mut |host, length| {
                let Some(device) = self.on_device(host) else { return Ok(()) };
                // SAFETY: the run is of elements of the array, which the caller vouches for.
                let bytes = unsafe { std::slice::from_raw_parts_mut(host as *mut u8, length as usize) };
                self.memory.read(device, bytes)
            })?;
        }
        Ok(())
    }
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
