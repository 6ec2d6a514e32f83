//! The methods that functions have in Python.

use crate::boundary::guarded;
use crate::code_forms::emit_error;
use crate::errors::compile_error;
use crate::function::{Function, locked};
use crate::native_callable::callable;
use crate::native_function::NativeFunction;
use crate::session;
use crate::source_unit::SourceUnit;
use polyloom::frontend::{FunctionRole, check_function};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Mutex;

#[pymethods]
impl Function {
    /// Returns what is wrong with `deferred` functions is told where a kernel that calls one is compiled.
    #[new]
    #[pyo3(signature = (unit, line, function, globals, cells, options, deferred = false))]
    fn new(
        unit: &Bound<'_, SourceUnit>,
        line: u32,
        function: &Bound<'_, PyAny>,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
        options: Option<&str>,
        deferred: bool,
    ) -> PyResult<Function> {
        let py = function.py();
        let (handle, scope) = unit.get().handle(line, function, globals, cells, options)?;
        handle.evaluate_static_expressions();
        // What a derivative is made of is checked with the function that it is of.
        if !deferred && !matches!(handle.role(), Some(FunctionRole::Gradient | FunctionRole::Replay)) {
            let defaults = session()?.defaults();
            guarded(|| check_function(&handle, &defaults).map_err(|error| compile_error(py, &error)))?;
        }
        let doc = function.getattr("__doc__")?.extract()?;
        let python = Some(function.clone().unbind());
        Ok(Function { handle, earlier: Mutex::default(), custom: Mutex::default(), python, doc, scope: scope.unbind() })
    }

    /// Makes the definitions `before` stands for overloads of this one, but for those that this replaces: one of the
    /// same types, and those of an earlier execution of the code that defines them.
    fn add_overloads_of(&self, py: Python<'_>, before: &Bound<'_, Function>) -> PyResult<()> {
        let mut overloads = Vec::new();
        for overload in Function::overloads(before) {
            let handle = &overload.get().handle;
            if !self.handle.replaces(handle) && !self.is_executed_after(handle, &overload.get().function(py)?)? {
                overloads.push(overload);
            }
        }
        locked(&self.earlier).extend(overloads);
        Ok(())
    }

    /// Makes another function stand in for this one's derivative, or for this one on the way there, as its decorator
    /// says. What is wrong with `deferred` ones is told where a kernel that needs them is compiled.
    #[pyo3(signature = (function, deferred = false))]
    fn set_custom(&self, py: Python<'_>, function: &Bound<'_, Function>, deferred: bool) -> PyResult<()> {
        let (own, other) = (self.handle.name(), &function.get().handle);
        let Some(role @ (FunctionRole::Gradient | FunctionRole::Replay)) = other.role() else {
            let message = format!("'{}' is not recognised: write @loom.func_grad or @loom.func_replay", other.name());
            return Err(PyTypeError::new_err(message));
        };
        let Some(handle) = self.handles().into_iter().rev().find(|handle| other.goes_with(handle)) else {
            let name = other.name();
            let message = format!("'{name}' takes what '{own}' takes first: parameters of the same types, in order");
            return Err(PyTypeError::new_err(message));
        };
        let before = handle.custom.set(role, Some(other.clone()));
        locked(&self.custom).push(function.clone().unbind());
        if deferred {
            return Ok(());
        }
        let defaults = session()?.defaults();
        let checked = guarded(|| Ok(check_function(&handle, &defaults)))?;
        checked.map(drop).map_err(|error| {
            // A launch that is refused leaves no trace.
            handle.custom.set(role, before);
            compile_error(py, &error)
        })
    }

    /// Nothing changes a function, because a copy is the function itself.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(python) = &self.python else { return Ok(()) };
        visit.call(python)?;
        visit.call(&self.scope)?;
        for functions in [&self.earlier, &self.custom] {
            // The array that a thread changes right now is in use.
            if let Ok(functions) = functions.try_lock() {
                functions.iter().try_for_each(|function| visit.call(function))?;
            }
        }
        Ok(())
    }

    #[getter(__name__)]
    fn python_name(&self) -> String {
        self.handle.name().to_string()
    }

    /// The function's name, as Warp's programs ask for it.
    #[getter]
    fn key(&self) -> String {
        self.python_name()
    }

    /// The Python function.
    #[getter]
    fn func<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.function(py)
    }

    #[getter(__doc__)]
    fn python_doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// The function as a native function: a C function of its values, compiled now, by LLVM. Of overloads it is this one.
    #[pyo3(name = "function")]
    fn native_function(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let session = session()?;
        let made = guarded(|| Ok(session.native_function(&self.handle, session.defaults())))?;
        callable(py, made.map(NativeFunction::new).map_err(|error| emit_error(py, &error))?)
    }

    /// Runs the function as Python, as static expressions and programs beside kernels do. Of overloads it is the one
    /// whose annotations fit the arguments.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let overloads = Function::overloads(slf);
        if overloads.len() == 1 {
            let function = slf.get().function(py)?;
            if takes_functions(&function) {
                let check = py.import("polyloom._overloads")?.getattr("check_functions")?;
                check.call1((&function, args, kwargs))?;
            }
            return function.call(args, kwargs);
        }
        let functions = overloads.iter().map(|overload| overload.get().function(py)).collect::<PyResult<Vec<_>>>()?;
        let chosen = py.import("polyloom._overloads")?.call_method1("overload_for", (functions, args, kwargs))?;
        chosen.call(args, kwargs)
    }

    fn __repr__(&self) -> String {
        format!("<kernel function {}>", self.handle.name())
    }
}

/// True if a parameter is annotated as a function of kernels.
fn takes_functions(function: &Bound<'_, PyAny>) -> bool {
    let py = function.py();
    let Ok(annotations) = function.getattr("__annotations__") else { return false };
    let class = py.get_type::<Function>();
    annotations.cast::<PyDict>().is_ok_and(|annotations| annotations.values().iter().any(|ty| ty.is(&class)))
}
