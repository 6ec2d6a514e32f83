//! Native pure ops: arithmetic, comparison, bits, scalar mathematics.
//!
//! Every function works on scalars and on vectors of lanes alike. The results are those of `polyloom_ir::eval`, bit for
//! bit, in every lane: lanes whose thread is not active compute something harmless, never poison that could spread
//! and never undefined behaviour.

use super::cast;
use crate::ir::*;
use crate::target::HostProcessor;
use polyloom_ir::{Op, Scalar};

/// Describes what emitting an op needs to know besides its operands.
#[derive(Clone, Copy)]
pub(crate) struct ArithContext<'a, 'c> {
    /// The builder.
    pub(crate) ir: &'a IrEmitter<'c>,
    /// The processor.
    pub(crate) processor: &'a HostProcessor,
}

impl ArithContext<'_, '_> {
    /// Emits a native pure op with scalar operands, all of as many lanes. `from` is the type of the first operand that
    /// is not a condition, `to` that of the result. `None` for ops that are not of this kind.
    pub(crate) fn emit(&self, op: Op, from: Scalar, to: Scalar, operands: &[Val]) -> Option<Val> {
        let ir = self.ir;
        let float = from.is_float();
        let signed = from.is_signed_int();
        let a = *operands.first()?;
        let b = operands.get(1).copied().unwrap_or(a);
        let moves_or_compares = matches!(op, Op::Cast | Op::Bitcast | Op::Select)
            || matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge);
        if from.is_half() && !moves_or_compares {
            return None;
        }
        Some(match op {
            Op::Cast => cast::cast(self, a, from, to),
            Op::Bitcast => ir.bitcast(a, ir.lanes(ir.scalar(to), ir.n_lanes(a))),
            Op::Select => ir.select(a, b, *operands.get(2)?),
            Op::Add if float => ir.fadd(a, b),
            Op::Add => ir.add(a, b),
            Op::Sub if float => ir.fsub(a, b),
            Op::Sub => ir.sub(a, b),
            Op::Mul if float => ir.fmul(a, b),
            Op::Mul => ir.mul(a, b),
            Op::Div if float => ir.fdiv(a, b),
            Op::Div => self.int_div(a, b, from),
            Op::Mod if float => return None,
            Op::Mod => {
                let quotient = self.int_div(a, b, from);
                ir.sub(a, ir.mul(quotient, b))
            }
            Op::Neg if float => ir.fneg(a),
            Op::Neg => ir.neg(a),
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => self.compare(op, a, b, from),
            Op::BitAnd => ir.and(a, b),
            Op::BitOr => ir.or(a, b),
            Op::BitXor => ir.xor(a, b),
            Op::Invert | Op::Not => ir.not(a),
            Op::Lshift | Op::Rshift => self.shift(op, a, b, from),
            Op::Abs if float => ir.unary_intrinsic("llvm.fabs", a),
            Op::Abs if signed => ir.intrinsic("llvm.abs", &[ir.type_of(a)], &[a, ir.bool_const(false)]),
            Op::Abs => a,
            Op::Min | Op::Max => self.min_max(op == Op::Max, a, b, from),
            Op::Sqrt => ir.sqrt(a),
            Op::Fma => ir.intrinsic("llvm.fma", &[ir.type_of(a)], &[a, b, *operands.get(2)?]),
            Op::Floor => ir.unary_intrinsic("llvm.floor", a),
            Op::Ceil => ir.unary_intrinsic("llvm.ceil", a),
            Op::Trunc => ir.unary_intrinsic("llvm.trunc", a),
            Op::Rint => ir.unary_intrinsic("llvm.roundeven", a),
            _ => return None,
        })
    }

    /// The type of values of `scalar` with as many lanes as `like`.
    pub(crate) fn ty(&self, scalar: Scalar, like: Val) -> Ty {
        self.ir.lanes(self.ir.scalar(scalar), self.ir.n_lanes(like))
    }

    fn compare(&self, op: Op, a: Val, b: Val, ty: Scalar) -> Val {
        let ir = self.ir;
        if ty.is_half() {
            let wide = |x| cast::cast(self, x, ty, Scalar::F32);
            return self.compare(op, wide(a), wide(b), Scalar::F32);
        }
        if ty.is_float() {
            let predicate = match op {
                Op::Eq => OEQ,
                Op::Ne => UNE,
                Op::Lt => OLT,
                Op::Le => OLE,
                Op::Gt => OGT,
                _ => OGE,
            };
            return ir.fcmp(predicate, a, b);
        }
        let signed = ty.is_signed_int();
        let predicate = match op {
            Op::Eq => EQ,
            Op::Ne => NE,
            Op::Lt if signed => SLT,
            Op::Le if signed => SLE,
            Op::Gt if signed => SGT,
            Op::Ge if signed => SGE,
            Op::Lt => ULT,
            Op::Le => ULE,
            Op::Gt => UGT,
            _ => UGE,
        };
        ir.icmp(predicate, a, b)
    }

    /// LLVM's shifts give poison from the width on; `select` does not pass on poison of the value it leaves out.
    fn shift(&self, op: Op, x: Val, count: Val, ty: Scalar) -> Val {
        let ir = self.ir;
        let width = ir.int_const(ir.type_of(x), ty.bits().into());
        let clamped = || {
            let most = ir.int_const(ir.type_of(x), (ty.bits() - 1).into());
            ir.binary_intrinsic("llvm.umin", count, most)
        };
        if op == Op::Rshift && ty.is_signed_int() {
            return ir.ashr(x, clamped());
        }
        // The count is clamped, because NVPTX takes the choice below for a shift that PTX's own does alone, whose count
        // has but 32 bits: LLVM 22 then loses the upper half of wider counts (llvm/llvm-project#201165).
        let by = if self.processor.is_gpu && ty.bits() == 64 { clamped() } else { count };
        let shifted = if op == Op::Lshift { ir.shl(x, by) } else { ir.lshr(x, by) };
        ir.select(ir.icmp(ULT, count, width), shifted, ir.zero(ir.type_of(x)))
    }

    /// `min` or `max`.
    pub(crate) fn min_max(&self, max: bool, a: Val, b: Val, ty: Scalar) -> Val {
        let name = match (ty.is_float(), ty.is_signed_int(), max) {
            (true, _, _) => return self.float_min_max(max, a, b, ty),
            (_, true, false) => "llvm.smin",
            (_, true, true) => "llvm.smax",
            (_, _, false) => "llvm.umin",
            (_, _, true) => "llvm.umax",
        };
        self.ir.binary_intrinsic(name, a, b)
    }

    /// The other operand for a NaN, and -0 below +0. It is spelled out for the host, because for scalars on AVX-512,
    /// LLVM 22's `minimumnum` of a `maximumnum` gives NaN where one operand of the inner one is NaN.
    fn float_min_max(&self, max: bool, a: Val, b: Val, ty: Scalar) -> Val {
        let ir = self.ir;
        if self.processor.is_gpu {
            return ir.binary_intrinsic(if max { "llvm.maximumnum" } else { "llvm.minimumnum" }, a, b);
        }
        let word = ir.lanes(ir.int(ty.bits()), ir.n_lanes(a));
        let (bits_a, bits_b) = (ir.bitcast(a, word), ir.bitcast(b, word));
        // Equal operands differ in the sign of zero at most.
        let equal_bits = if max { ir.and(bits_a, bits_b) } else { ir.or(bits_a, bits_b) };
        let first = ir.fcmp(if max { OGT } else { OLT }, a, b);
        let chosen = ir.select(ir.or(first, ir.fcmp(UNO, b, b)), a, b);
        ir.select(ir.fcmp(OEQ, a, b), ir.bitcast(equal_bits, ir.type_of(a)), chosen)
    }

    /// The truncated quotient, 0 for a zero divisor, wrapping for the most negative value by -1.
    fn int_div(&self, a: Val, b: Val, ty: Scalar) -> Val {
        let ir = self.ir;
        let llvm = ir.type_of(a);
        let (zero, two) = (ir.zero(llvm), ir.int_const(llvm, 2));
        let by_zero = ir.icmp(EQ, b, zero);
        // The two divisors with a result of their own are replaced, so that the division itself is defined. Not by 1:
        // LLVM 22 takes `a / select(c, 1, b)` for `select(c, a, a / b)` on AVX-512, and `b` may be 0 where `c` holds.
        let (unusual, minus_one) = match ty.is_signed_int() {
            true => {
                let minus_one = ir.icmp(EQ, b, ir.ones(llvm));
                (ir.or(by_zero, minus_one), Some(minus_one))
            }
            false => (by_zero, None),
        };
        let divisor = ir.select(unusual, two, b);
        let in_floats = ir.n_lanes(a) > 1 && ty.bits() <= 32 && !ir.is_const(b);
        let quotient = match (in_floats, ty.is_signed_int()) {
            (true, _) => self.divide_in_floats(a, divisor, ty),
            (false, true) => ir.sdiv(a, divisor),
            (false, false) => ir.udiv(a, divisor),
        };
        let quotient = match minus_one {
            Some(minus_one) => ir.select(minus_one, ir.neg(a), quotient),
            None => quotient,
        };
        ir.select(by_zero, zero, quotient)
    }

    /// No processor divides vectors of integers. A float of at least 1.5 times the integer's bits gives the exact
    /// truncated quotient, because where `a / b` is no integer it is at least `1 / b` away from the next one, and the
    /// rounding error is below `a / b * 2^-p < 1 / b`.
    fn divide_in_floats(&self, a: Val, b: Val, ty: Scalar) -> Val {
        let ir = self.ir;
        let lanes = ir.n_lanes(a);
        let float = ir.lanes(if ty.bits() <= 16 { ir.f32() } else { ir.f64() }, lanes);
        // Fast math is off, because the proof needs the correctly rounded quotient, whatever the kernel's float mode.
        let flags = ir.set_fast_math(0);
        if ty.is_signed_int() {
            let quotient = ir.fdiv(ir.sitofp(a, float), ir.sitofp(b, float));
            ir.set_fast_math(flags);
            return ir.fptosi(quotient, ir.type_of(a));
        }
        let quotient = ir.fdiv(ir.uitofp(a, float), ir.uitofp(b, float));
        ir.set_fast_math(flags);
        ir.fptoui(quotient, ir.type_of(a))
    }
}
