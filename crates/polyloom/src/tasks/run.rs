//! Runs planned tasks: a thread for each device.
//!
//! The thread of a device takes its tasks in the order of the plan. For each it waits until those are done that the task depends on,
//! copies the segments that the device's memory has not in their newest state, launches, and waits for the end. Which memory has
//! what is known by segment; a copy on another device lies there as its region does at home, so that views of one memory are
//! views of one memory there too.

use super::memory::{TaskAccess, TaskMemory, TaskSegment};
use super::model::TaskModels;
use super::timeline::{TaskTimeline, TimelineEntry};
use super::{TaskGraph, TaskPlan};
use crate::device::queue;
use polyloom_runtime::{DeviceFailure, DeviceId, LaunchError, LaunchOptions, RowLayout, SimOptions};
use rustc_hash::FxHashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time after which the calling thread asks again whether it is interrupted.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Why tasks ended early. Tasks that had begun are done; none that comes after the task has begun.
#[derive(Debug)]
pub struct TaskError {
    /// The number of the task.
    pub task: usize,
    /// It says what went wrong.
    pub error: LaunchError,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}: {}", self.task, self.error)
    }
}

impl std::error::Error for TaskError {}

impl TaskError {
    /// The error of a task that may run on none of the graph's devices.
    pub(super) fn nowhere(graph: &TaskGraph, task: usize) -> TaskError {
        let kernel = graph.tasks.get(task).map_or("", |recorded| recorded.task.kernel.name());
        let wanted = graph.tasks.get(task).and_then(|recorded| recorded.task.device).unwrap_or_default();
        let names: Vec<String> = graph.devices.iter().map(ToString::to_string).collect();
        let reason = format!("the launch is on a device that is not among those of the tasks, {}", names.join(", "));
        let failure = DeviceFailure::Absent { device: wanted, reason };
        TaskError { task, error: LaunchError::Device { kernel: kernel.into(), failure } }
    }
}

/// Memory of the host that stands for a region elsewhere.
struct HostMirror {
    bytes: Box<[u8]>,
    /// The bytes before the region's first, so that elements are as aligned as at home.
    skew: usize,
}

/// Where the newest contents are, and what is done.
struct RunState {
    is_done: Vec<bool>,
    /// For each segment the memories that have its newest contents.
    holders: Vec<Vec<DeviceId>>,
    /// The address of the first byte of a region in memory that is not its own.
    mirrors: FxHashMap<(usize, DeviceId), u64>,
    host_mirrors: Vec<HostMirror>,
    entries: Vec<TimelineEntry>,
    failure: Option<TaskError>,
    n_working: usize,
}

struct TaskRun<'a> {
    graph: &'a TaskGraph,
    plan: &'a TaskPlan,
    models: &'a TaskModels,
    started: Instant,
    sim: SimOptions,
    cancel: AtomicBool,
    state: Mutex<RunState>,
    changed: Condvar,
}

impl TaskGraph {
    /// Runs the tasks by a plan of this graph and returns when all are done and arrays hold their results where they were. What ran is
    /// measured for the models. Of the options `interrupted`, `cancel` and `sim` count.
    ///
    /// The result is what ran and, if a task failed, the first [`TaskError`] in the program's order. What tasks have written until then
    /// is where it belongs.
    ///
    /// # Safety
    ///
    /// As [`crate::Kernel::launch_on`] for each task: nobody else accesses the arrays meanwhile. Resident arrays are in live
    /// allocations of the device that the task names.
    pub unsafe fn run(
        &self,
        plan: &TaskPlan,
        models: &TaskModels,
        options: &LaunchOptions<'_>,
    ) -> (TaskTimeline, Result<(), TaskError>) {
        let homes = plan.memory.segments.iter().map(|segment| vec![plan.memory.regions[segment.region].memory]);
        let run = TaskRun {
            graph: self,
            plan,
            models,
            started: Instant::now(),
            sim: options.sim,
            cancel: AtomicBool::new(false),
            state: Mutex::new(RunState {
                is_done: vec![false; plan.tasks.len()],
                holders: homes.collect(),
                mirrors: FxHashMap::default(),
                host_mirrors: Vec::new(),
                entries: Vec::new(),
                failure: None,
                n_working: self.devices.len(),
            }),
            changed: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for device in 0..self.devices.len() {
                let run = &run;
                scope.spawn(move || {
                    // Also when it panics, because the calling thread waits for it.
                    let _working = WorkingDevice(run);
                    // SAFETY: the caller vouches for the arrays.
                    unsafe { run.work(device) };
                });
            }
            let mut state = run.locked();
            while state.n_working > 0 {
                (state, _) = run.changed.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
                drop(state);
                let is_cancelled = options.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed));
                if is_cancelled || options.interrupted.is_some_and(|interrupted| interrupted()) {
                    run.cancel.store(true, Ordering::Relaxed);
                }
                state = run.locked();
            }
        });
        // SAFETY: all threads are done, and the caller vouches for the arrays.
        unsafe { run.finish() }
    }
}

