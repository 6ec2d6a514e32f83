//! The two sweeps of a backward kernel: forward, which computes again what the kernel computed and records what the way
//! back will need, and reverse, which carries derivatives from what the kernel wrote to what it read.
//!
//! The function is in structured form, so each construct has one reverse:
//!
//! * An instruction adds to the adjoints of its operands what its rule says ([`super::rules`]).
//! * An `if` is an `if` on the same condition. The values of its sides are handed out by the `if` of the forward sweep.
//! * A loop is a loop over its iterations from the last to the first. What it carried into each is on a *tape*: an array
//!   with a place for each iteration and thread. The rest of the iteration is computed again from that, inner loops and
//!   their tapes among it, so a tape is as long as one loop, whatever the loops around it.
//! * A load adds to the adjoint of the element; a store takes the element's adjoint and leaves zero.
//!
//! Memory is accessed as the kernel does only once, in the forward sweep. What a loop reads from an array that the
//! kernel also writes is recorded, on a tape that is as long as there are such reads.

use super::plan::{Tape, TapeLength};
use super::rules;
use super::structure::{counter_at, trip_count};
use super::zero;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::op::Effect;
use polyloom_ir::{
    Builder, Code, Diagnostic, Function, Imm, Inst, InstData, Op, Region, Scalar, Type, Value, ValueDef,
};
use smallvec::{SmallVec, smallvec};

type Values = SmallVec<[Value; 8]>;
type Types = SmallVec<[Type; 8]>;

/// An array parameter of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Array {
    /// The parameter of the backward kernel that holds its adjoint, if it is active.
    pub(super) adjoint: Option<Value>,
    /// Whether the kernel stores to it as well as loads from it.
    pub(super) is_replayed: bool,
    /// Whether no two threads touch the adjoint of one element.
    pub(super) is_private: bool,
}

/// How the forward sweep goes through a region.
#[derive(Clone, Copy)]
struct Mode {
    /// Whether it is there for the first time: later, memory is not what it was.
    first: bool,
    /// Whether the reverse sweep will come back to this execution of it.
    record: bool,
}

/// What is known to the region around an `if` of what happened in it.
#[derive(Clone, Copy)]
enum Export {
    Value(Value),
    Trips(Inst),
}

