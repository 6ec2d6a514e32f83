//! What devices with memory of their own share, GPUs and the simulator alike: their names, their memory, arrays of the
//! host that are staged there for a launch, and what a launch hands to a kernel and learns from it.

pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod staging;

use layout::Layout;
use std::fmt;
use std::sync::Arc;

/// Where kernels run and arrays are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Device {
    /// `cpu`: the machine itself.
    #[default]
    Cpu,
    /// `sim:0`: the simulator of a GPU.
    Simulator,
    /// `cuda:0` and so on: an NVIDIA GPU, by its number.
    Cuda(u32),
}

impl Device {
    /// The device of this name, whether or not this machine has it: `sim` and `cuda` are the first of their kind.
    pub fn from_name(name: &str) -> Option<Device> {
        match name {
            "cpu" => Some(Device::Cpu),
            "sim" | "sim:0" => Some(Device::Simulator),
            "cuda" => Some(Device::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:")?;
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| is_plain).map(Device::Cuda)
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Simulator => f.write_str("sim:0"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// What a CUDA device is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CudaInfo {
    /// Its number.
    pub number: u32,
    /// What its maker calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u16, u16),
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// How many multiprocessors it has.
    pub n_multiprocessors: u32,
}

/// Why a device does not do what it is asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceFailure {
    /// There is no such device.
    #[error("device '{device}' is not available: {reason}")]
    Absent {
        /// Which.
        device: Device,
        /// Why not.
        reason: String,
    },
    /// The device has no memory left.
    #[error("device '{device}' is out of memory: {n_bytes} bytes were asked for")]
    OutOfMemory {
        /// Which.
        device: Device,
        /// How many there should be.
        n_bytes: usize,
    },
    /// Bytes that are not in the memory they should be in.
    #[error("{n_bytes} bytes at 0x{address:x} are not in this memory of device '{device}'")]
    OutOfBounds {
        /// Which device.
        device: Device,
        /// Where they begin.
        address: u64,
        /// How many there are.
        n_bytes: usize,
    },
    /// The driver refuses or fails.
    #[error("device '{device}' cannot {what}: {reason}")]
    Driver {
        /// Which.
        device: Device,
        /// What it was asked for, as the end of "cannot …".
        what: &'static str,
        /// What the driver says.
        reason: String,
    },
}

/// A device's memory. Addresses are those that kernels use there; who calls sees to it that they are of live
/// allocations.
pub trait Memory: Send + Sync {
    /// Which device's it is.
    fn device(&self) -> Device;
    /// So many bytes, at least one, at an address that is a multiple of 256. What they hold is undefined.
    fn alloc(&self, n_bytes: usize) -> Result<u64, DeviceFailure>;
    /// Gives an allocation back. One that the device has lost meanwhile is gone anyway.
    fn free(&self, address: u64);
    /// Copies to the host, after what kernels that were launched before have written.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure>;
    /// Copies from the host.
    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceFailure>;
    /// Sets bytes.
    fn fill(&self, address: u64, byte: u8, n_bytes: usize) -> Result<(), DeviceFailure>;
    /// Copies within the device. The two do not overlap.
    fn copy(&self, to: u64, from: u64, n_bytes: usize) -> Result<(), DeviceFailure>;
}

/// Memory of a device that arrays are in. Dropping it gives it back, unless it is somebody else's.
pub struct Buffer {
    memory: Arc<dyn Memory>,
    address: u64,
    n_bytes: usize,
    is_owned: bool,
}

impl Buffer {
    /// So many bytes; of none there is no address.
    ///
    /// # Errors
    ///
    /// When the device has not as many.
    pub fn new(memory: Arc<dyn Memory>, n_bytes: usize) -> Result<Buffer, DeviceFailure> {
        // Whole words: PTX updates 16-bit elements by exchanges of the word they are in.
        let address = if n_bytes == 0 { 0 } else { memory.alloc(n_bytes.next_multiple_of(4))? };
        Ok(Buffer { memory, address, n_bytes, is_owned: n_bytes > 0 })
    }

    /// Memory that somebody else has allocated on the device, and keeps for as long as this is used.
    pub fn borrowed(memory: Arc<dyn Memory>, address: u64, n_bytes: usize) -> Buffer {
        Buffer { memory, address, n_bytes, is_owned: false }
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// Where it begins.
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
    pub fn read(&self, array: &Layout, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.check(array, bytes.len())?;
        if array.is_one_run() || array.n_bytes() == 0 {
            return array.runs(&mut |address, _| self.memory.read(address, bytes));
        }
        // One copy of all, what lies between the elements included: many small copies take longer.
        let span = array.span();
        let mut all = vec![0; (span.end - span.start) as usize];
        self.memory.read(span.start, &mut all)?;
        let mut done = 0;
        array.runs(&mut |address, length| {
            let (from, length) = ((address - span.start) as usize, length as usize);
            bytes[done..done + length].copy_from_slice(&all[from..from + length]);
            done += length;
            Ok(())
        })
    }

    /// Copies elements from the host, where they follow each other row by row, to those of an array in this memory.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub fn write(&self, array: &Layout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        self.check(array, bytes.len())?;
        let mut done = 0;
        array.runs(&mut |address, length| {
            let part = &bytes[done..done + length as usize];
            done += part.len();
            self.memory.write(address, part)
        })
    }

    /// Sets all bytes to 0.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub fn clear(&self) -> Result<(), DeviceFailure> {
        if self.n_bytes == 0 { Ok(()) } else { self.memory.fill(self.address, 0, self.n_bytes) }
    }

    /// Copies bytes from one address to another one, of memory on the same device that does not overlap this.
    ///
    /// # Errors
    ///
    /// When the bytes are not in the memories, or the device fails.
    pub fn copy_from(&self, to: u64, other: &Buffer, from: u64, n_bytes: usize) -> Result<(), DeviceFailure> {
        self.check_range(to, n_bytes)?;
        other.check_range(from, n_bytes)?;
        if self.device() != other.device() {
            return Err(DeviceFailure::OutOfBounds { device: self.device(), address: from, n_bytes });
        }
        if n_bytes == 0 { Ok(()) } else { self.memory.copy(to, from, n_bytes) }
    }

    fn check(&self, array: &Layout, n_bytes: usize) -> Result<(), DeviceFailure> {
        let span = array.span();
        let (address, device) = (span.start, self.device());
        if array.n_bytes() != n_bytes as u64 || span.end < span.start {
            return Err(DeviceFailure::OutOfBounds { device, address, n_bytes });
        }
        self.check_range(address, (span.end - span.start) as usize)
    }

    fn check_range(&self, address: u64, n_bytes: usize) -> Result<(), DeviceFailure> {
        let is_within = address >= self.address
            && (address - self.address).checked_add(n_bytes as u64).is_some_and(|end| end <= self.n_bytes as u64);
        match is_within || n_bytes == 0 {
            true => Ok(()),
            false => Err(DeviceFailure::OutOfBounds { device: self.device(), address, n_bytes }),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.is_owned {
            self.memory.free(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for device in [Device::Cpu, Device::Simulator, Device::Cuda(0), Device::Cuda(12)] {
            assert_eq!(Device::from_name(&device.to_string()), Some(device));
        }
        assert_eq!(Device::from_name("cuda"), Some(Device::Cuda(0)));
        for name in ["", "sim:1", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "gpu"] {
            assert_eq!(Device::from_name(name), None, "{name}");
        }
    }

    fn layout(base: u64, extents: &[u64], strides: &[i64]) -> Layout {
        Layout { base, elem_bytes: 2, extents: extents.into(), strides: strides.into() }
    }

    #[test]
    fn elements_apart_are_copied_and_nothing_between_them() {
        let buffer = Buffer::new(sim::memory(), 24).unwrap();
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
        let buffer = Buffer::new(sim::memory(), 8).unwrap();
        let at = buffer.address();
        let refused = |layout: &Layout, n_bytes: usize| {
            let error = buffer.read(layout, &mut vec![0; n_bytes]).unwrap_err();
            assert!(matches!(error, DeviceFailure::OutOfBounds { device: Device::Simulator, .. }), "{error}");
        };
        refused(&layout(at + 2, &[4], &[2]), 8);
        refused(&layout(at, &[4], &[-2]), 8);
        refused(&layout(at, &[4], &[2]), 6);
        refused(&layout(at, &[u64::MAX], &[2]), 8);
        let other = Buffer::new(sim::memory(), 8).unwrap();
        assert!(buffer.copy_from(at + 4, &other, other.address(), 8).is_err());
        buffer.copy_from(at, &other, other.address(), 8).unwrap();
    }

    #[test]
    fn memory_is_given_back() {
        let buffer = Buffer::new(sim::memory(), 64).unwrap();
        let view = Buffer::borrowed(sim::memory(), buffer.address(), 64);
        drop(view);
        buffer.clear().unwrap();
        let address = buffer.address();
        drop(buffer);
        assert!(sim::memory().read(address, &mut [0]).is_err());
        let empty = Buffer::new(sim::memory(), 0).unwrap();
        assert_eq!((empty.address(), empty.n_bytes()), (0, 0));
        empty.read(&layout(0, &[0], &[2]), &mut []).unwrap();
    }
}
