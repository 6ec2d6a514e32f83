//! The functions in HIR of elementwise ops.

use super::{OpDefinition, TensorOp};
use polyloom_ir::{BuildError, Expr, ExprBuilder, Function, Scalar, Type};

/// Returns the function of an elementwise op for operands and a result of these types; `None` for any other op.
///
/// # Errors
///
/// A [`BuildError`] if the op does not take these types. Those of a verified graph it takes.
pub fn scalar_function(op: TensorOp, operands: &[Scalar], result: Scalar) -> Option<Result<Function, BuildError>> {
    let OpDefinition::Scalar(_) = op.info().definition else { return None };
    let types: Vec<(&str, Type)> = operands.iter().map(|&dtype| ("x", Type::Scalar(dtype))).collect();
    let name = format!("tensor.{}", op.name());
    Some(ExprBuilder::function(&name, &types, &[Type::Scalar(result)], |_, params| {
        vec![apply_scalar(op, params, result)]
    }))
}

/// Applies an elementwise op to one element of each operand. Returns the first of them if the op is none.
pub(crate) fn apply_scalar<'g>(op: TensorOp, operands: &[Expr<'g>], result: Scalar) -> Expr<'g> {
    let OpDefinition::Scalar(body) = op.info().definition else { return operands[0] };
    if op == TensorOp::Bitcast {
        // The bits are those of the type itself, so that a 16-bit float is not widened.
        let value = body(operands);
        return if value.scalar() == result { value } else { value.bitcast(result) };
    }
    let widened: Vec<Expr<'g>> = operands.iter().map(|&operand| widen(operand)).collect();
    // The body of `cast` gives its operand, because only here the type of the result is known.
    let value = body(&widened);
    if value.scalar() == result { value } else { value.cast(result) }
}

fn widen(x: Expr<'_>) -> Expr<'_> {
    if x.scalar().is_half() { x.cast(Scalar::F32) } else { x }
}
