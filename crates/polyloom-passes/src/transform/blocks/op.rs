//! Single instructions of a thread: where it is, and what memory it accesses.

use super::{BlockSplitter, ThreadContext};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Imm, Inst, InstData, MemoryScope, Op, Scalar, Type, Value};
use smallvec::SmallVec;

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

    pub(super) fn dim(&mut self, at: &mut ThreadContext, array: Value, axis: u8) -> Value {
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

    pub(super) fn not_negative(&mut self, value: Value) -> Value {
        let zero = self.emit.int(0);
        self.emit.op(Op::Max, &[value, zero])
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
