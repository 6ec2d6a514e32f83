//! Graphs: work with dependences, made by captures or node by node, and their executable form.

use crate::abi::{DeviceAddress, Handle, node_kind};
use crate::driver::Driver;
use crate::launch::ShownParams;
use crate::pointers::HostCall;
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use crate::work::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) handle: Handle,
    nodes: Mutex<Vec<Arc<Node>>>,
    /// Holds what has to live as long as it does, and as long as what is made of it.
    objects: Mutex<Vec<Arc<UserObject>>>,
}

/// Something of the program's that graphs refer to: a call of the program's ends it when nobody does any more.
pub(crate) struct UserObject {
    end: HostCall,
    /// References that the program itself has.
    pub(crate) own_references: Mutex<u64>,
}

impl UserObject {
    pub(crate) fn new(end: HostCall, references: u64) -> UserObject {
        UserObject { end, own_references: Mutex::new(references) }
    }
}

impl Drop for UserObject {
    fn drop(&mut self) {
        self.end.run();
    }
}

/// A node of a graph.
pub(crate) struct Node {
    pub(crate) handle: Handle,
    pub(crate) graph: Handle,
    /// The node that it is a copy of, if its graph is a clone.
    pub(crate) original: Option<Handle>,
    work: Mutex<Work>,
    dependencies: Mutex<Vec<Handle>>,
    shown: Mutex<Vec<ShownParams>>,
}

/// All graphs, their nodes, what is made of graphs to be launched, and what graphs refer to.
pub(crate) static GRAPHS: Registry<Graph> = Registry::new();
pub(crate) static NODES: Registry<Node> = Registry::new();
pub(crate) static EXECS: Registry<GraphExec> = Registry::new();
pub(crate) static OBJECTS: Registry<UserObject> = Registry::new();

/// Graphs that run if, or while, or for as much as a value says.
pub(crate) struct Conditional {
    /// The address of the value on the device, which kernels set.
    pub(crate) value: DeviceAddress,
    /// The value at each launch of the graph, if it is set anew.
    pub(crate) default: Option<u32>,
    pub(crate) kind: ConditionalKind,
    pub(crate) bodies: Vec<Arc<Graph>>,
}

/// Says what a conditional node does with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConditionalKind {
    If,
    While,
    Switch,
}

impl Node {
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        locked(&self.work)
    }

    pub(crate) fn dependencies(&self) -> MutexGuard<'_, Vec<Handle>> {
        locked(&self.dependencies)
    }

    /// Keeps parameters that a caller is shown for as long as the node lives.
    pub(crate) fn show(&self, params: ShownParams) -> usize {
        let address = params.address();
        locked(&self.shown).push(params);
        address
    }

    /// The number that the driver API has for its kind.
    pub(crate) fn kind(&self) -> u32 {
        match &*self.work() {
            Work::Launch(_) => node_kind::KERNEL,
            Work::Copy(_) => node_kind::MEMCPY,
            Work::Fill(_) => node_kind::MEMSET,
            Work::Host(_) => node_kind::HOST,
            Work::Nothing => node_kind::EMPTY,
            Work::Record(_) => node_kind::EVENT_RECORD,
            Work::Wait(_) => node_kind::WAIT_EVENT,
            Work::Child(_) => node_kind::GRAPH,
            Work::Alloc(..) => node_kind::MEM_ALLOC,
            Work::Free(_) => node_kind::MEM_FREE,
            Work::Conditional(_) => node_kind::CONDITIONAL,
        }
    }
}

impl Graph {
    /// Makes an empty one.
    pub(crate) fn create() -> Arc<Graph> {
        let handle = new_handle();
        crate::graph::GRAPHS.insert(handle, Graph { handle, nodes: Mutex::default(), objects: Mutex::default() })
    }

