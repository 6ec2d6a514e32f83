//! Native functions as objects that Python calls with the arguments where they are.
//!
//! Objects of classes of PyO3 are called with a tuple, which takes longer to make than a short call takes. So a native
//! function is an object of a type made here, which has Python's vector calls (PEP 590): the member `__vectorcalloffset__`
//! and the flag are read by Python from 3.9 on, though names for them are in the stable interface from 3.12 on alone. It
//! looks like the [`NativeFunction`] that it holds.

use crate::native_function::NativeFunction;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{ffi, intern};
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::offset_of;

/// `Py_TPFLAGS_HAVE_VECTORCALL`, PEP 590.
const HAS_VECTORCALL: c_ulong = 1 << 11;
/// `Py_TPFLAGS_DISALLOW_INSTANTIATION`, of Python 3.10.
const HAS_NO_CONSTRUCTOR: c_ulong = 1 << 7;
/// `PY_VECTORCALL_ARGUMENTS_OFFSET`, which callers add to the number of arguments.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

type VectorCall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The memory of an object.
#[repr(C)]
struct CallableObject {
    base: ffi::PyObject,
    call: VectorCall,
    /// A reference to a [`NativeFunction`].
    function: *mut ffi::PyObject,
}

/// A native function as an object to call.
pub(crate) fn callable(py: Python<'_>, function: NativeFunction) -> PyResult<Py<PyAny>> {
    let function = Bound::new(py, function)?;
    let ty = callable_type(py)?;
    // SAFETY: the type has objects of this size, and the new one is this function's alone until it is returned.
    unsafe {
        let object = ffi::PyType_GenericAlloc(ty.as_type_ptr(), 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        let fields = object.as_ptr().cast::<CallableObject>();
        (&raw mut (*fields).call).write(call_vector);
        (&raw mut (*fields).function).write(function.into_ptr());
        Ok(object.unbind())
    }
}

fn callable_type<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = TYPE.get_or_try_init(py, || {
        let mut members = [
            ffi::PyMemberDef {
                name: c"__vectorcalloffset__".as_ptr(),
                type_code: ffi::Py_T_PYSSIZET,
                offset: offset_of!(CallableObject, call) as ffi::Py_ssize_t,
                flags: ffi::Py_READONLY,
                doc: std::ptr::null(),
            },
            ffi::PyMemberDef::default(),
        ];
        let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_tp_call, call_object as *mut c_void),
            slot(ffi::Py_tp_dealloc, release as *mut c_void),
            slot(ffi::Py_tp_getattro, attribute as *mut c_void),
            slot(ffi::Py_tp_repr, describe as *mut c_void),
            slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
            slot(0, std::ptr::null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"polyloom._native.NativeCallable".as_ptr(),
            basicsize: size_of::<CallableObject>() as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | HAS_VECTORCALL | HAS_NO_CONSTRUCTOR) as _,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: Python copies the members, and the functions have the types of their slots.
        let ty = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) }?;
        ty.cast_into::<PyType>().map(Bound::unbind).map_err(|_| PyRuntimeError::new_err("internal error: no type"))
    })?;
    Ok(made.bind(py))
}

/// The function that an object holds.
///
/// # Safety
///
/// The object is one of [`callable`], and lives as long as what is returned is used.
#[inline]
unsafe fn function_of<'a, 'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Borrowed<'a, 'py, NativeFunction> {
    // SAFETY: the caller's promise.
    unsafe { Borrowed::from_ptr(py, (*object.cast::<CallableObject>()).function).cast_unchecked() }
}

/// Python's vector call.
///
/// # Safety
///
/// Python calls it, with an object of [`callable`].
unsafe extern "C" fn call_vector(
    object: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    n_args: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python's promise: it holds the GIL and the object, and as many arguments follow each other.
    let (function, given) = unsafe {
        let n = n_args & !ARGUMENTS_OFFSET;
        let given = if n == 0 { &[][..] } else { std::slice::from_raw_parts(args, n) };
        (function_of(Python::assume_attached(), object), given)
    };
    if names.is_null() {
        return function.get().call_vector(given);
    }
    // SAFETY: the values of arguments with names come after the others, as many as there are names.
    in_python(|py| unsafe {
        let names = Borrowed::from_ptr(py, names).cast_unchecked::<PyTuple>().to_owned();
        let named = PyDict::new(py);
        for (index, name) in names.iter().enumerate() {
            named.set_item(name, Borrowed::from_ptr(py, *args.add(given.len() + index)))?;
        }
        let given = given.iter().map(|&arg| Borrowed::from_ptr(py, arg));
        let function = function_of(py, object);
        function.getattr(intern!(py, "__call__"))?.call(PyTuple::new(py, given)?, Some(&named)).map(Bound::into_ptr)
    })
}

/// A call with a tuple, and a dictionary or null.
///
/// # Safety
///
/// As [`call_vector`].
unsafe extern "C" fn call_object(
    object: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python's promise: the objects are alive, a tuple and a dictionary if there is one.
    in_python(|py| unsafe {
        let args = Borrowed::from_ptr(py, args).cast_unchecked::<PyTuple>();
        let named = (!named.is_null()).then(|| Borrowed::from_ptr(py, named).cast_unchecked::<PyDict>());
        let function = function_of(py, object);
        let call = function.getattr(intern!(py, "__call__"))?;
        call.call(args.to_owned(), named.as_deref()).map(Bound::into_ptr)
    })
}

/// # Safety
///
/// As [`call_vector`].
unsafe extern "C" fn attribute(object: *mut ffi::PyObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: Python holds the object and the name.
    unsafe { ffi::PyObject_GetAttr((*object.cast::<CallableObject>()).function, name) }
}

/// # Safety
///
/// As [`call_vector`].
unsafe extern "C" fn describe(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: Python holds the object.
    unsafe { ffi::PyObject_Repr((*object.cast::<CallableObject>()).function) }
}

/// # Safety
///
/// Python calls it once, when nobody has a reference to the object.
unsafe extern "C" fn release(object: *mut ffi::PyObject) {
    // SAFETY: the object has a reference to its function, which is null if making it failed, and one to its type.
    unsafe {
        let ty = ffi::Py_TYPE(object);
        ffi::Py_XDECREF((*object.cast::<CallableObject>()).function);
        let free = ffi::PyType_GetSlot(ty, ffi::Py_tp_free);
        if !free.is_null() {
            std::mem::transmute::<*mut c_void, ffi::freefunc>(free)(object.cast());
        }
        ffi::Py_DECREF(ty.cast());
    }
}

/// Does something for Python, and leaves an error there.
fn in_python(work: impl FnOnce(Python<'_>) -> PyResult<*mut ffi::PyObject>) -> *mut ffi::PyObject {
    Python::attach(|py| {
        crate::boundary::guarded(|| work(py)).unwrap_or_else(|error| {
            error.restore(py);
            std::ptr::null_mut()
        })
    })
}
