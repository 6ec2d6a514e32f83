//! Python objects as arguments of a launch.
//!
//! The common cases, NumPy arrays, `loom.array`s, floats and integers, are read through the C API without creating
//! Python objects: a launch's price is mostly paid here. Everything else is brought to one of them first.

use crate::array::ArrayBase;
use crate::composite::{CompositeBase, CompositeType};
use crate::dlpack;
use crate::environment::capture;
use crate::numpy_array::{ArrayType, check_array, extents, has_type, memory, numpy_text};
use crate::structure;
use numpy::npyffi;
use polyloom::frontend::{CapturedMeaning, ParamType, TypePattern};
use polyloom::{
    ArgArray, ArgBlock, ArgError, ArrayLayout, Composite, CompositeKind, DeviceId, Footprint, MAX_DIMS, Scalar, Type,
    ValueType, scalar_bits,
};
use pyo3::exceptions::{PyException, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyTuple, PyType};
use smallvec::SmallVec;

/// An array argument that the kernel writes.
pub(crate) struct WrittenArray {
    param: usize,
    /// True if it is in the memory of the launch's device, where addresses have nothing to do with the host's.
    pub(crate) is_resident: bool,
    /// The NumPy array, which the arguments or what is kept beside them hold.
    array: *mut npyffi::PyArrayObject,
    pub(crate) footprint: Footprint,
}

/// The arrays that a kernel writes.
pub(crate) type Writes = SmallVec<[WrittenArray; 4]>;

/// Fills `block` with `args` for a launch of `kernel` on `device`. `kept` receives objects made on the way, which must
/// live until the launch is over, and `written` the arrays that the kernel writes.
///
/// # Errors
///
/// A Python exception that names the argument.
pub(crate) fn fill<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    args: &[Borrowed<'_, 'py, PyAny>],
    block: &mut ArgBlock,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
    written: &mut Writes,
) -> PyResult<()> {
    if args.len() != kernel.arguments().len() {
        return Err(wrong_count(kernel, args.len()));
    }
    if !kernel.has_structs() {
        return fill_leaves(py, kernel, device, args, block, kept, written, |slot| kernel.writes(slot));
    }
    let mut leaves: SmallVec<[Bound<'py, PyAny>; 16]> = SmallVec::new();
    for (index, (arg, param)) in args.iter().zip(kernel.arguments()).enumerate() {
        match param.ty.as_plain() {
            Some(_) => leaves.push((**arg).clone()),
            None => {
                let of_struct = struct_leaves(arg, param.ty, device);
                leaves.extend(of_struct.map_err(|e| named(py, e, &argument_name(kernel, index)))?.iter());
            }
        }
    }
    let borrowed: SmallVec<[Borrowed<'_, 'py, PyAny>; 16]> = leaves.iter().map(Bound::as_borrowed).collect();
    let filled = fill_leaves(py, kernel, device, &borrowed, block, kept, written, |slot| kernel.writes(slot));
    drop(borrowed);
    // Views of fields were made here.
    kept.extend(leaves);
    filled
}

/// [`fill`] for launches that write none of the arrays, of a kernel that takes leaves in place of structs.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn fill_to_read<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    args: &[Borrowed<'_, 'py, PyAny>],
    block: &mut ArgBlock,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<()> {
    if args.len() != kernel.types().len() {
        return Err(wrong_count(kernel, args.len()));
    }
    fill_leaves(py, kernel, device, args, block, kept, &mut Writes::new(), |_| false)
}

/// An array for the adjoint of a parameter of the kernel's HIR, which is written: like the array that the parameter is,
/// or of one element of it.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn adjoint<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    array: &Bound<'py, PyAny>,
) -> PyResult<ArgArray> {
    let ty = match kernel.types().get(index) {
        Some(&ty @ (Type::Scalar(_) | Type::Composite(_))) => Type::array_of(ty, 1),
        Some(&ty) => Some(ty),
        None => return Err(wrong_count(kernel, index + 1)),
    };
    let ty = match ty {
        Some(Type::CompositeArray { elem, ndim, .. }) => ArrayType::of_composites(elem, ndim),
        Some(Type::Array { elem, ndim, .. }) => ArrayType { elem, rank: ndim, element: None },
        _ => return Err(PyTypeError::new_err(at(kernel, index, "has no adjoint"))),
    };
    let (object, is_resident) = array_argument(py, kernel, device, index, array, ty, false, &mut SmallVec::new())?;
    // SAFETY: the argument holds the array, whose rank is right, and no Python code runs here.
    let (base, extents, strides) = unsafe { memory(object, ty.rank) };
    let elem_bytes = ty.elem.bytes().into();
    let layout = ArrayLayout { base: base as u64, elem_bytes, extents: extents.into(), strides: strides.into() };
    Ok(ArgArray { elem: ty.elem, layout, is_resident })
}

