//! Plans: sequences of bound launches, copies and steps of the host that run in one call.
//!
//! Neighbouring launches over the same threads become one kernel where that changes no bit of what they write:
//! [`polyloom_passes::fusion`] says when.
//!
//! Design: `docs/design/plans.md`.

use crate::bound_launch::BoundLaunch;
use crate::kernel::Kernel;
use polyloom_ir::{Composite, MAX_DIMS, SourceMap, Type};
use polyloom_passes::fusion::{self, ArrayUse, FusedPart};
use polyloom_runtime::{ArgBlock, ArrayLayout, DeviceFailure, Footprint, LaunchError, LaunchOptions, Queue};
use smallvec::SmallVec;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Most launches that become one.
const MAX_FUSED: usize = 16;
/// Most parameters of a fused kernel, because as many arrays of four axes fill the 4 KiB that any version of PTX allows.
const MAX_PARAMS: usize = 48;

/// What a step of the host fails with.
pub type HostError = Box<dyn Error + Send + Sync>;

/// A step of a plan.
#[derive(Clone)]
pub enum PlanStep {
    /// A launch.
    Launch(Arc<BoundLaunch>),
    /// A copy between arrays on one device.
    Copy(Arc<BoundCopy>),
    /// Something that the host does between launches.
    Host(Arc<dyn Fn() -> Result<(), HostError> + Send + Sync>),
}

/// A copy of the elements of an array to those of another one on the same device, of the same extents and size.
#[derive(Clone)]
pub struct BoundCopy {
    /// The queue that it runs in.
    pub queue: Arc<dyn Queue>,
    /// The array that is written.
    pub to: ArrayLayout,
    /// The array that is read.
    pub from: ArrayLayout,
}

impl fmt::Debug for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanStep::Launch(launch) => launch.fmt(f),
            PlanStep::Copy(copy) => write!(f, "copy on {}", copy.queue.device()),
            PlanStep::Host(_) => f.write_str("the host"),
        }
    }
}

/// Why a plan ended early.
#[derive(Debug)]
pub struct PlanError {
    /// The first of the steps that ran as one, by its number among the steps that the plan was made of.
    pub step: usize,
    /// The kernel, if the step is a launch.
    pub kernel: Option<Arc<Kernel>>,
    /// What went wrong.
    pub cause: PlanErrorCause,
}

/// What went wrong in a step of a plan.
#[derive(Debug)]
pub enum PlanErrorCause {
    /// A launch failed.
    Launch(LaunchError),
    /// A copy failed.
    Copy(DeviceFailure),
    /// A step of the host failed.
    Host(HostError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of the plan: ", self.step)?;
        match &self.cause {
            PlanErrorCause::Launch(error) => error.fmt(f),
            PlanErrorCause::Copy(error) => error.fmt(f),
            PlanErrorCause::Host(error) => error.fmt(f),
        }
    }
}

impl Error for PlanError {}

/// What runs at a time: a step, or several that are one kernel.
#[derive(Debug)]
struct PlanUnit {
    /// The steps.
    steps: Range<usize>,
    run: PlanStep,
    /// The reason for which the next step is not part of this; nothing if there is none.
    ends_because: Option<String>,
}

/// Launches and steps of the host, in order.
#[derive(Debug)]
pub struct Plan {
    units: Vec<PlanUnit>,
    n_steps: usize,
}

impl Plan {
    /// Makes a plan of steps. With `fuses`, neighbouring launches become one where that changes nothing.
    pub fn new(steps: Vec<PlanStep>, fuses: bool) -> Plan {
        let n_steps = steps.len();
        let mut units = Vec::new();
        let mut group = LaunchGroup::default();
        for (number, step) in steps.into_iter().enumerate() {
            let launch = match step {
                PlanStep::Launch(launch) if fuses => launch,
                step => {
                    let reason = match step {
                        PlanStep::Host(_) => Some(format!("step {number} is the host's")),
                        PlanStep::Copy(_) => Some(format!("step {number} is a copy")),
                        PlanStep::Launch(_) => None,
                    };
                    group.end(&mut units, reason);
                    units.push(PlanUnit { steps: number..number + 1, run: step, ends_because: None });
                    continue;
                }
            };
            if let Err((candidate, reason)) = group.add(GroupMember::new(number, launch)) {
                group.end(&mut units, Some(reason));
                // The result is dropped, because an empty group takes any launch.
                let _ = group.add(candidate);
            }
        }
        group.end(&mut units, None);
        Plan { units, n_steps }
    }

