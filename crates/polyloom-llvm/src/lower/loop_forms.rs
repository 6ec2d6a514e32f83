//! Loops that are lowered twice, for what their iterations mostly are and for what they may be, and loops that LLVM
//! vectorises.

use super::control_frame::MergeEdge;
use super::{ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_ir::analysis::uniformity::{Uniformity, ValueShape};
use polyloom_ir::op::OpEffect;
use polyloom_ir::{FloatMode, Function, Inst, Op, Region, Value};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Most instructions of loops that are emitted twice.
const MOST_SPLIT: u32 = 64;

/// Tells LLVM to vectorise a loop under masks. As many iterations as there are often, not more.
pub(super) const AS_LANES: [(&str, Option<u32>); 4] = [
    ("llvm.loop.unroll.runtime.disable", None),
    ("llvm.loop.vectorize.predicate.enable", Some(1)),
    ("llvm.loop.vectorize.width", Some(8)),
    ("llvm.loop.interleave.count", Some(1)),
];

/// Returns true for a loop in which each thread takes elements a step apart, from its own number on: two threads of a
/// group make as many iterations, or one makes one more.
pub(super) fn is_strided(func: &Function, uniformity: &Uniformity, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let &[lo, hi, step, ..] = &data.operands[..] else { return false };
    let mut leaves = false;
    func.walk(data.regions[0], &mut |_, inner| {
        leaves |= matches!(inner.op, Op::Break | Op::Continue | Op::Return);
    });
    data.op == Op::ForRange
        && !leaves
        && matches!(uniformity.shape(lo), ValueShape::Affine { stride: 1, .. })
        && uniformity.shape(hi).is_uniform()
        && uniformity.shape(step).is_uniform()
        && func.ty(lo).as_scalar().is_some_and(|ty| ty.is_signed_int())
}

impl FunctionLowering<'_, '_> {
    /// Lowers a strided loop as the iterations that all lanes of a group make, and those that are left to some of them;
    /// `None` for other loops.
    pub(super) fn strided_for_range(
        &mut self,
        inst: Inst,
        bounds: &[ValueRep],
        inits: &Reps,
    ) -> Result<Option<RegionFlow>> {
        let func = self.func;
        let data = &func.insts[inst];
        let &[ValueRep::Affine { base: lo, stride }, ValueRep::Uniform(hi), ValueRep::Uniform(step)] = bounds else {
            return Ok(None);
        };
        let is_strided = self.lane_facts().is_some_and(|facts| is_strided(func, facts, inst));
        let mut n_insts = 0;
        func.walk(data.regions[0], &mut |_, _| n_insts += 1);
        if !is_strided || self.exec != ExecMask::Full || !self.splits(inst) || n_insts > MOST_SPLIT {
            return Ok(None);
        }
        let (ir, ty) = (self.ir, self.scalar_of(data.operands[0])?);
        let zero = ir.zero(ir.type_of(lo));
        let last = ir.add(lo, ir.int_const(ir.type_of(lo), u64::from(self.lanes - 1)));
        let step_const = func.as_const(data.operands[2]);
        let n_first = self.trip_count(lo, hi, step, ty, step_const)?;
        let n_last = self.trip_count(last, hi, step, ty, step_const)?;
        // The last lane makes the fewest if the loop goes up. Nothing wraps around if neither the lanes' numbers do nor
        // where the first lane comes to. Otherwise no iteration is made in step.
        let middle = ir.add(lo, ir.mul(n_last, step));
        let goes_up = ir.and(ir.icmp(ULE, n_last, n_first), ir.icmp(SLE, zero, lo));
        let stays = ir.and(ir.icmp(SLE, lo, last), ir.icmp(SLE, lo, middle));
        let is_plain = ir.and(goes_up, stays);
        let middle = ir.select(is_plain, middle, lo);
        let together = [bounds[0], ValueRep::Uniform(middle), bounds[2]];
        self.in_step.push(inst);
        let flow = self.for_range_over(inst, &together, inits.clone())?;
        self.in_step.pop();
        let RegionFlow::Yields(values) = flow else { return Ok(Some(flow)) };
        let (apart, none_left) = (ir.block(c"apart"), ir.block(c"none_left"));
        let is_over = ir.and(is_plain, ir.icmp(EQ, n_first, n_last));
        ir.cond_br(is_over, none_left, apart);
        let mut edges = vec![MergeEdge { block: none_left, values: values.clone(), exec: self.exec }];
        ir.switch_to(apart);
        let rest = [ValueRep::Affine { base: middle, stride }, bounds[1], bounds[2]];
        if let RegionFlow::Yields(values) = self.for_range_over(inst, &rest, values)? {
            edges.push(MergeEdge { block: ir.current(), values, exec: self.exec });
        }
        Ok(Some(self.join(edges)?.map_or(RegionFlow::Gone, RegionFlow::Yields)))
    }

    /// The bounds of two loops, in place of one whose counter goes up from what may be negative and is compared with
    /// zero in each iteration, as every index is: up to zero, and from there on.
    pub(super) fn split_at_zero(&mut self, inst: Inst, bounds: &[ValueRep]) -> Result<Option<[Reps; 2]>> {
        let func = self.func;
        let data = &func.insts[inst];
        let counter = func.regions[data.regions[0]].params[0];
        let ty = self.scalar_of(counter)?;
        let (mut compares, mut n_insts, mut leaves) = (false, 0, false);
        func.walk(data.regions[0], &mut |_, inner| {
            n_insts += 1;
            compares |=
                inner.op == Op::Lt && inner.operands[0] == counter && func.as_const(inner.operands[1]) == Some(0);
            leaves |= matches!(inner.op, Op::Break | Op::Continue | Op::Return) || !inner.regions.is_empty();
        });
        let is_known = func.as_const(data.operands[0]).is_some_and(|lo| (lo as i64) << (64 - ty.bits()) >= 0);
        let steps_by_one = func.as_const(data.operands[2]) == Some(1);
        if self.lanes > 1
            || self.arith.processor.is_gpu
            || !ty.is_signed_int()
            || is_known
            || !steps_by_one
            || !compares
            || leaves
            || n_insts > MOST_SPLIT
        {
            return Ok(None);
        }
        let (lo, hi) = (self.base(bounds[0])?, self.base(bounds[1])?);
        let zero = self.ir.zero(self.ir.type_of(lo));
        let middle = [self.arith.min_max(false, hi, zero, ty), self.arith.min_max(true, lo, zero, ty)];
        let [below, above] = middle.map(ValueRep::Uniform);
        Ok(Some([
            SmallVec::from_slice(&[bounds[0], below, bounds[2]]),
            SmallVec::from_slice(&[above, bounds[1], bounds[2]]),
        ]))
    }

    /// Returns true for a loop of a single thread that LLVM is to vectorise under masks: one that neighbouring threads
    /// leave at different times, so that a vector of iterations is often the only one, and that computes sums and the
    /// like in whatever order.
    pub(super) fn runs_iterations_as_lanes(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let body = data.regions[0];
        let is_ragged = self.lanes == 1 && self.uniformity.is_some_and(|facts| !facts.cond_is_uniform(inst));
        let any_order = |&param: &Value| {
            self.func.metadata.float_mode == FloatMode::Fast
                || self.func.ty(param).as_scalar().is_some_and(|ty| ty.is_int())
        };
        let only_reads = |&inner: &Inst| {
            let inner = &self.func.insts[inner];
            let is_read = matches!(inner.op.info().effect, OpEffect::Pure | OpEffect::Read | OpEffect::Terminator);
            is_read && inner.regions.is_empty() && inner.op != Op::Call
        };
        data.op == Op::ForRange
            && is_ragged
            // Without masks that cost nothing a vector of what is left over is none.
            && self.arith.processor.vector_bytes == 64
            && self.func.regions[body].params.iter().skip(1).all(any_order)
            && self.func.regions[body].insts.iter().all(only_reads)
            && !(self.arith.processor.has_slow_gathers() && has_indirect_loads(self.func, body))
    }
}

/// Returns true if a loop loads elements whose indices it has loaded, which a vector gathers.
fn has_indirect_loads(func: &Function, body: Region) -> bool {
    let insts = &func.regions[body].insts;
    // Values that depend on what the loop has loaded.
    let mut loaded: FxHashSet<Value> = FxHashSet::default();
    let mut is_indirect = false;
    for &inst in insts {
        let data = &func.insts[inst];
        let depends = data.operands.iter().any(|operand| loaded.contains(operand));
        let is_load = matches!(data.op, Op::ArrayLoad | Op::LoadReadonly);
        is_indirect |= is_load && depends;
        if is_load || depends {
            loaded.extend(&data.results);
        }
    }
    is_indirect
}
