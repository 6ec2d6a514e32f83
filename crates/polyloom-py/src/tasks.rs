//! Launches that become tasks, and what they are run by: `polyloom._tasks` is the other half.

use crate::arguments::{self, Arguments, Writes};
use crate::array::ArrayBase;
use crate::boundary::guarded;
use crate::device::named;
use crate::errors::{device_error, launch_error};
use crate::interruptible::interruptible;
use crate::kernel::Kernel;
use crate::launch_dimensions::LaunchDimensions;
use crate::recorded_tasks::recording_tasks;
use crate::sim_settings::SimSettings;
use crate::tape_recording::{TapeRecording, tell_of_writes};
use polyloom::tasks::{Task, TaskModels};
use polyloom::{ArgBlock, DeviceId, LaunchOptions};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Launches in the order of a program, for several devices.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct TaskGraph {
    devices: Vec<DeviceId>,
    state: Mutex<TaskState>,
}

struct TaskState {
    graph: polyloom::tasks::TaskGraph,
    /// The arguments, and what was made of them.
    held: Vec<Py<PyAny>>,
    /// For each task the frame of the launch and the number of its instruction; none if no code of Python has launched.
    places: Vec<Option<(Py<PyAny>, i32, u32)>>,
}

/// What ran where and when.
#[pyclass(module = "polyloom._native")]
pub(crate) struct TaskTimeline {
    timeline: polyloom::tasks::TaskTimeline,
}

/// A task that failed: its error, and the place of the launch as of `TaskGraph.places`.
type FailedTask = (Py<PyAny>, Option<(Py<PyAny>, i32, u32)>);

/// A row of a timeline: the kernel, none of a copy that brings results back; the device; the one that is copied from; the bytes; begin and
/// end in seconds.
type TimelineRow = (Option<String>, String, Option<String>, u64, f64, f64);

#[pymethods]
impl TaskGraph {
    #[new]
    fn new(py: Python<'_>, devices: Vec<String>) -> PyResult<TaskGraph> {
        let devices = devices.iter().map(|name| named(name)).collect::<PyResult<Vec<_>>>()?;
        let graph = new_graph(py, &devices)?;
        Ok(TaskGraph { devices, state: Mutex::new(TaskState { graph, held: Vec::new(), places: Vec::new() }) })
    }

    fn __len__(&self) -> usize {
        self.locked().graph.len()
    }

    /// Runs the tasks, after which there are none. `costs` gives for each task and device, in this order, the time in seconds where it is
    /// known. Gives the timeline, and the task that failed.
    fn run(&self, py: Python<'_>, costs: Option<Vec<Option<f64>>>) -> PyResult<(TaskTimeline, Option<FailedTask>)> {
        let empty = new_graph(py, &self.devices)?;
        let taken = TaskState { graph: empty, held: Vec::new(), places: Vec::new() };
        let TaskState { graph, held, mut places } = std::mem::replace(&mut *self.locked(), taken);
        let (costs, n_devices) = (costs.unwrap_or_default(), self.devices.len());
        let models = TaskModels::shared();
        let planned = guarded(|| {
            Ok(py.detach(|| {
                graph.plan(models, &mut |task, device| {
                    let device = self.devices.iter().position(|&known| known == device)?;
                    costs.get(task * n_devices + device).copied().flatten().map(|seconds| seconds * 1e9)
                })
            }))
        })?;
        let mut failed = |error: polyloom::tasks::TaskError, interrupt: Option<PyErr>| -> Option<FailedTask> {
            let kernel = &graph.task(error.task)?.kernel;
            let place = places.get_mut(error.task).and_then(Option::take);
            Some((launch_error(py, kernel, &error.error, interrupt).into_value(py).into_any(), place))
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                let nothing = TaskTimeline { timeline: polyloom::tasks::TaskTimeline::default() };
                return Ok((nothing, failed(error, None)));
            }
        };
        let sim = self.devices.contains(&DeviceId::Simulator).then(|| SimSettings::get().options());
        let done = guarded(|| {
            interruptible(py, |options| {
                let options = LaunchOptions { sim: sim.unwrap_or_default(), ..*options };
                // SAFETY: `held` has the arrays, whose memory NumPy keeps in place; their types, ranks and that they may be
                // written have been checked when the tasks were taken.
                unsafe { graph.run(&plan, models, &options) }
            })
        })?;
        let found = match done {
            ((timeline, Ok(())), None) => (TaskTimeline { timeline }, None),
            ((timeline, Ok(())), Some(interrupt)) => {
                (TaskTimeline { timeline }, Some((interrupt.into_value(py).into_any(), None)))
            }
            ((timeline, Err(error)), interrupt) => (TaskTimeline { timeline }, failed(error, interrupt)),
        };
        drop(held);
        Ok(found)
    }

    /// For each task the name of its kernel and the number of its threads.
    fn tasks(&self) -> Vec<(String, u64)> {
        let state = self.locked();
        let of = |number| state.graph.task(number).map(|task| (task.kernel.name().to_owned(), task.n_threads()));
        (0..state.graph.len()).filter_map(of).collect()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // Garbage collection takes what is not shown to be held from outside.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let frames = state.places.iter().flatten().map(|(frame, ..)| frame);
        state.held.iter().chain(frames).try_for_each(|object| visit.call(object))
    }
}

