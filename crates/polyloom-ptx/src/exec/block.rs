//! One block: shared memory, barriers, and what lanes of a warp do together.

use super::cluster::Cluster;
use super::grid::GridContext;
use super::registers::{RegisterFiles, lanes_of, put};
use super::warp::{LanePath, PathStep, PathWait, WarpRun, WarpStop};
use crate::counters::Counters;
use crate::decode::op::{BarrierOp, BarrierReduction, DecodedInst, ReductionKind, WarpKind, WarpOp};
use crate::memory::region::MemoryRegion;
use crate::report::{Finding, FindingKind};
use crate::sanitize::BlockChecks;
use std::sync::Arc;

/// Barriers of a block that instructions name.
pub(crate) const BLOCK_BARRIERS: u32 = 16;
const BARRIERS: usize = BLOCK_BARRIERS as usize;
/// Instructions a warp runs before another of the block has its turn.
const TURN: u32 = 1 << 16;
/// Turns of all warps before another block has its.
const ROUNDS: u32 = 16;

/// Describes what all warps of a block share.
pub(crate) struct BlockState {
    pub(crate) index: [u32; 3],
    pub(crate) linear: u64,
    pub(crate) shared: Arc<MemoryRegion>,
    pub(crate) cluster: Arc<Cluster>,
    /// Its number in the cluster.
    pub(crate) rank: u32,
    barriers: Vec<BarrierState>,
    /// Lanes of each warp that there are.
    present: Vec<u32>,
    /// Those that have not exited.
    alive: Vec<u32>,
    pub(crate) counters: Counters,
    pub(crate) checks: Option<Box<BlockChecks>>,
    /// Turns taken, as a base for clocks.
    pub(crate) clock: u64,
}

/// Lanes of a warp at an instruction that is a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierArrival {
    pub(crate) pc: u32,
    pub(crate) warp: u32,
    pub(crate) lanes: u32,
}

#[derive(Clone, Default)]
struct BarrierState {
    /// Lanes of each warp that arrived.
    arrived: Vec<u32>,
    /// Those of them that wait for it.
    waiters: Vec<u32>,
    waiting: bool,
    expected: Option<u32>,
    completed: u64,
    /// Instructions that lanes of a warp arrived at.
    sites: Vec<BarrierArrival>,
    gathered: BarrierResume,
    result: BarrierResume,
}

impl BarrierState {
    /// Nobody has arrived. Keeps its memory, since blocks come by the thousand.
    fn reset(&mut self, warps: usize) {
        for lanes in [&mut self.arrived, &mut self.waiters] {
            lanes.clear();
            lanes.resize(warps, 0);
        }
        self.sites.clear();
        self.waiting = false;
        self.expected = None;
        self.completed = 0;
        self.gathered = BarrierResume::default();
        self.result = BarrierResume::default();
    }
}

/// Describes what a barrier with a reduction gives to all threads.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct BarrierResume {
    count: u32,
    threads: u32,
}

impl BarrierResume {
    pub(crate) fn write(self, reduction: &BarrierReduction, registers: &mut RegisterFiles, mask: u32) {
        let truth = |value: bool| if value { !0 } else { 0 };
        match reduction.kind {
            ReductionKind::Count => put(registers, Some(reduction.destination), &[self.count; 32], mask),
            ReductionKind::And => {
                registers.set_predicate(reduction.destination, truth(self.count == self.threads), mask)
            }
            ReductionKind::Or => registers.set_predicate(reduction.destination, truth(self.count > 0), mask),
        }
    }
}

/// Describes how far a block got in its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockProgress {
    Done,
    /// It can go on later.
    Turn,
    /// All that it does is wait in loops.
    Spinning,
    /// It waits for other blocks of its cluster.
    Waiting,
}

/// A block and its warps.
pub(crate) struct BlockRun {
    pub(crate) state: BlockState,
    warps: Vec<WarpRun>,
}

impl BlockRun {
    /// An empty block, or `None` if the host has not the memory.
    pub(crate) fn new(context: &GridContext<'_>) -> Option<BlockRun> {
        let shared = Arc::new(MemoryRegion::new(context.shared_bytes as usize)?);
        let state = BlockState {
            index: [0; 3],
            linear: 0,
            shared,
            cluster: Arc::new(Cluster::new(context.new_cluster_checks(), Vec::new(), &[], 1)),
            rank: 0,
            barriers: vec![BarrierState::default(); BARRIERS],
            present: Vec::new(),
            alive: Vec::new(),
            counters: Counters::default(),
            checks: None,
            clock: 0,
        };
        let warps = (0..context.warps).map(|index| WarpRun::new(context, index)).collect::<Option<_>>()?;
        Some(BlockRun { state, warps })
    }

