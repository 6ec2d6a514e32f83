//! Python objects as arguments of a launch.
//!
//! The common cases, NumPy arrays, `loom.array`s, floats and integers, are read through the C API without creating
//! Python objects: a launch's price is mostly paid here. Everything else is brought to one of them first.

use crate::array::ArrayBase;
use numpy::npyffi;
use polyloom::{ArgBlock, ArgError, MAX_DIMS, Params, Scalar, Type, scalar_bits};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};
use smallvec::SmallVec;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI32, Ordering};

/// A range of addresses an array argument reaches, and whether the kernel writes through it.
struct Reach {
    param: usize,
    low: u64,
    high: u64,
}

/// Fills `block` with `args` for a kernel that writes the parameters in `written`. `kept` receives objects made on the
/// way, which must live until the launch is over.
///
/// # Errors
///
/// A Python exception that names the argument.
pub(crate) fn fill<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    args: &[Borrowed<'_, 'py, PyAny>],
    block: &mut ArgBlock,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<()> {
    let params = kernel.params();
    if args.len() != params.len() {
        return Err(wrong_count(kernel, args.len()));
    }
    let mut written: SmallVec<[Reach; 4]> = SmallVec::new();
    for (index, (arg, &ty)) in args.iter().zip(params.types()).enumerate() {
        match ty {
            Type::Scalar(scalar) => {
                let bits = scalar_argument(arg, scalar).map_err(|e| named(py, e, kernel, index))?;
                block.scalar(params, scalar, bits).map_err(|e| argument_error(kernel, &e))?;
            }
            Type::Array { elem, ndim } => {
                let object = array_object(py, arg, kept).map_err(|e| named(py, e, kernel, index))?;
                let view = View::of(object, elem, ndim).map_err(|m| PyTypeError::new_err(at(kernel, index, &m)))?;
                if kernel.writes(index) {
                    if !view.writeable {
                        return Err(PyValueError::new_err(at(kernel, index, "is written by the kernel but read-only")));
                    }
                    let (low, high) = view.reach();
                    written.push(Reach { param: index, low, high });
                }
                let (shape, strides) = (&view.shape[..ndim.into()], &view.strides[..ndim.into()]);
                block.array(params, elem, view.base, shape, strides).map_err(|e| argument_error(kernel, &e))?;
            }
        }
    }
    check_overlap(py, kernel, args, &written)
}

fn params_name(params: &Params, index: usize) -> &str {
    params.names().get(index).map_or("?", |name| name)
}

/// `argument 'x' of kernel 'k' MESSAGE`.
fn at(kernel: &polyloom::Kernel, index: usize, message: &str) -> String {
    format!("argument '{}' of kernel '{}' {message}", params_name(kernel.params(), index), kernel.name())
}

/// The error with the argument's name before its message, of the same type.
fn named(py: Python<'_>, error: PyErr, kernel: &polyloom::Kernel, index: usize) -> PyErr {
    let message = at(kernel, index, &error.value(py).to_string());
    if error.is_instance_of::<PyOverflowError>(py) {
        return PyOverflowError::new_err(message);
    }
    PyTypeError::new_err(message)
}

fn wrong_count(kernel: &polyloom::Kernel, given: usize) -> PyErr {
    let params = kernel.params();
    let names: Vec<&str> = params.names().iter().map(|n| &**n).collect();
    PyTypeError::new_err(format!(
        "kernel '{}' takes {} argument{} ({}), {given} given",
        kernel.name(),
        params.len(),
        if params.len() == 1 { "" } else { "s" },
        names.join(", "),
    ))
}

fn argument_error(kernel: &polyloom::Kernel, error: &ArgError) -> PyErr {
    PyValueError::new_err(format!("kernel '{}': {error}", kernel.name()))
}

/// Two arrays that the kernel writes must not share elements.
fn check_overlap(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    args: &[Borrowed<'_, '_, PyAny>],
    written: &[Reach],
) -> PyResult<()> {
    for (i, a) in written.iter().enumerate() {
        for b in &written[..i] {
            if a.low < b.high && b.low < a.high && shares_memory(py, &args[a.param], &args[b.param])? {
                let other = params_name(kernel.params(), b.param);
                let message = format!("overlaps argument '{other}' in memory, and the kernel writes both");
                return Err(PyValueError::new_err(at(kernel, a.param, &message)));
            }
        }
    }
    Ok(())
}

