//! A function that a kernel in the making may call: its name, its types and the range of its result.

use crate::number_range::NumberRange;
use polyloom::Type;

/// A function of one result.
#[derive(Clone, Debug)]
pub(super) struct GeneratedFunction {
    pub(super) name: String,
    pub(super) params: Vec<Type>,
    pub(super) result: Type,
    /// Holds what it gives for parameters in their [range](super::generator::KernelGenerator::param_range).
    pub(super) range: NumberRange,
    pub(super) is_called: bool,
}