    /// Makes it a block of the grid, by its number in the order of clusters. Whether the host has memory for it.
    pub(crate) fn reset(&mut self, context: &GridContext<'_>, ordinal: u64) -> bool {
        let state = &mut self.state;
        state.index = context.block_index(ordinal);
        let ([x, y, _], place) = (context.launch.grid.map(u64::from), state.index.map(u64::from));
        state.linear = place[0] + x * (place[1] + y * place[2]);
        state.rank = (ordinal % u64::from(context.cluster_blocks)) as u32;
        state.clock = 0;
        if context.shared_bytes > 0 {
            if Arc::get_mut(&mut state.shared).is_none() {
                // Blocks of the cluster that it was in may still see what it had.
                let Some(shared) = MemoryRegion::new(context.shared_bytes as usize) else { return false };
                state.shared = Arc::new(shared);
            }
            state.shared.fill(0);
        }
        let has_room = self.warps.iter_mut().all(|warp| warp.reset(context));
        state.present.clear();
        state.present.extend(self.warps.iter().map(|warp| warp.present));
        state.alive.clone_from(&state.present);
        state.barriers.iter_mut().for_each(|barrier| barrier.reset(self.warps.len()));
        state.checks = context.new_checks(ordinal).map(Box::new);
        if context.cluster_blocks == 1 {
            match Arc::get_mut(&mut state.cluster) {
                Some(cluster) => cluster.reset(context.new_cluster_checks(), &state.present, 1),
                None => {
                    state.cluster = Arc::new(Cluster::new(context.new_cluster_checks(), Vec::new(), &state.present, 1))
                }
            }
        }
        has_room
    }

    /// Makes blocks a cluster, in the order of their ranks.
    pub(crate) fn join(blocks: &mut [BlockRun], context: &GridContext<'_>) {
        let shared = blocks.iter().map(|block| Arc::clone(&block.state.shared)).collect();
        let Some(first) = blocks.first() else { return };
        let cluster =
            Arc::new(Cluster::new(context.new_cluster_checks(), shared, first.state.present(), blocks.len() as u32));
        blocks.iter_mut().for_each(|block| block.state.cluster = Arc::clone(&cluster));
    }

    /// True if some of its threads wait at the barrier of the cluster.
    fn waits_for_cluster(&self) -> bool {
        let waits = |path: &LanePath| matches!(path.wait, PathWait::Cluster { .. });
        self.warps.iter().any(|warp| warp.paths.iter().any(waits))
    }

    /// Runs for a while.
    pub(crate) fn run(&mut self, context: &GridContext<'_>) -> Result<BlockProgress, Box<Finding>> {
        for _ in 0..ROUNDS {
            let (mut done, mut spinning, mut ran) = (true, true, false);
            for warp in &mut self.warps {
                if warp.paths.is_empty() {
                    continue;
                }
                let before = warp.executed;
                let stop = warp.run(context, &mut self.state, TURN)?;
                ran |= warp.executed != before;
                done &= stop == WarpStop::Done;
                spinning &= matches!(stop, WarpStop::Spinning | WarpStop::Blocked);
            }
            self.state.clock += 1;
            if done && self.warps.iter().all(|warp| warp.paths.is_empty()) {
                self.stopped();
                return Ok(BlockProgress::Done);
            }
            if !ran {
                let is_alone = context.cluster_blocks == 1 || !self.waits_for_cluster();
                return if is_alone { Err(self.deadlock(context)) } else { Ok(BlockProgress::Waiting) };
            }
            context.check_limit(self.warps.iter().map(|warp| warp.thread_instructions).sum())?;
            if spinning {
                return Ok(BlockProgress::Spinning);
            }
            if context.interrupted() {
                return Err(context.plain_finding(FindingKind::Interrupted, "the launch was interrupted"));
            }
        }
        Ok(BlockProgress::Turn)
    }

    /// Counts what its warps ran, when it is done or a fault ended it.
    pub(crate) fn stopped(&mut self) {
        for warp in &mut self.warps {
            self.state.counters.warp_instructions += std::mem::take(&mut warp.executed);
            self.state.counters.thread_instructions += std::mem::take(&mut warp.thread_instructions);
        }
    }

