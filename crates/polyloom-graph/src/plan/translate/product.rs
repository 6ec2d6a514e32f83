//! Products of matrices.

use super::reduce::kept_layout;
use super::{StoredKind, TranslatedValue, Translator};
use crate::layout::Layout;
use crate::op::TensorOp;
use crate::plan::expression::{ExpressionId, ExpressionKind, ViewMap};
use crate::plan::reduction::ReductionSpace;
use crate::plan::tile::{ProductSize, ProductTile};
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
        let (has_packed_left, has_packed_right) =
            tile.map_or((false, false), |tile| (tile.has_packed_left, tile.has_packed_right));
        let mut inner = Vec::new();
        if let Some(tile) = tile {
            let (n_tall, n_wide) = tile.counts(rows, columns);
            inner.extend(has_packed_left.then_some([n_tall, tile.rows.into()]).into_iter().flatten());
            inner.extend(has_packed_right.then_some([n_wide, tile.columns.into()]).into_iter().flatten());
        }
        inner.push(length);
        let space = [&outer[..], &inner[..]].concat();
        // The places of a factor's rows or columns in the space, and of its numbers of tiles.
        let left_axes = batch.len()..batch.len() + 1;
        let right_axes = batch.len() + 1..batch.len() + 2;
        let left_tiles = outer.len()..outer.len() + 2;
        let right_tiles = space.len() - 3..space.len() - 1;
        let left = match tile.filter(|_| has_packed_left) {
            Some(tile) => self.pack(&left, 0, tile.rows.into(), &space, batch.len(), left_tiles.start),
            None => self.spread(&left, 0, &space, batch.len(), left_axes.start),
        };
        let right = match tile.filter(|_| has_packed_right) {
            Some(tile) => self.pack(&right, 1, tile.columns.into(), &space, batch.len(), right_tiles.start),
            None => self.spread(&right, 1, &space, batch.len(), right_axes.start),
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

    /// Returns a factor over the space of a product. `kept` is the axis of the factor's matrix that is not summed over, which is
    /// axis `place` of the space.
    fn spread(
        &mut self,
        factor: &Factor,
        kept: usize,
        space: &[u64],
        n_batch: usize,
        place: usize,
    ) -> ExpressionId {
        let is_plain = matches!(self.arena.get(factor.expression).kind, ExpressionKind::Load(..));
        let loaded =
            if is_plain { factor.expression } else { self.load_stored(factor.expression, &factor.extents) };
        let n_own = factor.batch().len();
        let axes: Vec<usize> = (0..n_own).chain([n_own + kept, n_own + 1 - kept]).collect();
        let ordered = self.viewed(loaded, &factor.extents, &ViewMap::Permute(axes));
        let ordered_extents = [factor.batch(), &[factor.extents[n_own + kept], factor.extents[n_own + 1 - kept]]].concat();
        let widened: Vec<u64> = (n_batch..space.len())
            .map(|axis| if axis == place || axis + 1 == space.len() { space[axis] } else { 1 })
            .collect();
        let widened = [factor.batch(), &widened[..]].concat();
        let reshaped = self.viewed(ordered, &ordered_extents, &ViewMap::Reshape(widened.clone()));
        self.viewed(reshaped, &widened, &ViewMap::Broadcast(space.to_vec()))
    }

    /// Stores a factor tile by tile, as `[batch…, tile, element of the sum, row or column of the tile]`, and returns the load of
    /// it over the space of a product, whose axes `place` and `place + 1` number tiles and what is in them. The last tile ends
    /// with the factor, and has in part what the one before it has.
    fn pack(
        &mut self,
        factor: &Factor,
        kept: usize,
        width: u64,
        space: &[u64],
        n_batch: usize,
        place: usize,
    ) -> ExpressionId {
        let n_own = factor.batch().len();
        let (n, length) = (factor.extents[n_own + kept], factor.extents[n_own + 1 - kept]);
        let axes: Vec<usize> = (0..n_own).chain([n_own + kept, n_own + 1 - kept]).collect();
        let ordered = self.viewed(factor.expression, &factor.extents, &ViewMap::Permute(axes));
        let (n_whole, n_tiles) = (n / width, n.div_ceil(width));
        let packed_extents = [factor.batch(), &[n_tiles, length, width]].concat();
        let packed = Layout::dense(&packed_extents);
        let mut part = |first: u64, n_of_part: u64, tile: u64| {
            let starts: Vec<i64> = std::iter::repeat_n(0, n_own).chain([first as i64, 0]).collect();
            let width = width.min(n);
            let sizes = [factor.batch(), &[n_of_part * width, length]].concat();
            let steps = vec![1; n_own + 2];
            let rows = ViewMap::Slice { starts, sizes: sizes.clone(), steps: steps.clone() };
            let of_rows = self.viewed(ordered, &[factor.batch(), &[n, length]].concat(), &rows);
            let cut = [factor.batch(), &[n_of_part, width, length]].concat();
            let of_tiles = self.viewed(of_rows, &sizes, &ViewMap::Reshape(cut.clone()));
            let axes: Vec<usize> = (0..n_own).chain([n_own, n_own + 2, n_own + 1]).collect();
            let value = self.viewed(of_tiles, &cut, &ViewMap::Permute(axes));
            let starts: Vec<i64> = std::iter::repeat_n(0, n_own).chain([tile as i64, 0, 0]).collect();
            let sizes = [factor.batch(), &[n_of_part, length, width]].concat();
            (value, packed.sliced(&starts, &sizes, &vec![1; n_own + 3]))
        };
        let mut parts = Vec::new();
        if n_whole > 0 {
            parts.push(part(0, n_whole, 0));
        }
        if n_whole < n_tiles {
            parts.push(part(n.saturating_sub(width), 1, n_whole));
        }
        let dtype = self.arena.dtype(factor.expression);
        let stored = self.store(dtype, &packed_extents, StoredKind::Assembled { parts, fill: None });
        let own = Layout::dense(&packed_extents);
        let batch = Layout {
            extents: factor.batch().to_vec(),
            strides: own.strides[..n_own].to_vec(),
            offset: 0,
        };
        let mut layout = batch.broadcast_to(&space[..n_batch]).repeated(&space[n_batch..]);
        layout.strides[place] = own.strides[n_own];
        layout.strides[place + 1] = 1;
        layout.strides[space.len() - 1] = width as i64;
        self.load(stored, layout)
    }
}
