//! What each op adds to the adjoints of its operands: the adjoint of its result times the partial derivative.
//!
//! Where an op has no derivative in the strict sense, it has the one that is documented here: at a kink the value of
//! one side, or zero between the two (`abs(0)`); zero where a function is constant in pieces (`floor`, `sign`). Ties
//! of `min` and `max` go to the first operand.

use super::zero;
use polyloom_ir::{Builder, Imm, InstData, Op, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};
use std::f64::consts;

/// What is added to the adjoint of each operand; none of it where that is zero.
pub(super) type Contributions = SmallVec<[Option<Value>; 4]>;

/// How an op is differentiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Derivative {
    /// Its results do not depend on its operands by degrees: derivatives are zero.
    Zero,
    /// By the rule here.
    Rule,
    /// By what it is made of.
    Definition,
    /// By the sweeps: control flow and memory.
    Sweep,
    /// Not at all.
    None,
}

/// How an op on operands of these types is differentiated.
pub(super) fn derivative(op: Op, types: &[Type]) -> Derivative {
    use Derivative::*;
    let has_composites = types.iter().any(|ty| ty.as_composite().is_some());
    match op {
        Op::If | Op::ForRange | Op::While | Op::Block | Op::Yield | Op::Break | Op::Continue | Op::Return => Sweep,
        Op::Unreachable | Op::Const | Op::Call | Op::ArrayLoad | Op::LoadReadonly | Op::ArrayStore => Sweep,
        Op::AtomicAdd | Op::AtomicSub | Op::AtomicMin | Op::AtomicMax => Sweep,
        Op::Construct | Op::Component | Op::WithComponent | Op::ComponentAt | Op::WithComponentAt | Op::Select => Rule,
        Op::Add | Op::Sub | Op::Neg | Op::Pos | Op::Length | Op::Normalize => Rule,
        Op::Mul
        | Op::Div
        | Op::Mod
        | Op::Abs
        | Op::Min
        | Op::Max
        | Op::Sqrt
        | Op::Fma
        | Op::Copysign
        | Op::Frac
        | Op::Clamp
        | Op::Lerp
        | Op::Smoothstep
        | Op::Degrees
        | Op::Radians
            if !has_composites =>
        {
            Rule
        }
        Op::Sin | Op::Cos | Op::Tan | Op::Asin | Op::Acos | Op::Atan | Op::Atan2 | Op::Sinh | Op::Cosh | Op::Tanh => {
            Rule
        }
        Op::Asinh | Op::Acosh | Op::Atanh | Op::Exp | Op::Exp2 | Op::Expm1 | Op::Log | Op::Log2 | Op::Log10 => Rule,
        Op::Log1p | Op::Pow | Op::Rsqrt | Op::Cbrt | Op::Hypot | Op::Erf | Op::Erfc | Op::Erfinv | Op::Erfcinv => Rule,
        Op::Cast => Rule,
        Op::Tid | Op::TidLinear | Op::Dim | Op::FloorDiv | Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => Zero,
        Op::BitAnd | Op::BitOr | Op::BitXor | Op::Invert | Op::Not | Op::Unot | Op::BitCount | Op::Lshift => Zero,
        Op::Rshift | Op::Argmin | Op::Argmax | Op::Floor | Op::Ceil | Op::Trunc | Op::Rint | Op::Round | Op::Sign => {
            Zero
        }
        Op::Step | Op::Nonzero | Op::IsNan | Op::IsInf | Op::IsFinite | Op::LowerBound | Op::WrapIndex => Zero,
        Op::RandInit | Op::Randi | Op::Randu | Op::Randf | Op::Randn | Op::Poisson | Op::SampleCdf => Zero,
        Op::SampleTriangle | Op::SampleUnitRing | Op::SampleUnitDisk | Op::SampleUnitSphereSurface => Zero,
        Op::SampleUnitSphere | Op::SampleUnitHemisphereSurface | Op::SampleUnitHemisphere => Zero,
        Op::SampleUnitSquare | Op::SampleUnitCube | Op::Print | Op::Assert | Op::Check => Zero,
        Op::ExpectEq | Op::ExpectNeq | Op::ExpectNear => Zero,
        // Iterations, whose derivatives are not those of what they approach.
        Op::Svd2 | Op::Svd3 | Op::Qr3 | Op::Eig3 => None,
        Op::Bitcast | Op::ReduceAngle => None,
        _ if has_composites => Definition,
        Op::Mul | Op::Div | Op::Mod | Op::Abs | Op::Min | Op::Max | Op::Sqrt | Op::Fma | Op::Copysign | Op::Frac => {
            Rule
        }
        Op::QuatRpy | Op::Noise | Op::Pnoise | Op::NoiseGradient | Op::Curlnoise => Definition,
        _ => None,
    }
}

