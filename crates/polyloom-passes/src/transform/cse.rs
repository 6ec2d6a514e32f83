//! `cse`: one computation for equal values.
//!
//! Value numbering scoped to the structure of regions: an instruction is replaced by an equal one that dominates it,
//! which stands earlier in the same region or in an enclosing one. Loads are equal while no write can have come
//! between; a store makes the element's value known to the loads after it. A check whose condition has been checked
//! goes.

use super::fold;
use crate::edit::ValueReplacements;
use cranelift_entity::SecondaryMap;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{CallEffects, Function, Imm, Inst, InstData, Op, Region, Type, Value};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Merges equal pure instructions and loads.
pub fn cse(func: &mut Function, calls: &CallEffects) {
    let n_insts = func.insts.len();
    let mut numbering = ValueNumbering {
        calls,
        replaced: ValueReplacements::default(),
        table: vec![EMPTY; (2 * n_insts).next_power_of_two().max(16)],
        filled: Vec::with_capacity(n_insts),
        epoch: 0,
        last_epoch: 0,
        writes: SecondaryMap::with_capacity(n_insts),
    };
    numbering.find_writes(func, func.body);
    numbering.region(func, func.body);
}

/// An entry of the table: an available instruction, and the memory epoch in which a load is.
#[derive(Clone, Copy)]
struct AvailableInst {
    inst: Option<Inst>,
    epoch: u32,
}

const EMPTY: AvailableInst = AvailableInst { inst: None, epoch: 0 };

struct ValueNumbering<'a> {
    calls: &'a CallEffects,
    replaced: ValueReplacements,
    /// Open addressing with linear probing, never more than half full. Entries are only removed newest first, when
    /// their scope ends, which leaves every older probe sequence as it was.
    table: Vec<AvailableInst>,
    /// The slots filled, oldest first.
    filled: Vec<u32>,
    /// Loads in the same epoch see the same memory.
    epoch: u32,
    last_epoch: u32,
    /// True if an instruction's regions may write memory.
    writes: SecondaryMap<Inst, bool>,
}

impl ValueNumbering<'_> {
    fn find_writes(&mut self, func: &Function, region: Region) -> bool {
        let mut any = false;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if data.regions.is_empty() {
                any |= is_write(self.calls.of_inst(data)) && !is_check(data.op);
            } else {
                let mut inner = false;
                for &region in &data.regions {
                    inner |= self.find_writes(func, region);
                }
                self.writes[inst] = inner;
                any |= inner;
            }
        }
        any
    }

    fn new_epoch(&mut self) {
        self.last_epoch += 1;
        self.epoch = self.last_epoch;
    }

    fn region(&mut self, func: &mut Function, region: Region) {
        let scope = self.filled.len();
        let mut insts = std::mem::take(&mut func.regions[region].insts);
        insts.retain(|&inst| {
            self.replaced.apply(&mut func.insts[inst].operands);
            if func.insts[inst].regions.is_empty() {
                // Merging may have made its operands one.
                if let Some(value) = fold::simplify_equal_operands(func, inst) {
                    self.replaced.set(func.insts[inst].results[0], value);
                    return false;
                }
                !self.is_redundant(func, inst)
            } else {
                self.control(func, inst);
                true
            }
        });
        func.regions[region].insts = insts;
        while self.filled.len() > scope {
            if let Some(slot) = self.filled.pop() {
                self.table[slot as usize] = EMPTY;
            }
        }
    }

    fn control(&mut self, func: &mut Function, inst: Inst) {
        let writes = self.writes[inst];
        let is_loop = matches!(func.insts[inst].op, Op::ForRange | Op::While);
        if writes && is_loop {
            self.new_epoch();
        }
        let entry = self.epoch;
        for index in 0..func.insts[inst].regions.len() {
            // Each branch starts from the memory before the `if`, because only one of them runs; the body of a `while`
            // follows its condition.
            if !is_loop {
                self.epoch = entry;
            }
            self.region(func, func.insts[inst].regions[index]);
        }
        if writes {
            self.new_epoch();
        }
    }

    /// Returns true if an equal instruction is available, which then stands for `inst`; otherwise makes `inst`
    /// available.
    fn is_redundant(&mut self, func: &mut Function, inst: Inst) -> bool {
        let data = &func.insts[inst];
        let effect = self.calls.of_inst(data);
        match effect {
            // A condition that held once holds from there on, since a check that fails ends everything.
            _ if is_check(data.op) => self.look_up(func, inst, 0),
            OpEffect::Pure | OpEffect::Read if data.results.is_empty() => false,
            OpEffect::Pure => self.look_up(func, inst, 0),
            OpEffect::Read => self.look_up(func, inst, self.epoch),
            OpEffect::Write | OpEffect::ReadWrite => {
                self.new_epoch();
                if data.op == Op::ArrayStore {
                    self.look_up(func, inst, self.epoch);
                }
                false
            }
            OpEffect::Region | OpEffect::Terminator => false,
        }
    }

    fn look_up(&mut self, func: &mut Function, inst: Inst, epoch: u32) -> bool {
        let mask = self.table.len() - 1;
        let mut slot = key_hash(func, inst, epoch) as usize & mask;
        while let Some(other) = self.table[slot].inst {
            if self.table[slot].epoch == epoch && same(func, other, inst) {
                let (new, old) = (&func.insts[inst], &func.insts[other]);
                if old.op == Op::ArrayStore {
                    let stored = old.operands[old.operands.len() - 1];
                    self.replaced.set(new.results[0], stored);
                } else {
                    for (&from, &to) in new.results.iter().zip(&old.results) {
                        self.replaced.set(from, to);
                    }
                }
                return true;
            }
            slot = (slot + 1) & mask;
        }
        self.table[slot] = AvailableInst { inst: Some(inst), epoch };
        self.filled.push(slot as u32);
        false
    }
}

