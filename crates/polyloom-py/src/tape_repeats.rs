//! Launches like those that a tape has recorded before.
//!
//! Programs launch a kernel on the same arrays many times, or on other arrays that are like them. What a tape notes of a
//! launch follows from its kernel, its extents and where its arrays lie, so that a launch like one before it takes no look
//! at the arrays through Python: `polyloom._tape` says once what is to be noted of a launch, and once of each array, and
//! this file does so each time. Whatever is not as it was then, such as memory that somebody else has written to, is left
//! to Python, which says what is wrong.

use crate::argument_numbers;
use crate::kernel::Kernel;
use crate::launch_dimensions::{LaunchDimensions, Shape};
use crate::launch_memo::ArraySnapshot;
use crate::tape_region::RegionState;
use crate::view::ViewBase;
use numpy::npyffi;
use polyloom::{DeviceId, Scalar, Type};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most launches that a tape knows; of more it begins anew, so that a tape of many different ones stays small.
const MOST_LAUNCHES: usize = 4096;

/// An array that a launch writes: its region, its `View`, and the NumPy array.
type WrittenView = (Py<RegionState>, Py<PyAny>, Py<PyAny>);
/// An array that a launch overwrites and the way back reads: a `View` and a copy.
type KeptCopy = (Py<PyAny>, Py<PyAny>);
/// The answer of `polyloom._tape` for an array: its view, the NumPy array, its region, and [`KnownArray::is_only`].
type ArrayParts = (Py<ViewBase>, Py<PyAny>, Py<RegionState>, bool);

/// The launches that a tape has recorded since it last began anew, and the list of its operations.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct LaunchLog {
    operations: Py<PyList>,
    known: Mutex<KnownLaunches>,
}

#[derive(Default)]
struct KnownLaunches {
    /// The launches by kernel, arrays and integers.
    same: FxHashMap<u64, KnownLaunch>,
    /// The patterns by kernel, layouts and integers.
    alike: FxHashMap<u64, Arc<LaunchPattern>>,
    /// The arrays by the address of the object.
    arrays: FxHashMap<usize, Arc<KnownArray>>,
}

enum KnownLaunch {
    /// Recorded once.
    Seen,
    Repeatable(Arc<RepeatableLaunch>),
}

/// A launch on certain arrays of which a tape knows what there is to note.
struct RepeatableLaunch {
    kernel: Py<Kernel>,
    shape: Shape,
    arguments: SmallVec<[RecordedArgument; 8]>,
    /// The `Launched` that is noted if nothing was kept.
    operation: Py<PyAny>,
    regions: NotedRegions,
}

/// The regions that a launch notes something of.
#[derive(Default)]
struct NotedRegions {
    /// Those of all arrays.
    all: SmallVec<[Py<RegionState>; 4]>,
    /// Those of the arrays that the way back reads as they were before it.
    needed: SmallVec<[Py<RegionState>; 4]>,
    /// The arrays that it writes.
    written: SmallVec<[WrittenView; 4]>,
    /// Those of the arrays that the way back reads as the launch has left them.
    needed_after: SmallVec<[Py<RegionState>; 4]>,
}

/// A launch on any arrays that lie in memory as those of one that was recorded.
struct LaunchPattern {
    kernel: Py<Kernel>,
    shape: Shape,
    arguments: SmallVec<[RecordedArgument; 8]>,
    /// The `Launched` of that launch.
    operation: Py<PyAny>,
    roles: SmallVec<[ArgumentRole; 8]>,
    /// True if derivatives flow through it, so that no array that it writes may be another one.
    is_active: bool,
}

/// Describes what becomes of an argument.
#[derive(Clone, Copy, Default)]
struct ArgumentRole {
    is_needed: bool,
    is_written: bool,
    is_needed_after: bool,
}

impl ArgumentRole {
    fn is_touched(self) -> bool {
        self.is_needed || self.is_written || self.is_needed_after
    }
}

/// An argument of a launch that was recorded. The operation holds the object.
enum RecordedArgument {
    Array(ArraySnapshot),
    Number(Scalar, u64),
}

/// An array that a tape has noted.
struct KnownArray {
    snapshot: ArraySnapshot,
    /// The array, which is held because another one may come to its address.
    array: Py<PyAny>,
    view: Py<ViewBase>,
    storage: Py<PyAny>,
    region: Py<RegionState>,
    /// True if it is known of its region whether this is the array that is needed and overwritten, and if it is.
    is_touched: bool,
    is_only: bool,
    /// True if the region knows that it is written.
    is_written: bool,
}

/// The answer of `polyloom._tape` for a launch: its operation, and regions and arrays as in [`NotedRegions`].
type RepeatableParts = (Py<PyAny>, Vec<Py<RegionState>>, Vec<Py<RegionState>>, Vec<WrittenView>, Vec<Py<RegionState>>);

