//! Barriers and fences (PTX ISA 9.0 §9.7.13).

use super::address::take_scope;
use super::function::FunctionDecoder;
use super::op::{BarrierOp, BarrierReduction, ClusterOp, DecodedOp, OrderScope, ReductionKind, WarpKind, WarpOp};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::block::BLOCK_BARRIERS;
use crate::exec::registers::{LANES, SourceOperand};
use crate::syntax::ast::PtxOperand;

/// The place where a restricted fence orders, and whether it acquires.
const RESTRICTED: [(&str, bool); 2] = [("sync_restrict::shared::cluster", true), ("sync_restrict::shared::cta", false)];
const RESTRICTION: &str = "a restricted fence is `.acquire.sync_restrict::shared::cluster.cluster` or \
                           `.release.sync_restrict::shared::cta.cluster`";

impl FunctionDecoder<'_> {
    pub(super) fn synchronisation(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let all = &line.instruction.operands;
        match line.instruction.opcode.as_str() {
            "membar" | "fence" => {
                if line.mods.take("proxy") {
                    return self.proxy_fence(line);
                }
                if line.mods.take("mbarrier_init") {
                    if !(line.mods.take("release") && line.mods.take("cluster")) {
                        return line.error("`fence.mbarrier_init` needs `.release.cluster`");
                    }
                    line.check(0, 0)?;
                    return Ok((DecodedOp::Nothing, InstClass::Fence));
                }
                let scope = if line.instruction.opcode == "membar" {
                    line.mods.need_of(&[
                        ("cta", OrderScope::Block),
                        ("gl", OrderScope::Device),
                        ("sys", OrderScope::System),
                    ])?
                } else {
                    let restriction = line.mods.take_of(&RESTRICTED);
                    let order = line.mods.take_of(&[
                        ("sc", None),
                        ("acq_rel", None),
                        ("acquire", Some(true)),
                        ("release", Some(false)),
                    ]);
                    let Some(scope) = take_scope(&mut line.mods) else { return line.error("`fence` needs a scope") };
                    if restriction.is_some() && (restriction != order.flatten() || scope != OrderScope::Cluster) {
                        return line.error(RESTRICTION);
                    }
                    scope
                };
                line.check(0, 0)?;
                Ok((DecodedOp::Fence(scope), InstClass::Fence))
            }
            opcode => {
                let mut aligned = opcode == "bar";
                line.mods.take("cta");
                if line.mods.take("warp") {
                    if !line.mods.take("sync") {
                        return line.error("`bar.warp` needs `.sync`");
                    }
                    line.check(1, 1)?;
                    let members = Some(self.source(&all[0], PtxType::B(32))?);
                    return Ok((
                        DecodedOp::Warp(Box::new(WarpOp {
                            members,
                            sources: None,
                            unguarded: false,
                            kind: WarpKind::Sync,
                        })),
                        InstClass::Barrier,
                    ));
                }
                aligned = aligned || line.mods.take("aligned");
                if line.mods.take("cluster") {
                    let op = match line.mods.need_of(&[("arrive", true), ("wait", false)])? {
                        true => {
                            let order = line.mods.take_of(&[("release", false), ("relaxed", true)]);
                            ClusterOp::Arrive { relaxed: order.unwrap_or(false) }
                        }
                        false => {
                            line.mods.take("acquire");
                            ClusterOp::Wait
                        }
                    };
                    line.mods.take("aligned");
                    line.check(0, 0)?;
                    return Ok((DecodedOp::Cluster(Box::new(op)), InstClass::Barrier));
                }
                let kind = line.mods.need_of(&[("sync", 0), ("arrive", 1), ("red", 2)])?;
                let (first, reduction) = if kind == 2 {
                    let which = line.mods.need_of(&[
                        ("popc", ReductionKind::Count),
                        ("and", ReductionKind::And),
                        ("or", ReductionKind::Or),
                    ])?;
                    let ty = line.mods.ty()?;
                    if ty != if which == ReductionKind::Count { PtxType::U(32) } else { PtxType::Pred } {
                        return line.mods.no_type(ty);
                    }
                    line.check(3, 4)?;
                    let destination = match which {
                        ReductionKind::Count => self.slot::<u32>(&all[0], ty)?,
                        _ => self.predicate_slot(&all[0])?,
                    };
                    let Some(destination) = destination else { return line.error("`bar.red` needs a destination") };
                    let input = self.test(&all[all.len() - 1])?;
                    (1, Some(BarrierReduction { kind: which, destination, input }))
                } else {
                    line.check(1, 2)?;
                    (0, None)
                };
                let last = all.len() - usize::from(reduction.is_some());
                if let PtxOperand::Integer(id) = all[first]
                    && id >= BLOCK_BARRIERS.into()
                {
                    return line.error(format!("a block has barriers 0 to 15, not {id}"));
                }
                let id = self.source(&all[first], PtxType::U(32))?;
                let count = if last > first + 1 { Some(self.source(&all[first + 1], PtxType::U(32))?) } else { None };
                if let Some(SourceOperand::Constant(threads)) = &count
                    && (threads[0] % LANES as u32 != 0 || kind == 1 && threads[0] == 0)
                {
                    return line.error(format!("a barrier is for whole warps, not for {} threads", threads[0]));
                }
                if kind == 1 && count.is_none() {
                    return line.error("`arrive` needs the number of threads");
                }
                let barrier = BarrierOp { id, count, waits: kind != 1, aligned, reduction };
                Ok((DecodedOp::Barrier(Box::new(barrier)), InstClass::Barrier))
            }
        }
    }

    /// `fence.proxy`: nothing to do, since all accesses go one way here.
    fn proxy_fence(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let mut count = 0;
        if line.mods.take("async") {
            line.mods.take_of(&[("global", ()), ("shared::cta", ()), ("shared::cluster", ())]);
        } else if !line.mods.take("alias") {
            const NEEDS: &str = "`fence.proxy` needs `.alias`, `.async`, `.async::generic` or `.tensormap::generic`";
            let restricted = line.mods.take_of(&[("async::generic", true), ("tensormap::generic", false)]);
            let Some(restricted) = restricted else { return line.error(NEEDS) };
            let acquires = line.mods.need_of(&[("acquire", true), ("release", false)])?;
            let Some(scope) = take_scope(&mut line.mods) else { return line.error("`fence` needs a scope") };
            if restricted && (line.mods.take_of(&RESTRICTED) != Some(acquires) || scope != OrderScope::Cluster) {
                return line.error(RESTRICTION);
            }
            count = if acquires && !restricted { 2 } else { 0 };
        }
        line.check(count, count)?;
        if let Some(size) = line.instruction.operands.get(1)
            && *size != PtxOperand::Integer(128)
        {
            return line.error(format!("a tensor map has 128 bytes, not {size}"));
        }
        Ok((DecodedOp::Nothing, InstClass::Fence))
    }
}
