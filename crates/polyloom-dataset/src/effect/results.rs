//! What is known of the results of operations by what is known of their operands.

use super::known::{NumberId, NumberTable, ValueFacts, stored};
use super::terms::made_of;
use super::whole::WholeNumber;
use crate::generate::{NumberRange, elem, n_components, result, within_type};
use polyloom::{Op, Scalar, Type, op::OpGroup};
use smallvec::SmallVec;
use std::f64::consts::E;

/// Returns what is known of what an operation on operands of these types gives that reads no memory.
pub(super) fn facts(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type, types: &[Type]) -> ValueFacts {
    let ranges: SmallVec<[NumberRange; 4]> = operands.iter().map(|&id| table.range(id)).collect();
    let parts = || made_of(table, operands[0], n_components(types));
    let range = match op {
        Op::Cast if elem(ty) == Some(Scalar::Bool) => is_not_zero(ranges[0]),
        Op::Cast if elem(ty).is_some_and(Scalar::is_int) => ranges[0].rising(f64::trunc),
        Op::Cast => ranges[0],
        Op::LaneId => NumberRange::new(0.0, 31.0),
        op if matches!(op.info().group, OpGroup::Gpu | OpGroup::Index) => NumberRange::new(0.0, i32::MAX.into()),
        Op::Mul | Op::CwMul if operands[0] == operands[1] && (op == Op::CwMul || ty.as_composite().is_none()) => {
            ranges[0].squared()
        }
        Op::Length | Op::LengthSq if let Some(parts) = parts() => {
            let squares = parts.iter().map(|&part| table.range(part).squared());
            let sum = squares.fold(NumberRange::of(0.0), |sum, square| sum + square);
            if op == Op::Length { sum.rising(f64::sqrt) } else { sum }
        }
        Op::Dot if operands[0] == operands[1] => ranges[0].squared() * NumberRange::of(n_components(types) as f64),
        Op::Pow if operands[0] == operands[1] && ranges[0].low > 0.0 => {
            let power = |x: f64| x.powf(x);
            let ends = NumberRange::of(power(ranges[0].low)).or(NumberRange::of(power(ranges[0].high)));
            let dips = ranges[0].low < 1.0 / E && ranges[0].high > 1.0 / E;
            let range = if dips { ends.or(NumberRange::of(power(1.0 / E))) } else { ends };
            range.rising_about(|x| x)
        }
        Op::BitAnd if ranges.iter().any(|range| range.low >= 0.0) => {
            let bound = ranges.iter().filter(|range| range.low >= 0.0).map(|range| range.high);
            NumberRange::new(0.0, bound.fold(f64::INFINITY, f64::min))
        }
        Op::Component => ranges[0],
        Op::Construct => ranges.iter().copied().reduce(NumberRange::or).unwrap_or(NumberRange::ANY),
        _ if ranges.is_empty() => NumberRange::ANY,
        op => result(op, &ranges, ty, types),
    };
    let whole = whole(table, op, operands, ty).map(|whole| match op {
        Op::Mul | Op::Neg | Op::Cast => stored(whole, range, ty),
        _ => whole,
    });
    let range = match whole.and_then(WholeNumber::as_number) {
        Some(number) => NumberRange::of(number),
        None => within_type(range, ty),
    };
    let is_own = matches!(op, Op::Tid | Op::TidLinear | Op::ThreadIdx | Op::LaneId);
    let is_uniform = !is_own && operands.iter().all(|&id| table.get(id).facts.is_uniform);
    ValueFacts { range, whole, is_uniform }
}

/// Returns what lanes of a warp get of each other's values, of which the first operand is their own.
pub(super) fn exchanged(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type) -> ValueFacts {
    let facts = ValueFacts::of_type(ty);
    let of = |index: usize| table.get(operands[index]).facts;
    match op {
        Op::WarpReduceMin | Op::WarpReduceMax => ValueFacts { range: of(0).range, is_uniform: true, ..facts },
        Op::WarpReduceAdd if elem(ty).is_some_and(|elem| elem.is_float()) => {
            let NumberRange { low, high } = of(0).range;
            ValueFacts {
                range: NumberRange::new(low.min(32.0 * low), high.max(32.0 * high)),
                is_uniform: true,
                ..facts
            }
        }
        Op::Shuffle => ValueFacts { is_uniform: of(1).is_uniform, ..of(0) },
        Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => ValueFacts { is_uniform: false, ..of(0) },
        op if is_of_warp(op) => ValueFacts { is_uniform: op != Op::MatchAny, ..facts },
        _ => facts,
    }
}

