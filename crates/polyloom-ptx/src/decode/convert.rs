//! `cvt` (PTX ISA 9.0 §9.7.9.21): between integers, floats, and the packed narrow formats.

use super::function::FunctionDecoder;
use super::op::{AnySource, DecodedOp, DestRegister};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, map1};
use crate::number::Rounding;
use crate::number::arithmetic::{self, f32_from_integer, f64_from_integer, flush_if, integral};
use crate::number::half::{bf16_to_f32, f16_from_f32, f16_to_f32};
use crate::number::narrow::{BF16, F16, F32, NarrowFormat, TF32, narrow};
use crate::syntax::ast::PtxOperand;

/// Describes what a conversion says besides its types.
#[derive(Clone, Copy)]
pub(super) struct ConversionModifiers {
    pub(super) rounding: Option<Rounding>,
    /// `.rs`
    pub(super) random: bool,
    /// `.rni` and the like: to an integer, even if the result is a float.
    pub(super) integral: Option<Rounding>,
    pub(super) ftz: bool,
    pub(super) saturate: bool,
    pub(super) relu: bool,
    pub(super) finite: bool,
}

impl ConversionModifiers {
    /// The rounding; where none is given, there is nothing to round.
    pub(super) fn rounding(self) -> Rounding {
        self.rounding.unwrap_or(Rounding::Nearest)
    }

    /// To the nearest, and nothing else.
    pub(super) fn is_plain(self) -> bool {
        let changes = self.ftz || self.saturate || self.relu || self.finite || self.random;
        self.rounding() == Rounding::Nearest && self.integral.is_none() && !changes
    }

    /// Tells whether assemblers let a conversion of single values say so.
    fn suits(self, to: PtxType, from: PtxType) -> Result<(), &'static str> {
        use Rounding::{Nearest, NearestAway, Zero};
        let single = to == PtxType::F32 || from == PtxType::F32;
        let brain = to == PtxType::Bf16 || from == PtxType::Bf16;
        let bytes = to.bits() == 8 || from.bits() == 8;
        let unless = |wrong: bool, what: &'static str| if wrong { Err(what) } else { Ok(()) };
        unless(self.random, "`.rs`")?;
        if to == PtxType::Tf32 {
            unless(from != PtxType::F32, "these types")?;
            unless(self.ftz || self.saturate || self.integral.is_some(), "such modifiers")?;
            return match self.rounding {
                Some(NearestAway) => unless(self.relu, "`.relu` with `.rna`"),
                Some(Nearest | Zero) => Ok(()),
                _ => Err("another rounding than `.rn`, `.rz` and `.rna`"),
            };
        }
        if self.relu || self.finite {
            unless(!(matches!(to, PtxType::F16 | PtxType::Bf16) && from == PtxType::F32), "`.relu` and `.satfinite`")?;
            unless(self.ftz || self.saturate, "`.ftz` and `.sat` with `.relu` and `.satfinite`")?;
            unless(!matches!(self.rounding, Some(Nearest | Zero)), "another rounding than `.rn` and `.rz`")?;
        }
        unless(self.ftz && !single, "`.ftz`")?;
        unless(brain && bytes, "these types")?;
        unless(self.saturate && brain, "`.sat`")?;
        unless(self.rounding == Some(NearestAway), "`.rna`")?;
        let (rounds, integral) = (self.rounding.is_some(), self.integral.is_some());
        match (to.is_integer(), from.is_integer()) {
            (true, true) => {
                let changes = to.is_signed() != from.is_signed() && (from.is_signed() || to.bits() <= from.bits());
                unless(self.saturate && !(changes || to.bits() < from.bits()), "`.sat`")?;
                unless(rounds || integral, "a rounding")
            }
            (true, false) => unless(rounds || !integral, "another rounding than `.rni`, `.rzi`, `.rmi` and `.rpi`"),
            (false, true) => unless(integral || !rounds, "another rounding than `.rn`, `.rz`, `.rm` and `.rp`"),
            (false, false) if to == from => unless(rounds, "another rounding than `.rni`, `.rzi`, `.rmi` and `.rpi`"),
            (false, false) => {
                unless(integral, "a rounding to integers")?;
                // bf16 and f16 are exact in neither's format, yet need none.
                let optional = from == PtxType::Bf16 || to == PtxType::Bf16 && from == PtxType::F16;
                let narrows = to.bits() < from.bits();
                unless(!optional && rounds != narrows, if narrows { "no rounding" } else { "a rounding" })
            }
        }
    }
}

