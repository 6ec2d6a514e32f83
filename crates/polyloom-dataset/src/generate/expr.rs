//! Expressions: text, with what is known of their values.

use super::range::Range;
use super::words;
use polyloom::Type;
use smallvec::SmallVec;

/// How tightly the outermost operator of an expression binds, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Binding {
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
pub(super) struct Expr {
    pub(super) text: String,
    /// The same in words.
    pub(super) words: String,
    pub(super) binding: Binding,
    pub(super) ty: Type,
    pub(super) range: Range,
    /// The variables in it, by number.
    pub(super) uses: SmallVec<[usize; 4]>,
}

impl Expr {
    /// A name.
    pub(super) fn atom(text: impl Into<String>, ty: Type, range: Range) -> Expr {
        let text = text.into();
        Expr { words: format!("`{text}`"), text, binding: Binding::Atom, ty, range, uses: SmallVec::new() }
    }

    fn number(text: String, negative: bool, ty: Type, range: Range) -> Expr {
        let binding = if negative { Binding::Sign } else { Binding::Atom };
        Expr { words: text.clone(), text, binding, ty, range, uses: SmallVec::new() }
    }

    pub(super) fn float(number: f64) -> Expr {
        Expr::number(format!("{number:?}"), number < 0.0, Type::F32, Range::of(number))
    }

    pub(super) fn int(number: i32) -> Expr {
        Expr::number(number.to_string(), number < 0, Type::I32, Range::of(number.into()))
    }

    /// Whether it is a sum of variables and numbers.
    pub(super) fn is_sum(&self) -> bool {
        let calls = self.text.as_bytes().windows(2).any(|pair| pair[1] == b'(' && pair[0].is_ascii_alphanumeric());
        !calls && !self.text.contains(['*', '/', '%', '@', '<', '>', '&', '|', '^', '~'])
    }

    /// The text where an operator binds this tightly.
    fn within(&self, binding: Binding) -> String {
        if self.binding < binding { format!("({})", self.text) } else { self.text.clone() }
    }

    fn of(parts: &[&Expr], text: String, words: String, binding: Binding, ty: Type, range: Range) -> Expr {
        let mut uses: SmallVec<[usize; 4]> = parts.iter().flat_map(|part| part.uses.iter().copied()).collect();
        uses.sort_unstable();
        uses.dedup();
        Expr { text, words, binding, ty, range, uses }
    }

    /// `a OPERATOR b`.
    pub(super) fn binary(operator: &str, a: &Expr, b: &Expr, ty: Type, range: Range) -> Expr {
        let binding = match operator {
            "or" => Binding::Or,
            "and" => Binding::And,
            "|" => Binding::BitOr,
            "^" => Binding::BitXor,
            "&" => Binding::BitAnd,
            "<<" | ">>" => Binding::Shift,
            "+" | "-" => Binding::Sum,
            "*" | "/" | "//" | "%" | "@" => Binding::Product,
            "**" => Binding::Power,
            _ => Binding::Comparison,
        };
        // Comparisons chain, and what stands on the right is computed first.
        let tighter = |binding: Binding| match binding {
            Binding::Comparison => Binding::BitOr,
            Binding::Sum => Binding::Product,
            Binding::Product => Binding::Sign,
            Binding::Shift => Binding::Sum,
            Binding::Power => Binding::Sign,
            other => other,
        };
        let left = match binding {
            Binding::Comparison => Binding::BitOr,
            Binding::Power => Binding::Atom,
            other => other,
        };
        // As formatters write it: powers of simple operands without spaces.
        let is_simple = |x: &Expr| x.binding >= Binding::Sign && !x.text.contains(['(', '[']);
        let gap = if binding == Binding::Power && is_simple(a) && is_simple(b) { "" } else { " " };
        let text = format!("{}{gap}{operator}{gap}{}", a.within(left), b.within(tighter(binding)));
        let words = words::binary(operator, &a.words, &b.words);
        Expr::of(&[a, b], text, words, binding, ty, range)
    }

    /// `-x`, `~x`, `not x`.
    pub(super) fn unary(operator: &str, x: &Expr, ty: Type, range: Range) -> Expr {
        let (binding, gap) = if operator == "not" { (Binding::Not, " ") } else { (Binding::Sign, "") };
        let text = format!("{operator}{gap}{}", x.within(binding));
        Expr::of(&[x], text, words::unary(operator, &x.words), binding, ty, range)
    }

    /// `NAME(args)`.
    pub(super) fn call(name: &str, args: &[&Expr], ty: Type, range: Range) -> Expr {
        let text = args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(", ");
        let words: Vec<&str> = args.iter().map(|arg| arg.words.as_str()).collect();
        Expr::of(args, format!("{name}({text})"), words::call(name, &words), Binding::Atom, ty, range)
    }

    /// `yes if condition else no`.
    pub(super) fn conditional(condition: &Expr, yes: &Expr, no: &Expr, range: Range) -> Expr {
        let [first, middle] = [yes, condition].map(|part| part.within(Binding::Or));
        let text = format!("{first} if {middle} else {}", no.within(Binding::Or));
        let words = format!("{} if {}, else {}", yes.words, condition.words, no.words);
        Expr::of(&[condition, yes, no], text, words, Binding::Conditional, yes.ty, range)
    }

    /// The text as the right operand of a sum.
    pub(super) fn within_sum(&self) -> String {
        self.within(Binding::Product)
    }

    /// The text as an operand of `and`.
    pub(super) fn within_not(&self) -> String {
        self.within(Binding::Not)
    }

    /// The text as an operand of a product.
    pub(super) fn within_product(&self) -> String {
        self.within(Binding::Sign)
    }

    /// `x.NAME`, `x[0]`: `suffix` with what is before it.
    pub(super) fn part(x: &Expr, suffix: &str, ty: Type) -> Expr {
        let words = words::part(suffix, &x.words);
        Expr::of(&[x], format!("{}{suffix}", x.within(Binding::Atom)), words, Binding::Atom, ty, x.range)
    }

    /// Whether it is a number.
    pub(super) fn is_constant(&self) -> bool {
        self.uses.is_empty() && self.range.low == self.range.high
    }
}
