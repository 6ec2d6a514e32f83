//! Structured form: a function without `block`, `break`, `continue`, and with one `return`, at its end.
//!
//! What leaves a region early becomes data. Each way out has a number; a region that may be left in other ways than
//! by its end also hands out the number of the way it was left by (0: its end), and what that way carries. What
//! follows is then done only if the number is 0:
//!
//! ```text
//! block ^0 { if c { break ^0 x }  rest  yield y }
//!     r, way = if c { yield x, 1 } else { yield 0, 0 }
//!     s = if way == 0 { rest  yield y } else { yield r }
//! ```
//!
//! Where only one side of an `if` goes on, what follows moves there, and no number is needed. A loop that is left early
//! becomes a `while` that ends when the number is no longer 0.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use polyloom_ir::{Builder, Function, Imm, Inst, InstData, Op, Region, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};

type Values = SmallVec<[Value; 8]>;
type Types = SmallVec<[Type; 8]>;

/// A way out of a region other than its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum RegionExit {
    Break(Inst),
    Continue(Inst),
    Return,
}

/// The function in structured form.
pub(super) fn structured(old: &Function) -> Function {
    let mut new = old.like();
    let mut structurer = ExitStructurer {
        old,
        exits: SecondaryMap::new(),
        values: SecondaryMap::new(),
        builder: Builder::new(&mut new),
    };
    structurer.survey(old.body);
    for (index, &param) in old.params().iter().enumerate() {
        let value = structurer.builder.func.params()[index];
        structurer.bind(param, value);
    }
    let outs = RegionOutputs {
        normal: old.results.iter().copied().collect(),
        merged: smallvec![RegionExit::Return],
        exits: smallvec![],
    };
    let results = structurer.sequence(old.body, 0, &outs, None);
    structurer.builder.return_(&results);
    new
}

/// Describes what a region hands to whom it belongs: values of the types of `normal`, and if it has `exits`, the number
/// of the way it was left by, and for each of them what it carries. What the `merged` ways carry are the normal values.
#[derive(Clone)]
struct RegionOutputs {
    normal: Types,
    merged: SmallVec<[RegionExit; 2]>,
    exits: SmallVec<[RegionExit; 4]>,
}

/// Describes what comes after the end of a region that is being written in the place of the `if` it belongs to.
struct RegionRest<'a> {
    region: Region,
    index: usize,
    /// Whose results are what the region yields.
    inst: Inst,
    next: Option<&'a RegionRest<'a>>,
}

struct ExitStructurer<'a> {
    old: &'a Function,
    /// Ways out of the old regions, in order.
    exits: SecondaryMap<Region, SmallVec<[RegionExit; 4]>>,
    values: SecondaryMap<Value, PackedOption<Value>>,
    builder: Builder<'a>,
}

impl<'a> ExitStructurer<'a> {
    fn survey(&mut self, region: Region) {
        let mut exits: SmallVec<[RegionExit; 4]> = SmallVec::new();
        for &inst in &self.old.regions[region].insts {
            let data = &self.old.insts[inst];
            match (data.op, &data.imm) {
                (Op::Break, &Imm::Target(target)) => exits.push(RegionExit::Break(target)),
                (Op::Continue, &Imm::Target(target)) => exits.push(RegionExit::Continue(target)),
                (Op::Return, _) => exits.push(RegionExit::Return),
                _ => {}
            }
            for &inner in &data.regions {
                self.survey(inner);
                exits.extend(self.exits[inner].iter().copied());
            }
            exits.retain(|exit| !is_to(*exit, inst));
        }
        exits.sort_unstable();
        exits.dedup();
        self.exits[region] = exits;
    }

    /// Ways out of an instruction's regions, and of itself.
    fn exits_of(&self, inst: Inst) -> SmallVec<[RegionExit; 4]> {
        let regions = &self.old.insts[inst].regions;
        let mut exits: SmallVec<[RegionExit; 4]> =
            regions.iter().flat_map(|&region| self.exits[region].clone()).collect();
        exits.retain(|exit| !is_to(*exit, inst));
        exits.sort_unstable();
        exits.dedup();
        exits
    }

