//! Bodies of products of matrices: a block of threads has tiles of the result that lie below each other, and each thread a
//! column of them.
//!
//! A long chain is cut into pieces whose right factors stay in the nearest cache while all tiles of the block
//! use them. What a tile has summed up waits in shared memory meanwhile, each thread's own.

use super::accumulate::Accumulator;
use super::{BodyEmitter, Element};
use crate::plan::body::{BodyPass, BodyReduction, BodyStore, TileParams};
use crate::plan::tile::{MAX_GROUPED, MAX_STRIP_COLUMNS, ProductTile};
use polyloom_ir::{Expr, Op};
use std::cell::RefCell;

/// The rows of a right factor that a strip goes through side by side: so many streams the prefetchers of a processor keep up with.
const STRIP_ROWS: i64 = 8;

/// Adds the products at some indices to the sums of a tile.
type ChainStep<'s, 'g> = dyn Fn(&[Expr<'g>], &[Expr<'g>]) -> Vec<Expr<'g>> + 's;

/// The tiles of a block: where they are in the product.
struct TileColumn<'g> {
    batch: Vec<Expr<'g>>,
    /// The numbers of the first tile and of the one after the last.
    first: Expr<'g>,
    end: Expr<'g>,
    n_rows: Expr<'g>,
    /// The number of the tiles along a row.
    number: Expr<'g>,
    /// The first column that belongs to them: those before are of the neighbour, which computes them too.
    first_column: Expr<'g>,
    /// The thread's column in the tiles, and in the product.
    lane: Expr<'g>,
    column: Expr<'g>,
}

/// One tile of a block.
struct TilePlace<'g> {
    number: Expr<'g>,
    first_row: Expr<'g>,
    /// The number of each row of the tile in the product. The last tile ends with the product.
    rows: Vec<Expr<'g>>,
}

