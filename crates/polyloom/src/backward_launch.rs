//! The way back of a launch: from the adjoints of what a kernel wrote to those of what it read.
//!
//! Design: `docs/design/reverse-mode.md`.

use crate::backward::{BackwardKernel, BackwardLaunch, BackwardPart, OverwritingLaunches, TapeLimits, TapePlan};
use crate::kernel::Kernel;
use polyloom_frontend::CompileError;
use polyloom_ir::eval::{bf16_from_f64, bf16_to_f32, f16_from_f64, f16_to_f32};
use polyloom_ir::{Composite, LaunchConfig, Scalar, Type};
use polyloom_passes::autodiff::{AdjointAccess, DerivativeLaunch, DerivativeRequest, LONG_LAUNCH, LaunchArgument};
use polyloom_ptx::Report;
use polyloom_runtime::{
    ArgArray, ArgBlock, ArrayLayout, CpuQueue, DeviceBuffer, DeviceFailure, DeviceId, Footprint, LaunchError,
    LaunchOptions, LaunchStats, Queue,
};
use std::cell::RefCell;
use std::sync::Arc;

/// Loops that run as often are not recorded.
const LONGEST_LOOP: u32 = i32::MAX as u32;

/// A launch whose way back is asked for.
pub struct BackwardArguments<'a> {
    /// The extents of the launch.
    pub shape: &'a [u64],
    /// Its arguments, filled against the parameters of the kernel; arrays hold what they held before the launch.
    pub args: &'a ArgBlock,
    /// For each parameter of the kernel's HIR the array of its adjoint, if somebody asks for it. That of a number or
    /// composite is an array of one element.
    pub adjoints: &'a [Option<ArgArray>],
    /// True for each of the adjoints that must not be written; those past the end may be.
    pub read_only: &'a [bool],
    /// True if the arrays that replays read ([`BackwardNeeds::left`](crate::BackwardNeeds::left)) hold what the launch has
    /// left in them.
    pub has_left: bool,
}

/// Describes how the way back is gone.
#[derive(Clone, Copy, Debug)]
pub struct BackwardOptions {
    /// True if adjoints of what the kernel only reads are added to, and those of what it only writes are taken.
    /// Otherwise the former are written, whatever they held, and the latter are left as they are.
    pub accumulate: bool,
    /// True if, without `accumulate`, the adjoints of what the kernel both reads and writes are left as they are, too.
    pub keep_seeds: bool,
    /// Describes what tapes of loops may take.
    pub limits: TapeLimits,
    /// The threads of blocks, where somebody has said how many.
    pub block: Option<[u32; 3]>,
}

/// Describes what the way back of a launch did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BackwardStats {
    /// Bytes that tapes of the kernel's loops took.
    pub tape_bytes: u64,
    /// Holds what the simulator counted in the last of the launches, if it ran them.
    pub report: Option<Box<Report>>,
}

/// A launch of a backward kernel: what is launched, its extents and its arguments.
type PartLaunch = (Arc<Kernel>, Vec<u64>, ArgBlock);

/// The launches of a way back that needs nothing prepared for it, so that they are the same each time that it is gone.
pub struct RepeatableBackward {
    launches: Vec<PartLaunch>,
    block: Option<[u32; 3]>,
}

impl RepeatableBackward {
    /// Goes the way back again, so many times.
    ///
    /// # Errors
    ///
    /// [`BackwardError::Launch`].
    ///
    /// # Safety
    ///
    /// As of the first time: arguments and adjoints are live, and are laid out as they were then.
    pub unsafe fn run(
        &self,
        queue: &Arc<dyn Queue>,
        launch: &LaunchOptions<'_>,
        times: usize,
    ) -> Result<BackwardStats, BackwardError> {
        let mut stats = BackwardStats::default();
        for (kernel, dim, block) in (0..times).flat_map(|_| &self.launches) {
            // SAFETY: passed on to the caller.
            let done = unsafe { launch_part(kernel, dim, block, self.block, queue, launch) };
            stats.report = done.map_err(|error| failed(kernel, error))?.report.or(stats.report);
        }
        Ok(stats)
    }
}

/// Runs a launch of a backward kernel.
///
/// # Safety
///
/// As [`Kernel::launch_on`].
unsafe fn launch_part(
    kernel: &Kernel,
    dim: &[u64],
    args: &ArgBlock,
    block: Option<[u32; 3]>,
    queue: &Arc<dyn Queue>,
    launch: &LaunchOptions<'_>,
) -> Result<LaunchStats, LaunchError> {
    let threads = block.filter(|_| kernel.needs_blocks() || queue.device() != DeviceId::Cpu);
    let shared_bytes = kernel.function().metadata.shared_bytes.unwrap_or(0);
    let n_threads = dim.iter().product();
    let grid = threads.map(|threads| LaunchConfig::of_threads(n_threads, threads, shared_bytes));
    // SAFETY: passed on to the caller.
    unsafe { kernel.launch_on(&**queue, dim, args, &LaunchOptions { grid, ..*launch }) }
}

