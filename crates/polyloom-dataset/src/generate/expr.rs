//! Expressions: text, with what is known of their values.

use super::condition_tests::{ConditionTest, negated};
use super::sum_parts::SumParts;
use super::words::{self, OperandWords};
use crate::catalogue::{OpTrait, facts, op_of_operator};
use crate::number_range::NumberRange;
use polyloom::op::OpGroup;
use polyloom::{Op, Type};
use smallvec::SmallVec;
use std::rc::Rc;

/// Describes how tightly the outermost operator of an expression binds, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum BindingStrength {
    Conditional,
    Or,
    And,
    Not,
    Comparison,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// An expression of the kernel language.
#[derive(Clone, Debug)]
pub(super) struct GeneratedExpr {
    pub(super) text: String,
    /// The same in words.
    pub(super) words: String,
    pub(super) binding: BindingStrength,
    pub(super) ty: Type,
    pub(super) range: NumberRange,
    /// The variables in it, by number.
    pub(super) uses: SmallVec<[usize; 4]>,
    /// The builtin that gives it.
    pub(super) head: Option<Op>,
    /// Holds what it is a sum of, and a product of.
    pub(super) parts: SumParts,
    /// The tests that a condition is made of.
    pub(super) asks: Vec<ConditionTest>,
    /// Factor of a product with a number, whether the number comes first, and the other factor.
    pub(super) scaled: Option<Rc<(f64, bool, GeneratedExpr)>>,
}

impl GeneratedExpr {
    /// A name.
    pub(super) fn atom(text: impl Into<String>, ty: Type, range: NumberRange) -> GeneratedExpr {
        let text = text.into();
        let (words, parts) = (format!("`{text}`"), SumParts::of(&text));
        GeneratedExpr {
            words,
            text,
            binding: BindingStrength::Atom,
            ty,
            range,
            uses: SmallVec::new(),
            head: None,
            parts,
            asks: Vec::new(),
            scaled: None,
        }
    }

    fn number(text: String, negative: bool, ty: Type, range: NumberRange) -> GeneratedExpr {
        let binding = if negative { BindingStrength::Sign } else { BindingStrength::Atom };
        let (words, parts) = (text.clone(), SumParts::default());
        let (uses, asks) = (SmallVec::new(), Vec::new());
        GeneratedExpr { words, text, binding, ty, range, uses, head: None, parts, asks, scaled: None }
    }

    pub(super) fn float(number: f64) -> GeneratedExpr {
        GeneratedExpr::number(format!("{number:?}"), number < 0.0, Type::F32, NumberRange::of(number))
    }

    pub(super) fn int(number: i32) -> GeneratedExpr {
        GeneratedExpr::number(number.to_string(), number < 0, Type::I32, NumberRange::of(number.into()))
    }

