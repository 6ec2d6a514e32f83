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

pub use bound_fusion::{BoundFusion, RunNumber};
pub use evaluate::evaluate_at;
pub(crate) use kernel_cache::FusedKernelCache;

use crate::device::cuda_device;
use crate::has_llvm;
use crate::kernel::Kernel;
use crate::session::Session;
use polyloom_frontend::CompileError;
use polyloom_graph::plan::{BufferKind, FusionPlan, KernelGrid, PlanArg, PlanBuffer, PlanOptions, PlanOutput};
use polyloom_graph::{Graph, GraphError, Layout};
use polyloom_ir::{Arch, BuildError, FloatMode};
use polyloom_runtime::{ArgError, DeviceFailure, DeviceId, LaunchError, Processor, num_threads};
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
}

/// A launch of a plan, without memory.
#[derive(Debug)]
struct FusedKernel {
    kernel: Arc<Kernel>,
    grid: KernelGrid,
    args: Vec<PlanArg>,
}

/// Returns the options of plans for a device. The simulator, of GPUs of `simulated`, has the threads of the machine, as the
/// CPU, and a GPU four rows of results for each of 128 multiprocessors.
pub fn plan_options(device: DeviceId, simulated: Arch, float_mode: FloatMode) -> PlanOptions {
    let n_workers = match device {
        DeviceId::Cpu | DeviceId::Simulator => num_threads() as u32,
        DeviceId::Cuda(_) => 512,
    };
    let gpu = match device {
        DeviceId::Cpu => None,
        DeviceId::Simulator => Some(simulated),
        // A device that does not open fails at the launch.
        DeviceId::Cuda(number) => cuda_device(number).ok().and_then(|device| device.architecture.parse().ok()),
    };
    // Vectors of Cranelift have 16 bytes.
    let vector_bytes = if has_llvm() { Processor::host().vector_bytes } else { 16 };
    PlanOptions { float_mode, n_workers, vector_bytes, gpu, tile_shape: None }
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
            let compiled = self.fused_kernels().kernel(self, &kernel.body)?;
            Ok(FusedKernel { kernel: compiled, grid: kernel.grid, args: kernel.args })
        });
        let kernels = kernels.collect::<Result<_, FusionError>>()?;
        Ok(FusedPlan { buffers, kernels, outputs })
    }
}

impl FusedPlan {
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

    /// The buffers that the caller gives for results.
    pub fn output_buffers(&self) -> impl Iterator<Item = &PlanBuffer> {
        self.buffers.iter().filter(|buffer| buffer.kind == BufferKind::Output)
    }

    /// Returns the place of a buffer among those for results.
    pub fn output_number(&self, buffer: usize) -> usize {
        self.buffers[..buffer].iter().filter(|buffer| buffer.kind == BufferKind::Output).count()
    }
}
