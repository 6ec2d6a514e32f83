//! The walk through a kernel and the functions it calls, in the order of execution.

use super::arms;
use super::finding::{EffectFinding, is_load, is_place};
use super::known::{NumberId, NumberTable, Text, ValueFacts, ValueOrigin, meet, text};
use super::learn::CompoundConditions;
use super::results::{self, exchanged, facts};
use super::rules::{fault, is_of_integers};
use super::terms::{self, SumTerms};
use crate::catalogue::{self, OpTrait};
use crate::generate::{InputValues, ProgramInput};
use crate::number_range::{NumberRange, within_type};
use crate::whole_number::WholeNumber;
use polyloom::op::OpEffect;
use polyloom::{FuncId, Function, Imm, Inst, InstData, Module, Op, Region, Type, Value, scalar_bits};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The deepest calls that are followed.
const MOST_CALLS: usize = 6;

pub(super) struct EffectWalk<'a> {
    module: &'a Module,
    table: NumberTable,
    compounds: CompoundConditions,
    /// Grows with everything that may write to memory.
    time: u32,
    /// The functions that are being executed, the kernel aside.
    calls: SmallVec<[FuncId; 4]>,
    /// Number of times each function has been called.
    n_calls: FxHashMap<FuncId, u32>,
    /// Holds what is wrong in functions in some call of them.
    suspects: Vec<SuspectOperation>,
    /// Holds what the kernel itself has computed wherever it is by now, the latest last.
    computed: Vec<NumberId>,
    is_computed: FxHashSet<NumberId>,
    /// Those of them that have a name.
    is_named: FxHashSet<NumberId>,
    /// Holds what the elements of arrays are that the kernel does not write.
    elements: FxHashMap<NumberId, ValueFacts>,
    found: Option<EffectFinding>,
}

/// Describes what is wrong in a function in some call of it.
struct SuspectOperation {
    callee: FuncId,
    finding: EffectFinding,
    /// In how many calls it was, and which was the last of them.
    n_calls: u32,
    last: u32,
}

/// A function that is being executed.
struct EffectActivation<'a> {
    function: &'a Function,
    values: FxHashMap<Value, NumberId>,
    /// Number of operations the text has for a value: none where it has a name.
    lengths: FxHashMap<Value, u32>,
    /// Holds what is known of what it returns.
    returned: Option<Returned>,
}

