//! Describes what a device is, and what it has room for.

use polyloom_ir::Arch;
use polyloom_ir::arch::WARP_SIZE;
use serde::Serialize;

/// Describes a device. What it does not have, or does not say, is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DeviceProperties {
    /// `cpu`, `sim:0`, `cuda:0` and so on.
    pub id: String,
    /// The name that its maker gives it.
    pub name: String,
    /// The architecture that code for it is made for, such as `sm_90`, or the processor's.
    pub architecture: String,
    /// Compute capability of a GPU, major and minor.
    pub capability: Option<(u16, u16)>,
    /// Multiprocessors of a GPU; of the CPU, the threads that it runs at once.
    pub n_multiprocessors: Option<u32>,
    /// Threads in a warp.
    pub warp_size: Option<u32>,
    /// Most threads in a block.
    pub threads_per_block: Option<u32>,
    /// Most threads that are resident on a multiprocessor.
    pub threads_per_multiprocessor: Option<u32>,
    /// Most blocks that are resident on a multiprocessor.
    pub blocks_per_multiprocessor: Option<u32>,
    /// Bytes of shared memory that a block may use without asking.
    pub shared_bytes_per_block: Option<u32>,
    /// Bytes of shared memory that a block may use when its launch asks for it.
    pub opt_in_shared_bytes_per_block: Option<u32>,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_bytes_per_multiprocessor: Option<u32>,
    /// 32-bit registers of a block.
    pub registers_per_block: Option<u32>,
    /// 32-bit registers of a multiprocessor.
    pub registers_per_multiprocessor: Option<u32>,
    /// Clock rate of the multiprocessors, in kHz.
    pub clock_khz: Option<u32>,
    /// Clock rate of the memory, in kHz.
    pub memory_clock_khz: Option<u32>,
    /// Bits that the memory takes at a time.
    pub memory_bus_bits: Option<u32>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes of the second-level cache.
    pub l2_bytes: Option<u64>,
}

impl DeviceProperties {
    /// Describes the GPUs of an architecture, as far as they are alike (CUDA C++ Programming Guide 13, "Compute
    /// Capabilities").
    pub fn of_arch(id: String, name: String, arch: Arch) -> DeviceProperties {
        let limits = arch.limits();
        DeviceProperties {
            id,
            name,
            architecture: arch.to_string(),
            capability: Some((arch.number() / 10, arch.number() % 10)),
            warp_size: Some(WARP_SIZE),
            threads_per_block: Some(limits.threads_per_block),
            threads_per_multiprocessor: Some(limits.threads_per_multiprocessor),
            blocks_per_multiprocessor: Some(limits.blocks_per_multiprocessor),
            shared_bytes_per_block: Some(limits.static_shared_bytes),
            opt_in_shared_bytes_per_block: Some(limits.opt_in_shared_bytes),
            shared_bytes_per_multiprocessor: Some(limits.multiprocessor_shared_bytes),
            registers_per_block: Some(limits.registers),
            registers_per_multiprocessor: Some(limits.registers),
            ..DeviceProperties::default()
        }
    }
}
