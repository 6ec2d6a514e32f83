//! Graphs as text.

use crate::builder::convert;
use crate::graph::{Graph, TensorDef};
use polyloom_ir::Scalar;
use std::fmt;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, value) in self.iter() {
            write!(f, "{id} = ")?;
            match &value.def {
                TensorDef::Input(name) => write!(f, "input \"{name}\"")?,
                TensorDef::Number(index) => write!(f, "number {index}")?,
                TensorDef::Constant(bits) => write!(f, "constant {}", number_text(value.ty.dtype, *bits))?,
                TensorDef::Op { op, operands, attributes } => {
                    let operands = operands.iter().map(ToString::to_string);
                    let names = op.info().signature.attributes.iter().map(|attribute| attribute.name);
                    let attributes = names.zip(&attributes.0).map(|(name, value)| format!("{name}={value}"));
                    let arguments: Vec<String> = operands.chain(attributes).collect();
                    write!(f, "{} {}", op.name(), arguments.join(", "))?;
                }
            }
            writeln!(f, " : {}", value.ty)?;
        }
        let outputs: Vec<String> = self.outputs.iter().map(ToString::to_string).collect();
        writeln!(f, "return {}", outputs.join(", "))
    }
}

/// Returns the digits of a number, which read back as the same bits.
pub(crate) fn number_text(dtype: Scalar, bits: u64) -> String {
    match dtype {
        Scalar::Bool => (bits != 0).to_string(),
        _ if dtype.is_unsigned_int() => bits.to_string(),
        _ if dtype.is_signed_int() => (convert(dtype, bits, Scalar::I64) as i64).to_string(),
        // All floats are values of `f64`, whose shortest digits therefore read back as the same bits.
        _ => format!("{:?}", f64::from_bits(convert(dtype, bits, Scalar::F64))),
    }
}