/// Why the way back of a launch is not gone.
#[derive(Debug, thiserror::Error)]
pub enum BackwardError {
    /// The kernel has no derivative, or the launch has none since its threads race.
    #[error(transparent)]
    Rejected(#[from] CompileError),
    /// Arrays share memory that differentiation takes for apart, or a loop is too long to be recorded.
    #[error("{0}")]
    Arguments(String),
    /// An argument that is no array has no adjoint, and one is needed.
    #[error("{0}")]
    NoAdjoint(String),
    /// A launch failed.
    #[error("{error}")]
    Launch {
        /// Its kernel.
        kernel: Arc<Kernel>,
        /// What went wrong.
        error: LaunchError,
    },
    /// A device has no memory, or fails.
    #[error(transparent)]
    Device(#[from] DeviceFailure),
}

/// Runs a launch of a kernel.
pub type RunLaunch<'a> = dyn Fn(&Kernel, &[u64], &ArgBlock) -> Result<LaunchStats, LaunchError> + 'a;

/// What a backward kernel takes, and what runs it.
pub struct BackwardRun<'a> {
    /// The kernel that it was made of.
    pub forward: &'a Kernel,
    /// The extents of the kernel's launch.
    pub shape: &'a [u64],
    /// Its arguments.
    pub args: &'a ArgBlock,
    /// The adjoints, one for each of [`BackwardNeeds::adjoints`](crate::BackwardNeeds::adjoints).
    pub adjoints: &'a [ArgArray],
    /// The arrays as the kernel leaves them, one for each of [`BackwardNeeds::after`](crate::BackwardNeeds::after).
    pub after: &'a [ArgArray],
    /// The queue, in whose memory tapes are.
    pub queue: &'a Arc<dyn Queue>,
    /// True if the backward kernel itself is launched, and none of the kernels that may do the same in stages.
    pub is_whole: bool,
    /// Runs each launch of it.
    pub run: &'a RunLaunch<'a>,
}

/// An array that a launch makes for itself.
struct TemporaryArray {
    /// Owns the memory.
    buffer: DeviceBuffer,
    array: ArgArray,
}

impl TemporaryArray {
    /// Makes an array of zeros where another one is: in the host's memory, or in that of the queue's device.
    fn zeros_like(array: &ArgArray, queue: &Arc<dyn Queue>) -> Result<TemporaryArray, DeviceFailure> {
        let made = TemporaryArray::empty(array.elem, &array.layout.extents, array.is_resident, queue)?;
        made.buffer.clear()?;
        Ok(made)
    }

    /// Makes an array of undefined elements, row by row.
    fn empty(
        elem: Scalar,
        extents: &[u64],
        is_resident: bool,
        queue: &Arc<dyn Queue>,
    ) -> Result<TemporaryArray, DeviceFailure> {
        let strides = std::iter::repeat_n(0, extents.len()).collect();
        let shape = ArrayLayout { base: 0, elem_bytes: elem.bytes().into(), extents: extents.into(), strides };
        let n_bytes = usize::try_from(shape.n_bytes()).unwrap_or(usize::MAX);
        let memory = if is_resident { queue.clone() } else { Arc::new(CpuQueue) };
        let buffer = DeviceBuffer::new(memory, n_bytes)?;
        let layout = shape.dense_at(buffer.address());
        Ok(TemporaryArray { buffer, array: ArgArray { elem, layout, is_resident } })
    }

    /// Makes a copy of an array.
    ///
    /// # Safety
    ///
    /// The array is live.
    unsafe fn copy_of(array: &ArgArray, queue: &Arc<dyn Queue>) -> Result<TemporaryArray, DeviceFailure> {
        let made = TemporaryArray::empty(array.elem, &array.layout.extents, array.is_resident, queue)?;
        // SAFETY: the one is live, and the other has just been made.
        unsafe { made.array.layout.copy_from(&*memory_of(array, queue), &array.layout)? };
        Ok(made)
    }
}

/// The queue through which an array's memory is reached.
fn memory_of(array: &ArgArray, queue: &Arc<dyn Queue>) -> Arc<dyn Queue> {
    if array.is_resident { queue.clone() } else { Arc::new(CpuQueue) }
}

impl BackwardKernel {
    /// Runs the backward kernel of a launch: with gradients written rather than added to if it `overwrites`, and with
    /// tapes as [`BackwardKernel::plan_of`] has found.
    ///
    /// # Errors
    ///
    /// [`BackwardError`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`] for the kernel's launch, and adjoints and arrays as the kernel leaves them are live.
    pub unsafe fn launch(
        &self,
        run: &BackwardRun<'_>,
        overwrites: bool,
        plan: Option<&TapePlan>,
    ) -> Result<BackwardStats, BackwardError> {
        // SAFETY: passed on to the caller.
        Ok(unsafe { self.launch_once(run, overwrites, plan)? }.0)
    }

