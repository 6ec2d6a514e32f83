//! What rounding may do to a graph: evaluations in which each rounded result is moved by a unit of its type.

use super::golden::{widen_tensor, widen_values};
use crate::attribute::AttributeValue;
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef};
use crate::op::{OpDefinition, TensorOp};
use crate::reference::{DenseTensor, evaluate_value};
use polyloom_ir::Scalar;
use polyloom_ir::generate::Random;

/// The units by which a mathematical function of a path may be off: libraries promise 1 to 4.
const FUNCTION_UNITS: f64 = 4.0;

/// The directions in which results are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoundingDirection {
    /// All away from zero.
    Up,
    /// All toward zero.
    Down,
    /// By chance, of this seed.
    Random(u64),
}

/// Returns the directions of so many evaluations.
pub(super) fn directions(n: u32, seed: u64) -> impl Iterator<Item = RoundingDirection> {
    (0..n).map(move |index| match index {
        0 => RoundingDirection::Up,
        1 => RoundingDirection::Down,
        _ => RoundingDirection::Random(seed.wrapping_add(index.into())),
    })
}

/// A graph that is evaluated with moved results.
#[derive(Clone, Debug)]
pub(super) struct RoundedGraph {
    /// The decomposed and widened graph.
    graph: Graph,
    /// The type of each value before it was widened.
    own_dtypes: Vec<Option<Scalar>>,
}

impl RoundedGraph {
    pub(super) fn new(graph: &Graph) -> Result<RoundedGraph, GraphError> {
        let (graph, own_dtypes) = widen_values(&decompose(graph)?)?;
        Ok(RoundedGraph { graph, own_dtypes })
    }

    pub(super) fn evaluate(
        &self,
        inputs: &[DenseTensor],
        direction: RoundingDirection,
    ) -> Result<Vec<DenseTensor>, GraphError> {
        let mut nudge = RoundingNudge {
            direction,
            random: Random::new(if let RoundingDirection::Random(seed) = direction { seed } else { 0 }),
        };
        let mut inputs = inputs.iter();
        let mut values: Vec<DenseTensor> = Vec::with_capacity(self.graph.values.len());
        for (value, own_dtype) in self.graph.values.iter().zip(&self.own_dtypes) {
            let TensorDef::Op { op, operands, attributes } = &value.def else {
                let input =
                    if matches!(value.def, TensorDef::Input(_)) { inputs.next().map(widen_tensor) } else { None };
                values.push(evaluate_value(value, &[], input)?);
                continue;
            };
            let own_dtype = own_dtype.filter(|dtype| dtype.is_float());
            let operands: Vec<&DenseTensor> = operands.iter().map(|operand| &values[operand.0 as usize]).collect();
            let Some(dtype) = own_dtype.filter(|_| has_rounding(*op)) else {
                values.push(evaluate_value(value, &operands, None)?);
                continue;
            };
            // A sum is in the wider type, if there is one, and rounded once.
            let accumulator = if dtype.is_half() { Scalar::F32 } else { dtype };
            let moved: Vec<DenseTensor> = operands
                .iter()
                .enumerate()
                .map(|(index, operand)| {
                    nudge.apply(operand, unit(accumulator) * term_units(*op, index, &operands, &attributes.0))
                })
                .collect();
            let result = evaluate_value(value, &moved.iter().collect::<Vec<_>>(), None)?;
            values.push(nudge.apply(&result, unit(dtype) * result_units(*op)));
        }
        Ok(self.graph.outputs.iter().map(|output| values[output.0 as usize].clone()).collect())
    }
}

/// Returns half a unit in the last place of 1: the rounding error of a number, relative to it.
pub(super) fn unit(dtype: Scalar) -> f64 {
    let digits = match dtype {
        Scalar::F64 => 53,
        Scalar::F32 => 24,
        Scalar::F16 => 11,
        _ => 8,
    };
    0.5f64.powi(digits)
}

/// Returns true if the op rounds. The others move or compare elements, or are exact.
fn has_rounding(op: TensorOp) -> bool {
    use TensorOp as T;
    let is_exact = matches!(
        op,
        T::Negative
            | T::Absolute
            | T::Sign
            | T::Maximum
            | T::Minimum
            | T::Floor
            | T::Ceil
            | T::Trunc
            | T::Round
            | T::Copysign
            | T::Where
            | T::Max
            | T::Min
            | T::Cummax
            | T::Cummin
            | T::Contiguous
            | T::Gather
            | T::Concat
            | T::Pad
            | T::Iota
            | T::Rand
            | T::Bitcast
    );
    !is_exact && !op.info().is_view()
}

/// Returns the units by which a result is moved.
fn result_units(op: TensorOp) -> f64 {
    let is_arithmetic = matches!(op, TensorOp::Add | TensorOp::Subtract | TensorOp::Multiply | TensorOp::Cast);
    let is_function = matches!(op.info().definition, OpDefinition::Scalar(_)) && !is_arithmetic;
    if is_function { FUNCTION_UNITS } else { 1.0 }
}

/// Returns the units by which an operand of an op that sums is moved: the root of the number of terms.
///
/// A sum of N terms in any order is the exact sum of terms that have been moved by at most N - 1 units (Higham, 2002, section 4.2). √N units in one
/// direction are what the errors of numbers of one sign add up to, and in random directions those of numbers of both.
fn term_units(op: TensorOp, index: usize, operands: &[&DenseTensor], attributes: &[AttributeValue]) -> f64 {
    let extents = &operands[index].extents;
    let last = |n: usize| extents.iter().rev().nth(n).copied().unwrap_or(1);
    let along =
        |attribute: usize| attributes[attribute].ints().iter().map(|&axis| extents[axis as usize]).product::<u64>();
    let n_terms = match (op, index) {
        (TensorOp::Sum | TensorOp::Prod | TensorOp::Cumsum | TensorOp::Cumprod, 0) => along(0),
        (TensorOp::LinearRecurrence, _) | (TensorOp::ScatterAdd, 2) => {
            extents.get(attributes[0].ints()[0] as usize).copied().unwrap_or(1)
        }
        (TensorOp::MatMul, 0) => last(0),
        (TensorOp::Contract, 0) => {
            let [own, results] = [attributes[0].ints(), attributes[2].ints()];
            let summed = extents.iter().zip(&own).filter(|(_, label)| !results.contains(label));
            summed.map(|(extent, _)| extent).product()
        }
        // The scores go through an exponential.
        (TensorOp::Attention, 0) => 16 * last(0),
        (TensorOp::Attention, 2) => last(1),
        _ => 0,
    };
    (n_terms as f64).sqrt()
}

/// Moves elements.
struct RoundingNudge {
    direction: RoundingDirection,
    random: Random,
}

impl RoundingNudge {
    fn apply(&mut self, tensor: &DenseTensor, amount: f64) -> DenseTensor {
        if tensor.dtype != Scalar::F64 || amount == 0.0 {
            return tensor.clone();
        }
        let mut sign = || match self.direction {
            RoundingDirection::Up => 1.0,
            RoundingDirection::Down => -1.0,
            RoundingDirection::Random(_) => {
                if self.random.one_in(2) {
                    1.0
                } else {
                    -1.0
                }
            }
        };
        let bits = tensor.bits.iter().map(|&bits| {
            let value = f64::from_bits(bits);
            (value + value * (sign() * amount)).to_bits()
        });
        DenseTensor { bits: bits.collect(), ..tensor.clone() }
    }
}