/// Says how a launch that is about to be recorded compares with those in a log.
pub(crate) enum LogEntry {
    /// It is like one that is known.
    Known(StartedRepeat),
    /// Python has to record it; if that was so before, it may be known from then on.
    Unknown { is_second: bool },
}

/// A launch that is like a known one and about to run.
pub(crate) struct StartedRepeat {
    operation: Py<PyAny>,
    noted: NotedLaunch,
    kept: Vec<KeptCopy>,
}

enum NotedLaunch {
    /// It has the same arrays; the arguments, if numbers among them are others.
    Same(Arc<RepeatableLaunch>, Option<Py<PyTuple>>),
    /// It has other arrays: the arguments, and the `View`s of those that are arrays.
    Alike(Box<NotedRegions>, Py<PyTuple>, Vec<Option<Py<ViewBase>>>),
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

    /// A function that a tape has recorded may refer to the tape.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.operations)?;
        let Ok(known) = self.known.try_lock() else { return Ok(()) };
        for launch in known.same.values() {
            if let KnownLaunch::Repeatable(launch) = launch {
                visit.call(&launch.kernel)?;
                visit.call(&launch.operation)?;
                launch.regions.traverse(&visit)?;
            }
        }
        for pattern in known.alike.values() {
            visit.call(&pattern.kernel)?;
            visit.call(&pattern.operation)?;
        }
        for array in known.arrays.values() {
            visit.call(&array.array)?;
            visit.call(&array.view)?;
            visit.call(&array.storage)?;
            visit.call(&array.region)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.clear();
    }
}

impl LaunchLog {
    /// Locks what is known. Whoever holds the lock runs no Python code and drops no object.
    fn known(&self) -> MutexGuard<'_, KnownLaunches> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a launch is going to overwrite, if it is like one that is known.
    ///
    /// # Errors
    ///
    /// If there is no memory for that, or what Python raises about an array.
    pub(crate) fn begin(
        &self,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
    ) -> PyResult<LogEntry> {
        if dimensions.device != DeviceId::Cpu || dimensions.grid.is_some() {
            return Ok(LogEntry::Unknown { is_second: false });
        }
        let hash = hash_of(kernel, dimensions, args, |arg| arg.as_ptr() as usize);
        let launch = {
            let mut known = self.known();
            if known.same.len() >= MOST_LAUNCHES || known.arrays.len() >= MOST_LAUNCHES {
                let forgotten = std::mem::take(&mut *known);
                drop(known);
                drop(forgotten);
                return Ok(LogEntry::Unknown { is_second: false });
            }
            match known.same.get(&hash) {
                Some(KnownLaunch::Repeatable(launch)) => Some(launch.clone()),
                Some(KnownLaunch::Seen) => return Ok(LogEntry::Unknown { is_second: true }),
                None => {
                    known.same.insert(hash, KnownLaunch::Seen);
                    None
                }
            }
        };
        let Some(launch) = launch else {
            let started = self.begin_alike(kernel, dimensions, args)?;
            return Ok(started.map_or(LogEntry::Unknown { is_second: false }, LogEntry::Known));
        };
        match launch.begin(kernel, dimensions, args)? {
            Some(started) => Ok(LogEntry::Known(started)),
            None => Ok(LogEntry::Unknown { is_second: true }),
        }
    }