/// Says that a device works, as long as it lives.
struct WorkingDevice<'a, 'run>(&'a TaskRun<'run>);

impl Drop for WorkingDevice<'_, '_> {
    fn drop(&mut self) {
        // Its tasks, for which others wait, would never be done.
        if std::thread::panicking() {
            self.0.cancel.store(true, Ordering::Relaxed);
        }
        self.0.locked().n_working -= 1;
        self.0.changed.notify_all();
    }
}

impl TaskRun<'_> {
    fn locked(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Runs the tasks of a device.
    ///
    /// # Safety
    ///
    /// As [`TaskGraph::run`].
    unsafe fn work(&self, device: usize) {
        for placed in self.plan.schedule.tasks.iter().filter(|placed| placed.device == device) {
            if !self.wait_for(placed.task) {
                return;
            }
            let source = self.plan.sources[placed.task];
            // SAFETY: passed on to the caller. What the task depends on is done, and nothing that depends on it has begun.
            let done = unsafe { self.run_task(placed.task, self.graph.devices[device]) };
            let mut state = self.locked();
            match done {
                Ok(()) => state.is_done[placed.task] = true,
                // The first in the program's order is told.
                Err(error) if state.failure.as_ref().is_none_or(|known| source < known.task) => {
                    state.failure = Some(TaskError { task: source, error });
                }
                Err(_) => {}
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for what a task depends on. Returns false if it is not to run.
    fn wait_for(&self, task: usize) -> bool {
        let mut state = self.locked();
        loop {
            if state.failure.is_some() || self.cancel.load(Ordering::Relaxed) {
                return false;
            }
            if self.plan.dependences[task].iter().all(|&before| state.is_done[before]) {
                return true;
            }
            (state, _) = self.changed.wait_timeout(state, ASK_EVERY).unwrap_or_else(PoisonError::into_inner);
        }
    }

    unsafe fn run_task(&self, number: usize, device: DeviceId) -> Result<(), LaunchError> {
        let (recorded, source) = (&self.plan.tasks[number].recorded, self.plan.sources[number]);
        let (task, memory) = (&recorded.task, &self.plan.memory);
        let kernel = &task.kernel;
        let failed = |failure| LaunchError::Device { kernel: kernel.name().into(), failure };
        let own_queue = queue(device).map_err(failed)?;
        for &(segment, _) in &memory.accesses[number] {
            // SAFETY: the segment is one of the task's arrays, which nobody writes meanwhile.
            unsafe { self.bring(segment, device, Some(source)) }.map_err(failed)?;
        }
        let address_of = |access: &TaskAccess, home: u64| -> u64 {
            let Some(region) = memory.region_of(access) else { return home };
            let start = memory.regions[region].span.start;
            self.address(region, device).wrapping_add(home.wrapping_sub(start))
        };
        let args = recorded.args_on(device, address_of)?;
        let begin = self.now_ns();
        let options = LaunchOptions {
            cancel: Some(&self.cancel),
            grid: task.grid,
            unchecked: task.unchecked,
            sim: self.sim,
            ..LaunchOptions::default()
        };
        // SAFETY: the caller vouches for the arrays, which are here, with as much room as at home.
        let launched = unsafe { kernel.launch_on(&*own_queue, &task.shape, &args, &options) };
        let launched = launched.map(drop).and_then(|()| own_queue.synchronize().map_err(failed));
        let end = self.now_ns();
        let mut state = self.locked();
        // Also of a launch that failed: some of its threads have run.
        for &(segment, _) in memory.accesses[number].iter().filter(|(_, is_written)| *is_written) {
            state.holders[segment] = vec![device];
        }
        state.entries.push(TimelineEntry { task: Some(source), device, from: None, n_bytes: 0, begin, end });
        drop(state);
        // A launch of no threads says nothing of how long others take.
        if launched.is_ok() && task.n_threads() > 0 {
            self.models.add_kernel(recorded.key, device, task.n_threads(), end - begin);
        }
        launched
    }

    /// The address of the first byte of a region in a memory that has it.
    fn address(&self, region: usize, memory: DeviceId) -> u64 {
        let home = &self.plan.memory.regions[region];
        if home.memory == memory {
            return home.span.start;
        }
        self.locked().mirrors.get(&(region, memory)).copied().unwrap_or(0)
    }

    /// Makes room for a region in a memory.
    fn make_room(&self, region: usize, memory: DeviceId) -> Result<(), DeviceFailure> {
        let home = &self.plan.memory.regions[region];
        // Held until it is known, so that two threads do not make room for one region in one memory.
        let mut state = self.locked();
        if home.memory == memory || state.mirrors.contains_key(&(region, memory)) {
            return Ok(());
        }
        let n_bytes = (home.span.end - home.span.start) as usize;
        let address = match memory {
            DeviceId::Cpu => {
                let mut mirror = HostMirror { bytes: vec![0; n_bytes + 256].into(), skew: 0 };
                let first = mirror.bytes.as_mut_ptr() as u64;
                mirror.skew = (home.span.start.wrapping_sub(first) % 256) as usize;
                let address = first + mirror.skew as u64;
                state.host_mirrors.push(mirror);
                address
            }
            device => queue(device)?.alloc(n_bytes, (home.span.start % 256) as u8)?,
        };
        state.mirrors.insert((region, memory), address);
        Ok(())
    }

    /// Copies a segment to a memory unless its newest contents are there. `for_task` is the task that needs them.
    ///
    /// # Safety
    ///
    /// As [`TaskGraph::run`], and nobody writes the segment meanwhile.
    unsafe fn bring(&self, segment: usize, to: DeviceId, for_task: Option<usize>) -> Result<(), DeviceFailure> {
        let piece = &self.plan.memory.segments[segment];
        self.make_room(piece.region, to)?;
        let holders = self.locked().holders[segment].clone();
        if holders.contains(&to) {
            return Ok(());
        }
        let rate = |&from: &DeviceId| {
            let (latency, rate) = self.models.copy_rates(from, to);
            latency + piece.n_bytes() as f64 / rate
        };
        let Some(from) = holders.into_iter().min_by(|a, b| rate(a).total_cmp(&rate(b))) else { return Ok(()) };
        let begin = self.now_ns();
        // SAFETY: both have room for the region.
        unsafe { self.copy(piece, from, to)? };
        let end = self.now_ns();
        let n_bytes = piece.n_bytes();
        let mut state = self.locked();
        state.holders[segment].push(to);
        state.entries.push(TimelineEntry { task: for_task, device: to, from: Some(from), n_bytes, begin, end });
        drop(state);
        if from == DeviceId::Cpu || to == DeviceId::Cpu {
            self.models.add_copy(from, to, n_bytes, end - begin);
        }
        Ok(())
    }

    /// Copies a segment from one memory to another.
    ///
    /// # Safety
    ///
    /// As of `bring`, and there is room for the region in both.
    unsafe fn copy(&self, piece: &TaskSegment, from: DeviceId, to: DeviceId) -> Result<(), DeviceFailure> {
        let home = &self.plan.memory.regions[piece.region];
        let offset = piece.span.start - home.span.start;
        let (source, target) = (self.address(piece.region, from) + offset, self.address(piece.region, to) + offset);
        let n_bytes = piece.n_bytes() as usize;
        // Where there are gaps, others may use what is between, so that on the host only elements are read and written.
        let is_host_home = |memory: DeviceId| memory == DeviceId::Cpu && home.memory == DeviceId::Cpu;
        let mut buffer = Vec::new();
        let bytes: &[u8] = match from {
            DeviceId::Cpu if piece.elements.is_empty() || !is_host_home(from) => {
                // SAFETY: these are bytes of arrays, or of a mirror, which nobody writes.
                unsafe { std::slice::from_raw_parts(source as *const u8, n_bytes) }
            }
            DeviceId::Cpu => {
                buffer.resize(n_bytes, 0);
                for_each_run(piece, |at, length| {
                    // SAFETY: the run is of elements of an array.
                    let run = unsafe { std::slice::from_raw_parts((source + at as u64) as *const u8, length) };
                    buffer[at..at + length].copy_from_slice(run);
                });
                &buffer
            }
            device => {
                buffer.resize(n_bytes, 0);
                // SAFETY: the allocation has the region.
                unsafe { queue(device)?.read(source, &mut buffer)? };
                &buffer
            }
        };
        match to {
            DeviceId::Cpu if piece.elements.is_empty() || !is_host_home(to) => {
                // SAFETY: these are bytes of arrays that tasks write, or of a mirror, which nobody else accesses.
                unsafe { std::slice::from_raw_parts_mut(target as *mut u8, n_bytes) }.copy_from_slice(bytes);
            }
            DeviceId::Cpu => for_each_run(piece, |at, length| {
                // SAFETY: the run is of elements of an array.
                let run = unsafe { std::slice::from_raw_parts_mut((target + at as u64) as *mut u8, length) };
                run.copy_from_slice(&bytes[at..at + length]);
            }),
            device => {
                let own_queue = queue(device)?;
                // SAFETY: the allocation has the region.
                unsafe { own_queue.write(RowLayout::one(target, n_bytes as u64), bytes)? };
                own_queue.synchronize()?;
            }
        }
        Ok(())
    }

    /// Brings everything home, gives memory back, and says what ran.
    ///
    /// # Safety
    ///
    /// As [`TaskGraph::run`], and no thread works any more.
    unsafe fn finish(self) -> (TaskTimeline, Result<(), TaskError>) {
        let memory: &TaskMemory = &self.plan.memory;
        let mut lost = None;
        for (segment, piece) in memory.segments.iter().enumerate() {
            // SAFETY: no task runs.
            let brought = unsafe { self.bring(segment, memory.regions[piece.region].memory, None) };
            if let Err(failure) = brought {
                let writes = |task: &usize| memory.accesses[*task].contains(&(segment, true));
                let last = (0..self.plan.tasks.len()).rev().find(writes);
                let task = last.map_or(0, |last| self.plan.sources[last]);
                let kernel = self.graph.tasks[task].task.kernel.name().into();
                lost = lost.or(Some(TaskError { task, error: LaunchError::Device { kernel, failure } }));
            }
        }
        let total = self.now_ns();
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (&(_, device), &address) in state.mirrors.iter().filter(|((_, device), _)| *device != DeviceId::Cpu) {
            if let Ok(queue) = queue(device) {
                // SAFETY: the allocation is this run's, and nothing uses it any more.
                unsafe { queue.free(address) };
            }
        }
        let timeline = TaskTimeline::new(self.graph, self.plan, state.entries, total);
        let cancelled = || {
            let task = state.is_done.iter().position(|is_done| !is_done)?;
            Some(TaskError { task: self.plan.sources[task], error: LaunchError::Cancelled })
        };
        (timeline, state.failure.or(lost).or_else(cancelled).map_or(Ok(()), Err))
    }
}

/// Calls a function with the offset in the segment and the length of each run of elements.
fn for_each_run(piece: &TaskSegment, mut each: impl FnMut(usize, usize)) {
    for layout in &piece.elements {
        let Ok(()) = layout.runs(&mut |address, length| -> Result<(), Infallible> {
            each((address - piece.span.start) as usize, length as usize);
            Ok(())
        });
    }
}
