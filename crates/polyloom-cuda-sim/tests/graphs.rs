//! Graphs: captured, made node by node, changed, and what cannot be captured.

use crate::driver::{in_child, is_child, start};
use crate::kernels::{Pointed, SAXPY, download, function, launch, load, upload};
use cudarc::driver::sys::{self, CUresult};

fn stream() -> sys::CUstream {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the pointer is to this function's variable.
    unsafe { sys::cuStreamCreate(&mut stream, 1) }.result().unwrap();
    stream
}

const GLOBAL: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const RELAXED: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

fn nodes(graph: sys::CUgraph) -> Vec<sys::CUgraphNode> {
    let mut n = 0;
    // SAFETY: the list has as many as the first call says.
    unsafe {
        sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut n).result().unwrap();
        let mut nodes = vec![std::ptr::null_mut(); n];
        sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut n).result().unwrap();
        nodes
    }
}

fn exec_of(graph: sys::CUgraph) -> sys::CUgraphExec {
    let mut exec = std::ptr::null_mut();
    // SAFETY: the graph is live.
    unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0) }.result().unwrap();
    exec
}

#[test]
fn a_capture_of_two_streams_runs_as_often_as_it_is_launched() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let (first, second) = (stream(), stream());
    let (x, y, z) = (upload(&[1f32; 8]), upload(&[0f32; 8]), upload(&[0f32; 8]));
    let (mut fork, mut join) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut graph = std::ptr::null_mut();
    // SAFETY: handles are live.
    unsafe {
        sys::cuEventCreate(&mut fork, 2).result().unwrap();
        sys::cuEventCreate(&mut join, 2).result().unwrap();
        sys::cuStreamBeginCapture_v2(first, RELAXED).result().unwrap();
        launch(saxpy, (1, 32), first, &[&1f32, &x, &y, &8u32]).unwrap();
        sys::cuEventRecord(fork, first).result().unwrap();
        sys::cuStreamWaitEvent(second, fork, 0).result().unwrap();
        launch(saxpy, (1, 32), second, &[&10f32, &y, &z, &8u32]).unwrap();
        sys::cuEventRecord(join, second).result().unwrap();
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        sys::cuStreamIsCapturing(second, &mut status).result().unwrap();
        assert_eq!(status, sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        sys::cuStreamWaitEvent(first, join, 0).result().unwrap();
        sys::cuMemsetD32Async(x, 2f32.to_bits(), 8, first).result().unwrap();
        sys::cuStreamEndCapture(first, &mut graph).result().unwrap();
        sys::cuStreamIsCapturing(second, &mut status).result().unwrap();
        assert_eq!(status, sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    }
    assert_eq!(download::<f32>(y, 1), [0.0], "nothing has run yet");
    assert_eq!(nodes(graph).len(), 3);
    let exec = exec_of(graph);
    for expect in [(1.0, 10.0), (3.0, 40.0)] {
        // SAFETY: handles are live.
        unsafe { sys::cuGraphLaunch(exec, first) }.result().unwrap();
        assert_eq!((download::<f32>(y, 1)[0], download::<f32>(z, 1)[0]), expect);
    }
    // SAFETY: as above, once.
    unsafe {
        sys::cuGraphExecDestroy(exec).result().unwrap();
        sys::cuGraphDestroy(graph).result().unwrap();
        assert_eq!(sys::cuGraphLaunch(exec, first), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn graphs_are_made_node_by_node_and_changed() {
    start();
    let saxpy = function(load(SAXPY), "saxpy");
    let stream = stream();
    let (x, y, w) = (upload(&[1f32; 4]), upload(&[7f32; 4]), upload(&[5f32; 4]));
    let (mut graph, mut fill, mut kernel) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let (two, four) = (2f32, 4u32);
    let mut params = [two.pointer(), x.pointer(), y.pointer(), four.pointer()];
    let node_params = |params: &mut [*mut std::ffi::c_void; 4]| sys::CUDA_KERNEL_NODE_PARAMS {
        func: saxpy,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: params.as_mut_ptr(),
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    };
    // SAFETY: handles are live, and lists are as long as is said.
    unsafe {
        sys::cuGraphCreate(&mut graph, 0).result().unwrap();
        let zero = sys::CUDA_MEMSET_NODE_PARAMS { dst: y, pitch: 0, value: 0, elementSize: 4, width: 4, height: 1 };
        // The launch is added first and comes second.
        sys::cuGraphAddKernelNode_v2(&mut kernel, graph, std::ptr::null(), 0, &node_params(&mut params))
            .result()
            .unwrap();
        let none = std::ptr::null_mut();
        sys::cuGraphAddMemsetNode(&mut fill, graph, std::ptr::null(), 0, &zero, none).result().unwrap();
        sys::cuGraphAddDependencies(graph, &fill, &kernel, 1).result().unwrap();
        assert_eq!(sys::cuGraphAddDependencies(graph, &kernel, &fill, 1), CUresult::CUDA_ERROR_INVALID_VALUE);
        sys::cuGraphRemoveDependencies(graph, &kernel, &fill, 1).result().unwrap();
        let exec = exec_of(graph);
        sys::cuGraphLaunch(exec, stream).result().unwrap();
        assert_eq!(download::<f32>(y, 4), [2.0; 4]);
        // Another array, in the executable graph alone.
        let mut changed = [two.pointer(), w.pointer(), y.pointer(), four.pointer()];
        sys::cuGraphExecKernelNodeSetParams_v2(exec, kernel, &node_params(&mut changed)).result().unwrap();
        sys::cuGraphLaunch(exec, stream).result().unwrap();
        assert_eq!(download::<f32>(y, 4), [10.0; 4]);
        // As the graph has it again.
        let mut info: sys::CUgraphExecUpdateResultInfo = std::mem::zeroed();
        sys::cuGraphExecUpdate_v2(exec, graph, &mut info).result().unwrap();
        sys::cuGraphNodeSetEnabled(exec, fill, 0).result().unwrap();
        sys::cuGraphLaunch(exec, stream).result().unwrap();
        assert_eq!(download::<f32>(y, 4), [12.0; 4]);
        let mut read: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        sys::cuGraphKernelNodeGetParams_v2(kernel, &mut read).result().unwrap();
        assert_eq!((read.func, **(read.kernelParams.add(1)).cast::<*const u64>()), (saxpy, x));
        let mut other = std::ptr::null_mut();
        sys::cuGraphCreate(&mut other, 0).result().unwrap();
        let refused = sys::cuGraphExecUpdate_v2(exec, other, &mut info);
        assert_eq!(refused, CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        assert_eq!(info.result, sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        let (mut clone, mut twin) = (std::ptr::null_mut(), std::ptr::null_mut());
        sys::cuGraphClone(&mut clone, graph).result().unwrap();
        sys::cuGraphNodeFindInClone(&mut twin, kernel, clone).result().unwrap();
        let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        sys::cuGraphNodeGetType(twin, &mut kind).result().unwrap();
        assert_eq!(kind, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL);
    }
}

#[test]
fn what_cannot_be_captured_ends_the_capture_with_an_error() {
    if !is_child() {
        // In a process of its own, because such a capture forbids allocations to all threads.
        let text = in_child("graphs::what_cannot_be_captured_ends_the_capture_with_an_error", &[]);
        assert!(text.contains("polyloom gpu: cuMemAlloc is called while a stream is captured"), "{text}");
        return;
    }
    start();
    let (first, second) = (stream(), stream());
    let mut graph = std::ptr::null_mut();
    // SAFETY: handles are live.
    unsafe {
        sys::cuStreamBeginCapture_v2(first, GLOBAL).result().unwrap();
        assert_eq!(sys::cuStreamSynchronize(first), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        let ended = sys::cuStreamEndCapture(first, &mut graph);
        assert_eq!((ended, graph.is_null()), (CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, true));
        sys::cuStreamBeginCapture_v2(first, GLOBAL).result().unwrap();
        let mut memory = 0;
        assert_eq!(sys::cuMemAlloc_v2(&mut memory, 64), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        let ended = sys::cuStreamEndCapture(first, &mut graph);
        assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        // A stream that has joined has to be joined again.
        let mut event = std::ptr::null_mut();
        sys::cuEventCreate(&mut event, 2).result().unwrap();
        let memory = upload(&[0u32]);
        sys::cuStreamBeginCapture_v2(first, RELAXED).result().unwrap();
        sys::cuEventRecord(event, first).result().unwrap();
        sys::cuStreamWaitEvent(second, event, 0).result().unwrap();
        sys::cuMemsetD32Async(memory, 1, 1, second).result().unwrap();
        assert_eq!(sys::cuEventSynchronize(event), CUresult::CUDA_ERROR_CAPTURED_EVENT);
        assert_eq!(sys::cuStreamEndCapture(second, &mut graph), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        assert_eq!(sys::cuStreamEndCapture(first, &mut graph), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        assert_eq!(sys::cuStreamEndCapture(first, &mut graph), CUresult::CUDA_ERROR_ILLEGAL_STATE);
        let default = std::ptr::null_mut();
        assert_eq!(sys::cuStreamBeginCapture_v2(default, GLOBAL), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
}

#[test]
fn a_graph_runs_while_a_kernel_says_so() {
    start();
    // Counts, and goes on below five.
    let text = "
        .version 8.0
        .target sm_80
        .address_size 64
        .extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
        .visible .entry count(.param .u64 counter, .param .u64 handle) {
            .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<3>;
            ld.param.u64 %rd1, [counter]; ld.param.u64 %rd2, [handle];
            ld.global.u32 %r1, [%rd1];
            add.u32 %r1, %r1, 1;
            st.global.u32 [%rd1], %r1;
            setp.lt.u32 %p, %r1, 5;
            selp.u32 %r2, 1, 0, %p;
            { .param .b64 p0; .param .b32 p1;
              st.param.b64 [p0], %rd2; st.param.b32 [p1], %r2;
              call cudaGraphSetConditional, (p0, p1); }
            ret;
        }";
    let count = function(load(text), "count");
    let (stream, counter) = (stream(), upload(&[0u32]));
    let (mut graph, mut handle, mut node, mut inner) =
        (std::ptr::null_mut(), 0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: handles are live, and parameters are those of the kernel.
    unsafe {
        sys::cuGraphCreate(&mut graph, 0).result().unwrap();
        sys::cuGraphConditionalHandleCreate(&mut handle, graph, std::ptr::null_mut(), 1, 1).result().unwrap();
        let mut zeroed = std::mem::MaybeUninit::<sys::CUgraphNodeParams>::zeroed();
        let params = &mut *zeroed.as_mut_ptr();
        params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        let conditional = &mut params.__bindgen_anon_1.conditional;
        (conditional.handle, conditional.size) = (handle, 1);
        conditional.type_ = sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        sys::cuGraphAddNode(&mut node, graph, std::ptr::null(), 0, params).result().unwrap();
        let body = *params.__bindgen_anon_1.conditional.phGraph_out;
        let mut values = [counter.pointer(), handle.pointer()];
        let kernel = sys::CUDA_KERNEL_NODE_PARAMS {
            func: count,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: values.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        sys::cuGraphAddKernelNode_v2(&mut inner, body, std::ptr::null(), 0, &kernel).result().unwrap();
        let exec = exec_of(graph);
        sys::cuGraphLaunch(exec, stream).result().unwrap();
        assert_eq!(download::<u32>(counter, 1), [5]);
        // The value is set anew at each launch, so that the body runs once more.
        sys::cuGraphLaunch(exec, stream).result().unwrap();
        assert_eq!(download::<u32>(counter, 1), [6]);
    }
}

static ENDED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

unsafe extern "C" fn end(data: *mut std::ffi::c_void) {
    ENDED.fetch_add(data.addr() as u32, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn what_a_graph_refers_to_lives_as_long_as_what_is_made_of_it() {
    start();
    let ended = || ENDED.load(std::sync::atomic::Ordering::Relaxed);
    let (mut graph, mut object) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the function takes a number as its pointer.
    unsafe {
        sys::cuGraphCreate(&mut graph, 0).result().unwrap();
        let data = std::ptr::without_provenance_mut(3);
        sys::cuUserObjectCreate(&mut object, data, Some(end), 1, 1).result().unwrap();
        // The graph takes the program's only reference over.
        sys::cuGraphRetainUserObject(graph, object, 1, 1).result().unwrap();
        assert_eq!(sys::cuUserObjectRelease(object, 1), CUresult::CUDA_ERROR_INVALID_HANDLE);
        let exec = exec_of(graph);
        sys::cuGraphDestroy(graph).result().unwrap();
        assert_eq!(ended(), 0);
        sys::cuGraphExecDestroy(exec).result().unwrap();
        assert_eq!(ended(), 3);
    }
}
