//! A kernel's code on devices with memory of their own, as it is kept.

use crate::memo::Memo;
use polyloom_ir::Arch;
use polyloom_runtime::{DeviceId, DeviceKernel};

/// A kernel's code on devices with memory of their own.
pub(crate) type DeviceKernels = Memo<DeviceCodeKey, Box<dyn DeviceKernel>>;

/// What tells one code of a kernel from another: the rank of its launches, the device, and of the simulator the
/// architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceCodeKey {
    pub(crate) rank: u8,
    pub(crate) device: DeviceId,
    pub(crate) arch: Option<Arch>,
}
