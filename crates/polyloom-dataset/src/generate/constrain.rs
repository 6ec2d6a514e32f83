//! What brings values to where functions are defined, where nothing that is known of them is enough.

use super::bounded_value::BoundedValue;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use crate::catalogue::{OpTrait, OperandNeed, expected};
use crate::number_range::NumberRange;
use polyloom::{Composite, Op, Scalar, Type};
use smallvec::SmallVec;

impl KernelGenerator {
    /// The expression, or one made of it that is as needed.
    pub(super) fn constrain(&mut self, expr: GeneratedExpr, need: OperandNeed) -> GeneratedExpr {
        if need.is_met_by(expr.range) {
            return expr;
        }
        let is_kept = need == OperandNeed::Finite && !self.inline && !expr.uses.is_empty();
        if !is_kept || expr.uses.iter().any(|&index| self.variables[index].changes) {
            return self.constrained(expr, need);
        }
        // A value that is too large once is so whenever it is read.
        let is_same = |tamed: &&BoundedValue| {
            let variable = self.variables.get(tamed.index);
            tamed.of == expr.text && variable.is_some_and(|known| known.visible && known.text == tamed.name)
        };
        if let Some(index) = self.tamed.iter().find(is_same).map(|tamed| tamed.index) {
            return self.read(index);
        }
        let of = expr.text.clone();
        let value = self.constrained(expr, need);
        if value.uses.is_empty() || value.text == of {
            return value;
        }
        let value = self.name(value);
        if let [index] = value.uses[..] {
            self.tamed.push(BoundedValue { of, name: value.text.clone(), index });
        }
        value
    }

    fn constrained(&mut self, expr: GeneratedExpr, need: OperandNeed) -> GeneratedExpr {
        let ty = expr.ty;
        if ty.as_composite().is_some() {
            return self.constrain_composite(expr, need);
        }
        // A number is written as one that fits.
        if ty == self.real && expr.is_constant() {
            let number = match need {
                OperandNeed::Fraction | OperandNeed::Unit | OperandNeed::InsideUnit => {
                    self.random.pick(&[0.25, 0.5, 0.75, 0.1, 0.3, 0.8])
                }
                OperandNeed::AtLeastOne | OperandNeed::Positive | OperandNeed::NotZero => {
                    self.random.pick(&[1.5, 2.0, 3.0, 2.5])
                }
                _ => self.random.pick(&[0.5, 1.5, 1.25, 0.75]),
            };
            return self.number(number);
        }
        if ty == self.whole && expr.is_constant() {
            let number = self.random.pick(&[2, 3, 1, 4]);
            return self.int(number);
        }
        let expr = self.short(expr);
        if ty == self.real {
            return self.constrain_float(expr, need);
        }
        if ty != self.whole || matches!(need, OperandNeed::Moderate | OperandNeed::Small) && expr.range.size() <= 128.0
        {
            return expr;
        }
        let modulus = match need {
            OperandNeed::Shift => 5,
            _ => self.random.pick(&[16, 31, 64, 100, 128]),
        };
        // A small value stays as it is.
        let is_small = expr.range.size() < f64::from(modulus);
        let (rest, size) = if is_small { self.with_size(expr) } else { self.remainder(expr, modulus) };
        match need {
            OperandNeed::Finite | OperandNeed::Moderate | OperandNeed::Small => rest,
            OperandNeed::NotZero | OperandNeed::Positive | OperandNeed::AtLeastOne => {
                let range = size.range + NumberRange::of(1.0);
                GeneratedExpr::binary("+", &self.int(1), &size, ty, range)
            }
            _ => size,
        }
    }

    /// A whole number and its absolute value.
    fn with_size(&mut self, expr: GeneratedExpr) -> (GeneratedExpr, GeneratedExpr) {
        let size = match expr.range.low >= 0.0 {
            true => expr.clone(),
            false => self.applied(Op::Abs, &[&expr]),
        };
        (expr, size)
    }

    /// Returns what is left of a whole number by another, and its absolute value.
    fn remainder(&mut self, expr: GeneratedExpr, modulus: i32) -> (GeneratedExpr, GeneratedExpr) {
        let ty = expr.ty;
        match ty.as_scalar().is_some_and(Scalar::is_unsigned_int) || expr.range.low >= 0.0 {
            true => {
                let rest = GeneratedExpr::binary(
                    "%",
                    &expr,
                    &self.int(modulus),
                    ty,
                    NumberRange::new(0.0, f64::from(modulus - 1)),
                );
                (rest.clone(), rest)
            }
            false => {
                let rest = GeneratedExpr::binary(
                    "%",
                    &expr,
                    &self.int(modulus),
                    ty,
                    NumberRange::within(f64::from(modulus - 1)),
                );
                let size = self.applied(Op::Abs, &[&rest]);
                (rest, size)
            }
        }
    }

