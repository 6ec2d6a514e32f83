//! What messages tell people to write where a value has another type than it must have.
//!
//! What they write must do what they meant: a quotient of integers is converted part by part, since `float(1 / 2)` is
//! 0, and a variable that begins with a number is given its type there, since it keeps it.

use super::function::FunctionChecker;
use crate::typed_ast::{ExprKind, LocalId, TypedExpr};
use polyloom_ir::{Op, Scalar, Span, Type};

/// Converted texts longer than this are not shown.
const LONGEST: usize = 60;

impl FunctionChecker<'_, '_, '_> {
    /// Returns what to write to have this value in another type: `write \`float(i)\``.
    pub(super) fn conversion_help(&self, expr: &TypedExpr, to: Scalar) -> String {
        self.first_value_help(expr, to).unwrap_or_else(|| format!("write `{}`", self.conversion(expr, to)))
    }

    /// Returns what to write where a variable is first set, if that is what decides its type.
    fn first_value_help(&self, expr: &TypedExpr, to: Scalar) -> Option<String> {
        let ExprKind::Local(id) = expr.kind else { return None };
        let first = self.first_values.get(&id)?;
        let name = &self.locals[id.0 as usize].name;
        if has_quotient(first) {
            let value = self.conversion(first, to);
            let reason = "`/` of integers gives an integer";
            return to.is_float().then(|| format!("write `{name} = {value}` where it is first set: {reason}"));
        }
        // An integer may be meant to stay one, unless what it meets is assigned to it.
        let was = self.local_type(id).as_scalar()?;
        let rank = |s: Scalar| (s.is_float(), s.bits());
        let is_wider = was != Scalar::Bool && to != Scalar::Bool && rank(was) < rank(to);
        (is_wider && (was.is_float() || self.assigning == Some(id))).then(|| self.first_set(id, to))
    }

    /// Returns how a variable that begins with a number begins with one of another type.
    fn first_set(&self, id: LocalId, to: Scalar) -> String {
        let name = &self.locals[id.0 as usize].name;
        let number = self.first_values.get(&id).map_or("0", |first| self.text_of(first.span));
        let is_integer = number.chars().all(|c| c.is_ascii_digit());
        let number = if is_integer && to.is_float() { format!("{number}.0") } else { number.to_owned() };
        let value = match to {
            Scalar::F32 | Scalar::I32 => number,
            _ => format!("{}({number})", self.type_text(to)),
        };
        format!("write `{name} = {value}` where it is first set")
    }

    /// Returns what to write for a variable that has been given a value of a wider type, if it begins with a number.
    pub(super) fn retype_help(&self, id: LocalId, given: Scalar) -> Option<String> {
        let first = self.first_values.get(&id)?;
        let was = self.local_type(id).as_scalar()?;
        if has_quotient(first) {
            let value = self.conversion(first, given);
            let name = &self.locals[id.0 as usize].name;
            return given.is_float().then(|| format!("write `{name} = {value}` where it is first set"));
        }
        let rank = |s: Scalar| (s.is_float(), s.bits());
        (was != Scalar::Bool && given != Scalar::Bool && rank(was) < rank(given)).then(|| self.first_set(id, given))
    }

    /// The expression converted, as source text.
    pub(super) fn conversion(&self, expr: &TypedExpr, to: Scalar) -> String {
        if to.is_float() && has_quotient(expr) {
            let mut parts = Vec::new();
            leaves(expr, &mut parts);
            return self
                .with_parts_converted(expr.span, &parts, to)
                .unwrap_or_else(|| "float(…) / float(…)".to_owned());
        }
        let text = self.text_of(expr.span);
        let inner = if text.is_empty() || text.len() > LONGEST || text.contains('\n') { "…" } else { text };
        format!("{}({inner})", self.type_text(to))
    }

    /// The text of a span in which each of these operands is converted.
    fn with_parts_converted(&self, span: Span, parts: &[Span], to: Scalar) -> Option<String> {
        let mut parts = parts.to_vec();
        parts.sort_by_key(|part| part.start);
        let (mut text, mut at) = (String::new(), span.start);
        for part in parts {
            let own = self.text_of(part);
            if part.start < at || own.is_empty() {
                return None;
            }
            text.push_str(self.text_of(Span::new(span.file, at, part.start)));
            let is_literal = own.chars().all(|c| c.is_ascii_digit());
            match is_literal && to == Scalar::F32 {
                true => text.push_str(&format!("{own}.0")),
                false => text.push_str(&format!("{}({own})", self.type_text(to))),
            }
            at = part.end;
        }
        text.push_str(self.text_of(Span::new(span.file, at, span.end)));
        (text.len() <= LONGEST && !text.contains('\n')).then_some(text)
    }

    /// The source text of a span.
    pub(super) fn text_of(&self, span: Span) -> &str {
        self.unit.file().text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

/// Returns true if a value is computed by `/` of integers, itself or in one of its terms and factors.
pub(super) fn has_quotient(expr: &TypedExpr) -> bool {
    let is_quotient = matches!(expr.kind, ExprKind::Op { op: Op::Div, .. });
    is_integer(expr) && (is_quotient || operands(expr).iter().any(has_quotient))
}

fn is_integer(expr: &TypedExpr) -> bool {
    matches!(expr.ty.as_value(), Some(Type::Scalar(scalar)) if scalar.is_int())
}

/// The operands that can be converted in place of the whole: those of arithmetic on floats and integers alike.
fn operands(expr: &TypedExpr) -> &[TypedExpr] {
    match &expr.kind {
        ExprKind::Op { op: Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Neg, args, .. } => args,
        _ => &[],
    }
}

fn leaves(expr: &TypedExpr, out: &mut Vec<Span>) {
    match operands(expr) {
        [] => out.push(expr.span),
        operands => operands.iter().for_each(|operand| leaves(operand, out)),
    }
}
