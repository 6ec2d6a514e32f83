//! Arithmetic, comparison, bits and the natively computed mathematics.
//!
//! Cranelift's integer division traps where HIR's does not, its shifts wrap the count, and its `fmin` and `fmax` give
//! NaN where HIR gives the other operand; each is put right here with the fewest instructions. Arithmetic on 16-bit
//! floats is done in `f32` and rounded.

use super::{CraneliftLowering, Lowered, clif_type};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use polyloom_ir::{InstData, Op, Scalar, Value};

impl CraneliftLowering<'_> {
    /// Lowers a pure op on scalars.
    pub(super) fn scalar_op(&mut self, data: &InstData) -> Lowered<()> {
        let result = self.result(data)?;
        let first = self.operand(data, 0)?;
        let value = match data.op {
            Op::Cast => {
                let (from, to) = (self.scalar(first)?, self.scalar(result)?);
                let x = self.value(first)?;
                self.cast(x, from, to)
            }
            Op::Bitcast => {
                let (from, to) = (clif_type(self.scalar(first)?), clif_type(self.scalar(result)?));
                let x = self.value(first)?;
                if from == to { x } else { self.builder.ins().bitcast(to, ir::MemFlagsData::new(), x) }
            }
            Op::Select => {
                let (a, b) = (self.operand(data, 1)?, self.operand(data, 2)?);
                let (cond, a, b) = (self.value(first)?, self.value(a)?, self.value(b)?);
                self.builder.ins().select(cond, a, b)
            }
            Op::Neg | Op::Abs | Op::Invert | Op::Not | Op::Sqrt | Op::Floor | Op::Ceil | Op::Trunc | Op::Rint => {
                let ty = self.scalar(first)?;
                let x = self.value(first)?;
                self.unary(data, ty, x)?
            }
            Op::Fma => {
                let (b, c) = (self.operand(data, 1)?, self.operand(data, 2)?);
                let ty = self.scalar(first)?;
                let (a, b, c) = (self.value(first)?, self.value(b)?, self.value(c)?);
                self.fused_multiply_add(ty, a, b, c)
            }
            _ => {
                let second = self.operand(data, 1)?;
                self.binary(data, first, second)?
            }
        };
        self.set(result, value);
        Ok(())
    }

    fn unary(&mut self, data: &InstData, ty: Scalar, x: ir::Value) -> Lowered<ir::Value> {
        if ty.is_half() {
            let wide = self.cast(x, ty, Scalar::F32);
            let result = self.unary(data, Scalar::F32, wide)?;
            return Ok(self.cast(result, Scalar::F32, ty));
        }
        let ins = self.builder.ins();
        Ok(match (data.op, ty.is_float()) {
            (Op::Neg, true) => ins.fneg(x),
            (Op::Neg, false) => ins.ineg(x),
            (Op::Abs, true) => ins.fabs(x),
            (Op::Abs, false) if ty.is_signed_int() => ins.iabs(x),
            (Op::Abs, false) => x,
            (Op::Invert, false) => ins.bnot(x),
            (Op::Not, false) => ins.bxor_imm_u(x, 1),
            (Op::Sqrt, true) => ins.sqrt(x),
            (Op::Floor, true) => ins.floor(x),
            (Op::Ceil, true) => ins.ceil(x),
            (Op::Trunc, true) => ins.trunc(x),
            (Op::Rint, true) => ins.nearest(x),
            _ => return self.unsupported(data, ty),
        })
    }

    fn unsupported<T>(&self, data: &InstData, ty: Scalar) -> Lowered<T> {
        self.error(data.span, format!("the Cranelift back end has no `{}` for {ty}", data.op.name()))
    }

    /// `a * b + c` with one rounding; for 16-bit floats computed in `f64` and rounded once.
    fn fused_multiply_add(&mut self, ty: Scalar, a: ir::Value, b: ir::Value, c: ir::Value) -> ir::Value {
        if !ty.is_half() {
            return self.builder.ins().fma(a, b, c);
        }
        let [a, b, c] = [a, b, c].map(|x| self.cast(x, ty, Scalar::F64));
        let result = self.builder.ins().fma(a, b, c);
        self.cast(result, Scalar::F64, ty)
    }

    fn binary(&mut self, data: &InstData, first: Value, second: Value) -> Lowered<ir::Value> {
        let ty = self.scalar(first)?;
        let (a, b) = (self.value(first)?, self.value(second)?);
        if ty.is_half() {
            let (a, b) = (self.cast(a, ty, Scalar::F32), self.cast(b, ty, Scalar::F32));
            let result = self.float_binary(data, Scalar::F32, a, b, None)?;
            let compares = matches!(data.op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge);
            return Ok(if compares { result } else { self.cast(result, Scalar::F32, ty) });
        }
        if ty.is_float() {
            return self.float_binary(data, ty, a, b, self.func.as_const(second));
        }
        let signed = ty.is_signed_int();
        let pick = |s, u| if signed { s } else { u };
        let compare = match data.op {
            Op::Eq => Some(IntCC::Equal),
            Op::Ne => Some(IntCC::NotEqual),
            Op::Lt | Op::Min => Some(pick(IntCC::SignedLessThan, IntCC::UnsignedLessThan)),
            Op::Le => Some(pick(IntCC::SignedLessThanOrEqual, IntCC::UnsignedLessThanOrEqual)),
            Op::Gt | Op::Max => Some(pick(IntCC::SignedGreaterThan, IntCC::UnsignedGreaterThan)),
            Op::Ge => Some(pick(IntCC::SignedGreaterThanOrEqual, IntCC::UnsignedGreaterThanOrEqual)),
            _ => None,
        };
        if let Some(condition) = compare {
            let holds = self.builder.ins().icmp(condition, a, b);
            let picks = matches!(data.op, Op::Min | Op::Max);
            return Ok(if picks { self.builder.ins().select(holds, a, b) } else { holds });
        }
        Ok(match data.op {
            Op::Add => self.builder.ins().iadd(a, b),
            Op::Sub => self.builder.ins().isub(a, b),
            Op::Mul => self.builder.ins().imul(a, b),
            Op::BitAnd => self.builder.ins().band(a, b),
            Op::BitOr => self.builder.ins().bor(a, b),
            Op::BitXor => self.builder.ins().bxor(a, b),
            Op::Div => self.divide(ty, a, b, self.func.as_const(second)),
            Op::Mod => self.remainder(ty, a, b, self.func.as_const(second)),
            Op::Lshift | Op::Rshift => self.shift(data.op, ty, a, b, self.func.as_const(second)),
            _ => return self.unsupported(data, ty),
        })
    }

    fn shift(&mut self, op: Op, ty: Scalar, x: ir::Value, count: ir::Value, known: Option<u64>) -> ir::Value {
        let width = u64::from(ty.bits());
        let clif = clif_type(ty);
        let shift = |this: &mut Self, count| match (op, ty.is_signed_int()) {
            (Op::Lshift, _) => this.builder.ins().ishl(x, count),
            (_, true) => this.builder.ins().sshr(x, count),
            (_, false) => this.builder.ins().ushr(x, count),
        };
        let fills_with_sign = op == Op::Rshift && ty.is_signed_int();
        if let Some(known) = known {
            return match (known < width, fills_with_sign) {
                (true, _) => shift(self, count),
                (false, true) => {
                    let last = self.int(clif, width - 1);
                    shift(self, last)
                }
                (false, false) => self.int(clif, 0),
            };
        }
        let limit = self.int(clif, width);
        let in_range = self.builder.ins().icmp(IntCC::UnsignedLessThan, count, limit);
        if fills_with_sign {
            let last = self.int(clif, width - 1);
            let count = self.builder.ins().select(in_range, count, last);
            return shift(self, count);
        }
        let shifted = shift(self, count);
        let zero = self.int(clif, 0);
        self.builder.ins().select(in_range, shifted, zero)
    }

    /// Integer division without traps: where the divisor is 0 or -1 the quotient is 0 or -a, in both cases a * b.
    fn divide(&mut self, ty: Scalar, a: ir::Value, b: ir::Value, known: Option<u64>) -> ir::Value {
        if ty.bits() < 32 {
            let wide = if ty.is_signed_int() { Scalar::I32 } else { Scalar::U32 };
            let (wide_a, wide_b) = (self.cast(a, ty, wide), self.cast(b, ty, wide));
            let known = known.map(|bits| sign_extend(bits, ty) & u64::from(u32::MAX));
            let wide_b = known.map_or(wide_b, |bits| self.constant(wide, bits));
            let result = self.divide(wide, wide_a, wide_b, known);
            return self.cast(result, wide, ty);
        }
        let signed = ty.is_signed_int();
        let special = |bits: u64| bits == 0 || (signed && sign_extend(bits, ty) == u64::MAX);
        match known {
            Some(bits) if special(bits) => return self.builder.ins().imul(a, b),
            Some(bits) if !signed && bits.is_power_of_two() => {
                return self.builder.ins().ushr_imm_u(a, i64::from(bits.trailing_zeros()));
            }
            Some(_) if signed => return self.builder.ins().sdiv(a, b),
            Some(_) => return self.builder.ins().udiv(a, b),
            None => {}
        }
        let clif = clif_type(ty);
        let one = self.int(clif, 1);
        let is_special = if signed {
            let above = self.builder.ins().iadd(b, one);
            let two = self.int(clif, 2);
            self.builder.ins().icmp(IntCC::UnsignedLessThan, above, two)
        } else {
            let zero = self.int(clif, 0);
            self.builder.ins().icmp(IntCC::Equal, b, zero)
        };
        let divisor = self.builder.ins().select(is_special, one, b);
        let quotient = if signed { self.builder.ins().sdiv(a, divisor) } else { self.builder.ins().udiv(a, divisor) };
        let by_special = self.builder.ins().imul(a, b);
        self.builder.ins().select(is_special, by_special, quotient)
    }

    /// Integer remainder. The quotient above makes `a - quotient * b` right for every divisor.
    fn remainder(&mut self, ty: Scalar, a: ir::Value, b: ir::Value, known: Option<u64>) -> ir::Value {
        match known {
            Some(bits) if ty.is_unsigned_int() && bits.is_power_of_two() => {
                self.builder.ins().band_imm_u(a, (bits - 1) as i64)
            }
            _ => {
                let quotient = self.divide(ty, a, b, known);
                let product = self.builder.ins().imul(quotient, b);
                self.builder.ins().isub(a, product)
            }
        }
    }

    /// An op on two `f32` or `f64`. `known` is the second operand's bits where it is constant.
    fn float_binary(
        &mut self,
        data: &InstData,
        ty: Scalar,
        a: ir::Value,
        b: ir::Value,
        known: Option<u64>,
    ) -> Lowered<ir::Value> {
        Ok(match data.op {
            Op::Add => self.builder.ins().fadd(a, b),
            Op::Sub => self.builder.ins().fsub(a, b),
            Op::Mul => self.builder.ins().fmul(a, b),
            Op::Div => self.builder.ins().fdiv(a, b),
            Op::Eq => self.builder.ins().fcmp(FloatCC::Equal, a, b),
            Op::Ne => self.builder.ins().fcmp(FloatCC::NotEqual, a, b),
            Op::Lt => self.builder.ins().fcmp(FloatCC::LessThan, a, b),
            Op::Le => self.builder.ins().fcmp(FloatCC::LessThanOrEqual, a, b),
            Op::Gt => self.builder.ins().fcmp(FloatCC::GreaterThan, a, b),
            Op::Ge => self.builder.ins().fcmp(FloatCC::GreaterThanOrEqual, a, b),
            Op::Min | Op::Max => self.float_extremum(data.op, ty, a, b, known),
            _ => return self.unsupported(data, ty),
        })
    }

    /// `min` or `max` of `f32` or `f64`.
    ///
    /// `a < b ? a : b` (one x86 instruction) gives `b` when the operands are equal or one is NaN. That is already right
    /// where `b` is a constant other than NaN and the zero that loses against the other. Otherwise both orders are
    /// tried: where neither operand is NaN they differ at most for zeros of both signs, and combining the bits picks
    /// the right one.
    pub(super) fn float_extremum(
        &mut self,
        op: Op,
        ty: Scalar,
        a: ir::Value,
        b: ir::Value,
        known: Option<u64>,
    ) -> ir::Value {
        let pick = |this: &mut Self, x, y| {
            let (low, high) = if op == Op::Min { (x, y) } else { (y, x) };
            let holds = this.builder.ins().fcmp(FloatCC::LessThan, low, high);
            this.builder.ins().select(holds, x, y)
        };
        if known.is_some_and(|bits| wins_ties(op, ty, bits)) {
            return pick(self, a, b);
        }
        let forward = pick(self, a, b);
        let backward = pick(self, b, a);
        let combined = if op == Op::Min {
            self.builder.ins().bor(forward, backward)
        } else {
            self.builder.ins().band(forward, backward)
        };
        let b_is_nan = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
        let other = self.builder.ins().select(b_is_nan, a, b);
        let unordered = self.builder.ins().fcmp(FloatCC::Unordered, a, b);
        self.builder.ins().select(unordered, other, combined)
    }

    /// A value's bits as `i64`, zero-extended.
    pub(super) fn bits_as_i64(&mut self, value: ir::Value, ty: Scalar) -> ir::Value {
        let bits = self.bits_of(value, ty);
        if self.builder.func.dfg.value_type(bits) == types::I64 {
            bits
        } else {
            self.builder.ins().uextend(types::I64, bits)
        }
    }
}

/// Returns true if "`a` if it is better than this constant, else the constant" is the op's result for every `a`.
fn wins_ties(op: Op, ty: Scalar, bits: u64) -> bool {
    let value = if ty == Scalar::F32 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) };
    // Against a zero of the other sign: min is the negative zero, max the positive one.
    let right_zero = if op == Op::Min { value.is_sign_negative() } else { value.is_sign_positive() };
    !value.is_nan() && (value != 0.0 || right_zero)
}

/// The bits of a constant of an integer type, sign-extended if the type is signed.
fn sign_extend(bits: u64, ty: Scalar) -> u64 {
    let unused = 64 - ty.bits();
    if ty.is_signed_int() { ((bits << unused) as i64 >> unused) as u64 } else { bits }
}