    /// The words of an operand: of what is computed its formula.
    fn operand(&self) -> OperandWords<'_> {
        let inner = self.words.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        match inner {
            // A place in an element, which has the element's indices.
            Some(code) if code == self.text && code.contains('[') => OperandWords::Code(&self.text),
            Some(name) if !name.contains('`') => OperandWords::Words(&self.words),
            None if self.is_constant() && self.head.is_none() && !self.words.contains(' ') => {
                OperandWords::Words(&self.words)
            }
            _ => OperandWords::Code(&self.text),
        }
    }

    /// The words of operands side by side: where one is a formula of elements, all elements have their indices.
    fn operands<'a>(all: &[&'a GeneratedExpr]) -> SmallVec<[OperandWords<'a>; 4]> {
        let indexed = all.iter().any(|x| matches!(x.operand(), OperandWords::Code(code) if code.contains('[')));
        let is_element = |x: &GeneratedExpr| indexed && x.is_bare() && x.text.contains('[');
        all.iter().map(|x| if is_element(x) { OperandWords::Code(&x.text) } else { x.operand() }).collect()
    }

    /// The same with the builtin that it is a call of.
    pub(super) fn by(mut self, op: Op) -> GeneratedExpr {
        self.head = Some(op);
        self
    }

    /// The text where an operator binds this tightly.
    fn within(&self, binding: BindingStrength) -> String {
        let mut text = String::with_capacity(self.text.len() + 2);
        self.push_within(binding, &mut text);
        text
    }

    fn push_within(&self, binding: BindingStrength, text: &mut String) {
        let in_parentheses = self.binding < binding;
        if in_parentheses {
            text.push('(');
        }
        text.push_str(&self.text);
        if in_parentheses {
            text.push(')');
        }
    }

    fn of(
        parts: &[&GeneratedExpr],
        text: String,
        words: String,
        binding: BindingStrength,
        ty: Type,
        range: NumberRange,
    ) -> GeneratedExpr {
        let mut uses: SmallVec<[usize; 4]> = parts.iter().flat_map(|part| part.uses.iter().copied()).collect();
        uses.sort_unstable();
        uses.dedup();
        let (parts, asks) = (SumParts::default(), Vec::new());
        GeneratedExpr { text, words, binding, ty, range, uses, head: None, parts, asks, scaled: None }
    }

    /// Returns what this is minus of, if it is that.
    pub(super) fn without_sign(&self) -> Option<GeneratedExpr> {
        let text = self.text.strip_prefix('-')?;
        let is_product = self.binding == BindingStrength::Product && !text.contains(['%', '@']) && !text.contains("//");
        if self.binding != BindingStrength::Sign && !is_product {
            return None;
        }
        let (text, binding) = match inside_parentheses(text).filter(|_| !is_product) {
            Some(inside) => (inside, BindingStrength::Conditional),
            None if is_product => (text, BindingStrength::Product),
            None => (text, BindingStrength::Atom),
        };
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let words = match self.uses.is_empty() && !text.contains(['(', '*']) {
            true => text.to_owned(),
            false if is_name => format!("`{text}`"),
            false => words::formula(text),
        };
        let mut parts = self.parts.clone();
        parts.terms.iter_mut().for_each(|term| *term = -*term);
        let (text, range) = (text.to_owned(), -self.range);
        let uses = self.uses.clone();
        let asks = Vec::new();
        Some(GeneratedExpr { text, words, binding, ty: self.ty, range, uses, head: None, parts, asks, scaled: None })
    }

    /// `a OPERATOR b`.
    pub(super) fn binary(
        operator: &str,
        a: &GeneratedExpr,
        b: &GeneratedExpr,
        ty: Type,
        range: NumberRange,
    ) -> GeneratedExpr {
        // A sign behind an operator is another operator.
        let opposite = if operator == "+" { "-" } else { "+" };
        if matches!(operator, "+" | "-")
            && let Some(plain) = b.without_sign()
        {
            return GeneratedExpr::binary(opposite, a, &plain, ty, range);
        }
        if operator == "+"
            && !b.uses.is_empty()
            && let Some(plain) = a.without_sign()
        {
            return GeneratedExpr::binary("-", b, &plain, ty, range);
        }
        let binding = match operator {
            "or" => BindingStrength::Or,
            "and" => BindingStrength::And,
            "|" => BindingStrength::BitOr,
            "^" => BindingStrength::BitXor,
            "&" => BindingStrength::BitAnd,
            "<<" | ">>" => BindingStrength::Shift,
            "+" | "-" => BindingStrength::Sum,
            "*" | "/" | "//" | "%" | "@" => BindingStrength::Product,
            "**" => BindingStrength::Power,
            _ => BindingStrength::Comparison,
        };
        // Comparisons chain, and what stands on the right is computed first.
        let tighter = |binding: BindingStrength| match binding {
            BindingStrength::Comparison => BindingStrength::BitOr,
            BindingStrength::Sum => BindingStrength::Product,
            BindingStrength::Product => BindingStrength::Sign,
            BindingStrength::Shift => BindingStrength::Sum,
            BindingStrength::Power => BindingStrength::Sign,
            other => other,
        };
        let left = match binding {
            BindingStrength::Comparison => BindingStrength::BitOr,
            BindingStrength::Power => BindingStrength::Atom,
            other => other,
        };
        // As formatters write it: powers of simple operands without spaces.
        let is_simple = |x: &GeneratedExpr| x.binding >= BindingStrength::Sign && !x.text.contains(['(', '[']);
        let gap = if binding == BindingStrength::Power && is_simple(a) && is_simple(b) { "" } else { " " };
        let mut text = String::with_capacity(a.text.len() + b.text.len() + 8);
        a.push_within(left, &mut text);
        for part in [gap, operator, gap] {
            text.push_str(part);
        }
        b.push_within(tighter(binding), &mut text);
        let [first, second] = GeneratedExpr::operands(&[a, b])[..] else { unreachable!("there are two") };
        // Integer division rounds the quotient.
        let is_whole = ty.as_scalar().is_some_and(|scalar| scalar.is_int());
        let words = words::binary(if operator == "/" && is_whole { "whole /" } else { operator }, first, second);
        let mut parts = SumParts::of_operator(operator, &a.parts, &b.parts);
        let is_number = |x: &GeneratedExpr| x.uses.is_empty();
        parts.has_number = matches!(operator, "+" | "-" | "*") && (is_number(a) || is_number(b));
        match operator {
            "+" | "-" => {
                parts.is_moved = a.parts.is_moved || b.parts.is_moved || is_number(a) || is_number(b);
            }
            "*" => parts.is_scaled = a.parts.is_scaled || b.parts.is_scaled || is_number(a) || is_number(b),
            "/" => parts.is_scaled = a.parts.is_scaled || b.parts.is_scaled || is_number(b),
            _ => {}
        }
        parts.multiple_of = match operator {
            "+" | "-" | "*" | "/" if is_number(b) => a.parts.multiple_of,
            "+" | "-" | "*" if is_number(a) => b.parts.multiple_of,
            _ => None,
        };
        let op = op_of_operator(if operator == "@" { "*" } else { operator }, 2);
        let head = op.filter(|op| matches!(op.info().group, OpGroup::Arithmetic | OpGroup::Math));
        let scaled = match (operator, a.is_constant(), b.is_constant()) {
            ("*", true, false) => Some(Rc::new((a.range.low, true, b.clone()))),
            ("*", false, true) => Some(Rc::new((b.range.low, false, a.clone()))),
            _ => None,
        };
        GeneratedExpr { parts, head, scaled, ..GeneratedExpr::of(&[a, b], text, words, binding, ty, range) }
    }

    /// `-x`, `~x`, `not x`.
    pub(super) fn unary(operator: &str, x: &GeneratedExpr, ty: Type, range: NumberRange) -> GeneratedExpr {
        let (binding, gap) = if operator == "not" { (BindingStrength::Not, " ") } else { (BindingStrength::Sign, "") };
        // As formatters write it: a power has parentheses behind a sign.
        let text = format!(
            "{operator}{gap}{}",
            x.within(if x.binding == BindingStrength::Power { BindingStrength::Atom } else { binding })
        );
        let words =
            if operator == "not" { words::negated(&x.words, &text) } else { words::unary(operator, x.operand()) };
        let mut expr = GeneratedExpr::of(&[x], text, words, binding, ty, range);
        if operator == "not" {
            expr.head = Some(Op::Unot);
            expr.asks = negated(&x.asks);
        } else if operator == "-" {
            expr.head = Some(Op::Neg);
            expr.parts.terms.extend(x.parts.terms.iter().map(|term| -term));
            expr.parts.factors.clone_from(&x.parts.factors);
            expr.parts.multiple_of = x.parts.multiple_of;
            (expr.parts.is_moved, expr.parts.is_scaled) = (x.parts.is_moved, x.parts.is_scaled);
        }
        expr
    }

    /// `NAME(args)`.
    pub(super) fn call(name: &str, args: &[&GeneratedExpr], ty: Type, range: NumberRange) -> GeneratedExpr {
        let length = args.iter().map(|arg| arg.text.len() + 2).sum::<usize>();
        let mut text = String::with_capacity(name.len() + length);
        text.push_str(name);
        for (at, arg) in args.iter().enumerate() {
            text.push_str(if at == 0 { "(" } else { ", " });
            text.push_str(&arg.text);
        }
        text.push_str(if args.is_empty() { "()" } else { ")" });
        let words = words::call(name, &GeneratedExpr::operands(args), &text);
        GeneratedExpr::of(args, text, words, BindingStrength::Atom, ty, range)
    }

    /// The same told by this noun, `{}` being what it is of.
    pub(super) fn told(mut self, noun: &str, args: &[&GeneratedExpr]) -> GeneratedExpr {
        self.words = words::fill(noun, &GeneratedExpr::operands(args));
        self
    }

    /// `yes if condition else no`.
    pub(super) fn conditional(
        condition: &GeneratedExpr,
        yes: &GeneratedExpr,
        no: &GeneratedExpr,
        range: NumberRange,
    ) -> GeneratedExpr {
        let [first, middle] = [yes, condition].map(|part| part.within(BindingStrength::Or));
        let text = format!("{first} if {middle} else {}", no.within(BindingStrength::Or));
        let words = match GeneratedExpr::operands(&[yes, condition, no])[..] {
            // Elements in a formula have no names without indices beside them.
            [yes @ OperandWords::Code(_), _, no] | [yes, _, no @ OperandWords::Code(_)] => {
                words::fill("{} if {}, else {}", &[yes, OperandWords::Code(&condition.text), no])
            }
            [yes, _, no] => words::fill("{} if {}, else {}", &[yes, OperandWords::Words(&condition.words), no]),
            _ => unreachable!("there are three"),
        };
        GeneratedExpr::of(&[condition, yes, no], text, words, BindingStrength::Conditional, yes.ty, range)
    }

    /// The text as the right operand of a sum.
    pub(super) fn within_sum(&self) -> String {
        self.within(BindingStrength::Product)
    }

    /// The text as an operand of a product.
    pub(super) fn within_product(&self) -> String {
        self.within(BindingStrength::Sign)
    }

    /// `x.NAME`, `x[0]`: `suffix` with what is before it.
    pub(super) fn part(x: &GeneratedExpr, suffix: &str, ty: Type) -> GeneratedExpr {
        let text = format!("{}{suffix}", x.within(BindingStrength::Atom));
        // Otherwise, behind the name alone of an array, it would be another of its elements.
        let words = match x.is_bare() && x.text.contains('[') && suffix.starts_with('[') {
            true => format!("`{text}`"),
            false => words::part(suffix, x.operand(), &text),
        };
        let parts = SumParts::of(&text);
        GeneratedExpr { parts, ..GeneratedExpr::of(&[x], text, words, BindingStrength::Atom, ty, x.range) }
    }

    /// Returns true if it is a variable, or an element, and nothing else.
    pub(super) fn is_bare(&self) -> bool {
        self.uses.len() == 1 && self.binding == BindingStrength::Atom && !self.text.contains('(')
    }

    /// Returns true if the builtin that gives it has the property.
    pub(super) fn has(&self, property: OpTrait) -> bool {
        self.head.is_some_and(|op| facts(op).is(property))
    }

    /// Returns true if it is a direction, because its length says nothing.
    pub(super) fn is_of_one_length(&self) -> bool {
        self.has(OpTrait::UnitLength)
    }

    /// Returns true if it is a number.
    pub(super) fn is_constant(&self) -> bool {
        self.uses.is_empty() && self.range.low == self.range.high
    }
}

