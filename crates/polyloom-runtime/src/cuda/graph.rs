//! Graphs: what a captured stream was asked, launched any number of times.
//!
//! While a stream is captured, nothing of it runs, so that what cannot be part of a graph is an error where it is asked.
//! A graph keeps the memory, the kernels and the bytes of the host that it was captured with; a launch of it is in order with
//! other uses of that memory, as a launch of a kernel is.

use super::captures::CaptureRecord;
use super::device::CudaDevice;
use super::driver::has_symbols;
use super::memory::MemoryUse;
use super::stream::CudaStream;
use super::stream_target::StreamTarget;
use crate::device::{Device as _, DeviceFailure, DeviceGraph, DeviceId, Queue};
use cudarc::driver::{DriverError, sys};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

const GRAPH_SYMBOLS: [&str; 10] = [
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamUpdateCaptureDependencies",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphGetNodes",
    "cuGraphExecUpdate_v2",
    "cuGraphAddChildGraphNode",
    "cuGraphExecDestroy",
];

/// Has a stream be captured.
pub(super) fn begin(device: &Arc<CudaDevice>, stream: &Arc<CudaStream>) -> Result<(), DeviceFailure> {
    let refused = |what: &str| DeviceFailure::NotCapturable { device: device.id(), what: what.to_owned() };
    if stream.is_legacy() {
        return Err(refused("its default stream: capture another one"));
    }
    if !has_symbols(&GRAPH_SYMBOLS) {
        return Err(refused("anything, because its driver is for CUDA before 12.0"));
    }
    device.begin_to_order();
    device.within("capture a stream", || {
        // The pool of the driver's is made now, because a capture takes no part in that.
        let _is_made = device.driver_pool();
        stream.mark_capture()?;
        // The calls that other modes refuse, allocations above all, do nothing that a graph would have to repeat: memory comes
        // of a stream that is not captured, and a graph keeps it.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is live.
        let begun = unsafe { sys::cuStreamBeginCapture_v2(stream.handle(), mode) }.result();
        if begun.is_err() {
            stream.unmark_capture();
        }
        begun?;
        device.begin_record(stream)
    })
}

/// Ends the capture of a stream, and gives the graph.
pub(super) fn end(device: &Arc<CudaDevice>, stream: &Arc<CudaStream>) -> Result<Arc<CudaGraph>, DeviceFailure> {
    let id = device.within("end a capture", || device.capture_of(stream))?;
    let Some(id) = id else {
        let what = "a graph of a stream that is not captured".to_owned();
        return Err(DeviceFailure::NotCapturable { device: device.id(), what });
    };
    let mut graph = std::ptr::null_mut();
    let ended = device.within("end a capture", || {
        // SAFETY: the stream is live, and the pointer is to a handle of this function's.
        unsafe { sys::cuStreamEndCapture(stream.handle(), &mut graph) }.result()
    });
    stream.unmark_capture();
    let record = device.end_record(id);
    ended?;
    let Some(record) = record else {
        let what = "a stream whose capture somebody else has begun".to_owned();
        return Err(DeviceFailure::NotCapturable { device: device.id(), what });
    };
    let state = CapturedGraph { graph, record, device: device.clone() };
    let (exec, n_nodes) = device.within("make a graph", || {
        let (mut exec, mut n_nodes) = (std::ptr::null_mut(), 0);
        // SAFETY: the graph is live, and the pointers are to this function's variables.
        unsafe {
            sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut n_nodes).result()?;
            sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0).result()?;
        }
        Ok((exec, n_nodes))
    })?;
    Ok(Arc::new(CudaGraph { device: device.clone(), exec, n_nodes, captured: Mutex::new(Arc::new(state)) }))
}

/// Pinned memory with these bytes, which the graph keeps that a stream is captured for.
pub(super) fn staged(device: &Arc<CudaDevice>, stream: &CudaStream, bytes: &[u8]) -> Result<u64, DeviceFailure> {
    let (address, id) = device
        .within("copy memory from the host", || Ok((device.take_pinned(bytes.len())?, device.capture_of(stream)?)))?;
    let no_memory = || DeviceFailure::OutOfMemory { device: device.id(), n_bytes: bytes.len(), holders: String::new() };
    let address = address.ok_or_else(no_memory)?;
    // SAFETY: the memory was just allocated for as many bytes, and nobody else knows it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    if let Some(id) = id {
        device.keep_pinned(id, address);
    }
    // The graph has it from now on.
    let _ = device.within("free memory", || device.release(address));
    Ok(address)
}

