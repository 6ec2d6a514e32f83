//! The functions in HIR of elementwise ops.

use super::{OpDefinition, TensorOp};
use polyloom_ir::{BuildError, Expr, ExprBuilder, Function, Scalar, Type};

/// Returns the function of an elementwise op for operands and a result of these types; `None` for any other op.
///
/// # Errors
///
/// A [`BuildError`] if the op does not take these types. Those of a verified graph it takes.
pub fn scalar_function(op: TensorOp, operands: &[Scalar], result: Scalar) -> Option<Result<Function, BuildError>> {
    let OpDefinition::Scalar(body) = op.info().definition else { return None };
    let types: Vec<(&str, Type)> = operands.iter().map(|&dtype| ("x", Type::Scalar(dtype))).collect();
    let name = format!("tensor.{}", op.name());
    // The body of `cast` gives its operand, because only here the type of the result is known.
    Some(ExprBuilder::function(&name, &types, &[Type::Scalar(result)], |_, params| {
        let widened: Vec<Expr<'_>> = params.iter().map(|&param| widen(param)).collect();
        let value = body(&widened);
        vec![if value.scalar() == result { value } else { value.cast(result) }]
    }))
}

fn widen(x: Expr<'_>) -> Expr<'_> {
    if x.scalar().is_half() { x.cast(Scalar::F32) } else { x }
}
