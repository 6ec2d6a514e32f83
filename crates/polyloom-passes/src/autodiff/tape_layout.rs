//! The layout of tapes: how long each has to be, what is counted to know that, which rows of arrays they keep, and the
//! parameters of a backward kernel that they are.

use cranelift_entity::EntitySet;
use polyloom_ir::{Inst, Value};
use smallvec::SmallVec;

/// Describes what is counted to know how long tapes have to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TapeCount {
    /// The number of times that the loop runs.
    Loop(Inst),
    /// How often this load is executed; if it is of a row that checkpoints keep, in one iteration of the outermost loop.
    Reads(Inst),
    /// The number of elements of this array in a thread's row.
    Row(usize),
}

/// Describes how long a tape has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TapeLength {
    /// One for each time the loop runs.
    Loop(Inst),
    /// One for each segment of the loop.
    Checkpoints(Inst),
    /// One for each iteration of a segment of the loop.
    Segment(Inst),
    /// One for each time this load is executed.
    Reads(Inst),
    /// For each segment of the loop as many elements as a thread's row of this array has.
    Rows(Inst, usize),
    /// For each iteration of a segment of the loop as many as this load is executed in one.
    SegmentReads(Inst, Inst),
}

/// Says which elements of an array are a thread's.
#[derive(Clone, Debug)]
pub(super) struct ThreadRow {
    /// For each axis of the array, the indices, if these are not all.
    pub(super) axes: SmallVec<[Option<AxisIndex>; 4]>,
}

/// Indices of a thread's own: the coordinate along an axis of the launch times a factor, plus each of `span` numbers
/// from `low` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisIndex {
    pub(super) axis: u8,
    pub(super) factor: i64,
    pub(super) low: i64,
    pub(super) span: i64,
}

/// A tape of the backward kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapeParam {
    pub(super) param: Value,
    pub(super) length: TapeLength,
}

/// Describes what a backward kernel needs beside arguments and adjoints, each of it a parameter.
#[derive(Default)]
pub(super) struct ExtraParam {
    /// Holds what the kernel leaves in these arrays.
    pub(super) after: Vec<(usize, Value)>,
    pub(super) tapes: Vec<TapeParam>,
    pub(super) segments: Vec<(Inst, Value)>,
    /// Holds what stands for the thread's place on tapes.
    pub(super) place: Option<Value>,
    /// The adjoints of which no two threads touch one element.
    pub(super) private: Vec<Value>,
    /// The loads in loops of rows that are the threads' own.
    pub(super) row_reads: EntitySet<Inst>,
}
