//! Rows of random numbers. Their ranges are what the generator counts on; the proof that operations have an effect takes
//! any number for possible.

use super::facts::{OpFacts, OpTrait};
use crate::number_range::NumberRange;
use polyloom::Op;

/// A row of a draw of a vector of which no component is larger than 1.
const fn sample(op: Op) -> OpFacts {
    OpFacts::of(op).names(&["sample", "drawn", "jitter", "point", "kick"]).expected(|_| NumberRange::within(1.0))
}

/// Holds the rows of draws.
pub(super) static DRAWS: &[OpFacts] = &[
    OpFacts::of(Op::Randf)
        .noun("a random number from 0 to 1")
        .names(&["r", "u", "xi", "rnd", "chance"])
        .expected(|_| NumberRange::new(0.0, 1.0)),
    // Larger numbers are possible, but two of a thousand million draws are.
    OpFacts::of(Op::Randn)
        .noun("a normally distributed random number")
        .names(&["z", "noise", "gauss", "shock", "eps_n"])
        .expected(|_| NumberRange::within(6.0)),
    sample(Op::SampleTriangle).noun("a random pair of barycentric coordinates"),
    sample(Op::SampleUnitRing).noun("a random point on the unit circle").traits(&[OpTrait::UnitLength]),
    sample(Op::SampleUnitDisk).noun("a random point in the unit disk"),
    sample(Op::SampleUnitSphereSurface).noun("a random direction").traits(&[OpTrait::UnitLength]),
    sample(Op::SampleUnitSphere).noun("a random point in the unit ball"),
    sample(Op::SampleUnitHemisphereSurface).traits(&[OpTrait::UnitLength]),
    sample(Op::SampleUnitHemisphere).noun("a random point in the unit hemisphere"),
    sample(Op::SampleUnitSquare).noun("a random point in the unit square"),
    sample(Op::SampleUnitCube).noun("a random point in the unit cube"),
];
