//! The reasons why a recipe is refused.

use crate::backend::{Backend, Residence};
use crate::error::GraphError;
use crate::graph::TensorId;
use thiserror::Error;

/// The reason why a recipe cannot be read, does not fit its graph, or cannot run here.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecipeError {
    /// The text is no JSON of a recipe.
    #[error("this is no recipe: {0}")]
    Syntax(String),
    /// The recipe is of another version.
    #[error("the recipe is of version {found}; this program reads version {}", super::Recipe::VERSION)]
    Version {
        /// Its version.
        found: u32,
    },
    /// The program is no well-formed graph.
    #[error("the recipe's program: {0}")]
    Program(#[from] GraphError),
    /// The recipe is of another graph.
    #[error("the recipe is of the graph {found}, not of {expected}")]
    OtherGraph {
        /// The hash of the graph, in hexadecimal digits.
        expected: String,
        /// The hash that the recipe has.
        found: String,
    },
    /// The program takes or gives other tensors than the graph.
    #[error("the recipe's program does not fit the graph: {0}")]
    OtherInterface(String),
    /// The recipe has residences for another number of inputs.
    #[error("the recipe has residences for {found} inputs, and its program has {expected}")]
    InputCount {
        /// The inputs of the program.
        expected: usize,
        /// The residences.
        found: usize,
    },
    /// A group names something that no kernel computes.
    #[error("step {step} computes {node}, which is no op of the program")]
    NoOp {
        /// The step.
        step: usize,
        /// The node.
        node: TensorId,
    },
    /// A group has no nodes.
    #[error("step {step} computes nothing")]
    Empty {
        /// The step.
        step: usize,
    },
    /// The nodes of a group are not in ascending order.
    #[error("the nodes of step {step} are not in ascending order")]
    Unordered {
        /// The step.
        step: usize,
    },
    /// Two groups compute a node.
    #[error("steps {first} and {second} both compute {node}")]
    ComputedTwice {
        /// The node.
        node: TensorId,
        /// The earlier step.
        first: usize,
        /// The later step.
        second: usize,
    },
    /// No group computes a node that outputs depend on.
    #[error("no step computes {node}, on which outputs depend")]
    NotComputed {
        /// The node.
        node: TensorId,
    },
    /// A kernel of its own computes one node, and the group has more.
    #[error("step {step} runs one kernel for {n_nodes} nodes, but a monolithic kernel computes one")]
    NotMonolithic {
        /// The step.
        step: usize,
        /// Their number.
        n_nodes: usize,
    },
    /// The backend calls a function for each node.
    #[error("step {step} fuses nodes on {backend}, which plans no kernels")]
    NotPlanned {
        /// The step.
        step: usize,
        /// The backend.
        backend: Backend,
    },
    /// A parameter has a value that no kernel can have.
    #[error("step {step}: `{parameter}` {reason}")]
    Parameter {
        /// The step.
        step: usize,
        /// The parameter.
        parameter: &'static str,
        /// The rest of the sentence that says what is wrong.
        reason: String,
    },
    /// Groups wait for each other.
    #[error("steps {first} and {second} wait for each other's results")]
    Cycle {
        /// One of them.
        first: usize,
        /// Another of them.
        second: usize,
    },
    /// A group reads what a later one computes.
    #[error("step {step} reads {operand}, which step {computed_by} computes")]
    OutOfOrder {
        /// The step.
        step: usize,
        /// The value.
        operand: TensorId,
        /// The later step.
        computed_by: usize,
    },
    /// A value is not where it is read: the transfer is missing.
    #[error("step {step} reads {operand} at {residence}, where it is not: a `copy_to` is missing")]
    MissingCopy {
        /// The step.
        step: usize,
        /// The value.
        operand: TensorId,
        /// The residence of the backend.
        residence: Residence,
    },
    /// A copy is made of something that is not there.
    #[error("step {step} copies {value} from {residence}, where it is not")]
    CopyOfNothing {
        /// The step.
        step: usize,
        /// The value.
        value: TensorId,
        /// The residence.
        residence: Residence,
    },
    /// A copy is made of something to where it is already.
    #[error("step {step} copies {value} to {residence}, where it is already")]
    RedundantCopy {
        /// The step.
        step: usize,
        /// The value.
        value: TensorId,
        /// The residence.
        residence: Residence,
    },
    /// An output does not come to where it has to be.
    #[error("the output {output} is not brought to {residence}")]
    OutputElsewhere {
        /// The output.
        output: TensorId,
        /// The residence.
        residence: Residence,
    },
    /// The machine lacks backends that the recipe needs.
    #[error("this machine lacks {}", names(.0))]
    AbsentBackends(Vec<Backend>),
    /// The machine has the backend and not the kernel.
    #[error("{backend} has no kernel `{kernel}` that takes {node}")]
    AbsentKernel {
        /// The backend.
        backend: Backend,
        /// The kernel's name.
        kernel: String,
        /// The node.
        node: TensorId,
    },
}

fn names(backends: &[Backend]) -> String {
    backends.iter().map(|backend| backend.name()).collect::<Vec<_>>().join(", ")
}
