//! Rust errors as the package's exceptions.

use polyloom::ptx::{Fault, FindingKind};
use polyloom::{
    ArgError, CodegenError, CompileError, DeviceFailure, Diagnostic, Kernel, LaunchError, Severity, SourceMap,
    describe_fault, diagnostic,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// `polyloom.CompileError`.
pub(crate) fn compile_error(py: Python<'_>, error: &CompileError) -> PyErr {
    let rendered = error.render(false);
    let make = || -> PyResult<PyErr> {
        let diagnostics = PyList::empty(py);
        for found in &error.diagnostics {
            diagnostics.append(diagnostic_object(py, found, &error.sources)?)?;
        }
        let first = error.diagnostics.iter().find(|d| d.severity == Severity::Error);
        let line = first.and_then(|d| {
            let file = error.sources.get(d.span.file)?;
            let line = file.position(d.span.start).line.checked_sub(file.first_line)?;
            file.text.lines().nth(line as usize).map(str::to_owned)
        });
        let class = py.import("polyloom._errors")?.getattr("CompileError")?;
        Ok(PyErr::from_value(class.call1((diagnostics, &rendered, line))?))
    };
    make().unwrap_or_else(|error| error)
}

/// A diagnostic as a `polyloom.Diagnostic`.
pub(crate) fn diagnostic_object<'py>(
    py: Python<'py>,
    found: &Diagnostic,
    sources: &SourceMap,
) -> PyResult<Bound<'py, PyAny>> {
    let report = diagnostic::DiagnosticReport::of(found, sources);
    py.import("polyloom._errors")?.getattr("Diagnostic")?.call1((
        report.code,
        report.severity,
        report.message,
        report.help,
        report.file,
        report.line,
        report.column,
        report.end_line,
        report.end_column,
        text_of(found, sources),
    ))
}

/// The source text that a finding is about.
fn text_of<'s>(found: &Diagnostic, sources: &'s SourceMap) -> &'s str {
    let range = found.span.start as usize..found.span.end as usize;
    sources.get(found.span.file).and_then(|file| file.text.get(range)).unwrap_or_default()
}

/// Returns what a launch's failure is in Python. `interrupt` is the exception a signal handler raised meanwhile.
pub(crate) fn launch_error(py: Python<'_>, kernel: &Kernel, error: &LaunchError, interrupt: Option<PyErr>) -> PyErr {
    match error {
        LaunchError::Trap(trap) => {
            let report = kernel.explain(trap);
            let make = || -> PyResult<PyErr> {
                let class = py.import("polyloom._errors")?.getattr("LaunchError")?;
                let (index, extent) = report.bounds.unzip();
                let (line, column) = (report.position.line, report.position.column);
                let thread = pyo3::types::PyTuple::new(py, &report.thread)?;
                let arguments = (report.message, kernel.name(), report.file, line, column, index, extent, thread);
                Ok(PyErr::from_value(class.call1(arguments)?))
            };
            make().unwrap_or_else(|error| error)
        }
        LaunchError::Outside(outside) => {
            let report = kernel.explain_outside(outside);
            let make = || -> PyResult<PyErr> {
                let class = py.import("polyloom._errors")?.getattr("LaunchError")?;
                let (line, column) = (report.position.line, report.position.column);
                let thread = pyo3::types::PyTuple::new(py, &outside.thread)?;
                let (index, extent) = (outside.index(), outside.extent);
                let arguments = (report.message, kernel.name(), report.file, line, column, index, extent, thread);
                Ok(PyErr::from_value(class.call1(arguments)?))
            };
            make().unwrap_or_else(|error| error)
        }
        LaunchError::Cancelled => interrupt.unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        LaunchError::Arguments(error) => argument_error(kernel, error),
        LaunchError::TooManyThreads { shape } => too_many_threads(shape),
        LaunchError::Rank { .. } | LaunchError::Block { .. } => PyValueError::new_err(error.to_string()),
        LaunchError::Simulator(fault) => simulator_error(py, fault),
        LaunchError::Device { .. } | LaunchError::Cores { .. } => device_exception(py, error.to_string()),
        LaunchError::Rejected { diagnostics, .. } => {
            let (diagnostics, sources) = (diagnostics.clone(), kernel.sources().clone());
            compile_error(py, &CompileError { diagnostics, sources })
        }
        LaunchError::Compile { .. } | LaunchError::Interpreter { .. } | LaunchError::StepLimit { .. } => {
            PyRuntimeError::new_err(error.to_string())
        }
    }
}