    /// Holds what it keeps alive.
    pub(crate) fn objects(&self) -> MutexGuard<'_, Vec<Arc<UserObject>>> {
        locked(&self.objects)
    }

    /// Its nodes, in the order in which they were added.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        locked(&self.nodes).clone()
    }

    /// Adds a node that comes after others of the graph.
    pub(crate) fn add(&self, work: Work, dependencies: Vec<Handle>) -> Outcome<Arc<Node>> {
        self.add_copy(work, dependencies, None)
    }

    fn add_copy(&self, work: Work, dependencies: Vec<Handle>, original: Option<Handle>) -> Outcome<Arc<Node>> {
        let mut nodes = locked(&self.nodes);
        let is_known = |handle: &Handle| nodes.iter().any(|node| node.handle == *handle);
        if !dependencies.iter().all(is_known) {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = new_handle();
        let node = Node {
            handle,
            graph: self.handle,
            original,
            work: Mutex::new(work),
            dependencies: Mutex::new(dependencies),
            shown: Mutex::default(),
        };
        let node = crate::graph::NODES.insert(handle, node);
        nodes.push(Arc::clone(&node));
        Ok(node)
    }

    /// Takes a node out, with the edges from and to it.
    pub(crate) fn remove(&self, node: Handle) -> Outcome {
        let mut nodes = locked(&self.nodes);
        nodes.retain(|each| each.handle != node);
        nodes.iter().for_each(|each| each.dependencies().retain(|handle| *handle != node));
        crate::graph::NODES.remove(node).map(|_| ())
    }

    /// These nodes and all that come before them.
    pub(crate) fn all_before(&self, nodes: &[Handle]) -> BTreeSet<Handle> {
        let mut found = BTreeSet::new();
        let mut left = nodes.to_vec();
        while let Some(handle) = left.pop() {
            if found.insert(handle)
                && let Ok(node) = crate::graph::NODES.get(handle)
            {
                left.extend(node.dependencies().iter());
            }
        }
        found
    }

    /// Its nodes in an order in which each comes after those that it depends on; of several, the first that was added.
    pub(crate) fn in_order(&self) -> Outcome<Vec<Arc<Node>>> {
        let mut left = self.nodes();
        let mut done = BTreeSet::new();
        let mut ordered = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let is_ready = |node: &Arc<Node>| node.dependencies().iter().all(|handle| done.contains(handle));
            // Nodes that wait for each other have no order.
            let next = left.iter().position(is_ready).ok_or(CudaError::INVALID_VALUE)?;
            let node = left.remove(next);
            done.insert(node.handle);
            ordered.push(node);
        }
        Ok(ordered)
    }

    /// Its work, in order.
    pub(crate) fn work(&self) -> Outcome<Vec<Work>> {
        Ok(self.in_order()?.iter().map(|node| node.work().clone()).collect())
    }

    /// A copy of it.
    pub(crate) fn duplicate(&self) -> Outcome<Arc<Graph>> {
        let copy = Graph::create();
        copy.objects().clone_from(&self.objects());
        let mut copies = BTreeMap::new();
        for node in self.in_order()? {
            let dependencies = node.dependencies().iter().filter_map(|handle| copies.get(handle).copied()).collect();
            let work = node.work().clone();
            copies.insert(node.handle, copy.add_copy(work, dependencies, Some(node.handle))?.handle);
        }
        Ok(copy)
    }

    /// Ends it and its nodes.
    pub(crate) fn destroy(handle: Handle) -> Outcome {
        let graph = crate::graph::GRAPHS.remove(handle)?;
        for node in graph.nodes() {
            // A node may have been taken out already.
            let _ = crate::graph::NODES.remove(node.handle);
        }
        Ok(())
    }
}

impl Conditional {
    /// Runs what the value says.
    pub(crate) fn run(&self, driver: &Driver) -> Outcome {
        let value = || {
            let mut bytes = [0; 4];
            let read = driver.memory.device.read(self.value, &mut bytes);
            read.map(|()| u32::from_le_bytes(bytes)).map_err(|_| CudaError::ILLEGAL_ADDRESS)
        };
        let run = |index: usize| match self.bodies.get(index) {
            Some(body) => body.work()?.iter().try_for_each(|work| work.run(driver)),
            None => Ok(()),
        };
        match self.kind {
            ConditionalKind::If if value()? != 0 => run(0),
            ConditionalKind::If => run(1),
            ConditionalKind::While => {
                while value()? != 0 {
                    run(0)?;
                }
                Ok(())
            }
            ConditionalKind::Switch => run(value()? as usize),
        }
    }

