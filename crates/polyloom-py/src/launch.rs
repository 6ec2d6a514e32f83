//! Launching from Python.
//!
//! A warm launch of a small kernel is a few hundred nanoseconds, so this path allocates nothing and touches no Python
//! object beyond the arguments' own fields and, where a list holds them, their reference counts.

use crate::arguments::{Writes, WrittenArray};
use crate::boundary::guarded;
use crate::errors::{device_error, launch_error};
use crate::kernel::Kernel;
use crate::launch_memo::TakenMemo;
use crate::recorded_launch::RecordedLaunch;
use crate::structure::by_value;
use crate::{device, print, sim};
use polyloom::{ArgBlock, CpuQueue, DeviceId, LaunchConfig, LaunchError, LaunchOptions, LaunchStats, MAX_DIMS, Queue};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

type Shape = SmallVec<[u64; MAX_DIMS]>;
pub(crate) type Arguments<'a, 'py> = SmallVec<[Borrowed<'a, 'py, PyAny>; 16]>;

/// Runs a kernel once per thread of a grid.
///
/// Parameters
/// ----------
/// kernel : Kernel
///     What to run.
/// dim : int or tuple of int
///     Number of threads, along up to four axes. Left out where `grid` says how many there are.
/// inputs, outputs : sequence
///     The arguments in the order of the kernel's parameters; the outputs follow the inputs. Arrays are NumPy arrays,
///     `polyloom.array`s, and anything with DLPack or `__array_interface__`; on the CPU they are passed without a copy.
/// device : str, optional
///     `"cpu"`; `"sim:0"`, the simulator of a GPU, of which `polyloom.sim` has settings and reports; or `"cuda:0"` and
///     so on, an NVIDIA GPU. By default the one that the kernel's decorator names, else the one that `set_device`
///     or `ScopedDevice` names, `"cpu"` at first. Arrays
///     of the package are on the launch's device; NumPy arrays and others in the host's memory are copied to the device
///     and, if the kernel writes them, back.
/// record_cmd : bool
///     Give a `Launch` to run later, any number of times, instead of running now.
/// block_dim : int or tuple of int, optional
///     Threads of a block, for kernels with barriers, shared memory or warp operations; unless it is given, what the
///     kernel's decorator says, or 256. Other kernels know no blocks on the CPU.
/// grid, block : int or tuple of int, optional
///     Instead of `dim`: how many blocks, along up to three axes, and how many threads each has.
/// shared_bytes : int, optional
///     Dynamic shared memory of each block, in bytes.
/// adjoint : bool
///     Run the backward kernel instead, which carries derivatives from what the kernel wrote to what it read. Arrays
///     hold what they held before the launch of the kernel itself. Gives what memory that took, as `Tape.memory` does.
/// adj_inputs, adj_outputs : sequence
///     With `adjoint`, for each of the inputs and outputs the array of its gradient; of a scalar, an array of one
///     element; of a struct, another, to whose numbers is added. Without one, or for all if the list is left out, it is
///     the `grad` of an array that has it, and otherwise none. Gradients of what the kernel wrote are taken, the others
///     are added to; none is in the memory of an argument.
/// accumulate : bool
///     With `adjoint`, whether gradients are added to. With False, those of arrays and numbers that the kernel only reads
///     are written, whatever they held, and those of arrays that it only writes are left as they are, which takes less
///     time; those of arrays that it both reads and writes are replaced, as ever.
/// record_tape : bool
///     Whether an active `Tape` records the launch; with `record_cmd`, those of the `Launch`.
/// unchecked : bool
///     Whether to launch without comparing the kernel's indices with the extents of the arrays, as far as they are known
///     before it runs: `Kernel.accesses` says which are.
/// max_blocks, stream
///     Taken for programs written for Warp; `max_blocks` is without effect, and there are no streams.
///
/// Raises
/// ------
/// TypeError, ValueError, OverflowError
///     If an argument does not fit; the message names it.
/// CompileError
///     With `adjoint` or under a `Tape`, if the kernel has no derivative, or the launch none since its threads race.
/// RuntimeError
///     Under a `Tape`, if something that is not recorded has changed an array.
/// DeviceError
///     If the device is not there, has too little memory, or fails.
/// LaunchError
///     If a thread would access an array outside its extents, before anything runs; if a check of a checked kernel fails.
///
/// Examples
/// --------
/// >>> import numpy as np, polyloom as loom
/// >>> @loom.kernel
/// ... def add(a: loom.array(dtype=float), b: loom.array(dtype=float), c: loom.array(dtype=float)):
/// ...     i = loom.tid()
/// ...     c[i] = a[i] + b[i]
/// >>> a = np.arange(3, dtype=np.float32)
/// >>> c = np.zeros(3, np.float32)
/// >>> loom.launch(add, dim=3, inputs=[a, a], outputs=[c])
/// >>> c
/// array([0., 2., 4.], dtype=float32)
#[pyfunction]
#[pyo3(signature = (
    kernel, dim = None, inputs = None, outputs = None, device = None, record_cmd = false, *, adj_inputs = None,
    adj_outputs = None, stream = None, adjoint = false, accumulate = true, record_tape = None, max_blocks = None, block_dim = None,
    grid = None, block = None, shared_bytes = None, unchecked = false
))]
#[expect(clippy::too_many_arguments, reason = "they are those of Warp's function")]
pub(crate) fn launch<'py>(
    py: Python<'py>,
    kernel: &Bound<'py, PyAny>,
    dim: Option<&Bound<'py, PyAny>>,
    inputs: Option<&Bound<'py, PyAny>>,
    outputs: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    record_cmd: bool,
    adj_inputs: Option<&Bound<'py, PyAny>>,
    adj_outputs: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
    adjoint: bool,
    accumulate: bool,
    record_tape: Option<&Bound<'py, PyAny>>,
    max_blocks: Option<&Bound<'py, PyAny>>,
    block_dim: Option<&Bound<'py, PyAny>>,
    grid: Option<&Bound<'py, PyAny>>,
    block: Option<&Bound<'py, PyAny>>,
    shared_bytes: Option<&Bound<'py, PyAny>>,
    unchecked: bool,
) -> PyResult<Option<Py<PyAny>>> {
    let _without_effect = max_blocks;
    if stream.is_some() {
        return Err(PyValueError::new_err("streams are not there: launches run one after the other, without stream"));
    }
    let mut gradients = [adj_inputs, adj_outputs].into_iter().flatten();
    if !adjoint && gradients.any(|sequence| sequence.len().is_ok_and(|n| n > 0)) {
        return Err(PyValueError::new_err("adj_inputs and adj_outputs are gradients, for adjoint=True"));
    }
    if !adjoint && !accumulate {
        return Err(PyValueError::new_err("accumulate=False is about gradients, for adjoint=True"));
    }
    let kernel = kernel.cast::<Kernel>().map_err(|_| {
        let name = kernel.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("launch() needs a kernel (a function under @polyloom.kernel), not {name}"))
    })?;
    for sequence in [inputs, outputs].into_iter().flatten() {
        check_sequence(kernel.get(), sequence)?;
    }
    let named = device.filter(|device| !device.is_none()).map(device_of).transpose()?;
    let shape = dim.filter(|dim| !dim.is_none()).map(extents_of).transpose()?;
    let mut args = Arguments::new();
    let mut in_lists = false;
    for sequence in [inputs, outputs].into_iter().flatten() {
        // SAFETY: nobody changes a list while the GIL is held and no Python code runs, and references to its items are
        // taken below before either may end.
        in_lists |= unsafe { push_items(sequence, &mut args)? };
    }
    // Python code of the arguments or another thread may change a list, so that the arrays themselves are held.
    let mut owned: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    if in_lists {
        owned.extend(args.iter().map(|a| (**a).clone()));
    }
    let specialised;
    let kernel = match kernel.get().generic() {
        None => kernel,
        Some(generic) => {
            specialised = generic.for_arguments(py, &args)?;
            &specialised
        }
    };
    let code = kernel.get().one()?;
    let device = named.or_else(|| code.device()).unwrap_or_else(device::default);
    let over_dim = shape.is_some();
    let is_recorded = record_tape.is_none_or(|tape| tape.is_truthy().unwrap_or(true));
    let watched = TapeRecording::now(is_recorded);
    if adjoint {
        let Some(dim) = &shape else { return Err(not_over_dim()) };
        let n_inputs = inputs.filter(|inputs| !inputs.is_none()).map_or(Ok(0), |inputs| inputs.len())?;
        let lists = [adj_inputs, adj_outputs];
        let block_dim = block.or(block_dim);
        return launch_adjoint(kernel, dim, &args, n_inputs, lists, accumulate, device, block_dim, record_cmd)
            .map(Some);
    }
    let dimensions = match (shape, grid.or(block).or(shared_bytes)) {
        (Some(shape), None) if !code.needs_blocks() && device == DeviceId::Cpu => {
            if let Some(block) = block_dim.filter(|block| !block.is_none()) {
                three("block_dim", block)?;
            }
            LaunchDimensions { shape, grid: None, device, unchecked }
        }
        (shape, _) => {
            let dimensions = LaunchDimensions::new(code, device, shape, grid, block.or(block_dim), shared_bytes)?;
            LaunchDimensions { unchecked, ..dimensions }
        }
    };
    if record_cmd {
        return RecordedLaunch::kept(kernel, &args, dimensions, over_dim, is_recorded)
            .map(|kept| Some(kept.into_any()));
    }
    if IS_CAPTURING.get() {
        let values: Vec<Py<PyAny>> = args.iter().map(|arg| by_value(arg)).collect::<PyResult<_>>()?;
        let values: Arguments<'_, '_> = values.iter().map(|value| value.bind_borrowed(py)).collect();
        let kept = RecordedLaunch::kept(kernel, &values, dimensions, over_dim, is_recorded)?;
        py.import("polyloom._graphs")?.call_method1("captured", (kept,))?;
        return Ok(None);
    }
    let done = match watched {
        TapeRecording::Launches => recorded(kernel, over_dim, &dimensions, args.iter().map(|arg| &**arg), || {
            run(py, code, &dimensions, &args, TapeRecording::Nothing)
        }),
        _ => run(py, code, &dimensions, &args, watched),
    };
    drop(owned);
    done.map(|()| None)
}

