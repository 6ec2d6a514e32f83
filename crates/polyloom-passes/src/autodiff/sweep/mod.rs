//! The two sweeps of a backward kernel: forward, which computes again what the kernel computed and records what the way
//! back will need, and reverse, which carries derivatives from what the kernel wrote to what it read.
//!
//! The function is in structured form, so each construct has one reverse:
//!
//! * An instruction adds to the adjoints of its operands what its rule says ([`super::rules`]).
//! * An `if` is an `if` on the same condition. The values of its sides are handed out by the `if` of the forward sweep.
//! * A loop is a loop over its iterations from the last to the first. What it carried into each is on a *tape*: an
//!   array with a place for each iteration and thread. The rest of the iteration is computed again from that, inner
//!   loops and their tapes among it, so a tape is as long as one loop, whatever the loops around it.
//! * A load adds to the adjoint of the element; a store takes the element's adjoint and leaves zero.
//!
//! Memory is accessed as the kernel does only once, in the forward sweep. What a loop reads from an array that the
//! kernel also writes is recorded, on a tape that is as long as there are such reads, but for what the loop carries
//! ([`super::elements`]) and what its checkpoints keep ([`rows`]).

mod asked;
mod forward;
mod loops;
mod reverse;
mod rows;

pub(in crate::autodiff) use asked::Asked;
use asked::{AskedComponents, ValueAdjoint};
pub(in crate::autodiff) use rows::{row_reads, rows};

use super::activity::ArrayParam;
use super::instructions::{is_load, is_loop};
use super::tape_layout::{TapeCount, TapeLength, TapeParam, ThreadRow};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{
    Builder, Code, Diagnostic, Function, Imm, Inst, InstData, Module, Op, Region, Scalar, Type, Value, ValueDef,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

type Values = SmallVec<[Value; 8]>;
type Types = SmallVec<[Type; 8]>;

/// Describes how the forward sweep goes through a region.
#[derive(Clone, Copy)]
struct SweepMode {
    /// True if it is there for the first time, since later, memory is not what it was.
    first: bool,
    /// True if the reverse sweep will come back to this execution of it.
    record: bool,
    /// True if the thread's rows hold what they held the first time: then what is read of them is recorded.
    restored: bool,
}

impl SweepMode {
    const FIRST: SweepMode = SweepMode { first: true, record: true, restored: false };
    /// Through an iteration that the reverse sweep is about to go through.
    const AGAIN: SweepMode = SweepMode { first: false, record: true, restored: false };
}

/// Describes how many values a read in a loop has recorded, or has taken back.
#[derive(Clone, Copy)]
struct TapeCounter {
    read: Inst,
    n: Value,
    /// The outermost loop that it is in, if the checkpoints of that keep what it reads.
    row_in: Option<Inst>,
}

/// Describes what is known to the region around an `if` of what happened in it.
#[derive(Clone, Copy)]
enum BranchExport {
    Value(Value),
    Trips(Inst),
}

/// Describes what the adjoint of an element is known to be.
#[derive(Clone)]
struct KnownAdjoint {
    region: Region,
    /// The array and the indices.
    place: Values,
    value: Value,
    is_zero: bool,
    /// The store of that value, if there is one.
    store: Option<Inst>,
    /// Holds what was loaded from there before the store.
    loaded: Option<Value>,
}

pub(in crate::autodiff) struct BackwardBuilder<'a> {
    pub(in crate::autodiff) old: &'a Function,
    /// Holds what it calls, and what carries derivatives through that.
    pub(in crate::autodiff) rest: &'a Module,
    pub(in crate::autodiff) builder: Builder<'a>,
    /// Holds what an old value is now.
    pub(in crate::autodiff) values: SecondaryMap<Value, PackedOption<Value>>,
    /// The derivative of what is to come with respect to an old value; none if it is zero.
    pub(in crate::autodiff) adjoints: SecondaryMap<Value, PackedOption<Value>>,
    /// Condition under which the adjoint of an old value is live; none if it always is.
    asked: SecondaryMap<Value, PackedOption<Value>>,
    /// The same of the components of an old composite, where their adjoints have been added one by one.
    asked_components: FxHashMap<Value, AskedComponents>,
    pub(in crate::autodiff) active: EntitySet<Value>,
    /// Indexed by parameter.
    pub(in crate::autodiff) arrays: Vec<ArrayParam>,
    /// The stores that are to another element in every thread.
    pub(in crate::autodiff) apart: EntitySet<Inst>,
    /// The element accessed last of each array parameter whose adjoints no two threads touch.
    known: Vec<Option<KnownAdjoint>>,
    /// Number of times a loop ran.
    trips: SecondaryMap<Inst, PackedOption<Value>>,
    counters: Vec<TapeCounter>,
    /// For each parameter, the row of each thread, if checkpoints keep it. Empty if they keep none.
    pub(in crate::autodiff) rows: Vec<Option<ThreadRow>>,
    pub(in crate::autodiff) tapes: Vec<TapeParam>,
    /// Place among `tapes` of the tapes of each loop or recorded read.
    tapes_of: SecondaryMap<Inst, SmallVec<[usize; 4]>>,
    /// The thread's place on tapes: a parameter that stands for it.
    pub(in crate::autodiff) place: Option<Value>,
    /// True if loops keep what they carried at the beginnings of segments only, and run each segment again.
    checkpoints: bool,
    /// Number of iterations a segment of a loop has.
    pub(in crate::autodiff) segments: Vec<(Inst, Value)>,
    /// Parameters that hold what the kernel leaves in these arrays.
    pub(in crate::autodiff) after: Vec<(usize, Value)>,
    n_loops: usize,
    /// Instead of tapes, an array of how long these have to be.
    pub(in crate::autodiff) sizes: Option<(Value, Vec<TapeCount>)>,
    pub(in crate::autodiff) errors: Vec<Diagnostic>,
}

