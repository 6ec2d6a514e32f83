//! Operations that no programmer would write: what cancels, what changes nothing, what is known beforehand.

use super::expr::GeneratedExpr;
use super::range::NumberRange;
use polyloom::Op;

/// Returns true if it is seldom what a program computes.
pub(super) fn is_rare(op: Op) -> bool {
    use Op::{Degrees, Erfc, Erfcinv, Erfinv, NormHuber, NormPseudoHuber, Radians, SmoothNormalize};
    matches!(op, Degrees | Erfc | Erfcinv | Erfinv | NormHuber | NormPseudoHuber | Radians | SmoothNormalize)
}

/// Returns true if it takes the value as an angle although it is none.
pub(super) fn mistakes_angle(op: Op, value: &GeneratedExpr) -> bool {
    let is_given = || ["angle", "theta", "phase", "heading", "phi"].iter().any(|name| value.text.starts_with(name));
    let is_computed = || matches!(value.head, Some(Op::Asin | Op::Acos | Op::Atan | Op::Atan2));
    match op {
        Op::Degrees => !is_given() && !is_computed(),
        Op::Radians => !is_given() || is_computed(),
        _ => false,
    }
}

/// Returns true if it maps many numbers to one: seldom what a program wants.
pub(super) fn is_flat(op: Op) -> bool {
    use Op::{Ceil, Floor, FloorDiv, Nonzero, Rint, Round, Sign, Step, Trunc};
    matches!(op, Ceil | Floor | FloorDiv | Nonzero | Rint | Round | Sign | Step | Trunc | Op::Not | Op::BitAnd)
}

