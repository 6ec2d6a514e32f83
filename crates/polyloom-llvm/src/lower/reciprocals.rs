//! Integer division by what all threads or iterations share becomes a multiplication.
//!
//! The reciprocal of a divisor is computed where the division stands, from instructions that LLVM may run before it is
//! known whether they are needed, so that loop-invariant code motion takes them out of the loops around. No `udiv` is
//! among them, because LLVM moves none whose divisor may be zero.
//!
//! Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (PLDI 1994), figure 4.1. For
//! N bits, `l = ceil(log2 d)` and `m = floor(2^N (2^l - d) / d) + 1`, the quotient of every `n < 2^N` is
//! `(mulhi(m, n) + (n - mulhi(m, n)) >> min(l, 1)) >> max(l - 1, 0)`. Signed numbers are divided by magnitude.

use super::arith::ArithContext;
use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use cranelift_entity::SecondaryMap;
use polyloom_ir::{Function, Inst, InstData, Op, Region, Scalar, Value};

/// Finds the integer divisions whose divisor is computed outside of the innermost loop around them. A kernel's body is
/// in the loop over the launch's threads, a function's in none.
pub(crate) fn find_divisions_by_invariants(func: &Function, is_kernel: bool) -> SecondaryMap<Inst, bool> {
    let mut search = InvariantSearch { func, depths: SecondaryMap::new(), divisions: SecondaryMap::new() };
    search.visit(func.body, u32::from(is_kernel));
    search.divisions
}

/// Walks a function to find what its loops leave as it is.
struct InvariantSearch<'a> {
    func: &'a Function,
    /// The depth of the innermost loop in which a value changes, 0 where none changes it.
    depths: SecondaryMap<Value, u32>,
    divisions: SecondaryMap<Inst, bool>,
}

impl InvariantSearch<'_> {
    fn visit(&mut self, region: Region, depth: u32) {
        let func = self.func;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            let changes_at = self.find_depth_of_result(data, depth);
            for &result in &data.results {
                self.depths[result] = changes_at;
            }
            let is_integer =
                data.results.first().and_then(|&value| func.ty(value).as_scalar()).is_some_and(Scalar::is_int);
            if matches!(data.op, Op::Div | Op::Mod) && is_integer {
                self.divisions[inst] = self.depths[data.operands[1]] < depth;
            }
            let inner_depth = depth + u32::from(matches!(data.op, Op::ForRange | Op::While));
            for &inner in &data.regions {
                for &param in &func.regions[inner].params {
                    self.depths[param] = inner_depth;
                }
                self.visit(inner, inner_depth);
            }
        }
    }

    /// Returns the depth at which results of an instruction change: that of its operands where they alone decide.
    fn find_depth_of_result(&self, data: &InstData, depth: u32) -> u32 {
        match data.op {
            Op::Const | Op::Dim => 0,
            _ if data.op.info().is_pure() && !data.operands.is_empty() && data.regions.is_empty() => {
                let of_operands = data.operands.iter().map(|&operand| self.depths[operand]);
                of_operands.max().unwrap_or(depth)
            }
            _ => depth,
        }
    }
}

/// Holds what a division by one number multiplies and shifts by.
pub(crate) struct Reciprocal {
    /// `m`.
    multiplier: Val,
    /// 1, but 0 for the divisor 1.
    first_shift: Val,
    last_shift: Val,
    /// All ones for negative divisors, 0 for others; `None` if they are unsigned.
    sign: Option<Val>,
}

