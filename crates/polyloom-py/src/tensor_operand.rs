//! Objects that are not plain tensors, brought to such: NumPy's scalars, arrays of foreign byte order, subclasses.

use crate::array::ArrayBase;
use crate::numpy_array::has_type;
use crate::tensor_view::{TensorFields, TensorPackage, TensorView, view_of};
use crate::torch_tensor;
use numpy::npyffi;
use polyloom::{DeviceId, Scalar};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

/// Returns a tensor that plans take as it is, over the same memory where that is possible; other objects as they are.
///
/// # Errors
///
/// `TypeError` or `ValueError` with the end of a sentence that begins with the argument's name.
pub(crate) fn plain_tensor<'py>(py: Python<'py>, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut held = SmallVec::new();
    // SAFETY: the object is alive, and the view is not kept.
    match unsafe { view_of(py, object.as_ptr(), &mut held) } {
        TensorView::Tensor(fields) if fields.is_plain && is_known(py, object, &fields) => return Ok(object.clone()),
        TensorView::Float(_) | TensorView::Int(_) => return Ok(object.clone()),
        _ => {}
    }
    // SAFETY: `object` is a live object.
    if unsafe { npyffi::PyArray_Check(py, object.as_ptr()) } != 0 {
        return plain_array(object);
    }
    if let Ok(array) = object.cast::<ArrayBase>() {
        if array.get().element().is_some() {
            return Err(PyTypeError::new_err("is an array of vectors or matrices: pass .numpy() of it"));
        }
        let device = array.get().device();
        if device != DeviceId::Cpu {
            let message =
                format!("has elements on device '{device}' that ops do not take there: pass .to('cpu') of it");
            return Err(PyValueError::new_err(message));
        }
        return plain_array(&object.getattr("_storage")?);
    }
    let numpy = py.import("numpy")?;
    if object.is_instance(&numpy.getattr("generic")?)? {
        return numpy.call_method1("asarray", (object,));
    }
    let typed = py.import("polyloom._scalars")?;
    if object.is_instance(&typed.getattr("TypedConstant")?)? {
        return numpy.call_method1("asarray", (typed.call_method1("in_numpy", (object,))?,));
    }
    if torch_tensor::learn(object)? {
        let tensor = torch_tensor::with_signs(object)?;
        // SAFETY: as above.
        let is_known = match unsafe { view_of(py, tensor.as_ptr(), &mut held) } {
            TensorView::Tensor(fields) => is_known(py, &tensor, &fields),
            _ => return Err(torch_tensor::refusal(object)),
        };
        if !is_known {
            return Err(PyTypeError::new_err("has elements of a type that ops do not take"));
        }
        return Ok(tensor);
    }
    Ok(object.clone())
}

/// Returns true if ops take the elements of a tensor.
fn is_known(py: Python<'_>, object: &Bound<'_, PyAny>, fields: &TensorFields<'_>) -> bool {
    match fields.package {
        TensorPackage::Torch => torch_tensor::scalar_of(fields.type_number).is_some(),
        _ => array_scalar(py, object).is_some(),
    }
}

/// Returns a NumPy array without a subclass, aligned, in this machine's byte order.
fn plain_array<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    if array.hasattr("mask")? {
        return Err(PyTypeError::new_err(
            "is a masked array, whose mask ops do not see: pass x.filled(value), or x.data",
        ));
    }
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (array,))?;
    let dtype = array.getattr("dtype")?;
    let is_native: bool = dtype.getattr("isnative")?.extract()?;
    let is_aligned: bool = array.getattr("flags")?.getattr("aligned")?.extract()?;
    if array_scalar(py, &array).is_none() && (is_native || dtype.getattr("kind")?.extract::<String>()? == "V") {
        let message = format!("has elements of type {dtype}, which ops do not take: convert it with .astype(…)");
        return Err(PyTypeError::new_err(message));
    }
    if is_native && is_aligned {
        return Ok(array);
    }
    let native = dtype.call_method1("newbyteorder", ("=",))?;
    let options = PyDict::new(py);
    options.set_item("dtype", native)?;
    numpy.call_method("array", (array,), Some(&options))
}

/// Returns the element type of a NumPy array in this machine's byte order, or of an array of the package's.
pub(crate) fn array_scalar(py: Python<'_>, object: &Bound<'_, PyAny>) -> Option<Scalar> {
    let array = match object.cast::<ArrayBase>() {
        Ok(array) => array.get().object(),
        Err(_) => object.as_ptr(),
    };
    // SAFETY: `array` is a live object; a live array's descriptor is valid.
    unsafe {
        if npyffi::PyArray_Check(py, array) == 0 {
            return None;
        }
        let descr = &*(*array.cast::<npyffi::PyArrayObject>()).fields.descr;
        // 16 bits without a type of their own are integers.
        Scalar::ALL.iter().copied().find(|&scalar| match scalar {
            Scalar::BF16 => !has_type(descr, Scalar::U16) && has_type(descr, Scalar::BF16),
            _ => has_type(descr, scalar),
        })
    }
}
