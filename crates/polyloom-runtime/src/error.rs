//! Why a launch did not complete.

use crate::args::ArgError;
use crate::device::DeviceFailure;
use polyloom_codegen::CodegenError;
use polyloom_codegen::abi::{CallbackSite, SiteKind};
use polyloom_ir::{CheckKind, Diagnostic, MAX_DIMS, Span};
use std::fmt;
use std::sync::Arc;

/// Why a launch did not complete.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LaunchError {
    /// The grid has no axis or more than [`MAX_DIMS`].
    #[error("a launch has 1 to {MAX_DIMS} dimensions, not {rank}")]
    Rank {
        /// The rank given.
        rank: usize,
    },
    /// The grid has more threads than `int32` thread indices can count.
    #[error("a launch of {shape:?} has more threads than int32 can count; launch it in parts")]
    TooManyThreads {
        /// The grid given.
        shape: Vec<u64>,
    },
    /// The kernel is for blocks of other extents.
    #[error(
        "kernel `{kernel}` is made for blocks of {} threads, not {}: leave the block out, or let the kernel name no \
         block_dim",
        extents(only),
        extents(given)
    )]
    Block {
        /// The kernel.
        kernel: Arc<str>,
        /// The extents it is for.
        only: [u32; 3],
        /// Those of the launch.
        given: [u32; 3],
    },
    /// The arguments do not fit the kernel.
    #[error(transparent)]
    Arguments(#[from] ArgError),
    /// The kernel could not be compiled.
    #[error("kernel `{kernel}` could not be compiled: {error}")]
    Compile {
        /// The kernel.
        kernel: Arc<str>,
        /// Holds what the back end says.
        error: CodegenError,
    },
    /// The kernel is beyond the device's architecture, or the compiler's limits.
    #[error("kernel `{kernel}` could not be compiled: {text}")]
    Rejected {
        /// The kernel.
        kernel: Arc<str>,
        /// Why.
        diagnostics: Vec<Diagnostic>,
        /// The same as text, with lines of the source.
        text: String,
    },
    /// A thread would have accessed an array outside its extents. Nothing has run.
    #[error(transparent)]
    Outside(Box<OutsideAccess>),
    /// A check or an assertion failed in a thread.
    #[error(transparent)]
    Trap(Box<Trap>),
    /// The interpreter met something it cannot run.
    #[error("kernel `{kernel}`: {message}")]
    Interpreter {
        /// The kernel.
        kernel: Arc<str>,
        /// Holds what it met.
        message: String,
    },
    /// A thread, or a block of a kernel that is launched in blocks, took more steps than the interpreter may.
    #[error("kernel `{kernel}`: the limit of {most_steps} steps was reached")]
    StepLimit {
        /// The kernel.
        kernel: Arc<str>,
        /// Number of steps there may be.
        most_steps: u64,
    },
    /// The device is not there, has no memory for the arrays, or fails.
    #[error("kernel `{kernel}`: {failure}")]
    Device {
        /// The kernel.
        kernel: Arc<str>,
        /// Holds what is wrong with the device.
        failure: DeviceFailure,
    },
    /// The process may not run on the cores that the kernel names.
    #[error("kernel `{kernel}` is to run on the cores {cores:?} (`cpu_affinity`), and the system says: {error}")]
    Cores {
        /// The kernel.
        kernel: Arc<str>,
        /// The cores.
        cores: Vec<u32>,
        /// The system's message.
        error: String,
    },
    /// The simulator found what is wrong with the kernel.
    #[error("{0}")]
    Simulator(Box<polyloom_ptx::Fault>),
    /// The caller cancelled the launch. Some of its threads have run.
    #[error("the launch was cancelled")]
    Cancelled,
}

fn extents([x, y, z]: &[u32; 3]) -> String {
    format!("({x}, {y}, {z})")
}

/// An access outside an array that a launch would have made. The source line is for the caller to look up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutsideAccess {
    /// The kernel.
    pub kernel: Arc<str>,
    /// The array, as the kernel's parameter is called.
    pub array: Arc<str>,
    /// The axis.
    pub axis: u8,
    /// All indices of the access, where the launch knows them.
    pub indices: Vec<Option<i128>>,
    /// The extent along the axis.
    pub extent: u64,
    /// The extents of the launch.
    pub dim: Vec<u64>,
    /// Coordinates of the first thread that would have been outside; as many as the launch has axes.
    pub thread: Vec<u64>,
    /// The access.
    pub span: Span,
}

impl OutsideAccess {
    /// The index along the axis.
    pub fn index(&self) -> i128 {
        self.indices.get(usize::from(self.axis)).copied().flatten().unwrap_or_default()
    }
}

impl fmt::Display for OutsideAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutsideAccess { kernel, array, axis, indices, extent, dim, thread, .. } = self;
        let indices: Vec<String> =
            indices.iter().map(|index| index.map_or_else(|| "…".to_owned(), |index| index.to_string())).collect();
        let indices = indices.join(", ");
        let coordinates = |of: &[u64]| match of {
            [one] => one.to_string(),
            several => {
                let several: Vec<String> = several.iter().map(u64::to_string).collect();
                format!("({})", several.join(", "))
            }
        };
        let (dim, thread) = (coordinates(dim), coordinates(thread));
        let elements = if *extent == 1 { "element" } else { "elements" };
        write!(
            f,
            "launch of `{kernel}` with dim={dim}: thread {thread} would access `{array}[{indices}]`, but axis {axis} of \
             `{array}` has {extent} {elements}"
        )
    }
}

impl std::error::Error for OutsideAccess {}

/// A failed check: where, with what values, and in which thread. The source line is for the caller to look up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// The kernel.
    pub kernel: Arc<str>,
    /// Holds what failed, and its span.
    pub site: CallbackSite,
    /// The index that was out of bounds.
    pub index: i128,
    /// The extent it should have been within.
    pub extent: i64,
    /// Coordinates of the thread; as many as the launch has axes.
    pub thread: Vec<u64>,
}

impl Trap {
    /// The index that a check at `site` reports as the bits of an `i64`.
    pub(crate) fn index_at(site: &CallbackSite, operand: i64) -> i128 {
        match &site.kind {
            SiteKind::Check(kind) => kind.index(operand),
            SiteKind::Assert(_) | SiteKind::Print(..) => operand.into(),
        }
    }

    /// Coordinates of the thread with this row-major index in a launch of this shape.
    pub(crate) fn coordinates(shape: &[u64; MAX_DIMS], rank: usize, linear: u64) -> Vec<u64> {
        let mut rest = linear;
        let mut coordinates = vec![0; rank];
        for axis in (0..rank).rev() {
            let extent = shape[axis].max(1);
            coordinates[axis] = rest % extent;
            rest /= extent;
        }
        coordinates
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site.kind {
            SiteKind::Check(CheckKind::Bounds { array, axis, .. }) => {
                write!(f, "index {} is out of bounds for axis {axis}", self.index)?;
                if !array.is_empty() {
                    write!(f, " of `{array}`")?;
                }
                write!(f, " with extent {}", self.extent)?;
            }
            SiteKind::Check(CheckKind::Division) => f.write_str("integer division by zero")?,
            SiteKind::Assert(message) if message.is_empty() => f.write_str("assertion failed")?,
            SiteKind::Assert(message) => write!(f, "assertion failed: {message:?}")?,
            SiteKind::Print(..) => f.write_str("failed to print")?,
        }
        write!(f, " in kernel `{}`, thread {:?}", self.kernel, self.thread)
    }
}

impl std::error::Error for Trap {}
