//! `cp.async.bulk` and `cp.reduce.async.bulk` of runs of bytes (PTX ISA 9.0 §9.7.9.25.4), `st.async` and `red.async`.

use super::address::take_space;
use super::atomic::{OPERATIONS, update};
use super::function::FunctionDecoder;
use super::op::{
    AsyncAccess, AsyncAccessKind, AtomicOp, BulkCopy, BulkEnd, BulkReduction, DecodedOp, MemoryOrder, OrderScope,
    StoreOp,
};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::access::WEAK;
use crate::exec::registers::SourceOperand;
use crate::syntax::ast::{PtxOperand, StateSpace};

impl FunctionDecoder<'_> {
    pub(super) fn bulk(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let reduces = line.mods.take("reduce");
        ["async", "bulk"].iter().for_each(|name| _ = line.mods.take(name));
        let all = &line.instruction.operands;
        if !reduces && line.mods.take("commit_group") {
            line.check(0, 0)?;
            return Ok((DecodedOp::BulkCommit, InstClass::AsyncCopy));
        }
        if !reduces && line.mods.take("wait_group") {
            let only_reads = line.mods.take("read");
            line.check(1, 1)?;
            let PtxOperand::Integer(count) = all[0] else { return line.error("`wait_group` needs a constant") };
            let left = u32::try_from(count).unwrap_or(u32::MAX);
            return Ok((DecodedOp::BulkWait { left, only_reads }, InstClass::AsyncCopy));
        }
        if !reduces && line.mods.take("prefetch") {
            let known = line.mods.take("L2") && take_space(&mut line.mods) == Some(StateSpace::Global);
            let policy = usize::from(line.mods.take("L2::cache_hint"));
            line.check(2 + policy, 2 + policy)?;
            if !known {
                return line.error("`cp.async.bulk.prefetch` is for `.L2.global`");
            }
            self.address(line, &all[0], Some(StateSpace::Global))?;
            self.bulk_size(line, &all[1])?;
            return Ok((DecodedOp::Nothing, InstClass::AsyncCopy));
        }
        let names: Vec<&str> = line.instruction.modifiers.iter().map(String::as_str).collect();
        let has = |names: &[&str], wanted: [&str; 3]| names.windows(3).any(|each| each == wanted);
        const TO: &str = "mbarrier::complete_tx::bytes";
        let (to_space, from_space, by_group) = if has(&names, ["global", "shared::cta", "bulk_group"]) {
            (StateSpace::Global, StateSpace::Shared, true)
        } else if has(&names, ["shared::cluster", "shared::cta", TO]) {
            (StateSpace::Shared, StateSpace::Shared, false)
        } else if !reduces
            && (has(&names, ["shared::cta", "global", TO]) || has(&names, ["shared::cluster", "global", TO]))
        {
            (StateSpace::Shared, StateSpace::Global, false)
        } else {
            return line.error(format!("`cp.{}` has no such state spaces and completion", names.join(".")));
        };
        for name in ["global", "shared::cta", "shared::cluster", "shared::cta", TO, "bulk_group"] {
            line.mods.take(name);
        }
        let casts = from_space == StateSpace::Global
            && names.contains(&"shared::cluster")
            && line.mods.take("multicast::cluster");
        let masks = by_group && !reduces && line.mods.take("cp_mask");
        let policy = (by_group || from_space == StateSpace::Global) && line.mods.take("L2::cache_hint");
        let reduction = if reduces { Some(Self::bulk_reduction(line, to_space)?) } else { None };
        let count = 3 + [!by_group, casts, masks, policy].into_iter().map(usize::from).sum::<usize>();
        line.check(count, count)?;
        let (to, _) = self.address(line, &all[0], Some(to_space))?;
        let (from, _) = self.address(line, &all[1], Some(from_space))?;
        let size = self.bulk_size(line, &all[2])?;
        let end = match by_group {
            true => BulkEnd::Group,
            false => BulkEnd::MBarrier(self.address(line, &all[3], Some(StateSpace::Shared))?.0),
        };
        // Blocks of the cluster come before the policy of caches, bytes after it.
        let blocks = if casts { Some(self.source(&all[4], PtxType::U(16))?) } else { None };
        let bytes = if masks { Some(self.source(&all[count - 1], PtxType::B(16))?) } else { None };
        let copy = BulkCopy { to, to_space, from, from_space, size, end, blocks, bytes, reduction };
        Ok((DecodedOp::BulkCopy(Box::new(copy)), InstClass::AsyncCopy))
    }

    /// `st.async` and `red.async`: a store or a reduction in the cluster's shared memory whose bytes an mbarrier there
    /// expects.
    pub(super) fn async_access(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let stores = line.instruction.opcode == "st";
        line.mods.take("async");
        let has_order = match stores {
            true => {
                // A store is weak whether it says so or not.
                line.mods.take("weak");
                true
            }
            false => line.mods.take("relaxed") && line.mods.take("cluster"),
        };
        let is_told = line.mods.take("shared::cluster") && line.mods.take("mbarrier::complete_tx::bytes");
        if !has_order || !is_told {
            let opcode = &line.instruction.opcode;
            let wanted = if stores { "" } else { ".relaxed.cluster" };
            return line
                .error(format!("`{opcode}.async` needs `{wanted}.shared::cluster.mbarrier::complete_tx::bytes`"));
        }
        let count = if stores { line.mods.take_of(&[("v2", 2), ("v4", 4)]).unwrap_or(1) } else { 1 };
        let operation = if stores { None } else { Some(line.mods.need_of(OPERATIONS)?) };
        let ty = line.mods.ty()?;
        line.check(3, 3)?;
        let all = &line.instruction.operands;
        let space = Some(StateSpace::Shared);
        let (address, _) = self.address(line, &all[0], space)?;
        let (barrier, _) = self.address(line, &all[2], space)?;
        let given = self.elements(&all[1]);
        if given.len() != count {
            return line.error(format!("{count} registers are stored, not {}", given.len()));
        }
        given.iter().try_for_each(|each| self.check_type(each, ty))?;
        let operands = given.iter().map(|each| self.any_source(each, ty)).collect::<Decoded<Vec<_>>>()?;
        let size = ty.bytes();
        let access = match operation {
            None if matches!(ty.bits(), 32 | 64) && ty.bits() * count as u32 <= 128 => {
                AsyncAccessKind::Store(StoreOp { space, size, address, sources: operands, order: WEAK, at_once: false })
            }
            None => return line.mods.no_type(ty),
            Some(operation) => {
                let is_whole = matches!(ty, PtxType::U(_) | PtxType::S(_) | PtxType::B(_));
                let known = is_whole && !matches!(operation, "cas" | "exch") && (ty.bits() == 32 || operation == "add");
                let Some(update) = update(operation, ty).filter(|_| known) else { return line.mods.no_type(ty) };
                let order = MemoryOrder { strong: true, scope: OrderScope::Cluster, ..WEAK };
                AsyncAccessKind::Update(AtomicOp {
                    space,
                    size,
                    update,
                    global_update: None,
                    address,
                    destinations: Vec::new(),
                    operands,
                    second: None,
                    order,
                    spins: false,
                })
            }
        };
        let n_bytes = size * count as u32;
        Ok((DecodedOp::AsyncAccess(Box::new(AsyncAccess { access, n_bytes, barrier })), InstClass::AsyncCopy))
    }

    fn bulk_size(&mut self, line: &InstructionLine<'_>, operand: &PtxOperand) -> Decoded<SourceOperand<u32>> {
        match operand {
            PtxOperand::Integer(size) if !size.is_multiple_of(16) => {
                line.error(format!("a bulk copy is of a multiple of 16 bytes, not of {size}"))
            }
            other => self.source(other, PtxType::U(32)),
        }
    }

    fn bulk_reduction(line: &mut InstructionLine<'_>, to: StateSpace) -> Decoded<BulkReduction> {
        let operation = line.mods.need_of(OPERATIONS)?;
        let unflushed = line.mods.take("noftz");
        let ty = line.mods.ty()?;
        let half = matches!(ty, PtxType::F16 | PtxType::Bf16);
        let known = match (operation, ty) {
            ("cas" | "exch", _) => false,
            (_, PtxType::F16 | PtxType::Bf16 | PtxType::F32 | PtxType::F64) => to == StateSpace::Global,
            ("add", PtxType::U(64)) => true,
            (_, ty) if ty.bits() == 64 => to == StateSpace::Global,
            (_, ty) => ty.bits() == 32,
        };
        let update = update(operation, ty).filter(|_| known && unflushed == (half && operation == "add"));
        match update {
            Some(update) => Ok(BulkReduction { update, size: ty.bytes() }),
            None => line.mods.no_type(ty),
        }
    }
}
