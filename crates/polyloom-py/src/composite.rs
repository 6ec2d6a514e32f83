//! Vectors, matrices, quaternions and transforms: their types as the compiler knows them, and the native base of their
//! values, within reach of a launch without attribute look-ups.

use polyloom::{Composite, MAX_COMPONENTS, Scalar};
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
    /// The type of this kind (`vector`, `matrix`, `quaternion` or `transform`), components and extents.
    #[new]
    fn new(kind: &str, dtype: &str, shape: Vec<i64>) -> PyResult<CompositeType> {
        let elem = Scalar::from_python_name(dtype)
            .ok_or_else(|| PyTypeError::new_err(format!("{dtype} is not a scalar type")))?;
        let inner = match (kind, &shape[..]) {
            ("vector", &[n]) => Composite::Vector { elem, len: extent(n)? },
            ("matrix", &[rows, cols]) => Composite::Matrix { elem, rows: extent(rows)?, cols: extent(cols)? },
            ("quaternion", &[4]) if elem.is_float() => Composite::Quaternion { elem },
            ("transform", &[7]) if elem.is_float() => Composite::Transform { elem },
            ("quaternion" | "transform", _) => {
                return Err(PyTypeError::new_err(format!("a {kind} has components of a float type, not {dtype}")));
            }
            ("matrix", shape) => {
                return Err(PyValueError::new_err(format!("a matrix has rows and columns, not the shape {shape:?}")));
            }
            _ => return Err(PyValueError::new_err(format!("there is no {kind} of shape {shape:?}"))),
        };
        if inner.n_components() > MAX_COMPONENTS {
            return Err(PyValueError::new_err(format!("a {kind} has at most {MAX_COMPONENTS} components")));
        }
        Ok(CompositeType { inner })
    }

    /// `vec3`, `mat22d`, `vector(length=5, dtype=float32)`.
    #[getter]
    fn name(&self) -> String {
        self.inner.python_name()
    }

    /// `vector`, `matrix`, `quaternion` or `transform`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.inner {
            Composite::Vector { .. } => "vector",
            Composite::Matrix { .. } => "matrix",
            Composite::Quaternion { .. } => "quaternion",
            Composite::Transform { .. } => "transform",
        }
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

/// A number of components along one axis.
fn extent<T: TryFrom<i64>>(n: i64) -> PyResult<T> {
    let wrong =
        || PyValueError::new_err(format!("{n} components along an axis: there may be 1 to 255, or 1024 of vectors"));
    if n < 1 { Err(wrong()) } else { T::try_from(n).map_err(|_| wrong()) }
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