/// For each argument what [`fill_leaves`] takes for it.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn leaves<'py>(
    kernel: &polyloom::Kernel,
    device: DeviceId,
    args: &[Bound<'py, PyAny>],
) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
    if args.len() != kernel.arguments().len() {
        return Err(wrong_count(kernel, args.len()));
    }
    let mut found = Vec::with_capacity(args.len());
    for (index, (arg, param)) in args.iter().zip(kernel.arguments()).enumerate() {
        found.push(match param.ty.as_plain() {
            Some(_) => vec![arg.clone()],
            None => {
                let leaves = struct_leaves(arg, param.ty, device);
                leaves.map_err(|e| named(arg.py(), e, &argument_name(kernel, index)))?.iter().collect()
            }
        });
    }
    Ok(found)
}

/// [`fill`] for arguments one for each parameter of the kernel's HIR. `writes` says which parameters of the block are
/// written.
#[inline]
#[expect(clippy::too_many_arguments, reason = "those of `fill`, and what is written")]
fn fill_leaves<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    args: &[Borrowed<'_, 'py, PyAny>],
    block: &mut ArgBlock,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
    written: &mut Writes,
    writes: impl Fn(usize) -> bool,
) -> PyResult<()> {
    let params = kernel.params();
    for (index, (arg, &ty)) in args.iter().zip(kernel.types()).enumerate() {
        let ty = match ty {
            Type::Scalar(scalar) => {
                let bits = scalar_argument(arg, scalar).map_err(|e| named(py, e, &leaf_name(kernel, index)))?;
                block.scalar(params, scalar, bits).map_err(|e| argument_error(kernel, &e))?;
                continue;
            }
            Type::Composite(composite) => {
                let components = components(arg, composite).map_err(|e| named(py, e, &leaf_name(kernel, index)))?;
                for bits in components {
                    block.scalar(params, composite.elem(), bits).map_err(|e| argument_error(kernel, &e))?;
                }
                continue;
            }
            Type::Array { elem, ndim, .. } => ArrayType { elem, rank: ndim, element: None },
            Type::CompositeArray { elem, ndim, .. } => ArrayType::of_composites(elem, ndim),
        };
        // Vectors before it are several parameters of the machine code.
        let is_written = writes(block.len());
        let (array, is_resident) = array_argument(py, kernel, device, index, arg, ty, is_written, kept)?;
        // SAFETY: the argument, or `kept`, holds the array, whose rank is right, and no Python code runs here.
        let (base, shape, strides) = unsafe { memory(array, ty.rank) };
        block.array(params, ty.elem, base, shape, strides).map_err(|e| argument_error(kernel, &e))?;
        if is_resident {
            block.set_resident();
        }
        if is_written && let Some(&footprint) = block.footprints().last() {
            written.push(WrittenArray { param: index, is_resident, array, footprint });
        }
    }
    check_overlap(py, kernel, written)
}

