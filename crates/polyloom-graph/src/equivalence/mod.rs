//! Equivalence: are two graphs equal over the real numbers?
//!
//! [`Graph::equivalent`] answers yes with the steps of a proof, no with an input on which the graphs differ, or unknown with
//! the limit that was hit. It asks in turn, the cheapest first:
//!
//! 1. Are the canonical forms the same, of bits or of the mathematics ([`crate::canonical`])?
//! 2. Do the graphs differ on random inputs ([`trial`]), in `f64` by the evaluator, by more than rounding explains?
//! 3. Do laws over the real numbers ([`law`]) lead from one to the other ([`saturate`])? An e-graph holds all forms that they
//!    lead to. Sums and products in it are flat and ordered, by the rules that canonical forms are made by, so that no law of
//!    commutativity or associativity multiplies them.
//!
//! A law says where it holds. What is proved holds where both graphs are defined and every law that was used is; trials come
//! before a proof, so that graphs that differ where they can be compared are never called equal. How much floats may differ is
//! measured on the trials' inputs, in the types of the graph ([`FloatDeviation`]).
//!
//! Design: `docs/design/identity.md`.

mod egraph;
mod extract;
pub mod law;
mod proof;
mod saturate;
mod trial;

pub use extract::{TermCost, best_variant};
pub use proof::ProofStep;
pub use trial::{Counterexample, FloatDeviation};

use crate::canonical::{CanonicalGraph, IdentityOptions, IdentityStrength, canonicalise};
use crate::error::GraphError;
use crate::graph::{Graph, TensorType};
use std::time::Duration;
use trial::Trial;

/// The bounds of one question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EquivalenceLimits {
    /// The most nodes of the e-graph.
    pub nodes: usize,
    /// The most rounds of laws.
    pub iterations: usize,
    /// The most time that laws are applied for. What was proved is gone through once more for its steps, which takes about as
    /// long again.
    pub time: Duration,
    /// The random inputs of each distribution.
    pub trials: usize,
    /// The most elements that a trial computes; graphs of larger tensors are not tried.
    pub elements: u64,
}

impl Default for EquivalenceLimits {
    fn default() -> EquivalenceLimits {
        EquivalenceLimits {
            nodes: 10_000,
            iterations: 30,
            time: Duration::from_millis(50),
            trials: 1,
            elements: 20_000,
        }
    }
}

/// The limit that ended a search without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EquivalenceLimit {
    /// No law leads further.
    Saturated,
    /// [`EquivalenceLimits::nodes`].
    Nodes,
    /// [`EquivalenceLimits::iterations`].
    Iterations,
    /// [`EquivalenceLimits::time`].
    Time,
    /// [`EquivalenceLimits::elements`], or inputs on which nothing could be compared: a proof without a trial is no answer.
    Trials,
}

/// The answer to whether two graphs are equal over the real numbers.
#[derive(Clone, PartialEq, Debug)]
pub enum Equivalence {
    /// They are, where both are defined.
    Equal {
        /// The steps that lead from one graph to the other; none if their canonical forms are the same.
        proof: Vec<ProofStep>,
        /// True if they have the same bits on every input.
        has_same_bits: bool,
        /// How much their results differ in their types; `None` if no trial was needed or possible.
        deviation: Option<FloatDeviation>,
    },
    /// They differ on an input.
    Different(Box<Counterexample>),
    /// They take other inputs or give other types, which a sentence says.
    Incomparable(String),
    /// Neither was found.
    Unknown(EquivalenceLimit),
}

impl Equivalence {
    /// Returns true if the graphs are equal.
    pub fn is_equal(&self) -> bool {
        matches!(self, Equivalence::Equal { .. })
    }
}

impl Graph {
    /// Says whether another graph is equal to this one over the real numbers.
    ///
    /// # Errors
    ///
    /// Those of [`canonicalise`], which verified graphs do not meet.
    ///
    /// ```
    /// use polyloom_graph::equivalence::EquivalenceLimits;
    /// use polyloom_graph::parse_graph;
    /// use std::time::Duration;
    ///
    /// let limits = EquivalenceLimits { time: Duration::from_secs(60), ..Default::default() };
    /// let inputs = "%a = input \"a\" : f32[4]\n%b = input \"b\" : f32[4]\n%c = input \"c\" : f32[4]\n";
    /// let graph = |body: &str| parse_graph(&format!("{inputs}{body}\nreturn %r")).unwrap();
    /// let factored = graph("%s = add %a, %b\n%r = multiply %s, %c");
    /// let expanded = graph("%p = multiply %a, %c\n%q = multiply %b, %c\n%r = add %p, %q");
    /// let other = graph("%p = multiply %a, %c\n%r = add %p, %b");
    /// assert!(factored.equivalent(&expanded, limits)?.is_equal());
    /// assert!(!factored.equivalent(&other, limits)?.is_equal());
    /// # Ok::<(), polyloom_graph::GraphError>(())
    /// ```
    pub fn equivalent(&self, other: &Graph, limits: EquivalenceLimits) -> Result<Equivalence, GraphError> {
        if let Some(reason) = difference_of_interfaces(self, other) {
            return Ok(Equivalence::Incomparable(reason));
        }
        let forms = |strength| -> Result<[CanonicalGraph; 2], GraphError> {
            let options = IdentityOptions::of(strength);
            Ok([canonicalise(self, options)?, canonicalise(other, options)?])
        };
        let [a, b] = forms(IdentityStrength::Bits)?;
        if a.hash() == b.hash() {
            return Ok(Equivalence::Equal { proof: Vec::new(), has_same_bits: true, deviation: None });
        }
        let [a, b] = forms(IdentityStrength::Mathematics)?;
        let trial = Trial::run(self, other, limits);
        if let Trial::Different(counterexample) = trial {
            return Ok(Equivalence::Different(counterexample));
        }
        let equal = |proof| {
            let deviation = trial::measure(self, other, limits);
            Equivalence::Equal { proof, has_same_bits: false, deviation }
        };
        if a.hash() == b.hash() {
            return Ok(equal(Vec::new()));
        }
        match saturate::prove(&a, &b, limits) {
            Ok(_) if trial == Trial::Nothing => Ok(Equivalence::Unknown(EquivalenceLimit::Trials)),
            Ok(proof) => Ok(equal(proof)),
            Err(limit) => Ok(Equivalence::Unknown(limit)),
        }
    }
}

/// Says what differs between the types that graphs take and give.
fn difference_of_interfaces(a: &Graph, b: &Graph) -> Option<String> {
    let inputs = |graph: &Graph| graph.inputs().map(|(_, ty)| ty.clone()).collect::<Vec<TensorType>>();
    let outputs = |graph: &Graph| {
        graph.outputs.iter().filter_map(|&output| graph.value(output)).map(|value| value.ty.clone()).collect::<Vec<_>>()
    };
    let lists = [("inputs", inputs(a), inputs(b)), ("outputs", outputs(a), outputs(b))];
    lists.into_iter().find(|(_, a, b)| a != b).map(|(what, a, b)| {
        let text = |types: Vec<TensorType>| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!("the {what} are {} and {}", text(a), text(b))
    })
}
