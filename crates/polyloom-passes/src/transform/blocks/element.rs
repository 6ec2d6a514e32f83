//! The memory that a thread accesses: arrays and places in them, and what is checked of views of shared memory.

use super::{BlockSplitter, OwnElement, ThreadContext};
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::{CheckKind, Imm, InstData, Op, Scalar, Value, ValueDef};
use smallvec::{SmallVec, smallvec};

/// Holds what a launch with too little dynamic shared memory says.
const TOO_LITTLE_SHARED: &str = "dynamic shared memory is too small for this view: launch with more shared_bytes";

impl BlockSplitter<'_> {
    /// Returns what says which static shared array this is, if it is one.
    pub(super) fn shared_imm(&self, array: Value) -> Option<&polyloom_ir::SharedArray> {
        let ValueDef::Result(inst, _) = self.func.values[array].def else { return None };
        match &self.func.insts[inst].imm {
            Imm::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// The parameter that an argument or a static shared array becomes.
    pub(super) fn array(&mut self, array: Value) -> Value {
        match self.shared_imm(array).cloned() {
            Some(shared) => self.shared_array(array, &shared),
            None => self.outer[array].expand().unwrap_or_else(|| {
                self.give_up("an array is chosen at run time");
                self.failed_thread()
            }),
        }
    }

    /// The array and the indices by which an element is accessed.
    pub(super) fn place(
        &mut self,
        at: &mut ThreadContext,
        array: Value,
        indices: &[Value],
    ) -> (Value, SmallVec<[Value; 4]>) {
        let indices = self.all_values(at, indices);
        self.place_of(at, array, indices)
    }

    fn place_of(
        &mut self,
        at: &mut ThreadContext,
        array: Value,
        indices: SmallVec<[Value; 4]>,
    ) -> (Value, SmallVec<[Value; 4]>) {
        let Some(view) = self.facts.views.get(&array).cloned() else { return (self.array(array), indices) };
        let elem = self.func.ty(array).as_array().map_or(Scalar::U8, |(elem, _)| elem);
        let is_aligned = self.is_multiple(view.offset, elem.bytes());
        let offset = self.value(at, view.offset);
        let offset = self.emit.cast(offset, Scalar::I64);
        let mut number: Option<Value> = None;
        for (axis, index) in indices.into_iter().enumerate() {
            let index = self.emit.cast(index, Scalar::I64);
            number = Some(match number {
                None => index,
                Some(outer) => {
                    let extent = self.value(at, view.extents[axis]);
                    let extent = self.not_negative(extent);
                    let extent = self.emit.cast(extent, Scalar::I64);
                    let rows = self.emit.op(Op::Mul, &[outer, extent]);
                    self.emit.op(Op::Add, &[rows, index])
                }
            });
        }
        let number = number.unwrap_or(offset);
        let shift = self.emit.constant(Scalar::I64, elem.bytes().trailing_zeros().into());
        let place = match is_aligned {
            true => {
                let first = self.emit.op(Op::Rshift, &[offset, shift]);
                self.emit.op(Op::Add, &[first, number])
            }
            false => {
                let bytes = self.emit.op(Op::Lshift, &[number, shift]);
                self.emit.op(Op::Add, &[offset, bytes])
            }
        };
        (self.dynamic_array(elem, !is_aligned), smallvec![place])
    }

    /// Returns true if a value is seen to be a multiple of a power of two.
    fn is_multiple(&self, value: Value, of: u32) -> bool {
        if let Some(bits) = self.func.as_const(value) {
            return bits % u64::from(of) == 0;
        }
        let ValueDef::Result(inst, _) = self.func.values[value].def else { return of == 1 };
        let data = &self.func.insts[inst];
        match (data.op, &data.operands[..]) {
            (Op::Mul, &[a, b]) => self.is_multiple(a, of) || self.is_multiple(b, of),
            (Op::Add | Op::Sub, &[a, b]) => self.is_multiple(a, of) && self.is_multiple(b, of),
            (Op::Lshift, &[a, b]) => {
                let by = self.func.as_const(b).is_some_and(|by| (u64::from(of.trailing_zeros())..32).contains(&by));
                by || self.is_multiple(a, of)
            }
            _ => of == 1,
        }
    }

    /// A view of dynamic shared memory: ends the launch unless there is as much.
    pub(super) fn dynamic_shared(&mut self, at: &mut ThreadContext, data: &InstData) {
        let elem = self.func.ty(data.results[0]).as_array().map_or(Scalar::U8, |(elem, _)| elem);
        let values = self.all_values(at, &data.operands);
        let zero = self.emit.constant(Scalar::I64, 0);
        let mut bytes = self.emit.constant(Scalar::I64, elem.bytes().into());
        for &extent in &values[1..] {
            let extent = self.not_negative(extent);
            let extent = self.emit.cast(extent, Scalar::I64);
            bytes = self.emit.op(Op::Mul, &[bytes, extent]);
        }
        let offset = self.emit.cast(values[0], Scalar::I64);
        let end = self.emit.op(Op::Add, &[offset, bytes]);
        let limit = self.scalar_param(BlockParam::SharedBytes);
        let limit = self.emit.cast(limit, Scalar::I64);
        let (begins, ends) = (self.emit.compare(Op::Ge, offset, zero), self.emit.compare(Op::Le, end, limit));
        let fits = self.emit.op(Op::BitAnd, &[begins, ends]);
        // A view without elements may be anywhere, since nothing is read or written through it.
        let is_empty = self.emit.compare(Op::Eq, bytes, zero);
        let fits = self.emit.op(Op::BitOr, &[fits, is_empty]);
        self.fail_unless(at, fits, |emit, cond| {
            emit.inst(Op::Assert, &[cond], &[], Imm::Text(TOO_LITTLE_SHARED.into()));
        });
    }

    /// `check` and `assert`: a thread that fails leaves its number.
    pub(super) fn check(&mut self, at: &mut ThreadContext, data: &InstData) {
        let operands = self.all_values(at, &data.operands);
        self.fail_unless(at, operands[0], |emit, _| {
            emit.inst(data.op, &operands, &[], data.imm.clone());
        });
    }

    fn fail_unless(
        &mut self,
        at: &ThreadContext,
        cond: Value,
        fail: impl FnOnce(&mut super::emit::BlockEmitter, Value),
    ) {
        let failed = self.failed_thread();
        if self.text.is_some() {
            let zero = self.emit.int(0);
            self.emit.store(failed, &[zero], at.thread);
            return fail(&mut self.emit, cond);
        }
        let no = self.emit.constant(Scalar::Bool, 0);
        let fails = self.emit.compare(Op::Eq, cond, no);
        let thread = at.thread;
        self.emit.when(fails, |emit| {
            let zero = emit.int(0);
            emit.store(failed, &[zero], thread);
            fail(emit, cond);
        });
    }

    /// Copies elements one after another.
    pub(super) fn async_copy(&mut self, at: &mut ThreadContext, data: &InstData) {
        let Imm::Copy(copy) = data.imm else { return };
        let n_to = 1 + self.facts.ndim(data.operands[0]);
        let (to, from) = data.operands.split_at(n_to);
        for number in 0..copy.count {
            let (array, indices) = self.place_behind(at, from, number);
            let value = self.emit.load(array, &indices);
            let (array, indices) = self.place_behind(at, to, number);
            self.emit.store(array, &indices, value);
        }
    }

    /// The element so many places behind that of these operands, an array and indices of any sign, along the last axis.
    fn place_behind(
        &mut self,
        at: &mut ThreadContext,
        operands: &[Value],
        number: u8,
    ) -> (Value, SmallVec<[Value; 4]>) {
        let array = operands[0];
        let mut indices = self.all_values(at, &operands[1..]);
        if let Some(last) = indices.last_mut() {
            let ty = self.emit.func.ty(*last).as_scalar().unwrap_or(Scalar::I32);
            let number = self.emit.constant(ty, number.into());
            *last = self.emit.op(Op::Add, &[*last, number]);
        }
        for (axis, index) in indices.iter_mut().enumerate() {
            if !self.emit.func.ty(*index).as_scalar().is_some_and(Scalar::is_signed_int) {
                continue;
            }
            let wide = self.emit.cast(*index, Scalar::I64);
            let extent = self.dim(at, array, axis as u8);
            let extent = self.emit.cast(extent, Scalar::I64);
            let zero = self.emit.constant(Scalar::I64, 0);
            let is_negative = self.emit.compare(Op::Lt, wide, zero);
            let from_end = self.emit.op(Op::Add, &[wide, extent]);
            *index = self.emit.select(is_negative, from_end, wide);
            if self.is_checked() {
                let (above, below) =
                    (self.emit.compare(Op::Ge, *index, zero), self.emit.compare(Op::Lt, *index, extent));
                let inside = self.emit.op(Op::BitAnd, &[above, below]);
                let name = self.array_name(array);
                self.fail_unless(at, inside, |emit, cond| {
                    let kind = CheckKind::Bounds { array: name, axis: axis as u8, unsigned: false };
                    emit.inst(Op::Check, &[cond, wide, extent], &[], Imm::Check(kind));
                });
            }
        }
        self.place_of(at, array, indices)
    }

    pub(super) fn is_checked(&self) -> bool {
        self.func.metadata.check && !self.func.constraints.unchecked
    }

    fn array_name(&self, array: Value) -> std::sync::Arc<str> {
        let name = match self.func.param_index(array) {
            Some(index) => self.func.param_names.get(index).cloned(),
            None => self.func.value_names[array].clone(),
        };
        name.unwrap_or_default()
    }

    /// Returns the element with these indices if each thread of a row of the block means another one: the indices are
    /// sums of the thread's coordinates, and one of them has the first.
    pub(super) fn own_element(&self, at: &ThreadContext, array: Value, indices: &[Value]) -> Option<OwnElement> {
        let func = self.func;
        // Lanes of a warp may be of different rows.
        let in_rows = at.lane.is_none();
        let axis_of = |value: Value| match func.values[value].def {
            ValueDef::Result(inst, _) => match (func.insts[inst].op, &func.insts[inst].imm) {
                (Op::ThreadIdx, &Imm::Axis(axis)) => Some(axis),
                _ => None,
            },
            ValueDef::Param(..) => None,
        };
        let axis = |term: AffineTerm| if let AffineTerm::Value(value) = term { axis_of(value) } else { None };
        let sums: SmallVec<[AffineSum; 2]> = indices.iter().map(|&index| AffineSum::of(func, index)).collect();
        let of_coordinates = sums.iter().flat_map(|sum| &sum.terms).all(|&(term, _)| axis(term).is_some());
        // In 32 bits multiples of different numbers may be one.
        let has_first =
            sums.iter().flat_map(|sum| &sum.terms).any(|&(term, by)| axis(term) == Some(0) && by.abs() == 1);
        (in_rows && of_coordinates && has_first).then_some((array, sums))
    }
}
