//! Estimates from HIR what a thread costs by itself and as one lane of a group, to decide between the two.
//!
//! Numbers are cycles of a recent x86-64 core, per thread. They were fitted to kernels measured both ways
//! (`docs/design/cpu-strategies.md`); what counts is their ratio.

use super::calls::used_values;
use super::loop_forms::is_strided;
use super::private_copies::find_private_params;
use super::reciprocals::find_divisions_by_invariants;
use super::row_tiles::tiled_accesses;
use cranelift_entity::SecondaryMap;
use polyloom_codegen::CodeVariant;
use polyloom_ir::analysis::uniformity::{Uniformity, ValueShape};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Function, Imm, Inst, InstData, Module, Op, Region, Value, ValueDef};
use rustc_hash::FxHashMap;

/// Iterations that a loop is taken to have.
const ITERATIONS: f32 = 16.0;
/// Cycles until a sum or product of floats can be used.
const LATENCY: f32 = 4.0;
/// Lanes wait for the one among them that takes longest: the share of a group's work that is of use, inverted, in loops
/// that each thread leaves by itself.
const WAITING: f32 = 2.0;
/// A multiplication by a reciprocal, with the shifts around it.
const SHARED_DIVISION: f32 = 2.0;
/// A branch that goes either way is often predicted wrongly.
const MISPREDICTED: f32 = 4.0;

/// Cycles per thread.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ThreadCost {
    /// The cycles of a thread that runs by itself.
    pub(crate) alone: f32,
    /// The cycles of a thread that is one lane of a group.
    pub(crate) in_group: f32,
}

impl ThreadCost {
    /// Estimates a region of a kernel in groups of `lanes` threads, whose values take `n_registers` vector registers each.
    pub(crate) fn of(
        module: &Module,
        func: &Function,
        region: Region,
        uniformity: &Uniformity,
        variant: &CodeVariant,
        (lanes, n_registers): (u32, f32),
    ) -> ThreadCost {
        let copied = find_private_params(func, &used_values(func), variant);
        let tiled = tiled_accesses(module, func, uniformity, &variant.facts);
        let (copied, lanes) = (&copied, lanes as f32);
        let by_invariants = find_divisions_by_invariants(func, true);
        let model = CostModel { module, func, uniformity, variant, by_invariants, copied, tiled, lanes, n_registers };
        model.region(region, false)
    }

    fn add(&mut self, other: ThreadCost, factor: f32) {
        self.alone += factor * other.alone;
        self.in_group += factor * other.in_group;
    }
}

struct CostModel<'a> {
    module: &'a Module,
    func: &'a Function,
    uniformity: &'a Uniformity,
    variant: &'a CodeVariant,
    by_invariants: SecondaryMap<Inst, bool>,
    /// The arrays that ranges of threads have copies of.
    copied: &'a [(usize, Op)],
    /// The accesses that are part of tiles, each with whether it only loads what its loop stored.
    tiled: FxHashMap<Inst, bool>,
    lanes: f32,
    n_registers: f32,
}

/// Says how the elements lie that neighbouring threads access.
enum ElementLayout {
    /// It is one element.
    One,
    /// They follow each other.
    Row,
    /// They are components of neighbouring vectors or matrices.
    Component,
    /// They are components of vectors or matrices anywhere.
    Block,
    /// They are anywhere.
    Apart,
    /// Each thread goes along elements of its own that follow each other: at powers of two apart, a group's compete for
    /// the same places of the cache.
    Walk,
}

