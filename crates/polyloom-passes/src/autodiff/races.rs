//! Stores by which several threads of a launch write different numbers to one element: which of them stays is chance,
//! so what would come back for it means nothing. So it is with loads and atomic updates of elements that other threads
//! store.
//!
//! A store is one of these by itself along an axis of the launch where its value depends on the thread's coordinate along
//! it and is active, and its indices do not; where its indices depend on it through one quotient or remainder alone; and
//! where going so far along two axes changes no index. Two accesses are compared when a launch is known
//! ([`super::meetings`]), and so are conditions that let the threads between two through ([`super::guards`]). What cannot
//! be seen so, such as indices that come from an array and other conditions, is left alone.
//!
//! Design: `docs/design/custom-derivatives.md`.

use super::activity::natural_rank;
use super::axis_dependence::{AxisDependence, are_computed_alike};
use super::guards::{self, DerivativeLaunch, LaunchInteger, PathCondition};
use super::meetings::AccessPair;
use super::request::DerivativeRequest;
use cranelift_entity::EntitySet;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::{Code, Diagnostic, Function, Inst, InstData, Op, Value};
use smallvec::SmallVec;

/// Number of pairs of accesses are looked at.
const MAX_MEETINGS: usize = 256;
/// Number of operations that bring threads together are looked at.
const MAX_CUTS: usize = 16;

/// Threads of a launch that come to one element, which one of them writes.
#[derive(Clone, Debug)]
pub struct AccessRace {
    conflict: RaceConflict,
    /// Says which threads store.
    reach: PathCondition,
    /// Holds what to say of it.
    diagnostic: Diagnostic,
}

#[derive(Clone, Debug)]
enum RaceConflict {
    /// Those along an axis of the launch write it by one store.
    Along(u8, StoreSharing),
    /// Those that are so far apart along two axes do.
    Across([(u8, u64); 2]),
    /// One writes it, and another one comes to it by another access.
    Between(AccessPair, PathCondition, AccessKind),
}

/// Describes what a thread does with an element that another one stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AccessKind {
    Stores,
    Updates,
    Loads,
}

/// Says which of the threads along an axis write one element by one store.
#[derive(Clone, Debug)]
enum StoreSharing {
    /// All.
    All,
    /// Those that are multiples of a number apart.
    Remainder(LaunchInteger),
    /// Neighbours of which this quotient is the same.
    Quotient(CoordinateQuotient),
}

/// The quotient of a coordinate and a number, which is the same in all threads, behind a constant that is added first.
#[derive(Clone, Debug)]
struct CoordinateQuotient {
    offset: i64,
    by: LaunchInteger,
    /// True if it is rounded to zero, and not down.
    truncates: bool,
}

impl CoordinateQuotient {
    fn of(&self, coordinate: i128, by: i128) -> i128 {
        let sum = coordinate + i128::from(self.offset);
        if self.truncates { sum / by } else { sum.div_euclid(by) }
    }
}

impl AccessRace {
    /// Returns true if threads of a launch come to one element, as far as is known.
    fn happens(&self, launch: &DerivativeLaunch<'_>) -> bool {
        let Some(threads) = self.reach.threads(launch) else { return false };
        if threads.iter().any(|range| range.low > range.high) {
            return false;
        }
        match &self.conflict {
            // Beyond the launch's extents there is one thread.
            RaceConflict::Along(axis, sharing) => {
                threads.get(usize::from(*axis)).is_some_and(|range| sharing.is_among(range.low, range.high, launch))
            }
            RaceConflict::Across(moves) => moves.iter().all(|&(axis, distance)| {
                threads.get(usize::from(axis)).is_some_and(|range| range.high - range.low >= i128::from(distance))
            }),
            RaceConflict::Between(meeting, reach, _) => {
                reach.threads(launch).is_some_and(|others| meeting.happens(&threads, &others, launch))
            }
        }
    }

    /// Returns true if it happens in every launch that has two neighbouring threads along an axis, of so many axes.
    fn is_of_any_two(&self, along: u8, rank: u8) -> bool {
        let always = match &self.conflict {
            RaceConflict::Along(axis, sharing) => *axis == along && sharing.is_of_any_two(),
            RaceConflict::Across(_) => false,
            RaceConflict::Between(_, reach, _) => {
                let dim: SmallVec<[u64; 3]> = (0..rank).map(|axis| 1 + u64::from(axis == along)).collect();
                reach.is_always() && self.happens(&DerivativeLaunch { dim: &dim, arguments: &[] })
            }
        };
        always && self.reach.is_always()
    }
}

