//! Expectations: they print what does not meet them, and the launch goes on.
//!
//! Operands are two values, each of one component or more, and for closeness a tolerance.

use crate::expression::Expr;

/// Prints unless the values are equal.
pub(super) fn equal<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let (actual, expected) = x.split_at(x.len() / 2);
    report("eq", !all_equal(actual, expected), actual, expected)
}

/// Prints if the values are equal.
pub(super) fn different<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let (actual, expected) = x.split_at(x.len() / 2);
    report("neq", all_equal(actual, expected), actual, expected)
}

/// Prints unless the values differ by no more than a tolerance.
pub(super) fn near<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let n = x.len() / 2;
    let (actual, expected) = (&x[..n], &x[n..2 * n]);
    let tolerance = x.get(2 * n).copied().unwrap_or_else(|| x[0].constant(1e-6));
    let each = actual.iter().zip(expected).map(|(&a, &b)| (a - b).abs().le(tolerance));
    let Some(all) = each.reduce(|a, b| a & b) else { return Vec::new() };
    report("near", !all, actual, expected)
}

fn all_equal<'g>(a: &[Expr<'g>], b: &[Expr<'g>]) -> Expr<'g> {
    let (first, last) = (a[0].eq(b[0]), a.iter().zip(b).skip(1));
    last.fold(first, |all, (&a, &b)| all & a.eq(b))
}

fn report<'g>(name: &str, fails: Expr<'g>, actual: &[Expr<'g>], expected: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let value = match actual.len() {
        1 => "%s".to_owned(),
        n => format!("[{}]", vec!["%s"; n].join(", ")),
    };
    let format = format!("Error, expect_{name}() failed:\n\t Expected: {value}\n\t Actual: {value}\n");
    let values: Vec<Expr<'g>> = expected.iter().chain(actual).copied().collect();
    let builder = fails.builder();
    builder.branch(
        fails,
        || {
            builder.print(&format, &values);
            []
        },
        || [],
    );
    Vec::new()
}
