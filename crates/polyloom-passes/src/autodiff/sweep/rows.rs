//! Rows: the elements of an array that one thread accesses and no other does, as `x[i, j]` whatever `j` is.
//!
//! What loops read of an array that the kernel writes is recorded each time it is read. Of rows, checkpoints of an
//! outermost loop keep all elements instead. The way back puts them back where they were, before it runs a segment of the
//! loop again: reads are as they were then, and stores are done again, so that what is read is recorded for one segment
//! at a time. Nobody else looks at a row, and the array is the backward kernel's own, so it need not hold anything in
//! the end.

use super::super::activity::{ArrayParam, IndexPlace, Places, own_places};
use super::super::instructions::{is_load, is_loop};
use super::super::request::DerivativeRequest;
use super::super::tape_layout::{AxisIndex, TapeLength, ThreadRow};
use super::{BackwardBuilder, Values};
use cranelift_entity::EntitySet;
use polyloom_ir::{Function, Imm, Inst, InstData, Op, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};

/// For each parameter, the row of each thread, if it is the thread's own and the kernel reads and writes it.
pub(in crate::autodiff) fn rows(
    func: &Function,
    request: &DerivativeRequest,
    arrays: &[ArrayParam],
) -> Vec<Option<ThreadRow>> {
    let row = |(param, places): (usize, Option<Places>)| {
        let places = places.filter(|_| arrays[param].is_replayed)?;
        let (_, n_axes) = func.ty(func.params()[param]).as_any_array()?;
        let mut axes: SmallVec<[Option<AxisIndex>; 4]> = smallvec![None; usize::from(n_axes)];
        for place in places.iter().filter(|place| place.same.is_empty()) {
            // Beyond the axes there are indices of components.
            if let Some(along) = axes.get_mut(place.index - 1) {
                let span = place.high - place.low + 1;
                *along = Some(AxisIndex { axis: place.axis, factor: place.factor, low: place.low, span });
            }
        }
        let is_covered = |place: &IndexPlace| axes.iter().flatten().any(|along| along.axis == place.axis);
        places.iter().all(is_covered).then_some(ThreadRow { axes })
    };
    own_places(func, request).into_iter().enumerate().map(row).collect()
}

/// The loads in loops of arrays that have rows.
pub(in crate::autodiff) fn row_reads(func: &Function, rows: &[Option<ThreadRow>]) -> EntitySet<Inst> {
    let mut reads = EntitySet::new();
    func.walk(func.body, &mut |_, data| {
        if is_loop(data) {
            for &region in &data.regions {
                func.walk(region, &mut |inst, data| {
                    let is_row = |array: &Value| func.param_index(*array).is_some_and(|param| rows[param].is_some());
                    if is_load(data) && data.operands.first().is_some_and(is_row) {
                        reads.insert(inst);
                    }
                });
            }
        }
    });
    reads
}

