//! Copies of tiles of tensors, `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` (PTX ISA 9.0 §9.7.9.27).

use super::function::FunctionDecoder;
use super::op::{BulkEnd, DecodedOp, TensorCopy};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::syntax::ast::{PtxOperand, StateSpace};

const AXES: &[(&str, usize)] = &[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];
const REDUCTIONS: &[(&str, &str)] = &[
    ("add", "add"),
    ("min", "min"),
    ("max", "max"),
    ("inc", "inc"),
    ("dec", "dec"),
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
];

impl FunctionDecoder<'_> {
    pub(super) fn tensor(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let reduces = line.mods.take("reduce");
        ["async", "bulk"].iter().for_each(|name| _ = line.mods.take(name));
        let prefetches = line.mods.take("prefetch");
        line.mods.take("tensor");
        let n_axes = line.mods.need_of(AXES)?;
        let all = &line.instruction.operands;
        if prefetches {
            ["L2", "global", "tile"].iter().for_each(|name| _ = line.mods.take(name));
            let count = 1 + usize::from(line.mods.take("L2::cache_hint"));
            line.check(count, count)?;
            self.map_and_coordinates(line, &all[0], n_axes)?;
            return Ok((DecodedOp::Nothing, InstClass::AsyncCopy));
        }
        let stores = line.mods.take("bulk_group");
        let reduction = if reduces { Some(line.mods.need_of(REDUCTIONS)?) } else { None };
        let casts = !stores && line.mods.take("multicast::cluster");
        let known = match stores {
            true => line.mods.take("global") && line.mods.take("shared::cta"),
            false => {
                (line.mods.take("shared::cluster") || line.mods.take("shared::cta"))
                    && line.mods.take("global")
                    && line.mods.take("mbarrier::complete_tx::bytes")
            }
        };
        if !known || reduces && !stores {
            let name = line.instruction.modifiers.join(".");
            return line.error(format!("`cp.{name}` has no such state spaces and completion"));
        }
        line.mods.take("tile");
        let policy = line.mods.take("L2::cache_hint");
        let count = 2 + [!stores, casts, policy].into_iter().map(usize::from).sum::<usize>();
        line.check(count, count)?;
        let (tensor, shared) = if stores { (&all[0], &all[1]) } else { (&all[1], &all[0]) };
        let (map, coordinates) = self.map_and_coordinates(line, tensor, n_axes)?;
        let (shared, _) = self.address(line, shared, Some(StateSpace::Shared))?;
        let end = match stores {
            true => BulkEnd::Group,
            false => BulkEnd::MBarrier(self.address(line, &all[2], Some(StateSpace::Shared))?.0),
        };
        let blocks = if casts { Some(self.source(&all[3], PtxType::U(16))?) } else { None };
        let copy = TensorCopy { map, coordinates, shared, end, blocks, reduction };
        Ok((DecodedOp::TensorCopy(Box::new(copy)), InstClass::AsyncCopy))
    }

    /// `[map, {x, y}]`
    fn map_and_coordinates(
        &mut self,
        line: &InstructionLine<'_>,
        operand: &PtxOperand,
        n_axes: usize,
    ) -> Decoded<(super::op::AccessAddress, Vec<crate::exec::registers::SourceOperand<u32>>)> {
        let PtxOperand::Address { base, offset, more } = operand else {
            return line.error(format!("`{operand}` is no tensor map with coordinates"));
        };
        let map = PtxOperand::Address { base: base.clone(), offset: *offset, more: Vec::new() };
        let coordinates = match more.as_slice() {
            [one] => self.elements(one),
            _ => Vec::new(),
        };
        if coordinates.len() != n_axes {
            return line.error(format!("`{operand}` has {} coordinates, not {n_axes}", coordinates.len()));
        }
        let (map, _) = self.address(line, &map, None)?;
        let coordinates = coordinates.iter().map(|each| self.source(each, PtxType::S(32))).collect::<Decoded<_>>()?;
        Ok((map, coordinates))
    }
}
