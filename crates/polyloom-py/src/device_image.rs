//! Code by whatever compiler on a GPU, and what there is to say of kernels there.

use crate::detached::Detached;
use crate::device::named;
use crate::errors::{device_error, launch_error};
use crate::kernel::Kernel;
use crate::launch_dimensions::three;
use crate::queue::Queue;
use polyloom::{DeviceFailure, KernelAttributes, LaunchConfig};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;

/// Code that a device has loaded: PTX, a cubin or a fat binary.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct DeviceImage {
    /// Dropped without the GIL, because the device is waited for before code is unloaded.
    image: Detached<Arc<dyn polyloom::DeviceImage>>,
}

/// A kernel of it.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct ImageKernel {
    /// As of the image.
    kernel: Detached<Arc<dyn polyloom::ImageKernel>>,
}

fn done<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, DeviceFailure> + Send) -> PyResult<R> {
    py.detach(work).map_err(|failure| device_error(py, &failure))
}

fn in_python(py: Python<'_>, attributes: KernelAttributes) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("registers", attributes.registers)?;
    found.set_item("local_bytes", attributes.local_bytes)?;
    found.set_item("shared_bytes", attributes.shared_bytes)?;
    found.set_item("constant_bytes", attributes.constant_bytes)?;
    found.set_item("threads_per_block", attributes.threads_per_block)?;
    found.set_item("dynamic_shared_bytes", attributes.dynamic_shared_bytes)?;
    Ok(found)
}

#[pymethods]
impl DeviceImage {
    #[new]
    fn new(py: Python<'_>, device: &str, image: &Bound<'_, PyBytes>) -> PyResult<DeviceImage> {
        let (device, bytes) = (named(device)?, image.as_bytes());
        let image = done(py, || polyloom::device(device)?.load_image(bytes))?;
        Ok(DeviceImage { image: Detached::new(image) })
    }

    /// The kernel of a name.
    fn kernel(&self, py: Python<'_>, name: &str) -> PyResult<ImageKernel> {
        Ok(ImageKernel { kernel: Detached::new(done(py, || self.image.kernel(name))?) })
    }
}

#[pymethods]
impl ImageKernel {
    /// Holds what the driver says of it.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        in_python(py, self.kernel.attributes())
    }

    /// The bytes of each parameter, if the driver says.
    #[getter]
    fn parameter_sizes(&self, py: Python<'_>) -> PyResult<Option<Vec<usize>>> {
        done(py, || self.kernel.parameter_sizes())
    }

    /// The blocks that a multiprocessor runs at once.
    fn occupancy(&self, py: Python<'_>, n_threads: u32, shared_bytes: u32) -> PyResult<u32> {
        done(py, || self.kernel.occupancy(n_threads, shared_bytes))
    }

    /// The threads of a block with which most threads run at once, and the fewest such blocks that fill the device.
    fn suggested_block(&self, py: Python<'_>, shared_bytes: u32) -> PyResult<(u32, u32)> {
        done(py, || self.kernel.suggested_block(shared_bytes))
    }

    /// Puts a launch into a queue. `uses` are addresses in the memory that it uses, and whether it writes there.
    #[expect(clippy::too_many_arguments, reason = "a launch has as many sides")]
    fn launch(
        &self,
        py: Python<'_>,
        queue: &Bound<'_, Queue>,
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        shared_bytes: u32,
        params: Vec<Vec<u8>>,
        uses: Vec<(u64, bool)>,
        is_cooperative: bool,
    ) -> PyResult<()> {
        let grid = LaunchConfig { grid: three("grid", grid)?, block: three("block", block)?, shared_bytes };
        let queue = &queue.get().queue;
        // SAFETY: whoever launches code of another compiler vouches for its arguments, whose sizes are compared with those of
        // the parameters where the driver says them.
        done(py, || unsafe { self.kernel.launch(&**queue, &grid, &params, &uses, is_cooperative) })
    }
}

/// Holds what the driver of a device says of a kernel's code for launches over so many axes: its attributes, the blocks of
/// `n_threads` that a multiprocessor runs at once, and a block's suggested size with the fewest blocks that fill the device.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python takes it apart at once")]
pub(crate) fn kernel_properties<'py>(
    py: Python<'py>,
    kernel: &Bound<'_, Kernel>,
    device: &str,
    rank: u8,
    n_threads: u32,
    shared_bytes: u32,
) -> PyResult<Option<(Bound<'py, PyDict>, u32, (u32, u32))>> {
    let (kernel, device) = (kernel.get().one()?, named(device)?);
    let found = py.detach(|| kernel.device_properties(device, rank, n_threads, shared_bytes));
    let found = found.map_err(|error| launch_error(py, kernel, &error, None))?;
    let Some(found) = found else { return Ok(None) };
    Ok(Some((in_python(py, found.attributes)?, found.blocks_at_once, found.suggested_block)))
}