/// Tells whether `arg` fits the parameter with this index in a launch on `device`, whatever the other arguments are.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn check(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    arg: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let Some(param) = kernel.arguments().get(index) else { return Ok(()) };
    let first: usize = kernel.arguments()[..index].iter().map(|param| param.ty.n_leaves()).sum();
    let leaves = match param.ty.as_plain() {
        Some(_) => return check_leaf(py, kernel, device, first, arg),
        None => struct_leaves(arg, param.ty, device).map_err(|e| named(py, e, &argument_name(kernel, index)))?,
    };
    leaves.iter().enumerate().try_for_each(|(leaf, arg)| check_leaf(py, kernel, device, first + leaf, &arg))
}

/// [`check`] for a parameter of the kernel's HIR.
fn check_leaf(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    arg: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let ty = match kernel.types().get(index) {
        Some(&Type::Scalar(scalar)) => {
            return scalar_argument(arg, scalar).map(drop).map_err(|e| named(py, e, &leaf_name(kernel, index)));
        }
        Some(&Type::Composite(composite)) => {
            return components(arg, composite).map(drop).map_err(|e| named(py, e, &leaf_name(kernel, index)));
        }
        Some(&Type::Array { elem, ndim, .. }) => ArrayType { elem, rank: ndim, element: None },
        Some(&Type::CompositeArray { elem, ndim, .. }) => ArrayType::of_composites(elem, ndim),
        None => return Ok(()),
    };
    let components = |ty: &Type| ty.as_composite().map_or(1, Composite::n_components);
    let param = kernel.types()[..index].iter().map(components).sum();
    array_argument(py, kernel, device, index, arg, ty, kernel.writes(param), &mut SmallVec::new()).map(drop)
}

/// The type of the parameter that an argument of a generic kernel makes of `wanted`.
///
/// # Errors
///
/// The end of a sentence that starts with the argument's name.
pub(crate) fn type_of(arg: &Bound<'_, PyAny>, wanted: ParamType) -> PyResult<ValueType> {
    match structure::type_of(arg) {
        Some(ty) => Ok(ty),
        None => plain_type_of(arg, wanted).map(ValueType::Plain),
    }
}

fn plain_type_of(arg: &Bound<'_, PyAny>, wanted: ParamType) -> PyResult<Type> {
    let py = arg.py();
    if arg.cast::<PyBool>().is_ok() {
        return Ok(Type::BOOL);
    }
    if arg.is_exact_instance_of::<PyFloat>() {
        return Ok(Type::F32);
    }
    if arg.cast::<PyInt>().is_ok() {
        return Ok(Type::I32);
    }
    let inner = match wanted {
        ParamType::GenericArray(pattern, _) => pattern,
        _ => TypePattern::Any,
    };
    // SAFETY: `arg` is a live object.
    if unsafe { npyffi::PyArray_Check(py, arg.as_ptr()) } != 0 {
        // SAFETY: it is an array.
        return unsafe { array_type(arg.as_ptr().cast(), None, inner) };
    }
    if let Ok(array) = arg.cast::<ArrayBase>() {
        // SAFETY: it is an array, which `arg` holds.
        return unsafe { array_type(array.get().object().cast(), array.get().element(), TypePattern::Any) };
    }
    match capture(arg) {
        CapturedMeaning::Constant(_, scalar) => return Ok(scalar.into()),
        CapturedMeaning::CompositeConstant(_, composite) => return Ok(composite.into()),
        _ => {}
    }
    let numpy = py.import("numpy")?;
    let converted = if arg.hasattr("__array_interface__")? {
        numpy.call_method1("asarray", (arg,))?
    } else if arg.hasattr("__dlpack__")? {
        let shared = py.import("polyloom._arrays")?.call_method1("shared", (arg,));
        shared.map_err(|error| unreadable(py, error))?
    } else {
        let message = format!("is of type {}, which says no type of kernels: it takes {wanted}", type_name(arg));
        return Err(PyTypeError::new_err(message));
    };
    // SAFETY: NumPy has made an array.
    unsafe { array_type(converted.as_ptr().cast(), None, inner) }
}

