//! Graphs.

use super::entry_points;
use crate::abi::{
    AllocNodeParams, Copy3D, DeviceAddress, EdgeData, Handle, HostNodeParams, InstantiateParams, KernelNodeParams,
    KernelNodeParamsV1, MemsetNodeParams, NodeParams, UpdateResult, node_kind,
};
use crate::context;
use crate::driver::Driver;
use crate::graph::{Conditional, ConditionalKind, Graph, GraphExec, Node, UserObject};
use crate::launch::{Launch, ShownParams};
use crate::memory::{BlockKind, CopyPlace};
use crate::pointers::{HostCall, In, Out};
use crate::registry::new_handle;
use crate::status::{CudaError, Outcome};
use crate::stream::Stream;
use crate::work::{CopyWork, FillWork, Work};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Nodes that a new one comes after.
#[derive(Clone, Copy)]
struct Before(In<Handle>, usize);

fn add(out: Out<Handle>, graph: Handle, before: Before, work: Work) -> Outcome {
    let node = crate::graph::GRAPHS.get(graph)?.add(work, before.0.list(before.1)?)?;
    out.set(node.handle)
}

fn launch_of(params: &KernelNodeParams) -> Outcome<Work> {
    let handle = if params.function == 0 { params.kernel } else { params.function };
    let function = crate::module::FUNCTIONS.get(handle)?;
    let values = Launch::read_params(&function, params.params, params.extra)?;
    let KernelNodeParams { grid, block, shared_bytes, .. } = *params;
    Ok(Work::Launch(Launch { function, grid, block, shared_bytes, cooperative: false, cluster: None, params: values }))
}

fn of_v1(params: KernelNodeParamsV1) -> KernelNodeParams {
    let KernelNodeParamsV1 { function, grid, block, shared_bytes, params, extra } = params;
    KernelNodeParams { function, grid, block, shared_bytes, params, extra, kernel: 0, context: 0 }
}

/// A kernel node's parameters as callers read them.
fn shown(node: &Node) -> Outcome<KernelNodeParams> {
    let Work::Launch(launch) = node.work().clone() else { return Err(CudaError::INVALID_VALUE) };
    let params = node.show(ShownParams::new(&launch.params));
    let Launch { function, grid, block, shared_bytes, .. } = launch;
    let (function, context) = (function.handle, function.image.context);
    Ok(KernelNodeParams { function, grid, block, shared_bytes, params, extra: 0, kernel: 0, context })
}

fn copy_of(driver: &Driver, params: In<Copy3D>) -> Outcome<Work> {
    Ok(Work::Copy(CopyWork::of_3d(driver, &params.get()?)?))
}

fn fill_of(params: &MemsetNodeParams) -> Work {
    let MemsetNodeParams { address, pitch, value, element_bytes, width, height } = *params;
    Work::Fill(FillWork { address, pitch, value, element_bytes, width, height })
}

fn host_of(params: &HostNodeParams) -> Outcome<Work> {
    let function = params.function.ok_or(CudaError::INVALID_VALUE)?;
    Ok(Work::Host(HostCall { function, data: params.data }))
}

fn child_of(graph: Handle) -> Outcome<Work> {
    Ok(Work::Child(Arc::new(crate::graph::GRAPHS.get(graph)?.work()?)))
}

/// Replaces work by other work of its kind.
fn replace(old: &mut Work, new: Work) -> Outcome {
    if std::mem::discriminant(old) != std::mem::discriminant(&new) {
        return Err(CudaError::INVALID_VALUE);
    }
    *old = new;
    Ok(())
}

fn set_in_exec(exec: Handle, node: Handle, new: Work) -> Outcome {
    crate::graph::EXECS.get(exec)?.change(node, |old| replace(old, new))
}

fn set_in_node(node: Handle, new: Work) -> Outcome {
    replace(&mut crate::graph::NODES.get(node)?.work(), new)
}

/// Writes a list for callers that ask for its length first.
fn write_list(all: &[Handle], list: Out<Handle>, n: Out<usize>) -> Outcome {
    if list.is_null() {
        return n.set(all.len());
    }
    let kept = all.len().min(n.get()?);
    n.set(kept)?;
    list.set_all(&all[..kept])
}

