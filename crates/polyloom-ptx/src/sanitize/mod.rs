//! The checks of a launch: what they know of memory and of the order of threads, and what they report.
//!
//! Execution shows every access, barrier and fence to `BlockState`'s `observe` functions, which are here. Nothing of it
//! runs unless a launch asks for checks or counters.

pub(crate) mod cluster;
mod copies;
mod count;
mod flow;
mod order;
mod race;
mod uninitialised;

use crate::Sanitizers;
use crate::decode::op::{BulkEnd, DecodedInst, DecodedOp, InstClass, OrderScope, WarpOp};
use crate::exec::block::BarrierArrival;
use crate::exec::lane_access::{AccessKind, AccessRegion, LaneAccess};
use crate::exec::registers::{LANES, lanes_of};
use crate::exec::warp::WarpRun;
use crate::exec::{BlockState, GridContext};
use crate::memory::window::{self, RESERVED_SHARED};
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use cluster::ClusterChecks;
use copies::{CopyEnd, CopyUnderWay};
use order::{BlockTime, Board, VectorClock};
use race::{AccessRecord, ShadowMemory};
use rustc_hash::FxHashMap;
use std::sync::{Arc, PoisonError};

/// The most threads a finding names.
const MAX_THREADS: usize = 32;

/// Describes what the checks know of global memory, for all blocks.
#[derive(Default)]
pub(crate) struct GlobalChecks {
    shadow: ShadowMemory,
    board: Board,
    /// Instructions past each barrier.
    past: FxHashMap<u32, Vec<bool>>,
}

impl GlobalChecks {
    /// Holds the words of global memory that were accessed.
    pub(crate) fn footprint(&self) -> Vec<race::WordAccess> {
        self.shadow.footprint()
    }
}

/// Describes what the checks know of one block.
pub(crate) struct BlockChecks {
    sanitize: Sanitizers,
    /// The number of the block's first thread among those of its cluster.
    first_thread: usize,
    time: BlockTime,
    /// Holds what threads that arrived at a barrier without waiting did before.
    given: FxHashMap<usize, Vec<Arc<VectorClock>>>,
    /// Each thread's last instruction that accessed memory.
    last: Vec<Option<u32>>,
}

impl BlockChecks {
    /// The checks of a block, which is known by its number in the order of clusters of so many blocks.
    pub(crate) fn new(sanitize: Sanitizers, block: (u32, u32), warps: u32) -> Self {
        BlockChecks {
            sanitize,
            first_thread: (block.0 % block.1) as usize * warps as usize * LANES,
            time: BlockTime::new(block, warps as usize * LANES),
            given: FxHashMap::default(),
            last: vec![None; warps as usize * LANES],
        }
    }

    /// The number of a lane among those of the cluster.
    fn thread_of_cluster(&self, warp: u32, lane: usize) -> usize {
        self.first_thread + thread_of(warp, lane)
    }
}

/// The number of a lane in its block.
fn thread_of(warp: u32, lane: usize) -> usize {
    warp as usize * LANES + lane
}

/// The generic address of an offset.
fn generic(context: &GridContext<'_>, place: AccessRegion, offset: usize) -> u64 {
    match place {
        AccessRegion::Global(index) => context.memory[index].address + offset as u64,
        AccessRegion::Shared => window::base(StateSpace::Shared) + offset as u64,
        AccessRegion::Peer(rank) => window::base(StateSpace::Shared) + window::of_rank(offset as u64, rank),
        AccessRegion::Local => window::base(StateSpace::Local) + offset as u64,
        AccessRegion::Param => window::base(StateSpace::Param) + offset as u64,
        AccessRegion::Nowhere => 0,
    }
}

/// In words, where an access goes.
fn place_name(context: &GridContext<'_>, place: AccessRegion, offset: usize) -> String {
    match place {
        AccessRegion::Global(index) => context.memory[index].describe_byte(offset, context.launch.names),
        AccessRegion::Peer(rank) => {
            format!("{} of block {rank} of the cluster", context.describe_shared(offset as u64))
        }
        _ => context.describe_shared(offset as u64),
    }
}

impl BlockState {
    /// Lanes of a warp are about to access memory.
    pub(crate) fn observe(
        &mut self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        access: &LaneAccess<'_>,
    ) -> Result<(), Box<Finding>> {
        if context.counting {
            count::access(&mut self.counters, context, access);
        }
        self.check(context, warp, access)
    }

