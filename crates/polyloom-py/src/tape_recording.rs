//! Tells tapes and graphs of launches what they want to know.

use crate::arguments::WrittenArray;
use crate::kernel::Kernel;
use crate::launch_dimensions::LaunchDimensions;
use crate::tape_repeats::{LaunchLog, LogEntry};
use polyloom::DeviceId;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

/// Describes what tapes and graphs want to know of a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TapeRecording {
    Nothing = 0,
    /// The places it writes, because a tape may go by them.
    Writes,
    /// All: it is recorded.
    Launches,
    /// A graph takes it, and it does not run.
    Graphs,
}

/// The recordings that a thread's launches are subject to.
#[derive(Clone, Copy)]
struct ThreadRecording {
    /// Holds what tapes want to know of them, if that is not as for all.
    tapes: Option<TapeRecording>,
    /// True if a graph takes them.
    is_capturing: bool,
}

/// True if tapes want to know where launches write, those of threads that do not say otherwise.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// True if several tapes record or have recorded, so that each launch of one is something to tell the others.
static HAS_SEVERAL_TAPES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static WATCHED_HERE: Cell<ThreadRecording> =
        const { Cell::new(ThreadRecording { tapes: None, is_capturing: false }) };
    /// Holds the launches of the only tape that records this thread's, as long as it does.
    static LOG_HERE: RefCell<Option<Py<LaunchLog>>> = const { RefCell::new(None) };
}

/// Says what tapes want to know of launches and assignments.
///
/// Parameters
/// ----------
/// everywhere : bool
///     Whether they want to know where those of all threads write, of which `polyloom._tape.overwritten` is told.
/// here : bool, optional
///     Of those of this thread: all, of which `polyloom._tape.record` is told, or nothing.
/// log : LaunchLog, optional
///     The launches of the tape that records those of this thread, if that is only one.
/// has_several : bool
///     True if several tapes record or have recorded.
#[pyfunction]
#[pyo3(signature = (everywhere, here, log = None, has_several = false))]
pub(crate) fn set_recording(everywhere: bool, here: Option<bool>, log: Option<Py<LaunchLog>>, has_several: bool) {
    WATCHED.store(everywhere, Ordering::Relaxed);
    HAS_SEVERAL_TAPES.store(has_several, Ordering::Relaxed);
    let before = LOG_HERE.replace(log);
    drop(before);
    let tapes = here.map(|all| if all { TapeRecording::Launches } else { TapeRecording::Nothing });
    WATCHED_HERE.set(ThreadRecording { tapes, ..WATCHED_HERE.get() });
}

/// Says whether a graph takes the launches of this thread: `polyloom._graphs.captured` is given each, and none runs.
#[pyfunction]
pub(crate) fn set_capturing(is_capturing: bool) {
    WATCHED_HERE.set(ThreadRecording { is_capturing, ..WATCHED_HERE.get() });
}

/// Returns what tapes want to know of this thread's assignments: 0 for nothing, 1 for where they write, 2 for all; 3 if
/// a graph takes them, and none is done.
#[pyfunction]
pub(crate) fn recording_level() -> u8 {
    TapeRecording::now(true) as u8
}

impl TapeRecording {
    #[inline]
    pub(crate) fn now(is_recorded: bool) -> TapeRecording {
        let ThreadRecording { tapes, is_capturing } = WATCHED_HERE.get();
        match tapes {
            _ if is_capturing => TapeRecording::Graphs,
            Some(TapeRecording::Launches) if !is_recorded => TapeRecording::Writes,
            Some(here) => here,
            None if WATCHED.load(Ordering::Relaxed) => TapeRecording::Writes,
            None => TapeRecording::Nothing,
        }
    }
}

pub(crate) fn not_over_dim() -> PyErr {
    PyTypeError::new_err("gradients are of launches over dim")
}

/// Runs a launch that tapes record: they are told before, when they keep what it overwrites, and afterwards.
pub(crate) fn recorded<'py>(
    kernel: &Bound<'py, Kernel>,
    over_dim: bool,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, 'py, PyAny>],
    run: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    if !over_dim {
        return Err(not_over_dim());
    }
    let py = kernel.py();
    let log = match HAS_SEVERAL_TAPES.load(Ordering::Relaxed) {
        true => None,
        false => LOG_HERE.with_borrow(|log| log.as_ref().map(|log| log.clone_ref(py))),
    };
    let mut is_second = false;
    if let Some(log) = &log {
        match log.get().begin(kernel, dimensions, args)? {
            LogEntry::Known(started) => return started.finish(py, log.get(), run()),
            LogEntry::Unknown { is_second: is_known } => is_second = is_known,
        }
    }
    let (dim, given) = (PyTuple::new(py, &dimensions.shape)?, PyTuple::new(py, args.iter())?);
    let knows_blocks = kernel.get().one()?.needs_blocks();
    let block = dimensions.grid.filter(|_| knows_blocks).map(|grid| grid.block);
    let given = (kernel, dim, given, dimensions.device.to_string(), block);
    let recording = py.import("polyloom._tape")?.call_method1("record", given)?;
    let done = run();
    let finished = recording.call_method1("finish", (done.is_ok(),));
    // The launch's own error comes first, because the tape's may follow from it.
    done?;
    finished?;
    match log {
        Some(log) => log.get().learn(kernel, dimensions, args, &recording, is_second),
        None => Ok(()),
    }
}

/// Tells tapes of the memory that a launch has written.
pub(crate) fn tell_of_writes(
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
