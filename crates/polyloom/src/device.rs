//! Devices: what there is, their queues, and launches there.

use crate::cuda;
use crate::device_code::DeviceCodeKey;
use crate::emit_options::{EmitError, GpuTarget};
use crate::kernel::Kernel;
use crate::session::Session;
use polyloom_codegen::{ArgFacts, CodeVariant, CodegenError, Form};
use polyloom_ir::{Arch, MAX_DIMS};
use polyloom_runtime::{
    ArgBlock, CpuDevice, CpuQueue, Device, DeviceFailure, DeviceId, DeviceKernel, DeviceProgram, DeviceProperties,
    KernelProperties, LaunchError, LaunchOptions, LaunchStats, Queue, SimDevice, sim,
};
use std::sync::{Arc, OnceLock};

/// The device of this name. Of the simulator it is the one with GPUs of [`Arch::DEFAULT`].
///
/// # Errors
///
/// When this machine has no such device, or this build cannot use it.
pub fn device(id: DeviceId) -> Result<Arc<dyn Device>, DeviceFailure> {
    match id {
        DeviceId::Cpu => cpu(),
        DeviceId::Simulator => Ok(Arc::new(SimDevice::new(Arch::DEFAULT))),
        DeviceId::Cuda(number) => cuda::open(number),
    }
}

/// The CPU with all the back ends of the build. There is one, because it has threads and a cache of code; if it cannot be
/// set up, the next call tries again, since the environment may have changed.
fn cpu() -> Result<Arc<dyn Device>, DeviceFailure> {
    static CPU: OnceLock<Arc<CpuDevice>> = OnceLock::new();
    if let Some(device) = CPU.get() {
        return Ok(device.clone());
    }
    match Session::default_device() {
        Ok(device) => Ok(CPU.get_or_init(|| Arc::new(device)).clone()),
        Err(error) => Err(DeviceFailure::Absent { device: DeviceId::Cpu, reason: error.to_string() }),
    }
}

/// The queue of everything on a device that names none: of a GPU, whichever the calling thread has made its current one.
///
/// # Errors
///
/// When this machine has no such device.
pub fn queue(id: DeviceId) -> Result<Arc<dyn Queue>, DeviceFailure> {
    match id {
        DeviceId::Cpu => Ok(Arc::new(CpuQueue)),
        DeviceId::Simulator => Ok(sim::queue()),
        DeviceId::Cuda(number) => Ok(cuda::open(number)?.queue()),
    }
}

/// The CUDA devices of this machine. Asking loads NVIDIA's driver.
///
/// # Errors
///
/// When this build or this machine has no driver, or it fails.
pub fn cuda_devices() -> Result<Vec<DeviceProperties>, DeviceFailure> {
    cuda::devices()
}

/// Returns true if this build has GPU code and NVIDIA's driver sees a device. It never fails.
pub fn gpu_available() -> bool {
    cuda_devices().is_ok_and(|devices| !devices.is_empty())
}

/// The CUDA devices that this process has used.
pub fn open_cuda_devices() -> Vec<DeviceId> {
    cuda::open_devices().into_iter().map(DeviceId::Cuda).collect()
}

/// Returns true if kernels of a CUDA device may use memory of another one, where both are told to.
///
/// # Errors
///
/// When one of the devices is not there.
pub fn can_access_peer(target: u32, peer: u32) -> Result<bool, DeviceFailure> {
    cuda::can_access_peer(target, peer)
}

/// Says whether kernels of a CUDA device reach the memory of another one.
///
/// # Errors
///
/// When the device cannot, or one is not there.
pub fn set_peer_access(target: u32, peer: u32, is_wanted: bool) -> Result<(), DeviceFailure> {
    cuda::set_peer_access(target, peer, is_wanted)
}

/// Describes the CUDA device of this number, without setting it up.
///
/// # Errors
///
/// When there is none.
pub fn cuda_device(number: u32) -> Result<DeviceProperties, DeviceFailure> {
    cuda::properties(number)
}

/// Waits until a device has done all that was asked of its queues; without one, all that are in use. A launch on the CPU
/// or the simulator returns when it is done.
///
/// # Errors
///
/// When there is no such device, and those of the kernels that ran.
pub fn synchronize(device: Option<DeviceId>) -> Result<(), DeviceFailure> {
    match device {
        Some(DeviceId::Cpu | DeviceId::Simulator) => Ok(()),
        Some(DeviceId::Cuda(number)) => cuda::synchronize(Some(number)),
        None => cuda::synchronize(None),
    }
}

