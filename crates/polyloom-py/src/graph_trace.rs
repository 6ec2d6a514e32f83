//! Traces: the graph of the ops that a function calls on traced tensors, which stand for the arrays that it is differentiated by, or for
//! all arrays that it is given, when it is built into a library.
//!
//! A trace that is begun while another one runs is at a level above it. An op belongs to the trace of its operand at the highest level,
//! to which tensors of others are inputs, as arrays are: constants of its gradient. So gradients of gradients never mix.

use crate::boundary::guarded;
use crate::errors::argument_type_error;
use crate::op_errors::graph_error;
use crate::result_memory::descr_of;
use crate::tensor_operand::{array_scalar, plain_tensor};
use crate::tensor_view::{TensorPackage, TensorView, view_of};
use crate::torch_tensor;
use numpy::npyffi;
use polyloom::Scalar;
use polyloom::fusion::RunNumber;
use polyloom::graph::{Graph, GraphBuilder, GraphError, Shape, TensorDef, TensorId, TensorType, prune};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyTuple};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

static NEXT_LEVEL: AtomicU64 = AtomicU64::new(0);

/// Holds the graph of the ops that a function calls.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct GraphTrace {
    level: u64,
    /// None while an op is being added.
    state: Mutex<Option<TraceState>>,
}

/// Holds what a trace has seen so far.
#[derive(Default)]
pub(crate) struct TraceState {
    pub(crate) builder: GraphBuilder,
    /// The inputs of the graph: arrays, or tensors of another trace.
    pub(crate) inputs: Vec<Py<PyAny>>,
    /// The Python numbers that a run is given.
    pub(crate) numbers: Vec<Py<PyAny>>,
    /// The inputs that are arrays from outside of the function, by the addresses of the objects, which are kept alive.
    captured: FxHashMap<usize, (TensorId, Py<PyAny>)>,
    /// The inputs that are arrays of NumPy and may be written again when the trace is closed.
    held: Vec<Py<PyAny>>,
    is_closed: bool,
    /// The graph, once results have been asked for.
    graph: Option<Arc<Graph>>,
}

/// A value of a trace, of known element type and shape. Base class of `polyloom`'s traced tensors.
#[pyclass(subclass, frozen, module = "polyloom._native")]
pub(crate) struct TracedBase {
    trace: Py<GraphTrace>,
    id: TensorId,
    dtype: Scalar,
    extents: Vec<u64>,
}

impl TracedBase {
    pub(crate) fn trace<'py>(&self, py: Python<'py>) -> &Bound<'py, GraphTrace> {
        self.trace.bind(py)
    }

    pub(crate) fn id(&self) -> TensorId {
        self.id
    }

    pub(crate) fn ty(&self) -> TensorType {
        TensorType { dtype: self.dtype, shape: Shape::of(&self.extents) }
    }
}

#[pymethods]
impl TracedBase {
    #[new]
    fn new(trace: Bound<'_, GraphTrace>, id: u32) -> PyResult<TracedBase> {
        let ty =
            trace.get().with_state(|state| state.builder.ty(TensorId(id)).cloned().map_err(|e| graph_error(&e)))?;
        let extents = ty.shape.as_static().unwrap_or_default();
        Ok(TracedBase { trace: trace.unbind(), id: TensorId(id), dtype: ty.dtype, extents })
    }

    /// The trace.
    #[getter]
    fn _trace(&self, py: Python<'_>) -> Py<GraphTrace> {
        self.trace.clone_ref(py)
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.extents)
    }

    /// The element type, as NumPy's.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        descr_of(py, self.dtype)
    }

    /// The name of the element type.
    #[getter]
    fn _dtype_name(&self) -> &'static str {
        self.dtype.python_name()
    }

    /// Returns true if the elements are floating-point numbers.
    #[getter]
    fn _is_float(&self) -> bool {
        self.dtype.is_float()
    }
}

