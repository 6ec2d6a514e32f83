//! One warp: its lanes' paths, which of them runs, and the loop over instructions.
//!
//! Lanes that are at the same instruction with the same callers run as one path. Where a branch divides a path, the
//! part in the deepest call goes first, and of those the one at the lowest instruction, which lets paths meet again
//! where code is laid out as compilers do; paths that meet become one. A path that keeps branching backwards while
//! another could run lets that one run for a while, so lanes that wait for other lanes do not wait forever; when
//! all that can run spin, the block's other warps, and then other blocks, go on.

use super::block::{BarrierResume, BlockState};
use super::grid::GridContext;
use super::lane_access::NOWHERE_BYTES;
use super::registers::{FrameBase, LANES, RegisterFiles, lanes_of};
use crate::decode::op::{DecodedInst, DecodedOp};
use crate::memory::region::MemoryRegion;
use crate::report::{CodeSite, Finding, FindingKind, ThreadPlace};
use rustc_hash::FxHashMap;

/// Backward branches, weighted, after which a path yields.
const PATIENCE: u32 = 4096;
/// The weight of a loop around something that looks like waiting. It turns 64 times before it yields, because where the
/// lanes of a warp update one element, one is done each time.
const SPIN_WEIGHT: u32 = PATIENCE / 64;
/// Instructions that others may run while a path has yielded.
const YIELDED_RUN: u32 = 1024;
/// Registers of one file that a chain of calls may have.
const MAX_REGISTERS: u32 = 1 << 20;
/// Says how deep calls may nest.
const MAX_CALLS: u32 = 4096;

/// Lanes that run together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LanePath {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) frame: u32,
    pub(crate) wait: PathWait,
    /// Says how much it branched backwards since it began to run.
    pub(crate) spins: u32,
    /// Holds what the next backward branch counts.
    pub(crate) weight: u32,
    pub(crate) yielded: bool,
}

/// Describes what a path waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathWait {
    No,
    /// Other lanes of the warp, at the same instruction.
    Lanes,
    /// A barrier to complete; it had completed as often when the path arrived.
    Barrier {
        id: u32,
        completed: u64,
    },
    /// The barrier of the cluster, likewise.
    Cluster {
        completed: u64,
    },
}

/// A function's activation. Lanes that called from the same instruction of the same activation share one; when all of
/// them have left, its place is another's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionFrame {
    /// Lanes that are in it, or in calls from it.
    pub(crate) lanes: u32,
    pub(crate) parent: u32,
    pub(crate) call: u32,
    pub(crate) function: u32,
    pub(crate) depth: u32,
    pub(crate) base: FrameBase,
}

/// Describes what becomes of a path after an instruction.
pub(crate) enum PathStep {
    Next,
    /// `pc` is set.
    Jump,
    /// The path waits, or others may go first; `pc` is set.
    Pause,
    /// Its lanes are gone, or in other paths.
    End,
}

/// Why a warp stops running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WarpStop {
    Done,
    /// All paths wait for other warps, or for each other.
    Blocked,
    /// It waits in a loop for something.
    Spinning,
    /// It ran as long as it may at once.
    Budget,
}

pub(crate) struct WarpRun {
    pub(crate) index: u32,
    pub(crate) registers: RegisterFiles,
    pub(crate) paths: Vec<LanePath>,
    pub(crate) frames: Vec<FunctionFrame>,
    frame_ids: FxHashMap<(u32, u32, u32), u32>,
    /// Places among `frames` that nobody uses.
    free_frames: Vec<u32>,
    /// `%tid` of each lane.
    pub(crate) threads: [[u32; LANES]; 3],
    /// Lanes that exist.
    pub(crate) present: u32,
    pub(crate) local: MemoryRegion,
    /// Holds what lanes access that go outside of all memory, where that is let pass.
    pub(super) nowhere: MemoryRegion,
    /// Says how far `alloca` has come in each lane's local memory.
    pub(super) stack: [u32; LANES],
    /// Says how far it had come when a lane entered a frame; nothing unless the kernel has such instructions.
    pub(super) stack_before: Vec<[u32; LANES]>,
    /// Bytes of local memory a lane.
    pub(crate) local_bytes: u32,
    /// The allocation the last access went to.
    pub(crate) recent: usize,
    /// Instructions run, which with those of the present turn is what clocks show.
    pub(crate) executed: u64,
    pub(crate) running: u32,
    pub(crate) thread_instructions: u64,
    /// Lanes whose paths have spun as long as they may since the warp last let other warps go on.
    spun: u32,
}

