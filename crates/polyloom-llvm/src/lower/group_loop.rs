//! The loop over groups: of a row's threads, and of the iterations of a parallel loop.
//!
//! The body stands there twice: for full groups, where the mask is known and vanishes, and under a mask, for what is
//! left at the end and for groups the first copy gives up on ([`BailOut`]). The second may have fewer lanes: a group
//! goes through it in several parts then.

use super::value_rep::ExecMask;
use super::{BailOut, Result};
use crate::ir::*;

/// LLVM would make an iteration of its own of the first group, whose end another one may have: twice the code for nothing.
const NOT_PEELED: [(&str, Option<u32>); 1] = [("llvm.loop.peeled.count", Some(7))];

/// A loop over groups that has begun: the current block is its head.
pub(super) struct GroupLoop {
    /// The lanes of full groups, and those of the masked copy of the body.
    lanes: u32,
    masked_lanes: u32,
    /// The first number of the current group, `i64`.
    pub(super) first: Val,
    /// The end of the numbers of this group, where groups have another than the loop; the loop's is then the second.
    ends: Option<(Val, Val)>,
    left_of: Val,
}

impl GroupLoop {
    /// Begins a loop over the numbers from `first` to `end`, in groups of as many lanes as are given, the second number
    /// for those under a mask. Numbers up to `first_end`, if there is one, are in groups of their own.
    pub(super) fn begin(
        ir: &IrEmitter<'_>,
        (lanes, masked_lanes): (u32, u32),
        first: Val,
        first_end: Option<Val>,
        end: Val,
    ) -> GroupLoop {
        let before = ir.current();
        let head = ir.block(c"group");
        ir.br(head);
        ir.switch_to(head);
        let at = ir.phi(ir.int(64));
        ir.add_incoming(at, first, before);
        let ends = first_end.map(|first_end| {
            let of_group = ir.phi(ir.int(64));
            ir.add_incoming(of_group, first_end, before);
            (of_group, end)
        });
        GroupLoop { lanes, masked_lanes, first: at, ends, left_of: ends.map_or(end, |(of_group, _)| of_group) }
    }

    /// Emits the bodies by `body`, which gives the blocks that bail out, and ends where all numbers are done.
    pub(super) fn run(
        self,
        ir: &IrEmitter<'_>,
        mut body: impl FnMut(ExecMask, Option<BailOut>) -> Result<Vec<BasicBlock>>,
    ) -> Result<()> {
        let head = ir.current();
        let [full, tail, done] = [c"full", c"tail", c"row_done"].map(|name| ir.block(name));
        let left = ir.sub(self.left_of, self.first);
        let n_lanes = ir.i64_const(self.lanes.into());
        let after_full = if self.lanes == 1 { done } else { tail };
        ir.cond_br(ir.icmp(SGE, left, n_lanes), full, after_full);

        ir.switch_to(full);
        let masked = ir.block(c"masked");
        let bail_out = (self.lanes > 1).then(|| BailOut { target: masked, from: Vec::new() });
        let bails = body(ExecMask::Full, bail_out)?;
        let latch = ir.block(c"next_group");
        let after_full = ir.current();
        ir.br(latch);
        ir.switch_to(latch);
        let n_done = ir.phi(ir.int(64));
        ir.add_incoming(n_done, n_lanes, after_full);
        ir.add_incoming(self.first, ir.add(self.first, n_done), latch);
        if let Some((of_group, end)) = self.ends {
            ir.add_incoming(of_group, end, latch);
        }
        ir.br_back(head, &NOT_PEELED);

        ir.switch_to(tail);
        if self.lanes == 1 {
            ir.unreachable();
            ir.switch_to(masked);
            ir.unreachable();
            ir.switch_to(done);
            return Ok(());
        }
        ir.cond_br(ir.icmp(SGT, left, ir.i64_const(0)), masked, done);
        ir.switch_to(masked);
        let n_active = ir.phi(ir.int(64));
        ir.add_incoming(n_active, left, tail);
        for &from in &bails {
            ir.add_incoming(n_active, n_lanes, from);
        }
        let has_parts = self.masked_lanes < self.lanes;
        let n_in_part = match has_parts {
            true => ir.binary_intrinsic("llvm.smin", n_active, ir.i64_const(self.masked_lanes.into())),
            false => n_active,
        };
        let narrow = ir.int_cast(n_in_part, ir.int(32));
        let mask = ir.icmp(ULT, ir.iota(ir.int(32), self.masked_lanes, 1), ir.splat(narrow, self.masked_lanes));
        body(ExecMask::Mask(mask), None)?;
        if bails.is_empty() && self.ends.is_none() && !has_parts {
            ir.br(done);
        } else {
            ir.add_incoming(n_done, n_in_part, ir.current());
            ir.br(latch);
        }
        ir.switch_to(done);
        Ok(())
    }
}
