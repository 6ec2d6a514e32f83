//! The differences that a canonical form keeps.

/// The identity that a canonical form is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum IdentityStrength {
    /// That of bits: what has the same one computes the same bits, NaN being equal to NaN.
    Bits,
    /// That of the mathematics: what has the same one is equal over the real numbers, where both are defined.
    Mathematics,
}

/// The precision that float constants are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum ConstantPrecision {
    /// By their bits.
    #[default]
    Exact,
    /// By their sign and a quarter of an octave of their magnitude, so that graphs that differ in a learning rate or an epsilon
    /// share a hash. It serves statistics alone: such graphs do not compute the same.
    Bucketed,
}

/// The differences that a canonical form keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IdentityOptions {
    /// The identity.
    pub strength: IdentityStrength,
    /// The precision of float constants.
    pub constants: ConstantPrecision,
}

impl IdentityOptions {
    /// Returns the options of an identity with constants as they are.
    pub fn of(strength: IdentityStrength) -> IdentityOptions {
        IdentityOptions { strength, constants: ConstantPrecision::Exact }
    }
}
