//! The golden reference of a graph on several inputs, and the verdict on a path.

use super::compare::{ExpectedTensor, WrongElement};
use super::golden::golden_outputs;
use super::inputs::{InputDistribution, InputDomain, make_inputs};
use super::rounding::{RoundedGraph, directions};
use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef};
use crate::measure::{MeasureFailure, MeasurementStatus};
use crate::reference::{DenseTensor, evaluate};

/// How near the results of a path have to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccuracyRequirement {
    /// They have the definition's bits, as in `strict`.
    Bits,
    /// They are the same over the reals, and differ by what rounding may do.
    Mathematics,
}

/// The practice of verifying.
#[derive(Clone, PartialEq, Debug)]
pub struct AccuracyPolicy {
    /// The requirement.
    pub requirement: AccuracyRequirement,
    /// The distributions of inputs.
    pub distributions: Vec<InputDistribution>,
    /// The first seed of inputs and roundings.
    pub seed: u64,
    /// The inputs of each distribution.
    pub n_inputs: u32,
    /// The evaluations with moved roundings.
    pub n_evaluations: u32,
    /// The factor by which an error may exceed what moved roundings do.
    pub safety: f64,
    /// The arithmetic operations of one evaluation at most, because the evaluator takes about 50 ns for each.
    pub max_operations: u64,
}

impl AccuracyPolicy {
    /// Returns the policy for a requirement. Infinities and NaN are asked of paths that keep bits alone.
    pub fn of(requirement: AccuracyRequirement) -> AccuracyPolicy {
        let distributions = InputDistribution::ALL.into_iter().filter(|distribution| {
            requirement == AccuracyRequirement::Bits || *distribution != InputDistribution::NonFinite
        });
        AccuracyPolicy {
            requirement,
            distributions: distributions.collect(),
            seed: 1,
            n_inputs: 1,
            n_evaluations: 8,
            safety: 8.0,
            max_operations: 1 << 24,
        }
    }
}

/// A path that is verified.
pub trait VerifiedPath {
    /// Computes the outputs. They have their types and extents, and elements that are to be written over, all of them.
    ///
    /// # Errors
    ///
    /// The reason why the path does not run.
    fn run(&mut self, inputs: &[DenseTensor], outputs: &mut [DenseTensor]) -> Result<(), String>;
}

impl<F: FnMut(&[DenseTensor], &mut [DenseTensor]) -> Result<(), String>> VerifiedPath for F {
    fn run(&mut self, inputs: &[DenseTensor], outputs: &mut [DenseTensor]) -> Result<(), String> {
        self(inputs, outputs)
    }
}

/// Inputs of a graph with what is expected on them.
#[derive(Clone, Debug)]
pub struct AccuracyCase {
    /// The distribution that the inputs are drawn from.
    pub distribution: InputDistribution,
    /// The seed.
    pub seed: u64,
    /// The inputs.
    pub inputs: Vec<DenseTensor>,
    /// The expectations, one for each output.
    pub expected: Vec<ExpectedTensor>,
}

/// The verdict on a path.
#[derive(Clone, PartialEq, Debug)]
pub struct AccuracyVerdict {
    /// `Ok`, `Wrong`, or `Failed` if the path did not run.
    pub status: MeasurementStatus,
    /// The reason, unless it is `Ok`.
    pub reason: Option<String>,
    /// The element that is furthest out, if one is wrong.
    pub worst: Option<WrongElement>,
    /// The greatest distance from the golden reference in any case but extremes, relative to the scale of the output.
    pub max_error: f64,
    /// The elements that were compared.
    pub n_compared: usize,
}

impl AccuracyVerdict {
    /// Returns the verdict as a failure of a measured candidate; `None` if the path is right.
    pub fn failure(&self) -> Option<MeasureFailure> {
        let reason = self.reason.clone()?;
        Some(MeasureFailure { status: self.status, reason })
    }
}

