//! Streams: work in order, which is run when it is submitted or, while a stream is captured, becomes nodes of a graph.

use crate::abi::Handle;
use crate::context::Context;
use crate::driver::Driver;
use crate::event::Event;
use crate::graph::Graph;
use crate::order::{self, StreamPlace};
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use crate::work::Work;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// A stream.
pub(crate) struct Stream {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// True of the default stream of a context, which waits for the others and they for it.
    pub(crate) is_default: bool,
    pub(crate) id: u64,
    capture: Mutex<Option<Capture>>,
    /// The nodes that a caller was last shown, kept for it.
    shown: Mutex<Box<[Handle]>>,
}

/// All streams, the default ones of contexts included.
pub(crate) static STREAMS: Registry<Stream> = Registry::new();

/// A capture that a stream takes part in.
#[derive(Clone)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) graph: Arc<Graph>,
    /// The nodes that come before what is submitted next.
    pub(crate) dependencies: Vec<Handle>,
    /// True of the stream in which it has begun, where it has to end.
    pub(crate) is_origin: bool,
    pub(crate) mode: CaptureMode,
    pub(crate) thread: ThreadId,
    pub(crate) is_invalid: bool,
}

/// Says what else a program may do while it captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CaptureMode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl CaptureMode {
    pub(crate) fn of(number: u32) -> Outcome<CaptureMode> {
        match number {
            0 => Ok(CaptureMode::Global),
            1 => Ok(CaptureMode::ThreadLocal),
            2 => Ok(CaptureMode::Relaxed),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    pub(crate) fn number(self) -> u32 {
        self as u32
    }
}

impl Stream {
    pub(crate) const NON_BLOCKING: u32 = 1;

    pub(crate) fn new(handle: Handle, context: Handle, flags: u32, priority: i32, is_default: bool) -> Stream {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        Stream { handle, context, flags, priority, is_default, id, capture: Mutex::default(), shown: Mutex::default() }
    }

    pub(crate) fn capture(&self) -> MutexGuard<'_, Option<Capture>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream that a handle stands for in a context: one is its default stream, two that of the calling thread, and zero
    /// one of them.
    pub(crate) fn of(context: &Context, handle: Handle) -> Outcome<Arc<Stream>> {
        match handle {
            0 if IS_BY_THREAD.get() => Ok(context.stream_of_thread()),
            0 | 1 => Ok(Arc::clone(&context.stream)),
            2 => Ok(context.stream_of_thread()),
            _ => crate::stream::STREAMS.get(handle),
        }
    }

    /// Gives the address of a list of nodes, which stays until the next one.
    pub(crate) fn show_dependencies(&self, nodes: &[Handle]) -> usize {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = nodes.into();
        shown.as_ptr().expose_provenance()
    }

    /// Runs work after what was submitted before, or adds it to the graph that is captured.
    pub(crate) fn submit(&self, driver: &Driver, work: Work) -> Outcome {
        let mut capture = self.capture();
        if let Some(capture) = &mut *capture {
            if capture.is_invalid {
                return Err(CudaError::STREAM_CAPTURE_INVALIDATED);
            }
            let node = capture.graph.add(work, std::mem::take(&mut capture.dependencies))?;
            capture.dependencies = vec![node.handle];
            return Ok(());
        }
        drop(capture);
        if self.is_default {
            forbid_in_capture_of_blocking(self.context)?;
        }
        self.run(driver, || work.run(driver))
    }

    /// Runs something as this stream's next piece of work.
    pub(crate) fn run(&self, driver: &Driver, run: impl FnOnce() -> Outcome) -> Outcome {
        if !driver.configuration.sanitize.races {
            return run();
        }
        let (done, accesses) = order::recorded(run);
        let before = self.streams_before();
        for race in driver.order.ran(StreamPlace { id: self.id, before: &before }, accesses) {
            let at = race.address();
            let place = driver.memory.device.allocation_at(at).map_or_else(String::new, |whole| {
                let (byte, n_bytes) = (at - whole.start, whole.end - whole.start);
                format!("byte {byte} of the {n_bytes}-byte allocation at 0x{:x}", whole.start)
            });
            driver.journal.noted(&race.describe(&place));
        }
        done
    }

    /// The streams whose work comes before its own: of the default stream all blocking ones of the context, of those the
    /// default stream.
    fn streams_before(&self) -> Vec<u64> {
        if self.flags & Stream::NON_BLOCKING != 0 {
            return Vec::new();
        }
        let is_before = |other: &Stream| {
            other.context == self.context
                && other.id != self.id
                && other.flags & Stream::NON_BLOCKING == 0
                && (self.is_default || other.is_default)
        };
        STREAMS.all().iter().filter(|other| is_before(other)).map(|other| other.id).collect()
    }

    /// Makes sure that everything is done, which it is unless the stream is captured.
    pub(crate) fn synchronize(&self, driver: &Driver) -> Outcome {
        if let Some(capture) = &mut *self.capture() {
            capture.is_invalid = true;
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        driver.order.host_waited(&driver.order.clock(self.id));
        driver.flush_prints();
        Ok(())
    }

    /// Begins a capture.
    pub(crate) fn begin_capture(&self, graph: Arc<Graph>, dependencies: Vec<Handle>, mode: CaptureMode) -> Outcome {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.is_default {
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut capture = self.capture();
        if capture.is_some() {
            return Err(CudaError::ILLEGAL_STATE);
        }
        let (id, thread) = (NEXT.fetch_add(1, Relaxed), std::thread::current().id());
        *capture = Some(Capture { id, graph, dependencies, is_origin: true, mode, thread, is_invalid: false });
        Ok(())
    }

    /// Ends the capture that has begun in this stream.
    pub(crate) fn end_capture(&self) -> Outcome<Arc<Graph>> {
        let mut own = self.capture();
        let Some(capture) = own.clone() else { return Err(CudaError::ILLEGAL_STATE) };
        if !capture.is_origin {
            return Err(CudaError::STREAM_CAPTURE_UNMATCHED);
        }
        *own = None;
        drop(own);
        let mut others = Vec::new();
        for stream in crate::stream::STREAMS.all() {
            let mut joined = stream.capture();
            if joined.as_ref().is_some_and(|joined| joined.id == capture.id) {
                others.extend(joined.take());
            }
        }
        if capture.is_invalid || others.iter().any(|other| other.is_invalid) {
            return Err(CudaError::STREAM_CAPTURE_INVALIDATED);
        }
        let before = capture.graph.all_before(&capture.dependencies);
        let is_joined = |other: &Capture| other.dependencies.iter().all(|node| before.contains(node));
        if !others.iter().all(is_joined) {
            return Err(CudaError::STREAM_CAPTURE_UNJOINED);
        }
        Ok(capture.graph)
    }

    /// Records an event after what was submitted before.
    pub(crate) fn record(&self, driver: &Driver, event: &Arc<Event>) -> Outcome {
        if let Some(capture) = &*self.capture() {
            event.state().captured = Some((capture.id, capture.dependencies.clone()));
            return Ok(());
        }
        self.submit(driver, Work::Record(Arc::clone(event)))?;
        let mut state = event.state();
        state.captured = None;
        state.clock = driver.order.clock(self.id);
        Ok(())
    }

    /// Lets what is submitted next wait for an event. If that was captured, the stream takes part in the capture.
    pub(crate) fn wait(&self, driver: &Driver, event: &Arc<Event>) -> Outcome {
        let captured = event.state().captured.clone();
        let mut own = self.capture();
        match (captured, &mut *own) {
            (None, None) => {
                driver.order.wait(self.id, &event.state().clock);
                Ok(())
            }
            (None, Some(capture)) => {
                // An event from outside orders the graph after work that is over; one that was never recorded, nothing.
                if event.state().recorded.is_some() {
                    capture.is_invalid = true;
                    return Err(CudaError::STREAM_CAPTURE_ISOLATION);
                }
                Ok(())
            }
            (Some((id, nodes)), Some(capture)) if capture.id == id => {
                for node in nodes {
                    if !capture.dependencies.contains(&node) {
                        capture.dependencies.push(node);
                    }
                }
                Ok(())
            }
            (Some(_), Some(_)) => Err(CudaError::STREAM_CAPTURE_MERGE),
            (Some((id, dependencies)), own) => {
                if self.is_default {
                    return Err(CudaError::STREAM_CAPTURE_IMPLICIT);
                }
                let others = crate::stream::STREAMS.all().into_iter().filter(|stream| stream.handle != self.handle);
                let origin = others.filter_map(|stream| stream.capture().clone()).find(|capture| capture.id == id);
                // A capture that has ended meanwhile leaves nothing to wait for.
                *own = origin.map(|origin| Capture { dependencies, is_origin: false, ..origin });
                Ok(())
            }
        }
    }
}

/// Makes a stream.
pub(crate) fn create(context: &Context, flags: u32, priority: i32) -> Outcome<Handle> {
    if flags & !Stream::NON_BLOCKING != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let handle = new_handle();
    crate::stream::STREAMS.insert(handle, Stream::new(handle, context.handle, flags, priority, false));
    Ok(handle)
}

thread_local! {
    /// True during a call of the thread's by an entry point for which the default stream is the thread's own.
    static IS_BY_THREAD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Makes a call for which the default stream is the thread's own.
pub(crate) fn use_stream_of_thread<R>(call: impl FnOnce() -> R) -> R {
    let before = IS_BY_THREAD.replace(true);
    let result = call();
    IS_BY_THREAD.set(before);
    result
}

/// Captures that are under way.
fn captures() -> impl Iterator<Item = (Arc<Stream>, Capture)> {
    let streams = crate::stream::STREAMS.all().into_iter();
    streams.filter_map(|stream| {
        let capture = stream.capture().clone()?;
        Some((stream, capture))
    })
}

/// The default stream waits for blocking streams, so that it cannot be used while one of them is captured.
fn forbid_in_capture_of_blocking(context: Handle) -> Outcome {
    for (stream, _) in captures() {
        if stream.context == context && stream.flags & Stream::NON_BLOCKING == 0 {
            if let Some(capture) = &mut *stream.capture() {
                capture.is_invalid = true;
            }
            return Err(CudaError::STREAM_CAPTURE_IMPLICIT);
        }
    }
    Ok(())
}

thread_local! {
    /// Returns what the thread has set by `cuThreadExchangeStreamCaptureMode`.
    pub(crate) static THREAD_MODE: std::cell::Cell<CaptureMode> = const { std::cell::Cell::new(CaptureMode::Global) };
}

/// Fails calls that wait or allocate while a capture forbids them (CUDA Driver API 13.0 §6.18,
/// `cuThreadExchangeStreamCaptureMode`), and says so: what such a call did would not be part of the graph.
pub(crate) fn forbid_in_capture(driver: &Driver, name: &str) -> Outcome {
    let own = THREAD_MODE.get();
    if own == CaptureMode::Relaxed {
        return Ok(());
    }
    let this = std::thread::current().id();
    for (stream, capture) in captures() {
        let of_thread = capture.thread == this && capture.mode != CaptureMode::Relaxed;
        let of_others = own == CaptureMode::Global && capture.mode == CaptureMode::Global;
        if of_thread || of_others {
            if let Some(capture) = &mut *stream.capture() {
                capture.is_invalid = true;
            }
            driver.journal.noted(&format!("{name} is called while a stream is captured, which ends the capture"));
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
    }
    Ok(())
}