/// The type of an array whose elements are of this type, or of one that its last axes make if `inner` has any.
///
/// # Safety
///
/// `object` is a live NumPy array.
unsafe fn array_type(
    object: *mut npyffi::PyArrayObject,
    element: Option<Composite>,
    inner: TypePattern,
) -> PyResult<Type> {
    // SAFETY: a live array's descriptor is valid, and the extents are its own.
    let (descr, extents) = unsafe { (&*(*object).fields.descr, extents(&(*object).fields)) };
    // The bits of `bfloat16` are integers where NumPy has no such type.
    let scalars = Scalar::ALL.into_iter().filter(|scalar| *scalar != Scalar::BF16).chain([Scalar::BF16]);
    let Some(scalar) = scalars.into_iter().find(|scalar| has_type(descr, *scalar)) else {
        return Err(PyTypeError::new_err("has elements of no type of kernels"));
    };
    let n_inner = element.map_or(inner.n_inner_axes(), |element| element.shape().len());
    let rank = extents.len().saturating_sub(n_inner);
    let element = element.or_else(|| match inner {
        TypePattern::Composite { kind, .. } => {
            let shape: SmallVec<[i128; 2]> = extents[rank..].iter().map(|&extent| extent as i128).collect();
            let is_fixed = matches!(kind, CompositeKind::Quaternion | CompositeKind::Transform);
            Composite::new(kind, scalar, if is_fixed { &[] } else { &shape }).ok()
        }
        TypePattern::Any | TypePattern::Scalar(_) => None,
    });
    let element = element.map_or(Type::Scalar(scalar), Type::Composite);
    let ndim = u8::try_from(rank).ok().filter(|&ndim| (1..=MAX_DIMS).contains(&usize::from(ndim)));
    ndim.and_then(|ndim| Type::array_of(element, ndim)).ok_or_else(|| {
        PyTypeError::new_err(format!("has {rank} dimensions, and arrays of kernels have 1 to {MAX_DIMS}"))
    })
}

/// The bits of a vector's, matrix's or quaternion's components.
pub(crate) fn components(arg: &Bound<'_, PyAny>, composite: Composite) -> PyResult<SmallVec<[u64; 16]>> {
    if let Ok(value) = arg.cast::<CompositeBase>()
        && value.get().composite() == composite
    {
        // SAFETY: the value holds the array.
        return unsafe { component_bits(value.get().object().cast(), composite) };
    }
    if let Some(bits) = numbers(arg, composite) {
        return Ok(bits);
    }
    let py = arg.py();
    let ty = CompositeType { inner: composite };
    let made = py.import("polyloom._composites")?.call_method1("argument", (ty, arg))?;
    let value = made.cast::<CompositeBase>()?.get();
    // SAFETY: as before.
    unsafe { component_bits(value.object().cast(), composite) }
}

/// The components as a tuple or list has them one by one, each a plain number; `None` for whatever else there is, right
/// or wrong. No Python code runs.
fn numbers(arg: &Bound<'_, PyAny>, composite: Composite) -> Option<SmallVec<[u64; 16]>> {
    let (elem, n) = (composite.elem(), composite.n_components());
    let is_plain = |item: &Bound<'_, PyAny>| {
        item.is_exact_instance_of::<PyFloat>()
            || item.is_exact_instance_of::<PyInt>()
            || item.is_exact_instance_of::<PyBool>()
    };
    let bits = |item: Bound<'_, PyAny>| {
        // Those of `bfloat16` are rounded in Python, by way of `float32`.
        let plain = elem != Scalar::BF16 && is_plain(&item);
        plain.then(|| scalar_argument(&item, elem).ok()).flatten()
    };
    if let Ok(tuple) = arg.cast::<PyTuple>() {
        return if tuple.len() == n { tuple.iter().map(bits).collect() } else { None };
    }
    let list = arg.cast::<PyList>().ok()?;
    let bits: SmallVec<[u64; 16]> = list.iter().map(bits).collect::<Option<_>>()?;
    // Its length may change meanwhile.
    (bits.len() == n).then_some(bits)
}

