//! What differs between threads along one axis of the launch: the values that depend on a thread's coordinate there.

use cranelift_entity::EntitySet;
use polyloom_ir::analysis::affine::AffineSum;
use polyloom_ir::op::{OpEffect, OpGroup};
use polyloom_ir::{Function, Imm, InstData, Op, Region, Value, ValueDef};

/// Describes what may differ between threads that differ in their coordinate along one axis alone.
pub(super) struct AxisDependence<'a> {
    func: &'a Function,
    axis: u8,
    /// An operation that is taken for one whose result is the same.
    cut: Option<&'a InstData>,
    values: EntitySet<Value>,
    /// Arrays that the kernel writes.
    written: Vec<bool>,
}

impl<'a> AxisDependence<'a> {
    pub(super) fn on(func: &'a Function, axis: u8, cut: Option<&'a InstData>) -> AxisDependence<'a> {
        let written = func.written_arrays();
        let mut made = AxisDependence { func, axis, cut, values: EntitySet::new(), written };
        // Loops feed their results back to their beginning.
        while made.region(func.body) {}
        made
    }

    pub(super) fn contains(&self, value: Value) -> bool {
        self.values.contains(value)
    }

    /// Adds what differs in a region; gives whether there was anything new.
    fn region(&mut self, region: Region) -> bool {
        let func = self.func;
        let mut grows = false;
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if data.regions.is_empty() {
                if self.differs(data) {
                    data.results.iter().for_each(|&result| grows |= self.values.insert(result));
                }
                continue;
            }
            grows |= self.structured(data);
        }
        grows
    }

    fn structured(&mut self, data: &InstData) -> bool {
        let func = self.func;
        let mut grows = false;
        // Number of iterations of a loop, or the side that an `if` takes.
        let n_bounds = match data.op {
            Op::ForRange => 3,
            Op::If => 1,
            _ => 0,
        };
        let decision = match data.op {
            Op::While => func.terminator(data.regions[0]).and_then(|last| func.insts[last].operands.first().copied()),
            _ => None,
        };
        let is_apart = data.operands[..n_bounds].iter().chain(&decision).any(|&value| self.contains(value));
        let is_loop = matches!(data.op, Op::ForRange | Op::While);
        for (slot, &result) in data.results.iter().enumerate() {
            let mut differs = is_apart || is_loop && self.contains(data.operands[n_bounds + slot]);
            for &inner in data.regions.iter().skip(usize::from(data.op == Op::While)) {
                let last = func.terminator(inner).map(|last| &func.insts[last]);
                let given = last.filter(|last| last.op == Op::Yield).and_then(|last| last.operands.get(slot));
                differs |= given.is_none_or(|&value| self.contains(value));
            }
            if differs {
                grows |= self.values.insert(result);
                for &inner in data.regions.iter().filter(|_| is_loop) {
                    let params = &func.regions[inner].params;
                    grows |= self.values.insert(params[params.len() - data.results.len() + slot]);
                }
            }
        }
        if data.op == Op::ForRange && is_apart {
            grows |= self.values.insert(func.regions[data.regions[0]].params[0]);
        }
        for &inner in &data.regions {
            grows |= self.region(inner);
        }
        grows
    }

    /// Returns true if the results of an instruction may differ.
    fn differs(&self, data: &InstData) -> bool {
        if self.cut.is_some_and(|cut| are_computed_alike(self.func, cut, data)) {
            return false;
        }
        let info = data.op.info();
        match (data.op, &data.imm) {
            (Op::Tid, &Imm::Axis(axis)) => axis == self.axis,
            (Op::Dim | Op::BlockDim | Op::GridDim, _) => false,
            _ if info.group == OpGroup::Index || info.group == OpGroup::Gpu => true,
            // Values that other threads, or this one, have written are unknown.
            _ if info.effect == OpEffect::ReadWrite && data.op != Op::Call => true,
            _ => {
                let reads_written =
                    |&array: &Value| self.func.param_index(array).is_some_and(|param| self.written[param]);
                data.operands.iter().any(|&operand| self.contains(operand))
                    || info.effect == OpEffect::Read && data.operands.iter().any(reads_written)
            }
        }
    }
}

/// Returns true if two instructions compute the same of the same.
pub(super) fn are_computed_alike(func: &Function, a: &InstData, b: &InstData) -> bool {
    let is_alike = |(&x, &y): (&Value, &Value)| x == y || is_alike(func, x, y);
    a.op == b.op
        && a.imm == b.imm
        && a.operands.len() == b.operands.len()
        && a.operands.iter().zip(&b.operands).all(is_alike)
}

/// Returns true if two values are the same constant or coordinate.
fn is_alike(func: &Function, x: Value, y: Value) -> bool {
    let is_known = |value: Value| match func.values[value].def {
        ValueDef::Result(inst, _) => func.insts[inst].op == Op::Tid || func.as_const(value).is_some(),
        _ => false,
    };
    is_known(x) && is_known(y) && AffineSum::of(func, x) == AffineSum::of(func, y) && func.ty(x) == func.ty(y)
}
