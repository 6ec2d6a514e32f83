//! `cvt` of packed values: halves, and the formats of eight bits and fewer, two or four to a register (PTX ISA 9.2
//! §9.7.9.22).
//!
//! A scale factor `ue8m0` is the power of two of an f32's exponent; like NVIDIA's headers, a conversion to it takes the
//! magnitude. `s2f6` is a signed byte of 64ths.

use super::convert::ConversionModifiers;
use super::function::FunctionDecoder;
use super::types::PtxType;
use super::{Decoded, InstructionLine};
use crate::exec::registers::{Compute, LANES, RegisterFiles, SourceOperand, map2, put};
use crate::number::Rounding;
use crate::number::half::{bf16_from_f32, f16_from_f32};
use crate::number::narrow::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, NarrowFormat, narrow, narrow_randomly, widen};
use crate::syntax::ast::PtxOperand;

/// Describes what one value of a packed register is.
#[derive(Clone, Copy, Debug)]
enum PackedElement {
    Float(NarrowFormat),
    /// `ue8m0`
    Scale,
    /// `s2f6`
    Fixed,
}

/// A packed type.
#[derive(Clone, Copy, Debug)]
struct PackedType {
    element: PackedElement,
    /// Says how many.
    count: u32,
    /// Bits from one to the next.
    stride: u32,
}

impl PackedType {
    fn of(ty: PtxType) -> Option<PackedType> {
        let (element, count, stride) = match ty {
            PtxType::F16x2 => (PackedElement::Float(F16), 2, 16),
            PtxType::Bf16x2 => (PackedElement::Float(BF16), 2, 16),
            PtxType::E4m3x2 => (PackedElement::Float(E4M3), 2, 8),
            PtxType::E5m2x2 => (PackedElement::Float(E5M2), 2, 8),
            PtxType::E3m2x2 => (PackedElement::Float(E3M2), 2, 8),
            PtxType::E2m3x2 => (PackedElement::Float(E2M3), 2, 8),
            PtxType::E2m1x2 => (PackedElement::Float(E2M1), 2, 4),
            PtxType::E4m3x4 => (PackedElement::Float(E4M3), 4, 8),
            PtxType::E5m2x4 => (PackedElement::Float(E5M2), 4, 8),
            PtxType::E3m2x4 => (PackedElement::Float(E3M2), 4, 8),
            PtxType::E2m3x4 => (PackedElement::Float(E2M3), 4, 8),
            PtxType::E2m1x4 => (PackedElement::Float(E2M1), 4, 4),
            PtxType::Ue8m0x2 => (PackedElement::Scale, 2, 8),
            PtxType::S2f6x2 => (PackedElement::Fixed, 2, 8),
            _ => return None,
        };
        Some(PackedType { element, count, stride })
    }

    /// The random bits for the value `index`, counted from the lowest, and how many they are.
    fn random(self, bits: u32, index: u32) -> (u32, u32) {
        match (self.count, self.stride) {
            // Two values of e2m1 share a byte of each half.
            (4, 4) => {
                let bytes = bits >> (index / 2 * 8);
                (bytes >> 8 & 0xff00 | bytes & 0xff, 16)
            }
            (4, _) => (bits >> (index / 2 * 16) & 0xffff, 16),
            _ => match self.element {
                // As many as an f32 has more.
                PackedElement::Float(NarrowFormat { fraction_bits: 10, .. }) => (bits >> (16 * index) & 0x1fff, 13),
                _ => (bits >> (16 * index) & 0xffff, 16),
            },
        }
    }
}

impl PackedElement {
    /// The value of the lowest bits, exact.
    #[inline]
    fn value(self, bits: u32) -> f64 {
        match self {
            PackedElement::Float(format) => widen(bits.into(), format),
            PackedElement::Scale => scale(bits),
            PackedElement::Fixed => f64::from(bits as u8 as i8) / 64.0,
        }
    }

    #[inline]
    fn bits(self, x: f64, how: ConversionModifiers, random: Option<(u32, u32)>) -> u32 {
        // `.relu` clamps what is negative and keeps NaNs.
        let x = if how.relu && x <= 0.0 { 0.0 } else { x };
        match self {
            PackedElement::Float(format) => {
                let bits = match random {
                    None => narrow(x, format, how.rounding()),
                    Some(random) => narrow_randomly(x, format, random),
                };
                (if how.finite && !x.is_nan() { format.saturated(bits) } else { bits }) as u32
            }
            PackedElement::Scale => scale_bits(x, how.rounding() == Rounding::Up, how.finite),
            // A NaN becomes the largest number, as in the formats that have none.
            PackedElement::Fixed if x.is_nan() => 0x7f,
            PackedElement::Fixed => u32::from((x * 64.0).round_ties_even() as i8 as u8),
        }
    }
}

