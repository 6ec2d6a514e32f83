//! What a launch tells: findings of its checks, counters, and faults.

use crate::counters::Counters;
use crate::error::TextPosition;
use std::fmt;

/// Kinds of findings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FindingKind {
    /// An access to no memory of the launch, or to constant memory for writing.
    OutOfBounds,
    /// An address that is no multiple of what is accessed.
    Misaligned,
    /// A read of bytes that nobody wrote.
    Uninitialised,
    /// Two accesses, one a write, that nothing orders.
    Race,
    /// A barrier that not all threads reach together.
    DivergentBarrier,
    /// Lanes of a warp that the member mask of an instruction does not name execute it, or are read by a shuffle.
    NotMember,
    /// A shuffle reads a lane that has exited, or one is missing at an instruction that all lanes of a warp execute.
    ExitedLane,
    /// An access of what `cp.async` may not have copied yet, or a write of what it may have yet to read.
    MissingAsyncWait,
    /// Threads that wait for each other forever.
    Deadlock,
    /// `trap`, or a failed assertion.
    Trap,
    /// A call through a pointer to no function.
    IllegalCall,
    /// A `free` of what `malloc` did not give, or for the second time.
    InvalidFree,
    /// A copy of a tile whose tensor map is none, or is of another tensor.
    InvalidTensorMap,
    /// An instruction for textures or surfaces whose handle is of none, or of one of another shape.
    InvalidTexture,
    /// An access of a surface outside of it by an instruction that says `.trap`.
    SurfaceBounds,
    /// Calls nested too deep.
    StackOverflow,
    /// A launch that the kernel or the device does not allow.
    InvalidLaunch,
    /// The caller ended the launch.
    Interrupted,
    /// More instructions than the launch may execute.
    InstructionLimit,
}

impl FindingKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::OutOfBounds => "out-of-bounds access",
            FindingKind::Misaligned => "misaligned access",
            FindingKind::Uninitialised => "read of uninitialised memory",
            FindingKind::Race => "data race",
            FindingKind::DivergentBarrier => "divergent barrier",
            FindingKind::NotMember => "lanes outside the member mask",
            FindingKind::ExitedLane => "exited lane",
            FindingKind::MissingAsyncWait => "missing wait for an asynchronous copy",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Trap => "trap",
            FindingKind::IllegalCall => "illegal call",
            FindingKind::InvalidFree => "invalid free",
            FindingKind::InvalidTensorMap => "invalid tensor map",
            FindingKind::InvalidTexture => "invalid texture",
            FindingKind::SurfaceBounds => "access outside of a surface",
            FindingKind::StackOverflow => "stack overflow",
            FindingKind::InvalidLaunch => "invalid launch",
            FindingKind::Interrupted => "interrupted",
            FindingKind::InstructionLimit => "instruction limit",
        }
    }
}

/// A thread of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadPlace {
    /// `%ctaid`
    pub block: [u32; 3],
    /// `%tid`
    pub thread: [u32; 3],
}

impl fmt::Display for ThreadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz})")
    }
}

/// A place in a kernel: the user's line if the PTX has it, and the PTX line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeSite {
    /// File, line and column from `.file` and `.loc`.
    pub source: Option<(String, u32, u32)>,
    /// Place of the instruction in the PTX text.
    pub position: TextPosition,
}

impl fmt::Display for CodeSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line, _)) => write!(f, "{file}:{line}"),
            None => write!(f, "PTX line {}", self.position.line),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Holds what kind.
    pub kind: FindingKind,
    /// The kernel.
    pub kernel: String,
    /// The place where in the kernel.
    pub site: Option<CodeSite>,
    /// The other access of a race.
    pub other: Option<CodeSite>,
    /// Who: the threads at `site`, then, of a race, the one at `other`; at most 32.
    pub threads: Vec<ThreadPlace>,
    /// The address, generic, of an access.
    pub address: Option<u64>,
    /// Holds what happened, in a phrase with all numbers.
    pub message: String,
}

impl Finding {
    /// Returns true if it is a race of threads of two blocks.
    pub(crate) fn is_between_blocks(&self) -> bool {
        matches!(self.threads.as_slice(), [one, other] if self.kind == FindingKind::Race && one.block != other.block)
    }

    /// Returns true if the launch goes on after it.
    pub fn is_collected(&self) -> bool {
        matches!(
            self.kind,
            FindingKind::Uninitialised
                | FindingKind::Race
                | FindingKind::DivergentBarrier
                | FindingKind::NotMember
                | FindingKind::ExitedLane
                | FindingKind::MissingAsyncWait
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(site) = &self.site {
            write!(f, "{site}: ")?;
        }
        write!(f, "{} in kernel `{}`: {}", self.kind.name(), self.kernel, self.message)?;
        if let Some(first) = self.threads.first() {
            write!(f, ", by {first}")?;
            match (&self.other, self.threads.len()) {
                (Some(other), 2..) => write!(f, " and {} at {other}", self.threads[1])?,
                (None, 2..) => write!(f, " and {} more", self.threads.len() - 1)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why a launch failed: it could not go on, or its checks found something.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// At least one; what ended the launch comes last.
    pub findings: Vec<Finding>,
    /// Holds what ran before.
    pub report: Report,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Describes what a launch did.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// Instructions, counted once a thread that executes them.
    pub thread_instructions: u64,
    /// Instructions, counted once a warp.
    pub warp_instructions: u64,
    /// The rest, if asked for.
    pub counters: Option<Counters>,
    /// Global memory that was accessed, sorted by address, if asked for.
    pub accesses: Vec<AccessedMemory>,
}

/// Words of global memory that a launch accessed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessedMemory {
    /// Their addresses.
    pub range: std::ops::Range<u64>,
    /// True if they were written.
    pub writes: bool,
    /// True if the last access was atomic, or ordered in another way that makes it no race with others of its kind.
    pub is_atomic: bool,
    /// The last write, or a read where there was none.
    pub site: CodeSite,
}