impl<'a> BackwardBuilder<'a> {
    pub(in crate::autodiff) fn new(
        old: &'a Function,
        rest: &'a Module,
        new: &'a mut Function,
        active: EntitySet<Value>,
        arrays: Vec<ArrayParam>,
        checkpoints: bool,
    ) -> BackwardBuilder<'a> {
        let known = vec![None; arrays.len()];
        BackwardBuilder {
            old,
            known,
            rest,
            builder: Builder::new(new),
            values: SecondaryMap::new(),
            adjoints: SecondaryMap::new(),
            asked: SecondaryMap::new(),
            asked_components: FxHashMap::default(),
            active,
            arrays,
            apart: EntitySet::new(),
            trips: SecondaryMap::new(),
            counters: Vec::new(),
            rows: Vec::new(),
            tapes: Vec::new(),
            tapes_of: SecondaryMap::new(),
            place: None,
            checkpoints,
            segments: Vec::new(),
            after: Vec::new(),
            n_loops: 0,
            sizes: None,
            errors: Vec::new(),
        }
    }

    /// Writes both sweeps, after which the adjoints of scalar parameters are in `adjoints`.
    pub(in crate::autodiff) fn run(&mut self) {
        self.find_recorded_reads(self.old.body, None);
        self.forward(self.old.body, SweepMode::FIRST);
        self.reverse(self.old.body);
    }

    /// Writes both sweeps through a function, from the adjoint of the one value that it gives.
    pub(in crate::autodiff) fn run_from(&mut self, adjoint: Value) {
        self.find_recorded_reads(self.old.body, None);
        self.forward(self.old.body, SweepMode::FIRST);
        self.seed(self.old.body, &[Some(ValueAdjoint { adjoint, asked: None })]);
        self.reverse(self.old.body);
    }

    /// Writes the forward sweep alone, which finds out how long tapes have to be.
    pub(in crate::autodiff) fn run_sizes(&mut self) {
        self.find_recorded_reads(self.old.body, None);
        self.forward(self.old.body, SweepMode { record: false, ..SweepMode::FIRST });
        for index in 0..self.counters.len() {
            let TapeCounter { read, n, row_in } = self.counters[index];
            if row_in.is_none() {
                self.note_size(TapeCount::Reads(read), n);
            }
        }
        for param in 0..self.rows.len() {
            if let Some(length) = self.row_length(param) {
                // The largest number says of a loop that it is too long.
                let most = self.builder.const_int(Scalar::I64, i64::from(i32::MAX) - 1);
                let length = self.builder.op(Op::Min, &[length, most]);
                self.note_size(TapeCount::Row(param), length);
            }
        }
    }

    fn note_size(&mut self, of: TapeCount, n: Value) {
        let Some((array, lengths)) = &self.sizes else { return };
        let array = *array;
        if let Some(number) = lengths.iter().position(|length| *length == of) {
            let n = self.as_i32(n);
            let number = self.builder.const_int(Scalar::I32, number as i64);
            self.builder.inst(Op::AtomicMax, &[array, number, n], &[Type::I32], Imm::None);
        }
    }

    /// Returns the number of times a loop runs as an `i32`, the largest for what is beyond.
    pub(super) fn as_i32(&mut self, n: Value) -> Value {
        if self.builder.func.ty(n) == Type::I32 {
            return n;
        }
        let most = self.builder.const_int(Scalar::I64, i32::MAX.into());
        let n = self.builder.op(Op::Min, &[n, most]);
        self.builder.cast(n, Scalar::I32)
    }

    pub(in crate::autodiff) fn refuse(&mut self, data: &InstData, message: String, help: &str) {
        self.errors.push(Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help));
    }

    /// Returns what an old value is here. Constants are made anew wherever they are needed.
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

    pub(in crate::autodiff) fn mapped(&mut self, old: &[Value]) -> Values {
        old.iter().map(|&value| self.value(value)).collect()
    }

    fn bind(&mut self, old: Value, new: Value) {
        self.values[old] = new.into();
        if let Some(name) = &self.old.value_names[old] {
            self.builder.func.value_names[new] = Some(name.clone());
        }
    }

    pub(in crate::autodiff) fn array_of(&self, value: Value) -> Option<usize> {
        self.old.param_index(value)
    }

    /// Loads of replayed arrays in loops, each with a counter that begins at zero.
    fn find_recorded_reads(&mut self, region: Region, outermost: Option<Inst>) {
        let in_loop = outermost.is_some();
        let old = self.old;
        for &inst in &old.regions[region].insts {
            let data = &old.insts[inst];
            if in_loop && self.reads_replayed(data) {
                let message = format!("`{}` in a loop reads an array that the kernel writes", data.op.name());
                self.refuse(data, message, "look it up in a kernel of its own");
            }
            if in_loop && self.is_replayed_load(data) {
                let n = self.builder.const_int(Scalar::I32, 0);
                let row_in = self.row_of(data).and(outermost);
                self.counters.push(TapeCounter { read: inst, n, row_in });
            }
            for &inner in &data.regions {
                self.find_recorded_reads(inner, outermost.or(is_loop(data).then_some(inst)));
            }
        }
    }

    fn is_replayed_load(&self, data: &InstData) -> bool {
        is_load(data) && self.array_of(data.operands[0]).is_some_and(|param| self.arrays[param].is_replayed)
    }

    /// Returns true if it looks at an array that the kernel writes in another way than by a load.
    fn reads_replayed(&self, data: &InstData) -> bool {
        let is_replayed = |&value: &Value| self.array_of(value).is_some_and(|param| self.arrays[param].is_replayed);
        !is_load(data) && data.op.info().effect == OpEffect::Read && data.operands.iter().any(is_replayed)
    }

    /// Returns where the counters are of reads under an instruction that this execution counts.
    fn counted_in(&self, inst: Inst, mode: SweepMode) -> SmallVec<[usize; 4]> {
        let mut found = self.counters_in(inst);
        // Reads of rows are counted from the beginning of a segment on or, to know how many there are, of an iteration.
        let counts_rows = if self.sizes.is_some() { self.n_loops > 0 } else { !mode.first };
        found.retain(|counter| counts_rows || self.counters[*counter].row_in.is_none());
        found
    }

    /// Returns where the counters are of reads under an instruction.
    fn counters_in(&self, inst: Inst) -> SmallVec<[usize; 4]> {
        let mut found = SmallVec::new();
        let mut pending: Vec<Region> = self.old.insts[inst].regions.to_vec();
        while let Some(region) = pending.pop() {
            for &inner in &self.old.regions[region].insts {
                found.extend(self.counters.iter().position(|counter| counter.read == inner));
                pending.extend(&self.old.insts[inner].regions);
            }
        }
        found.sort_unstable();
        found
    }

    /// The thread's place on tapes.
    fn place(&mut self) -> Value {
        match self.place {
            Some(place) => place,
            None => {
                let place = self.builder.func.add_param("tape_place".to_owned(), Type::I32);
                self.place = Some(place);
                place
            }
        }
    }

    /// The array that holds what the kernel leaves in an array.
    fn after(&mut self, param: usize) -> Value {
        if let Some(&(_, after)) = self.after.iter().find(|(of, _)| *of == param) {
            return after;
        }
        let name = format!("after_{}", self.old.param_names[param]);
        let after = self.builder.func.add_param(name, self.old.ty(self.old.params()[param]));
        self.after.push((param, after));
        after
    }

    /// Returns the number of iterations a segment of a loop has.
    fn segment(&mut self, inst: Inst) -> Value {
        if let Some(&(_, segment)) = self.segments.iter().find(|(of, _)| *of == inst) {
            return segment;
        }
        let segment = self.builder.func.add_param(format!("segment_{}", self.segments.len()), Type::I32);
        self.segments.push((inst, segment));
        segment
    }

    /// The tape that an instruction's value with this number is on.
    fn tape(&mut self, inst: Inst, number: usize, ty: Type, length: TapeLength) -> Value {
        if let Some(&tape) = self.tapes_of[inst].get(number) {
            return self.tapes[tape].param;
        }
        debug_assert_eq!(self.tapes_of[inst].len(), number, "tapes are asked for in order");
        self.tapes_of[inst].push(self.tapes.len());
        self.add_tape(ty, length)
    }

    /// The one tape of such a length.
    fn tape_of(&mut self, length: TapeLength, ty: Type) -> Value {
        match self.tapes.iter().find(|tape| tape.length == length) {
            Some(tape) => tape.param,
            None => self.add_tape(ty, length),
        }
    }

    fn add_tape(&mut self, ty: Type, length: TapeLength) -> Value {
        let ty = match ty {
            Type::Composite(elem) => Type::composite_array(elem, 2),
            ty => Type::array(ty.as_scalar().unwrap_or(Scalar::I32), 2),
        };
        let param = self.builder.func.add_param(format!("tape_{}", self.tapes.len()), ty);
        self.tapes.push(TapeParam { param, length });
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
}
