//! Queues of CUDA devices: streams.

use super::device::CudaDevice;
use super::memory_pool::MemoryPool;
use crate::device::layout::RowLayout;
use crate::device::queue::sealed::SealedEvent;
use crate::device::{Device as _, DeviceFailure, DeviceId, Event, FillWord, Queue};
use cudarc::driver::{DriverError, result, sys};
use std::sync::{Arc, MutexGuard, PoisonError};

/// A stream of a device. The default stream waits for all other streams of the program, and they wait for it (the
/// driver's legacy default stream).
pub struct CudaQueue {
    device: Arc<CudaDevice>,
    stream: sys::CUstream,
}

// SAFETY: a stream is a handle, which any thread with the context may use, several at once.
unsafe impl Send for CudaQueue {}
// SAFETY: as above.
unsafe impl Sync for CudaQueue {}

impl CudaQueue {
    /// The default stream.
    pub(super) fn default_of(device: Arc<CudaDevice>) -> CudaQueue {
        CudaQueue { device, stream: std::ptr::null_mut() }
    }

    /// Makes a stream.
    pub(super) fn new(device: Arc<CudaDevice>) -> Result<CudaQueue, DeviceFailure> {
        let stream = device.within("make a stream", || {
            let mut stream = std::ptr::null_mut();
            let flags = sys::CUstream_flags::CU_STREAM_DEFAULT as u32;
            // SAFETY: the pointer is to a handle of this function's.
            unsafe { sys::cuStreamCreate(&mut stream, flags) }.result()?;
            Ok(stream)
        })?;
        Ok(CudaQueue { device, stream })
    }

    fn is_default(&self) -> bool {
        self.stream.is_null()
    }

    fn pool(&self) -> MutexGuard<'_, MemoryPool> {
        self.device.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of the pool, for the default stream: work of any stream that is queued later waits for what used it before.
    /// `None` if there is no more.
    fn alloc_of_pool(&self, size: usize) -> Result<Option<u64>, DriverError> {
        if let Some(address) = self.pool().take(size) {
            return Ok(Some(address));
        }
        let allocated = self.alloc_of_driver(size)?;
        if let Some(address) = allocated {
            self.pool().add(address, size);
        }
        Ok(allocated)
    }

    /// Memory of the driver, which has what the pool keeps unused if it needs that; `None` if there is no more.
    fn alloc_of_driver(&self, n_bytes: usize) -> Result<Option<u64>, DriverError> {
        // SAFETY: asking for memory touches none.
        let ask = || match unsafe { result::malloc_sync(n_bytes) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
            other => other.map(Some),
        };
        match ask()? {
            None => {
                self.release_unused()?;
                ask()
            }
            some => Ok(some),
        }
    }

    /// Gives what the pool keeps to the driver.
    fn release_unused(&self) -> Result<(), DriverError> {
        let unused = self.pool().drain();
        // SAFETY: the default stream is always there, and waits for all others.
        unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) }.result()?;
        // SAFETY: the pool has had them from the driver and has forgotten them, and nothing uses them any more.
        unused.into_iter().try_for_each(|address| unsafe { result::free_sync(address) })
    }

    fn wait_for_all(&self) -> Result<(), DriverError> {
        // SAFETY: the stream lives as long as this.
        unsafe { sys::cuStreamSynchronize(self.stream) }.result()
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        if !self.is_default() {
            // Its work is done nevertheless, and a device that is lost has lost its streams too.
            // SAFETY: the stream is this one's.
            let _ = self.device.within("end a stream", || unsafe { sys::cuStreamDestroy_v2(self.stream) }.result());
        }
    }
}

impl Queue for CudaQueue {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn native_handle(&self) -> u64 {
        self.stream as u64
    }

    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure> {
        let device = self.device();
        let n_needed = n_bytes.saturating_add(usize::from(skew));
        let allocated = self.device.within("allocate memory", || match self.is_default() {
            true => self.alloc_of_pool(MemoryPool::rounded(n_needed)),
            false => self.alloc_of_driver(n_needed),
        })?;
        allocated.map(|address| address + u64::from(skew)).ok_or(DeviceFailure::OutOfMemory { device, n_bytes })
    }

