//! Products of matrices and other contractions.

use super::{OpCall, StoredKind, TranslatedValue, Translator};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::{ReductionSpace, RowForm};
use crate::plan::tile::{MatrixTile, PipelinedTile, ProductEngine, ProductSize, ProductTile, TileShape};
use polyloom_ir::{Scalar, fragment};

/// The label of an axis. Axes of one label have one extent, or belong to a factor that is the same along it.
type Label = i64;

/// The labels of the rows, columns and sums of a product of two matrices.
const ROW: Label = -1;
const COLUMN: Label = -2;
const SUM: Label = -3;
/// The most operations for an element of a factor that is computed again for each tile.
const MAX_STAGED_FLOPS: u64 = 4;
/// The number of times that an element of a factor is used from which on a copy of the factor is worth its time.
const MIN_USES: u64 = 256;
/// The time that elements take which lie apart, over that of neighbours: an image of 7 columns is faster along those than along
/// 32 output channels.
const GATHER_COST: u64 = 8;
/// The labels of the axes of one row and of one column, in contractions without rows or columns. No others are the same.
const NO_ROW: Label = Label::MIN;
const NO_COLUMN: Label = Label::MIN + 1;

/// A factor with the labels of its axes.
#[derive(Clone)]
struct Factor {
    expression: ExpressionId,
    extents: Vec<u64>,
    labels: Vec<Label>,
}

impl Factor {
    fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    fn extent(&self, label: Label) -> Option<u64> {
        self.labels.iter().position(|&own| own == label).map(|axis| self.extents[axis])
    }
}

/// The ways in which a factor comes to shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopiedFactor {
    /// Neighbours along the chain are copied together.
    AlongChain,
    /// Neighbours along the rows of a left factor, or the columns of a right one, are.
    AlongOwn,
    /// It is stored before, so that neighbours along the chain are neighbours in memory.
    Stored,
}

/// The space of a product: the axes that the result has, of which the last two are the rows and columns of matrices, those
/// of packed factors, and those that are summed over.
struct ProductSpace {
    outer: Vec<Label>,
    sums: Vec<Label>,
    extents: Vec<u64>,
    /// The axes of a packed left factor and of a packed right one.
    tiles: [usize; 2],
}

impl ProductSpace {
    fn row(&self) -> Label {
        self.outer[self.outer.len() - 2]
    }

    fn column(&self) -> Label {
        self.outer[self.outer.len() - 1]
    }

    /// The place of the axis of a label.
    fn axis(&self, label: Label) -> Option<usize> {
        let of_sum = || self.sums.iter().position(|&own| own == label);
        let first_sum = self.extents.len() - self.sums.len();
        self.outer.iter().position(|&own| own == label).or_else(|| of_sum().map(|axis| first_sum + axis))
    }
}

