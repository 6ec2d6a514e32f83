//! Random numbers, each from a state of its own, so that their order does not matter.

use super::DenseTensor;
use crate::builder::convert;
use crate::error::GraphError;
use crate::op::TensorOp;
use polyloom_ir::interp::Interpreter;
use polyloom_ir::math::library_function;
use polyloom_ir::{Module, Op, Scalar, Type};

pub(super) fn evaluate(
    op: TensorOp,
    seed: &DenseTensor,
    extents: &[u64],
    dtype: Scalar,
) -> Result<Vec<u64>, GraphError> {
    let init = interpreter(Op::RandInit, &[Type::I32, Type::I32])?;
    let sample = interpreter(if op == TensorOp::Randn { Op::Randn } else { Op::Randf }, &[Type::U32])?;
    let seed = seed.bits.first().copied().unwrap_or(0);
    let n: u64 = extents.iter().product();
    let draw = |index: u64| {
        let state = call(&init, &[seed, index & u64::from(u32::MAX)])?;
        Ok(convert(Scalar::F32, call(&sample, &[state])?, dtype))
    };
    (0..n).map(draw).collect()
}

fn interpreter(op: Op, types: &[Type]) -> Result<Interpreter, GraphError> {
    let failed = |reason: String| GraphError::Evaluation(format!("`{}`: {reason}", op.name()));
    let mut module = Module::new();
    let function = library_function(op, types).ok_or_else(|| failed("it has no definition".to_owned()))?;
    let function = module.functions.push(function);
    Interpreter::new(&module, function).map_err(|error| failed(error.to_string()))
}

fn call(interpreter: &Interpreter, arguments: &[u64]) -> Result<u64, GraphError> {
    let results = interpreter.call(arguments).map_err(|error| GraphError::Evaluation(error.to_string()))?;
    results.first().copied().ok_or_else(|| GraphError::Evaluation("a function without results".to_owned()))
}
