//! Kernels and functions as native functions, called from Python.
//!
//! A call is on the path of the smallest computation: numbers and arrays go into a block that the thread keeps, and the
//! function's own code reads it. The GIL stays held, because letting it go takes longer than such a call.

use crate::argument_numbers::number_object;
use crate::arguments::{Writes, fill_first};
use crate::boundary::guarded;
use crate::code_forms::emit_error;
use crate::errors::{argument_error, argument_type_error, device_exception, launch_error};
use crate::plain_call::{PlainCall, PlainSignature};
use crate::recorded_tasks::run_recorded;
use numpy::npyffi;
use polyloom::{ArgBlock, Composite, DeviceId, MAX_DIMS, NativeCallError, Scalar, TrapReport, Type};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::cell::Cell;

/// A kernel or a function of values as a C function. [`crate::native_callable`] has the object that programs call.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct NativeFunction {
    function: polyloom::NativeFunction,
    /// The number of extents and arguments that a call takes.
    n_extents: usize,
    n_arguments: usize,
    /// Says how plain arguments become words, if the function takes nothing else.
    plain: Option<PlainSignature>,
}

impl NativeFunction {
    pub(crate) fn new(function: polyloom::NativeFunction) -> NativeFunction {
        let signature = function.signature();
        let n_extents = signature.launch_rank.into();
        let n_arguments = function.kernel().arguments().len() - signature.results.len();
        let plain = PlainSignature::of(&function);
        NativeFunction { function, n_extents, n_arguments, plain }
    }
}

thread_local! {
    /// The block of this thread's last call, for its memory.
    static BLOCK: Cell<ArgBlock> = Cell::new(ArgBlock::new());
}

#[pymethods]
impl NativeFunction {
    /// The symbol.
    #[getter(__name__)]
    fn python_name(&self) -> &str {
        &self.function.signature().name
    }

    /// The function as a header of C declares it.
    #[getter]
    fn prototype(&self) -> String {
        polyloom::artifact::prototype(self.function.signature())
    }

    /// The address of the C function, which is valid as long as this object is there.
    #[getter]
    fn address(&self) -> usize {
        self.function.as_ptr() as usize
    }

    /// Touches the code, so that the first call finds it in memory. Nothing of the kernel runs. A thread that may run
    /// elsewhere than on the cores of `cpu_affinity` is refused.
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            self.function.check_cores().map_err(|error| self.call_error(py, &error))?;
            self.function.prepare();
            Ok(())
        })
    }

    /// Says in words how a call runs.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        guarded(|| self.function.explain().map_err(|error| emit_error(py, &error)))
    }

    /// The bytes of the workspace that each call needs; 0 if it needs none.
    fn workspace_size(&self) -> usize {
        self.function.workspace_size()
    }

    /// Calls the function: with the extents of the launch first, if its threads have coordinates. `workspace` is the memory of
    /// a function that needs some; without it the call has its own.
    #[pyo3(signature = (*args, workspace = None))]
    fn __call__(&self, args: &Bound<'_, PyTuple>, workspace: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let py = args.py();
        guarded(|| {
            let pointers: SmallVec<[*mut ffi::PyObject; 16]> = args.iter_borrowed().map(|arg| arg.as_ptr()).collect();
            self.call_any(py, &pointers, workspace)
        })
    }

    fn __repr__(&self) -> String {
        format!("<native function '{}'>", self.prototype())
    }
}

impl NativeFunction {
    /// Calls the function with these objects for Python, which holds them and the GIL: gives a new reference, or null and leaves
    /// an error.
    #[inline]
    pub(crate) fn call_vector(&self, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
        // To count the thread's attachment would take longer than a short call. What happens here raises and releases nothing.
        // SAFETY: Python holds the objects and the GIL.
        let called = guarded(|| Ok(unsafe { self.plain.as_ref().and_then(|plain| plain.call(&self.function, args)) }));
        if let Ok(Some(PlainCall::Value(value))) = called {
            return value;
        }
        Python::attach(|py| {
            let result = match called {
                Ok(Some(PlainCall::Failed(status))) => Err(self.call_error(py, &self.function.failure(status))),
                Ok(_) => self.call_any(py, args, None),
                Err(error) => Err(error),
            };
            match result {
                Ok(result) => result.into_ptr(),
                Err(error) => {
                    error.restore(py);
                    std::ptr::null_mut()
                }
            }
        })
    }

