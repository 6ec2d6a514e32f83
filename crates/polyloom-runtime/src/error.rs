//! Why a launch did not complete.

use crate::args::ArgError;
use crate::device::DeviceFailure;
use polyloom_codegen::CodegenError;
use polyloom_codegen::abi::{Site, SiteKind};
use polyloom_ir::{CheckKind, Diagnostic, MAX_DIMS};
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
        /// What the back end says.
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
    /// A check or an assertion failed in a thread.
    #[error(transparent)]
    Trap(Box<Trap>),
    /// The interpreter met something it cannot run.
    #[error("kernel `{kernel}`: {message}")]
    Interpreter {
        /// The kernel.
        kernel: Arc<str>,
        /// What it met.
        message: String,
    },
    /// A thread, or a block of a kernel that is launched in blocks, took more steps than the interpreter may.
    #[error("kernel `{kernel}`: the limit of {most_steps} steps was reached")]
    StepLimit {
        /// The kernel.
        kernel: Arc<str>,
        /// How many steps there may be.
        most_steps: u64,
    },
    /// The device is not there, has no memory for the arrays, or fails.
    #[error("kernel `{kernel}`: {failure}")]
    Device {
        /// The kernel.
        kernel: Arc<str>,
        /// What is wrong with the device.
        failure: DeviceFailure,
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

/// A failed check: where, with what values, and in which thread. The source line is for the caller to look up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// The kernel.
    pub kernel: Arc<str>,
    /// What failed, and its span.
    pub site: Site,
    /// The index that was out of bounds.
    pub index: i128,
    /// The extent it should have been within.
    pub extent: i64,
    /// Coordinates of the thread; as many as the launch has axes.
    pub thread: Vec<u64>,
}

impl Trap {
    /// The index that a check at `site` reports as the bits of an `i64`.
    pub(crate) fn index_at(site: &Site, operand: i64) -> i128 {
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
