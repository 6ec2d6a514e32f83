//! Which threads of a launch come to an instruction, where comparisons of their coordinates with what the launch is
//! given say so: its extents, integers among its arguments, and the extents of arrays.

use super::axis_dependence::AxisDependence;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::analysis::range;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Scalar, Type, Value, ValueDef};
use smallvec::SmallVec;
use std::sync::Arc;

/// Describes what a launch is given, as far as its races are decided by it.
#[derive(Clone, Copy, Debug)]
pub struct DerivativeLaunch<'a> {
    /// The extents of the launch.
    pub dim: &'a [u64],
    /// Indexed by parameter of the kernel's HIR; of those beyond its end nothing is known.
    pub arguments: &'a [LaunchArgument],
}

/// Describes what is known of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchArgument {
    /// The value of an integer.
    Number(i64),
    /// The extents of an array.
    Extents(Vec<u64>),
    /// Nothing.
    Other,
}

/// The first and the last coordinate, along each axis of a launch, of the threads that come to an instruction: none do
/// if along one of them the last is before the first.
pub(super) type Threads = SmallVec<[Interval; 3]>;

/// Describes what a launch is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum LaunchSymbol {
    Coordinate(u8),
    Number(usize),
    Extent(usize, u8),
    /// What a loop counts, in one iteration.
    Counter(Value),
}

/// An integer that follows from what a launch is given: the sum that it is unless that leaves its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LaunchInteger {
    sum: AffineSum<LaunchSymbol>,
    ty: Scalar,
}

/// Describes what has to hold of two integers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GuardComparison {
    op: Op,
    sides: [LaunchInteger; 2],
}

/// Describes what has to hold where an instruction is reached.
#[derive(Clone, Default, Debug)]
pub(super) struct PathCondition {
    comparisons: Arc<Vec<GuardComparison>>,
    /// The loops around that run as often in all threads, if what decides that is the same in all.
    loops: Arc<Vec<Inst>>,
    /// True if something else has to hold as well.
    is_open: bool,
}

impl PathCondition {
    /// Returns true if every thread of every launch comes there.
    pub(super) fn is_always(&self) -> bool {
        self.comparisons.is_empty() && !self.is_open
    }

    /// Returns true if the same is known to hold there.
    pub(super) fn is_like(&self, other: &PathCondition) -> bool {
        self.is_open == other.is_open && self.comparisons == other.comparisons
    }

    /// Returns true if something that is not known has to hold there.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns true if an index that counts down along the thread's coordinate, as `n - 1 - i` does, is not negative,
    /// since the coordinate is below what it counts from.
    pub(super) fn keeps_from_negative(&self, func: &Function, index: Value) -> bool {
        let Some(LaunchInteger { sum, .. }) = LaunchInteger::of(func, index).filter(|index| index.sum.offset <= 0)
        else {
            return false;
        };
        let (down, from) = match sum.terms[..] {
            [(down, -1), (from, 1)] | [(from, 1), (down, -1)] => (down, from),
            _ => return false,
        };
        let says_so = |comparison: &GuardComparison| {
            let [a, b] = comparison.sides.each_ref().map(|side| side.sum.as_term());
            let (low, high, apart) = match comparison.op {
                Op::Lt => (a, b, 1),
                Op::Le => (a, b, 0),
                Op::Gt => (b, a, 1),
                Op::Ge => (b, a, 0),
                _ => return false,
            };
            low == Some(down) && high == Some(from) && apart + sum.offset >= 0
        };
        matches!(down, LaunchSymbol::Coordinate(_)) && self.comparisons.iter().any(says_so)
    }

    /// Returns true if loops around run as often in all threads that are on a line along an axis.
    pub(super) fn is_even(&self, func: &Function, whole: &AxisDependence<'_>) -> bool {
        !self.loops.iter().any(|&inst| deciding(func, inst).iter().any(|&value| whole.contains(value)))
    }

    /// Returns what a loop around counts from, to, and by, if a value is its counter and these are the same in all
    /// threads.
    pub(super) fn bounds(&self, func: &Function, counter: Value) -> Option<[LaunchInteger; 3]> {
        let is_of = |inst: &&Inst| {
            let data = &func.insts[**inst];
            data.op == Op::ForRange && func.regions[data.regions[0]].params.first() == Some(&counter)
        };
        let &inst = self.loops.iter().find(is_of)?;
        let bound = |operand: usize| {
            LaunchInteger::of(func, func.insts[inst].operands[operand]).filter(|sum| sum.coordinates().next().is_none())
        };
        Some([bound(0)?, bound(1)?, bound(2)?])
    }

