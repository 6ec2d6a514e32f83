//! Large launches in two parts, for two devices.
//!
//! A launch is cut along its first axis if each element that its threads write is accessed by one thread alone, as far as HIR shows
//! ([`polyloom_passes::fusion::LaunchPart`]). The parts are tasks of their own, whose accesses are the elements of their threads: they
//! write different segments, and what they do not read is not copied. Each computes what the threads would have computed in the whole, to the bit.

use super::{GivenTimes, PlannedTask, RecordedTask, Task, TaskAccess, TaskGraph, TaskModels, TaskPlan};
use polyloom_ir::{Composite, Scalar};
use polyloom_runtime::ArgBlock;
use std::sync::Arc;

/// The shortest launch that is worth a second one, in nanoseconds.
const LEAST_NS: f64 = 20_000.0;
/// The launches that are tried in parts, the longest first.
const MOST_LAUNCHES: usize = 8;
/// Plans of more tasks are left as they are, because each trial places all tasks anew.
const MOST_TASKS: usize = 64;
/// The predicted gain by which parts have to pay.
const LEAST_GAIN: f64 = 0.05;

impl TaskGraph {
    /// Returns the plan with launches in two parts where that makes it shorter.
    pub(super) fn in_parts(&self, plan: TaskPlan, models: &TaskModels, given: &mut GivenTimes<'_>) -> TaskPlan {
        if self.devices.len() < 2 || plan.tasks.len() > MOST_TASKS {
            return plan;
        }
        let mut longest: Vec<(f64, usize)> =
            plan.schedule.tasks.iter().map(|placed| (placed.end - placed.begin, plan.sources[placed.task])).collect();
        longest.retain(|&(ns, _)| ns >= LEAST_NS);
        longest.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best = plan;
        for &(_, source) in longest.iter().take(MOST_LAUNCHES) {
            let Some(at) = best.tasks.iter().position(|planned| planned.source == source) else { continue };
            let recorded = best.tasks[at].recorded.clone();
            let extent = recorded.task.shape.first().copied().unwrap_or(0);
            if recorded.task.device.is_some() || extent < 2 {
                continue;
            }
            let mut cuts: Vec<u64> = [1, 2, 3, 4, 5, 6, 7].map(|eighths| extent * eighths / 8).into();
            cuts.extend(self.balanced(&recorded, source, extent, models, given));
            cuts.retain(|&cut| cut > 0 && cut < extent);
            cuts.sort_unstable();
            cuts.dedup();
            let mut shortest: Option<TaskPlan> = None;
            for cut in cuts {
                let Some(parts) = recorded.parts(cut) else { break };
                let fraction = cut as f64 / extent as f64;
                let mut tasks = best.tasks.clone();
                let of_parts = parts.into_iter().zip([fraction, 1.0 - fraction]);
                let of_parts =
                    of_parts.map(|(part, fraction)| PlannedTask { recorded: Arc::new(part), source, fraction });
                tasks.splice(at..=at, of_parts);
                let Ok(plan) = self.placed(tasks, models, given) else { continue };
                if shortest.as_ref().is_none_or(|known| plan.schedule.makespan < known.schedule.makespan) {
                    shortest = Some(plan);
                }
            }
            let limit = (1.0 - LEAST_GAIN) * best.schedule.makespan;
            if let Some(plan) = shortest.filter(|plan| plan.schedule.makespan < limit) {
                best = plan;
            }
        }
        best
    }

    /// Returns the cut by which the two fastest devices take equally long, either way round.
    fn balanced(
        &self,
        recorded: &RecordedTask,
        source: usize,
        extent: u64,
        models: &TaskModels,
        given: &mut GivenTimes<'_>,
    ) -> Vec<u64> {
        let n_bytes = recorded.accesses.iter().map(|access| access.layout.n_bytes()).fold(0, u64::saturating_add);
        let n_threads = recorded.task.n_threads();
        let mut times: Vec<f64> = self
            .devices
            .iter()
            .map(|&id| given(source, id).unwrap_or_else(|| models.kernel_ns(recorded.key, id, n_threads, n_bytes)))
            .filter(|ns| ns.is_finite() && *ns > 0.0)
            .collect();
        times.sort_by(f64::total_cmp);
        let &[first, second, ..] = &times[..] else { return Vec::new() };
        let cut = (extent as f64 * second / (first + second)).round() as u64;
        vec![cut, extent.saturating_sub(cut)]
    }
}

impl RecordedTask {
    /// Returns the task as two: the threads below a coordinate along the first axis, and the others. Nothing if it has no parts.
    fn parts(&self, cut: u64) -> Option<[RecordedTask; 2]> {
        let whole = &self.task.kernel;
        let (kernel, part) = whole.part()?;
        let shape = &self.task.shape;
        let mut slot = 0;
        let mut slots = Vec::new();
        for ty in whole.types() {
            slots.push(slot);
            slot += ty.as_composite().map_or(1, Composite::n_components);
        }
        let written: Vec<bool> = slots.iter().map(|&slot| whole.writes(slot)).collect();
        let windows = part.windows(&written, shape)?;
        let arrays = whole.types().iter().zip(windows).filter(|(ty, _)| ty.as_any_array().is_some());
        let windows: Vec<Option<(usize, i64, i64)>> = arrays.map(|(_, window)| window).collect();
        let of = |begin: u64, end: u64| {
            let mut args = ArgBlock::new();
            for param in 0..whole.params().len() {
                args.same_as(kernel.params(), &self.task.args, whole.params(), param).ok()?;
            }
            args.scalar(kernel.params(), Scalar::I32, begin).ok()?;
            let accesses = self.accesses.iter().zip(&windows);
            let accesses =
                accesses.map(|(access, window)| access.window(*window, begin, end)).collect::<Option<_>>()?;
            let mut task = Task { kernel: kernel.clone(), args, ..self.task.clone() };
            task.shape[0] = end - begin;
            Some(RecordedTask { task, key: self.key, accesses, prints: false })
        };
        Some([of(0, cut)?, of(cut, *shape.first()?)?])
    }
}

impl TaskAccess {
    /// Returns the elements that threads with some coordinates access, which index an axis by a factor of theirs and an offset.
    fn window(&self, window: Option<(usize, i64, i64)>, begin: u64, end: u64) -> Option<TaskAccess> {
        let mut access = self.clone();
        let Some((axis, factor, offset)) = window else { return Some(access) };
        let first = i64::try_from(begin).ok()?.checked_mul(factor)?.checked_add(offset)?;
        let n = u64::try_from(factor).ok()?.checked_mul(end - begin - 1)?.checked_add(1)?;
        let (&extent, &stride) = (access.layout.extents.get(axis)?, access.layout.strides.get(axis)?);
        // A launch that is not compared with extents may be outside of them.
        if u64::try_from(first).ok()?.checked_add(n)? > extent {
            return None;
        }
        access.layout.base = access.layout.base.wrapping_add_signed(first.checked_mul(stride)?);
        access.layout.extents[axis] = n;
        Some(access)
    }
}