#[pymethods]
impl TaskTimeline {
    /// The kernels and copies in the order in which they began.
    fn rows(&self) -> Vec<TimelineRow> {
        let timeline = &self.timeline;
        let row = |entry: &polyloom::tasks::TimelineEntry| {
            let name = entry.task.and_then(|task| timeline.names.get(task)).cloned();
            let (device, from) = (entry.device.to_string(), entry.from.map(|from| from.to_string()));
            (name, device, from, entry.n_bytes, entry.begin as f64 / 1e9, entry.end as f64 / 1e9)
        };
        timeline.entries.iter().map(row).collect()
    }

    /// The time until everything was back, and the predicted one, in seconds.
    fn times(&self) -> (f64, f64) {
        (self.timeline.total as f64 / 1e9, self.timeline.predicted / 1e9)
    }

    /// Appends what ran after it.
    fn append(&mut self, other: &TaskTimeline) {
        self.timeline.append(&other.timeline);
    }

    /// The Gantt chart as SVG.
    fn svg(&self) -> String {
        self.timeline.svg()
    }

    fn __str__(&self) -> String {
        self.timeline.to_string()
    }
}

/// Returns the graph that takes the launches of this thread, as far as tapes and graphs leave it any.
pub(crate) fn taking_graph(py: Python<'_>, watched: TapeRecording) -> PyResult<Option<Py<TaskGraph>>> {
    match (watched, recording_tasks(py)) {
        (TapeRecording::Nothing | TapeRecording::Writes, Some(tasks)) => {
            Ok(Some(tasks.bind(py).getattr("_graph")?.cast_into::<TaskGraph>()?.unbind()))
        }
        _ => Ok(None),
    }
}

/// Runs one launch on the device where it is done first.
pub(crate) fn launch_anywhere(
    kernel: &Bound<'_, Kernel>,
    args: &Arguments<'_, '_>,
    dimensions: LaunchDimensions,
    watched: TapeRecording,
) -> PyResult<()> {
    let py = kernel.py();
    let module = py.import("polyloom._tasks")?;
    let devices = module.call_method1("devices_for", (PyTuple::new(py, args.iter())?,))?;
    let graph = Py::new(py, TaskGraph::new(py, devices.extract()?)?)?;
    graph.get().take(kernel, args, dimensions, None, watched)?;
    module.call_method1("run_now", (graph,)).map(drop)
}

