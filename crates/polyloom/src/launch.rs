//! Runs a kernel on the CPU, and tells of failed checks.

use crate::kernel::Kernel;
use polyloom_ir::function::CheckKind;
use polyloom_ir::span::Position;
use polyloom_runtime::{
    ArgBlock, LaunchError, LaunchOptions, LaunchStats, Trap, VariantChoice, interpret_thread, launch, launch_if_short,
};
use std::fmt::Write as _;

/// A failed check in the user's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrapReport {
    /// One sentence with all there is to say.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The failing expression.
    pub position: Position,
    /// Index and extent, where an access was out of bounds.
    pub bounds: Option<(i128, i64)>,
    /// Coordinates of the thread.
    pub thread: Vec<u64>,
}

impl Kernel {
    /// Runs the kernel over a grid of threads and returns when all have run.
    ///
    /// # Errors
    ///
    /// [`LaunchError`]. After a failed check or a cancellation some of the threads have run.
    ///
    /// # Safety
    ///
    /// As [`polyloom_runtime::launch`]: array arguments must stay valid and untouched until it returns, and indices
    /// in bounds unless the kernel is checked.
    #[inline]
    pub unsafe fn launch(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<LaunchStats, LaunchError> {
        self.verify_accesses(shape, args, options)?;
        // SAFETY: passed on to the caller.
        unsafe { launch(self.launched()?, shape, args, options) }
    }

    /// Runs the kernel on the CPU if that is known to take a few microseconds at most, as one call on this thread, and
    /// is known to be right: [`polyloom_runtime::launch_if_short`]. Gives nothing where [`Kernel::launch`] has to look.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    #[inline]
    pub unsafe fn launch_if_short(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Option<Result<(), LaunchError>> {
        let kernel = self.launched_before()?;
        self.verify_accesses(shape, args, options).ok()?;
        // SAFETY: passed on to the caller.
        unsafe { launch_if_short(kernel, shape, args, None) }
    }

    /// Works like [`Kernel::launch_if_short`] for a launch that has been found right before, in the code that the choice
    /// names.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`]. The choice has served launches of this kernel alone, of this rank and with these arrays.
    #[inline]
    pub unsafe fn launch_verified_if_short(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        choice: &VariantChoice,
    ) -> Option<Result<(), LaunchError>> {
        // SAFETY: passed on to the caller.
        unsafe { launch_if_short(self.launched_before()?, shape, args, Some(choice)) }
    }

    /// Runs one thread of a launch by itself, by the interpreter: what it does when no other thread runs. `thread` is
    /// its row-major index.
    ///
    /// # Errors
    ///
    /// [`LaunchError`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    pub unsafe fn interpret_thread(&self, shape: &[u64], args: &ArgBlock, thread: u64) -> Result<(), LaunchError> {
        // SAFETY: passed on to the caller.
        unsafe { interpret_thread(self.launched()?, shape, args, thread) }
    }

    /// A failed check of this kernel, located in its source.
    pub fn explain(&self, trap: &Trap) -> TrapReport {
        let located = self.program.sources.locate(trap.site.span);
        let (file, position) = located.unwrap_or(("<unknown>", Position { line: 0, column: 0 }));
        let mut message = trap.to_string();
        let _ = write!(message, " ({file}:{}:{})", position.line, position.column);
        let bounds = match &trap.site.kind {
            polyloom_codegen::abi::SiteKind::Check(CheckKind::Bounds { .. }) => Some((trap.index, trap.extent)),
            _ => None,
        };
        TrapReport { message, file: file.to_owned(), position, bounds, thread: trap.thread.clone() }
    }
}
