//! Code by whatever compiler, as a device loads it, and what there is to say of kernels.

use super::{DeviceFailure, Queue};
use polyloom_ir::LaunchConfig;
use std::sync::Arc;

/// Holds what a GPU's driver says of a kernel's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelAttributes {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Bytes of shared memory of a block, without what launches ask for.
    pub shared_bytes: u32,
    /// Bytes of constants.
    pub constant_bytes: u32,
    /// Most threads of a block, by registers and launch bounds.
    pub threads_per_block: u32,
    /// Most bytes of shared memory that a launch may ask for.
    pub dynamic_shared_bytes: u32,
}

/// Holds what a GPU's driver says of a kernel and of its launches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelProperties {
    /// Holds what it says of the code.
    pub attributes: KernelAttributes,
    /// The blocks that a multiprocessor runs at once.
    pub blocks_at_once: u32,
    /// The threads of a block with which most threads run at once, and the fewest such blocks that fill the device.
    pub suggested_block: (u32, u32),
}

/// Code that a device has loaded.
pub trait DeviceImage: Send + Sync {
    /// The kernel of a name.
    ///
    /// # Errors
    ///
    /// [`DeviceFailure::KernelNotFound`].
    fn kernel(&self, name: &str) -> Result<Arc<dyn ImageKernel>, DeviceFailure>;
}

/// A kernel in an image.
pub trait ImageKernel: Send + Sync {
    /// Returns what the driver says of it.
    fn attributes(&self) -> KernelAttributes;
    /// Returns the bytes of each parameter; nothing if the driver does not say.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn parameter_sizes(&self) -> Result<Option<Vec<usize>>, DeviceFailure>;
    /// Returns how many blocks of so many threads, with so much dynamic shared memory, a multiprocessor runs at once.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn occupancy(&self, n_threads: u32, shared_bytes: u32) -> Result<u32, DeviceFailure>;
    /// Returns the threads of a block with which most threads run at once, and the fewest such blocks that fill the device.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn suggested_block(&self, shared_bytes: u32) -> Result<(u32, u32), DeviceFailure>;
    /// Puts a launch into a queue, in order with other uses of memory: addresses in it, and whether the kernel writes there.
    /// Blocks of a cooperative launch run at once, so that they may wait for each other.
    ///
    /// # Errors
    ///
    /// When the queue is another device's, or the device fails.
    ///
    /// # Safety
    ///
    /// The parameters are those of the kernel, which accesses no memory that is not there.
    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        grid: &LaunchConfig,
        params: &[Vec<u8>],
        uses: &[(u64, bool)],
        is_cooperative: bool,
    ) -> Result<(), DeviceFailure>;
}
