//! What names mean to a function of a live Python program: closure cells, globals, then Python's builtins.
//!
//! Names are looked up when a function is defined, and what is found is taken by value, with two exceptions: a name
//! that has no meaning yet is looked up when a kernel that uses it is compiled, and a function goes on gaining
//! overloads.
//!
//! Design: `docs/design/names-and-instances.md`.

use crate::arguments;
use crate::composite::{CompositeBase, CompositeType};
use crate::kernel::{Function, Kernel};
use crate::structure::StructType;
use polyloom::frontend::{
    CapturedMeaning, FunctionHandle, KernelVariable, NameEnvironment, ParamType, ScalarSet, TypePattern,
    library_member, package_member, python_builtin, types_member,
};
use polyloom::{Composite, CompositeKind, MAX_COMPONENTS, Scalar, SourceUnit, Type, ValueType, scalar_bits};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyModule, PyString, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference,
};
use pyo3::{PyTraverseError, PyVisit};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Says where an expression stands, with the variables in it.
pub(crate) type Evaluation = (u32, Vec<(Box<str>, KernelVariable)>);

/// The objects of the program that a function may look up when it is compiled.
///
/// Whoever compiles the function owns its scope, a Python object, so that Python's garbage collection sees the cycles that
/// go through it: a module's names mean functions, whose scopes are the module's names. Each function has one of its own:
/// a reference that several would visit would be counted several times.
#[pyclass(frozen, weakref, module = "polyloom._native")]
pub(crate) struct Scope {
    globals: Py<PyDict>,
    /// The values of closure variables; of those that are not set yet, the cells themselves.
    cells: Py<PyDict>,
    /// The objects that static expressions computed later see.
    objects: Py<PyDict>,
    /// Functions that names meant when the function was defined, whose own scopes live as long.
    functions: Vec<Py<Function>>,
}

#[pymethods]
impl Scope {
    // There is no `__clear__`, because a cycle goes through a dictionary, which has one.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.globals)?;
        visit.call(&self.cells)?;
        visit.call(&self.objects)?;
        self.functions.iter().try_for_each(|function| visit.call(function))
    }
}

/// The names a function sees.
pub(crate) struct LiveEnvironment {
    /// A weak reference to the scope.
    scope: Py<PyWeakrefReference>,
    /// Holds what names meant when the function was defined, by dotted path.
    captured: BTreeMap<Box<str>, CapturedMeaning>,
    /// Holds what Python has computed: an expression keeps its value, whenever the code around it is compiled again.
    evaluated: Mutex<HashMap<Evaluation, CapturedMeaning>>,
}

