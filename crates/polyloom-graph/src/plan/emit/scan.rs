//! Scans, and sums by indices: a thread goes along its row, in the order of [`crate::reference`].

use super::{BodyEmitter, Element};
use crate::op::TensorOp;
use crate::plan::body::BodyStore;
use crate::plan::reduction::accumulator;
use crate::reference::BLOCK_LENGTH;
use polyloom_ir::{Expr, Op, Scalar};

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
        for store in self.body.passes.iter().flat_map(|pass| &pass.element_stores) {
            self.b.for_range(0, length, 1, [], |place, []| {
                self.add_by_index(store, &self.element(place));
                []
            });
        }
    }

    /// Adds a value to the element that an index tells, if there is one.
    fn add_by_index(&self, store: &BodyStore, element: &Element<'g>) {
        let Some((index, n, stride)) = store.target else { return };
        let [n, stride] = [n, stride].map(|param| self.params[param as usize]);
        let index = self.counted(self.value(index, element), n);
        let value = self.value(store.value, element);
        let is_within = index.ge(0) & index.lt(n.cast(Scalar::I64));
        self.b.if_then(is_within, || {
            let place = self.place(&store.address.place, &element.inner) + self.widened(index) * stride;
            let array = self.params[store.address.array as usize];
            let old = array.load(&[place]);
            let sum = self.apply(TensorOp::Add, &[old, value], old.scalar());
            array.store(&[place], sum);
        });
    }
}
