//! Arrays of the host in a device's memory, for the time of a launch.
//!
//! Arrays that overlap on the host overlap there: runs of memory that touch become one allocation. What lies between the
//! elements of an array with strides is copied there too, but never back.

use crate::args::Params;
use polyloom_codegen::ArgLayout;
use polyloom_ir::Type;
use polyloom_ptx::{DeviceMemory, MemoryError};
use smallvec::SmallVec;
use std::ops::Range;

/// One array argument: its elements on the host.
struct HostArray {
    param: usize,
    base: u64,
    elem_bytes: u64,
    extents: SmallVec<[u64; 4]>,
    strides: SmallVec<[i64; 4]>,
}

impl HostArray {
    /// The bytes from its first to its last, or none.
    fn span(&self) -> Range<u64> {
        if self.extents.contains(&0) {
            return self.base..self.base;
        }
        let (mut low, mut high) = (0i64, 0i64);
        for (&extent, &stride) in self.extents.iter().zip(&self.strides) {
            let reach = (extent as i64 - 1).wrapping_mul(stride);
            low = low.wrapping_add(reach.min(0));
            high = high.wrapping_add(reach.max(0));
        }
        self.base.wrapping_add_signed(low)..self.base.wrapping_add_signed(high).wrapping_add(self.elem_bytes)
    }

    /// Calls `each` with address and length of each run of elements that follow each other on the host.
    fn runs(&self, each: &mut impl FnMut(u64, u64) -> Result<(), MemoryError>) -> Result<(), MemoryError> {
        // Inner axes that are dense belong to a run.
        let mut run = self.elem_bytes;
        let mut outer = self.extents.len();
        while outer > 0 && self.strides[outer - 1] == run as i64 {
            outer -= 1;
            run *= self.extents[outer];
        }
        let n_runs: u64 = self.extents[..outer].iter().product();
        for number in 0..if run == 0 { 0 } else { n_runs } {
            let (mut rest, mut address) = (number, self.base);
            for axis in (0..outer).rev() {
                let index = rest % self.extents[axis];
                rest /= self.extents[axis];
                address = address.wrapping_add_signed((index as i64).wrapping_mul(self.strides[axis]));
            }
            each(address, run)?;
        }
        Ok(())
    }
}

/// A run of the host's memory and where it is on the device.
struct Block {
    host: Range<u64>,
    device: u64,
}

/// The arrays of a launch on the device.
pub(super) struct Staged<'a> {
    memory: &'a DeviceMemory,
    blocks: Vec<Block>,
    /// Of each parameter that is an array, its base address on the device.
    addresses: Vec<Option<u64>>,
    written: Vec<HostArray>,
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        for block in &self.blocks {
            // It was allocated by `new`, and nobody else frees it.
            let _ = self.memory.free(block.device);
        }
    }
}

impl<'a> Staged<'a> {
    /// Copies the arrays to the device. `words` is a complete argument block for `params`; `written` says which arrays
    /// the kernel writes.
    ///
    /// # Safety
    ///
    /// The memory of all arrays is valid to read, and nobody writes it meanwhile.
    pub(super) unsafe fn new(
        memory: &'a DeviceMemory,
        params: &Params,
        words: &[u64],
        written: &[bool],
    ) -> Result<Staged<'a>, MemoryError> {
        let arrays: Vec<HostArray> = host_arrays(params, words);
        let mut spans: Vec<Range<u64>> = arrays.iter().map(HostArray::span).filter(|span| !span.is_empty()).collect();
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
            let device = memory.alloc((n_bytes + skew as usize).next_multiple_of(4), ALIGNMENT)?;
            staged.blocks.push(Block { host: host.clone(), device });
            // SAFETY: the run is made of overlapping spans of arrays that the caller vouches for.
            let bytes = unsafe { std::slice::from_raw_parts(host.start as *const u8, n_bytes) };
            memory.write(device + skew, bytes)?;
        }
        for array in arrays {
            staged.addresses[array.param] = staged.on_device(array.base);
            if written.get(array.param).copied().unwrap_or(false) {
                staged.written.push(array);
            }
        }
        Ok(staged)
    }

    /// The address on the device of the array that is this parameter; `None` if it has no elements.
    pub(super) fn address(&self, param: usize) -> Option<u64> {
        self.addresses.get(param).copied().flatten()
    }

    fn on_device(&self, host: u64) -> Option<u64> {
        let block = self.blocks.iter().find(|block| block.host.contains(&host))?;
        Some(block.device + skew(block.host.start) + (host - block.host.start))
    }

    /// Copies the elements of arrays that the kernel writes back to the host.
    ///
    /// # Safety
    ///
    /// Their memory is valid to write, and nobody else accesses it meanwhile.
    pub(super) unsafe fn copy_back(&self) -> Result<(), MemoryError> {
        for array in &self.written {
            array.runs(&mut |host, length| {
                let Some(device) = self.on_device(host) else { return Ok(()) };
                // SAFETY: the run is of elements of the array, which the caller vouches for.
                let bytes = unsafe { std::slice::from_raw_parts_mut(host as *mut u8, length as usize) };
                self.memory.read(device, bytes)
            })?;
        }
        Ok(())
    }
}

/// What allocations begin at multiples of.
const ALIGNMENT: u64 = 256;

/// How far into its allocation memory of the host goes: what is aligned there for the widest access is so here, and
/// nothing else depends on where the host has it.
fn skew(host: u64) -> u64 {
    host % 16
}

fn host_arrays(params: &Params, words: &[u64]) -> Vec<HostArray> {
    let array = |(param, ty): (usize, &Type)| {
        let Type::Array { elem, ndim, .. } = *ty else { return None };
        let at = |offset: u32| words[(params.layout().offsets[param] + offset) as usize / 8];
        Some(HostArray {
            param,
            base: at(0),
            elem_bytes: elem.bytes().into(),
            extents: (0..ndim).map(|axis| at(ArgLayout::extent(axis))).collect(),
            strides: (0..ndim).map(|axis| at(ArgLayout::stride(ndim, axis)) as i64).collect(),
        })
    };
    params.types().iter().enumerate().filter_map(array).collect()
}