/// Runs the backward kernel, over these extents, and gives what memory that took; or keeps the launch for later.
#[expect(clippy::too_many_arguments, reason = "they are those of the launch")]
fn launch_adjoint<'py>(
    kernel: &Bound<'py, Kernel>,
    dim: &Shape,
    args: &Arguments<'_, 'py>,
    n_inputs: usize,
    adjoints: [Option<&Bound<'py, PyAny>>; 2],
    accumulate: bool,
    device: DeviceId,
    block_dim: Option<&Bound<'py, PyAny>>,
    record_cmd: bool,
) -> PyResult<Py<PyAny>> {
    let py = kernel.py();
    let [adj_inputs, adj_outputs] = adjoints.map(|list| list.cloned().unwrap_or_else(|| PyList::empty(py).into_any()));
    let (dim, all) = (PyTuple::new(py, dim)?, PyTuple::new(py, args.iter())?);
    let given = (kernel, dim, all, n_inputs, adj_inputs, adj_outputs, accumulate, device.to_string(), block_dim);
    let made = match record_cmd {
        true => py.import("polyloom._launches")?.call_method1("AdjointLaunch", given)?,
        false => py.import("polyloom._gradients")?.call_method1("launch_adjoint", given)?,
    };
    Ok(made.unbind())
}