impl<'a> EffectActivation<'a> {
    fn new(function: &'a Function, values: FxHashMap<Value, NumberId>) -> EffectActivation<'a> {
        EffectActivation { function, values, lengths: FxHashMap::default(), returned: None }
    }

    /// Notes how many operations the text has for what this one gives.
    fn measure(&mut self, data: &InstData) -> u32 {
        let operands = data.operands.iter().map(|operand| self.lengths.get(operand).copied().unwrap_or(0));
        let length = operands.sum::<u32>() + own_length(data.op);
        for &result in &data.results {
            let is_named = self.function.value_names[result].is_some();
            self.lengths.insert(result, if is_named { 0 } else { length });
        }
        length
    }
}

type Ids = SmallVec<[NumberId; 2]>;
type Returned = SmallVec<[ValueFacts; 2]>;

impl<'a> EffectWalk<'a> {
    pub(super) fn new(module: &'a Module) -> EffectWalk<'a> {
        EffectWalk {
            module,
            table: NumberTable::default(),
            compounds: CompoundConditions::default(),
            time: 0,
            calls: SmallVec::new(),
            n_calls: FxHashMap::default(),
            suspects: Vec::new(),
            computed: Vec::new(),
            is_computed: FxHashSet::default(),
            is_named: FxHashSet::default(),
            elements: FxHashMap::default(),
            found: None,
        }
    }

    /// The first operation of the kernel that has no effect, whatever of these its parameters are given.
    pub(super) fn kernel(mut self, function: &'a Function, inputs: &[ProgramInput]) -> Option<EffectFinding> {
        let mut kernel = EffectActivation::new(function, FxHashMap::default());
        let written = function.written_arrays();
        for (index, &param) in function.params().iter().enumerate() {
            let ty = function.ty(param);
            let array = ty.as_any_array().filter(|_| !written[index]);
            let given = inputs.get(index).map(|input| input.values);
            let id = self.table.unknown(ValueFacts { is_uniform: true, ..self.given(ty, given) });
            if let Some((elem, _)) = array {
                let elem = self.given(elem, given);
                self.elements.insert(id, elem);
            }
            kernel.values.insert(param, id);
        }
        self.region(&mut kernel, function.body);
        // An operation of a function has to be without effect in all calls, because work for one caller is an effect.
        let n_calls = self.n_calls;
        let is_always = |suspect: &SuspectOperation| n_calls.get(&suspect.callee) == Some(&suspect.n_calls);
        self.found.or_else(|| self.suspects.into_iter().find(is_always).map(|suspect| suspect.finding))
    }

    /// Returns what is known of what a parameter is given.
    fn given(&self, ty: Type, values: Option<InputValues>) -> ValueFacts {
        let facts = ValueFacts::of_type(ty);
        let range = match values {
            Some(InputValues::Between { low, high }) => NumberRange::new(low, high),
            Some(InputValues::Unit) => NumberRange::within(1.0),
            Some(InputValues::Zeros) | None => facts.range,
        };
        ValueFacts { range, ..facts }
    }

    fn unknown(&mut self, ty: Type) -> NumberId {
        self.table.unknown(ValueFacts::of_type(ty))
    }

    /// Returns what the region yields, if it ends so.
    fn region(&mut self, activation: &mut EffectActivation<'a>, region: Region) -> Option<Ids> {
        let n_computed = self.computed.len();
        let mark = self.table.mark();
        let function = activation.function;
        let mut yielded = None;
        for &inst in &function.regions[region].insts {
            if self.found.is_some() {
                return None;
            }
            let data = &function.insts[inst];
            let operands: SmallVec<[NumberId; 4]> =
                data.operands.iter().map(|operand| self.value(activation, *operand)).collect();
            match data.op {
                Op::Yield => yielded = Some(Ids::from_slice(&operands)),
                Op::Return => {
                    let facts = |at: usize| self.table.get(operands[at]).facts;
                    activation.returned = Some(match activation.returned.take() {
                        Some(others) => others.iter().enumerate().map(|(at, other)| other.or(facts(at))).collect(),
                        None => (0..operands.len()).map(facts).collect(),
                    });
                }
                Op::Break | Op::Continue | Op::Unreachable => {}
                Op::If => self.branches(activation, data, operands[0]),
                Op::ForRange | Op::While | Op::Block => self.repeated(activation, data, &operands),
                Op::Call => self.call(activation, data, &operands),
                _ => self.operation(activation, inst, data, &operands),
            }
        }
        for id in self.computed.drain(n_computed..) {
            self.is_computed.remove(&id);
            self.is_named.remove(&id);
        }
        self.table.forget(mark);
        yielded
    }

    fn value(&mut self, activation: &mut EffectActivation<'a>, value: Value) -> NumberId {
        if let Some(&id) = activation.values.get(&value) {
            return id;
        }
        let id = self.unknown(activation.function.ty(value));
        activation.values.insert(value, id);
        id
    }

    fn branches(&mut self, activation: &mut EffectActivation<'a>, data: &InstData, condition: NumberId) {
        let known = self.table.as_number(condition);
        if known.is_some() {
            self.find(data, "always goes the same way");
        }
        if arms::are_alike(activation.function, &data.regions) {
            self.find(data, "does the same either way");
        }
        let is_uniform = self.table.get(condition).facts.is_uniform;
        let is_taken = |index: usize| known.is_none_or(|number| (number != 0.0) == (index == 0));
        let function = activation.function;
        let [yes, no] = [0, 1].map(|index| {
            let region = data.regions.get(index).filter(|_| is_taken(index))?;
            let mark = self.table.mark();
            self.compounds.assume(&mut self.table, condition, index == 0);
            let yielded = self.region(activation, *region);
            let facts = yielded.iter().flatten().map(|&id| self.table.get(id).facts).collect::<Returned>();
            self.table.forget(mark);
            yielded.map(|ids| (ids, facts))
        });
        for (index, &result) in data.results.iter().enumerate() {
            let of = |arm: &Option<(Ids, Returned)>| arm.as_ref().map(|(ids, facts)| (ids[index], facts[index]));
            let id = match (of(&yes), of(&no)) {
                (Some((yes, of_yes)), Some((no, of_no))) if yes != no => {
                    let facts = of_yes.or(of_no);
                    let id = self.table.unknown(ValueFacts { is_uniform: facts.is_uniform && is_uniform, ..facts });
                    self.compounds.note(&self.table, id, condition, yes, no);
                    id
                }
                (Some((id, _)), _) | (None, Some((id, _))) => id,
                (None, None) => self.unknown(function.ty(result)),
            };
            activation.values.insert(result, id);
        }
        // Behind an arm that leaves the other has been taken.
        let leaves = |index: usize| {
            let last = data.regions.get(index).and_then(|&region| function.terminator(region));
            last.is_some_and(|last| function.insts[last].op != Op::Yield)
        };
        match (leaves(0), leaves(1)) {
            (true, false) => self.compounds.assume(&mut self.table, condition, false),
            (false, true) => self.compounds.assume(&mut self.table, condition, true),
            _ => {}
        }
    }

    /// A loop, of whose rounds nothing is known but the counter's range, or a block that may be left early.
    fn repeated(&mut self, activation: &mut EffectActivation<'a>, data: &InstData, operands: &[NumberId]) {
        self.time += 1;
        let function = activation.function;
        for &region in &data.regions {
            for (index, &param) in function.regions[region].params.iter().enumerate() {
                let id = match (data.op, index) {
                    (Op::ForRange, 0) => {
                        let facts = counted(&self.table, operands);
                        self.table.unknown(facts)
                    }
                    _ => self.unknown(function.ty(param)),
                };
                activation.values.insert(param, id);
            }
            self.region(activation, region);
        }
        self.time += 1;
        for &result in &data.results {
            let id = self.unknown(function.ty(result));
            activation.values.insert(result, id);
        }
    }

    fn call(&mut self, activation: &mut EffectActivation<'a>, data: &InstData, operands: &[NumberId]) {
        let callee = match data.imm {
            Imm::Func(id) if self.calls.len() < MOST_CALLS => Some(id),
            _ => None,
        };
        let facts = callee.and_then(|id| self.called(id, operands));
        self.time += 1;
        let is_pure = callee.is_some_and(|id| is_pure(&self.module.functions[id]));
        for (index, &result) in data.results.iter().enumerate() {
            let ty = activation.function.ty(result);
            let facts = facts.as_ref().and_then(|all| all.get(index).copied()).unwrap_or(ValueFacts::of_type(ty));
            let origin = ValueOrigin::Op {
                op: data.op,
                operands: operands.into(),
                imm: text(&data.imm),
                time: if is_pure { 0 } else { self.time },
                result: index as u32,
            };
            let id = self.table.atom(origin, facts, None);
            activation.values.insert(result, id);
        }
    }

    /// Returns what is known of what a function returns.
    ///
    /// A function is looked at by itself: what its parameters may be counts, and not what they have to do with each other,
    /// nor does what its result is made of count where it is called.
    fn called(&mut self, id: FuncId, operands: &[NumberId]) -> Option<Returned> {
        let function = &self.module.functions[id];
        let mut values = FxHashMap::default();
        for (&param, &operand) in function.params().iter().zip(operands) {
            let is_told = self.table.as_number(operand).is_some() || function.ty(param).as_any_array().is_some();
            let facts = self.table.get(operand).facts;
            values.insert(param, if is_told { operand } else { self.table.unknown(facts) });
        }
        let mut callee = EffectActivation::new(function, values);
        *self.n_calls.entry(id).or_default() += 1;
        self.calls.push(id);
        self.region(&mut callee, function.body);
        self.calls.pop();
        callee.returned
    }

    fn operation(&mut self, activation: &mut EffectActivation<'a>, inst: Inst, data: &InstData, operands: &[NumberId]) {
        let info = data.op.info();
        let function = activation.function;
        if let Some(what) = fault(&self.table, data.op, operands) {
            return self.find(data, what);
        }
        let is_cut_off = |value: &Value| function.ty(*value).is_float() && data.op == Op::Cast;
        let is_float = |value: &Value| function.ty(*value).is_float();
        if data.operands.first().is_some_and(is_cut_off)
            && !data.results.first().is_some_and(is_float)
            && is_of_integers(&self.table, operands[0])
        {
            return self.find(data, "is of a whole number");
        }
        if !info.is_pure() && !is_load(data.op) {
            self.time += 1;
            for &result in &data.results {
                let facts = exchanged(&self.table, data.op, operands, function.ty(result));
                let id = self.table.unknown(facts);
                activation.values.insert(result, id);
            }
            return;
        }
        let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&operand| function.ty(operand)).collect();
        for (index, &result) in data.results.iter().enumerate() {
            let ty = function.ty(result);
            let id = match (index, function.as_const(result), ty.as_scalar()) {
                (_, Some(bits), Some(elem)) => self.table.number(scalar_bits::to_f64(elem, bits)),
                (0, ..) => self.computes(data, operands, ty, &types),
                _ => {
                    let origin = self.origin(data, operands, ty, index);
                    self.table.atom(origin, ValueFacts::of_type(ty), None)
                }
            };
            activation.values.insert(result, id);
        }
        let length = activation.measure(data);
        if self.calls.is_empty() && self.found.is_none() && data.results.len() == 1 {
            self.repeats(activation, inst, operands, length);
        }
    }

