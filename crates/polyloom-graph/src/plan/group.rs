//! Groups stored values to kernels: each joins an earlier kernel over the same elements if that may compute it.
//!
//! A value may join a kernel that computes a value it reads, if each thread reads only what it has computed itself, or a
//! kernel that reads an input that it reads too. Values are looked at in the order of the graph, so that a kernel never
//! waits for a later one.

use super::expression::{ExpressionArena, ExpressionId, ExpressionKind, Source, ViewMap};
use super::reduction::{ReductionSpace, RowForm, RowRange};
use super::sort::{SortOrder, SortStep, sort_steps};
use super::translate::{ScatterTarget, StoredKind, TranslatedGraph};
use crate::layout::Layout;
use crate::op::TensorOp;
use rustc_hash::{FxHashMap, FxHashSet};

/// The most arrays of a kernel.
const MAX_ARRAYS: usize = 24;
/// The most expressions of a kernel.
const MAX_EXPRESSIONS: usize = 160;

/// The elements that the threads of a kernel go over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DraftSpace {
    /// Each by itself.
    Each(Vec<u64>),
    /// Rows.
    Rows(ReductionSpace),
    /// Rows along the last axis, each element from those before it.
    Scan(Vec<u64>),
    /// Rows, by their number and length, whose keys a step of a sorting network exchanges in place.
    Sort([u64; 2], SortStep),
}

/// A kernel under construction.
#[derive(Clone, Debug)]
pub(super) struct KernelDraft {
    pub(super) space: DraftSpace,
    pub(super) stores: Vec<DraftStore>,
    pub(super) reductions: Vec<DraftReduction>,
}

/// A value that a kernel stores.
#[derive(Clone, Debug)]
pub(super) struct DraftStore {
    pub(super) stored: u32,
    /// The expression, over the axes of the space.
    pub(super) value: ExpressionId,
    /// Says where it is stored, over the axes of the space.
    pub(super) layout: Layout,
    /// True if it is the same for all elements of a row.
    pub(super) is_of_row: bool,
    pub(super) pass: usize,
    /// Says which elements it is added to, rather than stored in one.
    pub(super) target: Option<ScatterTarget>,
}

/// A reduction, or scan, of a kernel.
#[derive(Clone, Debug)]
pub(super) struct DraftReduction {
    pub(super) stored: u32,
    pub(super) op: TensorOp,
    pub(super) operands: Vec<ExpressionId>,
    pub(super) pass: usize,
    /// Says where the result is stored, over the axes of the space.
    pub(super) layout: Layout,
}

impl DraftSpace {
    pub(super) fn outer(&self) -> &[u64] {
        match self {
            DraftSpace::Each(extents) => extents,
            DraftSpace::Rows(space) => &space.outer,
            DraftSpace::Scan(extents) => &extents[..extents.len() - 1],
            DraftSpace::Sort(extents, _) => &extents[..1],
        }
    }

    pub(super) fn inner(&self) -> &[u64] {
        match self {
            DraftSpace::Each(_) => &[],
            DraftSpace::Rows(space) => &space.inner,
            DraftSpace::Scan(extents) => &extents[extents.len() - 1..],
            DraftSpace::Sort(extents, _) => &extents[1..],
        }
    }
}

/// Groups the stored values of a graph.
pub(super) fn group(graph: &mut TranslatedGraph) -> Vec<KernelDraft> {
    let mut grouper = Grouper {
        drafts: Vec::new(),
        sizes: Vec::new(),
        draft_of: vec![usize::MAX; graph.stored.len()],
        users: FxHashMap::default(),
    };
    for index in 0..graph.stored.len() {
        grouper.place(graph, index as u32);
    }
    grouper.drafts
}

