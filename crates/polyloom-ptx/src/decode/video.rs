//! Video instructions: of them the ones that CUDA C++ has for differences of packed bytes and halves, which look at all
//! of their operands (PTX ISA 9.0 §9.7.15.3).

use super::function::FunctionDecoder;
use super::types::PtxType;
use super::{Decoded, DecodedOp, InstClass, InstructionLine};

/// The part of a word that begins at a bit.
fn lane(word: u32, bit: u32, bits: u32, signed: bool) -> i32 {
    let top = word << (32 - bits - bit);
    if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
}

impl FunctionDecoder<'_> {
    /// `vabsdiff2` and `vabsdiff4`.
    pub(super) fn absolute_differences(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let bits = if line.instruction.opcode == "vabsdiff2" { 16 } else { 8 };
        let types = [line.mods.ty()?, line.mods.ty()?, line.mods.ty()?];
        if let Some(wrong) = types.into_iter().find(|ty| !matches!(ty, PtxType::U(32) | PtxType::S(32))) {
            return line.mods.no_type(wrong);
        }
        let [to_signed, a_signed, b_signed] = types.map(PtxType::is_signed);
        let saturating = line.mods.take("sat");
        let adds = !saturating && line.mods.take("add");
        let most = if to_signed { (1 << (bits - 1)) - 1 } else { (1 << bits) - 1 };
        let mask = (1 << bits) - 1;
        let compute = self.ternary::<u32>(line, PtxType::U(32), move |a, b, c| {
            let differences = (0..32).step_by(bits as usize).map(|bit| {
                let difference = lane(a, bit, bits, a_signed).abs_diff(lane(b, bit, bits, b_signed));
                (bit, if saturating { difference.min(most) } else { difference })
            });
            match adds {
                true => differences.fold(c, |sum, (_, difference)| sum.wrapping_add(difference)),
                false => differences.fold(0, |all, (bit, difference)| all | (difference & mask) << bit),
            }
        })?;
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }
}
