//! Launches that Python keeps to run again: `launch(…, record_cmd=True)`.
//!
//! A recorded launch does not look at its arguments when it runs: it keeps them bound, and replaces in what is bound
//! what is replaced of it.

use crate::arguments::{self, Arguments};
use crate::boundary::guarded;
use crate::errors::{launch_error, too_many_threads};
use crate::held_launch::{HeldLaunch, ReadyLaunch};
use crate::kernel::Kernel;
use crate::launch_dimensions::{LaunchDimensions, extents_of};
use crate::launch_run::run;
use crate::queue::{QueueScope, queue_of_stream};
use crate::tape_recording::{TapeRecording, recorded};
use crate::tasks::taking_graph;
use polyloom::DeviceId;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

struct LaunchState {
    dimensions: LaunchDimensions,
    /// The arguments, numbers among them as they were given.
    args: Vec<Py<PyAny>>,
    /// The launch with `args` as the kernel takes them; absent after some changes, until the next run.
    ready: Option<ReadyLaunch>,
}

/// A recorded launch: `launch()` runs it.
///
/// It holds the arguments it was given and goes on using their memory, shape and strides of that time, and the numbers that
/// they were, vectors included; but of a struct the values that it has when the launch runs. `set_…` methods check what
/// they are given as `polyloom.launch` does.
#[pyclass(frozen, module = "polyloom._native", name = "Launch")]
pub(crate) struct RecordedLaunch {
    kernel: Py<Kernel>,
    /// True if it is over a number of threads and not over a grid of blocks.
    over_dim: bool,
    /// True if tapes record it.
    is_recorded: bool,
    state: Mutex<LaunchState>,
    /// Number of times that something of it was replaced.
    n_changes: AtomicU64,
}

#[pymethods]
impl RecordedLaunch {
    /// Runs the recorded launch, in a stream of its device if one is given. While a graph is captured, the graph takes it
    /// instead, with the arguments that it has now.
    #[pyo3(name = "launch", signature = (stream = None))]
    fn launch_in(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let queue = stream.filter(|stream| !stream.is_none()).map(queue_of_stream).transpose()?;
        if let Some(queue) = &queue {
            let (of_stream, device) = (queue.get().queue.device(), self.device());
            if of_stream != device {
                let message = format!("the stream is one of device '{of_stream}', and the launch is on '{device}'");
                return Err(PyValueError::new_err(message));
            }
        }
        let _scope = queue.as_ref().map(|queue| QueueScope::enter(&queue.get().queue));
        self.launch(py)
    }

    /// Replaces the argument at a position.
    fn set_param_at_index(&self, py: Python<'_>, index: i64, value: Py<PyAny>) -> PyResult<()> {
        let kernel = self.kernel.bind(py).get().one()?;
        let n = kernel.arguments().len();
        let Some(index) = usize::try_from(index).ok().filter(|&index| index < n) else {
            let message = format!("kernel '{}' is launched with {n} arguments, there is no {index}", kernel.name());
            return Err(PyIndexError::new_err(message));
        };
        // Alone, because two arrays that overlap may be about to be replaced both.
        let argument = arguments::checked(py, kernel, self.device(), index, value.bind(py))?;
        let value = argument.by_value(py, value)?;
        self.change(|state| {
            let replaced = state.args.get_mut(index).map(|slot| std::mem::replace(slot, value));
            let is_bound = state.ready.as_mut().is_some_and(|ready| ready.is_of(kernel) && ready.rebind(&argument));
            (replaced, if is_bound { None } else { state.ready.take() })
        });
        Ok(())
    }

    /// Replaces the argument of the parameter with this name.
    fn set_param_by_name(&self, py: Python<'_>, name: &str, value: Py<PyAny>) -> PyResult<()> {
        let kernel = self.kernel.bind(py).get().one()?;
        match kernel.arguments().iter().position(|param| &*param.name == name) {
            Some(index) => self.set_param_at_index(py, index as i64, value),
            None => Err(PyValueError::new_err(format!("kernel '{}' has no parameter '{name}'", kernel.name()))),
        }
    }

