//! What the threads of a block or a warp compute together: barriers, votes, shuffles, reductions, products by the
//! tensor core. What each gives, `interp/blocks.rs` of `polyloom-ir` defines.
//!
//! The result of a vote is carried through the loop over threads. For others, the lanes put their operands where all
//! find them; what they have in common is computed from that outside of the loops over lanes, and what each has of its
//! own at the beginning of the next loop.

use super::facts::ThreadLevel;
use super::thread_loops::ThreadItem;
use super::{BlockSplitter, EmitScope, ThreadContext};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::fragment::{
    LaneCoordinate, LanePart, LanePlace, MatrixRole, TF32_BITS, accumulator, flat_operands, place,
};
use polyloom_ir::{Imm, Inst, Op, Scalar, Type, Value};
use smallvec::{SmallVec, smallvec};

impl BlockSplitter<'_> {
    /// Returns how many of the first operands of an instruction each thread gives away.
    pub(super) fn n_given(&self, inst: Inst) -> u32 {
        let data = &self.func.insts[inst];
        match data.op {
            Op::Mma => data.operands.len() as u32,
            Op::SyncWarp | Op::SyncThreads => 0,
            _ => data.operands.len().min(1) as u32,
        }
    }

    /// An instruction that the threads execute together.
    pub(super) fn together(&mut self, around: &EmitScope, inst: Inst, pending: &mut Vec<ThreadItem>) {
        let data = &self.func.insts[inst];
        match data.op {
            Op::SyncThreads | Op::SyncWarp => self.flush(around, pending, false),
            Op::SyncThreadsAnd | Op::SyncThreadsOr | Op::SyncThreadsCount | Op::Ballot | Op::WarpAny | Op::WarpAll => {
                // A vote of the block is none of its warps one by one.
                let in_warps = pending.iter().any(|item| self.holds_together(ThreadLevel::Warp, item));
                if around.level == ThreadLevel::Block && in_warps {
                    self.flush(around, pending, false);
                }
                pending.push(ThreadItem::Vote(inst));
                self.flush(around, pending, false);
                self.keep_beyond_warp(around, data.results[0], pending);
            }
            Op::Mma => {
                if self.exchange_matrices(inst).is_none() {
                    self.give_up("the matrices of a product have types that it does not take");
                    return;
                }
                self.clear_matrices(around, inst);
                pending.push(ThreadItem::Give(inst));
                self.flush(around, pending, false);
                self.emit.span = data.span;
                self.multiply(inst);
                pending.push(ThreadItem::Receive(inst));
            }
            Op::MatchAll => {
                pending.push(ThreadItem::Give(inst));
                self.flush(around, pending, false);
                self.emit.span = data.span;
                let result = self.match_all(around, inst);
                self.set_outer(around.level, data.results[0], result);
                self.keep_beyond_warp(around, data.results[0], pending);
            }
            op if op.info().reduces_by().is_some() => {
                pending.push(ThreadItem::Give(inst));
                self.flush(around, pending, false);
                self.emit.span = data.span;
                let result = self.reduce(around, inst);
                self.set_outer(around.level, data.results[0], result);
                self.keep_beyond_warp(around, data.results[0], pending);
            }
            Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor | Op::MatchAny => {
                pending.push(ThreadItem::Give(inst));
                self.flush(around, pending, false);
                pending.push(ThreadItem::Receive(inst));
            }
            _ => self.give_up("threads of a block do this together only on a GPU"),
        }
    }

    // ---- votes ---------------------------------------------------------------------------------------------------

    /// Returns what the result of a vote is before anyone has voted.
    pub(super) fn before_vote(&mut self, inst: Inst) -> Value {
        match self.func.insts[inst].op {
            Op::SyncThreadsAnd | Op::WarpAll => self.emit.constant(Scalar::Bool, 1),
            Op::SyncThreadsCount => self.emit.int(0),
            Op::Ballot => self.emit.constant(Scalar::U32, 0),
            _ => self.emit.constant(Scalar::Bool, 0),
        }
    }

    /// Returns what it is after a thread has voted.
    pub(super) fn vote(&mut self, at: &mut ThreadContext, inst: Inst, before: Value) -> Value {
        let data = &self.func.insts[inst];
        let predicate = self.value(at, data.operands[0]);
        match data.op {
            Op::SyncThreadsAnd | Op::WarpAll => self.emit.op(Op::BitAnd, &[before, predicate]),
            Op::SyncThreadsCount => {
                let one = self.emit.cast(predicate, Scalar::I32);
                self.emit.op(Op::Add, &[before, one])
            }
            Op::Ballot => {
                let bit = self.emit.cast(predicate, Scalar::U32);
                let bit = self.at_lane(at, bit);
                self.emit.op(Op::BitOr, &[before, bit])
            }
            _ => self.emit.op(Op::BitOr, &[before, predicate]),
        }
    }

    /// A bit moved to where that of the thread's lane is.
    fn at_lane(&mut self, at: &ThreadContext, bit: Value) -> Value {
        let lane = match at.lane {
            Some((lane, _)) => lane,
            None => self.emit.int(0),
        };
        self.shift_to(bit, lane)
    }

    fn shift_to(&mut self, bit: Value, lane: Value) -> Value {
        let lane = self.emit.cast(lane, Scalar::U32);
        self.emit.op(Op::Lshift, &[bit, lane])
    }

    // ---- exchanges -----------------------------------------------------------------------------------------------

    /// Returns where the lanes put the operand of an instruction.
    fn exchange(&mut self, inst: Inst) -> Value {
        if let Some(known) = self.exchanges.get(&inst) {
            return known[0];
        }
        let elem = self.facts.scalar(self.func.insts[inst].operands[0]).unwrap_or(Scalar::I32);
        let array = self.per_lane("lanes", elem);
        self.exchanges.insert(inst, smallvec![array]);
        array
    }

    /// Puts a thread's operands where the others find them.
    pub(super) fn give(&mut self, at: &mut ThreadContext, inst: Inst) {
        let data = &self.func.insts[inst];
        let Some((lane, _)) = at.lane else {
            self.give_up("a warp operation stands where its lanes are not together");
            return;
        };
        if data.op == Op::Mma {
            return self.give_fragments(at, inst, lane);
        }
        let array = self.exchange(inst);
        let value = self.value(at, data.operands[0]);
        self.emit.store(array, &[lane], value);
    }

    /// Gives a thread its results.
    pub(super) fn receive(&mut self, around: &EmitScope, at: &mut ThreadContext, inst: Inst) {
        let data = &self.func.insts[inst];
        let Some((lane, _)) = at.lane else {
            self.give_up("a warp operation stands where its lanes are not together");
            return;
        };
        if data.op == Op::Mma {
            return self.receive_fragments(at, inst, lane);
        }
        let array = self.exchange(inst);
        let result = if data.op == Op::MatchAny {
            let own = self.emit.load(array, &[lane]);
            self.lanes_with(around, array, own)
        } else {
            let by = self.value(at, data.operands[1]);
            let source = self.source_lane(inst, lane, by);
            self.call_in_text(&[(source, "source")]);
            // A lane whose source is not there gets its own value.
            let is_there = self.emit.compare(Op::Lt, source, around.count);
            let source = self.emit.select(is_there, source, lane);
            self.emit.load(array, &[source])
        };
        at.values.insert(data.results[0], result);
        self.name(data.results[0], result);
    }

    /// The lane that a lane's shuffle reads: PTX ISA 9.0 §9.7.9.6, with the clamp that CUDA's functions give it.
    fn source_lane(&mut self, inst: Inst, lane: Value, by: Value) -> Value {
        let data = &self.func.insts[inst];
        let width = if let Imm::Width(width) = data.imm { u32::from(width) } else { WARP_SIZE };
        let (all, in_group) = (self.emit.int(WARP_SIZE - 1), self.emit.int(width - 1));
        let by = self.emit.op(Op::BitAnd, &[by, all]);
        let (mut first, mut end) = (self.emit.int(0), self.emit.int(width));
        if width < WARP_SIZE {
            let inside = self.emit.op(Op::BitAnd, &[lane, in_group]);
            first = self.emit.op(Op::Sub, &[lane, inside]);
            end = self.emit.op(Op::Add, &[first, end]);
        }
        let (source, is_inside) = match data.op {
            Op::Shuffle => {
                let by = self.emit.op(Op::BitAnd, &[by, in_group]);
                return self.emit.op(Op::Add, &[first, by]);
            }
            Op::ShuffleUp => {
                let source = self.emit.op(Op::Sub, &[lane, by]);
                (source, self.emit.compare(Op::Ge, source, first))
            }
            Op::ShuffleDown => {
                let source = self.emit.op(Op::Add, &[lane, by]);
                (source, self.emit.compare(Op::Lt, source, end))
            }
            _ => {
                let source = self.emit.op(Op::BitXor, &[lane, by]);
                (source, self.emit.compare(Op::Lt, source, end))
            }
        };
        self.emit.select(is_inside, source, lane)
    }

    /// In which lanes an array has the bits of a value.
    fn lanes_with(&mut self, around: &EmitScope, array: Value, value: Value) -> Value {
        let bits = self.bits(value);
        let (zero, none) = (self.emit.int(0), self.emit.constant(Scalar::U32, 0));
        let this = self.emit.begin_loop(zero, around.count, &[none]);
        let (lane, mask) = (this.params[0], this.params[1]);
        let other = self.emit.load(array, &[lane]);
        let other = self.bits(other);
        let same = self.emit.compare(Op::Eq, other, bits);
        let same = self.emit.cast(same, Scalar::U32);
        let bit = self.shift_to(same, lane);
        let mask = self.emit.op(Op::BitOr, &[mask, bit]);
        self.emit.end_loop(this, &[mask])[0]
    }

    fn match_all(&mut self, around: &EmitScope, inst: Inst) -> Value {
        let array = self.exchange(inst);
        let zero = self.emit.int(0);
        let first = self.emit.load(array, &[zero]);
        let mask = self.lanes_with(around, array, first);
        // All lanes there are, which may be all 32.
        let (one, minus_one) = (self.emit.constant(Scalar::U64, 1), self.emit.constant(Scalar::U64, 1));
        let count = self.emit.cast(around.count, Scalar::U64);
        let all = self.emit.op(Op::Lshift, &[one, count]);
        let all = self.emit.op(Op::Sub, &[all, minus_one]);
        let all = self.emit.cast(all, Scalar::U32);
        let is_all = self.emit.compare(Op::Eq, mask, all);
        let none = self.emit.constant(Scalar::U32, 0);
        self.emit.select(is_all, all, none)
    }

    /// Combines the values of the lanes in the order of a tree. What the lanes above a half come to meanwhile, lane 0
    /// never sees, so that it is not computed.
    fn reduce(&mut self, around: &EmitScope, inst: Inst) -> Value {
        let array = self.exchange(inst);
        let op = self.func.insts[inst].op.info().reduces_by().unwrap_or(Op::Add);
        let zero = self.emit.int(0);
        if self.text.is_none() {
            for distance in [16, 8, 4, 2, 1] {
                let distance = self.emit.int(distance);
                self.reduce_over(around, array, op, distance);
            }
            return self.emit.load(array, &[zero]);
        }
        let steps = self.emit.int(5);
        let this = self.emit.begin_loop(zero, steps, &[]);
        let half = self.emit.int(WARP_SIZE / 2);
        let distance = self.emit.op(Op::Rshift, &[half, this.params[0]]);
        self.call_in_text(&[(this.params[0], "step"), (distance, "distance")]);
        self.reduce_over(around, array, op, distance);
        self.emit.end_loop(this, &[]);
        self.emit.load(array, &[zero])
    }

    /// Combines the value of each of the first lanes with that of the lane at a distance behind it.
    fn reduce_over(&mut self, around: &EmitScope, array: Value, op: Op, distance: Value) {
        let zero = self.emit.int(0);
        let behind = self.emit.op(Op::Sub, &[around.count, distance]);
        let end = self.emit.op(Op::Min, &[behind, distance]);
        let this = self.emit.begin_loop(zero, end, &[]);
        let lane = this.params[0];
        self.call_in_text(&[(lane, "lane")]);
        let other = self.emit.op(Op::Add, &[lane, distance]);
        let (a, b) = (self.emit.load(array, &[lane]), self.emit.load(array, &[other]));
        let sum = self.arithmetic(op, a, b);
        self.emit.store(array, &[lane], sum);
        self.emit.end_loop(this, &[]);
    }

    // ---- products by the tensor core -----------------------------------------------------------------------------

    /// The types of the factors and of the sums of an `mma`, and its number of columns.
    fn shape_of(&self, inst: Inst) -> Option<(Scalar, Scalar, u8)> {
        let operands = &self.func.insts[inst].operands;
        let types: SmallVec<[Type; 24]> = operands.iter().map(|&operand| self.func.ty(operand)).collect();
        let (factor, n) = flat_operands(&types)?;
        Some((factor, accumulator(factor)?, n))
    }

    /// The three matrices, of the sums' type.
    fn exchange_matrices(&mut self, inst: Inst) -> Option<[Value; 3]> {
        let (_, sum, n) = self.shape_of(inst)?;
        if !self.exchanges.contains_key(&inst) {
            let [a, b, c] = [("mma.a", 16), ("mma.b", n), ("mma.c", n)]
                .map(|(name, columns)| self.fixed(name, sum, &[16, columns.into()]));
            self.exchanges.insert(inst, smallvec![a, b, c]);
        }
        self.exchanges.get(&inst).map(|known| [known[0], known[1], known[2]])
    }

    /// Elements that are those of lanes that are not there count as zeros.
    fn clear_matrices(&mut self, around: &EmitScope, inst: Inst) {
        let (Some(matrices), Some((_, sum, n))) = (self.exchange_matrices(inst), self.shape_of(inst)) else { return };
        let size = self.emit.int(WARP_SIZE);
        let some_missing = self.emit.compare(Op::Lt, around.count, size);
        let regions = [self.emit.new_region(&[]), self.emit.new_region(&[])];
        let branch = self.emit.inst(Op::If, &[some_missing], &[], Imm::None);
        self.emit.func.insts[branch].regions.extend(regions);
        let outside = self.emit.enter(regions[0]);
        let (zero, rows) = (self.emit.constant(sum, 0), self.emit.int(16));
        for (matrix, columns) in matrices.into_iter().zip([16, n, n]) {
            let columns = self.emit.int(columns.into());
            self.fill(matrix, zero, &[rows, columns]);
        }
        self.emit.yield_(&[]);
        self.emit.enter(regions[1]);
        self.emit.yield_(&[]);
        self.emit.region = outside;
    }

    /// Returns where in its matrix a lane has an element.
    fn place_in_matrix(&mut self, place: LanePlace, lane: Value) -> [Value; 2] {
        [place.row, place.column].map(|coordinate| self.coordinate(coordinate, lane))
    }

    fn coordinate(&mut self, coordinate: LaneCoordinate, lane: Value) -> Value {
        let part = match coordinate.part {
            LanePart::Group => {
                let shift = self.emit.int(2);
                self.emit.op(Op::Rshift, &[lane, shift])
            }
            LanePart::Member => {
                let mask = self.emit.int(3);
                self.emit.op(Op::BitAnd, &[lane, mask])
            }
        };
        let (factor, offset) = (self.emit.int(coordinate.factor.into()), self.emit.int(coordinate.offset.into()));
        let product = self.emit.op(Op::Mul, &[part, factor]);
        self.emit.op(Op::Add, &[product, offset])
    }

    /// Whose element each operand of an `mma` is, by operand, and its number in the lane's part.
    fn parts(n: u8) -> impl Iterator<Item = (MatrixRole, usize)> {
        let half = usize::from(n / 2);
        let part = |matrix, len| (0..len).map(move |i| (matrix, i));
        part(MatrixRole::A, 8).chain(part(MatrixRole::B, half)).chain(part(MatrixRole::C, half))
    }

    fn give_fragments(&mut self, at: &mut ThreadContext, inst: Inst, lane: Value) {
        let (Some(matrices), Some((factor, sum, n))) = (self.exchange_matrices(inst), self.shape_of(inst)) else {
            return;
        };
        let operands = self.func.insts[inst].operands.clone();
        for ((matrix, number), &operand) in Self::parts(n).zip(&operands) {
            let mut value = self.value(at, operand);
            if matrix != MatrixRole::C {
                value = self.factor(factor, sum, value);
            }
            let indices = self.place_in_matrix(place(matrix, factor, number), lane);
            let to = match matrix {
                MatrixRole::A => matrices[0],
                MatrixRole::B => matrices[1],
                MatrixRole::C => matrices[2],
            };
            self.emit.store(to, &indices, value);
        }
    }

    /// A factor as the tensor core multiplies it.
    fn factor(&mut self, factor: Scalar, sum: Scalar, value: Value) -> Value {
        if factor != Scalar::F32 {
            return self.emit.cast(value, sum);
        }
        let bits = self.bits(value);
        let mask = self.emit.constant(Scalar::U32, TF32_BITS.into());
        let upper = self.emit.op(Op::BitAnd, &[bits, mask]);
        self.emit.value(Op::Bitcast, &[upper], Type::F32)
    }

    /// Adds the products of rows and columns, the first product of each element first.
    fn multiply(&mut self, inst: Inst) {
        let (Some([a, b, c]), Some((_, sum, n))) = (self.exchange_matrices(inst), self.shape_of(inst)) else { return };
        let (zero, sixteen, columns) = (self.emit.int(0), self.emit.int(16), self.emit.int(n.into()));
        let rows = self.emit.begin_loop(zero, sixteen, &[]);
        let products = self.emit.begin_loop(zero, sixteen, &[]);
        let (row, k) = (rows.params[0], products.params[0]);
        let left = self.emit.load(a, &[row, k]);
        let each = self.emit.begin_loop(zero, columns, &[]);
        let column = each.params[0];
        let (right, before) = (self.emit.load(b, &[k, column]), self.emit.load(c, &[row, column]));
        let after = match sum {
            Scalar::F32 => self.emit.op(Op::Fma, &[left, right, before]),
            _ => {
                let product = self.emit.op(Op::Mul, &[left, right]);
                self.emit.op(Op::Add, &[product, before])
            }
        };
        self.emit.store(c, &[row, column], after);
        self.emit.end_loop(each, &[]);
        self.emit.end_loop(products, &[]);
        self.emit.end_loop(rows, &[]);
    }

    fn receive_fragments(&mut self, at: &mut ThreadContext, inst: Inst, lane: Value) {
        let (Some([.., c]), Some((factor, ..))) = (self.exchange_matrices(inst), self.shape_of(inst)) else { return };
        for (number, &result) in self.func.insts[inst].results.iter().enumerate() {
            let indices = self.place_in_matrix(place(MatrixRole::C, factor, number), lane);
            let value = self.emit.load(c, &indices);
            at.values.insert(result, value);
            self.name(result, value);
        }
    }
}
