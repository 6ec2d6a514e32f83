//! Tensor graphs on a device: the kernels of a plan compiled, bound to memory, and run.
//!
//! ```text
//! Graph ── polyloom_graph::plan ──► FusionPlan ── Session::fused_plan ──► FusedPlan ── bind ──► BoundFusion ──► run
//!                                                      │
//!                                          FusedKernelCache: kernels by their bodies
//! ```
//!
//! A [`FusedPlan`] is shared and does not change. A [`BoundFusion`] is one caller's: it keeps launches bound, so that the
//! next run replaces addresses alone. The caller gives the memory of inputs and outputs; temporaries are of the
//! [pool](crate::buffer_pool).

mod bound_fusion;
mod evaluated;
mod kernel_cache;

pub use bound_fusion::{BoundFusion, RunNumber};
pub(crate) use kernel_cache::FusedKernelCache;

use crate::kernel::Kernel;
use crate::session::Session;
use evaluated::EvaluatedGraph;
use polyloom_frontend::CompileError;
use polyloom_graph::plan::{
    BufferKind, FusionPlan, InputLayout, KernelGrid, PlanArg, PlanBuffer, PlanOptions, PlanOutput,
};
use polyloom_graph::{Graph, GraphError};
use polyloom_runtime::{ArgError, LaunchError};
use std::sync::Arc;

/// True if graphs that the planner refuses are run by the evaluator that defines them.
const EVALUATES_UNPLANNED: bool = true;

/// The reason why a graph cannot be compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum FusionError {
    /// The graph is wrong, or has no plan.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A kernel of the plan is not valid.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An argument does not fit a kernel.
    #[error(transparent)]
    Argument(#[from] ArgError),
    /// A launch failed.
    #[error("{error}")]
    Launch {
        /// The kernel.
        kernel: Arc<Kernel>,
        /// Its failure.
        error: LaunchError,
    },
    /// A Python integer has no value of the type that it is promoted to.
    #[error("{value} is out of range for {}", dtype.python_name())]
    NumberRange {
        /// The number.
        value: i64,
        /// The type.
        dtype: polyloom_ir::Scalar,
    },
    /// There is no memory for a temporary.
    #[error("there is no memory for a temporary of {n_bytes} bytes")]
    Memory {
        /// Its size.
        n_bytes: u64,
    },
}

/// A compiled plan.
#[derive(Debug)]
pub struct FusedPlan {
    buffers: Vec<PlanBuffer>,
    kernels: Vec<FusedKernel>,
    outputs: Vec<PlanOutput>,
    evaluated: Option<EvaluatedGraph>,
}

/// A launch of a plan, without memory.
#[derive(Debug)]
struct FusedKernel {
    kernel: Arc<Kernel>,
    grid: KernelGrid,
    args: Vec<PlanArg>,
}

impl Session {
    /// Plans a graph of known extents and compiles its kernels as far as HIR. Kernels that another plan has too are
    /// shared.
    ///
    /// # Errors
    ///
    /// [`FusionError::Graph`] and [`FusionError::Compile`].
    pub fn fused_plan(
        &self,
        graph: &Graph,
        inputs: &[InputLayout],
        options: &PlanOptions,
    ) -> Result<FusedPlan, FusionError> {
        let plan = match polyloom_graph::plan::plan(graph, inputs, options) {
            Ok(plan) => plan,
            Err(_) if EVALUATES_UNPLANNED => return FusedPlan::evaluated(graph, inputs),
            Err(error) => return Err(error.into()),
        };
        let FusionPlan { buffers, kernels, outputs } = plan;
        let kernels = kernels.into_iter().map(|kernel| {
            let compiled = self.fused_kernels().kernel(self, &kernel.body)?;
            Ok(FusedKernel { kernel: compiled, grid: kernel.grid, args: kernel.args })
        });
        let kernels = kernels.collect::<Result<_, FusionError>>()?;
        Ok(FusedPlan { buffers, kernels, outputs, evaluated: None })
    }
}

impl FusedPlan {
    fn evaluated(graph: &Graph, inputs: &[InputLayout]) -> Result<FusedPlan, FusionError> {
        let evaluated = EvaluatedGraph::new(graph, inputs)?;
        let (buffers, outputs) = evaluated.memory()?;
        Ok(FusedPlan { buffers, kernels: Vec::new(), outputs, evaluated: Some(evaluated) })
    }

    /// The memory that a run needs.
    pub fn buffers(&self) -> &[PlanBuffer] {
        &self.buffers
    }

    /// The results, each a view of a buffer.
    pub fn outputs(&self) -> &[PlanOutput] {
        &self.outputs
    }

    /// The kernels in the order of their launches.
    pub fn kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        self.kernels.iter().map(|launch| &launch.kernel)
    }

    /// Returns true if the evaluator runs the graph, because there is no plan for it.
    pub fn is_evaluated(&self) -> bool {
        self.evaluated.is_some()
    }

    /// The bytes of the buffers that the caller gives for results, in their order.
    pub fn output_bytes(&self) -> Vec<u64> {
        let mut bytes: Vec<(usize, u64)> = Vec::new();
        for buffer in &self.buffers {
            if let BufferKind::Output(index) = buffer.kind {
                bytes.push((index, buffer.n_elements * u64::from(buffer.dtype.bytes())));
            }
        }
        bytes.sort_unstable();
        bytes.into_iter().map(|(_, bytes)| bytes).collect()
    }
}
