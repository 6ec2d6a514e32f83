//! A kernel's code for devices, kept for the launches to come.

use crate::gpu::{GpuError, GpuForm, GpuTarget};
use crate::kernel::Kernel;
use polyloom_codegen::{ArgFacts, CodeVariant, CodegenError};
use polyloom_ir::{Arch, Function};
use polyloom_runtime::{KernelParams, PerProcess};
use std::sync::{Arc, Mutex, PoisonError};

/// Describes what was compiled for a kind of device, by rank of the launch and what tells devices of the kind apart. A
/// forked child compiles anew, because another thread of its parent may have been at it, and devices do not survive a
/// fork either.
pub(crate) struct DeviceCode<D, C> {
    known: PerProcess<Known<D, C>>,
}

type Known<D, C> = Mutex<Vec<((u8, D), Slot<C>)>>;

/// Code, or none yet. Who waits for it keeps nobody from other code of the kernel.
type Slot<C> = Arc<Mutex<Option<Arc<C>>>>;

impl<D, C> Default for DeviceCode<D, C> {
    fn default() -> DeviceCode<D, C> {
        DeviceCode { known: PerProcess::new() }
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

impl<D: PartialEq, C> DeviceCode<D, C> {
    /// The code of `kernel` for launches of this rank on `device`, whose architecture is `arch`; `load` brings it there
    /// when it is first asked for.
    pub(crate) fn get(
        &self,
        kernel: &Kernel,
        rank: u8,
        device: D,
        arch: Arch,
        load: impl FnOnce(DeviceSource<'_>) -> Result<C, CodegenError>,
    ) -> Result<Arc<C>, GpuError> {
        let slot = self.slot((rank, device));
        let mut made = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = &*made {
            return Ok(code.clone());
        }
        let variant = CodeVariant { launch_rank: rank, facts: ArgFacts::default() };
        let [ptx] = kernel.emit_gpu_variant(&variant, &GpuTarget::new(arch), [GpuForm::Ptx])?;
        let (module, id) = kernel.for_gpus()?;
        let (function, params, entry) = (&module.functions[id], kernel.params().clone(), kernel.gpu_entry());
        let code = Arc::new(load(DeviceSource { function, params, ptx, entry })?);
        *made = Some(code.clone());
        Ok(code)
    }

    fn slot(&self, key: (u8, D)) -> Slot<C> {
        let mut known = self.known.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = known.iter().find(|(each, _)| *each == key) {
            return slot.clone();
        }
        let slot = Slot::default();
        known.push((key, slot.clone()));
        slot
    }
}