struct Grouper {
    drafts: Vec<KernelDraft>,
    /// The sizes of the drafts.
    sizes: Vec<DraftSize>,
    /// The kernel that computes each stored value, or the last of its parts.
    draft_of: Vec<usize>,
    /// The kernels that read or compute something, in ascending order.
    users: FxHashMap<Source, Vec<usize>>,
}

/// The size of a kernel, which has limits.
#[derive(Clone, Copy)]
struct DraftSize {
    n_expressions: usize,
    n_arrays: usize,
}

/// A stored value, or a part of one, that is to join a kernel.
struct UnplacedValue {
    stored: u32,
    kind: UnplacedKind,
}

enum UnplacedKind {
    Elementwise { value: ExpressionId, layout: Layout, extents: Vec<u64> },
    Reduction { op: TensorOp, operands: Vec<ExpressionId>, space: ReductionSpace },
}

impl Grouper {
    fn place(&mut self, graph: &mut TranslatedGraph, stored: u32) {
        let value = graph.stored[stored as usize].clone();
        let placed = match value.kind {
            StoredKind::Elementwise(expression) => {
                let layout = Layout::dense(&value.extents);
                let kind = UnplacedKind::Elementwise { value: expression, layout, extents: value.extents };
                self.join_or_begin(graph, &UnplacedValue { stored, kind })
            }
            StoredKind::Reduction { op, operands, space } => self
                .join_or_begin(graph, &UnplacedValue { stored, kind: UnplacedKind::Reduction { op, operands, space } }),
            StoredKind::Scan { op, operands, extents, layout } => {
                let reduction = DraftReduction { stored, op, operands, pass: 0, layout };
                let space = DraftSpace::Scan(extents);
                self.push(&graph.arena, KernelDraft { space, stores: Vec::new(), reductions: vec![reduction] })
            }
            StoredKind::Scattered { base, updates, extents, layout, target } => {
                let whole = value.extents;
                let kind = UnplacedKind::Elementwise { value: base, layout: Layout::dense(&whole), extents: whole };
                self.join_or_begin(graph, &UnplacedValue { stored, kind });
                let store =
                    DraftStore { stored, value: updates, layout, is_of_row: false, pass: 0, target: Some(target) };
                let space = DraftSpace::Scan(extents);
                self.push(&graph.arena, KernelDraft { space, stores: vec![store], reductions: Vec::new() })
            }
            StoredKind::Sorted { base, order } => {
                let (whole, n) = (value.extents, order.length(&graph.stored[stored as usize].extents));
                let extents = [whole.iter().product::<u64>() / n.max(1), n];
                let kind = UnplacedKind::Elementwise { value: base, layout: Layout::dense(&whole), extents: whole };
                self.join_or_begin(graph, &UnplacedValue { stored, kind });
                for step in sort_steps(order, n, value.dtype) {
                    let layout = match order {
                        SortOrder::Rows => Layout::dense(&extents),
                        _ => Layout::dense(&[extents[1], extents[0]]).permuted(&[1, 0]),
                    };
                    let sorted =
                        DraftReduction { stored, op: TensorOp::SortKeys, operands: Vec::new(), pass: 0, layout };
                    let space = DraftSpace::Sort(extents, step);
                    self.push(&graph.arena, KernelDraft { space, stores: Vec::new(), reductions: vec![sorted] });
                }
                self.drafts.len() - 1
            }
            StoredKind::Assembled { parts, fill } => {
                let mut place = |graph: &mut TranslatedGraph, value, layout: Layout, least| {
                    let extents = layout.extents.clone();
                    let kind = UnplacedKind::Elementwise { value, layout, extents };
                    self.join_or_begin_from(graph, &UnplacedValue { stored, kind }, least)
                };
                // A part overwrites what fills the rest, and therefore comes later.
                let filled = fill.map(|fill| place(graph, fill, Layout::dense(&value.extents), 0));
                let least = filled.map_or(0, |filled| filled + 1);
                let parts = parts.into_iter().map(|(value, layout)| place(graph, value, layout, least));
                let last = parts.max();
                last.or(filled).unwrap_or(0)
            }
        };
        self.draft_of[stored as usize] = placed;
    }

