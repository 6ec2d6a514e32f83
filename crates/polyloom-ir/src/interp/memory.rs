//! Where the interpreter's arrays live.

use super::{ArrayArg, InterpArg};
use crate::types::{MAX_AXES, Scalar};

/// Buffers of bytes that arrays are views of. Elements are little-endian and need not be aligned.
///
/// The interpreter has checked indices against the array's extents; an offset is then inside the buffer if the
/// argument's extents and strides are. An implementation that cannot trust them gives `None` for an access outside.
pub trait InterpMemory {
    /// Reads `bytes` (1, 2, 4 or 8) bytes, zero-extended.
    fn load(&self, buffer: u32, offset: i64, bytes: u32) -> Option<u64>;

    /// Writes the low `bytes` bytes of `bits`.
    fn store(&mut self, buffer: u32, offset: i64, bytes: u32, bits: u64) -> Option<()>;

    /// Replaces an element by a function of its value, atomically if others may access it, and gives its old value.
    fn update(&mut self, buffer: u32, offset: i64, bytes: u32, f: &mut dyn FnMut(u64) -> u64) -> Option<u64>;
}

/// The buffer that shared memory is.
pub(super) const SHARED: u32 = u32::MAX;

/// Memory of its own, for tests and for checking other back ends.
///
/// ```
/// use polyloom_ir::Scalar;
/// use polyloom_ir::interp::BufferMemory;
///
/// let mut memory = BufferMemory::default();
/// let matrix = memory.add_array(Scalar::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]);
/// assert_eq!(memory.elements(Scalar::I32, matrix), [1, 2, 3, 4, 5, 6]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BufferMemory {
    /// The buffers.
    pub buffers: Vec<Vec<u8>>,
}

impl BufferMemory {
    /// Adds a buffer that holds a dense row-major array, given the bits of its elements.
    pub fn add_array(&mut self, elem: Scalar, extents: &[usize], elements: &[u64]) -> InterpArg {
        let size = elem.bytes() as usize;
        let buffer = self.buffers.len() as u32;
        self.buffers.push(elements.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect());
        let mut array = ArrayArg { buffer, ..ArrayArg::default() };
        let mut stride = size as i64;
        for (axis, &extent) in extents.iter().enumerate().rev().filter(|(axis, _)| *axis < MAX_AXES) {
            array.extents[axis] = extent as i64;
            array.strides[axis] = stride;
            stride *= extent as i64;
        }
        InterpArg::Array(array)
    }

    /// The bits of all elements of the buffer an array argument views, in order of address; none for a scalar.
    pub fn elements(&self, elem: Scalar, array: InterpArg) -> Vec<u64> {
        let InterpArg::Array(array) = array else { return Vec::new() };
        let Some(bytes) = self.buffers.get(array.buffer as usize) else { return Vec::new() };
        let size = elem.bytes();
        let n = bytes.len() as i64 / i64::from(size);
        (0..n).filter_map(|index| self.load(array.buffer, index * i64::from(size), size)).collect()
    }

    fn range(&self, buffer: u32, offset: i64, bytes: u32) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(bytes as usize)?;
        (end <= self.buffers.get(buffer as usize)?.len() && bytes <= 8).then_some(start..end)
    }
}

impl InterpMemory for BufferMemory {
    fn load(&self, buffer: u32, offset: i64, bytes: u32) -> Option<u64> {
        let range = self.range(buffer, offset, bytes)?;
        let mut value = [0; 8];
        value[..range.len()].copy_from_slice(&self.buffers[buffer as usize][range]);
        Some(u64::from_le_bytes(value))
    }

    fn store(&mut self, buffer: u32, offset: i64, bytes: u32, bits: u64) -> Option<()> {
        let range = self.range(buffer, offset, bytes)?;
        let value = &bits.to_le_bytes()[..range.len()];
        self.buffers[buffer as usize][range].copy_from_slice(value);
        Some(())
    }

    fn update(&mut self, buffer: u32, offset: i64, bytes: u32, f: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        let old = self.load(buffer, offset, bytes)?;
        self.store(buffer, offset, bytes, f(old))?;
        Some(old)
    }
}