    fn constrain_float(&mut self, expr: GeneratedExpr, need: OperandNeed) -> GeneratedExpr {
        let ty = self.real;
        match need {
            OperandNeed::Finite | OperandNeed::Moderate | OperandNeed::Small | OperandNeed::Unit => {
                self.bounded(expr, need)
            }
            OperandNeed::InsideUnit if expr.range.size() <= 20.0 && !expr.parts.is_scaled && !self.random.one_in(3) => {
                let wanted = 0.95 / expr.range.size();
                let factor = [0.9, 0.8, 0.5, 0.4, 0.3, 0.25, 0.1].into_iter().find(|&factor| factor <= wanted);
                let factor = self.number(factor.unwrap_or(0.04));
                let range = factor.range * expr.range;
                GeneratedExpr::binary("*", &factor, &expr, ty, range)
            }
            OperandNeed::InsideUnit => {
                let unit = if OperandNeed::Unit.is_met_by(expr.range) {
                    expr
                } else {
                    self.constrain_float(expr, OperandNeed::Unit)
                };
                if need.is_met_by(unit.range) {
                    return unit;
                }
                let unit = self.short(unit);
                if unit.parts.is_scaled {
                    return self.clamped(&unit, -0.9, 0.9);
                }
                let most = self.random.pick(&[0.9, 0.95, 0.8]);
                let range = unit.range * NumberRange::of(most);
                GeneratedExpr::binary("*", &self.number(most), &unit, ty, range)
            }
            OperandNeed::Fraction => self.fraction(expr),
            OperandNeed::InsideTwo => self.inside_two(expr),
            OperandNeed::Shift => expr,
            OperandNeed::NotNegative => self.not_negative(expr),
            OperandNeed::Positive | OperandNeed::NotZero | OperandNeed::AtLeastOne => {
                let least = match need {
                    OperandNeed::AtLeastOne => 1.0,
                    _ => self.random.pick(&[1.0, 0.5, 0.1, 2.0, 0.25, 1.5]),
                };
                if self.random.one_in(4) && expr.range.low < least && expr.range.high > least + 1.0 {
                    return self.applied(Op::Max, &[&expr, &self.number(least)]);
                }
                let not_negative = match expr.range.low >= 0.0 {
                    true => expr,
                    false => self.not_negative(expr),
                };
                let not_negative = self.short(not_negative);
                let range = not_negative.range + NumberRange::of(least);
                let sum = match self.random.one_in(2) {
                    true => GeneratedExpr::binary("+", &not_negative, &self.number(least), ty, range),
                    false => GeneratedExpr::binary("+", &self.number(least), &not_negative, ty, range),
                };
                if need.is_met_by(sum.range) { sum } else { self.clamped(&sum, least, 50.0) }
            }
        }
    }