impl StoreSharing {
    /// Returns true if it is so of threads from one to another.
    fn is_among(&self, first: i128, last: i128, launch: &DerivativeLaunch<'_>) -> bool {
        match self {
            StoreSharing::All => last > first,
            StoreSharing::Remainder(of) => {
                of.number(launch).is_some_and(|number| number >= 1 && last - first >= number)
            }
            // Two of three neighbours have the same.
            StoreSharing::Quotient(quotient) => quotient.by.number(launch).is_some_and(|by| {
                by >= 2 && (last - first >= 2 || last - first == 1 && quotient.of(first, by) == quotient.of(last, by))
            }),
        }
    }

    /// Returns true if it is so of any two neighbours.
    fn is_of_any_two(&self) -> bool {
        match self {
            StoreSharing::All => true,
            StoreSharing::Remainder(of) => of.as_const() == Some(1),
            StoreSharing::Quotient(_) => self.is_among(0, 1, &DerivativeLaunch { dim: &[2], arguments: &[] }),
        }
    }
}

/// Returns what to say of a kernel that has a race in every launch of more than one thread, however its extents, as
/// many as `rank`, are.
pub(super) fn in_any_launch(races: &[AccessRace], rank: u8) -> Option<&Diagnostic> {
    let certain = |axis: u8| races.iter().find(|race| race.is_of_any_two(axis, rank));
    let first = certain(0)?;
    (1..rank).all(|axis| certain(axis).is_some()).then_some(&first.diagnostic)
}

/// An access of an array.
struct FoundAccess<'a> {
    data: &'a InstData,
    reach: PathCondition,
    /// True if a derivative flows through what it stores, updates by, or loads.
    is_active: bool,
}

impl FoundAccess<'_> {
    fn array(&self) -> Value {
        self.data.operands[0]
    }

    /// Returns what is stored or updated by, and what decides which element it is.
    fn value(&self) -> Option<Value> {
        self.data.operands.last().copied()
    }

    fn indices(&self, access: AccessKind) -> &[Value] {
        let n_values = usize::from(access != AccessKind::Loads);
        &self.data.operands[1..self.data.operands.len() - n_values]
    }
}

/// The accesses of a kernel in structured form by which threads overwrite each other's numbers, or read them.
pub(super) fn races(func: &Function, request: &DerivativeRequest, active: &EntitySet<Value>) -> Vec<AccessRace> {
    let (mut stores, mut updates, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    guards::walk(func, &mut |inst, reach| {
        let data = &func.insts[inst];
        let list = match data.op {
            Op::ArrayStore => &mut stores,
            Op::ArrayLoad | Op::LoadReadonly => &mut loads,
            op if op.combination().is_some() => &mut updates,
            _ => return,
        };
        if !reach.is_open() {
            let is_active = data.results.iter().chain(data.operands.last()).any(|&value| active.contains(value));
            list.push(FoundAccess { data, reach: reach.clone(), is_active });
        }
    });
    // A loaded value may decide about a value that has a derivative, even if it is an integer.
    loads.iter_mut().for_each(|load: &mut FoundAccess<'_>| load.is_active = true);
    if stores.is_empty() {
        return Vec::new();
    }
    let rank = natural_rank(func).max(request.rank);
    let lines: SmallVec<[AxisDependence<'_>; 3]> = (0..rank).map(|axis| AxisDependence::on(func, axis, None)).collect();
    let mut races = Vec::new();
    for (axis, whole) in (0..rank).zip(&lines) {
        let mut cuts = AxisCuts::along(func, axis);
        for store in stores.iter().filter(|store| store.is_active && store.reach.is_even(func, whole)) {
            races.extend(cuts.shared_by(whole, store).into_iter().map(|sharing| AccessRace {
                conflict: RaceConflict::Along(axis, sharing),
                reach: store.reach.clone(),
                diagnostic: diagnostic(func, store.data, AccessKind::Stores),
            }));
        }
    }
    // Threads that do not run the same iterations may be anywhere.
    let is_even = |found: &FoundAccess<'_>| lines.iter().all(|line| found.reach.is_even(func, line));
    for list in [&mut stores, &mut updates, &mut loads] {
        list.retain(is_even);
    }
    for store in stores.iter().filter(|store| store.is_active) {
        races.extend(across(func, &lines, store).map(|moves| AccessRace {
            conflict: RaceConflict::Across(moves),
            reach: store.reach.clone(),
            diagnostic: diagnostic(func, store.data, AccessKind::Stores),
        }));
    }
    let mut pairs = ConflictPairs { func, lines: &lines, in_loops: computed_in_loops(func), known: Vec::new() };
    for (at, store) in stores.iter().enumerate() {
        pairs.compare(store, &stores[..=at], AccessKind::Stores, &mut races);
    }
    for (others, access) in [(&updates, AccessKind::Updates), (&loads, AccessKind::Loads)] {
        pairs.known.clear();
        stores.iter().for_each(|store| pairs.compare(store, others, access, &mut races));
    }
    races
}

/// Returns what to say of a launch that has races: of loads, if no two threads write one element.
pub fn found_in<'a>(races: &'a [AccessRace], launch: &DerivativeLaunch<'_>) -> Vec<&'a Diagnostic> {
    let (loads, writes): (Vec<&AccessRace>, Vec<&AccessRace>) =
        races.iter().partition(|race| matches!(race.conflict, RaceConflict::Between(_, _, AccessKind::Loads)));
    let happening = |races: Vec<&'a AccessRace>| {
        races.into_iter().filter(|race| race.happens(launch)).map(|race| &race.diagnostic).collect::<Vec<_>>()
    };
    let found = happening(writes);
    if found.is_empty() { happening(loads) } else { found }
}

/// Pairs of a store and another access by which different threads may come to one element.
struct ConflictPairs<'a> {
    func: &'a Function,
    /// Holds what differs along each axis.
    lines: &'a [AxisDependence<'a>],
    /// Holds what loops compute, perhaps another number in each iteration.
    in_loops: EntitySet<Value>,
    known: Vec<(Value, AccessPair, PathCondition, PathCondition)>,
}