    fn join_or_begin(&mut self, graph: &mut TranslatedGraph, candidate: &UnplacedValue) -> usize {
        self.join_or_begin_from(graph, candidate, 0)
    }

    fn join_or_begin_from(&mut self, graph: &mut TranslatedGraph, candidate: &UnplacedValue, least: usize) -> usize {
        let roots = candidate.roots();
        let sources = sources_of(&graph.arena, &roots);
        let after = sources.iter().filter_map(|source| match source {
            Source::Stored(stored) => Some(self.draft_of[*stored as usize]),
            Source::Input(_) => None,
        });
        let first = after.max().unwrap_or(0).max(least);
        let users = sources.iter().filter_map(|source| self.users.get(source));
        let mut near: Vec<usize> =
            users.flat_map(|users| &users[users.partition_point(|&user| user < first)..]).copied().collect();
        near.sort_unstable();
        near.dedup();
        for index in near {
            if self.join(graph, index, candidate) {
                self.note_users(index, candidate.stored, sources);
                return index;
            }
        }
        self.push(&graph.arena, candidate.begin())
    }

    /// Begins a kernel, and returns its number.
    fn push(&mut self, arena: &ExpressionArena, draft: KernelDraft) -> usize {
        let index = self.drafts.len();
        let stored = draft.stores.iter().map(|store| store.stored);
        let stored = stored.chain(draft.reductions.iter().map(|reduction| reduction.stored));
        let sources = sources_of(arena, &draft.roots());
        for stored in stored {
            self.note_users(index, stored, sources.iter().copied());
        }
        self.sizes.push(draft.size(arena));
        self.drafts.push(draft);
        index
    }

    /// Notes that a kernel computes a value and reads some others.
    fn note_users(&mut self, index: usize, stored: u32, sources: impl IntoIterator<Item = Source>) {
        for source in sources.into_iter().chain([Source::Stored(stored)]) {
            let users = self.users.entry(source).or_default();
            let place = users.partition_point(|&user| user < index);
            if users.get(place) != Some(&index) {
                users.insert(place, index);
            }
        }
    }

    /// Adds the candidate to a kernel, if it can be one with it.
    fn join(&mut self, graph: &mut TranslatedGraph, index: usize, candidate: &UnplacedValue) -> bool {
        let draft = &mut self.drafts[index];
        if self.sizes[index].n_arrays >= MAX_ARRAYS {
            return false;
        }
        match &candidate.kind {
            UnplacedKind::Elementwise { value, layout, extents } => {
                // What combines in place does so once.
                let is_same_space = matches!(&draft.space, DraftSpace::Each(own) if own == extents);
                if !is_same_space && combines(&graph.arena, *value) {
                    return false;
                }
                let fitted = fit(&mut graph.arena, &draft.space, *value, layout, extents);
                let Some((value, layout, is_of_row)) = fitted else { return false };
                let Some(pass) = draft.pass_of(&graph.arena, &[value]) else { return false };
                let stored = candidate.stored;
                draft.stores.push(DraftStore { stored, value, layout, is_of_row, pass, target: None });
            }
            UnplacedKind::Reduction { op, operands, space } => {
                // Two products would not have their tiles in registers.
                if space.form.is_alone() || !matches!(&draft.space, DraftSpace::Rows(own) if own == space) {
                    return false;
                }
                let Some(pass) = draft.pass_of(&graph.arena, operands) else { return false };
                draft.reductions.push(DraftReduction {
                    stored: candidate.stored,
                    op: *op,
                    operands: operands.clone(),
                    pass,
                    layout: space.result_layout(),
                });
            }
        }
        let size = draft.size(&graph.arena);
        if size.n_expressions > MAX_EXPRESSIONS || size.n_arrays > MAX_ARRAYS {
            match candidate.kind {
                UnplacedKind::Elementwise { .. } => drop(draft.stores.pop()),
                UnplacedKind::Reduction { .. } => drop(draft.reductions.pop()),
            }
            return false;
        }
        self.sizes[index] = size;
        true
    }
}