    /// The value of an operation that gives one.
    fn computes(&mut self, data: &InstData, operands: &[NumberId], ty: Type, types: &[Type]) -> NumberId {
        let first = types.first().copied().unwrap_or(ty);
        if let Some(part) = terms::part(&mut self.table, data, operands, first) {
            return part;
        }
        if let Some(component) = self.loaded_component(data, operands, ty, first) {
            return component;
        }
        let is_told = operands.iter().all(|&id| self.table.as_number(id).is_some());
        let facts = match is_load(data.op) {
            true => self.loaded(operands, ty),
            false => facts(&self.table, data.op, operands, ty, types),
        };
        let range = facts.range;
        if let Some(SumTerms { sum, what }) = terms::sum(&self.table, data.op, operands, ty) {
            if let Some(what) = what {
                self.find(data, what);
            }
            let range = meet(range, within_type(self.table.range_of(&sum), ty));
            if sum.as_number().is_some() && !is_told {
                self.find(data, "always gives one number");
            }
            return self.table.sum(sum, range, ty);
        }
        if range.low == range.high && range.low.is_finite() && !is_told {
            self.find(data, "always gives one number");
        }
        let is_number = |index: usize| types.get(index).is_some_and(|ty| ty.as_scalar().is_some());
        let direction = match data.op {
            Op::Normalize => Some(self.table.get(operands[0]).direction),
            Op::Mul if is_number(0) => Some(self.table.get(operands[1]).direction),
            // A matrix or a quaternion turns what it is multiplied by.
            Op::Mul | Op::Div if is_number(1) && is_vector(ty) => Some(self.table.get(operands[0]).direction),
            _ => None,
        };
        let direction = direction.filter(|_| ty.as_composite().is_some());
        let is_product = matches!(data.op, Op::Mul | Op::Div) && ty.is_float() && first.is_float();
        if is_product && (is_number(0) || is_number(1)) {
            return self.multiplied(data, operands, facts, direction, ty, types);
        }
        let origin = self.origin(data, operands, ty, 0);
        self.table.atom(origin, facts, direction)
    }

