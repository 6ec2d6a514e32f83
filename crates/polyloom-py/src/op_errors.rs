//! The errors of ops as NumPy's users expect them: `ValueError` of shapes and axes, `TypeError` of types, `OverflowError`
//! of integers. Each names the op and the argument, and both shapes where two do not fit.

use crate::errors::{compile_error, device_error, launch_error};
use polyloom::fusion::FusionError;
use polyloom::graph::{GraphError, TensorOp};
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Returns the error of a graph.
pub(crate) fn graph_error(error: &GraphError) -> PyErr {
    let message = error.to_string();
    match error {
        GraphError::Dtype { .. } | GraphError::TensorCount { .. } => PyTypeError::new_err(message),
        GraphError::Attribute { reason, .. } if reason.contains("must be given") => PyTypeError::new_err(message),
        GraphError::Attribute { .. } | GraphError::Shape { .. } | GraphError::Shapes { .. } => {
            PyValueError::new_err(message)
        }
        GraphError::ScalarRange { .. } => PyOverflowError::new_err(message),
        _ => PyRuntimeError::new_err(message),
    }
}

/// Returns the error of an argument that is no tensor.
pub(crate) fn argument_error(op: TensorOp, argument: &str, reason: &str) -> PyErr {
    PyTypeError::new_err(format!("`{}`: `{argument}` {reason}", op.name()))
}

/// Returns the error of a plan that could not be made or run. `interrupt` is what a signal handler raised meanwhile.
pub(crate) fn fusion_error(py: Python<'_>, name: &str, error: &FusionError, interrupt: Option<PyErr>) -> PyErr {
    match error {
        FusionError::Graph(error) => graph_error(error),
        FusionError::Build(error) => PyRuntimeError::new_err(error.to_string()),
        FusionError::Compile(error) => compile_error(py, error),
        FusionError::Launch { kernel, error } => launch_error(py, kernel, error, interrupt),
        FusionError::NumberRange { .. } => PyOverflowError::new_err(format!("`{name}`: {error}")),
        FusionError::Memory { .. } => PyMemoryError::new_err(format!("`{name}`: {error}")),
        FusionError::Device(failure) => device_error(py, failure),
        FusionError::Argument(_) => PyValueError::new_err(format!("`{name}`: {error}")),
    }
}
