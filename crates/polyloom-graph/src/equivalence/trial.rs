//! Trials: both graphs on random inputs, by the evaluator.
//!
//! Floats are `f64`, so that what differs is mathematics rather than rounding. A difference counts only where both results are
//! finite, and only if it is larger than what a small change of the inputs makes: a graph that turns rounding errors into large
//! ones shows nothing.

use super::EquivalenceLimits;
use crate::attribute::{AttributeValue, Attributes};
use crate::builder::convert;
use crate::decompose::decompose;
use crate::graph::{Graph, TensorDef, TensorType};
use crate::reference::{DenseTensor, evaluate};
use crate::shape::Dim;
use crate::specialise::{SymbolValues, specialise};
use crate::verify::verify;
use polyloom_ir::Scalar;
use polyloom_ir::generate::Random;

/// An input on which two graphs differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Counterexample {
    /// The inputs. Floats are `f64` if the graphs could be evaluated in it, whatever their type in the graphs.
    pub inputs: Vec<DenseTensor>,
    /// The numbers that are given at each run, by their places.
    pub numbers: Vec<(u32, f64)>,
    /// The output that differs.
    pub output: usize,
    /// The element of it, in row-major order.
    pub element: usize,
    /// The values that the graphs give for it.
    pub values: [f64; 2],
}

/// How much the results of two graphs differ in their own types, on the inputs of trials.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FloatDeviation {
    /// The largest difference, relative to the largest element of the output that it is in.
    pub relative: f64,
    /// The elements that were compared.
    pub n_elements: usize,
}

/// The outcome of trials.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Trial {
    /// The graphs differ.
    Different(Box<Counterexample>),
    /// They agree wherever they were compared.
    Alike,
    /// There was nothing to compare.
    Nothing,
}

/// The distributions that inputs are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distribution {
    /// On both sides of 0.
    Centred,
    /// Above 0.
    Positive,
    /// Whole numbers from -3 to 3, many of which are equal.
    Whole,
    /// Far from 0.
    Wide,
    /// All close to each other.
    Narrow,
}

const DISTRIBUTIONS: [Distribution; 5] =
    [Distribution::Centred, Distribution::Positive, Distribution::Whole, Distribution::Wide, Distribution::Narrow];

/// The source of inputs, which gives the same for the same seed.
struct TrialNumbers(Random);

impl TrialNumbers {
    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.0.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self, dtype: Scalar, distribution: Distribution) -> f64 {
        let unit = self.unit();
        if dtype == Scalar::Bool {
            return f64::from(u8::from(unit < 0.5));
        }
        let value = match distribution {
            Distribution::Centred => 4.0 * unit - 2.0,
            Distribution::Positive => 0.2 + 2.8 * unit,
            Distribution::Whole => (7.0 * unit).floor() - 3.0,
            Distribution::Wide => 24.0 * unit - 12.0,
            Distribution::Narrow => 0.7 + 0.02 * unit,
        };
        match dtype {
            _ if dtype.is_float() => value,
            // Out of the range of the smallest integers.
            _ if distribution == Distribution::Wide && dtype.is_signed_int() => (value * 100.0).floor(),
            _ if dtype.is_unsigned_int() => (value.abs() * 3.0).floor(),
            _ => (value * 3.0).floor(),
        }
    }
}

/// A graph that can be evaluated: symbols are numbers, and numbers that are given at each run are inputs.
struct TrialGraph {
    graph: Graph,
    /// The place of each input among those of the graph, or that of the number that it stands for.
    sources: Vec<Result<usize, u32>>,
}

impl TrialGraph {
    fn new(graph: &Graph, is_widened: bool) -> Option<TrialGraph> {
        let mut symbols = SymbolValues::default();
        for (_, ty) in graph.inputs() {
            for dim in &ty.shape.0 {
                if let Dim::Symbol(name) = dim {
                    let n = symbols.len() as u64;
                    symbols.entry(name.clone()).or_insert(3 + n);
                }
            }
        }
        let mut graph = decompose(&specialise(graph, &symbols).ok()?).ok()?;
        let mut sources = Vec::new();
        let mut n_inputs = 0;
        for (index, value) in graph.values.iter_mut().enumerate() {
            let widens = |dtype: Scalar| if is_widened && dtype.is_float() { Scalar::F64 } else { dtype };
            let old = value.ty.dtype;
            value.ty.dtype = widens(old);
            match &mut value.def {
                TensorDef::Input(name) => {
                    *name = format!("x{n_inputs}").into();
                    sources.push(Ok(n_inputs));
                    n_inputs += 1;
                }
                TensorDef::Constant(bits) => *bits = convert(old, *bits, widens(old)),
                TensorDef::Number(place) => {
                    let place = *place;
                    sources.push(Err(place));
                    value.def = TensorDef::Input(format!("number{index}").into());
                }
                TensorDef::Op { attributes: Attributes(attributes), .. } => {
                    for attribute in attributes {
                        if let AttributeValue::Dtype(dtype) = attribute {
                            *dtype = widens(*dtype);
                        }
                    }
                }
            }
        }
        verify(&graph).ok()?;
        Some(TrialGraph { graph, sources })
    }

