//! The part of the analysis that every launch pays for: numbers that are the same for all threads, ranges of the
//! variables on each path, and between which numbers the indices lie there.
//!
//! Accesses on one path whose indices differ by constants are tested together, and a sum that several arrays are indexed
//! by is computed once.

use super::expression::{BoundVariable, ExprKind, ExpressionTable, LaunchExpr, LaunchTerm, as_integer};
use super::walk::{AccessPath, KernelAccess, MAX_LOOPS};
use super::{LaunchBounds, UnverifiedReason};
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::analysis::range::{narrow, negated};
use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::{MAX_DIMS, Op, Scalar, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Most tests of a launch, and most numbers that it computes for them.
const MAX_TESTS: usize = 32;
const MAX_STEPS: usize = 32;

/// A number that is the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum UniformStep {
    Const(u64),
    /// A word of the arguments.
    Word(u32),
    /// How many threads there are for each coordinate along an axis.
    Stride(u8),
    Op(OpEvaluator, [u16; 3]),
}

/// The result of a step as an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UniformInteger {
    step: u16,
    ty: Scalar,
}

/// A term of a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SumTerm {
    factor: i64,
    /// The number of the variable on its path: coordinates, then loops.
    variable: Option<u8>,
    uniform: Option<UniformInteger>,
}

/// A sum without its offset.
type SumPlan = SmallVec<[SumTerm; 2]>;

/// Describes what leaves threads out.
#[derive(Debug)]
enum ConditionPlan {
    /// The same for all threads.
    Uniform(u16, bool),
    /// A comparison of a sum with 0.
    Comparison(Op, SumPlan, i64),
}

#[derive(Debug)]
struct LoopPlan {
    start: UniformInteger,
    end: UniformInteger,
    step: i64,
}

/// A way to accesses, with what is tested there.
#[derive(Debug)]
pub(super) struct PathPlan {
    pub(super) path: AccessPath,
    conditions: Vec<ConditionPlan>,
    loops: Vec<LoopPlan>,
    pub(super) sums: Vec<TestedSum>,
}

#[derive(Debug)]
pub(super) struct TestedSum {
    sum: SumPlan,
    pub(super) tests: Vec<ExtentTest>,
}

/// Offsets that are added to a sum to index one axis of one array.
#[derive(Debug)]
pub(super) struct ExtentTest {
    word: u32,
    is_unsigned: bool,
    /// The least and the greatest offset.
    least: i64,
    most: i64,
    /// The accesses and their axes.
    pub(super) indices: Vec<(u32, u8, i64)>,
}

/// The numbers of a launch's steps.
pub(super) type StepValues = SmallVec<[u64; 16]>;
/// Says where the variables of a path lie, those that it does not have at 0. Wider integers would make a launch take
/// several times as long; numbers that do not fit are cut off at the ends, so that what follows from them is outside.
pub(super) type VariableRanges = [(i64, i64); MAX_DIMS + MAX_LOOPS];

impl UniformInteger {
    #[inline]
    fn value(self, steps: &StepValues) -> i64 {
        cut_off(as_integer(steps[usize::from(self.step)], self.ty))
    }
}

