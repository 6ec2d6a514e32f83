//! Conversions between scalar types.
//!
//! 16-bit floats convert by integer arithmetic, because few machines have instructions for it and those that do differ
//! in what they do with subnormals: `bf16` is the upper half of an `f32`, and for `f16` see
//! [`CraneliftLowering::f32_to_f16`]. Every conversion rounds once: `f64` goes through an `f32` rounded to odd, which has more
//! than two bits to spare, so that rounding it again gives what rounding the `f64` would have (Boldo and Melquiond,
//! "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on
//! Computers, 2008).

use super::{CraneliftLowering, bits_type, clif_type};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use polyloom_ir::Scalar;

impl CraneliftLowering<'_> {
    /// A value converted to another scalar type.
    pub(super) fn cast(&mut self, x: ir::Value, from: Scalar, to: Scalar) -> ir::Value {
        match (from, to) {
            _ if from == to => x,
            (_, Scalar::Bool) => self.is_nonzero(x, from),
            (Scalar::Bool, _) if to.is_half() => {
                let one = self.int(types::I16, if to == Scalar::F16 { 0x3c00 } else { 0x3f80 });
                let zero = self.int(types::I16, 0);
                self.builder.ins().select(x, one, zero)
            }
            (Scalar::Bool, _) if to.is_int() => self.resize(x, clif_type(to), false),
            (Scalar::Bool, _) => self.cast(x, Scalar::U8, to),
            _ if from.is_int() && to.is_int() => self.resize(x, clif_type(to), from.is_signed_int()),
            _ if from.is_int() && to.is_half() => {
                // Up to 16 bits an integer is exact in f32 already; f64 rounds only beyond 2^53, as documented.
                let through = if from.bits() <= 16 { Scalar::F32 } else { Scalar::F64 };
                let wide = self.cast(x, from, through);
                self.cast(wide, through, to)
            }
            _ if from.is_int() => self.int_to_float(x, from, to),
            _ if from.is_half() => {
                let wide = if from == Scalar::F16 { self.f16_to_f32(x) } else { self.bf16_to_f32(x) };
                self.cast(wide, Scalar::F32, to)
            }
            _ if to.is_int() => self.float_to_int(x, to),
            (Scalar::F32, Scalar::F64) => self.builder.ins().fpromote(types::F64, x),
            (Scalar::F64, Scalar::F32) => self.builder.ins().fdemote(types::F32, x),
            (Scalar::F64, _) => {
                let single = self.f64_to_f32_round_to_odd(x);
                self.cast(single, Scalar::F32, to)
            }
            (_, Scalar::F16) => self.f32_to_f16(x),
            _ => self.f32_to_bf16(x),
        }
    }

    /// The bits of a value as an integer of its width.
    pub(super) fn bits_of(&mut self, x: ir::Value, ty: Scalar) -> ir::Value {
        match ty {
            Scalar::F32 | Scalar::F64 => self.builder.ins().bitcast(bits_type(ty), ir::MemFlagsData::new(), x),
            _ => x,
        }
    }

    /// The value with these bits.
    pub(super) fn with_bits(&mut self, bits: ir::Value, ty: Scalar) -> ir::Value {
        match ty {
            Scalar::F32 | Scalar::F64 => self.builder.ins().bitcast(clif_type(ty), ir::MemFlagsData::new(), bits),
            _ => bits,
        }
    }

    fn is_nonzero(&mut self, x: ir::Value, from: Scalar) -> ir::Value {
        match from {
            Scalar::F32 => {
                let zero = self.constant(from, 0);
                self.builder.ins().fcmp(FloatCC::NotEqual, x, zero)
            }
            Scalar::F64 => {
                let zero = self.constant(from, 0);
                self.builder.ins().fcmp(FloatCC::NotEqual, x, zero)
            }
            _ => {
                let x = if from.is_half() { self.builder.ins().band_imm_u(x, 0x7fff) } else { x };
                let zero = self.int(clif_type(from), 0);
                self.builder.ins().icmp(IntCC::NotEqual, x, zero)
            }
        }
    }

    fn resize(&mut self, x: ir::Value, to: ir::Type, signed: bool) -> ir::Value {
        let from = self.builder.func.dfg.value_type(x);
        match from.bits().cmp(&to.bits()) {
            std::cmp::Ordering::Less if signed => self.builder.ins().sextend(to, x),
            std::cmp::Ordering::Less => self.builder.ins().uextend(to, x),
            std::cmp::Ordering::Equal => x,
            std::cmp::Ordering::Greater => self.builder.ins().ireduce(to, x),
        }
    }

    fn int_to_float(&mut self, x: ir::Value, from: Scalar, to: Scalar) -> ir::Value {
        let to = clif_type(to);
        if from == Scalar::U64 {
            return self.builder.ins().fcvt_from_uint(to, x);
        }
        // Every other type fits a signed integer of 32 or 64 bits.
        let wide = if from == Scalar::U32 || from == Scalar::I64 { types::I64 } else { types::I32 };
        let x = self.resize(x, wide, from.is_signed_int());
        self.builder.ins().fcvt_from_sint(to, x)
    }

    fn float_to_int(&mut self, x: ir::Value, to: Scalar) -> ir::Value {
        match to {
            Scalar::I32 => self.builder.ins().fcvt_to_sint_sat(types::I32, x),
            Scalar::I64 => self.builder.ins().fcvt_to_sint_sat(types::I64, x),
            Scalar::U32 => self.builder.ins().fcvt_to_uint_sat(types::I32, x),
            Scalar::U64 => self.builder.ins().fcvt_to_uint_sat(types::I64, x),
            _ => {
                let wide = self.builder.ins().fcvt_to_sint_sat(types::I32, x);
                let (low, high) = match to {
                    Scalar::I8 => (i8::MIN as i64, i8::MAX as i64),
                    Scalar::U8 => (0, u8::MAX as i64),
                    Scalar::I16 => (i16::MIN as i64, i16::MAX as i64),
                    _ => (0, u16::MAX as i64),
                };
                let low = self.int(types::I32, low as u64);
                let high = self.int(types::I32, high as u64);
                let wide = self.builder.ins().smax(wide, low);
                let wide = self.builder.ins().smin(wide, high);
                self.builder.ins().ireduce(clif_type(to), wide)
            }
        }
    }

    fn bf16_to_f32(&mut self, x: ir::Value) -> ir::Value {
        let wide = self.builder.ins().uextend(types::I32, x);
        let bits = self.builder.ins().ishl_imm_u(wide, 16);
        self.with_bits(bits, Scalar::F32)
    }

    fn f32_to_bf16(&mut self, x: ir::Value) -> ir::Value {
        let bits = self.bits_of(x, Scalar::F32);
        let upper = self.builder.ins().ushr_imm_u(bits, 16);
        let odd = self.builder.ins().band_imm_u(upper, 1);
        let bias = self.builder.ins().iadd_imm_u(odd, 0x7fff);
        let rounded = self.builder.ins().iadd(bits, bias);
        let rounded = self.builder.ins().ushr_imm_u(rounded, 16);
        // NaNs are apart, because rounding could carry their payload into infinity or beyond; the upper half made quiet
        // is a NaN.
        let quiet = self.builder.ins().bor_imm_u(upper, 0x40);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, x, x);
        let result = self.builder.ins().select(is_nan, quiet, rounded);
        self.builder.ins().ireduce(types::I16, result)
    }

    /// The exponent and fraction moved to their places in an `f32` are the value times 2^-112, subnormals included;
    /// one exact multiplication puts that right.
    fn f16_to_f32(&mut self, x: ir::Value) -> ir::Value {
        let wide = self.builder.ins().uextend(types::I32, x);
        let sign = self.builder.ins().band_imm_u(wide, 0x8000);
        let sign = self.builder.ins().ishl_imm_u(sign, 16);
        let magnitude = self.builder.ins().band_imm_u(wide, 0x7fff);
        let shifted = self.builder.ins().ishl_imm_u(magnitude, 13);
        let scaled = self.with_bits(shifted, Scalar::F32);
        let scale = self.constant(Scalar::F32, (127 + 112) << 23);
        let scaled = self.builder.ins().fmul(scaled, scale);
        let finite = self.bits_of(scaled, Scalar::F32);
        // Infinities and NaNs came out with exponent 16; all ones is theirs.
        let special = self.builder.ins().bor_imm_u(finite, 0x7f80_0000);
        let limit = self.int(types::I32, 0x7c00);
        let is_finite = self.builder.ins().icmp(IntCC::UnsignedLessThan, magnitude, limit);
        let bits = self.builder.ins().select(is_finite, finite, special);
        let bits = self.builder.ins().bor(bits, sign);
        self.with_bits(bits, Scalar::F32)
    }

    /// After Fabian Giesen's `float_to_half_fast3_rtne`: normal results round in integer arithmetic, with the carry
    /// running into the exponent as it should; for subnormal ones, adding 0.5 lines the fraction up at the bottom of
    /// an `f32` and lets the adder round.
    fn f32_to_f16(&mut self, x: ir::Value) -> ir::Value {
        let bits = self.bits_of(x, Scalar::F32);
        let magnitude = self.builder.ins().band_imm_u(bits, 0x7fff_ffff);
        let sign = self.builder.ins().bxor(bits, magnitude);
        let sign = self.builder.ins().ushr_imm_u(sign, 16);

        let lowest = self.builder.ins().ushr_imm_u(magnitude, 13);
        let odd = self.builder.ins().band_imm_u(lowest, 1);
        // Rebias the exponent by 15 - 127 and add all but half of what is cut off.
        let rebias = self.int(types::I32, 0xc800_0fff);
        let normal = self.builder.ins().iadd(magnitude, rebias);
        let normal = self.builder.ins().iadd(normal, odd);
        let normal = self.builder.ins().ushr_imm_u(normal, 13);

        let half = self.constant(Scalar::F32, 0x3f00_0000);
        let absolute = self.with_bits(magnitude, Scalar::F32);
        let aligned = self.builder.ins().fadd(absolute, half);
        let aligned = self.bits_of(aligned, Scalar::F32);
        let half_bits = self.int(types::I32, 0x3f00_0000);
        let subnormal = self.builder.ins().isub(aligned, half_bits);

        let infinity = self.int(types::I32, 0x7c00);
        let nan = self.int(types::I32, 0x7e00);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, x, x);
        let special = self.builder.ins().select(is_nan, nan, infinity);

        let smallest_normal = self.int(types::I32, (127 - 14) << 23);
        let is_subnormal = self.builder.ins().icmp(IntCC::UnsignedLessThan, magnitude, smallest_normal);
        let result = self.builder.ins().select(is_subnormal, subnormal, normal);
        let overflow = self.int(types::I32, (127 + 16) << 23);
        let is_special = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, magnitude, overflow);
        let result = self.builder.ins().select(is_special, special, result);
        let result = self.builder.ins().bor(result, sign);
        self.builder.ins().ireduce(types::I16, result)
    }

    /// The `f32` next to `x` toward zero, with its last bit set unless it is exact.
    fn f64_to_f32_round_to_odd(&mut self, x: ir::Value) -> ir::Value {
        let nearest = self.builder.ins().fdemote(types::F32, x);
        let back = self.builder.ins().fpromote(types::F64, nearest);
        let exact_or_nan = self.builder.ins().fcmp(FloatCC::UnorderedOrEqual, back, x);
        let (back_magnitude, magnitude) = (self.builder.ins().fabs(back), self.builder.ins().fabs(x));
        let rounded_up = self.builder.ins().fcmp(FloatCC::GreaterThan, back_magnitude, magnitude);
        let rounded_up = self.builder.ins().uextend(types::I32, rounded_up);
        let bits = self.bits_of(nearest, Scalar::F32);
        let toward_zero = self.builder.ins().isub(bits, rounded_up);
        let odd = self.builder.ins().bor_imm_u(toward_zero, 1);
        let bits = self.builder.ins().select(exact_or_nan, bits, odd);
        self.with_bits(bits, Scalar::F32)
    }
}
