//! `polyloom.config`: settings of the process.

use crate::session;
use polyloom::{Defaults, FloatMode, MAX_THREADS, num_threads, set_num_threads};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use std::sync::atomic::{AtomicBool, Ordering};

/// True while kernels are checked unless they say otherwise. Every launch reads it.
static CHECKING: AtomicBool = AtomicBool::new(false);

/// Returns true if kernels that were defined without checks are launched with them.
#[inline]
pub(crate) fn is_checking() -> bool {
    CHECKING.load(Ordering::Relaxed)
}

/// True while launches look through what they have written for infinities and NaN.
static VERIFYING: AtomicBool = AtomicBool::new(false);

/// Returns true if a launch looks through what it has written.
#[inline]
pub(crate) fn is_verifying() -> bool {
    VERIFYING.load(Ordering::Relaxed)
}

/// Settings of the process. Kernels take `float_mode` when they are defined, and `check` when they are defined or
/// launched; their own decorator wins.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct Config {}

#[pymethods]
impl Config {
    #[new]
    fn new() -> Config {
        Config {}
    }

    /// Tells whether kernels are checked while they run. `POLYLOOM_CHECK=1` makes it true at first.
    #[getter]
    fn check(&self) -> PyResult<bool> {
        Ok(session()?.defaults().check)
    }

    #[setter]
    fn set_check(&self, check: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(check) = check.extract::<bool>() else {
            return Err(PyTypeError::new_err(format!("check must be True or False, not {}", check.repr()?)));
        };
        let session = session()?;
        session.set_defaults(Defaults { check, ..session.defaults() });
        CHECKING.store(check, Ordering::Relaxed);
        polyloom::tell_waits(check);
        Ok(())
    }

    /// Tells whether launches look through what they have written for infinities and NaN.
    #[getter]
    fn verify_fp(&self) -> bool {
        is_verifying()
    }

    #[setter]
    fn set_verify_fp(&self, verify: bool) {
        VERIFYING.store(verify, Ordering::Relaxed);
    }

    /// Tells whether the estimate alone decides how threads run on the CPU, so that launches measure nothing.
    /// `POLYLOOM_DETERMINISTIC=1` makes it true at first.
    #[getter]
    fn deterministic(&self) -> PyResult<bool> {
        Ok(session()?.device().is_deterministic())
    }

    #[setter]
    fn set_deterministic(&self, py: Python<'_>, deterministic: bool) -> PyResult<()> {
        let device = session()?.device();
        // It may compile what was chosen before launches measured.
        py.detach(|| device.set_deterministic(deterministic));
        Ok(())
    }

    /// Tells whether defining a kernel gives a `SyntaxWarning` for code that means something else in Python.
    #[getter]
    fn lint(&self) -> PyResult<bool> {
        Ok(session()?.defaults().lint)
    }

    #[setter]
    fn set_lint(&self, lint: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(lint) = lint.extract::<bool>() else {
            return Err(PyTypeError::new_err(format!("lint must be True or False, not {}", lint.repr()?)));
        };
        let session = session()?;
        session.set_defaults(Defaults { lint, ..session.defaults() });
        Ok(())
    }

    /// Returns how floating-point arithmetic may be compiled: `"strict"`, `"contract"` or `"fast"`.
    #[getter]
    fn float_mode(&self) -> PyResult<&'static str> {
        Ok(session()?.defaults().float_mode.name())
    }

    #[setter]
    fn set_float_mode(&self, mode: &Bound<'_, PyAny>) -> PyResult<()> {
        let session = session()?;
        session.set_defaults(Defaults { float_mode: float_mode(mode)?, ..session.defaults() });
        Ok(())
    }

    /// Returns the number of threads a launch may use. `POLYLOOM_NUM_THREADS` sets it at first, else the number of
    /// cores.
    #[getter]
    fn num_threads(&self) -> usize {
        num_threads()
    }

    #[setter]
    fn set_num_threads(&self, n: &Bound<'_, PyAny>) -> PyResult<()> {
        if n.cast::<PyInt>().is_err() {
            return Err(PyTypeError::new_err(format!("num_threads must be an integer, not {}", n.get_type().name()?)));
        }
        match n.extract::<usize>() {
            Ok(threads @ 1..=MAX_THREADS) => set_num_threads(threads),
            _ => return Err(PyValueError::new_err(format!("num_threads must be from 1 to {MAX_THREADS}, and is {n}"))),
        }
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        let (check, mode) = (self.check()?, self.float_mode()?);
        let check = if check { "True" } else { "False" };
        Ok(format!("config(check={check}, float_mode='{mode}', num_threads={})", num_threads()))
    }
}

/// The arithmetic mode a Python value names.
fn float_mode(value: &Bound<'_, PyAny>) -> PyResult<FloatMode> {
    let name = value.cast::<PyString>().ok().and_then(|s| s.to_str().ok());
    name.and_then(FloatMode::from_name).ok_or_else(|| {
        PyValueError::new_err(format!("float_mode is {value}: it may be 'strict', 'contract' or 'fast'"))
    })
}
