//! Lowers loops whose accesses are part of tiles ([`super::row_tiles`]).
//!
//! Around the loop there is another one, over as many iterations as a tile has columns, or what is left of them. Before
//! the iterations, each lane's elements are loaded as a row and transposed into a buffer with a vector for each column;
//! after them, buffers of what they stored are transposed back. The iterations themselves are lowered as ever.
//!
//! Where an iteration is short, tiles with all their columns come first, in a loop of their own: their rows are loaded without
//! masks, and the iterations are lowered one by one, with columns in registers in place of buffers.

use super::control_frame::MergeEdge;
use super::loop_state::CarriedPhis;
use super::memory::GroupAddress;
use super::row_tiles::{RowWalk, TiledLoop};
use super::tile_access::{TileAccess, TileBuffer, TileLoop, TileRange};
use super::{FunctionLowering, RegionFlow, Reps, Result, ValueRep, transpose};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Inst, Op, Value, ValueDef};
use smallvec::SmallVec;

/// Columns of a tile: of the smallest elements, a cache line. Rows a power of two apart lose what is left of one.
const N_COLUMNS: u32 = 16;
/// The longest iteration, in instructions, that is lowered for each column of a tile.
const MAX_UNROLLED: usize = 20;
/// The most registers that columns of tiles may take.
const MAX_COLUMN_REGISTERS: u32 = 32;

/// Says how far a loop over tiles has come.
struct TileProgress {
    /// The number of iterations that are done, `i64`.
    done: Val,
    /// The loop-carried values.
    carried: Vec<Val>,
    /// For each walk what was stored last, the latest first.
    stored: Vec<SmallVec<[Val; 2]>>,
}

impl FunctionLowering<'_, '_> {
    /// Lowers a loop whose accesses can be part of tiles; `None` for others.
    pub(super) fn tiled_for_range(
        &mut self,
        inst: Inst,
        bounds: &[ValueRep],
        inits: &Reps,
    ) -> Result<Option<RegionFlow>> {
        let (Some(uniformity), Some(facts)) = (self.lane_facts(), self.facts) else { return Ok(None) };
        let &[ValueRep::Uniform(lo), ValueRep::Uniform(hi), _] = bounds else { return Ok(None) };
        if self.needs_masks(inst) {
            return Ok(None);
        }
        let Some(tiled) = TiledLoop::of(self.module, self.func, uniformity, facts, inst) else { return Ok(None) };
        let ir = self.ir;
        let counter = self.func.regions[self.func.insts[inst].regions[0]].params[0];
        let (low, high) = if tiled.counts_down { (hi, lo) } else { (lo, hi) };
        let n_iterations = ir.sub(ir.sext_to_64(high), ir.sext_to_64(low));
        let n_columns = N_COLUMNS;
        let tiles = TileLoop { tiled: &tiled, counter, first: lo, n_iterations, n_columns, mask: self.mask() };

        let (some, with_tiles, without) = (ir.block(c"some"), ir.block(c"tiles"), ir.block(c"no_tiles"));
        ir.cond_br(ir.icmp(SGT, n_iterations, ir.i64_const(0)), some, without);
        ir.switch_to(some);
        let any_counts = self.any_counts_from_end(&tiles, hi)?;
        match any_counts {
            Some(any) => ir.cond_br_unlikely(any, without, with_tiles),
            None => ir.br(with_tiles),
        }
        let exec = self.exec;
        ir.switch_to(without);
        let flow = match any_counts {
            Some(_) => self.for_range_over(inst, bounds, inits.clone())?,
            // There are no iterations.
            None => RegionFlow::Yields(self.as_carried(inst, inits)?),
        };
        let mut edges = vec![self.edge_from(flow)?];
        ir.switch_to(with_tiles);
        self.exec = exec;
        let flow = self.over_tiles(inst, &tiles, inits)?;
        edges.push(self.edge_from(flow)?);
        Ok(Some(self.join(edges)?.map_or(RegionFlow::Gone, RegionFlow::Yields)))
    }

    /// The values that a loop without iterations gives.
    fn as_carried(&mut self, inst: Inst, inits: &Reps) -> Result<Reps> {
        let params = &self.func.regions[self.func.insts[inst].regions[0]].params[1..];
        let values = self.coerce_all(params, inits)?;
        Ok(params.iter().zip(values).map(|(&param, value)| FunctionLowering::rep_of(value, self.kind(param))).collect())
    }

