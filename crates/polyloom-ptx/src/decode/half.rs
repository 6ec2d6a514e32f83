//! f16 and bf16 arithmetic, one or two to a register (PTX ISA 9.0 §9.7.4).

use super::function::FunctionDecoder;
use super::op::DecodedOp;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::Compute;
use crate::number::half::{Bf16Bits, F16Bits, HalfFormat};

/// Says which format, and whether there are two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HalfKind {
    brain: bool,
    packed: bool,
}

impl HalfKind {
    pub(super) fn of(ty: PtxType) -> Option<HalfKind> {
        let (brain, packed) = match ty {
            PtxType::F16 => (false, false),
            PtxType::F16x2 => (false, true),
            PtxType::Bf16 => (true, false),
            PtxType::Bf16x2 => (true, true),
            _ => return None,
        };
        Some(HalfKind { brain, packed })
    }
}

/// Holds what `.oob` looks for, by which copies of tensors fill what is out of bounds. The manual does not give the
/// bits (PTX ISA 9.0 §5.5); these are those of GPUs that have such copies.
const OUT_OF_BOUNDS: u16 = 0x7ff7;

/// Describes what is done to operands and results.
#[derive(Clone, Copy)]
struct HalfFinish {
    ftz: bool,
    saturate: bool,
    relu: bool,
}

impl HalfFinish {
    fn is_nothing(self) -> bool {
        !(self.ftz || self.saturate || self.relu)
    }

    #[inline]
    fn operand<H: HalfFormat>(self, x: H) -> H {
        if self.ftz { x.flushed() } else { x }
    }