    /// A value of bounded size: by a function that levels off, by a wave, by limits, or by being scaled.
    fn bounded(&mut self, expr: GeneratedExpr, need: OperandNeed) -> GeneratedExpr {
        let (ty, range) = (self.real, expr.range);
        let size = range.size();
        let most = match need {
            OperandNeed::Unit => 1.0,
            OperandNeed::Small => 3.0,
            OperandNeed::Moderate => 8.0,
            _ => 1e5,
        };
        let levelled = expr.has(OpTrait::LevelsOff);
        for _ in 0..4 {
            return match self.random.below(9) {
                0 if size <= 6.0 && !levelled => self.applied_within(Op::Tanh, &[&expr], range.of_sign(1.0)),
                1 | 2 if size <= 100.0 && !levelled => {
                    let op = self.random.pick(&[Op::Sin, Op::Cos]);
                    self.applied_within(op, &[&expr], NumberRange::within(1.0))
                }
                3 if most > 2.0 && size <= 1e3 && !levelled => {
                    self.applied_within(Op::Atan, &[&expr], range.of_sign(1.6))
                }
                4 => {
                    let bound = self.random.pick(&[1.0_f64, 1.5, 2.0, 2.5, 3.0]).min(most);
                    // A value that is often beyond its limits says little, because the limits replace it.
                    if size > 5.0 * bound || !self.reaches(&expr, -bound, bound) {
                        continue;
                    }
                    self.clamped(&expr, -bound, bound)
                }
                // Only what is bounded can be brought to a size by a factor.
                5 | 6 if size <= 50.0 * most && !expr.parts.is_scaled => {
                    let wanted = most / size;
                    let factor = [0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01].into_iter().find(|&factor| factor <= wanted);
                    let Some(factor) = factor else { continue };
                    let factor = self.number(factor);
                    GeneratedExpr::binary("*", &factor, &expr, ty, factor.range * range)
                }
                7 if size <= 1e3 && expr.text.len() <= 10 && expr.head != Some(Op::Neg) => {
                    let square = GeneratedExpr::binary("*", &expr, &expr, ty, range.squared());
                    let more =
                        GeneratedExpr::binary("+", &self.number(1.0), &square, ty, square.range + NumberRange::of(1.0));
                    let root = self.applied(Op::Sqrt, &[&more]);
                    GeneratedExpr::binary("/", &expr, &root, ty, range.of_sign(1.0))
                }
                8 if size <= 1e3 && most > 1.0 && range.low < 0.0 => {
                    let divisor = self.pick_number(&[2.0, 1.5, 3.0, 2.5]);
                    if divisor.range.high > most || divisor.range.high >= size {
                        continue;
                    }
                    let range =
                        if self.is_shared() { divisor.range.or(-divisor.range) } else { NumberRange::within(3.0) };
                    GeneratedExpr::binary("%", &expr, &divisor, ty, range)
                }
                // A number of which nothing is known may be infinite.
                _ if size > 1e30 && self.reaches(&expr, -1.0, 1.0) => self.clamped(&expr, -1.0, 1.0),
                _ if need == OperandNeed::Finite && size > 1e3 && size <= 1e14 && self.random.one_in(3) => {
                    self.applied(Op::Cbrt, &[&expr])
                }
                _ if need == OperandNeed::Finite && size > 1e3 && !matches!(expr.head, Some(Op::Log)) => {
                    let not_negative = self.not_negative(expr);
                    let not_negative = self.short(not_negative);
                    let range = not_negative.range + NumberRange::of(1.0);
                    let more = GeneratedExpr::binary("+", &self.number(1.0), &not_negative, ty, range);
                    self.applied(Op::Log, &[&more])
                }
                _ => continue,
            };
        }
        match self.random.below(8) {
            0 | 1 if size <= 5.0 * most.min(3.0) && self.reaches(&expr, -most.min(3.0), most.min(3.0)) => {
                return self.clamped(&expr, -most.min(3.0), most.min(3.0));
            }
            2..=4 if most > 2.0 && size <= 1e6 => return self.applied_within(Op::Atan, &[&expr], range.of_sign(1.6)),
            2..=4 if size <= 1e6 && !levelled => {
                let angle = self.applied_within(Op::Atan, &[&expr], range.of_sign(1.6));
                let share = self.number(0.5);
                return GeneratedExpr::binary("*", &share, &angle, ty, range.of_sign(0.8));
            }
            5 if size <= 1e4 && !levelled => return self.applied_within(Op::Sin, &[&expr], NumberRange::within(1.0)),
            _ => {}
        }
        self.levelled(expr)
    }

    /// A value of a size below 1 that rises with the other.
    fn levelled(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let (expr, ty) = (self.once(expr), self.real);
        let size = match expr.range.low >= 0.0 {
            true => expr.clone(),
            false => self.applied(Op::Abs, &[&expr]),
        };
        let more = GeneratedExpr::binary("+", &self.number(1.0), &size, ty, size.range + NumberRange::of(1.0));
        GeneratedExpr::binary("/", &expr, &more, ty, expr.range.of_sign(1.0))
    }

    /// Returns true if a value may be within bounds; one that a loop changes has to begin there.
    fn reaches(&self, expr: &GeneratedExpr, low: f64, high: f64) -> bool {
        let is_apart = |range: NumberRange| range.low >= high || range.high <= low;
        let begins_apart = |&index: &usize| {
            let variable = &self.variables[index];
            variable.start != variable.range && is_apart(variable.start)
        };
        let is_beyond = is_apart(expr.range) || expr.is_bare() && expr.uses.iter().any(begins_apart);
        !is_beyond
    }