    fn edge_from(&self, flow: RegionFlow) -> Result<MergeEdge> {
        let RegionFlow::Yields(values) = flow else {
            return Err(CodegenError::new("internal error: a loop with tiles is left by another way than its end"));
        };
        Ok(MergeEdge { block: self.ir.current(), values, exec: self.exec })
    }

    /// True where an index that the loop comes to counts from the end; `None` if none can.
    fn any_counts_from_end(&mut self, tiles: &TileLoop<'_>, end: Val) -> Result<Option<Val>> {
        let ir = self.ir;
        let ty = ir.type_of(end);
        let last = ir.sub(end, ir.int_const(ty, tiles.step() as u64));
        let reloads = tiles.tiled.reloads.iter().map(|reload| &reload.walk);
        let mut any: Option<Val> = None;
        for walk in tiles.tiled.walks.iter().chain(reloads).filter(|walk| walk.counts_from_end) {
            let smallest = self.value_at(walk.index, tiles, if walk.goes_back { last } else { tiles.first })?;
            let negative = match smallest {
                ValueRep::Uniform(index) => ir.icmp(SLT, index, ir.zero(ir.type_of(index))),
                rep => {
                    let index = self.vector(rep)?;
                    let negative = ir.icmp(SLT, index, ir.zero(ir.type_of(index)));
                    self.any(self.mask_and(tiles.mask, negative))
                }
            };
            any = Some(any.map_or(negative, |any| ir.or(any, negative)));
        }
        Ok(any)
    }

    /// The iterations, tile by tile.
    fn over_tiles(&mut self, inst: Inst, tiles: &TileLoop<'_>, inits: &Reps) -> Result<RegionFlow> {
        let (ir, func) = (self.ir, self.func);
        let params = &func.regions[func.insts[inst].regions[0]].params;
        let ty = ir.type_of(tiles.first);
        let carried = self.coerce_all(&params[1..], inits)?.into_iter().collect();
        let mut begin = TileProgress { done: ir.i64_const(0), carried, stored: self.stored_before(tiles)? };
        if self.has_short_iterations(inst, tiles)? {
            begin = self.over_whole_tiles(inst, tiles, &begin)?;
        }

        let (from, header) = (ir.current(), ir.block(c"tile"));
        ir.br(header);
        ir.switch_to(header);
        let done = ir.phi(ir.int(64));
        ir.add_incoming(done, begin.done, from);
        let carried = self.carried_phis(&params[1..], &begin.carried, from)?;
        let mut buffers = Vec::new();
        for (walk, stored) in tiles.tiled.walks.iter().zip(&begin.stored) {
            let column = self.column_type(walk)?;
            let slot = ir.alloca(ir.array(column, tiles.n_columns + walk.n_reloaded));
            buffers.push(TileBuffer { slot, last_stored: stored_phis(ir, stored, from) });
        }
        let left = ir.sub(tiles.n_iterations, done);
        let (tile, exit) = (ir.block(c"columns"), ir.block(c"tiles_done"));
        ir.cond_br(ir.icmp(SGT, left, ir.i64_const(0)), tile, exit);
        ir.switch_to(tile);
        let n = ir.binary_intrinsic("llvm.smin", left, ir.i64_const(tiles.n_columns.into()));
        let plus = |base: Val, number: Val| {
            let number = ir.int_cast(number, ty);
            if tiles.tiled.counts_down { ir.sub(base, number) } else { ir.add(base, number) }
        };
        let first = plus(tiles.first, done);
        let end = plus(first, n);
        let last = ir.sub(end, ir.int_const(ty, tiles.step() as u64));
        let lanes = ir.iota(ir.int(32), tiles.n_columns, 1);
        let columns = ir.icmp(ULT, lanes, ir.splat(ir.int_cast(n, ir.int(32)), tiles.n_columns));
        let range = TileRange { first, last, n, columns };

        let mut rows = Vec::new();
        for (walk, buffer) in tiles.tiled.walks.iter().zip(&buffers) {
            rows.push(self.begin_tile(tiles, walk, buffer, &range)?);
        }
        for (walk, buffer) in tiles.tiled.walks.iter().zip(&buffers) {
            let column = tiles.column_of(ir, walk, buffer, &range, 0);
            self.tile_accesses.insert(walk.inst, TileAccess::Buffer(column));
        }
        for reload in &tiles.tiled.reloads {
            let (walk, buffer) = (&tiles.tiled.walks[reload.store], &buffers[reload.store]);
            let column = tiles.column_of(ir, walk, buffer, &range, reload.iterations_ago);
            self.tile_accesses.insert(reload.walk.inst, TileAccess::Buffer(column));
        }
        let bounds = [first, end, ir.int_const(ty, tiles.step() as u64)].map(ValueRep::Uniform);
        let flow = self.for_range_over(inst, &bounds, CarriedPhis::reps(&carried))?;
        let values = self.edge_from(flow)?.values;
        let next: Vec<Val> =
            carried.iter().zip(values).map(|(carried, rep)| self.coerce(rep, carried.kind)).collect::<Result<_>>()?;
        let mut stored = Vec::new();
        for ((walk, buffer), &rows) in tiles.tiled.walks.iter().zip(&buffers).zip(&rows) {
            stored.push(self.end_tile(tiles, walk, buffer, &range, rows)?);
        }
        let latch = ir.current();
        ir.add_incoming(done, ir.add(done, n), latch);
        carried.iter().zip(next).for_each(|(carried, next)| ir.add_incoming(carried.phi, next, latch));
        for (&phi, value) in buffers.iter().flat_map(|buffer| &buffer.last_stored).zip(stored.into_iter().flatten()) {
            ir.add_incoming(phi, value, latch);
        }
        ir.br(header);
        ir.switch_to(exit);
        Ok(RegionFlow::Yields(CarriedPhis::reps(&carried)))
    }