impl TaskGraph {
    /// Takes a launch, on a device if it is to run there.
    pub(crate) fn take(
        &self,
        kernel: &Bound<'_, Kernel>,
        args: &Arguments<'_, '_>,
        dimensions: LaunchDimensions,
        device: Option<DeviceId>,
        watched: TapeRecording,
    ) -> PyResult<()> {
        let py = kernel.py();
        let code = kernel.get().one()?;
        let memory = memory_of(py, code, args)?;
        // Arrays of the package on the host are as good as NumPy's beside arrays on a device.
        let on_host: Vec<Bound<'_, PyAny>> = args
            .iter()
            .map(|arg| match arg.cast::<ArrayBase>() {
                Ok(array)
                    if memory != DeviceId::Cpu && array.get().device() == DeviceId::Cpu && !code.has_structs() =>
                {
                    array.getattr("_storage")
                }
                _ => Ok((**arg).clone()),
            })
            .collect::<PyResult<_>>()?;
        let given: Arguments<'_, '_> = on_host.iter().map(Bound::as_borrowed).collect();
        let (mut block, mut made, mut written) = (ArgBlock::new(), SmallVec::new(), Writes::new());
        arguments::fill(py, code, memory, &given, &mut block, &mut made, &mut written)?;
        let LaunchDimensions { shape, grid, unchecked, .. } = dimensions;
        let task = Task { kernel: code.clone(), shape, args: block, memory, grid, unchecked, device };
        let place = place_of_caller(py)?;
        let held: Vec<Py<PyAny>> = args
            .iter()
            .map(|arg| (**arg).clone())
            .chain(on_host.iter().cloned())
            .chain(made)
            .map(Bound::unbind)
            .collect();
        let added = guarded(|| {
            let mut state = self.locked();
            let added = state.graph.add(task);
            if added.is_ok() {
                state.held.extend(held);
                state.places.push(place);
            }
            Ok(added)
        })?;
        added.map_err(|error| launch_error(py, code, &error, None))?;
        match watched {
            TapeRecording::Writes => tell_of_writes(code, memory, &written, py),
            _ => Ok(()),
        }
    }

    fn locked(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_graph(py: Python<'_>, devices: &[DeviceId]) -> PyResult<polyloom::tasks::TaskGraph> {
    py.detach(|| polyloom::tasks::TaskGraph::new(devices)).map_err(|failure| device_error(py, &failure))
}

/// The device that arguments are on: that of the first array that is not the host's.
fn memory_of(py: Python<'_>, kernel: &polyloom::Kernel, args: &Arguments<'_, '_>) -> PyResult<DeviceId> {
    let of_array = |arg: &Bound<'_, PyAny>| arg.cast::<ArrayBase>().map_or(DeviceId::Cpu, |array| array.get().device());
    for (arg, param) in args.iter().zip(kernel.arguments()) {
        let mut found = of_array(arg);
        if found == DeviceId::Cpu && param.ty.as_plain().is_none() {
            let leaves = crate::structure::leaves(arg, param.ty)?;
            found = leaves.iter().map(|leaf| of_array(&leaf)).find(|&id| id != DeviceId::Cpu).unwrap_or(found);
        }
        let is_foreign = arg.cast::<ArrayBase>().is_err() && arg.cast::<PyList>().is_err();
        if found == DeviceId::Cpu && is_foreign && arg.hasattr("__cuda_array_interface__")? {
            let seen = py.import("polyloom._arrays")?.call_method1("from_cuda_interface", (arg,))?;
            found = of_array(&seen);
        }
        if found != DeviceId::Cpu {
            return Ok(found);
        }
    }
    Ok(DeviceId::Cpu)
}

/// The frame of Python that called, its line and its instruction.
fn place_of_caller(py: Python<'_>) -> PyResult<Option<(Py<PyAny>, i32, u32)>> {
    let frame = match py.import("sys")?.call_method1("_getframe", (0,)) {
        Ok(frame) => frame,
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyValueError>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (last, line) = (frame.getattr("f_lasti")?.extract()?, frame.getattr("f_lineno")?);
    let line = line.extract().map_err(|_| PyRuntimeError::new_err("internal error: a frame without a line"))?;
    Ok(Some((frame.unbind(), last, line)))
}