    pub(crate) fn deadlock(&self, context: &GridContext<'_>) -> Box<Finding> {
        let mut finding = context.plain_finding(FindingKind::Deadlock, "");
        let mut places = Vec::new();
        for warp in &self.warps {
            for (site, mask) in warp.waiting_sites(context) {
                let threads = lanes_of(mask).map(|lane| warp.thread(&self.state, lane));
                finding.threads.extend(threads.take(32usize.saturating_sub(finding.threads.len())));
                let text = site.to_string();
                if !places.contains(&text) {
                    places.push(text);
                }
                finding.site.get_or_insert(site);
            }
        }
        let exited: u32 = self.warps.iter().map(|warp| warp.present.count_ones()).sum::<u32>()
            - self.state.alive.iter().map(|alive| alive.count_ones()).sum::<u32>();
        finding.message =
            format!("threads wait at {} for others that never come ({exited} have exited)", places.join(", "));
        finding
    }
}

impl BlockState {
    pub(crate) fn barrier_completed(&self, id: u32) -> u64 {
        self.barriers[id as usize].completed
    }

    pub(crate) fn barrier_result(&self, id: u32) -> BarrierResume {
        self.barriers[id as usize].result
    }

    /// Lanes that have not exited.
    pub(crate) fn alive(&self, warp: u32) -> u32 {
        self.alive[warp as usize]
    }

    /// Lanes end, which may be what barriers waited for.
    pub(crate) fn exit(&mut self, context: &GridContext<'_>, warp: u32, lanes: u32) {
        self.alive[warp as usize] &= !lanes;
        for id in 0..BARRIERS {
            self.try_complete(context, id);
        }
        self.exit_cluster(warp, lanes);
    }

    /// Returns the number of threads that have arrived. Warps all of whose threads have count whole, as hardware counts
    /// them.
    fn arrivals(&self, barrier: &BarrierState) -> u32 {
        let counted =
            barrier.arrived.iter().zip(&self.alive).map(|(arrived, alive)| {
                if *arrived != 0 && arrived & alive == *alive { 32 } else { arrived.count_ones() }
            });
        counted.sum()
    }

    fn try_complete(&mut self, context: &GridContext<'_>, id: usize) {
        let barrier = &self.barriers[id];
        if !barrier.waiting {
            return;
        }
        let complete = match barrier.expected {
            Some(expected) => self.arrivals(barrier) >= expected,
            None => barrier.arrived.iter().zip(&self.alive).all(|(arrived, alive)| arrived & alive == *alive),
        };
        if !complete {
            return;
        }
        self.observe_barrier(context, id);
        let barrier = &mut self.barriers[id];
        barrier.result = std::mem::take(&mut barrier.gathered);
        barrier.arrived.fill(0);
        barrier.waiters.fill(0);
        barrier.sites.clear();
        barrier.waiting = false;
        barrier.expected = None;
        barrier.completed += 1;
    }

    /// Who waits at a barrier.
    pub(crate) fn barrier_waiters(&self, id: usize) -> &[u32] {
        &self.barriers[id].waiters
    }

    /// Who has arrived at a barrier, the instructions they did so at, and whether it is for all threads.
    pub(crate) fn barrier_arrivals(&self, id: usize) -> (&[u32], &[BarrierArrival], bool) {
        let barrier = &self.barriers[id];
        (&barrier.arrived, &barrier.sites, barrier.expected.is_none())
    }

    /// Lanes of each warp that have not exited.
    pub(crate) fn alive_lanes(&self) -> &[u32] {
        &self.alive
    }

    /// Lanes of each warp that the block began with.
    pub(crate) fn present(&self) -> &[u32] {
        &self.present
    }
}

