//! The types of HIR values.
//!
//! A [`Type`] is a small `Copy` value that means the same in every module, so functions move between modules
//! (inlining, the math library) without translation.

use std::fmt;

/// A scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scalar {
    /// One byte in memory, 0 or 1.
    Bool,
    /// Signed integers, two's complement, wrapping.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// Unsigned integers, wrapping.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    BF16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Scalar {
    /// Every scalar type, in declaration order.
    pub const ALL: [Scalar; 13] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F16,
        Scalar::BF16,
        Scalar::F32,
        Scalar::F64,
    ];

    /// The name in HIR text: `i32`, `bf16`, …
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::F16 => "f16",
            Scalar::BF16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// The name a Python user knows: `int32`, `bfloat16`, …
    pub fn python_name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "int8",
            Scalar::I16 => "int16",
            Scalar::I32 => "int32",
            Scalar::I64 => "int64",
            Scalar::U8 => "uint8",
            Scalar::U16 => "uint16",
            Scalar::U32 => "uint32",
            Scalar::U64 => "uint64",
            Scalar::F16 => "float16",
            Scalar::BF16 => "bfloat16",
            Scalar::F32 => "float32",
            Scalar::F64 => "float64",
        }
    }

    /// The scalar with this HIR name.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.name() == name)
    }

    /// The scalar with this Python name.
    pub fn from_python_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.python_name() == name)
    }

    /// Size in memory, in bytes; also the alignment.
    pub fn bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::BF16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Width of the value in bits; 1 for `bool`.
    pub fn bits(self) -> u32 {
        if self == Scalar::Bool { 1 } else { self.bytes() * 8 }
    }

    /// Whether this is an integer type (`bool` is not).
    pub fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// Whether this is a signed integer type.
    pub fn is_signed_int(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// Whether this is an unsigned integer type.
    pub fn is_unsigned_int(self) -> bool {
        matches!(self, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::BF16 | Scalar::F32 | Scalar::F64)
    }

    /// Whether arithmetic on this type is done in `f32` and rounded after every operation.
    pub fn is_half(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::BF16)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The most dimensions an array or a launch can have.
pub const MAX_DIMS: usize = 4;

/// The type of an HIR value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Type {
    /// One scalar.
    Scalar(Scalar),
    /// A strided view of memory: base pointer, extents and byte strides.
    Array {
        /// What each element is.
        elem: Scalar,
        /// Number of dimensions, 1 to [`MAX_DIMS`].
        ndim: u8,
    },
}

impl Type {
    /// `bool`
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    /// `i32`
    pub const I32: Type = Type::Scalar(Scalar::I32);
    /// `i64`
    pub const I64: Type = Type::Scalar(Scalar::I64);
    /// `u32`
    pub const U32: Type = Type::Scalar(Scalar::U32);
    /// `u64`
    pub const U64: Type = Type::Scalar(Scalar::U64);
    /// `f32`
    pub const F32: Type = Type::Scalar(Scalar::F32);
    /// `f64`
    pub const F64: Type = Type::Scalar(Scalar::F64);

    /// The scalar, if this is a scalar type.
    pub fn as_scalar(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(s),
            Type::Array { .. } => None,
        }
    }

    /// The element type and number of dimensions, if this is an array type.
    pub fn as_array(self) -> Option<(Scalar, u8)> {
        match self {
            Type::Array { elem, ndim } => Some((elem, ndim)),
            Type::Scalar(_) => None,
        }
    }

    /// The type as a Python user writes it: `float32`, `array(dtype=float32, ndim=2)`.
    pub fn python_name(self) -> String {
        match self {
            Type::Scalar(s) => s.python_name().to_owned(),
            Type::Array { elem, ndim: 1 } => format!("array(dtype={})", elem.python_name()),
            Type::Array { elem, ndim } => format!("array(dtype={}, ndim={ndim})", elem.python_name()),
        }
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::Scalar(s)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(s) => s.fmt(f),
            Type::Array { elem, ndim } => write!(f, "array<{elem}, {ndim}>"),
        }
    }
}
