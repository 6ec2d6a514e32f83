//! What kernels of the float mode `fast` compute in other ways than LLVM would.

use super::{FunctionLowering, Result, ValueRep};
use crate::ir::*;
use polyloom_ir::{Inst, Op, Scalar, Value, ValueDef};

/// Lanes of the estimate's one form.
const LANES: u32 = 16;

impl FunctionLowering<'_, '_> {
    /// `a / (x * sqrt(x))` and `a / (d * d * d)` with `d = sqrt(x)`, as forces that fall with the square of the
    /// distance have it, of `f32`; `None` if the instruction is nothing of the kind.
    ///
    /// With `y` an estimate of `1 / sqrt(x)` and `e = 1 - x y²`, this is `a y³ (1 - e)^(-3/2)`, nearly
    /// `a y³ (1 + 3/2 e)`: for an estimate of 14 bits it is less than two units in the last place off. LLVM's Newton
    /// step on the estimate for `x³` takes two multiplications more, a sixth of all that the loop of an n-body kernel
    /// has.
    pub(super) fn lower_inverse_cube(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let data = &self.func.insts[inst];
        let [a, b] = data.operands[..] else { return Ok(None) };
        let estimates = cfg!(target_arch = "x86_64") && self.arith.processor.vector_bytes == 4 * LANES;
        let is_candidate = data.op == Op::Div && self.scalar_of(b)? == Scalar::F32;
        if !(is_candidate && estimates && self.ir.may_approximate() && self.lanes.is_multiple_of(LANES)) {
            return Ok(None);
        }
        let Some(x) = self.cubed_root(b) else { return Ok(None) };
        let (ValueRep::Vector(x), a) = (self.rep(x)?, self.rep(a)?) else { return Ok(None) };
        let ir = self.ir;
        let flags = ir.set_fast_math(0);
        let constant = |value: f32, like: Val| {
            let ty = ir.type_of(like);
            ir.splat(ir.float_const(ir.f32(), value.into()), if ty == ir.f32() { 1 } else { ir.n_lanes(like) })
        };
        // 1 + 3/2 (1 - x y²) = 3/2 (5/3 - x y²): the number above 3/2 makes up for 5/3 rounded down.
        let scaled = |a: Val| ir.fmul(a, constant(1.5f32.next_up(), a));
        let a = match a {
            ValueRep::Uniform(a) => ir.splat(scaled(a), self.lanes),
            a => scaled(self.vector(a)?),
        };
        let y = self.estimated_reciprocal_root(x);
        let y_squared = ir.fmul(y, y);
        let correction = ir.intrinsic("llvm.fma", &[ir.type_of(x)], &[ir.fneg(x), y_squared, constant(5.0 / 3.0, x)]);
        let cube = ir.fmul(ir.fmul(a, y), y_squared);
        let quotient = ir.fmul(cube, correction);
        ir.set_fast_math(flags);
        Ok(Some(ValueRep::Vector(quotient)))
    }

    /// The `x` whose root's cube a value is.
    fn cubed_root(&self, value: Value) -> Option<Value> {
        let (a, b) = self.product(value)?;
        [(a, b), (b, a)].into_iter().find_map(|(a, b)| {
            let x = self.under_root(b)?;
            let rest_is_x = a == x || self.product(a) == Some((b, b));
            rest_is_x.then_some(x)
        })
    }

    fn product(&self, value: Value) -> Option<(Value, Value)> {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return None };
        let data = &self.func.insts[inst];
        match data.operands[..] {
            [a, b] if data.op == Op::Mul => Some((a, b)),
            _ => None,
        }
    }

    fn under_root(&self, value: Value) -> Option<Value> {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return None };
        let data = &self.func.insts[inst];
        (data.op == Op::Sqrt).then(|| data.operands[0])
    }

    /// An estimate of `1 / sqrt(x)`, at most 2⁻¹⁴ of it off.
    fn estimated_reciprocal_root(&self, x: Val) -> Val {
        let ir = self.ir;
        let all = ir.int_const(ir.int(16), u16::MAX.into());
        let of = |from: u32| {
            let part = if self.lanes == LANES { x } else { ir.shuffle(x, x, from..from + LANES) };
            let none = ir.zero(ir.type_of(part));
            ir.intrinsic("llvm.x86.avx512.rsqrt14.ps.512", &[], &[part, none, all])
        };
        self.side_by_side((0..self.lanes).step_by(LANES as usize).map(of).collect())
    }
}
