//! Expressions whose values are scalars.

use super::generate::{ProgramGenerator, scalar_overloads};
use polyloom_ir::{Op, Scalar, Type};

impl ProgramGenerator {
    /// An expression whose type is `ty` whatever surrounds it.
    pub(super) fn pinned(&mut self, ty: Scalar, depth: usize) -> String {
        let value = self.expr(ty, depth);
        format!("loom.{}({value})", ty.python_name())
    }

    /// The same for any type of values.
    pub(super) fn pinned_of(&mut self, ty: Type, depth: usize) -> String {
        match ty {
            Type::Composite(composite) => self.composite(composite, depth),
            Type::Scalar(scalar) => self.pinned(scalar, depth),
            other => unreachable!("programs have no values of type {other}"),
        }
    }

    /// An expression that is of type `ty` or a literal that becomes it.
    pub(super) fn expr(&mut self, ty: Scalar, depth: usize) -> String {
        if depth == 0 || self.random.chance(15) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.random.below(10) {
            0 => self.leaf(ty),
            1 => {
                let cond = self.expr(Scalar::Bool, d);
                let (a, b) = (self.pinned(ty, d), self.expr(ty, d));
                if self.random.chance(50) {
                    format!("({a} if {cond} else {b})")
                } else {
                    format!("loom.where({cond}, {a}, {b})")
                }
            }
            2 => {
                let from = self.ty();
                let value = self.pinned(from, d);
                // The bits of a NaN need not agree, so floats are not read as integers.
                if from.is_int() && ty != Scalar::Bool && from.bits() == ty.bits() && self.random.chance(50) {
                    return format!("loom.cast({value}, loom.{})", ty.python_name());
                }
                format!("loom.{}({value})", ty.python_name())
            }
            3 => match self.function_with_result(ty.into()) {
                Some(index) if self.random.chance(50) => self.call(index, d),
                _ => self.generic_call(ty.into(), d).unwrap_or_else(|| self.operation(ty, d)),
            },
            4 => self.load(ty.into()).unwrap_or_else(|| self.leaf(ty)),
            5 => self.component(ty).unwrap_or_else(|| self.operation(ty, d)),
            6 if ty == Scalar::Bool || self.random.chance(30) => {
                self.builtin(ty.into(), d).unwrap_or_else(|| self.operation(ty, d))
            }
            6 if self.composite_budget > 0 => {
                self.composite_budget -= 1;
                let call = self.builtin(ty.into(), d);
                call.unwrap_or_else(|| self.operation(ty, d))
            }
            _ => self.operation(ty, d),
        }
    }

    pub(super) fn operation(&mut self, ty: Scalar, d: usize) -> String {
        if ty == Scalar::Bool {
            return self.condition(d);
        }
        let a = self.pinned(ty, d);
        if self.random.chance(35) {
            let math = self.math_of(ty);
            if let Some(op) = math {
                let n = scalar_overloads(op).next().map_or(1, |signature| signature.params.len());
                let args: Vec<String> = (0..n).map(|_| self.pinned(ty, d)).collect();
                return format!("loom.{}({})", op.name(), args.join(", "));
            }
        }
        let b = self.expr(ty, d);
        if self.random.chance(4) {
            let c = self.expr(ty, d);
            return format!("loom.{}({a}, {b}, {c})", self.random.pick(&["min", "max"]));
        }
        if ty.is_float() {
            return match self.random.below(10) {
                9 => self.power(&a, ty, d),
                0..=1 => format!("({a} + {b})"),
                2 => format!("({a} - {b})"),
                3..=4 => format!("({a} * {b})"),
                5 => format!("({a} / {b})"),
                // Large numbers make steps and teeth so fine that differences do not see them.
                6 | 7 if self.smooth => format!("({a} / {b})"),
                6 => format!("({a} // {b})"),
                7 => format!("({a} % {b})"),
                _ => format!("(-{a})"),
            };
        }
        let operator = self.integer_operator();
        match self.random.below(13) {
            0 => format!("(~{a})"),
            12 => self.power(&a, ty, d),
            1 => format!("(-{a})"),
            _ => format!("({a} {operator} {b})"),
        }
    }

