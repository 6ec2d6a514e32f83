//! Plans: sequences of bound launches, copies and steps of the host that run in one call.
//!
//! Neighbouring launches over the same threads become one kernel where that changes no bit of what they write:
//! [`polyloom_passes::fusion`] says when.
//!
//! Design: `docs/design/plans.md`.

use crate::bound_launch::BoundLaunch;
use crate::kernel::Kernel;
use crate::launch_group::{EndedGroup, FusedKernels, GroupMember, LaunchGroup, ParamSources, rebind_fused};
use polyloom_runtime::{ArrayLayout, DeviceFailure, LaunchError, LaunchOptions, Queue};
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

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
    /// Whose the parameters of the one kernel are; empty if there is one step.
    sources: ParamSources,
    /// The reason for which the next step is not part of this; nothing if there is none.
    ends_because: Option<String>,
}

/// Launches and steps of the host, in order.
pub struct Plan {
    units: Vec<PlanUnit>,
    n_steps: usize,
    fuses: bool,
    /// For each step what decided about it, if launches may become one and it is one.
    members: Vec<Option<GroupMember>>,
    fused: FusedKernels,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("units", &self.units).finish_non_exhaustive()
    }
}

impl Plan {
    /// Makes a plan of steps. With `fuses`, neighbouring launches become one where that changes nothing.
    pub fn new(steps: Vec<PlanStep>, fuses: bool) -> Plan {
        Plan::made(steps, fuses, FusedKernels::default())
    }

    /// Makes a plan of other steps, which takes over the kernels that this one's launches have become.
    #[must_use]
    pub fn with_steps(self, steps: Vec<PlanStep>) -> Plan {
        Plan::made(steps, self.fuses, self.fused)
    }

    fn made(steps: Vec<PlanStep>, fuses: bool, fused: FusedKernels) -> Plan {
        let n_steps = steps.len();
        let mut members = Vec::new();
        if fuses {
            members.resize_with(n_steps, || None);
        }
        let mut plan = Plan { units: Vec::new(), n_steps, fuses, members, fused };
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
                    plan.end_group(&mut group, reason);
                    let steps = number..number + 1;
                    plan.units.push(PlanUnit { steps, run: step, sources: Vec::new(), ends_because: None });
                    continue;
                }
            };
            if let Err((candidate, reason)) = group.add(GroupMember::new(number, launch), &mut plan.fused) {
                plan.end_group(&mut group, Some(reason));
                // The result is dropped, because an empty group takes any launch.
                let _ = group.add(*candidate, &mut plan.fused);
            }
        }
        plan.end_group(&mut group, None);
        plan
    }

    /// Makes a unit of a group, which is empty afterwards.
    fn end_group(&mut self, group: &mut LaunchGroup, reason: Option<String>) {
        let Some(EndedGroup { steps, members, fused }) = group.end(&mut self.fused) else { return };
        let one = || members.first().map(|member| (member.launch().clone(), ParamSources::new()));
        if let Some((launch, sources)) = fused.or_else(one) {
            let run = PlanStep::Launch(launch);
            self.units.push(PlanUnit { steps: steps.clone(), run, sources, ends_because: reason });
        }
        for (step, member) in steps.zip(members) {
            self.members[step] = Some(member);
        }
    }

    /// Replaces launches, each given with the number of its step, by launches of the same kernels that differ in their
    /// arguments. What has become one kernel stays that, with other arguments, if arrays overlap as they did: where the
    /// same memory was, there is the same memory. Otherwise it gives false, and another plan is to be made, because this
    /// one may have taken some of the arguments.
    #[must_use]
    pub fn rebind(&mut self, launches: &[(usize, Arc<BoundLaunch>)]) -> bool {
        if !self.fuses {
            for (step, launch) in launches {
                let Some(PlanUnit { run: PlanStep::Launch(own), .. }) = self.units.get_mut(*step) else { return false };
                *own = launch.clone();
            }
            return true;
        }
        let mut rebound: Vec<(usize, GroupMember)> = Vec::with_capacity(launches.len());
        for (step, launch) in launches {
            let known = self.members.get(*step).and_then(Option::as_ref);
            let Some(member) = known.and_then(|member| member.rebound(launch)) else { return false };
            rebound.push((*step, member));
        }
        if !self.has_same_relations(&rebound) {
            return false;
        }
        let mut last = None;
        let numbers: Vec<usize> = rebound.iter().map(|(step, _)| self.unit_of(*step)).collect();
        for (step, member) in rebound {
            self.members[step] = Some(member);
        }
        for number in numbers {
            if last.replace(number) == Some(number) {
                continue;
            }
            let PlanUnit { steps, run: PlanStep::Launch(own), sources, .. } = &mut self.units[number] else {
                return false;
            };
            let member = |number: usize| self.members.get(steps.start + number).and_then(Option::as_ref);
            match member(0) {
                Some(one) if steps.len() == 1 => *own = one.launch().clone(),
                _ if rebind_fused(own, sources, member) => {}
                _ => return false,
            }
        }
        true
    }

    /// Returns true if the arrays of launches are to those that decide with them what those before them were: of a unit
    /// all launches, and the one after it, which is not part of it because of them.
    fn has_same_relations(&self, rebound: &[(usize, GroupMember)]) -> bool {
        let before = |step: usize| self.members.get(step).and_then(Option::as_ref);
        let now = |step: usize| {
            let member = rebound.iter().find(|&&(number, _)| number == step);
            member.map(|(_, member)| member).or_else(|| before(step))
        };
        rebound.iter().all(|(step, member)| {
            let Some(known) = before(*step) else { return false };
            if member.has_arrays_of(known) {
                return true;
            }
            let number = self.unit_of(*step);
            let steps = self.units[number].steps.clone();
            let first = match number.checked_sub(1).map(|last| &self.units[last].steps) {
                Some(last) if steps.start == *step => last.start,
                _ => steps.start,
            };
            (first..=steps.end).all(|other| match (now(other), before(other)) {
                (Some(other), Some(other_known)) if other_known.step() < *step => {
                    other.relates_as(member, other_known, known)
                }
                (Some(other), Some(other_known)) => member.relates_as(other, known, other_known),
                // The host's, or none.
                _ => true,
            })
        })
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

    /// Returns the steps that a unit is; none past the last unit.
    pub fn unit_steps(&self, number: usize) -> Range<usize> {
        self.units.get(number).map_or(self.n_steps..self.n_steps, |unit| unit.steps.clone())
    }

    /// Returns the unit that a step is part of; past the last step, the number of units.
    pub fn unit_of(&self, step: usize) -> usize {
        self.units.partition_point(|unit| unit.steps.end <= step)
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