/// Reads the components out of their array.
///
/// # Safety
///
/// `object` is a live NumPy array.
unsafe fn component_bits(object: *mut npyffi::PyArrayObject, composite: Composite) -> PyResult<SmallVec<[u64; 16]>> {
    let (elem, n) = (composite.elem(), composite.n_components());
    // SAFETY: a live array's fields are valid, and the extents are `nd` numbers.
    let (array, descr, shape) = unsafe {
        let array = &(*object).fields;
        let shape: &[npyffi::npy_intp] = match usize::try_from(array.nd) {
            Ok(nd @ 1..) => std::slice::from_raw_parts(array.dimensions, nd),
            _ => &[],
        };
        (array, &*array.descr, shape)
    };
    let is_dense = array.flags & npyffi::NPY_ARRAY_C_CONTIGUOUS != 0;
    if !is_dense || shape.iter().product::<npyffi::npy_intp>() != n as npyffi::npy_intp || !has_type(descr, elem) {
        return Err(PyValueError::new_err("has been given another shape or type in memory"));
    }
    let bytes = elem.bytes() as usize;
    // SAFETY: the array is dense and has `n` elements of `bytes` bytes.
    let memory = unsafe { std::slice::from_raw_parts(array.data.cast::<u8>(), n * bytes) };
    let bits = |element: &[u8]| match *element {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    };
    Ok(memory.chunks_exact(bytes).map(bits).collect())
}

/// The NumPy array behind an argument, of the right type and rank, and writable if need be; and whether it is one in
/// the memory of the launch's device.
#[inline]
#[expect(clippy::too_many_arguments, reason = "an argument, its parameter and the launch")]
fn array_argument<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    arg: &Bound<'py, PyAny>,
    ty: ArrayType,
    is_written: bool,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<(*mut npyffi::PyArrayObject, bool)> {
    let found = array_object(py, arg, ty, device, kept).map_err(|e| named(py, e, &leaf_name(kernel, index)))?;
    let (array, is_resident) = found;
    let check = || {
        // SAFETY: the argument, or `kept`, holds the array.
        unsafe { check_array(array, ty) }.map_err(|m| PyTypeError::new_err(at(kernel, index, &m)))
    };
    check()?;
    // SAFETY: as before.
    let writeable = || unsafe { (*array).fields.flags } & npyffi::NPY_ARRAY_WRITEABLE != 0;
    if is_written && !writeable() {
        if !is_writable_by_dlpack(arg).map_err(|error| named(py, error, &leaf_name(kernel, index)))? {
            let message = "is written by the kernel but read-only: pass a copy, such as np.array(x)";
            return Err(PyValueError::new_err(at(kernel, index, message)));
        }
        // That has run code of the argument's type.
        check()?;
    }
    Ok((array, is_resident))
}

/// `argument 'x' of kernel 'k'`, of an argument as the source has it.
fn argument_name(kernel: &polyloom::Kernel, index: usize) -> String {
    let name = kernel.arguments().get(index).map_or("?", |param| &*param.name);
    format!("argument '{name}' of kernel '{}'", kernel.name())
}

fn param_name(kernel: &polyloom::Kernel, index: usize) -> &str {
    kernel.names().get(index).map_or("?", |name| name)
}

/// `argument 'x' of kernel 'k'`, of a parameter of its HIR.
fn leaf_name(kernel: &polyloom::Kernel, index: usize) -> String {
    format!("argument '{}' of kernel '{}'", param_name(kernel, index), kernel.name())
}

/// `argument 'x' of kernel 'k' MESSAGE`.
fn at(kernel: &polyloom::Kernel, index: usize, message: &str) -> String {
    format!("{} {message}", leaf_name(kernel, index))
}

