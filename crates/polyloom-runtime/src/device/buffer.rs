//! Memory of a device that arrays are in: elements are read, written, set and copied there, however far apart they lie, by
//! way of the queue that it was allocated through.

use super::layout::{ArrayLayout, RowLayout};
use super::{DeviceFailure, DeviceId, FillWord, Queue};
use std::sync::Arc;

/// Most bytes that are brought from the host to fill memory with an element that is no word; they are copied from
/// there.
const MAX_REPEATED_BYTES: usize = 1 << 16;

/// Memory of a device that arrays are in. Dropping it gives it back, unless it is somebody else's.
pub struct DeviceBuffer {
    queue: Arc<dyn Queue>,
    address: u64,
    n_bytes: usize,
    is_owned: bool,
}

impl DeviceBuffer {
    /// So many bytes; of none there is no address.
    ///
    /// # Errors
    ///
    /// When the device has not as many.
    pub fn new(queue: Arc<dyn Queue>, n_bytes: usize) -> Result<DeviceBuffer, DeviceFailure> {
        let address = if n_bytes == 0 { 0 } else { queue.alloc(n_bytes, 0)? };
        Ok(DeviceBuffer { queue, address, n_bytes, is_owned: n_bytes > 0 })
    }

    /// Memory that somebody else has allocated on the device.
    ///
    /// # Safety
    ///
    /// There are as many bytes of it, and they stay there for as long as this is used.
    pub unsafe fn borrowed(queue: Arc<dyn Queue>, address: u64, n_bytes: usize) -> DeviceBuffer {
        DeviceBuffer { queue, address, n_bytes, is_owned: false }
    }

    /// The device it is on.
    pub fn device(&self) -> DeviceId {
        self.queue.device()
    }

    /// Returns where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Copies the elements of an array in this memory to the host, where they follow each other row by row.
    ///
    /// # Errors
    ///
    /// When the array is not in this memory, has not as many bytes, or the device fails.
    pub fn read(&self, array: &ArrayLayout, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.check(array, bytes.len() as u64)?;
        if array.is_one_run() || array.n_bytes() == 0 {
            // SAFETY: the array is in this memory.
            return array.runs(&mut |address, _| unsafe { self.queue.read(address, bytes) });
        }
        // One copy of all, what lies between the elements included, because many small copies take longer.
        let span = array.span();
        let mut all = vec![0; (span.end - span.start) as usize];
        // SAFETY: as above.
        unsafe { self.queue.read(span.start, &mut all)? };
        let mut done = 0;
        array.runs(&mut |address, length| {
            let (from, length) = ((address - span.start) as usize, length as usize);
            bytes[done..done + length].copy_from_slice(&all[from..from + length]);
            done += length;
            Ok(())
        })
    }

    /// Copies elements from the host, where they follow each other row by row, to those of an array in this memory.
    /// What lies between these is not touched, not even with the value it has, because a kernel may be writing it.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::read`].
    pub fn write(&self, array: &ArrayLayout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        self.check(array, bytes.len() as u64)?;
        let mut done = 0;
        array.rows(&mut |rows| {
            let part = &bytes[done..done + rows.n_bytes() as usize];
            done += part.len();
            // SAFETY: the array is in this memory, and these are its rows.
            unsafe { self.queue.write(rows, part) }
        })
    }

    /// Copies the elements of an array in this memory, as they follow each other row by row, to memory of the host that the
    /// device shares, and may return before. Returns false, and does nothing, if they do not follow each other here.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::read`].
    ///
    /// # Safety
    ///
    /// The memory of the host is [shared](super::SharedMemory), has as many bytes, and lives until the copy is done.
    pub unsafe fn read_later(&self, array: &ArrayLayout, to: *mut u8) -> Result<bool, DeviceFailure> {
        let n_bytes = array.n_bytes();
        self.check(array, n_bytes)?;
        if !array.is_one_run() || n_bytes == 0 {
            return Ok(n_bytes == 0);
        }
        // SAFETY: the array is in this memory, and the caller vouches for the host's.
        array.runs(&mut |address, length| unsafe { self.queue.read_later(address, to, length as usize) })?;
        Ok(true)
    }

    /// Copies elements from memory of the host that the device shares, where they follow each other row by row, to those
    /// of an array in this memory, and may return before.
    ///
    /// # Errors
    ///
    /// As [`DeviceBuffer::read`].
    ///
    /// # Safety
    ///
    /// As of [`DeviceBuffer::read_later`].
    pub unsafe fn write_later(&self, array: &ArrayLayout, from: *const u8) -> Result<(), DeviceFailure> {
        self.check(array, array.n_bytes())?;
        let mut done = 0;
        array.rows(&mut |rows| {
            // SAFETY: the array is in this memory, these are its rows, and the caller vouches for the host's memory.
            let copied = unsafe { self.queue.write_later(rows, from.add(done)) };
            done += rows.n_bytes() as usize;
            copied
        })
    }

