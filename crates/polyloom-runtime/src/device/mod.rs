//! Devices and their queues: the only way to run anything.
//!
//! The CPU, the simulator and GPUs are a [`Device`] each, and do everything through a [`Queue`]: launches, copies, fills, and
//! giving memory back. For devices with memory of their own there are arrays of the host that are staged there for a
//! launch, and what a launch hands to a kernel and learns from it.
//!
//! Design: `docs/design/devices.md`.

pub(crate) mod buffer;
pub(crate) mod entry;
mod failure;
mod id;
pub(crate) mod layout;
pub(crate) mod properties;
pub(crate) mod queue;
pub(crate) mod staging;

use crate::args::{ArgBlock, KernelParams};
use crate::cpu::kernel_source::KernelSource;
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
pub use failure::DeviceFailure;
pub use id::DeviceId;
use polyloom_ir::{Arch, Function};
pub use properties::DeviceProperties;
pub use queue::{Event, FillWord, Queue};
use std::sync::Arc;

/// A place that runs kernels: its memory, the code that it has loaded, and the queues through which everything happens.
pub trait Device: Send + Sync {
    /// Returns which it is.
    fn id(&self) -> DeviceId;
    /// Returns what it is and has room for.
    fn properties(&self) -> DeviceProperties;
    /// Returns the bytes of its memory that nothing uses, where it says so.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn free_bytes(&self) -> Result<Option<u64>, DeviceFailure>;
    /// Loads a kernel.
    ///
    /// # Errors
    ///
    /// [`DeviceFailure::Code`] if it is none that the device runs, and what else goes wrong.
    fn load(self: Arc<Self>, program: DeviceProgram<'_>) -> Result<Box<dyn DeviceKernel>, DeviceFailure>;
    /// The queue of everything that names none.
    fn queue(self: Arc<Self>) -> Arc<dyn Queue>;
    /// Makes another queue, whose work is in no order with that of others but for events.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn new_queue(self: Arc<Self>) -> Result<Arc<dyn Queue>, DeviceFailure>;
}

/// What a device loads a kernel from.
pub enum DeviceProgram<'a> {
    /// HIR, which the CPU compiles when it is launched.
    Hir(KernelSource),
    /// PTX, which the simulator runs and a GPU's driver compiles.
    Ptx {
        /// The HIR that it was made of, as the back end got it.
        function: &'a Function,
        /// The parameters that arguments are given for.
        params: KernelParams,
        /// The text.
        text: &'a str,
        /// The name of the entry in it.
        entry: &'a str,
        /// The architecture it is for.
        arch: Arch,
    },
}

/// A kernel that a device has loaded.
pub trait DeviceKernel: Send + Sync {
    /// The device.
    fn device(&self) -> DeviceId;
    /// Puts a launch over a grid of threads into a queue of the device. Arrays of the host are copied to a device with
    /// memory of its own and, those that the kernel writes, back.
    ///
    /// The queues of the CPU and the simulator run it at once. On a GPU it returns when all threads have run if arrays
    /// of the host are among the arguments or the kernel may have something to say, what it prints or a check that fails,
    /// and else before: whatever waits for the queue has the errors that come of it.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], also if the queue is another device's.
    ///
    /// # Safety
    ///
    /// As [`crate::launch`], but that indices may be out of bounds on the simulator: that is an error there. Arrays on
    /// the device are live until the kernel has run.
    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError>;
}