/// Returns what a pair of parentheses around all of a text has in it.
fn inside_parentheses(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0;
    let closes = inside.bytes().any(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        depth < 0
    });
    (!closes).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn signs_behind_operators_become_operators() {
        let x = |name: &str| GeneratedExpr {
            uses: smallvec![0],
            ..GeneratedExpr::atom(name, Type::F32, NumberRange::within(1.0))
        };
        let binary = |sign: &str, a: &GeneratedExpr, b: &GeneratedExpr| {
            GeneratedExpr::binary(sign, a, b, Type::F32, NumberRange::within(2.0))
        };
        let minus = |a: &GeneratedExpr| GeneratedExpr::unary("-", a, Type::F32, NumberRange::within(1.0));
        let (a, b, c) = (x("a"), x("b"), x("c"));
        let check =
            |expr: GeneratedExpr, text: &str, words: &str| assert_eq!((&*expr.text, &*expr.words), (text, words));
        check(binary("+", &a, &minus(&b)), "a - b", "the difference of `a` and `b`");
        check(binary("-", &a, &minus(&b)), "a + b", "the sum of `a` and `b`");
        check(binary("+", &minus(&a), &b), "b - a", "the difference of `b` and `a`");
        check(binary("-", &a, &minus(&binary("-", &b, &c))), "a + (b - c)", "the sum of `a` and `b - c`");
        check(binary("+", &a, &binary("*", &minus(&b), &c)), "a - b * c", "the difference of `a` and `b * c`");
        check(binary("+", &a, &GeneratedExpr::float(-0.5)), "a - 0.5", "the difference of `a` and 0.5");
        let rest = binary("%", &minus(&b), &c);
        assert_eq!(binary("+", &a, &rest).text, "a + -b % c");
    }
}