    /// Returns true if the iterations of a tile are lowered one by one: they are short, and the columns fit in registers.
    fn has_short_iterations(&self, inst: Inst, tiles: &TileLoop<'_>) -> Result<bool> {
        let body = &self.func.regions[self.func.insts[inst].regions[0]];
        let is_short = body.insts.len() <= MAX_UNROLLED
            && body.insts.iter().all(|&inner| {
                let data = &self.func.insts[inner];
                data.regions.is_empty() && data.op != Op::Call
            });
        let (mut n_loaded, mut n_stored) = (0, 0);
        for walk in &tiles.tiled.walks {
            let bytes = self.array_arg(self.array(walk.array)?)?.elem.bytes() * self.lanes;
            let n_registers = tiles.n_columns * bytes.div_ceil(self.arith.processor.vector_bytes);
            *(if walk.is_store { &mut n_stored } else { &mut n_loaded }) += n_registers;
        }
        // What an iteration has stored takes the place of what it has loaded.
        Ok(is_short && n_loaded.max(n_stored) <= MAX_COLUMN_REGISTERS)
    }

    /// The iterations of tiles that have all their columns.
    fn over_whole_tiles(&mut self, inst: Inst, tiles: &TileLoop<'_>, begin: &TileProgress) -> Result<TileProgress> {
        let (ir, func) = (self.ir, self.func);
        let params = &func.regions[func.insts[inst].regions[0]].params;
        let ty = ir.type_of(tiles.first);
        let (from, header) = (ir.current(), ir.block(c"whole_tile"));
        ir.br(header);
        ir.switch_to(header);
        let done = ir.phi(ir.int(64));
        ir.add_incoming(done, begin.done, from);
        let carried = self.carried_phis(&params[1..], &begin.carried, from)?;
        let stored: Vec<SmallVec<[Val; 2]>> = begin.stored.iter().map(|stored| stored_phis(ir, stored, from)).collect();
        let (tile, exit) = (ir.block(c"whole_columns"), ir.block(c"whole_tiles_done"));
        let left = ir.sub(tiles.n_iterations, done);
        ir.cond_br(ir.icmp(SGT, left, ir.i64_const(i64::from(tiles.n_columns) - 1)), tile, exit);

        ir.switch_to(tile);
        let n_done = ir.int_cast(done, ty);
        let first = if tiles.tiled.counts_down { ir.sub(tiles.first, n_done) } else { ir.add(tiles.first, n_done) };
        // The counter comes to all of these, so that the sums do not overflow.
        let count_of = |place: i64| ir.add_nsw(first, ir.int_const(ty, (place * tiles.step()) as u64));
        let last = count_of(i64::from(tiles.n_columns) - 1);
        let (mut rows, mut loaded) = (Vec::new(), Vec::new());
        for walk in &tiles.tiled.walks {
            rows.push(self.rows_of_tile(tiles, walk, if walk.goes_back { last } else { first })?);
        }
        for (walk, &rows) in tiles.tiled.walks.iter().zip(&rows) {
            let is_load = !walk.is_store;
            loaded.push(if is_load { self.load_columns_of_rows(tiles, walk, None, rows)? } else { Vec::new() });
        }
        let mut values = CarriedPhis::reps(&carried);
        // What each walk has stored, from before the first iteration on.
        let mut columns: Vec<Vec<Val>> = stored.iter().map(|stored| stored.iter().rev().copied().collect()).collect();
        for place in 0..tiles.n_columns as usize {
            for (walk, loaded) in tiles.tiled.walks.iter().zip(&loaded) {
                let column = if walk.goes_back { tiles.n_columns as usize - 1 - place } else { place };
                let access = loaded.get(column).map_or(TileAccess::Stored(None), |&column| TileAccess::Loaded(column));
                self.tile_accesses.insert(walk.inst, access);
            }
            for reload in &tiles.tiled.reloads {
                let mut before = columns[reload.store].iter().rev();
                let access = match (reload.iterations_ago as usize).checked_sub(1) {
                    Some(ago) => before.nth(ago).map(|&value| TileAccess::Loaded(value)),
                    None => Some(TileAccess::StoredBy(tiles.tiled.walks[reload.store].inst)),
                };
                let missing = || CodegenError::new("internal error: a tile reads what was stored before all others");
                self.tile_accesses.insert(reload.walk.inst, access.ok_or_else(missing)?);
            }
            let count = ValueRep::Uniform(count_of(place as i64));
            values = match self.iteration_alone(inst, count, &values)? {
                RegionFlow::Yields(next) => next,
                _ => return Err(CodegenError::new("internal error: an iteration of a tile does not come to its end")),
            };
            for (walk, columns) in tiles.tiled.walks.iter().zip(&mut columns) {
                if let Some(&TileAccess::Stored(Some(value))) = self.tile_accesses.get(&walk.inst) {
                    columns.push(value);
                }
            }
        }
        let mut last_stored = Vec::new();
        for (((walk, columns), stored), &rows) in tiles.tiled.walks.iter().zip(&columns).zip(&stored).zip(&rows) {
            last_stored.push(columns.iter().rev().take(stored.len()).copied().collect::<SmallVec<[Val; 2]>>());
            if walk.is_store {
                let mut own = columns[stored.len()..].to_vec();
                if walk.goes_back {
                    own.reverse();
                }
                self.store_columns_to_rows(tiles, walk, None, rows, &own)?;
            }
        }
        let next: Vec<Val> =
            carried.iter().zip(values).map(|(carried, rep)| self.coerce(rep, carried.kind)).collect::<Result<_>>()?;
        let latch = ir.current();
        ir.add_incoming(done, ir.add(done, ir.i64_const(tiles.n_columns.into())), latch);
        carried.iter().zip(next).for_each(|(carried, next)| ir.add_incoming(carried.phi, next, latch));
        for (&phi, value) in stored.iter().flatten().zip(last_stored.into_iter().flatten()) {
            ir.add_incoming(phi, value, latch);
        }
        ir.br(header);
        ir.switch_to(exit);
        Ok(TileProgress { done, carried: carried.iter().map(|carried| carried.phi).collect(), stored })
    }

