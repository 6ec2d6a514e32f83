//! A struct type as a Python object.

use polyloom::frontend::StructType as Inner;
use pyo3::prelude::*;

/// A struct type. Equal types are equal objects.
#[pyclass(frozen, eq, hash, module = "polyloom._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StructType {
    pub(crate) inner: Inner,
}

/// The type that a class of structs stands for.
pub(crate) fn struct_type(class: &Bound<'_, PyAny>) -> Option<Inner> {
    Some(class.getattr("_type").ok()?.cast::<StructType>().ok()?.get().inner)
}
