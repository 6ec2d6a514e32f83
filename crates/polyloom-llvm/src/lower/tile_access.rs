//! Accesses of tiles, while their iterations are lowered.

use super::row_tiles::{RowWalk, TiledLoop};
use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Inst, Value};
use smallvec::SmallVec;

/// Says what an access means, while the iterations of a tile are lowered.
#[derive(Clone, Copy)]
pub(super) enum TileAccess {
    /// A column of a buffer, in each iteration another one.
    Buffer(TileColumn),
    /// A load of this column, in the one iteration that is lowered.
    Loaded(Val),
    /// A store to a column, and what has been stored in the iteration.
    Stored(Option<Val>),
    /// A load of what this store has stored in the same iteration.
    StoredBy(Inst),
}

/// The column of a buffer that an access means.
#[derive(Clone, Copy)]
pub(super) struct TileColumn {
    pub(super) buffer: Val,
    /// The column of the tile's first iteration, `i64`.
    pub(super) first: Val,
    /// The number of columns to the next iteration's: 1 or -1.
    pub(super) step: i64,
    /// The loop's counter, and what it is in the tile's first iteration, `i64`.
    pub(super) counter: Value,
    pub(super) first_count: Val,
    pub(super) counts_down: bool,
}

/// A loop over tiles: what is the same for all of them.
pub(super) struct TileLoop<'t> {
    pub(super) tiled: &'t TiledLoop,
    pub(super) counter: Value,
    /// The counter in the first iteration, and how many there are, `i64`.
    pub(super) first: Val,
    pub(super) n_iterations: Val,
    pub(super) n_columns: u32,
    /// The lanes executing; `None` for all.
    pub(super) mask: Option<Val>,
}

/// The iterations of one tile.
pub(super) struct TileRange {
    /// The counter in the first iteration and in the last.
    pub(super) first: Val,
    pub(super) last: Val,
    /// The number of iterations, `i64`.
    pub(super) n: Val,
    /// The mask of the columns that there are iterations for.
    pub(super) columns: Val,
}

/// The buffer of a walk: columns of the tile and, on the side where iterations come from, those last stored before it.
pub(super) struct TileBuffer {
    pub(super) slot: Val,
    /// The vectors that were stored last, the latest first.
    pub(super) last_stored: SmallVec<[Val; 2]>,
}

impl FunctionLowering<'_, '_> {
    /// The type of a column: an element of each lane's row.
    pub(super) fn column_type(&self, walk: &RowWalk) -> Result<Ty> {
        let elem = self.array_arg(self.array(walk.array)?)?.elem;
        Ok(self.ir.lanes(self.memory_type(elem), self.lanes))
    }

    /// Lowers an access that is part of a tile; gives whether it is.
    pub(super) fn access_tile(&mut self, inst: Inst) -> Result<bool> {
        let Some(&access) = self.tile_accesses.get(&inst) else { return Ok(false) };
        let (ir, data) = (self.ir, &self.func.insts[inst]);
        let mut slot = None;
        let loaded = match access {
            TileAccess::Buffer(column) => {
                let (ty, pointer) = self.column_in_buffer(inst, column)?;
                slot = Some(pointer);
                data.results.first().map(|_| ir.get(ty, pointer))
            }
            TileAccess::Loaded(value) => Some(value),
            TileAccess::Stored(_) => None,
            TileAccess::StoredBy(store) => match self.tile_accesses.get(&store) {
                Some(&TileAccess::Stored(Some(value))) => Some(value),
                _ => return Err(CodegenError::new("internal error: a tile's column is read before it is stored")),
            },
        };
        match (data.results.first(), loaded) {
            (Some(&result), Some(value)) => self.values[result] = Some(ValueRep::Vector(value)),
            _ => {
                self.has_effects = true;
                let value = self.vector(self.rep(data.operands[data.operands.len() - 1])?)?;
                if let Some(pointer) = slot {
                    ir.set(pointer, value);
                } else {
                    self.tile_accesses.insert(inst, TileAccess::Stored(Some(value)));
                }
            }
        }
        Ok(true)
    }

    /// The type and the place of a column that an access means in the iteration that is lowered.
    fn column_in_buffer(&self, inst: Inst, column: TileColumn) -> Result<(Ty, Val)> {
        let ir = self.ir;
        let count = self.base(self.rep(column.counter)?)?;
        let count = self.widen(count);
        let (from, to) = if column.counts_down { (count, column.first_count) } else { (column.first_count, count) };
        let n_before = ir.sub(to, from);
        let place = if column.step > 0 { ir.add(column.first, n_before) } else { ir.sub(column.first, n_before) };
        let elem = self.array_arg(self.array(self.func.insts[inst].operands[0])?)?.elem;
        let ty = ir.lanes(self.memory_type(elem), self.lanes);
        Ok((ty, ir.offset(ty, column.buffer, place)))
    }
}

impl TileLoop<'_> {
    /// The step of the counter.
    pub(super) fn step(&self) -> i64 {
        if self.tiled.counts_down { -1 } else { 1 }
    }

    /// The columns of a walk's tile, for an access to what belongs to an iteration so many before.
    pub(super) fn column_of(
        &self,
        ir: &IrEmitter<'_>,
        walk: &RowWalk,
        buffer: &TileBuffer,
        range: &TileRange,
        iterations_ago: u32,
    ) -> TileColumn {
        let (first, step) = walk.first_column(ir, range);
        let first = ir.sub(first, ir.i64_const(step * i64::from(iterations_ago)));
        let (counter, first_count) = (self.counter, ir.sext_to_64(range.first));
        TileColumn { buffer: buffer.slot, first, step, counter, first_count, counts_down: self.tiled.counts_down }
    }
}

impl RowWalk {
    /// The column of a tile's first iteration, and how many further the next iteration's is.
    pub(super) fn first_column(&self, ir: &IrEmitter<'_>, range: &TileRange) -> (Val, i64) {
        match self.goes_back {
            true => (ir.sub(range.n, ir.i64_const(1)), -1),
            false => (ir.i64_const(self.n_reloaded.into()), 1),
        }
    }
}