    /// Loads the elements that reloads in the first iterations go back to: for each walk, the last one first.
    fn stored_before(&mut self, tiles: &TileLoop<'_>) -> Result<Vec<SmallVec<[Val; 2]>>> {
        let ir = self.ir;
        let ty = ir.type_of(tiles.first);
        let mut stored = Vec::new();
        for walk in &tiles.tiled.walks {
            let mut last_stored = SmallVec::new();
            for ago in 1..=i64::from(walk.n_reloaded) {
                let count = ir.sub(tiles.first, ir.int_const(ty, (ago * tiles.step()) as u64));
                let address = self.walk_address(tiles, walk, count)?;
                let loaded = self.load_from(self.array(walk.array)?, address)?;
                last_stored.push(self.vector(loaded)?);
            }
            stored.push(last_stored);
        }
        Ok(stored)
    }

    /// Fills a tile's buffer and gives the addresses of the lanes' rows.
    fn begin_tile(
        &mut self,
        tiles: &TileLoop<'_>,
        walk: &RowWalk,
        buffer: &TileBuffer,
        range: &TileRange,
    ) -> Result<Val> {
        let ir = self.ir;
        let column = self.column_type(walk)?;
        let rows = self.rows_of_tile(tiles, walk, if walk.goes_back { range.last } else { range.first })?;
        let (first, step) = walk.first_column(ir, range);
        for (ago, &value) in (1..).zip(&buffer.last_stored) {
            let place = ir.sub(first, ir.i64_const(ago * step));
            ir.set(ir.offset(column, buffer.slot, place), value);
        }
        if walk.is_store {
            return Ok(rows);
        }
        let columns = self.load_columns_of_rows(tiles, walk, Some(range.columns), rows)?;
        for (place, value) in (0..).zip(columns) {
            ir.set(ir.offset(column, buffer.slot, ir.i64_const(place)), value);
        }
        Ok(rows)
    }

