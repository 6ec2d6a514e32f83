//! Stores by which several threads of a launch write different numbers to one element: which of them stays is chance,
//! so what would come back for it means nothing. So it is with loads of elements that other threads store.
//!
//! A store is one of these along an axis of the launch where its value depends on the thread's coordinate along it and
//! is active, and its indices do not; or where its indices depend on it through one quotient or remainder alone. Two
//! stores are where their indices differ by a constant number of threads. Conditions that let the threads between two
//! through ([`super::guards`]) are looked at when a launch is known. What cannot be seen so, such as indices that come
//! from an array and other conditions, is left alone. Loads are compared with stores when a launch is known
//! ([`super::reads`]).

use super::Request;
use super::activity::natural_rank;
use super::guards::{self, Launch, Reach, Threads};
use super::reads::Meeting;
use cranelift_entity::EntitySet;
use polyloom_ir::affine::{Affine, Term};
use polyloom_ir::op::{Effect, Group};
use polyloom_ir::{Code, Diagnostic, Function, Imm, Inst, InstData, Op, Region, Value, ValueDef};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// How many stores before it, of those with the same multiples in their indices, a store is compared with.
const MAX_OTHERS: usize = 16;
/// How many pairs of a load and a store are looked at.
const MAX_MEETINGS: usize = 256;
/// How many operations that bring threads together are looked at.
const MAX_CUTS: usize = 16;

/// Threads of a launch that come to one element, which one of them writes.
#[derive(Clone, Debug)]
pub struct Race {
    conflict: Conflict,
    /// Which threads store.
    reach: Reach,
    /// What to say of it.
    diagnostic: Diagnostic,
}

#[derive(Clone, Debug)]
enum Conflict {
    /// Those along an axis of the launch write it.
    Stores(u8, Sharing),
    /// Some of those that come there read it.
    Loads(Meeting, Reach),
}

/// Which of the threads along an axis write one element.
#[derive(Clone, Debug)]
enum Sharing {
    /// Some of more than so many in a row.
    Above(u64),
    /// Neighbours of which this quotient is the same.
    Quotient(Quotient),
    /// One, and the one so far along the axis that comes to another store.
    Apart(i64, Reach),
}

/// The quotient of a coordinate and a constant, which are added first.
#[derive(Clone, Copy, Debug)]
struct Quotient {
    offset: i64,
    by: i64,
    /// Whether it is rounded to zero, and not down.
    truncates: bool,
}

impl Quotient {
    fn of(self, coordinate: i128) -> i128 {
        let (sum, by) = (coordinate + i128::from(self.offset), i128::from(self.by));
        if self.truncates { sum / by } else { sum.div_euclid(by) }
    }
}

impl Race {
    /// Whether threads of a launch come to one element, as far as is known.
    fn happens(&self, launch: &Launch<'_>) -> bool {
        self.reach.threads(launch).is_some_and(|threads| match &self.conflict {
            Conflict::Stores(axis, sharing) => sharing.is_among(usize::from(*axis), &threads, launch),
            Conflict::Loads(meeting, reach) => {
                reach.threads(launch).is_some_and(|loading| meeting.happens(&threads, &loading, launch))
            }
        })
    }

    /// Whether it happens in every launch that has two neighbouring threads along an axis, of so many axes.
    fn is_of_any_two(&self, along: u8, rank: u8) -> bool {
        let always = match &self.conflict {
            Conflict::Stores(axis, sharing) => *axis == along && sharing.is_of_any_two(),
            Conflict::Loads(_, reach) => {
                let dim: SmallVec<[u64; 3]> = (0..rank).map(|axis| 1 + u64::from(axis == along)).collect();
                reach.is_always() && self.happens(&Launch { dim: &dim, arguments: &[] })
            }
        };
        always && self.reach.is_always()
    }
}

impl Sharing {
    /// Whether it is so of threads that come to the store.
    fn is_among(&self, axis: usize, threads: &Threads, launch: &Launch<'_>) -> bool {
        // Beyond the launch's extents there is one thread.
        let Some(&(first, last)) = threads.get(axis) else { return false };
        let mut others = threads.iter().enumerate().filter(|&(other, _)| other != axis);
        if others.any(|(_, (first, last))| first > last) {
            return false;
        }
        match self {
            &Sharing::Above(n) => last - first >= i128::from(n),
            // Of three neighbours, two have the same.
            Sharing::Quotient(quotient) => {
                last - first >= 2 || last - first == 1 && quotient.of(first) == quotient.of(last)
            }
            Sharing::Apart(distance, reach) => reach.threads(launch).is_some_and(|second| {
                let moved = |at: usize| if at == axis { i128::from(*distance) } else { 0 };
                threads.iter().zip(&second).enumerate().all(|(at, (one, other))| {
                    let (first, last) = (one.0 + moved(at), one.1 + moved(at));
                    first.max(other.0) <= last.min(other.1)
                })
            }),
        }
    }