impl Kernel {
    /// Puts a launch of the kernel over a grid of threads into a queue: [`DeviceKernel::launch`]. Through the CPU's it is
    /// [`Kernel::launch`]; on the simulator it is PTX for the architecture that the options name.
    ///
    /// # Errors
    ///
    /// [`LaunchError`], with what the simulator finds; of kernels on a GPU that were not waited for, those of running
    /// it may come later.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`], but that indices may be out of bounds on the simulator: that is an error there. Arrays on
    /// a device are live until the kernel has run.
    pub unsafe fn launch_on(
        &self,
        queue: &dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        let device = queue.device();
        if device == DeviceId::Cpu {
            // SAFETY: passed on to the caller.
            return unsafe { self.launch(shape, args, options) };
        }
        // With bounds checks off, the simulator runs the access: no memory of the host can be reached.
        if device != DeviceId::Simulator || options.sim.sanitize.bounds {
            self.verify_accesses(shape, args, options)?;
        }
        let rank = shape.len().clamp(1, MAX_DIMS) as u8;
        let kernel = self.on_device(device, rank, options.sim.arch.unwrap_or(Arch::DEFAULT));
        let kernel = kernel.map_err(|error| self.not_compiled(error))?;
        // SAFETY: passed on to the caller.
        unsafe { kernel.launch(queue, shape, args, options) }
    }

    /// Returns what a GPU's driver says of the kernel's code for launches of a rank, and of launches in blocks of so many
    /// threads with so much dynamic shared memory; nothing on other devices.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] as of a launch.
    pub fn device_properties(
        &self,
        device: DeviceId,
        rank: u8,
        n_threads: u32,
        shared_bytes: u32,
    ) -> Result<Option<KernelProperties>, LaunchError> {
        if !matches!(device, DeviceId::Cuda(_)) {
            return Ok(None);
        }
        let kernel = self.on_device(device, rank, Arch::DEFAULT).map_err(|error| self.not_compiled(error))?;
        let failed = |failure| LaunchError::Device { kernel: self.name().into(), failure };
        kernel.properties(n_threads, shared_bytes).map_err(failed)
    }

    /// Compiles the kernel for a device that is not the CPU, for launches of a rank. `simulated` is the architecture of a simulated one.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] as of a launch.
    pub(crate) fn compile_for(&self, device: DeviceId, rank: u8, simulated: Arch) -> Result<(), LaunchError> {
        self.on_device(device, rank, simulated).map(drop).map_err(|error| self.not_compiled(error))
    }

    /// The kernel's code on a device, for launches of a rank; loaded when it is first asked for.
    fn on_device(&self, device: DeviceId, rank: u8, simulated: Arch) -> Result<Arc<Box<dyn DeviceKernel>>, EmitError> {
        let arch = (device == DeviceId::Simulator).then_some(simulated);
        self.device_kernels().get_or_make(&DeviceCodeKey { rank, device, arch }, || {
            let (device, arch): (Arc<dyn Device>, Arch) = match device {
                DeviceId::Cuda(number) => {
                    let device = cuda::open(number)?;
                    let arch = device.properties().architecture.parse().map_err(|error| {
                        CodegenError::new(format!("internal error: a device of an architecture that is none: {error}"))
                    })?;
                    (device, arch)
                }
                DeviceId::Cpu | DeviceId::Simulator => (Arc::new(SimDevice::new(simulated)), simulated),
            };
            let variant = CodeVariant::new(rank, ArgFacts::default());
            let made = self.emit_for_gpu(&variant, &GpuTarget::new(arch), &[Form::Ptx])?.pop();
            let made = made.ok_or_else(|| CodegenError::new("internal error: nothing gives PTX"))?;
            let text = String::from_utf8(made).map_err(|_| CodegenError::new("internal error: PTX that is no text"))?;
            let (module, id) = self.for_gpus()?;
            let (function, params) = (&module.functions[id], self.params().clone());
            let entry = self.gpu_entry();
            Ok(device.load(DeviceProgram::Ptx { function, params, text: &text, entry: &entry, arch })?)
        })
    }

    /// Why a launch on a device has no code to run.
    pub(crate) fn not_compiled(&self, error: EmitError) -> LaunchError {
        let kernel = self.name().into();
        match error {
            EmitError::Codegen(error) => LaunchError::Compile { kernel, error },
            EmitError::Device(DeviceFailure::Code { reason, .. }) => {
                LaunchError::Compile { kernel, error: CodegenError::new(reason) }
            }
            EmitError::Device(failure) => LaunchError::Device { kernel, failure },
            EmitError::Rejected(error) => {
                LaunchError::Rejected { kernel, text: error.to_string(), diagnostics: error.diagnostics }
            }
        }
    }
}
