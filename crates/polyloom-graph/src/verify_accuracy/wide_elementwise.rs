//! Elementwise ops in pairs of `float64`.
//!
//! Functions that have no wide form here are those of [`crate::reference`] on the first parts: right to 1.5 units of `float64`, which the
//! tolerance allows for.

use super::double_double::DoubleDouble;
use super::wide_evaluator::WideTensor;
use crate::builder::convert;
use crate::error::GraphError;
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::reference::{DenseTensor, evaluate_op};
use crate::shape::Shape;
use polyloom_ir::Scalar;
use std::cmp::Ordering;

pub(super) fn evaluate(
    op: TensorOp,
    operands: &[&WideTensor],
    extents: &[u64],
    dtype: Scalar,
) -> Result<WideTensor, GraphError> {
    let places: Vec<Vec<usize>> =
        operands.iter().map(|operand| operand.high.layout().broadcast_to(extents).places().collect()).collect();
    let n = extents.iter().product::<u64>() as usize;
    let get = |operand: usize, index: usize| operands[operand].get(places[operand][index]);
    let floats = |f: &dyn Fn(usize) -> DoubleDouble| WideTensor::of_floats(extents, (0..n).map(f));
    let of_bits = |f: &dyn Fn(usize) -> u64| WideTensor {
        high: DenseTensor { dtype, extents: extents.to_vec(), bits: (0..n).map(f).collect() },
        low: Vec::new(),
    };
    if let Some(f) = DoubleDouble::function(op.name()) {
        return Ok(floats(&|index| f(get(0, index))));
    }
    if let Some(f) = binary(op) {
        return Ok(floats(&|index| f(get(0, index), get(1, index))));
    }
    if let Some(is_true) = comparison(op) {
        return Ok(of_bits(&|index| u64::from(is_true(get(0, index).compare(get(1, index))))));
    }
    match op {
        TensorOp::Where => Ok(floats(&|index| {
            let is_first = operands[0].high.bits[places[0][index]] != 0;
            get(if is_first { 1 } else { 2 }, index)
        })),
        TensorOp::Cast => {
            let operand = operands[0];
            let from = operand.high.dtype;
            match (operand.is_float(), dtype) {
                (true, Scalar::F64) => Ok(operand.clone()),
                (true, Scalar::Bool) => Ok(of_bits(&|index| u64::from(get(0, index).high != 0.0))),
                (true, _) => Ok(of_bits(&|index| convert(Scalar::F64, get(0, index).trunc().high.to_bits(), dtype))),
                (false, Scalar::F64) => Ok(floats(&|index| of_integer(from, operand.high.bits[places[0][index]]))),
                (false, _) => Ok(of_bits(&|index| convert(from, operand.high.bits[places[0][index]], dtype))),
            }
        }
        _ => {
            let ty = TensorType { dtype, shape: Shape::of(extents) };
            let high: Vec<&DenseTensor> = operands.iter().map(|operand| &operand.high).collect();
            let high = evaluate_op(op, &high, &[], &ty)?;
            let low = if dtype == Scalar::F64 { vec![0.0; high.bits.len()] } else { Vec::new() };
            Ok(WideTensor { high, low })
        }
    }
}

/// Converts an integer without rounding.
fn of_integer(from: Scalar, bits: u64) -> DoubleDouble {
    let high = f64::from_bits(convert(from, bits, Scalar::F64));
    let value =
        if from.is_signed_int() { i128::from(convert(from, bits, Scalar::I64) as i64) } else { i128::from(bits) };
    DoubleDouble { high, low: (value - high as i128) as f64 }
}

fn binary(op: TensorOp) -> Option<fn(DoubleDouble, DoubleDouble) -> DoubleDouble> {
    Some(match op {
        TensorOp::Add => |a, b| a + b,
        TensorOp::Subtract => |a, b| a - b,
        TensorOp::Multiply => |a, b| a * b,
        TensorOp::Divide => |a, b| a / b,
        TensorOp::Maximum => |a, b| extremum(a, b, Ordering::Greater),
        TensorOp::Minimum => |a, b| extremum(a, b, Ordering::Less),
        TensorOp::Atan2 => DoubleDouble::atan2,
        TensorOp::Hypot => hypot,
        TensorOp::Power => power,
        TensorOp::Copysign => |a, b| if a.high.is_sign_negative() == b.high.is_sign_negative() { a } else { -a },
        _ => return None,
    })
}

fn extremum(a: DoubleDouble, b: DoubleDouble, wanted: Ordering) -> DoubleDouble {
    match a.compare(b) {
        None => {
            if a.is_nan() {
                a
            } else {
                b
            }
        }
        Some(order) => {
            if order == wanted {
                a
            } else {
                b
            }
        }
    }
}

fn hypot(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble {
    let largest = a.high.abs().max(b.high.abs());
    if !largest.is_finite() || largest == 0.0 || a.is_nan() || b.is_nan() {
        return a.high.hypot(b.high).into();
    }
    // Division by the larger keeps squares in range.
    let (x, y) = (a / largest.into(), b / largest.into());
    (x * x + y * y).sqrt() * largest.into()
}

/// Raises to a power: positive numbers by logarithms, and others, whose powers have cases, as `float64` does, unless the power is a small
/// integer.
fn power(base: DoubleDouble, exponent: DoubleDouble) -> DoubleDouble {
    let nearest = base.high.powf(exponent.high);
    let is_ordinary = nearest.is_finite() && nearest != 0.0 && base.high.is_finite() && exponent.high.is_finite();
    if is_ordinary && exponent.low == 0.0 && exponent.high.fract() == 0.0 && exponent.high.abs() <= 64.0 {
        let product = (0..exponent.high.abs() as u32).fold(DoubleDouble::from(1.0), |product, _| product * base);
        let result = if exponent.high < 0.0 { DoubleDouble::from(1.0) / product } else { product };
        return if result.high.is_finite() && result.high != 0.0 { result } else { nearest.into() };
    }
    if is_ordinary && base.high > 0.0 { (base.ln() * exponent).exp() } else { nearest.into() }
}

fn comparison(op: TensorOp) -> Option<fn(Option<Ordering>) -> bool> {
    Some(match op {
        TensorOp::Equal => |order| order == Some(Ordering::Equal),
        TensorOp::NotEqual => |order| order != Some(Ordering::Equal),
        TensorOp::Less => |order| order == Some(Ordering::Less),
        TensorOp::LessEqual => |order| order.is_some_and(Ordering::is_le),
        TensorOp::Greater => |order| order == Some(Ordering::Greater),
        TensorOp::GreaterEqual => |order| order.is_some_and(Ordering::is_ge),
        _ => return None,
    })
}
