//! What launches verify of a kernel's accesses before anything runs, and what they do not.
//!
//! Design: `docs/design/launch-bounds.md`.

use crate::kernel::Kernel;
use polyloom_codegen::ArgLayout;
use polyloom_ir::MAX_DIMS;
use polyloom_ir::span::Position;
use polyloom_passes::analysis::launch_bounds::{ArgumentWords, LaunchBounds, OutsideThread};
use polyloom_passes::pipeline;
use polyloom_runtime::{ArgBlock, KernelParams, LaunchError, LaunchOptions, OutsideAccess};
use std::sync::Arc;

/// Describes how an index of one of a kernel's accesses is verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessCheck {
    /// By every launch, before anything runs.
    Launch,
    /// For each the kernel as it runs, it is compiled with checks.
    Run,
    /// Not at all, and why.
    Nothing(&'static str),
}

/// An index of an access of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelAccess {
    /// The array, as the kernel's parameter is called; none if it is in shared memory.
    pub array: Option<Arc<str>>,
    /// The axis.
    pub axis: u8,
    /// The source of the access.
    pub text: String,
    /// Its file.
    pub file: String,
    /// The place where it begins there.
    pub position: Position,
    /// Says how it is verified.
    pub check: AccessCheck,
}

/// Says where an access would have been outside, in the user's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutsideReport {
    /// Everything there is to say.
    pub message: String,
    /// The source file.
    pub file: String,
    /// The access.
    pub position: Position,
}

struct ArgWords<'a>(&'a KernelParams);

impl ArgumentWords for ArgWords<'_> {
    fn scalar(&self, param: u32) -> usize {
        self.0.layout().offsets[param as usize] as usize / 8
    }

    fn extent(&self, param: u32, axis: u8) -> usize {
        (self.0.layout().offsets[param as usize] + ArgLayout::extent(axis)) as usize / 8
    }
}

impl Kernel {
    #[inline]
    fn launch_bounds(&self) -> &LaunchBounds {
        self.known_launch_bounds().get_or_init(|| {
            let (module, kernel) = self.module();
            LaunchBounds::of(module, kernel, &ArgWords(self.params()))
        })
    }

    /// Returns true if the kernel's own checks verify its accesses, or it refuses all checks.
    fn verifies_nothing_before(&self) -> bool {
        let function = self.function();
        function.constraints.unchecked || pipeline::is_checked(function, &pipeline::PipelineOptions::default())
    }

    /// Refuses a launch in which a thread is seen to access an array outside its extents.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Outside`]; of arguments that are not those of this kernel, [`LaunchError::Arguments`].
    #[inline]
    pub(crate) fn verify_accesses(
        &self,
        shape: &[u64],
        args: &ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> Result<(), LaunchError> {
        if options.unchecked || self.verifies_nothing_before() || shape.len() > MAX_DIMS {
            return Ok(());
        }
        let mut dim = [1; MAX_DIMS];
        dim[..shape.len()].copy_from_slice(shape);
        match self.launch_bounds().find_outside(&dim, args.words()) {
            None => Ok(()),
            Some(outside) => self.refuse(&outside, shape, args),
        }
    }

    /// Returns true if no thread of a launch of this shape is seen to access an array outside its extents. The words are
    /// those of a complete block of this kernel's arguments.
    #[inline]
    pub(crate) fn stays_inside(&self, shape: &[u64], words: &[u64]) -> bool {
        let mut dim = [1; MAX_DIMS];
        dim[..shape.len()].copy_from_slice(shape);
        self.verifies_nothing_before() || self.launch_bounds().find_outside(&dim, words).is_none()
    }

    #[cold]
    fn refuse(&self, outside: &OutsideThread, shape: &[u64], args: &ArgBlock) -> Result<(), LaunchError> {
        args.check_complete(self.params())?;
        let n_threads = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent));
        if shape.is_empty() || n_threads.is_none_or(|n| n > i32::MAX as u64) {
            // Nothing is said here, because the launch itself refuses such a shape.
            return Ok(());
        }
        Err(LaunchError::Outside(Box::new(OutsideAccess {
            kernel: self.name().into(),
            array: self.params().names()[outside.param as usize].clone(),
            axis: outside.axis,
            indices: outside.indices.to_vec(),
            extent: outside.extent,
            dim: shape.to_vec(),
            thread: outside.thread[..shape.len()].to_vec(),
            span: outside.span,
        })))
    }

    /// An access outside an array in the user's terms: located in the kernel's source, with what to write instead.
    pub fn explain_outside(&self, outside: &OutsideAccess) -> OutsideReport {
        let located = self.sources().locate(outside.span);
        let (file, position) = located.unwrap_or(("<unknown>", Position { line: 0, column: 0 }));
        let OutsideAccess { array, axis, .. } = outside;
        let message = format!(
            "{outside} ({file}:{}:{})\n  = help: launch no more threads than there are elements, or test the index \
             before the access: `if i < {array}.shape[{axis}]:`; `unchecked=True` launches without looking",
            position.line, position.column
        );
        OutsideReport { message, file: file.to_owned(), position }
    }

    /// The accesses of the kernel, functions that it calls included, in the order of their execution, and how each of
    /// their indices is verified.
    pub fn accesses(&self) -> Vec<KernelAccess> {
        let function = self.function();
        let is_checked = pipeline::is_checked(function, &pipeline::PipelineOptions::default());
        let mut accesses: Vec<KernelAccess> = Vec::new();
        for index in self.launch_bounds().indices() {
            let located = self.sources().locate(index.span);
            let (file, position) = located.unwrap_or(("<unknown>", Position { line: 0, column: 0 }));
            let source = self.sources().get(index.span.file);
            let text = source.and_then(|file| file.text.get(index.span.start as usize..index.span.end as usize));
            let check = match index.unverified {
                _ if is_checked => AccessCheck::Run,
                _ if function.constraints.unchecked => AccessCheck::Nothing("the kernel is declared unchecked"),
                None => AccessCheck::Launch,
                Some(reason) => AccessCheck::Nothing(reason.text()),
            };
            let access = KernelAccess {
                array: index.param.map(|param| self.params().names()[param as usize].clone()),
                axis: index.axis,
                text: text.unwrap_or_default().to_owned(),
                file: file.to_owned(),
                position,
                check,
            };
            if !accesses.contains(&access) {
                accesses.push(access);
            }
        }
        accesses
    }
}
