//! Rows of where threads are, and of what lanes of a warp exchange.

use super::facts::{LaneExchange, OpFacts, OpTrait};
use crate::number_range::NumberRange;
use polyloom::{Op, WARP_SIZE};

/// A row of what says where a thread is, or how many there are.
const fn coordinate(op: Op) -> OpFacts {
    OpFacts::of(op).result(|_| NumberRange::new(0.0, i32::MAX as f64))
}

/// Holds the rows of coordinates of threads and extents.
pub(super) static COORDINATES: &[OpFacts] = &[
    coordinate(Op::Tid).traits(&[OpTrait::OfThread]),
    coordinate(Op::TidLinear).traits(&[OpTrait::OfThread]),
    coordinate(Op::Dim),
    coordinate(Op::ThreadIdx).traits(&[OpTrait::OfThread]),
    coordinate(Op::BlockIdx),
    coordinate(Op::BlockDim),
    coordinate(Op::GridDim),
    OpFacts::of(Op::LaneId).traits(&[OpTrait::OfThread]).result(|_| NumberRange::new(0.0, f64::from(WARP_SIZE - 1))),
    coordinate(Op::WarpId),
];

/// Holds the rows of what lanes of a warp exchange values by.
pub(super) static EXCHANGES: &[OpFacts] = &[
    OpFacts::of(Op::Shuffle).exchange(LaneExchange::Told),
    OpFacts::of(Op::ShuffleUp).exchange(LaneExchange::Neighbour),
    OpFacts::of(Op::ShuffleDown).exchange(LaneExchange::Neighbour),
    OpFacts::of(Op::ShuffleXor).exchange(LaneExchange::Neighbour),
    OpFacts::of(Op::Ballot).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::WarpAny).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::WarpAll).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::MatchAny).exchange(LaneExchange::Own),
    OpFacts::of(Op::MatchAll).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::WarpReduceAdd).exchange(LaneExchange::Sum),
    OpFacts::of(Op::WarpReduceMin).exchange(LaneExchange::One),
    OpFacts::of(Op::WarpReduceMax).exchange(LaneExchange::One),
    OpFacts::of(Op::WarpReduceAnd).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::WarpReduceOr).exchange(LaneExchange::Agreed),
    OpFacts::of(Op::WarpReduceXor).exchange(LaneExchange::Agreed),
];
