//! Code by whatever compiler: PTX, cubins and fat binaries that are loaded as they are.

use super::device::CudaDevice;
use super::function::{LoadedFunction, LoadedModule};
use super::stream_target::StreamTarget;
use crate::device::{DeviceFailure, DeviceId, DeviceImage, ImageKernel, KernelAttributes, Queue};
use polyloom_ir::LaunchConfig;
use polyloom_ptx::{FAT_HEADER_BYTES, fat_binary_size, is_fat_binary};
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
        // The driver takes the size from the image.
        if let Some(n_bytes) = stated_bytes(image).filter(|&n_bytes| n_bytes > image.len()) {
            let reason = format!("the image says that it has {n_bytes} bytes, and has {}", image.len());
            return Err(DeviceFailure::ModuleNotFound { device: DeviceId::Cuda(device.number()), reason });
        }
        let mut ended = image.to_vec();
        ended.push(0);
        let module = LoadedModule::load(&device, &ended)?;
        Ok(CudaImage { device, module })
    }
}

/// Returns the bytes that a fat binary or an ELF file says that it has; `None` for text.
fn stated_bytes(image: &[u8]) -> Option<usize> {
    if is_fat_binary(image) {
        return Some(fat_binary_size(image).max(FAT_HEADER_BYTES));
    }
    if !image.starts_with(b"\x7fELF") {
        return None;
    }
    let number = |at: usize, n: usize| {
        let bytes = image.get(at..at + n).unwrap_or_default();
        bytes.iter().rev().fold(0usize, |number, &byte| number << 8 | usize::from(byte))
    };
    // ELF64: the tables of segments (`e_phoff`, `e_phentsize`, `e_phnum`) and of sections (`e_shoff` and so on).
    let end = |offset: usize, size: usize, n: usize| {
        number(offset, 8).saturating_add(number(size, 2).saturating_mul(number(n, 2)))
    };
    let sections = (0..number(60, 2)).filter_map(|index| {
        let header = number(40, 8).checked_add(index.checked_mul(64)?).filter(|&at| at < image.len())?;
        // `SHT_NOBITS`: the section has no bytes in the file.
        (number(header + 4, 4) != 8).then(|| number(header + 24, 8).saturating_add(number(header + 32, 8)))
    });
    Some(sections.chain([64, end(32, 54, 56), end(40, 58, 60)]).max().unwrap_or(64))
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
