//! `licm`: what a loop computes anew each time without need moves before it.
//!
//! Pure instructions move whenever their operands come from outside, out of an `if` in the loop as well: every op is
//! total, so computing one too often changes nothing. Costly ones move only when each iteration would reach them.
//! Loads move if nothing in the loop writes memory and the first iteration is certain to reach them, so that no
//! element is read that the program would not read.

use crate::analysis::exits::has_exit;
use crate::transform::fold::runs_at_least_once;
use cranelift_entity::SecondaryMap;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{CallEffects, Function, Inst, Op, Region, Value};

/// Hoists loop-invariant instructions.
pub fn licm(func: &mut Function, calls: &CallEffects) {
    let any = func.insts.values().any(|data| is_loop(data.op));
    if !any {
        return;
    }
    let body = func.body;
    let mut motion = CodeMotion { func, calls, depths: SecondaryMap::new(), loops: Vec::new() };
    motion.region(body, LoopReach::default());
}

fn is_loop(op: Op) -> bool {
    matches!(op, Op::ForRange | Op::While)
}

struct CodeMotion<'a> {
    func: &'a mut Function,
    calls: &'a CallEffects,
    /// Number of loops enclose a value's definition.
    depths: SecondaryMap<Value, u32>,
    loops: Vec<HoistLoop>,
}

struct HoistLoop {
    /// Instructions that move before the loop, in order.
    hoisted: Vec<Inst>,
    writes: bool,
}

/// Describes what is known, within the innermost loop, about whether an instruction is reached.
#[derive(Clone, Copy, Default)]
struct LoopReach {
    /// Every iteration reaches it.
    each_iteration: bool,
    /// The first iteration exists and reaches it.
    certain: bool,
}

impl CodeMotion<'_> {
    fn region(&mut self, region: Region, mut reach: LoopReach) {
        let capacity = self.func.regions[region].insts.len();
        let insts = std::mem::replace(&mut self.func.regions[region].insts, Vec::with_capacity(capacity));
        for inst in insts {
            if self.func.insts[inst].regions.is_empty() {
                self.place(inst, region, reach);
                reach.certain &= !matches!(self.func.insts[inst].op, Op::Check | Op::Assert);
            } else if is_loop(self.func.insts[inst].op) {
                let hoisted = self.loop_(inst);
                for inst in hoisted {
                    self.place(inst, region, reach);
                }
                self.keep(inst, region);
            } else {
                for index in 0..self.func.insts[inst].regions.len() {
                    let inner = self.func.insts[inst].regions[index];
                    let is_block = self.func.insts[inst].op == Op::Block;
                    self.region(inner, if is_block { reach } else { LoopReach::default() });
                }
                self.keep(inst, region);
            }
            if !self.func.insts[inst].regions.is_empty() && (reach.certain || reach.each_iteration) {
                let regions = &self.func.insts[inst].regions;
                if regions.iter().any(|&inner| has_exit(self.func, inner)) {
                    reach = LoopReach::default();
                }
            }
        }
    }

    fn loop_(&mut self, inst: Inst) -> Vec<Inst> {
        let writes = self.func.insts[inst].regions.iter().any(|&region| self.writes(region));
        self.loops.push(HoistLoop { hoisted: Vec::new(), writes });
        let depth = self.loops.len() as u32;
        let is_while = self.func.insts[inst].op == Op::While;
        let certain = is_while || runs_at_least_once(self.func, inst);
        for index in 0..self.func.insts[inst].regions.len() {
            let region = self.func.insts[inst].regions[index];
            for &param in &self.func.regions[region].params {
                self.depths[param] = depth;
            }
            // Only the condition of a `while` is certain to run, since it may be false the first time.
            self.region(region, LoopReach { each_iteration: true, certain: certain && !(is_while && index == 1) });
        }
        self.loops.pop().map(|found| found.hoisted).unwrap_or_default()
    }

    fn keep(&mut self, inst: Inst, region: Region) {
        self.func.regions[region].insts.push(inst);
        let depth = self.loops.len() as u32;
        self.define(inst, depth);
    }

    fn define(&mut self, inst: Inst, depth: u32) {
        for &result in &self.func.insts[inst].results {
            self.depths[result] = depth;
        }
    }

    /// Puts an instruction at the end of `region`, or before the innermost loop.
    fn place(&mut self, inst: Inst, region: Region, reach: LoopReach) {
        let depth = self.loops.len() as u32;
        if let Some(innermost) = self.loops.last_mut() {
            let data = &self.func.insts[inst];
            let movable = match self.calls.of_inst(data) {
                OpEffect::Pure => reach.each_iteration || is_cheap(data.op),
                OpEffect::Read => reach.certain && !innermost.writes,
                _ => false,
            };
            if movable && data.operands.iter().all(|&v| self.depths[v] < depth) {
                innermost.hoisted.push(inst);
                self.define(inst, depth - 1);
                return;
            }
        }
        self.keep(inst, region);
    }

    fn writes(&self, region: Region) -> bool {
        self.func.regions[region].insts.iter().any(|&inst| {
            let data = &self.func.insts[inst];
            match self.calls.of_inst(data) {
                OpEffect::Write | OpEffect::ReadWrite => !matches!(data.op, Op::Check | Op::Assert | Op::Print),
                _ => data.regions.iter().any(|&inner| self.writes(inner)),
            }
        })
    }
}

/// Returns true if computing an op in vain costs next to nothing.
fn is_cheap(op: Op) -> bool {
    !matches!(op, Op::Call | Op::Div | Op::Mod | Op::FloorDiv | Op::Sqrt)
}
