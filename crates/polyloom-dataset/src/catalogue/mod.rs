//! The facts that data sets know of each op beyond its entry in the op table: words for it, its domain and the range of
//! its results, and when it says nothing. An op has one row; the generator and the proof that operations have an effect ask it,
//! and state no facts about ops themselves.
//!
//! Architecture invariant: nothing here knows expressions of the generator or values of the proof. A row names a rule
//! ([`OpKind`], [`Redundancy`]), and where that is applied it is written.
//!
//! The range analyses of the compiler know integers alone, and no intervals of floats. That is why rules for ranges are
//! here, and checked against the interpreter (`effect/results.rs`).

mod arithmetic;
mod facts;
mod math;
mod need;
mod random;
mod ranges;
mod threads;
mod vectors;
mod wholes;
mod words;

pub(crate) use facts::{
    DrawFrequency, LaneExchange, OpFacts, OpKind, OpTrait, Redundancy, WarpSupport, WatchedOutcome,
};
pub(crate) use need::OperandNeed;
pub(crate) use wholes::WholeOperands;
pub(crate) use words::OpWords;

use crate::number_range::NumberRange;
use crate::whole_number::WholeNumber;
use polyloom::op::{OpSpelling, Signature};
use polyloom::{Op, Type};
use ranges::OperandRanges;
use std::sync::LazyLock;

/// The rows, by what they are about.
static ROWS: [&[OpFacts]; 11] = [
    arithmetic::ARITHMETIC,
    arithmetic::COMPARISONS,
    arithmetic::BITS,
    arithmetic::MOVES,
    math::NUMBERS,
    math::FUNCTIONS,
    vectors::VECTORS,
    vectors::MOTIONS,
    threads::COORDINATES,
    threads::EXCHANGES,
    random::DRAWS,
];

/// Stands for ops that have no row, because nothing is stated of them: control flow, memory, random numbers, printing.
static UNSTATED: OpFacts = OpFacts::of(Op::Unreachable);

fn rows() -> impl Iterator<Item = &'static OpFacts> {
    ROWS.iter().copied().flatten()
}

/// Returns the facts about an op.
pub(crate) fn facts(op: Op) -> &'static OpFacts {
    static BY_OP: LazyLock<Vec<&'static OpFacts>> = LazyLock::new(|| {
        let mut all = vec![&UNSTATED; Op::all().count()];
        rows().for_each(|row| all[row.op as usize] = row);
        all
    });
    BY_OP[op as usize]
}

/// Returns the op that an operator of so many operands is.
pub(crate) fn op_of_operator(operator: &str, n_operands: usize) -> Option<Op> {
    static OPERATORS: LazyLock<Vec<(&'static str, usize, Op)>> = LazyLock::new(|| {
        let of = |info: &'static polyloom::op::OpInfo| match info.spelling {
            OpSpelling::Operator(operator) => Some((
                operator,
                info.signatures.first().map_or(0, |signature: &Signature| signature.params.len()),
                info.op,
            )),
            _ => None,
        };
        Op::all().filter_map(of).collect()
    });
    OPERATORS.iter().find(|&&(spelling, n, _)| spelling == operator && n == n_operands).map(|&(.., op)| op)
}

/// The numbers that an operation gives for operands of these ranges and types, where it is defined. `is_same` tells that
/// two operands are one value.
pub(crate) fn result(op: Op, operands: &[NumberRange], ty: Type, types: &[Type], is_same: bool) -> NumberRange {
    let facts = facts(op);
    known((facts.result)(&OperandRanges::new(facts, operands, ty, types, is_same)))
}

/// The same as the generator takes it: quaternions are turns, and so are the matrices that become some.
pub(crate) fn expected(op: Op, operands: &[NumberRange], ty: Type, types: &[Type], is_same: bool) -> NumberRange {
    let facts = facts(op);
    known(facts.expected.unwrap_or(facts.result)(&OperandRanges::new(facts, operands, ty, types, is_same)))
}

/// Nothing is known where infinities take each other away.
fn known(range: NumberRange) -> NumberRange {
    if range.low.is_nan() || range.high.is_nan() { NumberRange::ANY } else { range }
}

/// Returns what a whole number is a multiple of that an operation gives.
pub(crate) fn whole(op: Op, operands: &WholeOperands<'_>) -> Option<WholeNumber> {
    (facts(op).whole)(operands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom::op::{Convergence, OpGroup, SignatureParam};
    use std::collections::BTreeSet;

    #[test]
    fn an_op_has_one_row() {
        let mut ops = BTreeSet::new();
        for row in rows() {
            assert!(ops.insert(row.op), "{} has two rows", row.op.name());
        }
    }

    /// Whoever adds an op decides here what is known of it.
    #[test]
    fn every_op_that_computes_has_a_row() {
        use OpGroup::{Arithmetic, Bits, Comparison, Index, Math, Vector};
        let computes = |info: &&polyloom::op::OpInfo| {
            let is_coordinate = info.group == OpGroup::Gpu && info.is_pure() && !info.signatures.is_empty();
            let is_exchange = info.convergence == Convergence::Warp
                && info.signatures.iter().any(|signature| signature.results.len() == 1 && signature.params.len() < 3);
            matches!(info.group, Index | Arithmetic | Comparison | Bits | Math | Vector)
                || info.op == Op::Select
                || is_coordinate
                || is_exchange
        };
        let missing: Vec<&str> =
            Op::all().filter(computes).filter(|info| facts(info.op).op != info.op).map(|info| info.name).collect();
        assert!(missing.is_empty(), "no row for {}", missing.join(", "));
    }

    #[test]
    fn nouns_have_the_operands_of_an_overload() {
        for row in rows() {
            let Some(noun) = row.noun else { continue };
            let n = noun.matches('{').count();
            let told = |param: &&SignatureParam| !param.inout;
            let fits =
                row.op.info().signatures.iter().any(|signature| signature.params.iter().filter(told).count() == n);
            assert!(fits, "`{}` takes no {n} operands: {noun}", row.op.name());
        }
    }

    #[test]
    fn operators_are_those_of_the_op_table() {
        assert_eq!((op_of_operator("-", 1), op_of_operator("-", 2)), (Some(Op::Neg), Some(Op::Sub)));
        assert_eq!((op_of_operator("**", 2), op_of_operator("@", 2)), (Some(Op::Pow), None));
    }

    /// One plus such a part would be zero, as an index or a divisor.
    #[test]
    fn fractional_parts_have_the_sign_of_the_number() {
        let of = |range| result(Op::Frac, &[range], Type::F32, &[Type::F32], false);
        assert_eq!(of(NumberRange::within(3.0)), NumberRange::within(1.0));
        assert_eq!(of(NumberRange::new(0.0, 3.0)), NumberRange::new(0.0, 1.0));
    }
}
