//! Finds what a Python value means in a kernel.

use crate::argument_numbers;
use crate::array::ArrayBase;
use crate::composite::{CompositeBase, CompositeType};
use crate::function::Function;
use crate::kernel::Kernel;
use crate::struct_type::struct_type;
use crate::structure::leaves;
use polyloom::frontend::{
    CapturedMeaning, ParamType, ScalarSet, StructType, TypePattern, library_member, package_member, python_builtin,
    types_member,
};
use polyloom::{Composite, CompositeKind, MAX_COMPONENTS, Scalar, Type, ValueType, scalar_bits};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyModule, PyString, PyType};

/// Returns what a module's member means by the module's name alone: the package's and the standard library's own.
pub(crate) fn module_member(module: &Bound<'_, PyModule>, name: &str) -> Option<CapturedMeaning> {
    match module.name().ok()?.to_str().ok()? {
        "polyloom" | "warp" => package_member(name),
        "polyloom.types" => types_member(name),
        library => library_member(library, name),
    }
}

/// Classes of the Python half of the package, looked up once.
struct PythonClasses {
    dtype: Py<PyType>,
    constant: Py<PyType>,
    annotation: Py<PyType>,
    reference: Py<PyType>,
    composite: Py<PyType>,
    structure: Py<PyType>,
    builtin: Py<PyType>,
    array: Py<PyType>,
    absent: Py<PyType>,
    ndarray: Py<PyType>,
    generic: Py<PyType>,
    generic_composite: Py<PyType>,
    type_variable: Py<PyType>,
    callable: Py<PyAny>,
    any: Py<PyAny>,
}

fn classes(py: Python<'_>) -> Option<&PythonClasses> {
    static CLASSES: PyOnceLock<Option<PythonClasses>> = PyOnceLock::new();
    let load = || -> PyResult<PythonClasses> {
        let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
            Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        Ok(PythonClasses {
            dtype: class("polyloom._scalars", "DType")?,
            constant: class("polyloom._scalars", "TypedConstant")?,
            annotation: class("polyloom._arrays", "ArrayAnnotation")?,
            reference: class("polyloom._arrays", "ReferenceAnnotation")?,
            composite: class("polyloom._composites", "CompositeClass")?,
            structure: class("polyloom._structs", "StructClass")?,
            builtin: class("polyloom._builtins", "Builtin")?,
            array: class("polyloom._arrays", "array")?,
            absent: class("polyloom._absent", "Absent")?,
            ndarray: class("numpy", "ndarray")?,
            generic: class("numpy", "generic")?,
            generic_composite: class("polyloom._composites", "GenericComposite")?,
            type_variable: class("typing", "TypeVar")?,
            callable: py.import("collections.abc")?.getattr("Callable")?.unbind(),
            any: py.import("typing")?.getattr("Any")?.unbind(),
        })
    };
    CLASSES.get_or_init(py, || load().ok()).as_ref()
}

/// A NumPy array as a constant vector or matrix with the elements it has now, if it is small enough.
fn constant_array(value: &Bound<'_, PyAny>) -> Option<CapturedMeaning> {
    let elem = dtype_scalar(&value.getattr("dtype").ok()?).filter(|&elem| elem != Scalar::Bool)?;
    let shape: Vec<usize> = value.getattr("shape").ok()?.extract().ok()?;
    let is_small = (1..=MAX_COMPONENTS).contains(&shape.iter().product());
    let composite = match shape[..] {
        _ if !is_small => return None,
        [len] => Composite::Vector { elem, len: u16::try_from(len).ok()? },
        [rows, cols] => Composite::Matrix { elem, rows: u8::try_from(rows).ok()?, cols: u8::try_from(cols).ok()? },
        _ => return None,
    };
    let bits = argument_numbers::components(value, composite).ok()?;
    Some(CapturedMeaning::CompositeConstant(bits.to_vec().into(), composite))
}

/// An instance of a struct as a constant with the values it has now; `None` if it holds arrays.
fn struct_constant(value: &Bound<'_, PyAny>, of: StructType) -> Option<CapturedMeaning> {
    let objects = leaves(value, ValueType::Struct(of)).ok()?;
    let mut bits = Vec::new();
    for (leaf, object) in of.leaves().iter().zip(objects.iter()) {
        match leaf.ty {
            Type::Scalar(scalar) => bits.push(argument_numbers::scalar_argument(&object, scalar).ok()?),
            Type::Composite(composite) => bits.extend(argument_numbers::components(&object, composite).ok()?),
            Type::Array { .. } | Type::CompositeArray { .. } => return None,
        }
    }
    Some(CapturedMeaning::StructConstant(bits.into(), of))
}