/// The power of two that `ue8m0` bits stand for.
fn scale(bits: u32) -> f64 {
    if bits & 0xff == 0xff { f64::NAN } else { f64::exp2(f64::from(bits & 0xff) - 127.0) }
}

/// The power of two below `x`, or above it, as `ue8m0`.
fn scale_bits(x: f64, up: bool, finite: bool) -> u32 {
    if x.is_nan() {
        return 0xff;
    }
    let bits = x.abs().to_bits();
    let between = up && bits & ((1 << 52) - 1) != 0;
    let exponent = (bits >> 52) as i32 - 1023 + i32::from(between);
    (exponent + 127).clamp(0, if finite { 0xfe } else { 0xff }) as u32
}

/// Describes what a conversion between two types may and must say.
struct ConversionRule {
    roundings: &'static [Rounding],
    /// `.rs`
    random: bool,
    relu: bool,
    /// `.satfinite`
    finite: FiniteMode,
    /// `.scaled::n2::ue8m0`
    scaled: bool,
}

impl ConversionRule {
    /// Says what is missing or too much of what a conversion says, behind its name.
    fn allows(&self, how: ConversionModifiers, scaled: bool) -> Result<(), String> {
        let rounds = match how.rounding {
            Some(mode) => self.roundings.contains(&mode) && !how.random,
            None => how.random && self.random,
        };
        if !rounds {
            return Err("needs another rounding".to_owned());
        }
        if self.finite == FiniteMode::Always && !how.finite {
            return Err("needs `.satfinite`".to_owned());
        }
        let wrong = [
            (how.relu && !self.relu, "relu"),
            (how.finite && self.finite == FiniteMode::Never, "satfinite"),
            (scaled && !self.scaled, "scaled::n2::ue8m0"),
            (how.ftz, "ftz"),
            (how.saturate, "sat"),
            (how.integral.is_some(), "rni"),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, name)) => Err(format!("has no `.{name}`")),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FiniteMode {
    Never,
    Possible,
    Always,
}

fn rule(to: PtxType, from: PtxType) -> Option<ConversionRule> {
    use Rounding::{Nearest, Up, Zero};
    let small =
        |ty| matches!(ty, PtxType::E4m3x2 | PtxType::E5m2x2 | PtxType::E3m2x2 | PtxType::E2m3x2 | PtxType::E2m1x2);
    let four =
        |ty| matches!(ty, PtxType::E4m3x4 | PtxType::E5m2x4 | PtxType::E3m2x4 | PtxType::E2m3x4 | PtxType::E2m1x4);
    let plain =
        ConversionRule { roundings: &[Nearest], random: false, relu: true, finite: FiniteMode::Always, scaled: false };
    Some(match (to, from) {
        (PtxType::F16x2 | PtxType::Bf16x2, PtxType::F32) => {
            ConversionRule { roundings: &[Nearest, Zero], random: true, finite: FiniteMode::Possible, ..plain }
        }
        (to, PtxType::F32 | PtxType::F16x2 | PtxType::Bf16x2) if small(to) => plain,
        (to, PtxType::F32) if four(to) => ConversionRule { roundings: &[], random: true, ..plain },
        (PtxType::S2f6x2, PtxType::F32 | PtxType::Bf16x2) => ConversionRule { scaled: true, ..plain },
        (PtxType::Ue8m0x2, PtxType::F32 | PtxType::Bf16x2) => {
            ConversionRule { roundings: &[Zero, Up], relu: false, finite: FiniteMode::Possible, ..plain }
        }
        (PtxType::F16x2, from) if small(from) => ConversionRule { finite: FiniteMode::Never, ..plain },
        (PtxType::Bf16x2, from) if small(from) || from == PtxType::S2f6x2 => {
            ConversionRule { finite: FiniteMode::Possible, scaled: true, ..plain }
        }
        (PtxType::Bf16x2, PtxType::Ue8m0x2) => ConversionRule { relu: false, finite: FiniteMode::Never, ..plain },
        _ => return None,
    })
}

/// Says where the values come from.
enum PackedInput {
    /// f32, the lowest value's first.
    Singles(Vec<SourceOperand<u32>>),
    Packed(SourceOperand<u32>, PackedType),
}

impl PackedInput {
    #[inline]
    fn value(&self, registers: &RegisterFiles, lane: usize, index: u32) -> f64 {
        match self {
            PackedInput::Singles(all) => f32::from_bits(all[index as usize].get(registers)[lane]).into(),
            PackedInput::Packed(source, packed) => {
                packed.element.value(source.get(registers)[lane] >> (packed.stride * index))
            }
        }
    }
}

impl FunctionDecoder<'_> {
    /// A conversion one of whose types is packed; `None` if neither is.
    pub(super) fn convert_packed(
        &mut self,
        line: &mut InstructionLine<'_>,
        (to, from): (PtxType, PtxType),
        how: ConversionModifiers,
    ) -> Decoded<Option<Compute>> {
        if PackedType::of(to).is_none() && PackedType::of(from).is_none() {
            return Ok(None);
        }
        let names = format!("`cvt` to `.{}` from `.{}`", to.name(), from.name());
        let (Some(rule), Some(target)) = (rule(to, from), PackedType::of(to)) else {
            return line.error(format!("the simulator has no {names}"));
        };
        let scaled = line.mods.take("scaled::n2::ue8m0");
        if let Err(what) = rule.allows(how, scaled) {
            return line.error(format!("{names} {what}"));
        }
        let all = &line.instruction.operands;
        let inputs = if from == PtxType::F32 && target.count == 2 { 2 } else { 1 };
        let count = 1 + inputs + usize::from(how.random) + usize::from(scaled);
        line.check(count, count)?;
        let d = self.slot::<u32>(&all[0], to)?;
        let input = match (PackedType::of(from), &all[1]) {
            (Some(packed), operand) => PackedInput::Packed(self.source(operand, from)?, packed),
            (None, PtxOperand::Vector(four)) if target.count == 4 && four.len() == 4 => {
                PackedInput::Singles(four.iter().rev().map(|each| self.source(each, from)).collect::<Decoded<_>>()?)
            }
            (None, operand) if target.count == 2 => {
                PackedInput::Singles(vec![self.source(&all[2], from)?, self.source(operand, from)?])
            }
            _ => return line.error(format!("{names} takes four values in braces")),
        };
        let last = &all[count - 1];
        let random: Option<SourceOperand<u32>> = how.random.then(|| self.source(last, PtxType::B(32))).transpose()?;
        if matches!(random, Some(SourceOperand::Constant(_))) {
            return line.error(format!("the random bits are in a register, `{last}` is none"));
        }
        let scales: Option<SourceOperand<u32>> = scaled.then(|| self.source(last, PtxType::B(16))).transpose()?;
        if let (PackedInput::Singles(values), true, None) = (&input, how.is_plain(), &random)
            && let [low, high] = &values[..]
            && let Some(narrowed) = match to {
                PtxType::F16x2 => Some(f16_from_f32 as fn(f32) -> u16),
                PtxType::Bf16x2 => Some(bf16_from_f32 as fn(f32) -> u16),
                _ => None,
            }
        {
            let pair = move |high: f32, low: f32| u32::from(narrowed(high)) << 16 | u32::from(narrowed(low));
            return Ok(Some(map2(d, high.clone(), low.clone(), pair)));
        }
        // To a narrower format the input is divided by its scale, from one the result is multiplied with it.
        let divides = !matches!(to, PtxType::Bf16x2);
        Ok(Some(Box::new(move |registers, mask| {
            let mut out = [0u32; LANES];
            for (lane, out) in out.iter_mut().enumerate() {
                let random = random.as_ref().map(|source| source.get(registers)[lane]);
                let scales = scales.as_ref().map(|source| source.get(registers)[lane]);
                for index in 0..target.count {
                    let x = input.value(registers, lane, index);
                    let x = match scales.map(|bits| scale(bits >> (8 * index))) {
                        None => x,
                        Some(scale) if divides => x / scale,
                        Some(scale) => x * scale,
                    };
                    let random = random.map(|bits| target.random(bits, index));
                    *out |= target.element.bits(x, how, random) << (target.stride * index);
                }
            }
            put(registers, d, &out, mask);
        })))
    }
}
