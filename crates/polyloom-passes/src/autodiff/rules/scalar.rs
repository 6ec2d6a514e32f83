//! Rules of scalar mathematics.

use super::{Contributions, DerivativeRule, one, two};
use polyloom_ir::{Op, Value};
use smallvec::smallvec;
use std::f64::consts;

impl DerivativeRule<'_, '_> {
    pub(super) fn scalar(&mut self, op: Op, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        match op {
            Op::Mod => {
                // a - b q, where q is a whole number that the rounded a / b may miss.
                let multiple = self.sub(x[0], r);
                let quotient = self.div(multiple, x[1]);
                let quotient = self.b.op(Op::Rint, &[quotient]);
                let times = self.mul(g, quotient);
                two(g, self.neg(times))
            }
            Op::Abs => {
                let sign = self.sign(x[0]);
                one(self.mul(g, sign))
            }
            // Equal values, and NaN and a number, are told apart by which one was taken.
            Op::Min | Op::Max => {
                let nothing = self.constant(0.0, g);
                let is_first = self.b.op(Op::Eq, &[r, x[0]]);
                let first = self.b.op(Op::Select, &[is_first, g, nothing]);
                let second = self.b.op(Op::Select, &[is_first, nothing, g]);
                self.taken = smallvec![is_first, self.b.op(Op::Not, &[is_first])];
                two(first, second)
            }
            Op::Sqrt => {
                let half = self.times(g, 0.5);
                one(self.div(half, r))
            }
            Op::Rsqrt => {
                // -r / (2 x)
                let half = self.times(g, -0.5);
                let scaled = self.mul(half, r);
                one(self.div(scaled, x[0]))
            }
            Op::Cbrt => {
                let square = self.mul(r, r);
                let third = self.times(g, 1.0 / 3.0);
                one(self.div(third, square))
            }
            Op::Fma => Some(smallvec![Some(self.mul(g, x[1])), Some(self.mul(g, x[0])), Some(g)]),
            Op::Frac => one(g),
            Op::Copysign => {
                let unit = self.constant(1.0, g);
                let [a, b] = [x[0], x[1]].map(|x| self.b.op(Op::Copysign, &[unit, x]));
                let sign = self.mul(a, b);
                Some(smallvec![Some(self.mul(g, sign)), None])
            }
            Op::Clamp => {
                let nothing = self.constant(0.0, g);
                let [equals_x, is_low] = [x[0], x[1]].map(|x| self.b.op(Op::Eq, &[r, x]));
                // Limits that have crossed leave the high one, whatever x is.
                let have_crossed = self.b.op(Op::Gt, &[x[1], x[2]]);
                let are_in_order = self.b.op(Op::Not, &[have_crossed]);
                let is_x = self.b.op(Op::BitAnd, &[equals_x, are_in_order]);
                let inside = self.b.op(Op::Select, &[is_x, g, nothing]);
                let outside = self.b.op(Op::Select, &[is_x, nothing, g]);
                let low = self.b.op(Op::Select, &[is_low, outside, nothing]);
                let high = self.b.op(Op::Select, &[is_low, nothing, outside]);
                let is_limit = self.b.op(Op::Not, &[is_x]);
                let is_not_low = self.b.op(Op::Not, &[is_low]);
                let [is_low, is_high] = [is_low, is_not_low].map(|which| self.b.op(Op::BitAnd, &[is_limit, which]));
                self.taken = smallvec![is_x, is_low, is_high];
                Some(smallvec![Some(inside), Some(low), Some(high)])
            }
            Op::Lerp => {
                // a (1 - t) + b t, of scalars or composites
                let b = self.mul(g, x[2]);
                let a = self.sub(g, b);
                let difference = self.sub(x[1], x[0]);
                Some(smallvec![Some(a), Some(b), Some(self.inner(g, difference))])
            }
            Op::Smoothstep => self.smoothstep(x),
            Op::Degrees => one(self.times(g, 180.0 / consts::PI)),
            Op::Radians => one(self.times(g, consts::PI / 180.0)),
            _ => self.function(op, x, r),
        }
    }