/// A graph as it was captured, with what it uses.
struct CapturedGraph {
    graph: sys::CUgraph,
    record: CaptureRecord,
    device: Arc<CudaDevice>,
}

// SAFETY: a graph is a handle, which is used by one thread at a time, because nothing of it changes after its capture.
unsafe impl Send for CapturedGraph {}
// SAFETY: as above.
unsafe impl Sync for CapturedGraph {}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        // SAFETY: the graph is this one's.
        let _ = self.device.within("drop a graph", || unsafe { sys::cuGraphDestroy(self.graph) }.result());
    }
}

/// A graph that can be launched.
pub(super) struct CudaGraph {
    device: Arc<CudaDevice>,
    exec: sys::CUgraphExec,
    n_nodes: usize,
    captured: Mutex<Arc<CapturedGraph>>,
}

// SAFETY: a graph that can be launched is a handle; the driver has launches of it, from whatever threads, one after another.
unsafe impl Send for CudaGraph {}
// SAFETY: as above.
unsafe impl Sync for CudaGraph {}

impl CudaGraph {
    fn captured(&self) -> Arc<CapturedGraph> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn other_device(&self, found: DeviceId, what: &'static str) -> DeviceFailure {
        DeviceFailure::OtherDevice { device: self.device.id(), found, what }
    }
}

impl DeviceGraph for CudaGraph {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    unsafe fn launch(&self, queue: &dyn Queue) -> Result<(), DeviceFailure> {
        let Some(cuda) = queue.as_any().downcast_ref::<StreamTarget>().filter(|target| target.is_of(&self.device))
        else {
            return Err(self.other_device(queue.device(), "a queue"));
        };
        let captured = self.captured();
        let uses: Vec<MemoryUse> = captured.record.uses();
        let stream = cuda.stream();
        if let Some(id) = self.device.within("launch a graph", || self.device.capture_of(&stream))? {
            self.device.keep_for_capture(id, captured.clone());
            return cuda
                .submit("put a graph into another", "a graph", &uses, |stream| add_child(stream, captured.graph));
        }
        cuda.submit("launch a graph", "a graph", &uses, |stream| {
            // SAFETY: the graph and the stream are live, and the graph keeps what it uses.
            unsafe { sys::cuGraphLaunch(self.exec, stream.handle()) }.result()
        })
    }

    fn update(&self, other: &dyn DeviceGraph) -> Result<bool, DeviceFailure> {
        let found = other.device();
        let Some(other) = other.as_any().downcast_ref::<CudaGraph>().filter(|_| found == self.device.id()) else {
            return Err(self.other_device(found, "a graph"));
        };
        let captured = other.captured();
        // SAFETY: all of it may be zero, and the driver writes it.
        let mut info: sys::CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
        let is_updated = self.device.within("update a graph", || {
            // SAFETY: both graphs are live, and the pointer is to this function's variable.
            match unsafe { sys::cuGraphExecUpdate_v2(self.exec, captured.graph, &mut info) } {
                sys::CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => Ok(false),
                other => other.result().map(|()| true),
            }
        })?;
        if is_updated {
            let before =
                std::mem::replace(&mut *self.captured.lock().unwrap_or_else(PoisonError::into_inner), captured);
            // What was launched may still use what the graph kept before.
            self.device.within("finish", || {
                let uses = before.record.uses();
                uses.into_iter().try_for_each(|(base, _)| self.device.wait_for_uses(base))
            })?;
            drop(before);
        }
        Ok(is_updated)
    }
}

/// Adds a graph to the one that a stream is captured for, as its next piece of work.
fn add_child(stream: &CudaStream, child: sys::CUgraph) -> Result<(), DriverError> {
    let (graph, before) = stream.captured_graph()?;
    let mut node = std::ptr::null_mut();
    // SAFETY: the graph and the nodes are those of the capture, and the pointer is to this function's variable.
    unsafe {
        sys::cuGraphAddChildGraphNode(&mut node, graph, before.as_ptr(), before.len(), child).result()?;
        let replaced = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        sys::cuStreamUpdateCaptureDependencies(stream.handle(), &mut node, 1, replaced).result()
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // The driver ends it when launches of it are done.
        let _ = self.device.within("drop a graph", || {
            // SAFETY: it is this one's.
            unsafe { sys::cuGraphExecDestroy(self.exec) }.result()
        });
    }
}
