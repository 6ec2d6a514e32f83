//! Tasks: launches that run where and when it pays, on the CPU and GPUs at once.
//!
//! A [`TaskGraph`] takes launches in the order of a program. What a kernel writes, and which memory its arrays are in, says which tasks
//! have to wait for which ([`TaskMemory`]). [`TaskGraph::plan`] decides which device runs what, by measured models ([`TaskModels`])
//! and list scheduling ([`schedule`]), and [`TaskGraph::run`] does so: a thread for each device copies what a task needs, runs it
//! and measures both. Afterwards arrays hold what they would hold had the launches run one after the other, in the memory where they were.
//!
//! Design: `docs/design/tasks.md`.

mod memory;
mod model;
mod run;
mod schedule;
mod split;
mod timeline;

pub use memory::{TaskAccess, TaskMemory, TaskRegion, TaskSegment};
pub use model::{KernelKey, TaskModels};
pub use run::TaskError;
pub use schedule::{PlacedTask, ScheduledSegment, ScheduledTask, SchedulingProblem, TaskSchedule, evaluate, schedule};
pub use timeline::{TaskTimeline, TimelineEntry};

use crate::device;
use crate::kernel::Kernel;
use polyloom_ir::{Arch, LaunchConfig, MAX_DIMS, Type};
use polyloom_passes::fusion::prints;
use polyloom_runtime::{ArgBlock, DeviceFailure, DeviceId, LaunchError, LaunchOptions};
use smallvec::SmallVec;
use std::sync::Arc;

/// A launch that may run on several devices.
#[derive(Clone, Debug)]
pub struct Task {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// The extents of the launch.
    pub shape: SmallVec<[u64; MAX_DIMS]>,
    /// The arguments, filled against [`Kernel::params`], with arrays where they are outside of tasks: in the memory of `memory` those
    /// that are resident, the others in the host's.
    pub args: ArgBlock,
    /// The device that resident arrays are on.
    pub memory: DeviceId,
    /// The blocks, if the launch says them.
    pub grid: Option<LaunchConfig>,
    /// True if indices are not compared with extents.
    pub unchecked: bool,
    /// The only device that it may run on; any if there is none.
    pub device: Option<DeviceId>,
}

/// A task with what is known of it.
#[derive(Debug)]
struct RecordedTask {
    task: Task,
    /// The kernel by which it is measured: of a part, that of the whole.
    key: KernelKey,
    /// The accesses of its arrays, in the order of parameters.
    accesses: Vec<TaskAccess>,
    /// True if it prints: such tasks run in the order of the program.
    prints: bool,
}

/// A task as a plan has it, or a part of one.
#[derive(Clone, Debug)]
struct PlannedTask {
    recorded: Arc<RecordedTask>,
    /// The number of the task in the graph.
    source: usize,
    /// The part of the task's threads.
    fraction: f64,
}

/// Launches in the order of a program, and the devices that may run them.
#[derive(Debug)]
pub struct TaskGraph {
    devices: Vec<DeviceId>,
    tasks: Vec<Arc<RecordedTask>>,
}

/// Where the tasks of a graph run, in which order, and what was predicted.
#[derive(Debug)]
pub struct TaskPlan {
    /// The schedule. Devices are numbers of those of the graph, and tasks numbers of `sources`.
    pub schedule: TaskSchedule,
    /// For each task of the plan the number of the task in the graph; twice if it runs in two parts.
    pub sources: Vec<usize>,
    /// For each task of the plan those that it waits for.
    dependences: Vec<Vec<usize>>,
    tasks: Vec<PlannedTask>,
    memory: TaskMemory,
}

/// Tells what a caller knows of times: that of a task, by its number, on a device in nanoseconds.
type GivenTimes<'a> = dyn FnMut(usize, DeviceId) -> Option<f64> + 'a;

