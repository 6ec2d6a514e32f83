//! The check at the entry of a fused function: operators, attributes and subscripts of values from outside run no code of
//! the program, and names refer to the objects of the analysis.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

/// Types whose operators and attributes are known, beside those of tensors.
struct PlainTypes {
    numbers: Vec<Py<PyType>>,
    ndarray: Py<PyType>,
    generic: Py<PyType>,
    object_dtype: Py<PyAny>,
    array: Py<PyType>,
    function: Py<PyType>,
    member: Py<PyType>,
    getattribute: Py<PyAny>,
}

fn plain_types(py: Python<'_>) -> PyResult<&PlainTypes> {
    static TYPES: PyOnceLock<PlainTypes> = PyOnceLock::new();
    TYPES.get_or_try_init(py, || {
        let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
            Ok(py.import(module)?.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let numbers = ["float", "int", "bool", "str", "complex", "bytes", "slice", "range"];
        let mut numbers = numbers.into_iter().map(|name| class("builtins", name)).collect::<PyResult<Vec<_>>>()?;
        numbers.push(py.None().bind(py).get_type().unbind());
        numbers.push(py.Ellipsis().bind(py).get_type().unbind());
        numbers.push(class("numpy", "dtype")?);
        Ok(PlainTypes {
            numbers,
            ndarray: class("numpy", "ndarray")?,
            generic: class("numpy", "generic")?,
            object_dtype: py.import("numpy")?.getattr("dtype")?.call1(("O",))?.unbind(),
            array: class("polyloom._arrays", "array")?,
            function: class("types", "FunctionType")?,
            member: class("types", "MemberDescriptorType")?,
            getattribute: class("builtins", "object")?
                .bind(py)
                .getattr("__dict__")?
                .get_item("__getattribute__")?
                .unbind(),
        })
    })
}

/// The place where a value is found.
enum GuardRoot {
    Parameter(usize),
    Cell(Py<PyAny>),
    Name(Py<PyDict>, Py<PyString>),
}

struct TypeRequirement {
    root: GuardRoot,
    path: Vec<Py<PyString>>,
    has_operators: bool,
    is_single: bool,
    is_array: bool,
    loaded: Vec<Py<PyString>>,
    stored: Vec<Py<PyString>>,
}

/// A dictionary with a name, or a cell, and the object that is found there.
type NameIdentity = (Py<PyAny>, Option<Py<PyString>>, Py<PyAny>);

/// A function with its code, defaults and defaults by keyword.
type FunctionIdentity = (Py<PyAny>, Py<PyAny>, Py<PyAny>, Py<PyAny>);

/// Checks the types of the values that a function takes from outside, and what its names refer to.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct EntryGuard {
    requirements: Vec<TypeRequirement>,
    identities: Vec<NameIdentity>,
    /// Dictionaries with names that are not in them.
    absent: Vec<(Py<PyDict>, Py<PyString>)>,
    functions: Vec<FunctionIdentity>,
}

/// Elements of a container beyond which it is not looked through.
const MAX_ELEMENTS: usize = 256;
const MAX_DEPTH: usize = 3;

