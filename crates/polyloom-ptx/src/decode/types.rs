//! PTX's fundamental and packed types (PTX ISA 9.0 §5.2).

use crate::syntax::ast::FloatLiteral;

/// A type an instruction names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PtxType {
    B(u32),
    U(u32),
    S(u32),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    U16x2,
    S16x2,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    E3m2x2,
    E2m3x2,
    E2m1x2,
    E4m3x4,
    E5m2x4,
    E3m2x4,
    E2m3x4,
    E2m1x4,
    Ue8m0x2,
    S2f6x2,
    S4,
    U4,
    B1,
    Pred,
}

const NAMES: &[(&str, PtxType)] = &[
    ("b8", PtxType::B(8)),
    ("b16", PtxType::B(16)),
    ("b32", PtxType::B(32)),
    ("b64", PtxType::B(64)),
    ("b128", PtxType::B(128)),
    ("u8", PtxType::U(8)),
    ("u16", PtxType::U(16)),
    ("u32", PtxType::U(32)),
    ("u64", PtxType::U(64)),
    ("s8", PtxType::S(8)),
    ("s16", PtxType::S(16)),
    ("s32", PtxType::S(32)),
    ("s64", PtxType::S(64)),
    ("f16", PtxType::F16),
    ("f16x2", PtxType::F16x2),
    ("bf16", PtxType::Bf16),
    ("bf16x2", PtxType::Bf16x2),
    ("tf32", PtxType::Tf32),
    ("f32", PtxType::F32),
    ("f32x2", PtxType::F32x2),
    ("f64", PtxType::F64),
    ("u16x2", PtxType::U16x2),
    ("s16x2", PtxType::S16x2),
    ("e4m3", PtxType::E4m3),
    ("e5m2", PtxType::E5m2),
    ("e4m3x2", PtxType::E4m3x2),
    ("e5m2x2", PtxType::E5m2x2),
    ("e3m2x2", PtxType::E3m2x2),
    ("e2m3x2", PtxType::E2m3x2),
    ("e2m1x2", PtxType::E2m1x2),
    ("e4m3x4", PtxType::E4m3x4),
    ("e5m2x4", PtxType::E5m2x4),
    ("e3m2x4", PtxType::E3m2x4),
    ("e2m3x4", PtxType::E2m3x4),
    ("e2m1x4", PtxType::E2m1x4),
    ("ue8m0x2", PtxType::Ue8m0x2),
    ("s2f6x2", PtxType::S2f6x2),
    ("u2", PtxType::U(2)),
    ("s2", PtxType::S(2)),
    ("s4", PtxType::S4),
    ("u4", PtxType::U4),
    ("b1", PtxType::B1),
    ("pred", PtxType::Pred),
];

const BITS: &[PtxType] = &[PtxType::B(16), PtxType::B(32), PtxType::B(64)];
const WIDE_BITS: &[PtxType] = &[PtxType::B(32), PtxType::B(64)];
const SIGNED: &[PtxType] = &[PtxType::S(16), PtxType::S(32), PtxType::S(64)];
const INTEGERS: &[PtxType] =
    &[PtxType::U(16), PtxType::S(16), PtxType::U(32), PtxType::S(32), PtxType::U(64), PtxType::S(64)];
const WORDS: &[PtxType] = &[PtxType::U(32), PtxType::S(32)];
const WIDE_INTEGERS: &[PtxType] = &[PtxType::U(32), PtxType::S(32), PtxType::U(64), PtxType::S(64)];
const PAIRS: &[PtxType] = &[PtxType::U16x2, PtxType::S16x2];
const HALVES: &[PtxType] = &[PtxType::F16, PtxType::F16x2, PtxType::Bf16, PtxType::Bf16x2];
const FLOATS: &[PtxType] = &[PtxType::F32, PtxType::F64];
const BYTES: &[PtxType] = &[PtxType::B(8), PtxType::U(8), PtxType::S(8)];

