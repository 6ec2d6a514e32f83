//! Devices and their queues: the only way to run anything.
//!
//! The CPU, the simulator and GPUs are a [`Device`] each, and do everything through a [`Queue`]: launches, copies, fills, and
//! giving memory back. For devices with memory of their own there are arrays of the host that are staged there for a
//! launch, and what a launch hands to a kernel and learns from it.
//!
//! Design: `docs/design/devices.md`.

pub(crate) mod buffer;
pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod properties;
pub(crate) mod queue;
pub(crate) mod staging;

use crate::args::{ArgBlock, KernelParams};
use crate::cpu::kernel::KernelSource;
use crate::error::LaunchError;
use crate::launch_options::{LaunchOptions, LaunchStats};
use polyloom_ir::{Arch, Function};
pub use properties::DeviceProperties;
pub use queue::{Event, FillWord, Queue};
use std::fmt;
use std::sync::Arc;

/// Says where kernels run and arrays are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DeviceId {
    /// `cpu`: the machine itself.
    #[default]
    Cpu,
    /// `sim:0`: the simulator of a GPU.
    Simulator,
    /// `cuda:0` and so on: an NVIDIA GPU, by its number.
    Cuda(u32),
}

impl DeviceId {
    /// The device of this name, whether or not this machine has it: `sim` and `cuda` are the first of their kind.
    pub fn from_name(name: &str) -> Option<DeviceId> {
        match name {
            "cpu" => Some(DeviceId::Cpu),
            "sim" | "sim:0" => Some(DeviceId::Simulator),
            "cuda" => Some(DeviceId::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:")?;
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| is_plain).map(DeviceId::Cuda)
            }
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceId::Cpu => f.write_str("cpu"),
            DeviceId::Simulator => f.write_str("sim:0"),
            DeviceId::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

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

/// Why a device does not do what it is asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceFailure {
    /// There is no such device.
    #[error("device '{device}' is not available: {reason}")]
    Absent {
        /// Which.
        device: DeviceId,
        /// Why not.
        reason: String,
    },
    /// The device has no memory left.
    #[error("device '{device}' is out of memory: {n_bytes} bytes were asked for")]
    OutOfMemory {
        /// Which.
        device: DeviceId,
        /// Says how many there should be.
        n_bytes: usize,
    },
    /// Bytes that are not in the memory they should be in.
    #[error("{n_bytes} bytes at 0x{address:x} are not in this memory of device '{device}'")]
    OutOfBounds {
        /// Says which device.
        device: DeviceId,
        /// The place where they begin.
        address: u64,
        /// Says how many there are.
        n_bytes: usize,
    },
    /// The driver refuses or fails.
    #[error("device '{device}' cannot {what}: {reason}")]
    Driver {
        /// Which.
        device: DeviceId,
        /// Holds what it was asked for, as the end of "cannot …".
        what: &'static str,
        /// Holds what the driver says.
        reason: String,
        /// The driver's number of the error (`CUresult`).
        code: u32,
        /// The driver's name of the error, such as `CUDA_ERROR_INVALID_VALUE`.
        name: String,
    },
    /// There is no code for the device in a module, or no file with one.
    #[error("device '{device}' finds no module to load: {reason}")]
    ModuleNotFound {
        /// Which.
        device: DeviceId,
        /// Holds what the driver says.
        reason: String,
    },
    /// A module has no kernel of this name.
    #[error("device '{device}' finds no kernel `{kernel}` in the module")]
    KernelNotFound {
        /// Which.
        device: DeviceId,
        /// The name of the entry.
        kernel: String,
    },
    /// A kernel's code is none that the device runs.
    #[error("{reason}")]
    Code {
        /// Which.
        device: DeviceId,
        /// Why not.
        reason: String,
    },
    /// A queue, a kernel or memory of another device.
    #[error("{what} of device '{found}' is used on device '{device}'")]
    OtherDevice {
        /// The device that is to use it.
        device: DeviceId,
        /// The one it belongs to.
        found: DeviceId,
        /// What it is.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for device in [DeviceId::Cpu, DeviceId::Simulator, DeviceId::Cuda(0), DeviceId::Cuda(12)] {
            assert_eq!(DeviceId::from_name(&device.to_string()), Some(device));
        }
        assert_eq!(DeviceId::from_name("cuda"), Some(DeviceId::Cuda(0)));
        for name in ["", "sim:1", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "gpu"] {
            assert_eq!(DeviceId::from_name(name), None, "{name}");
        }
    }
}
