//! Tensor graphs on a device: the kernels of a plan compiled, bound to memory, and run.
//!
//! ```text
//! Graph ── polyloom_graph::plan ──► FusionPlan ── Session::fused_plan ──► FusedPlan ── bind ──► BoundFusion ──► run
//!                                                      │
//!                                          FusedKernelCache: kernels by their bodies
//! ```
//!
//! A [`FusedPlan`] is shared and does not change. A [`BoundFusion`] is one caller's: it keeps launches bound, so that the
//! next run replaces addresses alone. The caller gives the memory of inputs and results; temporaries are of the
//! [pool](crate::buffer_pool), or of the device that the launches run on.

mod bound_fusion;
mod evaluate;
mod kernel_cache;
mod options;

pub use bound_fusion::{BoundFusion, RunNumber};
pub use evaluate::evaluate_at;
pub(crate) use kernel_cache::{FusedKernelCache, KernelChoices};
pub use options::plan_options;

use crate::kernel::Kernel;
use crate::session::Session;
use polyloom_frontend::CompileError;
use polyloom_graph::plan::{BufferKind, FusionPlan, KernelGrid, PlanArg, PlanBuffer, PlanOptions, PlanOutput};
use polyloom_graph::{Graph, GraphError, Layout};
use polyloom_ir::BuildError;
use polyloom_runtime::{ArgError, DeviceFailure, LaunchError, Tier};
use std::sync::Arc;

/// The reason why a graph cannot be compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum FusionError {
    /// The graph is wrong, or has no plan.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A kernel of the plan cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
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
    /// A device has no memory for a temporary, or fails.
    #[error(transparent)]
    Device(#[from] DeviceFailure),
}

/// A compiled plan.
#[derive(Debug)]
pub struct FusedPlan {
    buffers: Vec<PlanBuffer>,
    kernels: Vec<FusedKernel>,
    outputs: Vec<PlanOutput>,
    /// The tier of the code on the CPU; unless given, the device's policy chooses.
    tier: Option<Tier>,
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
        inputs: &[Layout],
        options: &PlanOptions,
    ) -> Result<FusedPlan, FusionError> {
        let FusionPlan { buffers, kernels, outputs } = polyloom_graph::plan::plan(graph, inputs, options)?;
        let kernels = kernels.into_iter().map(|kernel| {
            // Kernels in blocks have the blocks of their plan.
            let block_size = options.block_size.filter(|_| matches!(kernel.grid, KernelGrid::Threads(_)));
            let choices = KernelChoices { unroll: options.unroll, block_size };
            let compiled = self.fused_kernels().kernel(self, &kernel.body, choices)?;
            Ok(FusedKernel { kernel: compiled, grid: kernel.grid, args: kernel.args })
        });
        let kernels = kernels.collect::<Result<_, FusionError>>()?;
        Ok(FusedPlan { buffers, kernels, outputs, tier: None })
    }
}

impl FusedPlan {
    /// The plan with code of one tier on the CPU.
    pub fn with_tier(self, tier: Option<Tier>) -> FusedPlan {
        FusedPlan { tier, ..self }
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

    /// The launches in their order: the kernel, its threads and its arguments.
    pub(crate) fn launches(&self) -> impl Iterator<Item = (&Arc<Kernel>, &KernelGrid, &[PlanArg])> {
        self.kernels.iter().map(|launch| (&launch.kernel, &launch.grid, &launch.args[..]))
    }

    /// The buffers that the caller gives for results.
    pub fn output_buffers(&self) -> impl Iterator<Item = &PlanBuffer> {
        self.buffers.iter().filter(|buffer| buffer.kind == BufferKind::Output)
    }

    /// Returns the place of a buffer among those for results.
    pub fn output_number(&self, buffer: usize) -> usize {
        self.buffers[..buffer].iter().filter(|buffer| buffer.kind == BufferKind::Output).count()
    }
}
