//! Neighbouring launches that become one kernel: which may, and the launch that they become.
//!
//! A [`Plan`](crate::Plan) adds its launches to a [`LaunchGroup`] one by one. What decides is what a launch is given: the
//! kernel, the threads, and how its arrays lie in memory relative to those of the others. As long as these relations stay
//! what they were, other arguments need no other kernel ([`GroupMember::relates_as`]).
//!
//! Design: `docs/design/plans.md`.

use crate::bound_launch::BoundLaunch;
use crate::kernel::Kernel;
use polyloom_ir::{Composite, FuncId, MAX_DIMS, Module, SourceMap, Type};
use polyloom_passes::fusion::{self, ArrayUse, FusedPart};
use polyloom_runtime::{ArgBlock, Footprint, LaunchOptions};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Most launches that become one.
const MAX_FUSED: usize = 16;
/// Most parameters of a fused kernel, because as many arrays of four axes fill the 4 KiB that any version of PTX allows.
const MAX_PARAMS: usize = 48;
/// Most groups that are remembered. The oldest is forgotten, because a plan that is changed soon has other groups.
const MAX_KNOWN: usize = 256;

/// Why a launch that would access an array outside stays by itself.
const OUTSIDE: &str = "one of its threads would access an array outside";

/// A launch, and what decides which others it can be one with.
pub(crate) struct GroupMember {
    step: usize,
    launch: Arc<BoundLaunch>,
    /// The reason for which it stays by itself.
    refusal: Option<&'static str>,
    /// The arrays among its arguments.
    arrays: Vec<BoundArray>,
}

/// An array argument of a launch.
#[derive(Clone, Copy)]
struct BoundArray {
    /// The parameter of the kernel's HIR.
    param: usize,
    /// The parameter of the argument block.
    slot: usize,
    footprint: Footprint,
    is_written: bool,
}

/// Says what two arrays have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayRelation {
    /// No element.
    Apart,
    /// Some elements, as far as is known.
    Overlapping,
    /// All: they are the same memory with the same extents and strides.
    Same,
}

impl GroupMember {
    pub(crate) fn new(step: usize, launch: Arc<BoundLaunch>) -> GroupMember {
        let kernel = launch.kernel();
        let is_outside = |launch: &BoundLaunch| accesses_outside(launch).then_some(OUTSIDE);
        let refusal = kernel.fusion_facts().refusal.or_else(|| is_outside(&launch));
        let mut arrays = Vec::new();
        if refusal.is_none() {
            let footprints = launch.args().footprints().iter();
            let slots = slots_of(kernel).into_iter().enumerate().filter(|&(param, _)| is_array(kernel, param));
            for ((param, slots), &footprint) in slots.zip(footprints) {
                let slot = slots.start;
                arrays.push(BoundArray { param, slot, footprint, is_written: kernel.writes(slot) });
            }
        }
        GroupMember { step, launch, refusal, arrays }
    }

    /// The member that another launch is in place of this one's; nothing if something differs but the arguments, or if
    /// these alone decide otherwise.
    pub(crate) fn rebound(&self, launch: &Arc<BoundLaunch>) -> Option<GroupMember> {
        let own = &self.launch;
        let is_alike = Arc::ptr_eq(own.kernel(), launch.kernel())
            && own.shape() == launch.shape()
            && own.grid() == launch.grid()
            && own.is_unchecked() == launch.is_unchecked()
            && is_same_queue(own, launch);
        let is_refused = own.kernel().fusion_facts().refusal.is_some();
        if !is_alike || (!is_refused && (self.refusal.is_some() || accesses_outside(launch))) {
            return None;
        }
        let mut arrays = self.arrays.clone();
        let params = own.kernel().params();
        let mut footprints = launch.args().footprints().iter();
        for array in &mut arrays {
            array.footprint = *footprints.next()?;
            if own.args().is_resident(array.slot) != launch.args().is_resident(array.slot) {
                return None;
            }
        }
        debug_assert!(launch.args().check_complete(params).is_ok(), "a bound launch has all arguments");
        Some(GroupMember { step: self.step, launch: launch.clone(), refusal: self.refusal, arrays })
    }