/// Describes what tapes want to know of a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TapeRecording {
    Nothing = 0,
    /// Where it writes: that may be what a tape goes by.
    Writes,
    /// All: it is recorded.
    Launches,
}

/// True if tapes want to know where launches write, those of threads that do not say otherwise.
static WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Holds what tapes want to know of this thread's launches, if that is not as for all.
    static WATCHED_HERE: Cell<Option<TapeRecording>> = const { Cell::new(None) };
}

/// Says what tapes want to know of launches and assignments.
///
/// Parameters
/// ----------
/// everywhere : bool
///     Whether they want to know where those of all threads write, of which `polyloom._tape.overwritten` is told.
/// here : bool, optional
///     Of those of this thread: all, of which `polyloom._tape.record` is told, or nothing.
#[pyfunction]
#[pyo3(signature = (everywhere, here))]
pub(crate) fn set_recording(everywhere: bool, here: Option<bool>) {
    WATCHED.store(everywhere, Ordering::Relaxed);
    WATCHED_HERE.set(here.map(|all| if all { TapeRecording::Launches } else { TapeRecording::Nothing }));
}

/// Returns what tapes want to know of this thread's assignments: 0 for nothing, 1 for where they write, 2 for all; 3 if
/// a graph takes them, and none is done.
#[pyfunction]
pub(crate) fn recording_level() -> u8 {
    if IS_CAPTURING.get() { 3 } else { TapeRecording::now(true) as u8 }
}