/// The results of a graph, on inputs of several distributions. It is prepared once and serves all paths of the graph.
#[derive(Clone, Debug)]
pub struct GoldenReference {
    requirement: AccuracyRequirement,
    cases: Vec<AccuracyCase>,
}

impl GoldenReference {
    /// Prepares the reference of a graph of known extents.
    ///
    /// # Errors
    ///
    /// [`GraphError::Evaluation`] if an extent is a symbol, or if the graph has more operations than the policy allows: it is then verified at
    /// smaller extents.
    ///
    /// ```
    /// use polyloom_graph::reference::{DenseTensor, evaluate};
    /// use polyloom_graph::verify_accuracy::*;
    ///
    /// let graph = polyloom_graph::parse_graph("%x = input \"x\" : f32[50]\n%y = sum %x\nreturn %y")?;
    /// let reference = GoldenReference::prepare(&graph, &AccuracyPolicy::of(AccuracyRequirement::Mathematics))?;
    /// // Another order of the sum is right, and a sum without its last element is not.
    /// let sum = |n: usize| move |inputs: &[DenseTensor], outputs: &mut [DenseTensor]| {
    ///     let total: f32 = inputs[0].bits[..n].iter().map(|&bits| f32::from_bits(bits as u32)).sum();
    ///     outputs[0].bits[0] = total.to_bits().into();
    ///     Ok(())
    /// };
    /// assert_eq!(reference.verify(&mut sum(50)).status.name(), "ok");
    /// assert_eq!(reference.verify(&mut sum(49)).status.name(), "wrong");
    /// # Ok::<(), polyloom_graph::GraphError>(())
    /// ```
    pub fn prepare(graph: &Graph, policy: &AccuracyPolicy) -> Result<GoldenReference, GraphError> {
        let n = count_operations(graph)?;
        if n > policy.max_operations {
            let limit = policy.max_operations;
            return Err(GraphError::Evaluation(format!(
                "{n} operations are more than the {limit} that are verified; take smaller extents"
            )));
        }
        let rounded = RoundedGraph::new(graph)?;
        let domain = choose_domain(graph, policy.seed)?;
        let mut cases = Vec::new();
        for &distribution in &policy.distributions {
            for seed in (policy.seed..).take(policy.n_inputs as usize) {
                // Inputs outside of the domain are asked for too: there a path has to give NaN.
                let is_within = !matches!(
                    distribution,
                    InputDistribution::Ties | InputDistribution::Extremes | InputDistribution::NonFinite
                );
                let domain = if is_within { domain } else { InputDomain::Reals };
                let inputs = make_inputs(graph, distribution, domain, seed)?;
                let definition = evaluate(graph, &inputs)?;
                let golden = golden_outputs(graph, &inputs)?;
                let mut moved: Vec<Vec<DenseTensor>> = vec![Vec::new(); golden.len()];
                for direction in directions(policy.n_evaluations, seed) {
                    for (of_output, tensor) in moved.iter_mut().zip(rounded.evaluate(&inputs, direction)?) {
                        of_output.push(tensor);
                    }
                }
                let expected = definition.into_iter().zip(&golden).zip(&moved);
                let expected = expected
                    .map(|((definition, golden), moved)| ExpectedTensor::new(definition, golden, moved, policy.safety));
                cases.push(AccuracyCase { distribution, seed, expected: expected.collect(), inputs });
            }
        }
        Ok(GoldenReference { requirement: policy.requirement, cases })
    }

    /// Returns the cases.
    pub fn cases(&self) -> &[AccuracyCase] {
        &self.cases
    }