    /// Sets each element of an array in this memory. `element` is one of them: the bytes along its last axes.
    ///
    /// # Errors
    ///
    /// When the array is not in this memory, is not made of such elements, or the device fails.
    pub fn fill(&self, array: &ArrayLayout, element: &[u8]) -> Result<(), DeviceFailure> {
        let n_bytes = array.n_bytes();
        self.check(array, n_bytes)?;
        if n_bytes == 0 {
            return Ok(());
        }
        if element.is_empty() || !n_bytes.is_multiple_of(element.len() as u64) {
            return Err(DeviceFailure::OutOfBounds {
                device: self.device(),
                address: array.base,
                n_bytes: element.len(),
            });
        }
        let repeated = |n_bytes: usize| -> Vec<u8> { element.iter().copied().cycle().take(n_bytes).collect() };
        match FillWord::of(element).filter(|word| array.is_aligned(word.n_bytes())) {
            // SAFETY: the array is in this memory, here and below.
            Some(word) => array.rows(&mut |rows| unsafe { self.queue.fill(rows, word) }),
            None if array.is_one_run() => {
                let step = (MAX_REPEATED_BYTES / element.len() * element.len()).max(element.len());
                let first = repeated(step.min(n_bytes as usize));
                // SAFETY: it has at least as many bytes.
                unsafe { self.queue.write(RowLayout::one(array.base, first.len() as u64), &first)? };
                // Twice as much with each copy.
                let mut done = first.len() as u64;
                while done < n_bytes {
                    let length = done.min(n_bytes - done);
                    let (to, from) = (RowLayout::one(array.base + done, length), RowLayout::one(array.base, length));
                    // SAFETY: both are in it.
                    unsafe { self.queue.copy(to, from)? };
                    done += length;
                }
                Ok(())
            }
            None => self.write(array, &repeated(n_bytes as usize)),
        }
    }

    /// Has the current queue wait for those that use this memory, as [`Queue::begin_use`] says.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub fn begin_use(&self, is_written: bool) -> Result<(), DeviceFailure> {
        match self.n_bytes {
            0 => Ok(()),
            _ => self.queue.begin_use(self.address, is_written),
        }
    }

    /// Sets all bytes to 0.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub fn clear(&self) -> Result<(), DeviceFailure> {
        match self.n_bytes as u64 {
            0 => Ok(()),
            // SAFETY: that is all of this memory.
            n_bytes => unsafe { self.queue.fill(RowLayout::one(self.address, n_bytes), FillWord::U8(0)) },
        }
    }

    /// Copies the elements of an array in other memory on the same device, or in this, to those of an array in this
    /// memory, of the same extents and as large ones. They may overlap.
    ///
    /// # Errors
    ///
    /// When an array is not in its memory, they are not alike, or the device fails.
    pub fn copy_from(&self, to: &ArrayLayout, other: &DeviceBuffer, from: &ArrayLayout) -> Result<(), DeviceFailure> {
        self.check(to, from.n_bytes())?;
        other.check(from, to.n_bytes())?;
        if self.device() != other.device() || to.extents != from.extents {
            let (device, address) = (self.device(), from.base);
            return Err(DeviceFailure::OutOfBounds { device, address, n_bytes: from.n_bytes() as usize });
        }
        // SAFETY: each array is in its memory, as checked, or dense in memory of as many bytes.
        let copy = |to: &ArrayLayout, from: &ArrayLayout| unsafe { to.copy_from(&*self.queue, from) };
        let (target, source) = (to.span(), from.span());
        if target.end <= source.start || source.end <= target.start {
            return copy(to, from);
        }
        // The elements go through other memory, because a copy of one row might overwrite another before it is read.
        let between = DeviceBuffer::new(self.queue.clone(), from.n_bytes() as usize)?;
        let dense = from.dense_at(between.address());
        copy(&dense, from)?;
        copy(to, &dense)
    }

    /// Tells whether an array of so many bytes is in this memory.
    fn check(&self, array: &ArrayLayout, n_bytes: u64) -> Result<(), DeviceFailure> {
        let span = array.span();
        let is_within = span.start >= self.address && span.end <= self.address + self.n_bytes as u64;
        let is_one = array.n_bytes() == n_bytes && span.start <= span.end;
        match is_one && (is_within || n_bytes == 0) {
            true => Ok(()),
            false => {
                let (device, address) = (self.device(), span.start);
                Err(DeviceFailure::OutOfBounds { device, address, n_bytes: n_bytes as usize })
            }
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: `new` has allocated it, and nobody is given it longer than this is there.
            unsafe { self.queue.free(self.address) };
        }
    }
}

