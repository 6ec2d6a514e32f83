//! Kernel output goes where Python's goes: to `sys.stdout`, which notebooks and tests replace.
//!
//! `sys.stdout` may be written in Python, and so may raise anything, `KeyboardInterrupt` included. The exception waits
//! on the thread that launched the kernel until [`capture`] hands it to the launch.

use polyloom::PrintSink;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::sync::Arc;

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// How many commands this thread runs: they write their results to the process's own stdout, in order with what
    /// their kernels print.
    static N_COMMANDS: Cell<usize> = const { Cell::new(0) };
}

struct PythonStdout;

impl PrintSink for PythonStdout {
    fn write(&self, text: &str) {
        if N_COMMANDS.get() > 0 {
            return to_process(text);
        }
        if has_raised() {
            return;
        }
        let written = Python::attach(|py| -> PyResult<bool> {
            let stdout = py.import("sys")?.getattr("stdout")?;
            if stdout.is_none() {
                return Ok(false);
            }
            stdout.call_method1("write", (text,))?;
            Ok(true)
        });
        match written {
            Ok(true) => {}
            // Python has no stdout: the process may have.
            Ok(false) => to_process(text),
            Err(error) => RAISED.set(Some(error)),
        }
    }
}

fn to_process(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed standard output is no reason to fail.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Makes kernels print through Python.
pub(crate) fn install() {
    polyloom::set_print_sink(Arc::new(PythonStdout));
}

/// Runs a launch and gives, besides its result, what writing to `sys.stdout` raised meanwhile.
pub(crate) fn capture<R>(launch: impl FnOnce() -> R) -> (R, Option<PyErr>) {
    // Python code called by a launch may launch again on the same thread.
    let outer = RAISED.take();
    let result = launch();
    (result, RAISED.replace(outer))
}

/// Whether writing what this thread's launch prints has raised an exception.
pub(crate) fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Runs a command, whose kernels print to the process's stdout.
pub(crate) fn to_process_during<R>(command: impl FnOnce() -> R) -> R {
    struct RunningPrint;
    impl Drop for RunningPrint {
        fn drop(&mut self) {
            N_COMMANDS.set(N_COMMANDS.get() - 1);
        }
    }
    N_COMMANDS.set(N_COMMANDS.get() + 1);
    let _running = RunningPrint;
    command()
}