    /// [`BackwardKernel::launch`], with the launches that it came to.
    unsafe fn launch_once(
        &self,
        run: &BackwardRun<'_>,
        overwrites: bool,
        plan: Option<&TapePlan>,
    ) -> Result<(BackwardStats, Vec<PartLaunch>), BackwardError> {
        // SAFETY: passed on to the caller.
        let (inputs, _inputs) = unsafe { run.copied(&self.needs.replayed)? };
        let extents: Vec<Option<&[u64]>> = run
            .adjoints
            .iter()
            .map(|adjoint| {
                let coincides = adjoint.footprint(&Arc::from("")).is_ok_and(|footprint| footprint.overlaps_itself());
                (!coincides).then_some(&adjoint.layout.extents[..])
            })
            .collect();
        let OverwritingLaunches { launches, cleared, copied } = match overwrites {
            true => self.overwriting_launches(run.shape, &extents),
            false => {
                let launches = match plan {
                    None if run.is_whole => vec![self.whole_launch(run.shape)],
                    None => self.launches(run.shape, &extents),
                    Some(_) => Vec::new(),
                };
                OverwritingLaunches { launches, cleared: Vec::new(), copied: Vec::new() }
            }
        };
        for number in cleared {
            // SAFETY: the adjoint is live.
            unsafe { fill_zero(&run.adjoints[number], run.queue)? };
        }
        let mut adjoints = run.adjoints.to_vec();
        let mut kept = Vec::new();
        for number in copied {
            // SAFETY: as above.
            let copy = unsafe { TemporaryArray::copy_of(&adjoints[number], run.queue)? };
            adjoints[number] = copy.array.clone();
            kept.push(copy);
        }
        if let Some(plan) = plan {
            return Ok((self.launch_parts(run, &inputs, &adjoints, plan)?, Vec::new()));
        }
        let mut done = Vec::new();
        for BackwardLaunch { part, dim, extents } in launches {
            let (kernel, block) = self.block_of(run, part, &inputs, &adjoints, &[], &extents)?;
            (run.run)(kernel, &dim, &block).map_err(|error| failed(kernel, error))?;
            done.push((kernel.clone(), dim, block));
        }
        Ok((BackwardStats::default(), done))
    }

    /// Returns what tapes a launch needs, of a kernel that [takes a part](crate::BackwardNeeds::takes_part) of a launch;
    /// else there is nothing.
    ///
    /// # Errors
    ///
    /// [`BackwardError`], also if a loop is too long.
    ///
    /// # Safety
    ///
    /// As [`BackwardKernel::launch`].
    pub unsafe fn plan_of(&self, run: &BackwardRun<'_>, limits: TapeLimits) -> Result<Option<TapePlan>, BackwardError> {
        if !self.needs.takes_part() {
            return Ok(None);
        }
        // SAFETY: passed on to the caller.
        let lengths = unsafe { self.lengths(run)? };
        Ok(Some(self.plan(&lengths, run.shape.iter().product(), limits)))
    }

    /// Measures how long the loops of a launch are.
    unsafe fn lengths(&self, run: &BackwardRun<'_>) -> Result<Vec<u32>, BackwardError> {
        let Some(sizes) = &self.sizes else {
            return Ok(self.needs.lengths.iter().map(|length| length.unwrap_or(0)).collect());
        };
        // SAFETY: passed on to the caller.
        let (inputs, _inputs) = unsafe { run.copied(&self.needs.writes)? };
        let mut found = vec![0u32; self.needs.lengths.len()];
        let mut block = run.block_for(sizes, &inputs, &[])?;
        let extents = [found.len() as u64];
        let layout = ArrayLayout {
            base: found.as_mut_ptr() as u64,
            elem_bytes: 4,
            extents: extents.as_slice().into(),
            strides: [4].as_slice().into(),
        };
        push(&mut block, sizes, &ArgArray { elem: Scalar::I32, layout, is_resident: false })?;
        let one = vec![1; run.shape.len()];
        // One thread is asked if all find the same lengths, since the others would find them again.
        let counted = if self.needs.lengths_are_uniform { &one } else { run.shape };
        (run.run)(sizes, counted, &block).map_err(|error| failed(sizes, error))?;
        if found.contains(&LONGEST_LOOP) {
            return Err(BackwardError::Arguments(format!(
                "kernel '{}': a loop that has to be recorded runs {LONGEST_LOOP} times or more, which is not \
                 differentiated: split it into two loops, or use jvp",
                run.forward.name()
            )));
        }
        Ok(found)
    }

