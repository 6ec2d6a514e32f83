//! Launches that Python keeps to run again: `launch(…, record_cmd=True)`.
//!
//! A recorded launch does not look at its arguments when it runs: it keeps them bound.

use crate::arguments::{self, Arguments, Writes};
use crate::boundary::guarded;
use crate::errors::launch_error;
use crate::kernel::Kernel;
use crate::launch_dimensions::{LaunchDimensions, extents_of};
use crate::launch_run::{queue_of, run, run_long};
use crate::tape_recording::{TapeRecording, recorded};
use polyloom::{ArgBlock, BoundLaunch, DeviceId, LaunchOptions};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A bound launch with what its arguments point into.
pub(crate) struct HeldLaunch {
    pub(crate) bound: Arc<BoundLaunch>,
    /// The arguments, and the arrays made of some of them.
    _held: Vec<Py<PyAny>>,
}

impl HeldLaunch {
    fn new(
        py: Python<'_>,
        kernel: &Arc<polyloom::Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Py<PyAny>],
    ) -> PyResult<HeldLaunch> {
        let borrowed: Arguments<'_, '_> = args.iter().map(|a| a.bind_borrowed(py)).collect();
        let (mut block, mut made) = (ArgBlock::new(), SmallVec::new());
        arguments::fill(py, kernel, dimensions.device, &borrowed, &mut block, &mut made, &mut Writes::new())?;
        let held = args.iter().map(|a| a.clone_ref(py)).chain(made.into_iter().map(Bound::unbind)).collect();
        let LaunchDimensions { shape, grid, device, unchecked } = dimensions;
        let options = LaunchOptions { grid: *grid, unchecked: *unchecked, ..LaunchOptions::default() };
        let bound = Arc::new(BoundLaunch::new(kernel.clone(), queue_of(py, *device)?, shape, block, &options));
        Ok(HeldLaunch { bound, _held: held })
    }

    /// Runs the launch.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let bound = &self.bound;
        // SAFETY: this holds the arrays, whose memory NumPy keeps in place; `fill` has checked their types, ranks and that
        // they may be written.
        let short = unsafe { bound.run_if_short() };
        if let Some(done) = short {
            return done.map_err(|error| launch_error(py, bound.kernel(), &error, None));
        }
        // SAFETY: as above.
        run_long(py, bound.kernel(), bound.device(), |options| unsafe { bound.run(options) })
    }
}

struct LaunchState {
    dimensions: LaunchDimensions,
    args: Vec<Py<PyAny>>,
    /// The launch with `args` as the kernel takes them; absent after a change, until the next run.
    ready: Option<Arc<HeldLaunch>>,
}

/// A recorded launch: `launch()` runs it.
///
/// It holds the arguments it was given and goes on using their memory, shape and strides of that time, but of a struct
/// the values that it has when the launch runs. `set_…` methods check what they are given as `polyloom.launch` does.
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
    /// Runs the recorded launch.
    pub(crate) fn launch(&self, py: Python<'_>) -> PyResult<()> {
        let object = self.kernel.bind(py);
        let kernel = object.get().one()?;
        let watched = TapeRecording::now(self.is_recorded);
        if watched != TapeRecording::Nothing {
            let (dimensions, args) = self.with(|state| {
                let args = state.args.iter().map(|a| a.clone_ref(py)).collect::<SmallVec<[Py<PyAny>; 16]>>();
                (state.dimensions.clone(), args)
            });
            let args: SmallVec<[Bound<'_, PyAny>; 16]> = args.into_iter().map(|arg| arg.into_bound(py)).collect();
            let borrowed: Arguments<'_, '_> = args.iter().map(Bound::as_borrowed).collect();
            if watched == TapeRecording::Writes {
                return run(py, kernel, &dimensions, &borrowed, watched);
            }
            return recorded(object, self.over_dim, &dimensions, &borrowed, || {
                run(py, kernel, &dimensions, &borrowed, TapeRecording::Nothing)
            });
        }
        let ready = self.ready(py, kernel)?;
        guarded(|| ready.run(py))
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
        arguments::check(py, kernel, self.device(), index, value.bind(py))?;
        self.change(|state| state.args.get_mut(index).map(|slot| std::mem::replace(slot, value)));
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
        let ready = Arc::new(HeldLaunch::new(py, self.kernel.bind(py).get().one()?, &dimensions, &values)?);
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
        self.change(|state| state.dimensions.set_shape(shape));
        Ok(())
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
    /// A launch for later, over a number of threads or over a grid of blocks.
    pub(crate) fn kept(
        kernel: &Bound<'_, Kernel>,
        args: &Arguments<'_, '_>,
        dimensions: LaunchDimensions,
        over_dim: bool,
        is_recorded: bool,
    ) -> PyResult<Py<RecordedLaunch>> {
        let py = kernel.py();
        let args: Vec<_> = args.iter().map(|arg| (**arg).clone().unbind()).collect();
        let ready = HeldLaunch::new(py, kernel.get().one()?, &dimensions, &args)?;
        let state = Mutex::new(LaunchState { dimensions, args, ready: Some(Arc::new(ready)) });
        let kernel = kernel.clone().unbind();
        Py::new(py, RecordedLaunch { kernel, over_dim, is_recorded, state, n_changes: AtomicU64::new(0) })
    }

    /// Uses the state. What it must not do is drop an object or run any Python code, because that may come back for the
    /// lock.
    fn with<R>(&self, use_: impl FnOnce(&mut LaunchState) -> R) -> R {
        use_(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self) -> DeviceId {
        self.with(|state| state.dimensions.device)
    }

    /// Replaces arguments. What they replace is dropped once the lock is free.
    fn change<R>(&self, replace: impl FnOnce(&mut LaunchState) -> R) {
        let outdated = self.with(|state| {
            self.n_changes.fetch_add(1, Ordering::Relaxed);
            (state.ready.take(), replace(state))
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
    pub(crate) fn bound(&self, py: Python<'_>) -> PyResult<Arc<HeldLaunch>> {
        self.ready(py, self.kernel.bind(py).get().one()?)
    }

    #[inline]
    fn ready(&self, py: Python<'_>, kernel: &Arc<polyloom::Kernel>) -> PyResult<Arc<HeldLaunch>> {
        match self.with(|state| state.ready.clone()) {
            Some(ready) if Arc::ptr_eq(ready.bound.kernel(), kernel) && !kernel.has_structs() => Ok(ready),
            _ => self.make_ready(py, kernel),
        }
    }

    #[cold]
    fn make_ready(&self, py: Python<'_>, kernel: &Arc<polyloom::Kernel>) -> PyResult<Arc<HeldLaunch>> {
        let (args, dimensions, n_changes) = self.with(|state| {
            let args = state.args.iter().map(|a| a.clone_ref(py)).collect::<SmallVec<[Py<PyAny>; 16]>>();
            (args, state.dimensions.clone(), self.n_changes())
        });
        let ready = Arc::new(HeldLaunch::new(py, kernel, &dimensions, &args)?);
        // Another thread may have changed the arguments meanwhile.
        let outdated = self.with(|state| match self.n_changes() == n_changes {
            true => state.ready.replace(ready.clone()),
            false => None,
        });
        drop(outdated);
        Ok(ready)
    }
}