impl ConflictPairs<'_> {
    fn compare(
        &mut self,
        store: &FoundAccess<'_>,
        others: &[FoundAccess<'_>],
        access: AccessKind,
        races: &mut Vec<AccessRace>,
    ) {
        let (array, rank) = (store.array(), self.lines.len() as u8);
        for other in others.iter().filter(|other| other.array() == array && (store.is_active || other.is_active)) {
            if self.known.len() == MAX_MEETINGS {
                return;
            }
            let accesses = [(store.indices(AccessKind::Stores), &store.reach), (other.indices(access), &other.reach)];
            let Some(mut meeting) = AccessPair::of(self.func, accesses, rank) else { continue };
            if access == AccessKind::Stores && self.is_one_number(store.value(), other.value()) {
                // In the same iteration, all threads store the same.
                if !meeting.has_counters() || !store.value().is_some_and(|value| self.in_loops.contains(value)) {
                    continue;
                }
                meeting.in_other_iterations();
            }
            // A store by itself has been looked at, but for what it does in several iterations.
            let is_seen = std::ptr::eq(store, other) && !meeting.has_counters();
            let is_known = |(of, known, one, two): &(Value, AccessPair, PathCondition, PathCondition)| {
                *of == array && *known == meeting && one.is_like(&store.reach) && two.is_like(&other.reach)
            };
            if is_seen || self.known.iter().any(is_known) {
                continue;
            }
            self.known.push((array, meeting.clone(), store.reach.clone(), other.reach.clone()));
            let at = if access == AccessKind::Loads { other.data } else { store.data };
            races.push(AccessRace {
                conflict: RaceConflict::Between(meeting, other.reach.clone(), access),
                reach: store.reach.clone(),
                diagnostic: diagnostic(self.func, at, access),
            });
        }
    }

    /// Returns true if two values are one that is the same in all threads, in any one iteration.
    fn is_one_number(&self, one: Option<Value>, other: Option<Value>) -> bool {
        let is_alike = |value: Value| !self.lines.iter().any(|line| line.contains(value));
        one == other && one.is_some_and(is_alike)
    }
}

fn computed_in_loops(func: &Function) -> EntitySet<Value> {
    let mut found = EntitySet::new();
    func.walk(func.body, &mut |_, data| {
        for &region in data.regions.iter().filter(|_| matches!(data.op, Op::ForRange | Op::While)) {
            found.extend(func.regions[region].params.iter().copied());
            func.walk(region, &mut |_, data| {
                found.extend(data.results.iter().copied());
                data.regions.iter().for_each(|&inner| found.extend(func.regions[inner].params.iter().copied()));
            });
        }
    });
    found
}

