//! From verified HIR to machine code: what all back ends share, and the Cranelift back end.
//!
//! A back end implements [`Backend`]. The calling convention of compiled kernels is [`abi`]; both the code generators
//! and the runtime take it from there. Architecture invariant: nothing here launches (but for the `conformance`
//! suite) or knows where a module came from.

pub mod abi;
pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cpp;
pub mod cranelift;
pub mod form;
pub mod native;
mod private;
pub mod sequence;
mod vector_width;

pub use abi::{
    ArgLayout, CallbackSite, GpuLaunch, GpuReport, GridShape, KernelEntry, LaunchContext, SiteTable, entry_name,
    function_name, gpu_parameter_bytes,
};
pub use backend::{ArgFacts, ArrayFacts, Backend, CodeObject, CodeVariant, CodegenError, LoadedCode};
pub use cranelift::CraneliftBackend;
pub use form::{EmitRequest, Emitter, Form};
pub use native::{
    LoadedNative, NATIVE_ABI, NativeArgument, NativeArray, NativeBlockEntry, NativeBlockParam, NativeBlocks, NativeCpu,
    NativeLibrary, NativeParam, NativeRequest, NativeReturn, NativeSignature, WORKSPACE_ALIGN, cpu_symbol,
    is_reserved_symbol,
};
pub use private::with_private_updates;
pub use sequence::NativeSequence;
pub use vector_width::vector_bytes;

/// The constants from which on they are a table in memory when an index chooses one.
pub const LEAST_TABLE: usize = 8;
