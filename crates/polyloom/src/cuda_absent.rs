//! CUDA devices of a build that has none.

use crate::kernel::Kernel;
use polyloom_runtime::{
    ArgBlock, CudaInfo, Device, DeviceFailure, LaunchError, LaunchOptions, LaunchStats, MemoryBackend,
};
use std::sync::Arc;

/// No code.
pub(crate) type CudaKernels = ();

fn absent<T>(number: Option<u32>) -> Result<T, DeviceFailure> {
    let reason = "this build has no GPU code: it takes the cargo feature `compute`, or the Python package".to_owned();
    Err(DeviceFailure::Absent { device: Device::Cuda(number.unwrap_or(0)), reason })
}

pub(crate) fn devices() -> Result<Vec<CudaInfo>, DeviceFailure> {
    absent(None)
}

pub(crate) fn device_info(number: u32) -> Result<CudaInfo, DeviceFailure> {
    absent(Some(number))
}

pub(crate) fn memory(number: u32) -> Result<Arc<dyn MemoryBackend>, DeviceFailure> {
    absent(Some(number))
}

pub(crate) fn free_bytes(number: u32) -> Result<u64, DeviceFailure> {
    absent(Some(number))
}

pub(crate) fn synchronize(number: Option<u32>) -> Result<(), DeviceFailure> {
    number.map_or(Ok(()), |number| absent(Some(number)))
}

impl Kernel {
    /// Runs the kernel on a CUDA device, which this build cannot.
    ///
    /// # Errors
    ///
    /// Always.
    ///
    /// # Safety
    ///
    /// Nothing is run.
    pub(crate) unsafe fn launch_on_cuda(
        &self,
        number: u32,
        _: &[u64],
        _: &ArgBlock,
        _: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        absent(Some(number)).map_err(|failure| LaunchError::Device { kernel: self.name().into(), failure })
    }
}
