//! Barriers and fences (PTX ISA 9.0 §9.7.13).

use super::address::take_scope;
use super::function::Decoder;
use super::op::{Barrier, Op, Reduction, ReductionKind, Scope, WarpKind, WarpOp};
use super::types::Type;
use super::{Class, Decoded, Line};
use crate::exec::block::BLOCK_BARRIERS;
use crate::syntax::ast::Operand;

impl Decoder<'_> {
    pub(super) fn synchronisation(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let all = &line.instruction.operands;
        match line.instruction.opcode.as_str() {
            "membar" | "fence" => {
                if line.mods.take("proxy") {
                    // All accesses go one way here.
                    take_scope(&mut line.mods);
                    line.mods.drop_known(&["alias", "async", "global", "acquire", "release"]);
                    for prefix in ["async::", "tensormap::", "shared::", "sync_restrict::"] {
                        line.mods.drop_prefixed(prefix);
                    }
                    line.check(0, 2)?;
                    return Ok((Op::Nothing, Class::Fence));
                }
                if line.mods.take("mbarrier_init") {
                    line.mods.drop_known(&["release", "cluster"]);
                    line.check(0, 0)?;
                    return Ok((Op::Nothing, Class::Fence));
                }
                let scope = if line.instruction.opcode == "membar" {
                    line.mods.need_of(&[("cta", Scope::Block), ("gl", Scope::Device), ("sys", Scope::System)])?
                } else {
                    line.mods.take_of(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
                    let Some(scope) = take_scope(&mut line.mods) else { return line.error("`fence` needs a scope") };
                    scope
                };
                line.check(0, 0)?;
                Ok((Op::Fence(scope), Class::Fence))
            }
            opcode => {
                let mut aligned = opcode == "bar";
                line.mods.take("cta");
                if line.mods.take("warp") {
                    if !line.mods.take("sync") {
                        return line.error("`bar.warp` needs `.sync`");
                    }
                    line.check(1, 1)?;
                    let members = Some(self.source(&all[0], Type::B(32))?);
                    return Ok((
                        Op::Warp(Box::new(WarpOp { members, sources: None, kind: WarpKind::Sync })),
                        Class::Barrier,
                    ));
                }
                aligned = aligned || line.mods.take("aligned");
                if line.mods.take("cluster") {
                    // A cluster is one block here: arriving does nothing, waiting is a barrier of the block.
                    let arrives = line.mods.take("arrive");
                    line.mods.drop_known(&["wait", "acquire", "release", "relaxed"]);
                    line.check(0, 0)?;
                    let barrier = Barrier { id: None, count: None, waits: true, aligned: false, reduction: None };
                    let op = if arrives { Op::Nothing } else { Op::Barrier(Box::new(barrier)) };
                    return Ok((op, Class::Barrier));
                }
                let kind = line.mods.need_of(&[("sync", 0), ("arrive", 1), ("red", 2)])?;
                let (first, reduction) = if kind == 2 {
                    let which = line.mods.need_of(&[
                        ("popc", ReductionKind::Count),
                        ("and", ReductionKind::And),
                        ("or", ReductionKind::Or),
                    ])?;
                    let ty = line.mods.ty()?;
                    if ty != if which == ReductionKind::Count { Type::U(32) } else { Type::Pred } {
                        return line.mods.no_type(ty);
                    }
                    line.check(3, 4)?;
                    let destination = match which {
                        ReductionKind::Count => self.slot::<u32>(&all[0], ty)?,
                        _ => self.predicate_slot(&all[0])?,
                    };
                    let Some(destination) = destination else { return line.error("`bar.red` needs a destination") };
                    let input = self.test(&all[all.len() - 1])?;
                    (1, Some(Reduction { kind: which, destination, input }))
                } else {
                    line.check(1, 2)?;
                    (0, None)
                };
                let last = all.len() - usize::from(reduction.is_some());
                if let Operand::Integer(id) = all[first]
                    && id >= BLOCK_BARRIERS.into()
                {
                    return line.error(format!("a block has barriers 0 to 15, not {id}"));
                }
                let id = Some(self.source(&all[first], Type::U(32))?);
                let count = if last > first + 1 { Some(self.source(&all[first + 1], Type::U(32))?) } else { None };
                if kind == 1 && count.is_none() {
                    return line.error("`arrive` needs the number of threads");
                }
                let barrier = Barrier { id, count, waits: kind != 1, aligned, reduction };
                Ok((Op::Barrier(Box::new(barrier)), Class::Barrier))
            }
        }
    }
}