    /// Sets the value to what it is when a launch begins.
    pub(crate) fn reset(&self, driver: &Driver) -> Outcome {
        let Some(default) = self.default else { return Ok(()) };
        driver.memory.device.write(self.value, &default.to_le_bytes()).map_err(|_| CudaError::ILLEGAL_ADDRESS)
    }
}

/// A graph that can be launched: its work in order, of which parameters may be changed.
pub(crate) struct GraphExec {
    pub(crate) handle: Handle,
    pub(crate) flags: u64,
    steps: Mutex<Vec<GraphStep>>,
    /// Kept alive for its steps.
    objects: Mutex<Vec<Arc<UserObject>>>,
}

/// A step of an executable graph.
#[derive(Clone)]
pub(crate) struct GraphStep {
    /// The node that it was made of.
    pub(crate) node: Handle,
    pub(crate) work: Work,
    pub(crate) is_enabled: bool,
    /// The steps before it, by index.
    before: Vec<usize>,
}

/// Says why an executable graph cannot be made like a graph (`CUgraphExecUpdateResult`).
pub(crate) struct UpdateRefusal {
    pub(crate) result: u32,
    pub(crate) node: Handle,
}

impl GraphExec {
    pub(crate) fn create(graph: &Graph, flags: u64) -> Outcome<Arc<GraphExec>> {
        let handle = new_handle();
        let steps = Mutex::new(steps(graph)?);
        let objects = Mutex::new(graph.objects().clone());
        Ok(crate::graph::EXECS.insert(handle, GraphExec { handle, flags, steps, objects }))
    }

    pub(crate) fn steps(&self) -> MutexGuard<'_, Vec<GraphStep>> {
        locked(&self.steps)
    }

    /// Changes the work of a step that is of the same kind.
    pub(crate) fn change(&self, node: Handle, change: impl FnOnce(&mut Work) -> Outcome) -> Outcome {
        let mut steps = self.steps();
        let step = steps.iter_mut().find(|step| step.node == node).ok_or(CudaError::INVALID_VALUE)?;
        change(&mut step.work)
    }

    /// Takes the parameters of a graph of the same shape.
    pub(crate) fn update(&self, graph: &Graph) -> Result<(), UpdateRefusal> {
        const ERROR: u32 = 1;
        const TOPOLOGY_CHANGED: u32 = 2;
        const KIND_CHANGED: u32 = 3;
        let refused = |result: u32, node: Handle| UpdateRefusal { result, node };
        let new = steps(graph).map_err(|_| refused(ERROR, 0))?;
        let mut own = self.steps();
        if own.len() != new.len() {
            return Err(refused(TOPOLOGY_CHANGED, 0));
        }
        for (old, new) in own.iter().zip(&new) {
            if std::mem::discriminant(&old.work) != std::mem::discriminant(&new.work) {
                return Err(refused(KIND_CHANGED, new.node));
            }
            if old.before != new.before {
                return Err(refused(TOPOLOGY_CHANGED, new.node));
            }
        }
        for (old, new) in own.iter_mut().zip(new) {
            old.work = new.work;
        }
        locked(&self.objects).clone_from(&graph.objects());
        Ok(())
    }

    /// Runs it once.
    pub(crate) fn run(&self, driver: &Driver) -> Outcome {
        let steps = self.steps().clone();
        for step in &steps {
            if let Work::Conditional(conditional) = &step.work {
                conditional.reset(driver)?;
            }
        }
        steps.iter().filter(|step| step.is_enabled).try_for_each(|step| step.work.run(driver))
    }
}

fn steps(graph: &Graph) -> Outcome<Vec<GraphStep>> {
    let ordered = graph.in_order()?;
    let step = |node: &Arc<Node>| {
        let mut before: Vec<usize> = node
            .dependencies()
            .iter()
            .filter_map(|handle| ordered.iter().position(|each| each.handle == *handle))
            .collect();
        before.sort_unstable();
        GraphStep { node: node.handle, work: node.work().clone(), is_enabled: true, before }
    };
    Ok(ordered.iter().map(step).collect())
}
