//! Finds the arrays that ranges of threads may have copies of, and a thread's own copy.

use crate::ir::*;
use cranelift_entity::SecondaryMap;
use polyloom_codegen::{CodeVariant, SiteTable};
use polyloom_ir::{Function, Imm, Op, Value};

/// Copies of one array, of which threads take turns: an update of an element waits for the one before of the same, and
/// neighbouring threads often update the same.
pub(crate) const N_COPIES: u64 = 4;

/// Says where the copies of an array are that threads take turns at: the first is where the array would be.
#[derive(Clone, Copy)]
pub(crate) struct PrivateCopies {
    pub(crate) bytes_apart: Val,
}

impl PrivateCopies {
    /// The element of a thread's own copy in place of that of the first.
    pub(super) fn own(self, ir: &IrEmitter<'_>, element: Val, thread: Val) -> Val {
        let number = ir.and(thread, ir.i64_const(N_COPIES as i64 - 1));
        ir.offset(ir.int(8), element, ir.mul(number, self.bytes_apart))
    }
}

/// The op that brings many updates by `op` to an element at once, if their order makes no difference.
fn merging_op(op: Op) -> Option<Op> {
    match op {
        Op::AtomicAdd | Op::AtomicSub => Some(Op::AtomicAdd),
        Op::AtomicMin | Op::AtomicMax | Op::AtomicAnd | Op::AtomicOr | Op::AtomicXor => Some(op),
        _ => None,
    }
}

/// The parameters that ranges of threads may have copies of, with the ops that merge them: dense arrays of integers that
/// overlap no other, are only updated in ways whose order makes no difference, and of which nobody asks what was there.
pub(crate) fn find_private_params(
    func: &Function,
    used: &SecondaryMap<Value, bool>,
    variant: &CodeVariant,
) -> Vec<(usize, Op)> {
    // A range that a failed check ends early would have to bring its copies first.
    if func.metadata.backward || func.metadata.by_block || !SiteTable::of(func).sites.is_empty() {
        return Vec::new();
    }
    let merging = |(index, &param): (usize, &Value)| {
        let facts = variant.facts.array(index);
        let (elem, _) = func.ty(param).as_array()?;
        let may = facts.contiguous && facts.disjoint && elem.is_int();
        Some((index, find_only_update(func, used, param).filter(|_| may)?))
    };
    func.params().iter().enumerate().filter_map(merging).collect()
}

/// The op that merges all that is done with an array, if that is to update its elements in ways whose order makes no
/// difference.
fn find_only_update(func: &Function, used: &SecondaryMap<Value, bool>, array: Value) -> Option<Op> {
    let mut merging = None;
    let mut is_only_updated = true;
    func.walk(func.body, &mut |_, data| {
        if !data.operands.contains(&array) || data.op == Op::Dim {
            return;
        }
        let op = merging_op(data.op).filter(|_| data.imm == Imm::None && !data.results.iter().any(|&old| used[old]));
        match (op, merging) {
            (Some(op), None) => merging = Some(op),
            (Some(op), Some(other)) if op == other => {}
            _ => is_only_updated = false,
        }
    });
    merging.filter(|_| is_only_updated)
}
