//! The scalar functions that define elementwise ops: HIR over one element of each operand.
//!
//! The evaluator interprets them, and a lowering to HIR inlines the same functions, so that both give the same bits. As in
//! polyloom-ir's mathematics, a function of 16-bit floats computes in `f32` and rounds its result.

use polyloom_ir::{Expr, Op, Scalar};

/// Applies an op of HIR.
fn apply<'g>(op: Op, x: &[Expr<'g>]) -> Expr<'g> {
    x[0].builder().op(op, x)
}

macro_rules! hir_ops {
    ($($name:ident = $op:ident;)*) => {
        $(pub(super) fn $name<'g>(x: &[Expr<'g>]) -> Expr<'g> {
            apply(Op::$op, x)
        })*
    };
}

hir_ops! {
    subtract = Sub;
    divide = Div;
    negative = Neg;
    sqrt = Sqrt;
    rsqrt = Rsqrt;
    cbrt = Cbrt;
    exp = Exp;
    exp2 = Exp2;
    expm1 = Expm1;
    log = Log;
    log2 = Log2;
    log10 = Log10;
    log1p = Log1p;
    sin = Sin;
    cos = Cos;
    tan = Tan;
    asin = Asin;
    acos = Acos;
    atan = Atan;
    atan2 = Atan2;
    sinh = Sinh;
    cosh = Cosh;
    tanh = Tanh;
    asinh = Asinh;
    acosh = Acosh;
    atanh = Atanh;
    erf = Erf;
    erfc = Erfc;
    hypot = Hypot;
    copysign = Copysign;
    isnan = IsNan;
    isinf = IsInf;
    isfinite = IsFinite;
    equal = Eq;
    not_equal = Ne;
    bitwise_and = BitAnd;
    bitwise_or = BitOr;
    bitwise_xor = BitXor;
    left_shift = Lshift;
    right_shift = Rshift;
    select = Select;
}

/// Returns the operand with the canonical NaN in place of others; [`super::apply_scalar`] reinterprets it.
pub(super) fn bits<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    let x = x[0];
    if x.scalar().is_float() { x.ne(x).select(x.builder().float(x.scalar(), f64::NAN), x) } else { x }
}

/// Returns the operand; conversions of types are made around it.
pub(super) fn identity<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    x[0]
}

fn is_bool(x: &[Expr<'_>]) -> bool {
    x[0].scalar() == Scalar::Bool
}

/// Adds; `bool` as NumPy does, by `or`.
pub(super) fn add<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    apply(if is_bool(x) { Op::BitOr } else { Op::Add }, x)
}

/// Multiplies; `bool` by `and`.
pub(super) fn multiply<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    apply(if is_bool(x) { Op::BitAnd } else { Op::Mul }, x)
}

/// Divides and rounds down. For floats these are the steps of NumPy's `npy_floor_divide`, whose quotient is consistent
/// with its remainder where `floor(a / b)` is not.
pub(super) fn floor_divide<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    let (a, b) = (x[0], x[1]);
    if !a.scalar().is_float() {
        return apply(Op::FloorDiv, x);
    }
    let rest = apply(Op::Mod, x);
    let quotient = (a - rest) / b;
    let signs_differ = rest.ne(0) & rest.lt(0).ne(b.lt(0));
    let quotient = signs_differ.select(quotient - 1.0, quotient);
    let floor = quotient.floor();
    let nearest = (quotient - floor).gt(0.5).select(floor + 1.0, floor);
    let zero = copysign(&[a.constant(0.0), a / b]);
    b.eq(0).select(a / b, quotient.eq(0).select(zero, nearest))
}

/// Returns the remainder of `floor_divide`, which has the sign of the divisor. That of an integer by 0 is 0, as in NumPy.
pub(super) fn remainder<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    let (a, b) = (x[0], x[1]);
    let rest = apply(Op::Mod, x);
    if a.scalar().is_unsigned_int() {
        return b.eq(0).select(b, rest);
    }
    let signs_differ = rest.ne(0) & rest.lt(0).ne(b.lt(0));
    let shifted = signs_differ.select(rest + b, rest);
    match a.scalar().is_float() {
        true => shifted.eq(0).select(copysign(&[a.constant(0.0), b]), shifted),
        false => b.eq(0).select(b, shifted),
    }
}

/// Raises to a power. Integers by squaring, wrapping; a negative exponent gives 0, because NumPy's error is no value.
pub(super) fn power<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    let (base, exponent) = (x[0], x[1]);
    if base.scalar().is_float() {
        return apply(Op::Pow, x);
    }
    let one = base.constant(1);
    let [_, _, result] = base.builder().while_loop(
        [base, exponent, one],
        |[_, exponent, _]| exponent.gt(0),
        |[square, exponent, result]| {
            let is_odd = (exponent & 1).ne(0);
            [square * square, exponent >> 1, is_odd.select(result * square, result)]
        },
    );
    if base.scalar().is_unsigned_int() { result } else { exponent.lt(0).select(base.constant(0), result) }
}

/// Returns the magnitude; `bool` has no sign.
pub(super) fn absolute<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    if is_bool(x) { x[0] } else { x[0].abs() }
}

/// Returns -1, 0 or 1, and NaN for NaN.
pub(super) fn sign<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    let x = x[0];
    let one = x.constant(1);
    let zero_or_nan = if x.scalar().is_float() { x + 0.0 } else { x };
    if x.scalar().is_unsigned_int() {
        return x.gt(0).select(one, x);
    }
    x.gt(0).select(one, x.lt(0).select(-one, zero_or_nan))
}

/// Returns the larger; NaN if either is, unlike HIR's `max`.
pub(super) fn maximum<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    extremum(Op::Max, Op::BitOr, x)
}

/// Returns the smaller; NaN if either is, unlike HIR's `min`.
pub(super) fn minimum<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    extremum(Op::Min, Op::BitAnd, x)
}

fn extremum<'g>(op: Op, op_of_bool: Op, x: &[Expr<'g>]) -> Expr<'g> {
    let (a, b) = (x[0], x[1]);
    if is_bool(x) {
        return apply(op_of_bool, x);
    }
    let result = apply(op, x);
    if !a.scalar().is_float() {
        return result;
    }
    (a.ne(a) | b.ne(b)).select(a + b, result)
}

/// Expands to functions that integers pass unchanged.
macro_rules! roundings {
    ($($name:ident = $op:ident;)*) => {
        $(pub(super) fn $name<'g>(x: &[Expr<'g>]) -> Expr<'g> {
            if x[0].scalar().is_float() { apply(Op::$op, x) } else { x[0] }
        })*
    };
}

roundings! {
    floor = Floor;
    ceil = Ceil;
    trunc = Trunc;
    round = Rint;
}

/// Expands to comparisons, in which `false` is below `true`.
macro_rules! comparisons {
    ($($name:ident = $method:ident;)*) => {
        $(pub(super) fn $name<'g>(x: &[Expr<'g>]) -> Expr<'g> {
            let of_bool = |x: Expr<'g>| if x.scalar() == Scalar::Bool { x.cast(Scalar::U8) } else { x };
            of_bool(x[0]).$method(of_bool(x[1]))
        })*
    };
}

comparisons! {
    less = lt;
    less_equal = le;
    greater = gt;
    greater_equal = ge;
}

/// Returns `false` for `true`.
pub(super) fn logical_not<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    !x[0]
}

/// Inverts the bits; `bool` as `logical_not`.
pub(super) fn invert<'g>(x: &[Expr<'g>]) -> Expr<'g> {
    apply(if is_bool(x) { Op::Not } else { Op::Invert }, x)
}
