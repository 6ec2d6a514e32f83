//! What the functions given to `polyloom.map` are: by what they capture, a kernel made of one is found again, and of
//! what they return, the arrays of results are made.

use crate::composite::CompositeType;
use crate::environment::{Evaluation, LiveEnvironment};
use crate::errors::compile_error;
use crate::session;
use crate::source_unit::SourceUnit;
use crate::struct_type::StructType;
use polyloom::frontend::{CapturedMeaning, FunctionHandle, NameEnvironment};
use polyloom::{SourceFile, Type, ValueType};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A function of a file with all it takes from outside. Equal ones compile to the same code.
#[pyclass(frozen, eq, hash, module = "polyloom._native")]
pub(crate) struct Captures {
    unit: Arc<polyloom::SourceUnit>,
    function: usize,
    names: BTreeMap<Box<str>, CapturedMeaning>,
    evaluated: HashMap<Evaluation, CapturedMeaning>,
    is_complete: bool,
}

#[pymethods]
impl Captures {
    /// Returns what the function defined at a line captures now.
    #[new]
    fn new(
        py: Python<'_>,
        unit: &Bound<'_, SourceUnit>,
        line: u32,
        function: &Bound<'_, PyAny>,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
    ) -> PyResult<Captures> {
        let index = unit.get().at_line(line, function)?;
        let unit = unit.get().unit().clone();
        let (environment, _scope) = LiveEnvironment::new(py, &unit, index, globals, cells)?;
        let environment = Arc::new(environment);
        let surroundings: Arc<dyn NameEnvironment> = environment.clone();
        let handle = FunctionHandle {
            unit: unit.clone(),
            function: index,
            environment: surroundings,
            arguments: None,
            custom: Default::default(),
        };
        let is_complete = handle.evaluate_static_expressions();
        let (names, evaluated) = environment.captures();
        Ok(Captures { unit, function: index, names: names.clone(), evaluated, is_complete })
    }

    /// Returns true if nothing else is taken from outside, as static expressions with variables of the function do.
    #[getter]
    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl PartialEq for Captures {
    fn eq(&self, other: &Captures) -> bool {
        let same_names = || {
            self.names.len() == other.names.len()
                && self.names.iter().zip(&other.names).all(|(a, b)| a.0 == b.0 && a.1.is_same(b.1))
        };
        let same_values = || {
            self.evaluated.len() == other.evaluated.len()
                && self.evaluated.iter().all(|(at, value)| other.evaluated.get(at).is_some_and(|v| v.is_same(value)))
        };
        Arc::ptr_eq(&self.unit, &other.unit) && self.function == other.function && same_names() && same_values()
    }
}

impl Hash for Captures {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.unit) as usize, self.function).hash(state);
        for value in self.names.values() {
            // The values that functions of one text differ by.
            match value {
                CapturedMeaning::Int(value) => value.hash(state),
                CapturedMeaning::Float(value) => value.to_bits().hash(state),
                CapturedMeaning::Constant(bits, _) => bits.hash(state),
                _ => {}
            }
        }
    }
}

/// The types of what a function, builtin or type gives when it is called with values of these types: for each its name,
/// and the type itself if Python has it.
#[pyfunction]
pub(crate) fn result_types<'py>(
    py: Python<'py>,
    callee: &Bound<'py, PyAny>,
    types: Vec<Bound<'py, PyAny>>,
) -> PyResult<Vec<(String, Option<Bound<'py, PyAny>>)>> {
    let names = PyDict::new(py);
    names.set_item("function", callee)?;
    for (index, ty) in types.iter().enumerate() {
        names.set_item(format!("T{index}"), ty)?;
    }
    let list = |item: &dyn Fn(usize) -> String| (0..types.len()).map(item).collect::<Vec<_>>().join(", ");
    let parameters = list(&|index| format!("a{index}: T{index}"));
    let text = format!("def results({parameters}):\n    return function({})\n", list(&|index| format!("a{index}")));
    let failed = |error| compile_error(py, &error);
    let unit = polyloom::SourceUnit::parse(SourceFile::new("<map>", text, 1)).map_err(failed)?;
    let (environment, _scope) = LiveEnvironment::new(py, &unit, 0, names.unbind(), PyDict::new(py).unbind())?;
    let handle = FunctionHandle {
        unit,
        function: 0,
        environment: Arc::new(environment),
        arguments: None,
        custom: Default::default(),
    };
    let session = session()?;
    let results = session.result_types(&handle, session.defaults()).map_err(failed)?;
    results.iter().map(|&ty| Ok((ty.python_name(), python_type(py, ty)?))).collect()
}

/// The Python object that is a type, arrays excepted.
pub(crate) fn python_type(py: Python<'_>, ty: ValueType) -> PyResult<Option<Bound<'_, PyAny>>> {
    match ty {
        ValueType::Plain(Type::Scalar(scalar)) => {
            py.import("polyloom._scalars")?.call_method1("dtype_of", (scalar.python_name(),)).map(Some)
        }
        ValueType::Plain(Type::Composite(inner)) => {
            py.import("polyloom._composites")?.call_method1("class_of", (CompositeType { inner },)).map(Some)
        }
        ValueType::Struct(inner) => {
            py.import("polyloom._structs")?.call_method1("class_of_struct", (StructType { inner },)).map(Some)
        }
        _ => Ok(None),
    }
}