thread_local! {
    /// True if a graph takes this thread's launches, which then do not run.
    static IS_CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// Says whether a graph takes the launches of this thread: `polyloom._graphs.captured` is given each, and none runs.
#[pyfunction]
pub(crate) fn set_capturing(is_capturing: bool) {
    IS_CAPTURING.set(is_capturing);
}

impl TapeRecording {
    #[inline]
    pub(crate) fn now(is_recorded: bool) -> TapeRecording {
        match WATCHED_HERE.get() {
            Some(TapeRecording::Launches) if !is_recorded => TapeRecording::Writes,
            Some(here) => here,
            None if WATCHED.load(Ordering::Relaxed) => TapeRecording::Writes,
            None => TapeRecording::Nothing,
        }
    }
}

fn not_over_dim() -> PyErr {
    PyTypeError::new_err("gradients are of launches over dim")
}

/// Runs a launch that tapes record: they are told before, when they keep what it overwrites, and afterwards.
pub(crate) fn recorded<'a, 'py: 'a>(
    kernel: &Bound<'py, Kernel>,
    over_dim: bool,
    dimensions: &LaunchDimensions,
    args: impl ExactSizeIterator<Item = &'a Bound<'py, PyAny>>,
    run: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    if !over_dim {
        return Err(not_over_dim());
    }
    let py = kernel.py();
    let (dim, args) = (PyTuple::new(py, &dimensions.shape)?, PyTuple::new(py, args)?);
    let knows_blocks = kernel.get().one()?.needs_blocks();
    let block = dimensions.grid.filter(|_| knows_blocks).map(|grid| grid.block);
    let given = (kernel, dim, args, dimensions.device.to_string(), block);
    let recording = py.import("polyloom._tape")?.call_method1("record", given)?;
    let done = run();
    recording.call_method1("finish", (done.is_ok(),))?;
    done
}

/// Tells tapes of the memory that a launch has written.
fn tell_of_writes(
    kernel: &polyloom::Kernel,
    device: DeviceId,
    written: &[WrittenArray],
    py: Python<'_>,
) -> PyResult<()> {
    for each in written {
        let on = if each.is_resident { device } else { DeviceId::Cpu };
        let addresses = each.footprint.addresses();
        let what = format!("a launch of '{}' that is not recorded", kernel.name());
        let given = (on.to_string(), addresses.start, addresses.end, what);
        py.import("polyloom._tape")?.call_method1("overwritten", given)?;
    }
    Ok(())
}

/// Describes what a launch runs over.
#[derive(Clone)]
pub(crate) struct LaunchDimensions {
    pub(crate) shape: Shape,
    /// Of a kernel that is launched in blocks.
    pub(crate) grid: Option<LaunchConfig>,
    pub(crate) device: DeviceId,
    /// True if indices are not compared with extents before it.
    pub(crate) unchecked: bool,
}

