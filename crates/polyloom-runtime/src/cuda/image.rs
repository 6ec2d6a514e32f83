//! Code by whatever compiler: PTX, cubins and fat binaries that are loaded as they are.

use super::device::CudaDevice;
use super::function::{LoadedFunction, LoadedModule};
use super::stream_target::StreamTarget;
use crate::device::{DeviceFailure, DeviceId, DeviceImage, ImageKernel, KernelAttributes, Queue};
use polyloom_ir::LaunchConfig;
use std::sync::Arc;

/// An image that is loaded into a device.
pub(super) struct CudaImage {
    device: Arc<CudaDevice>,
    module: Arc<LoadedModule>,
}

/// A kernel of it.
struct CudaImageKernel {
    device: Arc<CudaDevice>,
    name: String,
    function: LoadedFunction,
    attributes: KernelAttributes,
}

impl CudaImage {
    /// Loads an image. PTX need not end in a zero byte.
    pub(super) fn load(device: Arc<CudaDevice>, image: &[u8]) -> Result<CudaImage, DeviceFailure> {
        let mut ended = image.to_vec();
        ended.push(0);
        let module = LoadedModule::load(&device, &ended)?;
        Ok(CudaImage { device, module })
    }
}

impl DeviceImage for CudaImage {
    fn kernel(&self, name: &str) -> Result<Arc<dyn ImageKernel>, DeviceFailure> {
        let function = self.module.function(name)?;
        let attributes = function.attributes()?;
        Ok(Arc::new(CudaImageKernel { device: self.device.clone(), name: name.to_owned(), function, attributes }))
    }
}

impl ImageKernel for CudaImageKernel {
    fn attributes(&self) -> KernelAttributes {
        self.attributes
    }

    fn parameter_sizes(&self) -> Result<Option<Vec<usize>>, DeviceFailure> {
        self.function.parameter_sizes()
    }

    fn occupancy(&self, n_threads: u32, shared_bytes: u32) -> Result<u32, DeviceFailure> {
        self.function.occupancy(n_threads, shared_bytes)
    }

    fn suggested_block(&self, shared_bytes: u32) -> Result<(u32, u32), DeviceFailure> {
        self.function.suggested_block(shared_bytes)
    }

    unsafe fn launch(
        &self,
        queue: &dyn Queue,
        grid: &LaunchConfig,
        params: &[Vec<u8>],
        uses: &[(u64, bool)],
        is_cooperative: bool,
    ) -> Result<(), DeviceFailure> {
        let device = DeviceId::Cuda(self.device.number());
        let target = queue.as_any().downcast_ref::<StreamTarget>().filter(|target| target.is_of(&self.device));
        let found = queue.device();
        let target = target.ok_or(DeviceFailure::OtherDevice { device, found, what: "a queue" })?;
        // SAFETY: passed on to the caller.
        unsafe { self.function.launch(target, &self.name, grid, params, (uses, is_cooperative)) }
    }
}

impl Drop for CudaImage {
    fn drop(&mut self) {
        self.device.unload_later(self.module.clone());
    }
}

impl Drop for CudaImageKernel {
    fn drop(&mut self) {
        self.function.unload_later();
    }
}
