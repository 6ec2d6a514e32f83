//! The forward sweep: what the kernel computed is computed again, and what the way back will need is recorded.

use super::super::constants::zero;
use super::super::instructions::{is_used, written_again};
use super::super::rules;
use super::super::structure::trip_count;
use super::super::tape_layout::{TapeCount, TapeLength};
use super::super::updates::used_update;
use super::{BackwardBuilder, BranchExport, SweepMode, TapeCounter, Types, Values};
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{Inst, InstData, Op, Region, Scalar, Type, Value};
use smallvec::SmallVec;

impl BackwardBuilder<'_> {
    /// Writes what a region does again, up to its terminator, and gives what has come to be known.
    pub(super) fn forward(&mut self, region: Region, mode: SweepMode) -> Vec<BranchExport> {
        let old = self.old;
        let mut known = Vec::new();
        for &inst in &old.regions[region].insts {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            match data.op {
                Op::Yield | Op::Return | Op::Unreachable | Op::Const => continue,
                Op::If => self.forward_if(inst, data, mode, &mut known),
                Op::ForRange | Op::While => self.forward_loop(inst, data, mode, &mut known),
                Op::Print | Op::Assert | Op::Check | Op::ExpectEq | Op::ExpectNeq | Op::ExpectNear => continue,
                _ if self.is_replayed_load(data) && self.n_loops > 0 => self.recorded_read(inst, data, mode),
                Op::ArrayStore => {
                    let replayed = self.array_of(data.operands[0]).is_some_and(|param| self.arrays[param].is_replayed);
                    if replayed && (mode.first || mode.restored && self.row_of(data).is_some()) {
                        self.copy(data);
                    }
                }
                Op::Call => self.call(data),
                _ if matches!(data.op.info().effect, OpEffect::Pure | OpEffect::Read) => self.copy(data),
                _ => self.update(data),
            }
            known.extend(data.results.iter().map(|&result| BranchExport::Value(result)));
        }
        known
    }

    pub(in crate::autodiff) fn copy(&mut self, data: &InstData) {
        let operands = self.mapped(&data.operands);
        let new = written_again(&mut self.builder, self.old, data, &operands);
        for (index, &result) in data.results.iter().enumerate() {
            let value = self.builder.func.insts[new].results[index];
            self.bind(result, value);
        }
        // From here on, both sweeps go by a matrix nearby if that of the kernel is not one that can be differentiated.
        if let Some((values, turning)) = rules::values_of(data.op)
            && turning.iter().any(|&result| is_used(self.old, data.results[result]))
        {
            let value = self.value(data.results[values]);
            let value = rules::apart(&mut self.builder, data.op, value);
            self.bind(data.results[values], value);
        }
    }

    /// An atomic update, so that not done again, so nothing may depend on what it gave.
    fn update(&mut self, data: &InstData) {
        let name = data.op.name();
        let is_used = data.results.iter().any(|&result| is_used(self.old, result));
        if data.op.info().group != OpGroup::Atomic {
            let help = "split the kernel at this place, and differentiate the parts";
            self.refuse(data, format!("`{name}` has no derivative"), help);
        } else if is_used {
            let (message, help) = used_update(data.op);
            self.refuse(data, message, help);
        }
        for &result in &data.results {
            let value = zero(&mut self.builder, self.old.ty(result));
            self.bind(result, value);
        }
    }

    /// A load, in a loop, of an array that the kernel writes.
    fn recorded_read(&mut self, inst: Inst, data: &InstData, mode: SweepMode) {
        let Some(counter) = self.counters.iter().position(|counter| counter.read == inst) else { return };
        let ty = self.old.ty(data.results[0]);
        let TapeCounter { n: index, row_in, .. } = self.counters[counter];
        let (is_recorded, length) = match row_in {
            None => (mode.first, TapeLength::Reads(inst)),
            Some(outermost) => (mode.restored, TapeLength::SegmentReads(outermost, inst)),
        };
        if self.sizes.is_some() {
            self.copy(data);
        } else if is_recorded {
            self.copy(data);
            let tape = self.tape(inst, 0, ty, length);
            let value = self.value(data.results[0]);
            self.write_tape(tape, index, value);
        } else if mode.first {
            return self.copy(data);
        } else {
            let tape = self.tape(inst, 0, ty, length);
            let value = self.read_tape(tape, index, ty);
            self.bind(data.results[0], value);
        }
        let one = self.builder.const_int(Scalar::I32, 1);
        self.counters[counter].n = self.builder.op(Op::Add, &[index, one]);
    }

    fn forward_if(&mut self, inst: Inst, data: &InstData, mode: SweepMode, known: &mut Vec<BranchExport>) {
        let cond = self.value(data.operands[0]);
        let counters = self.counted_in(inst, mode);
        let before: Values = counters.iter().map(|&counter| self.counters[counter].n).collect();
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.region();
        // The values that each side hands out at its end; the exports follow.
        let mut ends: [Values; 2] = [SmallVec::new(), SmallVec::new()];
        let mut exports: [Vec<BranchExport>; 2] = [Vec::new(), Vec::new()];
        let mut exported: [Values; 2] = [SmallVec::new(), SmallVec::new()];
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            for (&counter, &value) in counters.iter().zip(&before) {
                self.counters[counter].n = value;
            }
            exports[side] = self.forward(data.regions[side], mode);
            ends[side] = self.yielded(data.regions[side]);
            ends[side].extend(counters.iter().map(|&counter| self.counters[counter].n));
            if !mode.record {
                exports[side].clear();
            }
            exported[side] = exports[side].iter().filter_map(|&export| self.exported(export)).collect();
        }
        let mut types: Types = data.results.iter().map(|&result| self.old.ty(result)).collect();
        types.extend(counters.iter().map(|_| Type::I32));
        for values in &exported {
            types.extend(values.iter().map(|&value| self.builder.func.ty(value)));
        }
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            let mut values = ends[side].clone();
            for (of, exported) in exported.iter().enumerate() {
                for &value in exported {
                    let ty = self.builder.func.ty(value);
                    values.push(if of == side { value } else { zero(&mut self.builder, ty) });
                }
            }
            self.builder.yield_(&values);
        }
        self.builder.switch_to(around);
        let new = self.builder.region_inst(Op::If, &[cond], &types, &regions);
        let mut results = self.builder.func.insts[new].results.clone().into_iter();
        for (&result, value) in data.results.iter().zip(results.by_ref().take(data.results.len())) {
            self.bind(result, value);
        }
        for (&counter, value) in counters.iter().zip(results.by_ref().take(counters.len())) {
            self.counters[counter].n = value;
        }
        for export in exports.into_iter().flatten() {
            let Some(value) = results.next() else { break };
            match export {
                BranchExport::Value(old) => self.values[old] = value.into(),
                BranchExport::Trips(inst) => self.trips[inst] = value.into(),
            }
            known.push(export);
        }
    }

    fn exported(&self, export: BranchExport) -> Option<Value> {
        match export {
            BranchExport::Value(old) => self.values[old].expand(),
            BranchExport::Trips(inst) => self.trips[inst].expand(),
        }
    }

    /// Returns what the terminator of a region hands out.
    pub(super) fn yielded(&mut self, region: Region) -> Values {
        let operands = self.old.terminator(region).map(|last| self.old.insts[last].operands.clone());
        self.mapped(&operands.unwrap_or_default())
    }

    /// Returns the carried values that the reverse sweep needs by iteration: the loop's own and the counters of reads.
    fn forward_loop(&mut self, inst: Inst, data: &InstData, mode: SweepMode, known: &mut Vec<BranchExport>) {
        let counts = data.op == Op::ForRange;
        let n_bounds = if counts { 3 } else { 0 };
        let counters = self.counted_in(inst, mode);
        let mut operands = self.mapped(&data.operands);
        let is_numbered = mode.record || self.sizes.is_some();
        if counts && is_numbered {
            let n = trip_count(&mut self.builder, &operands[..3]);
            self.trips[inst] = n.into();
        }
        operands.extend(counters.iter().map(|&counter| self.counters[counter].n));
        let n_recorded = operands.len() - n_bounds;
        if is_numbered {
            operands.push(self.builder.const_int(Scalar::I32, 0));
        }
        let types: Types = operands[n_bounds..].iter().map(|&value| self.builder.func.ty(value)).collect();
        let counter_type = counts.then(|| self.builder.func.ty(operands[0]));
        let with_counter: Types = counter_type.into_iter().chain(types.iter().copied()).collect();
        let around = self.builder.region();
        let mut regions: SmallVec<[Region; 2]> = SmallVec::new();
        if !counts {
            // In structured form, the condition is one of the values that the loop carries.
            let condition = self.builder.create_region(&types);
            self.builder.switch_to(condition);
            let params = &self.old.regions[data.regions[0]].params;
            let yields = self.old.terminator(data.regions[0]).map(|last| self.old.insts[last].operands[0]);
            let which = params.iter().position(|&param| Some(param) == yields).unwrap_or(0);
            let goes_on = self.builder.func.regions[condition].params[which];
            self.builder.yield_(&[goes_on]);
            regions.push(condition);
        }
        let body = self.builder.create_region(&with_counter);
        regions.push(body);
        let old_body = data.regions[data.regions.len() - 1];
        self.builder.switch_to(body);
        let mut params: Values = self.builder.func.regions[body].params.iter().copied().collect();
        let old_params = self.old.regions[old_body].params.clone();
        for (&old, &new) in old_params.iter().zip(&params) {
            self.bind(old, new);
        }
        params.drain(..usize::from(counts));
        for (&counter, &param) in counters.iter().zip(&params[data.results.len()..]) {
            self.counters[counter].n = param;
        }
        let row_counters = if self.sizes.is_some() { self.row_counters(inst) } else { SmallVec::new() };
        for &counter in &row_counters {
            self.counters[counter].n = self.builder.const_int(Scalar::I32, 0);
        }
        if mode.record {
            let index = params[n_recorded];
            let recorded: Values = params[..n_recorded].iter().copied().collect();
            match self.checkpoints {
                true => self.checkpoint(inst, index, &recorded),
                false => self.record(inst, 0, index, &recorded, TapeLength::Loop(inst)),
            }
        }
        self.n_loops += 1;
        self.forward(old_body, SweepMode { record: false, ..mode });
        self.n_loops -= 1;
        for counter in row_counters {
            let TapeCounter { read, n, .. } = self.counters[counter];
            self.note_size(TapeCount::Reads(read), n);
        }
        let mut yields = self.yielded(old_body);
        yields.extend(counters.iter().map(|&counter| self.counters[counter].n));
        if is_numbered {
            let one = self.builder.const_int(Scalar::I32, 1);
            yields.push(self.builder.op(Op::Add, &[params[n_recorded], one]));
        }
        self.builder.yield_(&yields);
        self.builder.switch_to(around);
        let new = self.builder.region_inst(data.op, &operands, &types, &regions);
        let results = self.builder.func.insts[new].results.clone();
        for (&result, &value) in data.results.iter().zip(&results) {
            self.bind(result, value);
        }
        for (&counter, &value) in counters.iter().zip(&results[data.results.len()..]) {
            self.counters[counter].n = value;
        }
        if is_numbered {
            if !counts {
                self.trips[inst] = results[n_recorded].into();
            }
            if let Some(n) = self.trips[inst].expand() {
                self.note_size(TapeCount::Loop(inst), n);
            }
            known.push(BranchExport::Trips(inst));
        }
    }

    /// Writes what a loop carries into an iteration to its tapes from the one with this number on.
    pub(super) fn record(&mut self, inst: Inst, first: usize, index: Value, values: &[Value], length: TapeLength) {
        for (number, &value) in values.iter().enumerate() {
            let ty = self.builder.func.ty(value);
            let tape = self.tape(inst, first + number, ty, length);
            self.write_tape(tape, index, value);
        }
    }

    /// Keeps what a loop carries into an iteration, where that is the first of a segment.
    fn checkpoint(&mut self, inst: Inst, index: Value, values: &[Value]) {
        let segment = self.segment(inst);
        let number = self.builder.op(Op::Div, &[index, segment]);
        let first = self.builder.op(Op::Mul, &[number, segment]);
        let is_first = self.builder.op(Op::Eq, &[index, first]);
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.switch_to(regions[0]);
        self.record(inst, 0, number, values, TapeLength::Checkpoints(inst));
        for param in self.rows_of(inst) {
            self.keep_row(inst, param, number);
        }
        self.builder.yield_(&[]);
        self.builder.switch_to(regions[1]);
        self.builder.yield_(&[]);
        self.builder.switch_to(around);
        self.builder.region_inst(Op::If, &[is_first], &[], &regions);
    }
}
