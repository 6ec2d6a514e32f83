//! What is known of the kernel before it is split: who uses what, which threads must execute what together, and what is
//! cheaper to compute again than to keep.

use cranelift_entity::{EntitySet, SecondaryMap};
use polyloom_ir::analysis::uniformity::{ThreadScope, Uniformity, UniformityContext};
use polyloom_ir::op::Convergence;
use polyloom_ir::{Function, Imm, Inst, InstData, Module, Op, Region, Type, Value, ValueDef};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Instructions that make a value again, at most.
const MAX_REMADE: u32 = 10;

/// A use of a value: the instruction and which operand.
pub(super) type Use = (Inst, u32);

/// Operands from here on are no operands of the instruction itself: what it needs otherwise.
pub(super) const BEHIND_OPERANDS: u32 = 1 << 16;

/// A view of dynamic shared memory.
#[derive(Clone, Debug)]
pub(super) struct SharedView {
    pub(super) offset: Value,
    pub(super) extents: SmallVec<[Value; 4]>,
}

pub(super) struct BlockFacts<'a> {
    pub(super) func: &'a Function,
    block: Uniformity,
    warp: Uniformity,
    /// Says which threads must execute the instruction, or something in its regions, together.
    needs: SecondaryMap<Inst, Convergence>,
    users: SecondaryMap<Value, Vec<Use>>,
    /// Values that are made again where they are used.
    remade: EntitySet<Value>,
    /// Those of these that are made of `thread_idx`.
    of_coordinates: EntitySet<Value>,
    pub(super) views: FxHashMap<Value, SharedView>,
    /// True if the code is for text.
    for_text: bool,
}

