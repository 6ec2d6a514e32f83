//! What is known of the results of operations by what is known of their operands.

use super::known::{Facts, Id, Table, elem, range_of_type};
use super::whole::Whole;
use crate::generate::{Need, Range, need, result};
use polyloom::{Op, Type, op::Group};
use smallvec::SmallVec;
use std::f64::consts::{E, PI};

/// What is known of what an operation gives that reads no memory; `n` is how many components its first operand has.
pub(super) fn facts(table: &Table, op: Op, operands: &[Id], ty: Type, n: usize) -> Facts {
    let ranges: SmallVec<[Range; 4]> = operands.iter().map(|&id| table.range(id)).collect();
    let range = match op {
        Op::Cast => cast(ranges[0], ty),
        Op::LaneId => Range::new(0.0, 31.0),
        op if matches!(op.info().group, Group::Gpu | Group::Index) => Range::new(0.0, i32::MAX.into()),
        Op::Mul | Op::CwMul if operands[0] == operands[1] && (op == Op::CwMul || ty.as_composite().is_none()) => {
            ranges[0].squared()
        }
        Op::Dot if operands[0] == operands[1] => ranges[0].squared() * Range::of(n as f64),
        Op::Pow if operands[0] == operands[1] && ranges[0].low > 0.0 => {
            let power = |x: f64| x.powf(x);
            let ends = Range::of(power(ranges[0].low)).or(Range::of(power(ranges[0].high)));
            let dips = ranges[0].low < 1.0 / E && ranges[0].high > 1.0 / E;
            let range = if dips { ends.or(Range::of(power(1.0 / E))) } else { ends };
            range.rising_about(|x| x)
        }
        Op::BitAnd if ranges.iter().any(|range| range.low >= 0.0) => {
            let bound = ranges.iter().filter(|range| range.low >= 0.0).map(|range| range.high);
            Range::new(0.0, bound.fold(f64::INFINITY, f64::min))
        }
        Op::Component => ranges[0],
        Op::Construct => ranges.iter().copied().reduce(Range::or).unwrap_or(Range::ANY),
        _ if ranges.is_empty() => Range::ANY,
        op => range_of(op, &ranges, ty, n),
    };
    let whole = whole(table, op, operands, ty);
    let range = match whole.and_then(Whole::as_number) {
        Some(number) => Range::of(number),
        None => within_type(range, ty),
    };
    let is_own = matches!(op, Op::Tid | Op::TidLinear | Op::ThreadIdx | Op::LaneId);
    let is_uniform = !is_own && operands.iter().all(|&id| table.get(id).facts.is_uniform);
    Facts { range, whole, is_uniform }
}

/// What lanes of a warp get of each other's values, of which the first operand is their own.
pub(super) fn exchanged(table: &Table, op: Op, operands: &[Id], ty: Type) -> Facts {
    let facts = Facts::of_type(ty);
    let of = |index: usize| table.get(operands[index]).facts;
    match op {
        Op::WarpReduceMin | Op::WarpReduceMax => Facts { range: of(0).range, is_uniform: true, ..facts },
        Op::WarpReduceAdd if elem(ty).is_some_and(|elem| elem.is_float()) => {
            let Range { low, high } = of(0).range;
            Facts { range: Range::new(low.min(32.0 * low), high.max(32.0 * high)), is_uniform: true, ..facts }
        }
        Op::Shuffle => Facts { is_uniform: of(1).is_uniform, ..of(0) },
        Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => Facts { is_uniform: false, ..of(0) },
        op if is_of_warp(op) => Facts { is_uniform: op != Op::MatchAny, ..facts },
        _ => facts,
    }
}

/// Whether lanes of a warp exchange their values by it.
pub(super) fn is_of_warp(op: Op) -> bool {
    use Op::{Ballot, MatchAll, MatchAny, Shuffle, ShuffleDown, ShuffleUp, ShuffleXor, WarpAll, WarpAny};
    use Op::{WarpReduceAdd, WarpReduceAnd, WarpReduceMax, WarpReduceMin, WarpReduceOr, WarpReduceXor};
    matches!(op, Ballot | MatchAll | MatchAny | Shuffle | ShuffleDown | ShuffleUp | ShuffleXor | WarpAll | WarpAny)
        || matches!(op, WarpReduceAdd | WarpReduceAnd | WarpReduceMax | WarpReduceMin | WarpReduceOr | WarpReduceXor)
}

/// What a whole number is a multiple of.
fn whole(table: &Table, op: Op, operands: &[Id], ty: Type) -> Option<Whole> {
    let whole = |index: usize| table.get(*operands.get(index)?).facts.whole;
    let number = |index: usize| table.as_number(*operands.get(index)?).filter(|x| x.trunc() == *x).map(|x| x as i64);
    let is_int = elem(ty).is_some_and(|elem| elem.is_int());
    let found = match op {
        Op::Cast if !is_int => return whole(0),
        Op::Cast | Op::Neg | Op::Component => whole(0),
        Op::Mul if ty.as_composite().is_none() => whole(0).zip(whole(1)).map(|(a, b)| a * b),
        Op::Min | Op::Max => whole(0).zip(whole(1)).map(|(a, b)| a.or(b)),
        Op::Select => whole(1).zip(whole(2)).map(|(a, b)| a.or(b)),
        Op::Mod => whole(0).zip(number(1)).and_then(|(x, modulus)| x.remainder(modulus)),
        Op::BitAnd => match (number(0), number(1)) {
            (Some(mask), _) => whole(1).and_then(|x| x.masked(mask)),
            (_, Some(mask)) => whole(0).and_then(|x| x.masked(mask)),
            _ => None,
        }
        .and_then(|rest| Whole::of(rest as f64)),
        Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Round | Op::Sign | Op::Step | Op::Nonzero => Some(Whole::ANY),
        _ => None,
    };
    if is_int { found.or(Some(Whole::ANY)) } else { found }
}

