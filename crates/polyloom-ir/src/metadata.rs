//! What rides on a function beside its code: how it wants to be compiled and run.
//!
//! The front end fills these from decorator arguments; they are data on the typed AST and on HIR, printed in HIR
//! text when they differ from the default, and read by back ends and the runtime.

use crate::arch::Arch;
use crate::launch_config::LaunchConfig;

/// Describes how floating-point arithmetic may be compiled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FloatMode {
    /// IEEE arithmetic, the same bits on every back end.
    #[default]
    Strict,
    /// A product feeding a sum may become a fused multiply-add.
    Contract,
    /// Reassociation and the hardware's approximations are allowed.
    Fast,
}

impl FloatMode {
    /// Every mode.
    pub const ALL: [FloatMode; 3] = [FloatMode::Strict, FloatMode::Contract, FloatMode::Fast];

    /// `strict`, `contract` or `fast`.
    pub fn name(self) -> &'static str {
        match self {
            FloatMode::Strict => "strict",
            FloatMode::Contract => "contract",
            FloatMode::Fast => "fast",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<FloatMode> {
        FloatMode::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// Describes what a compilation aims at.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CompileTarget {
    /// The CPU this process runs on.
    Cpu,
    /// An NVIDIA GPU, by architecture (`sm_80`) or by device (`cuda:0`).
    Cuda(String),
    /// The PTX simulator.
    Sim(String),
    /// The CPU and the GPUs together: each launch runs where it is done first, `auto`.
    Heterogeneous,
}

impl std::fmt::Display for CompileTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompileTarget::Cpu => f.write_str("cpu"),
            CompileTarget::Heterogeneous => f.write_str("auto"),
            CompileTarget::Cuda(name) | CompileTarget::Sim(name) => f.write_str(name),
        }
    }
}

impl CompileTarget {
    /// Reads `cpu`, `cuda`, `cuda:N`, `sm_NN`, `sim`, `sim:0` or `auto`.
    pub fn from_name(name: &str) -> Option<CompileTarget> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match name {
            "cpu" => Some(CompileTarget::Cpu),
            "auto" => Some(CompileTarget::Heterogeneous),
            "sim" | "sim:0" => Some(CompileTarget::Sim(name.to_owned())),
            "cuda" => Some(CompileTarget::Cuda(name.to_owned())),
            _ if name.strip_prefix("cuda:").is_some_and(is_number) => Some(CompileTarget::Cuda(name.to_owned())),
            _ if name.parse::<Arch>().is_ok() => Some(CompileTarget::Cuda(name.to_owned())),
            _ => None,
        }
    }
}

/// Describes what a kernel computes, as its author states it: `kind="stencil"`. The same list serves kernels and tensor
/// operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KernelKind {
    /// Nothing is promised.
    #[default]
    Custom,
    /// Each thread writes elements of its own and no other.
    Elementwise,
    /// Many values are combined into one.
    Reduce,
    /// Matrix products.
    Matmul,
    /// Convolutions of images.
    Conv2d,
    /// Softmax of products, times values.
    Attention,
    /// The same with a running maximum, without the matrix of weights.
    FlashAttention,
    /// Running sums and their like.
    Scan,
    /// Putting elements in order.
    Sort,
    /// Threads read a neighbourhood of their own element.
    Stencil,
}

impl KernelKind {
    /// Every kind.
    pub const ALL: [KernelKind; 10] = [
        KernelKind::Elementwise,
        KernelKind::Reduce,
        KernelKind::Matmul,
        KernelKind::Conv2d,
        KernelKind::Attention,
        KernelKind::FlashAttention,
        KernelKind::Scan,
        KernelKind::Sort,
        KernelKind::Stencil,
        KernelKind::Custom,
    ];

    /// Its name in decorators and in HIR text.
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::Custom => "custom",
            KernelKind::Elementwise => "elementwise",
            KernelKind::Reduce => "reduce",
            KernelKind::Matmul => "matmul",
            KernelKind::Conv2d => "conv2d",
            KernelKind::Attention => "attention",
            KernelKind::FlashAttention => "flash_attention",
            KernelKind::Scan => "scan",
            KernelKind::Sort => "sort",
            KernelKind::Stencil => "stencil",
        }
    }

    /// The kind with this name. `general`, `map` and `reduction` are earlier names of `custom`, `elementwise` and
    /// `reduce`.
    pub fn from_name(name: &str) -> Option<KernelKind> {
        match name {
            "general" => Some(KernelKind::Custom),
            "map" => Some(KernelKind::Elementwise),
            "reduction" => Some(KernelKind::Reduce),
            _ => KernelKind::ALL.into_iter().find(|kind| kind.name() == name),
        }
    }
}

/// Says how hard a compiler of the CPU tries, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptLevel {
    /// Code as it is written: threads one by one, no vectors, the shortest time to compile.
    O0,
    /// The passes that cost little.
    O1,
    /// The usual.
    O2,
    /// All passes, also those that make code much longer.
    O3,
    /// The shortest code: threads one by one, loops as they are written.
    Os,
    /// The shortest time of one call: all passes, every function inlined, loops hot and aligned.
    Olatency,
}

impl OptLevel {
    /// Every level.
    pub const ALL: [OptLevel; 6] =
        [OptLevel::O0, OptLevel::O1, OptLevel::O2, OptLevel::O3, OptLevel::Os, OptLevel::Olatency];