/// The error with the argument's name before its message. What the argument's own code raises beyond the usual, an
/// interrupt for one, is left as it is.
fn named(py: Python<'_>, error: PyErr, argument: &str) -> PyErr {
    let message = || format!("{argument} {}", error.value(py));
    let named = if error.is_instance_of::<PyOverflowError>(py) {
        PyOverflowError::new_err(message())
    } else if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(message())
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(message())
    } else {
        return error;
    };
    named.set_cause(py, error.cause(py));
    named
}

fn wrong_count(kernel: &polyloom::Kernel, given: usize) -> PyErr {
    let names: Vec<&str> = kernel.arguments().iter().map(|param| &*param.name).collect();
    PyTypeError::new_err(format!(
        "kernel '{}' takes {} argument{} ({}), {given} given",
        kernel.name(),
        names.len(),
        if names.len() == 1 { "" } else { "s" },
        names.join(", "),
    ))
}

/// An argument that does not fit its parameter, named as the arguments of this layer are.
pub(crate) fn argument_error(kernel: &polyloom::Kernel, error: &ArgError) -> PyErr {
    PyValueError::new_err(match error.of_parameter() {
        Some((name, problem)) => format!("argument '{name}' of kernel '{}' {problem}", kernel.name()),
        None => format!("kernel '{}': {error}", kernel.name()),
    })
}

/// Two arrays that the kernel writes must not share elements.
fn check_overlap(py: Python<'_>, kernel: &polyloom::Kernel, written: &[WrittenArray]) -> PyResult<()> {
    for (i, a) in written.iter().enumerate() {
        for b in &written[..i] {
            if a.is_resident == b.is_resident && a.footprint.overlaps(&b.footprint) && shares_memory(py, a, b)? {
                let other = param_name(kernel, b.param);
                let message = format!("overlaps argument '{other}' in memory, and the kernel writes both");
                return Err(PyValueError::new_err(at(kernel, a.param, &message)));
            }
        }
    }
    Ok(())
}

/// Tells whether two arrays whose address ranges overlap have an element in common: NumPy's exact test.
fn shares_memory(py: Python<'_>, a: &WrittenArray, b: &WrittenArray) -> PyResult<bool> {
    // SAFETY: both are live arrays, which the caller's arguments hold.
    let [a, b] = [a, b].map(|written| unsafe { Bound::from_borrowed_ptr(py, written.array.cast()) });
    let bounded = PyDict::new(py);
    bounded.set_item("max_work", 100_000)?;
    match py.import("numpy")?.call_method("shares_memory", (a, b), Some(&bounded)) {
        Ok(answer) => answer.extract(),
        // The exact answer would take too long, because their ranges overlap, and that has to do.
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(true),
        Err(interrupt) => Err(interrupt),
    }
}

pub(crate) fn scalar_argument(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyResult<u64> {
    if scalar.is_float() {
        let value = match arg.cast::<PyFloat>() {
            Ok(float) => float.value(),
            Err(_) => arg.extract::<f64>().map_err(|error| unfit(error, arg, scalar))?,
        };
        return Ok(scalar_bits::from_f64(scalar, value));
    }
    if scalar == Scalar::Bool {
        return match truth(arg)? {
            Some(value) => Ok(value.into()),
            // Programs pass flags, so that `options & Flag.SPRING` is an integer.
            None if arg.cast::<PyInt>().is_ok() => Ok(arg.is_truthy()?.into()),
            None => Err(mismatch(arg, scalar)),
        };
    }
    let value: i128 = if arg.cast::<PyInt>().is_ok() {
        arg.extract().map_err(|error| unfit(error, arg, scalar))?
    } else if let Some(value) = truth(arg)? {
        value.into()
    } else if arg.hasattr("__index__")? {
        // Not `__int__`, which makes an integer of a float by dropping its fraction.
        arg.call_method0("__index__").and_then(|i| i.extract()).map_err(|error| unfit(error, arg, scalar))?
    } else {
        return Err(mismatch(arg, scalar));
    };
    // Of an unsigned type, a negative number of the signed type of this width means the same bits.
    let half = 1 << (scalar.bits() - 1);
    let is_signed = !scalar.is_signed_int() && (-half..0).contains(&value);
    scalar_bits::from_int(scalar, if is_signed { 2 * half + value } else { value })
        .ok_or_else(|| out_of_range(arg, scalar))
}

/// The value of Python's, NumPy's and the package's booleans.
fn truth(arg: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    static NUMPY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static CONSTANT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if let Ok(value) = arg.cast::<PyBool>() {
        return Ok(Some(value.is_true()));
    }
    let py = arg.py();
    if arg.is_instance(NUMPY.import(py, "numpy", "bool_")?)? {
        return arg.is_truthy().map(Some);
    }
    if arg.is_instance(CONSTANT.import(py, "polyloom._scalars", "TypedConstant")?)?
        && arg.get_type().getattr("name")?.extract::<&str>()? == "bool"
    {
        return arg.getattr("value")?.is_truthy().map(Some);
    }
    Ok(None)
}

/// Returns what a failed conversion to a number means for an argument.
fn unfit(error: PyErr, arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    let py = arg.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        return out_of_range(arg, scalar);
    }
    if error.is_instance_of::<PyTypeError>(py) {
        return mismatch(arg, scalar);
    }
    error
}

