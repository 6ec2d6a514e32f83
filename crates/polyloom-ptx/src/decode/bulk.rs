//! `cp.async.bulk` and `cp.reduce.async.bulk` of runs of bytes (PTX ISA 9.0 §9.7.9.25.4). Those of tensors the simulator
//! has not.

use super::address::take_space;
use super::atomic::{OPERATIONS, update};
use super::function::FunctionDecoder;
use super::op::{BulkCopy, BulkEnd, BulkReduction, DecodedOp};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
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