    /// Returns true if this and another launch of its kernel have the same arrays.
    pub(crate) fn has_arrays_of(&self, other: &GroupMember) -> bool {
        let (a, b) = (&self.launch, &other.launch);
        let params = a.kernel().params();
        self.arrays.iter().all(|array| a.args().is_same(params, array.slot, b.args(), params, array.slot))
    }

    /// Returns true if the arrays of this and a later launch are to each other what those of the launches before them
    /// were, of the same kernels, so that one kernel does what it did.
    pub(crate) fn relates_as(&self, later: &GroupMember, before: &GroupMember, later_before: &GroupMember) -> bool {
        self.arrays.iter().zip(&before.arrays).all(|(own, own_before)| {
            let others = later.arrays.iter().zip(&later_before.arrays);
            own.footprint.overlaps_itself() == own_before.footprint.overlaps_itself()
                && others.into_iter().all(|(other, other_before)| {
                    self.relation(own, later, other) == before.relation(own_before, later_before, other_before)
                })
        })
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    pub(crate) fn launch(&self) -> &Arc<BoundLaunch> {
        &self.launch
    }

    fn relation(&self, own: &BoundArray, later: &GroupMember, other: &BoundArray) -> ArrayRelation {
        if self.is_same_memory(own, later, other) {
            ArrayRelation::Same
        } else if own.footprint.overlaps(&other.footprint) {
            ArrayRelation::Overlapping
        } else {
            ArrayRelation::Apart
        }
    }

    fn name(&self) -> &str {
        self.launch.kernel().name()
    }

    fn array_name(&self, array: &BoundArray) -> &str {
        &self.launch.kernel().names()[array.param]
    }

    fn array_use(&self, array: &BoundArray) -> &ArrayUse {
        &self.launch.kernel().fusion_facts().uses[array.param]
    }

    /// Returns why this, launched before the other, cannot be one kernel with it.
    fn conflict(&self, later: &GroupMember) -> Option<String> {
        let (a, b) = (&self.launch, &later.launch);
        if !is_same_queue(a, b) {
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
                let is_apart = self.array_use(own).is_apart(later.array_use(other), a.shape());
                if own.footprint.overlaps_itself() || !is_apart {
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

fn is_same_queue(a: &BoundLaunch, b: &BoundLaunch) -> bool {
    a.device() == b.device() && a.queue().native_handle() == b.queue().native_handle()
}

/// Returns true if a launch is seen to access an array outside its extents.
fn accesses_outside(launch: &BoundLaunch) -> bool {
    let options = LaunchOptions { grid: launch.grid(), unchecked: launch.is_unchecked(), ..LaunchOptions::default() };
    launch.kernel().verify_accesses(launch.shape(), launch.args(), &options).is_err()
}

/// For each parameter of the HIR of a fused kernel, which of the launches it is a parameter of, and of these which one.
pub(crate) type ParamSources = Vec<(usize, usize)>;

/// Gives the launch that several are the arguments that these have now, which are to each other what they were. Gives
/// whether it could.
pub(crate) fn rebind_fused<'m>(
    launch: &mut Arc<BoundLaunch>,
    sources: &[(usize, usize)],
    member: impl Fn(usize) -> Option<&'m GroupMember>,
) -> bool {
    let launch = Arc::make_mut(launch);
    let mut next = 0;
    for &(number, param) in sources {
        let Some(member) = member(number) else { return false };
        for slot in slots_of(member.launch.kernel())[param].clone() {
            if launch.rebind_same_as(next, &member.launch, slot).is_err() {
                return false;
            }
            next += 1;
        }
    }
    true
}

/// The parameters of the kernel that several launches become.
struct FusedParams {
    sources: ParamSources,
    /// For each launch, which parameters of the fused kernel its own are. The same memory is one parameter.
    of_members: Vec<Vec<usize>>,
}

impl FusedParams {
    fn new(members: &[GroupMember]) -> FusedParams {
        let mut shared: Vec<(&GroupMember, &BoundArray, usize)> = Vec::new();
        let (mut sources, mut of_members) = (Vec::new(), Vec::new());
        for (number, member) in members.iter().enumerate() {
            let of_member = (0..member.launch.kernel().types().len()).map(|param| {
                let array = member.arrays.iter().find(|array| array.param == param);
                let known = array.and_then(|array| {
                    let is_it = |&&(other, held, _): &&(&GroupMember, &BoundArray, usize)| {
                        other.is_same_memory(held, member, array)
                    };
                    shared.iter().find(is_it).map(|&(_, _, number)| number)
                });
                known.unwrap_or_else(|| {
                    sources.push((number, param));
                    if let Some(array) = array {
                        shared.push((member, array, sources.len() - 1));
                    }
                    sources.len() - 1
                })
            });
            of_members.push(of_member.collect());
        }
        FusedParams { sources, of_members }
    }
}

/// The HIR of a fused kernel.
type FusedHir = (Module, FuncId, SourceMap);

/// The kernels that groups have become, so that a plan that is made again makes none of them again.
#[derive(Default)]
pub(crate) struct FusedKernels {
    known: VecDeque<FusedKernel>,
}

struct FusedKernel {
    parts: Vec<Arc<Kernel>>,
    params: Vec<Vec<usize>>,
    /// Nothing if it would be too large.
    kernel: Option<FusedKernelState>,
}

/// Says how far a fused kernel has been made. Those of groups that have grown further are not made.
enum FusedKernelState {
    Fits,
    Made(Arc<Kernel>),
}

impl FusedKernels {
    fn find(&mut self, members: &[GroupMember], params: &FusedParams) -> Option<&mut FusedKernel> {
        let is_it = |known: &&mut FusedKernel| {
            let mut parts = known.parts.iter().zip(members);
            known.parts.len() == members.len()
                && parts.all(|(part, member)| Arc::ptr_eq(part, member.launch.kernel()))
                && known.params == params.of_members
        };
        self.known.iter_mut().find(is_it)
    }

    fn remember(&mut self, members: &[GroupMember], params: &FusedParams, kernel: Option<FusedKernelState>) {
        if let Some(known) = self.find(members, params) {
            known.kernel = kernel;
            return;
        }
        if self.known.len() == MAX_KNOWN {
            self.known.pop_front();
        }
        let parts = members.iter().map(|member| member.launch.kernel().clone()).collect();
        self.known.push_back(FusedKernel { parts, params: params.of_members.clone(), kernel });
    }
}

/// Neighbouring launches that become one.
#[derive(Default)]
pub(crate) struct LaunchGroup {
    members: Vec<GroupMember>,
    n_params: usize,
    /// The kernel that they are, if there are several and it has been made just now.
    hir: Option<FusedHir>,
}

/// The steps that a group has become.
pub(crate) struct EndedGroup {
    pub(crate) steps: Range<usize>,
    pub(crate) members: Vec<GroupMember>,
    /// The launch that several are, and whose its parameters are.
    pub(crate) fused: Option<(Arc<BoundLaunch>, ParamSources)>,
}

impl LaunchGroup {
    /// Adds a launch, which may be one with those of the group; gives it back, and why, if it may not. An empty group
    /// takes any.
    pub(crate) fn add(
        &mut self,
        candidate: GroupMember,
        known: &mut FusedKernels,
    ) -> Result<(), (Box<GroupMember>, String)> {
        if let Some(reason) = self.refusal(&candidate) {
            return Err((Box::new(candidate), reason));
        }
        self.members.push(candidate);
        if self.members.len() > 1 && !self.is_small(known) {
            let reason = "one kernel would be too large".to_owned();
            return match self.members.pop() {
                Some(candidate) => Err((Box::new(candidate), reason)),
                None => Ok(()),
            };
        }
        self.n_params += self.members.last().map_or(0, |member| member.launch.kernel().types().len());
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

    /// Tells whether the members become a kernel that is small enough. One that is too large leaves the group's as it was.
    fn is_small(&mut self, known: &mut FusedKernels) -> bool {
        let params = FusedParams::new(&self.members);
        if let Some(known) = known.find(&self.members, &params) {
            if known.kernel.is_some() {
                self.hir = None;
            }
            return known.kernel.is_some();
        }
        let hir = fuse(&self.members, &params);
        known.remember(&self.members, &params, hir.is_some().then_some(FusedKernelState::Fits));
        let is_small = hir.is_some();
        if is_small {
            self.hir = hir;
        }
        is_small
    }

    /// Makes one launch of the members. The group is empty afterwards; of one without members there is nothing.
    pub(crate) fn end(&mut self, known: &mut FusedKernels) -> Option<EndedGroup> {
        let LaunchGroup { members, hir, .. } = std::mem::take(self);
        let (first, last) = (members.first()?, members.last()?);
        let steps = first.step..last.step + 1;
        let fused = if members.len() > 1 { fused(&members, hir, known) } else { None };
        debug_assert_eq!(fused.is_some(), members.len() > 1, "members have been added because they are one kernel");
        Some(EndedGroup { steps, members, fused })
    }
}

fn fuse(members: &[GroupMember], params: &FusedParams) -> Option<FusedHir> {
    let part = |(member, params)| -> FusedPart<'_> {
        let (member, params): (&GroupMember, &Vec<usize>) = (member, params);
        let (module, kernel) = member.launch.kernel().module();
        FusedPart { module, kernel, sources: member.launch.kernel().sources(), params }
    };
    let parts: Vec<FusedPart<'_>> = members.iter().zip(&params.of_members).map(part).collect();
    let names: Vec<&str> = members.iter().map(GroupMember::name).collect();
    fusion::fuse(&names.join("_"), &parts)
}

/// The launch of the kernel that several become, whose HIR is made unless it is given or the kernel is known.
fn fused(
    members: &[GroupMember],
    hir: Option<FusedHir>,
    known: &mut FusedKernels,
) -> Option<(Arc<BoundLaunch>, ParamSources)> {
    let params = FusedParams::new(members);
    let first = &members.first()?.launch;
    let made = match known.find(members, &params) {
        Some(FusedKernel { kernel: Some(FusedKernelState::Made(kernel)), .. }) => Some(kernel.clone()),
        _ => None,
    };
    let kernel = match made {
        Some(kernel) => kernel,
        None => {
            let (module, id, sources) = hir.or_else(|| fuse(members, &params))?;
            let kernel = Arc::new(Kernel::from_hir(&first.kernel().device, module, id, sources));
            known.remember(members, &params, Some(FusedKernelState::Made(kernel.clone())));
            kernel
        }
    };
    let mut args = ArgBlock::new();
    for &(number, param) in &params.sources {
        let launch = &members[number].launch;
        for slot in slots_of(launch.kernel())[param].clone() {
            let given = args.same_as(kernel.params(), launch.args(), launch.kernel().params(), slot);
            debug_assert_eq!(given, Ok(()), "arguments of the parts are those of the fused kernel");
            given.ok()?;
        }
    }
    // Indices are not verified again, because those of each part have been, as far as they are known before a launch.
    let options = LaunchOptions { grid: first.grid(), unchecked: true, ..LaunchOptions::default() };
    let launch = Arc::new(BoundLaunch::new(kernel, first.queue().clone(), first.shape(), args, &options));
    Some((launch, params.sources))
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
