//! Makes kernel bodies and their arguments of drafts: merges axes, names parameters, leaves out stores that nobody reads.

mod buffers;
mod params;

use super::body::{
    BATCH_THREADS, BodyExpression, BodyExpressionKind, BodyExtent, BodyForm, BodyParam, BodyPass, BodyReduction,
    BodySlots, BodyStore, KernelBody, SCAN_THREADS, TOTALS_THREADS, TileParams,
};
use super::expression::{CombineOrder, ExpressionId, ExpressionKind, Source};
use super::group::{DraftReduction, DraftSpace, DraftStore, KernelDraft, combines, computes_of_rows};
use super::merge::MergedAxes;
use super::reduction::{RowForm, is_order_free};
use super::reuse::reuse_buffers;
use super::sort::SortStep;
use super::spill::SpilledExpression;
use super::staged::RowSlots;
use super::tile::VALUE_LANES;
use super::translate::{ScatterTarget, TranslatedGraph};
use super::{FusionPlan, KernelGrid, PlanArg, PlanKernel, PlanOptions, PlanOutput};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::reference::{BLOCK_LENGTH, N_LANES};
use buffers::PlanBuffers;
use params::NumberRole;
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most axes of a launch.
const MAX_THREAD_AXES: usize = 4;
/// The totals from which on a block of threads combines them.
const MIN_TOTALS_OF_BLOCK: u64 = 64;
/// The elements of a worker, a quarter of a multiprocessor, from which on a thread has a batch of them.
const ELEMENTS_OF_WORKER: u64 = 2048;
/// The bytes of a batch of the widest array, which a thread loads at once.
const BATCH_BYTES: u32 = 16;
/// The shortest rows that are cut to batches.
const MIN_BATCHED_ROW: u64 = 512;
/// The most elements of a batch.
const MAX_BATCH: u32 = 8;
/// The most operations of an element of a batch, which all are in the code.
const MAX_BATCHED_OPS: usize = 24;
/// The shortest rows that squares are scanned of.
const MIN_SCAN: u64 = 32;

pub(super) fn assemble(
    graph: &TranslatedGraph,
    drafts: &[KernelDraft],
    spills: &[Vec<SpilledExpression>],
    options: &PlanOptions,
) -> FusionPlan {
    let mut buffers = PlanBuffers::new(graph);
    for (index, draft) in drafts.iter().enumerate() {
        buffers.note_reads(graph, index, draft);
    }
    let outputs = graph
        .outputs
        .iter()
        .map(|(source, layout)| PlanOutput { buffer: buffers.buffer(graph, *source), layout: layout.clone() });
    let outputs = outputs.collect();
    let mut kernels = Vec::new();
    for (index, (draft, spilled)) in drafts.iter().zip(spills).enumerate() {
        let kernel = BodyAssembler::new(graph, draft, index, spilled, &mut buffers, options).assemble(options);
        kernels.extend(kernel);
    }
    reuse_buffers(FusionPlan { buffers: buffers.buffers, kernels, outputs })
}

struct BodyAssembler<'a> {
    graph: &'a TranslatedGraph,
    draft: &'a KernelDraft,
    index: usize,
    spilled: &'a [SpilledExpression],
    buffers: &'a mut PlanBuffers,
    axes: MergedAxes,
    /// Holds the slots in shared memory, if rows wait there.
    slots: Option<RowSlots>,
    /// The form of a kernel over single elements.
    form_of_elements: BodyForm,
    form_of_scan: BodyForm,
    is_wide: bool,
    params: Vec<BodyParam>,
    args: Vec<PlanArg>,
    arrays: FxHashMap<(usize, i64, u64), u16>,
    numbers: FxHashMap<NumberRole, u16>,
    expressions: Vec<BodyExpression>,
    /// The expressions of each pass.
    known: FxHashMap<(ExpressionId, usize), u32>,
}