    /// Number of steps that it was made of.
    pub fn len(&self) -> usize {
        self.n_steps
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.n_steps == 0
    }

    /// Number of units: steps, or several that are one kernel.
    pub fn n_units(&self) -> usize {
        self.units.len()
    }

    /// Returns what runs as one kernel and what does not, and why: a line for each unit.
    pub fn explain(&self) -> Vec<String> {
        let describe = |unit: &PlanUnit| {
            let Range { start, end } = unit.steps;
            let mut line = match &unit.run {
                PlanStep::Host(_) | PlanStep::Copy(_) => format!("step {start}: {:?}", unit.run),
                PlanStep::Launch(launch) if end - start == 1 => format!("step {start}: {}", launch.kernel().name()),
                PlanStep::Launch(launch) => {
                    format!("steps {start} to {}: one kernel, {}", end - 1, launch.kernel().name())
                }
            };
            if let Some(reason) = &unit.ends_because {
                line += &format!("; apart from step {end}: {reason}");
            }
            line
        };
        self.units.iter().map(describe).collect()
    }

    /// Runs units from one on that are launches known to take a few microseconds at most, on this thread, until one is
    /// not. Gives the number of that unit, or how many there are.
    ///
    /// # Errors
    ///
    /// [`PlanError`] of the first step that fails; those after it have not run.
    ///
    /// # Safety
    ///
    /// As [`Plan::run`].
    #[inline]
    pub unsafe fn run_short_units(&self, from: usize) -> Result<usize, PlanError> {
        for (number, unit) in self.units.iter().enumerate().skip(from) {
            let PlanStep::Launch(launch) = &unit.run else { return Ok(number) };
            // SAFETY: passed on to the caller.
            match unsafe { launch.run_if_short() } {
                None => return Ok(number),
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(unit.failed(error)),
            }
        }
        Ok(self.units.len())
    }

    /// Runs one unit.
    ///
    /// # Errors
    ///
    /// [`PlanError`].
    ///
    /// # Safety
    ///
    /// As [`Plan::run`].
    pub unsafe fn run_unit(&self, number: usize, options: &LaunchOptions<'_>) -> Result<(), PlanError> {
        let Some(unit) = self.units.get(number) else { return Ok(()) };
        match &unit.run {
            // SAFETY: passed on to the caller.
            PlanStep::Launch(launch) => match unsafe { launch.run(options) } {
                Ok(_) => Ok(()),
                Err(error) => Err(unit.failed(error)),
            },
            // SAFETY: as above.
            PlanStep::Copy(copy) => unsafe { copy.to.copy_from(&*copy.queue, &copy.from) }
                .map_err(|failure| unit.failed_with(PlanErrorCause::Copy(failure))),
            PlanStep::Host(step) => step().map_err(|error| unit.failed_with(PlanErrorCause::Host(error))),
        }
    }

    /// Returns the launch that a unit runs, if it is one.
    pub fn unit_launch(&self, number: usize) -> Option<&BoundLaunch> {
        match &self.units.get(number)?.run {
            PlanStep::Launch(launch) => Some(launch),
            PlanStep::Copy(_) | PlanStep::Host(_) => None,
        }
    }

    /// Runs all steps in order.
    ///
    /// # Errors
    ///
    /// [`PlanError`] of the first step that fails; those after it have not run.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`] for each of the launches, and as [`ArrayLayout::copy_from`] for each of the copies.
    pub unsafe fn run(&self, options: &LaunchOptions<'_>) -> Result<(), PlanError> {
        let mut next = 0;
        while next < self.units.len() {
            // SAFETY: passed on to the caller.
            unsafe {
                next = self.run_short_units(next)?;
                self.run_unit(next, options)?;
            }
            next += 1;
        }
        Ok(())
    }
}

impl PlanUnit {
    #[cold]
    fn failed(&self, error: LaunchError) -> PlanError {
        let kernel = match &self.run {
            PlanStep::Launch(launch) => Some(launch.kernel().clone()),
            PlanStep::Copy(_) | PlanStep::Host(_) => None,
        };
        PlanError { kernel, ..self.failed_with(PlanErrorCause::Launch(error)) }
    }

    #[cold]
    fn failed_with(&self, cause: PlanErrorCause) -> PlanError {
        PlanError { step: self.steps.start, kernel: None, cause }
    }
}

