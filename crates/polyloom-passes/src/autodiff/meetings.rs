//! Elements that one thread of a launch stores and another one loads, stores or updates: which of the two comes first is
//! chance.
//!
//! Both indices are sums of what a launch is given and of what loops count, so when it is known they are, in an iteration,
//! sums of coordinates. Where in each pair of them no more than one coordinate of each thread occurs, each is an equation
//! in two integers that lie between bounds, and whether two threads solve all of them can be worked out. Of loops the
//! first iterations are looked at, and the last. Of everything else nothing is known.

use super::guards::{DerivativeLaunch, LaunchInteger, PathCondition, Threads};
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::{Function, Value};
use smallvec::SmallVec;

/// Number of iterations, of the loops around an access, whose indices are looked at.
const MAX_ITERATIONS: usize = 8;

/// The indices of a store, and those of another access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AccessPair {
    pairs: Vec<[LaunchInteger; 2]>,
    /// Holds what the loops around each of the two accesses count, as far as indices go by it: from, to, and by what.
    counters: [Vec<(Value, [LaunchInteger; 3])>; 2],
    /// True if it counts only if the two are in different iterations.
    is_apart: bool,
}

/// Describes what loops count in one iteration.
type Iteration = SmallVec<[(Value, i128); 2]>;

/// The coordinate of a thread: whether of the one that comes to the other access, and its axis.
type Coordinate = (bool, usize);

/// Describes what is known of coordinates once equations are solved.
#[derive(Default)]
struct SolvedCoordinates {
    /// Coordinates that are between two numbers.
    ranges: SmallVec<[(Coordinate, Interval); 4]>,
    /// Axes along which the two threads' coordinates are in one equation, and whether they are the same in all of its
    /// solutions.
    linked: SmallVec<[(usize, bool); 4]>,
}

impl AccessPair {
    /// Compares the indices of two accesses of one array, with what holds where they are; nothing if they are not
    /// known, or if no other thread ever comes to the element that a thread comes to.
    pub(super) fn of(func: &Function, accesses: [(&[Value], &PathCondition); 2], rank: u8) -> Option<AccessPair> {
        let [(stored, storing), (other, reaching)] = accesses;
        let mut pairs: Vec<[LaunchInteger; 2]> = Vec::new();
        for (&one, &other) in stored.iter().zip(other) {
            let pair = [LaunchInteger::in_loops(func, one)?, LaunchInteger::in_loops(func, other)?];
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        let mut counters = [Vec::new(), Vec::new()];
        for (side, reach) in [storing, reaching].into_iter().enumerate() {
            for counter in pairs.iter().flat_map(|pair| pair[side].counters()) {
                if counters[side].iter().all(|(known, _)| *known != counter) {
                    counters[side].push((counter, reach.bounds(func, counter)?));
                }
            }
        }
        let made = AccessPair { pairs, counters, is_apart: false };
        let is_own = |axis: u8| made.pairs.iter().any(|[one, other]| one == other && one.axis() == Some(axis));
        (!(0..rank).all(is_own)).then_some(made)
    }

    /// Returns true if indices go by what loops count.
    pub(super) fn has_counters(&self) -> bool {
        self.counters.iter().any(|counters| !counters.is_empty())
    }

    /// Leaves aside what happens in one iteration.
    pub(super) fn in_other_iterations(&mut self) {
        self.is_apart = true;
    }

    /// Returns true if one of the threads that come to the store writes an element that another one, of those that come
    /// to the other access, comes to by that.
    pub(super) fn happens(&self, storing: &Threads, others: &Threads, launch: &DerivativeLaunch<'_>) -> bool {
        let [first, second] = self.counters.each_ref().map(|counters| iterations(counters, launch));
        let mut pairs = first.iter().flat_map(|one| second.iter().map(move |other| [one, other]));
        pairs.any(|iterations| {
            let is_left_aside = self.is_apart && iterations[0] == iterations[1];
            !is_left_aside && self.happens_in(iterations, [storing, others], launch)
        })
    }

    fn happens_in(&self, iterations: [&Iteration; 2], threads: [&Threads; 2], launch: &DerivativeLaunch<'_>) -> bool {
        let [storing, others] = threads;
        self.solved(iterations, threads, launch).is_some_and(|solved| {
            (0..storing.len()).any(|axis| {
                if let Some(&(_, is_same)) = solved.linked.iter().find(|(linked, _)| *linked == axis) {
                    return !is_same;
                }
                let range = |of: bool, threads: &Threads| {
                    let found = solved.ranges.iter().find(|(at, _)| *at == (of, axis));
                    found.map_or(threads[axis], |&(_, range)| range)
                };
                let [one, other] = [range(false, storing), range(true, others)];
                one != other || one.single().is_none()
            })
        })
    }

    /// Nothing if no two threads, or a thread by itself, come to one element, or if that is not known.
    fn solved(
        &self,
        iterations: [&Iteration; 2],
        threads: [&Threads; 2],
        launch: &DerivativeLaunch<'_>,
    ) -> Option<SolvedCoordinates> {
        if threads.iter().any(|threads| threads.iter().any(|range| range.low > range.high)) {
            return None;
        }
        let mut solved = SolvedCoordinates::default();
        for sums in &self.pairs {
            let side = |side: usize| {
                let in_launch = sums[side].in_iteration(launch, iterations[side])?;
                PairSide::of(in_launch, side == 1, threads[side])
            };
            let (one, other) = (side(0)?, side(1)?);
            let known = |at: Coordinate| {
                let is_linked = solved.linked.iter().any(|&(axis, _)| axis == at.1);
                is_linked || solved.ranges.iter().any(|(of, _)| *of == at)
            };
            // Equations that have coordinates in common are not solved.
            if [&one, &other].iter().any(|side| side.at.is_some_and(known)) {
                return None;
            }
            let ends = one.meets(&other)?;
            let same = ends.iter().all(|[a, b]| a == b);
            match (one.at, other.at) {
                (Some((_, a)), Some((_, b))) if a == b => solved.linked.push((a, same)),
                _ => {
                    for (side, index) in [(&one, 0), (&other, 1)] {
                        let [a, b] = ends.map(|end| end[index]);
                        solved.ranges.extend(side.at.map(|at| (at, Interval::new(a.min(b), a.max(b)))));
                    }
                }
            }
        }
        Some(solved)
    }
}

/// Returns what loops count in iterations of them, in a launch; in none, if how far they count is not known.
fn iterations(counters: &[(Value, [LaunchInteger; 3])], launch: &DerivativeLaunch<'_>) -> Vec<Iteration> {
    let mut found = vec![Iteration::new()];
    for (counter, bounds) in counters {
        let [Some(start), Some(end), Some(step)] = bounds.each_ref().map(|bound| bound.number(launch)) else {
            return Vec::new();
        };
        let n = match step.signum() {
            0 => 0,
            sign => ((end - start) * sign + step.abs() - 1).max(0) / step.abs(),
        };
        let most = i128::try_from(MAX_ITERATIONS).unwrap_or(1) - 1;
        let numbers: SmallVec<[i128; 8]> = (0..n.min(most)).chain((n > most).then_some(n - 1)).collect();
        let with = |iteration: &Iteration| {
            let more = numbers.iter().map(|number| (*counter, start + number * step));
            more.map(|more| iteration.iter().copied().chain([more]).collect()).collect::<Vec<Iteration>>()
        };
        found = found.iter().flat_map(with).take(MAX_ITERATIONS).collect();
    }
    found
}

/// One index in a launch: a constant, and a multiple of one coordinate between two numbers.
struct PairSide {
    constant: i128,
    factor: i128,
    at: Option<Coordinate>,
    range: Interval,
}

impl PairSide {
    /// Nothing if it is not known, has several coordinates, or counts from the end of its axis in all threads.
    fn of((constant, factors): (i128, SmallVec<[i128; 3]>), is_other: bool, threads: &Threads) -> Option<PairSide> {
        let mut moving = factors.iter().enumerate().filter(|(_, factor)| **factor != 0);
        let Some((axis, &factor)) = moving.next() else {
            return (constant >= 0).then_some(PairSide { constant, factor: 0, at: None, range: Interval::one(0) });
        };
        if moving.next().is_some() {
            return None;
        }
        let mut range = *threads.get(axis)?;
        // The index is not negative here.
        if factor > 0 {
            range.low = range.low.max(-constant.div_euclid(factor));
        } else {
            range.high = range.high.min(constant.div_euclid(-factor));
        }
        (range.low <= range.high).then_some(PairSide { constant, factor, at: Some((is_other, axis)), range })
    }

