//! Queues of devices as Python objects: what streams are made of.

use crate::arguments::{self, Arguments, Writes};
use crate::device::named;
use crate::errors::device_error;
use crate::kernel::Kernel;
use crate::launch_dimensions::extents_of;
use crate::launch_run::run_long;
use polyloom::{ArgBlock, DeviceFailure, LaunchOptions};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;

/// A queue of a device: on a GPU a stream of its own; those of the CPU and the simulator do everything at once.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Queue {
    queue: Arc<dyn polyloom::Queue>,
}

/// A place in the work of a queue.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Event {
    event: Arc<dyn polyloom::Event>,
}

fn done<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, DeviceFailure> + Send) -> PyResult<R> {
    py.detach(work).map_err(|failure| device_error(py, &failure))
}

#[pymethods]
impl Queue {
    #[new]
    fn new(py: Python<'_>, device: &str) -> PyResult<Queue> {
        let device = named(device)?;
        Ok(Queue { queue: done(py, || polyloom::device(device)?.new_queue())? })
    }

    /// The driver's handle, a `CUstream`; 0 where there is none.
    #[getter]
    fn handle(&self) -> u64 {
        self.queue.native_handle()
    }

    /// Puts a launch into the queue. Whoever launches keeps the arrays until it has run.
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        dim: &Bound<'_, PyAny>,
        args: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (kernel, device) = (kernel.get().one()?, self.queue.device());
        let shape = extents_of(dim)?;
        let borrowed: Arguments<'_, '_> = args.iter().map(Bound::as_borrowed).collect();
        let (mut block, mut made) = (ArgBlock::new(), SmallVec::new());
        arguments::fill(py, kernel, device, &borrowed, &mut block, &mut made, &mut Writes::new())?;
        run_long(py, kernel, device, |options| {
            let options = LaunchOptions { ..*options };
            // SAFETY: `fill` has checked the arrays, which the caller keeps.
            unsafe { kernel.launch_on(&*self.queue, &shape, &block, &options) }
        })
    }

    /// Marks the place in the queue where it is now.
    fn record(&self, py: Python<'_>) -> PyResult<Event> {
        Ok(Event { event: done(py, || self.queue.record())? })
    }

    /// Has what is asked of the queue from now on wait for an event.
    fn wait(&self, py: Python<'_>, event: &Bound<'_, Event>) -> PyResult<()> {
        let event = &event.get().event;
        done(py, || self.queue.wait(&**event))
    }

    /// Waits until everything in the queue is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        done(py, || self.queue.synchronize())
    }
}

#[pymethods]
impl Event {
    /// True if everything before it is done.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        done(py, || self.event.is_done())
    }

    /// Waits until everything before it is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        done(py, || self.event.synchronize())
    }

    /// The seconds from an earlier event of the same device to this.
    fn seconds_since(&self, py: Python<'_>, earlier: &Bound<'_, Event>) -> PyResult<f64> {
        let earlier = &earlier.get().event;
        done(py, || self.event.seconds_since(&**earlier))
    }
}
