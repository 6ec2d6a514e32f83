//! Subscripts as polynomials in indices and names, and what can be proved of their signs.

use super::syntax::{BinaryOp, Expr, ExprKind, UnaryOp};
use std::collections::BTreeMap;

/// Factors of one term beyond this are not multiplied out.
const MAX_DEGREE: usize = 6;

/// Terms of a polynomial beyond this are not kept.
const MAX_TERMS: usize = 64;

/// A polynomial with integer coefficients: for each product of names, sorted, its coefficient.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Polynomial(BTreeMap<Vec<String>, i64>);

impl Polynomial {
    pub(super) fn constant(value: i64) -> Polynomial {
        let mut made = Polynomial::default();
        made.add_term(Vec::new(), value);
        made
    }

    pub(super) fn name(name: &str) -> Polynomial {
        Polynomial([(vec![name.to_owned()], 1)].into())
    }

    fn add_term(&mut self, names: Vec<String>, coefficient: i64) {
        let entry = self.0.entry(names).or_insert(0);
        *entry = entry.saturating_add(coefficient);
        self.0.retain(|_, coefficient| *coefficient != 0);
    }

    pub(super) fn as_constant(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    pub(super) fn plus(&self, other: &Polynomial) -> Polynomial {
        let mut sum = self.clone();
        other.0.iter().for_each(|(names, coefficient)| sum.add_term(names.clone(), *coefficient));
        sum
    }

    pub(super) fn minus(&self, other: &Polynomial) -> Polynomial {
        self.plus(&other.scaled(-1))
    }

    pub(super) fn scaled(&self, by: i64) -> Polynomial {
        let mut scaled = Polynomial::default();
        self.0.iter().for_each(|(names, coefficient)| scaled.add_term(names.clone(), coefficient.saturating_mul(by)));
        scaled
    }

    pub(super) fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        let mut product = Polynomial::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut names: Vec<String> = a.iter().chain(b).cloned().collect();
                names.sort();
                if names.len() > MAX_DEGREE || product.0.len() > MAX_TERMS {
                    return None;
                }
                product.add_term(names, x.checked_mul(*y)?);
            }
        }
        Some(product)
    }

    /// Splits the terms with a name from the others. The first polynomial is the coefficient of the name; `None` if the
    /// name is there in a power.
    pub(super) fn split(&self, name: &str) -> Option<(Polynomial, Polynomial)> {
        let (mut coefficient, mut rest) = (Polynomial::default(), Polynomial::default());
        for (names, value) in &self.0 {
            match names.iter().filter(|known| *known == name).count() {
                0 => rest.add_term(names.clone(), *value),
                1 => coefficient.add_term(names.iter().filter(|known| *known != name).cloned().collect(), *value),
                _ => return None,
            }
        }
        Some((coefficient, rest))
    }

    /// The polynomial in which a name has a value; `None` if the name is there in a power.
    fn substituted(&self, name: &str, value: &Polynomial) -> Option<Polynomial> {
        let (coefficient, rest) = self.split(name)?;
        Some(rest.plus(&coefficient.times(value)?))
    }

    /// A name of those that vary, with the value that makes this polynomial 0; `None` if no name stands alone.
    fn solved(&self, varies: &dyn Fn(&str) -> bool) -> Option<(String, Polynomial)> {
        self.names().filter(|name| varies(name)).find_map(|name| {
            let (coefficient, rest) = self.split(name)?;
            match coefficient.as_constant()? {
                1 => Some((name.to_owned(), rest.scaled(-1))),
                -1 => Some((name.to_owned(), rest)),
                _ => None,
            }
        })
    }

    /// The polynomial in which one name stands for another.
    pub(super) fn renamed(&self, rename: &dyn Fn(&str) -> Option<String>) -> Polynomial {
        let mut renamed = Polynomial::default();
        for (names, value) in &self.0 {
            let mut names: Vec<String> =
                names.iter().map(|name| rename(name).unwrap_or_else(|| name.clone())).collect();
            names.sort();
            renamed.add_term(names, *value);
        }
        renamed
    }

    /// The terms: the names that are multiplied, and the coefficient.
    pub(super) fn terms(&self) -> impl Iterator<Item = (&[String], i64)> {
        self.0.iter().map(|(names, coefficient)| (&names[..], *coefficient))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().flatten().map(String::as_str)
    }

    pub(super) fn mentions(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Returns true if it is at least 1 whenever those names are at least 1.
    pub(super) fn is_positive(&self, at_least_one: &dyn Fn(&str) -> bool) -> bool {
        // With `1 + t` for every name, where `t` is not negative, no coefficient may be negative.
        let mut shifted = Polynomial::default();
        for (names, value) in &self.0 {
            if !names.iter().all(|name| at_least_one(name)) || names.len() > MAX_DEGREE {
                return false;
            }
            for subset in 0..1usize << names.len() {
                let chosen = names.iter().enumerate().filter(|(index, _)| subset >> index & 1 == 1);
                shifted.add_term(chosen.map(|(_, name)| name.clone()).collect(), *value);
            }
        }
        shifted.0.get(&Vec::new()).is_some_and(|constant| *constant > 0)
            && shifted.0.values().all(|coefficient| *coefficient >= 0)
    }

    pub(super) fn evaluate(&self, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (names, coefficient) in &self.0 {
            let mut product = *coefficient;
            for name in names {
                product = product.checked_mul(value_of(name)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }
}

/// Follows from equations, each of which says that a polynomial is 0: names that stand alone in one are replaced in the
/// others by what they are equal to.
pub(super) fn eliminated(equations: &[Polynomial], varies: &dyn Fn(&str) -> bool) -> Vec<Polynomial> {
    let mut open = equations.to_vec();
    loop {
        let solved = open.iter().enumerate().find_map(|(at, equation)| Some((at, equation.solved(varies)?)));
        let Some((at, (name, value))) = solved else { return open };
        open.swap_remove(at);
        open = open.iter().filter_map(|equation| equation.substituted(&name, &value)).collect();
    }
}

/// An expression as a polynomial, with the meaning of its names; `None` for one that is none. `whole` gives a name to a
/// part that is no polynomial and has the same value everywhere.
pub(super) fn polynomial(
    expr: &Expr,
    meaning: &dyn Fn(&str) -> Option<Polynomial>,
    whole: &dyn Fn(&Expr) -> Option<Polynomial>,
) -> Option<Polynomial> {
    in_parts(expr, meaning, whole).or_else(|| whole(expr))
}

fn in_parts(
    expr: &Expr,
    meaning: &dyn Fn(&str) -> Option<Polynomial>,
    whole: &dyn Fn(&Expr) -> Option<Polynomial>,
) -> Option<Polynomial> {
    match &expr.kind {
        ExprKind::Int(value, _) => i64::try_from(*value).ok().map(Polynomial::constant),
        ExprKind::Name(name) => meaning(name),
        ExprKind::Unary(UnaryOp::Negate, operand) => Some(polynomial(operand, meaning, whole)?.scaled(-1)),
        ExprKind::Unary(UnaryOp::Plus, operand) => polynomial(operand, meaning, whole),
        ExprKind::Binary(op, left, right) => {
            let (left, right) = (polynomial(left, meaning, whole)?, polynomial(right, meaning, whole)?);
            match op {
                BinaryOp::Add => Some(left.plus(&right)),
                BinaryOp::Sub => Some(left.minus(&right)),
                BinaryOp::Mul => left.times(&right),
                BinaryOp::Lshift => {
                    let bits = right.as_constant().filter(|bits| (0..32).contains(bits))?;
                    Some(left.scaled(1 << bits))
                }
                BinaryOp::Div => {
                    let (a, b) = (left.as_constant()?, right.as_constant()?);
                    a.checked_div(b).map(Polynomial::constant)
                }
                _ => None,
            }
        }
        // `i32(i)` is `i` as an index.
        ExprKind::Call { function, arguments, .. } => match (function.as_name(), &arguments[..]) {
            (Some("i32" | "i64" | "u32" | "u64" | "int"), [only]) if only.name.is_none() => {
                polynomial(&only.value, meaning, whole)
            }
            _ => None,
        },
        _ => None,
    }
}
