//! `for_range` and `while`.
//!
//! A loop that all lanes leave together is an ordinary loop. One that they may leave at different times runs until no
//! lane is left: values are carried on for all lanes, whatever the finished ones make of them, and the results are
//! taken from each lane when it leaves.

use super::control_frame::{ControlFrame, MergeEdge};
use super::entry::loop_alignment;
use super::loop_state::{LoopCounter, LoopState};
use super::values::CarriedKind;
use super::{ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Inst, Op, Region};
use smallvec::{SmallVec, smallvec};

impl FunctionLowering<'_, '_> {
    pub(crate) fn for_range(&mut self, inst: Inst) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let bounds = self.reps(&data.operands[..3])?;
        let inits = self.reps(&data.operands[3..])?;
        if let Some(lanes) = self.find_lanes_of_loop(inst) {
            return self.lower_iterations_in_groups(inst, &bounds, lanes);
        }
        if self.is_single_iteration(inst, &bounds) {
            return self.iteration_alone(inst, bounds[0], &inits);
        }
        if let Some(flow) = self.tiled_for_range(inst, &bounds, &inits)? {
            return Ok(flow);
        }
        if let Some(flow) = self.strided_for_range(inst, &bounds, &inits)? {
            return Ok(flow);
        }
        match self.split_at_zero(inst, &bounds)? {
            None => self.for_range_over(inst, &bounds, inits),
            Some([below, above]) => match self.for_range_over(inst, &below, inits)? {
                RegionFlow::Yields(inits) => {
                    let counter = self.func.regions[data.regions[0]].params[0];
                    self.not_negative.push(counter);
                    let flow = self.for_range_over(inst, &above, inits);
                    self.not_negative.pop();
                    flow
                }
                other => Ok(other),
            },
        }
    }

    /// Returns true for a loop of constant bounds with one iteration, such as that over the rows of a block of one row.
    fn is_single_iteration(&self, inst: Inst, bounds: &[ValueRep]) -> bool {
        let data = &self.func.insts[inst];
        let constant = |rep: &ValueRep| match rep {
            ValueRep::Uniform(value) => self.ir.as_int_const(*value),
            _ => None,
        };
        let bounds: Option<SmallVec<[i64; 3]>> = bounds.iter().map(constant).collect();
        let mut leaves = false;
        self.func.walk(data.regions[0], &mut |_, inner| {
            leaves |= matches!(inner.op, Op::Break | Op::Continue | Op::Return);
        });
        !leaves && bounds.is_some_and(|bounds| matches!(bounds[..], [0, 1, 1]))
    }

    /// Lowers one iteration of a loop in the current block: what is stored before and after it is known to stand in a row
    /// ([`super::stored_rows`]).
    pub(super) fn iteration_alone(&mut self, inst: Inst, count: ValueRep, inits: &Reps) -> Result<RegionFlow> {
        let body = self.func.insts[inst].regions[0];
        let [counter, carried @ ..] = &self.func.regions[body].params[..] else {
            return Err(CodegenError::new("internal error: a loop without a counter"));
        };
        self.values[*counter] = Some(count);
        for (&param, value) in carried.iter().zip(self.coerce_all(carried, inits)?) {
            self.values[param] = Some(FunctionLowering::rep_of(value, self.kind(param)));
        }
        self.lower_region(body)
    }

    pub(super) fn for_range_over(&mut self, inst: Inst, bounds: &[ValueRep], inits: Reps) -> Result<RegionFlow> {
        let func = self.func;
        let data = &func.insts[inst];
        let body = data.regions[0];
        let ty = self.scalar_of(data.operands[0])?;
        let params = &func.regions[body].params;
        let masked = self.needs_masks(inst);
        let step_const = func.as_const(data.operands[2]);
        // If all lanes make the same number of iterations, the first lane's bounds say how many.
        let uniform_trips = !masked || bounds.iter().all(|rep| matches!(rep, ValueRep::Uniform(_)));
        let on = |this: &Self, rep: ValueRep| match (uniform_trips, rep) {
            (false, rep) => this.vector(rep),
            (true, ValueRep::Vector(_)) => this.uniform(rep),
            (true, rep) => this.base(rep),
        };
        let (lo, hi) = (on(self, bounds[0])?, on(self, bounds[1])?);
        let step_by = on(self, bounds[2])?;
        let kind = self.kind(params[0]);
        let counts_down = step_const == Some(u64::MAX >> (64 - ty.bits())) && ty.is_signed_int();
        let by_one = step_const == Some(1) || counts_down;
        // The counter itself is compared, because with steps of one it cannot miss the end, nor overflow before it.
        let by_counter = by_one && uniform_trips && kind != CarriedKind::Vector;
        let n_trips = if by_counter { None } else { Some(self.trip_count(lo, hi, step_by, ty, step_const)?) };
        let start = self.coerce(bounds[0], kind)?;
        let step = if kind == CarriedKind::Vector { self.vector(bounds[2])? } else { self.uniform(bounds[2])? };
        let carried_inits = self.coerce_all(&params[1..], &inits)?;

        let frame = self.frame(inst, masked)?;
        let (before, mask, finished) = self.enter_loop(inst, masked);
        let from = self.ir.current();
        let header = self.ir.block(c"for");
        self.ir.br(header);
        self.ir.switch_to(header);
        let phi = self.ir.phi(self.ir.type_of(start));
        self.ir.add_incoming(phi, start, from);
        let trips = n_trips.map(|n| {
            let ty = self.ir.scalar(ty);
            let done = self.ir.phi(ty);
            self.ir.add_incoming(done, self.ir.zero(ty), from);
            (n, done)
        });
        let counter = LoopCounter { param: params[0], kind, phi, step, trips, bound: hi, ty, counts_down };
        let carried = self.carried_phis(&params[1..], &carried_inits, from)?;
        self.define(&carried);
        self.values[counter.param] = Some(FunctionLowering::rep_of(counter.phi, counter.kind));
        let more = match counter.trips {
            Some((n, done)) => self.ir.icmp(ULT, self.ir.splat(done, self.ir.n_lanes(n)), n),
            None => {
                let predicate = match (counter.counts_down, counter.ty.is_signed_int()) {
                    (true, _) => SGT,
                    (false, true) => SLT,
                    (false, false) => ULT,
                };
                self.ir.icmp(predicate, counter.phi, counter.bound)
            }
        };
        let state = LoopState { inst, header, carried, before, mask, finished, counter: Some(counter) };
        let more = if self.ir.n_lanes(more) == 1 { ValueRep::Uniform(more) } else { ValueRep::Vector(more) };
        self.run_loop(frame, body, state, more)
    }

    pub(crate) fn while_(&mut self, inst: Inst) -> Result<RegionFlow> {
        let func = self.func;
        let data = &func.insts[inst];
        let (cond, body) = (data.regions[0], data.regions[1]);
        let masked = self.needs_masks(inst);
        let inits = self.reps(&data.operands)?;
        let params = &func.regions[cond].params;
        let carried_inits = self.coerce_all(params, &inits)?;
        let frame = self.frame(inst, masked)?;
        let (before, mask, finished) = self.enter_loop(inst, masked);
        let from = self.ir.current();
        let header = self.ir.block(c"while");
        self.ir.br(header);
        self.ir.switch_to(header);
        let carried = self.carried_phis(params, &carried_inits, from)?;
        self.define(&carried);
        // The body sees the same values under parameters of its own.
        for (&param, carried) in func.regions[body].params.iter().zip(&carried) {
            self.values[param] = Some(FunctionLowering::rep_of(carried.phi, carried.kind));
        }
        let state = LoopState { inst, header, carried, before, mask, finished, counter: None };
        self.frames.push(frame);
        let flow = self.lower_region(cond)?;
        let Some(frame) = self.frames.pop() else { return Err(CodegenError::new("internal error: no frame")) };
        let more = match flow {
            RegionFlow::Yields(values) => values[0],
            RegionFlow::Dead => ValueRep::Uniform(self.ir.bool_const(false)),
            RegionFlow::Gone => {
                return Ok(self.join(frame.exits)?.map_or(RegionFlow::Gone, RegionFlow::Yields));
            }
        };
        let more = match (masked, more) {
            (false, ValueRep::Vector(_)) => ValueRep::Uniform(self.uniform(more)?),
            _ => more,
        };
        self.run_loop(frame, body, state, more)
    }

    /// From the loop's condition, at the current position, to its end.
    fn run_loop(&mut self, frame: ControlFrame, body: Region, state: LoopState, more: ValueRep) -> Result<RegionFlow> {
        match frame.masked {
            None => self.run_uniform(frame, body, state, more),
            Some(_) => self.run_masked(frame, body, state, more),
        }
    }

    fn run_uniform(
        &mut self,
        frame: ControlFrame,
        body: Region,
        state: LoopState,
        more: ValueRep,
    ) -> Result<RegionFlow> {
        let more = self.uniform(more)?;
        let (again, done) = (self.ir.block(c"body"), self.ir.block(c"done"));
        let exec = self.exec;
        self.ir.cond_br(more, again, done);
        let leave = MergeEdge { block: done, values: state.values(), exec };
        self.ir.switch_to(again);
        self.frames.push(frame);
        let flow = self.lower_region(body)?;
        let Some(mut frame) = self.frames.pop() else { return Err(CodegenError::new("internal error: no frame")) };
        match flow {
            RegionFlow::Yields(values) => {
                frame.back.push(MergeEdge { block: self.ir.current(), values, exec: self.exec });
            }
            // Nothing that reaches this point in an ordinary loop ever runs.
            RegionFlow::Dead => self.ir.unreachable(),
            RegionFlow::Gone => {}
        }
        if let Some(next) = self.join(frame.back)? {
            if self.exec != exec {
                return Err(CodegenError::new("internal error: a loop that all lanes leave together loses some"));
            }
            self.next_iteration(&state, &next)?;
        }
        frame.exits.push(leave);
        self.exec = exec;
        Ok(self.join(frame.exits)?.map_or(RegionFlow::Gone, RegionFlow::Yields))
    }

    fn run_masked(
        &mut self,
        frame: ControlFrame,
        body: Region,
        state: LoopState,
        more: ValueRep,
    ) -> Result<RegionFlow> {
        let Some(masked) = &frame.masked else { return Err(CodegenError::new("internal error: no masks")) };
        let (results, parked, next_slots) = (masked.results.clone(), masked.parked, masked.next.clone());
        let left = masked.left;
        let (again, exit) = (self.ir.block(c"body"), self.ir.block(c"exit"));
        let live = self.full_mask();
        match more {
            ValueRep::Uniform(more) => {
                // All lanes still here finish at the same time.
                let done = self.ir.block(c"done");
                self.ir.cond_br(more, again, done);
                self.ir.switch_to(done);
                self.finish(&state, &results, live)?;
                self.ir.br(exit);
            }
            more => {
                let more = self.vector(more)?;
                let leaving = self.ir.and(live, self.ir.not(more));
                self.finish(&state, &results, leaving)?;
                let staying = self.ir.and(live, more);
                self.execute(staying);
                self.ir.cond_br(self.any(staying), again, exit);
            }
        }
        self.ir.switch_to(again);
        self.exec = ExecMask::Slot;
        if let Some(parked) = parked {
            self.ir.set(parked, self.ir.zero(self.mask_type()));
        }
        self.frames.push(frame);
        let flow = self.lower_region(body)?;
        let Some(frame) = self.frames.pop() else { return Err(CodegenError::new("internal error: no frame")) };
        let Some(masked) = &frame.masked else { return Err(CodegenError::new("internal error: no masks")) };
        let yielded = match flow {
            RegionFlow::Yields(values) => Some(values),
            RegionFlow::Dead => None,
            RegionFlow::Gone => {
                self.start_unreachable_block();
                None
            }
        };
        let here = self.full_mask();
        let (next, staying) = match (parked, yielded) {
            (Some(parked), yielded) => {
                if let Some(values) = &yielded {
                    let slots: SmallVec<[Option<Val>; 2]> = next_slots.iter().map(|&slot| Some(slot)).collect();
                    self.blend_into(&slots, values, Some(here))?;
                }
                let slots = masked.next.iter().zip(&state.carried);
                let next: Reps = slots
                    .map(|(&slot, carried)| {
                        Ok(ValueRep::Vector(self.ir.get(self.vector_type(self.func.ty(carried.param))?, slot)))
                    })
                    .collect::<Result<_>>()?;
                let waiting = self.ir.get(self.mask_type(), parked);
                let staying = if yielded.is_some() { self.ir.or(here, waiting) } else { waiting };
                (next, staying)
            }
            (None, Some(values)) => (values, here),
            (None, None) => (state.values(), self.ir.zero(self.mask_type())),
        };
        self.execute(staying);
        let last = self.ir.block(c"latch");
        let any = self.any(staying);
        self.ir.cond_br(any, last, exit);
        self.ir.switch_to(last);
        self.next_iteration(&state, &next)?;
        self.ir.switch_to(exit);
        self.exec = ExecMask::Slot;
        match state.finished {
            // Lanes have left for outer targets: those that come out are the ones that finished or broke out.
            Some(finished) => {
                let finished = self.ir.get(self.mask_type(), finished);
                let left = self.ir.get(self.mask_type(), left);
                let out = self.ir.or(finished, left);
                self.execute(out);
                self.maybe_none = true;
            }
            None => self.restore(state.before, state.mask),
        }
        Ok(RegionFlow::Yields(self.masked_results(state.inst, masked)?))
    }

    /// Takes the results of the lanes in `leaving`, which are done.
    fn finish(&mut self, state: &LoopState, results: &[Option<Val>], leaving: Val) -> Result<()> {
        self.blend_into(results, &state.values(), Some(leaving))?;
        if let Some(finished) = state.finished {
            let before = self.ir.get(self.mask_type(), finished);
            self.ir.set(finished, self.ir.or(before, leaving));
        }
        Ok(())
    }

    /// Returns how many iterations of a loop a GPU's thread runs together, if it loads and stores nothing: the loads are then
    /// under way at the same time, where a warp would wait for each of them in turn.
    fn unrolling_on_gpu(&self, inst: Inst) -> Option<u32> {
        if !self.arith.processor.is_gpu {
            return None;
        }
        let (mut n_insts, mut loads, mut only_reads) = (0, false, true);
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |_, data| {
                n_insts += 1;
                loads |= data.op == Op::ArrayLoad;
                only_reads &= matches!(data.op.info().effect, OpEffect::Pure | OpEffect::Read | OpEffect::Terminator);
            });
        }
        match n_insts {
            _ if !loads || !only_reads => None,
            0..=32 => Some(8),
            33..=160 => Some(4),
            _ => None,
        }
    }

    /// Branches back to the header with the next values.
    fn next_iteration(&mut self, state: &LoopState, next: &[ValueRep]) -> Result<()> {
        let mut values: SmallVec<[Val; 4]> = SmallVec::new();
        for (carried, &rep) in state.carried.iter().zip(next) {
            values.push(self.coerce(rep, carried.kind)?);
        }
        let mut advanced = None;
        if let Some(counter) = &state.counter {
            let next = match counter.trips {
                None if counter.ty.is_signed_int() => self.ir.add_nsw(counter.phi, counter.step),
                _ => self.ir.add(counter.phi, counter.step),
            };
            let done = counter.trips.map(|(_, done)| {
                let one = self.ir.int_const(self.ir.type_of(done), 1);
                (done, self.ir.add(done, one))
            });
            advanced = Some((counter.phi, next, done));
        }
        let from = self.ir.current();
        // Loops that neighbouring threads leave at different times are mostly short, and how often an unrolled one runs
        // what is left over cannot be predicted.
        let is_ragged = self.lanes == 1 && self.uniformity.is_some_and(|facts| !facts.cond_is_uniform(state.inst));
        let data = &self.func.insts[state.inst];
        let is_innermost = data.regions.iter().all(|&region| {
            self.func.regions[region].insts.iter().all(|&inner| self.func.insts[inner].regions.is_empty())
        });
        let unroll = self.func.metadata.hint("unroll").unwrap_or_default();
        let align = loop_alignment(self.arith.processor, self.func.opt_level());
        let mut options: SmallVec<[(&str, Option<u32>); 4]> =
            match unroll.filter(|_| is_innermost && !self.arith.processor.is_gpu) {
                Some(1) => smallvec![("llvm.loop.unroll.disable", None)],
                Some(n) => smallvec![("llvm.loop.unroll.count", Some(n))],
                None if self.runs_iterations_as_lanes(state.inst) => super::loop_forms::AS_LANES.into_iter().collect(),
                None if let Some(n) = self.unrolling_on_gpu(state.inst).filter(|_| is_innermost) => {
                    smallvec![("llvm.loop.unroll.count", Some(n))]
                }
                None if is_ragged => smallvec![("llvm.loop.unroll.runtime.disable", None)],
                None => SmallVec::new(),
            };
        options.extend(align.map(|bytes| ("llvm.loop.align", Some(bytes))));
        match options.is_empty() {
            true => self.ir.br(state.header),
            false => self.ir.br_back(state.header, &options),
        }
        for (carried, value) in state.carried.iter().zip(values) {
            self.ir.add_incoming(carried.phi, value, from);
        }
        if let Some((phi, next, done)) = advanced {
            self.ir.add_incoming(phi, next, from);
            if let Some((phi, next)) = done {
                self.ir.add_incoming(phi, next, from);
            }
        }
        Ok(())
    }
}
