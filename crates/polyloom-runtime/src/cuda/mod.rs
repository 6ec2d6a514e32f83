//! NVIDIA GPUs: the compiler and the assembler of their code, and the driver that runs it.
//!
//! Nothing of NVIDIA's is linked: programs and libraries are looked for when they are needed, and that one is missing
//! is an error like any other. `cudarc` declares the driver's functions and would panic where there is no driver;
//! [`driver`] asks first, and nothing here calls the driver before it has.

mod assembler;
mod branch;
mod captures;
mod device;
mod driver;
mod function;
mod graph;
mod host_memory;
mod image;
mod interface;
mod kernel;
mod memory;
mod memory_pool;
mod nvjitlink;
mod nvrtc;
mod queue;
mod stdout;
mod stream;
mod stream_target;

pub use assembler::{AssembleError, PtxAssembler, PtxasProgram, cubin, set_package_folders};
pub use device::{CudaDevice, can_access_peer, devices, open_devices, properties, set_peer_access, synchronize};
pub use kernel::CudaKernel;
pub use nvrtc::{NvrtcError, NvrtcLibrary};
pub use queue::CudaQueue;

/// Skips a test without a tool of NVIDIA's, or fails it where the tools have to be.
#[cfg(test)]
fn without_tool(reason: &str) {
    let required = std::env::var("POLYLOOM_REQUIRE_PTXAS").is_ok_and(|value| value == "1");
    assert!(!required, "POLYLOOM_REQUIRE_PTXAS is 1, and {reason}");
    eprintln!("skipped: {reason}");
}