    unsafe fn free(&self, address: u64) {
        // The driver has given the multiple of 256 below the address.
        let address = address & !0xff;
        // A failure is ignored, because a device that is lost has lost its memory too.
        let _ = self.device.within("free memory", || {
            if self.is_default() {
                if self.pool().put(address) {
                    return Ok(());
                }
            } else {
                self.pool().forget(address);
            }
            self.wait_for_all()?;
            // SAFETY: nobody uses it any more, as the caller vouches, and what was in the queue is done.
            unsafe { result::free_sync(address) }
        });
    }

    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.device.within("copy memory to the host", || {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: the caller vouches for the bytes on the device; the host's outlive the waiting.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, address, bytes.len(), self.stream) }.result()?;
            self.wait_for_all()
        })
    }

    unsafe fn write(&self, to: RowLayout, bytes: &[u8]) -> Result<(), DeviceFailure> {
        if bytes.len() as u64 != to.n_bytes() {
            return Err(DeviceFailure::OutOfBounds {
                device: self.device(),
                address: to.address,
                n_bytes: bytes.len(),
            });
        }
        self.device.within("copy memory from the host", || match by_pitch(to) {
            true => {
                // The stream is waited for first, because the driver's call for this knows none.
                self.wait_for_all()?;
                // SAFETY: as in `read`, and there are as many bytes as the rows have.
                unsafe { copy_rows(to, CopySource::Host(bytes)) }
            }
            false => {
                for (address, row) in to.addresses().zip(bytes.chunks_exact(to.length as usize)) {
                    let from = row.as_ptr().cast();
                    // SAFETY: as in `read`.
                    unsafe { sys::cuMemcpyHtoDAsync_v2(address, from, row.len(), self.stream) }.result()?;
                }
                self.wait_for_all()
            }
        })
    }

    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure> {
        let (width, stream) = ((to.length / word.n_bytes()) as usize, self.stream);
        let set = |address: u64, pitch: u64, n: u64| {
            let (pitch, n) = (pitch as usize, n as usize);
            // SAFETY: as in `read`.
            unsafe {
                match (word, n) {
                    (FillWord::U8(value), 1) => sys::cuMemsetD8Async(address, value, width, stream),
                    (FillWord::U16(value), 1) => sys::cuMemsetD16Async(address, value, width, stream),
                    (FillWord::U32(value), 1) => sys::cuMemsetD32Async(address, value, width, stream),
                    (FillWord::U8(value), _) => sys::cuMemsetD2D8Async(address, pitch, value, width, n, stream),
                    (FillWord::U16(value), _) => sys::cuMemsetD2D16Async(address, pitch, value, width, n, stream),
                    (FillWord::U32(value), _) => sys::cuMemsetD2D32Async(address, pitch, value, width, n, stream),
                }
            }
            .result()
        };
        self.device.within("set memory", || match by_pitch(to) {
            true => set(to.address, to.pitch, to.n),
            false => to.addresses().try_for_each(|address| set(address, to.length, 1)),
        })
    }

    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure> {
        self.device.within("copy memory", || match by_pitch(to) && by_pitch(from) {
            true => {
                if !self.is_default() {
                    self.wait_for_all()?;
                }
                // SAFETY: as in `read`.
                unsafe { copy_rows(to, CopySource::Device(from)) }
            }
            false => {
                let mut rows = to.addresses().zip(from.addresses());
                let length = to.length as usize;
                // SAFETY: as in `read`.
                rows.try_for_each(|(to_row, from_row)| unsafe {
                    sys::cuMemcpyDtoDAsync_v2(to_row, from_row, length, self.stream).result()
                })
            }
        })
    }

    fn record(&self) -> Result<Arc<dyn Event>, DeviceFailure> {
        let event = self.device.within("record an event", || {
            let mut event = std::ptr::null_mut();
            let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
            // SAFETY: the pointer is to a handle of this function's, and the stream lives as long as this.
            unsafe {
                sys::cuEventCreate(&mut event, flags).result()?;
                sys::cuEventRecord(event, self.stream).result()?;
            }
            Ok(event)
        })?;
        Ok(Arc::new(CudaEvent { device: self.device.clone(), event }))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceFailure> {
        if event.native_handle() == 0 {
            return event.synchronize();
        }
        let handle = event.native_handle() as sys::CUevent;
        // SAFETY: the event is live, of whatever device (CUDA Driver API 13.0 §6.18).
        self.device.within("wait for an event", || unsafe { sys::cuStreamWaitEvent(self.stream, handle, 0) }.result())
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        self.device.within("finish", || self.wait_for_all())
    }
}