    /// Calls the function with these objects, which the caller holds, whatever they are.
    fn call_any(
        &self,
        py: Python<'_>,
        args: &[*mut ffi::PyObject],
        workspace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        guarded(|| {
            // SAFETY: the caller holds the objects.
            let args: SmallVec<[Borrowed<'_, '_, PyAny>; 16]> =
                args.iter().map(|&arg| unsafe { Borrowed::from_ptr(py, arg) }).collect();
            // Code of an argument's type may call again on this thread, which then finds an empty block.
            let mut block = BLOCK.take();
            block.clear();
            let called = self.call(py, &args, &mut block, workspace);
            BLOCK.set(block);
            called
        })
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &[Borrowed<'_, 'py, PyAny>],
        block: &mut ArgBlock,
        workspace: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if args.len() != self.n_extents + self.n_arguments {
            return Err(self.wrong_count(args.len()));
        }
        run_recorded(py)?;
        let (given, args) = args.split_at(self.n_extents);
        let mut extents = [1i64; MAX_DIMS];
        for (extent, given) in extents.iter_mut().zip(given) {
            *extent = given.extract()?;
        }
        let kernel = self.function.kernel();
        let (mut kept, mut written) = (SmallVec::new(), Writes::new());
        fill_first(py, kernel, DeviceId::Cpu, args, block, &mut kept, &mut written)?;
        let results = &self.function.signature().results;
        let mut memory: SmallVec<[u64; 16]> = SmallVec::from_elem(0, results.iter().map(|&ty| words_of(ty)).sum());
        let mut next = 0;
        for &ty in results {
            let (elem, shape) = elements_of(ty);
            let mut strides: SmallVec<[i64; 3]> = SmallVec::from_elem(elem.bytes().into(), shape.len());
            for axis in (1..shape.len()).rev() {
                strides[axis - 1] = strides[axis] * shape[axis] as i64;
            }
            let base = memory[next..].as_mut_ptr().cast();
            let given = block.array(kernel.params(), elem, base, &shape, &strides);
            given.map_err(|error| argument_error(kernel, &error))?;
            next += words_of(ty);
        }
        let mut own: SmallVec<[u8; 0]> = SmallVec::new();
        let workspace = match workspace {
            None => {
                own.resize(self.function.workspace_size(), 0);
                &mut own[..]
            }
            // SAFETY: the caller holds the array during the call, and gives its memory to nobody else meanwhile.
            Some(given) => unsafe { &mut *workspace_memory(given)? },
        };
        // SAFETY: the arguments, or `kept`, hold the arrays, which were checked for their types and may be written where
        // the kernel does that, and the results are in `memory`.
        let called = unsafe { self.function.call_with(&extents[..self.n_extents], block, workspace) };
        called.map_err(|error| self.call_error(py, &error))?;
        let mut next = 0;
        let mut values: SmallVec<[Py<PyAny>; 2]> = SmallVec::new();
        for &ty in results {
            let (elem, shape) = elements_of(ty);
            let n = shape.iter().product::<u64>() as usize;
            let (bytes, mask) = (elem.bytes() as usize, u64::MAX >> (64 - 8 * elem.bytes()));
            let words = &memory[next..];
            let bits: SmallVec<[u64; 16]> =
                (0..n).map(|index| (words[index * bytes / 8] >> (index * bytes % 8 * 8)) & mask).collect();
            values.push(number_object(py, ty, &bits)?);
            next += words_of(ty);
        }
        match values.len() {
            0 => Ok(py.None()),
            1 => values.pop().ok_or_else(|| PyRuntimeError::new_err("internal error: a function without a value")),
            _ => Ok(PyTuple::new(py, values)?.into_any().unbind()),
        }
    }

    #[cold]
    fn wrong_count(&self, given: usize) -> PyErr {
        let extents = (0..self.n_extents).map(|axis| format!("dim{axis}"));
        let params = self.function.kernel().arguments()[..self.n_arguments].iter().map(|param| param.name.to_string());
        let (name, names) = (self.python_name(), extents.chain(params).collect::<Vec<_>>());
        let (n, plural) = (names.len(), if names.len() == 1 { "" } else { "s" });
        let text = names.join(", ");
        argument_type_error(format!("native function '{name}' takes {n} argument{plural} ({text}), {given} given"))
    }

    #[cold]
    fn call_error(&self, py: Python<'_>, error: &NativeCallError) -> PyErr {
        match error {
            NativeCallError::Launch(error) => launch_error(py, self.function.kernel(), error, None),
            NativeCallError::Check(report) => {
                let TrapReport { message, file, position, .. } = &**report;
                let make = || -> PyResult<PyErr> {
                    let class = py.import("polyloom._errors")?.getattr("LaunchError")?;
                    let (line, column) = (position.line, position.column);
                    let arguments =
                        (message, self.python_name(), file, line, column, None::<i64>, None::<i64>, PyTuple::empty(py));
                    Ok(PyErr::from_value(class.call1(arguments)?))
                };
                make().unwrap_or_else(|error| error)
            }
            NativeCallError::Cores { .. } => device_exception(py, error.to_string()),
            NativeCallError::Extents { .. } | NativeCallError::Workspace { .. } => {
                PyValueError::new_err(error.to_string())
            }
            NativeCallError::Status { .. } => PyRuntimeError::new_err(error.to_string()),
        }
    }
}

/// The memory of an array that is given as a workspace.
fn workspace_memory(given: &Bound<'_, PyAny>) -> PyResult<*mut [u8]> {
    let wanted = npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_WRITEABLE;
    let refused = || argument_type_error("`workspace` takes a dense NumPy array that may be written".to_owned());
    let has_objects = |given: &Bound<'_, PyAny>| given.getattr("dtype")?.getattr("hasobject")?.is_truthy();
    // SAFETY: the object is alive.
    if unsafe { npyffi::PyArray_CheckExact(given.py(), given.as_ptr()) } == 0 {
        return Err(refused());
    }
    // SAFETY: it is an array of NumPy.
    let array = unsafe { &(*given.as_ptr().cast::<npyffi::PyArrayObject>()).fields };
    if array.flags & wanted != wanted || has_objects(given)? {
        return Err(refused());
    }
    Ok(std::ptr::slice_from_raw_parts_mut(array.data.cast(), given.getattr("nbytes")?.extract()?))
}

/// The scalars that a result is made of, and the shape of the array that holds it.
fn elements_of(ty: Type) -> (Scalar, SmallVec<[u64; 3]>) {
    let elem = ty.as_scalar().or_else(|| ty.as_composite().map(Composite::elem)).unwrap_or(Scalar::F64);
    let shape = ty.as_composite().map(Composite::shape).unwrap_or_default();
    (elem, std::iter::once(1).chain(shape.iter().map(|&extent| extent.into())).collect())
}

/// The 8-byte words that hold a result.
fn words_of(ty: Type) -> usize {
    let (elem, shape) = elements_of(ty);
    (shape.iter().product::<u64>() as usize * elem.bytes() as usize).div_ceil(8)
}
