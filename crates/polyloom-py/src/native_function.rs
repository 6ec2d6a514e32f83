//! Kernels and functions as native functions, called from Python.
//!
//! A call is on the path of the smallest computation: numbers and arrays go into a block that the thread keeps, and the
//! function's own code reads it. The GIL stays held, because letting it go takes longer than such a call.

use crate::argument_numbers::{number_object, scalar_argument};
use crate::arguments::{Writes, fill_first};
use crate::boundary::guarded;
use crate::errors::{argument_error, argument_type_error, device_exception, launch_error};
use crate::plain_call::PlainSignature;
use polyloom::{ArgBlock, Composite, DeviceId, MAX_DIMS, NativeCallError, Scalar, TrapReport, Type};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::OnceLock;

/// A kernel or a function of values as a C function: call it.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct NativeFunction {
    function: polyloom::NativeFunction,
    /// The number of extents and arguments that a call takes.
    n_extents: usize,
    n_arguments: usize,
    /// The types of the parameters and of the result, if these are scalars alone.
    scalars: Option<ScalarFunction>,
    /// Says how plain arguments become words, if the function takes nothing else.
    plain: Option<PlainSignature>,
}

/// Python's entry of [`NativeFunction::builtin`].
///
/// # Safety
///
/// Python calls it, with `slf` a [`NativeFunction`].
unsafe extern "C" fn call_builtin(
    slf: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    n_args: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        // SAFETY: Python's promise: as many arguments follow each other.
        let (object, args) = unsafe {
            let args = if n_args == 0 { &[][..] } else { std::slice::from_raw_parts(args, n_args as usize) };
            (Borrowed::from_ptr(py, slf), args)
        };
        // SAFETY: as above.
        let function = unsafe { object.cast_unchecked::<NativeFunction>() };
        match function.get().call_builtin(py, args) {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    })
}

/// The definition of the builtin that each function has.
fn builtin_definition() -> *mut ffi::PyMethodDef {
    static DEFINITION: OnceLock<usize> = OnceLock::new();
    let make = || {
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: c"native_function".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: call_builtin },
            ml_flags: ffi::METH_FASTCALL,
            ml_doc: c"Calls a native function.".as_ptr(),
        }));
        std::ptr::from_mut(definition) as usize
    };
    *DEFINITION.get_or_init(make) as *mut ffi::PyMethodDef
}

/// A function of scalars with one scalar as its result.
struct ScalarFunction {
    params: SmallVec<[Scalar; 8]>,
    result: Scalar,
}

impl NativeFunction {
    pub(crate) fn new(function: polyloom::NativeFunction) -> NativeFunction {
        let signature = function.signature();
        let n_extents = signature.launch_rank.into();
        let n_arguments = function.kernel().arguments().len() - signature.results.len();
        let params: Option<SmallVec<[Scalar; 8]>> = signature.params.iter().map(|param| param.ty.as_scalar()).collect();
        let scalars = match (params, &signature.results[..]) {
            (Some(params), &[Type::Scalar(result)]) if n_extents == 0 && params.len() == n_arguments => {
                Some(ScalarFunction { params, result })
            }
            _ => None,
        };
        let plain = PlainSignature::of(&function);
        NativeFunction { function, n_extents, n_arguments, scalars, plain }
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

    /// The function as a builtin of Python, which does the same in less time: no tuple of the arguments is made.
    #[getter]
    fn builtin<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the definition is never freed; Python takes a reference to the function.
        unsafe {
            let function = ffi::PyCFunction_NewEx(builtin_definition(), slf.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(slf.py(), function)
        }
    }

    /// Calls the function: with the extents of the launch first, if its threads have coordinates.
    #[pyo3(signature = (*args))]
    fn __call__(&self, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = args.py();
        guarded(|| {
            let pointers: SmallVec<[*mut ffi::PyObject; 16]> = args.iter_borrowed().map(|arg| arg.as_ptr()).collect();
            if let Some(called) = self.call_plain(py, &pointers) {
                return called;
            }
            if let Some(scalars) = &self.scalars
                && args.len() == scalars.params.len()
                && let Some(value) = self.call_with_scalars(py, scalars, args)
            {
                return value;
            }
            // Code of an argument's type may call again on this thread, which then finds an empty block.
            let mut block = BLOCK.take();
            block.clear();
            let called = self.call(py, args, &mut block);
            BLOCK.set(block);
            called
        })
    }

    fn __repr__(&self) -> String {
        format!("<native function '{}'>", self.prototype())
    }
}

impl NativeFunction {
    /// Calls the function with these objects, which the caller holds.
    fn call_builtin(&self, py: Python<'_>, args: &[*mut ffi::PyObject]) -> PyResult<Py<PyAny>> {
        if let Some(called) = guarded(|| Ok(self.call_plain(py, args)))? {
            return called;
        }
        // SAFETY: the caller holds the objects.
        let objects = args.iter().map(|&arg| unsafe { Borrowed::from_ptr(py, arg) });
        self.__call__(&PyTuple::new(py, objects)?)
    }

    /// Calls the function with these objects, which the caller holds, if all of them are plain.
    #[inline]
    fn call_plain(&self, py: Python<'_>, args: &[*mut ffi::PyObject]) -> Option<PyResult<Py<PyAny>>> {
        // SAFETY: the caller holds the objects and the GIL.
        let called = unsafe { self.plain.as_ref()?.call(py, &self.function, args) }?;
        Some(called.map_err(|status| self.call_error(py, &self.function.failure(status))))
    }

    /// Calls a function of scalars; gives nothing if an argument is none, which [`NativeFunction::call`] then names.
    fn call_with_scalars(
        &self,
        py: Python<'_>,
        scalars: &ScalarFunction,
        args: &Bound<'_, PyTuple>,
    ) -> Option<PyResult<Py<PyAny>>> {
        let mut words: SmallVec<[u64; 16]> = SmallVec::new();
        for (arg, &scalar) in args.iter_borrowed().zip(&scalars.params) {
            words.push(scalar_argument(&arg, scalar).ok()?);
        }
        let mut memory = 0u64;
        let (bytes, address) = (scalars.result.bytes(), &raw mut memory);
        words.extend([address as u64, 1, bytes.into()]);
        // SAFETY: a block of scalars, and of an array of one element for the result; there is no launch.
        if let Err(error) = unsafe { self.function.call_words(&[], &words) } {
            return Some(Err(self.call_error(py, &error)));
        }
        // SAFETY: the memory is alive, and the function has written to it through this address.
        let bits = unsafe { address.read() } & (u64::MAX >> (64 - 8 * bytes));
        Some(number_object(py, Type::Scalar(scalars.result), &[bits]))
    }

    fn call<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>, block: &mut ArgBlock) -> PyResult<Py<PyAny>> {
        let args: SmallVec<[Borrowed<'_, 'py, PyAny>; 16]> = args.iter_borrowed().collect();
        if args.len() != self.n_extents + self.n_arguments {
            return Err(self.wrong_count(args.len()));
        }
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
        // SAFETY: the arguments, or `kept`, hold the arrays, which were checked for their types and may be written where
        // the kernel does that, and the results are in `memory`.
        let called = unsafe { self.function.call(&extents[..self.n_extents], block) };
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
            NativeCallError::Extents { .. } => PyValueError::new_err(error.to_string()),
            NativeCallError::Status { .. } => PyRuntimeError::new_err(error.to_string()),
        }
    }
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
