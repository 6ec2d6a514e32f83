//! Launches that a tape records again.
//!
//! Programs launch a kernel on the same arrays many times. What a tape notes of a launch follows from its kernel, its
//! extents and where its arrays lie, so that a launch like one before it takes no look at the arrays through Python:
//! `polyloom._tape` says once what is to be noted, and this file does so each time. Whatever is not as it was then, such as
//! memory that somebody else has written to, is left to Python, which says what is wrong.

use crate::argument_numbers;
use crate::kernel::Kernel;
use crate::launch_dimensions::{LaunchDimensions, Shape};
use crate::launch_memo::ArraySnapshot;
use numpy::npyffi;
use polyloom::{DeviceId, Scalar, Type};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most launches that a tape knows; of more it begins anew, so that a tape of many different ones stays small.
const MOST_LAUNCHES: usize = 4096;
/// Fewer bytes are summed up with the GIL, because giving it up takes longer.
const LEAST_WITHOUT_GIL: usize = 1 << 14;

/// What changes with each launch of what a tape knows of a region: base class of `polyloom._history.Region`.
#[pyclass(subclass, module = "polyloom._native")]
pub(crate) struct RegionState {
    /// Says what has changed the memory without being recorded; empty if nothing has.
    #[pyo3(get, set)]
    changed: String,
    /// True if it has not become part of another region.
    #[pyo3(get, set)]
    is_current: bool,
    /// True if all that is needed and overwritten is one array.
    #[pyo3(get, set)]
    is_single: bool,
    /// True if the way back reads that array as it is.
    #[pyo3(get, set)]
    is_needed: bool,
    /// The address and the number of the bytes that others may write to, as far as operations were given them.
    #[pyo3(get)]
    watched: Option<(usize, usize)>,
    sum: u64,
}

#[pymethods]
impl RegionState {
    #[new]
    #[pyo3(signature = (*_given))]
    fn new(_given: &Bound<'_, PyTuple>) -> RegionState {
        let changed = String::new();
        RegionState { changed, is_current: true, is_single: true, is_needed: false, watched: None, sum: 0 }
    }

    /// Watches so many bytes, which the caller holds, from an address on.
    fn watch_bytes(this: &Bound<'_, RegionState>, address: usize, n_bytes: usize) {
        this.borrow_mut().watched = Some((address, n_bytes));
        RegionState::mark(this);
    }

    /// Takes what it holds now for what recorded operations have left there.
    fn mark(this: &Bound<'_, RegionState>) {
        if let Some(sum) = RegionState::sum_of(this) {
            this.borrow_mut().sum = sum;
        }
    }

    /// Returns true if it holds what recorded operations have left there, as far as it is watched.
    fn is_intact(this: &Bound<'_, RegionState>) -> bool {
        RegionState::sum_of(this).is_none_or(|sum| this.borrow().sum == sum)
    }
}

impl RegionState {
    /// The checksum of what is watched. No reference to the state is held meanwhile, because another thread may use it.
    fn sum_of(this: &Bound<'_, RegionState>) -> Option<u64> {
        let (address, n_bytes) = this.borrow().watched?;
        // SAFETY: whoever has the bytes watched holds the array that they are of, and NumPy does not free memory that a
        // reference is held to. Other threads of Python may write to it meanwhile, by NumPy and other libraries or by
        // launches, none of which is Rust code: such bytes count or do not. Only an operation of the package that has no
        // launch, as `zero_`, writes by Rust code; a program that runs one on an array in one thread and a launch on it in
        // another has a race of its own.
        let sum = || unsafe { polyloom::checksum(address, n_bytes) };
        Some(if n_bytes < LEAST_WITHOUT_GIL { sum() } else { this.py().detach(sum) })
    }
}

/// The launches that a tape has recorded since it last began anew, and the list of its operations.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct LaunchLog {
    operations: Py<PyList>,
    known: Mutex<FxHashMap<u64, KnownLaunch>>,
}

enum KnownLaunch {
    /// Recorded once.
    Seen,
    Repeatable(Arc<RepeatableLaunch>),
}

/// A launch of which a tape knows what there is to note.
struct RepeatableLaunch {
    kernel: Py<Kernel>,
    shape: Shape,
    arguments: SmallVec<[RecordedArgument; 8]>,
    /// The `Launched` that is noted if nothing was kept.
    operation: Py<PyAny>,
    /// The regions of all of its arrays.
    regions: SmallVec<[Py<RegionState>; 4]>,
    /// Those of the arrays that the way back reads as they were before it.
    needed: SmallVec<[Py<RegionState>; 4]>,
    /// The arrays that it writes: their regions, `View`s, and NumPy arrays.
    written: SmallVec<[(Py<RegionState>, Py<PyAny>, Py<PyAny>); 4]>,
    /// The regions of the arrays that the way back reads as it has left them.
    needed_after: SmallVec<[Py<RegionState>; 4]>,
}