/// The range, unless numbers of the type wrap around in it.
pub(super) fn within_type(range: Range, ty: Type) -> Range {
    let of_type = range_of_type(ty);
    let Some(elem) = elem(ty).filter(|elem| elem.is_int()) else { return range };
    let bits = f64::from(elem.bits());
    let all = match of_type == Range::ANY {
        true => Range::within((bits - 1.0).exp2()),
        false => Range::new(0.0, bits.exp2() - 1.0),
    };
    if range.lies_in(all) { range } else { of_type }
}

/// A number of another type, in which it may not fit.
fn cast(range: Range, ty: Type) -> Range {
    if ty.is_float() { range } else { within_type(range.rising(f64::trunc), ty) }
}

/// The numbers an operation gives for operands of these ranges, which are within where it is defined; `n` is how many
/// components the first has.
fn range_of(op: Op, operands: &[Range], ty: Type, n: usize) -> Range {
    let within: SmallVec<[Range; 4]> =
        operands.iter().enumerate().map(|(index, &range)| inside(need(op, index), range)).collect();
    let first = within[0];
    let second = || within.get(1).copied().unwrap_or(first);
    let sized = |factor: f64| Range::new(first.abs().low * factor, first.size() * factor);
    let count = n as f64;
    let range = match op {
        Op::Exp | Op::Exp2 if first == Range::ANY => Range::new(0.0, f64::INFINITY),
        Op::Tan => Range::ANY,
        Op::Rsqrt if first.low > 0.0 => Range::new(first.high.sqrt().recip(), first.low.sqrt().recip()),
        Op::Rsqrt => Range::new(0.0, f64::INFINITY),
        Op::Cos if first.size() <= PI => (-first.abs()).rising_about(f64::cos).and(Range::within(1.0)),
        Op::Sign => Range::new(if first.low >= 0.0 { 1.0 } else { -1.0 }, if first.high < 0.0 { -1.0 } else { 1.0 }),
        // It is 1 below zero.
        Op::Step => Range::new(f64::from(first.high < 0.0), f64::from(first.low < 0.0)),
        Op::Nonzero => Range::new(f64::from(first.low > 0.0 || first.high < 0.0), 1.0),
        Op::Trunc => first.rising(f64::trunc),
        Op::Rint => first.rising(f64::round_ties_even),
        Op::Round => first.rising(f64::round),
        Op::Pow if operands[0].low > 0.0 && first.size().is_finite() && second().size().is_finite() => {
            let of = |base: f64| Range::of(base.powf(second().low)).or(Range::of(base.powf(second().high)));
            of(first.low).or(of(first.high)).rising_about(|x| x)
        }
        Op::Pow if operands[0].low < 0.0 => Range::ANY,
        Op::Pow => Range::new(0.0, f64::INFINITY),
        Op::Mod if first.low >= 0.0 && second().low > 0.0 && elem(ty).is_some_and(|elem| elem.is_int()) => {
            Range::new(0.0, first.high.min(second().high - 1.0))
        }
        Op::Div if elem(ty).is_some_and(|elem| elem.is_int()) => (first / second()).rising(f64::trunc),
        Op::Smoothstep if operands[0].low == operands[0].high && operands[0].high < operands[1].low => {
            let (from, to) = (operands[0].low, operands[1].low);
            let at = |x: f64| ((x - from) / (to - from)).clamp(0.0, 1.0);
            let step = operands[2].rising(|x| at(x) * at(x) * (3.0 - 2.0 * at(x)));
            if operands[1].low == operands[1].high { step } else { Range::new(0.0, step.high) }
        }
        Op::Lerp if !within[2].lies_in(Range::new(0.0, 1.0)) => first + (second() - first) * within[2],
        Op::Length => sized(count.sqrt()),
        Op::LengthSq => first.squared() * Range::of(count),
        Op::NormL1 => sized(count),
        Op::Dot | Op::Ddot => first * second() * Range::of(count),
        Op::Hypot => Range::new(first.abs().low.max(second().abs().low), first.size() + second().size()),
        Op::Rshift if first.low >= 0.0 && second().low >= 0.0 => {
            let shifted = |x: f64, by: f64| (x / by.exp2()).floor();
            Range::new(shifted(first.low, second().high), shifted(first.high, second().low))
        }
        _ => result(op, &within, n),
    };
    if range.low.is_nan() || range.high.is_nan() { Range::ANY } else { range }
}

/// The part of a range where a function is defined.
fn inside(need: Need, range: Range) -> Range {
    let (low, high) = match need {
        Need::Positive | Need::NotNegative => (0.0, f64::INFINITY),
        Need::AtLeastOne => (1.0, f64::INFINITY),
        Need::Unit | Need::InsideUnit => (-1.0, 1.0),
        Need::InsideTwo => (0.0, 2.0),
        _ => return range,
    };
    range.and(Range::new(low, high))
}
