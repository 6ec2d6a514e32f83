//! `cvt` of packed values: halves, and the formats of eight bits and fewer, two or four to a register (PTX ISA 9.2
//! §9.7.9.22).
//!
//! A scale factor `ue8m0` is the power of two of an f32's exponent; like NVIDIA's headers, a conversion to it takes the
//! magnitude. `s2f6` is a signed byte of 64ths.

use super::convert::How;
use super::function::Decoder;
use super::types::Type;
use super::{Decoded, Line};
use crate::exec::registers::{Compute, LANES, Registers, Source, map2, put};
use crate::number::Rounding;
use crate::number::half::{bf16_from_f32, f16_from_f32};
use crate::number::narrow::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, Format, narrow, narrow_randomly, widen};
use crate::syntax::ast::Operand;

/// Describes what one value of a packed register is.
#[derive(Clone, Copy, Debug)]
enum Element {
    Float(Format),
    /// `ue8m0`
    Scale,
    /// `s2f6`
    Fixed,
}

/// A packed type.
#[derive(Clone, Copy, Debug)]
struct Packed {
    element: Element,
    /// Says how many.
    count: u32,
    /// Bits from one to the next.
    stride: u32,
}

impl Packed {
    fn of(ty: Type) -> Option<Packed> {
        let (element, count, stride) = match ty {
            Type::F16x2 => (Element::Float(F16), 2, 16),
            Type::Bf16x2 => (Element::Float(BF16), 2, 16),
            Type::E4m3x2 => (Element::Float(E4M3), 2, 8),
            Type::E5m2x2 => (Element::Float(E5M2), 2, 8),
            Type::E3m2x2 => (Element::Float(E3M2), 2, 8),
            Type::E2m3x2 => (Element::Float(E2M3), 2, 8),
            Type::E2m1x2 => (Element::Float(E2M1), 2, 4),
            Type::E4m3x4 => (Element::Float(E4M3), 4, 8),
            Type::E5m2x4 => (Element::Float(E5M2), 4, 8),
            Type::E3m2x4 => (Element::Float(E3M2), 4, 8),
            Type::E2m3x4 => (Element::Float(E2M3), 4, 8),
            Type::E2m1x4 => (Element::Float(E2M1), 4, 4),
            Type::Ue8m0x2 => (Element::Scale, 2, 8),
            Type::S2f6x2 => (Element::Fixed, 2, 8),
            _ => return None,
        };
        Some(Packed { element, count, stride })
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
                Element::Float(Format { fraction_bits: 10, .. }) => (bits >> (16 * index) & 0x1fff, 13),
                _ => (bits >> (16 * index) & 0xffff, 16),
            },
        }
    }
}

impl Element {
    /// The value of the lowest bits, exact.
    #[inline]
    fn value(self, bits: u32) -> f64 {
        match self {
            Element::Float(format) => widen(bits.into(), format),
            Element::Scale => scale(bits),
            Element::Fixed => f64::from(bits as u8 as i8) / 64.0,
        }
    }

