//! Operations that no programmer would write: what cancels, what changes nothing, what is known beforehand.

use super::expr::GeneratedExpr;
use crate::catalogue::{OpKind, OpTrait, facts};
use crate::number_range::NumberRange;
use polyloom::Op;

/// Returns true if it takes the value as an angle although it is none.
pub(super) fn mistakes_angle(op: Op, value: &GeneratedExpr) -> bool {
    let is_given = || ["angle", "theta", "phase", "heading", "phi"].iter().any(|name| value.text.starts_with(name));
    let is_computed = || value.has(OpTrait::GivesAngle);
    match facts(op).kind {
        OpKind::ToDegrees => !is_given() && !is_computed(),
        OpKind::ToRadians => !is_given() || is_computed(),
        _ => false,
    }
}

/// Returns true if the operation says nothing, or says it in a roundabout way.
pub(super) fn is_pointless(op: Op, args: &[GeneratedExpr]) -> bool {
    let [a, rest @ ..] = args else { return false };
    if args.iter().all(|arg| arg.uses.is_empty()) || a.head.is_some_and(|inner| facts(op).undoes.contains(&inner)) {
        return true;
    }
    let one_sign = |range: NumberRange| range.low >= 0.0 || range.high <= 0.0;
    let neutral = |x: &GeneratedExpr, number: f64| x.is_constant() && x.range.low == number;
    let same = |b: &GeneratedExpr| a.text == b.text;
    if !facts(op).is(OpTrait::TakesOneTwice) && rest.first().is_some_and(same) {
        return true;
    }
    match (facts(op).kind, rest) {
        // A root takes back a square.
        (OpKind::SquareRoot, _) if a.head == Some(Op::Mul) => a.parts.factors.windows(2).any(|pair| pair[0] == pair[1]),
        (OpKind::SignTest, _) => one_sign(a.range),
        (OpKind::Rounding, _) => a.range.high - a.range.low < 2.0,
        (OpKind::Fraction, _) => a.range.size() < 1.0,
        // The difference the other way round is no longer.
        (OpKind::Negation, _) => a.text.starts_with('-') || a.head == Some(Op::Sub) && !a.is_bare(),
        (OpKind::Extremum, [b]) => {
            let opposite = a.text.trim_start_matches('-') == b.text.trim_start_matches('-');
            let repeats = b.text.contains(a.text.as_str()) || a.text.contains(b.text.as_str());
            opposite || repeats || a.range.low >= b.range.high || b.range.low >= a.range.high
        }
        (OpKind::SignCopy, [b]) => one_sign(b.range) || one_sign(a.range) && a.range.low < 0.0,
        (kind @ (OpKind::Sum | OpKind::Difference), [b]) => {
            let is_sum = kind == OpKind::Sum;
            let of_one =
                (a.uses == b.uses && a.uses.len() == 1) && (a.parts.share(&b.parts) || b.text.contains(&a.text));
            let repeats = !is_sum && b.is_bare() && a.text.contains(b.text.as_str());
            let signed = b.text.starts_with('-') || b.head == Some(Op::Neg);
            let idle = neutral(b, 0.0) || is_sum && neutral(a, 0.0);
            let inverts = |x: &GeneratedExpr| matches!(x.head, Some(Op::Invert | Op::Neg));
            let opposite = a.uses == b.uses && a.uses.len() == 1 && (inverts(a) || inverts(b));
            let moves_twice = a.uses.is_empty() && b.parts.is_moved || b.uses.is_empty() && a.parts.is_moved;
            // Two products of the same could be one.
            let is_product = |x: &GeneratedExpr| x.head == Some(Op::Mul) && x.uses.len() > 1;
            let twice = is_product(a) && is_product(b) && a.uses == b.uses;
            idle || opposite
                || moves_twice
                || signed
                || repeats
                || twice
                || a.parts.doubles(&b.parts)
                || of_one && !a.uses.is_empty()
                || a.parts.cancel(&b.parts, is_sum)
        }
        (OpKind::Product, [b]) => {
            let scales_twice = a.uses.is_empty() && b.parts.is_scaled || b.uses.is_empty() && a.parts.is_scaled;
            let signs = a.head == Some(Op::Neg) && b.head == Some(Op::Neg);
            // A square has no sign.
            let signs = signs || same(b) && a.has(OpTrait::SignOnly);
            scales_twice
                || signs
                || a.parts.is_opposite(&b.parts)
                || [0.0, 1.0].iter().any(|&n| neutral(a, n) || neutral(b, n))
        }
        (OpKind::Quotient, [b]) => neutral(b, 1.0) || b.uses.is_empty() && a.parts.is_scaled || a.parts.share(&b.parts),
        (OpKind::Remainder, [b]) => neutral(b, 1.0) || a.range.size() < b.range.abs().low || a.parts.doubles(&b.parts),
        (OpKind::Power, [b]) => neutral(b, 1.0) || neutral(b, 0.0) || neutral(a, 1.0),
        (OpKind::Blend, [b, t]) => neutral(t, 0.0) || neutral(t, 1.0) || neutral(a, 0.0) || neutral(b, 0.0),
        (OpKind::EvenFunction, _) => a.has(OpTrait::SignOnly),
        (OpKind::Choice, [b, c]) => b.text == c.text || a.head == Some(Op::Unot),
        (OpKind::BitMask, [b]) => {
            let twice = a.uses == b.uses && a.uses.len() == 1 && !a.is_bare() && !b.is_bare();
            neutral(b, 0.0) || twice
        }
        (OpKind::Shift, [b]) => neutral(b, 0.0) || neutral(a, 0.0),
        (OpKind::FusedProduct, [b, c]) => same(b) && b.text == c.text || neutral(a, 1.0) || neutral(b, 1.0),
        _ => false,
    }
}