fn format(ty: PtxType) -> Option<NarrowFormat> {
    Some(match ty {
        PtxType::F16 => F16,
        PtxType::Bf16 => BF16,
        PtxType::Tf32 => TF32,
        PtxType::F32 => F32,
        _ => return None,
    })
}

/// A float's value, exact.
fn float_value(bits: u64, ty: PtxType, ftz: bool) -> f64 {
    match ty {
        PtxType::F64 => f64::from_bits(bits),
        PtxType::F32 => flush_if(ftz, f32::from_bits(bits as u32)).into(),
        PtxType::F16 => f16_to_f32(bits as u16).into(),
        _ => bf16_to_f32(bits as u16).into(),
    }
}

/// A float's bits in `ty`, rounded as asked.
fn float_bits(x: f64, ty: PtxType, how: ConversionModifiers) -> u64 {
    if ty == PtxType::F64 {
        return if how.saturate { arithmetic::saturate_f64(x) } else { x }.to_bits();
    }
    let x = if how.saturate { arithmetic::saturate_f64(x) } else { x };
    // `.relu` clamps what is negative and keeps NaNs.
    let x = if how.relu && x <= 0.0 { 0.0 } else { x };
    let Some(format) = format(ty) else { return 0 };
    let mut bits = narrow(x, format, how.rounding());
    if ty == PtxType::F32 && x.is_nan() {
        return arithmetic::NAN.to_bits().into();
    }
    if how.finite && !x.is_nan() {
        bits = format.saturated(bits);
    }
    // The upper bits of a word.
    if ty == PtxType::Tf32 {
        return bits << 13;
    }
    if ty == PtxType::F32 && how.ftz {
        return arithmetic::flush(f32::from_bits(bits as u32)).to_bits().into();
    }
    bits
}

/// Sign- or zero-extends the low bits.
#[inline]
fn extend(bits: u64, width: u32, signed: bool) -> u64 {
    let shift = 64 - width;
    if signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift }
}

/// The integer's value.
fn integer_value(bits: u64, ty: PtxType) -> i128 {
    let extended = extend(bits, ty.bits(), ty.is_signed());
    if ty.is_signed() { (extended as i64).into() } else { extended.into() }
}

fn clamp(value: i128, ty: PtxType) -> u64 {
    let bits = ty.bits();
    let (least, most) =
        if ty.is_signed() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    value.clamp(least, most) as u64
}