    /// Runs a path on all cases, twice each, and compares.
    pub fn verify(&self, path: &mut dyn VerifiedPath) -> AccuracyVerdict {
        let mut verdict =
            AccuracyVerdict { status: MeasurementStatus::Ok, reason: None, worst: None, max_error: 0.0, n_compared: 0 };
        let mut severity = 0.0;
        for case in &self.cases {
            let runs = match case.run_twice(path) {
                Ok(runs) => runs,
                Err(reason) => {
                    let reason = format!("{reason}, on {case}");
                    return AccuracyVerdict { status: MeasurementStatus::Failed, reason: Some(reason), ..verdict };
                }
            };
            for (output, expected) in case.expected.iter().enumerate() {
                let [first, second] = [&runs[0][output], &runs[1][output]];
                if let Some(element) = expected.find_unwritten(output, [first, second]) {
                    verdict.reason = Some(format!("{element}, on {case}"));
                    verdict.worst = Some(element);
                    return AccuracyVerdict { status: MeasurementStatus::Wrong, ..verdict };
                }
                for found in [first, second] {
                    let comparison = expected.compare(output, found, self.requirement == AccuracyRequirement::Bits);
                    verdict.n_compared += found.bits.len();
                    if !matches!(case.distribution, InputDistribution::Extremes | InputDistribution::NonFinite) {
                        verdict.max_error = verdict.max_error.max(comparison.max_error);
                    }
                    if let Some((own_severity, element)) = comparison.worst
                        && (verdict.worst.is_none() || own_severity > severity)
                    {
                        severity = own_severity;
                        verdict.status = MeasurementStatus::Wrong;
                        verdict.reason = Some(format!("{element}, on {case}"));
                        verdict.worst = Some(element);
                    }
                }
            }
        }
        verdict
    }
}

impl std::fmt::Display for AccuracyCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inputs of distribution {} and seed {}", self.distribution, self.seed)
    }
}

impl AccuracyCase {
    /// Runs a path on outputs with one poison and then with another.
    fn run_twice(&self, path: &mut dyn VerifiedPath) -> Result<[Vec<DenseTensor>; 2], String> {
        let mut run = |index: usize| {
            let mut outputs: Vec<DenseTensor> = self.expected.iter().map(|expected| expected.poisoned(index)).collect();
            path.run(&self.inputs, &mut outputs)?;
            let is_like = |(found, expected): (&DenseTensor, &ExpectedTensor)| {
                let definition = &expected.definition;
                found.dtype == definition.dtype
                    && found.extents == definition.extents
                    && found.bits.len() == definition.bits.len()
            };
            let is_complete = outputs.len() == self.expected.len() && outputs.iter().zip(&self.expected).all(is_like);
            if is_complete { Ok(outputs) } else { Err("an output has another type or other extents".to_owned()) }
        };
        Ok([run(0)?, run(1)?])
    }
}

/// Returns the operations of one evaluation.
fn count_operations(graph: &Graph) -> Result<u64, GraphError> {
    let graph = decompose(graph)?;
    let mut total = 0u64;
    for value in &graph.values {
        let TensorDef::Op { op, operands, attributes } = &value.def else { continue };
        let types: Vec<_> =
            operands.iter().filter_map(|operand| graph.value(*operand)).map(|operand| operand.ty.clone()).collect();
        let elements = value.ty.shape.n_elements();
        let (Some(cost), Some(elements)) = (op.cost(&types, &attributes.0, &value.ty), elements) else {
            return Err(GraphError::Evaluation(format!("`{}` has unknown extents", op.name())));
        };
        total = total.saturating_add(cost.flops / op.flops_per_element().max(1)).saturating_add(elements);
    }
    Ok(total)
}

/// Returns the first domain in which most results are finite, or the one in which the most are.
fn choose_domain(graph: &Graph, seed: u64) -> Result<InputDomain, GraphError> {
    let mut best = (0.0, InputDomain::Reals);
    for domain in InputDomain::ALL {
        let inputs = make_inputs(graph, InputDistribution::Normal, domain, seed)?;
        let numbers: Vec<f64> = golden_outputs(graph, &inputs)?.iter().flat_map(DenseTensor::numbers).collect();
        let n_finite = numbers.iter().filter(|number| number.is_finite()).count();
        let share = if numbers.is_empty() { 1.0 } else { n_finite as f64 / numbers.len() as f64 };
        if share > best.0 {
            best = (share, domain);
        }
        if share > 0.9 {
            break;
        }
    }
    Ok(best.1)
}
