//! Tuning: the choice of a kernel's parameters, such as block size, unroll, vector width, tiles and threads.
//!
//! A [`ParameterSpace`] has some values for each parameter, and constraints. [`tune`] searches it by successive halving (Karnin, Koren and
//! Somekh, 2013; Jamieson and Talwalkar, 2016): many points are measured a little, the better ones more, and the last ones as long as a
//! [`MeasurementPolicy`](crate::measure::MeasurementPolicy) asks for; then the neighbours of the winner are measured against it, until none beats it. All
//! points of a rung are sampled in turns by [`crate::measure`]. The default point is in every rung, and is what is chosen unless another
//! one beats it beyond the noise.
//!
//! The names of parameters are those of recipes: `block_size`, `unroll`, `vector_bytes`, `tile.rows`, `tile.columns`, `threads`. No parameter
//! changes a bit of a result, because the order of every reduction is part of the op's definition; a point whose output is wrong is
//! a fault of its code, and is out.
//!
//! Design: `docs/design/measuring.md`.

mod halving;
mod space;

pub use halving::{TunedKernel, TunedPoint, Tuning, TuningEnd, TuningLimits, tune};
pub use space::{ParameterConstraint, ParameterPoint, ParameterSpace, TunableParameter};
