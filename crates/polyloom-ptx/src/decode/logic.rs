//! Logic, shifts and bits (PTX ISA 9.0 §9.7.1 from `popc` on, and §9.7.8).

use super::function::FunctionDecoder;
use super::op::DecodedOp;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, RegisterFiles, map1, map2, map3};
use crate::syntax::ast::PtxOperand;

/// Runs a body with `$T` the unsigned type of 32 or 64 bits.
macro_rules! by_width {
    ($line:expr, $ty:expr, $T:ident => $body:expr) => {
        match $ty.bits() {
            32 => {
                type $T = u32;
                $body
            }
            64 => {
                type $T = u64;
                $body
            }
            _ => return $line.mods.no_type($ty),
        }
    };
}

/// `a` op `b` for `and`, `or`, `xor` on all widths.
macro_rules! bitwise {
    ($self:expr, $line:expr, $ty:expr, $op:tt) => {
        match $ty.bits() {
            16 => $self.binary::<u16>($line, $ty, |a, b| a $op b)?,
            32 => $self.binary::<u32>($line, $ty, |a, b| a $op b)?,
            64 => $self.binary::<u64>($line, $ty, |a, b| a $op b)?,
            _ => return $line.mods.no_type($ty),
        }
    };
}

impl FunctionDecoder<'_> {
    pub(super) fn logic(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        let compute = match opcode {
            "and" | "or" | "xor" | "not" => {
                let ty = line.mods.ty()?;
                if ty == PtxType::Pred {
                    return self.predicate_logic(line);
                }
                match opcode {
                    "and" => bitwise!(self, line, ty, &),
                    "or" => bitwise!(self, line, ty, |),
                    "xor" => bitwise!(self, line, ty, ^),
                    _ => match ty.bits() {
                        16 => self.unary::<u16>(line, ty, |a| !a)?,
                        32 => self.unary::<u32>(line, ty, |a| !a)?,
                        64 => self.unary::<u64>(line, ty, |a| !a)?,
                        _ => return line.mods.no_type(ty),
                    },
                }
            }
            "cnot" => {
                let ty = line.mods.ty()?;
                match ty.bits() {
                    16 => self.unary::<u16>(line, ty, |a| u16::from(a == 0))?,
                    32 => self.unary::<u32>(line, ty, |a| u32::from(a == 0))?,
                    64 => self.unary::<u64>(line, ty, |a| u64::from(a == 0))?,
                    _ => return line.mods.no_type(ty),
                }
            }
            "shl" | "shr" => self.shift(line)?,
            "shf" => self.funnel(line)?,
            "lop3" => return self.lookup(line),
            "prmt" => self.permute(line)?,
            "bfe" | "bfi" | "szext" | "bmsk" => self.field(line)?,
            _ => self.count(line)?,
        };
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    /// Fields of bits.
    fn field(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let all = &line.instruction.operands;
        Ok(match line.instruction.opcode.as_str() {
            "bfe" => {
                let ty = line.mods.ty()?;
                line.check(4, 4)?;
                let signed = ty.is_signed();
                by_width!(line, ty, T => map3(
                    self.slot::<T>(&all[0], ty)?,
                    self.source(&all[1], ty)?,
                    self.source(&all[2], PtxType::U(32))?,
                    self.source(&all[3], PtxType::U(32))?,
                    move |a: T, position: u32, length: u32| {
                        extract(a, position & 0xff, length & 0xff, T::BITS, signed) as T
                    },
                ))
            }
            "bfi" => {
                let ty = line.mods.ty()?;
                line.check(5, 5)?;
                by_width!(line, ty, T => {
                    let d = self.slot::<T>(&all[0], ty)?;
                    let (a, b) = (self.source::<T>(&all[1], ty)?, self.source::<T>(&all[2], ty)?);
                    let position = self.source::<u32>(&all[3], PtxType::U(32))?;
                    let length = self.source::<u32>(&all[4], PtxType::U(32))?;
                    // The four operands go through one closure, because two steps would need another register.
                    Box::new(move |registers: &mut RegisterFiles, mask: u32| {
                        let mut out = [T::default(); 32];
                        for (lane, out) in out.iter_mut().enumerate() {
                            let at = position.get(registers)[lane] & 0xff;
                            let bits = length.get(registers)[lane] & 0xff;
                            let field = field_mask(at, bits, T::BITS) as T;
                            let moved = a.get(registers)[lane].checked_shl(at).unwrap_or(0);
                            *out = b.get(registers)[lane] & !field | moved & field;
                        }
                        crate::exec::registers::put(registers, d, &out, mask);
                    }) as Compute
                })
            }
            "szext" => {
                let clamp = line.mods.need_of(&[("clamp", true), ("wrap", false)])?;
                let ty = line.mods.ty()?;
                let signed = ty.is_signed();
                self.binary::<u32>(line, ty, move |a, n| {
                    let n = if clamp { n.min(32) } else { n & 31 };
                    match n {
                        0 => 0,
                        32 => a,
                        n if signed => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
                        n => a & ((1 << n) - 1),
                    }
                })?
            }
            _ => {
                let clamp = line.mods.need_of(&[("clamp", true), ("wrap", false)])?;
                let ty = line.mods.ty()?;
                self.binary::<u32>(line, ty, move |start, count| {
                    let limit = |n: u32| if clamp { n.min(32) } else { n & 31 };
                    field_mask(limit(start), limit(count), 32) as u32
                })?
            }
        })
    }

    /// Returns the number of bits that are set, and where.
    fn count(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let all = &line.instruction.operands;
        Ok(match line.instruction.opcode.as_str() {
            "popc" => {
                let ty = line.mods.ty()?;
                line.check(2, 2)?;
                by_width!(line, ty, T => map1(
                    self.slot::<u32>(&all[0], PtxType::U(32))?, self.source(&all[1], ty)?, |a: T| a.count_ones()))
            }
            "clz" => {
                let ty = line.mods.ty()?;
                line.check(2, 2)?;
                by_width!(line, ty, T => map1(
                    self.slot::<u32>(&all[0], PtxType::U(32))?, self.source(&all[1], ty)?, |a: T| a.leading_zeros()))
            }
            "bfind" => {
                let amount = line.mods.take("shiftamt");
                let ty = line.mods.ty()?;
                line.check(2, 2)?;
                let signed = ty.is_signed();
                by_width!(line, ty, T => map1(
                    self.slot::<u32>(&all[0], PtxType::U(32))?,
                    self.source(&all[1], ty)?,
                    move |a: T| {
                        let a = if signed && a >> (T::BITS - 1) != 0 { !a } else { a };
                        let zeros = a.leading_zeros();
                        match () {
                            () if zeros == T::BITS => u32::MAX,
                            () if amount => zeros,
                            () => T::BITS - 1 - zeros,
                        }
                    },
                ))
            }
            "fns" => {
                let ty = line.mods.ty()?;
                line.check(4, 4)?;
                map3(
                    self.slot::<u32>(&all[0], ty)?,
                    self.source(&all[1], ty)?,
                    self.source(&all[2], PtxType::B(32))?,
                    self.source(&all[3], PtxType::S(32))?,
                    find_nth_set,
                )
            }
            "brev" => {
                let ty = line.mods.ty()?;
                by_width!(line, ty, T => self.unary::<T>(line, ty, |a| a.reverse_bits())?)
            }
            opcode => return line.error(format!("the simulator has no instruction `{opcode}`")),
        })
    }

    fn predicate_logic(&mut self, line: &InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        let all = &line.instruction.operands;
        let count = if opcode == "not" { 2 } else { 3 };
        line.check(count, count)?;
        let d = self.predicate_slot(&all[0])?;
        let a = self.test(&all[1])?;
        let b = self.test(&all[count - 1])?;
        let f: fn(u32, u32) -> u32 = match opcode {
            "and" => |a, b| a & b,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            _ => |a, _| !a,
        };
        let compute: Compute = Box::new(move |registers, mask| {
            let value = f(a.mask(registers), b.mask(registers));
            if let Some(d) = d {
                registers.set_predicate(d, value, mask);
            }
        });
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    fn shift(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let ty = line.mods.ty()?;
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let left = line.instruction.opcode == "shl";
        // Amounts past the width shift everything out; a signed value leaves its sign.
        macro_rules! shift {
            ($unsigned:ty, $signed:ty, $word:ty) => {{
                let d = self.slot::<$word>(&all[0], ty)?;
                let a = self.source::<$word>(&all[1], ty)?;
                let b = self.source::<u32>(&all[2], PtxType::U(32))?;
                let last = <$unsigned>::BITS - 1;
                if left {
                    map2(d, a, b, move |a: $unsigned, n: u32| if n > last { 0 } else { a << n })
                } else if ty.is_signed() {
                    map2(d, a, b, move |a: $signed, n: u32| a >> n.min(last))
                } else {
                    map2(d, a, b, move |a: $unsigned, n: u32| if n > last { 0 } else { a >> n })
                }
            }};
        }
        Ok(match ty.bits() {
            16 => shift!(u16, i16, u32),
            32 => shift!(u32, i32, u32),
            64 => shift!(u64, i64, u64),
            _ => return line.mods.no_type(ty),
        })
    }

    /// `shf`: a shift of the 64 bits of `b` over `a`.
    fn funnel(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let left = line.mods.need_of(&[("l", true), ("r", false)])?;
        let clamp = line.mods.need_of(&[("clamp", true), ("wrap", false)])?;
        let ty = line.mods.ty()?;
        if let [_, _, _, shift] = line.instruction.operands.as_slice() {
            self.check_type(shift, PtxType::U(32))?;
        }
        self.ternary::<u32>(line, ty, move |a, b, c| {
            let n = if clamp { c.min(32) } else { c & 31 };
            let both = u64::from(b) << 32 | u64::from(a);
            if left { (both << n >> 32) as u32 } else { (both >> n) as u32 }
        })
    }

    fn lookup(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let combine = line.mods.take_of(&[("or", true), ("and", false)]);
        let ty = line.mods.ty()?;
        let also = usize::from(combine.is_some());
        line.check(5 + also, 5 + also)?;
        let all = &line.instruction.operands;
        let (d, p) = match &all[0] {
            PtxOperand::Pair(d, p) => (&**d, self.predicate_slot(p)?),
            d => (d, None),
        };
        if combine.is_some() != p.is_some() {
            return line.error("`lop3` writes a predicate, `d|p`, with `.or` or `.and`, and none without");
        }
        let d = self.slot::<u32>(d, ty)?;
        let sources = [self.source(&all[1], ty)?, self.source(&all[2], ty)?, self.source::<u32>(&all[3], ty)?];
        let PtxOperand::Integer(table) = all[4] else { return line.error("`lop3` needs a constant table") };
        let q = if combine.is_some() { Some(self.test(&all[5])?) } else { None };
        let compute: Compute = Box::new(move |registers, mask| {
            let mut out = [0u32; 32];
            let [a, b, c] = sources.each_ref().map(|source| source.get(registers));
            for lane in 0..32 {
                out[lane] = look_up(table as u32, a[lane], b[lane], c[lane]);
            }
            if let (Some(p), Some(q), Some(or)) = (p, q, combine) {
                let set = (0..32).fold(0, |set, lane| set | u32::from(out[lane] != 0) << lane);
                let q = q.mask(registers);
                registers.set_predicate(p, if or { set | q } else { set & q }, mask);
            }
            crate::exec::registers::put(registers, d, &out, mask);
        });
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    fn permute(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let mode = line.mods.take_of(&[("f4e", 1), ("b4e", 2), ("rc8", 3), ("ecl", 4), ("ecr", 5), ("rc16", 6)]);
        let ty = line.mods.ty()?;
        let mode = mode.unwrap_or(0);
        self.ternary::<u32>(line, ty, move |a, b, c| {
            let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
            let n = c & 3;
            let selectors: [u32; 4] = match mode {
                0 => [0, 4, 8, 12].map(|shift| c >> shift & 0xf),
                1 => [0, 1, 2, 3].map(|k| n + k),
                2 => [0, 7, 6, 5].map(|k| (n + k) & 7),
                3 => [n; 4],
                4 => [0, 1, 2, 3].map(|k: u32| k.max(n)),
                5 => [0, 1, 2, 3].map(|k: u32| k.min(n)),
                _ => [0, 1, 0, 1].map(|k| (n & 1) * 2 + k),
            };
            u32::from_le_bytes(selectors.map(|selector| {
                let byte = bytes[(selector & 7) as usize];
                // The selector's upper bit replicates the byte's sign.
                if selector & 8 != 0 { (byte as i8 >> 7) as u8 } else { byte }
            }))
        })
    }
}

/// Bits `position..position + length` of a word.
fn field_mask(position: u32, length: u32, width: u32) -> u64 {
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    let mask = ones.checked_shl(position).unwrap_or(0);
    if width == 64 { mask } else { mask & ((1 << width) - 1) }
}

/// `bfe`, as the ISA's pseudo-code has it.
fn extract(a: impl Into<u64>, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let a = a.into();
    let last = width - 1;
    let sign = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(last) & 1 };
    let field = a.checked_shr(position).unwrap_or(0) & field_mask(0, length, 64);
    let available = length.min(width.saturating_sub(position));
    // Past the field's own bits, or the word's, comes the sign.
    let above = !field_mask(0, available, 64);
    if sign != 0 { field | above } else { field & !above }
}

/// `fns`
fn find_nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    let (base, mut left) = (base & 31, offset.unsigned_abs());
    if offset == 0 {
        return if mask >> base & 1 != 0 { base } else { u32::MAX };
    }
    let mut at = base as i32;
    while (0..32).contains(&at) {
        if mask >> at & 1 != 0 {
            left -= 1;
            if left == 0 {
                return at as u32;
            }
        }
        at += offset.signum();
    }
    u32::MAX
}

/// `lop3`: bit `a*4 + b*2 + c` of the table.
#[inline]
fn look_up(table: u32, a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    for index in 0..8 {
        let pick = |value: u32, bit: u32| if index >> bit & 1 != 0 { value } else { !value };
        let row = pick(a, 2) & pick(b, 1) & pick(c, 0);
        result |= row & (table >> index & 1).wrapping_neg();
    }
    result
}