impl Task {
    /// Returns the number of threads.
    pub fn n_threads(&self) -> u64 {
        self.shape.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent))
    }

    /// Returns the arrays that it accesses.
    fn accesses(&self) -> Vec<TaskAccess> {
        let params = self.kernel.params();
        let of = |param: usize| {
            let array = self.args.array_at(params, param)?;
            let memory = if array.is_resident { self.memory } else { DeviceId::Cpu };
            let whole = array.layout.span();
            Some(TaskAccess { memory, whole, layout: array.layout, is_written: self.kernel.writes(param) })
        };
        (0..params.len()).filter_map(of).collect()
    }
}

impl RecordedTask {
    /// Returns the arguments for a device. `address_of` gives the address there of the first element of an array by that at home.
    fn args_on(&self, device: DeviceId, address_of: impl Fn(&TaskAccess, u64) -> u64) -> Result<ArgBlock, LaunchError> {
        let (params, given) = (self.task.kernel.params(), &self.task.args);
        let mut args = ArgBlock::new();
        let mut accesses = self.accesses.iter();
        for (param, &ty) in params.types().iter().enumerate() {
            match (ty, given.array_at(params, param)) {
                (Type::Scalar(scalar), _) => {
                    args.scalar(params, scalar, given.scalar_at(params, param).unwrap_or(0))?
                }
                (_, Some(mut array)) => {
                    if let Some(access) = accesses.next() {
                        array.layout.base = address_of(access, array.layout.base);
                    }
                    array.is_resident = device != DeviceId::Cpu;
                    args.push_array(params, &array)?;
                }
                _ => {}
            }
        }
        Ok(args)
    }
}

