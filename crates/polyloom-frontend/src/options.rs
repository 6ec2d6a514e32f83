//! What a session says about all its compilations.

use polyloom_ir::FloatMode;

/// Defaults that a kernel's own decorator overrides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrontendOptions {
    /// Arithmetic mode of kernels that name none.
    pub float_mode: FloatMode,
    /// True if kernels that do not say are checked.
    pub check: bool,
    /// True if code that means something else in Python gives a warning.
    pub lint: bool,
}