    /// Launches it over as many threads at a time as have a place on its tapes.
    fn launch_parts(
        &self,
        run: &BackwardRun<'_>,
        inputs: &[Option<ArgArray>],
        adjoints: &[ArgArray],
        plan: &TapePlan,
    ) -> Result<BackwardStats, BackwardError> {
        let is_resident = run.queue.device() != DeviceId::Cpu;
        let tapes = plan.tapes.iter().map(|(shape, elem)| TemporaryArray::empty(*elem, shape, is_resident, run.queue));
        let tapes: Vec<TemporaryArray> = tapes.collect::<Result<_, _>>()?;
        let more: Vec<ArgArray> = tapes.iter().map(|tape| tape.array.clone()).collect();
        let n_threads: u64 = run.shape.iter().product();
        let mut numbers = plan.segments.clone();
        let first_thread = numbers.len();
        numbers.push(0);
        numbers.extend(&run.shape[1..]);
        let part = BackwardPart { stage: None, overwrites: false };
        for first in (0..n_threads).step_by(plan.n_places as usize) {
            numbers[first_thread] = first;
            let dim = [plan.n_places.min(n_threads - first)];
            let (kernel, block) = self.block_of(run, part, inputs, adjoints, &more, &numbers)?;
            (run.run)(kernel, &dim, &block).map_err(|error| failed(kernel, error))?;
        }
        Ok(BackwardStats { tape_bytes: plan.bytes, report: None })
    }

    /// The kernel that does a part, and what it is given.
    fn block_of(
        &self,
        run: &BackwardRun<'_>,
        part: BackwardPart,
        inputs: &[Option<ArgArray>],
        adjoints: &[ArgArray],
        tapes: &[ArgArray],
        numbers: &[u64],
    ) -> Result<(&Arc<Kernel>, ArgBlock), BackwardError> {
        let kernel = self.kernel_of(part);
        let mut block = run.block_for(kernel, inputs, adjoints)?;
        for array in run.after.iter().chain(tapes) {
            push(&mut block, kernel, array)?;
        }
        for &number in numbers {
            let pushed = block.scalar(kernel.params(), Scalar::I32, number);
            pushed.map_err(|error| failed(kernel, error.into()))?;
        }
        Ok((kernel, block))
    }
}

fn push(block: &mut ArgBlock, kernel: &Arc<Kernel>, array: &ArgArray) -> Result<(), BackwardError> {
    block.push_array(kernel.params(), array).map_err(|error| failed(kernel, error.into()))
}

fn failed(kernel: &Arc<Kernel>, error: LaunchError) -> BackwardError {
    BackwardError::Launch { kernel: kernel.clone(), error }
}

impl BackwardRun<'_> {
    /// Copies of those of the kernel's arrays that are `written`; of the others nothing.
    ///
    /// # Safety
    ///
    /// The arrays are live.
    unsafe fn copied(&self, written: &[bool]) -> Result<(Vec<Option<ArgArray>>, Vec<TemporaryArray>), BackwardError> {
        let (mut arrays, mut kept) = (Vec::new(), Vec::new());
        for (slot, &is_written) in slots(self.forward, written) {
            let array = if is_written { self.args.array_at(self.forward.params(), slot) } else { None };
            let copy = match array {
                // SAFETY: passed on to the caller.
                Some(array) => Some(unsafe { TemporaryArray::copy_of(&array, self.queue)? }),
                None => None,
            };
            arrays.push(copy.as_ref().map(|copy| copy.array.clone()));
            kept.extend(copy);
        }
        Ok((arrays, kept))
    }

    /// A block that begins with the kernel's arguments, or copies of them, and adjoints.
    ///
    /// # Errors
    ///
    /// [`BackwardError::Launch`] if an adjoint is not what the kernel takes.
    fn block_for(
        &self,
        kernel: &Arc<Kernel>,
        inputs: &[Option<ArgArray>],
        adjoints: &[ArgArray],
    ) -> Result<ArgBlock, BackwardError> {
        let mut block = ArgBlock::new();
        for (slot, copy) in inputs.iter().enumerate() {
            let pushed = match copy {
                Some(copy) => block.push_array(kernel.params(), copy),
                None => block.same_as(kernel.params(), self.args, self.forward.params(), slot),
            };
            pushed.map_err(|error| failed(kernel, error.into()))?;
        }
        for adjoint in adjoints {
            push(&mut block, kernel, adjoint)?;
        }
        Ok(block)
    }
}

/// For each parameter of the argument block, what a list has for the parameter of the kernel's HIR that it is of.
fn slots<'a, T>(kernel: &'a Kernel, of_params: &'a [T]) -> impl Iterator<Item = (usize, &'a T)> {
    let n_slots = |ty: &Type| ty.as_composite().map_or(1, Composite::n_components);
    let params = kernel.types().iter().zip(of_params);
    params.flat_map(move |(ty, of_param)| std::iter::repeat_n(of_param, n_slots(ty))).enumerate()
}

