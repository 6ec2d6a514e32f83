//! The thread for which a launch is refused: the first that the sums show outside, if what the kernel computes in it
//! comes to an index that is outside.

use super::expression::{CountedLoop, ExprKind, LaunchExpr, as_integer};
use super::plan::{VariableRanges, stride};
use super::walk::{AccessPath, KernelAccess};
use super::{LaunchBounds, OutsideThread};
use cranelift_entity::SecondaryMap;
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::{MAX_DIMS, Type, eval};
use smallvec::SmallVec;

/// A value for each variable of a path.
type VariableValues = SmallVec<[i128; 8]>;

/// Describes what a launch is given.
#[derive(Clone, Copy)]
struct WitnessLaunch<'a> {
    dim: &'a [u64; MAX_DIMS],
    words: &'a [u64],
}

impl LaunchBounds {
    #[cold]
    pub(super) fn find_witness(&self, dim: &[u64; MAX_DIMS], words: &[u64]) -> Option<OutsideThread> {
        let launch = WitnessLaunch { dim, words };
        let steps = self.step_values(dim, words)?;
        let mut first: Option<(OutsideThread, u32)> = None;
        for plan in &self.paths {
            let Some(ranges) = plan.ranges(dim, &steps) else { continue };
            for sum in &plan.sums {
                let (factors, constant) = sum.factors(&steps);
                for test in &sum.tests {
                    let Some((first_inside, last_inside)) = test.inside(words) else { continue };
                    let inside = Interval::new(first_inside.into(), last_inside.into());
                    for &(access, axis, offset) in &test.indices {
                        let constant = constant.saturating_add(offset.into());
                        let found = first_outside(&factors, constant, inside, &ranges).and_then(|values| {
                            let of = &self.accesses[access as usize];
                            self.witness(of, axis, inside, &plan.path, &values, launch)
                        });
                        let Some(witness) = found else { continue };
                        let is_earlier =
                            |(other, number): &(OutsideThread, u32)| (witness.thread, access) < (other.thread, *number);
                        if first.as_ref().is_none_or(is_earlier) {
                            first = Some((witness, access));
                        }
                    }
                }
            }
        }
        first.map(|(witness, _)| witness)
    }

    /// The thread with these values of the variables, if it is outside by what the kernel computes in it.
    fn witness(
        &self,
        access: &KernelAccess,
        axis: u8,
        inside: Interval,
        path: &AccessPath,
        assignment: &VariableValues,
        launch: WitnessLaunch<'_>,
    ) -> Option<OutsideThread> {
        let values = self.values_in(path, assignment, launch);
        if !path.conditions.iter().all(|&(condition, truth)| values[condition] == Some(u64::from(truth))) {
            return None;
        }
        let integer = |&index: &Option<LaunchExpr>| Some(as_integer(values[index?]?, self.expressions[index?].ty));
        let indices: SmallVec<[Option<i128>; 4]> = access.indices.iter().map(integer).collect();
        let index = indices[usize::from(axis)].filter(|index| !(inside.low..=inside.high).contains(index))?;
        let mut thread = [0; MAX_DIMS];
        for (to, &coordinate) in thread.iter_mut().zip(assignment) {
            *to = u64::try_from(coordinate).ok()?;
        }
        let extent = (inside.high + 1) as u64;
        Some(OutsideThread { param: access.param?, axis, index, extent, indices, thread, span: access.span })
    }

    /// Returns what the expressions are in a thread, and in one iteration of each loop of a path.
    fn values_in(
        &self,
        path: &AccessPath,
        assignment: &VariableValues,
        WitnessLaunch { dim, words }: WitnessLaunch<'_>,
    ) -> SecondaryMap<LaunchExpr, Option<u64>> {
        let mut values: SecondaryMap<LaunchExpr, Option<u64>> = SecondaryMap::with_capacity(self.expressions.len());
        for (expr, data) in &self.expressions {
            let bits = |integer: i128| (integer as u64) & (u64::MAX >> (64 - data.ty.bits()));
            values[expr] = match &data.kind {
                &ExprKind::Const(bits) => Some(bits),
                &ExprKind::Word(word) => words.get(word as usize).copied(),
                &ExprKind::Stride(axis) => Some(stride(dim, axis)),
                &ExprKind::Coordinate(axis) => assignment.get(usize::from(axis)).map(|&coordinate| bits(coordinate)),
                &ExprKind::Counter(number) => path.loops.iter().position(|&other| other == number).and_then(|place| {
                    let CountedLoop { start, step, .. } = self.loops[number as usize];
                    let start = as_integer(values[start]?, self.expressions[start].ty);
                    Some(bits(start + i128::from(step) * assignment.get(MAX_DIMS + place)?))
                }),
                ExprKind::Op(op, operands) => {
                    let types: SmallVec<[Type; 3]> =
                        operands.iter().map(|&operand| self.expressions[operand].ty.into()).collect();
                    let operands: Option<SmallVec<[u64; 3]>> =
                        operands.iter().map(|&operand| values[operand]).collect();
                    operands.and_then(|operands| eval::eval(*op, &types, &operands, data.ty.into()))
                }
            };
        }
        values
    }
}

/// The first values of the variables, in lexicographic order, for which the sum of their multiples and a constant lies
/// outside a range.
fn first_outside(
    factors: &[i128],
    constant: i128,
    Interval { low: first, high: last }: Interval,
    ranges: &VariableRanges,
) -> Option<VariableValues> {
    let opposite: SmallVec<[i128; 8]> = factors.iter().map(|factor| -factor).collect();
    let above = first_of_at_least(factors, constant.checked_sub(last)?.checked_sub(1)?, ranges);
    let below = first_of_at_least(&opposite, first.checked_sub(constant)?.checked_sub(1)?, ranges);
    match (above, below) {
        (Some(above), Some(below)) => Some(above.min(below)),
        (one, other) => one.or(other),
    }
}

/// The first values for which the sum of multiples and a constant is not negative.
fn first_of_at_least(factors: &[i128], constant: i128, ranges: &VariableRanges) -> Option<VariableValues> {
    // The most that the sum can come to with the variables from each on.
    let mut most = SmallVec::<[i128; 9]>::from_elem(constant, factors.len() + 1);
    for variable in (0..factors.len()).rev() {
        let (low, high) = ranges[variable];
        let (at_low, at_high) =
            (factors[variable].checked_mul(low.into())?, factors[variable].checked_mul(high.into())?);
        most[variable] = most[variable + 1].checked_add(at_low.max(at_high))?;
    }
    if most[0] < 0 {
        return None;
    }
    let (mut values, mut before) = (VariableValues::new(), 0i128);
    for (variable, &factor) in factors.iter().enumerate() {
        let low = i128::from(ranges[variable].0);
        let without = before.checked_add(most[variable + 1])?;
        // The least value with which those that follow can still make up the rest.
        let value = if factor > 0 { low.max(-without.div_euclid(factor)) } else { low };
        values.push(value);
        before = before.checked_add(factor.checked_mul(value)?)?;
    }
    Some(values)
}