pub(super) struct Sweep<'a> {
    pub(super) old: &'a Function,
    pub(super) builder: Builder<'a>,
    /// What an old value is now.
    pub(super) values: SecondaryMap<Value, PackedOption<Value>>,
    /// The derivative of what is to come with respect to an old value; none if it is zero.
    pub(super) adjoints: SecondaryMap<Value, PackedOption<Value>>,
    pub(super) active: EntitySet<Value>,
    /// By parameter.
    pub(super) arrays: Vec<Array>,
    /// How often a loop ran.
    trips: SecondaryMap<Inst, PackedOption<Value>>,
    /// How many values each of these reads in loops has recorded, or has taken back.
    counters: Vec<(Inst, Value)>,
    pub(super) tapes: Vec<Tape>,
    /// By loop or recorded read, where its tapes are among `tapes`.
    tapes_of: SecondaryMap<Inst, SmallVec<[usize; 4]>>,
    /// The thread's place on tapes.
    place: Option<Value>,
    /// How many threads have a place on tapes.
    pub(super) n_places: Option<Value>,
    n_loops: usize,
    /// Instead of tapes, an array of how long these have to be.
    pub(super) sizes: Option<(Value, Vec<TapeLength>)>,
    pub(super) errors: Vec<Diagnostic>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        old: &'a Function,
        new: &'a mut Function,
        active: EntitySet<Value>,
        arrays: Vec<Array>,
    ) -> Sweep<'a> {
        Sweep {
            old,
            builder: Builder::new(new),
            values: SecondaryMap::new(),
            adjoints: SecondaryMap::new(),
            active,
            arrays,
            trips: SecondaryMap::new(),
            counters: Vec::new(),
            tapes: Vec::new(),
            tapes_of: SecondaryMap::new(),
            place: None,
            n_places: None,
            n_loops: 0,
            sizes: None,
            errors: Vec::new(),
        }
    }

    /// Writes both sweeps, after which the adjoints of scalar parameters are in `adjoints`.
    pub(super) fn run(&mut self) {
        self.find_recorded_reads(self.old.body, false);
        self.forward(self.old.body, Mode { first: true, record: true });
        self.reverse(self.old.body);
    }

    /// Writes the forward sweep alone, which finds out how long tapes have to be.
    pub(super) fn run_sizes(&mut self) {
        self.find_recorded_reads(self.old.body, false);
        self.forward(self.old.body, Mode { first: true, record: false });
        for index in 0..self.counters.len() {
            let (read, n) = self.counters[index];
            self.note_size(TapeLength::Reads(read), n);
        }
    }

    fn note_size(&mut self, of: TapeLength, n: Value) {
        let Some((array, lengths)) = &self.sizes else { return };
        let array = *array;
        if let Some(number) = lengths.iter().position(|length| *length == of) {
            let number = self.builder.const_int(Scalar::I32, number as i64);
            self.builder.inst(Op::AtomicMax, &[array, number, n], &[Type::I32], Imm::None);
        }
    }

    fn refuse(&mut self, data: &InstData, message: String, help: &str) {
        self.errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
    }

    // ---- values and tapes ------------------------------------------------------------------------------------------

    /// What an old value is here. Constants are made anew wherever they are needed.
    fn value(&mut self, old: Value) -> Value {
        if let ValueDef::Result(inst, _) = self.old.values[old].def
            && let data = &self.old.insts[inst]
            && data.op == Op::Const
        {
            let new = self.builder.inst(Op::Const, &[], &[self.old.ty(old)], data.imm.clone());
            return self.builder.func.insts[new].results[0];
        }
        self.values[old].expand().unwrap_or(old)
    }

    fn mapped(&mut self, old: &[Value]) -> Values {
        old.iter().map(|&value| self.value(value)).collect()
    }

    fn bind(&mut self, old: Value, new: Value) {
        self.values[old] = new.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[new] = Some(name.clone());
        }
    }

    fn array_of(&self, value: Value) -> Option<usize> {
        self.old.param_index(value)
    }

    /// Loads of replayed arrays in loops, each with a counter that begins at zero.
    fn find_recorded_reads(&mut self, region: Region, in_loop: bool) {
        let old = self.old;
        for &inst in &old.regions[region].insts {
            let data = &old.insts[inst];
            if in_loop && self.is_replayed_load(data) {
                let zero = self.builder.const_int(Scalar::I32, 0);
                self.counters.push((inst, zero));
            }
            for &inner in &data.regions {
                self.find_recorded_reads(inner, in_loop || matches!(data.op, Op::ForRange | Op::While));
            }
        }
    }

    fn is_replayed_load(&self, data: &InstData) -> bool {
        matches!(data.op, Op::ArrayLoad | Op::LoadReadonly)
            && self.array_of(data.operands[0]).is_some_and(|param| self.arrays[param].is_replayed)
    }

    /// Where the counters are of reads under an instruction.
    fn counters_in(&self, inst: Inst) -> SmallVec<[usize; 4]> {
        let mut found = SmallVec::new();
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        while let Some(region) = pending.pop() {
            for &inner in &self.old.regions[region].insts {
                found.extend(self.counters.iter().position(|(read, _)| *read == inner));
                pending.extend(&self.old.insts[inner].regions);
            }
        }
        found.sort_unstable();
        found
    }

    /// The thread's place on tapes.
    fn place(&mut self) -> Value {
        if let Some(place) = self.place {
            return place;
        }
        let n_places = self.n_places.unwrap_or_else(|| {
            let body = self.builder.func.body;
            let param = self.builder.func.add_region_param(body, Type::I32);
            self.builder.func.param_names.push("tape_places".into());
            param
        });
        self.n_places = Some(n_places);
        // At the very beginning, where everything sees it.
        let body = self.builder.func.body;
        let behind = std::mem::take(&mut self.builder.func.regions[body].insts);
        let around = self.builder.switch_to(body);
        let thread = self.builder.op(Op::TidLinear, &[]);
        let place = self.builder.op(Op::Mod, &[thread, n_places]);
        self.builder.switch_to(around);
        self.builder.func.regions[body].insts.extend(behind);
        self.place = Some(place);
        place
    }

    /// The tape that an instruction's value with this number is on.
    fn tape(&mut self, inst: Inst, number: usize, ty: Type, length: TapeLength) -> Value {
        if let Some(&tape) = self.tapes_of[inst].get(number) {
            return self.tapes[tape].param;
        }
        debug_assert_eq!(self.tapes_of[inst].len(), number, "tapes are asked for in order");
        let body = self.builder.func.body;
        let ty = match ty {
            Type::Composite(elem) => Type::composite_array(elem, 2),
            ty => Type::array(ty.as_scalar().unwrap_or(Scalar::I32), 2),
        };
        let param = self.builder.func.add_region_param(body, ty);
        self.builder.func.param_names.push(format!("tape_{}", self.tapes.len()).into());
        self.tapes_of[inst].push(self.tapes.len());
        self.tapes.push(Tape { param, length });
        param
    }

    fn write_tape(&mut self, tape: Value, index: Value, value: Value) {
        let place = self.place();
        self.builder.inst(Op::ArrayStore, &[tape, index, place, value], &[], Imm::None);
    }

    fn read_tape(&mut self, tape: Value, index: Value, ty: Type) -> Value {
        let place = self.place();
        let load = self.builder.inst(Op::ArrayLoad, &[tape, index, place], &[ty], Imm::None);
        self.builder.func.insts[load].results[0]
    }

    // ---- forward ---------------------------------------------------------------------------------------------------

    /// Writes what a region does again, up to its terminator, and gives what has come to be known.
    fn forward(&mut self, region: Region, mode: Mode) -> Vec<Export> {
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
                    if replayed && mode.first {
                        self.copy(data);
                    }
                }
                _ if matches!(data.op.info().effect, Effect::Pure | Effect::Read) => self.copy(data),
                _ => self.update(data),
            }
            known.extend(data.results.iter().map(|&result| Export::Value(result)));
        }
        known
    }

    fn copy(&mut self, data: &InstData) {
        let operands = self.mapped(&data.operands);
        let types: Types = data.results.iter().map(|&result| self.old.ty(result)).collect();
        let new = self.builder.inst(data.op, &operands, &types, data.imm.clone());
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

    /// An atomic update: not done again, so nothing may depend on what it gave.
    fn update(&mut self, data: &InstData) {
        let name = data.op.name();
        let is_used = data.results.iter().any(|&result| is_used(self.old, result));
        if data.op.info().group != polyloom_ir::op::Group::Atomic {
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
    fn recorded_read(&mut self, inst: Inst, data: &InstData, mode: Mode) {
        let Some(counter) = self.counters.iter().position(|(read, _)| *read == inst) else { return };
        let ty = self.old.ty(data.results[0]);
        let index = self.counters[counter].1;
        if self.sizes.is_some() {
            self.copy(data);
        } else if mode.first {
            self.copy(data);
            let tape = self.tape(inst, 0, ty, TapeLength::Reads(inst));
            let value = self.value(data.results[0]);
            self.write_tape(tape, index, value);
        } else {
            let tape = self.tape(inst, 0, ty, TapeLength::Reads(inst));
            let value = self.read_tape(tape, index, ty);
            self.bind(data.results[0], value);
        }
        let one = self.builder.const_int(Scalar::I32, 1);
        self.counters[counter].1 = self.builder.op(Op::Add, &[index, one]);
    }

    fn forward_if(&mut self, inst: Inst, data: &InstData, mode: Mode, known: &mut Vec<Export>) {
        let cond = self.value(data.operands[0]);
        let counters = self.counters_in(inst);
        let before: Values = counters.iter().map(|&counter| self.counters[counter].1).collect();
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.region();
        // By side, what it hands out at its end; the exports follow.
        let mut ends: [Values; 2] = [SmallVec::new(), SmallVec::new()];
        let mut exports: [Vec<Export>; 2] = [Vec::new(), Vec::new()];
        let mut exported: [Values; 2] = [SmallVec::new(), SmallVec::new()];
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            for (&counter, &value) in counters.iter().zip(&before) {
                self.counters[counter].1 = value;
            }
            exports[side] = self.forward(data.regions[side], mode);
            ends[side] = self.yielded(data.regions[side]);
            ends[side].extend(counters.iter().map(|&counter| self.counters[counter].1));
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
            self.counters[counter].1 = value;
        }
        for export in exports.into_iter().flatten() {
            let Some(value) = results.next() else { break };
            match export {
                Export::Value(old) => self.values[old] = value.into(),
                Export::Trips(inst) => self.trips[inst] = value.into(),
            }
            known.push(export);
        }
    }

    fn exported(&self, export: Export) -> Option<Value> {
        match export {
            Export::Value(old) => self.values[old].expand(),
            Export::Trips(inst) => self.trips[inst].expand(),
        }
    }

    /// What the terminator of a region hands out.
    fn yielded(&mut self, region: Region) -> Values {
        let operands = self.old.terminator(region).map(|last| self.old.insts[last].operands.clone());
        self.mapped(&operands.unwrap_or_default())
    }

    /// What a loop carries that the reverse sweep asks for by iteration: its own values and the counters of reads.
    fn forward_loop(&mut self, inst: Inst, data: &InstData, mode: Mode, known: &mut Vec<Export>) {
        let counts = data.op == Op::ForRange;
        let n_bounds = if counts { 3 } else { 0 };
        let counters = self.counters_in(inst);
        let mut operands = self.mapped(&data.operands);
        let is_numbered = mode.record || self.sizes.is_some();
        if counts && is_numbered {
            let n = trip_count(&mut self.builder, &operands[..3]);
            self.trips[inst] = n.into();
        }
        operands.extend(counters.iter().map(|&counter| self.counters[counter].1));
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
            self.counters[counter].1 = param;
        }
        if mode.record {
            let index = params[n_recorded];
            for (number, (&value, &ty)) in params[..n_recorded].iter().zip(&types).enumerate() {
                let tape = self.tape(inst, number, ty, TapeLength::Loop(inst));
                self.write_tape(tape, index, value);
            }
        }
        self.n_loops += 1;
        self.forward(old_body, Mode { record: false, ..mode });
        self.n_loops -= 1;
        let mut yields = self.yielded(old_body);
        yields.extend(counters.iter().map(|&counter| self.counters[counter].1));
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
            self.counters[counter].1 = value;
        }
        if is_numbered {
            if !counts {
                self.trips[inst] = results[n_recorded].into();
            }
            if let Some(n) = self.trips[inst].expand() {
                self.note_size(TapeLength::Loop(inst), n);
            }
            known.push(Export::Trips(inst));
        }
    }

    // ---- reverse ---------------------------------------------------------------------------------------------------

    /// Adds to the adjoint of an old value.
    fn add(&mut self, old: Value, by: Value) {
        if !self.active.contains(old) {
            return;
        }
        let sum = match self.adjoints[old].expand() {
            None => by,
            Some(before) => self.builder.op(Op::Add, &[before, by]),
        };
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[sum] = Some(format!("adj_{name}").into());
        }
        self.adjoints[old] = sum.into();
    }

    /// Writes the reverse of a region, whose values and the adjoints of what it hands out are known.
    fn reverse(&mut self, region: Region) {
        let old = self.old;
        for &inst in old.regions[region].insts.iter().rev() {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            match data.op {
                Op::If => self.reverse_if(inst, data),
                Op::ForRange | Op::While => self.reverse_loop(inst, data),
                Op::ArrayLoad | Op::LoadReadonly => self.reverse_load(data),
                Op::ArrayStore => self.reverse_store(data),
                Op::AtomicAdd | Op::AtomicSub => self.reverse_sum(data),
                _ if data.op.info().group == polyloom_ir::op::Group::Atomic => self.reverse_update(data),
                _ => self.reverse_op(data),
            }
        }
    }

    fn reverse_op(&mut self, data: &InstData) {
        let adjoints: SmallVec<[Option<Value>; 2]> =
            data.results.iter().map(|&result| self.adjoints[result].take()).collect();
        if adjoints.iter().all(Option::is_none) {
            return;
        }
        let operands = self.mapped(&data.operands);
        let results = self.mapped(&data.results);
        match rules::contributions(&mut self.builder, data, &operands, &results, &adjoints) {
            Some(contributions) => {
                for (&operand, contribution) in data.operands.iter().zip(contributions) {
                    if let Some(contribution) = contribution {
                        self.add(operand, contribution);
                    }
                }
            }
            None => {
                let help = "compute it in a kernel of its own, or from values that need no gradient";
                self.refuse(data, format!("`{}` has no derivative", data.op.name()), help);
            }
        }
    }

    /// The adjoint array of an array and the indices of an access.
    fn adjoint_of(&mut self, data: &InstData, n_indices: usize) -> Option<(usize, Values)> {
        let param = self.array_of(data.operands[0])?;
        let adjoint = self.arrays[param].adjoint?;
        let mut place: Values = smallvec![adjoint];
        place.extend(self.mapped(&data.operands[1..1 + n_indices]));
        Some((param, place))
    }

    fn reverse_load(&mut self, data: &InstData) {
        let Some(adjoint) = self.adjoints[data.results[0]].take() else { return };
        let Some((param, mut place)) = self.adjoint_of(data, data.operands.len() - 1) else { return };
        let ty = self.old.ty(data.results[0]);
        if self.arrays[param].is_private {
            let before = self.builder.inst(Op::ArrayLoad, &place, &[ty], Imm::None);
            let before = self.builder.func.insts[before].results[0];
            place.push(self.builder.op(Op::Add, &[before, adjoint]));
            self.builder.inst(Op::ArrayStore, &place, &[], Imm::None);
        } else {
            place.push(adjoint);
            self.builder.inst(Op::AtomicAdd, &place, &[ty], Imm::None);
        }
    }

    fn reverse_store(&mut self, data: &InstData) {
        let Some((_, mut place)) = self.adjoint_of(data, data.operands.len() - 2) else { return };
        let value = data.operands[data.operands.len() - 1];
        let ty = self.old.ty(value);
        let load = self.builder.inst(Op::ArrayLoad, &place, &[ty], Imm::None);
        let adjoint = self.builder.func.insts[load].results[0];
        place.push(zero(&mut self.builder, ty));
        self.builder.inst(Op::ArrayStore, &place, &[], Imm::None);
        self.add(value, adjoint);
    }

    /// `atomic_add` and `atomic_sub`: the element's adjoint stays.
    fn reverse_sum(&mut self, data: &InstData) {
        let Some((_, place)) = self.adjoint_of(data, data.operands.len() - 2) else { return };
        let value = data.operands[data.operands.len() - 1];
        if !self.active.contains(value) {
            return;
        }
        let ty = self.old.ty(value);
        let load = self.builder.inst(Op::ArrayLoad, &place, &[ty], Imm::None);
        let mut adjoint = self.builder.func.insts[load].results[0];
        if data.op == Op::AtomicSub {
            adjoint = self.builder.op(Op::Neg, &[adjoint]);
        }
        self.add(value, adjoint);
    }

    fn reverse_update(&mut self, data: &InstData) {
        if self.adjoint_of(data, 0).is_some() {
            let (message, help) = active_update(data.op);
            self.refuse(data, message, help);
        }
    }

    /// Active values from outside that the regions of an instruction use.
    fn captured(&self, inst: Inst) -> Values {
        let mut inside = EntitySet::new();
        let mut used = Values::new();
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        let mut next = 0;
        while let Some(&region) = pending.get(next) {
            next += 1;
            let params = self.old.regions[region].params.iter();
            params.for_each(|&param| _ = inside.insert(param));
            for &inner in &self.old.regions[region].insts {
                let data = &self.old.insts[inner];
                data.results.iter().for_each(|&result| _ = inside.insert(result));
                used.extend(data.operands.iter().copied());
                pending.extend(&data.regions);
            }
        }
        let is_array = |value: Value| self.old.ty(value).as_any_array().is_some();
        used.retain(|value| self.active.contains(*value) && !inside.contains(*value) && !is_array(*value));
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Whether the reverse of something under an instruction may not be left out though the adjoints of its results are
    /// zero.
    fn touches_adjoints(&self, inst: Inst) -> bool {
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        while let Some(region) = pending.pop() {
            for &inner in &self.old.regions[region].insts {
                let data = &self.old.insts[inner];
                let writes = matches!(data.op.info().effect, Effect::Write | Effect::ReadWrite);
                if writes && !data.operands.is_empty() {
                    let param = self.array_of(data.operands[0]);
                    if param.is_some_and(|param| self.arrays[param].adjoint.is_some()) {
                        return true;
                    }
                }
                pending.extend(&data.regions);
            }
        }
        false
    }

    fn reverse_if(&mut self, inst: Inst, data: &InstData) {
        let seeds: SmallVec<[Option<Value>; 4]> =
            data.results.iter().map(|&result| self.adjoints[result].take()).collect();
        if seeds.iter().all(Option::is_none) && !self.touches_adjoints(inst) {
            return;
        }
        let cond = self.value(data.operands[0]);
        let captured = self.captured(inst);
        let before: SmallVec<[Option<Value>; 8]> =
            captured.iter().map(|&value| self.adjoints[value].expand()).collect();
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let around = self.builder.region();
        let mut after: [SmallVec<[Option<Value>; 8]>; 2] = [SmallVec::new(), SmallVec::new()];
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            for (&value, &adjoint) in captured.iter().zip(&before) {
                self.adjoints[value] = adjoint.into();
            }
            self.seed(data.regions[side], &seeds);
            self.reverse(data.regions[side]);
            after[side] = captured.iter().map(|&value| self.adjoints[value].expand()).collect();
        }
        let changed: SmallVec<[usize; 8]> =
            (0..captured.len()).filter(|&index| after.iter().any(|after| after[index] != before[index])).collect();
        let types: Types = changed.iter().map(|&index| self.old.ty(captured[index])).collect();
        for side in 0..2 {
            self.builder.switch_to(regions[side]);
            let values = changed.iter().zip(&types);
            let values: Values =
                values.map(|(&index, &ty)| after[side][index].unwrap_or_else(|| zero(&mut self.builder, ty))).collect();
            self.builder.yield_(&values);
        }
        self.builder.switch_to(around);
        let new = self.builder.region_inst(Op::If, &[cond], &types, &regions);
        for (&value, &adjoint) in captured.iter().zip(&before) {
            self.adjoints[value] = adjoint.into();
        }
        for (number, &index) in changed.iter().enumerate() {
            self.adjoints[captured[index]] = self.builder.func.insts[new].results[number].into();
        }
    }

    /// Adds the adjoints of what a region hands out.
    fn seed(&mut self, region: Region, seeds: &[Option<Value>]) {
        let Some(last) = self.old.terminator(region) else { return };
        let operands = self.old.insts[last].operands.clone();
        for (&operand, seed) in operands.iter().zip(seeds) {
            if let Some(seed) = seed {
                self.add(operand, *seed);
            }
        }
    }

    fn reverse_loop(&mut self, inst: Inst, data: &InstData) {
        let seeds: SmallVec<[Option<Value>; 4]> =
            data.results.iter().map(|&result| self.adjoints[result].take()).collect();
        if seeds.iter().all(Option::is_none) && !self.touches_adjoints(inst) {
            return;
        }
        let Some(n) = self.trips[inst].expand() else { return };
        let counts = data.op == Op::ForRange;
        let body = data.regions[data.regions.len() - 1];
        let params = self.old.regions[body].params.clone();
        let params = &params[usize::from(counts)..];
        // The adjoints that go from iteration to iteration: of what the loop carries, and of what is outside.
        let carried: SmallVec<[usize; 8]> =
            (0..params.len()).filter(|&slot| self.active.contains(params[slot])).collect();
        let captured = self.captured(inst);
        let mut initial: Values = SmallVec::new();
        for &slot in &carried {
            let ty = self.old.ty(params[slot]);
            initial.push(seeds[slot].unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        for &value in &captured {
            let ty = self.old.ty(value);
            initial.push(self.adjoints[value].expand().unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        let types: Types = initial.iter().map(|&value| self.builder.func.ty(value)).collect();
        let zero_index = self.builder.const_int(Scalar::I32, 0);
        let one = self.builder.const_int(Scalar::I32, 1);
        let mut operands: Values = smallvec![zero_index, n, one];
        operands.extend(initial);
        let with_counter: Types = std::iter::once(Type::I32).chain(types.iter().copied()).collect();
        let region = self.builder.create_region(&with_counter);
        let around = self.builder.switch_to(region);
        let inner = self.builder.func.regions[region].params.clone();

        let last = self.builder.op(Op::Sub, &[n, one]);
        let index = self.builder.op(Op::Sub, &[last, inner[0]]);
        if counts {
            let [start, step] = [0, 2].map(|operand| self.value(data.operands[operand]));
            let counter = counter_at(&mut self.builder, start, step, index);
            self.bind(self.old.regions[body].params[0], counter);
        }
        for (slot, &param) in params.iter().enumerate() {
            let ty = self.old.ty(param);
            let tape = self.tape(inst, slot, ty, TapeLength::Loop(inst));
            let value = self.read_tape(tape, index, ty);
            self.bind(param, value);
        }
        for (number, counter) in self.counters_in(inst).into_iter().enumerate() {
            let tape = self.tape(inst, params.len() + number, Type::I32, TapeLength::Loop(inst));
            self.counters[counter].1 = self.read_tape(tape, index, Type::I32);
        }
        self.n_loops += 1;
        self.forward(body, Mode { first: false, record: true });
        for (&value, &adjoint) in captured.iter().zip(&inner[1 + carried.len()..]) {
            self.adjoints[value] = adjoint.into();
        }
        let mut seeds: SmallVec<[Option<Value>; 4]> = smallvec![None; params.len()];
        for (&slot, &adjoint) in carried.iter().zip(&inner[1..]) {
            seeds[slot] = Some(adjoint);
        }
        self.seed(body, &seeds);
        self.reverse(body);
        self.n_loops -= 1;
        let mut yields = Values::new();
        for &slot in &carried {
            let ty = self.old.ty(params[slot]);
            let adjoint = self.adjoints[params[slot]].take();
            yields.push(adjoint.unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        for &value in &captured {
            let ty = self.old.ty(value);
            yields.push(self.adjoints[value].expand().unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        self.builder.yield_(&yields);
        self.builder.switch_to(around);
        let new = self.builder.region_inst(Op::ForRange, &operands, &types, &[region]);
        let results = self.builder.func.insts[new].results.clone();
        for (&value, &adjoint) in captured.iter().zip(&results[carried.len()..]) {
            self.adjoints[value] = adjoint.into();
        }
        let first = if counts { 3 } else { 0 };
        for (&slot, &adjoint) in carried.iter().zip(&results) {
            self.add(data.operands[first + slot], adjoint);
        }
    }
}

/// Why an atomic update whose result is used has no derivative, and what to do about it.
pub(super) fn used_update(op: Op) -> (String, &'static str) {
    let message = format!("what `{}` gives depends on the order of threads, and the kernel uses it", op.name());
    (message, "store it in an array that another kernel reads")
}

/// Why an atomic update of an active array has no derivative, and what to do about it.
pub(super) fn active_update(op: Op) -> (String, &'static str) {
    let message = format!("`{}` of an array that needs a gradient has no derivative", op.name());
    (message, "pass the array as one that needs no gradient, or update it by `atomic_add`")
}

pub(super) fn is_used(func: &Function, value: Value) -> bool {
    let mut used = false;
    func.walk(func.body, &mut |_, data| used |= data.operands.contains(&value));
    used
}