    /// Replaces all arguments.
    fn set_params(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let values: Vec<Py<PyAny>> = values.extract().map_err(|_| {
            let given = values.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("set_params takes a sequence of arguments, not {given}"))
        })?;
        let (dimensions, n_changes) = self.with(|state| (state.dimensions.clone(), self.n_changes()));
        let kernel = self.kernel.bind(py).get().one()?;
        let borrowed: Arguments<'_, '_> = values.iter().map(|value| value.bind_borrowed(py)).collect();
        let values = arguments::by_value(py, kernel, &borrowed, false)?;
        let ready = ReadyLaunch::new(py, kernel, &dimensions, &values)?;
        // Reading the values may have run Python code, which may have changed the launch; it is then bound at its next run.
        let ready = (self.n_changes() == n_changes).then_some(ready);
        self.change(|state| (std::mem::replace(&mut state.args, values), std::mem::replace(&mut state.ready, ready)));
        Ok(())
    }

    /// Replaces the argument at a position by a number of the `ctypes` module or any other argument.
    fn set_param_at_index_from_ctype(&self, py: Python<'_>, index: i64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_param_at_index(py, index, number_of(value)?)
    }

    /// Replaces the argument of the parameter with this name, likewise.
    fn set_param_by_name_from_ctype(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_param_by_name(py, name, number_of(value)?)
    }

    /// Replaces all arguments, likewise.
    fn set_params_from_ctypes(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let numbers: Vec<Py<PyAny>> = values.try_iter()?.map(|value| number_of(&value?)).collect::<PyResult<_>>()?;
        self.set_params(py, PyList::new(py, numbers)?.as_any())
    }

    /// Replaces the grid.
    fn set_dim(&self, dim: &Bound<'_, PyAny>) -> PyResult<()> {
        let shape = extents_of(dim)?;
        self.change(|state| {
            let LaunchState { dimensions, ready, .. } = state;
            dimensions.set_shape(shape);
            if let Some(ready) = ready {
                Arc::make_mut(&mut ready.bound).set_shape(&dimensions.shape, dimensions.grid);
            }
        });
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.kernel)?;
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // What is not shown is held from outside, as far as garbage collection is concerned.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let made = state.ready.iter().flat_map(|ready| &ready.made);
        state.args.iter().chain(made).try_for_each(|object| visit.call(object))
    }

    fn __clear__(&self) {
        self.change(|state| (std::mem::take(&mut state.args), state.ready.take()));
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shape = self.with(|state| state.dimensions.shape.clone());
        format!("<launch of {} over {:?}>", self.kernel.bind(py).get().name(), shape.as_slice())
    }
}

/// The number that an object of the `ctypes` module holds; any other object as it is.
fn number_of(value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    static SIMPLE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match value.is_instance(SIMPLE.import(value.py(), "_ctypes", "_SimpleCData")?)? {
        true => Ok(value.getattr("value")?.unbind()),
        false => Ok(value.clone().unbind()),
    }
}

