//! A kernel as a Python object: what it launches, and when that is compiled.

use crate::boundary::guarded;
use crate::errors::compile_error;
use crate::generic::Generic;
use crate::scope::Scope;
use crate::{config, session};
use polyloom::Defaults;
use polyloom::frontend::FunctionHandle;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::{Arc, OnceLock};

/// A kernel: launch it with `polyloom.launch`.
#[pyclass(frozen, dict, weakref, module = "polyloom._native")]
pub(crate) struct Kernel {
    pub(crate) code: LaunchedCode,
    pub(crate) doc: Option<String>,
    /// The file it is defined in, and which of its functions it is.
    pub(crate) text: Option<(Arc<polyloom::SourceUnit>, usize)>,
    /// Holds what it is compiled in, unless that is done once and for all.
    pub(crate) scope: Option<Py<Scope>>,
}

/// A kernel, or what it is with checks where the process asks for these.
#[inline]
fn with_checks(kernel: &Arc<polyloom::Kernel>) -> &Arc<polyloom::Kernel> {
    if config::is_checking() { kernel.checked().unwrap_or(kernel) } else { kernel }
}

/// Describes what a kernel launches.
pub(crate) enum LaunchedCode {
    One(Arc<polyloom::Kernel>),
    Tangent(Arc<polyloom::TangentKernel>),
    /// What takes the leaves of structs one by one.
    Flat(Arc<polyloom::Kernel>),
    /// What was compiled in the mode `strict`, whatever its kernel's is.
    Strict(Arc<polyloom::Kernel>),
    Generic(Generic),
    Deferred(Box<Deferred>),
}

/// A kernel that is compiled when it is first used: names of its text mean nothing where it is defined, or it is refused.
pub(crate) struct Deferred {
    pub(crate) handle: FunctionHandle,
    pub(crate) name: Arc<str>,
    /// As they were when the kernel was defined.
    pub(crate) defaults: Defaults,
    pub(crate) compiled: OnceLock<Arc<polyloom::Kernel>>,
}

impl Deferred {
    /// # Errors
    ///
    /// What is wrong with the kernel, each time that it is asked for.
    fn kernel(&self) -> PyResult<&Arc<polyloom::Kernel>> {
        if let Some(kernel) = self.compiled.get() {
            return Ok(kernel);
        }
        let session = session()?;
        let kernel = guarded(|| {
            let compiled = session.compile(&self.handle, self.defaults);
            compiled.map_err(|error| Python::attach(|py| compile_error(py, &error)))
        })?;
        // Another thread may have been faster.
        Ok(self.compiled.get_or_init(|| Arc::new(kernel)))
    }
}

impl Kernel {
    /// A kernel that was made of another one.
    pub(crate) fn derived(kernel: Arc<polyloom::Kernel>) -> Kernel {
        Kernel { code: LaunchedCode::Flat(kernel), doc: None, text: None, scope: None }
    }

    /// A specialisation of a generic kernel.
    pub(crate) fn specialised(kernel: polyloom::Kernel) -> Kernel {
        Kernel { code: LaunchedCode::One(Arc::new(kernel)), doc: None, text: None, scope: None }
    }

    /// The kernel, unless it is generic.
    ///
    /// # Errors
    ///
    /// If it is: it has no code of its own.
    #[inline]
    pub(crate) fn one(&self) -> PyResult<&Arc<polyloom::Kernel>> {
        match &self.code {
            LaunchedCode::One(kernel) => Ok(with_checks(kernel)),
            LaunchedCode::Tangent(tangent) => Ok(&tangent.kernel),
            LaunchedCode::Flat(kernel) | LaunchedCode::Strict(kernel) => Ok(kernel),
            LaunchedCode::Deferred(deferred) => deferred.kernel().map(with_checks),
            LaunchedCode::Generic(generic) => {
                let name = generic.name();
                let message =
                    format!("kernel '{name}' is generic: ask one of its overloads, polyloom.overload({name}, [types])");
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// The generic kernel, if it is one.
    #[inline]
    pub(crate) fn generic(&self) -> Option<&Generic> {
        match &self.code {
            LaunchedCode::Generic(generic) => Some(generic),
            _ => None,
        }
    }
}