    /// Adds that a condition holds, or does not.
    fn add(&mut self, func: &Function, condition: Value, truth: bool) {
        let ValueDef::Result(inst, _) = func.values[condition].def else {
            self.is_open = true;
            return;
        };
        let data = &func.insts[inst];
        match (data.op, &data.operands[..]) {
            (Op::Not, &[other]) => self.add(func, other, !truth),
            (Op::BitAnd, &[a, b]) if truth => [a, b].into_iter().for_each(|side| self.add(func, side, truth)),
            (Op::BitOr, &[a, b]) if !truth => [a, b].into_iter().for_each(|side| self.add(func, side, truth)),
            (op, &[a, b]) => {
                let op = if truth { Some(op) } else { range::negated(op) };
                self.is_open |= op.and_then(|op| self.compare(func, op, [a, b])).is_none();
            }
            _ => self.is_open = true,
        }
    }

    /// Adds that a loop runs, which is taken for granted of one whose bounds are not known.
    fn add_loop(&mut self, func: &Function, inst: Inst) {
        Arc::make_mut(&mut self.loops).push(inst);
        let [start, end, step] = [0, 1, 2].map(|operand| func.insts[inst].operands[operand]);
        match AffineSum::of(func, step).as_const().map(i64::signum) {
            Some(1) => _ = self.compare(func, Op::Lt, [start, end]),
            Some(-1) => _ = self.compare(func, Op::Gt, [start, end]),
            _ => {}
        }
    }

    /// Adds that a comparison holds; nothing if it is none of sums.
    fn compare(&mut self, func: &Function, op: Op, sides: [Value; 2]) -> Option<()> {
        range::negated(op)?;
        let sides = [LaunchInteger::of(func, sides[0])?, LaunchInteger::of(func, sides[1])?];
        let always_holds = match sides.each_ref().map(LaunchInteger::as_const) {
            [Some(a), Some(b)] => holds(op, a, b),
            _ => false,
        };
        if !always_holds {
            Arc::make_mut(&mut self.comparisons).push(GuardComparison { op, sides });
        }
        Some(())
    }

    /// The threads that come there; nothing if they are not known to be all between two.
    pub(super) fn threads(&self, launch: &DerivativeLaunch<'_>) -> Option<Threads> {
        if self.is_open {
            return None;
        }
        let mut threads: Threads = launch.dim.iter().map(|&extent| Interval::new(0, i128::from(extent) - 1)).collect();
        for comparison in &*self.comparisons {
            comparison.narrow(&mut threads, launch)?;
        }
        Some(threads)
    }
}

/// Returns what decides how often a loop runs.
fn deciding(func: &Function, inst: Inst) -> SmallVec<[Value; 3]> {
    let data = &func.insts[inst];
    match data.op {
        Op::ForRange => data.operands[..3].into(),
        _ => func.terminator(data.regions[0]).map(|last| func.insts[last].operands[..1].into()).unwrap_or_default(),
    }
}

fn holds(op: Op, a: i64, b: i64) -> bool {
    match op {
        Op::Lt => a < b,
        Op::Ge => a >= b,
        Op::Gt => a > b,
        Op::Le => a <= b,
        Op::Eq => a == b,
        _ => a != b,
    }
}

impl LaunchInteger {
    pub(super) fn of(func: &Function, value: Value) -> Option<LaunchInteger> {
        LaunchInteger::in_loops(func, value).filter(|sum| sum.counters().next().is_none())
    }

    /// A constant.
    pub(super) fn constant(offset: i64) -> LaunchInteger {
        LaunchInteger { sum: AffineSum { offset, ..AffineSum::default() }, ty: Scalar::I64 }
    }

    /// Also of what loops count.
    pub(super) fn in_loops(func: &Function, value: Value) -> Option<LaunchInteger> {
        let ty = func.ty(value).as_scalar().filter(|ty| ty.is_int())?;
        let known = |term: AffineTerm| match term {
            AffineTerm::Coordinate(axis) => Some(LaunchSymbol::Coordinate(axis)),
            AffineTerm::Value(value) => match func.values[value].def {
                ValueDef::Result(inst, _) => match (func.insts[inst].op, &func.insts[inst].imm) {
                    (Op::Dim, &Imm::Axis(axis)) => {
                        Some(LaunchSymbol::Extent(func.param_index(func.insts[inst].operands[0])?, axis))
                    }
                    _ => None,
                },
                ValueDef::Param(..) => {
                    let is_int = matches!(func.ty(value), Type::Scalar(scalar) if scalar.is_int());
                    let known = func.param_index(value).map_or(LaunchSymbol::Counter(value), LaunchSymbol::Number);
                    is_int.then_some(known)
                }
            },
        };
        Some(LaunchInteger { sum: AffineSum::of(func, value).try_map(known)?, ty })
    }

    fn coordinates(&self) -> impl Iterator<Item = u8> {
        self.sum.terms.iter().filter_map(|(known, _)| match known {
            &LaunchSymbol::Coordinate(axis) => Some(axis),
            _ => None,
        })
    }

    /// Returns what loops count, of what it is made of.
    pub(super) fn counters(&self) -> impl Iterator<Item = Value> {
        self.sum.terms.iter().filter_map(|(known, _)| match known {
            &LaunchSymbol::Counter(value) => Some(value),
            _ => None,
        })
    }

