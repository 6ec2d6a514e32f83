//! The part of the analysis that every launch pays for: numbers that are the same for all threads, ranges of the
//! variables on each path, and between which numbers the indices lie there.
//!
//! Accesses on one path whose indices differ by constants are tested together, and a sum that several arrays are indexed
//! by is computed once.

use super::expression::{ExprKind, Expressions, LaunchExpr, LaunchSum, Variable, as_integer};
use super::walk::{AccessPath, KernelAccess};
use super::{LaunchBounds, Reason};
use polyloom_ir::eval::{Evaluator, evaluator};
use polyloom_ir::range::{Range, narrow, negated};
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
    Op(Evaluator, [u16; 3]),
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

/// What leaves threads out.
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
/// Where the variables of a path lie.
pub(super) type VariableRanges = SmallVec<[Range; 8]>;

impl UniformInteger {
    #[inline]
    fn value(self, steps: &StepValues) -> i128 {
        as_integer(steps[usize::from(self.step)], self.ty)
    }
}

impl SumTerm {
    #[inline]
    fn amount(&self, steps: &StepValues) -> i128 {
        let uniform = self.uniform.map_or(1, |uniform| uniform.value(steps));
        i128::from(self.factor).saturating_mul(uniform)
    }
}

/// Between which numbers a sum lies.
#[inline]
fn sum_range(sum: &SumPlan, steps: &StepValues, ranges: &VariableRanges) -> Range {
    let (mut low, mut high) = (0i128, 0i128);
    for term in sum {
        let amount = term.amount(steps);
        let Some(variable) = term.variable else {
            (low, high) = (low.saturating_add(amount), high.saturating_add(amount));
            continue;
        };
        let (first, last) = ranges[usize::from(variable)];
        let (at_first, at_last) = (amount.saturating_mul(first), amount.saturating_mul(last));
        low = low.saturating_add(at_first.min(at_last));
        high = high.saturating_add(at_first.max(at_last));
    }
    (low, high)
}

/// The multiple of each variable in a sum, and what is added to these.
pub(super) fn factors(sum: &TestedSum, steps: &StepValues, n_variables: usize) -> (SmallVec<[i128; 8]>, i128) {
    let (mut factors, mut constant) = (SmallVec::from_elem(0i128, n_variables), 0i128);
    for term in &sum.sum {
        let amount = term.amount(steps);
        let to = term.variable.map_or(&mut constant, |variable| &mut factors[usize::from(variable)]);
        *to = to.saturating_add(amount);
    }
    (factors, constant)
}

impl ExtentTest {
    /// The indices that are within an extent.
    #[inline]
    pub(super) fn inside(&self, words: &[u64]) -> Option<Range> {
        let extent = i128::from(*words.get(self.word as usize)?);
        Some((if self.is_unsigned { 0 } else { -extent }, extent - 1))
    }
}

impl PathPlan {
    /// Where the variables of threads on this path lie; nothing if there are no such threads.
    #[inline]
    pub(super) fn ranges(&self, dim: &[u64; MAX_DIMS], steps: &StepValues) -> Option<VariableRanges> {
        let mut ranges: VariableRanges = dim.iter().map(|&extent| (0, i128::from(extent) - 1)).collect();
        for LoopPlan { start, end, step } in &self.loops {
            let (distance, step) = (end.value(steps) - start.value(steps), i128::from(*step));
            let n_iterations = match step {
                1 => distance,
                _ if step > 0 => (distance + step - 1).div_euclid(step),
                _ => (-distance - step - 1).div_euclid(-step),
            };
            ranges.push((0, n_iterations - 1));
        }
        for condition in &self.conditions {
            match condition {
                &ConditionPlan::Uniform(step, truth) => {
                    if (steps[usize::from(step)] != 0) != truth {
                        return None;
                    }
                }
                ConditionPlan::Comparison(op, sum, offset) => {
                    let (mut factor, mut constant) = (0, i128::from(*offset));
                    let mut narrowed = 0;
                    for term in sum {
                        let to = match term.variable {
                            None => &mut constant,
                            Some(variable) => {
                                narrowed = usize::from(variable);
                                &mut factor
                            }
                        };
                        *to = to.saturating_add(term.amount(steps));
                    }
                    narrow(&mut ranges[narrowed], *op, factor, constant);
                }
            }
        }
        ranges.iter().all(|(first, last)| first <= last).then_some(ranges)
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
                UniformStep::Op(Evaluator::Unary(f), [a, ..]) => f(value(a)),
                UniformStep::Op(Evaluator::Binary(f), [a, b, _]) => f(value(a), value(b)),
                UniformStep::Op(Evaluator::Ternary(f), [a, b, c]) => f(value(a), value(b), value(c)),
            };
            values.push(value);
        }
        Some(values)
    }

    /// True if the sums say that every index is within its extent.
    #[inline]
    pub(super) fn is_inside(&self, dim: &[u64; MAX_DIMS], words: &[u64]) -> bool {
        let Some(steps) = self.step_values(dim, words) else { return true };
        self.paths.iter().all(|path| {
            let Some(ranges) = path.ranges(dim, &steps) else { return true };
            path.sums.iter().all(|TestedSum { sum, tests }| {
                let (low, high) = sum_range(sum, &steps, &ranges);
                tests.iter().all(|test| {
                    let Some((first, last)) = test.inside(words) else { return true };
                    low.saturating_add(test.least.into()) >= first && high.saturating_add(test.most.into()) <= last
                })
            })
        })
    }
}