    /// The types of what a way out carries.
    fn carried_by(&self, exit: RegionExit) -> Types {
        match exit {
            RegionExit::Break(target) | RegionExit::Continue(target) => {
                self.old.insts[target].results.iter().map(|&result| self.old.ty(result)).collect()
            }
            RegionExit::Return => self.old.results.iter().copied().collect(),
        }
    }

    /// The number of a way out: the same wherever it is left by.
    fn number(exit: RegionExit) -> i64 {
        match exit {
            RegionExit::Return => 1,
            RegionExit::Break(inst) => 2 + 2 * i64::from(inst.as_u32()),
            RegionExit::Continue(inst) => 3 + 2 * i64::from(inst.as_u32()),
        }
    }

    fn bind(&mut self, old: Value, new: Value) {
        self.values[old] = new.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[new] = Some(name.clone());
        }
    }

    fn value(&self, old: Value) -> Value {
        self.values[old].expand().unwrap_or(old)
    }

    fn mapped(&self, old: &[Value]) -> Values {
        old.iter().map(|&value| self.value(value)).collect()
    }

    /// Writes what a region holds from an index on, and what comes after it, and gives what is handed out at the end.
    fn sequence(&mut self, region: Region, from: usize, outs: &RegionOutputs, rest: Option<&RegionRest<'_>>) -> Values {
        let old = self.old;
        for (index, &inst) in old.regions[region].insts.iter().enumerate().skip(from) {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            match (data.op, &data.imm) {
                (Op::Yield, _) => {
                    let values = self.mapped(&data.operands);
                    let Some(rest) = rest else { return self.at_end(outs, values) };
                    self.bind_results(rest.inst, &values);
                    return self.sequence(rest.region, rest.index, outs, rest.next);
                }
                (Op::Break, &Imm::Target(target)) => return self.leave(outs, RegionExit::Break(target), data),
                (Op::Continue, &Imm::Target(target)) => return self.leave(outs, RegionExit::Continue(target), data),
                (Op::Return, _) => return self.leave(outs, RegionExit::Return, data),
                (Op::Unreachable, _) => {
                    let values = self.zeros(&outs.normal);
                    return self.at_end(outs, values);
                }
                (Op::If, _) if !self.exits_of(inst).is_empty() => {
                    let completes =
                        data.regions.iter().map(|&side| self.completes(side)).collect::<SmallVec<[bool; 2]>>();
                    if completes[..] != [true, true] {
                        let rest = RegionRest { region, index: index + 1, inst, next: rest };
                        return self.one_sided(data, &completes, outs, &rest);
                    }
                }
                _ => {}
            }
            if data.regions.is_empty() {
                self.copy(data);
                continue;
            }
            let exits = self.exits_of(inst);
            let (way, carried) = self.with_regions(inst, data, &exits);
            let Some(way) = way else { continue };
            // The code behind runs if none of the ways out was taken.
            let zero = self.builder.const_int(Scalar::I32, 0);
            let goes_on = self.builder.op(Op::Eq, &[way, zero]);
            let types = self.types_of(outs);
            let (branch, regions) = self.builder.begin_if(goes_on, &types);
            let around = self.builder.switch_to(regions[0]);
            let values = self.sequence(region, index + 1, outs, rest);
            self.builder.yield_(&values);
            self.builder.switch_to(regions[1]);
            let values = self.pass_on(outs, &exits, way, &carried);
            self.builder.yield_(&values);
            self.builder.switch_to(around);
            return self.builder.func.insts[branch].results.iter().copied().collect();
        }
        self.zeros(&self.types_of(outs))
    }

    /// An `if` of which not both sides go on, so that what follows becomes part of the side that does.
    fn one_sided(
        &mut self,
        data: &InstData,
        completes: &[bool],
        outs: &RegionOutputs,
        rest: &RegionRest<'_>,
    ) -> Values {
        let types = self.types_of(outs);
        let cond = self.value(data.operands[0]);
        let (branch, regions) = self.builder.begin_if(cond, &types);
        let around = self.builder.region();
        for (side, &region) in regions.iter().enumerate() {
            self.builder.switch_to(region);
            let values = self.sequence(data.regions[side], 0, outs, completes[side].then_some(rest));
            self.builder.yield_(&values);
        }
        self.builder.switch_to(around);
        self.builder.func.insts[branch].results.iter().copied().collect()
    }

    fn completes(&self, region: Region) -> bool {
        self.old.terminator(region).is_some_and(|last| self.old.insts[last].op == Op::Yield)
    }

    fn copy(&mut self, data: &InstData) {
        let operands = self.mapped(&data.operands);
        let new = super::instructions::written_again(&mut self.builder, self.old, data, &operands);
        for (index, &result) in data.results.iter().enumerate() {
            let value = self.builder.func.insts[new].results[index];
            self.bind(result, value);
        }
    }

    /// An instruction with regions. Binds its results, and gives the number of the way it was left by, if there is more
    /// than one, and what each of the `exits` carries.
    fn with_regions(&mut self, inst: Inst, data: &InstData, exits: &[RegionExit]) -> (Option<Value>, Values) {
        let results: Types = data.results.iter().map(|&result| self.old.ty(result)).collect();
        let n_results = results.len();
        let mut outs = RegionOutputs { normal: results, merged: SmallVec::new(), exits: exits.into() };
        let values: Values = match data.op {
            Op::If => {
                let cond = self.value(data.operands[0]);
                let types = self.types_of(&outs);
                let (branch, regions) = self.builder.begin_if(cond, &types);
                let around = self.builder.region();
                for (side, &region) in regions.iter().enumerate() {
                    self.builder.switch_to(region);
                    let values = self.sequence(data.regions[side], 0, &outs, None);
                    self.builder.yield_(&values);
                }
                self.builder.switch_to(around);
                self.builder.func.insts[branch].results.iter().copied().collect()
            }
            Op::Block => {
                outs.merged.push(RegionExit::Break(inst));
                let mut values = self.sequence(data.regions[0], 0, &outs, None);
                if !exits.is_empty() {
                    self.arrive(&mut values, n_results, RegionExit::Break(inst));
                }
                values
            }
            _ => {
                outs.merged.extend([RegionExit::Continue(inst), RegionExit::Break(inst)]);
                let body = data.regions[data.regions.len() - 1];
                match self.exits[body].contains(&RegionExit::Break(inst)) || !exits.is_empty() {
                    true => self.left_loop(inst, data, &outs),
                    false => self.plain_loop(data, &outs),
                }
            }
        };
        self.bind_results(inst, &values[..n_results]);
        match exits.is_empty() {
            true => (None, SmallVec::new()),
            false => (Some(values[n_results]), values[n_results + 1..].into()),
        }
    }

    /// Takes back the number of a way out that leads here.
    fn arrive(&mut self, values: &mut [Value], which: usize, here: RegionExit) {
        let zero = self.builder.const_int(Scalar::I32, 0);
        let number = self.builder.const_int(Scalar::I32, Self::number(here));
        let is_here = self.builder.op(Op::Eq, &[values[which], number]);
        values[which] = self.builder.op(Op::Select, &[is_here, zero, values[which]]);
    }

    /// A loop that runs to its end. The condition of a `while` becomes a value that it carries.
    fn plain_loop(&mut self, data: &InstData, outs: &RegionOutputs) -> Values {
        let mut operands = self.mapped(&data.operands);
        let mut types = outs.normal.clone();
        if data.op == Op::While {
            let goes_on = self.condition(data, &operands);
            operands.push(goes_on);
            types.push(Type::BOOL);
        }
        let n_carried = outs.normal.len();
        let body = data.regions[data.regions.len() - 1];
        let counter = (data.op == Op::ForRange).then(|| self.builder.func.ty(operands[0]));
        let with_counter: Types = counter.into_iter().chain(types.iter().copied()).collect();
        let mut regions: SmallVec<[Region; 2]> = SmallVec::new();
        let around = self.builder.region();
        if data.op == Op::While {
            regions.push(self.carried_condition(&types, n_carried));
        }
        let region = self.builder.create_region(&with_counter);
        regions.push(region);
        let params = self.builder.func.regions[region].params.clone();
        for (&old, &param) in self.old.regions[body].params.iter().zip(&params) {
            self.bind(old, param);
        }
        self.builder.switch_to(region);
        let mut values = self.sequence(body, 0, outs, None);
        if data.op == Op::While {
            let goes_on = self.condition(data, &values);
            values.push(goes_on);
        }
        self.builder.yield_(&values);
        self.builder.switch_to(around);
        let new = self.builder.region_inst(data.op, &operands, &types, &regions);
        self.builder.func.insts[new].results[..n_carried].iter().copied().collect()
    }

    /// The condition of a `while` for these values.
    fn condition(&mut self, data: &InstData, carried: &[Value]) -> Value {
        let region = data.regions[0];
        for (&old, &value) in self.old.regions[region].params.iter().zip(carried) {
            self.values[old] = value.into();
        }
        let outs = RegionOutputs { normal: smallvec![Type::BOOL], merged: SmallVec::new(), exits: SmallVec::new() };
        self.sequence(region, 0, &outs, None)[0]
    }

    /// The condition region of a `while` that goes on if one of the values that it carries says so.
    fn carried_condition(&mut self, types: &[Type], which: usize) -> Region {
        let region = self.builder.create_region(types);
        let around = self.builder.switch_to(region);
        let goes_on = self.builder.func.regions[region].params[which];
        self.builder.yield_(&[goes_on]);
        self.builder.switch_to(around);
        region
    }

    /// A loop that may be left early: a `while` that carries the number of the way it was left by.
    fn left_loop(&mut self, inst: Inst, data: &InstData, outs: &RegionOutputs) -> Values {
        let counts = data.op == Op::ForRange;
        let n_carried = outs.normal.len();
        let bounds = self.mapped(&data.operands[..if counts { 3 } else { 0 }]);
        let n = counts.then(|| trip_count(&mut self.builder, &bounds));
        // The carried values, the number, the values of the other ways out, the count of iterations, and whether it
        // goes on.
        let mut initial = self.mapped(&data.operands[bounds.len()..]);
        let counted = n.and_then(|n| self.builder.func.ty(n).as_scalar()).unwrap_or(Scalar::I32);
        let goes_on = match n {
            Some(n) => {
                let zero = self.builder.const_int(counted, 0);
                self.builder.op(Op::Lt, &[zero, n])
            }
            None => self.condition(data, &initial),
        };
        initial.push(self.builder.const_int(Scalar::I32, 0));
        let payload: Types = outs.exits.iter().flat_map(|&exit| self.carried_by(exit)).collect();
        initial.extend(self.zeros(&payload));
        let n_out = initial.len();
        initial.extend([self.builder.const_int(counted, 0), goes_on]);
        let types: Types = initial.iter().map(|&value| self.builder.func.ty(value)).collect();
        let condition = self.carried_condition(&types, n_out + 1);
        let region = self.builder.create_region(&types);
        let around = self.builder.switch_to(region);
        let params = self.builder.func.regions[region].params.clone();
        let body = data.regions[data.regions.len() - 1];
        let old_params = self.old.regions[body].params.clone();
        let count = params[n_out];
        if counts {
            let value = counter_at(&mut self.builder, bounds[0], bounds[2], count);
            self.bind(old_params[0], value);
        }
        for (&old, &value) in old_params[usize::from(counts)..].iter().zip(&params) {
            self.bind(old, value);
        }
        // The number says whether to go on, so that it is there even if a `break` is the only way out.
        let mut inner = outs.clone();
        inner.exits.push(RegionExit::Break(inst));
        let mut values = self.sequence(body, 0, &inner, None);
        self.arrive(&mut values, n_carried, RegionExit::Continue(inst));
        let one = self.builder.const_int(counted, 1);
        let next = self.builder.op(Op::Add, &[count, one]);
        let zero = self.builder.const_int(Scalar::I32, 0);
        let stays = self.builder.op(Op::Eq, &[values[n_carried], zero]);
        let (branch, sides) = self.builder.begin_if(stays, &[Type::BOOL]);
        let inside = self.builder.switch_to(sides[0]);
        let goes_on = match n {
            Some(n) => self.builder.op(Op::Lt, &[next, n]),
            None => self.condition(data, &values),
        };
        self.builder.yield_(&[goes_on]);
        self.builder.switch_to(sides[1]);
        let no = self.builder.const_bool(false);
        self.builder.yield_(&[no]);
        self.builder.switch_to(inside);
        let goes_on = self.builder.func.insts[branch].results[0];
        values.extend([next, goes_on]);
        self.builder.yield_(&values);
        self.builder.switch_to(around);
        let new = self.builder.region_inst(Op::While, &initial, &types, &[condition, region]);
        let mut values: Values = self.builder.func.insts[new].results[..n_out].iter().copied().collect();
        self.arrive(&mut values, n_carried, RegionExit::Break(inst));
        values
    }

    /// Returns what is handed out where a region ends.
    fn at_end(&mut self, outs: &RegionOutputs, mut values: Values) -> Values {
        let types = self.types_of(outs);
        if let Some(others) = types.get(outs.normal.len() + 1..) {
            values.push(self.builder.const_int(Scalar::I32, 0));
            values.extend(self.zeros(others));
        }
        values
    }

    /// Returns what is handed out where a region is left by one of the ways out.
    fn leave(&mut self, outs: &RegionOutputs, exit: RegionExit, data: &InstData) -> Values {
        let values = self.mapped(&data.operands);
        let carried: Values = values.iter().copied().collect();
        let number = self.builder.const_int(Scalar::I32, Self::number(exit));
        self.pass_on(outs, &[exit], number, &carried)
    }

    /// Returns what is handed out where a region is left by one of `exits`, whose number is `way` and of which each
    /// carries its part of `carried`.
    fn pass_on(&mut self, outs: &RegionOutputs, exits: &[RegionExit], way: Value, carried: &[Value]) -> Values {
        let mut normal: Option<Values> = None;
        let mut others: SmallVec<[(RegionExit, Values); 4]> = SmallVec::new();
        let mut carried = carried.iter().copied();
        for &exit in exits {
            let values: Values = carried.by_ref().take(self.carried_by(exit).len()).collect();
            if !outs.merged.contains(&exit) {
                others.push((exit, values));
                continue;
            }
            normal = Some(match normal {
                None => values,
                Some(before) => {
                    let number = self.builder.const_int(Scalar::I32, Self::number(exit));
                    let is_this = self.builder.op(Op::Eq, &[way, number]);
                    let chosen = values.iter().zip(&before);
                    chosen.map(|(&this, &other)| self.builder.op(Op::Select, &[is_this, this, other])).collect()
                }
            });
        }
        let mut values = normal.unwrap_or_else(|| self.zeros(&outs.normal));
        if outs.exits.is_empty() {
            return values;
        }
        values.push(way);
        for &exit in outs.exits.iter().filter(|exit| !outs.merged.contains(exit)) {
            match others.iter().find(|(other, _)| *other == exit) {
                Some((_, carried)) => values.extend(carried.iter().copied()),
                None => {
                    let types = self.carried_by(exit);
                    values.extend(self.zeros(&types));
                }
            }
        }
        values
    }

    fn types_of(&self, outs: &RegionOutputs) -> Types {
        let mut types = outs.normal.clone();
        if !outs.exits.is_empty() {
            types.push(Type::I32);
            let others = outs.exits.iter().filter(|exit| !outs.merged.contains(exit));
            types.extend(others.flat_map(|&exit| self.carried_by(exit)));
        }
        types
    }

    fn zeros(&mut self, types: &[Type]) -> Values {
        types.iter().map(|&ty| super::constants::zero(&mut self.builder, ty)).collect()
    }

    fn bind_results(&mut self, inst: Inst, values: &[Value]) {
        let results = self.old.insts[inst].results.clone();
        for (&result, &value) in results.iter().zip(values) {
            self.bind(result, value);
        }
    }
}

