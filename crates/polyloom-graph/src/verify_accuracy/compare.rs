//! Comparing one output with what is expected of it.

use super::rounding::unit;
use crate::builder::convert;
use crate::layout::Layout;
use crate::reference::DenseTensor;
use polyloom_ir::Scalar;
use std::fmt;

/// The bounds of one output.
#[derive(Clone, Debug)]
pub struct ExpectedTensor {
    /// The definition's result: its bits are always right.
    pub definition: DenseTensor,
    /// The golden reference; integers are as `float64`, which orders them.
    pub golden: Vec<f64>,
    /// The greatest distance from the golden reference that is right. 0 where integers and truth values must be the definition's.
    pub tolerance: Vec<f64>,
    /// True where rounding may make the result infinite or NaN.
    pub may_overflow: Vec<bool>,
    /// The root of the mean square of the golden reference's finite elements.
    pub scale: f64,
}

/// An element that is not what it should be.
#[derive(Clone, PartialEq, Debug)]
pub struct WrongElement {
    /// The output.
    pub output: usize,
    /// The indices of the element.
    pub indices: Vec<u64>,
    /// Its value; `None` if nothing was written there.
    pub value: Option<f64>,
    /// The value that it should have.
    pub expected: f64,
    /// The distance that is allowed.
    pub tolerance: f64,
}

impl fmt::Display for WrongElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongElement { output, indices, expected, tolerance, .. } = self;
        match self.value {
            Some(value) => {
                write!(f, "element {indices:?} of output {output} is {value:?}, should be {expected:?}")?;
                if *tolerance > 0.0 { write!(f, " ± {tolerance:.2e}") } else { Ok(()) }
            }
            None => write!(f, "element {indices:?} of output {output} was not written; it should be {expected:?}"),
        }
    }
}

/// The results of comparing.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct TensorComparison {
    /// The greatest distance from the golden reference, relative to the output's scale.
    pub(super) max_error: f64,
    /// The wrong element that is furthest out, by tolerances.
    pub(super) worst: Option<(f64, WrongElement)>,
}

/// Returns the number that an element stands for.
fn number(dtype: Scalar, bits: u64) -> f64 {
    f64::from_bits(convert(dtype, bits, Scalar::F64))
}

/// Returns true for elements that are equal bit for bit, NaN being equal to NaN.
fn is_same(dtype: Scalar, a: u64, b: u64) -> bool {
    a == b || dtype.is_float() && number(dtype, a).is_nan() && number(dtype, b).is_nan()
}

impl ExpectedTensor {
    /// Makes the expectation of an output from the definition's result, the golden reference and evaluations with moved roundings.
    pub(super) fn new(
        definition: DenseTensor,
        golden: &DenseTensor,
        moved: &[DenseTensor],
        safety: f64,
    ) -> ExpectedTensor {
        let golden = golden.numbers();
        let finite = golden.iter().filter(|value| value.is_finite());
        let n_finite = finite.clone().count().max(1) as f64;
        // Scaled by the greatest, because squares of extremes overflow.
        let most = finite.clone().fold(0.0, |most: f64, value| most.max(value.abs()));
        let scale =
            most * (finite.map(|value| (value / most.max(f64::MIN_POSITIVE)).powi(2)).sum::<f64>() / n_finite).sqrt();
        let of_definition = definition.numbers();
        let of_moved: Vec<Vec<f64>> = moved.iter().map(DenseTensor::numbers).collect();
        let dtype = definition.dtype;
        let least = smallest(dtype);
        let tolerance = |(index, &golden): (usize, &f64)| {
            let all = of_moved.iter().chain([&of_definition]).map(|values| values[index]);
            let distances = all.filter(|value| value.is_finite()).map(|value| (value - golden).abs());
            let distance = distances.fold(0.0, f64::max);
            match dtype.is_float() {
                _ if !golden.is_finite() => 0.0,
                true => safety * (distance + unit(dtype) * golden.abs()) + unit(dtype) * scale + least,
                false => distance,
            }
        };
        let may_overflow = |index: usize| {
            let mut all = of_moved.iter().chain([&of_definition]);
            all.any(|values| !values[index].is_finite())
        };
        ExpectedTensor {
            tolerance: golden.iter().enumerate().map(tolerance).collect(),
            may_overflow: (0..golden.len()).map(may_overflow).collect(),
            golden,
            scale,
            definition,
        }
    }

