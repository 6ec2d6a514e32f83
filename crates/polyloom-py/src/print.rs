//! Kernel output goes where Python's goes: to `sys.stdout`, which notebooks and tests replace.

use polyloom::PrintSink;
use pyo3::prelude::*;
use std::io::Write as _;
use std::sync::Arc;

struct PythonStdout;

impl PrintSink for PythonStdout {
    fn write(&self, text: &str) {
        let written = Python::attach(|py| -> PyResult<()> {
            py.import("sys")?.getattr("stdout")?.call_method1("write", (text,))?;
            Ok(())
        });
        if written.is_err() {
            // Python has no usable stdout: the process may have.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
    }
}

/// Makes kernels print through Python.
pub(crate) fn install() {
    polyloom::set_print_sink(Arc::new(PythonStdout));
}
