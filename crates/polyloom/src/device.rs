//! Devices with memory of their own: what there is, that memory, and waiting for them.

use crate::cuda;
use crate::gpu::GpuError;
use crate::kernel::Kernel;
use polyloom_runtime::{
    ArgBlock, CudaInfo, Device, DeviceFailure, LaunchError, LaunchOptions, LaunchStats, MemoryBackend, sim,
};
use std::sync::Arc;

/// A device's memory, for arrays that stay there.
///
/// # Errors
///
/// When this machine has no such device; of `cpu` it is the process's own.
pub fn device_memory(device: Device) -> Result<Arc<dyn MemoryBackend>, DeviceFailure> {
    match device {
        Device::Cpu => Err(DeviceFailure::Absent { device, reason: "its memory is the process's own".to_owned() }),
        Device::Simulator => Ok(sim::memory()),
        Device::Cuda(number) => cuda::memory(number),
    }
}

/// The CUDA devices of this machine. Asking loads NVIDIA's driver.
///
/// # Errors
///
/// When this build or this machine has no driver, or it fails.
pub fn cuda_devices() -> Result<Vec<CudaInfo>, DeviceFailure> {
    cuda::devices()
}

/// Returns true if this build has GPU code and NVIDIA's driver sees a device. It never fails.
pub fn gpu_available() -> bool {
    cuda_devices().is_ok_and(|devices| !devices.is_empty())
}

/// The CUDA device of this number.
///
/// # Errors
///
/// When there is none.
pub fn cuda_device(number: u32) -> Result<CudaInfo, DeviceFailure> {
    cuda::device_info(number)
}

/// Bytes of a CUDA device's memory that nothing uses.
///
/// # Errors
///
/// When there is no such device, or it fails.
pub fn cuda_free_bytes(number: u32) -> Result<u64, DeviceFailure> {
    cuda::free_bytes(number)
}

/// Waits until a device has done all it was asked for; without one, all that are in use. A launch on the CPU or the
/// simulator returns when it is done.
///
/// # Errors
///
/// When there is no such device, and those of the kernels that ran.
pub fn synchronize(device: Option<Device>) -> Result<(), DeviceFailure> {
    match device {
        Some(Device::Cpu | Device::Simulator) => Ok(()),
        Some(Device::Cuda(number)) => cuda::synchronize(Some(number)),
        None => cuda::synchronize(None),
    }
}

impl Kernel {
    /// Runs the kernel on a device over a grid of threads: on the CPU as [`Kernel::launch`] does, on the simulator
    /// (PTX for the architecture that the options name) and on a GPU with arrays of the host copied there and, those it
    /// writes, back.
    ///
    /// It returns when all threads have run, but on a GPU before that if no array is the host's and the kernel neither
    /// checks nor prints.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], with what the simulator finds; of kernels on a GPU that were not waited for, those of running
    /// it may come later.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`], but that indices may be out of bounds on the simulator: that is an error there. Arrays on
    /// a device are live until the kernel has run.
    pub unsafe fn launch_on(
        &self,
        device: Device,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        // SAFETY: passed on to the caller.
        unsafe {
            match device {
                Device::Cpu => self.launch(shape, args, options),
                Device::Simulator => self.launch_on_simulator(shape, args, options),
                Device::Cuda(number) => self.launch_on_cuda(number, shape, args, options),
            }
        }
    }

    /// Why a launch on a device has no code to run.
    pub(crate) fn not_compiled(&self, error: GpuError) -> LaunchError {
        let kernel = self.name().into();
        match error {
            GpuError::Codegen(error) => LaunchError::Compile { kernel, error },
            GpuError::Rejected(error) => {
                LaunchError::Rejected { kernel, text: error.to_string(), diagnostics: error.diagnostics }
            }
        }
    }
}