    /// The two solutions at the ends, of those with which this index of one thread is that of another.
    fn meets(&self, other: &PairSide) -> Option<[[i128; 2]; 2]> {
        // a * x - b * y = c
        let (a, b, c) = (self.factor, other.factor, other.constant - self.constant);
        match (a, b) {
            (0, 0) => (c == 0).then_some([[0, 0]; 2]),
            (a, 0) => {
                let x = (c % a == 0).then_some(c / a).filter(|x| (self.range.low..=self.range.high).contains(x))?;
                Some([[x, 0]; 2])
            }
            (0, b) => {
                let y = (c % b == 0).then_some(-c / b).filter(|y| (other.range.low..=other.range.high).contains(y))?;
                Some([[0, y]; 2])
            }
            (a, b) => {
                let (divisor, x, y) = bezout(a, -b);
                if c % divisor != 0 {
                    return None;
                }
                let (x, y) = (x.checked_mul(c / divisor)?, y.checked_mul(c / divisor)?);
                // All solutions: (x + k * by_x, y + k * by_y).
                let (by_x, by_y) = (b / divisor, a / divisor);
                let both = multiples(self.range, x, by_x).intersection(multiples(other.range, y, by_y))?;
                let solution = |k: i128| [x + k * by_x, y + k * by_y];
                Some([solution(both.low), solution(both.high)])
            }
        }
    }
}

/// The `k` with which `start + k * step` is in a range: from one to another.
fn multiples(range: Interval, start: i128, step: i128) -> Interval {
    let from_start = range.minus(Interval::one(start));
    let Interval { low, high } = if step > 0 { from_start } else { from_start.negated() };
    let step = step.abs();
    Interval::new(-(-low).div_euclid(step), high.div_euclid(step))
}

/// The greatest common divisor of two numbers that are not zero, up to its sign, and the multiples that add up to it.
fn bezout(a: i128, b: i128) -> (i128, i128, i128) {
    let (mut r, mut s, mut t) = ([a, b], [1, 0], [0, 1]);
    while r[1] != 0 {
        let quotient = r[0] / r[1];
        for pair in [&mut r, &mut s, &mut t] {
            *pair = [pair[1], pair[0] - quotient * pair[1]];
        }
    }
    (r[0], s[0], t[0])
}
