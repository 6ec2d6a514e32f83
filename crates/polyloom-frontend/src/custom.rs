//! Derivatives that programs give themselves: `@func_grad(f)` and `@func_replay(f)`.

use crate::environment::FunctionHandle;
use crate::function_info::FunctionRole;
use std::sync::{Mutex, PoisonError};

/// The functions that stand in for a function's own derivative.
#[derive(Default)]
pub struct CustomDerivative {
    gradient: Mutex<Option<FunctionHandle>>,
    replay: Mutex<Option<FunctionHandle>>,
}

impl CustomDerivative {
    /// Returns what carries derivatives through the function.
    pub fn gradient(&self) -> Option<FunctionHandle> {
        self.gradient.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what runs in the function's place when it is run again on the way to its derivative.
    pub fn replay(&self) -> Option<FunctionHandle> {
        self.replay.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what a function in this role is, and gives what it was before.
    pub fn set(&self, role: FunctionRole, function: Option<FunctionHandle>) -> Option<FunctionHandle> {
        let place = match role {
            FunctionRole::Gradient => &self.gradient,
            FunctionRole::Replay => &self.replay,
            FunctionRole::Kernel | FunctionRole::Func => return None,
        };
        std::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), function)
    }
}
