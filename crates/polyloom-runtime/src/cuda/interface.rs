//! A CUDA device as every device is seen.

use super::branch::has_branches;
use super::device::CudaDevice;
use super::host_memory::HostMemory;
use super::image::CudaImage;
use super::kernel::CudaKernel;
use super::queue::CudaQueue;
use super::stream::CudaStream;
use crate::device::{
    Device, DeviceFailure, DeviceId, DeviceImage, DeviceKernel, DeviceMemoryLimits, DeviceMemoryReport, DeviceProgram,
    DeviceProperties, Queue, QueueOptions, SharedMemory, StandingQueue,
};
use cudarc::driver::result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Device for CudaDevice {
    fn id(&self) -> DeviceId {
        DeviceId::Cuda(self.number())
    }

    fn properties(&self) -> DeviceProperties {
        self.described().clone()
    }

    fn free_bytes(&self) -> Result<Option<u64>, DeviceFailure> {
        let (free, _) = self.within("say how much memory is free", result::mem_get_info)?;
        let unused = self.memory().n_unused_bytes();
        Ok(Some((free + unused) as u64))
    }

    fn load(self: Arc<Self>, program: DeviceProgram<'_>) -> Result<Box<dyn DeviceKernel>, DeviceFailure> {
        match program {
            DeviceProgram::Ptx { function, params, text, entry, .. } => {
                Ok(Box::new(CudaKernel::new(&self, function, params, text, entry)?))
            }
            DeviceProgram::Hir(_) => {
                let reason = "a GPU's driver compiles PTX, not HIR".to_owned();
                Err(DeviceFailure::Code { device: self.id(), reason })
            }
        }
    }

    fn load_image(self: Arc<Self>, image: &[u8]) -> Result<Arc<dyn DeviceImage>, DeviceFailure> {
        Ok(Arc::new(CudaImage::load(self, image)?))
    }

    fn queue(self: Arc<Self>) -> Arc<dyn Queue> {
        Arc::new(CudaQueue::current_of(self))
    }

    fn standing_queue(self: Arc<Self>, which: StandingQueue) -> Arc<dyn Queue> {
        let stream = match which {
            StandingQueue::Default => CudaStream::legacy(&self),
            // Without the event that such a stream needs, the default one is in order with more than it has to be.
            StandingQueue::OfThread => CudaStream::of_thread(&self).unwrap_or_else(|_| CudaStream::legacy(&self)),
        };
        Arc::new(CudaQueue::of_stream(self, stream))
    }

    fn new_queue(self: Arc<Self>, options: QueueOptions) -> Result<Arc<dyn Queue>, DeviceFailure> {
        let stream = CudaStream::new(&self, options)?;
        Ok(Arc::new(CudaQueue::of_stream(self, stream)))
    }

    unsafe fn queue_of_handle(self: Arc<Self>, handle: u64) -> Result<Arc<dyn Queue>, DeviceFailure> {
        // SAFETY: passed on to the caller.
        let stream = unsafe { CudaStream::foreign(&self, handle) }?;
        Ok(Arc::new(CudaQueue::of_stream(self, stream)))
    }

    fn pin(self: Arc<Self>, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        Ok(Box::new(HostMemory::pinned(self, n_bytes)?))
    }

    unsafe fn register(self: Arc<Self>, address: u64, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        // SAFETY: passed on to the caller.
        Ok(Box::new(unsafe { HostMemory::registered(self, address, n_bytes) }?))
    }

    fn allocate_managed(self: Arc<Self>, n_bytes: usize) -> Result<Box<dyn SharedMemory>, DeviceFailure> {
        Ok(Box::new(HostMemory::managed(self, n_bytes)?))
    }

    fn has_branches(&self) -> bool {
        has_branches()
    }

    fn has_driver_pool(&self) -> Result<bool, DeviceFailure> {
        self.within("make a memory pool", || Ok(self.driver_pool().is_some()))
    }

    fn use_driver_pool(self: Arc<Self>, is_wanted: bool) -> Result<(), DeviceFailure> {
        self.uses_driver_pool.store(is_wanted, Ordering::Relaxed);
        self.release_idle(0)
    }

    fn memory_report(&self) -> Option<DeviceMemoryReport> {
        Some(self.report())
    }

    fn release_memory(self: Arc<Self>, most_kept: u64) -> Result<(), DeviceFailure> {
        self.release_idle(usize::try_from(most_kept).unwrap_or(usize::MAX))
    }

    fn set_memory_limits(self: Arc<Self>, limits: DeviceMemoryLimits) -> Result<(), DeviceFailure> {
        self.memory().set_limits(limits);
        let kept = self.memory().release_threshold();
        self.release_idle(kept)
    }
}
