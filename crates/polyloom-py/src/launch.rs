//! Launching from Python.
//!
//! A warm launch of a small kernel is a few hundred nanoseconds, so this path allocates nothing and touches no Python
//! object beyond the arguments' own fields and, where a list holds them, their reference counts.

use crate::arguments::Arguments;
use crate::config::is_verifying;
use crate::device;
use crate::kernel::Kernel;
use crate::launch_dimensions::{LaunchDimensions, Shape, extents_of, three};
use crate::launch_run::run;
use crate::queue::{QueueScope, queue_of_stream};
use crate::recorded_launch::RecordedLaunch;
use crate::recorded_tasks::run_recorded;
use crate::tape_recording::{TapeRecording, not_over_dim, recorded};
use crate::tasks::{launch_anywhere, taking_graph};
use polyloom::DeviceId;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use smallvec::SmallVec;

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
///     so on, an NVIDIA GPU; or `"auto"`, whichever of the machine's is done first, copies included. By default the one that the kernel's decorator names, else the one that `set_device`
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
/// stream : Stream, optional
///     The stream of a device that the launch is put into; by default the current one of the device, which
///     `ScopedStream` or `set_stream` sets. It names the device as well.
/// max_blocks
///     Taken for programs written for Warp, and without effect.
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
    let queue = stream.filter(|stream| !stream.is_none()).map(queue_of_stream).transpose()?;
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
    let is_auto = device.is_some_and(is_auto);
    if is_auto && (record_cmd || adjoint) {
        let message = "device='auto' is for launches that run now: name a device, or record them in polyloom.tasks";
        return Err(PyTypeError::new_err(message));
    }
    let named = device.filter(|device| !device.is_none() && !is_auto).map(device_of).transpose()?;
    let named = match &queue {
        None => named,
        Some(queue) => {
            let of_stream = queue.get().queue.device();
            if let Some(named) = named.filter(|&named| named != of_stream) {
                let message = format!("the stream is one of device '{of_stream}', and the launch is on '{named}'");
                return Err(PyValueError::new_err(message));
            }
            Some(of_stream)
        }
    };
    let _scope = queue.as_ref().map(|queue| QueueScope::enter(&queue.get().queue));
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
    let given = named.or_else(|| code.device().filter(|_| !is_auto));
    let device = given.unwrap_or_else(device::default);
    let over_dim = shape.is_some();
    let is_recorded = record_tape.map_or(Ok(true), |tape| tape.is_truthy())?;
    let watched = TapeRecording::now(is_recorded);
    if queue.is_none() && !adjoint && !record_cmd {
        let graph = taking_graph(py, watched)?;
        let is_anywhere = named.is_none() && (is_auto || code.is_heterogeneous());
        if graph.is_some() || (is_anywhere && matches!(watched, TapeRecording::Nothing | TapeRecording::Writes)) {
            let dimensions =
                LaunchDimensions::new(code, DeviceId::Cpu, shape, grid, block.or(block_dim), shared_bytes)?;
            let dimensions = LaunchDimensions { unchecked, ..dimensions };
            let taken = match graph {
                Some(graph) => graph.get().take(kernel, &args, dimensions, given, watched),
                None => launch_anywhere(kernel, &args, dimensions, watched),
            };
            return taken.map(|()| None);
        }
    }
    if !record_cmd {
        run_recorded(py)?;
    }
    if adjoint {
        let Some(dim) = &shape else { return Err(not_over_dim()) };
        let n_inputs = inputs.filter(|inputs| !inputs.is_none()).map_or(Ok(0), |inputs| inputs.len())?;
        let lists = [adj_inputs, adj_outputs];
        let block_dim = block.or(block_dim);
        let when = if record_cmd {
            AdjointRun::Later
        } else {
            AdjointRun::Now { is_captured: watched == TapeRecording::Graphs }
        };
        return launch_adjoint(kernel, dim, &args, n_inputs, lists, accumulate, device, block_dim, when).map(Some);
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
    if watched == TapeRecording::Graphs {
        return RecordedLaunch::capture(kernel, &args, dimensions, over_dim, is_recorded).map(|()| None);
    }
    let done = match watched {
        TapeRecording::Launches => {
            recorded(kernel, over_dim, &dimensions, &args, || run(py, code, &dimensions, &args, TapeRecording::Nothing))
        }
        _ => run(py, code, &dimensions, &args, watched),
    };
    done?;
    if is_verifying() {
        let args = PyTuple::new(py, args.iter())?;
        py.import("polyloom._verify")?.call_method1("report", (kernel, args, device.to_string()))?;
    }
    drop(owned);
    Ok(None)
}

/// Says when a backward kernel runs.
enum AdjointRun {
    /// When somebody runs the launch that is given.
    Later,
    Now {
        /// True if it runs with the graph that takes it.
        is_captured: bool,
    },
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
    when: AdjointRun,
) -> PyResult<Py<PyAny>> {
    let py = kernel.py();
    let [adj_inputs, adj_outputs] = adjoints.map(|list| list.cloned().unwrap_or_else(|| PyList::empty(py).into_any()));
    let (dim, all) = (PyTuple::new(py, dim)?, PyTuple::new(py, args.iter())?);
    let given = (kernel, dim, all, n_inputs, adj_inputs, adj_outputs, accumulate, device.to_string(), block_dim);
    let recorded = || py.import("polyloom._launches")?.call_method1("AdjointLaunch", given.clone());
    let made = match when {
        AdjointRun::Later => recorded()?,
        AdjointRun::Now { is_captured: true } => recorded()?.call_method0("launch")?,
        AdjointRun::Now { is_captured: false } => {
            py.import("polyloom._gradients")?.call_method1("launch_adjoint", given)?
        }
    };
    Ok(made.unbind())
}

/// Returns true if a launch names no device but `auto`: whichever is done first.
fn is_auto(device: &Bound<'_, PyAny>) -> bool {
    device.cast::<PyString>().is_ok_and(|name| name.to_str().is_ok_and(|name| name == "auto"))
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