/// Brings an elementwise value into the space of a kernel, if it is one of its elements or rows.
fn fit(
    arena: &mut ExpressionArena,
    space: &DraftSpace,
    value: ExpressionId,
    layout: &Layout,
    extents: &[u64],
) -> Option<(ExpressionId, Layout, bool)> {
    match space {
        DraftSpace::Each(own) => (own == extents).then(|| (value, layout.clone(), false)),
        DraftSpace::Scan(_) | DraftSpace::Sort(..) => None,
        DraftSpace::Rows(space) if space.range != RowRange::Whole => None,
        DraftSpace::Rows(space) if matches!(space.form, RowForm::Attention(_)) => None,
        DraftSpace::Rows(space) => {
            let all = [&space.outer[..], &space.inner[..]].concat();
            let is_permuted = space.order.len() == extents.len()
                && space.order.iter().zip(&all).all(|(&axis, &extent)| extents[axis] == extent);
            // A thread that goes down a column a second time finds nothing of it in cache.
            if is_permuted && (space.form == RowForm::Loop || space.form.is_alone()) {
                return None;
            }
            if is_permuted {
                let map = ViewMap::Permute(space.order.clone());
                return Some((arena.view(value, &map)?, layout.permuted(&space.order), false));
            }
            let without_ones = |extents: &[u64]| -> Vec<u64> { extents.iter().copied().filter(|&n| n != 1).collect() };
            let result = space.result_extents();
            if without_ones(extents) != without_ones(&result) {
                return None;
            }
            let flat = arena.view(value, &ViewMap::Reshape(result.clone()))?;
            let ordered = arena.view(flat, &ViewMap::Permute(space.outer_order.clone()))?;
            let repeated = arena.view(ordered, &ViewMap::Repeat(space.inner.clone()))?;
            let layout = layout.reshaped(&result)?.permuted(&space.outer_order);
            Some((repeated, layout.repeated(&space.inner), true))
        }
    }
}

impl UnplacedValue {
    fn roots(&self) -> Vec<ExpressionId> {
        match &self.kind {
            UnplacedKind::Elementwise { value, .. } => vec![*value],
            UnplacedKind::Reduction { operands, .. } => operands.clone(),
        }
    }

    fn begin(&self) -> KernelDraft {
        match &self.kind {
            UnplacedKind::Elementwise { value, layout, extents } => KernelDraft {
                space: DraftSpace::Each(extents.clone()),
                stores: vec![DraftStore {
                    stored: self.stored,
                    value: *value,
                    layout: layout.clone(),
                    is_of_row: false,
                    pass: 0,
                    target: None,
                }],
                reductions: Vec::new(),
            },
            UnplacedKind::Reduction { op, operands, space } => KernelDraft {
                reductions: vec![DraftReduction {
                    stored: self.stored,
                    op: *op,
                    operands: operands.clone(),
                    pass: 0,
                    layout: space.result_layout(),
                }],
                space: DraftSpace::Rows(space.clone()),
                stores: Vec::new(),
            },
        }
    }
}

impl KernelDraft {
    /// Returns the expressions that are stored or combined.
    pub(super) fn roots(&self) -> Vec<ExpressionId> {
        let stores = self.stores.iter().map(|store| store.value);
        let indices = self.stores.iter().filter_map(|store| Some(store.target?.index));
        stores
            .chain(indices)
            .chain(self.reductions.iter().flat_map(|reduction| reduction.operands.iter().copied()))
            .collect()
    }

