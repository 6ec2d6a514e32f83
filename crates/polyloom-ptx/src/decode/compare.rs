//! Comparison and selection (PTX ISA 9.0 §9.7.6 and §9.7.7).

use super::function::FunctionDecoder;
use super::half::HalfKind;
use super::integer::by_integer;
use super::op::DecodedOp;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{
    Compute, LANES, LaneValue, PredicateTest, RegisterFiles, RegisterWord, SourceOperand, lanes_where, put,
};
use crate::number::arithmetic::flush;
use crate::number::half::{Bf16Bits, F16Bits, HalfFormat};
use crate::syntax::ast::PtxOperand;

/// Describes what is asked of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CompareRelation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Of floats: neither is a NaN.
    Ordered,
    /// Of floats: one is a NaN.
    Unordered,
}

use CompareRelation::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, Ordered, Unordered};

/// Names, relations, and whether a NaN makes them true.
const RELATIONS: &[(&str, (CompareRelation, bool))] = &[
    ("eq", (Equal, false)),
    ("ne", (NotEqual, false)),
    ("lt", (Less, false)),
    ("le", (LessEqual, false)),
    ("gt", (Greater, false)),
    ("ge", (GreaterEqual, false)),
    ("lo", (Less, false)),
    ("ls", (LessEqual, false)),
    ("hi", (Greater, false)),
    ("hs", (GreaterEqual, false)),
    ("equ", (Equal, true)),
    ("neu", (NotEqual, true)),
    ("ltu", (Less, true)),
    ("leu", (LessEqual, true)),
    ("gtu", (Greater, true)),
    ("geu", (GreaterEqual, true)),
    ("num", (Ordered, false)),
    ("nan", (Unordered, true)),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PredicateCombine {
    And,
    Or,
    Xor,
}

const COMBINATIONS: &[(&str, PredicateCombine)] =
    &[("and", PredicateCombine::And), ("or", PredicateCombine::Or), ("xor", PredicateCombine::Xor)];

/// Gives the lanes where a comparison holds.
type Comparison = Box<dyn Fn(&RegisterFiles) -> u32 + Send + Sync>;

fn compared<V: LaneValue>(
    a: SourceOperand<V::Word>,
    b: SourceOperand<V::Word>,
    f: impl Fn(V, V) -> bool + Send + Sync + 'static,
) -> Comparison {
    Box::new(move |registers| lanes_where::<V, V>(a.get(registers), b.get(registers), &f))
}

fn integers<V: LaneValue + Ord>(
    relation: CompareRelation,
    a: SourceOperand<V::Word>,
    b: SourceOperand<V::Word>,
) -> Option<Comparison> {
    Some(match relation {
        Equal => compared::<V>(a, b, |a, b| a == b),
        NotEqual => compared::<V>(a, b, |a, b| a != b),
        Less => compared::<V>(a, b, |a, b| a < b),
        LessEqual => compared::<V>(a, b, |a, b| a <= b),
        Greater => compared::<V>(a, b, |a, b| a > b),
        GreaterEqual => compared::<V>(a, b, |a, b| a >= b),
        Ordered | Unordered => return None,
    })
}

/// Comparison of what `view` makes of each value.
fn floats<V: LaneValue, F: PartialOrd + Copy>(
    (relation, nan): (CompareRelation, bool),
    a: SourceOperand<V::Word>,
    b: SourceOperand<V::Word>,
    view: impl Fn(V) -> F + Copy + Send + Sync + 'static,
) -> Comparison {
    #[expect(clippy::eq_op, reason = "only a NaN is unequal to itself")]
    fn is_nan<F: PartialOrd + Copy>(x: F) -> bool {
        x != x
    }
    macro_rules! compare {
        ($op:tt) => {
            compared::<V>(a, b, move |a, b| {
                let (a, b) = (view(a), view(b));
                if nan { a $op b || is_nan(a) || is_nan(b) } else { a $op b && !is_nan(a) && !is_nan(b) }
            })
        };
    }
    match relation {
        Equal => compare!(==),
        NotEqual => compare!(!=),
        Less => compare!(<),
        LessEqual => compare!(<=),
        Greater => compare!(>),
        GreaterEqual => compare!(>=),
        Ordered => compared::<V>(a, b, move |a, b| !is_nan(view(a)) && !is_nan(view(b))),
        Unordered => compared::<V>(a, b, move |a, b| is_nan(view(a)) || is_nan(view(b))),
    }
}

/// The relation, if the operands' type has it.
fn relation(line: &mut InstructionLine<'_>) -> Decoded<(CompareRelation, bool)> {
    let modifiers = &line.instruction.modifiers;
    let name = modifiers.iter().find(|each| RELATIONS.iter().any(|(name, _)| name == each)).cloned();
    let relation = line.mods.need_of(RELATIONS)?;
    let ty = modifiers.iter().rev().find_map(|each| PtxType::parse(each));
    let known = match (name.as_deref(), ty) {
        (Some("eq" | "ne"), _) => true,
        (Some("lo" | "ls" | "hi" | "hs"), ty) => matches!(ty, Some(PtxType::U(_))),
        (Some("lt" | "le" | "gt" | "ge"), ty) => !matches!(ty, Some(PtxType::B(_))),
        (_, ty) => !matches!(ty, Some(PtxType::B(_) | PtxType::U(_) | PtxType::S(_))),
    };
    if known { Ok(relation) } else { line.error(format!("`.{}` has no such relation", ty.map_or("", PtxType::name))) }
}

impl FunctionDecoder<'_> {
    pub(super) fn compare(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        match line.instruction.opcode.as_str() {
            "setp" => self.set_predicate(line),
            "set" => self.set(line),
            "selp" => self.select(line),
            _ => self.select_by_sign(line),
        }
    }

    /// The comparison of operands 1 and 2 of type `ty`; two of them for packed types.
    fn comparison(
        &mut self,
        line: &InstructionLine<'_>,
        ty: PtxType,
        relation: (CompareRelation, bool),
        ftz: bool,
        [a, b]: [&PtxOperand; 2],
    ) -> Decoded<Vec<Comparison>> {
        let one = |comparison| Ok(vec![comparison]);
        if ftz && !matches!(ty, PtxType::F16 | PtxType::F16x2 | PtxType::F32) {
            return line.error(format!("`{}` has no `.ftz` with `.{}`", line.instruction.opcode, ty.name()));
        }
        macro_rules! halves {
            ($half:ty, $part:expr) => {{
                let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
                floats::<u32, f32>(relation, a, b, move |word| {
                    let half = <$half>::from_bits($part(word) as u16);
                    if ftz { half.flushed().to_f32() } else { half.to_f32() }
                })
            }};
        }
        let low = |word: u32| word;
        let high = |word: u32| word >> 16;
        match ty {
            PtxType::F32 => {
                let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
                if ftz { one(floats(relation, a, b, flush)) } else { one(floats(relation, a, b, |x: f32| x)) }
            }
            PtxType::F64 => one(floats(relation, self.source(a, ty)?, self.source(b, ty)?, |x: f64| x)),
            PtxType::F16 => one(halves!(F16Bits, low)),
            PtxType::Bf16 => one(halves!(Bf16Bits, low)),
            PtxType::F16x2 => Ok(vec![halves!(F16Bits, low), halves!(F16Bits, high)]),
            PtxType::Bf16x2 => Ok(vec![halves!(Bf16Bits, low), halves!(Bf16Bits, high)]),
            _ => by_integer!(line, ty, T => {
                match integers::<T>(relation.0, self.source(a, ty)?, self.source(b, ty)?) {
                    Some(comparison) => one(comparison),
                    None => line.error("integers are never `.num` or `.nan`"),
                }
            }),
        }
    }

    fn set_predicate(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let relation = relation(line)?;
        let combine = line.mods.take_of(COMBINATIONS);
        let ftz = line.mods.take("ftz");
        let ty = line.mods.ty()?;
        let count = 3 + usize::from(combine.is_some());
        line.check(count, count)?;
        let all = &line.instruction.operands;
        if matches!((ty, &all[0]), (PtxType::F16 | PtxType::Bf16, PtxOperand::Pair(..))) {
            return line.error(format!("`setp` of `.{}` writes one predicate", ty.name()));
        }
        let (p, q) = match &all[0] {
            PtxOperand::Pair(p, q) => (self.predicate_slot(p)?, self.predicate_slot(q)?),
            p => (self.predicate_slot(p)?, None),
        };
        let comparisons = self.comparison(line, ty, relation, ftz, [&all[1], &all[2]])?;
        let third = match combine {
            Some(_) => self.test(&all[3])?,
            None => PredicateTest::Constant(false),
        };
        let compute: Compute = Box::new(move |registers, mask| {
            let c = third.mask(registers);
            let first = comparisons[0](registers);
            // Packed types give one predicate a half; others the result and that of the negation.
            let second = comparisons.get(1).map_or(!first, |comparison| comparison(registers));
            for (slot, value) in [(p, first), (q, second)] {
                let Some(slot) = slot else { continue };
                let value = match combine {
                    None => value,
                    Some(PredicateCombine::And) => value & c,
                    Some(PredicateCombine::Or) => value | c,
                    Some(PredicateCombine::Xor) => value ^ c,
                };
                registers.set_predicate(slot, value, mask);
            }
        });
        Ok((DecodedOp::Compute(compute), InstClass::Compare))
    }

    fn set(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let relation = relation(line)?;
        let combine = line.mods.take_of(COMBINATIONS);
        let ftz = line.mods.take("ftz");
        let result = line.mods.ty()?;
        let ty = line.mods.ty()?;
        let count = 3 + usize::from(combine.is_some());
        line.check(count, count)?;
        let all = &line.instruction.operands;
        let d = self.slot::<u32>(&all[0], result)?;
        let comparisons = self.comparison(line, ty, relation, ftz, [&all[1], &all[2]])?;
        let third = match combine {
            Some(_) => self.test(&all[3])?,
            None => PredicateTest::Constant(false),
        };
        // True is 1.0 for floats and all ones for integers.
        let fits = match result {
            PtxType::U(32) | PtxType::S(32) => true,
            PtxType::U(16) | PtxType::S(16) => matches!(ty, PtxType::F16 | PtxType::Bf16),
            PtxType::F32 => HalfKind::of(ty).is_none(),
            PtxType::F16 => HalfKind::of(ty).is_none() || ty == PtxType::F16,
            PtxType::Bf16 => HalfKind::of(ty).is_none() || matches!(ty, PtxType::F16 | PtxType::Bf16),
            PtxType::F16x2 | PtxType::Bf16x2 => ty == result,
            _ => false,
        };
        if !fits || ftz && result == PtxType::Bf16 || matches!(ty, PtxType::Pred | PtxType::B(8 | 128)) {
            return line.error(format!("`set` to `.{}` does not compare `.{}`", result.name(), ty.name()));
        }
        let truth: u32 = match result {
            PtxType::F32 => 1f32.to_bits(),
            PtxType::F16 | PtxType::F16x2 => 0x3c00,
            PtxType::Bf16 | PtxType::Bf16x2 => 0x3f80,
            PtxType::U(16) | PtxType::S(16) => 0xffff,
            PtxType::U(32) | PtxType::S(32) if comparisons.len() == 2 => 0xffff,
            PtxType::U(32) | PtxType::S(32) => u32::MAX,
            other => return line.mods.no_type(other),
        };
        let compute: Compute = Box::new(move |registers, mask| {
            let c = third.mask(registers);
            let mut out = [0u32; LANES];
            for (index, comparison) in comparisons.iter().enumerate() {
                let value = comparison(registers);
                let value = match combine {
                    None => value,
                    Some(PredicateCombine::And) => value & c,
                    Some(PredicateCombine::Or) => value | c,
                    Some(PredicateCombine::Xor) => value ^ c,
                };
                for (lane, out) in out.iter_mut().enumerate() {
                    *out |= if value >> lane & 1 != 0 { truth << (16 * index) } else { 0 };
                }
            }
            put(registers, d, &out, mask);
        });
        Ok((DecodedOp::Compute(compute), InstClass::Compare))
    }

    fn select(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let ty = line.mods.ty()?;
        line.check(4, 4)?;
        let all = &line.instruction.operands;
        let test = self.test(&all[3])?;
        macro_rules! select {
            ($word:ty) => {{
                let d = self.slot::<$word>(&all[0], ty)?;
                let (a, b) = (self.source::<$word>(&all[1], ty)?, self.source::<$word>(&all[2], ty)?);
                Box::new(move |registers: &mut RegisterFiles, mask: u32| {
                    let chosen = test.mask(registers);
                    let mut out = *b.get(registers);
                    for (lane, a) in a.get(registers).iter().enumerate() {
                        out[lane] = if chosen >> lane & 1 != 0 { *a } else { out[lane] };
                    }
                    put(registers, d, &out, mask);
                }) as Compute
            }};
        }
        let compute = match ty.bits() {
            16 | 32 => select!(u32),
            64 => select!(u64),
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }

    /// `slct`: `c >= 0 ? a : b`.
    fn select_by_sign(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let ftz = line.mods.take("ftz");
        let ty = line.mods.ty()?;
        let by = line.mods.ty()?;
        if !matches!(by, PtxType::S(32) | PtxType::F32) || ftz && by != PtxType::F32 {
            return line.error("`slct` looks at the sign of an `.s32` or an `.f32`, of which the latter has `.ftz`");
        }
        line.check(4, 4)?;
        let all = &line.instruction.operands;
        let c = self.source::<u32>(&all[3], by)?;
        let first = move |bits: u32| match by {
            PtxType::F32 => {
                let value = f32::from_bits(bits);
                if ftz { flush(value) >= 0.0 } else { value >= 0.0 }
            }
            _ => bits as i32 >= 0,
        };
        fn by_lane<T: RegisterWord>(
            d: crate::exec::registers::Slot,
            [a, b]: [SourceOperand<T>; 2],
            c: SourceOperand<u32>,
            first: impl Fn(u32) -> bool + Send + Sync + 'static,
        ) -> Compute {
            Box::new(move |registers, mask| {
                let mut out = [T::default(); LANES];
                let (a, b, c) = (a.get(registers), b.get(registers), c.get(registers));
                for lane in 0..LANES {
                    out[lane] = if first(c[lane]) { a[lane] } else { b[lane] };
                }
                put(registers, d, &out, mask);
            })
        }
        let compute = match ty.bits() {
            16 | 32 => {
                let d = self.slot::<u32>(&all[0], ty)?;
                by_lane::<u32>(d, [self.source(&all[1], ty)?, self.source(&all[2], ty)?], c, first)
            }
            64 => {
                let d = self.slot::<u64>(&all[0], ty)?;
                by_lane::<u64>(d, [self.source(&all[1], ty)?, self.source(&all[2], ty)?], c, first)
            }
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Move))
    }
}
