//! The part of local memory that grows while a function runs (PTX ISA 9.0 §9.7.18).

use super::function::FunctionDecoder;
use super::op::{DecodedOp, StackOp};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::syntax::ast::PtxOperand;

/// Holds what `alloca` aligns to unless it says.
const DEFAULT_ALIGN: u64 = 8;
/// The most that it may say.
const MAX_ALIGN: u64 = 1 << 23;

impl FunctionDecoder<'_> {
    pub(super) fn stack(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let ty = line.mods.ty()?;
        if ty != PtxType::U(32) && ty != PtxType::U(64) {
            return line.mods.no_type(ty);
        }
        let all = &line.instruction.operands;
        let op = match line.instruction.opcode.as_str() {
            "alloca" => {
                line.check(2, 3)?;
                let align = match all.get(2) {
                    None => DEFAULT_ALIGN,
                    Some(PtxOperand::Integer(align)) if align.is_power_of_two() && *align <= MAX_ALIGN => *align,
                    Some(_) => return line.error("an alignment is a power of two of at most 2^23"),
                };
                let (destination, size) = (self.destination(&all[0], ty.bits())?, self.any_source(&all[1], ty)?);
                StackOp::Alloc { destination, size, align: align as u32 }
            }
            "stacksave" => {
                line.check(1, 1)?;
                StackOp::Save(self.destination(&all[0], ty.bits())?)
            }
            _ => {
                line.check(1, 1)?;
                StackOp::Restore(self.any_source(&all[0], ty)?)
            }
        };
        Ok((DecodedOp::Stack(op), InstClass::Move))
    }
}
