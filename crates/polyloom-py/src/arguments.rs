//! Python objects as arguments of a launch.
//!
//! The common cases, NumPy arrays, `loom.array`s, floats and integers, are read through the C API without creating
//! Python objects: a launch's price is mostly paid here. Everything else is brought to one of them first.

use crate::argument_numbers::{components, is_constant, number_object, scalar_argument, type_name};
use crate::array::ArrayBase;
use crate::dlpack::{self, unreadable};
use crate::errors::{argument_error, argument_type_error};
use crate::numpy_array::{ArrayType, check_array, memory, numpy_text};
use crate::structure;
use numpy::npyffi;
use polyloom::{ArgArray, ArgBlock, ArrayLayout, Composite, DeviceId, Footprint, Type, ValueType};
use pyo3::exceptions::{PyException, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use smallvec::SmallVec;

/// The arguments of a launch, borrowed.
pub(crate) type Arguments<'a, 'py> = SmallVec<[Borrowed<'a, 'py, PyAny>; 16]>;

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
    fill_first(py, kernel, device, args, block, kept, written)
}

/// [`fill`] for the first of a kernel's arguments, as many as there are: the caller fills in the rest.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn fill_first<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    args: &[Borrowed<'_, 'py, PyAny>],
    block: &mut ArgBlock,
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
    written: &mut Writes,
) -> PyResult<()> {
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

/// An array for the adjoint of a parameter of the kernel's HIR, like the array that the parameter is, or of one element of
/// it; and true if it may be written. `kept` holds the objects that were made for it and must live as long.
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
    kept: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
) -> PyResult<(ArgArray, bool)> {
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
    let (mut object, mut is_resident) = array_argument(py, kernel, device, index, array, ty, false, kept)?;
    let mut may_be_written = is_writeable(object);
    if !may_be_written {
        may_be_written = is_writable_by_dlpack(array).map_err(|error| named(py, error, &leaf_name(kernel, index)))?;
        // That has run code of the argument's type.
        (object, is_resident) = array_argument(py, kernel, device, index, array, ty, false, kept)?;
    }
    // SAFETY: the argument, or `kept`, holds the array, whose rank is right, and no Python code runs here.
    let (base, extents, strides) = unsafe { memory(object, ty.rank) };
    let elem_bytes = ty.elem.bytes().into();
    let layout = ArrayLayout { base: base as u64, elem_bytes, extents: extents.into(), strides: strides.into() };
    Ok((ArgArray { elem: ty.elem, layout, is_resident }, may_be_written))
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

/// An argument that has been found to fit its parameter, whatever the other arguments are.
pub(crate) enum CheckedArgument<'py> {
    /// A struct or an array of structs.
    Struct,
    /// A number or the components of a composite.
    Numbers {
        /// The first of the parameters of the block that they are.
        slot: usize,
        ty: Type,
        bits: SmallVec<[u64; 16]>,
    },
    /// An array, which the argument or `made` holds.
    Array {
        /// The parameter of the block.
        slot: usize,
        ty: ArrayType,
        array: *mut npyffi::PyArrayObject,
        is_resident: bool,
        /// Objects that were made on the way.
        made: SmallVec<[Bound<'py, PyAny>; 2]>,
    },
}

impl CheckedArgument<'_> {
    /// The argument with the number that it is now; of others itself.
    ///
    /// # Errors
    ///
    /// When Python has no memory.
    pub(crate) fn by_value(&self, py: Python<'_>, arg: Py<PyAny>) -> PyResult<Py<PyAny>> {
        match self {
            CheckedArgument::Numbers { ty, bits, .. } if !is_constant(arg.bind(py)) => number_object(py, *ty, bits),
            _ => Ok(arg),
        }
    }
}

/// Checks `arg` against the parameter with this index in a launch on `device`, whatever the other arguments are.
///
/// # Errors
///
/// As [`fill`].
pub(crate) fn checked<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    arg: &Bound<'py, PyAny>,
) -> PyResult<CheckedArgument<'py>> {
    let Some(param) = kernel.arguments().get(index) else { return Err(wrong_count(kernel, index + 1)) };
    let first: usize = kernel.arguments()[..index].iter().map(|param| param.ty.n_leaves()).sum();
    let leaves = match param.ty.as_plain() {
        Some(_) => return checked_leaf(py, kernel, device, first, arg),
        None => struct_leaves(arg, param.ty, device).map_err(|e| named(py, e, &argument_name(kernel, index)))?,
    };
    for (leaf, arg) in leaves.iter().enumerate() {
        checked_leaf(py, kernel, device, first + leaf, &arg)?;
    }
    Ok(CheckedArgument::Struct)
}