impl ArrayLayout {
    /// Puts a copy of another array's elements, of the same extents and size, to those of this into a queue.
    ///
    /// # Errors
    ///
    /// When the two are not alike, or the device fails.
    ///
    /// # Safety
    ///
    /// All elements of both are in live allocations of the queue's device, and none of one is in the other.
    pub unsafe fn copy_from(&self, queue: &dyn Queue, from: &ArrayLayout) -> Result<(), DeviceFailure> {
        if self.extents != from.extents || self.elem_bytes != from.elem_bytes {
            let (device, address) = (queue.device(), from.base);
            return Err(DeviceFailure::OutOfBounds { device, address, n_bytes: from.n_bytes() as usize });
        }
        // SAFETY: passed on to the caller.
        self.rows_with(from, &mut |to, from| unsafe { queue.copy(to, from) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    fn layout(base: u64, extents: &[u64], strides: &[i64]) -> ArrayLayout {
        ArrayLayout { base, elem_bytes: 2, extents: extents.into(), strides: strides.into() }
    }

    #[test]
    fn elements_apart_are_copied_and_nothing_between_them() {
        let buffer = DeviceBuffer::new(sim::queue(), 24).unwrap();
        let at = buffer.address();
        let all = layout(at, &[12], &[2]);
        buffer.write(&all, &[9; 24]).unwrap();
        // Two columns of three rows of four, from the last row up.
        let part = layout(at + 16, &[3, 2], &[-8, 4]);
        let given: Vec<u8> = (0..12).collect();
        buffer.write(&part, &given).unwrap();
        let mut found = [0; 12];
        buffer.read(&part, &mut found).unwrap();
        assert_eq!(found, *given);
        let mut found = [0; 24];
        buffer.read(&all, &mut found).unwrap();
        assert_eq!(found, [8, 9, 9, 9, 10, 11, 9, 9, 4, 5, 9, 9, 6, 7, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9]);
    }

    #[test]
    fn what_is_not_in_the_memory_is_refused() {
        let buffer = DeviceBuffer::new(sim::queue(), 8).unwrap();
        let at = buffer.address();
        let refused = |layout: &ArrayLayout, n_bytes: usize| {
            let error = buffer.read(layout, &mut vec![0; n_bytes]).unwrap_err();
            assert!(matches!(error, DeviceFailure::OutOfBounds { device: DeviceId::Simulator, .. }), "{error}");
        };
        refused(&layout(at + 2, &[4], &[2]), 8);
        refused(&layout(at, &[4], &[-2]), 8);
        refused(&layout(at, &[4], &[2]), 6);
        refused(&layout(at, &[u64::MAX], &[2]), 8);
        // Beyond the address space, whatever the ends come to modulo its size.
        let wrapping = layout(at, &[(1 << 32) + 1], &[1 << 32]);
        assert!(buffer.fill(&wrapping, &[0, 0]).is_err());
        assert!(buffer.fill(&layout(at, &[u64::MAX], &[i64::MIN]), &[0, 0]).is_err());
        let other = DeviceBuffer::new(sim::queue(), 8).unwrap();
        let all = |buffer: &DeviceBuffer| layout(buffer.address(), &[4], &[2]);
        assert!(buffer.copy_from(&layout(at + 2, &[4], &[2]), &other, &all(&other)).is_err());
        assert!(buffer.copy_from(&layout(at, &[2, 2], &[4, 2]), &other, &all(&other)).is_err());
        buffer.copy_from(&all(&buffer), &other, &all(&other)).unwrap();
        assert!(buffer.fill(&layout(at + 2, &[4], &[2]), &[0, 0]).is_err());
        assert!(buffer.fill(&all(&buffer), &[0, 0, 0]).is_err());
    }

    fn contents(buffer: &DeviceBuffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.n_bytes()];
        let all = ArrayLayout {
            base: buffer.address(),
            elem_bytes: 1,
            extents: [buffer.n_bytes() as u64].as_slice().into(),
            strides: [1].as_slice().into(),
        };
        buffer.read(&all, &mut bytes).unwrap();
        bytes
    }

    /// Words, elements that are none, and elements apart.
    #[test]
    fn arrays_are_filled_and_nothing_between_their_elements() {
        let check = |extents: &[u64], strides: &[i64], element: &[u8], expect: &[u8]| {
            let buffer = DeviceBuffer::new(sim::queue(), expect.len()).unwrap();
            buffer.clear().unwrap();
            buffer.fill(&layout(buffer.address(), extents, strides), element).unwrap();
            assert_eq!(contents(&buffer), expect, "{extents:?} {strides:?} {element:?}");
        };
        check(&[3], &[2], &[7, 7], &[7; 6]);
        check(&[3], &[2], &[1, 2], &[1, 2, 1, 2, 1, 2]);
        check(&[2], &[4], &[1, 2], &[1, 2, 0, 0, 1, 2, 0, 0]);
        check(&[2, 2], &[4, 2], &[1, 2, 3, 4], &[1, 2, 3, 4, 1, 2, 3, 4]);
        check(&[2, 3], &[6, 2], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
        check(&[2, 3], &[8, 2], &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0]);
        // The components of an element are apart.
        check(&[2, 2], &[2, 4], &[1, 2, 3, 4], &[1, 2, 1, 2, 3, 4, 3, 4]);
        check(&[0], &[2], &[1, 2], &[0, 0]);
    }

    /// More than is brought from the host at once, and no multiple of it.
    #[test]
    fn a_long_array_is_filled_by_copies() {
        let n = 2 * MAX_REPEATED_BYTES + 6;
        let buffer = DeviceBuffer::new(sim::queue(), n).unwrap();
        let element = [1, 2, 3, 4, 5, 6];
        buffer.fill(&layout(buffer.address(), &[n as u64 / 6, 3], &[6, 2]), &element).unwrap();
        let expect: Vec<u8> = element.iter().copied().cycle().take(n / 6 * 6).collect();
        assert_eq!(contents(&buffer)[..expect.len()], expect);
    }

    #[test]
    fn arrays_are_copied_on_the_device_however_they_lie() {
        let check = |to: ArrayLayout, from: ArrayLayout, expect: &[u8]| {
            let (target, source) = [(); 2].map(|()| DeviceBuffer::new(sim::queue(), 12).unwrap()).into();
            target.clear().unwrap();
            let given: Vec<u8> = (1..=12).collect();
            source.write(&layout(source.address(), &[6], &[2]), &given).unwrap();
            let at = |buffer: &DeviceBuffer, array: &ArrayLayout| ArrayLayout {
                base: array.base + buffer.address(),
                ..array.clone()
            };
            target.copy_from(&at(&target, &to), &source, &at(&source, &from)).unwrap();
            assert_eq!(contents(&target), expect, "{to:?} {from:?}");
        };
        check(layout(0, &[2], &[6]), layout(2, &[2], &[4]), &[3, 4, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0]);
        check(layout(0, &[2, 3], &[6, 2]), layout(0, &[2, 3], &[2, 4]), &[1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12]);
        check(layout(10, &[6], &[-2]), layout(0, &[6], &[2]), &[11, 12, 9, 10, 7, 8, 5, 6, 3, 4, 1, 2]);
        check(
            layout(0, &[2, 1, 2], &[4, 99, 2]),
            layout(0, &[2, 1, 2], &[0, -7, 2]),
            &[1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0],
        );
    }

    #[test]
    fn arrays_that_overlap_are_copied_as_they_were() {
        let buffer = DeviceBuffer::new(sim::queue(), 8).unwrap();
        let at = buffer.address();
        buffer.write(&layout(at, &[4], &[2]), &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        buffer.copy_from(&layout(at + 2, &[3], &[2]), &buffer, &layout(at, &[3], &[2])).unwrap();
        assert_eq!(contents(&buffer), [1, 2, 1, 2, 3, 4, 5, 6]);
        buffer.copy_from(&layout(at, &[4], &[2]), &buffer, &layout(at + 6, &[4], &[-2])).unwrap();
        assert_eq!(contents(&buffer), [5, 6, 3, 4, 1, 2, 1, 2]);
    }

    #[test]
    fn memory_is_given_back() {
        let buffer = DeviceBuffer::new(sim::queue(), 64).unwrap();
        // SAFETY: `buffer` has 64 bytes.
        let view = unsafe { DeviceBuffer::borrowed(sim::queue(), buffer.address(), 64) };
        drop(view);
        buffer.clear().unwrap();
        let address = buffer.address();
        drop(buffer);
        // SAFETY: the simulator looks whether there is anything at an address.
        assert!(unsafe { sim::queue().read(address, &mut [0]) }.is_err());
        let empty = DeviceBuffer::new(sim::queue(), 0).unwrap();
        assert_eq!((empty.address(), empty.n_bytes()), (0, 0));
        empty.read(&layout(0, &[0], &[2]), &mut []).unwrap();
    }
}
