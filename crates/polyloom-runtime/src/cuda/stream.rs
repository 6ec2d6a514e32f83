//! Streams of CUDA devices, which of them a thread's work goes to, and how one waits for another.

use super::device::CudaDevice;
use super::memory_pool::StreamOrder;
use crate::device::{Device as _, DeviceFailure, QueueOptions};
use cudarc::driver::{DriverError, sys};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Says who made a stream, and what its handle means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StreamKind {
    /// The default stream of a context, which blocking streams are in order with.
    Legacy,
    /// The default stream of the thread that the object was made in. Its handle means another stream in other threads.
    OfThread,
    /// One of this crate's.
    Own,
    /// Another library's, which may end it.
    Foreign,
}

/// A stream of a device.
pub(super) struct CudaStream {
    device: Arc<CudaDevice>,
    handle: sys::CUstream,
    kind: StreamKind,
    is_blocking: bool,
    /// Counts the streams of the process, for messages.
    number: u32,
    /// Recorded after each use of memory, where the handle cannot be asked later: of streams of threads and of other
    /// libraries.
    last_use: sys::CUevent,
    /// Recorded where a capture has begun, as long as it lasts: what comes after it in the stream has not run.
    before_capture: Mutex<Option<OrderEvent>>,
}

// SAFETY: a stream and an event are handles, which any thread with the context may use, several at once. That of a thread's
// stream is used by that thread alone, as `CudaStream::of_thread` and `last_use` have it.
unsafe impl Send for CudaStream {}
// SAFETY: as above.
unsafe impl Sync for CudaStream {}

/// The driver's handles of the default streams (`CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, CUDA Driver API 13.0 §5).
pub(super) const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

thread_local! {
    /// Holds the streams that this thread has made its current ones, by the numbers of their devices.
    static CURRENT: RefCell<Vec<(u32, Arc<CudaStream>)>> = const { RefCell::new(Vec::new()) };
    /// Holds this thread's default streams.
    static OF_THREAD: RefCell<Vec<(u32, Arc<CudaStream>)>> = const { RefCell::new(Vec::new()) };
}

/// An event that orders streams and measures no time.
pub(super) struct OrderEvent {
    device: Arc<CudaDevice>,
    handle: sys::CUevent,
}

// SAFETY: an event is a handle, which any thread with the context may use.
unsafe impl Send for OrderEvent {}
// SAFETY: as above.
unsafe impl Sync for OrderEvent {}

impl OrderEvent {
    fn recorded(stream: &CudaStream) -> Result<OrderEvent, DriverError> {
        let handle = untimed_event()?;
        let event = OrderEvent { device: stream.device.clone(), handle };
        // SAFETY: the event and the stream are live.
        unsafe { sys::cuEventRecord(event.handle, stream.handle) }.result()?;
        Ok(event)
    }
}

impl Drop for OrderEvent {
    fn drop(&mut self) {
        // SAFETY: the event is this one's. The driver ends it when nothing waits for it any more.
        let _ = self.device.within("drop an event", || unsafe { sys::cuEventDestroy_v2(self.handle) }.result());
    }
}

/// Makes an event that measures no time. The caller is in the context.
pub(super) fn untimed_event() -> Result<sys::CUevent, DriverError> {
    let mut event = std::ptr::null_mut();
    let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    // SAFETY: the pointer is to a handle of this function's.
    unsafe { sys::cuEventCreate(&mut event, flags) }.result()?;
    Ok(event)
}

