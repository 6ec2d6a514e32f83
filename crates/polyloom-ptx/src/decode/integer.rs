//! Integer arithmetic (PTX ISA 9.0 §9.7.1 and §9.7.2, extended precision).

use super::function::FunctionDecoder;
use super::op::DecodedOp;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, LANES, LaneValue, RegisterWord, Slot, SourceOperand, map2, map3, put};

/// Describes what arithmetic on integers of some type needs.
pub(super) trait IntegerType: LaneValue + Ord {
    fn widened(self) -> i128;
    /// The low bits.
    fn wrapped(value: i128) -> Self;
    fn saturated(value: i128) -> Self;
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl IntegerType for $ty {
            #[inline]
            fn widened(self) -> i128 { self.into() }
            #[inline]
            fn wrapped(value: i128) -> Self { value as $ty }
            fn saturated(value: i128) -> Self { value.clamp(<$ty>::MIN.into(), <$ty>::MAX.into()) as $ty }
        })*
    };
}

integers!(u16, i16, u32, i32, u64, i64);

/// Runs a body with `$T` the Rust type of an integer type of PTX; bits count as unsigned.
macro_rules! by_integer {
    ($line:expr, $ty:expr, $T:ident => $body:expr) => {
        match $ty {
            PtxType::U(16) | PtxType::B(16) => {
                type $T = u16;
                $body
            }
            PtxType::S(16) => {
                type $T = i16;
                $body
            }
            PtxType::U(32) | PtxType::B(32) => {
                type $T = u32;
                $body
            }
            PtxType::S(32) => {
                type $T = i32;
                $body
            }
            PtxType::U(64) | PtxType::B(64) => {
                type $T = u64;
                $body
            }
            PtxType::S(64) => {
                type $T = i64;
                $body
            }
            other => return $line.mods.no_type(other),
        }
    };
}
pub(super) use by_integer;

/// Says which part of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProductPart {
    Low,
    High,
    Wide,
}

const PARTS: &[(&str, ProductPart)] =
    &[("lo", ProductPart::Low), ("hi", ProductPart::High), ("wide", ProductPart::Wide)];

/// Signed 24-bit value of a register, or unsigned.
fn low24(value: u32, signed: bool) -> i128 {
    if signed { ((value << 8) as i32 >> 8).into() } else { (value & 0xff_ffff).into() }
}

