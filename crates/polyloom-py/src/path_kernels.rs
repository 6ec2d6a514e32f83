//! Kernels of others: entries of the registry that programs add.

use polyloom::Scalar;
use polyloom::graph::registry::{DtypeSet, KernelEntry, KernelForm, KernelPattern};
use polyloom::graph::{Backend, TensorOp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

static ENTRIES: Mutex<Vec<KernelEntry>> = Mutex::new(Vec::new());

/// The kernels that programs have registered.
pub(crate) fn registered() -> Vec<KernelEntry> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds a kernel for an op. Its function is in `polyloom._backends`, by backend, name and op.
///
/// Raises
/// ------
/// ValueError
///     If there is no such op, backend or element type, or a kernel of this name.
#[pyfunction]
#[pyo3(signature = (op, backend, name, dtypes, keeps_bits, needs_dense))]
pub(crate) fn add_kernel(
    op: &str,
    backend: &str,
    name: &str,
    dtypes: Option<Vec<String>>,
    keeps_bits: bool,
    needs_dense: bool,
) -> PyResult<()> {
    let op = TensorOp::from_name(op).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let wrong = |message: String| PyValueError::new_err(message);
    let backend = Backend::from_name(backend).ok_or_else(|| wrong(format!("there is no backend {backend:?}")))?;
    if backend.plans_groups() {
        return Err(wrong(format!("{backend} plans its own kernels: register one for CPU_NUMPY or CPU_TORCH")));
    }
    let of_name = |name: &String| {
        let found = Scalar::ALL.iter().copied().find(|dtype| dtype.python_name() == name);
        found.ok_or_else(|| wrong(format!("there is no element type {name:?}")))
    };
    let dtypes = match dtypes {
        Some(names) => names.iter().map(of_name).collect::<PyResult<DtypeSet>>()?,
        None => DtypeSet::ALL,
    };
    let pattern = KernelPattern { dtypes, needs_dense, ..KernelPattern::ANY };
    let entry = KernelEntry { name: name.into(), op, backend, pattern, form: KernelForm::Monolithic, keeps_bits };
    let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    let is_library = polyloom::graph::library_function(op, backend).is_some_and(|function| function.name == name);
    if is_library || entries.iter().any(|each| each.op == op && each.backend == backend && each.name == entry.name) {
        return Err(wrong(format!("{backend} has a kernel {name:?} for `{}` already", op.name())));
    }
    entries.push(entry);
    Ok(())
}

/// Takes a kernel away; false if there is none.
#[pyfunction]
pub(crate) fn remove_kernel(op: &str, backend: &str, name: &str) -> bool {
    let mut entries = ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    let n_before = entries.len();
    entries.retain(|entry| entry.op.name() != op || entry.backend.name() != backend || &*entry.name != name);
    entries.len() < n_before
}