    /// Loads a tile from rows, and gives its columns. `existing` is the mask of the columns that there are; `None` for all.
    fn load_columns_of_rows(
        &mut self,
        tiles: &TileLoop<'_>,
        walk: &RowWalk,
        existing: Option<Val>,
        rows: Val,
    ) -> Result<Vec<Val>> {
        let ir = self.ir;
        let array = self.array(walk.array)?;
        let elem_bytes = self.array_arg(array)?.elem.bytes();
        let mut loaded = Vec::new();
        for lane in 0..self.lanes {
            let (pointer, mask) = self.row_of_tile(tiles, existing, rows, lane);
            loaded.push(self.load_neighbours(array, pointer, mask, tiles.n_columns)?);
        }
        let side = self.lanes.min(tiles.n_columns);
        let mut columns = Vec::new();
        for from in (0..tiles.n_columns).step_by(side as usize) {
            let rows: Vec<Val> = loaded.iter().map(|&row| part_of(ir, row, from, side)).collect();
            let squares: Vec<Vec<Val>> =
                rows.chunks(side as usize).map(|rows| transpose::columns(ir, rows, elem_bytes)).collect();
            columns.extend(
                (0..side as usize).map(|place| self.side_by_side(squares.iter().map(|square| square[place]).collect())),
            );
        }
        Ok(columns)
    }

    /// Stores the columns of a tile to rows, as of [`Self::load_columns_of_rows`].
    fn store_columns_to_rows(
        &mut self,
        tiles: &TileLoop<'_>,
        walk: &RowWalk,
        existing: Option<Val>,
        rows: Val,
        columns: &[Val],
    ) -> Result<()> {
        let ir = self.ir;
        let array = self.array(walk.array)?;
        let elem_bytes = self.array_arg(array)?.elem.bytes();
        let side = self.lanes.min(tiles.n_columns);
        for from in (0..self.lanes).step_by(side as usize) {
            let part: Vec<Val> = columns.iter().map(|&column| part_of(ir, column, from, side)).collect();
            let squares: Vec<Vec<Val>> =
                part.chunks(side as usize).map(|columns| transpose::rows(ir, columns, elem_bytes)).collect();
            for lane in 0..side {
                let row = self.side_by_side(squares.iter().map(|square| square[lane as usize]).collect());
                let (pointer, mask) = self.row_of_tile(tiles, existing, rows, from + lane);
                self.store_row(array, row, pointer, mask)?;
            }
        }
        Ok(())
    }

    /// Stores what a tile's iterations have stored, and gives what the next tile's reloads go back to.
    fn end_tile(
        &mut self,
        tiles: &TileLoop<'_>,
        walk: &RowWalk,
        buffer: &TileBuffer,
        range: &TileRange,
        rows: Val,
    ) -> Result<SmallVec<[Val; 2]>> {
        if !walk.is_store {
            return Ok(SmallVec::new());
        }
        let ir = self.ir;
        let column = self.column_type(walk)?;
        let load = |place: Val| ir.get(column, ir.offset(column, buffer.slot, place));
        let n_before = if walk.goes_back { 0 } else { i64::from(walk.n_reloaded) };
        let columns: Vec<Val> =
            (0..tiles.n_columns).map(|place| load(ir.i64_const(i64::from(place) + n_before))).collect();
        self.store_columns_to_rows(tiles, walk, Some(range.columns), rows, &columns)?;
        let (first, step) = walk.first_column(ir, range);
        let behind = ir.add(first, ir.mul(range.n, ir.i64_const(step)));
        Ok((1..=buffer.last_stored.len() as i64).map(|ago| load(ir.sub(behind, ir.i64_const(ago * step)))).collect())
    }

