//! Results as tensors of the package that the arguments are of.

use crate::array::ArrayBase;
use crate::device::DeviceMemory;
use crate::tensor_view::TensorPackage;
use crate::torch_tensor;
use polyloom::Scalar;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{ffi, intern};

/// Makes a tensor of a package of a NumPy array, which shares its memory. One of the package's own has 1 to 4 axes;
/// others stay NumPy's.
#[inline]
pub(crate) fn in_package<'py>(
    array: Bound<'py, PyAny>,
    package: TensorPackage,
    dtype: Scalar,
) -> PyResult<Bound<'py, PyAny>> {
    match package {
        TensorPackage::NumPy => Ok(array),
        TensorPackage::Torch => torch_tensor::of_numpy(array, dtype),
        TensorPackage::Polyloom => own_array(array, dtype),
    }
}

/// Says what is needed to make arrays of the package: their class, and the classes of element types by number.
struct ArrayClasses {
    array: Py<PyAny>,
    new: ffi::newfunc,
    scalars: Vec<(Scalar, Py<PyAny>)>,
}

static ARRAY_CLASSES: PyOnceLock<ArrayClasses> = PyOnceLock::new();

fn array_classes(py: Python<'_>) -> PyResult<&ArrayClasses> {
    ARRAY_CLASSES.get_or_try_init(py, || {
        let names = py.import("polyloom._scalars")?.getattr("_BY_NAME")?;
        let of = |dtype: Scalar| Ok((dtype, names.get_item(dtype.python_name())?.unbind()));
        let scalars = Scalar::ALL.iter().map(|&dtype| of(dtype)).collect::<PyResult<_>>()?;
        let array = py.import("polyloom._arrays")?.getattr("array")?.unbind();
        // SAFETY: the slot of a class that can be made holds such a function.
        let new = unsafe {
            let slot = ffi::PyType_GetSlot(py.get_type::<ArrayBase>().as_type_ptr(), ffi::Py_tp_new);
            std::mem::transmute::<*mut std::ffi::c_void, Option<ffi::newfunc>>(slot)
        };
        let new = new.ok_or_else(|| PyRuntimeError::new_err("arrays cannot be made"))?;
        Ok(ArrayClasses { array, new, scalars })
    })
}

/// The most axes of an array of the package.
pub(crate) const MAX_ARRAY_AXES: usize = 4;

fn own_array<'py>(storage: Bound<'py, PyAny>, dtype: Scalar) -> PyResult<Bound<'py, PyAny>> {
    if !(1..=MAX_ARRAY_AXES).contains(&n_axes(&storage)) {
        return Ok(storage);
    }
    let args = PyTuple::new(storage.py(), [storage])?;
    wrapped(&args, dtype)
}

/// Makes an array in a device's memory, of 1 to 4 axes. An element without axes is copied to a NumPy array, as the CPU's
/// is one.
pub(crate) fn device_array<'py>(
    storage: Bound<'py, PyAny>,
    memory: &Bound<'py, DeviceMemory>,
    dtype: Scalar,
) -> PyResult<Bound<'py, PyAny>> {
    let py = storage.py();
    if n_axes(&storage) == 0 {
        return memory.get().read(&storage);
    }
    let args = PyTuple::new(py, [storage, py.None().into_bound(py), memory.clone().into_any()])?;
    wrapped(&args, dtype)
}

fn n_axes(storage: &Bound<'_, PyAny>) -> usize {
    // SAFETY: it is a live NumPy array.
    let n_axes = unsafe { (*storage.as_ptr().cast::<numpy::npyffi::PyArrayObject>()).fields.nd };
    usize::try_from(n_axes).unwrap_or(0)
}

/// Makes an array of the package as its method `_wrap` does, without a frame of Python.
fn wrapped<'py>(args: &Bound<'py, PyTuple>, dtype: Scalar) -> PyResult<Bound<'py, PyAny>> {
    let py = args.py();
    let classes = array_classes(py)?;
    // SAFETY: the class is a subclass of the one whose function this is.
    let array = unsafe {
        let made = (classes.new)(classes.array.as_ptr().cast(), args.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    array.setattr(intern!(py, "_leaves"), py.None())?;
    if let Some((_, class)) = classes.scalars.iter().find(|(other, _)| *other == dtype) {
        array.setattr(intern!(py, "dtype"), class)?;
    }
    Ok(array)
}
