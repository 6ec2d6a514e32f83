//! The checks of a launch: what they know of memory and of the order of threads, and what they report.
//!
//! Execution shows every access, barrier and fence to `BlockState`'s `observe` functions, which are here. Nothing of it
//! runs unless a launch asks for checks or counters.

mod count;
mod uninitialised;

use crate::Sanitizers;
use crate::decode::op::{Inst, Scope};
use crate::exec::access::{Access, AccessKind, Where};
use crate::exec::warp::Warp;
use crate::exec::{BlockState, Context};
use crate::memory::window;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::Space;

/// What the checks know of one block.
pub(crate) struct BlockChecks {
    sanitize: Sanitizers,
    /// A bit for each byte of shared memory that was written.
    shared_written: Vec<u8>,
}

impl BlockChecks {
    pub(crate) fn new(sanitize: Sanitizers, shared_bytes: u32) -> Self {
        BlockChecks { sanitize, shared_written: vec![0; (shared_bytes as usize).div_ceil(8)] }
    }
}

/// The generic address of an offset.
fn generic(context: &Context<'_>, place: Where, offset: usize) -> u64 {
    match place {
        Where::Global(index) => context.memory[index].address + offset as u64,
        Where::Shared => window::base(Space::Shared) + offset as u64,
        Where::Local => window::base(Space::Local) + offset as u64,
        Where::Param => window::base(Space::Param) + offset as u64,
    }
}

/// In words, where an access goes.
fn place_name(context: &Context<'_>, place: Where, offset: usize) -> String {
    match place {
        Where::Global(_) => context.device.describe(generic(context, place, offset)),
        _ => format!("{} of shared memory", context.describe_shared(offset as u64, context.shared_bytes.into())),
    }
}

impl BlockState {
    /// Lanes of a warp are about to access memory.
    pub(crate) fn observe(
        &mut self,
        context: &Context<'_>,
        warp: &Warp,
        access: &Access<'_>,
    ) -> Result<(), Box<Finding>> {
        if context.counting {
            count::access(&mut self.counters, context, access);
        }
        if self.checks.is_some() {
            self.check_written(context, warp, access);
        }
        Ok(())
    }

    pub(crate) fn observe_fence(&mut self, _: &Context<'_>, _: u32, _: u32, _: Scope) {}
    pub(crate) fn observe_commit(&mut self, _: &Context<'_>, _: u32, _: u32) {}
    pub(crate) fn observe_wait(&mut self, _: &Context<'_>, _: u32, _: u32, _: u32) {}
    pub(crate) fn observe_warp_sync(&mut self, _: &Context<'_>, _: u32, _: u32) {}

    /// A barrier completes.
    pub(crate) fn observe_barrier(&mut self, context: &Context<'_>, id: usize) {
        let Some(checks) = &self.checks else { return };
        let (arrived, sites, for_all) = self.barrier_arrivals(id);
        if !checks.sanitize.barriers || !for_all {
            return;
        }
        let missing: u32 = arrived.iter().zip(self.present()).map(|(arrived, all)| (all & !arrived).count_ones()).sum();
        if missing > 0 {
            let inst = &context.program.code[sites[0] as usize];
            let message = format!("{missing} threads of the block have exited and never reach the barrier");
            let mut finding = context.plain_finding(FindingKind::DivergentBarrier, &message);
            finding.site = Some(context.site(inst));
            context.report(*finding);
        } else if sites.len() > 1 {
            let [first, second] = [sites[0], sites[1]].map(|pc| context.site(&context.program.code[pc as usize]));
            let message = "threads of the block reach different barriers".to_owned();
            let mut finding = context.plain_finding(FindingKind::DivergentBarrier, &message);
            finding.site = Some(first);
            finding.other = Some(second);
            context.report(*finding);
        }
    }

    /// Lanes of a warp arrive at a barrier that the whole warp should reach at once; `apart` are elsewhere.
    pub(crate) fn observe_arrival(&mut self, context: &Context<'_>, warp: &Warp, inst: &Inst, lanes: u32, apart: u32) {
        let wanted = self.checks.as_ref().is_some_and(|checks| checks.sanitize.barriers);
        if wanted && apart != 0 {
            let message = format!("{} threads of the warp are elsewhere", apart.count_ones());
            context.report(*warp.finding(context, self, inst, FindingKind::DivergentBarrier, &message, lanes));
        }
    }

    fn check_written(&mut self, context: &Context<'_>, warp: &Warp, access: &Access<'_>) {
        let Some(checks) = &mut self.checks else { return };
        let reads = !matches!(access.kind, AccessKind::Write | AccessKind::AsyncWrite);
        let unwritten = uninitialised::access(context, &mut checks.shared_written, access);
        if let (true, true, Some((lanes, offset))) = (reads, checks.sanitize.uninitialised, unwritten) {
            let place = place_name(context, access.group.place, offset);
            let message = format!("nobody wrote {place}");
            let kind = FindingKind::Uninitialised;
            let mut finding = warp.finding(context, self, access.inst, kind, &message, lanes);
            finding.address = Some(generic(context, access.group.place, offset));
            context.report(*finding);
        }
    }
}
