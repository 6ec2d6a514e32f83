//! The walk through a kernel and the functions it calls, in the order of execution.

use super::known::{Id, Origin, Sum, Table, Text, meet, range_of_type, text};
use super::rules::{fault, range_of};
use super::{Finding, is_place};
use crate::generate::Range;
use polyloom::{Composite, FuncId, Function, Imm, Inst, InstData, Module, Op, Region, Type, Value, scalar_bits};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The deepest calls that are followed.
const MOST_CALLS: u32 = 6;

pub(super) struct Walk<'a> {
    module: &'a Module,
    table: Table,
    /// Grows with everything that may write to memory.
    time: u32,
    n_calls: u32,
    /// What the kernel itself has computed wherever it is by now, the latest last.
    computed: Vec<Id>,
    is_computed: FxHashSet<Id>,
    /// Those of them that have a name.
    is_named: FxHashSet<Id>,
    found: Option<Finding>,
}

/// A function that is being executed.
struct Activation<'a> {
    function: &'a Function,
    values: FxHashMap<Value, Id>,
    /// How many operations the text has for a value: none where it has a name.
    lengths: FxHashMap<Value, u32>,
    /// What it has returned; several if it does so in several places.
    returned: Vec<Ids>,
}

impl<'a> Activation<'a> {
    fn new(function: &'a Function, values: FxHashMap<Value, Id>) -> Activation<'a> {
        Activation { function, values, lengths: FxHashMap::default(), returned: Vec::new() }
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

type Ids = SmallVec<[Id; 2]>;

impl<'a> Walk<'a> {
    pub(super) fn new(module: &'a Module) -> Walk<'a> {
        Walk {
            module,
            table: Table::default(),
            time: 0,
            n_calls: 0,
            computed: Vec::new(),
            is_computed: FxHashSet::default(),
            is_named: FxHashSet::default(),
            found: None,
        }
    }

    /// The first operation of the kernel that has no effect.
    pub(super) fn kernel(mut self, function: &'a Function) -> Option<Finding> {
        let mut kernel = Activation::new(function, FxHashMap::default());
        for &param in function.params() {
            let id = self.unknown(function.ty(param));
            kernel.values.insert(param, id);
        }
        self.region(&mut kernel, function.body);
        self.found
    }

    fn unknown(&mut self, ty: Type) -> Id {
        self.table.unknown(range_of_type(ty))
    }

    /// What the region yields, if it ends so.
    fn region(&mut self, activation: &mut Activation<'a>, region: Region) -> Option<Ids> {
        let n_computed = self.computed.len();
        let function = activation.function;
        let mut yielded = None;
        for &inst in &function.regions[region].insts {
            if self.found.is_some() {
                return None;
            }
            let data = &function.insts[inst];
            let operands: SmallVec<[Id; 4]> =
                data.operands.iter().map(|operand| self.value(activation, *operand)).collect();
            match data.op {
                Op::Yield => yielded = Some(Ids::from_slice(&operands)),
                Op::Return => activation.returned.push(Ids::from_slice(&operands)),
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
        yielded
    }

    fn value(&mut self, activation: &mut Activation<'a>, value: Value) -> Id {
        if let Some(&id) = activation.values.get(&value) {
            return id;
        }
        let id = self.unknown(activation.function.ty(value));
        activation.values.insert(value, id);
        id
    }

    fn branches(&mut self, activation: &mut Activation<'a>, data: &InstData, condition: Id) {
        if self.table.get(condition).sum.as_number().is_some() {
            return self.find(data, "always goes the same way");
        }
        let [yes, no] = [0, 1].map(|index| match data.regions.get(index) {
            Some(&region) => self.region(activation, region),
            None => None,
        });
        for (index, &result) in data.results.iter().enumerate() {
            let id = match (yes.as_ref().map(|ids| ids[index]), no.as_ref().map(|ids| ids[index])) {
                (Some(yes), Some(no)) if yes != no => {
                    self.table.unknown(self.table.get(yes).range.or(self.table.get(no).range))
                }
                (Some(id), _) | (None, Some(id)) => id,
                (None, None) => self.unknown(activation.function.ty(result)),
            };
            activation.values.insert(result, id);
        }
    }

    /// A loop, of whose rounds nothing is known but the counter's range, or a block that may be left early.
    fn repeated(&mut self, activation: &mut Activation<'a>, data: &InstData, operands: &[Id]) {
        self.time += 1;
        let function = activation.function;
        for &region in &data.regions {
            for (index, &param) in function.regions[region].params.iter().enumerate() {
                let id = match (data.op, index) {
                    (Op::ForRange, 0) => self.table.unknown(counted(&self.table, operands)),
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

    fn call(&mut self, activation: &mut Activation<'a>, data: &InstData, operands: &[Id]) {
        let callee = match data.imm {
            Imm::Func(id) if self.n_calls < MOST_CALLS => Some(id),
            _ => None,
        };
        let returned = callee.and_then(|id| self.called(id, operands));
        self.time += 1;
        for (index, &result) in data.results.iter().enumerate() {
            let id = returned.as_ref().and_then(|ids| ids.get(index).copied());
            let id = id.unwrap_or_else(|| self.unknown(activation.function.ty(result)));
            activation.values.insert(result, id);
        }
    }

    /// What a function returns, if it does so in one place.
    fn called(&mut self, id: FuncId, operands: &[Id]) -> Option<Ids> {
        let function = &self.module.functions[id];
        let values = function.params().iter().copied().zip(operands.iter().copied()).collect();
        let mut callee = Activation::new(function, values);
        self.n_calls += 1;
        self.region(&mut callee, function.body);
        self.n_calls -= 1;
        match callee.returned.len() {
            1 => callee.returned.pop(),
            _ => None,
        }
    }

    fn operation(&mut self, activation: &mut Activation<'a>, inst: Inst, data: &InstData, operands: &[Id]) {
        let info = data.op.info();
        let function = activation.function;
        if !info.is_pure() && !is_load(data.op) {
            self.time += 1;
            for &result in &data.results {
                let id = self.unknown(function.ty(result));
                activation.values.insert(result, id);
            }
            return;
        }
        if let Some(what) = fault(&self.table, data.op, operands) {
            return self.find(data, what);
        }
        for (index, &result) in data.results.iter().enumerate() {
            let ty = function.ty(result);
            let id = match (index, function.as_const(result), ty.as_scalar()) {
                (_, Some(bits), Some(elem)) => self.table.number(scalar_bits::to_f64(elem, bits)),
                (0, ..) => self.computes(data, operands, ty, function.ty(*data.operands.first().unwrap_or(&result))),
                _ => {
                    let origin = self.origin(data, operands, ty, index);
                    self.table.atom(origin, range_of_type(ty), None)
                }
            };
            activation.values.insert(result, id);
        }
        let length = activation.measure(data);
        if self.n_calls == 0 && self.found.is_none() && data.results.len() == 1 {
            self.repeats(activation, inst, operands, length);
        }
    }

    /// The value of an operation that gives one.
    fn computes(&mut self, data: &InstData, operands: &[Id], ty: Type, first: Type) -> Id {
        let is_told = operands.iter().all(|&id| self.table.get(id).sum.as_number().is_some());
        let n = first.as_composite().map_or(1, Composite::n_components);
        let ranges: SmallVec<[Range; 4]> = operands.iter().map(|&id| self.table.get(id).range).collect();
        let mut range = match data.op {
            Op::Cast => cast(ranges[0], ty),
            Op::Tid | Op::TidLinear | Op::Dim => Range::new(0.0, f64::INFINITY),
            op if op.info().group == polyloom::op::Group::Gpu => Range::new(0.0, f64::INFINITY),
            Op::Mul | Op::CwMul if operands[0] == operands[1] => ranges[0].squared(),
            Op::BitAnd if ranges.iter().any(|range| range.low >= 0.0) => {
                let bound = ranges.iter().filter(|range| range.low >= 0.0).map(|range| range.high);
                Range::new(0.0, bound.fold(f64::INFINITY, f64::min))
            }
            Op::Component => ranges[0],
            Op::Construct => ranges.iter().copied().reduce(Range::or).unwrap_or(Range::ANY),
            _ if ranges.is_empty() || is_load(data.op) => Range::ANY,
            op => range_of(op, &ranges, n),
        };
        let of_type = range_of_type(ty);
        if of_type.low == 0.0 && range.low < 0.0 {
            range = of_type;
        }
        if let Some((sum, cancels)) = self.sum(data.op, operands, ty) {
            if cancels {
                self.find(data, "takes away what was added");
            }
            let of_terms = self.table.range_of(&sum);
            let range = if of_type == Range::ANY { meet(range, of_terms) } else { range };
            if sum.as_number().is_some() && !is_told {
                self.find(data, "always gives one number");
            }
            return self.table.sum(sum, range);
        }
        if range.low == range.high && range.low.is_finite() && !is_told {
            self.find(data, "always gives one number");
        }
        let direction = match data.op {
            Op::Mul if first.as_scalar().is_some() => Some(self.table.get(operands[1]).direction),
            Op::Mul | Op::Div if first == ty && is_vector(ty) => Some(self.table.get(operands[0]).direction),
            _ => None,
        };
        let origin = self.origin(data, operands, ty, 0);
        let direction = direction.filter(|_| ty.as_composite().is_some());
        let id = self.table.atom(origin, range, direction);
        let times = if data.op == Op::Div { -1 } else { 1 };
        if matches!(data.op, Op::Mul | Op::Div) && ty.is_float() && first.is_float() {
            let (factors, cancels) = self.table.product(operands[0], operands[1], times);
            if cancels {
                self.find(data, "takes away a factor");
            }
            self.table.set_factors(id, factors);
        }
        id
    }

    /// The terms of a sum, and whether some of its operands' cancel.
    fn sum(&self, op: Op, operands: &[Id], ty: Type) -> Option<(Sum, bool)> {
        let sum = |index: usize| &self.table.get(operands[index]).sum;
        // Differences of unsigned integers are never negative.
        if range_of_type(ty) != Range::ANY {
            return None;
        }
        match op {
            Op::Add => Some(sum(0).plus(sum(1))),
            Op::Sub => Some(sum(0).plus(&sum(1).clone().times(-1.0))),
            Op::Neg => Some((sum(0).clone().times(-1.0), false)),
            Op::Pos => Some((sum(0).clone(), false)),
            Op::Mul => match (sum(0).as_number(), sum(1).as_number()) {
                (Some(factor), _) => Some((sum(1).clone().times(factor), false)),
                (_, Some(factor)) => Some((sum(0).clone().times(factor), false)),
                _ => None,
            },
            Op::Div if ty.is_float() || ty.as_composite().is_some() => {
                let divisor = sum(1).as_number().filter(|&divisor| divisor != 0.0)?;
                Some((sum(0).clone().times(1.0 / divisor), false))
            }
            _ => None,
        }
    }

    fn origin(&self, data: &InstData, operands: &[Id], ty: Type, result: usize) -> Origin {
        let imm: Text = match data.op {
            Op::Cast | Op::Bitcast | Op::Construct => Some(format!("{ty:?}").into()),
            _ => text(&data.imm),
        };
        let time = if is_load(data.op) { self.time } else { 0 };
        let mut operands: SmallVec<[Id; 4]> = operands.into();
        let commutes = match data.op {
            Op::Min | Op::Max | Op::Dot | Op::CwMul | Op::BitAnd | Op::BitOr | Op::BitXor | Op::Eq | Op::Ne => true,
            Op::Mul => ty.as_composite().is_none(),
            _ => false,
        };
        if commutes {
            operands.sort_unstable();
        }
        Origin::Op { op: data.op, operands, imm, time, result: result as u32 }
    }

    /// Looks whether the kernel has computed this before.
    fn repeats(&mut self, activation: &Activation<'a>, inst: Inst, operands: &[Id], length: u32) {
        let function = activation.function;
        let data = &function.insts[inst];
        let result = data.results[0];
        let id = activation.values[&result];
        let is_named = function.value_names[result].is_some() && function.as_const(result).is_none();
        let is_number = self.table.get(id).sum.as_number().is_some();
        let is_made_of_numbers = operands.iter().all(|&id| self.table.get(id).sum.as_number().is_some());
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
        self.found.get_or_insert(Finding { span: data.span, subject: data.op.name().to_owned(), what });
    }
}

fn is_load(op: Op) -> bool {
    matches!(op, Op::ArrayLoad | Op::LoadReadonly)
}

/// Whether it is a vector, which a scalar makes longer or shorter.
fn is_vector(ty: Type) -> bool {
    ty.as_composite().is_some_and(|composite| composite.shape().len() == 1)
}

/// What an operation adds to the length of a text.
fn own_length(op: Op) -> u32 {
    match op {
        Op::Const | Op::Cast | Op::Construct | Op::Component | Op::ComponentAt | Op::ArrayLoad | Op::LoadReadonly => 0,
        op if is_place(op) => 0,
        _ => 1,
    }
}

/// What a counter may be.
fn counted(table: &Table, operands: &[Id]) -> Range {
    let number = |index: usize| table.get(operands[index]).sum.as_number();
    match (number(0), number(1), number(2)) {
        (Some(low), Some(end), Some(1.0)) if low < end => Range::new(low, end - 1.0),
        (Some(high), Some(end), Some(-1.0)) if end < high => Range::new(end + 1.0, high),
        (Some(low), _, Some(step)) if step > 0.0 => Range::new(low, f64::INFINITY),
        _ => Range::ANY,
    }
}

/// A number of another type, in which it may not fit.
fn cast(range: Range, ty: Type) -> Range {
    if ty.is_float() {
        return range;
    }
    let bits = ty.as_scalar().map_or(0, |scalar| scalar.bits());
    let of_type = match range_of_type(ty) {
        whole if whole == Range::ANY => Range::within((f64::from(bits) - 1.0).exp2()),
        unsigned => unsigned.and(Range::new(0.0, f64::from(bits).exp2() - 1.0)),
    };
    let whole = range.rising(f64::trunc);
    if whole.lies_in(of_type) { whole } else { range_of_type(ty) }
}