impl WarpRun {
    /// A warp of no block, or `None` if the host has not the memory.
    pub(crate) fn new(context: &GridContext<'_>, index: u32) -> Option<WarpRun> {
        let local_bytes = context.program.local_bytes.next_multiple_of(16);
        Some(WarpRun {
            index,
            registers: RegisterFiles::default(),
            paths: Vec::new(),
            frames: Vec::new(),
            frame_ids: FxHashMap::default(),
            free_frames: Vec::new(),
            threads: [[0; LANES]; 3],
            present: 0,
            local: MemoryRegion::new(local_bytes as usize * LANES)?,
            nowhere: MemoryRegion::new(if context.launch.sanitize.bounds { 0 } else { NOWHERE_BYTES * LANES })?,
            stack: [0; LANES],
            stack_before: Vec::new(),
            local_bytes,
            recent: 0,
            executed: 0,
            running: 0,
            thread_instructions: 0,
            spun: 0,
        })
    }

    /// Makes it the warp of that index of a fresh block.
    /// Whether the host has memory for it.
    pub(crate) fn reset(&mut self, context: &GridContext<'_>) -> bool {
        let [x, y, z] = context.launch.block;
        let threads = x * y * z;
        self.present = 0;
        for lane in 0..LANES as u32 {
            let thread = self.index * LANES as u32 + lane;
            if thread < threads {
                self.present |= 1 << lane;
                let place = [thread % x, thread / x % y, thread / (x * y)];
                for (axis, value) in place.into_iter().enumerate() {
                    self.threads[axis][lane as usize] = value;
                }
            }
        }
        let function = &context.program.functions[context.program.kernel];
        let has_room = self.registers.reset(function.size);
        self.paths.clear();
        self.paths.push(LanePath {
            pc: function.entry,
            mask: self.present,
            frame: 0,
            wait: PathWait::No,
            spins: 0,
            weight: 1,
            yielded: false,
        });
        self.frames.clear();
        self.frame_ids.clear();
        self.free_frames.clear();
        let function = context.program.kernel as u32;
        self.frames.push(FunctionFrame {
            lanes: self.present,
            parent: 0,
            call: 0,
            function,
            depth: 0,
            base: FrameBase::default(),
        });
        self.local.fill(0);
        self.stack = [self.local_bytes - context.program.stack_bytes; LANES];
        self.executed = 0;
        self.thread_instructions = 0;
        self.spun = 0;
        has_room
    }

    /// Runs until nothing can go on, something spins, or `budget` instructions.
    pub(crate) fn run(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        budget: u32,
    ) -> Result<WarpStop, Box<Finding>> {
        let mut left = budget;
        loop {
            self.wake(context, block);
            self.merge();
            let Some(index) = self.pick() else {
                if self.paths.is_empty() {
                    return Ok(WarpStop::Done);
                }
                if self.release_scattered(context) {
                    continue;
                }
                return Ok(WarpStop::Blocked);
            };
            let mut path = self.paths.swap_remove(index);
            let others_yielded = self.paths.iter().any(|other| other.yielded);
            let stop = if others_yielded { u32::MAX } else { self.stop_before(&path) };
            let turn = if others_yielded { left.min(YIELDED_RUN) } else { left };
            self.registers.set_base(self.frames[path.frame as usize].base);
            let (step, ran) = self.run_path(context, block, &mut path, stop, turn)?;
            left = left.saturating_sub(ran);
            if others_yielded {
                self.paths.iter_mut().for_each(|other| other.yielded = false);
            }
            let spins = path.spins >= PATIENCE;
            if !matches!(step, PathStep::End) {
                if spins {
                    path.spins = 0;
                    self.spun |= path.mask;
                    path.yielded = self.paths.iter().any(|other| other.wait == PathWait::No);
                }
                self.paths.push(path);
                // Paths that spin may wait for each other, so that all that can run have to.
                let mut runnable = self.paths.iter().filter(|path| path.wait == PathWait::No);
                if spins && runnable.all(|path| path.mask & !self.spun == 0) {
                    self.spun = 0;
                    return Ok(WarpStop::Spinning);
                }
            }
            if left == 0 {
                return Ok(WarpStop::Budget);
            }
        }
    }