    /// Compares an output. With `is_exact` its bits must be the definition's.
    pub(super) fn compare(&self, output: usize, found: &DenseTensor, is_exact: bool) -> TensorComparison {
        let dtype = self.definition.dtype;
        let mut comparison = TensorComparison::default();
        for (index, (&bits, &defined)) in found.bits.iter().zip(&self.definition.bits).enumerate() {
            let (value, golden, tolerance) = (number(dtype, bits), self.golden[index], self.tolerance[index]);
            let distance = (value - golden).abs();
            if distance.is_finite() {
                comparison.max_error = comparison.max_error.max(distance / self.scale.max(f64::MIN_POSITIVE));
            }
            let is_right = is_same(dtype, bits, defined)
                || !is_exact
                    && (distance <= tolerance && (dtype.is_float() || tolerance > 0.0)
                        || value == golden && dtype.is_float()
                        || value.is_nan() && golden.is_nan()
                        || !value.is_finite() && self.may_overflow[index]
                        || !value.is_finite() && golden.abs() > 0.5 * greatest(dtype));
            if is_right {
                continue;
            }
            let severity =
                if distance.is_finite() { distance / tolerance.max(f64::MIN_POSITIVE) } else { f64::INFINITY };
            if comparison.worst.as_ref().is_none_or(|(worst, _)| severity > *worst) {
                let expected = if is_exact { number(dtype, defined) } else { golden };
                let tolerance = if is_exact { 0.0 } else { tolerance };
                let indices = self.indices(index);
                comparison.worst =
                    Some((severity, WrongElement { output, indices, value: Some(value), expected, tolerance }));
            }
        }
        comparison
    }

    /// Returns the first element that was not written: it has the poison of both runs.
    pub(super) fn find_unwritten(&self, output: usize, runs: [&DenseTensor; 2]) -> Option<WrongElement> {
        let dtype = self.definition.dtype;
        let [first, second] = [0, 1].map(|run| poison(dtype, run));
        let index = runs[0].bits.iter().zip(&runs[1].bits).position(|(&a, &b)| a == first && b == second)?;
        let expected = self.golden[index];
        Some(WrongElement { output, indices: self.indices(index), value: None, expected, tolerance: 0.0 })
    }

    /// Makes the tensor that an output is before a run.
    pub(super) fn poisoned(&self, run: usize) -> DenseTensor {
        let bits = vec![poison(self.definition.dtype, run); self.definition.bits.len()];
        DenseTensor { bits, ..self.definition.clone() }
    }

    fn indices(&self, index: usize) -> Vec<u64> {
        let strides = Layout::dense(&self.definition.extents).strides;
        let indices = self.definition.extents.iter().zip(strides);
        indices.map(|(&extent, stride)| index as u64 / (stride as u64).max(1) % extent.max(1)).collect()
    }
}

/// Returns the greatest finite number of a type. A sum that comes near it may have gone beyond it in another order, on the
/// way to infinity or, from there, to NaN.
fn greatest(dtype: Scalar) -> f64 {
    match dtype {
        Scalar::F16 => 65504.0,
        Scalar::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        Scalar::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// Returns the smallest number of a type that a path may flush to zero. Nothing flushes 16-bit floats but those with the exponents of `f32`.
fn smallest(dtype: Scalar) -> f64 {
    match dtype {
        Scalar::F16 => 2f64.powi(-24),
        Scalar::F64 => f64::MIN_POSITIVE,
        _ => f32::MIN_POSITIVE.into(),
    }
}

/// Returns the bits that outputs have before a run, other ones before the second. Of floats they are a NaN that no arithmetic makes.
fn poison(dtype: Scalar, run: usize) -> u64 {
    let is_first = run == 0;
    match dtype {
        Scalar::Bool => u64::from(is_first),
        Scalar::F16 => {
            if is_first {
                0x7ea5
            } else {
                0x7e5a
            }
        }
        Scalar::BF16 => {
            if is_first {
                0x7fe5
            } else {
                0x7fda
            }
        }
        Scalar::F32 => {
            if is_first {
                0x7fe5_a5a5
            } else {
                0x7fda_5a5a
            }
        }
        Scalar::F64 => {
            if is_first {
                0x7ffc_a5a5_a5a5_a5a5
            } else {
                0x7ffa_5a5a_5a5a_5a5a
            }
        }
        _ => (if is_first { 0xa5a5_a5a5_a5a5_a5a5 } else { 0x5a5a_5a5a_5a5a_5a5a }) & (u64::MAX >> (64 - dtype.bits())),
    }
}