    #[inline]
    fn bits(self, x: f64, how: How, random: Option<(u32, u32)>) -> u32 {
        // `.relu` clamps what is negative and keeps NaNs.
        let x = if how.relu && x <= 0.0 { 0.0 } else { x };
        match self {
            Element::Float(format) => {
                let bits = match random {
                    None => narrow(x, format, how.rounding()),
                    Some(random) => narrow_randomly(x, format, random),
                };
                (if how.finite && !x.is_nan() { format.saturated(bits) } else { bits }) as u32
            }
            Element::Scale => scale_bits(x, how.rounding() == Rounding::Up, how.finite),
            // A NaN becomes the largest number, as in the formats that have none.
            Element::Fixed if x.is_nan() => 0x7f,
            Element::Fixed => u32::from((x * 64.0).round_ties_even() as i8 as u8),
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
struct Rule {
    roundings: &'static [Rounding],
    /// `.rs`
    random: bool,
    relu: bool,
    /// `.satfinite`
    finite: Finite,
    /// `.scaled::n2::ue8m0`
    scaled: bool,
}

impl Rule {
    /// Says what is missing or too much of what a conversion says, behind its name.
    fn allows(&self, how: How, scaled: bool) -> Result<(), String> {
        let rounds = match how.rounding {
            Some(mode) => self.roundings.contains(&mode) && !how.random,
            None => how.random && self.random,
        };
        if !rounds {
            return Err("needs another rounding".to_owned());
        }
        if self.finite == Finite::Always && !how.finite {
            return Err("needs `.satfinite`".to_owned());
        }
        let wrong = [
            (how.relu && !self.relu, "relu"),
            (how.finite && self.finite == Finite::Never, "satfinite"),
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
enum Finite {
    Never,
    Possible,
    Always,
}

fn rule(to: Type, from: Type) -> Option<Rule> {
    use Rounding::{Nearest, Up, Zero};
    let small = |ty| matches!(ty, Type::E4m3x2 | Type::E5m2x2 | Type::E3m2x2 | Type::E2m3x2 | Type::E2m1x2);
    let four = |ty| matches!(ty, Type::E4m3x4 | Type::E5m2x4 | Type::E3m2x4 | Type::E2m3x4 | Type::E2m1x4);
    let plain = Rule { roundings: &[Nearest], random: false, relu: true, finite: Finite::Always, scaled: false };
    Some(match (to, from) {
        (Type::F16x2 | Type::Bf16x2, Type::F32) => {
            Rule { roundings: &[Nearest, Zero], random: true, finite: Finite::Possible, ..plain }
        }
        (to, Type::F32 | Type::F16x2 | Type::Bf16x2) if small(to) => plain,
        (to, Type::F32) if four(to) => Rule { roundings: &[], random: true, ..plain },
        (Type::S2f6x2, Type::F32 | Type::Bf16x2) => Rule { scaled: true, ..plain },
        (Type::Ue8m0x2, Type::F32 | Type::Bf16x2) => {
            Rule { roundings: &[Zero, Up], relu: false, finite: Finite::Possible, ..plain }
        }
        (Type::F16x2, from) if small(from) => Rule { finite: Finite::Never, ..plain },
        (Type::Bf16x2, from) if small(from) || from == Type::S2f6x2 => {
            Rule { finite: Finite::Possible, scaled: true, ..plain }
        }
        (Type::Bf16x2, Type::Ue8m0x2) => Rule { relu: false, finite: Finite::Never, ..plain },
        _ => return None,
    })
}

/// Says where the values come from.
enum Input {
    /// f32, the lowest value's first.
    Singles(Vec<Source<u32>>),
    Packed(Source<u32>, Packed),
}

impl Input {
    #[inline]
    fn value(&self, registers: &Registers, lane: usize, index: u32) -> f64 {
        match self {
            Input::Singles(all) => f32::from_bits(all[index as usize].get(registers)[lane]).into(),
            Input::Packed(source, packed) => {
                packed.element.value(source.get(registers)[lane] >> (packed.stride * index))
            }
        }
    }
}

impl Decoder<'_> {
    /// A conversion one of whose types is packed; `None` if neither is.
    pub(super) fn convert_packed(
        &mut self,
        line: &mut Line<'_>,
        (to, from): (Type, Type),
        how: How,
    ) -> Decoded<Option<Compute>> {
        if Packed::of(to).is_none() && Packed::of(from).is_none() {
            return Ok(None);
        }
        let names = format!("`cvt` to `.{}` from `.{}`", to.name(), from.name());
        let (Some(rule), Some(target)) = (rule(to, from), Packed::of(to)) else {
            return line.error(format!("the simulator has no {names}"));
        };
        let scaled = line.mods.take("scaled::n2::ue8m0");
        if let Err(what) = rule.allows(how, scaled) {
            return line.error(format!("{names} {what}"));
        }
        let all = &line.instruction.operands;
        let inputs = if from == Type::F32 && target.count == 2 { 2 } else { 1 };
        let count = 1 + inputs + usize::from(how.random) + usize::from(scaled);
        line.check(count, count)?;
        let d = self.slot::<u32>(&all[0], to)?;
        let input = match (Packed::of(from), &all[1]) {
            (Some(packed), operand) => Input::Packed(self.source(operand, from)?, packed),
            (None, Operand::Vector(four)) if target.count == 4 && four.len() == 4 => {
                Input::Singles(four.iter().rev().map(|each| self.source(each, from)).collect::<Decoded<_>>()?)
            }
            (None, operand) if target.count == 2 => {
                Input::Singles(vec![self.source(&all[2], from)?, self.source(operand, from)?])
            }
            _ => return line.error(format!("{names} takes four values in braces")),
        };
        let last = &all[count - 1];
        let random: Option<Source<u32>> = how.random.then(|| self.source(last, Type::B(32))).transpose()?;
        if matches!(random, Some(Source::Constant(_))) {
            return line.error(format!("the random bits are in a register, `{last}` is none"));
        }
        let scales: Option<Source<u32>> = scaled.then(|| self.source(last, Type::B(16))).transpose()?;
        if let (Input::Singles(values), true, None) = (&input, how.is_plain(), &random)
            && let [low, high] = &values[..]
            && let Some(narrowed) = match to {
                Type::F16x2 => Some(f16_from_f32 as fn(f32) -> u16),
                Type::Bf16x2 => Some(bf16_from_f32 as fn(f32) -> u16),
                _ => None,
            }
        {
            let pair = move |high: f32, low: f32| u32::from(narrowed(high)) << 16 | u32::from(narrowed(low));
            return Ok(Some(map2(d, high.clone(), low.clone(), pair)));
        }
        // To a narrower format the input is divided by its scale, from one the result is multiplied with it.
        let divides = !matches!(to, Type::Bf16x2);
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