    /// Runs one path until it pauses, ends, meets another at `stop`, or ran `turn` instructions.
    fn run_path(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        stop: u32,
        turn: u32,
    ) -> Result<(PathStep, u32), Box<Finding>> {
        let code = context.program.code.as_slice();
        let mut ran = 0;
        // Number of them, counted in `thread_instructions`.
        let mut counted = 0;
        let mut mask = path.mask;
        let step = loop {
            let inst = &code[path.pc as usize];
            let lanes = match inst.guard {
                None => mask,
                Some(test) => test.mask(&self.registers) & mask,
            };
            ran += 1;
            if context.counting {
                block.counters.count(inst.class, lanes);
            }
            let step = match &inst.op {
                DecodedOp::Compute(compute) => {
                    compute(&mut self.registers, lanes);
                    PathStep::Next
                }
                DecodedOp::Branch(target) => self.branch(context, block, path, lanes, *target),
                _ if lanes == 0 => PathStep::Next,
                _ => {
                    self.running = ran;
                    let step = match self.execute(context, block, path, inst, lanes) {
                        Ok(step) => step,
                        Err(finding) => break Err(finding),
                    };
                    // Instructions so far are counted with the old mask, because lanes that waited at this one have
                    // joined, or some have exited.
                    if path.mask != mask {
                        self.thread_instructions += u64::from(ran - counted) * u64::from(mask.count_ones());
                        (counted, mask) = (ran, path.mask);
                    }
                    step
                }
            };
            match step {
                PathStep::Next => path.pc += 1,
                PathStep::Jump => {
                    if path.spins >= PATIENCE {
                        break Ok(PathStep::Pause);
                    }
                }
                other => break Ok(other),
            }
            if path.pc >= stop || ran >= turn {
                break Ok(PathStep::Pause);
            }
        };
        self.running = 0;
        self.executed += u64::from(ran);
        self.thread_instructions += u64::from(ran - counted) * u64::from(mask.count_ones());
        Ok((step?, ran))
    }

    fn branch(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        taken: u32,
        target: u32,
    ) -> PathStep {
        if taken == 0 {
            return PathStep::Next;
        }
        if target <= path.pc {
            path.spins += path.weight;
            path.weight = 1;
        }
        if taken == path.mask {
            path.pc = target;
            return PathStep::Jump;
        }
        if context.counting {
            block.counters.divergent_branches += 1;
        }
        if target <= path.pc {
            // Some lanes have left a loop, so that what is waited for may have come.
            self.spun = 0;
        }
        self.paths.push(LanePath { pc: path.pc + 1, mask: path.mask & !taken, ..*path });
        path.mask = taken;
        path.pc = target;
        PathStep::Pause
    }