    /// The address of a lane's row, and the mask of its elements; no mask if all are there.
    fn row_of_tile(&self, tiles: &TileLoop<'_>, existing: Option<Val>, rows: Val, lane: u32) -> (Val, Option<Val>) {
        let ir = self.ir;
        let lane = ir.i64_const(lane.into());
        let is_executing = tiles.mask.map(|mask| ir.splat(ir.extract(mask, lane), tiles.n_columns));
        let mask = match (existing, is_executing) {
            (Some(existing), Some(is_executing)) => Some(ir.and(existing, is_executing)),
            (existing, is_executing) => existing.or(is_executing),
        };
        (ir.extract(rows, lane), mask)
    }

    /// The addresses of the lanes' rows of a tile, from the element that a walk accesses when the counter is `count`. Those of
    /// idle lanes are of the stack, and nothing is read or written there: processors take hundreds of cycles to find that an
    /// access which its mask makes none would have been to no memory.
    fn rows_of_tile(&mut self, tiles: &TileLoop<'_>, walk: &RowWalk, count: Val) -> Result<Val> {
        let ir = self.ir;
        let in_memory = self.memory_type(self.array_arg(self.array(walk.array)?)?.elem);
        let rows = self.walk_address(tiles, walk, count)?.elements(ir, in_memory, self.lanes);
        let Some(mask) = tiles.mask else { return Ok(rows) };
        let idle = ir.alloca(ir.array(in_memory, tiles.n_columns));
        Ok(ir.select(mask, rows, ir.splat(idle, self.lanes)))
    }

    /// Returns where the lanes' elements of a walk are when the counter is `count`.
    fn walk_address(&mut self, tiles: &TileLoop<'_>, walk: &RowWalk, count: Val) -> Result<GroupAddress> {
        let func = self.func;
        let n_dims = func.ty(walk.array).as_array().map_or(1, |(_, n_dims)| usize::from(n_dims));
        let mut indices: SmallVec<[Value; 4]> = SmallVec::from_slice(&func.insts[walk.inst].operands[1..n_dims]);
        let mut reps = self.reps(&indices)?;
        reps.push(match self.value_at(walk.index, tiles, count)? {
            uniform @ ValueRep::Uniform(_) => uniform,
            rep => ValueRep::Vector(self.vector(rep)?),
        });
        indices.push(walk.index);
        self.address(self.array(walk.array)?, &indices, &reps)
    }

    /// An index that is a sum of the counter and values from outside of the loop, when the counter is `count`.
    fn value_at(&mut self, index: Value, tiles: &TileLoop<'_>, count: Val) -> Result<ValueRep> {
        self.values[tiles.counter] = Some(ValueRep::Uniform(count));
        let body = match self.func.values[tiles.counter].def {
            ValueDef::Param(region, _) => region,
            ValueDef::Result(..) => return Err(CodegenError::new("internal error: a counter is no parameter")),
        };
        self.compute_in(body, index)?;
        self.rep(index)
    }

    /// Computes a value, from what stands in a region on, by pure instructions alone.
    fn compute_in(&mut self, region: polyloom_ir::Region, value: Value) -> Result<()> {
        let func = self.func;
        let ValueDef::Result(inst, _) = func.values[value].def else { return Ok(()) };
        if !func.regions[region].insts.contains(&inst) {
            return Ok(());
        }
        for &operand in &func.insts[inst].operands {
            self.compute_in(region, operand)?;
        }
        self.lower_instruction(inst)
    }
}

/// Some neighbouring lanes of a vector.
fn part_of(ir: &IrEmitter<'_>, vector: Val, from: u32, n_lanes: u32) -> Val {
    match ir.n_lanes(vector) == n_lanes {
        true => vector,
        false => ir.shuffle(vector, vector, from..from + n_lanes),
    }
}

/// Phis of what was stored last.
fn stored_phis(ir: &IrEmitter<'_>, stored: &[Val], from: BasicBlock) -> SmallVec<[Val; 2]> {
    let phi = |&value: &Val| {
        let phi = ir.phi(ir.type_of(value));
        ir.add_incoming(phi, value, from);
        phi
    };
    stored.iter().map(phi).collect()
}