    /// Returns the number of elements of all values.
    fn n_elements(&self) -> u64 {
        let of_value = |ty: &TensorType| ty.shape.n_elements().unwrap_or(u64::MAX);
        self.graph.values.iter().fold(0, |sum, value| sum.saturating_add(of_value(&value.ty)))
    }

    fn run(&self, inputs: &[DenseTensor], numbers: &[(u32, f64)]) -> Option<Vec<DenseTensor>> {
        let types: Vec<TensorType> = self.graph.inputs().map(|(_, ty)| ty.clone()).collect();
        let argument = |(source, ty): (&Result<usize, u32>, &TensorType)| match source {
            Ok(place) => inputs.get(*place).cloned(),
            Err(place) => {
                let value = numbers.iter().find(|(own, _)| own == place).map_or(1.0, |&(_, value)| value);
                DenseTensor::of_numbers(ty.dtype, &[], &[value]).ok()
            }
        };
        let arguments: Option<Vec<DenseTensor>> = self.sources.iter().zip(&types).map(argument).collect();
        evaluate(&self.graph, &arguments?).ok()
    }

    fn draw(&self, random: &mut TrialNumbers, distribution: Distribution) -> Option<Vec<DenseTensor>> {
        let types = self.graph.inputs().zip(&self.sources).filter(|(_, source)| source.is_ok());
        let tensor = |((_, ty), _): ((&str, &TensorType), &Result<usize, u32>)| {
            let extents = ty.shape.as_static()?;
            let n = extents.iter().product::<u64>();
            let values: Vec<f64> = (0..n).map(|_| random.draw(ty.dtype, distribution)).collect();
            DenseTensor::of_numbers(ty.dtype, &extents, &values).ok()
        };
        types.map(tensor).collect()
    }
}

/// Returns both graphs as they can be evaluated, in `f64` if they can be, and whether they are in it.
fn prepare(a: &Graph, b: &Graph, limits: EquivalenceLimits) -> Option<(TrialGraph, TrialGraph, bool)> {
    let pair = |is_widened| Some((TrialGraph::new(a, is_widened)?, TrialGraph::new(b, is_widened)?, is_widened));
    pair(true).or_else(|| pair(false)).filter(|(a, b, _)| a.n_elements().max(b.n_elements()) <= limits.elements)
}

fn draw_numbers(graphs: [&TrialGraph; 2], random: &mut TrialNumbers) -> Vec<(u32, f64)> {
    let places = graphs.iter().flat_map(|graph| &graph.sources).filter_map(|source| source.err());
    let mut places: Vec<u32> = places.collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|place| (place, (random.unit() * 64.0).floor() / 16.0 + 0.25)).collect()
}

/// Changes floats by a few units in the last places.
fn nudged(inputs: &[DenseTensor], random: &mut TrialNumbers) -> Vec<DenseTensor> {
    let nudge = |tensor: &DenseTensor| {
        if !tensor.dtype.is_float() {
            return tensor.clone();
        }
        let relative = if tensor.dtype == Scalar::F64 { 1e-13 } else { 1e-5 };
        let values: Vec<f64> =
            tensor.numbers().into_iter().map(|value| value * (1.0 + relative * (2.0 * random.unit() - 1.0))).collect();
        DenseTensor::of_numbers(tensor.dtype, &tensor.extents, &values).unwrap_or_else(|_| tensor.clone())
    };
    inputs.iter().map(nudge).collect()
}

