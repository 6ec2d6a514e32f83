//! The build and the machine: what `polyloom doctor` says, and what a measurement has to be kept with, since it holds for
//! no other machine or version.

use crate::gpu::{NvrtcCompiler, find_assembler};
use crate::session::Session;
use crate::{cuda_devices, has_compute};
use polyloom_runtime::{DeviceFailure, DeviceProperties, Processor, Tier, num_threads};
use serde::Serialize;
use std::path::PathBuf;

/// A build on a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Version of Polyloom.
    pub version: &'static str,
    /// The operating system, as Rust calls it.
    pub system: &'static str,
    /// The processor.
    pub processor: &'static Processor,
    /// Number of threads that a launch may use.
    pub n_threads: usize,
    /// The Cranelift back end and its version; absent if kernels cannot run here.
    pub cranelift: Option<String>,
    /// Why kernels cannot run here; absent if they can.
    pub problem: Option<String>,
    /// The LLVM back end, its version and the processor that it compiles for; absent from builds without the feature.
    pub llvm: Option<String>,
    /// The folder of the code cache; absent if code is kept in memory alone.
    pub code_cache: Option<PathBuf>,
    /// True if this build makes GPU code.
    pub has_compute: bool,
    /// NVIDIA's assembler of PTX; absent if the machine has none.
    pub assembler: Option<PathBuf>,
    /// Version of NVIDIA's compiler of CUDA C++; absent if the machine has none.
    pub nvrtc: Option<String>,
    /// The CUDA devices.
    pub gpus: Vec<DeviceProperties>,
    /// Why there are no CUDA devices; absent if there are some.
    pub no_gpu: Option<String>,
}

/// Looks at this build and this machine. That loads NVIDIA's driver, if there is one.
pub fn environment() -> Environment {
    let session = Session::new().map_err(|error| error.to_string());
    let device = session.as_ref().ok().map(Session::device);
    let describe = |tier| device?.backend(tier).map(|backend| backend.description());
    let (gpus, no_gpu) = match cuda_devices() {
        Ok(gpus) if gpus.is_empty() => (gpus, Some("the driver sees none".to_owned())),
        Ok(gpus) => (gpus, None),
        Err(DeviceFailure::Absent { reason, .. }) => (Vec::new(), Some(reason)),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    Environment {
        version: env!("CARGO_PKG_VERSION"),
        system: std::env::consts::OS,
        processor: Processor::host(),
        n_threads: num_threads(),
        cranelift: describe(Tier::Quick),
        llvm: describe(Tier::Optimized),
        code_cache: device.and_then(|device| device.cache().directory()).map(Into::into),
        has_compute: has_compute(),
        assembler: find_assembler().ok(),
        nvrtc: NvrtcCompiler::find().and_then(|nvrtc| nvrtc.version()).ok(),
        gpus,
        no_gpu,
        problem: session.err(),
    }
}