    /// The axis of the launch of whose coordinate alone it is made, besides what is the same in all threads at all
    /// times.
    pub(super) fn axis(&self) -> Option<u8> {
        let mut axes = self.coordinates();
        axes.next().filter(|_| axes.next().is_none() && self.counters().next().is_none())
    }

    /// The number that it is in a launch, in all threads.
    pub(super) fn number(&self, launch: &DerivativeLaunch<'_>) -> Option<i128> {
        let (constant, factors) = self.in_launch(launch)?;
        factors.iter().all(|&factor| factor == 0).then_some(constant)
    }

    /// The number that it is in any launch.
    pub(super) fn as_const(&self) -> Option<i64> {
        self.sum.as_const()
    }

    /// Returns what is added to multiples of coordinates, and by axis of the launch the factors of these; nothing if
    /// that is not known, or if it may be too large for the integer's type.
    pub(super) fn in_launch(&self, launch: &DerivativeLaunch<'_>) -> Option<(i128, SmallVec<[i128; 3]>)> {
        self.in_iteration(launch, &[])
    }

    /// The same where loops count so far.
    pub(super) fn in_iteration(
        &self,
        launch: &DerivativeLaunch<'_>,
        counters: &[(Value, i128)],
    ) -> Option<(i128, SmallVec<[i128; 3]>)> {
        let mut constant = i128::from(self.sum.offset);
        let mut factors: SmallVec<[i128; 3]> = launch.dim.iter().map(|_| 0).collect();
        for &(known, factor) in &self.sum.terms {
            let factor = i128::from(factor);
            let number = match known {
                // Beyond the launch's own, there is one coordinate: zero.
                LaunchSymbol::Coordinate(axis) => {
                    if let Some(of) = factors.get_mut(usize::from(axis)) {
                        *of += factor;
                    }
                    continue;
                }
                LaunchSymbol::Counter(counter) => counters.iter().find(|(of, _)| *of == counter)?.1,
                LaunchSymbol::Number(param) => match launch.arguments.get(param)? {
                    &LaunchArgument::Number(number) => i128::from(number),
                    _ => return None,
                },
                LaunchSymbol::Extent(param, axis) => match launch.arguments.get(param)? {
                    LaunchArgument::Extents(extents) => i128::from(*extents.get(usize::from(axis))?),
                    _ => return None,
                },
            };
            constant += factor * number;
        }
        let (mut low, mut high) = (constant, constant);
        for (&factor, &extent) in factors.iter().zip(launch.dim) {
            let far = factor * (i128::from(extent) - 1).max(0);
            (low, high) = (low + far.min(0), high + far.max(0));
        }
        let is_signed = self.ty.is_signed_int();
        let bits = self.ty.bits() - u32::from(is_signed);
        let (least, most) = (if is_signed { -(1i128 << bits) } else { 0 }, (1i128 << bits) - 1);
        (least <= low && high <= most).then_some((constant, factors))
    }
}

impl GuardComparison {
    /// Leaves the threads of which it holds; nothing if it is not known which these are, or if they have others between
    /// them.
    fn narrow(&self, threads: &mut Threads, launch: &DerivativeLaunch<'_>) -> Option<()> {
        let ([(a, of_a), (b, of_b)], op) =
            ([self.sides[0].in_launch(launch)?, self.sides[1].in_launch(launch)?], self.op);
        let constant = a - b;
        let mut factors = of_a.iter().zip(&of_b).map(|(a, b)| a - b).enumerate().filter(|&(_, factor)| factor != 0);
        let (axis, factor) = match (factors.next(), factors.next()) {
            // It is the same for all threads.
            (None, _) => (0, 0),
            (Some(one), None) => one,
            _ => return None,
        };
        let Some(range) = threads.get_mut(axis) else { return Some(()) };
        range::narrow(range, op, factor, constant).then_some(())
    }
}

/// Calls `found` with each instruction of a function without `break`, `continue` and early `return`, or of which these
/// do not matter, and with what has to hold where it is reached.
pub(super) fn walk(func: &Function, found: &mut dyn FnMut(Inst, &PathCondition)) {
    region(func, func.body, &PathCondition::default(), found);
}

fn region(func: &Function, at: Region, reach: &PathCondition, found: &mut dyn FnMut(Inst, &PathCondition)) {
    for &inst in &func.regions[at].insts {
        found(inst, reach);
        let data = &func.insts[inst];
        for (number, &inner) in data.regions.iter().enumerate() {
            let mut within = reach.clone();
            match data.op {
                Op::If => within.add(func, data.operands[0], number == 0),
                Op::ForRange => within.add_loop(func, inst),
                Op::While => Arc::make_mut(&mut within.loops).push(inst),
                _ => within.is_open = true,
            }
            region(func, inner, &within, found);
        }
    }
}
