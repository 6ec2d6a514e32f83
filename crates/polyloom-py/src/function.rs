//! A function that kernels call, as a Python object, with its overloads.

use crate::scope::Scope;
use polyloom::frontend::FunctionHandle;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A function that kernels call.
#[pyclass(frozen, dict, weakref, module = "polyloom._native")]
pub(crate) struct Function {
    pub(crate) handle: FunctionHandle,
    /// The overloads that were defined before.
    pub(crate) earlier: Mutex<Vec<Py<Function>>>,
    /// Holds what stands in for its derivative, and for it on the way there.
    pub(crate) custom: Mutex<Vec<Py<Function>>>,
    /// The Python function, which runs where no kernel calls it. None only while the object is being made: `object.__new__`
    /// allocates its `__dict__`, so Python's garbage collection may look at memory that is all zeros, which this is then.
    pub(crate) python: Option<Py<PyAny>>,
    pub(crate) doc: Option<String>,
    /// Holds what it is compiled in.
    pub(crate) scope: Py<Scope>,
}

impl Function {
    /// The Python function.
    pub(crate) fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let missing = || PyRuntimeError::new_err("internal error: a function without its Python function");
        Ok(self.python.as_ref().ok_or_else(missing)?.bind(py).clone())
    }

    /// All overloads, in the order of their definition.
    pub(crate) fn handles(&self) -> Vec<FunctionHandle> {
        let earlier = locked(&self.earlier);
        earlier.iter().map(|overload| &overload.get().handle).chain([&self.handle]).cloned().collect()
    }

    /// True if this is defined in a later execution of code than another function of its name: in the same namespace
    /// from other text, as when a notebook cell is edited, or by the same definition compiled anew. Code that runs a
    /// definition several times, such as a loop over types, has compiled it once.
    pub(crate) fn is_executed_after(&self, other: &FunctionHandle, python: &Bound<'_, PyAny>) -> PyResult<bool> {
        let own = self.function(python.py())?;
        if !own.getattr("__globals__")?.is(&python.getattr("__globals__")?) {
            return Ok(false);
        }
        if !Arc::ptr_eq(&self.handle.unit, &other.unit) {
            return Ok(true);
        }
        let is_same_code = own.getattr("__code__")?.is(&python.getattr("__code__")?);
        Ok(self.handle.function == other.function && !is_same_code)
    }

    /// All overloads, in the order of their definition.
    pub(crate) fn overloads(slf: &Bound<'_, Function>) -> Vec<Py<Function>> {
        let earlier = locked(&slf.get().earlier);
        earlier.iter().map(|overload| overload.clone_ref(slf.py())).chain([slf.clone().unbind()]).collect()
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
