//! NumPy and PyTorch as the libraries whose kernels paths call.
//!
//! Kernels are Python functions that `polyloom._backends` finds by backend, name and op. An array is an object of the library; one at the
//! residence `numpy` is an array of NumPy, which planned groups read and write by its address.

use crate::interruptible::interruptible;
use crate::result_memory::{ArrayForm, descr_of, new_array, view_of};
use crate::tensor_graph::attribute_object;
use crate::torch_tensor;
use numpy::npyffi::PyArrayObject;
use polyloom::Scalar;
use polyloom::executor::{ArrayLibrary, CallOperand, LibraryCall};
use polyloom::fusion::{BoundFusion, FusionError, RunNumber};
use polyloom::graph::{Backend, Layout, Residence};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{IntoPyObjectExt, intern};
use smallvec::SmallVec;

/// A kernel of a library, with what its node fixes.
pub(crate) struct PyKernel {
    function: Py<PyAny>,
    operands: Vec<KernelOperand>,
    attributes: Vec<Py<PyAny>>,
    /// The library's element type of the result.
    dtype: Py<PyAny>,
    backend: Backend,
}

/// An operand of a kernel.
enum KernelOperand {
    Array,
    /// A constant as a value of the library, or None.
    Fixed(Py<PyAny>),
    Number(u32, Py<PyAny>),
}

/// The libraries, with the inputs of a run as arrays of NumPy.
pub(crate) struct PyArrays<'py> {
    pub(crate) py: Python<'py>,
    pub(crate) inputs: SmallVec<[Bound<'py, PyAny>; 8]>,
}

impl<'py> PyArrays<'py> {
    /// Makes the libraries without inputs.
    pub(crate) fn new(py: Python<'py>) -> PyArrays<'py> {
        PyArrays { py, inputs: SmallVec::new() }
    }

    fn backends(&self) -> PyResult<Bound<'py, PyModule>> {
        self.py.import(intern!(self.py, "polyloom._backends"))
    }

    /// Returns a number of a library as a value without axes.
    fn scalar(&self, backend: Backend, dtype: Scalar, bits: u64) -> PyResult<Bound<'py, PyAny>> {
        let descr = descr_of(self.py, dtype)?;
        self.backends()?.call_method1(intern!(self.py, "scalar_of"), (backend.name(), bits, descr))
    }
}

impl<'py> ArrayLibrary for PyArrays<'py> {
    type Array = Bound<'py, PyAny>;
    type Kernel = PyKernel;
    type Error = PyErr;

    fn kernel(&self, call: &LibraryCall<'_>) -> PyResult<PyKernel> {
        let py = self.py;
        let backends = self.backends()?;
        let backend = call.backend.name();
        let function = backends.call_method1("kernel_of", (backend, call.kernel, call.op.name()))?;
        let descr = descr_of(py, call.result.dtype)?;
        let dtype = backends.call_method1("dtype_of", (backend, descr))?;
        let operands = call.operands.iter().map(|operand| {
            Ok(match *operand {
                CallOperand::Array => KernelOperand::Array,
                CallOperand::Absent => KernelOperand::Fixed(py.None()),
                CallOperand::Constant { dtype, bits } => {
                    KernelOperand::Fixed(self.scalar(call.backend, dtype, bits)?.unbind())
                }
                CallOperand::Number { index, dtype } => KernelOperand::Number(index, descr_of(py, dtype)?),
            })
        });
        let attributes = call.attributes.0.iter().map(|attribute| Ok(attribute_object(py, attribute)?.unbind()));
        Ok(PyKernel {
            function: function.unbind(),
            operands: operands.collect::<PyResult<_>>()?,
            attributes: attributes.collect::<PyResult<_>>()?,
            dtype: dtype.unbind(),
            backend: call.backend,
        })
    }

    fn code(&self, call: &LibraryCall<'_>) -> String {
        let code = self.backends().and_then(|backends| {
            backends.call_method1("code_of", (call.backend.name(), call.kernel, call.op.name()))?.extract::<String>()
        });
        code.unwrap_or_default()
    }

