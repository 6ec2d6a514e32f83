//! The ops of tensor graphs as functions of Python: their parameters and documentation, which the module `polyloom.ops`
//! and its stub have of the one table.

mod documentation;
mod parameters;

pub use documentation::{documentation_with_signature, dtype_rule_text, op_documentation, shape_rule_text, summary_of};
pub use parameters::{
    MatchedArgument, OpParameter, OpParameterRole, match_arguments, parameters_of, signature_text, stub_signature,
};