/// What an instruction adds to the adjoints of its operands, of which `adjoints` are those of its results. `None` if
/// the op has no derivative.
pub(super) fn contributions(
    builder: &mut Builder<'_>,
    data: &InstData,
    operands: &[Value],
    results: &[Value],
    adjoints: &[Option<Value>],
) -> Option<Contributions> {
    let types: SmallVec<[Type; 4]> = operands.iter().map(|&operand| builder.func.ty(operand)).collect();
    match derivative(data.op, &types) {
        Derivative::Zero => return Some(smallvec![None; operands.len()]),
        Derivative::Rule => {}
        Derivative::Definition | Derivative::Sweep | Derivative::None => return None,
    }
    let adjoint = adjoints.first().copied().flatten()?;
    Some(Rule { b: builder, adjoint }.of(data, operands, results[0]))
}

struct Rule<'a, 'f> {
    b: &'a mut Builder<'f>,
    adjoint: Value,
}

impl Rule<'_, '_> {
    fn of(&mut self, data: &InstData, x: &[Value], r: Value) -> Contributions {
        let g = self.adjoint;
        let one = |value: Value| -> Contributions { smallvec![Some(value)] };
        let two = |a: Value, b: Value| -> Contributions { smallvec![Some(a), Some(b)] };
        match data.op {
            Op::Construct => (0..x.len()).map(|number| Some(self.component(g, number as u16))).collect(),
            Op::Component => {
                let ty = self.b.func.ty(x[0]);
                let nothing = zero(self.b, ty);
                one(self.with(Op::WithComponent, &[nothing, g], data.imm.clone()))
            }
            Op::WithComponent => {
                let ty = self.b.func.ty(x[1]);
                let nothing = zero(self.b, ty);
                let rest = self.with(Op::WithComponent, &[g, nothing], data.imm.clone());
                let inst = self.b.inst(Op::Component, &[g], &[ty], data.imm.clone());
                two(rest, self.b.func.insts[inst].results[0])
            }
            Op::ComponentAt => {
                let ty = self.b.func.ty(x[0]);
                let nothing = zero(self.b, ty);
                smallvec![Some(self.b.op(Op::WithComponentAt, &[nothing, x[1], g])), None]
            }
            Op::WithComponentAt => {
                let ty = self.b.func.ty(x[2]);
                let nothing = zero(self.b, ty);
                let rest = self.b.op(Op::WithComponentAt, &[g, x[1], nothing]);
                smallvec![Some(rest), None, Some(self.b.op(Op::ComponentAt, &[g, x[1]]))]
            }
            Op::Select => {
                let ty = self.b.func.ty(g);
                let nothing = zero(self.b, ty);
                let then = self.b.op(Op::Select, &[x[0], g, nothing]);
                smallvec![None, Some(then), Some(self.b.op(Op::Select, &[x[0], nothing, g]))]
            }
            Op::Cast => match (self.b.func.ty(x[0]), self.b.func.ty(r)) {
                (Type::Scalar(from), Type::Scalar(to)) if from.is_float() && to.is_float() => one(self.b.cast(g, from)),
                _ => smallvec![None],
            },
            Op::Add => two(g, g),
            Op::Sub => two(g, self.neg(g)),
            Op::Neg => one(self.neg(g)),
            Op::Pos => one(g),
            Op::Mul => two(self.mul(g, x[1]), self.mul(g, x[0])),
            Op::Div => {
                let a = self.div(g, x[1]);
                let times = self.mul(a, r);
                two(a, self.neg(times))
            }
            Op::Mod => {
                // a - b trunc(a / b)
                let quotient = self.div(x[0], x[1]);
                let quotient = self.b.op(Op::Trunc, &[quotient]);
                let times = self.mul(g, quotient);
                two(g, self.neg(times))
            }
            Op::Abs => {
                let sign = self.sign(x[0]);
                one(self.mul(g, sign))
            }
            Op::Min => self.choose(Op::Le, x),
            Op::Max => self.choose(Op::Ge, x),
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
            Op::Fma => smallvec![Some(self.mul(g, x[1])), Some(self.mul(g, x[0])), Some(g)],
            Op::Frac => one(g),
            Op::Copysign => {
                let unit = self.constant(1.0, g);
                let [a, b] = [x[0], x[1]].map(|x| self.b.op(Op::Copysign, &[unit, x]));
                let sign = self.mul(a, b);
                smallvec![Some(self.mul(g, sign)), None]
            }
            Op::Clamp => {
                // min(max(low, x), high)
                let below = self.b.op(Op::Lt, &[x[0], x[1]]);
                let raised = self.b.op(Op::Max, &[x[1], x[0]]);
                let above = self.b.op(Op::Gt, &[raised, x[2]]);
                let nothing = self.constant(0.0, g);
                let inner = self.b.op(Op::Select, &[above, nothing, g]);
                let high = self.b.op(Op::Select, &[above, g, nothing]);
                let low = self.b.op(Op::Select, &[below, inner, nothing]);
                smallvec![Some(self.b.op(Op::Select, &[below, nothing, inner])), Some(low), Some(high)]
            }
            Op::Lerp => {
                // a (1 - t) + b t
                let b = self.mul(g, x[2]);
                let a = self.b.op(Op::Sub, &[g, b]);
                let difference = self.b.op(Op::Sub, &[x[1], x[0]]);
                smallvec![Some(a), Some(b), Some(self.mul(g, difference))]
            }
            Op::Smoothstep => self.smoothstep(x),
            Op::Length => {
                let share = self.over_length(g, r);
                one(self.mul(x[0], share))
            }
            Op::Normalize => {
                // What of the adjoint is across the direction, over the length.
                let along = self.b.op(Op::Dot, &[r, g]);
                let along = self.mul(r, along);
                let across = self.b.op(Op::Sub, &[g, along]);
                let length = self.b.op(Op::Length, &[x[0]]);
                let unit = self.constant(1.0, length);
                let share = self.over_length(unit, length);
                one(self.mul(across, share))
            }
            Op::Degrees => one(self.times(g, 180.0 / consts::PI)),
            Op::Radians => one(self.times(g, consts::PI / 180.0)),
            _ => self.function(data.op, x, r),
        }
    }