impl CudaStream {
    fn of_handle(device: &Arc<CudaDevice>, handle: sys::CUstream, kind: StreamKind, is_blocking: bool) -> CudaStream {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = if kind == StreamKind::Legacy { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        CudaStream {
            device: device.clone(),
            handle,
            kind,
            is_blocking,
            number,
            last_use: std::ptr::null_mut(),
            before_capture: Mutex::default(),
        }
    }

    /// The default stream.
    pub(super) fn legacy(device: &Arc<CudaDevice>) -> Arc<CudaStream> {
        let make = || Arc::new(CudaStream::of_handle(device, std::ptr::null_mut(), StreamKind::Legacy, true));
        device.legacy.get_or_init(make).clone()
    }

    /// The default stream of the calling thread.
    pub(super) fn of_thread(device: &Arc<CudaDevice>) -> Result<Arc<CudaStream>, DeviceFailure> {
        let number = device.number();
        let known =
            OF_THREAD.with_borrow(|streams| streams.iter().find(|(of, _)| *of == number).map(|(_, s)| s.clone()));
        if let Some(known) = known {
            return Ok(known);
        }
        let handle = std::ptr::without_provenance_mut(PER_THREAD as usize);
        let mut stream = CudaStream::of_handle(device, handle, StreamKind::OfThread, true);
        stream.last_use = device.within("make an event", untimed_event)?;
        device.begin_to_order();
        let stream = Arc::new(stream);
        OF_THREAD.with_borrow_mut(|streams| streams.push((number, stream.clone())));
        Ok(stream)
    }

    /// Makes a stream.
    pub(super) fn new(device: &Arc<CudaDevice>, options: QueueOptions) -> Result<Arc<CudaStream>, DeviceFailure> {
        let QueueOptions { priority, is_blocking } = options;
        let handle = device.within("make a stream", || {
            let (mut least, mut greatest) = (0, 0);
            // SAFETY: the pointers are to integers of this function's.
            unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) }.result()?;
            let mut stream = std::ptr::null_mut();
            let flags = match is_blocking {
                true => sys::CUstream_flags::CU_STREAM_DEFAULT,
                false => sys::CUstream_flags::CU_STREAM_NON_BLOCKING,
            };
            let priority = priority.clamp(greatest, least.max(greatest));
            // SAFETY: as above.
            unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags as u32, priority) }.result()?;
            Ok(stream)
        })?;
        let stream = Arc::new(CudaStream::of_handle(device, handle, StreamKind::Own, is_blocking));
        device.begin_to_order();
        if !is_blocking {
            // What was asked of the default stream until now is remembered nowhere.
            device.within("order a stream", || stream.wait_for(&CudaStream::legacy(device)))?;
        }
        Ok(stream)
    }

    /// Makes a stream to be captured, which the default stream may be used beside: it is in no order with that.
    pub(super) fn capturable(device: &Arc<CudaDevice>) -> Result<Arc<CudaStream>, DeviceFailure> {
        let handle = device.within("make a stream", || {
            let mut stream = std::ptr::null_mut();
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: the pointer is to a handle of this function's.
            unsafe { sys::cuStreamCreate(&mut stream, flags) }.result()?;
            Ok(stream)
        })?;
        Ok(Arc::new(CudaStream::of_handle(device, handle, StreamKind::Own, false)))
    }

    /// The stream of this handle, which another library has made.
    ///
    /// # Safety
    ///
    /// The handle is valid for as long as this is.
    pub(super) unsafe fn foreign(device: &Arc<CudaDevice>, handle: u64) -> Result<Arc<CudaStream>, DeviceFailure> {
        match handle {
            0 | LEGACY => return Ok(CudaStream::legacy(device)),
            PER_THREAD => return CudaStream::of_thread(device),
            _ => {}
        }
        let stream = handle as sys::CUstream;
        let (is_blocking, last_use) = device.within("use a stream of another library", || {
            let mut flags = 0;
            // SAFETY: the caller vouches for the handle.
            unsafe { sys::cuStreamGetFlags(stream, &mut flags) }.result()?;
            Ok((flags & sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32 == 0, untimed_event()?))
        })?;
        let mut made = CudaStream::of_handle(device, stream, StreamKind::Foreign, is_blocking);
        made.last_use = last_use;
        device.begin_to_order();
        let made = Arc::new(made);
        // What was asked of the default stream until now is remembered nowhere, and such a stream is in no order with it.
        device
            .within("order a stream", || made.mark_use().and_then(|()| made.wait_for(&CudaStream::legacy(device))))?;
        Ok(made)
    }

    /// The stream of everything that the calling thread asks and that names none.
    pub(super) fn current(device: &Arc<CudaDevice>) -> Arc<CudaStream> {
        let number = device.number();
        let known = CURRENT.with_borrow(|streams| streams.iter().find(|(of, _)| *of == number).map(|(_, s)| s.clone()));
        known.unwrap_or_else(|| CudaStream::legacy(device))
    }

    /// Makes it the calling thread's current stream of its device; gives the one before.
    pub(super) fn make_current(self: &Arc<Self>) -> Arc<CudaStream> {
        let number = self.device.number();
        let before = CURRENT.with_borrow_mut(|streams| {
            let at = streams.iter().position(|(of, _)| *of == number);
            let before = at.map(|at| streams.swap_remove(at).1);
            if !self.is_legacy() {
                streams.push((number, self.clone()));
            }
            before
        });
        before.unwrap_or_else(|| CudaStream::legacy(&self.device))
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    pub(super) fn is_legacy(&self) -> bool {
        self.kind == StreamKind::Legacy
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.is_blocking
    }

    /// Marks the place after a use of memory, for streams that cannot be asked later. The caller is in the context.
    pub(super) fn mark_use(&self) -> Result<(), DriverError> {
        match self.last_use.is_null() {
            true => Ok(()),
            // SAFETY: the event and the stream are live, and a thread's stream is used by its thread alone.
            false => unsafe { sys::cuEventRecord(self.last_use, self.handle) }.result(),
        }
    }

    /// Has what is put into this stream from now on wait for the work that used memory in another one. The caller is in the
    /// context.
    pub(super) fn wait_for(&self, other: &CudaStream) -> Result<(), DriverError> {
        other.with_event(|event| {
            // SAFETY: the event and the stream are live.
            unsafe { sys::cuStreamWaitEvent(self.handle, event, 0) }.result()
        })
    }

    /// Calls with an event that comes after the uses of memory in this stream, which is valid until the call ends. The
    /// caller is in the context.
    pub(super) fn with_event<R>(
        &self,
        call: impl FnOnce(sys::CUevent) -> Result<R, DriverError>,
    ) -> Result<R, DriverError> {
        // The event is recorded anew by each thread, and a stream waits for what was recorded when it was told to.
        let shared = self.device.order_event.lock().unwrap_or_else(PoisonError::into_inner);
        let before_capture = self.before_capture.lock().unwrap_or_else(PoisonError::into_inner);
        match &*before_capture {
            Some(event) => call(event.handle),
            None if !self.last_use.is_null() => call(self.last_use),
            None => {
                let event = shared.get()?;
                // SAFETY: the event and the stream are live.
                unsafe { sys::cuEventRecord(event, self.handle) }.result()?;
                call(event)
            }
        }
    }

    /// Waits until everything in it is done. The caller is in the context.
    pub(super) fn synchronize(&self) -> Result<(), DriverError> {
        match self.kind {
            // Another thread's is another stream, and another library's may be gone: what used memory in them is marked.
            StreamKind::OfThread | StreamKind::Foreign if !self.is_of_caller() => {
                // SAFETY: the event is live.
                unsafe { sys::cuEventSynchronize(self.last_use) }.result()
            }
            // SAFETY: the stream is live.
            _ => unsafe { sys::cuStreamSynchronize(self.handle) }.result(),
        }
    }

    /// Returns true if its handle means this stream in the calling thread.
    fn is_of_caller(&self) -> bool {
        match self.kind {
            StreamKind::OfThread => {
                OF_THREAD.with_borrow(|streams| streams.iter().any(|(_, own)| std::ptr::eq(&raw const **own, self)))
            }
            StreamKind::Legacy | StreamKind::Own | StreamKind::Foreign => true,
        }
    }

    /// Waits until the work is done that used memory. The caller is in the context.
    pub(super) fn synchronize_uses(&self) -> Result<(), DriverError> {
        match self.last_use.is_null() {
            true => self.synchronize(),
            // SAFETY: the event is live.
            false => unsafe { sys::cuEventSynchronize(self.last_use) }.result(),
        }
    }

    /// Returns true if the work that used memory is done. The caller is in the context.
    pub(super) fn is_done_with_uses(&self) -> bool {
        let found = match self.last_use.is_null() {
            // SAFETY: the stream is live, as those of this crate are.
            true => unsafe { sys::cuStreamQuery(self.handle) },
            // SAFETY: the event is this one's.
            false => unsafe { sys::cuEventQuery(self.last_use) },
        };
        found == sys::CUresult::CUDA_SUCCESS
    }

    /// The graph that it is captured for, and the nodes that come before what is asked next. The caller is in the context.
    pub(super) fn captured_graph(&self) -> Result<(sys::CUgraph, Vec<sys::CUgraphNode>), DriverError> {
        let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        let (mut graph, mut before, mut n) = (std::ptr::null_mut(), std::ptr::null(), 0usize);
        // SAFETY: the pointers are to this function's variables; the nodes are as many as the driver says, and its until the
        // stream is asked for something else.
        unsafe {
            sys::cuStreamGetCaptureInfo_v2(self.handle, &mut status, &mut id, &mut graph, &mut before, &mut n)
                .result()?;
            let nodes = if n == 0 { Vec::new() } else { std::slice::from_raw_parts(before, n).to_vec() };
            Ok((graph, nodes))
        }
    }

    /// Remembers where a capture begins. The caller is in the context.
    pub(super) fn mark_capture(&self) -> Result<(), DriverError> {
        let event = OrderEvent::recorded(self)?;
        *self.before_capture.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(())
    }

    /// Ends what [`CudaStream::mark_capture`] began.
    pub(super) fn unmark_capture(&self) {
        let event = self.before_capture.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(event);
    }
}

