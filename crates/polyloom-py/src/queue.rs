//! Queues of devices, their events and graphs as Python objects: what streams are made of.

use crate::arguments::{self, Arguments, Writes};
use crate::device::named;
use crate::errors::device_error;
use crate::kernel::Kernel;
use crate::launch_dimensions::extents_of;
use crate::launch_run::run_long;
use polyloom::{ArgBlock, BranchKind, DeviceFailure, LaunchOptions, QueueOptions, StandingQueue};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use smallvec::SmallVec;
use std::sync::Arc;

/// A queue of a device: on a GPU a stream; those of the CPU and the simulator do everything at once.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Queue {
    pub(crate) queue: Arc<dyn polyloom::Queue>,
}

/// A place in the work of a queue.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct QueueEvent {
    event: Arc<dyn polyloom::Event>,
}

/// A graph of a device, which a queue has captured.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct DeviceGraph {
    graph: Arc<dyn polyloom::DeviceGraph>,
}

/// A branch of a graph under construction.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Branch {
    branch: Arc<dyn polyloom::Branch>,
}

fn done<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, DeviceFailure> + Send) -> PyResult<R> {
    py.detach(work).map_err(|failure| device_error(py, &failure))
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (device, priority = 0, is_blocking = true))]
    fn new(py: Python<'_>, device: &str, priority: i32, is_blocking: bool) -> PyResult<Queue> {
        let (device, options) = (named(device)?, QueueOptions { priority, is_blocking });
        Ok(Queue { queue: done(py, || polyloom::device(device)?.new_queue(options))? })
    }

    /// The queue that is in order with all others, or the calling thread's own one.
    #[classmethod]
    #[pyo3(signature = (device, *, of_thread = false))]
    fn standing(_class: &Bound<'_, PyType>, py: Python<'_>, device: &str, of_thread: bool) -> PyResult<Queue> {
        let device = named(device)?;
        let which = if of_thread { StandingQueue::OfThread } else { StandingQueue::Default };
        Ok(Queue { queue: done(py, || Ok(polyloom::device(device)?.standing_queue(which)))? })
    }

    /// The queue of a handle of the driver's, which another library keeps.
    #[classmethod]
    fn of_handle(_class: &Bound<'_, PyType>, py: Python<'_>, device: &str, handle: u64) -> PyResult<Queue> {
        let device = named(device)?;
        // SAFETY: whoever gives a stream by its handle vouches for it, as Python's stream protocols have it.
        Ok(Queue { queue: done(py, || unsafe { polyloom::device(device)?.queue_of_handle(handle) })? })
    }

    /// The name of the device.
    #[getter]
    fn device(&self) -> String {
        self.queue.device().to_string()
    }

    /// The driver's handle, a `CUstream`; 0 where there is none.
    #[getter]
    fn handle(&self) -> u64 {
        self.queue.native_handle()
    }

    /// Returns how urgent its work is.
    #[getter]
    fn priority(&self, py: Python<'_>) -> PyResult<i32> {
        done(py, || self.queue.priority())
    }

    /// Returns true if its work is in order with that of the default queue.
    #[getter]
    fn is_blocking(&self) -> bool {
        self.queue.is_blocking()
    }

    /// Returns true if everything in it is done.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        done(py, || self.queue.is_done())
    }

    /// Returns true if what is asked of it becomes part of a graph.
    #[getter]
    fn is_capturing(&self, py: Python<'_>) -> PyResult<bool> {
        done(py, || self.queue.is_capturing())
    }

    /// Makes it the queue of this thread's work on the device that names none; gives the one before.
    fn make_current(&self) -> Queue {
        Queue { queue: self.queue.clone().make_current() }
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
    #[pyo3(signature = (is_timed = true))]
    fn record(&self, py: Python<'_>, is_timed: bool) -> PyResult<QueueEvent> {
        Ok(QueueEvent { event: done(py, || self.queue.record(is_timed))? })
    }

    /// Has what is asked of the queue from now on wait for an event.
    fn wait(&self, py: Python<'_>, event: &Bound<'_, QueueEvent>) -> PyResult<()> {
        let event = &event.get().event;
        done(py, || self.queue.wait(&**event))
    }

    /// Waits until everything in the queue is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        done(py, || self.queue.synchronize())
    }

    /// Calls a function without parameters after everything that is in the queue now.
    fn call(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
        if !function.bind(py).is_callable() {
            let given = function.bind(py).get_type();
            return Err(PyTypeError::new_err(format!("a stream calls a function, not {}", given.name()?)));
        }
        let call = move || {
            Python::attach(|py| {
                if let Err(error) = function.call0(py) {
                    // Nobody waits for the call who could be told otherwise.
                    error.write_unraisable(py, Some(function.bind(py)));
                }
            });
        };
        done(py, || self.queue.call(Box::new(call)))
    }

    /// Has what is asked of it become part of a graph.
    fn begin_capture(&self, py: Python<'_>) -> PyResult<()> {
        done(py, || self.queue.begin_capture())
    }

    /// Begins a branch of the graph that it is captured for, "if", "unless" or "while" the first integer of an array is not 0.
    fn begin_branch(&self, py: Python<'_>, kind: &str, condition: u64) -> PyResult<Branch> {
        let kind = match kind {
            "if" => BranchKind::If,
            "unless" => BranchKind::Unless,
            "while" => BranchKind::While,
            other => return Err(PyValueError::new_err(format!("there is no branch {other:?}"))),
        };
        // SAFETY: Python's side gives the address of an array that it holds, and the graph keeps its memory.
        Ok(Branch { branch: done(py, || unsafe { self.queue.begin_branch(kind, condition) })? })
    }

    /// Ends the capture.
    fn end_capture(&self, py: Python<'_>) -> PyResult<DeviceGraph> {
        Ok(DeviceGraph { graph: done(py, || self.queue.end_capture())? })
    }

    fn __repr__(&self) -> String {
        format!("<queue 0x{:x} of {}>", self.queue.native_handle(), self.queue.device())
    }
}