impl BackwardBuilder<'_> {
    /// The arrays of which the checkpoints of a loop keep rows: those that it reads, if it is in no other.
    pub(super) fn rows_of(&self, inst: Inst) -> SmallVec<[usize; 4]> {
        let mut found = SmallVec::new();
        if self.n_loops == 0 {
            for &region in &self.old.insts[inst].regions {
                self.old.walk(region, &mut |_, data| {
                    found.extend(is_load(data).then(|| self.row_of(data)).flatten());
                });
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns where the counters are of reads under a loop that are of rows which its checkpoints keep.
    pub(super) fn row_counters(&self, inst: Inst) -> SmallVec<[usize; 4]> {
        let mut counters = self.counters_in(inst);
        counters.retain(|counter| self.counters[*counter].row_in == Some(inst));
        counters
    }

    /// The array that an instruction accesses, if that has rows.
    pub(super) fn row_of(&self, data: &InstData) -> Option<usize> {
        let param = self.array_of(*data.operands.first()?)?;
        self.rows.get(param)?.is_some().then_some(param)
    }

    /// Keeps the thread's row of an array at the checkpoint of a loop that has this number.
    pub(super) fn keep_row(&mut self, inst: Inst, param: usize, number: Value) {
        let (tape, ty) = self.row_tape(inst, param);
        self.through_row(param, number, &|this, element, index| {
            let value = this.builder.inst(Op::ArrayLoad, element, &[ty], Imm::None);
            let value = this.builder.func.insts[value].results[0];
            this.write_tape(tape, index, value);
        });
    }

    /// Puts the thread's row of an array back as it was at a checkpoint.
    pub(super) fn restore_row(&mut self, inst: Inst, param: usize, number: Value) {
        let (tape, ty) = self.row_tape(inst, param);
        self.through_row(param, number, &|this, element, index| {
            let value = this.read_tape(tape, index, ty);
            let operands: Values = element.iter().copied().chain([value]).collect();
            this.builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
        });
    }

    fn row_tape(&mut self, inst: Inst, param: usize) -> (Value, Type) {
        let ty = self.old.ty(self.old.params()[param]).as_any_array().map_or(Type::I32, |(elem, _)| elem);
        (self.tape_of(TapeLength::Rows(inst, param), ty), ty)
    }

    /// Returns the number of elements that are in a row of this array.
    pub(super) fn row_length(&mut self, param: usize) -> Option<Value> {
        let row = self.rows[param].clone()?;
        let array = self.value(self.old.params()[param]);
        let mut length = self.builder.const_int(Scalar::I64, 1);
        for (axis, along) in row.axes.iter().enumerate() {
            let extent = match along {
                Some(along) => self.builder.const_int(Scalar::I64, along.span),
                None => {
                    let extent = self.builder.dim(array, axis as u8);
                    self.builder.cast(extent, Scalar::I64)
                }
            };
            length = self.builder.op(Op::Mul, &[length, extent]);
        }
        Some(length)
    }

    /// Goes through the elements of a row, each with its index on a tape of rows, of which this is for the one with this
    /// `number`.
    fn through_row(&mut self, param: usize, number: Value, each: &dyn Fn(&mut Self, &[Value], Value)) {
        let Some(ThreadRow { axes }) = self.rows[param].clone() else { return };
        let array = self.value(self.old.params()[param]);
        let mut element: Values = smallvec![array; 1 + axes.len()];
        // The thread's own decision comes first, so that a row that does not exist is not gone through.
        let mut axes: SmallVec<[(usize, Option<AxisIndex>); 4]> = axes.into_iter().enumerate().collect();
        axes.sort_by_key(|(_, along)| along.is_none());
        self.through_axes(&axes, &mut element, number, each);
    }

    fn through_axes(
        &mut self,
        axes: &[(usize, Option<AxisIndex>)],
        element: &mut Values,
        index: Value,
        each: &dyn Fn(&mut Self, &[Value], Value),
    ) {
        let Some((&(axis, along), rest)) = axes.split_first() else { return each(self, element, index) };
        let extent = self.builder.dim(element[0], axis as u8);
        let Some(along) = along else {
            self.count(extent, &[], |this, at, _| {
                let before = this.builder.op(Op::Mul, &[index, extent]);
                let index = this.builder.op(Op::Add, &[before, at]);
                element[1 + axis] = at;
                this.through_axes(rest, element, index, each);
                Values::new()
            });
            return;
        };
        let tid = self.builder.inst(Op::Tid, &[], &[Type::I32], Imm::Axis(along.axis));
        let tid = self.builder.func.insts[tid].results[0];
        let [factor, low, span, zero] =
            [along.factor, along.low, along.span, 0].map(|number| self.builder.const_int(Scalar::I32, number));
        let multiple = self.builder.op(Op::Mul, &[tid, factor]);
        let first = self.builder.op(Op::Add, &[multiple, low]);
        self.count(span, &[], |this, at, _| {
            let place = this.builder.op(Op::Add, &[first, at]);
            let before = this.builder.op(Op::Mul, &[index, span]);
            let index = this.builder.op(Op::Add, &[before, at]);
            let [is_high, is_low] =
                [(Op::Ge, zero), (Op::Lt, extent)].map(|(op, end)| this.builder.op(op, &[place, end]));
            let exists = this.builder.op(Op::BitAnd, &[is_high, is_low]);
            let regions = [this.builder.create_region(&[]), this.builder.create_region(&[])];
            let around = this.builder.switch_to(regions[0]);
            element[1 + axis] = place;
            this.through_axes(rest, element, index, each);
            this.builder.yield_(&[]);
            this.builder.switch_to(regions[1]);
            this.builder.yield_(&[]);
            this.builder.switch_to(around);
            this.builder.region_inst(Op::If, &[exists], &[], &regions);
            Values::new()
        });
    }
}