/// Neighbouring launches that become one.
#[derive(Default)]
struct LaunchGroup {
    members: Vec<GroupMember>,
    n_params: usize,
    /// The launch that they are, if there are several.
    fused: Option<BoundLaunch>,
}

/// A launch, and what decides which others it can be one with.
struct GroupMember {
    step: usize,
    launch: Arc<BoundLaunch>,
    /// The reason for which it stays by itself.
    refusal: Option<String>,
    /// The arrays among its arguments.
    arrays: Vec<BoundArray>,
}

/// An array argument of a launch.
struct BoundArray {
    /// The parameter of the kernel's HIR.
    param: usize,
    /// The parameter of the argument block.
    slot: usize,
    footprint: Footprint,
    is_written: bool,
    use_: ArrayUse,
}

impl GroupMember {
    fn new(step: usize, launch: Arc<BoundLaunch>) -> GroupMember {
        let kernel = launch.kernel().clone();
        let (module, id) = kernel.module();
        let mut refusal = fusion::refusal(module, id).map(str::to_owned);
        let options =
            LaunchOptions { grid: launch.grid(), unchecked: launch.is_unchecked(), ..LaunchOptions::default() };
        if refusal.is_none() && kernel.verify_accesses(launch.shape(), launch.args(), &options).is_err() {
            refusal = Some("one of its threads would access an array outside".to_owned());
        }
        let mut arrays = Vec::new();
        if refusal.is_none() {
            let uses = fusion::array_uses(module, id);
            let footprints = launch.args().footprints().iter();
            let slots = slots_of(&kernel).into_iter().enumerate().filter(|&(param, _)| is_array(&kernel, param));
            for ((param, slots), &footprint) in slots.zip(footprints) {
                let (slot, use_) = (slots.start, uses[param].clone());
                arrays.push(BoundArray { param, slot, footprint, is_written: kernel.writes(slot), use_ });
            }
        }
        GroupMember { step, launch, refusal, arrays }
    }

    fn name(&self) -> &str {
        self.launch.kernel().name()
    }

    fn array_name(&self, array: &BoundArray) -> &str {
        &self.launch.kernel().names()[array.param]
    }

    /// Returns why this, launched before the other, cannot be one kernel with it.
    fn conflict(&self, later: &GroupMember) -> Option<String> {
        let (a, b) = (&self.launch, &later.launch);
        if a.device() != b.device() || a.queue().native_handle() != b.queue().native_handle() {
            return Some("it runs in another queue".to_owned());
        }
        if a.shape() != b.shape() {
            return Some(format!("it runs over {:?} threads, and this over {:?}", b.shape(), a.shape()));
        }
        if let Some(conflict) = fusion::conflict(a.kernel().function(), b.kernel().function()) {
            return Some(conflict.to_owned());
        }
        for own in &self.arrays {
            for other in later.arrays.iter().filter(|other| own.is_written || other.is_written) {
                if !own.footprint.overlaps(&other.footprint) {
                    continue;
                }
                let (name, other_name) = (self.array_name(own), later.array_name(other));
                if !self.is_same_memory(own, later, other) {
                    return Some(format!("its `{other_name}` has a part of `{name}` of step {}", self.step));
                }
                if own.footprint.overlaps_itself() || !own.use_.is_apart(&other.use_, a.shape()) {
                    let verb = if own.is_written { "writes" } else { "reads" };
                    return Some(format!(
                        "a thread of it may come to an element of `{other_name}` that another thread of step {} \
                         {verb} as `{name}`",
                        self.step
                    ));
                }
            }
        }
        None
    }

    fn is_same_memory(&self, own: &BoundArray, later: &GroupMember, other: &BoundArray) -> bool {
        let (a, b) = (&self.launch, &later.launch);
        a.kernel().types()[own.param] == b.kernel().types()[other.param]
            && a.args().is_same(a.kernel().params(), own.slot, b.args(), b.kernel().params(), other.slot)
    }
}

impl LaunchGroup {
    /// Adds a launch, which may be one with those of the group; gives it back, and why, if it may not. An empty group
    /// takes any.
    fn add(&mut self, candidate: GroupMember) -> Result<(), (GroupMember, String)> {
        if let Some(reason) = self.refusal(&candidate) {
            return Err((candidate, reason));
        }
        if !self.members.is_empty() {
            let members: Vec<&GroupMember> = self.members.iter().chain([&candidate]).collect();
            let Some(launch) = fused(&members) else {
                return Err((candidate, "one kernel would be too large".to_owned()));
            };
            self.fused = Some(launch);
        }
        self.n_params += candidate.launch.kernel().types().len();
        self.members.push(candidate);
        Ok(())
    }