impl fmt::Display for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.device.id();
        match self.kind {
            StreamKind::Legacy => write!(f, "the default stream of '{device}'"),
            StreamKind::OfThread => write!(f, "a thread's default stream of '{device}'"),
            StreamKind::Own => write!(f, "stream {} of '{device}'", self.number),
            StreamKind::Foreign => write!(f, "another library's stream {:p} of '{device}'", self.handle),
        }
    }
}

impl StreamOrder for Arc<CudaStream> {
    fn is(&self, other: &Arc<CudaStream>) -> bool {
        let is_same_handle = self.handle == other.handle && self.kind != StreamKind::OfThread;
        Arc::ptr_eq(self, other)
            || (is_same_handle && self.kind == other.kind && self.device.number() == other.device.number())
    }

    fn follows(&self, other: &Arc<CudaStream>) -> bool {
        let is_in_order = (self.is_legacy() && other.is_blocking) || (other.is_legacy() && self.is_blocking);
        self.is(other) || (is_in_order && self.device.number() == other.device.number())
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        // A device that is lost has lost its streams too.
        let _ = self.device.within("end a stream", || {
            if !self.last_use.is_null() {
                // SAFETY: the event is this one's.
                unsafe { sys::cuEventDestroy_v2(self.last_use) }.result()?;
            }
            if self.kind == StreamKind::Own {
                // Its work is done nevertheless.
                // SAFETY: the stream is this one's.
                unsafe { sys::cuStreamDestroy_v2(self.handle) }.result()?;
            }
            Ok(())
        });
    }
}

/// An event that is made when it is first used, and kept for the rest of the process.
#[derive(Default)]
pub(super) struct SharedEvent(Cell<Option<usize>>);

impl SharedEvent {
    /// The event. The caller is in the context.
    pub(super) fn get(&self) -> Result<sys::CUevent, DriverError> {
        match self.0.get() {
            Some(handle) => Ok(handle as sys::CUevent),
            None => {
                let made = untimed_event()?;
                self.0.set(Some(made as usize));
                Ok(made)
            }
        }
    }
}
