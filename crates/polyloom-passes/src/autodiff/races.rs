//! Stores by which several threads of a launch write different numbers to one element: which of them stays is chance,
//! so what would come back for it means nothing.
//!
//! A store is one of these along an axis of the launch where its value depends on the thread's coordinate along it and
//! is active, and its indices do not; or where its indices depend on it through one quotient or remainder alone. Two
//! stores are where their indices differ by a constant number of threads. What cannot be seen so, such as indices that
//! come from an array, is left alone, and so are stores under a condition: it may let one thread through.

use super::Request;
use super::activity::natural_rank;
use cranelift_entity::EntitySet;
use polyloom_ir::affine::{Affine, Term};
use polyloom_ir::op::{Effect, Group};
use polyloom_ir::{Code, Diagnostic, Function, Imm, Inst, InstData, Op, Region, Value, ValueDef};

/// Threads of a launch that write one element.
#[derive(Clone, Debug)]
pub struct Race {
    /// Along which axis of the launch they are.
    pub axis: u8,
    /// They are there in launches with a greater extent along this axis.
    pub above: u64,
    /// What to say of it.
    pub diagnostic: Diagnostic,
}

/// A store of a value that a derivative flows through.
struct Store {
    inst: Inst,
    /// Whether conditions say where it is reached, or loops that do not run as often in each thread.
    is_guarded: bool,
}

/// The stores of a kernel in structured form by which threads overwrite each other's numbers.
pub(super) fn races(func: &Function, request: &Request, active: &EntitySet<Value>) -> Vec<Race> {
    let mut races = Vec::new();
    for axis in 0..natural_rank(func).max(request.rank) {
        let whole = Dependence::on(func, axis, None);
        let stores = whole.stores(active);
        for store in &stores {
            if let Some(above) = shared_by(func, axis, &whole, store) {
                races.push(race(func, store.inst, axis, above));
            }
        }
        for (number, first) in stores.iter().enumerate() {
            let others = stores[..number].iter().filter_map(|second| apart_by(func, axis, &whole, first, second));
            if let Some(distance) = others.min() {
                races.push(race(func, first.inst, axis, distance));
            }
        }
    }
    races
}

/// The greatest extent of launches along an axis in which no two threads share what a store writes to; nothing if they
/// cannot be seen to share it in any.
fn shared_by(func: &Function, axis: u8, whole: &Dependence<'_>, store: &Store) -> Option<u64> {
    let data = &func.insts[store.inst];
    let (&value, place) = data.operands.split_last()?;
    let indices = &place[1..];
    if store.is_guarded || !whole.contains(value) {
        return None;
    }
    if !indices.iter().any(|&index| whole.contains(index)) {
        return Some(1);
    }
    // Threads with the same quotient, or the same remainder.
    let mut found = None;
    func.walk(func.body, &mut |_, cut| {
        if let Some(above) = bucket(func, axis, cut)
            && found.is_none_or(|found| above < found)
        {
            let rest = Dependence::on(func, axis, Some(cut));
            let is_alike = !indices.iter().any(|&index| rest.contains(index));
            if is_alike && rest.contains(value) {
                found = Some(above);
            }
        }
    });
    found
}

/// The greatest number of neighbouring threads along an axis of which no two need have the same result of an operation
/// that brings threads together.
fn bucket(func: &Function, axis: u8, data: &InstData) -> Option<u64> {
    let &[of, by] = &data.operands[..] else { return None };
    let distance = Affine::of(func, of).distance(axis)?;
    let by = Affine::of(func, by).as_const().and_then(|by| u64::try_from(by).ok())?;
    match data.op {
        Op::Div | Op::FloorDiv => (by >= 2).then(|| if distance % by as i64 == 0 { 1 } else { 2 }),
        Op::Rshift => (1..31).contains(&by).then(|| if distance % (1 << by) == 0 { 1 } else { 2 }),
        Op::Mod => (by >= 1 && distance >= 0).then_some(by),
        Op::BitAnd => 1u64.checked_shl(by.count_ones()),
        _ => None,
    }
}

/// How many threads along an axis lie between two that write one element by these stores, if that is constant.
fn apart_by(func: &Function, axis: u8, whole: &Dependence<'_>, first: &Store, second: &Store) -> Option<u64> {
    let [one, other] = [first, second].map(|store| &func.insts[store.inst].operands);
    if first.is_guarded || second.is_guarded || one.len() != other.len() || one[0] != other[0] {
        return None;
    }
    if one.last() == other.last() && one.last().is_some_and(|&value| !whole.contains(value)) {
        return None;
    }
    let mut threads = None;
    for (&a, &b) in one[1..one.len() - 1].iter().zip(&other[1..]) {
        let [a, b] = [a, b].map(|index| Affine::of(func, index));
        // What loops count is not the same number in both.
        let is_fixed = |(term, _): &(Term, i64)| match *term {
            Term::Coordinate(_) => true,
            Term::Value(value) => func.param_index(value).is_some(),
        };
        if a.terms != b.terms || !a.terms.iter().all(is_fixed) {
            return None;
        }
        if a.offset == b.offset {
            continue;
        }
        let (of, factor, _) = a.along_one_axis()?;
        let distance = a.offset - b.offset;
        if of != axis || threads.is_some() || distance % factor != 0 {
            return None;
        }
        threads = Some((distance / factor).unsigned_abs());
    }
    threads
}

