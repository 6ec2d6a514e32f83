//! The checks that every call of the C interface goes through: the driver has to be started, a context current, the device not lost.

use crate::context::{self, Context};
use crate::driver::{Driver, driver};
use crate::status::{CuResult, CudaError, Outcome};
use std::sync::Arc;

/// Runs a call that needs no context. What panics in it is an unknown error, because C code cannot unwind.
pub(crate) fn call(name: &'static str, body: impl FnOnce(&'static Driver) -> Outcome) -> CuResult {
    guarded(|| {
        let driver = driver()?;
        driver.check_planned_failure(name)?;
        body(driver)
    })
}

/// Runs a call in the thread's current context, on a device that is not lost.
pub(crate) fn call_in_context(
    name: &'static str,
    body: impl FnOnce(&'static Driver, Arc<Context>) -> Outcome,
) -> CuResult {
    guarded(|| {
        let driver = driver()?;
        let context = context::current().ok_or(CudaError::INVALID_CONTEXT)?;
        driver.check_alive()?;
        driver.check_planned_failure(name)?;
        body(driver, context)
    })
}

/// Runs a call that works before `cuInit`.
pub(crate) fn guarded(body: impl FnOnce() -> Outcome) -> CuResult {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    match result {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.0,
        Err(_) => CudaError::UNKNOWN.0,
    }
}