/// The device that a launch names.
fn device_of(device: &Bound<'_, PyAny>) -> PyResult<DeviceId> {
    if device.cast::<PyString>().is_err() {
        let given = device.get_type();
        let given = given.name()?;
        return Err(PyTypeError::new_err(format!(
            "device is a string, not {given}: arguments of the kernel go into one list, inputs=[…], or two with outputs=[…]"
        )));
    }
    device::named(device.str()?.to_str()?)
}

impl LaunchDimensions {
    /// Those of a launch that says something of blocks, or of a kernel that needs them.
    fn new(
        kernel: &polyloom::Kernel,
        device: DeviceId,
        shape: Option<Shape>,
        grid: Option<&Bound<'_, PyAny>>,
        block: Option<&Bound<'_, PyAny>>,
        shared_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LaunchDimensions> {
        let metadata = &kernel.function().metadata;
        let in_blocks = kernel.needs_blocks() || device != DeviceId::Cpu;
        let block = match block.filter(|block| !block.is_none()) {
            Some(block) => three("block", block)?,
            None => metadata.block(),
        };
        let n_threads = block.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
        if n_threads > MAX_BLOCK_SIZE {
            let [x, y, z] = block;
            let message = format!("a block has up to {MAX_BLOCK_SIZE} threads, and ({x}, {y}, {z}) are {n_threads}");
            return Err(PyValueError::new_err(message));
        }
        let shared_bytes = match shared_bytes {
            Some(bytes) => bytes.extract().map_err(|_| {
                let most = u32::MAX;
                PyValueError::new_err(format!("shared_bytes is an integer from 0 to {most}, not {bytes}"))
            })?,
            None => metadata.shared_bytes.unwrap_or(0),
        };
        match (shape, grid) {
            (Some(_), Some(_)) => Err(PyTypeError::new_err("a launch is over dim, or over grid and block, not both")),
            (None, None) => Err(PyTypeError::new_err("dim is missing: how many threads, or grid: how many blocks")),
            (Some(shape), None) => {
                let n_threads = shape.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent));
                let grid = LaunchConfig::of_threads(n_threads, block, shared_bytes);
                Ok(LaunchDimensions { shape, grid: in_blocks.then_some(grid), device, unchecked: false })
            }
            (None, Some(grid)) => {
                let grid = LaunchConfig { grid: three("grid", grid)?, block, shared_bytes };
                let shape = SmallVec::from_slice(&[grid.n_blocks().saturating_mul(n_threads)]);
                Ok(LaunchDimensions { shape, grid: in_blocks.then_some(grid), device, unchecked: false })
            }
        }
    }

    /// Replaces the number of threads; blocks keep their size.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        let n_threads = shape.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent));
        self.grid = self.grid.map(|grid| LaunchConfig::of_threads(n_threads, grid.block, grid.shared_bytes));
        self.shape = shape;
    }
}

/// Most threads in a block.
const MAX_BLOCK_SIZE: u64 = polyloom::MAX_BLOCK_SIZE as u64;

/// Up to three extents, the others 1.
pub(crate) fn three(what: &str, extents: &Bound<'_, PyAny>) -> PyResult<[u32; 3]> {
    let wrong = || PyValueError::new_err(format!("{what} is one to three positive integers, not {extents}"));
    let given: Vec<u32> = match extents.extract::<u32>() {
        Ok(extent) => vec![extent],
        Err(_) => extents.extract().map_err(|_| wrong())?,
    };
    if !(1..=3).contains(&given.len()) || given.contains(&0) {
        return Err(wrong());
    }
    let mut all = [1; 3];
    all[..given.len()].copy_from_slice(&given);
    Ok(all)
}

/// Packs the arguments and runs the kernel. The caller holds references to the arguments.
pub(crate) fn run<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, 'py, PyAny>],
    watched: TapeRecording,
) -> PyResult<()> {
    // A kernel's print may come back to Python and launch again on this thread, which then finds no memo.
    let mut memo = TakenMemo::take(kernel);
    let done = run_with(py, kernel, dimensions, args, watched, &mut memo);
    memo.put_back();
    done
}

