//! f16 and bf16: conversions whose loops vectorise, and arithmetic.
//!
//! A sum or product of two halves, rounded to f32 and then to the half, is rounded correctly, since f32 has more than
//! twice the bits and two more (Figueroa, "When is double rounding innocuous?", 1995). `fma` is rounded to odd first,
//! which needs two bits more than the half has (Boldo and Melquiond, "When double rounding is odd", 2005).

use super::arithmetic::{odd, odd_f32, two_sum, two_sum_f32};
use crate::exec::registers::LaneValue;

/// A half-precision format, in the low 16 bits of a register.
pub(crate) trait HalfFormat: LaneValue<Word = u32> {
    fn from_bits(bits: u16) -> Self;
    fn bits(self) -> u16;
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
    /// `a * b + c`, rounded once.
    fn fma(a: Self, b: Self, c: Self) -> Self;

    /// Returns what `.ftz` does to operands and results.
    #[inline]
    fn flushed(self) -> Self {
        let small = self.to_f32() != 0.0 && self.bits() & Self::EXPONENT == 0;
        if small { Self::from_bits(self.bits() & 0x8000) } else { self }
    }

    /// The exponent's field.
    const EXPONENT: u16;
}

/// An IEEE half.
#[derive(Clone, Copy)]
pub(crate) struct F16Bits(u16);

/// A bfloat16.
#[derive(Clone, Copy)]
pub(crate) struct Bf16Bits(u16);

macro_rules! half_values {
    ($($ty:ident),*) => {
        $(impl LaneValue for $ty {
            type Word = u32;
            #[inline]
            fn from_word(word: u32) -> Self { $ty(word as u16) }
            #[inline]
            fn into_word(self) -> u32 { self.0.into() }
        })*
    };
}

half_values!(F16Bits, Bf16Bits);

impl HalfFormat for F16Bits {
    const EXPONENT: u16 = 0x7c00;

    #[inline]
    fn from_bits(bits: u16) -> Self {
        F16Bits(bits)
    }

    #[inline]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        F16Bits(f16_from_f32(value))
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16_to_f32(self.0)
    }

    #[inline(always)]
    fn fma(a: Self, b: Self, c: Self) -> Self {
        // The product is exact in f32.
        let (sum, error) = two_sum_f32(a.to_f32() * b.to_f32(), c.to_f32());
        Self::from_f32(odd_f32(sum, error > 0.0, error < 0.0))
    }
}

impl HalfFormat for Bf16Bits {
    const EXPONENT: u16 = 0x7f80;

    #[inline]
    fn from_bits(bits: u16) -> Self {
        Bf16Bits(bits)
    }

    #[inline]
    fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Bf16Bits(bf16_from_f32(value))
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16_to_f32(self.0)
    }

    #[inline(always)]
    fn fma(a: Self, b: Self, c: Self) -> Self {
        // The product may be beyond what f32 has.
        let (sum, error) = two_sum(f64::from(a.to_f32()) * f64::from(b.to_f32()), c.to_f32().into());
        let exact = odd(sum, error);
        let single = exact as f32;
        let back = f64::from(single);
        Self::from_f32(odd_f32(single, exact > back, exact < back))
    }
}

/// Rounds to the nearest half.
#[inline(always)]
pub(crate) fn f16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Below 2^-14: adding 0.5, whose last place is 2^-24, rounds to a multiple of the smallest half.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let rebiased = magnitude.wrapping_sub(112 << 23);
    let normal = rebiased.wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let special = if magnitude > 0x7f80_0000 { 0x7fff } else { 0x7c00 };
    let result = if magnitude >= 0x4780_0000 {
        special
    } else if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let sign = if magnitude > 0x7f80_0000 { 0 } else { sign };
    (result | sign) as u16
}

/// Exact.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let sign = (bits & 0x8000) << 16;
    let shifted = (bits & 0x7fff) << 13;
    // A subnormal is the fraction of 2^-14 it adds to that. No step has subnormal numbers, which are slow on the host.
    const SMALLEST: u32 = 113 << 23;
    let subnormal = (f32::from_bits(shifted + SMALLEST) - f32::from_bits(SMALLEST)).to_bits();
    let normal = shifted + (112 << 23);
    let special = shifted | 0x7f80_0000;
    let magnitude = if shifted < 1 << 23 { subnormal } else { normal };
    let magnitude = if shifted >= 31 << 23 { special } else { magnitude };
    f32::from_bits(magnitude | sign)
}

/// Rounds to the nearest bfloat16.
#[inline(always)]
pub(crate) fn bf16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { 0x7fff } else { rounded as u16 }
}

/// Exact.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}
