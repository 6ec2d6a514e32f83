//! `if`, `block` and the terminators.
//!
//! Where all lanes agree, control flow is branches. Where they may not, both sides of an `if` run under masks, and
//! `break`, `continue` and `return` take lanes out of the mask: their values are blended into stack slots (which
//! LLVM promotes to registers) and the lanes come back where the target ends.

use super::control_frame::{ControlFrame, MaskedFrame, MergeEdge};
use super::{ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::{Imm, Inst, Op, Region, ValueDef};
use smallvec::SmallVec;

impl FunctionLowering<'_, '_> {
    /// Lowers an instruction that owns regions.
    pub(crate) fn lower_region_op(&mut self, inst: Inst) -> Result<RegionFlow> {
        match self.func.insts[inst].op {
            Op::If => self.lower_if(inst),
            Op::Block => self.block(inst),
            Op::ForRange => self.for_range(inst),
            Op::While => self.while_(inst),
            _ => Err(self.unsupported(inst)),
        }
    }

    pub(crate) fn zero_like(&self, rep: ValueRep) -> ValueRep {
        let zero = |value| self.ir.zero(self.ir.type_of(value));
        match rep {
            ValueRep::Uniform(value) => ValueRep::Uniform(zero(value)),
            ValueRep::Affine { base, stride } => ValueRep::Affine { base: zero(base), stride },
            ValueRep::Vector(value) => ValueRep::Vector(zero(value)),
            ValueRep::Array(_) => rep,
        }
    }

    /// Goes to a block that nothing leads to, so that what is emitted there never runs.
    pub(crate) fn start_unreachable_block(&mut self) {
        let nowhere = self.ir.block(c"nowhere");
        self.ir.switch_to(nowhere);
    }

    /// Returns true if value `index` that a region yields is defined outside of it.
    pub(crate) fn yielded_from_outside(&self, region: Region, index: usize) -> bool {
        let func = self.func;
        let Some(last) = func.terminator(region) else { return false };
        let Some(&value) = func.insts[last].operands.get(index) else { return false };
        match func.values[value].def {
            ValueDef::Param(..) => true,
            ValueDef::Result(inst, _) => !func.regions[region].insts.contains(&inst),
        }
    }

    fn block(&mut self, inst: Inst) -> Result<RegionFlow> {
        let region = self.func.insts[inst].regions[0];
        let masked = if self.splits(inst) { Some(self.masked_frame(inst, false)?) } else { None };
        let (before, mask) = (self.exec, self.mask());
        let loses = self.may_lose(inst);
        self.frames.push(ControlFrame { inst, entry: before, exits: Vec::new(), back: Vec::new(), masked });
        let flow = self.lower_region(region)?;
        let Some(mut frame) = self.frames.pop() else { return Err(CodegenError::new("internal error: no frame")) };
        let masked = frame.masked.take().filter(|masked| masked.used);
        let Some(masked) = masked else {
            if let RegionFlow::Yields(values) = flow {
                frame.exits.push(MergeEdge { block: self.ir.current(), values, exec: self.exec });
            } else if let RegionFlow::Dead = flow {
                // Lanes have left for outer targets; those that left together are all there is.
                if frame.exits.is_empty() {
                    return Ok(RegionFlow::Dead);
                }
                let values = frame.exits[0].values.iter().map(|&rep| self.zero_like(rep)).collect();
                frame.exits.push(MergeEdge { block: self.ir.current(), values, exec: self.exec });
            }
            return Ok(self.join(frame.exits)?.map_or(RegionFlow::Gone, RegionFlow::Yields));
        };
        // Lanes left one by one, so that everything meets in the slots.
        let mut edges: Vec<MergeEdge> =
            frame.exits.into_iter().map(|edge| MergeEdge { values: Reps::new(), ..edge }).collect();
        match flow {
            RegionFlow::Yields(values) => {
                let mask = self.mask();
                self.blend_into(&masked.results, &values, mask)?;
                edges.push(MergeEdge { block: self.ir.current(), values: Reps::new(), exec: self.exec });
            }
            RegionFlow::Dead => {
                edges.push(MergeEdge { block: self.ir.current(), values: Reps::new(), exec: self.exec })
            }
            RegionFlow::Gone => {}
        }
        self.join(edges)?;
        if loses {
            let left = self.ir.get(self.mask_type(), masked.left);
            let here = self.full_mask();
            let mask = self.ir.or(here, left);
            self.execute(mask);
            self.maybe_none = true;
        } else {
            self.restore(before, mask);
        }
        Ok(RegionFlow::Yields(self.masked_results(inst, &masked)?))
    }

    /// Returns true if lanes that enter an instruction may leave it for outer targets by the mask, so that fewer come
    /// out.
    pub(crate) fn may_lose(&self, inst: Inst) -> bool {
        self.loses_threads(inst) || (self.exec != ExecMask::Full && self.leaves_by_mask(inst))
    }

    /// Returns true if an instruction's regions have jumps to outer targets that lanes leave for one by one. Under a
    /// mask even lanes that all leave together do so by the mask.
    pub(crate) fn leaves_by_mask(&self, inst: Inst) -> bool {
        let masked = |target: Inst| self.frames.iter().any(|f| f.inst == target && f.masked.is_some());
        let mut found = false;
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |inner, data| {
                found |= match (data.op, &data.imm) {
                    (Op::Break | Op::Continue, Imm::Target(target)) => masked(*target),
                    (Op::Return, _) => self.is_divergent(inner),
                    _ => false,
                };
            });
        }
        found
    }

    /// The slots for lanes leaving `inst` one by one, cleared.
    pub(crate) fn masked_frame(&mut self, inst: Inst, has_continue: bool) -> Result<MaskedFrame> {
        let data = &self.func.insts[inst];
        let left = self.slot(self.mask_type());
        let mut results = SmallVec::new();
        for &result in &data.results {
            let slot = match self.used[result] {
                true => Some(self.slot(self.vector_type(self.func.ty(result))?)),
                false => None,
            };
            results.push(slot);
        }
        let mut next = SmallVec::new();
        let parked = has_continue.then(|| self.slot(self.mask_type()));
        if has_continue {
            for &result in &data.results {
                next.push(self.slot(self.vector_type(self.func.ty(result))?));
            }
        }
        Ok(MaskedFrame { left, results, parked, next, used: false })
    }

    /// A stack slot holding zero.
    pub(crate) fn slot(&self, ty: Ty) -> Val {
        let slot = self.ir.alloca(ty);
        self.ir.set(slot, self.ir.zero(ty));
        slot
    }

    /// Writes values to slots in the lanes of `mask`.
    pub(crate) fn blend_into(&mut self, slots: &[Option<Val>], values: &[ValueRep], mask: Option<Val>) -> Result<()> {
        for (slot, &rep) in slots.iter().zip(values) {
            let Some(slot) = *slot else { continue };
            let value = self.vector(rep)?;
            let value = match mask {
                None => value,
                Some(mask) => {
                    let old = self.ir.get(self.ir.type_of(value), slot);
                    self.ir.select(mask, value, old)
                }
            };
            self.ir.set(slot, value);
        }
        Ok(())
    }

    /// The results of a loop or block whose lanes left one by one.
    pub(crate) fn masked_results(&mut self, inst: Inst, masked: &MaskedFrame) -> Result<Reps> {
        let data = &self.func.insts[inst];
        let mut reps = Reps::new();
        for (&result, slot) in data.results.iter().zip(&masked.results) {
            let ty = self.vector_type(self.func.ty(result))?;
            reps.push(ValueRep::Vector(match slot {
                Some(slot) => self.ir.get(ty, *slot),
                None => self.ir.zero(ty),
            }));
        }
        Ok(reps)
    }

    /// Lowers a region's last instruction.
    pub(crate) fn lower_terminator(&mut self, inst: Inst) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let values = self.reps(&data.operands)?;
        match (data.op, &data.imm) {
            (Op::Yield, _) => Ok(RegionFlow::Yields(values)),
            (Op::Break, Imm::Target(target)) => self.jump(*target, values, true),
            (Op::Continue, Imm::Target(target)) => self.jump(*target, values, false),
            (Op::Return, _) => self.return_(inst, values),
            (Op::Unreachable, _) if self.lanes == 1 => {
                self.ir.unreachable();
                Ok(RegionFlow::Gone)
            }
            // Lanes that never get here may still share the path with some that leave by a mask.
            (Op::Unreachable, _) => Ok(RegionFlow::Dead),
            _ => Err(self.unsupported(inst)),
        }
    }

    fn jump(&mut self, target: Inst, values: Reps, is_break: bool) -> Result<RegionFlow> {
        let mask = self.mask();
        let no_frame = || CodegenError::new("internal error: a jump to something that does not enclose it");
        let index = self.frames.iter().rposition(|f| f.inst == target).ok_or_else(no_frame)?;
        let block = self.ir.current();
        let frame = &mut self.frames[index];
        let exec = if frame.masked.is_none() { frame.entry } else { self.exec };
        let edge = MergeEdge { block, values: values.clone(), exec };
        let together = frame.masked.is_none() || mask.is_none();
        if together {
            if is_break { &mut frame.exits } else { &mut frame.back }.push(edge);
        }
        let Some(masked) = &mut frame.masked else { return Ok(RegionFlow::Gone) };
        masked.used |= !together;
        let (lanes, slots) = match (is_break, masked.parked) {
            (false, Some(parked)) => (parked, masked.next.iter().map(|&slot| Some(slot)).collect()),
            _ => (masked.left, masked.results.clone()),
        };
        self.blend_into(&slots, &values, mask)?;
        let leaving = self.full_mask();
        let before = self.ir.get(self.mask_type(), lanes);
        self.ir.set(lanes, self.ir.or(before, leaving));
        if together {
            return Ok(RegionFlow::Gone);
        }
        self.execute_none();
        Ok(RegionFlow::Dead)
    }

    fn return_(&mut self, inst: Inst, values: Reps) -> Result<RegionFlow> {
        let mask = self.mask();
        let together = mask.is_none() || !self.is_divergent(inst);
        if let Some(slots) = self.returns.slots.clone() {
            let slots: SmallVec<[Option<Val>; 2]> = slots.into_iter().map(Some).collect();
            self.blend_into(&slots, &values, mask)?;
        }
        if together {
            self.returns.edges.push(MergeEdge { block: self.ir.current(), values, exec: self.exec });
            return Ok(RegionFlow::Gone);
        }
        self.execute_none();
        Ok(RegionFlow::Dead)
    }
}