/// An event of a stream.
struct CudaEvent {
    device: Arc<CudaDevice>,
    event: sys::CUevent,
}

// SAFETY: an event is a handle, which any thread with the context may use, several at once.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl SealedEvent for CudaEvent {}

impl Event for CudaEvent {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn native_handle(&self) -> u64 {
        self.event as u64
    }

    fn is_done(&self) -> Result<bool, DeviceFailure> {
        // SAFETY: the event is live.
        self.device.within("ask for an event", || match unsafe { sys::cuEventQuery(self.event) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().map(|()| true),
        })
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        // SAFETY: the event is live.
        self.device.within("finish", || unsafe { sys::cuEventSynchronize(self.event) }.result())
    }

    fn seconds_since(&self, earlier: &dyn Event) -> Result<f64, DeviceFailure> {
        let (device, found) = (self.device(), earlier.device());
        if device != found || earlier.native_handle() == 0 {
            return Err(DeviceFailure::OtherDevice { device, found, what: "an event" });
        }
        self.synchronize()?;
        earlier.synchronize()?;
        let mut milliseconds = 0.0;
        let earlier = earlier.native_handle() as sys::CUevent;
        self.device.within("time an event", || {
            // SAFETY: both events are live.
            unsafe { sys::cuEventElapsedTime(&mut milliseconds, earlier, self.event) }.result()
        })?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: the event is this one's.
        let _ = self.device.within("drop an event", || unsafe { sys::cuEventDestroy_v2(self.event) }.result());
    }
}

/// Most bytes between rows that one call of the driver takes (`CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all devices so far).
const MAX_PITCH: u64 = i32::MAX as u64;

/// Returns true if one call of the driver, with a pitch, does for more than one row.
fn by_pitch(rows: RowLayout) -> bool {
    rows.n > 1 && rows.pitch <= MAX_PITCH
}

/// Says where rows are copied from.
enum CopySource<'a> {
    /// Memory of the host, where they follow each other.
    Host(&'a [u8]),
    /// Memory of the device.
    Device(RowLayout),
}

/// Copies rows to a device's memory in one call: `cuMemcpy2DUnaligned`, which takes any pitch (CUDA Driver API 13.0
/// §6.13).
///
/// # Safety
///
/// There are as many bytes. The device's addresses the driver checks.
unsafe fn copy_rows(to: RowLayout, from: CopySource<'_>) -> Result<(), DriverError> {
    let mut copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: to.length as usize,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: to.address,
        dstArray: std::ptr::null_mut(),
        dstPitch: to.pitch as usize,
        WidthInBytes: to.length as usize,
        Height: to.n as usize,
    };
    match from {
        CopySource::Host(bytes) => {
            copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
            copy.srcHost = bytes.as_ptr().cast();
        }
        CopySource::Device(rows) => {
            copy.srcDevice = rows.address;
            copy.srcPitch = rows.pitch as usize;
        }
    }
    // SAFETY: the caller vouches for the bytes of the host.
    unsafe { sys::cuMemcpy2DUnaligned_v2(&copy) }.result()
}
