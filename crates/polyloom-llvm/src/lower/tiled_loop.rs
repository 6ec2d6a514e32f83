//! Lowers loops whose accesses are part of tiles ([`super::row_tiles`]).
//!
//! Around the loop there is another one, over as many iterations as a tile has columns, or what is left of them. Before
//! the iterations, each lane's elements are loaded as a row and transposed into a buffer with a vector for each column;
//! after them, buffers of what they stored are transposed back. The iterations themselves are lowered as ever.

use super::control_frame::MergeEdge;
use super::loop_state::CarriedPhis;
use super::memory::GroupAddress;
use super::row_tiles::{RowWalk, TiledLoop};
use super::tile_access::{TileBuffer, TileLoop, TileRange};
use super::{FunctionLowering, RegionFlow, Reps, Result, ValueRep, transpose};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Inst, Value, ValueDef};
use smallvec::SmallVec;

/// Columns of a tile: of the smallest elements, a cache line. Rows a power of two apart lose what is left of one.
const N_COLUMNS: u32 = 16;

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
        let inits = self.coerce_all(&params[1..], inits)?;
        let stored = self.stored_before(tiles)?;

        let (from, header) = (ir.current(), ir.block(c"tile"));
        ir.br(header);
        ir.switch_to(header);
        let done = ir.phi(ir.int(64));
        ir.add_incoming(done, ir.i64_const(0), from);
        let carried = self.carried_phis(&params[1..], &inits, from)?;
        let mut buffers = Vec::new();
        for (walk, stored) in tiles.tiled.walks.iter().zip(&stored) {
            let phi = |&value: &Val| {
                let phi = ir.phi(ir.type_of(value));
                ir.add_incoming(phi, value, from);
                phi
            };
            let column = self.column_type(walk)?;
            let slot = ir.alloca(ir.array(column, tiles.n_columns + walk.n_reloaded));
            buffers.push(TileBuffer { slot, last_stored: stored.iter().map(phi).collect() });
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
            self.tile_columns.insert(walk.inst, tiles.column_of(ir, walk, buffer, &range, 0));
        }
        for reload in &tiles.tiled.reloads {
            let (walk, buffer) = (&tiles.tiled.walks[reload.store], &buffers[reload.store]);
            let column = tiles.column_of(ir, walk, buffer, &range, reload.iterations_ago);
            self.tile_columns.insert(reload.walk.inst, column);
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
        let array = self.array(walk.array)?;
        let in_memory = self.memory_type(self.array_arg(array)?.elem);
        let column = self.column_type(walk)?;
        let address = self.walk_address(tiles, walk, if walk.goes_back { range.last } else { range.first })?;
        let rows = address.elements(ir, in_memory, self.lanes);
        let (first, step) = walk.first_column(ir, range);
        for (ago, &value) in (1..).zip(&buffer.last_stored) {
            let place = ir.sub(first, ir.i64_const(ago * step));
            ir.set(ir.offset(column, buffer.slot, place), value);
        }
        if walk.is_store {
            return Ok(rows);
        }
        let mut loaded = Vec::new();
        for lane in 0..self.lanes {
            let (pointer, mask) = self.row_of_tile(tiles, range, rows, lane);
            loaded.push(self.load_neighbours(array, pointer, Some(mask), tiles.n_columns)?);
        }
        let side = self.lanes.min(tiles.n_columns);
        for from in (0..tiles.n_columns).step_by(side as usize) {
            let rows: Vec<Val> = loaded.iter().map(|&row| part_of(ir, row, from, side)).collect();
            let squares: Vec<Vec<Val>> = rows.chunks(side as usize).map(|rows| transpose::columns(ir, rows)).collect();
            for place in 0..side {
                let value = self.side_by_side(squares.iter().map(|square| square[place as usize]).collect());
                ir.set(ir.offset(column, buffer.slot, ir.i64_const((from + place).into())), value);
            }
        }
        Ok(rows)
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
        let array = self.array(walk.array)?;
        let column = self.column_type(walk)?;
        let load = |place: Val| ir.get(column, ir.offset(column, buffer.slot, place));
        let n_before = if walk.goes_back { 0 } else { i64::from(walk.n_reloaded) };
        let columns: Vec<Val> =
            (0..tiles.n_columns).map(|place| load(ir.i64_const(i64::from(place) + n_before))).collect();
        let side = self.lanes.min(tiles.n_columns);
        for from in (0..self.lanes).step_by(side as usize) {
            let part: Vec<Val> = columns.iter().map(|&column| part_of(ir, column, from, side)).collect();
            let squares: Vec<Vec<Val>> =
                part.chunks(side as usize).map(|columns| transpose::rows(ir, columns)).collect();
            for lane in 0..side {
                let row = self.side_by_side(squares.iter().map(|square| square[lane as usize]).collect());
                let (pointer, mask) = self.row_of_tile(tiles, range, rows, from + lane);
                self.store_row(array, row, pointer, Some(mask))?;
            }
        }
        let (first, step) = walk.first_column(ir, range);
        let behind = ir.add(first, ir.mul(range.n, ir.i64_const(step)));
        Ok((1..=buffer.last_stored.len() as i64).map(|ago| load(ir.sub(behind, ir.i64_const(ago * step)))).collect())
    }

    /// The address of a lane's row, and the mask of its elements.
    fn row_of_tile(&self, tiles: &TileLoop<'_>, range: &TileRange, rows: Val, lane: u32) -> (Val, Val) {
        let ir = self.ir;
        let lane = ir.i64_const(lane.into());
        let mask = match tiles.mask {
            Some(mask) => ir.and(range.columns, ir.splat(ir.extract(mask, lane), tiles.n_columns)),
            None => range.columns,
        };
        (ir.extract(rows, lane), mask)
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