/// Sets all elements of an array to zero.
///
/// # Safety
///
/// The array is live.
unsafe fn fill_zero(array: &ArgArray, queue: &Arc<dyn Queue>) -> Result<(), DeviceFailure> {
    let span = array.layout.span();
    let memory = memory_of(array, queue);
    // SAFETY: the caller vouches for the array.
    let buffer = unsafe { DeviceBuffer::borrowed(memory, span.start, (span.end - span.start) as usize) };
    buffer.fill(&array.layout, &[0; 8][..array.elem.bytes() as usize])
}

/// An array argument of a launch whose way back is gone.
struct BackwardView {
    array: ArgArray,
    footprint: Footprint,
}

impl BackwardView {
    fn overlaps(&self, other: &BackwardView) -> bool {
        self.array.is_resident == other.array.is_resident
            && self.footprint.overlaps(&other.footprint)
            && self.array.layout.overlaps(&other.array.layout)
    }

    fn coincides(&self) -> bool {
        self.footprint.overlaps_itself()
    }
}

impl Kernel {
    /// Runs the backward kernel of a launch of this kernel, which takes leaves in place of structs. Gives also what goes the
    /// same way again, if that needs nothing else.
    ///
    /// # Errors
    ///
    /// [`BackwardError`]; adjoints may have been changed by then.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`], and the adjoints are live.
    pub unsafe fn launch_backward(
        &self,
        queue: &Arc<dyn Queue>,
        arguments: &BackwardArguments<'_>,
        options: &BackwardOptions,
        launch: &LaunchOptions<'_>,
    ) -> Result<(BackwardStats, Option<RepeatableBackward>), BackwardError> {
        let BackwardArguments { shape, args, adjoints, .. } = *arguments;
        let views = self.views(args)?;
        let no_name = Arc::from("");
        let view = |adjoint: &ArgArray| -> Result<BackwardView, BackwardError> {
            let footprint = adjoint.footprint(&no_name);
            let footprint = footprint.map_err(|error| BackwardError::Arguments(format!("the gradient {error}")))?;
            Ok(BackwardView { array: adjoint.clone(), footprint })
        };
        let adjoints: Vec<Option<BackwardView>> =
            adjoints.iter().map(|adjoint| adjoint.as_ref().map(view).transpose()).collect::<Result<_, _>>()?;
        let request = self.backward_request(shape, &views, &adjoints);
        let backward = self.backward(&request)?;
        let known = self.known_arguments(args, &views);
        backward.check(&DerivativeLaunch { dim: shape, arguments: &known })?;
        if backward.needs.left.contains(&true) && !arguments.has_left {
            return Err(BackwardError::Arguments(self.reads_what_is_left(&backward.needs.left)));
        }
        self.check_aliases(&views, &backward.needs.writes)?;
        self.check_adjoints(&views, &adjoints, &backward.needs.adjoints)?;
        self.check_read_only(&backward, arguments.read_only, options)?;

        let mut given: Vec<ArgArray> = Vec::new();
        let mut seen: Vec<&BackwardView> = Vec::new();
        let mut temporaries: Vec<TemporaryArray> = Vec::new();
        let mut added: Vec<(&BackwardView, ArgArray)> = Vec::new();
        for &index in &backward.needs.adjoints {
            let like = match &adjoints[index] {
                None => {
                    let Some(own) = &views[index] else {
                        let message =
                            format!("kernel '{}': its argument {index} is no array that has a gradient", self.name());
                        return Err(BackwardError::NoAdjoint(message));
                    };
                    &own.array
                }
                Some(adjoint) if !seen.iter().any(|other| adjoint.overlaps(other)) => {
                    seen.push(adjoint);
                    given.push(adjoint.array.clone());
                    continue;
                }
                Some(adjoint) => {
                    // This one gets an array of its own, which is added in the end, because what the arrays have in
                    // common is of both.
                    if !options.accumulate {
                        // SAFETY: the adjoint is live.
                        unsafe { fill_zero(&adjoint.array, queue)? };
                    }
                    &adjoint.array
                }
            };
            let made = TemporaryArray::zeros_like(like, queue)?;
            if let Some(adjoint) = &adjoints[index] {
                added.push((adjoint, made.array.clone()));
            }
            given.push(made.array.clone());
            temporaries.push(made);
        }
        let report = RefCell::new(None);
        let run = |kernel: &Kernel, dim: &[u64], block: &ArgBlock| {
            // SAFETY: passed on to the caller.
            let mut stats = unsafe { launch_part(kernel, dim, block, options.block, queue, launch)? };
            report.replace(stats.report.take());
            Ok(stats)
        };
        let run =
            BackwardRun { forward: self, shape, args, adjoints: &given, after: &[], queue, is_whole: false, run: &run };
        // SAFETY: as above.
        let (after, _left) = unsafe { self.left_by_launch(&run, &backward)? };
        let seeds: Vec<usize> = match options.keep_seeds && !options.accumulate {
            true => {
                let accesses = backward.needs.accesses.iter().enumerate();
                accesses.filter(|&(_, &access)| access == AdjointAccess::Both).map(|(number, _)| number).collect()
            }
            false => Vec::new(),
        };
        let mut given = given.clone();
        for number in seeds {
            // SAFETY: as above.
            let copy = unsafe { TemporaryArray::copy_of(&given[number], queue)? };
            given[number] = copy.array.clone();
            temporaries.push(copy);
        }
        let run = BackwardRun { adjoints: &given, after: &after, ..run };
        // SAFETY: as above.
        let (backward, plan) = unsafe { self.planned(&request, backward, &run, options.limits)? };
        // SAFETY: as above.
        let (stats, launches) = unsafe { backward.launch_once(&run, !options.accumulate, plan.as_ref())? };
        let is_repeatable = options.accumulate
            && plan.is_none()
            && temporaries.is_empty()
            && after.is_empty()
            && !backward.needs.replayed.contains(&true);
        let repeatable = is_repeatable.then_some(RepeatableBackward { launches, block: options.block });
        for (to, part) in added {
            // SAFETY: both are live.
            unsafe { add_to(&to.array, &part, queue)? };
        }
        Ok((BackwardStats { report: report.take(), ..stats }, repeatable))
    }