#[pymethods]
impl EntryGuard {
    /// Each requirement is a tuple: the root, the attributes that lead from there, whether there are operators, whether it must
    /// have no elements, whether it must be exactly an array of NumPy, and the attributes that are loaded and stored. A root is the index of an argument, a cell, or a
    /// dictionary with a name.
    #[new]
    fn new(
        requirements: &Bound<'_, PyList>,
        identities: Vec<NameIdentity>,
        absent: Vec<(Py<PyDict>, Py<PyString>)>,
        functions: Vec<FunctionIdentity>,
    ) -> PyResult<EntryGuard> {
        type Row<'py> = (Bound<'py, PyAny>, Vec<Py<PyString>>, bool, bool, bool, Vec<Py<PyString>>, Vec<Py<PyString>>);
        let read = |row: Bound<'_, PyAny>| -> PyResult<TypeRequirement> {
            let (root, path, has_operators, is_single, is_array, loaded, stored): Row<'_> = row.extract()?;
            let root = if let Ok(index) = root.extract::<usize>() {
                GuardRoot::Parameter(index)
            } else if let Ok((names, name)) = root.extract::<(Bound<'_, PyDict>, Bound<'_, PyString>)>() {
                GuardRoot::Name(names.unbind(), name.unbind())
            } else {
                GuardRoot::Cell(root.unbind())
            };
            Ok(TypeRequirement { root, path, has_operators, is_single, is_array, loaded, stored })
        };
        let requirements = requirements.iter().map(read).collect::<PyResult<_>>()?;
        Ok(EntryGuard { requirements, identities, absent, functions })
    }

    #[pyo3(signature = (*arguments))]
    fn __call__(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let py = arguments.py();
        if !self.has_same_names(py)? {
            return Ok(false);
        }
        let types = plain_types(py)?;
        for required in &self.requirements {
            let root = match &required.root {
                GuardRoot::Parameter(index) => arguments.get_borrowed_item(*index)?.to_owned(),
                GuardRoot::Cell(cell) => match cell.bind(py).getattr("cell_contents") {
                    Ok(value) => value,
                    Err(_) => return Ok(false),
                },
                GuardRoot::Name(names, name) => match names.bind(py).get_item(name)? {
                    Some(value) => value,
                    None => return Ok(false),
                },
            };
            let mut value = root;
            let mut is_known = false;
            for name in &required.path {
                // Attributes of tensors and numbers are plain, whatever they are.
                if types.is_single(&value)? {
                    is_known = true;
                    break;
                }
                match value.getattr(name) {
                    Ok(attribute) => value = attribute,
                    Err(_) => return Ok(false),
                }
            }
            if !is_known && !types.holds(&value, required)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for required in &self.requirements {
            match &required.root {
                GuardRoot::Parameter(_) => {}
                GuardRoot::Cell(cell) => visit.call(cell)?,
                GuardRoot::Name(names, _) => visit.call(names)?,
            }
        }
        for (place, _, object) in &self.identities {
            visit.call(place)?;
            visit.call(object)?;
        }
        self.absent.iter().try_for_each(|(names, _)| visit.call(names))?;
        for (function, code, defaults, by_name) in &self.functions {
            [function, code, defaults, by_name].into_iter().try_for_each(|each| visit.call(each))?;
        }
        Ok(())
    }
}

