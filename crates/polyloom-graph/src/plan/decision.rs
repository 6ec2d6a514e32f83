//! Says why a plan is as it is: the estimates of each choice, for people.
//!
//! The choices are read off the drafts after they have been made, so that planning itself keeps no record. Bytes are those
//! of elements that are moved once; operations are those of the op table.

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source};
use super::group::{DraftSpace, KernelDraft};
use super::reduction::RowRange;
use super::share::{self, shared_expressions};
use super::spill::{self, expressions_of_passes};
use super::translate::{StoredKind, TranslatedGraph};
use super::{FusionPlan, KernelGrid, PlanOptions, drafts_of};
use crate::error::GraphError;
use crate::graph::{Graph, TensorDef};
use crate::layout::Layout;
use rustc_hash::FxHashSet;
use std::fmt;

/// A plan with the estimates of its choices.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanExplanation {
    /// The kernels in the order in which they run.
    pub kernels: Vec<KernelSummary>,
    /// The choices.
    pub decisions: Vec<PlanDecision>,
    /// The bytes that the ops would read and write one by one.
    pub n_bytes_by_op: u64,
}

impl PlanExplanation {
    /// Returns the number of kernels, with the bytes that they move and those that the ops would move one by one.
    pub fn summary(&self) -> String {
        let n_bytes = self.kernels.iter().map(|kernel| kernel.n_bytes).sum();
        let ending = if self.kernels.len() == 1 { "" } else { "s" };
        let (moved, by_op) = (ByteCount(n_bytes), ByteCount(self.n_bytes_by_op));
        format!("{} kernel{ending}, {moved} moved; op by op {by_op}", self.kernels.len())
    }
}

/// Describes one kernel of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelSummary {
    /// Its name, which tells the ops.
    pub name: String,
    /// Its threads.
    pub grid: KernelGrid,
    /// The bytes that it reads and writes, if each is moved once.
    pub n_bytes: u64,
}

/// A choice of a plan with the two costs that it compares.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanDecision {
    /// One kernel computes several stored values.
    Together {
        /// The kernel.
        kernel: usize,
        /// The ops that give the values.
        values: Vec<&'static str>,
        /// The bytes that it moves.
        n_bytes: u64,
        /// The bytes that a kernel for each value would move.
        n_bytes_apart: u64,
    },
    /// Two kernels are not one, although that would move less.
    Apart {
        /// The earlier kernel.
        first: usize,
        /// The later kernel.
        second: usize,
        /// Says why they are apart.
        reason: &'static str,
        /// The bytes that both move.
        n_bytes: u64,
        /// The bytes that one kernel would move.
        n_bytes_together: u64,
    },
    /// Several kernels need an expression.
    ForKernels {
        /// The op that gives it.
        value: &'static str,
        /// True if one stores it and the others load it.
        is_stored: bool,
        /// The operations that computing an element takes.
        n_operations: u64,
    },
    /// Several passes of a kernel need an expression.
    ForPasses {
        /// The op that gives it.
        value: &'static str,
        /// The kernel.
        kernel: usize,
        /// True if one pass stores it and the others load it.
        is_stored: bool,
        /// The operations that computing an element takes.
        n_operations: u64,
    },
}

/// Explains the plan of a graph.
///
/// # Errors
///
/// As [`super::plan`].
pub fn explain(graph: &Graph, inputs: &[Layout], options: &PlanOptions) -> Result<PlanExplanation, GraphError> {
    let mut decisions = Vec::new();
    let (mut translated, drafts) = drafts_of(graph, inputs, options, |before, drafts| {
        let mut ids: Vec<ExpressionId> = shared_expressions(before, drafts, 1).into_iter().collect();
        ids.sort_unstable();
        for id in ids {
            let (value, n_operations) = (name_of(&before.arena, id), before.arena.flops(id));
            let is_stored = n_operations >= share::MIN_FLOPS;
            decisions.push(PlanDecision::ForKernels { value, is_stored, n_operations });
        }
    })?;
    for (kernel, draft) in drafts.iter().enumerate() {
        for (id, ..) in expressions_of_passes(&translated.arena, draft, 1) {
            let (value, n_operations) = (name_of(&translated.arena, id), translated.arena.flops(id));
            let is_stored = n_operations >= spill::MIN_FLOPS;
            decisions.push(PlanDecision::ForPasses { value, kernel, is_stored, n_operations });
        }
    }
    let spills: Vec<_> = drafts.iter().map(|draft| spill::spill(&mut translated, draft)).collect();
    let plan = super::assemble::assemble(&translated, &drafts, &spills, options);
    // A draft without elements, or whose results nobody reads, has no kernel.
    if plan.kernels.len() == drafts.len() {
        decisions.extend(merge_decisions(&translated, &drafts));
    } else {
        decisions.clear();
    }
    Ok(PlanExplanation { kernels: summaries(&plan), decisions, n_bytes_by_op: bytes_by_op(graph) })
}

