//! PTX's fundamental and packed types (PTX ISA 9.0 §5.2).

use crate::syntax::ast::Float;

/// A type an instruction names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Type {
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

const NAMES: &[(&str, Type)] = &[
    ("b8", Type::B(8)),
    ("b16", Type::B(16)),
    ("b32", Type::B(32)),
    ("b64", Type::B(64)),
    ("b128", Type::B(128)),
    ("u8", Type::U(8)),
    ("u16", Type::U(16)),
    ("u32", Type::U(32)),
    ("u64", Type::U(64)),
    ("s8", Type::S(8)),
    ("s16", Type::S(16)),
    ("s32", Type::S(32)),
    ("s64", Type::S(64)),
    ("f16", Type::F16),
    ("f16x2", Type::F16x2),
    ("bf16", Type::Bf16),
    ("bf16x2", Type::Bf16x2),
    ("tf32", Type::Tf32),
    ("f32", Type::F32),
    ("f32x2", Type::F32x2),
    ("f64", Type::F64),
    ("u16x2", Type::U16x2),
    ("s16x2", Type::S16x2),
    ("e4m3", Type::E4m3),
    ("e5m2", Type::E5m2),
    ("e4m3x2", Type::E4m3x2),
    ("e5m2x2", Type::E5m2x2),
    ("e3m2x2", Type::E3m2x2),
    ("e2m3x2", Type::E2m3x2),
    ("e2m1x2", Type::E2m1x2),
    ("e4m3x4", Type::E4m3x4),
    ("e5m2x4", Type::E5m2x4),
    ("e3m2x4", Type::E3m2x4),
    ("e2m3x4", Type::E2m3x4),
    ("e2m1x4", Type::E2m1x4),
    ("ue8m0x2", Type::Ue8m0x2),
    ("s2f6x2", Type::S2f6x2),
    ("u2", Type::U(2)),
    ("s2", Type::S(2)),
    ("s4", Type::S4),
    ("u4", Type::U4),
    ("b1", Type::B1),
    ("pred", Type::Pred),
];

const BITS: &[Type] = &[Type::B(16), Type::B(32), Type::B(64)];
const WIDE_BITS: &[Type] = &[Type::B(32), Type::B(64)];
const SIGNED: &[Type] = &[Type::S(16), Type::S(32), Type::S(64)];
const INTEGERS: &[Type] = &[Type::U(16), Type::S(16), Type::U(32), Type::S(32), Type::U(64), Type::S(64)];
const WORDS: &[Type] = &[Type::U(32), Type::S(32)];
const WIDE_INTEGERS: &[Type] = &[Type::U(32), Type::S(32), Type::U(64), Type::S(64)];
const PAIRS: &[Type] = &[Type::U16x2, Type::S16x2];
const HALVES: &[Type] = &[Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2];
const FLOATS: &[Type] = &[Type::F32, Type::F64];
const BYTES: &[Type] = &[Type::B(8), Type::U(8), Type::S(8)];

/// The types that instructions may name, where the list is the same for all of an instruction's.
const OF: &[(&[&str], &[&[Type]])] = &[
    (&["add"], &[INTEGERS, PAIRS, HALVES, FLOATS, &[Type::F32x2]]),
    (&["sub", "mul"], &[INTEGERS, HALVES, FLOATS, &[Type::F32x2]]),
    (&["fma"], &[HALVES, FLOATS, &[Type::F32x2]]),
    (&["mad", "div"], &[INTEGERS, FLOATS]),
    (&["min", "max"], &[INTEGERS, PAIRS, HALVES, FLOATS]),
    (&["abs", "neg"], &[SIGNED, HALVES, FLOATS]),
    (&["rem", "sad"], &[INTEGERS]),
    (&["addc", "subc", "madc", "bfe", "bfind"], &[WIDE_INTEGERS]),
    (&["mul24", "mad24", "dp4a", "dp2a", "szext"], &[WORDS]),
    (&["and", "or", "xor", "not"], &[BITS, &[Type::Pred]]),
    (&["cnot", "shl"], &[BITS]),
    (&["shr"], &[BITS, INTEGERS]),
    (&["popc", "clz", "brev", "bfi", "match"], &[WIDE_BITS]),
    (&["shf", "lop3", "prmt", "fns", "bmsk", "shfl"], &[&[Type::B(32)]]),
    (&["setp"], &[BITS, INTEGERS, HALVES, FLOATS]),
    (&["mov"], &[BITS, INTEGERS, FLOATS, &[Type::B(128), Type::Pred]]),
    (&["cvta"], &[&[Type::U(32), Type::U(64)]]),
    (&["selp", "slct"], &[BITS, INTEGERS, FLOATS]),
    (&["ld", "ldu", "st"], &[BYTES, BITS, INTEGERS, FLOATS, &[Type::B(128)]]),
];

impl Type {
    /// Returns true if the instruction `opcode` may name the type.
    pub(crate) fn is_of(self, opcode: &str) -> bool {
        let entry = OF.iter().find(|(opcodes, _)| opcodes.contains(&opcode));
        entry.is_none_or(|(_, groups)| groups.iter().any(|types| types.contains(&self)))
    }

    pub(crate) fn parse(name: &str) -> Option<Type> {
        NAMES.iter().find(|(each, _)| *each == name).map(|(_, ty)| *ty)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, ty)| *ty == self).map_or("?", |(name, _)| name)
    }

    /// A floating-point literal as the type has it: floats of 32 and 64 bits have either literal, bits have those of
    /// their width.
    pub(crate) fn bits_of(self, value: Float) -> Option<u64> {
        match (value, self) {
            (Float::Single(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
            (Float::Single(bits), Type::F32 | Type::B(32)) => Some(bits.into()),
            (Float::Double(bits), Type::F32) => Some((f64::from_bits(bits) as f32).to_bits().into()),
            (Float::Double(bits), Type::F64 | Type::B(64)) => Some(bits),
            _ => None,
        }
    }

    /// Returns true if a register of the type, of the right size, is an operand where an instruction has type `wanted`:
    /// integers are operands of each other's types, floats of their own, and bits of all (PTX ISA 9.0 §9.5.1). So are
    /// pairs of halves of integers, as ptxas has it.
    pub(crate) fn is_operand_of(self, wanted: Type) -> bool {
        let is_float = matches!(wanted, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64);
        match self {
            Type::U(_) | Type::S(_) => !is_float,
            Type::F16x2 => wanted == self || !is_float,
            Type::F16 | Type::F32 | Type::F64 => wanted == self || !is_float && !wanted.is_integer(),
            _ => true,
        }
    }

    /// Bits in a register.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Type::B(bits) | Type::U(bits) | Type::S(bits) => bits,
            Type::F16
            | Type::Bf16
            | Type::E4m3x2
            | Type::E5m2x2
            | Type::E3m2x2
            | Type::E2m3x2
            | Type::E2m1x4
            | Type::Ue8m0x2
            | Type::S2f6x2 => 16,
            Type::E4m3 | Type::E5m2 | Type::E2m1x2 => 8,
            Type::F16x2
            | Type::Bf16x2
            | Type::Tf32
            | Type::F32
            | Type::U16x2
            | Type::S16x2
            | Type::E4m3x4
            | Type::E5m2x4
            | Type::E3m2x4
            | Type::E2m3x4 => 32,
            Type::F64 | Type::F32x2 => 64,
            Type::S4 | Type::U4 => 4,
            Type::B1 | Type::Pred => 1,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Type::S(_))
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64 | Type::Tf32)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Type::U(_) | Type::S(_))
    }
}