/// Returns what a Python value means in a kernel.
pub(crate) fn capture(value: &Bound<'_, PyAny>) -> CapturedMeaning {
    known(value).unwrap_or_else(|| {
        let name = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        CapturedMeaning::Unsupported(name.into())
    })
}

fn known(value: &Bound<'_, PyAny>) -> Option<CapturedMeaning> {
    let py = value.py();
    if let Ok(value) = value.cast::<PyBool>() {
        return Some(CapturedMeaning::Bool(value.is_true()));
    }
    let classes = classes(py)?;
    let is = |class: &Py<PyType>| value.is_instance(class.bind(py)).unwrap_or(false);
    // NumPy's float64 is a Python float, and yet has a type.
    if is(&classes.generic) {
        let scalar = dtype_scalar(&value.getattr("dtype").ok()?)?;
        return typed_constant(scalar, value);
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return Some(CapturedMeaning::Float(float.value()));
    }
    if value.cast::<PyInt>().is_ok() {
        return value.extract::<i128>().ok().map(CapturedMeaning::Int);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Some(CapturedMeaning::Text(text.to_str().ok()?.into()));
    }
    if let Ok(module) = value.cast::<PyModule>() {
        return Some(CapturedMeaning::Module(module.name().ok()?.to_str().ok()?.into()));
    }
    if let Ok(function) = value.cast::<Function>() {
        return Some(CapturedMeaning::Function(function.get().handles()));
    }
    if let Ok(kernel) = value.cast::<Kernel>() {
        return Some(CapturedMeaning::Kernel(kernel.get().name().into()));
    }
    if is(&classes.builtin) {
        return package_member(&value.getattr("__name__").ok()?.extract::<String>().ok()?);
    }
    if is(&classes.dtype) {
        return Some(CapturedMeaning::Type(dtype_scalar(value)?));
    }
    if is(&classes.constant) {
        let scalar = dtype_scalar(value.get_type().as_any())?;
        return typed_constant(scalar, &value.getattr("value").ok()?);
    }
    if let Ok(composite) = value.cast::<CompositeBase>() {
        let composite = composite.get().composite();
        let bits = argument_numbers::components(value, composite).ok()?;
        return Some(CapturedMeaning::CompositeConstant(bits.to_vec().into(), composite));
    }
    if let Some(of) = struct_type(value.get_type().as_any()).filter(|_| !value.is_instance_of::<ArrayBase>()) {
        return struct_constant(value, of);
    }
    if is(&classes.absent) {
        return value
            .getattr("__doc__")
            .ok()?
            .extract::<String>()
            .ok()
            .map(|text| CapturedMeaning::Absent(text.into()));
    }
    if is(&classes.ndarray) {
        return constant_array(value);
    }
    if is(&classes.composite) {
        return Some(CapturedMeaning::Composite(composite_type(value)?));
    }
    if is(&classes.structure) {
        return Some(CapturedMeaning::Struct(struct_type(value)?));
    }
    if is(&classes.annotation) {
        return array_annotation(value).map(CapturedMeaning::Annotation);
    }
    if is(&classes.reference) {
        return reference_annotation(value).map(CapturedMeaning::Annotation);
    }
    if is(&classes.generic_composite) {
        return generic_composite(value).map(|pattern| CapturedMeaning::Annotation(ParamType::Generic(pattern)));
    }
    if is(&classes.type_variable) {
        return type_variable(value).map(|pattern| CapturedMeaning::Annotation(ParamType::Generic(pattern)));
    }
    if value.is(&classes.any) {
        return Some(CapturedMeaning::Any);
    }
    if value.is(&classes.array) {
        return package_member("array");
    }
    // `Callable[[float], float]`
    if value.getattr("__origin__").is_ok_and(|origin| origin.is(&classes.callable)) {
        return Some(CapturedMeaning::Annotation(ParamType::Function));
    }
    by_name(value)
}

/// `array(dtype=…, ndim=…)`.
fn array_annotation(value: &Bound<'_, PyAny>) -> Option<ParamType> {
    let elem = known(&value.getattr("dtype").ok()?)?;
    let ndim = value.getattr("ndim").ok()?.extract().ok()?;
    let is_indexed: bool = value.getattr("is_indexed").ok()?.extract().ok()?;
    let generic = if is_indexed { ParamType::GenericIndexedArray } else { ParamType::GenericArray };
    Some(match elem {
        CapturedMeaning::Type(scalar) => ParamType::Exact(Type::array_of(scalar.into(), ndim)?.into()),
        CapturedMeaning::Composite(composite) => ParamType::Exact(Type::array_of(composite.into(), ndim)?.into()),
        CapturedMeaning::Struct(elem) => ParamType::Exact(ValueType::struct_array(elem, ndim)),
        CapturedMeaning::Any => generic(TypePattern::Any, ndim),
        CapturedMeaning::Annotation(ParamType::Generic(pattern)) => generic(pattern, ndim),
        _ => return None,
    })
}