fn mismatch(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    PyTypeError::new_err(format!("must be {}, not {}", scalar.python_name(), type_name(arg)))
}

fn out_of_range(arg: &Bound<'_, PyAny>, scalar: Scalar) -> PyErr {
    /// Digits of an integer that a message has room for.
    const SHOWN: usize = 40;
    // Python refuses to print integers of many thousand digits.
    let text = arg.str().map_or_else(|_| String::new(), |text| text.to_string());
    let shown = match text.len() {
        1..=SHOWN => text,
        _ => "a very large integer".to_owned(),
    };
    PyOverflowError::new_err(format!("is {shown}, which does not fit {}", scalar.python_name()))
}

fn type_name(arg: &Bound<'_, PyAny>) -> String {
    arg.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The NumPy array behind an argument, and whether it is one in the memory of the launch's device; one made on the way
/// is put into `kept`.
fn array_object<'py>(
    py: Python<'py>,
    arg: &Bound<'py, PyAny>,
    ty: ArrayType,
    device: DeviceId,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<(*mut npyffi::PyArrayObject, bool)> {
    // SAFETY: `arg` is a live object.
    if unsafe { npyffi::PyArray_Check(py, arg.as_ptr()) } != 0 {
        // SAFETY: as above.
        if unsafe { npyffi::PyArray_CheckExact(py, arg.as_ptr()) } == 0 && arg.hasattr("mask")? {
            let message = "is a masked array, whose mask kernels do not see: pass x.filled(value), or x.data";
            return Err(PyTypeError::new_err(message));
        }
        return Ok((arg.as_ptr().cast(), false));
    }
    if let Ok(array) = arg.cast::<ArrayBase>() {
        check_device(array, device)?;
        let given = array.get().element();
        if given.is_some() && given != ty.element {
            let given = given.map_or_else(String::new, Composite::python_name);
            return Err(PyTypeError::new_err(format!(
                "must have elements of type {}, not {given}: make it with dtype={}",
                ty.element_name(),
                ty.element_text(),
            )));
        }
        return Ok((array.get().object().cast(), device != DeviceId::Cpu));
    }
    if matches!(device, DeviceId::Cuda(_)) && arg.hasattr("__cuda_array_interface__")? {
        // Another package's array on a GPU: the same, over its memory.
        let array = py.import("polyloom._arrays")?.call_method1("from_cuda_interface", (arg,))?;
        let found = array_object(py, &array, ty, device, kept)?;
        kept.push(array);
        return Ok(found);
    }
    let numpy = py.import("numpy")?;
    let converted = if arg.is_none() {
        // No array, so that one without elements, which a kernel tells by its truth.
        let n_inner = ty.element.map_or(0, |element| element.shape().len());
        let mut shape = vec![0; usize::from(ty.rank) - n_inner];
        shape.extend(ty.element.iter().flat_map(|element| element.shape()));
        let scalars = py.import("polyloom._scalars")?.getattr("_BY_NAME")?;
        let stored = scalars.get_item(ty.elem.python_name())?.getattr("numpy")?;
        numpy.call_method1("empty", (PyTuple::new(py, shape)?, stored))?
    } else if arg.hasattr("__array_interface__")? {
        numpy.call_method1("asarray", (arg,))?
    } else if arg.hasattr("__dlpack__")? {
        let shared = py.import("polyloom._arrays")?.call_method1("shared", (arg,));
        shared.map_err(|error| unreadable(py, error))?
    } else {
        let message = format!("must be an array, not {}", type_name(arg));
        return Err(PyTypeError::new_err(match arg.cast::<PyList>().is_ok() || arg.cast::<PyTuple>().is_ok() {
            true => format!("{message}: make one of it before the launch with np.array(…, {})", numpy_text(ty.elem)),
            // Of pandas, xarray and their like.
            false if arg.hasattr("to_numpy")? => format!("{message}: pass its .to_numpy()"),
            false => message,
        }));
    };
    let pointer = converted.as_ptr();
    kept.push(converted);
    Ok((pointer.cast(), false))
}

/// Returns what a launch gives for an argument that is a struct or an array of structs.
fn struct_leaves<'py>(arg: &Bound<'py, PyAny>, ty: ValueType, device: DeviceId) -> PyResult<Bound<'py, PyList>> {
    if let Ok(array) = arg.cast::<ArrayBase>() {
        check_device(array, device)?;
    }
    structure::leaves(arg, ty)
}

