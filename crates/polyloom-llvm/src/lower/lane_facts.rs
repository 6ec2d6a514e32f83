//! Says what the uniformity analysis knows of the lanes of a group, and what code costs them.

use super::FunctionLowering;
use polyloom_ir::analysis::uniformity::{Uniformity, ValueShape};
use polyloom_ir::{Inst, Op, Region, Value};

impl<'a> FunctionLowering<'a, '_> {
    /// The analysis, where there are lanes to compare.
    pub(super) fn lane_facts(&self) -> Option<&'a Uniformity> {
        self.uniformity.filter(|_| self.lanes > 1)
    }

    pub(super) fn shape(&self, value: Value) -> ValueShape {
        self.lane_facts().map_or(ValueShape::Uniform, |facts| facts.shape(value))
    }

    /// Returns true if the lanes that enter the instruction may part ways inside.
    pub(super) fn splits(&self, inst: Inst) -> bool {
        !self.in_step.contains(&inst) && self.lane_facts().is_some_and(|facts| !facts.cond_is_uniform(inst))
    }

    /// Returns true if lanes that enter the instruction may leave for outer targets while others stay.
    pub(super) fn loses_threads(&self, inst: Inst) -> bool {
        self.lane_facts().is_some_and(|facts| facts.loses_threads(inst))
    }

    pub(super) fn is_divergent(&self, inst: Inst) -> bool {
        self.lane_facts().is_some_and(|facts| facts.is_divergent(inst))
    }

    /// Returns true if a region costs less than a branch around it and may run with no lane executing.
    pub(super) fn is_cheap(&self, region: Region) -> bool {
        self.all_cheap(&self.func.regions[region].insts)
    }

    pub(super) fn all_cheap(&self, insts: &[Inst]) -> bool {
        const MOST: u32 = 12;
        self.cost(insts).is_some_and(|cost| cost <= MOST)
    }

    /// Roughly the cycles these instructions take; `None` if they must not run with no lane executing.
    fn cost(&self, insts: &[Inst]) -> Option<u32> {
        insts.iter().try_fold(0u32, |sum, &inst| {
            let data = &self.func.insts[inst];
            let varying = |v: &Value| !self.shape(*v).is_uniform();
            let cost = match data.op {
                Op::Yield | Op::Const | Op::Dim | Op::Tid | Op::TidLinear => 0,
                Op::Div | Op::Mod | Op::Sqrt => 6,
                // An element that all lanes mean is stored to without a mask.
                Op::ArrayLoad if data.operands[1..].iter().any(varying) => 3,
                Op::ArrayStore if data.operands[1..data.operands.len() - 1].iter().any(varying) => 3,
                Op::If => {
                    let (then, otherwise) = (data.regions[0], data.regions[1]);
                    let then = self.cost(&self.func.regions[then].insts)?;
                    2 + then + self.cost(&self.func.regions[otherwise].insts)?
                }
                Op::Break | Op::Continue | Op::Return | Op::Unreachable => 2,
                op if op.info().is_pure() => 1,
                _ => return None,
            };
            Some(sum + cost)
        })
    }
}
