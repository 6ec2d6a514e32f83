//! Everything between compiled objects and a launch.
//!
//! A [`CpuDevice`] holds the back ends, the code cache and the tier policy; a [`CpuKernel`] is a kernel on that device,
//! compiled on demand into variants that are specialised on what holds of the arguments; [`launch`] runs it over a grid
//! of threads. What every device shares (arguments, errors, printing, the cache) is at the root of the crate; what
//! belongs to one device is in its module.
//!
//! Architecture invariant: nothing here knows a front end, a pass or a particular back end. Modules come in verified
//! and prepared, back ends come in as `Arc<dyn Backend>`.

pub mod args;
mod background;
mod buffer_pool;
pub mod cache;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod error;
mod fork;
pub mod latency;
mod launch_grid;
mod launch_options;
pub mod print;
pub mod processor;
pub mod sim;

pub use args::{ArgArray, ArgBlock, ArgError, ArrayElement, Footprint, KernelParams};
pub use background::close as close_background;
pub use buffer_pool::{BufferPool, BufferPoolReport, PoolBuffer, buffer_pool};
pub use cache::{CacheError, CodeCache};
pub use cpu::blocks::facts as block_facts;
pub use cpu::candidates::CandidateInfo;
pub use cpu::checksum::checksum;
pub use cpu::clear::clear_memory;
pub use cpu::device::{CpuDevice, DeviceError, LaunchObserver, Tier, TierPolicy};
pub use cpu::kernel::{CpuKernel, MeasuredCandidates, VariantInfo};
pub use cpu::kernel_source::{InterpretableHir, KernelSource};
pub use cpu::launch::{VariantChoice, interpret_thread, launch, launch_if_short};
pub use cpu::pool::{MAX_THREADS, num_threads, set_num_threads};
pub use cpu::queue::CpuQueue;
pub use device::buffer::DeviceBuffer;
pub use device::layout::{ArrayLayout, RowLayout};
pub use device::staging::{HostArray, StagedArrays, StagedPlacement};
pub use device::waits::{take_waits, tell_waits};
pub use device::{
    Branch, BranchKind, Device, DeviceFailure, DeviceGraph, DeviceId, DeviceImage, DeviceKernel, DeviceMemoryLimits,
    DeviceMemoryReport, DeviceProgram, DeviceProperties, Event, FillWord, HostFunction, ImageKernel, KernelAttributes,
    KernelProperties, MemoryAdvice, Queue, QueueOptions, SharedMemory, StandingQueue,
};
pub use error::{LaunchError, OutsideAccess, Trap};
pub use fork::{PerProcess, without_fork};
pub use launch_options::{LaunchOptions, LaunchStats, SimOptions};
pub use print::{PrintSink, set_print_sink, without_prints};
pub use processor::{Processor, ProcessorCache};
pub use sim::{SimDevice, SimKernel, SimModule, run as run_on_simulator};
