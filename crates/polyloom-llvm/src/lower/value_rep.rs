//! Describes how the values of all lanes are held, and which lanes are executing.

use crate::ir::Val;
use smallvec::SmallVec;

/// Describes how the value of an HIR value in every lane is held.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ValueRep {
    /// One scalar for all executing lanes.
    Uniform(Val),
    /// An integer: the first lane's value, and how much more the next lane's is.
    Affine { base: Val, stride: i64 },
    /// One element per lane.
    Vector(Val),
    /// The array with this index: a parameter or, past those, one of [`FunctionLowering::own_arrays`].
    Array(usize),
}

/// Values of several results or operands.
pub(crate) type Reps = SmallVec<[ValueRep; 2]>;

/// Says which lanes are executing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ExecMask {
    /// All of them.
    Full,
    /// Those set in this mask.
    Mask(Val),
    /// Those set in the mask in [`FunctionLowering::exec_slot`]: lanes have left for outer targets on some paths to here.
    Slot,
}

/// Describes what comes after a region's last instruction.
pub(crate) enum RegionFlow {
    /// It yields these values.
    Yields(Reps),
    /// No lane is executing any more, but control goes on.
    Dead,
    /// Control has gone elsewhere; the current block is finished.
    Gone,
}
