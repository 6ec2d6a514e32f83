//! Element types: what operands are converted to, and the type of the result.

use crate::attribute::AttributeValue;
use crate::error::GraphError;
use crate::op::{DtypeClass, DtypeRule, TensorOpInfo};
use crate::promotion::{OperandDtype, float_of, promote_all, quotient_of, sum_of};
use polyloom_ir::Scalar;

/// Returns the types that operands are converted to, and that of the result.
pub(super) fn infer(
    info: &TensorOpInfo,
    operands: &[OperandDtype],
    attributes: &[AttributeValue],
) -> Result<(Vec<Scalar>, Scalar), GraphError> {
    let promoted = promote_all(operands).unwrap_or(Scalar::F32);
    let own = |index: usize| promote_all(&operands[index..=index]).unwrap_or(promoted);
    let all = |dtype: Scalar| vec![dtype; operands.len()];
    Ok(match info.dtype_rule {
        DtypeRule::Promoted(class) => {
            let dtype = class_dtype(info, class, promoted)?;
            (all(dtype), dtype)
        }
        DtypeRule::Float => (all(float_of(promoted)), float_of(promoted)),
        DtypeRule::Quotient => (all(quotient_of(promoted)), quotient_of(promoted)),
        DtypeRule::Compared(class) => (all(class_dtype(info, class, promoted)?), Scalar::Bool),
        DtypeRule::Classified => (all(float_of(promoted)), Scalar::Bool),
        DtypeRule::Logical => (all(Scalar::Bool), Scalar::Bool),
        DtypeRule::Selected => {
            let dtype = promote_all(&operands[1..]).unwrap_or(promoted);
            let converted = (0..operands.len()).map(|index| if index == 0 { Scalar::Bool } else { dtype });
            (converted.collect(), dtype)
        }
        DtypeRule::Summed => (all(sum_of(promoted)), sum_of(promoted)),
        DtypeRule::Scanned => {
            let adds = |value: &AttributeValue| matches!(value, AttributeValue::Text(word) if matches!(&**word, "add" | "multiply"));
            let dtype = if attributes.iter().any(adds) { sum_of(promoted) } else { promoted };
            (all(dtype), dtype)
        }
        DtypeRule::Indexed => (all(promoted), Scalar::I64),
        DtypeRule::Given => (all(promoted), given(info, attributes)?),
        DtypeRule::Reinterpreted => {
            let dtype = given(info, attributes)?;
            if promoted == Scalar::Bool {
                return Err(dtype_error(info, 0, promoted, "whose bits are no number"));
            }
            if dtype == Scalar::Bool || dtype.bits() != promoted.bits() {
                let (to, from) = (dtype.python_name(), promoted.python_name());
                let reason =
                    format!("is {to}, but must be a type of numbers with the {} bits of {from}", promoted.bits());
                return Err(GraphError::Attribute { op: info.name, attribute: "dtype".to_owned(), reason });
            }
            (all(promoted), dtype)
        }
        DtypeRule::Random => {
            let dtype = given(info, attributes)?;
            if !dtype.is_float() {
                let reason = format!("is {}, but random numbers are floats", dtype.python_name());
                return Err(GraphError::Attribute { op: info.name, attribute: "dtype".to_owned(), reason });
            }
            check_integer(info, 0, own(0), "but a seed is an integer")?;
            (all(Scalar::U32), dtype)
        }
        DtypeRule::Seeded => {
            let dtype = quotient_of(own(0));
            check_integer(info, 1, own(1), "but a seed is an integer")?;
            (vec![dtype, Scalar::U32], dtype)
        }
        DtypeRule::Indices => {
            check_integer(info, 1, own(1), "but indices are integers")?;
            if own(1) == Scalar::U64 {
                return Err(dtype_error(info, 1, own(1), "which int64 does not hold; NumPy refuses it, too"));
            }
            let others: Vec<OperandDtype> =
                operands.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, dtype)| *dtype).collect();
            let dtype = promote_all(&others).unwrap_or(promoted);
            let converted = (0..operands.len()).map(|index| if index == 1 { Scalar::I64 } else { dtype });
            (converted.collect(), dtype)
        }
        DtypeRule::Classes => {
            let dtype = quotient_of(own(0));
            check_integer(info, 1, own(1), "but classes are integers")?;
            (vec![dtype, Scalar::I64], dtype)
        }
    })
}

fn given(info: &TensorOpInfo, attributes: &[AttributeValue]) -> Result<Scalar, GraphError> {
    let value = info.signature.attribute_index("dtype").and_then(|index| attributes.get(index));
    match value {
        Some(AttributeValue::Dtype(dtype)) => Ok(*dtype),
        _ => Err(GraphError::Attribute {
            op: info.name,
            attribute: "dtype".to_owned(),
            reason: "is missing from the table entry".to_owned(),
        }),
    }
}

fn check_integer(info: &TensorOpInfo, operand: usize, dtype: Scalar, reason: &str) -> Result<(), GraphError> {
    if dtype.is_int() { Ok(()) } else { Err(dtype_error(info, operand, dtype, reason)) }
}

fn dtype_error(info: &TensorOpInfo, operand: usize, dtype: Scalar, reason: &str) -> GraphError {
    let argument = info.signature.tensor_name(operand);
    GraphError::Dtype { op: info.name, argument, dtype, reason: reason.to_owned() }
}

fn class_dtype(info: &TensorOpInfo, class: DtypeClass, dtype: Scalar) -> Result<Scalar, GraphError> {
    let is_bool = dtype == Scalar::Bool;
    match class {
        DtypeClass::Number if is_bool => Err(dtype_error(info, 0, dtype, "which the op does not take")),
        DtypeClass::Bits | DtypeClass::Integer if dtype.is_float() => {
            Err(dtype_error(info, 0, dtype, "but the op takes integers"))
        }
        DtypeClass::BoolAsInt8 | DtypeClass::Integer if is_bool => Ok(Scalar::I8),
        DtypeClass::SortKey if !matches!(dtype, Scalar::U32 | Scalar::U64) => {
            Err(dtype_error(info, 0, dtype, "but keys are uint32 or uint64"))
        }
        _ => Ok(dtype),
    }
}