impl TaskGraph {
    /// Makes a graph without tasks for these devices, which are set up.
    ///
    /// # Errors
    ///
    /// When one is not there.
    pub fn new(devices: &[DeviceId]) -> Result<TaskGraph, DeviceFailure> {
        for &id in devices {
            device(id)?;
        }
        Ok(TaskGraph { devices: devices.to_vec(), tasks: Vec::new() })
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the task of a number.
    pub fn task(&self, number: usize) -> Option<&Task> {
        self.tasks.get(number).map(|recorded| &recorded.task)
    }

    /// Adds a task after all others, and returns its number. Its indices are compared with the extents of its arrays now.
    ///
    /// # Errors
    ///
    /// As a launch, of what is known before it runs.
    pub fn add(&mut self, task: Task) -> Result<usize, LaunchError> {
        let kernel = &task.kernel;
        task.args.check_complete(kernel.params())?;
        let options = LaunchOptions { grid: task.grid, unchecked: task.unchecked, ..LaunchOptions::default() };
        kernel.verify_accesses(&task.shape, &task.args, &options)?;
        let (module, id) = kernel.module();
        let prints = prints(module, id);
        let (key, accesses) = (kernel.hash(), task.accesses());
        self.tasks.push(Arc::new(RecordedTask { task, key, accesses, prints }));
        Ok(self.tasks.len() - 1)
    }

    /// Decides where tasks run, and compiles them for there. A large launch becomes two where that pays. `given` tells the time of a task,
    /// by its number, on a device in nanoseconds where the caller knows it; the models tell the others.
    ///
    /// # Errors
    ///
    /// [`TaskError`], if a kernel has no code for any device that it may run on.
    pub fn plan(&self, models: &TaskModels, given: &mut GivenTimes<'_>) -> Result<TaskPlan, TaskError> {
        // The devices that have turned out to have no code for a task.
        let mut refused: Vec<(usize, DeviceId)> = Vec::new();
        loop {
            let mut times = |task: usize, device: DeviceId| match refused.contains(&(task, device)) {
                true => Some(f64::INFINITY),
                false => given(task, device),
            };
            let whole = |(source, recorded): (usize, &Arc<RecordedTask>)| PlannedTask {
                recorded: recorded.clone(),
                source,
                fraction: 1.0,
            };
            let tasks = self.tasks.iter().enumerate().map(whole).collect();
            let plan = self.placed(tasks, models, &mut times)?;
            let plan = self.in_parts(plan, models, &mut times);
            match self.compile(&plan) {
                None => return Ok(plan),
                Some((task, device, error)) => {
                    refused.push((task, device));
                    let only = self.tasks[task].task.device;
                    let is_allowed =
                        |&id: &DeviceId| only.is_none_or(|only| only == id) && !refused.contains(&(task, id));
                    if !self.devices.iter().any(is_allowed) {
                        return Err(TaskError { task, error });
                    }
                }
            }
        }
    }

    /// Places tasks.
    fn placed(
        &self,
        tasks: Vec<PlannedTask>,
        models: &TaskModels,
        given: &mut GivenTimes<'_>,
    ) -> Result<TaskPlan, TaskError> {
        let accesses: Vec<Vec<TaskAccess>> = tasks.iter().map(|task| task.recorded.accesses.clone()).collect();
        let memory = TaskMemory::of(&accesses);
        let problem = self.problem(&tasks, models, &memory, given);
        let Some(schedule) = schedule(&problem) else {
            let nowhere = problem.tasks.iter().position(|task| task.ns.iter().all(|ns| ns.is_infinite()));
            return Err(TaskError::nowhere(self, nowhere.map_or(0, |task| tasks[task].source)));
        };
        let (dependences, sources) = (problem.dependences(), tasks.iter().map(|task| task.source).collect());
        Ok(TaskPlan { schedule, sources, dependences, tasks, memory })
    }

    /// Compiles the tasks for the devices of a plan, and returns the first that has no code there.
    fn compile(&self, plan: &TaskPlan) -> Option<(usize, DeviceId, LaunchError)> {
        for &PlacedTask { task, device, .. } in &plan.schedule.tasks {
            let PlannedTask { recorded, source, .. } = &plan.tasks[task];
            let (kernel, id) = (&recorded.task.kernel, self.devices[device]);
            let rank = recorded.task.shape.len().clamp(1, MAX_DIMS) as u8;
            let compiled = match id {
                DeviceId::Cpu => kernel.compile(rank),
                id => kernel.compile_for(id, rank, Arch::DEFAULT),
            };
            if let Err(error) = compiled {
                return Some((*source, id, error));
            }
        }
        None
    }

    fn problem(
        &self,
        planned: &[PlannedTask],
        models: &TaskModels,
        memory: &TaskMemory,
        given: &mut GivenTimes<'_>,
    ) -> SchedulingProblem {
        // The memories: the host's, those of the devices, and those that arrays are in.
        let mut memories = vec![DeviceId::Cpu];
        let homes = memory.regions.iter().map(|region| region.memory);
        for id in self.devices.iter().copied().chain(homes) {
            if !memories.contains(&id) {
                memories.push(id);
            }
        }
        let number_of = |id: DeviceId| memories.iter().position(|&known| known == id).unwrap_or(0);
        let copies = memories.iter().map(|&from| memories.iter().map(|&to| models.copy_rates(from, to)).collect());
        let mut last_print = None;
        let mut tasks = Vec::with_capacity(planned.len());
        for (number, (PlannedTask { recorded, source, fraction }, accesses)) in
            planned.iter().zip(&memory.accesses).enumerate()
        {
            let task = &recorded.task;
            let n_bytes = recorded.accesses.iter().map(|access| access.layout.n_bytes()).fold(0, u64::saturating_add);
            let ns_on = |&id: &DeviceId| match task.device {
                Some(only) if only != id => f64::INFINITY,
                _ => match given(*source, id) {
                    // Infinite times are of devices where a task may not run.
                    Some(ns) => ns.clamp(0.0, f64::MAX / 2.0) * fraction,
                    None => models.kernel_ns(recorded.key, id, task.n_threads(), n_bytes),
                },
            };
            let ns = self.devices.iter().map(ns_on).collect();
            let after = if recorded.prints { last_print.replace(number) } else { None };
            tasks.push(ScheduledTask { ns, accesses: accesses.clone(), after });
        }
        let segment = |segment: &TaskSegment| ScheduledSegment {
            n_bytes: segment.n_bytes(),
            home: number_of(memory.regions[segment.region].memory),
        };
        SchedulingProblem {
            tasks,
            segments: memory.segments.iter().map(segment).collect(),
            device_memories: self.devices.iter().map(|&id| number_of(id)).collect(),
            copies: copies.collect(),
        }
    }
}