impl RecordedLaunch {
    /// Runs the launch in the current stream of its device.
    pub(crate) fn launch(&self, py: Python<'_>) -> PyResult<()> {
        let object = self.kernel.bind(py);
        let kernel = object.get().one()?;
        let watched = TapeRecording::now(self.is_recorded);
        if let Some(graph) = taking_graph(py, watched)? {
            let (args, dimensions, _) = self.snapshot(py);
            let args: SmallVec<[Bound<'_, PyAny>; 16]> = args.into_iter().map(|arg| arg.into_bound(py)).collect();
            let borrowed: Arguments<'_, '_> = args.iter().map(Bound::as_borrowed).collect();
            let device = Some(dimensions.device);
            return graph.get().take(object, &borrowed, dimensions, device, watched);
        }
        if watched != TapeRecording::Nothing {
            return self.launch_watched(object, kernel, watched);
        }
        guarded(|| {
            // A short launch runs no Python code.
            let short = self.with(|state| {
                let ready = state.ready.as_ref().filter(|ready| ready.is_of(kernel))?;
                // SAFETY: the state holds the arrays, whose memory NumPy keeps in place; their types, ranks and that they may
                // be written have been checked when they were bound.
                unsafe { ready.bound.run_if_short() }
            });
            match short {
                Some(Ok(())) => Ok(()),
                Some(Err(error)) => Err(launch_error(py, kernel, &error, None)),
                None => match self.known(py, kernel) {
                    Some(held) => held.run_long(py),
                    None => self.make_ready(py, kernel)?.run(py),
                },
            }
        })
    }

    /// A launch for later, over a number of threads or over a grid of blocks, with the numbers that its arguments are now.
    pub(crate) fn kept(
        kernel: &Bound<'_, Kernel>,
        args: &[Borrowed<'_, '_, PyAny>],
        dimensions: LaunchDimensions,
        over_dim: bool,
        is_recorded: bool,
    ) -> PyResult<Py<RecordedLaunch>> {
        let args = arguments::by_value(kernel.py(), kernel.get().one()?, args, false)?;
        RecordedLaunch::new(kernel, args, dimensions, over_dim, is_recorded)
    }

    /// Gives the graph that this thread captures a launch, with the values that its arguments have now, those of structs
    /// included.
    pub(crate) fn capture(
        kernel: &Bound<'_, Kernel>,
        args: &[Borrowed<'_, '_, PyAny>],
        dimensions: LaunchDimensions,
        over_dim: bool,
        is_recorded: bool,
    ) -> PyResult<()> {
        let py = kernel.py();
        let args = arguments::by_value(py, kernel.get().one()?, args, true)?;
        let launch = RecordedLaunch::new(kernel, args, dimensions, over_dim, is_recorded)?;
        py.import("polyloom._graphs")?.call_method1("captured", (launch,)).map(drop)
    }

    fn new(
        kernel: &Bound<'_, Kernel>,
        args: Vec<Py<PyAny>>,
        dimensions: LaunchDimensions,
        over_dim: bool,
        is_recorded: bool,
    ) -> PyResult<Py<RecordedLaunch>> {
        let py = kernel.py();
        let n_threads = dimensions.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
        if n_threads.is_none_or(|n| n > i32::MAX as u64) && !dimensions.shape.contains(&0) {
            return Err(too_many_threads(&dimensions.shape));
        }
        let ready = ReadyLaunch::new(py, kernel.get().one()?, &dimensions, &args)?;
        let state = Mutex::new(LaunchState { dimensions, args, ready: Some(ready) });
        let kernel = kernel.clone().unbind();
        Py::new(py, RecordedLaunch { kernel, over_dim, is_recorded, state, n_changes: AtomicU64::new(0) })
    }

    /// Runs the launch as tapes want it, or has a graph take it.
    #[cold]
    fn launch_watched(
        &self,
        kernel: &Bound<'_, Kernel>,
        code: &Arc<polyloom::Kernel>,
        watched: TapeRecording,
    ) -> PyResult<()> {
        let py = kernel.py();
        let (args, dimensions, _) = self.snapshot(py);
        let args: SmallVec<[Bound<'_, PyAny>; 16]> = args.into_iter().map(|arg| arg.into_bound(py)).collect();
        let borrowed: Arguments<'_, '_> = args.iter().map(Bound::as_borrowed).collect();
        match watched {
            TapeRecording::Graphs => {
                RecordedLaunch::capture(kernel, &borrowed, dimensions, self.over_dim, self.is_recorded)
            }
            TapeRecording::Launches => recorded(kernel, self.over_dim, &dimensions, &borrowed, || {
                run(py, code, &dimensions, &borrowed, TapeRecording::Nothing)
            }),
            TapeRecording::Writes | TapeRecording::Nothing => run(py, code, &dimensions, &borrowed, watched),
        }
    }

    /// The arguments, the extents, and how often something had been replaced then.
    fn snapshot(&self, py: Python<'_>) -> (SmallVec<[Py<PyAny>; 16]>, LaunchDimensions, u64) {
        self.with(|state| {
            let args = state.args.iter().map(|arg| arg.clone_ref(py)).collect();
            (args, state.dimensions.clone(), self.n_changes())
        })
    }

    /// Uses the state. What it must not do is drop an object or run any Python code, because that may come back for the
    /// lock.
    fn with<R>(&self, use_: impl FnOnce(&mut LaunchState) -> R) -> R {
        use_(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self) -> DeviceId {
        self.with(|state| state.dimensions.device)
    }

    /// Replaces something. What is given back is dropped once the lock is free.
    fn change<R>(&self, replace: impl FnOnce(&mut LaunchState) -> R) {
        let outdated = self.with(|state| {
            self.n_changes.fetch_add(1, Ordering::Relaxed);
            replace(state)
        });
        drop(outdated);
    }

    /// Returns how often something of it was replaced.
    pub(crate) fn n_changes(&self) -> u64 {
        self.n_changes.load(Ordering::Relaxed)
    }

    /// Returns true if each run has to look at the arguments: a struct may have other values by then.
    pub(crate) fn is_dynamic(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.kernel.bind(py).get().one()?.has_structs())
    }

    /// The launch with its arguments bound, for the kernel as it is now, with checks or without.
    pub(crate) fn bound(&self, py: Python<'_>) -> PyResult<HeldLaunch> {
        let kernel = self.kernel.bind(py).get().one()?;
        self.known(py, kernel).map_or_else(|| self.make_ready(py, kernel), Ok)
    }

    /// The launch as it is bound, if it is.
    fn known(&self, py: Python<'_>, kernel: &Arc<polyloom::Kernel>) -> Option<HeldLaunch> {
        self.with(|state| {
            let ready = state.ready.as_ref().filter(|ready| ready.is_of(kernel));
            ready.map(|ready| ready.held(py, &state.args))
        })
    }

    #[cold]
    fn make_ready(&self, py: Python<'_>, kernel: &Arc<polyloom::Kernel>) -> PyResult<HeldLaunch> {
        let (args, dimensions, n_changes) = self.snapshot(py);
        let ready = ReadyLaunch::new(py, kernel, &dimensions, &args)?;
        let held = ready.held(py, &args);
        // Another thread may have changed the arguments meanwhile.
        let outdated = self.with(|state| match self.n_changes() == n_changes {
            true => state.ready.replace(ready),
            false => Some(ready),
        });
        drop(outdated);
        Ok(held)
    }
}