impl CostModel<'_> {
    /// Estimates the instructions of a region. `masked`: some lanes of a group may not execute it.
    fn region(&self, region: Region, masked: bool) -> ThreadCost {
        let mut sum = ThreadCost::default();
        for &inst in &self.func.regions[region].insts {
            sum.add(self.inst(inst, masked), 1.0);
        }
        sum
    }

    fn inst(&self, inst: Inst, masked: bool) -> ThreadCost {
        let data = &self.func.insts[inst];
        match data.op {
            Op::If => {
                let mut cost = ThreadCost { alone: 0.5, in_group: 0.5 / self.lanes };
                let parts = !self.uniformity.cond_is_uniform(inst);
                let is_branch = data.regions.iter().any(|&region| self.func.regions[region].insts.len() > 2);
                cost.alone += if parts && is_branch { MISPREDICTED } else { 0.0 };
                for &region in &data.regions {
                    let side = self.region(region, masked || parts);
                    cost.alone += 0.5 * side.alone;
                    cost.in_group += if parts { side.in_group } else { 0.5 * side.in_group };
                }
                cost
            }
            Op::ForRange | Op::While => self.iterations(inst, masked),
            Op::Block => data.regions.first().map(|&region| self.region(region, masked)).unwrap_or_default(),
            Op::ArrayLoad | Op::LoadReadonly | Op::ArrayStore => match self.tiled.get(&inst) {
                Some(&reloads) => self.tiled_access(data, reloads),
                None => self.access(data, masked),
            },
            Op::Call => {
                let Imm::Func(callee) = data.imm else { return ThreadCost::default() };
                let size = self.module.functions.get(callee).map_or(10, |callee| callee.insts.len()) as f32;
                self.work(data, 0.5 * size)
            }
            _ if data.op.info().is_terminator() => ThreadCost::default(),
            _ => match data.op.info().group {
                OpGroup::Atomic => self.atomic(data),
                OpGroup::Core if data.op == Op::Const => ThreadCost::default(),
                OpGroup::Index => ThreadCost::default(),
                _ if self.is_multiplication(inst) => self.work(data, SHARED_DIVISION),
                _ => self.work(data, self.cycles(data)),
            },
        }
    }

    /// Returns true for a division that is lowered as a multiplication by a reciprocal.
    fn is_multiplication(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let is_shared = data.operands.get(1).is_some_and(|&divisor| self.shape(divisor).is_uniform());
        is_shared && self.by_invariants[inst]
    }

    /// Cycles of a pure op of which nothing else waits.
    fn cycles(&self, data: &InstData) -> f32 {
        let ty = data.operands.first().and_then(|&value| self.func.ty(value).as_scalar());
        let is_int = ty.is_some_and(polyloom_ir::Scalar::is_int);
        match data.op {
            Op::Div | Op::Mod if is_int => 6.0,
            Op::Div | Op::Sqrt => 3.0,
            Op::Mod => 20.0,
            _ if data.op.info().group == OpGroup::Math && !matches!(data.op, Op::Abs | Op::Min | Op::Max | Op::Fma) => {
                20.0
            }
            _ => 0.2,
        }
    }

    fn work(&self, data: &InstData, cycles: f32) -> ThreadCost {
        let varies = data.results.iter().chain(&data.operands).any(|&value| self.shape(value) == ValueShape::Varying);
        let registers = if varies { self.n_registers * 2.0 } else { 1.0 };
        ThreadCost { alone: cycles, in_group: cycles * registers / self.lanes }
    }

    fn atomic(&self, data: &InstData) -> ThreadCost {
        let varies = data.operands[1..].iter().any(|&value| self.shape(value) != ValueShape::Uniform);
        let array = self.func.param_index(data.operands[0]);
        let is_copied = self.copied.iter().any(|&(copied, _)| Some(copied) == array);
        if is_copied {
            return ThreadCost { alone: 1.2, in_group: 2.2 };
        }
        let alone = if self.variant.facts.alone { 1.5 } else { 20.0 };
        ThreadCost { alone, in_group: if varies { alone + 6.0 } else { 1.0 } }
    }

    /// Estimates an access that is part of a tile: it is transposed by shuffles and goes through a buffer.
    fn tiled_access(&self, data: &InstData, reloads: bool) -> ThreadCost {
        let is_store = data.op == Op::ArrayStore;
        let alone = if is_store { 0.6 } else { 0.3 };
        ThreadCost { alone, in_group: if reloads { self.n_registers / self.lanes } else { 0.9 } }
    }

    fn access(&self, data: &InstData, masked: bool) -> ThreadCost {
        let is_store = data.op == Op::ArrayStore;
        let (alone, per_lane) = if is_store { (0.6, 1.0 / self.lanes) } else { (0.3, 0.5 / self.lanes) };
        let in_group = match self.access_of(data) {
            ElementLayout::One => per_lane,
            ElementLayout::Row => per_lane * self.n_registers,
            ElementLayout::Component => 2.0 * per_lane * self.n_registers + 0.1,
            ElementLayout::Block if !is_store && !masked => 0.6,
            ElementLayout::Block | ElementLayout::Apart => {
                if is_store {
                    1.5
                } else {
                    1.0
                }
            }
            ElementLayout::Walk => 5.0,
        };
        ThreadCost { alone, in_group }
    }

    fn access_of(&self, data: &InstData) -> ElementLayout {
        let array = data.operands[0];
        let Some((_, n_dims)) = self.func.ty(array).as_array() else { return ElementLayout::One };
        let mut indices = &data.operands[1..=usize::from(n_dims)];
        if indices.iter().all(|&index| self.shape(index).is_uniform()) {
            return ElementLayout::One;
        }
        let is_dense = self.func.param_index(array).is_none_or(|param| self.variant.facts.array(param).contiguous);
        let n_all = indices.len();
        while let [before @ .., last] = indices
            && self.func.as_const(*last).is_some()
            && !before.is_empty()
        {
            indices = before;
        }
        let has_components = indices.len() < n_all;
        let Some((&last, outer)) = indices.split_last() else { return ElementLayout::One };
        if !is_dense {
            return ElementLayout::Apart;
        }
        let outer_vary = outer.iter().any(|&index| !self.shape(index).is_uniform());
        match self.shape(last) {
            ValueShape::Affine { stride: 1 | -1, .. } if !outer_vary => {
                if has_components {
                    ElementLayout::Component
                } else {
                    ElementLayout::Row
                }
            }
            ValueShape::Uniform if outer_vary && !has_components => ElementLayout::Walk,
            _ if has_components => ElementLayout::Block,
            ValueShape::Varying if self.adds_counter(last) => ElementLayout::Walk,
            _ => ElementLayout::Apart,
        }
    }

    /// True for a sum of the counter of a loop and what each thread has of its own.
    fn adds_counter(&self, index: Value) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[index].def else { return false };
        let data = &self.func.insts[inst];
        let is_counter = |value: &Value| match self.func.values[*value].def {
            ValueDef::Param(region, 0) => region != self.func.body,
            _ => false,
        };
        data.op == Op::Add
            && data.operands.iter().any(is_counter)
            && data.operands.iter().any(|&value| self.is_product(value))
    }

    /// True for products and for what casts them, such as the place where a thread's row begins.
    fn is_product(&self, value: Value) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return false };
        let data = &self.func.insts[inst];
        match data.op {
            Op::Mul => true,
            Op::Cast => self.is_product(data.operands[0]),
            _ => false,
        }
    }

    fn iterations(&self, inst: Inst, masked: bool) -> ThreadCost {
        let data = &self.func.insts[inst];
        let mut once = ThreadCost { alone: 0.7, in_group: 0.7 / self.lanes };
        let parts = !self.uniformity.cond_is_uniform(inst);
        for &region in &data.regions {
            once.add(self.region(region, masked || parts), 1.0);
        }
        // Short loops of neighbouring threads overlap, as far as their ends are predicted.
        let latency = self.latency(inst) * if parts { 0.7 } else { 1.0 };
        once.alone = once.alone.max(latency);
        once.in_group = once.in_group.max(latency / self.lanes);
        let mut cost = ThreadCost::default();
        cost.add(once, ITERATIONS);
        if parts && !is_strided(self.func, self.uniformity, inst) {
            cost.alone += MISPREDICTED;
            cost.in_group *= WAITING;
        }
        cost
    }

    /// Cycles that an iteration waits for what the one before has computed.
    fn latency(&self, inst: Inst) -> f32 {
        let Some(&body) = self.func.insts[inst].regions.last() else { return 0.0 };
        let mut since: FxHashMap<Value, f32> = FxHashMap::default();
        let is_float = |value: &Value| self.func.ty(*value).as_scalar().is_some_and(polyloom_ir::Scalar::is_float);
        // Counters run ahead, because the processor does not wait for what depends on them alone.
        since.extend(self.func.regions[body].params.iter().filter(|param| is_float(param)).map(|&param| (param, 0.0)));
        for &inner in &self.func.regions[body].insts {
            let data = &self.func.insts[inner];
            let longest = data.operands.iter().filter_map(|value| since.get(value)).copied().reduce(f32::max);
            let Some(longest) = longest else { continue };
            if data.op == Op::Yield {
                let floats = data.operands.iter().filter(|value| is_float(value));
                return floats.filter_map(|value| since.get(value)).copied().fold(0.0, f32::max);
            }
            let own = match data.op {
                Op::Select | Op::Cast => 1.0,
                Op::Div | Op::Sqrt => 12.0,
                _ if data.regions.is_empty() => LATENCY,
                _ => 0.0,
            };
            for &result in &data.results {
                since.insert(result, longest + own);
            }
        }
        0.0
    }

    fn shape(&self, value: Value) -> ValueShape {
        self.uniformity.shape(value)
    }
}