/// An argument of a launch that was recorded. The operation holds the object.
enum RecordedArgument {
    Array(ArraySnapshot),
    Number(Scalar, u64),
}

/// What `polyloom._tape` says of a launch: its operation, and regions and arrays as in [`RepeatableLaunch`].
type RepeatableParts<'py> = (
    Py<PyAny>,
    Vec<Py<RegionState>>,
    Vec<Py<RegionState>>,
    Vec<(Py<RegionState>, Py<PyAny>, Py<PyAny>)>,
    Vec<Py<RegionState>>,
);

/// What a log says of a launch that is about to be recorded.
pub(crate) enum LogEntry {
    /// It is one that is known.
    Known(StartedRepeat),
    /// Python has to record it; if that was so before, it may be known from then on.
    Unknown { is_second: bool },
}

/// A launch that is known and about to run.
pub(crate) struct StartedRepeat {
    launch: Arc<RepeatableLaunch>,
    /// What it overwrites and the way back reads: `View`s and copies.
    kept: Vec<(Py<PyAny>, Py<PyAny>)>,
    /// The arguments, if they are others than those of the known launch.
    args: Option<Py<PyTuple>>,
}

#[pymethods]
impl LaunchLog {
    #[new]
    fn new(operations: Py<PyList>) -> LaunchLog {
        LaunchLog { operations, known: Mutex::default() }
    }

    /// Forgets the launches.
    fn clear(&self) {
        let forgotten = std::mem::take(&mut *self.known());
        drop(forgotten);
    }
}

impl LaunchLog {
    /// The launches. Whoever holds the lock runs no Python code and drops no object.
    fn known(&self) -> MutexGuard<'_, FxHashMap<u64, KnownLaunch>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a launch is going to overwrite, if it is known.
    ///
    /// # Errors
    ///
    /// If there is no memory for that.
    pub(crate) fn begin(
        &self,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
    ) -> PyResult<LogEntry> {
        if dimensions.device != DeviceId::Cpu || dimensions.grid.is_some() {
            return Ok(LogEntry::Unknown { is_second: false });
        }
        let hash = hash_of(kernel, args);
        let launch = {
            let mut known = self.known();
            match known.get(&hash) {
                Some(KnownLaunch::Repeatable(launch)) => launch.clone(),
                Some(KnownLaunch::Seen) => return Ok(LogEntry::Unknown { is_second: true }),
                None if known.len() < MOST_LAUNCHES => {
                    known.insert(hash, KnownLaunch::Seen);
                    return Ok(LogEntry::Unknown { is_second: false });
                }
                None => {
                    let forgotten = std::mem::take(&mut *known);
                    drop(known);
                    drop(forgotten);
                    return Ok(LogEntry::Unknown { is_second: false });
                }
            }
        };
        match launch.begin(kernel, dimensions, args)? {
            Some(started) => Ok(LogEntry::Known(started)),
            None => Ok(LogEntry::Unknown { is_second: true }),
        }
    }

    /// Knows a launch, which Python has just recorded, from now on; `recording` is what it has made of it.
    ///
    /// # Errors
    ///
    /// What `recording` raises.
    pub(crate) fn learn(
        &self,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
        recording: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = kernel.py();
        let code = kernel.get().one()?;
        if code.has_structs() || args.len() != code.types().len() {
            return Ok(());
        }
        let snapshot = |(arg, ty): (&Borrowed<'_, '_, PyAny>, &Type)| match *ty {
            Type::Scalar(scalar) if is_number(arg) => {
                argument_numbers::scalar_argument(arg, scalar).ok().map(|bits| RecordedArgument::Number(scalar, bits))
            }
            Type::Scalar(_) | Type::Composite(_) => None,
            _ => ArraySnapshot::of(py, arg).map(RecordedArgument::Array),
        };
        let Some(arguments) = args.iter().zip(code.types()).map(snapshot).collect() else { return Ok(()) };
        let parts: Option<RepeatableParts<'_>> = recording.call_method0("repeatable")?.extract()?;
        let Some((operation, regions, needed, written, needed_after)) = parts else { return Ok(()) };
        let launch = RepeatableLaunch {
            kernel: kernel.clone().unbind(),
            shape: dimensions.shape.clone(),
            arguments,
            operation,
            regions: regions.into(),
            needed: needed.into(),
            written: written.into(),
            needed_after: needed_after.into(),
        };
        let before = self.known().insert(hash_of(kernel, args), KnownLaunch::Repeatable(Arc::new(launch)));
        drop(before);
        Ok(())
    }
}