    /// A value between 0 and 2, away from both.
    fn inside_two(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let ty = self.real;
        match self.random.below(3) {
            0 if expr.range.size() <= 100.0 => {
                let op = self.random.pick(&[Op::Cos, Op::Sin]);
                let wave = self.applied_within(op, &[&expr], NumberRange::within(1.0));
                let most = self.pick_number(&[0.9, 0.75, 0.8, 0.5]);
                let part = GeneratedExpr::binary("*", &most, &wave, ty, NumberRange::within(most.range.high));
                let range = NumberRange::of(1.0) + part.range;
                GeneratedExpr::binary("+", &self.number(1.0), &part, ty, range)
            }
            1 => {
                let part = self.fraction(expr);
                let part = self.short(part);
                let least = self.pick_number(&[0.5, 0.25, 0.1, 0.75]);
                GeneratedExpr::binary("+", &least, &part, ty, least.range + NumberRange::new(0.0, 1.0))
            }
            _ => {
                let (low, high) = self.random.pick(&[(0.1, 1.9), (0.2, 1.8), (0.25, 1.75), (0.5, 1.5), (0.1, 1.5)]);
                if self.reaches(&expr, low, high) {
                    return self.clamped(&expr, low, high);
                }
                let part = self.levelled(expr);
                let part = GeneratedExpr::binary("*", &self.number(0.9), &part, ty, NumberRange::of(0.9) * part.range);
                GeneratedExpr::binary("+", &self.number(1.0), &part, ty, NumberRange::of(1.0) + part.range)
            }
        }
    }

    /// A value from 0 to 1.
    fn fraction(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let (ty, range) = (self.real, expr.range);
        match self.random.below(6) {
            0 | 1 if range.size() <= 100.0 => {
                let op = self.random.pick(&[Op::Cos, Op::Sin]);
                let wave = self.applied_within(op, &[&expr], NumberRange::within(1.0));
                let half = GeneratedExpr::binary("*", &self.number(0.5), &wave, ty, NumberRange::within(0.5));
                GeneratedExpr::binary("+", &self.number(0.5), &half, ty, NumberRange::new(0.0, 1.0))
            }
            2 if range.size() <= 1e3 => {
                let low = self.pick_number(&[-1.0, 0.0, -0.5]);
                let high = self.pick_number(&[1.0, 2.0, 1.5]);
                self.applied_within(Op::Smoothstep, &[&low, &high, &expr], NumberRange::new(0.0, 1.0))
            }
            3 if range.low >= 0.0 && (1.0..=1e3).contains(&range.high) => self.applied(Op::Frac, &[&expr]),
            _ if self.reaches(&expr, 0.0, 1.0) => self.clamped(&expr, 0.0, 1.0),
            _ => {
                let part = self.levelled(expr);
                let half = GeneratedExpr::binary("*", &self.number(0.5), &part, ty, NumberRange::of(0.5) * part.range);
                GeneratedExpr::binary("+", &self.number(0.5), &half, ty, NumberRange::of(0.5) + half.range)
            }
        }
    }

    /// A value that is at least zero.
    fn not_negative(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let (ty, range) = (self.real, expr.range);
        if range.low >= 0.0 {
            return expr;
        }
        match self.random.below(4) {
            // A square has lost the sign.
            0 | 1 if range.size() <= 50.0 && !matches!(expr.head, Some(Op::Neg | Op::Copysign)) => {
                let expr = self.once(expr);
                GeneratedExpr::binary("*", &expr, &expr, ty, range.squared())
            }
            2 if range.high > 0.5 => self.applied(Op::Max, &[&expr, &self.number(0.0)]),
            _ => self.applied(Op::Abs, &[&expr]),
        }
    }

    fn constrain_composite(&mut self, expr: GeneratedExpr, need: OperandNeed) -> GeneratedExpr {
        let ty = expr.ty;
        if ty.as_composite().is_none_or(|composite| !composite.elem().is_float()) {
            return expr;
        }
        let expr = self.short(expr);
        match (need, ty.as_composite()) {
            (OperandNeed::Finite | OperandNeed::Moderate, Some(composite))
                if !matches!(composite, Composite::Transform { .. }) =>
            {
                let elem = composite.elem();
                let number = Type::Scalar(elem);
                let size = expr.range.size();
                if size <= 400.0 && !expr.parts.is_scaled && !self.random.one_in(4) {
                    let factor = [0.5, 0.25, 0.1, 0.05, 0.02].into_iter().find(|factor| factor * size <= 8.0);
                    let factor = self.number_of(number, factor.unwrap_or(0.02));
                    return GeneratedExpr::binary("*", &factor, &expr, ty, expr.range * factor.range);
                }
                self.shortened(expr, number)
            }
            (OperandNeed::Finite | OperandNeed::Moderate, _) => {
                let wanted = 50.0 / expr.range.size();
                let fits = [0.5, 0.25, 0.1, 0.05].into_iter().filter(|&factor| factor <= wanted);
                let factors: Vec<f64> = fits.chain([0.02, 0.01]).collect();
                let scale = self.pick_number(&factors);
                GeneratedExpr::binary("*", &scale, &expr, ty, expr.range * scale.range)
            }
            // An offset makes zero unlikely; running the kernel tells.
            (OperandNeed::NotZero | OperandNeed::Positive, Some(Composite::Vector { .. })) => {
                let offset = self.constant(ty);
                GeneratedExpr::binary("+", &expr, &offset, ty, expr.range + offset.range)
            }
            _ => expr,
        }
    }