    /// Mathematical functions.
    fn function(&mut self, op: Op, x: &[Value], r: Value) -> Contributions {
        let g = self.adjoint;
        let one = |value: Value| -> Contributions { smallvec![Some(value)] };
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
                one(self.b.op(Op::Add, &[g, times]))
            }
            Op::Asin | Op::Acos => {
                // (1 - x)(1 + x) keeps its digits near the ends.
                let root = self.one_minus_square(x[0]);
                let root = self.b.op(Op::Sqrt, &[root]);
                let quotient = self.div(g, root);
                one(if op == Op::Asin { quotient } else { self.neg(quotient) })
            }
            Op::Atan => {
                let square = self.mul(x[0], x[0]);
                let unit = self.constant(1.0, g);
                let divisor = self.b.op(Op::Add, &[unit, square]);
                one(self.div(g, divisor))
            }
            Op::Atan2 => {
                // Over the length twice, which neither overflows nor vanishes.
                let length = self.b.op(Op::Hypot, &[x[0], x[1]]);
                let share = self.div(g, length);
                let [sin, cos] = [x[0], x[1]].map(|x| self.div(x, length));
                let x_part = self.mul(share, sin);
                smallvec![Some(self.mul(share, cos)), Some(self.neg(x_part))]
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
                one(self.b.op(Op::Add, &[times, g]))
            }
            Op::Log => one(self.div(g, x[0])),
            Op::Log2 | Op::Log10 => {
                let base = if op == Op::Log2 { consts::LN_2 } else { consts::LN_10 };
                let scaled = self.times(g, 1.0 / base);
                one(self.div(scaled, x[0]))
            }
            Op::Log1p => {
                let unit = self.constant(1.0, g);
                let divisor = self.b.op(Op::Add, &[unit, x[0]]);
                one(self.div(g, divisor))
            }
            Op::Pow => self.power(x, r),
            Op::Hypot => {
                let shares = [x[0], x[1]].map(|x| {
                    let share = self.over_length(x, r);
                    Some(self.mul(g, share))
                });
                shares.into_iter().collect()
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
            _ => smallvec![None; x.len()],
        }
    }

    /// `x ** y`: `y x**(y-1)`, and `x**y log(x)`, which is 0 at 0.
    fn power(&mut self, x: &[Value], r: Value) -> Contributions {
        let g = self.adjoint;
        let unit = self.constant(1.0, g);
        let nothing = self.constant(0.0, g);
        let less = self.b.op(Op::Sub, &[x[1], unit]);
        let lower = self.b.op(Op::Pow, &[x[0], less]);
        let slope = self.mul(x[1], lower);
        // A constant has no slope, not even where the lower power is infinite.
        let is_constant = self.b.op(Op::Eq, &[x[1], nothing]);
        let slope = self.b.op(Op::Select, &[is_constant, nothing, slope]);
        let log = self.b.op(Op::Log, &[x[0]]);
        let times = self.mul(r, log);
        let is_zero = self.b.op(Op::Eq, &[r, nothing]);
        let growth = self.b.op(Op::Select, &[is_zero, nothing, times]);
        smallvec![Some(self.mul(g, slope)), Some(self.mul(g, growth))]
    }

    /// `t² (3 - 2 t)` for `t = (x - low) / (high - low)` between 0 and 1.
    fn smoothstep(&mut self, x: &[Value]) -> Contributions {
        let g = self.adjoint;
        let [low, high, x] = [x[0], x[1], x[2]];
        let width = self.b.op(Op::Sub, &[high, low]);
        let offset = self.b.op(Op::Sub, &[x, low]);
        let ratio = self.div(offset, width);
        let [nothing, unit] = [0.0, 1.0].map(|value| self.constant(value, g));
        let t = self.b.op(Op::Clamp, &[ratio, nothing, unit]);
        let rest = self.b.op(Op::Sub, &[unit, t]);
        let product = self.mul(t, rest);
        let slope = self.times(product, 6.0);
        let slope = self.mul(g, slope);
        let by_x = self.div(slope, width);
        // Both ends move t: the low one by (t - 1) / width, the high one by -t / width.
        let by_low = self.mul(by_x, rest);
        let by_high = self.mul(by_x, t);
        smallvec![Some(self.neg(by_low)), Some(self.neg(by_high)), Some(by_x)]
    }

    /// All of the adjoint to the first operand where it compares so to the second, which else has it.
    fn choose(&mut self, comparison: Op, x: &[Value]) -> Contributions {
        let nothing = self.constant(0.0, self.adjoint);
        let is_first = self.b.op(comparison, &[x[0], x[1]]);
        let first = self.b.op(Op::Select, &[is_first, self.adjoint, nothing]);
        smallvec![Some(first), Some(self.b.op(Op::Select, &[is_first, nothing, self.adjoint]))]
    }

    /// `x / length`, and 0 for a length of 0, between all directions.
    fn over_length(&mut self, x: Value, length: Value) -> Value {
        let nothing = self.constant(0.0, length);
        let is_zero = self.b.op(Op::Eq, &[length, nothing]);
        let share = self.div(x, length);
        self.b.op(Op::Select, &[is_zero, nothing, share])
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

    fn component(&mut self, x: Value, number: u16) -> Value {
        let elem = self.b.func.ty(x).as_composite().map_or(Scalar::F32, |composite| composite.elem());
        let inst = self.b.inst(Op::Component, &[x], &[elem.into()], Imm::Component(number));
        self.b.func.insts[inst].results[0]
    }

    fn with(&mut self, op: Op, operands: &[Value], imm: Imm) -> Value {
        let ty = self.b.func.ty(operands[0]);
        let inst = self.b.inst(op, operands, &[ty], imm);
        self.b.func.insts[inst].results[0]
    }

    /// A constant of the type of `like`.
    fn constant(&mut self, value: f64, like: Value) -> Value {
        let scalar = self.b.func.ty(like).as_scalar().unwrap_or(Scalar::F64);
        let exact = self.b.const_f64(value);
        match scalar {
            Scalar::F64 => exact,
            scalar => self.b.cast(exact, scalar),
        }
    }

    fn times(&mut self, x: Value, factor: f64) -> Value {
        let factor = self.constant(factor, x);
        self.mul(x, factor)
    }

    fn neg(&mut self, x: Value) -> Value {
        self.b.op(Op::Neg, &[x])
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Mul, &[a, b])
    }

    fn div(&mut self, a: Value, b: Value) -> Value {
        self.b.op(Op::Div, &[a, b])
    }
}