/// How many threads there are for each coordinate along an axis, as the bits of an `i32`.
pub(super) fn stride(dim: &[u64; MAX_DIMS], axis: u8) -> u64 {
    let after = dim.iter().skip(usize::from(axis) + 1);
    after.fold(1u64, |n, &extent| n.wrapping_mul(extent)) & u64::from(u32::MAX)
}

/// Makes the plan.
pub(super) struct Planner {
    pub(super) expressions: Expressions,
    pub(super) steps: Vec<UniformStep>,
    step_of: FxHashMap<LaunchExpr, u16>,
    pub(super) paths: Vec<PathPlan>,
    numbers: FxHashMap<AccessPath, Option<usize>>,
    n_tests: usize,
}

impl Planner {
    pub(super) fn new(expressions: Expressions) -> Planner {
        let (steps, step_of, paths, numbers) = Default::default();
        Planner { expressions, steps, step_of, paths, numbers, n_tests: 0 }
    }

    /// Has launches test an index of an access.
    pub(super) fn add(&mut self, number: u32, access: &KernelAccess, axis: u8) -> Result<(), Reason> {
        let word = *access.extents.get(usize::from(axis)).ok_or(Reason::Shared)?;
        if access.n_elements > 1 {
            return Err(Reason::Several);
        }
        let ways = access.paths.as_ref().map_err(|reason| *reason)?;
        let index = access.indices[usize::from(axis)].ok_or(Reason::Index)?;
        let mut sum = self.expressions.sum(index).ok_or(Reason::Index)?;
        let is_unsigned = self.expressions.data[index].ty.is_unsigned_int();
        let offset = std::mem::take(&mut sum.offset);
        // All ways or none: else the index would count as verified by halves.
        let paths: Option<Vec<usize>> = ways.iter().map(|way| self.path(way)).collect();
        let paths = paths.ok_or(Reason::Condition)?;
        for path in paths {
            let loops = &self.paths[path].path.loops;
            let is_here = |variable: Variable| variable_number(loops, variable).is_some();
            if !sum.variables().all(is_here) {
                return Err(Reason::Index);
            }
            let plan = self.sum_plan(&sum, path).ok_or(Reason::TooLarge)?;
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
                None if self.n_tests >= MAX_TESTS => return Err(Reason::TooLarge),
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
        let mut variables = sum.variables();
        let first = variables.next();
        if variables.any(|variable| Some(variable) != first) {
            return None;
        }
        drop(variables);
        let plan = self.terms(&sum, &path.loops)?;
        Some(ConditionPlan::Comparison(if truth { op } else { opposite }, plan, sum.offset))
    }

    fn sum_plan(&mut self, sum: &LaunchSum, path: usize) -> Option<SumPlan> {
        let loops = self.paths[path].path.loops.clone();
        self.terms(sum, &loops)
    }

    fn terms(&mut self, sum: &LaunchSum, loops: &[u32]) -> Option<SumPlan> {
        let term = |&((variable, uniform), factor): &_| {
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

/// The number of a variable on a path with these loops.
fn variable_number(loops: &[u32], variable: Variable) -> Option<u8> {
    match variable {
        Variable::Coordinate(axis) => Some(axis),
        Variable::Iteration(number) => {
            let position = loops.iter().position(|&other| other == number)?;
            Some((MAX_DIMS + position) as u8)
        }
    }
}