    /// A matrix with rows of `size` bytes at these offsets is about to be accessed: one access to the counters.
    pub(crate) fn observe_rows(
        &mut self,
        context: &GridContext<'_>,
        place: AccessRegion,
        kind: AccessKind,
        rows: &[usize],
        size: usize,
    ) {
        count::rows(&mut self.counters, context, place, kind, (rows, size));
    }

    /// `observe` without counting.
    pub(crate) fn check(
        &mut self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        access: &LaneAccess<'_>,
    ) -> Result<(), Box<Finding>> {
        let is_watched =
            matches!(access.group.place, AccessRegion::Global(_) | AccessRegion::Shared | AccessRegion::Peer(_));
        if self.checks.is_some() && is_watched {
            if let Some(checks) = &mut self.checks {
                lanes_of(access.group.lanes)
                    .for_each(|lane| checks.last[thread_of(warp.index, lane)] = Some(access.inst.index));
            }
            self.check_written(context, warp, access);
            self.check_order(context, warp, access)?;
        }
        Ok(())
    }

    pub(crate) fn observe_fence(&mut self, warp: u32, lanes: u32, scope: OrderScope) {
        if let Some(checks) = &mut self.checks {
            lanes_of(lanes).for_each(|lane| checks.time.fence(thread_of(warp, lane), scope));
        }
    }