/// An array of the package's is on the launch's device; whatever else is in the host's memory is copied there.
fn check_device(array: &Bound<'_, ArrayBase>, device: DeviceId) -> PyResult<()> {
    let on = array.get().device();
    if on == device {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "is on device '{on}', and the launch is on '{device}': launch with device='{on}', or pass .to('{device}') of it"
    )))
}

/// Why an object with `__dlpack__` is no argument.
fn unreadable(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let named = PyTypeError::new_err(format!("cannot be read through DLPack as CPU memory: {}", error.value(py)));
    named.set_cause(py, Some(error));
    named
}

/// Tells whether an argument that NumPy takes for read-only comes through DLPack with leave to write.
///
/// NumPy's arrays over DLPack are read-only when the producer's DLPack is older than 1.0, which has no way to say what
/// holds. Such memory may be written, as all other consumers do, unless the producer gives NumPy a read-only array when
/// it is asked for one: JAX's arrays never change.
fn is_writable_by_dlpack(arg: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = arg.py();
    if arg.cast::<ArrayBase>().is_ok() || arg.hasattr("__array_interface__")? || !arg.hasattr("__dlpack__")? {
        return Ok(false);
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 0))?;
    let capsule = match arg.call_method("__dlpack__", (), Some(&options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => arg.call_method0("__dlpack__")?,
        other => other?,
    };
    let capsule = capsule.cast_into::<PyCapsule>()?;
    if dlpack::is_unversioned(&capsule) {
        return Ok(!arg.hasattr("__array__")? || !is_immutable(arg)?);
    }
    dlpack::grants_writing(&capsule)?.ok_or_else(|| {
        PyValueError::new_err("gives no new DLPack capsule when it is asked for one: pass np.from_dlpack(x)")
    })
}

/// Tells whether the array that an object makes of itself for NumPy is read-only. One that makes none, as a tensor that
/// PyTorch records does not, does not say so.
fn is_immutable(arg: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = arg.py();
    match py.import("numpy")?.call_method1("asarray", (arg,)) {
        Ok(array) => Ok(!array.getattr("flags")?.getattr("writeable")?.is_truthy()?),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(false),
        Err(interrupt) => Err(interrupt),
    }
}
