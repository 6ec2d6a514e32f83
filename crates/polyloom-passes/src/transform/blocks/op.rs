//! Single instructions of a thread: where it is, and what memory it accesses.

use super::{BlockSplitter, OwnElement, ThreadContext};
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{CheckKind, Imm, Inst, InstData, MemoryScope, Op, Scalar, Type, Value, ValueDef};
use smallvec::{SmallVec, smallvec};

/// Holds what a launch with too little dynamic shared memory says.
const TOO_LITTLE_SHARED: &str = "dynamic shared memory is too small for this view: launch with more shared_bytes";

impl BlockSplitter<'_> {
    /// An instruction without regions.
    pub(super) fn plain(&mut self, at: &mut ThreadContext, inst: Inst) {
        let func = self.func;
        let data = &func.insts[inst];
        let result = match (data.op, &data.imm) {
            (Op::Const | Op::SharedArray, _) => return,
            (Op::ThreadFence, Imm::Memory(order)) if order.scope <= MemoryScope::Block => return,
            // As in the interpreter, a copy is done at once, and nobody measures how long threads sleep.
            (Op::Nanosleep | Op::AsyncCommit | Op::AsyncWait | Op::SyncWarp | Op::SyncThreads, _) => return,
            (Op::AsyncCopy, _) => return self.async_copy(at, data),
            (Op::DynamicShared, _) if self.text.is_some() && !self.is_checked() => return,
            (Op::DynamicShared, _) => return self.dynamic_shared(at, data),
            (Op::Check | Op::Assert, _) => return self.check(at, data),
            (Op::Return, _) => return self.leave(at, inst),
            (Op::Break | Op::Continue, Imm::Target(target)) => {
                let Some(&target) = at.targets.get(target) else { return self.leave(at, inst) };
                let operands = self.all_values(at, &data.operands);
                self.emit.inst(data.op, &operands, &[], Imm::Target(target));
                return;
            }
            (Op::Clock, _) => {
                self.is_ordered = true;
                let (array, zero) = (self.clock(), self.emit.int(0));
                let one = self.emit.constant(Scalar::U64, 1);
                let time = self.emit.load(array, &[zero]);
                let next = self.emit.op(Op::Add, &[time, one]);
                self.emit.store(array, &[zero], next);
                time
            }
            (Op::Dim, Imm::Axis(axis)) => self.dim(at, data.operands[0], *axis),
            (op, _) if is_index(op) => self.index(at, op, &data.imm),
            (Op::ArrayLoad | Op::LoadReadonly, _) => {
                let (array, indices) = self.place(at, data.operands[0], &data.operands[1..]);
                self.emit.load(array, &indices)
            }
            (Op::ArrayStore, _) => {
                let Some((&value, operands)) = data.operands.split_last() else { return };
                let value = self.value(at, value);
                let (array, indices) = self.place(at, operands[0], &operands[1..]);
                return self.emit.store(array, &indices, value);
            }
            (op, _) if op.info().group == OpGroup::Atomic => self.atomic(at, data),
            _ => {
                let operands = self.all_values(at, &data.operands);
                let types: SmallVec<[Type; 4]> = data.results.iter().map(|&result| func.ty(result)).collect();
                let new = self.emit.inst(data.op, &operands, &types, data.imm.clone());
                for (index, &result) in data.results.iter().enumerate() {
                    let new = self.emit.func.insts[new].results[index];
                    at.values.insert(result, new);
                    self.name(result, new);
                }
                return;
            }
        };
        at.values.insert(data.results[0], result);
        self.name(data.results[0], result);
    }

    /// A value that is cheaper to make again than to keep.
    pub(super) fn remake(&mut self, at: &mut ThreadContext, inst: Inst, old: Value) -> Value {
        let func = self.func;
        let data = &func.insts[inst];
        let made = if is_index(data.op) {
            self.index(at, data.op, &data.imm)
        } else {
            let operands = self.all_values(at, &data.operands);
            self.emit.value_with(data.op, &operands, func.ty(data.results[0]), data.imm.clone())
        };
        if self.text.is_some() {
            self.name(old, made);
        }
        made
    }

    // ---- where the thread is -------------------------------------------------------------------------------------

    /// `tid`, `thread_idx` and the like.
    fn index(&mut self, at: &mut ThreadContext, op: Op, imm: &Imm) -> Value {
        let axis = if let Imm::Axis(axis) = imm { *axis } else { 0 };
        if let Some(value) = self.text_index(at, op, axis) {
            return value;
        }
        match op {
            Op::TidLinear => self.linear(at),
            Op::Tid if self.in_a_row => self.linear(at),
            Op::Tid => {
                let (linear, inner) = (self.linear(at), self.scalar_param(BlockParam::InnerThreads(axis)));
                let one = self.emit.int(1);
                let is_innermost = self.emit.compare(Op::Eq, inner, one);
                let row =
                    self.emit.choose(is_innermost, Type::I32, |_| linear, |emit| divide(emit, Op::Div, linear, inner));
                if axis == 0 {
                    return row;
                }
                let extent = self.scalar_param(BlockParam::LaunchExtent(axis));
                divide(&mut self.emit, Op::Mod, row, extent)
            }
            Op::ThreadIdx => self.thread_idx(at, axis),
            Op::BlockIdx => {
                let mut number = self.emit.value_with(Op::Tid, &[], Type::I32, Imm::Axis(0));
                for inner in 0..axis {
                    let extent = self.scalar_param(BlockParam::GridExtent(inner));
                    number = divide(&mut self.emit, Op::Div, number, extent);
                }
                if axis == 2 {
                    return number;
                }
                let extent = self.scalar_param(BlockParam::GridExtent(axis));
                divide(&mut self.emit, Op::Mod, number, extent)
            }
            Op::BlockDim => self.block_extent(axis),
            Op::GridDim => self.scalar_param(BlockParam::GridExtent(axis)),
            Op::LaneId => match at.lane {
                Some((lane, _)) => lane,
                None => {
                    let mask = self.emit.int(WARP_SIZE - 1);
                    self.emit.op(Op::BitAnd, &[at.thread, mask])
                }
            },
            _ => match at.lane {
                Some((_, warp)) => warp,
                None => {
                    let shift = self.emit.int(WARP_SIZE.trailing_zeros());
                    self.emit.op(Op::Rshift, &[at.thread, shift])
                }
            },
        }
    }

    /// The thread's number in the launch.
    fn linear(&mut self, at: &ThreadContext) -> Value {
        self.emit.op(Op::Add, &[self.first, at.thread])
    }

    fn thread_idx(&mut self, at: &ThreadContext, axis: u8) -> Value {
        if let Some(&known) = at.coordinates.as_ref().and_then(|known| known.get(usize::from(axis))) {
            return known;
        }
        let extents = [0, 1].map(|axis| self.block_extent(axis));
        let (thread, is_flat) = (at.thread, self.is_flat);
        self.emit.choose(
            is_flat,
            Type::I32,
            |emit| if axis == 0 { thread } else { emit.int(0) },
            |emit| {
                let rows = |emit: &mut _| divide(emit, Op::Div, thread, extents[0]);
                match axis {
                    0 => divide(emit, Op::Mod, thread, extents[0]),
                    1 => {
                        let row = rows(emit);
                        divide(emit, Op::Mod, row, extents[1])
                    }
                    _ => {
                        let row = rows(emit);
                        divide(emit, Op::Div, row, extents[1])
                    }
                }
            },
        )
    }

    // ---- memory --------------------------------------------------------------------------------------------------

    fn dim(&mut self, at: &mut ThreadContext, array: Value, axis: u8) -> Value {
        if let Some(view) = self.facts.views.get(&array) {
            let Some(&extent) = view.extents.get(usize::from(axis)) else { return self.emit.int(0) };
            let extent = self.value(at, extent);
            return self.not_negative(extent);
        }
        match self.shared_imm(array) {
            Some(shared) => {
                let extent = shared.extents.get(usize::from(axis)).copied().unwrap_or(0);
                self.emit.int(extent)
            }
            None => {
                let array = self.array(array);
                self.emit.value_with(Op::Dim, &[array], Type::I32, Imm::Axis(axis))
            }
        }
    }

    fn not_negative(&mut self, value: Value) -> Value {
        let zero = self.emit.int(0);
        self.emit.op(Op::Max, &[value, zero])
    }

    /// Returns what says which static shared array this is, if it is one.
    fn shared_imm(&self, array: Value) -> Option<&polyloom_ir::SharedArray> {
        let ValueDef::Result(inst, _) = self.func.values[array].def else { return None };
        match &self.func.insts[inst].imm {
            Imm::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// The parameter that an argument or a static shared array becomes.
    fn array(&mut self, array: Value) -> Value {
        match self.shared_imm(array).cloned() {
            Some(shared) => self.shared_array(array, &shared),
            None => self.outer[array].expand().unwrap_or_else(|| {
                self.give_up("an array is chosen at run time");
                self.failed_thread()
            }),
        }
    }

    /// The array and the indices by which an element is accessed.
    fn place(&mut self, at: &mut ThreadContext, array: Value, indices: &[Value]) -> (Value, SmallVec<[Value; 4]>) {
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
    fn dynamic_shared(&mut self, at: &mut ThreadContext, data: &InstData) {
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
    fn check(&mut self, at: &mut ThreadContext, data: &InstData) {
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
    fn async_copy(&mut self, at: &mut ThreadContext, data: &InstData) {
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

    fn is_checked(&self) -> bool {
        self.func.metadata.check && !self.func.constraints.unchecked
    }

    fn array_name(&self, array: Value) -> std::sync::Arc<str> {
        let name = match self.func.param_index(array) {
            Some(index) => self.func.param_names.get(index).cloned(),
            None => self.func.value_names[array].clone(),
        };
        name.unwrap_or_default()
    }

    /// An atomic update. One thread of the CPU runs the block, so that those of its own memory are plain.
    fn atomic(&mut self, at: &mut ThreadContext, data: &InstData) -> Value {
        let func = self.func;
        let n_indices = self.facts.ndim(data.operands[0]);
        let (indices, values) = data.operands[1..].split_at(n_indices);
        let is_of_block = func.ty(data.operands[0]).space() == Some(polyloom_ir::AddressSpace::Shared);
        if is_of_block {
            // The order of threads shows where two of them update one element, and that of updates where there are two.
            let own = self.own_element(at, data.operands[0], indices);
            self.is_ordered |=
                own.is_none() || self.own_element.as_ref().is_some_and(|known| Some(known) != own.as_ref());
            self.own_element = own;
        }
        let values = self.all_values(at, values);
        let (array, indices) = self.place(at, data.operands[0], indices);
        if is_of_block {
            let old = self.emit.load(array, &indices);
            let new = self.combine(data.op, old, &values);
            self.emit.store(array, &indices, new);
            return old;
        }
        let operands = |values: &[Value]| -> SmallVec<[Value; 8]> {
            [array].iter().chain(&indices).chain(values).copied().collect()
        };
        let ty = func.ty(data.results[0]);
        if self.text.is_some() || !matches!(data.op, Op::AtomicInc | Op::AtomicDec) {
            return self.emit.value_with(data.op, &operands(&values), ty, data.imm.clone());
        }
        // Tries until no other thread has come between.
        let zero = self.emit.constant(ty.as_scalar().unwrap_or(Scalar::U32), 0);
        let first = self.emit.value_with(Op::AtomicCas, &operands(&[zero, zero]), ty, data.imm.clone());
        let inst = self.emit.inst(Op::While, &[first], &[ty], Imm::None);
        let regions = [self.emit.new_region(&[ty]), self.emit.new_region(&[ty])];
        self.emit.func.insts[inst].regions.extend(regions);
        let outside = self.emit.enter(regions[0]);
        let yes = self.emit.constant(Scalar::Bool, 1);
        self.emit.yield_(&[yes]);
        self.emit.enter(regions[1]);
        let old = self.emit.func.regions[regions[1]].params[0];
        let new = self.combine(data.op, old, &values);
        let seen = self.emit.value_with(Op::AtomicCas, &operands(&[old, new]), ty, data.imm.clone());
        let done = self.emit.compare(Op::Eq, seen, old);
        self.emit.leave_if(done, |emit| {
            emit.inst(Op::Break, &[seen], &[], Imm::Target(inst));
        });
        self.emit.yield_(&[seen]);
        self.emit.region = outside;
        self.emit.func.insts[inst].results[0]
    }

    /// Returns the element with these indices if each thread of a row of the block means another one: the indices are
    /// sums of the thread's coordinates, and one of them has the first.
    fn own_element(&self, at: &ThreadContext, array: Value, indices: &[Value]) -> Option<OwnElement> {
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

    /// Returns what an element becomes by an atomic update.
    pub(super) fn combine(&mut self, op: Op, old: Value, values: &[Value]) -> Value {
        let elem = self.emit.func.ty(old).as_scalar().unwrap_or(Scalar::I32);
        let value = values[0];
        match op {
            Op::AtomicExch => value,
            Op::AtomicCas => {
                let (a, b) = (self.bits(old), self.bits(value));
                let equal = self.emit.compare(Op::Eq, a, b);
                self.emit.select(equal, values[1], old)
            }
            Op::AtomicInc => {
                let (zero, one) = (self.emit.constant(elem, 0), self.emit.constant(elem, 1));
                let counts = self.emit.compare(Op::Lt, old, value);
                let next = self.emit.op(Op::Add, &[old, one]);
                self.emit.select(counts, next, zero)
            }
            Op::AtomicDec => {
                let (zero, one) = (self.emit.constant(elem, 0), self.emit.constant(elem, 1));
                let (is_zero, is_above) = (self.emit.compare(Op::Eq, old, zero), self.emit.compare(Op::Lt, value, old));
                let starts_again = self.emit.op(Op::BitOr, &[is_zero, is_above]);
                let next = self.emit.op(Op::Sub, &[old, one]);
                self.emit.select(starts_again, value, next)
            }
            _ => self.arithmetic(op.combination().unwrap_or(Op::Add), old, value),
        }
    }

    /// An op on two numbers of one type. Halves are computed in `f32`, as in all prepared HIR.
    pub(super) fn arithmetic(&mut self, op: Op, a: Value, b: Value) -> Value {
        let elem = self.emit.func.ty(a).as_scalar().unwrap_or(Scalar::I32);
        let wide = if elem.is_half() { Scalar::F32 } else { elem };
        let (a, b) = (self.emit.cast(a, wide), self.emit.cast(b, wide));
        let result = self.emit.op(op, &[a, b]);
        self.emit.cast(result, elem)
    }

    /// A number's bits as an integer.
    pub(super) fn bits(&mut self, value: Value) -> Value {
        match self.emit.func.ty(value).as_scalar() {
            Some(elem) if elem.is_float() => {
                let bits = match elem.bits() {
                    16 => Scalar::U16,
                    32 => Scalar::U32,
                    _ => Scalar::U64,
                };
                self.emit.value(Op::Bitcast, &[value], bits.into())
            }
            Some(Scalar::Bool) => self.emit.cast(value, Scalar::U8),
            _ => value,
        }
    }
}

/// Returns true if an op says where the thread is.
fn is_index(op: Op) -> bool {
    use Op::{BlockDim, BlockIdx, GridDim, LaneId, ThreadIdx, Tid, TidLinear, WarpId};
    matches!(op, Tid | TidLinear | ThreadIdx | BlockIdx | BlockDim | GridDim | LaneId | WarpId)
}

/// `Div` or `Mod` of `i32` that are not negative.
fn divide(emit: &mut super::emit::BlockEmitter, op: Op, a: Value, b: Value) -> Value {
    let (a, b) = (emit.cast(a, Scalar::U32), emit.cast(b, Scalar::U32));
    let result = emit.op(op, &[a, b]);
    emit.cast(result, Scalar::I32)
}
