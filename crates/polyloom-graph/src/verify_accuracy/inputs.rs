//! Inputs made to a graph's signature, from a seed.
//!
//! They depend on the graph's inputs and on how it uses them: what an op takes as indices stays within its table, and a count of a
//! shift within the type. No input is all zeros, because a path that reads nothing would pass on them.

use crate::attribute::AttributeValue;
use crate::builder::convert;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef, TensorId, TensorType};
use crate::op::TensorOp;
use crate::reference::DenseTensor;
use polyloom_ir::Scalar;
use polyloom_ir::generate::Random;
use std::fmt;

/// The distribution that the elements of inputs are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InputDistribution {
    /// Nearly normal numbers around 0, of variance 1; integers up to a hundred.
    Normal,
    /// Uniform numbers of one sign, in whose sums errors add up.
    Uniform,
    /// Numbers of all magnitudes that are far from overflow.
    Wide,
    /// Small integers, so that many elements are equal and most arithmetic is exact.
    Ties,
    /// Zeros of both signs, the smallest and largest numbers of the type, subnormal ones and ones, among normal numbers.
    Extremes,
    /// As `Extremes`, with infinities and NaN. Rewrites that hold over the reals do not keep these.
    NonFinite,
}

impl InputDistribution {
    /// All of them.
    pub const ALL: [InputDistribution; 6] = [
        InputDistribution::Normal,
        InputDistribution::Uniform,
        InputDistribution::Wide,
        InputDistribution::Ties,
        InputDistribution::Extremes,
        InputDistribution::NonFinite,
    ];
}

impl fmt::Display for InputDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InputDistribution::Normal => "normal",
            InputDistribution::Uniform => "uniform",
            InputDistribution::Wide => "wide",
            InputDistribution::Ties => "ties",
            InputDistribution::Extremes => "extremes",
            InputDistribution::NonFinite => "non-finite",
        })
    }
}

/// The numbers that floats are mapped to, for graphs that are NaN elsewhere, such as logarithms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InputDomain {
    /// All.
    Reals,
    /// The magnitudes.
    Positive,
    /// Those between 0 and 1.
    Unit,
    /// Those from 1 on.
    AboveOne,
}

impl InputDomain {
    /// All of them, the widest first.
    pub const ALL: [InputDomain; 4] =
        [InputDomain::Reals, InputDomain::Positive, InputDomain::Unit, InputDomain::AboveOne];

    fn map(self, value: f64) -> f64 {
        let magnitude = value.abs();
        match self {
            InputDomain::Reals => value,
            InputDomain::Positive => magnitude,
            // The largest floats have no sum with 1 that differs from them, and their quotient is 1.
            InputDomain::Unit => magnitude / (1.0 + magnitude),
            InputDomain::AboveOne => 1.0 + magnitude,
        }
    }
}

/// The use that a graph makes of the integers of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InputRole {
    Number,
    /// Indices below a bound.
    Index(u64),
    /// Counts of bits of a type so wide.
    ShiftCount(u64),
}