fn dependencies(node: Handle, list: Out<Handle>, n: Out<usize>) -> Outcome {
    let nodes = crate::graph::NODES.get(node)?.dependencies().clone();
    write_list(&nodes, list, n)
}

fn dependents(node: Handle, list: Out<Handle>, n: Out<usize>) -> Outcome {
    let graph = crate::graph::GRAPHS.get(crate::graph::NODES.get(node)?.graph)?;
    let nodes = graph.nodes().into_iter().filter(|each| each.dependencies().contains(&node));
    write_list(&nodes.map(|each| each.handle).collect::<Vec<_>>(), list, n)
}

fn edges(graph: Handle, from: Out<Handle>, to: Out<Handle>, n: Out<usize>) -> Outcome {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for node in crate::graph::GRAPHS.get(graph)?.nodes() {
        for before in node.dependencies().iter() {
            sources.push(*before);
            targets.push(node.handle);
        }
    }
    if from.is_null() {
        return n.set(sources.len());
    }
    let kept = sources.len().min(n.get()?);
    n.set(kept)?;
    from.set_all(&sources[..kept])?;
    to.set_all(&targets[..kept])
}

fn change_edges(
    graph: Handle,
    (from, to, n): (In<Handle>, In<Handle>, usize),
    change: impl Fn(&mut Vec<Handle>, Handle),
) -> Outcome {
    let graph = crate::graph::GRAPHS.get(graph)?;
    for (from, to) in from.list(n)?.into_iter().zip(to.list(n)?) {
        let node = crate::graph::NODES.get(to).ok().filter(|node| node.graph == graph.handle);
        change(&mut node.ok_or(CudaError::INVALID_VALUE)?.dependencies(), from);
    }
    graph.in_order().map(|_| ())
}

fn connect(before: &mut Vec<Handle>, node: Handle) {
    if !before.contains(&node) {
        before.push(node);
    }
}

fn disconnect(before: &mut Vec<Handle>, node: Handle) {
    before.retain(|each| *each != node);
}

fn instantiate(out: Out<Handle>, graph: Handle, flags: u64) -> Outcome {
    out.set(GraphExec::create(&*crate::graph::GRAPHS.get(graph)?, flags)?.handle)
}

fn update(exec: Handle, graph: Handle) -> Outcome<UpdateResult> {
    let done = crate::graph::EXECS.get(exec)?.update(&*crate::graph::GRAPHS.get(graph)?);
    Ok(match done {
        Ok(()) => UpdateResult { result: 0, error_node: 0, error_from_node: 0 },
        Err(refusal) => UpdateResult { result: refusal.result, error_node: refusal.node, error_from_node: 0 },
    })
}

/// Values of conditional nodes that do not begin at what they were: address and value.
static DEFAULTS: Mutex<Vec<(DeviceAddress, u32)>> = Mutex::new(Vec::new());

/// Reads the struct that the body of a node's parameters is.
fn body<T: Copy>(params: &NodeParams) -> Outcome<T> {
    In::<T>::at(params.body.as_ptr().expose_provenance()).get()
}

/// Work of a node that is described by kind; writes to `out` what the description gets back.
fn described(driver: &Driver, params: &NodeParams, out: Out<NodeParams>) -> Outcome<Work> {
    let mut back = *params;
    let work = match params.kind {
        node_kind::KERNEL => launch_of(&body(params)?)?,
        node_kind::MEMCPY => {
            // Before the copy there are flags, and whose it is.
            let copy = In::<Copy3D>::at(params.body.as_ptr().expose_provenance() + 16);
            copy_of(driver, copy)?
        }
        node_kind::MEMSET => fill_of(&body(params)?),
        node_kind::HOST => host_of(&body(params)?)?,
        node_kind::GRAPH => child_of(body::<Handle>(params)?)?,
        node_kind::EMPTY => Work::Nothing,
        node_kind::EVENT_RECORD => Work::Record(crate::event::EVENTS.get(body(params)?)?),
        node_kind::WAIT_EVENT => Work::Wait(crate::event::EVENTS.get(body(params)?)?),
        node_kind::MEM_FREE => Work::Free(body(params)?),
        node_kind::CONDITIONAL => {
            let conditional = conditional_of(params)?;
            let graphs: Box<[Handle]> = conditional.bodies.iter().map(|graph| graph.handle).collect();
            // Callers read the list for as long as the graphs live.
            back.body[2] = Box::leak(graphs).as_ptr().expose_provenance() as u64;
            Work::Conditional(Arc::new(conditional))
        }
        _ => return Err(CudaError::NOT_SUPPORTED),
    };
    out.set(back)?;
    Ok(work)
}

