//! The options of plans for a device.

use crate::device::cuda_device;
use crate::has_llvm;
use polyloom_graph::plan::PlanOptions;
use polyloom_ir::{Arch, FloatMode};
use polyloom_runtime::{DeviceId, Processor, num_threads};

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
    PlanOptions { float_mode, n_workers, vector_bytes, gpu, ..PlanOptions::default() }
}
