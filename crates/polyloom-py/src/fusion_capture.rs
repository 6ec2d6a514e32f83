//! Capture of the `ops.*` calls of a live Python function. The package resolves names, this hands its answers on.

use crate::source_unit::SourceUnit;
use polyloom::frontend::capture::{self, CaptureEnvironment, GlobalMeaning, HelperFunction, NumpyCapture};
use polyloom_cli::{TensorOpCatalogue, explanation};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The names that a function takes from outside, which an object of the package resolves.
struct ResolvedEnvironment {
    resolver: Py<PyAny>,
}

impl ResolvedEnvironment {
    /// The resolver's answer: nothing, or a kind with what belongs to it.
    fn ask(&self, method: &str, arguments: &[&str]) -> GlobalMeaning {
        let ask = |py: Python<'_>| -> PyResult<GlobalMeaning> {
            let arguments = pyo3::types::PyTuple::new(py, arguments)?;
            let answer = self.resolver.bind(py).call_method1(method, arguments)?;
            if answer.is_none() {
                return Ok(GlobalMeaning::Unknown);
            }
            let kind: String = answer.get_item(0)?.extract()?;
            Ok(match kind.as_str() {
                "path" => GlobalMeaning::Path(answer.get_item(1)?.extract::<String>()?.into()),
                "builtin" => GlobalMeaning::Builtin,
                "array" => GlobalMeaning::Array,
                "helper" => {
                    let (unit, line) = (answer.get_item(1)?, answer.get_item(2)?.extract()?);
                    let unit = unit.cast::<SourceUnit>()?.get().unit().clone();
                    let environment = ResolvedEnvironment { resolver: answer.get_item(3)?.unbind() };
                    match unit.at_line(line) {
                        Some(function) => {
                            GlobalMeaning::Helper(HelperFunction { unit, function, environment: Arc::new(environment) })
                        }
                        None => GlobalMeaning::Unknown,
                    }
                }
                _ => GlobalMeaning::Unknown,
            })
        };
        // A name whose object cannot be looked at is one of which nothing is known.
        Python::attach(|py| ask(py).unwrap_or(GlobalMeaning::Unknown))
    }
}

impl CaptureEnvironment for ResolvedEnvironment {
    fn meaning(&self, name: &str) -> GlobalMeaning {
        self.ask("name", &[name])
    }

    fn module_of_global(&self, name: &str) -> Option<u64> {
        let ask = |py: Python<'_>| self.resolver.bind(py).call_method1("module_of_global", (name,))?.extract();
        Python::attach(|py| ask(py).ok().flatten())
    }

    fn member(&self, path: &str, name: &str) -> GlobalMeaning {
        self.ask("member", &[path, name])
    }
}

/// The captured calls of a function.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct CapturedFunction {
    captured: capture::CapturedFunction,
}

#[pymethods]
impl CapturedFunction {
    /// Captures the function that is defined at a line. `resolver` has the methods `name` and `member`. NumPy is captured if
    /// `others` is given, which are the parameters that are not taken to be arrays.
    #[new]
    #[pyo3(signature = (unit, line, function, resolver, others = None))]
    fn new(
        unit: &SourceUnit,
        line: u32,
        function: &Bound<'_, PyAny>,
        resolver: Py<PyAny>,
        others: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let index = unit.at_line(line, function)?;
        let environment = Arc::new(ResolvedEnvironment { resolver });
        let captured = match others {
            Some(others) => {
                let mut numpy = NumpyCapture::default();
                numpy.others.extend(others);
                capture::capture_numpy(unit.unit(), index, environment, &TensorOpCatalogue, &numpy)
            }
            None => capture::capture(unit.unit(), index, environment, &TensorOpCatalogue),
        };
        let captured = captured.ok_or_else(|| PyRuntimeError::new_err("the function is not in its file"))?;
        Ok(CapturedFunction { captured })
    }

    /// Returns the edits that make the function run its groups, as JSON.
    fn rewriting(&self) -> PyResult<String> {
        serde_json::to_string(&self.captured.rewriting).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Returns calls, groups, moments and breaks, as JSON.
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&self.captured.report()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Returns calls, groups, moments and breaks, as text with carets.
    fn explanation(&self) -> String {
        explanation(&self.captured, false)
    }
}