impl<'b, 'g> BodyEmitter<'b, 'g> {
    pub(super) fn integer(&self, value: i64) -> Expr<'g> {
        self.b.int(self.place_type(), value)
    }

    pub(super) fn products(&self, tile: ProductTile, params: TileParams) {
        let b = self.b;
        let extents: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let [batch @ .., n_rows, n_columns] = &extents[..] else { return };
        if tile.is_strip {
            return self.strip(tile, params, batch, *n_columns);
        }
        let (rows, columns) = (self.integer(tile.shape.rows.into()), self.integer(tile.shape.columns.into()));
        let count = |n: Expr<'g>, size: Expr<'g>| b.op(Op::FloorDiv, &[n + (size - 1), size]);
        let (n_tall, n_wide) = (count(*n_rows, rows), count(*n_columns, columns));
        let n_grouped = self.params[params.n_grouped as usize];
        let mut number = self.widened(b.block_idx(0));
        let mut coordinates = Vec::new();
        if !batch.is_empty() {
            let n_blocks = count(n_tall, n_grouped) * n_wide;
            coordinates = self.split_by(b.op(Op::FloorDiv, &[number, n_blocks]), batch);
            number = b.op(Op::Mod, &[number, n_blocks]);
        }
        let first = b.op(Op::FloorDiv, &[number, n_wide]) * n_grouped;
        let number = b.op(Op::Mod, &[number, n_wide]);
        let first_column = number * columns;
        let start = if tile.is_narrow { first_column } else { first_column.min(*n_columns - columns) };
        let lane = self.widened(b.thread_idx(0));
        let column = TileColumn {
            batch: coordinates,
            first,
            end: (first + n_grouped).min(n_tall),
            n_rows: *n_rows,
            number,
            first_column,
            lane,
            column: start + lane,
        };
        let compute = || self.tiles(tile, params, &column);
        if tile.is_narrow { b.if_then(lane.lt(*n_columns), compute) } else { compute() }
    }

    /// Computes the tiles of a block.
    fn tiles(&self, tile: ProductTile, params: TileParams, column: &TileColumn<'g>) {
        let b = self.b;
        let Some((reduction, accumulator)) = self.product() else { return };
        let sums: Vec<Expr<'g>> = self.body.inner.iter().skip(tile.n_axes()).map(|&n| self.extent(n)).collect();
        let length = sums.first().copied().unwrap_or_else(|| self.integer(1));
        let n_rows = i64::from(tile.shape.rows);
        if !tile.is_cut {
            b.for_range(column.first, column.end, 1, [], |number, []| {
                let place = self.place_of(number, tile, column);
                let zeros: Vec<Expr<'g>> = (0..n_rows).flat_map(|_| accumulator.initial(b)).collect();
                let range = (self.integer(0), self.integer(0), length);
                let sums = self.chains(tile, reduction, &place, column, range, &zeros);
                self.finish_tile(&place, column, &sums);
                []
            });
            return;
        }
        let piece = self.params[params.piece as usize];
        let n_before = b.op(Op::FloorDiv, &[length - 1, piece]);
        let n_kept = MAX_GROUPED * u32::from(tile.shape.rows) * u32::from(tile.shape.columns);
        let kept = b.shared_array(0, accumulator.dtype(), n_kept);
        let places = |number: Expr<'g>| -> Vec<Expr<'g>> {
            let first = (number - column.first) * (n_rows * i64::from(tile.shape.columns)) + column.lane;
            (0..n_rows).map(|row| first + row * i64::from(tile.shape.columns)).collect()
        };
        b.for_range(0, n_before, 1, [], |index, []| {
            b.for_range(column.first, column.end, 1, [], |number, []| {
                let places = places(number);
                let is_first = index.eq(0);
                b.if_then(is_first, || {
                    places.iter().for_each(|&place| kept.store(&[place], accumulator.initial(b)[0]));
                });
                let place = self.place_of(number, tile, column);
                let states: Vec<Expr<'g>> = places.iter().map(|&place| kept.load(&[place])).collect();
                let range = (index, index * piece, index * piece + piece);
                let sums = self.chains(tile, reduction, &place, column, range, &states);
                places.iter().zip(sums).for_each(|(&place, sum)| kept.store(&[place], sum));
                []
            });
            []
        });
        b.for_range(column.first, column.end, 1, [], |number, []| {
            let place = self.place_of(number, tile, column);
            let states: Vec<Expr<'g>> = places(number).iter().map(|&place| kept.load(&[place])).collect();
            let range = (n_before, n_before * piece, length);
            let sums = self.chains(tile, reduction, &place, column, range, &states);
            self.finish_tile(&place, column, &sums);
            []
        });
    }

    /// Computes tiles of one row side by side: some rows of the right factor at a time go by, each as it lies in memory.
    fn strip(&self, tile: ProductTile, params: TileParams, batch: &[Expr<'g>], n_columns: Expr<'g>) {
        let b = self.b;
        let columns = i64::from(tile.shape.columns);
        let n_wide = b.op(Op::FloorDiv, &[n_columns + (columns - 1), self.integer(columns)]);
        let n_grouped = self.params[params.n_grouped as usize];
        let mut number = self.widened(b.block_idx(0));
        let mut coordinates = Vec::new();
        if !batch.is_empty() {
            let n_blocks = b.op(Op::FloorDiv, &[n_wide + (n_grouped - 1), n_grouped]);
            coordinates = self.split_by(b.op(Op::FloorDiv, &[number, n_blocks]), batch);
            number = b.op(Op::Mod, &[number, n_blocks]);
        }
        let first = number * n_grouped;
        let end = (first + n_grouped).min(n_wide);
        let lane = self.widened(b.thread_idx(0));
        self.strip_tiles(columns, &coordinates, (first, end), lane, n_columns);
    }

    fn strip_tiles(
        &self,
        columns: i64,
        batch: &[Expr<'g>],
        (first, end): (Expr<'g>, Expr<'g>),
        lane: Expr<'g>,
        n_columns: Expr<'g>,
    ) {
        let b = self.b;
        let Some((reduction, accumulator)) = self.product() else { return };
        let ([left, right], [length]) = (&reduction.values[..], &self.body.inner[..]) else { return };
        let length = self.extent(*length);
        let kept = b.shared_array(0, accumulator.dtype(), MAX_STRIP_COLUMNS);
        let place_of = |number: Expr<'g>| (number - first) * columns + lane;
        let column_of = |number: Expr<'g>| {
            let first_column = number * columns;
            let start = first_column.min(n_columns - columns);
            TileColumn {
                batch: batch.to_vec(),
                first,
                end,
                n_rows: self.integer(1),
                number,
                first_column,
                lane,
                column: start + lane,
            }
        };
        let row = self.integer(0);
        b.for_range(first, end, 1, [], |number, []| {
            kept.store(&[place_of(number)], accumulator.initial(b)[0]);
            []
        });
        let element =
            |k: Expr<'g>| Element { inner: vec![k], values: RefCell::new(vec![None; self.body.expressions.len()]) };
        let add_rows = |k: Expr<'g>, n: i64| {
            // The left factor is the same for all columns.
            let of_first = self.of_row(row, &column_of(first));
            let factors: Vec<Expr<'g>> = (0..n).map(|row| of_first.value(*left, &element(k + row))).collect();
            b.for_range(first, end, 1, [], |number, []| {
                let emitter = self.of_row(row, &column_of(number));
                let place = place_of(number);
                let add = |sum: Vec<Expr<'g>>, (row, &factor): (i64, &Expr<'g>)| {
                    let own = emitter.value(*right, &element(k + row));
                    accumulator.step(&sum, &[factor, own], k)
                };
                let sum = (0..).zip(&factors).fold(vec![kept.load(&[place])], add);
                kept.store(&[place], sum[0]);
                []
            });
        };
        let n_whole = b.op(Op::FloorDiv, &[length, self.integer(STRIP_ROWS)]) * STRIP_ROWS;
        b.for_range(0, n_whole, STRIP_ROWS, [], |k, []| {
            add_rows(k, STRIP_ROWS);
            []
        });
        b.for_range(n_whole, length, 1, [], |k, []| {
            add_rows(k, 1);
            []
        });
        b.for_range(first, end, 1, [], |number, []| {
            let place = TilePlace { number: row, first_row: row, rows: vec![row] };
            self.finish_tile(&place, &column_of(number), &[kept.load(&[place_of(number)])]);
            []
        });
    }

    pub(super) fn product(&self) -> Option<(&'b BodyReduction, Accumulator)> {
        let reduction = self.body.passes.iter().flat_map(|pass| &pass.reductions).next()?;
        Some((reduction, self.accumulator(reduction)))
    }

    fn place_of(&self, number: Expr<'g>, tile: ProductTile, column: &TileColumn<'g>) -> TilePlace<'g> {
        let n_rows = i64::from(tile.shape.rows);
        let first_row = number * n_rows;
        let start = first_row.min(column.n_rows - n_rows);
        TilePlace { number, first_row, rows: (0..n_rows).map(|row| start + row).collect() }
    }

    fn of_row(&self, row: Expr<'g>, column: &TileColumn<'g>) -> BodyEmitter<'b, 'g> {
        let outer = [&column.batch[..], &[row, column.column]].concat();
        BodyEmitter { outer, ..BodyEmitter::new(self.body, self.b, self.params) }
    }

    /// Adds the products of a range to the sums of a tile, one for each row.
    fn chains(
        &self,
        tile: ProductTile,
        reduction: &BodyReduction,
        place: &TilePlace<'g>,
        column: &TileColumn<'g>,
        (piece, first, end): (Expr<'g>, Expr<'g>, Expr<'g>),
        states: &[Expr<'g>],
    ) -> Vec<Expr<'g>> {
        let [left, right] = reduction.values[..] else { return states.to_vec() };
        let accumulator = self.accumulator(reduction);
        let rows: Vec<BodyEmitter<'b, 'g>> = place.rows.iter().map(|&row| self.of_row(row, column)).collect();
        let element = |row: usize, indices: &[Expr<'g>]| {
            let mut inner = Vec::new();
            if tile.shape.packs_left {
                inner.extend([place.number, self.integer(row as i64), piece]);
            }
            if tile.shape.packs_right {
                inner.extend([column.number, column.lane]);
            }
            inner.extend(indices);
            Element { inner, values: RefCell::new(vec![None; self.body.expressions.len()]) }
        };
        let step = |indices: &[Expr<'g>], states: &[Expr<'g>]| -> Vec<Expr<'g>> {
            let shared = rows.first().map(|emitter| emitter.value(right, &element(0, indices)));
            let step = |(row, (emitter, state)): (usize, (&BodyEmitter<'_, 'g>, &Expr<'g>))| {
                let factor = emitter.value(left, &element(row, indices));
                shared.map_or_else(Vec::new, |shared| accumulator.step(&[*state], &[factor, shared], factor))
            };
            rows.iter().zip(states).enumerate().flat_map(step).collect()
        };
        let sums = &self.body.inner[tile.n_axes().min(self.body.inner.len())..];
        let rest: Vec<Expr<'g>> = sums.iter().skip(1).map(|&n| self.extent(n)).collect();
        if sums.is_empty() {
            return step(&[], states);
        }
        self.b.for_range_many(first, end, 1, states, |k, states| self.nested(&rest, &[k], states, &step))
    }

    /// Takes steps for all indices along further axes, in row-major order.
    fn nested(
        &self,
        extents: &[Expr<'g>],
        indices: &[Expr<'g>],
        states: &[Expr<'g>],
        step: &ChainStep<'_, 'g>,
    ) -> Vec<Expr<'g>> {
        let [extent, rest @ ..] = extents else { return step(indices, states) };
        self.b.for_range_many(0, *extent, 1, states, |k, states| {
            self.nested(rest, &[indices, &[k]].concat(), states, step)
        })
    }

    /// Stores what is stored of a tile, given its sums.
    fn finish_tile(&self, place: &TilePlace<'g>, column: &TileColumn<'g>, sums: &[Expr<'g>]) {
        let Some((reduction, accumulator)) = self.product() else { return };
        for (&row, &sum) in place.rows.iter().zip(sums) {
            let emitter = self.of_row(row, column);
            let total = |pass: &BodyPass| {
                pass.reductions.iter().map(|_| accumulator.finish(&[sum], reduction.dtype)).collect::<Vec<_>>()
            };
            *emitter.totals.borrow_mut() = self.body.passes.iter().map(total).collect();
            let stores = self.body.passes.iter().flat_map(|pass| &pass.row_stores);
            // The rows and columns before are the neighbours'.
            self.b.if_then(row.ge(place.first_row), || {
                self.b.if_then(column.column.ge(column.first_column), || {
                    stores.for_each(|store| emitter.store_of_row(store));
                });
            });
        }
    }

    pub(super) fn store_of_row(&self, store: &BodyStore) {
        let zeros: Vec<Expr<'g>> = self.body.inner.iter().map(|_| self.integer(0)).collect();
        let value = self.row_value(store.value);
        self.store(&store.address, &zeros, value);
    }
}
