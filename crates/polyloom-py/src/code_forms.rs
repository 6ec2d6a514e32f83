//! The forms of code that kernels have in Python, of one kernel and of all kernels of a group.

use crate::boundary::guarded;
use crate::errors::{codegen_error, compile_error, device_error};
use polyloom::{Arch, EmitError, EmitOptions, Form, GpuTarget, GridShape, PtxVersion, UnknownArch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Describes the GPU code that is asked for, by default for `arch`.
pub(crate) fn gpu_target(
    name: Option<&str>,
    arch: Option<Arch>,
    ptx_version: Option<&str>,
    dense: bool,
    grid_stride: bool,
) -> PyResult<GpuTarget> {
    let arch = match name {
        Some(name) => name.parse().map_err(|error: UnknownArch| PyValueError::new_err(error.to_string()))?,
        None => arch.unwrap_or(Arch::DEFAULT),
    };
    let version = ptx_version.map(str::parse::<PtxVersion>).transpose().map_err(PyValueError::new_err)?;
    let shape = if grid_stride { GridShape::Stride } else { GridShape::OneThreadEach };
    Ok(GpuTarget { ptx_version: version, dense, shape, ..GpuTarget::new(arch) })
}

/// The form of LLVM IR, and what it is made for: the host, or the GPU of a name.
pub(crate) fn llvm_form(optimized: bool, target: Option<GpuTarget>) -> (Form, EmitOptions) {
    match (target, optimized) {
        (Some(target), true) => (Form::GpuLlvmIrOptimized, EmitOptions::for_gpu(target)),
        (Some(target), false) => (Form::GpuLlvmIr, EmitOptions::for_gpu(target)),
        (None, true) => (Form::LlvmIrOptimized, EmitOptions::default()),
        (None, false) => (Form::LlvmIr, EmitOptions::default()),
    }
}

/// The code of several kernels in a form that is text: of one as it is, of several each under a comment with its number
/// and name.
pub(crate) fn text_of_all(
    py: Python<'_>,
    kernels: &[Arc<polyloom::Kernel>],
    form: Form,
    options: &EmitOptions,
) -> PyResult<String> {
    let mut text = String::new();
    for (index, kernel) in kernels.iter().enumerate() {
        if kernels.len() > 1 {
            let comment = match form {
                Form::Asm => "#",
                Form::LlvmIr | Form::LlvmIrOptimized | Form::GpuLlvmIr | Form::GpuLlvmIrOptimized => ";",
                _ => "//",
            };
            let separator = if index == 0 { "" } else { "\n" };
            text.push_str(&format!(
                "{separator}{comment} kernel {} of {}: {}\n",
                index + 1,
                kernels.len(),
                kernel.name()
            ));
        }
        let code = guarded(|| py.detach(|| kernel.emit_text(form, options)).map_err(|error| emit_error(py, &error)))?;
        text.push_str(&code);
    }
    Ok(text)
}

/// Says why there is no code in a form.
pub(crate) fn emit_error(py: Python<'_>, error: &EmitError) -> PyErr {
    match error {
        EmitError::Codegen(error) => codegen_error(error),
        EmitError::Rejected(error) => compile_error(py, error),
        EmitError::Device(failure) => device_error(py, failure),
    }
}
