//! The ways in which a device fails.

use super::id::DeviceId;

/// Why a device does not do what it is asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceFailure {
    /// There is no such device.
    #[error("device '{device}' is not available: {reason}")]
    Absent {
        /// Which.
        device: DeviceId,
        /// The reason.
        reason: String,
    },
    /// The device has no memory left.
    #[error("device '{device}' is out of memory: {n_bytes} bytes were asked for{holders}")]
    OutOfMemory {
        /// Which.
        device: DeviceId,
        /// Says how many there should be.
        n_bytes: usize,
        /// Says what holds its memory, as the end of the message; empty if that is not known.
        holders: String,
    },
    /// Something that no graph can hold is asked of a queue that is captured.
    #[error("device '{device}' cannot capture {what}")]
    NotCapturable {
        /// Which.
        device: DeviceId,
        /// Names it, and what to do instead.
        what: String,
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
        /// The reason.
        reason: String,
    },
    /// A queue, a kernel or memory of another device.
    #[error("{what} of device '{found}' is used on device '{device}'")]
    OtherDevice {
        /// The device that is to use it.
        device: DeviceId,
        /// The one it belongs to.
        found: DeviceId,
        /// Names it in the message: `a queue`.
        what: &'static str,
    },
}
