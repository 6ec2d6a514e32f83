//! Verifying accuracy: is what a path computes what its graph means?
//!
//! [`GoldenReference::prepare`] makes inputs to the graph's signature and evaluates the graph on them with more precision than any path
//! has; [`GoldenReference::verify`] runs a path on them and compares. A path that fails gets the status `wrong` with its worst element,
//! and never runs for this computation.
//!
//! **The golden reference.** The graph is widened ([`widen`]): all floats become `float64`, decompositions and constants of composite ops
//! included, and [`crate::reference`] evaluates it. Where the graph itself computes in `float64`, the same graph is evaluated in pairs
//! of `float64` (`wide_evaluator`), of some 104 bits.
//!
//! **The tolerance** of an element is what rounding may do to it, which depends on its scale and on the conditions of the ops before it.
//! Nobody derives a bound for each op: it is measured. The graph is evaluated again, several times, and each result of an op that rounds
//! is moved by a unit of the type that it is rounded to, in directions that a seed decides (Monte Carlo arithmetic: Vignes, 1978; Parker,
//! 1997). Before a sum of N terms, its terms are moved by √N units, which covers all orders of summation but unlucky ones. The greatest distance
//! from the golden reference, times a factor, is the tolerance. The definition's own result is one more such evaluation, so that a
//! path with its bits is never wrong; where it overflows, or sits at a jump of `floor` or a comparison, paths may too.
//!
//! A path that has to keep *bits* is compared with the definition itself, bit for bit, NaN being equal to NaN.
//!
//! **Poison.** A path runs twice on the same inputs, and the outputs are filled with one pattern before the first run and with
//! another one before the second. An element that has the pattern both times was not written; one that differs otherwise is not a
//! function of the inputs.
//!
//! Design: `docs/design/measuring.md`.

mod compare;
mod double_double;
mod golden;
mod inputs;
mod rounding;
mod verify;
mod wide_elementwise;
mod wide_evaluator;

pub use compare::{ExpectedTensor, WrongElement};
pub use double_double::DoubleDouble;
pub use golden::{golden_outputs, widen};
pub use inputs::{InputDistribution, InputDomain, make_inputs};
pub use verify::{AccuracyCase, AccuracyPolicy, AccuracyRequirement, AccuracyVerdict, GoldenReference, VerifiedPath};