impl WarpRun {
    pub(super) fn barrier(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        inst: &DecodedInst,
        barrier: &BarrierOp,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        let mut left = lanes;
        while left != 0 {
            // Lanes may name different barriers.
            let leader = left.trailing_zeros() as usize;
            let ids = barrier.id.get(&self.registers);
            let id = ids[leader];
            let group = lanes_of(left).fold(0, |set, lane| set | u32::from(ids[lane] == id) << lane);
            if id >= BLOCK_BARRIERS {
                let message = format!("a block has barriers 0 to 15, not {id}");
                return Err(self.finding(context, block, inst, FindingKind::DivergentBarrier, &message, group));
            }
            left &= !group;
            let count = barrier.count.as_ref().map(|count| count.get(&self.registers)[leader]);
            if !barrier.waits {
                block.observe_arrival(id, self.index, group);
            }
            let state = &mut block.barriers[id as usize];
            state.arrived[self.index as usize] |= group;
            state.waiters[self.index as usize] |= if barrier.waits { group } else { 0 };
            state.waiting = true;
            state.expected = count.or(state.expected);
            state.sites.push(BarrierArrival { pc: path.pc, warp: self.index, lanes: group });
            if let Some(reduction) = &barrier.reduction {
                state.gathered.count += (reduction.input.mask(&self.registers) & group).count_ones();
                state.gathered.threads += group.count_ones();
            }
            if barrier.waits {
                let wait = PathWait::Barrier { id, completed: state.completed };
                self.paths.push(LanePath { mask: group, wait, ..*path });
            }
            block.try_complete(context, id as usize);
        }
        if !barrier.waits {
            return Ok(PathStep::Next);
        }
        // Lanes whose predicate is off go on.
        self.split_off(path, lanes)
    }

    /// An instruction that the lanes of a member mask execute together, once all of them are here.
    pub(super) fn together(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        inst: &DecodedInst,
        op: &WarpOp,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        let mut lanes = lanes;
        // Lanes that waited here join, because with those that have come now the members may be complete.
        let (pc, frame) = (path.pc, path.frame);
        let mut joined = 0;
        self.paths.retain(|other| {
            let joins = other.wait == PathWait::Lanes && other.pc == pc && other.frame == frame;
            joined |= if joins { other.mask } else { 0 };
            !joins
        });
        path.mask |= joined;
        lanes |= joined;
        let alive = block.alive(self.index);
        let mut ready = 0;
        match &op.members {
            None => {
                self.perform(context, block, inst, op, lanes)?;
                return Ok(PathStep::Next);
            }
            Some(members) => {
                let members = *members.get(&self.registers);
                let mut left = lanes;
                while left != 0 {
                    let mask = members[left.trailing_zeros() as usize];
                    let group = lanes_of(left).fold(0, |set, lane| set | u32::from(members[lane] == mask) << lane);
                    left &= !group;
                    block.observe_members(context, self, (inst, op), mask, group);
                    if mask & alive & !group == 0 {
                        self.perform(context, block, inst, op, group)?;
                        ready |= group;
                    }
                }
            }
        }
        if ready == lanes {
            return Ok(PathStep::Next);
        }
        let onward = path.mask & !(lanes & !ready);
        if onward != 0 {
            self.paths.push(LanePath { mask: onward, pc: path.pc + 1, ..*path });
        }
        path.mask = lanes & !ready;
        path.wait = PathWait::Lanes;
        Ok(PathStep::Pause)
    }

    fn perform(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        op: &WarpOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        match &op.kind {
            WarpKind::Sync => block.observe_warp_sync(self.index, lanes),
            WarpKind::Lanes(compute) => compute(&mut self.registers, lanes),
            WarpKind::Matrix(access) => self.matrix_access(context, block, inst, access, lanes)?,
        }
        Ok(())
    }

    /// Lanes may meet at `bar.warp.sync` instructions that are not the same one. When nothing else can go on, such are
    /// let through together.
    pub(super) fn release_scattered(&mut self, context: &GridContext<'_>) -> bool {
        use crate::decode::op::DecodedOp;
        let mut here = 0;
        let mut wanted = 0;
        for path in self.paths.iter().filter(|path| path.wait == PathWait::Lanes) {
            let DecodedOp::Warp(op) = &context.program.code[path.pc as usize].op else { continue };
            if let (WarpKind::Sync, Some(members)) = (&op.kind, &op.members) {
                self.registers.set_base(self.frames[path.frame as usize].base);
                let members = members.get(&self.registers);
                here |= path.mask;
                wanted |= lanes_of(path.mask).fold(0, |set, lane| set | members[lane]);
            }
        }
        let alive = self.paths.iter().fold(0, |set, path| set | path.mask);
        if here == 0 || wanted & alive & !here != 0 {
            return false;
        }
        for path in &mut self.paths {
            let waits = path.wait == PathWait::Lanes;
            if let (true, DecodedOp::Warp(op)) = (waits, &context.program.code[path.pc as usize].op)
                && matches!(op.kind, WarpKind::Sync)
            {
                path.wait = PathWait::No;
                path.pc += 1;
            }
        }
        true
    }
}