fn race(func: &Function, store: Inst, axis: u8, above: u64) -> Race {
    let data = &func.insts[store];
    let name = func.param_index(data.operands[0]).map_or("the array", |index| &*func.param_names[index]);
    let message =
        format!("several threads write different numbers to one element of `{name}`, and which one stays is chance");
    let help = "add to it with `atomic_add`, find an extremum with `atomic_min` or `atomic_max`, or let one thread store \
                to each element";
    let diagnostic = Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help);
    Race { axis, above, diagnostic }
}

/// What may differ between threads that differ in their coordinate along one axis alone.
struct Dependence<'a> {
    func: &'a Function,
    axis: u8,
    /// An operation that is taken for one whose result is the same.
    cut: Option<&'a InstData>,
    values: EntitySet<Value>,
    guarded: EntitySet<Inst>,
    /// Arrays that the kernel writes.
    written: Vec<bool>,
}

impl<'a> Dependence<'a> {
    fn on(func: &'a Function, axis: u8, cut: Option<&'a InstData>) -> Dependence<'a> {
        let written = func.written_arrays();
        let mut made = Dependence { func, axis, cut, values: EntitySet::new(), guarded: EntitySet::new(), written };
        // Loops feed their results back to their beginning.
        while made.region(func.body, false) {}
        made
    }

    fn contains(&self, value: Value) -> bool {
        self.values.contains(value)
    }

    /// The stores of active values.
    fn stores(&self, active: &EntitySet<Value>) -> Vec<Store> {
        let mut stores = Vec::new();
        self.func.walk(self.func.body, &mut |inst, data| {
            if data.op == Op::ArrayStore && data.operands.last().is_some_and(|&value| active.contains(value)) {
                stores.push(Store { inst, is_guarded: self.guarded.contains(inst) });
            }
        });
        stores
    }

    /// Adds what differs in a region; gives whether there was anything new.
    fn region(&mut self, region: Region, is_guarded: bool) -> bool {
        let func = self.func;
        let mut grows = false;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if is_guarded {
                self.guarded.insert(inst);
            }
            if data.regions.is_empty() {
                if self.differs(data) {
                    data.results.iter().for_each(|&result| grows |= self.values.insert(result));
                }
                continue;
            }
            grows |= self.structured(data, is_guarded);
        }
        grows
    }

    fn structured(&mut self, data: &InstData, is_guarded: bool) -> bool {
        let func = self.func;
        let mut grows = false;
        // How often a loop runs, or which way an `if` goes.
        let n_bounds = match data.op {
            Op::ForRange => 3,
            Op::If => 1,
            _ => 0,
        };
        let decision = match data.op {
            Op::While => func.terminator(data.regions[0]).and_then(|last| func.insts[last].operands.first().copied()),
            _ => None,
        };
        let is_apart = data.operands[..n_bounds].iter().chain(&decision).any(|&value| self.contains(value));
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        for (slot, &result) in data.results.iter().enumerate() {
            let mut differs = is_apart || is_loop && self.contains(data.operands[n_bounds + slot]);
            for &inner in data.regions.iter().skip(usize::from(data.op == Op::While)) {
                let last = func.terminator(inner).map(|last| &func.insts[last]);
                let given = last.filter(|last| last.op == Op::Yield).and_then(|last| last.operands.get(slot));
                differs |= given.is_none_or(|&value| self.contains(value));
            }
            if differs {
                grows |= self.values.insert(result);
                for &inner in data.regions.iter().filter(|_| is_loop) {
                    let params = &func.regions[inner].params;
                    grows |= self.values.insert(params[params.len() - data.results.len() + slot]);
                }
            }
        }
        if data.op == Op::ForRange && is_apart {
            grows |= self.values.insert(func.regions[data.regions[0]].params[0]);
        }
        // What a condition leaves out in all threads is no race either.
        let is_guarded = is_guarded || is_apart || data.op != Op::ForRange;
        for &inner in &data.regions {
            grows |= self.region(inner, is_guarded);
        }
        grows
    }

    /// Whether the results of an instruction may differ.
    fn differs(&self, data: &InstData) -> bool {
        if self.cut.is_some_and(|cut| is_same(self.func, cut, data)) {
            return false;
        }
        let info = data.op.info();
        match (data.op, &data.imm) {
            (Op::Tid, &Imm::Axis(axis)) => axis == self.axis,
            (Op::Dim | Op::BlockDim | Op::GridDim, _) => false,
            _ if info.group == Group::Index || info.group == Group::Gpu => true,
            // What other threads have written, or what this one has: who knows.
            _ if info.effect == Effect::ReadWrite && data.op != Op::Call => true,
            _ => {
                let reads_written =
                    |&array: &Value| self.func.param_index(array).is_some_and(|param| self.written[param]);
                data.operands.iter().any(|&operand| self.contains(operand))
                    || info.effect == Effect::Read && data.operands.iter().any(reads_written)
            }
        }
    }
}

/// Whether two instructions compute the same of the same.
fn is_same(func: &Function, a: &InstData, b: &InstData) -> bool {
    let is_alike = |(&x, &y): (&Value, &Value)| x == y || is_alike(func, x, y);
    a.op == b.op
        && a.imm == b.imm
        && a.operands.len() == b.operands.len()
        && a.operands.iter().zip(&b.operands).all(is_alike)
}

/// Whether two values are the same constant or coordinate.
fn is_alike(func: &Function, x: Value, y: Value) -> bool {
    let is_known = |value: Value| match func.values[value].def {
        ValueDef::Result(inst, _) => func.insts[inst].op == Op::Tid || func.as_const(value).is_some(),
        _ => false,
    };
    is_known(x) && is_known(y) && Affine::of(func, x) == Affine::of(func, y) && func.ty(x) == func.ty(y)
}