    fn with_inputs(&self, inputs: Vec<Bound<'py, PyAny>>) -> PyArrays<'py> {
        PyArrays { py: self.py, inputs: inputs.into() }
    }

    fn call(
        &self,
        kernel: &PyKernel,
        operands: &[Bound<'py, PyAny>],
        numbers: &[RunNumber],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let mut arrays = operands.iter();
        let mut arguments: SmallVec<[Bound<'py, PyAny>; 8]> = SmallVec::new();
        for operand in &kernel.operands {
            arguments.push(match operand {
                KernelOperand::Array => {
                    let missing = || PyValueError::new_err("an operand is missing");
                    arrays.next().cloned().ok_or_else(missing)?
                }
                KernelOperand::Fixed(value) => value.bind(py).clone(),
                KernelOperand::Number(index, descr) => {
                    let number = match numbers.get(*index as usize) {
                        Some(RunNumber::Int(value)) => value.into_bound_py_any(py)?,
                        Some(RunNumber::Float(value)) => value.into_bound_py_any(py)?,
                        None => return Err(PyValueError::new_err("a number is missing")),
                    };
                    self.backends()?.call_method1("number_of", (kernel.backend.name(), number, descr))?
                }
            });
        }
        arguments.extend(kernel.attributes.iter().map(|attribute| attribute.bind(py).clone()));
        let result = kernel.function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let dtype = kernel.dtype.bind(py);
        if kernel.backend == Backend::CpuNumpy {
            if is_array(&result) && result.getattr(intern!(py, "dtype"))?.is(dtype) {
                return Ok(result);
            }
            return self.backends()?.call_method1(intern!(py, "numpy_array_of"), (result, dtype));
        }
        result.call_method1(intern!(py, "to"), (dtype,))
    }

    fn input(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.inputs.get(index).cloned().ok_or_else(|| PyValueError::new_err("an input is missing"))
    }

    fn new_array(&self, dtype: Scalar, layout: &Layout) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let py = self.py;
        let descr = descr_of(py, dtype)?;
        let bytes = u64::from(dtype.bytes());
        let extents = layout.extents.iter().map(|&extent| extent as isize).collect();
        if layout.is_dense() {
            return new_array(py, &ArrayForm { descr, extents, strides: None, n_bytes: layout.n_elements() * bytes });
        }
        let (least, most) = layout.place_range().unwrap_or((0, 0));
        let n_elements = (most - least + 1) as isize;
        let n_bytes = n_elements as u64 * bytes;
        let whole = ArrayForm {
            descr: descr.clone_ref(py),
            extents: SmallVec::from_slice(&[n_elements]),
            strides: None,
            n_bytes,
        };
        let (base, address) = new_array(py, &whole)?;
        let address = address + (-least) as usize * bytes as usize;
        let strides = layout.strides.iter().map(|&stride| (stride * bytes as i64) as isize).collect();
        let form = ArrayForm { descr, extents, strides: Some(strides), n_bytes };
        Ok((view_of(&form, address, true, base)?, address))
    }

    fn copy_to(
        &self,
        array: &Bound<'py, PyAny>,
        dtype: Scalar,
        from: Residence,
        to: Residence,
    ) -> PyResult<Bound<'py, PyAny>> {
        let backends = self.backends()?;
        let tensor_of = |array: &Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> {
            // PyTorch takes no negative strides.
            torch_tensor::of_numpy(backends.call_method1(intern!(self.py, "for_torch"), (array,))?, dtype)
        };
        let array_of = |tensor: Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> {
            backends.call_method1(intern!(self.py, "numpy_of_torch"), (tensor, descr_of(self.py, dtype)?))
        };
        let on_gpu = |tensor: Bound<'py, PyAny>| backends.call_method1(intern!(self.py, "on_gpu"), (tensor,));
        let on_host = |tensor: Bound<'py, PyAny>| backends.call_method1(intern!(self.py, "on_host"), (tensor,));
        match (from, to) {
            (Residence::Numpy, Residence::TorchCpu) => tensor_of(array),
            (Residence::Numpy, Residence::TorchCuda) => on_gpu(tensor_of(array)?),
            (Residence::TorchCpu, Residence::Numpy) => array_of(array.clone()),
            (Residence::TorchCuda, Residence::Numpy) => array_of(on_host(array.clone())?),
            (Residence::TorchCpu, Residence::TorchCuda) => on_gpu(array.clone()),
            (Residence::TorchCuda, Residence::TorchCpu) => on_host(array.clone()),
            _ => Err(PyValueError::new_err(format!("arrays are not copied from {from} to {to}"))),
        }
    }

    fn dense(&self, array: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let fields = fields_of(array)?;
        if fields.is_dense {
            return Ok((array.clone(), fields.address));
        }
        let copy = array.call_method1(intern!(self.py, "copy"), ("C",))?;
        let address = fields_of(&copy)?.address;
        Ok((copy, address))
    }

    fn detached<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.py.detach(work)
    }