/// Returns how far along two axes from a thread the next one is that writes the same element by a store, where its
/// number may be another.
fn across(
    func: &Function,
    lines: &[AxisDependence<'_>],
    store: &FoundAccess<'_>,
) -> impl Iterator<Item = [(u8, u64); 2]> {
    let indices: SmallVec<[AffineSum; 2]> =
        store.indices(AccessKind::Stores).iter().map(|&index| AffineSum::of(func, index)).collect();
    let differs = |axis: u8, value: Value| lines[usize::from(axis)].contains(value);
    let factor = |index: &AffineSum, axis: u8| {
        let found = index.terms.iter().find(|(term, _)| *term == AffineTerm::Coordinate(axis));
        found.map_or(0, |&(_, factor)| i128::from(factor))
    };
    let mut found: SmallVec<[[(u8, u64); 2]; 3]> = SmallVec::new();
    for b in 1..lines.len() as u8 {
        for a in 0..b {
            let is_alike = |(term, _): &(AffineTerm, i64)| match *term {
                AffineTerm::Coordinate(_) => true,
                AffineTerm::Value(value) => !differs(a, value) && !differs(b, value),
            };
            let rows: SmallVec<[[i128; 2]; 2]> =
                indices.iter().map(|index| [factor(index, a), factor(index, b)]).filter(|row| *row != [0, 0]).collect();
            let Some(&[p, q]) = rows.first() else { continue };
            let are_parallel = rows.iter().all(|[x, y]| x * q == y * p);
            let moves = store.value().is_some_and(|value| differs(a, value) || differs(b, value));
            if p == 0 || q == 0 || !are_parallel || !moves || !indices.iter().all(|i| i.terms.iter().all(is_alike)) {
                continue;
            }
            let divisor = gcd(p.unsigned_abs(), q.unsigned_abs());
            let far = |factor: i128| u64::try_from(factor.unsigned_abs() / divisor).unwrap_or(u64::MAX);
            found.push([(a, far(q)), (b, far(p))]);
        }
    }
    found.into_iter()
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn diagnostic(func: &Function, at: &InstData, access: AccessKind) -> Diagnostic {
    let name = func.param_index(at.operands[0]).map_or("the array", |index| &*func.param_names[index]);
    let (message, help) = match access {
        AccessKind::Stores => (
            format!(
                "several threads write different numbers to one element of `{name}`, and which one stays is chance"
            ),
            "add to it with `atomic_add`, find an extremum with `atomic_min` or `atomic_max`, or let one thread store \
             to each element",
        ),
        AccessKind::Updates => (
            format!(
                "a thread writes an element of `{name}` that another one updates atomically, and which of the two comes \
                 first is chance"
            ),
            "write it in a kernel of its own that is launched before",
        ),
        AccessKind::Loads => (
            format!(
                "a thread reads an element of `{name}` that another one writes, and which of the two comes first is \
                 chance"
            ),
            "read it in a kernel of its own, or write to another array",
        ),
    };
    Diagnostic::error(Code::NotDifferentiable, at.span, message).help(help)
}

/// The operations that bring threads along an axis together, each with what of it is the same.
struct AxisCuts<'a> {
    func: &'a Function,
    axis: u8,
    /// Holds what differs but for what they give, once somebody asks.
    known: Vec<(&'a InstData, StoreSharing, Option<AxisDependence<'a>>)>,
}

impl<'a> AxisCuts<'a> {
    fn along(func: &'a Function, axis: u8) -> AxisCuts<'a> {
        let mut known: Vec<(&'a InstData, StoreSharing, Option<AxisDependence<'a>>)> = Vec::new();
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
        AxisCuts { func, axis, known }
    }

    /// Returns which threads share what a store writes to, as far as that can be seen.
    fn shared_by(&mut self, whole: &AxisDependence<'_>, store: &FoundAccess<'_>) -> SmallVec<[StoreSharing; 1]> {
        let indices = store.indices(AccessKind::Stores);
        let Some(value) = store.value().filter(|&value| whole.contains(value)) else { return SmallVec::new() };
        if !indices.iter().any(|&index| whole.contains(index)) {
            return SmallVec::from_elem(StoreSharing::All, 1);
        }
        let mut found = SmallVec::new();
        for (cut, sharing, rest) in &mut self.known {
            let rest = rest.get_or_insert_with(|| AxisDependence::on(self.func, self.axis, Some(*cut)));
            if !indices.iter().any(|&index| rest.contains(index)) && rest.contains(value) {
                found.push(sharing.clone());
            }
        }
        found
    }
}

/// Returns which threads along an axis have the same result of an operation that brings threads together.
fn bucket(func: &Function, axis: u8, data: &InstData) -> Option<StoreSharing> {
    let &[of, by] = &data.operands[..] else { return None };
    let offset = AffineSum::of(func, of).distance(axis)?;
    let by = LaunchInteger::of(func, by)?;
    let quotient =
        |by: LaunchInteger, truncates: bool| StoreSharing::Quotient(CoordinateQuotient { offset, by, truncates });
    match data.op {
        Op::Div | Op::FloorDiv => Some(quotient(by, data.op == Op::Div)),
        Op::Rshift => {
            by.as_const().filter(|by| (1..31).contains(by)).map(|by| quotient(LaunchInteger::constant(1 << by), false))
        }
        Op::Mod => (offset >= 0).then_some(StoreSharing::Remainder(by)),
        Op::BitAnd => {
            let mask = by.as_const().filter(|&mask| mask >= 0)?;
            1i64.checked_shl(mask.count_ones()).map(|n| StoreSharing::Remainder(LaunchInteger::constant(n)))
        }
        _ => None,
    }
}
