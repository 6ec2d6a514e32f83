//! Vectors, matrices, quaternions and transforms: their types as the compiler knows them, and the native base of their
//! values, within reach of a launch without attribute look-ups.

use polyloom::{Composite, CompositeKind, Scalar};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A composite type. Equal types are equal objects.
#[pyclass(frozen, eq, hash, module = "polyloom._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CompositeType {
    pub(crate) inner: Composite,
}

#[pymethods]
impl CompositeType {
    /// The type of this kind, as `polyloom.types` names it, and these components; `shape` is a vector's length or a
    /// matrix's rows and columns, and empty for the others.
    #[new]
    fn new(kind: &str, dtype: &str, shape: Vec<i128>) -> PyResult<CompositeType> {
        let kind = CompositeKind::from_python_name(kind)
            .ok_or_else(|| PyValueError::new_err(format!("{kind} is not a kind of composites")))?;
        let elem = Scalar::from_python_name(dtype)
            .ok_or_else(|| PyTypeError::new_err(format!("{dtype} is not a scalar type")))?;
        Composite::new(kind, elem, &shape).map(|inner| CompositeType { inner }).map_err(PyValueError::new_err)
    }

    /// `vec3`, `mat22d`, `vector(length=5, dtype=float32)`.
    #[getter]
    fn name(&self) -> String {
        self.inner.python_name()
    }

    /// `vector`, `matrix`, `quaternion` or `transformation`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind().python_name()
    }

    /// The name of its components' type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.inner.elem().python_name()
    }

    /// Extents of the array of its components.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    fn __repr__(&self) -> String {
        format!("<composite type {}>", self.inner.python_name())
    }
}

/// The names of the package that are composite types.
#[pyfunction]
pub(crate) fn composite_names() -> Vec<(String, CompositeType)> {
    Composite::named().map(|(name, inner)| (name, CompositeType { inner })).collect()
}

/// Base class of the values of composite types.
#[pyclass(subclass, frozen, module = "polyloom._native")]
pub(crate) struct CompositeBase {
    storage: Py<PyAny>,
    composite: Composite,
}

#[pymethods]
impl CompositeBase {
    #[new]
    fn new(storage: Bound<'_, PyAny>, ty: &Bound<'_, CompositeType>) -> PyResult<CompositeBase> {
        // SAFETY: `storage` is a live object.
        if unsafe { numpy::npyffi::PyArray_Check(storage.py(), storage.as_ptr()) } == 0 {
            return Err(PyTypeError::new_err("expected a NumPy array"));
        }
        Ok(CompositeBase { storage: storage.unbind(), composite: ty.get().inner })
    }

    /// The components as a NumPy array that shares their memory.
    #[getter]
    fn _storage(&self, py: Python<'_>) -> Py<PyAny> {
        self.storage.clone_ref(py)
    }
}

impl CompositeBase {
    /// The NumPy array of the components, borrowed.
    pub(crate) fn object(&self) -> *mut ffi::PyObject {
        self.storage.as_ptr()
    }

    /// Its type.
    pub(crate) fn composite(&self) -> Composite {
        self.composite
    }
}