    /// Whether it is so of any two neighbours.
    fn is_of_any_two(&self) -> bool {
        match self {
            Sharing::Above(n) => *n == 1,
            Sharing::Quotient(quotient) => quotient.of(0) == quotient.of(1),
            Sharing::Apart(distance, reach) => distance.abs() == 1 && reach.is_always(),
        }
    }
}

/// What to say of a kernel that has a race in every launch of more than one thread, however its extents, as many as
/// `rank`, are.
pub(super) fn in_any_launch(races: &[Race], rank: u8) -> Option<&Diagnostic> {
    let certain = |axis: u8| races.iter().find(|race| race.is_of_any_two(axis, rank));
    let first = certain(0)?;
    (1..rank).all(|axis| certain(axis).is_some()).then_some(&first.diagnostic)
}

/// A store of a value that a derivative flows through.
struct Store {
    inst: Inst,
    /// What its indices are.
    indices: SmallVec<[Affine; 2]>,
    reach: Reach,
}

/// An array, and the multiples in each of the indices of an element.
type Form<'a> = (Value, Vec<&'a [(Term, i64)]>);

/// The stores of a kernel in structured form by which threads overwrite each other's numbers.
pub(super) fn races(func: &Function, request: &Request, active: &EntitySet<Value>) -> Vec<Race> {
    let mut stores = Vec::new();
    let mut accesses = Accesses::default();
    guards::walk(func, &mut |inst, reach| {
        let data = &func.insts[inst];
        accesses.add(data, reach, active);
        if data.op == Op::ArrayStore
            && let Some((value, place)) = data.operands.split_last()
            && active.contains(*value)
        {
            let indices = place[1..].iter().map(|&index| Affine::of(func, index)).collect();
            stores.push(Store { inst, indices, reach: reach.clone() });
        }
    });
    let rank = natural_rank(func).max(request.rank);
    let mut races = Vec::new();
    for axis in 0..rank {
        if stores.is_empty() {
            break;
        }
        let whole = Dependence::on(func, axis, None);
        let mut cuts = Cuts::along(func, axis);
        // By array and multiples, the stores so far.
        let mut alike: BTreeMap<Form<'_>, Vec<&Store>> = BTreeMap::new();
        for store in stores.iter().filter(|store| store.reach.is_even(func, &whole)) {
            let mut race = |sharing: Sharing| {
                let diagnostic = diagnostic(func, store.inst);
                let conflict = Conflict::Stores(axis, sharing);
                races.push(Race { conflict, reach: store.reach.clone(), diagnostic });
            };
            if let Some(sharing) = cuts.shared_by(&whole, store) {
                race(sharing);
            }
            let form = store.indices.iter().map(|index| &index.terms[..]).collect();
            let others = alike.entry((func.insts[store.inst].operands[0], form)).or_default();
            for other in others.iter().rev().take(MAX_OTHERS) {
                if let Some(distance) = apart_by(func, axis, &whole, store, other) {
                    race(Sharing::Apart(distance, other.reach.clone()));
                }
            }
            others.push(store);
        }
    }
    races.extend(accesses.races(func, rank));
    races
}

/// What to say of a launch that has races: of loads, if no two threads write one element.
pub fn found_in<'a>(races: &'a [Race], launch: &Launch<'_>) -> Vec<&'a Diagnostic> {
    let (stores, loads): (Vec<&Race>, Vec<&Race>) =
        races.iter().partition(|race| matches!(race.conflict, Conflict::Stores(..)));
    let happening = |races: Vec<&'a Race>| {
        races.into_iter().filter(|race| race.happens(launch)).map(|race| &race.diagnostic).collect::<Vec<_>>()
    };
    let found = happening(stores);
    if found.is_empty() { happening(loads) } else { found }
}

