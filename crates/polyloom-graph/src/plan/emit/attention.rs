//! Bodies of attention: a block of threads has some queries, and goes over blocks of keys with a running maximum and sum.
//!
//! The order is that of [`crate::reference`]. Scores lie in registers, a key for each thread; what they become waits in shared
//! memory while threads go along values, a column of them each.

use super::{BodyEmitter, Element};
use crate::op::TensorOp;
use crate::plan::body::BodyReduction;
use crate::plan::tile::{AttentionTile, VALUE_LANES};
use crate::reference::{N_KEYS, N_LANES};
use polyloom_ir::{Expr, Op, Scalar};
use std::cell::RefCell;

/// The groups of 32 keys that a block of them has.
const N_KEY_GROUPS: usize = N_KEYS as usize / N_LANES;

/// The queries of a block of threads, and what is the same for all of them.
struct AttentionRows<'b, 'g> {
    emitters: Vec<BodyEmitter<'b, 'g>>,
    /// The number of keys that each query looks at.
    n_seen: Vec<Expr<'g>>,
    n_keys: Expr<'g>,
    lane: Expr<'g>,
    /// The columns of values of the thread.
    columns: Vec<Expr<'g>>,
    dtype: Scalar,
    /// The weights of a block of keys, and the lanes of what is combined.
    weights: Expr<'g>,
    lanes: Expr<'g>,
}

/// The state of the queries after some blocks of keys.
struct RunningRows<'g> {
    most: Vec<Expr<'g>>,
    sums: Vec<Expr<'g>>,
    /// Sums of values: for each query, for each column of the thread.
    values: Vec<Vec<Expr<'g>>>,
}

