//! Products of matrices.

use super::reduce::kept_layout;
use super::{StoredKind, TranslatedValue, Translator};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::ReductionSpace;
use crate::plan::tile::{ProductSize, ProductTile, TileShape};
use polyloom_ir::Scalar;

/// A factor as a batch of matrices: `[batch…, rows, columns]`.
struct Factor {
    expression: ExpressionId,
    extents: Vec<u64>,
}

impl Factor {
    fn batch(&self) -> &[u64] {
        &self.extents[..self.extents.len() - 2]
    }

    fn n_rows(&self) -> u64 {
        self.extents[self.extents.len() - 2]
    }

    fn length(&self) -> u64 {
        self.extents[self.extents.len() - 1]
    }
}

/// The space of a product: a batch, rows and columns, the axes of packed factors, and the axis that is summed over.
struct ProductSpace {
    extents: Vec<u64>,
    n_batch: usize,
}

impl Translator<'_> {
    pub(super) fn multiply(
        &mut self,
        a: &TranslatedValue,
        b: &TranslatedValue,
        extents: &[u64],
        dtype: Scalar,
    ) -> ExpressionId {
        let length = a.extents.last().copied().unwrap_or(1);
        let (a_is_row, b_is_column) = (a.extents.len() == 1, b.extents.len() == 1);
        let batch = &extents[..extents.len() - usize::from(!a_is_row) - usize::from(!b_is_column)];
        let rows = if a_is_row { 1 } else { a.extents[a.extents.len() - 2] };
        let columns = if b_is_column { 1 } else { b.extents[b.extents.len() - 1] };
        let a_batch = &a.extents[..a.extents.len().saturating_sub(2)];
        let b_batch = &b.extents[..b.extents.len().saturating_sub(2)];
        let left = self.factor(a, [a_batch, &[rows, length]].concat());
        let right = self.factor(b, [b_batch, &[length, columns]].concat());
        let outer = [batch, &[rows, columns]].concat();
        let has_dense_rows = self.has_dense_rows(right.expression);
        let size = ProductSize { rows, columns, length, dtype, has_dense_rows };
        let tile = ProductTile::choose(&size, self.options);
        let (packs_left, packs_right) =
            tile.map_or((false, false), |tile| (tile.shape.packs_left, tile.shape.packs_right));
        let mut inner = Vec::new();
        if let Some(ProductTile { shape, .. }) = tile {
            let (n_tall, n_wide) = shape.counts(rows, columns);
            if packs_left {
                inner.extend([n_tall, shape.rows.into(), length.div_ceil(shape.piece.into())]);
            }
            if packs_right {
                inner.extend([n_wide, shape.columns.into()]);
            }
        }
        let first_tiles = outer.len()..outer.len() + inner.len();
        inner.push(length);
        let space = ProductSpace { extents: [&outer[..], &inner[..]].concat(), n_batch: batch.len() };
        let left = match tile.filter(|_| packs_left) {
            Some(tile) => self.pack_left(&left, tile.shape, &space, first_tiles.start),
            None => self.spread(&left, 0, &space),
        };
        let right = match tile.filter(|_| packs_right) {
            Some(tile) => self.pack_right(&right, tile.shape, &space, first_tiles.end - 2),
            None => self.spread(&right, 1, &space),
        };
        let space = ReductionSpace::of_product(outer.clone(), inner, tile);
        let stored = self.store(
            dtype,
            &outer,
            StoredKind::Reduction { op: TensorOp::MatMul, operands: vec![left, right], space },
        );
        self.load(stored, Layout { extents: extents.to_vec(), ..kept_layout(&outer, extents) })
    }

    fn factor(&mut self, value: &TranslatedValue, extents: Vec<u64>) -> Factor {
        let expression = self.viewed(value.expression, &value.extents, &ViewMap::Reshape(extents.clone()));
        Factor { expression, extents }
    }

    /// Returns true if an expression is a load of elements that lie side by side along the last axis.
    fn has_dense_rows(&self, expression: ExpressionId) -> bool {
        let mut is_dense = true;
        self.arena.visit(&[expression], |id| {
            if let ExpressionKind::Load(_, layout) = &self.arena.get(id).kind {
                is_dense &= layout.strides.last().is_some_and(|stride| (0..=1).contains(stride));
            }
        });
        is_dense
    }

    /// Orders the axes of a factor's matrix: the one that is summed over, which is the other one than `kept`, is the last.
    fn rows_of(&mut self, factor: &Factor, kept: usize) -> Factor {
        let n = factor.batch().len();
        let axes: Vec<usize> = (0..n).chain([n + kept, n + 1 - kept]).collect();
        let expression = self.viewed(factor.expression, &factor.extents, &ViewMap::Permute(axes.clone()));
        Factor { expression, extents: axes.iter().map(|&axis| factor.extents[axis]).collect() }
    }

    /// Returns a factor over the space of a product. `kept` is the axis of its matrix that is not summed over.
    fn spread(&mut self, factor: &Factor, kept: usize, space: &ProductSpace) -> ExpressionId {
        let is_plain = matches!(self.arena.get(factor.expression).kind, ExpressionKind::Load(..));
        let expression =
            if is_plain { factor.expression } else { self.load_stored(factor.expression, &factor.extents) };
        let rows = self.rows_of(&Factor { expression, extents: factor.extents.clone() }, kept);
        let last = space.extents.len() - 1;
        let own = |axis: usize| if axis == space.n_batch + kept || axis == last { space.extents[axis] } else { 1 };
        let widened: Vec<u64> = rows.batch().iter().copied().chain((space.n_batch..=last).map(own)).collect();
        let reshaped = self.viewed(rows.expression, &rows.extents, &ViewMap::Reshape(widened.clone()));
        self.viewed(reshaped, &widened, &ViewMap::Broadcast(space.extents.clone()))
    }

    /// Stores a left factor in the order in which tiles read it: tiles of rows, of each tile the pieces of its chains, of each
    /// piece the rows. The last tile ends with the factor, and has in part the rows that the one before it has. Returns the
    /// load of it; tiles, their rows and the pieces are axes of the space from `first` on.
    fn pack_left(&mut self, factor: &Factor, shape: TileShape, space: &ProductSpace, first: usize) -> ExpressionId {
        let (height, piece) = (u64::from(shape.rows), u64::from(shape.piece));
        let rows = self.rows_of(factor, 0);
        let (n, length) = (rows.n_rows(), rows.length());
        let (n_tiles, n_pieces) = (n.div_ceil(height), length.div_ceil(piece));
        let packed = Layout::dense(&[rows.batch(), &[n_tiles, n_pieces, height, piece]].concat());
        let mut parts = Vec::new();
        for (tile, n_of_tiles, first_row) in spans(n, height) {
            let whole = length / piece;
            for (of_piece, n_of_pieces, width) in [(0, whole, piece), (whole, n_pieces - whole, length % piece)] {
                if n_of_pieces == 0 {
                    continue;
                }
                let sizes = [n_of_tiles * height, n_of_pieces * width];
                let cut = [n_of_tiles, height, n_of_pieces, width];
                let value = self.cut(&rows, [first_row, of_piece * piece], sizes, &cut, &[0, 2, 1, 3]);
                let sizes = [n_of_tiles, n_of_pieces, height, width];
                parts.push((value, part_of(&packed, rows.batch(), &[tile, of_piece, 0, 0], &sizes)));
            }
        }
        let strides = [packed.strides[rows.batch().len()], piece as i64, (height as i64 - 1) * piece as i64];
        self.load_packed(&rows, packed, parts, space, (first, &strides), 1)
    }

    /// Stores a right factor as tiles of columns, of each tile its rows. The last tile ends with the factor, as of left ones.
    /// Returns the load of it; tiles and their columns are axes of the space from `first` on.
    fn pack_right(&mut self, factor: &Factor, shape: TileShape, space: &ProductSpace, first: usize) -> ExpressionId {
        let width = u64::from(shape.columns);
        let columns = self.rows_of(factor, 1);
        let (n, length) = (columns.n_rows(), columns.length());
        let packed = Layout::dense(&[columns.batch(), &[n.div_ceil(width), length, width]].concat());
        let mut parts = Vec::new();
        for (tile, n_of_tiles, first_column) in spans(n, width) {
            let width = width.min(n);
            let cut = [n_of_tiles, width, length];
            let value = self.cut(&columns, [first_column, 0], [n_of_tiles * width, length], &cut, &[0, 2, 1]);
            parts.push((value, part_of(&packed, columns.batch(), &[tile, 0, 0], &[n_of_tiles, length, width])));
        }
        let strides = [packed.strides[columns.batch().len()], 1];
        self.load_packed(&columns, packed, parts, space, (first, &strides), width as i64)
    }

    /// Returns a part of a factor's rows with its axes cut to `cut`, which are then ordered.
    fn cut(
        &mut self,
        rows: &Factor,
        first: [u64; 2],
        sizes: [u64; 2],
        cut: &[u64],
        order: &[usize],
    ) -> ExpressionId {
        let (batch, n) = (rows.batch(), rows.batch().len());
        let starts = std::iter::repeat_n(0, n).chain(first.map(|start| start as i64)).collect();
        let sizes = [batch, &sizes].concat();
        let slice = ViewMap::Slice { starts, sizes: sizes.clone(), steps: vec![1; n + 2] };
        let part = self.viewed(rows.expression, &rows.extents, &slice);
        let cut = [batch, cut].concat();
        let part = self.viewed(part, &sizes, &ViewMap::Reshape(cut.clone()));
        let axes = (0..n).chain(order.iter().map(|axis| n + axis)).collect();
        self.viewed(part, &cut, &ViewMap::Permute(axes))
    }

    /// Stores the parts of a packed factor, and returns the load of it over the space of a product.
    fn load_packed(
        &mut self,
        rows: &Factor,
        packed: Layout,
        parts: Vec<(ExpressionId, Layout)>,
        space: &ProductSpace,
        (first, strides): (usize, &[i64]),
        step: i64,
    ) -> ExpressionId {
        let dtype = self.arena.dtype(rows.expression);
        let stored = self.store(dtype, &packed.extents, StoredKind::Assembled { parts, fill: None });
        let n = rows.batch().len();
        let batch = Layout { extents: rows.batch().to_vec(), strides: packed.strides[..n].to_vec(), offset: 0 };
        let (batch_extents, extents) = space.extents.split_at(space.n_batch);
        let mut layout = batch.broadcast_to(batch_extents).repeated(extents);
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
