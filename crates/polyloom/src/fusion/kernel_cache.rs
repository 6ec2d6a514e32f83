//! The kernels of plans by their bodies: plans for other sizes share code, because sizes are arguments.

use super::FusionError;
use crate::kernel::Kernel;
use crate::session::Session;
use polyloom_graph::plan::KernelBody;
use polyloom_ir::{Module, SourceMap};
use polyloom_runtime::PerProcess;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most kernels that are kept. Plans keep theirs, also where this cache has dropped them.
const MAX_KERNELS: usize = 1024;

/// Describes what is chosen for a kernel beside its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct KernelChoices {
    /// The number of turns of an inner loop that become one.
    pub(crate) unroll: Option<u32>,
    /// The number of threads of a block on a GPU.
    pub(crate) block_size: Option<u32>,
}

/// Kernels with the time of their last use, counted in uses of the cache.
#[derive(Default)]
struct KernelEntries {
    kernels: FxHashMap<(Arc<KernelBody>, KernelChoices), (Arc<Kernel>, u64)>,
    clock: u64,
}

/// Compiled kernel bodies. A forked child compiles anew, because another thread may have held the parent's lock.
#[derive(Default)]
pub(crate) struct FusedKernelCache {
    entries: PerProcess<Mutex<KernelEntries>>,
}

impl FusedKernelCache {
    /// Returns the kernel of a body, compiled as far as HIR.
    pub(crate) fn kernel(
        &self,
        session: &Session,
        body: &Arc<KernelBody>,
        choices: KernelChoices,
    ) -> Result<Arc<Kernel>, FusionError> {
        let mut entries = self.entries.get().lock().unwrap_or_else(PoisonError::into_inner);
        entries.clock += 1;
        let now = entries.clock;
        let key = (body.clone(), choices);
        if let Some((kernel, used)) = entries.kernels.get_mut(&key) {
            *used = now;
            return Ok(kernel.clone());
        }
        let mut module = Module::new();
        let mut function = body.function()?;
        function.metadata.hints.extend(choices.unroll.map(|unroll| ("unroll".to_owned(), unroll.to_string())));
        function.metadata.workgroup_size =
            choices.block_size.map(|size| [size, 1, 1]).or(function.metadata.workgroup_size);
        let function = module.functions.push(function);
        let kernel = Arc::new(session.compile_module(module, function, SourceMap::default())?);
        if entries.kernels.len() >= MAX_KERNELS
            && let Some(oldest) = entries.kernels.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
        {
            entries.kernels.remove(&oldest);
        }
        entries.kernels.insert(key, (kernel.clone(), now));
        Ok(kernel)
    }
}