impl Trial {
    /// Tries both graphs.
    pub(super) fn run(a: &Graph, b: &Graph, limits: EquivalenceLimits) -> Trial {
        let Some((a, b, is_widened)) = prepare(a, b, limits) else { return Trial::Nothing };
        let mut random = TrialNumbers(Random::new(1));
        let mut n_compared = 0;
        for _ in 0..limits.trials {
            for distribution in DISTRIBUTIONS {
                let Some(inputs) = a.draw(&mut random, distribution) else { return Trial::Nothing };
                let numbers = draw_numbers([&a, &b], &mut random);
                let (Some(of_a), Some(of_b)) = (a.run(&inputs, &numbers), b.run(&inputs, &numbers)) else {
                    continue;
                };
                let found = differences(&of_a, &of_b, is_widened, &mut n_compared);
                if found.is_empty() {
                    continue;
                }
                // A difference that a small change of the inputs makes as well is none. One change may happen to alter nothing where large
                // numbers cancel, whose difference is a few units of their last place or none.
                let mut near = Vec::with_capacity(N_CHANGES);
                for _ in 0..N_CHANGES {
                    let changed = nudged(&inputs, &mut random);
                    near.extend(a.run(&changed, &numbers).zip(b.run(&changed, &numbers)));
                }
                if near.len() < N_CHANGES {
                    continue;
                }
                for (output, element) in found {
                    let value = |tensors: &[DenseTensor]| tensors[output].numbers()[element];
                    let values = [value(&of_a), value(&of_b)];
                    let change = |(near_a, near_b): &(Vec<DenseTensor>, Vec<DenseTensor>)| {
                        (values[0] - value(near_a)).abs().max((values[1] - value(near_b)).abs())
                    };
                    let change = near.iter().map(change).fold(0.0, f64::max);
                    if (values[0] - values[1]).abs() > 30.0 * change {
                        let counterexample = Counterexample { inputs, numbers, output, element, values };
                        return Trial::Different(Box::new(counterexample));
                    }
                }
            }
        }
        if n_compared == 0 { Trial::Nothing } else { Trial::Alike }
    }
}

/// The changes of inputs that are tried where results differ.
const N_CHANGES: usize = 8;

/// The largest number that is compared.
const LARGEST: f64 = 1e12;

fn scale_of(a: &[f64], b: &[f64]) -> f64 {
    let usual = a.iter().chain(b).map(|x| x.abs()).filter(|x| *x < LARGEST);
    usual.fold(0.0, f64::max)
}

/// Returns the places where results differ by more than rounding makes likely: at most a few.
fn differences(a: &[DenseTensor], b: &[DenseTensor], is_widened: bool, n_compared: &mut usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (output, (a, b)) in a.iter().zip(b).enumerate() {
        let tolerance = match a.dtype {
            _ if !a.dtype.is_float() => 0.0,
            Scalar::F64 if is_widened => 1e-9,
            Scalar::F64 | Scalar::F32 => 1e-3,
            _ => 5e-2,
        };
        let (a, b) = (a.numbers(), b.numbers());
        let limit = tolerance * scale_of(&a, &b).max(1e-3);
        for (element, (&x, &y)) in a.iter().zip(&b).enumerate() {
            if x.abs() < LARGEST && y.abs() < LARGEST {
                *n_compared += 1;
                if (x - y).abs() > limit && found.len() < 16 {
                    found.push((output, element));
                }
            }
        }
    }
    found
}

/// Measures how much the results of two graphs differ in their types.
pub(super) fn measure(a: &Graph, b: &Graph, limits: EquivalenceLimits) -> Option<FloatDeviation> {
    let (a, b) = (TrialGraph::new(a, false)?, TrialGraph::new(b, false)?);
    if a.n_elements().max(b.n_elements()) > limits.elements {
        return None;
    }
    let mut random = TrialNumbers(Random::new(1));
    let mut deviation = FloatDeviation { relative: 0.0, n_elements: 0 };
    for distribution in [Distribution::Centred, Distribution::Positive] {
        let inputs = a.draw(&mut random, distribution)?;
        let numbers = draw_numbers([&a, &b], &mut random);
        let (of_a, of_b) = (a.run(&inputs, &numbers)?, b.run(&inputs, &numbers)?);
        for (x, y) in of_a.iter().zip(&of_b) {
            let (x, y) = (x.numbers(), y.numbers());
            let scale = scale_of(&x, &y);
            for (x, y) in x.iter().zip(&y).filter(|(x, y)| x.abs() < LARGEST && y.abs() < LARGEST) {
                deviation.n_elements += 1;
                if scale > 0.0 {
                    deviation.relative = deviation.relative.max((x - y).abs() / scale);
                }
            }
        }
    }
    (deviation.n_elements > 0).then_some(deviation)
}
