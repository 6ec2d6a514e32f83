//! A kernel's code for devices, kept for the launches to come.

use crate::gpu::{GpuError, GpuForm, GpuTarget};
use crate::kernel::Kernel;
use crate::memo::Memo;
use polyloom_codegen::{ArgFacts, CodeVariant, CodegenError};
use polyloom_ir::{Arch, Function};
use polyloom_runtime::KernelParams;
use std::sync::Arc;

/// Code that was compiled for a kind of device, by rank of the launch and what tells devices of the kind apart.
pub(crate) struct DeviceCode<D, C> {
    memo: Memo<(u8, D), C>,
}

impl<D, C> Default for DeviceCode<D, C> {
    fn default() -> DeviceCode<D, C> {
        DeviceCode { memo: Memo::default() }
    }
}

/// Describes what a device loads a kernel from.
pub(crate) struct DeviceSource<'a> {
    /// Its HIR as the back end got it.
    pub(crate) function: &'a Function,
    /// Its parameters.
    pub(crate) params: KernelParams,
    /// The PTX.
    pub(crate) ptx: String,
    /// The name of the entry in it.
    pub(crate) entry: String,
}

impl<D: Clone + PartialEq, C> DeviceCode<D, C> {
    /// Returns the code of `kernel` for launches of this rank on `device`, whose architecture is `arch`; `load` brings it
    /// there when it is first asked for.
    pub(crate) fn get(
        &self,
        kernel: &Kernel,
        rank: u8,
        device: D,
        arch: Arch,
        load: impl FnOnce(DeviceSource<'_>) -> Result<C, CodegenError>,
    ) -> Result<Arc<C>, GpuError> {
        self.memo.get_or_make(&(rank, device), || {
            let variant = CodeVariant { launch_rank: rank, facts: ArgFacts::default() };
            let [ptx] = kernel.emit_gpu_variant(&variant, &GpuTarget::new(arch), [GpuForm::Ptx])?;
            let (module, id) = kernel.for_gpus()?;
            let (function, params, entry) = (&module.functions[id], kernel.params().clone(), kernel.gpu_entry());
            Ok(load(DeviceSource { function, params, ptx, entry })?)
        })
    }
}