/// Returns true if lanes of a warp exchange their values by it.
pub(super) fn is_of_warp(op: Op) -> bool {
    use Op::{Ballot, MatchAll, MatchAny, Shuffle, ShuffleDown, ShuffleUp, ShuffleXor, WarpAll, WarpAny};
    use Op::{WarpReduceAdd, WarpReduceAnd, WarpReduceMax, WarpReduceMin, WarpReduceOr, WarpReduceXor};
    matches!(op, Ballot | MatchAll | MatchAny | Shuffle | ShuffleDown | ShuffleUp | ShuffleXor | WarpAll | WarpAny)
        || matches!(op, WarpReduceAdd | WarpReduceAnd | WarpReduceMax | WarpReduceMin | WarpReduceOr | WarpReduceXor)
}

/// Returns what a whole number is a multiple of.
fn whole(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type) -> Option<WholeNumber> {
    let whole = |index: usize| table.get(*operands.get(index)?).facts.whole;
    let number = |index: usize| table.as_number(*operands.get(index)?).filter(|x| x.trunc() == *x).map(|x| x as i64);
    let is_int = elem(ty).is_some_and(|elem| elem.is_int());
    let found = match op {
        // A number as a condition says whether it is not zero.
        Op::Cast if elem(ty) == Some(Scalar::Bool) => return None,
        Op::Cast if !is_int => return whole(0),
        Op::Cast | Op::Component => whole(0),
        Op::Neg => whole(0).zip(WholeNumber::of(-1.0)).map(|(x, minus)| x * minus),
        Op::Mul if ty.as_composite().is_none() => whole(0).zip(whole(1)).map(|(a, b)| a * b),
        Op::Min | Op::Max => whole(0).zip(whole(1)).map(|(a, b)| a.or(b)),
        Op::Select => whole(1).zip(whole(2)).map(|(a, b)| a.or(b)),
        Op::Mod => whole(0).zip(number(1)).and_then(|(x, modulus)| x.remainder(modulus)),
        Op::BitAnd => match (number(0), number(1)) {
            (Some(mask), _) => whole(1).and_then(|x| x.masked(mask)),
            (_, Some(mask)) => whole(0).and_then(|x| x.masked(mask)),
            _ => None,
        }
        .and_then(|rest| WholeNumber::of(rest as f64)),
        Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Round | Op::Sign | Op::Step | Op::Nonzero => {
            Some(WholeNumber::ANY)
        }
        _ => None,
    };
    if is_int { found.or(Some(WholeNumber::ANY)) } else { found }
}

