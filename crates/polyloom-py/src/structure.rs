//! Struct types as Python objects, and struct arguments as those of their leaves.

use crate::array::ArrayBase;
use crate::capture::capture;
use crate::struct_type::{StructType, struct_type};
use polyloom::frontend::{CapturedMeaning, ParamType, StructType as Inner};
use polyloom::{Type, ValueType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

#[pymethods]
impl StructType {
    /// The struct type of this name with these fields: their names, and what annotates them.
    #[new]
    fn new(name: &str, fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<StructType> {
        let field = |(name, annotation): (String, Bound<'_, PyAny>)| match value_type(&annotation) {
            Some(ty) => Ok((name, ty)),
            None => {
                let given = annotation.repr()?;
                Err(PyTypeError::new_err(format!(
                    "the field '{name}' is annotated with {given}, which is no type of kernels"
                )))
            }
        };
        let fields: Vec<(String, ValueType)> = fields.into_iter().map(field).collect::<PyResult<_>>()?;
        Inner::new(name, fields).map(|inner| StructType { inner }).map_err(PyValueError::new_err)
    }

    /// Returns what indexed arrays of such elements are.
    #[staticmethod]
    fn indexed_array(dtype: &Bound<'_, PyAny>, ndim: u8) -> PyResult<StructType> {
        let elem = match capture(dtype) {
            CapturedMeaning::Type(scalar) => Some(scalar.into()),
            CapturedMeaning::Composite(composite) => Some(Type::Composite(composite)),
            _ => None,
        };
        let inner = elem.and_then(|elem| Inner::indexed_array(elem, ndim));
        inner
            .map(|inner| StructType { inner })
            .ok_or_else(|| PyTypeError::new_err("an indexed array has elements of one scalar, vector or matrix type"))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    /// The path of a field that is an array, if there is one: no array has such elements.
    #[getter]
    fn array_within(&self) -> Option<&'static str> {
        self.inner.array_within()
    }

    fn __repr__(&self) -> String {
        format!("<struct type {}>", self.inner.name())
    }
}

/// The type that an annotation of a field stands for.
fn value_type(annotation: &Bound<'_, PyAny>) -> Option<ValueType> {
    match capture(annotation) {
        CapturedMeaning::Type(scalar) => Some(scalar.into()),
        CapturedMeaning::Composite(composite) => Some(Type::Composite(composite).into()),
        CapturedMeaning::Struct(of) => Some(ValueType::Struct(of)),
        CapturedMeaning::Annotation(ParamType::Exact(ty)) => Some(ty),
        _ => None,
    }
}

/// The type of a struct, or of an array of the package's with structs as elements.
pub(crate) fn type_of(arg: &Bound<'_, PyAny>) -> Option<ValueType> {
    if let Ok(array) = arg.cast::<ArrayBase>() {
        let elem = struct_type(&array.getattr("dtype").ok()?)?;
        return Some(ValueType::struct_array(elem, array.getattr("ndim").ok()?.extract().ok()?));
    }
    if let Some(of) = struct_type(arg.get_type().as_any()) {
        return Some(ValueType::Struct(of));
    }
    // A NumPy array of records, if they are those of just one struct.
    let dtype = arg.getattr("dtype").ok().filter(|dtype| dtype.getattr("names").is_ok_and(|names| !names.is_none()))?;
    let module = arg.py().import("polyloom._structs").ok()?;
    let found = module.call_method1("struct_of", (dtype,)).ok()?;
    let elem = found.cast::<StructType>().ok()?.get().inner;
    Some(ValueType::struct_array(elem, arg.getattr("ndim").ok()?.extract().ok()?))
}

/// An argument with the values that it has now: a copy of a struct.
pub(crate) fn by_value(arg: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match struct_type(arg.get_type().as_any()) {
        Some(_) => Ok(arg.py().import("polyloom._structs")?.call_method1("copy_of", (arg,))?.unbind()),
        None => Ok(arg.clone().unbind()),
    }
}

/// Returns what a launch gives for an argument that is a struct or an array of structs: one object for each leaf, in
/// their order.
///
/// # Errors
///
/// The end of a sentence that begins with the argument's name.
pub(crate) fn leaves<'py>(arg: &Bound<'py, PyAny>, ty: ValueType) -> PyResult<Bound<'py, PyList>> {
    let module = arg.py().import("polyloom._structs")?;
    let leaves = match ty {
        ValueType::StructArray { elem, ndim, .. } => {
            module.call_method1("array_leaves", (StructType { inner: elem }, ndim, arg))?
        }
        ValueType::Struct(inner) => module.call_method1("leaves", (StructType { inner }, arg))?,
        ValueType::Plain(_) => PyList::new(arg.py(), [arg])?.into_any(),
    };
    Ok(leaves.cast_into::<PyList>()?)
}
