//! Memory that the host and a device share.

use super::{DeviceFailure, Queue};

/// Memory of the host that copies of a device's queues read and write while the host does something else, or that kernels
/// use at the address that it has on the host.
pub trait SharedMemory: Send + Sync {
    /// The address of the first byte, on the host.
    fn address(&self) -> u64;
    /// Its size.
    fn n_bytes(&self) -> usize;
    /// Waits until the queues that write it have done so, after which the host may read it.
    ///
    /// # Errors
    ///
    /// Those of the kernels that ran.
    fn wait(&self) -> Result<(), DeviceFailure>;
    /// Has the contents of managed memory come to the device, or to the host, in the order of a queue.
    ///
    /// # Errors
    ///
    /// When the memory is not managed, or the device fails.
    fn prefetch(&self, queue: &dyn Queue, to_host: bool) -> Result<(), DeviceFailure>;
    /// Tells how managed memory will be used, or takes that back.
    ///
    /// # Errors
    ///
    /// When the memory is not managed, or the device fails.
    fn advise(&self, advice: MemoryAdvice, is_set: bool) -> Result<(), DeviceFailure>;
}

/// Describes how managed memory will be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryAdvice {
    /// It is mostly read.
    ReadMostly,
    /// It should be on the device.
    PreferredHere,
    /// The device uses it, wherever it is.
    AccessedHere,
}