#[pymethods]
impl Branch {
    /// The queue that takes the body.
    #[getter]
    fn queue(&self) -> Queue {
        Queue { queue: self.branch.queue() }
    }

    /// Ends the body.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        done(py, || self.branch.end())
    }
}

/// Returns true if graphs of a device have branches.
#[pyfunction]
pub(crate) fn has_branches(py: Python<'_>, device: &str) -> PyResult<bool> {
    let device = named(device)?;
    done(py, || Ok(polyloom::device(device)?.has_branches()))
}

#[pymethods]
impl QueueEvent {
    /// The driver's handle, a `CUevent`; 0 where there is none.
    #[getter]
    fn handle(&self) -> u64 {
        self.event.native_handle()
    }

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
    fn seconds_since(&self, py: Python<'_>, earlier: &Bound<'_, QueueEvent>) -> PyResult<f64> {
        let earlier = &earlier.get().event;
        done(py, || self.event.seconds_since(&**earlier))
    }
}

#[pymethods]
impl DeviceGraph {
    /// The number of its launches, copies and fills, with what only orders them.
    #[getter]
    fn n_nodes(&self) -> usize {
        self.graph.n_nodes()
    }

    /// Puts all of it into a queue.
    fn launch(&self, py: Python<'_>, queue: &Bound<'_, Queue>) -> PyResult<()> {
        let queue = &queue.get().queue;
        // SAFETY: the graph keeps the device's memory, and Python's side the arrays of others.
        done(py, || unsafe { self.graph.launch(&**queue) })
    }

    /// Takes the parameters of another graph; gives false if that is of another shape.
    fn update(&self, py: Python<'_>, other: &Bound<'_, DeviceGraph>) -> PyResult<bool> {
        let other = &other.get().graph;
        done(py, || self.graph.update(&**other))
    }
}

/// The queue that a stream of the package has, as `stream=` of a launch gives it.
pub(crate) fn queue_of_stream<'py>(stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Queue>> {
    let queue = stream.getattr_opt("_queue")?.and_then(|queue| queue.cast_into::<Queue>().ok());
    queue.ok_or_else(|| {
        let given = stream.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "stream is a polyloom.Stream, not {given}: make one of other packages' with Stream.of"
        ))
    })
}

/// A queue is the thread's current one as long as this lives.
pub(crate) struct QueueScope {
    before: Arc<dyn polyloom::Queue>,
}

impl QueueScope {
    pub(crate) fn enter(queue: &Arc<dyn polyloom::Queue>) -> QueueScope {
        QueueScope { before: queue.clone().make_current() }
    }
}

impl Drop for QueueScope {
    fn drop(&mut self) {
        self.before.clone().make_current();
    }
}