fn conditional_of(params: &NodeParams) -> Outcome<Conditional> {
    let value: DeviceAddress = params.body[0];
    let (kind, size) = (params.body[1] as u32, (params.body[1] >> 32) as usize);
    let kind = match (kind, size) {
        (0, 1..=2) => ConditionalKind::If,
        (1, 1) => ConditionalKind::While,
        (2, 1..=1024) => ConditionalKind::Switch,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    let default = defaults.iter().find(|(address, _)| *address == value).map(|(_, default)| *default);
    let bodies = (0..size).map(|_| Graph::create()).collect();
    Ok(Conditional { value, default, kind, bodies })
}

/// Takes references of the program's own away, and lets go of an object that has none left.
fn release(object: Handle, count: c_uint) -> Outcome {
    let found = crate::graph::OBJECTS.get(object)?;
    let mut references = found.own_references.lock().unwrap_or_else(PoisonError::into_inner);
    *references = references.checked_sub(count.into()).ok_or(CudaError::INVALID_VALUE)?;
    let is_last = *references == 0;
    drop(references);
    if is_last { crate::graph::OBJECTS.remove(object).map(|_| ()) } else { Ok(()) }
}

fn owner() -> Handle {
    context::current().map_or(0, |context| context.handle)
}

entry_points! { GRAPH:
    fn cuGraphCreate(out: Out<Handle>, _flags: c_uint) [_driver] {
        out.set(Graph::create().handle)
    }

    fn cuGraphDestroy(graph: Handle) [_driver] {
        Graph::destroy(graph)
    }

    fn cuGraphClone(out: Out<Handle>, graph: Handle) [_driver] {
        out.set(crate::graph::GRAPHS.get(graph)?.duplicate()?.handle)
    }

    fn cuGraphNodeFindInClone(out: Out<Handle>, original: Handle, clone: Handle) [_driver] {
        let nodes = crate::graph::GRAPHS.get(clone)?.nodes();
        let found = nodes.iter().find(|node| node.original == Some(original)).ok_or(CudaError::INVALID_VALUE)?;
        out.set(found.handle)
    }

    fn cuGraphAddKernelNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: In<KernelNodeParamsV1>,
    ) [_driver] {
        let work = launch_of(&of_v1(params.get()?))?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddKernelNode_v2(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: In<KernelNodeParams>,
    ) [_driver] {
        let work = launch_of(&params.get()?)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddMemcpyNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: In<Copy3D>,
        _context: Handle,
    ) [driver] {
        let work = copy_of(driver, params)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddMemsetNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: In<MemsetNodeParams>,
        _context: Handle,
    ) [_driver] {
        let work = fill_of(&params.get()?);
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddHostNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: In<HostNodeParams>,
    ) [_driver] {
        let work = host_of(&params.get()?)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddChildGraphNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        child: Handle,
    ) [_driver] {
        let work = child_of(child)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddEmptyNode(out: Out<Handle>, graph: Handle, before: In<Handle>, n: usize) [_driver] {
        add(out, graph, Before(before, n), Work::Nothing)
    }

    fn cuGraphAddEventRecordNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        event: Handle,
    ) [_driver] {
        let work = Work::Record(crate::event::EVENTS.get(event)?);
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddEventWaitNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        event: Handle,
    ) [_driver] {
        let work = Work::Wait(crate::event::EVENTS.get(event)?);
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddMemAllocNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: Out<AllocNodeParams>,
    ) [driver] {
        let mut given = params.get()?;
        given.address = driver.memory.alloc(owner(), given.n_bytes, BlockKind::Device)?;
        params.set(given)?;
        add(out, graph, Before(before, n), Work::Alloc(given.address, given.n_bytes))
    }

    fn cuGraphAddMemFreeNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        address: DeviceAddress,
    ) [driver] {
        driver.memory.block_at(address).ok_or(CudaError::INVALID_VALUE)?;
        add(out, graph, Before(before, n), Work::Free(address))
    }

    fn cuGraphAddNode(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        n: usize,
        params: Out<NodeParams>,
    ) [driver] {
        let work = described(driver, &params.get()?, params)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphAddNode_v2(
        out: Out<Handle>,
        graph: Handle,
        before: In<Handle>,
        _edges: In<EdgeData>,
        n: usize,
        params: Out<NodeParams>,
    ) [driver] {
        let work = described(driver, &params.get()?, params)?;
        add(out, graph, Before(before, n), work)
    }

    fn cuGraphConditionalHandleCreate(
        out: Out<u64>,
        graph: Handle,
        _context: Handle,
        default: c_uint,
        flags: c_uint,
    ) [driver] {
        crate::graph::GRAPHS.get(graph)?;
        // Kernels write the value there: the handle is its address.
        let address = driver.memory.alloc(owner(), 8, BlockKind::Device)?;
        let bytes = default.to_le_bytes();
        let from = CopyPlace::Host(bytes.as_ptr().expose_provenance());
        driver.memory.copy(driver, CopyPlace::Device(address), from, bytes.len())?;
        if flags == 1 {
            DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner).push((address, default));
        }
        out.set(address)
    }

    fn cuGraphDestroyNode(node: Handle) [_driver] {
        let graph = crate::graph::GRAPHS.get(crate::graph::NODES.get(node)?.graph)?;
        graph.remove(node)
    }

    fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, n: Out<usize>) [_driver] {
        let all: Vec<Handle> = crate::graph::GRAPHS.get(graph)?.nodes().iter().map(|node| node.handle).collect();
        write_list(&all, nodes, n)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, n: Out<usize>) [_driver] {
        let all = crate::graph::GRAPHS.get(graph)?.nodes();
        let roots = all.iter().filter(|node| node.dependencies().is_empty());
        write_list(&roots.map(|node| node.handle).collect::<Vec<_>>(), nodes, n)
    }

    fn cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, n: Out<usize>) [_driver] {
        edges(graph, from, to, n)
    }

    fn cuGraphGetEdges_v2(
        graph: Handle,
        from: Out<Handle>,
        to: Out<Handle>,
        _data: Out<EdgeData>,
        n: Out<usize>,
    ) [_driver] {
        edges(graph, from, to, n)
    }

    fn cuGraphAddDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, n: usize) [_driver] {
        change_edges(graph, (from, to, n), connect)
    }

    fn cuGraphAddDependencies_v2(
        graph: Handle,
        from: In<Handle>,
        to: In<Handle>,
        _data: In<EdgeData>,
        n: usize,
    ) [_driver] {
        change_edges(graph, (from, to, n), connect)
    }

    fn cuGraphRemoveDependencies(graph: Handle, from: In<Handle>, to: In<Handle>, n: usize) [_driver] {
        change_edges(graph, (from, to, n), disconnect)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: Handle,
        from: In<Handle>,
        to: In<Handle>,
        _data: In<EdgeData>,
        n: usize,
    ) [_driver] {
        change_edges(graph, (from, to, n), disconnect)
    }

    fn cuGraphNodeGetType(node: Handle, kind: Out<c_uint>) [_driver] {
        kind.set(crate::graph::NODES.get(node)?.kind())
    }

    fn cuGraphNodeGetContainingGraph(node: Handle, graph: Out<Handle>) [_driver] {
        graph.set(crate::graph::NODES.get(node)?.graph)
    }

    fn cuGraphNodeGetDependencies(node: Handle, nodes: Out<Handle>, n: Out<usize>) [_driver] {
        dependencies(node, nodes, n)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: Handle,
        nodes: Out<Handle>,
        _data: Out<EdgeData>,
        n: Out<usize>,
    ) [_driver] {
        dependencies(node, nodes, n)
    }

    fn cuGraphNodeGetDependentNodes(node: Handle, nodes: Out<Handle>, n: Out<usize>) [_driver] {
        dependents(node, nodes, n)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: Handle,
        nodes: Out<Handle>,
        _data: Out<EdgeData>,
        n: Out<usize>,
    ) [_driver] {
        dependents(node, nodes, n)
    }

    fn cuGraphKernelNodeGetParams(node: Handle, params: Out<KernelNodeParamsV1>) [_driver] {
        let KernelNodeParams { function, grid, block, shared_bytes, params: values, extra, .. } =
            shown(&*crate::graph::NODES.get(node)?)?;
        params.set(KernelNodeParamsV1 { function, grid, block, shared_bytes, params: values, extra })
    }

    fn cuGraphKernelNodeGetParams_v2(node: Handle, params: Out<KernelNodeParams>) [_driver] {
        params.set(shown(&*crate::graph::NODES.get(node)?)?)
    }

    fn cuGraphKernelNodeSetParams(node: Handle, params: In<KernelNodeParamsV1>) [_driver] {
        set_in_node(node, launch_of(&of_v1(params.get()?))?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: In<KernelNodeParams>) [_driver] {
        set_in_node(node, launch_of(&params.get()?)?)
    }

    fn cuGraphKernelNodeCopyAttributes(to: Handle, from: Handle) [_driver] {
        crate::graph::NODES.get(to)?;
        crate::graph::NODES.get(from).map(|_| ())
    }

    fn cuGraphKernelNodeGetAttribute(node: Handle, _number: c_uint, value: Out<[u64; 8]>) [_driver] {
        crate::graph::NODES.get(node)?;
        value.set([0; 8])
    }

    fn cuGraphKernelNodeSetAttribute(node: Handle, _number: c_uint, _value: In<[u64; 8]>) [_driver] {
        crate::graph::NODES.get(node).map(|_| ())
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, params: In<Copy3D>) [driver] {
        set_in_node(node, copy_of(driver, params)?)
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, params: In<MemsetNodeParams>) [_driver] {
        set_in_node(node, fill_of(&params.get()?))
    }

    fn cuGraphMemsetNodeGetParams(node: Handle, params: Out<MemsetNodeParams>) [_driver] {
        let Work::Fill(fill) = crate::graph::NODES.get(node)?.work().clone() else { return Err(CudaError::INVALID_VALUE) };
        let FillWork { address, pitch, value, element_bytes, width, height } = fill;
        params.set(MemsetNodeParams { address, pitch, value, element_bytes, width, height })
    }

    fn cuGraphHostNodeSetParams(node: Handle, params: In<HostNodeParams>) [_driver] {
        set_in_node(node, host_of(&params.get()?)?)
    }

    fn cuGraphMemAllocNodeGetParams(node: Handle, params: Out<AllocNodeParams>) [_driver] {
        let Work::Alloc(address, n_bytes) = *crate::graph::NODES.get(node)?.work() else {
            return Err(CudaError::INVALID_VALUE);
        };
        params.set(AllocNodeParams::of_device(address, n_bytes))
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<DeviceAddress>) [_driver] {
        let Work::Free(freed) = *crate::graph::NODES.get(node)?.work() else { return Err(CudaError::INVALID_VALUE) };
        address.set(freed)
    }

    fn cuGraphInstantiateWithFlags(out: Out<Handle>, graph: Handle, flags: u64) [_driver] {
        instantiate(out, graph, flags)
    }

    fn cuGraphInstantiate_v2(
        out: Out<Handle>,
        graph: Handle,
        error_node: Out<Handle>,
        _log: Out<c_char>,
        _room: usize,
    ) [_driver] also "cuGraphInstantiate" {
        error_node.set_if_wanted(0);
        instantiate(out, graph, 0)
    }

    fn cuGraphInstantiateWithParams(
        out: Out<Handle>,
        graph: Handle,
        params: Out<InstantiateParams>,
    ) [_driver] and "_ptsz" {
        let given = params.get()?;
        let made = instantiate(out, graph, given.flags);
        params.set(InstantiateParams { error_node: 0, result: c_uint::from(made.is_err()), ..given })?;
        made
    }

    fn cuGraphUpload(exec: Handle, stream: Handle) [_driver, context] and "_ptsz" {
        Stream::of(&context, stream)?;
        crate::graph::EXECS.get(exec).map(|_| ())
    }

    fn cuGraphLaunch(exec: Handle, stream: Handle) [driver, context] and "_ptsz" {
        let (exec, stream) = (crate::graph::EXECS.get(exec)?, Stream::of(&context, stream)?);
        if stream.capture().is_some() {
            let steps = exec.steps().clone();
            let enabled = steps.into_iter().filter(|step| step.is_enabled).map(|step| step.work);
            return stream.submit(driver, Work::Child(Arc::new(enabled.collect())));
        }
        stream.run(driver, || exec.run(driver))
    }

    fn cuGraphExecDestroy(exec: Handle) [_driver] {
        crate::graph::EXECS.remove(exec).map(|_| ())
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: Out<u64>) [_driver] {
        flags.set(crate::graph::EXECS.get(exec)?.flags)
    }

    fn cuGraphExecUpdate(exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<c_uint>) [_driver] {
        let done = update(exec, graph)?;
        error_node.set_if_wanted(done.error_node);
        result.set_if_wanted(done.result);
        if done.result == 0 { Ok(()) } else { Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, result: Out<UpdateResult>) [_driver] {
        let done = update(exec, graph)?;
        result.set_if_wanted(done);
        if done.result == 0 { Ok(()) } else { Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn cuGraphExecKernelNodeSetParams(exec: Handle, node: Handle, params: In<KernelNodeParamsV1>) [_driver] {
        set_in_exec(exec, node, launch_of(&of_v1(params.get()?))?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: In<KernelNodeParams>) [_driver] {
        set_in_exec(exec, node, launch_of(&params.get()?)?)
    }

    fn cuGraphExecMemcpyNodeSetParams(exec: Handle, node: Handle, params: In<Copy3D>, _context: Handle) [driver] {
        set_in_exec(exec, node, copy_of(driver, params)?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: Handle,
        node: Handle,
        params: In<MemsetNodeParams>,
        _context: Handle,
    ) [_driver] {
        set_in_exec(exec, node, fill_of(&params.get()?))
    }

    fn cuGraphExecHostNodeSetParams(exec: Handle, node: Handle, params: In<HostNodeParams>) [_driver] {
        set_in_exec(exec, node, host_of(&params.get()?)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: Handle, node: Handle, child: Handle) [_driver] {
        set_in_exec(exec, node, child_of(child)?)
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) [_driver] {
        set_in_exec(exec, node, Work::Record(crate::event::EVENTS.get(event)?))
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) [_driver] {
        set_in_exec(exec, node, Work::Wait(crate::event::EVENTS.get(event)?))
    }

    fn cuGraphNodeSetEnabled(exec: Handle, node: Handle, enabled: c_uint) [_driver] {
        let exec = crate::graph::EXECS.get(exec)?;
        let mut steps = exec.steps();
        let step = steps.iter_mut().find(|step| step.node == node).ok_or(CudaError::INVALID_VALUE)?;
        step.is_enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: Out<c_uint>) [_driver] {
        let exec = crate::graph::EXECS.get(exec)?;
        let steps = exec.steps();
        let step = steps.iter().find(|step| step.node == node).ok_or(CudaError::INVALID_VALUE)?;
        enabled.set(c_uint::from(step.is_enabled))
    }

    fn cuUserObjectCreate(
        out: Out<Handle>,
        data: usize,
        end: Option<extern "C" fn(*mut c_void)>,
        count: c_uint,
        _flags: c_uint,
    ) [_driver] {
        let function = end.filter(|_| count > 0).ok_or(CudaError::INVALID_VALUE)?;
        let handle = new_handle();
        crate::graph::OBJECTS.insert(handle, UserObject::new(HostCall { function, data }, count.into()));
        out.set(handle)
    }

    fn cuUserObjectRetain(object: Handle, count: c_uint) [_driver] {
        let found = crate::graph::OBJECTS.get(object)?;
        *found.own_references.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(count);
        Ok(())
    }

    fn cuUserObjectRelease(object: Handle, count: c_uint) [_driver] {
        release(object, count)
    }

    fn cuGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) [_driver] {
        let (graph, found) = (crate::graph::GRAPHS.get(graph)?, crate::graph::OBJECTS.get(object)?);
        graph.objects().extend((0..count).map(|_| Arc::clone(&found)));
        // The graph takes the program's own references over.
        if flags == 1 { release(object, count) } else { Ok(()) }
    }

    fn cuGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint) [_driver] {
        let (graph, found) = (crate::graph::GRAPHS.get(graph)?, crate::graph::OBJECTS.get(object)?);
        for _ in 0..count {
            let mut objects = graph.objects();
            let index = objects.iter().position(|each| Arc::ptr_eq(each, &found)).ok_or(CudaError::INVALID_VALUE)?;
            objects.remove(index);
        }
        Ok(())
    }

    fn cuDeviceGraphMemTrim(_device: c_int) [_driver] {
        Ok(())
    }
}
