//! Queues of CUDA devices: streams.

use super::branch::CudaBranch;
use super::device::CudaDevice;
use super::graph::{self, CudaGraph};
use super::memory::MemoryUse;
use super::stream::CudaStream;
use super::stream_target::StreamTarget;
use crate::device::layout::RowLayout;
use crate::device::queue::sealed::SealedEvent;
use crate::device::{
    Branch, BranchKind, Device as _, DeviceFailure, DeviceGraph, DeviceId, Event, FillWord, HostFunction, Queue,
};
use cudarc::driver::{DriverError, sys};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// A stream of a device, or whichever the calling thread has made its current one. The default stream waits for all other
/// streams of the program that block, and they wait for it (the driver's legacy default stream).
pub struct CudaQueue(StreamTarget);

impl CudaQueue {
    /// The current stream, whichever that is when something is asked.
    pub(super) fn current_of(device: Arc<CudaDevice>) -> CudaQueue {
        CudaQueue(StreamTarget::current_of(device))
    }

    /// A stream.
    pub(super) fn of_stream(device: Arc<CudaDevice>, stream: Arc<CudaStream>) -> CudaQueue {
        CudaQueue(StreamTarget::of_stream(device, stream))
    }
}

impl Queue for CudaQueue {
    fn device(&self) -> DeviceId {
        self.0.device().id()
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn native_handle(&self) -> u64 {
        self.0.stream().handle() as u64
    }

    fn priority(&self) -> Result<i32, DeviceFailure> {
        let stream = self.0.stream();
        let mut priority = 0;
        self.0.device().within("say how urgent a stream is", || {
            // SAFETY: the stream is live, and the pointer is to an integer of this function's.
            unsafe { sys::cuStreamGetPriority(stream.handle(), &mut priority) }.result()
        })?;
        Ok(priority)
    }

    fn is_blocking(&self) -> bool {
        self.0.stream().is_blocking()
    }

    fn make_current(self: Arc<Self>) -> Arc<dyn Queue> {
        let before = self.0.stream().make_current();
        Arc::new(CudaQueue::of_stream(self.0.device().clone(), before))
    }

    fn alloc(&self, n_bytes: usize, skew: u8) -> Result<u64, DeviceFailure> {
        let device = self.device();
        let n_needed = n_bytes.saturating_add(usize::from(skew));
        let stream = self.0.stream();
        let allocated = self.0.device().within("allocate memory", || self.0.device().take_memory(&stream, n_needed))?;
        let address = allocated.map(|address| address + u64::from(skew));
        address.ok_or_else(|| DeviceFailure::OutOfMemory { device, n_bytes, holders: self.0.device().holders() })
    }

    unsafe fn free(&self, address: u64) {
        // The driver has given the multiple of 256 below the address.
        let address = address & !0xff;
        // A failure is ignored, because a device that is lost has lost its memory too.
        let _ = self.0.device().within("free memory", || self.0.device().release(address));
    }

    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), DeviceFailure> {
        self.0
            .check_not_captured("a copy to the host, which waits for the device: copy after the launch of the graph")?;
        self.0.submit("copy memory to the host", "a copy", &[(address, false)], |stream| {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: the caller vouches for the bytes on the device; the host's outlive the waiting.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to, address, bytes.len(), stream.handle()) }.result()?;
            stream.synchronize()
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
        if self.0.is_capturing()? {
            // The graph has a copy of what is written.
            let staged = graph::staged(self.0.device(), &self.0.stream(), bytes)?;
            // SAFETY: the caller vouches for the rows, and the graph keeps the pinned memory.
            return unsafe { self.write_later(to, staged as *const u8) };
        }
        // SAFETY: the caller vouches for the rows, and the bytes outlive the waiting.
        unsafe { self.write_rows(to, bytes.as_ptr()) }?;
        let stream = self.0.stream();
        self.0.device().within("copy memory from the host", || stream.synchronize())
    }

    unsafe fn read_later(&self, address: u64, to: *mut u8, n_bytes: usize) -> Result<(), DeviceFailure> {
        let uses = [(address, false), (to as u64, true)];
        self.0.submit("copy memory to the host", "a copy", &uses, |stream| {
            // SAFETY: the caller vouches for both.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), address, n_bytes, stream.handle()) }.result()
        })
    }

    unsafe fn write_later(&self, to: RowLayout, from: *const u8) -> Result<(), DeviceFailure> {
        // SAFETY: passed on to the caller.
        unsafe { self.write_rows(to, from) }
    }

    unsafe fn fill(&self, to: RowLayout, word: FillWord) -> Result<(), DeviceFailure> {
        let width = (to.length / word.n_bytes()) as usize;
        self.0.submit("set memory", "a fill", &[(to.address, true)], |stream| {
            let stream = stream.handle();
            let set = |address: u64, pitch: u64, n: u64| {
                let (pitch, n) = (pitch as usize, n as usize);
                // SAFETY: the caller vouches for the rows.
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
            match by_pitch(to) {
                true => set(to.address, to.pitch, to.n),
                false => to.addresses().try_for_each(|address| set(address, to.length, 1)),
            }
        })
    }

    unsafe fn copy(&self, to: RowLayout, from: RowLayout) -> Result<(), DeviceFailure> {
        let uses = [(from.address, false), (to.address, true)];
        self.0.submit("copy memory", "a copy", &uses, |stream| {
            if by_pitch(to) && by_pitch(from) {
                // SAFETY: the caller vouches for the rows.
                return unsafe { copy_rows(to, CopySource::Device(from), stream) };
            }
            let mut rows = to.addresses().zip(from.addresses());
            let length = to.length as usize;
            // SAFETY: as above.
            rows.try_for_each(|(to_row, from_row)| unsafe {
                sys::cuMemcpyDtoDAsync_v2(to_row, from_row, length, stream.handle()).result()
            })
        })
    }

    fn begin_use(&self, address: u64, is_written: bool) -> Result<(), DeviceFailure> {
        self.0.submit("order memory", "another library", &[(address, is_written)], |_| Ok(()))
    }

    fn record(&self, is_timed: bool) -> Result<Arc<dyn Event>, DeviceFailure> {
        let stream = self.0.stream();
        let event = self.0.device().within("record an event", || {
            let mut event = std::ptr::null_mut();
            let flags = match is_timed {
                true => sys::CUevent_flags::CU_EVENT_DEFAULT,
                false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
            };
            // SAFETY: the pointer is to a handle of this function's, and the stream is live.
            unsafe {
                sys::cuEventCreate(&mut event, flags as u32).result()?;
                sys::cuEventRecord(event, stream.handle()).result()?;
            }
            Ok(event)
        })?;
        Ok(Arc::new(CudaEvent { device: self.0.device().clone(), event, is_timed }))
    }

    fn wait(&self, event: &dyn Event) -> Result<(), DeviceFailure> {
        if event.native_handle() == 0 {
            return event.synchronize();
        }
        let handle = event.native_handle() as sys::CUevent;
        let stream = self.0.stream();
        self.0.device().within("wait for an event", || {
            // SAFETY: the event is live, of whatever device (CUDA Driver API 13.0 §6.18).
            unsafe { sys::cuStreamWaitEvent(stream.handle(), handle, 0) }.result()
        })
    }

    fn synchronize(&self) -> Result<(), DeviceFailure> {
        self.0.check_not_captured("waiting for a stream that is captured")?;
        let stream = self.0.stream();
        self.0.device().within("finish", || stream.synchronize())
    }

    fn is_done(&self) -> Result<bool, DeviceFailure> {
        self.0.check_not_captured("asking whether a stream that is captured is done")?;
        let stream = self.0.stream();
        // SAFETY: the stream is live.
        self.0.device().within("ask for a stream", || match unsafe { sys::cuStreamQuery(stream.handle()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().map(|()| true),
        })
    }

    fn call(&self, function: HostFunction) -> Result<(), DeviceFailure> {
        self.0.check_not_captured("a call of a function of the host, which a graph would make again")?;
        let stream = self.0.stream();
        let function = Box::into_raw(Box::new(function));
        let done = self.0.device().within("call the host", || {
            // SAFETY: the stream is live, and the function takes what it is given, once.
            unsafe { sys::cuLaunchHostFunc(stream.handle(), Some(call_host), function.cast()) }.result()
        });
        if done.is_err() {
            // SAFETY: the driver has not taken the function.
            drop(unsafe { Box::from_raw(function) });
        }
        done
    }

    fn is_capturing(&self) -> Result<bool, DeviceFailure> {
        self.0.is_capturing()
    }

    fn begin_capture(&self) -> Result<(), DeviceFailure> {
        graph::begin(self.0.device(), &self.0.stream())
    }

    unsafe fn begin_branch(&self, kind: BranchKind, condition: u64) -> Result<Arc<dyn Branch>, DeviceFailure> {
        let branch = CudaBranch::begin(&self.0, kind, condition)?;
        Ok(branch)
    }

    fn end_capture(&self) -> Result<Arc<dyn DeviceGraph>, DeviceFailure> {
        let made: Arc<CudaGraph> = graph::end(self.0.device(), &self.0.stream())?;
        Ok(made)
    }
}

impl CudaQueue {
    /// Copies rows from memory of the host, where they follow each other, and may return before.
    ///
    /// # Safety
    ///
    /// The rows are in live allocations, and the memory of the host lives until the copy is done.
    unsafe fn write_rows(&self, to: RowLayout, from: *const u8) -> Result<(), DeviceFailure> {
        let uses: SmallVec<[MemoryUse; 2]> = [(to.address, true), (from as u64, false)].into_iter().collect();
        // Pageable memory is nobody's that streams wait for.
        let uses = if self.0.device().is_known(from as u64) { &uses[..] } else { &uses[..1] };
        self.0.submit("copy memory from the host", "a copy", uses, |stream| {
            if by_pitch(to) {
                // SAFETY: the caller vouches for both.
                return unsafe { copy_rows(to, CopySource::Host(from), stream) };
            }
            let length = to.length as usize;
            to.addresses().enumerate().try_for_each(|(number, address)| {
                // SAFETY: as above.
                unsafe { sys::cuMemcpyHtoDAsync_v2(address, from.add(number * length).cast(), length, stream.handle()) }
                    .result()
            })
        })
    }
}

/// Calls a function that [`CudaQueue::call`] has put into a stream.
unsafe extern "C" fn call_host(function: *mut c_void) {
    // SAFETY: `CudaQueue::call` gives each function away once.
    let function = unsafe { Box::from_raw(function.cast::<HostFunction>()) };
    // A panic must not go through the driver's frames; whoever made the function tells of what went wrong in it.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function));
}

/// An event of a stream.
struct CudaEvent {
    device: Arc<CudaDevice>,
    event: sys::CUevent,
    is_timed: bool,
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
        if !self.is_timed {
            let reason = "an event that measures no time was recorded: make it with enable_timing=True".to_owned();
            let (what, name) = ("time an event", "CUDA_ERROR_INVALID_HANDLE".to_owned());
            return Err(DeviceFailure::Driver { device, what, reason, code: 400, name });
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
enum CopySource {
    /// Memory of the host, where they follow each other.
    Host(*const u8),
    /// Memory of the device.
    Device(RowLayout),
}

/// Copies rows to a device's memory in one call of the driver's. `cuMemcpy2DUnaligned` takes any pitch, in the default
/// stream alone; `cuMemcpy2DAsync` may refuse one for copies within the device (CUDA Driver API 13.0 §6.13), which are done
/// row by row then.
///
/// # Safety
///
/// There are as many bytes, those of the host until the copy is done. The device's addresses the driver checks.
unsafe fn copy_rows(to: RowLayout, from: CopySource, stream: &CudaStream) -> Result<(), DriverError> {
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
            copy.srcHost = bytes.cast();
        }
        CopySource::Device(rows) => {
            copy.srcDevice = rows.address;
            copy.srcPitch = rows.pitch as usize;
        }
    }
    if stream.is_legacy() {
        // SAFETY: the caller vouches for the bytes of the host.
        return unsafe { sys::cuMemcpy2DUnaligned_v2(&copy) }.result();
    }
    // SAFETY: as above.
    let done = unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream.handle()) }.result();
    match (done, from) {
        (Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)), CopySource::Device(rows)) => {
            to.addresses().zip(rows.addresses()).try_for_each(|(to_row, from_row)| {
                let length = to.length as usize;
                // SAFETY: as above.
                unsafe { sys::cuMemcpyDtoDAsync_v2(to_row, from_row, length, stream.handle()) }.result()
            })
        }
        (done, _) => done,
    }
}
