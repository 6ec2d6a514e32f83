//! Bodies of products of matrices: a block of threads has a tile of the result, each thread some rows of a column.

use super::accumulate::Accumulator;
use super::{BodyEmitter, Element};
use crate::plan::body::{BodyPass, BodyStore};
use crate::plan::tile::ProductTile;
use polyloom_ir::{Expr, Op};
use std::cell::RefCell;

/// The place of a tile in the product.
struct TilePlace<'g> {
    /// Its number along a column, and along a row.
    tile: [Expr<'g>; 2],
    /// The first row and column that belong to it: those before are of its neighbour, which computes them too.
    first: [Expr<'g>; 2],
    /// The row and column that the block begins at, so that it ends within the product.
    start: [Expr<'g>; 2],
    /// The thread's column in the tile, and in the product.
    lane: Expr<'g>,
    column: Expr<'g>,
}

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn tiles(&self, tile: ProductTile, n_grouped: u16) {
        let b = self.b;
        let extents: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let [batch @ .., n_rows, n_columns] = &extents[..] else { return };
        let int = |value: i64| b.int(self.place_type(), value);
        let (rows, columns) = (int(tile.rows.into()), int(tile.columns.into()));
        let count = |n: Expr<'g>, size: Expr<'g>| b.op(Op::FloorDiv, &[n + (size - 1), size]);
        let counts = [count(*n_rows, rows), count(*n_columns, columns)];
        let mut number = self.widened(b.block_idx(0));
        let mut coordinates = Vec::new();
        if !batch.is_empty() {
            let n_tiles = counts[0] * counts[1];
            coordinates = self.split_by(b.op(Op::FloorDiv, &[number, n_tiles]), batch);
            number = b.op(Op::Mod, &[number, n_tiles]);
        }
        // Tiles along a column in groups, whose left factors stay in cache.
        let grouped = self.params[n_grouped as usize];
        let n_of_group = grouped * counts[1];
        let first_tile = b.op(Op::FloorDiv, &[number, n_of_group]) * grouped;
        let within = b.op(Op::Mod, &[number, n_of_group]);
        let n_tall = (counts[0] - first_tile).min(grouped);
        let numbers = [first_tile + b.op(Op::Mod, &[within, n_tall]), b.op(Op::FloorDiv, &[within, n_tall])];
        let first = [numbers[0] * rows, numbers[1] * columns];
        let last_column = if tile.is_narrow { int(0) } else { *n_columns - columns };
        let start = [first[0].min(*n_rows - rows), first[1].min(last_column)];
        let lane = self.widened(b.thread_idx(0));
        let place = TilePlace { tile: numbers, first, start, lane, column: start[1] + lane };
        let compute = || self.tile(tile, &coordinates, &place);
        if tile.is_narrow { b.if_then(lane.lt(*n_columns), compute) } else { compute() }
    }

    fn tile(&self, tile: ProductTile, batch: &[Expr<'g>], place: &TilePlace<'g>) {
        let rows: Vec<(Expr<'g>, BodyEmitter<'_, 'g>)> = (0..i64::from(tile.rows))
            .map(|row| {
                let row = place.start[0] + row;
                let outer = [batch, &[row, place.column]].concat();
                (row, BodyEmitter { outer, ..BodyEmitter::new(self.body, self.b, self.params) })
            })
            .collect();
        for (index, pass) in self.body.passes.iter().enumerate() {
            for (row, emitter) in &rows {
                for store in &pass.row_stores {
                    emitter.store_of_tile(store, *row, place);
                }
                emitter.compute_of_row(index, pass);
            }
            let emitters: Vec<&BodyEmitter<'_, 'g>> = rows.iter().map(|(_, emitter)| emitter).collect();
            let totals = self.products(tile, pass, &emitters, place);
            for (emitter, total) in emitters.iter().zip(totals) {
                emitter.totals.borrow_mut().push(total.into_iter().collect());
            }
        }
    }

    /// Stores a value of a row, unless the row or the column is the neighbour's.
    fn store_of_tile(&self, store: &BodyStore, row: Expr<'g>, place: &TilePlace<'g>) {
        let zeros: Vec<Expr<'g>> = self.body.inner.iter().map(|_| self.b.int(self.place_type(), 0)).collect();
        self.b.if_then(row.ge(place.first[0]), || {
            self.b.if_then(place.column.ge(place.first[1]), || {
                let emitter = BodyEmitter { outer: self.outer.clone(), ..BodyEmitter::new(self.body, self.b, self.params) };
                *emitter.totals.borrow_mut() = self.totals.borrow().clone();
                let value = emitter.row_value(store.value);
                emitter.store(&store.address, &zeros, value);
            });
        });
    }

    /// Computes the chains of a column, one for each row.
    fn products(
        &self,
        tile: ProductTile,
        pass: &BodyPass,
        rows: &[&BodyEmitter<'_, 'g>],
        place: &TilePlace<'g>,
    ) -> Vec<Option<Expr<'g>>> {
        let [reduction] = &pass.reductions[..] else { return vec![None; rows.len()] };
        let [left, right] = reduction.values[..] else { return vec![None; rows.len()] };
        let accumulator: Accumulator = self.accumulator(reduction);
        let initial: Vec<Expr<'g>> = rows.iter().flat_map(|_| accumulator.initial(self.b)).collect();
        let length = self.body.inner.last().map_or_else(|| self.b.int(self.place_type(), 1), |&n| self.extent(n));
        let element = |row: usize, k: Expr<'g>| {
            let row = self.b.int(self.place_type(), row as i64);
            let mut inner = Vec::new();
            if tile.has_packed_left {
                inner.extend([place.tile[0], row]);
            }
            if tile.has_packed_right {
                inner.extend([place.tile[1], place.lane]);
            }
            inner.push(k);
            Element { inner, values: RefCell::new(vec![None; self.body.expressions.len()]) }
        };
        let totals = self.b.for_range_many(0, length, 1, &initial, |k, states| {
            let shared = rows.first().map(|emitter| emitter.value(right, &element(0, k)));
            let step = |(row, (emitter, state)): (usize, (&&BodyEmitter<'_, 'g>, &Expr<'g>))| {
                let factor = emitter.value(left, &element(row, k));
                shared.map_or_else(Vec::new, |shared| accumulator.step(&[*state], &[factor, shared], k))
            };
            rows.iter().zip(states).enumerate().flat_map(step).collect()
        });
        totals.iter().map(|&total| Some(accumulator.finish(&[total], reduction.dtype))).collect()
    }
}