impl EntryGuard {
    /// True if every name still refers to the object that it did, and every function is what it was.
    fn has_same_names(&self, py: Python<'_>) -> PyResult<bool> {
        for (place, name, object) in &self.identities {
            let place = place.bind(py);
            let found = match name {
                Some(name) => match place.cast::<PyDict>() {
                    Ok(names) => names.get_item(name)?,
                    Err(_) => None,
                },
                None => place.getattr("cell_contents").ok(),
            };
            if !found.is_some_and(|found| found.is(object)) {
                return Ok(false);
            }
        }
        for (names, name) in &self.absent {
            if names.bind(py).contains(name)? {
                return Ok(false);
            }
        }
        for (function, code, defaults, by_name) in &self.functions {
            let function = function.bind(py);
            for (name, known) in [("__code__", code), ("__defaults__", defaults), ("__kwdefaults__", by_name)] {
                if !function.getattr(name)?.is(known) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl PlainTypes {
    /// True for tensors, numbers and texts.
    fn is_single(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        let class = value.get_type();
        if class.is(&self.ndarray) {
            return Ok(
                !value.getattr("dtype")?.eq(&self.object_dtype)? && value.getattr("dtype")?.getattr("names")?.is_none()
            );
        }
        if self.numbers.iter().any(|known| class.is(known)) || class.is(&self.array) {
            return Ok(true);
        }
        let module = class.getattr("__module__")?;
        let Ok(module) = module.cast::<PyString>() else { return Ok(false) };
        Ok(match module.to_str()? {
            "numpy" => class.is_subclass(self.generic.bind(py))? || class.name()?.to_str()?.ends_with("DType"),
            "numpy.dtypes" => true,
            "torch" => {
                matches!(class.name()?.to_str()?, "Tensor" | "Size" | "dtype" | "device") && is_own(py, "torch", &class)
            }
            "torch.nn.parameter" => is_own(py, "torch.nn", &class),
            "polyloom._scalars" => true,
            _ => false,
        })
    }

    fn holds(&self, value: &Bound<'_, PyAny>, required: &TypeRequirement) -> PyResult<bool> {
        if required.is_array && !value.get_type().is(&self.ndarray) {
            return Ok(false);
        }
        if self.is_single(value)? {
            return Ok(true);
        }
        if required.is_single {
            return Ok(false);
        }
        if let Some(are_plain) = self.elements(value, 0)? {
            return Ok(are_plain || !required.has_operators);
        }
        if required.has_operators {
            return Ok(false);
        }
        self.has_plain_attributes(value, required)
    }

    /// True if a container has plain elements only; nothing if it is no container.
    fn elements(&self, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<bool>> {
        let elements: Vec<Bound<'_, PyAny>> = if let Ok(list) = value.cast_exact::<PyList>() {
            list.iter().take(MAX_ELEMENTS + 1).collect()
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            tuple.iter().take(MAX_ELEMENTS + 1).collect()
        } else if let Ok(set) = value.cast_exact::<PySet>() {
            set.iter().take(MAX_ELEMENTS + 1).collect()
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            dict.iter().flat_map(|(key, value)| [key, value]).take(MAX_ELEMENTS + 1).collect()
        } else {
            return Ok(None);
        };
        if elements.len() > MAX_ELEMENTS || depth > MAX_DEPTH {
            return Ok(Some(false));
        }
        for element in elements {
            if !self.is_single(&element)? && self.elements(&element, depth + 1)? != Some(true) {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }

    /// True if loading and storing attributes of an object runs no code of its class.
    fn has_plain_attributes(&self, value: &Bound<'_, PyAny>, required: &TypeRequirement) -> PyResult<bool> {
        let py = value.py();
        // A module or a class looks its attributes up in its own way.
        if value.is_instance_of::<PyType>() || value.is_instance_of::<pyo3::types::PyModule>() {
            return Ok(false);
        }
        let bases = value.get_type().mro();
        let n_bases = bases.len().saturating_sub(1);
        for base in bases.iter().take(n_bases) {
            let names = base.getattr("__dict__")?;
            let is_defined = |name: &str| names.contains(name);
            if is_defined("__getattribute__")? || is_defined("__getattr__")? {
                return Ok(false);
            }
            if !required.stored.is_empty() && (is_defined("__setattr__")? || is_defined("__delattr__")?) {
                return Ok(false);
            }
            for name in required.loaded.iter().chain(&required.stored) {
                if !names.contains(name)? {
                    continue;
                }
                let found = names.get_item(name)?;
                let class = found.get_type();
                let is_plain = class.is(&self.function) || class.is(&self.member) || self.is_single(&found)?;
                if !is_plain {
                    return Ok(false);
                }
            }
        }
        let root = bases.get_item(n_bases)?.getattr("__dict__")?.get_item("__getattribute__").ok();
        Ok(root.is_some_and(|root| root.is(self.getattribute.bind(py))))
    }
}

/// True if a class is the one that a module has under its name.
fn is_own(py: Python<'_>, module: &str, class: &Bound<'_, PyType>) -> bool {
    let find = || -> PyResult<bool> {
        let modules = py.import("sys")?.getattr("modules")?;
        let module = modules.get_item(module)?;
        Ok(module.getattr(class.name()?)?.is(class))
    };
    find().unwrap_or(false)
}