/// The error of a launch of more threads than there can be; of an axis that is too long in itself, in Warp's words.
pub(crate) fn too_many_threads(shape: &[u64]) -> PyErr {
    let advice = "these are more threads than int32 can count; launch it in parts";
    PyValueError::new_err(match shape.iter().position(|extent| *extent > i32::MAX as u64) {
        Some(axis) => {
            let extent = shape[axis];
            format!("Warp cannot launch a kernel using wp.tid() with extent {extent} in dimension {axis}: {advice}")
        }
        None => LaunchError::TooManyThreads { shape: shape.to_vec() }.to_string(),
    })
}

/// `polyloom.ArgumentError`: an argument is not of its parameter's type.
pub(crate) fn argument_type_error(message: String) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("polyloom._errors")?.getattr("ArgumentError")?;
            Ok(PyErr::from_value(class.call1((message,))?))
        };
        make().unwrap_or_else(|error| error)
    })
}

/// `polyloom.DeviceError`.
pub(crate) fn device_error(py: Python<'_>, failure: &DeviceFailure) -> PyErr {
    device_exception(py, failure.to_string())
}

/// `polyloom.DeviceError` with this message.
pub(crate) fn device_exception(py: Python<'_>, message: String) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("polyloom._errors")?.getattr("DeviceError")?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    make().unwrap_or_else(|error| error)
}

/// A back end's refusal.
pub(crate) fn codegen_error(error: &CodegenError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// An argument that does not fit its parameter, named as the arguments of this layer are.
pub(crate) fn argument_error(kernel: &Kernel, error: &ArgError) -> PyErr {
    PyValueError::new_err(match error.of_parameter() {
        Some((name, problem)) => format!("argument '{name}' of kernel '{}' {problem}", kernel.name()),
        None => format!("kernel '{}': {error}", kernel.name()),
    })
}

/// `polyloom.SanitizerError` of what the simulator found; `ValueError` if the launch was wrong before it began.
pub(crate) fn simulator_error(py: Python<'_>, fault: &Fault) -> PyErr {
    if fault.findings.iter().all(|finding| finding.kind == FindingKind::InvalidLaunch) {
        return PyValueError::new_err(describe_fault(fault));
    }
    let make = || -> PyResult<PyErr> {
        let findings = PyList::empty(py);
        let class = py.import("polyloom._errors")?.getattr("Finding")?;
        for finding in &fault.findings {
            let source = finding.site.as_ref().and_then(|site| site.source.clone());
            let (file, line) = source.map_or((None, None), |(file, line, _)| (Some(file), Some(line)));
            let other = finding.other.as_ref().and_then(|site| site.source.as_ref());
            let other = other.map(|(file, line, _)| (file, *line));
            let threads: Vec<([u32; 3], [u32; 3])> =
                finding.threads.iter().map(|thread| (thread.block, thread.thread)).collect();
            let kind = finding.kind.name();
            let arguments = (kind, &finding.kernel, &finding.message, file, line, threads, finding.address, other);
            findings.append(class.call1(arguments)?)?;
        }
        let class = py.import("polyloom._errors")?.getattr("SanitizerError")?;
        Ok(PyErr::from_value(class.call1((describe_fault(fault), findings))?))
    };
    make().unwrap_or_else(|error| error)
}