impl RepeatableLaunch {
    /// Notes what the launch is going to overwrite. Nothing if it is another launch, or if its arrays are not as they were
    /// left.
    fn begin(
        self: &Arc<Self>,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
    ) -> PyResult<Option<StartedRepeat>> {
        let py = kernel.py();
        if !kernel.is(&self.kernel) || dimensions.shape != self.shape || args.len() != self.arguments.len() {
            return Ok(None);
        }
        let mut has_other_numbers = false;
        for (arg, known) in args.iter().zip(&self.arguments) {
            match known {
                RecordedArgument::Array(array) if array.is_of(py, arg) => {}
                RecordedArgument::Array(_) => return Ok(None),
                &RecordedArgument::Number(scalar, bits) => {
                    let given = is_number(arg).then(|| argument_numbers::scalar_argument(arg, scalar).ok()).flatten();
                    match given {
                        Some(given) if given == bits => {}
                        // What the way back needs may depend on integers.
                        Some(_) if scalar.is_float() => has_other_numbers = true,
                        _ => return Ok(None),
                    }
                }
            }
        }
        for region in &self.regions {
            let region = region.bind(py);
            let is_known = {
                let state = region.borrow();
                state.is_current && state.changed.is_empty()
            };
            if !is_known || !RegionState::is_intact(region) {
                return Ok(None);
            }
        }
        let written = self.written.iter().map(|(region, ..)| region);
        if !self.needed.iter().chain(written).chain(&self.needed_after).all(|region| region.borrow(py).is_single) {
            return Ok(None);
        }
        for region in &self.needed {
            region.borrow_mut(py).is_needed = true;
        }
        let mut kept = Vec::new();
        for (region, view, storage) in &self.written {
            if region.borrow(py).is_needed {
                kept.push((view.clone_ref(py), copy_of(storage.bind(py))?));
                region.borrow_mut(py).is_needed = false;
            }
        }
        let args = if has_other_numbers { Some(PyTuple::new(py, args.iter())?.unbind()) } else { None };
        Ok(Some(StartedRepeat { launch: self.clone(), kept, args }))
    }
}

impl StartedRepeat {
    /// Notes that the launch has ended as `done` says, which is returned.
    ///
    /// # Errors
    ///
    /// That, or what Python raises.
    pub(crate) fn finish(self, py: Python<'_>, log: &LaunchLog, done: PyResult<()>) -> PyResult<()> {
        let StartedRepeat { launch, kept, args } = self;
        let operation = match (&kept[..], &args) {
            ([], None) => launch.operation.bind(py).clone(),
            _ => launch.operation.bind(py).call_method1("again", (kept, args))?,
        };
        if done.is_err() {
            py.import("polyloom._tape")?.call_method1("repeat_failed", (operation,))?;
            return done;
        }
        for (region, ..) in &launch.written {
            RegionState::mark(region.bind(py));
        }
        for region in &launch.needed_after {
            region.borrow_mut(py).is_needed = true;
        }
        log.operations.bind(py).append(operation)
    }
}

/// A copy of a NumPy array.
fn copy_of(array: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = array.py();
    // SAFETY: `_history` gives the arrays of views, which are NumPy's; the result is a new reference or null.
    unsafe {
        let copy = npyffi::PY_ARRAY_API.PyArray_NewCopy(py, array.as_ptr().cast(), npyffi::NPY_ORDER::NPY_KEEPORDER);
        Bound::from_owned_ptr_or_err(py, copy.cast()).map(Bound::unbind)
    }
}

/// Returns true if an argument is a number of Python's, of which an operation needs no copy.
fn is_number(arg: &Bound<'_, PyAny>) -> bool {
    arg.is_exact_instance_of::<PyFloat>() || arg.is_exact_instance_of::<PyInt>()
}

/// Brings launches of one kernel on the same arrays and with the same integers together.
fn hash_of(kernel: &Bound<'_, Kernel>, args: &[Borrowed<'_, '_, PyAny>]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_usize(kernel.as_ptr() as usize);
    for arg in args {
        hasher.write_isize(match () {
            () if arg.is_exact_instance_of::<PyFloat>() => 0,
            () if arg.is_exact_instance_of::<PyInt>() => arg.hash().unwrap_or(0),
            () => arg.as_ptr() as isize,
        });
    }
    hasher.finish()
}