impl<'a> BlockFacts<'a> {
    pub(super) fn of(
        module: &Module,
        func: &'a Function,
        block: Option<[u32; 3]>,
        whole_warps: bool,
        for_text: bool,
    ) -> BlockFacts<'a> {
        let uniformity = |threads| {
            // Elements that nothing writes count as the same for all threads, as they do for the verifier.
            let context = UniformityContext {
                threads,
                block,
                whole_warps,
                disjoint: &|_| true,
                ..UniformityContext::new(module, 1)
            };
            Uniformity::of(func, &context)
        };
        let mut facts = BlockFacts {
            func,
            block: uniformity(ThreadScope::Block),
            warp: uniformity(ThreadScope::Warp),
            needs: SecondaryMap::new(),
            users: SecondaryMap::new(),
            remade: EntitySet::new(),
            of_coordinates: EntitySet::new(),
            views: FxHashMap::default(),
            for_text,
        };
        facts.find_needs(func.body);
        facts.find_users();
        facts
    }

    fn find_needs(&mut self, region: Region) -> Convergence {
        let mut most = Convergence::None;
        for &inst in &self.func.regions[region].insts {
            let data = &self.func.insts[inst];
            let mut needs = data.op.info().convergence;
            for &inner in &data.regions {
                needs = needs.max(self.find_needs(inner));
            }
            self.needs[inst] = needs;
            most = most.max(needs);
        }
        most
    }

    fn find_users(&mut self) {
        let func = self.func;
        let mut costs: SecondaryMap<Value, u32> = SecondaryMap::new();
        let mut remade = Vec::new();
        func.walk(func.body, &mut |inst, data| {
            if data.op == Op::DynamicShared {
                let view = SharedView { offset: data.operands[0], extents: SmallVec::from_slice(&data.operands[1..]) };
                self.views.insert(data.results[0], view);
            }
            let mut behind = BEHIND_OPERANDS;
            for (index, &operand) in data.operands.iter().enumerate() {
                self.users[operand].push((inst, index as u32));
                if let Some(view) = self.views.get(&operand) {
                    for &value in [view.offset].iter().chain(&view.extents) {
                        self.users[value].push((inst, behind));
                        behind += 1;
                    }
                }
            }
            if let Some(cost) = self.cost_of_remaking(data, &costs) {
                let result = data.results[0];
                costs[result] = cost;
                self.remade.insert(result);
                let of_coordinates = data.operands.iter().any(|&operand| self.of_coordinates.contains(operand));
                if data.op == Op::ThreadIdx || of_coordinates {
                    self.of_coordinates.insert(result);
                }
                remade.push((inst, result));
            }
        });
        // Who uses a value that is made again uses what it is made of.
        for (inst, result) in remade.into_iter().rev() {
            let users = self.users[result].clone();
            for &operand in &func.insts[inst].operands {
                self.users[operand].extend_from_slice(&users);
            }
        }
    }

    /// Returns the number of instructions that make the result again, if that is worth it: those that differ between
    /// the threads of a block, from where the thread is and what is the same for all of them.
    fn cost_of_remaking(&self, data: &InstData, costs: &SecondaryMap<Value, u32>) -> Option<u32> {
        let &[result] = &data.results[..] else { return None };
        if matches!(data.op, Op::Tid | Op::TidLinear | Op::ThreadIdx | Op::LaneId | Op::WarpId) {
            return Some(1);
        }
        let costly = matches!(data.op, Op::Call | Op::Sqrt | Op::Dim | Op::SharedArray | Op::DynamicShared);
        let divides = matches!(data.op, Op::Div | Op::Mod | Op::FloorDiv)
            && self.func.as_const(data.operands[1]).is_none_or(|bits| !bits.is_power_of_two());
        // In text, what has no name reads better where it is used.
        let is_outer = self.is_uniform(ThreadLevel::Block, result)
            && (!self.for_text || self.func.value_names[result].is_some() || data.op == Op::Const);
        if costly || divides || !data.op.info().is_pure() || is_outer {
            return None;
        }
        let mut cost = 1;
        for &operand in &data.operands {
            let again = self.remade.contains(operand);
            if !again && !self.is_known_outside(operand) {
                return None;
            }
            cost += costs[operand];
        }
        (cost <= MAX_REMADE).then_some(cost)
    }

    /// Returns true if a value is an argument, a constant or computed of such alone.
    fn is_known_outside(&self, value: Value) -> bool {
        self.func.param_index(value).is_some()
            || self.func.as_const(value).is_some()
            || (self.is_uniform(ThreadLevel::Block, value)
                && matches!(self.func.values[value].def, ValueDef::Result(inst, _)
                    if self.func.insts[inst].op.info().is_pure() && self.func.insts[inst].regions.is_empty()))
    }

    pub(super) fn is_uniform(&self, level: ThreadLevel, value: Value) -> bool {
        self.uniformity(level).shape(value).is_uniform()
    }

    fn uniformity(&self, level: ThreadLevel) -> &Uniformity {
        match level {
            ThreadLevel::Block => &self.block,
            ThreadLevel::Warp => &self.warp,
        }
    }

    /// Returns true if threads that enter an instruction with regions stay together in it.
    pub(super) fn stays_together(&self, level: ThreadLevel, inst: Inst) -> bool {
        self.uniformity(level).cond_is_uniform(inst)
    }

    /// Returns true if a jump is one that only some of the threads may make.
    pub(super) fn is_divergent(&self, level: ThreadLevel, inst: Inst) -> bool {
        self.uniformity(level).is_divergent(inst)
    }

    pub(super) fn needs(&self, inst: Inst) -> Convergence {
        self.needs[inst]
    }

    pub(super) fn users(&self, value: Value) -> &[Use] {
        &self.users[value]
    }

    pub(super) fn is_remade(&self, value: Value) -> bool {
        self.remade.contains(value)
    }

    pub(super) fn is_of_coordinates(&self, value: Value) -> bool {
        self.of_coordinates.contains(value)
    }

    /// The jumps in an instruction's regions that leave it.
    pub(super) fn jumps_out_of(&self, inst: Inst) -> Vec<Inst> {
        let mut inside = FxHashSet::from_iter([inst]);
        let mut jumps = Vec::new();
        for &region in &self.func.insts[inst].regions {
            self.func.walk(region, &mut |inner, data| {
                inside.insert(inner);
                match data.imm {
                    _ if data.op == Op::Return => jumps.push(inner),
                    Imm::Target(target) if !inside.contains(&target) => jumps.push(inner),
                    _ => {}
                }
            });
        }
        jumps
    }

    /// The type of a value that is a scalar.
    pub(super) fn scalar(&self, value: Value) -> Option<polyloom_ir::Scalar> {
        self.func.ty(value).as_scalar()
    }

    /// The number of dimensions of an array.
    pub(super) fn ndim(&self, array: Value) -> usize {
        match self.func.ty(array) {
            Type::Array { ndim, .. } => ndim.into(),
            _ => 0,
        }
    }
}

/// The threads that a piece of code runs for together, in a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThreadLevel {
    /// Those of the block.
    Block,
    /// Those of one of its warps.
    Warp,
}

impl ThreadLevel {
    /// Returns what these threads must execute together at least for them to do so here.
    pub(super) fn convergence(self) -> Convergence {
        match self {
            ThreadLevel::Block => Convergence::Block,
            ThreadLevel::Warp => Convergence::Warp,
        }
    }
}
