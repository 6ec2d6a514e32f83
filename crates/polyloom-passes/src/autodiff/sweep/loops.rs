//! The reverse sweep through loops: from the last iteration to the first, with what they carried from tapes.
//!
//! With checkpoints, tapes hold what a loop carried into the first iteration of each of its segments. The way back then
//! goes from segment to segment, runs each again to record all of its iterations, and goes back through these. What the
//! thread's [rows](super::rows) hold is put back before that.

use super::super::constants::zero;
use super::super::structure::counter_at;
use super::super::tape_layout::TapeLength;
use super::asked::{Asked, Seeds, ValueAdjoint};
use super::{BackwardBuilder, SweepMode, Types, Values};
use polyloom_ir::{Inst, InstData, Op, Region, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};

/// A loop on the way back.
struct ReverseLoop<'a> {
    inst: Inst,
    data: &'a InstData,
    body: Region,
    /// Holds what it carries, without its counter.
    params: Vec<Value>,
    /// Counters of the reads under it: those that go on from iteration to iteration.
    counters: SmallVec<[usize; 4]>,
    /// Counters of reads that are recorded for a segment alone.
    row_counters: SmallVec<[usize; 4]>,
    /// The arrays of which checkpoints keep rows.
    rows: SmallVec<[usize; 4]>,
    /// Says which of what it carries have adjoints.
    carried: SmallVec<[usize; 8]>,
    /// Active values from outside that it uses.
    captured: Values,
    /// When the adjoints of what it carries are asked for.
    asked: Asked,
    /// The carried values with adjoints of which each iteration decides whether these are live.
    decided: SmallVec<[usize; 2]>,
}

