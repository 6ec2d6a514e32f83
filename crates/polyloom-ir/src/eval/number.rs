//! The arithmetic of each scalar type, as traits over Rust's numbers and two wrappers for the 16-bit floats.

use super::half::{bf16_from_f64, bf16_to_f32, f16_from_f64, f16_to_f32};

/// A value on its way from one scalar type to another: wide enough to hold any of them exactly.
pub(super) enum WideValue {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// A scalar type's values and their bits.
pub(super) trait ScalarBits: Copy + PartialOrd {
    fn get(bits: u64) -> Self;
    fn put(self) -> u64;
    fn to_wide(self) -> WideValue;
    fn from_wide(value: WideValue) -> Self;
}

/// Types with arithmetic.
pub(super) trait NumberOps: ScalarBits {
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn floordiv(self, b: Self) -> Self;
    fn modulo(self, b: Self) -> Self;
    fn min(self, b: Self) -> Self;
    fn max(self, b: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
}

/// Integer types.
pub(super) trait IntegerOps: NumberOps {
    fn invert(self) -> Self;
    fn lshift(self, count: Self) -> Self;
    fn rshift(self, count: Self) -> Self;
}

/// Floating-point types.
pub(super) trait FloatOps: NumberOps {
    fn sqrt(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn rint(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
}

impl ScalarBits for bool {
    fn get(bits: u64) -> bool {
        bits != 0
    }

    fn put(self) -> u64 {
        self.into()
    }

    fn to_wide(self) -> WideValue {
        WideValue::Unsigned(self.into())
    }

    fn from_wide(value: WideValue) -> bool {
        match value {
            WideValue::Signed(x) => x != 0,
            WideValue::Unsigned(x) => x != 0,
            WideValue::Float(x) => x != 0.0,
        }
    }
}

macro_rules! integers {
    ($($ty:ident, $unsigned:ident, $wide:ident, $abs:expr, $floordiv:expr;)*) => {
        $(
            impl ScalarBits for $ty {
                fn get(bits: u64) -> $ty {
                    bits as $ty
                }

                fn put(self) -> u64 {
                    (self as $unsigned).into()
                }

                fn to_wide(self) -> WideValue {
                    WideValue::$wide(self.into())
                }

                fn from_wide(value: WideValue) -> $ty {
                    match value {
                        WideValue::Signed(x) => x as $ty,
                        WideValue::Unsigned(x) => x as $ty,
                        // Rust's conversion truncates, saturates and gives 0 for NaN.
                        WideValue::Float(x) => x as $ty,
                    }
                }
            }

            impl NumberOps for $ty {
                fn add(self, b: $ty) -> $ty {
                    self.wrapping_add(b)
                }

                fn sub(self, b: $ty) -> $ty {
                    self.wrapping_sub(b)
                }

                fn mul(self, b: $ty) -> $ty {
                    self.wrapping_mul(b)
                }

                fn div(self, b: $ty) -> $ty {
                    if b == 0 { 0 } else { self.wrapping_div(b) }
                }

                fn floordiv(self, b: $ty) -> $ty {
                    if b == 0 { 0 } else { $floordiv(self, b) }
                }

                fn modulo(self, b: $ty) -> $ty {
                    if b == 0 { self } else { self.wrapping_rem(b) }
                }

                fn min(self, b: $ty) -> $ty {
                    Ord::min(self, b)
                }

                fn max(self, b: $ty) -> $ty {
                    Ord::max(self, b)
                }

                fn neg(self) -> $ty {
                    self.wrapping_neg()
                }

                fn abs(self) -> $ty {
                    $abs(self)
                }
            }

            impl IntegerOps for $ty {
                fn invert(self) -> $ty {
                    !self
                }

                fn lshift(self, count: $ty) -> $ty {
                    match u32::try_from(count as $unsigned) {
                        Ok(count) => self.checked_shl(count).unwrap_or(0),
                        Err(_) => 0,
                    }
                }

                fn rshift(self, count: $ty) -> $ty {
                    // The fill takes two shifts, because a wrapping one by the whole width shifts nothing: all but one
                    // bit leaves the sign, and one more nothing else.
                    let fill = self.wrapping_shr($ty::BITS - 1).wrapping_shr(1);
                    match u32::try_from(count as $unsigned) {
                        Ok(count) => self.checked_shr(count).unwrap_or(fill),
                        Err(_) => fill,
                    }
                }
            }
        )*
    };
}

macro_rules! signed_floordiv {
    ($ty:ident) => {
        |a: $ty, b: $ty| {
            let quotient = a.wrapping_div(b);
            let inexact = a.wrapping_rem(b) != 0;
            if inexact && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
        }
    };
}

integers! {
    i8, u8, Signed, i8::wrapping_abs, signed_floordiv!(i8);
    i16, u16, Signed, i16::wrapping_abs, signed_floordiv!(i16);
    i32, u32, Signed, i32::wrapping_abs, signed_floordiv!(i32);
    i64, u64, Signed, i64::wrapping_abs, signed_floordiv!(i64);
    u8, u8, Unsigned, std::convert::identity, u8::wrapping_div;
    u16, u16, Unsigned, std::convert::identity, u16::wrapping_div;
    u32, u32, Unsigned, std::convert::identity, u32::wrapping_div;
    u64, u64, Unsigned, std::convert::identity, u64::wrapping_div;
}

macro_rules! floats {
    ($($ty:ident, $bits:ident, $quiet_nan:literal;)*) => {
        $(
            impl ScalarBits for $ty {
                fn get(bits: u64) -> $ty {
                    $ty::from_bits(bits as $bits)
                }

                fn put(self) -> u64 {
                    if self.is_nan() { $quiet_nan } else { self.to_bits().into() }
                }

                fn to_wide(self) -> WideValue {
                    WideValue::Float(self.into())
                }

                fn from_wide(value: WideValue) -> $ty {
                    match value {
                        WideValue::Signed(x) => x as $ty,
                        WideValue::Unsigned(x) => x as $ty,
                        WideValue::Float(x) => x as $ty,
                    }
                }
            }

            impl NumberOps for $ty {
                fn add(self, b: $ty) -> $ty {
                    self + b
                }

                fn sub(self, b: $ty) -> $ty {
                    self - b
                }

                fn mul(self, b: $ty) -> $ty {
                    self * b
                }

                fn div(self, b: $ty) -> $ty {
                    self / b
                }

                fn floordiv(self, b: $ty) -> $ty {
                    (self / b).floor()
                }

                fn modulo(self, b: $ty) -> $ty {
                    self % b
                }

                fn min(self, b: $ty) -> $ty {
                    if self.is_nan() || (self == b && b.is_sign_negative()) || b < self { b } else { self }
                }

                fn max(self, b: $ty) -> $ty {
                    if self.is_nan() || (self == b && b.is_sign_positive()) || b > self { b } else { self }
                }

                fn neg(self) -> $ty {
                    -self
                }

                fn abs(self) -> $ty {
                    $ty::abs(self)
                }
            }

            impl FloatOps for $ty {
                fn sqrt(self) -> $ty {
                    $ty::sqrt(self)
                }

                fn floor(self) -> $ty {
                    $ty::floor(self)
                }

                fn ceil(self) -> $ty {
                    $ty::ceil(self)
                }

                fn trunc(self) -> $ty {
                    $ty::trunc(self)
                }

                fn rint(self) -> $ty {
                    self.round_ties_even()
                }

                fn copysign(self, sign: $ty) -> $ty {
                    $ty::copysign(self, if sign.is_nan() { 1.0 } else { sign })
                }

                fn fma(self, b: $ty, c: $ty) -> $ty {
                    self.mul_add(b, c)
                }
            }
        )*
    };
}

floats! {
    f32, u32, 0x7fc0_0000;
    f64, u64, 0x7ff8_0000_0000_0000;
}

macro_rules! halves {
    ($($(#[$doc:meta])* $ty:ident, $to_f32:ident, $from_f64:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, PartialOrd)]
            pub(super) struct $ty(f64);

            impl $ty {
                /// Rounds a result of `f32` arithmetic. What is kept need not be a value of the type, because only its
                /// bits are ever looked at.
                fn round(result: f32) -> $ty {
                    $ty(result.into())
                }

                fn wide(self) -> f32 {
                    self.0 as f32
                }
            }

            impl ScalarBits for $ty {
                fn get(bits: u64) -> $ty {
                    $ty($to_f32(bits as u16).into())
                }

                fn put(self) -> u64 {
                    $from_f64(self.0).into()
                }

                fn to_wide(self) -> WideValue {
                    WideValue::Float(self.0)
                }

                fn from_wide(value: WideValue) -> $ty {
                    $ty(<f64 as ScalarBits>::from_wide(value))
                }
            }

            impl NumberOps for $ty {
                fn add(self, b: $ty) -> $ty {
                    $ty::round(self.wide() + b.wide())
                }

                fn sub(self, b: $ty) -> $ty {
                    $ty::round(self.wide() - b.wide())
                }

                fn mul(self, b: $ty) -> $ty {
                    $ty::round(self.wide() * b.wide())
                }

                fn div(self, b: $ty) -> $ty {
                    $ty::round(self.wide() / b.wide())
                }

                fn floordiv(self, b: $ty) -> $ty {
                    $ty::round(NumberOps::floordiv(self.wide(), b.wide()))
                }

                fn modulo(self, b: $ty) -> $ty {
                    $ty::round(self.wide() % b.wide())
                }

                fn min(self, b: $ty) -> $ty {
                    $ty::round(NumberOps::min(self.wide(), b.wide()))
                }

                fn max(self, b: $ty) -> $ty {
                    $ty::round(NumberOps::max(self.wide(), b.wide()))
                }

                fn neg(self) -> $ty {
                    $ty(-self.0)
                }

                fn abs(self) -> $ty {
                    $ty(self.0.abs())
                }
            }

            impl FloatOps for $ty {
                fn sqrt(self) -> $ty {
                    $ty::round(self.wide().sqrt())
                }

                fn floor(self) -> $ty {
                    $ty(self.0.floor())
                }

                fn ceil(self) -> $ty {
                    $ty(self.0.ceil())
                }

                fn trunc(self) -> $ty {
                    $ty(self.0.trunc())
                }

                fn rint(self) -> $ty {
                    $ty(self.0.round_ties_even())
                }

                fn copysign(self, sign: $ty) -> $ty {
                    $ty(FloatOps::copysign(self.0, sign.0))
                }

                fn fma(self, b: $ty, c: $ty) -> $ty {
                    $ty(self.0.mul_add(b.0, c.0))
                }
            }
        )*
    };
}

halves! {
    /// IEEE binary16.
    F16, f16_to_f32, f16_from_f64;
    /// bfloat16.
    BF16, bf16_to_f32, bf16_from_f64;
}