/// Whether two arrays whose address ranges overlap have an element in common: NumPy's exact test.
fn shares_memory(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let numpy = py.import("numpy")?;
    let arrays = [numpy.call_method1("asarray", (a,))?, numpy.call_method1("asarray", (b,))?];
    let bounded = PyDict::new(py);
    bounded.set_item("max_work", 100_000)?;
    match numpy.call_method("shares_memory", (&arrays[0], &arrays[1]), Some(&bounded)) {
        Ok(answer) => answer.extract(),
        // The exact answer would take too long: their ranges overlap, and that has to do.
        Err(_) => Ok(true),
    }
}

fn scalar_argument(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyResult<u64> {
    if scalar.is_float() {
        let value = match arg.cast::<PyFloat>() {
            Ok(float) => float.value(),
            Err(_) => arg.extract::<f64>().map_err(|_| mismatch(arg, scalar))?,
        };
        return Ok(scalar_bits::from_f64(scalar, value));
    }
    if scalar == Scalar::Bool {
        if let Ok(value) = arg.cast::<PyBool>() {
            return Ok(value.is_true().into());
        }
        if arg.get_type().name()?.to_string().starts_with("bool") {
            return Ok(arg.is_truthy()?.into());
        }
        return Err(mismatch(arg, scalar));
    }
    if arg.cast::<PyFloat>().is_ok() {
        return Err(mismatch(arg, scalar));
    }
    let value: i128 = if arg.cast::<PyInt>().is_ok() {
        arg.extract().map_err(|_| out_of_range(arg, scalar))?
    } else {
        let index = arg.call_method0("__index__").or_else(|_| arg.call_method0("__int__"));
        index.and_then(|i| i.extract()).map_err(|_| mismatch(arg, scalar))?
    };
    scalar_bits::from_int(scalar, value).ok_or_else(|| out_of_range(arg, scalar))
}

fn mismatch(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    PyTypeError::new_err(format!("must be {}, not {}", scalar.python_name(), type_name(arg)))
}

fn out_of_range(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    PyOverflowError::new_err(format!("is {arg}, which does not fit {}", scalar.python_name()))
}

fn type_name(arg: &Bound<'_, PyAny>) -> String {
    arg.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The NumPy array behind an argument; one made on the way is put into `kept`.
fn array_object<'py>(
    py: Python<'py>,
    arg: &Bound<'py, PyAny>,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<*mut npyffi::PyArrayObject> {
    // SAFETY: `arg` is a live object.
    if unsafe { npyffi::PyArray_Check(py, arg.as_ptr()) } != 0 {
        return Ok(arg.as_ptr().cast());
    }
    if let Ok(array) = arg.cast::<ArrayBase>() {
        return Ok(array.get().object().cast());
    }
    let numpy = py.import("numpy")?;
    let converted = if arg.hasattr("__array_interface__")? {
        numpy.call_method1("asarray", (arg,))?
    } else if arg.hasattr("__dlpack__")? {
        numpy.call_method1("from_dlpack", (arg,)).map_err(|error| {
            PyTypeError::new_err(format!("cannot be read through DLPack as CPU memory: {}", error.value(py)))
        })?
    } else {
        return Err(PyTypeError::new_err(format!("must be an array, not {}", type_name(arg))));
    };
    let pointer = converted.as_ptr();
    kept.push(converted);
    Ok(pointer.cast())
}

/// What an array object says of its memory.
struct View {
    base: *mut u8,
    shape: [u64; MAX_DIMS],
    strides: [i64; MAX_DIMS],
    bytes: u32,
    ndim: u8,
    writeable: bool,
}

impl View {
    /// # Errors
    ///
    /// The end of a sentence that starts with the argument's name.
    #[inline]
    fn of(object: *mut npyffi::PyArrayObject, elem: Scalar, ndim: u8) -> Result<View, String> {
        // SAFETY: `object` is a live NumPy array: its descriptor is valid, and dimensions and strides have `nd` entries.
        unsafe {
            let array = &(*object).fields;
            let descr = &*array.descr;
            if !has_type(descr, elem) {
                let given = Bound::from_borrowed_ptr(Python::assume_attached(), array.descr.cast());
                return Err(format!("must have elements of type {}, not {given}", elem.python_name()));
            }
            if array.nd != c_int::from(ndim) {
                let plural = if ndim == 1 { "" } else { "s" };
                return Err(format!("must have {ndim} dimension{plural}, not {}", array.nd));
            }
            let mut view = View {
                base: array.data.cast(),
                shape: [1; MAX_DIMS],
                strides: [0; MAX_DIMS],
                bytes: elem.bytes(),
                ndim,
                writeable: array.flags & npyffi::NPY_ARRAY_WRITEABLE != 0,
            };
            for axis in 0..usize::from(ndim) {
                view.shape[axis] = *array.dimensions.add(axis) as u64;
                view.strides[axis] = *array.strides.add(axis) as i64;
            }
            Ok(view)
        }
    }

    /// The addresses from its first byte to one past its last; empty if it has no elements.
    fn reach(&self) -> (u64, u64) {
        let (mut low, mut high) = (self.base as u64, self.base as u64);
        for axis in 0..usize::from(self.ndim) {
            if self.shape[axis] == 0 {
                return (low, low);
            }
            let span = self.strides[axis].wrapping_mul(self.shape[axis] as i64 - 1);
            if span < 0 { low = low.wrapping_add_signed(span) } else { high = high.wrapping_add_signed(span) }
        }
        (low, high.wrapping_add(self.bytes.into()))
    }
}

/// NumPy's number for `ml_dtypes.bfloat16`, once it has been seen.
static BFLOAT16: AtomicI32 = AtomicI32::new(-1);

/// Whether an array's elements are of type `elem`, in this machine's byte order.
#[inline]
fn has_type(descr: &npyffi::PyArray_Descr, elem: Scalar) -> bool {
    use npyffi::NPY_TYPES as T;
    let number = descr.fields.type_num;
    let is = |ty: T| number == ty as c_int;
    let long_is = |bytes: usize| size_of::<c_long>() == bytes;
    let fits = match elem {
        Scalar::Bool => is(T::NPY_BOOL),
        Scalar::I8 => is(T::NPY_BYTE),
        Scalar::I16 => is(T::NPY_SHORT),
        Scalar::I32 => is(T::NPY_INT) || is(T::NPY_LONG) && long_is(4),
        Scalar::I64 => is(T::NPY_LONG) && long_is(8) || is(T::NPY_LONGLONG),
        Scalar::U8 => is(T::NPY_UBYTE),
        Scalar::U16 => is(T::NPY_USHORT),
        Scalar::U32 => is(T::NPY_UINT) || is(T::NPY_ULONG) && long_is(4),
        Scalar::U64 => is(T::NPY_ULONG) && long_is(8) || is(T::NPY_ULONGLONG),
        Scalar::F16 => is(T::NPY_HALF),
        Scalar::BF16 => return is(T::NPY_USHORT) || is_bfloat16(descr),
        Scalar::F32 => is(T::NPY_FLOAT),
        Scalar::F64 => is(T::NPY_DOUBLE),
    };
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    fits && descr.fields.byteorder as u8 != foreign
}

/// `ml_dtypes` registers its types while the program runs, so their numbers are found by name.
fn is_bfloat16(descr: &npyffi::PyArray_Descr) -> bool {
    let known = BFLOAT16.load(Ordering::Relaxed);
    if known != -1 {
        return known == descr.fields.type_num;
    }
    // SAFETY: callers hold the GIL, and the descriptor is a live object.
    let name = unsafe {
        let object = std::ptr::from_ref(descr).cast_mut();
        Bound::from_borrowed_ptr(Python::assume_attached(), object.cast()).to_string()
    };
    let found = name == "bfloat16";
    if found {
        BFLOAT16.store(descr.fields.type_num, Ordering::Relaxed);
    }
    found
}