#[pymethods]
impl GraphTrace {
    #[new]
    fn new() -> GraphTrace {
        let level = NEXT_LEVEL.fetch_add(1, Ordering::Relaxed);
        GraphTrace { level, state: Mutex::new(Some(TraceState::default())) }
    }

    /// Adds an input: the traced tensor that stands for an array, or for a tensor of another trace.
    fn input<'py>(slf: &Bound<'py, GraphTrace>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let plain = plain_tensor(py, value)?;
        let id = slf.get().with_state(|state| state.add_input(py, &plain))?;
        traced(slf, id)
    }

    /// Gives the graph with these tensors as its results, in its text form, and its inputs. Python numbers that a run would be given are
    /// constants of it.
    fn graph_of(&self, py: Python<'_>, outputs: Vec<Bound<'_, TracedBase>>) -> PyResult<(String, Vec<Py<PyAny>>)> {
        let outputs: Vec<TensorId> = outputs.iter().map(|output| output.get().id()).collect();
        self.with_state(|state| {
            let known = state.graph(&outputs).map_err(|error| graph_error(&error))?;
            let mut graph = Graph::clone(&known);
            for value in &mut graph.values {
                if let TensorDef::Number(index) = value.def {
                    let number = state.numbers[index as usize].bind(py);
                    let given = match number.cast::<PyFloat>() {
                        Ok(float) => RunNumber::Float(float.value()),
                        Err(_) => RunNumber::Int(number.extract()?),
                    };
                    let bits = given.bits(value.ty.dtype);
                    value.def = TensorDef::Constant(bits.map_err(|error| PyValueError::new_err(error.to_string()))?);
                }
            }
            let graph = prune(&graph).map_err(|error| graph_error(&error))?;
            Ok((graph.to_string(), state.inputs.iter().map(|input| input.clone_ref(py)).collect()))
        })
    }

    /// Ends the trace: a tensor that the function has left somewhere is refused from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with_state(|state| {
            state.is_closed = true;
            state.held.drain(..).for_each(|array| set_writable(array.bind(py), true));
            Ok(())
        })
    }
}

impl GraphTrace {
    /// Runs `work` on what the trace has seen.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if an op is being added, in another thread or by code that the op runs.
    pub(crate) fn with_state<T>(&self, work: impl FnOnce(&mut TraceState) -> PyResult<T>) -> PyResult<T> {
        let taken = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = taken
            .ok_or_else(|| PyRuntimeError::new_err("a function that is traced calls ops in one thread at a time"))?;
        let done = guarded(|| work(&mut state));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        done
    }
}

impl TraceState {
    /// Returns the value of the graph that an object is: a tensor of this trace, or an input for an array or another trace's tensor;
    /// nothing if it is neither.
    pub(crate) fn operand(
        &mut self,
        trace: &Bound<'_, GraphTrace>,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Option<TensorId>> {
        let py = trace.py();
        if let Ok(tensor) = object.cast::<TracedBase>()
            && tensor.get().trace.is(trace)
        {
            if self.is_closed {
                return Err(closed());
            }
            return Ok(Some(tensor.get().id));
        }
        if let Some((id, _)) = self.captured.get(&(object.as_ptr() as usize)) {
            return Ok(Some(*id));
        }
        let mut held = SmallVec::new();
        // SAFETY: the object is alive, and the view is not kept.
        let is_tensor = matches!(unsafe { view_of(py, object.as_ptr(), &mut held) }, TensorView::Tensor(_));
        if !is_tensor && object.cast::<TracedBase>().is_err() {
            return Ok(None);
        }
        let id = self.add_input(py, object)?;
        self.captured.insert(object.as_ptr() as usize, (id, object.clone().unbind()));
        Ok(Some(id))
    }

    /// Returns the graph with some outputs. It is made once, of what the builder has, because nothing is added to a closed trace.
    pub(crate) fn graph(&mut self, outputs: &[TensorId]) -> Result<Arc<Graph>, GraphError> {
        let known = match self.graph.take() {
            Some(graph) if graph.outputs == outputs => graph,
            Some(graph) => Arc::new(Graph { outputs: outputs.to_vec(), ..Graph::clone(&graph) }),
            None if self.is_closed => Arc::new(std::mem::take(&mut self.builder).finish(outputs)?),
            None => return self.builder.clone().finish(outputs).map(Arc::new),
        };
        self.graph = Some(known.clone());
        Ok(known)
    }