impl ArithContext<'_, '_> {
    /// Computes the reciprocal of a scalar. That of 0 gives quotients of 0.
    pub(crate) fn compute_reciprocal(&self, divisor: Val, ty: Scalar) -> Reciprocal {
        let ir = self.ir;
        let n_bits = ty.bits();
        let llvm = ir.int(n_bits);
        let constant = |value: u32| ir.int_const(llvm, value.into());
        let (zero, one) = (ir.zero(llvm), constant(1));
        let sign = ty.is_signed_int().then(|| ir.ashr(divisor, constant(n_bits - 1)));
        let magnitude = sign.map_or(divisor, |sign| ir.sub(ir.xor(divisor, sign), sign));
        let is_zero = ir.icmp(EQ, magnitude, zero);
        let magnitude = ir.select(is_zero, one, magnitude);
        let count_leading = |value: Val| ir.intrinsic("llvm.ctlz", &[llvm], &[value, ir.bool_const(false)]);
        let ceil_log2 = ir.sub(constant(n_bits), count_leading(ir.sub(magnitude, one)));
        let normalised = ir.shl(magnitude, count_leading(magnitude));
        // For a power of two the quotient is 2^(N+1), whose low bits are 0, and `m` is 1, as it should be.
        let quotient = if n_bits == 64 {
            self.compute_quotient_in_128(normalised)
        } else {
            self.compute_quotient_in_64(normalised, n_bits)
        };
        let multiplier = ir.add(ir.trunc(quotient, llvm), one);
        let first_shift = ir.binary_intrinsic("llvm.umin", ceil_log2, one);
        let last_shift = ir.sub(ceil_log2, first_shift);
        Reciprocal {
            multiplier: ir.select(is_zero, zero, multiplier),
            first_shift: ir.select(is_zero, one, first_shift),
            last_shift: ir.select(is_zero, constant(n_bits - 1), last_shift),
            sign,
        }
    }

    /// `floor(2^(2N) / d)` in 64 bits, for a divisor of N bits whose highest is set. The float is above the quotient by
    /// less than 1, or it is the quotient.
    fn compute_quotient_in_64(&self, divisor: Val, n_bits: u32) -> Val {
        let ir = self.ir;
        let wide = ir.int(64);
        let divisor = ir.zext(divisor, wide);
        let flags = ir.set_fast_math(0);
        let dividend = ir.float_const(ir.f64(), f64::from(2 * n_bits).exp2());
        let estimate = ir.fptoui(ir.fdiv(dividend, ir.uitofp(divisor, ir.f64())), wide);
        ir.set_fast_math(flags);
        // 2^64 is 0 there, and the remainder is small.
        let dividend = ir.int_const(wide, 1u64.checked_shl(2 * n_bits).unwrap_or_default());
        let rest = ir.sub(dividend, ir.mul(estimate, divisor));
        ir.add(estimate, ir.ashr(rest, ir.i64_const(63)))
    }

    /// `floor(2^128 / d)` in 128 bits, for a divisor of 64 bits whose highest is set.
    ///
    /// The first estimate is wrong by less than 2^14, because floats have 53 bits. The remainder times the estimate says
    /// by how much, but for 1 either way.
    fn compute_quotient_in_128(&self, divisor: Val) -> Val {
        let ir = self.ir;
        let (wide, float) = (ir.int(128), ir.f64());
        let constant = |value: u64| ir.int_const(wide, value);
        let flags = ir.set_fast_math(0);
        let half = ir.fdiv(ir.float_const(float, 127f64.exp2()), ir.uitofp(divisor, float));
        let most = ir.float_const(float, 64f64.exp2() - 11f64.exp2());
        let half = ir.fptoui(ir.select(ir.fcmp(OGT, half, most), most, half), ir.int(64));
        ir.set_fast_math(flags);
        let divisor = ir.zext(divisor, wide);
        let estimate = ir.shl(ir.zext(half, wide), constant(1));
        // 2^128 is 0 there.
        let rest = ir.neg(ir.mul(estimate, divisor));
        let error = ir.ashr(ir.mul(ir.ashr(rest, constant(32)), estimate), constant(96));
        let (estimate, rest) = (ir.add(estimate, error), ir.sub(rest, ir.mul(error, divisor)));
        let is_low = ir.zext(ir.icmp(SGE, rest, divisor), wide);
        ir.add(ir.add(estimate, is_low), ir.ashr(rest, constant(127)))
    }

    /// The truncated quotient of a scalar or of each lane: that of [`ArithContext::emit`], in fewer cycles.
    pub(crate) fn divide_by(&self, dividend: Val, reciprocal: &Reciprocal, ty: Scalar) -> Val {
        let ir = self.ir;
        let (llvm, lanes) = (ir.type_of(dividend), ir.n_lanes(dividend));
        let splat = |value: Val| ir.splat(value, lanes);
        let sign =
            reciprocal.sign.map(|sign| (ir.ashr(dividend, ir.int_const(llvm, (ty.bits() - 1).into())), splat(sign)));
        let magnitude = sign.map_or(dividend, |(own, _)| ir.sub(ir.xor(dividend, own), own));
        let high = self.multiply_high(magnitude, reciprocal.multiplier, ty.bits());
        let rest = ir.lshr(ir.sub(magnitude, high), splat(reciprocal.first_shift));
        let quotient = ir.lshr(ir.add(rest, high), splat(reciprocal.last_shift));
        match sign {
            Some((own, of_divisor)) => {
                let sign = ir.xor(own, of_divisor);
                ir.sub(ir.xor(quotient, sign), sign)
            }
            None => quotient,
        }
    }