    /// `O0`, `O1`, `O2`, `O3`, `Os` or `Olatency`.
    pub fn name(self) -> &'static str {
        match self {
            OptLevel::O0 => "O0",
            OptLevel::O1 => "O1",
            OptLevel::O2 => "O2",
            OptLevel::O3 => "O3",
            OptLevel::Os => "Os",
            OptLevel::Olatency => "Olatency",
        }
    }

    /// The level with this name, with or without the letter before the number.
    pub fn from_name(name: &str) -> Option<OptLevel> {
        let is_named = |level: &OptLevel| match level {
            OptLevel::Os | OptLevel::Olatency => level.name() == name,
            _ => level.name() == name || &level.name()[1..] == name,
        };
        OptLevel::ALL.into_iter().find(is_named)
    }
}

/// Describes how a kernel wants to be compiled.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct KernelMetadata {
    /// The shape of its work.
    pub kind: KernelKind,
    /// The device it was written for, if it names one.
    pub target: Option<CompileTarget>,
    /// Threads in a block, per axis.
    pub workgroup_size: Option<[u32; 3]>,
    /// Dynamic shared memory it needs, in bytes.
    pub shared_bytes: Option<u32>,
    /// Most threads in a block and, if given, fewest resident blocks.
    pub launch_bounds: Option<(u32, Option<u32>)>,
    /// Most registers a thread may use.
    pub max_registers: Option<u32>,
    /// Arithmetic mode.
    pub float_mode: FloatMode,
    /// True if bounds, division and assertions are checked.
    pub check: bool,
    /// True if it carries derivatives from what a kernel of its name wrote to what that read.
    pub backward: bool,
    /// True if a thread does the work of a whole block of the user's threads, in loops.
    pub by_block: bool,
    /// True if it reads the number of elements of an array of several axes, which is an `int32`.
    pub reads_size: bool,
    /// True if no index counts from the end of an axis: none is negative.
    pub indices_from_start: bool,
    /// True if the elements of each array follow each other in memory, which whoever launches the kernel answers for.
    pub dense_arrays: bool,
    /// Free-form hints, in the order given.
    pub hints: Vec<(String, String)>,
}

impl KernelMetadata {
    /// The hints that something reads: how many threads run at a time, how many iterations of innermost loops stand in a
    /// row, whether stencils load ahead, and the optimisation level, all on the CPU.
    pub const HINTS: [(&str, &str); 4] = [
        ("vector_width", "a power of two up to 64"),
        ("unroll", "a number from 1 to 64"),
        ("prefetch", "True or False"),
        ("opt_level", "a number from 0 to 3, `Os` or `Olatency`"),
    ];

    /// Returns the optimisation level that the kernel asks for, if it does.
    pub fn opt_level(&self) -> Option<OptLevel> {
        let (_, text) = self.hints.iter().rev().find(|(hint, _)| hint == "opt_level")?;
        OptLevel::from_name(text)
    }

    /// Returns the value of a hint that something reads, `False` as 0, `True` as 1 and an optimisation level as its
    /// place among [`OptLevel::ALL`]; `None` if it is not given.
    ///
    /// # Errors
    ///
    /// The values that the hint has, in words, if it is given another.
    pub fn hint(&self, name: &str) -> Result<Option<u32>, &'static str> {
        let Some((_, text)) = self.hints.iter().rev().find(|(hint, _)| hint == name) else { return Ok(None) };
        let Some((_, values)) = Self::HINTS.iter().find(|(hint, _)| *hint == name) else { return Ok(None) };
        if name == "opt_level" {
            let level = OptLevel::from_name(text).ok_or(*values)?;
            return Ok(OptLevel::ALL.iter().position(|&known| known == level).map(|at| at as u32));
        }
        let number = match &**text {
            "true" => Some(1).filter(|_| name == "prefetch"),
            "false" => Some(0).filter(|_| name == "prefetch"),
            text => text.parse().ok().filter(|_| name != "prefetch"),
        };
        let has = |number: &u32| match name {
            "vector_width" => number.is_power_of_two() && *number <= 64,
            "unroll" => (1..=64).contains(number),
            _ => true,
        };
        number.filter(has).map(Some).ok_or(values)
    }

    /// The extents of a block where a launch does not say them.
    pub fn block(&self) -> [u32; 3] {
        let most = self.launch_bounds.map_or(DEFAULT_BLOCK_SIZE, |(threads, _)| threads);
        self.workgroup_size.unwrap_or([DEFAULT_BLOCK_SIZE.min(most), 1, 1])
    }

    /// Threads in a block of a kernel that says how many it has along each axis; at most `u64::MAX`.
    pub fn workgroup_threads(&self) -> u64 {
        self.workgroup_size.unwrap_or([1; 3]).iter().fold(1, |n: u64, &extent| n.saturating_mul(extent.into()))
    }

    /// The blocks of a launch of so many threads that says nothing of blocks.
    pub fn grid(&self, n_threads: u64) -> LaunchConfig {
        LaunchConfig::of_threads(n_threads, self.block(), self.shared_bytes.unwrap_or(0))
    }
}

/// Threads of a block where nothing says how many.
const DEFAULT_BLOCK_SIZE: u32 = 256;

/// Describes what must hold while a function runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ExecutionConstraints {
    /// No heap allocation.
    pub no_allocation: bool,
    /// No system calls.
    pub no_syscalls: bool,
    /// Always inlined into its callers.
    pub inline_always: bool,
    /// Not inlined into its callers on GPUs where it can be a function of its own: one of scalars without effects.
    pub inline_never: bool,
    /// Never compiled with checks, whatever the session says.
    pub unchecked: bool,
    /// On the program's latency-critical path.
    pub critical_path: bool,
    /// The cores it may run on; empty means any.
    pub cpu_affinity: Vec<u32>,
    /// Target for one call, in nanoseconds.
    pub target_latency_ns: Option<u64>,
}
