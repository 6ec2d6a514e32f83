//! The run of a launch whose arguments and dimensions are known.

use crate::arguments::Writes;
use crate::boundary::guarded;
use crate::errors::{device_error, launch_error};
use crate::interruptible::interruptible;
use crate::launch_dimensions::LaunchDimensions;
use crate::launch_memo::TakenMemo;
use crate::sim_settings;
use crate::tape_recording::{TapeRecording, tell_of_writes};
use crate::waits::warn_of_waits;
use polyloom::{ArgBlock, CpuQueue, DeviceId, LaunchError, LaunchOptions, LaunchStats, Queue};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

/// Packs the arguments and runs the kernel. The caller holds references to the arguments.
pub(crate) fn run<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    dimensions: &LaunchDimensions,
    args: &[Borrowed<'_, 'py, PyAny>],
    watched: TapeRecording,
) -> PyResult<()> {
    guarded(|| {
        // A kernel's print may come back to Python and launch again on this thread, which then finds no memo. A panic drops
        // the memo, because the block may be half filled.
        let mut memo = TakenMemo::take(kernel);
        let done = run_with(py, kernel, dimensions, args, watched, &mut memo);
        memo.put_back();
        done
    })
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
        run_block(py, kernel, dimensions, memo.block())?;
        memo.set_verified();
        return Ok(());
    }
    let mut held = SmallVec::new();
    let mut written = Writes::new();
    memo.fill(py, kernel, dimensions, args, &mut held, &mut written)?;
    let done = run_block(py, kernel, dimensions, memo.block());
    let told = match watched {
        TapeRecording::Writes => tell_of_writes(kernel, dimensions.device, &written, py),
        _ => Ok(()),
    };
    // The launch's own error comes first, because the tape's may follow from it.
    done?;
    told?;
    memo.set_verified();
    Ok(())
}

/// Runs a kernel over an argument block. The callers hold references to every array argument, whose memory NumPy keeps
/// in place meanwhile; [`arguments::fill`](crate::arguments::fill) has checked type, rank and writability of each.
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

/// Runs a launch on a device without the GIL, as [`interruptible`] does, and keeps what the simulator says of it.
pub(crate) fn run_long(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    launch: impl FnOnce(&LaunchOptions<'_>) -> Result<LaunchStats, LaunchError> + Send,
) -> PyResult<()> {
    let sim = (device == DeviceId::Simulator).then(|| sim_settings::SimSettings::get().options());
    let started = Instant::now();
    let (result, interrupt) = interruptible(py, |options| {
        let options = LaunchOptions { sim: sim.unwrap_or_default(), ..*options };
        launch(&options)
    })?;
    sim_settings::note_launch(result.as_ref().map(Some), started.elapsed());
    result.map(drop).map_err(|error| launch_error(py, kernel, &error, interrupt))?;
    warn_of_waits(py)
}