    pub(crate) fn observe_commit(&mut self, warp: u32, lanes: u32) {
        let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) else { return };
        lanes_of(lanes).for_each(|lane| cluster.copies.commit(checks.thread_of_cluster(warp, lane)));
    }

    /// Lanes arrive at the barrier of the cluster.
    pub(crate) fn observe_cluster_arrival(&mut self, warp: u32, lanes: u32) {
        let (Some(checks), Some(mut cluster)) = (&mut self.checks, self.cluster.checks()) else { return };
        for lane in lanes_of(lanes) {
            checks.time.arrive(&mut cluster.barrier, thread_of(warp, lane), false);
        }
    }

    /// Lanes have seen that all have come to the barrier of the cluster.
    pub(crate) fn observe_cluster_wait(&mut self, warp: u32, lanes: u32) {
        let (Some(checks), Some(cluster)) = (&mut self.checks, self.cluster.checks()) else { return };
        lanes_of(lanes).for_each(|lane| checks.time.wait(&cluster.barrier, thread_of(warp, lane)));
    }

    /// All but `left` groups of copies are waited for; if there is no number, all copies.
    pub(crate) fn observe_wait(&mut self, warp: u32, lanes: u32, left: Option<u32>) {
        let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) else { return };
        for lane in lanes_of(lanes) {
            let stamp = checks.time.stamp(thread_of(warp, lane));
            for address in cluster.copies.wait(checks.thread_of_cluster(warp, lane), left) {
                cluster.shadow.written_now(address, stamp);
            }
        }
    }

    pub(crate) fn observe_bulk_commit(&mut self, warp: u32, lanes: u32) {
        let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) else { return };
        lanes_of(lanes).for_each(|lane| cluster.copies.commit_bulk(checks.thread_of_cluster(warp, lane)));
    }

    /// All but `left` bulk groups are waited for, or that their sources have been read.
    pub(crate) fn observe_bulk_wait(&mut self, warp: u32, lanes: u32, left: u32, only_reads: bool) {
        let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) else { return };
        let thread = |lane| checks.thread_of_cluster(warp, lane);
        lanes_of(lanes).for_each(|lane| cluster.copies.wait_bulk(thread(lane), left, only_reads));
    }

    /// The bulk copy that a thread has just begun is done when the mbarrier's phase of that parity is over.
    pub(crate) fn observe_bulk_phase(&mut self, warp: u32, lane: usize, barrier: u64, phase: bool) {
        if let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) {
            cluster.copies.bind_bulk(checks.thread_of_cluster(warp, lane), (barrier, phase));
        }
    }

    /// A thread arrives at an mbarrier, in its phase of that parity, when its copies until now are done.
    pub(crate) fn observe_copies_arrive(&mut self, warp: u32, lane: usize, barrier: u64, phase: bool) {
        if let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) {
            cluster.copies.bind(checks.thread_of_cluster(warp, lane), (barrier, phase));
        }
    }

    /// An mbarrier begins, or ends.
    pub(crate) fn observe_mbarrier(&mut self, barrier: u64) {
        if let Some(mut cluster) = self.cluster.checks() {
            cluster.mbarriers.remove(&barrier);
        }
    }

    /// A thread arrives at an mbarrier, or, without one, bytes do; `completes` tells that this ends the phase.
    pub(crate) fn observe_mbarrier_arrival(&mut self, barrier: u64, thread: Option<(u32, usize)>, completes: bool) {
        let Some(checks) = self.checks.as_mut().filter(|checks| checks.sanitize.races) else { return };
        let Some(mut cluster) = self.cluster.checks() else { return };
        let mbarrier = cluster.mbarriers.entry(barrier).or_default();
        match thread {
            Some((warp, lane)) => checks.time.arrive(mbarrier, thread_of(warp, lane), completes),
            None if completes => mbarrier.complete(),
            None => {}
        }
    }

    /// A thread has seen that the mbarrier's phase of that parity is over.
    pub(crate) fn observe_phase_end(&mut self, warp: u32, lane: usize, barrier: u64, phase: bool) {
        let (Some(checks), Some(mut cluster)) = (&mut self.checks, self.cluster.checks()) else { return };
        cluster.copies.complete((barrier, phase));
        if let Some(mbarrier) = cluster.mbarriers.get(&barrier) {
            checks.time.wait(mbarrier, thread_of(warp, lane));
        }
    }

    pub(crate) fn observe_warp_sync(&mut self, warp: u32, lanes: u32) {
        if let Some(checks) = &mut self.checks {
            let threads: Vec<usize> = lanes_of(lanes).map(|lane| thread_of(warp, lane)).collect();
            checks.time.join(&threads, &[]);
        }
    }

    /// Lanes execute an instruction for the members of a mask.
    pub(crate) fn observe_members(
        &self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        (inst, op): (&DecodedInst, &WarpOp),
        members: u32,
        lanes: u32,
    ) {
        if !self.checks.as_ref().is_some_and(|checks| checks.sanitize.barriers) {
            return;
        }
        let report = |lanes: u32, message: String| {
            if lanes != 0 {
                context.report(*warp.finding(context, self, inst, FindingKind::NotMember, &message, lanes));
            }
        };
        let alive = self.alive(warp.index);
        let gone = |message: String, lanes: u32| {
            context.report(*warp.finding(context, self, inst, FindingKind::ExitedLane, &message, lanes));
        };
        let why = |lane: u32| if warp.present >> lane & 1 == 0 { "the block does not have" } else { "has exited" };
        if inst.class == InstClass::Matrix && alive != u32::MAX {
            let missing = (!alive).trailing_zeros();
            gone(format!("all lanes of a warp execute it, but for lane {missing}, which {}", why(missing)), lanes);
        }
        let strangers = lanes & !members;
        report(strangers, format!("the mask 0x{members:x} does not name the lanes that execute it"));
        if let Some(sources) = &op.sources {
            let from = sources(&warp.registers);
            let outside = |lane: &usize| members >> from[*lane] & 1 == 0;
            let readers = lanes_of(lanes & members).filter(outside).fold(0, |set, lane| set | 1 << lane);
            let whose = lanes_of(readers).next().map_or(0, |lane| from[lane]);
            report(readers, format!("the value is of lane {whose}, which the mask 0x{members:x} does not name"));
            // Instructions may name lanes that have exited, and do not wait for them, but what those had is undefined,
            // because it may be read and thrown away.
            let has_exited = |lane: &usize| (members & !alive) >> from[*lane] & 1 != 0;
            let users = if op.unguarded { lanes & members } else { 0 };
            let readers = lanes_of(users).filter(has_exited).fold(0, |set, lane| set | 1 << lane);
            if let Some(whose) = lanes_of(readers).next().map(|lane| from[lane]) {
                gone(format!("the value is of lane {whose}, which {}", why(whose)), readers);
            }
        }
    }

    /// A block of the heap is somebody's anew, so that what others did there is over.
    pub(crate) fn observe_alloc(&mut self, context: &GridContext<'_>, address: u64, n_bytes: u64) {
        if let (true, Some(global)) = (self.checks.is_some(), &context.global_checks) {
            global.lock().unwrap_or_else(PoisonError::into_inner).shadow.forget(address, n_bytes);
        }
    }

    /// Lanes arrive at a barrier that they do not wait for, because what they did is for those who do.
    pub(crate) fn observe_arrival(&mut self, id: u32, warp: u32, lanes: u32) {
        let Some(checks) = &mut self.checks else { return };
        for lane in lanes_of(lanes) {
            let given = checks.time.release(thread_of(warp, lane));
            checks.given.entry(id as usize).or_default().push(given);
        }
    }

    /// A barrier completes.
    pub(crate) fn observe_barrier(&mut self, context: &GridContext<'_>, id: usize) {
        let Some(mut checks) = self.checks.take() else { return };
        let (arrived, sites, for_all) = self.barrier_arrivals(id);
        let waiters = self.barrier_waiters(id);
        let given = checks.given.remove(&id).unwrap_or_default();
        // Threads that have exited count as having come, because what they did is over.
        let all = waiters.iter().zip(self.alive_lanes()).all(|(waiters, alive)| waiters & alive == *alive);
        if all && given.is_empty() {
            checks.time.next_phase();
        } else {
            let warps = (0..).zip(waiters);
            let threads = warps.flat_map(|(warp, lanes)| lanes_of(*lanes).map(move |lane| thread_of(warp, lane)));
            let threads: Vec<usize> = threads.collect();
            checks.time.join(&threads, &given);
        }
        if checks.sanitize.barriers {
            self.check_barrier(context, &checks.last, (arrived, sites, for_all));
        }
        self.checks = Some(checks);
    }

    /// Threads that arrive one after the other are fine, as are those that have ended; those that arrive elsewhere, or
    /// went on past the barrier without it, are not.
    fn check_barrier(
        &self,
        context: &GridContext<'_>,
        last: &[Option<u32>],
        (arrived, arrivals, for_all): (&[u32], &[BarrierArrival], bool),
    ) {
        let [first, ..] = arrivals else { return };
        let site = |pc: u32| context.site(&context.program.code[pc as usize]);
        let aligned =
            matches!(&context.program.code[first.pc as usize].op, DecodedOp::Barrier(barrier) if barrier.aligned);
        let report = |message: String, threads: &mut dyn Iterator<Item = usize>, other: Option<u32>| {
            let mut finding = context.plain_finding(FindingKind::DivergentBarrier, &message);
            finding.site = Some(site(first.pc));
            finding.other = other.map(site);
            let places = threads.take(MAX_THREADS).map(|thread| context.thread_at(self.ordinal(context), thread));
            finding.threads = places.collect();
            context.report(*finding);
        };
        let threads = |warps: &[u32]| -> Vec<usize> {
            let warps = (0..).zip(warps);
            warps.flat_map(|(warp, lanes)| lanes_of(*lanes).map(move |lane| thread_of(warp, lane))).collect()
        };
        let absent: Vec<u32> = arrived.iter().zip(self.present()).map(|(arrived, all)| all & !arrived).collect();
        let mut missing = if for_all || aligned { threads(&absent) } else { Vec::new() };
        if !for_all {
            // All threads of the warps that take part should.
            missing.retain(|thread| arrived[thread / LANES] != 0);
        }
        if !missing.is_empty() {
            let Some(global) = &context.global_checks else { return };
            let mut global = global.lock().unwrap_or_else(PoisonError::into_inner);
            let past = global.past.entry(first.pc).or_insert_with(|| flow::past(context.program, first.pc));
            let goes_on = |thread: usize| last[thread].is_some_and(|pc| past[pc as usize]);
            let alive = |thread: usize| self.alive_lanes()[thread / LANES] >> (thread % LANES) & 1 != 0;
            missing.retain(|thread| alive(*thread) || goes_on(*thread));
        }
        let count =
            |of: &mut dyn Iterator<Item = &BarrierArrival>| -> u32 { of.map(|each| each.lanes.count_ones()).sum() };
        let elsewhere = arrivals.iter().find(|arrival| arrival.pc != first.pc);
        if let (false, true) = (missing.is_empty(), for_all) {
            let message = format!("{} threads of the block go on without it", missing.len());
            report(message, &mut missing.into_iter(), None);
        } else if let (Some(second), true) = (elsewhere, for_all) {
            let here = count(&mut arrivals.iter().filter(|arrival| arrival.pc == first.pc));
            let there = count(&mut arrivals.iter()) - here;
            let message = format!("threads of the block reach different barriers, {here} this one and {there} another");
            let one_of = |arrival: &BarrierArrival| thread_of(arrival.warp, arrival.lanes.trailing_zeros() as usize);
            report(message, &mut [first, second].map(one_of).into_iter(), Some(second.pc));
        } else if !missing.is_empty() {
            let message = format!("{} threads of warps that take part do not reach it", missing.len());
            report(message, &mut missing.into_iter(), None);
        }
    }

    fn check_written(&mut self, context: &GridContext<'_>, warp: &WarpRun, access: &LaneAccess<'_>) {
        let (Some(checks), Some(mut cluster)) = (&self.checks, self.cluster.checks()) else { return };
        let owner = if let AccessRegion::Peer(rank) = access.group.place { rank } else { self.rank };
        let unwritten = uninitialised::access(context, &mut cluster.written[owner as usize], access);
        drop(cluster);
        if let (true, Some((lanes, offset))) = (checks.sanitize.uninitialised, unwritten) {
            let place = place_name(context, access.group.place, offset);
            let message = format!("nobody wrote {place}");
            let kind = FindingKind::Uninitialised;
            let mut finding = warp.finding(context, self, access.inst, kind, &message, lanes);
            finding.address = Some(generic(context, access.group.place, offset));
            context.report(*finding);
        }
    }

    fn check_order(
        &mut self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        access: &LaneAccess<'_>,
    ) -> Result<(), Box<Finding>> {
        let (Some(mut checks), Some(global)) = (self.checks.take(), &context.global_checks) else { return Ok(()) };
        let mut global = global.lock().unwrap_or_else(PoisonError::into_inner);
        let global = &mut *global;
        let Some(mut cluster) = self.cluster.checks() else { return Ok(()) };
        let (group, order) = (access.group, access.order);
        let reads = !matches!(access.kind, AccessKind::Write | AccessKind::AsyncWrite);
        let writes = !matches!(access.kind, AccessKind::Read | AccessKind::AsyncRead);
        for lane in lanes_of(group.lanes) {
            let (thread, offset) = (thread_of(warp.index, lane), group.offsets[lane]);
            let address = match group.place {
                AccessRegion::Shared => generic(context, AccessRegion::Peer(self.rank), offset),
                place => generic(context, place, offset),
            };
            let copier = checks.thread_of_cluster(warp.index, lane);
            let copies = &mut cluster.copies;
            let under_way = copies.find(address, access.size, writes);
            let end = match access.inst.op.bulk_end() {
                Some(BulkEnd::Group) => CopyEnd::BulkGroup,
                Some(BulkEnd::MBarrier(_)) => CopyEnd::Phase,
                None => CopyEnd::Group,
            };
            match access.kind {
                AccessKind::AsyncWrite => copies.write(copier, (address, access.size), end),
                AccessKind::AsyncRead => copies.read(copier, (address, access.size), end),
                _ => {}
            }
            if let (Some(copy), true) = (under_way, checks.sanitize.async_copies) {
                self.report_copy(context, warp, access, (lane, offset, copy), reads);
                continue;
            }
            if !checks.sanitize.races {
                continue;
            }
            let stamp = checks.time.stamp(thread);
            let time = &mut checks.time;
            let ClusterChecks { shadow, board, .. } = &mut *cluster;
            let (shadow, board) = match group.place {
                AccessRegion::Shared | AccessRegion::Peer(_) => (shadow, board),
                _ => (&mut global.shadow, &mut global.board),
            };
            // Accesses of mbarriers are left out, because mbarriers order threads by their phases.
            if order.strong && !matches!(access.inst.op, DecodedOp::MBarrier(_)) {
                time.strong(board, address, thread, order, (reads, writes));
            }
            // The system's accesses to its own shared memory are its affair, because cooperative groups rely on more
            // than PTX says.
            let is_shared = matches!(group.place, AccessRegion::Shared | AccessRegion::Peer(_));
            if is_shared && offset < RESERVED_SHARED as usize {
                continue;
            }
            let record = AccessRecord::new(stamp, access.inst.index, writes, order);
            let region = warp.region(context, self, group.place);
            let byte_of = |lane: usize, at: usize| {
                access.stored.map(|(values, size)| (values[at / size][lane] >> (at % size * 8)) as u8)
            };
            let same = |at: usize, other: &AccessRecord| {
                let mine = byte_of(lane, at);
                let peer = usize::from(other.stamp.thread) % LANES;
                // The peer's bytes need not be in memory, because a lane that writes by the same instruction has not
                // done so yet.
                let together = other.inst == access.inst.index
                    && usize::from(other.stamp.thread) / LANES == warp.index as usize
                    && other.stamp.block == stamp.block
                    && group.lanes >> peer & 1 != 0;
                let inside = (offset + at).checked_sub(group.offsets[peer]).filter(|at| *at < access.size as usize);
                match (together, inside) {
                    (true, Some(inside)) => mine.is_some() && mine == byte_of(peer, inside),
                    _ => mine == Some(region.load8(offset + at)),
                }
            };
            if let Some((other, at)) = shadow.access(time, thread, (address, access.size), record, &same) {
                let at = generic(context, group.place, offset + (at - address) as usize);
                self.report_race(context, warp, access, (lane, offset, at), (writes, other));
            }
        }
        drop(cluster);
        self.checks = Some(checks);
        if global.shadow.is_full() {
            let message = "the kernel uses more global memory than the check for races can watch (128 MiB); \
                           launch it on less, or without that check";
            return Err(context.plain_finding(FindingKind::InvalidLaunch, message));
        }
        Ok(())
    }

    fn report_race(
        &self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        access: &LaneAccess<'_>,
        (lane, offset, at): (usize, usize, u64),
        (writes, other): (bool, AccessRecord),
    ) {
        let verb = |writes: bool| if writes { "write" } else { "read" };
        let place = place_name(context, access.group.place, offset);
        let message = format!("{} of {place} is not ordered after a {}", verb(writes), verb(other.writes));
        let mut finding = warp.finding(context, self, access.inst, FindingKind::Race, &message, 1 << lane);
        finding.other = Some(context.site(&context.program.code[other.inst as usize]));
        finding.threads.push(context.thread_at(other.stamp.block.into(), other.stamp.thread.into()));
        finding.address = Some(at);
        context.report(*finding);
    }

    fn report_copy(
        &self,
        context: &GridContext<'_>,
        warp: &WarpRun,
        access: &LaneAccess<'_>,
        (lane, offset, copy): (usize, usize, CopyUnderWay),
        reads: bool,
    ) {
        let place = place_name(context, access.group.place, offset);
        let n_threads = self.present().len() * LANES;
        let (rank, thread) = (copy.thread / n_threads, copy.thread % n_threads);
        let first = self.ordinal(context) - u64::from(self.rank);
        let copier = context.thread_at(first + rank as u64, thread);
        let verb = if reads { "read" } else { "written" };
        let name = if copy.is_bulk { "cp.async.bulk" } else { "cp.async" };
        let what = if copy.writes { format!("its `{name}`") } else { format!("the `{name}` that reads it") };
        let who = if copy.of_phase { "anybody" } else { &copier.to_string() };
        let message = format!("{place} is {verb} before {who} waits for {what}");
        let kind = FindingKind::MissingAsyncWait;
        let mut finding = warp.finding(context, self, access.inst, kind, &message, 1 << lane);
        finding.address = Some(generic(context, access.group.place, offset));
        context.report(*finding);
    }
}

