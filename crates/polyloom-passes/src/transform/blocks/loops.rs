//! The loops that code of threads stands in: over the warps of a block, over its threads and over the lanes of a warp.

use super::emit;
use super::facts::ThreadLevel;
use super::thread_loops::LoopGuard;
use super::{BlockSplitter, EmitScope, ThreadContext};
use cranelift_entity::EntitySet;
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Inst, Op, Region, Scalar, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

impl BlockSplitter<'_> {
    /// The loop over warps around `body`.
    pub(super) fn warps(&mut self, body: impl FnOnce(&mut Self, &EmitScope)) {
        self.forget_line();
        let (zero, size) = (self.emit.int(0), self.emit.int(WARP_SIZE));
        let n_warps = self.n_warps.unwrap_or_else(|| self.count_warps());
        let this = self.emit.begin_loop(zero, n_warps, &[]);
        let warp = this.params[0];
        let base = self.by_warp_size(Op::Mul, warp);
        let rest = self.emit.op(Op::Sub, &[self.n_threads, base]);
        let count = self.emit.op(Op::Min, &[rest, size]);
        self.call_in_text(&[(warp, "warp"), (base, "first_lane"), (count, "n_lanes")]);
        body(self, &EmitScope { level: ThreadLevel::Warp, base, count, warp: Some((warp, this.inst)) });
        self.end_region(&[]);
        self.emit.leave_loop(&this);
    }

    /// Returns the number of warps the block has.
    pub(super) fn count_warps(&mut self) -> Value {
        let all_but_one = self.emit.int(WARP_SIZE - 1);
        let sum = self.emit.op(Op::Add, &[self.n_threads, all_but_one]);
        self.by_warp_size(Op::Div, sum)
    }

    /// The loop over the threads, or over those for which a condition holds, around `body`, which is given what the
    /// loop carries and gives what it carries on.
    pub(super) fn threads(
        &mut self,
        around: &EmitScope,
        coordinates: bool,
        narrow: Option<LoopGuard>,
        carried: &[Value],
        body: impl FnOnce(&mut Self, &mut ThreadContext, &[Value]) -> SmallVec<[Value; 4]>,
    ) -> SmallVec<[Value; 2]> {
        self.forget_line();
        self.is_ordered = false;
        self.own_element = None;
        let zero = self.emit.int(0);
        let mut at = ThreadContext {
            thread: zero,
            lane: None,
            coordinates: None,
            values: FxHashMap::default(),
            targets: FxHashMap::default(),
            exit: None,
            this: None,
            keeps: false,
            is_last: false,
        };
        let is_row = self.text.is_some() && self.block.is_some_and(|[_, y, z]| y == 1 && z == 1);
        if around.level == ThreadLevel::Warp || !coordinates || is_row {
            let (begin, end) = match narrow {
                Some(narrow) => self.narrow(around, narrow, around.count),
                None => (zero, around.count),
            };
            let this = self.emit.begin_loop(begin, end, carried);
            at.thread = this.params[0];
            at.this = Some(this.inst);
            if let Some((warp, _)) = around.warp {
                self.call_in_text(&[(at.thread, "lane")]);
                at.lane = Some((at.thread, warp));
                at.thread = self.emit.op(Op::Add, &[around.base, at.thread]);
            } else {
                self.call_in_text(&[(at.thread, "t")]);
                at.coordinates = is_row.then_some([at.thread, zero, zero]);
            }
            let next = body(self, &mut at, &this.params[1..]);
            return self.end_threads(this, &next);
        }
        let extents: [Value; 3] = [0, 1, 2].map(|axis| self.block_extent(axis));
        let z = self.emit.begin_loop(zero, extents[2], carried);
        let y = self.emit.begin_loop(zero, extents[1], &z.params[1..]);
        let rows = self.emit.op(Op::Mul, &[z.params[0], extents[1]]);
        let row = self.emit.op(Op::Add, &[rows, y.params[0]]);
        let row_base = self.emit.op(Op::Mul, &[row, extents[0]]);
        let rest = self.emit.op(Op::Sub, &[around.count, row_base]);
        let end = self.emit.op(Op::Min, &[rest, extents[0]]);
        let (begin, end) = match narrow {
            Some(narrow) => self.narrow(around, narrow, end),
            None => (zero, end),
        };
        let x = self.emit.begin_loop(begin, end, &y.params[1..]);
        self.call_in_text(&[(end, "n_in_row")]);
        self.call_in_text(&[(z.params[0], "z"), (y.params[0], "y"), (x.params[0], "x")]);
        at.this = Some(x.inst);
        at.thread = self.emit.op(Op::Add, &[row_base, x.params[0]]);
        at.coordinates = Some([x.params[0], y.params[0], z.params[0]]);
        let next = body(self, &mut at, &x.params[1..]);
        let next = self.end_threads(x, &next);
        let next = self.emit.end_loop(y, &next);
        self.emit.end_loop(z, &next)
    }

    /// Ends the loop over threads.
    pub(super) fn end_threads(&mut self, this: emit::OpenLoop, next: &[Value]) -> SmallVec<[Value; 2]> {
        if !self.is_at_dead_end() {
            let inst = this.inst;
            let results = self.emit.end_loop(this, next);
            if results.is_empty() && self.text.is_none() && self.may_run_in_step(inst) {
                self.emit.func.insts[inst].imm = Imm::Parallel;
            }
            return results;
        }
        self.emit.inst(Op::Unreachable, &[], &[], Imm::None);
        self.emit.leave_loop(&this);
        self.emit.func.insts[this.inst].results.clone()
    }

    /// Returns true if the threads of a loop may run at the same time, one instruction after the other: nothing makes
    /// one wait for another, and the order of what they do to memory in common makes no difference.
    fn may_run_in_step(&self, threads: Inst) -> bool {
        let func = &self.emit.func;
        let body = func.insts[threads].regions[0];
        let mut used = EntitySet::new();
        func.walk(body, &mut |_, data| used.extend(data.operands.iter().copied()));
        let mut may = !self.is_ordered;
        func.walk(body, &mut |_, data| {
            let leaves = data.op == Op::Return || data.imm == Imm::Target(threads);
            may &= !leaves && !matches!(data.op, Op::Print | Op::Assert | Op::Check);
            // A thread that gets a lock would wait in step for those that do not.
            may &= data.op != Op::While || data.regions.iter().all(|&region| n_atomics(func, region, &|_| true) == 0);
        });
        // An update whose order shows is made by each thread in turn if it is the only one.
        let shows = |inst: Inst| {
            let data = &func.insts[inst];
            let result = data.results.first().copied();
            let is_float = result.is_some_and(|old| func.ty(old).as_scalar().is_some_and(Scalar::is_float));
            is_float || result.is_some_and(|old| used.contains(old))
        };
        may && n_atomics(func, body, &shows) <= 1
    }
}

/// The number of atomics of a kind in a region, those in loops counted twice.
fn n_atomics(func: &Function, region: Region, is_counted: &dyn Fn(Inst) -> bool) -> usize {
    let of = |&inst: &Inst| {
        let data = &func.insts[inst];
        let inner: usize = data.regions.iter().map(|&region| n_atomics(func, region, is_counted)).sum();
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        let own = data.op.info().group == OpGroup::Atomic && is_counted(inst);
        inner * if is_loop { 2 } else { 1 } + usize::from(own)
    };
    func.regions[region].insts.iter().map(of).sum()
}