    fn pause(&self) {
        self.py.detach(std::thread::yield_now);
    }

    unsafe fn launch(&self, bound: &BoundFusion) -> PyResult<Result<(), FusionError>> {
        // SAFETY: passed on to the caller.
        let n_done = match unsafe { bound.run_while_short() } {
            Ok(n_done) => n_done,
            Err(error) => return Ok(Err(error)),
        };
        if n_done == bound.n_launches() {
            return Ok(Ok(()));
        }
        // SAFETY: as above.
        let (done, interrupt) = interruptible(self.py, |options| unsafe { bound.run_from(n_done, options) })?;
        match interrupt {
            Some(interrupt) => Err(interrupt),
            None => Ok(done.map(|_| ())),
        }
    }
}

/// Holds what the header of an array of NumPy says.
struct ArrayFields {
    address: usize,
    is_dense: bool,
}

fn is_array(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: it is a live object.
    unsafe { numpy::npyffi::PyArray_CheckExact(object.py(), object.as_ptr()) != 0 }
}

fn fields_of(array: &Bound<'_, PyAny>) -> PyResult<ArrayFields> {
    if !is_array(array) {
        return Err(PyValueError::new_err("a result is no array of NumPy"));
    }
    // SAFETY: it is a live array.
    let fields = unsafe { &(*array.as_ptr().cast::<PyArrayObject>()).fields };
    let wanted = numpy::npyffi::NPY_ARRAY_C_CONTIGUOUS | numpy::npyffi::NPY_ARRAY_ALIGNED;
    Ok(ArrayFields { address: fields.data as usize, is_dense: fields.flags & wanted == wanted })
}

/// Returns an array of NumPy that is dense and shares its memory with nobody, so that it can be a result. `is_shared` says that somebody else
/// has this very array.
pub(crate) fn own_result<'py>(array: &Bound<'py, PyAny>, is_shared: bool) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields_of(array)?;
    // SAFETY: `fields_of` has seen that it is an array.
    let flags = unsafe { (*array.as_ptr().cast::<PyArrayObject>()).fields.flags };
    let wanted = numpy::npyffi::NPY_ARRAY_OWNDATA | numpy::npyffi::NPY_ARRAY_WRITEABLE;
    if !is_shared && fields.is_dense && flags & wanted == wanted {
        return Ok(array.clone());
    }
    array.call_method1(intern!(array.py(), "copy"), ("C",))
}

/// Does something in NumPy's context in which floating-point errors give no warnings, as kernels of Polyloom give none.
pub(crate) fn without_warnings<R>(py: Python<'_>, work: impl FnOnce() -> R) -> PyResult<R> {
    let context = py.import(intern!(py, "polyloom._backends"))?.call_method0(intern!(py, "quiet_errors"))?;
    context.call_method0(intern!(py, "__enter__"))?;
    let done = work();
    context.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
    Ok(done)
}
