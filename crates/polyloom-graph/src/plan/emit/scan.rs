//! Scans: a thread goes along its row, in the order of [`crate::reference`].

use super::BodyEmitter;
use crate::op::TensorOp;
use crate::plan::reduction::accumulator;
use crate::reference::BLOCK_LENGTH;
use polyloom_ir::{Expr, Op};

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn scan(&self) {
        let b = self.b;
        let int = |value: i64| b.int(self.place_type(), value);
        let (length, block) = (self.row_length(), int(BLOCK_LENGTH as i64));
        let n_blocks = b.op(Op::FloorDiv, &[length + int(BLOCK_LENGTH as i64 - 1), block]);
        for reduction in self.body.passes.iter().flat_map(|pass| &pass.reductions) {
            let Some(address) = &reduction.scanned else { continue };
            let element = self.body.expressions[reduction.values[0] as usize].dtype;
            let dtype = accumulator(element);
            let op = if reduction.op == TensorOp::Cumprod { Op::Mul } else { Op::Add };
            let zero = if dtype.is_float() { b.float(dtype, 0.0) } else { b.int(dtype, 0) };
            let combine = |has_first: Expr<'g>, first: Expr<'g>, second: Expr<'g>| {
                has_first.select(b.op(op, &[first, second]), second)
            };
            b.for_range(0, n_blocks, 1, [zero], |number, [carry]| {
                let has_carry = number.gt(0);
                let first = number * block;
                let end = (first + block).min(length);
                let [chain] = b.for_range(first, end, 1, [zero], |place, [chain]| {
                    let element = self.element(place);
                    let value = self.value(reduction.values[0], &element);
                    let value = if value.scalar() == dtype { value } else { value.cast(dtype) };
                    let chain = combine(place.gt(first), chain, value);
                    let total = combine(has_carry, carry, chain);
                    let stored = if total.scalar() == reduction.dtype { total } else { total.cast(reduction.dtype) };
                    self.store(address, &element.inner, stored);
                    [chain]
                });
                [combine(has_carry, carry, chain)]
            });
        }
    }
}