    /// Everything that is neither arithmetic nor a plain branch, for at least one lane.
    fn execute(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        inst: &DecodedInst,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        match &inst.op {
            DecodedOp::Compute(_) | DecodedOp::Branch(_) | DecodedOp::Nothing => Ok(PathStep::Next),
            DecodedOp::BranchTable { index, targets } => {
                let index = *index.get(&self.registers);
                // Each target's lanes become a path; `brx` beyond the list is undefined, the last is taken.
                for (which, target) in targets.iter().enumerate() {
                    let last = which + 1 == targets.len();
                    let chosen = lanes_of(lanes).fold(0, |set, lane| {
                        let at = index[lane] as usize;
                        set | u32::from(at == which || last && at > which) << lane
                    });
                    if chosen != 0 {
                        self.paths.push(LanePath { pc: *target, mask: chosen, ..*path });
                    }
                }
                self.split_off(path, lanes)
            }
            DecodedOp::Call(call) => self.call(context, block, path, inst, call, lanes),
            DecodedOp::Return => self.ret(context, block, path, lanes),
            DecodedOp::Exit => self.exit(context, block, path, lanes),
            DecodedOp::Trap => {
                let message = format!("`trap` was executed{}", context.lacks_workspace());
                Err(self.finding(context, block, inst, FindingKind::Trap, &message, lanes))
            }
            DecodedOp::Special { destination, which } => {
                self.special(context, block, *destination, *which, lanes);
                Ok(PathStep::Next)
            }
            DecodedOp::FrameAddress { destination, offset } => {
                let value = offset.wrapping_add_unsigned(self.registers.base().local.into()) as u64;
                self.write(*destination, &[value; LANES], lanes);
                Ok(PathStep::Next)
            }
            DecodedOp::Stack(op) => {
                self.stack_op(context, block, inst, op, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::Load(load) => {
                if load.order.strong {
                    path.weight = SPIN_WEIGHT;
                }
                self.load(context, block, inst, load, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::Store(store) => {
                self.store(context, block, inst, store, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::Atomic(atomic) => {
                if atomic.spins {
                    path.weight = SPIN_WEIGHT;
                }
                self.atomic(context, block, inst, atomic, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::WideAtomic(atomic) => {
                path.weight = SPIN_WEIGHT;
                self.wide_atomic(context, block, inst, atomic, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::Barrier(barrier) => self.barrier(context, block, path, inst, barrier, lanes),
            DecodedOp::Cluster(op) => self.cluster(context, block, path, inst, op, lanes),
            DecodedOp::Warp(op) => self.together(context, block, path, inst, op, lanes),
            DecodedOp::ActiveMask(slot) => {
                super::registers::put(&mut self.registers, *slot, &[lanes; LANES], lanes);
                Ok(PathStep::Next)
            }
            DecodedOp::Fence(scope) => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                block.observe_fence(self.index, lanes, *scope);
                Ok(PathStep::Next)
            }
            DecodedOp::AsyncCopy(copy) => {
                self.async_copy(context, block, inst, copy, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::AsyncCommit => {
                block.observe_commit(self.index, lanes);
                Ok(PathStep::Next)
            }
            DecodedOp::AsyncWait(left) => {
                block.observe_wait(self.index, lanes, *left);
                Ok(PathStep::Next)
            }
            DecodedOp::BulkCopy(copy) => {
                self.bulk_copy(context, block, inst, copy, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::WarpGroupProduct(product) => {
                self.warp_group_product(context, block, inst, product, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::TensorCopy(copy) => {
                self.tensor_copy(context, block, inst, copy, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::TextureFetch(fetch) => {
                self.texture_fetch(context, block, inst, fetch, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::SurfaceAccess(access) => {
                self.surface_access(context, block, inst, access, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::ImageQuery(query) => {
                self.image_query(context, block, inst, query, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::AsyncAccess(access) => {
                self.async_access(context, block, inst, access, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::BulkCommit => {
                block.observe_bulk_commit(self.index, lanes);
                Ok(PathStep::Next)
            }
            DecodedOp::BulkWait { left, only_reads } => {
                block.observe_bulk_wait(self.index, lanes, *left, *only_reads);
                Ok(PathStep::Next)
            }
            DecodedOp::MBarrier(barrier) => {
                path.weight = SPIN_WEIGHT;
                self.mbarrier(context, block, inst, barrier, lanes)?;
                Ok(PathStep::Next)
            }
            DecodedOp::Sleep => {
                path.weight = SPIN_WEIGHT;
                Ok(PathStep::Next)
            }
        }
    }

    /// The lanes that did something else leave the path; the rest go on behind the instruction.
    pub(crate) fn split_off(&mut self, path: &mut LanePath, gone: u32) -> Result<PathStep, Box<Finding>> {
        path.mask &= !gone;
        path.pc += 1;
        Ok(if path.mask == 0 { PathStep::End } else { PathStep::Pause })
    }

    pub(crate) fn exit(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        path: &mut LanePath,
        lanes: u32,
    ) -> Result<PathStep, Box<Finding>> {
        // Paths that wait for lanes look again, because it may have been for these, which will not come.
        for other in &mut self.paths {
            if other.wait == PathWait::Lanes {
                other.wait = PathWait::No;
            }
        }
        let mut frame = path.frame;
        while frame != 0 {
            let parent = self.frames[frame as usize].parent;
            self.leave(frame, lanes);
            frame = parent;
        }
        block.exit(context, self.index, lanes);
        self.split_off(path, lanes)
    }

    /// Paths whose barrier completed can go on, with its result.
    fn wake(&mut self, context: &GridContext<'_>, block: &mut BlockState) {
        for path in &mut self.paths {
            let (id, completed) = match path.wait {
                PathWait::Barrier { id, completed } => (id, completed),
                PathWait::Cluster { completed } => {
                    if block.cluster.completed() != completed {
                        path.wait = PathWait::No;
                        path.pc += 1;
                        block.observe_cluster_wait(self.index, path.mask);
                    }
                    continue;
                }
                PathWait::No | PathWait::Lanes => continue,
            };
            if block.barrier_completed(id) == completed {
                continue;
            }
            path.wait = PathWait::No;
            let DecodedOp::Barrier(barrier) = &context.program.code[path.pc as usize].op else { continue };
            if let Some(reduction) = &barrier.reduction {
                self.registers.set_base(self.frames[path.frame as usize].base);
                BarrierResume::write(block.barrier_result(id), reduction, &mut self.registers, path.mask);
            }
            path.pc += 1;
        }
    }

    /// Makes one path of those at the same place.
    fn merge(&mut self) {
        let mut index = 0;
        while index < self.paths.len() {
            let path = self.paths[index];
            let twin = self.paths[index + 1..]
                .iter()
                .position(|other| other.pc == path.pc && other.frame == path.frame && other.wait == path.wait);
            match twin {
                Some(twin) => {
                    let other = self.paths.swap_remove(index + 1 + twin);
                    let path = &mut self.paths[index];
                    path.mask |= other.mask;
                    path.spins = path.spins.max(other.spins);
                    path.yielded |= other.yielded;
                }
                None => index += 1,
            }
        }
    }

    /// Returns which path runs next.
    fn pick(&mut self) -> Option<usize> {
        let depth = |path: &LanePath| self.frames[path.frame as usize].depth;
        let runnable = self.paths.iter().enumerate().filter(|(_, path)| path.wait == PathWait::No);
        let best = runnable.min_by_key(|(_, path)| (path.yielded, std::cmp::Reverse(depth(path)), path.pc));
        best.map(|(index, _)| index)
    }

    /// Returns where `path` has to stop for another that runs or waits in the same frame.
    fn stop_before(&self, path: &LanePath) -> u32 {
        let others = self.paths.iter().filter(|other| other.wait == PathWait::No && other.frame == path.frame);
        others.map(|other| other.pc).min().unwrap_or(u32::MAX)
    }

    /// The frame of a call of `function` by lanes of `path`.
    pub(crate) fn enter(
        &mut self,
        context: &GridContext<'_>,
        path: &LanePath,
        function: u32,
        lanes: u32,
    ) -> Option<u32> {
        let key = (path.frame, path.pc, function);
        if let Some(id) = self.frame_ids.get(&key) {
            self.frames[*id as usize].lanes |= lanes;
            return Some(*id);
        }
        let parent = self.frames[path.frame as usize];
        let base = parent.base.plus(context.program.functions[parent.function as usize].size);
        let size = context.program.functions[function as usize].size;
        let end = base.plus(size);
        // Frames do not get all of local memory, because the rest is what `alloca` gives.
        let frames = self.local_bytes - context.program.stack_bytes;
        let full = end.local > frames && size.local > 0 || end.words.max(end.doubles) > MAX_REGISTERS;
        if full || parent.depth >= MAX_CALLS || !self.registers.reserve(base, size) {
            return None;
        }
        let frame = FunctionFrame { lanes, parent: path.frame, call: path.pc, function, depth: parent.depth + 1, base };
        let id = match self.free_frames.pop() {
            Some(id) => {
                self.frames[id as usize] = frame;
                id
            }
            None => {
                self.frames.push(frame);
                self.frames.len() as u32 - 1
            }
        };
        self.frame_ids.insert(key, id);
        Some(id)
    }

    /// Lanes return from a frame, or end in it.
    pub(crate) fn leave(&mut self, id: u32, lanes: u32) {
        let frame = &mut self.frames[id as usize];
        frame.lanes &= !lanes;
        if frame.lanes == 0 {
            self.frame_ids.remove(&(frame.parent, frame.call, frame.function));
            self.free_frames.push(id);
        }
    }

    /// A finding at an instruction.
    #[cold]
    pub(crate) fn finding(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        kind: FindingKind,
        message: &str,
        lanes: u32,
    ) -> Box<Finding> {
        Box::new(Finding {
            kind,
            kernel: context.kernel().to_owned(),
            site: Some(context.site(inst)),
            other: None,
            threads: lanes_of(lanes).map(|lane| self.thread(block, lane)).collect(),
            address: None,
            message: message.to_owned(),
        })
    }

    pub(crate) fn thread(&self, block: &BlockState, lane: usize) -> ThreadPlace {
        ThreadPlace { block: block.index, thread: [0, 1, 2].map(|axis| self.threads[axis][lane]) }
    }

    /// Returns where its paths are, for a report of a deadlock.
    pub(crate) fn waiting_sites(&self, context: &GridContext<'_>) -> Vec<(CodeSite, u32)> {
        self.paths.iter().map(|path| (context.site(&context.program.code[path.pc as usize]), path.mask)).collect()
    }
}