/// The stores to arrays, and the loads from them that a derivative flows through.
#[derive(Default)]
struct Accesses<'a> {
    stores: Vec<(&'a InstData, Reach)>,
    loads: Vec<(&'a InstData, Reach)>,
}

impl<'a> Accesses<'a> {
    fn add(&mut self, data: &'a InstData, reach: &Reach, active: &EntitySet<Value>) {
        let is_active = || data.results.iter().any(|&result| active.contains(result));
        match data.op {
            _ if reach.is_open() => {}
            Op::ArrayStore => self.stores.push((data, reach.clone())),
            Op::ArrayLoad | Op::LoadReadonly if is_active() => self.loads.push((data, reach.clone())),
            _ => {}
        }
    }

    /// The loads of elements that other threads store.
    fn races(mut self, func: &Function, rank: u8) -> Vec<Race> {
        let is_stored = |array: Value| self.stores.iter().any(|(store, _)| store.operands[0] == array);
        self.loads.retain(|(load, _)| is_stored(load.operands[0]));
        if self.loads.is_empty() {
            return Vec::new();
        }
        let lines: SmallVec<[Dependence<'_>; 3]> = (0..rank).map(|axis| Dependence::on(func, axis, None)).collect();
        let is_even = |(_, reach): &(&InstData, Reach)| lines.iter().all(|line| reach.is_even(func, line));
        self.loads.retain(is_even);
        self.stores.retain(is_even);
        let mut found: Vec<(Value, Meeting, &Reach, &Reach)> = Vec::new();
        let mut races = Vec::new();
        for (load, loading) in &self.loads {
            for (store, storing) in self.stores.iter().filter(|(store, _)| store.operands[0] == load.operands[0]) {
                let (stored, loaded) = (&store.operands[1..store.operands.len() - 1], &load.operands[1..]);
                let Some(meeting) = Meeting::of(func, stored, loaded, rank) else { continue };
                let array = load.operands[0];
                let is_known = |(of, known, one, other): &(Value, Meeting, &Reach, &Reach)| {
                    *of == array && *known == meeting && one.is_like(storing) && other.is_like(loading)
                };
                if found.iter().any(is_known) {
                    continue;
                }
                found.push((array, meeting.clone(), storing, loading));
                races.push(Race {
                    conflict: Conflict::Loads(meeting, loading.clone()),
                    reach: storing.clone(),
                    diagnostic: load_diagnostic(func, load),
                });
                if races.len() == MAX_MEETINGS {
                    return races;
                }
            }
        }
        races
    }
}

fn load_diagnostic(func: &Function, load: &InstData) -> Diagnostic {
    let name = func.param_index(load.operands[0]).map_or("the array", |index| &*func.param_names[index]);
    let message = format!(
        "a thread reads an element of `{name}` that another one writes, and which of the two comes first is chance"
    );
    let help = "read it in a kernel of its own, or write to another array";
    Diagnostic::error(Code::NotDifferentiable, load.span, message).help(help)
}

/// The operations that bring threads along an axis together, each with what of it is the same.
struct Cuts<'a> {
    func: &'a Function,
    axis: u8,
    /// What differs but for what they give, once somebody asks.
    known: Vec<(&'a InstData, Sharing, Option<Dependence<'a>>)>,
}

impl<'a> Cuts<'a> {
    fn along(func: &'a Function, axis: u8) -> Cuts<'a> {
        let mut known: Vec<(&'a InstData, Sharing, Option<Dependence<'a>>)> = Vec::new();
        let mut found: Vec<Inst> = Vec::new();
        func.walk(func.body, &mut |inst, data| {
            let is_new = |other: &Inst| !are_computed_alike(func, &func.insts[*other], data);
            if found.len() < MAX_CUTS && bucket(func, axis, data).is_some() && found.iter().all(is_new) {
                found.push(inst);
            }
        });
        for inst in found {
            let data = &func.insts[inst];
            known.extend(bucket(func, axis, data).map(|sharing| (data, sharing, None)));
        }
        Cuts { func, axis, known }
    }

    /// Which threads share what a store writes to, if that can be seen.
    fn shared_by(&mut self, whole: &Dependence<'_>, store: &Store) -> Option<Sharing> {
        let (&value, place) = self.func.insts[store.inst].operands.split_last()?;
        let indices = &place[1..];
        if !whole.contains(value) {
            return None;
        }
        if !indices.iter().any(|&index| whole.contains(index)) {
            return Some(Sharing::Above(1));
        }
        let mut found: Option<&Sharing> = None;
        for (cut, sharing, rest) in &mut self.known {
            let rest = rest.get_or_insert_with(|| Dependence::on(self.func, self.axis, Some(*cut)));
            let is_alike = !indices.iter().any(|&index| rest.contains(index));
            if is_alike && rest.contains(value) && found.is_none_or(|found| least(sharing) < least(found)) {
                found = Some(sharing);
            }
        }
        found.cloned()
    }
}

/// So many neighbouring threads, and no more, need not have two that share an element.
fn least(sharing: &Sharing) -> u64 {
    match sharing {
        Sharing::Above(n) => *n,
        Sharing::Quotient(_) => 2,
        Sharing::Apart(distance, _) => distance.unsigned_abs(),
    }
}

/// Which threads along an axis have the same result of an operation that brings threads together.
fn bucket(func: &Function, axis: u8, data: &InstData) -> Option<Sharing> {
    let &[of, by] = &data.operands[..] else { return None };
    let by = Affine::of(func, by).as_const()?;
    let offset = Affine::of(func, of).distance(axis)?;
    let quotient = |by: i64, truncates: bool| Sharing::Quotient(Quotient { offset, by, truncates });
    match data.op {
        Op::Div | Op::FloorDiv => (by >= 2).then(|| quotient(by, data.op == Op::Div)),
        Op::Rshift => (1..31).contains(&by).then(|| quotient(1 << by, false)),
        Op::Mod => (by >= 1 && offset >= 0).then_some(Sharing::Above(by.unsigned_abs())),
        Op::BitAnd if by >= 0 => 1u64.checked_shl(by.count_ones()).map(Sharing::Above),
        _ => None,
    }
}

/// How far along an axis from one that comes to the first of these stores the thread is that writes the same element by
/// the second, if that is constant.
fn apart_by(func: &Function, axis: u8, whole: &Dependence<'_>, first: &Store, second: &Store) -> Option<i64> {
    let [one, other] = [first, second].map(|store| func.insts[store.inst].operands.last());
    if one == other && one.is_some_and(|&value| !whole.contains(value)) {
        return None;
    }
    // What loops count is not the same number in both.
    let is_fixed = |(term, _): &(Term, i64)| match *term {
        Term::Coordinate(_) => true,
        Term::Value(value) => func.param_index(value).is_some(),
    };
    let mut distance = None;
    for (a, b) in first.indices.iter().zip(&second.indices) {
        if !a.terms.iter().all(is_fixed) {
            return None;
        }
        if a.offset == b.offset {
            continue;
        }
        let (of, factor, _) = a.along_one_axis()?;
        let apart = a.offset - b.offset;
        if of != axis || distance.is_some() || apart % factor != 0 {
            return None;
        }
        distance = Some(apart / factor);
    }
    distance
}

fn diagnostic(func: &Function, store: Inst) -> Diagnostic {
    let data = &func.insts[store];
    let name = func.param_index(data.operands[0]).map_or("the array", |index| &*func.param_names[index]);
    let message =
        format!("several threads write different numbers to one element of `{name}`, and which one stays is chance");
    let help = "add to it with `atomic_add`, find an extremum with `atomic_min` or `atomic_max`, or let one thread store \
                to each element";
    Diagnostic::error(Code::NotDifferentiable, data.span, message).help(help)
}

/// What may differ between threads that differ in their coordinate along one axis alone.
pub(super) struct Dependence<'a> {
    func: &'a Function,
    axis: u8,
    /// An operation that is taken for one whose result is the same.
    cut: Option<&'a InstData>,
    values: EntitySet<Value>,
    /// Arrays that the kernel writes.
    written: Vec<bool>,
}

impl<'a> Dependence<'a> {
    fn on(func: &'a Function, axis: u8, cut: Option<&'a InstData>) -> Dependence<'a> {
        let written = func.written_arrays();
        let mut made = Dependence { func, axis, cut, values: EntitySet::new(), written };
        // Loops feed their results back to their beginning.
        while made.region(func.body) {}
        made
    }

    pub(super) fn contains(&self, value: Value) -> bool {
        self.values.contains(value)
    }

    /// Adds what differs in a region; gives whether there was anything new.
    fn region(&mut self, region: Region) -> bool {
        let func = self.func;
        let mut grows = false;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if data.regions.is_empty() {
                if self.differs(data) {
                    data.results.iter().for_each(|&result| grows |= self.values.insert(result));
                }
                continue;
            }
            grows |= self.structured(data);
        }
        grows
    }

    fn structured(&mut self, data: &InstData) -> bool {
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
        for &inner in &data.regions {
            grows |= self.region(inner);
        }
        grows
    }

    /// Whether the results of an instruction may differ.
    fn differs(&self, data: &InstData) -> bool {
        if self.cut.is_some_and(|cut| are_computed_alike(self.func, cut, data)) {
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
fn are_computed_alike(func: &Function, a: &InstData, b: &InstData) -> bool {
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