fn is_to(exit: RegionExit, inst: Inst) -> bool {
    matches!(exit, RegionExit::Break(target) | RegionExit::Continue(target) if target == inst)
}

/// Returns the number of times a `for_range` of these bounds runs: an `i32` if it fits one whatever they are, otherwise
/// an `i64`.
pub(super) fn trip_count(builder: &mut Builder<'_>, bounds: &[Value]) -> Value {
    let fits = fits_i32(builder.func, bounds);
    // The numbers of `u64` are those of `i64` and as many more, so that they are compared as they are, and never go
    // down.
    let scalar = builder.func.ty(bounds[0]).as_scalar().filter(|&ty| ty == Scalar::U64).unwrap_or(Scalar::I64);
    let [start, end, step] = [0, 1, 2].map(|index| builder.cast(bounds[index], scalar));
    let [zero, one] = [0, 1].map(|value| builder.const_int(scalar, value));
    let up = builder.op(Op::Gt, &[step, zero]);
    let first = builder.op(Op::Select, &[up, start, end]);
    let last = builder.op(Op::Select, &[up, end, start]);
    let minus = builder.op(Op::Neg, &[step]);
    let stride = builder.op(Op::Select, &[up, step, minus]);
    // The distance is divided without a sign, since the ends of the range of `i64` may be more than an `i64` apart.
    let distance = builder.op(Op::Sub, &[last, first]);
    let before_last = builder.op(Op::Sub, &[distance, one]);
    let [before_last, stride] = [before_last, stride].map(|value| builder.cast(value, Scalar::U64));
    let n = builder.op(Op::Div, &[before_last, stride]);
    let most = builder.const_int(Scalar::U64, i64::MAX - 1);
    let n = builder.op(Op::Min, &[n, most]);
    let [n, no_iterations, one] = [n, zero, one].map(|value| builder.cast(value, Scalar::I64));
    let n = builder.op(Op::Add, &[n, one]);
    let enters = builder.op(Op::Lt, &[first, last]);
    let moves = builder.op(Op::Ne, &[step, zero]);
    let runs = builder.op(Op::BitAnd, &[enters, moves]);
    let n = builder.op(Op::Select, &[runs, n, no_iterations]);
    if fits { builder.cast(n, Scalar::I32) } else { n }
}

/// Returns true if a `for_range` of these bounds runs less than 2^31 times: its counter has 16 bits or less, or 32 and
/// it begins at a constant from which it goes away from zero.
fn fits_i32(func: &Function, bounds: &[Value]) -> bool {
    let constant = |value: Value| func.as_const(value).map(|bits| bits as u32 as i32);
    match func.ty(bounds[0]).as_scalar() {
        Some(Scalar::I32) => match (constant(bounds[0]), constant(bounds[1]), constant(bounds[2])) {
            (Some(start), Some(end), Some(_)) => i64::from(end).abs_diff(i64::from(start)) <= i32::MAX as u64,
            (Some(start), None, Some(step)) => start >= 0 && step > 0 || start <= -1 && step < 0,
            _ => false,
        },
        Some(scalar) => scalar.bytes() < 4,
        None => false,
    }
}

/// The counter of a `for_range` in the iteration with this number.
pub(super) fn counter_at(builder: &mut Builder<'_>, start: Value, step: Value, number: Value) -> Value {
    let ty = builder.func.ty(start).as_scalar().unwrap_or(Scalar::I32);
    let number = builder.cast(number, ty);
    let distance = builder.op(Op::Mul, &[number, step]);
    builder.op(Op::Add, &[start, distance])
}