    /// A product or a quotient of which one is a number: that of what they are multiples of, so many times.
    fn multiplied(
        &mut self,
        data: &InstData,
        operands: &[NumberId],
        facts: ValueFacts,
        direction: Option<NumberId>,
        ty: Type,
        types: &[Type],
    ) -> NumberId {
        let (sign, factor) = match data.op {
            Op::Div => (-1, self.table.times(operands[0]) / self.table.times(operands[1])),
            _ => (1, self.table.times(operands[0]) * self.table.times(operands[1])),
        };
        let bases: SmallVec<[NumberId; 4]> = operands.iter().map(|&id| self.table.base(id)).collect();
        let (factors, cancels) = self.table.product(bases[0], bases[1], sign);
        if cancels {
            self.find(data, "takes away a factor");
        }
        let of_bases = match bases[..] == *operands {
            true => facts,
            false => results::facts(&self.table, data.op, &bases, ty, types),
        };
        let origin = self.origin(data, &bases, ty, 0);
        let id = self.table.atom(origin, of_bases, direction);
        let id = self.table.product_of(id, factors);
        let sum = self.table.get(id).sum.clone().times(factor);
        let range = meet(facts.range, self.table.range_of(&sum));
        self.table.sum(sum, range, ty)
    }

    /// Returns what is known of an element of an array.
    fn loaded(&self, operands: &[NumberId], ty: Type) -> ValueFacts {
        let facts = self.elements.get(&operands[0]).copied().unwrap_or(ValueFacts::of_type(ty));
        ValueFacts { is_uniform: operands.iter().all(|&id| self.table.get(id).facts.is_uniform), ..facts }
    }

    /// The component of an element of an array that is read alone, as one of what the whole element is.
    fn loaded_component(&mut self, data: &InstData, operands: &[NumberId], ty: Type, array: Type) -> Option<NumberId> {
        let (elem, _) = array.as_any_array().filter(|_| is_load(data.op))?;
        let shape = elem.as_composite().filter(|_| ty.as_scalar().is_some())?.shape();
        let (element, places) = operands.split_at(operands.len().checked_sub(shape.len())?);
        let at = places
            .iter()
            .zip(&shape[..])
            .try_fold(0.0, |at, (&place, &extent)| Some(at * f64::from(extent) + self.table.as_number(place)?))?;
        let origin = self.origin(data, element, elem, 0);
        let facts = self.loaded(element, elem);
        let whole = self.table.atom(origin, facts, None);
        let imm = text(&Imm::Component(at as u16));
        let origin =
            ValueOrigin::Op { op: Op::Component, operands: SmallVec::from_slice(&[whole]), imm, time: 0, result: 0 };
        Some(self.table.atom(origin, facts, None))
    }

