//! Launching from Python.
//!
//! A warm launch of a small kernel is a few hundred nanoseconds, so this path allocates nothing and touches no Python
//! object beyond the arguments' own fields and, where a list holds them, their reference counts. A recorded launch does
//! not even look at them: it keeps the filled argument block.

use crate::arguments::{self, Writes, WrittenArray};
use crate::boundary::guarded;
use crate::errors::launch_error;
use crate::kernel::Kernel;
use crate::structure::by_value;
use crate::{device, print, sim};
use polyloom::{ArgBlock, Device, LaunchConfig, LaunchOptions, MAX_DIMS};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyList, PyString, PyTuple, PyType};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

type Shape = SmallVec<[u64; MAX_DIMS]>;
type Arguments<'a, 'py> = SmallVec<[Borrowed<'a, 'py, PyAny>; 16]>;

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
        (Some(shape), None) if !code.needs_blocks() && device == Device::Cpu => {
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
        return Launch::kept(kernel, &args, dimensions, over_dim, is_recorded).map(|kept| Some(kept.into_any()));
    }
    if IS_CAPTURING.get() {
        let values: Vec<Py<PyAny>> = args.iter().map(|arg| by_value(arg)).collect::<PyResult<_>>()?;
        let values: Arguments<'_, '_> = values.iter().map(|value| value.bind_borrowed(py)).collect();
        let kept = Launch::kept(kernel, &values, dimensions, over_dim, is_recorded)?;
        py.import("polyloom._graphs")?.call_method1("captured", (kept.getattr(py, "launch")?,))?;
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
    device: Device,
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
enum TapeRecording {
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
    fn now(is_recorded: bool) -> TapeRecording {
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
fn recorded<'a, 'py: 'a>(
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
fn tell_of_writes(kernel: &polyloom::Kernel, device: Device, written: &[WrittenArray], py: Python<'_>) -> PyResult<()> {
    for each in written {
        let on = if each.is_resident { device } else { Device::Cpu };
        let addresses = each.footprint.addresses();
        let what = format!("a launch of '{}' that is not recorded", kernel.name());
        let given = (on.to_string(), addresses.start, addresses.end, what);
        py.import("polyloom._tape")?.call_method1("overwritten", given)?;
    }
    Ok(())
}

/// Describes what a launch runs over.
#[derive(Clone)]
struct LaunchDimensions {
    shape: Shape,
    /// Of a kernel that is launched in blocks.
    grid: Option<LaunchConfig>,
    device: Device,
    /// True if indices are not compared with extents before it.
    unchecked: bool,
}

/// The device that a launch names.
fn device_of(device: &Bound<'_, PyAny>) -> PyResult<Device> {
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
        device: Device,
        shape: Option<Shape>,
        grid: Option<&Bound<'_, PyAny>>,
        block: Option<&Bound<'_, PyAny>>,
        shared_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LaunchDimensions> {
        let metadata = &kernel.function().metadata;
        let in_blocks = kernel.needs_blocks() || device != Device::Cpu;
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
    fn set_shape(&mut self, shape: Shape) {
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

thread_local! {
    /// A block to use again.
    static BLOCK: Cell<Option<Box<ArgBlock>>> = const { Cell::new(None) };
}

/// Packs the arguments and runs the kernel without the GIL. The caller holds references to the arguments.
fn run<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, 'py, PyAny>],
    watched: TapeRecording,
) -> PyResult<()> {
    // A kernel's print may come back to Python and launch again on this thread, because each launch takes a block of
    // its own.
    let mut block = BLOCK.take().unwrap_or_default();
    block.clear();
    let (mut held, mut written) = (SmallVec::new(), Writes::new());
    let filled = arguments::fill(py, kernel, dimensions.device, args, &mut block, &mut held, &mut written);
    let done = filled.and_then(|()| {
        let done = guarded(|| run_block(py, kernel, dimensions, &block));
        if watched == TapeRecording::Writes {
            tell_of_writes(kernel, dimensions.device, &written, py)?;
        }
        done
    });
    BLOCK.set(Some(block));
    done
}

fn run_block(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    LaunchDimensions { shape, grid, device, unchecked }: &LaunchDimensions,
    block: &ArgBlock,
) -> PyResult<()> {
    let (grid, unchecked) = (*grid, *unchecked);
    // SAFETY (all launches): the callers hold references to every array argument, whose memory NumPy keeps in place
    // meanwhile; `fill` has checked type, rank and writability of each.
    let (result, interrupt) = match device {
        Device::Cpu => interruptible(py, |options| {
            let options = LaunchOptions { grid, unchecked, ..*options };
            // SAFETY: as said above.
            unsafe { kernel.launch(shape, block, &options) }
        })?,
        Device::Cuda(number) => interruptible(py, |options| {
            let options = LaunchOptions { grid, unchecked, ..*options };
            // SAFETY: as said above; arrays on the device keep their memory until a kernel that uses it has run.
            unsafe { kernel.launch_on_cuda(*number, shape, block, &options) }
        })?,
        Device::Simulator => {
            let settings = sim::SimSettings::get();
            let started = Instant::now();
            let (result, interrupt) = interruptible(py, |options| {
                let options = LaunchOptions { grid, unchecked, ..*options };
                // SAFETY: as said above.
                unsafe { kernel.launch_on_simulator(settings.arch, shape, block, &options, &settings.options()) }
            })?;
            let report = match &result {
                Ok(report) => Some(report),
                Err(polyloom::LaunchError::Simulator(fault)) => Some(&fault.report),
                Err(_) => None,
            };
            if let Some(report) = report {
                sim::set_last_report(report.clone(), started.elapsed());
            }
            (result.map(drop), interrupt)
        }
    };
    result.map_err(|error| launch_error(py, kernel, &error, interrupt))
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

fn extents_of(dim: &Bound<'_, PyAny>) -> PyResult<Shape> {
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

/// A filled argument block with what it points into.
struct FilledBlock {
    block: ArgBlock,
    /// The arguments, and the arrays made of some of them.
    _held: Vec<Py<PyAny>>,
}

impl FilledBlock {
    fn new(py: Python<'_>, kernel: &polyloom::Kernel, device: Device, args: &[Py<PyAny>]) -> PyResult<FilledBlock> {
        let borrowed: Arguments<'_, '_> = args.iter().map(|a| a.bind_borrowed(py)).collect();
        let (mut block, mut made) = (ArgBlock::new(), SmallVec::new());
        arguments::fill(py, kernel, device, &borrowed, &mut block, &mut made, &mut Writes::new())?;
        let held = args.iter().map(|a| a.clone_ref(py)).chain(made.into_iter().map(Bound::unbind)).collect();
        Ok(FilledBlock { block, _held: held })
    }
}

struct LaunchState {
    dimensions: LaunchDimensions,
    args: Vec<Py<PyAny>>,
    /// `args` as the kernel takes them; absent after a change, until the next launch.
    ready: Option<Arc<FilledBlock>>,
    n_changes: u64,
}

/// A recorded launch: `launch()` runs it.
///
/// It holds the arguments it was given and goes on using their memory, shape and strides of that time, but of a struct
/// the values that it has when the launch runs. `set_…` methods check what they are given as `polyloom.launch` does.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Launch {
    kernel: Py<Kernel>,
    /// True if it is over a number of threads and not over a grid of blocks.
    over_dim: bool,
    /// True if tapes record it.
    is_recorded: bool,
    state: Mutex<LaunchState>,
}

#[pymethods]
impl Launch {
    /// Runs the recorded launch.
    fn launch(&self, py: Python<'_>) -> PyResult<()> {
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
            return recorded(object, self.over_dim, &dimensions, args.iter(), || {
                run(py, kernel, &dimensions, &borrowed, TapeRecording::Nothing)
            });
        }
        let (dimensions, ready) = self.with(|state| (state.dimensions.clone(), state.ready.clone()));
        let ready = match ready {
            // A struct may have other values by now.
            Some(ready) if !kernel.has_structs() => ready,
            _ => self.make_ready(py, kernel)?,
        };
        guarded(|| run_block(py, kernel, &dimensions, &ready.block))
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
        let ready = Arc::new(FilledBlock::new(py, self.kernel.bind(py).get().one()?, self.device(), &values)?);
        self.change(|state| (std::mem::replace(&mut state.args, values), state.ready.replace(ready)));
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
        self.with(|state| state.dimensions.set_shape(shape));
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

impl Launch {
    /// A launch for later, over a number of threads or over a grid of blocks.
    fn kept(
        kernel: &Bound<'_, Kernel>,
        args: &Arguments<'_, '_>,
        dimensions: LaunchDimensions,
        over_dim: bool,
        is_recorded: bool,
    ) -> PyResult<Py<Launch>> {
        let py = kernel.py();
        let args: Vec<_> = args.iter().map(|arg| (**arg).clone().unbind()).collect();
        let ready = FilledBlock::new(py, kernel.get().one()?, dimensions.device, &args)?;
        let state = LaunchState { dimensions, args, ready: Some(Arc::new(ready)), n_changes: 0 };
        Py::new(py, Launch { kernel: kernel.clone().unbind(), over_dim, is_recorded, state: Mutex::new(state) })
    }

    /// Uses the state. What it must not do is drop an object or run any Python code, because that may come back for the
    /// lock.
    fn with<R>(&self, use_: impl FnOnce(&mut LaunchState) -> R) -> R {
        use_(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self) -> Device {
        self.with(|state| state.dimensions.device)
    }

    /// Replaces arguments. What they replace is dropped once the lock is free.
    fn change<R>(&self, replace: impl FnOnce(&mut LaunchState) -> R) {
        let outdated = self.with(|state| {
            state.n_changes += 1;
            (state.ready.take(), replace(state))
        });
        drop(outdated);
    }

    fn make_ready(&self, py: Python<'_>, kernel: &polyloom::Kernel) -> PyResult<Arc<FilledBlock>> {
        let (args, n_changes) = self.with(|state| {
            (state.args.iter().map(|a| a.clone_ref(py)).collect::<SmallVec<[Py<PyAny>; 16]>>(), state.n_changes)
        });
        let ready = Arc::new(FilledBlock::new(py, kernel, self.device(), &args)?);
        // Another thread may have changed the arguments meanwhile.
        let outdated = self.with(|state| match state.n_changes == n_changes {
            true => state.ready.replace(ready.clone()),
            false => None,
        });
        drop(outdated);
        Ok(ready)
    }
}