    fn add_input(&mut self, py: Python<'_>, plain: &Bound<'_, PyAny>) -> PyResult<TensorId> {
        let ty = type_of(py, plain)?;
        let name = format!("x{}", self.inputs.len());
        let id = self.builder.input(&name, ty.dtype, ty.shape).map_err(|error| graph_error(&error))?;
        self.inputs.push(plain.clone().unbind());
        // The plan reads it when the function has returned, so that a write before would change what the function computes.
        if is_writable_array(plain) {
            set_writable(plain, false);
            self.held.push(plain.clone().unbind());
        }
        Ok(id)
    }
}

/// Returns true if an object is an array of NumPy that may be written.
fn is_writable_array(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive, and is looked into as an array only if it is one.
    unsafe {
        npyffi::PyArray_Check(object.py(), object.as_ptr()) != 0
            && (*object.as_ptr().cast::<npyffi::PyArrayObject>()).fields.flags & npyffi::NPY_ARRAY_WRITEABLE != 0
    }
}

/// Sets whether an array of NumPy may be written.
fn set_writable(array: &Bound<'_, PyAny>, is_writable: bool) {
    // SAFETY: `is_writable_array` has found it to be an array, which it stays as long as it lives. The interpreter's lock is
    // held, and only arrays that were writable become so again.
    let flags = unsafe { &mut (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.flags };
    match is_writable {
        true => *flags |= npyffi::NPY_ARRAY_WRITEABLE,
        false => *flags &= !npyffi::NPY_ARRAY_WRITEABLE,
    }
}

/// Returns the type of an array or a traced tensor.
fn type_of(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<TensorType> {
    if let Ok(tensor) = object.cast::<TracedBase>() {
        if tensor.get().trace(py).get().with_state(|state| Ok(state.is_closed))? {
            return Err(closed());
        }
        return Ok(tensor.get().ty());
    }
    let mut held = SmallVec::new();
    // SAFETY: the object is alive, and the view is used up before Python code runs.
    let TensorView::Tensor(fields) = (unsafe { view_of(py, object.as_ptr(), &mut held) }) else {
        let given = object.get_type().name()?;
        return Err(argument_type_error(format!("is {given}, not an array")));
    };
    let dtype = match fields.package {
        TensorPackage::Torch => torch_tensor::scalar_of(fields.type_number),
        _ => array_scalar(py, object),
    };
    let dtype = dtype.ok_or_else(|| PyTypeError::new_err("has elements that ops do not take"))?;
    let extents: Vec<u64> = fields.extents.iter().map(|&extent| extent as u64).collect();
    Ok(TensorType { dtype, shape: Shape::of(&extents) })
}

fn closed() -> PyErr {
    PyTypeError::new_err(
        "is a tensor of a function whose gradient has been computed: it has no value outside of the function, so return it \
         from there, with has_aux=True beside the loss",
    )
}

/// Returns the trace at the highest level among those of the objects.
pub(crate) fn innermost_trace<'py>(objects: &[Bound<'py, PyAny>]) -> Option<Bound<'py, GraphTrace>> {
    let traces = objects.iter().filter_map(|object| {
        let tensor = object.cast::<TracedBase>().ok()?;
        Some(tensor.get().trace(object.py()).clone())
    });
    traces.max_by_key(|trace| trace.get().level)
}

/// Makes the object of a value of a trace.
pub(crate) fn traced<'py>(trace: &Bound<'py, GraphTrace>, id: TensorId) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = trace.py();
    let class = CLASS.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("polyloom._traced_tensor")?.getattr("TracedTensor")?.unbind())
    })?;
    class.bind(py).call1((trace, id.0))
}
