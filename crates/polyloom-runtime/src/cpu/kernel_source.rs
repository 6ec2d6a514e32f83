//! A kernel as the compiler hands it over: what the interpreter runs, what back ends compile, and its parameters.

use crate::args::KernelParams;
use crate::fork::without_fork;
use polyloom_ir::block_plan::BlockPlan;
use polyloom_ir::{FuncId, Module};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Verified HIR with checks inserted or stripped and nothing else done to it: what the interpreter runs. It is made when
/// it first does, because the interpreter never runs most kernels.
#[derive(Clone)]
pub struct InterpretableHir(Arc<LazyLock<(Arc<Module>, FuncId), MakeInterpretable>>);

impl fmt::Debug for InterpretableHir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpretable").finish_non_exhaustive()
    }
}

type MakeInterpretable = Box<dyn FnOnce() -> (Arc<Module>, FuncId) + Send>;

impl InterpretableHir {
    /// The module that this makes, and the kernel in it.
    pub fn new(make: impl FnOnce() -> (Arc<Module>, FuncId) + Send + 'static) -> InterpretableHir {
        InterpretableHir(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// The module, and the kernel in it.
    pub fn get(&self) -> (&Arc<Module>, FuncId) {
        let (module, kernel) = without_fork(|| LazyLock::force(&self.0));
        (module, *kernel)
    }
}

/// A kernel as the compiler hands it over.
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// Holds what the interpreter runs.
    pub interpretable: InterpretableHir,
    /// HIR that has been through the pipeline: what back ends compile. On a device that only interprets, which compiles
    /// nothing, it may be what the interpreter runs.
    pub prepared: Arc<Module>,
    /// The kernel in it.
    pub prepared_kernel: FuncId,
    /// Hash of everything in the HIR that code depends on.
    pub hash: [u8; 32],
    /// The parameters of the prepared kernel that arguments are given for.
    pub params: KernelParams,
    /// True if it is launched in blocks of threads: its HIR has an op that needs them.
    pub needs_blocks: bool,
    /// Last parameters of the prepared kernel, whose threads are blocks, if the kernel is launched in blocks. If there
    /// are none, the interpreter runs it.
    pub blocks: Option<BlockPlan>,
}
