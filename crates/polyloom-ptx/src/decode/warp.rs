//! What the lanes of a warp do together (PTX ISA 9.0 §9.7.9.6 and §9.7.13).

use super::function::FunctionDecoder;
use super::op::{DecodedOp, WarpKind, WarpOp};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, LANES, RegisterFiles, RegisterWord, SourceOperand, lanes_of, put};
use crate::number::arithmetic::{canonical, extremum};
use crate::syntax::ast::PtxOperand;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

impl ShuffleMode {
    /// Whose value a lane gets, and whether that lane is in range (the ISA's pseudo-code).
    fn from(self, lane: u32, b: u32, c: u32) -> (u32, bool) {
        let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
        let last = lane & segment | clamp & !segment;
        let first = lane & segment;
        let (from, inside) = match self {
            // Signed, since a lane below the segment is out of range.
            ShuffleMode::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= last as i32),
            ShuffleMode::Down => (lane + b, lane + b <= last),
            ShuffleMode::Butterfly => (lane ^ b, lane ^ b <= last),
            ShuffleMode::Index => {
                let from = first | b & !segment;
                (from, from <= last)
            }
        };
        if inside { (from, true) } else { (lane, false) }
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn warp(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let sync = line.mods.take("sync");
        // PTX ISA 9.0 §9.7.9.5 and §9.7.13.10.
        let opcode = line.instruction.opcode.as_str();
        let arch = self.ast.target.first().map_or("", String::as_str).trim_matches(|c: char| !c.is_ascii_digit());
        if !sync
            && matches!(opcode, "shfl" | "vote")
            && self.ast.version >= (6, 4)
            && arch.parse().is_ok_and(|arch: u32| arch >= 70)
        {
            return line
                .error(format!("`{opcode}` without `.sync` is of targets before `sm_70`: write `{opcode}.sync`"));
        }
        let (members, compute) = match line.instruction.opcode.as_str() {
            "shfl" => {
                let op = self.shuffle(line, sync)?;
                return Ok((DecodedOp::Warp(Box::new(op)), InstClass::Warp));
            }
            "vote" => self.vote(line, sync)?,
            "match" => self.matching(line)?,
            "redux" => self.reduction(line)?,
            "elect" => {
                line.check(2, 2)?;
                let all = &line.instruction.operands;
                let PtxOperand::Pair(d, p) = &all[0] else { return line.error("`elect` writes `d|p`") };
                let (d, p) = (self.slot::<u32>(d, PtxType::B(32))?, self.predicate_slot(p)?);
                let compute: Compute = Box::new(move |registers, mask| {
                    let leader = mask.trailing_zeros();
                    put(registers, d, &[leader; LANES], mask);
                    if let Some(p) = p {
                        registers.set_predicate(p, 1u32.checked_shl(leader).unwrap_or(0), mask);
                    }
                });
                (Some(self.source(&all[1], PtxType::B(32))?), compute)
            }
            _ => {
                let ty = line.mods.ty()?;
                line.check(1, 1)?;
                let slot = self.slot::<u32>(&line.instruction.operands[0], ty)?;
                return Ok((DecodedOp::ActiveMask(slot), InstClass::Warp));
            }
        };
        Ok((
            DecodedOp::Warp(Box::new(WarpOp {
                members,
                sources: None,
                unguarded: false,
                kind: WarpKind::Lanes(compute),
            })),
            InstClass::Warp,
        ))
    }

    fn shuffle(&mut self, line: &mut InstructionLine<'_>, sync: bool) -> Decoded<WarpOp> {
        const MODES: &[(&str, ShuffleMode)] = &[
            ("up", ShuffleMode::Up),
            ("down", ShuffleMode::Down),
            ("bfly", ShuffleMode::Butterfly),
            ("idx", ShuffleMode::Index),
        ];
        let mode = line.mods.need_of(MODES)?;
        let ty = line.mods.ty()?;
        let count = 4 + usize::from(sync);
        line.check(count, count)?;
        let all = &line.instruction.operands;
        let (d, p) = match &all[0] {
            PtxOperand::Pair(d, p) => (self.slot::<u32>(d, ty)?, self.predicate_slot(p)?),
            d => (self.slot::<u32>(d, ty)?, None),
        };
        let a = self.source::<u32>(&all[1], ty)?;
        let b = self.source::<u32>(&all[2], PtxType::B(32))?;
        let c = self.source::<u32>(&all[3], PtxType::B(32))?;
        let members = if sync { Some(self.source(&all[4], PtxType::B(32))?) } else { None };
        let sources = {
            let (b, c) = (b.clone(), c.clone());
            move |registers: &RegisterFiles| {
                let (b, c) = (b.get(registers), c.get(registers));
                std::array::from_fn(|lane| mode.from(lane as u32, b[lane], c[lane]).0 & 31)
            }
        };
        let compute: Compute = Box::new(move |registers, mask| {
            let (mut out, mut set) = ([0; LANES], 0);
            let (a, b, c) = (a.get(registers), b.get(registers), c.get(registers));
            for lane in 0..LANES {
                let (from, inside) = mode.from(lane as u32, b[lane], c[lane]);
                out[lane] = a[(from & 31) as usize];
                set |= u32::from(inside) << lane;
            }
            put(registers, d, &out, mask);
            if let Some(p) = p {
                registers.set_predicate(p, set, mask);
            }
        });
        let unguarded = self.is_unguarded(&all[0]);
        Ok(WarpOp { members, sources: Some(Box::new(sources)), unguarded, kind: WarpKind::Lanes(compute) })
    }

