//! Subgraphs: places of a graph that compute what a pattern does, up to names, commuted operands and the ways to write a view.
//!
//! A [`Pattern`] is a graph of one output. Its inputs stand for any value: those without axes for one of any shape, others for
//! one of their rank, whose symbols stand for extents. `f64` stands for any float type, so that constants, which are rounded to
//! it, are compared with all their digits. Graph and pattern are both decomposed and brought into the canonical form of the
//! bits, but for the order of products ([`crate::canonical`]); a [`PatternIndex`] holds a graph in it, for any number of
//! patterns. A number of elements of a pattern's symbols matches the constant that it is in a graph of known extents.
//!
//! [`PatternIndex::replace`] puts the pattern's replacement where it was found: mostly the monolithic op whose decomposition
//! the pattern is.
//!
//! Design: `docs/design/identity.md`.

mod matcher;
mod replace;

use crate::canonical::{CanonicalGraph, TermHead, TermId, TermStore, search_form};
use crate::error::GraphError;
use crate::graph::{Graph, TensorId, TensorType};
use crate::op::TensorOp;
use crate::shape::Dim;
use polyloom_ir::Scalar;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A subgraph to look for, and what may take its place.
#[derive(Clone, Debug)]
pub struct Pattern {
    form: CanonicalGraph,
    root: TermId,
    root_op: TensorOp,
    replacement: Graph,
}

impl Pattern {
    /// Makes a pattern of what a graph decomposes into. The graph is its replacement.
    ///
    /// # Errors
    ///
    /// [`GraphError::Evaluation`] if the graph has not one output that is computed, and the errors of decomposition.
    pub fn new(graph: &Graph) -> Result<Pattern, GraphError> {
        Pattern::with_replacement(graph, graph)
    }

    /// Makes a pattern and gives its replacement, which takes the same inputs.
    ///
    /// # Errors
    ///
    /// As [`Pattern::new`].
    pub fn with_replacement(graph: &Graph, replacement: &Graph) -> Result<Pattern, GraphError> {
        let wrong = |reason: &str| GraphError::Evaluation(format!("a pattern {reason}"));
        let form = search_form(graph)?;
        let &[root] = form.outputs() else { return Err(wrong("has one output")) };
        let TermHead::Op(root_op, _) = *form.head(root) else { return Err(wrong("computes something")) };
        if replacement.inputs().count() != graph.inputs().count() || replacement.outputs.len() != 1 {
            return Err(wrong("and its replacement have the same inputs and one output"));
        }
        Ok(Pattern { form, root, root_op, replacement: replacement.clone() })
    }
}

/// A place where a pattern was found, by values of [`PatternIndex::graph`].
#[derive(Clone, PartialEq, Debug)]
pub struct PatternMatch {
    /// The value that the pattern's output is.
    pub root: TensorId,
    /// The values that its inputs are.
    pub inputs: Vec<TensorId>,
    /// The values that are computed within it, the root among them.
    pub inside: Vec<TensorId>,
    bindings: Bindings,
}

/// The meanings of the symbols and the float type of a pattern.
#[derive(Clone, PartialEq, Debug, Default)]
struct Bindings {
    dims: FxHashMap<Arc<str>, Dim>,
    float: Option<Scalar>,
}

/// Says which matches are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatchOverlap {
    /// All.
    All,
    /// None that computes a value that another one does; those that come last in the graph first.
    Disjoint,
}

/// A graph that patterns are looked for in.
#[derive(Clone, Debug)]
pub struct PatternIndex {
    form: CanonicalGraph,
    graph: Graph,
    ids: FxHashMap<TermId, TensorId>,
    by_op: FxHashMap<TensorOp, Vec<TermId>>,
}

impl PatternIndex {
    /// Brings a graph into the form that patterns are looked for in.
    ///
    /// # Errors
    ///
    /// Those of decomposition, which verified graphs do not meet.
    pub fn new(graph: &Graph) -> Result<PatternIndex, GraphError> {
        let form = search_form(graph)?;
        let (builder, ids) = form.restore()?;
        let outputs: Vec<TensorId> = form.outputs().iter().map(|output| ids[output]).collect();
        let mut restored = builder.finish(&outputs)?;
        replace::rename_inputs(&mut restored, graph);
        let mut by_op: FxHashMap<TensorOp, Vec<TermId>> = FxHashMap::default();
        for id in form.order() {
            if let TermHead::Op(op, _) = *form.head(id) {
                by_op.entry(op).or_default().push(id);
            }
        }
        Ok(PatternIndex { form, graph: restored, ids, by_op })
    }

    /// Returns the graph in simple ops, which matches are places of. Its inputs are those of the graph that it was made of.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Finds a pattern.
    ///
    /// ```
    /// use polyloom_graph::parse_graph;
    /// use polyloom_graph::pattern::{MatchOverlap, Pattern, PatternIndex};
    ///
    /// let gelu = Pattern::new(&parse_graph("%x = input \"x\" : f64[]\n%r = gelu %x\nreturn %r").unwrap())?;
    /// let text = "%x = input \"x\" : f32[8]\n%a = multiply %x, 0.7071067811865476\n%b = erf %a\n%c = add 1.0, %b\n\
    ///     %d = multiply 0.5, %x\n%e = multiply %c, %d\n%r = add %e, %x\nreturn %r";
    /// let index = PatternIndex::new(&parse_graph(text).unwrap())?;
    /// let matches = index.find(&gelu, MatchOverlap::Disjoint);
    /// let replaced = index.replace(&matches.iter().map(|found| (&gelu, found)).collect::<Vec<_>>())?;
    /// assert!(replaced.values.len() == 3 && replaced.to_string().contains("= gelu %0, approximate=none : f32[8]"));
    /// # Ok::<(), polyloom_graph::GraphError>(())
    /// ```
    pub fn find(&self, pattern: &Pattern, overlap: MatchOverlap) -> Vec<PatternMatch> {
        let mut taken: FxHashSet<TensorId> = FxHashSet::default();
        let mut found = Vec::new();
        for &candidate in self.by_op.get(&pattern.root_op).into_iter().flatten().rev() {
            let Some(matched) = matcher::match_at(self, pattern, candidate) else { continue };
            if overlap == MatchOverlap::Disjoint {
                if matched.inside.iter().any(|id| taken.contains(id)) {
                    continue;
                }
                taken.extend(&matched.inside);
            }
            found.push(matched);
        }
        found.reverse();
        found
    }

    fn type_of(&self, id: TermId) -> &TensorType {
        self.form.ty(id)
    }
}