#[cfg(test)]
mod tests {
    use crate::{FindingKind, LaunchRequest, Module, Sanitizers, Simulator};

    #[test]
    fn more_memory_than_can_be_watched_is_refused() {
        // Each thread writes a word of a page of its own; there are eight pages in tests.
        let text = "
            .version 8.0
            .target sm_80
            .visible .entry k(.param .u64 out) {
                .reg .b32 %r;
                .reg .b64 %at, %offset;
                ld.param.u64 %at, [out];
                mov.u32 %r, %tid.x;
                mul.wide.u32 %offset, %r, 256;
                add.u64 %at, %at, %offset;
                st.global.u32 [%at], %r;
                ret;
            }";
        let simulator = Simulator::default();
        let loaded = simulator.load(&Module::parse(text).unwrap()).unwrap();
        let params = [simulator.memory().alloc(256 * 8, 4).unwrap().to_le_bytes().to_vec()];
        let launch = |threads: u32| {
            let sanitize = Sanitizers { races: true, ..Sanitizers::default() };
            let launch =
                LaunchRequest { block: [threads, 1, 1], params: &params, sanitize, ..LaunchRequest::default() };
            loaded.kernel("k").unwrap().launch(&launch)
        };
        assert!(launch(7).is_ok());
        let fault = launch(8).expect_err("it is refused");
        assert_eq!(fault.findings[0].kind, FindingKind::InvalidLaunch);
        assert!(fault.findings[0].message.contains("launch it on less"), "{fault}");
    }
}