fn is_check(op: Op) -> bool {
    matches!(op, Op::Check | Op::Assert)
}

fn is_write(effect: OpEffect) -> bool {
    matches!(effect, OpEffect::Write | OpEffect::ReadWrite)
}

/// Returns what an instruction's value depends on, in a form in which equal computations look equal: the op, and its
/// first operands in order. A store has the key of a load of its element, a check that of its condition.
fn key<'f>(func: &'f Function, data: &'f InstData) -> (Op, &'f [Value], Option<Type>) {
    let ty = data.results.first().map(|&v| func.ty(v));
    match (data.op, &data.operands[..]) {
        (Op::ArrayStore, [place @ .., value]) => (Op::ArrayLoad, place, Some(func.ty(*value))),
        (Op::Check | Op::Assert, [cond, ..]) => (Op::Check, std::slice::from_ref(cond), None),
        (op, operands) => (op, operands, ty),
    }
}

/// For ops whose operands may change places, the op and the operands in the order that stands for both. Factors that
/// are matrices or quaternions may not.
fn ordered(func: &Function, op: Op, operands: &[Value]) -> Option<(Op, Value, Value)> {
    let &[a, b] = operands else { return None };
    let exchanged = op.exchanged()?;
    if op == Op::Mul && [a, b].iter().all(|&factor| func.ty(factor).as_composite().is_some()) {
        return None;
    }
    match op {
        _ if exchanged == op => Some((op, a.min(b), a.max(b))),
        Op::Gt | Op::Ge => Some((exchanged, b, a)),
        _ => Some((op, a, b)),
    }
}

fn key_hash(func: &Function, inst: Inst, epoch: u32) -> u64 {
    let data = &func.insts[inst];
    let (op, operands, ty) = key(func, data);
    let mut hasher = FxHasher::default();
    match ordered(func, op, operands) {
        Some(key) => key.hash(&mut hasher),
        None => (op, operands).hash(&mut hasher),
    }
    (ty, epoch).hash(&mut hasher);
    match &data.imm {
        _ if op == Op::Check => {}
        Imm::Bits(bits) => bits.hash(&mut hasher),
        Imm::Axis(axis) => axis.hash(&mut hasher),
        Imm::Func(callee) => callee.hash(&mut hasher),
        _ => {}
    }
    // The lower bits of what `finish` gives are the good ones, because it rotates those of the product's upper end
    // there.
    hasher.finish()
}

fn same(func: &Function, a: Inst, b: Inst) -> bool {
    let (a, b) = (&func.insts[a], &func.insts[b]);
    let ((a_op, a_operands, a_type), (b_op, b_operands, b_type)) = (key(func, a), key(func, b));
    let same_operands = match (ordered(func, a_op, a_operands), ordered(func, b_op, b_operands)) {
        (Some(a), Some(b)) => a == b,
        _ => a_op == b_op && a_operands == b_operands,
    };
    same_operands && a_type == b_type && (a_op == Op::Check || a.imm == b.imm)
}