/// Makes a tensor for each input of a graph of known extents.
///
/// No input is all zeros, except for unsigned indices into an axis of one element, which have no other value. The result is the same on every
/// machine.
///
/// # Errors
///
/// [`GraphError::Evaluation`] if an extent is a symbol.
///
/// ```
/// use polyloom_graph::verify_accuracy::{InputDistribution, InputDomain, make_inputs};
///
/// let text = "%w = input \"w\" : f32[9, 4]\n%i = input \"i\" : i64[100]\n%y = embedding %w, %i\nreturn %y";
/// let graph = polyloom_graph::parse_graph(text).unwrap();
/// let inputs = make_inputs(&graph, InputDistribution::Normal, InputDomain::Reals, 1).unwrap();
/// assert!(inputs[1].bits.iter().all(|&index| index < 9));
/// ```
pub fn make_inputs(
    graph: &Graph,
    distribution: InputDistribution,
    domain: InputDomain,
    seed: u64,
) -> Result<Vec<DenseTensor>, GraphError> {
    let roles = input_roles(graph);
    let inputs = graph.values.iter().zip(roles).filter_map(|(value, role)| match &value.def {
        TensorDef::Input(name) => Some((name, &value.ty, role)),
        _ => None,
    });
    let make = |(index, (name, ty, role)): (u64, (&std::sync::Arc<str>, &TensorType, InputRole))| {
        let extents = ty.shape.as_static();
        let extents =
            extents.ok_or_else(|| GraphError::Evaluation(format!("input `{name}` is {ty}, of unknown extents")))?;
        // Each input has a generator of its own, so that its elements do not depend on the extents of others.
        let random = Random::new(Random::new(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits());
        let mut source = ElementSource { random, dtype: ty.dtype, distribution, domain, role };
        let n: u64 = extents.iter().product();
        let mut bits: Vec<u64> = (0..n).map(|_| source.element()).collect();
        source.ensure_not_zero(&mut bits);
        Ok(DenseTensor { dtype: ty.dtype, extents, bits })
    };
    (0..).zip(inputs).map(make).collect()
}

/// Finds, for each value, the use that ops make of its integers, through views and conversions.
fn input_roles(graph: &Graph) -> Vec<InputRole> {
    let mut roles = vec![InputRole::Number; graph.values.len()];
    // An op comes after its operands, so that going backwards meets the use of a view before the view.
    for (id, value) in graph.iter().collect::<Vec<_>>().into_iter().rev() {
        let TensorDef::Op { op, operands, attributes } = &value.def else { continue };
        let extent = |operand: TensorId, axis: i64| {
            let dim = graph.value(operand).and_then(|value| value.ty.shape.0.get(axis as usize)?.as_static());
            dim.map_or(InputRole::Number, InputRole::Index)
        };
        let own = roles[id.0 as usize];
        let (place, role) = match op {
            TensorOp::Gather | TensorOp::Take | TensorOp::ScatterAdd => {
                (1, extent(operands[0], attributes.0[0].ints()[0]))
            }
            TensorOp::Embedding => (1, extent(operands[0], 0)),
            TensorOp::CrossEntropy => {
                let rank = graph.value(operands[0]).map_or(0, |value| value.ty.shape.rank());
                (1, extent(operands[0], i64::from(rank > 1)))
            }
            TensorOp::OneHot => match attributes.0[0] {
                AttributeValue::Int(classes) => (0, InputRole::Index(classes as u64)),
                _ => continue,
            },
            TensorOp::LeftShift | TensorOp::RightShift => (1, InputRole::ShiftCount(value.ty.dtype.bits().into())),
            TensorOp::Cast | TensorOp::Contiguous => (0, own),
            _ if op.info().is_view() || *op == TensorOp::Transpose => (0, own),
            _ => continue,
        };
        if let Some(operand) = operands.get(place)
            && role != InputRole::Number
        {
            roles[operand.0 as usize] = role;
        }
    }
    roles
}

/// A source of the elements of one input.
struct ElementSource {
    random: Random,
    dtype: Scalar,
    distribution: InputDistribution,
    domain: InputDomain,
    role: InputRole,
}

impl ElementSource {
    fn element(&mut self) -> u64 {
        match (self.dtype, self.role) {
            (Scalar::Bool, _) => self.random.bits() & 1,
            (dtype, _) if dtype.is_float() => {
                let value = self.domain.map(self.float());
                convert(Scalar::F64, value.to_bits(), dtype)
            }
            (_, InputRole::Index(bound)) => {
                let index = self.random.below(bound.max(1) as usize) as i64;
                // An index below 0 counts from the end.
                let counts_back = self.is_extreme() && self.dtype.is_signed_int() && self.random.one_in(3);
                self.integer(if counts_back { index - bound as i64 } else { index })
            }
            (_, InputRole::ShiftCount(bits)) => {
                let limit = if self.is_extreme() { bits + bits / 2 } else { bits };
                let count = self.random.below(limit as usize) as i64;
                self.integer(count)
            }
            _ => self.number(),
        }
    }

    fn is_extreme(&self) -> bool {
        matches!(self.distribution, InputDistribution::Extremes | InputDistribution::NonFinite)
    }

    /// Returns the bits of an integer of the type.
    fn integer(&self, value: i64) -> u64 {
        convert(Scalar::I64, value as u64, self.dtype)
    }

    /// Returns an integer that is no index.
    fn number(&mut self) -> u64 {
        let bits = self.dtype.bits();
        match self.distribution {
            InputDistribution::Ties => {
                let value = self.random.below(7) as i64 - if self.dtype.is_signed_int() { 3 } else { 0 };
                self.integer(value)
            }
            InputDistribution::Wide => {
                let shift = self.random.below(bits as usize) as u32;
                let value = self.random.bits() >> (64 - bits) >> shift;
                self.integer(value as i64)
            }
            InputDistribution::Extremes | InputDistribution::NonFinite if self.random.one_in(2) => {
                let all = u64::MAX >> (64 - bits);
                self.random.pick(&[0, 1, all, all >> 1, (all >> 1) + 1, 2])
            }
            _ => {
                let value = self.random.below(201) as i64 - if self.dtype.is_signed_int() { 100 } else { 0 };
                // A hundred is in the range of all types.
                self.integer(value.min(127))
            }
        }
    }

    /// Returns a number in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        // The sum of twelve uniform numbers has variance 1, and the same bits everywhere, as no logarithm of a system has.
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn float(&mut self) -> f64 {
        match self.distribution {
            InputDistribution::Normal => self.normal(),
            InputDistribution::Uniform => self.uniform() + 0.0625,
            InputDistribution::Ties => self.random.below(7) as f64 - 3.0,
            InputDistribution::Wide => {
                let range = if self.dtype == Scalar::F16 { 4 } else { 24 };
                let exponent = self.random.below(2 * range + 1) as i32 - range as i32;
                let sign = if self.random.one_in(2) { -1.0 } else { 1.0 };
                sign * (1.0 + self.uniform()) * 2f64.powi(exponent)
            }
            InputDistribution::NonFinite if self.random.one_in(6) => {
                self.random.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN])
            }
            InputDistribution::Extremes | InputDistribution::NonFinite => self.extreme(),
        }
    }

    fn extreme(&mut self) -> f64 {
        if self.random.one_in(2) {
            return self.normal();
        }
        // The largest number, the smallest normal one and the smallest of all.
        let [max, normal, least] = match self.dtype {
            Scalar::F16 => [65504.0, 2f64.powi(-14), 2f64.powi(-24)],
            Scalar::BF16 => [f64::from_bits(0x47ef_e000_0000_0000), 2f64.powi(-126), 2f64.powi(-133)],
            Scalar::F32 => [f32::MAX.into(), f32::MIN_POSITIVE.into(), 2f64.powi(-149)],
            _ => [f64::MAX, f64::MIN_POSITIVE, 5e-324],
        };
        let sign = if self.random.one_in(2) { -1.0 } else { 1.0 };
        sign * self.random.pick(&[0.0, 1.0, 0.5, max, max.sqrt(), normal, normal.sqrt(), least])
    }

    /// Changes one element if all are zeros.
    fn ensure_not_zero(&mut self, bits: &mut [u64]) {
        let is_zero = |&bits: &u64| f64::from_bits(convert(self.dtype, bits, Scalar::F64)) == 0.0;
        if bits.is_empty() || !bits.iter().all(is_zero) {
            return;
        }
        let place = self.random.below(bits.len());
        bits[place] = match self.role {
            InputRole::Index(1) if self.dtype.is_unsigned_int() => 0,
            InputRole::Index(1) => self.integer(-1),
            _ => convert(Scalar::F64, 1f64.to_bits(), self.dtype),
        };
    }
}