impl LiveEnvironment {
    /// The surroundings of the function with this index in its file, as they are now, and the scope that they refer to.
    pub(crate) fn new<'py>(
        py: Python<'py>,
        unit: &SourceUnit,
        function: usize,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
    ) -> PyResult<(LiveEnvironment, Bound<'py, Scope>)> {
        let mut scope = Scope { globals, cells, objects: PyDict::new(py).unbind(), functions: Vec::new() };
        let mut captured = BTreeMap::new();
        let free = unit.free_names(function);
        let own_name = unit.functions().get(function).map(|info| &info.name);
        for path in free.paths {
            // Its own name is about to mean this function too.
            if own_name.is_some_and(|own| **own == *path) {
                continue;
            }
            let parts: SmallVec<[&str; 4]> = path.split('.').collect();
            // What only Python's own builtins give a meaning may still be defined.
            let Some(root) = scope.root(py, parts[0]) else { continue };
            match scope.find(py, &parts) {
                Some(CapturedMeaning::Function(found)) if is_outdated(unit, function, &found) => {}
                // `None`, say, until a later line gives it a meaning.
                Some(CapturedMeaning::Unsupported(_) | CapturedMeaning::Unknown(_)) | None => {}
                Some(found) => {
                    let members = parts[1..].iter().try_fold(root, |value, name| value.getattr(*name).ok());
                    if let Some(Ok(function)) = members.map(Bound::cast_into::<Function>) {
                        scope.functions.push(function.unbind());
                    }
                    captured.insert(path.as_str().into(), found);
                }
            }
        }
        for name in free.in_static {
            if let Some(object) = scope.root(py, &name) {
                scope.objects.bind(py).set_item(name, object)?;
            }
        }
        let scope = Bound::new(py, scope)?;
        let made =
            LiveEnvironment { scope: PyWeakrefReference::new(&scope)?.unbind(), captured, evaluated: Mutex::default() };
        Ok((made, scope))
    }

    /// The scope, while something that may be compiled owns it.
    fn scope<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Scope>> {
        self.scope.bind(py).upgrade()?.cast_into().ok()
    }

    /// Returns what names mean that had a meaning when the function was defined, and the static expressions computed so
    /// far.
    pub(crate) fn captures(&self) -> (&BTreeMap<Box<str>, CapturedMeaning>, HashMap<Evaluation, CapturedMeaning>) {
        (&self.captured, self.evaluated.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Scope {
    fn run(&self, py: Python<'_>, expression: &str, variables: &[(&str, KernelVariable)]) -> PyResult<CapturedMeaning> {
        // One dictionary of all names, so that comprehensions see them too.
        let names = self.globals.bind(py).copy()?;
        for (name, value) in self.cells.bind(py) {
            match contents(value) {
                Some(value) => names.set_item(name, value)?,
                // A closure variable hides the global of its name, set or not.
                None if names.contains(&name)? => names.del_item(name)?,
                None => {}
            }
        }
        names.update(self.objects.bind(py).as_mapping())?;
        for (name, variable) in variables {
            match *variable {
                KernelVariable::Bool(value) => names.set_item(name, value)?,
                KernelVariable::Int(value) => names.set_item(name, value)?,
                KernelVariable::Float(bits) => names.set_item(name, f64::from_bits(bits))?,
                KernelVariable::OfLength(n) => names.set_item(name, PyTuple::new(py, (0..n).map(|_| py.None()))?)?,
            }
        }
        // In parentheses it may go over several lines.
        let code = CString::new(format!("({expression}\n)"))?;
        Ok(capture(&py.eval(&code, Some(&names), None)?))
    }

    fn root<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyAny>> {
        let find = |names: &Py<PyDict>| names.bind(py).get_item(name).ok().flatten();
        match find(&self.cells) {
            Some(value) => contents(value),
            None => find(&self.globals),
        }
    }

    /// True for a closure variable that the function around has not set yet.
    fn is_empty_cell(&self, py: Python<'_>, name: &str) -> bool {
        let value = self.cells.bind(py).get_item(name).ok().flatten();
        value.is_some_and(|value| contents(value).is_none())
    }

    /// Returns what a path means now.
    fn find(&self, py: Python<'_>, path: &[&str]) -> Option<CapturedMeaning> {
        let (first, rest) = path.split_first()?;
        let mut value = match self.root(py, first) {
            Some(value) => value,
            None if self.is_empty_cell(py, first) => {
                return Some(CapturedMeaning::Unknown("a variable that the function around it has not set yet"));
            }
            None if rest.is_empty() => return python_builtin(first),
            None => return None,
        };
        for (index, name) in rest.iter().enumerate() {
            if index + 1 == rest.len()
                && let Ok(module) = value.cast::<PyModule>()
                && let Some(member) = module_member(module, name)
            {
                return Some(member);
            }
            value = value.getattr(*name).ok()?;
        }
        Some(capture(&value))
    }
}

/// The value of a closure variable, given as a value or as its cell; `None` if the cell is empty.
fn contents(value: Bound<'_, PyAny>) -> Option<Bound<'_, PyAny>> {
    if value.get_type().qualname().is_ok_and(|name| name == "cell") {
        return value.getattr("cell_contents").ok();
    }
    Some(value)
}

/// Returns true if a function is from an earlier run of the text that defines this one, and stands below it there,
/// because it is about to be defined anew.
fn is_outdated(unit: &SourceUnit, function: usize, found: &[FunctionHandle]) -> bool {
    found.iter().any(|other| unit.will_define_again(function, &other.unit, other.function))
}

/// The function with the overloads that it has gained since it was captured. What is now another function is not it.
fn with_overloads(captured: &[FunctionHandle], now: Option<CapturedMeaning>) -> Vec<FunctionHandle> {
    match now {
        Some(CapturedMeaning::Function(now))
            if captured.iter().all(|known| now.iter().any(|other| other.is_same(known))) =>
        {
            now
        }
        _ => captured.to_vec(),
    }
}

impl NameEnvironment for LiveEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        match self.captured.get(&*path.join(".")) {
            Some(CapturedMeaning::Function(captured)) => {
                let now = Python::attach(|py| self.scope(py)?.get().find(py, path));
                Some(CapturedMeaning::Function(with_overloads(captured, now)))
            }
            Some(captured) => Some(captured.clone()),
            None => Python::attach(|py| self.scope(py)?.get().find(py, path)),
        }
    }

    fn evaluate(
        &self,
        expression: &str,
        offset: u32,
        variables: &[(&str, KernelVariable)],
    ) -> Option<Result<CapturedMeaning, String>> {
        let evaluated = || self.evaluated.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Evaluation = (offset, variables.iter().map(|(name, v)| ((*name).into(), *v)).collect());
        if let Some(known) = evaluated().get(&key) {
            return Some(Ok(known.clone()));
        }
        let run = |py: Python<'_>| match self.scope(py) {
            Some(scope) => scope.get().run(py, expression, variables),
            None => Err(PyRuntimeError::new_err("the program has dropped the function that this is in")),
        };
        Some(Python::attach(|py| match run(py) {
            Ok(value) => {
                evaluated().insert(key, value.clone());
                Ok(value)
            }
            Err(error) => {
                let name = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
                Err(format!("{name}: {}", error.value(py)))
            }
        }))
    }

    fn names(&self) -> Vec<String> {
        Python::attach(|py| {
            let Some(scope) = self.scope(py) else { return Vec::new() };
            let all = [&scope.get().cells, &scope.get().globals].into_iter().flat_map(|names| names.bind(py).keys());
            all.filter_map(|name| name.extract::<String>().ok()).filter(|name| !name.starts_with("__")).collect()
        })
    }
}

