//! Polyloom for Rust programs: from source text to launches, in one place.
//!
//! A [`Session`] holds the device and the defaults; it compiles a function of a [`SourceUnit`] into a [`Kernel`], which
//! is launched on an [`ArgBlock`] and shows its HIR, LLVM IR and assembly. The command line and the Python package are
//! two faces of this crate.
//!
//! ```
//! use polyloom::{ArgBlock, LaunchOptions, Session, SourceFile, SourceUnit};
//!
//! let text = "
//! import polyloom as loom
//!
//! @loom.kernel
//! def double(x: loom.array(dtype=float)):
//!     i = loom.tid()
//!     x[i] = 2.0 * x[i]
//! ";
//! let session = Session::new()?;
//! let unit = SourceUnit::parse(SourceFile::new("double.py", text, 1))?;
//! let kernel = session.compile_file_kernel(&unit, "double")?;
//!
//! let mut x = [1.0f32, 2.0, 3.0];
//! let mut args = ArgBlock::new();
//! args.slice(kernel.params(), &mut x, &[3])?;
//! // SAFETY: `x` outlives the launch and has as many elements as the launch has threads.
//! unsafe { kernel.launch(&[3], &args, &LaunchOptions::default())? };
//! assert_eq!(x, [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accesses;
pub mod artifact;
mod backward;
mod backward_launch;
mod bound_launch;
mod call;
mod check;
#[cfg_attr(not(feature = "_compute"), path = "cuda_absent.rs")]
mod cuda;
mod device;
mod device_code;
mod emit;
mod emit_options;
mod environment;
pub mod executor;
pub mod fusion;
mod gpu;
mod gpu_metadata;
mod kernel;
mod kernel_code;
mod kernel_program;
mod launch;
mod launch_group;
mod loom_file;
mod loom_product;
mod memo;
mod native_function;
mod native_pointer;
mod plan;
#[cfg(feature = "planner")]
pub mod planner;
mod ptx_argument;
pub mod scalar_bits;
mod session;
mod sim;
pub mod tasks;
pub mod tensor_op;
mod text;
mod value_function;

pub use accesses::{AccessCheck, KernelAccess, OutsideReport};
pub use backward::{
    BackwardKernel, BackwardLaunch, BackwardPart, BackwardStage, OverwritingLaunches, TangentKernel, TapeLimits,
    TapePlan,
};
pub use backward_launch::{
    BackwardArguments, BackwardError, BackwardOptions, BackwardRun, BackwardStats, RepeatableBackward, RunLaunch,
};
pub use bound_launch::BoundLaunch;
pub use call::{Bits, CallError, is_function_of_values};
pub use check::check_file;
pub use device::{
    can_access_peer, cuda_device, cuda_devices, device, gpu_available, open_cuda_devices, queue, set_peer_access,
    synchronize,
};
pub use emit_options::{EmitError, EmitOptions, GpuTarget};
pub use environment::{Environment, environment};
pub use gpu::{NvrtcCompiler, PtxasProgram, find_assembler, has_compute, set_package_folders};
pub use gpu_metadata::GpuMetadata;
pub use kernel::Kernel;
pub use launch::TrapReport;
pub use loom_file::read_loom;
pub use loom_product::LoomProduct;
pub use native_function::{NativeCallError, NativeFunction};
pub use native_pointer::{NativeParameter, NativePointer, NativeResult, NativeType};
pub use plan::{BoundCopy, HostError, Plan, PlanError, PlanErrorCause, PlanStep};
pub use polyloom_codegen::cpp::{CppOptions as TextOptions, TextTarget};
pub use polyloom_codegen::{
    Backend, CodeVariant, CodegenError, EmitRequest, Emitter, Form, GridShape, NATIVE_ABI, NativeArgument, NativeArray,
    NativeParam, NativeReturn, NativeSignature,
};
pub use polyloom_frontend as frontend;
pub use polyloom_frontend::{CompileError, FrontendOptions as Defaults, SourceUnit, ValueType};
pub use polyloom_graph as graph;
pub use polyloom_ir::arch::{MAX_BLOCK_SIZE, WARP_SIZE};
pub use polyloom_ir::generate::Random;
pub use polyloom_ir::interp::{GlobalSums, ObservedOp};
pub use polyloom_ir::{
    Arch, BuildError, Builder, Code, Composite, CompositeKind, Diagnostic, Expr, ExprBuilder, FileId, FloatMode,
    FuncId, Function, FunctionKind, Imm, Inst, InstData, LaunchConfig, MAX_COMPONENTS, MAX_DIMS, Module, Op,
    PtxVersion, Region, Scalar, Severity, SourceFile, SourceMap, Span, Type, UnknownArch, Value, diagnostic, op,
    parse_module, verify_module,
};
pub use polyloom_passes::PipelineOptions as PassOptions;
pub use polyloom_passes::autodiff::{
    AdjointAccess, BackwardNeeds, DerivativeLaunch, DerivativeRequest, LONG_LAUNCH, LaunchArgument, TapeExtent,
};
pub use polyloom_ptx as ptx;
pub use polyloom_runtime::latency;
pub use polyloom_runtime::sim::queue as sim_queue;
pub use polyloom_runtime::{
    ArgArray, ArgBlock, ArgError, ArrayLayout, Branch, BranchKind, BufferPool, BufferPoolReport, CodeCache, CpuDevice,
    CpuQueue, Device, DeviceBuffer, DeviceError, DeviceFailure, DeviceGraph, DeviceId, DeviceImage, DeviceKernel,
    DeviceMemoryLimits, DeviceMemoryReport, DeviceProgram, DeviceProperties, Event, FillWord, Footprint, HostArray,
    HostFunction, ImageKernel, KernelAttributes, KernelParams, KernelProperties, LaunchError, LaunchObserver,
    LaunchOptions, LaunchStats, MAX_THREADS, MemoryAdvice, OutsideAccess, PoolBuffer, PrintSink, Processor,
    ProcessorCache, Queue, QueueOptions, RowLayout, SharedMemory, SimDevice, SimKernel, SimModule, SimOptions,
    StagedArrays, StagedPlacement, StandingQueue, Tier, TierPolicy, Trap, VariantChoice, buffer_pool, checksum,
    clear_memory, close_background, num_threads, run_on_simulator, set_num_threads, set_print_sink, take_waits,
    tell_waits, without_prints,
};
pub use ptx_argument::{
    MAX_STRUCT_LEVELS, PtxArgument, PtxArray, PtxParameter, launch_bytes, source_name, takes_launch,
};
pub use session::{Session, SessionError, has_llvm};
pub use sim::{describe_fault, describe_report};
pub use text::write_text;