    /// The upper half of the product of unsigned numbers of N bits. `b` is a scalar.
    fn multiply_high(&self, a: Val, b: Val, n_bits: u32) -> Val {
        let ir = self.ir;
        let (llvm, lanes) = (ir.type_of(a), ir.n_lanes(a));
        match n_bits {
            64 if lanes > 1 => return self.multiply_high_in_halves(a, ir.splat(b, lanes)),
            32 if lanes > 1 => return self.multiply_high_in_pairs(a, b),
            _ => {}
        }
        let wide = ir.lanes(ir.int(2 * n_bits), lanes);
        let product = ir.mul(ir.zext(a, wide), ir.zext(ir.splat(b, lanes), wide));
        ir.trunc(ir.lshr(product, ir.int_const(wide, n_bits.into())), llvm)
    }

    /// The same for vectors of 64 bits, of which processors multiply halves alone. The sums are not in the order that
    /// LLVM 22 takes for products of 128 bits, because it computes those lane by lane.
    fn multiply_high_in_halves(&self, a: Val, b: Val) -> Val {
        let ir = self.ir;
        let llvm = ir.type_of(a);
        let (low_bits, half) = (ir.int_const(llvm, u32::MAX.into()), ir.int_const(llvm, 32));
        let (low, high) = (|value: Val| ir.and(value, low_bits), |value: Val| ir.lshr(value, half));
        let (a_low, a_high, b_low, b_high) = (low(a), high(a), low(b), high(b));
        let (low_high, high_high) = (ir.mul(a_low, b_high), ir.mul(a_high, b_high));
        let middle = ir.add(ir.mul(a_high, b_low), high(ir.mul(a_low, b_low)));
        let carries = high(ir.add(low(middle), low(low_high)));
        ir.add(ir.add(high_high, high(middle)), ir.add(high(low_high), carries))
    }

    /// The same for vectors of 32 bits: lanes of even and odd numbers are multiplied where they are, so that none is
    /// moved.
    fn multiply_high_in_pairs(&self, a: Val, b: Val) -> Val {
        let ir = self.ir;
        let lanes = ir.n_lanes(a) / 2;
        let wide = ir.lanes(ir.int(64), lanes);
        let pairs = ir.bitcast(a, wide);
        let b = ir.splat(ir.zext(b, ir.int(64)), lanes);
        let (low_bits, half) = (ir.int_const(wide, u32::MAX.into()), ir.int_const(wide, 32));
        let even = ir.lshr(ir.mul(ir.and(pairs, low_bits), b), half);
        let odd = ir.and(ir.mul(ir.lshr(pairs, half), b), ir.not(low_bits));
        ir.bitcast(ir.or(even, odd), ir.type_of(a))
    }
}

impl FunctionLowering<'_, '_> {
    /// The quotient or remainder by what all lanes share and the loop around leaves as it is; `None` for other
    /// instructions. `dividend` is a scalar or has a lane for each thread.
    pub(super) fn divide_by_invariant(&self, inst: Inst, ty: Scalar, dividend: Val) -> Result<Option<Val>> {
        let data = &self.func.insts[inst];
        if !self.by_invariants[inst] || self.arith.processor.is_gpu {
            return Ok(None);
        }
        let ValueRep::Uniform(divisor) = self.rep(data.operands[1])? else { return Ok(None) };
        // LLVM knows the reciprocals of constants, and shorter code for many of them.
        if self.ir.is_const(divisor) {
            return Ok(None);
        }
        let quotient = self.arith.divide_by(dividend, &self.arith.compute_reciprocal(divisor, ty), ty);
        Ok(Some(match data.op {
            Op::Div => quotient,
            _ => {
                let divisor = self.ir.splat(divisor, self.ir.n_lanes(dividend));
                self.ir.sub(dividend, self.ir.mul(quotient, divisor))
            }
        }))
    }
}