    /// An operator of integers; with checks mostly none that fails for a divisor of 0, or little else would fail.
    pub(super) fn integer_operator(&mut self) -> &'static str {
        let operators = ["//", "%", "/", "+", "-", "*", "&", "|", "^", "<<", ">>"];
        let first = if self.checked && self.random.chance(97) { 3 } else { 0 };
        operators[first + self.random.below(operators.len() - first)]
    }

    /// `a ** b`; integers have small literal powers only.
    pub(super) fn power(&mut self, a: &str, ty: Scalar, d: usize) -> String {
        let exponent = match self.random.below(6) {
            0 if ty.is_float() => self.expr(ty, d),
            1 if ty.is_float() => "0.5".to_owned(),
            2 if ty.is_float() => "(-2)".to_owned(),
            _ => self.random.below(10).to_string(),
        };
        format!("({a} ** {exponent})")
    }

    pub(super) fn math_of(&mut self, ty: Scalar) -> Option<Op> {
        let takes = |op: &&Op| scalar_overloads(**op).any(|s| s.var.is_some_and(|class| class.contains(ty)));
        let fits: Vec<Op> = self.math.iter().filter(takes).copied().collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    pub(super) fn condition(&mut self, d: usize) -> String {
        match self.random.below(8) {
            0 => format!("({} and {})", self.expr(Scalar::Bool, d), self.expr(Scalar::Bool, d)),
            1 => format!("({} or {})", self.expr(Scalar::Bool, d), self.expr(Scalar::Bool, d)),
            2 => format!("(not {})", self.expr(Scalar::Bool, d)),
            3 => {
                let ty = self.number();
                let (a, b, c) = (self.pinned(ty, d), self.pinned(ty, d), self.expr(ty, d));
                if self.random.chance(50) {
                    return format!("({a} < {b} <= {c})");
                }
                let mut chain = a;
                for _ in 0..3 + self.random.below(6) {
                    let operator = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                    let operand = if d > 0 && self.random.chance(30) { self.pinned(ty, d - 1) } else { self.leaf(ty) };
                    chain.push_str(&format!(" {operator} {operand}"));
                }
                format!("({chain})")
            }
            _ => {
                let ty = self.number();
                let operator = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {operator} {})", self.pinned(ty, d), self.expr(ty, d))
            }
        }
    }

    pub(super) fn number(&mut self) -> Scalar {
        match self.ty() {
            Scalar::Bool => Scalar::I32,
            ty => ty,
        }
    }

    pub(super) fn leaf(&mut self, ty: Scalar) -> String {
        self.variable(ty.into()).unwrap_or_else(|| self.literal(ty))
    }

    /// Mostly a variable of this type, if there is one.
    pub(super) fn variable(&mut self, ty: Type) -> Option<String> {
        let fits: Vec<usize> = (0..self.scope.len()).filter(|&v| self.scope[v].ty == ty).collect();
        if fits.is_empty() || !self.random.chance(75) {
            return None;
        }
        Some(self.scope[*self.random.pick(&fits)].name.clone())
    }

    pub(super) fn literal(&mut self, ty: Scalar) -> String {
        if self.random.chance(8) {
            let constants: &[&str] = match ty {
                Scalar::Bool => &["K0 > 2", "K1 > 2.0", "not K0 == 3"],
                _ if ty.is_float() => &["K1", "K1 * 3.0", "K0 + K1", "loom.pi"],
                _ => &["K0", "2 * K0 - 1"],
            };
            return format!("loom.static({})", self.random.pick(constants));
        }
        match ty {
            Scalar::Bool => (*self.random.pick(&["True", "False"])).to_owned(),
            _ if ty.is_float() => {
                let values = ["0.0", "1.0", "-1.0", "0.5", "2.0", "-0.25", "3.0", "1e-3", "100.0", "-7.5", "0.1", "2"];
                (*self.random.pick(&values)).to_owned()
            }
            _ => {
                let small = self.random.below(12) as i64;
                let edge = (1i64 << (ty.bits() - 1).min(31)) - 1;
                let value = match self.random.below(6) {
                    // Differences do not see what is added to so large a number.
                    _ if self.smooth => small,
                    0 => edge,
                    1 if ty.is_signed_int() => -edge,
                    2 if ty.is_signed_int() => -small,
                    _ => small,
                };
                if value < 0 { format!("({value})") } else { value.to_string() }
            }
        }
    }
}
