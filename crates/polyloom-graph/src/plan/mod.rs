//! Plans: the few kernels that compute a graph, and the buffers that they work on.
//!
//! ```text
//! Graph ── decompose ──► expression DAG and stored values ──► kernel drafts ──► KernelBody, FusionPlan
//!                        (translate/, expression.rs)        (group.rs)        (assemble/)
//! ```
//!
//! Views become layouts: a view of an elementwise value is the elementwise value of views, down to what is loaded. A value
//! is stored where it is an output, where its elements are combined, or where storing costs less than computing again.
//! Kernels are then the stored values that one pass over the same elements gives, or several passes over the same rows.
//!
//! A plan is made for known extents. What a kernel computes is a [`KernelBody`], which has extents and strides as
//! parameters, so that graphs of other sizes have equal bodies and share their code.
//!
//! Design: `docs/design/fusion.md`.

mod assemble;
mod body;
mod decision;
mod emit;
mod expression;
mod group;
mod merge;
mod options;
mod reduction;
mod reuse;
mod share;
mod sort;
mod spill;
mod staged;
mod tile;
mod translate;

pub use body::{KernelBody, TunableForm};
pub use decision::{KernelSummary, PlanDecision, PlanExplanation, explain};
pub use options::PlanOptions;
pub use tile::TileShape;

use crate::decompose::decompose;
use crate::error::GraphError;
use crate::graph::{Graph, TensorId};
use crate::layout::Layout;
use group::KernelDraft;
use polyloom_ir::Scalar;
use std::sync::Arc;
use translate::TranslatedGraph;

/// The kernels that compute a graph, in order, over buffers.
#[derive(Clone, Debug)]
pub struct FusionPlan {
    /// The buffers.
    pub buffers: Vec<PlanBuffer>,
    /// The kernels, in the order in which they run.
    pub kernels: Vec<PlanKernel>,
    /// The outputs of the graph.
    pub outputs: Vec<PlanOutput>,
}

/// A buffer of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanBuffer {
    /// The type of its elements.
    pub dtype: Scalar,
    /// The number of its elements; of an input's, nothing is said.
    pub n_elements: u64,
    /// Whose it is.
    pub kind: BufferKind,
}

/// The owner of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferKind {
    /// The memory of an input, which is read alone.
    Input(usize),
    /// New memory that outlives the run, because outputs lie in it.
    Output,
    /// New memory that is free after the run.
    Temporary,
}

/// One launch of a plan.
#[derive(Clone, Debug)]
pub struct PlanKernel {
    /// Says what it computes.
    pub body: Arc<KernelBody>,
    /// Its threads.
    pub grid: KernelGrid,
    /// Its arguments, in the order of the body's parameters.
    pub args: Vec<PlanArg>,
    /// The bytes that it reads and writes, if each is moved once.
    pub n_bytes: u64,
}

/// The threads of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelGrid {
    /// So many threads along each axis, at most four axes.
    Threads(Vec<u64>),
    /// Blocks of threads that work together.
    Blocks {
        /// The number of blocks.
        n_blocks: u64,
        /// The number of threads of each.
        n_threads: u32,
    },
}

/// An argument of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanArg {
    /// A part of a buffer, as an array of one axis without gaps.
    Array {
        /// The buffer's place in [`FusionPlan::buffers`].
        buffer: usize,
        /// Where the part begins, in elements from the buffer's, or the input's, element 0. It may be negative for inputs.
        offset: i64,
        /// The number of elements.
        n_elements: u64,
    },
    /// A number.
    Scalar {
        /// Its type.
        dtype: Scalar,
        /// Its bits, zero-extended.
        bits: u64,
    },
    /// A Python number that is given at each run, converted to a type.
    Number {
        /// Its place among those that are given.
        index: u32,
        /// The type.
        dtype: Scalar,
    },
}

/// An output of a graph: a part of a buffer, which outputs that are views of each other share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanOutput {
    /// The buffer's place in [`FusionPlan::buffers`].
    pub buffer: usize,
    /// Says where its elements lie.
    pub layout: Layout,
}

/// Plans how a graph is computed, given where the elements of its inputs lie. An output is new memory, unless it is a view.
///
/// # Errors
///
/// [`GraphError::Invalid`] if an extent is a symbol or the layouts are not those of the inputs, and those of
/// [`crate::decompose`].
pub fn plan(graph: &Graph, inputs: &[Layout], options: &PlanOptions) -> Result<FusionPlan, GraphError> {
    let (mut translated, drafts) = drafts_of(graph, inputs, options, |_, _| {})?;
    let spills: Vec<_> = drafts.iter().map(|draft| spill::spill(&mut translated, draft)).collect();
    Ok(assemble::assemble(&translated, &drafts, &spills, options))
}

/// Drafts the kernels of a graph. `look` sees those before anything is stored because several compute it.
fn drafts_of(
    graph: &Graph,
    inputs: &[Layout],
    options: &PlanOptions,
    look: impl FnOnce(&TranslatedGraph, &[KernelDraft]),
) -> Result<(TranslatedGraph, Vec<KernelDraft>), GraphError> {
    let simple = decompose(graph)?;
    let mut translated = translate::translate(&simple, inputs, options)?;
    let mut drafts = group::group(&mut translated);
    look(&translated, &drafts);
    if let Some(shared) = share::find_shared(&translated, &drafts) {
        translated = share::store_shared(translated, &shared);
        drafts = group::group(&mut translated);
    }
    Ok((translated, drafts))
}

/// Returns the error for a graph that cannot be planned.
fn unplannable(value: TensorId, reason: impl Into<String>) -> GraphError {
    GraphError::Invalid { value, reason: reason.into() }
}