    /// Mathematical functions.
    fn function(&mut self, op: Op, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        match op {
            Op::Sin => {
                let cos = self.b.op(Op::Cos, &[x[0]]);
                one(self.mul(g, cos))
            }
            Op::Cos => {
                let sin = self.b.op(Op::Sin, &[x[0]]);
                let times = self.mul(g, sin);
                one(self.neg(times))
            }
            Op::Tan => {
                // 1 + tan²
                let square = self.mul(r, r);
                let times = self.mul(g, square);
                one(self.add(g, times))
            }
            Op::Asin | Op::Acos => {
                // The root is that of (1 - x)(1 + x), because 1 - x² loses its digits near the ends.
                let root = self.one_minus_square(x[0]);
                let root = self.b.op(Op::Sqrt, &[root]);
                let quotient = self.div(g, root);
                one(if op == Op::Asin { quotient } else { self.neg(quotient) })
            }
            Op::Atan => {
                let square = self.mul(x[0], x[0]);
                let unit = self.constant(1.0, g);
                let divisor = self.add(unit, square);
                one(self.div(g, divisor))
            }
            Op::Atan2 => {
                // This is divided by the length twice, because the square of the length may overflow or vanish.
                let length = self.b.op(Op::Hypot, &[x[0], x[1]]);
                let share = self.over_length(g, length);
                let [sin, cos] = [x[0], x[1]].map(|x| self.over_length(x, length));
                let x_part = self.mul(share, sin);
                Some(smallvec![Some(self.mul(share, cos)), Some(self.neg(x_part))])
            }
            Op::Sinh => {
                let cosh = self.b.op(Op::Cosh, &[x[0]]);
                one(self.mul(g, cosh))
            }
            Op::Cosh => {
                let sinh = self.b.op(Op::Sinh, &[x[0]]);
                one(self.mul(g, sinh))
            }
            Op::Tanh => {
                let rest = self.one_minus_square(r);
                one(self.mul(g, rest))
            }
            Op::Asinh => {
                let unit = self.constant(1.0, g);
                let root = self.b.op(Op::Hypot, &[x[0], unit]);
                one(self.div(g, root))
            }
            Op::Acosh => {
                let unit = self.constant(1.0, g);
                let [below, above] = [Op::Sub, Op::Add].map(|op| self.b.op(op, &[x[0], unit]));
                let [below, above] = [below, above].map(|x| self.b.op(Op::Sqrt, &[x]));
                let root = self.mul(below, above);
                one(self.div(g, root))
            }
            Op::Atanh => {
                let divisor = self.one_minus_square(x[0]);
                one(self.div(g, divisor))
            }
            Op::Exp => one(self.mul(g, r)),
            Op::Exp2 => {
                let times = self.mul(g, r);
                one(self.times(times, consts::LN_2))
            }
            Op::Expm1 => {
                let times = self.mul(g, r);
                one(self.add(times, g))
            }
            Op::Log => one(self.div(g, x[0])),
            Op::Log2 | Op::Log10 => {
                let base = if op == Op::Log2 { consts::LN_2 } else { consts::LN_10 };
                let scaled = self.times(g, 1.0 / base);
                one(self.div(scaled, x[0]))
            }
            Op::Log1p => {
                let unit = self.constant(1.0, g);
                let divisor = self.add(unit, x[0]);
                one(self.div(g, divisor))
            }
            Op::Pow => self.power(x, r),
            Op::Hypot => {
                let shares = [x[0], x[1]].map(|x| {
                    let share = self.over_length(x, r);
                    self.mul(g, share)
                });
                two(shares[0], shares[1])
            }
            Op::Erf | Op::Erfc => {
                let square = self.mul(x[0], x[0]);
                let minus = self.neg(square);
                let bell = self.b.op(Op::Exp, &[minus]);
                let sign = if op == Op::Erf { 1.0 } else { -1.0 };
                let scaled = self.times(bell, sign * consts::FRAC_2_SQRT_PI);
                one(self.mul(g, scaled))
            }
            Op::Erfinv | Op::Erfcinv => {
                let square = self.mul(r, r);
                let bell = self.b.op(Op::Exp, &[square]);
                let sign = if op == Op::Erfinv { 1.0 } else { -1.0 };
                let scaled = self.times(bell, sign / consts::FRAC_2_SQRT_PI);
                one(self.mul(g, scaled))
            }
            _ => None,
        }
    }

    /// `x ** y`: `y x**(y-1)`, and `x**y log(x)`, which is 0 at 0.
    fn power(&mut self, x: &[Value], r: Value) -> Option<Contributions> {
        let g = self.adjoint;
        let unit = self.constant(1.0, g);
        let nothing = self.constant(0.0, g);
        let less = self.sub(x[1], unit);
        let lower = self.b.op(Op::Pow, &[x[0], less]);
        let slope = self.mul(x[1], lower);
        // A constant has no slope, not even where the lower power is infinite.
        let is_constant = self.b.op(Op::Eq, &[x[1], nothing]);
        let slope = self.b.op(Op::Select, &[is_constant, nothing, slope]);
        let log = self.b.op(Op::Log, &[x[0]]);
        let times = self.mul(r, log);
        let are_zero = [x[0], r].map(|x| self.b.op(Op::Eq, &[x, nothing]));
        let is_zero = self.b.op(Op::BitOr, &are_zero);
        let growth = self.b.op(Op::Select, &[is_zero, nothing, times]);
        Some(smallvec![Some(self.mul(g, slope)), Some(self.mul(g, growth))])
    }

    /// `t² (3 - 2 t)` for `t = (x - low) / (high - low)` between 0 and 1.
    fn smoothstep(&mut self, x: &[Value]) -> Option<Contributions> {
        let g = self.adjoint;
        let [low, high, x] = [x[0], x[1], x[2]];
        let width = self.sub(high, low);
        let offset = self.sub(x, low);
        let ratio = self.div(offset, width);
        let [nothing, unit] = [0.0, 1.0].map(|value| self.constant(value, g));
        let t = self.b.op(Op::Clamp, &[ratio, nothing, unit]);
        let rest = self.sub(unit, t);
        let product = self.mul(t, rest);
        let slope = self.times(product, 6.0);
        let slope = self.mul(g, slope);
        // Equal ends make it a step.
        let by_x = self.over_length(slope, width);
        // Both ends move t: the low one by (t - 1) / width, the high one by -t / width.
        let by_low = self.mul(by_x, rest);
        let by_high = self.mul(by_x, t);
        Some(smallvec![Some(self.neg(by_low)), Some(self.neg(by_high)), Some(by_x)])
    }

    /// -1, 0 or 1.
    fn sign(&mut self, x: Value) -> Value {
        let [minus, nothing, unit] = [-1.0, 0.0, 1.0].map(|value| self.constant(value, x));
        let is_less = self.b.op(Op::Lt, &[x, nothing]);
        let is_more = self.b.op(Op::Gt, &[x, nothing]);
        let not_less = self.b.op(Op::Select, &[is_more, unit, nothing]);
        self.b.op(Op::Select, &[is_less, minus, not_less])
    }

    /// `(1 - x) (1 + x)`
    fn one_minus_square(&mut self, x: Value) -> Value {
        let unit = self.constant(1.0, x);
        let [less, more] = [Op::Sub, Op::Add].map(|op| self.b.op(op, &[unit, x]));
        self.mul(less, more)
    }
}