/// Both halves of a word.
fn pairwise<T: LaneValue<Word = u32>>(f: impl Fn(T, T) -> T) -> impl Fn(u32, u32) -> u32 {
    move |a, b| {
        let low = f(T::from_word(a & 0xffff), T::from_word(b & 0xffff)).into_word();
        low & 0xffff | f(T::from_word(a >> 16), T::from_word(b >> 16)).into_word() << 16
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn integer(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        let multiplies = matches!(opcode, "mul" | "mad" | "madc" | "mul24" | "mad24" | "dp2a");
        let part = if multiplies { line.mods.take_of(PARTS) } else { None };
        let saturating = matches!(opcode, "add" | "sub" | "mad" | "mad24") && line.mods.take("sat");
        let carries = matches!(opcode, "add" | "sub" | "mad" | "addc" | "subc" | "madc");
        let carry_out = carries && line.mods.take("cc");
        let relu = matches!(opcode, "min" | "max") && line.mods.take("relu");
        if let "dp4a" | "dp2a" = opcode {
            return self.dot_product(line, part);
        }
        let ty = line.mods.ty()?;
        // The upper half alone of products.
        let has_saturation = ty == PtxType::S(32) && matches!(part, None | Some(ProductPart::High)) && !carry_out;
        if saturating && !has_saturation {
            return line.error(format!("`{opcode}` has no `.sat` with `.{}`", ty.name()));
        }
        if relu && !matches!(ty, PtxType::S(32) | PtxType::S16x2) {
            return line.error(format!("`{opcode}` has no `.relu` with `.{}`", ty.name()));
        }
        if matches!(opcode, "mad" | "madc")
            && !matches!(part, Some(ProductPart::Low | ProductPart::High))
            && (carry_out || opcode == "madc")
        {
            return line.error("a product with a carry needs `.lo` or `.hi`");
        }
        let packed = matches!(ty, PtxType::U16x2 | PtxType::S16x2);
        if !packed && carry_out || matches!(opcode, "addc" | "subc" | "madc") {
            return self.with_carry(line, ty, part, carry_out);
        }
        if packed && carry_out {
            return line.error(format!("`{opcode}` has no `.cc` with `.{}`", ty.name()));
        }
        if packed {
            return self.packed_integer(line, ty, relu);
        }
        let compute = match (opcode, part) {
            ("add", _) if saturating => self.binary::<i32>(line, ty, |a, b| a.saturating_add(b))?,
            ("sub", _) if saturating => self.binary::<i32>(line, ty, |a, b| a.saturating_sub(b))?,
            ("add", _) => by_integer!(line, ty, T => self.binary::<T>(line, ty, |a, b| a.wrapping_add(b))?),
            ("sub", _) => by_integer!(line, ty, T => self.binary::<T>(line, ty, |a, b| a.wrapping_sub(b))?),
            ("mul", Some(ProductPart::Low)) => {
                by_integer!(line, ty, T => self.binary::<T>(line, ty, |a, b| a.wrapping_mul(b))?)
            }
            ("mul", Some(ProductPart::High)) => by_integer!(line, ty, T => {
                self.binary::<T>(line, ty, |a, b| T::wrapped((a.widened().wrapping_mul(b.widened())) >> T::BITS))?
            }),
            ("mul" | "mad", Some(ProductPart::Wide)) => self.wide(line, ty)?,
            ("mad", Some(ProductPart::Low)) => by_integer!(line, ty, T => {
                self.ternary::<T>(line, ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c))?
            }),
            ("mad", Some(ProductPart::High)) if saturating => self.ternary::<i32>(line, ty, |a, b, c| {
                i32::saturated(((a.widened() * b.widened()) >> 32) + c.widened())
            })?,
            ("mad", Some(ProductPart::High)) => by_integer!(line, ty, T => self.ternary::<T>(line, ty, |a, b, c| {
                T::wrapped((a.widened().wrapping_mul(b.widened()) >> T::BITS).wrapping_add(c.widened()))
            })?),
            ("mul" | "mad", None) => return line.error("an integer product needs `.lo`, `.hi` or `.wide`"),
            ("mul24" | "mad24", Some(part @ (ProductPart::Low | ProductPart::High))) => {
                self.product24(line, ty, part, saturating)?
            }
            ("sad", _) => by_integer!(line, ty, T => {
                self.ternary::<T>(line, ty, |a, b, c| T::wrapped((a.widened() - b.widened()).abs() + c.widened()))?
            }),
            // Division by zero gives what the hardware gives: all ones, and the dividend as the remainder.
            ("div", _) => by_integer!(line, ty, T => {
                self.binary::<T>(line, ty, |a, b| if b == 0 { T::wrapped(-1) } else { a.wrapping_div(b) })?
            }),
            ("rem", _) => by_integer!(line, ty, T => {
                self.binary::<T>(line, ty, |a, b| if b == 0 { a } else { a.wrapping_rem(b) })?
            }),
            ("abs", _) => by_integer!(line, ty, T => self.unary::<T>(line, ty, |a| T::wrapped(a.widened().abs()))?),
            ("neg", _) => by_integer!(line, ty, T => self.unary::<T>(line, ty, |a| T::wrapped(-a.widened()))?),
            ("min" | "max", _) if relu => {
                let larger = opcode == "max";
                self.binary::<i32>(line, ty, move |a, b| if larger { a.max(b) } else { a.min(b) }.max(0))?
            }
            ("min", _) => by_integer!(line, ty, T => self.binary::<T>(line, ty, |a, b| a.min(b))?),
            ("max", _) => by_integer!(line, ty, T => self.binary::<T>(line, ty, |a, b| a.max(b))?),
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    /// `mul.wide` and `mad.wide`: the result has twice the bits.
    fn wide(&mut self, line: &InstructionLine<'_>, ty: PtxType) -> Decoded<Compute> {
        let all = &line.instruction.operands;
        let adds = line.instruction.opcode == "mad";
        line.check(3 + usize::from(adds), 3 + usize::from(adds))?;
        macro_rules! widen {
            ($narrow:ty, $wide:ty, $result:expr) => {{
                let d = self.slot::<<$wide as LaneValue>::Word>(&all[0], $result)?;
                let (a, b) = (self.source(&all[1], ty)?, self.source(&all[2], ty)?);
                if adds {
                    let c = self.source(&all[3], $result)?;
                    map3(d, a, b, c, |a: $narrow, b: $narrow, c: $wide| {
                        (<$wide>::from(a) * <$wide>::from(b)).wrapping_add(c)
                    })
                } else {
                    map2(d, a, b, |a: $narrow, b: $narrow| <$wide>::from(a) * <$wide>::from(b))
                }
            }};
        }
        Ok(match ty {
            PtxType::U(16) => widen!(u16, u32, PtxType::U(32)),
            PtxType::S(16) => widen!(i16, i32, PtxType::S(32)),
            PtxType::U(32) => widen!(u32, u64, PtxType::U(64)),
            PtxType::S(32) => widen!(i32, i64, PtxType::S(64)),
            other => return line.mods.no_type(other),
        })
    }

    /// Products of the lower 24 bits.
    fn product24(
        &mut self,
        line: &mut InstructionLine<'_>,
        ty: PtxType,
        part: ProductPart,
        saturating: bool,
    ) -> Decoded<Compute> {
        let signed = ty.is_signed();
        if !matches!(ty, PtxType::U(32) | PtxType::S(32)) {
            return line.mods.no_type(ty);
        }
        // The upper or lower 32 of the 48 bits.
        let shift = if part == ProductPart::High { 16 } else { 0 };
        if line.instruction.opcode == "mul24" {
            self.binary::<u32>(line, ty, move |a, b| ((low24(a, signed) * low24(b, signed)) >> shift) as u32)
        } else {
            self.ternary::<u32>(line, ty, move |a, b, c| {
                let product = (low24(a, signed) * low24(b, signed)) >> shift;
                if saturating {
                    i32::saturated(i128::from(product as i32) + i128::from(c as i32)) as u32
                } else {
                    (product as u32).wrapping_add(c)
                }
            })
        }
    }

    fn packed_integer(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        relu: bool,
    ) -> Decoded<(DecodedOp, InstClass)> {
        let signed = ty == PtxType::S16x2;
        let compute = match (line.instruction.opcode.as_str(), signed) {
            ("add", _) => self.binary::<u32>(line, ty, pairwise(u16::wrapping_add))?,
            ("sub", _) => self.binary::<u32>(line, ty, pairwise(u16::wrapping_sub))?,
            ("min", false) => self.binary::<u32>(line, ty, pairwise(<u16 as Ord>::min))?,
            ("max", false) => self.binary::<u32>(line, ty, pairwise(<u16 as Ord>::max))?,
            ("min", true) if relu => self.binary::<u32>(line, ty, pairwise(|a: i16, b| a.min(b).max(0)))?,
            ("max", true) if relu => self.binary::<u32>(line, ty, pairwise(|a: i16, b| a.max(b).max(0)))?,
            ("min", true) => self.binary::<u32>(line, ty, pairwise(<i16 as Ord>::min))?,
            ("max", true) => self.binary::<u32>(line, ty, pairwise(<i16 as Ord>::max))?,
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    fn with_carry(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        part: Option<ProductPart>,
        writes: bool,
    ) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        let signed = ty.is_signed();
        let carry = self.carry();
        let reads = opcode.ends_with('c');
        let initial = if opcode.starts_with("sub") { !0 } else { 0 };
        let rule = CarryUse { slot: carry, reads, writes, initial };
        macro_rules! chain {
            ($word:ty, $half:expr) => {{
                let all = &line.instruction.operands;
                let multiplies = opcode.starts_with("mad");
                line.check(3 + usize::from(multiplies), 3 + usize::from(multiplies))?;
                let d = self.slot::<$word>(&all[0], ty)?;
                let (a, b) = (self.source::<$word>(&all[1], ty)?, self.source::<$word>(&all[2], ty)?);
                if multiplies {
                    let c = self.source::<$word>(&all[3], ty)?;
                    let shift = if part == Some(ProductPart::High) { <$word>::BITS } else { 0 };
                    carry_chain(d, [a, b, c], rule, move |a: $word, b, c, carry| {
                        let product = if signed {
                            (($half(a) * $half(b)) >> shift) as $word
                        } else {
                            ((u128::from(a) * u128::from(b)) >> shift) as $word
                        };
                        let (sum, first) = product.overflowing_add(c);
                        let (sum, second) = sum.overflowing_add(carry.into());
                        (sum, first || second)
                    })
                } else if opcode.starts_with("add") {
                    carry_chain(d, [a, b.clone(), b], rule, |a: $word, b, _, carry| {
                        let (sum, first) = a.overflowing_add(b);
                        let (sum, second) = sum.overflowing_add(carry.into());
                        (sum, first || second)
                    })
                } else if opcode.starts_with("sub") {
                    // As `a + !b + carry`: the carry of a difference is that nothing was borrowed, which `addc` reads too.
                    carry_chain(d, [a, b.clone(), b], rule, |a: $word, b, _, carry| {
                        let (difference, first) = a.overflowing_sub(b);
                        let (difference, second) = difference.overflowing_sub((!carry).into());
                        (difference, !(first || second))
                    })
                } else {
                    return line.error(format!("`{opcode}` has no `.cc`"));
                }
            }};
        }
        let compute = match ty.bits() {
            32 => chain!(u32, |x: u32| i128::from(x as i32)),
            64 => chain!(u64, |x: u64| i128::from(x as i64)),
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }

    /// `dp4a` and `dp2a`: sums of products of bytes, or of halves and bytes.
    fn dot_product(
        &mut self,
        line: &mut InstructionLine<'_>,
        part: Option<ProductPart>,
    ) -> Decoded<(DecodedOp, InstClass)> {
        let (a_type, b_type) = (line.mods.ty()?, line.mods.ty()?);
        let (a_signed, b_signed) = (a_type.is_signed(), b_type.is_signed());
        let narrow = |value: u32, bits: u32, at: u32, signed: bool| -> i32 {
            let field = value >> (at * bits) << (32 - bits);
            if signed { field as i32 >> (32 - bits) } else { (field >> (32 - bits)) as i32 }
        };
        let four = line.instruction.opcode == "dp4a";
        if !four && !matches!(part, Some(ProductPart::Low | ProductPart::High)) {
            return line.error("`dp2a` needs `.lo` or `.hi`");
        }
        let first = if part == Some(ProductPart::High) { 2 } else { 0 };
        let compute = self.ternary::<u32>(line, PtxType::U(32), move |a, b, c| {
            let (n, bits, first) = if four { (4, 8, 0) } else { (2, 16, first) };
            let products =
                (0..n).map(|at| narrow(a, bits, at, a_signed).wrapping_mul(narrow(b, 8, first + at, b_signed)) as u32);
            products.fold(c, u32::wrapping_add)
        })?;
        Ok((DecodedOp::Compute(compute), InstClass::Integer))
    }
}

/// Says which instructions of a chain read and write the carry.
#[derive(Clone, Copy)]
struct CarryUse {
    slot: u32,
    reads: bool,
    writes: bool,
    /// Holds what lanes begin with where it is not read.
    initial: u32,
}

fn carry_chain<T: RegisterWord>(
    d: Slot,
    [a, b, c]: [SourceOperand<T>; 3],
    carry: CarryUse,
    f: impl Fn(T, T, T, bool) -> (T, bool) + Send + Sync + 'static,
) -> Compute {
    Box::new(move |registers, mask| {
        let before = if carry.reads { registers.predicate(carry.slot) } else { carry.initial };
        let mut out = [T::default(); LANES];
        let mut after = 0;
        let (a, b, c) = (a.get(registers), b.get(registers), c.get(registers));
        for lane in 0..LANES {
            let (value, carried) = f(a[lane], b[lane], c[lane], before >> lane & 1 != 0);
            out[lane] = value;
            after |= u32::from(carried) << lane;
        }
        put(registers, d, &out, mask);
        if carry.writes {
            registers.set_predicate(carry.slot, after, mask);
        }
    })
}