/// A parameter by reference.
fn reference_annotation(value: &Bound<'_, PyAny>) -> Option<ParamType> {
    match known(&value.getattr("dtype").ok()?)? {
        CapturedMeaning::Type(scalar) => Some(ParamType::Reference(scalar.into())),
        CapturedMeaning::Composite(composite) => Some(ParamType::Reference(Type::Composite(composite).into())),
        CapturedMeaning::Struct(of) => Some(ParamType::Reference(ValueType::Struct(of))),
        // An array refers to its elements, whoever has it.
        CapturedMeaning::Annotation(array @ ParamType::Exact(_)) => Some(array),
        _ => None,
    }
}

/// Classes and functions of other modules: `float` under another name, `numpy.float32`, `math.sin`.
fn by_name(value: &Bound<'_, PyAny>) -> Option<CapturedMeaning> {
    let name = value.getattr("__name__").ok()?.extract::<String>().ok()?;
    let module = value.getattr("__module__").ok()?.extract::<String>().ok()?;
    match module.as_str() {
        "builtins" => python_builtin(&name),
        "polyloom._arrays" | "polyloom._creation" | "polyloom._custom" | "polyloom._tensor_gradients" => {
            package_member(&name)
        }
        "polyloom._native" if name == "Function" => package_member(&name),
        "polyloom._composites" => types_member(&name),
        module => library_member(module, &name),
    }
}

/// The scalars that a `dtype` stands for: one, those of a type variable, or all.
fn scalars(dtype: &Bound<'_, PyAny>) -> Option<ScalarSet> {
    match known(dtype)? {
        CapturedMeaning::Type(scalar) => Some(ScalarSet::of([scalar])),
        CapturedMeaning::Any | CapturedMeaning::Annotation(ParamType::Generic(TypePattern::Any)) => {
            Some(ScalarSet::ALL)
        }
        CapturedMeaning::Annotation(ParamType::Generic(TypePattern::Scalar(set))) => Some(set),
        _ => None,
    }
}

/// `vector(length=Any, dtype=Float)`.
fn generic_composite(value: &Bound<'_, PyAny>) -> Option<TypePattern> {
    let kind = CompositeKind::from_python_name(&value.getattr("kind").ok()?.extract::<String>().ok()?)?;
    let elem = scalars(&value.getattr("dtype").ok()?)?;
    let extents: Vec<Option<u16>> = value.getattr("shape").ok()?.extract().ok()?;
    let extent = |axis: usize| extents.get(axis).copied().flatten();
    Some(TypePattern::Composite { kind, elem, shape: [extent(0), extent(1)] })
}

/// Returns what a `typing.TypeVar` stands for: the types it is constrained to, or all.
fn type_variable(value: &Bound<'_, PyAny>) -> Option<TypePattern> {
    let constraints: Vec<Bound<'_, PyAny>> = value.getattr("__constraints__").ok()?.extract().ok()?;
    if constraints.is_empty() {
        return Some(TypePattern::Any);
    }
    let scalars = constraints.iter().map(|constraint| match known(constraint) {
        Some(CapturedMeaning::Type(scalar)) => Some(scalar),
        _ => None,
    });
    scalars.collect::<Option<Vec<_>>>().map(|scalars| TypePattern::Scalar(ScalarSet::of(scalars)))
}

fn dtype_scalar(dtype: &Bound<'_, PyAny>) -> Option<Scalar> {
    Scalar::from_python_name(&dtype.getattr("name").ok()?.extract::<String>().ok()?)
}

/// The type that a class of the package's composites stands for.
fn composite_type(class: &Bound<'_, PyAny>) -> Option<Composite> {
    Some(class.getattr("_type").ok()?.cast::<CompositeType>().ok()?.get().inner)
}

fn typed_constant(scalar: Scalar, value: &Bound<'_, PyAny>) -> Option<CapturedMeaning> {
    let bits = if scalar.is_float() {
        scalar_bits::from_f64(scalar, value.extract().ok()?)
    } else if scalar == Scalar::Bool {
        value.is_truthy().ok()?.into()
    } else {
        scalar_bits::from_int(scalar, value.call_method0("__int__").ok()?.extract().ok()?)?
    };
    Some(CapturedMeaning::Constant(bits, scalar))
}