impl<'g> RunningRows<'g> {
    fn flat(&self) -> Vec<Expr<'g>> {
        [&self.most[..], &self.sums[..], &self.values.concat()[..]].concat()
    }

    fn of(flat: &[Expr<'g>], n_rows: usize) -> RunningRows<'g> {
        let (most, rest) = flat.split_at(n_rows);
        let (sums, values) = rest.split_at(n_rows);
        let n_groups = values.len() / n_rows;
        RunningRows {
            most: most.to_vec(),
            sums: sums.to_vec(),
            values: values.chunks(n_groups).map(<[Expr<'g>]>::to_vec).collect(),
        }
    }
}

impl<'b, 'g> BodyEmitter<'b, 'g> {
    pub(super) fn attention(&self, tile: AttentionTile) {
        let Some(reduction) = self.body.passes.iter().flat_map(|pass| &pass.reductions).next() else { return };
        let b = self.b;
        let outer: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let inner: Vec<Expr<'g>> = self.body.inner.iter().map(|&axis| self.extent(axis)).collect();
        let ([batch @ .., n_queries], [n_blocks, _, _, n_keys, value_width]) = (&outer[..], &inner[..]) else { return };
        let n_rows = i64::from(tile.rows);
        let count = |n: Expr<'g>, size: i64| b.op(Op::FloorDiv, &[n + (size - 1), self.integer(size)]);
        let n_tiles = count(*n_queries, n_rows);
        // Wide values are dealt out to several blocks of threads, each of which finds the weights anew.
        let n_chunks = count(*value_width, i64::from(tile.n_groups) * VALUE_LANES as i64);
        let number = self.widened(b.block_idx(0));
        let extents = [batch, &[n_chunks, n_tiles]].concat();
        let mut place = self.split_by(number, &extents);
        let (Some(tile_number), Some(chunk)) = (place.pop(), place.pop()) else { return };
        let first_row = tile_number * n_rows;
        let start = first_row.min(*n_queries - n_rows);
        let lane = self.widened(b.thread_idx(0));
        let first_column = chunk * (i64::from(tile.n_groups) * VALUE_LANES as i64) + lane;
        let of_row = |row: i64| {
            let outer = [&place[..], &[start + row]].concat();
            BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) }
        };
        let seen = |row: i64| match tile.is_causal {
            true => (start + row + (*n_keys - *n_queries) + 1).max(self.integer(0)),
            false => *n_keys,
        };
        let dtype = self.accumulator(reduction).dtype();
        let rows = AttentionRows {
            emitters: (0..n_rows).map(of_row).collect(),
            n_seen: (0..n_rows).map(seen).collect(),
            n_keys: *n_keys,
            lane,
            columns: (0..i64::from(tile.n_groups)).map(|group| first_column + group * VALUE_LANES as i64).collect(),
            dtype,
            weights: b.shared_array(0, dtype, n_rows as u32 * N_KEYS as u32),
            lanes: b.shared_array(1, dtype, n_rows as u32 * N_LANES as u32),
        };
        let n_visited = match (tile.is_causal, rows.n_seen.last()) {
            (true, Some(&seen)) => count(seen, N_KEYS as i64).min(*n_blocks),
            _ => *n_blocks,
        };
        let zero = b.float(dtype, 0.0);
        let initial = RunningRows {
            most: vec![b.float(dtype, f64::NEG_INFINITY); n_rows as usize],
            sums: vec![zero; n_rows as usize],
            values: vec![vec![zero; tile.n_groups.into()]; n_rows as usize],
        };
        let results = b.for_range_many(0, n_visited, 1, &initial.flat(), |block, flat| {
            self.attend_to_block(tile, reduction, &rows, block, &RunningRows::of(flat, n_rows as usize)).flat()
        });
        let results = RunningRows::of(&results, n_rows as usize);
        let Some(address) = &reduction.scanned else { return };
        for (row, emitter) in rows.emitters.iter().enumerate() {
            let one = b.float(dtype, 1.0);
            let reciprocal = self.apply(TensorOp::Divide, &[one, results.sums[row]], dtype);
            b.if_then((start + row as i64).ge(first_row), || {
                for (&column, &value) in rows.columns.iter().zip(&results.values[row]) {
                    b.if_then(column.lt(*value_width), || {
                        let value = value * reciprocal;
                        let value = if dtype == reduction.dtype { value } else { value.cast(reduction.dtype) };
                        emitter.store(address, &self.attention_element(&[(4, column)]), value);
                    });
                }
            });
        }
    }

    /// The coordinates of an element along the inner axes, of which some are not 0.
    fn attention_element(&self, known: &[(usize, Expr<'g>)]) -> Vec<Expr<'g>> {
        let mut inner = vec![self.integer(0); self.body.inner.len()];
        for &(axis, coordinate) in known {
            inner[axis] = coordinate;
        }
        inner
    }

    fn attention_operand(
        &self,
        reduction: &BodyReduction,
        operand: usize,
        known: &[(usize, Expr<'g>)],
        dtype: Scalar,
    ) -> Expr<'g> {
        let inner = self.attention_element(known);
        let element = Element { inner, values: RefCell::new(vec![None; self.body.expressions.len()]) };
        let value = self.value(reduction.values[operand], &element);
        if value.scalar() == dtype { value } else { value.cast(dtype) }
    }

    fn attend_to_block(
        &self,
        tile: AttentionTile,
        reduction: &BodyReduction,
        rows: &AttentionRows<'b, 'g>,
        block: Expr<'g>,
        before: &RunningRows<'g>,
    ) -> RunningRows<'g> {
        let b = self.b;
        let (dtype, n_rows) = (rows.dtype, rows.emitters.len());
        let first_key = block * N_KEYS as i64;
        let scores = self.scores(reduction, rows, block);
        let key = |group: usize| first_key + rows.lane + (group * N_LANES) as i64;
        let is_seen = |row: usize, group: usize| key(group).lt(rows.n_seen[row]);
        let scale = self.attention_operand(reduction, 3, &[], dtype);
        let lowest = b.float(dtype, f64::NEG_INFINITY);
        let zero = b.float(dtype, 0.0);
        let masked: Vec<Vec<Expr<'g>>> = (0..n_rows)
            .map(|row| {
                let scaled = |group: usize| is_seen(row, group).select(scores[row][group] * scale, lowest);
                (0..N_KEY_GROUPS).map(scaled).collect()
            })
            .collect();
        let maximum = |x: Expr<'g>, y: Expr<'g>| self.apply(TensorOp::Maximum, &[x, y], dtype);
        let of_lanes = masked.iter().map(|groups| groups.iter().copied().reduce(maximum).unwrap_or(lowest));
        let of_block = self.across_lanes_of_rows(rows, &of_lanes.collect::<Vec<_>>(), &maximum);
        let most: Vec<Expr<'g>> = (0..n_rows).map(|row| maximum(before.most[row], of_block[row])).collect();
        let exponential = |x: Expr<'g>| self.apply(TensorOp::Exp, &[x], dtype);
        let mut of_lanes = Vec::new();
        for row in 0..n_rows {
            let weight = |group: usize| is_seen(row, group).select(exponential(masked[row][group] - most[row]), zero);
            let weights: Vec<Expr<'g>> = (0..N_KEY_GROUPS).map(weight).collect();
            for (group, &weight) in weights.iter().enumerate() {
                rows.weights.store(&[rows.lane + (row * N_KEYS as usize + group * N_LANES) as i64], weight);
            }
            of_lanes.push(weights.into_iter().reduce(|x, y| x + y).unwrap_or(zero));
        }
        let of_block = self.across_lanes_of_rows(rows, &of_lanes, &|x, y| x + y);
        // A query that looks at no key of the block stays as it is.
        let visits: Vec<Expr<'g>> = rows.n_seen.iter().map(|&seen| seen.gt(first_key)).collect();
        let one = b.float(dtype, 1.0);
        let kept: Vec<Expr<'g>> = (0..n_rows)
            .map(|row| {
                let kept = exponential(before.most[row] - most[row]);
                if tile.is_causal { visits[row].select(kept, one) } else { kept }
            })
            .collect();
        let sums = (0..n_rows).map(|row| before.sums[row] * kept[row] + of_block[row]).collect();
        let values: Vec<Vec<Expr<'g>>> = before
            .values
            .iter()
            .zip(&kept)
            .map(|(groups, &kept)| groups.iter().map(|&value| value * kept).collect())
            .collect();
        let n_of_block = (rows.n_keys - first_key).min(self.integer(N_KEYS as i64));
        let values = self.add_values(tile, reduction, rows, (first_key, n_of_block), values);
        // The next block writes other weights.
        b.sync_threads();
        RunningRows { most, sums, values }
    }

    /// Returns the products of queries with the keys of a block: for each query, for each group of keys.
    fn scores(&self, reduction: &BodyReduction, rows: &AttentionRows<'b, 'g>, block: Expr<'g>) -> Vec<Vec<Expr<'g>>> {
        let (b, dtype) = (self.b, rows.dtype);
        let width = self.extent(self.body.inner[1]);
        let zeros = vec![b.float(dtype, 0.0); rows.emitters.len() * N_KEY_GROUPS];
        let flat = b.for_range_many(0, width, 1, &zeros, |d, states| {
            let key = |group: usize| {
                let lane = rows.lane + (group * N_LANES) as i64;
                rows.emitters
                    .first()
                    .map(|emitter| emitter.attention_operand(reduction, 1, &[(0, block), (1, d), (2, lane)], dtype))
            };
            let keys: Vec<Expr<'g>> = (0..N_KEY_GROUPS).filter_map(key).collect();
            let mut next = Vec::new();
            for (emitter, states) in rows.emitters.iter().zip(states.chunks(N_KEY_GROUPS)) {
                let query = emitter.attention_operand(reduction, 0, &[(1, d)], dtype);
                next.extend(keys.iter().zip(states).map(|(&key, &state)| query.fma(key, state)));
            }
            next
        });
        flat.chunks(N_KEY_GROUPS).map(<[Expr<'g>]>::to_vec).collect()
    }

    /// Combines the 32 lanes of each query as the tree of a block of a reduction. All threads get the results.
    fn across_lanes_of_rows(
        &self,
        rows: &AttentionRows<'b, 'g>,
        values: &[Expr<'g>],
        combine: &dyn Fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
    ) -> Vec<Expr<'g>> {
        let (b, lanes) = (self.b, rows.lanes);
        let place = |row: usize, lane: Expr<'g>| lane + (row * N_LANES) as i64;
        for (row, &value) in values.iter().enumerate() {
            lanes.store(&[place(row, rows.lane)], value);
        }
        b.sync_threads();
        let mut distance = N_LANES as i64 / 2;
        while distance > 0 {
            b.if_then(rows.lane.lt(distance), || {
                for row in 0..values.len() {
                    let near = lanes.load(&[place(row, rows.lane)]);
                    let far = lanes.load(&[place(row, rows.lane + distance)]);
                    lanes.store(&[place(row, rows.lane)], combine(near, far));
                }
            });
            b.sync_threads();
            distance /= 2;
        }
        let results = (0..values.len()).map(|row| lanes.load(&[place(row, self.integer(0))])).collect();
        // Other lanes are combined in the same array next.
        b.sync_threads();
        results
    }

    /// Adds the values of a block of keys, each times its weight.
    fn add_values(
        &self,
        tile: AttentionTile,
        reduction: &BodyReduction,
        rows: &AttentionRows<'b, 'g>,
        (first_key, n_of_block): (Expr<'g>, Expr<'g>),
        values: Vec<Vec<Expr<'g>>>,
    ) -> Vec<Vec<Expr<'g>>> {
        let b = self.b;
        let last = self.extent(self.body.inner[4]) - 1;
        let value = |key: Expr<'g>, column: Expr<'g>| {
            let column = if tile.is_ragged { column.min(last) } else { column };
            let of_column = |emitter: &BodyEmitter<'b, 'g>| {
                emitter.attention_operand(reduction, 2, &[(3, first_key + key), (4, column)], rows.dtype)
            };
            rows.emitters.first().map(of_column)
        };
        let weight = |row: usize, key: Expr<'g>| rows.weights.load(&[key + (row * N_KEYS as usize) as i64]);
        // Later queries look at more keys. A key that is not seen adds nothing, not its value times 0, which may be NaN.
        let n_own = |row: usize| match tile.is_causal {
            true => (rows.n_seen[row] - first_key).max(self.integer(0)).min(n_of_block),
            false => n_of_block,
        };
        let n_together = n_own(0);
        let n_groups = rows.columns.len();
        let flat = b.for_range_many(0, n_together, 1, &values.concat(), |key, states| {
            let loaded: Vec<Expr<'g>> = rows.columns.iter().filter_map(|&column| value(key, column)).collect();
            let mut next = Vec::new();
            for (row, states) in states.chunks(n_groups).enumerate() {
                let weight = weight(row, key);
                next.extend(loaded.iter().zip(states).map(|(&value, &state)| weight.fma(value, state)));
            }
            next
        });
        let values: Vec<Vec<Expr<'g>>> = flat.chunks(n_groups).map(<[Expr<'g>]>::to_vec).collect();
        if !tile.is_causal {
            return values;
        }
        let one_by_one = |(row, states): (usize, &Vec<Expr<'g>>)| {
            b.for_range_many(n_together, n_own(row), 1, states, |key, states| {
                let weight = weight(row, key);
                let next = rows.columns.iter().zip(states);
                next.filter_map(|(&column, &state)| Some(weight.fma(value(key, column)?, state))).collect()
            })
        };
        values.iter().enumerate().map(one_by_one).collect()
    }
}