    #[inline]
    fn result<H: HalfFormat>(self, x: H) -> H {
        let x = self.operand(x);
        let value = x.to_f32();
        if value.is_nan() {
            // `.sat` makes a NaN zero; `.relu` keeps it.
            return if self.saturate { H::from_bits(0) } else { H::from_bits(0x7fff) };
        }
        if self.saturate {
            return H::from_f32(crate::number::arithmetic::saturate(value));
        }
        if self.relu && value <= 0.0 { H::from_bits(0) } else { x }
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn half(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let ty = line.mods.ty()?;
        let Some(kind) = HalfKind::of(ty) else { return line.mods.no_type(ty) };
        let compute = if kind.brain {
            self.half_of::<Bf16Bits>(line, ty, kind)?
        } else {
            self.half_of::<F16Bits>(line, ty, kind)?
        };
        Ok((DecodedOp::Compute(compute), InstClass::Half))
    }

    fn half_of<H: HalfFormat>(
        &mut self,
        line: &mut InstructionLine<'_>,
        ty: PtxType,
        kind: HalfKind,
    ) -> Decoded<Compute> {
        let opcode = line.instruction.opcode.as_str();
        let (sums, fused) = (matches!(opcode, "add" | "sub" | "mul"), opcode == "fma");
        let rounds = (sums || fused) && line.mods.take("rn");
        if fused && !rounds {
            return line.error("`fma` of halves needs `.rn`");
        }
        let finish = HalfFinish {
            ftz: !kind.brain && line.mods.take("ftz"),
            saturate: !kind.brain && (sums || fused) && line.mods.take("sat"),
            relu: fused && line.mods.take("relu"),
        };
        let bounds = fused && line.mods.take("oob");
        if finish.relu && finish.saturate || bounds && finish.ftz {
            let pair = if bounds { "`.oob` and `.ftz`" } else { "`.relu` and `.sat`" };
            return line.error(format!("{pair} exclude each other"));
        }
        let picks = matches!(opcode, "min" | "max");
        let nan = picks && line.mods.take("NaN");
        let sign = picks && line.mods.take("xorsign");
        if sign && !line.mods.take("abs") {
            return line.error("`.xorsign` goes with `.abs`");
        }
        match opcode {
            "add" => self.half_rounded::<H>(line, ty, kind, finish, |a, b| a + b),
            "sub" => self.half_rounded::<H>(line, ty, kind, finish, |a, b| a - b),
            "mul" => self.half_rounded::<H>(line, ty, kind, finish, |a, b| a * b),
            // The plain case has its own loops, so that they vectorise.
            "fma" if finish.is_nothing() && !bounds => {
                if kind.packed {
                    self.ternary::<u32>(line, ty, |a, b, c| each_half(|x| H::fma(x.of(a), x.of(b), x.of(c))))
                } else {
                    self.ternary::<H>(line, ty, |a, b, c| H::fma(a, b, c))
                }
            }
            "fma" => {
                let f = move |a: H, b: H, c: H| {
                    if bounds && (a.bits() == OUT_OF_BOUNDS || b.bits() == OUT_OF_BOUNDS) {
                        return H::from_bits(0);
                    }
                    let [a, b, c] = [a, b, c].map(|x| finish.operand(x));
                    finish.result(H::fma(a, b, c))
                };
                if kind.packed {
                    self.ternary::<u32>(line, ty, move |a, b, c| each_half(|x| f(x.of(a), x.of(b), x.of(c))))
                } else {
                    self.ternary::<H>(line, ty, f)
                }
            }
            "min" | "max" => {
                let larger = opcode == "max";
                let f = move |a: H, b: H| {
                    let (a, b) = (finish.operand(a), finish.operand(b));
                    let (x, y) = (a.to_f32(), b.to_f32());
                    let flips = sign && x.is_sign_negative() != y.is_sign_negative();
                    let (x, y) = if sign { (x.abs(), y.abs()) } else { (x, y) };
                    let picked = crate::number::arithmetic::extremum(larger, nan, x, y);
                    let picked = if flips { -picked } else { picked };
                    if picked.is_nan() { H::from_bits(0x7fff) } else { H::from_f32(picked) }
                };
                self.half_binary(line, ty, kind, f)
            }
            "neg" | "abs" => {
                let flip = if opcode == "neg" { 0x8000 } else { 0 };
                let f = move |a: H| {
                    let bits = finish.operand(a).bits();
                    H::from_bits(if flip != 0 { bits ^ flip } else { bits & 0x7fff })
                };
                if kind.packed {
                    self.unary::<u32>(line, ty, move |a| each_half(|x| f(x.of(a))))
                } else {
                    self.unary::<H>(line, ty, f)
                }
            }
            _ => line.mods.no_type(ty),
        }
    }

    fn half_binary<H: HalfFormat>(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        kind: HalfKind,
        f: impl Fn(H, H) -> H + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        if kind.packed {
            return self.binary::<u32>(line, ty, move |a, b| each_half(|x| f(x.of(a), x.of(b))));
        }
        self.binary::<H>(line, ty, f)
    }

    /// A sum or product, computed in f32. The plain case has its own loop, so that it vectorises.
    fn half_rounded<H: HalfFormat>(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        kind: HalfKind,
        finish: HalfFinish,
        f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        if finish.is_nothing() {
            return self.half_binary(line, ty, kind, move |a: H, b: H| H::from_f32(f(a.to_f32(), b.to_f32())));
        }
        self.half_binary(line, ty, kind, move |a: H, b: H| {
            let (a, b) = (finish.operand(a), finish.operand(b));
            finish.result(H::from_f32(f(a.to_f32(), b.to_f32())))
        })
    }

    /// A function of halves, computed in f32.
    pub(super) fn half_function(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        kind: HalfKind,
        ftz: bool,
        f: fn(f32) -> f32,
    ) -> Decoded<Compute> {
        let finish = HalfFinish { ftz, saturate: false, relu: false };
        macro_rules! map {
            ($half:ty) => {{
                let f = move |a: $half| finish.result(<$half>::from_f32(f(finish.operand(a).to_f32())));
                if kind.packed {
                    self.unary::<u32>(line, ty, move |a| each_half(|x| f(x.of(a))))
                } else {
                    self.unary::<$half>(line, ty, f)
                }
            }};
        }
        if kind.brain { map!(Bf16Bits) } else { map!(F16Bits) }
    }
}

/// Says which half of a register.
#[derive(Clone, Copy)]
struct HalfPlace(u32);

impl HalfPlace {
    #[inline]
    fn of<H: HalfFormat>(self, word: u32) -> H {
        H::from_bits((word >> self.0) as u16)
    }
}

/// A register of what `f` gives for either half.
#[inline]
fn each_half<H: HalfFormat>(f: impl Fn(HalfPlace) -> H) -> u32 {
    let mut word = 0;
    for bit in [0, 16] {
        word |= u32::from(f(HalfPlace(bit)).bits()) << bit;
    }
    word
}
