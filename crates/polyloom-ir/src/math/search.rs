//! Searching sorted arrays.

use crate::expression::Expr;
use crate::op::Op;
use crate::types::Scalar;

/// `(array, value)` or `(array, begin, end, value)`.
pub(super) fn lower_bound<'g>(x: &[Expr<'g>]) -> Vec<Expr<'g>> {
    let builder = x[0].builder();
    let value = x[x.len() - 1];
    let (zero, extent) = (builder.int(Scalar::I32, 0), x[0].extent(0));
    // Limits outside the array are its ends, so that nothing else is read.
    let inside = |place: Expr<'g>| builder.op(Op::Min, &[builder.op(Op::Max, &[place, zero]), extent]);
    let (begin, end) = match x {
        [_, begin, end, _] => (inside(*begin), inside(*end)),
        _ => (zero, extent),
    };
    vec![first_not_below(x[0], begin, end - 1, value)]
}

/// The first index from `low` to `high` whose element is not less than a value; `high` if none is.
pub(super) fn first_not_below<'g>(array: Expr<'g>, low: Expr<'g>, high: Expr<'g>, value: Expr<'g>) -> Expr<'g> {
    let builder = array.builder();
    let [index, _] = builder.while_loop(
        [low, high],
        |[low, high]| low.lt(high),
        |[low, high]| {
            let middle = low + ((high - low) >> 1);
            let below = builder.op(Op::ArrayLoad, &[array, middle]).lt(value);
            [below.select(middle + 1, low), below.select(high, middle)]
        },
    );
    index
}