/// Returns what a module's member means by the module's name alone: the package's and the standard library's own.
fn module_member(module: &Bound<'_, PyModule>, name: &str) -> Option<CapturedMeaning> {
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
    let bits = arguments::components(value, composite).ok()?;
    Some(CapturedMeaning::CompositeConstant(bits.to_vec().into(), composite))
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
        let bits = arguments::components(value, composite).ok()?;
        return Some(CapturedMeaning::CompositeConstant(bits.to_vec().into(), composite));
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
    Some(match elem {
        CapturedMeaning::Type(scalar) => ParamType::Exact(Type::array_of(scalar.into(), ndim)?.into()),
        CapturedMeaning::Composite(composite) => ParamType::Exact(Type::array_of(composite.into(), ndim)?.into()),
        CapturedMeaning::Struct(elem) => ParamType::Exact(ValueType::struct_array(elem, ndim)),
        CapturedMeaning::Any => ParamType::GenericArray(TypePattern::Any, ndim),
        CapturedMeaning::Annotation(ParamType::Generic(pattern)) => ParamType::GenericArray(pattern, ndim),
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
        "polyloom._arrays" | "polyloom._creation" | "polyloom._custom" => package_member(&name),
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

/// The type that a class of structs stands for.
pub(crate) fn struct_type(class: &Bound<'_, PyAny>) -> Option<polyloom::frontend::StructType> {
    Some(class.getattr("_type").ok()?.cast::<StructType>().ok()?.get().inner)
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
