//! How many blocks of a kernel a multiprocessor holds (CUDA C++ Programming Guide 13, "Compute Capabilities").

use crate::LaunchRequest;
use crate::decode::op::DecodedProgram;
use polyloom_ir::{Arch, ArchLimits};

/// Returns what an architecture has, given as 80 for `sm_80`; an unknown one counts as the nearest older.
pub(crate) fn limits(arch: u32) -> ArchLimits {
    let known = Arch::all().filter(|each| u32::from(each.number()) <= arch).last();
    known.unwrap_or(Arch::OLDEST).limits()
}

/// Describes what limits how many blocks fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Limiter {
    Blocks,
    Warps,
    Registers,
    Shared,
}

/// Describes how full a multiprocessor gets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Occupancy {
    /// Blocks at once.
    pub blocks: u32,
    /// Warps at once.
    pub warps: u32,
    /// Number of warps that it could hold.
    pub fraction: f64,
    /// Holds what there is too little of for one more block.
    pub limiter: Limiter,
    /// 32-bit registers a thread, estimated: PTX has as many as it likes, so that this is the most that hold values at
    /// once, and a few to work with, up to `.maxnreg` or 255.
    pub registers: u32,
    /// Bytes of shared memory a block.
    pub shared: u32,
}

/// Holds what assemblers take besides the values that are needed later.
const WORKING_REGISTERS: u32 = 8;

/// Multiprocessors that a simulated device has.
pub const MULTIPROCESSORS: u32 = 16;

pub(crate) fn occupancy(program: &DecodedProgram, launch: &LaunchRequest<'_>) -> Occupancy {
    of_block(program, launch.arch, launch.block.iter().product(), launch.dynamic_shared_bytes)
}

/// Returns how many blocks of so many threads and bytes of dynamic shared memory fit.
pub(crate) fn of_block(program: &DecodedProgram, arch: u32, threads: u32, dynamic_shared_bytes: u32) -> Occupancy {
    let shared = program.static_shared_bytes.saturating_add(dynamic_shared_bytes);
    compute(limits(arch), threads, registers(program), shared)
}

/// 32-bit registers a thread, estimated.
pub(crate) fn registers(program: &DecodedProgram) -> u32 {
    let kernel = &program.functions[program.kernel];
    let declared = kernel.size.words + 2 * kernel.size.doubles;
    let needed = kernel.pressure.map_or(declared, |pressure| pressure + WORKING_REGISTERS);
    needed.clamp(16, program.limits.max_registers.unwrap_or(255).clamp(16, 255))
}

/// Registers are handed out to a warp by 256, shared memory by 128 bytes, beside what each block's is the system's.
fn compute(limits: ArchLimits, threads: u32, registers: u32, shared: u32) -> Occupancy {
    let warps = threads.div_ceil(32).max(1);
    let most_warps = limits.threads_per_multiprocessor / 32;
    let by_registers = limits.registers / ((registers * 32).next_multiple_of(256) * warps).max(1);
    let taken = shared.saturating_add(limits.reserved_shared_bytes).checked_next_multiple_of(128).unwrap_or(u32::MAX);
    let by_shared = limits.multiprocessor_shared_bytes.checked_div(taken).unwrap_or(u32::MAX);
    let choices = [
        (limits.blocks_per_multiprocessor, Limiter::Blocks),
        (most_warps / warps, Limiter::Warps),
        (by_registers, Limiter::Registers),
        (by_shared, Limiter::Shared),
    ];
    let (blocks, limiter) = choices.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, Limiter::Blocks));
    let resident = blocks * warps;
    let fraction = f64::from(resident) / f64::from(most_warps);
    Occupancy { blocks, warps: resident, fraction, limiter, registers, shared }
}
