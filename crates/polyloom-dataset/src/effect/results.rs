//! What is known of the results of operations by what is known of their operands.

use super::known::{NumberId, NumberTable, ValueFacts, stored};
use super::terms::made_of;
use crate::catalogue::{self, LaneExchange, OpTrait, WholeOperands};
use crate::number_range::{NumberRange, elem, n_components, within_type};
use crate::whole_number::WholeNumber;
use polyloom::{Op, Scalar, Type, WARP_SIZE};
use smallvec::SmallVec;

/// Returns what is known of what an operation on operands of these types gives that reads no memory.
pub(super) fn facts(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type, types: &[Type]) -> ValueFacts {
    let ranges: SmallVec<[NumberRange; 4]> = operands.iter().map(|&id| table.range(id)).collect();
    let parts = || made_of(table, operands[0], n_components(types));
    let range = match op {
        Op::Length | Op::LengthSq if let Some(parts) = parts() => {
            let squares = parts.iter().map(|&part| table.range(part).squared());
            let sum = squares.fold(NumberRange::of(0.0), |sum, square| sum + square);
            if op == Op::Length { sum.rising(f64::sqrt) } else { sum }
        }
        _ => {
            let is_same = matches!(*operands, [a, b] if a == b);
            catalogue::result(op, &ranges, ty, types, is_same)
        }
    };
    let stated = catalogue::facts(op);
    let whole = whole(table, op, operands, ty).map(|whole| match stated.is(OpTrait::Wraps) {
        true => stored(whole, range, ty),
        false => whole,
    });
    let range = match whole.and_then(WholeNumber::as_number) {
        Some(number) => NumberRange::of(number),
        None => within_type(range, ty),
    };
    let is_uniform = !stated.is(OpTrait::OfThread) && operands.iter().all(|&id| table.get(id).facts.is_uniform);
    ValueFacts { range, whole, is_uniform }
}

/// Returns what lanes of a warp get of each other's values, of which the first operand is their own.
pub(super) fn exchanged(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type) -> ValueFacts {
    let facts = ValueFacts::of_type(ty);
    let Some(exchange) = catalogue::facts(op).exchange else { return facts };
    let of = |index: usize| table.get(operands[index]).facts;
    match exchange {
        LaneExchange::One => ValueFacts { range: of(0).range, is_uniform: true, ..facts },
        LaneExchange::Sum if elem(ty).is_some_and(Scalar::is_float) => {
            let NumberRange { low, high } = of(0).range;
            let n_lanes = f64::from(WARP_SIZE);
            let range = NumberRange::new(low.min(n_lanes * low), high.max(n_lanes * high));
            ValueFacts { range, is_uniform: true, ..facts }
        }
        LaneExchange::Told => ValueFacts { is_uniform: of(1).is_uniform, ..of(0) },
        LaneExchange::Neighbour => ValueFacts { is_uniform: false, ..of(0) },
        LaneExchange::Sum | LaneExchange::Agreed => ValueFacts { is_uniform: true, ..facts },
        LaneExchange::Own => ValueFacts { is_uniform: false, ..facts },
    }
}

/// Returns what a whole number is a multiple of.
fn whole(table: &NumberTable, op: Op, operands: &[NumberId], ty: Type) -> Option<WholeNumber> {
    let wholes: SmallVec<[Option<WholeNumber>; 4]> = operands.iter().map(|&id| table.get(id).facts.whole).collect();
    let number = |&id: &NumberId| table.as_number(id).filter(|x| x.trunc() == *x).map(|x| x as i64);
    let numbers: SmallVec<[Option<i64>; 4]> = operands.iter().map(number).collect();
    let found = catalogue::whole(op, &WholeOperands { operands: &wholes, numbers: &numbers, ty });
    if elem(ty).is_some_and(Scalar::is_int) { found.or(Some(WholeNumber::ANY)) } else { found }
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
