//! Figures and limits of the memory of devices.

use crate::device::named;
use crate::errors::device_error;
use polyloom::{Device, DeviceFailure, DeviceMemoryLimits};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Asks a device of this name something.
fn asked<R: Send>(
    py: Python<'_>,
    name: &str,
    ask: impl FnOnce(Arc<dyn Device>) -> Result<R, DeviceFailure> + Send,
) -> PyResult<R> {
    let device = named(name)?;
    py.detach(|| ask(polyloom::device(device)?)).map_err(|failure| device_error(py, &failure))
}

/// Figures of the memory that a device has handed out; nothing of one that keeps none.
#[pyfunction]
pub(crate) fn device_memory_report<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(report) = asked(py, name, |device| Ok(device.memory_report()))? else { return Ok(None) };
    let figures = PyDict::new(py);
    let or_none = |bytes: u64| (bytes < usize::MAX as u64).then_some(bytes);
    figures.set_item("limit", or_none(report.most_reserved))?;
    figures.set_item("release_threshold", or_none(report.release_threshold))?;
    figures.set_item("used", report.used)?;
    figures.set_item("used_high", report.used_high)?;
    figures.set_item("idle", report.idle)?;
    figures.set_item("reserved_high", report.reserved_high)?;
    figures.set_item("n_allocated", report.n_allocated)?;
    figures.set_item("n_reused", report.n_reused)?;
    figures.set_item("n_flushed", report.n_flushed)?;
    figures.set_item("n_live", report.n_live)?;
    figures.set_item("largest", report.largest)?;
    figures.set_item("has_driver_pool", report.has_driver_pool)?;
    figures.set_item("pinned", report.pinned)?;
    Ok(Some(figures))
}

/// Gives idle memory of a device back to its driver, until at most so many bytes are kept.
#[pyfunction]
pub(crate) fn release_device_memory(py: Python<'_>, name: &str, most_kept: u64) -> PyResult<()> {
    asked(py, name, |device| device.release_memory(most_kept))
}

/// Changes the limits of a device's memory; those that are None stay.
#[pyfunction]
pub(crate) fn set_device_memory_limits(
    py: Python<'_>,
    name: &str,
    most_reserved: Option<u64>,
    release_threshold: Option<u64>,
) -> PyResult<()> {
    asked(py, name, |device| device.set_memory_limits(DeviceMemoryLimits { most_reserved, release_threshold }))
}

/// Returns true if a device's driver has memory pools.
#[pyfunction]
pub(crate) fn has_driver_pool(py: Python<'_>, name: &str) -> PyResult<bool> {
    asked(py, name, |device| device.has_driver_pool())
}

/// Says whether a device's memory comes from a pool of the driver's.
#[pyfunction]
pub(crate) fn use_driver_pool(py: Python<'_>, name: &str, is_wanted: bool) -> PyResult<()> {
    asked(py, name, |device| device.use_driver_pool(is_wanted))
}

/// The names of the CUDA devices that this process has used.
#[pyfunction]
pub(crate) fn open_cuda_devices() -> Vec<String> {
    polyloom::open_cuda_devices().iter().map(ToString::to_string).collect()
}

/// Returns true if kernels of the CUDA device of a number may use the memory of another one.
#[pyfunction]
pub(crate) fn can_access_peer(py: Python<'_>, target: u32, peer: u32) -> PyResult<bool> {
    py.detach(|| polyloom::can_access_peer(target, peer)).map_err(|failure| device_error(py, &failure))
}

/// Says whether kernels of the CUDA device of a number reach the memory of another one.
#[pyfunction]
pub(crate) fn set_peer_access(py: Python<'_>, target: u32, peer: u32, is_wanted: bool) -> PyResult<()> {
    py.detach(|| polyloom::set_peer_access(target, peer, is_wanted)).map_err(|failure| device_error(py, &failure))
}
