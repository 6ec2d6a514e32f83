//! Scans, and sums by indices: a thread goes along its row, in the order of [`crate::reference`].

use super::accumulate::Accumulator;
use super::{BodyEmitter, Element};
use crate::op::TensorOp;
use crate::plan::body::{BodyAddress, BodyReduction, BodyStore};
use crate::plan::reduction::accumulator;
use crate::reference::BLOCK_LENGTH;
use polyloom_ir::{Expr, Op, Scalar};

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn scan(&self) {
        for reduction in self.body.passes.iter().flat_map(|pass| &pass.reductions) {
            let Some(address) = &reduction.scanned else { continue };
            match reduction.op {
                TensorOp::Cumsum => self.scan_blocks(reduction, address, Op::Add),
                TensorOp::Cumprod => self.scan_blocks(reduction, address, Op::Mul),
                TensorOp::Cummax => self.scan_extremum(reduction, address, TensorOp::Max),
                TensorOp::Cummin => self.scan_extremum(reduction, address, TensorOp::Min),
                _ => self.recurrence(reduction, address),
            }
        }
        for store in self.body.passes.iter().flat_map(|pass| &pass.element_stores) {
            self.b.for_range(0, self.row_length(), 1, [], |place, []| {
                self.add_by_index(store, &self.element(place));
                []
            });
        }
    }

    /// Carries a chain from block to block, each of which has one of its own.
    fn scan_blocks(&self, reduction: &BodyReduction, address: &BodyAddress, op: Op) {
        let b = self.b;
        let int = |value: i64| b.int(self.place_type(), value);
        let (length, block) = (self.row_length(), int(BLOCK_LENGTH as i64));
        let n_blocks = b.op(Op::FloorDiv, &[length + int(BLOCK_LENGTH as i64 - 1), block]);
        let dtype = self.scanned_type(reduction);
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
                let value = self.scanned_value(reduction, 0, &element);
                let chain = combine(place.gt(first), chain, value);
                self.store_scanned(reduction, address, &element, combine(has_carry, carry, chain));
                [chain]
            });
            [combine(has_carry, carry, chain)]
        });
    }

    fn scan_extremum(&self, reduction: &BodyReduction, address: &BodyAddress, op: TensorOp) {
        let accumulator = Accumulator::new(op, self.scanned_type(reduction));
        let initial = accumulator.initial(self.b);
        self.b.for_range_many(0, self.row_length(), 1, &initial, |place, state| {
            let element = self.element(place);
            let state = accumulator.step(state, &[self.scanned_value(reduction, 0, &element)], place);
            self.store_scanned(reduction, address, &element, accumulator.finish(&state, reduction.dtype));
            state
        });
    }

    fn recurrence(&self, reduction: &BodyReduction, address: &BodyAddress) {
        let dtype = self.scanned_type(reduction);
        let zero = if dtype.is_float() { self.b.float(dtype, 0.0) } else { self.b.int(dtype, 0) };
        self.b.for_range(0, self.row_length(), 1, [zero], |place, [state]| {
            let element = self.element(place);
            let [factor, summand] = [0, 1].map(|operand| self.scanned_value(reduction, operand, &element));
            let next = if dtype.is_float() { factor.fma(state, summand) } else { factor * state + summand };
            let state = place.gt(0).select(next, summand);
            self.store_scanned(reduction, address, &element, state);
            [state]
        });
    }

    /// Returns the type that a scan is computed in.
    fn scanned_type(&self, reduction: &BodyReduction) -> Scalar {
        accumulator(self.body.expressions[reduction.values[0] as usize].dtype)
    }

    fn scanned_value(&self, reduction: &BodyReduction, operand: usize, element: &Element<'g>) -> Expr<'g> {
        let (value, dtype) = (self.value(reduction.values[operand], element), self.scanned_type(reduction));
        if value.scalar() == dtype { value } else { value.cast(dtype) }
    }

    fn store_scanned(&self, reduction: &BodyReduction, address: &BodyAddress, element: &Element<'g>, value: Expr<'g>) {
        let value = if value.scalar() == reduction.dtype { value } else { value.cast(reduction.dtype) };
        self.store(address, &element.inner, value);
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
