//! `if`.
//!
//! Where all lanes agree it is a branch. Where they may not, both sides run under masks.

use super::control_frame::MergeEdge;
use super::{ExecMask, FunctionLowering, RegionFlow, Reps, Result, ValueRep};
use crate::ir::*;
use polyloom_ir::{Inst, Op, Region, Scalar, Value, ValueDef};
use smallvec::{SmallVec, smallvec};

impl FunctionLowering<'_, '_> {
    pub(super) fn lower_if(&mut self, inst: Inst) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let (then, otherwise) = (data.regions[0], data.regions[1]);
        let cond = self.rep(data.operands[0])?;
        let cond = match cond {
            ValueRep::Vector(mask) if self.shape(data.operands[0]).is_uniform() => {
                ValueRep::Uniform(self.uniform(ValueRep::Vector(mask))?)
            }
            cond => cond,
        };
        if let ValueRep::Uniform(cond) = cond
            && let Some(known) = self.ir.as_int_const(cond)
        {
            return self.lower_region(if known == 0 { otherwise } else { then });
        }
        let (then_block, else_block);
        match cond {
            ValueRep::Uniform(cond) => {
                (then_block, else_block) = (self.ir.block(c"then"), self.ir.block(c"else"));
                self.ir.cond_br(cond, then_block, else_block);
            }
            ValueRep::Vector(cond) if self.can_bail_out(inst) => {
                // Usually the whole group takes one side; if not, the masked copy of the body starts the group again.
                let bits = self.mask_bits(cond);
                let ty = self.ir.type_of(bits);
                (then_block, else_block) = (self.ir.block(c"then"), self.ir.block(c"else"));
                let not_all = self.ir.block(c"not_all");
                let all = match self.in_all_lanes(data.operands[0], true, 8)? {
                    Some(all) => all,
                    None => smallvec![self.ir.icmp(EQ, bits, self.ir.ones(ty))],
                };
                self.branch_if_all(&all, then_block, not_all);
                self.ir.switch_to(not_all);
                let none = match self.in_all_lanes(data.operands[0], false, 8)? {
                    Some(none) => none,
                    None => smallvec![self.ir.icmp(EQ, bits, self.ir.zero(ty))],
                };
                let mixed = self.ir.block(c"mixed");
                self.branch_if_all(&none, else_block, mixed);
                self.ir.switch_to(mixed);
                if let Some(bail_out) = &mut self.bail_out {
                    bail_out.from.push(mixed);
                    self.ir.br(bail_out.target);
                }
            }
            cond => {
                let cond = self.vector(cond)?;
                return self.masked_if(inst, cond);
            }
        }
        let before = self.exec;
        let mut edges = Vec::new();
        let mut reached = false;
        for (block, region) in [(then_block, then), (else_block, otherwise)] {
            self.ir.switch_to(block);
            self.exec = before;
            let flow = self.lower_region(region)?;
            match flow {
                RegionFlow::Yields(values) => {
                    edges.push((true, MergeEdge { block: self.ir.current(), values, exec: self.exec }));
                    reached = true;
                }
                RegionFlow::Dead => {
                    edges.push((false, MergeEdge { block: self.ir.current(), values: Reps::new(), exec: self.exec }));
                }
                RegionFlow::Gone => {}
            }
        }
        if !reached {
            let edges: Vec<MergeEdge> = edges.into_iter().map(|(_, edge)| edge).collect();
            return Ok(if self.join(edges)?.is_some() { RegionFlow::Dead } else { RegionFlow::Gone });
        }
        // A side whose lanes are all gone hands over zeros of whatever the other side yields.
        let like = edges.iter().find(|(yields, _)| *yields).map(|(_, edge)| edge.values.clone()).unwrap_or_default();
        let edges = edges
            .into_iter()
            .map(|(yields, mut edge)| {
                if !yields {
                    edge.values = like.iter().map(|&rep| self.zero_like(rep)).collect();
                }
                edge
            })
            .collect();
        Ok(self.join(edges)?.map_or(RegionFlow::Gone, RegionFlow::Yields))
    }

    /// Returns true if a divergent `if` may leave for the masked copy of the body: nothing has happened yet that must
    /// not happen twice, and its condition only compares indices, so that the lanes of a group mostly agree.
    fn can_bail_out(&self, inst: Inst) -> bool {
        let cond = self.func.insts[inst].operands[0];
        self.bail_out.is_some() && self.exec == ExecMask::Full && !self.has_effects && self.compares_indices(cond, 8)
    }

    /// Goes to `then` if all conditions hold. Branches rather than arithmetic, because each is predicted well.
    fn branch_if_all(&self, conditions: &[Val], then: BasicBlock, otherwise: BasicBlock) {
        for (index, &condition) in conditions.iter().enumerate() {
            let is_last = index + 1 == conditions.len();
            let next = if is_last { then } else { self.ir.block(c"and") };
            self.ir.cond_br(condition, next, otherwise);
            if !is_last {
                self.ir.switch_to(next);
            }
        }
    }

    /// Conditions on scalars which together say that a condition is `truth` in all lanes: of comparisons of an index
    /// with a bound, that the index goes up, or down, from lane to lane and that the lane nearest to the bound is on
    /// the right side of it. They may not hold where the condition is `truth` in all lanes. `None` for other
    /// conditions.
    fn in_all_lanes(&mut self, cond: Value, truth: bool, depth: u32) -> Result<Option<SmallVec<[Val; 4]>>> {
        if self.shape(cond).is_uniform() {
            let rep = self.rep(cond)?;
            let cond = self.uniform(rep)?;
            return Ok(Some(smallvec![if truth { cond } else { self.ir.not(cond) }]));
        }
        let ValueDef::Result(inst, _) = self.func.values[cond].def else { return Ok(None) };
        let data = &self.func.insts[inst];
        if let (Op::Not, &[x], true) = (data.op, &data.operands[..], depth > 0) {
            return self.in_all_lanes(x, !truth, depth - 1);
        }
        let &[a, b] = &data.operands[..] else { return Ok(None) };
        match data.op {
            Op::BitAnd | Op::BitOr if depth > 0 => {
                let a = self.in_all_lanes(a, truth, depth - 1)?;
                let b = self.in_all_lanes(b, truth, depth - 1)?;
                let needs_both = (data.op == Op::BitAnd) == truth;
                Ok(a.zip(b).map(|(mut a, b)| {
                    if needs_both {
                        a.extend(b);
                        return a;
                    }
                    let all = |conditions: &[Val]| conditions.iter().copied().reduce(|a, b| self.ir.and(a, b));
                    all(&a).zip(all(&b)).map(|(a, b)| self.ir.or(a, b)).into_iter().collect()
                }))
            }
            Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                let Some(ty) = self.func.ty(a).as_scalar().filter(|ty| ty.is_int()) else { return Ok(None) };
                let op = if truth { Some(data.op) } else { data.op.inverse(false) };
                let (index, first, stride, bound, op) = match (self.rep(a)?, self.rep(b)?) {
                    (ValueRep::Affine { base, stride }, ValueRep::Uniform(bound)) => (a, base, stride, bound, op),
                    (ValueRep::Uniform(bound), ValueRep::Affine { base, stride }) => {
                        (b, base, stride, bound, op.and_then(Op::exchanged))
                    }
                    _ => return Ok(None),
                };
                let Some(op) = op else { return Ok(None) };
                let ir = self.ir;
                let way = stride.saturating_mul(i64::from(self.lanes) - 1);
                if way.unsigned_abs() >> (ty.bits() - 1) != 0 {
                    return Ok(None);
                }
                let last = ir.add(first, ir.int_const(ir.type_of(first), way as u64));
                let is_below = matches!(op, Op::Lt | Op::Le);
                let nearest = if is_below == (stride >= 0) { last } else { first };
                let compare = |op, a, b| self.arith.emit(op, ty, Scalar::Bool, &[a, b]);
                let Some(holds) = compare(op, nearest, bound) else { return Ok(None) };
                let is_coordinate = matches!(self.func.values[index].def, ValueDef::Result(inst, _)
                    if matches!(self.func.insts[inst].op, Op::Tid | Op::TidLinear));
                if is_coordinate {
                    return Ok(Some(smallvec![holds]));
                }
                // The order is tested too, because indices other than coordinates may wrap around on the way.
                let in_order = compare(if stride >= 0 { Op::Le } else { Op::Ge }, first, last);
                Ok(in_order.map(|in_order| smallvec![in_order, holds]))
            }
            _ => Ok(None),
        }
    }

    fn compares_indices(&self, cond: Value, depth: u32) -> bool {
        let ValueDef::Result(inst, _) = self.func.values[cond].def else { return self.shape(cond).is_uniform() };
        let data = &self.func.insts[inst];
        match data.op {
            _ if self.shape(cond).is_uniform() => true,
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                data.operands.iter().all(|&v| self.shape(v).stride().is_some())
            }
            Op::BitAnd | Op::BitOr | Op::Not if depth > 0 => {
                data.operands.iter().all(|&v| self.compares_indices(v, depth - 1))
            }
            _ => false,
        }
    }

    fn masked_if(&mut self, inst: Inst, cond: Val) -> Result<RegionFlow> {
        let data = &self.func.insts[inst];
        let (then, otherwise) = (data.regions[0], data.regions[1]);
        let loses = self.may_lose(inst);
        let before = self.exec;
        let mask = self.mask();
        let then_mask = self.mask_and(mask, cond);
        let else_mask = self.mask_and(mask, self.ir.not(cond));
        let (then_flow, then_end) = self.masked_branch(then, then_mask, loses)?;
        let (else_flow, else_end) = self.masked_branch(otherwise, else_mask, loses)?;
        if loses {
            let mask = self.ir.or(then_end, else_end);
            self.execute(mask);
        } else {
            self.restore(before, mask);
        }
        let (a, b) = match (then_flow, else_flow) {
            (Some(a), Some(b)) => (a, b),
            (Some(values), None) | (None, Some(values)) => return Ok(RegionFlow::Yields(values)),
            (None, None) => return Ok(RegionFlow::Dead),
        };
        let merged = a.into_iter().zip(b).map(|(a, b)| {
            if a == b {
                return Ok(a);
            }
            let (a, b) = (self.vector(a)?, self.vector(b)?);
            Ok(ValueRep::Vector(self.ir.select(cond, a, b)))
        });
        Ok(RegionFlow::Yields(merged.collect::<Result<_>>()?))
    }

    /// Lowers one side of a divergent `if`: what it yields, and the lanes executing at its end.
    fn masked_branch(&mut self, region: Region, mask: Val, loses: bool) -> Result<(Option<Reps>, Val)> {
        let is_empty = self.func.regions[region].insts.len() == 1;
        let branch = !self.is_cheap(region) && (loses || !is_empty);
        if loses {
            self.execute(mask);
        } else {
            self.exec = ExecMask::Mask(mask);
        }
        let from = self.ir.current();
        let done = branch.then(|| {
            let (some, done) = (self.ir.block(c"some"), self.ir.block(c"done"));
            self.ir.cond_br(self.any(mask), some, done);
            self.ir.switch_to(some);
            done
        });
        let mut flow = self.lower_region(region)?;
        if let Some(done) = done {
            let last = self.ir.current();
            if !matches!(flow, RegionFlow::Gone) {
                self.ir.br(done);
            }
            self.ir.switch_to(done);
            if let RegionFlow::Yields(values) = flow {
                // Values from outside the region need no merging, because they are there on both paths.
                let outside = |i: usize| self.yielded_from_outside(region, i);
                let merged = values.into_iter().enumerate();
                let merged =
                    merged.map(|(i, rep)| if outside(i) { rep } else { self.merge_with_zero(rep, last, &[from]) });
                flow = RegionFlow::Yields(merged.collect());
            }
        }
        if done.is_none() && matches!(flow, RegionFlow::Gone) {
            self.start_unreachable_block();
        }
        let end = if loses { self.full_mask() } else { mask };
        Ok(match flow {
            RegionFlow::Yields(values) => (Some(values), end),
            RegionFlow::Dead | RegionFlow::Gone => (None, end),
        })
    }
}
