//! How many blocks of a kernel a multiprocessor holds (CUDA C++ Programming Guide 13, "Compute Capabilities").

use crate::Launch;
use crate::decode::op::Program;

/// What a multiprocessor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Warps at once.
    pub warps: u32,
    /// Blocks at once.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Bytes of shared memory a block may have.
    pub shared_block: u32,
}

impl Limits {
    /// Of an architecture, given as 80 for `sm_80`; an unknown one counts as the nearest older.
    pub fn of(arch: u32) -> Limits {
        let (warps, blocks, shared) = match arch {
            ..75 => (64, 32, 96),
            75..80 => (32, 16, 64),
            80 => (64, 32, 164),
            81..87 => (48, 16, 100),
            87 | 88 => (48, 16, 164),
            89 => (48, 24, 100),
            90..100 => (64, 32, 228),
            100..120 => (64, 32, 228),
            _ => (48, 24, 100),
        };
        // One KiB of each block's is the system's.
        let shared_block = if arch < 80 { shared } else { shared - 1 } << 10;
        Limits { warps, blocks, registers: 65536, shared: shared << 10, shared_block }
    }
}

/// What limits how many blocks fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Limiter {
    Blocks,
    Warps,
    Registers,
    Shared,
}

/// How full a multiprocessor gets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Occupancy {
    /// Blocks at once.
    pub blocks: u32,
    /// Warps at once.
    pub warps: u32,
    /// Of the most it could hold.
    pub fraction: f64,
    /// What there is too little of for one more block.
    pub limiter: Limiter,
    /// 32-bit registers a thread, estimated: PTX has as many as it likes, so this is the most that hold values at once,
    /// and a few to work with, up to `.maxnreg` or 255.
    pub registers: u32,
    /// Bytes of shared memory a block.
    pub shared: u32,
}

/// What assemblers take besides the values that are needed later.
const WORKING_REGISTERS: u32 = 8;

pub(crate) fn occupancy(program: &Program, launch: &Launch<'_>) -> Occupancy {
    let kernel = &program.functions[program.kernel];
    let declared = kernel.size.words + 2 * kernel.size.doubles;
    let needed = kernel.pressure.map_or(declared, |pressure| pressure + WORKING_REGISTERS);
    let registers = needed.clamp(16, program.limits.max_registers.unwrap_or(255).clamp(16, 255));
    let shared = program.dynamic_shared + launch.dynamic_shared_bytes;
    compute(Limits::of(launch.arch), launch.arch, launch.block.iter().product(), registers, shared)
}

/// Registers are handed out to a warp by 256, shared memory by 128 bytes (1 KiB more a block from sm_80 on).
fn compute(limits: Limits, arch: u32, threads: u32, registers: u32, shared: u32) -> Occupancy {
    let warps = threads.div_ceil(32).max(1);
    let by_registers = limits.registers / ((registers * 32).next_multiple_of(256) * warps).max(1);
    let reserved = if arch >= 80 { 1024 } else { 0 };
    let taken = (shared + reserved).next_multiple_of(128);
    let by_shared = limits.shared.checked_div(taken).unwrap_or(u32::MAX);
    let choices = [
        (limits.blocks, Limiter::Blocks),
        (limits.warps / warps, Limiter::Warps),
        (by_registers, Limiter::Registers),
        (by_shared, Limiter::Shared),
    ];
    let (blocks, limiter) = choices.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, Limiter::Blocks));
    let resident = blocks * warps;
    let fraction = f64::from(resident) / f64::from(limits.warps);
    Occupancy { blocks, warps: resident, fraction, limiter, registers, shared }
}