/// Tells whether numbers are not zero, as a number.
fn is_not_zero(range: NumberRange) -> NumberRange {
    NumberRange::new(f64::from(range.low > 0.0 || range.high < 0.0), f64::from(range != NumberRange::of(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom::op::OpSpelling;
    use polyloom::{Bits, Composite, CpuDevice, Random, Session, Tier, TierPolicy, scalar_bits};

    const TYPES: [Type; 5] = [
        Type::F64,
        Type::I32,
        Type::Composite(Composite::Vector { elem: Scalar::F64, len: 3 }),
        Type::Composite(Composite::Matrix { elem: Scalar::F64, rows: 3, cols: 3 }),
        Type::Composite(Composite::Quaternion { elem: Scalar::F64 }),
    ];

    /// An operand of which something is known, and a value it may have.
    struct DrawnOperand {
        facts: ValueFacts,
        value: (Type, Bits),
    }

    fn draw(random: &mut Random, ty: Type) -> DrawnOperand {
        let unit = |random: &mut Random| random.below(1 << 20) as f64 / f64::from(1 << 20);
        if ty == Type::I32 {
            let (step, rest) = (random.pick(&[1, 1, 2, 3, 8, 12]), random.below(5) as i32 - 2);
            let (least, most) =
                random.pick(&[(0, 6), (1, 49), (-9, 9), (-50, -2), (0, 1 << 27), (-(1 << 27), 1 << 27)]);
            let value = step * (least + random.below((most - least + 1) as usize) as i32) + rest;
            let whole = WholeNumber::of(step.into())
                .zip(WholeNumber::of(rest.into()))
                .map(|(step, rest)| WholeNumber::ANY * step + rest);
            let range = NumberRange::new((step * least + rest).into(), (step * most + rest).into());
            let bits = scalar_bits::from_int(Scalar::I32, value.into()).expect("it fits");
            return DrawnOperand {
                facts: ValueFacts { range, whole, is_uniform: false },
                value: (ty, Bits::from_slice(&[bits])),
            };
        }
        let low = random.pick(&[-30.0, -3.0, -1.0, -0.4, 0.0, 0.01, 0.5, 1.0, 4.0]);
        let range = NumberRange::new(low, low + random.pick(&[0.0, 0.2, 1.0, 2.0, 5.0, 60.0]));
        let number = |random: &mut Random| match random.below(6) {
            0 => range.low,
            1 => range.high,
            _ => range.low + unit(random) * (range.high - range.low),
        };
        let n = ty.as_composite().map_or(1, Composite::n_components);
        let bits = (0..n).map(|_| scalar_bits::from_f64(Scalar::F64, number(random))).collect();
        DrawnOperand { facts: ValueFacts { range, whole: None, is_uniform: false }, value: (ty, bits) }
    }

    fn expression(op: Op, n_operands: usize) -> Option<String> {
        let names: Vec<String> = (0..n_operands).map(|index| format!("x{index}")).collect();
        Some(match (op.info().spelling, n_operands) {
            (OpSpelling::Function, _) => format!("polyloom.{}({})", op.name(), names.join(", ")),
            (OpSpelling::Operator(operator), 1) => format!("{operator}x0"),
            (OpSpelling::Operator(operator), 2) => format!("x0 {operator} x1"),
            _ => return None,
        })
    }

    fn overloads() -> Vec<(Op, Vec<Type>, Type)> {
        let one = TYPES.iter().map(|&a| vec![a]);
        let two = TYPES.iter().flat_map(|&a| TYPES.map(|b| vec![a, b]));
        let three = TYPES.iter().flat_map(|&a| TYPES.map(|b| TYPES.map(|c| vec![a, b, c]))).flatten();
        let all: Vec<Vec<Type>> = one.chain(two).chain(three).collect();
        let mut found = Vec::new();
        for info in Op::all().filter(|info| info.is_pure() && info.is_builtin()) {
            let Some(op) = Op::from_name(info.name) else { continue };
            for types in &all {
                let results = info.signatures.iter().find_map(|signature| signature.result_types(types));
                if let Some([ty]) = results.as_deref() {
                    found.push((op, types.clone(), *ty));
                }
            }
        }
        found
    }

    /// An interval leaves out no number that the interpreter gives.
    #[test]
    fn results_are_within_what_is_known() {
        let device: CpuDevice = Session::passing_device().expect("it works here");
        let device = device.with_policy(TierPolicy::Always(Tier::Interpreter)).expect("it works here");
        let session = Session::on(device).expect("it works here");
        let mut random = Random::new(7);
        let (mut n_values, mut wrong) = (0, Vec::new());
        for (op, types, ty) in overloads() {
            let Some(expression) = expression(op, types.len()) else { continue };
            let Some(scalar) = elem(ty) else { continue };
            for _ in 0..200 {
                let mut drawn: SmallVec<[DrawnOperand; 4]> = types.iter().map(|&ty| draw(&mut random, ty)).collect();
                let mut table = NumberTable::default();
                let mut ids: SmallVec<[NumberId; 4]> = drawn.iter().map(|drawn| table.unknown(drawn.facts)).collect();
                if types.len() == 2 && types[0] == types[1] && random.one_in(4) {
                    drawn[1].value = drawn[0].value.clone();
                    ids[1] = ids[0];
                }
                let known = facts(&table, op, &ids, ty, &types);
                let values: Vec<(Type, Bits)> = drawn.iter().map(|drawn| drawn.value.clone()).collect();
                let results = session.call(&expression, &values).expect("it is an overload");
                for &bits in &results[0].1 {
                    let number = scalar_bits::to_f64(scalar, bits);
                    let slack = 1e-9 * number.abs().max(1.0);
                    let is_known = number >= known.range.low - slack && number <= known.range.high + slack;
                    let is_whole = known.whole.is_none_or(|whole| number.abs() > 1e15 || whole.covers(number as i64));
                    n_values += 1;
                    if number.is_finite() && !(is_known && is_whole) {
                        let ranges: Vec<NumberRange> = ids.iter().map(|&id| table.range(id)).collect();
                        let given: Vec<&[u64]> = values.iter().map(|(_, bits)| &bits[..]).collect();
                        wrong.push(format!("{expression} of {types:?} in {ranges:?}: {number}, {known:?} {given:x?}"));
                    }
                }
            }
        }
        wrong.dedup_by_key(|text| text.split(" in ").next().map(str::to_owned));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(n_values > 90_000, "{n_values}");
    }
}