    /// Returns why a launch cannot be one with those of the group, whatever kernel they would become.
    fn refusal(&self, candidate: &GroupMember) -> Option<String> {
        let last = self.members.last()?;
        if let Some(refusal) = &last.refusal {
            return Some(format!("`{}` stays by itself: {refusal}", last.name()));
        }
        if let Some(refusal) = &candidate.refusal {
            return Some(format!("`{}` stays by itself: {refusal}", candidate.name()));
        }
        if self.members.len() == MAX_FUSED || self.n_params + candidate.launch.kernel().types().len() > MAX_PARAMS {
            return Some("one kernel would have too many parameters".to_owned());
        }
        self.members.iter().find_map(|member| member.conflict(candidate))
    }

    /// Makes a unit of the group, which is empty afterwards.
    fn end(&mut self, units: &mut Vec<PlanUnit>, reason: Option<String>) {
        let LaunchGroup { members, fused, .. } = std::mem::take(self);
        let (Some(first), Some(last)) = (members.first(), members.last()) else { return };
        let steps = first.step..last.step + 1;
        let launch = fused.map_or_else(|| first.launch.clone(), Arc::new);
        units.push(PlanUnit { steps, run: PlanStep::Launch(launch), ends_because: reason });
    }
}

/// The launch of the kernel that several become; nothing if that would be too large.
fn fused(members: &[&GroupMember]) -> Option<BoundLaunch> {
    let mut shared: Vec<(&GroupMember, &BoundArray, usize)> = Vec::new();
    let mut sources: Vec<(&GroupMember, usize)> = Vec::new();
    let mut params: Vec<Vec<usize>> = Vec::new();
    for &member in members {
        let of_member = (0..member.launch.kernel().types().len()).map(|param| {
            let array = member.arrays.iter().find(|array| array.param == param);
            let known = array.and_then(|array| {
                let is_it = |&&(other, held, _): &&(&GroupMember, &BoundArray, usize)| {
                    other.is_same_memory(held, member, array)
                };
                shared.iter().find(is_it).map(|&(_, _, number)| number)
            });
            known.unwrap_or_else(|| {
                sources.push((member, param));
                if let Some(array) = array {
                    shared.push((member, array, sources.len() - 1));
                }
                sources.len() - 1
            })
        });
        params.push(of_member.collect());
    }
    let parts: Vec<FusedPart<'_>> = members
        .iter()
        .zip(&params)
        .map(|(member, params)| {
            let (module, kernel) = member.launch.kernel().module();
            FusedPart { module, kernel, params }
        })
        .collect();
    let names: Vec<&str> = members.iter().map(|member| member.name()).collect();
    let (module, id) = fusion::fuse(&names.join("_"), &parts)?;
    let first = &members.first()?.launch;
    let kernel = Arc::new(first.kernel().of_hir(module, id, SourceMap::new()));
    let mut args = ArgBlock::new();
    for (member, param) in sources {
        let source = member.launch.kernel();
        for slot in slots_of(source)[param].clone() {
            let given = args.same_as(kernel.params(), member.launch.args(), source.params(), slot);
            debug_assert_eq!(given, Ok(()), "arguments of the parts are those of the fused kernel");
            given.ok()?;
        }
    }
    // Indices are not verified again, because those of each part have been, as far as they are known before a launch.
    let options = LaunchOptions { grid: first.grid(), unchecked: true, ..LaunchOptions::default() };
    Some(BoundLaunch::new(kernel, first.queue().clone(), first.shape(), args, &options))
}

fn is_array(kernel: &Kernel, param: usize) -> bool {
    kernel.types()[param].as_any_array().is_some()
}

/// For each parameter of a kernel's HIR, those of its argument block: one for each component of a composite.
fn slots_of(kernel: &Kernel) -> SmallVec<[Range<usize>; 2 * MAX_DIMS]> {
    let mut next = 0;
    let slots = kernel.types().iter().map(|ty: &Type| {
        let first = next;
        next += ty.as_composite().map_or(1, Composite::n_components);
        first..next
    });
    slots.collect()
}