    /// The array arguments of a launch, by parameter of the HIR.
    fn views(&self, args: &ArgBlock) -> Result<Vec<Option<BackwardView>>, BackwardError> {
        let mut views: Vec<Option<BackwardView>> = Vec::with_capacity(self.types().len());
        let mut footprints = args.footprints().iter();
        let params: Vec<usize> = (0..self.types().len()).collect();
        for (slot, &param) in slots(self, &params) {
            let Some(array) = args.array_at(self.params(), slot) else {
                if views.len() == param {
                    views.push(None);
                }
                continue;
            };
            let footprint = footprints.next().copied().unwrap_or_default();
            views.push(Some(BackwardView { array, footprint }));
        }
        Ok(views)
    }

    /// True for each parameter of the HIR that is an array the kernel may write.
    fn written_arrays(&self) -> Vec<bool> {
        let params: Vec<usize> = (0..self.types().len()).collect();
        let mut written = vec![false; params.len()];
        for (slot, &param) in slots(self, &params) {
            written[param] |= self.writes(slot);
        }
        written
    }

    fn backward_request(
        &self,
        shape: &[u64],
        views: &[Option<BackwardView>],
        adjoints: &[Option<BackwardView>],
    ) -> DerivativeRequest {
        // Arrays that the kernel writes are active even if nobody asks for their gradients, because derivatives flow
        // through them.
        let written = self.written_arrays();
        let flows =
            |param: usize| views[param].as_ref().is_some_and(|view| view.array.elem.is_float() && written[param]);
        let active = (0..views.len()).map(|param| adjoints[param].is_some() || flows(param)).collect();
        let coincides = |view: &Option<BackwardView>| view.as_ref().is_some_and(BackwardView::coincides);
        let coinciding: Vec<bool> =
            views.iter().zip(adjoints).map(|(view, adjoint)| coincides(view) || coincides(adjoint)).collect();
        DerivativeRequest {
            // The list is empty if nothing coincides, so that the request is the same as one that does not say it.
            coinciding: if coinciding.contains(&true) { coinciding } else { Vec::new() },
            is_long: shape.iter().product::<u64>() > LONG_LAUNCH,
            ..DerivativeRequest::new(active, shape.len() as u8)
        }
    }

    /// Describes what decides about the races of a launch.
    fn known_arguments(&self, args: &ArgBlock, views: &[Option<BackwardView>]) -> Vec<LaunchArgument> {
        let params: Vec<usize> = (0..self.types().len()).collect();
        let mut known = vec![LaunchArgument::Other; params.len()];
        for (slot, &param) in slots(self, &params) {
            known[param] = match (&views[param], self.types()[param]) {
                (Some(view), _) => LaunchArgument::Extents(view.array.layout.extents.to_vec()),
                (None, Type::Scalar(scalar)) if !scalar.is_float() => {
                    let bits = args.scalar_at(self.params(), slot).unwrap_or(0);
                    let shift = 64 - scalar.bits();
                    match scalar.is_signed_int() {
                        true => LaunchArgument::Number((bits << shift) as i64 >> shift),
                        false => i64::try_from(bits).map_or(LaunchArgument::Other, LaunchArgument::Number),
                    }
                }
                _ => LaunchArgument::Other,
            };
        }
        known
    }

    fn reads_what_is_left(&self, left: &[bool]) -> String {
        let names = self.names().iter().zip(left).filter(|&(_, &is_left)| is_left);
        let names: Vec<String> = names.map(|(name, _)| format!("'{name}'")).collect();
        format!(
            "kernel '{}' calls functions with replays, which read {} as the launch has left it: record the launch with \
             polyloom.Tape, which keeps that",
            self.name(),
            names.join(" and ")
        )
    }