    /// [`LaunchLog::begin`] of a launch on arrays that it was not on before.
    fn begin_alike(
        &self,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
    ) -> PyResult<Option<StartedRepeat>> {
        let py = kernel.py();
        let hash = hash_of(kernel, dimensions, args, layout_hash);
        let Some(pattern) = self.known().alike.get(&hash).cloned() else { return Ok(None) };
        if !kernel.is(&pattern.kernel) || dimensions.shape != pattern.shape || args.len() != pattern.arguments.len() {
            return Ok(None);
        }
        let mut arrays: SmallVec<[Option<Arc<KnownArray>>; 8]> = SmallVec::new();
        for ((arg, known), &role) in args.iter().zip(&pattern.arguments).zip(&pattern.roles) {
            match known {
                RecordedArgument::Array(like) => {
                    let snapshot = ArraySnapshot::of(py, arg).filter(|snapshot| like.is_like(snapshot));
                    let Some(snapshot) = snapshot else { return Ok(None) };
                    let Some(array) = self.known_array(arg, snapshot, role)? else { return Ok(None) };
                    arrays.push(Some(array));
                }
                &RecordedArgument::Number(scalar, bits) => {
                    let given = is_number(arg).then(|| argument_numbers::scalar_argument(arg, scalar).ok()).flatten();
                    if given.is_none() || given != Some(bits) && !scalar.is_float() {
                        return Ok(None);
                    }
                    arrays.push(None);
                }
            }
        }
        let mut noted = NotedRegions::default();
        for (number, (array, &role)) in arrays.iter().zip(&pattern.roles).enumerate() {
            let Some(array) = array else { continue };
            let others = || arrays.iter().enumerate().filter(|(other, _)| *other != number);
            let meets = |other: &Option<Arc<KnownArray>>| {
                other.as_ref().is_some_and(|other| array.view.get().meets(other.view.get()))
            };
            if role.is_touched() && !array.is_only
                || role.is_written && pattern.is_active && others().any(|(_, other)| meets(other))
            {
                return Ok(None);
            }
            let region = || array.region.clone_ref(py);
            noted.all.push(region());
            noted.needed.extend(role.is_needed.then(region));
            noted.needed_after.extend(role.is_needed_after.then(region));
            if role.is_written {
                noted.written.push((region(), array.view.clone_ref(py).into_any(), array.storage.clone_ref(py)));
            }
        }
        let Some(kept) = noted.begin(py)? else { return Ok(None) };
        let views = arrays.iter().map(|array| array.as_ref().map(|array| array.view.clone_ref(py))).collect();
        let noted = NotedLaunch::Alike(Box::new(noted), PyTuple::new(py, args.iter())?.unbind(), views);
        Ok(Some(StartedRepeat { operation: pattern.operation.clone_ref(py), noted, kept }))
    }

    /// Returns the facts known of an array, for which Python is asked if that is not enough; nothing if launches on it are left to
    /// Python.
    fn known_array(
        &self,
        arg: &Bound<'_, PyAny>,
        snapshot: ArraySnapshot,
        role: ArgumentRole,
    ) -> PyResult<Option<Arc<KnownArray>>> {
        let py = arg.py();
        let address = arg.as_ptr() as usize;
        let known = self.known().arrays.get(&address).cloned();
        if let Some(known) = known
            && known.snapshot == snapshot
            && (known.is_touched || !role.is_touched())
            && (known.is_written || !role.is_written)
            && known.region.borrow(py).is_current
        {
            return Ok(Some(known));
        }
        let said = py.import("polyloom._tape")?.call_method1("know", (arg, role.is_touched(), role.is_written))?;
        let said: Option<ArrayParts> = said.extract()?;
        let Some((view, storage, region, is_only)) = said else { return Ok(None) };
        let known = Arc::new(KnownArray {
            snapshot,
            array: arg.clone().unbind(),
            view,
            storage,
            region,
            is_touched: role.is_touched(),
            is_only,
            is_written: role.is_written,
        });
        let before = self.known().arrays.insert(address, known.clone());
        drop(before);
        Ok(Some(known))
    }

    /// Knows a launch, which Python has just recorded, from now on; `recording` is what it has made of it, and if this is
    /// not the first time, launches on the same arrays are known, too.
    ///
    /// # Errors
    ///
    /// The error that `recording` raises.
    pub(crate) fn learn(
        &self,
        kernel: &Bound<'_, Kernel>,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
        recording: &Bound<'_, PyAny>,
        is_second: bool,
    ) -> PyResult<()> {
        if dimensions.device != DeviceId::Cpu || dimensions.grid.is_some() {
            return Ok(());
        }
        if is_second {
            let Some(arguments) = recorded_arguments(kernel, args)? else { return Ok(()) };
            let parts: Option<RepeatableParts> = recording.call_method0("repeatable")?.extract()?;
            let Some((operation, all, needed, written, needed_after)) = parts else { return Ok(()) };
            let regions = NotedRegions {
                all: all.into(),
                needed: needed.into(),
                written: written.into(),
                needed_after: needed_after.into(),
            };
            let (shape, kernel_of) = (dimensions.shape.clone(), kernel.clone().unbind());
            let launch = RepeatableLaunch { kernel: kernel_of, shape, arguments, operation, regions };
            let hash = hash_of(kernel, dimensions, args, |arg| arg.as_ptr() as usize);
            let before = self.known().same.insert(hash, KnownLaunch::Repeatable(Arc::new(launch)));
            drop(before);
            return Ok(());
        }
        let hash = hash_of(kernel, dimensions, args, layout_hash);
        if self.known().alike.contains_key(&hash) {
            return Ok(());
        }
        let Some(arguments) = recorded_arguments(kernel, args)? else { return Ok(()) };
        let said: Option<(Py<PyAny>, bool, [Vec<usize>; 3])> = recording.call_method0("pattern")?.extract()?;
        let Some((operation, is_active, [needed, written, needed_after])) = said else { return Ok(()) };
        let role = |number: usize| ArgumentRole {
            is_needed: needed.contains(&number),
            is_written: written.contains(&number),
            is_needed_after: needed_after.contains(&number),
        };
        let roles = (0..arguments.len()).map(role).collect();
        let (shape, kernel) = (dimensions.shape.clone(), kernel.clone().unbind());
        let pattern = LaunchPattern { kernel, shape, arguments, operation, roles, is_active };
        let before = self.known().alike.insert(hash, Arc::new(pattern));
        drop(before);
        Ok(())
    }
}

