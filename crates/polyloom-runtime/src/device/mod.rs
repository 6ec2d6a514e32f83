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
pub(crate) mod graph;
mod id;
mod image;
pub(crate) mod layout;
pub(crate) mod properties;
pub(crate) mod queue;
pub(crate) mod shared_memory;
pub(crate) mod staging;
pub(crate) mod waits;

use crate::args::{ArgBlock, KernelParams};
use crate::cpu::kernel_source::KernelSource;
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
pub use failure::DeviceFailure;
pub use graph::DeviceGraph;
pub use id::DeviceId;
pub use image::{DeviceImage, ImageKernel, KernelAttributes, KernelProperties};
use polyloom_ir::{Arch, Function};
pub use properties::DeviceProperties;
pub use queue::{Branch, BranchKind, Event, FillWord, HostFunction, Queue};
pub use shared_memory::{MemoryAdvice, SharedMemory};
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
    /// Loads code by another compiler: PTX, a cubin or a fat binary.
    ///
    /// # Errors
    ///
    /// [`DeviceFailure::Code`] if it is none that the device runs, and what else goes wrong.
    fn load_image(self: Arc<Self>, image: &[u8]) -> Result<Arc<dyn DeviceImage>, DeviceFailure> {
        let reason = format!("it does not load the {} bytes of code by another compiler", image.len());
        Err(DeviceFailure::Code { device: self.id(), reason })
    }
    /// The queue of everything that names none: at each call the one that the calling thread has made its current one, and
    /// the default queue if it has made none.
    fn queue(self: Arc<Self>) -> Arc<dyn Queue>;
    /// One of the queues that the device has from the start.
    fn standing_queue(self: Arc<Self>, which: StandingQueue) -> Arc<dyn Queue> {
        let _is_one = which;
        self.queue()
    }
    /// Makes another queue, whose work is in no order with that of others but for events, the memory that they use and, if it
    /// blocks, the default queue.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn new_queue(self: Arc<Self>, options: QueueOptions) -> Result<Arc<dyn Queue>, DeviceFailure>;
    /// The queue of this handle, which another library of the process has made and keeps.
    ///
    /// # Errors
    ///
    /// When the device has no such handles, or fails.
    ///
    /// # Safety
    ///
    /// The handle is one of the device's driver, and valid for as long as the queue is.
    unsafe fn queue_of_handle(self: Arc<Self>, handle: u64) -> Result<Arc<dyn Queue>, DeviceFailure> {
        let reason = format!("it has no queue 0x{handle:x} of another library");
        Err(DeviceFailure::Absent { device: self.id(), reason })
    }
    /// Pins so many bytes of the host's memory for copies.
    ///
    /// # Errors
    ///
    /// When the system does not pin as many, or the device knows no such memory.
    fn pin(self: Arc<Self>, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        let _no_number_helps = n_bytes;
        Err(without_sharing(self.id()))
    }
    /// Pins memory of the host that somebody else has allocated, as long as the result lives.
    ///
    /// # Errors
    ///
    /// When the driver does not pin it, or the device knows no such memory.
    ///
    /// # Safety
    ///
    /// The memory is there for as long as the result is.
    unsafe fn register(self: Arc<Self>, address: u64, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        let _no_memory_will_do = (address, n_bytes);
        Err(without_sharing(self.id()))
    }
    /// Allocates so many bytes that have one address on the host and the device.
    ///
    /// # Errors
    ///
    /// When there are not as many, or the device knows no such memory.
    fn allocate_managed(self: Arc<Self>, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        let _no_number_helps = n_bytes;
        Err(without_sharing(self.id()))
    }
    /// Returns true if its graphs have [branches](Queue::begin_branch).
    fn has_branches(&self) -> bool {
        false
    }
    /// Returns true if its driver has memory pools.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn has_driver_pool(&self) -> Result<bool, DeviceFailure> {
        Ok(false)
    }
    /// Says whether memory comes from a pool of the driver's, which it does at first where there is one.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn use_driver_pool(self: Arc<Self>, is_wanted: bool) -> Result<(), DeviceFailure> {
        let _there_is_none = is_wanted;
        Ok(())
    }
    /// Returns figures of the memory that it has handed out; nothing of a device that keeps none.
    fn memory_report(&self) -> Option<DeviceMemoryReport> {
        None
    }
    /// Gives memory that nothing uses back to the driver, until at most so many bytes are kept.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn release_memory(self: Arc<Self>, most_kept: u64) -> Result<(), DeviceFailure> {
        let _nothing_is_kept = most_kept;
        Ok(())
    }
    /// Changes the limits of its memory; those that are absent stay. What is idle and too much goes to the driver.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn set_memory_limits(self: Arc<Self>, limits: DeviceMemoryLimits) -> Result<(), DeviceFailure> {
        let _there_are_none = limits;
        Ok(())
    }
}

fn without_sharing(device: DeviceId) -> DeviceFailure {
    DeviceFailure::Absent { device, reason: "it shares no memory with the host".to_owned() }
}

/// Describes a queue that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueOptions {
    /// The work of queues with lower numbers comes first; one that the device does not have becomes the nearest that it has.
    pub priority: i32,
    /// True if it is in order with the default queue.
    pub is_blocking: bool,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions { priority: 0, is_blocking: true }
    }
}

/// A queue that a device has from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandingQueue {
    /// The default queue, which all others but non-blocking ones are in order with (CUDA's legacy default stream).
    Default,
    /// The calling thread's own one (CUDA's per-thread default stream).
    OfThread,
}

/// Limits of a device's memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceMemoryLimits {
    /// The most that may be handed out and kept together.
    pub most_reserved: Option<u64>,
    /// The most that is kept when nothing uses it.
    pub release_threshold: Option<u64>,
}

/// Figures of a device's memory, in bytes unless they are counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceMemoryReport {
    /// The most that may be handed out and kept together.
    pub most_reserved: u64,
    /// The most that is kept when nothing uses it.
    pub release_threshold: u64,
    /// Memory of live allocations.
    pub used: u64,
    /// The most that live allocations have had at a time.
    pub used_high: u64,
    /// Memory that waits for an allocation.
    pub idle: u64,
    /// The most that there was in use and idle at a time.
    pub reserved_high: u64,
    /// The number of allocations for which the driver gave memory.
    pub n_allocated: u64,
    /// The number of allocations in memory that was idle.
    pub n_reused: u64,
    /// The number of times that the driver had no more, and idle memory was given back to it.
    pub n_flushed: u64,
    /// The number of live allocations.
    pub n_live: u64,
    /// The sizes that the largest live allocations were asked for, the largest first.
    pub largest: Vec<u64>,
    /// True if the driver's own memory pool gives the memory.
    pub has_driver_pool: bool,
    /// Memory of the host that is pinned for the device, in use and idle.
    pub pinned: u64,
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
    /// Returns what the driver says of its code, and of launches in blocks of so many threads with so much dynamic shared
    /// memory; nothing if the device has no such driver.
    ///
    /// # Errors
    ///
    /// When the device fails.
    fn properties(&self, n_threads: u32, shared_bytes: u32) -> Result<Option<KernelProperties>, DeviceFailure> {
        let _are_of_gpus = (n_threads, shared_bytes);
        Ok(None)
    }
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
