//! Kernels on CUDA devices.

use crate::device_code::{DeviceCode, DeviceSource};
use crate::kernel::Kernel;
use polyloom_ir::MAX_DIMS;
use polyloom_runtime::cuda::{self, CudaDevice, CudaKernel};
use polyloom_runtime::{ArgBlock, CudaInfo, DeviceFailure, LaunchError, LaunchOptions, LaunchStats, MemoryBackend};
use std::sync::Arc;

/// A kernel's code on devices, by number of the device.
pub(crate) type CudaKernels = DeviceCode<u32, CudaKernel>;

pub(crate) fn devices() -> Result<Vec<CudaInfo>, DeviceFailure> {
    cuda::devices()
}

pub(crate) fn device_info(number: u32) -> Result<CudaInfo, DeviceFailure> {
    cuda::device_info(number)
}

pub(crate) fn memory(number: u32) -> Result<Arc<dyn MemoryBackend>, DeviceFailure> {
    let device: Arc<dyn MemoryBackend> = CudaDevice::get(number)?;
    Ok(device)
}

pub(crate) fn free_bytes(number: u32) -> Result<u64, DeviceFailure> {
    CudaDevice::get(number)?.free_bytes()
}

pub(crate) fn synchronize(number: Option<u32>) -> Result<(), DeviceFailure> {
    match number {
        Some(number) => CudaDevice::get(number)?.synchronize(),
        None => cuda::synchronize(),
    }
}

impl Kernel {
    /// Runs the kernel on a CUDA device, whose driver compiles its PTX for the device's architecture.
    ///
    /// # Errors
    ///
    /// [`LaunchError`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`].
    pub(crate) unsafe fn launch_on_cuda(
        &self,
        number: u32,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        let device = CudaDevice::get(number);
        let device = device.map_err(|failure| LaunchError::Device { kernel: self.name().into(), failure })?;
        self.verify_accesses(shape, args, options)?;
        let rank = shape.len().clamp(1, MAX_DIMS) as u8;
        let kernel = self.cuda_kernels().get(self, rank, number, device.arch(), |source| {
            let DeviceSource { function, params, ptx, entry } = source;
            CudaKernel::new(&device, function, params, &ptx, &entry)
        });
        let kernel = kernel.map_err(|error| self.not_compiled(error))?;
        // SAFETY: passed on to the caller.
        unsafe { kernel.launch(shape, args, options) }
    }
}
