//! The memory a launch sees: regions of bytes, the device's allocations, and the windows of generic addresses.

mod addresses;
pub(crate) mod device;
mod heap;
pub(crate) mod region;
pub(crate) mod window;

pub use device::{DeviceBacking, DeviceMemory, MemoryError};
pub use region::HostMemory;