fn summaries(plan: &FusionPlan) -> Vec<KernelSummary> {
    let summary = |kernel: &super::PlanKernel| KernelSummary {
        name: kernel.body.name(),
        grid: kernel.grid.clone(),
        n_bytes: kernel.n_bytes,
    };
    plan.kernels.iter().map(summary).collect()
}

fn bytes_by_op(graph: &Graph) -> u64 {
    let bytes = |id| {
        let ty = graph.value(id).map(|value| &value.ty);
        ty.map_or(0, |ty| {
            let n: u64 = ty.shape.as_static().map_or(0, |extents| extents.iter().product());
            n * u64::from(ty.dtype.bytes())
        })
    };
    let ops = graph.iter().filter_map(|(id, value)| match &value.def {
        TensorDef::Op { op, operands, .. } if !op.info().is_view() => Some((id, operands)),
        _ => None,
    });
    ops.map(|(id, operands)| bytes(id) + operands.iter().map(|&operand| bytes(operand)).sum::<u64>()).sum()
}

/// A stored value of a draft with what it is computed from.
struct StoredPart {
    stored: u32,
    name: &'static str,
    roots: Vec<ExpressionId>,
}

fn parts_of(arena: &ExpressionArena, draft: &KernelDraft) -> Vec<StoredPart> {
    let reductions = draft.reductions.iter().map(|reduction| StoredPart {
        stored: reduction.stored,
        name: reduction.op.name(),
        roots: reduction.operands.clone(),
    });
    let stores = draft.stores.iter().map(|store| StoredPart {
        stored: store.stored,
        name: name_of(arena, store.value),
        roots: vec![store.value],
    });
    reductions.chain(stores).collect()
}

fn merge_decisions(graph: &TranslatedGraph, drafts: &[KernelDraft]) -> Vec<PlanDecision> {
    let parts: Vec<Vec<StoredPart>> = drafts.iter().map(|draft| parts_of(&graph.arena, draft)).collect();
    let all: Vec<&StoredPart> = parts.iter().flatten().collect();
    let bytes: Vec<u64> = parts.iter().map(|own| bytes_of(graph, &all, &own.iter().collect::<Vec<_>>())).collect();
    let mut decisions = Vec::new();
    for (kernel, own) in parts.iter().enumerate() {
        if own.len() > 1 {
            let n_bytes_apart = own.iter().map(|part| bytes_of(graph, &all, &[part])).sum();
            let values = own.iter().map(|part| part.name).collect();
            decisions.push(PlanDecision::Together { kernel, values, n_bytes: bytes[kernel], n_bytes_apart });
        }
        let saved = |first: usize| {
            let both: Vec<&StoredPart> = parts[first].iter().chain(own).collect();
            (bytes[first] + bytes[kernel]).saturating_sub(bytes_of(graph, &all, &both))
        };
        // The kernel with which being one would move the least.
        let best = (0..kernel).map(|first| (saved(first), std::cmp::Reverse(first))).max();
        if let Some((saved @ 1.., std::cmp::Reverse(first))) = best {
            let n_bytes = bytes[first] + bytes[kernel];
            let reason = reason_of(&drafts[first], &drafts[kernel]);
            let n_bytes_together = n_bytes - saved;
            decisions.push(PlanDecision::Apart { first, second: kernel, reason, n_bytes, n_bytes_together });
        }
    }
    decisions
}

/// Returns the bytes that a kernel moves that computes these parts: what it loads from elsewhere, and stores for others.
fn bytes_of(graph: &TranslatedGraph, all: &[&StoredPart], parts: &[&StoredPart]) -> u64 {
    let own: FxHashSet<u32> = parts.iter().map(|part| part.stored).collect();
    let roots = |parts: &[&StoredPart]| -> Vec<ExpressionId> {
        parts.iter().flat_map(|part| part.roots.iter().copied()).collect()
    };
    let mut loaded: FxHashSet<(Source, Layout)> = FxHashSet::default();
    let mut n_bytes = 0;
    graph.arena.visit(&roots(parts), |id| {
        let (source, layout, n) = match &graph.arena.get(id).kind {
            ExpressionKind::Load(source, layout) => (*source, layout, 1),
            ExpressionKind::Gather { source, layout, .. } => (*source, layout, 1),
            ExpressionKind::Combined { source, layout, n, .. } => (Source::Stored(*source), layout, *n),
            _ => return,
        };
        let is_own = matches!(source, Source::Stored(stored) if own.contains(&stored));
        if !is_own && loaded.insert((source, layout.clone())) {
            let axes = layout.extents.iter().zip(&layout.strides).filter(|&(_, &stride)| stride != 0);
            n_bytes += n * axes.map(|(extent, _)| extent).product::<u64>() * u64::from(graph.arena.dtype(id).bytes());
        }
    });
    let others: Vec<&StoredPart> = all.iter().copied().filter(|part| !own.contains(&part.stored)).collect();
    let mut read: FxHashSet<u32> = FxHashSet::default();
    graph.arena.visit(&roots(&others), |id| match &graph.arena.get(id).kind {
        ExpressionKind::Load(Source::Stored(stored), _)
        | ExpressionKind::Gather { source: Source::Stored(stored), .. }
        | ExpressionKind::Combined { source: stored, .. } => {
            read.insert(*stored);
        }
        _ => {}
    });
    for part in parts {
        let value = &graph.stored[part.stored as usize];
        if value.is_output || read.contains(&part.stored) {
            let share = match &value.kind {
                // A part of a value that is assembled of several.
                StoredKind::Assembled { parts, .. } => parts.len().max(1) as u64,
                _ => 1,
            };
            n_bytes += value.extents.iter().product::<u64>() * u64::from(value.dtype.bytes()) / share;
        }
    }
    n_bytes
}

