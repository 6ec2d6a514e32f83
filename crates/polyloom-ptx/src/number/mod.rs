//! Numbers as PTX computes with them: rounding, subnormals, NaNs, the narrow formats, and the approximate functions.

pub(crate) mod approximate;
pub(crate) mod arithmetic;
pub(crate) mod half;
pub(crate) mod narrow;

/// Describes how a result is rounded (PTX ISA 9.0 §9.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    /// `.rn`: to the nearest, ties to even.
    Nearest,
    /// `.rna`: to the nearest, ties away from zero.
    NearestAway,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards negative infinity.
    Down,
    /// `.rp`: towards positive infinity.
    Up,
}