    /// A value that is about to be written twice: a name, where one can be given.
    fn once(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        if expr.is_bare() || self.inline || expr.uses.is_empty() { expr } else { self.name(expr) }
    }

    /// A vector of no great length in the same direction; a matrix is one of its elements, a quaternion of its four numbers.
    fn shortened(&mut self, expr: GeneratedExpr, number: Type) -> GeneratedExpr {
        let expr = self.once(expr);
        let ty = expr.ty;
        let is_matrix = matches!(ty.as_composite(), Some(Composite::Matrix { .. }));
        let any = NumberRange::new(0.0, f64::INFINITY);
        let least = self.random.pick(&[1.0, 0.5, 2.0, 1.5]);
        let (offset, root) = (self.number_of(number, least), least.sqrt());
        let call = |g: &KernelGenerator, op: Op, x: &GeneratedExpr| {
            GeneratedExpr::call(&g.builtin(op.name()), &[x], number, any).by(op)
        };
        let square = |g: &KernelGenerator, x: &GeneratedExpr| match is_matrix {
            true => GeneratedExpr::call(&g.builtin(Op::Ddot.name()), &[x, x], number, any).by(Op::Ddot),
            false => call(g, Op::LengthSq, x),
        };
        // A matrix has no length.
        let kind = if is_matrix { 2 + self.random.below(2) } else { self.random.below(4) };
        let (divisor, bound) = match kind {
            0 => {
                let length = call(self, Op::Length, &expr);
                (GeneratedExpr::binary("+", &offset, &length, number, any), 1.0)
            }
            1 => {
                let length = call(self, Op::Length, &expr);
                (GeneratedExpr::call(&self.builtin("max"), &[&length, &offset], number, any).by(Op::Max), 1.0)
            }
            2 => {
                let square = square(self, &expr);
                let more = GeneratedExpr::binary("+", &square, &offset, number, any);
                (call(self, Op::Sqrt, &more), 1.0)
            }
            _ => {
                let square = square(self, &expr);
                (GeneratedExpr::binary("+", &offset, &square, number, any), (50.0 / root).ceil() / 100.0)
            }
        };
        GeneratedExpr::binary("/", &expr, &divisor, ty, NumberRange::within(bound))
    }

    /// A call of a builtin that gives what its first operand is, in the range that the catalogue says.
    pub(super) fn applied(&self, op: Op, args: &[&GeneratedExpr]) -> GeneratedExpr {
        let ranges: SmallVec<[NumberRange; 4]> = args.iter().map(|arg| arg.range).collect();
        let types: SmallVec<[Type; 4]> = args.iter().map(|arg| arg.ty).collect();
        self.applied_within(op, args, expected(op, &ranges, args[0].ty, &types, false))
    }

    /// The same in a range that leaves room beyond the catalogue's, or is known from what the operands have in common.
    pub(super) fn applied_within(&self, op: Op, args: &[&GeneratedExpr], range: NumberRange) -> GeneratedExpr {
        GeneratedExpr::call(&self.builtin(op.name()), args, args[0].ty, range).by(op)
    }

    /// The value between bounds, of which those that it never passes are left out.
    fn clamped(&mut self, x: &GeneratedExpr, low: f64, high: f64) -> GeneratedExpr {
        let (least, most) = (self.number_of(x.ty, low), self.number_of(x.ty, high));
        match (x.range.low < low, x.range.high > high) {
            (true, true) => self.applied(Op::Clamp, &[x, &least, &most]),
            (true, false) => self.applied(Op::Max, &[x, &least]),
            (false, true) => self.applied(Op::Min, &[x, &most]),
            (false, false) => x.clone(),
        }
    }
}