#[inline]
fn run_with<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, 'py, PyAny>],
    watched: TapeRecording,
    memo: &mut TakenMemo,
) -> PyResult<()> {
    if watched == TapeRecording::Nothing
        && dimensions.device == DeviceId::Cpu
        && memo.holds(py, kernel, dimensions, args)
    {
        // SAFETY: the block holds these arguments, to which the caller has references.
        if let Some(done) = unsafe { memo.run_if_short(kernel) } {
            return done.map_err(|error| launch_error(py, kernel, &error, None));
        }
        guarded(|| run_block(py, kernel, dimensions, memo.block()))?;
        memo.set_verified();
        return Ok(());
    }
    let mut held = SmallVec::new();
    let mut written = Writes::new();
    memo.fill(py, kernel, dimensions, args, &mut held, &mut written)?;
    let done = guarded(|| run_block(py, kernel, dimensions, memo.block()));
    if watched == TapeRecording::Writes {
        tell_of_writes(kernel, dimensions.device, &written, py)?;
    }
    done?;
    memo.set_verified();
    Ok(())
}

/// Runs a kernel over an argument block. The callers hold references to every array argument, whose memory NumPy keeps
/// in place meanwhile; [`arguments::fill`] has checked type, rank and writability of each.
pub(crate) fn run_block(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    dimensions: &LaunchDimensions,
    block: &ArgBlock,
) -> PyResult<()> {
    let LaunchDimensions { shape, grid, device, unchecked } = dimensions;
    if *device == DeviceId::Cpu {
        let options = LaunchOptions { unchecked: *unchecked, ..LaunchOptions::default() };
        // Letting the GIL go and taking it again takes longer than such a launch.
        // SAFETY: the callers hold the arrays, as said above.
        if let Some(done) = unsafe { kernel.launch_if_short(shape, block, &options) } {
            return done.map_err(|error| launch_error(py, kernel, &error, None));
        }
    }
    let queue = queue_of(py, *device)?;
    run_long(py, kernel, *device, |options| {
        let options = LaunchOptions { grid: *grid, unchecked: *unchecked, ..*options };
        // SAFETY: as above; arrays on a device keep their memory until a kernel that uses it has run.
        unsafe { kernel.launch_on(&*queue, shape, block, &options) }
    })
}

/// The queue of a device that launches go to.
pub(crate) fn queue_of(py: Python<'_>, device: DeviceId) -> PyResult<Arc<dyn Queue>> {
    match device {
        DeviceId::Cpu => Ok(Arc::new(CpuQueue)),
        device => py.detach(|| polyloom::queue(device)).map_err(|failure| device_error(py, &failure)),
    }
}

