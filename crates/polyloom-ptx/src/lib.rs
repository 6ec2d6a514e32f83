//! PTX, NVIDIA's virtual instruction set, on machines with no GPU: a parser, a printer, and a simulator that runs
//! kernels and checks them.
//!
//! [`Module::parse`] reads PTX as LLVM, NVRTC and people write it. A [`Simulator`] is a device with memory of its
//! own: it loads modules, whose kernels run with [`Kernel::launch`]. No memory of the host can be
//! reached. [`Sanitizers`] say what is checked: bounds and alignment unless they are switched off, races, uninitialised
//! memory, divergent barriers and asynchronous copies nobody waited for when asked for. Arithmetic gives the bits PTX
//! prescribes; where PTX prescribes an error bound (`ex2.approx` and the like), the result is within it and may differ
//! from a GPU's in the last places.
//!
//! What is not simulated is listed in the guide, `docs/guide/simulator.md`, with the messages by which a kernel that has
//! it is refused when it is loaded.
//!
//! Architecture invariant: the crate knows PTX text and the fat binaries that hold it, and none of the compilers that write
//! it. Its `unsafe` is in `memory/region.rs`.
//!
//! Design: `docs/design/ptx-simulator.md`.

#![deny(unsafe_code)]

mod contents;
mod counters;
mod decode;
mod device_runtime;
mod error;
mod exec;
mod fat_binary;
mod memory;
mod module;
mod number;
mod occupancy;
mod report;
mod sanitize;
pub mod syntax;
mod tensor_map;
mod texture;

pub use contents::ModuleContents;
pub use counters::Counters;
pub use decode::op::{InstClass, LaunchLimits, ParameterInfo};
pub use error::{PtxError, TextPosition};
pub use fat_binary::{
    FAT_HEADER_BYTES, FatBinaryWriter, FatCode, FatCompression, FatPart, fat_binary_size, fat_parts, is_fat_binary,
};
pub use memory::{DeviceBacking, DeviceMemory, HostMemory, MemoryError};
pub use module::{
    Kernel, KernelInfo, KernelResources, LaunchProgress, LaunchRequest, LoadError, LoadedModule, Module, Sanitizers,
    Simulator, UnknownSanitizer,
};
pub use occupancy::{Limiter, MULTIPROCESSORS, Occupancy};
pub use report::{AccessedMemory, CodeSite, Fault, Finding, FindingKind, Report, ThreadPlace};
pub use tensor_map::{TENSOR_MAP_BYTES, TensorElement, TensorMap, TensorSwizzle};
pub use texture::{TexelChannel, TexelFormat, TexelImage, Texture, TextureAddressing, TextureError, TextureFilter};