/// [`checked`] for a parameter of the kernel's HIR.
fn checked_leaf<'py>(
    py: Python<'py>,
    kernel: &polyloom::Kernel,
    device: DeviceId,
    index: usize,
    arg: &Bound<'py, PyAny>,
) -> PyResult<CheckedArgument<'py>> {
    let components_of = |ty: &Type| ty.as_composite().map_or(1, Composite::n_components);
    let slot = kernel.types()[..index].iter().map(components_of).sum();
    let ty = match kernel.types()[index] {
        ty @ (Type::Scalar(_) | Type::Composite(_)) => {
            let bits = numbers_of(arg, ty).map_err(|e| named(py, e, &leaf_name(kernel, index)))?;
            return Ok(CheckedArgument::Numbers { slot, ty, bits });
        }
        Type::Array { elem, ndim, .. } => ArrayType { elem, rank: ndim, element: None },
        Type::CompositeArray { elem, ndim, .. } => ArrayType::of_composites(elem, ndim),
    };
    let mut made = SmallVec::new();
    let is_written = kernel.writes(slot);
    let (array, is_resident) = array_argument(py, kernel, device, index, arg, ty, is_written, &mut made)?;
    Ok(CheckedArgument::Array { slot, ty, array, is_resident, made })
}

fn numbers_of(arg: &Bound<'_, PyAny>, ty: Type) -> PyResult<SmallVec<[u64; 16]>> {
    match ty {
        Type::Composite(composite) => components(arg, composite),
        Type::Scalar(scalar) => Ok(SmallVec::from_slice(&[scalar_argument(arg, scalar)?])),
        _ => Ok(SmallVec::new()),
    }
}

/// Arguments with the numbers that they are now: a vector of the package's or an array of NumPy's without axes may hold
/// another one later. Other arguments are what they were, and structs among them if they are not copied.
///
/// # Errors
///
/// As [`fill`], of an argument that is no number, or not as many, where the parameter is.
pub(crate) fn by_value(
    py: Python<'_>,
    kernel: &polyloom::Kernel,
    args: &[Borrowed<'_, '_, PyAny>],
    copies_structs: bool,
) -> PyResult<Vec<Py<PyAny>>> {
    let mut values = Vec::with_capacity(args.len());
    for (index, arg) in args.iter().enumerate() {
        let ty = kernel.arguments().get(index).map(|param| param.ty);
        values.push(match ty.map(|ty| ty.as_plain()) {
            Some(Some(ty @ (Type::Scalar(_) | Type::Composite(_)))) if !is_constant(arg) => {
                let bits = numbers_of(arg, ty).map_err(|e| named(py, e, &argument_name(kernel, index)))?;
                number_object(py, ty, &bits)?
            }
            Some(None) if copies_structs => structure::by_value(arg)?,
            _ => (**arg).clone().unbind(),
        });
    }
    Ok(values)
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
        unsafe { check_array(array, ty) }.map_err(|m| argument_type_error(at(kernel, index, &m)))
    };
    check()?;
    if is_written && !is_writeable(array) {
        if !is_writable_by_dlpack(arg).map_err(|error| named(py, error, &leaf_name(kernel, index)))? {
            let message = "is written by the kernel but read-only: pass a copy, such as np.array(x)";
            return Err(PyValueError::new_err(at(kernel, index, message)));
        }
        // That has run code of the argument's type.
        check()?;
    }
    Ok((array, is_resident))
}

/// Returns true if NumPy lets an array, which the caller holds, be written.
fn is_writeable(array: *mut npyffi::PyArrayObject) -> bool {
    // SAFETY: the caller holds the array.
    unsafe { (*array).fields.flags & npyffi::NPY_ARRAY_WRITEABLE != 0 }
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
    let message = || {
        let text = error.value(py).to_string();
        match argument.split_once(" of kernel ") {
            // As Warp says it.
            Some((argument, kernel)) if text.contains(" but got None") => format!("kernel {kernel}: {argument} {text}"),
            _ => format!("{argument} {text}"),
        }
    };
    let named = if error.is_instance_of::<PyOverflowError>(py) {
        PyOverflowError::new_err(message())
    } else if error.is_instance_of::<PyTypeError>(py) {
        argument_type_error(message())
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
    argument_type_error(format!(
        "kernel '{}' takes {} argument{} ({}), {given} given",
        kernel.name(),
        names.len(),
        if names.len() == 1 { "" } else { "s" },
        names.join(", "),
    ))
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
        let ndim = usize::from(ty.rank) - ty.element.map_or(0, |element| element.shape().len());
        let message = format!(
            "expects an array of type array(ndim={ndim}, dtype={}), but passed value has type {}",
            ty.element_name(),
            type_name(arg)
        );
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