impl<'a> BodyAssembler<'a> {
    fn new(
        graph: &'a TranslatedGraph,
        draft: &'a KernelDraft,
        index: usize,
        spilled: &'a [SpilledExpression],
        buffers: &'a mut PlanBuffers,
        options: &PlanOptions,
    ) -> BodyAssembler<'a> {
        let mut layouts = draft.layouts(graph);
        layouts.extend(spilled.iter().map(|spilled| spilled.layout.clone()));
        let n_outer = draft.space.outer().len();
        let is_pinned = |axis: usize| match &draft.space {
            DraftSpace::Rows(space) => match space.form {
                RowForm::SplitLane => axis < 2,
                RowForm::SplitBlock => axis + 1 == n_outer,
                RowForm::Product(tile) => axis + 2 >= n_outer && axis < n_outer + tile.n_axes(),
                RowForm::MatrixProduct(_) => axis + 2 >= n_outer && axis < n_outer,
                RowForm::PipelinedProduct(_) => axis + 2 >= n_outer,
                RowForm::Attention(_) => axis + 1 >= n_outer,
                _ => false,
            },
            DraftSpace::Sort(..) => true,
            _ => false,
        };
        let mut axes = MergedAxes::new(draft.space.outer(), draft.space.inner(), &layouts, is_pinned);
        let is_each = matches!(draft.space, DraftSpace::Each(_));
        let transposed = axes.transposed_axis(&layouts);
        let form_on_gpu = match is_each && transposed.is_none() {
            true => form_on_gpu(graph, draft, &axes, &layouts, options),
            false => None,
        };
        let roots = draft.roots();
        if is_each
            && form_on_gpu.is_none()
            && !roots.iter().any(|&root| combines(&graph.arena, root))
            && axes.last_axis().is_some_and(|axis| computes_of_rows(&graph.arena, &roots, axis))
        {
            axes.take_row(&layouts);
        }
        let limit = i64::from(i32::MAX) - BLOCK_LENGTH as i64;
        // Sums of 32 bits, which may wrap, would be made anew for each factor of a product.
        let is_product = matches!(&draft.space, DraftSpace::Rows(space) if space.form.is_alone());
        let is_wide = is_product
            || matches!(draft.space, DraftSpace::Sort(extents, _) if extents.iter().product::<u64>() > limit as u64 / 2)
            || draft.reaches(graph).any(|reach| reach > limit)
            || layouts.iter().any(|layout| {
                layout.place_range().is_some_and(|(least, most)| most - least > limit)
                    || layout.n_elements() > limit as u64
            });
        let form_of_elements = match axes.transposed_axis(&layouts).or(axes.axis_of_narrow_rows()) {
            _ if let Some(form) = form_on_gpu => form,
            // Rows compute once what their elements share, which a grid of two axes cannot.
            _ if !axes.inner.is_empty() => BodyForm::Block { n_levels: 0 },
            Some(row_axis) if options.gpu.is_some() => BodyForm::Squares { row_axis: row_axis as u8 },
            Some(row_axis) => BodyForm::Tiled { row_axis: row_axis as u8 },
            _ if axes.has_short_rows() && !is_wide => BodyForm::Numbered,
            None => BodyForm::Each,
        };
        let goes_along_rows = is_scan_of_rows(draft, &axes);
        let form_of_scan = match options.gpu.is_some() && goes_along_rows {
            true => BodyForm::ScanTiles,
            false => {
                let n_rows: u64 = axes.outer.iter().product();
                BodyForm::Scan { has_few_rows: goes_along_rows && n_rows < FEW_ROWS }
            }
        };
        let slots = RowSlots::find(graph, draft, &axes, spilled, options.gpu);
        BodyAssembler {
            graph,
            draft,
            index,
            spilled,
            buffers,
            axes,
            slots,
            form_of_elements,
            form_of_scan,
            is_wide,
            params: Vec::new(),
            args: Vec::new(),
            arrays: FxHashMap::default(),
            numbers: FxHashMap::default(),
            expressions: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    /// Returns the kernel; nothing if it has no elements.
    fn assemble(mut self, options: &PlanOptions) -> Option<PlanKernel> {
        if self.axes.outer.contains(&0) || self.draft.space.outer().contains(&0) {
            return None;
        }
        let is_sort = matches!(self.draft.space, DraftSpace::Sort(..));
        let is_unread = |reduction: &DraftReduction| !self.buffers.is_needed(self.graph, reduction.stored, self.index);
        if is_sort && self.draft.reductions.iter().all(is_unread) {
            return None;
        }
        let n_passes = self.draft.n_passes();
        let mut passes = vec![BodyPass::default(); n_passes];
        let draft = self.draft;
        for reduction in &draft.reductions {
            let body = self.reduction(reduction, reduction.pass);
            passes[reduction.pass].reductions.push(body);
        }
        for reduction in &draft.reductions {
            if draft.stores_by_itself() || !self.buffers.is_needed(self.graph, reduction.stored, self.index) {
                continue;
            }
            let address = self.address(Source::Stored(reduction.stored), &reduction.layout);
            let value = self.total(reduction);
            passes[reduction.pass + 1].row_stores.push(BodyStore { address, value, target: None });
        }
        for store in &draft.stores {
            if !self.buffers.is_needed(self.graph, store.stored, self.index) {
                continue;
            }
            let value = self.expression(store.value, store.pass);
            let source = Source::Stored(store.stored);
            let store_of = match store.target {
                None => BodyStore { address: self.address(source, &store.layout), value, target: None },
                Some(ScatterTarget { index, n, stride }) => {
                    let index = self.expression(index, store.pass);
                    let address = self.spanning_address(source, &store.layout, n, stride);
                    let n = self.integer(NumberRole::Count(n), n as i64);
                    let stride = self.integer(NumberRole::Distance(stride), stride);
                    BodyStore { address, value, target: Some((index, n, stride)) }
                }
            };
            let pass = &mut passes[store.pass];
            let stores = if store.is_of_row { &mut pass.row_stores } else { &mut pass.element_stores };
            stores.push(store_of);
        }
        for (id, pass, slot) in self.slots.as_ref().map_or_else(Vec::new, |slots| slots.kept.clone()) {
            let value = self.expression(id, pass);
            passes[pass].kept.push((value, slot));
        }
        for spilled in if self.slots.is_none() { self.spilled } else { &[] } {
            let value = self.expression(spilled.expression, spilled.pass);
            let address = self.address(Source::Stored(spilled.stored), &spilled.layout);
            passes[spilled.pass].element_stores.insert(0, BodyStore { address, value, target: None });
        }
        while passes.last().is_some_and(|pass| *pass == BodyPass::default()) {
            passes.pop();
        }
        if passes.is_empty() {
            return None;
        }
        let outer = self.extents_of(0, &self.axes.outer.clone());
        let inner = self.extents_of(self.axes.outer.len(), &self.axes.inner.clone());
        let mut form = self.form();
        let grid = self.grid(form);
        if let BodyForm::Product { tile, params } = &mut form {
            params.n_grouped = self.integer(NumberRole::GroupedTiles, tile.shape.n_grouped.into());
            if tile.is_cut {
                // A piece has so many elements along the first of the axes that are summed over.
                let rest: u64 = self.axes.inner.iter().skip(tile.n_axes() + 1).product();
                let piece = (i64::from(tile.shape.piece) / rest.max(1) as i64).max(1);
                params.piece = self.integer(NumberRole::Piece, piece);
            }
            // Parameters tell these, so that products of other sizes have equal bodies.
            (tile.shape.n_grouped, tile.shape.piece) = (0, 0);
        }
        if let BodyForm::Sort { step, param } = &mut form {
            *param = self.integer(NumberRole::SortStep, step.number(self.draft.space.inner()[0], self.sorted_dtype()));
            // The parameter tells it, so that sorts of other sizes have equal bodies.
            if let SortStep::Across { log2_width, .. } = step {
                *log2_width = 0;
            }
        }
        let slots = self.body_slots();
        let n_bytes = self.n_bytes();
        let body = KernelBody {
            float_mode: options.float_mode,
            params: self.params,
            form,
            outer,
            inner,
            expressions: self.expressions,
            passes,
            slots,
            is_wide: self.is_wide,
        };
        Some(PlanKernel { body: Arc::new(body), grid, args: self.args, n_bytes })
    }

    /// Returns the bytes of the arrays. What several of them have in common is counted once, because it comes from the cache
    /// after the first time: the windows of a stencil are one array to the memory.
    fn n_bytes(&self) -> u64 {
        let mut ranges: Vec<_> =
            self.arrays.keys().map(|&(buffer, start, n)| (buffer, start, start.saturating_add_unsigned(n))).collect();
        ranges.sort_unstable();
        let (mut n_bytes, mut counted) = (0, (usize::MAX, 0));
        for (buffer, start, end) in ranges {
            let start = if counted.0 == buffer { start.max(counted.1) } else { start };
            if end > start {
                n_bytes += end.abs_diff(start) * u64::from(self.buffers.buffers[buffer].dtype.bytes());
                counted = (buffer, end);
            }
        }
        n_bytes
    }

    fn form(&self) -> BodyForm {
        let n: u64 = self.axes.inner.iter().product();
        match &self.draft.space {
            DraftSpace::Each(_) => self.form_of_elements,
            DraftSpace::Scan(_) => self.form_of_scan,
            DraftSpace::Sort(_, step) => BodyForm::Sort { step: *step, param: 0 },
            DraftSpace::Rows(space) => match space.form {
                RowForm::Block if let Some(slots) = &self.slots => BodyForm::Staged(slots.rows),
                RowForm::Block => {
                    let n_blocks = n.div_ceil(BLOCK_LENGTH as u64);
                    let has_order = self.draft.reductions.iter().any(|reduction| !is_order_free(reduction.op));
                    let is_long = n_blocks > 1 && has_order;
                    // One level more than pairs, for a last block without a neighbour.
                    BodyForm::Block { n_levels: if is_long { (u64::BITS - n_blocks.leading_zeros()) as u8 } else { 0 } }
                }
                RowForm::Loop => BodyForm::Loop,
                RowForm::Product(tile) => BodyForm::Product { tile, params: TileParams::default() },
                RowForm::MatrixProduct(tile) => BodyForm::MatrixProduct(tile),
                RowForm::PipelinedProduct(tile) => BodyForm::PipelinedProduct(tile),
                RowForm::Attention(tile) => BodyForm::Attention(tile),
                RowForm::Unrolled => BodyForm::Unrolled(n as u8),
                RowForm::SplitBlock => BodyForm::SplitBlock,
                RowForm::SplitLane => BodyForm::SplitLane,
            },
        }
    }

    fn grid(&self, form: BodyForm) -> KernelGrid {
        let outer = &self.axes.outer;
        if let BodyForm::Tiled { row_axis } | BodyForm::Squares { row_axis } = form {
            let is_tiled = |axis: usize| axis == usize::from(row_axis) || axis + 1 == outer.len();
            let tiles = outer.iter().enumerate();
            let tiles = tiles.map(|(axis, &n)| if is_tiled(axis) { n.div_ceil(N_LANES as u64) } else { n });
            let is_square = matches!(form, BodyForm::Squares { .. });
            let n_threads = if is_square { BATCH_THREADS } else { N_LANES as u32 };
            return KernelGrid::Blocks { n_blocks: tiles.product(), n_threads };
        }
        if let (BodyForm::Product { tile, .. }, [batch @ .., rows, columns]) = (form, &outer[..]) {
            let (n_tall, n_wide) = tile.shape.counts(*rows, *columns);
            let n_grouped = u64::from(tile.shape.n_grouped);
            let n_of_matrix =
                if tile.is_strip { n_wide.div_ceil(n_grouped) } else { n_tall.div_ceil(n_grouped) * n_wide };
            let n_blocks = batch.iter().product::<u64>() * n_of_matrix;
            return KernelGrid::Blocks { n_blocks, n_threads: tile.shape.columns.into() };
        }
        if let (BodyForm::MatrixProduct(tile), [batch @ .., rows, columns]) = (form, &outer[..]) {
            let n_blocks = tile.n_blocks(batch.iter().product(), *rows, *columns);
            return KernelGrid::Blocks { n_blocks, n_threads: tile.n_threads() };
        }
        if let (BodyForm::PipelinedProduct(tile), [batch @ .., rows, columns]) = (form, &outer[..]) {
            let n_blocks = tile.n_blocks(batch.iter().product(), *rows, *columns);
            return KernelGrid::Blocks { n_blocks, n_threads: tile.n_threads() };
        }
        if let (BodyForm::Attention(tile), [batch @ .., n_queries], [.., value_width]) =
            (form, &outer[..], &self.axes.inner[..])
        {
            let n_chunks = value_width.div_ceil(u64::from(tile.n_groups) * VALUE_LANES);
            let n_blocks = batch.iter().product::<u64>() * n_chunks * n_queries.div_ceil(tile.rows.into());
            return KernelGrid::Blocks { n_blocks, n_threads: N_LANES as u32 };
        }
        if let (BodyForm::Sort { step, .. }, [n_rows], [length]) = (form, &outer[..], &self.axes.inner[..]) {
            let n_blocks = step.n_blocks(*n_rows, *length, self.sorted_dtype());
            return KernelGrid::Blocks { n_blocks, n_threads: N_LANES as u32 };
        }
        if let (BodyForm::Batched(n), [rows @ .., columns]) = (form, &outer[..]) {
            let n_of_row = columns.div_ceil(u64::from(n) * u64::from(BATCH_THREADS));
            let n_blocks = rows.iter().product::<u64>() * n_of_row;
            return KernelGrid::Blocks { n_blocks, n_threads: BATCH_THREADS };
        }
        if form == BodyForm::Totals {
            return KernelGrid::Blocks { n_blocks: outer.iter().product(), n_threads: TOTALS_THREADS };
        }
        if form == BodyForm::ScanTiles {
            let n_blocks = outer.iter().product::<u64>().div_ceil(N_LANES as u64);
            return KernelGrid::Blocks { n_blocks, n_threads: SCAN_THREADS };
        }
        if let BodyForm::Staged(rows) = form {
            let n_blocks = outer.iter().product::<u64>().div_ceil(rows.rows.into());
            return KernelGrid::Blocks { n_blocks, n_threads: rows.n_threads() };
        }
        if form.has_blocks() {
            return KernelGrid::Blocks { n_blocks: outer.iter().product(), n_threads: N_LANES as u32 };
        }
        if form == BodyForm::Numbered {
            return KernelGrid::Threads(vec![outer.iter().product()]);
        }
        let n_merged = outer.len().saturating_sub(MAX_THREAD_AXES - 1).max(1).min(outer.len().max(1));
        let n_merged = if outer.len() <= MAX_THREAD_AXES { 1 } else { n_merged };
        let first = outer.iter().take(n_merged).product();
        KernelGrid::Threads(std::iter::once(first).chain(outer.iter().skip(n_merged).copied()).collect())
    }

    /// Returns the type of the keys that are sorted.
    fn sorted_dtype(&self) -> Scalar {
        let sorted = self.draft.reductions.first();
        sorted.map_or(Scalar::U32, |sorted| self.graph.stored[sorted.stored as usize].dtype)
    }

    fn reduction(&mut self, reduction: &DraftReduction, pass: usize) -> BodyReduction {
        let slot = self.slots.as_ref().and_then(|slots| slots.slot_of_operand(self.graph, reduction));
        let values = match slot {
            Some(slot) => {
                let dtype = self.graph.arena.dtype(reduction.operands[0]);
                vec![self.kept(slot, dtype, pass)]
            }
            None => reduction.operands.iter().map(|&operand| self.expression(operand, pass)).collect(),
        };
        let scanned =
            self.draft.stores_by_itself().then(|| self.address(Source::Stored(reduction.stored), &reduction.layout));
        BodyReduction { op: reduction.op, dtype: self.graph.stored[reduction.stored as usize].dtype, values, scanned }
    }

    /// Returns the expression that is the result of a reduction.
    fn total(&mut self, reduction: &DraftReduction) -> u32 {
        let same_pass = self.draft.reductions.iter().filter(|other| other.pass == reduction.pass);
        let index = same_pass.take_while(|other| other.stored != reduction.stored).count();
        let kind = BodyExpressionKind::Total { pass: reduction.pass as u16, index: index as u16 };
        let dtype = self.graph.stored[reduction.stored as usize].dtype;
        let expression = BodyExpression { kind, dtype, is_of_row: true, pass: reduction.pass as u16 + 1 };
        self.push(expression)
    }

    /// Returns the expression of what waits in a slot, from a pass on.
    fn kept(&mut self, slot: u16, dtype: Scalar, pass: usize) -> u32 {
        let kind = BodyExpressionKind::Kept(slot);
        self.push(BodyExpression { kind, dtype, is_of_row: false, pass: pass as u16 })
    }

    fn body_slots(&mut self) -> BodySlots {
        let Some(slots) = self.slots.clone() else { return BodySlots::default() };
        let mut inputs = Vec::new();
        for (id, slot) in slots.inputs {
            if let ExpressionKind::Load(source, layout) = &self.graph.arena.get(id).kind {
                inputs.push((self.address(*source, layout), slot));
            }
        }
        BodySlots { dtypes: slots.dtypes, inputs }
    }

    fn push(&mut self, expression: BodyExpression) -> u32 {
        if let Some(index) = self.expressions.iter().position(|other| *other == expression) {
            return index as u32;
        }
        self.expressions.push(expression);
        self.expressions.len() as u32 - 1
    }

    /// Returns the body's expression for one of the plan, as a pass computes it.
    fn expression(&mut self, id: ExpressionId, at: usize) -> u32 {
        if let Some(&known) = self.known.get(&(id, at)) {
            return known;
        }
        if let Some((slot, pass)) = self.slots.as_ref().and_then(|slots| slots.slot_of(id, at)) {
            let kept = self.kept(slot, self.graph.arena.dtype(id), pass);
            self.known.insert((id, at), kept);
            return kept;
        }
        if let Some(spilled) = self.spilled.iter().find(|spilled| spilled.expression == id && spilled.pass < at) {
            let address = self.address(Source::Stored(spilled.stored), &spilled.layout);
            let dtype = self.graph.arena.dtype(id);
            // Not before the pass after the one that stores it.
            let pass = spilled.pass as u16 + 1;
            let kind = BodyExpressionKind::Load(address);
            let loaded = self.push(BodyExpression { kind, dtype, is_of_row: false, pass });
            self.known.insert((id, at), loaded);
            return loaded;
        }
        let graph = self.graph;
        let expression = graph.arena.get(id);
        let dtype = expression.dtype;
        let (kind, is_of_row, pass) = match &expression.kind {
            ExpressionKind::Load(Source::Stored(stored), layout) if self.is_own(*stored, layout) => {
                let own = self.own(*stored, layout, at);
                self.known.insert((id, at), own);
                return own;
            }
            ExpressionKind::Load(source, layout) => {
                let address = self.address(*source, layout);
                let is_of_row = self.is_of_row(layout);
                (BodyExpressionKind::Load(address), is_of_row, 0)
            }
            ExpressionKind::Place(layout) => {
                let place = self.place(layout, layout.offset);
                (BodyExpressionKind::Place(place), self.is_of_row(layout), 0)
            }
            ExpressionKind::Constant(bits) => (BodyExpressionKind::Constant(*bits), true, 0),
            // A row without a loop is of one length.
            ExpressionKind::Count(bits) if matches!(self.form(), BodyForm::Unrolled(_)) => {
                (BodyExpressionKind::Constant(*bits), true, 0)
            }
            ExpressionKind::Count(bits) => {
                let arg = PlanArg::Scalar { dtype, bits: *bits };
                let param = self.number(NumberRole::ElementCount(*bits, dtype), arg, dtype);
                (BodyExpressionKind::Number(param), true, 0)
            }
            ExpressionKind::Number(index) => {
                let param =
                    self.number(NumberRole::Given(*index, dtype), PlanArg::Number { index: *index, dtype }, dtype);
                (BodyExpressionKind::Number(param), true, 0)
            }
            ExpressionKind::Apply(op, operands) => {
                let operands: Vec<u32> = operands.iter().map(|&operand| self.expression(operand, at)).collect();
                let of = |operand: &u32| &self.expressions[*operand as usize];
                let is_of_row = operands.iter().all(|operand| of(operand).is_of_row);
                let pass = operands.iter().map(|operand| of(operand).pass).max().unwrap_or(0);
                (BodyExpressionKind::Apply(*op, operands), is_of_row, pass)
            }
            ExpressionKind::Gather { source, layout, index, n, stride } => {
                let index = self.expression(*index, at);
                let of_index = &self.expressions[index as usize];
                let (is_of_row, pass) = (of_index.is_of_row && self.is_of_row(layout), of_index.pass);
                let address = self.spanning_address(*source, layout, *n, *stride);
                let n = self.integer(NumberRole::Count(*n), *n as i64);
                let stride = self.integer(NumberRole::Distance(*stride), *stride);
                (BodyExpressionKind::Gather { address, index, n, stride }, is_of_row, pass)
            }
            ExpressionKind::Random(op, seed, place) => {
                let [seed, place] = [*seed, *place].map(|operand| self.expression(operand, at));
                let of = |operand: u32| &self.expressions[operand as usize];
                let is_of_row = of(seed).is_of_row && of(place).is_of_row;
                let pass = of(seed).pass.max(of(place).pass);
                (BodyExpressionKind::Random(*op, seed, place), is_of_row, pass)
            }
            ExpressionKind::Combined { op, order, source, layout, n, distance } => {
                let address = self.spanning_address(Source::Stored(*source), layout, *n, *distance);
                let n = self.integer(NumberRole::Count(*n), *n as i64);
                let distance = self.integer(NumberRole::Distance(*distance), *distance);
                let kind = BodyExpressionKind::Combined { op: *op, order: *order, address, n, distance };
                (kind, self.is_of_row(layout), 0)
            }
        };
        let own = self.push(BodyExpression { kind, dtype, is_of_row, pass });
        self.known.insert((id, at), own);
        own
    }

    fn is_own(&self, stored: u32, layout: &Layout) -> bool {
        self.own_reduction(stored, layout).is_some() || self.own_store(stored, layout).is_some()
    }

    fn own_reduction(&self, stored: u32, layout: &Layout) -> Option<&'a DraftReduction> {
        self.draft.reductions.iter().find(|reduction| reduction.stored == stored && reduction.layout == *layout)
    }