/// Runs a launch on a device without the GIL, and keeps what the simulator says of it.
pub(crate) fn run_long(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    launch: impl FnOnce(&LaunchOptions<'_>) -> Result<LaunchStats, LaunchError>,
) -> PyResult<()> {
    let sim = (device == DeviceId::Simulator).then(|| sim::SimSettings::get().options());
    let started = Instant::now();
    let (result, interrupt) = interruptible(py, |options| {
        let options = LaunchOptions { sim: sim.unwrap_or_default(), ..*options };
        launch(&options)
    })?;
    let report = match &result {
        Ok(stats) => stats.report.as_deref(),
        Err(LaunchError::Simulator(fault)) => Some(&fault.report),
        Err(_) => None,
    };
    if let Some(report) = report {
        sim::set_last_report(report.clone(), started.elapsed());
    }
    result.map(drop).map_err(|error| launch_error(py, kernel, &error, interrupt))
}

/// Runs a launch without the GIL, with options by which Python's signal handlers can stop it. Gives its result and the
/// exception that a handler raised meanwhile.
///
/// # Errors
///
/// What writing to `sys.stdout` raised meanwhile.
pub(crate) fn interruptible<R>(
    py: Python<'_>,
    launch: impl FnOnce(&LaunchOptions<'_>) -> R,
) -> PyResult<(R, Option<PyErr>)> {
    let interrupt: Cell<Option<PyErr>> = Cell::new(None);
    let unshared = UnsharedRef((&interrupt, launch));
    let (result, raised) = py
        .detach(move || {
            let unshared = unshared;
            let UnsharedRef((interrupt, launch)) = unshared;
            // Asked some fifty times a second.
            let interrupted = || {
                if print::has_raised() {
                    return true;
                }
                let signals = Python::attach(|py| py.check_signals());
                signals.map_err(|error| interrupt.set(Some(error))).is_err()
            };
            let options = LaunchOptions { interrupted: Some(&interrupted), ..LaunchOptions::default() };
            UnsharedRef(print::capture(|| launch(&options)))
        })
        .0;
    match raised {
        Some(raised) => Err(raised),
        None => Ok((result, interrupt.take())),
    }
}

/// Lets a reference into the closure that runs without the GIL, on this very thread.
struct UnsharedRef<T>(T);
// SAFETY: `Python::detach` runs its closure on the calling thread, so nothing is sent anywhere.
unsafe impl<T> Send for UnsharedRef<T> {}

pub(crate) fn extents_of(dim: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let extent = |value: &Bound<'_, PyAny>| -> PyResult<u64> {
        let value: i64 = value.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(dim.py()) {
                return PyValueError::new_err("dim is too large: a launch has as many threads as int32 can count");
            }
            if error.is_instance_of::<PyTypeError>(dim.py()) {
                let given = dim.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
                return PyTypeError::new_err(format!("dim must be an integer or a tuple of integers, not {given}"));
            }
            error
        })?;
        u64::try_from(value).map_err(|_| PyValueError::new_err(format!("dim must not be negative, and is {dim}")))
    };
    if dim.cast::<PyInt>().is_ok() {
        return Ok(SmallVec::from_slice(&[extent(dim)?]));
    }
    match dim.try_iter() {
        Ok(items) => {
            // One more than there may be, because the sequence may have no end.
            let shape: Shape = items.take(MAX_DIMS + 1).map(|item| extent(&item?)).collect::<PyResult<_>>()?;
            if shape.is_empty() || shape.len() > MAX_DIMS {
                return Err(PyValueError::new_err(format!("a launch has 1 to 4 dimensions, and dim is {dim}")));
            }
            Ok(shape)
        }
        Err(_) => Ok(SmallVec::from_slice(&[extent(dim)?])),
    }
}

/// Appends the items of a list or tuple, borrowed, and of `None` nothing. Gives whether it is a list.
///
/// # Safety
///
/// The sequence must not change while the borrows are in use.
unsafe fn push_items<'a, 'py>(sequence: &'a Bound<'py, PyAny>, args: &mut Arguments<'a, 'py>) -> PyResult<bool> {
    if let Ok(list) = sequence.cast::<PyList>() {
        for index in 0..list.len() {
            // SAFETY: the index is in range, and the caller keeps the list unchanged.
            unsafe {
                let item = pyo3::ffi::PyList_GetItem(list.as_ptr(), index as pyo3::ffi::Py_ssize_t);
                args.push(Borrowed::from_ptr(sequence.py(), item));
            }
        }
        return Ok(true);
    }
    if let Ok(tuple) = sequence.cast::<PyTuple>() {
        args.extend(tuple.iter_borrowed());
        return Ok(false);
    }
    Ok(false)
}

/// Tells whether inputs or outputs are a list, a tuple or none at all.
fn check_sequence(kernel: &Kernel, sequence: &Bound<'_, PyAny>) -> PyResult<()> {
    if sequence.is_none() || sequence.cast::<PyList>().is_ok() || sequence.cast::<PyTuple>().is_ok() {
        return Ok(());
    }
    let names: Vec<&str> = match kernel.generic() {
        Some(generic) => generic.param_names().collect(),
        None => kernel.one()?.arguments().iter().map(|param| &*param.name).collect(),
    };
    Err(PyTypeError::new_err(format!(
        "inputs and outputs are lists of arguments, not {}: write polyloom.launch({}, dim, [{}])",
        sequence.get_type().name()?,
        kernel.name(),
        names.join(", "),
    )))
}