    /// Returns the first pass that can compute expressions; `None` if they read what other threads compute.
    fn pass_of(&self, arena: &ExpressionArena, roots: &[ExpressionId]) -> Option<usize> {
        let mut pass = Some(0);
        let mut need =
            |least: Option<usize>| pass = pass.zip(least).map(|(pass, least): (usize, usize)| pass.max(least));
        arena.visit(roots, |id| match &arena.get(id).kind {
            ExpressionKind::Load(Source::Stored(stored), layout) => {
                if let Some(reduction) = self.reductions.iter().find(|reduction| reduction.stored == *stored) {
                    need((reduction.layout == *layout && self.has_totals()).then_some(reduction.pass + 1));
                } else if self.stores.iter().any(|store| store.stored == *stored) {
                    let own = self.stores.iter().find(|store| store.stored == *stored && store.layout == *layout);
                    need(own.map(|store| store.pass));
                }
            }
            ExpressionKind::Combined { source, .. } | ExpressionKind::Gather { source: Source::Stored(source), .. } => {
                let is_own = self.stores.iter().any(|store| store.stored == *source)
                    || self.reductions.iter().any(|reduction| reduction.stored == *source);
                need((!is_own).then_some(0));
            }
            _ => {}
        });
        pass
    }

    /// Returns true if threads have the results of reductions, rather than parts of them.
    fn has_totals(&self) -> bool {
        matches!(&self.space, DraftSpace::Rows(space) if space.range == RowRange::Whole)
    }

    fn size(&self, arena: &ExpressionArena) -> DraftSize {
        let (mut n_loads, mut n_expressions) = (0, 0);
        arena.visit(&self.roots(), |id| {
            n_expressions += 1;
            n_loads +=
                usize::from(matches!(arena.get(id).kind, ExpressionKind::Load(..) | ExpressionKind::Gather { .. }));
        });
        DraftSize { n_expressions, n_arrays: n_loads + self.stores.len() + self.reductions.len() }
    }
}

fn sources_of(arena: &ExpressionArena, roots: &[ExpressionId]) -> FxHashSet<Source> {
    let mut sources = FxHashSet::default();
    arena.visit(roots, |id| match &arena.get(id).kind {
        ExpressionKind::Load(source, _) | ExpressionKind::Gather { source, .. } => {
            sources.insert(*source);
        }
        ExpressionKind::Combined { source, .. } => {
            sources.insert(Source::Stored(*source));
        }
        _ => {}
    });
    sources
}

/// Returns true if an expression combines stored elements, which one thread does.
pub(super) fn combines(arena: &ExpressionArena, root: ExpressionId) -> bool {
    let mut found = false;
    arena.visit(&[root], |id| found |= matches!(arena.get(id).kind, ExpressionKind::Combined { .. }));
    found
}

/// Returns true if something is computed of stored elements that all elements along an axis share.
pub(super) fn computes_of_rows(arena: &ExpressionArena, roots: &[ExpressionId], axis: usize) -> bool {
    // The map holds what is the same for a row, with whether it has something stored in it.
    let mut of_rows: FxHashMap<ExpressionId, bool> = FxHashMap::default();
    let mut found = false;
    arena.visit(roots, |id| match &arena.get(id).kind {
        ExpressionKind::Load(_, layout) if layout.strides[axis] == 0 => drop(of_rows.insert(id, true)),
        ExpressionKind::Place(layout) if layout.strides[axis] == 0 => drop(of_rows.insert(id, false)),
        ExpressionKind::Constant(_) | ExpressionKind::Count(_) | ExpressionKind::Number(_) => {
            of_rows.insert(id, false);
        }
        ExpressionKind::Apply(_, operands) => {
            let loads: Option<Vec<bool>> = operands.iter().map(|operand| of_rows.get(operand).copied()).collect();
            if let Some(loads) = loads {
                let loads = loads.contains(&true);
                found |= loads;
                of_rows.insert(id, loads);
            }
        }
        _ => {}
    });
    found
}