    fn own_store(&self, stored: u32, layout: &Layout) -> Option<&'a DraftStore> {
        self.draft.stores.iter().find(|store| store.stored == stored && store.layout == *layout)
    }

    /// Returns the expression of a value that this kernel computes itself.
    fn own(&mut self, stored: u32, layout: &Layout, at: usize) -> u32 {
        match self.own_reduction(stored, layout) {
            Some(reduction) => self.total(reduction),
            None => match self.own_store(stored, layout) {
                Some(store) => self.expression(store.value, at),
                None => 0,
            },
        }
    }

    fn is_of_row(&self, layout: &Layout) -> bool {
        self.axes.strides(layout)[self.axes.outer.len()..].iter().all(|&stride| stride == 0)
    }

    fn extents_of(&mut self, first: usize, extents: &[u64]) -> Vec<BodyExtent> {
        let is_unrolled = matches!(self.form(), BodyForm::Unrolled(_)) && first == self.axes.outer.len();
        let extents = extents.iter().enumerate();
        extents
            .map(|(axis, &extent)| match is_unrolled {
                true => BodyExtent::Constant(extent),
                false => BodyExtent::Param(self.integer(NumberRole::Extent(first + axis), extent as i64)),
            })
            .collect()
    }
}

/// Returns the form of a GPU's kernel over single elements, if one has more to do than there are threads, or less.
fn form_on_gpu(
    graph: &TranslatedGraph,
    draft: &KernelDraft,
    axes: &MergedAxes,
    layouts: &[Layout],
    options: &PlanOptions,
) -> Option<BodyForm> {
    options.gpu?;
    let roots = draft.roots();
    let (mut n_totals, mut n_ops, mut n_bytes) = (0, 0, 1);
    graph.arena.visit(&roots, |id| match &graph.arena.get(id).kind {
        ExpressionKind::Combined { order: CombineOrder::Pairs, n, .. } => n_totals = n_totals.max(*n),
        ExpressionKind::Combined { .. } | ExpressionKind::Random(..) => n_ops = usize::MAX,
        ExpressionKind::Apply(..) => n_ops = n_ops.saturating_add(1),
        ExpressionKind::Load(..) | ExpressionKind::Gather { .. } => {
            n_bytes = n_bytes.max(graph.arena.dtype(id).bytes());
        }
        _ => {}
    });
    if n_totals >= MIN_TOTALS_OF_BLOCK {
        return Some(BodyForm::Totals);
    }
    let [rows @ .., columns] = &axes.outer[..] else { return None };
    let is_near = layouts.iter().all(|layout| matches!(axes.strides(layout).last(), Some(0 | 1)));
    let is_wide_enough = rows.is_empty() || (*columns >= MIN_BATCHED_ROW && is_near);
    let n_elements = rows.iter().product::<u64>() * columns;
    let has_many = is_wide_enough && n_elements >= u64::from(options.n_workers) * ELEMENTS_OF_WORKER;
    let n = (BATCH_BYTES / n_bytes).clamp(2, MAX_BATCH);
    (n_totals == 0 && n_ops <= MAX_BATCHED_OPS && has_many).then_some(BodyForm::Batched(n as u8))
}