/// The types that instructions may name, where the list is the same for all of an instruction's.
const OF: &[(&[&str], &[&[PtxType]])] = &[
    (&["add"], &[INTEGERS, PAIRS, HALVES, FLOATS, &[PtxType::F32x2]]),
    (&["sub", "mul"], &[INTEGERS, HALVES, FLOATS, &[PtxType::F32x2]]),
    (&["fma"], &[HALVES, FLOATS, &[PtxType::F32x2]]),
    (&["mad", "div"], &[INTEGERS, FLOATS]),
    (&["min", "max"], &[INTEGERS, PAIRS, HALVES, FLOATS]),
    (&["abs", "neg"], &[SIGNED, HALVES, FLOATS]),
    (&["rem", "sad"], &[INTEGERS]),
    (&["addc", "subc", "madc", "bfe", "bfind"], &[WIDE_INTEGERS]),
    (&["mul24", "mad24", "dp4a", "dp2a", "szext"], &[WORDS]),
    (&["and", "or", "xor", "not"], &[BITS, &[PtxType::Pred]]),
    (&["cnot", "shl"], &[BITS]),
    (&["shr"], &[BITS, INTEGERS]),
    (&["popc", "clz", "brev", "bfi", "match"], &[WIDE_BITS]),
    (&["shf", "lop3", "prmt", "fns", "bmsk", "shfl"], &[&[PtxType::B(32)]]),
    (&["setp"], &[BITS, INTEGERS, HALVES, FLOATS]),
    (&["mov"], &[BITS, INTEGERS, FLOATS, &[PtxType::B(128), PtxType::Pred]]),
    (&["cvta"], &[&[PtxType::U(32), PtxType::U(64)]]),
    (&["selp", "slct"], &[BITS, INTEGERS, FLOATS]),
    (&["suld", "sust"], &[&[PtxType::B(8)], BITS]),
    (&["sured"], &[WIDE_INTEGERS, WIDE_BITS]),
    (&["tex", "tld4"], &[WORDS, &[PtxType::F32, PtxType::F16, PtxType::F16x2]]),
    (&["txq", "suq"], &[&[PtxType::B(32)]]),
    (&["ld", "ldu", "st"], &[BYTES, BITS, INTEGERS, FLOATS, &[PtxType::B(128)]]),
];

impl PtxType {
    /// Returns true if the instruction `opcode` may name the type.
    pub(crate) fn is_of(self, opcode: &str) -> bool {
        let entry = OF.iter().find(|(opcodes, _)| opcodes.contains(&opcode));
        entry.is_none_or(|(_, groups)| groups.iter().any(|types| types.contains(&self)))
    }

    pub(crate) fn parse(name: &str) -> Option<PtxType> {
        NAMES.iter().find(|(each, _)| *each == name).map(|(_, ty)| *ty)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, ty)| *ty == self).map_or("?", |(name, _)| name)
    }

    /// A floating-point literal as the type has it: floats of 32 and 64 bits have either literal, bits have those of
    /// their width.
    pub(crate) fn bits_of(self, value: FloatLiteral) -> Option<u64> {
        match (value, self) {
            (FloatLiteral::Single(bits), PtxType::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
            (FloatLiteral::Single(bits), PtxType::F32 | PtxType::B(32)) => Some(bits.into()),
            (FloatLiteral::Double(bits), PtxType::F32) => Some((f64::from_bits(bits) as f32).to_bits().into()),
            (FloatLiteral::Double(bits), PtxType::F64 | PtxType::B(64)) => Some(bits),
            _ => None,
        }
    }

    /// Returns true if a register of the type, of the right size, is an operand where an instruction has type `wanted`:
    /// integers are operands of each other's types, floats of their own, and bits of all (PTX ISA 9.0 §9.5.1). So are
    /// pairs of halves of integers, as ptxas has it.
    pub(crate) fn is_operand_of(self, wanted: PtxType) -> bool {
        let is_float = matches!(
            wanted,
            PtxType::F16 | PtxType::F16x2 | PtxType::Bf16 | PtxType::Bf16x2 | PtxType::F32 | PtxType::F64
        );
        match self {
            PtxType::U(_) | PtxType::S(_) => !is_float,
            PtxType::F16x2 => wanted == self || !is_float,
            PtxType::F16 | PtxType::F32 | PtxType::F64 => wanted == self || !is_float && !wanted.is_integer(),
            _ => true,
        }
    }

    /// Bits in a register.
    pub(crate) fn bits(self) -> u32 {
        match self {
            PtxType::B(bits) | PtxType::U(bits) | PtxType::S(bits) => bits,
            PtxType::F16
            | PtxType::Bf16
            | PtxType::E4m3x2
            | PtxType::E5m2x2
            | PtxType::E3m2x2
            | PtxType::E2m3x2
            | PtxType::E2m1x4
            | PtxType::Ue8m0x2
            | PtxType::S2f6x2 => 16,
            PtxType::E4m3 | PtxType::E5m2 | PtxType::E2m1x2 => 8,
            PtxType::F16x2
            | PtxType::Bf16x2
            | PtxType::Tf32
            | PtxType::F32
            | PtxType::U16x2
            | PtxType::S16x2
            | PtxType::E4m3x4
            | PtxType::E5m2x4
            | PtxType::E3m2x4
            | PtxType::E2m3x4 => 32,
            PtxType::F64 | PtxType::F32x2 => 64,
            PtxType::S4 | PtxType::U4 => 4,
            PtxType::B1 | PtxType::Pred => 1,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, PtxType::S(_))
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, PtxType::F16 | PtxType::Bf16 | PtxType::F32 | PtxType::F64 | PtxType::Tf32)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, PtxType::U(_) | PtxType::S(_))
    }
}
