//! The canonical text: what a hash is of, for people and for comparison.

use super::form::CanonicalGraph;
use super::merkle::OP_SET_VERSION;
use super::options::{ConstantPrecision, IdentityStrength};
use super::term::{TermHead, TermId, TermStore};
use rustc_hash::FxHashMap;
use std::fmt::Write;

impl CanonicalGraph {
    /// Returns the canonical text: a line for each value that outputs depend on, in the order of a walk from the outputs.
    /// Constants are bits in hexadecimal digits. Equal forms have equal texts.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let options = self.strength_and_constants();
        let strength = match options.strength {
            IdentityStrength::Bits => "bits",
            IdentityStrength::Mathematics => "mathematics",
        };
        let constants = match options.constants {
            ConstantPrecision::Exact => "exact",
            ConstantPrecision::Bucketed => "bucketed",
        };
        writeln!(text, "// {strength}, constants {constants}, op set {OP_SET_VERSION}")?;
        let mut names: FxHashMap<TermId, usize> = FxHashMap::default();
        for id in self.order() {
            let name = names.len();
            names.insert(id, name);
            write!(text, "%{name} = ")?;
            match self.head(id) {
                TermHead::Input(place) => write!(text, "input {place}")?,
                TermHead::Constant(bits) => write!(text, "constant {bits:#x}")?,
                TermHead::Real(bits) => write!(text, "real {bits:#x}")?,
                TermHead::Number(place) => write!(text, "number {place}")?,
                TermHead::Op(op, attributes) => {
                    text.push_str(op.name());
                    let mut separator = " ";
                    for operand in self.operands(id) {
                        write!(text, "{separator}%{}", names[operand])?;
                        separator = ", ";
                    }
                    for (parameter, value) in op.info().signature.attributes.iter().zip(&attributes.0) {
                        match value {
                            crate::attribute::AttributeValue::Float(number) => {
                                write!(text, "{separator}{}={:#x}", parameter.name, number.to_bits())?;
                            }
                            value => write!(text, "{separator}{}={value}", parameter.name)?,
                        }
                        separator = ", ";
                    }
                }
            }
            writeln!(text, " : {}", self.ty(id))?;
        }
        let outputs: Vec<String> = self.outputs().iter().map(|output| format!("%{}", names[output])).collect();
        writeln!(text, "return {}", outputs.join(", "))
    }
}