/// Fewest rows worth scanning side by side on a CPU: 16 in vectors took a fifth longer than one after the other, and 12, which
/// fill no vector, four times as long.
const FEW_ROWS: u64 = 32;

/// Returns true for scans of one operand along rows that lie dense in memory.
fn is_scan_of_rows(draft: &KernelDraft, axes: &MergedAxes) -> bool {
    let [scan] = &draft.reductions[..] else { return false };
    let is_along =
        matches!((&axes.inner[..], axes.strides(&scan.layout).last()), (&[length], Some(1)) if length >= MIN_SCAN);
    let is_known = matches!(scan.op, TensorOp::Cumsum | TensorOp::Cumprod | TensorOp::Cummax | TensorOp::Cummin);
    is_along && is_known && draft.stores.is_empty()
}

impl KernelDraft {
    /// Returns true if reductions store their results, which are not one for each row.
    fn stores_by_itself(&self) -> bool {
        match &self.space {
            DraftSpace::Scan(_) | DraftSpace::Sort(..) => true,
            DraftSpace::Rows(space) => matches!(space.form, RowForm::Attention(_)),
            DraftSpace::Each(_) => false,
        }
    }

    fn n_passes(&self) -> usize {
        let after = self.reductions.iter().map(|reduction| reduction.pass + 2);
        after.chain(self.stores.iter().map(|store| store.pass + 1)).max().unwrap_or(1)
    }

