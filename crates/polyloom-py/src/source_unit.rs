//! Source files as Python objects: parsed once, with the functions that are defined in them.

use crate::environment::LiveEnvironment;
use crate::errors::compile_error;
use crate::scope::Scope;
use polyloom::SourceFile;
use polyloom::frontend::{FunctionHandle, NameEnvironment};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A parsed source file.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct SourceUnit {
    unit: Arc<polyloom::SourceUnit>,
}

#[pymethods]
impl SourceUnit {
    #[new]
    fn new(py: Python<'_>, file: &str, text: &str) -> PyResult<SourceUnit> {
        let unit = polyloom::SourceUnit::parse(SourceFile::new(file, text, 1)).map_err(|e| compile_error(py, &e))?;
        Ok(SourceUnit { unit })
    }
}

impl SourceUnit {
    pub(crate) fn unit(&self) -> &Arc<polyloom::SourceUnit> {
        &self.unit
    }

    /// The index of the function defined at a line.
    pub(crate) fn at_line(&self, line: u32, function: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.unit.at_line(line).ok_or_else(|| {
            let file = &self.unit.file().name;
            PyRuntimeError::new_err(format!(
                "line {line} of {file} holds no definition of {function}: the file has changed since it was loaded"
            ))
        })
    }

    /// The function defined at a line. `options` is the text of a call with the decorator's arguments, which serves
    /// where the decorator's own text does not have them: where it is called as a plain function.
    pub(crate) fn handle<'py>(
        &self,
        line: u32,
        function: &Bound<'py, PyAny>,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
        options: Option<&str>,
    ) -> PyResult<(FunctionHandle, Bound<'py, Scope>)> {
        let index = self.at_line(line, function)?;
        let (environment, scope) = LiveEnvironment::new(function.py(), &self.unit, index, globals, cells)?;
        let environment: Arc<dyn NameEnvironment> = Arc::new(environment);
        let arguments = options.map(|text| {
            let file = SourceFile::new("<decorator arguments>", text, 1);
            polyloom::SourceUnit::parse(file).map_err(|error| compile_error(function.py(), &error))
        });
        let (unit, arguments) = (self.unit.clone(), arguments.transpose()?);
        Ok((FunctionHandle { unit, function: index, environment, arguments, custom: Default::default() }, scope))
    }
}