    fn origin(&self, data: &InstData, operands: &[NumberId], ty: Type, result: usize) -> ValueOrigin {
        let imm: Text = match data.op {
            Op::Cast | Op::Bitcast | Op::Construct => Some(format!("{ty:?}").into()),
            _ => text(&data.imm),
        };
        let is_kept = operands.first().is_some_and(|array| self.elements.contains_key(array));
        let time = if is_load(data.op) && !is_kept { self.time } else { 0 };
        let mut operands: SmallVec<[NumberId; 4]> = operands.into();
        if catalogue::facts(data.op).is(OpTrait::Commutes) && (data.op != Op::Mul || ty.as_composite().is_none()) {
            operands.sort_unstable();
        }
        ValueOrigin::Op { op: data.op, operands, imm, time, result: result as u32 }
    }

    /// Looks whether the kernel has computed this before.
    fn repeats(&mut self, activation: &EffectActivation<'a>, inst: Inst, operands: &[NumberId], length: u32) {
        let function = activation.function;
        let data = &function.insts[inst];
        let result = data.results[0];
        let id = activation.values[&result];
        let is_named = function.value_names[result].is_some() && function.as_const(result).is_none();
        let is_number = self.table.as_number(id).is_some();
        let is_made_of_numbers = operands.iter().all(|&id| self.table.as_number(id).is_some());
        if is_number || is_made_of_numbers || operands.contains(&id) || is_place(data.op) {
            return;
        }
        let ty = function.ty(result);
        let is_float = ty.is_float() || ty.as_composite().is_some_and(|composite| composite.elem().is_float());
        if !self.is_computed.insert(id) {
            if is_float && length >= 2 {
                self.find(data, "is computed a second time");
            } else if is_named && self.is_named.contains(&id) {
                self.find(data, "is what another variable is");
            }
        } else {
            self.computed.push(id);
        }
        if is_named {
            self.is_named.insert(id);
        }
    }

    fn find(&mut self, data: &InstData, what: &'static str) {
        let finding = || EffectFinding { span: data.span, subject: data.op.name().to_owned(), what };
        let Some(&callee) = self.calls.last() else {
            self.found.get_or_insert_with(finding);
            return;
        };
        let call = self.n_calls[&callee];
        let is_at = |suspect: &&mut SuspectOperation| suspect.callee == callee && suspect.finding.span == data.span;
        match self.suspects.iter_mut().find(is_at) {
            Some(suspect) if suspect.last != call && suspect.finding.what == what => {
                suspect.n_calls += 1;
                suspect.last = call;
            }
            Some(_) => {}
            None => self.suspects.push(SuspectOperation { callee, finding: finding(), n_calls: 1, last: call }),
        }
    }
}

/// Returns true if what it gives depends on its parameters alone.
fn is_pure(function: &Function) -> bool {
    let is_of_memory =
        |data: &InstData| matches!(data.op.info().effect, OpEffect::Read | OpEffect::Write | OpEffect::ReadWrite);
    !function.insts.values().any(is_of_memory)
}

/// Returns true if it is a vector, which a scalar makes longer or shorter.
fn is_vector(ty: Type) -> bool {
    ty.as_composite().is_some_and(|composite| composite.shape().len() == 1)
}

/// Returns what an operation adds to the length of a text.
fn own_length(op: Op) -> u32 {
    u32::from(!catalogue::facts(op).is(OpTrait::Unwritten) && !is_place(op))
}

/// Returns what a counter may be.
fn counted(table: &NumberTable, operands: &[NumberId]) -> ValueFacts {
    let number = |index: usize| table.as_number(operands[index]);
    let range = match (number(0), number(1), number(2)) {
        (Some(low), Some(end), Some(1.0)) if low < end => NumberRange::new(low, end - 1.0),
        (Some(high), Some(end), Some(-1.0)) if end < high => NumberRange::new(end + 1.0, high),
        (Some(low), _, Some(step)) if step > 0.0 => NumberRange::new(low, low.max(table.range(operands[1]).high - 1.0)),
        _ => NumberRange::ANY,
    };
    let is_uniform = operands.iter().take(3).all(|&id| table.get(id).facts.is_uniform);
    ValueFacts { range, whole: Some(WholeNumber::ANY), is_uniform }
}
