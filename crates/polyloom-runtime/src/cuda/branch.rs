//! Branches of graphs: conditional nodes, whose body runs by a number in memory when the graph comes to it.
//!
//! A small kernel reads the number and tells the driver, as only kernels can (CUDA Programming Guide 13, "Conditional Graph
//! Nodes"): before the node, and of a loop at the end of its body too.

use super::device::CudaDevice;
use super::driver::has_symbols;
use super::function::{LoadedFunction, LoadedModule};
use super::queue::CudaQueue;
use super::stream::CudaStream;
use super::stream_target::StreamTarget;
use crate::device::{Branch, BranchKind, DeviceFailure, DeviceId, Queue};
use cudarc::driver::sys;
use polyloom_ir::LaunchConfig;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The kernel that tells the driver of a condition. ptxas knows the function that it calls.
const TELL: &str = "
.version 8.4
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry polyloom_tell_condition(.param .u64 node, .param .u64 condition, .param .u32 negated)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [node];
    ld.param.u64 %rd1, [condition];
    ld.param.u32 %r0, [negated];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    setp.ne.u32 %p, %r1, 0;
    selp.u32 %r2, 1, 0, %p;
    xor.b32 %r3, %r2, %r0;
    {
        .param .b64 told;
        .param .b32 value;
        st.param.b64 [told], %rd0;
        st.param.b32 [value], %r3;
        call cudaGraphSetConditional, (told, value);
    }
    ret;
}
\0";

const BRANCH_SYMBOLS: [&str; 3] =
    ["cuGraphConditionalHandleCreate", "cuGraphAddNode_v2", "cuStreamBeginCaptureToGraph"];

/// Returns true if the driver's graphs have branches.
pub(super) fn has_branches() -> bool {
    has_symbols(&BRANCH_SYMBOLS)
}

/// A branch whose body is captured.
pub(super) struct CudaBranch {
    device: Arc<CudaDevice>,
    body: Arc<CudaStream>,
    kind: BranchKind,
    condition: u64,
    node: sys::CUgraphConditionalHandle,
    tell: LoadedFunction,
    /// The capture of the body, as part of that of the graph.
    id: Option<u64>,
}

impl CudaBranch {
    /// Begins a branch of the graph that a stream is captured for.
    pub(super) fn begin(
        target: &StreamTarget,
        kind: BranchKind,
        condition: u64,
    ) -> Result<Arc<CudaBranch>, DeviceFailure> {
        let device = target.device();
        let refused = |what: &str| DeviceFailure::NotCapturable {
            device: DeviceId::Cuda(device.number()),
            what: what.to_owned(),
        };
        let stream = target.stream();
        let Some(outer) = device.within("begin a branch", || device.capture_of(&stream))? else {
            return Err(refused("a branch of a graph in a stream that is not captured"));
        };
        if !has_branches() {
            return Err(refused("a branch, because its driver is for CUDA before 12.4"));
        }
        let tell = tell_function(device)?;
        let context = device.context();
        let mut node = 0;
        device.within("begin a branch", || {
            let (graph, _) = stream.captured_graph()?;
            // SAFETY: the graph is the one that is captured, and the pointer is to this function's variable.
            unsafe { sys::cuGraphConditionalHandleCreate(&mut node, graph, context, 0, 0) }.result()
        })?;
        tell_condition(target, &tell, node, condition, kind)?;
        // The default stream may be used while such a stream is captured.
        let body = CudaStream::capturable(device)?;
        let id = device.within("begin a branch", || {
            let (graph, before) = stream.captured_graph()?;
            // SAFETY: all of it may be zero.
            let mut params: sys::CUgraphNodeParams = unsafe { std::mem::zeroed() };
            params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
            params.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
                handle: node,
                type_: match kind {
                    BranchKind::While => sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
                    BranchKind::If | BranchKind::Unless => sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF,
                },
                size: 1,
                phGraph_out: std::ptr::null_mut(),
                ctx: context,
            };
            let mut added = std::ptr::null_mut();
            // SAFETY: the graph and the nodes before are those of the capture, the driver writes the body's graph to the
            // parameters, and the pointers are to this function's variables.
            unsafe {
                let edges = std::ptr::null();
                sys::cuGraphAddNode_v2(&mut added, graph, before.as_ptr(), edges, before.len(), &mut params)
                    .result()?;
                let replaced = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
                sys::cuStreamUpdateCaptureDependencies(stream.handle(), &mut added, 1, replaced).result()?;
                let inner = *params.__bindgen_anon_1.conditional.phGraph_out;
                let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
                let nothing = std::ptr::null();
                sys::cuStreamBeginCaptureToGraph(body.handle(), inner, nothing, std::ptr::null(), 0, mode).result()?;
            }
            device.join_record(&body, outer)
        })?;
        Ok(Arc::new(CudaBranch { device: device.clone(), body, kind, condition, node, tell, id }))
    }
}

/// The code by which branches tell of their conditions, by the number of its device, as long as a graph has one.
static TELLING: Mutex<BTreeMap<u32, Weak<LoadedModule>>> = Mutex::new(BTreeMap::new());

/// Returns the kernel that tells of a condition. It is loaded once for all graphs of the device that have branches.
fn tell_function(device: &Arc<CudaDevice>) -> Result<LoadedFunction, DeviceFailure> {
    let mut known = TELLING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of_device = |module: &Arc<LoadedModule>| module.is_of(device);
    let module = match known.get(&device.number()).and_then(Weak::upgrade).filter(is_of_device) {
        Some(module) => module,
        None => LoadedModule::load(device, TELL.as_bytes())?,
    };
    known.insert(device.number(), Arc::downgrade(&module));
    module.function("polyloom_tell_condition")
}

/// Puts a launch of the kernel that tells of a condition into a stream.
fn tell_condition(
    target: &StreamTarget,
    tell: &LoadedFunction,
    node: u64,
    condition: u64,
    kind: BranchKind,
) -> Result<(), DeviceFailure> {
    let is_negated = u32::from(kind == BranchKind::Unless);
    let params = [node.to_le_bytes().to_vec(), condition.to_le_bytes().to_vec(), is_negated.to_le_bytes().to_vec()];
    let grid = LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
    // SAFETY: these are its parameters, and whoever begins the branch vouches for the address.
    unsafe { tell.launch(target, "a condition", &grid, &params, (&[(condition, false)], false)) }
}

impl Branch for CudaBranch {
    fn queue(&self) -> Arc<dyn Queue> {
        Arc::new(CudaQueue::of_stream(self.device.clone(), self.body.clone()))
    }

    fn end(&self) -> Result<(), DeviceFailure> {
        let target = StreamTarget::of_stream(self.device.clone(), self.body.clone());
        let told = match self.kind {
            BranchKind::While => tell_condition(&target, &self.tell, self.node, self.condition, self.kind),
            BranchKind::If | BranchKind::Unless => Ok(()),
        };
        let mut graph = std::ptr::null_mut();
        let ended = self.device.within("end a branch", || {
            // SAFETY: the stream is live, and the graph, which belongs to the node, stays the driver's.
            unsafe { sys::cuStreamEndCapture(self.body.handle(), &mut graph) }.result()
        });
        self.device.leave_record(self.id);
        told?;
        ended
    }
}

impl Drop for CudaBranch {
    fn drop(&mut self) {
        self.tell.unload_later();
    }
}