    /// Refuses an array that is written through one parameter and read through another, which is not what
    /// differentiation assumes.
    fn check_aliases(&self, views: &[Option<BackwardView>], writes: &[bool]) -> Result<(), BackwardError> {
        let (kernel, names) = (self.name(), self.names());
        for (index, written) in views.iter().enumerate().filter(|&(index, _)| writes[index]) {
            let Some(written) = written else { continue };
            if written.coincides() {
                let name = &names[index];
                return Err(BackwardError::Arguments(format!(
                    "kernel '{kernel}' writes its argument '{name}', a view in which several indices are one element: a \
                     launch that is differentiated takes an array in which each has its own"
                )));
            }
            for (other, view) in views.iter().enumerate() {
                if other != index && view.as_ref().is_some_and(|view| written.overlaps(view)) {
                    let (name, other) = (&names[index], &names[other]);
                    return Err(BackwardError::Arguments(format!(
                        "kernel '{kernel}' writes its argument '{name}', which has elements in common with argument \
                         '{other}': a launch that is differentiated takes a copy"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Refuses an adjoint in the memory of an argument, and one of what the kernel writes, which is taken, in that of
    /// another adjoint. Others are added to, and may have elements in common.
    fn check_adjoints(
        &self,
        views: &[Option<BackwardView>],
        adjoints: &[Option<BackwardView>],
        which: &[usize],
    ) -> Result<(), BackwardError> {
        let (kernel, names, written) = (self.name(), self.names(), self.written_arrays());
        for &index in which {
            let Some(adjoint) = &adjoints[index] else { continue };
            let name = &names[index];
            if written[index] && adjoint.coincides() {
                return Err(BackwardError::Arguments(format!(
                    "kernel '{kernel}': the gradient of '{name}', which the kernel writes, is a view in which several \
                     indices are one element: give an array in which each has its own"
                )));
            }
            let overlaps = |view: &Option<BackwardView>| view.as_ref().is_some_and(|view| adjoint.overlaps(view));
            let argument = views.iter().position(overlaps).map(|other| ("the argument", other));
            let mut others = which.iter().copied().filter(|&other| other != index && overlaps(&adjoints[other]));
            let shared = argument.or_else(|| others.next().filter(|_| written[index]).map(|o| ("the gradient of", o)));
            if let Some((what, other)) = shared {
                let other = &names[other];
                return Err(BackwardError::Arguments(format!(
                    "kernel '{kernel}': the gradient of '{name}' has elements in common with {what} '{other}': give it an \
                     array of its own"
                )));
            }
        }
        Ok(())
    }

    /// Refuses an adjoint that is written and must not be. Those that are only written in a copy are left alone.
    fn check_read_only(
        &self,
        backward: &BackwardKernel,
        read_only: &[bool],
        options: &BackwardOptions,
    ) -> Result<(), BackwardError> {
        let params: Vec<usize> = (0..self.types().len()).collect();
        let first = slots(self, &params).count();
        let needs = backward.needs.adjoints.iter().zip(&backward.needs.accesses);
        for (number, (&index, &access)) in needs.enumerate() {
            let is_written = match access {
                AdjointAccess::Reads => true,
                _ if options.accumulate => backward.kernel.writes(first + number),
                AdjointAccess::Writes => false,
                AdjointAccess::Both => !options.keep_seeds && backward.kernel.writes(first + number),
            };
            if is_written && read_only.get(index) == Some(&true) {
                return Err(BackwardError::Arguments(format!(
                    "kernel '{}': the gradient of '{}' is written but read-only: give one that may be written, such as \
                     np.array(g)",
                    self.name(),
                    self.names()[index]
                )));
            }
        }
        Ok(())
    }

    /// The arrays as the launch leaves them, in the mode `strict`: the backward kernel compares them with what it finds.
    unsafe fn left_by_launch(
        &self,
        run: &BackwardRun<'_>,
        backward: &BackwardKernel,
    ) -> Result<(Vec<ArgArray>, Vec<TemporaryArray>), BackwardError> {
        if backward.needs.after.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        // SAFETY: passed on to the caller.
        let (copies, kept) = unsafe { run.copied(&backward.needs.writes)? };
        let strict = self.strict();
        let kernel: &Kernel = strict.map_or(self, |strict| strict);
        let mut block = ArgBlock::new();
        for (slot, copy) in copies.iter().enumerate() {
            let pushed = match copy {
                Some(copy) => block.push_array(kernel.params(), copy),
                None => block.same_as(kernel.params(), run.args, self.params(), slot),
            };
            debug_assert_eq!(pushed, Ok(()), "the strict kernel takes what the kernel takes");
        }
        (run.run)(kernel, run.shape, &block).map_err(|error| {
            let kernel = strict.cloned().unwrap_or_else(|| backward.kernel.clone());
            BackwardError::Launch { kernel, error }
        })?;
        let params: Vec<usize> = (0..self.types().len()).collect();
        let slot_of = |param: usize| slots(self, &params).find(|&(_, &of)| of == param).map(|(slot, _)| slot);
        let after = backward.needs.after.iter().filter_map(|&param| copies.get(slot_of(param)?)?.clone());
        Ok((after.collect(), kept))
    }

    /// The backward kernel that is launched, and what tapes it needs: one with checkpoints where loops are so long that
    /// few threads would have a place.
    ///
    /// # Safety
    ///
    /// As [`BackwardKernel::plan_of`].
    unsafe fn planned(
        &self,
        request: &DerivativeRequest,
        backward: Arc<BackwardKernel>,
        run: &BackwardRun<'_>,
        limits: TapeLimits,
    ) -> Result<(Arc<BackwardKernel>, Option<TapePlan>), BackwardError> {
        // SAFETY: passed on to the caller.
        let plan = unsafe { backward.plan_of(run, limits)? };
        if !plan.as_ref().is_some_and(|plan| plan.is_cramped) {
            return Ok((backward, plan));
        }
        // Both ways are planned, because rows may be longer than what is read of them.
        let rows: &[bool] = if backward.needs.records_rows { &[false, true] } else { &[false] };
        let mut best: Option<(Arc<BackwardKernel>, TapePlan)> = None;
        for &rows in rows {
            let other = self.backward(&DerivativeRequest { checkpoints: true, rows, ..request.clone() })?;
            // SAFETY: as above.
            let plan = unsafe { other.plan_of(run, limits)? };
            let Some(plan) = plan else { return Ok((other, None)) };
            if best.as_ref().is_none_or(|(_, known)| plan.per_place < known.per_place) {
                best = Some((other, plan));
            }
        }
        Ok(best.map_or((backward, plan), |(backward, plan)| (backward, Some(plan))))
    }
}

/// Adds the elements of a dense array to those of another one of the same extents, in which several indices may be one
/// element: to that, all is added.
///
/// # Safety
///
/// Both are live, and have no elements in common.
unsafe fn add_to(to: &ArgArray, part: &ArgArray, queue: &Arc<dyn Queue>) -> Result<(), DeviceFailure> {
    let span = to.layout.span();
    let n_bytes = (span.end - span.start) as usize;
    let (mut there, mut terms) = (vec![0; n_bytes], vec![0; part.layout.n_bytes() as usize]);
    // SAFETY: the caller vouches for the arrays; between the elements of the one there is memory of what it is a view of.
    unsafe {
        memory_of(to, queue).read(span.start, &mut there)?;
        memory_of(part, queue).read(part.layout.base, &mut terms)?;
    }
    let size = to.elem.bytes() as usize;
    let mut indices = vec![0u64; to.layout.extents.len()];
    for term in terms.chunks_exact(size) {
        let offset = indices.iter().zip(&to.layout.strides).fold(to.layout.base, |address, (&index, &stride)| {
            address.wrapping_add_signed((index as i64).wrapping_mul(stride))
        });
        let at = (offset - span.start) as usize;
        let sum = sum_of(to.elem, &there[at..at + size], term);
        there[at..at + size].copy_from_slice(&sum[..size]);
        for (index, &extent) in indices.iter_mut().zip(&to.layout.extents).rev() {
            *index += 1;
            if *index < extent {
                break;
            }
            *index = 0;
        }
    }
    let elements = ArrayLayout { base: there.as_ptr() as u64 + (to.layout.base - span.start), ..to.layout.clone() };
    let gathered = TemporaryArray::empty(to.elem, &to.layout.extents, false, queue)?;
    // SAFETY: both are the host's, and just made.
    unsafe { gathered.array.layout.copy_from(&CpuQueue, &elements)? };
    let mut bytes = vec![0; to.layout.n_bytes() as usize];
    // SAFETY: as above.
    unsafe { CpuQueue.read(gathered.array.layout.base, &mut bytes)? };
    // SAFETY: the caller vouches for the array.
    let buffer = unsafe { DeviceBuffer::borrowed(memory_of(to, queue), span.start, n_bytes) };
    buffer.write(&to.layout, &bytes)
}

/// The sum of two numbers of a floating-point type, rounded once.
fn sum_of(elem: Scalar, a: &[u8], b: &[u8]) -> [u8; 8] {
    let bits = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (a, b) = (bits(a), bits(b));
    let sum = match elem {
        Scalar::F64 => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        Scalar::F32 => (f32::from_bits(a as u32) + f32::from_bits(b as u32)).to_bits().into(),
        // Halves are added as `f64`, because the sum of two is such a number, so that it is rounded once.
        Scalar::F16 => f16_from_f64(f64::from(f16_to_f32(a as u16)) + f64::from(f16_to_f32(b as u16))).into(),
        Scalar::BF16 => bf16_from_f64(f64::from(bf16_to_f32(a as u16)) + f64::from(bf16_to_f32(b as u16))).into(),
        _ => a.wrapping_add(b),
    };
    sum.to_le_bytes()
}
