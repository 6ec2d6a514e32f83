//! What the ops of blocks and warps give: the leaves of the analysis, and what they do not share with any other op.

use super::{ThreadScope, UniformityWalk, ValueShape};
use crate::arch::WARP_SIZE;
use crate::entity::Value;
use crate::function::{Imm, InstData, ValueDef};
use crate::op::{Convergence, Op, OpGroup};

const LANES: i128 = WARP_SIZE as i128;
const NEXT: ValueShape = ValueShape::Affine { stride: 1, exact: true };

impl UniformityWalk<'_> {
    /// The shape of what an op of blocks and warps gives; `None` for other ops.
    pub(super) fn gpu_shape(&self, data: &InstData) -> Option<ValueShape> {
        let threads = self.context.threads;
        let uniform_if = |holds: bool| if holds { ValueShape::Uniform } else { ValueShape::Varying };
        let in_block = uniform_if(threads != ThreadScope::Row);
        let in_warp = uniform_if(threads == ThreadScope::Warp);
        Some(match data.op {
            // An array is the same for all threads; what is in it is another matter.
            Op::SharedArray => ValueShape::Uniform,
            Op::DynamicShared => uniform_if(self.all_uniform(&data.operands)),
            Op::BlockDim | Op::GridDim => ValueShape::Uniform,
            Op::BlockIdx => in_block,
            Op::WarpId => in_warp,
            Op::LaneId if threads == ThreadScope::Warp => NEXT,
            Op::ThreadIdx => self.thread_idx(&data.imm),
            Op::Shuffle => match data.imm {
                Imm::Width(width) if u32::from(width) == WARP_SIZE => {
                    // Lane 0 does not ask for whole warps, because a warp has a first lane in any case.
                    let is_there = self.context.whole_warps || self.constant(data.operands[1]) == Some(0);
                    uniform_if(threads == ThreadScope::Warp && is_there && self.shape(data.operands[1]).is_uniform())
                }
                _ => ValueShape::Varying,
            },
            Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor | Op::MatchAny => ValueShape::Varying,
            op if op.info().convergence == Convergence::Block => in_block,
            op if op.info().convergence == Convergence::Warp => in_warp,
            op if op.info().group == OpGroup::Gpu => ValueShape::Varying,
            _ if threads == ThreadScope::Warp && self.parts_warps(data) => ValueShape::Uniform,
            _ => return None,
        })
    }

    fn thread_idx(&self, imm: &Imm) -> ValueShape {
        let Some([x, y, z]) = self.context.block else { return ValueShape::Varying };
        let is_row = (y, z) == (1, 1);
        let whole_warps = is_row || x % WARP_SIZE == 0;
        match (self.context.threads, imm) {
            (ThreadScope::Row | ThreadScope::Iteration, _) => ValueShape::Varying,
            (_, Imm::Axis(1..)) if is_row => ValueShape::Uniform,
            (ThreadScope::Block, Imm::Axis(0)) if is_row => NEXT,
            (ThreadScope::Block, _) => ValueShape::Varying,
            (ThreadScope::Warp, Imm::Axis(0)) if whole_warps => NEXT,
            (ThreadScope::Warp, _) => {
                if whole_warps {
                    ValueShape::Uniform
                } else {
                    ValueShape::Varying
                }
            }
        }
    }

    /// Returns true if a quotient or a comparison of a value that grows from a multiple of the warp's size on is the
    /// same in a warp: `thread_idx(0) // 32`, `thread_idx(0) < 64`.
    fn parts_warps(&self, data: &InstData) -> bool {
        let &[a, b] = &data.operands[..] else { return false };
        let is_multiple = |value: Value| self.constant(value).is_some_and(|n| n % LANES == 0);
        match data.op {
            Op::Div | Op::FloorDiv => self.counts_lanes(a) && is_multiple(b),
            Op::Rshift => self.counts_lanes(a) && self.constant(b).is_some_and(|n| (5..63).contains(&n)),
            Op::Lt | Op::Ge => self.counts_lanes(a) && is_multiple(b),
            Op::Gt | Op::Le => self.counts_lanes(b) && is_multiple(a),
            _ => false,
        }
    }

    /// Returns true if a value is the lane's number and a multiple of the warp's size that is the same in the warp,
    /// neither negative.
    fn counts_lanes(&self, value: Value) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return false };
        let data = &self.func.insts[inst];
        let block = self.context.block;
        match data.op {
            Op::LaneId => true,
            Op::ThreadIdx => data.imm == Imm::Axis(0) && self.thread_idx(&data.imm) == NEXT,
            Op::TidLinear => block.is_some_and(|block| block.iter().product::<u32>() % WARP_SIZE == 0),
            Op::Cast => {
                let wide = |value| self.scalar(value).is_some_and(|ty| ty.is_int() && ty.bits() >= 32);
                wide(value) && self.counts_lanes(data.operands[0])
            }
            _ => false,
        }
    }
}
