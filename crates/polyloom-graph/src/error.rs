//! The errors of graphs. Each names the op and the argument, and both shapes where two do not fit.

use crate::graph::TensorId;
use crate::shape::Shape;
use polyloom_ir::Scalar;
use thiserror::Error;

/// The reason why a graph cannot be built, read, verified or evaluated.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum GraphError {
    /// No op of the table has this name.
    #[error("there is no op `{name}`{}", nearest.map_or(String::new(), |near| format!("; `{near}` is one")))]
    UnknownOp {
        /// The name.
        name: String,
        /// An op of a similar name.
        nearest: Option<&'static str>,
    },
    /// The op takes another number of tensors.
    #[error("`{op}` takes {expected}, not {found}")]
    TensorCount {
        /// The op's name.
        op: &'static str,
        /// The tensors that it takes, in words.
        expected: String,
        /// The number that was given.
        found: usize,
    },
    /// An attribute is missing, unknown or has a value that does not fit.
    #[error("`{op}`: `{attribute}` {reason}")]
    Attribute {
        /// The op's name.
        op: &'static str,
        /// The attribute's name.
        attribute: String,
        /// The rest of the sentence that says what is wrong.
        reason: String,
    },
    /// The shape of one tensor does not fit.
    #[error("`{op}`: `{argument}` has shape {shape}, {reason}")]
    Shape {
        /// The op's name.
        op: &'static str,
        /// The argument's name.
        argument: String,
        /// Its shape.
        shape: Shape,
        /// The rest of the sentence that says what is wrong.
        reason: String,
    },
    /// The shapes of two tensors do not fit each other.
    #[error("`{op}`: `{}` has shape {} and `{}` has shape {}, {reason}", pair[0].0, pair[0].1, pair[1].0, pair[1].1)]
    Shapes {
        /// The op's name.
        op: &'static str,
        /// The two arguments' names and shapes. They are boxed so that results stay small.
        pair: Box<[(String, Shape); 2]>,
        /// The rest of the sentence that says what is wrong.
        reason: String,
    },
    /// The op does not take this element type.
    #[error("`{op}`: `{argument}` is {}, {reason}", dtype.python_name())]
    Dtype {
        /// The op's name.
        op: &'static str,
        /// The argument's name.
        argument: String,
        /// Its element type.
        dtype: Scalar,
        /// The rest of the sentence that says what is wrong.
        reason: String,
    },
    /// A Python integer has no value of the type that it is promoted to.
    #[error("`{op}`: {value} is out of range for {}", dtype.python_name())]
    ScalarRange {
        /// The op's name.
        op: &'static str,
        /// The number.
        value: i64,
        /// The type.
        dtype: Scalar,
    },
    /// A value is no value of this graph, or comes after its use.
    #[error("{0} is not defined before its use")]
    UnknownValue(TensorId),
    /// An invariant of graphs does not hold.
    #[error("{value}: {reason}")]
    Invalid {
        /// The value whose definition breaks it.
        value: TensorId,
        /// A sentence that says what is wrong.
        reason: String,
    },
    /// The text of a graph cannot be read.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// A sentence that says what is wrong.
        reason: String,
    },
    /// The graph cannot be evaluated on these inputs.
    #[error("{0}")]
    Evaluation(String),
}
