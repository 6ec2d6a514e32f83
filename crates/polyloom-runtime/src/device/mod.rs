//! What devices with memory of their own share, GPUs and the simulator alike: their names, their memory, arrays of the
//! host that are staged there for a launch, and what a launch hands to a kernel and learns from it.
//!
//! Design: `docs/design/devices.md`.

pub(crate) mod buffer;
pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod staging;

use layout::RowLayout;
use serde::Serialize;
use std::fmt;

/// Says where kernels run and arrays are.
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

/// Describes what a CUDA device is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CudaInfo {
    /// Its number.
    pub number: u32,
    /// Holds what its maker calls it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u16, u16),
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Number of multiprocessors it has.
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
        /// Says how many there should be.
        n_bytes: usize,
    },
    /// Bytes that are not in the memory they should be in.
    #[error("{n_bytes} bytes at 0x{address:x} are not in this memory of device '{device}'")]
    OutOfBounds {
        /// Says which device.
        device: Device,
        /// The place where they begin.
        address: u64,
        /// Says how many there are.
        n_bytes: usize,
    },
    /// The driver refuses or fails.
    #[error("device '{device}' cannot {what}: {reason}")]
    Driver {
        /// Which.
        device: Device,
        /// Holds what it was asked for, as the end of "cannot …".
        what: &'static str,
        /// Holds what the driver says.
        reason: String,
    },
}

/// Describes what memory is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillWord {
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
}

impl FillWord {
    /// The shortest word that bytes are a repetition of.
    pub(crate) fn of(bytes: &[u8]) -> Option<FillWord> {
        let is_period = |n: usize| bytes.len() >= n && bytes.chunks(n).all(|chunk| chunk == &bytes[..n]);
        match *bytes {
            [a, ..] if is_period(1) => Some(FillWord::U8(a)),
            [a, b, ..] if is_period(2) => Some(FillWord::U16(u16::from_le_bytes([a, b]))),
            [a, b, c, d, ..] if is_period(4) => Some(FillWord::U32(u32::from_le_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// Its size.
    pub fn n_bytes(self) -> u64 {
        match self {
            FillWord::U8(_) => 1,
            FillWord::U16(_) => 2,
            FillWord::U32(_) => 4,
        }
    }
}

/// A device's memory. Addresses are those that kernels use there.
pub trait MemoryBackend: Send + Sync {
    /// Returns which device's it is.
    fn device(&self) -> Device;
    /// So many bytes, at least one, at an address that is `skew`, below 256, past a multiple of 256. What they hold is
    /// undefined.
    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure>;
    /// Gives an allocation back. One that the device has lost meanwhile is gone anyway.
    ///
    /// # Safety
    ///
    /// `alloc` has given the address, and nobody uses the allocation any more.
    unsafe fn free(&self, address: u64);
    /// Copies to the host, after what kernels that were launched before have written.
    ///
    /// # Safety
    ///
    /// There are as many bytes of a live allocation on the device at the address.
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure>;
    /// Copies from the host, where the rows follow each other: as many bytes as they have. They do not overlap on the
    /// device.
    ///
    /// # Safety
    ///
    /// The rows are in live allocations on the device.
    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure>;
    /// Sets whole words, at addresses that are multiples of their size.
    ///
    /// # Safety
    ///
    /// As of `write`.
    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure>;
    /// Copies rows of the same length, as many, within the device. No two overlap.
    ///
    /// # Safety
    ///
    /// As of `write`.
    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure>;
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
