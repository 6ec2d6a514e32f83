//! Generic kernels and their specialisations.

use crate::boundary::guarded;
use crate::errors::compile_error;
use crate::kernel::Kernel;
use crate::session;
use polyloom::frontend::{FunctionHandle, ParamType};
use polyloom::{Defaults, ValueType};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The types of a specialisation's parameters.
pub(crate) type Types = SmallVec<[ValueType; 8]>;

/// A generic kernel and its specialisations so far.
pub(crate) struct Generic {
    handle: FunctionHandle,
    pub(crate) name: Arc<str>,
    pub(crate) params: Vec<(Arc<str>, ParamType)>,
    /// As they were when the kernel was defined.
    defaults: Defaults,
    compiled: Mutex<HashMap<Types, Py<Kernel>>>,
}

impl Generic {
    /// `None` if the kernel has one type for each parameter, or if its annotations are wrong.
    pub(crate) fn new(handle: &FunctionHandle, defaults: Defaults) -> Option<Generic> {
        let params = handle.parameters().filter(|params| params.iter().any(|(_, ty)| ty.is_generic()))?;
        let compiled = Mutex::new(HashMap::new());
        Some(Generic { handle: handle.clone(), name: handle.name(), params, defaults, compiled })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn param_names(&self) -> impl Iterator<Item = &str> {
        self.params.iter().map(|(name, _)| &**name)
    }

    /// Name and parameters as the source has them.
    pub(crate) fn signature(&self) -> String {
        let params: Vec<String> = self.params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        format!("{}({})", self.name, params.join(", "))
    }

    /// The specialisations so far, with the types of their parameters.
    pub(crate) fn specialisations(&self, py: Python<'_>) -> Vec<(String, Py<Kernel>)> {
        let compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |types: &Types| types.iter().map(|ty| ty.python_name()).collect::<Vec<_>>().join(", ");
        compiled.iter().map(|(types, kernel)| (text(types), kernel.clone_ref(py))).collect()
    }

    /// The specialisation for parameters of these types, compiled once.
    pub(crate) fn specialised<'py>(&self, py: Python<'py>, types: Types) -> PyResult<Bound<'py, Kernel>> {
        let compiled = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled().get(&types) {
            return Ok(known.bind(py).clone());
        }
        // Compiling may run Python code, which may come back here.
        let session = session()?;
        let compile = || session.compile_for(&self.handle, &types, self.defaults);
        let kernel = guarded(|| compile().map_err(|error| compile_error(py, &error)))?;
        let kernel = Bound::new(py, Kernel::specialised(kernel))?;
        // Another thread may have been faster, so that only one kernel for each choice of types.
        Ok(compiled().entry(types).or_insert_with(|| kernel.unbind()).bind(py).clone())
    }
}
