//! Elementwise ops: their scalar function, interpreted for each element.

use super::DenseTensor;
use crate::error::GraphError;
use crate::op::{TensorOp, scalar_function};
use polyloom_ir::interp::Interpreter;
use polyloom_ir::{Module, Scalar};

pub(super) fn evaluate(
    op: TensorOp,
    operands: &[&DenseTensor],
    extents: &[u64],
    dtype: Scalar,
) -> Result<Vec<u64>, GraphError> {
    let failed = |reason: &dyn std::fmt::Display| GraphError::Evaluation(format!("`{}`: {reason}", op.name()));
    let dtypes: Vec<Scalar> = operands.iter().map(|operand| operand.dtype).collect();
    let function = scalar_function(op, &dtypes, dtype).ok_or_else(|| failed(&"it has no scalar function"))?;
    let mut module = Module::new();
    let function = module.functions.push(function.map_err(|error| failed(&error))?);
    let interpreter = Interpreter::new(&module, function).map_err(|error| failed(&error))?;
    let layouts: Vec<_> = operands.iter().map(|operand| operand.layout().broadcast_to(extents)).collect();
    let mut places: Vec<_> = layouts.iter().map(|layout| layout.places()).collect();
    let n: u64 = extents.iter().product();
    let mut results = Vec::with_capacity(n as usize);
    let mut arguments = Vec::with_capacity(operands.len());
    for _ in 0..n {
        arguments.clear();
        let elements =
            places.iter_mut().zip(operands).filter_map(|(places, operand)| Some(operand.bits[places.next()?]));
        arguments.extend(elements);
        let values = interpreter.call(&arguments).map_err(|error| failed(&error))?;
        results.extend(values.first());
    }
    Ok(results)
}