#[inline]
fn cut_off(integer: i128) -> i64 {
    integer.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl SumTerm {
    #[inline]
    fn amount(&self, steps: &StepValues) -> i64 {
        match self.uniform {
            None => self.factor,
            Some(uniform) => self.factor.saturating_mul(uniform.value(steps)),
        }
    }
}

impl TestedSum {
    /// Between which numbers the sum lies.
    #[inline]
    fn range(&self, steps: &StepValues, ranges: &VariableRanges) -> (i64, i64) {
        let (mut low, mut high) = (0i64, 0i64);
        for term in &self.sum {
            let amount = term.amount(steps);
            let (first, last) = term.variable.map_or((1, 1), |variable| ranges[usize::from(variable)]);
            let (least, most) = if amount < 0 { (last, first) } else { (first, last) };
            low = low.saturating_add(amount.saturating_mul(least));
            high = high.saturating_add(amount.saturating_mul(most));
        }
        (low, high)
    }

    /// The multiple of each variable in the sum, and what is added to these.
    pub(super) fn factors(&self, steps: &StepValues) -> ([i128; MAX_DIMS + MAX_LOOPS], i128) {
        let (mut factors, mut constant) = ([0i128; MAX_DIMS + MAX_LOOPS], 0i128);
        for term in &self.sum {
            let to = term.variable.map_or(&mut constant, |variable| &mut factors[usize::from(variable)]);
            *to = to.saturating_add(term.amount(steps).into());
        }
        (factors, constant)
    }
}

impl ExtentTest {
    /// The indices that are within an extent.
    #[inline]
    pub(super) fn inside(&self, words: &[u64]) -> Option<(i64, i64)> {
        // An extent is one that `int32` holds.
        let extent = *words.get(self.word as usize)? as i64;
        Some((if self.is_unsigned { 0 } else { -extent }, extent - 1))
    }
}

impl PathPlan {
    /// Returns where the variables of threads on this path lie, of which `ranges` has the coordinates; false if there
    /// are no such threads.
    fn narrow(&self, steps: &StepValues, ranges: &mut VariableRanges) -> bool {
        let mut is_empty = false;
        for (range, LoopPlan { start, end, step }) in ranges[MAX_DIMS..].iter_mut().zip(&self.loops) {
            let distance = end.value(steps).saturating_sub(start.value(steps));
            range.1 = match *step {
                1 => distance.saturating_sub(1),
                step if step > 0 => distance.saturating_sub(1).div_euclid(step),
                step => distance.saturating_add(1).saturating_neg().div_euclid(-step),
            };
            is_empty |= range.1 < 0;
        }
        !is_empty && self.conditions.iter().all(|condition| condition.narrow(steps, ranges))
    }

    /// True if all threads come here, and it has no variables but their coordinates.
    #[inline]
    fn is_plain(&self) -> bool {
        self.conditions.is_empty() && self.loops.is_empty()
    }

    /// Returns where the variables of threads on this path lie; nothing if there are no such threads.
    pub(super) fn ranges(&self, dim: &[u64; MAX_DIMS], steps: &StepValues) -> Option<VariableRanges> {
        let mut ranges = coordinate_ranges(dim)?;
        self.narrow(steps, &mut ranges).then_some(ranges)
    }

    /// True if the sums say that every index is within its extent.
    #[inline]
    fn is_inside(&self, steps: &StepValues, ranges: &VariableRanges, words: &[u64]) -> bool {
        self.sums.iter().all(|sum| {
            let (low, high) = sum.range(steps, ranges);
            sum.tests.iter().all(|test| {
                let Some((first, last)) = test.inside(words) else { return true };
                low.saturating_add(test.least) >= first && high.saturating_add(test.most) <= last
            })
        })
    }
}

/// Returns where the coordinates of a launch's threads lie; nothing if it has none.
#[inline]
fn coordinate_ranges(dim: &[u64; MAX_DIMS]) -> Option<VariableRanges> {
    let mut ranges: VariableRanges = [(0, 0); MAX_DIMS + MAX_LOOPS];
    for (range, &extent) in ranges.iter_mut().zip(dim) {
        range.1 = i64::try_from(extent).unwrap_or(i64::MAX) - 1;
    }
    (!dim.contains(&0)).then_some(ranges)
}

impl ConditionPlan {
    /// Leaves out what it does not hold of. False if it holds of nothing.
    #[inline]
    fn narrow(&self, steps: &StepValues, ranges: &mut VariableRanges) -> bool {
        let (op, sum, offset) = match self {
            &ConditionPlan::Uniform(step, truth) => return (steps[usize::from(step)] != 0) == truth,
            ConditionPlan::Comparison(op, sum, offset) => (*op, sum, *offset),
        };
        let (mut factor, mut constant, mut narrowed) = (0i128, i128::from(offset), 0);
        for term in sum {
            let amount = i128::from(term.amount(steps));
            match term.variable {
                None => constant += amount,
                Some(variable) => {
                    narrowed = usize::from(variable);
                    factor += amount;
                }
            }
        }
        let range = &mut ranges[narrowed];
        let mut wide = Interval::new(range.0.into(), range.1.into());
        narrow(&mut wide, op, factor, constant);
        *range = (cut_off(wide.low), cut_off(wide.high));
        range.0 <= range.1
    }
}

impl LaunchBounds {
    pub(super) fn step_values(&self, dim: &[u64; MAX_DIMS], words: &[u64]) -> Option<StepValues> {
        let mut values = StepValues::new();
        for step in &self.steps {
            let value = |step: u16| values[usize::from(step)];
            let value = match *step {
                UniformStep::Const(bits) => bits,
                UniformStep::Word(word) => *words.get(word as usize)?,
                UniformStep::Stride(axis) => stride(dim, axis),
                UniformStep::Op(OpEvaluator::Unary(f), [a, ..]) => f(value(a)),
                UniformStep::Op(OpEvaluator::Binary(f), [a, b, _]) => f(value(a), value(b)),
                UniformStep::Op(OpEvaluator::Ternary(f), [a, b, c]) => f(value(a), value(b), value(c)),
            };
            values.push(value);
        }
        Some(values)
    }

    /// True if the sums say that every index is within its extent.
    #[inline]
    pub(super) fn is_inside(&self, dim: &[u64; MAX_DIMS], words: &[u64]) -> bool {
        let Some(steps) = self.step_values(dim, words) else { return true };
        let Some(coordinates) = coordinate_ranges(dim) else { return true };
        self.paths.iter().all(|path| {
            if path.is_plain() {
                return path.is_inside(&steps, &coordinates, words);
            }
            let mut ranges = coordinates;
            !path.narrow(&steps, &mut ranges) || path.is_inside(&steps, &ranges, words)
        })
    }
}

/// Returns the number of threads there are for each coordinate along an axis, as the bits of an `i32`.
pub(super) fn stride(dim: &[u64; MAX_DIMS], axis: u8) -> u64 {
    let after = dim.iter().skip(usize::from(axis) + 1);
    after.fold(1u64, |n, &extent| n.wrapping_mul(extent)) & u64::from(u32::MAX)
}

/// Makes the plan.
pub(super) struct BoundsPlanner {
    pub(super) expressions: ExpressionTable,
    pub(super) steps: Vec<UniformStep>,
    step_of: FxHashMap<LaunchExpr, u16>,
    pub(super) paths: Vec<PathPlan>,
    numbers: FxHashMap<AccessPath, Option<usize>>,
    n_tests: usize,
}

impl BoundsPlanner {
    pub(super) fn new(expressions: ExpressionTable) -> BoundsPlanner {
        let (steps, step_of, paths, numbers) = Default::default();
        BoundsPlanner { expressions, steps, step_of, paths, numbers, n_tests: 0 }
    }

    /// Has launches test an index of an access.
    pub(super) fn add(&mut self, number: u32, access: &KernelAccess, axis: u8) -> Result<(), UnverifiedReason> {
        let word = *access.extents.get(usize::from(axis)).ok_or(UnverifiedReason::Shared)?;
        if access.n_elements > 1 {
            return Err(UnverifiedReason::Several);
        }
        let ways = access.paths.as_ref().map_err(|reason| *reason)?;
        let index = access.indices[usize::from(axis)].ok_or(UnverifiedReason::Index)?;
        let mut sum = self.expressions.sum(index).ok_or(UnverifiedReason::Index)?;
        let is_unsigned = self.expressions.data[index].ty.is_unsigned_int();
        let offset = std::mem::take(&mut sum.offset);
        // All ways or none; otherwise the index would count as verified by halves.
        let paths: Option<Vec<usize>> = ways.iter().map(|way| self.path(way)).collect();
        let paths = paths.ok_or(UnverifiedReason::Condition)?;
        for path in paths {
            let loops = &self.paths[path].path.loops;
            let is_here = |variable: BoundVariable| variable_number(loops, variable).is_some();
            if !variables(&sum).all(is_here) {
                return Err(UnverifiedReason::Index);
            }
            let plan = self.sum_plan(&sum, path).ok_or(UnverifiedReason::TooLarge)?;
            let sums = &mut self.paths[path].sums;
            let at = sums.iter().position(|tested| tested.sum == plan).unwrap_or_else(|| {
                sums.push(TestedSum { sum: plan, tests: Vec::new() });
                sums.len() - 1
            });
            let tests = &mut sums[at].tests;
            let known = tests.iter_mut().find(|test| test.word == word && test.is_unsigned == is_unsigned);
            match known {
                Some(test) => {
                    (test.least, test.most) = (test.least.min(offset), test.most.max(offset));
                    test.indices.push((number, axis, offset));
                }
                None if self.n_tests >= MAX_TESTS => return Err(UnverifiedReason::TooLarge),
                None => {
                    let indices = vec![(number, axis, offset)];
                    tests.push(ExtentTest { word, is_unsigned, least: offset, most: offset, indices });
                    self.n_tests += 1;
                }
            }
        }
        Ok(())
    }

    /// The number of a path; none if its conditions do not leave the threads between two.
    fn path(&mut self, path: &AccessPath) -> Option<usize> {
        if let Some(&known) = self.numbers.get(path) {
            return known;
        }
        let plan = self.path_plan(path);
        let number = plan.map(|plan| {
            self.paths.push(plan);
            self.paths.len() - 1
        });
        self.numbers.insert(path.clone(), number);
        number
    }

    fn path_plan(&mut self, path: &AccessPath) -> Option<PathPlan> {
        let mut loops = Vec::new();
        for &number in &path.loops {
            let counted = self.expressions.loops[number as usize];
            let (start, end) = (self.integer(counted.start)?, self.integer(counted.end)?);
            loops.push(LoopPlan { start, end, step: counted.step });
        }
        let conditions: Option<_> =
            path.conditions.iter().map(|&(condition, truth)| self.condition(condition, truth, path)).collect();
        Some(PathPlan { path: path.clone(), conditions: conditions?, loops, sums: Vec::new() })
    }

    fn condition(&mut self, condition: LaunchExpr, truth: bool, path: &AccessPath) -> Option<ConditionPlan> {
        if self.expressions.is_uniform(condition) {
            return Some(ConditionPlan::Uniform(self.step(condition)?, truth));
        }
        let ExprKind::Op(op, operands) = self.expressions.data[condition].kind.clone() else { return None };
        let (op, sum) = match (op, &operands[..]) {
            // An integer as a condition.
            (Op::Cast, &[integer]) => (Op::Ne, self.expressions.sum(integer)?),
            (op, &[a, b]) => (op, self.expressions.sum(a)?.plus(&self.expressions.sum(b)?, -1)?),
            _ => return None,
        };
        let opposite = negated(op)?;
        let mut found = variables(&sum);
        let first = found.next();
        if found.any(|variable| Some(variable) != first) {
            return None;
        }
        let plan = self.terms(&sum, &path.loops)?;
        Some(ConditionPlan::Comparison(if truth { op } else { opposite }, plan, sum.offset))
    }

    fn sum_plan(&mut self, sum: &AffineSum<LaunchTerm>, path: usize) -> Option<SumPlan> {
        let loops = self.paths[path].path.loops.clone();
        self.terms(sum, &loops)
    }

    fn terms(&mut self, sum: &AffineSum<LaunchTerm>, loops: &[u32]) -> Option<SumPlan> {
        let term = |&(LaunchTerm { variable, uniform }, factor): &_| {
            let variable = match variable {
                None => None,
                Some(variable) => Some(variable_number(loops, variable)?),
            };
            let uniform = match uniform {
                None => None,
                Some(uniform) => Some(self.integer(uniform)?),
            };
            Some(SumTerm { factor, variable, uniform })
        };
        sum.terms.iter().map(term).collect()
    }

    fn integer(&mut self, expr: LaunchExpr) -> Option<UniformInteger> {
        let ty = self.expressions.data[expr].ty;
        Some(UniformInteger { step: self.step(expr)?, ty })
    }

    fn step(&mut self, expr: LaunchExpr) -> Option<u16> {
        if let Some(&known) = self.step_of.get(&expr) {
            return Some(known);
        }
        let data = self.expressions.data[expr].clone();
        let step = match data.kind {
            ExprKind::Const(bits) => UniformStep::Const(bits),
            ExprKind::Word(word) => UniformStep::Word(word),
            ExprKind::Stride(axis) => UniformStep::Stride(axis),
            ExprKind::Coordinate(_) | ExprKind::Counter(_) => return None,
            ExprKind::Op(op, operands) => {
                let types: SmallVec<[Type; 3]> = self.expressions.types(&operands);
                let mut steps = [0; 3];
                for (step, &operand) in steps.iter_mut().zip(&operands) {
                    *step = self.step(operand)?;
                }
                UniformStep::Op(evaluator(op, &types, data.ty.into())?, steps)
            }
        };
        if self.steps.len() >= MAX_STEPS {
            return None;
        }
        self.steps.push(step);
        let number = self.steps.len() as u16 - 1;
        self.step_of.insert(expr, number);
        Some(number)
    }
}

/// The variables in a sum.
fn variables(sum: &AffineSum<LaunchTerm>) -> impl Iterator<Item = BoundVariable> {
    sum.terms.iter().filter_map(|(term, _)| term.variable)
}

/// The number of a variable on a path with these loops.
fn variable_number(loops: &[u32], variable: BoundVariable) -> Option<u8> {
    match variable {
        BoundVariable::Coordinate(axis) => Some(axis),
        BoundVariable::Iteration(number) => {
            let position = loops.iter().position(|&other| other == number)?;
            Some((MAX_DIMS + position) as u8)
        }
    }
}