impl BackwardBuilder<'_> {
    pub(super) fn reverse_loop(&mut self, inst: Inst, data: &InstData) {
        let touches_adjoints = self.touches_adjoints(inst);
        let asked = if touches_adjoints { None } else { self.asked_for(&data.results) };
        let seeds = self.seeds(data);
        if seeds.iter().all(Option::is_none) && !touches_adjoints {
            return;
        }
        let Some(n) = self.trips[inst].expand() else { return };
        let counts = data.op == Op::ForRange;
        let body = data.regions[data.regions.len() - 1];
        let params = self.old.regions[body].params[usize::from(counts)..].to_vec();
        // The adjoints that go from iteration to iteration: of what the loop carries, and of what is outside.
        let carried: SmallVec<[usize; 8]> =
            (0..params.len()).filter(|&slot| self.active.contains(params[slot])).collect();
        let decided = carried.iter().copied().filter(|&slot| self.is_only_taken(body, params[slot])).collect();
        let row_counters = self.row_counters(inst);
        let mut counters = self.counters_in(inst);
        counters.retain(|counter| !row_counters.contains(counter));
        let (rows, captured) = (self.rows_of(inst), self.captured(inst));
        let lp =
            ReverseLoop { inst, data, body, params, counters, row_counters, rows, carried, captured, asked, decided };
        let mut initial: Values = SmallVec::new();
        for &slot in &lp.carried {
            let ty = self.old.ty(lp.params[slot]);
            let adjoint = seeds[slot].map(|seed| seed.adjoint);
            initial.push(adjoint.unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        for &value in &lp.captured {
            let ty = self.old.ty(value);
            initial.push(self.adjoints[value].expand().unwrap_or_else(|| zero(&mut self.builder, ty)));
        }
        // The adjoint of a value outside is live if an iteration uses it.
        let before: Seeds = lp.captured.iter().map(|&value| self.seed_of(value)).collect();
        for &seed in &before {
            initial.push(match seed {
                Some(seed) => self.condition(seed.asked),
                None => self.builder.const_bool(false),
            });
        }
        for &slot in &lp.decided {
            initial.push(match seeds[slot] {
                Some(seed) => self.condition(seed.asked),
                None => self.builder.const_bool(false),
            });
        }
        let results = match self.checkpoints {
            true => self.reverse_segments(&lp, n, &initial),
            false => {
                let zero = self.like(n, 0);
                self.reverse_iterations(&lp, zero, n, &initial)
            }
        };
        let (adjoints, conditions) = results[lp.carried.len()..].split_at(lp.captured.len());
        let (conditions, decided) = conditions.split_at(lp.captured.len());
        for (index, &value) in lp.captured.iter().enumerate() {
            let is_always = before[index].is_some_and(|seed| seed.asked.is_none());
            let asked = (!is_always).then_some(conditions[index]);
            self.set(value, Some(ValueAdjoint { adjoint: adjoints[index], asked }));
        }
        let first = if counts { 3 } else { 0 };
        for (&slot, &adjoint) in lp.carried.iter().zip(&results) {
            let asked = lp.decided.iter().position(|&other| other == slot).map_or(asked, |at| Some(decided[at]));
            self.add_if(data.operands[first + slot], adjoint, asked);
        }
    }

    /// A number of the type that another has.
    fn like(&mut self, other: Value, number: i64) -> Value {
        let ty = self.builder.func.ty(other).as_scalar().unwrap_or(Scalar::I32);
        self.builder.const_int(ty, number)
    }

    /// A loop over 0, 1, … to `n - 1` that carries values, of which `write` writes the body.
    pub(super) fn count(
        &mut self,
        n: Value,
        initial: &[Value],
        write: impl FnOnce(&mut Self, Value, &[Value]) -> Values,
    ) -> Values {
        let [zero, one] = [0, 1].map(|value| self.like(n, value));
        let (new, region) = self.builder.begin_for_range([zero, n, one], initial);
        let around = self.builder.switch_to(region);
        let inner = self.builder.func.regions[region].params.clone();
        let yields = write(self, inner[0], &inner[1..]);
        self.builder.yield_(&yields);
        self.builder.switch_to(around);
        self.builder.func.insts[new].results.iter().copied().collect()
    }

    /// Goes through the segments of a loop from the last to the first: each is run again from its checkpoint, and what
    /// it carried into each iteration recorded.
    fn reverse_segments(&mut self, lp: &ReverseLoop<'_>, n: Value, initial: &[Value]) -> Values {
        // Checkpoints are for loops of which it is known how often they run, because less than 2^31 times.
        let n = self.as_i32(n);
        let segment = self.segment(lp.inst);
        let one = self.builder.const_int(Scalar::I32, 1);
        let less = self.builder.op(Op::Sub, &[segment, one]);
        let padded = self.builder.op(Op::Add, &[n, less]);
        let n_segments = self.builder.op(Op::Div, &[padded, segment]);
        self.count(n_segments, initial, |this, index, adjoints| {
            let last = this.builder.op(Op::Sub, &[n_segments, one]);
            let number = this.builder.op(Op::Sub, &[last, index]);
            let first = this.builder.op(Op::Mul, &[number, segment]);
            let rest = this.builder.op(Op::Sub, &[n, first]);
            let length = this.builder.op(Op::Min, &[segment, rest]);
            let mut state = this.recorded(lp, 0, number, TapeLength::Checkpoints(lp.inst));
            let n_kept = state.len();
            for &param in &lp.rows {
                this.restore_row(lp.inst, param, number);
            }
            let zero = this.builder.const_int(Scalar::I32, 0);
            state.extend(lp.row_counters.iter().map(|_| zero));
            this.count(length, &state, |this, index, state| {
                this.record(lp.inst, n_kept, index, state, TapeLength::Segment(lp.inst));
                let number = this.builder.op(Op::Add, &[first, index]);
                this.enter(lp, number, state);
                this.n_loops += 1;
                this.forward(lp.body, SweepMode { first: false, record: false, restored: !lp.rows.is_empty() });
                this.n_loops -= 1;
                let mut yields = this.yielded(lp.body);
                yields.extend(lp.counters.iter().chain(&lp.row_counters).map(|&counter| this.counters[counter].n));
                yields
            });
            this.reverse_iterations(lp, first, length, adjoints)
        })
    }

    /// Returns what a loop carried into an iteration, from its tapes. Checkpoints keep no counters of what is recorded
    /// for a segment alone.
    fn recorded(&mut self, lp: &ReverseLoop<'_>, first: usize, index: Value, length: TapeLength) -> Values {
        let types = lp.params.iter().map(|&param| self.old.ty(param));
        let n_row_counters = if length == TapeLength::Checkpoints(lp.inst) { 0 } else { lp.row_counters.len() };
        let n_counters = lp.counters.len() + n_row_counters;
        let types: Types = types.chain(std::iter::repeat_n(Type::I32, n_counters)).collect();
        let mut values = Values::new();
        for (number, &ty) in types.iter().enumerate() {
            let tape = self.tape(lp.inst, first + number, ty, length);
            values.push(self.read_tape(tape, index, ty));
        }
        values
    }

    /// Binds what is in scope at the beginning of an iteration: the counter, what the loop carries, and how many values
    /// its reads have recorded.
    fn enter(&mut self, lp: &ReverseLoop<'_>, number: Value, state: &[Value]) {
        if lp.data.op == Op::ForRange {
            let [start, step] = [0, 2].map(|operand| self.value(lp.data.operands[operand]));
            let counter = counter_at(&mut self.builder, start, step, number);
            self.bind(self.old.regions[lp.body].params[0], counter);
        }
        for (&param, &value) in lp.params.iter().zip(state) {
            self.bind(param, value);
        }
        let counters = lp.counters.iter().chain(&lp.row_counters);
        for (&counter, &value) in counters.zip(&state[lp.params.len()..]) {
            self.counters[counter].n = value;
        }
    }

    /// Goes through `n` iterations of a loop, from the last to the one with the number `first`, and gives the adjoints
    /// of what it carries and captures before that.
    fn reverse_iterations(&mut self, lp: &ReverseLoop<'_>, first: Value, n: Value, initial: &[Value]) -> Values {
        self.count(n, initial, |this, back, adjoints| {
            let one = this.like(n, 1);
            let last = this.builder.op(Op::Sub, &[n, one]);
            let index = this.builder.op(Op::Sub, &[last, back]);
            let on_tape = this.as_i32(index);
            let n_kept = lp.params.len() + lp.counters.len();
            let state = match this.checkpoints {
                true => this.recorded(lp, n_kept, on_tape, TapeLength::Segment(lp.inst)),
                false => this.recorded(lp, 0, on_tape, TapeLength::Loop(lp.inst)),
            };
            let number = this.builder.op(Op::Add, &[first, index]);
            this.enter(lp, number, &state);
            this.n_loops += 1;
            this.forward(lp.body, SweepMode::AGAIN);
            let (outside, conditions) = adjoints[lp.carried.len()..].split_at(lp.captured.len());
            let (conditions, decided) = conditions.split_at(lp.captured.len());
            for ((&value, &adjoint), &condition) in lp.captured.iter().zip(outside).zip(conditions) {
                this.set(value, Some(ValueAdjoint { adjoint, asked: Some(condition) }));
            }
            let mut seeds: Seeds = smallvec![None; lp.params.len()];
            for (&slot, &adjoint) in lp.carried.iter().zip(adjoints) {
                seeds[slot] = Some(ValueAdjoint { adjoint, asked: lp.asked });
            }
            for (&slot, &condition) in lp.decided.iter().zip(decided) {
                seeds[slot] = seeds[slot].map(|seed| ValueAdjoint { asked: Some(condition), ..seed });
            }
            this.seed(lp.body, &seeds);
            this.reverse(lp.body);
            this.n_loops -= 1;
            let mut yields = Values::new();
            let decided: Seeds = lp.decided.iter().map(|&slot| this.seed_of(lp.params[slot])).collect();
            for &slot in &lp.carried {
                let ty = this.old.ty(lp.params[slot]);
                let adjoint = this.adjoints[lp.params[slot]].take();
                yields.push(adjoint.unwrap_or_else(|| zero(&mut this.builder, ty)));
            }
            for &value in &lp.captured {
                let ty = this.old.ty(value);
                yields.push(this.adjoints[value].expand().unwrap_or_else(|| zero(&mut this.builder, ty)));
            }
            for &value in &lp.captured {
                let asked = this.asked[value].expand();
                yields.push(this.condition(asked));
            }
            for seed in decided {
                yields.push(match seed {
                    Some(seed) => this.condition(seed.asked),
                    None => this.builder.const_bool(false),
                });
            }
            yields
        })
    }
}