impl Translator<'_> {
    pub(super) fn multiply(
        &mut self,
        a: &TranslatedValue,
        b: &TranslatedValue,
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let (a_is_row, b_is_column) = (a.extents.len() == 1, b.extents.len() == 1);
        let n_batch = extents.len() - usize::from(!a_is_row) - usize::from(!b_is_column);
        let batch = |own: usize| (n_batch - own..n_batch).map(|axis| axis as Label);
        let a_batch = batch(a.extents.len().saturating_sub(2));
        let b_batch = batch(b.extents.len().saturating_sub(2));
        let row = (!a_is_row).then_some(ROW);
        let column = (!b_is_column).then_some(COLUMN);
        let a_labels = a_batch.chain(row).chain([SUM]).collect();
        let b_labels = b_batch.chain([SUM]).chain(column).collect();
        let labels: Vec<Label> = batch(n_batch).chain(row).chain(column).collect();
        self.contract_labelled(self.factor(a, a_labels), self.factor(b, b_labels), &labels, extents, dtype)
    }

    pub(super) fn contract(&mut self, call: &OpCall<'_>, a: &TranslatedValue, b: &TranslatedValue) -> ExpressionId {
        let [a_labels, b_labels, labels] = [0, 1, 2].map(|index| call.attributes[index].ints());
        self.contract_labelled(self.factor(a, a_labels), self.factor(b, b_labels), &labels, call.extents, call.dtype)
    }

    fn factor(&self, value: &TranslatedValue, labels: Vec<Label>) -> Factor {
        Factor { expression: value.expression, extents: value.extents.clone(), labels }
    }

    fn contract_labelled(
        &mut self,
        a: Factor,
        b: Factor,
        labels: &[Label],
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let sums: Vec<Label> = a.labels.iter().copied().filter(|label| !labels.contains(label)).collect();
        let extent_of = |label: Label| {
            let of_result = labels.iter().position(|&own| own == label).map(|axis| extents[axis]);
            of_result.or_else(|| a.extent(label)).unwrap_or(1)
        };
        // An axis of extent 1, where the other factor's is longer, is the same all along it.
        let [a, b] = [&a, &b].map(|factor| self.without_repeats(factor, extent_of));
        let (column, is_of_a) = self.choose_column([&a, &b], labels);
        let (left, right) = if is_of_a { (b, a) } else { (a, b) };
        let is_row = |label: &&Label| left.has(**label) && !right.has(**label);
        let row = labels.iter().rev().filter(is_row).max_by_key(|&&label| extent_of(label)).copied();
        let (row, column) = (row.unwrap_or(NO_ROW), column.unwrap_or(NO_COLUMN));
        let batch = labels.iter().copied().filter(|&label| label != row && label != column);
        let outer: Vec<Label> = batch.chain([row, column]).collect();
        let length = sums.iter().map(|&label| extent_of(label)).product();
        let n_matrices = outer[..outer.len() - 2].iter().map(|&label| extent_of(label)).product();
        let size = ProductSize {
            n_matrices,
            rows: extent_of(row),
            columns: extent_of(column),
            length,
            dtype,
            has_dense_rows: self.is_dense_along(&right, column),
            has_dense_columns: sums.iter().all(|&sum| self.is_dense_along(&right, sum)),
            can_be_packed: sums.len() == 1,
        };
        let pipelined = self.pipelined_product([&left, &right], [row, column], &sums, &size);
        let matrix = match &pipelined {
            Some(_) => None,
            None => self.matrix_product([&left, &right], &size),
        };
        let tile = match pipelined.is_some() || matrix.is_some() {
            true => None,
            false => ProductTile::choose(&size, self.options),
        };
        let outer_extents: Vec<u64> = outer.iter().map(|&label| extent_of(label)).collect();
        let mut inner = Vec::new();
        if let Some(ProductTile { shape, .. }) = tile {
            let (n_tall, n_wide) = shape.counts(size.rows, size.columns);
            if shape.packs_left {
                inner.extend([n_tall, shape.rows.into(), length.div_ceil(shape.piece.into())]);
            }
            if shape.packs_right {
                inner.extend([n_wide, shape.columns.into()]);
            }
        }
        let tiles = [outer.len(), (outer.len() + inner.len()).saturating_sub(2)];
        inner.extend(sums.iter().map(|&label| extent_of(label)));
        let space = ProductSpace { outer, sums, extents: [&outer_extents[..], &inner[..]].concat(), tiles };
        let (left, right, form) = match (pipelined, matrix, tile) {
            (Some((tile, [left, right])), ..) => {
                let [left, right] = [&left, &right].map(|factor| self.spread_as_is(factor, &space));
                (left, right, RowForm::PipelinedProduct(tile))
            }
            (_, Some((tile, [left, right])), _) => {
                let [left, right] = [&left, &right].map(|factor| self.spread_staged(factor, &space));
                (left, right, RowForm::MatrixProduct(tile))
            }
            (.., Some(tile)) => {
                let left = match tile.shape.packs_left {
                    true => self.pack_left(&left, tile.shape, &space),
                    false => self.spread(&left, &space),
                };
                let right = match tile.shape.packs_right {
                    true => self.pack_right(&right, tile.shape, &space),
                    false => self.spread(&right, &space),
                };
                (left, right, RowForm::Product(tile))
            }
            (None, None, None) => (self.spread(&left, &space), self.spread(&right, &space), RowForm::Loop),
        };
        // The axes of the result, and after them those that it lacks.
        let mut n_lacking = labels.len();
        let mut place = |label: &Label| {
            labels.iter().position(|own| own == label).unwrap_or_else(|| {
                n_lacking += 1;
                n_lacking - 1
            })
        };
        let outer_order = space.outer.iter().map(&mut place).collect();
        let space = ReductionSpace::of_product(outer_extents, outer_order, inner, form);
        let stored = self.store(
            dtype,
            extents,
            StoredKind::Reduction { op: TensorOp::MatMul, operands: vec![left, right], space },
        );
        self.load(stored, Layout::dense(extents))
    }

    /// Drops the axes along which a factor is repeated.
    fn without_repeats(&mut self, factor: &Factor, extent_of: impl Fn(Label) -> u64) -> Factor {
        let kept: Vec<usize> = (0..factor.labels.len())
            .filter(|&axis| factor.extents[axis] != 1 || extent_of(factor.labels[axis]) == 1)
            .collect();
        let extents: Vec<u64> = kept.iter().map(|&axis| factor.extents[axis]).collect();
        let expression = self.viewed(factor.expression, &factor.extents, &ViewMap::Reshape(extents.clone()));
        Factor { expression, extents, labels: kept.iter().map(|&axis| factor.labels[axis]).collect() }
    }

    /// Chooses the axis that neighbouring threads go along, and says whether it is the first factor's.
    fn choose_column(&self, [a, b]: [&Factor; 2], labels: &[Label]) -> (Option<Label>, bool) {
        let worth = |factor: &Factor, label: Label| {
            let n = factor.extent(label).unwrap_or(1).min(32);
            if self.is_dense_along(factor, label) { GATHER_COST * n } else { n }
        };
        let of = |factor: &Factor, other: &Factor, is_of_a: bool| -> Vec<(u64, usize, Label, bool)> {
            let own = labels.iter().enumerate().filter(|(_, label)| factor.has(**label) && !other.has(**label));
            own.map(|(place, &label)| (worth(factor, label), place, label, is_of_a)).collect()
        };
        let best = of(a, b, true).into_iter().chain(of(b, a, false)).max_by_key(|&(worth, place, ..)| (worth, place));
        best.map_or((None, false), |(_, _, label, is_of_a)| (Some(label), is_of_a))
    }

    /// Returns true if neighbours along an axis are neighbours in memory, or one element.
    fn is_dense_along(&self, factor: &Factor, label: Label) -> bool {
        let Some(axis) = factor.labels.iter().position(|&own| own == label) else { return true };
        let mut is_dense = true;
        self.arena.visit(&[factor.expression], |id| {
            if let ExpressionKind::Load(_, layout) = &self.arena.get(id).kind {
                is_dense &= layout.extents[axis] == 1 || (0..=1).contains(&layout.strides[axis]);
            }
        });
        is_dense
    }

    /// Orders the axes of a factor as labels are, of which it need not have all.
    fn ordered(&mut self, factor: &Factor, labels: &[Label]) -> Factor {
        let axes = labels.iter().filter_map(|label| factor.labels.iter().position(|own| own == label));
        let axes: Vec<usize> = axes.collect();
        let expression = self.viewed(factor.expression, &factor.extents, &ViewMap::Permute(axes.clone()));
        Factor {
            expression,
            extents: axes.iter().map(|&axis| factor.extents[axis]).collect(),
            labels: axes.iter().map(|&axis| factor.labels[axis]).collect(),
        }
    }

    /// Returns the factors as they are, and as they were before they were cast.
    fn narrowed(&self, factors: [&Factor; 2]) -> [[ExpressionId; 2]; 2] {
        let narrow = factors.map(|factor| match &self.arena.get(factor.expression).kind {
            ExpressionKind::Apply(TensorOp::Cast, operands) => operands[0],
            _ => factor.expression,
        });
        [factors.map(|factor| factor.expression), narrow]
    }

    /// Returns the type of factors, if tensor cores add up their products in what the result is made of.
    fn matrix_dtype(&self, expressions: [ExpressionId; 2], is_narrowed: bool, size: &ProductSize) -> Option<Scalar> {
        let [dtype, other] = expressions.map(|expression| self.arena.dtype(expression));
        let sum = fragment::accumulator(dtype)?;
        // Sums modulo 2³² are those of either sign.
        let is_sum = sum == size.dtype || size.dtype == dtype || (dtype.is_int() && size.dtype == Scalar::U32);
        (dtype == other && is_sum && !(is_narrowed && size.dtype == dtype)).then_some(dtype)
    }

    /// Chooses tiles of tensor cores, if a product may have them, and returns its factors as those take them: what is cast to
    /// the type that sums are made in as it was before.
    fn matrix_product(&self, factors: [&Factor; 2], size: &ProductSize) -> Option<(MatrixTile, [Factor; 2])> {
        let [own, narrow] = self.narrowed(factors);
        [(own, false), (narrow, true)].into_iter().find_map(|(expressions, is_narrowed)| {
            let dtype = self.matrix_dtype(expressions, is_narrowed, size)?;
            let tile = MatrixTile::choose(size, dtype, self.options)?;
            let [left, right] = factors;
            let with = |factor: &Factor, expression| Factor { expression, ..factor.clone() };
            Some((tile, [with(left, expressions[0]), with(right, expressions[1])]))
        })
    }

    /// Chooses the tiles of a product whose factors are copied as they lie in memory, if it may have them, and returns the
    /// factors, each of them loads alone. Those that do not lie so are stored before, if they are used often enough.
    fn pipelined_product(
        &mut self,
        factors: [&Factor; 2],
        [row, column]: [Label; 2],
        sums: &[Label],
        size: &ProductSize,
    ) -> Option<(PipelinedTile, [Factor; 2])> {
        let &[sum] = sums else { return None };
        let [own, narrow] = self.narrowed(factors);
        let (tile, expressions) =
            [(narrow, true), (own, false)].into_iter().find_map(|(expressions, is_narrowed)| {
                let dtype = self.arena.dtype(expressions[0]);
                let is_matrix = self.matrix_dtype(expressions, is_narrowed, size).is_some();
                let is_plain = dtype == size.dtype && dtype == self.arena.dtype(expressions[1]);
                let tile = PipelinedTile::choose(size, dtype, self.options)?;
                let fits = if tile.engine == ProductEngine::TensorCore { is_matrix } else { is_plain };
                fits.then_some((tile, expressions))
            })?;
        let [left, right] = factors;
        let with = |factor: &Factor, expression| Factor { expression, ..factor.clone() };
        let factors = [(with(left, expressions[0]), row), (with(right, expressions[1]), column)];
        let n_uses = [size.columns, size.rows];
        let mut forms = [CopiedFactor::AlongChain; 2];
        for (index, (factor, label)) in factors.iter().enumerate() {
            forms[index] = match self.copied_form(factor, *label, sum, tile) {
                Some(form) => form,
                None if n_uses[index] >= MIN_USES && factor.has(*label) && factor.has(sum) => CopiedFactor::Stored,
                None => return None,
            };
        }
        let is_along_chain = forms.map(|form| form != CopiedFactor::AlongOwn);
        let mut copied = Vec::new();
        for ((factor, label), form) in factors.into_iter().zip(forms) {
            copied.push(match form {
                CopiedFactor::Stored => {
                    let batch = factor.labels.iter().copied().filter(|&own| own != label && own != sum);
                    let labels: Vec<Label> = batch.chain([label, sum]).collect();
                    let ordered = self.ordered(&factor, &labels);
                    Factor { expression: self.load_stored(ordered.expression, &ordered.extents), ..ordered }
                }
                CopiedFactor::AlongChain | CopiedFactor::AlongOwn => factor,
            });
        }
        let copied: [Factor; 2] = copied.try_into().ok()?;
        Some((PipelinedTile { is_along_chain, ..tile }, copied))
    }

    /// Says how a factor is copied as it lies in memory, if threads may copy several neighbours at once.
    fn copied_form(&self, factor: &Factor, label: Label, sum: Label, tile: PipelinedTile) -> Option<CopiedFactor> {
        let ExpressionKind::Load(_, layout) = &self.arena.get(factor.expression).kind else { return None };
        let axis = |label: Label| factor.labels.iter().position(|&own| own == label);
        let (own, chain) = (axis(label)?, axis(sum)?);
        let chunk = i64::from(tile.chunk());
        let is_dense_along = |axis: usize| {
            let mut others = layout.strides.iter().enumerate().filter(|&(other, _)| other != axis);
            let is_even = others.all(|(_, stride)| stride % chunk == 0) && layout.offset % chunk == 0;
            layout.strides[axis] == 1 && is_even && layout.extents[axis].is_multiple_of(chunk as u64)
        };
        // Tensor cores take bytes as they lie along the chain.
        let takes_others = tile.engine == ProductEngine::Chain || tile.factor.bytes() > 1;
        match () {
            () if is_dense_along(chain) => Some(CopiedFactor::AlongChain),
            () if takes_others && is_dense_along(own) => Some(CopiedFactor::AlongOwn),
            () => None,
        }
    }

    /// Returns a factor over the space of a product whose threads compute it as they put it into shared memory, some of them
    /// the same elements: what is dear is stored before.
    fn spread_staged(&mut self, factor: &Factor, space: &ProductSpace) -> ExpressionId {
        let mut is_cheap = self.arena.flops(factor.expression) <= MAX_STAGED_FLOPS;
        self.arena.visit(&[factor.expression], |id| {
            is_cheap &= !matches!(
                self.arena.get(id).kind,
                ExpressionKind::Combined { .. } | ExpressionKind::Random(..) | ExpressionKind::Gather { .. }
            );
        });
        if is_cheap { self.spread_as_is(factor, space) } else { self.spread(factor, space) }
    }

    /// Returns a factor over the space of a product.
    fn spread(&mut self, factor: &Factor, space: &ProductSpace) -> ExpressionId {
        let is_plain = matches!(self.arena.get(factor.expression).kind, ExpressionKind::Load(..));
        let expression =
            if is_plain { factor.expression } else { self.load_stored(factor.expression, &factor.extents) };
        self.spread_as_is(&Factor { expression, ..factor.clone() }, space)
    }

    fn spread_as_is(&mut self, factor: &Factor, space: &ProductSpace) -> ExpressionId {
        let labels = [&space.outer[..], &space.sums[..]].concat();
        let ordered = self.ordered(factor, &labels);
        let mut widened = vec![1; space.extents.len()];
        for (&label, &extent) in ordered.labels.iter().zip(&ordered.extents) {
            if let Some(axis) = space.axis(label) {
                widened[axis] = extent;
            }
        }
        let reshaped = self.viewed(ordered.expression, &ordered.extents, &ViewMap::Reshape(widened.clone()));
        self.viewed(reshaped, &widened, &ViewMap::Broadcast(space.extents.clone()))
    }

    /// Stores a left factor in the order in which tiles read it: tiles of rows, of each tile the pieces of its chains, of each
    /// piece the rows. The last tile ends with the factor, and has in part the rows that the one before it has. Returns the
    /// load of it.
    fn pack_left(&mut self, factor: &Factor, shape: TileShape, space: &ProductSpace) -> ExpressionId {
        let (height, piece) = (u64::from(shape.rows), u64::from(shape.piece));
        let rows = self.matrices(factor, space, space.row());
        let [batch @ .., n, length] = &rows.extents[..] else { return factor.expression };
        let (n_tiles, n_pieces) = (n.div_ceil(height), length.div_ceil(piece));
        let packed = Layout::dense(&[batch, &[n_tiles, n_pieces, height, piece]].concat());
        let mut parts = Vec::new();
        for (tile, n_of_tiles, first_row) in spans(*n, height) {
            let whole = length / piece;
            for (of_piece, n_of_pieces, width) in [(0, whole, piece), (whole, n_pieces - whole, length % piece)] {
                if n_of_pieces == 0 {
                    continue;
                }
                let sizes = [n_of_tiles * height, n_of_pieces * width];
                let cut = [n_of_tiles, height, n_of_pieces, width];
                let value = self.cut(&rows, [first_row, of_piece * piece], sizes, &cut, &[0, 2, 1, 3]);
                let sizes = [n_of_tiles, n_of_pieces, height, width];
                parts.push((value, part_of(&packed, batch, &[tile, of_piece, 0, 0], &sizes)));
            }
        }
        let strides = [packed.strides[batch.len()], piece as i64, (height as i64 - 1) * piece as i64];
        self.load_packed(&rows, packed, parts, space, (space.tiles[0], &strides), 1)
    }

    /// Stores a right factor as tiles of columns, of each tile its rows. The last tile ends with the factor, as of left ones.
    /// A row that lies dense in memory is stored whole before the next one: tile by tile, each access would be to another page.
    /// Returns the load of it.
    fn pack_right(&mut self, factor: &Factor, shape: TileShape, space: &ProductSpace) -> ExpressionId {
        let width = u64::from(shape.columns);
        let columns = self.matrices(factor, space, space.column());
        let [batch @ .., n, length] = &columns.extents[..] else { return factor.expression };
        let packed = Layout::dense(&[batch, &[n.div_ceil(width), *length, width]].concat());
        let is_by_rows = self.is_dense_along(factor, space.column());
        let order = if is_by_rows { [2, 0, 1] } else { [0, 2, 1] };
        let mut parts = Vec::new();
        for (tile, n_of_tiles, first_column) in spans(*n, width) {
            let width = width.min(*n);
            let cut = [n_of_tiles, width, *length];
            let value = self.cut(&columns, [first_column, 0], [n_of_tiles * width, *length], &cut, &order);
            let mut part = part_of(&packed, batch, &[tile, 0, 0], &[n_of_tiles, *length, width]);
            if is_by_rows {
                let n = batch.len();
                let axes: Vec<usize> = (0..n).chain([n + 1, n, n + 2]).collect();
                part = part.permuted(&axes);
            }
            parts.push((value, part));
        }
        let strides = [packed.strides[batch.len()], 1];
        self.load_packed(&columns, packed, parts, space, (space.tiles[1], &strides), width as i64)
    }

    /// Returns a factor as a batch of matrices, of rows along `kept` and columns along the one axis that is summed over.
    fn matrices(&mut self, factor: &Factor, space: &ProductSpace, kept: Label) -> Factor {
        let batch = space.outer.iter().copied().filter(|&label| label != kept);
        let labels: Vec<Label> = batch.chain([kept]).chain(space.sums.iter().copied()).collect();
        let ordered = self.ordered(factor, &labels);
        if ordered.has(kept) {
            return ordered;
        }
        let (mut extents, mut labels) = (ordered.extents.clone(), ordered.labels.clone());
        extents.insert(extents.len() - 1, 1);
        labels.insert(labels.len() - 1, kept);
        let expression = self.viewed(ordered.expression, &ordered.extents, &ViewMap::Reshape(extents.clone()));
        Factor { expression, extents, labels }
    }

    /// Returns a part of each of a batch of matrices with its axes cut to `cut`, which are then ordered.
    fn cut(
        &mut self,
        matrices: &Factor,
        first: [u64; 2],
        sizes: [u64; 2],
        cut: &[u64],
        order: &[usize],
    ) -> ExpressionId {
        let n = matrices.extents.len() - 2;
        let batch = &matrices.extents[..n];
        let starts = std::iter::repeat_n(0, n).chain(first.map(|start| start as i64)).collect();
        let sizes = [batch, &sizes].concat();
        let slice = ViewMap::Slice { starts, sizes: sizes.clone(), steps: vec![1; n + 2] };
        let part = self.viewed(matrices.expression, &matrices.extents, &slice);
        let cut = [batch, cut].concat();
        let part = self.viewed(part, &sizes, &ViewMap::Reshape(cut.clone()));
        let axes = (0..n).chain(order.iter().map(|axis| n + axis)).collect();
        self.viewed(part, &cut, &ViewMap::Permute(axes))
    }

    /// Stores the parts of a packed factor, and returns the load of it over the space of a product.
    fn load_packed(
        &mut self,
        matrices: &Factor,
        packed: Layout,
        parts: Vec<(ExpressionId, Layout)>,
        space: &ProductSpace,
        (first, strides): (usize, &[i64]),
        step: i64,
    ) -> ExpressionId {
        let dtype = self.arena.dtype(matrices.expression);
        let stored = self.store(dtype, &packed.extents, StoredKind::Assembled { parts, fill: None });
        let mut layout = Layout { extents: space.extents.clone(), strides: vec![0; space.extents.len()], offset: 0 };
        for (&label, &stride) in matrices.labels[..matrices.labels.len() - 2].iter().zip(&packed.strides) {
            if let Some(axis) = space.axis(label) {
                layout.strides[axis] = stride;
            }
        }
        layout.strides[first..first + strides.len()].copy_from_slice(strides);
        layout.strides[space.extents.len() - 1] = step;
        self.load(stored, layout)
    }
}

/// Returns the tiles along an axis, in one or two parts: the first tile of a part, the number of its tiles, and the first
/// element. A last tile that would not be full begins earlier, or is the only one.
fn spans(n: u64, width: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let n_whole = n / width;
    let last = (n_whole * width < n).then_some((n_whole, 1, n.saturating_sub(width)));
    (n_whole > 0).then_some((0, n_whole, 0)).into_iter().chain(last)
}

fn part_of(packed: &Layout, batch: &[u64], starts: &[u64], sizes: &[u64]) -> Layout {
    let starts: Vec<i64> =
        std::iter::repeat_n(0, batch.len()).chain(starts.iter().map(|&start| start as i64)).collect();
    let sizes = [batch, sizes].concat();
    packed.sliced(&starts, &sizes, &vec![1; sizes.len()])
}