/// Returns what keeps the second kernel from being part of the first.
fn reason_of(first: &KernelDraft, second: &KernelDraft) -> &'static str {
    let has_parts = |space: &DraftSpace| matches!(space, DraftSpace::Rows(rows) if rows.range != RowRange::Whole);
    match (&first.space, &second.space) {
        (first, second) if has_parts(first) || has_parts(second) => "rows are combined in parts first",
        (DraftSpace::Scan(_), _) | (_, DraftSpace::Scan(_)) => "a scan, or a sum by indices, is a kernel of its own",
        (DraftSpace::Sort(..), _) | (_, DraftSpace::Sort(..)) => "a step of a sort is a kernel of its own",
        (DraftSpace::Rows(a), DraftSpace::Rows(b)) if a != b => "they go over other rows",
        (DraftSpace::Each(a), DraftSpace::Each(b)) if a != b => "they go over other elements",
        (DraftSpace::Each(_), DraftSpace::Rows(_)) | (DraftSpace::Rows(_), DraftSpace::Each(_)) => {
            "one goes over rows, the other over elements"
        }
        _ => "a thread would read what another computes, or the kernel would be too large",
    }
}

fn name_of(arena: &ExpressionArena, id: ExpressionId) -> &'static str {
    match &arena.get(id).kind {
        ExpressionKind::Apply(op, _) | ExpressionKind::Random(op, ..) | ExpressionKind::Combined { op, .. } => {
            op.name()
        }
        ExpressionKind::Gather { .. } => "gather",
        ExpressionKind::Place(_) => "iota",
        _ => "copy",
    }
}

impl fmt::Display for KernelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.name)?;
        match &self.grid {
            KernelGrid::Threads(extents) => {
                let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
                write!(f, "{} threads", extents.join(" × "))?;
            }
            KernelGrid::Blocks { n_blocks, n_threads } => write!(f, "{n_blocks} blocks of {n_threads} threads")?,
        }
        write!(f, ", moves {}", ByteCount(self.n_bytes))
    }
}

impl fmt::Display for PlanDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanDecision::Together { kernel, values, n_bytes, n_bytes_apart } => {
                let (together, apart) = (ByteCount(*n_bytes), ByteCount(*n_bytes_apart));
                write!(f, "{} together in kernel {kernel}: {together}, apart {apart}", values.join(", "))
            }
            PlanDecision::Apart { first, second, reason, n_bytes, n_bytes_together } => {
                let (apart, together) = (ByteCount(*n_bytes), ByteCount(*n_bytes_together));
                write!(f, "kernel {second} apart from kernel {first}: {apart}, together {together}, but {reason}")
            }
            PlanDecision::ForKernels { value, is_stored, n_operations } => {
                let choice = if *is_stored { "stored for several kernels" } else { "computed by each kernel" };
                write!(
                    f,
                    "{value} {choice}: {}, a store and loads count {}",
                    OperationCount(*n_operations),
                    share::MIN_FLOPS
                )
            }
            PlanDecision::ForPasses { value, kernel, is_stored, n_operations } => {
                let choice = if *is_stored { "stored for several passes" } else { "computed in each pass" };
                write!(f, "{value} {choice} of kernel {kernel}: {}, ", OperationCount(*n_operations))?;
                write!(f, "a store and loads count {}", spill::MIN_FLOPS)
            }
        }
    }
}

/// The operations that an element takes.
struct OperationCount(u64);

impl fmt::Display for OperationCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operation{} an element", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// A number of bytes in three digits or four.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n @ 0..10_000 => write!(f, "{n} B"),
            n @ 10_000..1_000_000 => write!(f, "{:.1} kB", n as f64 / 1e3),
            n @ 1_000_000..1_000_000_000 => write!(f, "{:.1} MB", n as f64 / 1e6),
            n => write!(f, "{:.1} GB", n as f64 / 1e9),
        }
    }
}