/// Returns true if the operation says nothing, or says it in a roundabout way.
pub(super) fn is_pointless(op: Op, args: &[GeneratedExpr]) -> bool {
    let [a, rest @ ..] = args else { return false };
    if args.iter().all(|arg| arg.uses.is_empty()) || a.head.is_some_and(|inner| undoes(op, inner)) {
        return true;
    }
    let one_sign = |range: NumberRange| range.low >= 0.0 || range.high <= 0.0;
    let neutral = |x: &GeneratedExpr, number: f64| x.is_constant() && x.range.low == number;
    let same = |b: &GeneratedExpr| a.text == b.text;
    let is_power = matches!(op, Op::Mul | Op::CwMul | Op::Dot | Op::Ddot | Op::SpatialDot | Op::Select | Op::Fma);
    if !is_power && rest.first().is_some_and(same) {
        return true;
    }
    match (op, rest) {
        // A root takes back a square.
        (Op::Sqrt, _) if a.head == Some(Op::Mul) => a.parts.factors.windows(2).any(|pair| pair[0] == pair[1]),
        (Op::Sign | Op::Step | Op::Nonzero | Op::Abs, _) => one_sign(a.range),
        (Op::Floor | Op::Ceil | Op::Round | Op::Rint | Op::Trunc, _) => a.range.high - a.range.low < 2.0,
        (Op::Frac, _) => a.range.size() < 1.0,
        // The difference the other way round is no longer.
        (Op::Neg, _) => a.text.starts_with('-') || a.head == Some(Op::Sub) && !a.is_bare(),
        (Op::Min | Op::Max, [b]) => {
            let opposite = a.text.trim_start_matches('-') == b.text.trim_start_matches('-');
            let repeats = b.text.contains(a.text.as_str()) || a.text.contains(b.text.as_str());
            opposite || repeats || a.range.low >= b.range.high || b.range.low >= a.range.high
        }
        (Op::Copysign, [b]) => one_sign(b.range) || one_sign(a.range) && a.range.low < 0.0,
        (Op::Add | Op::Sub, [b]) => {
            let is_sum = op == Op::Add;
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
        (Op::Mul | Op::CwMul, [b]) => {
            let scales_twice = a.uses.is_empty() && b.parts.is_scaled || b.uses.is_empty() && a.parts.is_scaled;
            let signs = a.head == Some(Op::Neg) && b.head == Some(Op::Neg);
            // A square has no sign.
            let signs = signs || same(b) && matches!(a.head, Some(Op::Copysign | Op::Neg | Op::Abs));
            scales_twice
                || signs
                || a.parts.is_opposite(&b.parts)
                || [0.0, 1.0].iter().any(|&n| neutral(a, n) || neutral(b, n))
        }
        (Op::Div | Op::FloorDiv | Op::CwDiv, [b]) => {
            neutral(b, 1.0) || b.uses.is_empty() && a.parts.is_scaled || a.parts.share(&b.parts)
        }
        (Op::Mod, [b]) => neutral(b, 1.0) || a.range.size() < b.range.abs().low || a.parts.doubles(&b.parts),
        (Op::Pow, [b]) => neutral(b, 1.0) || neutral(b, 0.0) || neutral(a, 1.0),
        (Op::Lerp, [b, t]) => neutral(t, 0.0) || neutral(t, 1.0) || neutral(a, 0.0) || neutral(b, 0.0),
        (Op::Cos | Op::Cosh, _) => matches!(a.head, Some(Op::Copysign | Op::Neg | Op::Abs)),
        (Op::Select, [b, c]) => b.text == c.text || a.head == Some(Op::Unot),
        (Op::BitAnd | Op::BitOr | Op::BitXor, [b]) => {
            let twice = a.uses == b.uses && a.uses.len() == 1 && !a.is_bare() && !b.is_bare();
            neutral(b, 0.0) || twice
        }
        (Op::Lshift | Op::Rshift, [b]) => neutral(b, 0.0) || neutral(a, 0.0),
        (Op::Fma, [b, c]) => same(b) && b.text == c.text || neutral(a, 1.0) || neutral(b, 1.0),
        _ => false,
    }
}

/// Returns true if one builtin takes back what the other has done, or has nothing left to do behind it.
fn undoes(outer: Op, inner: Op) -> bool {
    use Op::{
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Ceil, Clamp, Copysign, Cos, Cosh, Degrees, Diag, Erf, Erfc,
        Erfcinv, Erfinv, Exp, Exp2, Expm1, Floor, Frac, GetDiag, Invert, Length, LengthSq, Log, Log1p, Log2, Log10,
        Max, Min, Neg, Normalize, Pow, QuatInverse, Radians, Rint, Round, Rsqrt, Sign, Sin, Sinh, Sqrt, Step, Tan,
        Tanh, Transpose, Trunc,
    };
    let rounds = |op| matches!(op, Floor | Ceil | Round | Rint | Trunc);
    if rounds(outer) {
        return rounds(inner) || matches!(inner, Sign | Step);
    }
    match outer {
        Exp | Exp2 | Expm1 => matches!(inner, Log | Log1p | Log2 | Log10 | Exp | Exp2 | Expm1),
        Log | Log1p | Log2 | Log10 => {
            matches!(inner, Exp | Exp2 | Expm1 | Pow | Sqrt | Log | Log1p | Log2 | Log10)
        }
        Asin | Acos | Atan => matches!(inner, Sin | Cos | Tan | Asin | Acos | Atan),
        Sin | Cos | Tan => matches!(inner, Asin | Acos | Atan | Sin | Cos | Tan),
        Asinh | Acosh | Atanh => matches!(inner, Sinh | Cosh | Tanh | Asinh | Acosh | Atanh),
        Sinh | Cosh | Tanh => matches!(inner, Asinh | Acosh | Atanh | Sinh | Cosh | Tanh | Erf),
        Erfinv => inner == Erf,
        Erf => matches!(inner, Erfinv | Tanh | Erf),
        Erfcinv => inner == Erfc,
        Erfc => matches!(inner, Erfcinv | Erf | Erfc),
        Abs => matches!(inner, Abs | Neg | Copysign | Sqrt | Exp | Length | Sign),
        Neg => inner == Neg,
        Degrees | Radians => matches!(inner, Degrees | Radians),
        Transpose | QuatInverse | Invert | Frac | Normalize | Diag | Clamp | Sign => {
            inner == outer || outer == Diag && inner == GetDiag
        }
        Length | LengthSq => matches!(inner, Normalize | Op::QuatFromEuler | Op::QuatRpy),
        Sqrt | Rsqrt => matches!(inner, LengthSq | Pow | Sqrt | Rsqrt | Exp),
        Min | Max => inner == outer || inner == Clamp,
        Op::Determinant | Op::Trace => inner == Transpose,
        Op::Inverse => inner == Op::Inverse,
        _ => false,
    }
}