    fn vote(&mut self, line: &mut InstructionLine<'_>, sync: bool) -> Decoded<(Option<SourceOperand<u32>>, Compute)> {
        let mode = line.mods.need_of(&[("all", 0), ("any", 1), ("uni", 2), ("ballot", 3)])?;
        let ty = line.mods.ty()?;
        if ty != if mode == 3 { PtxType::B(32) } else { PtxType::Pred } {
            return line.mods.no_type(ty);
        }
        let count = 2 + usize::from(sync);
        line.check(count, count)?;
        let all = &line.instruction.operands;
        let a = self.test(&all[1])?;
        let members = if sync { Some(self.source(&all[2], PtxType::B(32))?) } else { None };
        let compute: Compute = if mode == 3 {
            let d = self.slot::<u32>(&all[0], ty)?;
            Box::new(move |registers, mask| {
                let votes = a.mask(registers) & mask;
                put(registers, d, &[votes; LANES], mask);
            })
        } else {
            let p = self.predicate_slot(&all[0])?;
            Box::new(move |registers, mask| {
                let votes = a.mask(registers) & mask;
                let result = match mode {
                    0 => votes == mask,
                    1 => votes != 0,
                    _ => votes == mask || votes == 0,
                };
                if let Some(p) = p {
                    registers.set_predicate(p, if result { !0 } else { 0 }, mask);
                }
            })
        };
        Ok((members, compute))
    }

    fn matching(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(Option<SourceOperand<u32>>, Compute)> {
        let any = line.mods.need_of(&[("any", true), ("all", false)])?;
        let ty = line.mods.ty()?;
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let (d, p) = match &all[0] {
            PtxOperand::Pair(..) if any => return line.error("`match.any` writes no predicate"),
            PtxOperand::Pair(d, p) => (self.slot::<u32>(d, PtxType::U(32))?, self.predicate_slot(p)?),
            d => (self.slot::<u32>(d, PtxType::U(32))?, None),
        };
        let members = Some(self.source(&all[2], PtxType::B(32))?);
        fn matched<T: RegisterWord>(
            a: SourceOperand<T>,
            any: bool,
            d: crate::exec::registers::Slot,
            p: crate::exec::registers::Slot,
        ) -> Compute {
            Box::new(move |registers: &mut RegisterFiles, mask| {
                let values = *a.get(registers);
                let mut out = [0; LANES];
                for lane in lanes_of(mask) {
                    out[lane] =
                        lanes_of(mask).fold(0, |set, other| set | u32::from(values[other] == values[lane]) << other);
                }
                let equal = lanes_of(mask).all(|lane| out[lane] == mask);
                if !any {
                    out = [if equal { mask } else { 0 }; LANES];
                }
                put(registers, d, &out, mask);
                if let Some(p) = p {
                    registers.set_predicate(p, if equal { !0 } else { 0 }, mask);
                }
            })
        }
        let compute = match ty.bits() {
            32 => matched::<u32>(self.source(&all[1], ty)?, any, d, p),
            64 => matched::<u64>(self.source(&all[1], ty)?, any, d, p),
            _ => return line.mods.no_type(ty),
        };
        Ok((members, compute))
    }

    fn reduction(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(Option<SourceOperand<u32>>, Compute)> {
        type Fold = Box<dyn Fn(u32, u32) -> u32 + Send + Sync>;
        const OPERATIONS: &[(&str, u32)] = &[("add", 0), ("min", 1), ("max", 2), ("and", 3), ("or", 4), ("xor", 5)];
        let operation = line.mods.need_of(OPERATIONS)?;
        let ty = line.mods.ty()?;
        let magnitude = ty == PtxType::F32 && line.mods.take("abs");
        let nan = ty == PtxType::F32 && line.mods.take("NaN");
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        // A result that one member alone gives as well.
        let prepared = move |bits: u32| match (ty, f32::from_bits(bits)) {
            (PtxType::F32, x) => canonical(if magnitude { x.abs() } else { x }).to_bits(),
            _ => bits,
        };
        let fold: Fold = match (operation, ty) {
            (0, PtxType::U(32) | PtxType::S(32)) => Box::new(u32::wrapping_add),
            (1, PtxType::U(32)) => Box::new(u32::min),
            (2, PtxType::U(32)) => Box::new(u32::max),
            (1, PtxType::S(32)) => Box::new(|a, b| (a as i32).min(b as i32) as u32),
            (2, PtxType::S(32)) => Box::new(|a, b| (a as i32).max(b as i32) as u32),
            (3, PtxType::B(32)) => Box::new(|a, b| a & b),
            (4, PtxType::B(32)) => Box::new(|a, b| a | b),
            (5, PtxType::B(32)) => Box::new(|a, b| a ^ b),
            (1 | 2, PtxType::F32) => {
                Box::new(move |a, b| extremum(operation == 2, nan, f32::from_bits(a), f32::from_bits(b)).to_bits())
            }
            _ => return line.mods.no_type(ty),
        };
        let d = self.slot::<u32>(&all[0], ty)?;
        let a = self.source::<u32>(&all[1], ty)?;
        let members = Some(self.source(&all[2], PtxType::B(32))?);
        let compute: Compute = Box::new(move |registers, mask| {
            let values = a.get(registers);
            let result = lanes_of(mask).map(|lane| prepared(values[lane])).reduce(&fold).unwrap_or(0);
            put(registers, d, &[result; LANES], mask);
        });
        Ok((members, compute))
    }
}
