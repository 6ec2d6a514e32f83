//! Memory that the host and a device share: pinned, registered and managed.
//!
//! Copies from and to it are asynchronous, so that streams which use it are remembered as they are for memory of the device,
//! and the host waits for them where it reads what they write.

use super::device::CudaDevice;
use super::driver::has_symbols;
use super::memory_pool::MemoryKind;
use crate::device::{Device as _, DeviceFailure, MemoryAdvice, Queue, SharedMemory};
use cudarc::driver::sys;
use std::sync::Arc;

/// The number that stands for the host where a device is named (`CU_DEVICE_CPU`).
const CPU_LOCATION: sys::CUdevice = -1;

/// Memory of the host that streams use. It goes back to where it comes from when this is dropped.
pub(super) struct HostMemory {
    device: Arc<CudaDevice>,
    kind: MemoryKind,
    address: u64,
    n_bytes: usize,
}

impl HostMemory {
    /// Pinned memory, which all devices may use.
    pub(super) fn pinned(device: Arc<CudaDevice>, n_bytes: usize) -> Result<HostMemory, DeviceFailure> {
        device.begin_to_order();
        let address = device.within("pin memory of the host", || device.take_pinned(n_bytes.max(1)))?;
        let holders = || " of pinned memory of the host".to_owned();
        let address =
            address.ok_or_else(|| DeviceFailure::OutOfMemory { device: device.id(), n_bytes, holders: holders() })?;
        Ok(HostMemory { device, kind: MemoryKind::Pinned, address, n_bytes })
    }

    /// Memory that somebody else has allocated, pinned as long as this lives.
    ///
    /// # Safety
    ///
    /// The memory is there for as long as this is.
    pub(super) unsafe fn registered(
        device: Arc<CudaDevice>,
        address: u64,
        n_bytes: usize,
    ) -> Result<HostMemory, DeviceFailure> {
        device.begin_to_order();
        device.within("pin memory of the host", || device.register_host(address, n_bytes))?;
        Ok(HostMemory { device, kind: MemoryKind::Registered, address, n_bytes })
    }

    /// Managed memory, which has one address on the host and on devices.
    pub(super) fn managed(device: Arc<CudaDevice>, n_bytes: usize) -> Result<HostMemory, DeviceFailure> {
        device.begin_to_order();
        let address = device.within("allocate managed memory", || device.take_managed(n_bytes.max(1)))?;
        let address = address.ok_or_else(|| DeviceFailure::OutOfMemory {
            device: device.id(),
            n_bytes,
            holders: device.holders(),
        })?;
        Ok(HostMemory { device, kind: MemoryKind::Managed, address, n_bytes })
    }

    fn not_managed(&self, what: &'static str) -> DeviceFailure {
        let (reason, name) = ("the memory is not managed".to_owned(), "CUDA_ERROR_INVALID_VALUE".to_owned());
        DeviceFailure::Driver { device: self.device.id(), what, reason, code: 1, name }
    }
}

impl SharedMemory for HostMemory {
    fn address(&self) -> u64 {
        self.address
    }

    fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    fn wait(&self) -> Result<(), DeviceFailure> {
        self.device.wait_for_writer(self.address)
    }

    fn prefetch(&self, queue: &dyn Queue, to_host: bool) -> Result<(), DeviceFailure> {
        const WHAT: &str = "prefetch managed memory";
        if self.kind != MemoryKind::Managed {
            return Err(self.not_managed(WHAT));
        }
        let to = if to_host { CPU_LOCATION } else { self.device.handle() };
        self.device.within(WHAT, || {
            let stream = queue.native_handle() as sys::CUstream;
            // SAFETY: the memory and the stream are live.
            unsafe { sys::cuMemPrefetchAsync(self.address, self.n_bytes, to, stream) }.result()
        })
    }

    fn advise(&self, advice: MemoryAdvice, is_set: bool) -> Result<(), DeviceFailure> {
        use sys::CUmem_advise as Advice;
        const WHAT: &str = "take advice on memory";
        if self.kind != MemoryKind::Managed || !has_symbols(&["cuMemAdvise"]) {
            return Err(self.not_managed(WHAT));
        }
        let advice = match (advice, is_set) {
            (MemoryAdvice::ReadMostly, true) => Advice::CU_MEM_ADVISE_SET_READ_MOSTLY,
            (MemoryAdvice::ReadMostly, false) => Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY,
            (MemoryAdvice::PreferredHere, true) => Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
            (MemoryAdvice::PreferredHere, false) => Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
            (MemoryAdvice::AccessedHere, true) => Advice::CU_MEM_ADVISE_SET_ACCESSED_BY,
            (MemoryAdvice::AccessedHere, false) => Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY,
        };
        self.device.within(WHAT, || {
            // SAFETY: the memory is live.
            unsafe { sys::cuMemAdvise(self.address, self.n_bytes, advice, self.device.handle()) }.result()
        })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // A device that is lost has lost its memory too.
        let _ = self.device.within("free memory", || self.device.release(self.address));
    }
}