    /// Returns the distances that indices, which are not coordinates, may lead to.
    fn reaches<'a>(&'a self, graph: &'a TranslatedGraph) -> impl Iterator<Item = i64> + 'a {
        let reach = |layout: &Layout, n: u64, stride: i64| {
            let (least, most) = layout.place_range().unwrap_or((0, 0));
            (most - least).saturating_add(stride.abs().saturating_mul(n as i64))
        };
        let mut reaches = Vec::new();
        graph.arena.visit(&self.roots(), |id| {
            if let ExpressionKind::Gather { layout, n, stride, .. } = &graph.arena.get(id).kind {
                reaches.push(reach(layout, *n, *stride));
            }
        });
        let targets = self.stores.iter().filter_map(|store| store.target.map(|target| (&store.layout, target)));
        reaches.extend(targets.map(|(layout, target)| reach(layout, target.n, target.stride)));
        reaches.into_iter()
    }

    /// Returns the layouts of all that the kernel accesses.
    fn layouts(&self, graph: &TranslatedGraph) -> Vec<Layout> {
        let stores = self.stores.iter().map(|store| store.layout.clone());
        let mut layouts: Vec<Layout> =
            stores.chain(self.reductions.iter().map(|reduction| reduction.layout.clone())).collect();
        graph.arena.visit(&self.roots(), |id| match &graph.arena.get(id).kind {
            ExpressionKind::Load(_, layout)
            | ExpressionKind::Place(layout)
            | ExpressionKind::Gather { layout, .. }
            | ExpressionKind::Combined { layout, order: CombineOrder::Lanes | CombineOrder::Pairs, .. } => {
                layouts.push(layout.clone());
            }
            _ => {}
        });
        layouts
    }
}