/// A float as an integer; out of range it saturates, and a NaN is zero, or the top bit where f64 or 64 bits are
/// involved.
fn integer_from_float(x: f64, from: PtxType, to: PtxType, rounding: Rounding) -> u64 {
    if x.is_nan() {
        let top = from == PtxType::F64 || to.bits() == 64;
        return if top { extend(1 << (to.bits() - 1), to.bits(), to.is_signed()) } else { 0 };
    }
    let x = integral(x, rounding);
    match (to.is_signed(), to.bits()) {
        (true, 64) => x as i64 as u64,
        (false, 64) => x as u64,
        (true, 32) => x as i32 as u64,
        (false, 32) => (x as u32).into(),
        // Beyond 127 bits a float saturates as an i128 does.
        _ => clamp(x as i128, to),
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn convert(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        const INTEGRAL: &[(&str, Rounding)] =
            &[("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];
        if line.mods.take("pack") {
            return self.convert_pack(line);
        }
        let how = ConversionModifiers {
            integral: line.mods.take_of(INTEGRAL),
            rounding: line.mods.rounding(),
            random: line.mods.take("rs"),
            ftz: line.mods.take("ftz"),
            saturate: line.mods.take("sat"),
            relu: line.mods.take("relu"),
            finite: line.mods.take("satfinite"),
        };
        let (to, from) = (line.mods.ty()?, line.mods.ty()?);
        if let Some(compute) = self.convert_packed(line, (to, from), how)? {
            return Ok((DecodedOp::Compute(compute), InstClass::Convert));
        }
        let known = |ty: PtxType| ty.is_float() || ty.is_integer() && ty.bits() >= 8;
        if !known(to) || !known(from) || from == PtxType::Tf32 {
            return line.error(format!("`cvt` has no `.{}` from `.{}`", to.name(), from.name()));
        }
        if let Err(what) = how.suits(to, from) {
            return line.error(format!("`cvt` to `.{}` from `.{}` has no {what}", to.name(), from.name()));
        }
        let compute = match (to, from) {
            _ if to.is_integer() && from.is_integer() => {
                if how.saturate {
                    self.one(line, to, from, move |x| clamp(integer_value(x, from), to))?
                } else {
                    // The narrower type decides how the value is extended to the register.
                    let (from_signed, to_signed) = (from.is_signed(), to.is_signed());
                    let (from_bits, to_bits) = (from.bits(), to.bits());
                    self.one(line, to, from, move |x| extend(extend(x, from_bits, from_signed), to_bits, to_signed))?
                }
            }
            _ if to.is_integer() && from.is_float() => self.integer_of_float(line, (to, from), how)?,
            _ if to.is_float() && from.is_integer() => self.float_of_integer(line, (to, from), how)?,
            (PtxType::F16, PtxType::F32) if how.is_plain() => {
                self.one(line, to, from, |x| f16_from_f32(f32::from_bits(x as u32)).into())?
            }
            (PtxType::F32, PtxType::F16) if how.is_plain() => {
                self.one(line, to, from, |x| arithmetic::canonical(f16_to_f32(x as u16)).to_bits().into())?
            }
            _ if to.is_float() && from.is_float() => self.one(line, to, from, move |x| {
                let value = float_value(x, from, how.ftz);
                let value = how.integral.map_or(value, |mode| integral(value, mode));
                float_bits(value, to, how)
            })?,
            _ => unreachable!("integers and floats"),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Convert))
    }

    fn integer_of_float(
        &mut self,
        line: &InstructionLine<'_>,
        (to, from): (PtxType, PtxType),
        how: ConversionModifiers,
    ) -> Decoded<Compute> {
        let rounding = how.integral.unwrap_or(Rounding::Zero);
        match (to, from, rounding) {
            (PtxType::S(32), PtxType::F32, Rounding::Zero) => {
                self.one(line, to, from, |x| f32::from_bits(x as u32) as i32 as u64)
            }
            (PtxType::U(32), PtxType::F32, Rounding::Zero) => {
                self.one(line, to, from, |x| (f32::from_bits(x as u32) as u32).into())
            }
            _ => {
                self.one(line, to, from, move |x| integer_from_float(float_value(x, from, how.ftz), from, to, rounding))
            }
        }
    }

    fn float_of_integer(
        &mut self,
        line: &InstructionLine<'_>,
        (to, from): (PtxType, PtxType),
        how: ConversionModifiers,
    ) -> Decoded<Compute> {
        match (to, from) {
            (PtxType::F32, _) if how.rounding() == Rounding::Nearest && !how.saturate => {
                self.one(line, to, from, move |x| match from {
                    PtxType::S(_) => (extend(x, from.bits(), true) as i64 as f32).to_bits().into(),
                    _ => (extend(x, from.bits(), false) as f32).to_bits().into(),
                })
            }
            (PtxType::F64, _) if how.rounding() == Rounding::Nearest && !how.saturate => {
                self.one(line, to, from, move |x| match from {
                    PtxType::S(_) => (extend(x, from.bits(), true) as i64 as f64).to_bits(),
                    _ => (extend(x, from.bits(), false) as f64).to_bits(),
                })
            }
            _ => self.one(line, to, from, move |x| {
                let value = integer_value(x, from);
                match to {
                    PtxType::F64 => float_bits(f64_from_integer(value, how.rounding()), to, how),
                    PtxType::F32 => float_bits(f32_from_integer(value, how.rounding()).into(), to, how),
                    // A 64-bit integer rounded to odd in f64's 53 bits rounds on as the integer would.
                    _ => {
                        let nearest = f64_from_integer(value, Rounding::Zero);
                        let rest = value - nearest as i128;
                        float_bits(arithmetic::odd(nearest, rest as f64), to, how)
                    }
                }
            }),
        }
    }

    /// One value to one value. Registers may be wider than the types.
    fn one(
        &mut self,
        line: &InstructionLine<'_>,
        to: PtxType,
        from: PtxType,
        f: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        line.check(2, 2)?;
        let all: &[PtxOperand] = &line.instruction.operands;
        let source = self.any_source(&all[1], from)?;
        Ok(match (self.destination(&all[0], to.bits())?, source) {
            (DestRegister::Word(slot, bits), AnySource::Word(a)) => {
                let kept = word_mask(bits);
                map1(Some(slot), a, move |x: u32| f(x.into()) as u32 & kept)
            }
            (DestRegister::Word(slot, bits), AnySource::Double(a)) => {
                let kept = word_mask(bits);
                map1(Some(slot), a, move |x: u64| f(x) as u32 & kept)
            }
            (DestRegister::Double(slot), AnySource::Word(a)) => map1(Some(slot), a, move |x: u32| f(x.into())),
            (DestRegister::Double(slot), AnySource::Double(a)) => map1(Some(slot), a, f),
            (DestRegister::Sink, _) => Box::new(|_, _| {}),
        })
    }

    /// `cvt.pack.sat`: two integers, saturated, over the upper part of a third operand.
    fn convert_pack(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        if !line.mods.take("sat") {
            return line.error("`cvt.pack` needs `.sat`");
        }
        let (to, from) = (line.mods.ty()?, line.mods.ty()?);
        let third = line.mods.optional_ty().is_some();
        line.check(3 + usize::from(third), 3 + usize::from(third))?;
        let all = &line.instruction.operands;
        let to = match to {
            PtxType::U4 => PtxType::U(4),
            PtxType::S4 => PtxType::S(4),
            to => to,
        };
        if !matches!(to, PtxType::U(2 | 4 | 8 | 16) | PtxType::S(2 | 4 | 8 | 16)) || from != PtxType::S(32) {
            return line.mods.no_type(to);
        }
        if third == (to.bits() == 16) {
            return line.error(format!("`cvt.pack` to `.{}` takes {} values", to.name(), if third { 2 } else { 3 }));
        }
        let d = self.slot::<u32>(&all[0], PtxType::B(32))?;
        let (a, b) = (self.source(&all[1], from)?, self.source(&all[2], from)?);
        let c = if third {
            self.source(&all[3], PtxType::B(32))?
        } else {
            crate::exec::registers::SourceOperand::constant(0)
        };
        let bits = to.bits();
        let kept = word_mask(bits);
        let compute = crate::exec::registers::map3(d, a, b, c, move |a: u32, b: u32, c: u32| {
            let part = |x: u32| clamp(integer_value(x.into(), from), to) as u32 & kept;
            let above = if bits == 16 { 0 } else { c << (2 * bits) };
            above | part(a) << bits | part(b)
        });
        Ok((DecodedOp::Compute(compute), InstClass::Convert))
    }
}

fn word_mask(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}