/// Returns what a log keeps of arguments; nothing if that is not enough to tell others from them.
fn recorded_arguments(
    kernel: &Bound<'_, Kernel>,
    args: &[Borrowed<'_, '_, PyAny>],
) -> PyResult<Option<SmallVec<[RecordedArgument; 8]>>> {
    let code = kernel.get().one()?;
    if code.has_structs() || args.len() != code.types().len() {
        return Ok(None);
    }
    let argument = |(arg, ty): (&Borrowed<'_, '_, PyAny>, &Type)| match *ty {
        Type::Scalar(scalar) if is_number(arg) => {
            argument_numbers::scalar_argument(arg, scalar).ok().map(|bits| RecordedArgument::Number(scalar, bits))
        }
        Type::Scalar(_) | Type::Composite(_) => None,
        _ => ArraySnapshot::of(kernel.py(), arg).map(RecordedArgument::Array),
    };
    Ok(args.iter().zip(code.types()).map(argument).collect())
}

impl NotedRegions {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for region in self.all.iter().chain(&self.needed).chain(&self.needed_after) {
            visit.call(region)?;
        }
        for (region, view, storage) in &self.written {
            visit.call(region)?;
            visit.call(view)?;
            visit.call(storage)?;
        }
        Ok(())
    }

    /// Notes what a launch is going to overwrite, and gives what of that is kept: `View`s and copies. Nothing if memory is
    /// not as operations have left it, or is seen as several arrays.
    fn begin(&self, py: Python<'_>) -> PyResult<Option<Vec<KeptCopy>>> {
        for region in &self.all {
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
        Ok(Some(kept))
    }

    /// Notes what a launch has left.
    fn finish(&self, py: Python<'_>) {
        for (region, ..) in &self.written {
            RegionState::mark(region.bind(py));
        }
        for region in &self.needed_after {
            region.borrow_mut(py).is_needed = true;
        }
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
        let Some(kept) = self.regions.begin(py)? else { return Ok(None) };
        let args = if has_other_numbers { Some(PyTuple::new(py, args.iter())?.unbind()) } else { None };
        let operation = self.operation.clone_ref(py);
        Ok(Some(StartedRepeat { operation, noted: NotedLaunch::Same(self.clone(), args), kept }))
    }
}

impl StartedRepeat {
    /// Notes that the launch has ended as `done` says, which is returned.
    ///
    /// # Errors
    ///
    /// That, or what Python raises.
    pub(crate) fn finish(self, py: Python<'_>, log: &LaunchLog, done: PyResult<()>) -> PyResult<()> {
        let StartedRepeat { operation, noted, kept } = self;
        let operation = operation.into_bound(py);
        let operation = match &noted {
            NotedLaunch::Same(_, None) if kept.is_empty() => operation,
            NotedLaunch::Same(_, args) => operation.call_method1("again", (kept, args))?,
            NotedLaunch::Alike(_, args, views) => {
                let views: Vec<_> = views.iter().map(|view| view.as_ref().map(|view| view.bind(py))).collect();
                operation.call_method1("alike", (kept, args, views))?
            }
        };
        if done.is_err() {
            let told = py.import("polyloom._tape")?.call_method1("repeat_failed", (operation,));
            // The launch's own error comes first, because the tape's may follow from it.
            done?;
            return told.map(drop);
        }
        match &noted {
            NotedLaunch::Same(launch, _) => launch.regions.finish(py),
            NotedLaunch::Alike(regions, ..) => regions.finish(py),
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

/// Brings arrays of the same layout together.
fn layout_hash(arg: &Bound<'_, PyAny>) -> usize {
    ArraySnapshot::of(arg.py(), arg).map_or(0, |array| array.layout_hash() as usize)
}

/// Brings launches of one kernel together, over the same extents, with the same integers and with what `of_array` says of
/// arrays.
fn hash_of(
    kernel: &Bound<'_, Kernel>,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, '_, PyAny>],
    of_array: impl Fn(&Bound<'_, PyAny>) -> usize,
) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_usize(kernel.as_ptr() as usize);
    dimensions.shape.hash(&mut hasher);
    for arg in args {
        hasher.write_usize(match () {
            () if arg.is_exact_instance_of::<PyFloat>() => 0,
            () if arg.is_exact_instance_of::<PyInt>() => arg.hash().unwrap_or(0) as usize,
            () => of_array(arg),
        });
    }
    hasher.finish()
}
